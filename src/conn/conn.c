/*
 * conn.c - see conn.h. How a connection comes to life and ends; what it carries is in transfer.c.
 */
#include "config.h"

#include "conn/internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "protocol/api_keys.h"
#include "protocol/errors.h"
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

static void conn_move(struct conn *conn, enum conn_state next)
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

/* Close the socket, and note how much of what was queued got out. */
void conn_drop_stream(struct conn *conn)
{
    struct stream *stream = conn->stream;
    if (!stream)
        return;
    conn->written_total = conn->queued_total - stream_unwritten(stream);
    conn->stream = NULL; /* releases that follow are drops, not writes */
    stream_free(stream);
}

/* The same, and forget all else that belonged to it. Requests in flight stay in their slots. */
static void drop_socket(struct conn *conn)
{
    conn_drop_stream(conn);
    frame_reader_fini(&conn->reader);
    frame_reader_init(&conn->reader, conn->options->frames, conn->options->receive_max_bytes);
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

static void fail_requests(struct conn *conn, const cafka_error *why)
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
        error_set(&error, CAFKA_ERR_TRANSPORT, "the connection was closed because it was not used");
    error.flags |= CAFKA_RETRIABLE;
    return error;
}

void conn_fail(struct conn *conn, const cafka_error *cause)
{
    cafka_error why = *cause; /* it may lie in what is dropped */
    bool was_ready = conn->state == CONN_READY;
    log_debug(conn->options->log, "%s: %s", conn->name, why.code ? why.message : "idle, closed");
    drop_socket(conn);
    conn_move(conn, CONN_IDLE);
    if (was_ready || conn->address_at >= conn->address_count)
        conn->address_count = 0; /* ask the resolver again: it may live elsewhere now */
    if (why.code) {
        if (was_ready)
            conn->setup_failures = 0;
        else
            conn->setup_failures++;
        conn->blocked_until_ms = loop_now_ms(conn->options->loop) +
                                 backoff_next(&conn->backoff, loop_env(conn->options->loop));
    }
    conn->last_error = why;

    cafka_error error = retriable(&why);
    fail_requests(conn, &error);
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
    drop_socket(conn);
    if (conn->state != CONN_IDLE)
        conn_move(conn, CONN_IDLE);
    conn->address_count = 0;
    conn->blocked_until_ms = 0;
    backoff_reset(&conn->backoff);
    fail_requests(conn, &error);
    conn_leave(conn);
}

void conn_free(struct conn *conn)
{
    if (!conn || conn->state == CONN_CLOSED)
        return;
    conn_enter(conn);
    drop_socket(conn);
    conn_move(conn, CONN_CLOSED);
    cafka_error error = {0};
    error_set(&error, CAFKA_ERR_CLOSED, "the connection to %s was closed by this client",
              conn->name);
    fail_requests(conn, &error);
    conn_leave(conn);
}

/* --- the beginning --- */

static void start_dialing(struct conn *conn);

static void on_connected(void *owner)
{
    struct conn *conn = owner;
    conn_enter(conn);
    conn_move(conn, CONN_VERSIONS);
    conn->versions_retried = false;
    int newest = message_max_version(api_find(API_API_VERSIONS)->request);
    conn_ask_versions(conn, conn->versions_fallback ? 0 : newest);
    conn_leave(conn);
}

static void on_readable(void *owner)
{
    struct conn *conn = owner;
    conn_enter(conn);
    conn_receive(conn);
    conn_leave(conn);
}

/* There may be another address; and some brokers close when they do not know our ApiVersions. */
static bool try_another_way(struct conn *conn, const cafka_error *why)
{
    if (conn->state == CONN_VERSIONS && !conn->versions_fallback &&
        why->code == CAFKA_ERR_TRANSPORT) {
        conn->versions_fallback = true;
        conn->address_at--; /* the same again */
    } else if (conn->address_at >= conn->address_count ||
               (conn->state != CONN_DIALING && conn->state != CONN_VERSIONS)) {
        return false;
    } else {
        conn->versions_fallback = false;
    }
    log_debug(conn->options->log, "%s: %s; trying again", conn->name, why->message);
    cafka_error echo = *why;
    drop_socket(conn);
    fail_requests(conn, &echo); /* ours alone: the question for versions */
    start_dialing(conn);
    return true;
}

/* Something ended the connection that another attempt at once may heal. */
static void give_up(struct conn *conn, const cafka_error *cause)
{
    cafka_error why = *cause;
    if (!try_another_way(conn, &why))
        conn_fail(conn, &why);
}

static void on_closed(void *owner, const cafka_error *why)
{
    struct conn *conn = owner;
    cafka_error error = *why;
    if (strcmp(conn->name, conn->address_name)) /* the reason names the address alone */
        error_prefix(&error, "%s: ", conn->name);
    if (conn->busy) { /* inside conn_send(), or the owner's callback: later */
        conn_break(conn, &error);
        return;
    }
    conn_enter(conn);
    give_up(conn, &error);
    conn_leave(conn);
}

