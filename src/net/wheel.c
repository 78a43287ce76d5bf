/*
 * wheel.c - see wheel.h.
 */
#include "net/wheel.h"

enum { LEVEL_BITS = 6, LEVEL_MASK = WHEEL_SLOTS - 1 };

/* The farthest that the wheel can hold; what lies beyond waits there and is placed anew. */
#define HORIZON_MS ((INT64_C(1) << (LEVEL_BITS * WHEEL_LEVELS)) - 1)

void wheel_init(struct wheel *w, int64_t now_ms)
{
    *w = (struct wheel){.now_ms = now_ms, .reached_ms = now_ms};
    list_init(&w->due);
    for (int level = 0; level < WHEEL_LEVELS; level++)
        for (int slot = 0; slot < WHEEL_SLOTS; slot++)
            list_init(&w->slots[level][slot]);
}

static void place_due(struct wheel *w, struct timer *timer)
{
    timer->level = WHEEL_LEVELS;
    list_push_back(&w->due, &timer->link);
}

/* Into the slot of its deadline, which is after now_ms. */
static void place(struct wheel *w, struct timer *timer)
{
    uint64_t distance = (uint64_t)timer->deadline_ms - (uint64_t)w->now_ms;
    if (distance > (uint64_t)HORIZON_MS)
        distance = (uint64_t)HORIZON_MS;
    int level = (63 - __builtin_clzll(distance)) / LEVEL_BITS;
    uint64_t at = (uint64_t)w->now_ms + distance;
    unsigned slot = (unsigned)(at >> (LEVEL_BITS * level)) & LEVEL_MASK;

    uint64_t bit = UINT64_C(1) << slot;
    if (!(w->occupied[level] & bit) || timer->deadline_ms < w->soonest[level][slot])
        w->soonest[level][slot] = timer->deadline_ms;
    w->occupied[level] |= bit;
    timer->level = (unsigned char)level;
    timer->slot = (unsigned char)slot;
    list_push_back(&w->slots[level][slot], &timer->link);
}

void wheel_set(struct wheel *w, struct timer *timer, int64_t deadline_ms)
{
    wheel_cancel(w, timer);
    timer->deadline_ms = deadline_ms;
    w->count++;
    if (deadline_ms <= w->reached_ms)
        place_due(w, timer);
    else
        place(w, timer);
}

void wheel_cancel(struct wheel *w, struct timer *timer)
{
    if (!timer_is_set(timer))
        return;
    list_remove(&timer->link);
    w->count--;
    if (timer->level < WHEEL_LEVELS && list_empty(&w->slots[timer->level][timer->slot]))
        w->occupied[timer->level] &= ~(UINT64_C(1) << timer->slot);
}

/* How many slots ahead (1 to 64) the first occupied one of a level is; 0: there is none. */
static unsigned first_ahead(const struct wheel *w, int level)
{
    uint64_t occupied = w->occupied[level];
    if (!occupied)
        return 0;
    unsigned turn = ((unsigned)((uint64_t)w->now_ms >> (LEVEL_BITS * level)) + 1) & LEVEL_MASK;
    uint64_t ahead = turn ? occupied >> turn | occupied << (WHEEL_SLOTS - turn) : occupied;
    return (unsigned)__builtin_ctzll(ahead) + 1;
}

int64_t wheel_next_ms(const struct wheel *w)
{
    if (!list_empty(&w->due))
        return w->now_ms;
    int64_t next = INT64_MAX;
    for (int level = 0; level < WHEEL_LEVELS; level++) {
        unsigned ahead = first_ahead(w, level);
        if (!ahead)
            continue;
        unsigned digit = (unsigned)((uint64_t)w->now_ms >> (LEVEL_BITS * level)) + ahead;
        int64_t soonest = w->soonest[level][digit & LEVEL_MASK];
        if (soonest < next)
            next = soonest;
    }
    return next;
}

/* When the next slot begins, of any level; INT64_MAX: all are empty. */
static int64_t next_slot_ms(const struct wheel *w)
{
    uint64_t next = INT64_MAX;
    for (int level = 0; level < WHEEL_LEVELS; level++) {
        unsigned ahead = first_ahead(w, level);
        if (!ahead)
            continue;
        int shift = LEVEL_BITS * level;
        uint64_t begins = (((uint64_t)w->now_ms >> shift) + ahead) << shift;
        if (begins < next)
            next = begins;
    }
    return (int64_t)next;
}

/* Take apart the slots that begin at now_ms, the coarse ones first: due, or into a finer slot. */
static void open_slots(struct wheel *w)
{
    for (int level = WHEEL_LEVELS - 1; level >= 0; level--) {
        int shift = LEVEL_BITS * level;
        uint64_t now = (uint64_t)w->now_ms;
        if (now & ((UINT64_C(1) << shift) - 1))
            continue;
        unsigned slot = (unsigned)(now >> shift) & LEVEL_MASK;
        if (!(w->occupied[level] & UINT64_C(1) << slot))
            continue;
        struct list opened;
        list_init(&opened);
        list_splice_back(&opened, &w->slots[level][slot]);
        w->occupied[level] &= ~(UINT64_C(1) << slot);
        for (struct list *link; (link = list_pop_front(&opened));) {
            struct timer *timer = list_item(link, struct timer, link);
            if (timer->deadline_ms <= w->now_ms)
                place_due(w, timer);
            else
                place(w, timer);
        }
    }
}

static void fire_due(struct wheel *w)
{
    struct list firing; /* what a firing timer makes due stays for the next call */
    list_init(&firing);
    list_splice_back(&firing, &w->due);
    for (struct list *link; (link = list_pop_front(&firing));) {
        struct timer *timer = list_item(link, struct timer, link);
        w->count--;
        timer->fire(timer);
    }
}

void wheel_advance(struct wheel *w, int64_t now_ms)
{
    if (now_ms < w->now_ms)
        now_ms = w->now_ms;
    w->reached_ms = now_ms;

    struct list again; /* became due while others fired: for the next call */
    list_init(&again);
    fire_due(w);
    for (int64_t begins; (begins = next_slot_ms(w)) <= now_ms && begins != INT64_MAX;) {
        list_splice_back(&again, &w->due);
        w->now_ms = begins;
        open_slots(w);
        fire_due(w);
    }
    list_splice_back(&again, &w->due);
    list_splice_back(&w->due, &again);
    w->now_ms = now_ms;
}
