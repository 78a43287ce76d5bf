/*
 * test_choice.c - which partition a record goes to: by whom it is chosen, and by what rule.
 */
#include "unit/producer/producer_fixture.h"

#include <cafka/plugin.h>

static int setup_one(void **state, int partitions)
{
    *state = open_world(7, partitions);
    return 0;
}
static int setup(void **state)
{
    return setup_one(state, 4);
}
static int setup_single(void **state)
{
    return setup_one(state, 1);
}
static int teardown(void **state)
{
    close_world(*state);
    return 0;
}

static void lead(struct producer_fixture *f, int32_t partition, int32_t broker)
{
    first_topic(f)->leader[partition] = broker;
    first_topic(f)->epoch[partition]++;
}

static cafka_record keyed(struct producer_fixture *f, const char *key)
{
    return (cafka_record){.topic = "orders",
                          .key = key,
                          .key_size = key ? strlen(key) : 0,
                          .value = "v",
                          .value_size = 1,
                          .opaque = (void *)(intptr_t)f->next};
}

static void send_keyed(struct producer_fixture *f, const char *key, int count)
{
    cafka_error err;
    for (int i = 0; i < count; i++) {
        cafka_record record = keyed(f, key);
        if (cafka_producer_send(f->producer, &record, &err))
            fail_msg("%s", err.message);
        f->next++;
    }
}

static int count_in(struct producer_fixture *f, int32_t partition)
{
    return f->logs[partition].count;
}

static void assert_all_in(struct producer_fixture *f, int32_t partition)
{
    flush(f);
    assert_int_equal(count_in(f, partition), f->next);
}

/* --- rules of partitioner.class --- */

static void turns_leave_out_partitions_without_a_leader(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "partitioner.class", "round_robin");
    lead(f, 2, -1);
    start(f);
    send_keyed(f, "a key does not matter", 30);
    flush(f);
    assert_int_equal(count_in(f, 0), 10);
    assert_int_equal(count_in(f, 1), 10);
    assert_int_equal(count_in(f, 2), 0);
    assert_int_equal(count_in(f, 3), 10);
}

static void random_draws_for_each_record(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "partitioner.class", "random");
    start(f);
    send_keyed(f, "one key", 400);
    flush(f);
    for (int i = 0; i < 4; i++)
        assert_in_range(count_in(f, i), 60, 140);
}

static void librdkafkas_hash_is_taken_by_its_name(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "partitioner", "consistent_random");
    start(f);
    send_keyed(f, "kafka", 10); /* its CRC-32 modulo 4 */
    assert_all_in(f, 3);
    f->next = f->delivered = 0;
    memset(f->logs, 0, sizeof f->logs);
    set(f, "partitioner", "consistent");
    cafka_producer_free(f->producer);
    start(f);
    send_keyed(f, NULL, 10);
    assert_all_in(f, 0);
}

static void keys_may_be_ignored(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "partitioner.ignore.keys", "true");
    set(f, "batch.size", "500");
    start(f);
    send_keyed(f, "always the same", 2000);
    flush(f);
    for (int i = 0; i < 4; i++)
        assert_true(count_in(f, i) > 100);
}

/* Records without a key avoid the partitions of a broker that takes nothing. */
static void a_partition_that_does_not_move_is_left_alone(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "partitioner.availability.timeout.ms", "200");
    set(f, "batch.size", "500");
    set(f, "linger.ms", "0");
    set(f, "max.in.flight.requests.per.connection", "1");
    for (int i = 0; i < 4; i++)
        lead(f, i, i ? 1 : 2); /* partition 0 alone with broker 2 */
    start(f);
    for (int i = 0; i < 40; i++) /* each is used, so that there are statistics */
        assert_int_equal(try_record(f, i % 4, 100, NULL), 0);
    flush(f);
    f->cluster.brokers[1].mute = true;
    for (int i = 0; i < 2; i++) { /* one on its way, one that cannot follow */
        assert_int_equal(try_record(f, 0, 600, NULL), 0);
        sim_advance_ms(f->sim, 10);
    }
    sim_advance_ms(f->sim, 1000);
    int before = f->next;
    int to_others = count_in(f, 1) + count_in(f, 2) + count_in(f, 3);
    for (int i = 0; i < 600; i++) {
        assert_int_equal(try_record(f, -1, 100, NULL), 0);
        if (i % 10 == 0)
            sim_advance_ms(f->sim, 5);
    }
    sim_advance_ms(f->sim, 1000);
    to_others = count_in(f, 1) + count_in(f, 2) + count_in(f, 3) - to_others;
    assert_true(to_others >= f->next - before - 10); /* what stuck to it at first */
}

