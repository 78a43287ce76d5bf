/*
 * inflight.h - the requests of one connection that are not done yet, in the order they were sent.
 *
 * A ring of slots of fixed size. A slot keeps the bytes of its request until they are written, and
 * what is needed to read the answer. Slots may finish out of order (a request without response ends
 * when it is written) but leave the ring in order; a cancelled one stays until its answer comes.
 *
 * Owner:   struct conn. Thread: its loop's.
 */
#ifndef CAFKA_CONN_INFLIGHT_H
#define CAFKA_CONN_INFLIGHT_H

#include "conn/conn.h"

struct slot {
    struct conn *conn;
    struct request *request; /* NULL: cancelled */
    const struct api *api;
    int32_t correlation_id;
    int version;
    int64_t deadline_ms, sent_ms;
    uint64_t begins_at; /* in the count of all bytes queued on the connection */
    bool written;       /* the stream is done with all of it */
    bool no_response;
    bool finished;
    struct encoded encoded;
};

struct inflight {
    struct slot *slots;
    int capacity, oldest, count;
};

int inflight_init(struct inflight *f, struct conn *conn, int capacity, cafka_error *err);
void inflight_fini(struct inflight *f);

/* The next free slot, not yet in the ring; NULL: all are taken. */
struct slot *inflight_free_slot(struct inflight *f);
void inflight_push(struct inflight *f,
                   struct slot *slot); /* the one that inflight_free_slot() gave */
/* The one whose response comes next, NULL: none is waited for. */
struct slot *inflight_awaited(struct inflight *f);
/* The oldest that expects no response and is written; NULL: none. */
struct slot *inflight_written(struct inflight *f);
/* The oldest slot, whatever it waits for; NULL: empty. */
struct slot *inflight_oldest(struct inflight *f);
/* Take it out; returns its request, which may be NULL. */
struct request *inflight_finish(struct inflight *f, struct slot *slot);
int64_t inflight_next_deadline_ms(const struct inflight *f); /* INT64_MAX: nothing is waited for */
void inflight_put_off(struct inflight *f, int64_t ms);       /* all deadlines */

#endif
