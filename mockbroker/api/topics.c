/*
 * topics.c - CreateTopics, DeleteTopics, CreatePartitions: what a broker forwards to the controller.
 */
#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "protocol/error_codes.h"

static void finish(struct request_context *ctx, int rc, const void *response, const cafka_error *why)
{
    if (!rc) {
        request_respond(ctx, response);
        return;
    }
    log_error(ctx->broker->log, "%s: %s", ctx->api->name, why->message);
    request_close(ctx);
}

void api_create_topics(struct request_context *ctx)
{
    struct create_topics_response out;
    cafka_error why = {0};
    int rc = controller_create_topics(ctx->broker->cluster->controller, ctx->body, &ctx->arena, &out,
                                      &why);
    finish(ctx, rc, &out, &why);
}

void api_delete_topics(struct request_context *ctx)
{
    struct delete_topics_response out;
    cafka_error why = {0};
    int rc = controller_delete_topics(ctx->broker->cluster->controller, ctx->body, ctx->version,
                                      &ctx->arena, &out, &why);
    finish(ctx, rc, &out, &why);
}

void api_create_partitions(struct request_context *ctx)
{
    struct create_partitions_response out;
    cafka_error why = {0};
    int rc = controller_create_partitions(ctx->broker->cluster->controller, ctx->body, &ctx->arena,
                                          &out, &why);
    finish(ctx, rc, &out, &why);
}
