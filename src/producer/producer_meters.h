/*
 * producer_meters.h - what a producer counts: requests and batches as they leave, and what becomes
 * of records; of the whole producer, and of each topic.
 *
 * Everything is counted once a batch or once a request, never once a record.
 *
 * Owner:  struct cafka_producer and struct cafka_topic.
 * Thread: the loop's records, any reads.
 */
#ifndef CAFKA_PRODUCER_PRODUCER_METERS_H
#define CAFKA_PRODUCER_PRODUCER_METERS_H

#include <cafka/producer.h>

#include "client/metrics.h"

struct producer_batch;
struct produce_call;

struct producer_meters {
    struct metric_set set;
    struct meter sent, retried, failed; /* records */
    struct meter batch_size;            /* bytes on the wire */
    struct meter compression;           /* bytes on the wire to bytes of records, in millionths */
    struct meter queue_time;            /* ms from a batch's first record to its first request */
    struct meter per_request;           /* records */
    struct meter splits;                /* batches */
    struct meter throttle;              /* ms that brokers asked for, in each answer */
};

struct topic_meters {
    struct metric_set set;
    struct meter sent, retried, failed; /* records */
    struct meter bytes;                 /* of batches, on the wire */
    struct meter compression;           /* as above */
};

/* The client is open. */
void producer_meters_init(cafka_producer *producer);
/* On the loop. */
void topic_meters_init(cafka_topic *topic);

void producer_count_request(cafka_producer *producer, const struct produce_call *call);
void producer_count_retry(cafka_producer *producer, const struct producer_batch *batch);
void producer_count_failure(cafka_producer *producer, const struct producer_batch *batch);
void producer_count_split(cafka_producer *producer);
void producer_count_throttle(cafka_producer *producer, int64_t throttle_ms);

#endif
