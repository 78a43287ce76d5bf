/*
 * test_util.c - containers, bytes, hashes and ids: the ground that the rooms stand on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <stdlib.h>

#include <cmocka.h>

#include <cafka/memory.h>

#include "util/alloc.h"
#include "util/arena.h"
#include "util/bytes.h"
#include "util/error.h"
#include "util/hash.h"
#include "util/list.h"
#include "util/map.h"
#include "util/mpsc.h"
#include "util/rng.h"
#include "util/uuid.h"

static void varints_have_the_bytes_that_kafka_writes(void **state)
{
    (void)state;
    static const struct {
        int32_t value;
        const char *hex;
    } cases[] = {{0, "00"},
                 {-1, "01"},
                 {1, "02"},
                 {63, "7e"},
                 {-64, "7f"},
                 {64, "8001"},
                 {300, "d804"},
                 {8191, "fe7f"},
                 {INT32_MAX, "feffffff0f"},
                 {INT32_MIN, "ffffffff0f"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t out[10];
        char hex[21];
        size_t size = (size_t)(uvarint_put(out, zigzag32(cases[i].value)) - out);
        to_hex(out, size, hex);
        assert_string_equal(hex, cases[i].hex);
        assert_int_equal(size, uvarint_size(zigzag32(cases[i].value)));
        struct reader r = reader_of(out, size);
        assert_int_equal(reader_varint(&r), cases[i].value);
        assert_false(reader_failed(&r));
    }
}

static void varint_that_ends_early_or_is_too_long_fails(void **state)
{
    (void)state;
    uint64_t v;
    const uint8_t cut[] = {0x80}, too_long[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x01};
    assert_null(uvarint_get(cut, cut + sizeof cut, 5, &v));
    assert_null(uvarint_get(too_long, too_long + sizeof too_long, 5, &v));
    assert_non_null(uvarint_get(too_long, too_long + sizeof too_long, 10, &v));
}

static void reader_yields_zeros_after_its_first_failure(void **state)
{
    (void)state;
    const uint8_t data[] = {0, 0, 0, 7, 1};
    struct reader r = reader_of(data, sizeof data);
    assert_int_equal(reader_be32(&r), 7);
    assert_int_equal(reader_be32(&r), 0);
    assert_true(reader_failed(&r));
    assert_int_equal(reader_u8(&r), 0);
}

static void map_keeps_order_over_removal_and_growth(void **state)
{
    (void)state;
    struct map m = {0};
    static int values[2000];
    for (int64_t i = 0; i < 2000; i++)
        assert_true(map_put_int(&m, i, &values[i]));
    for (int64_t i = 0; i < 2000; i += 2)
        assert_ptr_equal(map_remove_int(&m, i), &values[i]);
    for (int64_t i = 0; i < 2000; i += 4)
        assert_true(map_put_int(&m, i, &values[i]));
    assert_int_equal(m.count, 1500);
    for (int64_t i = 0; i < 2000; i++)
        assert_ptr_equal(map_get_int(&m, i), i % 2 || i % 4 == 0 ? &values[i] : NULL);
    size_t seen = 0;
    struct map_entry *e;
    for (size_t at = 0; (e = map_next(&m, &at)); seen++)
        if (seen < 1000)
            assert_ptr_equal(e->value, &values[2 * seen + 1]);
    assert_int_equal(seen, 1500);
    map_fini(&m);
}

static void *late_alloc(size_t size, void *user)
{
    (void)user;
    return malloc(size);
}

static void *late_realloc(void *memory, size_t size, void *user)
{
    (void)user;
    return realloc(memory, size);
}

static void late_free(void *memory, void *user)
{
    (void)user;
    free(memory);
}

static void map_survives_a_failing_allocation(void **state)
{
    (void)state;
    for (unsigned long k = 1; k < 8; k++) {
        struct map m = {0};
        int value;
        mem_fail_after(k, 0);
        size_t kept = 0;
        for (int64_t i = 0; i < 20; i++)
            kept += map_put_int(&m, i, &value);
        mem_fail_after(0, 0);
        assert_int_equal(m.count, kept);
        assert_true(kept >= 19);
        map_fini(&m);
    }
}

static void memory_is_counted_for_what_it_is_for(void **state)
{
    (void)state;
    int64_t bytes = mem_bytes(MEM_FRAMES), other = mem_bytes(MEM_OTHER);
    int64_t blocks = mem_blocks(MEM_FRAMES);
    void *memory = mem_realloc_for(MEM_FRAMES, NULL, 100);
    assert_int_equal(mem_bytes(MEM_FRAMES), bytes + 100);
    memory = mem_realloc(memory, 300); /* it stays what it was for */
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
    assert_int_equal(mem_bytes(MEM_FRAMES), bytes + 300);
    assert_int_equal(mem_blocks(MEM_FRAMES), blocks + 1);
    mem_fail_after(1, 0);
    assert_null(mem_realloc(memory, 500));
    mem_fail_after(0, 0);
    assert_int_equal(mem_bytes(MEM_FRAMES), bytes + 300);
    mem_free(memory);
    assert_int_equal(mem_bytes(MEM_FRAMES), bytes);
    assert_int_equal(mem_bytes(MEM_OTHER), other);
    assert_null(mem_alloc(SIZE_MAX));
    assert_null(mem_realloc(NULL, SIZE_MAX - 8));
}

