/*
 * request.c - see request.h.
 */
#include "mockbroker/request.h"

#include <stdio.h>

#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/fault/rules.h"
#include "mockbroker/session.h"
#include "mockbroker/versions.h"
#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/messages/ApiVersions.h"
#include "util/alloc.h"

/* What a session keeps from one request to the next; more is given back. */
enum { KEPT_BYTES = 256 * 1024 };

/* --- life --- */

void request_reset(struct request_context *ctx)
{
    for (struct response_slice *slice = ctx->slices, *all; slice; slice = all) {
        all = slice->all;
        if (slice->release)
            slice->release(slice);
    }
    ctx->slices = NULL;
    frame_unref(ctx->frame);
    ctx->frame = NULL;
    ctx->body = NULL;
    ctx->state = NULL;
    ctx->abandon = NULL;
    ctx->active = false;
    ctx->delay_ms = 0;
    ctx->drop_answer = false;
    arena_reset(&ctx->arena);
    if (ctx->out.bytes.capacity > KEPT_BYTES)
        encoded_fini(&ctx->out);
}

void request_fini(struct request_context *ctx)
{
    loop_timer_cancel(ctx->broker->loop, &ctx->delay_timer);
    request_reset(ctx);
    arena_fini(&ctx->arena);
    encoded_fini(&ctx->out);
}

void request_abandon(struct request_context *ctx)
{
    void (*abandon)(struct request_context *) = ctx->abandon;
    bool active = ctx->active;
    ctx->active = false;
    ctx->abandon = NULL;
    if (active && abandon)
        abandon(ctx);
}

struct response_slice *request_slice(struct request_context *ctx, cafka_env_file *file,
                                     int64_t offset, size_t size,
                                     void (*release)(struct response_slice *), void *user)
{
    struct response_slice *slice = request_alloc(ctx, sizeof *slice);
    if (!slice)
        return NULL;
    *slice = (struct response_slice){.file = file,
                                     .offset = offset,
                                     .size = size,
                                     .release = release,
                                     .user = user,
                                     .all = ctx->slices};
    ctx->slices = slice;
    return slice;
}

/* --- ending --- */

static void delayed_send(struct timer *timer)
{
    session_send(container_of(timer, struct request_context, delay_timer)->session);
}

/* The answer is in ctx->out. */
static void send_answer(struct request_context *ctx)
{
    ctx->active = false;
    ctx->abandon = NULL;
    if (ctx->drop_answer) {
        session_close(ctx->session);
        return;
    }
    if (!ctx->delay_ms) {
        session_send(ctx->session);
        return;
    }
    ctx->session->writing = true; /* so that nothing else is read meanwhile */
    ctx->delay_timer.fire = delayed_send;
    loop_timer_set(ctx->broker->loop, &ctx->delay_timer,
                   loop_now_ms(ctx->broker->loop) + ctx->delay_ms);
}

void request_respond(struct request_context *ctx, const void *response)
{
    cafka_error why = {0};
    if (response_encode(ctx->api, ctx->version, ctx->head.correlation_id, response, &ctx->out,
                        &why)) {
        log_error(ctx->broker->log, "answering %s version %d: %s", ctx->api->name, ctx->version,
                  why.message);
        request_close(ctx);
        return;
    }
    send_answer(ctx);
}

void request_no_answer(struct request_context *ctx)
{
    ctx->active = false;
    ctx->abandon = NULL;
    session_next(ctx->session);
}

void request_close(struct request_context *ctx)
{
    ctx->active = false;
    ctx->abandon = NULL;
    session_close(ctx->session);
}

/* --- failing --- */

/*
 * The response's defaults with the code in its ErrorCode, made by way of its JSON, which knows the
 * fields of every message. False: it has none at the top.
 */
