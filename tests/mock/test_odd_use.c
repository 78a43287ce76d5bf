/*
 * test_odd_use.c - applications and plugins that do what nobody should: each call works or says clearly
 * why not, and nothing is lost, doubled or leaked.
 */
#include "mock/consumer_scene.h"

#include <cafka/admin.h>
#include <cafka/metrics.h>
#include <cafka/plugin.h>

enum { DEPTH = 2 };

/* A producer, and what its plugins are up to. */
struct odd {
    struct scene *scene;
    cafka_producer *producer;
    int reported, failed, acknowledged, depth, sent_inside;
    int serialize_rc;
    cafka_bytes serialized;
    size_t scratch;
    bool everything; /* plugins and callbacks call all there is */
};

static cafka_record text_record(const char *text)
{
    return (cafka_record){.topic = "orders",
                          .value = text,
                          .value_size = strlen(text),
                          .partition = 0,
                          .flags = CAFKA_RECORD_PARTITION};
}

static void assert_told(int rc, const cafka_error *err)
{
    assert_int_equal(rc, err->code);
    assert_true(rc == CAFKA_OK || *err->message);
}

/* Whatever a producer can be asked, from inside one of its own functions. */
static void call_everything(struct odd *odd)
{
    cafka_producer *producer = odd->producer;
    cafka_error err = {0};
    cafka_record record = text_record("inside");
    cafka_reservation *reservation;
    cafka_metrics *metrics;
    cafka_producer_use use = {.size = sizeof use};
    cafka_topic *topic;
    size_t accepted = 0;
    int32_t number;
    void *value;
    if (!producer || odd->depth >= DEPTH)
        return;
    odd->depth++;
    int rc = cafka_producer_try_send(producer, &record, &err);
    assert_told(rc, &err);
    odd->sent_inside += !rc;
    rc = cafka_producer_send(producer, &record, &err);
    assert_told(rc, &err);
    odd->sent_inside += !rc;
    rc = cafka_producer_send_many(producer, &record, 1, &accepted, &err);
    assert_told(rc, &err);
    odd->sent_inside += (int)accepted;
    rc = cafka_producer_reserve(producer, &record, &reservation, &value, &err);
    assert_told(rc, &err);
    if (!rc) {
        memcpy(value, "inside", 6);
        rc = cafka_producer_commit(producer, reservation, 6, &err);
        assert_told(rc, &err);
        odd->sent_inside += !rc;
    }
    rc = cafka_producer_partitions(producer, "orders", 100, &number, &err);
    assert_told(rc, &err);
    rc = cafka_producer_partition_for(producer, &record, &number, &err);
    assert_told(rc, &err);
    rc = cafka_producer_topic(producer, "orders", &topic, &err);
    assert_told(rc, &err);
    assert_int_equal(cafka_producer_stats(producer, &use), CAFKA_OK);
    rc = cafka_client_metrics(cafka_producer_client(producer), &metrics, &err);
    assert_told(rc, &err);
    if (!rc) {
        assert_non_null(cafka_metrics_json(metrics));
        cafka_metrics_free(metrics);
    }
    (void)cafka_client_fd(cafka_producer_client(producer));
    (void)cafka_dispatch(cafka_producer_client(producer), 0);
    odd->depth--;
}

static int on_send(cafka_record *record, cafka_scratch *scratch, void *user)
{
    struct odd *odd = user;
    (void)record;
    assert_null(cafka_scratch_alloc(NULL, 1));
    if (odd->scratch) {
        void *memory = cafka_scratch_alloc(scratch, odd->scratch);
        assert_true(odd->scratch < ((size_t)1 << 40) || !memory);
        if (memory)
            memset(memory, 1, odd->scratch);
        (void)cafka_scratch_alloc(scratch, 0);
    }
    if (odd->everything)
        call_everything(odd);
    return CAFKA_OK;
}

static void on_acknowledgement(const cafka_delivery_report *report, void *user)
{
    struct odd *odd = user;
    (void)report;
    odd->acknowledged++;
    if (odd->everything)
        call_everything(odd);
}

