/*
 * test_interceptors.c - interceptors and serializers of the application around records that are sent.
 */
#include "unit/producer/producer_fixture.h"

#include <cafka/plugin.h>

/* What an interceptor saw, in the order in which everything happened. */
struct journal {
    struct producer_fixture *f;
    char words[64][24];
    int count;
    cafka_delivery_report last;
    cafka_error last_error;
    int acknowledged, refused;
    int fail;    /* on_send returns this */
    bool mangle; /* and leaves nonsense behind */
    const char *value, *topic;
    int closed, warnings;
};

static struct journal journals[2];

static void note(struct journal *j, const char *word)
{
    if (j->count < 64)
        snprintf(j->words[j->count++], sizeof j->words[0], "%s", word);
}

static int on_send(cafka_record *record, cafka_scratch *scratch, void *user)
{
    struct journal *j = user;
    note(j, "send");
    assert_non_null(record->topic);
    assert_null(record->topic_handle);
    if (j->mangle)
        *record = (cafka_record){0};
    if (j->fail || j->mangle)
        return j->fail;
    if (j->value) {
        char *copy = cafka_scratch_alloc(scratch, 600);
        assert_non_null(copy);
        size_t size = record->value_size + strlen(j->value);
        assert_true(size < 600);
        memcpy(copy, record->value, record->value_size);
        memcpy(copy + record->value_size, j->value, strlen(j->value));
        record->value = copy;
        record->value_size = size;
    }
    if (j->topic)
        record->topic = j->topic;
    return CAFKA_OK;
}

static void on_acknowledgement(const cafka_delivery_report *report, void *user)
{
    struct journal *j = user;
    note(j, report->code ? "failed" : "acknowledged");
    j->last = *report;
    j->acknowledged++;
    if (report->code) {
        assert_non_null(report->error);
        assert_int_equal(report->error->code, report->code);
        j->last_error = *report->error;
        j->refused++;
    }
}

static void on_close(void *user)
{
    ((struct journal *)user)->closed++;
}

static void intercept(struct producer_fixture *f, int count)
{
    for (int i = 0; i < count; i++) {
        journals[i] = (struct journal){.f = f};
        cafka_producer_interceptor interceptor = {.size = sizeof interceptor,
                                                  .name = i ? "second" : "first",
                                                  .user = &journals[i],
                                                  .on_send = on_send,
                                                  .on_acknowledgement = on_acknowledgement,
                                                  .on_close = on_close};
        assert_int_equal(cafka_config_add_producer_interceptor(f->config, &interceptor, NULL), 0);
    }
}

static int setup(void **state)
{
    *state = open_world(3, 1);
    intercept(*state, 2);
    return 0;
}
static int teardown(void **state)
{
    close_world(*state);
    return 0;
}

/* --- what arrives --- */

static char arrived[64][32];
static int arrived_count, header_count;

static bool keep_values(struct script_broker *broker, const struct request_head *head,
                        struct bytes body, struct arena *arena, void *response, void *user)
{
    if (head->api_key == API_PRODUCE) {
        struct produce_request request;
        assert_int_equal(message_decode(&produce_request_message, head->api_version, body, arena,
                                        &request, NULL, NULL),
                         0);
        for (int i = 0; i < request.topic_data_count; i++) {
            struct bytes batch = {request.topic_data[i].partition_data[0].records.data,
                                  request.topic_data[i].partition_data[0].records.size};
            struct batch_header h;
            struct buffer inflated = {0};
            struct record_iter it;
            struct record_view view;
            struct decompressor *d;
            assert_int_equal(decompressor_new(&d, NULL), 0);
            assert_int_equal(batch_header_read(batch, &h, NULL), 0);
            assert_int_equal(batch_open(batch, &h, d, 1 << 20, &inflated, &it, NULL), 0);
            while (!record_iter_next(&it, &view, NULL)) {
                header_count += view.header_count;
                snprintf(arrived[arrived_count++ % 64], sizeof arrived[0], "%.*s=%.*s",
                         (int)view.key.size, (const char *)view.key.data, (int)view.value.size,
                         (const char *)view.value.data);
            }
            decompressor_free(d);
            buffer_fini(&inflated);
        }
    }
    return serve(broker, head, body, arena, response, user);
}

static int send_text(struct producer_fixture *f, const char *value, cafka_error *err)
{
    cafka_record record = {.topic = "orders",
                           .value = value,
                           .value_size = strlen(value),
                           .opaque = (void *)(intptr_t)f->next};
    int rc = cafka_producer_send(f->producer, &record, err);
    f->next += !rc;
    return rc;
}

