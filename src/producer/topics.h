/*
 * topics.h - the topics that records were sent to, and what application threads know of them.
 *
 * Metadata belongs to the loop. What a sending thread needs of it is copied out: the partitions of
 * a topic, as an array that never changes and is replaced as a whole when there are more, and the
 * statistics of the sticky partitioner. Topics are found by name in a table of the same kind. What
 * was replaced is kept until the producer is freed, so that readers need no lock; as both grow by
 * doubling or rarely, that is little.
 *
 * Owner:   struct cafka_producer.
 * Thread:  topics_find(), topics_get(), topic_await(), topic_choose() any; the rest the loop's.
 * Reading: topics_get() in topics.c, topic_await() in topic_await.c, topic_changed() in
 *          topic_metadata.c, topic_move_on() in topic_choice.c.
 */
#ifndef CAFKA_PRODUCER_TOPICS_H
#define CAFKA_PRODUCER_TOPICS_H

#include <cafka/producer.h>

#include "producer/accumulator.h"
#include "producer/partitioner.h"
#include "producer/producer_meters.h"
#include "util/rng.h"

struct topic_table {
    struct topic_table *older;
    size_t mask;
    _Atomic(cafka_topic *) slots[];
};

struct topics {
    _Atomic(struct topic_table *) table;
    _Atomic(cafka_topic *) latest; /* the one that was found last, by whoever */
    pthread_mutex_t mu;            /* for who adds one */
    bool mu_made;
    size_t count;
    struct list all; /* the loop's: those that were registered */
};

struct partition_set {
    struct partition_set *older;
    int32_t count;
    struct partition *partitions[];
};

/* Where partitions lie, as many as were added at a time. */
struct partition_slab {
    struct partition_slab *older;
    struct partition partitions[];
};

struct cafka_topic {
    cafka_producer *producer;
    char *name;
    size_t name_size;
    _Atomic(struct partition_set *) set; /* NULL: not known yet */
    _Atomic(struct partition *) sticky;  /* where records without a key go now; NULL: choose */
    atomic_uint turn;                    /* of the round robin */
    struct batch_limits limits;          /* of its batches */

    pthread_mutex_t mu; /* guards what follows */
    bool mu_made;
    struct partition_load load;
    int32_t *available; /* partitions that have a leader */
    int32_t available_count, available_capacity;
    struct rng rng;
    struct list waiters; /* struct topic_waiter */
    cafka_error error;   /* why it is not known */

    struct topic_meters meters; /* recorded on the loop */

    /* the loop's */
    struct loop_task register_task, growth_task;
    atomic_bool growth_posted; /* by who waits for a partition */
    struct list link;
    struct metadata_topic *meta;
    struct partition **all; /* every partition there ever was; not fewer than in the set */
    int32_t all_count;
    struct partition_slab *slabs;
    int64_t stats_at_ms;
    int32_t *queued; /* scratch of the statistics, with room for all_count */
    int32_t *ids;
    struct timer growth_timer; /* somebody waits for a partition that is not there yet */
    unsigned growth_attempts;
    int32_t request_index; /* scratch of the sender: entry in the request being built */
    uint64_t request_mark;
};

int topics_init(struct topics *topics, cafka_error *err);
void topics_fini(struct topics *topics); /* after the loop has ended; takes a zeroed one */

cafka_topic *topics_find(struct topics *topics, const char *name); /* NULL: none */
/* Found or made. Errors: CAFKA_ERR_ARGUMENT not a legal name, CAFKA_ERR_MEMORY. */
int topics_get(cafka_producer *producer, const char *name, cafka_topic **out, cafka_error *err);

/*
 * Wait until the topic is known and has this partition (-1: any).
 * Errors: CAFKA_ERR_TIMEOUT, CAFKA_ERR_WOULD_BLOCK and _IN_CALLBACK (deadline 0, or must not wait),
 *         what makes the producer or the topic unusable.
 */
int topic_await(cafka_topic *topic, int32_t partition, int64_t deadline, cafka_error *err);

/* Leave the sticky partition `from` (NULL: none yet) for another, unless somebody did already. */
void topic_move_on(cafka_topic *topic, struct partition *from);
/*
 * The partition where partitioner.class is not the default; NULL: the sticky one. A key of NULL is
 * none.
 */
struct partition *topic_choose_otherwise(cafka_topic *topic, const struct partition_set *set,
                                         struct bytes key);
/* What would be chosen now for this key; -1: that is up to chance. The topic is known. */
int32_t topic_would_choose(cafka_topic *topic, struct bytes key);

/* Loop: metadata takes an interest in it. */
void topic_adopt(cafka_topic *topic);
void topic_watch_init(cafka_topic *topic); /* for a new one: what runs on the loop */
/* Whoever waits for the topic looks again. */
void topic_wake(cafka_topic *topic);
/* Loop: metadata has news of this topic; those who wait are woken. */
void topic_changed(cafka_topic *topic, unsigned what);
/*
 * Loop: a batch of it leaves, so it is in use (metadata.max.idle.ms), and the sticky partitioner
 * learns what waits where; the latter at most once a millisecond.
 */
void topic_batch_leaves(cafka_topic *topic);
/* Loop: nobody is going to be served any more; wake all who wait. */
void topics_wake_all(struct topics *topics);

#endif
