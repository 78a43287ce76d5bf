/*
 * test_consumer_end.c - lag, and how a program learns that it has read all there is.
 */
#include "mock/consumer_scene.h"

static int64_t lag_of(const struct scene *s, const char *topic, int32_t partition)
{
    int64_t lag = -7;
    assert_int_equal(cafka_consumer_lag(s->consumer, topic, partition, &lag, NULL), CAFKA_OK);
    return lag;
}

static void lag_is_what_lies_behind_the_position(void **state)
{
    struct scene *s = *state;
    produce_numbers(s, "orders", 0, 0, 10);
    produce_numbers(s, "orders", 1, 0, 3);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    assert_int_equal(lag_of(s, "orders", 0), -1);
    assert_int_equal(lag_of(s, NULL, 0), -1);
    expect_numbers(s, 0, 4);
    assert_int_equal(lag_of(s, "orders", 0), 6);
    int64_t requests = cafka_mock_requests(s->mock, NULL);
    assert_int_equal(lag_of(s, NULL, 0), 6);
    assert_int_equal(cafka_mock_requests(s->mock, NULL), requests);
    cafka_position other = {.topic = "orders", .partition = 1};
    assert_int_equal(cafka_consumer_assign_add(s->consumer, &other, 1, NULL), CAFKA_OK);
    assert_int_equal(lag_of(s, NULL, 0), -1); /* of one it is not known */
    assert_int_equal(cafka_consumer_pause(s->consumer, &other, 1, NULL), CAFKA_OK);
    expect_numbers(s, 4, 6);
    assert_int_equal(lag_of(s, "orders", 0), 0);
}

static void lag_of_what_is_not_assigned_is_an_error(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    int64_t lag = 5;
    s->consumer = open_consumer(s->mock, "");
    assert_int_equal(cafka_consumer_lag(s->consumer, NULL, 0, &lag, &err), CAFKA_ERR_STATE);
    assert_int_equal(cafka_consumer_at_end(s->consumer), 0);
    assign_one(s, "orders", 0, 0, 0);
    assert_int_equal(cafka_consumer_lag(s->consumer, "orders", 1, &lag, &err), CAFKA_ERR_STATE);
    assert_non_null(strstr(err.message, "orders-1"));
    assert_int_equal(lag, 5);
    assert_int_equal(cafka_consumer_lag(s->consumer, "orders", 0, NULL, &err), CAFKA_OK);
}

/* The loop of the header, which never passes a timeout. */
static int read_to_the_end(struct scene *s)
{
    int count = 0, rc;
    cafka_error err = {0};
    while (!cafka_consumer_at_end(s->consumer)) {
        cafka_fetch *fetch;
        cafka_record_view record;
        if (cafka_consumer_poll(s->consumer, -1, &fetch, &err))
            fail_msg("poll: %s", err.message);
        while (!(rc = cafka_fetch_next(fetch, &record, &err)))
            count++;
        if (rc != CAFKA_END)
            fail_msg("next: %s", err.message);
        cafka_fetch_free(fetch);
    }
    return count;
}

static void program_reads_all_there_is_and_stops(void **state)
{
    struct scene *s = *state;
    produce_numbers(s, "orders", 0, 0, 100);
    produce_numbers(s, "orders", 2, 0, 5); /* orders-1 is empty */
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nmax.poll.records=7");
    assign_from(s->consumer, "orders", 3, CAFKA_OFFSET_BEGINNING);
    assert_int_equal(read_to_the_end(s), 105);
    produce_numbers(s, "orders", 1, 0, 1);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 90, NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 1000, NULL), CAFKA_OK);
    assert_int_equal(read_to_the_end(s), 11);
}

static void empty_partition_is_at_its_end_as_soon_as_a_broker_says_so(void **state)
{
    struct scene *s = *state;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=latest");
    assign_from(s->consumer, "orders", 3, CAFKA_OFFSET_END);
    assert_int_equal(read_to_the_end(s), 0);
}

/* A broker tells an end once a session, and that answer may come to a partition paused meanwhile. */
static void end_is_known_though_its_answer_came_after_a_pause(void **state)
{
    struct scene *s = *state;
    cafka_position empty = {.topic = "orders", .partition = 1};
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nfetch.max.wait.ms=500");
    assign_one(s, "orders", 1, 0, 0);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 300, NULL), CAFKA_OK); /* a fetch waits there */
    assert_int_equal(lag_of(s, NULL, 0), -1);
    assert_int_equal(cafka_consumer_pause(s->consumer, &empty, 1, NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 50, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_resume(s->consumer, &empty, 1, NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 2000, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_at_end(s->consumer), 1);
}

/* Only coming to the end ends a poll early: at the end it waits for records like any other. */
static void poll_at_the_end_waits_for_its_time(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    assert_int_equal(read_to_the_end(s), 0);
    int64_t before = now_ms(s);
    assert_int_equal(cafka_consumer_poll(s->consumer, 3000, &fetch, NULL), CAFKA_OK);
    assert_null(fetch);
    assert_int_equal(now_ms(s) - before, 3000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(lag_is_what_lies_behind_the_position),
        TEST(lag_of_what_is_not_assigned_is_an_error),
        TEST(program_reads_all_there_is_and_stops),
        TEST(empty_partition_is_at_its_end_as_soon_as_a_broker_says_so),
        TEST(end_is_known_though_its_answer_came_after_a_pause),
        TEST(poll_at_the_end_waits_for_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
