/*
 * producer.c - the public functions of a producer: making, sending, waiting, ending.
 */
#include "producer/room.h"
#include "util/alloc.h"

enum {
    CLOSE_GRACE_MS = 100
}; /* for the loop to fail and report what is left once close's time is over */

/* --- making --- */

static void producer_free(cafka_producer *producer)
{
    client_fini(&producer->client);
    topics_fini(&producer->topics);
    closing_fini(producer);
    sender_fini(&producer->sender);
    accumulator_fini(&producer->accumulator);
    if (producer->mu_made)
        pthread_mutex_destroy(&producer->mu);
    producer_settings_fini(&producer->settings);
    mem_free(producer);
}

static void hook_topic(void *room, struct metadata_topic *meta, unsigned what)
{
    (void)room;
    cafka_topic *topic = meta->user;
    if (topic && topic->meta)
        topic_changed(topic, what);
}

static int set_up(cafka_producer *producer, cafka_error *err)
{
    const struct producer_settings *settings = &producer->settings;
    struct client_options options = {
        .settings = &settings->client,
        .room = producer,
        .hooks = {hook_topic, sender_hook_writable, sender_hook_down},
        .max_in_flight = {[LANE_DATA] = settings->max_in_flight},
    };
    producer->log = (struct log){&settings->client.log_sink, "producer"};
    if (pthread_mutex_init(&producer->mu, NULL))
        return error_set(err, CAFKA_ERR_SYSTEM, "no lock for a producer");
    producer->mu_made = true;
    int rc = topics_init(&producer->topics, err);
    if (!rc)
        rc = accumulator_init(&producer->accumulator, settings->client.env, settings, err);
    if (!rc)
        rc = sender_init(&producer->sender, producer, err);
    if (!rc)
        rc = client_open(&producer->client, &options, err);
    if (!rc)
        rc = closing_init(producer, err);
    return rc;
}

int cafka_producer_new(cafka_producer **out, const cafka_config *config, cafka_error *err)
{
    error_clear(err);
    if (!out || !config)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "a producer needs a configuration and a place to go to");
    cafka_producer *producer = mem_zalloc(sizeof *producer);
    if (!producer)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a producer");
    int rc = settings_for_producer(config, &producer->settings, err);
    if (!rc)
        rc = set_up(producer, err);
    if (rc) {
        producer_free(producer);
        return rc;
    }
    metadata_set_auto_create(producer->client.metadata, true);
    metadata_set_topic_idle(producer->client.metadata, producer->settings.metadata_max_idle_ms);
    client_start(&producer->client);
    *out = producer;
    return CAFKA_OK;
}

int cafka_producer_open(cafka_producer **out, const char *properties, cafka_error *err)
{
    cafka_config *config;
    error_clear(err);
    int rc = cafka_config_new(&config, err);
    if (rc)
        return rc;
    rc = cafka_config_load(config, properties ? properties : "", err);
    if (!rc)
        rc = cafka_producer_new(out, config, err);
    cafka_config_free(config);
    return rc;
}

cafka_client *cafka_producer_client(cafka_producer *producer)
{
    return producer ? client_public(&producer->client) : NULL;
}

int producer_usable(cafka_producer *producer, cafka_error *err)
{
    int rc = client_not_forked(&producer->client, err);
    if (rc)
        return rc;
    if (atomic_load_explicit(&producer->failed, memory_order_acquire)) {
        if (err && !err->code)
            *err = producer->fatal;
        return producer->fatal.code;
    }
    if (atomic_load_explicit(&producer->closing, memory_order_acquire))
        return error_set(err, CAFKA_ERR_CLOSED,
                         "the producer is closing or closed and takes no more records");
    return CAFKA_OK;
}

/* --- one record --- */

/* How a call may wait: the deadline is found out when it is needed first. */
struct patience {
    bool never;       /* try_send */
    int64_t deadline; /* 0: not known yet */
};

