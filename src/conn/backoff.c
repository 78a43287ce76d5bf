/*
 * backoff.c - see backoff.h.
 */
#include "conn/backoff.h"

enum { JITTER_PERCENT = 20 };

static int64_t doubled(int64_t first_ms, int64_t max_ms, unsigned attempts)
{
    int64_t wait_ms = first_ms;
    while (attempts-- && wait_ms < max_ms)
        wait_ms *= 2; /* first and max are settings far below 2^62 */
    return wait_ms < max_ms ? wait_ms : max_ms;
}

int64_t backoff_after(const cafka_env *env, int64_t first_ms, int64_t max_ms, unsigned attempts)
{
    if (max_ms <= first_ms)
        return first_ms;
    int64_t wait_ms = doubled(first_ms, max_ms, attempts);
    double unit = (double)(env->random(env) >> 11) / 9007199254740992.0; /* [0, 1) of 53 bits */
    double factor = 1.0 + (2 * unit - 1.0) * JITTER_PERCENT / 100.0;
    wait_ms = (int64_t)((double)wait_ms * factor);
    return wait_ms < max_ms ? wait_ms : max_ms;
}

int64_t backoff_next(struct backoff *backoff, const cafka_env *env)
{
    int64_t wait_ms = backoff_after(env, backoff->first_ms, backoff->max_ms, backoff->attempts);
    if (backoff->attempts < 62)
        backoff->attempts++;
    return wait_ms;
}
