/*
 * transfer.c - requests out, responses in.
 */
#include "conn/internal.h"

#include <assert.h>

#include "protocol/api_keys.h"
#include "protocol/errors.h"

/* --- out --- */

/* The stream is done with a request: written, or dropped with the socket. */
static void on_written(void *user)
{
    struct slot *slot = user;
    struct conn *conn = slot->conn;
    if (!conn->stream)
        return;
    slot->written = true;
    if (slot->no_response)
        conn_soon(conn);
}

struct output {
    struct conn *conn;
    const void *held; /* the piece that is not queued yet, since it may be the last */
    size_t held_size;
    int rc;
};

static void put(struct output *out, const void *data, size_t size, cafka_error *err)
{
    if (!size || out->rc)
        return;
    if (out->held_size)
        out->rc = stream_write_ref(out->conn->stream, out->held, out->held_size, NULL, NULL, err);
    out->held = data;
    out->held_size = size;
}

/* Queue the encoded bytes with the spliced ones between them; the last piece tells when all is written. */
static int queue_slot(struct conn *conn, struct slot *slot, cafka_error *err)
{
    struct output out = {.conn = conn};
    const struct encoded *e = &slot->encoded;
    size_t at = 0;
    for (size_t i = 0; i < e->splice_count; i++) {
        const struct conn_pieces *pieces = e->splices[i].external;
        put(&out, e->bytes.data + at, e->splices[i].at - at, err);
        at = e->splices[i].at;
        for (int k = 0; k < pieces->count; k++)
            put(&out, pieces->iov[k].iov_base, pieces->iov[k].iov_len, err);
    }
    put(&out, e->bytes.data + at, e->bytes.size - at, err);
    if (out.rc)
        return out.rc;
    return stream_write_ref(conn->stream, out.held, out.held_size, on_written, slot, err);
}

static void watch_deadline(struct conn *conn, int64_t deadline_ms)
{
    if (!timer_is_set(&conn->request_timer) || deadline_ms < conn->request_timer.deadline_ms)
        loop_timer_set(conn->options->loop, &conn->request_timer, deadline_ms);
}

int conn_send_now(struct conn *conn, struct request *request, int version, const void *body,
                  cafka_error *err)
{
    const struct api *api = api_find(request->api_key);
    struct slot *slot = inflight_free_slot(&conn->inflight);
    int32_t correlation_id = conn->next_correlation_id;
    int rc = request_encode(api, version, correlation_id, str_of(conn->options->client_id), body,
                            &slot->encoded, err);
    if (rc) {
        encoded_clear(&slot->encoded);
        return rc;
    }
    int64_t timeout_ms =
        request->timeout_ms ? request->timeout_ms : conn->options->request_timeout_ms;
    slot->request = request;
    slot->api = api;
    slot->version = version;
    slot->correlation_id = correlation_id;
    slot->deadline_ms = loop_now_ms(conn->options->loop) + timeout_ms;
    slot->no_response = request->no_response;
    slot->written = false;
    slot->begins_at = conn->queued_total;
    cafka_error why = {0};
    size_t unwritten = stream_unwritten(conn->stream);
    rc = queue_slot(conn, slot, &why);
    if (rc) {
        /* A part of it may be queued already, and its memory is the caller's: the socket goes now. */
        conn->queued_total += stream_unwritten(conn->stream) - unwritten;
        conn_drop_stream(conn);
        conn_break(conn, &why);
        return error_set(err, rc, "%s", why.message);
    }
    conn->next_correlation_id = correlation_id < INT32_MAX ? correlation_id + 1 : 0;
    conn->queued_total += encoded_size(&slot->encoded);
    conn->active_ms = loop_now_ms(conn->options->loop);
    inflight_push(&conn->inflight, slot);
    slot->sent_ms = conn->active_ms;
    conn_meters_request(conn->meters, conn->active_ms, (int64_t)encoded_size(&slot->encoded));
    watch_deadline(conn, slot->deadline_ms);
    conn->busy++; /* what the flush finds out is told later */
    stream_flush(conn->stream);
    conn->busy--;
    return CAFKA_OK;
}

