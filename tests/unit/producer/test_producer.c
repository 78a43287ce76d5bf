/*
 * test_producer.c - a producer against brokers that work, under virtual time: batching, order, ends.
 */
#include "producer_fixture.h"

#include "producer/room.h"

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

/* --- the usual life --- */

static void records_arrive_in_order_and_are_reported(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    send_records(f, 3000);
    flush(f);
    assert_log_is(f, 0, 3000);
    assert_each_reported_once(f);
    assert_int_equal(f->delivered, 3000);
    for (int i = 0; i < 3000; i++)
        assert_int_equal(f->offsets[i], i);
    assert_int_equal(f->acks, -1);
}

static void a_record_waits_for_linger(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "500");
    start(f);
    cafka_error err;
    int32_t count;
    assert_int_equal(cafka_producer_partitions(f->producer, "orders", 1000, &count, &err), 0);
    sim_advance_ms(f->sim, 1000);
    int64_t sent_ms = sim_now_ms(f->sim);
    send_records(f, 3);
    sim_advance_ms(f->sim, 450);
    assert_int_equal(f->produced, 0);
    sim_advance_ms(f->sim, 100);
    assert_int_equal(f->produced, 1);
    assert_in_range(f->produced_at_ms[0], sent_ms + 499, sent_ms + 510);
    assert_int_equal(f->logs[0].batches, 1);
}

static void a_full_batch_does_not_wait(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "5000");
    start(f);
    send_records(f, 200); /* more than 16 KiB */
    sim_advance_ms(f->sim, 200);
    assert_int_equal(f->delivered, 200);
}

/* While all request slots are taken the open batch grows, so what follows is few large requests. */
static void batches_grow_while_requests_are_in_flight(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "0");
    set(f, "max.in.flight.requests.per.connection", "1");
    start(f);
    send_records(f, 1);
    flush(f);
    script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, 1000);
    send_records(f, 1);
    sim_advance_ms(f->sim, 500);
    for (int i = 0; i < 20; i++) {
        send_records(f, 200);
        sim_advance_ms(f->sim, 1);
    }
    flush(f);
    assert_int_equal(f->produced, 3); /* the first, the delayed one, and all the rest together */
    assert_int_equal(f->logs[0].batches, 3);
    assert_log_is(f, 0, 4002);
}

static void requests_stay_within_max_request_size(void **state)
{
    struct producer_fixture *f = *state;
    f->cluster.topics[0].partitions = 9;
    for (int i = 0; i < 9; i++)
        f->cluster.topics[0].leader[i] = 1;
    set(f, "max.request.size", "30000");
    set(f, "linger.ms", "1000");
    start(f);
    cafka_error err;
    for (int i = 0; i < 900; i++)
        assert_int_equal(try_record(f, i % 9, 100, &err), 0);
    flush(f);
    assert_true(f->largest_request <= 31000);
    assert_true(f->produced >= 4);
    assert_true(f->produced < 9); /* several partitions shared one */
    assert_int_equal(f->delivered, 900);
}

static void keys_and_turns_choose_partitions(void **state)
{
    struct producer_fixture *f = *state;
    f->cluster.topics[0].partitions = 12;
    for (int i = 0; i < 12; i++)
        f->cluster.topics[0].leader[i] = 1 + i % 3;
    start(f);
    cafka_error err;
    int expected[12] = {0};
    for (int i = 0; i < 300; i++) {
        char key[16];
        int size = snprintf(key, sizeof key, "key-%d", i);
        cafka_record record = {.topic = "orders",
                               .key = key,
                               .key_size = (size_t)size,
                               .opaque = (void *)(intptr_t)f->next++};
        assert_int_equal(cafka_producer_send(f->producer, &record, &err), 0);
        expected[(hash_murmur2(key, (size_t)size) & INT32_MAX) % 12]++;
    }
    flush(f);
    for (int i = 0; i < 12; i++)
        assert_int_equal(f->logs[i].count, expected[i]);
}

