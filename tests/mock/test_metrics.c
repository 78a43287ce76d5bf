/*
 * test_metrics.c - what clients say they counted is what happened, under Java's names.
 */
#include "mock/mock_fixture.h"

#include <cJSON.h>
#include <pthread.h>
#include <stdatomic.h>

#include <cafka/admin.h>
#include <cafka/metrics.h>

enum { RECORDS = 40, VALUE_SIZE = 100, NOTHING = -1 };

static cafka_metrics *snapshot(cafka_client *client)
{
    cafka_metrics *metrics = NULL;
    cafka_error err = {0};
    if (cafka_client_metrics(client, &metrics, &err))
        fail_msg("no metrics: %s", err.message);
    return metrics;
}

static bool has_tag(const cafka_metric *m, const char *name, const char *value)
{
    for (size_t i = 0; i < m->tag_count; i++)
        if (!strcmp(m->tags[i].name, name) && !strcmp(m->tags[i].value, value))
            return true;
    return false;
}

/* The value of a metric, of a tag if that is not NULL; NOTHING if it is not there. */
static double value_of(cafka_metrics *metrics, const char *group, const char *name, const char *tag,
                       const char *tag_value)
{
    cafka_metric m = {.size = sizeof m};
    for (size_t i = 0; !cafka_metrics_get(metrics, i, &m); i++)
        if (!strcmp(m.group, group) && !strcmp(m.name, name) && (!tag || has_tag(&m, tag, tag_value)))
            return m.value;
    return NOTHING;
}

static double value_now(cafka_client *client, const char *group, const char *name)
{
    cafka_metrics *metrics = snapshot(client);
    double value = value_of(metrics, group, name, NULL, NULL);
    cafka_metrics_free(metrics);
    return value;
}

static cafka_mock *open_cluster(void)
{
    static const char *const topics[] = {"orders:1:3", "other:1:3"};
    return start_cluster(3, topics, 2, NULL);
}

static cafka_producer *open_producer(cafka_mock *mock, const char *properties)
{
    cafka_producer *producer;
    cafka_error err = {0};
    cafka_config *config = client_config(mock, properties);
    if (cafka_producer_new(&producer, config, &err))
        fail_msg("no producer: %s", err.message);
    cafka_config_free(config);
    return producer;
}

static void send_some(cafka_producer *producer, const char *topic, int count)
{
    static const char value[VALUE_SIZE];
    cafka_record record = {.topic = topic, .value = value, .value_size = sizeof value};
    cafka_error err = {0};
    for (int i = 0; i < count; i++)
        if (cafka_producer_send(producer, &record, &err))
            fail_msg("send: %s", err.message);
    if (cafka_producer_flush(producer, 60000, &err))
        fail_msg("flush: %s", err.message);
}

static void a_producer_counts_what_it_sends(void **state)
{
    (void)state;
    cafka_mock *mock = open_cluster();
    cafka_producer *producer = open_producer(mock, "client.id=me\nbuffer.memory=1000000");
    send_some(producer, "orders", RECORDS);
    send_some(producer, "other", 2);
    cafka_metrics *m = snapshot(cafka_producer_client(producer));
    const char *group = "producer-metrics", *of_topic = "producer-topic-metrics";
    assert_int_equal(value_of(m, group, "record-send-total", "client-id", "me"), RECORDS + 2);
    assert_int_equal(value_of(m, group, "record-error-total", NULL, NULL), 0);
    assert_int_equal(value_of(m, group, "record-retry-total", NULL, NULL), 0);
    assert_int_equal(value_of(m, of_topic, "record-send-total", "topic", "orders"), RECORDS);
    assert_int_equal(value_of(m, of_topic, "record-send-total", "topic", "other"), 2);
    double bytes = value_of(m, of_topic, "byte-total", "topic", "orders");
    assert_true(bytes > RECORDS * VALUE_SIZE && bytes < RECORDS * (VALUE_SIZE + 20) + 100);
    assert_true(value_of(m, group, "batch-size-max", NULL, NULL) <= bytes);
    assert_true(value_of(m, group, "compression-rate-avg", NULL, NULL) == 1);
    assert_int_equal(value_of(m, group, "buffer-total-bytes", NULL, NULL), 1000000);
    assert_int_equal(value_of(m, group, "buffer-available-bytes", NULL, NULL), 1000000);
    assert_int_equal(value_of(m, group, "waiting-threads", NULL, NULL), 0);
    assert_int_equal(value_of(m, group, "requests-in-flight", NULL, NULL), 0);
    /* Over one window that is counted as full, and two records after forty. */
    double rate = value_of(m, group, "record-send-rate", NULL, NULL);
    assert_true(rate > (RECORDS + 2) / 31.0 && rate < (RECORDS + 2) / 29.0);
    cafka_producer_free(producer); /* the snapshot stays */
    assert_int_equal(value_of(m, group, "record-send-total", NULL, NULL), RECORDS + 2);
    cafka_metrics_free(m);
    cafka_mock_free(mock);
}

