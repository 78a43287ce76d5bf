/*
 * test_end_to_end.c - records go through a cluster that misbehaves, and come back: each that was
 * acknowledged once, none twice, in order within its partition.
 *
 * One run is one seed: it decides sizes, codec, partitions, what goes wrong and when, and how the
 * network cuts its pieces. CAFKA_SEEDS says how many seeds are run, CAFKA_SEED which is the first;
 * a failure names its seed. Every tenth seed is run twice and must take the same course.
 */
#include "mock/mock_fixture.h"

#include "record/compress.h"
#include "util/rng.h"

enum { PARTITIONS = 6, RECORDS = 1500, BROKERS = 3, LARGEST = 3000, PATIENCE_MS = 120000 };

struct run {
    uint64_t seed;
    struct rng rng;
    cafka_mock *mock;
    bool acknowledged[RECORDS], failed[RECORDS];
    int acknowledged_count, failed_count;
    int dead; /* the broker that is down; 0: none */
};

/* A seed means the same codec in every build, but for one that a build does not have. */
static const char *codec_of(int number)
{
    return codec_available(number) ? codec_name(number) : "none";
}

/* --- the producer's side --- */

static void delivered(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    (void)producer;
    struct run *run = user;
    cafka_delivery_report report;
    while (!cafka_delivery_next(delivery, &report)) {
        intptr_t number = (intptr_t)report.opaque;
        assert_false(run->acknowledged[number] || run->failed[number]); /* one report each */
        *(report.code ? &run->failed[number] : &run->acknowledged[number]) = true;
        ++*(report.code ? &run->failed_count : &run->acknowledged_count);
    }
}

static void revive(struct run *run)
{
    cafka_error err = {0};
    if (run->dead && cafka_mock_broker_start(run->mock, run->dead, &err))
        fail_msg("seed %llu: broker %d does not start: %s", (unsigned long long)run->seed,
                 run->dead, err.message);
    run->dead = 0;
}

static void kill_one(struct run *run)
{
    revive(run);
    run->dead = (int)rng_between(&run->rng, 1, BROKERS);
    assert_int_equal(cafka_mock_broker_kill(run->mock, run->dead, NULL), CAFKA_OK);
}

/* Something goes wrong, or comes right again. */
static void misbehave(struct run *run)
{
    static const int errors[] = {6 /* NOT_LEADER_OR_FOLLOWER */, 7 /* REQUEST_TIMED_OUT */,
                                 19 /* NOT_ENOUGH_REPLICAS */, 56 /* KAFKA_STORAGE_ERROR */};
    cafka_mock_rule rule = {.size = sizeof rule,
                            .api = rng_below(&run->rng, 4) ? "Produce" : NULL,
                            .skip = (int64_t)rng_below(&run->rng, 4),
                            .count = rng_between(&run->rng, 1, 3)};
    switch (rng_below(&run->rng, 6)) {
    case 0: kill_one(run); return;
    case 1: revive(run); return;
    case 2:
        rule.action = CAFKA_MOCK_ERROR;
        rule.api = "Produce";
        rule.error = errors[rng_below(&run->rng, sizeof errors / sizeof *errors)];
        break;
    case 3: rule.action = CAFKA_MOCK_CLOSE; break;
    case 4: rule.action = CAFKA_MOCK_CLOSE_AFTER; break;
    default:
        rule.action = CAFKA_MOCK_DELAY;
        rule.delay_ms =
            rng_between(&run->rng, 1, 40000); /* perhaps longer than request.timeout.ms */
    }
    assert_int_equal(cafka_mock_rule_add(run->mock, &rule, NULL, NULL), CAFKA_OK);
}

/* A record's value: its number, then as many bytes as its number says. */
static size_t make_value(int number, unsigned char *out)
{
    struct rng rng;
    rng_seed(&rng, (uint64_t)number);
    memcpy(out, &number, sizeof number);
    size_t size = sizeof number + rng_below(&rng, rng_below(&rng, 20) ? 200 : LARGEST);
    for (size_t i = sizeof number; i < size; i++)
        out[i] = (unsigned char)(number * 31 + (int)i);
    return size;
}

static void send_one(struct run *run, cafka_producer *producer, int number)
{
    unsigned char value[LARGEST + sizeof number];
    cafka_error err = {0};
    cafka_record record = {.topic = "orders",
                           .value = value,
                           .value_size = make_value(number, value),
                           .opaque = (void *)(intptr_t)number,
                           .partition = number % PARTITIONS,
                           .flags = CAFKA_RECORD_PARTITION};
    if (cafka_producer_send(producer, &record, &err))
        fail_msg("seed %llu: record %d was not taken: %s", (unsigned long long)run->seed, number,
                 err.message);
}

static void produce_all(struct run *run)
{
    char properties[300];
    cafka_error err = {0};
    cafka_producer *producer;
    snprintf(properties, sizeof properties,
             "compression.type=%s\nlinger.ms=%d\nbatch.size=%d\nmax.in.flight.requests.per.connection=%d\n"
             "max.block.ms=100000",
             codec_of((int)rng_below(&run->rng, CODEC_COUNT)), (int)rng_below(&run->rng, 20),
             1 + (int)rng_below(&run->rng, 20000), 1 + (int)rng_below(&run->rng, 5));
    cafka_config *config = client_config(run->mock, properties);
    cafka_config_on_delivery(config, delivered, run);
    if (cafka_producer_new(&producer, config, &err))
        fail_msg("no producer: %s", err.message);
    for (int i = 0; i < RECORDS; i++) {
        if (!rng_below(&run->rng, 100))
            misbehave(run);
        if (!rng_below(&run->rng, 50))
            cafka_mock_advance_ms(run->mock, (int64_t)rng_below(&run->rng, 300), NULL);
        send_one(run, producer, i);
    }
    revive(run);
    cafka_mock_rules_clear(run->mock);
    if (cafka_producer_close(producer, PATIENCE_MS, &err))
        fail_msg("seed %llu: close: %s", (unsigned long long)run->seed, err.message);
    cafka_producer_free(producer);
    cafka_config_free(config);
}

