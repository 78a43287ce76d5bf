/*
 * test_batch.c - batches are built, sealed, stamped, walked over, opened, checked.
 */
#include "record_fixture.h"

#include <cjson/cJSON.h>

#include "record/builder.h"
#include "record/control.h"
#include "record/crc32c.h"
#include "record/open.h"
#include "record/validate.h"
#include "util/rng.h"

static struct bytes text(const char *s)
{
    return bytes_of(s, strlen(s));
}

static const struct bytes null = {NULL, 0};

static void assert_hex(const void *data, size_t size, const char *expected)
{
    char *hex = malloc(2 * size + 1);
    assert_non_null(hex);
    to_hex(data, size, hex);
    assert_string_equal(hex, expected);
    free(hex);
}

/* --- building --- */

static void batch_has_the_bytes_that_kafka_writes(void **state)
{
    (void)state;
    struct record_header header = {str_of("h"), text("x")};
    struct record_data records[] = {
        {.timestamp = 1600000000000,
         .key = text("k"),
         .value = text("v1"),
         .headers = &header,
         .header_count = 1},
        {.timestamp = 1600000000001, .key = null, .value = text("v2")},
    };
    struct batch_header h;
    struct buffer out = {0};
    batch_header_init(&h);
    h.base_timestamp = INT64_MIN; /* that of the first record */

    assert_int_equal(batch_build(&h, records, 2, NULL, &out, NULL), CAFKA_OK);

    assert_hex(out.data, out.size,
               "000000000000000000000048ffffffff02ece6158300000000000100000174876e800000000174876e8001"
               "ffffffffffffffffffffffffffff000000021a000000026b0476310202680278100002020104763200");
    buffer_fini(&out);
}

static void commit_marker_has_the_bytes_that_kafka_writes(void **state)
{
    (void)state;
    uint8_t out[END_TXN_BATCH_SIZE];
    end_txn_batch_write(out, true, 1000, 2, 7, 1600000000000);
    batch_set_offset_and_epoch(out, 5, 3);
    assert_hex(out, sizeof out,
               "0000000000000005000000420000000302b7f6fa1800300000000000000174876e800000000174876e8000"
               "00000000000003e80002ffffffff000000012000000008000000010c00000000000700");
}

static void leader_change_is_read_as_it_was_written(void **state)
{
    (void)state;
    static const int32_t voters[] = {1, 2, 3}, granting[] = {2, 3};
    struct buffer out = {0};
    assert_int_equal(leader_change_batch_write(&out, 2, voters, 3, granting, 2, 9, 1600000000000,
                                               NULL),
                     0);

    struct batch_header h;
    struct record_iter it;
    struct record_view view;
    struct leader_change change;
    struct leader_change_voter voter;
    int16_t type;
    assert_int_equal(batch_check(bytes_of(out.data, out.size), NULL), CAFKA_OK);
    assert_int_equal(batch_header_read(bytes_of(out.data, out.size), &h, NULL), CAFKA_OK);
    assert_true(batch_is_control(&h));
    assert_int_equal(h.leader_epoch, 9);
    assert_int_equal(batch_open(bytes_of(out.data, out.size), &h, NULL, 0, NULL, &it, NULL),
                     CAFKA_OK);
    assert_int_equal(record_iter_next(&it, &view, NULL), CAFKA_OK);
    assert_int_equal(control_type_read(view.key, &type, NULL), CAFKA_OK);
    assert_int_equal(type, CONTROL_LEADER_CHANGE);
    assert_int_equal(leader_change_read(view.value, &change, NULL), CAFKA_OK);
    assert_int_equal(change.leader_id, 2);
    assert_int_equal(change.voter_count, 3);
    assert_int_equal(change.granting_voter_count, 2);
    struct bytes rest = change.granting_voters;
    assert_true(leader_change_voter_next(&change, &rest, &voter));
    assert_int_equal(voter.id, 2);
    assert_true(leader_change_voter_next(&change, &rest, &voter));
    assert_int_equal(voter.id, 3);
    assert_false(leader_change_voter_next(&change, &rest, &voter));
    for (size_t cut = 0; cut < view.value.size; cut++)
        assert_int_not_equal(leader_change_read(bytes_of(view.value.data, cut), &change, NULL), 0);
    buffer_fini(&out);
}