static void connections_are_counted_for_each_broker_and_all(void **state)
{
    (void)state;
    cafka_mock *mock = open_cluster();
    cafka_producer *producer = open_producer(mock, "");
    send_some(producer, "orders", 1);
    cafka_metrics *m = snapshot(cafka_producer_client(producer));
    char node[16];
    snprintf(node, sizeof node, "node-%d", (int)cafka_mock_leader(mock, "orders", 0));
    double opened = value_of(m, "producer-metrics", "connection-creation-total", NULL, NULL);
    double closed = value_of(m, "producer-metrics", "connection-close-total", NULL, NULL);
    assert_true(opened >= 1);
    assert_true(value_of(m, "producer-metrics", "connection-count", NULL, NULL) == opened - closed);
    double sent = value_of(m, "producer-metrics", "request-total", NULL, NULL);
    assert_int_equal(sent, cafka_mock_requests(mock, NULL));
    assert_true(value_of(m, "producer-metrics", "response-total", NULL, NULL) == sent);
    double here = value_of(m, "producer-node-metrics", "request-total", "node-id", node);
    assert_true(here >= 2 && here <= sent); /* its versions, and Produce */
    assert_true(value_of(m, "producer-node-metrics", "outgoing-byte-total", "node-id", node) > 100);
    assert_true(value_of(m, "producer-metrics", "request-latency-avg", NULL, NULL) >= 0);
    assert_true(value_of(m, "producer-metrics", "request-latency-max", NULL, NULL) >=
                value_of(m, "producer-metrics", "request-latency-avg", NULL, NULL));
    cafka_metrics_free(m);
    cafka_producer_free(producer);
    cafka_mock_free(mock);
}

static void repeated_and_failed_records_are_counted(void **state)
{
    (void)state;
    cafka_mock *mock = open_cluster();
    cafka_error err = {0};
    cafka_mock_rule busy = {.size = sizeof busy,
                            .api = "Produce",
                            .count = 2,
                            .action = CAFKA_MOCK_ERROR,
                            .error = 19 /* NOT_ENOUGH_REPLICAS */};
    cafka_mock_rule wrong = {.size = sizeof wrong,
                             .api = "Produce",
                             .skip = 1,
                             .count = 1,
                             .action = CAFKA_MOCK_ERROR,
                             .error = 87 /* INVALID_RECORD */};
    cafka_producer *producer = open_producer(mock, "");
    cafka_client *client = cafka_producer_client(producer);
    assert_int_equal(cafka_mock_rule_add(mock, &busy, NULL, &err), CAFKA_OK);
    send_some(producer, "orders", 5);
    assert_int_equal(value_now(client, "producer-metrics", "record-retry-total"), 10);
    assert_int_equal(value_now(client, "producer-metrics", "record-send-total"), 15);
    cafka_mock_rules_clear(mock);
    wrong.skip = 0;
    assert_int_equal(cafka_mock_rule_add(mock, &wrong, NULL, &err), CAFKA_OK);
    cafka_record record = {.topic = "orders"};
    assert_int_equal(cafka_producer_send(producer, &record, &err), CAFKA_OK);
    assert_int_equal(cafka_producer_flush(producer, 60000, &err), 87);
    assert_int_equal(value_now(client, "producer-metrics", "record-error-total"), 1);
    cafka_producer_free(producer);
    cafka_mock_free(mock);
}