static bool default_with_code(struct request_context *ctx, int code, void *response)
{
    static const char field[] = "\"errorCode\":0";
    struct buffer json = {0}, changed = {0};
    bool ok = false;
    message_init(ctx->api->response, response);
    if (!message_to_json(ctx->api->response, ctx->version, response, &json, NULL)) {
        const char *text = buffer_string(&json);
        const char *at = text ? strstr(text, field) : NULL;
        if (at) {
            buffer_printf(&changed, "%.*s\"errorCode\":%d%s", (int)(at - text), text, code,
                          at + sizeof field - 1);
            ok = buffer_string(&changed) &&
                 !message_from_json(ctx->api->response, ctx->version,
                                    (struct str){(char *)changed.data, changed.size}, &ctx->arena,
                                    response, NULL);
        }
    }
    buffer_fini(&json);
    buffer_fini(&changed);
    return ok;
}

void request_fail(struct request_context *ctx, int code)
{
    if (fault_answer(ctx, code))
        return;
    void *response = request_alloc(ctx, message_struct_size(ctx->api->response));
    if (response && default_with_code(ctx, code, response))
        request_respond(ctx, response);
    else
        request_close(ctx);
}

/* --- beginning --- */

/* Of an ApiVersions that is not known: the form of version 0, saying which versions are. */
static void refuse_api_versions(struct request_context *ctx)
{
    struct version_range range = release_range(ctx->broker->cluster->release, API_API_VERSIONS);
    struct api_versions_response_api_version row = {.api_key = API_API_VERSIONS,
                                                    .min_version = range.min,
                                                    .max_version = range.max};
    struct api_versions_response response;
    api_versions_response_init(&response);
    response.error_code = ERR_UNSUPPORTED_VERSION;
    response.api_keys = &row;
    response.api_keys_count = 1;
    ctx->api = api_find(API_API_VERSIONS);
    ctx->version = 0;
    request_respond(ctx, &response);
}

static int decode_body(struct request_context *ctx, cafka_error *err)
{
    const struct message *message = ctx->api->request;
    size_t used;
    ctx->body = request_alloc(ctx, message_struct_size(message));
    if (!ctx->body)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a request");
    struct bytes bytes =
        bytes_of(ctx->frame->data + ctx->head.size, ctx->frame->size - ctx->head.size);
    /* Bytes behind the body are ignored, as Kafka does. */
    return message_decode(message, ctx->version, bytes, &ctx->arena, ctx->body, &used, err);
}

static void dispatch(struct request_context *ctx)
{
    if (fault_apply(ctx))
        return;
    api_handler_fn *handle = api_handler_find(ctx->head.api_key);
    if (handle)
        handle(ctx);
    else
        request_fail(ctx, ERR_UNSUPPORTED_VERSION);
}

void request_begin(struct request_context *ctx, struct frame *frame)
{
    struct broker *broker = ctx->broker;
    cafka_error why = {0};
    ctx->frame = frame;
    ctx->active = true;
    ctx->received_ms = loop_now_ms(broker->loop);
    broker->cluster->requests_seen++;
    int rc = request_head_decode(bytes_of(frame->data, frame->size), &ctx->head, &why);
    bool readable = !rc || rc == CAFKA_ERR_UNSUPPORTED;
    int key = ctx->head.api_key, version = ctx->head.api_version;
    if (readable && key == API_API_VERSIONS &&
        !release_takes(broker->cluster->release, key, version)) {
        refuse_api_versions(ctx);
        return;
    }
    if (!rc && !release_takes(broker->cluster->release, key, version))
        rc = error_set(&why, CAFKA_ERR_UNSUPPORTED, "%s version %d is not served here",
                       api_find(key)->name, version);
    if (!rc) {
        ctx->api = api_find(key);
        ctx->version = version;
        broker->cluster->requests_of[key]++;
        rc = decode_body(ctx, &why);
    }
    if (rc) {
        log_debug(broker->log, "session %llu is closed: %s", (unsigned long long)ctx->session->id,
                  why.message);
        request_close(ctx);
        return;
    }
    dispatch(ctx);
}
