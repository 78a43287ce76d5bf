/*
 * test_compress.c - the codecs: there and back, framing, limits, damage, memory.
 */
#include "record_fixture.h"

#include <zstd.h>

#include "record/compress.h"
#include "util/rng.h"

enum { MOST = 300000 };
static uint8_t noise[MOST], words[MOST];

static int fill(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 4);
    for (size_t i = 0; i < MOST; i++) {
        noise[i] = (uint8_t)rng_next(&rng);
        words[i] = (uint8_t)("some words that come again "[i % 27] ^ (rng_below(&rng, 40) == 0));
    }
    return 0;
}

static struct compressor *new_compressor(int codec, int level)
{
    struct compressor *c = NULL;
    cafka_error err = {0};
    assert_int_equal(compressor_new(&c, codec, level, &err), CAFKA_OK);
    return c;
}

/* Compress in one piece; the result is allocated. */
static struct bytes pack(struct compressor *c, struct bytes in)
{
    struct iovec piece = {(void *)(uintptr_t)in.data, in.size};
    size_t bound = compressor_bound(c, in.size), size = 0;
    uint8_t *out = malloc(bound + 1);
    assert_non_null(out);
    assert_int_equal(compressor_run(c, &piece, 1, out, bound, &size, NULL), CAFKA_OK);
    assert_true(size <= bound);
    return bytes_of(out, size);
}

static void assert_inflates_to(struct decompressor *d, int codec, struct bytes packed,
                               struct bytes expected)
{
    struct buffer out = {0};
    cafka_error err = {0};
    if (decompressor_run(d, codec, 2, packed, expected.size, &out, &err))
        fail_msg("%s of %zu bytes: %s", codec_name(codec), expected.size, err.message);
    assert_int_equal(out.size, expected.size);
    if (expected.size)
        assert_memory_equal(out.data, expected.data, expected.size);
    buffer_fini(&out);
}

static void drop(struct bytes b)
{
    free((void *)(uintptr_t)b.data);
}

static const int levels[CODEC_COUNT][5] = {
    [CODEC_NONE] = {CODEC_LEVEL_DEFAULT},
    [CODEC_GZIP] = {CODEC_LEVEL_DEFAULT, -1, 1, 6, 9},
    [CODEC_SNAPPY] = {CODEC_LEVEL_DEFAULT},
    [CODEC_LZ4] = {CODEC_LEVEL_DEFAULT, 1, 8, 10, 17},
    [CODEC_ZSTD] = {CODEC_LEVEL_DEFAULT, -131072, -1, 3, 19},
};

/* A limit of exactly the size is enough, and one compressor and decompressor serve all sizes in turn. */
static void everything_comes_back_with_every_codec_and_level(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,     1,     5,     100,   32767,  32768,
                                   32769, 65535, 65536, 65537, 131072, MOST};
    struct decompressor *d;
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++)
        for (int l = 0; l < 5 && codec_available(codec) && (!l || levels[codec][l]); l++) {
            struct compressor *c = new_compressor(codec, levels[codec][l]);
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                const uint8_t *inputs[] = {words, noise};
                for (int k = 0; k < 2; k++) {
                    struct bytes in = bytes_of(inputs[k], sizes[i]);
                    struct bytes packed = pack(c, in);
                    assert_inflates_to(d, codec, packed, in);
                    drop(packed);
                }
            }
            compressor_free(c);
        }
    decompressor_free(d);
}

