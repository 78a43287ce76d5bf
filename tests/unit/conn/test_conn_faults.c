/*
 * test_conn_faults.c - one connection and a broker that misbehaves: wrong, early, endless and missing
 * answers, ports that are no broker's, and memory that is not there.
 */
#include "conn_fixture.h"

static void assert_breaks(struct fixture *f, const char *text)
{
    struct ask ask = {0};
    make_ready(f);
    ask_heartbeat(f, &ask);
    wait_for(f, &ask);
    assert_int_equal(ask.error.code, CAFKA_ERR_PROTOCOL);
    assert_true(ask.error.flags & CAFKA_UNKNOWN_OUTCOME);
    assert_int_equal(f->down, 1);
    if (!strstr(f->why.message, text))
        fail_msg("'%s' does not say '%s'", f->why.message, text);
    assert_non_null(strstr(f->why.message, conn_name(f->conn)));
}

static void a_wrong_correlation_id_closes(void **state)
{
    struct fixture *f = *state;
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_WRONG_ID, 0);
    assert_breaks(f, "correlation id");
}

static void a_length_of_2_GB_closes_without_memory(void **state)
{
    struct fixture *f = *state;
    script_rule_raw(&f->cluster, API_HEARTBEAT, "\x7f\xff\xff\xff....", 8);
    assert_breaks(f, "2147483647");
}

static void a_negative_length_closes(void **state)
{
    struct fixture *f = *state;
    script_rule_raw(&f->cluster, API_HEARTBEAT, "\xff\xff\xff\xff....", 8);
    assert_breaks(f, "-1 bytes");
}

static void an_answer_too_short_for_a_header_closes(void **state)
{
    struct fixture *f = *state;
    script_rule_raw(&f->cluster, API_HEARTBEAT, "\0\0\0\x02zz", 6);
    assert_breaks(f, "Heartbeat");
}

static void half_an_answer_is_a_broken_connection(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0};
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_CUT, 0);
    ask_heartbeat(f, &ask);
    wait_for(f, &ask);
    assert_int_equal(ask.error.code, CAFKA_ERR_TRANSPORT);
    assert_true(ask.error.flags & CAFKA_RETRIABLE);
    assert_true(ask.error.flags & CAFKA_UNKNOWN_OUTCOME);
}

static void decode_answer(struct request *request, const struct reply *reply)
{
    struct ask *ask = (struct ask *)request;
    struct arena arena = {0};
    struct heartbeat_response response;
    if (!reply->error)
        (void)reply_decode(reply, &arena, &response, &ask->error);
    arena_fini(&arena);
    ask->done++;
}

static void an_answer_that_cannot_be_decoded_is_reported_and_closes(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0};
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_TRAILING, 0);
    ask_heartbeat(f, &ask);
    ask.request.done = decode_answer;
    wait_for(f, &ask);
    assert_int_equal(ask.error.code, CAFKA_ERR_PROTOCOL);
    assert_non_null(strstr(ask.error.message, "Heartbeat"));
    assert_true(test_run_until(f->loop, is_down, f, 1000));
}

static void an_answer_that_nobody_asked_for_closes(void **state)
{
    struct fixture *f = *state;
    make_ready(f);
    script_say(f->broker, "\0\0\0\x05\0\0\0\x01\0", 9);
    assert_true(test_run_until(f->loop, is_down, f, 1000));
    assert_non_null(strstr(f->why.message, "no request waits for"));
}

/* Otherwise the memory of a request could be given back while the socket still reads it. */
static void an_answer_before_the_request_is_written_closes(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0};
    enum { SIZE = 32 << 20 };
    char *records = calloc(1, SIZE);
    struct iovec iov = {records, SIZE};
    struct conn_pieces pieces = {&iov, 1};
    cafka_error err = {0};
    make_ready(f);
    script_deafen(f->broker);
    assert_int_equal(send_produce(f, &ask, &pieces, SIZE, 1, &err), 0);
    test_run_ms(f->loop, 20);
    assert_int_equal(ask.done, 0);
    script_say(f->broker, "\0\0\0\x09\0\0\0\x01\0\x01\0\0\0", 13);
    wait_for(f, &ask);
    free(records);
    assert_int_equal(ask.error.code, CAFKA_ERR_PROTOCOL);
    assert_non_null(strstr(ask.error.message, "before it was completely sent"));
    test_run_ms(f->loop, 20);
}