/* A record whose every size is somewhere around where its number grows by a byte. */
static void random_record(struct rng *rng, const uint8_t *noise, struct record_data *out,
                          struct record_header *headers)
{
    static const size_t sizes[] = {0, 1, 31, 62, 63, 64, 65, 127, 128, 1000, 8191, 8192};
    static const int64_t times[] = {0, 1, -1, 63, 64, -65, 8192, INT64_MAX, INT64_MIN, 1 << 20};
#define PICK(array) array[rng_below(rng, sizeof array / sizeof *array)]
    *out = (struct record_data){.timestamp = PICK(times)};
    if (rng_below(rng, 4))
        out->key = bytes_of(noise, PICK(sizes));
    if (rng_below(rng, 8))
        out->value = bytes_of(noise + 7, PICK(sizes));
    out->headers = headers;
    out->header_count = rng_below(rng, 3) ? 0 : rng_below(rng, 4);
    for (size_t i = 0; i < out->header_count; i++) {
        headers[i].name = (struct str){(const char *)noise + 3, PICK(sizes)};
        headers[i].value = rng_below(rng, 3) ? bytes_of(noise + 5, PICK(sizes)) : null;
    }
}

static void assert_record(const struct record_data *expected, int32_t index, int64_t base_offset,
                          const struct record_view *view)
{
    assert_int_equal(view->index, index);
    assert_int_equal(view->offset, base_offset + index);
    assert_int_equal(view->timestamp, expected->timestamp);
    assert_true(bytes_equal(view->key, expected->key));
    assert_true(bytes_equal(view->value, expected->value));
    assert_int_equal(view->header_count, expected->header_count);
    struct header_iter it = record_headers(view);
    struct record_header header;
    for (size_t i = 0; i < expected->header_count; i++) {
        assert_true(header_iter_next(&it, &header));
        assert_true(str_equal(header.name, expected->headers[i].name));
        assert_true(bytes_equal(header.value, expected->headers[i].value));
    }
    assert_false(header_iter_next(&it, &header));
}

static void records_are_read_as_they_were_put_and_sizes_are_exact(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static uint8_t noise[10000];
    static struct record_data records[COUNT];
    static struct record_header headers[COUNT][4];
    struct rng rng;
    rng_seed(&rng, 2);
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)rng_next(&rng);
    for (int i = 0; i < COUNT; i++)
        random_record(&rng, noise, &records[i], headers[i]);

    struct batch_header h;
    struct buffer out = {0};
    batch_header_init(&h);
    h.base_offset = 1000;
    assert_int_equal(batch_build(&h, records, COUNT, NULL, &out, NULL), CAFKA_OK);

    size_t total = RECORD_BATCH_OVERHEAD;
    for (int i = 0; i < COUNT; i++) {
        size_t headers_size = 0, contents = 0;
        for (size_t k = 0; k < records[i].header_count; k++) {
            headers_size += record_header_size(headers[i][k].name.size, headers[i][k].value);
            contents += headers[i][k].name.size + headers[i][k].value.size;
        }
        size_t size =
            record_size(record_body_size(records[i].timestamp, i, records[i].key, records[i].value,
                                         records[i].header_count, headers_size));
        assert_true(size <= record_upper_bound(records[i].key.size, records[i].value.size,
                                               records[i].header_count, contents));
        total += size;
    }
    assert_int_equal(total, out.size);

    struct record_iter it;
    struct record_view view;
    struct bytes batch = bytes_of(out.data, out.size);
    assert_int_equal(batch_check(batch, NULL), CAFKA_OK);
    assert_int_equal(batch_open(batch, &h, NULL, 0, NULL, &it, NULL), CAFKA_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(record_iter_next(&it, &view, NULL), CAFKA_OK);
        assert_record(&records[i], i, 1000, &view);
    }
    assert_int_equal(record_iter_next(&it, &view, NULL), CAFKA_END);
    assert_int_equal(record_iter_next(&it, &view, NULL), CAFKA_END);
    buffer_fini(&out);
}

