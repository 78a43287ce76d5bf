/*
 * test_conn.c - one connection and a broker that behaves, comes, goes and moves.
 */
#include "conn_fixture.h"

/* --- versions --- */

static void a_new_connection_asks_for_versions_and_is_ready(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(conn_version(f->conn, API_PRODUCE, -1), -1);
    make_ready(f);
    assert_int_equal(f->ready, 1);
    assert_int_equal(f->cluster.requests[0].api_key, API_API_VERSIONS);
    assert_int_equal(f->cluster.requests[0].version,
                     message_max_version(&api_versions_request_message));
    assert_int_equal(conn_version(f->conn, API_HEARTBEAT, -1),
                     message_max_version(&heartbeat_request_message));
    assert_int_equal(conn_version(f->conn, API_HEARTBEAT, 2), 2);
}

static void the_highest_common_version_is_used(void **state)
{
    struct fixture *f = *state;
    cafka_error err = {0};
    f->broker->max_version[API_HEARTBEAT] = 1;
    f->broker->max_version[API_FIND_COORDINATOR] = -1;
    make_ready(f);
    assert_int_equal(conn_version(f->conn, API_HEARTBEAT, -1), 1);
    assert_int_equal(conn_version(f->conn, API_FIND_COORDINATOR, -1), -1);
    assert_int_equal(conn_unsupported(f->conn, API_FIND_COORDINATOR, &err), CAFKA_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "FindCoordinator"));
}

static void error_35_is_answered_with_the_version_that_the_broker_lists(void **state)
{
    struct fixture *f = *state;
    f->broker->versions_from = 2;
    f->broker->max_version[API_API_VERSIONS] = 2;
    make_ready(f);
    assert_int_equal(f->cluster.request_count, 2);
    assert_int_equal(f->cluster.requests[1].version, 2);
    assert_int_equal(f->broker->accepted, 1);
}

static void error_35_with_an_empty_list_means_version_0(void **state)
{
    struct fixture *f = *state;
    f->broker->versions_from = 0;
    f->broker->versions_empty = true;
    make_ready(f);
    assert_int_equal(f->cluster.request_count, 2);
    assert_int_equal(f->cluster.requests[1].version, 0);
}

static void a_broker_that_closes_on_new_versions_is_asked_with_version_0(void **state)
{
    struct fixture *f = *state;
    f->broker->versions_closes = true;
    make_ready(f);
    assert_int_equal(f->broker->accepted, 2);
    assert_int_equal(f->cluster.requests[1].version, 0);
    assert_int_equal(f->down, 0);
}

static void a_broker_that_refuses_every_version_is_told_in_the_error(void **state)
{
    struct fixture *f = *state;
    f->broker->versions_from = 0;
    script_rule_add(&f->cluster, API_API_VERSIONS, SCRIPT_ERROR, ERR_UNSUPPORTED_VERSION);
    script_rule_add(&f->cluster, API_API_VERSIONS, SCRIPT_ERROR, ERR_UNSUPPORTED_VERSION);
    conn_open(f->conn);
    assert_true(test_run_until(f->loop, is_down, f, 5000));
    assert_int_equal(f->why.code, ERR_UNSUPPORTED_VERSION);
}

/* --- requests --- */

static void requests_are_pipelined_up_to_the_limit_and_answered_in_order(void **state)
{
    struct fixture *f = *state;
    struct ask asks[IN_FLIGHT] = {0}, extra = {0};
    cafka_error err = {0};
    make_ready(f);
    done_count = 0;
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_DELAY, 50);
    for (int i = 0; i < IN_FLIGHT; i++)
        ask_heartbeat(f, &asks[i]);
    assert_false(conn_can_send(f->conn));
    assert_int_equal(send_heartbeat(f, &extra, &err), CAFKA_ERR_STATE);
    /* The script answers the delayed one last: out of order, which a client must not take. */
    wait_for(f, &asks[0]);
    assert_int_equal(asks[0].error.code, CAFKA_ERR_PROTOCOL);
    assert_int_equal(asks[2].order, 3);
}

