/*
 * backoff.h - how long to wait before the next attempt: doubled each time, with jitter (KIP-580).
 *
 * min(max, first × 2^attempt) × a random factor from 0.8 to 1.2, never above max. If max is not
 * above first, it is first, always. Any setting is taken: more than a century counts as one. One
 * call a wait: the result is kept by the caller, not drawn again each time somebody asks.
 */
#ifndef CAFKA_CONN_BACKOFF_H
#define CAFKA_CONN_BACKOFF_H

#include <stdint.h>

#include "env/env.h"

struct backoff {
    int64_t first_ms, max_ms;
    unsigned attempts; /* failures in a row */
};

/* The wait before the attempt that follows `attempts` failures; 0 failures: first_ms. Draws once. */
int64_t backoff_after(const cafka_env *env, int64_t first_ms, int64_t max_ms, unsigned attempts);

/* Count a failure and say how long to wait. */
int64_t backoff_next(struct backoff *backoff, const cafka_env *env);

static inline void backoff_reset(struct backoff *backoff)
{
    backoff->attempts = 0;
}

#endif
