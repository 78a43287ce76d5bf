/*
 * test_read_committed.c - which records of a log with transactions a read_committed fetch shows,
 * wherever it begins, against a model that knows how each transaction ended.
 *
 * The test is the broker: it lists the aborted transactions that overlap what it sends (as
 * kafka's UnifiedLog.collectAbortedTransactions does), from the batch that holds the offset on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "consumer/batch_marks.h"
#include "record/builder.h"
#include "record/control.h"
#include "util/alloc.h"
#include "util/rng.h"

enum { PRODUCERS = 4, RECORDS_MAX = 400, BATCHES_MAX = 200 };

enum fate { SHOWN, ABORTED, MARKER };

struct log_batch {
    int64_t base, last;
    size_t at; /* in bytes */
};

struct transaction {
    int64_t producer_id, first, last; /* last: its marker */
};

struct model {
    struct rng rng;
    struct buffer bytes;
    struct log_batch batches[BATCHES_MAX];
    int batch_count;
    struct transaction aborted[BATCHES_MAX];
    int aborted_count;
    enum fate fate[RECORDS_MAX];
    int64_t end;
    struct {
        int64_t first; /* -1: no transaction is open */
    } open[PRODUCERS];
};

static int pick(struct model *m, int below)
{
    return (int)rng_below(&m->rng, (uint64_t)below);
}

static void note_batch(struct model *m, int count)
{
    assert_true(m->batch_count < BATCHES_MAX && m->end + count <= RECORDS_MAX);
    m->batches[m->batch_count++] = (struct log_batch){m->end, m->end + count - 1, m->bytes.size};
}

/* producer -1: outside of any transaction */
static void write_batch(struct model *m, int producer, int count)
{
    struct record_data records[8] = {{0}};
    struct batch_header h;
    batch_header_init(&h);
    h.base_offset = m->end;
    h.base_timestamp = INT64_MIN;
    h.producer_id = producer < 0 ? -1 : producer;
    h.producer_epoch = producer < 0 ? -1 : 0;
    h.base_sequence = producer < 0 ? -1 : 0;
    if (producer >= 0)
        h.attributes = BATCH_TRANSACTIONAL;
    for (int i = 0; i < count; i++)
        records[i].value = bytes_of("v", 1);
    note_batch(m, count);
    assert_int_equal(batch_build(&h, records, (size_t)count, NULL, &m->bytes, NULL), CAFKA_OK);
    if (producer >= 0 && m->open[producer].first < 0)
        m->open[producer].first = m->end;
    m->end += count;
}

static void end_transaction(struct model *m, int producer, bool commit)
{
    uint8_t marker[END_TXN_BATCH_SIZE];
    end_txn_batch_write(marker, commit, producer, 0, 0, 1000);
    batch_set_offset_and_epoch(marker, m->end, 0);
    note_batch(m, 1);
    buffer_put(&m->bytes, marker, sizeof marker);
    m->fate[m->end] = MARKER;
    int64_t first = m->open[producer].first;
    if (!commit && first >= 0)
        m->aborted[m->aborted_count++] = (struct transaction){producer, first, m->end};
    m->open[producer].first = -1;
    m->end++;
}

/* Records of a producer from its first of this transaction on are gone, if it aborts. */
static void doom(struct model *m, int producer)
{
    struct batch_header h;
    for (int b = 0; b < m->batch_count; b++) {
        struct bytes batch =
            bytes_of(m->bytes.data + m->batches[b].at, m->bytes.size - m->batches[b].at);
        assert_int_equal(batch_header_read(batch, &h, NULL), CAFKA_OK);
        if (h.producer_id == producer && !batch_is_control(&h) &&
            h.base_offset >= m->open[producer].first)
            for (int64_t o = h.base_offset; o <= batch_last_offset(&h); o++)
                m->fate[o] = ABORTED;
    }
}

static void step(struct model *m)
{
    int producer = pick(m, PRODUCERS);
    switch (pick(m, 6)) {
    case 0: write_batch(m, -1, 1 + pick(m, 4)); break;
    case 1:
    case 2:
    case 3: write_batch(m, producer, 1 + pick(m, 4)); break;
    case 4:
        if (m->open[producer].first >= 0)
            doom(m, producer);
        end_transaction(m, producer, false); /* also one that wrote nothing here */
        break;
    default: end_transaction(m, producer, true);
    }
}

/* All that is below the first offset of an open transaction may be read. */
static int64_t last_stable_offset(const struct model *m)
{
    int64_t lso = m->end;
    for (int p = 0; p < PRODUCERS; p++)
        if (m->open[p].first >= 0 && m->open[p].first < lso)
            lso = m->open[p].first;
    return lso;
}

