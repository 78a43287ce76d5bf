/*
 * test_fetcher.c - what a consumer makes of strange answers: stalls, truncation, replicas, leaders.
 */
#include "consumer_fixture.h"

static const struct consumer_partition *orders_0(struct consumer_fixture *f)
{
    return partition_table_get(&f->consumer->partitions,
                               fetch_budget_name(f->consumer->budget, "orders"), 0);
}

/* --- stalls --- */

static void answers_without_data_that_is_there_are_told_once_and_mended(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    f->empty = true;
    start(f, 0);
    poll_for(f, 9000);
    assert_int_equal(f->events, 0);
    assert_int_equal(f->full_fetches, 1);
    poll_for(f, 31000);
    assert_int_equal(heard(f, CAFKA_ERR_STALLED), 1);
    assert_non_null(strstr(f->event.message, "orders-0 at offset 0"));
    assert_in_range(f->full_fetches, 3, 5); /* asked anew, each ten seconds */
    f->empty = false;
    expect(f, 0, 5);
    assert_int_equal(orders_0(f)->loop.stall.cause, STALL_NONE);
}

static void two_stalls_are_told_twice(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 1, 0);
    f->empty = true;
    start(f, 0);
    poll_for(f, 15000);
    f->empty = false;
    expect(f, 0, 1);
    f->empty = true;
    append(f, 1, 0);
    poll_for(f, 15000);
    assert_int_equal(heard(f, CAFKA_ERR_STALLED), 2);
}

static void caught_up_partition_is_no_stall(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    start(f, 0);
    expect(f, 0, 5);
    poll_for(f, 60000);
    assert_int_equal(f->events, 0);
    assert_int_equal(f->full_fetches, 1);
}

static void bytes_without_a_whole_batch_are_an_error_and_told_once(void **state)
{
    struct consumer_fixture *f = *state;
    cafka_error err;
    append(f, 5, 0);
    f->cut = true;
    start(f, 0);
    assert_int_equal(next_value(f, 5000, &err), -1);
    assert_int_equal(err.code, CAFKA_ERR_CORRUPT);
    poll_for(f, 30000);
    assert_int_equal(heard(f, CAFKA_ERR_CORRUPT), 1);
    f->cut = false;
    expect(f, 0, 5);
}

static void error_that_stays_is_told_once_and_ends_when_it_passes(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    f->fetch_error = ERR_KAFKA_STORAGE_ERROR;
    f->fetch_errors = -1;
    start(f, 0);
    poll_for(f, 40000);
    assert_int_equal(heard(f, ERR_KAFKA_STORAGE_ERROR), 1);
    f->fetch_errors = 0;
    expect(f, 0, 5);
}

static void partition_without_a_leader_for_long_is_told_once(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    orders(f)->leader[0] = -1;
    start(f, 0);
    poll_for(f, 40000);
    assert_int_equal(heard(f, ERR_LEADER_NOT_AVAILABLE), 1);
    orders(f)->leader[0] = 2;
    expect(f, 0, 5);
}

static void start_that_is_not_found_for_long_is_told_once(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    f->list_error = ERR_OFFSET_NOT_AVAILABLE;
    start(f, CAFKA_OFFSET_BEGINNING);
    poll_for(f, 40000);
    assert_int_equal(heard(f, CAFKA_ERR_STALLED), 1);
    f->list_error = ERR_NONE;
    expect(f, 0, 5);
}

/* Whoever was asked says nothing of the partition: metadata is asked again who leads it. */
static void start_is_looked_up_where_the_leader_went(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    f->list_leaves_out = true;
    start(f, CAFKA_OFFSET_BEGINNING);
    poll_for(f, 500);
    orders(f)->leader[0] = 2;
    orders(f)->epoch[0] = 1;
    expect(f, 0, 5);
}

/* What will not change is not tried for ever. */
static void start_that_a_broker_refuses_for_good_is_an_error(void **state)
{
    static const int16_t codes[] = {ERR_TOPIC_AUTHORIZATION_FAILED, ERR_INVALID_TOPIC_EXCEPTION,
                                    ERR_UNSUPPORTED_VERSION, ERR_INVALID_REQUEST};
    struct consumer_fixture *f = *state;
    cafka_error err;
    append(f, 5, 0);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        f->list_error = codes[i];
        if (i) {
            cafka_position at = {.topic = "orders",
                                 .flags = CAFKA_POSITION_OFFSET,
                                 .offset = CAFKA_OFFSET_BEGINNING};
            assert_int_equal(cafka_consumer_assign(f->consumer, &at, 1, &err), 0);
        } else {
            start(f, CAFKA_OFFSET_BEGINNING);
        }
        assert_int_equal(next_value(f, 900, &err), -1);
        assert_int_equal(err.code, codes[i]);
        assert_non_null(strstr(err.message, "orders-0"));
    }
}

