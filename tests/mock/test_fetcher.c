/*
 * test_fetcher.c - the loop's side of a consumer, on a simulated cluster: work, places, positions, memory.
 */
#include "mock/consumer_scene.h"

#include "consumer/consumer.h"

enum { MANY = 10000 };

static const struct fetcher *fetcher_in(const struct scene *s)
{
    return &s->consumer->fetcher;
}

static void wait_ms(struct scene *s, int64_t ms)
{
    cafka_error err = {0};
    if (cafka_mock_advance_ms(s->mock, ms, &err))
        fail_msg("waiting: %s", err.message);
}

/* --- what the event function heard --- */

struct heard {
    int count;
    int codes[64];
    cafka_error last;
    char topic[32];
    int32_t partition;
};

static void hear(const cafka_event *event, void *user)
{
    struct heard *heard = user;
    if (heard->count < 64)
        heard->codes[heard->count] = event->error.code;
    heard->count++;
    heard->last = event->error;
    snprintf(heard->topic, sizeof heard->topic, "%s", event->topic ? event->topic : "");
    heard->partition = event->partition;
}

static int times_heard(const struct heard *heard, int code)
{
    int times = 0;
    for (int i = 0; i < heard->count && i < 64; i++)
        times += heard->codes[i] == code;
    return times;
}

static void open_hearing(struct scene *s, struct heard *heard, const char *properties)
{
    cafka_config *config = client_config(s->mock, properties);
    cafka_error err = {0};
    *heard = (struct heard){0};
    cafka_config_on_event(config, hear, heard);
    if (cafka_consumer_new(&s->consumer, config, &err))
        fail_msg("no consumer: %s", err.message);
    cafka_config_free(config);
}

/* Poll for so long; nothing may come. */
static void poll_nothing(struct scene *s, int64_t ms)
{
    cafka_fetch *fetch = NULL;
    cafka_error err = {0};
    int64_t until = now_ms(s) + ms;
    while (now_ms(s) < until) {
        assert_int_equal(cafka_consumer_poll(s->consumer, until - now_ms(s), &fetch, &err),
                         CAFKA_OK);
        assert_null(fetch);
    }
}

/* --- work --- */

static int set_up_many(void **state)
{
    static const char *const topics[] = {"many:10000:1"};
    struct scene *s = calloc(1, sizeof *s);
    s->mock = start_cluster(7, topics, 1, NULL);
    *state = s;
    return 0;
}

static void assign_many(struct scene *s)
{
    cafka_position *at = calloc(MANY, sizeof *at);
    for (int p = 0; p < MANY; p++)
        at[p] = (cafka_position){.topic = "many", .partition = p};
    assert_int_equal(cafka_consumer_assign(s->consumer, at, MANY, NULL), CAFKA_OK);
    free(at);
}

static void idle_partitions_are_not_looked_at(void **state)
{
    struct scene *s = *state;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nmetadata.max.age.ms=600000");
    assign_many(s);
    poll_nothing(s, 5000);
    struct fetch_counts before = fetcher_in(s)->counts;
    poll_nothing(s, 60000);
    struct fetch_counts after = fetcher_in(s)->counts;
    assert_in_range(after.requests - before.requests, 300, 400); /* three brokers, twice a second */
    assert_int_equal(after.reviewed, before.reviewed);
    assert_int_equal(after.listed, before.listed);
    assert_int_equal(after.forgotten, before.forgotten);
}

/* One record among 10 000 partitions: work for one partition. */
static void record_costs_work_for_its_partition_only(void **state)
{
    struct scene *s = *state;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nmetadata.max.age.ms=600000");
    assign_many(s);
    poll_nothing(s, 5000);
    struct fetch_counts before = fetcher_in(s)->counts;
    produce_numbers(s, "many", 4711, 0, 1);
    expect_numbers(s, 0, 1);
    poll_nothing(s, 2000);
    struct fetch_counts after = fetcher_in(s)->counts;
    assert_in_range(after.reviewed - before.reviewed, 1, 5);
    assert_in_range(after.listed - before.listed, 1, 2);
}

static void paused_partition_is_forgotten_and_listed_again_alone(void **state)
{
    struct scene *s = *state;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nmetadata.max.age.ms=600000");
    assign_many(s);
    poll_nothing(s, 5000);
    struct fetch_counts before = fetcher_in(s)->counts;
    cafka_position at = {.topic = "many", .partition = 17};
    cafka_consumer_pause(s->consumer, &at, 1, NULL);
    poll_nothing(s, 2000);
    assert_int_equal(fetcher_in(s)->counts.forgotten - before.forgotten, 1);
    assert_int_equal(fetcher_in(s)->counts.listed, before.listed);
    cafka_consumer_resume(s->consumer, &at, 1, NULL);
    poll_nothing(s, 2000);
    assert_int_equal(fetcher_in(s)->counts.listed - before.listed, 1);
    produce_numbers(s, "many", 17, 0, 1);
    expect_numbers(s, 0, 1);
}

