/*
 * test_consumer.c - what a consumer by assignment does, on a simulated cluster.
 */
#include "mock/consumer_scene.h"

#include "util/alloc.h"

/* --- where it starts --- */

static void earliest_begins_with_the_first_record(void **state)
{
    struct scene *s = *state;
    produce_numbers(s, "orders", 0, 0, 5);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 0, 5);
}

static void latest_begins_behind_the_last_record(void **state)
{
    struct scene *s = *state;
    int64_t position;
    produce_numbers(s, "orders", 0, 0, 5);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=latest");
    assign_one(s, "orders", 0, 0, 0);
    assert_int_equal(cafka_consumer_position(s->consumer, "orders", 0, 10000, &position, NULL),
                     CAFKA_OK);
    assert_int_equal(position, 5);
    produce_numbers(s, "orders", 0, 5, 2);
    expect_numbers(s, 5, 2);
}

static void none_is_an_error_that_names_the_partition(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    int64_t position;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=none");
    assign_one(s, "orders", 1, 0, 0);
    assert_int_equal(cafka_consumer_position(s->consumer, "orders", 1, 10000, &position, &err),
                     CAFKA_ERR_NO_OFFSET);
    assert_non_null(strstr(err.message, "orders-1"));
    cafka_fetch *fetch;
    cafka_record_view record;
    assert_int_equal(cafka_consumer_poll(s->consumer, 10000, &fetch, &err), CAFKA_OK);
    assert_int_equal(cafka_fetch_next(fetch, &record, &err), CAFKA_ERR_NO_OFFSET);
    assert_string_equal(record.topic, "orders");
    assert_int_equal(record.partition, 1);
    cafka_fetch_free(fetch);
    produce_numbers(s, "orders", 1, 0, 1);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 1, CAFKA_OFFSET_BEGINNING, NULL),
                     CAFKA_OK);
    expect_numbers(s, 0, 1);
}

static void by_duration_begins_so_long_before_now(void **state)
{
    struct scene *s = *state;
    produce_numbers(s, "orders", 0, 0, 3);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 3600 * 1000, NULL), CAFKA_OK);
    produce_numbers(s, "orders", 0, 3, 2);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=by_duration:PT30M");
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 3, 2);
}

static void by_duration_without_a_record_that_young_begins_at_the_end(void **state)
{
    struct scene *s = *state;
    int64_t position;
    produce_numbers(s, "orders", 0, 0, 3);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 3600 * 1000, NULL), CAFKA_OK);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=by_duration:PT30M");
    assign_one(s, "orders", 0, 0, 0);
    assert_int_equal(cafka_consumer_position(s->consumer, "orders", 0, 10000, &position, NULL),
                     CAFKA_OK);
    assert_int_equal(position, 3);
}

static void offset_out_of_range_is_decided_by_the_policy(void **state)
{
    struct scene *s = *state;
    produce_numbers(s, "orders", 0, 0, 3);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, CAFKA_POSITION_OFFSET, 1000);
    expect_numbers(s, 0, 3);
}

static void offset_out_of_range_without_policy_is_told(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    s->consumer = open_consumer(s->mock, "auto.offset.reset=none");
    assign_one(s, "orders", 0, CAFKA_POSITION_OFFSET, 1000);
    assert_int_equal(next_number(s, &err), -1);
    assert_int_equal(err.code, 1); /* OFFSET_OUT_OF_RANGE */
    assert_non_null(strstr(err.message, "orders-0 at offset 1000"));
}

/* --- moving --- */

static void seek_goes_anywhere_even_inside_a_batch(void **state)
{
    struct scene *s = *state;
    produce_numbers(s, "orders", 0, 0, 100);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 0, 3);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 57, NULL), CAFKA_OK);
    expect_numbers(s, 57, 3);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, CAFKA_OFFSET_BEGINNING, NULL),
                     CAFKA_OK);
    expect_numbers(s, 0, 2);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 1, 0, NULL), CAFKA_ERR_STATE);
}

