/*
 * topic_delete.c - deleting topics, by name and by id.
 *
 * Checks come in Kafka's order, so that a request with several faults gets Kafka's answer.
 */
#include <assert.h>

#include "mockbroker/controller/controller.h"
#include "mockbroker/repeats.h"
#include "protocol/error_codes.h"
#include "protocol/messages/RemoveTopicRecord.h"

static int no_memory(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_MEMORY, "no memory to delete topics");
}

typedef struct delete_topics_response_deletable_topic_result delete_result;
typedef struct delete_topics_request_delete_topic_state doomed;

/* What is to be deleted, seen as a whole. */
struct doom {
    doomed *list;
    int32_t count;
    struct repeats names, ids; /* as given */
    struct repeats topics;     /* ids that both were given, and names stand for */
};

static void look_at(const struct controller *c, struct doom *all)
{
    for (int32_t i = 0; i < all->count; i++) {
        const doomed *d = &all->list[i];
        const struct topic_image *topic = d->name.data ? image_topic(&c->image, d->name) : NULL;
        struct uuid id = topic ? topic->id : d->topic_id;
        if (d->name.data)
            repeats_add(&all->names, d->name.data, d->name.size, i);
        else
            repeats_add(&all->ids, &id, sizeof id, i);
        /* Each name and each id once, so that two of them are one of each. */
        bool first = d->name.data ? repeats_is_first(&all->names, d->name.data, d->name.size, i)
                                  : repeats_is_first(&all->ids, &id, sizeof id, i);
        if (first && !uuid_is_zero(id))
            repeats_add(&all->topics, &id, sizeof id, i);
    }
}

static int check_doomed(const struct controller *c, const struct doom *all, const doomed *d,
                        bool repeated, const struct topic_image **topic, cafka_error *err)
{
    bool has_id = !uuid_is_zero(d->topic_id);
    if (d->name.data && has_id)
        return error_set(err, ERR_INVALID_REQUEST,
                         "You may not specify both topic name and topic id.");
    if (!d->name.data && !has_id)
        return error_set(err, ERR_INVALID_REQUEST, "Neither topic name nor id were specified.");
    if (repeated)
        return error_set(err, ERR_INVALID_REQUEST, "Duplicate topic %s.",
                         d->name.data ? "name" : "id");
    *topic =
        d->name.data ? image_topic(&c->image, d->name) : image_topic_by_id(&c->image, d->topic_id);
    if (!*topic)
        return d->name.data ? error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION,
                                        "This server does not host this topic-partition.")
                            : error_set(err, ERR_UNKNOWN_TOPIC_ID,
                                        "This server does not host this topic ID.");
    if (repeats_are_many(&all->topics, &(*topic)->id, sizeof(*topic)->id))
        return error_set(err, ERR_INVALID_REQUEST,
                         "The provided topic name maps to an ID that was already supplied.");
    return CAFKA_OK;
}

static int doom_one(const struct controller *c, const struct doom *all, int32_t index,
                    struct record_list *records, struct arena *arena,
                    struct delete_topics_response *out, cafka_error *err)
{
    const doomed *d = &all->list[index];
    const struct repeats *same = d->name.data ? &all->names : &all->ids;
    const void *key = d->name.data ? (const void *)d->name.data : &d->topic_id;
    size_t size = d->name.data ? d->name.size : sizeof d->topic_id;
    const struct topic_image *topic = NULL;
    cafka_error why = {0};
    int code = check_doomed(c, all, d, repeats_are_many(same, key, size), &topic, &why);
    /* Things named twice get one answer; a topic named both ways gets its name's. */
    if (!repeats_is_first(same, key, size, index) || (topic && code && !d->name.data))
        return CAFKA_OK;
    delete_result *result = &out->responses[out->responses_count++];
    delete_topics_response_deletable_topic_result_init(result);
    result->name = topic ? controller_keep(arena, topic->name) : d->name;
    result->topic_id = topic ? topic->id : d->topic_id;
    if (code) {
        result->error_code = (int16_t)code;
        result->error_message = controller_keep(arena, why.message);
        return CAFKA_OK;
    }
    struct remove_topic_record r;
    remove_topic_record_init(&r);
    assert(topic); /* else there was a code */
    r.topic_id = topic->id;
    return record_list_add(records, METADATA_REMOVE_TOPIC, 0, &r, err);
}

/* Deletion switched off: every topic is refused, from v3 on with a code of its own. */
static void refuse_all(const doomed *list, int32_t count, int version,
                       struct delete_topics_response *out)
{
    bool own_code = version >= 3;
    for (int32_t i = 0; i < count; i++) {
        delete_result *result = &out->responses[out->responses_count++];
        delete_topics_response_deletable_topic_result_init(result);
        result->name = list[i].name;
        result->topic_id = list[i].topic_id;
        result->error_code = own_code ? ERR_TOPIC_DELETION_DISABLED : ERR_INVALID_REQUEST;
        if (own_code)
            result->error_message = str_of("Topic deletion is disabled.");
    }
}

int controller_delete_topics(struct controller *c, const struct delete_topics_request *in,
                             int version, struct arena *arena, struct delete_topics_response *out,
                             cafka_error *err)
{
    bool by_state = version >= 6;
    int32_t count = by_state ? in->topics_count : in->topic_names_count;
    if (count < 0)
        count = 0;
    delete_topics_response_init(out);
    doomed *list = arena_calloc(arena, (size_t)count + 1, sizeof *list);
    struct doom all = {.list = list, .count = count};
    out->responses = arena_calloc(arena, (size_t)count + 1, sizeof *out->responses);
    if (!list || !out->responses)
        return no_memory(err);
    for (int32_t i = 0; i < count; i++)
        list[i] = by_state ? in->topics[i] : (doomed){.name = in->topic_names[i]};
    if (!broker_config_bool(&c->config, "delete.topic.enable")) {
        refuse_all(list, count, version, out);
        return CAFKA_OK;
    }
    struct record_list records = {0};
    look_at(c, &all);
    int rc = all.names.failed || all.ids.failed || all.topics.failed ? no_memory(err) : CAFKA_OK;
    for (int32_t i = 0; !rc && i < count; i++)
        rc = doom_one(c, &all, i, &records, arena, out, err);
    if (!rc)
        rc = controller_commit(c, &records, err);
    record_list_fini(&records);
    repeats_fini(&all.names);
    repeats_fini(&all.ids);
    repeats_fini(&all.topics);
    return rc;
}
