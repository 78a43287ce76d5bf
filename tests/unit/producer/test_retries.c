/*
 * test_retries.c - nothing lost, nothing doubled, nothing out of order, whatever brokers do.
 */
#include "producer_fixture.h"

#include "producer/room.h"

static int setup(void **state)
{
    *state = open_world(1, 1);
    return 0;
}

static int teardown(void **state)
{
    close_world(*state);
    return 0;
}

/* Many small requests, as many in flight as there may be. */
static void want_small_requests(struct producer_fixture *f)
{
    set(f, "linger.ms", "0");
    set(f, "batch.max.size", "2000");
    set(f, "batch.size", "1000");
    set(f, "request.timeout.ms", "2000");
}

static void all_there_once_in_order(struct producer_fixture *f)
{
    flush(f);
    assert_log_is(f, 0, f->next);
    assert_each_reported_once(f);
    assert_int_equal(f->failed, 0);
    for (int i = 0; i < f->next; i++)
        assert_true(f->offsets[i] == i || f->offsets[i] == -1);
}

static void send_in_bursts(struct producer_fixture *f)
{
    for (int i = 0; i < 60; i++) {
        send_records(f, 17);
        sim_advance_ms(f->sim, i % 4);
    }
}

/* Written, but the answer never comes: the connection breaks instead. */
static void a_lost_answer_neither_loses_nor_doubles(void **state)
{
    (void)state;
    for (int n = 0; n < 20; n++)
        for (uint64_t seed = 1; seed < 4; seed++) {
            struct producer_fixture *f = open_world(seed, 1);
            want_small_requests(f);
            start(f);
            for (int i = 0; i < n; i++)
                script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, i % 3);
            script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_CLOSE, 0);
            send_in_bursts(f);
            all_there_once_in_order(f);
            close_world(f);
        }
}

static void an_answer_that_never_comes_neither_loses_nor_doubles(void **state)
{
    (void)state;
    for (int n = 0; n < 12; n++) {
        struct producer_fixture *f = open_world(7, 1);
        want_small_requests(f);
        start(f);
        for (int i = 0; i < n; i++)
            script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, 0);
        script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_SILENT, 0); /* not even read */
        send_in_bursts(f);
        all_there_once_in_order(f);
        close_world(f);
    }
}

static void a_refused_batch_keeps_its_place(void **state)
{
    (void)state;
    static const int16_t codes[] = {ERR_NOT_LEADER_OR_FOLLOWER,    ERR_NOT_ENOUGH_REPLICAS,
                                    ERR_REQUEST_TIMED_OUT,         ERR_UNKNOWN_TOPIC_OR_PARTITION,
                                    ERR_KAFKA_STORAGE_ERROR,       ERR_CORRUPT_MESSAGE,
                                    ERR_THROTTLING_QUOTA_EXCEEDED, ERR_UNKNOWN_TOPIC_ID};
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++)
        for (int n = 0; n < 8; n++)
            for (int times = 1; times < 4; times++) {
                struct producer_fixture *f = open_world(11, 1);
                want_small_requests(f);
                start(f);
                for (int i = 0; i < n; i++)
                    fault(f, FAULT_NONE, 0);
                for (int i = 0; i < times; i++)
                    fault(f, FAULT_REFUSE, codes[c]);
                send_in_bursts(f);
                all_there_once_in_order(f);
                close_world(f);
            }
}

/* NOT_ENOUGH_REPLICAS_AFTER_APPEND: the leader has it, and says that it failed. */
static void a_batch_written_in_spite_of_an_error_is_not_doubled(void **state)
{
    (void)state;
    for (int n = 0; n < 8; n++) {
        struct producer_fixture *f = open_world(13, 1);
        want_small_requests(f);
        start(f);
        for (int i = 0; i < n; i++)
            fault(f, FAULT_NONE, 0);
        fault(f, FAULT_WRITE_REFUSE, ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND);
        fault(f, FAULT_WRITE_REFUSE, ERR_REQUEST_TIMED_OUT);
        send_in_bursts(f);
        all_there_once_in_order(f);
        close_world(f);
    }
}

static void batches_follow_their_leader(void **state)
{
    (void)state;
    for (int hint = 0; hint < 2; hint++) {
        struct producer_fixture *f = open_world(17, 1);
        want_small_requests(f);
        f->hint_leaders = hint;
        start(f);
        for (int i = 0; i < 40; i++) {
            send_records(f, 20);
            sim_advance_ms(f->sim, 3);
            if (i % 5 == 4) {
                first_topic(f)->leader[0] = 1 + (first_topic(f)->leader[0]) % BROKERS;
                first_topic(f)->epoch[0]++;
            }
        }
        all_there_once_in_order(f);
        close_world(f);
    }
}

