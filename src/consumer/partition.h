/*
 * partition.h - one partition that a consumer reads, seen from its two sides.
 *
 * The application's side has the position (the next offset to hand out); the loop's side has the
 * fetch position (the next offset to ask for), which runs ahead. Both carry a generation that a
 * seek or a new assignment raises: data of an older generation is dropped where it is met, so
 * nothing stale is ever handed out. The application says what it wants in `wanted`, under the
 * consumer's control lock; the loop answers with chunks (fetch_queue.h).
 *
 *          assign, seek          offset known              its epoch known, the leader's newer
 *     (any) ------------> STARTING -----------> FETCHING <--------------------> VALIDATING
 *       |                                          |                                |
 *       | unassign              out of range, or the topic was made anew         truncated
 *       v                                          v                                |
 *     GONE                                      WAITING <---------------------------+
 *
 * WAITING: the application has been told where to go on (CHUNK_RESET); its seek begins everything
 * anew. So the loop never moves a position that the application has, and never mixes old data with new.
 *
 * An error that only the application or an operator can mend is told in a chunk, and what failed
 * is tried again a second later; fetch_stall.h watches that no partition stands still without a word.
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
#include "consumer/fetch_stall.h"
#include "net/wheel.h"
#include "util/error.h"

struct chunk;
struct consumer_topic;
struct fetch_broker;
struct position_query;

enum partition_state {
    PARTITION_NEW,      /* the fetcher has not heard of it */
    PARTITION_STARTING, /* its offset is being looked up */
    PARTITION_FETCHING,
    PARTITION_VALIDATING, /* does the log still hold what was read so far? (KIP-320) */
    PARTITION_WAITING,    /* for the application to seek */
    PARTITION_GONE,       /* no longer assigned */
    PARTITION_STATES
};

/* How much it asks for just now, as its broker counts. */
enum fetch_level {
    FETCH_NOT, /* nothing: paused, backing off, not FETCHING, without a broker, or far too much is queued */
    FETCH_FULL,  /* enough is queued; it stays in the session */
    FETCH_HUNGRY /* more data is wanted */
};

/* Where to start, beside offsets and CAFKA_OFFSET_BEGINNING and _END: where auto.offset.reset says. */
#define START_BY_POLICY INT64_C(-1000)
/*
 * Or at the first record that is as new as a time, else the end: START_AT_TIME(ms), from which
 * START_AT_TIME() gives the time back.
 */
#define START_AT_TIME(ms) (INT64_C(-2000) - (ms))
#define START_TIME_MAX (INT64_MAX - 2000)
static inline bool start_is_time(int64_t start)
{
    return start <= START_AT_TIME(0);
}

struct consumer_partition {
    atomic_uint refs;
    int32_t partition;
    const char *topic; /* interned (fetch_memory.h) */

    /* the application's, in its own calls */
    struct {
        struct list link; /* in the assignment, in order */
        int64_t position; /* -1: not known yet */
        uint32_t generation;
        int32_t position_epoch;           /* leader epoch of the record before it; -1: not known */
        struct chunk *aside, *aside_last; /* data that was met while it was paused */
        bool assigned, paused;
        bool kept; /* used while an assignment is replaced */
    } app;

    /* what the application wants of the loop; under the consumer's mu */
    struct {
        struct list link; /* in the consumer's list of changes */
        int64_t start;
        uint32_t generation;
        int32_t epoch;    /* leader epoch of the record before `start`; -1: not known */
        int32_t delay_ms; /* before it is fetched again */
        bool assigned, paused;
    } wanted;

    /* written by one side, read by the other */
    atomic_llong buffered_bytes; /* queued and not yet handed out: loop adds, application takes away */
    atomic_llong high_watermark, log_start; /* loop writes; -1: not known */
    atomic_llong readable_end; /* the high watermark, or the last stable offset with read_committed */
    atomic_bool error_queued; /* an error chunk is on its way: loop sets, application clears */

    /* the loop's */
    struct {
        unsigned char state; /* enum partition_state */
        unsigned char level; /* enum fetch_level */
        bool paused, delayed;
        bool overfull;                  /* FETCH_NOT only because far too much is queued */
        bool reset_told, reset_at_once; /* WAITING: is the application told? How urgent is it? */
        uint32_t generation;
        uint32_t asked_generation;    /* of the fetch in flight */
        unsigned attempts;            /* failures in a row, for the backoff */
        struct list link;             /* in its topic's partitions */
        struct consumer_topic *topic; /* NULL: the fetcher does not hold it */
        struct fetch_broker *broker;  /* where it is read; NULL: nowhere */
        struct list at_full;          /* in broker->full, while FULL or overfull */
        struct fetch_session_entry session;
        struct timer timer; /* the earliest of not_before_ms, preferred_until_ms, stall.look_at_ms */
        int64_t start; /* STARTING: what to look up; WAITING: where the application should go */
        int64_t fetch_offset;  /* FETCHING, VALIDATING */
        int32_t fetch_epoch;   /* leader epoch of the record before it; -1: not known */
        int32_t leader_epoch;  /* of the leader that it was last checked against */
        int64_t not_before_ms; /* while `delayed` */
        int64_t preferred_until_ms;
        int32_t preferred; /* broker to read from instead of the leader (KIP-392); -1: none */
        struct fetch_stall stall;
        struct position_query *query; /* while something is looked up */
    } loop;
};

struct consumer_partition *consumer_partition_new(const char *interned_topic,
                                                  int32_t partition); /* NULL: no memory */
struct consumer_partition *consumer_partition_ref(struct consumer_partition *p);
void consumer_partition_unref(struct consumer_partition *p); /* takes NULL */

#endif