static void seek_within_a_fetch_ends_what_it_had(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch;
    cafka_record_view record;
    produce_numbers(s, "orders", 0, 0, 100);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    assert_int_equal(cafka_consumer_poll(s->consumer, 10000, &fetch, NULL), CAFKA_OK);
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 50, NULL), CAFKA_OK);
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_END);
    cafka_fetch_free(fetch);
    expect_numbers(s, 50, 1);
}

static void paused_partition_is_silent_and_loses_nothing(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch;
    cafka_position at = {.topic = "orders", .partition = 0};
    produce_numbers(s, "orders", 0, 0, 10);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 0, 4);
    assert_int_equal(cafka_consumer_pause(s->consumer, &at, 1, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_poll(s->consumer, 3000, &fetch, NULL), CAFKA_OK);
    assert_null(fetch);
    assert_int_equal(cafka_consumer_resume(s->consumer, &at, 1, NULL), CAFKA_OK);
    expect_numbers(s, 4, 6);
}

static void removed_partition_is_never_handed_out_again(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    cafka_position first = {.topic = "orders", .partition = 0};
    produce_numbers(s, "orders", 0, 0, 10);
    produce_numbers(s, "orders", 1, 1000, 10);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_from(s->consumer, "orders", 2, CAFKA_OFFSET_BEGINNING);
    (void)next_number(s, &err);
    assert_int_equal(cafka_consumer_assign_remove(s->consumer, &first, 1, NULL), CAFKA_OK);
    for (int seen; (seen = next_number(s, &err)) >= 0;)
        assert_true(seen >= 1000);
}

static void assignment_keeps_the_position_of_what_stays(void **state)
{
    struct scene *s = *state;
    produce_numbers(s, "orders", 0, 0, 10);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 0, 4);
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 4, 6);
}

static void assignment_replaces_the_one_before(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    size_t count = 0;
    produce_numbers(s, "orders", 0, 0, 10);
    produce_numbers(s, "orders", 1, 1000, 10);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 0, 4);
    assign_one(s, "orders", 1, 0, 0);
    expect_numbers(s, 1000, 10);
    assert_int_equal(next_number(s, &err), -1); /* nothing more of the first */
    assert_int_equal(cafka_consumer_assignment(s->consumer, NULL, &count, NULL), CAFKA_OK);
    assert_int_equal(count, 1);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 0, NULL), CAFKA_ERR_STATE);
}

/* --- asking --- */

static void offsets_are_found_by_time_and_place(void **state)
{
    struct scene *s = *state;
    const cafka_env *env = cafka_mock_env(s->mock);
    produce_numbers(s, "orders", 0, 0, 3);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 60000, NULL), CAFKA_OK);
    int64_t between = env->wall_ms(env) - 30000;
    produce_numbers(s, "orders", 0, 3, 2);
    s->consumer = open_consumer(s->mock, "");
    cafka_position at[] = {{.topic = "orders", .timestamp_ms = between},
                           {.topic = "orders", .timestamp_ms = CAFKA_OFFSET_BEGINNING},
                           {.topic = "orders", .timestamp_ms = CAFKA_OFFSET_END},
                           {.topic = "orders", .timestamp_ms = CAFKA_OFFSET_MAX_TIMESTAMP},
                           {.topic = "orders", .timestamp_ms = env->wall_ms(env) + 60000},
                           {.topic = "orders", .partition = 99, .timestamp_ms = CAFKA_OFFSET_END}};
    assert_int_equal(cafka_consumer_list_offsets(s->consumer, at, 6, 10000, NULL), CAFKA_OK);
    const int64_t expected[] = {3, 0, 5, 3, CAFKA_OFFSET_NONE, CAFKA_OFFSET_NONE};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(at[i].offset, expected[i]);
        assert_int_equal(at[i].flags, i < 4 ? CAFKA_POSITION_OFFSET : 0);
    }
    assert_int_equal(at[4].error, CAFKA_OK); /* an answer: there is no record that new */
    assert_int_equal(at[5].error, 3);        /* UNKNOWN_TOPIC_OR_PARTITION */
}

