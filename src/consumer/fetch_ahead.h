/*
 * fetch_ahead.h - compressed batches that the loop inflates while the application is behind.
 *
 * Each compressed batch of a chunk has a slot. Whoever comes to it first does the work; nobody waits:
 *
 *            loop begins              loop is done           application comes
 *     RAW ------------------> BUSY ------------------> READY ------------------> TAKEN
 *      |                        |
 *      |  application comes     |  application comes: it inflates itself, the loop's work is dropped
 *      +------------------------+----------------------------------------------> TAKEN
 *
 * The state changes by compare and exchange; what a slot holds is the loop's until READY, and the
 * application's from then on. The application goes through a chunk from its front and the loop from
 * its back, so that they meet once. The loop works in slices, and only while the application does not
 * wait anyway, and AHEAD_BYTES at a time: memory that is used again and again stays in the caches,
 * and inflating far ahead would cost more than it spares.
 *
 * Owner:   struct fetch_ahead: its chunk and the loop's list, by reference count.
 * Thread:  fetch_ahead_take() on the application's; _new, _start and the slice on the loop;
 *          ref and unref any.
 */
#ifndef CAFKA_CONSUMER_FETCH_AHEAD_H
#define CAFKA_CONSUMER_FETCH_AHEAD_H

#include "consumer/fetch_memory.h"
#include "net/loop.h"
#include "record/open.h"

struct fetch_queue;

struct ahead_slot {
    atomic_uchar state;
    struct bytes batch;
    struct fetch_memory *inflated; /* a reference, while READY */
    struct record_iter records;
};

struct fetch_ahead {
    atomic_uint refs;
    struct list link;            /* the loop's list */
    struct fetch_memory *source; /* a reference: what the batches lie in */
    size_t count;
    size_t loop_left; /* slots before this one are the loop's to come */
    size_t app_at;    /* the application's next */
    struct ahead_slot slots[];
};

/* The loop's side. */
struct fetch_inflater {
    struct loop *loop;
    struct fetch_queue *queue;
    struct fetch_budget *budget;
    size_t inflate_limit;
    size_t largest;                    /* compressed bytes of a batch that fits a slice */
    struct decompressor *decompressor; /* made when it is first needed */
    struct list waiting;               /* struct fetch_ahead */
    struct loop_slice slice;
    uint64_t inflated; /* batches */
};

void fetch_inflater_init(struct fetch_inflater *inflater, struct loop *loop,
                         struct fetch_queue *queue, struct fetch_budget *budget,
                         size_t inflate_limit, bool shared_loop);
void fetch_inflater_fini(struct fetch_inflater *inflater); /* takes a zeroed one */

/*
 * For `count` compressed batches among `batches` (marked, whole). NULL: no memory, which does no
 * harm. The first reference is the chunk's.
 */
struct fetch_ahead *fetch_ahead_new(struct bytes batches, size_t count, struct fetch_memory *source);
/* The loop may begin. */
void fetch_ahead_start(struct fetch_inflater *inflater, struct fetch_ahead *ahead);
/* The application may have come nearer: look again. */
void fetch_ahead_go_on(struct fetch_inflater *inflater);
void fetch_ahead_unref(struct fetch_ahead *ahead); /* takes NULL */

/*
 * The application comes to the batch that begins at `batch`. True: it is inflated; *inflated (a
 * reference) and *records are it. False: inflate it.
 */
bool fetch_ahead_take(struct fetch_ahead *ahead, const uint8_t *batch,
                      struct fetch_memory **inflated, struct record_iter *records);

#endif
