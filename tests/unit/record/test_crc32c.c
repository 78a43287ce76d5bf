/*
 * test_crc32c.c - the checksum of batches: known values, every implementation, joining pieces.
 */
#include "record_fixture.h"

#include <cjson/cJSON.h>
#include <zlib.h>

#include "record/crc32c.h"
#include "util/rng.h"

static void known_inputs_have_the_known_sums(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc32c(0, "", 0), 0);
    assert_int_equal(crc32c(0, "a", 1), 0xc1d04330);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, "kafka", 5), 0x084b20e1);
    assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aa);
    assert_int_equal(crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(crc32c(0, up, 32), 0x46dd794e);
    assert_int_equal(crc32c(0, down, 32), 0x113fdb5c);
}

static void golden_vectors_have_their_sums(void **state)
{
    (void)state;
    size_t seen = 0;
    char *text = golden_text("vectors.jsonl"), *rest = text, *at;
    while ((at = next_text_line(&rest))) {
        cJSON *line = cJSON_Parse(at);
        assert_non_null(line);
        const cJSON *kind = cJSON_GetObjectItemCaseSensitive(line, "kind");
        if (kind && !strcmp(kind->valuestring, "crc")) {
            struct bytes b =
                bytes_of_hex(cJSON_GetObjectItemCaseSensitive(line, "hex")->valuestring);
            char sum[9];
            snprintf(sum, sizeof sum, "%08x", crc32c(0, b.data, b.size));
            assert_string_equal(sum, cJSON_GetObjectItemCaseSensitive(line, "crc32c")->valuestring);
            snprintf(sum, sizeof sum, "%08x", crc32c_software(0, b.data, b.size));
            assert_string_equal(sum, cJSON_GetObjectItemCaseSensitive(line, "crc32c")->valuestring);
            snprintf(sum, sizeof sum, "%08lx", crc32(0, b.data, (uInt)b.size));
            assert_string_equal(sum, cJSON_GetObjectItemCaseSensitive(line, "crc32")->valuestring);
            free((void *)(uintptr_t)b.data);
            seen++;
        }
        cJSON_Delete(line);
    }
    free(text);
    assert_true(seen > 0);
}

static uint8_t noise[70000];

static int fill_noise(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 1);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)rng_next(&rng);
    return 0;
}

/* Byte by byte: nothing to get wrong. */
static uint32_t slow_crc(uint32_t crc, const uint8_t *p, size_t size)
{
    for (crc = ~crc; size; p++, size--) {
        crc ^= *p;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
    }
    return ~crc;
}

static void every_implementation_gives_the_same_for_every_length_and_alignment(void **state)
{
    (void)state;
    for (size_t offset = 0; offset < 9; offset++)
        for (size_t size = 0; size < 700; size += offset ? 7 : 1) {
            uint32_t expected = slow_crc(0x1234, noise + offset, size);
            assert_int_equal(crc32c(0x1234, noise + offset, size), expected);
            assert_int_equal(crc32c_software(0x1234, noise + offset, size), expected);
        }
    assert_int_equal(crc32c(0, noise, sizeof noise), slow_crc(0, noise, sizeof noise));
    assert_int_equal(crc32c_software(0, noise, sizeof noise), slow_crc(0, noise, sizeof noise));
}

static void sum_goes_on_where_another_ended(void **state)
{
    (void)state;
    uint32_t whole = crc32c(0, noise, sizeof noise);
    for (size_t cut = 0; cut <= sizeof noise; cut += 997)
        assert_int_equal(crc32c(crc32c(0, noise, cut), noise + cut, sizeof noise - cut), whole);
}

static void joined_sums_are_the_sum_of_the_whole(void **state)
{
    (void)state;
    for (size_t size = 0; size < sizeof noise; size = size * 3 / 2 + 1)
        for (size_t first = 0; first <= size; first += size / 7 + 1)
            assert_int_equal(crc32c_combine(crc32c(0, noise, first),
                                            crc32c(0, noise + first, size - first), size - first),
                             crc32c(0, noise, size));
}

/* Sizes that no test can sum up: a piece of zeros, doubled again and again, past 2^32. */
static void joining_is_right_for_huge_sizes(void **state)
{
    (void)state;
    uint8_t zeros[1024] = {0};
    uint32_t crc = crc32c(0, zeros, sizeof zeros);
    uint64_t size = sizeof zeros;
    for (; size < UINT64_C(1) << 36; size *= 2) {
        uint32_t twice = crc32c_combine(crc, crc, size);
        /* the same cut unevenly: 1 KiB and the rest */
        uint32_t one = crc32c(0, zeros, sizeof zeros);
        uint32_t rest = one;
        for (uint64_t part = sizeof zeros; part < size; part *= 2)
            rest = crc32c_combine(rest, rest, part);
        assert_int_equal(crc32c_combine(rest, crc, size), twice);
        crc = twice;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_inputs_have_the_known_sums),
        cmocka_unit_test(golden_vectors_have_their_sums),
        cmocka_unit_test(every_implementation_gives_the_same_for_every_length_and_alignment),
        cmocka_unit_test(sum_goes_on_where_another_ended),
        cmocka_unit_test(joined_sums_are_the_sum_of_the_whole),
        cmocka_unit_test(joining_is_right_for_huge_sizes),
    };
    return cmocka_run_group_tests_name("crc32c", tests, fill_noise, NULL);
}
