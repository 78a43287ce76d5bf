/*
 * consumer.h - what a cafka_consumer is made of; for the files of this room that are its calls.
 *
 * Thread: the application's side by one thread at a time (consumer_enter); `lookup` and `fetcher`
 *         on the loop; `changes` under mu.
 */
#ifndef CAFKA_CONSUMER_CONSUMER_H
#define CAFKA_CONSUMER_CONSUMER_H

#include <pthread.h>

#include "client/client.h"
#include "consumer/consumer_meters.h"
#include "consumer/fetcher.h"
#include "consumer/reader.h"

struct cafka_consumer {
    struct client client;
    struct consumer_settings settings;
    struct fetch_budget *budget;
    struct fetch_reader *reader;
    bool opened; /* client is there */

    /* the application's side */
    struct list assignment; /* consumer_partition.app.link */
    struct partition_table partitions;
    bool closed;
    struct {
        bool known;    /* nothing of ours has moved since it was looked at */
        bool all_read; /* what there was to see */
        unsigned seen; /* queue.ends_moved then */
    } end;
    _Atomic(const void *) inside; /* a mark of the thread that is in a call; NULL: none */
    unsigned depth;
    atomic_bool woken;

    /* what it wants of the loop */
    pthread_mutex_t mu; /* guards changes, changes_posted and the partitions' `wanted` */
    struct list changes;
    bool changes_posted;
    struct loop_task changes_task;

    /* the loop's side */
    struct offset_lookup lookup;
    struct fetcher fetcher;
    struct consumer_meters meters;
    struct timer changes_timer;
    struct loop_task stop_task, teardown_task;
    atomic_bool stopped, torn_down;
};

/* One thread at a time. Checks also for closed and forked. Nests on one thread. */
int consumer_enter(cafka_consumer *consumer, cafka_error *err);
void consumer_leave(cafka_consumer *consumer);

/*
 * Wait until the loop has something new for us, or the deadline (ns).
 * Errors: CAFKA_ERR_TIMEOUT, CAFKA_ERR_WAKEUP, those of client_may_wait().
 */
int consumer_wait(cafka_consumer *consumer, int64_t deadline, cafka_error *err);

/* Tell the loop what is wanted of a partition now; `epoch` is that of the record before `start`. */
void consumer_wish(cafka_consumer *consumer, struct consumer_partition *p, int64_t start,
                   int32_t epoch, int32_t delay_ms);
/* Go on at another place: an offset, CAFKA_OFFSET_BEGINNING, _END, or START_…. */
void consumer_start_at(cafka_consumer *consumer, struct consumer_partition *p, int64_t start,
                       int32_t epoch);

/* The assigned partition, or NULL and CAFKA_ERR_STATE. */
struct consumer_partition *consumer_find(cafka_consumer *consumer, const char *topic,
                                         int32_t partition, cafka_error *err);

/* The largest lag of all assigned partitions; -1: not known (yet), or nothing is assigned. */
int64_t consumer_lag(const cafka_consumer *consumer);

/* When it is freed: the reader is still there, the loop has let go. */
void consumer_free_assignment(cafka_consumer *consumer);

#endif