static void begin(struct producer_fixture *f)
{
    arrived_count = 0;
    f->cluster.handler = keep_values;
    start(f);
}

/* --- interceptors --- */

static void a_chain_changes_records_in_its_order(void **state)
{
    struct producer_fixture *f = *state;
    journals[0].value = "-1";
    journals[1].value = "-2";
    begin(f);
    assert_int_equal(send_text(f, "v", NULL), 0);
    flush(f);
    assert_string_equal(arrived[0], "=v-1-2");
    assert_int_equal(f->delivered, 1);
}

static void a_failing_one_is_skipped_and_the_others_go_on(void **state)
{
    struct producer_fixture *f = *state;
    journals[0].fail = 5;
    journals[0].mangle = true;
    journals[1].value = "-2";
    begin(f);
    assert_int_equal(send_text(f, "v", NULL), 0);
    journals[0].fail = 0; /* "succeeds", with the topic gone: as good as failed */
    assert_int_equal(send_text(f, "w", NULL), 0);
    flush(f);
    assert_string_equal(arrived[0], "=v-2");
    assert_string_equal(arrived[1], "=w-2");
}

static int warnings;
static void count_warnings(void *user, int level, const char *area, const char *message)
{
    (void)user, (void)area;
    if (level == CAFKA_LOG_WARN && strstr(message, "interceptor 1 (first)"))
        warnings++;
}

static void a_failing_one_is_logged_once_a_second(void **state)
{
    struct producer_fixture *f = *state;
    warnings = 0;
    cafka_config_set_log(f->config, count_warnings, NULL, CAFKA_LOG_WARN);
    journals[0].fail = -3;
    begin(f);
    for (int i = 0; i < 100; i++)
        assert_int_equal(send_text(f, "v", NULL), 0);
    assert_int_equal(warnings, 1);
    sim_advance_ms(f->sim, 1001);
    assert_int_equal(send_text(f, "v", NULL), 0);
    assert_int_equal(warnings, 2);
}

static void in_delivery(struct producer_fixture *f)
{
    (void)f;
    note(&journals[0], "delivery");
}

static void acknowledgement_comes_before_the_delivery_function(void **state)
{
    struct producer_fixture *f = *state;
    f->in_callback = in_delivery;
    begin(f);
    assert_int_equal(send_text(f, "v", NULL), 0);
    flush(f);
    assert_int_equal(journals[0].count, 3);
    assert_string_equal(journals[0].words[0], "send");
    assert_string_equal(journals[0].words[1], "acknowledged");
    assert_string_equal(journals[0].words[2], "delivery");
    assert_int_equal(journals[1].acknowledged, 1);
    assert_int_equal(journals[0].last.offset, 0);
    assert_string_equal(journals[0].last.topic, "orders");
}

