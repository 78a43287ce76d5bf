/*
 * test_idle.c - clients with nothing to do do nothing: in ten seconds their loops turn only for the
 * answers to long polls, and never without one.
 *
 * Time is virtual, and the world given to the clients counts how often they look.
 */
#include "mock/mock_fixture.h"

#include <cafka/admin.h>

#include "env/env.h"

enum { IDLE_MS = 10000, SETTLE_MS = 2000, PARTITIONS = 6, BROKERS = 3 };

static cafka_env counting; /* the simulated world, in which looks at sockets are counted */
static const cafka_env *simulated;
static int64_t looks, empty; /* empty: nothing was there */

static int count_look(const cafka_env *env, int poller, cafka_poll_event *out, int max,
                      int64_t deadline)
{
    int count = simulated->poller_wait(env, poller, out, max, deadline);
    looks++;
    empty += !count;
    return count;
}

static cafka_mock *open_world(void)
{
    static const char *const topics[] = {"orders:6:1"};
    cafka_mock *mock = start_cluster(5, topics, 1, NULL);
    simulated = cafka_mock_env(mock);
    counting = *simulated;
    counting.poller_wait = count_look;
    return mock;
}

static cafka_config *config_in(cafka_mock *mock, const char *properties)
{
    cafka_config *config = client_config(mock, properties);
    cafka_config_set_env(config, &counting);
    return config;
}

/* Looks of the clients while virtual time passes. */
static int64_t looks_in(cafka_mock *mock, int64_t ms)
{
    int64_t before = looks;
    assert_int_equal(cafka_mock_advance_ms(mock, ms, NULL), CAFKA_OK);
    return looks - before;
}

static void a_producer_and_an_admin_with_nothing_to_do_never_wake(void **state)
{
    (void)state;
    cafka_mock *mock = open_world();
    cafka_error err = {0};
    cafka_producer *producer;
    cafka_admin *admin;
    cafka_cluster_info *cluster;
    cafka_config *config = config_in(mock, "");
    assert_int_equal(cafka_producer_new(&producer, config, &err), CAFKA_OK);
    assert_int_equal(cafka_admin_new(&admin, config, &err), CAFKA_OK);
    cafka_config_free(config);
    for (int32_t p = 0; p < PARTITIONS; p++) { /* so that all three brokers are connected */
        cafka_record record = {.topic = "orders", .partition = p, .flags = CAFKA_RECORD_PARTITION};
        assert_int_equal(cafka_producer_send(producer, &record, &err), CAFKA_OK);
    }
    assert_int_equal(cafka_producer_flush(producer, 60000, &err), CAFKA_OK);
    assert_int_equal(cafka_admin_describe_cluster(admin, 60000, &cluster, &err), CAFKA_OK);
    cafka_cluster_info_free(cluster);
    (void)looks_in(mock, SETTLE_MS);
    assert_int_equal(looks_in(mock, IDLE_MS), 0);
    cafka_producer_free(producer);
    cafka_admin_free(admin);
    cafka_mock_free(mock);
}

static void a_consumer_wakes_for_answers_only(void **state)
{
    (void)state;
    cafka_mock *mock = open_world();
    cafka_error err = {0};
    cafka_consumer *consumer;
    cafka_fetch *fetch;
    cafka_config *config = config_in(mock, "fetch.max.wait.ms=500");
    assert_int_equal(cafka_consumer_new(&consumer, config, &err), CAFKA_OK);
    cafka_config_free(config);
    assign_from(consumer, "orders", PARTITIONS, CAFKA_OFFSET_BEGINNING);
    assert_int_equal(cafka_consumer_poll(consumer, 1000, &fetch, &err), CAFKA_OK);
    assert_null(fetch);
    (void)looks_in(mock, SETTLE_MS);
    int64_t asked = cafka_mock_requests(mock, NULL), fetched = cafka_mock_requests(mock, "Fetch");
    empty = 0;
    int64_t count = looks_in(mock, IDLE_MS);
    asked = cafka_mock_requests(mock, NULL) - asked;
    fetched = cafka_mock_requests(mock, "Fetch") - fetched;
    print_message("%lld empty of %lld looks for %lld fetches of %lld requests\n", (long long)empty,
                  (long long)count, (long long)fetched, (long long)asked);
    assert_int_equal(fetched, asked);                                /* nothing else is asked */
    assert_in_range(fetched, BROKERS * 15, BROKERS * IDLE_MS / 500); /* one a broker every 500 ms */
    assert_int_equal(empty, 0);                                      /* no timer but the brokers' */
    assert_in_range(count, fetched / 2, 3 * fetched); /* the network delivers in pieces */
    close_consumer(consumer);
    cafka_mock_free(mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_producer_and_an_admin_with_nothing_to_do_never_wake),
        cmocka_unit_test(a_consumer_wakes_for_answers_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
