/*
 * delete_records.c - DeleteRecords: move the start of a log.
 *
 * Of a partition that is named twice only the last counts, and a topic without partitions is not
 * answered, as in Kafka (its server keeps a map). With one replica a partition the low
 * watermark is the leader's log start, so nothing waits.
 * Source: kafka.server.ReplicaManager.deleteRecords.
 */
#include "protocol/messages/DeleteRecords.h"

#include "mockbroker/api/api.h"
#include "mockbroker/api/data.h"
#include "protocol/error_codes.h"

static int delete_records(struct request_context *ctx, struct str topic, int32_t index,
                          int64_t offset, int64_t *low_watermark)
{
    struct data_target target = data_find(ctx->broker, topic, (struct uuid){{0}}, false, index);
    if (target.error)
        return target.error;
    const struct log_config *config = commit_log_config(target.partition->log);
    if (!target.partition->is_leader)
        return ERR_NOT_LEADER_OR_FOLLOWER;
    if (!config->cleanup_delete)
        return ERR_POLICY_VIOLATION;
    int code = partition_delete_records(target.partition, offset, low_watermark, NULL);
    return code <= CAFKA_ERR_MEMORY ? ERR_UNKNOWN_SERVER_ERROR : code;
}

/* Which partition is named where last. */
static bool note_all(const struct delete_records_request *in, struct data_names *last)
{
    size_t ordinal = 0;
    for (int32_t t = 0; t < in->topics_count; t++)
        for (int32_t i = 0; i < in->topics[t].partitions_count; i++)
            if (!data_names_put(last, in->topics[t].name, (struct uuid){{0}},
                                in->topics[t].partitions[i].partition_index, ordinal++))
                return false;
    return true;
}

void api_delete_records(struct request_context *ctx)
{
    const struct delete_records_request *in = ctx->body;
    struct delete_records_response out;
    delete_records_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count, sizeof *out.topics);
    struct data_names last = {0};
    size_t ordinal = 0;
    bool good = (out.topics || !in->topics_count) && note_all(in, &last);
    for (int32_t t = 0; good && t < in->topics_count; t++) {
        struct delete_records_response_delete_records_topic_result *topic =
            &out.topics[out.topics_count];
        topic->name = in->topics[t].name;
        topic->partitions =
            request_calloc(ctx, (size_t)in->topics[t].partitions_count, sizeof *topic->partitions);
        good = topic->partitions || !in->topics[t].partitions_count;
        for (int32_t i = 0; good && i < in->topics[t].partitions_count; i++) {
            if (data_names_get(&last, topic->name, (struct uuid){{0}},
                               in->topics[t].partitions[i].partition_index) != ordinal++)
                continue;
            struct delete_records_response_delete_records_partition_result *answer =
                &topic->partitions[topic->partitions_count++];
            answer->partition_index = in->topics[t].partitions[i].partition_index;
            answer->low_watermark = -1;
            answer->error_code =
                (int16_t)delete_records(ctx, topic->name, answer->partition_index,
                                        in->topics[t].partitions[i].offset, &answer->low_watermark);
            if (answer->error_code)
                answer->low_watermark = -1;
        }
        out.topics_count += topic->partitions_count > 0;
    }
    map_fini(&last.ordinals);
    if (good)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}