static void input_may_lie_in_pieces(void **state)
{
    (void)state;
    struct decompressor *d;
    struct rng rng;
    rng_seed(&rng, 5);
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        struct compressor *c = new_compressor(codec, CODEC_LEVEL_DEFAULT);
        size_t bound = compressor_bound(c, MOST), size;
        uint8_t *out = malloc(bound);
        assert_non_null(out);
        for (int round = 0; round < 20; round++) {
            struct iovec pieces[64];
            size_t count = 0, at = 0, most = round % 2 ? 20000 : 200000;
            while (at < MOST && count < 63) {
                size_t piece = rng_below(&rng, most);
                if (piece > MOST - at)
                    piece = MOST - at;
                pieces[count++] = (struct iovec){words + at, piece};
                at += piece;
            }
            pieces[count++] = (struct iovec){words + at, MOST - at};
            assert_int_equal(compressor_run(c, pieces, count, out, bound, &size, NULL), CAFKA_OK);
            assert_inflates_to(d, codec, bytes_of(out, size), bytes_of(words, MOST));
        }
        assert_int_equal(compressor_run(c, NULL, 0, out, bound, &size, NULL), CAFKA_OK);
        assert_inflates_to(d, codec, bytes_of(out, size), bytes_of(words, 0));
        free(out);
        compressor_free(c);
    }
    decompressor_free(d);
}

/* The room is given as it is: exactly enough is enough, less is told and nothing beyond is written. */
static void output_never_passes_its_room(void **state)
{
    (void)state;
    struct bytes inputs[] = {bytes_of(words, 0), bytes_of(words, 3000), bytes_of(noise, 300),
                             bytes_of(words, 70000)};
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        struct compressor *c = new_compressor(codec, CODEC_LEVEL_DEFAULT);
        for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
            struct bytes packed = pack(c, inputs[i]);
            struct iovec piece = {(void *)(uintptr_t)inputs[i].data, inputs[i].size};
            for (size_t room = 0; room <= packed.size;
                 room += packed.size > 500 && room + 99 < packed.size ? 97 : 1) {
                uint8_t *out =
                    malloc(room + 1); /* the next byte is the sanitizer's, this one ours */
                size_t size = 0;
                cafka_error err = {0};
                assert_non_null(out);
                out[room] = 0x5a;
                int rc = compressor_run(c, &piece, 1, out, room, &size, &err);
                assert_int_equal(out[room], 0x5a);
                if (room < packed.size) {
                    assert_int_equal(rc, CAFKA_ERR_TOO_LARGE);
                    assert_int_equal(err.code, rc);
                } else if (codec != CODEC_ZSTD && codec != CODEC_LZ4) {
                    assert_int_equal(rc, CAFKA_OK);
                }
                free(out);
            }
            drop(packed);
        }
        compressor_free(c);
    }
}

static void bombs_stop_at_the_limit(void **state)
{
    (void)state;
    enum { BOMB = 64 << 20, LIMIT = 100000 };
    uint8_t *zeros = calloc(1, BOMB);
    assert_non_null(zeros);
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        struct compressor *c = new_compressor(codec, codec == CODEC_GZIP ? 1 : CODEC_LEVEL_DEFAULT);
        struct bytes packed = pack(c, bytes_of(zeros, BOMB));
        struct decompressor *d;
        struct buffer out = {0};
        assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
        assert_int_equal(decompressor_run(d, codec, 2, packed, LIMIT, &out, NULL),
                         CAFKA_ERR_TOO_LARGE);
        assert_true(out.size <= LIMIT);
        assert_true(out.capacity <= 2 * LIMIT + 65536);
        assert_int_equal(decompressor_run(d, codec, 2, packed, 0, &out, NULL), CAFKA_ERR_TOO_LARGE);
        drop(packed);
        compressor_free(c);
        decompressor_free(d);
        buffer_fini(&out);
    }
    free(zeros);
}