/* --- the consumer's side --- */

static void check_record(struct run *run, const cafka_record_view *record, int *last, bool *seen)
{
    unsigned char value[LARGEST + sizeof(int)];
    int number;
    assert_true(record->value_size >= sizeof number);
    memcpy(&number, record->value, sizeof number);
    size_t size = make_value(number, value);
    if (number % PARTITIONS != record->partition || size != record->value_size ||
        memcmp(value, record->value, size))
        fail_msg("seed %llu: record %d came back changed", (unsigned long long)run->seed, number);
    if (seen[number])
        fail_msg("seed %llu: record %d is there twice", (unsigned long long)run->seed, number);
    if (number <= last[record->partition])
        fail_msg("seed %llu: record %d is behind %d", (unsigned long long)run->seed, number,
                 last[record->partition]);
    seen[number] = true;
    last[record->partition] = number;
}

static bool has_all(const struct run *run, const bool *seen)
{
    for (int i = 0; i < RECORDS; i++)
        if (run->acknowledged[i] && !seen[i])
            return false;
    return true;
}

static void consume_all(struct run *run)
{
    int last[PARTITIONS];
    bool seen[RECORDS] = {false};
    cafka_error err = {0};
    char properties[300];
    memset(last, -1, sizeof last);
    snprintf(properties, sizeof properties,
             "max.poll.records=%d\nmax.partition.fetch.bytes=%d\nfetch.buffer.memory=%d\nfetch.max.wait.ms=%d",
             1 + (int)rng_below(&run->rng, 500), 1 + (int)rng_below(&run->rng, 30000),
             (1 << 20) + (int)rng_below(&run->rng, 100000), (int)rng_below(&run->rng, 500));
    cafka_consumer *consumer = open_consumer(run->mock, properties);
    assign_from(consumer, "orders", PARTITIONS, CAFKA_OFFSET_BEGINNING);
    for (int idle = 0; !has_all(run, seen) && idle < 20;) {
        cafka_fetch *fetch;
        cafka_record_view record;
        if (cafka_consumer_poll(consumer, 5000, &fetch, &err))
            fail_msg("seed %llu: poll: %s", (unsigned long long)run->seed, err.message);
        idle = fetch ? 0 : idle + 1;
        int rc;
        while (!(rc = cafka_fetch_next(fetch, &record, &err)))
            check_record(run, &record, last, seen);
        if (rc != CAFKA_END)
            fail_msg("seed %llu: next: %s", (unsigned long long)run->seed, err.message);
        cafka_fetch_free(fetch);
        if (!rng_below(&run->rng, 20)) {
            cafka_mock_rule rule = {.size = sizeof rule,
                                    .api = "Fetch",
                                    .count = 1,
                                    .action = rng_below(&run->rng, 2) ? CAFKA_MOCK_CLOSE
                                                                      : CAFKA_MOCK_CLOSE_AFTER};
            cafka_mock_rule_add(run->mock, &rule, NULL, NULL);
        }
    }
    for (int i = 0; i < RECORDS; i++)
        if (run->acknowledged[i] && !seen[i])
            fail_msg("seed %llu: record %d was acknowledged and is not there",
                     (unsigned long long)run->seed, i);
    close_consumer(consumer);
}

/* --- runs --- */

/* What happened, in two numbers: equal for equal seeds. */
struct course {
    int64_t ended_at;
    int64_t requests;
};

static struct course run_seed(uint64_t seed)
{
    static const char *const topics[] = {"orders:6"};
    struct run run = {.seed = seed};
    rng_seed(&run.rng, seed);
    run.mock = start_cluster(seed, topics, 1, NULL);
    produce_all(&run);
    if (run.acknowledged_count + run.failed_count != RECORDS)
        fail_msg("seed %llu: %d records were never reported", (unsigned long long)seed,
                 RECORDS - run.acknowledged_count - run.failed_count);
    consume_all(&run);
    const cafka_env *env = cafka_mock_env(run.mock);
    struct course course = {env->now(env), cafka_mock_requests(run.mock, NULL)};
    cafka_mock_free(run.mock);
    return course;
}

static uint64_t number_from(const char *name, uint64_t standard)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : standard;
}

static void acknowledged_records_come_back_once_and_in_order(void **state)
{
    (void)state;
    uint64_t first = number_from("CAFKA_SEED", 1), count = number_from("CAFKA_SEEDS", 20);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct course course = run_seed(seed);
        if (seed % 10)
            continue;
        struct course again = run_seed(seed);
        if (course.ended_at != again.ended_at || course.requests != again.requests)
            fail_msg("seed %llu takes two courses: %lld and %lld requests", (unsigned long long)seed,
                     (long long)course.requests, (long long)again.requests);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(acknowledged_records_come_back_once_and_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
