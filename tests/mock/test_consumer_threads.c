/*
 * test_consumer_threads.c - a consumer, a real cluster in this process, and threads that meet.
 */
#include "mock/mock_fixture.h"

#include "consumer/consumer.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

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
    cafka_config_set(config, "fetch.max.wait.ms", "50", NULL);
    cafka_config_set(config, "max.poll.records", "10", NULL);
    if (cafka_consumer_new(&s->consumer, config, &err))
        fail_msg("no consumer: %s", err.message);
    cafka_config_free(config);
    assign_from(s->consumer, "orders", 4, CAFKA_OFFSET_BEGINNING);
    while (!cafka_consumer_at_end(
        s->consumer)) { /* from now on only a wakeup or a record ends a poll */
        cafka_fetch *fetch;
        if (cafka_consumer_poll(s->consumer, -1, &fetch, &err))
            fail_msg("poll: %s", err.message);
        assert_null(fetch);
    }
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

/* Every call but wakeup, so that each tells a second thread that it is one. */
static int call_number(cafka_consumer *c, int number, cafka_error *err)
{
    static cafka_position at;
    int64_t n;
    int32_t count;
    size_t room = 0;
    cafka_fetch *fetch;
    at = (cafka_position){.topic = "orders", .flags = CAFKA_POSITION_OFFSET};
    switch (number) {
    case 0: return cafka_consumer_assign(c, &at, 1, err);
    case 1: return cafka_consumer_assign_add(c, &at, 1, err);
    case 2: return cafka_consumer_assign_remove(c, &at, 1, err);
    case 3: return cafka_consumer_poll(c, 0, &fetch, err);
    case 4: return cafka_consumer_seek(c, "orders", 0, 0, err);
    case 5: return cafka_consumer_seek_many(c, &at, 1, err);
    case 6: return cafka_consumer_pause(c, &at, 1, err);
    case 7: return cafka_consumer_resume(c, &at, 1, err);
    case 8: return cafka_consumer_position(c, "orders", 0, 0, &n, err);
    case 9: return cafka_consumer_assignment(c, NULL, &room, err);
    case 10: return cafka_consumer_list_offsets(c, &at, 1, 0, err);
    case 11: return cafka_consumer_begin_offsets(c, &at, 1, 0, err);
    case 12: return cafka_consumer_end_offsets(c, &at, 1, 0, err);
    case 13: return cafka_consumer_watermarks(c, "orders", 0, &n, &n, err);
    case 14: return cafka_consumer_lag(c, "orders", 0, &n, err);
    case 15: return cafka_consumer_partitions(c, "orders", 0, &count, err);
    case 16: return cafka_consumer_close(c, 1000, err);
    default: return CAFKA_END;
    }
}

/* Inside a poll that does not end, told by the first call that is refused. */
static void start_polling(struct poller *poller, pthread_t *thread)
{
    assert_int_equal(pthread_create(thread, NULL, poll_for_ever, poller), 0);
    while (cafka_consumer_lag(poller->consumer, NULL, 0, NULL, NULL) != CAFKA_ERR_CONCURRENT)
        if (atomic_load(&poller->result) != 1) { /* we were inside when it came */
            pthread_join(*thread, NULL);
            atomic_store(&poller->result, 1);
            assert_int_equal(pthread_create(thread, NULL, poll_for_ever, poller), 0);
        }
}

static void every_call_of_a_second_thread_is_refused_and_changes_nothing(void **state)
{
    struct scene *s = *state;
    struct poller poller = {s->consumer, 1};
    cafka_error err = {0};
    pthread_t thread;
    size_t count = 0;
    int number, rc;
    start_polling(&poller, &thread);
    for (number = 0; (rc = call_number(s->consumer, number, &err)) != CAFKA_END; number++) {
        if (rc != CAFKA_ERR_CONCURRENT)
            fail_msg("call %d: %d", number, rc);
        assert_int_equal(err.code, rc);
    }
    assert_int_equal(number, 17);
    assert_int_equal(cafka_consumer_at_end(s->consumer), 0);
    cafka_consumer_wakeup(s->consumer);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&poller.result), CAFKA_ERR_WAKEUP);
    assert_int_equal(cafka_consumer_assignment(s->consumer, NULL, &count, NULL), CAFKA_OK);
    assert_int_equal(count, 4);
}

static void *poll_once(void *arg)
{
    struct poller *p = arg;
    cafka_fetch *fetch = NULL;
    atomic_store(&p->result, cafka_consumer_poll(p->consumer, 0, &fetch, NULL));
    return NULL;
}

