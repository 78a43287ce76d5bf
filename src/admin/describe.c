/*
 * describe.c - what topics and brokers there are: Metadata and DescribeCluster, of any broker.
 *
 * A result is one block: the public struct first, then the arena that all it points to lies in.
 */
#include "admin/admin.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/errors.h"
#include "protocol/messages/DescribeCluster.h"
#include "protocol/messages/Metadata.h"
#include "util/alloc.h"

/* --- topics --- */

struct topic_list {
    cafka_topic_list list; /* first */
    struct arena arena;
};

struct topics_question {
    const char *const *names; /* NULL: all */
    size_t count;
    struct topic_list *result;
};

void cafka_topic_list_free(cafka_topic_list *list)
{
    struct topic_list *result = (struct topic_list *)list;
    if (!result)
        return;
    arena_fini(&result->arena);
    mem_free(result);
}

static int build_metadata(struct operation *op, int version, cafka_error *err)
{
    const struct topics_question *q = op->user;
    if (q->names && version < 4)
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "brokers this old might create the topics that are asked for; ask for all topics");
    struct metadata_request *body = admin_memory(op, 1, sizeof *body, err);
    if (!body)
        return CAFKA_ERR_MEMORY;
    metadata_request_init(body);
    body->allow_auto_topic_creation = version < 4;
    body->topics_count = version >= 1 ? -1 : 0;
    if (q->names) {
        body->topics = admin_memory(op, q->count, sizeof *body->topics, err);
        if (!body->topics)
            return CAFKA_ERR_MEMORY;
        body->topics_count = (int32_t)q->count;
        for (size_t i = 0; i < q->count; i++) {
            metadata_request_topic_init(&body->topics[i]);
            body->topics[i].name = str_of(q->names[i]);
        }
    }
    op->call.body = body;
    return CAFKA_OK;
}

static const int32_t *copy_ids(struct arena *arena, const int32_t *ids, int32_t count,
                               size_t *out_count)
{
    *out_count = count > 0 ? (size_t)count : 0;
    int32_t *copy = arena_calloc(arena, *out_count + 1, sizeof *copy);
    if (copy && *out_count)
        memcpy(copy, ids, *out_count * sizeof *copy);
    return copy;
}

static int by_partition(const void *a, const void *b)
{
    int32_t x = ((const cafka_partition_info *)a)->partition,
            y = ((const cafka_partition_info *)b)->partition;
    return (x > y) - (x < y);
}

static bool copy_partitions(struct arena *arena, const struct metadata_response_topic *said,
                            cafka_topic_info *out)
{
    size_t count = said->partitions_count > 0 ? (size_t)said->partitions_count : 0;
    cafka_partition_info *partitions = arena_calloc(arena, count + 1, sizeof *partitions);
    if (!partitions)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct metadata_response_partition *p = &said->partitions[i];
        cafka_partition_info *to = &partitions[i];
        to->partition = p->partition_index;
        to->leader = p->leader_id;
        to->leader_epoch = p->leader_epoch;
        to->error = p->error_code;
        to->replicas = copy_ids(arena, p->replica_nodes, p->replica_nodes_count, &to->replica_count);
        to->in_sync = copy_ids(arena, p->isr_nodes, p->isr_nodes_count, &to->in_sync_count);
        to->offline =
            copy_ids(arena, p->offline_replicas, p->offline_replicas_count, &to->offline_count);
        if (!to->replicas || !to->in_sync || !to->offline)
            return false;
    }
    qsort(partitions, count, sizeof *partitions, by_partition);
    out->partitions = partitions;
    out->partition_count = count;
    return true;
}

static bool copy_topic(struct arena *arena, const struct metadata_response_topic *said,
                       cafka_topic_info *out)
{
    out->name = arena_strndup(arena, said->name.data ? said->name.data : "", said->name.size);
    if (!out->name)
        return false;
    if (!uuid_is_zero(said->topic_id))
        uuid_text(said->topic_id, out->id);
    out->internal = said->is_internal;
    admin_item_error(&out->error, said->error_code, (struct str){NULL, 0}, "topic", out->name);
    return copy_partitions(arena, said, out);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const cafka_topic_info *)a)->name, ((const cafka_topic_info *)b)->name);
}

static bool copy_all(struct arena *arena, const struct metadata_response *response,
                     cafka_topic_info *topics)
{
    for (int32_t i = 0; i < response->topics_count; i++)
        if (!copy_topic(arena, &response->topics[i], &topics[i]))
            return false;
    qsort(topics, (size_t)response->topics_count, sizeof *topics, by_name);
    return true;
}

/* In the order of the question; what the answer leaves out does not exist. */
static bool copy_asked(struct arena *arena, const struct topics_question *q,
                       const struct metadata_response *response, cafka_topic_info *topics)
{
    for (size_t i = 0; i < q->count; i++) {
        struct metadata_response_topic silent = {.name = str_of(q->names[i]),
                                                 .error_code = ERR_UNKNOWN_TOPIC_OR_PARTITION};
        const struct metadata_response_topic *said = &silent;
        for (int32_t k = 0; k < response->topics_count; k++)
            if (str_is(response->topics[k].name, q->names[i]))
                said = &response->topics[k];
        if (!copy_topic(arena, said, &topics[i]))
            return false;
    }
    return true;
}

