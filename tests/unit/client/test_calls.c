/*
 * test_calls.c - calls: to which broker they go, how long they wait for it, and how they end.
 */
#include "test_call.h"

static void a_call_goes_to_the_broker_it_names(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    fixture_start(f);
    for (int32_t id = 1; id <= BROKERS; id++) {
        start_call(f, &c, id, 0);
        wait_call(f, &c);
        assert_int_equal(c.error.code, 0);
        assert_int_equal(c.broker, id);
        assert_int_equal(c.prepared, message_max_version(&describe_cluster_request_message));
    }
}

static void a_call_to_any_broker_finds_one(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    script_broker_down(&f->cluster.brokers[0]);
    script_broker_down(&f->cluster.brokers[2]);
    fixture_start(f);
    start_call(f, &c, CALL_ANY, 2000);
    wait_call(f, &c);
    assert_int_equal(c.error.code, 0);
}

static void a_call_that_is_made_before_anything_is_known_waits(void **state)
{
    struct client_fixture *f = *state;
    struct test_call any, controller, second;
    fixture_make_client(f);
    start_call(f, &any, CALL_ANY, 2000);
    start_call(f, &controller, CALL_CONTROLLER, 2000);
    start_call(f, &second, 2, 2000);
    client_start(&f->client);
    wait_call(f, &any);
    wait_call(f, &controller);
    wait_call(f, &second);
    assert_int_equal(any.error.code, 0);
    assert_int_equal(controller.broker, 1);
    assert_int_equal(second.broker, 2);
}

static void a_call_to_the_controller_follows_it(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    fixture_start(f);
    script_broker_down(&f->cluster.brokers[0]);
    test_run_ms(f->loop, 50);
    start_call(f, &c, CALL_CONTROLLER, 3000);
    test_run_ms(f->loop, 100);
    assert_int_equal(c.done, 0);
    f->cluster.controller = 2;
    fixture_refresh(f);
    wait_call(f, &c);
    assert_int_equal(c.error.code, 0);
    assert_int_equal(c.broker, 2);
}

static void a_call_that_cannot_be_sent_says_why(void **state)
{
    struct client_fixture *f = *state;
    struct test_call dead, unknown;
    fixture_start(f);
    script_broker_down(&f->cluster.brokers[1]);
    start_call(f, &dead, 2, 200);
    start_call(f, &unknown, 42, 200);
    wait_call(f, &dead);
    assert_int_equal(dead.error.code, CAFKA_ERR_TIMEOUT);
    assert_false(dead.error.flags & CAFKA_UNKNOWN_OUTCOME);
    assert_non_null(strstr(dead.error.message, "DescribeCluster"));
    assert_non_null(strstr(dead.error.message, "refused"));
    wait_call(f, &unknown);
    assert_int_equal(unknown.error.code, CAFKA_ERR_TIMEOUT);
}

static void a_call_without_answer_in_time_has_an_unknown_outcome(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    fixture_start(f);
    script_rule_add(&f->cluster, API_DESCRIBE_CLUSTER, SCRIPT_SILENT, 0);
    start_call(f, &c, 1, 100);
    wait_call(f, &c);
    assert_int_equal(c.error.code, CAFKA_ERR_TIMEOUT);
    assert_true(c.error.flags & CAFKA_UNKNOWN_OUTCOME);
}

static void a_call_of_an_API_that_the_broker_lacks_fails_at_once(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    f->cluster.brokers[0].max_version[API_DESCRIBE_CLUSTER] = -1;
    fixture_start(f);
    start_call(f, &c, 1, 5000);
    wait_call(f, &c);
    assert_int_equal(c.error.code, CAFKA_ERR_UNSUPPORTED);
    assert_int_equal(c.prepared, 0);
}

static void a_cancelled_call_is_never_done(void **state)
{
    struct client_fixture *f = *state;
    struct test_call waiting, sent, kept;
    fixture_start(f);
    start_call(f, &waiting, 42, 200);
    script_rule_add(&f->cluster, API_DESCRIBE_CLUSTER, SCRIPT_DELAY, 50);
    start_call(f, &sent, 1, 200);
    test_run_ms(f->loop, 20);
    client_call_cancel(&waiting.call);
    client_call_cancel(&sent.call);
    client_call_cancel(&sent.call); /* again: nothing */
    test_run_ms(f->loop, 300);      /* the answer comes and finds nobody */
    start_call(f, &kept, 1, 0);
    wait_call(f, &kept);
    assert_int_equal(waiting.done, 0);
    assert_int_equal(sent.done, 0);
    assert_int_equal(kept.error.code, 0);
}

static void a_call_whose_connection_breaks_fails_and_is_not_repeated(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    fixture_start(f);
    script_rule_add(&f->cluster, API_DESCRIBE_CLUSTER, SCRIPT_CLOSE, 0);
    start_call(f, &c, 1, 2000);
    wait_call(f, &c);
    assert_int_equal(c.error.code, CAFKA_ERR_TRANSPORT);
    assert_true(c.error.flags & CAFKA_UNKNOWN_OUTCOME);
    assert_int_equal(script_count(&f->cluster, API_DESCRIBE_CLUSTER), 1);
}

static void rooms_hear_of_connections_that_can_take_requests_and_that_break(void **state)
{
    struct client_fixture *f = *state;
    fixture_start(f);
    f->writable = 0;
    struct conn *conn = broker_conn(client_broker(&f->client, 2), LANE_DATA);
    assert_false(conn_can_send(conn));
    test_run_ms(f->loop, 50);
    assert_true(f->writable >= 1);
    assert_true(conn_can_send(conn));
    int down = f->down;
    script_cut(&f->cluster.brokers[1]);
    test_run_ms(f->loop, 50);
    assert_true(f->down > down);
    assert_int_equal(f->events, 0); /* a served connection that ends is daily life */
}