static void cancelling_a_half_written_request_closes(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0}, behind = {0};
    enum { SIZE = 32 << 20 };
    char *records = calloc(1, SIZE);
    struct iovec iov = {records, SIZE};
    struct conn_pieces pieces = {&iov, 1};
    cafka_error err = {0};
    make_ready(f);
    script_deafen(f->broker);
    assert_int_equal(send_produce(f, &ask, &pieces, SIZE, 1, &err), 0);
    ask_heartbeat(f, &behind);
    conn_cancel(&ask.request);
    free(records);
    wait_for(f, &behind);
    assert_int_equal(behind.error.code, CAFKA_ERR_TRANSPORT);
    assert_false(behind.error.flags & CAFKA_UNKNOWN_OUTCOME); /* not a byte of it had left */
    assert_int_equal(ask.done, 0);
}

static void assert_never_ready(struct fixture *f, const char *text)
{
    conn_open(f->conn);
    assert_true(test_run_until(f->loop, is_down, f, 5000));
    assert_int_equal(f->ready, 0);
    if (!strstr(f->why.message, text))
        fail_msg("'%s' does not say '%s'", f->why.message, text);
}

static void an_HTTP_port_is_recognised(void **state)
{
    struct fixture *f = *state;
    f->broker->greeting = "HTTP/1.1 400 Bad Request\r\n\r\n";
    f->broker->greeting_size = 28;
    assert_never_ready(f, "HTTP");
}

static void a_TLS_port_is_recognised(void **state)
{
    struct fixture *f = *state;
    f->broker->greeting = "\x15\x03\x03\0\x02\x02\x46";
    f->broker->greeting_size = 7;
    assert_never_ready(f, "TLS");
}

static void a_port_that_says_nothing_is_left_after_the_setup_timeout(void **state)
{
    struct fixture *f = *state;
    f->broker->mute = true;
    int64_t before = loop_now_ms(f->loop);
    assert_never_ready(f, "socket.connection.setup.timeout.ms");
    assert_in_range(loop_now_ms(f->loop) - before, SETUP_MS * 8 / 10, SETUP_MS * 12 / 10 + 50);
}

static void garbage_instead_of_versions_is_an_error(void **state)
{
    struct fixture *f = *state;
    script_rule_raw(&f->cluster, API_API_VERSIONS, "\0\0\0\x06\0\0\0\0\xff\xff", 10);
    conn_open(f->conn);
    assert_true(test_run_until(f->loop, is_down, f, 5000));
    assert_int_equal(f->why.code, CAFKA_ERR_PROTOCOL);
    assert_non_null(strstr(f->why.message, "ApiVersions"));
}

/* Two answers in one segment, and then one that comes byte by byte. */
static void answers_may_come_together_or_in_crumbs(void **state)
{
    struct fixture *f = *state;
    struct ask asks[3] = {0};
    static const uint8_t two[] = {0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
                                  0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0};
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_SILENT, 0);
    script_rule_raw(&f->cluster, API_HEARTBEAT, two, sizeof two);
    ask_heartbeat(f, &asks[0]);
    ask_heartbeat(f, &asks[1]);
    wait_for(f, &asks[1]);
    assert_int_equal(asks[0].done, 1);
    assert_true(asks[0].order < asks[1].order);

    static const uint8_t third[] = {0, 0, 0, 12, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0};
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_SILENT, 0);
    ask_heartbeat(f, &asks[2]);
    test_run_ms(f->loop, 20);
    for (size_t i = 0; i < sizeof third; i++) {
        assert_int_equal(asks[2].done, 0);
        script_say(f->broker, third + i, 1);
        test_run_ms(f->loop, 5);
    }
    assert_int_equal(asks[2].done, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(asks[i].error.code, 0);
    assert_int_equal(f->down, 0);
}

