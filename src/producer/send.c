/*
 * send.c - one record: the path that must be short.
 */
#include "producer/send.h"

int64_t patience_deadline(cafka_producer *producer, struct patience *patience)
{
    if (patience->never)
        return 0;
    if (!patience->deadline)
        patience->deadline = client_deadline(&producer->client, producer->settings.max_block_ms);
    return patience->deadline;
}

static __attribute__((noinline)) int put_slowly(cafka_producer *producer, cafka_topic *topic,
                                                const cafka_record *r, struct append *append,
                                                struct patience *patience, struct partition *chosen,
                                                cafka_error *err)
{
    struct slow_send way = {.producer = producer,
                            .topic = topic,
                            .record = r,
                            .append = append,
                            .patience = patience,
                            .chosen = chosen};
    return send_slowly(&way, err);
}

static inline __attribute__((always_inline)) int put_record(cafka_producer *producer,
                                                            const cafka_record *r,
                                                            struct patience *patience,
                                                            cafka_error *err)
{
    cafka_topic *topic;
    struct append append;
    int rc = send_find_topic(producer, r, &topic, err);
    if (!rc)
        rc = send_prepare(producer, r, &append, err);
    if (__builtin_expect(rc, 0))
        return rc;
    append.timestamp_ms = send_timestamp(producer, r);

    bool sticky, over = false;
    struct partition *p = send_choose(producer, topic, r, &sticky);
    if (__builtin_expect(!p, 0))
        return put_slowly(producer, topic, r, &append, patience, NULL, err);
    pthread_mutex_lock(&p->mu);
    size_t size = 0;
    if (!sticky || atomic_load_explicit(&topic->sticky, memory_order_relaxed) == p)
        size = partition_put_locked(p, &append, producer->accumulator.slots);
    if (size && sticky)
        over = send_count_sticky(producer, p, size);
    pthread_mutex_unlock(&p->mu);
    if (__builtin_expect(!size, 0))
        return put_slowly(producer, topic, r, &append, patience, sticky ? NULL : p, err);
    if (__builtin_expect(over, 0))
        topic_move_on(topic, p);
    return CAFKA_OK;
}

int send_record(cafka_producer *producer, const cafka_record *r, struct patience *patience,
                cafka_error *err)
{
    return put_record(producer, r, patience, err);
}

/* With plugins of the application around it. */
static __attribute__((noinline)) int send_plugged(cafka_producer *producer, const cafka_record *r,
                                                  struct patience *patience, cafka_error *err)
{
    struct plugged plugged;
    cafka_error own = {0};
    err = err ? err : &own; /* the interceptors are told */
    int rc = plugged_begin(&plugged, producer, r, false, patience, err);
    if (!rc)
        rc = put_record(producer, &plugged.record, patience, err);
    plugged_end(&plugged, producer, rc ? err : NULL);
    return rc;
}

/* Neither forked nor plugged, as one comparison says: the usual case. */
static inline bool is_plain(const cafka_producer *producer)
{
    return atomic_load_explicit(&client_fork_generation, memory_order_relaxed) ==
           producer->plain_generation;
}

static inline __attribute__((always_inline)) int send_one(cafka_producer *producer,
                                                          const cafka_record *record,
                                                          struct patience *patience,
                                                          cafka_error *err)
{
    if (__builtin_expect(is_plain(producer), 1))
        return put_record(producer, record, patience, err);
    if (client_is_forked(&producer->client))
        return client_not_forked(&producer->client, err);
    return send_plugged(producer, record, patience, err);
}

int send_any(cafka_producer *producer, const cafka_record *r, struct patience *patience,
             cafka_error *err)
{
    return send_one(producer, r, patience, err);
}

int cafka_producer_send(cafka_producer *producer, const cafka_record *record, cafka_error *err)
{
    error_clear(err);
    if (__builtin_expect(!producer || !record, 0))
        return send_no_argument(err);
    struct patience patience = {0};
    return send_one(producer, record, &patience, err);
}

int cafka_producer_try_send(cafka_producer *producer, const cafka_record *record, cafka_error *err)
{
    error_clear(err);
    if (__builtin_expect(!producer || !record, 0))
        return send_no_argument(err);
    struct patience patience = {.never = true};
    return send_one(producer, record, &patience, err);
}
