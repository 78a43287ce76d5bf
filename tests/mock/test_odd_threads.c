/*
 * test_odd_threads.c - threads that get into each other's way: purges during flush and close, metrics while a
 * client closes, reservations that change hands, a loop that two threads run, a fork in the middle of sends.
 *
 * The cluster is real and has a thread of its own.
 */
#include "mock/mock_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cafka/client.h>
#include <cafka/loop.h>
#include <cafka/metrics.h>

enum { THREADS = 3, ROUNDS = 5, RECORDS = 400 };

struct scene {
    cafka_mock *mock;
    cafka_loop *loop;
    cafka_producer *producer;
    atomic_int taken, reported, ran, busy;
    atomic_bool stop;
};

static void count_reports(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct scene *s = user;
    (void)producer;
    atomic_fetch_add(&s->reported, (int)cafka_delivery_count(delivery));
}

static void open_scene(struct scene *s)
{
    static const char *const topics[] = {"orders:3"};
    cafka_error err = {0};
    cafka_mock_options options = {.size = sizeof options, .topics = topics, .topic_count = 1};
    if (cafka_mock_new(&s->mock, &options, &err))
        fail_msg("no cluster: %s", err.message);
}

static void open_producer(struct scene *s)
{
    cafka_config *config;
    cafka_error err = {0};
    assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
    if (cafka_config_set(config, "bootstrap.servers", cafka_mock_bootstrap(s->mock), &err) ||
        cafka_config_load(config, "linger.ms=1\ncompression.type=lz4", &err))
        fail_msg("%s", err.message);
    cafka_config_set_loop(config, s->loop);
    cafka_config_on_delivery(config, count_reports, s);
    atomic_init(&s->taken, 0);
    atomic_init(&s->reported, 0);
    atomic_init(&s->stop, false);
    if (cafka_producer_new(&s->producer, config, &err))
        fail_msg("%s", err.message);
    cafka_config_free(config);
}

static cafka_record some_record(void)
{
    return (cafka_record){.topic = "orders",
                          .key = "k",
                          .key_size = 1,
                          .value = "0123456789",
                          .value_size = 10};
}

static void *send_some(void *arg)
{
    struct scene *s = arg;
    cafka_record record = some_record();
    for (int i = 0; i < RECORDS && !atomic_load(&s->stop); i++) {
        cafka_error err = {0};
        int rc = cafka_producer_send(s->producer, &record, &err);
        assert_true(!rc || rc == CAFKA_ERR_CLOSED);
        if (rc)
            break;
        atomic_fetch_add(&s->taken, 1);
    }
    return NULL;
}

static void *purge_and_look(void *arg)
{
    struct scene *s = arg;
    while (!atomic_load(&s->stop)) {
        cafka_error err = {0};
        cafka_producer_use use = {.size = sizeof use};
        cafka_metrics *metrics = NULL;
        int rc = cafka_producer_purge(s->producer, CAFKA_PURGE_QUEUED | CAFKA_PURGE_IN_FLIGHT, &err);
        assert_true(!rc || rc == CAFKA_ERR_CLOSED);
        assert_int_equal(cafka_producer_stats(s->producer, &use), CAFKA_OK);
        rc = cafka_client_metrics(cafka_producer_client(s->producer), &metrics, &err);
        assert_true(!rc || rc == CAFKA_ERR_CLOSED);
        if (!rc)
            assert_non_null(cafka_metrics_json(metrics));
        cafka_metrics_free(metrics);
        (void)sched_yield();
    }
    return NULL;
}

static void *flush_again(void *arg)
{
    struct scene *s = arg;
    while (!atomic_load(&s->stop)) {
        cafka_error err = {0};
        int rc = cafka_producer_flush(s->producer, 20000, &err);
        assert_true(!rc || rc == CAFKA_ERR_CLOSED);
    }
    return NULL;
}

static void purges_meet_flushes_and_a_close(void **state)
{
    (void)state;
    struct scene s = {0};
    open_scene(&s);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        cafka_error err = {0};
        open_producer(&s);
        pthread_create(&threads[0], NULL, send_some, &s);
        pthread_create(&threads[1], NULL, purge_and_look, &s);
        pthread_create(&threads[2], NULL, flush_again, &s);
        while (atomic_load(&s.taken) < RECORDS / 2)
            (void)sched_yield();
        assert_int_equal(cafka_producer_close(s.producer, 30000, &err), CAFKA_OK);
        cafka_metrics *metrics = NULL; /* of what is closed, too */
        (void)cafka_client_metrics(cafka_producer_client(s.producer), &metrics, &err);
        cafka_metrics_free(metrics);
        atomic_store(&s.stop, true);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(atomic_load(&s.reported), atomic_load(&s.taken));
        cafka_producer_free(s.producer);
    }
    cafka_mock_free(s.mock);
}

/* --- reservations that change hands --- */

struct hand {
    struct scene *s;
    cafka_reservation *reservation;
    bool commit;
};

static void *end_reservation(void *arg)
{
    struct hand *hand = arg;
    cafka_error err = {0};
    if (!hand->commit) {
        cafka_producer_abandon(hand->s->producer, hand->reservation);
        return NULL;
    }
    int rc = cafka_producer_commit(hand->s->producer, hand->reservation, 50, &err);
    assert_true(!rc || rc == CAFKA_ERR_CLOSED);
    if (!rc)
        atomic_fetch_add(&hand->s->taken, 1);
    return NULL;
}