/* A call that is refused for that has left, so whoever comes next is told the same. */
static void closed_consumer_says_so_to_every_thread(void **state)
{
    struct scene *s = *state;
    assert_int_equal(cafka_consumer_close(s->consumer, 10000, NULL), CAFKA_OK);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 0, NULL), CAFKA_ERR_CLOSED);
    for (int i = 0; i < 2; i++) {
        struct poller poller = {s->consumer, 1};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, poll_once, &poller), 0);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&poller.result), CAFKA_ERR_CLOSED);
    }
}

enum { WAKEUPS = 300 };

/* Each of them ends one wait: before it, in it, or on its way there; there is no third answer. */
static void wakeup_is_never_lost(void **state)
{
    struct scene *s = *state;
    for (int i = 0; i < WAKEUPS; i++) {
        struct poller poller = {s->consumer, 1};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, poll_for_ever, &poller), 0);
        for (volatile int spin = 0; spin < i * 20; spin++)
            ;
        cafka_consumer_wakeup(s->consumer);
        pthread_join(thread, NULL); /* or this test never ends */
        assert_int_equal(atomic_load(&poller.result), CAFKA_ERR_WAKEUP);
    }
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

/* A process of one thread of its own, as a program with Ctrl-C is: the timer's signal finds it in poll. */
static void signal_ends_the_poll_that_it_interrupts(void **state)
{
    struct scene *s = *state;
    struct sigaction action = {.sa_handler = on_signal}, old;
    struct itimerval soon = {.it_value = {.tv_usec = 30000}};
    cafka_fetch *fetch;
    int rc;
    to_wake = s->consumer;
    sigaction(SIGALRM, &action, &old);
    for (int i = 0; i < 3; i++) {
        setitimer(ITIMER_REAL, &soon, NULL);
        rc = cafka_consumer_poll(s->consumer, -1, &fetch, NULL);
        assert_int_equal(rc, CAFKA_ERR_WAKEUP);
        assert_null(fetch);
    }
    sigaction(SIGALRM, &old, NULL);
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

/* Counts its polls, so that the waker spares every second one. */
struct woken {
    cafka_consumer *consumer;
    atomic_int polls; /* -1: no more */
};

static void *wake_every_second(void *arg)
{
    struct woken *woken = arg;
    for (int polls, last = 0; (polls = atomic_load(&woken->polls)) >= 0; last = polls) {
        if (polls != last && polls % 2)
            cafka_consumer_wakeup(woken->consumer);
        sched_yield();
    }
    return NULL;
}

/* However often it is woken, each record is handed out once, in order. */
static void wakeups_lose_no_record(void **state)
{
    struct scene *s = *state;
    struct woken woken = {s->consumer, 0};
    int64_t next[4] = {0};
    pthread_t thread;
    int count = 0, times = 0, rc;
    produce_numbers(s);
    assert_int_equal(pthread_create(&thread, NULL, wake_every_second, &woken), 0);
    while (count < RECORDS) {
        cafka_fetch *fetch;
        cafka_record_view record;
        cafka_error err = {0};
        if (atomic_fetch_add(&woken.polls, 1) % 5 == 0)
            cafka_consumer_wakeup(s->consumer); /* however the other thread fares */
        rc = cafka_consumer_poll(s->consumer, 30000, &fetch, &err);
        times += rc == CAFKA_ERR_WAKEUP;
        if (rc && rc != CAFKA_ERR_WAKEUP)
            fail_msg("%s", err.message);
        if (rc)
            assert_null(fetch);
        for (; fetch && !cafka_fetch_next(fetch, &record, &err); count++)
            assert_int_equal(record.offset, next[record.partition]++);
        cafka_fetch_free(fetch);
    }
    atomic_store(&woken.polls, -1);
    pthread_join(thread, NULL);
    assert_true(times > 0);
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

/* --- cafka_client_fd() --- */

static bool is_readable(struct scene *s, int timeout_ms)
{
    struct pollfd fd = {.fd = cafka_client_fd(cafka_consumer_client(s->consumer)), .events = POLLIN};
    assert_true(fd.fd >= 0);
    return poll(&fd, 1, timeout_ms) == 1;
}

/* What a program does with a descriptor that is readable: poll until there is nothing. */
static int drain(struct scene *s, int *woken)
{
    int records = 0;
    for (;;) {
        cafka_fetch *fetch;
        cafka_record_view record;
        cafka_error err = {0};
        int rc = cafka_consumer_poll(s->consumer, 0, &fetch, &err);
        if (rc == CAFKA_ERR_WAKEUP)
            ++*woken;
        else if (rc)
            fail_msg("poll: %s", err.message);
        else if (!fetch)
            return records;
        while (fetch && !cafka_fetch_next(fetch, &record, &err))
            records++;
        cafka_fetch_free(fetch);
    }
}

static void send_one_record(struct scene *s)
{
    cafka_error err = {0};
    cafka_config *config;
    cafka_producer *producer;
    cafka_record record = {.topic = "orders", .value = "one", .value_size = 3};
    assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
    cafka_config_set(config, "bootstrap.servers", cafka_mock_bootstrap(s->mock), NULL);
    if (cafka_producer_new(&producer, config, &err))
        fail_msg("no producer: %s", err.message);
    assert_int_equal(cafka_producer_send_wait(producer, &record, NULL, &err), CAFKA_OK);
    cafka_producer_free(producer);
    cafka_config_free(config);
}

enum { PATIENCE_MS = 30000 };

/* A program that sleeps in its own poll() only, and comes to every record. */
static void descriptor_of_a_consumer_tells_of_records(void **state)
{
    struct scene *s = *state;
    int woken = 0;
    (void)is_readable(s, 0); /* from now on it is asked for */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(drain(s, &woken), 0);
        send_one_record(s);
        int seen = 0;
        while (!seen) { /* it may be readable for nothing */
            assert_true(is_readable(s, PATIENCE_MS));
            seen = drain(s, &woken);
        }
        assert_int_equal(seen, 1);
    }
    assert_int_equal(woken, 0);
}

static void descriptor_rests_when_nothing_comes(void **state)
{
    struct scene *s = *state;
    int woken = 0, for_nothing = 0;
    assert_true(is_readable(s, PATIENCE_MS)); /* what came before it was asked for */
    do
        assert_int_equal(drain(s, &woken), 0);
    while (is_readable(s, 200) && ++for_nothing < 10);
    assert_in_range(for_nothing, 0, 2);
}

static void descriptor_tells_of_a_wakeup(void **state)
{
    struct scene *s = *state;
    int woken = 0;
    (void)is_readable(s, 0);
    (void)drain(s, &woken);
    cafka_consumer_wakeup(s->consumer);
    assert_true(is_readable(s, PATIENCE_MS));
    (void)drain(s, &woken);
    assert_int_equal(woken, 1);
}

/* Asked before anything is assigned, it is no reason to spin. */
static void descriptor_of_a_consumer_without_assignment_rests(void **state)
{
    struct scene *s = *state;
    cafka_fetch *fetch;
    assert_int_equal(cafka_consumer_assign(s->consumer, NULL, 0, NULL), CAFKA_OK);
    (void)is_readable(s, 0);
    int readable = 0;
    do
        assert_int_equal(cafka_consumer_poll(s->consumer, 0, &fetch, NULL), CAFKA_ERR_STATE);
    while (is_readable(s, 100) && ++readable < 20);
    assert_in_range(readable, 0, 2);
    assign_from(s->consumer, "orders", 4, CAFKA_OFFSET_BEGINNING);
    send_one_record(s);
    int woken = 0, seen = 0;
    while (!seen) {
        assert_true(is_readable(s, PATIENCE_MS));
        seen = drain(s, &woken);
    }
}

/* The client's callbacks wait for cafka_dispatch() here, and the loop serves two clients. */
static void descriptor_tells_of_records_on_a_shared_loop(void **state)
{
    struct scene *s = *state;
    for (unsigned mode = CAFKA_LOOP_BACKGROUND; mode <= CAFKA_LOOP_EXTERNAL; mode++) {
        cafka_error err = {0};
        cafka_loop *loop;
        cafka_config *config;
        struct scene own = {.mock = s->mock};
        int woken = 0, seen = 0, before = 0;
        assert_int_equal(cafka_loop_new(&loop, mode, &err), CAFKA_OK);
        assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
        cafka_config_set(config, "bootstrap.servers", cafka_mock_bootstrap(s->mock), NULL);
        cafka_config_set_loop(config, loop);
        if (cafka_consumer_new(&own.consumer, config, &err))
            fail_msg("no consumer: %s", err.message);
        cafka_config_free(config);
        assign_from(own.consumer, "orders", 4, CAFKA_OFFSET_BEGINNING);
        (void)is_readable(&own, 0);
        before = (int)mode; /* the record of the first round is there in the second */
        send_one_record(s);
        for (int turns = 0; seen < before + 1 && turns < 10000; turns++) {
            if (mode == CAFKA_LOOP_EXTERNAL) { /* a turn, then look, as a program's own loop does */
                struct pollfd fds[] = {{.fd = cafka_loop_fd(loop), .events = POLLIN},
                                       {.fd = cafka_client_fd(cafka_consumer_client(own.consumer)),
                                        .events = POLLIN}};
                int64_t wait_ms = cafka_loop_timeout_ms(loop);
                int most_ms = fds[0].fd < 0 ? 10 : 1000; /* without epoll there is no descriptor */
                (void)poll(fds, 2, wait_ms < 0 || wait_ms > most_ms ? most_ms : (int)wait_ms);
                assert_int_equal(cafka_loop_run(loop, 0, &err), CAFKA_OK);
                if (!(fds[1].revents & POLLIN))
                    continue;
            } else {
                assert_true(is_readable(&own, PATIENCE_MS));
            }
            seen += drain(&own, &woken);
        }
        assert_int_equal(seen, before + 1);
        close_consumer(own.consumer);
        cafka_loop_free(loop);
    }
}

/* cafka_dispatch() looks at callbacks only, and leaves the rest to be seen. */
static void dispatch_takes_no_news_away(void **state)
{
    struct scene *s = *state;
    int woken = 0, seen = 0;
    (void)is_readable(s, 0);
    (void)drain(s, &woken);
    send_one_record(s);
    while (!seen) {
        assert_true(is_readable(s, PATIENCE_MS));
        assert_int_equal(cafka_dispatch(cafka_consumer_client(s->consumer), 0), 0);
        assert_int_equal(cafka_dispatch(cafka_consumer_client(s->consumer), 1), 0);
        assert_true(is_readable(s, PATIENCE_MS));
        seen = drain(s, &woken);
    }
}

static void read_in_order(struct scene *s, int count)
{
    int next[4] = {0, 1, 2, 3}, seen = 0;
    cafka_error err = {0};
    while (seen < count) {
        cafka_fetch *fetch = NULL;
        cafka_record_view record;
        assert_int_equal(cafka_consumer_poll(s->consumer, 30000, &fetch, &err), CAFKA_OK);
        while (!cafka_fetch_next(fetch, &record, &err)) {
            int number;
            memcpy(&number, record.value, sizeof number);
            assert_int_equal(number, next[record.partition]);
            next[record.partition] += 4;
            seen++;
        }
        cafka_fetch_free(fetch);
    }
}

/*
 * Loop and application meet at the same compressed batches: each is handed out once, in order, and
 * each of the two inflates some.
 */
static void compressed_batches_are_inflated_by_whoever_comes_first(void **state)
{
    struct scene *s = *state;
    enum { COUNT = 20000 };
    cafka_error err = {0};
    cafka_config *config;
    cafka_producer *producer;
    assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
    cafka_config_set(config, "bootstrap.servers", cafka_mock_bootstrap(s->mock), NULL);
    cafka_config_load(config, "compression.type=gzip\nbatch.size=4096\nbatch.max.size=4096", NULL);
    if (cafka_producer_new(&producer, config, &err))
        fail_msg("no producer: %s", err.message);
    for (int i = 0; i < COUNT; i++) {
        cafka_record record = {.topic = "orders",
                               .value = &i,
                               .value_size = sizeof i,
                               .partition = i % 4,
                               .flags = CAFKA_RECORD_PARTITION};
        assert_int_equal(cafka_producer_send(producer, &record, &err), CAFKA_OK);
    }
    assert_int_equal(cafka_producer_close(producer, 30000, &err), CAFKA_OK);
    cafka_producer_free(producer);
    cafka_config_free(config);
    const struct fetch_reader *reader = s->consumer->reader;
    int rounds = 0;
    do { /* usually the first is enough */
        read_in_order(s, COUNT);
        for (int32_t p = 0; p < 4; p++)
            assert_int_equal(cafka_consumer_seek(s->consumer, "orders", p, 0, &err), CAFKA_OK);
    } while ((!reader->taken_ahead || !reader->inflated_itself) && ++rounds < 1000);
    assert_true(reader->taken_ahead > 0 && reader->inflated_itself > 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(second_thread_is_refused_and_wakeup_ends_the_wait),
        TEST(every_call_of_a_second_thread_is_refused_and_changes_nothing),
        TEST(closed_consumer_says_so_to_every_thread),
        TEST(wakeup_is_never_lost),
        TEST(wakeup_works_in_a_signal_handler),
        TEST(signal_ends_the_poll_that_it_interrupts),
        TEST(wakeups_lose_no_record),
        TEST(views_may_be_read_and_let_go_on_any_thread),
        TEST(descriptor_of_a_consumer_tells_of_records),
        TEST(descriptor_rests_when_nothing_comes),
        TEST(descriptor_tells_of_a_wakeup),
        TEST(descriptor_of_a_consumer_without_assignment_rests),
        TEST(descriptor_tells_of_records_on_a_shared_loop),
        TEST(dispatch_takes_no_news_away),
        TEST(compressed_batches_are_inflated_by_whoever_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