static void answers_come_in_order_and_free_their_slots(void **state)
{
    struct fixture *f = *state;
    struct ask asks[IN_FLIGHT] = {0};
    make_ready(f);
    for (int round = 0; round < 50; round++) {
        done_count = 0;
        for (int i = 0; i < IN_FLIGHT; i++) {
            asks[i] = (struct ask){0};
            ask_heartbeat(f, &asks[i]);
        }
        wait_for(f, &asks[IN_FLIGHT - 1]);
        for (int i = 0; i < IN_FLIGHT; i++) {
            assert_int_equal(asks[i].order, i + 1);
            assert_int_equal(asks[i].error.code, 0);
        }
        assert_true(conn_can_send(f->conn));
    }
    assert_int_equal(f->broker->accepted, 1);
    assert_true(f->writable >= 50);
}

static void a_request_in_steady_state_allocates_nothing(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0};
    make_ready(f);
    unsigned long script = 0;
    for (int i = 0; i < 20; i++) {
        ask = (struct ask){0};
        mem_fail_after(0, 0);
        cafka_error err = {0};
        assert_int_equal(send_heartbeat(f, &ask, &err), 0);
        unsigned long sending = mem_count();
        wait_for(f, &ask);
        script =
            mem_count() - sending; /* the script broker allocates, so only conn_send() is counted */
        if (i > 2)
            assert_int_equal(sending, 0);
    }
    assert_true(script > 0);
}

static void a_request_without_answer_closes_the_connection_in_time(void **state)
{
    struct fixture *f = *state;
    struct ask first = {0}, second = {0};
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_SILENT, 0);
    int64_t before = loop_now_ms(f->loop);
    ask_heartbeat(f, &first);
    second.request.timeout_ms = 10 * REQUEST_TIMEOUT_MS;
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_SILENT, 0);
    ask_heartbeat(f, &second);
    wait_for(f, &first);
    assert_in_range(loop_now_ms(f->loop) - before, REQUEST_TIMEOUT_MS, REQUEST_TIMEOUT_MS + 100);
    assert_int_equal(first.error.code, CAFKA_ERR_TIMEOUT);
    assert_true(first.error.flags & CAFKA_UNKNOWN_OUTCOME);
    assert_int_equal(second.done, 1); /* all that is in flight goes with the connection */
    assert_int_equal(f->down, 1);
    assert_int_equal(conn_state(f->conn), CONN_IDLE);
}

static void throttled_the_connection_sends_nothing_and_its_time_does_not_count(void **state)
{
    struct fixture *f = *state;
    struct ask first = {0}, second = {0};
    enum { THROTTLE_MS = 2 * REQUEST_TIMEOUT_MS };
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_THROTTLE, THROTTLE_MS);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_DELAY, THROTTLE_MS);
    ask_heartbeat(f, &first);
    ask_heartbeat(f, &second);
    int64_t before = loop_now_ms(f->loop);
    wait_for(f, &first);
    assert_false(conn_can_send(f->conn));
    assert_true(conn_blocked_until_ms(f->conn) > before);
    int writable = f->writable;
    wait_for(f, &second);
    assert_int_equal(second.error.code, 0);
    test_run_ms(f->loop, THROTTLE_MS + 10 - (loop_now_ms(f->loop) - before));
    assert_true(conn_can_send(f->conn));
    assert_true(f->writable > writable);
}

static void an_old_version_leaves_throttling_to_the_broker(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0};
    f->broker->max_version[API_HEARTBEAT] = 1; /* the client's duty begins with version 2 */
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_THROTTLE, 1000);
    ask_heartbeat(f, &ask);
    wait_for(f, &ask);
    assert_true(conn_can_send(f->conn));
}

static void a_request_without_response_is_done_once_written(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0}, after = {0};
    char records[100] = {0};
    struct iovec iov = {records, sizeof records};
    struct conn_pieces pieces = {&iov, 1};
    cafka_error err = {0};
    make_ready(f);
    script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_SILENT, 0);
    assert_int_equal(send_produce(f, &ask, &pieces, sizeof records, 0, &err), 0);
    assert_int_equal(ask.done, 0);
    wait_for(f, &ask);
    assert_int_equal(ask.error.code, 0);
    ask_heartbeat(f, &after);
    wait_for(f, &after);
    assert_int_equal(after.error.code, 0);
}

