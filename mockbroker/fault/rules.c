/*
 * rules.c - see rules.h.
 */
#include "mockbroker/fault/rules.h"

#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/request.h"
#include "protocol/api_keys.h"
#include "protocol/messages/CreateTopics.h"
#include "protocol/messages/Fetch.h"
#include "protocol/messages/ListOffsets.h"
#include "protocol/messages/Metadata.h"
#include "protocol/messages/OffsetForLeaderEpoch.h"
#include "protocol/messages/Produce.h"
#include "util/alloc.h"
#include "util/list.h"

struct rule {
    struct list link;
    struct fault_rule is;
    char *topic;
    int64_t id, seen, hits;
};

struct fault_rules {
    struct list active;
    struct list done; /* have struck as often as they should */
    int64_t last_id;
};

int fault_rules_new(struct fault_rules **out, cafka_error *err)
{
    struct fault_rules *rules = mem_zalloc(sizeof *rules);
    if (!rules)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for fault rules");
    list_init(&rules->active);
    list_init(&rules->done);
    *out = rules;
    return CAFKA_OK;
}

static void free_all(struct list *list)
{
    for (struct list *link; (link = list_pop_front(list));) {
        struct rule *rule = list_item(link, struct rule, link);
        mem_free(rule->topic);
        mem_free(rule);
    }
}

void fault_rules_clear(struct fault_rules *rules)
{
    free_all(&rules->active);
    free_all(&rules->done);
}

void fault_rules_free(struct fault_rules *rules)
{
    if (!rules)
        return;
    fault_rules_clear(rules);
    mem_free(rules);
}

int fault_rule_add(struct fault_rules *rules, const struct fault_rule *what, int64_t *id,
                   cafka_error *err)
{
    struct rule *rule = mem_zalloc(sizeof *rule);
    char *topic = mem_strdup(what->topic);
    if (!rule || (what->topic && !topic)) {
        mem_free(rule);
        mem_free(topic);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a fault rule");
    }
    rule->is = *what;
    rule->is.topic = rule->topic = topic;
    rule->id = ++rules->last_id;
    list_push_back(&rules->active, &rule->link);
    if (id)
        *id = rule->id;
    return CAFKA_OK;
}

static int64_t hits_in(const struct list *list, int64_t id)
{
    for (const struct list *link = list->next; link != list; link = link->next) {
        const struct rule *rule = list_item(link, struct rule, link);
        if (rule->id == id)
            return rule->hits;
    }
    return -1;
}

int64_t fault_rule_hits(const struct fault_rules *rules, int64_t id)
{
    int64_t hits = hits_in(&rules->active, id);
    return hits >= 0 ? hits : hits_in(&rules->done, id);
}

/* --- does a request name a topic? --- */

struct wanted {
    struct str name;
    const struct topic_image *topic; /* NULL: not known to the broker */
};

static bool is_it(const struct wanted *w, struct str name, struct uuid id)
{
    return (name.size && str_equal(name, w->name)) ||
           (w->topic && !uuid_is_zero(id) && uuid_equal(id, w->topic->id));
}

#define NAMES_TOPIC(list, item_name, item_id) \
    do { \
        for (int32_t i = 0; i < (list##_count); i++) \
            if (is_it(&w, (list)[i].item_name, (item_id))) \
                return true; \
    } while (0)

static bool names_topic(const struct request_context *ctx, const char *name)
{
    static const struct uuid none;
    struct wanted w = {str_of(name), image_topic(&ctx->broker->image, str_of(name))};
    switch (ctx->api->key) {
    case API_PRODUCE: {
        const struct produce_request *r = ctx->body;
        NAMES_TOPIC(r->topic_data, name, r->topic_data[i].topic_id);
        return false;
    }
    case API_FETCH: {
        const struct fetch_request *r = ctx->body;
        NAMES_TOPIC(r->topics, topic, r->topics[i].topic_id);
        return false;
    }
    case API_LIST_OFFSETS: {
        const struct list_offsets_request *r = ctx->body;
        NAMES_TOPIC(r->topics, name, none);
        return false;
    }
    case API_METADATA: {
        const struct metadata_request *r = ctx->body;
        NAMES_TOPIC(r->topics, name, r->topics[i].topic_id);
        return r->topics_count < 0; /* all topics */
    }
    case API_CREATE_TOPICS: {
        const struct create_topics_request *r = ctx->body;
        NAMES_TOPIC(r->topics, name, none);
        return false;
    }
    case API_OFFSET_FOR_LEADER_EPOCH: {
        const struct offset_for_leader_epoch_request *r = ctx->body;
        NAMES_TOPIC(r->topics, topic, none);
        return false;
    }
    default: return false;
    }
}

/* --- striking --- */

static bool matches(const struct rule *rule, const struct request_context *ctx)
{
    return (rule->is.api < 0 || rule->is.api == ctx->api->key) &&
           (!rule->is.broker || rule->is.broker == ctx->broker->id) &&
           (!rule->is.topic || names_topic(ctx, rule->is.topic));
}

static bool strike(const struct rule *rule, struct request_context *ctx)
{
    switch (rule->is.action) {
    case FAULT_ERROR: request_fail(ctx, rule->is.code); return true;
    case FAULT_CLOSE: request_close(ctx); return true;
    case FAULT_CLOSE_AFTER: ctx->drop_answer = true; return false;
    case FAULT_DELAY: ctx->delay_ms = rule->is.delay_ms; return false;
    }
    return false;
}

bool fault_apply(struct request_context *ctx)
{
    struct fault_rules *rules = ctx->broker->cluster->faults;
    struct list *link, *after;
    if (list_empty(&rules->active))
        return false;
    list_each(link, after, &rules->active)
    {
        struct rule *rule = list_item(link, struct rule, link);
        if (!matches(rule, ctx) || rule->seen++ < rule->is.skip)
            continue;
        rule->hits++;
        if (rule->is.count && rule->hits >= rule->is.count) {
            list_remove(&rule->link);
            list_push_back(&rules->done, &rule->link);
        }
        return strike(rule, ctx);
    }
    return false;
}