static void one_byte_below_the_size_is_too_small_a_limit(void **state)
{
    (void)state;
    struct decompressor *d;
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        struct compressor *c = new_compressor(codec, CODEC_LEVEL_DEFAULT);
        static const size_t sizes[] = {1, 1000, 65536, 70000};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct bytes packed = pack(c, bytes_of(words, sizes[i]));
            struct buffer out = {0};
            buffer_put(&out, "before", 6); /* what is in the buffer does not count */
            assert_int_equal(decompressor_run(d, codec, 2, packed, sizes[i] - 1, &out, NULL),
                             CAFKA_ERR_TOO_LARGE);
            out.size = 6;
            assert_int_equal(decompressor_run(d, codec, 2, packed, sizes[i], &out, NULL), CAFKA_OK);
            assert_int_equal(out.size, 6 + sizes[i]);
            assert_memory_equal(out.data, "before", 6);
            drop(packed);
            buffer_fini(&out);
        }
        compressor_free(c);
    }
    decompressor_free(d);
}

static void cut_data_is_refused_wherever_it_ends(void **state)
{
    (void)state;
    struct decompressor *d;
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        struct compressor *c = new_compressor(codec, CODEC_LEVEL_DEFAULT);
        struct bytes packed = pack(c, bytes_of(words, 2000));
        for (size_t cut = 1; cut < packed.size; cut++) {
            uint8_t *copy = malloc(cut);
            struct buffer out = {0};
            assert_non_null(copy);
            memcpy(copy, packed.data, cut);
            int rc = decompressor_run(d, codec, 2, bytes_of(copy, cut), 1 << 20, &out, NULL);
            if (codec == CODEC_SNAPPY && cut >= 16 && cut < 20)
                assert_true(!rc && !out.size); /* a head without a block is an empty stream */
            else
                assert_int_equal(rc, CAFKA_ERR_COMPRESSION);
            free(copy);
            buffer_fini(&out);
        }
        drop(packed);
        compressor_free(c);
    }
    decompressor_free(d);
}

static void damaged_data_is_refused_or_bounded(void **state)
{
    (void)state;
    struct decompressor *d;
    struct rng rng;
    rng_seed(&rng, 6);
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    struct buffer out = {0};
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        struct compressor *c = new_compressor(codec, CODEC_LEVEL_DEFAULT);
        struct bytes packed = pack(c, bytes_of(words, 2000));
        uint8_t *copy = malloc(packed.size);
        assert_non_null(copy);
        for (int round = 0; round < 3000; round++) {
            memcpy(copy, packed.data, packed.size);
            for (int i = 0; i < 1 + round % 3; i++)
                copy[rng_below(&rng, packed.size)] ^= (uint8_t)(1 << rng_below(&rng, 8));
            buffer_clear(&out);
            int rc = decompressor_run(d, codec, round % 3, bytes_of(copy, packed.size), 5000, &out,
                                      NULL);
            assert_true(rc == CAFKA_OK || rc == CAFKA_ERR_COMPRESSION || rc == CAFKA_ERR_TOO_LARGE);
            assert_true(out.size <= 5000);
        }
        /* and a decompressor that failed works on */
        assert_inflates_to(d, codec, packed, bytes_of(words, 2000));
        free(copy);
        drop(packed);
        compressor_free(c);
    }
    buffer_fini(&out);
    decompressor_free(d);
}

static void snappy_has_xerials_head_and_blocks_of_32_kib(void **state)
{
    (void)state;
    if (!codec_available(CODEC_SNAPPY))
        return; /* see missing_snappy_is_said() */
    static const uint8_t head[] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};
    struct compressor *c = new_compressor(CODEC_SNAPPY, CODEC_LEVEL_DEFAULT);
    struct bytes packed = pack(c, bytes_of(words, 70000));
    assert_memory_equal(packed.data, head, sizeof head);
    size_t at = sizeof head, blocks = 0;
    for (; at < packed.size; blocks++) {
        uint64_t inflated;
        assert_non_null(uvarint_get(packed.data + at + 4, packed.data + packed.size, 5, &inflated));
        assert_int_equal(inflated, blocks < 2 ? 32768 : 70000 - 2 * 32768);
        at += 4 + load_be32(packed.data + at);
    }
    assert_int_equal(at, packed.size);
    assert_int_equal(blocks, 3);
    drop(packed);
    compressor_free(c);
}