static void pieces_arrive_where_they_belong(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0};
    char a[] = "one", b[] = "twotwo";
    struct iovec iov[] = {{a, 3}, {b, 0}, {b, 6}};
    struct conn_pieces pieces = {iov, 3};
    cafka_error err = {0};
    make_ready(f);
    assert_int_equal(send_produce(f, &ask, &pieces, 9, 1, &err), 0);
    wait_for(f, &ask); /* the script decodes nothing of it, but its size has to be right for this */
    assert_int_equal(ask.error.code, 0);
    assert_int_equal(script_count(&f->cluster, API_PRODUCE), 1);
}

static void a_cancelled_request_is_never_done_and_the_others_are(void **state)
{
    struct fixture *f = *state;
    struct ask cancelled = {0}, kept = {0};
    make_ready(f);
    ask_heartbeat(f, &cancelled);
    ask_heartbeat(f, &kept);
    conn_cancel(&cancelled.request);
    wait_for(f, &kept);
    assert_int_equal(kept.error.code, 0);
    assert_int_equal(cancelled.done, 0);
    assert_int_equal(conn_in_flight(f->conn), 0);
}

/* --- again and again --- */

static bool eight_downs(void *arg)
{
    return ((struct fixture *)arg)->down >= 8;
}

static void attempts_come_at_doubled_intervals_up_to_the_maximum(void **state)
{
    struct fixture *f = *state;
    script_broker_down(f->broker);
    f->reopen = true;
    conn_open(f->conn);
    assert_true(test_run_until(f->loop, eight_downs, f, 10000));
    f->reopen = false;
    for (int i = 1; i < 8; i++) {
        int64_t gap_ms = f->down_at_ms[i] - f->down_at_ms[i - 1];
        int64_t nominal_ms =
            BACKOFF_MS << (i - 1) < BACKOFF_MAX_MS ? BACKOFF_MS << (i - 1) : BACKOFF_MAX_MS;
        assert_in_range(gap_ms, nominal_ms * 8 / 10, nominal_ms * 12 / 10 + 20);
    }
    assert_int_equal(f->why.code, CAFKA_ERR_TRANSPORT);
    assert_non_null(strstr(f->why.message, "refused"));
}

static void a_broker_that_comes_back_is_found_again(void **state)
{
    struct fixture *f = *state;
    make_ready(f);
    f->reopen = true;
    script_broker_down(f->broker);
    assert_true(test_run_until(f->loop, is_down, f, 1000));
    test_run_ms(f->loop, 100);
    assert_int_equal(f->ready, 1);
    script_broker_up(f->broker);
    assert_true(test_run_until(f->loop, is_ready, f, 5000));
    struct ask ask = {0};
    ask_heartbeat(f, &ask);
    wait_for(f, &ask);
    assert_int_equal(ask.error.code, 0);
    f->reopen = false;
}

static void a_broker_that_comes_back_older_is_asked_for_its_versions_again(void **state)
{
    struct fixture *f = *state;
    make_ready(f);
    int newest = conn_version(f->conn, API_HEARTBEAT, -1);
    script_broker_down(f->broker);
    assert_true(test_run_until(f->loop, is_down, f, 1000));
    f->broker->max_version[API_HEARTBEAT] = (int16_t)(newest - 1);
    script_broker_up(f->broker);
    make_ready(f);
    assert_int_equal(conn_version(f->conn, API_HEARTBEAT, -1), newest - 1);
}

static void an_idle_connection_is_closed_without_an_error(void **state)
{
    struct fixture *f = *state;
    f->options.max_idle_ms = IDLE_MS;
    make_ready(f);
    test_run_ms(f->loop, IDLE_MS / 2);
    struct ask ask = {0};
    ask_heartbeat(f, &ask);
    wait_for(f, &ask);
    test_run_ms(f->loop, IDLE_MS * 3 / 4);
    assert_int_equal(f->down, 0); /* it was used half a time ago */
    assert_true(test_run_until(f->loop, is_down, f, IDLE_MS));
    assert_int_equal(f->why.code, 0);
    make_ready(f); /* and at once again */
}

