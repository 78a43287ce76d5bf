/*
 * test_reserve.c - values that the application writes where they are sent from: in any order with
 * other records, of any size, and whatever happens between reserve and commit.
 */
#include "unit/producer/producer_fixture.h"

#include <cafka/plugin.h>

static int setup(void **state)
{
    *state = open_world(11, 1);
    return 0;
}
static int teardown(void **state)
{
    close_world(*state);
    return 0;
}

struct place {
    cafka_reservation *reservation;
    uint8_t *value;
    size_t most;
};

static cafka_record of(struct producer_fixture *f, size_t most)
{
    return (cafka_record){.topic = "orders",
                          .key = "key",
                          .key_size = 3,
                          .value_size = most,
                          .opaque = (void *)(intptr_t)f->next};
}

static struct place reserve(struct producer_fixture *f, size_t most)
{
    struct place place = {.most = most};
    cafka_record record = of(f, most);
    void *value;
    cafka_error err;
    if (cafka_producer_reserve(f->producer, &record, &place.reservation, &value, &err))
        fail_msg("%s", err.message);
    place.value = value;
    assert_int_equal((uintptr_t)value % 16, 0);
    memset(value, 0x5a, most);
    return place;
}

/* The next number goes to this place, in so many bytes. */
static int commit(struct producer_fixture *f, struct place place, size_t bytes, cafka_error *err)
{
    store_be32(place.value, (uint32_t)f->next);
    int rc = cafka_producer_commit(f->producer, place.reservation, bytes, err);
    if (!rc)
        f->next++;
    return rc;
}

static void send_reserved(struct producer_fixture *f, size_t most, size_t bytes)
{
    cafka_error err;
    struct place place = reserve(f, most);
    if (commit(f, place, bytes, &err))
        fail_msg("%s", err.message);
}

static void assert_sizes(struct producer_fixture *f, int at, size_t size)
{
    assert_int_equal(f->logs[0].sizes[at], size);
}

static void a_reserved_value_arrives(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    send_reserved(f, 100, 100);
    send_reserved(f, 100, 4); /* fewer than were reserved */
    send_reserved(f, 50000, 50000);
    flush(f);
    assert_log_is(f, 0, 3);
    assert_sizes(f, 1, 4);
    assert_sizes(f, 2, 50000);
    assert_each_reported_once(f);
    assert_int_equal(f->failed, 0);
}

static void order_is_that_of_commits(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    struct place places[3];
    for (int i = 0; i < 3; i++) { /* they will be records 1, 3 and 5 */
        f->next = 1 + 2 * i;
        places[i] = reserve(f, 3000 * (size_t)(i + 1));
    }
    f->next = 0;
    for (int i = 0; i < 3; i++) {
        send_records(f, 1);
        assert_int_equal(commit(f, places[i], places[i].most, NULL), 0);
    }
    flush(f);
    assert_log_is(f, 0, 6);
    assert_sizes(f, 3, 6000);
    assert_each_reported_once(f);
}

/* Every size around the boundaries of blocks and batches, between ordinary records. */
static void values_of_all_sizes_mix_with_other_records(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    static const size_t sizes[] = {4,     5,     127,   128,   1000,  4000,  4224,  4300,  8000,
                                   12000, 16000, 16300, 16384, 16500, 20000, 33000, 60000, 100000};
    for (int round = 0; round < 4; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            send_reserved(f, sizes[i] + (size_t)round * 1000, sizes[i]);
            if (round % 2)
                send_sized(f, 3, 50 + 1000 * i);
        }
    flush(f);
    assert_log_is(f, 0, f->next);
    assert_each_reported_once(f);
    assert_int_equal(f->failed, 0);
    assert_sizes(f, 17, 100000);
}

static void every_codec_reads_values_in_place(void **state)
{
    (void)state;
    static const char *const codecs[] = {"gzip", "lz4", "zstd"};
    for (size_t c = 0; c < 3; c++) {
        struct producer_fixture *f = open_world(c + 1, 1);
        set(f, "compression.type", codecs[c]);
        start(f);
        for (int i = 0; i < 30; i++) {
            send_reserved(f, 9000, 9000);
            send_records(f, 2);
        }
        flush(f);
        assert_log_is(f, 0, 90);
        assert_each_reported_once(f);
        close_world(f);
    }
}

