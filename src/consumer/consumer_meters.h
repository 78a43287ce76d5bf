/*
 * consumer_meters.h - what a consumer counts: fetches as they are answered, and records as they are
 * handed out; once a fetch and once a poll, never once a record.
 *
 * Owner:  struct cafka_consumer.
 * Thread: the loop records fetches, the polling thread what is consumed; any reads.
 */
#ifndef CAFKA_CONSUMER_CONSUMER_METERS_H
#define CAFKA_CONSUMER_CONSUMER_METERS_H

#include "client/metrics.h"

struct consumer_meters {
    struct metric_set set;
    const struct meter_windows *windows;
    struct meter latency;  /* ms from a fetch to its answer; each is one fetch */
    struct meter size;     /* bytes of records in an answer */
    struct meter throttle; /* ms that brokers asked for, in each answer */
    struct meter consumed; /* records handed out since the poll before */
    struct meter bytes;    /* of answers whose records were handed out */
    struct meter lag; /* records behind those of an answer, when the last of it was handed out */
    int64_t consumed_before;
};

void consumer_meters_init(cafka_consumer *consumer);
/* The loop: an answer came. */
void consumer_count_fetch(struct consumer_meters *m, int64_t now_ms, int64_t latency_ms,
                          int64_t bytes, int64_t throttle_ms);
/* The polling thread: the records of an answer were handed out; lag -1: not known. */
void consumer_count_read(struct consumer_meters *m, int64_t now_ms, int64_t bytes, int64_t lag);
/* The polling thread: so many records were handed out in all. */
void consumer_count_consumed(struct consumer_meters *m, int64_t now_ms, int64_t records);

#endif
