/*
 * test_mock_faults.c - what <cafka/mock.h> does to a simulated cluster, as a client feels it: links
 * that are slow, down or cut, elections that lose records, configs that shrink.
 */
#include "mock/mock_fixture.h"

#include "protocol/error_codes.h"

static const char *const one_topic[] = {"orders:1:3"};

static cafka_producer *open_producer(cafka_mock *mock, const char *properties)
{
    cafka_config *config = client_config(mock, properties);
    cafka_producer *producer;
    cafka_error err = {0};
    if (cafka_producer_new(&producer, config, &err))
        fail_msg("no producer: %s", err.message);
    cafka_config_free(config);
    return producer;
}

static void close_producer(cafka_producer *producer)
{
    cafka_error err = {0};
    if (cafka_producer_close(producer, 60000, &err))
        fail_msg("closing a producer: %s", err.message);
    cafka_producer_free(producer);
}

/* Send one value and wait for its report: its error, and where it went. */
static int send_wait(cafka_producer *producer, const void *value, size_t size, int64_t *offset)
{
    cafka_delivery_report report = {0};
    cafka_record record = {.topic = "orders", .value = value, .value_size = size};
    int rc = cafka_producer_send_wait(producer, &record, &report, NULL);
    *offset = rc ? -1 : report.offset;
    return rc;
}

static int64_t now_ms(cafka_mock *mock)
{
    const cafka_env *env = cafka_mock_env(mock);
    return env->now(env) / 1000000;
}

static void a_slow_link_takes_its_time(void **state)
{
    (void)state;
    cafka_mock *mock = start_cluster(1, one_topic, 1, NULL);
    cafka_producer *producer = open_producer(mock, "linger.ms=0");
    cafka_error err = {0};
    int64_t offset, before;
    assert_int_equal(send_wait(producer, "a", 1, &offset), 0);
    before = now_ms(mock);
    assert_int_equal(send_wait(producer, "b", 1, &offset), 0);
    assert_true(now_ms(mock) - before < 50);

    cafka_mock_link link = {.size = sizeof link,
                            .broker = cafka_mock_leader(mock, "orders", 0),
                            .peer = CAFKA_MOCK_CLIENTS,
                            .latency_ms = 200};
    assert_int_equal(cafka_mock_link_set(mock, &link, &err), 0);
    before = now_ms(mock);
    assert_int_equal(send_wait(producer, "c", 1, &offset), 0);
    assert_true(now_ms(mock) - before >= 400);

    link.latency_ms = 0;
    assert_int_equal(cafka_mock_link_set(mock, &link, &err), 0);
    before = now_ms(mock);
    assert_int_equal(send_wait(producer, "d", 1, &offset), 0);
    assert_true(now_ms(mock) - before < 50);
    close_producer(producer);
    cafka_mock_free(mock);
}

static void what_waits_behind_a_link_that_is_down_comes_late(void **state)
{
    (void)state;
    cafka_mock *mock = start_cluster(2, one_topic, 1, NULL);
    cafka_producer *producer = open_producer(mock, "linger.ms=0");
    cafka_error err = {0};
    int64_t offset;
    assert_int_equal(send_wait(producer, "a", 1, &offset), 0);
    cafka_mock_link link = {.size = sizeof link,
                            .broker = cafka_mock_leader(mock, "orders", 0),
                            .down = 1};
    assert_int_equal(cafka_mock_link_set(mock, &link, &err), 0);
    cafka_record record = {.topic = "orders", .value = "b", .value_size = 1};
    assert_int_equal(cafka_producer_send(producer, &record, &err), 0);
    assert_int_equal(cafka_producer_flush(producer, 5000, &err), CAFKA_ERR_TIMEOUT);

    link.down = 0;
    assert_int_equal(cafka_mock_link_set(mock, &link, &err), 0);
    assert_int_equal(cafka_producer_flush(producer, 60000, &err), 0);
    assert_int_equal(send_wait(producer, "c", 1, &offset), 0);
    assert_int_equal(offset, 2);
    close_producer(producer);
    cafka_mock_free(mock);
}

/* The world moves inside calls that ask for something, and a call that does not wait takes a small step. */
static void the_world_moves_only_when_somebody_asks(void **state)
{
    (void)state;
    cafka_mock *mock = start_cluster(3, one_topic, 1, NULL);
    cafka_producer *producer = open_producer(mock, "linger.ms=0");
    cafka_consumer *consumer = open_consumer(mock, "");
    cafka_fetch *fetch = NULL;
    cafka_error err = {0};
    int64_t offset;
    int polls = 0;
    assert_int_equal(send_wait(producer, "a", 1, &offset), 0);
    int64_t before = now_ms(mock);
    for (int i = 0; i < 1000; i++) {
        cafka_record record = {.topic = "orders", .value = "b", .value_size = 1};
        assert_int_equal(cafka_producer_send(producer, &record, &err), 0);
    }
    assert_int_equal(now_ms(mock), before);

    assign_from(consumer, "orders", 1, 0);
    for (; !fetch && polls < 100000; polls++)
        assert_int_equal(cafka_consumer_poll(consumer, 0, &fetch, &err), 0);
    assert_non_null(fetch);
    assert_true(polls > 1);
    assert_true(now_ms(mock) - before < 1000);
    cafka_fetch_free(fetch);
    close_consumer(consumer);
    close_producer(producer);
    cafka_mock_free(mock);
}

