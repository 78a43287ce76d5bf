/*
 * meters.h - what connections count: of one broker, and of all of a client.
 *
 * Owner:  the client and its brokers; connections record into both.
 * Thread: the loop's records, any reads.
 */
#ifndef CAFKA_CONN_METERS_H
#define CAFKA_CONN_METERS_H

#include "util/meter.h"

struct conn_meters {
    struct conn_meters *whole; /* of the client; NULL: this is it */
    const struct meter_windows *windows;
    struct meter requests, responses; /* bytes, size prefix included */
    struct meter latency;             /* ms from a request to its response */
    struct meter opened, closed;      /* connections */
    struct counter in_flight;         /* requests */
};

/* Each takes NULL, for connections that nobody counts. */
static inline void conn_meters_request(struct conn_meters *m, int64_t now_ms, int64_t bytes)
{
    for (; m; m = m->whole) {
        meter_record(&m->requests, m->windows, now_ms, bytes);
        counter_add(&m->in_flight, 1);
    }
}

static inline void conn_meters_response(struct conn_meters *m, int64_t now_ms, int64_t bytes,
                                        int64_t latency_ms)
{
    for (; m; m = m->whole) {
        meter_record(&m->responses, m->windows, now_ms, bytes);
        meter_record(&m->latency, m->windows, now_ms, latency_ms);
    }
}

/* A request is not in flight any more, answered or not. */
static inline void conn_meters_done(struct conn_meters *m)
{
    for (; m; m = m->whole)
        counter_add(&m->in_flight, -1);
}

static inline void conn_meters_opened(struct conn_meters *m, int64_t now_ms)
{
    for (; m; m = m->whole)
        meter_record(&m->opened, m->windows, now_ms, 1);
}

static inline void conn_meters_closed(struct conn_meters *m, int64_t now_ms)
{
    for (; m; m = m->whole)
        meter_record(&m->closed, m->windows, now_ms, 1);
}

#endif
