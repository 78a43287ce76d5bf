/*
 * test_consumer_threads.c - a consumer, a real cluster in this process, and threads that meet.
 */
#include "mock/mock_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

struct scene {
    cafka_mock *mock;
    cafka_consumer *consumer;
};

static int set_up(void **state)
{
    static const char *const topics[] = {"orders:4"};
    struct scene *s = calloc(1, sizeof *s);
    cafka_error err = {0};
    cafka_config *config;
    cafka_mock_options options = {.size = sizeof options,
                                  .brokers = 2,
                                  .topics = topics,
                                  .topic_count = 1};
    if (cafka_mock_new(&s->mock, &options, &err))
        fail_msg("no cluster: %s", err.message);
    assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
    cafka_config_set(config, "bootstrap.servers", cafka_mock_bootstrap(s->mock), NULL);
    if (cafka_consumer_new(&s->consumer, config, &err))
        fail_msg("no consumer: %s", err.message);
    cafka_config_free(config);
    assign_from(s->consumer, "orders", 4, CAFKA_OFFSET_BEGINNING);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    close_consumer(s->consumer);
    cafka_mock_free(s->mock);
    free(s);
    return 0;
}

struct poller {
    cafka_consumer *consumer;
    atomic_int result; /* 1: still polling */
};

static void *poll_for_ever(void *arg)
{
    struct poller *p = arg;
    cafka_fetch *fetch = NULL;
    int rc = cafka_consumer_poll(p->consumer, -1, &fetch, NULL);
    cafka_fetch_free(fetch);
    atomic_store(&p->result, rc);
    return NULL;
}

static void second_thread_is_refused_and_wakeup_ends_the_wait(void **state)
{
    struct scene *s = *state;
    struct poller poller = {s->consumer, 1};
    cafka_error err = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, poll_for_ever, &poller), 0);
    int rc;
    do /* until the other one is inside */
        rc = cafka_consumer_seek(s->consumer, "orders", 0, 0, &err);
    while (rc == CAFKA_OK && atomic_load(&poller.result) == 1);
    if (rc == CAFKA_OK) /* it met us inside, and was the one who was refused */
        assert_int_equal(atomic_load(&poller.result), CAFKA_ERR_CONCURRENT);
    else
        assert_int_equal(rc, CAFKA_ERR_CONCURRENT);
    cafka_consumer_wakeup(s->consumer);
    pthread_join(thread, NULL);
    if (rc != CAFKA_OK)
        assert_int_equal(atomic_load(&poller.result), CAFKA_ERR_WAKEUP);
}

static cafka_consumer *to_wake;

static void on_signal(int number)
{
    (void)number;
    cafka_consumer_wakeup(to_wake);
}

static void wakeup_works_in_a_signal_handler(void **state)
{
    struct scene *s = *state;
    struct poller poller = {s->consumer, 1};
    struct sigaction action = {.sa_handler = on_signal}, old;
    pthread_t thread;
    to_wake = s->consumer;
    sigaction(SIGUSR1, &action, &old);
    assert_int_equal(pthread_create(&thread, NULL, poll_for_ever, &poller), 0);
    pthread_kill(thread, SIGUSR1); /* before or in its wait: it ends in either case */
    pthread_join(thread, NULL);
    sigaction(SIGUSR1, &old, NULL);
    assert_int_equal(atomic_load(&poller.result), CAFKA_ERR_WAKEUP);
}

enum { RECORDS = 20000, READERS = 4 };

struct shared_fetch {
    cafka_fetch *fetch;
    cafka_record_view view;
    cafka_record_memory *memory;
    atomic_int wrong;
};

static void *read_view(void *arg)
{
    struct shared_fetch *shared = arg;
    char text[16];
    int size = snprintf(text, sizeof text, "%lld", (long long)shared->view.timestamp_ms);
    if (shared->view.value_size != (uint32_t)size || memcmp(shared->view.value, text, (size_t)size))
        atomic_fetch_add(&shared->wrong, 1);
    cafka_record_unref(shared->memory);
    cafka_fetch_free(shared->fetch);
    return NULL;
}

static void produce_numbers(struct scene *s)
{
    char properties[200];
    cafka_producer *producer;
    cafka_error err = {0};
    snprintf(properties, sizeof properties, "bootstrap.servers=%s\ncompression.type=lz4",
             cafka_mock_bootstrap(s->mock));
    if (cafka_producer_open(&producer, properties, &err))
        fail_msg("no producer: %s", err.message);
    for (int i = 1; i <= RECORDS; i++) {
        char text[16];
        int size = snprintf(text, sizeof text, "%d", i);
        cafka_record record = {.topic = "orders",
                               .value = text,
                               .value_size = (size_t)size,
                               .timestamp_ms = i,
                               .partition = i % 4,
                               .flags = CAFKA_RECORD_PARTITION | CAFKA_RECORD_TIMESTAMP};
        if (cafka_producer_send(producer, &record, &err))
            fail_msg("send: %s", err.message);
    }
    if (cafka_producer_close(producer, 60000, &err))
        fail_msg("close: %s", err.message);
    cafka_producer_free(producer);
}

/* Every 1000th record is read by other threads, after the poller has let go of its fetch. */
static void views_may_be_read_and_let_go_on_any_thread(void **state)
{
    struct scene *s = *state;
    static struct shared_fetch shared[RECORDS / 1000 + 1];
    pthread_t threads[RECORDS / 1000 + 1];
    int count = 0, started = 0;
    produce_numbers(s);
    while (count < RECORDS) {
        cafka_fetch *fetch;
        cafka_record_view record;
        cafka_error err = {0};
        if (cafka_consumer_poll(s->consumer, 30000, &fetch, &err) || !fetch)
            fail_msg("after %d records: %s", count, err.message);
        while (!cafka_fetch_next(fetch, &record, &err)) {
            if (++count % 1000)
                continue;
            shared[started].fetch = cafka_fetch_ref(fetch);
            shared[started].view = record;
            shared[started].memory = cafka_record_ref(&record);
            assert_int_equal(pthread_create(&threads[started], NULL, read_view, &shared[started]),
                             0);
            started++;
        }
        cafka_fetch_free(fetch);
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&shared[i].wrong), 0);
    }
    assert_int_equal(started, RECORDS / 1000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(second_thread_is_refused_and_wakeup_ends_the_wait),
        TEST(wakeup_works_in_a_signal_handler),
        TEST(views_may_be_read_and_let_go_on_any_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
