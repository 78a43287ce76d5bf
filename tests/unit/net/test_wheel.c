/*
 * test_wheel.c - timers fire in order, never early, each once, however far or many they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "net/wheel.h"
#include "util/alloc.h"
#include "util/rng.h"

static struct {
    struct wheel *wheel;
    int64_t now_ms;
    int64_t last_deadline_ms;
    size_t fired;
    int out_of_order, early;
} seen;

static void note(struct timer *timer)
{
    seen.fired++;
    seen.early += timer->deadline_ms > seen.now_ms;
    seen.out_of_order += timer->deadline_ms < seen.last_deadline_ms;
    seen.last_deadline_ms = timer->deadline_ms;
}

static int make_wheel(void **state)
{
    struct wheel *w = mem_alloc(sizeof *w);
    wheel_init(w, 1000);
    seen.wheel = w;
    seen.now_ms = 1000;
    seen.last_deadline_ms = INT64_MIN;
    seen.fired = 0;
    seen.out_of_order = seen.early = 0;
    *state = w;
    return 0;
}

static int free_wheel(void **state)
{
    mem_free(*state);
    return 0;
}

static void advance(struct wheel *w, int64_t to_ms)
{
    seen.now_ms = to_ms;
    wheel_advance(w, to_ms);
}

static void timer_fires_at_its_deadline_and_not_before(void **state)
{
    struct wheel *w = *state;
    static const int64_t delays[] = {1,
                                     2,
                                     63,
                                     64,
                                     65,
                                     127,
                                     4095,
                                     4096,
                                     4097,
                                     70000,
                                     262143,
                                     262144,
                                     1 << 24,
                                     (1 << 24) + 1,
                                     INT64_C(1) << 31,
                                     INT64_C(1) << 40,
                                     (INT64_C(1) << 47) + 12345};
    for (size_t i = 0; i < sizeof delays / sizeof *delays; i++) {
        struct timer timer = {.fire = note};
        int64_t deadline = seen.now_ms + delays[i];
        wheel_set(w, &timer, deadline);
        assert_int_equal(wheel_next_ms(w), deadline);
        size_t before = seen.fired;
        advance(w, deadline - 1);
        assert_int_equal(seen.fired, before);
        advance(w, deadline);
        assert_int_equal(seen.fired, before + 1);
        assert_false(timer_is_set(&timer));
        assert_int_equal(wheel_next_ms(w), INT64_MAX);
    }
}

static void deadline_in_the_past_fires_in_the_next_advance(void **state)
{
    struct wheel *w = *state;
    struct timer timer = {.fire = note};
    wheel_set(w, &timer, 5);
    assert_true(wheel_next_ms(w) <= seen.now_ms);
    advance(w, seen.now_ms);
    assert_int_equal(seen.fired, 1);
}

static void far_deadlines_never_fire_and_never_overflow(void **state)
{
    struct wheel *w = *state;
    struct timer never = {.fire = note}, nearly = {.fire = note};
    wheel_set(w, &never, INT64_MAX);
    wheel_set(w, &nearly, INT64_MAX - 1);
    assert_int_equal(wheel_next_ms(w), INT64_MAX - 1);
    advance(w, INT64_C(1) << 52); /* beyond the wheel's horizon: they are placed anew */
    assert_int_equal(seen.fired, 0);
    wheel_cancel(w, &never);
    wheel_cancel(w, &nearly);
    assert_int_equal(w->count, 0);
    assert_int_equal(wheel_next_ms(w), INT64_MAX);
}

static void cancelled_timer_does_not_fire(void **state)
{
    struct wheel *w = *state;
    struct timer timer = {.fire = note};
    wheel_cancel(w, &timer); /* not set: nothing */
    wheel_set(w, &timer, seen.now_ms + 100);
    wheel_cancel(w, &timer);
    assert_int_equal(wheel_next_ms(w), INT64_MAX);
    advance(w, seen.now_ms + 1000);
    assert_int_equal(seen.fired, 0);
}

static void setting_again_moves_a_timer(void **state)
{
    struct wheel *w = *state;
    struct timer timer = {.fire = note};
    wheel_set(w, &timer, seen.now_ms + 5000);
    wheel_set(w, &timer, seen.now_ms + 50);
    assert_int_equal(w->count, 1);
    advance(w, seen.now_ms + 50);
    assert_int_equal(seen.fired, 1);
    advance(w, seen.now_ms + 10000);
    assert_int_equal(seen.fired, 1);
}

static void set_again_at_once(struct timer *timer)
{
    note(timer);
    wheel_set(seen.wheel, timer, timer->deadline_ms);
}

static void timer_that_sets_itself_due_again_waits_for_the_next_advance(void **state)
{
    struct wheel *w = *state;
    struct timer timer = {.fire = set_again_at_once};
    wheel_set(w, &timer, seen.now_ms + 10);
    advance(w, seen.now_ms + 100);
    assert_int_equal(seen.fired, 1);
    advance(w, seen.now_ms);
    assert_int_equal(seen.fired, 2);
}