static void a_broker_that_moved_is_left_once_it_has_answered(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0};
    struct script_cluster *other = calloc(1, sizeof *other);
    cafka_error err = {0};
    script_open(other, f->loop, 1);
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_DELAY, 30);
    ask_heartbeat(f, &ask);
    assert_int_equal(conn_move_to(f->conn, "127.0.0.1", other->brokers[0].port, &err), 0);
    assert_false(conn_can_send(f->conn));
    wait_for(f, &ask);
    assert_int_equal(ask.error.code, 0);
    assert_true(test_run_until(f->loop, is_down, f, 1000));
    assert_int_equal(f->why.code, 0);
    make_ready(f);
    assert_int_equal(other->brokers[0].accepted, 1);
    conn_free(f->conn);
    f->conn = NULL;
    script_close(other);
    free(other);
}

/* What the old place did says nothing about the new one. */
static void a_broker_that_moved_is_dialed_at_once_though_the_old_place_broke(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0};
    struct script_cluster *other = calloc(1, sizeof *other);
    cafka_error err = {0};
    script_open(other, f->loop, 1);
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_SILENT, 0);
    ask_heartbeat(f, &ask);
    assert_int_equal(conn_move_to(f->conn, "127.0.0.1", other->brokers[0].port, &err), 0);
    test_run_ms(f->loop, 10);
    script_broker_down(f->broker);
    wait_for(f, &ask);
    assert_int_equal(ask.error.code, CAFKA_ERR_TRANSPORT);
    assert_int_equal(conn_blocked_until_ms(f->conn), 0);
    make_ready(f);
    assert_int_equal(other->brokers[0].accepted, 1);
    conn_free(f->conn);
    f->conn = NULL;
    script_close(other);
    free(other);
}

/* In the simulated world only: names need a resolver that knows them. */
static void open_named(struct fixture *f)
{
    cafka_error err = {0};
    conn_free(f->conn);
    f->conn = NULL;
    assert_int_equal(conn_new(&f->conn, &f->options, "kafka.test", f->broker->port, IN_FLIGHT,
                              &events, f, &err),
                     0);
}

static void every_address_of_a_name_is_tried(void **state)
{
    struct fixture *f = *state;
    cafka_error err = {0};
    if (!f->world.sim)
        return;
    assert_int_equal(sim_name_add(f->world.sim, "kafka.test", "10.9.9.1", &err), 0);
    assert_int_equal(sim_name_add(f->world.sim, "kafka.test", "10.9.9.2", &err), 0);
    assert_int_equal(sim_name_add(f->world.sim, "kafka.test", "127.0.0.1", &err), 0);
    open_named(f);
    make_ready(f);
    assert_int_equal(f->down, 0); /* one attempt, as the owner sees it */
}

static void a_name_is_resolved_again_after_the_connection_broke(void **state)
{
    struct fixture *f = *state;
    cafka_error err = {0};
    if (!f->world.sim)
        return;
    assert_int_equal(sim_name_add(f->world.sim, "kafka.test", "127.0.0.1", &err), 0);
    open_named(f);
    make_ready(f);
    sim_name_remove(f->world.sim, "kafka.test");
    script_broker_down(f->broker);
    assert_true(test_run_until(f->loop, is_down, f, 1000));
    f->down = 0;
    conn_open(f->conn);
    assert_true(test_run_until(f->loop, is_down, f, 1000));
    assert_int_equal(f->why.code, CAFKA_ERR_RESOLVE);
}

static void a_name_without_address_is_an_error(void **state)
{
    struct fixture *f = *state;
    cafka_error err = {0};
    conn_free(f->conn);
    assert_int_equal(conn_new(&f->conn, &f->options, "no-such-host.invalid", 9092, IN_FLIGHT,
                              &events, f, &err),
                     0);
    conn_open(f->conn);
    assert_true(test_run_until(f->loop, is_down, f, 20000));
    assert_int_equal(f->why.code, CAFKA_ERR_RESOLVE);
    assert_non_null(strstr(f->why.message, "no-such-host.invalid"));
}

