/*
 * session.h - a connection of a client to a broker.
 *
 * A session reads one frame, handles it, writes the answer, and only then reads the next frame,
 * as the real broker does: answers leave in order, and a client that does not read its answers is
 * not read from either, so that a session holds one request and one response at most.
 *
 * A frame that is too large or too short, an API or version that is not offered, a body that does
 * not decode: the connection is closed without an answer (ApiVersions of an unknown version alone
 * is answered).
 *
 * Owner:   the broker, in broker->sessions; frees itself when the connection ends.
 * Thread:  the broker's loop.
 * Reading: session_pump().
 */
#ifndef CAFKA_MOCKBROKER_SESSION_H
#define CAFKA_MOCKBROKER_SESSION_H

#include "mockbroker/request.h"
#include "net/frame.h"
#include "net/loop.h"
#include "net/stream.h"
#include "util/list.h"

struct broker;
struct listener;

struct session {
    struct list link; /* in broker->sessions */
    struct broker *broker;
    struct listener *listener;
    struct stream *stream;
    struct frame_reader reader;
    struct request_context request;
    uint64_t id; /* unique in the cluster */
    cafka_address peer;
    char *software_name, *software_version; /* told by ApiVersions v3+; NULL: not told */
    struct timer mute_timer; /* no reading until then: throttled, or an answer is held back */
    struct frame *next;      /* read while the request before it is at work */
    struct timer idle_timer;
    int64_t last_used_ms;
    bool reading; /* the stream tells of bytes */
    bool muted;
    bool pumping; /* inside session_pump() */
    bool writing; /* an answer is not on the wire yet */
    bool closed;  /* to be freed as soon as nobody is inside */
};

/* Take over an accepted handle; the session then lives by itself. Closes the handle on failure. */
int session_open(struct listener *listener, int handle, const cafka_address *from, cafka_error *err);
/* Close: abandon the request at work and free, now or when the running call returns. */
void session_close(struct session *session);
/* Do not read from it for that long (KIP-219 throttling). */
void session_mute(struct session *session, int64_t ms);
/* Handle what has arrived. Called by the stream, and when a kept request has been answered. */
void session_pump(struct session *session);

/* --- for request.c --- */

/* Send what is in request.out and its slices; then, or when it has left, the request is over. */
void session_send(struct session *session);
/* The request is over without an answer. */
void session_next(struct session *session);

#endif
