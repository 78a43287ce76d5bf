/*
 * test_world.h - the world that a test of the client lives in, and running a loop in it.
 *
 * It is the simulated one, so that seconds pass in no time and a test is the same every time; with
 * CAFKA_TEST_WORLD=real in the environment the same tests run on real sockets and a real clock, and
 * CAFKA_TEST_SEED is another simulated world.
 */
#ifndef CAFKA_TESTS_TEST_WORLD_H
#define CAFKA_TESTS_TEST_WORLD_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "net/loop.h"
#include "sim/sim.h"

struct test_world {
    const cafka_env *env;
    struct sim *sim; /* NULL: the real world */
};

static inline void test_world_open(struct test_world *world)
{
    const char *wish = getenv("CAFKA_TEST_WORLD"), *seed = getenv("CAFKA_TEST_SEED");
    cafka_error err = {0};
    world->sim = NULL;
    world->env = cafka_env_real();
    if (wish && !strcmp(wish, "real"))
        return;
    if (sim_new(&world->sim, seed ? strtoull(seed, NULL, 10) : 1, &err))
        abort();
    world->env = sim_env(world->sim);
}

static inline void test_world_close(struct test_world *world)
{
    sim_free(world->sim);
}

/* An external loop, turn by turn, until the condition holds; false: it did not in time. */
static inline bool test_run_until(struct loop *loop, bool (*condition)(void *arg), void *arg,
                                  int64_t timeout_ms)
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
