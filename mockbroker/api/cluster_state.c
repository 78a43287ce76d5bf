/*
 * cluster_state.c - small questions about brokers and the controller: UnregisterBroker,
 * DescribeQuorum, and SASL on a listener that does not ask for it.
 *
 * Thread: the broker's loop.
 */
#include <stdio.h>

#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "protocol/error_codes.h"
#include "protocol/messages/DescribeQuorum.h"
#include "protocol/messages/SaslAuthenticate.h"
#include "protocol/messages/UnregisterBroker.h"

void api_sasl(struct request_context *ctx)
{
    request_fail(ctx, ERR_ILLEGAL_SASL_STATE);
}

void api_sasl_authenticate(struct request_context *ctx)
{
    struct sasl_authenticate_response out;
    sasl_authenticate_response_init(&out);
    out.error_code = ERR_ILLEGAL_SASL_STATE;
    out.error_message = str_of("SaslAuthenticate request received after successful authentication");
    request_respond(ctx, &out);
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
