/*
 * test_close.c - ending clients while other threads are inside them: each call comes back, within its
 * time, with an error that says so, and each accepted record is reported once.
 *
 * The cluster is real and has a thread of its own. How close keeps its time in every state of a
 * producer is shown in virtual time by tests/unit/producer/test_producer.c; here threads meet.
 */
#include "mock/mock_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <cafka/admin.h>

#include "env/env.h"
#include "producer/room.h"

enum { THREADS = 3, RECORDS_MAX = 4096, NEVER_MS = 600000, SOON_MS = 150, PATIENCE_MS = 60000 };

struct scene {
    cafka_mock *mock;
    cafka_producer *producer;
    cafka_admin *admin;
    atomic_int taken, reported;
    int held, release; /* events: a callback has begun; it may end */
};

static cafka_config *config_for(struct scene *s, const char *properties)
{
    cafka_config *config;
    cafka_error err = {0};
    assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
    if (cafka_config_set(config, "bootstrap.servers",
                         s->mock ? cafka_mock_bootstrap(s->mock) : "127.0.0.1:1", &err) ||
        cafka_config_load(config, properties, &err))
        fail_msg("configuration: %s", err.message);
    return config;
}

static void count_reports(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct scene *s = user;
    (void)producer;
    atomic_fetch_add(&s->reported, (int)cafka_delivery_count(delivery));
}

static void open_producer(struct scene *s, cafka_delivery_fn *fn, const char *properties)
{
    cafka_error err = {0};
    cafka_config *config = config_for(s, properties);
    cafka_config_on_delivery(config, fn, s);
    if (cafka_producer_new(&s->producer, config, &err))
        fail_msg("no producer: %s", err.message);
    cafka_config_free(config);
}

/* Brokers that take a kind of request and do not answer it in this life. */
static void open_silent_cluster(struct scene *s, const char *api)
{
    static const char *const topics[] = {"orders:1"};
    cafka_error err = {0};
    cafka_mock_options options = {.size = sizeof options, .topics = topics, .topic_count = 1};
    cafka_mock_rule rule = {.size = sizeof rule,
                            .api = api,
                            .action = CAFKA_MOCK_DELAY,
                            .delay_ms = NEVER_MS};
    if (cafka_mock_new(&s->mock, &options, &err) || cafka_mock_rule_add(s->mock, &rule, NULL, &err))
        fail_msg("no cluster: %s", err.message);
}

/* Then every record was told of, also by a loop that got no turn before the close was over. */
static void free_producer(struct scene *s)
{
    cafka_producer_free(s->producer);
    s->producer = NULL;
}

static void close_scene(struct scene *s)
{
    cafka_producer_free(s->producer);
    cafka_admin_free(s->admin);
    cafka_mock_free(s->mock);
}

/* --- senders that wait --- */

static void *send_until_refused(void *arg)
{
    struct scene *s = arg;
    static const char value[1000];
    cafka_record record = {.topic = "orders", .value = value, .value_size = sizeof value};
    cafka_error err = {0};
    int rc;
    while (!(rc = cafka_producer_send(s->producer, &record, &err)))
        atomic_fetch_add(&s->taken, 1);
    assert_int_equal(rc, CAFKA_ERR_CLOSED); /* not a timeout, and not for ever */
    return NULL;
}

static void start_senders(struct scene *s, pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_until_refused, s), 0);
}

