/*
 * conn.c - see conn.h. States, the end of a connection, its timers, and making one. How it comes to
 * life is in dial.c, what it carries in transfer.c.
 */
#include "conn/internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "util/alloc.h"

#define TO(state) (1u << CONN_##state)
static const struct {
    const char *name;
    unsigned next; /* the states that may follow */
} conn_states[CONN_STATES] = {
    [CONN_IDLE] = {"idle", TO(DIALING) | TO(CLOSED)},
    [CONN_DIALING] = {"dialing", TO(VERSIONS) | TO(IDLE) | TO(CLOSED)},
    [CONN_VERSIONS] = {"versions", TO(DIALING) | TO(AUTH) | TO(READY) | TO(IDLE) | TO(CLOSED)},
    [CONN_AUTH] = {"auth", TO(READY) | TO(IDLE) | TO(CLOSED)},
    [CONN_READY] = {"ready", TO(AUTH) | TO(IDLE) | TO(CLOSED)},
    [CONN_CLOSED] = {"closed", 0},
};
#undef TO

const char *conn_state_name(enum conn_state state)
{
    return conn_states[state].name;
}

void conn_move(struct conn *conn, enum conn_state next)
{
    assert(conn_states[conn->state].next & (1u << next));
    log_debug(conn->options->log, "%s: %s -> %s", conn->name, conn_states[conn->state].name,
              conn_states[next].name);
    conn->state = next;
}

/* --- callbacks of the owner may free the connection; it goes when the last of our frames has --- */

static void destroy(struct conn *conn)
{
    frame_reader_fini(&conn->reader);
    inflight_fini(&conn->inflight);
    mem_free(conn->features);
    mem_free(conn->host);
    mem_free(conn->name);
    mem_free(conn);
}

void conn_enter(struct conn *conn)
{
    conn->busy++;
}

void conn_leave(struct conn *conn)
{
    if (!--conn->busy && conn->state == CONN_CLOSED)
        destroy(conn);
}

/* --- the end of a connection --- */

void conn_drop_stream(struct conn *conn)
{
    struct stream *stream = conn->stream;
    if (!stream)
        return;
    conn->written_total = conn->queued_total - stream_unwritten(stream);
    if (conn->counted)
        conn_meters_closed(conn->meters, loop_now_ms(conn->options->loop));
    conn->counted = false;
    conn->stream = NULL; /* releases that follow are drops, not writes */
    stream_free(stream);
}

void conn_set_meters(struct conn *conn, struct conn_meters *meters)
{
    conn->meters = meters;
}

/* Until it is READY, no answer is large. */
static void init_reader(struct conn *conn)
{
    uint32_t limit = conn->options->receive_max_bytes;
    frame_reader_init(&conn->reader, conn->options->frames,
                      limit < SETUP_FRAME_MAX ? limit : SETUP_FRAME_MAX);
}

void conn_drop_socket(struct conn *conn)
{
    conn_drop_stream(conn);
    frame_reader_fini(&conn->reader);
    init_reader(conn);
    lookup_cancel(conn->lookup);
    conn->lookup = NULL;
    loop_timer_cancel(conn->options->loop, &conn->state_timer);
    loop_timer_cancel(conn->options->loop, &conn->request_timer);
    loop_timer_cancel(conn->options->loop, &conn->idle_timer);
    loop_timer_cancel(conn->options->loop, &conn->throttle_timer);
    loop_timer_cancel(conn->options->loop, &conn->soon_timer);
    error_clear(&conn->broken);
    conn->throttled_until_ms = 0;
    conn->draining = false;
    conn->wanted = false;
}

void conn_fail_requests(struct conn *conn, const cafka_error *why)
{
    struct slot *slot;
    while ((slot = inflight_oldest(&conn->inflight))) {
        cafka_error error = *why;
        if (slot->begins_at < conn->written_total)
            error.flags |= CAFKA_UNKNOWN_OUTCOME;
        struct reply reply = {.error = &error,
                              .conn = conn,
                              .api = slot->api,
                              .version = slot->version};
        struct request *request = inflight_finish(&conn->inflight, slot);
        if (request)
            request->done(request, &reply);
    }
}