/* --- the end, in every state --- */

static void free_conn(struct ask *ask)
{
    conn_free(ask->fixture->conn);
    ask->fixture->conn = NULL;
}

static void it_can_be_freed_while_dialing_and_before(void **state)
{
    struct fixture *f = *state;
    cafka_error err = {0};
    for (int turns = 0; turns < 8; turns++) {
        conn_free(f->conn);
        f->conn = NULL;
        assert_int_equal(open_conn(f, &err), 0);
        conn_open(f->conn);
        for (int i = 0; i < turns; i++)
            test_run_ms(f->loop, 0);
    }
    conn_free(f->conn);
    f->conn = NULL;
    test_run_ms(f->loop, 20);
}

static void it_can_be_freed_with_requests_in_flight(void **state)
{
    struct fixture *f = *state;
    struct ask asks[IN_FLIGHT] = {0};
    make_ready(f);
    for (int i = 0; i < IN_FLIGHT; i++)
        ask_heartbeat(f, &asks[i]);
    conn_free(f->conn);
    f->conn = NULL;
    for (int i = 0; i < IN_FLIGHT; i++) {
        assert_int_equal(asks[i].done, 1);
        assert_int_equal(asks[i].error.code, CAFKA_ERR_CLOSED);
    }
    assert_int_equal(f->down, 0);
}

static void it_can_be_freed_inside_done(void **state)
{
    struct fixture *f = *state;
    struct ask first = {.then = free_conn}, second = {0};
    make_ready(f);
    ask_heartbeat(f, &first);
    ask_heartbeat(f, &second);
    wait_for(f, &second);
    assert_null(f->conn);
    assert_int_equal(first.error.code, 0);
    assert_int_equal(second.error.code, CAFKA_ERR_CLOSED);
    test_run_ms(f->loop, 20);
}

static void it_can_be_freed_inside_done_of_a_failure(void **state)
{
    struct fixture *f = *state;
    struct ask first = {.then = free_conn}, second = {0};
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_CLOSE, 0);
    ask_heartbeat(f, &first);
    ask_heartbeat(f, &second);
    wait_for(f, &first);
    assert_int_equal(second.done, 1);
    assert_int_equal(f->down, 0);
    test_run_ms(f->loop, 20);
}

static void reset_conn(struct ask *ask)
{
    cafka_error why = {0};
    error_set(&why, CAFKA_ERR_STATE, "the test says so");
    conn_reset(ask->fixture->conn, &why);
}

static void reset_fails_what_is_in_flight_and_dials_again_at_once(void **state)
{
    struct fixture *f = *state;
    struct ask first = {.then = reset_conn}, second = {0};
    make_ready(f);
    ask_heartbeat(f, &first);
    ask_heartbeat(f, &second);
    wait_for(f, &second);
    assert_int_equal(second.error.code, CAFKA_ERR_STATE);
    assert_int_equal(f->down, 0);
    assert_int_equal(conn_blocked_until_ms(f->conn), 0);
    make_ready(f);
}

/* --- memory --- */

static bool settled(void *arg)
{
    struct fixture *f = arg;
    return f->down || (f->conn && conn_state(f->conn) == CONN_READY);
}

static void without_memory_it_fails_and_works_again_later(void **state)
{
    struct fixture *f = *state;
    for (unsigned long k = 1; k < 60; k++) {
        struct ask ask = {0};
        cafka_error err = {0};
        conn_free(f->conn);
        f->conn = NULL;
        f->down = 0;
        int rc = 0;
        mem_fail_after(k, 0);
        rc = open_conn(f, &err);
        if (!rc)
            conn_open(f->conn);
        mem_fail_after(0, 0); /* the script broker shares the allocator, and must not fail */
        if (rc) {
            assert_int_equal(rc, CAFKA_ERR_MEMORY);
            continue;
        }
        assert_true(test_run_until(f->loop, settled, f, 5000));
        if (conn_state(f->conn) != CONN_READY)
            make_ready(f);
        mem_fail_after(k, 0);
        rc = send_heartbeat(f, &ask, &err);
        mem_fail_after(0, 0);
        if (rc) {
            assert_int_equal(rc, CAFKA_ERR_MEMORY);
            assert_int_equal(ask.done, 0);
            test_run_ms(f->loop, 5);
            continue;
        }
        wait_for(f, &ask);
        assert_int_equal(ask.error.code, 0);
    }
}

