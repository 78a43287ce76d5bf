/*
 * test_memory_pool.c - buffer.memory is a hard bound, reuses its blocks, and is fair to who waits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/memory_pool.h"
#include "util/alloc.h"

enum { CAPACITY = 1024, BLOCKS = 4 };

static int64_t now_s;

static int64_t tell_time(const cafka_env *env)
{
    (void)env;
    return now_s * 1000000000;
}

static int setup(void **state)
{
    static struct memory_pool pool;
    static cafka_env env;
    *state = &pool;
    now_s = 1000;
    env = *cafka_env_real();
    env.now = tell_time;
    return memory_pool_init(&pool, &env, BLOCKS * block_charge(CAPACITY), CAPACITY, NULL);
}

static int teardown(void **state)
{
    memory_pool_fini(*state);
    return 0;
}

static void join(struct memory_pool *pool, struct pool_waiter *waiter, size_t capacity)
{
    assert_int_equal(memory_pool_join(pool, waiter, capacity, NULL), CAFKA_OK);
}

static int was_served(struct memory_pool *pool, const struct pool_waiter *waiter)
{
    return pool->env->event_wait(pool->env, waiter->event, 0);
}

static struct block *take(struct memory_pool *pool, size_t capacity)
{
    struct block *block = NULL;
    assert_int_equal(memory_pool_try(pool, capacity, &block), CAFKA_OK);
    return block;
}

static void gives_no_more_than_the_budget(void **state)
{
    struct memory_pool *pool = *state;
    struct block *blocks[BLOCKS], *more;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool, 100);
    assert_int_equal(memory_pool_used(pool), BLOCKS * block_charge(CAPACITY));
    assert_int_equal(memory_pool_try(pool, 1, &more), CAFKA_ERR_WOULD_BLOCK);
    for (int i = 0; i < BLOCKS; i++)
        memory_pool_release(pool, blocks[i]);
    assert_int_equal(memory_pool_used(pool), 0);
}

static void steady_work_allocates_nothing(void **state)
{
    struct memory_pool *pool = *state;
    memory_pool_release(pool, take(pool, CAPACITY));
    mem_fail_after(0, 0);
    for (int i = 0; i < 100; i++)
        memory_pool_release(pool, take(pool, CAPACITY));
    assert_int_equal(mem_count(), 0);
}

static struct block *take_all(struct memory_pool *pool)
{
    struct block *chain = NULL;
    for (int i = 0; i < BLOCKS; i++) {
        struct block *block = take(pool, CAPACITY);
        block->next = chain;
        chain = block;
    }
    return chain;
}

/* Of three that lie there half go, of the two left one, and the one in use stays. */
static void what_nobody_needs_for_long_is_given_back(void **state)
{
    struct memory_pool *pool = *state;
    memory_pool_release(pool, take_all(pool));
    static const int left[] = {4, 4, 2, 1, 1, 1};
    for (size_t i = 0; i < sizeof left / sizeof *left; i++, now_s += 11)
        for (int use = 0; use < 3; use++) {
            memory_pool_release(pool, take(pool, CAPACITY));
            assert_int_equal(pool->kept_bytes, left[i] * (int64_t)block_charge(CAPACITY));
        }
    assert_int_equal(memory_pool_used(pool), 0);
}

static void what_is_needed_now_and_then_stays(void **state)
{
    struct memory_pool *pool = *state;
    memory_pool_release(pool, take_all(pool));
    mem_fail_after(0, 0);
    for (int i = 0; i < 100; i++, now_s++)
        memory_pool_release(pool, i % 9 ? take(pool, CAPACITY) : take_all(pool));
    assert_int_equal(mem_count(), 0);
}

/* Blocks kept for reuse must not add to the budget when a block of another size is wanted. */
static void kept_blocks_make_way_for_a_large_one(void **state)
{
    struct memory_pool *pool = *state;
    memory_pool_release(pool, take_all(pool));
    assert_int_equal(pool->kept_bytes, BLOCKS * block_charge(CAPACITY));

    struct block *large = take(pool, 2 * CAPACITY);
    assert_true(large->capacity >= 2 * CAPACITY);
    assert_true(pool->kept_bytes + (int64_t)block_charge(large->capacity) <= (int64_t)pool->total);
    memory_pool_release(pool, large);
}

