/*
 * test_consumer_hooks.c - deserializers and interceptors of a consumer, on a simulated cluster.
 */
#include <cafka/plugin.h>

#include "mock/consumer_scene.h"

/* What the functions of a test saw and are to do. */
struct hooks {
    int seen, closed, fail_with, drop_below, warnings;
    int64_t fail_at; /* offset; -1: none */
    cafka_consumer *consumer;
    int (*inside)(struct hooks *hooks);
    int inside_result;
};

static int count_record(cafka_record_view *view, cafka_scratch *scratch, void *user)
{
    struct hooks *hooks = user;
    hooks->seen++;
    if (hooks->inside)
        hooks->inside_result = hooks->inside(hooks);
    if (hooks->fail_with) {
        view->value = NULL; /* it does not count */
        return hooks->fail_with;
    }
    char *changed = cafka_scratch_alloc(scratch, view->value_size + 1);
    assert_non_null(changed);
    memcpy(changed, view->value, view->value_size);
    changed[view->value_size] = '0'; /* ten times as much */
    if (view->offset < hooks->drop_below)
        return CAFKA_DROP;
    view->value = changed;
    view->value_size++;
    return CAFKA_OK;
}

static void count_close(void *user)
{
    ((struct hooks *)user)->closed++;
}

/* The object of a number: an int in scratch memory. */
static int number_of(const cafka_record_view *view, cafka_bytes bytes, cafka_bytes *out,
                     cafka_scratch *scratch, void *user, cafka_error *err)
{
    struct hooks *hooks = user;
    char text[16] = "";
    assert_true(bytes.size < sizeof text);
    memcpy(text, bytes.data, bytes.size);
    if (view->offset == hooks->fail_at) {
        snprintf(err->message, sizeof err->message, "'%s' is unlucky", text);
        return 42;
    }
    int *number = cafka_scratch_alloc(scratch, sizeof *number);
    *number = atoi(text);
    *out = (cafka_bytes){number, sizeof *number};
    hooks->seen++;
    return CAFKA_OK;
}

static void hear_log(void *user, int level, const char *area, const char *message)
{
    struct hooks *hooks = user;
    if (level == CAFKA_LOG_WARN && !strcmp(area, "consumer") && strstr(message, "interceptor"))
        hooks->warnings++;
}

static void open_with(struct scene *s, struct hooks *hooks, bool intercept, bool deserialize)
{
    cafka_config *config = client_config(s->mock, "auto.offset.reset=earliest");
    cafka_error err = {0};
    cafka_consumer_interceptor interceptor = {.size = sizeof interceptor,
                                              .name = "counter",
                                              .user = hooks,
                                              .on_consume = count_record,
                                              .on_close = count_close};
    cafka_deserializer deserializer = {.size = sizeof deserializer,
                                       .name = "numbers",
                                       .user = hooks,
                                       .deserialize = number_of,
                                       .on_close = count_close};
    cafka_config_set_log(config, hear_log, hooks, CAFKA_LOG_WARN);
    if (intercept)
        assert_int_equal(cafka_config_add_consumer_interceptor(config, &interceptor, &err), 0);
    if (deserialize)
        assert_int_equal(cafka_config_set_value_deserializer(config, &deserializer, &err), 0);
    if (cafka_consumer_new(&s->consumer, config, &err))
        fail_msg("%s", err.message);
    hooks->consumer = s->consumer;
    cafka_config_free(config);
}

static cafka_fetch *poll(struct scene *s)
{
    cafka_fetch *fetch = NULL;
    cafka_error err = {0};
    if (cafka_consumer_poll(s->consumer, 10000, &fetch, &err))
        fail_msg("%s", err.message);
    assert_non_null(fetch);
    return fetch;
}

