/*
 * test_out_of_memory.c - a life of produce, consume and admin in which one allocation fails, for each
 * allocation that there is: nothing crashes, each accepted record is reported once, what was
 * acknowledged is in the log once, errors say what failed, and all memory comes back.
 *
 * The cluster lives in the same world and takes its memory from the same place, so it is hit as
 * often. CAFKA_SEEDS=N takes more of the allocations (make check takes every STEP-th, beginning at
 * another one for each CAFKA_SEED); with 100 and more all of them.
 */
#include "mock/mock_fixture.h"

#include <cafka/admin.h>
#include <cafka/memory.h>

#include "util/alloc.h"

enum { RECORDS = 12, PARTITIONS = 3, STEP = 7, PATIENCE_MS = 60000 };

struct life {
    cafka_mock *mock;
    unsigned long k;
    bool accepted[RECORDS];
    int reported[RECORDS], acknowledged[RECORDS];
};

/* A call may fail in such a life, but then it says so. */
static bool went_well(struct life *life, const char *what, int rc, const cafka_error *err)
{
    if (!rc)
        return true;
    if (err->code != rc || strlen(err->message) < 10)
        fail_msg("allocation %lu: %s returned %d with the error %d '%s'", life->k, what, rc,
                 err->code, err->message);
    return false;
}

static cafka_config *config_in(struct life *life, const char *properties)
{
    cafka_config *config = NULL;
    cafka_error err = {0};
    if (!went_well(life, "config_new", cafka_config_new(&config, &err), &err))
        return NULL;
    const char *servers = cafka_mock_bootstrap(life->mock);
    cafka_config_set_env(config, cafka_mock_env(life->mock));
    if (went_well(life, "config_set", cafka_config_set(config, "bootstrap.servers", servers, &err),
                  &err) &&
        went_well(life, "config_load", cafka_config_load(config, properties, &err), &err))
        return config;
    cafka_config_free(config);
    return NULL;
}

/* --- producing --- */

static void on_delivery(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct life *life = user;
    cafka_delivery_report report;
    (void)producer;
    while (!cafka_delivery_next(delivery, &report)) {
        size_t i = (size_t)(uintptr_t)report.opaque - 1;
        life->reported[i]++;
        life->acknowledged[i] += report.code == CAFKA_OK;
    }
}

static void send_records(struct life *life, cafka_producer *producer)
{
    for (int i = 0; i < RECORDS; i++) {
        cafka_header header = {.name = "n", .value = &i, .value_size = sizeof i};
        cafka_record record = {.topic = "orders",
                               .value = &i,
                               .value_size = sizeof i,
                               .headers = &header,
                               .header_count = 1,
                               .partition = i % PARTITIONS,
                               .flags = CAFKA_RECORD_PARTITION,
                               .opaque = (void *)(uintptr_t)(i + 1)};
        cafka_error err = {0};
        life->accepted[i] =
            went_well(life, "send", cafka_producer_send(producer, &record, &err), &err);
        if (i == RECORDS / 2)
            (void)went_well(life, "flush", cafka_producer_flush(producer, PATIENCE_MS, &err), &err);
    }
}

static void produce(struct life *life)
{
    cafka_error err = {0};
    cafka_config *config = config_in(life, "compression.type=lz4\nmax.block.ms=20000\n");
    if (!config)
        return;
    cafka_config_on_delivery(config, on_delivery, life);
    cafka_producer *producer = NULL;
    int rc = cafka_producer_new(&producer, config, &err);
    cafka_config_free(config);
    if (!went_well(life, "producer_new", rc, &err))
        return;
    send_records(life, producer);
    (void)went_well(life, "producer_close", cafka_producer_close(producer, PATIENCE_MS, &err), &err);
    cafka_producer_free(producer);
    for (int i = 0; i < RECORDS; i++)
        if (life->reported[i] != life->accepted[i])
            fail_msg("allocation %lu: record %d was %s and reported %d times", life->k, i,
                     life->accepted[i] ? "accepted" : "refused", life->reported[i]);
}

/* --- consuming --- */

static bool assign_all(struct life *life, cafka_consumer *consumer)
{
    cafka_position positions[PARTITIONS];
    cafka_error err = {0};
    for (int p = 0; p < PARTITIONS; p++)
        positions[p] = (cafka_position){.topic = "orders",
                                        .partition = p,
                                        .flags = CAFKA_POSITION_OFFSET,
                                        .offset = CAFKA_OFFSET_BEGINNING};
    if (!went_well(life, "assign", cafka_consumer_assign(consumer, positions, PARTITIONS, &err),
                   &err))
        return false;
    int rc = cafka_consumer_pause(consumer, positions, PARTITIONS, &err);
    if (!rc)
        rc = cafka_consumer_resume(consumer, positions, PARTITIONS, &err);
    if (rc && rc != CAFKA_ERR_MEMORY) /* what was assigned is there for every call */
        fail_msg("allocation %lu: after assign, pause or resume gave %s", life->k, err.message);
    return !rc;
}

/* Each entry has its answer, or says that there was no memory for one. */
static void ask_where_they_begin(struct life *life, cafka_consumer *consumer)
{
    cafka_position positions[PARTITIONS];
    cafka_error err = {0};
    for (int p = 0; p < PARTITIONS; p++)
        positions[p] = (cafka_position){.topic = "orders", .partition = p};
    if (!went_well(life, "begin_offsets",
                   cafka_consumer_begin_offsets(consumer, positions, PARTITIONS, PATIENCE_MS, &err),
                   &err))
        return;
    for (int p = 0; p < PARTITIONS; p++)
        if (positions[p].error ? positions[p].error != CAFKA_ERR_MEMORY : positions[p].offset != 0)
            fail_msg("allocation %lu: orders-%d begins at %lld, %s", life->k, p,
                     (long long)positions[p].offset, cafka_error_name(positions[p].error));
}

