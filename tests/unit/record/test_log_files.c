/*
 * test_log_files.c - indexes, snapshots, checkpoints: there and back, looked up, and damaged.
 */
#include "record_fixture.h"

#include "record/dump.h"
#include "record/log_files.h"

static struct bytes text(const char *s)
{
    return bytes_of(s, strlen(s));
}

/* --- indexes --- */

static void offset_index_is_read_as_it_was_written(void **state)
{
    (void)state;
    uint8_t file[5 * OFFSET_INDEX_ENTRY_SIZE] = {0};
    const int64_t base = 5000000000;
    for (int i = 0; i < 3; i++) /* two more places are allocated ahead */
        offset_index_put(file, (size_t)i, base,
                         (struct offset_index_entry){base + 10 * (i + 1), 700 * (i + 1)});
    size_t count;
    assert_int_equal(offset_index_check(bytes_of(file, sizeof file), base, &count, NULL), CAFKA_OK);
    assert_int_equal(count, 3);
    assert_int_equal(offset_index_get(file, 2, base).offset, base + 30);
    assert_int_equal(offset_index_get(file, 2, base).position, 2100);

    assert_int_equal(offset_index_find(file, count, base, base + 9), -1);
    assert_int_equal(offset_index_find(file, count, base, base + 10), 0);
    assert_int_equal(offset_index_find(file, count, base, base + 29), 1);
    assert_int_equal(offset_index_find(file, count, base, INT64_MAX), 2);
    assert_int_equal(offset_index_find(file, 0, base, INT64_MAX), -1);
}

static void time_index_is_read_as_it_was_written(void **state)
{
    (void)state;
    uint8_t file[4 * TIME_INDEX_ENTRY_SIZE] = {0};
    for (int i = 0; i < 3; i++)
        time_index_put(file, (size_t)i, 100, (struct time_index_entry){1600000000000 + i, 105 + i});
    size_t count;
    assert_int_equal(time_index_check(bytes_of(file, sizeof file), 100, &count, NULL), CAFKA_OK);
    assert_int_equal(count, 3);
    assert_int_equal(time_index_get(file, 1, 100).timestamp, 1600000000001);
    assert_int_equal(time_index_get(file, 1, 100).offset, 106);
    assert_int_equal(time_index_find(file, count, 1599999999999), -1);
    assert_int_equal(time_index_find(file, count, 1600000000001), 1);
    assert_int_equal(time_index_find(file, count, INT64_MAX), 2);
}

static void assert_damaged_at(int rc, const cafka_error *err, const char *place)
{
    assert_int_equal(rc, CAFKA_ERR_CORRUPT);
    assert_int_equal(err->code, rc);
    if (!strstr(err->message, place))
        fail_msg("\"%s\" does not name %s", err->message, place);
}

static void damaged_indexes_name_the_byte_and_keep_what_is_before(void **state)
{
    (void)state;
    uint8_t file[4 * TIME_INDEX_ENTRY_SIZE] = {0};
    size_t count;
    cafka_error err = {0};
    for (int i = 0; i < 4; i++)
        offset_index_put(file, (size_t)i, 0, (struct offset_index_entry){i + 1, 100 * i + 100});
    assert_damaged_at(offset_index_check(bytes_of(file, 29), 0, &count, &err), &err, "byte 24");
    assert_int_equal(count, 3);
    offset_index_put(file, 2, 0, (struct offset_index_entry){2, 300}); /* not above the one before */
    err = (cafka_error){0};
    assert_damaged_at(offset_index_check(bytes_of(file, 32), 0, &count, &err), &err, "byte 16");
    assert_int_equal(count, 2);
    offset_index_put(file, 2, 0, (struct offset_index_entry){3, 150});
    err = (cafka_error){0};
    assert_damaged_at(offset_index_check(bytes_of(file, 32), 0, &count, &err), &err, "byte 16");
    memset(file, 0xff, sizeof file);
    err = (cafka_error){0};
    assert_damaged_at(offset_index_check(bytes_of(file, 32), 0, &count, &err), &err, "byte 0");
    assert_int_equal(count, 0);

    memset(file, 0, sizeof file);
    for (int i = 0; i < 4; i++)
        time_index_put(file, (size_t)i, 0, (struct time_index_entry){100 - i, i});
    err = (cafka_error){0};
    assert_damaged_at(time_index_check(bytes_of(file, sizeof file), 0, &count, &err), &err,
                      "byte 12");
    assert_int_equal(count, 1);
}

