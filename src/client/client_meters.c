/*
 * client_meters.c - what every client counts: its connections, of each broker and of all.
 */
#include "client/room.h"

#include <stdio.h>

#define ROWS_OF_CONNECTIONS \
    METRIC_RATE_AND_TOTAL("outgoing-byte", struct conn_meters, requests), \
        METRIC_COUNT_RATE_AND_TOTAL("request", struct conn_meters, requests), \
        METRIC_AVERAGE_AND_MAX("request-size", struct conn_meters, requests), \
        METRIC_RATE_AND_TOTAL("incoming-byte", struct conn_meters, responses), \
        METRIC_COUNT_RATE_AND_TOTAL("response", struct conn_meters, responses), \
        METRIC_AVERAGE_AND_MAX("request-latency", struct conn_meters, latency)

static double connection_count(const void *base, int64_t now_ms)
{
    struct conn_meters *m = (struct conn_meters *)(uintptr_t)base;
    struct meter_reading closed, opened;
    meter_read(&m->closed, m->windows, now_ms, &closed); /* first: more may be opened meanwhile */
    meter_read(&m->opened, m->windows, now_ms, &opened);
    return (double)(opened.sum - closed.sum);
}

static double requests_in_flight(const void *base, int64_t now_ms)
{
    const struct conn_meters *m = base;
    (void)now_ms;
    return (double)counter_read(&m->in_flight);
}

static const struct metric_row node_rows[] = {ROWS_OF_CONNECTIONS};

static const struct metric_row client_rows[] = {
    ROWS_OF_CONNECTIONS,
    METRIC_RATE_AND_TOTAL("connection-creation", struct conn_meters, opened),
    METRIC_RATE_AND_TOTAL("connection-close", struct conn_meters, closed),
    {.name = "connection-count", .kind = METRIC_VALUE, .value = connection_count},
    {.name = "requests-in-flight", .kind = METRIC_VALUE, .value = requests_in_flight},
};

/* As Java names them. */
static const char *group_of(const struct client *client, bool node)
{
    switch (client->settings->kind) {
    case CAFKA_FOR_PRODUCER: return node ? "producer-node-metrics" : "producer-metrics";
    case CAFKA_FOR_CONSUMER: return node ? "consumer-node-metrics" : "consumer-metrics";
    default: return node ? "admin-client-node-metrics" : "admin-client-metrics";
    }
}

void client_meters_init(struct client *client)
{
    const struct client_settings *settings = client->settings;
    client->metrics.windows =
        (struct meter_windows){settings->metrics_window_ms, settings->metrics_samples};
    client->meters.windows = &client->metrics.windows;
    client->metric_set = (struct metric_set){.group = group_of(client, false),
                                             .rows = client_rows,
                                             .row_count = sizeof client_rows / sizeof *client_rows,
                                             .base = &client->meters};
    metrics_add(&client->metrics, &client->metric_set);
}

void broker_meters_init(struct broker *broker)
{
    struct client *client = broker->client;
    snprintf(broker->node_name, sizeof broker->node_name, "node-%d", (int)broker->id);
    broker->meters.whole = &client->meters;
    broker->meters.windows = &client->metrics.windows;
    broker->metric_set = (struct metric_set){.group = group_of(client, true),
                                             .tag_name = "node-id",
                                             .tag_value = broker->node_name,
                                             .rows = node_rows,
                                             .row_count = sizeof node_rows / sizeof *node_rows,
                                             .base = &broker->meters};
    metrics_add(&client->metrics, &broker->metric_set);
}
