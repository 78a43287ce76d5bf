/*
 * offsets.c - ListOffsets: each partition's leader knows. Rounds of "who leads what" and one
 * question to each leader, all at the same time, until all is answered or the time is over. A leader
 * that cannot be reached ends its question at once: another may lead by then.
 */
#include "admin/admin.h"

#include <string.h>

#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/errors.h"
#include "protocol/messages/ListOffsets.h"
#include "util/alloc.h"

enum { NOBODY = -1000 }; /* no leader to ask in this round */

struct query_state {
    bool decided;
    int32_t leader;
    int32_t leader_epoch;
};

struct round {
    cafka_offset_query *queries;
    struct query_state *states;
    size_t count;
    unsigned flags;
};

/* The part of a round that one leader is asked. */
struct leader_question {
    struct round *round;
    int32_t leader;
};

static bool is_asked(const struct leader_question *q, size_t i)
{
    return !q->round->states[i].decided && q->round->states[i].leader == q->leader;
}

static void decide(struct round *r, size_t i, int code, const char *text)
{
    cafka_offset_query *q = &r->queries[i];
    error_clear(&q->error);
    if (code)
        error_set(&q->error, code, "offsets of %s-%d: %s", q->topic, q->partition, text);
    r->states[i].decided = !code || !(q->error.flags & CAFKA_RETRIABLE);
}

/* --- the question to one leader --- */

static int version_for(int64_t time_ms)
{
    switch (time_ms) {
    case CAFKA_TIME_MAX: return 7;
    case CAFKA_TIME_EARLIEST_LOCAL: return 8;
    case CAFKA_TIME_LATEST_TIERED: return 9;
    default: return 0;
    }
}

static int check_version(const struct leader_question *q, size_t i, int version, cafka_error *err)
{
    int64_t time_ms = q->round->queries[i].time_ms;
    if (version < version_for(time_ms))
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "broker %d is too old for this kind of offset (%lld)", q->leader,
                         (long long)time_ms);
    return CAFKA_OK;
}

static struct list_offsets_request_list_offsets_topic *topic_in(struct list_offsets_request *body,
                                                                const char *name)
{
    for (int32_t t = 0; t < body->topics_count; t++)
        if (str_is(body->topics[t].name, name))
            return &body->topics[t];
    return NULL;
}

static int build(struct operation *op, int version, cafka_error *err)
{
    const struct leader_question *q = op->user;
    const struct round *r = q->round;
    struct list_offsets_request *body = admin_memory(op, 1, sizeof *body, err);
    if (!body)
        return CAFKA_ERR_MEMORY;
    list_offsets_request_init(body);
    body->replica_id = -1;
    body->isolation_level = r->flags & CAFKA_READ_COMMITTED ? 1 : 0;
    if (version < 2 && body->isolation_level)
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "broker %d is too old for the last stable offset", q->leader);
    if (version >= 10)
        body->timeout_ms = admin_broker_timeout_ms(op);
    body->topics = admin_memory(op, r->count, sizeof *body->topics, err);
    if (!body->topics)
        return CAFKA_ERR_MEMORY;
    for (size_t i = 0; i < r->count; i++) {
        if (!is_asked(q, i))
            continue;
        int rc = check_version(q, i, version, err);
        if (rc)
            return rc;
        struct list_offsets_request_list_offsets_topic *t = topic_in(body, r->queries[i].topic);
        if (!t) {
            t = &body->topics[body->topics_count++];
            list_offsets_request_list_offsets_topic_init(t);
            t->name = str_of(r->queries[i].topic);
            t->partitions = admin_memory(op, r->count, sizeof *t->partitions, err);
            if (!t->partitions)
                return CAFKA_ERR_MEMORY;
        }
        struct list_offsets_request_list_offsets_partition *p =
            &t->partitions[t->partitions_count++];
        list_offsets_request_list_offsets_partition_init(p);
        p->partition_index = r->queries[i].partition;
        p->timestamp = r->queries[i].time_ms;
        if (version >= 4)
            p->current_leader_epoch = r->states[i].leader_epoch;
    }
    op->call.body = body;
    return CAFKA_OK;
}

