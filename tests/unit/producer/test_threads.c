/*
 * test_threads.c - many threads send through one producer, in the real world; for TSan above all.
 */
#include "producer_fixture.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "producer/room.h"

enum { THREADS = 8, EACH = 2000 };

struct world {
    struct producer_fixture f;
    pthread_t broker_thread;
    atomic_bool stop;
    atomic_int delivered, failed;
    atomic_int reported[THREADS * EACH];
    int32_t last[PARTITIONS][THREADS]; /* in the log */
    cafka_error start_error;
};

static void *run_brokers(void *arg)
{
    struct world *w = arg;
    while (!atomic_load(&w->stop))
        (void)loop_run(w->f.loop, 20, NULL);
    return NULL;
}

static void count_delivery(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct world *w = user;
    cafka_delivery_report r;
    (void)producer;
    while (!cafka_delivery_next(delivery, &r)) {
        atomic_fetch_add(&w->reported[(intptr_t)r.opaque], 1);
        atomic_fetch_add(r.code ? &w->failed : &w->delivered, 1);
    }
}

static struct world *open_real_world(void)
{
    struct world *w = calloc(1, sizeof *w);
    struct producer_fixture *f = &w->f;
    cafka_error err;
    char bootstrap[256];
    assert_int_equal(loop_new(&f->loop, cafka_env_real(), LOOP_EXTERNAL, &err), 0);
    script_open(&f->cluster, f->loop, BROKERS);
    script_bootstrap(&f->cluster, BROKERS, bootstrap, sizeof bootstrap);
    script_topic_add(&f->cluster, "orders", 6);
    f->cluster.handler = serve;
    f->cluster.user = f;
    assert_int_equal(pthread_create(&w->broker_thread, NULL, run_brokers, w), 0);
    assert_int_equal(cafka_config_new(&f->config, &err), 0);
    cafka_config_on_delivery(f->config, count_delivery, w);
    cafka_config_set_log(f->config, NULL, NULL, CAFKA_LOG_OFF);
    set(f, "bootstrap.servers", bootstrap);
    return w;
}

static void close_real_world(struct world *w)
{
    cafka_producer_free(w->f.producer);
    atomic_store(&w->stop, true);
    pthread_join(w->broker_thread, NULL);
    script_close(&w->f.cluster);
    loop_unref(w->f.loop);
    cafka_config_free(w->f.config);
    free(w);
}

struct sender_thread {
    struct world *w;
    pthread_t thread;
    int number, sent, refused;
    bool partition_of_its_own;
};

static void *send_all(void *arg)
{
    struct sender_thread *t = arg;
    uint8_t value[100] = {0};
    cafka_error err;
    for (int i = 0; i < EACH; i++) {
        int number = t->number * EACH + i;
        store_be32(value, (uint32_t)number);
        cafka_record record = {.topic = "orders",
                               .value = value,
                               .value_size = sizeof value,
                               .opaque = (void *)(intptr_t)number};
        if (t->partition_of_its_own) {
            record.partition = t->number % 6;
            record.flags = CAFKA_RECORD_PARTITION;
        }
        int rc = cafka_producer_send(t->w->f.producer, &record, &err);
        if (rc) {
            t->refused++;
            if (rc == CAFKA_ERR_CLOSED)
                break;
        } else {
            t->sent++;
        }
    }
    return NULL;
}

static int send_with_threads(struct world *w, struct sender_thread threads[THREADS], bool own)
{
    int sent = 0;
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct sender_thread){.w = w, .number = i, .partition_of_its_own = own};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, send_all, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        sent += threads[i].sent;
    }
    return sent;
}

/* What each thread sent to a partition is there in its order. Brokers are stopped. */
static void check_order_of_each_thread(struct world *w)
{
    memset(w->last, -1, sizeof w->last);
    int total = 0;
    for (int p = 0; p < 6; p++)
        for (int i = 0; i < w->f.logs[p].count; i++, total++) {
            int value = w->f.logs[p].values[i], thread = value / EACH;
            assert_true(value > w->last[p][thread]);
            w->last[p][thread] = value;
        }
    assert_int_equal(total, atomic_load(&w->delivered));
}