/* How many of 2000 records without a key go to partition 0, whose broker answers slowly. */
static int count_to_slow(const char *adaptive)
{
    struct producer_fixture *f = open_world(1, 4);
    set(f, "partitioner.adaptive.partitioning.enable", adaptive);
    set(f, "batch.size", "500");
    set(f, "linger.ms", "0");
    for (int i = 0; i < 4; i++)
        lead(f, i, i ? 1 : 2);
    f->slow_broker = 2;
    start(f);
    for (int i = 0; i < 40; i++) /* each is used, so that there are statistics */
        assert_int_equal(try_record(f, i % 4, 100, NULL), 0);
    flush(f);
    int before = count_in(f, 0);
    for (int i = 0; i < 2000; i++) {
        assert_int_equal(try_record(f, -1, 100, NULL), 0);
        if (i % 10 == 0)
            sim_advance_ms(f->sim, 5);
    }
    flush(f);
    int count = count_in(f, 0) - before;
    close_world(f);
    return count;
}

/* KIP-794: the load decides, unless it is told not to. */
static void a_slow_partition_gets_less_unless_told_otherwise(void **state)
{
    (void)state;
    int even = count_to_slow("false");
    assert_in_range(even, 300, 700);
    assert_in_range(count_to_slow("true"), 1, even / 2);
}

/* --- the application's own --- */

struct opinion {
    int32_t answer;
    int asked;
    char key[16], value[16];
    int32_t partition_count;
    unsigned leaders;
    int closed;
};

static int32_t say(const cafka_partition_question *question, void *user)
{
    struct opinion *o = user;
    o->asked++;
    snprintf(o->key, sizeof o->key, "%.*s", (int)question->key.size,
             (const char *)question->key.data);
    snprintf(o->value, sizeof o->value, "%.*s", (int)question->value.size,
             (const char *)question->value.data);
    o->partition_count = question->partition_count;
    o->leaders = 0;
    for (int32_t i = -1; i < question->partition_count + 1; i++)
        o->leaders |= cafka_topic_has_leader(question->topic_handle, i) ? 1u << i : 0;
    assert_string_equal(question->topic, "orders");
    return o->answer;
}

static void close_opinion(void *user)
{
    ((struct opinion *)user)->closed++;
}

static void ask(struct producer_fixture *f, struct opinion *o)
{
    cafka_partitioner partitioner = {.size = sizeof partitioner,
                                     .name = "opinion",
                                     .user = o,
                                     .partition = say,
                                     .on_close = close_opinion};
    assert_int_equal(cafka_config_set_partitioner(f->config, &partitioner, NULL), 0);
}

static void the_applications_partitioner_decides(void **state)
{
    struct producer_fixture *f = *state;
    static struct opinion o; /* on_close comes after the test */
    o = (struct opinion){.answer = 3};
    ask(f, &o);
    lead(f, 1, -1);
    start(f);
    send_keyed(f, "key", 5);
    assert_all_in(f, 3);
    assert_int_equal(o.asked, 5);
    assert_string_equal(o.key, "key");
    assert_string_equal(o.value, "v");
    assert_int_equal(o.partition_count, 4);
    assert_int_equal(o.leaders, 1u | 4u | 8u);

    assert_int_equal(try_record(f, 0, 100, NULL), 0); /* says itself */
    assert_int_equal(o.asked, 5);
    cafka_producer_free(f->producer);
    f->producer = NULL;
    assert_int_equal(o.closed, 1);
}

static void a_partition_that_cannot_be_is_an_error_of_send(void **state)
{
    struct producer_fixture *f = *state;
    static struct opinion o; /* on_close comes after the test */
    o = (struct opinion){.answer = -1};
    ask(f, &o);
    start(f);
    cafka_error err;
    cafka_record record = keyed(f, "key");
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "orders"));
    assert_non_null(strstr(err.message, "opinion"));
    assert_non_null(strstr(err.message, "-1"));
    o.answer = 4;
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_ERR_ARGUMENT);
    o.answer = 2;
    assert_int_equal(cafka_producer_send_many(f->producer, &record, 1, NULL, &err), 0);
    f->next++;
    assert_all_in(f, 2);
}

static void a_partitioner_may_leave_it_to_the_default(void **state)
{
    struct producer_fixture *f = *state;
    static struct opinion o; /* on_close comes after the test */
    o = (struct opinion){.answer = CAFKA_PARTITION_DEFAULT};
    ask(f, &o);
    start(f);
    send_keyed(f, "foobar", 5); /* murmur2 modulo 4 */
    assert_all_in(f, cafka_partition_for_key("foobar", 6, 4));
}

/* Metadata must be there before a partitioner can be asked, and a call that may not wait says so. */
static void an_unknown_topic_is_waited_for_before_the_partitioner(void **state)
{
    struct producer_fixture *f = *state;
    static struct opinion o; /* on_close comes after the test */
    o = (struct opinion){.answer = 1};
    ask(f, &o);
    set(f, "max.block.ms", "1000");
    start(f);
    cafka_error err;
    cafka_record record = keyed(f, NULL);
    assert_int_equal(cafka_producer_try_send(f->producer, &record, &err), CAFKA_ERR_WOULD_BLOCK);
    record.topic = "nowhere";
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_ERR_TIMEOUT);
    assert_int_equal(o.asked, 0);
}

