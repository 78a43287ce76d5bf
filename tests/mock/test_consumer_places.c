/*
 * test_consumer_places.c - where a consumer goes on: by time, at the ends, many at once; pausing;
 * what is fetched ahead; and assignments of thousands of partitions.
 */
#include "mock/consumer_scene.h"

static int64_t wall_ms(const struct scene *s)
{
    const cafka_env *env = cafka_mock_env(s->mock);
    return env->wall_ms(env);
}

static int64_t position_of(const struct scene *s, int32_t partition)
{
    int64_t position = -1;
    cafka_error err = {0};
    if (cafka_consumer_position(s->consumer, "orders", partition, 10000, &position, &err))
        fail_msg("%s", err.message);
    return position;
}

/* Three records of each partition, a minute, two more. Returns a time in between. */
static int64_t produce_around_a_minute(struct scene *s)
{
    for (int32_t p = 0; p < 3; p++)
        produce_numbers(s, "orders", p, 0, 3);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 60000, NULL), CAFKA_OK);
    int64_t between = wall_ms(s) - 30000;
    for (int32_t p = 0; p < 3; p++)
        produce_numbers(s, "orders", p, 3, 2);
    return between;
}

static void seek_of_many_goes_by_time_and_place(void **state)
{
    struct scene *s = *state;
    int64_t between = produce_around_a_minute(s);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=none");
    assign_from(s->consumer, "orders", 3, 1);
    cafka_position at[] = {{.topic = "orders",
                            .flags = CAFKA_POSITION_TIMESTAMP,
                            .timestamp_ms = between},
                           {.topic = "orders",
                            .partition = 1,
                            .flags = CAFKA_POSITION_OFFSET,
                            .offset = CAFKA_OFFSET_END},
                           {.topic = "orders",
                            .partition = 2,
                            .flags = CAFKA_POSITION_OFFSET,
                            .offset = CAFKA_OFFSET_BEGINNING}};
    int64_t before = now_ms(s);
    assert_int_equal(cafka_consumer_seek_many(s->consumer, at, 3, NULL), CAFKA_OK);
    assert_int_equal(now_ms(s), before);
    assert_int_equal(position_of(s, 0), 3);
    assert_int_equal(position_of(s, 1), 5);
    assert_int_equal(position_of(s, 2), 0);
}

static void time_that_no_record_has_reached_means_the_end(void **state)
{
    struct scene *s = *state;
    (void)produce_around_a_minute(s);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    cafka_position at[] = {{.topic = "orders",
                            .flags = CAFKA_POSITION_TIMESTAMP,
                            .timestamp_ms = wall_ms(s) + 60000},
                           {.topic = "small", /* empty */
                            .flags = CAFKA_POSITION_TIMESTAMP,
                            .timestamp_ms = CAFKA_OFFSET_MAX_TIMESTAMP}};
    assert_int_equal(cafka_consumer_assign(s->consumer, at, 2, NULL), CAFKA_OK);
    assert_int_equal(position_of(s, 0), 5);
    produce_numbers(s, "small", 0, 70, 1);
    expect_numbers(s, 70, 1);
}

static void assignment_starts_at_a_time_without_asking_first(void **state)
{
    struct scene *s = *state;
    int64_t between = produce_around_a_minute(s);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    cafka_position at = {.topic = "orders",
                         .flags = CAFKA_POSITION_TIMESTAMP,
                         .timestamp_ms = between};
    assert_int_equal(cafka_consumer_assign(s->consumer, &at, 1, NULL), CAFKA_OK);
    expect_numbers(s, 3, 2);
    at.timestamp_ms = 0; /* everything is as new as that */
    assert_int_equal(cafka_consumer_seek_many(s->consumer, &at, 1, NULL), CAFKA_OK);
    expect_numbers(s, 0, 5);
}

