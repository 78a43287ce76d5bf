/*
 * test_reader_fetch.c - a fetch in other ways than record by record: many at once, how many there
 * are, how much memory it holds; and records that are kept beyond it.
 */
#include "unit/consumer/reader_fixture.h"

/* Another partition of the same reader; the caller lets go of it. */
static struct consumer_partition *second_partition(struct scene *s)
{
    struct consumer_partition *p =
        consumer_partition_new(fetch_budget_intern(s->budget, "orders"), 4);
    p->app.assigned = true;
    p->app.position = 0;
    return p;
}

static void arrive_at(struct scene *s, struct consumer_partition *p, struct buffer *bytes)
{
    struct consumer_partition *first = s->p;
    s->p = p;
    assert_int_equal(arrive(s, bytes, 0, NULL), CAFKA_OK);
    s->p = first;
}

static void assert_batch(cafka_fetch *fetch, size_t room, int32_t partition, int64_t first,
                         size_t expected)
{
    cafka_record_view views[64];
    size_t count = 99;
    cafka_error err = {0};
    assert_true(room <= 64);
    assert_int_equal(cafka_fetch_next_batch(fetch, views, room, &count, &err), CAFKA_OK);
    assert_int_equal(count, expected);
    for (size_t i = 0; i < count; i++) {
        char value[16];
        int size = snprintf(value, sizeof value, "v%lld", (long long)first + (long long)i);
        assert_int_equal(views[i].offset, first + (int64_t)i);
        assert_int_equal(views[i].partition, partition);
        assert_int_equal(views[i].value_size, size);
        assert_memory_equal(views[i].value, value, (size_t)size);
    }
}

static void assert_no_batch(cafka_fetch *fetch, int code)
{
    cafka_record_view views[4];
    size_t count = 99;
    assert_int_equal(cafka_fetch_next_batch(fetch, views, 4, &count, NULL), code);
    assert_int_equal(count, 0);
}