static void eight_threads_lose_and_mix_up_nothing(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct world *w = open_real_world();
        struct sender_thread threads[THREADS];
        cafka_error err;
        set(&w->f, "linger.ms", own ? "0" : "5");
        assert_int_equal(cafka_producer_new(&w->f.producer, w->f.config, &err), 0);
        assert_int_equal(send_with_threads(w, threads, own), THREADS * EACH);
        assert_int_equal(cafka_producer_close(w->f.producer, 30000, &err), 0);
        assert_int_equal(atomic_load(&w->delivered), THREADS * EACH);
        for (int i = 0; i < THREADS * EACH; i++)
            assert_int_equal(atomic_load(&w->reported[i]), 1);
        atomic_store(&w->stop, true);
        pthread_join(w->broker_thread, NULL);
        check_order_of_each_thread(w);
        atomic_store(&w->stop, false);
        assert_int_equal(pthread_create(&w->broker_thread, NULL, run_brokers, w), 0);
        close_real_world(w);
    }
}

static void *send_and_wait_for_each(void *arg)
{
    struct sender_thread *t = arg;
    uint8_t value[100] = {0};
    cafka_error err;
    for (int i = 0; i < 50; i++) {
        int number = t->number * EACH + i;
        store_be32(value, (uint32_t)number);
        cafka_record record = {.topic = "orders",
                               .value = value,
                               .value_size = sizeof value,
                               .timestamp_ms = 1000 + number,
                               .flags = CAFKA_RECORD_TIMESTAMP,
                               .opaque = (void *)(intptr_t)number};
        cafka_delivery_report report;
        if (cafka_producer_send_wait(t->w->f.producer, &record, &report, &err))
            break;
        t->sent += report.opaque == record.opaque && report.timestamp_ms == record.timestamp_ms &&
                   report.offset >= 0;
    }
    return NULL;
}

/* Each hears of its own record, though it may be acknowledged before its sender begins to wait. */
static void threads_that_wait_for_each_record_are_told_of_their_own(void **state)
{
    (void)state;
    struct world *w = open_real_world();
    struct sender_thread threads[THREADS];
    cafka_error err;
    set(&w->f, "linger.ms", "0");
    assert_int_equal(cafka_producer_new(&w->f.producer, w->f.config, &err), 0);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct sender_thread){.w = w, .number = i};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, send_and_wait_for_each,
                                        &threads[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        assert_int_equal(threads[i].sent, 50);
    }
    close_real_world(w);
}

/* Workers are done in any order; what they are given stays in its own. */
static void workers_that_compress_lose_and_mix_up_nothing(void **state)
{
    (void)state;
    struct world *w = open_real_world();
    struct sender_thread threads[THREADS];
    cafka_error err;
    set(&w->f, "compression.type", "gzip");
    set(&w->f, "compression.threads", "3");
    set(&w->f, "batch.size", "1000");
    set(&w->f, "linger.ms", "1");
    assert_int_equal(cafka_producer_new(&w->f.producer, w->f.config, &err), 0);
    assert_int_equal(send_with_threads(w, threads, true), THREADS * EACH);
    assert_int_equal(cafka_producer_close(w->f.producer, 30000, &err), 0);
    assert_int_equal(atomic_load(&w->delivered), THREADS * EACH);
    atomic_store(&w->stop, true);
    pthread_join(w->broker_thread, NULL);
    check_order_of_each_thread(w);
    assert_int_equal(w->f.codec, CODEC_GZIP);
    assert_true(atomic_load(&w->f.producer->compressors.turn) > THREADS); /* they had work */
    atomic_store(&w->stop, false);
    assert_int_equal(pthread_create(&w->broker_thread, NULL, run_brokers, w), 0);
    close_real_world(w);
}

/* Much is left to compress when the time to close is over: it fails, and nobody waits for it. */
static void a_close_does_not_wait_for_workers(void **state)
{
    (void)state;
    struct world *w = open_real_world();
    struct sender_thread threads[THREADS];
    cafka_error err = {0};
    set(&w->f, "compression.type", "gzip");
    set(&w->f, "compression.level", "9");
    set(&w->f, "compression.threads", "1");
    set(&w->f, "linger.ms", "60000");
    set(&w->f, "delivery.timeout.ms", "120000");
    assert_int_equal(cafka_producer_new(&w->f.producer, w->f.config, &err), 0);
    int sent = send_with_threads(w, threads, false);
    const cafka_env *env = cafka_env_real();
    int64_t began_ns = env->now(env);
    (void)cafka_producer_close(w->f.producer, 0, &err);
    assert_in_range(env->now(env) - began_ns, 0, INT64_C(5000000000));
    cafka_producer_free(w->f.producer); /* the loop has told of every record then */
    w->f.producer = NULL;
    assert_int_equal(atomic_load(&w->delivered) + atomic_load(&w->failed), sent);
    for (int i = 0; i < THREADS * EACH; i++)
        assert_int_equal(atomic_load(&w->reported[i]), 1);
    close_real_world(w);
}

