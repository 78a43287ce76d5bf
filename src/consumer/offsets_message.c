/*
 * offsets_message.c - see offsets_message.h.
 */
#include "consumer/offsets_message.h"

#include "protocol/api_keys.h"
#include "util/alloc.h"

typedef struct list_offsets_request_list_offsets_topic list_topic;
typedef struct list_offsets_request_list_offsets_partition list_partition;
typedef struct list_offsets_response_list_offsets_partition_response list_answer;
typedef struct offset_for_leader_epoch_request_offset_for_leader_topic epoch_topic;
typedef struct offset_for_leader_epoch_request_offset_for_leader_partition epoch_partition;
typedef struct offset_for_leader_epoch_response_epoch_end_offset epoch_answer;

enum {
    LIST_FIRST_VERSION = 1, /* version 0 lists segments, not offsets; brokers from 0.10.1 know 1 */
    EPOCH_FIRST_VERSION = 3 /* with the rights of a consumer; brokers from 2.3 */
};

/* --- questions --- */

static int32_t leader_epoch_of(const struct offset_query *query)
{
    const struct metadata_partition *known = metadata_partition(query->topic, query->partition);
    return known ? known->leader_epoch : -1;
}

static void fill_list(struct offset_body *body, const struct offset_lookup *lookup,
                      struct offset_query *const *queries, size_t count)
{
    struct list_offsets_request *list = &body->as.list;
    list_offsets_request_init(list);
    list->replica_id = -1;
    list->isolation_level = lookup->read_committed;
    list->timeout_ms = (int32_t)lookup->client->settings->request_timeout_ms;
    list->topics = body->topics;
    list_partition *part = body->partitions;
    for (size_t i = 0; i < count; i++, part++) {
        list_topic *topic = &list->topics[list->topics_count];
        if (!i || queries[i]->topic != queries[i - 1]->topic) {
            list->topics_count++;
            list_offsets_request_list_offsets_topic_init(topic);
            topic->name = str_of(queries[i]->topic->name);
            topic->partitions = part;
        } else {
            topic--;
        }
        list_offsets_request_list_offsets_partition_init(part);
        part->partition_index = queries[i]->partition;
        part->current_leader_epoch = leader_epoch_of(queries[i]);
        part->timestamp = queries[i]->timestamp_ms;
        topic->partitions_count++;
    }
}

static void fill_epochs(struct offset_body *body, struct offset_query *const *queries, size_t count)
{
    struct offset_for_leader_epoch_request *epochs = &body->as.epochs;
    offset_for_leader_epoch_request_init(epochs);
    epochs->replica_id = -1;
    epochs->topics = body->topics;
    epoch_partition *part = body->partitions;
    for (size_t i = 0; i < count; i++, part++) {
        epoch_topic *topic = &epochs->topics[epochs->topics_count];
        if (!i || queries[i]->topic != queries[i - 1]->topic) {
            epochs->topics_count++;
            offset_for_leader_epoch_request_offset_for_leader_topic_init(topic);
            topic->topic = str_of(queries[i]->topic->name);
            topic->partitions = part;
        } else {
            topic--;
        }
        offset_for_leader_epoch_request_offset_for_leader_partition_init(part);
        part->partition = queries[i]->partition;
        part->current_leader_epoch = leader_epoch_of(queries[i]);
        part->leader_epoch = queries[i]->epoch;
        topic->partitions_count++;
    }
}

int offset_body_fill(struct offset_body *body, const struct offset_lookup *lookup,
                     struct offset_query *const *queries, size_t count, cafka_error *err)
{
    bool by_epoch = queries[0]->epoch >= 0;
    size_t topics = 1;
    for (size_t i = 1; i < count; i++)
        topics += queries[i]->topic != queries[i - 1]->topic;
    body->topics = mem_calloc(topics, by_epoch ? sizeof(epoch_topic) : sizeof(list_topic));
    body->partitions =
        mem_calloc(count, by_epoch ? sizeof(epoch_partition) : sizeof(list_partition));
    if (!body->topics || !body->partitions)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to look up %zu offsets", count);
    if (by_epoch)
        fill_epochs(body, queries, count);
    else
        fill_list(body, lookup, queries, count);
    return CAFKA_OK;
}

void offset_body_fini(struct offset_body *body)
{
    mem_free(body->topics);
    mem_free(body->partitions);
    *body = (struct offset_body){.topics = NULL};
}

int offset_api_key(bool by_epoch)
{
    return by_epoch ? API_OFFSET_FOR_LEADER_EPOCH : API_LIST_OFFSETS;
}

int offset_check_version(bool by_epoch, int version, cafka_error *err)
{
    if (by_epoch && version < EPOCH_FIRST_VERSION)
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "the broker is too old to tell a consumer where an epoch ends (before 2.3)");
    if (!by_epoch && version < LIST_FIRST_VERSION)
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "the broker is too old to look up offsets (before 0.10.1)");
    return CAFKA_OK;
}

/* --- answers --- */

static int each_of_list(const struct reply *reply, struct arena *arena, offset_result_fn *fn,
                        void *user, cafka_error *err)
{
    struct list_offsets_response answer;
    int rc = reply_decode(reply, arena, &answer, err);
    for (int32_t t = 0; !rc && t < answer.topics_count; t++)
        for (int32_t i = 0; i < answer.topics[t].partitions_count; i++) {
            const list_answer *part = &answer.topics[t].partitions[i];
            fn(user, &(struct offset_result){answer.topics[t].name, part->partition_index,
                                             part->error_code, part->offset, part->timestamp,
                                             part->leader_epoch});
        }
    return rc;
}

static int each_of_epochs(const struct reply *reply, struct arena *arena, offset_result_fn *fn,
                          void *user, cafka_error *err)
{
    struct offset_for_leader_epoch_response answer;
    int rc = reply_decode(reply, arena, &answer, err);
    for (int32_t t = 0; !rc && t < answer.topics_count; t++)
        for (int32_t i = 0; i < answer.topics[t].partitions_count; i++) {
            const epoch_answer *part = &answer.topics[t].partitions[i];
            fn(user,
               &(struct offset_result){answer.topics[t].topic, part->partition, part->error_code,
                                       part->end_offset, -1, part->leader_epoch});
        }
    return rc;
}

int offset_answer_each(const struct reply *reply, bool by_epoch, offset_result_fn *fn, void *user,
                       cafka_error *err)
{
    struct arena arena = {0};
    int rc = by_epoch ? each_of_epochs(reply, &arena, fn, user, err)
                      : each_of_list(reply, &arena, fn, user, err);
    arena_fini(&arena);
    return rc;
}