/* Not at metadata.max.age.ms, but as soon as somebody does, be it the second time. */
static void who_leads_is_asked_until_somebody_does(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "0");
    start(f);
    send_records(f, 1);
    flush(f);
    for (int i = 0; i < 3; i++) {
        first_topic(f)->leader[0] = -1;
        first_topic(f)->epoch[0]++;
        send_records(f, 1);
        sim_advance_ms(f->sim, 20000);
        assert_int_equal(f->delivered, 1 + i);
        first_topic(f)->leader[0] = 2;
        sim_advance_ms(f->sim, 1500);
        assert_int_equal(f->delivered, 2 + i);
    }
    all_there_once_in_order(f);
}

static void a_partition_that_vanished_is_asked_for_until_it_is_back(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "0");
    first_topic(f)->partitions = 2;
    first_topic(f)->leader[1] = 2;
    start(f);
    cafka_error err;
    assert_int_equal(try_record(f, 1, 100, &err), 0);
    flush(f);
    for (int i = 0; i < 3; i++) {
        first_topic(f)->partitions = 1; /* the broker refuses, metadata confirms it */
        assert_int_equal(try_record(f, 1, 100, &err), 0);
        sim_advance_ms(f->sim, 20000);
        assert_int_equal(f->delivered, 1 + i);
        first_topic(f)->partitions = 2;
        sim_advance_ms(f->sim, 1500);
        assert_int_equal(f->delivered, 2 + i);
    }
}

static void broken_connections_and_restarts_are_survived(void **state)
{
    struct producer_fixture *f = *state;
    want_small_requests(f);
    start(f);
    for (int i = 0; i < 30; i++) {
        send_records(f, 20);
        sim_advance_ms(f->sim, 2);
        struct script_broker *broker = &f->cluster.brokers[first_topic(f)->leader[0] - 1];
        if (i % 7 == 3)
            script_cut(broker);
        if (i % 10 == 5)
            script_broker_down(broker);
        if (i % 10 == 9)
            script_broker_up(broker);
    }
    all_there_once_in_order(f);
}

/* Workers compress; requests fail meanwhile, and the leader moves. */
static void order_is_kept_with_workers_that_compress(void **state)
{
    struct producer_fixture *f = *state;
    want_small_requests(f);
    set(f, "compression.type", "gzip");
    set(f, "compression.threads", "3");
    start(f);
    for (int i = 0; i < 40; i++) {
        send_records(f, 20);
        sim_advance_ms(f->sim, 3);
        if (i % 4 == 1)
            fault(f, i % 8 == 1 ? FAULT_REFUSE : FAULT_WRITE_REFUSE,
                  ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND);
        if (i % 5 == 4) {
            first_topic(f)->leader[0] = 1 + (first_topic(f)->leader[0]) % BROKERS;
            first_topic(f)->epoch[0]++;
        }
    }
    all_there_once_in_order(f);
    assert_int_equal(f->codec, CODEC_GZIP);
}

/* Without idempotence, order is kept with one request in flight. */
static void one_in_flight_keeps_order_without_idempotence(void **state)
{
    struct producer_fixture *f = *state;
    want_small_requests(f);
    set(f, "enable.idempotence", "false");
    set(f, "max.in.flight.requests.per.connection", "1");
    start(f);
    fault(f, FAULT_NONE, 0);
    for (int i = 0; i < 4; i++)
        fault(f, FAULT_REFUSE, ERR_NOT_ENOUGH_REPLICAS);
    send_in_bursts(f);
    all_there_once_in_order(f);
    assert_int_equal(f->logs[0].knows, false);
}

/* --- sequences --- */

static void a_broker_that_forgot_the_producer_gets_a_new_epoch(void **state)
{
    (void)state;
    static const int16_t codes[] = {ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, ERR_UNKNOWN_PRODUCER_ID};
    for (int c = 0; c < 2; c++)
        for (int n = 1; n < 8; n++) {
            struct producer_fixture *f = open_world(19, 1);
            want_small_requests(f);
            start(f);
            send_records(f, 10);
            flush(f);
            for (int i = 0; i < n; i++)
                fault(f, FAULT_NONE, 0);
            fault(f, FAULT_REFUSE, codes[c]);
            send_in_bursts(f);
            all_there_once_in_order(f);
            assert_int_equal(f->logs[0].epoch, 1);
            close_world(f);
        }
}

