/*
 * consumer.c - see consumer.h: life of a consumer, who may be inside, what crosses to the loop, poll.
 * What it reads and where is in assignment.c, what asks brokers in lookups.c.
 */
#include "consumer/consumer.h"

#include "util/alloc.h"

enum {
    AGAIN_AFTER_FAILURE_MS = 1000, /* a partition whose data can't be read is fetched again */
    AGAIN_WITHOUT_MEMORY_MS = 100,
    CLOSE_SESSIONS_MS = 500 /* of close: more is not worth waiting for a broker's courtesy */
};

/* --- one thread at a time --- */

static const void *this_thread(void)
{
    static _Thread_local char mark;
    return &mark;
}

static int enter_any(cafka_consumer *consumer, cafka_error *err)
{
    const void *nobody = NULL;
    if (atomic_load(&consumer->inside) != this_thread() &&
        !atomic_compare_exchange_strong(&consumer->inside, &nobody, this_thread()))
        return error_set(err, CAFKA_ERR_CONCURRENT, "another thread is inside this consumer");
    consumer->depth++;
    return CAFKA_OK;
}

static int no_consumer(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_ARGUMENT, "the consumer is NULL");
}

int consumer_enter(cafka_consumer *consumer, cafka_error *err)
{
    error_clear(err);
    if (!consumer)
        return no_consumer(err);
    int rc = client_not_forked(&consumer->client, err);
    if (rc || (rc = enter_any(consumer, err)))
        return rc;
    if (consumer->closed) {
        consumer_leave(consumer);
        return error_set(err, CAFKA_ERR_CLOSED, "the consumer is closed");
    }
    return CAFKA_OK;
}

void consumer_leave(cafka_consumer *consumer)
{
    if (--consumer->depth == 0)
        atomic_store(&consumer->inside, NULL);
}

static bool take_wakeup(cafka_consumer *consumer)
{
    return atomic_load_explicit(&consumer->woken, memory_order_relaxed) &&
           atomic_exchange(&consumer->woken, false);
}

static int woken(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_WAKEUP, "cafka_consumer_wakeup() was called");
}

/* With `for_callbacks` it does not wait while there are some. */
static int wait_for_news(cafka_consumer *consumer, bool for_callbacks, int64_t deadline,
                         cafka_error *err)
{
    struct fetch_queue *queue = &consumer->reader->queue;
    if (take_wakeup(consumer))
        return woken(err);
    if (!fetch_queue_start_waiting(queue))
        return CAFKA_OK;
    if (for_callbacks && client_has_callbacks(&consumer->client)) {
        fetch_queue_stop_waiting(queue);
        return CAFKA_OK;
    }
    int rc = client_wait(&consumer->client, queue->event, deadline, err);
    fetch_queue_stop_waiting(queue);
    if (rc == CAFKA_OK && take_wakeup(consumer))
        return woken(err);
    return rc;
}

int consumer_wait(cafka_consumer *consumer, int64_t deadline, cafka_error *err)
{
    return wait_for_news(consumer, false, deadline, err);
}

static void signal_application(void *user)
{
    cafka_consumer *consumer = user;
    client_signal(&consumer->client, consumer->reader->queue.event);
}

static void tell_news(void *user)
{
    client_news(&((cafka_consumer *)user)->client);
}

/* A poll found nothing: from now on cafka_client_fd() tells when there is something again. */
static void found_nothing(cafka_consumer *consumer)
{
    if (!client_no_news(&consumer->client))
        return;
    if (fetch_queue_came_in(&consumer->reader->queue) || atomic_load(&consumer->woken))
        client_news(&consumer->client);
}

void cafka_consumer_wakeup(cafka_consumer *consumer)
{
    if (!consumer)
        return;
    atomic_store(&consumer->woken, true);
    client_news(&consumer->client);
    signal_application(consumer);
}

/* --- from the application to the loop --- */