/* Taken for an offset it would mean the end, or anything; so nobody takes it. */
static void offset_that_was_not_found_is_no_place_to_start(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    size_t count = 0;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    produce_numbers(s, "orders", 0, 0, 3);
    cafka_position at = {.topic = "orders", .timestamp_ms = CAFKA_OFFSET_MAX_TIMESTAMP};
    cafka_position none = {.topic = "orders", .partition = 1, .timestamp_ms = 1};
    assert_int_equal(cafka_consumer_list_offsets(s->consumer, &at, 1, 10000, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_list_offsets(s->consumer, &none, 1, 10000, NULL), CAFKA_OK);
    assert_int_equal(none.offset, CAFKA_OFFSET_NONE);
    assert_int_equal(cafka_consumer_assign(s->consumer, &none, 1, &err), CAFKA_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "orders-1"));
    none.flags |= CAFKA_POSITION_OFFSET;
    assert_int_equal(cafka_consumer_assign(s->consumer, &none, 1, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_consumer_assignment(s->consumer, NULL, &count, NULL), CAFKA_OK);
    assert_int_equal(count, 0);
    assert_int_equal(cafka_consumer_assign(s->consumer, &at, 1, &err), CAFKA_OK);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, none.offset, &err),
                     CAFKA_ERR_ARGUMENT);
}

/* What cafka_consumer_assignment() says of a position that is not known yet may be given back. */
static void assignment_can_be_given_back(void **state)
{
    struct scene *s = *state;
    cafka_position at[4];
    size_t count = 4;
    produce_numbers(s, "orders", 0, 0, 5);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cafka_consumer_assignment(s->consumer, at, &count, NULL), CAFKA_OK);
        assert_int_equal(count, 1);
        assert_int_equal(at[0].flags, i ? CAFKA_POSITION_OFFSET : 0);
        assert_int_equal(cafka_consumer_assign(s->consumer, at, count, NULL), CAFKA_OK);
        expect_numbers(s, i * 2, 2);
    }
}

static void partitions_are_counted_and_an_unknown_topic_is_said_so(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    int32_t count = 0;
    s->consumer = open_consumer(s->mock, "allow.auto.create.topics=false");
    assert_int_equal(cafka_consumer_partitions(s->consumer, "orders", 10000, &count, &err),
                     CAFKA_OK);
    assert_int_equal(count, 3);
    assert_int_equal(cafka_consumer_partitions(s->consumer, "nothing", 10000, &count, &err), 3);
    assert_non_null(strstr(err.message, "nothing"));
}

static void assigned_topic_that_does_not_exist_is_told_and_may_come(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    s->consumer =
        open_consumer(s->mock, "allow.auto.create.topics=false\nauto.offset.reset=earliest");
    assign_one(s, "late", 0, 0, 0);
    assert_int_equal(next_number(s, &err), -1);
    assert_int_equal(err.code, 3);
    assert_non_null(strstr(err.message, "late"));
    assert_int_equal(cafka_mock_topic_create(s->mock, "late", 1, 1, NULL, NULL), CAFKA_OK);
    produce_numbers(s, "late", 0, 0, 2);
    int number = -1;
    for (int i = 0; i < 20 && number < 0; i++)
        number = next_number(s, &err);
    assert_int_equal(number, 0);
}

static void watermarks_are_those_of_the_last_answer(void **state)
{
    struct scene *s = *state;
    int64_t low = 0, high = 0;
    produce_numbers(s, "orders", 0, 0, 7);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    assert_int_equal(cafka_consumer_watermarks(s->consumer, "orders", 0, &low, &high, NULL),
                     CAFKA_OK);
    assert_int_equal(high, -1);
    expect_numbers(s, 0, 1);
    assert_int_equal(cafka_consumer_watermarks(s->consumer, "orders", 0, &low, &high, NULL),
                     CAFKA_OK);
    assert_int_equal(low, 0);
    assert_int_equal(high, 7);
}

/* --- trouble --- */