static void interceptor_sees_what_is_handed_out_and_nothing_else(void **state)
{
    struct scene *s = *state;
    struct hooks hooks = {.fail_at = -1};
    cafka_record_view record;
    produce_numbers(s, "orders", 0, 1, 5);
    open_with(s, &hooks, true, false);
    assign_one(s, "orders", 0, 0, 0);
    cafka_fetch *fetch = poll(s);
    assert_int_equal(hooks.seen, 0); /* records are decoded when they are asked for */
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
    assert_memory_equal(record.value, "10", 2);
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
    cafka_fetch_free(fetch); /* three come again */
    expect_numbers(s, 30, 1);
    assert_int_equal(hooks.seen, 3);
    close_consumer(s->consumer);
    s->consumer = NULL;
    assert_int_equal(hooks.closed, 1);
}

static void failing_interceptor_is_logged_and_left_out(void **state)
{
    struct scene *s = *state;
    struct hooks hooks = {.fail_with = 7};
    produce_numbers(s, "orders", 0, 1, 9);
    open_with(s, &hooks, true, false);
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 1, 5); /* as if it did not exist */
    assert_int_equal(hooks.seen, 5);
    assert_int_equal(hooks.warnings, 1); /* when it begins, not for each record */
    hooks.fail_with = 0;
    expect_numbers(s, 60, 1);
    hooks.fail_with = 7;
    expect_numbers(s, 7, 1);
    assert_int_equal(hooks.warnings, 2);
}

static void dropped_record_counts_as_read(void **state)
{
    struct scene *s = *state;
    struct hooks hooks = {.drop_below = 4};
    int64_t position;
    produce_numbers(s, "orders", 0, 1, 5);
    open_with(s, &hooks, true, false);
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 50, 1);
    assert_int_equal(hooks.seen, 5);
    assert_int_equal(cafka_consumer_position(s->consumer, "orders", 0, 0, &position, NULL), 0);
    assert_int_equal(position, 5);
    assert_int_equal(cafka_consumer_at_end(s->consumer), 1);
}

static void deserializer_makes_objects_and_null_stays_null(void **state)
{
    struct scene *s = *state;
    struct hooks hooks = {.fail_at = -1};
    cafka_record_view views[5];
    size_t count;
    produce_numbers(s, "orders", 0, 500, 5);
    open_with(s, &hooks, false, true);
    assign_one(s, "orders", 0, 0, 0);
    cafka_fetch *fetch = poll(s);
    assert_int_equal(cafka_fetch_next_batch(fetch, views, 5, &count, NULL), CAFKA_OK);
    assert_int_equal(count, 5);
    for (int i = 0; i < 5; i++) { /* all live at the same time */
        assert_int_equal(views[i].value_size, sizeof(int));
        assert_int_equal(*(const int *)views[i].value, 500 + i);
        assert_null(views[i].key);
    }
    cafka_fetch_free(fetch);
    close_consumer(s->consumer);
    s->consumer = NULL;
    assert_int_equal(hooks.closed, 1);
}

/* The position stays, other partitions flow, it is told again a second later, and a seek passes it. */
static void record_that_no_object_can_be_made_of_is_an_error_of_its_partition(void **state)
{
    struct scene *s = *state;
    struct hooks hooks = {.fail_at = 2};
    cafka_record_view record;
    cafka_error err = {0};
    int64_t position;
    int rc, errors = 0, others = 0;
    produce_numbers(s, "orders", 0, 500, 4);
    produce_numbers(s, "orders", 1, 600, 2);
    open_with(s, &hooks, false, true);
    assign_from(s->consumer, "orders", 2, 0);
    for (int64_t until = now_ms(s) + 2500; now_ms(s) < until;) {
        cafka_fetch *fetch;
        assert_int_equal(cafka_consumer_poll(s->consumer, 500, &fetch, NULL), CAFKA_OK);
        while ((rc = cafka_fetch_next(fetch, &record, &err)) != CAFKA_END) {
            others += !rc;
            if (!rc)
                continue;
            errors++;
            assert_int_equal(rc, CAFKA_ERR_SERIALIZATION);
            assert_int_equal(err.code, rc);
            assert_non_null(strstr(err.message, "orders-0 at offset 2"));
            assert_non_null(strstr(err.message, "numbers"));
            assert_non_null(strstr(err.message, "'502' is unlucky"));
            assert_int_equal(record.offset, 2);
            assert_int_equal(record.partition, 0);
            assert_memory_equal(record.value, "502", 3); /* as received, for a dead letter */
        }
        cafka_fetch_free(fetch);
    }
    assert_int_equal(others, 2 + 2);
    assert_in_range(errors, 2, 3);
    assert_int_equal(cafka_consumer_position(s->consumer, "orders", 0, 0, &position, NULL), 0);
    assert_int_equal(position, 2);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 3, NULL), CAFKA_OK);
    cafka_fetch *fetch = poll(s);
    assert_int_equal(cafka_fetch_next(fetch, &record, &err), CAFKA_OK);
    assert_int_equal(*(const int *)record.value, 503);
    cafka_fetch_free(fetch);
}