int conn_send(struct conn *conn, struct request *request, int version, const void *body,
              cafka_error *err)
{
    assert(request->done && !request->conn);
    if (!conn_can_send(conn))
        return error_set(err, CAFKA_ERR_STATE, "the connection to %s takes no request now",
                         conn->name);
    return conn_send_now(conn, request, version, body, err);
}

void conn_cancel(struct request *request)
{
    struct conn *conn = request->conn;
    if (!conn)
        return;
    struct slot *slot = &conn->inflight.slots[request->slot];
    slot->request = NULL; /* its answer will find nobody */
    request->conn = NULL;
    if (!slot->written && slot->encoded.splice_count) {
        conn_drop_stream(conn);
        cafka_error why = {0};
        error_set(&why, CAFKA_ERR_TRANSPORT,
                  "the connection to %s was closed because a request was cancelled half written",
                  conn->name);
        conn_break(conn, &why);
    }
}

/* --- in --- */

static bool throttle_leads_body(const struct api *api)
{
    switch (api->key) {
    case API_PRODUCE:
    case API_API_VERSIONS:
    case API_CREATE_DELEGATION_TOKEN:
    case API_RENEW_DELEGATION_TOKEN:
    case API_EXPIRE_DELEGATION_TOKEN:
    case API_DESCRIBE_DELEGATION_TOKEN:
    case API_OFFSET_DELETE: return false;
    default: return true;
    }
}

void conn_throttle(struct conn *conn, int64_t throttle_ms)
{
    struct loop *loop = conn->options->loop;
    if (throttle_ms <= 0 || conn->state == CONN_IDLE || conn->state == CONN_CLOSED)
        return;
    int64_t now_ms = loop_now_ms(loop), until_ms = now_ms + throttle_ms;
    int64_t before_ms = conn->throttled_until_ms > now_ms ? conn->throttled_until_ms : now_ms;
    if (until_ms <= before_ms)
        return;
    conn->throttled_until_ms = until_ms;
    inflight_put_off(&conn->inflight, until_ms - before_ms); /* the broker reads nothing meanwhile */
    loop_timer_set(loop, &conn->throttle_timer, until_ms);
    log_debug(conn->options->log, "%s: throttled for %lld ms", conn->name, (long long)throttle_ms);
}

static void heed_throttle(struct conn *conn, const struct slot *slot, struct bytes body)
{
    int from = slot->api->client_throttle_from;
    if (from >= 0 && slot->version >= from && throttle_leads_body(slot->api) && body.size >= 4)
        conn_throttle(conn, (int32_t)load_be32(body.data));
}

/* Is this the answer that comes next? Gives the body. */
static int match(struct conn *conn, struct slot *slot, struct bytes frame, struct bytes *body,
                 cafka_error *err)
{
    if (!slot)
        return error_set(err, CAFKA_ERR_PROTOCOL, "%s sent a response that no request waits for",
                         conn->name);
    if (!slot->written)
        return error_set(err, CAFKA_ERR_PROTOCOL,
                         "%s answered a %s request before it was completely sent", conn->name,
                         slot->api->name);
    int32_t correlation_id = 0;
    size_t size = 0;
    int rc = response_head_decode(slot->api, slot->version, frame, &correlation_id, &size, err);
    if (rc) {
        error_prefix(err, "a %s response of %s: ", slot->api->name, conn->name);
        return rc;
    }
    if (correlation_id != slot->correlation_id)
        return error_set(err, CAFKA_ERR_PROTOCOL,
                         "%s answered with correlation id %d where %d (%s) was expected",
                         conn->name, correlation_id, slot->correlation_id, slot->api->name);
    *body = bytes_of(frame.data + size, frame.size - size);
    return CAFKA_OK;
}

