/*
 * test_legacy.c - message sets of magic 0 and 1: plain, wrapped, relative offsets, cut, nested.
 */
#include "record_fixture.h"

#include "record/legacy.h"
#include "record/open.h"

static struct bytes text(const char *s)
{
    return bytes_of(s, strlen(s));
}

static struct decompressor *decompressor;
static struct buffer inflated;

static int set_up(void **state)
{
    (void)state;
    return decompressor_new(&decompressor, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    decompressor_free(decompressor);
    buffer_fini(&inflated);
    return 0;
}

/* `count` messages with offsets first, first + 1, … and timestamps 100, 101, … */
static struct buffer make_set(int magic, int64_t first, int count)
{
    struct buffer set = {0};
    for (int i = 0; i < count; i++)
        legacy_put(&set, &(struct legacy_message){.offset = first + i,
                                                  .magic = (int8_t)magic,
                                                  .timestamp = 100 + i,
                                                  .key = text("key"),
                                                  .value = text("value")});
    return set;
}

/* Pack a set into one message. */
static struct buffer wrap(int magic, int codec, int8_t attributes, int64_t offset, struct bytes set)
{
    struct compressor *c;
    struct buffer out = {0};
    uint8_t packed[2000];
    size_t size;
    struct iovec piece = {(void *)(uintptr_t)set.data, set.size};
    assert_int_equal(compressor_new(&c, codec, CODEC_LEVEL_DEFAULT, NULL), CAFKA_OK);
    compressor_set_magic(c, magic);
    assert_int_equal(compressor_run(c, &piece, 1, packed, sizeof packed, &size, NULL), CAFKA_OK);
    legacy_put(&out, &(struct legacy_message){.offset = offset,
                                              .magic = (int8_t)magic,
                                              .attributes = (int8_t)(attributes | codec),
                                              .timestamp = 777,
                                              .value = bytes_of(packed, size)});
    compressor_free(c);
    return out;
}

/* Open one entry; records are read from `it` then. */
static int open_entry(struct bytes entry, struct record_iter *it)
{
    struct batch_header h;
    assert_int_equal(batch_check(entry, NULL), CAFKA_OK);
    assert_int_equal(batch_header_read(entry, &h, NULL), CAFKA_OK);
    return batch_open(entry, &h, decompressor, 10000, &inflated, it, NULL);
}

static void assert_offsets(struct record_iter *it, int64_t first, int count, int64_t timestamp,
                           int step)
{
    struct record_view view;
    for (int i = 0; i < count; i++) {
        assert_int_equal(record_iter_next(it, &view, NULL), CAFKA_OK);
        assert_int_equal(view.offset, first + i);
        assert_int_equal(view.timestamp, timestamp + i * step);
        assert_int_equal(view.index, i);
        assert_true(bytes_equal(view.key, text("key")));
        assert_true(bytes_equal(view.value, text("value")));
        assert_int_equal(view.header_count, 0);
    }
    assert_int_equal(record_iter_next(it, &view, NULL), CAFKA_END);
}

static void plain_messages_are_walked_over_one_by_one(void **state)
{
    (void)state;
    for (int magic = 0; magic < 2; magic++) {
        struct buffer set = make_set(magic, 500, 3);
        struct bytes rest = bytes_of(set.data, set.size);
        struct batch_slice slice;
        struct record_iter it;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(batch_walk_next(&rest, &slice, NULL), CAFKA_OK);
            assert_int_equal(slice.magic, magic);
            assert_int_equal(open_entry(slice.bytes, &it), CAFKA_OK);
            assert_offsets(&it, 500 + i, 1, magic ? 100 + i : -1, 0);
        }
        assert_int_equal(batch_walk_next(&rest, &slice, NULL), CAFKA_END);
        buffer_fini(&set);
    }
}