static int serialize(cafka_record *record, cafka_bytes object, cafka_bytes *out,
                     cafka_scratch *scratch, void *user, cafka_error *err)
{
    struct odd *odd = user;
    (void)record;
    (void)scratch;
    (void)err;
    *out = odd->serialized.data || odd->serialized.size ? odd->serialized : object;
    return odd->serialize_rc;
}

static void delivered(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct odd *odd = user;
    assert_ptr_equal(producer, odd->producer);
    odd->reported += (int)cafka_delivery_count(delivery);
    if (cafka_delivery_error(delivery))
        odd->failed += (int)cafka_delivery_count(delivery);
    if (odd->everything)
        call_everything(odd);
}

static void open_odd(struct odd *odd, struct scene *s, bool plugged, const char *properties)
{
    cafka_config *config = client_config(s->mock, properties);
    cafka_error err = {0};
    cafka_producer_interceptor interceptor = {.size = sizeof interceptor,
                                              .user = odd,
                                              .on_send = on_send,
                                              .on_acknowledgement = on_acknowledgement};
    cafka_serializer serializer = {.size = sizeof serializer, .user = odd, .serialize = serialize};
    odd->scene = s;
    if (plugged) {
        assert_int_equal(cafka_config_add_producer_interceptor(config, &interceptor, &err), 0);
        assert_int_equal(cafka_config_set_value_serializer(config, &serializer, &err), 0);
    }
    cafka_config_on_delivery(config, delivered, odd);
    if (cafka_producer_new(&odd->producer, config, &err))
        fail_msg("%s", err.message);
    cafka_config_free(config);
}

static void close_odd(struct odd *odd)
{
    cafka_error err = {0};
    if (cafka_producer_close(odd->producer, 60000, &err))
        fail_msg("%s", err.message);
    cafka_producer_free(odd->producer);
    odd->producer = NULL;
}

/* --- plugins --- */

static void serializer_s_nonsense_is_refused(void **state)
{
    static const struct {
        int rc;
        cafka_bytes bytes;
        int code;
    } cases[] = {
        {-1, {"x", 1}, CAFKA_ERR_SERIALIZATION},
        {INT32_MIN, {NULL, 0}, CAFKA_ERR_SERIALIZATION},
        {CAFKA_ERR_WOULD_BLOCK, {"x", 1}, CAFKA_ERR_SERIALIZATION},
        {CAFKA_ERR_TIMEOUT, {"x", 1}, CAFKA_ERR_SERIALIZATION},
        {0, {"x", SIZE_MAX}, CAFKA_ERR_TOO_LARGE},
        {0, {"x", SIZE_MAX / 2 + 1}, CAFKA_ERR_TOO_LARGE},
        {0, {"x", (size_t)INT32_MAX + 1}, CAFKA_ERR_TOO_LARGE},
        {0, {"x", (size_t)UINT32_MAX + 2}, CAFKA_ERR_TOO_LARGE},
        {0, {"x", 2 << 20}, CAFKA_ERR_TOO_LARGE},
        {0, {NULL, SIZE_MAX}, CAFKA_OK}, /* null has no size */
        {0, {"x", 0}, CAFKA_OK},
    };
    struct odd odd = {0};
    open_odd(&odd, *state, true, "linger.ms=0");
    int sent = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cafka_record record = text_record("object");
        cafka_error err = {0};
        odd.serialize_rc = cases[i].rc;
        odd.serialized = cases[i].bytes;
        int rc = cafka_producer_send(odd.producer, &record, &err);
        assert_told(rc, &err);
        if (rc != cases[i].code)
            fail_msg("case %zu: %d %s", i, rc, err.message);
        sent += !rc;
    }
    close_odd(&odd);
    assert_int_equal(odd.reported, sent);
    assert_int_equal(odd.failed, 0);
}