static void without_a_key_records_are_spread_over_all_partitions(void **state)
{
    struct producer_fixture *f = *state;
    f->cluster.topics[0].partitions = 6;
    for (int i = 0; i < 6; i++)
        f->cluster.topics[0].leader[i] = 1 + i % 3;
    start(f);
    cafka_error err;
    for (int i = 0; i < 18000; i++)
        assert_int_equal(try_record(f, -1, 100, &err), 0);
    flush(f);
    for (int i = 0; i < 6; i++)
        assert_in_range(f->logs[i].count, 600, 7000); /* 3000 on average */
    assert_each_reported_once(f);
    assert_int_equal(f->failed, 0);
}

static void every_codec_gets_there(void **state)
{
    (void)state;
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        struct producer_fixture *f = open_world(2, 1);
        set(f, "compression.type", codec_name(codec));
        start(f);
        send_records(f, 2000);
        flush(f);
        assert_int_equal(f->codec, codec);
        assert_log_is(f, 0, 2000);
        assert_each_reported_once(f);
        close_world(f);
    }
}

static void headers_timestamps_and_nulls_are_kept(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    cafka_error err;
    cafka_header headers[] = {{"a", 0, "1", 1}, {"b", 1, NULL, 0}, {"", 0, "", 0}};
    cafka_record record = {.topic = "orders",
                           .headers = headers,
                           .header_count = 3,
                           .value = "\0\0\0\7",
                           .value_size = 4,
                           .timestamp_ms = 12345,
                           .flags = CAFKA_RECORD_TIMESTAMP,
                           .opaque = (void *)(intptr_t)f->next++};
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), 0);
    record = (cafka_record){.topic = "orders",
                            .timestamp_ms = 1,
                            .flags = CAFKA_RECORD_TIMESTAMP,
                            .opaque = (void *)(intptr_t)f->next++};
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), 0);
    flush(f);
    assert_int_equal(f->logs[0].values[0], 7);
    assert_int_equal(f->logs[0].timestamps[0], 12345);
    assert_int_equal(f->logs[0].timestamps[1], 1); /* before the batch's first */
    assert_int_equal(f->logs[0].sizes[1], 0);
}

static void acks_0_is_delivered_once_written(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "acks", "0");
    set(f, "enable.idempotence", "false");
    start(f);
    send_records(f, 500);
    flush(f);
    assert_int_equal(f->delivered, 500);
    assert_int_equal(f->offsets[0], -1);
    sim_advance_ms(f->sim, 100);
    assert_log_is(f, 0, 500);
    assert_int_equal(f->acks, 0);
}

static void send_wait_returns_the_records_own_result(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    send_records(f, 5);
    cafka_error err;
    cafka_delivery_report report;
    cafka_record record = {.topic = "orders", .value = "\0\0\0\5", .value_size = 4, .opaque = f};
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, &err), 0);
    assert_int_equal(report.offset, 5);
    assert_ptr_equal(report.opaque, f);
    assert_int_equal(report.partition, 0);
    fault(f, FAULT_REFUSE, ERR_INVALID_RECORD);
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, &err),
                     ERR_INVALID_RECORD);
    assert_non_null(strstr(err.message, "orders-0"));
    flush(f);
    assert_int_equal(f->delivered, 5); /* the others, and nothing of the one that was waited for */
    assert_int_equal(f->failed, 0);
}

