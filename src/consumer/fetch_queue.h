/*
 * fetch_queue.h - what the loop hands to the application: fetched data, positions, errors.
 *
 * A chunk of data is the batches that one answer held for one partition, in the memory they
 * arrived in, marked by the loop (batch_marks.h).
 *
 * The loop wakes the application only if it waits: `waiting` and the list are a Dekker pair.
 *
 * Owner:   the consumer. Chunks come from a free list that the application fills.
 * Thread:  fetch_queue_new_chunk() and _push() on the loop; the rest on the application's.
 */
#ifndef CAFKA_CONSUMER_FETCH_QUEUE_H
#define CAFKA_CONSUMER_FETCH_QUEUE_H

#include "consumer/fetch_memory.h"
#include "consumer/partition.h"

struct fetch_ahead;

enum chunk_kind {
    CHUNK_DATA,
    CHUNK_POSITION, /* position is where the partition starts */
    CHUNK_RESET,    /* the application's side is to seek to position (fetch_position.h) */
    CHUNK_ERROR
};

struct chunk {
    struct mpsc_item link; /* first */
    struct chunk *next;    /* in the application's list */
    enum chunk_kind kind;
    uint32_t generation;
    struct consumer_partition *partition; /* a reference */
    struct fetch_memory *memory;          /* a reference; DATA */
    struct bytes batches;                 /* what is left of it */
    struct fetch_ahead *ahead;            /* a reference; NULL: nothing is inflated ahead */
    size_t charged;                       /* of partition->buffered_bytes */
    int64_t position;   /* POSITION; RESET: or CAFKA_OFFSET_…, START_BY_POLICY */
    int32_t epoch;      /* RESET: leader epoch of the record before position */
    bool at_once;       /* RESET: before what is queued, which is void */
    cafka_error *error; /* its own; ERROR */
};

struct fetch_queue {
    const cafka_env *env;
    int event;                  /* the application waits for this one */
    void (*signal)(void *user); /* how to set it, where that takes more than the env; NULL: it does not */
    void (*news)(void *user); /* something came, whether or not anybody waits; NULL: nobody asks */
    void *signal_user;
    atomic_bool waiting;
    atomic_uint ends_moved; /* how often the end of a partition was found to be another one */
    struct mpsc incoming;
    struct mpsc returned; /* chunks to use again */
    atomic_uint returned_count;
    struct mpsc_item *spare;
    struct chunk *first, *last; /* the application's list */
};

int fetch_queue_init(struct fetch_queue *queue, const cafka_env *env, cafka_error *err);
void fetch_queue_fini(struct fetch_queue *queue);

struct chunk *fetch_queue_new_chunk(struct fetch_queue *queue, enum chunk_kind kind,
                                    struct consumer_partition *partition); /* NULL: no memory */
struct chunk *fetch_queue_new_error(struct fetch_queue *queue, struct consumer_partition *partition,
                                    const cafka_error *error); /* NULL: no memory */
void fetch_queue_push(struct fetch_queue *queue, struct chunk *chunk);
/* Something else happened that the application may wait for. Any thread. */
void fetch_queue_wake(struct fetch_queue *queue);

/* Did anything come in? After something was stored that whoever pushes looks at. */
bool fetch_queue_came_in(const struct fetch_queue *queue);
/* Take over what came in. True if there was anything. */
bool fetch_queue_take(struct fetch_queue *queue);
struct chunk *fetch_queue_pop(struct fetch_queue *queue);
void fetch_queue_push_front(struct fetch_queue *queue, struct chunk *first, struct chunk *last);
/* Drop its references and give it back. */
void fetch_queue_recycle(struct fetch_queue *queue, struct chunk *chunk);

/*
 * Before waiting for queue->event: false if something came meanwhile. fetch_queue_stop_waiting()
 * after it, or instead.
 */
bool fetch_queue_start_waiting(struct fetch_queue *queue);
void fetch_queue_stop_waiting(struct fetch_queue *queue);

#endif
