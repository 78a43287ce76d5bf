/*
 * test_log_dump.c - the text of a batch, and `cafka log dump` over files larger than its window.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */

#include "record_fixture.h"

#include <unistd.h>

#include "record/builder.h"
#include "record/dump.h"

/* Append a batch of one record with a value of `size` bytes. */
static void add_batch(struct buffer *log, int64_t offset, size_t size)
{
    struct batch_header h;
    uint8_t *value = calloc(1, size + 1);
    assert_non_null(value);
    struct record_data record = {.timestamp = 5, .value = bytes_of(value, size)};
    batch_header_init(&h);
    h.base_offset = offset;
    assert_int_equal(batch_build(&h, &record, 1, NULL, log, NULL), CAFKA_OK);
    free(value);
}

static void lack_of_memory_is_told_at_every_allocation(void **state)
{
    (void)state;
    struct buffer log = {0};
    struct batch_header h;
    struct compressor *c;
    struct record_data records[30] = {0};
    for (int i = 0; i < 30; i++)
        records[i] = (struct record_data){.timestamp = i, .value = bytes_of("some value", 10)};
    batch_header_init(&h);
    h.attributes = CODEC_GZIP;
    assert_int_equal(compressor_new(&c, CODEC_GZIP, CODEC_LEVEL_DEFAULT, NULL), CAFKA_OK);
    assert_int_equal(batch_build(&h, records, 30, c, &log, NULL), CAFKA_OK);
    compressor_free(c);
    int rc = CAFKA_ERR_MEMORY;
    for (unsigned long k = 1; rc; k++) {
        struct dump d = {0};
        struct buffer text = {0};
        cafka_error err = {0};
        mem_fail_after(k, 1);
        rc = dump_batch(&d, bytes_of(log.data, log.size), true, &text, &err);
        mem_fail_after(0, 0);
        assert_true(rc == CAFKA_OK || rc == CAFKA_ERR_MEMORY);
        assert_int_equal(err.code, rc);
        dump_fini(&d);
        buffer_fini(&text);
        assert_true(k < 100);
    }
    buffer_fini(&log);
}

/* What the program says of `size` bytes of a log; returns its exit status. */
static int dump_file(const struct buffer *log, size_t size, char *said, size_t room)
{
    char directory[] = "/tmp/cafka-dump-XXXXXX", path[128], command[256];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/00000000000000000000.log", directory);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(log->data, 1, size, f), size);
    fclose(f);
    snprintf(command, sizeof command, "./cafka log dump '%s' 2>&1", path);
    f = popen(command, "r");
    assert_non_null(f);
    said[fread(said, 1, room - 1, f)] = 0;
    int status = pclose(f);
    unlink(path);
    rmdir(directory);
    return status < 0 ? status : status >> 8;
}

static size_t count(const char *text, const char *what)
{
    size_t found = 0;
    for (; (text = strstr(text, what)); text++)
        found++;
    return found;
}

static void logs_of_any_size_are_walked_to_their_end(void **state)
{
    (void)state;
    static const size_t values[] = {10, 1500000, 700000, 1, 1048576 - 100, 2500000, 700000, 20};
    static char said[20000];
    enum { BATCHES = sizeof values / sizeof *values };
    size_t starts[BATCHES];
    struct buffer log = {0};
    if (access("./cafka", X_OK) != 0) {
        print_message("skipped: the program is not beside the test\n");
        skip();
    }
    for (size_t i = 0; i < BATCHES; i++) {
        starts[i] = log.size;
        add_batch(&log, (int64_t)i, values[i]);
    }
    assert_int_equal(dump_file(&log, log.size, said, sizeof said), 0);
    assert_int_equal(count(said, "\"baseOffset\""), BATCHES);
    assert_int_equal(dump_file(&log, 0, said, sizeof said), 0);
    assert_string_equal(said, "");

    /* a cut in the head, in the middle and before the last byte of a batch */
    for (size_t i = 0; i < BATCHES; i++) {
        size_t end = i + 1 < BATCHES ? starts[i + 1] : log.size;
        size_t cuts[] = {starts[i] + 5, starts[i] + 40, end - 1};
        for (size_t k = 0; k < 3; k++) {
            char place[64];
            assert_int_equal(dump_file(&log, cuts[k], said, sizeof said), 1);
            assert_int_equal(count(said, "\"baseOffset\""), i);
            snprintf(place, sizeof place, "byte %zu:", starts[i]);
            assert_int_equal(count(said, place), 1);
        }
    }

    /* a length that no file has, and one that cannot be */
    store_be32(log.data + starts[3] + BATCH_LENGTH_AT, 0x7ffffff0);
    assert_int_equal(dump_file(&log, log.size, said, sizeof said), 1);
    assert_int_equal(count(said, "\"baseOffset\""), 3);
    store_be32(log.data + starts[3] + BATCH_LENGTH_AT, 1);
    assert_int_equal(dump_file(&log, log.size, said, sizeof said), 1);
    assert_int_equal(count(said, "\"baseOffset\""), 3);
    buffer_fini(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lack_of_memory_is_told_at_every_allocation),
        cmocka_unit_test(logs_of_any_size_are_walked_to_their_end),
    };
    return cmocka_run_group_tests_name("log_dump", tests, NULL, NULL);
}
