/*
 * fetcher.h - the loop's side of a consumer: which partition is fetched where, when, and how much.
 *
 * A broker has at most one Fetch in flight. The next one goes out as soon as an answer has come,
 * while the application still works on it, if
 *   - a partition of the broker has little enough data queued (max.partition.fetch.bytes), and
 *   - the memory that is held, the answers that are on their way and this one fit the budget
 *     (fetch.buffer.memory). Each asks for min(fetch.max.bytes, budget / (2 x brokers)), so that
 *     the long poll of an idle broker starves nobody; with nothing held one fetch always goes.
 * A partition with far too much queued is left out, and so forgotten by the session; with less it
 * stays in, which spares the broker a change of the session.
 *
 * Nothing here walks over all partitions of a broker, so that idle ones cost nothing: a partition
 * whose wishes changed is reviewed (fetch_review()), which keeps its broker's counts and session
 * right; what waits for a time has its own timer.
 *
 * Owner:   the consumer.
 * Thread:  the loop's, but for fetcher_poke().
 * Reading: fetcher_change() for what the application wants; then fetch_position.h for where a
 *          partition is, fetch_pump.h for when a request leaves, fetch_stall.h for when nothing moves.
 */
#ifndef CAFKA_CONSUMER_FETCHER_H
#define CAFKA_CONSUMER_FETCHER_H

#include "consumer/aborted.h"
#include "consumer/fetch_ahead.h"
#include "consumer/fetch_queue.h"
#include "consumer/offsets.h"
#include "consumer/partition_table.h"

/* The topic of some assigned partitions. */
struct consumer_topic {
    struct fetcher *fetcher;
    struct metadata_topic *metadata; /* a reference; metadata->user points back */
    const char *name;                /* interned */
    struct list link;                /* in the fetcher's topics */
    struct list partitions;
};

/* The fetches of one broker; broker->user. */
struct consumer_meters;

struct fetch_broker {
    struct request request; /* first */
    struct fetcher *fetcher;
    struct broker *broker;
    struct list link;
    size_t placed;    /* partitions that are read here */
    size_t hungry;    /* of them, those that want data now */
    struct list full; /* … those that have enough queued, and those that have far too much */
    struct fetch_session session;
    bool in_flight;
    bool closing;      /* the fetch in flight closes the session */
    bool held_back;    /* it could send, but for buffered data or memory */
    bool wants_memory; /* … but for memory */
    int64_t asked_bytes, sent_ms;
    int64_t failing_since_ms; /* no answer since; 0: the last one was answered */
    int told;
};

/* Plain counts of what happened, for metrics and tests. */
struct fetch_counts {
    uint64_t requests, answers;
    uint64_t reviewed; /* partitions looked at: grows with what changes, never with what is assigned */
    uint64_t listed, forgotten; /* partitions in requests */
    uint64_t memory_stops;      /* times that held memory stopped fetching */
    uint64_t stalls;            /* causes told */
};

struct fetcher {
    struct client *client;
    const struct consumer_settings *settings;
    struct fetch_queue *queue;
    struct fetch_budget *budget;
    struct offset_lookup *lookup;
    struct partition_table partitions;
    struct list topics;  /* struct consumer_topic */
    struct list brokers; /* struct fetch_broker */
    size_t busy;         /* brokers with partitions */
    int64_t asked_bytes; /* of all fetches in flight */
    size_t held_back;    /* brokers */
    size_t wants_memory; /* of them, for want of memory */
    int64_t short_since_ms;
    int64_t warn_not_before_ms; /* that a fetch was not sent */
    bool short_told;
    bool stopping;
    atomic_size_t closing; /* sessions being closed at their brokers */
    struct arena build, answer;
    struct aborted_filter aborted;
    struct fetch_inflater inflater;
    struct fetch_counts counts;
    struct consumer_meters *meters; /* NULL: nobody counts */
    struct timer timer;             /* brokers are pumped again */
    struct timer memory_timer;
    struct loop_task kick;
    atomic_bool kicked;
    atomic_bool poke_wanted; /* the application should poke when it has made room */
};

void fetcher_init(struct fetcher *fetcher, struct client *client,
                  const struct consumer_settings *settings, struct fetch_queue *queue,
                  struct fetch_budget *budget, struct offset_lookup *lookup);
/* Lets go of all partitions and forgets the fetches in flight. On the loop. */
void fetcher_fini(struct fetcher *fetcher);

/* What the application wants of a partition has changed: its `wanted`, copied under the lock. */
struct partition_wish {
    int64_t start;
    uint32_t generation;
    int32_t epoch; /* of the record before `start`; -1: not known */
    int32_t delay_ms;
    bool assigned, paused;
};
/* False: no memory; ask again later. */
bool fetcher_change(struct fetcher *fetcher, struct consumer_partition *partition,
                    const struct partition_wish *wish);

/* Hooks of the client. */
void fetcher_topic_changed(struct fetcher *fetcher, struct metadata_topic *topic, unsigned what);
void fetcher_broker_writable(struct fetcher *fetcher, struct broker *broker);
void fetcher_broker_down(struct fetcher *fetcher, struct broker *broker);

/* The application made room. Any thread. */
void fetcher_poke(struct fetcher *fetcher);

/* No more fetches; close the sessions at the brokers, as far as connections allow it now. */
void fetcher_stop(struct fetcher *fetcher);

/* --- for the other files of the fetcher --- */

static inline struct fetcher *fetcher_of(const struct consumer_partition *p)
{
    return p->loop.topic->fetcher;
}

void fetcher_set_state(struct consumer_partition *p, enum partition_state next);
/* Tell the application; what failed is tried again a second later. */
void fetcher_tell(struct consumer_partition *p, const cafka_error *error);
/* Try again after the next retry backoff, or so many ms. */
void fetcher_back_off(struct consumer_partition *p);
void fetcher_delay(struct consumer_partition *p, int64_t ms);
/* Its times changed: set its timer to the earliest. */
void fetcher_set_timer(struct consumer_partition *p);
/* Read it where it is to be read now: at its preferred replica, its leader, or nowhere. */
void fetcher_place(struct consumer_partition *p);
/* Read it at another replica for metadata.max.age.ms (KIP-392); -1: at its leader. */
void fetcher_prefer(struct consumer_partition *p, int32_t broker);
/* Metadata says something new about it. */
void fetcher_leader_changed(struct consumer_partition *p);
void fetcher_wake_at(struct fetcher *fetcher, int64_t when_ms);

#endif
