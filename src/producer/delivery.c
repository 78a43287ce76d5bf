/*
 * delivery.c - see delivery.h.
 */
#include "producer/delivery.h"

#include "producer/send.h"
#include "protocol/errors.h"
#include "util/alloc.h"

char send_waiter_mark;

/* What the application sees of a batch, during one call of its function. */
struct cafka_delivery {
    const struct producer_batch *batch;
    const cafka_topic *topic;
    struct slot_iter slots;
    int32_t index;   /* of the next record */
    cafka_error own; /* of a record that failed for its own reason */
};

/* --- the result of one record --- */

static const struct record_failure *find_failure(const struct producer_batch *batch, int32_t index)
{
    for (size_t i = 0; i < batch->failure_count; i++)
        if (batch->failures[i].index == index)
            return &batch->failures[i];
    return NULL;
}

/*
 * KIP-467: the records that the broker named failed for the reason it gave, the others because they
 * shared a batch with them. *own is used for a text of the record's own.
 */
static const cafka_error *error_of(const struct producer_batch *batch, int32_t index,
                                   cafka_error *own)
{
    if (!batch->error.code || !batch->failure_count)
        return batch->error.code ? &batch->error : NULL;
    const struct partition *p = batch->partition;
    const struct record_failure *failure = find_failure(batch, index);
    error_clear(own);
    if (failure)
        error_set(own, batch->failure_count == 1 ? batch->error.code : ERR_INVALID_RECORD,
                  "a record to %s-%d was refused: %.150s", p->topic->name, (int)p->index,
                  failure->message ? failure->message : batch->error.message);
    else
        error_set_flags(own, batch->error.code, CAFKA_RETRIABLE,
                        "a record to %s-%d was not written because another record of its batch was "
                        "refused; send it again",
                        p->topic->name, (int)p->index);
    return own;
}

static void fill_report(const struct producer_batch *batch, int32_t index, const struct slot *slot,
                        const cafka_error *error, cafka_delivery_report *out)
{
    *out = (cafka_delivery_report){
        .opaque = slot ? slot->opaque : NULL,
        .topic = batch->partition->topic->name,
        .partition = batch->partition->index,
        .code = error ? error->code : CAFKA_OK,
        .offset = !error && batch->base_offset >= 0 ? batch->base_offset + index : -1,
        .timestamp_ms = batch->append_time_ms >= 0 ? batch->append_time_ms
                        : slot                     ? slot->timestamp_ms
                                                   : -1,
        .error = error,
    };
}

/* --- telling --- */

static void wake_waiters(cafka_producer *producer, struct producer_batch *batch)
{
    for (struct list *link; (link = list_pop_front(&batch->waiters));) {
        struct send_waiter *waiter = list_item(link, struct send_waiter, link);
        cafka_error own;
        const cafka_error *error = error_of(batch, waiter->index, &own);
        struct slot kept = {waiter->report.opaque, waiter->report.timestamp_ms};
        fill_report(batch, waiter->index, &kept, error, &waiter->report);
        waiter->report.error = NULL;
        if (error)
            waiter->error = *error;
        client_signal(&producer->client, waiter->event); /* the waiter is gone from here on */
    }
}

static void release(cafka_producer *producer, struct producer_batch *batch)
{
    producer_batch_release(batch, &producer->accumulator.pool);
}

/* The batch was told of. It goes as soon as no request refers to it any more. */
static void settle(cafka_producer *producer, struct producer_batch *batch)
{
    if (!atomic_exchange_explicit(&batch->settled, true, memory_order_acq_rel))
        return;
    release(producer, batch);
}

/* So many records more are no longer the producer's: cafka_producer_stats(). */
static void count_told(cafka_producer *producer, int32_t count)
{
    atomic_fetch_sub_explicit(&producer->accumulator.closed_records, count, memory_order_relaxed);
}

static struct cafka_delivery begin_walk(const struct producer_batch *batch)
{
    return (struct cafka_delivery){.batch = batch,
                                   .topic = batch->partition->topic,
                                   .slots = producer_batch_slots(batch)};
}

static void tell_interceptors(cafka_producer *producer, const struct producer_batch *batch)
{
    struct cafka_delivery delivery = begin_walk(batch);
    cafka_delivery_report report;
    while (!cafka_delivery_next(&delivery, &report))
        plugins_acknowledge(producer, &report);
}

static void tell(struct client_callback *callback)
{
    struct producer_batch *batch = container_of(callback, struct producer_batch, callback);
    cafka_producer *producer = batch->partition->topic->producer;
    if (producer->settings.acknowledges)
        tell_interceptors(producer, batch);
    struct cafka_delivery delivery = begin_walk(batch);
    if (producer->settings.on_delivery)
        producer->settings.on_delivery(producer, &delivery, producer->settings.on_delivery_user);
    count_told(producer, batch->count - batch->waited);
    settle(producer, batch);
}

static void note_failure(cafka_producer *producer, const struct producer_batch *batch)
{
    pthread_mutex_lock(&producer->mu);
    if (!producer->failure_count)
        producer->failure = batch->error;
    producer->failure_count += (size_t)(batch->count - batch->waited);
    pthread_mutex_unlock(&producer->mu);
}

void delivery_finish(cafka_producer *producer, struct producer_batch *batch)
{
    batch->finished = true;
    count_told(producer, batch->waited);
    wake_waiters(producer, batch);
    bool told = batch->waited == batch->count; /* to those who waited, and there is nobody else */
    if (!batch->on_wire)
        atomic_store_explicit(&batch->settled, true, memory_order_relaxed);
    if (batch->error.code && !told && !producer->settings.on_delivery)
        note_failure(producer, batch);
    if (producer->settings.reports && !told) {
        batch->callback.run = tell;
        client_callback(&producer->client, &batch->callback); /* perhaps the last touch of it */
        return;
    }
    count_told(producer, batch->count - batch->waited);
    settle(producer, batch);
}

void delivery_unpinned(cafka_producer *producer, struct producer_batch *batch)
{
    settle(producer, batch);
}

/* --- what the function of the application may ask --- */

int cafka_delivery_next(cafka_delivery *delivery, cafka_delivery_report *out)
{
    const struct producer_batch *batch = delivery->batch;
    const struct slot *slot;
    while ((slot = slot_iter_next(&delivery->slots))) {
        int32_t index = delivery->index++;
        if (slot->opaque == &send_waiter_mark)
            continue;
        fill_report(batch, index, slot, error_of(batch, index, &delivery->own), out);
        return CAFKA_OK;
    }
    return CAFKA_END;
}

const char *cafka_delivery_topic(const cafka_delivery *delivery)
{
    return delivery->topic->name;
}

int32_t cafka_delivery_partition(const cafka_delivery *delivery)
{
    return delivery->batch->partition->index;
}

size_t cafka_delivery_count(const cafka_delivery *delivery)
{
    return (size_t)(delivery->batch->count - delivery->batch->waited);
}

int64_t cafka_delivery_base_offset(const cafka_delivery *delivery)
{
    return delivery->batch->base_offset;
}

int64_t cafka_delivery_append_time_ms(const cafka_delivery *delivery)
{
    return delivery->batch->append_time_ms;
}

const cafka_error *cafka_delivery_error(const cafka_delivery *delivery)
{
    return delivery->batch->error.code ? &delivery->batch->error : NULL;
}
