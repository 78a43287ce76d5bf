/*
 * test_accumulator.c - what is appended comes out, in order, whatever blocks, codec and size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "producer/accumulator.h"
#include "record/open.h"
#include "util/alloc.h"

struct fixture {
    struct producer_settings settings;
    struct accumulator a;
    struct partition p;
    struct block *spare;
    struct append_outcome outcome;
    size_t needed;
};

static void begin(struct fixture *f, int codec, bool slots, int32_t batch_size, int32_t batch_max)
{
    *f = (struct fixture){.settings = {.batch_size_bytes = batch_size,
                                       .batch_max_size_bytes = batch_max,
                                       .max_request_size_bytes = 1 << 20,
                                       .buffer_memory_bytes = 8 << 20,
                                       .compression = codec,
                                       .compression_level = CODEC_LEVEL_DEFAULT,
                                       .reports = slots}};
    assert_int_equal(accumulator_init(&f->a, cafka_env_real(), &f->settings, NULL), CAFKA_OK);
    assert_int_equal(partition_init(&f->p, NULL, 0, NULL), CAFKA_OK);
}

static void end(struct fixture *f)
{
    partition_fini(&f->p, &f->a);
    assert_int_equal(memory_pool_used(&f->a.pool), 0);
    accumulator_fini(&f->a);
}

static int append(struct fixture *f, const char *value, size_t size, intptr_t opaque)
{
    struct append record = {.value = bytes_of(value, size),
                            .opaque = (void *)opaque,
                            .timestamp_ms = 1000 + opaque};
    f->outcome = (struct append_outcome){0};
    pthread_mutex_lock(&f->p.mu);
    int rc = partition_append_locked(&f->a, &f->p, &record, f->a.batch_max, &f->spare, &f->outcome,
                                     &f->needed);
    pthread_mutex_unlock(&f->p.mu);
    if (f->outcome.to_seal)
        accumulator_seal(&f->a, f->outcome.to_seal);
    return rc;
}

static size_t value_of(int i, char *out, size_t room)
{
    size_t size = (size_t)(i * 7919 % 1500);
    if (i % 97 == 0)
        size = 20000; /* larger than a block */
    assert_true(size + 16 < room);
    memset(out, 'a' + i % 26, size + 16);
    return (size_t)snprintf(out, 16, "%07d", i) + size;
}

/* Gather the pieces as the wire would get them, and check every record and slot. */
static int check_batch(struct producer_batch *batch, int first, bool slots)
{
    static uint8_t wire[2 << 20];
    struct iovec iov[512];
    int pieces = batch->piece_count;
    assert_true(pieces <= 512);
    producer_batch_stamp(batch);
    producer_batch_pieces(batch, iov);
    size_t size = 0;
    for (int i = 0; i < pieces; i++) {
        memcpy(wire + size, iov[i].iov_base, iov[i].iov_len);
        size += iov[i].iov_len;
    }
    assert_int_equal(size, batch->size);
    assert_int_equal(batch_check(bytes_of(wire, size), NULL), CAFKA_OK);

    struct batch_header header;
    struct record_iter it;
    struct record_view view;
    struct buffer inflated = {0};
    struct decompressor *d;
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    assert_int_equal(batch_header_read(bytes_of(wire, size), &header, NULL), CAFKA_OK);
    assert_int_equal(batch_open(bytes_of(wire, size), &header, d, 8 << 20, &inflated, &it, NULL),
                     CAFKA_OK);
    struct slot_iter si = producer_batch_slots(batch);
    char expected[32768];
    int i = first;
    while (!record_iter_next(&it, &view, NULL)) {
        size_t expected_size = value_of(i, expected, sizeof expected);
        assert_int_equal(view.value.size, expected_size);
        assert_memory_equal(view.value.data, expected, expected_size);
        assert_int_equal(view.timestamp, 1000 + i);
        const struct slot *slot = slot_iter_next(&si);
        if (slots) {
            assert_non_null(slot);
            assert_int_equal((intptr_t)slot->opaque, i);
            assert_int_equal(slot->timestamp_ms, 1000 + i);
        } else {
            assert_null(slot);
        }
        i++;
    }
    assert_null(slot_iter_next(&si));
    assert_int_equal(i - first, batch->count);
    decompressor_free(d);
    buffer_fini(&inflated);
    return i;
}

static void what_is_appended_comes_out(int codec, bool slots, int32_t batch_size, int32_t batch_max)
{
    enum { RECORDS = 1500 };
    struct fixture fixture, *f = &fixture;
    begin(f, codec, slots, batch_size, batch_max);
    char value[32768];
    for (int i = 0; i < RECORDS; i++)
        assert_int_equal(append(f, value, value_of(i, value, sizeof value), i), CAFKA_OK);
    assert_true(partition_take_open(&f->a, &f->p));
    int next = 0;
    for (struct list *link; (link = list_pop_front(&f->p.queue));) {
        struct producer_batch *batch = list_item(link, struct producer_batch, link);
        next = check_batch(batch, next, slots);
        producer_batch_release(batch, &f->a.pool);
    }
    assert_int_equal(next, RECORDS);
    end(f);
}

static void records_come_out_in_order_in_every_codec(void **state)
{
    (void)state;
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        what_is_appended_comes_out(codec, true, 16384, 1000000);
        what_is_appended_comes_out(codec, false, 16384, 1000000);
        what_is_appended_comes_out(codec, true, 100, 60000);
        what_is_appended_comes_out(codec, true, 1, 1);
        what_is_appended_comes_out(codec, true, 50000, 50000);
    }
}