static void no_record_leaves_before_there_is_a_producer_id(void **state)
{
    struct producer_fixture *f = *state;
    f->id_errors = 4;
    f->id_error = ERR_COORDINATOR_LOAD_IN_PROGRESS;
    start(f);
    send_records(f, 100);
    all_there_once_in_order(f);
    assert_int_equal(f->logs[0].producer_id, 1000);
}

static void a_producer_that_may_not_be_idempotent_says_so(void **state)
{
    struct producer_fixture *f = *state;
    f->id_errors = 1000;
    f->id_error = ERR_CLUSTER_AUTHORIZATION_FAILED;
    start(f);
    send_records(f, 10);
    flush(f);
    assert_int_equal(f->failed, 10);
    assert_int_equal(f->last_error.code, ERR_CLUSTER_AUTHORIZATION_FAILED);
    assert_true(f->last_error.flags & CAFKA_FATAL);
    assert_non_null(strstr(f->last_error.message, "enable.idempotence"));
    cafka_error err;
    assert_int_equal(try_record(f, 0, 100, &err), ERR_CLUSTER_AUTHORIZATION_FAILED);
    assert_true(err.flags & CAFKA_FATAL);
}

/* One batch is refused for good: those behind it are renumbered, and none is lost. */
static void a_batch_refused_for_good_leaves_no_gap(void **state)
{
    (void)state;
    for (int n = 0; n < 8; n++) {
        struct producer_fixture *f = open_world(23, 1);
        want_small_requests(f);
        start(f);
        for (int i = 0; i < n; i++)
            fault(f, FAULT_NONE, 0);
        fault(f, FAULT_REFUSE, ERR_INVALID_RECORD);
        send_in_bursts(f);
        flush(f);
        assert_each_reported_once(f);
        assert_true(f->failed > 0);
        assert_int_equal(f->last_error.code, ERR_INVALID_RECORD);
        assert_int_equal(f->logs[0].count, f->delivered);
        for (int i = 1; i < f->logs[0].count; i++)
            assert_true(f->logs[0].values[i] > f->logs[0].values[i - 1]);
        close_world(f);
    }
}

/* KIP-467: the broker names the records at fault; the others may be sent again. */
static void records_at_fault_are_told_apart(void **state)
{
    (void)state;
    for (int bad = 1; bad < 3; bad++) {
        struct producer_fixture *f = open_world(3, 1);
        f->bad_records = bad;
        start(f);
        fault(f, FAULT_REFUSE, ERR_POLICY_VIOLATION);
        send_records(f, 5);
        flush(f);
        assert_each_reported_once(f);
        assert_int_equal(f->failed, 5);
        for (int i = 0; i < 5; i++) {
            bool named = i >= 1 && i <= bad;
            assert_int_equal(!strstr(f->errors[i].message, "has no key"), !named);
            assert_int_equal(!(f->errors[i].flags & CAFKA_RETRIABLE), named);
            if (named)
                assert_int_equal(f->errors[i].code,
                                 bad == 1 ? ERR_POLICY_VIOLATION : ERR_INVALID_RECORD);
        }
        close_world(f);
    }
}

/* --- time --- */

static void a_record_fails_when_delivery_timeout_is_over(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "delivery.timeout.ms", "5000");
    set(f, "request.timeout.ms", "1000");
    set(f, "linger.ms", "0");
    start(f);
    send_records(f, 1);
    flush(f);
    for (int i = 0; i < BROKERS; i++)
        script_broker_down(&f->cluster.brokers[i]);
    sim_advance_ms(f->sim, 100);
    int64_t began_ms = sim_now_ms(f->sim);
    send_records(f, 5);
    flush(f);
    assert_in_range(sim_now_ms(f->sim) - began_ms, 4990, 5100);
    assert_int_equal(f->failed, 5);
    assert_int_equal(f->last_error.code, CAFKA_ERR_TIMEOUT);
    assert_false(f->last_error.flags & CAFKA_UNKNOWN_OUTCOME); /* it never left */
    assert_non_null(strstr(f->last_error.message, "orders-0"));
    assert_non_null(strstr(f->last_error.message, "delivery.timeout.ms"));
    for (int i = 0; i < BROKERS; i++)
        script_broker_up(&f->cluster.brokers[i]);
    send_records(f, 5);
    flush(f);
    assert_int_equal(f->delivered, 6);
}