static void run_changes(cafka_consumer *consumer)
{
    struct list *link;
    for (;;) {
        pthread_mutex_lock(&consumer->mu);
        link = list_pop_front(&consumer->changes);
        consumer->changes_posted = consumer->changes_posted && link;
        struct consumer_partition *p =
            link ? list_item(link, struct consumer_partition, wanted.link) : NULL;
        struct partition_wish wish = {0};
        if (p)
            wish =
                (struct partition_wish){p->wanted.start,    p->wanted.generation, p->wanted.epoch,
                                        p->wanted.delay_ms, p->wanted.assigned,   p->wanted.paused};
        pthread_mutex_unlock(&consumer->mu);
        if (!p)
            return;
        if (fetcher_change(&consumer->fetcher, p, &wish)) {
            consumer_partition_unref(p);
            continue;
        }
        pthread_mutex_lock(&consumer->mu);
        if (list_linked(&p->wanted.link))
            consumer_partition_unref(p); /* wished again meanwhile, with a reference of its own */
        else
            list_push_front(&consumer->changes, &p->wanted.link);
        pthread_mutex_unlock(&consumer->mu);
        loop_timer_set(consumer->client.loop, &consumer->changes_timer,
                       loop_now_ms(consumer->client.loop) + AGAIN_WITHOUT_MEMORY_MS);
        return;
    }
}

static void changes_posted(struct loop_task *task)
{
    run_changes(container_of(task, cafka_consumer, changes_task));
}

static void changes_timer_fired(struct timer *timer)
{
    run_changes(container_of(timer, cafka_consumer, changes_timer));
}

void consumer_wish(cafka_consumer *consumer, struct consumer_partition *p, int64_t start,
                   int32_t epoch, int32_t delay_ms)
{
    bool post = false;
    consumer->end.known = false;
    pthread_mutex_lock(&consumer->mu);
    p->wanted.generation = p->app.generation;
    p->wanted.start = start;
    p->wanted.epoch = epoch;
    p->wanted.delay_ms = delay_ms;
    p->wanted.assigned = p->app.assigned;
    p->wanted.paused = p->app.paused;
    if (!list_linked(&p->wanted.link)) {
        consumer_partition_ref(p);
        list_push_back(&consumer->changes, &p->wanted.link);
        post = !consumer->changes_posted;
        consumer->changes_posted = true;
    }
    pthread_mutex_unlock(&consumer->mu);
    if (post)
        client_post(&consumer->client, &consumer->changes_task);
}

/*
 * --- what the reader and the loop tell ---
 *
 * The reader goes on after close, for fetches that the application still has; the loop must not
 * hear of it any more, since nothing waits for what would be posted now.
 */

static void partition_failed(void *owner, struct consumer_partition *p)
{
    cafka_consumer *consumer = owner;
    p->app.generation++;
    if (!consumer->closed)
        consumer_wish(consumer, p, p->app.position, -1, AGAIN_AFTER_FAILURE_MS);
}

static void partition_reset(void *owner, struct consumer_partition *p, int64_t start, int32_t epoch)
{
    cafka_consumer *consumer = owner;
    if (consumer->closed)
        return;
    bool behind = start >= 0 && p->app.position >= 0 && p->app.position < start;
    if (behind) /* only what was queued is lost: from the position on it is fetched again */
        consumer_start_at(consumer, p, p->app.position, p->app.position_epoch);
    else
        consumer_start_at(consumer, p, start, epoch);
}

/* As Java counts the lag: where the log ends for this isolation.level, less the position. */
static void answer_read(void *owner, struct consumer_partition *p, size_t bytes)
{
    cafka_consumer *consumer = owner;
    int64_t end = atomic_load(&p->readable_end);
    int64_t lag = end < 0 ? -1 : end > p->app.position ? end - p->app.position : 0;
    if (!consumer->closed)
        consumer_count_read(&consumer->meters, env_now_ms(consumer->client.env), (int64_t)bytes,
                            lag);
}

static void made_room(void *owner)
{
    cafka_consumer *consumer = owner;
    if (!consumer->closed && atomic_load(&consumer->fetcher.poke_wanted) &&
        atomic_exchange(&consumer->fetcher.poke_wanted, false))
        fetcher_poke(&consumer->fetcher);
}