static void the_first_in_line_is_served_first(void **state)
{
    struct memory_pool *pool = *state;
    struct block *blocks[BLOCKS], *got;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool, CAPACITY);

    struct pool_waiter large, small;
    join(pool, &large, 2 * CAPACITY); /* needs what two blocks give */
    join(pool, &small, 10);
    assert_int_equal(pool->waiting, 2);

    memory_pool_release(pool, blocks[0]);
    assert_int_equal(was_served(pool, &large), 0); /* has one of two, and keeps it */
    assert_int_equal(was_served(pool, &small), 0);
    assert_int_equal(memory_pool_try(pool, 10, &got), CAFKA_ERR_WOULD_BLOCK); /* no overtaking */

    memory_pool_release(pool, blocks[1]);
    assert_int_equal(was_served(pool, &large), 1);
    assert_int_equal(memory_pool_leave(pool, &large, &got), CAFKA_OK);
    memory_pool_release(pool, got);

    assert_int_equal(was_served(pool, &small), 1);
    assert_int_equal(memory_pool_leave(pool, &small, &got), CAFKA_OK);
    memory_pool_release(pool, got);
    memory_pool_release(pool, blocks[2]);
    memory_pool_release(pool, blocks[3]);
    assert_int_equal(memory_pool_used(pool), 0);
}

static void who_gives_up_leaves_what_it_had_to_the_next(void **state)
{
    struct memory_pool *pool = *state;
    struct block *blocks[BLOCKS], *got;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool, CAPACITY);
    struct pool_waiter first, second;
    join(pool, &first, 2 * CAPACITY);
    join(pool, &second, CAPACITY);
    memory_pool_release(pool, blocks[0]);

    assert_int_equal(memory_pool_leave(pool, &first, &got), CAFKA_ERR_WOULD_BLOCK);
    assert_int_equal(was_served(pool, &second), 1);
    assert_int_equal(memory_pool_leave(pool, &second, &got), CAFKA_OK);
    memory_pool_release(pool, got);
    for (int i = 1; i < BLOCKS; i++)
        memory_pool_release(pool, blocks[i]);
    assert_int_equal(memory_pool_used(pool), 0);
}

static void close_wakes_all_who_wait(void **state)
{
    struct memory_pool *pool = *state;
    struct block *blocks[BLOCKS], *got;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool, CAPACITY);
    struct pool_waiter waiter, late;
    join(pool, &waiter, 10);
    memory_pool_close(pool);
    join(pool, &late, 10);
    assert_int_equal(was_served(pool, &waiter), 1);
    assert_int_equal(was_served(pool, &late), 1);
    assert_int_equal(memory_pool_leave(pool, &waiter, &got), CAFKA_ERR_WOULD_BLOCK);
    assert_int_equal(memory_pool_leave(pool, &late, &got), CAFKA_ERR_WOULD_BLOCK);
    for (int i = 0; i < BLOCKS; i++)
        memory_pool_release(pool, blocks[i]);
}

static void an_overdraft_is_paid_back_first(void **state)
{
    struct memory_pool *pool = *state;
    struct block *blocks[BLOCKS], *got;
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(pool, CAPACITY);
    struct block *extra = memory_pool_overdraw(pool, CAPACITY);
    assert_non_null(extra);
    memory_pool_release(pool, blocks[0]);
    assert_int_equal(memory_pool_try(pool, 10, &got), CAFKA_ERR_WOULD_BLOCK);
    memory_pool_release(pool, extra);
    memory_pool_release(pool, take(pool, 10));
    for (int i = 1; i < BLOCKS; i++)
        memory_pool_release(pool, blocks[i]);
    assert_int_equal(memory_pool_used(pool), 0);
}

static void without_memory_nothing_is_charged(void **state)
{
    struct memory_pool *pool = *state;
    struct block *got;
    mem_fail_after(1, 0);
    assert_int_equal(memory_pool_try(pool, 10, &got), CAFKA_ERR_MEMORY);
    mem_fail_after(0, 0);
    assert_int_equal(memory_pool_used(pool), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gives_no_more_than_the_budget, setup, teardown),
        cmocka_unit_test_setup_teardown(steady_work_allocates_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(what_nobody_needs_for_long_is_given_back, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_needed_now_and_then_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(kept_blocks_make_way_for_a_large_one, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_in_line_is_served_first, setup, teardown),
        cmocka_unit_test_setup_teardown(who_gives_up_leaves_what_it_had_to_the_next, setup, teardown),
        cmocka_unit_test_setup_teardown(close_wakes_all_who_wait, setup, teardown),
        cmocka_unit_test_setup_teardown(an_overdraft_is_paid_back_first, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_nothing_is_charged, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
