/*
 * offset_for_leader_epoch.c - OffsetForLeaderEpoch: where a leader epoch ended.
 *
 * Source: kafka.server.ReplicaManager.lastOffsetForLeaderEpoch, KIP-101, KIP-320.
 */
#include "protocol/messages/OffsetForLeaderEpoch.h"

#include "mockbroker/api/api.h"
#include "mockbroker/api/data.h"
#include "protocol/error_codes.h"

typedef struct offset_for_leader_epoch_response_epoch_end_offset partition_answer;

static void look_up(struct request_context *ctx, struct str topic,
                    const struct offset_for_leader_epoch_request_offset_for_leader_partition *part,
                    partition_answer *answer)
{
    struct data_target target =
        data_find(ctx->broker, topic, (struct uuid){{0}}, false, part->partition);
    struct epoch_end end;
    offset_for_leader_epoch_response_epoch_end_offset_init(answer);
    answer->partition = part->partition;
    int code = target.error ? target.error
                            : partition_epoch_end(target.partition, part->current_leader_epoch,
                                                  part->leader_epoch, &end, NULL);
    answer->error_code = (int16_t)(code <= CAFKA_ERR_MEMORY ? ERR_UNKNOWN_SERVER_ERROR : code);
    if (code)
        return;
    answer->leader_epoch = end.epoch;
    answer->end_offset = end.end_offset;
}

void api_offset_for_leader_epoch(struct request_context *ctx)
{
    const struct offset_for_leader_epoch_request *in = ctx->body;
    struct offset_for_leader_epoch_response out;
    offset_for_leader_epoch_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count, sizeof *out.topics);
    bool good = out.topics || !in->topics_count;
    for (int32_t t = 0; good && t < in->topics_count; t++) {
        struct offset_for_leader_epoch_response_offset_for_leader_topic_result *topic =
            &out.topics[out.topics_count++];
        topic->topic = in->topics[t].topic;
        topic->partitions_count = in->topics[t].partitions_count;
        topic->partitions =
            request_calloc(ctx, (size_t)topic->partitions_count, sizeof *topic->partitions);
        good = topic->partitions || !topic->partitions_count;
        for (int32_t i = 0; good && i < topic->partitions_count; i++)
            look_up(ctx, topic->topic, &in->topics[t].partitions[i], &topic->partitions[i]);
    }
    if (good)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}
