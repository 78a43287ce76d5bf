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
 * Owner:   the consumer.
 * Thread:  the loop's, but for fetcher_poke().
 * Reading: fetcher_change() for what the application wants, pump() for when a request leaves.
 */
#ifndef CAFKA_CONSUMER_FETCHER_H
#define CAFKA_CONSUMER_FETCHER_H

#include "consumer/aborted.h"
#include "consumer/fetch_queue.h"
#include "consumer/offsets.h"

/* The topic of some assigned partitions. */
struct consumer_topic {
    struct metadata_topic *metadata; /* a reference; metadata->user points back */
    struct list partitions;
    struct map by_number;
};

/* The fetches of one broker; broker->user. */
struct fetch_broker {
    struct request request; /* first */
    struct fetcher *fetcher;
    struct broker *broker;
    struct list link;
    struct list partitions; /* whose leader it is */
    struct fetch_session session;
    bool in_flight;
    bool closing;   /* the fetch in flight closes the session */
    bool held_back; /* it could send, but for buffered data or memory */
    int64_t asked_bytes;
};

struct fetcher {
    struct client *client;
    const struct consumer_settings *settings;
    struct fetch_queue *queue;
    struct fetch_budget *budget;
    struct offset_lookup *lookup;
    struct list brokers;  /* struct fetch_broker */
    struct list homeless; /* partitions without a known leader, by loop.at_broker */
    int64_t asked_bytes;  /* of all fetches in flight */
    size_t held_back;     /* brokers */
    bool stopping;
    atomic_size_t closing; /* sessions being closed at their brokers */
    struct arena build, answer;
    struct aborted_filter aborted;
    struct timer timer;
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
    uint32_t generation;
    int64_t start, delay_ms;
    bool assigned, paused;
};
/* False: no memory; ask again later. */
bool fetcher_change(struct fetcher *fetcher, struct consumer_partition *partition,
                    const struct partition_wish *wish);

/* Hooks of the client. */
void fetcher_topic_changed(struct fetcher *fetcher, struct metadata_topic *topic, unsigned what);
void fetcher_broker_writable(struct fetcher *fetcher, struct broker *broker);

/* The application made room. Any thread. */
void fetcher_poke(struct fetcher *fetcher);

/* For fetch_answer.c: */
void fetcher_tell(struct fetcher *fetcher, struct consumer_partition *p, const cafka_error *error);
void fetcher_back_off(struct fetcher *fetcher, struct consumer_partition *p);
void fetcher_wake_at(struct fetcher *fetcher, int64_t when_ms);
/* Begin at an offset, at CAFKA_OFFSET_BEGINNING or _END, or where the policy says (START_BY_POLICY). */
void fetcher_start_partition(struct fetcher *fetcher, struct consumer_partition *p, int64_t start);

/* No more fetches; close the sessions at the brokers, as far as connections allow it now. */
void fetcher_stop(struct fetcher *fetcher);

#endif
