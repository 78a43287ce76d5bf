/*
 * test_reader.c - from a fetch answer's bytes to records: marks, cursor, memory, damage.
 *
 * The loop's part is played by the test (reader_fixture.h); no broker is there.
 */
#include "unit/consumer/reader_fixture.h"

static void records_of_every_codec_come_in_order(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    int64_t offset = 0;
    for (int codec = CODEC_NONE; codec < CODEC_COUNT; codec++)
        if (codec_available(codec)) {
            put_batch(&bytes, codec, offset, 10, 0, -1);
            offset += 10;
        }
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    for (int64_t i = 0; i < offset; i++)
        assert_next_is(fetch, i);
    assert_end(fetch);
    assert_int_equal(s->p->app.position, offset);
    cafka_fetch_free(fetch);
}

static void what_a_fetch_does_not_hand_out_comes_with_the_next(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    put_batch(&bytes, CODEC_LZ4, 0, 10, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *first = poll_once(s, 500);
    assert_next_is(first, 0);
    assert_next_is(first, 1);
    cafka_fetch *second = poll_once(s, 3);
    assert_end(first); /* a new poll ended it */
    cafka_fetch_free(first);
    for (int i = 2; i < 5; i++)
        assert_next_is(second, i);
    assert_end(second); /* max.poll.records */
    cafka_fetch_free(second);
    cafka_fetch *third = poll_once(s, 500);
    assert_next_is(third, 5);
    cafka_fetch_free(third);
}

static void records_below_the_position_are_passed_over(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    s->p->app.position = 7;
    put_batch(&bytes, CODEC_NONE, 0, 10, 0, -1);
    arrive(s, &bytes, 7, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_next_is(fetch, 7);
    cafka_fetch_free(fetch);
}

static void views_live_as_long_as_their_fetch_or_a_reference(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    cafka_record_view view;
    put_batch(&bytes, CODEC_GZIP, 0, 2, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_OK);
    cafka_record_memory *memory = cafka_record_ref(&view);
    assert_next_is(fetch, 1);
    assert_end(fetch);
    cafka_fetch_free(fetch);
    assert_null(poll_once(s, 500));
    assert_true(fetch_budget_held(s->budget) > 0); /* the reference counts */
    assert_memory_equal(view.value, "v0", 2);
    cafka_record_unref(memory);
    assert_int_equal(fetch_budget_held(s->budget), 0);
}

static void data_of_an_older_generation_is_dropped(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    put_batch(&bytes, CODEC_NONE, 0, 10, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_next_is(fetch, 0);
    s->p->app.generation++; /* a seek in the middle of a batch */
    s->p->app.position = 100;
    reader_leave(s->reader, s->p);
    assert_end(fetch);
    cafka_fetch_free(fetch);
    put_batch(&bytes, CODEC_NONE, 100, 1, 0, -1);
    arrive(s, &bytes, 100, NULL);
    fetch = poll_once(s, 500);
    assert_next_is(fetch, 100);
    cafka_fetch_free(fetch);
}

static void pause_in_the_middle_of_a_batch_keeps_the_rest(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    put_batch(&bytes, CODEC_ZSTD, 0, 5, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_next_is(fetch, 0);
    s->p->app.paused = true;
    reader_leave(s->reader, s->p);
    assert_end(fetch);
    cafka_fetch_free(fetch);
    put_batch(&bytes, CODEC_NONE, 5, 1, 0, -1);
    arrive(s, &bytes, 5, NULL);
    assert_null(poll_once(s, 500));
    s->p->app.paused = false;
    reader_resume(s->reader, s->p);
    fetch = poll_once(s, 500);
    for (int i = 1; i < 6; i++)
        assert_next_is(fetch, i);
    assert_end(fetch);
    cafka_fetch_free(fetch);
}

static void control_batches_move_the_position_and_are_not_shown(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    put_batch(&bytes, CODEC_NONE, 0, 2, BATCH_TRANSACTIONAL, 9);
    uint8_t marker[END_TXN_BATCH_SIZE];
    end_txn_batch_write(marker, true, 9, 0, 0, 1000);
    batch_set_offset_and_epoch(marker, 2, 0);
    buffer_put(&bytes, marker, sizeof marker);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_next_is(fetch, 0);
    assert_next_is(fetch, 1);
    assert_end(fetch);
    assert_int_equal(s->p->app.position, 3);
    cafka_fetch_free(fetch);

    end_txn_batch_write(marker, true, 9, 0, 0, 1000);
    batch_set_offset_and_epoch(marker, 3, 0);
    buffer_put(&bytes, marker, sizeof marker);
    arrive(s, &bytes, 3, NULL);
    assert_null(poll_once(s, 500));
    assert_true(s->reader->moved); /* a poll that waits for the end looks again */
    assert_int_equal(s->p->app.position, 4);
}

static void aborted_data_is_dropped_with_read_committed(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    struct aborted_filter filter = {0};
    uint8_t marker[END_TXN_BATCH_SIZE];
    put_batch(&bytes, CODEC_NONE, 0, 2, BATCH_TRANSACTIONAL, 9);
    put_batch(&bytes, CODEC_NONE, 2, 2, 0, -1);
    put_batch(&bytes, CODEC_NONE, 4, 2, BATCH_TRANSACTIONAL, 8);
    end_txn_batch_write(marker, false, 9, 0, 0, 1000);
    batch_set_offset_and_epoch(marker, 6, 0);
    buffer_put(&bytes, marker, sizeof marker);
    put_batch(&bytes, CODEC_NONE, 7, 1, BATCH_TRANSACTIONAL, 9); /* the next transaction of 9 */
    aborted_add(&filter, 9, 0, NULL);
    aborted_sort(&filter);
    arrive(s, &bytes, 0, &filter);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_next_is(fetch, 2);
    assert_next_is(fetch, 3);
    assert_next_is(fetch, 4);
    assert_next_is(fetch, 5);
    assert_next_is(fetch, 7);
    assert_end(fetch);
    cafka_fetch_free(fetch);
    aborted_fini(&filter);
}

static void corrupt_batch_is_an_error_and_the_position_stays(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    cafka_record_view view;
    cafka_error err = {0};
    put_batch(&bytes, CODEC_NONE, 0, 2, 0, -1);
    size_t second = bytes.size;
    put_batch(&bytes, CODEC_NONE, 2, 2, 0, -1);
    bytes.data[second + 70] ^= 1;
    assert_int_equal(arrive(s, &bytes, 0, NULL), CAFKA_ERR_CORRUPT);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_next_is(fetch, 0);
    assert_next_is(fetch, 1);
    assert_int_equal(cafka_fetch_next(fetch, &view, &err), CAFKA_ERR_CORRUPT);
    assert_int_equal(view.offset, 2);
    assert_non_null(strstr(err.message, "orders-3 at offset 2"));
    assert_int_equal(s->failed, 1);
    assert_int_equal(s->p->app.position, 2);
    assert_end(fetch);
    cafka_fetch_free(fetch);
}

/* Its offset is as doubtful as the rest: to pass over it would be to lose the partition's data in silence. */
static void corrupt_batch_that_says_it_lies_below_the_position_is_told(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    cafka_record_view view;
    s->p->app.position = 10;
    put_batch(&bytes, CODEC_NONE, 10, 2, 0, -1);
    bytes.data[7] = 3; /* base offset */
    bytes.data[70] ^= 1;
    assert_int_equal(arrive(s, &bytes, 10, NULL), CAFKA_ERR_CORRUPT);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_ERR_CORRUPT);
    assert_int_equal(s->p->app.position, 10);
    cafka_fetch_free(fetch);
}

/* The base offset is outside of the CRC; the other is wrong though the CRC is right. */
static void batch_of_impossible_offsets_is_corrupt(void **state)
{
    struct scene *s = *state;
    for (int wrong = 0; wrong < 3; wrong++) {
        struct buffer bytes = {0};
        cafka_record_view view;
        const uint8_t record[] = {0x0c, 0, 0, 0, 1, 1, 0};
        struct batch_header h;
        batch_header_init(&h);
        h.base_offset = wrong == 0 ? -5 : wrong == 1 ? 0 : INT64_MAX - 3;
        h.last_offset_delta = wrong == 1 ? -1 : 3;
        h.record_count = 1;
        assert_int_equal(batch_wrap(&h, bytes_of(record, sizeof record), &bytes, NULL), CAFKA_OK);
        assert_int_equal(arrive(s, &bytes, 0, NULL), CAFKA_ERR_CORRUPT);
        cafka_fetch *fetch = poll_once(s, 500);
        assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_ERR_CORRUPT);
        assert_int_equal(s->p->app.position, 0);
        cafka_fetch_free(fetch);
    }
}

/* The CRC is right, so the broker wrote it so: a record whose length leads out of the batch. */
static void record_that_breaks_the_format_is_an_error(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    struct batch_header h;
    cafka_record_view view;
    cafka_error err = {0};
    const uint8_t record[] = {0x7e, 0, 0, 0, 1, 1, 0};
    batch_header_init(&h);
    h.base_offset = 0;
    h.record_count = 1;
    h.last_offset_delta = 0;
    assert_int_equal(batch_wrap(&h, bytes_of(record, sizeof record), &bytes, NULL), CAFKA_OK);
    assert_int_equal(arrive(s, &bytes, 0, NULL), CAFKA_OK);
    cafka_fetch *fetch = poll_once(s, 500);
    int rc = cafka_fetch_next(fetch, &view, &err);
    assert_int_equal(rc, CAFKA_ERR_PROTOCOL);
    assert_int_equal(err.code, rc);
    assert_int_equal(s->p->app.position, 0);
    cafka_fetch_free(fetch);
}

static void bomb_is_refused_at_the_limit(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0}, zeros = {0};
    struct batch_header h;
    struct compressor *c;
    cafka_record_view view;
    memset(buffer_extend(&zeros, 8 << 20), 0, 8 << 20);
    struct record_data record = {.value = bytes_of(zeros.data, zeros.size)};
    batch_header_init(&h);
    h.base_offset = 0;
    h.base_timestamp = INT64_MIN;
    h.attributes = CODEC_GZIP;
    assert_int_equal(compressor_new(&c, CODEC_GZIP, CODEC_LEVEL_DEFAULT, NULL), CAFKA_OK);
    assert_int_equal(batch_build(&h, &record, 1, c, &bytes, NULL), CAFKA_OK);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_ERR_TOO_LARGE);
    assert_true(fetch_budget_held(s->budget) < 2 << 20);
    cafka_fetch_free(fetch);
    compressor_free(c);
    buffer_fini(&zeros);
}

