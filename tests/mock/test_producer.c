/*
 * test_producer.c - what a producer promises about its records, judged by what a cluster holds
 * afterwards: acks and what each may lose, order under retries, errors of single records, leaders
 * that move, brokers that forget the producer.
 */
#include "mock/mock_fixture.h"

#include <cafka/memory.h>

#include "protocol/error_codes.h"

enum { RECORDS = 1000 };

static const char *const one_topic[] = {"orders:1:3"};

struct scene {
    cafka_mock *mock;
    cafka_producer *producer;
    int next;
    int reports[RECORDS], codes[RECORDS];
    int64_t offsets[RECORDS], told_ms[RECORDS];
    char messages[RECORDS][240];
    unsigned flags[RECORDS];
};

static int64_t now_ms(const struct scene *s)
{
    const cafka_env *env = cafka_mock_env(s->mock);
    return env->now(env) / 1000000;
}

static void hear(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    (void)producer;
    struct scene *s = user;
    cafka_delivery_report report;
    while (!cafka_delivery_next(delivery, &report)) {
        intptr_t number = (intptr_t)report.opaque;
        s->reports[number]++;
        s->codes[number] = report.code;
        s->offsets[number] = report.offset;
        s->told_ms[number] = now_ms(s);
        if (report.error) {
            memcpy(s->messages[number], report.error->message, sizeof report.error->message);
            s->flags[number] = report.error->flags;
        }
    }
}

static void open_scene(struct scene *s, const char *cluster_properties, const char *properties)
{
    cafka_error err = {0};
    *s = (struct scene){.mock = start_cluster(5, one_topic, 1, cluster_properties)};
    cafka_config *config = client_config(s->mock, properties);
    cafka_config_on_delivery(config, hear, s);
    if (cafka_producer_new(&s->producer, config, &err))
        fail_msg("no producer: %s", err.message);
    cafka_config_free(config);
}

static void close_scene(struct scene *s)
{
    cafka_error err = {0};
    if (cafka_producer_close(s->producer, 60000, &err) && err.code != CAFKA_ERR_TIMEOUT)
        fail_msg("close: %s", err.message);
    cafka_producer_free(s->producer);
    cafka_mock_free(s->mock);
}

/* The next record holds its number; with a key if one is given. */
static void send_keyed(struct scene *s, const char *key)
{
    cafka_error err = {0};
    int32_t number = s->next;
    cafka_record record = {.topic = "orders",
                           .key = key,
                           .key_size = key ? strlen(key) : 0,
                           .value = &number,
                           .value_size = sizeof number,
                           .opaque = (void *)(intptr_t)number};
    if (cafka_producer_send(s->producer, &record, &err))
        fail_msg("send: %s", err.message);
    s->next++;
}

static void send_some(struct scene *s, int count)
{
    for (int i = 0; i < count; i++)
        send_keyed(s, NULL);
}

static void flush(struct scene *s)
{
    cafka_error err = {0};
    if (cafka_producer_flush(s->producer, 300000, &err))
        fail_msg("flush: %s", err.message);
}

static void advance(struct scene *s, int64_t ms)
{
    assert_int_equal(cafka_mock_advance_ms(s->mock, ms, NULL), CAFKA_OK);
}

static void rule(struct scene *s, int action, int error, int64_t skip, int64_t count)
{
    cafka_mock_rule what = {.size = sizeof what,
                            .api = "Produce",
                            .skip = skip,
                            .count = count,
                            .action = action,
                            .error = error,
                            .delay_ms = 10000};
    assert_int_equal(cafka_mock_rule_add(s->mock, &what, NULL, NULL), CAFKA_OK);
}

/* Of every delivery between a client and a broker, one way. */
static void set_latency(struct scene *s, int64_t ms)
{
    for (int32_t b = 1; b <= 3; b++) {
        cafka_mock_link link = {.size = sizeof link,
                                .broker = b,
                                .peer = CAFKA_MOCK_CLIENTS,
                                .latency_ms = ms};
        assert_int_equal(cafka_mock_link_set(s->mock, &link, NULL), CAFKA_OK);
    }
}

