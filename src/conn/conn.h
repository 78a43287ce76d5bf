/*
 * conn.h - one connection to one broker: dial, ask for versions, log in, requests in flight.
 *
 *     IDLE -> DIALING -> VERSIONS -> (AUTH ->) READY
 *       ^________|___________|__________|________|      any of them -> CLOSED, which is final
 *
 * IDLE has no socket; it is also where a connection waits for its reconnect backoff. Requests
 * leave in order, up to max_in_flight at once, and are answered in order. Whatever goes wrong
 * closes the socket, fails every request in flight, and goes back to IDLE.
 *
 * Invariants:
 *  1. A request that conn_send() took gets its `done` exactly once, or conn_cancel() was called.
 *  2. `done` never runs inside conn_send().
 *  3. Memory that a request refers to (pieces) is not used once its `done` has begun: an answer to
 *     a request that is not completely written closes the connection.
 *
 * Owner:   a lane of a broker (client/client.h), or a session between brokers.
 * Thread:  its loop's.
 * Reading: conn_open(), then the mover's callers in conn.c; requests in inflight.c.
 */
#ifndef CAFKA_CONN_CONN_H
#define CAFKA_CONN_CONN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "conn/meters.h"
#include "net/frame.h"
#include "net/loop.h"
#include "protocol/codec.h"
#include "util/log.h"

struct conn;
struct request;

enum conn_state {
    CONN_IDLE,
    CONN_DIALING,
    CONN_VERSIONS,
    CONN_AUTH,
    CONN_READY,
    CONN_CLOSED,
    CONN_STATES
};

/* What every connection of a client has in common. Not copied: it must outlive the connections. */
struct conn_options {
    struct loop *loop;
    struct frame_pool *frames;
    struct log log;
    const char *client_id; /* in each request; never NULL */
    int64_t request_timeout_ms;
    int64_t reconnect_backoff_ms, reconnect_backoff_max_ms;
    int64_t setup_timeout_ms, setup_timeout_max_ms; /* from dialing to READY */
    int64_t max_idle_ms;                            /* -1: never closed for idleness */
    uint32_t receive_max_bytes;
    cafka_dial_options dial; /* of each socket */
};

/* What the owner hears, always from the loop and never inside a call of its own. Each may be NULL. */
struct conn_events {
    void (*ready)(void *owner);    /* versions are known: conn_send() works */
    void (*writable)(void *owner); /* a request fits again: one finished, or a throttle is over */
    /*
     * Back to IDLE; `why` has code 0 if it was idle too long or moved away. Called after all
     * `done`s. Not after conn_reset() and conn_free(). It stays IDLE until conn_open().
     */
    void (*down)(void *owner, const cafka_error *why);
};

/* max_in_flight: 1 … 1000. */
int conn_new(struct conn **out, const struct conn_options *options, const char *host, uint16_t port,
             int max_in_flight, const struct conn_events *events, void *owner, cafka_error *err);
/* Closes; requests in flight are done with CAFKA_ERR_CLOSED first. Takes NULL. Allowed in callbacks. */
void conn_free(struct conn *conn);
/* What happens on it is counted there from now on; they outlive it. */
void conn_set_meters(struct conn *conn, struct conn_meters *meters);

/* Dial unless there is a connection, or once the backoff is over. Asked for again, it changes nothing. */
void conn_open(struct conn *conn);
/* Back to IDLE now; what is in flight is done with `why`. The next conn_open() does not wait. */
void conn_reset(struct conn *conn, const cafka_error *why);
/*
 * As if it had broken: soon what is in flight is done with `why`, and `down` follows; no other address
 * is tried first. IDLE: nothing happens.
 */
void conn_hang_up(struct conn *conn, const cafka_error *why);
/* The broker lives elsewhere now: the old connection takes no more and is left once it has answered. */
int conn_move_to(struct conn *conn, const char *host, uint16_t port, cafka_error *err);

enum conn_state conn_state(const struct conn *conn);
const char *conn_state_name(enum conn_state state);
const char *conn_name(const struct conn *conn); /* "host:port", for messages */
int conn_in_flight(const struct conn *conn);
/* READY, not throttled, not about to move, and a slot is free. */
bool conn_can_send(const struct conn *conn);
/* When the next dial may start or the throttle ends (loop_now_ms clock); 0: now. */
int64_t conn_blocked_until_ms(const struct conn *conn);
const cafka_error *conn_last_error(
    const struct conn *conn); /* why it went down last; code 0: it did not */

/*
 * The version to use: the highest that both sides know, at most max_version (-1: no bound).
 * -1 if versions are not known yet, or if there is none.
 */
int conn_version(const struct conn *conn, int api_key, int max_version);
/* Say why conn_version() gave -1 on a READY connection: what the broker has, and what we have. */
int conn_unsupported(const struct conn *conn, int api_key, cafka_error *err);
/* Finalized feature level as the broker told in ApiVersions ("transaction.version"); -1: not told. */
int conn_feature(const struct conn *conn, const char *name);

/* Bytes that a body refers to in place: struct records.external points to one of these. */
struct conn_pieces {
    const struct iovec *iov;
    int count;
};

/* How a request ended. Valid during `done`. */
struct reply {
    const cafka_error *error; /* NULL: answered. CAFKA_UNKNOWN_OUTCOME is set if it may have been written */
    struct conn *conn;
    const struct api *api;
    int version;         /* of request and response */
    struct frame *frame; /* holds body; frame_ref() it to keep it. NULL without a response */
    struct bytes body;   /* behind the response header */
};

/*
 * Lives in the requester's struct. Zero it, set the first part, then conn_send(); it may be used
 * again from `done` on, in `done` too.
 */
struct request {
    void (*done)(struct request *request, const struct reply *reply);
    int64_t timeout_ms; /* 0: request_timeout_ms of the options. Counts from conn_send() */
    int16_t api_key;
    bool no_response; /* acks=0: done once written */

    struct conn *conn; /* NULL: not in flight. From here on conn's own */
    int32_t slot;
};

/*
 * Encode `body` (the struct of the API) for `version` and send it. What splices refer to must stay
 * until `done`; the body itself only for this call.
 * Errors: CAFKA_ERR_STATE conn_can_send() is false, CAFKA_ERR_MEMORY, CAFKA_ERR_UNSUPPORTED or
 *         _PROTOCOL the body does not fit the version. The request is as before then.
 */
int conn_send(struct conn *conn, struct request *request, int version, const void *body,
              cafka_error *err);
/* Forget a request in flight: no `done`. Closes the connection if pieces of it are not written yet. */
void conn_cancel(struct request *request);

/* What a response says about waiting (KIP-219); conn does it itself where ThrottleTimeMs leads the body. */
void conn_throttle(struct conn *conn, int64_t throttle_ms);

/*
 * The answer's body as a struct. A body that cannot be decoded is reported, and the connection
 * closed, since nothing behind it can be trusted.
 */
int reply_decode(const struct reply *reply, struct arena *arena, void *out, cafka_error *err);

#endif
