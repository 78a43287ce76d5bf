/*
 * test_purge.c - records that are dropped on request, topics that fall out of use, and what a
 * producer says of itself.
 */
#include "unit/producer/producer_fixture.h"

static int setup(void **state)
{
    *state = open_world(23, 2);
    return 0;
}
static int teardown(void **state)
{
    close_world(*state);
    return 0;
}

static void purge(struct producer_fixture *f, unsigned what)
{
    cafka_error err;
    if (cafka_producer_purge(f->producer, what, &err))
        fail_msg("%s", err.message);
}

/* Ten records on their way, ten that wait behind them. */
static void send_both(struct producer_fixture *f)
{
    set(f, "linger.ms", "0");
    set(f, "max.in.flight.requests.per.connection", "1");
    start(f);
    send_records(f, 1);
    flush(f);
    f->delivered = 0;
    fault(f, FAULT_IGNORE, 0); /* the first of the two is never answered */
    send_records(f, 10);
    sim_advance_ms(f->sim, 20);
    send_records(f, 10);
    sim_advance_ms(f->sim, 20);
    assert_int_equal(f->delivered, 0);
}

static void queued_records_fail_and_the_producer_goes_on(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "1000");
    start(f);
    send_records(f, 5);
    purge(f, CAFKA_PURGE_QUEUED);
    assert_int_equal(f->failed, 5);
    assert_int_equal(f->last_error.code, CAFKA_ERR_PURGED);
    assert_false(f->last_error.flags & CAFKA_UNKNOWN_OUTCOME);
    assert_non_null(strstr(f->last_error.message, "purged"));

    send_records(f, 5);
    flush(f);
    assert_int_equal(f->delivered, 5);
    assert_int_equal(f->logs[0].count, 5);
    assert_int_equal(f->logs[0].values[0], 5);
    for (int i = 0; i < 10; i++)
        assert_int_equal(f->reported[i], 1);
    cafka_error err;
    assert_int_equal(cafka_producer_close(f->producer, 1000, &err), CAFKA_OK);
}

static void records_in_flight_stay_unless_they_are_meant(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "request.timeout.ms", "2000");
    send_both(f);
    purge(f, CAFKA_PURGE_QUEUED);
    assert_int_equal(f->failed, 10);
    flush(f); /* the request times out, and is sent again */
    assert_int_equal(f->delivered, 10);
    assert_log_is(f, 0, 11);
    for (int i = 0; i < f->next; i++)
        assert_int_equal(f->reported[i], 1);
}

static void records_in_flight_fail_with_unknown_outcome(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "request.timeout.ms", "2000");
    send_both(f);
    purge(f, CAFKA_PURGE_IN_FLIGHT);
    assert_int_equal(f->failed, 10);
    assert_int_equal(f->last_error.code, CAFKA_ERR_PURGED);
    assert_true(f->last_error.flags & CAFKA_UNKNOWN_OUTCOME);
    flush(f);
    assert_int_equal(f->delivered, 10); /* what had waited */
    for (int i = 0; i < f->next; i++)
        assert_int_equal(f->reported[i], 1);
    /* None of those is in the log: the broker had ignored the request. */
    assert_int_equal(f->logs[0].count, 11);
    assert_int_equal(f->logs[0].values[1], 11);
}

static void both_leave_nothing_to_wait_for(void **state)
{
    struct producer_fixture *f = *state;
    send_both(f);
    purge(f, CAFKA_PURGE_IN_FLIGHT | CAFKA_PURGE_QUEUED);
    assert_int_equal(f->failed, 20);
    int64_t began_ms = sim_now_ms(f->sim);
    flush(f);
    assert_true(sim_now_ms(f->sim) - began_ms < 100);
    for (int i = 0; i < f->next; i++)
        assert_int_equal(f->reported[i], 1);
}

static void a_late_answer_of_a_purged_record_is_not_reported(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "0");
    start(f);
    send_records(f, 1);
    flush(f);
    script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, 300);
    send_records(f, 5);
    sim_advance_ms(f->sim, 50);
    purge(f, CAFKA_PURGE_IN_FLIGHT);
    assert_int_equal(f->failed, 5);
    sim_advance_ms(f->sim, 1000);
    send_records(f, 5);
    flush(f);
    assert_log_is(f, 0, 11); /* they were written all the same: the outcome was unknown */
    for (int i = 0; i < f->next; i++)
        assert_int_equal(f->reported[i], 1);
}