/* --- asking without sending --- */

static int32_t would_go(struct producer_fixture *f, const cafka_record *record)
{
    int32_t partition = -2;
    cafka_error err;
    if (cafka_producer_partition_for(f->producer, record, &partition, &err))
        fail_msg("%s", err.message);
    return partition;
}

static void where_a_record_would_go_can_be_asked(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "max.block.ms", "500");
    start(f);
    cafka_record record = keyed(f, "foobar");
    assert_int_equal(would_go(f, &record), cafka_partition_for_key("foobar", 6, 4));
    record.flags = CAFKA_RECORD_PARTITION;
    record.partition = 3;
    assert_int_equal(would_go(f, &record), 3);
    record.partition = 4;
    int32_t partition;
    cafka_error err;
    assert_int_equal(cafka_producer_partition_for(f->producer, &record, &partition, &err),
                     CAFKA_ERR_TIMEOUT);
    assert_non_null(strstr(err.message, "orders-4"));

    record = keyed(f, NULL);
    assert_int_equal(would_go(f, &record), -1); /* nothing was sent yet */
    send_keyed(f, NULL, 1);
    int32_t sticky = would_go(f, &record);
    assert_all_in(f, sticky);
    assert_int_equal(cafka_producer_partition_for(f->producer, NULL, &partition, &err),
                     CAFKA_ERR_ARGUMENT);
}

static void asking_takes_no_turn(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "partitioner.class", "round_robin");
    start(f);
    cafka_record record = keyed(f, NULL);
    int32_t next = would_go(f, &record);
    assert_int_equal(would_go(f, &record), next);
    send_keyed(f, NULL, 1);
    assert_all_in(f, next);
}

static void the_partitioner_is_asked_too(void **state)
{
    struct producer_fixture *f = *state;
    static struct opinion o; /* on_close comes after the test */
    o = (struct opinion){.answer = 2};
    ask(f, &o);
    start(f);
    cafka_record record = keyed(f, "foobar");
    assert_int_equal(would_go(f, &record), 2);
    assert_int_equal(o.asked, 1);
}

/* --- many at once --- */

/*
 * The second record of a run needs the sticky partition to be chosen, which takes locks; it must
 * not be chosen while the first one's partition is locked.
 */
static void a_run_ends_where_a_choice_is_needed(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    send_keyed(f, "a", 1);
    send_keyed(f, "b", 1);
    send_keyed(f, "c", 1);
    flush(f);
    for (int round = 0; round < 20; round++) {
        cafka_record records[8];
        for (int i = 0; i < 8; i++)
            records[i] = keyed(f, i % 2 ? NULL : i % 4 ? "a" : "b");
        size_t accepted;
        assert_int_equal(cafka_producer_send_many(f->producer, records, 8, &accepted, NULL), 0);
        assert_int_equal(accepted, 8);
    }
    flush(f);
    assert_int_equal(f->delivered, 3 + 160);
}

static void records_without_a_key_share_a_lock(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    cafka_record records[100];
    for (int i = 0; i < 100; i++) {
        records[i] = keyed(f, NULL);
        records[i].opaque = (void *)(intptr_t)i;
    }
    for (int round = 0; round < 3; round++)
        assert_int_equal(cafka_producer_send_many(f->producer, records, 100, NULL, NULL), 0);
    flush(f);
    assert_int_equal(f->delivered, 300);
    assert_int_equal(count_in(f, 0), 300);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(turns_leave_out_partitions_without_a_leader),
        WORLD_TEST(random_draws_for_each_record),
        WORLD_TEST(librdkafkas_hash_is_taken_by_its_name),
        WORLD_TEST(keys_may_be_ignored),
        WORLD_TEST(a_partition_that_does_not_move_is_left_alone),
        cmocka_unit_test(a_slow_partition_gets_less_unless_told_otherwise),
        WORLD_TEST(the_applications_partitioner_decides),
        WORLD_TEST(a_partition_that_cannot_be_is_an_error_of_send),
        WORLD_TEST(a_partitioner_may_leave_it_to_the_default),
        WORLD_TEST(an_unknown_topic_is_waited_for_before_the_partitioner),
        WORLD_TEST(where_a_record_would_go_can_be_asked),
        WORLD_TEST(asking_takes_no_turn),
        WORLD_TEST(the_partitioner_is_asked_too),
        WORLD_TEST(a_run_ends_where_a_choice_is_needed),
        cmocka_unit_test_setup_teardown(records_without_a_key_share_a_lock, setup_single, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