/* --- calls from inside --- */

static int wait_inside(struct hooks *hooks)
{
    cafka_position at = {.topic = "orders"};
    return cafka_consumer_end_offsets(hooks->consumer, &at, 1, 1000, NULL);
}

static int seek_inside(struct hooks *hooks)
{
    hooks->inside = NULL;
    return cafka_consumer_seek(hooks->consumer, "orders", 0, 3, NULL);
}

static int remove_and_fail_inside(struct hooks *hooks)
{
    cafka_position at = {.topic = "orders"};
    hooks->inside = NULL;
    hooks->fail_with = 9;
    return cafka_consumer_assign_remove(hooks->consumer, &at, 1, NULL);
}

static int close_inside(struct hooks *hooks)
{
    assert_int_equal(cafka_consumer_close(hooks->consumer, 1000, NULL), CAFKA_ERR_IN_CALLBACK);
    return cafka_consumer_close(hooks->consumer, 0, NULL);
}

static void call_that_would_wait_is_refused_inside(void **state)
{
    struct scene *s = *state;
    struct hooks hooks = {.inside = wait_inside};
    produce_numbers(s, "orders", 0, 1, 2);
    open_with(s, &hooks, true, false);
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 10, 1);
    assert_int_equal(hooks.inside_result, CAFKA_ERR_IN_CALLBACK);
}

static void seek_and_removal_inside_take_effect(void **state)
{
    struct scene *s = *state;
    struct hooks hooks = {.inside = seek_inside};
    cafka_record_view record;
    produce_numbers(s, "orders", 0, 1, 6);
    open_with(s, &hooks, true, false);
    assign_one(s, "orders", 0, 0, 0);
    expect_numbers(s, 10, 1);
    assert_int_equal(hooks.inside_result, CAFKA_OK);
    expect_numbers(s, 40, 1);
    hooks.inside = remove_and_fail_inside;
    cafka_fetch *fetch = poll(s);
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
    assert_memory_equal(record.value, "5", 1);
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_END);
    cafka_fetch_free(fetch);
}

static void close_inside_ends_the_fetch_and_keeps_its_record(void **state)
{
    struct scene *s = *state;
    struct hooks hooks = {.inside = close_inside};
    cafka_record_view record;
    produce_numbers(s, "orders", 0, 1, 6);
    open_with(s, &hooks, true, false);
    assign_one(s, "orders", 0, 0, 0);
    cafka_fetch *fetch = poll(s), *next;
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
    hooks.inside = NULL;
    assert_int_equal(cafka_consumer_poll(s->consumer, 0, &next, NULL), CAFKA_ERR_CLOSED);
    cafka_consumer_free(s->consumer);
    s->consumer = NULL;
    assert_memory_equal(record.value, "10", 2);
    assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_END);
    cafka_fetch_free(fetch);
    assert_int_equal(hooks.closed, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(interceptor_sees_what_is_handed_out_and_nothing_else),
        TEST(failing_interceptor_is_logged_and_left_out),
        TEST(dropped_record_counts_as_read),
        TEST(deserializer_makes_objects_and_null_stays_null),
        TEST(record_that_no_object_can_be_made_of_is_an_error_of_its_partition),
        TEST(call_that_would_wait_is_refused_inside),
        TEST(seek_and_removal_inside_take_effect),
        TEST(close_inside_ends_the_fetch_and_keeps_its_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
