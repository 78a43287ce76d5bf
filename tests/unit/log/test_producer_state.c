/*
 * test_producer_state.c - duplicates, gaps, epochs and transactions of idempotent producers, and
 * what of it survives a restart.
 */
#define _XOPEN_SOURCE 700 /* truncate */
#include "log_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ID = 4000 };
static int64_t now_ms; /* when the tests began: older producers would have expired */
#define TIME now_ms

/* Append sequence `sequence` of producer ID; the code. */
static int send(struct log_fixture *f, int16_t epoch, int32_t sequence, int64_t *offset)
{
    struct batch_spec spec = {.producer_id = ID,
                              .epoch = epoch,
                              .sequence = sequence,
                              .timestamp = TIME + sequence};
    return append(f, &spec, offset);
}

static int send_in_transaction(struct log_fixture *f, int64_t id, int32_t sequence)
{
    struct batch_spec spec = {.producer_id = id,
                              .sequence = sequence,
                              .timestamp = TIME,
                              .transactional = true};
    return append(f, &spec, NULL);
}

static void send_six(struct log_fixture *f)
{
    for (int sequence = 0; sequence < 6; sequence++)
        assert_int_equal(send(f, 0, sequence, NULL), 0);
}

/* HARD 2: of six batches the last five are answered with their offsets, the first is refused. */
static void expect_five_remembered(struct log_fixture *f)
{
    int64_t offset;
    for (int sequence = 5; sequence >= 1; sequence--) {
        assert_int_equal(send(f, 0, sequence, &offset), 0);
        assert_int_equal(offset, sequence);
    }
    assert_int_equal(send(f, 0, 0, &offset), ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(offset, -1);
    assert_int_equal(commit_log_end_offset(f->log), 6);
}

static void the_last_five_batches_are_answered_as_written(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    send_six(f);
    expect_five_remembered(f);
}

static void five_batches_are_remembered_over_a_clean_restart(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    send_six(f);
    close_cleanly(f);
    open_directory(f);
    expect_five_remembered(f);
}

static void five_batches_are_remembered_over_a_kill(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    send_six(f);
    kill_broker(f);
    open_directory(f);
    expect_five_remembered(f);
}

static void five_batches_are_remembered_over_a_roll_and_a_kill(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    for (int sequence = 0; sequence < 6; sequence++) {
        assert_int_equal(send(f, 0, sequence, NULL), 0);
        if (sequence == 3)
            assert_int_equal(commit_log_roll(f->log, NULL), 0);
    }
    kill_broker(f);
    open_directory(f);
    expect_five_remembered(f);
}

static void a_damaged_snapshot_is_replaced_by_the_batches(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    send_six(f);
    close_cleanly(f);
    char path[512];
    path_in(f, path, "topic-0/%020d.snapshot", 6);
    assert_int_equal(truncate(path, 30), 0);
    open_directory(f);
    expect_five_remembered(f);
}

static void a_duplicate_answers_the_stored_time(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    assert_int_equal(send(f, 0, 0, NULL), 0);
    struct batch_spec spec = {.producer_id = ID, .timestamp = TIME};
    struct append_request request = {.records = make_batch(f, &spec)};
    struct append_result result;
    assert_int_equal(commit_log_append(f->log, &request, &result, NULL), 0);
    assert_true(result.duplicate);
    assert_int_equal(result.base_offset, 0);
    assert_int_equal(result.log_append_time_ms, TIME);
    append_result_fini(&result);
}

static void the_same_first_sequence_with_another_count_is_no_duplicate(void **state)
{
    struct log_fixture *f = *state;
    struct batch_spec three = {.producer_id = ID, .timestamp = TIME, .count = 3};
    struct batch_spec two = {.producer_id = ID, .timestamp = TIME, .count = 2};
    open_directory(f);
    assert_int_equal(append(f, &three, NULL), 0);
    assert_int_equal(append(f, &two, NULL), ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(append(f, &three, NULL), 0);
}

static void a_gap_is_refused_and_the_next_right_one_taken(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    assert_int_equal(send(f, 0, 0, NULL), 0);
    assert_int_equal(send(f, 0, 2, NULL), ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(send(f, 0, 1, NULL), 0);
}

static void an_unknown_producer_may_begin_anywhere(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    assert_int_equal(send(f, 3, 77, NULL), 0);
    assert_int_equal(send(f, 3, 78, NULL), 0);
}

static void a_new_epoch_begins_with_0_and_fences_the_old_one(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    assert_int_equal(send(f, 1, 0, NULL), 0);
    assert_int_equal(send(f, 2, 5, NULL), ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(send(f, 2, 0, NULL), 0);
    assert_int_equal(send(f, 1, 1, NULL), ERR_INVALID_PRODUCER_EPOCH);
    assert_int_equal(send(f, 2, 1, NULL), 0);
}

static void sequences_wrap_to_0(void **state)
{
    struct log_fixture *f = *state;
    struct batch_spec across = {.producer_id = ID,
                                .sequence = INT32_MAX - 1,
                                .timestamp = TIME,
                                .count = 4};
    int64_t offset;
    open_directory(f);
    assert_int_equal(append(f, &across, &offset), 0);
    assert_int_equal(send(f, 0, 2, NULL), 0); /* …, 2147483646, 2147483647, 0, 1, then 2 */
    assert_int_equal(append(f, &across, &offset), 0);
    assert_int_equal(offset, 0);
    assert_int_equal(commit_log_end_offset(f->log), 5);
}

static void the_state_survives_that_records_are_deleted(void **state)
{
    struct log_fixture *f = *state;
    int64_t offset;
    open_directory(f);
    send_six(f);
    commit_log_set_high_watermark(f->log, 6);
    assert_int_equal(commit_log_advance_start(f->log, 6, NULL), 0);
    assert_int_equal(send(f, 0, 5, &offset), 0);
    assert_int_equal(offset, 5);
    assert_int_equal(send(f, 0, 6, &offset), 0);
    assert_int_equal(offset, 6);
}

/* --- transactions --- */

static void the_stable_offset_waits_for_the_first_open_transaction(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    append_ok(f, TIME, 10);                            /* 0 */
    assert_int_equal(send_in_transaction(f, 1, 0), 0); /* 1 */
    assert_int_equal(send_in_transaction(f, 2, 0), 0); /* 2 */
    append_ok(f, TIME, 10);                            /* 3 */
    commit_log_set_high_watermark(f->log, 4);
    assert_int_equal(commit_log_stable_offset(f->log), 1);
    assert_int_equal(append_marker(f, 1, 0, true), 0);     /* 4 */
    assert_int_equal(commit_log_stable_offset(f->log), 1); /* its marker is not below the HW yet */
    commit_log_set_high_watermark(f->log, 5);
    assert_int_equal(commit_log_stable_offset(f->log), 2);
    assert_int_equal(append_marker(f, 2, 0, false), 0); /* 5 */
    commit_log_set_high_watermark(f->log, 6);
    assert_int_equal(commit_log_stable_offset(f->log), 6);

    struct log_slice slice;
    struct aborted_transaction *aborted;
    size_t count;
    assert_int_equal(commit_log_read(f->log, 0, 6, 1 << 20, true, &slice, NULL), 0);
    assert_int_equal(commit_log_aborted(f->log, 0, &slice, &aborted, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(aborted[0].producer_id, 2);
    assert_int_equal(aborted[0].first_offset, 2);
    log_slice_fini(&slice);
    mem_free(aborted);
}

static void an_open_transaction_is_still_open_after_a_kill(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    append_ok(f, TIME, 10);
    assert_int_equal(send_in_transaction(f, 1, 0), 0);
    commit_log_set_high_watermark(f->log, 2);
    kill_broker(f);
    open_directory(f);
    commit_log_set_high_watermark(f->log, 2);
    assert_int_equal(commit_log_stable_offset(f->log), 1);
    assert_int_equal(append_marker(f, 1, 0, false), 0);
    commit_log_set_high_watermark(f->log, 3);
    assert_int_equal(commit_log_stable_offset(f->log), 3);
    assert_int_equal(file_size_of(f, "00000000000000000000.txnindex"), 34);
}

static void outside_a_verified_transaction_nothing_transactional_is_taken(void **state)
{
    struct log_fixture *f = *state;
    struct batch_spec spec = {.producer_id = 1, .timestamp = TIME, .transactional = true};
    open_directory(f);
    struct append_request request = {.records = make_batch(f, &spec)};
    struct append_result result;
    assert_int_equal(commit_log_append(f->log, &request, &result, NULL), ERR_INVALID_TXN_STATE);
    append_result_fini(&result);
    request.verified = true;
    assert_int_equal(commit_log_append(f->log, &request, &result, NULL), 0);
    append_result_fini(&result);
    spec.transactional = false; /* and while it is open, nothing else from that producer */
    spec.sequence = 1;
    assert_int_equal(append(f, &spec, NULL), ERR_INVALID_TXN_STATE);
}

static void a_marker_of_an_older_epoch_is_refused(void **state)
{
    struct log_fixture *f = *state;
    open_directory(f);
    assert_int_equal(send(f, 5, 0, NULL), 0);
    assert_int_equal(append_marker(f, ID, 4, false), ERR_INVALID_PRODUCER_EPOCH);
    assert_int_equal(append_marker(f, ID, 6, false), 0);
    assert_int_equal(send(f, 5, 1, NULL), ERR_INVALID_PRODUCER_EPOCH);
    assert_int_equal(send(f, 6, 0, NULL), 0);
}

static void silent_producers_are_forgotten(void **state)
{
    struct log_fixture *f = *state;
    struct producer_info info;
    size_t position = 0;
    open_directory(f);
    now_ms = 1000; /* of 1970 */
    assert_int_equal(send(f, 0, 0, NULL), 0);
    assert_int_equal(send_in_transaction(f, 1, 0), 0);
    assert_true(commit_log_producer_next(f->log, &position, &info));
    assert_int_equal(info.producer_id, ID);
    (void)commit_log_tick(f->log, INT64_MAX / 2);
    position = 0;
    assert_true(commit_log_producer_next(f->log, &position, &info));
    assert_int_equal(info.producer_id, 1); /* open transactions keep their producer */
    assert_false(commit_log_producer_next(f->log, &position, &info));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_five_batches_are_answered_as_written),
        TEST(five_batches_are_remembered_over_a_clean_restart),
        TEST(five_batches_are_remembered_over_a_kill),
        TEST(five_batches_are_remembered_over_a_roll_and_a_kill),
        TEST(a_damaged_snapshot_is_replaced_by_the_batches),
        TEST(a_duplicate_answers_the_stored_time),
        TEST(the_same_first_sequence_with_another_count_is_no_duplicate),
        TEST(a_gap_is_refused_and_the_next_right_one_taken),
        TEST(an_unknown_producer_may_begin_anywhere),
        TEST(a_new_epoch_begins_with_0_and_fences_the_old_one),
        TEST(sequences_wrap_to_0),
        TEST(the_state_survives_that_records_are_deleted),
        TEST(the_stable_offset_waits_for_the_first_open_transaction),
        TEST(an_open_transaction_is_still_open_after_a_kill),
        TEST(outside_a_verified_transaction_nothing_transactional_is_taken),
        TEST(a_marker_of_an_older_epoch_is_refused),
        TEST(silent_producers_are_forgotten),
    };
    now_ms = env_wall_ms(cafka_env_real());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
