/*
 * consumer_meters.c - see consumer_meters.h. Names and meanings are those of Java's
 * FetchMetricsRegistry.
 */
#include "consumer/consumer_meters.h"

#include "consumer/consumer.h"

static const struct metric_row rows[] = {
    METRIC_COUNT_RATE_AND_TOTAL("fetch", struct consumer_meters, latency),
    METRIC_AVERAGE_AND_MAX("fetch-latency", struct consumer_meters, latency),
    METRIC_AVERAGE_AND_MAX("fetch-size", struct consumer_meters, size),
    METRIC_AVERAGE_AND_MAX("fetch-throttle-time", struct consumer_meters, throttle),
    METRIC_RATE_AND_TOTAL("records-consumed", struct consumer_meters, consumed),
    METRIC_RATE_AND_TOTAL("bytes-consumed", struct consumer_meters, bytes),
    {.name = "records-lag-max", .kind = METRIC_MAX, .offset = offsetof(struct consumer_meters, lag)},
};

void consumer_meters_init(cafka_consumer *consumer)
{
    struct consumer_meters *m = &consumer->meters;
    m->windows = &consumer->client.metrics.windows;
    m->set = (struct metric_set){.group = "consumer-fetch-manager-metrics",
                                 .rows = rows,
                                 .row_count = sizeof rows / sizeof *rows,
                                 .base = m};
    metrics_add(&consumer->client.metrics, &m->set);
}

void consumer_count_fetch(struct consumer_meters *m, int64_t now_ms, int64_t latency_ms,
                          int64_t bytes, int64_t throttle_ms)
{
    meter_record(&m->latency, m->windows, now_ms, latency_ms);
    meter_record(&m->size, m->windows, now_ms, bytes);
    meter_record(&m->throttle, m->windows, now_ms, throttle_ms > 0 ? throttle_ms : 0);
}

void consumer_count_read(struct consumer_meters *m, int64_t now_ms, int64_t bytes, int64_t lag)
{
    meter_record(&m->bytes, m->windows, now_ms, bytes);
    if (lag >= 0)
        meter_record(&m->lag, m->windows, now_ms, lag);
}

void consumer_count_consumed(struct consumer_meters *m, int64_t now_ms, int64_t records)
{
    if (records > m->consumed_before)
        meter_record(&m->consumed, m->windows, now_ms, records - m->consumed_before);
    m->consumed_before = records;
}
