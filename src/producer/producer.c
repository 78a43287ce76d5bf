/*
 * producer.c - making a producer, looking at it, and ending it. Sending is in send.c.
 */
#include <limits.h>

#include "producer/room.h"
#include "util/alloc.h"

enum {
    WARN_EVERY_MS = 1000, /* producer_may_warn() */
    CLOSE_GRACE_MS = 100 /* for the loop to fail and report what is left once close's time is over */
};

/* --- making --- */

static void producer_free(cafka_producer *producer)
{
    compressors_fini(&producer->compressors);
    client_fini(&producer->client);
    if (producer->plugins)
        plugins_close_producer(producer->plugins);
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

/* What of the application's functions a record meets. */
static void note_plugins(cafka_producer *producer)
{
    const struct plugins *plugins = client_plugins(&producer->settings.client);
    producer->plugins = plugins;
    producer->plugged = plugins->producer_interceptor_count || plugins->key_serializer.serialize ||
                        plugins->value_serializer.serialize || plugins->partitioner.partition;
    producer->plain_generation = producer->plugged ? UINT_MAX : producer->client.fork_generation;
}

static int set_up(cafka_producer *producer, cafka_error *err)
{
    const struct producer_settings *settings = &producer->settings;
    struct client_options options = {
        .settings = &settings->client,
        .room = producer,
        .hooks = {.topic_changed = hook_topic,
                  .broker_writable = sender_hook_writable,
                  .broker_down = sender_hook_down},
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
        rc = compressors_init(&producer->compressors, &producer->accumulator,
                              settings->compression_threads, err);
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
    note_plugins(producer);
    producer_meters_init(producer);
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

bool producer_may_warn(cafka_producer *producer)
{
    int64_t now_ms = env_now_ms(producer->client.env);
    int64_t not_before = atomic_load_explicit(&producer->warn_not_before_ms, memory_order_relaxed);
    return now_ms >= not_before &&
           atomic_compare_exchange_strong(&producer->warn_not_before_ms, &not_before,
                                          now_ms + WARN_EVERY_MS);
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

/* --- flush --- */

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
    error_clear(err);
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

/*
 * When what is left fails, so that it can be reported within the time of close; of a close without
 * time, the reports alone have some.
 */
static int64_t purge_time(const struct client *client, int64_t *deadline)
{
    int64_t now = client->env->now(client->env), grace = CLOSE_GRACE_MS * NS_PER_MS;
    if (*deadline == CAFKA_NEVER)
        return CAFKA_NEVER;
    if (*deadline <= now) {
        *deadline = now + grace;
        return 0;
    }
    int64_t tenth = (*deadline - now) / 10;
    return *deadline - (tenth < grace ? tenth : grace);
}

int cafka_producer_close(cafka_producer *producer, int64_t timeout_ms, cafka_error *err)
{
    error_clear(err);
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
    closing_start(producer, purge_time(client, &deadline));
    if (!may_wait)
        return CAFKA_OK;

    rc = closing_wait(producer, deadline, NULL);
    if (rc)
        return error_set(err, rc,
                         "close: a callback of the application is still running; the rest follows it");
    (void)client_dispatch(client);
    rc = client_close(client, deadline, err);
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
    if (client_is_forked(client)) {
        closing_fini(producer);
        client_fini(client); /* descriptors; locks, threads and memory are the parent's */
        return;
    }
    if (client_may_wait(client, NULL)) {
        log_error(producer->log, "a producer cannot be freed inside a callback: it leaks");
        return;
    }
    closing_start(producer, 0);
    cafka_error err = {0};
    int rc = closing_wait(producer, CAFKA_NEVER, &err);
    if (!rc) {
        compressors_fini(&producer->compressors); /* the last may still be about to wake the loop */
        rc = client_barrier(client, &err);
    }
    if (rc) {
        log_error(producer->log, "a producer cannot be freed, and leaks: %s", err.message);
        return;
    }
    producer_free(producer);
}
