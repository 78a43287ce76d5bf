/*
 * meter.h - how much and how often: totals since the start, and rates, averages and maxima of late.
 *
 * One thread records, any thread reads, and neither waits for the other: the numbers are single
 * words, and a sequence number that is odd during a change lets a reader begin again. "Of late" is
 * what Kafka's Java clients mean by it: some windows in turn, each as long as metrics.sample.window.ms,
 * of which the oldest is used again when the newest is over; a rate is the sum over those windows
 * that are not older than all of them together, divided by the time since the oldest began, which
 * counts as all but one of them at least.
 *
 * Owner:  whatever it measures. Zeroed is valid.
 * Thread: one records; any reads.
 */
#ifndef CAFKA_UTIL_METER_H
#define CAFKA_UTIL_METER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { METER_SAMPLES_MAX = 8 };

struct meter_windows {
    int64_t window_ms;
    int samples; /* 1 to METER_SAMPLES_MAX */
};

struct meter {
    atomic_uint sequence;
    atomic_int newest;
    _Atomic(int64_t) sum, events; /* since the start */
    struct meter_sample {
        _Atomic(int64_t) began; /* ms + 1; 0: not used yet */
        _Atomic(int64_t) sum, events, max;
    } samples[METER_SAMPLES_MAX];
};

/* `value` happened; not negative. Times are of one clock that does not go back. */
void meter_record(struct meter *meter, const struct meter_windows *windows, int64_t now_ms,
                  int64_t value);

struct meter_reading {
    int64_t sum, events; /* since the start */
    double sum_per_s, events_per_s;
    bool any; /* something happened of late: then there are … */
    double average, max;
};
void meter_read(struct meter *meter, const struct meter_windows *windows, int64_t now_ms,
                struct meter_reading *out);

/* A number that one thread changes and any thread reads. */
struct counter {
    _Atomic(int64_t) value;
};

static inline void counter_add(struct counter *counter, int64_t more)
{
    atomic_store_explicit(&counter->value,
                          atomic_load_explicit(&counter->value, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

static inline int64_t counter_read(const struct counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

#endif