/* The numbers that the partition holds, in order; at most `most`. */
static int read_log(struct scene *s, int *numbers, int most)
{
    cafka_consumer *consumer = open_consumer(s->mock, "fetch.max.wait.ms=50");
    int count = 0;
    assign_from(consumer, "orders", 1, CAFKA_OFFSET_BEGINNING);
    for (int idle = 0; idle < 20;) {
        cafka_fetch *fetch;
        cafka_record_view view;
        assert_int_equal(cafka_consumer_poll(consumer, 100, &fetch, NULL), CAFKA_OK);
        int before = count;
        while (!cafka_fetch_next(fetch, &view, NULL)) {
            assert_true(count < most);
            int32_t number;
            memcpy(&number, view.value, sizeof number);
            numbers[count++] = number;
        }
        cafka_fetch_free(fetch);
        idle = count > before ? 0 : idle + 1;
    }
    close_consumer(consumer);
    return count;
}

static bool log_holds(struct scene *s, int number)
{
    int numbers[RECORDS], count = read_log(s, numbers, RECORDS);
    for (int i = 0; i < count; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

/* Every record was delivered, and is in the log once, in order. */
static void assert_all_once_in_order(struct scene *s)
{
    int numbers[RECORDS], count = read_log(s, numbers, RECORDS);
    for (int i = 0; i < s->next; i++) {
        assert_int_equal(s->reports[i], 1);
        assert_int_equal(s->codes[i], CAFKA_OK);
    }
    assert_int_equal(count, s->next);
    for (int i = 0; i < count; i++)
        assert_int_equal(numbers[i], i);
}

static void others_die(struct scene *s, int32_t leader)
{
    for (int32_t b = 1; b <= 3; b++)
        if (b != leader)
            assert_int_equal(cafka_mock_broker_kill(s->mock, b, NULL), CAFKA_OK);
    advance(s, 1000);
}

static void others_return(struct scene *s, int32_t leader)
{
    for (int32_t b = 1; b <= 3; b++)
        if (b != leader)
            assert_int_equal(cafka_mock_broker_start(s->mock, b, NULL), CAFKA_OK);
    advance(s, 1000);
}

/* --- acks --- */

/* The report comes when the request is written, long before a broker has it, and knows no offset. */
static void acks_0_is_told_as_soon_as_it_is_written(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, NULL, "acks=0\nlinger.ms=0");
    send_some(&s, 1);
    flush(&s);
    set_latency(&s, 500);
    int64_t before_ms = now_ms(&s);
    send_some(&s, 1);
    flush(&s);
    assert_in_range(s.told_ms[1] - before_ms, 0, 100);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(s.codes[i], CAFKA_OK);
        assert_int_equal(s.offsets[i], -1);
    }
    advance(&s, 2000);
    set_latency(&s, 0);
    assert_true(log_holds(&s, 1)); /* it did arrive */
    close_scene(&s);
}

/* … so what a broker refuses, or never gets, is a success too. */
static void acks_0_does_not_know_of_a_refusal(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, NULL, "acks=0\nlinger.ms=0");
    send_some(&s, 1);
    flush(&s);
    advance(&s, 100);
    rule(&s, CAFKA_MOCK_CLOSE, 0, 0, 1);
    send_some(&s, 1);
    flush(&s);
    advance(&s, 1000);
    assert_int_equal(s.codes[1], CAFKA_OK);
    assert_false(log_holds(&s, 1));
    close_scene(&s);
}

/* The leader alone has it: acknowledged, and gone with the leader. */
static void acks_1_loses_what_only_the_leader_had(void **state)
{
    (void)state;
    struct scene s;
    cafka_error err = {0};
    open_scene(&s, "min.insync.replicas=2", "acks=1\nlinger.ms=0");
    send_some(&s, 1);
    flush(&s);
    int32_t leader = cafka_mock_leader(s.mock, "orders", 0);
    others_die(&s, leader);
    send_some(&s, 1);
    flush(&s);
    assert_int_equal(s.codes[1], CAFKA_OK);
    assert_int_equal(s.offsets[1], 1);
    assert_int_equal(cafka_mock_broker_kill(s.mock, leader, NULL), CAFKA_OK);
    others_return(&s, leader);
    int rc = cafka_mock_leader_elect_unclean(s.mock, "orders", 0, leader % 3 + 1, 1, &err);
    if (rc)
        fail_msg("%s", err.message);
    advance(&s, 1000);
    assert_true(log_holds(&s, 0));
    assert_false(log_holds(&s, 1));
    close_scene(&s);
}

