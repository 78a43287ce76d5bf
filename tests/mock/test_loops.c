/*
 * test_loops.c - clients on a loop of the application's: one that it runs itself, one that several
 * clients share.
 *
 * The cluster is real and has a thread of its own; sockets and clock are the system's.
 */
#include "mock/mock_fixture.h"

#include <dirent.h>
#include <poll.h>

enum { RECORDS = 3000, PARTITIONS = 3, PATIENCE_MS = 30000 };

struct scene {
    cafka_mock *mock;
    cafka_loop *loop;
    int delivered;
};

static struct scene *open_scene(unsigned mode)
{
    static const char *const topics[] = {"orders:3"};
    static struct scene s;
    cafka_error err = {0};
    cafka_mock_options options = {.size = sizeof options,
                                  .brokers = 2,
                                  .topics = topics,
                                  .topic_count = 1};
    s = (struct scene){0};
    if (cafka_mock_new(&s.mock, &options, &err) || cafka_loop_new(&s.loop, mode, &err))
        fail_msg("no scene: %s", err.message);
    return &s;
}

static void close_scene(struct scene *s)
{
    cafka_loop_free(s->loop);
    cafka_mock_free(s->mock);
}

static cafka_config *config_on(struct scene *s, const char *properties)
{
    cafka_config *config;
    cafka_error err = {0};
    assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
    if (cafka_config_set(config, "bootstrap.servers", cafka_mock_bootstrap(s->mock), &err) ||
        cafka_config_load(config, properties, &err))
        fail_msg("configuration: %s", err.message);
    cafka_config_set_loop(config, s->loop);
    return config;
}

static void delivered(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    (void)producer;
    struct scene *s = user;
    assert_null(cafka_delivery_error(delivery));
    s->delivered += (int)cafka_delivery_count(delivery);
}

static cafka_producer *open_producer(struct scene *s)
{
    cafka_producer *producer;
    cafka_error err = {0};
    cafka_config *config = config_on(s, "linger.ms=1");
    cafka_config_on_delivery(config, delivered, s);
    if (cafka_producer_new(&producer, config, &err))
        fail_msg("no producer: %s", err.message);
    cafka_config_free(config);
    return producer;
}

static void send_all(cafka_producer *producer)
{
    cafka_error err = {0};
    for (int i = 0; i < RECORDS; i++) {
        cafka_record record = {.topic = "orders",
                               .value = &i,
                               .value_size = sizeof i,
                               .partition = i % PARTITIONS,
                               .flags = CAFKA_RECORD_PARTITION};
        if (cafka_producer_send(producer, &record, &err))
            fail_msg("record %d: %s", i, err.message);
    }
}

static cafka_consumer *open_reader(struct scene *s)
{
    cafka_consumer *consumer;
    cafka_error err = {0};
    cafka_config *config = config_on(s, "");
    if (cafka_consumer_new(&consumer, config, &err))
        fail_msg("no consumer: %s", err.message);
    cafka_config_free(config);
    assign_from(consumer, "orders", PARTITIONS, CAFKA_OFFSET_BEGINNING);
    return consumer;
}

/* As many records as one poll gives; each the next of its partition. */
static int read_some(cafka_consumer *consumer, int64_t timeout_ms, int *next)
{
    cafka_fetch *fetch;
    cafka_record_view record;
    cafka_error err = {0};
    int count = 0;
    if (cafka_consumer_poll(consumer, timeout_ms, &fetch, &err))
        fail_msg("poll: %s", err.message);
    while (!cafka_fetch_next(fetch, &record, &err)) {
        int number;
        memcpy(&number, record.value, sizeof number);
        assert_int_equal(number, next[record.partition]);
        next[record.partition] += PARTITIONS;
        count++;
    }
    cafka_fetch_free(fetch);
    return count;
}

static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return count;
}