/* Memory for a few blocks only: everybody waits in line, and nobody starves or deadlocks. */
static void threads_share_little_memory(void **state)
{
    (void)state;
    struct world *w = open_real_world();
    struct sender_thread threads[THREADS];
    cafka_error err;
    set(&w->f, "buffer.memory", "70000");
    set(&w->f, "compression.type", "lz4");
    assert_int_equal(cafka_producer_new(&w->f.producer, w->f.config, &err), 0);
    assert_int_equal(send_with_threads(w, threads, false), THREADS * EACH);
    assert_int_equal(cafka_producer_flush(w->f.producer, 30000, &err), 0);
    assert_int_equal(atomic_load(&w->delivered), THREADS * EACH);
    assert_int_equal(memory_pool_used(&w->f.producer->accumulator.pool), 0);
    close_real_world(w);
}

static void *close_it(void *arg)
{
    struct world *w = arg;
    cafka_error err;
    while (atomic_load(&w->delivered) < 500)
        (void)cafka_producer_flush(w->f.producer, 5, &err);
    (void)cafka_producer_close(w->f.producer, 10000, &err);
    return NULL;
}

/* Closing while all send: what was taken is reported once, what came later is refused. */
static void a_close_among_senders_loses_no_report(void **state)
{
    (void)state;
    struct world *w = open_real_world();
    struct sender_thread threads[THREADS];
    cafka_error err;
    pthread_t closer;
    assert_int_equal(cafka_producer_new(&w->f.producer, w->f.config, &err), 0);
    assert_int_equal(pthread_create(&closer, NULL, close_it, w), 0);
    int sent = send_with_threads(w, threads, false);
    pthread_join(closer, NULL);
    (void)cafka_producer_close(w->f.producer, 10000, &err);
    assert_int_equal(atomic_load(&w->delivered) + atomic_load(&w->failed), sent);
    assert_int_equal(atomic_load(&w->failed), 0);
    close_real_world(w);
}

/* --- what needs the real world, though not many threads --- */

static atomic_bool callback_may_end, callback_runs;

static void hold_on(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    (void)producer, (void)delivery, (void)user;
    atomic_store(&callback_runs, true);
    while (!atomic_load(&callback_may_end))
        sched_yield();
}

/* A callback of the application that does not return must not keep close from returning. */
static void close_does_not_wait_for_a_stuck_callback(void **state)
{
    (void)state;
    struct world *w = open_real_world();
    cafka_error err;
    cafka_config_on_delivery(w->f.config, hold_on, w);
    set(&w->f, "linger.ms", "0");
    assert_int_equal(cafka_producer_new(&w->f.producer, w->f.config, &err), 0);
    cafka_record record = {.topic = "orders", .value = "\0\0\0\1", .value_size = 4};
    assert_int_equal(cafka_producer_send(w->f.producer, &record, &err), 0);
    while (!atomic_load(&callback_runs))
        sched_yield();
    assert_int_equal(cafka_producer_close(w->f.producer, 50, &err), CAFKA_ERR_TIMEOUT);
    assert_non_null(strstr(err.message, "callback"));
    atomic_store(&callback_may_end, true);
    assert_int_equal(cafka_producer_close(w->f.producer, 10000, &err), 0);
    close_real_world(w);
}

static int use_in_child(cafka_producer *producer)
{
    cafka_error err;
    cafka_record record = {.topic = "orders", .value = "\0\0\0\1", .value_size = 4};
    size_t accepted;
    bool good =
        cafka_producer_send(producer, &record, &err) == CAFKA_ERR_FORKED &&
        cafka_producer_send_many(producer, &record, 1, &accepted, &err) == CAFKA_ERR_FORKED &&
        cafka_producer_send_wait(producer, &record, NULL, &err) == CAFKA_ERR_FORKED &&
        cafka_producer_flush(producer, -1, &err) == CAFKA_ERR_FORKED &&
        cafka_producer_close(producer, -1, &err) == CAFKA_ERR_FORKED;
    cafka_producer_free(producer);
    return good ? 0 : 1;
}