static void count_line(void *user, int level, const char *area, const char *message)
{
    (void)level, (void)area, (void)message;
    ++*(int *)user;
}

/* Of a broker that cannot be reached the log and the event function hear once, not at each attempt. */
static void an_hour_without_brokers_is_a_few_lines(void **state)
{
    struct consumer_fixture *f = *state;
    int lines = 0;
    cafka_config_set_log(f->config, count_line, &lines, CAFKA_LOG_INFO);
    append(f, 5, 0);
    start(f, 0);
    expect(f, 0, 5);
    for (int i = 0; i < BROKERS; i++)
        script_broker_down(&f->cluster.brokers[i]);
    poll_for(f, 60000);
    assert_in_range(lines, 1, 20);
    int lines_before = lines, events_before = f->events;
    poll_for(f, 3600000);
    assert_in_range(lines - lines_before, 0, 30);
    assert_in_range(f->events - events_before, 0, 5);
    for (int i = 0; i < BROKERS; i++)
        script_broker_up(&f->cluster.brokers[i]);
    append(f, 5, 0);
    expect(f, 5, 5);
}

static void paused_partition_is_no_stall(void **state)
{
    struct consumer_fixture *f = *state;
    cafka_position at = {.topic = "orders"};
    append(f, 5, 0);
    f->empty = true;
    start(f, 0);
    poll_for(f, 2000);
    assert_int_equal(cafka_consumer_pause(f->consumer, &at, 1, NULL), CAFKA_OK);
    poll_for(f, 30000);
    assert_int_equal(f->events, 0);
}

/* --- truncation --- */

static void epoch_of_the_last_record_goes_with_each_fetch(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    orders(f)->epoch[0] = 7;
    append(f, 5, 7);
    start(f, 0);
    expect(f, 0, 10);
    poll_for(f, 1000);
    assert_int_equal(f->sessions[1].epoch, 7);
    assert_int_equal(f->sessions[1].last_epoch, 7);
    assert_int_equal(f->last_offset[1], 10);
}

static void diverging_epoch_in_an_answer_is_a_truncation(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    append(f, 5, 0);
    start(f, 0);
    expect(f, 0, 10);
    cut_log(f, 5);
    append(f, 5, 1);
    f->diverging = 5;
    expect(f, 5, 5);
    assert_int_equal(heard(f, CAFKA_ERR_TRUNCATED), 1);
    assert_non_null(strstr(f->event.message, "offset 5 "));
}

static void truncation_to_an_unknown_place_goes_by_the_policy(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    start(f, 0);
    expect(f, 0, 5);
    f->epoch_end = -1;
    f->end_epoch = -1;
    orders(f)->epoch[0] = 1;
    metadata_refresh(f->consumer->client.metadata);
    expect(f, 0, 5);
    assert_int_equal(heard(f, CAFKA_ERR_TRUNCATED), 1);
}

static void brokers_that_cannot_tell_an_epoch_s_end_are_believed(void **state)
{
    struct consumer_fixture *f = *state;
    for (int i = 0; i < BROKERS; i++)
        f->cluster.brokers[i].max_version[API_OFFSET_FOR_LEADER_EPOCH] = 2;
    append(f, 5, 0);
    start(f, 0);
    expect(f, 0, 5);
    orders(f)->leader[0] = 2;
    orders(f)->epoch[0] = 1;
    append(f, 5, 1);
    expect(f, 5, 5);
    assert_int_equal(script_count(&f->cluster, API_OFFSET_FOR_LEADER_EPOCH), 0);
}

static void position_is_checked_when_the_leader_moves(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    start(f, 0);
    expect(f, 0, 5);
    orders(f)->leader[0] = 2;
    orders(f)->epoch[0] = 1;
    append(f, 5, 1);
    expect(f, 5, 5);
    assert_int_equal(script_count(&f->cluster, API_OFFSET_FOR_LEADER_EPOCH), 1);
    assert_int_equal(f->events, 0);
}

/* --- out of range --- */

static void out_of_range_lets_what_is_queued_be_read_first(void **state)
{
    struct consumer_fixture *f = *state;
    set(f, "max.poll.records", "1");
    append(f, 5, 0);
    start(f, 0);
    expect(f, 0, 1);
    f->fetch_error = ERR_OFFSET_OUT_OF_RANGE;
    f->fetch_errors = 1;
    append(f, 1, 0);
    sim_advance_ms(f->sim, 2000);
    expect(f, 1, 4);
    expect(f, 0, 6); /* by the policy */
    assert_int_equal(heard(f, ERR_OFFSET_OUT_OF_RANGE), 1);
}

