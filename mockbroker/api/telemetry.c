/*
 * telemetry.c - GetTelemetrySubscriptions and PushTelemetry, as a broker without a metrics
 * reporter answers them: there is nothing to be pushed.
 */
#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "protocol/error_codes.h"
#include "protocol/messages/GetTelemetrySubscriptions.h"
#include "protocol/messages/PushTelemetry.h"
#include "util/hash.h"

enum { PUSH_INTERVAL_MS = 300000 };

/* Of the subscriptions that match a client: with none, only the client counts. */
static int32_t subscription_id(struct uuid client)
{
    return (int32_t)hash_bytes(client.bytes, sizeof client.bytes);
}

void api_get_telemetry_subscriptions(struct request_context *ctx)
{
    static int8_t codecs[] = {4, 3, 1, 2}; /* zstd, lz4, gzip, snappy */
    const struct get_telemetry_subscriptions_request *in = ctx->body;
    struct get_telemetry_subscriptions_response out;
    get_telemetry_subscriptions_response_init(&out);
    out.client_instance_id = uuid_is_zero(in->client_instance_id) ? uuid_random(&ctx->broker->rng)
                                                                  : in->client_instance_id;
    out.subscription_id = subscription_id(out.client_instance_id);
    out.accepted_compression_types = codecs;
    out.accepted_compression_types_count = sizeof codecs;
    out.push_interval_ms = PUSH_INTERVAL_MS;
    out.telemetry_max_bytes =
        (int32_t)broker_config_long(&ctx->broker->config, "telemetry.max.bytes");
    out.delta_temporality = true;
    request_respond(ctx, &out);
}

void api_push_telemetry(struct request_context *ctx)
{
    const struct push_telemetry_request *in = ctx->body;
    struct push_telemetry_response out;
    push_telemetry_response_init(&out);
    if (uuid_is_zero(in->client_instance_id))
        out.error_code = ERR_INVALID_REQUEST;
    else if (in->subscription_id != subscription_id(in->client_instance_id))
        out.error_code = ERR_UNKNOWN_SUBSCRIPTION_ID;
    else if ((int64_t)in->metrics.size >
             broker_config_long(&ctx->broker->config, "telemetry.max.bytes"))
        out.error_code = ERR_TELEMETRY_TOO_LARGE;
    request_respond(ctx, &out);
}
