/*
 * spacing.h - with linger.ms=0: is it worth letting records gather for a moment?
 *
 * A request costs some wake-ups and system calls, whatever is in it. When records come one by one,
 * a little apart, a broker would be asked ten thousand times a second for one record each. So a
 * broker that is idle is sent to at once, but the next request begins SPACING_NS later, with the
 * first record that comes then; what came in between leaves with it. No timer is set for that,
 * since its end would cost more than the request that is saved: who appends looks at the clock.
 * Only an alarm that moves on with the requests, and hardly ever rings, sees that the last
 * records of a stream do not stay: they wait for less than a millisecond.
 *
 * It pays if more than one record came, and not all at the same time. All at the same time come
 * those of an application that sends when it hears of an earlier delivery: nothing more would come
 * before the next answer, and waiting only slows it down. That is found out by trying: holds that
 * do not pay, one after the other, end the spacing, and it is tried again ever more rarely. So does
 * an alarm that finds records: on a busy machine a sender stops now and then for milliseconds.
 *
 * Owner:  struct sender_broker.
 * Thread: spacing_noticed() any; the rest the loop's. No clock.
 */
#ifndef CAFKA_PRODUCER_SPACING_H
#define CAFKA_PRODUCER_SPACING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    SPACING_NS = 200000,
    SPACING_APART_NS = SPACING_NS / 16, /* records so far apart do not come all at the same time */
    SPACING_ENOUGH = 8,                 /* records that came so soon are worth a request */
    SPACING_LONGEST_NS = 950000,        /* nobody waits longer … */
    SPACING_SHORTEST_NS = 300000 /* … and the alarm is moved on when it is as near as this */
};

struct spacing {
    /* the loop writes, who appends reads */
    _Atomic(int64_t) until_ns; /* 0: nothing is held back */
    _Atomic(int64_t) alarm_ns; /* when the loop looks by itself */
    /* what came since the last request: how many took note, when the first two came */
    atomic_uint noticed;
    _Atomic(int64_t) first_ns, second_ns;

    /* the loop's */
    int credit;       /* holds that may fail before the spacing ends */
    unsigned skip;    /* requests until it is tried again */
    unsigned skipped; /* how many there were the last time; it doubles */
};

void spacing_init(struct spacing *s);

/*
 * A request leaves: judge the hold before it, and begin the next. False: nothing will be held;
 * true: spacing->alarm_ns says when to look again if nothing else happens.
 */
bool spacing_sent(struct spacing *s, int64_t now_ns);

/* The alarm rang: what is held leaves now, if there is anything. */
void spacing_alarm(struct spacing *s);

static inline int64_t spacing_until_ns(const struct spacing *s)
{
    return atomic_load_explicit(&s->until_ns, memory_order_relaxed);
}

/* Enough came to make a request of it now. */
static inline bool spacing_has_enough(const struct spacing *s)
{
    return atomic_load_explicit(&s->noticed, memory_order_relaxed) >= SPACING_ENOUGH;
}

/*
 * Any thread: a record came while others may be held back. Returns by when the loop should look:
 * 0 at once, for the time is over or enough has come.
 */
int64_t spacing_noticed(struct spacing *s, int64_t now_ns);

#endif