static void value_written_in_place_gives_the_same_record(void **state)
{
    (void)state;
    uint8_t whole[100], parts[100];
    struct bytes value = text("the value");
    size_t body = record_body_size(70, 300, text("key"), value, 0, 0);
    uint8_t *end = record_put(whole, body, 70, 300, text("key"), value, 0);

    uint8_t *p = record_put_prefix(parts, body, 70, 300, text("key"), value.size);
    memcpy(p, value.data, value.size);
    p = record_put_number(p + value.size, 0);

    assert_int_equal(p - parts, end - whole);
    assert_memory_equal(whole, parts, (size_t)(end - whole));
}

/* --- sealing and stamping --- */

static struct buffer sample_batch(struct batch_header *h, int count)
{
    struct buffer out = {0};
    struct record_data records[20] = {0};
    for (int i = 0; i < count; i++)
        records[i] = (struct record_data){.timestamp = 1000 + i,
                                          .key = text("key"),
                                          .value = text("some value")};
    batch_header_init(h);
    h->base_timestamp = INT64_MIN;
    assert_int_equal(batch_build(h, records, (size_t)count, NULL, &out, NULL), CAFKA_OK);
    return out;
}

static void sealing_needs_only_the_sum_of_the_pieces(void **state)
{
    (void)state;
    struct batch_header h;
    struct buffer whole = sample_batch(&h, 20);
    const uint8_t *records = whole.data + RECORD_BATCH_OVERHEAD;
    size_t size = whole.size - RECORD_BATCH_OVERHEAD;
    for (size_t cut = 0; cut <= size; cut += 13) {
        uint8_t header[RECORD_BATCH_OVERHEAD];
        uint32_t crc = crc32c(crc32c(0, records, cut), records + cut, size - cut);
        batch_seal(&h, size, crc, header);
        assert_memory_equal(header, whole.data, sizeof header);
    }
    buffer_fini(&whole);
}

static void stamped_batch_is_as_if_sealed_with_the_stamp(void **state)
{
    (void)state;
    struct batch_header h;
    struct buffer b = sample_batch(&h, 3);
    size_t size = b.size - RECORD_BATCH_OVERHEAD;
    uint32_t crc = crc32c(0, b.data + RECORD_BATCH_OVERHEAD, size);
    assert_int_equal(batch_records_crc(b.data, b.size), crc);

    batch_set_producer(b.data, 4711, 5, 77, size, crc);
    assert_int_equal(batch_check(bytes_of(b.data, b.size), NULL), CAFKA_OK);
    h.producer_id = 4711;
    h.producer_epoch = 5;
    h.base_sequence = 77;
    uint8_t fresh[RECORD_BATCH_OVERHEAD];
    batch_seal(&h, size, crc, fresh);
    assert_memory_equal(fresh, b.data, sizeof fresh);

    batch_set_offset_and_epoch(b.data, 123456789012, 8);
    assert_int_equal(batch_check(bytes_of(b.data, b.size), NULL), CAFKA_OK);
    assert_int_equal(batch_header_read(bytes_of(b.data, b.size), &h, NULL), CAFKA_OK);
    assert_int_equal(h.base_offset, 123456789012);
    assert_int_equal(h.leader_epoch, 8);
    assert_int_equal(batch_last_offset(&h), 123456789014);
    assert_int_equal(batch_last_sequence(&h), 79);

    batch_set_timestamp(b.data, b.size, true, 5555);
    assert_int_equal(batch_check(bytes_of(b.data, b.size), NULL), CAFKA_OK);
    struct record_iter it;
    struct record_view view;
    assert_int_equal(batch_header_read(bytes_of(b.data, b.size), &h, NULL), CAFKA_OK);
    assert_int_equal(batch_open(bytes_of(b.data, b.size), &h, NULL, 0, NULL, &it, NULL), CAFKA_OK);
    while (!record_iter_next(&it, &view, NULL))
        assert_int_equal(view.timestamp, 5555); /* LogAppendTime */
    assert_int_equal(view.index, 2);
    buffer_fini(&b);
}

