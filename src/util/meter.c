/*
 * meter.c - see meter.h.
 */
#include "util/meter.h"

#include <sched.h>

static int64_t get(const _Atomic(int64_t) *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void set(_Atomic(int64_t) *word, int64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* The sample that is being filled; another one is begun when its window is over. */
static struct meter_sample *current(struct meter *meter, const struct meter_windows *windows,
                                    int64_t now_ms)
{
    int at = atomic_load_explicit(&meter->newest, memory_order_relaxed);
    struct meter_sample *sample = &meter->samples[at];
    if (get(&sample->began) && now_ms + 1 - get(&sample->began) < windows->window_ms)
        return sample;
    if (get(&sample->began)) {
        at = (at + 1) % windows->samples;
        atomic_store_explicit(&meter->newest, at, memory_order_relaxed);
        sample = &meter->samples[at];
    }
    set(&sample->began, now_ms + 1);
    set(&sample->sum, 0);
    set(&sample->events, 0);
    set(&sample->max, 0);
    return sample;
}

void meter_record(struct meter *meter, const struct meter_windows *windows, int64_t now_ms,
                  int64_t value)
{
    atomic_fetch_add_explicit(&meter->sequence, 1, memory_order_acq_rel);
    struct meter_sample *sample = current(meter, windows, now_ms);
    set(&sample->sum, get(&sample->sum) + value);
    set(&sample->events, get(&sample->events) + 1);
    if (value > get(&sample->max))
        set(&sample->max, value);
    set(&meter->sum, get(&meter->sum) + value);
    set(&meter->events, get(&meter->events) + 1);
    atomic_fetch_add_explicit(&meter->sequence, 1, memory_order_release);
}

struct recent {
    int64_t sum, events, max, oldest;
};

static void add_up(struct meter *meter, const struct meter_windows *windows, int64_t now_ms,
                   struct recent *out)
{
    *out = (struct recent){.oldest = now_ms};
    for (int i = 0; i < windows->samples; i++) {
        struct meter_sample *sample = &meter->samples[i];
        int64_t began = get(&sample->began) - 1;
        if (began < 0 || (now_ms - began) / windows->window_ms >= windows->samples)
            continue;
        out->sum += get(&sample->sum);
        out->events += get(&sample->events);
        if (get(&sample->max) > out->max)
            out->max = get(&sample->max);
        if (began < out->oldest)
            out->oldest = began;
    }
}

/* Seconds that a rate is over. */
static double seconds(const struct meter_windows *windows, int64_t now_ms, int64_t oldest)
{
    int64_t took = now_ms - oldest, full = took / windows->window_ms;
    if (full < windows->samples - 1)
        took += (windows->samples - 1 - full) * windows->window_ms;
    if (took < windows->window_ms)
        took = windows->window_ms;
    return (double)took / 1000;
}

void meter_read(struct meter *meter, const struct meter_windows *windows, int64_t now_ms,
                struct meter_reading *out)
{
    struct recent recent;
    unsigned before, after;
    do {
        while ((before = atomic_load_explicit(&meter->sequence, memory_order_acquire)) & 1)
            sched_yield(); /* a few stores of another thread */
        add_up(meter, windows, now_ms, &recent);
        out->sum = get(&meter->sum);
        out->events = get(&meter->events);
        /* Changes nothing; being a write it cannot move before the loads above. */
        after = atomic_fetch_add_explicit(&meter->sequence, 0, memory_order_acq_rel);
    } while (after != before);
    double over = seconds(windows, now_ms, recent.oldest);
    out->sum_per_s = (double)recent.sum / over;
    out->events_per_s = (double)recent.events / over;
    out->any = recent.events > 0;
    out->average = out->any ? (double)recent.sum / (double)recent.events : 0;
    out->max = (double)recent.max;
}