static void join_all(pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void assert_took_at_most(int64_t began, int64_t ms)
{
    const cafka_env *env = cafka_env_real();
    assert_in_range((env->now(env) - began) / NS_PER_MS, 0, ms);
}

static void threads_that_wait_for_memory_are_told_that_it_is_over(void **state)
{
    (void)state;
    const cafka_env *env = cafka_env_real();
    struct scene s = {0};
    pthread_t threads[THREADS];
    cafka_error err = {0};
    open_silent_cluster(&s, "Produce");
    open_producer(&s, count_reports, "buffer.memory=100000\nmax.block.ms=600000\nlinger.ms=0");
    start_senders(&s, threads);
    while (atomic_load(&s.producer->accumulator.pool.waiting) < THREADS)
        sched_yield();
    int64_t began = env->now(env);
    assert_int_equal(cafka_producer_close(s.producer, SOON_MS, &err), CAFKA_ERR_TIMEOUT);
    assert_took_at_most(began, PATIENCE_MS); /* far less than any other deadline here */
    join_all(threads);
    free_producer(&s);
    assert_true(atomic_load(&s.taken) > 0);
    assert_int_equal(atomic_load(&s.reported), atomic_load(&s.taken));
    close_scene(&s);
}

static void threads_that_wait_for_metadata_are_told_that_it_is_over(void **state)
{
    (void)state;
    for (int64_t timeout_ms = 0; timeout_ms <= SOON_MS; timeout_ms += SOON_MS) {
        struct scene s = {0};
        pthread_t threads[THREADS];
        cafka_error err = {0};
        open_producer(&s, count_reports, "max.block.ms=600000"); /* nobody listens there */
        start_senders(&s, threads);
        assert_int_equal(cafka_producer_close(s.producer, timeout_ms, &err), CAFKA_OK);
        join_all(threads);
        assert_int_equal(atomic_load(&s.taken), 0);
        close_scene(&s);
    }
}

/* --- several that close, and one that flushes --- */

static void *close_it(void *arg)
{
    struct scene *s = arg;
    cafka_error err = {0};
    int rc = cafka_producer_close(s->producer, SOON_MS, &err);
    assert_true(rc == CAFKA_ERR_TIMEOUT || rc == CAFKA_OK);
    return NULL;
}

static void *flush_it(void *arg)
{
    struct scene *s = arg;
    cafka_error err = {0};
    int rc = cafka_producer_flush(s->producer, -1, &err);
    assert_true(rc == CAFKA_OK || rc == CAFKA_ERR_CLOSED);
    return NULL;
}

static void closes_and_a_flush_that_meet_all_come_back(void **state)
{
    (void)state;
    struct scene s = {0};
    pthread_t closers[2], flusher;
    static const char value[100];
    cafka_record record = {.topic = "orders", .value = value, .value_size = sizeof value};
    open_silent_cluster(&s, "Produce");
    open_producer(&s, count_reports, "linger.ms=0");
    for (int i = 0; i < 50; i++)
        assert_int_equal(cafka_producer_send(s.producer, &record, NULL), CAFKA_OK);
    assert_int_equal(pthread_create(&flusher, NULL, flush_it, &s), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&closers[i], NULL, close_it, &s), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(closers[i], NULL);
    pthread_join(flusher, NULL);
    free_producer(&s);
    assert_int_equal(atomic_load(&s.reported), 50);
    close_scene(&s);
}

/* --- inside a callback --- */

static void close_inside(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct scene *s = user;
    cafka_error err = {0};
    cafka_record record = {.topic = "orders"};
    atomic_fetch_add(&s->reported, (int)cafka_delivery_count(delivery));
    assert_int_equal(cafka_producer_close(producer, 1000, &err), CAFKA_ERR_IN_CALLBACK);
    assert_int_equal(cafka_producer_close(producer, -1, &err), CAFKA_ERR_IN_CALLBACK);
    assert_int_equal(cafka_producer_flush(producer, 1000, &err), CAFKA_ERR_IN_CALLBACK);
    assert_int_equal(cafka_producer_send_wait(producer, &record, NULL, &err), CAFKA_ERR_IN_CALLBACK);
    assert_int_equal(cafka_dispatch(cafka_producer_client(producer), 1000), CAFKA_ERR_IN_CALLBACK);
    assert_int_equal(cafka_producer_close(producer, 0, &err), CAFKA_OK);
    cafka_producer_free(producer); /* not allowed: it says so in the log, and does nothing */
    cafka_env_real()->event_signal(cafka_env_real(), s->held);
}

static void a_callback_may_begin_to_close_and_may_not_wait(void **state)
{
    (void)state;
    const cafka_env *env = cafka_env_real();
    static const char *const topics[] = {"orders:1"};
    struct scene s = {.held = env->event_open(env)};
    cafka_error err = {0};
    cafka_mock_options options = {.size = sizeof options, .topics = topics, .topic_count = 1};
    assert_int_equal(cafka_mock_new(&s.mock, &options, &err), CAFKA_OK);
    open_producer(&s, close_inside, "linger.ms=0");
    cafka_record record = {.topic = "orders", .value = "x", .value_size = 1};
    assert_int_equal(cafka_producer_send(s.producer, &record, NULL), CAFKA_OK);
    assert_int_equal(env->event_wait(env, s.held, CAFKA_NEVER), 1);
    assert_int_equal(cafka_producer_send(s.producer, &record, &err), CAFKA_ERR_CLOSED);
    assert_int_equal(cafka_producer_close(s.producer, PATIENCE_MS, &err), CAFKA_OK);
    assert_int_equal(atomic_load(&s.reported), 1);
    close_scene(&s);
    env->event_close(env, s.held);
}

static void hold_on(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct scene *s = user;
    const cafka_env *env = cafka_env_real();
    (void)producer;
    atomic_fetch_add(&s->reported, (int)cafka_delivery_count(delivery));
    env->event_signal(env, s->held);
    assert_int_equal(env->event_wait(env, s->release, CAFKA_NEVER), 1);
    env->event_signal(env, s->release);
}

/* Close comes back at its deadline, though the loop cannot; what is left follows the callback. */
static void a_callback_that_holds_on_does_not_hold_close(void **state)
{
    (void)state;
    const cafka_env *env = cafka_env_real();
    static const char *const topics[] = {"orders:1"};
    struct scene s = {.held = env->event_open(env), .release = env->event_open(env)};
    cafka_error err = {0};
    cafka_mock_options options = {.size = sizeof options, .topics = topics, .topic_count = 1};
    assert_int_equal(cafka_mock_new(&s.mock, &options, &err), CAFKA_OK);
    open_producer(&s, hold_on, "linger.ms=0");
    cafka_record record = {.topic = "orders", .value = "x", .value_size = 1};
    assert_int_equal(cafka_producer_send(s.producer, &record, NULL), CAFKA_OK);
    assert_int_equal(env->event_wait(env, s.held, CAFKA_NEVER), 1);
    assert_int_equal(cafka_producer_send(s.producer, &record, NULL), CAFKA_OK);
    int64_t began = env->now(env);
    assert_int_equal(cafka_producer_close(s.producer, SOON_MS, &err), CAFKA_ERR_TIMEOUT);
    assert_non_null(strstr(err.message, "callback"));
    assert_true(env->now(env) - began >= SOON_MS * NS_PER_MS); /* it did give it its time */
    env->event_signal(env, s.release);
    (void)cafka_producer_close(s.producer, PATIENCE_MS, &err);
    assert_int_equal(atomic_load(&s.reported), 2);
    close_scene(&s);
    env->event_close(env, s.held);
    env->event_close(env, s.release);
}

/* --- admin --- */

static void *create_topic(void *arg)
{
    struct scene *s = arg;
    cafka_error err = {0};
    cafka_new_topic topic = {.size = sizeof topic, .name = "more", .partitions = 1};
    assert_int_equal(cafka_admin_create_topics(s->admin, &topic, 1, 0, -1, NULL, &err),
                     CAFKA_ERR_CLOSED);
    assert_true(strlen(err.message) > 10);
    return NULL;
}

static void an_admin_call_in_progress_ends_with_close(void **state)
{
    (void)state;
    const cafka_env *env = cafka_env_real();
    for (int dead = 0; dead < 2; dead++) {
        struct scene s = {0};
        pthread_t threads[THREADS];
        cafka_error err = {0};
        if (!dead) /* else nobody listens, and the calls wait for a connection */
            open_silent_cluster(&s, "CreateTopics");
        cafka_config *config = config_for(&s, "default.api.timeout.ms=600000\n"
                                              "request.timeout.ms=600000");
        assert_int_equal(cafka_admin_new(&s.admin, config, &err), CAFKA_OK);
        cafka_config_free(config);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, create_topic, &s), 0);
        while (s.mock && !cafka_mock_requests(s.mock, "CreateTopics"))
            sched_yield(); /* one is in flight; the broker reads no more before it has answered */
        int64_t began = env->now(env);
        assert_int_equal(cafka_admin_close(s.admin, 10000, &err), CAFKA_OK);
        assert_took_at_most(began, PATIENCE_MS);
        join_all(threads);
        assert_int_equal(cafka_admin_close(s.admin, 10000, &err), CAFKA_OK);
        close_scene(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_wait_for_memory_are_told_that_it_is_over),
        cmocka_unit_test(threads_that_wait_for_metadata_are_told_that_it_is_over),
        cmocka_unit_test(closes_and_a_flush_that_meet_all_come_back),
        cmocka_unit_test(a_callback_may_begin_to_close_and_may_not_wait),
        cmocka_unit_test(a_callback_that_holds_on_does_not_hold_close),
        cmocka_unit_test(an_admin_call_in_progress_ends_with_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