static void memory_came_back(void *user)
{
    cafka_consumer *consumer = user;
    fetcher_poke(&consumer->fetcher);
}

static void topic_changed(void *room, struct metadata_topic *topic, unsigned what)
{
    cafka_consumer *consumer = room;
    fetcher_topic_changed(&consumer->fetcher, topic, what);
    fetch_queue_wake(&consumer->reader->queue);
}

static void broker_writable(void *room, struct broker *broker, enum lane lane)
{
    cafka_consumer *consumer = room;
    if (lane == LANE_DATA)
        fetcher_broker_writable(&consumer->fetcher, broker);
}

/* Nothing was in flight, or it would have been told to the request: open it again for the next fetch. */
static void broker_down(void *room, struct broker *broker, enum lane lane, const cafka_error *why)
{
    (void)why;
    if (lane == LANE_DATA)
        fetcher_broker_down(&((cafka_consumer *)room)->fetcher, broker);
    broker_writable(room, broker, lane);
}

/* A poll that waits runs it. */
static void callback_queued(void *room)
{
    fetch_queue_wake(&((cafka_consumer *)room)->reader->queue);
}

/* --- open --- */

static void stop_on_loop(struct loop_task *task);
static void tear_down_on_loop(struct loop_task *task);

static int open_parts(cafka_consumer *consumer, cafka_error *err)
{
    static const struct reader_events events = {partition_failed, partition_reset, answer_read,
                                                made_room};
    const struct consumer_settings *settings = &consumer->settings;
    int rc = fetch_budget_new(&consumer->budget, settings->fetch_buffer_memory_bytes,
                              memory_came_back, consumer, err);
    if (!rc)
        rc = reader_new(&consumer->reader, settings->client.env, consumer->budget,
                        (size_t)settings->fetch_max_inflated_batch_bytes, &events, consumer, err);
    if (!rc)
        rc = reader_hooks_init(&consumer->reader->hooks, client_plugins(&settings->client),
                               (struct log){&settings->client.log_sink, "consumer"}, err);
    if (rc)
        return rc;
    struct client_options options = {.settings = &settings->client,
                                     .hooks = {.topic_changed = topic_changed,
                                               .broker_writable = broker_writable,
                                               .broker_down = broker_down,
                                               .callback_queued = callback_queued},
                                     .room = consumer,
                                     .has_news = true,
                                     .max_in_flight = {[LANE_DATA] = 1}};
    rc = client_open(&consumer->client, &options, err);
    consumer->opened = !rc;
    consumer->reader->queue.signal = signal_application;
    consumer->reader->queue.news = tell_news;
    consumer->reader->queue.signal_user = consumer;
    return rc;
}

int cafka_consumer_new(cafka_consumer **out, const cafka_config *config, cafka_error *err)
{
    error_clear(err);
    if (!out || !config)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "a consumer needs a configuration and a place to go to");
    cafka_consumer *consumer = mem_zalloc(sizeof *consumer);
    if (!consumer)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a consumer");
    pthread_mutex_init(&consumer->mu, NULL);
    list_init(&consumer->assignment);
    list_init(&consumer->changes);
    consumer->changes_task.run = changes_posted;
    consumer->changes_timer.fire = changes_timer_fired;
    consumer->stop_task.run = stop_on_loop;
    consumer->teardown_task.run = tear_down_on_loop;
    int rc = settings_for_consumer(config, &consumer->settings, err);
    if (!rc)
        rc = open_parts(consumer, err);
    if (rc) {
        cafka_consumer_free(consumer);
        return rc;
    }
    offset_lookup_init(&consumer->lookup, &consumer->client, consumer->settings.read_committed);
    fetcher_init(&consumer->fetcher, &consumer->client, &consumer->settings,
                 &consumer->reader->queue, consumer->budget, &consumer->lookup);
    consumer_meters_init(consumer);
    consumer->fetcher.meters = &consumer->meters;
    metadata_set_auto_create(consumer->client.metadata, consumer->settings.allow_auto_create_topics);
    client_start(&consumer->client);
    *out = consumer;
    return CAFKA_OK;
}