static void interceptors_hear_of_records_without_a_delivery_function(void **state)
{
    struct producer_fixture *f = *state;
    cafka_config_on_delivery(f->config, NULL, NULL);
    begin(f);
    for (int i = 0; i < 10; i++)
        assert_int_equal(send_text(f, "v", NULL), 0);
    flush(f);
    assert_int_equal(journals[0].acknowledged, 10);
    assert_int_equal((intptr_t)journals[0].last.opaque, 9);

    fault(f, FAULT_REFUSE, ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(send_text(f, "v", NULL), 0);
    assert_int_equal(cafka_producer_flush(f->producer, -1, NULL), ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(journals[0].last.code, ERR_TOPIC_AUTHORIZATION_FAILED);
}

static void a_refused_record_is_told_to_interceptors(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "max.request.size", "1000");
    begin(f);
    static char large[2000];
    cafka_error err;
    cafka_record record = {.topic = "orders",
                           .value = large,
                           .value_size = sizeof large,
                           .opaque = large,
                           .partition = 0,
                           .flags = CAFKA_RECORD_PARTITION};
    assert_int_equal(cafka_producer_send(f->producer, &record, &err), CAFKA_ERR_TOO_LARGE);
    assert_int_equal(journals[0].refused, 1);
    assert_int_equal(journals[1].refused, 1);
    assert_int_equal(journals[0].last.code, CAFKA_ERR_TOO_LARGE);
    assert_int_equal(journals[0].last.offset, -1);
    assert_int_equal(journals[0].last.partition, 0);
    assert_ptr_equal(journals[0].last.opaque, large);
    assert_string_equal(journals[0].last_error.message, err.message);

    assert_int_equal(cafka_producer_send(f->producer, &record, NULL), CAFKA_ERR_TOO_LARGE);
    assert_int_equal(journals[0].refused, 2);
    record.flags = 0;
    size_t accepted;
    assert_int_equal(cafka_producer_send_many(f->producer, &record, 1, &accepted, &err),
                     CAFKA_ERR_TOO_LARGE);
    assert_int_equal(journals[0].last.partition, -1);
    assert_int_equal(f->delivered + f->failed, 0);
    assert_int_equal(cafka_producer_close(f->producer, -1, NULL), 0);
    assert_int_equal(send_text(f, "late", NULL), CAFKA_ERR_CLOSED);
    assert_int_equal(journals[0].last.code, CAFKA_ERR_CLOSED);
}

static void who_waits_for_a_record_is_told_after_the_interceptors(void **state)
{
    struct producer_fixture *f = *state;
    journals[0].value = "!";
    begin(f);
    cafka_record record = {.topic = "orders", .value = "v", .value_size = 1, .opaque = f};
    cafka_delivery_report report;
    cafka_error err;
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, &err), 0);
    assert_string_equal(arrived[0], "=v!");
    assert_int_equal(journals[0].acknowledged, 1);
    assert_ptr_equal(journals[0].last.opaque, f);
    assert_int_equal(journals[0].last.offset, report.offset);

    fault(f, FAULT_REFUSE, ERR_INVALID_RECORD);
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, NULL),
                     ERR_INVALID_RECORD);
    assert_int_equal(journals[1].refused, 1);
    record.topic = "no topic!";
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, &err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(journals[1].refused, 2);
    assert_int_equal(journals[1].acknowledged, 3);
    assert_int_equal(f->delivered + f->failed, 0);
}

static void a_handle_stays_unless_the_topic_is_changed(void **state)
{
    struct producer_fixture *f = *state;
    script_topic_add(&f->cluster, "audit", 1);
    begin(f);
    cafka_topic *topic;
    assert_int_equal(cafka_producer_topic(f->producer, "orders", &topic, NULL), 0);
    cafka_record record = {.topic_handle = topic, .value = "v", .value_size = 1};
    cafka_delivery_report report;
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, NULL), 0);
    assert_string_equal(report.topic, "orders");
    journals[1].topic = "audit";
    assert_int_equal(cafka_producer_send_wait(f->producer, &record, &report, NULL), CAFKA_OK);
    assert_string_equal(report.topic, "audit");
}

static void interceptors_are_closed_once_for_each_producer(void **state)
{
    struct producer_fixture *f = *state;
    begin(f);
    assert_int_equal(send_text(f, "v", NULL), 0);
    assert_int_equal(cafka_producer_close(f->producer, -1, NULL), 0);
    assert_int_equal(journals[0].closed, 0);
    cafka_producer_free(f->producer);
    assert_int_equal(journals[0].closed, 1);
    assert_int_equal(journals[1].closed, 1);
    begin(f);
    cafka_producer_free(f->producer);
    f->producer = NULL;
    assert_int_equal(journals[0].closed, 2);
}

static void a_producer_that_was_not_made_closes_nothing(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "bootstrap.servers", NULL);
    assert_int_equal(cafka_producer_new(&f->producer, f->config, NULL), CAFKA_ERR_CONFIG);
    assert_int_equal(journals[0].closed, 0);
}

/* --- serializers --- */

struct point {
    int x, y;
};

static int point_to_text(cafka_record *record, cafka_bytes object, cafka_bytes *out,
                         cafka_scratch *scratch, void *user, cafka_error *err)
{
    const struct point *p = object.data;
    (void)user;
    assert_int_equal(object.size, sizeof *p);
    assert_string_equal(record->topic, "orders");
    if (p->x < 0) {
        snprintf(err->message, sizeof err->message, "x is below 0");
        return 17;
    }
    char *text = cafka_scratch_alloc(scratch, 32);
    if (!text)
        return CAFKA_ERR_MEMORY;
    out->data = text;
    out->size = (size_t)snprintf(text, 32, "%d,%d", p->x, p->y);
    if (p->y == 99)
        out->data = NULL;
    if (p->y == 42) { /* says what it is, as serializers may */
        static const cafka_header kinds[2] = {{.name = "kind", .value = "point", .value_size = 5},
                                              {.name = "version", .value = "1", .value_size = 1}};
        record->headers = kinds;
        record->header_count = 2;
    }
    return CAFKA_OK;
}