/* A broker forgets what a request both lists and forgets: it must not be asked to. */
static void partition_that_is_given_back_and_taken_again_at_once_is_read(void **state)
{
    struct scene *s = *state;
    cafka_position at = {.topic = "orders", .partition = 0};
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_from(s->consumer, "orders", 3, 0);
    poll_nothing(s, 2000);
    cafka_consumer_assign_remove(s->consumer, &at, 1, NULL);
    cafka_consumer_assign_add(s->consumer, &at, 1, NULL);
    poll_nothing(s, 2000);
    produce_numbers(s, "orders", 0, 0, 3);
    expect_numbers(s, 0, 3);
}

/* --- where it is read --- */

static void set_replicas(void **state, const char *properties)
{
    struct scene *s = *state;
    static const char *const topics[] = {"orders:3:3"};
    cafka_mock_free(s->mock);
    s->mock = start_cluster(7, topics, 1, properties);
}

static void set_replica_selector(void **state)
{
    set_replicas(state,
                 "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector");
}

static int32_t other_broker(struct scene *s, const char *topic, int32_t partition)
{
    return cafka_mock_leader(s->mock, topic, partition) % 3 + 1;
}

static const struct consumer_partition *partition_in(const struct scene *s, const char *topic,
                                                     int32_t partition)
{
    return partition_table_get(&s->consumer->partitions,
                               fetch_budget_name(s->consumer->budget, topic), partition);
}

static int32_t read_at(const struct scene *s, const char *topic, int32_t partition)
{
    const struct fetch_broker *fb = partition_in(s, topic, partition)->loop.broker;
    return fb ? fb->broker->id : -1;
}

static void open_in_rack(struct scene *s, int32_t broker, const char *properties)
{
    char text[200];
    snprintf(text, sizeof text, "auto.offset.reset=earliest\nclient.rack=RACK%d\n%s", broker,
             properties);
    s->consumer = open_consumer(s->mock, text);
}

static void near_replica_is_read_and_the_leader_asked_again_in_time(void **state)
{
    struct scene *s = *state;
    set_replica_selector(state);
    int32_t near = other_broker(s, "orders", 0);
    produce_numbers(s, "orders", 0, 0, 5);
    open_in_rack(s, near, "metadata.max.age.ms=20000");
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 0, 5);
    assert_int_equal(read_at(s, "orders", 0), near);
    produce_numbers(s, "orders", 0, 5, 5);
    expect_numbers(s, 5, 5);
    poll_nothing(s, 25000); /* the lease is over, and another one there */
    assert_int_equal(read_at(s, "orders", 0), near);
    produce_numbers(s, "orders", 0, 10, 5);
    expect_numbers(s, 10, 5);
}

static void leader_is_read_when_the_near_replica_dies(void **state)
{
    struct scene *s = *state;
    set_replica_selector(state);
    int32_t near = other_broker(s, "orders", 0);
    produce_numbers(s, "orders", 0, 0, 5);
    open_in_rack(s, near, "");
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 0, 5);
    assert_int_equal(read_at(s, "orders", 0), near);
    assert_int_equal(cafka_mock_broker_kill(s->mock, near, NULL), CAFKA_OK);
    produce_numbers(s, "orders", 0, 5, 5);
    expect_numbers(s, 5, 5);
    assert_int_equal(read_at(s, "orders", 0), cafka_mock_leader(s->mock, "orders", 0));
}

static void without_a_rack_the_leader_is_read(void **state)
{
    struct scene *s = *state;
    set_replica_selector(state);
    produce_numbers(s, "orders", 0, 0, 5);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 0, 5);
    assert_int_equal(read_at(s, "orders", 0), cafka_mock_leader(s->mock, "orders", 0));
}

/* --- where it is in the log --- */

static void leader_move_validates_the_position_and_goes_on(void **state)
{
    struct scene *s = *state;
    struct heard heard;
    set_replicas(state, NULL);
    produce_numbers(s, "orders", 0, 0, 5);
    open_hearing(s, &heard, "auto.offset.reset=earliest");
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 0, 5);
    int64_t before = cafka_mock_requests(s->mock, "OffsetForLeaderEpoch");
    assert_int_equal(cafka_mock_leader_move(s->mock, "orders", 0, other_broker(s, "orders", 0), NULL),
                     CAFKA_OK);
    produce_numbers(s, "orders", 0, 5, 5);
    expect_numbers(s, 5, 5);
    assert_true(cafka_mock_requests(s->mock, "OffsetForLeaderEpoch") > before);
    assert_int_equal(times_heard(&heard, CAFKA_ERR_TRUNCATED), 0);
}

static void truncation_is_told_and_reading_goes_on_where_the_log_ends(void **state)
{
    struct scene *s = *state;
    struct heard heard;
    produce_numbers(s, "orders", 0, 0, 10);
    open_hearing(s, &heard, "auto.offset.reset=earliest");
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 0, 10);
    assert_int_equal(cafka_mock_leader_elect_unclean(s->mock, "orders", 0, -1, 6, NULL), CAFKA_OK);
    poll_nothing(s, 5000);
    produce_numbers(s, "orders", 0, 106, 6); /* at 6 … 11: over what was there */
    expect_numbers(s, 106, 6);
    assert_int_equal(times_heard(&heard, CAFKA_ERR_TRUNCATED), 1);
    assert_string_equal(heard.topic, "orders");
    assert_non_null(strstr(heard.last.message, "offset 6"));
}