/* In the same scene acks=all is not acknowledged before a second broker has it, and outlives the first. */
static void acks_all_survives_its_leader(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, "min.insync.replicas=2", "acks=all\nlinger.ms=0");
    send_some(&s, 1);
    flush(&s);
    int32_t leader = cafka_mock_leader(s.mock, "orders", 0);
    others_die(&s, leader);
    send_some(&s, 1);
    advance(&s, 5000);
    assert_int_equal(s.reports[1], 0); /* NOT_ENOUGH_REPLICAS, again and again */
    others_return(&s, leader);
    flush(&s);
    assert_int_equal(s.codes[1], CAFKA_OK);
    assert_int_equal(cafka_mock_broker_kill(s.mock, leader, NULL), CAFKA_OK);
    advance(&s, 1000);
    assert_int_not_equal(cafka_mock_leader(s.mock, "orders", 0), leader);
    assert_all_once_in_order(&s);
    close_scene(&s);
}

/* --- order under retries --- */

static void send_while_requests_fail(struct scene *s)
{
    send_some(s, 1);
    flush(s);
    rule(s, CAFKA_MOCK_ERROR, ERR_NOT_ENOUGH_REPLICAS, 0, 1);
    rule(s, CAFKA_MOCK_ERROR, ERR_NOT_ENOUGH_REPLICAS, 2, 2);
    set_latency(s, 20);
    for (int i = 0; i < 30; i++) {
        send_some(s, 3);
        advance(s, 3);
    }
    flush(s);
    set_latency(s, 0);
}

static void idempotence_keeps_order_with_five_requests_in_flight(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, NULL, "linger.ms=0\nmax.in.flight.requests.per.connection=5");
    send_while_requests_fail(&s);
    assert_all_once_in_order(&s);
    close_scene(&s);
}

static void one_request_in_flight_keeps_order_without_idempotence(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, NULL,
               "linger.ms=0\nenable.idempotence=false\nmax.in.flight.requests.per.connection=1");
    send_while_requests_fail(&s);
    assert_all_once_in_order(&s);
    close_scene(&s);
}

/* The documented risk: what failed and is repeated comes behind what left after it. */
static void five_in_flight_without_idempotence_may_change_the_order(void **state)
{
    (void)state;
    struct scene s;
    int numbers[RECORDS];
    open_scene(&s, NULL,
               "linger.ms=0\nenable.idempotence=false\nmax.in.flight.requests.per.connection=5");
    send_while_requests_fail(&s);
    int count = read_log(&s, numbers, RECORDS), backwards = 0;
    for (int i = 1; i < count; i++)
        backwards += numbers[i] < numbers[i - 1];
    assert_int_equal(count, s.next); /* none lost */
    assert_true(backwards > 0);
    close_scene(&s);
}

/* … and what was written before its answer was lost is written twice. */
static void without_idempotence_a_lost_answer_doubles_records(void **state)
{
    (void)state;
    for (int idempotent = 0; idempotent < 2; idempotent++) {
        struct scene s;
        int numbers[RECORDS];
        open_scene(&s, NULL, idempotent ? "linger.ms=0" : "linger.ms=0\nenable.idempotence=false");
        send_some(&s, 1);
        flush(&s);
        rule(&s, CAFKA_MOCK_CLOSE_AFTER, 0, 0, 1);
        send_some(&s, 1);
        flush(&s);
        assert_int_equal(read_log(&s, numbers, RECORDS), idempotent ? 2 : 3);
        assert_int_equal(numbers[1], 1);
        close_scene(&s);
    }
}

/* --- single records (KIP-467) --- */