static const struct stream_events stream_events = {
    .connected = on_connected,
    .readable = on_readable,
    .closed = on_closed,
};

/* The next address that takes a dial. */
static void dial_next(struct conn *conn)
{
    struct loop *loop = conn->options->loop;
    cafka_error err = {0};
    while (conn->address_at < conn->address_count) {
        const cafka_address *address = &conn->addresses[conn->address_at++];
        address_text(address, conn->address_name);
        error_clear(&err);
        conn->queued_total = conn->written_total = 0;
        if (!stream_dial_with(&conn->stream, loop, address, &conn->options->dial, &stream_events,
                              conn, &err)) {
            int64_t limit_ms =
                backoff_after(loop_env(loop), conn->options->setup_timeout_ms,
                              conn->options->setup_timeout_max_ms, conn->setup_failures);
            loop_timer_set(loop, &conn->state_timer, loop_now_ms(loop) + limit_ms);
            return;
        }
    }
    if (strcmp(conn->name, conn->address_name))
        error_prefix(&err, "%s: ", conn->name);
    conn_break(conn, &err);
}

static void on_resolved(void *owner, const cafka_error *error, const cafka_address *addresses,
                        size_t count)
{
    struct conn *conn = owner;
    conn->lookup = NULL;
    conn_enter(conn);
    if (error) {
        conn_fail(conn, error);
    } else {
        conn->address_count = (int)(count < CONN_ADDRESSES ? count : CONN_ADDRESSES);
        memcpy(conn->addresses, addresses, (size_t)conn->address_count * sizeof *addresses);
        conn->address_at = 0;
        dial_next(conn);
    }
    conn_leave(conn);
}

static void start_dialing(struct conn *conn)
{
    struct loop *loop = conn->options->loop;
    if (conn->state != CONN_DIALING)
        conn_move(conn, CONN_DIALING);
    if (conn->address_at < conn->address_count) {
        dial_next(conn);
        return;
    }
    conn->address_count = 0;
    cafka_error err = {0};
    if (lookup_start(&conn->lookup, loop, conn->host, conn->port, on_resolved, conn, &err)) {
        conn_break(conn, &err);
        return;
    }
    loop_timer_set(loop, &conn->state_timer,
                   loop_now_ms(loop) + conn->options->setup_timeout_max_ms);
}

void conn_open(struct conn *conn)
{
    struct loop *loop = conn->options->loop;
    if (conn->state != CONN_IDLE || conn->wanted)
        return;
    if (conn->blocked_until_ms > loop_now_ms(loop)) {
        conn->wanted = true;
        loop_timer_set(loop, &conn->state_timer, conn->blocked_until_ms);
        return;
    }
    conn->versions_fallback = false;
    start_dialing(conn);
}

void conn_become_ready(struct conn *conn)
{
    struct loop *loop = conn->options->loop;
    loop_timer_cancel(loop, &conn->state_timer);
    conn_move(conn, CONN_READY);
    conn->setup_failures = 0;
    conn->blocked_until_ms = 0;
    backoff_reset(&conn->backoff);
    error_clear(&conn->last_error);
    conn->active_ms = loop_now_ms(loop);
    if (conn->options->max_idle_ms >= 0)
        loop_timer_set(loop, &conn->idle_timer, conn->active_ms + conn->options->max_idle_ms);
    if (conn->events->ready)
        conn->events->ready(conn->owner);
}

/* --- timers --- */

/* IDLE: the backoff is over. Otherwise: what leads to READY takes too long. */
static void on_state_timer(struct timer *timer)
{
    struct conn *conn = container_of(timer, struct conn, state_timer);
    conn_enter(conn);
    if (conn->state == CONN_IDLE) {
        conn->wanted = false;
        conn->versions_fallback = false;
        start_dialing(conn);
    } else {
        cafka_error why = {0};
        error_set(&why, CAFKA_ERR_TIMEOUT,
                  conn->lookup ? "resolving the host name of %s took too long"
                  : conn->state == CONN_DIALING
                      ? "connecting to %s took longer than socket.connection.setup.timeout.ms"
                      : "%s took the connection, but did not say which versions it has within "
                        "socket.connection.setup.timeout.ms; is it a Kafka broker, and without TLS?",
                  conn->name);
        give_up(conn, &why);
    }
    conn_leave(conn);
}

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
        give_up(conn, &conn->broken);
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
    conn->state_timer.fire = on_state_timer;
    conn->request_timer.fire = conn_on_request_timer;
    conn->throttle_timer.fire = on_throttle_timer;
    conn->idle_timer.fire = on_idle_timer;
    conn->soon_timer.fire = on_soon_timer;
    frame_reader_init(&conn->reader, options->frames, options->receive_max_bytes);
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