static int64_t deadline_of(cafka_producer *producer, struct patience *patience)
{
    if (patience->never)
        return 0;
    if (!patience->deadline)
        patience->deadline = client_deadline(&producer->client, producer->settings.max_block_ms);
    return patience->deadline;
}

static int bad_record(const cafka_record *r, cafka_error *err)
{
    if (!r->topic && !r->topic_handle)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a record needs a topic");
    if ((r->flags & CAFKA_RECORD_PARTITION) && r->partition < 0)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a record's partition is %d; 0 is the first",
                         (int)r->partition);
    if ((r->flags & CAFKA_RECORD_TIMESTAMP) && r->timestamp_ms < 0)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "a record's timestamp is %lld; it must not be negative",
                         (long long)r->timestamp_ms);
    return error_set(err, CAFKA_ERR_ARGUMENT,
                     "a record has a size but no data: key, value, or a header");
}

/* Encoded size of the headers; false: one has no name, or a size without data. */
static bool measure_headers(const cafka_record *r, size_t *size)
{
    *size = 0;
    for (size_t i = 0; i < r->header_count; i++) {
        const cafka_header *h = &r->headers[i];
        if (!h->name || (!h->value && h->value_size))
            return false;
        if (h->name_size > INT32_MAX || h->value_size > INT32_MAX)
            *size = INT32_MAX; /* too large, which is said later */
        else
            *size += record_header_size(h->name_size ? h->name_size : strlen(h->name),
                                        bytes_of(h->value, h->value_size));
        if (*size > INT32_MAX)
            *size = INT32_MAX;
    }
    return true;
}

/* The sum of hostile sizes may overflow. */
static size_t add_sizes(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

static int too_large(cafka_producer *producer, const cafka_record *r, size_t headers_size,
                     cafka_error *err)
{
    const char *topic = r->topic_handle ? r->topic_handle->name
                        : r->topic      ? r->topic
                                        : "(no topic)";
    size_t size = add_sizes(add_sizes(r->key_size, r->value_size),
                            headers_size + RECORD_OVERHEAD_MAX + RECORD_BATCH_OVERHEAD);
    return error_set(err, CAFKA_ERR_TOO_LARGE,
                     "a record of %zu bytes to %s exceeds max.request.size (%d) or buffer.memory (%lld)",
                     size, topic, (int)producer->settings.max_request_size_bytes,
                     (long long)producer->settings.buffer_memory_bytes);
}

/* Take the record apart and check it. */
static inline __attribute__((always_inline)) int prepare(cafka_producer *producer,
                                                         const cafka_record *r, struct append *out,
                                                         cafka_error *err)
{
    *out = (struct append){
        .key = {r->key, r->key_size},
        .value = {r->value, r->value_size},
        .headers = r->headers,
        .header_count = r->header_count,
        .opaque = r->opaque,
    };
    if (__builtin_expect((!r->key && r->key_size) || (!r->value && r->value_size) ||
                             (!r->headers && r->header_count) ||
                             ((r->flags & CAFKA_RECORD_PARTITION) && r->partition < 0) ||
                             ((r->flags & CAFKA_RECORD_TIMESTAMP) && r->timestamp_ms < 0),
                         0))
        return bad_record(r, err);
    if (__builtin_expect(r->header_count != 0, 0) && !measure_headers(r, &out->headers_size))
        return bad_record(r, err);
    /* One by one, since the sum of hostile sizes may overflow. */
    size_t most = producer->accumulator.record_max;
    if (__builtin_expect(r->key_size > most || r->value_size > most || out->headers_size > most ||
                             r->key_size + r->value_size + out->headers_size > most,
                         0))
        return too_large(producer, r, out->headers_size, err);
    return CAFKA_OK;
}

static inline int find_topic(cafka_producer *producer, const cafka_record *r, cafka_topic **out,
                             cafka_error *err)
{
    if (r->topic_handle) {
        if (r->topic_handle->producer != producer)
            return error_set(err, CAFKA_ERR_ARGUMENT, "topic %s belongs to another producer",
                             r->topic_handle->name);
        *out = r->topic_handle;
        return CAFKA_OK;
    }
    if (!r->topic)
        return bad_record(r, err);
    *out = topics_find(&producer->topics, r->topic);
    return *out ? CAFKA_OK : topics_get(producer, r->topic, out, err);
}

/*
 * The partition for the record, or NULL if it must wait for metadata. *sticky: the choice holds
 * only as long as it is the topic's sticky partition.
 */
static inline struct partition *choose(cafka_producer *producer, cafka_topic *topic,
                                       const cafka_record *r, bool *sticky)
{
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_acquire);
    *sticky = false;
    if (__builtin_expect(!set, 0))
        return NULL;
    if (r->flags & CAFKA_RECORD_PARTITION)
        return r->partition < set->count ? set->partitions[r->partition] : NULL;
    const struct producer_settings *settings = &producer->settings;
    if (__builtin_expect(settings->partitioner == PARTITIONER_ROUND_ROBIN, 0))
        return topic_next_in_turn(topic, set);
    if (r->key && !settings->partitioner_ignore_keys)
        return set->partitions[partition_for_key(bytes_of(r->key, r->key_size), set->count)];
    if (set->count == 1)
        return set->partitions[0];
    *sticky = true;
    struct partition *p = atomic_load_explicit(&topic->sticky, memory_order_acquire);
    if (__builtin_expect(!p, 0)) {
        topic_move_on(topic, NULL);
        p = atomic_load_explicit(&topic->sticky, memory_order_acquire);
    }
    return p;
}