int cafka_consumer_open(cafka_consumer **out, const char *properties, cafka_error *err)
{
    cafka_config *config = NULL;
    error_clear(err);
    int rc = cafka_config_new(&config, err);
    if (!rc)
        rc = cafka_config_load(config, properties, err);
    if (!rc)
        rc = cafka_consumer_new(out, config, err);
    cafka_config_free(config);
    return rc;
}

cafka_client *cafka_consumer_client(cafka_consumer *consumer)
{
    return consumer ? client_public(&consumer->client) : NULL;
}

/* --- close --- */

static void stop_on_loop(struct loop_task *task)
{
    cafka_consumer *consumer = container_of(task, cafka_consumer, stop_task);
    fetcher_stop(&consumer->fetcher);
    atomic_store(&consumer->stopped, true);
    fetch_queue_wake(&consumer->reader->queue);
}

static void tear_down_on_loop(struct loop_task *task)
{
    cafka_consumer *consumer = container_of(task, cafka_consumer, teardown_task);
    struct list *link;
    loop_timer_cancel(consumer->client.loop, &consumer->changes_timer);
    pthread_mutex_lock(&consumer->mu);
    while ((link = list_pop_front(&consumer->changes)))
        consumer_partition_unref(list_item(link, struct consumer_partition, wanted.link));
    pthread_mutex_unlock(&consumer->mu);
    fetcher_fini(&consumer->fetcher);
    offset_lookup_fini(&consumer->lookup);
    atomic_store(&consumer->torn_down, true);
    fetch_queue_wake(&consumer->reader->queue);
}

/* Wait for a flag that the loop sets; a wakeup does not end it. False: the deadline came first. */
static bool wait_for_flag(cafka_consumer *consumer, const atomic_bool *flag, int64_t deadline)
{
    struct fetch_queue *queue = &consumer->reader->queue;
    while (!atomic_load(flag)) {
        reader_take_news(consumer->reader);
        if (!fetch_queue_start_waiting(queue))
            continue;
        if (!atomic_load(flag) && client_wait(&consumer->client, queue->event, deadline, NULL))
            return false;
    }
    return true;
}

/* The brokers' courtesy: they may forget our sessions at once. */
static void wait_for_sessions(cafka_consumer *consumer, int64_t deadline)
{
    struct fetch_queue *queue = &consumer->reader->queue;
    int64_t enough = consumer->client.env->now(consumer->client.env) + CLOSE_SESSIONS_MS * NS_PER_MS;
    if (deadline > enough)
        deadline = enough;
    while (atomic_load(&consumer->fetcher.closing)) {
        reader_take_news(consumer->reader);
        if (fetch_queue_start_waiting(queue) && atomic_load(&consumer->fetcher.closing) &&
            client_wait(&consumer->client, queue->event, deadline, NULL))
            return;
    }
}

static int close_client(cafka_consumer *consumer, int64_t deadline, cafka_error *err)
{
    client_post(&consumer->client, &consumer->stop_task);
    if (wait_for_flag(consumer, &consumer->stopped, deadline))
        wait_for_sessions(consumer, deadline);
    client_post(&consumer->client, &consumer->teardown_task);
    (void)wait_for_flag(consumer, &consumer->torn_down, deadline);
    return client_close(&consumer->client, deadline, err);
}

int cafka_consumer_close(cafka_consumer *consumer, int64_t timeout_ms, cafka_error *err)
{
    error_clear(err);
    if (!consumer)
        return no_consumer(err);
    int rc = client_not_forked(&consumer->client, err);
    if (!rc && timeout_ms)
        rc = client_may_wait(&consumer->client, err);
    if (rc || (rc = enter_any(consumer, err)))
        return rc;
    if (!consumer->closed) {
        consumer->closed = true;
        fetch_budget_detach(consumer->budget);
        rc = close_client(consumer, client_deadline(&consumer->client, timeout_ms), err);
    }
    consumer_leave(consumer);
    return rc;
}