static int take_metadata(struct operation *op, const void *answer, cafka_error *err)
{
    const struct metadata_response *response = answer;
    struct topics_question *q = op->user;
    struct topic_list *result = q->result;
    if (response->error_code)
        return error_set(err, response->error_code, "asking for topics: %s",
                         cafka_error_name(response->error_code));
    arena_reset(&result->arena);
    int32_t said = response->topics_count > 0 ? response->topics_count : 0;
    size_t count = q->names ? q->count : (size_t)said;
    cafka_topic_info *topics = arena_calloc(&result->arena, count + 1, sizeof *topics);
    if (!topics || !(q->names ? copy_asked(&result->arena, q, response, topics)
                              : copy_all(&result->arena, response, topics)))
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the description of %zu topics",
                         count);
    result->list = (cafka_topic_list){topics, count};
    return CAFKA_OK;
}

int cafka_admin_describe_topics(cafka_admin *admin, const char *const *names, size_t count,
                                int64_t timeout_ms, cafka_topic_list **out, cafka_error *err)
{
    int64_t deadline;
    int rc = admin_begin(admin, timeout_ms, &deadline, err);
    if (rc)
        return rc;
    if (!out || count > INT32_MAX)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a place for the list is needed");
    for (size_t i = 0; names && i < count; i++)
        if (!names[i])
            return error_set(err, CAFKA_ERR_ARGUMENT, "topic number %zu has no name", i);
    struct topic_list *result = mem_zalloc(sizeof *result);
    if (!result)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a list of topics");
    struct topics_question q = {names, count, result};
    struct operation op = {.api_key = API_METADATA,
                           .target = CALL_ANY,
                           .user = &q,
                           .build = build_metadata,
                           .take = take_metadata};
    rc = admin_run(admin, &op, deadline, err);
    if (rc) {
        cafka_topic_list_free(&result->list);
        return rc;
    }
    *out = &result->list;
    return CAFKA_OK;
}

/* --- the cluster --- */

struct cluster_result {
    cafka_cluster_info info; /* first */
    struct arena arena;
};

void cafka_cluster_info_free(cafka_cluster_info *info)
{
    struct cluster_result *result = (struct cluster_result *)info;
    if (!result)
        return;
    arena_fini(&result->arena);
    mem_free(result);
}

static int build_cluster(struct operation *op, int version, cafka_error *err)
{
    struct describe_cluster_request *body = admin_memory(op, 1, sizeof *body, err);
    if (!body)
        return CAFKA_ERR_MEMORY;
    describe_cluster_request_init(body);
    body->include_fenced_brokers = version >= 2;
    op->call.body = body;
    return CAFKA_OK;
}

static int by_id(const void *a, const void *b)
{
    int32_t x = ((const cafka_broker_info *)a)->id, y = ((const cafka_broker_info *)b)->id;
    return (x > y) - (x < y);
}

static bool copy_brokers(struct arena *arena, const struct describe_cluster_response *response,
                         cafka_cluster_info *out)
{
    size_t count = response->brokers_count > 0 ? (size_t)response->brokers_count : 0;
    cafka_broker_info *brokers = arena_calloc(arena, count + 1, sizeof *brokers);
    if (!brokers)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct describe_cluster_response_describe_cluster_broker *b = &response->brokers[i];
        char *host = arena_strndup(arena, b->host.data ? b->host.data : "", b->host.size);
        char *rack = b->rack.data ? arena_strndup(arena, b->rack.data, b->rack.size) : NULL;
        if (!host || (b->rack.data && !rack))
            return false;
        brokers[i] = (cafka_broker_info){b->broker_id, host, b->port, rack, b->is_fenced};
    }
    qsort(brokers, count, sizeof *brokers, by_id);
    out->brokers = brokers;
    out->broker_count = count;
    return true;
}

static int take_cluster(struct operation *op, const void *answer, cafka_error *err)
{
    const struct describe_cluster_response *response = answer;
    struct cluster_result *result = op->user;
    if (response->error_code)
        return error_set(err, response->error_code, "describing the cluster: %s %.*s",
                         cafka_error_name(response->error_code), STR_ARG(response->error_message));
    arena_reset(&result->arena);
    struct str id = response->cluster_id;
    result->info.controller = response->controller_id;
    result->info.cluster_id = id.data ? arena_strndup(&result->arena, id.data, id.size) : NULL;
    if ((id.data && !result->info.cluster_id) ||
        !copy_brokers(&result->arena, response, &result->info))
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the description of a cluster");
    return CAFKA_OK;
}

int cafka_admin_describe_cluster(cafka_admin *admin, int64_t timeout_ms, cafka_cluster_info **out,
                                 cafka_error *err)
{
    int64_t deadline;
    int rc = admin_begin(admin, timeout_ms, &deadline, err);
    if (rc)
        return rc;
    if (!out)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a place for the description is needed");
    struct cluster_result *result = mem_zalloc(sizeof *result);
    if (!result)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the description of a cluster");
    struct operation op = {.api_key = API_DESCRIBE_CLUSTER,
                           .target = CALL_ANY,
                           .user = result,
                           .build = build_cluster,
                           .take = take_cluster};
    rc = admin_run(admin, &op, deadline, err);
    if (rc) {
        cafka_cluster_info_free(&result->info);
        return rc;
    }
    *out = &result->info;
    return CAFKA_OK;
}