static void send_many_takes_them_all(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    enum { MANY = 1000 };
    static cafka_record records[MANY];
    static uint8_t values[MANY][8];
    for (int i = 0; i < MANY; i++) {
        store_be32(values[i], (uint32_t)i);
        records[i] = (cafka_record){.topic = "orders",
                                    .value = values[i],
                                    .value_size = 8,
                                    .opaque = (void *)(intptr_t)i};
    }
    cafka_error err;
    size_t accepted;
    assert_int_equal(cafka_producer_send_many(f->producer, records, MANY, &accepted, &err), 0);
    assert_int_equal(accepted, MANY);
    f->next = MANY;
    flush(f);
    assert_log_is(f, 0, MANY);
    assert_each_reported_once(f);

    records[10].value = NULL; /* a size without data */
    assert_int_equal(cafka_producer_send_many(f->producer, records, MANY, &accepted, &err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(accepted, 10);
}

static void queued_callbacks_run_in_dispatch(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "callback.dispatch", "queue");
    start(f);
    send_records(f, 100);
    flush(f);
    assert_int_equal(f->delivered, 0);
    assert_true(cafka_dispatch(cafka_producer_client(f->producer), 0) > 0);
    assert_int_equal(f->delivered, 100);
    send_records(f, 100);
    cafka_error err;
    assert_int_equal(cafka_producer_close(f->producer, 10000, &err), 0); /* dispatches what is left */
    assert_int_equal(f->delivered, 200);
}

/* The thread that waits runs the loop, when the application brought one without a thread. */
static void an_external_loop_is_run_by_who_waits(void **state)
{
    struct producer_fixture *f = *state;
    cafka_loop *loop;
    cafka_error err;
    assert_int_equal(cafka_loop_new_in(&loop, sim_env(f->sim), CAFKA_LOOP_EXTERNAL, &err), 0);
    cafka_config_set_loop(f->config, loop);
    set(f, "callback.dispatch", "loop");
    start(f);
    send_records(f, 500);
    flush(f);
    assert_log_is(f, 0, 500);
    assert_int_equal(f->delivered, 500);
    send_records(f, 10);
    for (int i = 0; i < 100 && f->delivered < 510; i++)
        assert_int_equal(cafka_loop_run(loop, 10, &err), 0);
    assert_int_equal(f->delivered, 510);
    send_records(f, 10);
    assert_int_equal(cafka_producer_close(f->producer, 1000, &err), 0);
    assert_int_equal(f->delivered, 520);
    cafka_producer_free(f->producer);
    f->producer = NULL;
    cafka_loop_free(loop);
}

/* Records without a key avoid the partition whose broker is slow (KIP-794). */
static void a_slow_broker_gets_less(void **state)
{
    struct producer_fixture *f = *state;
    f->cluster.topics[0].partitions = 3;
    for (int i = 0; i < 3; i++)
        f->cluster.topics[0].leader[i] = 1 + i;
    set(f, "max.in.flight.requests.per.connection", "1");
    set(f, "batch.size", "1000");
    set(f, "linger.ms", "0");
    start(f);
    f->slow_broker = 2;
    cafka_error err;
    for (int i = 0; i < 6000; i++) {
        assert_int_equal(try_record(f, -1, 100, &err), 0);
        if (i % 10 == 9)
            sim_advance_ms(f->sim, 5);
    }
    int total = 0;
    flush(f);
    for (int i = 0; i < 3; i++)
        total += f->logs[i].count;
    assert_int_equal(total, 6000);
    assert_true(f->logs[1].count < f->logs[0].count / 2);
    assert_true(f->logs[1].count < f->logs[2].count / 2);
}

/* --- topics --- */

static void a_topic_made_anew_goes_on_under_its_new_id(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "0");
    start(f);
    send_records(f, 10);
    flush(f);
    first_topic(f)->id.bytes[0] ^= 1; /* deleted, and made again */
    memset(&f->logs[0], 0, sizeof f->logs[0]);
    for (int i = 0; i < 5; i++) {
        send_records(f, 10);
        sim_advance_ms(f->sim, 50);
    }
    flush(f);
    assert_log_is(f, 10, 60);
    assert_int_equal(f->failed, 0);
}

static void a_grown_topic_is_used_whole(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "metadata.max.age.ms", "1000");
    set(f, "batch.size", "500");
    start(f);
    cafka_error err;
    int32_t count;
    assert_int_equal(try_record(f, -1, 100, &err), 0);
    f->cluster.topics[0].partitions = 4;
    for (int i = 0; i < 4; i++)
        f->cluster.topics[0].leader[i] = 1 + i % 3;
    sim_advance_ms(f->sim, 3000);
    assert_int_equal(cafka_producer_partitions(f->producer, "orders", 0, &count, &err), 0);
    assert_int_equal(count, 4);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(try_record(f, -1, 100, &err), 0);
    flush(f);
    for (int i = 0; i < 4; i++)
        assert_true(f->logs[i].count > 50);
}

static void an_unknown_topic_is_an_error_in_time(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "max.block.ms", "2000");
    start(f);
    cafka_error err;
    int64_t began_ms = sim_now_ms(f->sim);
    cafka_record record = {.topic = "nowhere"};
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_ERR_TIMEOUT);
    assert_true(err.flags & CAFKA_RETRIABLE);
    assert_non_null(strstr(err.message, "nowhere"));
    assert_in_range(sim_now_ms(f->sim) - began_ms, 1999, 2050);
    assert_true(f->cluster.auto_create_seen);
    assert_int_equal(cafka_producer_try_send(f->producer, &record, &err), CAFKA_ERR_WOULD_BLOCK);
    record.topic = "no spaces, please";
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_ERR_ARGUMENT);
}