static void scratch_of_any_size_is_there_or_not(void **state)
{
    static const size_t sizes[] =
        {1,        15,           4095,          1 << 20,         8 << 20,
         SIZE_MAX, SIZE_MAX - 7, SIZE_MAX - 16, SIZE_MAX - 4096, SIZE_MAX / 2};
    struct odd odd = {0};
    open_odd(&odd, *state, true, "linger.ms=0");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cafka_record record = text_record("x");
        odd.scratch = sizes[i];
        assert_int_equal(cafka_producer_send(odd.producer, &record, NULL), 0);
    }
    close_odd(&odd);
    assert_int_equal(odd.reported - odd.failed, sizeof sizes / sizeof *sizes);
}

static void functions_of_a_producer_may_call_all_of_it(void **state)
{
    struct odd odd = {.everything = true};
    open_odd(&odd, *state, true, "linger.ms=5");
    for (int i = 0; i < 5; i++) {
        cafka_record record = text_record("outside");
        assert_int_equal(cafka_producer_send(odd.producer, &record, NULL), 0);
    }
    assert_true(odd.sent_inside > 0);
    assert_int_equal(cafka_producer_flush(odd.producer, 1000, NULL), 0);
    odd.everything = false; /* else each report brings new records, for ever */
    close_odd(&odd);
    assert_int_equal(odd.reported, odd.sent_inside + 5);
    assert_int_equal(odd.failed, 0);
}

enum inside { CLOSE, FREE, FLUSH, PURGE, WAIT, INSIDE_KINDS };

/* What a function of a producer must not do, or not for long: what it answers. */
static int do_inside(struct odd *odd, enum inside what, cafka_error *err)
{
    cafka_record record = text_record("inside");
    switch (what) {
    case CLOSE: return cafka_producer_close(odd->producer, 0, err);
    case FREE: cafka_producer_free(odd->producer); return CAFKA_OK; /* with a line in the log */
    case FLUSH: return cafka_producer_flush(odd->producer, 1000, err);
    case PURGE:
        return cafka_producer_purge(odd->producer, CAFKA_PURGE_QUEUED | CAFKA_PURGE_IN_FLIGHT, err);
    default: return cafka_producer_send_wait(odd->producer, &record, NULL, err);
    }
}

struct insider {
    struct odd odd;
    enum inside what;
    bool in_delivery; /* else in on_send */
    int did, rc;
};

static void inside(struct insider *insider)
{
    cafka_error err = {0};
    if (insider->did++)
        return;
    insider->rc = do_inside(&insider->odd, insider->what, &err);
    assert_told(insider->rc, &err);
}

static int on_send_inside(cafka_record *record, cafka_scratch *scratch, void *user)
{
    struct insider *insider = user;
    (void)record;
    (void)scratch;
    if (!insider->in_delivery)
        inside(insider);
    return CAFKA_OK;
}

static void delivered_inside(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct insider *insider = user;
    insider->odd.reported += (int)cafka_delivery_count(delivery);
    (void)producer;
    if (insider->in_delivery)
        inside(insider);
}

static void what_must_not_be_done_inside_is_told(void **state)
{
    struct scene *s = *state;
    for (int i = 0; i < 2 * INSIDE_KINDS; i++) {
        struct insider insider = {.what = (enum inside)(i / 2), .in_delivery = i % 2};
        if (insider.what == FREE && !insider.in_delivery)
            continue; /* pulls the ground from under the call that runs; nothing can be promised */
        cafka_config *config = client_config(s->mock, "linger.ms=5");
        cafka_error err = {0};
        cafka_producer_interceptor interceptor = {.size = sizeof interceptor,
                                                  .user = &insider,
                                                  .on_send = on_send_inside};
        assert_int_equal(cafka_config_add_producer_interceptor(config, &interceptor, &err), 0);
        cafka_config_on_delivery(config, delivered_inside, &insider);
        assert_int_equal(cafka_producer_new(&insider.odd.producer, config, &err), 0);
        cafka_config_free(config);
        int sent = 0;
        for (int n = 0; n < 3; n++) {
            cafka_record record = text_record("outside");
            int rc = cafka_producer_send(insider.odd.producer, &record, &err);
            assert_told(rc, &err);
            assert_true(!rc || insider.what == CLOSE);
            sent += !rc;
        }
        int rc = cafka_producer_flush(insider.odd.producer, 10000, &err);
        assert_told(rc, &err);
        assert_true(insider.did || !sent);
        if (insider.in_delivery && (insider.what == FLUSH || insider.what == WAIT))
            assert_int_equal(insider.rc, CAFKA_ERR_IN_CALLBACK);
        close_odd(&insider.odd);
        assert_true(insider.odd.reported >= sent);
    }
}

