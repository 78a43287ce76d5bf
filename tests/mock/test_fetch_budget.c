/*
 * test_fetch_budget.c - fetch.buffer.memory: what is received, inflated and held stays within it, and
 * nothing idle starves what is not.
 */
#include "mock/consumer_scene.h"

#include "consumer/consumer.h"

enum { BUDGET = 2 << 20, FAT = 100000 };

static void produce_fat(struct scene *s, const char *topic, int32_t partition, int count,
                        size_t size, const char *properties)
{
    char *text = malloc(size + 1);
    const char *texts[64];
    assert_true(count <= 64);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)('a' + (i * 7919 + i / 13) % 26);
    text[size] = '\0';
    for (int i = 0; i < count; i++)
        texts[i] = text;
    produce_texts(s->mock, topic, partition, texts, (size_t)count, properties);
    free(text);
}

static int64_t held(const struct scene *s)
{
    return fetch_budget_held(s->consumer->budget);
}

static void wait_ms(struct scene *s, int64_t ms)
{
    assert_int_equal(cafka_mock_advance_ms(s->mock, ms, NULL), CAFKA_OK);
}

/* Frames are rounded up to powers of two, and one batch a broker may come on top. */
static void held_bytes_pass_the_budget_by_a_batch_a_broker_at_most(void **state)
{
    struct scene *s = *state;
    for (int p = 0; p < 3; p++)
        produce_fat(s, "orders", p, 60, FAT, "linger.ms=0\nbatch.size=16384");
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nfetch.buffer.memory=2097152");
    assign_from(s->consumer, "orders", 3, 0);
    int64_t most = 0;
    int seen = 0;
    for (int i = 0; seen < 180 && i < 2000; i++) {
        cafka_fetch *fetch = NULL;
        cafka_record_view record;
        wait_ms(s, 5); /* an application that is slower than its brokers */
        most = held(s) > most ? held(s) : most;
        assert_int_equal(cafka_consumer_poll(s->consumer, 1000, &fetch, NULL), CAFKA_OK);
        for (int k = 0; k < 3 && !cafka_fetch_next(fetch, &record, NULL); k++)
            seen++;
        cafka_fetch_free(fetch);
    }
    assert_int_equal(seen, 180);
    assert_true(most > BUDGET / 4);
    assert_true(most <= BUDGET + 3 * (1 << 20));
    assert_true(s->consumer->fetcher.counts.requests > 10);
}

/* Two brokers have nothing: their long polls ask for memory and hold none. */
static void long_polls_of_idle_brokers_starve_nobody(void **state)
{
    struct scene *s = *state;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nfetch.buffer.memory=2097152\n"
                                         "fetch.max.wait.ms=10000");
    assign_from(s->consumer, "orders", 3, 0);
    cafka_fetch *fetch = NULL;
    assert_int_equal(cafka_consumer_poll(s->consumer, 1000, &fetch, NULL), CAFKA_OK);
    cafka_fetch_free(fetch);
    produce_fat(s, "orders", 0, 60, FAT, "linger.ms=0");
    int64_t before = now_ms(s);
    int seen = 0;
    while (seen < 60) {
        cafka_record_view record;
        assert_int_equal(cafka_consumer_poll(s->consumer, 10000, &fetch, NULL), CAFKA_OK);
        while (!cafka_fetch_next(fetch, &record, NULL))
            seen++;
        cafka_fetch_free(fetch);
    }
    assert_true(now_ms(s) - before < 5000); /* no long poll was waited for */
}

/* The application keeps what it got: fetching stops, which is counted, and goes on when it lets go. */
static void memory_that_is_held_stops_fetching_and_is_counted(void **state)
{
    struct scene *s = *state;
    cafka_fetch *kept[64] = {NULL}, *fetch;
    cafka_record_view record;
    int seen = 0, fetches = 0;
    produce_fat(s, "orders", 0, 60, FAT, "linger.ms=0\nbatch.size=16384");
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nfetch.buffer.memory=2097152");
    assign_from(s->consumer, "orders", 1, 0);
    for (;;) {
        assert_int_equal(cafka_consumer_poll(s->consumer, 15000, &fetch, NULL), CAFKA_OK);
        if (!fetch)
            break;
        while (!cafka_fetch_next(fetch, &record, NULL))
            seen++;
        assert_true(fetches < 64);
        kept[fetches++] = fetch;
    }
    assert_in_range(seen, 1, 59);
    assert_int_equal(s->consumer->fetcher.counts.memory_stops, 1);
    assert_true(s->consumer->fetcher.short_told);
    for (int i = 0; i < fetches; i++)
        cafka_fetch_free(kept[i]);
    while (seen < 60) {
        assert_int_equal(cafka_consumer_poll(s->consumer, 5000, &fetch, NULL), CAFKA_OK);
        assert_non_null(fetch);
        while (!cafka_fetch_next(fetch, &record, NULL))
            seen++;
        cafka_fetch_free(fetch);
    }
    assert_false(s->consumer->fetcher.short_told);
}