static void broker_that_dies_is_waited_for(void **state)
{
    struct scene *s = *state;
    produce_numbers(s, "orders", 0, 0, 10);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 0, 3);
    int32_t leader = cafka_mock_leader(s->mock, "orders", 0);
    assert_int_equal(cafka_mock_broker_kill(s->mock, leader, NULL), CAFKA_OK);
    expect_numbers(s, 3, 7); /* fetched ahead */
    assert_int_equal(cafka_mock_advance_ms(s->mock, 5000, NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_broker_start(s->mock, leader, NULL), CAFKA_OK);
    produce_numbers(s, "orders", 0, 10, 2);
    expect_numbers(s, 10, 2);
}

static void errors_that_pass_are_not_seen(void **state)
{
    static const int codes[] = {6, 5, 9, 56, 74, 75, 78, -1, 100, 103};
    struct scene *s = *state;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    for (int i = 0; i < (int)(sizeof codes / sizeof *codes); i++) {
        cafka_mock_rule rule = {.size = sizeof rule,
                                .api = "Fetch",
                                .action = CAFKA_MOCK_ERROR,
                                .error = codes[i],
                                .count = 2};
        assert_int_equal(cafka_mock_rule_add(s->mock, &rule, NULL, NULL), CAFKA_OK);
        produce_numbers(s, "orders", 0, i, 1);
        expect_numbers(s, i, 1);
    }
}

static void missing_right_is_told_once_a_second(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    cafka_mock_rule rule = {.size = sizeof rule,
                            .api = "Fetch",
                            .action = CAFKA_MOCK_ERROR,
                            .error = 29};
    produce_numbers(s, "orders", 0, 0, 1);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    assert_int_equal(cafka_mock_rule_add(s->mock, &rule, NULL, NULL), CAFKA_OK);
    const cafka_env *env = cafka_mock_env(s->mock);
    assert_int_equal(next_number(s, &err), -1);
    assert_int_equal(err.code, 29);
    int64_t told = env->now(env);
    assert_int_equal(next_number(s, &err), -1);
    assert_int_equal(err.code, 29);
    assert_true(env->now(env) - told >= 900 * INT64_C(1000000));
    cafka_mock_rules_clear(s->mock);
    expect_numbers(s, 0, 1);
}

/* One partition fails again and again; the records of the others come meanwhile. */
static void errors_of_one_partition_do_not_stop_the_others(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    int seen = 0, told = 0;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    cafka_position at[] = {{.topic = "small", .partition = 7}, /* there is no such partition */
                           {.topic = "orders"},
                           {.topic = "orders", .partition = 1}};
    assert_int_equal(cafka_consumer_assign(s->consumer, at, 3, NULL), CAFKA_OK);
    for (int round = 0; round < 30; round++) {
        int number;
        produce_numbers(s, "orders", round % 2, round, 1);
        while ((number = next_number(s, &err)) < 0) {
            assert_int_equal(err.code, 3);
            assert_non_null(strstr(err.message, "small-7"));
            told++;
        }
        assert_int_equal(number, round);
        seen++;
        assert_int_equal(cafka_mock_advance_ms(s->mock, 500, NULL), CAFKA_OK);
    }
    assert_int_equal(seen, 30);
    assert_true(told >= 5 && told <= 30);
}

static void session_that_the_broker_forgot_is_opened_again(void **state)
{
    struct scene *s = *state;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    produce_numbers(s, "orders", 0, 0, 2);
    expect_numbers(s, 0, 2);
    int32_t leader = cafka_mock_leader(s->mock, "orders", 0);
    assert_int_equal(cafka_mock_broker_stop(s->mock, leader, NULL), CAFKA_OK); /* sessions are gone */
    assert_int_equal(cafka_mock_broker_start(s->mock, leader, NULL), CAFKA_OK);
    produce_numbers(s, "orders", 0, 2, 2);
    expect_numbers(s, 2, 2);
}