void cafka_consumer_free(cafka_consumer *consumer)
{
    if (!consumer)
        return;
    if (consumer->opened) {
        if (client_is_forked(&consumer->client)) {
            const cafka_env *env = consumer->settings.client.env;
            client_fini(&consumer->client); /* descriptors; the rest is the parent's */
            env->event_close(env, consumer->reader->queue.event);
            return;
        }
        (void)cafka_consumer_close(consumer, 0, NULL); /* nobody is left to tell */
        if (client_close(&consumer->client, CAFKA_NEVER, NULL)) {
            log_error(consumer->client.log,
                      "a consumer cannot be freed inside a callback: it leaks");
            return;
        }
        client_fini(&consumer->client);
    }
    consumer_free_assignment(consumer);
    if (consumer->reader)
        reader_detach(consumer->reader);
    reader_unref(consumer->reader);
    if (consumer->budget)
        fetch_budget_detach(consumer->budget);
    fetch_budget_unref(consumer->budget);
    if (consumer->opened)
        plugins_close_consumer(client_plugins(&consumer->settings.client));
    consumer_settings_fini(&consumer->settings);
    pthread_mutex_destroy(&consumer->mu);
    mem_free(consumer);
}

/* --- poll --- */

/* Callbacks of the application; one of them may have closed the consumer. */
static int dispatch(cafka_consumer *consumer, cafka_error *err)
{
    (void)client_dispatch(&consumer->client);
    if (consumer->closed)
        return error_set(err, CAFKA_ERR_CLOSED, "the consumer was closed inside a callback");
    return CAFKA_OK;
}

/* Looking at every partition is for when something has moved; a poll that only waits costs nothing. */
static bool all_is_read(cafka_consumer *consumer)
{
    struct fetch_reader *reader = consumer->reader;
    unsigned moved = atomic_load_explicit(&reader->queue.ends_moved, memory_order_acquire);
    if (!consumer->end.known || reader->moved || consumer->end.seen != moved) {
        consumer->end.seen = moved;
        consumer->end.all_read = consumer_lag(consumer) == 0;
        consumer->end.known = true;
    }
    return consumer->end.all_read;
}

static int poll_until(cafka_consumer *consumer, int64_t deadline, cafka_fetch **out,
                      cafka_error *err)
{
    struct fetch_reader *reader = consumer->reader;
    bool ready = reader_ready(reader);
    /* Was it there before this call? If not, coming to the end is news too. */
    bool was_at_end = !ready && !reader->moved && all_is_read(consumer);
    for (; !ready; ready = reader_ready(reader)) {
        if (!was_at_end && all_is_read(consumer))
            return CAFKA_OK;
        int rc = wait_for_news(consumer, true, deadline, err);
        if (rc == CAFKA_ERR_TIMEOUT) {
            error_clear(err);
            return CAFKA_OK;
        }
        if (!rc)
            rc = dispatch(consumer, err);
        if (rc)
            return rc;
    }
    consumer->end.known = false; /* its records move positions */
    return reader_begin_fetch(consumer->reader, consumer->settings.max_poll_records, out, err);
}

int cafka_consumer_poll(cafka_consumer *consumer, int64_t timeout_ms, cafka_fetch **out,
                        cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    if (!out) {
        consumer_leave(consumer);
        return error_set(err, CAFKA_ERR_ARGUMENT, "poll needs a place for the fetch");
    }
    *out = NULL;
    consumer_count_consumed(&consumer->meters, env_now_ms(consumer->client.env),
                            atomic_load(&consumer->reader->handed_out));
    consumer->end.known &= !consumer->reader->moved;
    reader_begin_poll(consumer->reader);
    rc = dispatch(consumer, err);
    if (!rc && take_wakeup(consumer))
        rc = woken(err);
    else if (!rc && list_empty(&consumer->assignment))
        rc = error_set(err, CAFKA_ERR_STATE, "poll: no partition is assigned to this consumer");
    else if (!rc)
        rc = poll_until(consumer, client_deadline(&consumer->client, timeout_ms), out, err);
    if (!*out && (!rc || rc == CAFKA_ERR_STATE)) /* nothing is assigned: nothing to look for, either */
        found_nothing(consumer);
    consumer_leave(consumer);
    return rc;
}