static void a_cut_connection_loses_nothing_and_doubles_nothing(void **state)
{
    (void)state;
    cafka_mock *mock = start_cluster(4, one_topic, 1, NULL);
    cafka_producer *producer = open_producer(mock, "linger.ms=0");
    cafka_error err = {0};
    int64_t offset;
    for (int i = 0; i < 20; i++) {
        cafka_record record = {.topic = "orders", .value = "v", .value_size = 1};
        assert_int_equal(cafka_producer_send(producer, &record, &err), 0);
        cafka_mock_advance_ms(mock, 1, NULL);
        assert_int_equal(cafka_mock_link_cut(mock, cafka_mock_leader(mock, "orders", 0), &err), 0);
    }
    assert_int_equal(send_wait(producer, "last", 4, &offset), 0);
    assert_int_equal(offset, 20);
    close_producer(producer);
    cafka_mock_free(mock);
}

static void an_unclean_election_loses_the_end_of_the_log(void **state)
{
    (void)state;
    cafka_mock *mock = start_cluster(5, one_topic, 1, NULL);
    cafka_error err = {0};
    int64_t offset;
    cafka_producer *producer = open_producer(mock, "linger.ms=0\nenable.idempotence=false");
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_wait(producer, "before", 6, &offset), 0);
    int32_t leader = cafka_mock_leader(mock, "orders", 0), other = leader % 3 + 1;
    assert_int_equal(cafka_mock_leader_elect_unclean(mock, "orders", 0, other, 5, &err), 0);
    assert_int_equal(cafka_mock_leader(mock, "orders", 0), other);
    assert_int_equal(send_wait(producer, "after", 5, &offset), 0);
    assert_int_equal(offset, 5);

    /* the one that has it all back follows: what was cut is cut everywhere */
    assert_int_equal(cafka_mock_leader_move(mock, "orders", 0, leader, &err), 0);
    assert_int_equal(send_wait(producer, "after", 5, &offset), 0);
    assert_int_equal(offset, 6);

    /* the same leader, nothing lost: a new epoch only */
    assert_int_equal(cafka_mock_leader_elect_unclean(mock, "orders", 0, -1, 7, &err), 0);
    assert_int_equal(send_wait(producer, "after", 5, &offset), 0);
    assert_int_equal(offset, 7);
    close_producer(producer);

    assert_int_equal(cafka_mock_leader_elect_unclean(mock, "none", 0, -1, 7, &err),
                     ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(cafka_mock_leader_elect_unclean(mock, "orders", 0, 9, 7, &err),
                     ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE);
    assert_int_equal(cafka_mock_leader_elect_unclean(mock, "orders", 0, -1, -1, &err),
                     ERR_OFFSET_OUT_OF_RANGE);
    cafka_mock_free(mock);
}

static void a_topic_takes_less_from_now_on(void **state)
{
    (void)state;
    static char value[4000];
    cafka_mock *mock = start_cluster(6, one_topic, 1, NULL);
    cafka_error err = {0};
    int64_t offset;
    cafka_producer *producer = open_producer(mock, "linger.ms=0");
    assert_int_equal(send_wait(producer, value, sizeof value, &offset), 0);
    assert_int_equal(cafka_mock_topic_config(mock, "orders", "max.message.bytes=1000", &err), 0);
    assert_int_equal(send_wait(producer, value, sizeof value, &offset), ERR_MESSAGE_TOO_LARGE);
    assert_int_equal(cafka_mock_topic_config(mock, "orders", "max.message.bytes=x", &err),
                     ERR_INVALID_CONFIG);
    assert_int_equal(cafka_mock_topic_config(mock, "none", "max.message.bytes=1", &err),
                     ERR_UNKNOWN_TOPIC_OR_PARTITION);
    close_producer(producer);
    cafka_mock_free(mock);
}

static void links_that_are_not_there_are_refused(void **state)
{
    (void)state;
    cafka_mock *mock = start_cluster(7, one_topic, 1, NULL);
    cafka_error err = {0};
    cafka_mock_link link = {.size = sizeof link, .broker = 4};
    assert_int_equal(cafka_mock_link_set(mock, &link, &err), CAFKA_ERR_ARGUMENT);
    link = (cafka_mock_link){.size = sizeof link, .broker = 1, .peer = 9};
    assert_int_equal(cafka_mock_link_set(mock, &link, &err), CAFKA_ERR_ARGUMENT);
    link = (cafka_mock_link){.size = sizeof link, .broker = 1, .latency_ms = -1};
    assert_int_equal(cafka_mock_link_set(mock, &link, &err), CAFKA_ERR_ARGUMENT);
    link = (cafka_mock_link){.size = 0, .broker = 1};
    assert_int_equal(cafka_mock_link_set(mock, &link, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_mock_link_set(mock, NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_mock_link_cut(mock, 4, &err), CAFKA_ERR_ARGUMENT);
    cafka_mock_free(mock);

    cafka_mock_options real = {.size = sizeof real};
    assert_int_equal(cafka_mock_new(&mock, &real, &err), 0);
    link = (cafka_mock_link){.size = sizeof link, .broker = 1};
    assert_int_equal(cafka_mock_link_set(mock, &link, &err), CAFKA_ERR_STATE);
    assert_int_equal(cafka_mock_link_cut(mock, 1, &err), 0);
    assert_int_equal(cafka_mock_link_cut(mock, 2, &err), CAFKA_ERR_ARGUMENT);
    cafka_mock_free(mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_link_takes_its_time),
        cmocka_unit_test(what_waits_behind_a_link_that_is_down_comes_late),
        cmocka_unit_test(the_world_moves_only_when_somebody_asks),
        cmocka_unit_test(a_cut_connection_loses_nothing_and_doubles_nothing),
        cmocka_unit_test(an_unclean_election_loses_the_end_of_the_log),
        cmocka_unit_test(a_topic_takes_less_from_now_on),
        cmocka_unit_test(links_that_are_not_there_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
