/*
 * test_commit_log.c - append, read, roll, search, shorten: one log on a real disk.
 */
#include "log_fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/log_files.h"
#include "record/open.h"
#include "util/alloc.h"

static int64_t now_ms(void)
{
    return env_wall_ms(cafka_env_real());
}

/* The header of the batch that a read at `offset` begins with. */
static struct batch_header header_at(struct log_fixture *f, int64_t offset)
{
    struct log_slice slice;
    struct batch_header h = {0};
    assert_int_equal(commit_log_read(f->log, offset, commit_log_end_offset(f->log), 0, true, &slice,
                                     NULL),
                     0);
    assert_true(slice.size >= RECORD_BATCH_OVERHEAD);
    uint8_t *data = mem_alloc(slice.size);
    assert_int_equal(log_slice_read(&slice, data, NULL), 0);
    assert_int_equal(batch_check(bytes_of(data, slice.size), NULL), 0);
    assert_int_equal(batch_header_read(bytes_of(data, slice.size), &h, NULL), 0);
    mem_free(data);
    log_slice_fini(&slice);
    return h;
}

/* Segments of 10 batches of one 1000-byte record, `count` in all, 1 ms apart from `timestamp` on. */
static void fill(struct log_fixture *f, int count, int64_t timestamp)
{
    enum { BATCH = 1080 };
    f->config.segment_bytes = 10 * BATCH;
    f->config.index_interval_bytes = 3 * BATCH;
    if (!f->log)
        open_directory(f);
    for (int i = 0; i < count; i++)
        append_ok(f, timestamp + i, 1000);
}

/* --- append and read --- */

static void offsets_count_up_and_reads_begin_with_the_batch_asked_for(void **state)
{
    struct log_fixture *f = *state;
    struct batch_spec three = {.timestamp = 5, .count = 3, .value_size = 10};
    int64_t offset;
    open_directory(f);
    assert_int_equal(append(f, &three, &offset), 0);
    assert_int_equal(offset, 0);
    assert_int_equal(append(f, &three, &offset), 0);
    assert_int_equal(offset, 3);
    assert_int_equal(commit_log_end_offset(f->log), 6);
    assert_int_equal(header_at(f, 4).base_offset, 3); /* whole batches: the client skips */
    assert_int_equal(header_at(f, 2).base_offset, 0);
    assert_int_equal(header_at(f, 2).leader_epoch, 0);
}