static void rates_are_of_late_and_totals_of_ever(void **state)
{
    (void)state;
    cafka_mock *mock = open_cluster();
    cafka_producer *producer =
        open_producer(mock, "metrics.sample.window.ms=1000\nmetrics.num.samples=3");
    cafka_client *client = cafka_producer_client(producer);
    send_some(producer, "orders", 30);
    double rate = value_now(client, "producer-metrics", "record-send-rate");
    assert_true(rate > 13 && rate <= 15); /* 30 over two seconds, and what sending took */
    assert_true(value_now(client, "producer-metrics", "batch-size-avg") > 0);
    assert_int_equal(cafka_mock_advance_ms(mock, 4000, NULL), CAFKA_OK);
    assert_true(value_now(client, "producer-metrics", "record-send-rate") == 0);
    assert_int_equal(value_now(client, "producer-metrics", "record-send-total"), 30);
    assert_int_equal(value_now(client, "producer-metrics", "batch-size-avg"), NOTHING);
    cafka_producer_free(producer);
    cafka_mock_free(mock);
}

static void read_records(cafka_consumer *consumer, int wanted)
{
    cafka_error err = {0};
    cafka_fetch *fetch;
    cafka_record_view record;
    while (wanted > 0) {
        if (cafka_consumer_poll(consumer, 10000, &fetch, &err))
            fail_msg("poll: %s", err.message);
        while (!cafka_fetch_next(fetch, &record, &err))
            wanted--;
        cafka_fetch_free(fetch);
    }
    assert_int_equal(cafka_consumer_poll(consumer, 0, &fetch, &err), CAFKA_OK);
    cafka_fetch_free(fetch);
}

static void a_consumer_counts_what_it_fetches_and_hands_out(void **state)
{
    (void)state;
    cafka_mock *mock = open_cluster();
    cafka_producer *producer = open_producer(mock, "");
    send_some(producer, "orders", RECORDS);
    cafka_producer_free(producer);
    cafka_consumer *consumer = open_consumer(mock, "");
    assign_from(consumer, "orders", 1, CAFKA_OFFSET_BEGINNING);
    read_records(consumer, RECORDS);
    cafka_metrics *m = snapshot(cafka_consumer_client(consumer));
    const char *group = "consumer-fetch-manager-metrics";
    assert_int_equal(value_of(m, group, "records-consumed-total", NULL, NULL), RECORDS);
    assert_true(value_of(m, group, "fetch-total", NULL, NULL) >= 1);
    assert_true(value_of(m, group, "fetch-size-max", NULL, NULL) > RECORDS * VALUE_SIZE);
    assert_true(value_of(m, group, "fetch-latency-avg", NULL, NULL) >= 0);
    assert_true(value_of(m, "consumer-metrics", "connection-count", NULL, NULL) >= 1);
    cafka_metrics_free(m);
    close_consumer(consumer);
    cafka_mock_free(mock);
}

/* Several answers: after the first one much was left to read, after the last one nothing. */
static void lag_and_bytes_are_those_of_what_was_read(void **state)
{
    (void)state;
    cafka_mock *mock = open_cluster();
    cafka_producer *producer = open_producer(mock, "batch.max.size=2000\nbatch.size=2000");
    send_some(producer, "orders", RECORDS);
    cafka_producer_free(producer);
    cafka_consumer *consumer = open_consumer(mock, "max.partition.fetch.bytes=2500");
    assign_from(consumer, "orders", 1, CAFKA_OFFSET_BEGINNING);
    cafka_metrics *m = snapshot(cafka_consumer_client(consumer));
    const char *group = "consumer-fetch-manager-metrics";
    assert_int_equal(value_of(m, group, "bytes-consumed-total", NULL, NULL), 0);
    cafka_metrics_free(m);
    read_records(consumer, RECORDS);
    m = snapshot(cafka_consumer_client(consumer));
    assert_true(value_of(m, group, "fetch-total", NULL, NULL) > 2);
    assert_in_range(value_of(m, group, "records-lag-max", NULL, NULL), RECORDS / 2, RECORDS - 1);
    assert_in_range(value_of(m, group, "bytes-consumed-total", NULL, NULL), RECORDS * VALUE_SIZE,
                    RECORDS * (VALUE_SIZE + 40));
    cafka_metrics_free(m);
    close_consumer(consumer);
    cafka_mock_free(mock);
}

