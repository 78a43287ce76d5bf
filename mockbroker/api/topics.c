/*
 * topics.c - CreateTopics, DeleteTopics, CreatePartitions: what a broker forwards to the controller.
 *
 * The controller looks at nothing whose time is over when it comes: a timeout of 0 or less gets
 * REQUEST_TIMED_OUT for all that was named, and nothing is done.
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

static void time_out_creation(struct request_context *ctx)
{
    const struct create_topics_request *in = ctx->body;
    struct create_topics_response out;
    create_topics_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.topics);
    for (int32_t i = 0; out.topics && i < in->topics_count; i++) {
        struct create_topics_response_creatable_topic_result *result =
            &out.topics[out.topics_count++];
        create_topics_response_creatable_topic_result_init(result);
        result->name = in->topics[i].name;
        result->error_message = (struct str){0};
        result->error_code = ERR_REQUEST_TIMED_OUT;
    }
    finish(ctx, out.topics ? CAFKA_OK : CAFKA_ERR_MEMORY, &out,
           &(cafka_error){.message = "no memory"});
}

void api_create_topics(struct request_context *ctx)
{
    const struct create_topics_request *in = ctx->body;
    struct create_topics_response out;
    if (in->timeout_ms <= 0) {
        time_out_creation(ctx);
        return;
    }
    cafka_error why = {0};
    int rc = controller_create_topics(ctx->broker->cluster->controller, ctx->body, &ctx->arena,
                                      &out, &why);
    finish(ctx, rc, &out, &why);
}

static void time_out_deletion(struct request_context *ctx)
{
    const struct delete_topics_request *in = ctx->body;
    struct delete_topics_response out;
    bool by_state = ctx->version >= 6;
    int32_t count = by_state ? in->topics_count : in->topic_names_count;
    delete_topics_response_init(&out);
    out.responses = request_calloc(ctx, (size_t)count + 1, sizeof *out.responses);
    for (int32_t i = 0; out.responses && i < count; i++) {
        struct delete_topics_response_deletable_topic_result *result =
            &out.responses[out.responses_count++];
        delete_topics_response_deletable_topic_result_init(result);
        result->name = by_state ? in->topics[i].name : in->topic_names[i];
        if (by_state)
            result->topic_id = in->topics[i].topic_id;
        result->error_code = ERR_REQUEST_TIMED_OUT;
    }
    finish(ctx, out.responses ? CAFKA_OK : CAFKA_ERR_MEMORY, &out,
           &(cafka_error){.message = "no memory"});
}

void api_delete_topics(struct request_context *ctx)
{
    const struct delete_topics_request *in = ctx->body;
    struct delete_topics_response out;
    if (in->timeout_ms <= 0) {
        time_out_deletion(ctx);
        return;
    }
    cafka_error why = {0};
    int rc = controller_delete_topics(ctx->broker->cluster->controller, ctx->body, ctx->version,
                                      &ctx->arena, &out, &why);
    finish(ctx, rc, &out, &why);
}

static void time_out_growth(struct request_context *ctx)
{
    const struct create_partitions_request *in = ctx->body;
    struct create_partitions_response out;
    create_partitions_response_init(&out);
    out.results = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.results);
    for (int32_t i = 0; out.results && i < in->topics_count; i++) {
        struct create_partitions_response_create_partitions_topic_result *result =
            &out.results[out.results_count++];
        create_partitions_response_create_partitions_topic_result_init(result);
        result->name = in->topics[i].name;
        result->error_code = ERR_REQUEST_TIMED_OUT;
    }
    finish(ctx, out.results ? CAFKA_OK : CAFKA_ERR_MEMORY, &out,
           &(cafka_error){.message = "no memory"});
}

void api_create_partitions(struct request_context *ctx)
{
    const struct create_partitions_request *in = ctx->body;
    struct create_partitions_response out;
    if (in->timeout_ms <= 0) {
        time_out_growth(ctx);
        return;
    }
    cafka_error why = {0};
    int rc = controller_create_partitions(ctx->broker->cluster->controller, ctx->body, &ctx->arena,
                                          &out, &why);
    finish(ctx, rc, &out, &why);
}
