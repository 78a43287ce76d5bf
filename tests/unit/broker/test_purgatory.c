/*
 * test_purgatory.c - operations that wait: tried, woken by keys, timed out, cancelled; virtual time.
 */
#include "mockbroker/purgatory/purgatory.h"
#include "tests/unit/broker/broker_fixture.h"
#include "util/alloc.h"

struct fixture {
    struct test_world world;
    struct loop *loop;
    struct deferred_queue queue;
    struct purgatory *purgatory;
};

struct wait {
    struct delayed op;
    bool ready;
    int tries, completions;
    bool expired;
    struct wait *cancel_on_complete;
};

static bool try_wait(struct delayed *op)
{
    struct wait *w = container_of(op, struct wait, op);
    w->tries++;
    return w->ready;
}

static void complete_wait(struct delayed *op, bool expired)
{
    struct wait *w = container_of(op, struct wait, op);
    w->completions++;
    w->expired = expired;
    if (w->cancel_on_complete)
        purgatory_cancel(&w->cancel_on_complete->op);
}

static struct wait new_wait(void)
{
    return (struct wait){.op = {.try = try_wait, .complete = complete_wait}};
}

static struct purgatory_key key_of(int32_t index)
{
    return purgatory_partition_key(PURGATORY_FETCH, (struct uuid){{7}}, index);
}

static void add(struct fixture *f, struct wait *w, int64_t timeout_ms, int32_t first, int32_t count)
{
    struct purgatory_key keys[8];
    for (int32_t i = 0; i < count; i++)
        keys[i] = key_of(first + i);
    assert_int_equal(purgatory_add(f->purgatory, &w->op, timeout_ms, keys, (size_t)count, NULL), 0);
}

static void check(struct fixture *f, int32_t index)
{
    struct purgatory_key key = key_of(index);
    purgatory_check(f->purgatory, &key);
}

static int open_fixture(void **state)
{
    struct fixture *f = mem_zalloc(sizeof *f);
    test_world_open(&f->world);
    assert_int_equal(loop_new(&f->loop, f->world.env, LOOP_EXTERNAL, NULL), 0);
    deferred_init(&f->queue, f->loop);
    assert_int_equal(purgatory_new(&f->purgatory, f->loop, &f->queue, NULL), 0);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;
    purgatory_free(f->purgatory);
    deferred_fini(&f->queue);
    loop_unref(f->loop);
    test_world_close(&f->world);
    mem_free(f);
    return 0;
}

static void what_is_ready_completes_after_the_current_work(void **state)
{
    struct fixture *f = *state;
    struct wait w = new_wait();
    w.ready = true;
    add(f, &w, 1000, 0, 1);
    assert_int_equal(w.completions, 0); /* never inside the call that adds it */

    deferred_run(&f->queue);
    assert_int_equal(w.completions, 1);
    assert_false(w.expired);
    assert_int_equal(purgatory_count(f->purgatory), 0);
}

static void it_is_tried_again_after_it_is_watched(void **state)
{
    struct fixture *f = *state;
    struct wait w = new_wait();
    add(f, &w, 1000, 0, 1);
    assert_int_equal(w.tries, 2); /* something may have happened between */
    purgatory_cancel(&w.op);
}

static void an_event_on_any_of_its_keys_completes_it_once(void **state)
{
    struct fixture *f = *state;
    struct wait w = new_wait();
    add(f, &w, 1000, 0, 3);
    check(f, 1);
    assert_int_equal(w.completions, 0);

    w.ready = true;
    check(f, 5); /* not its key */
    deferred_run(&f->queue);
    assert_int_equal(w.completions, 0);

    check(f, 2);
    check(f, 0);
    deferred_run(&f->queue);
    test_run_ms(f->loop, 2000);
    assert_int_equal(w.completions, 1);
    assert_false(w.expired);
}

static void the_timer_completes_what_nothing_else_does(void **state)
{
    struct fixture *f = *state;
    struct wait w = new_wait();
    add(f, &w, 500, 0, 2);
    test_run_ms(f->loop, 490);
    assert_int_equal(w.completions, 0);
    test_run_ms(f->loop, 20);
    assert_int_equal(w.completions, 1);
    assert_true(w.expired);

    w.ready = true;
    check(f, 0);
    deferred_run(&f->queue);
    assert_int_equal(w.completions, 1);
}

