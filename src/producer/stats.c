/*
 * stats.c - what a producer holds at this moment, for the application and for metrics.
 */
#include "producer/room.h"

static int64_t open_records(cafka_topic *topic)
{
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_acquire);
    int64_t count = 0;
    for (int32_t i = 0; set && i < set->count; i++) {
        struct partition *p = set->partitions[i];
        pthread_mutex_lock(&p->mu);
        count += p->count;
        pthread_mutex_unlock(&p->mu);
    }
    return count;
}

int cafka_producer_stats(cafka_producer *producer, cafka_producer_use *out)
{
    if (!producer || !out || out->size < sizeof out->size)
        return CAFKA_ERR_ARGUMENT;
    struct memory_pool *pool = &producer->accumulator.pool;
    cafka_producer_use full = {
        .size = out->size,
        .buffer_total_bytes = (int64_t)pool->total,
        .buffer_available_bytes = memory_pool_available(pool),
        .records = atomic_load_explicit(&producer->accumulator.closed_records, memory_order_relaxed),
        .requests_in_flight =
            atomic_load_explicit(&producer->sender.requests_in_flight, memory_order_relaxed),
        .waiting_threads = (int32_t)atomic_load_explicit(&pool->waiting, memory_order_relaxed),
    };
    struct topic_table *table = atomic_load_explicit(&producer->topics.table, memory_order_acquire);
    for (size_t i = 0; table && i <= table->mask; i++) {
        cafka_topic *topic = atomic_load_explicit(&table->slots[i], memory_order_acquire);
        if (topic)
            full.records += open_records(topic);
    }
    memcpy(out, &full, out->size < sizeof full ? out->size : sizeof full);
    return CAFKA_OK;
}