/* --- reservations --- */

static void reservations_end_once(void **state)
{
    struct odd odd = {0}, other = {0};
    open_odd(&odd, *state, false, "linger.ms=5");
    open_odd(&other, *state, false, "linger.ms=5");
    static const size_t sizes[] = {0, 1, 100, 3000, 20000, 200000};
    cafka_error err = {0};
    int sent = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int how = 0; how < 3; how++) {
            cafka_record record = text_record("");
            cafka_reservation *r;
            void *value;
            record.value_size = sizes[i];
            assert_int_equal(cafka_producer_reserve(odd.producer, &record, &r, &value, &err), 0);
            memset(value, 'x', sizes[i]);
            assert_int_equal(cafka_producer_commit(other.producer, r, 0, &err), CAFKA_ERR_ARGUMENT);
            assert_int_equal(cafka_producer_commit(NULL, r, 0, &err), CAFKA_ERR_ARGUMENT);
            assert_int_equal(cafka_producer_commit(odd.producer, NULL, 0, &err), CAFKA_ERR_ARGUMENT);
            cafka_producer_abandon(other.producer, r); /* not its own: nothing happens */
            cafka_producer_abandon(NULL, r);
            cafka_producer_abandon(odd.producer, NULL);
            if (how == 0) {
                cafka_producer_abandon(odd.producer, r);
            } else if (how == 1) {
                assert_int_equal(cafka_producer_commit(odd.producer, r, sizes[i], &err), 0);
                sent++;
            } else { /* over, even though it was refused */
                assert_int_equal(cafka_producer_commit(odd.producer, r, sizes[i] + 1, &err),
                                 CAFKA_ERR_ARGUMENT);
                assert_int_equal(cafka_producer_commit(odd.producer, NULL, SIZE_MAX, &err),
                                 CAFKA_ERR_ARGUMENT);
            }
        }
    close_odd(&odd);
    close_odd(&other);
    assert_int_equal(odd.reported, sent);
    assert_int_equal(other.reported, 0);
}

static void sizes_without_bytes_harm_nobody(void **state)
{
    struct odd odd = {0};
    open_odd(&odd, *state, false, "linger.ms=5");
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 40, (size_t)UINT32_MAX + 1,
                                   2 << 20};
    cafka_error err = {0};
    cafka_reservation *r;
    void *value;
    int sent = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cafka_record record = text_record("");
        record.value_size = sizes[i]; /* more than max.request.size */
        assert_int_equal(cafka_producer_reserve(odd.producer, &record, &r, &value, &err),
                         CAFKA_ERR_TOO_LARGE);
        assert_int_equal(cafka_producer_send(odd.producer, &record, &err), CAFKA_ERR_TOO_LARGE);
        record = text_record("v");
        record.key = "k";
        record.key_size = sizes[i];
        assert_int_equal(cafka_producer_reserve(odd.producer, &record, &r, &value, &err),
                         CAFKA_ERR_TOO_LARGE);
        assert_int_equal(cafka_producer_send(odd.producer, &record, &err), CAFKA_ERR_TOO_LARGE);
        record.key = NULL; /* a null key has no size, whatever was left there */
        int rc = cafka_producer_reserve(odd.producer, &record, &r, &value, &err);
        assert_told(rc, &err);
        if (!rc) {
            *(char *)value = 'v';
            assert_int_equal(cafka_producer_commit(odd.producer, r, 1, &err), 0);
            sent++;
        }
        rc = cafka_producer_send(odd.producer, &record, &err);
        assert_told(rc, &err);
        sent += !rc;
        record = text_record("v");
        record.header_count = sizes[i]; /* and no headers */
        rc = cafka_producer_send(odd.producer, &record, &err);
        assert_int_equal(rc, CAFKA_ERR_ARGUMENT);
        cafka_header header = {.name = "h", .value = "x", .value_size = sizes[i]};
        record.headers = &header;
        record.header_count = 1;
        assert_int_equal(cafka_producer_send(odd.producer, &record, &err), CAFKA_ERR_TOO_LARGE);
        assert_int_equal(cafka_producer_reserve(odd.producer, &record, &r, &value, &err),
                         CAFKA_ERR_TOO_LARGE);
        header = (cafka_header){.name = NULL, .value = "x", .value_size = 1};
        assert_int_equal(cafka_producer_send(odd.producer, &record, &err), CAFKA_ERR_ARGUMENT);
    }
    close_odd(&odd);
    assert_int_equal(odd.reported, sent);
    assert_int_equal(odd.failed, 0);
}