/*
 * It timed out here, and may be in the log or not (HARD 3). Nothing that follows may be refused for
 * a gap or written twice.
 */
static void after_a_timeout_with_unknown_outcome_all_goes_on(void **state)
{
    (void)state;
    for (int written = 0; written < 3; written++)
        for (int n = 0; n < 6; n++) {
            struct producer_fixture *f = open_world(29, 1);
            want_small_requests(f);
            set(f, "request.timeout.ms", "3000");
            set(f, "delivery.timeout.ms", "3000");
            start(f);
            send_records(f, 3);
            flush(f);
            for (int i = 0; i < n; i++) {
                fault(f, FAULT_NONE, 0);
                script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, 0);
            }
            if (written == 0)
                fault(f, FAULT_IGNORE, 0);
            else if (written == 1)
                script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY,
                                2900); /* just in time … or not */
            else
                script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, 100000);
            send_in_bursts(f);
            sim_advance_ms(f->sim, 8000);
            int before = f->next;
            send_records(f, 50);
            flush(f);
            assert_each_reported_once(f);
            for (int i = before; i < f->next; i++)
                assert_true(f->offsets[i] >= 0);
            for (int i = 1; i < f->logs[0].count; i++)
                assert_true(f->logs[0].values[i] > f->logs[0].values[i - 1]); /* once, in order */
            close_world(f);
        }
}

static void retries_stop_when_they_are_used_up(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "retries", "2");
    set(f, "linger.ms", "0");
    start(f);
    send_records(f, 1);
    flush(f);
    int before = f->produced;
    for (int i = 0; i < 3; i++)
        fault(f, FAULT_REFUSE, ERR_NOT_ENOUGH_REPLICAS);
    send_records(f, 1);
    flush(f);
    assert_int_equal(f->produced - before, 3);
    assert_int_equal(f->failed, 1);
    assert_int_equal(f->last_error.code, ERR_NOT_ENOUGH_REPLICAS);
    send_records(f, 1);
    flush(f);
    assert_int_equal(f->delivered, 2);
}

static void retries_back_off(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "0");
    start(f);
    send_records(f, 1);
    flush(f);
    int first = f->produced;
    for (int i = 0; i < 6; i++)
        fault(f, FAULT_REFUSE, ERR_NOT_ENOUGH_REPLICAS);
    send_records(f, 1);
    flush(f);
    static const int64_t base[] = {100, 200, 400, 800, 1000, 1000};
    for (int i = 0; i < 6; i++) {
        int64_t wait_ms = f->produced_at_ms[first + i + 1] - f->produced_at_ms[first + i];
        assert_in_range(wait_ms, base[i] * 8 / 10, base[i] * 12 / 10 + 10);
    }
}

static int events;
static char event_text[240];

static void hear_event(const cafka_event *event, void *user)
{
    (void)user;
    events++;
    snprintf(event_text, sizeof event_text, "%s", event->error.message);
    assert_string_equal(event->topic, "orders");
    assert_int_equal(event->partition, 0);
}

static void a_partition_without_progress_is_reported_once_a_cause(void **state)
{
    struct producer_fixture *f = *state;
    events = 0;
    cafka_config_on_event(f->config, hear_event, NULL);
    set(f, "linger.ms", "0");
    start(f);
    send_records(f, 1);
    flush(f);
    for (int i = 0; i < 10; i++)
        fault(f, FAULT_REFUSE, ERR_NOT_ENOUGH_REPLICAS);
    send_records(f, 1);
    flush(f);
    assert_int_equal(events, 1);
    assert_non_null(strstr(event_text, "orders-0"));
    assert_non_null(strstr(event_text, "NOT_ENOUGH_REPLICAS"));
    for (int i = 0; i < 5; i++) /* it had recovered, so this is news */
        fault(f, FAULT_REFUSE, ERR_NOT_ENOUGH_REPLICAS);
    send_records(f, 1);
    flush(f);
    assert_int_equal(events, 2);
}

static void a_cluster_that_cannot_be_reached_is_named(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "max.block.ms", "2000");
    for (int i = 0; i < BROKERS; i++)
        script_broker_down(&f->cluster.brokers[i]);
    start(f);
    cafka_error err;
    int64_t began_ms = sim_now_ms(f->sim);
    assert_int_equal(try_record(f, -1, 100, &err), CAFKA_ERR_TIMEOUT);
    assert_in_range(sim_now_ms(f->sim) - began_ms, 1990, 2100);
    assert_non_null(strstr(err.message, "127.0.0.1:"));
}