static void the_json_says_the_same(void **state)
{
    (void)state;
    cafka_mock *mock = open_cluster();
    cafka_producer *producer = open_producer(mock, "client.id=\"quoted\"");
    send_some(producer, "orders", 3);
    cafka_metrics *m = snapshot(cafka_producer_client(producer));
    const char *text = cafka_metrics_json(m);
    assert_non_null(text);
    assert_ptr_equal(cafka_metrics_json(m), text);
    cJSON *json = cJSON_Parse(text);
    assert_true(cJSON_IsArray(json));
    cafka_metric metric = {.size = sizeof metric};
    size_t count = 0;
    for (; !cafka_metrics_get(m, count, &metric); count++) {
        const cJSON *item = cJSON_GetArrayItem(json, (int)count);
        assert_string_equal(cJSON_GetObjectItem(item, "name")->valuestring, metric.name);
        assert_string_equal(cJSON_GetObjectItem(item, "group")->valuestring, metric.group);
        assert_true(cJSON_GetObjectItem(item, "value")->valuedouble == metric.value);
        assert_string_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(item, "tags"), "client-id")
                                ->valuestring,
                            "\"quoted\"");
    }
    assert_int_equal(cJSON_GetArraySize(json), count);
    cJSON_Delete(json);
    cafka_metrics_free(m);
    cafka_producer_free(producer);
    cafka_mock_free(mock);
}

static void wrong_use_is_told(void **state)
{
    (void)state;
    cafka_metrics *m = NULL;
    cafka_error err = {0};
    assert_int_equal(cafka_client_metrics(NULL, &m, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_metrics_get(NULL, 0, NULL), CAFKA_ERR_ARGUMENT);
    assert_null(cafka_metrics_json(NULL));
    cafka_metrics_free(NULL);
}

/* --- threads: who reads does not stop who counts --- */

struct watcher {
    cafka_client *client;
    atomic_bool stop;
    int looks;
};

/* Numbers that belong together never contradict each other, and totals never go back. */
static void *watch(void *arg)
{
    struct watcher *w = arg;
    double before = 0;
    while (!atomic_load(&w->stop)) {
        cafka_metrics *m = snapshot(w->client);
        double total = value_of(m, "producer-metrics", "record-send-total", NULL, NULL);
        double average = value_of(m, "producer-metrics", "batch-size-avg", NULL, NULL);
        double max = value_of(m, "producer-metrics", "batch-size-max", NULL, NULL);
        assert_true(total >= before);
        assert_true(average <= max);
        before = total;
        w->looks++;
        cafka_metrics_free(m);
    }
    return NULL;
}

static void a_snapshot_among_threads_is_consistent(void **state)
{
    (void)state;
    static const char *const topics[] = {"orders:1"};
    cafka_mock *mock;
    cafka_error err = {0};
    cafka_mock_options options = {.size = sizeof options, .topics = topics, .topic_count = 1};
    assert_int_equal(cafka_mock_new(&mock, &options, &err), CAFKA_OK);
    cafka_config *config;
    cafka_producer *producer;
    assert_int_equal(cafka_config_new(&config, &err), CAFKA_OK);
    cafka_config_set(config, "bootstrap.servers", cafka_mock_bootstrap(mock), &err);
    cafka_config_set(config, "linger.ms", "0", &err);
    assert_int_equal(cafka_producer_new(&producer, config, &err), CAFKA_OK);
    cafka_config_free(config);
    struct watcher w = {.client = cafka_producer_client(producer)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, watch, &w), 0);
    for (int i = 0; i < 100; i++)
        send_some(producer, "orders", 10);
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    assert_true(w.looks > 0);
    assert_int_equal(value_now(w.client, "producer-metrics", "record-send-total"), 1000);
    cafka_producer_free(producer);
    cafka_mock_free(mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_producer_counts_what_it_sends),
        cmocka_unit_test(connections_are_counted_for_each_broker_and_all),
        cmocka_unit_test(repeated_and_failed_records_are_counted),
        cmocka_unit_test(rates_are_of_late_and_totals_of_ever),
        cmocka_unit_test(a_consumer_counts_what_it_fetches_and_hands_out),
        cmocka_unit_test(lag_and_bytes_are_those_of_what_was_read),
        cmocka_unit_test(the_json_says_the_same),
        cmocka_unit_test(wrong_use_is_told),
        cmocka_unit_test(a_snapshot_among_threads_is_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
