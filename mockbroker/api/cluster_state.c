/*
 * cluster_state.c - small questions about brokers and the controller: UnregisterBroker,
 * DescribeQuorum, DescribeLogDirs, and SASL on a listener that does not ask for it.
 */
#include <stdio.h>

#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "mockbroker/log/log_manager.h"
#include "mockbroker/replica/partition.h"
#include "protocol/error_codes.h"
#include "protocol/messages/DescribeLogDirs.h"
#include "protocol/messages/DescribeQuorum.h"
#include "protocol/messages/UnregisterBroker.h"

void api_sasl(struct request_context *ctx)
{
    request_fail(ctx, ERR_ILLEGAL_SASL_STATE);
}

void api_unregister_broker(struct request_context *ctx)
{
    const struct unregister_broker_request *in = ctx->body;
    struct unregister_broker_response out;
    char text[64];
    cafka_error why = {0};
    unregister_broker_response_init(&out);
    out.error_message = (struct str){0};
    snprintf(text, sizeof text, "Broker ID %d is not currently registered", (int)in->broker_id);
    int rc = controller_unregister(ctx->broker->cluster->controller, in->broker_id, &why);
    if (rc) {
        out.error_code = (int16_t)(is_local_error(rc) ? ERR_UNKNOWN_SERVER_ERROR : rc);
        out.error_message = str_of(rc == ERR_BROKER_ID_NOT_REGISTERED ? text : why.message);
    }
    request_respond(ctx, &out);
}

/* --- DescribeQuorum: one voter, this process --- */

typedef struct describe_quorum_response_partition_data quorum_partition;

static bool fill_quorum(struct request_context *ctx, bool metadata, int32_t index,
                        quorum_partition *out)
{
    const struct image *image = &ctx->broker->cluster->controller->image;
    describe_quorum_response_partition_data_init(out);
    out->partition_index = index;
    out->error_message = (struct str){0};
    if (!metadata || index) {
        out->error_code = ERR_UNKNOWN_TOPIC_OR_PARTITION;
        out->error_message = str_of("This server does not host this topic-partition.");
        return true;
    }
    out->leader_id = ctx->broker->id;
    out->leader_epoch = 1;
    out->high_watermark = image->offset + 1;
    out->current_voters = request_alloc(ctx, sizeof *out->current_voters);
    if (!out->current_voters)
        return false;
    describe_quorum_response_replica_state_init(out->current_voters);
    out->current_voters->replica_id = ctx->broker->id;
    out->current_voters->log_end_offset = image->offset + 1;
    out->current_voters_count = 1;
    return true;
}

void api_describe_quorum(struct request_context *ctx)
{
    const struct describe_quorum_request *in = ctx->body;
    struct describe_quorum_response out;
    describe_quorum_response_init(&out);
    out.error_message = (struct str){0};
    out.topics = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.topics);
    bool ok = out.topics;
    for (int32_t i = 0; ok && i < in->topics_count; i++) {
        struct describe_quorum_response_topic_data *to = &out.topics[out.topics_count++];
        int32_t count = in->topics[i].partitions_count;
        to->topic_name = in->topics[i].topic_name;
        to->partitions = request_calloc(ctx, (size_t)count + 1, sizeof *to->partitions);
        ok = to->partitions;
        for (int32_t j = 0; ok && j < count; j++)
            ok = fill_quorum(ctx, str_is(to->topic_name, "__cluster_metadata"),
                             in->topics[i].partitions[j].partition_index,
                             &to->partitions[to->partitions_count++]);
    }
    if (ok)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}

/* --- DescribeLogDirs: one directory a broker --- */

typedef struct describe_log_dirs_response_describe_log_dirs_topic dir_topic;

static void add_log(const struct topic_image *topic, int32_t index, dir_topic *out)
{
    const struct partition_image *p = topic_partition(topic, index);
    const struct partition *hosted = p ? p->hosted : NULL;
    if (hosted)
        out->partitions[out->partitions_count++] =
            (struct describe_log_dirs_response_describe_log_dirs_partition){.partition_index = index,
                                                                            .partition_size =
                                                                                commit_log_size(
                                                                                    hosted->log)};
}

static bool add_dir_topic(struct request_context *ctx, const struct topic_image *topic,
                          const int32_t *wanted, int32_t count,
                          struct describe_log_dirs_response_describe_log_dirs_result *result)
{
    dir_topic *to = &result->topics[result->topics_count];
    int32_t n = wanted ? count : topic->partition_count;
    *to = (dir_topic){.name = str_of(topic->name),
                      .partitions = request_calloc(ctx, (size_t)n + 1, sizeof *to->partitions)};
    if (!to->partitions)
        return false;
    for (int32_t i = 0; i < n; i++)
        add_log(topic, wanted ? wanted[i] : i, to);
    result->topics_count += to->partitions_count > 0;
    return true;
}

void api_describe_log_dirs(struct request_context *ctx)
{
    const struct describe_log_dirs_request *in = ctx->body;
    const struct image *image = &ctx->broker->image;
    struct describe_log_dirs_response out;
    struct describe_log_dirs_response_describe_log_dirs_result result;
    struct map_entry *e;
    bool all = in->topics_count < 0;
    describe_log_dirs_response_init(&out);
    describe_log_dirs_response_describe_log_dirs_result_init(&result);
    result.log_dir = str_of(ctx->broker->directory);
    result.topics = request_calloc(ctx, (all ? image->topics.count : (size_t)in->topics_count) + 1,
                                   sizeof *result.topics);
    bool ok = result.topics;
    for (size_t i = 0; ok && all && (e = map_next(&image->topics, &i));)
        ok = add_dir_topic(ctx, e->value, NULL, 0, &result);
    for (int32_t i = 0; ok && !all && i < in->topics_count; i++) {
        const struct topic_image *topic = image_topic(image, in->topics[i].topic);
        if (topic)
            ok = add_dir_topic(ctx, topic, in->topics[i].partitions, in->topics[i].partitions_count,
                               &result);
    }
    /* The env does not tell how large its disk is: as large as the answer can say. */
    result.total_bytes = INT64_MAX;
    result.usable_bytes = INT64_MAX;
    for (int32_t i = 0; ok && i < result.topics_count; i++)
        for (int32_t j = 0; j < result.topics[i].partitions_count; j++)
            result.usable_bytes -= result.topics[i].partitions[j].partition_size;
    out.results = &result;
    out.results_count = 1;
    if (ok)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}
