/*
 * metadata.c - Metadata: brokers, and topics by name, by id, or all; makes topics that are asked for.
 *
 * Thread:  the broker's loop.
 * Reading: api_metadata(); struct asking.
 * Source:  kafka.server.KafkaApis.handleTopicMetadataRequest; KIP-516 for ids.
 */
#include "protocol/messages/Metadata.h"
#include "mockbroker/api/api.h"
#include "mockbroker/api/auto_create.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/session.h"
#include "protocol/error_codes.h"

typedef struct metadata_response_topic topic_answer;
typedef struct metadata_response_partition partition_answer;

/* What one request is about. */
struct asking {
    struct request_context *ctx;
    const struct metadata_request *in;
    const struct image *image;
    const char *listener;
    struct metadata_response out;
    struct map seen;     /* names and ids, so that each is answered once */
    struct str *missing; /* to be made */
    size_t missing_count;
    bool create;
};

/* --- brokers --- */

static bool add_brokers(struct asking *a)
{
    const struct map *brokers = &a->image->brokers;
    struct map_entry *e;
    a->out.brokers = request_calloc(a->ctx, brokers->count + 1, sizeof *a->out.brokers);
    if (!a->out.brokers)
        return false;
    for (size_t i = 0; (e = map_next(brokers, &i));) {
        const struct broker_image *broker = e->value;
        const struct endpoint *endpoint = broker_endpoint(broker, a->listener);
        if (!broker->fenced && endpoint)
            a->out.brokers[a->out.brokers_count++] =
                (struct metadata_response_broker){.node_id = broker->id,
                                                  .host = str_of(endpoint->host),
                                                  .port = endpoint->port,
                                                  .rack = str_of(broker->rack)};
    }
    /* The controller takes no clients: any broker forwards to it, so any is named. */
    if (a->out.brokers_count)
        a->out.controller_id =
            a->out.brokers[rng_below(&a->ctx->broker->rng, (uint64_t)a->out.brokers_count)].node_id;
    return true;
}

static const struct endpoint *live_endpoint(const struct asking *a, int32_t id)
{
    const struct broker_image *broker = image_live_broker(a->image, id);
    return broker ? broker_endpoint(broker, a->listener) : NULL;
}

/* --- topics that are there --- */

static bool set_offline(struct asking *a, const struct partition_image *p, partition_answer *out)
{
    for (int32_t i = 0; i < p->replica_count; i++) {
        if (live_endpoint(a, p->replicas[i]))
            continue;
        if (!out->offline_replicas)
            out->offline_replicas =
                request_calloc(a->ctx, (size_t)p->replica_count, sizeof *out->offline_replicas);
        if (!out->offline_replicas)
            return false;
        out->offline_replicas[out->offline_replicas_count++] = p->replicas[i];
    }
    return true;
}

static bool fill_partition(struct asking *a, const struct partition_image *p, int32_t index,
                           partition_answer *out)
{
    metadata_response_partition_init(out);
    out->partition_index = index;
    out->leader_id = p->leader;
    out->leader_epoch = p->leader_epoch;
    out->replica_nodes = p->replicas;
    out->replica_nodes_count = p->replica_count;
    out->isr_nodes = p->isr;
    out->isr_nodes_count = p->isr_count;
    if (!live_endpoint(a, p->leader)) {
        bool listener_missing = image_live_broker(a->image, p->leader) && a->ctx->version >= 6;
        out->error_code = listener_missing ? ERR_LISTENER_NOT_FOUND : ERR_LEADER_NOT_AVAILABLE;
        out->leader_id = -1;
    }
    return set_offline(a, p, out);
}

static bool fill_topic(struct asking *a, const struct topic_image *topic, topic_answer *out)
{
    metadata_response_topic_init(out);
    out->name = str_of(topic->name);
    out->topic_id = topic->id;
    out->is_internal = topic->internal;
    if (a->in->include_topic_authorized_operations)
        out->topic_authorized_operations = TOPIC_OPERATIONS;
    out->partitions =
        request_calloc(a->ctx, (size_t)topic->partition_count, sizeof *out->partitions);
    if (!out->partitions && topic->partition_count)
        return false;
    for (int32_t i = 0; i < topic->partition_count; i++)
        if (!fill_partition(a, &topic->partitions[i], i, &out->partitions[out->partitions_count++]))
            return false;
    return true;
}

static bool add_all(struct asking *a)
{
    const struct map *topics = &a->image->topics;
    struct map_entry *e;
    a->out.topics = request_calloc(a->ctx, topics->count + 1, sizeof *a->out.topics);
    if (!a->out.topics)
        return false;
    for (size_t i = 0; (e = map_next(topics, &i));)
        if (!fill_topic(a, e->value, &a->out.topics[a->out.topics_count++]))
            return false;
    return true;
}