/* Its connection breaks while the call waits: somebody may have to look for another broker. */
static void an_impatient_call_ends_when_its_broker_cannot_be_reached(void **state)
{
    struct client_fixture *f = *state;
    struct test_call dead, unknown;
    fixture_start(f);
    script_broker_down(&f->cluster.brokers[1]);
    start_call(f, &dead, 2, 3000);
    dead.call.impatient = true;
    int64_t before_ms = loop_now_ms(f->loop);
    wait_call(f, &dead);
    assert_int_equal(dead.error.code, CAFKA_ERR_TRANSPORT);
    assert_true(dead.error.flags & CAFKA_RETRIABLE);
    assert_non_null(strstr(dead.error.message, "refused"));
    start_call(f, &unknown, 42, 3000);
    unknown.call.impatient = true;
    wait_call(f, &unknown);
    assert_int_equal(unknown.error.code, CAFKA_ERR_TRANSPORT);
    assert_non_null(strstr(unknown.error.message, "no broker 42"));
    assert_in_range(loop_now_ms(f->loop) - before_ms, 0, 100);
}

/* A broker that joins is found as soon as somebody needs it, not when metadata is old. */
static void a_call_to_a_broker_that_is_not_known_asks_for_it(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    f->cluster.brokers[2].hidden = true;
    fixture_start(f);
    start_call(f, &c, 3, 3000);
    test_run_ms(f->loop, 100);
    assert_int_equal(c.done, 0);
    f->cluster.brokers[2].hidden = false;
    wait_call(f, &c);
    assert_int_equal(c.error.code, 0);
    assert_int_equal(c.broker, 3);
    /* A few times, with a backoff; not in a loop. */
    assert_in_range(script_count(&f->cluster, API_METADATA), 2, 12);
}

/* What the cluster names no more gets no new work, though its connection stands. */
static void a_broker_that_left_the_cluster_is_not_called(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    fixture_start(f);
    start_call(f, &c, 3, 1000);
    wait_call(f, &c);
    assert_int_equal(c.error.code, 0);
    f->cluster.brokers[2].hidden = true;
    fixture_refresh(f);
    start_call(f, &c, 3, 200);
    wait_call(f, &c);
    assert_int_equal(c.error.code, CAFKA_ERR_TIMEOUT);
    assert_non_null(strstr(c.error.message, "named no broker 3"));
}

/* HARD 28: the version is that of the broker which gets it, not of the one that was there before. */
static void a_call_that_waited_has_the_version_of_the_broker_that_came_back(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    fixture_start(f);
    start_call(f, &c, 2, 1000);
    wait_call(f, &c);
    assert_true(c.prepared > 0);
    script_broker_down(&f->cluster.brokers[1]);
    test_run_ms(f->loop, 50);
    start_call(f, &c, 2, 3000);
    test_run_ms(f->loop, 100);
    f->cluster.brokers[1].max_version[API_DESCRIBE_CLUSTER] = 0;
    script_broker_up(&f->cluster.brokers[1]);
    wait_call(f, &c);
    assert_int_equal(c.error.code, 0);
    assert_int_equal(c.prepared, 0);
}

/* With every slot taken a call waits for the first that is free, not for the next look around. */
static void a_call_to_any_broker_goes_when_a_slot_is_free(void **state)
{
    struct client_fixture *f = *state;
    enum { COUNT = 50 };
    struct test_call *calls = calloc(COUNT, sizeof *calls);
    f->cluster.brokers[1].hidden = f->cluster.brokers[2].hidden = true;
    fixture_start(f);
    for (int i = 0; i < COUNT; i++)
        script_rule_add(&f->cluster, API_DESCRIBE_CLUSTER, SCRIPT_DELAY, 30);
    int64_t before_ms = loop_now_ms(f->loop);
    for (int i = 0; i < COUNT; i++)
        start_call(f, &calls[i], CALL_ANY, 3000);
    for (int i = 0; i < COUNT; i++) {
        wait_call(f, &calls[i]);
        assert_int_equal(calls[i].error.code, 0);
    }
    assert_in_range(loop_now_ms(f->loop) - before_ms, 90, 400); /* 20 at a time */
    free(calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLIENT_TEST(a_call_goes_to_the_broker_it_names),
        CLIENT_TEST(a_call_to_any_broker_finds_one),
        CLIENT_TEST(a_call_that_is_made_before_anything_is_known_waits),
        CLIENT_TEST(a_call_to_the_controller_follows_it),
        CLIENT_TEST(a_call_that_cannot_be_sent_says_why),
        CLIENT_TEST(a_call_without_answer_in_time_has_an_unknown_outcome),
        CLIENT_TEST(a_call_of_an_API_that_the_broker_lacks_fails_at_once),
        CLIENT_TEST(a_cancelled_call_is_never_done),
        CLIENT_TEST(a_call_whose_connection_breaks_fails_and_is_not_repeated),
        CLIENT_TEST(rooms_hear_of_connections_that_can_take_requests_and_that_break),
        CLIENT_TEST(an_impatient_call_ends_when_its_broker_cannot_be_reached),
        CLIENT_TEST(a_call_to_a_broker_that_is_not_known_asks_for_it),
        CLIENT_TEST(a_broker_that_left_the_cluster_is_not_called),
        CLIENT_TEST(a_call_that_waited_has_the_version_of_the_broker_that_came_back),
        CLIENT_TEST(a_call_to_any_broker_goes_when_a_slot_is_free),
    };
    return cmocka_run_group_tests_name("calls", tests, NULL, NULL);
}
