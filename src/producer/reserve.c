/*
 * reserve.c - a record whose value the application writes where it will be sent from.
 *
 * A reservation is a block of buffer.memory that belongs to no batch: other threads go on sending
 * to the same partition, batches are closed and sent, and flush and close wait for nothing but what
 * was committed. The value lies in the block with room before it for what a batch and a record begin
 * with, and behind it for headers. Commit writes these around the value and makes the block part of
 * the open batch (or the first of a new one), so that the record takes its place in the order there
 * and then. An abandoned block goes back to the pool, and leaves no gap.
 */
#include "producer/send.h"

/* At the beginning of the block, where a batch will have its own struct. */
struct cafka_reservation {
    cafka_producer *producer;
    cafka_topic *topic;
    struct block *block;
    cafka_record record; /* value and value_size: the room */
    size_t most;         /* bytes */
};
_Static_assert(sizeof(struct cafka_reservation) <= PRODUCER_BATCH_HEAD, "it lies in a batch's head");

static void let_go(cafka_producer *producer, struct block *block)
{
    if (block)
        memory_pool_release(&producer->accumulator.pool, block);
}

static int get_block(cafka_producer *producer, cafka_topic *topic, size_t capacity,
                     struct patience *patience, struct block **out, cafka_error *err)
{
    int rc = memory_pool_try(&producer->accumulator.pool, capacity, out);
    if (rc == CAFKA_ERR_WOULD_BLOCK)
        return send_await_block(producer, topic, capacity, patience, out, err);
    return rc ? error_set(err, rc, "no memory for a record to %s", topic->name) : CAFKA_OK;
}

/* Check the record as if it had a value of the size that is asked for. */
static int prepare(cafka_producer *producer, const cafka_record *record, struct append *append,
                   cafka_topic **topic, cafka_error *err)
{
    static const char somewhere;
    cafka_record r = *record;
    r.value = &somewhere;
    int rc = send_find_topic(producer, &r, topic, err);
    return rc ? rc : send_prepare(producer, &r, append, err);
}

int cafka_producer_reserve(cafka_producer *producer, const cafka_record *record,
                           cafka_reservation **out, void **value, cafka_error *err)
{
    error_clear(err);
    if (!producer || !record || !out || !value)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "reserving needs a producer, a record, and places to go to");
    struct patience patience = {0};
    struct append append;
    cafka_topic *topic;
    struct block *block;
    int rc = producer_usable(producer, err);
    if (!rc)
        rc = prepare(producer, record, &append, &topic, err);
    if (!rc) /* so that commit need not wait */
        rc = topic_await(topic, record->flags & CAFKA_RECORD_PARTITION ? record->partition : -1,
                         patience_deadline(producer, &patience), err);
    if (!rc)
        rc = get_block(producer, topic, placed_capacity(&producer->accumulator, &append), &patience,
                       &block, err);
    if (rc)
        return rc;
    struct cafka_reservation *r = (struct cafka_reservation *)(void *)block->data;
    *r = (struct cafka_reservation){.producer = producer,
                                    .topic = topic,
                                    .block = block,
                                    .record = *record,
                                    .most = record->value_size};
    r->record.value = block->data + (PLACED_VALUE_AT + record->key_size + 15) / 16 * 16;
    *value = (void *)(uintptr_t)r->record.value;
    *out = r;
    return CAFKA_OK;
}

/* Put the record into a batch with the value where it is. CAFKA_ERR_CONCURRENT: choose again. */
static int place(cafka_producer *producer, cafka_topic *topic, const cafka_record *record,
                 struct append *append, struct block **block, cafka_error *err)
{
    bool sticky, over = false;
    struct append_outcome outcome = {0};
    struct partition *p = send_choose(producer, topic, record, &sticky);
    if (!p) { /* the topic was made anew, and is smaller now */
        int known =
            topic_await(topic, record->flags & CAFKA_RECORD_PARTITION ? record->partition : -1, 0,
                        err);
        return known ? known : CAFKA_ERR_CONCURRENT;
    }
    pthread_mutex_lock(&p->mu);
    int rc = CAFKA_ERR_CONCURRENT;
    if (!sticky || atomic_load_explicit(&topic->sticky, memory_order_acquire) == p)
        rc = partition_place_locked(&producer->accumulator, p, block, append,
                                    send_growth_limit(producer, topic), &outcome);
    if (!rc && sticky)
        over = send_count_sticky(producer, p, outcome.size);
    pthread_mutex_unlock(&p->mu);
    send_follow_up(producer, p, &outcome);
    if (over)
        topic_move_on(topic, p);
    return rc == CAFKA_ERR_CLOSED ? send_closed(producer, err) : rc;
}

/* In place if what the plugins left of the record allows it; else as any other record. */
static int commit(cafka_producer *producer, const cafka_record *record, const uint8_t *value,
                  struct block **block, struct patience *patience, cafka_error *err)
{
    struct append append;
    cafka_topic *topic;
    int rc = producer_usable(producer, err);
    if (!rc)
        rc = send_find_topic(producer, record, &topic, err);
    if (!rc)
        rc = send_prepare(producer, record, &append, err);
    if (rc)
        return rc;
    append.timestamp_ms = send_timestamp(producer, record);
    if (record->value != value || !placed_fits(&producer->accumulator, *block, value, &append) ||
        !atomic_load_explicit(&topic->set, memory_order_acquire))
        return send_record(producer, record, patience, err);
    do
        rc = place(producer, topic, record, &append, block, err);
    while (rc == CAFKA_ERR_CONCURRENT);
    return rc;
}

static int commit_plugged(cafka_producer *producer, const cafka_record *record, const uint8_t *value,
                          struct block **block, struct patience *patience, cafka_error *err)
{
    struct plugged plugged;
    cafka_error own = {0};
    err = err ? err : &own;
    int rc = plugged_begin(&plugged, producer, record, true, patience, err);
    if (!rc)
        rc = commit(producer, &plugged.record, value, block, patience, err);
    plugged_end(&plugged, producer, rc ? err : NULL);
    return rc;
}

int cafka_producer_commit(cafka_producer *producer, cafka_reservation *reservation,
                          size_t value_size, cafka_error *err)
{
    error_clear(err);
    if (!producer || !reservation || reservation->producer != producer)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "committing needs a producer and a reservation of its own");
    struct block *block = reservation->block;
    cafka_record record = reservation->record; /* the block's beginning is about to be a batch */
    reservation->producer = NULL;              /* it is over */
    const uint8_t *value = record.value;
    size_t most = reservation->most;
    struct patience patience = {0};
    int rc;
    record.value_size = value_size;
    if (value_size > most)
        rc = error_set(err, CAFKA_ERR_ARGUMENT,
                       "committing %zu bytes to %s, but only %zu were reserved", value_size,
                       reservation->topic->name, most);
    else
        rc = (producer->plugged ? commit_plugged : commit)(producer, &record, value, &block,
                                                           &patience, err);
    let_go(producer, block);
    return rc;
}

void cafka_producer_abandon(cafka_producer *producer, cafka_reservation *reservation)
{
    if (!producer || !reservation || reservation->producer != producer)
        return;
    reservation->producer = NULL;
    let_go(producer, reservation->block);
}