static void take_partition(const struct leader_question *question, struct str topic, int version,
                           const struct list_offsets_response_list_offsets_partition_response *p)
{
    struct round *r = question->round;
    for (size_t i = 0; i < r->count; i++) {
        cafka_offset_query *q = &r->queries[i];
        if (!is_asked(question, i) || q->partition != p->partition_index || !str_is(topic, q->topic))
            continue;
        decide(r, i, p->error_code, cafka_error_name(p->error_code));
        if (p->error_code)
            continue;
        q->offset = version >= 1                     ? p->offset
                    : p->old_style_offsets_count > 0 ? p->old_style_offsets[0]
                                                     : -1;
        q->timestamp_ms = p->timestamp;
        q->leader_epoch = p->leader_epoch;
        return; /* asked twice, answered twice */
    }
}

static int take(struct operation *op, const void *answer, cafka_error *err)
{
    const struct list_offsets_response *response = answer;
    (void)err;
    for (int32_t t = 0; t < response->topics_count; t++)
        for (int32_t p = 0; p < response->topics[t].partitions_count; p++)
            take_partition(op->user, response->topics[t].name, op->version,
                           &response->topics[t].partitions[p]);
    return CAFKA_OK; /* what is left goes into the next round */
}

/* --- rounds --- */

/* Who leads each partition now? A partition that is not there may still come. */
static int find_leaders(struct cafka_admin *admin, struct round *r, int64_t left_ms,
                        cafka_error *err)
{
    const char **names = mem_calloc(r->count, sizeof *names);
    if (!names)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu partitions", r->count);
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        size_t k = 0;
        while (k < count && strcmp(names[k], r->queries[i].topic))
            k++;
        if (k == count)
            names[count++] = r->queries[i].topic;
    }
    cafka_topic_list *list = NULL;
    int rc = cafka_admin_describe_topics(admin, names, count, left_ms, &list, err);
    mem_free(names);
    if (rc)
        return rc;
    for (size_t i = 0; i < r->count; i++) {
        struct query_state *state = &r->states[i];
        const cafka_offset_query *q = &r->queries[i];
        const cafka_topic_info *topic = list->topics;
        if (state->decided)
            continue;
        while (strcmp(topic->name, q->topic))
            topic++;
        state->leader = NOBODY;
        const cafka_partition_info *p = NULL;
        for (size_t k = 0; k < topic->partition_count && !p; k++)
            p = topic->partitions[k].partition == q->partition ? &topic->partitions[k] : NULL;
        if (topic->error.code)
            decide(r, i, topic->error.code, cafka_error_name(topic->error.code));
        else if (!p)
            decide(r, i, ERR_UNKNOWN_TOPIC_OR_PARTITION, "the topic has no such partition");
        else if (p->leader < 0)
            decide(r, i, ERR_LEADER_NOT_AVAILABLE, "the partition has no leader");
        else
            *state = (struct query_state){.leader = p->leader, .leader_epoch = p->leader_epoch};
    }
    cafka_topic_list_free(list);
    return CAFKA_OK;
}

/* What a leader that was asked has left open: failed with it, or passed over. */
static void conclude(const struct leader_question *q, const cafka_error *failure)
{
    struct round *r = q->round;
    for (size_t i = 0; i < r->count; i++) {
        if (!is_asked(q, i))
            continue;
        if (failure->code) {
            r->queries[i].error = *failure;
            r->states[i].decided = !(failure->flags & CAFKA_RETRIABLE);
        } else if (!r->queries[i].error.code) {
            decide(r, i, CAFKA_ERR_PROTOCOL, "the leader said nothing about it");
        }
    }
}

