/*
 * batch_limits.h - how large the batches of a topic become: how well it compresses, and what its
 * broker takes.
 *
 * The ratio is what a compressed batch is of its records, as estimated: it follows at once when a
 * batch compressed worse than that, and slowly when it compressed better, so that few batches are
 * larger than was meant.
 *
 * A broker does not say what it takes (max.message.bytes). A refusal halves the limit, until it is
 * content; since the topic may be changed again, the limit doubles after a while in which batches
 * came near it, and each time that this turns out to be wrong the next try is later.
 *
 * Owner:  struct cafka_topic.
 * Thread: batch_limits_raw() and _observed() any, the rest the loop's. No clock.
 */
#ifndef CAFKA_PRODUCER_BATCH_LIMITS_H
#define CAFKA_PRODUCER_BATCH_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RATIO_ONE = 10000,
    LIMIT_WAIT_FIRST_MS = 60000, /* from a refusal until a larger limit is tried */
    LIMIT_WAIT_MAX_MS = 3600000
};

struct batch_limits {
    atomic_uint ratio;   /* of RATIO_ONE */
    atomic_size_t limit; /* bytes of a batch on the wire; SIZE_MAX: not known */
    int64_t learned_ms;  /* when it changed last */
    int64_t wait_ms;     /* until it grows */
    bool grown;          /* the last change was a growth */
};

void batch_limits_init(struct batch_limits *limits);

/* A batch whose records took `raw` bytes takes `compressed`. */
void batch_limits_observed(struct batch_limits *limits, size_t raw, size_t compressed);

/* Bytes of records that are expected to become `size` bytes. */
size_t batch_limits_raw(const struct batch_limits *limits, size_t size);

/*
 * MESSAGE_TOO_LARGE for a batch of `size` bytes that took `raw` before. Returns the size that is to
 * be tried: half, but batch.size as long as that is less than it.
 */
size_t batch_limits_refused(struct batch_limits *limits, size_t size, size_t raw, size_t batch_size,
                            int64_t now_ms);

/* A batch of `size` bytes was taken. `most`: from there on a limit limits nothing. */
void batch_limits_taken(struct batch_limits *limits, size_t size, size_t most, int64_t now_ms);

static inline size_t batch_limits_wire(const struct batch_limits *limits)
{
    return atomic_load_explicit(&limits->limit, memory_order_relaxed);
}

#endif