static void sequences_wrap_to_zero(void **state)
{
    (void)state;
    assert_int_equal(sequence_add(0, 5), 5);
    assert_int_equal(sequence_add(INT32_MAX, 0), INT32_MAX);
    assert_int_equal(sequence_add(INT32_MAX, 1), 0);
    assert_int_equal(sequence_add(INT32_MAX - 1, 3), 1);
    assert_int_equal(sequence_add(INT32_MAX, INT32_MAX), INT32_MAX - 1);
}

/* --- walking and checking --- */

static void walk_finds_each_batch_and_leaves_a_partial_one(void **state)
{
    (void)state;
    struct batch_header h;
    struct buffer one = sample_batch(&h, 3), all = {0};
    for (int i = 0; i < 3; i++)
        buffer_put(&all, one.data, one.size);

    for (size_t cut = 0; cut <= all.size; cut++) {
        struct bytes rest = bytes_of(all.data, cut);
        struct batch_slice slice;
        size_t found = 0;
        int rc;
        while (!(rc = batch_walk_next(&rest, &slice, NULL))) {
            assert_int_equal(slice.bytes.size, one.size);
            assert_int_equal(slice.magic, 2);
            found++;
        }
        assert_int_equal(rc, CAFKA_END);
        assert_int_equal(found, cut / one.size);
        assert_int_equal(rest.size, cut % one.size);
        assert_int_equal(batch_peek_size(rest), rest.size > 16 ? one.size : 0);
    }
    buffer_fini(&one);
    buffer_fini(&all);
}

static void any_changed_bit_is_noticed(void **state)
{
    (void)state;
    struct batch_header h;
    struct buffer b = sample_batch(&h, 2);
    for (size_t bit = 0; bit < 8 * b.size; bit++) {
        size_t at = bit / 8;
        bool outside = at < BATCH_LENGTH_AT || (at >= BATCH_LEADER_EPOCH_AT && at < BATCH_MAGIC_AT);
        b.data[at] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(batch_check(bytes_of(b.data, b.size), NULL),
                         outside ? CAFKA_OK : CAFKA_ERR_CORRUPT);
        b.data[at] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < b.size; cut++)
        assert_int_equal(batch_check(bytes_of(b.data, cut), NULL), CAFKA_ERR_CORRUPT);
    buffer_fini(&b);
}

/* The bytes end somewhere, but the header (and a CRC made for it) say all is well. */
static void records_cut_anywhere_are_refused_without_reading_on(void **state)
{
    (void)state;
    struct batch_header h;
    struct buffer b = sample_batch(&h, 5);
    size_t size = b.size - RECORD_BATCH_OVERHEAD;
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1); /* so that a sanitizer sees a read too far */
        assert_non_null(copy);
        memcpy(copy, b.data + RECORD_BATCH_OVERHEAD, cut);
        struct record_iter it;
        struct record_view view;
        cafka_error err = {0};
        int rc, read = 0;
        record_iter_init(&it, bytes_of(copy, cut), 0, 0, 5);
        while (!(rc = record_iter_next(&it, &view, &err)))
            read++;
        assert_int_equal(rc, CAFKA_ERR_PROTOCOL);
        assert_int_equal(it.index, read);
        assert_true(read < 5);
        assert_int_equal(record_iter_next(&it, &view, NULL), CAFKA_ERR_PROTOCOL); /* stays */
        free(copy);
    }
    buffer_fini(&b);
}

static void random_bytes_never_make_the_iterator_stray(void **state)
{
    (void)state;
    struct rng rng;
    rng_seed(&rng, 3);
    struct batch_header h;
    struct buffer b = sample_batch(&h, 5);
    size_t size = b.size - RECORD_BATCH_OVERHEAD;
    for (int round = 0; round < 20000; round++) {
        uint8_t copy[256];
        assert_true(size < sizeof copy);
        memcpy(copy, b.data + RECORD_BATCH_OVERHEAD, size);
        for (int changes = 0; changes < 3; changes++)
            copy[rng_below(&rng, size)] = (uint8_t)rng_next(&rng);
        struct record_iter it;
        struct record_view view;
        record_iter_init(&it, bytes_of(copy, size), 0, 0, 5);
        while (!record_iter_next(&it, &view, NULL)) {
            assert_true(!view.key.data ||
                        (view.key.data >= copy && view.key.data + view.key.size <= copy + size));
            assert_true(!view.value.data || view.value.data + view.value.size <= copy + size);
            struct header_iter headers = record_headers(&view);
            struct record_header header;
            int32_t seen = 0;
            while (header_iter_next(&headers, &header))
                seen++;
            assert_int_equal(seen, view.header_count);
        }
    }
    buffer_fini(&b);
}

