/*
 * send_many.c - many records: those that go to one partition share its lock.
 */
#include "producer/send.h"

/* Does this one belong to the run to p? Found out without a lock, since p's is held. */
static bool goes_along(cafka_producer *producer, cafka_topic *topic, const cafka_record *r,
                       struct partition *p, bool sticky)
{
    bool keyless = !(r->flags & CAFKA_RECORD_PARTITION) &&
                   (!r->key || producer->settings.partitioner_ignore_keys);
    if (keyless && atomic_load_explicit(&topic->set, memory_order_acquire)->count > 1)
        return sticky && atomic_load_explicit(&topic->sticky, memory_order_relaxed) == p;
    bool unused;
    return !sticky && send_choose(producer, topic, r, &unused) == p; /* arithmetic only */
}

/*
 * Put records into the batch that is open, under one lock, as long as they are plain and go to the
 * same partition. How many were put; 0 is no failure, but leaves the first to send_any().
 */
static size_t put_run(cafka_producer *producer, const cafka_record *records, size_t count,
                      int64_t now_ms)
{
    cafka_topic *topic;
    struct append append;
    bool sticky, over = false;
    if (send_find_topic(producer, &records[0], &topic, NULL))
        return 0;
    struct partition *p = send_choose(producer, topic, &records[0], &sticky);
    if (!p)
        return 0;
    size_t done = 0;
    pthread_mutex_lock(&p->mu);
    if (sticky && atomic_load_explicit(&topic->sticky, memory_order_relaxed) != p)
        count = 0; /* it moved on in this moment */
    while (done < count && !over) {
        const cafka_record *r = &records[done];
        if (r->topic != records[0].topic || r->topic_handle != records[0].topic_handle ||
            send_prepare(producer, r, &append, NULL) ||
            (done && !goes_along(producer, topic, r, p, sticky)))
            break;
        append.timestamp_ms = r->flags & CAFKA_RECORD_TIMESTAMP ? r->timestamp_ms : now_ms;
        size_t size = partition_put_locked(p, &append, producer->accumulator.slots);
        if (!size)
            break;
        if (sticky)
            over = send_count_sticky(producer, p, size);
        done++;
    }
    pthread_mutex_unlock(&p->mu);
    if (over)
        topic_move_on(topic, p);
    return done;
}

/* Runs need a choice that depends on the record alone, and nothing of the application's between. */
static bool takes_runs(const cafka_producer *producer)
{
    return producer->settings.partitioner == PARTITIONER_DEFAULT && !producer->plugged &&
           !client_is_forked(&producer->client);
}

int cafka_producer_send_many(cafka_producer *producer, const cafka_record *records, size_t count,
                             size_t *accepted, cafka_error *err)
{
    error_clear(err);
    if (accepted)
        *accepted = 0;
    if (!producer || (!records && count))
        return send_no_argument(err);
    struct patience patience = {0};
    bool runs = takes_runs(producer);
    int64_t now_ms = runs ? env_wall_ms(producer->client.env) : 0;
    size_t done = 0;
    int rc = CAFKA_OK;
    while (done < count && !rc) {
        if (runs)
            done += put_run(producer, records + done, count - done, now_ms);
        if (done < count) { /* needs a block, another partition, or is wrong */
            rc = send_any(producer, &records[done], &patience, err);
            done += !rc;
        }
    }
    if (accepted)
        *accepted = done;
    return rc;
}
