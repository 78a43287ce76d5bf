/*
 * reader_fixture.h - a reader without a loop or a broker: the test marks batches and pushes chunks.
 */
#ifndef CAFKA_TESTS_READER_FIXTURE_H
#define CAFKA_TESTS_READER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "consumer/batch_marks.h"
#include "consumer/reader.h"
#include "record/builder.h"
#include "record/control.h"
#include "util/alloc.h"

struct scene {
    struct fetch_budget *budget;
    struct fetch_reader *reader;
    struct consumer_partition *p;
    int failed, made_room;
};

static inline void partition_failed(void *owner, struct consumer_partition *p)
{
    struct scene *s = owner;
    s->failed++;
    p->app.generation++;
}

static inline void answer_read(void *owner, struct consumer_partition *p, size_t bytes)
{
    (void)owner, (void)p;
    assert_true(bytes > 0);
}

static inline void made_room(void *owner)
{
    ((struct scene *)owner)->made_room++;
}

static inline void partition_reset(void *owner, struct consumer_partition *p, int64_t start,
                                   int32_t epoch)
{
    (void)owner;
    (void)epoch;
    p->app.generation++;
    p->app.position = start;
}

static inline int set_up(void **state)
{
    static const struct reader_events events = {partition_failed, partition_reset, answer_read,
                                                made_room};
    struct scene *s = mem_zalloc(sizeof *s);
    assert_int_equal(fetch_budget_new(&s->budget, 1 << 20, NULL, NULL, NULL), CAFKA_OK);
    assert_int_equal(reader_new(&s->reader, cafka_env_real(), s->budget, 1 << 20, &events, s, NULL),
                     CAFKA_OK);
    s->p = consumer_partition_new(fetch_budget_intern(s->budget, "orders"), 3);
    s->p->app.assigned = true;
    s->p->app.position = 0;
    *state = s;
    return 0;
}

static inline int tear_down(void **state)
{
    struct scene *s = *state;
    reader_drop_aside(s->reader, s->p);
    reader_detach(s->reader);
    assert_int_equal(fetch_budget_held(s->budget), 0);
    assert_int_equal(atomic_load(&s->p->buffered_bytes), 0);
    reader_unref(s->reader);
    fetch_budget_unref(s->budget);
    consumer_partition_unref(s->p);
    mem_free(s);
    return 0;
}

/* A batch of `count` records with values "v<offset>" at base_offset. */
static inline void put_batch(struct buffer *out, int codec, int64_t base_offset, int count,
                             int16_t attributes, int64_t producer_id)
{
    struct record_data records[64] = {{0}};
    char values[64][16];
    struct batch_header h;
    struct compressor *c = NULL;
    batch_header_init(&h);
    h.base_offset = base_offset;
    h.base_timestamp = INT64_MIN;
    h.attributes = (int16_t)(attributes | codec);
    h.producer_id = producer_id;
    h.producer_epoch = producer_id < 0 ? -1 : 0;
    h.base_sequence = producer_id < 0 ? -1 : 0;
    for (int i = 0; i < count; i++) {
        int size = snprintf(values[i], sizeof values[i], "v%lld", (long long)base_offset + i);
        records[i].timestamp = 1000 + i;
        records[i].value = bytes_of(values[i], (size_t)size);
    }
    if (codec)
        assert_int_equal(compressor_new(&c, codec, CODEC_LEVEL_DEFAULT, NULL), CAFKA_OK);
    assert_int_equal(batch_build(&h, records, (size_t)count, c, out, NULL), CAFKA_OK);
    compressor_free(c);
}

/* What the fetcher does with an answer for one partition. Takes the buffer. */
static inline int arrive(struct scene *s, struct buffer *bytes, int64_t fetch_offset,
                         struct aborted_filter *filter)
{
    struct fetch_marked marked;
    struct fetch_memory *memory = fetch_memory_for_inflating(s->budget);
    buffer_fini(&memory->inflated); /* a piece that was used before keeps its own */
    memory->inflated = *bytes;
    fetch_memory_charge(memory, bytes->capacity);
    *bytes = (struct buffer){0};
    struct bytes records = bytes_of(memory->inflated.data, memory->inflated.size);
    int rc = fetch_mark_batches(records, fetch_offset, true, filter, &marked, NULL);
    struct chunk *chunk = fetch_queue_new_chunk(&s->reader->queue, CHUNK_DATA, s->p);
    chunk->generation = s->p->app.generation;
    chunk->memory = memory;
    chunk->batches = bytes_of(records.data, marked.used);
    chunk->charged = marked.used;
    fetch_queue_push(&s->reader->queue, chunk);
    return rc;
}

static inline cafka_fetch *poll_once(struct scene *s, int32_t max_records)
{
    cafka_fetch *fetch = NULL;
    reader_begin_poll(s->reader);
    if (reader_ready(s->reader))
        assert_int_equal(reader_begin_fetch(s->reader, max_records, &fetch, NULL), CAFKA_OK);
    return fetch;
}

static inline void assert_next_is(cafka_fetch *fetch, int64_t offset)
{
    cafka_record_view view;
    cafka_error err = {0};
    char value[16];
    assert_int_equal(cafka_fetch_next(fetch, &view, &err), CAFKA_OK);
    assert_int_equal(view.offset, offset);
    int size = snprintf(value, sizeof value, "v%lld", (long long)offset);
    assert_int_equal(view.value_size, size);
    assert_memory_equal(view.value, value, (size_t)size);
    assert_string_equal(view.topic, "orders");
    assert_int_equal(view.partition, 3);
}

static inline void assert_end(cafka_fetch *fetch)
{
    cafka_record_view view;
    assert_int_equal(cafka_fetch_next(fetch, &view, NULL), CAFKA_END);
}

#endif