/* --- a consumer --- */

static void call_consumer(cafka_consumer *consumer)
{
    cafka_error err = {0};
    cafka_position many[3] =
        {{.topic = "orders", .partition = 0, .flags = CAFKA_POSITION_OFFSET},
         {.topic = "orders", .partition = 0, .flags = CAFKA_POSITION_OFFSET, .offset = 1},
         {.topic = "nowhere", .partition = -1}};
    cafka_fetch *fetch = NULL;
    cafka_metrics *metrics;
    int64_t low, high;
    int32_t partitions;
    size_t count = 3;
    assert_told(cafka_consumer_poll(consumer, 10, &fetch, &err), &err);
    cafka_fetch_free(fetch);
    assert_told(cafka_consumer_position(consumer, "orders", 0, 10, &low, &err), &err);
    assert_told(cafka_consumer_assignment(consumer, many, &count, &err), &err);
    assert_told(cafka_consumer_pause(consumer, many, 1, &err), &err);
    assert_told(cafka_consumer_resume(consumer, many, 1, &err), &err);
    assert_told(cafka_consumer_list_offsets(consumer, many, 1, 10, &err), &err);
    assert_told(cafka_consumer_begin_offsets(consumer, many, 1, 10, &err), &err);
    assert_told(cafka_consumer_end_offsets(consumer, many, 1, 10, &err), &err);
    assert_told(cafka_consumer_watermarks(consumer, "orders", 0, &low, &high, &err), &err);
    assert_told(cafka_consumer_lag(consumer, "orders", 0, &low, &err), &err);
    assert_told(cafka_consumer_partitions(consumer, "orders", 10, &partitions, &err), &err);
    (void)cafka_consumer_at_end(consumer);
    if (!cafka_client_metrics(cafka_consumer_client(consumer), &metrics, &err)) {
        (void)cafka_metrics_json(metrics);
        cafka_metrics_free(metrics);
    }
    (void)cafka_dispatch(cafka_consumer_client(consumer), 0);
}

struct eater {
    cafka_consumer *consumer;
    int calls;
};

static int on_consume(cafka_record_view *view, cafka_scratch *scratch, void *user)
{
    struct eater *eater = user;
    cafka_record_view *copy;
    (void)scratch;
    eater->calls++;
    call_consumer(eater->consumer);
    assert_int_equal(cafka_record_copy(&copy, view, NULL), 0);
    cafka_record_copy_free(copy);
    cafka_record_unref(cafka_record_ref(view));
    return CAFKA_OK;
}

static void functions_of_a_consumer_may_call_all_of_it(void **state)
{
    struct scene *s = *state;
    struct eater eater = {0};
    cafka_error err = {0};
    produce_numbers(s, "orders", 0, 1, 5);
    cafka_config *config = client_config(s->mock, "auto.offset.reset=earliest");
    cafka_consumer_interceptor interceptor = {.size = sizeof interceptor,
                                              .user = &eater,
                                              .on_consume = on_consume};
    assert_int_equal(cafka_config_add_consumer_interceptor(config, &interceptor, &err), 0);
    assert_int_equal(cafka_consumer_new(&s->consumer, config, &err), 0);
    cafka_config_free(config);
    eater.consumer = s->consumer;
    assign_from(s->consumer, "orders", 1, 0);
    expect_numbers(s, 1, 5);
    assert_int_equal(eater.calls, 5);
}