static void one_call_gives_many_records_over_batches_and_codecs(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    put_batch(&bytes, CODEC_NONE, 0, 10, 0, -1);
    put_batch(&bytes, CODEC_GZIP, 10, 10, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_batch(fetch, 7, 3, 0, 7);
    assert_batch(fetch, 64, 3, 7, 13);
    assert_no_batch(fetch, CAFKA_END);
    assert_int_equal(s->p->app.position, 20);
    cafka_fetch_free(fetch);
}

static void one_call_gives_records_of_one_partition(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    struct consumer_partition *other = second_partition(s);
    put_batch(&bytes, CODEC_NONE, 0, 5, 0, -1);
    arrive(s, &bytes, 0, NULL);
    put_batch(&bytes, CODEC_NONE, 0, 3, 0, -1);
    arrive_at(s, other, &bytes);
    put_batch(&bytes, CODEC_NONE, 5, 1, 0, -1);
    arrive(s, &bytes, 5, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_batch(fetch, 64, 3, 0, 5);
    assert_batch(fetch, 64, 4, 0, 3);
    assert_batch(fetch, 64, 3, 5, 1);
    assert_no_batch(fetch, CAFKA_END);
    cafka_fetch_free(fetch);
    consumer_partition_unref(other);
}

static void max_poll_records_holds_for_many_at_once(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    put_batch(&bytes, CODEC_NONE, 0, 20, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 12);
    assert_batch(fetch, 10, 3, 0, 10);
    assert_batch(fetch, 10, 3, 10, 2);
    assert_no_batch(fetch, CAFKA_END);
    cafka_fetch_free(fetch);
    fetch = poll_once(s, 12);
    assert_batch(fetch, 10, 3, 12, 8);
    cafka_fetch_free(fetch);
}

/* What was read before it is handed out, and the error with the next call, in either way of asking. */
static void error_behind_records_comes_with_the_next_call(void **state)
{
    struct scene *s = *state;
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        struct buffer bytes = {0};
        cafka_record_view view;
        cafka_error err = {0};
        s->p->app.position = 0;
        put_batch(&bytes, CODEC_NONE, 0, 2, 0, -1);
        size_t second = bytes.size;
        put_batch(&bytes, CODEC_NONE, 2, 2, 0, -1);
        bytes.data[second + 70] ^= 1;
        assert_int_equal(arrive(s, &bytes, 0, NULL), CAFKA_ERR_CORRUPT);
        cafka_fetch *fetch = poll_once(s, 500);
        assert_batch(fetch, 10, 3, 0, 2);
        if (one_by_one) {
            assert_int_equal(cafka_fetch_next(fetch, &view, &err), CAFKA_ERR_CORRUPT);
            assert_int_equal(view.offset, 2);
            assert_non_null(strstr(err.message, "orders-3 at offset 2"));
        } else {
            assert_no_batch(fetch, CAFKA_ERR_CORRUPT);
        }
        assert_no_batch(fetch, CAFKA_END);
        cafka_fetch_free(fetch);
    }
}

static void error_that_nobody_asked_for_goes_with_its_fetch(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    put_batch(&bytes, CODEC_NONE, 0, 4, 0, -1);
    bytes.data[bytes.size - 20] ^= 1;
    put_batch(&bytes, CODEC_NONE, 4, 4, 0, -1);
    (void)arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    cafka_record_view views[8];
    size_t count;
    (void)cafka_fetch_next_batch(fetch, views, 8, &count, NULL);
    cafka_fetch_free(fetch);
}

static void many_at_once_needs_room(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    cafka_record_view views[2];
    size_t count;
    put_batch(&bytes, CODEC_NONE, 0, 2, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_next_batch(fetch, views, 0, &count, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_fetch_next_batch(fetch, NULL, 2, &count, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_fetch_next_batch(fetch, views, 2, NULL, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_fetch_next_batch(NULL, views, 2, &count, NULL), CAFKA_END);
    assert_batch(fetch, 2, 3, 0, 2);
    cafka_fetch_free(fetch);
}

static void count_says_what_is_left_without_decoding(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    struct consumer_partition *other = second_partition(s);
    s->p->app.position = 4; /* the first batch is not wanted whole */
    put_batch(&bytes, CODEC_NONE, 0, 10, 0, -1);
    put_batch(&bytes, CODEC_GZIP, 10, 10, 0, -1);
    arrive(s, &bytes, 4, NULL);
    put_batch(&bytes, CODEC_NONE, 0, 3, 0, -1);
    arrive_at(s, other, &bytes);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_count(fetch), 6 + 10 + 3);
    for (int64_t i = 4; i < 15; i++)
        assert_next_is(fetch, i);
    assert_int_equal(cafka_fetch_count(fetch), 5 + 3);
    other->app.generation++; /* sought elsewhere */
    assert_int_equal(cafka_fetch_count(fetch), 5);
    for (int64_t i = 15; i < 20; i++)
        assert_next_is(fetch, i);
    assert_int_equal(cafka_fetch_count(fetch), 0);
    assert_end(fetch);
    cafka_fetch *next = poll_once(s, 500);
    assert_int_equal(cafka_fetch_count(fetch), 0);
    assert_int_equal(cafka_fetch_count(NULL), 0);
    assert_null(next);
    cafka_fetch_free(fetch);
    consumer_partition_unref(other);
}

static void count_is_at_most_what_the_fetch_may_hand_out(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    put_batch(&bytes, CODEC_NONE, 0, 20, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 12);
    assert_int_equal(cafka_fetch_count(fetch), 12);
    assert_next_is(fetch, 0);
    assert_int_equal(cafka_fetch_count(fetch), 11);
    cafka_fetch_free(fetch);
}

static void bytes_are_those_that_the_fetch_keeps_from_the_budget(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    put_batch(&bytes, CODEC_NONE, 0, 2, 0, -1);
    put_batch(&bytes, CODEC_GZIP, 2, 2, 0, -1);
    arrive(s, &bytes, 0, NULL);
    size_t queued = (size_t)fetch_budget_held(s->budget);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_bytes(fetch), 0);
    assert_next_is(fetch, 0);
    assert_int_equal(cafka_fetch_bytes(fetch), queued);
    assert_next_is(fetch, 1);
    assert_next_is(fetch, 2);
    assert_int_equal(cafka_fetch_bytes(fetch), fetch_budget_held(s->budget));
    assert_true(cafka_fetch_bytes(fetch) > queued); /* and what was inflated */
    assert_int_equal(cafka_fetch_bytes(NULL), 0);
    cafka_fetch_free(fetch);
}

/* --- records that stay --- */

/* The second batch's memory is its own: the answer and the first batch go. */
static void reference_holds_its_batch_and_nothing_else(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    cafka_record_view view;
    put_batch(&bytes, CODEC_GZIP, 0, 2, 0, -1);
    put_batch(&bytes, CODEC_GZIP, 2, 1, 0, -1);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_next_is(fetch, 0);
    assert_next_is(fetch, 1);
    assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_OK);
    cafka_record_memory *memory = cafka_record_ref(&view);
    size_t own = ((struct fetch_memory *)memory)->charged;
    assert_end(fetch);
    cafka_fetch_free(fetch);
    assert_null(poll_once(s, 500));
    assert_int_equal(fetch_budget_held(s->budget), own);
    assert_memory_equal(view.value, "v2", 2);
    cafka_record_unref(memory);
    assert_int_equal(fetch_budget_held(s->budget), 0);
    cafka_record_unref(NULL);
}

static void put_record(struct buffer *out, const struct record_data *record)
{
    struct batch_header h;
    batch_header_init(&h);
    h.base_offset = 0;
    h.base_timestamp = INT64_MIN;
    assert_int_equal(batch_build(&h, record, 1, NULL, out, NULL), CAFKA_OK);
}

static void copy_is_the_record_and_needs_nothing_of_it(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    cafka_record_view view, *copy;
    cafka_header header;
    const struct record_header headers[] = {{str_of("a"), bytes_of("1", 1)},
                                            {str_of("b"), {NULL, 0}}};
    struct record_data record = {.timestamp = 77,
                                 .key = bytes_of("key", 3),
                                 .value = bytes_of("value", 5),
                                 .headers = headers,
                                 .header_count = 2};
    put_record(&bytes, &record);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_OK);
    mem_fail_after(0, 0);
    assert_int_equal(cafka_record_copy(&copy, &view, NULL), CAFKA_OK);
    assert_int_equal(mem_count(), 1);
    assert_end(fetch);
    cafka_fetch_free(fetch);
    assert_null(poll_once(s, 500));
    assert_int_equal(fetch_budget_held(s->budget), 0);
    memset(&view, 0xee, sizeof view);
    assert_string_equal(copy->topic, "orders");
    assert_int_equal(copy->partition, 3);
    assert_int_equal(copy->offset, 0);
    assert_int_equal(copy->timestamp_ms, 77);
    assert_memory_equal(copy->key, "key", 3);
    assert_int_equal(copy->value_size, 5);
    assert_memory_equal(copy->value, "value", 5);
    assert_int_equal(cafka_record_view_header(copy, "a", 0, &header), CAFKA_OK);
    assert_memory_equal(header.value, "1", 1);
    assert_int_equal(cafka_record_view_header(copy, "b", 0, &header), CAFKA_OK);
    assert_null(header.value);
    assert_null(cafka_record_ref(copy)); /* it holds itself */
    cafka_record_copy_free(copy);
    cafka_record_copy_free(NULL);
}

