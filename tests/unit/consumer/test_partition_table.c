/*
 * test_partition_table.c - what is put is found until it is removed, whatever else comes and goes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "consumer/partition_table.h"
#include "util/alloc.h"
#include "util/rng.h"

enum { TOPICS = 3, NUMBERS = 40, STEPS = 20000 };

static const char *const names[TOPICS] = {"orders", "bills", "notes"};

static void it_agrees_with_a_plain_list(void **state)
{
    (void)state;
    static struct consumer_partition *there[TOPICS][NUMBERS];
    struct partition_table table = {0};
    struct rng rng;
    rng_seed(&rng, 7);
    for (int step = 0; step < STEPS; step++) {
        uint32_t t = (uint32_t)rng_below(&rng, TOPICS), n = (uint32_t)rng_below(&rng, NUMBERS);
        if (there[t][n]) {
            partition_table_remove(&table, there[t][n]);
            consumer_partition_unref(there[t][n]);
            there[t][n] = NULL;
        } else if (rng_below(&rng, 4) || step % 500 < 250) { /* it fills, and empties again */
            there[t][n] = consumer_partition_new(names[t], (int32_t)n);
            assert_true(partition_table_put(&table, there[t][n]));
        }
        size_t count = 0;
        for (t = 0; t < TOPICS; t++)
            for (n = 0; n < NUMBERS; n++) {
                count += there[t][n] != NULL;
                assert_ptr_equal(partition_table_get(&table, names[t], (int32_t)n), there[t][n]);
            }
        assert_int_equal(table.count, count);
    }
    for (int t = 0; t < TOPICS; t++)
        for (int n = 0; n < NUMBERS; n++) {
            consumer_partition_unref(there[t][n]);
            there[t][n] = NULL;
        }
    partition_table_fini(&table);
}

static void one_that_was_never_put_may_be_removed(void **state)
{
    (void)state;
    struct partition_table table = {0};
    struct consumer_partition *p = consumer_partition_new(names[0], 1);
    struct consumer_partition *other = consumer_partition_new(names[1], 1);
    partition_table_remove(&table, p);
    assert_true(partition_table_put(&table, p));
    partition_table_remove(&table, other);
    assert_ptr_equal(partition_table_get(&table, names[0], 1), p);
    assert_null(partition_table_get(&table, NULL, 1));
    partition_table_remove(&table, p);
    assert_null(partition_table_get(&table, names[0], 1));
    partition_table_fini(&table);
    consumer_partition_unref(p);
    consumer_partition_unref(other);
}

static void without_memory_nothing_is_put(void **state)
{
    (void)state;
    struct partition_table table = {0};
    struct consumer_partition *p = consumer_partition_new(names[0], 1);
    mem_fail_after(1, 0);
    bool put = partition_table_put(&table, p);
    mem_fail_after(0, 0);
    assert_false(put);
    assert_null(partition_table_get(&table, names[0], 1));
    assert_true(partition_table_put(&table, p));
    partition_table_fini(&table);
    consumer_partition_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_a_plain_list),
        cmocka_unit_test(one_that_was_never_put_may_be_removed),
        cmocka_unit_test(without_memory_nothing_is_put),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