static void headers_and_keys_stand_around_the_value(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "batch.size", "100000");
    start(f);
    char key[300];
    memset(key, 'k', sizeof key);
    cafka_header headers[] = {{.name = "a", .value = "1", .value_size = 1},
                              {.name = "empty", .value = NULL}};
    cafka_error err;
    for (int i = 0; i < 20; i++) {
        cafka_record record = of(f, 5000);
        record.key = key;
        record.key_size = sizeof key;
        record.headers = headers;
        record.header_count = 2;
        struct place place = {0};
        void *value;
        assert_int_equal(cafka_producer_reserve(f->producer, &record, &place.reservation, &value,
                                                &err),
                         0);
        place.value = memset(value, 0x76, 5000);
        assert_int_equal(commit(f, place, i % 2 ? 5000 : 4, &err), 0);
    }
    flush(f);
    assert_log_is(f, 0, 20);
    assert_int_equal(f->delivered, 20);
}

/* --- what comes between --- */

static void an_abandoned_one_leaves_no_gap(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    for (int i = 0; i < 50; i++) {
        struct place place = reserve(f, 10000);
        send_records(f, 1);
        cafka_producer_abandon(f->producer, place.reservation);
    }
    cafka_producer_abandon(f->producer, NULL);
    flush(f);
    assert_log_is(f, 0, 50);
}

static void flush_does_not_wait_for_a_reservation(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    send_records(f, 1);
    struct place place = reserve(f, 5000);
    flush(f);
    assert_int_equal(f->delivered, 1);
    cafka_producer_abandon(f->producer, place.reservation);
    struct place other = reserve(f, 5000);
    flush(f);
    assert_int_equal(commit(f, other, 5000, NULL), 0);
    flush(f);
    assert_log_is(f, 0, 2);
}

static void a_commit_after_close_is_refused(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    send_records(f, 1);
    struct place place = reserve(f, 5000);
    cafka_error err;
    assert_int_equal(cafka_producer_close(f->producer, 1000, &err), 0);
    assert_int_equal(commit(f, place, 5000, &err), CAFKA_ERR_CLOSED);
    cafka_record record = of(f, 10);
    cafka_reservation *late;
    void *value;
    assert_int_equal(cafka_producer_reserve(f->producer, &record, &late, &value, &err),
                     CAFKA_ERR_CLOSED);
    assert_each_reported_once(f);
}

static struct place kept;
static bool committed;
static void commit_in_callback(struct producer_fixture *f)
{
    if (committed)
        return;
    committed = true;
    assert_int_equal(commit(f, kept, 6000, NULL), 0);
    struct place another = reserve(f, 100);
    assert_int_equal(commit(f, another, 50, NULL), 0);
}

static void a_callback_may_reserve_and_commit(void **state)
{
    struct producer_fixture *f = *state;
    committed = false;
    f->in_callback = commit_in_callback;
    start(f);
    send_records(f, 1);
    kept = reserve(f, 6000);
    flush(f);
    flush(f);
    assert_log_is(f, 0, 3);
    assert_each_reported_once(f);
}

static void a_reservation_holds_its_share_of_memory(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "buffer.memory", "100000");
    set(f, "max.block.ms", "500");
    start(f);
    struct place held[16];
    int count = 0;
    cafka_error err;
    for (; count < 16; count++) {
        cafka_record record = of(f, 12000);
        void *value;
        int rc =
            cafka_producer_reserve(f->producer, &record, &held[count].reservation, &value, &err);
        if (rc) {
            assert_int_equal(rc, CAFKA_ERR_TIMEOUT);
            break;
        }
    }
    assert_in_range(count, 3, 6);
    while (count--)
        cafka_producer_abandon(f->producer, held[count].reservation);
    send_records(f, 10);
    flush(f);
    assert_log_is(f, 0, 10);
}

/* A retry sends the same bytes, and the broker's refusal of the size splits them as any others. */
static void reserved_values_are_retried_and_split(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    fault(f, FAULT_IGNORE, 0);
    fault(f, FAULT_REFUSE, ERR_NOT_ENOUGH_REPLICAS);
    set(f, "request.timeout.ms", "1000");
    f->max_message_bytes = 30000;
    for (int i = 0; i < 12; i++)
        send_reserved(f, 9000, 9000);
    flush(f);
    assert_log_is(f, 0, 12);
    assert_each_reported_once(f);
    assert_int_equal(f->failed, 0);
}

