/*
 * room.h - struct cafka_producer, and what the files of the producer share.
 *
 * An application's thread touches topics (topics.h), the open batch of a partition and the memory
 * pool; all else is the loop's, in struct sender. They meet in the accumulator's hand-over list.
 *
 * Locks: producer.mu, topic.mu, partition.mu, pool.mu, each taken alone but for partition.mu, then
 * pool.mu. None is held while the application's code runs.
 */
#ifndef CAFKA_PRODUCER_ROOM_H
#define CAFKA_PRODUCER_ROOM_H

#include <cafka/producer.h>

#include "client/client.h"
#include "client/plugins.h"
#include "producer/accumulator.h"
#include "producer/compressors.h"
#include "producer/delivery.h"
#include "producer/partitioner.h"
#include "producer/producer_meters.h"
#include "producer/sender.h"
#include "producer/topics.h"
#include "util/rng.h"

struct cafka_producer {
    struct client client; /* first: cafka_producer_client() */
    struct producer_settings settings;
    struct log log;
    struct accumulator accumulator;
    struct topics topics;
    struct sender sender;
    struct compressors compressors;
    struct producer_meters meters;

    const struct plugins *plugins; /* of the settings; NULL in a half-built one */
    bool plugged;                  /* a record meets some of them on its way in */
    unsigned plain_generation; /* the client's fork_generation, or, if plugged, what that never is */
    _Atomic(int64_t) warn_not_before_ms; /* producer_may_warn() */

    atomic_bool closing; /* no new records */
    atomic_bool failed;  /* `fatal` is set, for good */
    atomic_bool urgent;  /* whatever there is leaves now: flush, close, or memory is short */

    pthread_mutex_t mu; /* guards what follows */
    bool mu_made;
    cafka_error fatal;    /* written once, before `failed` */
    cafka_error failure;  /* the first since the last flush, if nobody gets delivery reports */
    size_t failure_count; /* records */
    cafka_error trouble;  /* why a broker could not be reached last, for messages of timeouts */
};

/*
 * For a line about a record, a batch or a request: true once a second. The same cause usually hits
 * thousands of them, and the application is told of each by its delivery report. Any thread.
 */
bool producer_may_warn(cafka_producer *producer);

/* The error that stops every call: fatal, closed or forked. Any thread. */
int producer_usable(cafka_producer *producer, cafka_error *err);

#endif
