/*
 * rng.h - a small seeded generator (splitmix64 for seeding, xoshiro256** for drawing).
 *
 * Not for secrets. A component draws from a stream of its own (rng_fork), so that a new draw in
 * one place does not shift the draws of the others.
 */
#ifndef CAFKA_UTIL_RNG_H
#define CAFKA_UTIL_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_seed(struct rng *r, uint64_t seed);
void rng_fork(struct rng *child, struct rng *parent);
uint64_t rng_next(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t bound);             /* 0 … bound-1; bound > 0 */
int64_t rng_between(struct rng *r, int64_t low, int64_t high); /* both ends included */
double rng_unit(struct rng *r);                                /* [0, 1) */
void rng_fill(struct rng *r, void *out, size_t size);

#endif
