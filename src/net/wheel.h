/*
 * wheel.h - a hierarchical timing wheel: O(1) insert, cancel and next expiry, a million timers.
 *
 * Ticks are 1 ms. Level k has 64 slots of 64^k ms and a word of occupancy bits, so that the next
 * expiry is found without walking. A timer never fires before its deadline.
 *
 * Thread: its loop's.
 */
#ifndef CAFKA_NET_WHEEL_H
#define CAFKA_NET_WHEEL_H

#include <stdint.h>

#include "util/list.h"

struct timer {
    struct list link; /* zeroed: not set */
    int64_t deadline_ms;
    void (*fire)(struct timer *timer); /* set by the owner before the first loop_timer_set() */
    unsigned char level, slot;
};

enum { WHEEL_LEVELS = 8, WHEEL_SLOTS = 64 };

struct wheel {
    int64_t now_ms;
    uint64_t occupied[WHEEL_LEVELS];
    struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
    struct list due; /* deadline in the past when it was set */
    size_t count;
};

void wheel_init(struct wheel *w, int64_t now_ms);
void wheel_set(struct wheel *w, struct timer *timer, int64_t deadline_ms); /* moves it when set */
void wheel_cancel(struct wheel *w, struct timer *timer);                   /* takes one that is not set */
/* The earliest time at which wheel_advance() has something to do (perhaps only to sort); INT64_MAX: never. */
int64_t wheel_next_ms(const struct wheel *w);
/* Fire all that is due at now_ms. A timer set by a firing one, due at once, fires in the next call. */
void wheel_advance(struct wheel *w, int64_t now_ms);

static inline int timer_is_set(const struct timer *timer)
{
    return timer->link.next != NULL;
}

#endif
