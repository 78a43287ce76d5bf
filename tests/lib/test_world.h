/*
 * test_world.h - the world that a test of the client lives in, and running a loop in it.
 */
#ifndef CAFKA_TESTS_TEST_WORLD_H
#define CAFKA_TESTS_TEST_WORLD_H

#include <stdbool.h>

#include "net/loop.h"

struct test_world {
    const cafka_env *env;
};

static inline void test_world_open(struct test_world *world)
{
    world->env = cafka_env_real();
}

static inline void test_world_close(struct test_world *world)
{
    (void)world;
}

/* An external loop, turn by turn, until the condition holds; false: it did not in time. */
static inline bool test_run_until(struct loop *loop, bool (*condition)(void *arg), void *arg, int64_t timeout_ms)
{
    const cafka_env *env = loop_env(loop);
    int64_t end_ms = env_now_ms(env) + timeout_ms;
    while (!condition(arg)) {
        int64_t left_ms = end_ms - env_now_ms(env);
        if (left_ms <= 0 || loop_run(loop, left_ms, NULL))
            return false;
    }
    return true;
}

static inline bool test_never(void *arg)
{
    (void)arg;
    return false;
}

/* For this long; 0: one turn. */
static inline void test_run_ms(struct loop *loop, int64_t ms)
{
    if (ms <= 0)
        (void)loop_run(loop, 0, NULL);
    else
        (void)test_run_until(loop, test_never, NULL, ms);
}

#endif
