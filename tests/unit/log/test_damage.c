/*
 * test_damage.c - batches on disk that are not what was written: lengths that lead out of the
 * segment, lengths that can't be; found when the log is opened, and while it is in use.
 */
#include <stdio.h>
#include <string.h>

#include "record/batch.h"
#include "tests/unit/log/log_fixture.h"

enum { BATCHES = 3, VALUE_SIZE = 20 };

/* Three batches of one record each; the size of one. */
static int64_t fill(struct log_fixture *f)
{
    open_directory(f);
    for (int i = 0; i < BATCHES; i++)
        append_ok(f, 1000 + i, VALUE_SIZE);
    return file_size_of(f, "00000000000000000000.log") / BATCHES;
}

static void set_length(struct log_fixture *f, int64_t position, int32_t length)
{
    char path[512];
    uint8_t bytes[] = {(uint8_t)(length >> 24), (uint8_t)(length >> 16), (uint8_t)(length >> 8),
                       (uint8_t)length};
    path_in(f, path, "topic-0/00000000000000000000.log");
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)position + 8, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, sizeof bytes, file), sizeof bytes);
    assert_int_equal(fclose(file), 0);
}

static int read_at(struct log_fixture *f, int64_t offset, size_t *size)
{
    struct log_slice slice;
    int rc =
        commit_log_read(f->log, offset, commit_log_end_offset(f->log), 1 << 20, true, &slice, NULL);
    *size = slice.size;
    log_slice_fini(&slice);
    return rc;
}

/* A running Kafka takes it for the end of the segment: an empty answer, no error. */
static void a_torn_batch_is_read_as_the_end(void **state)
{
    struct log_fixture *f = *state;
    size_t size;
    int64_t each = fill(f);
    set_length(f, each, 100000);
    assert_int_equal(read_at(f, 0, &size), CAFKA_OK);
    assert_int_equal(size, BATCHES * each); /* the first, and what lies behind it */
    assert_int_equal(read_at(f, 1, &size), CAFKA_OK);
    assert_int_equal(size, 0);
    assert_int_equal(commit_log_bytes_between(f->log, 1, 3), 0);
    kill_broker(f);
}

static void a_length_that_can_not_be_is_an_error(void **state)
{
    struct log_fixture *f = *state;
    size_t size;
    int64_t each = fill(f);
    set_length(f, each, 3);
    assert_int_equal(read_at(f, 1, &size), ERR_CORRUPT_MESSAGE);
    assert_int_equal(size, 0);
    set_length(f, each, -100);
    assert_int_equal(read_at(f, 1, &size), ERR_CORRUPT_MESSAGE);
    kill_broker(f);
}

/* Else what is appended behind it could never be read. */
static void a_torn_end_is_cut_though_the_last_run_ended_cleanly(void **state)
{
    struct log_fixture *f = *state;
    size_t size;
    int64_t each = fill(f);
    close_cleanly(f);
    set_length(f, each, 100000);
    open_directory(f);
    assert_int_equal(commit_log_end_offset(f->log), 1);
    assert_int_equal(commit_log_size(f->log), each);
    assert_int_equal(append_ok(f, 2000, VALUE_SIZE), 1);
    assert_int_equal(read_at(f, 1, &size), CAFKA_OK);
    assert_int_equal(size, each);
    close_cleanly(f);
}

static void write_meta(struct log_fixture *f, const char *text)
{
    char path[512];
    path_in(f, path, "meta.properties");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void a_directory_that_does_not_say_whose_it_is_is_refused(void **state)
{
    static const char *const bad[] = {
        "garbage\n",
        "",
        "version=1\ncluster.id=abc\n",
        "version=1\nnode.id=1\n",
        "version=1\nnode.id=x\ncluster.id=abc\n",
        "version=1\nnode.id=2\ncluster.id=abc\n",
        "version=2\nnode.id=1\ncluster.id=abc\n",
        "version=1\nnode.id=1\ncluster.id=abc\ndirectory.id=?\n",
    };
    struct log_fixture *f = *state;
    fill(f);
    close_cleanly(f);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cafka_error err = {0};
        write_meta(f, bad[i]);
        assert_int_equal(try_open(f, &err), CAFKA_ERR_CONFIG);
        assert_non_null(strstr(err.message, "meta.properties"));
    }
    write_meta(f, "version=0\nbroker.id=1\ncluster.id=abc\n"); /* of an old release */
    open_directory(f);
    assert_string_equal(log_manager_cluster_id(f->manager), "abc");
    close_cleanly(f);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_torn_batch_is_read_as_the_end),
        TEST(a_length_that_can_not_be_is_an_error),
        TEST(a_torn_end_is_cut_though_the_last_run_ended_cleanly),
        TEST(a_directory_that_does_not_say_whose_it_is_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
