/*
 * bench_record.c - nanoseconds of the record room: append, seal, stamp, CRC, decode, codecs.
 *
 *     bench_record [ROUNDS]
 *
 * One line a measure; the best of five runs, since the machine has other things to do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "record/builder.h"
#include "record/crc32c.h"
#include "record/open.h"
#include "record/validate.h"
#include "util/alloc.h"

enum { VALUE_SIZE = 100, RECORDS = 8000, RUNS = 5 };

static uint8_t value[VALUE_SIZE];
static uint8_t *records; /* RECORDS of them */
static size_t records_size;
static uint8_t *batch;
static size_t batch_bytes;
static int rounds = 50;
static volatile uint64_t sink;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void report(const char *what, void (*run)(void), double units, const char *unit)
{
    double best = 0;
    for (int i = 0; i < RUNS; i++) {
        double start = now_ns();
        for (int r = 0; r < rounds; r++)
            run();
        double each = (now_ns() - start) / rounds / units;
        if (!i || each < best)
            best = each;
    }
    printf("%-36s %9.2f ns/%s\n", what, best, unit);
}

static void append(void)
{
    uint8_t *p = records;
    struct bytes key = {NULL, 0}, v = bytes_of(value, VALUE_SIZE);
    for (int i = 0; i < RECORDS; i++) {
        size_t body = record_body_size(i / 100, i, key, v, 0, 0);
        p = record_put(p, body, i / 100, i, key, v, 0);
    }
    records_size = (size_t)(p - records);
}

static void decode(void)
{
    struct record_iter it;
    struct record_view view;
    uint64_t sum = 0;
    record_iter_init(&it, bytes_of(batch + RECORD_BATCH_OVERHEAD, records_size), 0, 0, RECORDS);
    while (!record_iter_next(&it, &view, NULL))
        sum += view.value.size + (uint64_t)view.offset;
    sink += sum;
}

static void validate(void)
{
    struct batch_header h;
    struct batch_validation v;
    (void)batch_header_read(bytes_of(batch, batch_bytes), &h, NULL);
    sink +=
        (uint64_t)batch_validate_records(bytes_of(batch, batch_bytes), &h, NULL, 0, NULL, &v, NULL);
}

static void crc_all(void)
{
    sink += crc32c(0, records, records_size);
}

static void crc_software(void)
{
    sink += crc32c_software(0, records, records_size);
}

static void crc_1k(void)
{
    for (size_t at = 0; at + 1024 <= records_size; at += 1024)
        sink += crc32c(0, records + at, 1024);
}

static void combine(void)
{
    for (uint32_t i = 0; i < 1000; i++)
        sink += crc32c_combine(i, 0x12345678, 16000 + i);
}

static void seal(void)
{
    struct batch_header h;
    batch_header_init(&h);
    for (int i = 0; i < 1000; i++) {
        h.base_timestamp = i;
        batch_seal(&h, records_size, 0x12345678, batch);
    }
}

static void stamp(void)
{
    for (int i = 0; i < 1000; i++)
        batch_set_producer(batch, 7, 0, i, records_size, 0x12345678);
}

static void header(void)
{
    struct batch_header h;
    for (int i = 0; i < 1000; i++) {
        (void)batch_header_read(bytes_of(batch, batch_bytes), &h, NULL);
        sink += (uint64_t)h.producer_id;
    }
}

/* --- codecs, on text-like records in pieces of 16 KiB --- */

static struct compressor *compressor;
static struct decompressor *decompressor;
static struct buffer inflated;
static uint8_t *packed;
static size_t packed_size, packed_capacity;
static int codec;

static void compress(void)
{
    struct iovec pieces[64];
    size_t count = 0;
    for (size_t at = 0; at < records_size && count < 64; at += 16384)
        pieces[count++] =
            (struct iovec){records + at, records_size - at < 16384 ? records_size - at : 16384};
    (void)compressor_run(compressor, pieces, count, packed, packed_capacity, &packed_size, NULL);
}

static void inflate_all(void)
{
    buffer_clear(&inflated);
    (void)decompressor_run(decompressor, codec, 2, bytes_of(packed, packed_size), 1 << 30,
                           &inflated, NULL);
}

static void bench_codec(int which)
{
    char what[64];
    codec = which;
    if (compressor_new(&compressor, codec, CODEC_LEVEL_DEFAULT, NULL))
        return;
    packed_capacity = compressor_bound(compressor, records_size);
    packed = mem_alloc(packed_capacity);
    int usual = rounds;
    rounds = rounds / 10 + 1;
    snprintf(what, sizeof what, "%s compress", codec_name(codec));
    report(what, compress, RECORDS, "record");
    snprintf(what, sizeof what, "%s inflate (%.0f %%)", codec_name(codec),
             100.0 * (double)packed_size / (double)records_size);
    report(what, inflate_all, RECORDS, "record");
    rounds = usual;
    compressor_free(compressor);
    mem_free(packed);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    for (int i = 0; i < VALUE_SIZE; i++)
        value[i] = (uint8_t)("the quick brown fox "[i % 20] + i / 20);
    records = mem_alloc(record_upper_bound(0, VALUE_SIZE, 0, 0) * RECORDS);
    batch = mem_zalloc(record_upper_bound(0, VALUE_SIZE, 0, 0) * RECORDS + RECORD_BATCH_OVERHEAD);
    if (!records || !batch || decompressor_new(&decompressor, NULL))
        return 1;
    printf("crc32c: %s; %d records of %d bytes\n", crc32c_implementation(), RECORDS, VALUE_SIZE);
    report("append", append, RECORDS, "record");
    memcpy(batch + RECORD_BATCH_OVERHEAD, records, records_size);
    batch_bytes = records_size + RECORD_BATCH_OVERHEAD;
    struct batch_header h;
    batch_header_init(&h);
    h.record_count = RECORDS;
    h.last_offset_delta = RECORDS - 1;
    batch_seal(&h, records_size, crc32c(0, records, records_size), batch);
    report("decode", decode, RECORDS, "record");
    report("validate", validate, RECORDS, "record");
    report("crc32c whole batch", crc_all, (double)records_size / 1024, "KiB");
    report("crc32c pieces of 1 KiB", crc_1k, (double)(records_size / 1024), "KiB");
    report("crc32c software", crc_software, (double)records_size / 1024, "KiB");
    report("crc32c combine", combine, 1000, "call");
    report("header read", header, 1000, "call");
    report("seal", seal, 1000, "call");
    report("set producer", stamp, 1000, "call");
    for (int c = CODEC_GZIP; c < CODEC_COUNT; c++)
        bench_codec(c);
    decompressor_free(decompressor);
    buffer_fini(&inflated);
    mem_free(records);
    mem_free(batch);
    return 0;
}