/* Even if the log has grown over the old position again before the consumer looks. */
static void truncation_is_found_behind_new_records(void **state)
{
    struct scene *s = *state;
    struct heard heard;
    produce_numbers(s, "orders", 0, 0, 10);
    open_hearing(s, &heard, "auto.offset.reset=latest");
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 0, 10);
    cafka_position at = {.topic = "orders", .partition = 0};
    assert_int_equal(cafka_consumer_pause(s->consumer, &at, 1, NULL), CAFKA_OK);
    poll_nothing(s, 1000);
    assert_int_equal(cafka_mock_leader_elect_unclean(s->mock, "orders", 0, -1, 6, NULL), CAFKA_OK);
    produce_numbers(s, "orders", 0, 106, 20);
    assert_int_equal(cafka_consumer_resume(s->consumer, &at, 1, NULL), CAFKA_OK);
    expect_numbers(s, 106, 20);
    assert_int_equal(times_heard(&heard, CAFKA_ERR_TRUNCATED), 1);
}

static void truncation_without_a_policy_is_an_error_that_names_the_offset(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    produce_numbers(s, "orders", 0, 0, 10);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=none");
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 0, 10);
    assert_int_equal(cafka_mock_leader_elect_unclean(s->mock, "orders", 0, -1, 6, NULL), CAFKA_OK);
    assert_int_equal(next_number(s, &err), -1);
    assert_int_equal(err.code, CAFKA_ERR_TRUNCATED);
    assert_non_null(strstr(err.message, "offset 6"));
    int64_t position;
    assert_int_equal(cafka_consumer_position(s->consumer, "orders", 0, 1000, &position, NULL),
                     CAFKA_OK);
    assert_int_equal(position, 10); /* never a silent jump */
    produce_numbers(s, "orders", 0, 106, 2);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 6, NULL), CAFKA_OK);
    expect_numbers(s, 106, 2);
}

/* What is queued was truncated, too: of that nothing is handed out any more. */
static void queued_records_of_a_truncated_log_are_dropped(void **state)
{
    struct scene *s = *state;
    struct heard heard;
    produce_numbers(s, "orders", 0, 0, 6); /* logs are cut between batches */
    produce_numbers(s, "orders", 0, 6, 4);
    open_hearing(s, &heard, "auto.offset.reset=earliest\nmax.poll.records=1");
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 0, 2);
    wait_ms(s, 2000); /* all ten are queued */
    assert_int_equal(cafka_mock_leader_elect_unclean(s->mock, "orders", 0, -1, 6, NULL), CAFKA_OK);
    wait_ms(s, 5000);
    produce_numbers(s, "orders", 0, 106, 2);
    expect_numbers(s, 2, 4);
    expect_numbers(s, 106, 2);
    assert_int_equal(times_heard(&heard, CAFKA_ERR_TRUNCATED), 1);
}

static void topic_made_again_starts_by_policy_and_is_told(void **state)
{
    struct scene *s = *state;
    struct heard heard;
    produce_numbers(s, "orders", 0, 0, 10);
    open_hearing(s, &heard, "auto.offset.reset=earliest\nmax.poll.records=1");
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 0, 3);
    wait_ms(s, 2000); /* the rest is queued; it is of the old topic */
    assert_int_equal(cafka_mock_topic_delete(s->mock, "orders", NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_topic_create(s->mock, "orders", 3, 3, NULL, NULL), CAFKA_OK);
    produce_numbers(s, "orders", 0, 500, 20);
    wait_ms(s, 5000);
    expect_numbers(s, 500, 20);
    assert_int_equal(times_heard(&heard, 100 /* UNKNOWN_TOPIC_ID */), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define MANY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_many, tear_down)
    const struct CMUnitTest tests[] = {
        MANY_TEST(idle_partitions_are_not_looked_at),
        MANY_TEST(record_costs_work_for_its_partition_only),
        MANY_TEST(paused_partition_is_forgotten_and_listed_again_alone),
        TEST(partition_that_is_given_back_and_taken_again_at_once_is_read),
        TEST(near_replica_is_read_and_the_leader_asked_again_in_time),
        TEST(leader_is_read_when_the_near_replica_dies),
        TEST(without_a_rack_the_leader_is_read),
        TEST(leader_move_validates_the_position_and_goes_on),
        TEST(truncation_is_told_and_reading_goes_on_where_the_log_ends),
        TEST(truncation_is_found_behind_new_records),
        TEST(truncation_without_a_policy_is_an_error_that_names_the_offset),
        TEST(queued_records_of_a_truncated_log_are_dropped),
        TEST(topic_made_again_starts_by_policy_and_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