/* p->mu held. Is it time for the sticky partitioner to move on? */
static inline bool count_sticky(cafka_producer *producer, struct partition *p, size_t size)
{
    int32_t batch_size = producer->settings.batch_size_bytes;
    p->sticky_bytes += (int64_t)size;
    if (__builtin_expect(p->sticky_bytes < batch_size, 1))
        return false;
    size_t open = partition_open_bytes_locked(p);
    return sticky_is_over(p->sticky_bytes, batch_size, !open || open >= (size_t)batch_size);
}

static size_t growth_limit(cafka_producer *producer, cafka_topic *topic)
{
    size_t limit = atomic_load_explicit(&topic->batch_limit, memory_order_relaxed);
    return limit < producer->accumulator.batch_max ? limit : producer->accumulator.batch_max;
}

static int no_memory(cafka_producer *producer, cafka_topic *topic, int rc, cafka_error *err)
{
    long long limit = (long long)producer->settings.buffer_memory_bytes;
    if (rc == CAFKA_ERR_WOULD_BLOCK)
        return error_set(err, rc,
                         "sending to %s would have to wait: buffer.memory (%lld) is used up",
                         topic->name, limit);
    if (rc == CAFKA_ERR_TIMEOUT)
        return error_set(err, rc,
                         "sending to %s: buffer.memory (%lld) stayed used up for max.block.ms (%lld)",
                         topic->name, limit, (long long)producer->settings.max_block_ms);
    return error_set(err, CAFKA_ERR_MEMORY, "no memory for a record to %s", topic->name);
}

/* Stand in line for a block. */
static int await_block(cafka_producer *producer, cafka_topic *topic, size_t needed,
                       struct patience *patience, struct block **out, cafka_error *err)
{
    struct memory_pool *pool = &producer->accumulator.pool;
    sender_relieve(&producer->sender);
    if (patience->never || client_may_wait(&producer->client, NULL))
        return no_memory(producer, topic, CAFKA_ERR_WOULD_BLOCK, err);
    struct pool_waiter waiter;
    int rc = memory_pool_join(pool, &waiter, needed, err);
    if (rc)
        return rc;
    sender_relieve(&producer->sender); /* again: now it is seen that somebody waits */
    int waited = client_wait(&producer->client, waiter.event, deadline_of(producer, patience), NULL);
    rc = memory_pool_leave(pool, &waiter, out);
    if (rc == CAFKA_ERR_MEMORY)
        return no_memory(producer, topic, rc, err);
    if (!rc)
        return CAFKA_OK;
    int unusable = producer_usable(producer, err);
    return unusable
               ? unusable
               : no_memory(producer, topic, waited ? CAFKA_ERR_TIMEOUT : CAFKA_ERR_WOULD_BLOCK, err);
}

