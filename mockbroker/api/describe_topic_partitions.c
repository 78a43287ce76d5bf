/*
 * describe_topic_partitions.c - DescribeTopicPartitions: topics page by page, in order of name (KIP-966).
 *
 * Thread:  the broker's loop.
 * Reading: api_describe_topic_partitions(), then add_topic().
 * Source:  kafka.server.DescribeTopicPartitionsRequestHandler.
 */
#include <stdlib.h>

#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/session.h"
#include "protocol/error_codes.h"
#include "protocol/messages/DescribeTopicPartitions.h"

typedef struct describe_topic_partitions_request request;
typedef struct describe_topic_partitions_response response;
typedef struct describe_topic_partitions_response_topic topic_answer;
typedef struct describe_topic_partitions_response_partition partition_answer;
typedef struct describe_topic_partitions_response_cursor cursor;

static int compare(const void *a, const void *b)
{
    const struct str *x = a, *y = b;
    size_t size = x->size < y->size ? x->size : y->size;
    int order = size ? memcmp(x->data, y->data, size) : 0;
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* The names asked for (all if none are), sorted, each once. */
static struct str *sorted_names(struct request_context *ctx, size_t *count)
{
    const request *in = ctx->body;
    const struct map *topics = &ctx->broker->image.topics;
    size_t n = in->topics_count > 0 ? (size_t)in->topics_count : topics->count;
    struct str *names = request_calloc(ctx, n + 1, sizeof *names);
    struct map_entry *e;
    size_t at = 0;
    if (!names)
        return NULL;
    if (in->topics_count > 0)
        for (; at < n; at++)
            names[at] = in->topics[at].name;
    else
        for (size_t i = 0; (e = map_next(topics, &i));)
            names[at++] = (struct str){e->key, e->key_size};
    qsort(names, n, sizeof *names, compare);
    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (!*count || compare(&names[*count - 1], &names[i]))
            names[(*count)++] = names[i];
    return names;
}

static bool is_live(const struct request_context *ctx, int32_t id)
{
    const struct broker_image *b = image_live_broker(&ctx->broker->image, id);
    return b && broker_endpoint(b, ctx->session->listener->name);
}

static bool fill_partition(struct request_context *ctx, const struct partition_image *p,
                           int32_t index, partition_answer *out)
{
    describe_topic_partitions_response_partition_init(out);
    out->partition_index = index;
    out->leader_id = is_live(ctx, p->leader) ? p->leader : -1;
    out->error_code = out->leader_id < 0 ? ERR_LEADER_NOT_AVAILABLE : 0;
    out->leader_epoch = p->leader_epoch;
    out->replica_nodes = p->replicas;
    out->replica_nodes_count = p->replica_count;
    out->isr_nodes = p->isr;
    out->isr_nodes_count = p->isr_count;
    out->eligible_leader_replicas = p->elr;
    out->eligible_leader_replicas_count = p->elr_count;
    out->last_known_elr = p->last_known_elr;
    out->last_known_elr_count = p->last_known_elr_count;
    out->offline_replicas =
        request_calloc(ctx, (size_t)p->replica_count + 1, sizeof *out->offline_replicas);
    if (!out->offline_replicas)
        return false;
    for (int32_t i = 0; i < p->replica_count; i++)
        if (!is_live(ctx, p->replicas[i]))
            out->offline_replicas[out->offline_replicas_count++] = p->replicas[i];
    return true;
}

/* Where an answer that is full goes on. */
static bool set_cursor(struct request_context *ctx, response *out, struct str topic, int32_t index)
{
    out->next_cursor = request_alloc(ctx, sizeof *out->next_cursor);
    if (!out->next_cursor)
        return false;
    *out->next_cursor = (cursor){.topic_name = topic, .partition_index = index};
    return true;
}

static bool add_topic(struct request_context *ctx, struct str name, int32_t from, int32_t *room,
                      response *out)
{
    const struct topic_image *topic = image_topic(&ctx->broker->image, name);
    topic_answer *to = &out->topics[out->topics_count++];
    describe_topic_partitions_response_topic_init(to);
    to->name = name;
    to->topic_authorized_operations = TOPIC_OPERATIONS;
    if (!topic) {
        to->error_code = (int16_t)topic_name_check(name, NULL);
        if (!to->error_code)
            to->error_code = ERR_UNKNOWN_TOPIC_OR_PARTITION;
        return true;
    }
    to->topic_id = topic->id;
    to->is_internal = topic->internal;
    int32_t count = topic->partition_count - from;
    if (count > *room)
        count = *room;
    to->partitions =
        request_calloc(ctx, (size_t)(count > 0 ? count : 0) + 1, sizeof *to->partitions);
    if (!to->partitions)
        return false;
    for (int32_t i = 0; i < count; i++)
        if (!fill_partition(ctx, &topic->partitions[from + i], from + i,
                            &to->partitions[to->partitions_count++]))
            return false;
    *room -= to->partitions_count;
    return from + to->partitions_count >= topic->partition_count ||
           set_cursor(ctx, out, name, from + to->partitions_count);
}

/* Each topic that was named, with the code of a request that makes no sense. */
static void refuse_all(struct request_context *ctx, int code)
{
    const request *in = ctx->body;
    response out;
    describe_topic_partitions_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.topics);
    for (int32_t i = 0; out.topics && i < in->topics_count; i++) {
        topic_answer *to = &out.topics[out.topics_count++];
        describe_topic_partitions_response_topic_init(to);
        to->name = in->topics[i].name;
        to->error_code = (int16_t)code;
    }
    if (out.topics)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}

/* The cursor must be in a topic that was named (if any was), at a partition that can be. */
static int check(const request *in)
{
    bool named = !in->topics_count;
    for (int32_t i = 0; i < in->topics_count; i++) {
        if (in->cursor && str_equal(in->topics[i].name, in->cursor->topic_name))
            named = true;
        if (!in->topics[i].name.size)
            return ERR_UNKNOWN_SERVER_ERROR; /* the broker's authorizer stumbles over it */
    }
    return in->cursor && (!named || in->cursor->partition_index < 0) ? ERR_INVALID_REQUEST
                                                                     : ERR_NONE;
}

void api_describe_topic_partitions(struct request_context *ctx)
{
    const request *in = ctx->body;
    int code = check(in);
    if (code) {
        refuse_all(ctx, code);
        return;
    }
    response out;
    size_t count = 0;
    int32_t most =
        (int32_t)broker_config_long(&ctx->broker->config, "max.request.partition.size.limit");
    int32_t room = in->response_partition_limit < most ? in->response_partition_limit : most;
    struct str *names = sorted_names(ctx, &count);
    describe_topic_partitions_response_init(&out);
    out.topics = request_calloc(ctx, count + 1, sizeof *out.topics);
    bool ok = names && out.topics;
    if (room < 1)
        room = 1; /* a limit of nothing gives one partition, so that a client gets on */
    for (size_t i = 0; ok && i < count && !out.next_cursor; i++) {
        int order = in->cursor ? compare(&names[i], &in->cursor->topic_name) : 1;
        if (order < 0)
            continue;
        int32_t from = order ? 0 : in->cursor->partition_index;
        if (!room)
            ok = set_cursor(ctx, &out, names[i], from);
        else
            ok = add_topic(ctx, names[i], from, &room, &out);
    }
    if (ok)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}
