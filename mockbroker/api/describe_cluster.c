/*
 * describe_cluster.c - DescribeCluster: brokers and the controller, by the kind of endpoint asked for.
 *
 * Thread: the broker's loop.
 * Source: kafka.server.KafkaApis.handleDescribeCluster; KIP-700, KIP-919, KIP-1073.
 */
#include <stdio.h>

#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/session.h"
#include "protocol/error_codes.h"
#include "protocol/messages/DescribeCluster.h"

enum { ENDPOINT_BROKER = 1, ENDPOINT_CONTROLLER = 2 };

static void refuse(struct request_context *ctx, int type)
{
    struct describe_cluster_response out;
    char text[64];
    snprintf(text, sizeof text, "Unsupported endpoint type %d", type);
    describe_cluster_response_init(&out);
    out.cluster_id = str_of(ctx->broker->cluster->cluster_id);
    out.error_code =
        type == ENDPOINT_CONTROLLER ? ERR_MISMATCHED_ENDPOINT_TYPE : ERR_UNSUPPORTED_ENDPOINT_TYPE;
    out.error_message = type == ENDPOINT_CONTROLLER
                            ? str_of("The request was sent to an endpoint of type BROKER, but we "
                                     "wanted an endpoint of type CONTROLLER")
                            : str_of(text);
    request_respond(ctx, &out);
}

void api_describe_cluster(struct request_context *ctx)
{
    const struct describe_cluster_request *in = ctx->body;
    struct broker *broker = ctx->broker;
    struct describe_cluster_response out;
    struct map_entry *e;
    if (in->endpoint_type != ENDPOINT_BROKER) {
        refuse(ctx, in->endpoint_type);
        return;
    }
    describe_cluster_response_init(&out);
    out.cluster_id = str_of(broker->cluster->cluster_id);
    out.brokers = request_calloc(ctx, broker->image.brokers.count + 1, sizeof *out.brokers);
    if (!out.brokers) {
        request_close(ctx);
        return;
    }
    for (size_t i = 0; (e = map_next(&broker->image.brokers, &i));) {
        const struct broker_image *b = e->value;
        const struct endpoint *endpoint = broker_endpoint(b, ctx->session->listener->name);
        if (!endpoint || (b->fenced && !in->include_fenced_brokers))
            continue;
        out.brokers[out.brokers_count++] =
            (struct describe_cluster_response_describe_cluster_broker){.broker_id = b->id,
                                                                       .host =
                                                                           str_of(endpoint->host),
                                                                       .port = endpoint->port,
                                                                       .rack = str_of(b->rack),
                                                                       .is_fenced = b->fenced};
    }
    if (out.brokers_count)
        out.controller_id =
            out.brokers[rng_below(&broker->rng, (uint64_t)out.brokers_count)].broker_id;
    if (in->include_cluster_authorized_operations)
        out.cluster_authorized_operations = CLUSTER_OPERATIONS;
    request_respond(ctx, &out);
}