static void txn_index_is_checked(void **state)
{
    (void)state;
    uint8_t file[3 * TXN_INDEX_ENTRY_SIZE];
    struct txn_index_entry entries[] = {{0, 7, 1, 5, 6}, {0, 8, 3, 9, 9}, {0, 7, 10, 12, 13}};
    for (size_t i = 0; i < 3; i++)
        txn_index_put(file, i, &entries[i]);
    size_t count;
    cafka_error err = {0};
    assert_int_equal(txn_index_check(bytes_of(file, sizeof file), &count, NULL), CAFKA_OK);
    assert_int_equal(count, 3);
    struct txn_index_entry read = txn_index_get(file, 1);
    assert_int_equal(read.producer_id, 8);
    assert_int_equal(read.first_offset, 3);
    assert_int_equal(read.last_offset, 9);
    assert_int_equal(read.last_stable_offset, 9);
    assert_damaged_at(txn_index_check(bytes_of(file, sizeof file - 1), &count, &err), &err,
                      "byte 68");
    assert_int_equal(count, 2);
    entries[1].last_offset = 2;
    txn_index_put(file, 1, &entries[1]);
    err = (cafka_error){0};
    assert_damaged_at(txn_index_check(bytes_of(file, sizeof file), &count, &err), &err, "byte 34");
    entries[1].version = 1;
    txn_index_put(file, 1, &entries[1]);
    assert_int_equal(txn_index_check(bytes_of(file, sizeof file), &count, NULL), CAFKA_ERR_CORRUPT);
    assert_int_equal(txn_index_check(bytes_of(file, 0), &count, NULL), CAFKA_OK);
    assert_int_equal(count, 0);
}

/* --- producer snapshot --- */

static void snapshot_is_read_as_it_was_written_and_any_damage_is_noticed(void **state)
{
    (void)state;
    const struct snapshot_entry entries[] = {
        {1000, 2, 77, 5000000000, 3, 1600000000000, -1, -1},
        {1001, -1, -1, -1, 0, -1, 7, 42},
    };
    struct buffer file = {0};
    size_t count;
    snapshot_write(&file, entries, 2);
    assert_int_equal(file.size, SNAPSHOT_HEAD_SIZE + 2 * SNAPSHOT_ENTRY_SIZE);
    assert_int_equal(snapshot_check(bytes_of(file.data, file.size), &count, NULL), CAFKA_OK);
    assert_int_equal(count, 2);
    for (size_t i = 0; i < 2; i++) {
        struct snapshot_entry read = snapshot_get(file.data, i);
        assert_int_equal(read.producer_id, entries[i].producer_id);
        assert_int_equal(read.epoch, entries[i].epoch);
        assert_int_equal(read.last_sequence, entries[i].last_sequence);
        assert_int_equal(read.last_offset, entries[i].last_offset);
        assert_int_equal(read.offset_delta, entries[i].offset_delta);
        assert_int_equal(read.timestamp, entries[i].timestamp);
        assert_int_equal(read.coordinator_epoch, entries[i].coordinator_epoch);
        assert_int_equal(read.current_txn_first_offset, entries[i].current_txn_first_offset);
    }
    for (size_t cut = 0; cut < file.size; cut++) {
        assert_int_equal(snapshot_check(bytes_of(file.data, cut), &count, NULL), CAFKA_ERR_CORRUPT);
        assert_int_equal(count, 0);
    }
    for (size_t at = 0; at < file.size; at++) {
        file.data[at] ^= 0x10;
        assert_int_equal(snapshot_check(bytes_of(file.data, file.size), &count, NULL),
                         CAFKA_ERR_CORRUPT);
        file.data[at] ^= 0x10;
    }
    buffer_fini(&file);
}

/* --- text files --- */

static void epoch_checkpoint_is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct epoch_entry entries[] = {{0, 0}, {3, 120}, {4, 5000000000}};
    struct buffer file = {0};
    struct epoch_entry *read;
    size_t count;
    epoch_checkpoint_write(&file, entries, 3);
    assert_string_equal(buffer_string(&file), "0\n3\n0 0\n3 120\n4 5000000000\n");
    assert_int_equal(epoch_checkpoint_parse(bytes_of(file.data, file.size), &read, &count, NULL),
                     CAFKA_OK);
    assert_int_equal(count, 3);
    assert_int_equal(read[2].epoch, 4);
    assert_int_equal(read[2].start_offset, 5000000000);
    mem_free(read);
    assert_int_equal(epoch_checkpoint_parse(text("0\n0\n"), &read, &count, NULL), CAFKA_OK);
    assert_int_equal(count, 0);
    assert_null(read);
    buffer_fini(&file);
}

static void offset_checkpoint_is_read_as_it_was_written(void **state)
{
    (void)state;
    const struct offset_checkpoint_entry entries[] = {{str_of("orders"), 0, 12},
                                                      {str_of("__consumer_offsets"), 49, INT64_MAX}};
    struct buffer file = {0};
    struct offset_checkpoint_entry *read;
    size_t count;
    offset_checkpoint_write(&file, entries, 2);
    assert_string_equal(buffer_string(&file),
                        "0\n2\norders 0 12\n__consumer_offsets 49 9223372036854775807\n");
    assert_int_equal(offset_checkpoint_parse(bytes_of(file.data, file.size), &read, &count, NULL),
                     CAFKA_OK);
    assert_int_equal(count, 2);
    assert_true(str_is(read[1].topic, "__consumer_offsets"));
    assert_int_equal(read[1].partition, 49);
    assert_int_equal(read[1].offset, INT64_MAX);
    mem_free(read);
    buffer_fini(&file);
}