static int take_response(struct conn *conn, struct frame *frame, cafka_error *err)
{
    struct slot *slot = inflight_awaited(&conn->inflight);
    struct bytes body;
    int rc = match(conn, slot, bytes_of(frame->data, frame->size), &body, err);
    if (rc)
        return rc;
    heed_throttle(conn, slot, body);
    int64_t now_ms = loop_now_ms(conn->options->loop);
    conn_meters_response(conn->meters, now_ms, (int64_t)frame->size + 4, now_ms - slot->sent_ms);
    struct reply reply = {.conn = conn,
                          .api = slot->api,
                          .version = slot->version,
                          .frame = frame,
                          .body = body};
    struct request *request = inflight_finish(&conn->inflight, slot);
    if (request)
        request->done(request, &reply);
    return CAFKA_OK;
}

void conn_tell_writable(struct conn *conn)
{
    if (conn_can_send(conn) && conn->events->writable)
        conn->events->writable(conn->owner);
}

void conn_receive(struct conn *conn)
{
    struct stream *stream = conn->stream;
    bool any = false;
    /* A callback may reset the connection, even to a new stream: stop at the first change. */
    while (stream && conn->stream == stream && !conn->broken.code) {
        cafka_error err = {0};
        struct frame *frame = NULL;
        int rc = frame_reader_next(&conn->reader, stream, &frame, &err);
        if (!rc && frame)
            rc = take_response(conn, frame, &err);
        frame_unref(frame);
        if (rc) {
            if (rc == CAFKA_ERR_PROTOCOL)
                error_prefix(&err, "%s does not speak the protocol: ", conn->name);
            if (rc != CAFKA_ERR_TRANSPORT) /* for that stream_events.closed comes */
                conn_break(conn, &err);
            return;
        }
        if (!frame)
            break;
        any = true;
    }
    if (!any || conn->state != CONN_READY)
        return;
    conn->active_ms = loop_now_ms(conn->options->loop);
    if (!conn->inflight.count && timer_is_set(&conn->request_timer))
        loop_timer_cancel(conn->options->loop, &conn->request_timer); /* idle means idle */
    if (conn->draining && !conn->inflight.count)
        conn_soon(conn);
    conn_tell_writable(conn);
}

void conn_finish_written(struct conn *conn)
{
    bool any = false;
    struct slot *slot;
    while ((slot = inflight_written(&conn->inflight))) {
        struct reply reply = {.conn = conn, .api = slot->api, .version = slot->version};
        struct request *request = inflight_finish(&conn->inflight, slot);
        any = true;
        if (request)
            request->done(request, &reply);
    }
    if (any)
        conn_tell_writable(conn);
}

void conn_on_request_timer(struct timer *timer)
{
    struct conn *conn = container_of(timer, struct conn, request_timer);
    int64_t next_ms = inflight_next_deadline_ms(&conn->inflight);
    if (next_ms == INT64_MAX)
        return;
    if (next_ms > loop_now_ms(conn->options->loop)) {
        loop_timer_set(conn->options->loop, timer, next_ms);
        return;
    }
    cafka_error why = {0};
    struct slot *slot = inflight_oldest(&conn->inflight);
    error_set(&why, CAFKA_ERR_TIMEOUT,
              "%s did not answer in time (request.timeout.ms; %d in flight, the oldest is %s); "
              "the connection was closed",
              conn->name, conn->inflight.count, slot ? slot->api->name : "none");
    conn_enter(conn);
    conn_fail(conn, &why);
    conn_leave(conn);
}

int reply_decode(const struct reply *reply, struct arena *arena, void *out, cafka_error *err)
{
    int rc =
        message_decode(reply->api->response, reply->version, reply->body, arena, out, NULL, err);
    if (!rc)
        return CAFKA_OK;
    error_prefix(err, "the %s response (version %d) of %s: ", reply->api->name, reply->version,
                 reply->conn->name);
    if (rc != CAFKA_ERR_MEMORY) {
        cafka_error why = {0};
        error_set(&why, CAFKA_ERR_PROTOCOL, "%s sent a %s response that cannot be decoded",
                  reply->conn->name, reply->api->name);
        conn_break(reply->conn, &why);
    }
    return rc;
}