static void fetch_outlives_its_consumer(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    cafka_record_view view;
    put_batch(&bytes, CODEC_NONE, 0, 3, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_OK);
    reader_detach(s->reader);
    assert_end(fetch);
    assert_memory_equal(view.value, "v0", 2);
    assert_string_equal(view.topic, "orders");
    cafka_fetch_free(fetch);
}

static void headers_are_found_by_name_and_number(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    struct batch_header h;
    cafka_record_view view;
    cafka_header header;
    const struct record_header headers[] = {{str_of("a"), bytes_of("1", 1)},
                                            {str_of("b"), {NULL, 0}},
                                            {str_of("a"), bytes_of("", 0)}};
    struct record_data record = {.headers = headers, .header_count = 3};
    batch_header_init(&h);
    h.base_offset = 0;
    h.base_timestamp = INT64_MIN;
    assert_int_equal(batch_build(&h, &record, 1, NULL, &bytes, NULL), CAFKA_OK);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_OK);
    assert_null(view.key);
    assert_null(view.value);
    assert_int_equal(cafka_record_view_header(&view, "a", 1, &header), CAFKA_OK);
    assert_non_null(header.value);
    assert_int_equal(header.value_size, 0);
    assert_int_equal(cafka_record_view_header(&view, NULL, 1, &header), CAFKA_OK);
    assert_null(header.value);
    assert_int_equal(cafka_record_view_header(&view, "a", 2, &header), CAFKA_END);
    cafka_fetch_free(fetch);
}

