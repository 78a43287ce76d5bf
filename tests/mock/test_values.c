/*
 * test_values.c - what a record may hold comes back as it was: null, empty and binary keys and
 * values, headers in their order, timestamps. In every codec, through a cluster.
 */
#include "mock/mock_fixture.h"

#include "record/compress.h"

#include <cafka/record.h>

#define TIME INT64_C(1600000000000)

static const unsigned char every_byte[256] = {[1] = 1,    [7] = '\n',  [8] = '\r',   [9] = 0xff,
                                              [10] = 'x', [127] = 127, [128] = 0x80, [255] = 0xc3};

static const cafka_header many[] = {
    {"b", 1, "second of its name", 18},
    {"a", 1, "first", 5},
    {"b", 1, "again", 5},
    {"null", 4, NULL, 0},
    {"empty", 5, "", 0},
    {"binary", 6, every_byte, sizeof every_byte},
    {"größe", 7, "\xff\x00\xfe", 3},
    {"by its end", 0, "z", 1}, /* name_size 0: up to the NUL */
};

static const cafka_record records[] = {
    {.topic = "t", .timestamp_ms = TIME, .flags = CAFKA_RECORD_TIMESTAMP}, /* all null */
    {.topic = "t", .key = "", .value = "", .timestamp_ms = TIME + 5, .flags = CAFKA_RECORD_TIMESTAMP},
    {.topic = "t",
     .key = "k",
     .key_size = 1,
     .timestamp_ms = TIME - 9,
     .flags = CAFKA_RECORD_TIMESTAMP}, /* tombstone */
    {.topic = "t",
     .key = "k",
     .key_size = 1,
     .value = "",
     .timestamp_ms = 0,
     .flags = CAFKA_RECORD_TIMESTAMP},
    {.topic = "t",
     .key = every_byte,
     .key_size = sizeof every_byte,
     .value = every_byte,
     .value_size = sizeof every_byte,
     .timestamp_ms = TIME,
     .flags = CAFKA_RECORD_TIMESTAMP},
    {.topic = "t",
     .value = "v",
     .value_size = 1,
     .headers = many,
     .header_count = sizeof many / sizeof *many,
     .timestamp_ms = TIME + 7,
     .flags = CAFKA_RECORD_TIMESTAMP},
    {.topic = "t",
     .headers = many + 3,
     .header_count = 1,
     .timestamp_ms = TIME,
     .flags = CAFKA_RECORD_TIMESTAMP},
};

enum { COUNT = sizeof records / sizeof *records };

static cafka_producer *open_producer(cafka_mock *mock, const char *properties)
{
    cafka_config *config = client_config(mock, properties);
    cafka_producer *producer;
    cafka_error err = {0};
    if (cafka_producer_new(&producer, config, &err))
        fail_msg("no producer: %s", err.message);
    cafka_config_free(config);
    return producer;
}

static void close_producer(cafka_producer *producer)
{
    cafka_error err = {0};
    if (cafka_producer_close(producer, 60000, &err))
        fail_msg("closing a producer: %s", err.message);
    cafka_producer_free(producer);
}

static void same_bytes(const void *expected, size_t expected_size, const void *found, size_t size)
{
    assert_true((expected == NULL) == (found == NULL));
    assert_int_equal(expected_size, size);
    if (size)
        assert_memory_equal(expected, found, size);
}

static void same_headers(const cafka_record *sent, const cafka_record_view *got)
{
    cafka_header header;
    for (size_t i = 0; i < sent->header_count; i++) {
        const cafka_header *expected = &sent->headers[i];
        assert_int_equal(cafka_record_view_header(got, NULL, i, &header), CAFKA_OK);
        same_bytes(expected->name,
                   expected->name_size ? expected->name_size : strlen(expected->name), header.name,
                   header.name_size);
        same_bytes(expected->value, expected->value_size, header.value, header.value_size);
    }
    assert_int_equal(cafka_record_view_header(got, NULL, sent->header_count, &header), CAFKA_END);
}

/* The next record of what is assigned; *fetch keeps it alive. */
static void next_record(cafka_consumer *consumer, cafka_fetch **fetch, cafka_record_view *out)
{
    cafka_error err = {0};
    for (int i = 0; i < 100; i++) {
        int rc = cafka_fetch_next(*fetch, out, &err);
        if (!rc)
            return;
        if (rc != CAFKA_END)
            fail_msg("reading: %s", err.message);
        cafka_fetch_free(*fetch);
        *fetch = NULL;
        if (cafka_consumer_poll(consumer, 10000, fetch, &err))
            fail_msg("polling: %s", err.message);
    }
    fail_msg("no record came");
}

/* All records, `times` times over, through one partition of the topic that `declared` makes. */
static void there_and_back(const char *declared, const char *codec, int times)
{
    const char *topics[] = {declared};
    char properties[100];
    snprintf(properties, sizeof properties, "linger.ms=100\ncompression.type=%s", codec);
    cafka_mock *mock = start_cluster(3, topics, 1, NULL);
    cafka_producer *producer = open_producer(mock, properties);
    cafka_error err = {0};
    for (int i = 0; i < times * COUNT; i++)
        if (cafka_producer_send(producer, &records[i % COUNT], &err))
            fail_msg("sending record %d: %s", i, err.message);
    close_producer(producer);

    cafka_consumer *consumer = open_consumer(mock, "");
    cafka_fetch *fetch = NULL;
    assign_from(consumer, "t", 1, CAFKA_OFFSET_BEGINNING);
    for (int i = 0; i < times * COUNT; i++) {
        const cafka_record *sent = &records[i % COUNT];
        cafka_record_view got;
        next_record(consumer, &fetch, &got);
        assert_int_equal(got.offset, i);
        same_bytes(sent->key, sent->key_size, got.key, got.key_size);
        same_bytes(sent->value, sent->value_size, got.value, got.value_size);
        assert_int_equal(got.timestamp_ms, sent->timestamp_ms);
        assert_int_equal(got.timestamp_type, CAFKA_TIMESTAMP_CREATE_TIME);
        same_headers(sent, &got);
    }
    cafka_fetch_free(fetch);
    close_consumer(consumer);
    cafka_mock_free(mock);
}

