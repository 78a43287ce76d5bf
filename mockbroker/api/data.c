/*
 * data.c - see data.h.
 */
#include "mockbroker/api/data.h"

#include "mockbroker/api/fetch_sessions.h"
#include "mockbroker/session.h"
#include "protocol/error_codes.h"
#include "util/alloc.h"

struct data_target data_find(struct broker *broker, struct str topic, struct uuid id, bool by_id,
                             int32_t index)
{
    struct data_target target = {0};
    target.topic =
        by_id ? image_topic_by_id(&broker->image, id) : image_topic(&broker->image, topic);
    if (target.topic)
        target.image = topic_partition(target.topic, index);
    if (target.image)
        target.partition = target.image->hosted;
    if (!target.topic && by_id)
        target.error = ERR_UNKNOWN_TOPIC_ID;
    else if (!target.image)
        target.error = ERR_UNKNOWN_TOPIC_OR_PARTITION;
    else if (!target.partition)
        target.error = ERR_NOT_LEADER_OR_FOLLOWER;
    return target;
}

int data_endpoints_init(struct data_endpoints *endpoints, struct request_context *ctx)
{
    endpoints->count = 0;
    endpoints->nodes =
        request_calloc(ctx, ctx->broker->image.brokers.count + 1, sizeof *endpoints->nodes);
    return endpoints->nodes ? CAFKA_OK : CAFKA_ERR_MEMORY;
}

void data_endpoints_add(struct data_endpoints *endpoints, struct request_context *ctx,
                        int32_t broker_id)
{
    const struct broker_image *broker = image_live_broker(&ctx->broker->image, broker_id);
    const struct endpoint *endpoint =
        broker ? broker_endpoint(broker, ctx->session->listener->name) : NULL;
    for (int32_t i = 0; i < endpoints->count; i++)
        if (endpoints->nodes[i].id == broker_id)
            return;
    if (endpoint)
        endpoints->nodes[endpoints->count++] =
            (struct data_endpoint){broker_id, str_of(endpoint->host), endpoint->port,
                                   str_of(broker->rack)};
}

struct partition_key partition_key(struct str topic, struct uuid id, int32_t index)
{
    struct partition_key key;
    uint32_t size = (uint32_t)topic.size;
    size_t kept = topic.size < 256 ? topic.size : 256;
    memcpy(key.bytes, id.bytes, 16);
    memcpy(key.bytes + 16, &index, 4);
    memcpy(key.bytes + 20, &size, 4);
    if (kept)
        memcpy(key.bytes + 24, topic.data, kept);
    key.size = 24 + kept;
    return key;
}

bool data_names_put(struct data_names *names, struct str topic, struct uuid id, int32_t index,
                    size_t ordinal)
{
    struct partition_key key = partition_key(topic, id, index);
    return map_put(&names->ordinals, key.bytes, key.size, (void *)(uintptr_t)(ordinal + 1));
}

size_t data_names_get(const struct data_names *names, struct str topic, struct uuid id,
                      int32_t index)
{
    struct partition_key key = partition_key(topic, id, index);
    return (size_t)(uintptr_t)map_get(&names->ordinals, key.bytes, key.size) - 1;
}

void data_free(struct broker *broker)
{
    fetch_sessions_free(broker->fetch_sessions);
    broker->fetch_sessions = NULL;
    mem_free(broker->producer_ids);
    broker->producer_ids = NULL;
}
