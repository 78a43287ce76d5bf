/*
 * spacing.c - see spacing.h.
 */
#include "producer/spacing.h"

enum {
    CREDIT_MAX = 8,
    CREDIT_NEW = 3, /* after a trial that paid */
    SKIP_FIRST = 16,
    SKIP_MAX = 1024,
    SKIP_AFTER_ALARM = 256 /* records waited for nothing: the stream is not that steady */
};

void spacing_init(struct spacing *s)
{
    *s = (struct spacing){.skip = SKIP_FIRST, .skipped = SKIP_FIRST};
}

static void judge(struct spacing *s, bool pays)
{
    if (pays) {
        s->credit = s->credit ? s->credit + 1 : CREDIT_NEW;
        s->credit = s->credit < CREDIT_MAX ? s->credit : CREDIT_MAX;
        s->skipped = SKIP_FIRST;
        return;
    }
    if (s->credit && --s->credit)
        return;
    s->skip = s->skipped;
    s->skipped = 2 * s->skipped < SKIP_MAX ? 2 * s->skipped : SKIP_MAX;
}

static bool came_one_by_one(struct spacing *s)
{
    int64_t first_ns = atomic_load_explicit(&s->first_ns, memory_order_relaxed);
    int64_t second_ns = atomic_load_explicit(&s->second_ns, memory_order_relaxed);
    return atomic_load_explicit(&s->noticed, memory_order_acquire) >= 2 &&
           second_ns - first_ns >= SPACING_APART_NS;
}

bool spacing_sent(struct spacing *s, int64_t now_ns)
{
    if (spacing_until_ns(s))
        judge(s, came_one_by_one(s));
    else if (s->skip)
        s->skip--;
    bool holds = s->credit || !s->skip;
    if (holds &&
        atomic_load_explicit(&s->alarm_ns, memory_order_relaxed) < now_ns + SPACING_SHORTEST_NS)
        atomic_store_explicit(&s->alarm_ns, now_ns + SPACING_LONGEST_NS, memory_order_relaxed);
    atomic_store_explicit(&s->noticed, 0, memory_order_relaxed);
    atomic_store_explicit(&s->until_ns, holds ? now_ns + SPACING_NS : 0, memory_order_release);
    return holds;
}

void spacing_alarm(struct spacing *s)
{
    if (spacing_until_ns(s))
        judge(s, false);
    if (atomic_load_explicit(&s->noticed, memory_order_relaxed)) {
        s->credit = 0;
        s->skip = SKIP_AFTER_ALARM;
    }
    atomic_store_explicit(&s->until_ns, 0, memory_order_release);
}

/* Two threads at once may count as one, or write a time twice; neither does harm. */
int64_t spacing_noticed(struct spacing *s, int64_t now_ns)
{
    unsigned before = atomic_load_explicit(&s->noticed, memory_order_relaxed);
    if (before < 2)
        atomic_store_explicit(before ? &s->second_ns : &s->first_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&s->noticed, before + 1, memory_order_release);
    if (now_ns >= spacing_until_ns(s) || before + 1 == SPACING_ENOUGH)
        return 0;
    return atomic_load_explicit(&s->alarm_ns, memory_order_relaxed);
}