/* --- the quick way of quick_record.h --- */

static void assert_same_reading(struct bytes records, int64_t base, int32_t count, bool appended)
{
    struct record_iter quick, careful;
    struct record_view a, b;
    int rc;
    record_iter_init(&quick, records, base, 1000, count);
    quick.appended = appended;
    quick.append_time = 77;
    careful = quick;
    careful.quick_count = 0;
    do {
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        rc = record_iter_next(&careful, &b, NULL);
        assert_int_equal(record_iter_next(&quick, &a, NULL), rc);
        assert_memory_equal(&a, &b, sizeof a);
        assert_ptr_equal(quick.at, careful.at);
        assert_int_equal(quick.index, careful.index);
    } while (!rc);
}

/* A record of each kind: numbers of one byte to four, key and value null, empty and long. */
static size_t put_all_kinds(uint8_t *records, const uint8_t *noise, int32_t *count)
{
    static const int32_t numbers[] = {0, -1, 63, 64, 8191, 8192, 1048575, 1048576};
    const struct bytes fields[] = {null, bytes_of(noise, 0), bytes_of(noise, 1),
                                   bytes_of(noise, 63), bytes_of(noise, 100)};
    uint8_t *p = records;
    *count = 0;
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        for (size_t f = 0; f < 25; f++, ++*count) {
            struct bytes key = fields[f % 5], value = fields[f / 5];
            int64_t timestamp = numbers[(n + f) % 8];
            size_t body = record_body_size(timestamp, numbers[n], key, value, 0, 0);
            p = record_put(p, body, timestamp, numbers[n], key, value, 0);
        }
    return (size_t)(p - records);
}

static void quick_way_reads_what_the_careful_one_does(void **state)
{
    (void)state;
    static uint8_t noise[100], records[1 << 16];
    int32_t count;
    size_t size = put_all_kinds(records, noise, &count);
    assert_same_reading(bytes_of(records, size), 5, count, false);
    assert_same_reading(bytes_of(records, size), INT64_MAX - 9000, count, true);
    assert_same_reading(bytes_of(records, size), 5, count - 1, false); /* bytes follow the last */
    assert_same_reading(bytes_of(records, size), 5, count + 1, false);
}

static void quick_way_refuses_what_the_careful_one_does(void **state)
{
    (void)state;
    static const uint8_t flips[] = {0x01, 0x02, 0x7f, 0x80, 0x81, 0xff};
    static uint8_t noise[100], records[1 << 16];
    int32_t count;
    size_t size = put_all_kinds(records, noise, &count);
    enum { FROM_RECORDS = 600 }; /* and more, so that the end is anywhere in a record */
    for (size_t at = 0; at < FROM_RECORDS; at++) {
        uint8_t *copy = malloc(FROM_RECORDS + at); /* no byte more, for the sanitizer to see */
        assert_non_null(copy);
        for (size_t i = 0; i < sizeof flips; i++) {
            memcpy(copy, records + size - FROM_RECORDS - at, FROM_RECORDS + at);
            copy[at] ^= flips[i];
            assert_same_reading(bytes_of(copy, FROM_RECORDS + at), 5, count, false);
            memcpy(copy, records, FROM_RECORDS + at);
            copy[at] ^= flips[i];
            assert_same_reading(bytes_of(copy, FROM_RECORDS + at), 5, count, false);
        }
        free(copy);
    }
}

