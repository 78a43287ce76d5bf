/*
 * test_batch_limits.c - how large batches become: what a topic takes is learned, and forgotten again;
 * what compresses well is filled further.
 */
#include "producer_fixture.h"

#include "producer/batch_limits.h"
#include "producer/room.h"
#include "util/rng.h"

enum { BATCH_SIZE = 16384, MOST = 1000000 };

/* --- the numbers alone --- */

static void a_ratio_worsens_at_once_and_improves_slowly(void **state)
{
    (void)state;
    struct batch_limits l;
    batch_limits_init(&l);
    assert_int_equal(batch_limits_raw(&l, 1000), 1000);
    for (int i = 0; i < 100; i++)
        batch_limits_observed(&l, 10000, 2500);
    assert_in_range(atomic_load(&l.ratio), 4900, 5100); /* 1.0 - 100 × 0.005 */
    for (int i = 0; i < 100; i++)
        batch_limits_observed(&l, 10000, 2500);
    assert_int_equal(atomic_load(&l.ratio), 2500); /* and not below what was seen */
    assert_int_equal(batch_limits_raw(&l, 1000), 4000);
    batch_limits_observed(&l, 10000, 2600);
    assert_int_equal(atomic_load(&l.ratio), 3000); /* + 0.05 at least */
    batch_limits_observed(&l, 10000, 9000);
    assert_int_equal(atomic_load(&l.ratio), 9000); /* or what was seen */
}

static void a_ratio_of_nothing_or_of_much_is_bounded(void **state)
{
    (void)state;
    struct batch_limits l;
    batch_limits_init(&l);
    batch_limits_observed(&l, 0, 0);
    batch_limits_observed(&l, 1, SIZE_MAX / 4);
    assert_int_equal(atomic_load(&l.ratio), 2 * RATIO_ONE);
    for (int i = 0; i < 1000; i++)
        batch_limits_observed(&l, SIZE_MAX / 4, 1);
    assert_true(batch_limits_raw(&l, 1) >= 1);
    assert_true(batch_limits_raw(&l, SIZE_MAX) <= INT32_MAX);
}

static void refusals_halve_the_limit_with_a_rest_at_batch_size(void **state)
{
    (void)state;
    struct batch_limits l;
    batch_limits_init(&l);
    assert_int_equal(batch_limits_refused(&l, 60000, 60000, BATCH_SIZE, 0), 30000);
    assert_int_equal(batch_limits_refused(&l, 30000, 30000, BATCH_SIZE, 0), BATCH_SIZE);
    assert_int_equal(batch_limits_refused(&l, BATCH_SIZE, BATCH_SIZE, BATCH_SIZE, 0), 8192);
    assert_int_equal(batch_limits_refused(&l, 60000, 60000, BATCH_SIZE, 0), 30000); /* an older one */
    assert_int_equal(batch_limits_wire(&l), 8192);
}

/* And the estimate is what the refused batch was, but not that it shrinks. */
static void a_refusal_corrects_the_ratio(void **state)
{
    (void)state;
    struct batch_limits l;
    batch_limits_init(&l);
    for (int i = 0; i < 200; i++)
        batch_limits_observed(&l, 10000, 2000);
    (void)batch_limits_refused(&l, 30000, 60000, BATCH_SIZE, 0);
    assert_int_equal(atomic_load(&l.ratio), RATIO_ONE);
    (void)batch_limits_refused(&l, 30000, 20000, BATCH_SIZE, 0);
    assert_int_equal(atomic_load(&l.ratio), 15000);
}

static void a_limit_that_is_reached_grows_after_a_while_and_later_each_time_it_was_wrong(void **state)
{
    (void)state;
    struct batch_limits l;
    batch_limits_init(&l);
    int64_t now_ms = 1000;
    (void)batch_limits_refused(&l, 40000, 40000, 1000, now_ms);
    batch_limits_taken(&l, 20000, MOST, now_ms + LIMIT_WAIT_FIRST_MS - 1);
    batch_limits_taken(&l, 10000, MOST, now_ms + LIMIT_WAIT_FIRST_MS); /* not near it */
    assert_int_equal(batch_limits_wire(&l), 20000);
    for (int64_t wait_ms = LIMIT_WAIT_FIRST_MS; wait_ms < 100 * LIMIT_WAIT_MAX_MS; wait_ms *= 2) {
        int64_t expected_ms = wait_ms < LIMIT_WAIT_MAX_MS ? wait_ms : LIMIT_WAIT_MAX_MS;
        batch_limits_taken(&l, 15000, MOST, now_ms + expected_ms - 1);
        assert_int_equal(batch_limits_wire(&l), 20000);
        batch_limits_taken(&l, 15000, MOST, now_ms + expected_ms);
        assert_int_equal(batch_limits_wire(&l), 40000);
        now_ms += expected_ms;
        (void)batch_limits_refused(&l, 40000, 40000, 1000, now_ms); /* it still takes no more */
        assert_int_equal(batch_limits_wire(&l), 20000);
    }
}