/* One record on its slow way. */
struct slow_send {
    cafka_producer *producer;
    cafka_topic *topic;
    const cafka_record *record;
    struct append *append;
    struct patience *patience;
    struct send_waiter *waiter; /* NULL: nobody waits for the record */
    struct block *spare;        /* that was waited for */
    size_t needed;              /* capacity of the block to wait for */
};

static int await_partition(struct slow_send *s, cafka_error *err)
{
    int32_t wanted = s->record->flags & CAFKA_RECORD_PARTITION ? s->record->partition : -1;
    int rc = topic_await(s->topic, wanted, deadline_of(s->producer, s->patience), err);
    if (!rc && !(s->record->flags & CAFKA_RECORD_TIMESTAMP))
        s->append->timestamp_ms = env_wall_ms(s->producer->client.env);
    return rc;
}

/*
 * Append with all that this may bring: a new block, a new batch, a closed one. CAFKA_ERR_CONCURRENT:
 * the sticky partitioner has moved on, so choose again.
 */
static int append_once(struct slow_send *s, struct partition *p, bool sticky)
{
    cafka_producer *producer = s->producer;
    struct accumulator *a = &producer->accumulator;
    struct append_outcome outcome = {0};
    bool over = false;
    pthread_mutex_lock(&p->mu);
    if (sticky && atomic_load_explicit(&s->topic->sticky, memory_order_acquire) != p) {
        pthread_mutex_unlock(&p->mu);
        return CAFKA_ERR_CONCURRENT;
    }
    int rc = partition_append_locked(a, p, s->append, growth_limit(producer, s->topic), &s->spare,
                                     &outcome, &s->needed);
    if (!rc && s->waiter) {
        s->waiter->index = outcome.index;
        outcome.batch->waited++;
        list_push_back(&outcome.batch->waiters, &s->waiter->link);
    }
    if (!rc && sticky)
        over = count_sticky(producer, p, outcome.size);
    pthread_mutex_unlock(&p->mu);

    if (outcome.to_seal)
        accumulator_seal(a, outcome.to_seal);
    if (outcome.opened || outcome.grown || outcome.to_seal)
        sender_tell(producer, p, &outcome);
    if (over)
        topic_move_on(s->topic, p);
    return rc;
}

/* What stands in the way of an append: wait for it, or say why not. CAFKA_OK: try again. */
static int overcome(struct slow_send *s, int obstacle, cafka_error *err)
{
    if (obstacle == CAFKA_ERR_CONCURRENT)
        return CAFKA_OK;
    if (obstacle == CAFKA_ERR_MEMORY)
        return no_memory(s->producer, s->topic, obstacle, err);
    if (obstacle == CAFKA_ERR_CLOSED) {
        int rc = producer_usable(s->producer, err); /* says why */
        return rc ? rc
                  : error_set(err, obstacle, "the producer is closing and takes no more records");
    }
    if (s->spare) { /* too small, as the record turned out to need a batch of its own */
        memory_pool_release(&s->producer->accumulator.pool, s->spare);
        s->spare = NULL;
    }
    return await_block(s->producer, s->topic, s->needed, s->patience, &s->spare, err);
}

/* Whatever is not a plain append: metadata, a new block or batch, a full pool, waiters, the end. */
static int append_slowly(cafka_producer *producer, cafka_topic *topic, const cafka_record *r,
                         struct append *append, struct patience *patience,
                         struct send_waiter *waiter, cafka_error *err)
{
    struct slow_send s = {producer, topic, r, append, patience, waiter, NULL, 0};
    bool done = false;
    int rc = CAFKA_OK;
    while (!done && !(rc = producer_usable(producer, err))) {
        bool sticky;
        struct partition *p = choose(producer, topic, r, &sticky);
        if (!p) {
            rc = await_partition(&s, err);
        } else {
            rc = append_once(&s, p, sticky);
            done = !rc;
            if (rc)
                rc = overcome(&s, rc, err);
        }
        if (rc)
            break;
    }
    if (s.spare)
        memory_pool_release(&producer->accumulator.pool, s.spare);
    return rc;
}