static void copy_keeps_null_null_and_empty_empty(void **state)
{
    struct scene *s = *state;
    struct buffer bytes = {0};
    cafka_record_view view, *copy = NULL;
    struct record_data record = {.value = bytes_of("", 0)};
    put_record(&bytes, &record);
    arrive(s, &bytes, 0, NULL);
    cafka_fetch *fetch = poll_once(s, 500);
    assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_OK);
    mem_fail_after(1, 0);
    assert_int_equal(cafka_record_copy(&copy, &view, NULL), CAFKA_ERR_MEMORY);
    assert_null(copy);
    mem_fail_after(0, 0);
    assert_int_equal(cafka_record_copy(&copy, &view, NULL), CAFKA_OK);
    assert_null(copy->key);
    assert_non_null(copy->value);
    assert_int_equal(copy->value_size, 0);
    cafka_record_copy_free(copy);
    assert_int_equal(cafka_record_copy(NULL, &view, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_record_copy(&copy, NULL, NULL), CAFKA_ERR_ARGUMENT);
    cafka_fetch_free(fetch);
}

/* Chunks, fetches and inflated memory come from free lists once they have been made. */
static void what_was_used_is_used_again(void **state)
{
    struct scene *s = *state;
    for (int round = 0; round < 10; round++) {
        struct buffer bytes = {0};
        put_batch(&bytes, CODEC_GZIP, round * 2, 2, 0, -1);
        if (round == 2)
            mem_fail_after(0, 0);
        unsigned long before = mem_count();
        arrive(s, &bytes, round * 2, NULL);
        cafka_fetch *fetch = poll_once(s, 500);
        assert_next_is(fetch, round * 2);
        assert_next_is(fetch, round * 2 + 1);
        assert_end(fetch);
        cafka_fetch_free(fetch);
        if (round >= 2)
            assert_int_equal(mem_count() - before, 0);
    }
}