static void purge_once(struct producer_fixture *f)
{
    f->in_callback = NULL;
    purge(f, CAFKA_PURGE_QUEUED);
    assert_int_equal(f->failed, 0); /* not inside the callback */
}

static void a_callback_may_purge(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "0");
    start(f);
    f->in_callback = purge_once;
    send_records(f, 1);
    assert_int_equal(try_record(f, 1, 100, NULL), 0);
    flush(f);
    assert_each_reported_once(f);
}

static void wrong_words_and_closed_producers(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    send_records(f, 1);
    flush(f);
    cafka_error err;
    assert_int_equal(cafka_producer_purge(f->producer, 0, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_producer_purge(f->producer, 4, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_producer_purge(NULL, 1, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_producer_close(f->producer, 1000, &err), 0);
    assert_int_equal(cafka_producer_purge(f->producer, CAFKA_PURGE_QUEUED, &err), 0);
}

/* --- topics that fall out of use --- */

static void a_topic_that_is_not_used_is_asked_for_no_more(void **state)
{
    struct producer_fixture *f = *state;
    script_topic_add(&f->cluster, "idle", 1);
    set(f, "metadata.max.idle.ms", "5000");
    set(f, "metadata.max.age.ms", "1000");
    set(f, "linger.ms", "0");
    start(f);
    cafka_record record = {.topic = "idle", .value = "v", .value_size = 1};
    cafka_delivery_report report;
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, NULL), 0);
    for (int i = 0; i < 20; i++) { /* orders is in use all the time */
        send_records(f, 1);
        sim_advance_ms(f->sim, 200);
    }
    assert_int_equal(f->cluster.metadata_topics, 2);
    for (int i = 0; i < 20; i++) {
        send_records(f, 1);
        sim_advance_ms(f->sim, 200);
    }
    assert_int_equal(f->cluster.metadata_topics, 1);

    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, NULL), 0);
    sim_advance_ms(f->sim, 1500);
    assert_int_equal(f->cluster.metadata_topics, 2);
}

static void a_topic_that_is_known_is_asked_for_by_age_alone(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "metadata.max.age.ms", "60000");
    start(f);
    send_records(f, 1);
    flush(f);
    int before = script_count(&f->cluster, API_METADATA);
    for (int i = 0; i < 100; i++) {
        send_records(f, 1);
        sim_advance_ms(f->sim, 500);
    }
    assert_int_equal(script_count(&f->cluster, API_METADATA), before);
}

static void send_next(struct producer_fixture *f)
{
    if (f->next < 3000)
        send_records(f, 1);
}

/* Each batch is followed by the next without a pause, so the partition never becomes active anew. */
static void a_topic_in_steady_use_is_not_dropped(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "metadata.max.idle.ms", "5000");
    set(f, "metadata.max.age.ms", "1000");
    set(f, "linger.ms", "10");
    start(f);
    f->in_callback = send_next;
    send_records(f, 1);
    sim_advance_ms(f->sim, 9000);
    assert_true(f->delivered > 500);
    assert_true(f->next < 3000);
    f->in_callback = NULL;
    assert_int_equal(f->cluster.metadata_topics, 1);
}

/* Though nothing leaves for longer than metadata.max.idle.ms. */
static void a_topic_that_records_wait_for_is_not_dropped(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "metadata.max.idle.ms", "5000");
    set(f, "metadata.max.age.ms", "1000");
    set(f, "linger.ms", "0");
    start(f);
    send_records(f, 1);
    flush(f);
    first_topic(f)->leader[0] = -1;
    first_topic(f)->epoch[0]++;
    send_records(f, 1);
    sim_advance_ms(f->sim, 20000);
    first_topic(f)->leader[0] = 3;
    sim_advance_ms(f->sim, 2500);
    assert_int_equal(f->delivered, 2);
}