/* --- wrong use --- */

static void more_than_was_reserved_is_refused(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    struct place place = reserve(f, 100);
    cafka_error err;
    assert_int_equal(commit(f, place, 101, &err), CAFKA_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "101"));
    cafka_reservation *r;
    void *value;
    cafka_record record = of(f, 10);
    record.topic = NULL;
    assert_int_equal(cafka_producer_reserve(f->producer, &record, &r, &value, &err),
                     CAFKA_ERR_ARGUMENT);
    record = of(f, SIZE_MAX);
    assert_int_equal(cafka_producer_reserve(f->producer, &record, &r, &value, &err),
                     CAFKA_ERR_TOO_LARGE);
    assert_int_equal(cafka_producer_commit(f->producer, NULL, 0, &err), CAFKA_ERR_ARGUMENT);
    flush(f);
    assert_int_equal(f->logs[0].count, 0);
}

static int exclaim(cafka_record *record, cafka_scratch *scratch, void *user)
{
    if (*(int *)user) {
        uint8_t *copy = cafka_scratch_alloc(scratch, record->value_size);
        memcpy(copy, record->value, record->value_size);
        record->value = copy;
    } else {
        static char longer[3000]; /* than there is room for before the value */
        memset(longer, 'k', sizeof longer);
        record->key = longer;
        record->key_size = sizeof longer;
    }
    return CAFKA_OK;
}

static void interceptors_may_change_a_reserved_record(void **state)
{
    struct producer_fixture *f = *state;
    int change = 0;
    cafka_producer_interceptor interceptor = {.size = sizeof interceptor,
                                              .user = &change,
                                              .on_send = exclaim};
    assert_int_equal(cafka_config_add_producer_interceptor(f->config, &interceptor, NULL), 0);
    start(f);
    for (int i = 0; i < 10; i++) {
        change = i % 2;
        send_reserved(f, 9000, 9000);
        send_reserved(f, 100, 60);
    }
    flush(f);
    assert_log_is(f, 0, 20);
    assert_each_reported_once(f);
}

static void every_failing_allocation_costs_a_reservation_at_most(void **state)
{
    (void)state;
    for (unsigned long k = 1;; k++) {
        struct producer_fixture *f = open_world(5, 1);
        start(f);
        send_records(f, 1);
        flush(f);
        cafka_record record = of(f, 40000);
        cafka_reservation *r;
        void *value;
        cafka_error err;
        mem_fail_after(k, 0);
        int rc = cafka_producer_reserve(f->producer, &record, &r, &value, &err);
        if (!rc) {
            memset(value, 0x5a, 40000);
            store_be32(value, (uint32_t)f->next);
            rc = cafka_producer_commit(f->producer, r, 40000, &err);
            f->next += !rc;
        }
        bool failed = mem_count() >= k;
        mem_fail_after(0, 0);
        assert_true(!rc || rc == CAFKA_ERR_MEMORY);
        flush(f);
        assert_log_is(f, 0, f->next);
        close_world(f);
        if (!failed)
            break;
    }
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_reserved_value_arrives),
        WORLD_TEST(order_is_that_of_commits),
        WORLD_TEST(values_of_all_sizes_mix_with_other_records),
        cmocka_unit_test(every_codec_reads_values_in_place),
        WORLD_TEST(headers_and_keys_stand_around_the_value),
        WORLD_TEST(an_abandoned_one_leaves_no_gap),
        WORLD_TEST(flush_does_not_wait_for_a_reservation),
        WORLD_TEST(a_commit_after_close_is_refused),
        WORLD_TEST(a_callback_may_reserve_and_commit),
        WORLD_TEST(a_reservation_holds_its_share_of_memory),
        WORLD_TEST(reserved_values_are_retried_and_split),
        WORLD_TEST(more_than_was_reserved_is_refused),
        WORLD_TEST(interceptors_may_change_a_reserved_record),
        cmocka_unit_test(every_failing_allocation_costs_a_reservation_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