static struct timer *victim;

static void cancel_victim(struct timer *timer)
{
    note(timer);
    wheel_cancel(seen.wheel, victim);
}

static void firing_timer_may_cancel_one_that_is_due_too(void **state)
{
    struct wheel *w = *state;
    struct timer first = {.fire = cancel_victim}, same = {.fire = note}, later = {.fire = note};
    wheel_set(w, &first, seen.now_ms + 10);
    wheel_set(w, &same, seen.now_ms + 10);
    victim = &same;
    advance(w, seen.now_ms + 10);
    assert_int_equal(seen.fired, 1);

    wheel_set(w, &first, seen.now_ms + 10);
    wheel_set(w, &later, seen.now_ms + 500);
    victim = &later;
    advance(w, seen.now_ms + 1000);
    assert_int_equal(seen.fired, 2);
    assert_int_equal(w->count, 0);
}

/* What wheel_next_ms() says is what a list sorted by deadline would say, whatever is done. */
static void next_is_exact_without_cancels_and_never_late_with_them(void **state)
{
    struct wheel *w = *state;
    enum { COUNT = 200 };
    static struct timer timers[COUNT];
    struct rng rng;
    rng_seed(&rng, 7);
    for (int step = 0; step < 20000; step++) {
        struct timer *timer = &timers[rng_below(&rng, COUNT)];
        timer->fire = note;
        int64_t delay = (int64_t)(rng_next(&rng) >> (20 + rng_below(&rng, 44)));
        if (rng_below(&rng, 4))
            wheel_set(w, timer, seen.now_ms + delay);
        else
            wheel_cancel(w, timer);
        int64_t soonest = INT64_MAX;
        size_t set = 0;
        for (int i = 0; i < COUNT; i++)
            if (timer_is_set(&timers[i])) {
                set++;
                if (timers[i].deadline_ms < soonest)
                    soonest = timers[i].deadline_ms;
            }
        assert_int_equal(w->count, set);
        assert_true(wheel_next_ms(w) <= soonest || soonest <= seen.now_ms);
        if (rng_below(&rng, 8) == 0) {
            seen.last_deadline_ms = INT64_MIN;
            int64_t to = seen.now_ms + (int64_t)(rng_next(&rng) >> (34 + rng_below(&rng, 30)));
            advance(w, to);
            for (int i = 0; i < COUNT; i++)
                assert_false(timer_is_set(&timers[i]) && timers[i].deadline_ms <= to);
            /* A wake-up at the next time makes progress: it fires, or it sorts once. */
            int64_t next = wheel_next_ms(w);
            if (next != INT64_MAX) {
                advance(w, next);
                assert_true(wheel_next_ms(w) > next);
            }
        }
    }
    assert_int_equal(seen.early, 0);
    for (int i = 0; i < COUNT; i++)
        wheel_cancel(w, &timers[i]);
}

static void million_timers_are_set_cancelled_and_fired_in_order(void **state)
{
    struct wheel *w = *state;
    enum { COUNT = 1000000 };
    struct timer *timers = mem_calloc(COUNT, sizeof *timers);
    assert_non_null(timers);
    struct rng rng;
    rng_seed(&rng, 42);
    for (size_t i = 0; i < COUNT; i++) {
        timers[i].fire = note;
        wheel_set(w, &timers[i], seen.now_ms + 1 + (int64_t)rng_below(&rng, 10 * 60 * 1000));
    }
    assert_int_equal(w->count, COUNT);
    for (size_t i = 0; i < COUNT; i += 3)
        wheel_cancel(w, &timers[i]);
    size_t left = w->count;
    assert_int_equal(left, COUNT - (COUNT + 2) / 3);
    size_t steps = 0;
    for (int64_t next; (next = wheel_next_ms(w)) != INT64_MAX; steps++)
        advance(w, next);
    assert_int_equal(seen.fired, left);
    assert_int_equal(seen.early, 0);
    assert_int_equal(seen.out_of_order, 0);
    assert_true(steps <= 10 * 60 * 1000 + 100);
    mem_free(timers);
}

int main(void)
{
#define WITH_WHEEL(test) cmocka_unit_test_setup_teardown(test, make_wheel, free_wheel)
    const struct CMUnitTest tests[] = {
        WITH_WHEEL(timer_fires_at_its_deadline_and_not_before),
        WITH_WHEEL(deadline_in_the_past_fires_in_the_next_advance),
        WITH_WHEEL(far_deadlines_never_fire_and_never_overflow),
        WITH_WHEEL(cancelled_timer_does_not_fire),
        WITH_WHEEL(setting_again_moves_a_timer),
        WITH_WHEEL(timer_that_sets_itself_due_again_waits_for_the_next_advance),
        WITH_WHEEL(firing_timer_may_cancel_one_that_is_due_too),
        WITH_WHEEL(next_is_exact_without_cancels_and_never_late_with_them),
        WITH_WHEEL(million_timers_are_set_cancelled_and_fired_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