/* --- memory that is used again --- */

static void take_pieces(struct fetch_budget *budget, bool ahead, struct fetch_memory **pieces,
                        int count, size_t bytes)
{
    for (int i = 0; i < count; i++) {
        pieces[i] =
            ahead ? fetch_memory_for_inflating_ahead(budget) : fetch_memory_for_inflating(budget);
        assert_non_null(pieces[i]);
        assert_non_null(buffer_reserve(&pieces[i]->inflated, bytes));
        fetch_memory_charge(pieces[i], pieces[i]->inflated.capacity);
    }
}

static void give_pieces(struct fetch_memory **pieces, int count)
{
    for (int i = 0; i < count; i++)
        fetch_memory_unref(pieces[i]);
}

/* The application inflates one by one, the loop now and then several; neither keeps what the other lacks. */
static void two_who_inflate_do_not_starve_each_other(void **state)
{
    enum { PIECES = 6 };
    struct scene *s = *state;
    struct fetch_memory *pieces[PIECES];
    int64_t before = mem_blocks(MEM_BUFFERS);
    for (int round = 0; round < 100; round++) {
        take_pieces(s->budget, true, pieces, PIECES, 1000);
        give_pieces(pieces, PIECES);
        for (int i = 0; i < round % 13; i++) { /* so that its own list runs empty at any moment */
            take_pieces(s->budget, false, pieces, 1, 1000);
            give_pieces(pieces, 1);
        }
    }
    assert_int_equal(mem_blocks(MEM_BUFFERS) - before, PIECES + 1);
    assert_int_equal(fetch_budget_held(s->budget), 0);
}

/* Many batches held at once, and let go: 2 MiB stay for the next ones, the rest goes back. */
static void busiest_moment_does_not_stay(void **state)
{
    enum { MANY = 100 };
    struct scene *s = *state;
    struct fetch_memory *pieces[MANY];
    int64_t before = mem_bytes(MEM_BUFFERS);
    for (int round = 0; round < 3; round++) {
        take_pieces(s->budget, false, pieces, MANY, 64 << 10);
        assert_true(mem_bytes(MEM_BUFFERS) - before >= (int64_t)MANY * (64 << 10));
        give_pieces(pieces, MANY);
        int64_t kept = mem_bytes(MEM_BUFFERS) - before;
        assert_true(kept <= 2 << 20);
        assert_true(kept > 1 << 20);
    }
    assert_int_equal(fetch_budget_held(s->budget), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(two_who_inflate_do_not_starve_each_other),
        TEST(busiest_moment_does_not_stay),
        TEST(one_call_gives_many_records_over_batches_and_codecs),
        TEST(one_call_gives_records_of_one_partition),
        TEST(max_poll_records_holds_for_many_at_once),
        TEST(error_behind_records_comes_with_the_next_call),
        TEST(error_that_nobody_asked_for_goes_with_its_fetch),
        TEST(many_at_once_needs_room),
        TEST(count_says_what_is_left_without_decoding),
        TEST(count_is_at_most_what_the_fetch_may_hand_out),
        TEST(bytes_are_those_that_the_fetch_keeps_from_the_budget),
        TEST(reference_holds_its_batch_and_nothing_else),
        TEST(copy_is_the_record_and_needs_nothing_of_it),
        TEST(copy_keeps_null_null_and_empty_empty),
        TEST(what_was_used_is_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