static inline __attribute__((always_inline)) int send_record(cafka_producer *producer,
                                                             const cafka_record *r,
                                                             struct patience *patience,
                                                             cafka_error *err)
{
    cafka_topic *topic;
    struct append append;
    if (__builtin_expect(client_is_forked(&producer->client), 0))
        return client_not_forked(&producer->client, err);
    int rc = find_topic(producer, r, &topic, err);
    if (!rc)
        rc = prepare(producer, r, &append, err);
    if (__builtin_expect(rc, 0))
        return rc;
    append.timestamp_ms =
        r->flags & CAFKA_RECORD_TIMESTAMP ? r->timestamp_ms : env_wall_ms(producer->client.env);

    bool sticky, over = false;
    struct partition *p = choose(producer, topic, r, &sticky);
    if (__builtin_expect(!p, 0))
        return append_slowly(producer, topic, r, &append, patience, NULL, err);
    pthread_mutex_lock(&p->mu);
    size_t size = 0;
    if (!sticky || atomic_load_explicit(&topic->sticky, memory_order_relaxed) == p)
        size = partition_put_locked(p, &append, producer->accumulator.slots);
    if (size && sticky)
        over = count_sticky(producer, p, size);
    pthread_mutex_unlock(&p->mu);
    if (__builtin_expect(!size, 0))
        return append_slowly(producer, topic, r, &append, patience, NULL, err);
    if (__builtin_expect(over, 0))
        topic_move_on(topic, p);
    return CAFKA_OK;
}

static inline void clear(cafka_error *err)
{
    if (err) {
        err->code = CAFKA_OK;
        err->flags = 0;
        err->message[0] = 0;
    }
}

static int no_argument(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_ARGUMENT, "there is no producer, or no record");
}

int cafka_producer_send(cafka_producer *producer, const cafka_record *record, cafka_error *err)
{
    clear(err);
    if (__builtin_expect(!producer || !record, 0))
        return no_argument(err);
    struct patience patience = {0};
    return send_record(producer, record, &patience, err);
}

int cafka_producer_try_send(cafka_producer *producer, const cafka_record *record, cafka_error *err)
{
    clear(err);
    if (__builtin_expect(!producer || !record, 0))
        return no_argument(err);
    struct patience patience = {.never = true};
    return send_record(producer, record, &patience, err);
}

/* --- many records --- */

/*
 * Put records into the batch that is open, under one lock, as long as they are plain and go to the
 * same partition. How many were put; 0 is no failure, but leaves the first to send_record().
 */
static size_t put_run(cafka_producer *producer, const cafka_record *records, size_t count,
                      int64_t now_ms)
{
    cafka_topic *topic;
    struct append append;
    bool sticky, over = false;
    if (client_is_forked(&producer->client) || find_topic(producer, &records[0], &topic, NULL))
        return 0;
    struct partition *p = choose(producer, topic, &records[0], &sticky);
    if (!p)
        return 0;
    size_t done = 0;
    pthread_mutex_lock(&p->mu);
    while (done < count && !over) {
        const cafka_record *r = &records[done];
        if (r->topic != records[0].topic || r->topic_handle != records[0].topic_handle ||
            prepare(producer, r, &append, NULL))
            break;
        bool same;
        if (sticky)
            same = !r->key && !(r->flags & CAFKA_RECORD_PARTITION) &&
                   atomic_load_explicit(&topic->sticky, memory_order_relaxed) == p;
        else
            same = !done || (producer->settings.partitioner != PARTITIONER_ROUND_ROBIN &&
                             choose(producer, topic, r, &same) == p);
        if (!same)
            break;
        append.timestamp_ms = r->flags & CAFKA_RECORD_TIMESTAMP ? r->timestamp_ms : now_ms;
        size_t size = partition_put_locked(p, &append, producer->accumulator.slots);
        if (!size)
            break;
        if (sticky)
            over = count_sticky(producer, p, size);
        done++;
    }
    pthread_mutex_unlock(&p->mu);
    if (over)
        topic_move_on(topic, p);
    return done;
}

