/*
 * fetch_memory.h - bytes that records lie in, counted against fetch.buffer.memory until the last
 * of their users lets go.
 *
 * A piece of memory is a received frame or the inflated records of a batch. Chunks, fetches and
 * record references share it by reference count; who drops the last reference, on any thread and
 * perhaps after the consumer is gone, gives the bytes back to the budget and the piece to a free
 * list. The budget is shared for the same reason.
 *
 * Owner:  the budget by its consumer and by every piece in use.
 * Thread: ref and unref any; taking frames on the loop, taking inflated pieces on the application's.
 */
#ifndef CAFKA_CONSUMER_FETCH_MEMORY_H
#define CAFKA_CONSUMER_FETCH_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "net/frame.h"
#include "util/bytes.h"
#include "util/map.h"
#include "util/mpsc.h"

struct fetch_budget;

/*
 * Pieces that one thread takes and all give back, to be taken again. Each piece returns to the pool it
 * came from: with a common list the first who looks would take what the other has to allocate anew, over
 * and over.
 */
struct fetch_pool {
    struct mpsc free;        /* given back; any thread */
    struct mpsc_item *spare; /* taken from there; its taker's */
    atomic_llong idle_bytes; /* inflated buffers in both */
};

struct fetch_memory {
    struct mpsc_item link; /* first; in its pool */
    atomic_uint refs;
    struct fetch_budget *budget;
    struct fetch_pool *pool;
    size_t charged;
    struct frame *frame;    /* a received frame, or … */
    struct buffer inflated; /* … memory of our own */
};

/*
 * Told that bytes came back while the budget was short. Called on the thread that let go, with
 * the budget's lock held, so it only hands over.
 */
typedef void fetch_budget_freed_fn(void *user);

struct fetch_budget {
    atomic_uint refs;
    int64_t limit_bytes;
    atomic_llong held_bytes;
    atomic_llong ahead_bytes;    /* of them, inflated by the loop and not yet come to */
    atomic_bool short_of_memory; /* the loop holds a fetch back; cleared by the thread that tells */
    pthread_mutex_t mu;          /* guards freed and user: see Locks in docs/DESIGN.md */
    fetch_budget_freed_fn *freed;
    void *user;
    struct fetch_pool frames;   /* the loop's: pieces without a frame */
    struct fetch_pool inflated; /* the application's: pieces with a buffer kept */
    struct fetch_pool ahead;    /* the loop's, to inflate into */
    struct map names;           /* interned topic names; the application's side adds */
};

int fetch_budget_new(struct fetch_budget **out, int64_t limit_bytes, fetch_budget_freed_fn *freed,
                     void *user, cafka_error *err);
/* The consumer is going: nobody is to be told any more. */
void fetch_budget_detach(struct fetch_budget *budget);
void fetch_budget_unref(struct fetch_budget *budget); /* takes NULL */
int64_t fetch_budget_held(const struct fetch_budget *budget);

/*
 * One copy of a topic name, which lives as long as the budget, and so as long as any view into
 * memory that is charged to it. Application. NULL: no memory.
 */
const char *fetch_budget_intern(struct fetch_budget *budget, const char *topic);

/* The interned name, or NULL. Application. */
const char *fetch_budget_name(const struct fetch_budget *budget, const char *topic);

/* A piece that holds one more reference to `frame` and is charged with its size. Loop. NULL: no memory. */
struct fetch_memory *fetch_memory_of_frame(struct fetch_budget *budget, struct frame *frame);
/* A piece with an empty buffer to inflate into; fetch_memory_charge() says how much it took. Application. */
struct fetch_memory *fetch_memory_for_inflating(struct fetch_budget *budget);
/* The same on the loop. */
struct fetch_memory *fetch_memory_for_inflating_ahead(struct fetch_budget *budget);
void fetch_memory_charge(struct fetch_memory *memory, size_t bytes);

struct fetch_memory *fetch_memory_ref(struct fetch_memory *memory);
void fetch_memory_unref(struct fetch_memory *memory); /* takes NULL */

#endif