static void reservations_change_hands_while_it_closes(void **state)
{
    enum { HANDS = 8 };
    (void)state;
    struct scene s = {0};
    open_scene(&s);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[HANDS];
        struct hand hands[HANDS];
        open_producer(&s);
        for (int i = 0; i < HANDS; i++) {
            cafka_record record = some_record();
            void *value;
            cafka_error err = {0};
            record.value_size = i % 2 ? 50 : 30000;
            hands[i] = (struct hand){.s = &s, .commit = i % 4 != 3};
            assert_int_equal(cafka_producer_reserve(s.producer, &record, &hands[i].reservation,
                                                    &value, &err),
                             0);
            memset(value, 'v', record.value_size);
        }
        for (int i = 0; i < HANDS; i++)
            pthread_create(&threads[i], NULL, end_reservation, &hands[i]);
        if (round % 2)
            assert_int_equal(cafka_producer_close(s.producer, 30000, NULL), CAFKA_OK);
        for (int i = 0; i < HANDS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(cafka_producer_close(s.producer, 30000, NULL), CAFKA_OK);
        assert_int_equal(atomic_load(&s.reported), atomic_load(&s.taken));
        cafka_producer_free(s.producer);
    }
    cafka_mock_free(s.mock);
}

/* --- one loop, two who run it --- */

static void *run_loop(void *arg)
{
    struct scene *s = arg;
    while (!atomic_load(&s->stop)) {
        cafka_error err = {0};
        int rc = cafka_loop_run(s->loop, 5, &err);
        assert_int_equal(rc, err.code);
        assert_true(!rc || rc == CAFKA_ERR_CONCURRENT);
        atomic_fetch_add(rc ? &s->busy : &s->ran, 1);
        (void)cafka_loop_timeout_ms(s->loop);
        if (rc)
            (void)sched_yield();
    }
    return NULL;
}

static void a_loop_that_two_threads_run_goes_on(void **state)
{
    (void)state;
    struct scene s = {0};
    cafka_error err = {0};
    open_scene(&s);
    assert_int_equal(cafka_loop_new(&s.loop, CAFKA_LOOP_EXTERNAL, &err), 0);
    open_producer(&s);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run_loop, &s);
    (void)send_some(&s);
    int rc = cafka_producer_flush(s.producer, 30000, &err);
    if (rc)
        fail_msg("%d: %s", rc, err.message);
    while (atomic_load(&s.reported) <
           RECORDS) /* the default of a loop that is shared: callbacks wait */
        assert_true(cafka_dispatch(cafka_producer_client(s.producer), 1000) > 0);
    rc = cafka_producer_close(s.producer, 30000, &err);
    if (rc)
        fail_msg("%d: %s", rc, err.message);
    atomic_store(&s.stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(atomic_load(&s.ran) > 0);
    cafka_producer_free(s.producer);
    cafka_loop_free(s.loop);
    cafka_mock_free(s.mock);
}

/* --- a fork --- */

/* What a child gets from its parent's producer, whichever locks were held when it was made. */
static int use_in_child(struct scene *s)
{
    cafka_record record = some_record();
    cafka_error err = {0};
    cafka_reservation *reservation;
    cafka_metrics *metrics;
    cafka_topic *topic;
    void *value;
    size_t accepted;
    int32_t count;
    if (cafka_producer_send(s->producer, &record, &err) != CAFKA_ERR_FORKED || !*err.message)
        return 1;
    if (cafka_producer_try_send(s->producer, &record, &err) != CAFKA_ERR_FORKED)
        return 2;
    if (cafka_producer_send_many(s->producer, &record, 1, &accepted, &err) != CAFKA_ERR_FORKED)
        return 3;
    if (cafka_producer_reserve(s->producer, &record, &reservation, &value, &err) != CAFKA_ERR_FORKED)
        return 4;
    if (cafka_producer_flush(s->producer, 1000, &err) != CAFKA_ERR_FORKED)
        return 5;
    if (cafka_producer_purge(s->producer, CAFKA_PURGE_QUEUED, &err) != CAFKA_ERR_FORKED)
        return 6;
    if (cafka_producer_partitions(s->producer, "orders", 100, &count, &err) != CAFKA_ERR_FORKED)
        return 7;
    if (cafka_producer_topic(s->producer, "more", &topic, &err) != CAFKA_ERR_FORKED)
        return 8;
    if (cafka_client_metrics(cafka_producer_client(s->producer), &metrics, &err) != CAFKA_ERR_FORKED)
        return 9;
    if (cafka_producer_partition_for(s->producer, &record, &count, &err) != CAFKA_ERR_FORKED)
        return 10;
    (void)cafka_producer_close(s->producer, 0, &err);
    cafka_producer_free(s->producer);
    return 0;
}

static void a_fork_in_the_middle_of_sends_leaves_no_child_behind(void **state)
{
    (void)state;
    struct scene s = {0};
    open_scene(&s);
    for (int round = 0; round < 2 * ROUNDS; round++) {
        pthread_t threads[THREADS];
        open_producer(&s);
        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, send_some, &s);
        while (atomic_load(&s.taken) < 20 * round)
            (void)sched_yield();
        pid_t child = fork();
        if (!child) {
            alarm(30); /* a child that hangs is one that fails */
            _exit(use_in_child(&s));
        }
        int status = -1;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status)
            fail_msg("the child of round %d: status %#x", round, (unsigned)status);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(cafka_producer_close(s.producer, 30000, NULL), CAFKA_OK);
        assert_int_equal(atomic_load(&s.reported), THREADS * RECORDS);
        cafka_producer_free(s.producer);
    }
    cafka_mock_free(s.mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(purges_meet_flushes_and_a_close),
        cmocka_unit_test(reservations_change_hands_while_it_closes),
        cmocka_unit_test(a_loop_that_two_threads_run_goes_on),
        cmocka_unit_test(a_fork_in_the_middle_of_sends_leaves_no_child_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