static void batch_larger_than_the_budget_is_delivered_alone(void **state)
{
    struct scene *s = *state;
    static const char *const topics[] = {"orders:3:1:max.message.bytes=10000000"};
    cafka_mock_free(s->mock);
    s->mock = start_cluster(7, topics, 1, NULL);
    static const char large[] = "linger.ms=0\nmax.request.size=9000000\nbuffer.memory=90000000";
    produce_fat(s, "orders", 0, 2, 5000000, large);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nfetch.buffer.memory=1048576");
    assign_from(s->consumer, "orders", 3, 0);
    for (int i = 0; i < 2; i++) {
        cafka_fetch *fetch = NULL;
        cafka_record_view record;
        assert_int_equal(cafka_consumer_poll(s->consumer, 10000, &fetch, NULL), CAFKA_OK);
        assert_int_equal(cafka_fetch_next(fetch, &record, NULL), CAFKA_OK);
        assert_int_equal(record.value_size, 5000000);
        assert_true(held(s) < 2 * 8400000); /* the next one has not come while this one is there */
        cafka_fetch_free(fetch);
    }
}

/* What a batch becomes is bounded, whatever it says; the others are read. */
static void batch_that_inflates_to_too_much_is_an_error(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch = NULL;
    cafka_record_view record;
    cafka_error err = {0};
    produce_fat(s, "orders", 0, 20, FAT, "linger.ms=1000\nbatch.size=900000\ncompression.type=gzip");
    produce_fat(s, "orders", 1, 5, 100, "linger.ms=0\ncompression.type=gzip");
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\n"
                                         "fetch.max.inflated.batch.bytes=200000");
    assign_from(s->consumer, "orders", 2, 0);
    int seen = 0, refused = 0;
    for (int i = 0; i < 20 && (seen < 5 || !refused); i++) {
        assert_int_equal(cafka_consumer_poll(s->consumer, 5000, &fetch, NULL), CAFKA_OK);
        int rc;
        while ((rc = cafka_fetch_next(fetch, &record, &err)) != CAFKA_END) {
            seen += rc == CAFKA_OK && record.partition == 1;
            refused += rc != CAFKA_OK;
            if (rc)
                assert_int_equal(record.partition, 0);
        }
        cafka_fetch_free(fetch);
    }
    assert_int_equal(seen, 5);
    assert_true(refused > 0);
}

/* --- inflating ahead --- */

static void loop_inflates_ahead_while_the_application_is_behind(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch = NULL;
    cafka_record_view record;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_from(s->consumer, "orders", 1, 0);
    produce_fat(s, "orders", 0, 8, 20000, "linger.ms=0\ncompression.type=gzip\nbatch.size=1000");
    wait_ms(s, 2000);
    uint64_t ahead = s->consumer->fetcher.inflater.inflated;
    assert_in_range(ahead, 1, 8);
    int seen = 0;
    while (seen < 8) {
        assert_int_equal(cafka_consumer_poll(s->consumer, 5000, &fetch, NULL), CAFKA_OK);
        while (!cafka_fetch_next(fetch, &record, NULL)) {
            assert_int_equal(record.offset, seen++);
            assert_int_equal(record.value_size, 20000);
            assert_int_equal(((const char *)record.value)[1], 'a' + 7919 % 26);
        }
        cafka_fetch_free(fetch);
    }
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 0, NULL), CAFKA_OK);
    wait_ms(s, 2000); /* all is queued, and inflated again */
    assert_true(s->consumer->fetcher.inflater.inflated > ahead);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 8, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_poll(s->consumer, 2000, &fetch, NULL), CAFKA_OK);
    assert_null(fetch);
    assert_true(held(s) < 100000); /* what nobody came for is let go */
}

static void loop_leaves_half_of_the_budget_to_what_is_received(void **state)
{
    struct scene *s = *state;
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest\nfetch.buffer.memory=1048576");
    assign_from(s->consumer, "orders", 1, 0);
    produce_fat(s, "orders", 0, 40, FAT, "linger.ms=0\ncompression.type=gzip\nbatch.size=1000");
    wait_ms(s, 5000);
    assert_true(held(s) <= (1048576 / 2) + 2 * 262144);
    for (int seen = 0; seen < 40;) {
        cafka_fetch *fetch = NULL;
        cafka_record_view record;
        assert_int_equal(cafka_consumer_poll(s->consumer, 5000, &fetch, NULL), CAFKA_OK);
        while (!cafka_fetch_next(fetch, &record, NULL))
            assert_int_equal(record.offset, seen++);
        cafka_fetch_free(fetch);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(held_bytes_pass_the_budget_by_a_batch_a_broker_at_most),
        TEST(long_polls_of_idle_brokers_starve_nobody),
        TEST(memory_that_is_held_stops_fetching_and_is_counted),
        TEST(batch_larger_than_the_budget_is_delivered_alone),
        TEST(batch_that_inflates_to_too_much_is_an_error),
        TEST(loop_inflates_ahead_while_the_application_is_behind),
        TEST(loop_leaves_half_of_the_budget_to_what_is_received),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