static void topic_made_again_under_the_same_name_is_read(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    s->consumer =
        open_consumer(s->mock, "auto.offset.reset=earliest\nallow.auto.create.topics=false");
    assign_one(s, "small", 0, 0, 0);
    produce_numbers(s, "small", 0, 0, 3);
    expect_numbers(s, 0, 3);
    assert_int_equal(cafka_mock_topic_delete(s->mock, "small", NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_topic_create(s->mock, "small", 1, 1, NULL, NULL), CAFKA_OK);
    produce_numbers(s, "small", 0, 100, 1);
    int number = -1;
    for (int i = 0; i < 30 && number < 0; i++)
        number = next_number(s, &err); /* offset 3 is out of range in the new topic: earliest */
    assert_int_equal(number, 100);
}

static void memory_stays_within_the_budget(void **state)
{
    struct scene *s = *state;
    char *text = malloc(100001);
    const char *texts[60];
    cafka_fetch *held[64] = {0};
    size_t count = 0;
    memset(text, 'x', 100000);
    text[100000] = '\0';
    for (int i = 0; i < 60; i++)
        texts[i] = text;
    produce_texts(s->mock, "orders", 0, texts, 60, "linger.ms=0");
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nfetch.buffer.memory=1048576\n"
                                         "max.poll.records=1\nmax.partition.fetch.bytes=300000");
    assign_one(s, "orders", 0, 0, 0);
    /* The application holds on to all: fetching stops when a megabyte is held. */
    for (int i = 0; i < 60; i++) {
        cafka_record_view record;
        assert_int_equal(cafka_consumer_poll(s->consumer, 2000, &held[count], NULL), CAFKA_OK);
        if (!held[count])
            break;
        assert_int_equal(cafka_fetch_next(held[count], &record, NULL), CAFKA_OK);
        count++;
    }
    assert_true(count >= 3 && count < 20);
    for (size_t i = 0; i < count; i++)
        cafka_fetch_free(held[i]);
    for (size_t i = count; i < 60; i++) {
        cafka_fetch *fetch;
        cafka_record_view record;
        assert_int_equal(cafka_consumer_poll(s->consumer, 10000, &fetch, NULL), CAFKA_OK);
        assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
        assert_int_equal(record.offset, i);
        cafka_fetch_free(fetch);
    }
    free(text);
}

static void batch_larger_than_every_limit_is_delivered_alone(void **state)
{
    struct scene *s = *state;
    char *text = malloc(900001);
    const char *texts[] = {text, text, text};
    memset(text, 'y', 900000);
    text[900000] = '\0';
    produce_texts(s->mock, "orders", 0, texts, 3, "linger.ms=0");
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nfetch.buffer.memory=1048576\n"
                                         "max.partition.fetch.bytes=1000\nfetch.max.bytes=1000");
    assign_one(s, "orders", 0, 0, 0);
    for (int i = 0; i < 3; i++) {
        cafka_fetch *fetch;
        cafka_record_view record;
        assert_int_equal(cafka_consumer_poll(s->consumer, 10000, &fetch, NULL), CAFKA_OK);
        assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
        assert_int_equal(record.value_size, 900000);
        cafka_fetch_free(fetch);
    }
    free(text);
}

/* --- calls --- */

static void poll_without_an_assignment_is_an_error(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch;
    s->consumer = open_consumer(s->mock, "");
    assert_int_equal(cafka_consumer_poll(s->consumer, 0, &fetch, NULL), CAFKA_ERR_STATE);
}

static void wrong_arguments_change_nothing(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    size_t count = 10;
    cafka_position out[10];
    cafka_position bad[] = {{.topic = "orders"}, {.topic = "no/such/name"}};
    s->consumer = open_consumer(s->mock, "");
    assert_int_equal(cafka_consumer_assign(s->consumer, bad, 2, &err), CAFKA_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "no/such/name"));
    bad[1] = (cafka_position){.topic = "orders", .partition = -1};
    assert_int_equal(cafka_consumer_assign(s->consumer, bad, 2, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_consumer_assignment(s->consumer, out, &count, NULL), CAFKA_OK);
    assert_int_equal(count, 0);
}

