/*
 * describe_producers.c - DescribeProducers: who has written to a partition, and what is open (KIP-664).
 *
 * Thread: the broker's loop.
 * Source: kafka.server.KafkaApis.handleDescribeProducersRequest, Partition.activeProducerState.
 */
#include "protocol/messages/DescribeProducers.h"

#include "mockbroker/api/api.h"
#include "mockbroker/api/data.h"
#include "mockbroker/topic_config.h"
#include "protocol/error_codes.h"

typedef struct describe_producers_response_partition_response partition_answer;

/* False: no memory. */
static bool list_producers(struct request_context *ctx, const struct partition *partition,
                           partition_answer *out)
{
    struct producer_info info;
    size_t count = 0, position = 0;
    while (commit_log_producer_next(partition->log, &position, &info))
        count++;
    out->active_producers = request_calloc(ctx, count + 1, sizeof *out->active_producers);
    if (!out->active_producers)
        return false;
    for (position = 0; commit_log_producer_next(partition->log, &position, &info);)
        out->active_producers[out->active_producers_count++] =
            (struct describe_producers_response_producer_state){.producer_id = info.producer_id,
                                                                .producer_epoch = info.epoch,
                                                                .last_sequence = info.last_sequence,
                                                                .last_timestamp =
                                                                    info.last_timestamp,
                                                                .coordinator_epoch =
                                                                    info.coordinator_epoch,
                                                                .current_txn_start_offset =
                                                                    info.txn_start_offset};
    return true;
}

static bool describe(struct request_context *ctx, struct str topic, int32_t index,
                     partition_answer *out)
{
    cafka_error why = {0};
    describe_producers_response_partition_response_init(out);
    out->partition_index = index;
    int code = topic_name_check(topic, &why);
    struct data_target target = data_find(ctx->broker, topic, (struct uuid){{0}}, false, index);
    if (!code)
        code = target.error;
    if (!code && !target.partition->is_leader)
        code = ERR_NOT_LEADER_OR_FOLLOWER;
    out->error_code = (int16_t)code;
    if (code == ERR_INVALID_TOPIC_EXCEPTION)
        out->error_message = api_keep(ctx, why.message);
    else if (code && !target.topic)
        out->error_message = str_of("This server does not host this topic-partition.");
    return code || list_producers(ctx, target.partition, out);
}

void api_describe_producers(struct request_context *ctx)
{
    const struct describe_producers_request *in = ctx->body;
    struct describe_producers_response out;
    describe_producers_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.topics);
    bool good = out.topics;
    for (int32_t t = 0; good && t < in->topics_count; t++) {
        struct describe_producers_response_topic_response *topic = &out.topics[out.topics_count++];
        int32_t count = in->topics[t].partition_indexes_count;
        topic->name = in->topics[t].name;
        topic->partitions = request_calloc(ctx, (size_t)count + 1, sizeof *topic->partitions);
        good = topic->partitions;
        for (int32_t i = 0; good && i < count; i++)
            good = describe(ctx, topic->name, in->topics[t].partition_indexes[i],
                            &topic->partitions[topic->partitions_count++]);
    }
    if (good)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}