/* One question to each leader; returns how many. */
static size_t split(struct round *r, struct leader_question *questions, struct operation *ops)
{
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        size_t n = 0;
        if (r->states[i].decided || r->states[i].leader == NOBODY)
            continue;
        while (n < count && questions[n].leader != r->states[i].leader)
            n++;
        if (n < count)
            continue;
        questions[n] = (struct leader_question){r, r->states[i].leader};
        ops[n] = (struct operation){.api_key = API_LIST_OFFSETS,
                                    .target = questions[n].leader,
                                    .once = true,
                                    .user = &questions[n],
                                    .build = build,
                                    .take = take};
        count++;
    }
    return count;
}

static int ask_leaders(struct cafka_admin *admin, struct round *r, int64_t deadline,
                       cafka_error *err)
{
    struct leader_question *questions = mem_calloc(r->count, sizeof *questions);
    struct operation *ops = mem_calloc(r->count, sizeof *ops);
    int rc = questions && ops
                 ? CAFKA_OK
                 : error_set(err, CAFKA_ERR_MEMORY, "no memory to ask for %zu offsets", r->count);
    size_t count = rc ? 0 : split(r, questions, ops);
    if (!rc)
        rc = admin_run_all(admin, ops, count, deadline, err);
    for (size_t n = 0; !rc && n < count; n++) {
        int code = ops[n].error.code;
        if (code == CAFKA_ERR_MEMORY || code == CAFKA_ERR_CLOSED)
            rc = error_set(err, code, "%s", ops[n].error.message);
        conclude(&questions[n], &ops[n].error);
    }
    mem_free(questions);
    mem_free(ops);
    return rc;
}

static bool all_decided(const struct round *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (!r->states[i].decided)
            return false;
    return true;
}

static int64_t left_ms(struct cafka_admin *admin, int64_t deadline)
{
    int64_t left = deadline == CAFKA_NEVER
                       ? -1
                       : (deadline - admin->client.env->now(admin->client.env)) / NS_PER_MS;
    return left < 0 && deadline != CAFKA_NEVER ? 0 : left;
}

static int run_rounds(struct cafka_admin *admin, struct round *r, int64_t deadline, cafka_error *err)
{
    const struct client_settings *settings = &admin->settings.client;
    struct backoff backoff = {settings->retry_backoff_ms, settings->retry_backoff_max_ms, 0};
    for (int round = 0;; round++) {
        cafka_error failure = {0};
        int rc = find_leaders(admin, r, left_ms(admin, deadline), &failure);
        if (rc == CAFKA_ERR_TIMEOUT && round > 0)
            return CAFKA_OK; /* the queries say what was in the way before */
        if (!rc)
            rc = ask_leaders(admin, r, deadline, &failure);
        if (rc)
            return error_set_flags(err, rc, failure.flags, "%s", failure.message);
        if (all_decided(r))
            return CAFKA_OK;
        rc = admin_pause(admin, &backoff, deadline, NULL);
        if (rc == CAFKA_ERR_TIMEOUT)
            return CAFKA_OK;
        if (rc)
            return error_set(err, rc, "waiting for leaders was interrupted");
    }
}

int cafka_admin_list_offsets(cafka_admin *admin, cafka_offset_query *queries, size_t count,
                             unsigned flags, int64_t timeout_ms, cafka_error *err)
{
    int64_t deadline;
    int rc = admin_begin(admin, timeout_ms, &deadline, err);
    if (rc || !count)
        return rc;
    for (size_t i = 0; i < count; i++) {
        if (!queries || !queries[i].topic || queries[i].partition < 0)
            return error_set(err, CAFKA_ERR_ARGUMENT,
                             "query number %zu needs a topic and a partition", i);
        queries[i].offset = queries[i].timestamp_ms = -1;
        queries[i].leader_epoch = -1;
        error_clear(&queries[i].error);
    }
    struct round r = {queries, mem_calloc(count, sizeof *r.states), count, flags};
    if (!r.states)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu queries", count);
    rc = run_rounds(admin, &r, deadline, err);
    mem_free(r.states);
    return rc ? rc : admin_sum_up(&queries[0].error, count, sizeof *queries, err);
}
