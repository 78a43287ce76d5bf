/*
 * dial.c - from a host name to a connection that is READY, or to the reason why there is none.
 *
 *     conn_open -> start_dialing -> resolver -> dial_next -> on_connected -> conn_ask_versions
 *         |              ^                          ^                             |
 *     (backoff)          +-- try_another_way -------+                     conn_become_ready
 *
 * Whatever fails on the way comes to conn_give_up(). All addresses of a name are tried in turn, each
 * within the setup timeout; when none is left the connection fails, waits for its backoff, and the
 * next attempt asks the resolver again.
 */
#include "conn/internal.h"

#include <string.h>

#include "protocol/api_keys.h"

static void start_dialing(struct conn *conn);

static void on_connected(void *owner)
{
    struct conn *conn = owner;
    conn_enter(conn);
    conn_move(conn, CONN_VERSIONS);
    conn_meters_opened(conn->meters, loop_now_ms(conn->options->loop));
    conn->counted = conn->meters != NULL;
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
    conn_drop_socket(conn);
    conn_fail_requests(conn, &echo); /* ours alone: the question for versions */
    start_dialing(conn);
    return true;
}

/* Something ended the connection that another attempt at once may heal. */
void conn_give_up(struct conn *conn, const cafka_error *cause)
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
    conn_give_up(conn, &error);
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
    conn->reader.limit = conn->options->receive_max_bytes;
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

/* IDLE: the backoff is over. Otherwise: what leads to READY takes too long. */
void conn_on_state_timer(struct timer *timer)
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
        conn_give_up(conn, &why);
    }
    conn_leave(conn);
}