static void a_read_keeps_to_its_limits(void **state)
{
    struct log_fixture *f = *state;
    struct log_slice slice;
    fill(f, 25, 1000);
    assert_int_equal(commit_log_read(f->log, 0, 25, 2500, false, &slice, NULL), 0);
    assert_int_equal(slice.size, 2500); /* the last batch is cut */
    log_slice_fini(&slice);
    assert_int_equal(commit_log_read(f->log, 0, 25, 1000, false, &slice, NULL), 0);
    assert_int_equal(slice.size, 0); /* a first batch that does not fit is left out */
    assert_int_equal(commit_log_read(f->log, 0, 25, 10, true, &slice, NULL), 0);
    assert_true(slice.size > 1000); /* one whole batch all the same */
    size_t one = slice.size;
    log_slice_fini(&slice);
    assert_int_equal(commit_log_read(f->log, 0, 4, 1 << 20, false, &slice, NULL), 0);
    assert_int_equal(slice.size, 4 * one); /* nothing at or above the end that may be read */
    log_slice_fini(&slice);
    assert_int_equal(commit_log_read(f->log, 3, 25, 1 << 20, false, &slice, NULL), 0);
    assert_true(slice.size < 10 * one); /* nothing of the next segment */
    log_slice_fini(&slice);
    assert_int_equal(commit_log_read(f->log, 25, 25, 1 << 20, true, &slice, NULL), 0);
    assert_int_equal(slice.size, 0);
    assert_int_equal(commit_log_read(f->log, 26, 26, 1 << 20, true, &slice, NULL),
                     ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(commit_log_read(f->log, -1, 26, 1 << 20, true, &slice, NULL),
                     ERR_OFFSET_OUT_OF_RANGE);
}

static void bytes_that_wait_are_counted_within_a_segment(void **state)
{
    struct log_fixture *f = *state;
    fill(f, 25, 1000);
    int64_t one = commit_log_bytes_between(f->log, 24, 25);
    assert_true(one > 1000);
    assert_int_equal(commit_log_bytes_between(f->log, 22, 25), 3 * one);
    assert_int_equal(commit_log_bytes_between(f->log, 25, 25), 0);
    assert_int_equal(commit_log_bytes_between(f->log, 3, 25), INT64_MAX);
}

static void a_slice_outlives_the_segment_it_is_of(void **state)
{
    struct log_fixture *f = *state;
    struct log_slice slice;
    size_t deleted;
    f->config.retention_ms = -1;
    fill(f, 25, 1000);
    commit_log_set_high_watermark(f->log, 25);
    assert_int_equal(commit_log_read(f->log, 0, 25, 5000, false, &slice, NULL), 0);
    assert_int_equal(commit_log_advance_start(f->log, 25, NULL), 0);
    assert_int_equal(commit_log_apply_retention(f->log, &deleted, NULL), 0);
    assert_int_equal(deleted, 2);
    uint8_t data[5000];
    assert_int_equal(log_slice_read(&slice, data, NULL), 0);
    assert_int_equal(load_be64(data), 0);
    log_slice_fini(&slice);
}

static void a_roll_leaves_trimmed_indexes_and_a_snapshot(void **state)
{
    struct log_fixture *f = *state;
    fill(f, 25, 1000);
    assert_int_equal(file_size_of(f, "00000000000000000000.index"), 2 * 8);
    assert_int_equal(file_size_of(f, "00000000000000000000.timeindex"), 3 * 12);
    assert_int_equal(file_size_of(f, "00000000000000000010.snapshot"), 10);
    assert_true(file_size_of(f, "00000000000000000020.log") > 0);
    assert_int_equal(file_size_of(f, "00000000000000000020.index"), 10 << 20); /* active: full size */
    close_cleanly(f);
    assert_int_equal(file_size_of(f, "00000000000000000020.index"), 1 * 8);
    assert_int_equal(file_size_of(f, "00000000000000000025.snapshot"), 10);
}

static void an_idle_log_has_no_index_files_but_gets_them_when_closed(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    append_ok(f, 1, 10);
    assert_int_equal(file_size_of(f, "00000000000000000000.index"), -1);
    close_cleanly(f);
    assert_int_equal(file_size_of(f, "00000000000000000000.index"), 0);
    assert_int_equal(file_size_of(f, "00000000000000000000.timeindex"), 12);
}

static void a_segment_rolls_by_the_time_of_its_records(void **state)
{
    struct log_fixture *f = *state;
    f->config.segment_ms = 1000;
    open_directory(f);
    append_ok(f, 5000, 10);
    append_ok(f, 6000, 10);
    assert_int_equal(file_size_of(f, "00000000000000000002.log"), -1);
    append_ok(f, 6001, 10);
    assert_true(file_size_of(f, "00000000000000000002.log") > 0);
}

static void a_segment_rolls_when_its_index_is_full(void **state)
{
    struct log_fixture *f = *state;
    f->config.segment_index_bytes = 4 * 12;
    f->config.index_interval_bytes = 1;
    open_directory(f);
    for (int i = 0; i < 10; i++)
        append_ok(f, i, 10);
    assert_true(file_size_of(f, "00000000000000000004.log") > 0);
    close_cleanly(f);
    open_directory(f);
    assert_int_equal(commit_log_end_offset(f->log), 10);
}

/* --- what a leader checks and changes --- */

static int result_of(struct log_fixture *f, const struct batch_spec *spec,
                     struct append_result *result)
{
    struct append_request request = {.records = make_batch(f, spec)};
    return commit_log_append(f->log, &request, result, NULL);
}

static void records_out_of_the_range_of_time_are_named(void **state)
{
    struct log_fixture *f = *state;
    struct append_result result;
    f->config.message_timestamp_before_max_ms = 3600000;
    f->config.message_timestamp_after_max_ms = 60000;
    open_directory(f);
    append_ok(f, now_ms(), 10);
    append_ok(f, -1, 10); /* no time is fine */
    struct batch_spec old = {.timestamp = now_ms() - 3600001, .count = 3, .value_size = 1};
    old.timestamp -= 1000;
    assert_int_equal(result_of(f, &old, &result), ERR_INVALID_TIMESTAMP);
    assert_int_equal(result.record_error_count, 3);
    assert_int_equal(result.record_errors[2].index, 2);
    assert_non_null(
        strstr(result.record_errors[0].message, "of message with offset 0 is out of range"));
    assert_string_equal(result.error_message,
                        "One or more records have been rejected due to invalid timestamp");
    assert_int_equal(result.log_start_offset, 0);
    append_result_fini(&result);
    struct batch_spec future = {.timestamp = now_ms() + 120000};
    assert_int_equal(append(f, &future, NULL), ERR_INVALID_TIMESTAMP);
    assert_int_equal(append(f, &(struct batch_spec){.timestamp = -2}, NULL), ERR_INVALID_TIMESTAMP);
    assert_int_equal(commit_log_end_offset(f->log), 2);
}

static void a_compacted_topic_takes_no_record_without_key(void **state)
{
    struct log_fixture *f = *state;
    struct append_result result;
    f->config.cleanup_compact = true;
    open_directory(f);
    struct record_data records[] = {{.timestamp = 1, .key = bytes_of("k", 1)}, {.timestamp = 1}};
    struct batch_header h;
    batch_header_init(&h);
    h.base_timestamp = INT64_MIN;
    assert_int_equal(batch_build(&h, records, 2, NULL, &f->batch, NULL), 0);
    struct append_request request = {.records = bytes_of(f->batch.data, f->batch.size)};
    assert_int_equal(commit_log_append(f->log, &request, &result, NULL), ERR_INVALID_RECORD);
    assert_int_equal(result.record_error_count, 1);
    assert_int_equal(result.record_errors[0].index, 1);
    assert_string_equal(
        result.error_message,
        "One or more records have been rejected due to 1 record errors in total, and only showing "
        "the first three errors at most: [RecordError(batchIndex=1, message='Compacted topic cannot "
        "accept message without key in topic partition topic-0')]");
    append_result_fini(&result);
}

static void log_append_time_is_stamped_on_the_batch(void **state)
{
    struct log_fixture *f = *state;
    struct append_result result;
    f->config.log_append_time = true;
    open_directory(f);
    int64_t before = now_ms();
    assert_int_equal(result_of(f, &(struct batch_spec){.timestamp = 5, .count = 2}, &result), 0);
    assert_true(result.log_append_time_ms >= before);
    struct batch_header h = header_at(f, 0); /* its CRC was checked there */
    assert_int_equal(h.max_timestamp, result.log_append_time_ms);
    assert_int_equal(h.base_timestamp, 5);
    assert_int_equal(h.attributes, BATCH_LOG_APPEND_TIME);
    append_result_fini(&result);
}

static void a_wrong_maximum_timestamp_is_corrected(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    struct bytes batch = make_batch(f, &(struct batch_spec){.timestamp = 1000, .count = 2});
    batch_set_timestamp(f->batch.data, batch.size, false, 5000);
    struct append_request request = {.records = batch};
    struct append_result result;
    assert_int_equal(commit_log_append(f->log, &request, &result, NULL), 0);
    assert_int_equal(header_at(f, 0).max_timestamp, 1001);
}

static void the_topic_s_codec_replaces_another(void **state)
{
    struct log_fixture *f = *state;
    static const int codecs[] = {CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD};
    open_directory(f);
    for (int to = 0; to < 5; to++)
        for (int from = 0; from < 5; from++) {
            if (!codec_available(codecs[from]) || !codec_available(codecs[to]))
                continue;
            f->config.compression_type = codecs[to];
            commit_log_set_config(f->log, &f->config);
            struct batch_spec spec = {.producer_id = 1 + 5 * to + from,
                                      .timestamp = 77,
                                      .count = 50,
                                      .value_size = 100,
                                      .codec = codecs[from]};
            int64_t offset;
            assert_int_equal(append(f, &spec, &offset), 0);
            struct batch_header h = header_at(f, offset);
            assert_int_equal(batch_codec(&h), codecs[to]);
            assert_int_equal(h.record_count, 50);
            assert_int_equal(h.producer_id, spec.producer_id);
            assert_int_equal(h.base_timestamp, 77);
            assert_int_equal(h.max_timestamp, 77 + 49);
        }
    struct timestamp_offset found; /* records can be read again */
    assert_int_equal(commit_log_find_timestamp(f->log, 77 + 49, &found, NULL), 0);
    assert_int_equal(found.offset, 49);
}

static void sizes_are_limited(void **state)
{
    struct log_fixture *f = *state;
    struct append_result result;
    open_directory(f);
    struct batch_spec spec = {.timestamp = 1, .value_size = 1000};
    size_t size = make_batch(f, &spec).size;
    f->config.max_message_bytes = (int32_t)size; /* exactly passes */
    commit_log_set_config(f->log, &f->config);
    assert_int_equal(append(f, &spec, NULL), 0);
    f->config.max_message_bytes--;
    commit_log_set_config(f->log, &f->config);
    assert_int_equal(result_of(f, &spec, &result), ERR_MESSAGE_TOO_LARGE);
    assert_int_equal(result.log_start_offset, -1);
    append_result_fini(&result);
    f->config.max_message_bytes = 1 << 20;
    f->config.segment_bytes = (int32_t)size - 1;
    commit_log_set_config(f->log, &f->config);
    assert_int_equal(append(f, &spec, NULL), ERR_RECORD_LIST_TOO_LARGE);
}

/* --- times --- */

static void a_time_is_found_in_whatever_segment(void **state)
{
    struct log_fixture *f = *state;
    struct timestamp_offset found;
    fill(f, 35, 1000);
    for (int64_t i = 0; i < 35; i++) {
        assert_int_equal(commit_log_find_timestamp(f->log, 1000 + i, &found, NULL), 0);
        assert_int_equal(found.offset, i);
        assert_int_equal(found.timestamp, 1000 + i);
        assert_int_equal(found.leader_epoch, 0);
    }
    assert_int_equal(commit_log_find_timestamp(f->log, 0, &found, NULL), 0);
    assert_int_equal(found.offset, 0);
    assert_int_equal(commit_log_find_timestamp(f->log, 1035, &found, NULL), 0);
    assert_int_equal(found.offset, -1);
    assert_int_equal(commit_log_find_max_timestamp(f->log, &found, NULL), 0);
    assert_int_equal(found.offset, 34);
}

static void times_out_of_order_give_the_first_record_that_is_late_enough(void **state)
{
    static const int64_t times[] = {50, 10, 90, 20, 90, 5, 70};
    struct log_fixture *f = *state;
    struct timestamp_offset found;
    f->config.index_interval_bytes = 1;
    open_directory(f);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        append_ok(f, times[i], 100);
    for (int64_t target = 0; target <= 91; target++) {
        int64_t expected = -1;
        for (size_t i = sizeof times / sizeof *times; i-- > 0;)
            if (times[i] >= target)
                expected = (int64_t)i;
        assert_int_equal(commit_log_find_timestamp(f->log, target, &found, NULL), 0);
        assert_int_equal(found.offset, expected);
    }
    assert_int_equal(commit_log_find_max_timestamp(f->log, &found, NULL), 0);
    assert_int_equal(found.offset, 2);
}

static void within_a_batch_the_record_is_found(void **state)
{
    struct log_fixture *f = *state;
    struct timestamp_offset found;
    open_directory(f);
    for (int i = 0; i < 3; i++)
        assert_int_equal(append(f,
                                &(struct batch_spec){.timestamp = 100 * i,
                                                     .count = 10,
                                                     .codec = CODEC_GZIP},
                                NULL),
                         0);
    assert_int_equal(commit_log_find_timestamp(f->log, 105, &found, NULL), 0);
    assert_int_equal(found.offset, 15);
    assert_int_equal(commit_log_find_max_timestamp(f->log, &found, NULL), 0);
    assert_int_equal(found.offset, 29);
    commit_log_set_high_watermark(f->log, 30);
    assert_int_equal(commit_log_advance_start(f->log, 17, NULL), 0);
    assert_int_equal(commit_log_find_timestamp(f->log, 105, &found, NULL), 0);
    assert_int_equal(found.offset, 17); /* not below the log's start */
}

/* --- shorter --- */

static void retention_by_time_keeps_what_is_young(void **state)
{
    struct log_fixture *f = *state;
    size_t deleted;
    f->config.retention_ms = 1000000;
    fill(f, 20, now_ms() - 2000000);
    fill(f, 5, now_ms());
    assert_int_equal(commit_log_apply_retention(f->log, &deleted, NULL), 0);
    assert_int_equal(deleted, 0); /* nothing is below the high watermark */
    commit_log_set_high_watermark(f->log, 25);
    assert_int_equal(commit_log_apply_retention(f->log, &deleted, NULL), 0);
    assert_int_equal(deleted, 2);
    assert_int_equal(commit_log_start_offset(f->log), 20);
    assert_true(file_size_of(f, "00000000000000000000.log.deleted") > 0);
    assert_int_equal(file_size_of(f, "00000000000000000010.snapshot"), -1);
    (void)commit_log_tick(f->log, env_now_ms(f->env) + f->config.file_delete_delay_ms + 1);
    assert_int_equal(file_size_of(f, "00000000000000000000.log.deleted"), -1);
    assert_int_equal(header_at(f, 20).base_offset, 20);
}

static void retention_of_everything_rolls_first(void **state)
{
    struct log_fixture *f = *state;
    size_t deleted;
    f->config.retention_ms = 1000;
    fill(f, 15, 1000);
    commit_log_set_high_watermark(f->log, 15);
    assert_int_equal(commit_log_apply_retention(f->log, &deleted, NULL), 0);
    assert_int_equal(deleted, 2);
    assert_int_equal(commit_log_start_offset(f->log), 15);
    assert_int_equal(append_ok(f, 1, 10), 15);
    kill_broker(f);
    open_directory(f);
    assert_int_equal(commit_log_start_offset(f->log), 15);
    assert_int_equal(commit_log_end_offset(f->log), 16);
}

static void retention_by_size_deletes_the_oldest(void **state)
{
    struct log_fixture *f = *state;
    size_t deleted;
    f->config.retention_ms = -1;
    fill(f, 45, 1000);
    int64_t size = commit_log_size(f->log);
    f->config.retention_bytes = size / 2;
    commit_log_set_config(f->log, &f->config);
    commit_log_set_high_watermark(f->log, 45);
    assert_int_equal(commit_log_apply_retention(f->log, &deleted, NULL), 0);
    assert_int_equal(deleted, 2);
    assert_true(commit_log_size(f->log) >= size / 2);
}

static void deleted_records_stay_deleted_after_a_clean_stop(void **state)
{
    struct log_fixture *f = *state;
    fill(f, 25, 1000);
    commit_log_set_high_watermark(f->log, 20);
    assert_int_equal(commit_log_advance_start(f->log, 21, NULL), ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(commit_log_advance_start(f->log, 13, NULL), 0);
    assert_int_equal(commit_log_advance_start(f->log, 5, NULL), 0); /* no step back */
    assert_int_equal(commit_log_start_offset(f->log), 13);
    close_cleanly(f);
    open_directory(f);
    assert_int_equal(commit_log_start_offset(f->log), 13);
    assert_int_equal(commit_log_high_watermark(f->log), 20);
    struct log_slice slice;
    assert_int_equal(commit_log_read(f->log, 12, 25, 1, true, &slice, NULL),
                     ERR_OFFSET_OUT_OF_RANGE);
}

static void truncation_takes_everything_above_with_it(void **state)
{
    struct log_fixture *f = *state;
    struct timestamp_offset found;
    fill(f, 25, 1000);
    assert_int_equal(commit_log_start_epoch(f->log, 3, NULL), 0);
    commit_log_set_high_watermark(f->log, 25);
    assert_int_equal(commit_log_truncate(f->log, 14, NULL), 0);
    assert_int_equal(commit_log_end_offset(f->log), 14);
    assert_int_equal(commit_log_high_watermark(f->log), 14);
    assert_int_equal(commit_log_latest_epoch(f->log), 0);
    assert_int_equal(commit_log_find_timestamp(f->log, 1014, &found, NULL), 0);
    assert_int_equal(found.offset, -1);
    assert_int_equal(append_ok(f, 5000, 1000), 14);
    assert_int_equal(header_at(f, 14).max_timestamp, 5000);
    close_cleanly(f);
    open_directory(f);
    assert_int_equal(commit_log_end_offset(f->log), 15);
    assert_int_equal(commit_log_find_timestamp(f->log, 1014, &found, NULL), 0);
    assert_int_equal(found.offset, 14);
    assert_int_equal(commit_log_truncate_fully(f->log, 100, NULL), 0);
    assert_int_equal(append_ok(f, 1, 10), 100);
    kill_broker(f);
    open_directory(f);
    assert_int_equal(commit_log_start_offset(f->log), 100);
    assert_int_equal(commit_log_end_offset(f->log), 101);
}

static void epochs_end_where_the_next_begins(void **state)
{
    struct log_fixture *f = *state;
    fill(f, 10, 1000);
    assert_int_equal(commit_log_start_epoch(f->log, 4, NULL), 0);
    struct append_request request = {.records = make_batch(f, &(struct batch_spec){.timestamp = 1,
                                                                                   .count = 5}),
                                     .leader_epoch = 4};
    struct append_result result;
    assert_int_equal(commit_log_append(f->log, &request, &result, NULL), 0);
    assert_int_equal(commit_log_epoch_end(f->log, 4).end_offset, 15);
    assert_int_equal(commit_log_epoch_end(f->log, 5).end_offset, -1);
    assert_int_equal(commit_log_epoch_end(f->log, 0).end_offset, 10);
    assert_int_equal(commit_log_epoch_end(f->log, 2).epoch, 0);
    assert_int_equal(commit_log_epoch_end(f->log, 2).end_offset, 10);
    assert_int_equal(commit_log_epoch_of(f->log, 9), 0);
    assert_int_equal(commit_log_epoch_of(f->log, 10), 4);
    kill_broker(f);
    open_directory(f);
    assert_int_equal(commit_log_epoch_end(f->log, 0).end_offset, 10);
}

static void a_follower_keeps_offsets_and_refuses_a_step_back(void **state)
{
    struct log_fixture *f = *state;
    int64_t last;
    open_directory(f);
    struct bytes batch = make_batch(f, &(struct batch_spec){.timestamp = 1, .count = 4});
    batch_set_offset_and_epoch(f->batch.data, 10, 2); /* a gap in front, as after compaction */
    assert_int_equal(commit_log_append_as_follower(f->log, batch, &last, NULL), 0);
    assert_int_equal(last, 13);
    assert_int_equal(commit_log_latest_epoch(f->log), 2);
    assert_int_equal(header_at(f, 0).base_offset, 10);
    assert_int_equal(commit_log_append_as_follower(f->log, batch, &last, NULL),
                     ERR_UNKNOWN_SERVER_ERROR);
    f->batch.data[batch.size - 1] ^= 1;
    batch_set_offset_and_epoch(f->batch.data, 14, 2);
    assert_int_equal(commit_log_append_as_follower(f->log, batch, &last, NULL), ERR_CORRUPT_MESSAGE);
    assert_int_equal(commit_log_end_offset(f->log), 14);
}

/* --- the directory --- */

static void a_directory_belongs_to_one_broker_and_one_process(void **state)
{
    struct log_fixture *f = *state;
    cafka_error err = {0};
    struct log_manager *other;
    open_directory(f);
    struct log_manager_options options = {.env = f->env, .directory = f->directory, .broker_id = 1};
    assert_int_equal(log_manager_open(&other, &options, &err), CAFKA_ERR_IO);
    close_cleanly(f);
    options.broker_id = 2;
    error_clear(&err);
    assert_int_equal(log_manager_open(&other, &options, &err), CAFKA_ERR_CONFIG);
    options.broker_id = 1;
    options.cluster_id = "another";
    assert_int_equal(log_manager_open(&other, &options, NULL), CAFKA_ERR_CONFIG);
}

static void another_topic_id_is_refused(void **state)
{
    struct log_fixture *f = *state;
    cafka_error err = {0};
    open_directory(f);
    close_cleanly(f);
    f->topic_id.bytes[0]++;
    assert_int_equal(try_open(f, &err), ERR_INCONSISTENT_TOPIC_ID);
}

static void partitions_are_found_again_and_deleted_ones_are_not(void **state)
{
    struct log_fixture *f = *state;
    struct commit_log *second;
    open_directory(f);
    append_ok(f, 1, 10);
    assert_int_equal(log_manager_open_log(f->manager, "a.topic-with-dash", 11, f->topic_id,
                                          &f->config, &second, NULL),
                     0);
    assert_int_equal(log_manager_delete_log(f->manager, f->log, NULL), 0);
    assert_null(log_manager_find(f->manager, "topic", 0));
    close_cleanly(f);
    struct log_manager_options options = {.env = f->env, .directory = f->directory, .broker_id = 1};
    assert_int_equal(log_manager_open(&f->manager, &options, NULL), 0);
    assert_true(log_manager_was_clean(f->manager));
    assert_int_equal(log_manager_found_count(f->manager), 1);
    const struct found_partition *found = log_manager_found(f->manager, 0);
    assert_string_equal(found->topic, "a.topic-with-dash");
    assert_int_equal(found->partition, 11);
    assert_true(uuid_equal(found->topic_id, f->topic_id));
    (void)log_manager_tick(f->manager, env_now_ms(f->env)); /* the deleted one's directory goes */
    char command[600];
    snprintf(command, sizeof command, "! ls -d %s/topic-* 2>/dev/null", f->directory);
    assert_int_equal(system(command), 0);
}

static void a_log_that_nobody_opened_is_not_called_clean(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    append_ok(f, 1, 10);
    kill_broker(f);
    struct log_manager_options options = {.env = f->env, .directory = f->directory, .broker_id = 1};
    assert_int_equal(log_manager_open(&f->manager, &options, NULL), 0);
    close_cleanly(f);
    assert_int_equal(log_manager_open(&f->manager, &options, NULL), 0);
    assert_false(log_manager_was_clean(f->manager));
}

static void flushing_moves_the_recovery_point(void **state)
{
    struct log_fixture *f = *state;
    f->config.flush_messages = 3;
    open_directory(f);
    append_ok(f, 1, 10);
    append_ok(f, 1, 10);
    assert_int_equal(commit_log_recovery_point(f->log), 0);
    append_ok(f, 1, 10);
    assert_int_equal(commit_log_recovery_point(f->log), 3);
    f->config.flush_messages = INT64_MAX;
    f->config.flush_ms = 100;
    commit_log_set_config(f->log, &f->config);
    append_ok(f, 1, 10);
    int64_t due = commit_log_tick(f->log, env_now_ms(f->env));
    assert_int_equal(commit_log_recovery_point(f->log), 3);
    (void)commit_log_tick(f->log, due);
    assert_int_equal(commit_log_recovery_point(f->log), 4);
}

static void rolled_segments_are_synced_and_closed_in_their_time(void **state)
{
    struct log_fixture *f = *state;
    fill(f, 25, 1000);
    assert_int_equal(commit_log_recovery_point(f->log), 0);
    (void)commit_log_tick(f->log, env_now_ms(f->env));
    assert_int_equal(commit_log_recovery_point(f->log), 20);
    for (int64_t offset = 0; offset < 25; offset++) /* they open again when they are read */
        assert_int_equal(header_at(f, offset).base_offset, offset);
    assert_int_equal(append_ok(f, 5000, 1000), 25);
}

static void a_compaction_that_was_all_but_done_is_finished(void **state)
{
    struct log_fixture *f = *state;
    char command[2000];
    fill(f, 25, 1000);
    close_cleanly(f);
    /* segments 0 and 10 were put into one; a later piece was still being written */
    snprintf(command, sizeof command,
             "cd %s/topic-0 && cat 00000000000000000000.log 00000000000000000010.log > "
             "00000000000000000000.log.swap && cp 00000000000000000020.log "
             "00000000000000000020.log.cleaned && echo x > 00000000000000000020.index.swap",
             f->directory);
    assert_int_equal(system(command), 0);
    open_directory(f);
    assert_int_equal(file_size_of(f, "00000000000000000010.log"), -1);
    assert_int_equal(file_size_of(f, "00000000000000000000.log.swap"), -1);
    assert_int_equal(file_size_of(f, "00000000000000000020.log.cleaned"), -1);
    assert_int_equal(file_size_of(f, "00000000000000000020.index.swap"), -1);
    for (int64_t offset = 0; offset < 25; offset++)
        assert_int_equal(header_at(f, offset).base_offset, offset);
    assert_int_equal(append_ok(f, 5000, 1000), 25);
}

static void indexes_without_a_log_are_removed(void **state)
{
    struct log_fixture *f = *state;
    char command[2000];
    fill(f, 5, 1000);
    close_cleanly(f);
    snprintf(command, sizeof command, "cd %s/topic-0 && echo x > 00000000000000000777.timeindex",
             f->directory);
    assert_int_equal(system(command), 0);
    open_directory(f);
    assert_int_equal(file_size_of(f, "00000000000000000777.timeindex"), -1);
    assert_int_equal(commit_log_end_offset(f->log), 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(offsets_count_up_and_reads_begin_with_the_batch_asked_for),
        TEST(a_read_keeps_to_its_limits),
        TEST(bytes_that_wait_are_counted_within_a_segment),
        TEST(a_slice_outlives_the_segment_it_is_of),
        TEST(a_roll_leaves_trimmed_indexes_and_a_snapshot),
        TEST(an_idle_log_has_no_index_files_but_gets_them_when_closed),
        TEST(a_segment_rolls_by_the_time_of_its_records),
        TEST(a_segment_rolls_when_its_index_is_full),
        TEST(records_out_of_the_range_of_time_are_named),
        TEST(a_compacted_topic_takes_no_record_without_key),
        TEST(log_append_time_is_stamped_on_the_batch),
        TEST(a_wrong_maximum_timestamp_is_corrected),
        TEST(the_topic_s_codec_replaces_another),
        TEST(sizes_are_limited),
        TEST(a_time_is_found_in_whatever_segment),
        TEST(times_out_of_order_give_the_first_record_that_is_late_enough),
        TEST(within_a_batch_the_record_is_found),
        TEST(retention_by_time_keeps_what_is_young),
        TEST(retention_of_everything_rolls_first),
        TEST(retention_by_size_deletes_the_oldest),
        TEST(deleted_records_stay_deleted_after_a_clean_stop),
        TEST(truncation_takes_everything_above_with_it),
        TEST(epochs_end_where_the_next_begins),
        TEST(a_follower_keeps_offsets_and_refuses_a_step_back),
        TEST(a_directory_belongs_to_one_broker_and_one_process),
        TEST(another_topic_id_is_refused),
        TEST(partitions_are_found_again_and_deleted_ones_are_not),
        TEST(a_log_that_nobody_opened_is_not_called_clean),
        TEST(a_compaction_that_was_all_but_done_is_finished),
        TEST(indexes_without_a_log_are_removed),
        TEST(flushing_moves_the_recovery_point),
        TEST(rolled_segments_are_synced_and_closed_in_their_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