static void a_limit_that_limits_nothing_is_forgotten(void **state)
{
    (void)state;
    struct batch_limits l;
    batch_limits_init(&l);
    (void)batch_limits_refused(&l, 900000, 900000, BATCH_SIZE, 0);
    batch_limits_taken(&l, 440000, MOST, LIMIT_WAIT_FIRST_MS);
    assert_int_equal(batch_limits_wire(&l), 900000);
    batch_limits_taken(&l, 880000, MOST, 2 * LIMIT_WAIT_FIRST_MS);
    assert_true(batch_limits_wire(&l) == SIZE_MAX);
}

/* --- a producer, under virtual time --- */

static int setup(void **state)
{
    *state = open_world(1, 1);
    return 0;
}

static int teardown(void **state)
{
    close_world(*state);
    return 0;
}

static int largest_batch(struct producer_fixture *f, int records)
{
    int batches = f->logs[0].batches;
    send_records(f, records);
    flush(f);
    batches = f->logs[0].batches - batches;
    return records / batches;
}

/* The topic is given a larger max.message.bytes while we produce to it. */
static void batches_grow_again_when_the_topic_takes_more(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "50");
    set(f, "metadata.max.idle.ms", "3600000");
    f->max_message_bytes = 4000;
    start(f);
    send_records(f, 600);
    flush(f);
    assert_in_range(largest_batch(f, 600), 10, 40);
    f->max_message_bytes = 0;
    assert_in_range(largest_batch(f, 600), 10, 40); /* who would know? */
    for (int i = 0; i < 8; i++) {
        sim_advance_ms(f->sim, LIMIT_WAIT_FIRST_MS + 1000);
        send_records(f, 600);
        flush(f);
    }
    assert_in_range(largest_batch(f, 1200), 200, 1200);
    assert_log_is(f, 0, f->next);
    assert_each_reported_once(f);
    assert_int_equal(f->failed, 0);
}

static void send_compressible(struct producer_fixture *f, int batches)
{
    for (int i = 0; i < batches; i++) {
        send_sized(f, 30, 500);
        flush(f);
    }
}

/* batch.size is of what is sent: of records that compress well it takes more to fill one. */
static void a_batch_that_compresses_well_takes_more_records(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "2000");
    set(f, "batch.size", "4000");
    set(f, "compression.type", "gzip");
    start(f);
    send_sized(f, 12, 500); /* 6000 bytes, of which nothing is known: one batch may leave */
    sim_advance_ms(f->sim, 500);
    assert_int_equal(f->produced, 1);
    send_compressible(f, 200);
    int before = f->produced;
    send_sized(f, 12, 500);
    sim_advance_ms(f->sim, 500);
    assert_int_equal(f->produced, before); /* far from 4000 bytes now, so linger.ms counts */
    sim_advance_ms(f->sim, 2000);
    assert_int_equal(f->produced, before + 1);
    send_sized(f, 70, 500);
    sim_advance_ms(f->sim, 500);
    assert_int_equal(f->produced, before + 2); /* but no more than eight times batch.size */
    flush(f);
    assert_log_is(f, 0, f->next);
}

/* What was expected to compress does not, and the topic refuses the batch: nobody notices. */
static void records_that_stop_compressing_are_split_and_arrive(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "100");
    set(f, "batch.size", "4000");
    set(f, "compression.type", "gzip");
    f->max_message_bytes = 6000;
    start(f);
    send_compressible(f, 200);
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 60; i++) {
        uint8_t value[500];
        cafka_error err;
        store_be32(value, (uint32_t)f->next);
        for (size_t k = 4; k < sizeof value; k++)
            value[k] = (uint8_t)rng_next(&rng);
        cafka_record record = {.topic = "orders",
                               .value = value,
                               .value_size = sizeof value,
                               .opaque = (void *)(intptr_t)f->next++};
        assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_OK);
    }
    flush(f);
    assert_log_is(f, 0, f->next);
    assert_each_reported_once(f);
    assert_int_equal(f->failed, 0);
    assert_true(batch_limits_wire(&topics_find(&f->producer->topics, "orders")->limits) < SIZE_MAX);
}

int main(void)
{
#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ratio_worsens_at_once_and_improves_slowly),
        cmocka_unit_test(a_ratio_of_nothing_or_of_much_is_bounded),
        cmocka_unit_test(refusals_halve_the_limit_with_a_rest_at_batch_size),
        cmocka_unit_test(a_refusal_corrects_the_ratio),
        cmocka_unit_test(
            a_limit_that_is_reached_grows_after_a_while_and_later_each_time_it_was_wrong),
        cmocka_unit_test(a_limit_that_limits_nothing_is_forgotten),
        IN_A_WORLD(batches_grow_again_when_the_topic_takes_more),
        IN_A_WORLD(a_batch_that_compresses_well_takes_more_records),
        IN_A_WORLD(records_that_stop_compressing_are_split_and_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