static void null_is_an_argument_error_and_no_crash(void **state)
{
    (void)state;
    cafka_consumer *consumer;
    cafka_fetch *fetch;
    cafka_error err = {0};
    assert_int_equal(cafka_consumer_new(&consumer, NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_consumer_new(NULL, NULL, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_consumer_poll(NULL, 0, &fetch, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_consumer_close(NULL, 0, &err), CAFKA_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "NULL"));
    assert_int_equal(cafka_consumer_assign(NULL, NULL, 0, &err), CAFKA_ERR_ARGUMENT);
    cafka_consumer_wakeup(NULL);
    assert_null(cafka_consumer_client(NULL));
    assert_int_equal(cafka_consumer_at_end(NULL), 0);
    cafka_consumer_free(NULL);
    cafka_fetch_free(NULL);
}

static void wakeup_ends_the_next_poll_and_loses_nothing(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch;
    produce_numbers(s, "orders", 0, 0, 2);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_one(s, "orders", 0, 0, 0);
    cafka_consumer_wakeup(s->consumer);
    assert_int_equal(cafka_consumer_poll(s->consumer, 10000, &fetch, NULL), CAFKA_ERR_WAKEUP);
    assert_null(fetch);
    expect_numbers(s, 0, 2);
}

static void closed_consumer_refuses_calls_and_keeps_fetches(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch, *late;
    cafka_record_view record;
    produce_numbers(s, "orders", 0, 42, 1);
    cafka_consumer *consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    s->consumer = consumer;
    assign_one(s, "orders", 0, 0, 0);
    assert_int_equal(cafka_consumer_poll(consumer, 10000, &fetch, NULL), CAFKA_OK);
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_close(consumer, 10000, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_close(consumer, 10000, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_poll(consumer, 0, &late, NULL), CAFKA_ERR_CLOSED);
    cafka_consumer_free(consumer);
    s->consumer = NULL;
    assert_memory_equal(record.value, "42", 2);
    assert_string_equal(record.topic, "orders");
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_END);
    cafka_fetch_free(fetch);
}

/* Of one partition data was put aside by a pause, the other has more than it may: the fetcher waits. */
static void data_put_aside_is_let_go_when_a_consumer_that_is_short_of_memory_is_freed(void **state)
{
    struct scene *s = *state;
    char *text = malloc(100001);
    const char *texts[20];
    memset(text, 'x', 100000);
    text[100000] = '\0';
    for (int i = 0; i < 20; i++)
        texts[i] = text;
    produce_texts(s->mock, "orders", 0, texts, 20, "linger.ms=0");
    produce_texts(s->mock, "orders", 1, texts, 20, "linger.ms=0");
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nfetch.buffer.memory=2097152\n"
                                         "max.poll.records=1\nmax.partition.fetch.bytes=300000");
    assign_from(s->consumer, "orders", 2, 0);
    for (int i = 0; i < 4; i++) {
        cafka_fetch *fetch;
        cafka_record_view record;
        assert_int_equal(cafka_consumer_poll(s->consumer, 2000, &fetch, NULL), CAFKA_OK);
        assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
        cafka_position here = {.topic = "orders", .partition = record.partition};
        cafka_fetch_free(fetch);
        if (i == 1) /* in the middle of what came of it */
            assert_int_equal(cafka_consumer_pause(s->consumer, &here, 1, NULL), CAFKA_OK);
    }
    close_consumer(s->consumer); /* it must not call for a fetch any more */
    s->consumer = NULL;
    free(text);
}

static void close_keeps_its_deadline_when_brokers_are_silent(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch;
    cafka_mock_rule rule = {.size = sizeof rule, .action = CAFKA_MOCK_DELAY, .delay_ms = 600000};
    s->consumer = open_consumer(s->mock, "");
    assign_from(s->consumer, "orders", 3, CAFKA_OFFSET_END);
    assert_int_equal(cafka_consumer_poll(s->consumer, 1000, &fetch, NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_rule_add(s->mock, &rule, NULL, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_poll(s->consumer, 1000, &fetch, NULL), CAFKA_OK);
    const cafka_env *env = cafka_mock_env(s->mock);
    int64_t before = env->now(env);
    assert_int_equal(cafka_consumer_close(s->consumer, 2000, NULL), CAFKA_OK);
    assert_true(env->now(env) - before <= 2000 * INT64_C(1000000));
    cafka_consumer_free(s->consumer);
    s->consumer = NULL;
}

/* Whatever allocation fails, calls fail with a clear error or succeed, and all is freed. */
static void failing_allocations_do_no_harm(void **state)
{
    struct scene *s = *state;
    produce_numbers(s, "orders", 0, 0, 20);
    for (unsigned long k = 1; k < 400; k += 1 + k / 50) {
        cafka_config *config = client_config(s->mock, "auto.offset.reset=earliest");
        cafka_consumer *consumer = NULL;
        cafka_error err = {0};
        mem_fail_after(k, 0);
        int rc = cafka_consumer_new(&consumer, config, &err);
        if (!rc) {
            cafka_position at = {.topic = "orders", .partition = 0};
            rc = cafka_consumer_assign(consumer, &at, 1, &err);
            for (int i = 0, seen = 0; !rc && seen < 20 && i < 50; i++) {
                cafka_fetch *fetch = NULL;
                cafka_record_view record;
                rc = cafka_consumer_poll(consumer, 1000, &fetch, &err);
                while (!rc && !cafka_fetch_next(fetch, &record, &err))
                    seen++;
                cafka_fetch_free(fetch);
            }
        }
        mem_fail_after(0, 0);
        if (rc && rc != CAFKA_ERR_MEMORY && rc != CAFKA_ERR_SYSTEM && rc != CAFKA_ERR_TIMEOUT)
            fail_msg("allocation %lu failed: %s", k, err.message);
        if (consumer)
            close_consumer(consumer);
        cafka_config_free(config);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(earliest_begins_with_the_first_record),
        TEST(latest_begins_behind_the_last_record),
        TEST(none_is_an_error_that_names_the_partition),
        TEST(by_duration_begins_so_long_before_now),
        TEST(by_duration_without_a_record_that_young_begins_at_the_end),
        TEST(offset_out_of_range_is_decided_by_the_policy),
        TEST(offset_out_of_range_without_policy_is_told),
        TEST(seek_goes_anywhere_even_inside_a_batch),
        TEST(seek_within_a_fetch_ends_what_it_had),
        TEST(paused_partition_is_silent_and_loses_nothing),
        TEST(removed_partition_is_never_handed_out_again),
        TEST(assignment_keeps_the_position_of_what_stays),
        TEST(assignment_replaces_the_one_before),
        TEST(offsets_are_found_by_time_and_place),
        TEST(offset_that_was_not_found_is_no_place_to_start),
        TEST(assignment_can_be_given_back),
        TEST(partitions_are_counted_and_an_unknown_topic_is_said_so),
        TEST(assigned_topic_that_does_not_exist_is_told_and_may_come),
        TEST(watermarks_are_those_of_the_last_answer),
        TEST(broker_that_dies_is_waited_for),
        TEST(errors_that_pass_are_not_seen),
        TEST(missing_right_is_told_once_a_second),
        TEST(errors_of_one_partition_do_not_stop_the_others),
        TEST(session_that_the_broker_forgot_is_opened_again),
        TEST(topic_made_again_under_the_same_name_is_read),
        TEST(memory_stays_within_the_budget),
        TEST(batch_larger_than_every_limit_is_delivered_alone),
        TEST(poll_without_an_assignment_is_an_error),
        TEST(wrong_arguments_change_nothing),
        cmocka_unit_test(null_is_an_argument_error_and_no_crash),
        TEST(wakeup_ends_the_next_poll_and_loses_nothing),
        TEST(closed_consumer_refuses_calls_and_keeps_fetches),
        TEST(data_put_aside_is_let_go_when_a_consumer_that_is_short_of_memory_is_freed),
        TEST(close_keeps_its_deadline_when_brokers_are_silent),
        TEST(failing_allocations_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