/* A broker of tomorrow says more than we know: an API key, a tagged field. */
static void what_is_newer_than_we_are_is_passed_over(void **state)
{
    struct fixture *f = *state;
    static const uint8_t answer[] = {
        0,    0,
        0,    36,
        0,    0,
        0,    0,
        0,    0, /* size, correlation id, error code */
        3,       /* two APIs: */
        0,    API_HEARTBEAT,
        0,    0,
        0,    3, /* one that we have, */
        1,    9,
        3,    'n',
        'e',  'w', /* with a tagged field, */
        0x03, 0xe7,
        0,    0,
        0,    1,
        0, /* and number 999 */
        0,    0,
        0,    0,
        2,    98,
        1,    'x',
        99,   0, /* throttle time, two tagged fields */
    };
    assert_int_equal(sizeof answer, 4 + 36);
    script_rule_raw(&f->cluster, API_API_VERSIONS, answer, sizeof answer);
    make_ready(f);
    assert_int_equal(conn_version(f->conn, API_HEARTBEAT, -1), 3);
    assert_int_equal(conn_version(f->conn, API_PRODUCE, -1), -1);
}

/* Nobody has said who they are before READY, so they get little memory; later the answer is taken. */
static void before_it_is_ready_no_large_answer_is_taken(void **state)
{
    struct fixture *f = *state;
    f->options.receive_max_bytes = 100 << 20;
    conn_free(f->conn);
    cafka_error err = {0};
    assert_int_equal(open_conn(f, &err), 0);
    script_rule_raw(&f->cluster, API_API_VERSIONS, "\x01\0\0\0\0\0\0\0", 8);
    assert_never_ready(f, "16777216");
    assert_int_equal(f->why.code, CAFKA_ERR_PROTOCOL);

    struct ask ask = {0};
    make_ready(f);
    script_rule_raw(&f->cluster, API_HEARTBEAT, "\x01\0\0\0\0\0\0\0", 8);
    ask_heartbeat(f, &ask);
    wait_for(f, &ask); /* in vain */
    assert_int_equal(ask.error.code, CAFKA_ERR_TIMEOUT);
}

/* ApiVersions is answered in full, but the socket's other direction is shut: it is no broker to keep. */
static void a_broker_that_hangs_up_after_each_answer_gets_no_loop_of_dials(void **state)
{
    struct fixture *f = *state;
    int accepted = 0;
    f->reopen = true;
    conn_open(f->conn);
    for (int64_t end_ms = loop_now_ms(f->loop) + 1000; loop_now_ms(f->loop) < end_ms;) {
        test_run_ms(f->loop, 1);
        if (conn_state(f->conn) == CONN_READY)
            script_cut(f->broker);
    }
    accepted = f->broker->accepted;
    f->reopen = false;
    assert_in_range(accepted, 5, 1000 / (BACKOFF_MS * 8 / 10) + 2);
}

static void a_throttle_that_is_told_twice_counts_once(void **state)
{
    struct fixture *f = *state;
    struct ask ask = {0};
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_SILENT, 0);
    int64_t before_ms = loop_now_ms(f->loop);
    ask_heartbeat(f, &ask);
    conn_throttle(f->conn, 200);
    test_run_ms(f->loop, 100);
    conn_throttle(f->conn, 200); /* 300 in all */
    wait_for(f, &ask);
    assert_int_equal(ask.error.code, CAFKA_ERR_TIMEOUT);
    assert_in_range(loop_now_ms(f->loop) - before_ms, REQUEST_TIMEOUT_MS + 300,
                    REQUEST_TIMEOUT_MS + 350);
}

static void reopen_conn(struct ask *ask)
{
    conn_open(ask->fixture->conn);
}