static void a_topic_that_is_forbidden_fails_at_once(void **state)
{
    struct producer_fixture *f = *state;
    script_topic_add(&f->cluster, "secret", 1)->error = ERR_TOPIC_AUTHORIZATION_FAILED;
    start(f);
    cafka_error err;
    int64_t began_ms = sim_now_ms(f->sim);
    cafka_record record = {.topic = "secret"};
    assert_int_equal(cafka_producer_send(f->producer, &record, &err),
                     ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_non_null(strstr(err.message, "secret"));
    assert_true(sim_now_ms(f->sim) - began_ms < 1000);
}

static void a_partition_that_is_not_there_yet_is_waited_for(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "max.block.ms", "5000");
    start(f);
    send_records(f, 1);
    cafka_error err;
    int64_t began_ms = sim_now_ms(f->sim);
    assert_int_equal(try_record(f, 1, 100, &err), CAFKA_ERR_TIMEOUT);
    assert_non_null(strstr(err.message, "orders-1"));
    assert_in_range(sim_now_ms(f->sim) - began_ms, 4999, 5050);

    f->cluster.topics[0].partitions = 2;
    f->cluster.topics[0].leader[1] = 2;
    began_ms = sim_now_ms(f->sim);
    assert_int_equal(try_record(f, 1, 100, &err), 0);
    assert_true(sim_now_ms(f->sim) - began_ms < 3000);
    flush(f);
    assert_int_equal(f->logs[1].count, 1);
}

/* A broker's offset that leaves no number for the records behind it is not repeated. */
static void an_offset_that_cannot_be_is_not_reported(void **state)
{
    struct producer_fixture *f = *state;
    static const int64_t told[] = {INT64_MAX, -7};
    start(f);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        f->told_offset = told[i];
        cafka_record record = {.topic = "orders", .value = "v", .value_size = 1};
        cafka_delivery_report report = {0};
        cafka_error err;
        assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, &err), CAFKA_OK);
        assert_int_equal(report.offset, -1);
    }
}

/* --- limits --- */

static void a_record_that_is_too_large_is_refused_at_once(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "max.request.size", "20000");
    start(f);
    cafka_error err;
    assert_int_equal(try_record(f, 0, 20001, &err), CAFKA_ERR_TOO_LARGE);
    assert_non_null(strstr(err.message, "max.request.size"));
    assert_non_null(strstr(err.message, "a record of 20")); /* with what is around it */
    cafka_record huge = {.topic = "orders",
                         .key = "k",
                         .key_size = SIZE_MAX - 1,
                         .value = "v",
                         .value_size = 3};
    assert_int_equal(cafka_producer_send(f->producer, &huge, &err), CAFKA_ERR_TOO_LARGE);
    assert_int_equal(try_record(f, 0, 19000, &err), 0);
    flush(f);
    assert_int_equal(f->delivered, 1);
}

static void memory_that_stays_used_up_ends_a_send_in_time(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "buffer.memory", "200000");
    set(f, "max.block.ms", "1500");
    start(f);
    send_records(f, 1);
    flush(f);
    for (int i = 0; i < BROKERS; i++)
        f->cluster.brokers[i].mute = true;
    cafka_error err;
    int rc;
    int64_t began_ms = 0;
    do {
        began_ms = sim_now_ms(f->sim);
        rc = try_record(f, 0, 100, &err);
    } while (!rc);
    assert_int_equal(rc, CAFKA_ERR_TIMEOUT);
    assert_non_null(strstr(err.message, "buffer.memory"));
    assert_in_range(sim_now_ms(f->sim) - began_ms, 1499, 1550);
    assert_true(memory_pool_used(&f->producer->accumulator.pool) <= 200000);
    assert_in_range(f->next, 900, 2000);
    cafka_record record = {.topic = "orders", .value = "xxxx", .value_size = 4};
    char large[5000] = {0};
    record.value = large;
    record.value_size = sizeof large;
    assert_int_equal(cafka_producer_try_send(f->producer, &record, &err), CAFKA_ERR_WOULD_BLOCK);
}

