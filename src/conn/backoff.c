/*
 * backoff.c - see backoff.h.
 */
#include "conn/backoff.h"

enum { JITTER_PERCENT = 20 };
#define BACKOFF_LIMIT_MS (INT64_C(1) << 42) /* for ever, and ns still fit in 64 bits */

static int64_t doubled(int64_t first_ms, int64_t max_ms, unsigned attempts)
{
    if (attempts >= 62 || first_ms > max_ms >> attempts)
        return max_ms;
    return first_ms << attempts;
}

int64_t backoff_after(const cafka_env *env, int64_t first_ms, int64_t max_ms, unsigned attempts)
{
    first_ms = first_ms < BACKOFF_LIMIT_MS ? first_ms : BACKOFF_LIMIT_MS;
    max_ms = max_ms < BACKOFF_LIMIT_MS ? max_ms : BACKOFF_LIMIT_MS;
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