static void count_is_never_trusted(void **state)
{
    (void)state;
    struct batch_header h;
    struct buffer b = sample_batch(&h, 3);
    struct record_iter it;
    struct record_view view;
    static const int32_t counts[] = {INT32_MAX, 1000, 4, 2, 1};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        h.record_count = counts[i];
        int rc;
        assert_int_equal(batch_open(bytes_of(b.data, b.size), &h, NULL, 0, NULL, &it, NULL),
                         CAFKA_OK);
        while (!(rc = record_iter_next(&it, &view, NULL)))
            ;
        assert_int_equal(rc, CAFKA_ERR_PROTOCOL);
    }
    h.record_count = -1;
    assert_int_equal(batch_open(bytes_of(b.data, b.size), &h, NULL, 0, NULL, &it, NULL),
                     CAFKA_ERR_PROTOCOL);
    h.record_count = 0; /* Kafka looks no further then */
    assert_int_equal(batch_open(bytes_of(b.data, b.size), &h, NULL, 0, NULL, &it, NULL), CAFKA_OK);
    assert_int_equal(record_iter_next(&it, &view, NULL), CAFKA_END);
    buffer_fini(&b);
}

/* --- what a broker asks --- */

static void validation_finds_times_and_missing_keys(void **state)
{
    (void)state;
    struct record_data records[] = {
        {.timestamp = 50, .key = text("k"), .value = text("a")},
        {.timestamp = 90, .key = text("k"), .value = text("b")},
        {.timestamp = -1, .key = null, .value = text("c")},
        {.timestamp = 90, .key = null, .value = null},
        {.timestamp = 20, .key = text("k"), .value = text("e")},
    };
    struct decompressor *d;
    struct buffer inflated = {0};
    assert_int_equal(decompressor_new(&d, NULL), CAFKA_OK);
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++) {
        struct batch_header h;
        struct buffer out = {0};
        struct compressor *c;
        struct batch_validation v;
        if (!codec_available(codec))
            continue;
        batch_header_init(&h);
        h.attributes = (int16_t)codec;
        assert_int_equal(compressor_new(&c, codec, CODEC_LEVEL_DEFAULT, NULL), CAFKA_OK);
        assert_int_equal(batch_build(&h, records, 5, c, &out, NULL), CAFKA_OK);
        assert_int_equal(h.max_timestamp, 90);
        assert_int_equal(batch_validate_records(bytes_of(out.data, out.size), &h, d, 1000,
                                                &inflated, &v, NULL),
                         0);
        assert_int_equal(v.problem, BATCH_FINE);
        assert_int_equal(v.record_index, -1);
        assert_int_equal(v.max_timestamp, 90);
        assert_int_equal(v.max_timestamp_index, 1);
        assert_int_equal(v.min_timestamp, 20);
        assert_int_equal(v.first_null_key, 2);
        compressor_free(c);
        buffer_fini(&out);
    }
    decompressor_free(d);
    buffer_fini(&inflated);
}

static void validation_says_which_record_is_wrong(void **state)
{
    (void)state;
    struct batch_header h;
    struct buffer b = sample_batch(&h, 5);
    size_t third = RECORD_BATCH_OVERHEAD + 2 * (b.size - RECORD_BATCH_OVERHEAD) / 5;
    struct batch_validation v;
    struct bytes batch = bytes_of(b.data, b.size);
    assert_int_equal(batch_validate_records(batch, &h, NULL, 0, NULL, &v, NULL), CAFKA_OK);

    b.data[third] = 0; /* its length */
    assert_int_not_equal(batch_validate_records(batch, &h, NULL, 0, NULL, &v, NULL), CAFKA_OK);
    assert_int_equal(v.problem, BATCH_BAD_RECORD);
    assert_int_equal(v.record_index, 2);

    h.record_count = 4;
    assert_int_not_equal(batch_validate_records(batch, &h, NULL, 0, NULL, &v, NULL), CAFKA_OK);
    assert_int_equal(v.problem, BATCH_BAD_COUNT);
    assert_int_equal(v.record_index, -1);
    buffer_fini(&b);
}