static void a_child_process_gets_an_error_and_the_parent_goes_on(void **state)
{
    (void)state;
    struct world *w = open_real_world();
    cafka_error err;
    assert_int_equal(cafka_producer_new(&w->f.producer, w->f.config, &err), 0);
    cafka_record record = {.topic = "orders", .value = "\0\0\0\1", .value_size = 4};
    assert_int_equal(cafka_producer_send(w->f.producer, &record, &err), 0);
    pid_t child = fork();
    if (!child) { /* ends as another program: what a child keeps of its parent's client is no leak */
        execlp(use_in_child(w->f.producer) ? "false" : "true", "end", (char *)NULL);
        _exit(2);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(cafka_producer_send(w->f.producer, &record, &err), 0);
    assert_int_equal(cafka_producer_close(w->f.producer, 10000, &err), 0);
    assert_int_equal(atomic_load(&w->delivered), 2);
    close_real_world(w);
}

/* --- every way into a batch at once --- */

static int send_in_turn(struct sender_thread *t, int i, const cafka_record *record)
{
    cafka_producer *producer = t->w->f.producer;
    cafka_reservation *reservation;
    void *value;
    if (i % 3 == 0)
        return cafka_producer_send(producer, record, NULL);
    if (i % 3 == 1)
        return cafka_producer_send_many(producer, record, 1, NULL, NULL);
    int rc = cafka_producer_reserve(producer, record, &reservation, &value, NULL);
    if (rc)
        return rc;
    memcpy(value, record->value, record->value_size);
    if (i % 7 == 0) { /* a second thought */
        cafka_producer_abandon(producer, reservation);
        return cafka_producer_send(producer, record, NULL);
    }
    return cafka_producer_commit(producer, reservation, record->value_size, NULL);
}

static void *send_every_way(void *arg)
{
    struct sender_thread *t = arg;
    uint8_t *value = calloc(1, 9000);
    for (int i = 0; i < EACH / 4; i++) {
        int number = t->number * EACH + i;
        store_be32(value, (uint32_t)number);
        cafka_record record = {.topic = "orders",
                               .value = value,
                               .value_size = i % 5 ? 100 : 9000,
                               .opaque = (void *)(intptr_t)number,
                               .partition = i % 6,
                               .flags = i % 2 ? CAFKA_RECORD_PARTITION : 0};
        if (!send_in_turn(t, i, &record))
            t->sent++;
    }
    free(value);
    return NULL;
}

static void every_way_of_sending_meets_stats_and_purges(void **state)
{
    (void)state;
    struct world *w = open_real_world();
    struct sender_thread threads[THREADS];
    set(&w->f, "buffer.memory", "2000000");
    assert_int_equal(cafka_producer_new(&w->f.producer, w->f.config, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct sender_thread){.w = w, .number = i};
        assert_int_equal(pthread_create(&threads[i].thread, NULL, send_every_way, &threads[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        cafka_producer_use use = {.size = sizeof use};
        assert_int_equal(cafka_producer_stats(w->f.producer, &use), CAFKA_OK);
        assert_in_range(use.records, 0, THREADS * EACH);
        assert_int_equal(cafka_producer_purge(w->f.producer, CAFKA_PURGE_QUEUED, NULL), CAFKA_OK);
        (void)sched_yield();
    }
    int sent = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i].thread, NULL);
        sent += threads[i].sent;
    }
    assert_int_equal(sent, THREADS * (EACH / 4));
    assert_int_equal(cafka_producer_flush(w->f.producer, -1, NULL), CAFKA_OK);
    assert_int_equal(atomic_load(&w->delivered) + atomic_load(&w->failed), sent);
    for (int i = 0; i < THREADS * EACH; i++)
        assert_int_equal(atomic_load(&w->reported[i]), i % EACH < EACH / 4);
    close_real_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_threads_lose_and_mix_up_nothing),
        cmocka_unit_test(threads_that_wait_for_each_record_are_told_of_their_own),
        cmocka_unit_test(workers_that_compress_lose_and_mix_up_nothing),
        cmocka_unit_test(a_close_does_not_wait_for_workers),
        cmocka_unit_test(threads_share_little_memory),
        cmocka_unit_test(a_close_among_senders_loses_no_report),
        cmocka_unit_test(every_way_of_sending_meets_stats_and_purges),
        cmocka_unit_test(close_does_not_wait_for_a_stuck_callback),
        cmocka_unit_test(a_child_process_gets_an_error_and_the_parent_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