static void odd_numbers_and_doubles_are_told(void **state)
{
    struct scene *s = *state;
    cafka_error err = {0};
    produce_numbers(s, "orders", 0, 1, 5);
    s->consumer = open_consumer(s->mock, "auto.offset.reset=earliest");
    assign_from(s->consumer, "orders", 2, 0);
    cafka_position twice[3] =
        {{.topic = "orders", .partition = 0, .flags = CAFKA_POSITION_OFFSET, .offset = 3},
         {.topic = "orders", .partition = 1, .flags = CAFKA_POSITION_OFFSET, .offset = 0},
         {.topic = "orders", .partition = 0, .flags = CAFKA_POSITION_OFFSET, .offset = 2}};
    int rc = cafka_consumer_seek_many(s->consumer, twice, 3, &err);
    assert_told(rc, &err);
    int64_t offset = -1;
    assert_int_equal(cafka_consumer_position(s->consumer, "orders", 0, 1000, &offset, &err), 0);
    assert_true(offset == (rc ? 0 : 2));
    assert_told(cafka_consumer_seek_many(s->consumer, NULL, 0, &err), &err);
    assert_int_equal(cafka_consumer_seek_many(s->consumer, NULL, 1, &err), CAFKA_ERR_ARGUMENT);
    twice[0].offset = INT64_MIN;
    assert_int_equal(cafka_consumer_seek_many(s->consumer, twice, 1, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_consumer_seek(s->consumer, "orders", 0, 0, &err), 0);
    cafka_fetch *fetch = NULL;
    cafka_record_view views[2];
    size_t count = 9;
    while (!fetch)
        assert_int_equal(cafka_consumer_poll(s->consumer, 10000, &fetch, &err), 0);
    rc = cafka_fetch_next_batch(fetch, views, 0, &count, &err);
    assert_told(rc, &err);
    assert_true(rc || count == 0);
    assert_int_equal(cafka_fetch_next_batch(fetch, NULL, 2, &count, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_fetch_next_batch(NULL, views, 2, &count, &err), CAFKA_END);
    assert_int_equal(cafka_fetch_next_batch(fetch, views, 2, NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_fetch_next_batch(fetch, views, 2, &count, &err), 0);
    assert_int_equal(count, 2);
    cafka_record_view *copy = NULL;
    assert_int_equal(cafka_record_copy(NULL, views, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_record_copy(&copy, NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_record_copy(&copy, &views[1], &err), 0);
    cafka_record_memory *memory = cafka_record_ref(&views[0]);
    cafka_fetch_free(fetch);
    assert_memory_equal(views[0].value, "1", 1); /* held */
    assert_memory_equal(copy->value, "2", 1);
    cafka_record_view *again = NULL;
    assert_int_equal(cafka_record_copy(&again, copy, &err), 0);
    cafka_record_copy_free(copy);
    assert_memory_equal(again->value, "2", 1);
    cafka_record_unref(cafka_record_ref(again)); /* a copy has no memory of a fetch */
    cafka_record_copy_free(again);
    close_consumer(s->consumer);
    s->consumer = NULL;
    assert_memory_equal(views[0].value, "1", 1);
    cafka_record_unref(memory);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(serializer_s_nonsense_is_refused),
        TEST(scratch_of_any_size_is_there_or_not),
        TEST(functions_of_a_producer_may_call_all_of_it),
        TEST(what_must_not_be_done_inside_is_told),
        TEST(reservations_end_once),
        TEST(sizes_without_bytes_harm_nobody),
        TEST(functions_of_a_consumer_may_call_all_of_it),
        TEST(odd_numbers_and_doubles_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