static void what_a_record_holds_comes_back_in_every_codec(void **state)
{
    (void)state;
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++)
        if (codec_available(codec))
            there_and_back("t:1", codec_name(codec), 1);
}

/* The batch is larger than the topic takes, and is split on the broker's word. */
static void what_a_record_holds_survives_a_split(void **state)
{
    (void)state;
    there_and_back("t:1:1:max.message.bytes=1500", "none", 10);
    there_and_back("t:1:1:max.message.bytes=1500", "gzip", 100);
}

static void headers_are_found_by_name_in_their_order(void **state)
{
    (void)state;
    const char *topics[] = {"t:1"};
    cafka_mock *mock = start_cluster(4, topics, 1, NULL);
    cafka_producer *producer = open_producer(mock, "");
    cafka_error err = {0};
    assert_int_equal(cafka_producer_send(producer, &records[5], &err), CAFKA_OK);
    close_producer(producer);

    cafka_consumer *consumer = open_consumer(mock, "");
    cafka_fetch *fetch = NULL;
    cafka_record_view got;
    cafka_header header;
    assign_from(consumer, "t", 1, CAFKA_OFFSET_BEGINNING);
    next_record(consumer, &fetch, &got);
    assert_int_equal(cafka_record_view_header(&got, "b", 0, &header), CAFKA_OK);
    same_bytes("second of its name", 18, header.value, header.value_size);
    assert_int_equal(cafka_record_view_header(&got, "b", 1, &header), CAFKA_OK);
    same_bytes("again", 5, header.value, header.value_size);
    assert_int_equal(cafka_record_view_header(&got, "b", 2, &header), CAFKA_END);
    assert_int_equal(cafka_record_view_header(&got, "none", 0, &header), CAFKA_END);
    assert_int_equal(cafka_record_view_header(&got, "null", 0, &header), CAFKA_OK);
    assert_null(header.value);
    assert_int_equal(cafka_record_view_header(&got, "empty", 0, &header), CAFKA_OK);
    assert_non_null(header.value);
    cafka_fetch_free(fetch);
    close_consumer(consumer);
    cafka_mock_free(mock);
}

/* A topic with LogAppendTime: the broker's time is what the report and the reader get. */
static void brokers_time_replaces_the_records(void **state)
{
    (void)state;
    cafka_mock *mock = start_cluster(5, NULL, 0, NULL);
    cafka_error err = {0};
    assert_int_equal(cafka_mock_topic_create(mock, "t", 1, 1,
                                             "message.timestamp.type=LogAppendTime", &err),
                     CAFKA_OK);
    assert_int_equal(cafka_mock_advance_ms(mock, 5000, &err), CAFKA_OK);
    cafka_producer *producer = open_producer(mock, "compression.type=lz4");
    cafka_delivery_report report;
    assert_int_equal(cafka_producer_send_wait(producer, &records[5], &report, &err), CAFKA_OK);
    assert_int_equal(report.offset, 0);
    assert_int_not_equal(report.timestamp_ms, records[5].timestamp_ms);
    close_producer(producer);

    cafka_consumer *consumer = open_consumer(mock, "");
    cafka_fetch *fetch = NULL;
    cafka_record_view got;
    assign_from(consumer, "t", 1, CAFKA_OFFSET_BEGINNING);
    next_record(consumer, &fetch, &got);
    assert_int_equal(got.timestamp_type, CAFKA_TIMESTAMP_LOG_APPEND_TIME);
    assert_int_equal(got.timestamp_ms, report.timestamp_ms);
    same_headers(&records[5], &got);
    cafka_fetch_free(fetch);
    close_consumer(consumer);
    cafka_mock_free(mock);
}

/* A record without a timestamp has the time of the call, and the report says which. */
static void time_of_the_call_is_the_default(void **state)
{
    (void)state;
    const char *topics[] = {"t:1"};
    cafka_mock *mock = start_cluster(6, topics, 1, NULL);
    cafka_producer *producer = open_producer(mock, "");
    cafka_delivery_report first, second;
    cafka_error err = {0};
    cafka_record record = {.topic = "t", .value = "v", .value_size = 1};
    assert_int_equal(cafka_producer_send_wait(producer, &record, &first, &err), CAFKA_OK);
    assert_int_equal(cafka_mock_advance_ms(mock, 60000, &err), CAFKA_OK);
    assert_int_equal(cafka_producer_send_wait(producer, &record, &second, &err), CAFKA_OK);
    assert_in_range(second.timestamp_ms - first.timestamp_ms, 60000, 70000);
    close_producer(producer);

    cafka_consumer *consumer = open_consumer(mock, "");
    cafka_position at = {.topic = "t", .timestamp_ms = first.timestamp_ms + 1};
    assert_int_equal(cafka_consumer_list_offsets(consumer, &at, 1, 10000, &err), CAFKA_OK);
    assert_int_equal(at.offset, 1);
    assert_int_equal(at.timestamp_ms, second.timestamp_ms);
    close_consumer(consumer);
    cafka_mock_free(mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_record_holds_comes_back_in_every_codec),
        cmocka_unit_test(what_a_record_holds_survives_a_split),
        cmocka_unit_test(headers_are_found_by_name_in_their_order),
        cmocka_unit_test(brokers_time_replaces_the_records),
        cmocka_unit_test(time_of_the_call_is_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
