/*
 * test_consumer_close.c - a consumer is closed, or just freed, in every state: within its deadline, and
 * what the application still holds stays valid and may be freed before or after it.
 */
#include "mock/consumer_scene.h"

enum {
    CLOSE_MS = 2000,
    STEPS_MS = 10 /* in the simulation a wait that is over lets the world move a step all the same */
};

/* Bring the consumer into a state. */
typedef void state_fn(struct scene *s);

static void answer_nothing(struct scene *s, const char *api)
{
    cafka_mock_rule rule = {.size = sizeof rule,
                            .api = api,
                            .action = CAFKA_MOCK_DELAY,
                            .delay_ms = 600000};
    assert_int_equal(cafka_mock_rule_add(s->mock, &rule, NULL, NULL), CAFKA_OK);
}

static void poll_for_ms(struct scene *s, int64_t ms)
{
    cafka_fetch *fetch = NULL;
    assert_int_equal(cafka_consumer_poll(s->consumer, ms, &fetch, NULL), CAFKA_OK);
    cafka_fetch_free(fetch);
}

static void just_opened(struct scene *s)
{
    (void)s;
}

static void just_assigned(struct scene *s)
{
    assign_from(s->consumer, "orders", 3, CAFKA_OFFSET_BEGINNING);
}

static void in_a_long_poll(struct scene *s)
{
    assign_from(s->consumer, "orders", 3, CAFKA_OFFSET_END);
    poll_for_ms(s, 1000);
    poll_for_ms(s, 100);
}

static void with_data_queued(struct scene *s)
{
    produce_numbers(s, "orders", 0, 0, 100);
    assign_from(s->consumer, "orders", 3, 0);
    poll_for_ms(s, 1000);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 1000, NULL), CAFKA_OK);
}

static void paused_in_the_middle(struct scene *s)
{
    cafka_position all[] = {{.topic = "orders"},
                            {.topic = "orders", .partition = 1},
                            {.topic = "orders", .partition = 2}};
    with_data_queued(s);
    expect_numbers(s, 0, 3);
    assert_int_equal(cafka_consumer_pause(s->consumer, all, 3, NULL), CAFKA_OK);
    poll_for_ms(s, 100);
}

static void looking_up_a_start(struct scene *s)
{
    answer_nothing(s, "ListOffsets");
    just_assigned(s);
    poll_for_ms(s, 1000);
}

static void fetching_from_silent_brokers(struct scene *s)
{
    answer_nothing(s, "Fetch");
    assign_from(s->consumer, "orders", 3, 0);
    poll_for_ms(s, 1000);
}

static void with_brokers_that_answer_nothing(struct scene *s)
{
    answer_nothing(s, NULL);
    just_assigned(s);
    poll_for_ms(s, 1000);
}

static void with_a_dead_broker(struct scene *s)
{
    with_data_queued(s);
    assert_int_equal(cafka_mock_broker_kill(s->mock, cafka_mock_leader(s->mock, "orders", 0), NULL),
                     CAFKA_OK);
}

static void with_all_brokers_dead(struct scene *s)
{
    with_data_queued(s);
    for (int32_t broker = 1; broker <= 3; broker++)
        assert_int_equal(cafka_mock_broker_kill(s->mock, broker, NULL), CAFKA_OK);
}

static void with_an_error_queued(struct scene *s)
{
    cafka_position missing = {.topic = "orders", .partition = 77};
    assert_int_equal(cafka_consumer_assign(s->consumer, &missing, 1, NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_advance_ms(s->mock, 8000, NULL), CAFKA_OK);
}

static void with_a_topic_that_does_not_exist(struct scene *s)
{
    cafka_position missing = {.topic = "nothing"};
    assert_int_equal(cafka_consumer_assign(s->consumer, &missing, 1, NULL), CAFKA_OK);
    poll_for_ms(s, 100);
}

static void right_after_a_seek_and_a_wakeup(struct scene *s)
{
    with_data_queued(s);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 50, NULL), CAFKA_OK);
    cafka_consumer_wakeup(s->consumer);
}

static void with_nothing_assigned_any_more(struct scene *s)
{
    with_data_queued(s);
    assert_int_equal(cafka_consumer_assign(s->consumer, NULL, 0, NULL), CAFKA_OK);
}

static const struct {
    const char *name;
    state_fn *enter;
} states[] = {
    {"just opened", just_opened},
    {"just assigned", just_assigned},
    {"in a long poll", in_a_long_poll},
    {"with data queued", with_data_queued},
    {"paused in the middle", paused_in_the_middle},
    {"looking up a start", looking_up_a_start},
    {"fetching from silent brokers", fetching_from_silent_brokers},
    {"with brokers that answer nothing", with_brokers_that_answer_nothing},
    {"with a dead broker", with_a_dead_broker},
    {"with all brokers dead", with_all_brokers_dead},
    {"with an error queued", with_an_error_queued},
    {"with a topic that does not exist", with_a_topic_that_does_not_exist},
    {"right after a seek and a wakeup", right_after_a_seek_and_a_wakeup},
    {"with nothing assigned any more", with_nothing_assigned_any_more},
};

static void open_in_state(struct scene *s, state_fn *enter)
{
    s->consumer =
        open_consumer(s->mock, "auto.offset.reset=earliest\nallow.auto.create.topics=false\n"
                               "max.poll.records=10");
    enter(s);
}