static void lz4_head_of_magic_0_has_the_old_mistake(void **state)
{
    (void)state;
    struct compressor *c = new_compressor(CODEC_LZ4, CODEC_LEVEL_DEFAULT);
    struct decompressor *d;
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    struct bytes right = pack(c, bytes_of(words, 100));
    compressor_set_magic(c, 0);
    struct bytes wrong = pack(c, bytes_of(words, 100));
    assert_int_equal(right.data[6], 0x82);
    assert_int_equal(wrong.data[6], 0x1a);
    struct buffer out = {0};
    assert_int_equal(decompressor_run(d, CODEC_LZ4, 0, right, 100, &out, NULL), CAFKA_OK);
    assert_int_equal(decompressor_run(d, CODEC_LZ4, 0, wrong, 100, &out, NULL), CAFKA_OK);
    assert_int_equal(decompressor_run(d, CODEC_LZ4, 1, right, 100, &out, NULL), CAFKA_OK);
    assert_int_equal(decompressor_run(d, CODEC_LZ4, 1, wrong, 100, &out, NULL),
                     CAFKA_ERR_COMPRESSION);
    buffer_fini(&out);
    drop(right);
    drop(wrong);
    decompressor_free(d);
    compressor_free(c);
}

/* A streaming writer with the largest window and no content size, as Java's at level 22. */
static void zstd_without_content_size_and_with_a_huge_window_is_read(void **state)
{
    (void)state;
    uint8_t packed[20000];
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_non_null(context);
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 27);
    ZSTD_outBuffer out = {packed, sizeof packed, 0};
    for (size_t at = 0; at <= 50000; at += 10000) {
        ZSTD_inBuffer in = {words + at, at < 50000 ? 10000 : 0, 0};
        size_t rc =
            ZSTD_compressStream2(context, &out, &in, at < 50000 ? ZSTD_e_continue : ZSTD_e_end);
        assert_false(ZSTD_isError(rc));
    }
    ZSTD_freeCCtx(context);
    assert_int_equal(ZSTD_getFrameContentSize(packed, out.pos), ZSTD_CONTENTSIZE_UNKNOWN);
    struct decompressor *d;
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    assert_inflates_to(d, CODEC_ZSTD, bytes_of(packed, out.pos), bytes_of(words, 50000));
    decompressor_free(d);
}