/* --- topics that were named --- */

static bool first_time(struct asking *a, const void *key, size_t size)
{
    return !map_get(&a->seen, key, size) && map_put(&a->seen, key, size, a);
}

static bool add_by_id(struct asking *a, struct uuid id)
{
    if (!first_time(a, &id, sizeof id))
        return true;
    topic_answer *out = &a->out.topics[a->out.topics_count++];
    const struct topic_image *topic = image_topic_by_id(a->image, id);
    if (topic)
        return fill_topic(a, topic, out);
    metadata_response_topic_init(out);
    out->error_code = ERR_UNKNOWN_TOPIC_ID;
    out->topic_id = id;
    out->name = (struct str){0};
    return true;
}

static bool add_by_name(struct asking *a, struct str name)
{
    if (!first_time(a, name.data, name.size))
        return true;
    topic_answer *out = &a->out.topics[a->out.topics_count++];
    const struct topic_image *topic = image_topic(a->image, name);
    if (topic)
        return fill_topic(a, topic, out);
    metadata_response_topic_init(out);
    out->name = name;
    out->is_internal = topic_is_internal(name);
    if (a->in->include_topic_authorized_operations)
        out->topic_authorized_operations = TOPIC_OPERATIONS;
    out->error_code = (int16_t)topic_name_check(name, NULL);
    if (!out->error_code) {
        out->error_code = ERR_UNKNOWN_TOPIC_OR_PARTITION;
        if (a->create)
            a->missing[a->missing_count++] = name;
    }
    return true;
}

static bool add_named(struct asking *a)
{
    size_t count = (size_t)a->in->topics_count;
    bool by_id = false, ok = true;
    a->out.topics = request_calloc(a->ctx, count + 1, sizeof *a->out.topics);
    a->missing = request_calloc(a->ctx, count + 1, sizeof *a->missing);
    if (!a->out.topics || !a->missing)
        return false;
    for (size_t i = 0; i < count; i++)
        by_id |= !uuid_is_zero(a->in->topics[i].topic_id);
    /* One id in the request, and names alone are not looked at. */
    for (size_t i = 0; ok && i < count; i++) {
        const struct metadata_request_topic *topic = &a->in->topics[i];
        if (!by_id)
            ok = add_by_name(a, topic->name);
        else if (!uuid_is_zero(topic->topic_id))
            ok = add_by_id(a, topic->topic_id);
    }
    return ok;
}

/* --- the request --- */

/* Kafka's answer to a request that makes no sense: every topic refused, and nothing else told. */
static void refuse(struct request_context *ctx, int code)
{
    const struct metadata_request *in = ctx->body;
    struct metadata_response out;
    metadata_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.topics);
    for (int32_t i = 0; out.topics && i < in->topics_count; i++) {
        topic_answer *to = &out.topics[out.topics_count++];
        metadata_response_topic_init(to);
        to->error_code = (int16_t)code;
        to->name = in->topics[i].name.data ? in->topics[i].name : str_of("");
        to->topic_id = in->topics[i].topic_id;
    }
    if (ctx->version >= 13)
        out.error_code = (int16_t)code;
    request_respond(ctx, &out);
}

static int check(const struct request_context *ctx)
{
    const struct metadata_request *in = ctx->body;
    for (int32_t i = 0; i < in->topics_count; i++) {
        bool has_id = !uuid_is_zero(in->topics[i].topic_id);
        if (ctx->version < 12 && (has_id || !in->topics[i].name.data))
            return ERR_INVALID_REQUEST;
        if (!has_id && !in->topics[i].name.data)
            return ERR_UNKNOWN_SERVER_ERROR;
    }
    return 0;
}

void api_metadata(struct request_context *ctx)
{
    struct broker *broker = ctx->broker;
    struct asking a = {.ctx = ctx,
                       .in = ctx->body,
                       .image = &broker->image,
                       .listener = ctx->session->listener->name};
    int code = check(ctx);
    if (code) {
        refuse(ctx, code);
        return;
    }
    bool all = a.in->topics_count < 0 || (!ctx->version && !a.in->topics_count);
    a.create = !all && a.in->allow_auto_topic_creation &&
               broker_config_bool(&broker->config, "auto.create.topics.enable");
    metadata_response_init(&a.out);
    a.out.cluster_id = str_of(broker->cluster->cluster_id);
    if (a.in->include_cluster_authorized_operations)
        a.out.cluster_authorized_operations = CLUSTER_OPERATIONS;
    bool ok = add_brokers(&a) && (all ? add_all(&a) : add_named(&a));
    map_fini(&a.seen);
    if (ok && a.missing_count)
        auto_create(broker, a.missing, a.missing_count, &ctx->arena);
    if (ok)
        request_respond(ctx, &a.out);
    else
        request_close(ctx);
}
