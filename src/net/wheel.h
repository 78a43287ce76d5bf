/*
 * wheel.h - a hierarchical timing wheel: O(1) insert, cancel and next expiry, a million timers.
 *
 * Ticks are 1 ms. Level k has 64 slots of 64^k ms, a word of occupancy bits, and for each slot the
 * soonest deadline in it, so that the next expiry is found without walking and a far timer causes
 * no wake-up on its way down. A timer never fires before its deadline.
 *
 * Invariants
 *   1. A timer in level k, slot s has its slot's beginning after now_ms, at most 64 slots ahead:
 *      the slot of now_ms itself stands for one whole round later.
 *   2. occupied[k] bit s is set exactly when slots[k][s] is not empty.
 *   3. soonest[k][s] is not above any deadline in an occupied slot (a cancel may leave it below).
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
    unsigned char level, slot;         /* level WHEEL_LEVELS: in no slot, but due */
};

enum { WHEEL_LEVELS = 8, WHEEL_SLOTS = 64 };

struct wheel {
    int64_t now_ms;
    int64_t reached_ms; /* what is set at or below it is due: now_ms, or where an advance goes to */
    uint64_t occupied[WHEEL_LEVELS];
    int64_t soonest[WHEEL_LEVELS][WHEEL_SLOTS];
    struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
    struct list due; /* deadline in the past when it was set */
    size_t count;
};

void wheel_init(struct wheel *w, int64_t now_ms);
void wheel_set(struct wheel *w, struct timer *timer, int64_t deadline_ms); /* moves it when set */
void wheel_cancel(struct wheel *w, struct timer *timer); /* takes one that is not set */
/* The earliest time at which wheel_advance() has something to do (rarely only to sort); INT64_MAX: never. */
int64_t wheel_next_ms(const struct wheel *w);
/*
 * Fire all that is due at now_ms, in order of deadline (equal ones: mostly in order of setting).
 * A timer set by a firing one, due at once, fires in the next call.
 */
void wheel_advance(struct wheel *w, int64_t now_ms);

static inline int timer_is_set(const struct timer *timer)
{
    return timer->link.next != NULL;
}

#endif
