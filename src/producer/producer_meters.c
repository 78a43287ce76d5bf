/*
 * producer_meters.c - see producer_meters.h. Names and meanings are those of Java's
 * SenderMetricsRegistry and ProducerMetrics.
 */
#include "producer/producer_meters.h"

#include "producer/room.h"

static double total_buffer(const void *base, int64_t now_ms)
{
    const cafka_producer *producer = base;
    (void)now_ms;
    return (double)producer->settings.buffer_memory_bytes;
}

static double available_buffer(const void *base, int64_t now_ms)
{
    cafka_producer *producer = (cafka_producer *)(uintptr_t)base;
    struct memory_pool *pool = &producer->accumulator.pool;
    (void)now_ms;
    pthread_mutex_lock(&pool->mu);
    int64_t available = pool->available;
    pthread_mutex_unlock(&pool->mu);
    return available > 0 ? (double)available : 0;
}

static double waiting_threads(const void *base, int64_t now_ms)
{
    const cafka_producer *producer = base;
    (void)now_ms;
    return (double)atomic_load_explicit(&producer->accumulator.pool.waiting, memory_order_relaxed);
}

static const struct metric_row producer_rows[] = {
    METRIC_RATE_AND_TOTAL("record-send", cafka_producer, meters.sent),
    METRIC_RATE_AND_TOTAL("record-retry", cafka_producer, meters.retried),
    METRIC_RATE_AND_TOTAL("record-error", cafka_producer, meters.failed),
    METRIC_AVERAGE_AND_MAX("batch-size", cafka_producer, meters.batch_size),
    {.name = "compression-rate-avg",
     .kind = METRIC_AVERAGE,
     .offset = offsetof(cafka_producer, meters.compression),
     .scale = 1e-6},
    METRIC_AVERAGE_AND_MAX("record-queue-time", cafka_producer, meters.queue_time),
    {.name = "records-per-request-avg",
     .kind = METRIC_AVERAGE,
     .offset = offsetof(cafka_producer, meters.per_request)},
    METRIC_RATE_AND_TOTAL("batch-split", cafka_producer, meters.splits),
    METRIC_AVERAGE_AND_MAX("produce-throttle-time", cafka_producer, meters.throttle),
    {.name = "buffer-total-bytes", .kind = METRIC_VALUE, .value = total_buffer},
    {.name = "buffer-available-bytes", .kind = METRIC_VALUE, .value = available_buffer},
    {.name = "waiting-threads", .kind = METRIC_VALUE, .value = waiting_threads},
};

static const struct metric_row topic_rows[] = {
    METRIC_RATE_AND_TOTAL("record-send", cafka_topic, meters.sent),
    METRIC_RATE_AND_TOTAL("record-retry", cafka_topic, meters.retried),
    METRIC_RATE_AND_TOTAL("record-error", cafka_topic, meters.failed),
    METRIC_RATE_AND_TOTAL("byte", cafka_topic, meters.bytes),
    {.name = "compression-rate",
     .kind = METRIC_AVERAGE,
     .offset = offsetof(cafka_topic, meters.compression),
     .scale = 1e-6},
};

void producer_meters_init(cafka_producer *producer)
{
    producer->meters.set =
        (struct metric_set){.group = "producer-metrics",
                            .rows = producer_rows,
                            .row_count = sizeof producer_rows / sizeof *producer_rows,
                            .base = producer};
    metrics_add(&producer->client.metrics, &producer->meters.set);
}

void topic_meters_init(cafka_topic *topic)
{
    topic->meters.set = (struct metric_set){.group = "producer-topic-metrics",
                                            .tag_name = "topic",
                                            .tag_value = topic->name,
                                            .rows = topic_rows,
                                            .row_count = sizeof topic_rows / sizeof *topic_rows,
                                            .base = topic};
    metrics_add(&topic->producer->client.metrics, &topic->meters.set);
}

/* --- counting --- */

static void record(cafka_producer *producer, struct meter *meter, int64_t value)
{
    meter_record(meter, &producer->client.metrics.windows, loop_now_ms(producer->client.loop),
                 value);
}

static void count_batch(cafka_producer *producer, const struct producer_batch *batch)
{
    struct producer_meters *all = &producer->meters;
    struct topic_meters *topic = &batch->partition->topic->meters;
    int64_t size = (int64_t)batch->size;
    record(producer, &all->sent, batch->count);
    record(producer, &topic->sent, batch->count);
    record(producer, &all->batch_size, size);
    record(producer, &topic->bytes, size);
    if (batch->raw_size) {
        int64_t raw = (int64_t)batch->raw_size + RECORD_BATCH_OVERHEAD;
        record(producer, &all->compression, size * 1000000 / raw);
        record(producer, &topic->compression, size * 1000000 / raw);
    }
    int64_t waited_ms = loop_now_ms(producer->client.loop) - batch->created_ms;
    record(producer, &all->queue_time, waited_ms > 0 ? waited_ms : 0);
}

void producer_count_request(cafka_producer *producer, const struct produce_call *call)
{
    int64_t records = 0;
    for (int i = 0; i < call->count; i++) {
        count_batch(producer, call->batches[i]);
        records += call->batches[i]->count;
    }
    record(producer, &producer->meters.per_request, records);
}

void producer_count_retry(cafka_producer *producer, const struct producer_batch *batch)
{
    record(producer, &producer->meters.retried, batch->count);
    record(producer, &batch->partition->topic->meters.retried, batch->count);
}

void producer_count_failure(cafka_producer *producer, const struct producer_batch *batch)
{
    record(producer, &producer->meters.failed, batch->count);
    record(producer, &batch->partition->topic->meters.failed, batch->count);
}

void producer_count_split(cafka_producer *producer)
{
    record(producer, &producer->meters.splits, 1);
}

void producer_count_throttle(cafka_producer *producer, int64_t throttle_ms)
{
    record(producer, &producer->meters.throttle, throttle_ms > 0 ? throttle_ms : 0);
}