static void numbers_are_written_and_read_as_kafka_does(void **state)
{
    (void)state;
    size_t seen = 0;
    char *file = golden_text("vectors.jsonl"), *rest = file, *at;
    while ((at = next_text_line(&rest))) {
        cJSON *line = cJSON_Parse(at);
        assert_non_null(line);
        const char *kind = cJSON_GetObjectItemCaseSensitive(line, "kind")->valuestring;
        bool is_int = !strcmp(kind, "varint"), is_long = !strcmp(kind, "varlong");
        if (is_int || is_long) {
            struct bytes b =
                bytes_of_hex(cJSON_GetObjectItemCaseSensitive(line, "hex")->valuestring);
            const cJSON *value = cJSON_GetObjectItemCaseSensitive(line, "value");
            struct reader r = reader_of(b.data, b.size);
            int64_t read = is_int ? reader_varint(&r) : reader_varlong(&r);
            if (cJSON_GetObjectItemCaseSensitive(line, "error")) {
                assert_true(reader_failed(&r));
            } else {
                int64_t expected = strtoll(value->valuestring, NULL, 10);
                assert_false(reader_failed(&r));
                assert_int_equal(read, expected);
                if (cJSON_GetObjectItemCaseSensitive(line, "written")) {
                    uint8_t out[10];
                    uint64_t n = is_int ? zigzag32((int32_t)expected) : zigzag64(expected);
                    assert_int_equal(record_put_number(out, n) - out, b.size);
                    assert_memory_equal(out, b.data, b.size);
                    assert_int_equal(uvarint_size(n), b.size);
                }
            }
            free((void *)(uintptr_t)b.data);
            seen++;
        }
        cJSON_Delete(line);
    }
    free(file);
    assert_true(seen > 0);
}

static void building_survives_a_lack_of_memory(void **state)
{
    (void)state;
    struct compressor *c;
    struct record_data records[20] = {0};
    for (int i = 0; i < 20; i++)
        records[i] = (struct record_data){.timestamp = i,
                                          .value = text("a value of some length, and more of it")};
    assert_int_equal(compressor_new(&c, CODEC_LZ4, CODEC_LEVEL_DEFAULT, NULL), CAFKA_OK);
    int rc = CAFKA_ERR_MEMORY;
    for (unsigned long k = 1; rc; k++) {
        struct batch_header h;
        struct buffer out = {0};
        cafka_error err = {0};
        batch_header_init(&h);
        h.attributes = CODEC_LZ4;
        mem_fail_after(k, 1);
        rc = batch_build(&h, records, 20, c, &out, &err);
        mem_fail_after(0, 0);
        assert_int_equal(rc, err.code);
        assert_true(rc == CAFKA_OK || rc == CAFKA_ERR_MEMORY);
        assert_true(rc == CAFKA_OK || out.size == 0);
        buffer_fini(&out);
        assert_true(k < 100);
    }
    compressor_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_has_the_bytes_that_kafka_writes),
        cmocka_unit_test(commit_marker_has_the_bytes_that_kafka_writes),
        cmocka_unit_test(leader_change_is_read_as_it_was_written),
        cmocka_unit_test(records_are_read_as_they_were_put_and_sizes_are_exact),
        cmocka_unit_test(value_written_in_place_gives_the_same_record),
        cmocka_unit_test(sealing_needs_only_the_sum_of_the_pieces),
        cmocka_unit_test(stamped_batch_is_as_if_sealed_with_the_stamp),
        cmocka_unit_test(sequences_wrap_to_zero),
        cmocka_unit_test(walk_finds_each_batch_and_leaves_a_partial_one),
        cmocka_unit_test(any_changed_bit_is_noticed),
        cmocka_unit_test(records_cut_anywhere_are_refused_without_reading_on),
        cmocka_unit_test(random_bytes_never_make_the_iterator_stray),
        cmocka_unit_test(quick_way_reads_what_the_careful_one_does),
        cmocka_unit_test(quick_way_refuses_what_the_careful_one_does),
        cmocka_unit_test(count_is_never_trusted),
        cmocka_unit_test(validation_finds_times_and_missing_keys),
        cmocka_unit_test(validation_says_which_record_is_wrong),
        cmocka_unit_test(numbers_are_written_and_read_as_kafka_does),
        cmocka_unit_test(building_survives_a_lack_of_memory),
    };
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