static void an_allocator_that_comes_late_is_refused(void **state)
{
    (void)state;
    cafka_error err = {0};
    cafka_allocator late = {sizeof late, late_alloc, late_realloc, late_free, NULL};
    mem_free(mem_alloc(1));
    assert_int_equal(cafka_set_allocator(&late, &err), CAFKA_ERR_STATE);
}

static void arena_refuses_more_than_its_limit(void **state)
{
    (void)state;
    struct arena a = {.limit = 1000};
    assert_non_null(arena_alloc(&a, 900));
    assert_null(arena_alloc(&a, 200));
    assert_null(arena_calloc(&a, SIZE_MAX / 2, 16));
    arena_reset(&a);
    assert_non_null(arena_alloc(&a, 200));
    arena_fini(&a);
}

static void mpsc_gives_items_in_the_order_of_pushing(void **state)
{
    (void)state;
    struct mpsc q = {NULL};
    struct mpsc_item items[3];
    assert_true(mpsc_push(&q, &items[0]));
    assert_false(mpsc_push(&q, &items[1]));
    assert_false(mpsc_push(&q, &items[2]));
    struct mpsc_item *item = mpsc_take_all(&q);
    for (int i = 0; i < 3; i++, item = item->next)
        assert_ptr_equal(item, &items[i]);
    assert_null(item);
    assert_true(mpsc_empty(&q));
}

static void hashes_are_java_s(void **state)
{
    (void)state;
    assert_int_equal(hash_murmur2("", 0), 275646681);
    assert_int_equal(hash_murmur2("abc", 3), 479470107);
    assert_int_equal(hash_murmur2("foobar", 6), -790332482);
    assert_int_equal(hash_java_string("my-group", 8), -1906497762);
    assert_int_equal(hash_java_string("test-group", 10), 627841412);
}

static void uuid_text_goes_both_ways(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 100; i++) {
        char text[UUID_TEXT_SIZE];
        struct uuid id = uuid_random(&rng), back;
        uuid_text(id, text);
        assert_int_equal(strlen(text), 22);
        assert_true(text[0] != '-');
        assert_true(uuid_parse(text, 22, &back));
        assert_true(uuid_equal(id, back));
    }
}

static void first_error_is_kept(void **state)
{
    (void)state;
    cafka_error err = {0};
    assert_int_equal(error_set(&err, CAFKA_ERR_IO, "first %d", 1), CAFKA_ERR_IO);
    assert_int_equal(error_set(&err, CAFKA_ERR_MEMORY, "second"), CAFKA_ERR_MEMORY);
    assert_int_equal(err.code, CAFKA_ERR_IO);
    error_prefix(&err, "opening %s: ", "x");
    assert_string_equal(err.message, "opening x: first 1");
    assert_int_equal(error_set(NULL, CAFKA_ERR_IO, "nobody listens"), CAFKA_ERR_IO);
}

static void hex_goes_both_ways_and_refuses_nonsense(void **state)
{
    (void)state;
    uint8_t out[4];
    assert_int_equal(from_hex("00fFa9", 6, out), 3);
    assert_int_equal(out[1], 0xff);
    assert_int_equal(from_hex("0", 1, out), -1);
    assert_int_equal(from_hex("0g", 2, out), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varints_have_the_bytes_that_kafka_writes),
        cmocka_unit_test(varint_that_ends_early_or_is_too_long_fails),
        cmocka_unit_test(reader_yields_zeros_after_its_first_failure),
        cmocka_unit_test(map_keeps_order_over_removal_and_growth),
        cmocka_unit_test(map_survives_a_failing_allocation),
        cmocka_unit_test(memory_is_counted_for_what_it_is_for),
        cmocka_unit_test(an_allocator_that_comes_late_is_refused),
        cmocka_unit_test(arena_refuses_more_than_its_limit),
        cmocka_unit_test(mpsc_gives_items_in_the_order_of_pushing),
        cmocka_unit_test(hashes_are_java_s),
        cmocka_unit_test(uuid_text_goes_both_ways),
        cmocka_unit_test(first_error_is_kept),
        cmocka_unit_test(hex_goes_both_ways_and_refuses_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