static int send_point(struct producer_fixture *f, struct point key, struct point value,
                      cafka_error *err)
{
    cafka_record record = {.topic = "orders",
                           .key = &key,
                           .key_size = sizeof key,
                           .value = &value,
                           .value_size = sizeof value,
                           .opaque = (void *)(intptr_t)f->next};
    int rc = cafka_producer_send(f->producer, &record, err);
    f->next += !rc;
    return rc;
}

static void serialize_points(struct producer_fixture *f)
{
    cafka_serializer serializer = {.size = sizeof serializer,
                                   .name = "points",
                                   .serialize = point_to_text};
    assert_int_equal(cafka_config_set_key_serializer(f->config, &serializer, NULL), 0);
    assert_int_equal(cafka_config_set_value_serializer(f->config, &serializer, NULL), 0);
}

static void objects_become_bytes(void **state)
{
    struct producer_fixture *f = *state;
    serialize_points(f);
    begin(f);
    assert_int_equal(send_point(f, (struct point){1, 2}, (struct point){3, 4}, NULL), 0);
    assert_int_equal(send_point(f, (struct point){5, 6}, (struct point){7, 99}, NULL), 0);
    cafka_record null = {.topic = "orders", .opaque = (void *)(intptr_t)f->next++};
    assert_int_equal(cafka_producer_send(f->producer, &null, NULL), 0); /* stays null */
    flush(f);
    assert_string_equal(arrived[0], "1,2=3,4");
    assert_string_equal(arrived[1], "5,6=");
    assert_string_equal(arrived[2], "=");
    assert_int_equal(f->delivered, 3);
}

static void a_serializer_may_add_headers(void **state)
{
    struct producer_fixture *f = *state;
    serialize_points(f);
    begin(f);
    header_count = 0;
    assert_int_equal(send_point(f, (struct point){1, 2}, (struct point){3, 42}, NULL), 0);
    flush(f);
    assert_string_equal(arrived[0], "1,2=3,42");
    assert_int_equal(header_count, 2);
}

static void an_object_that_cannot_be_serialized_is_refused(void **state)
{
    struct producer_fixture *f = *state;
    serialize_points(f);
    begin(f);
    cafka_error err;
    assert_int_equal(send_point(f, (struct point){1, 2}, (struct point){-1, 0}, &err),
                     CAFKA_ERR_SERIALIZATION);
    assert_non_null(strstr(err.message, "value serializer"));
    assert_non_null(strstr(err.message, "points"));
    assert_non_null(strstr(err.message, "x is below 0"));
    assert_non_null(strstr(err.message, "17"));
    assert_int_equal(journals[0].last.code, CAFKA_ERR_SERIALIZATION);
    assert_int_equal(send_point(f, (struct point){-1, 2}, (struct point){1, 0}, NULL),
                     CAFKA_ERR_SERIALIZATION);
}

static int32_t by_text(const cafka_partition_question *question, void *user)
{
    *(cafka_bytes *)user = question->key;
    return question->key.size == 3 ? 0 : -1;
}

static void the_partitioner_sees_bytes(void **state)
{
    struct producer_fixture *f = *state;
    cafka_bytes seen = {0};
    cafka_partitioner partitioner = {.size = sizeof partitioner, .user = &seen, .partition = by_text};
    serialize_points(f);
    assert_int_equal(cafka_config_set_partitioner(f->config, &partitioner, NULL), 0);
    begin(f);
    assert_int_equal(send_point(f, (struct point){1, 2}, (struct point){3, 4}, NULL), 0);
    assert_int_equal(seen.size, 3);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_chain_changes_records_in_its_order),
        WORLD_TEST(a_failing_one_is_skipped_and_the_others_go_on),
        WORLD_TEST(a_failing_one_is_logged_once_a_second),
        WORLD_TEST(acknowledgement_comes_before_the_delivery_function),
        WORLD_TEST(interceptors_hear_of_records_without_a_delivery_function),
        WORLD_TEST(a_refused_record_is_told_to_interceptors),
        WORLD_TEST(who_waits_for_a_record_is_told_after_the_interceptors),
        WORLD_TEST(a_handle_stays_unless_the_topic_is_changed),
        WORLD_TEST(interceptors_are_closed_once_for_each_producer),
        WORLD_TEST(a_producer_that_was_not_made_closes_nothing),
        WORLD_TEST(objects_become_bytes),
        WORLD_TEST(a_serializer_may_add_headers),
        WORLD_TEST(an_object_that_cannot_be_serialized_is_refused),
        WORLD_TEST(the_partitioner_sees_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