/* --- backoff --- */

static void backoff_doubles_with_jitter_and_stops_at_the_maximum(void **state)
{
    struct fixture *f = *state;
    const cafka_env *env = f->world.env;
    bool varied = false;
    for (unsigned attempts = 0; attempts < 70; attempts++) {
        int64_t nominal = attempts < 10 ? INT64_C(100) << attempts : 1000;
        nominal = nominal < 1000 ? nominal : 1000;
        int64_t wait = backoff_after(env, 100, 1000, attempts);
        assert_in_range(wait, nominal * 8 / 10, nominal * 12 / 10 < 1000 ? nominal * 12 / 10 : 1000);
        varied = varied || wait != nominal;
    }
    assert_true(varied);
    assert_int_equal(backoff_after(env, 100, 100, 5), 100);
    assert_int_equal(backoff_after(env, 100, 50, 5), 100);
    assert_int_equal(backoff_after(env, 0, 1000, 3), 0);
    for (unsigned attempts = 0; attempts < 70; attempts++) /* "for ever" is a setting too */
        assert_in_range(backoff_after(env, 50, INT64_MAX, attempts), 40, INT64_MAX / 1000000);
    assert_true(backoff_after(env, INT64_MAX, INT64_MAX, 5) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_connection_asks_for_versions_and_is_ready),
        TEST(the_highest_common_version_is_used),
        TEST(error_35_is_answered_with_the_version_that_the_broker_lists),
        TEST(error_35_with_an_empty_list_means_version_0),
        TEST(a_broker_that_closes_on_new_versions_is_asked_with_version_0),
        TEST(a_broker_that_refuses_every_version_is_told_in_the_error),
        TEST(requests_are_pipelined_up_to_the_limit_and_answered_in_order),
        TEST(answers_come_in_order_and_free_their_slots),
        /* The simulated links allocate. */
        cmocka_unit_test_setup_teardown(a_request_in_steady_state_allocates_nothing, set_up_real,
                                        tear_down),
        TEST(a_request_without_answer_closes_the_connection_in_time),
        TEST(throttled_the_connection_sends_nothing_and_its_time_does_not_count),
        TEST(an_old_version_leaves_throttling_to_the_broker),
        TEST(a_request_without_response_is_done_once_written),
        TEST(pieces_arrive_where_they_belong),
        TEST(a_cancelled_request_is_never_done_and_the_others_are),
        TEST(attempts_come_at_doubled_intervals_up_to_the_maximum),
        TEST(a_broker_that_comes_back_is_found_again),
        TEST(a_broker_that_comes_back_older_is_asked_for_its_versions_again),
        TEST(an_idle_connection_is_closed_without_an_error),
        TEST(a_broker_that_moved_is_left_once_it_has_answered),
        TEST(a_broker_that_moved_is_dialed_at_once_though_the_old_place_broke),
        TEST(every_address_of_a_name_is_tried),
        TEST(a_name_is_resolved_again_after_the_connection_broke),
        TEST(a_name_without_address_is_an_error),
        TEST(it_can_be_freed_while_dialing_and_before),
        TEST(it_can_be_freed_with_requests_in_flight),
        TEST(it_can_be_freed_inside_done),
        TEST(it_can_be_freed_inside_done_of_a_failure),
        TEST(reset_fails_what_is_in_flight_and_dials_again_at_once),
        TEST(without_memory_it_fails_and_works_again_later),
        TEST(backoff_doubles_with_jitter_and_stops_at_the_maximum),
    };
    return cmocka_run_group_tests_name("conn", tests, NULL, NULL);
}