/* A compacted topic takes no record without a key; the others of its batch may be sent again. */
static void the_record_at_fault_is_named(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s, NULL, "linger.ms=100");
    assert_int_equal(cafka_mock_topic_config(s.mock, "orders", "cleanup.policy=compact", NULL),
                     CAFKA_OK);
    for (int i = 0; i < 5; i++)
        send_keyed(&s, i == 1 || i == 3 ? NULL : "k");
    flush(&s);
    for (int i = 0; i < 5; i++) {
        bool at_fault = i == 1 || i == 3;
        assert_int_equal(s.reports[i], 1);
        assert_int_equal(s.codes[i], ERR_INVALID_RECORD);
        assert_int_equal(s.flags[i] & CAFKA_RETRIABLE, at_fault ? 0 : CAFKA_RETRIABLE);
        assert_int_equal(strstr(s.messages[i], "another record") != NULL, !at_fault);
        assert_true(at_fault ? strstr(s.messages[i], "ey") != NULL : true); /* Kafka's own words */
    }
    send_keyed(&s, "k");
    flush(&s);
    assert_int_equal(s.codes[5], CAFKA_OK); /* no gap in the sequences stays behind */
    close_scene(&s);
}

/* --- leaders (KIP-951) --- */

/* The old leader's answer names the new one: no other question, no waiting. */
static void a_moved_leader_is_followed_at_once(void **state)
{
    (void)state;
    struct scene s;
    cafka_error err = {0};
    open_scene(&s, NULL, "linger.ms=0\nretry.backoff.ms=20000\nretry.backoff.max.ms=20000");
    send_some(&s, 1);
    flush(&s);
    advance(&s, 1000);
    int64_t asked = cafka_mock_requests(s.mock, "Metadata");
    for (int i = 1; i <= 6; i++) {
        int32_t next = cafka_mock_leader(s.mock, "orders", 0) % 3 + 1;
        if (cafka_mock_leader_move(s.mock, "orders", 0, next, &err))
            fail_msg("%s", err.message);
        int64_t before_ms = now_ms(&s);
        send_some(&s, 1);
        flush(&s);
        assert_in_range(s.told_ms[i] - before_ms, 0, 200);
    }
    assert_int_equal(cafka_mock_requests(s.mock, "Metadata"), asked);
    assert_all_once_in_order(&s);
    close_scene(&s);
}

/* --- brokers that forget, answers that come too late --- */

static void a_broker_that_forgot_the_producer_is_told_anew(void **state)
{
    (void)state;
    static const int codes[] = {ERR_UNKNOWN_PRODUCER_ID, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER};
    for (int i = 0; i < 2 * 4 * 5; i++) {
        struct scene s;
        open_scene(&s, NULL, "linger.ms=0");
        send_some(&s, 10);
        flush(&s);
        set_latency(&s, 5); /* several requests are under way at once */
        rule(&s, CAFKA_MOCK_ERROR, codes[i % 2], i / 2 % 4, 1 + i / 8);
        for (int k = 0; k < 10; k++) {
            send_some(&s, 5);
            advance(&s, 2);
        }
        flush(&s);
        set_latency(&s, 0);
        assert_all_once_in_order(&s);
        close_scene(&s);
    }
}

/* The broker's memory of an idle producer runs out (producer.id.expiration.ms), its log with it. */
static void a_producer_goes_on_after_its_id_expired(void **state)
{
    (void)state;
    struct scene s;
    open_scene(&s,
               "producer.id.expiration.ms=2000\nproducer.id.expiration.check.interval.ms=500\n"
               "log.retention.check.interval.ms=500\nlog.segment.delete.delay.ms=100",
               "linger.ms=0");
    send_some(&s, 20);
    flush(&s);
    assert_int_equal(cafka_mock_topic_config(s.mock, "orders", "retention.ms=1000", NULL), CAFKA_OK);
    advance(&s, 60000);
    assert_int_equal(cafka_mock_topic_config(s.mock, "orders", "retention.ms=-1", NULL), CAFKA_OK);
    for (int k = 0; k < 10; k++) {
        send_some(&s, 5);
        advance(&s, 2);
    }
    flush(&s);
    int numbers[RECORDS], count = read_log(&s, numbers, RECORDS);
    for (int i = 0; i < s.next; i++)
        assert_int_equal(s.reports[i] == 1 && s.codes[i] == CAFKA_OK, 1);
    assert_true(count >= 50);
    for (int i = 0; i < 50; i++)
        assert_int_equal(numbers[count - 50 + i], 20 + i);
    close_scene(&s);
}

/*
 * A batch fails at delivery.timeout.ms, though it was written: its answer comes later. Those behind
 * it are neither lost nor doubled, and it is not there twice.
 */