int cafka_producer_send_many(cafka_producer *producer, const cafka_record *records, size_t count,
                             size_t *accepted, cafka_error *err)
{
    clear(err);
    if (accepted)
        *accepted = 0;
    if (!producer || (!records && count))
        return no_argument(err);
    struct patience patience = {0};
    int64_t now_ms = env_wall_ms(producer->client.env);
    size_t done = 0;
    int rc = CAFKA_OK;
    while (done < count && !rc) {
        size_t run = producer->settings.partitioner == PARTITIONER_ROUND_ROBIN
                         ? 0
                         : put_run(producer, records + done, count - done, now_ms);
        done += run;
        if (done < count) { /* needs a block, another partition, or is wrong */
            rc = send_record(producer, &records[done], &patience, err);
            done += !rc;
        }
    }
    if (accepted)
        *accepted = done;
    return rc;
}

/* --- sending and waiting --- */

int cafka_producer_send_wait(cafka_producer *producer, const cafka_record *record,
                             cafka_delivery_report *out, cafka_error *err)
{
    clear(err);
    if (!producer || !record)
        return no_argument(err);
    const cafka_env *env = producer->client.env;
    cafka_topic *topic;
    struct append append;
    struct patience patience = {0};
    int rc = client_may_wait(&producer->client, NULL);
    if (rc == CAFKA_ERR_IN_CALLBACK || rc == CAFKA_ERR_WOULD_BLOCK)
        return error_set(err, CAFKA_ERR_IN_CALLBACK,
                         "send_wait would have to wait, and must not inside a callback");
    rc = producer_usable(producer, err);
    if (!rc)
        rc = find_topic(producer, record, &topic, err);
    if (!rc)
        rc = prepare(producer, record, &append, err);
    if (rc)
        return rc;

    append.timestamp_ms =
        record->flags & CAFKA_RECORD_TIMESTAMP ? record->timestamp_ms : env_wall_ms(env);
    append.opaque = &send_waiter_mark;
    struct send_waiter waiter = {.event = env->event_open(env)};
    if (waiter.event < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -waiter.event,
                           "making an event to wait for a record");
    rc = append_slowly(producer, topic, record, &append, &patience, &waiter, err);
    waiter.report.opaque = record->opaque;
    waiter.report.timestamp_ms = append.timestamp_ms;
    if (!rc) {
        /* The record ends within delivery.timeout.ms, whatever happens, and `waiter` is in use until then. */
        while (client_wait(&producer->client, waiter.event, CAFKA_NEVER, NULL))
            ;
        rc = waiter.report.code;
        if (rc && err)
            *err = waiter.error;
        if (out)
            *out = waiter.report;
    }
    env->event_close(env, waiter.event);
    return rc;
}

/* The first failure that nobody was told of, if nobody gets reports. */
static int take_failure(cafka_producer *producer, cafka_error *err)
{
    pthread_mutex_lock(&producer->mu);
    cafka_error failure = producer->failure;
    size_t count = producer->failure_count;
    producer->failure_count = 0;
    error_clear(&producer->failure);
    pthread_mutex_unlock(&producer->mu);
    if (!count)
        return CAFKA_OK;
    return error_set_flags(err, failure.code, failure.flags,
                           "%zu records failed, the first: %.200s", count, failure.message);
}

int cafka_producer_flush(cafka_producer *producer, int64_t timeout_ms, cafka_error *err)
{
    clear(err);
    if (!producer || timeout_ms < -1)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "flush needs a producer, and a timeout of -1 or more");
    int rc = client_not_forked(&producer->client, err);
    if (!rc && timeout_ms && client_may_wait(&producer->client, NULL))
        rc = error_set(err, CAFKA_ERR_IN_CALLBACK,
                       "flush would have to wait, and must not inside a callback");
    if (rc)
        return rc;
    if (atomic_load(&producer->sender.close_over))
        return take_failure(producer, err);
    struct flush_call *call;
    rc = flush_start(producer, &call, err);
    if (rc)
        return rc;
    if (timeout_ms)
        rc = flush_wait(call, client_deadline(&producer->client, timeout_ms), err);
    flush_drop(call);
    return rc ? rc : take_failure(producer, err);
}

