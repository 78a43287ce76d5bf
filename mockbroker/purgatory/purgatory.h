/*
 * purgatory.h - operations that wait: for data, for replicas, for time.
 *
 * An operation is tried; if it cannot be completed it is watched under its keys and tried again
 * (something may have happened between); then its timer starts. An event on a key
 * (purgatory_check) tries the key's watchers. An operation completes once, by a try that says so
 * or by its timer; it is then taken off every watch list at once, and its `complete` runs after
 * the request that is being handled now, never nested in it (broker.h, broker_defer).
 *
 *     new --add--> [try: true] ------------------------------> completing --> complete(op, false)
 *                  [try: false] --> watching --check, true---> completing
 *                                      |------timer----------> completing --> complete(op, true)
 *                                      '------cancel---------> gone, complete is not called
 *
 * Owner:   one purgatory a broker; an operation lives in its maker's memory (a request's arena,
 *          mostly) and may be freed in `complete` or after purgatory_cancel().
 * Thread:  the broker's loop.
 */
#ifndef CAFKA_MOCKBROKER_PURGATORY_H
#define CAFKA_MOCKBROKER_PURGATORY_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"
#include "util/list.h"
#include "util/map.h"
#include "util/uuid.h"

/* What an operation may wait on. A key is (kind, id, index); unused parts are zero. */
enum purgatory_kind {
    PURGATORY_PRODUCE,        /* a partition: high watermark or ISR moved, leadership changed */
    PURGATORY_FETCH,          /* a partition: data, high watermark, leadership, log start */
    PURGATORY_DELETE_RECORDS, /* a partition: low watermark moved */
    PURGATORY_TOPIC,          /* a topic: its metadata was applied */
    PURGATORY_GROUP,          /* for the coordinators; id is a hash of the name, index theirs */
    PURGATORY_OTHER
};

struct purgatory_key {
    int32_t kind;
    int32_t index;
    struct uuid id;
};

static inline struct purgatory_key purgatory_partition_key(enum purgatory_kind kind,
                                                           struct uuid topic_id, int32_t partition)
{
    return (struct purgatory_key){(int32_t)kind, partition, topic_id};
}

struct purgatory;
struct purgatory_watch;

/* A unit of work that runs after the current request (or timer); see broker_defer(). */
struct deferred {
    struct list link;
    void (*run)(struct deferred *deferred);
};
struct deferred_queue {
    struct list items;
    struct loop *loop;
    struct loop_slice slice; /* runs the queue when nobody else does */
    bool running;
};
void deferred_init(struct deferred_queue *q, struct loop *loop);
void deferred_fini(struct deferred_queue *q);                    /* what waits is dropped */
void deferred_add(struct deferred_queue *q, struct deferred *d); /* linked already: nothing */
void deferred_run(struct deferred_queue *q); /* until it is empty; nested calls do nothing */

struct delayed {
    /* set by the maker before purgatory_add() */
    bool (*try)(struct delayed *op); /* can it be completed now? changes nothing of the purgatory's */
    void (*complete)(struct delayed *op, bool expired); /* once */
    /* the purgatory's */
    struct purgatory *purgatory; /* NULL: in none */
    struct list all;             /* in purgatory->ops */
    struct purgatory_watch *watches;
    struct timer timer;
    struct deferred deferred;
    bool expired;
};

int purgatory_new(struct purgatory **out, struct loop *loop, struct deferred_queue *queue,
                  cafka_error *err);
/* Forgets the operations in it: none of them completes. */
void purgatory_free(struct purgatory *p);

/*
 * Take an operation: try, watch, try again, start the timer (timeout_ms <= 0: it expires at once,
 * after one try). On an error (CAFKA_ERR_MEMORY) it is in no list and `complete` will not run.
 */
int purgatory_add(struct purgatory *p, struct delayed *op, int64_t timeout_ms,
                  const struct purgatory_key *keys, size_t key_count, cafka_error *err);
/* Try all operations that watch this key. Cheap when there are none. */
void purgatory_check(struct purgatory *p, const struct purgatory_key *key);
/* Complete one now, as if a try had said so. */
void purgatory_complete(struct delayed *op);
/* Take it out; it will not complete. Takes one that is in none. */
void purgatory_cancel(struct delayed *op);
size_t purgatory_count(const struct purgatory *p); /* operations that watch */

#endif