static void close_keeps_its_deadline_in_every_state(void **state)
{
    static const int64_t timeouts[] = {CLOSE_MS, 0};
    (void)state;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        for (int t = 0; t < 2; t++) {
            void *scene;
            cafka_error err = {0};
            cafka_fetch *fetch;
            set_up(&scene);
            struct scene *s = scene;
            open_in_state(s, states[i].enter);
            int64_t before = now_ms(s);
            int rc = cafka_consumer_close(s->consumer, timeouts[t], &err);
            if (rc && !(rc == CAFKA_ERR_TIMEOUT && !timeouts[t]))
                fail_msg("%s: %s", states[i].name, err.message);
            if (now_ms(s) - before > timeouts[t] + STEPS_MS)
                fail_msg("%s: closing took %d ms", states[i].name, (int)(now_ms(s) - before));
            assert_int_equal(cafka_consumer_poll(s->consumer, 0, &fetch, NULL), CAFKA_ERR_CLOSED);
            tear_down(&scene);
        }
}

static void free_alone_is_enough_in_every_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        void *scene;
        set_up(&scene);
        struct scene *s = scene;
        open_in_state(s, states[i].enter);
        cafka_consumer_free(s->consumer);
        s->consumer = NULL;
        tear_down(&scene);
    }
}

/* The cluster may be gone before its clients. */
static void cluster_that_is_gone_first_is_missed_within_the_deadline(void **state)
{
    struct scene *s = *state;
    open_in_state(s, with_data_queued);
    for (int32_t broker = 1; broker <= 3; broker++)
        assert_int_equal(cafka_mock_broker_stop(s->mock, broker, NULL), CAFKA_OK);
    close_consumer(s->consumer);
    s->consumer = NULL;
}

/* A fetch, a reference and a copy in the hand, let go before the consumer, after it, and in any order. */
static void what_is_held_outlives_the_consumer_in_any_order(void **state)
{
    (void)state;
    for (int order = 0; order < 8; order++) {
        void *scene;
        cafka_fetch *fetch;
        cafka_record_view record, *copy;
        set_up(&scene);
        struct scene *s = scene;
        open_in_state(s, with_data_queued);
        assert_int_equal(cafka_consumer_poll(s->consumer, 1000, &fetch, NULL), CAFKA_OK);
        assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
        cafka_fetch *again = cafka_fetch_ref(fetch);
        cafka_record_memory *memory = cafka_record_ref(&record);
        assert_int_equal(cafka_record_copy(&copy, &record, NULL), CAFKA_OK);
        if (order & 1)
            cafka_fetch_free(fetch);
        if (order & 2)
            assert_int_equal(cafka_consumer_close(s->consumer, CLOSE_MS, NULL), CAFKA_OK);
        cafka_consumer_free(s->consumer);
        s->consumer = NULL;
        if (!(order & 1))
            cafka_fetch_free(fetch);
        assert_memory_equal(record.value, copy->value, copy->value_size);
        assert_string_equal(record.topic, "orders");
        if (order & 4) {
            cafka_record_unref(memory);
            assert_memory_equal(record.value, copy->value, copy->value_size);
            cafka_fetch_free(again);
        } else {
            cafka_fetch_free(again);
            assert_memory_equal(record.value, copy->value, copy->value_size);
            cafka_record_unref(memory);
        }
        assert_string_equal(copy->topic, "orders");
        cafka_record_copy_free(copy);
        tear_down(&scene);
    }
}

static void on_event_close(const cafka_event *event, void *user)
{
    cafka_consumer **consumer = user;
    (void)event;
    if (!*consumer)
        return;
    assert_int_equal(cafka_consumer_close(*consumer, 1000, NULL), CAFKA_ERR_IN_CALLBACK);
    (void)cafka_consumer_close(*consumer, 0, NULL);
    *consumer = NULL;
}

static void close_inside_an_event_function_ends_the_poll(void **state)
{
    struct scene *s = *state;
    cafka_consumer *to_close = NULL;
    cafka_fetch *fetch;
    cafka_error err = {0};
    cafka_config *config = client_config(s->mock, "auto.offset.reset=earliest");
    cafka_config_on_event(config, on_event_close, &to_close);
    assert_int_equal(cafka_consumer_new(&s->consumer, config, NULL), CAFKA_OK);
    cafka_config_free(config);
    assign_from(s->consumer, "orders", 3, 0);
    poll_for_ms(s, 1000);
    to_close = s->consumer;
    for (int32_t broker = 1; broker <= 3; broker++)
        assert_int_equal(cafka_mock_broker_kill(s->mock, broker, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_poll(s->consumer, 120000, &fetch, &err), CAFKA_ERR_CLOSED);
    assert_null(fetch);
    cafka_consumer_free(s->consumer);
    s->consumer = NULL;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_keeps_its_deadline_in_every_state),
        cmocka_unit_test(free_alone_is_enough_in_every_state),
        TEST(cluster_that_is_gone_first_is_missed_within_the_deadline),
        cmocka_unit_test(what_is_held_outlives_the_consumer_in_any_order),
        TEST(close_inside_an_event_function_ends_the_poll),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
