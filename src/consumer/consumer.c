/*
 * consumer.c - see consumer.h: life of a consumer, assignment, poll, and places. What asks brokers
 * for offsets and counts is in lookups.c.
 */
#include "consumer/consumer.h"

#include "protocol/errors.h"
#include "util/alloc.h"

enum {
    AGAIN_AFTER_FAILURE_MS = 1000, /* a partition whose data can't be read is fetched again */
    AGAIN_WITHOUT_MEMORY_MS = 100,
    CLOSE_SESSIONS_MS = 500, /* of close: more is not worth waiting for a broker's courtesy */
    TOPIC_NAME_MAX = 249
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

int consumer_enter(cafka_consumer *consumer, cafka_error *err)
{
    error_clear(err);
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

int consumer_wait(cafka_consumer *consumer, int64_t deadline, cafka_error *err)
{
    struct fetch_queue *queue = &consumer->reader->queue;
    if (take_wakeup(consumer))
        return woken(err);
    if (!fetch_queue_start_waiting(queue))
        return CAFKA_OK;
    int rc = client_wait(&consumer->client, queue->event, deadline, err);
    fetch_queue_stop_waiting(queue);
    if (rc == CAFKA_OK && take_wakeup(consumer))
        return woken(err);
    return rc;
}

static void signal_application(void *user)
{
    cafka_consumer *consumer = user;
    client_signal(&consumer->client, consumer->reader->queue.event);
}

void cafka_consumer_wakeup(cafka_consumer *consumer)
{
    atomic_store(&consumer->woken, true);
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
        struct consumer_partition *p = link ? list_item(link, struct consumer_partition, wanted.link) : NULL;
        struct partition_wish wish = {0};
        if (p)
            wish = (struct partition_wish){p->wanted.generation, p->wanted.start, p->wanted.delay_ms,
                                           p->wanted.assigned, p->wanted.paused};
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

void consumer_wish(cafka_consumer *consumer, struct consumer_partition *p, int64_t start, int64_t delay_ms)
{
    bool post = false;
    pthread_mutex_lock(&consumer->mu);
    p->wanted.generation = p->app.generation;
    p->wanted.start = start;
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

/* --- what the reader and the loop tell --- */

static void partition_failed(void *owner, struct consumer_partition *p)
{
    p->app.generation++;
    consumer_wish(owner, p, p->app.position, AGAIN_AFTER_FAILURE_MS);
}

static void made_room(void *owner)
{
    cafka_consumer *consumer = owner;
    if (atomic_load(&consumer->fetcher.poke_wanted) &&
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
    broker_writable(room, broker, lane);
}

/* --- open --- */

static void stop_on_loop(struct loop_task *task);
static void tear_down_on_loop(struct loop_task *task);

static int open_parts(cafka_consumer *consumer, cafka_error *err)
{
    static const struct reader_events events = {partition_failed, made_room};
    const struct consumer_settings *settings = &consumer->settings;
    int rc = fetch_budget_new(&consumer->budget, settings->fetch_buffer_memory_bytes, memory_came_back,
                              consumer, err);
    if (!rc)
        rc = reader_new(&consumer->reader, settings->client.env, consumer->budget,
                        (size_t)settings->fetch_max_inflated_batch_bytes, &events, consumer, err);
    if (rc)
        return rc;
    struct client_options options = {.settings = &settings->client,
                                     .hooks = {.topic_changed = topic_changed,
                                               .broker_writable = broker_writable,
                                               .broker_down = broker_down},
                                     .room = consumer,
                                     .max_in_flight = {[LANE_DATA] = 1}};
    rc = client_open(&consumer->client, &options, err);
    consumer->opened = !rc;
    consumer->reader->queue.signal = signal_application;
    consumer->reader->queue.signal_user = consumer;
    return rc;
}

int cafka_consumer_new(cafka_consumer **out, const cafka_config *config, cafka_error *err)
{
    error_clear(err);
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
    fetcher_init(&consumer->fetcher, &consumer->client, &consumer->settings, &consumer->reader->queue,
                 consumer->budget, &consumer->lookup);
    metadata_set_auto_create(consumer->client.metadata, consumer->settings.allow_auto_create_topics);
    client_settings_warn_unused(&consumer->settings.client);
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
    return client_public(&consumer->client);
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

static void free_assignment(cafka_consumer *consumer)
{
    struct list *link;
    while ((link = list_pop_front(&consumer->assignment))) {
        struct consumer_partition *p = list_item(link, struct consumer_partition, app.link);
        reader_drop_aside(consumer->reader, p);
        consumer_partition_unref(p);
    }
    map_fini(&consumer->by_name);
}

void cafka_consumer_free(cafka_consumer *consumer)
{
    if (!consumer)
        return;
    if (consumer->opened) {
        (void)cafka_consumer_close(consumer, 0, NULL); /* nobody is left to tell */
        client_fini(&consumer->client);
    }
    free_assignment(consumer);
    if (consumer->reader)
        reader_detach(consumer->reader);
    reader_unref(consumer->reader);
    if (consumer->budget)
        fetch_budget_detach(consumer->budget);
    fetch_budget_unref(consumer->budget);
    consumer_settings_fini(&consumer->settings);
    pthread_mutex_destroy(&consumer->mu);
    mem_free(consumer);
}

/* --- assignment --- */

struct partition_key {
    char bytes[TOPIC_NAME_MAX + 1 + sizeof(int32_t)];
    size_t size;
};

static struct partition_key key_of(const char *topic, int32_t partition)
{
    struct partition_key key;
    size_t length = strlen(topic);
    memcpy(key.bytes, topic, length + 1);
    memcpy(key.bytes + length + 1, &partition, sizeof partition);
    key.size = length + 1 + sizeof partition;
    return key;
}

static struct consumer_partition *find(const cafka_consumer *consumer, const char *topic, int32_t partition)
{
    if (!topic || strlen(topic) > TOPIC_NAME_MAX)
        return NULL;
    struct partition_key key = key_of(topic, partition);
    return map_get(&consumer->by_name, key.bytes, key.size);
}

struct consumer_partition *consumer_find(cafka_consumer *consumer, const char *topic, int32_t partition,
                                         cafka_error *err)
{
    struct consumer_partition *p = find(consumer, topic, partition);
    if (!p)
        error_set(err, CAFKA_ERR_STATE, "%s-%d is not assigned to this consumer", topic ? topic : "(no topic)",
                  partition);
    return p;
}

static bool is_topic_name(const char *topic)
{
    size_t length = topic ? strlen(topic) : 0;
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return length && length <= TOPIC_NAME_MAX && strspn(topic, allowed) == length && strcmp(topic, ".") &&
           strcmp(topic, "..");
}

static int check_positions(const cafka_position *positions, size_t count, cafka_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const cafka_position *at = &positions[i];
        if (!is_topic_name(at->topic))
            return error_set(err, CAFKA_ERR_ARGUMENT, "'%.60s' is not the name of a topic",
                             at->topic ? at->topic : "(null)");
        if (at->partition < 0)
            return error_set(err, CAFKA_ERR_ARGUMENT, "%s has no partition %d", at->topic, at->partition);
        if (at->flags & CAFKA_POSITION_OFFSET && at->offset < CAFKA_OFFSET_BEGINNING)
            return error_set(err, CAFKA_ERR_ARGUMENT, "%s-%d has no offset %lld", at->topic, at->partition,
                             (long long)at->offset);
    }
    return CAFKA_OK;
}

static void start_at(cafka_consumer *consumer, struct consumer_partition *p, int64_t start)
{
    p->app.generation++;
    p->app.position = start >= 0 ? start : -1;
    p->app.position_epoch = -1;
    reader_leave(consumer->reader, p);
    reader_drop_aside(consumer->reader, p);
    consumer_wish(consumer, p, start, 0);
}

static void drop_partition(cafka_consumer *consumer, struct consumer_partition *p)
{
    struct partition_key key = key_of(p->topic, p->partition);
    p->app.assigned = false;
    p->app.paused = false;
    start_at(consumer, p, START_BY_POLICY);
    map_remove(&consumer->by_name, key.bytes, key.size);
    list_remove(&p->app.link);
    consumer_partition_unref(p);
}

static int add_partition(cafka_consumer *consumer, const cafka_position *at, cafka_error *err)
{
    struct partition_key key = key_of(at->topic, at->partition);
    const char *topic = fetch_budget_intern(consumer->budget, at->topic);
    struct consumer_partition *p = topic ? consumer_partition_new(topic, at->partition) : NULL;
    if (!p || !map_put(&consumer->by_name, key.bytes, key.size, p)) {
        consumer_partition_unref(p);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to assign %s-%d", at->topic, at->partition);
    }
    p->app.assigned = true;
    list_push_back(&consumer->assignment, &p->app.link);
    start_at(consumer, p, at->flags & CAFKA_POSITION_OFFSET ? at->offset : START_BY_POLICY);
    return CAFKA_OK;
}

static int add_partitions(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                          cafka_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct consumer_partition *p = find(consumer, positions[i].topic, positions[i].partition);
        if (p && positions[i].flags & CAFKA_POSITION_OFFSET)
            start_at(consumer, p, positions[i].offset);
        else if (!p && add_partition(consumer, &positions[i], err))
            return CAFKA_ERR_MEMORY;
    }
    return CAFKA_OK;
}

/* Drop what the new assignment does not name. */
static void drop_others(cafka_consumer *consumer, const cafka_position *positions, size_t count)
{
    struct list *link, *after;
    list_each(link, after, &consumer->assignment)
        list_item(link, struct consumer_partition, app.link)->app.kept = false;
    for (size_t i = 0; i < count; i++) {
        struct consumer_partition *p = find(consumer, positions[i].topic, positions[i].partition);
        if (p)
            p->app.kept = true;
    }
    list_each(link, after, &consumer->assignment) {
        struct consumer_partition *p = list_item(link, struct consumer_partition, app.link);
        if (!p->app.kept)
            drop_partition(consumer, p);
    }
}

int cafka_consumer_assign(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                          cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    rc = check_positions(positions, count, err);
    if (!rc) {
        drop_others(consumer, positions, count);
        rc = add_partitions(consumer, positions, count, err);
    }
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_assign_add(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                              cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    rc = check_positions(positions, count, err);
    if (!rc)
        rc = add_partitions(consumer, positions, count, err);
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_assign_remove(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                                 cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    rc = check_positions(positions, count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        struct consumer_partition *p = find(consumer, positions[i].topic, positions[i].partition);
        if (p)
            drop_partition(consumer, p);
    }
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_assignment(cafka_consumer *consumer, cafka_position *out, size_t *count, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    size_t n = 0;
    struct list *link, *after;
    reader_take_news(consumer->reader);
    list_each(link, after, &consumer->assignment) {
        const struct consumer_partition *p = list_item(link, struct consumer_partition, app.link);
        if (n < *count)
            out[n] = (cafka_position){.topic = p->topic,
                                      .partition = p->partition,
                                      .flags = p->app.position >= 0 ? CAFKA_POSITION_OFFSET : 0,
                                      .offset = p->app.position,
                                      .timestamp_ms = -1,
                                      .leader_epoch = -1};
        n++;
    }
    *count = n;
    consumer_leave(consumer);
    return CAFKA_OK;
}

/* --- poll --- */

static int poll_until(cafka_consumer *consumer, int64_t deadline, cafka_fetch **out, cafka_error *err)
{
    while (!reader_ready(consumer->reader)) {
        int rc = consumer_wait(consumer, deadline, err);
        if (rc == CAFKA_ERR_TIMEOUT) {
            error_clear(err);
            return CAFKA_OK;
        }
        if (rc)
            return rc;
        (void)client_dispatch(&consumer->client);
    }
    return reader_begin_fetch(consumer->reader, consumer->settings.max_poll_records, out, err);
}

int cafka_consumer_poll(cafka_consumer *consumer, int64_t timeout_ms, cafka_fetch **out, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    *out = NULL;
    consumer->reader->poll++;
    (void)client_dispatch(&consumer->client);
    if (take_wakeup(consumer))
        rc = woken(err);
    else if (list_empty(&consumer->assignment))
        rc = error_set(err, CAFKA_ERR_STATE, "poll: no partition is assigned to this consumer");
    else
        rc = poll_until(consumer, client_deadline(&consumer->client, timeout_ms), out, err);
    consumer_leave(consumer);
    return rc;
}

/* --- places --- */

int cafka_consumer_seek(cafka_consumer *consumer, const char *topic, int32_t partition, int64_t offset,
                        cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    struct consumer_partition *p = consumer_find(consumer, topic, partition, err);
    if (!p)
        rc = CAFKA_ERR_STATE;
    else if (offset < CAFKA_OFFSET_BEGINNING)
        rc = error_set(err, CAFKA_ERR_ARGUMENT, "%s-%d has no offset %lld", topic, partition, (long long)offset);
    else
        start_at(consumer, p, offset);
    consumer_leave(consumer);
    return rc;
}

static void set_paused(cafka_consumer *consumer, struct consumer_partition *p, bool paused)
{
    if (p->app.paused == paused)
        return;
    p->app.paused = paused;
    if (paused)
        reader_leave(consumer->reader, p);
    else
        reader_resume(consumer->reader, p);
    pthread_mutex_lock(&consumer->mu);
    int64_t start = p->wanted.start, delay_ms = p->wanted.delay_ms;
    pthread_mutex_unlock(&consumer->mu);
    consumer_wish(consumer, p, start, delay_ms); /* the same generation: only the pause is news */
}

static int pause_or_resume(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                           bool paused, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    for (size_t i = 0; !rc && i < count; i++)
        rc = consumer_find(consumer, positions[i].topic, positions[i].partition, err) ? CAFKA_OK
                                                                                      : CAFKA_ERR_STATE;
    for (size_t i = 0; !rc && i < count; i++)
        set_paused(consumer, find(consumer, positions[i].topic, positions[i].partition), paused);
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_pause(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                         cafka_error *err)
{
    return pause_or_resume(consumer, positions, count, true, err);
}

int cafka_consumer_resume(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                          cafka_error *err)
{
    return pause_or_resume(consumer, positions, count, false, err);
}

/* An error of the partition that waits to be handed out, if there is one. */
static int queued_error(cafka_consumer *consumer, const struct consumer_partition *p, cafka_error *err)
{
    for (const struct chunk *chunk = consumer->reader->queue.first; chunk; chunk = chunk->next)
        if (chunk->kind == CHUNK_ERROR && chunk->partition == p && chunk->generation == p->app.generation) {
            if (err)
                *err = chunk->error;
            return chunk->error.code;
        }
    return CAFKA_OK;
}

int cafka_consumer_position(cafka_consumer *consumer, const char *topic, int32_t partition,
                            int64_t timeout_ms, int64_t *offset, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    int64_t deadline = client_deadline(&consumer->client, timeout_ms);
    struct consumer_partition *p = consumer_find(consumer, topic, partition, err);
    if (!p)
        rc = CAFKA_ERR_STATE;
    while (!rc) {
        reader_take_news(consumer->reader);
        if (p->app.position >= 0)
            break;
        rc = queued_error(consumer, p, err);
        if (!rc)
            rc = consumer_wait(consumer, deadline, err);
    }
    if (rc == CAFKA_ERR_TIMEOUT) {
        error_clear(err);
        error_set(err, rc, "the position of %s-%d was not found within %lld ms", topic, partition,
                  (long long)timeout_ms);
    }
    if (!rc)
        *offset = p->app.position;
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_watermarks(cafka_consumer *consumer, const char *topic, int32_t partition, int64_t *low,
                              int64_t *high, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    struct consumer_partition *p = consumer_find(consumer, topic, partition, err);
    if (p) {
        *low = atomic_load(&p->log_start);
        *high = atomic_load(&p->high_watermark);
    }
    consumer_leave(consumer);
    return p ? CAFKA_OK : CAFKA_ERR_STATE;
}
