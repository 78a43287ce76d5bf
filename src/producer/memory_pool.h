/*
 * memory_pool.h - buffer.memory: blocks that batches are written into, and who waits for one.
 *
 * Every block is charged whole, its head too, from the moment it is taken until it is released.
 * Blocks of the usual capacity are kept for reuse, the one used last first, so that steady work
 * maps no memory; half of what lay there unused for ten seconds is freed with the next release, so that
 * the busiest moment does not stay. A record too large for one gets a block of its own, which is not kept. When the
 * budget is used up, threads wait in line: freed memory goes to the oldest, which may gather it
 * bit by bit, so that a large record cannot starve, and nobody overtakes.
 *
 * Owner:   one per producer.
 * Thread:  any. The pool's lock is a leaf: it is taken under a partition's lock, and nothing is
 *          called while it is held but the env's event_signal.
 * Reading: memory_pool_try(), memory_pool_release(); waiting is join, (wait), leave.
 */
#ifndef CAFKA_PRODUCER_MEMORY_POOL_H
#define CAFKA_PRODUCER_MEMORY_POOL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "env/env.h"
#include "util/list.h"

enum { POOL_EVENTS = 16 };

/* A piece of a batch: [head] bytes that are sent … room … slots, which grow down from the end. */
struct block {
    struct block *next; /* of a batch's chain, or of the pool */
    uint32_t capacity;  /* of data; a multiple of 16 */
    uint32_t begin;     /* where the bytes to be sent begin */
    uint32_t used;      /* how many they are */
    uint32_t slots;     /* delivery slots at the end of data */
    uint32_t crc;       /* of the records, if `summed` */
    bool summed;
    _Alignas(16) uint8_t data[];
};

struct memory_pool {
    const cafka_env *env;
    size_t total;        /* buffer.memory */
    uint32_t capacity;   /* of a usual block */
    atomic_uint waiting; /* threads in line; read without the lock as a hint */

    pthread_mutex_t mu; /* guards what follows */
    int64_t available; /* not charged; what is kept for reuse counts as available; may be overdrawn */
    struct block *kept;
    int64_t kept_bytes;
    int64_t least_bytes;     /* that were kept at any time … */
    int64_t look_at_ns;      /* … until now: when it is looked at again */
    struct list waiters;     /* the oldest first */
    int events[POOL_EVENTS]; /* of those who waited before, for the next ones */
    int event_count;
    bool closed; /* nobody waits any more */
};

int memory_pool_init(struct memory_pool *pool, const cafka_env *env, size_t total,
                     uint32_t capacity, cafka_error *err);
void memory_pool_fini(struct memory_pool *pool); /* all blocks were released; takes a zeroed one */

/* What a block of this capacity is charged. */
size_t block_charge(size_t capacity);

/*
 * A block that holds at least `capacity`, without waiting.
 * Returns CAFKA_OK, CAFKA_ERR_WOULD_BLOCK (used up, or others wait), or CAFKA_ERR_MEMORY.
 */
int memory_pool_try(struct memory_pool *pool, size_t capacity, struct block **out);

/* The same without regard to the budget: what is overdrawn is paid back by the next releases. NULL: no memory. */
struct block *memory_pool_overdraw(struct memory_pool *pool, size_t capacity);

/* Give back a chain of blocks. */
void memory_pool_release(struct memory_pool *pool, struct block *chain);

/* A thread in line; on its stack. */
struct pool_waiter {
    struct list link;
    size_t capacity;
    int64_t wanted, granted; /* bytes, as charged */
    int event;               /* signalled when all is granted, or the pool closed */
};

/* Stand in line for a block that holds `capacity`. Errors: CAFKA_ERR_SYSTEM no event to be had. */
int memory_pool_join(struct memory_pool *pool, struct pool_waiter *waiter, size_t capacity,
                     cafka_error *err);
/*
 * Leave the line after waiting for waiter->event. CAFKA_OK and a block if all was granted;
 * CAFKA_ERR_WOULD_BLOCK if not (what was gathered goes to the next), CAFKA_ERR_MEMORY.
 */
int memory_pool_leave(struct memory_pool *pool, struct pool_waiter *waiter, struct block **out);

/* Wake everybody in line; nobody gets in line again. */
void memory_pool_close(struct memory_pool *pool);

int64_t memory_pool_available(struct memory_pool *pool); /* bytes not charged; below 0: overdrawn */
size_t memory_pool_used(struct memory_pool *pool);       /* bytes charged */

#endif
