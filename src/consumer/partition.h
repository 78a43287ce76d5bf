/*
 * partition.h - one partition that a consumer reads, seen from its two sides.
 *
 * The application's side has the position (the next offset to hand out); the loop's side has the
 * fetch position (the next offset to ask for), which runs ahead. Both carry a generation that a
 * seek or a new assignment raises: data of an older generation is dropped where it is met, so
 * nothing stale is ever handed out. The application says what it wants in `wanted`, under the
 * consumer's control lock; the loop answers with chunks (fetch_queue.h).
 *
 *            assign, seek           offset known
 *     (any) --------------> STARTING -------------> FETCHING        (any) --------> GONE
 *                              ^                        |                unassign
 *                              +------------------------+
 *                              out of range: auto.offset.reset
 *
 * An error that only the application or an operator can mend is told in a chunk, and what failed
 * is tried again a second later, so that no partition stands still for ever or without a word.
 *
 * Owner:  reference counted: by the consumer while it is assigned, by every chunk, and by the
 *         fetcher until it has let go of it.
 * Thread: as each part says.
 */
#ifndef CAFKA_CONSUMER_PARTITION_H
#define CAFKA_CONSUMER_PARTITION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "consumer/fetch_session.h"
#include "consumer/offsets.h"
#include "util/error.h"

struct chunk;
struct consumer_topic;
struct fetch_broker;

enum partition_state {
    PARTITION_NEW,      /* the fetcher has not heard of it */
    PARTITION_STARTING, /* its offset is being looked up */
    PARTITION_FETCHING,
    PARTITION_GONE, /* no longer assigned */
    PARTITION_STATES
};

/* Where to start, beside offsets and CAFKA_OFFSET_BEGINNING and _END: where auto.offset.reset says. */
#define START_BY_POLICY INT64_C(-1000)

struct consumer_partition {
    atomic_uint refs;
    int32_t partition;
    const char *topic; /* interned (fetch_memory.h) */

    /* the application's, in its own calls */
    struct {
        struct list link; /* in the assignment, in order */
        uint32_t generation;
        int64_t position;       /* -1: not known yet */
        int32_t position_epoch; /* leader epoch of the record before it; -1: not known */
        bool assigned, paused;
        struct chunk *aside, *aside_last; /* data that was met while it was paused */
        int64_t kept;                     /* used while an assignment is replaced */
    } app;

    /* what the application wants of the loop; under the consumer's mu */
    struct {
        struct list link; /* in the consumer's list of changes */
        uint32_t generation;
        int64_t start;
        int64_t delay_ms; /* before it is fetched again */
        bool assigned, paused;
    } wanted;

    /* written by one side, read by the other */
    atomic_llong buffered_bytes; /* queued and not yet handed out: loop adds, application takes away */
    atomic_llong high_watermark, log_start; /* loop writes; -1: not known */
    atomic_llong readable_end; /* the high watermark, or the last stable offset with read_committed */
    atomic_bool error_queued; /* an error chunk is on its way: loop sets, application clears */

    /* the loop's */
    struct {
        struct list link; /* in its topic's partitions */
        struct fetcher *fetcher;
        struct consumer_topic *topic; /* NULL: the fetcher does not hold it */
        struct list at_broker;        /* in its leader's partitions */
        struct fetch_broker *broker;
        enum partition_state state;
        uint32_t generation;
        bool paused;
        int64_t start;        /* STARTING: what to look up */
        int64_t fetch_offset; /* FETCHING */
        int64_t not_before_ms;
        uint32_t asked_generation; /* of the fetch in flight */
        unsigned attempts;         /* failures in a row, for the backoff */
        int64_t homeless_since_ms; /* without a leader since; INT64_MAX: it has one */
        struct offset_query query;
        struct fetch_session_entry session;
    } loop;
};

struct consumer_partition *consumer_partition_new(const char *interned_topic,
                                                  int32_t partition); /* NULL: no memory */
struct consumer_partition *consumer_partition_ref(struct consumer_partition *p);
void consumer_partition_unref(struct consumer_partition *p); /* takes NULL */

#endif