/* Why a connection ends is worth another try, whatever the cause: brokers restart, proxies heal. */
static cafka_error retriable(const cafka_error *why)
{
    cafka_error error = *why;
    if (error.code == CAFKA_OK)
        error_set(&error, CAFKA_ERR_TRANSPORT, "the connection was left: not used, or moved");
    error.flags |= CAFKA_RETRIABLE;
    return error;
}

void conn_fail(struct conn *conn, const cafka_error *cause)
{
    cafka_error why = *cause; /* it may lie in what is dropped */
    bool was_ready = conn->state == CONN_READY, moved = conn->draining;
    log_debug(conn->options->log, "%s: %s", conn->name, why.code ? why.message : "idle, closed");
    conn_drop_socket(conn);
    conn_move(conn, CONN_IDLE);
    if (was_ready || conn->address_at >= conn->address_count)
        conn->address_count = 0; /* ask the resolver again: it may live elsewhere now */
    if (why.code) {
        if (was_ready)
            conn->setup_failures = 0;
        else
            conn->setup_failures++;
        if (!moved) /* nothing is known against the new place */
            conn->blocked_until_ms = loop_now_ms(conn->options->loop) +
                                     backoff_next(&conn->backoff, loop_env(conn->options->loop));
    }
    conn->last_error = why;

    cafka_error error = retriable(&why);
    conn_fail_requests(conn, &error);
    if (conn->state != CONN_CLOSED && conn->events->down)
        conn->events->down(conn->owner, &why);
}

void conn_break(struct conn *conn, const cafka_error *why)
{
    if (conn->broken.code)
        return;
    conn->broken = *why;
    conn_soon(conn);
}

void conn_hang_up(struct conn *conn, const cafka_error *why)
{
    if (conn->state == CONN_IDLE || conn->state == CONN_CLOSED)
        return;
    lookup_cancel(conn->lookup);
    conn->lookup = NULL;
    conn->address_count = conn->address_at = 0;
    conn->versions_fallback = true; /* or another attempt would be worth it */
    conn_break(conn, why);
}

void conn_soon(struct conn *conn)
{
    loop_timer_set(conn->options->loop, &conn->soon_timer, loop_now_ms(conn->options->loop));
}

void conn_reset(struct conn *conn, const cafka_error *why)
{
    if (conn->state == CONN_CLOSED)
        return;
    cafka_error error = *why; /* before anything that may hold it goes */
    conn_enter(conn);
    conn_drop_socket(conn);
    if (conn->state != CONN_IDLE)
        conn_move(conn, CONN_IDLE);
    conn->address_count = 0;
    conn->blocked_until_ms = 0;
    backoff_reset(&conn->backoff);
    conn_fail_requests(conn, &error);
    conn_leave(conn);
}

void conn_free(struct conn *conn)
{
    if (!conn || conn->state == CONN_CLOSED)
        return;
    conn_enter(conn);
    conn_drop_socket(conn);
    conn_move(conn, CONN_CLOSED);
    cafka_error error = {0};
    error_set(&error, CAFKA_ERR_CLOSED, "the connection to %s was closed by this client",
              conn->name);
    conn_fail_requests(conn, &error);
    conn_leave(conn);
}

/* --- timers --- */

static void on_idle_timer(struct timer *timer)
{
    struct conn *conn = container_of(timer, struct conn, idle_timer);
    struct loop *loop = conn->options->loop;
    if (conn->inflight.count)
        conn->active_ms = loop_now_ms(loop);
    int64_t until_ms = conn->active_ms + conn->options->max_idle_ms;
    if (until_ms > loop_now_ms(loop)) {
        loop_timer_set(loop, timer, until_ms);
        return;
    }
    conn_enter(conn);
    conn_fail(conn, &(cafka_error){0});
    conn_leave(conn);
}

static void on_throttle_timer(struct timer *timer)
{
    struct conn *conn = container_of(timer, struct conn, throttle_timer);
    conn_enter(conn);
    conn_tell_writable(conn);
    conn_leave(conn);
}