static void damaged_checkpoints_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *file, *place;
    } bad[] = {
        {"", "line 1"},
        {"1\n0\n", "line 1"},
        {"x\n0\n", "line 1"},
        {"0\n", "line 2"},
        {"0\n-1\n", "line 2"},
        {"0\nfew\n", "line 2"},
        {"0\n2000000000\n", "line 2"},
        {"0\n1\ntopic 0\n", "line 3"},
        {"0\n1\nt 0 0 0\n", "line 3"},
        {"0\n1\nt x 0\n", "line 3"},
        {"0\n1\nt 0 99999999999999999999\n", "line 3"},
        {"0\n1\nt 0 9223372036854775808\n", "line 3"},
        {"0\n1\nt 2147483648 0\n", "line 3"},
        {"0\n1\nt 0 -1\n", "line 3"},
        {"0\n2\ntopic-name 0 0\n", "line 4"},
        {"0\n1\nt 0 0\nt 1 0\n", "line 4"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct offset_checkpoint_entry *read = (void *)1;
        size_t count = 9;
        cafka_error err = {0};
        assert_damaged_at(offset_checkpoint_parse(text(bad[i].file), &read, &count, &err), &err,
                          bad[i].place);
        assert_int_equal(count, 9); /* outputs are written on success only */
    }
    struct epoch_entry *epochs;
    size_t count;
    cafka_error err = {0};
    assert_damaged_at(epoch_checkpoint_parse(text("0\n2\n0 0\nx 1\n"), &epochs, &count, &err), &err,
                      "line 4");
    err = (cafka_error){0};
    assert_damaged_at(epoch_checkpoint_parse(text("0\n1\n0 0 0\n"), &epochs, &count, &err), &err,
                      "line 3");
}

static void partition_metadata_is_read_as_it_was_written(void **state)
{
    (void)state;
    struct uuid id = {{1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 10, 11, 12, 13, 14, 15, 16}}, read;
    struct buffer file = {0};
    partition_metadata_write(&file, id);
    assert_int_equal(partition_metadata_parse(bytes_of(file.data, file.size), &read, NULL),
                     CAFKA_OK);
    assert_true(uuid_equal(id, read));
    for (size_t cut = 0; cut < file.size; cut++)
        assert_int_equal(partition_metadata_parse(bytes_of(file.data, cut), &read, NULL),
                         CAFKA_ERR_CORRUPT);
    assert_int_equal(partition_metadata_parse(text("version: 1\ntopic_id: bvcS12tyTJSWXRzsBlXMOw"),
                                              &read, NULL),
                     CAFKA_ERR_CORRUPT);
    assert_int_equal(partition_metadata_parse(text("version: 0\ntopic_id: bvcS12tyTJSWXRzsBlXMOw\n"),
                                              &read, NULL),
                     CAFKA_OK);
    buffer_fini(&file);
}

static void names_carry_the_base_offset(void **state)
{
    (void)state;
    char name[LOG_FILE_NAME_SIZE];
    log_file_name(42, ".log", name);
    assert_string_equal(name, "00000000000000000042.log");
    log_file_name(INT64_MAX, ".timeindex.cleaned", name);
    assert_string_equal(name, "09223372036854775807.timeindex.cleaned");
    assert_int_equal(log_file_base_offset(str_of(name)), INT64_MAX);
    assert_int_equal(log_file_base_offset(str_of("00000000000000000042.log.deleted")), 42);
    assert_int_equal(log_file_base_offset(str_of("0000000000000000042.log")), -1);
    assert_int_equal(log_file_base_offset(str_of("00000000000000000042")), -1);
    assert_int_equal(log_file_base_offset(str_of("0000000000000000004x.log")), -1);
    assert_int_equal(log_file_base_offset(str_of("leader-epoch-checkpoint")), -1);
}

static void lack_of_memory_is_an_error(void **state)
{
    (void)state;
    struct epoch_entry *epochs;
    struct offset_checkpoint_entry *offsets;
    size_t count;
    mem_fail_after(1, 1);
    int first = epoch_checkpoint_parse(text("0\n1\n0 0\n"), &epochs, &count, NULL);
    int second = offset_checkpoint_parse(text("0\n1\nt 0 0\n"), &offsets, &count, NULL);
    mem_fail_after(0, 0);
    assert_int_equal(first, CAFKA_ERR_MEMORY);
    assert_int_equal(second, CAFKA_ERR_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offset_index_is_read_as_it_was_written),
        cmocka_unit_test(time_index_is_read_as_it_was_written),
        cmocka_unit_test(damaged_indexes_name_the_byte_and_keep_what_is_before),
        cmocka_unit_test(txn_index_is_checked),
        cmocka_unit_test(snapshot_is_read_as_it_was_written_and_any_damage_is_noticed),
        cmocka_unit_test(epoch_checkpoint_is_read_as_it_was_written),
        cmocka_unit_test(offset_checkpoint_is_read_as_it_was_written),
        cmocka_unit_test(damaged_checkpoints_name_the_line),
        cmocka_unit_test(partition_metadata_is_read_as_it_was_written),
        cmocka_unit_test(names_carry_the_base_offset),
        cmocka_unit_test(lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("log_files", tests, NULL, NULL);
}