/* Nor one whose first records wait for the end of linger.ms. */
static void a_topic_whose_records_linger_is_not_dropped(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "metadata.max.idle.ms", "5000");
    set(f, "metadata.max.age.ms", "1000");
    set(f, "linger.ms", "4500");
    start(f);
    cafka_error err;
    int32_t count;
    assert_int_equal(cafka_producer_partitions(f->producer, "orders", 1000, &count, &err), 0);
    sim_advance_ms(f->sim, 4000);
    send_records(f, 1);
    sim_advance_ms(f->sim, 4000);
    assert_int_equal(f->delivered, 0);
    assert_int_equal(f->cluster.metadata_topics, 1);
    sim_advance_ms(f->sim, 1000);
    assert_int_equal(f->delivered, 1);
}

/* --- what a producer says of itself --- */

static cafka_producer_use look(struct producer_fixture *f)
{
    cafka_producer_use use = {.size = sizeof use};
    assert_int_equal(cafka_producer_stats(f->producer, &use), CAFKA_OK);
    return use;
}

static int64_t in_callback_records;
static void look_in_callback(struct producer_fixture *f)
{
    in_callback_records = look(f).records;
}

static void the_stats_follow_the_records(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "buffer.memory", "1000000");
    set(f, "linger.ms", "50");
    f->in_callback = look_in_callback;
    start(f);
    assert_int_equal(look(f).records, 0);
    assert_int_equal(look(f).buffer_total_bytes, 1000000);
    assert_int_equal(look(f).buffer_available_bytes, 1000000);

    send_records(f, 7);
    assert_int_equal(try_record(f, 1, 100, NULL), 0);
    cafka_producer_use use = look(f);
    assert_int_equal(use.records, 8);
    assert_int_equal(use.requests_in_flight, 0);
    assert_int_equal(use.waiting_threads, 0);
    assert_in_range(use.buffer_available_bytes, 940000, 999000); /* a block a partition */

    script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, 100);
    script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, 100);
    sim_advance_ms(f->sim, 100);
    assert_int_equal(look(f).records, 8);
    assert_int_equal(look(f).requests_in_flight, 2); /* two brokers */
    flush(f);
    assert_in_range(in_callback_records, 1, 7); /* those being reported are still the producer's */
    assert_int_equal(look(f).records, 0);
    assert_int_equal(look(f).requests_in_flight, 0);
    assert_int_equal(look(f).buffer_available_bytes, 1000000);

    cafka_record record = {.topic = "orders", .value = "v", .value_size = 1};
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, NULL, NULL), 0);
    assert_int_equal(look(f).records, 0);
}

/* Whatever became of the batches: split, refused, purged, given up at close. */
static void the_stats_end_at_nothing(void **state)
{
    struct producer_fixture *f = *state;
    f->max_message_bytes = 3000;
    start(f);
    for (int i = 0; i < 20; i++)
        send_records(f, 5);
    flush(f);
    assert_int_equal(look(f).records, 0);
    fault(f, FAULT_REFUSE, ERR_TOPIC_AUTHORIZATION_FAILED);
    send_records(f, 5);
    flush(f);
    assert_int_equal(look(f).records, 0);
    send_records(f, 5);
    purge(f, CAFKA_PURGE_QUEUED);
    assert_int_equal(look(f).records, 0);
    send_records(f, 5);
    (void)cafka_producer_close(f->producer, 0, NULL);
    assert_int_equal(look(f).records, 0);

    cafka_producer_use shorter = {0};
    assert_int_equal(cafka_producer_stats(f->producer, &shorter), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_producer_stats(NULL, &shorter), CAFKA_ERR_ARGUMENT);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(queued_records_fail_and_the_producer_goes_on),
        WORLD_TEST(records_in_flight_stay_unless_they_are_meant),
        WORLD_TEST(records_in_flight_fail_with_unknown_outcome),
        WORLD_TEST(both_leave_nothing_to_wait_for),
        WORLD_TEST(a_late_answer_of_a_purged_record_is_not_reported),
        WORLD_TEST(a_callback_may_purge),
        WORLD_TEST(wrong_words_and_closed_producers),
        WORLD_TEST(a_topic_that_is_not_used_is_asked_for_no_more),
        WORLD_TEST(a_topic_that_is_known_is_asked_for_by_age_alone),
        WORLD_TEST(a_topic_in_steady_use_is_not_dropped),
        WORLD_TEST(a_topic_that_records_wait_for_is_not_dropped),
        WORLD_TEST(a_topic_whose_records_linger_is_not_dropped),
        WORLD_TEST(the_stats_follow_the_records),
        WORLD_TEST(the_stats_end_at_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