/* How often each record was read, until none comes any more for so long. */
static void read_all(struct life *life, cafka_consumer *consumer, int64_t quiet_ms,
                     int seen[RECORDS])
{
    cafka_error err = {0};
    cafka_fetch *fetch = NULL;
    cafka_record_view record;
    int failures = 0;
    for (;;) {
        int rc = cafka_consumer_poll(consumer, quiet_ms, &fetch, &err);
        if (!went_well(life, "poll", rc, &err)) {
            if (++failures > 20) /* more than fail in a row */
                fail_msg("allocation %lu: poll goes on failing: %s", life->k, err.message);
            continue;
        }
        if (!fetch)
            return;
        while (!(rc = cafka_fetch_next(fetch, &record, &err))) {
            int number;
            memcpy(&number, record.value, sizeof number);
            assert_in_range(number, 0, RECORDS - 1);
            seen[number]++;
        }
        if (rc != CAFKA_END)
            (void)went_well(life, "fetch_next", rc, &err);
        cafka_fetch_free(fetch);
    }
}

static void consume(struct life *life, int64_t quiet_ms, int seen[RECORDS])
{
    cafka_error err = {0};
    cafka_consumer *consumer = NULL;
    cafka_config *config = config_in(life, "");
    if (!config)
        return;
    int rc = cafka_consumer_new(&consumer, config, &err);
    cafka_config_free(config);
    if (!went_well(life, "consumer_new", rc, &err))
        return;
    ask_where_they_begin(life, consumer);
    if (assign_all(life, consumer))
        read_all(life, consumer, quiet_ms, seen);
    (void)went_well(life, "consumer_close", cafka_consumer_close(consumer, PATIENCE_MS, &err), &err);
    cafka_consumer_free(consumer);
}

/* --- asking --- */

static void administer(struct life *life)
{
    cafka_error err = {0};
    cafka_admin *admin = NULL;
    cafka_config *config = config_in(life, "");
    if (!config)
        return;
    int rc = cafka_admin_new(&admin, config, &err);
    cafka_config_free(config);
    if (!went_well(life, "admin_new", rc, &err))
        return;
    cafka_new_topic topic = {.size = sizeof topic, .name = "more", .partitions = 2};
    (void)went_well(life, "create",
                    cafka_admin_create_topics(admin, &topic, 1, 0, PATIENCE_MS, NULL, &err), &err);
    (void)went_well(life, "admin_close", cafka_admin_close(admin, PATIENCE_MS, &err), &err);
    cafka_admin_free(admin);
}

/* --- the whole of it --- */

static int64_t held_bytes(void)
{
    int64_t sum = 0;
    cafka_memory_use use = {.size = sizeof use};
    for (size_t i = 0; !cafka_memory_stats(i, &use); i++)
        sum += use.bytes;
    return sum;
}

/* Each acknowledged record is there once; one whose fate is unknown at most once. */
static void check_log(struct life *life)
{
    int seen[RECORDS] = {0};
    consume(life, 2000, seen);
    for (int i = 0; i < RECORDS; i++)
        if (seen[i] > 1 || (life->acknowledged[i] && !seen[i]) || (!life->accepted[i] && seen[i]))
            fail_msg("allocation %lu: record %d, %s and %s, is in the log %d times", life->k, i,
                     life->accepted[i] ? "accepted" : "refused",
                     life->acknowledged[i] ? "acknowledged" : "failed", seen[i]);
}

/* The allocations of a life in which some fail, the k-th first. */
static unsigned long live(unsigned long k, unsigned long in_a_row)
{
    static const char *const topics[] = {"orders:3:3"};
    int64_t before = held_bytes();
    int seen[RECORDS] = {0};
    struct life life = {.mock = start_cluster(1, topics, 1, NULL), .k = k};
    mem_fail_some(k, in_a_row);
    produce(&life);
    consume(&life, 500, seen);
    administer(&life);
    unsigned long count = mem_count();
    mem_fail_after(0, 0);
    for (int i = 0; i < RECORDS; i++)
        assert_true(seen[i] <= 1);
    check_log(&life);
    cafka_mock_free(life.mock);
    if (held_bytes() != before)
        fail_msg("allocation %lu: %lld bytes were not given back", k,
                 (long long)(held_bytes() - before));
    return count;
}

static unsigned long number_from(const char *name, unsigned long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

static void live_often(unsigned long in_a_row)
{
    unsigned long seeds = number_from("CAFKA_SEEDS", 1), seed = number_from("CAFKA_SEED", 1);
    unsigned long step = seeds >= 100 ? 1 : seeds > STEP ? 1 : STEP / (seeds ? seeds : 1);
    unsigned long lives = 0, count = live(0, 1);
    for (unsigned long k = 1 + seed % step; k <= count; k += step, lives++)
        live(k, in_a_row);
    print_message("%lu of %lu allocations failed, %lu a life\n", lives, count, in_a_row);
}

static void whichever_allocation_fails_nothing_is_lost_but_time(void **state)
{
    (void)state;
    live_often(1);
}

static void whichever_allocations_in_a_row_fail_nothing_is_lost_but_time(void **state)
{
    (void)state;
    live_often(7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whichever_allocation_fails_nothing_is_lost_but_time),
        cmocka_unit_test(whichever_allocations_in_a_row_fail_nothing_is_lost_but_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