/* --- replicas and leaders --- */

static void rack_is_sent_and_the_replica_named_is_read(void **state)
{
    struct consumer_fixture *f = *state;
    set(f, "client.rack", "north");
    append(f, 5, 0);
    f->preferred = 3;
    start(f, 0);
    expect(f, 0, 5);
    assert_string_equal(f->rack, "north");
    assert_int_equal(orders_0(f)->loop.broker->broker->id, 3);
    assert_int_equal(f->last_offset[1], 0);
}

static void out_of_range_of_a_follower_only_sends_us_to_the_leader(void **state)
{
    struct consumer_fixture *f = *state;
    set(f, "client.rack", "north");
    append(f, 5, 0);
    f->preferred = 3;
    start(f, 0);
    expect(f, 0, 5);
    f->fetch_error = ERR_OFFSET_OUT_OF_RANGE;
    f->fetch_errors = 1;
    f->error_broker = 3;
    int before = f->fetches[1];
    append(f, 5, 0);
    expect(f, 5, 5);
    assert_true(f->fetches[1] > before);
    assert_int_equal(f->events, 0);
}

static void follower_that_is_cut_off_is_left_for_the_leader(void **state)
{
    struct consumer_fixture *f = *state;
    set(f, "client.rack", "north");
    append(f, 5, 0);
    f->preferred = 3;
    start(f, 0);
    expect(f, 0, 5);
    f->preferred = 0;
    script_broker_down(&f->cluster.brokers[2]);
    append(f, 5, 0);
    expect(f, 5, 5);
    assert_int_equal(orders_0(f)->loop.broker->broker->id, 1);
}

static void leader_is_asked_again_when_the_lease_is_over(void **state)
{
    struct consumer_fixture *f = *state;
    set(f, "client.rack", "north");
    set(f, "metadata.max.age.ms", "20000");
    append(f, 5, 0);
    f->preferred = 3;
    start(f, 0);
    expect(f, 0, 5);
    int before = f->fetches[1];
    f->preferred = 2; /* somebody nearer came up */
    poll_for(f, 30000);
    assert_true(f->fetches[1] > before);
    assert_int_equal(orders_0(f)->loop.broker->broker->id, 2);
}

static void named_leader_is_read_before_metadata_knows_it(void **state)
{
    struct consumer_fixture *f = *state;
    append(f, 5, 0);
    start(f, 0);
    expect(f, 0, 5);
    script_rule_add(&f->cluster, API_METADATA, SCRIPT_DELAY, 20000);
    orders(f)->leader[0] = 2;
    orders(f)->epoch[0] = 1;
    f->hint = true;
    append(f, 5, 1);
    cafka_error err;
    assert_int_equal(next_value(f, 2000, &err), 5);
    assert_int_equal(orders_0(f)->loop.broker->broker->id, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONSUMER_TEST(answers_without_data_that_is_there_are_told_once_and_mended),
        CONSUMER_TEST(two_stalls_are_told_twice),
        CONSUMER_TEST(caught_up_partition_is_no_stall),
        CONSUMER_TEST(bytes_without_a_whole_batch_are_an_error_and_told_once),
        CONSUMER_TEST(error_that_stays_is_told_once_and_ends_when_it_passes),
        CONSUMER_TEST(partition_without_a_leader_for_long_is_told_once),
        CONSUMER_TEST(start_that_is_not_found_for_long_is_told_once),
        CONSUMER_TEST(start_is_looked_up_where_the_leader_went),
        CONSUMER_TEST(start_that_a_broker_refuses_for_good_is_an_error),
        CONSUMER_TEST(an_hour_without_brokers_is_a_few_lines),
        CONSUMER_TEST(paused_partition_is_no_stall),
        CONSUMER_TEST(epoch_of_the_last_record_goes_with_each_fetch),
        CONSUMER_TEST(diverging_epoch_in_an_answer_is_a_truncation),
        CONSUMER_TEST(truncation_to_an_unknown_place_goes_by_the_policy),
        CONSUMER_TEST(brokers_that_cannot_tell_an_epoch_s_end_are_believed),
        CONSUMER_TEST(position_is_checked_when_the_leader_moves),
        CONSUMER_TEST(out_of_range_lets_what_is_queued_be_read_first),
        CONSUMER_TEST(rack_is_sent_and_the_replica_named_is_read),
        CONSUMER_TEST(out_of_range_of_a_follower_only_sends_us_to_the_leader),
        CONSUMER_TEST(follower_that_is_cut_off_is_left_for_the_leader),
        CONSUMER_TEST(leader_is_asked_again_when_the_lease_is_over),
        CONSUMER_TEST(named_leader_is_read_before_metadata_knows_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