/* What a broker would send for a fetch from `offset`, of at most `batches` batches: a copy. */
static struct buffer answer(const struct model *m, int64_t offset, int batches,
                            struct aborted_filter *filter)
{
    struct buffer out = {0};
    int64_t lso = last_stable_offset(m), upper = offset;
    int first = 0;
    while (m->batches[first].last < offset)
        first++;
    for (int b = first; b < m->batch_count && b < first + batches && m->batches[b].base < lso; b++) {
        size_t end = b + 1 < m->batch_count ? m->batches[b + 1].at : m->bytes.size;
        buffer_put(&out, m->bytes.data + m->batches[b].at, end - m->batches[b].at);
        upper = m->batches[b].last + 1;
    }
    aborted_reset(filter);
    for (int i = m->aborted_count - 1; i >= 0; i--) /* in whatever order */
        if (m->aborted[i].last >= offset && m->aborted[i].first < upper)
            assert_int_equal(aborted_add(filter, m->aborted[i].producer_id, m->aborted[i].first,
                                         NULL),
                             CAFKA_OK);
    aborted_sort(filter);
    return out;
}

static void check_marks(const struct model *m, struct bytes records, int64_t offset)
{
    struct batch_slice slice;
    struct batch_header h;
    while (!batch_walk_next(&records, &slice, NULL)) {
        assert_int_equal(batch_header_read(slice.bytes, &h, NULL), CAFKA_OK);
        for (int64_t o = h.base_offset; o <= batch_last_offset(&h); o++)
            if (o >= offset && (h.crc == BATCH_DELIVER) != (m->fate[o] == SHOWN))
                fail_msg("fetch from %lld: offset %lld is %s", (long long)offset, (long long)o,
                         h.crc == BATCH_DELIVER ? "shown" : "hidden");
    }
}

static void check_fetch(const struct model *m, int64_t offset, int batches)
{
    struct aborted_filter filter = {0};
    struct fetch_marked marked;
    struct buffer out = answer(m, offset, batches, &filter);
    struct bytes records = bytes_of(out.data, out.size);
    assert_int_equal(fetch_mark_batches(records, offset, true, &filter, &marked, NULL), CAFKA_OK);
    assert_int_equal(marked.used, out.size);
    check_marks(m, records, offset);
    buffer_fini(&out);
    aborted_fini(&filter);
}

static void any_fetch_of_any_log_shows_what_was_committed(void **state)
{
    (void)state;
    int fetches = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct model *m = mem_zalloc(sizeof *m);
        rng_seed(&m->rng, seed);
        for (int p = 0; p < PRODUCERS; p++)
            m->open[p].first = -1;
        while (m->batch_count < 60)
            step(m);
        for (int p = 0; p < PRODUCERS && seed % 2; p++)
            end_transaction(m, p, true);
        int64_t lso = last_stable_offset(m);
        for (int64_t offset = 0; offset < lso; offset++)
            for (int batches = 1; batches <= 60; batches = batches * 3 + 1, fetches++)
                check_fetch(m, offset, batches);
        buffer_fini(&m->bytes);
        mem_free(m);
    }
    assert_true(fetches > 10000);
}

/* The transaction that hides these batches began before the fetch, and its list entry says so. */
static void fetch_from_the_middle_of_an_aborted_transaction_shows_nothing_of_it(void **state)
{
    (void)state;
    struct model *m = mem_zalloc(sizeof *m);
    for (int p = 0; p < PRODUCERS; p++)
        m->open[p].first = -1;
    write_batch(m, 1, 4);  /* 0 … 3 */
    write_batch(m, -1, 2); /* 4, 5 */
    write_batch(m, 1, 4);  /* 6 … 9 */
    doom(m, 1);
    end_transaction(m, 1, false); /* 10 */
    write_batch(m, 1, 2);         /* 11, 12: the next one … */
    end_transaction(m, 1, true);  /* … commits */
    assert_int_equal(m->fate[8], ABORTED);
    assert_int_equal(m->fate[11], SHOWN);
    for (int64_t offset = 0; offset < m->end; offset++)
        for (int batches = 1; batches < 8; batches++)
            check_fetch(m, offset, batches);
    buffer_fini(&m->bytes);
    mem_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_fetch_of_any_log_shows_what_was_committed),
        cmocka_unit_test(fetch_from_the_middle_of_an_aborted_transaction_shows_nothing_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
