/*
 * internal.h - struct conn, for the files that make a connection: conn.c (states, and the end),
 * dial.c (the beginning), versions.c (its first question) and transfer.c (what it carries).
 *
 * Thread: the loop's.
 */
#ifndef CAFKA_CONN_INTERNAL_H
#define CAFKA_CONN_INTERNAL_H

#include "conn/backoff.h"
#include "conn/conn.h"
#include "conn/inflight.h"
#include "conn/lookup.h"

enum {
    CONN_ADDRESSES = 16,
    SETUP_FRAME_MAX = 1 << 20 /* bytes of an answer before READY: nobody has told who they are */
};

struct conn_feature {
    char name[48];
    int16_t level;
};

struct conn {
    const struct conn_options *options;
    const struct conn_events *events;
    void *owner;
    char *host, *name;
    uint16_t port;
    enum conn_state state; /* written by conn_move() only */
    int busy;              /* frames of ours on the stack that call the owner */

    /* dialing */
    struct lookup *lookup;
    cafka_address addresses[CONN_ADDRESSES];
    int address_count, address_at; /* at: the next to try */
    char address_name[ADDRESS_TEXT_SIZE];
    bool wanted; /* IDLE: dial when the backoff is over */
    struct backoff backoff;
    unsigned setup_failures;
    int64_t blocked_until_ms; /* no dial before */
    cafka_error last_error;

    /* the socket */
    struct stream *stream;
    struct frame_reader reader;
    uint64_t queued_total,
        written_total;  /* bytes; how many were written is known when the socket is dropped */
    cafka_error broken; /* to be failed with when the stack is unwound */
    bool draining;      /* moved: no new requests */
    int64_t active_ms;

    /* requests */
    struct inflight inflight;
    int32_t next_correlation_id;
    int64_t throttled_until_ms;
    struct request versions_request;
    bool versions_fallback; /* ask with version 0 */
    bool versions_retried;  /* error 35 was answered once */
    int16_t min_version[API_KEY_COUNT],
        max_version[API_KEY_COUNT]; /* the broker's; max -1: not there */
    struct conn_feature *features;
    int feature_count;

    struct conn_meters *meters; /* NULL: nobody counts */
    bool counted;               /* as opened */
    struct timer state_timer, request_timer, throttle_timer, idle_timer, soon_timer;
};

/* Around everything that calls the owner; the last leave frees a closed connection. */
void conn_enter(struct conn *conn);
void conn_leave(struct conn *conn);

/* conn.c */
void conn_move(struct conn *conn, enum conn_state next);   /* the only writer of `state` */
void conn_fail(struct conn *conn, const cafka_error *why); /* to IDLE, now; inside enter and leave */
void conn_break(struct conn *conn,
                const cafka_error *why); /* the same soon; sends nothing until then */
void conn_soon(struct conn *conn);
/* Close the socket, and note how much of what was queued got out. */
void conn_drop_stream(struct conn *conn);
/* The same, and forget all else that belonged to it. Requests in flight stay in their slots. */
void conn_drop_socket(struct conn *conn);
void conn_fail_requests(struct conn *conn, const cafka_error *why);

/* dial.c */
/* Something ended the connection that another attempt at once may heal; if not, it fails. */
void conn_give_up(struct conn *conn, const cafka_error *cause);
void conn_become_ready(struct conn *conn);
void conn_on_state_timer(struct timer *timer);

/* versions.c */
void conn_forget_versions(struct conn *conn);
void conn_ask_versions(struct conn *conn, int version);

/* transfer.c */
int conn_send_now(struct conn *conn, struct request *request, int version, const void *body,
                  cafka_error *err); /* conn_send() before READY */
void conn_receive(struct conn *conn);
void conn_finish_written(struct conn *conn); /* requests without response */
void conn_tell_writable(struct conn *conn);
void conn_on_request_timer(struct timer *timer);

#endif