/* Without a backoff the first `done` may dial already; that says nothing about the second request. */
static void each_request_of_a_broken_connection_has_an_unknown_outcome(void **state)
{
    struct fixture *f = *state;
    struct ask first = {.then = reopen_conn}, second = {0};
    cafka_error err = {0};
    f->options.reconnect_backoff_ms = f->options.reconnect_backoff_max_ms = 0;
    conn_free(f->conn);
    assert_int_equal(open_conn(f, &err), 0);
    make_ready(f);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_SILENT, 0);
    script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_CLOSE, 0);
    ask_heartbeat(f, &first);
    ask_heartbeat(f, &second);
    wait_for(f, &second);
    assert_true(first.error.flags & CAFKA_UNKNOWN_OUTCOME);
    assert_true(second.error.flags & CAFKA_UNKNOWN_OUTCOME);
    assert_true(test_run_until(f->loop, is_ready, f, 1000));
}

/* The request that was sent before is known to be on its way, however much of the next was queued. */
static void a_request_that_finds_no_memory_half_way_does_not_hide_the_one_before(void **state)
{
    struct fixture *f = *state;
    enum { PIECES = 2000, PIECE_SIZE = 100 };
    char byte[PIECE_SIZE] = {0};
    struct iovec iov[PIECES];
    struct conn_pieces pieces = {iov, PIECES};
    for (int i = 0; i < PIECES; i++)
        iov[i] = (struct iovec){byte, PIECE_SIZE};
    for (unsigned long k = 1; k < 400; k += 13) {
        struct ask large = {0}, before = {0}, ask = {0};
        cafka_error err = {0};
        make_ready(f);
        assert_int_equal(send_produce(f, &large, &pieces, PIECES * PIECE_SIZE, 1, &err), 0);
        wait_for(f, &large);
        script_rule_add(&f->cluster, API_HEARTBEAT, SCRIPT_SILENT, 0);
        ask_heartbeat(f, &before);
        test_run_ms(f->loop, 10);
        mem_fail_after(k, 0);
        int rc = send_produce(f, &ask, &pieces, PIECES * PIECE_SIZE, 1, &err);
        mem_fail_after(0, 0);
        assert_int_equal(rc, CAFKA_ERR_MEMORY);
        assert_int_equal(ask.done, 0);
        cafka_error why = {0};
        error_set(&why, CAFKA_ERR_STATE, "the test goes on");
        if (conn_can_send(f->conn)) /* nothing was queued yet */
            conn_reset(f->conn, &why);
        wait_for(f, &before);
        assert_true(before.error.flags & CAFKA_UNKNOWN_OUTCOME);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_wrong_correlation_id_closes),
        TEST(a_length_of_2_GB_closes_without_memory),
        TEST(a_negative_length_closes),
        TEST(an_answer_too_short_for_a_header_closes),
        TEST(half_an_answer_is_a_broken_connection),
        TEST(an_answer_that_cannot_be_decoded_is_reported_and_closes),
        TEST(an_answer_that_nobody_asked_for_closes),
        TEST(an_answer_before_the_request_is_written_closes),
        TEST(cancelling_a_half_written_request_closes),
        TEST(an_HTTP_port_is_recognised),
        TEST(a_TLS_port_is_recognised),
        TEST(a_port_that_says_nothing_is_left_after_the_setup_timeout),
        TEST(garbage_instead_of_versions_is_an_error),
        TEST(answers_may_come_together_or_in_crumbs),
        TEST(what_is_newer_than_we_are_is_passed_over),
        TEST(before_it_is_ready_no_large_answer_is_taken),
        TEST(a_broker_that_hangs_up_after_each_answer_gets_no_loop_of_dials),
        TEST(a_throttle_that_is_told_twice_counts_once),
        TEST(each_request_of_a_broken_connection_has_an_unknown_outcome),
        TEST(a_request_that_finds_no_memory_half_way_does_not_hide_the_one_before),
    };
    return cmocka_run_group_tests_name("conn_faults", tests, NULL, NULL);
}