/* Who waits for memory does not wait for linger.ms: what fills it is sent. */
static void short_memory_sends_what_lingers(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "buffer.memory", "60000");
    set(f, "batch.size", "100000");
    set(f, "linger.ms", "3600000");
    set(f, "delivery.timeout.ms", "4000000");
    start(f);
    int64_t began_ms = sim_now_ms(f->sim);
    send_records(f, 2000);
    assert_true(sim_now_ms(f->sim) - began_ms < 10000);
    assert_int_equal(f->failed, 0);
}

static void every_failing_allocation_in_new_is_an_error(void **state)
{
    (void)state;
    int rc = 1;
    for (unsigned long k = 1; rc; k++) {
        struct producer_fixture *f = open_world(3, 1);
        cafka_error err = {0};
        mem_fail_after(k, 0);
        rc = cafka_producer_new(&f->producer, f->config, &err);
        mem_fail_after(0, 0);
        if (rc) {
            assert_true(rc == CAFKA_ERR_MEMORY ||
                        rc == CAFKA_ERR_SYSTEM); /* the world's own memory too */
            f->producer = NULL;
        }
        close_world(f);
    }
}

/* The record that finds no memory is not taken; those before and after it are not touched. */
static void every_failing_allocation_in_send_costs_one_record(void **state)
{
    (void)state;
    for (unsigned long k = 1; k < 60; k++) {
        struct producer_fixture *f = open_world(3, 1);
        cafka_error err = {0};
        int32_t count;
        set(f, "batch.size", "2048");
        set(f, "compression.type", "lz4");
        start(f);
        assert_int_equal(cafka_producer_partitions(f->producer, "orders", 1000, &count, &err), 0);
        int refused = 0;
        mem_fail_after(k, 0);
        for (int i = 0; i < 1500; i++) {
            int rc = try_record(f, 0, 100, &err);
            assert_true(!rc || rc == CAFKA_ERR_MEMORY);
            refused += rc != 0;
        }
        mem_fail_after(0, 0);
        assert_true(refused <= 1);
        send_records(f, 10);
        flush(f);
        assert_log_is(f, 0, f->next);
        assert_each_reported_once(f);
        assert_int_equal(f->failed, 0);
        close_world(f);
    }
}

/* --- the end --- */

static void close_delivers_what_was_taken(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "linger.ms", "3600000");
    set(f, "delivery.timeout.ms", "4000000");
    start(f);
    send_records(f, 50);
    cafka_error err;
    assert_int_equal(cafka_producer_close(f->producer, 10000, &err), 0);
    assert_log_is(f, 0, 50);
    assert_int_equal(f->delivered, 50);
    assert_int_equal(try_record(f, 0, 100, &err), CAFKA_ERR_CLOSED);
    assert_int_equal(cafka_producer_close(f->producer, 10000, &err), 0);
    assert_int_equal(cafka_producer_flush(f->producer, 1000, &err), 0);
}

enum scene {
    NOTHING_SENT,
    UNREACHABLE,
    CONNECTING,
    SILENT,
    IN_FLIGHT,
    BACKING_OFF,
    LINGERING,
    NO_LEADER,
    SCENES
};

static void set_scene(struct producer_fixture *f, enum scene scene)
{
    cafka_error err;
    cafka_record record = {.topic = "orders", .value = "abcd", .value_size = 4};
    set(f, "max.block.ms", "1000");
    if (scene == LINGERING)
        set(f, "linger.ms", "100000");
    start(f);
    if (scene == NOTHING_SENT)
        return;
    if (scene == UNREACHABLE || scene == CONNECTING) {
        for (int i = 0; i < BROKERS; i++)
            sim_port_set(f->sim, f->cluster.brokers[i].port,
                         scene == CONNECTING ? SIM_PORT_SILENT : SIM_PORT_REFUSED, &err);
        assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_ERR_TIMEOUT);
        return;
    }
    if (scene != LINGERING) {
        send_records(f, 1);
        flush(f);
    }
    if (scene == SILENT)
        for (int i = 0; i < BROKERS; i++)
            f->cluster.brokers[i].mute = true;
    if (scene == IN_FLIGHT)
        script_rule_add(&f->cluster, API_PRODUCE, SCRIPT_DELAY, 20000);
    if (scene == BACKING_OFF)
        for (int i = 0; i < FAULTS; i++)
            fault(f, FAULT_REFUSE, ERR_NOT_ENOUGH_REPLICAS);
    if (scene == NO_LEADER) {
        first_topic(f)->leader[0] = -1;
        first_topic(f)->epoch[0] = 5;
    }
    send_records(f, 700);
    sim_advance_ms(f->sim, 300);
}