static void no_time_to_wait_is_one_try_and_the_end(void **state)
{
    struct fixture *f = *state;
    struct wait w = new_wait();
    add(f, &w, 0, 0, 1);
    deferred_run(&f->queue);
    assert_int_equal(w.tries, 1);
    assert_int_equal(w.completions, 1);
    assert_true(w.expired);
}

static void what_is_cancelled_never_completes(void **state)
{
    struct fixture *f = *state;
    struct wait w = new_wait(), completing = new_wait();
    add(f, &w, 500, 0, 1);
    purgatory_cancel(&w.op);
    completing.ready = true;
    add(f, &completing, 500, 0, 1); /* is to complete, and is taken back before it does */
    purgatory_cancel(&completing.op);
    purgatory_cancel(&completing.op);

    w.ready = true;
    check(f, 0);
    test_run_ms(f->loop, 1000);
    assert_int_equal(w.completions, 0);
    assert_int_equal(completing.completions, 0);
    assert_int_equal(purgatory_count(f->purgatory), 0);
}

static void a_completion_may_take_others_out(void **state)
{
    struct fixture *f = *state;
    struct wait first = new_wait(), second = new_wait();
    first.cancel_on_complete = &second;
    add(f, &first, 500, 0, 1);
    add(f, &second, 500, 0, 1);
    first.ready = second.ready = true;
    check(f, 0);
    deferred_run(&f->queue);
    assert_int_equal(first.completions, 1);
    assert_int_equal(second.completions, 0);
}

static void all_watchers_of_a_key_are_tried(void **state)
{
    enum { MANY = 3000 };
    struct fixture *f = *state;
    struct wait *waits = mem_calloc(MANY, sizeof *waits);
    for (int i = 0; i < MANY; i++) {
        waits[i] = new_wait();
        add(f, &waits[i], 60000, i, 3); /* more keys than lists are kept for */
    }
    for (int i = 0; i < MANY; i++)
        waits[i].ready = i % 2;
    for (int i = 0; i < MANY + 3; i++)
        check(f, i);
    deferred_run(&f->queue);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(waits[i].completions, i % 2);
    assert_int_equal(purgatory_count(f->purgatory), MANY / 2);
    for (int i = 0; i < MANY; i += 2)
        purgatory_cancel(&waits[i].op);
    mem_free(waits);
}

static void without_memory_it_is_in_no_list(void **state)
{
    struct fixture *f = *state;
    struct wait w = new_wait();
    struct purgatory_key keys[] = {key_of(100), key_of(101), key_of(102)};
    for (unsigned long k = 1; k < 50; k++) {
        mem_fail_after(k, 1);
        int rc = purgatory_add(f->purgatory, &w.op, 500, keys, 3, NULL);
        mem_fail_after(0, 0);
        if (!rc)
            break;
        assert_int_equal(rc, CAFKA_ERR_MEMORY);
        assert_int_equal(purgatory_count(f->purgatory), 0);
    }
    assert_int_equal(purgatory_count(f->purgatory), 1);
    purgatory_cancel(&w.op);
}

static void completions_run_by_themselves_in_the_next_turn(void **state)
{
    struct fixture *f = *state;
    struct wait w = new_wait();
    add(f, &w, 60000, 0, 1);
    w.ready = true;
    check(f, 0);
    test_run_ms(f->loop, 0);
    assert_int_equal(w.completions, 1);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(what_is_ready_completes_after_the_current_work),
        TEST(it_is_tried_again_after_it_is_watched),
        TEST(an_event_on_any_of_its_keys_completes_it_once),
        TEST(the_timer_completes_what_nothing_else_does),
        TEST(no_time_to_wait_is_one_try_and_the_end),
        TEST(what_is_cancelled_never_completes),
        TEST(a_completion_may_take_others_out),
        TEST(all_watchers_of_a_key_are_tried),
        TEST(without_memory_it_is_in_no_list),
        TEST(completions_run_by_themselves_in_the_next_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
