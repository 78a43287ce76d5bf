/*
 * mpsc.h - hand-over from many threads to one: an intrusive stack that is taken whole.
 *
 * mpsc_push() says whether the stack was empty before, which is when the taker may need a wake-up.
 * mpsc_take_all() gives the items in the order in which they were pushed.
 */
#ifndef CAFKA_UTIL_MPSC_H
#define CAFKA_UTIL_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct mpsc_item {
    struct mpsc_item *next;
};

struct mpsc {
    _Atomic(struct mpsc_item *) top; /* zeroed is empty */
};

static inline bool mpsc_push(struct mpsc *q, struct mpsc_item *item)
{
    struct mpsc_item *top = atomic_load_explicit(&q->top, memory_order_relaxed);
    do
        item->next = top;
    while (!atomic_compare_exchange_weak_explicit(&q->top, &top, item, memory_order_acq_rel,
                                                  memory_order_relaxed));
    return top == NULL;
}

static inline bool mpsc_empty(const struct mpsc *q)
{
    return !atomic_load_explicit(&q->top, memory_order_acquire);
}

static inline struct mpsc_item *mpsc_take_all(struct mpsc *q)
{
    struct mpsc_item *item = atomic_exchange_explicit(&q->top, NULL, memory_order_acq_rel);
    struct mpsc_item *oldest = NULL;
    while (item) {
        struct mpsc_item *next = item->next;
        item->next = oldest;
        oldest = item;
        item = next;
    }
    return oldest;
}

#endif