static void close_keeps_its_time_in_every_state(void **state)
{
    (void)state;
    static const int64_t timeouts[] = {0, 1, 700, 3000};
    for (int scene = 0; scene < SCENES; scene++)
        for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
            struct producer_fixture *f = open_world(4, 1);
            set_scene(f, scene);
            cafka_error err;
            int64_t began_ms = sim_now_ms(f->sim);
            int rc = cafka_producer_close(f->producer, timeouts[i], &err);
            int64_t took_ms = sim_now_ms(f->sim) - began_ms;
            assert_true(took_ms <= timeouts[i] + 10);
            assert_each_reported_once(f);
            assert_int_equal(rc, f->failed ? CAFKA_ERR_TIMEOUT : 0);
            if (f->failed)
                assert_int_equal(f->last_error.code, CAFKA_ERR_PURGED);
            close_world(f);
        }
}

static void free_alone_closes_and_reports(void **state)
{
    (void)state;
    for (int scene = 0; scene < SCENES; scene++) {
        struct producer_fixture *f = open_world(5, 1);
        set_scene(f, scene);
        cafka_producer_free(f->producer);
        f->producer = NULL;
        assert_int_equal(f->delivered + f->failed, f->next);
        close_world(f);
    }
}

static void call_back_in(struct producer_fixture *f)
{
    cafka_error err;
    f->in_callback = NULL;
    assert_int_equal(cafka_producer_flush(f->producer, 1000, &err), CAFKA_ERR_IN_CALLBACK);
    assert_int_equal(cafka_producer_flush(f->producer, 0, &err), 0);
    assert_int_equal(cafka_producer_close(f->producer, 1000, &err), CAFKA_ERR_IN_CALLBACK);
    cafka_record record = {.topic = "elsewhere"};
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_ERR_WOULD_BLOCK);
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, NULL, &err),
                     CAFKA_ERR_IN_CALLBACK);
    send_records(f, 1); /* this one may */
}

static void callbacks_may_call_back_in(void **state)
{
    struct producer_fixture *f = *state;
    f->in_callback = call_back_in;
    start(f);
    send_records(f, 10);
    flush(f);
    flush(f);
    assert_int_equal(f->delivered, 11);
}

static void close_now(struct producer_fixture *f)
{
    cafka_error err;
    f->in_callback = NULL;
    assert_int_equal(cafka_producer_close(f->producer, 0, &err), 0);
}

static void a_callback_may_close(void **state)
{
    struct producer_fixture *f = *state;
    f->in_callback = close_now;
    set(f, "linger.ms", "0");
    start(f);
    send_records(f, 1);
    sim_advance_ms(f->sim, 1000);
    cafka_error err;
    assert_int_equal(try_record(f, 0, 100, &err), CAFKA_ERR_CLOSED);
    assert_int_equal(cafka_producer_close(f->producer, 1000, &err), 0);
    assert_each_reported_once(f);
}

static void expect_a_flush_to_go_on(struct producer_fixture *f)
{
    assert_false(list_empty(&f->producer->sender.flushes));
}

/* Or a flush would return on its thread before the last reports were told on the loop's. */
static void a_flush_is_over_only_after_the_reports(void **state)
{
    struct producer_fixture *f = *state;
    f->in_callback = expect_a_flush_to_go_on;
    start(f);
    for (int i = 0; i < 3; i++) {
        send_records(f, 10);
        flush(f);
    }
    assert_int_equal(f->batches_reported, 3);
    send_records(f, 10);
    cafka_error err;
    assert_int_equal(cafka_producer_close(f->producer, -1, &err), 0);
    assert_each_reported_once(f);
}