static void wrapped_offsets_are_absolute_with_magic_0_and_relative_with_magic_1(void **state)
{
    (void)state;
    static const int codecs[] = {CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4};
    for (int magic = 0; magic < 2; magic++)
        for (size_t i = 0; i < 3; i++) {
            if (!codec_available(codecs[i]))
                continue;
            struct buffer set = make_set(magic, magic ? 0 : 500, 4);
            struct buffer wrapper = wrap(magic, codecs[i], 0, 503, bytes_of(set.data, set.size));
            struct record_iter it;
            assert_int_equal(open_entry(bytes_of(wrapper.data, wrapper.size), &it), CAFKA_OK);
            assert_offsets(&it, 500, 4, magic ? 100 : -1, magic ? 1 : 0);
            buffer_fini(&set);
            buffer_fini(&wrapper);
        }
}

static void append_time_of_a_wrapper_is_that_of_all_inside(void **state)
{
    (void)state;
    struct buffer set = make_set(1, 0, 3);
    struct buffer wrapper =
        wrap(1, CODEC_GZIP, LEGACY_LOG_APPEND_TIME, 12, bytes_of(set.data, set.size));
    struct record_iter it;
    assert_int_equal(open_entry(bytes_of(wrapper.data, wrapper.size), &it), CAFKA_OK);
    assert_offsets(&it, 10, 3, 777, 0);
    buffer_fini(&set);
    buffer_fini(&wrapper);
}

static void wrapper_offset_0_means_that_it_was_never_set(void **state)
{
    (void)state;
    struct buffer set = make_set(1, 0, 3);
    struct buffer unset = wrap(1, CODEC_GZIP, 0, 0, bytes_of(set.data, set.size));
    struct buffer low = wrap(1, CODEC_GZIP, 0, 1, bytes_of(set.data, set.size));
    struct record_iter it;
    assert_int_equal(open_entry(bytes_of(unset.data, unset.size), &it), CAFKA_OK);
    assert_offsets(&it, 0, 3, 100, 1);
    assert_int_equal(open_entry(bytes_of(low.data, low.size), &it), CAFKA_ERR_PROTOCOL);
    buffer_fini(&set);
    buffer_fini(&unset);
    buffer_fini(&low);
}

/* However the inner set is cut: whole messages are given, a cut last one is dropped, none is an error. */
static void cut_inner_set_loses_only_its_last_message(void **state)
{
    (void)state;
    struct buffer set = make_set(0, 500, 3);
    size_t each = set.size / 3;
    for (size_t cut = 0; cut <= set.size; cut++) {
        struct buffer wrapper = wrap(0, CODEC_GZIP, 0, 502, bytes_of(set.data, cut));
        struct record_iter it;
        int rc = open_entry(bytes_of(wrapper.data, wrapper.size), &it);
        if (cut < each) {
            assert_int_equal(rc, CAFKA_ERR_PROTOCOL);
        } else {
            assert_int_equal(rc, CAFKA_OK);
            assert_offsets(&it, 500, (int)(cut / each), -1, 0);
        }
        buffer_fini(&wrapper);
    }
    buffer_fini(&set);
}

static void only_one_level_of_wrapping_is_read(void **state)
{
    (void)state;
    struct buffer set = make_set(1, 0, 3);
    struct buffer inner = wrap(1, CODEC_GZIP, 0, 2, bytes_of(set.data, set.size));
    struct buffer outer = wrap(1, CODEC_GZIP, 0, 2, bytes_of(inner.data, inner.size));
    struct record_iter it;
    assert_int_equal(open_entry(bytes_of(outer.data, outer.size), &it), CAFKA_ERR_PROTOCOL);
    buffer_fini(&set);
    buffer_fini(&inner);
    buffer_fini(&outer);
}