static void a_late_answer_does_no_harm(void **state)
{
    (void)state;
    for (int n = 0; n < 3; n++) {
        struct scene s;
        int numbers[RECORDS];
        open_scene(&s, NULL, "linger.ms=0\ndelivery.timeout.ms=3000\nrequest.timeout.ms=2000");
        send_some(&s, 1);
        flush(&s);
        rule(&s, CAFKA_MOCK_DELAY, 0, n, 3); /* ten seconds each */
        for (int k = 0; k < 20; k++) {
            send_some(&s, 2);
            advance(&s, 400);
        }
        flush(&s);
        advance(&s, 30000);
        send_some(&s, 5);
        flush(&s);
        int count = read_log(&s, numbers, RECORDS), failed = 0;
        for (int i = 1; i < count; i++)
            assert_true(numbers[i] > numbers[i - 1]); /* none twice, none out of order */
        for (int i = 0; i < s.next; i++) {
            assert_int_equal(s.reports[i], 1);
            failed += s.codes[i] != CAFKA_OK;
            bool there = false;
            for (int k = 0; k < count; k++)
                there = there || numbers[k] == i;
            if (!s.codes[i])
                assert_true(there);
            else if (there)
                assert_true(s.flags[i] & CAFKA_UNKNOWN_OUTCOME);
        }
        assert_true(failed > 0);
        assert_int_equal(s.codes[s.next - 1], CAFKA_OK);
        close_scene(&s);
    }
}

/* --- idle partitions --- */

static int64_t bytes_held(void)
{
    cafka_memory_use use = {.size = sizeof use};
    int64_t bytes = 0;
    for (size_t i = 0; !cafka_memory_stats(i, &use); i++)
        bytes += use.bytes;
    return bytes;
}

/* Ten thousand partitions that nothing is sent to: five mebibytes, and nobody is asked about them. */
static void idle_partitions_cost_little_memory_and_no_requests(void **state)
{
    (void)state;
    static const char *const many[] = {"idle:10000:1"};
    cafka_mock *mock = start_cluster(5, many, 1, NULL);
    assert_int_equal(cafka_mock_advance_ms(mock, 1000, NULL), CAFKA_OK);
    int64_t before = bytes_held();
    cafka_config *config = client_config(mock, "");
    cafka_producer *producer;
    cafka_error err = {0};
    int32_t count;
    assert_int_equal(cafka_producer_new(&producer, config, &err), CAFKA_OK);
    assert_int_equal(cafka_producer_partitions(producer, "idle", 10000, &count, &err), CAFKA_OK);
    assert_int_equal(count, 10000);
    assert_int_equal(cafka_mock_advance_ms(mock, 1000, NULL), CAFKA_OK);
    assert_in_range(bytes_held() - before, 0,
                    6 << 20); /* a part of it the brokers keep, for answering */
    int64_t asked = cafka_mock_requests(mock, "Metadata");
    assert_int_equal(cafka_mock_advance_ms(mock, 60000, NULL), CAFKA_OK);
    assert_int_equal(cafka_mock_requests(mock, "Metadata"), asked);
    cafka_producer_free(producer);
    cafka_config_free(config);
    cafka_mock_free(mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acks_0_is_told_as_soon_as_it_is_written),
        cmocka_unit_test(acks_0_does_not_know_of_a_refusal),
        cmocka_unit_test(acks_1_loses_what_only_the_leader_had),
        cmocka_unit_test(acks_all_survives_its_leader),
        cmocka_unit_test(idempotence_keeps_order_with_five_requests_in_flight),
        cmocka_unit_test(one_request_in_flight_keeps_order_without_idempotence),
        cmocka_unit_test(five_in_flight_without_idempotence_may_change_the_order),
        cmocka_unit_test(without_idempotence_a_lost_answer_doubles_records),
        cmocka_unit_test(the_record_at_fault_is_named),
        cmocka_unit_test(a_moved_leader_is_followed_at_once),
        cmocka_unit_test(a_broker_that_forgot_the_producer_is_told_anew),
        cmocka_unit_test(a_producer_goes_on_after_its_id_expired),
        cmocka_unit_test(a_late_answer_does_no_harm),
        cmocka_unit_test(idle_partitions_cost_little_memory_and_no_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