/* Bytes that were cut or changed anywhere give records or errors, and never more than that. */
static void damaged_bytes_do_no_harm(void **state)
{
    struct scene *s = *state;
    struct buffer whole = {0};
    put_batch(&whole, CODEC_NONE, 0, 3, 0, -1);
    put_batch(&whole, CODEC_LZ4, 3, 3, 0, -1);
    for (size_t i = 0; i < whole.size; i++) {
        struct buffer bytes = {0};
        cafka_record_view view;
        buffer_put(&bytes, whole.data, whole.size);
        bytes.data[i] ^= 0x40;
        s->p->app.position = 0;
        arrive(s, &bytes, 0, NULL);
        cafka_fetch *fetch = poll_once(s, 500);
        int rc, records = 0;
        while ((rc = cafka_fetch_next(fetch, &view, NULL)) != CAFKA_END)
            records += rc == CAFKA_OK;
        assert_true(records <= 6);
        cafka_fetch_free(fetch);
    }
    buffer_fini(&whole);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(records_of_every_codec_come_in_order),
        TEST(what_a_fetch_does_not_hand_out_comes_with_the_next),
        TEST(records_below_the_position_are_passed_over),
        TEST(views_live_as_long_as_their_fetch_or_a_reference),
        TEST(data_of_an_older_generation_is_dropped),
        TEST(pause_in_the_middle_of_a_batch_keeps_the_rest),
        TEST(control_batches_move_the_position_and_are_not_shown),
        TEST(aborted_data_is_dropped_with_read_committed),
        TEST(corrupt_batch_is_an_error_and_the_position_stays),
        TEST(corrupt_batch_that_says_it_lies_below_the_position_is_told),
        TEST(batch_of_impossible_offsets_is_corrupt),
        TEST(record_that_breaks_the_format_is_an_error),
        TEST(bomb_is_refused_at_the_limit),
        TEST(fetch_outlives_its_consumer),
        TEST(headers_are_found_by_name_and_number),
        TEST(damaged_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