/* A program without a delivery function loses nothing silently. */
static void without_reports_flush_and_close_tell_the_first_failure(void **state)
{
    struct producer_fixture *f = *state;
    cafka_config_on_delivery(f->config, NULL, NULL);
    start(f);
    send_records(f, 10);
    flush(f);
    fault(f, FAULT_REFUSE, ERR_INVALID_RECORD);
    send_records(f, 10);
    cafka_error err;
    assert_int_equal(cafka_producer_flush(f->producer, -1, &err), ERR_INVALID_RECORD);
    assert_non_null(strstr(err.message, "10 records"));
    assert_int_equal(cafka_producer_flush(f->producer, -1, &err), 0);
    fault(f, FAULT_REFUSE, ERR_INVALID_RECORD);
    send_records(f, 3);
    assert_int_equal(cafka_producer_close(f->producer, 1000, &err), ERR_INVALID_RECORD);
}

static void a_bad_record_is_refused(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    cafka_error err;
    cafka_record bad[] = {
        {.value = "x", .value_size = 1},
        {.topic = "orders", .value_size = 1},
        {.topic = "orders", .key_size = 1},
        {.topic = "orders", .header_count = 1},
        {.topic = "orders", .partition = -1, .flags = CAFKA_RECORD_PARTITION},
        {.topic = "orders", .timestamp_ms = -1, .flags = CAFKA_RECORD_TIMESTAMP},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(cafka_producer_send(f->producer, &bad[i], &err), CAFKA_ERR_ARGUMENT);
        assert_true(err.message[0]);
    }
    assert_int_equal(cafka_producer_send(NULL, &bad[0], &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_producer_send(f->producer, NULL, NULL), CAFKA_ERR_ARGUMENT);
    cafka_header nameless = {.value = "v", .value_size = 1};
    cafka_record record = {.topic = "orders", .headers = &nameless, .header_count = 1};
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_ERR_ARGUMENT);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(records_arrive_in_order_and_are_reported),
        WORLD_TEST(a_record_waits_for_linger),
        WORLD_TEST(a_full_batch_does_not_wait),
        WORLD_TEST(batches_grow_while_requests_are_in_flight),
        WORLD_TEST(requests_stay_within_max_request_size),
        WORLD_TEST(keys_and_turns_choose_partitions),
        WORLD_TEST(without_a_key_records_are_spread_over_all_partitions),
        cmocka_unit_test(every_codec_gets_there),
        WORLD_TEST(headers_timestamps_and_nulls_are_kept),
        WORLD_TEST(acks_0_is_delivered_once_written),
        WORLD_TEST(send_wait_returns_the_records_own_result),
        WORLD_TEST(send_many_takes_them_all),
        WORLD_TEST(queued_callbacks_run_in_dispatch),
        WORLD_TEST(an_external_loop_is_run_by_who_waits),
        WORLD_TEST(a_slow_broker_gets_less),
        WORLD_TEST(a_topic_made_anew_goes_on_under_its_new_id),
        WORLD_TEST(a_grown_topic_is_used_whole),
        WORLD_TEST(an_unknown_topic_is_an_error_in_time),
        WORLD_TEST(a_topic_that_is_forbidden_fails_at_once),
        WORLD_TEST(a_partition_that_is_not_there_yet_is_waited_for),
        WORLD_TEST(an_offset_that_cannot_be_is_not_reported),
        WORLD_TEST(a_record_that_is_too_large_is_refused_at_once),
        WORLD_TEST(memory_that_stays_used_up_ends_a_send_in_time),
        WORLD_TEST(short_memory_sends_what_lingers),
        cmocka_unit_test(every_failing_allocation_in_new_is_an_error),
        cmocka_unit_test(every_failing_allocation_in_send_costs_one_record),
        WORLD_TEST(close_delivers_what_was_taken),
        cmocka_unit_test(close_keeps_its_time_in_every_state),
        cmocka_unit_test(free_alone_closes_and_reports),
        WORLD_TEST(callbacks_may_call_back_in),
        WORLD_TEST(a_callback_may_close),
        WORLD_TEST(a_flush_is_over_only_after_the_reports),
        WORLD_TEST(without_reports_flush_and_close_tell_the_first_failure),
        WORLD_TEST(a_bad_record_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