static void a_batch_of_one_is_made_when_the_limit_is_one(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    begin(f, CODEC_NONE, true, 1, 1);
    assert_int_equal(append(f, "a", 1, 0), CAFKA_OK);
    assert_null(f->outcome.to_seal);
    assert_int_equal(append(f, "b", 1, 1), CAFKA_OK);
    assert_non_null(f->outcome.to_seal);
    assert_int_equal(f->outcome.to_seal->count, 1);
    end(f);
}

/* The loop hears of the first record, of batch.size, and of each block that is added then. */
static void the_loop_is_told_when_it_matters(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    begin(f, CODEC_NONE, false, 4096, 1000000);
    char value[100] = {0};
    size_t bytes = RECORD_BATCH_OVERHEAD, told = 0;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(append(f, value, sizeof value, i), CAFKA_OK);
        assert_int_equal(f->outcome.opened, i == 0);
        bytes += f->outcome.size;
        told += f->outcome.grown;
        if (bytes < 4096)
            assert_int_equal(f->outcome.grown, 0);
        assert_true(bytes < told + 4096 + 1200);
    }
    assert_true(told > 90000);
    end(f);
}

static void used_up_memory_is_waited_for_outside(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    begin(f, CODEC_NONE, false, 1024, 1000000);
    char value[1000] = {0};
    int taken = 0, rc;
    while (!(rc = append(f, value, sizeof value, taken)))
        taken++;
    assert_int_equal(rc, CAFKA_ERR_WOULD_BLOCK);
    assert_true(f->needed > 1000);
    assert_true(taken > 4000); /* of 8 MiB, in blocks of 1 KiB and their heads */

    struct block *spare = memory_pool_overdraw(&f->a.pool, f->needed);
    f->spare = spare;
    assert_int_equal(append(f, value, sizeof value, taken), CAFKA_OK);
    assert_null(f->spare);
    end(f);
}

static void a_closing_partition_takes_nothing(void **state)
{
    (void)state;
    struct fixture fixture, *f = &fixture;
    begin(f, CODEC_NONE, false, 1024, 1000000);
    assert_int_equal(append(f, "x", 1, 0), CAFKA_OK);
    f->p.closing = true;
    f->p.end = f->p.at;
    assert_int_equal(append(f, "y", 1, 0), CAFKA_ERR_CLOSED);
    end(f);
}

static void every_failing_allocation_leaves_the_partition_whole(void **state)
{
    (void)state;
    for (unsigned long k = 1; k < 60; k++) {
        struct fixture fixture, *f = &fixture;
        begin(f, CODEC_LZ4, true, 2048, 4096);
        char value[32768];
        int taken = 0;
        mem_fail_after(k, 0);
        for (int i = 0; i < 40; i++) {
            size_t size = value_of(taken, value, sizeof value);
            int rc = append(f, value, size, taken);
            assert_true(!rc || rc == CAFKA_ERR_MEMORY);
            taken += !rc;
        }
        mem_fail_after(0, 0);
        assert_true(taken >= 39);
        (void)partition_take_open(&f->a, &f->p);
        int next = 0;
        for (struct list *link; (link = list_pop_front(&f->p.queue));) {
            struct producer_batch *batch = list_item(link, struct producer_batch, link);
            next = check_batch(batch, next, true);
            producer_batch_release(batch, &f->a.pool);
        }
        assert_int_equal(next, taken);
        end(f);
    }
}

static void a_split_batch_holds_the_same_records(void **state)
{
    (void)state;
    struct decompressor *d;
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        struct fixture fixture, *f = &fixture;
        begin(f, codec, true, 500000, 900000);
        char value[32768];
        for (int i = 1; i < 400; i++)
            assert_int_equal(append(f, value, value_of(i, value, sizeof value), i), CAFKA_OK);
        assert_true(partition_take_open(&f->a, &f->p));
        struct producer_batch *batch =
            list_item(list_pop_front(&f->p.queue), struct producer_batch, link);
        producer_batch_stamp(batch);

        struct list parts;
        struct sealer *sealer = accumulator_sealer_get(&f->a);
        assert_int_equal(producer_batch_split(batch, 10000, d, sealer, &f->a.pool, &parts, NULL),
                         CAFKA_OK);
        int next = 1, parts_count = 0;
        for (struct list *link; (link = list_pop_front(&parts));) {
            struct producer_batch *part = list_item(link, struct producer_batch, link);
            assert_true(part->size <= 10000 || part->count == 1);
            assert_int_equal(part->root_index, next - 1);
            next = check_batch(part, next, true);
            producer_batch_release(part, &f->a.pool);
            parts_count++;
        }
        assert_int_equal(next, 400);
        assert_true(parts_count > 20);

        for (unsigned long k = 1; k < 20; k++) { /* without memory it stays whole */
            mem_fail_after(k, 1);
            int rc = producer_batch_split(batch, 10000, d, NULL, &f->a.pool, &parts, NULL);
            mem_fail_after(0, 0);
            assert_true(rc == CAFKA_ERR_MEMORY || rc == CAFKA_OK);
            assert_true(rc == CAFKA_OK || list_empty(&parts));
            for (struct list *link; (link = list_pop_front(&parts));)
                producer_batch_release(list_item(link, struct producer_batch, link), &f->a.pool);
        }
        assert_int_equal(check_batch(batch, 1, true), 400);
        producer_batch_release(batch, &f->a.pool);
        accumulator_sealer_put(&f->a, sealer);
        end(f);
    }
    decompressor_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_out_in_order_in_every_codec),
        cmocka_unit_test(a_batch_of_one_is_made_when_the_limit_is_one),
        cmocka_unit_test(the_loop_is_told_when_it_matters),
        cmocka_unit_test(used_up_memory_is_waited_for_outside),
        cmocka_unit_test(a_closing_partition_takes_nothing),
        cmocka_unit_test(every_failing_allocation_leaves_the_partition_whole),
        cmocka_unit_test(a_split_batch_holds_the_same_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