static void seek_of_many_moves_all_or_none(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    produce_numbers(s, "orders", 0, 0, 10);
    s->consumer = open_consumer(s->mock, "");
    assign_from(s->consumer, "orders", 2, 4);
    cafka_position first = {.topic = "orders", .flags = CAFKA_POSITION_OFFSET, .offset = 8};
    const cafka_position bad[] =
        {{.topic = "orders", .partition = 2, .flags = CAFKA_POSITION_OFFSET},
         {.topic = "orders", .partition = 1},
         {.topic = "orders", .partition = 1, .flags = CAFKA_POSITION_OFFSET, .offset = -3},
         {.topic = "orders", .partition = 1, .flags = CAFKA_POSITION_TIMESTAMP, .timestamp_ms = -4},
         {.topic = "orders",
          .partition = 1,
          .flags = CAFKA_POSITION_TIMESTAMP,
          .timestamp_ms = INT64_MAX},
         {.topic = "orders",
          .partition = 1,
          .flags = CAFKA_POSITION_OFFSET,
          .offset = CAFKA_OFFSET_NONE}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cafka_position at[] = {first, bad[i]};
        assert_int_equal(cafka_consumer_seek_many(s->consumer, at, 2, &err),
                         i ? CAFKA_ERR_ARGUMENT : CAFKA_ERR_STATE);
        assert_int_equal(position_of(s, 0), 4);
    }
    assert_int_equal(cafka_consumer_seek_many(s->consumer, NULL, 2, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_consumer_seek_many(s->consumer, NULL, 0, &err), CAFKA_OK);
}

/* --- fetched ahead --- */

/* Nothing is fetched twice: not for a pause in the middle, and not for an assignment that keeps it. */
static void pause_and_assignment_keep_what_was_fetched(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch;
    cafka_position at[] = {{.topic = "orders"}, {.topic = "orders", .partition = 1}};
    produce_numbers(s, "orders", 0, 0, 20);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 0, 3);
    assert_int_equal(cafka_consumer_pause(s->consumer, at, 1, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_pause(s->consumer, at, 1, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_poll(s->consumer, 2000, &fetch, NULL), CAFKA_OK);
    assert_null(fetch);
    assert_int_equal(cafka_consumer_assign(s->consumer, at, 2, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_poll(s->consumer, 2000, &fetch, NULL), CAFKA_OK);
    assert_null(fetch); /* the pause is kept, too */
    assert_int_equal(cafka_consumer_resume(s->consumer, at, 1, NULL), CAFKA_OK);
    int64_t requests = cafka_mock_requests(s->mock, "Fetch");
    for (int i = 3; i < 20; i++) {
        cafka_record_view record;
        assert_int_equal(cafka_consumer_poll(s->consumer, 0, &fetch, NULL), CAFKA_OK);
        assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
        assert_int_equal(record.offset, i);
        cafka_fetch_free(fetch);
    }
    assert_true(cafka_mock_requests(s->mock, "Fetch") - requests <= 1);
}

/* While the application works on one answer the next ones come: it never waits for a broker again. */
static void next_records_are_there_when_the_application_comes_back(void **state)
{
    struct scene *s = *state;
    char *text = malloc(50001);
    const char *texts[40];
    int64_t offset = 0;
    memset(text, 'x', 50000);
    text[50000] = '\0';
    for (int i = 0; i < 40; i++)
        texts[i] = text;
    produce_texts(s->mock, "orders", 0, texts, 40, "linger.ms=0");
    s->consumer =
        open_consumer(s->mock,
                      "auto.offset.reset=earliest\nmax.partition.fetch.bytes=200000\nmax.poll.records=3");
    assign_one(s, "orders", 0, 0, 0);
    for (int64_t timeout_ms = 10000; offset < 40; timeout_ms = 0) {
        cafka_fetch *fetch;
        cafka_record_view record;
        int64_t before = now_ms(s);
        assert_int_equal(cafka_consumer_poll(s->consumer, timeout_ms, &fetch, NULL), CAFKA_OK);
        if (!timeout_ms)
            assert_int_equal(now_ms(s), before);
        assert_non_null(fetch);
        while (!cafka_fetch_next(fetch, &record, NULL))
            assert_int_equal(record.offset, offset++);
        cafka_fetch_free(fetch);
        assert_int_equal(cafka_mock_advance_ms(s->mock, 200, NULL), CAFKA_OK); /* it works */
    }
    free(text);
}

/* --- many partitions --- */

enum { MANY = 10000, STEP = 100 };

static cafka_position *many_positions(void)
{
    cafka_position *all = calloc(MANY, sizeof *all);
    for (int32_t i = 0; i < MANY; i++) /* the topics by turns */
        all[i] = (cafka_position){.topic = i % 2 ? "many" : "much", .partition = i / 2};
    return all;
}

/* Requests that some work took. */
struct work {
    int64_t list_offsets, fetches;
};

static struct work work_since(const struct scene *s, struct work before)
{
    return (struct work){cafka_mock_requests(s->mock, "ListOffsets") - before.list_offsets,
                         cafka_mock_requests(s->mock, "Fetch") - before.fetches};
}

static void wait_for_positions(struct scene *s, const cafka_position *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t position;
        cafka_error err = {0};
        if (cafka_consumer_position(s->consumer, all[i].topic, all[i].partition, 60000, &position,
                                    &err))
            fail_msg("%s", err.message);
    }
}

/* Each broker is asked once for all its partitions, and a change costs what it changes. */
static void thousands_of_partitions_are_assigned_with_a_few_requests(void **state)
{
    struct scene *s = *state;
    assert_int_equal(cafka_mock_topic_create(s->mock, "many", MANY / 2, 1, NULL, NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_topic_create(s->mock, "much", MANY / 2, 1, NULL, NULL), CAFKA_OK);
    cafka_position *all = many_positions();
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assert_int_equal(cafka_consumer_assign(s->consumer, all, 1, NULL), CAFKA_OK);
    wait_for_positions(s, all, 1);

    struct work start = work_since(s, (struct work){0});
    assert_int_equal(cafka_consumer_assign(s->consumer, all, MANY, NULL), CAFKA_OK);
    wait_for_positions(s, all, MANY);
    struct work work = work_since(s, start);
    assert_in_range(work.list_offsets, 3, 9);
    assert_in_range(work.fetches, 0, 30);

    start = work_since(s, (struct work){0});
    for (int i = 0; i < STEP; i++) {
        assert_int_equal(cafka_consumer_assign_remove(s->consumer, &all[i], 1, NULL), CAFKA_OK);
        assert_int_equal(cafka_consumer_assign_add(s->consumer, &all[i], 1, NULL), CAFKA_OK);
    }
    wait_for_positions(s, all, STEP);
    work = work_since(s, start);
    assert_in_range(work.list_offsets, 1, 9);
    size_t count = 0;
    assert_int_equal(cafka_consumer_assignment(s->consumer, NULL, &count, NULL), CAFKA_OK);
    assert_int_equal(count, MANY);

    /* Dropped while everything is looked up again. */
    for (int i = 0; i < MANY; i++) {
        all[i].flags = CAFKA_POSITION_OFFSET;
        all[i].offset = CAFKA_OFFSET_END;
    }
    assert_int_equal(cafka_consumer_seek_many(s->consumer, all, MANY, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_assign(s->consumer, NULL, 0, NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 1000, NULL), CAFKA_OK);
    free(all);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(seek_of_many_goes_by_time_and_place),
        TEST(time_that_no_record_has_reached_means_the_end),
        TEST(assignment_starts_at_a_time_without_asking_first),
        TEST(seek_of_many_moves_all_or_none),
        TEST(pause_and_assignment_keep_what_was_fetched),
        TEST(next_records_are_there_when_the_application_comes_back),
        TEST(thousands_of_partitions_are_assigned_with_a_few_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