/* Waiting calls run the loop: an ordinary program needs nothing else. */
static void waiting_calls_run_an_external_loop_and_no_thread_is_made(void **state)
{
    (void)state;
    struct scene *s = open_scene(CAFKA_LOOP_EXTERNAL);
    cafka_error err = {0};
    int next[PARTITIONS] = {0, 1, 2}, seen = 0, threads = count_threads();
    cafka_producer *producer = open_producer(s);
    send_all(producer);
    if (cafka_producer_flush(producer, PATIENCE_MS, &err))
        fail_msg("flush: %s", err.message);
    cafka_consumer *consumer = open_reader(s);
    while (seen < RECORDS)
        seen += read_some(consumer, PATIENCE_MS, next);
    assert_int_equal(count_threads(), threads);
    close_consumer(consumer);
    if (cafka_producer_close(producer, PATIENCE_MS, &err))
        fail_msg("close: %s", err.message);
    assert_int_equal(s->delivered, RECORDS);
    cafka_producer_free(producer);
    close_scene(s);
}

/* An application's own poll(): nothing waits inside the library. */
static void external_loop_is_run_by_an_application_s_poll(void **state)
{
    (void)state;
    struct scene *s = open_scene(CAFKA_LOOP_EXTERNAL);
    cafka_error err = {0};
    int next[PARTITIONS] = {0, 1, 2}, seen = 0;
    cafka_producer *producer = open_producer(s);
    cafka_consumer *consumer = open_reader(s);
    int32_t partitions;
    if (cafka_producer_partitions(producer, "orders", PATIENCE_MS, &partitions, &err))
        fail_msg("metadata: %s", err.message);
    send_all(producer);
    while (seen < RECORDS || s->delivered < RECORDS) {
        struct pollfd fd = {.fd = cafka_loop_fd(s->loop), .events = POLLIN};
        int64_t timeout_ms = cafka_loop_timeout_ms(s->loop);
        if (fd.fd < 0) /* the poll() backend has none to embed */
            timeout_ms = 1;
        assert_true(
            poll(&fd, fd.fd >= 0, timeout_ms > PATIENCE_MS ? PATIENCE_MS : (int)timeout_ms) >= 0);
        if (cafka_loop_run(s->loop, 0, &err))
            fail_msg("loop: %s", err.message);
        (void)cafka_dispatch(cafka_producer_client(producer), 0);
        seen += read_some(consumer, 0, next);
    }
    close_consumer(consumer);
    assert_int_equal(cafka_producer_close(producer, PATIENCE_MS, &err), CAFKA_OK);
    cafka_producer_free(producer);
    close_scene(s);
}

/* One thread for all of them; delivery functions run where cafka_dispatch() is called. */
static void one_background_loop_serves_several_clients(void **state)
{
    (void)state;
    struct scene *s = open_scene(CAFKA_LOOP_BACKGROUND);
    cafka_error err = {0};
    int threads = count_threads();
    cafka_producer *producer = open_producer(s);
    cafka_consumer *first = open_reader(s), *second = open_reader(s);
    assert_int_equal(count_threads(), threads);
    send_all(producer);
    while (s->delivered < RECORDS)
        assert_true(cafka_dispatch(cafka_producer_client(producer), PATIENCE_MS) > 0);
    int next_first[PARTITIONS] = {0, 1, 2}, next_second[PARTITIONS] = {0, 1, 2};
    for (int a = 0, b = 0; a < RECORDS || b < RECORDS;) {
        if (a < RECORDS)
            a += read_some(first, PATIENCE_MS, next_first);
        if (b < RECORDS)
            b += read_some(second, PATIENCE_MS, next_second);
    }
    close_consumer(first);
    assert_int_equal(cafka_producer_close(producer, PATIENCE_MS, &err), CAFKA_OK);
    cafka_producer_free(producer);
    close_consumer(second); /* the loop goes on for those who are left */
    close_scene(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_calls_run_an_external_loop_and_no_thread_is_made),
        cmocka_unit_test(external_loop_is_run_by_an_application_s_poll),
        cmocka_unit_test(one_background_loop_serves_several_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