/* --- the end --- */

static int64_t with_grace(int64_t deadline)
{
    int64_t grace = CLOSE_GRACE_MS * NS_PER_MS;
    return deadline > CAFKA_NEVER - grace ? CAFKA_NEVER : deadline + grace;
}

int cafka_producer_close(cafka_producer *producer, int64_t timeout_ms, cafka_error *err)
{
    clear(err);
    if (!producer || timeout_ms < -1)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "close needs a producer, and a timeout of -1 or more");
    struct client *client = &producer->client;
    int rc = client_not_forked(client, err);
    if (rc)
        return rc;
    bool may_wait = !client_may_wait(client, NULL);
    if (!may_wait && timeout_ms)
        return error_set(err, CAFKA_ERR_IN_CALLBACK,
                         "close would have to wait; inside a callback only 0 is allowed");
    int64_t deadline = client_deadline(client, timeout_ms);
    closing_start(producer, timeout_ms ? deadline : 0);
    if (!may_wait)
        return CAFKA_OK;

    rc = closing_wait(producer, with_grace(deadline), NULL);
    if (rc)
        return error_set(err, rc,
                         "close: a callback of the application is still running; the rest follows it");
    (void)client_dispatch(client);
    rc = client_close(client, with_grace(deadline), err);
    size_t purged = producer->sender.purged;
    if (!rc && purged)
        rc = error_set(err, CAFKA_ERR_TIMEOUT,
                       "close: %zu records were not delivered in %lld ms and have failed", purged,
                       (long long)timeout_ms);
    int failed = take_failure(producer, rc ? NULL : err);
    return rc ? rc : failed;
}

void cafka_producer_free(cafka_producer *producer)
{
    if (!producer)
        return;
    struct client *client = &producer->client;
    if (client_not_forked(client, NULL))
        return; /* locks, threads and sockets are the parent's */
    if (client_may_wait(client, NULL)) {
        log_error(producer->log, "a producer cannot be freed inside a callback: it leaks");
        return;
    }
    closing_start(producer, 0);
    cafka_error err = {0};
    int rc = closing_wait(producer, CAFKA_NEVER, &err);
    if (!rc)
        rc = client_barrier(client, &err);
    if (rc) {
        log_error(producer->log, "a producer cannot be freed, and leaks: %s", err.message);
        return;
    }
    producer_free(producer);
}

/* --- topics --- */

int cafka_producer_topic(cafka_producer *producer, const char *name, cafka_topic **out,
                         cafka_error *err)
{
    clear(err);
    if (!producer || !name || !out)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "a topic needs a producer, a name, and a place to go to");
    int rc = producer_usable(producer, err);
    return rc ? rc : topics_get(producer, name, out, err);
}

const char *cafka_topic_name(const cafka_topic *topic)
{
    return topic ? topic->name : NULL;
}

int cafka_producer_partitions(cafka_producer *producer, const char *name, int64_t timeout_ms,
                              int32_t *count, cafka_error *err)
{
    clear(err);
    if (!producer || !name || !count || timeout_ms < -1)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "counting partitions needs a producer, a topic and a place to go to");
    cafka_topic *topic;
    int rc = producer_usable(producer, err);
    if (!rc)
        rc = topics_get(producer, name, &topic, err);
    if (!rc) {
        if (timeout_ms < 0)
            timeout_ms = producer->settings.max_block_ms;
        rc = topic_await(topic, -1, timeout_ms ? client_deadline(&producer->client, timeout_ms) : 0,
                         err);
    }
    if (!rc)
        *count = atomic_load_explicit(&topic->set, memory_order_acquire)->count;
    return rc;
}