/* --- batches that are too large --- */

static void a_batch_that_is_too_large_is_split(void **state)
{
    (void)state;
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++)
        for (int idempotent = 0; idempotent < 2; idempotent++) {
            if (!codec_available(codec))
                continue;
            struct producer_fixture *f = open_world(31, 1);
            set(f, "compression.type", codec_name(codec));
            set(f, "enable.idempotence", idempotent ? "true" : "false");
            if (!idempotent)
                set(f, "max.in.flight.requests.per.connection", "1");
            set(f, "linger.ms", "50");
            start(f);
            f->max_message_bytes = codec ? 300 : 1500; /* far below batch.size */
            send_sized(f, 500, 100);
            all_there_once_in_order(f);
            send_sized(f, 500, 100);
            all_there_once_in_order(f);
            close_world(f);
        }
}

static void a_limit_that_shrinks_on_the_way_loses_nothing(void **state)
{
    struct producer_fixture *f = *state;
    want_small_requests(f);
    start(f);
    for (int i = 0; i < 30; i++) {
        send_records(f, 20);
        sim_advance_ms(f->sim, 2);
        f->max_message_bytes = (size_t)(2000 - 60 * i);
    }
    all_there_once_in_order(f);
}

static void one_record_that_is_too_large_for_the_topic_fails_alone(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "50");
    start(f);
    f->max_message_bytes = 3000;
    send_sized(f, 10, 100);
    send_sized(f, 1, 5000);
    send_sized(f, 10, 100);
    flush(f);
    assert_each_reported_once(f);
    assert_int_equal(f->failed, 1);
    assert_int_equal(f->delivered, 20);
    assert_int_equal(f->last_error.code, ERR_MESSAGE_TOO_LARGE);
    assert_non_null(strstr(f->last_error.message, "max.message.bytes"));
    for (int i = 1; i < f->logs[0].count; i++)
        assert_true(f->logs[0].values[i] > f->logs[0].values[i - 1]);
}

static void who_waits_for_a_record_of_a_split_batch_gets_its_own_result(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "50");
    start(f);
    f->max_message_bytes = 700;
    send_sized(f, 50, 100);
    cafka_error err;
    cafka_delivery_report report;
    cafka_record record = {.topic = "orders", .value = "\0\0\0\62", .value_size = 4};
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, &err), 0);
    assert_int_equal(report.offset, 50);
    assert_int_equal(f->delivered, 50);
}

/* --- all of it at once --- */

static void make_trouble(struct producer_fixture *f, struct rng *rng)
{
    struct script_broker *broker = &f->cluster.brokers[rng_below(rng, BROKERS)];
    struct script_topic *topic = first_topic(f);
    static const int16_t codes[] = {ERR_NOT_ENOUGH_REPLICAS, ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                                    ERR_REQUEST_TIMED_OUT, ERR_KAFKA_STORAGE_ERROR,
                                    ERR_NOT_LEADER_OR_FOLLOWER};
    switch (rng_below(rng, 9)) {
    case 0: script_cut(broker); break;
    case 1:
        if (f->cluster.rule_count < 60)
            script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_CLOSE, 0);
        break;
    case 2:
        if (f->cluster.rule_count < 60)
            script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, (int64_t)rng_below(rng, 3000));
        break;
    case 3:
        for (int i = 0; i < topic->partitions; i++) {
            topic->leader[i] = 1 + (int32_t)rng_below(rng, BROKERS);
            topic->epoch[i]++;
        }
        break;
    case 4:
        if (f->fault_count < FAULTS)
            fault(f, FAULT_REFUSE, codes[rng_below(rng, 5)]);
        break;
    case 5:
        if (f->fault_count < FAULTS)
            fault(f, FAULT_WRITE_REFUSE, codes[rng_below(rng, 4)]);
        break;
    case 6:
        if (broker->up)
            script_broker_down(broker);
        else
            script_broker_up(broker);
        break;
    case 7:
        if (f->fault_count < FAULTS)
            fault(f, FAULT_IGNORE, 0);
        break;
    default: (void)sim_cut(f->sim, NULL, NULL, rng_below(rng, 2) ? SIM_CUT_RESET : SIM_CUT_END);
    }
}

