/*
 * compressors.h - compression.threads: workers that compress closed batches, instead of who closed them.
 *
 * A worker is a loop with a thread of its own, and a batch a task for it. The batch keeps its place
 * in its partition's queue, so that the order stays whatever worker is done first: a partition sends
 * only what stands at the front and is sealed. The worker that sealed a batch hands the partition
 * over to the sender, as an appender does.
 *
 * Once the producer is in a hurry to end (compressors_hurry()), batches that still wait are sealed as
 * they are: they fail anyway, and close has a deadline.
 *
 * Owner:  struct cafka_producer. Made with it, if compression.threads says so.
 * Thread: compressors_hurry() and accumulator_seal(), by which work comes, any.
 */
#ifndef CAFKA_PRODUCER_COMPRESSORS_H
#define CAFKA_PRODUCER_COMPRESSORS_H

#include <stdatomic.h>

#include "producer/accumulator.h"

struct compressors {
    struct loop **workers;
    unsigned count; /* 0: who closes a batch compresses it */
    atomic_uint turn;
    atomic_bool hurry;
};

/* Start the workers and have the accumulator give them its batches. With a codec of none: nothing. */
int compressors_init(struct compressors *c, struct accumulator *a, int threads, cafka_error *err);
void compressors_hurry(struct compressors *c);
/* Whatever is under way is sealed and handed over when this returns. Takes a zeroed one. */
void compressors_fini(struct compressors *c);

#endif
