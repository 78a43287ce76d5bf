/*
 * test_allocations.c - steady work allocates nothing: at most one allocation in 10 000 records.
 *
 * The broker runs in a process of its own, so that what is counted is the client's. Buffers are
 * small: even if one filled up to its limit for the first time while we count, that would be within
 * the budget, and the test does not depend on which side is faster.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cafka.h>
#include <cafka/mock.h>

#include "broker_process.h"
#include "util/alloc.h"

enum { WARM = 200000, COUNTED = 1000000, BUDGET = COUNTED / 10000, VALUE_SIZE = 20 };

static cafka_config *config_with(const char *name, const char *value)
{
    cafka_config *config;
    assert_int_equal(cafka_config_new(&config, NULL), 0);
    assert_int_equal(cafka_config_set(config, "bootstrap.servers", bootstrap, NULL), 0);
    assert_int_equal(cafka_config_set(config, name, value, NULL), 0);
    return config;
}

static void assert_within_budget(const char *what)
{
    unsigned long count = mem_count();
    print_message("%lu allocations while %d records were %s\n", count, COUNTED, what);
    assert_in_range(count, 0, BUDGET);
}

static void hear(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    (void)producer;
    if (!cafka_delivery_error(delivery))
        *(size_t *)user += cafka_delivery_count(delivery);
}

static void send_records(cafka_producer *producer, size_t count)
{
    static const char value[VALUE_SIZE];
    cafka_record record = {.topic = "records", .value = value, .value_size = sizeof value};
    cafka_error err;
    for (size_t i = 0; i < count; i++)
        if (cafka_producer_send(producer, &record, &err))
            fail_msg("%s", err.message);
    assert_int_equal(cafka_producer_flush(producer, -1, &err), 0);
}

static void a_steady_producer_allocates_nothing(void **state)
{
    (void)state;
    size_t delivered = 0;
    cafka_producer *producer;
    cafka_config *config = config_with("buffer.memory", "500000");
    cafka_config_on_delivery(config, hear, &delivered);
    assert_int_equal(cafka_producer_new(&producer, config, NULL), 0);
    send_records(producer, WARM);

    mem_fail_after(0, 0);
    send_records(producer, COUNTED);
    assert_within_budget("produced");
    assert_int_equal(delivered, WARM + COUNTED);
    cafka_producer_free(producer);
    cafka_config_free(config);
}

static void receive_records(cafka_consumer *consumer, size_t *received, size_t until)
{
    cafka_error err;
    cafka_fetch *fetch;
    cafka_record_view record;
    while (*received < until) {
        if (cafka_consumer_poll(consumer, 10000, &fetch, &err))
            fail_msg("%s", err.message);
        while (!cafka_fetch_next(fetch, &record, &err))
            ++*received;
        cafka_fetch_free(fetch);
    }
}

static void a_steady_consumer_allocates_nothing(void **state)
{
    (void)state;
    size_t received = 0;
    cafka_consumer *consumer;
    cafka_config *config = config_with("fetch.buffer.memory", "1048576");
    cafka_position start = {.topic = "records",
                            .flags = CAFKA_POSITION_OFFSET,
                            .offset = CAFKA_OFFSET_BEGINNING};
    assert_int_equal(cafka_consumer_new(&consumer, config, NULL), 0);
    assert_int_equal(cafka_consumer_assign_add(consumer, &start, 1, NULL), 0);
    receive_records(consumer, &received, WARM);

    mem_fail_after(0, 0);
    receive_records(consumer, &received, WARM + COUNTED);
    assert_within_budget("consumed");
    cafka_consumer_free(consumer);
    cafka_config_free(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_producer_allocates_nothing),
        cmocka_unit_test(a_steady_consumer_allocates_nothing), /* of what the producer sent */
    };
    return cmocka_run_group_tests(tests, start_broker, stop_broker);
}
