/*
 * batch_limits.c - see batch_limits.h.
 */
#include "producer/batch_limits.h"

enum { WORSENS_BY = RATIO_ONE / 20, IMPROVES_BY = RATIO_ONE / 200, RATIO_MIN = RATIO_ONE / 100 };

void batch_limits_init(struct batch_limits *limits)
{
    limits->learned_ms = 0;
    limits->wait_ms = LIMIT_WAIT_FIRST_MS;
    limits->grown = false;
    atomic_store_explicit(&limits->ratio, RATIO_ONE, memory_order_relaxed);
    atomic_store_explicit(&limits->limit, SIZE_MAX, memory_order_relaxed);
}

static unsigned ratio_of(size_t raw, size_t compressed)
{
    double ratio = raw ? (double)compressed / (double)raw * RATIO_ONE : RATIO_ONE;
    return ratio < RATIO_MIN ? RATIO_MIN : ratio > 2 * RATIO_ONE ? 2 * RATIO_ONE : (unsigned)ratio;
}

static unsigned largest(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* Two threads at once may lose one of two observations, which does no harm. */
void batch_limits_observed(struct batch_limits *limits, size_t raw, size_t compressed)
{
    unsigned observed = ratio_of(raw, compressed);
    unsigned ratio = atomic_load_explicit(&limits->ratio, memory_order_relaxed);
    if (observed > ratio)
        ratio = largest(ratio + WORSENS_BY, observed);
    else if (observed < ratio)
        ratio = ratio > IMPROVES_BY ? largest(ratio - IMPROVES_BY, observed) : observed;
    atomic_store_explicit(&limits->ratio, ratio, memory_order_relaxed);
}

size_t batch_limits_raw(const struct batch_limits *limits, size_t size)
{
    unsigned ratio = atomic_load_explicit(&limits->ratio, memory_order_relaxed);
    double raw = (double)size * RATIO_ONE / ratio;
    return raw < (double)INT32_MAX ? (size_t)raw : INT32_MAX;
}

size_t batch_limits_refused(struct batch_limits *limits, size_t size, size_t raw, size_t batch_size,
                            int64_t now_ms)
{
    size_t half = size / 2;
    size_t learned = size > batch_size && half < batch_size ? batch_size : half;
    if (limits->grown)
        limits->wait_ms =
            2 * limits->wait_ms < LIMIT_WAIT_MAX_MS ? 2 * limits->wait_ms : LIMIT_WAIT_MAX_MS;
    limits->grown = false;
    limits->learned_ms = now_ms;
    if (learned < batch_limits_wire(limits))
        atomic_store_explicit(&limits->limit, learned, memory_order_relaxed);
    atomic_store_explicit(&limits->ratio, largest(RATIO_ONE, ratio_of(raw, size)),
                          memory_order_relaxed);
    return learned;
}

void batch_limits_taken(struct batch_limits *limits, size_t size, size_t most, int64_t now_ms)
{
    size_t limit = batch_limits_wire(limits);
    if (limit == SIZE_MAX || size <= limit / 2 || now_ms - limits->learned_ms < limits->wait_ms)
        return;
    limits->learned_ms = now_ms;
    limits->grown = true;
    atomic_store_explicit(&limits->limit, limit >= most / 2 ? SIZE_MAX : 2 * limit,
                          memory_order_relaxed);
}