/* What could not be told inside a call of the owner. */
static void on_soon_timer(struct timer *timer)
{
    struct conn *conn = container_of(timer, struct conn, soon_timer);
    conn_enter(conn);
    if (conn->broken.code) {
        conn_give_up(conn, &conn->broken);
    } else {
        conn_finish_written(conn);
        if (conn->state == CONN_READY && conn->draining && !conn->inflight.count)
            conn_fail(conn, &(cafka_error){0});
    }
    conn_leave(conn);
}

/* --- making one, and asking it --- */

static int set_address(struct conn *conn, const char *host, uint16_t port, cafka_error *err)
{
    size_t size = strlen(host) + sizeof "[]:65535";
    char *new_host = mem_strdup(host);
    char *name = mem_alloc(size);
    if (!new_host || !name) {
        mem_free(new_host);
        mem_free(name);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the address of a broker");
    }
    snprintf(name, size, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);
    mem_free(conn->host);
    mem_free(conn->name);
    conn->host = new_host;
    conn->name = name;
    conn->port = port;
    conn->address_count = conn->address_at = 0;
    return CAFKA_OK;
}

int conn_new(struct conn **out, const struct conn_options *options, const char *host, uint16_t port,
             int max_in_flight, const struct conn_events *events, void *owner, cafka_error *err)
{
    assert(max_in_flight >= 1 && max_in_flight <= 1000);
    struct conn *conn = mem_zalloc(sizeof *conn);
    if (!conn)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a connection");
    conn->options = options;
    conn->events = events;
    conn->owner = owner;
    conn->backoff =
        (struct backoff){options->reconnect_backoff_ms, options->reconnect_backoff_max_ms, 0};
    conn->state_timer.fire = conn_on_state_timer;
    conn->request_timer.fire = conn_on_request_timer;
    conn->throttle_timer.fire = on_throttle_timer;
    conn->idle_timer.fire = on_idle_timer;
    conn->soon_timer.fire = on_soon_timer;
    init_reader(conn);
    conn_forget_versions(conn);
    int rc = set_address(conn, host, port, err);
    if (!rc)
        rc = inflight_init(&conn->inflight, conn, max_in_flight, err);
    if (rc) {
        destroy(conn);
        return rc;
    }
    *out = conn;
    return CAFKA_OK;
}

int conn_move_to(struct conn *conn, const char *host, uint16_t port, cafka_error *err)
{
    if (conn->port == port && !strcmp(conn->host, host))
        return CAFKA_OK;
    int rc = set_address(conn, host, port, err);
    if (rc)
        return rc;
    if (conn->state == CONN_READY) {
        conn->draining = true;
        conn_soon(conn);
    } else if (conn->state != CONN_IDLE) {
        cafka_error why = {0};
        error_set(&why, CAFKA_ERR_TRANSPORT, "the broker has moved to %s", conn->name);
        conn_reset(conn, &why);
        conn_open(conn);
    } else {
        bool wanted = conn->wanted;
        conn->blocked_until_ms = 0; /* the backoff was for the old place */
        conn->wanted = false;
        loop_timer_cancel(conn->options->loop, &conn->state_timer);
        if (wanted)
            conn_open(conn);
    }
    return CAFKA_OK;
}

enum conn_state conn_state(const struct conn *conn)
{
    return conn->state;
}

const char *conn_name(const struct conn *conn)
{
    return conn->name;
}

int conn_in_flight(const struct conn *conn)
{
    return conn->inflight.count;
}

bool conn_can_send(const struct conn *conn)
{
    return conn->state == CONN_READY && !conn->draining && !conn->broken.code &&
           conn->inflight.count < conn->inflight.capacity &&
           conn->throttled_until_ms <= loop_now_ms(conn->options->loop);
}

int64_t conn_blocked_until_ms(const struct conn *conn)
{
    int64_t until_ms = conn->state == CONN_READY ? conn->throttled_until_ms : conn->blocked_until_ms;
    return until_ms > loop_now_ms(conn->options->loop) ? until_ms : 0;
}

const cafka_error *conn_last_error(const struct conn *conn)
{
    return &conn->last_error;
}