static void wrong_inner_sum_ends_the_reading(void **state)
{
    (void)state;
    struct buffer set = make_set(1, 0, 3);
    set.data[set.size - 1] ^= 1;
    struct buffer wrapper = wrap(1, CODEC_GZIP, 0, 2, bytes_of(set.data, set.size));
    struct record_iter it;
    struct record_view view;
    assert_int_equal(open_entry(bytes_of(wrapper.data, wrapper.size), &it), CAFKA_OK);
    assert_int_equal(record_iter_next(&it, &view, NULL), CAFKA_OK);
    assert_int_equal(record_iter_next(&it, &view, NULL), CAFKA_OK);
    assert_int_equal(record_iter_next(&it, &view, NULL), CAFKA_ERR_CORRUPT);
    buffer_fini(&set);
    buffer_fini(&wrapper);
}

static void null_and_zstd_wrappers_are_refused_and_bombs_bounded(void **state)
{
    (void)state;
    struct buffer null = {0}, zstd = {0}, zeros = {0};
    struct record_iter it;
    legacy_put(&null, &(struct legacy_message){.magic = 1, .attributes = CODEC_GZIP});
    legacy_put(&zstd,
               &(struct legacy_message){.magic = 1, .attributes = CODEC_ZSTD, .value = text("x")});
    assert_int_equal(open_entry(bytes_of(null.data, null.size), &it), CAFKA_ERR_PROTOCOL);
    assert_int_equal(open_entry(bytes_of(zstd.data, zstd.size), &it), CAFKA_ERR_PROTOCOL);
    uint8_t *room = buffer_extend(&zeros, 100000);
    assert_non_null(room);
    memset(room, 0, 100000);
    struct buffer bomb = wrap(1, CODEC_GZIP, 0, 2, bytes_of(zeros.data, zeros.size));
    assert_int_equal(open_entry(bytes_of(bomb.data, bomb.size), &it), CAFKA_ERR_TOO_LARGE);
    buffer_fini(&null);
    buffer_fini(&zstd);
    buffer_fini(&zeros);
    buffer_fini(&bomb);
}

static void message_is_read_as_it_was_written_and_cuts_are_refused(void **state)
{
    (void)state;
    for (int magic = 0; magic < 2; magic++) {
        struct buffer entry = {0};
        struct legacy_message read, m = {.offset = INT64_MAX,
                                         .magic = (int8_t)magic,
                                         .timestamp = 5,
                                         .key = {NULL, 0},
                                         .value = text("")};
        legacy_put(&entry, &m);
        assert_int_equal(batch_check(bytes_of(entry.data, entry.size), NULL), CAFKA_OK);
        assert_int_equal(legacy_read(bytes_of(entry.data, entry.size), &read, NULL), CAFKA_OK);
        assert_int_equal(read.offset, INT64_MAX);
        assert_int_equal(read.timestamp, magic ? 5 : -1);
        assert_null(read.key.data);
        assert_non_null(read.value.data);
        assert_int_equal(read.value.size, 0);
        for (size_t cut = 0; cut < entry.size; cut++) {
            assert_int_not_equal(legacy_read(bytes_of(entry.data, cut), &read, NULL), CAFKA_OK);
            assert_int_equal(batch_check(bytes_of(entry.data, cut), NULL), CAFKA_ERR_CORRUPT);
        }
        buffer_fini(&entry);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_messages_are_walked_over_one_by_one),
        cmocka_unit_test(wrapped_offsets_are_absolute_with_magic_0_and_relative_with_magic_1),
        cmocka_unit_test(append_time_of_a_wrapper_is_that_of_all_inside),
        cmocka_unit_test(wrapper_offset_0_means_that_it_was_never_set),
        cmocka_unit_test(cut_inner_set_loses_only_its_last_message),
        cmocka_unit_test(only_one_level_of_wrapping_is_read),
        cmocka_unit_test(wrong_inner_sum_ends_the_reading),
        cmocka_unit_test(null_and_zstd_wrappers_are_refused_and_bombs_bounded),
        cmocka_unit_test(message_is_read_as_it_was_written_and_cuts_are_refused),
    };
    return cmocka_run_group_tests_name("legacy", tests, set_up, tear_down);
}