static void check_history(struct producer_fixture *f, int partitions)
{
    static int seen[LOG_MAX];
    memset(seen, 0, sizeof seen);
    for (int p = 0; p < partitions; p++)
        for (int i = 0; i < f->logs[p].count; i++) {
            int value = f->logs[p].values[i];
            seen[value]++;
            if (i && value <= f->logs[p].values[i - 1])
                fail_msg("partition %d: record %d after %d", p, value, f->logs[p].values[i - 1]);
        }
    for (int i = 0; i < f->next; i++)
        if (seen[i] != 1)
            fail_msg("record %d is in the log %d times", i, seen[i]);
}

/* Random trouble from a seed; the judge is the brokers' logs. */
static void nothing_is_lost_doubled_or_reordered_in_any_trouble(void **state)
{
    (void)state;
    const char *count = getenv("CAFKA_SEEDS"), *first = getenv("CAFKA_SEED");
    uint64_t from = first ? strtoull(first, NULL, 10) : 1;
    uint64_t to = from + (count ? strtoull(count, NULL, 10) : 60);
    for (uint64_t seed = from; seed < to; seed++) {
        int partitions = 1 + (int)(seed % 4);
        struct producer_fixture *f = open_world(seed, partitions);
        struct rng rng;
        cafka_error err;
        rng_seed(&rng, seed * 7919);
        want_small_requests(f);
        set(f, "linger.ms", seed % 3 ? "0" : "5");
        set(f, "delivery.timeout.ms", "3000000");
        set(f, "compression.type", seed % 5 ? "none" : "lz4");
        f->hint_leaders = seed % 2;
        start(f);
        for (int i = 0; i < 200; i++) {
            int records = (int)rng_below(&rng, 12);
            for (int k = 0; k < records; k++)
                if (try_record(f, (int32_t)rng_below(&rng, (uint64_t)partitions), 100, &err))
                    fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
            sim_advance_ms(f->sim, (int64_t)rng_below(&rng, 30));
            if (!rng_below(&rng, 6))
                make_trouble(f, &rng);
        }
        for (int i = 0; i < BROKERS; i++)
            if (!f->cluster.brokers[i].up)
                script_broker_up(&f->cluster.brokers[i]);
        f->fault_next = f->fault_count;
        if (cafka_producer_flush(f->producer, 600000, &err))
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.message);
        if (f->failed)
            fail_msg("seed %llu: %s", (unsigned long long)seed, f->last_error.message);
        check_history(f, partitions);
        assert_each_reported_once(f);
        close_world(f);
    }
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_answer_neither_loses_nor_doubles),
        cmocka_unit_test(an_answer_that_never_comes_neither_loses_nor_doubles),
        cmocka_unit_test(a_refused_batch_keeps_its_place),
        cmocka_unit_test(a_batch_written_in_spite_of_an_error_is_not_doubled),
        cmocka_unit_test(batches_follow_their_leader),
        WORLD_TEST(who_leads_is_asked_until_somebody_does),
        WORLD_TEST(a_partition_that_vanished_is_asked_for_until_it_is_back),
        WORLD_TEST(broken_connections_and_restarts_are_survived),
        WORLD_TEST(order_is_kept_with_workers_that_compress),
        WORLD_TEST(one_in_flight_keeps_order_without_idempotence),
        cmocka_unit_test(a_broker_that_forgot_the_producer_gets_a_new_epoch),
        WORLD_TEST(no_record_leaves_before_there_is_a_producer_id),
        WORLD_TEST(a_producer_that_may_not_be_idempotent_says_so),
        cmocka_unit_test(a_batch_refused_for_good_leaves_no_gap),
        cmocka_unit_test(records_at_fault_are_told_apart),
        WORLD_TEST(a_record_fails_when_delivery_timeout_is_over),
        cmocka_unit_test(after_a_timeout_with_unknown_outcome_all_goes_on),
        WORLD_TEST(retries_stop_when_they_are_used_up),
        WORLD_TEST(retries_back_off),
        WORLD_TEST(a_partition_without_progress_is_reported_once_a_cause),
        WORLD_TEST(a_cluster_that_cannot_be_reached_is_named),
        cmocka_unit_test(a_batch_that_is_too_large_is_split),
        WORLD_TEST(a_limit_that_shrinks_on_the_way_loses_nothing),
        WORLD_TEST(one_record_that_is_too_large_for_the_topic_fails_alone),
        WORLD_TEST(who_waits_for_a_record_of_a_split_batch_gets_its_own_result),
        cmocka_unit_test(nothing_is_lost_doubled_or_reordered_in_any_trouble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