static void unknown_codecs_and_levels_are_refused(void **state)
{
    (void)state;
    struct compressor *c;
    struct decompressor *d;
    struct buffer out = {0};
    assert_int_equal(compressor_new(&c, 5, CODEC_LEVEL_DEFAULT, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(compressor_new(&c, -1, CODEC_LEVEL_DEFAULT, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(compressor_new(&c, CODEC_GZIP, 0, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(compressor_new(&c, CODEC_GZIP, 10, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(compressor_new(&c, CODEC_LZ4, 18, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(compressor_new(&c, CODEC_ZSTD, 23, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(compressor_new(&c, CODEC_ZSTD, -131073, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    for (int codec = CODEC_COUNT; codec < 8; codec++)
        assert_int_equal(decompressor_run(d, codec, 2, bytes_of(words, 10), 100, &out, NULL),
                         CAFKA_ERR_COMPRESSION);
    decompressor_free(d);
    buffer_fini(&out);
    assert_int_equal(codec_find(str_of("lz4")), CODEC_LZ4);
    assert_int_equal(codec_find(str_of("none")), CODEC_NONE);
    assert_int_equal(codec_find(str_of("LZ4")), -1);
    assert_string_equal(codec_name(7), "?");
}

static void missing_snappy_is_said(void **state)
{
    (void)state;
    if (codec_available(CODEC_SNAPPY))
        return;
    struct compressor *c;
    struct decompressor *d;
    struct buffer out = {0};
    cafka_error err = {0};
    assert_int_equal(compressor_new(&c, CODEC_SNAPPY, CODEC_LEVEL_DEFAULT, &err),
                     CAFKA_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "snappy"));
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    assert_int_equal(decompressor_run(d, CODEC_SNAPPY, 2, bytes_of(words, 10), 100, &out, NULL),
                     CAFKA_ERR_UNSUPPORTED);
    decompressor_free(d);
    buffer_fini(&out);
}

/* What a producer and a consumer do for hours asks the allocator for nothing. */
static void steady_work_allocates_nothing(void **state)
{
    (void)state;
    struct decompressor *d;
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    struct buffer out = {0};
    uint8_t *packed = malloc(2 * MOST);
    assert_non_null(packed);
    for (int codec = CODEC_GZIP; codec < CODEC_COUNT; codec++) {
        if (!codec_available(codec))
            continue;
        struct compressor *c = new_compressor(codec, CODEC_LEVEL_DEFAULT);
        struct iovec pieces[] = {{words, 20000}, {words + 20000, 50000}};
        for (int round = 0; round < 3; round++) {
            size_t size;
            if (round == 2)
                mem_fail_after(0, 0);
            unsigned long before = mem_count();
            assert_int_equal(compressor_run(c, pieces, 2, packed, 2 * MOST, &size, NULL), CAFKA_OK);
            buffer_clear(&out);
            assert_int_equal(decompressor_run(d, codec, 2, bytes_of(packed, size), MOST, &out, NULL),
                             CAFKA_OK);
            if (round == 2)
                assert_int_equal(mem_count(), before);
        }
        compressor_free(c);
    }
    free(packed);
    buffer_fini(&out);
    decompressor_free(d);
}

static void lack_of_memory_is_an_error_at_every_allocation(void **state)
{
    (void)state;
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        int rc = CAFKA_ERR_MEMORY;
        if (!codec_available(codec))
            continue;
        for (unsigned long k = 1; rc; k++) {
            struct compressor *c = NULL;
            struct decompressor *d = NULL;
            struct buffer out = {0};
            struct iovec piece = {words, 70000};
            static uint8_t packed[200000];
            size_t size = 0;
            cafka_error err = {0};
            mem_fail_after(k, 1);
            rc = compressor_new(&c, codec, CODEC_LEVEL_DEFAULT, &err);
            if (!rc)
                rc = compressor_run(c, &piece, 1, packed, sizeof packed, &size, &err);
            if (!rc)
                rc = decompressor_new(&d, &err);
            if (!rc)
                rc = decompressor_run(d, codec, 2, bytes_of(packed, size), MOST, &out, &err);
            mem_fail_after(0, 0);
            assert_true(rc == CAFKA_OK || rc == CAFKA_ERR_MEMORY);
            assert_int_equal(err.code, rc);
            compressor_free(c);
            decompressor_free(d);
            buffer_fini(&out);
            assert_true(k < 100);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back_with_every_codec_and_level),
        cmocka_unit_test(input_may_lie_in_pieces),
        cmocka_unit_test(output_never_passes_its_room),
        cmocka_unit_test(bombs_stop_at_the_limit),
        cmocka_unit_test(one_byte_below_the_size_is_too_small_a_limit),
        cmocka_unit_test(cut_data_is_refused_wherever_it_ends),
        cmocka_unit_test(damaged_data_is_refused_or_bounded),
        cmocka_unit_test(snappy_has_xerials_head_and_blocks_of_32_kib),
        cmocka_unit_test(lz4_head_of_magic_0_has_the_old_mistake),
        cmocka_unit_test(zstd_without_content_size_and_with_a_huge_window_is_read),
        cmocka_unit_test(unknown_codecs_and_levels_are_refused),
        cmocka_unit_test(missing_snappy_is_said),
        cmocka_unit_test(steady_work_allocates_nothing),
        cmocka_unit_test(lack_of_memory_is_an_error_at_every_allocation),
    };
    return cmocka_run_group_tests_name("compress", tests, fill, NULL);
}
