/*
 * reader.c - see reader.h: the cursor, from chunk to batch. The fetches that move it are in
 * reader_fetch.c, what the application's own functions make of a record in reader_hooks.c.
 */
#include "consumer/reader.h"

#include <assert.h>

#include "consumer/batch_marks.h"
#include "consumer/fetch_ahead.h"
#include "util/alloc.h"

/* --- life of the reader --- */

int reader_new(struct fetch_reader **out, const cafka_env *env, struct fetch_budget *budget,
               size_t inflate_limit, const struct reader_events *events, void *owner,
               cafka_error *err)
{
    struct fetch_reader *reader = mem_zalloc(sizeof *reader);
    if (!reader)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a consumer's reader");
    atomic_init(&reader->refs, 1);
    reader->inflate_limit = inflate_limit;
    reader->events = *events;
    reader->owner = owner;
    int rc = fetch_queue_init(&reader->queue, env, err);
    if (rc) {
        mem_free(reader);
        return rc;
    }
    reader->budget = budget;
    atomic_fetch_add(&budget->refs, 1);
    *out = reader;
    return CAFKA_OK;
}

static void end_batch(struct fetch_reader *reader)
{
    reader->in_batch = false;
    reader->current = reader->plain = NULL;
    fetch_memory_unref(reader->inflated);
    reader->inflated = NULL;
}

static void drop_chunk(struct fetch_reader *reader, struct chunk *chunk)
{
    if (chunk->kind == CHUNK_ERROR)
        atomic_store(&chunk->partition->error_queued, false);
    bool had_data = chunk->charged != 0;
    fetch_queue_recycle(&reader->queue, chunk);
    if (had_data)
        reader->events.made_room(reader->owner);
}

void reader_end_chunk(struct fetch_reader *reader)
{
    end_batch(reader);
    if (!reader->chunk)
        return;
    struct chunk *chunk = reader->chunk;
    reader->chunk = NULL;
    reader->moves++;
    drop_chunk(reader, chunk);
}

void reader_begin_poll(struct fetch_reader *reader)
{
    reader->poll++;
    reader->current = reader->plain = NULL;
    reader->moved = false;
}

void reader_detach(struct fetch_reader *reader)
{
    end_batch(reader);
    if (reader->chunk)
        fetch_queue_recycle(&reader->queue, reader->chunk);
    reader->chunk = NULL;
    reader->moves++;
    reader_begin_poll(reader);
    reader->owner = NULL;
    fetch_queue_fini(&reader->queue);
}

void reader_unref(struct fetch_reader *reader)
{
    if (!reader || atomic_fetch_sub_explicit(&reader->refs, 1, memory_order_acq_rel) > 1)
        return;
    reader_free_fetches(reader);
    reader_hooks_fini(&reader->hooks);
    decompressor_free(reader->decompressor);
    fetch_queue_fini(&reader->queue);
    fetch_budget_unref(reader->budget);
    mem_free(reader);
}

/* --- chunks --- */

static bool is_stale(const struct chunk *chunk)
{
    return !chunk->partition->app.assigned || chunk->generation != chunk->partition->app.generation;
}

static void put_aside(struct chunk *chunk)
{
    struct consumer_partition *p = chunk->partition;
    chunk->next = NULL;
    if (p->app.aside)
        p->app.aside_last->next = chunk;
    else
        p->app.aside = chunk;
    p->app.aside_last = chunk;
}

void reader_take_news(struct fetch_reader *reader)
{
    if (!fetch_queue_take(&reader->queue))
        return;
    for (struct chunk *chunk = reader->queue.first; chunk; chunk = chunk->next) {
        struct consumer_partition *p = chunk->partition;
        if (is_stale(chunk))
            continue;
        if (chunk->kind == CHUNK_POSITION) {
            p->app.position = chunk->position;
            p->app.position_epoch = -1;
            reader->moved = true;
        } else if (chunk->kind == CHUNK_RESET && chunk->at_once) {
            reader->events.reset(reader->owner, p, chunk->position, chunk->epoch);
        }
    }
}

/* The next chunk with something for the application under the cursor. */
static bool next_chunk(struct fetch_reader *reader)
{
    struct chunk *chunk;
    reader_take_news(reader);
    while ((chunk = fetch_queue_pop(&reader->queue))) {
        if (chunk->kind == CHUNK_POSITION || is_stale(chunk)) {
            drop_chunk(reader, chunk);
        } else if (chunk->partition->app.paused) {
            put_aside(chunk);
        } else if (chunk->kind == CHUNK_RESET) { /* what was queued before it has been read */
            reader->events.reset(reader->owner, chunk->partition, chunk->position, chunk->epoch);
            drop_chunk(reader, chunk);
        } else {
            reader->chunk = chunk;
            reader->moves++;
            return true;
        }
    }
    return false;
}

void reader_leave(struct fetch_reader *reader, struct consumer_partition *p)
{
    struct chunk *chunk = reader->chunk;
    if (!chunk || chunk->partition != p)
        return;
    if (is_stale(chunk) || chunk->kind != CHUNK_DATA) {
        reader_end_chunk(reader);
        return;
    }
    /* Paused in the middle: the batch is opened again later; what was read of it is below the position. */
    end_batch(reader);
    chunk->next = p->app.aside;
    p->app.aside = chunk;
    if (!p->app.aside_last)
        p->app.aside_last = chunk;
    reader->chunk = NULL;
    reader->moves++;
}

void reader_resume(struct fetch_reader *reader, struct consumer_partition *p)
{
    fetch_queue_push_front(&reader->queue, p->app.aside, p->app.aside_last);
    p->app.aside = p->app.aside_last = NULL;
}

void reader_drop_aside(struct fetch_reader *reader, struct consumer_partition *p)
{
    while (p->app.aside) {
        struct chunk *chunk = p->app.aside;
        p->app.aside = chunk->next;
        drop_chunk(reader, chunk);
    }
    p->app.aside_last = NULL;
}

/* --- batches --- */

int reader_fail(struct fetch_reader *reader, int code, const char *what, cafka_error *err)
{
    struct consumer_partition *p = reader->chunk->partition;
    error_set(err, code, "reading %s-%d at offset %lld: %s; seek past it to go on", p->topic,
              p->partition, (long long)p->app.position, what);
    reader->events.failed(reader->owner, p); /* raises the generation */
    reader_end_chunk(reader);
    return code;
}

static bool inflate_batch(struct fetch_reader *reader, struct bytes batch, int *rc, cafka_error *err)
{
    *rc = CAFKA_OK;
    if (reader->chunk->ahead &&
        fetch_ahead_take(reader->chunk->ahead, batch.data, &reader->inflated, &reader->records)) {
        reader->taken_ahead++;
        return true;
    }
    reader->inflated_itself++;
    *rc = reader->decompressor ? CAFKA_OK : decompressor_new(&reader->decompressor, err);
    if (*rc)
        return false;
    reader->inflated = fetch_memory_for_inflating(reader->budget);
    if (!reader->inflated) {
        *rc = error_set(err, CAFKA_ERR_MEMORY, "no memory to inflate a batch");
        return false;
    }
    *rc = batch_open(batch, &reader->batch, reader->decompressor, reader->inflate_limit,
                     &reader->inflated->inflated, &reader->records, err);
    if (!*rc)
        fetch_memory_charge(reader->inflated, reader->inflated->inflated.capacity);
    return !*rc;
}

/* Open the batch at the front of the chunk. */
static int open_batch(struct fetch_reader *reader, struct bytes batch, cafka_error *err)
{
    cafka_error why = {0};
    int rc = CAFKA_OK;
    if (batch_is_compressed(&reader->batch))
        inflate_batch(reader, batch, &rc, &why);
    else
        rc = batch_open(batch, &reader->batch, NULL, 0, NULL, &reader->records, &why);
    if (rc) {
        end_batch(reader);
        return reader_fail(reader, rc, why.message, err);
    }
    reader->in_batch = true;
    return CAFKA_OK;
}

static bool is_corrupt(const struct batch_header *h)
{
    return h->magic == BATCH_MAGIC && h->crc == BATCH_CORRUPT;
}

/* Is the batch to be handed out? Reads the mark that the loop left (batch_marks.h). */
static bool is_wanted(const struct batch_header *h, int64_t position)
{
    if (h->magic == BATCH_MAGIC && h->crc == BATCH_SKIP)
        return false;
    return batch_last_offset(h) >= position;
}

/* Nothing more of this batch is to be handed out: the position is behind it. */
static void pass_over(struct fetch_reader *reader, struct consumer_partition *p,
                      const struct batch_header *h)
{
    if (batch_last_offset(h) < p->app.position)
        return;
    p->app.position = batch_last_offset(h) + 1;
    reader->moved = true;
}

/* Nothing is left of it: that is counted, unlike a chunk that is dropped. */
static void end_read_chunk(struct fetch_reader *reader)
{
    struct chunk *chunk = reader->chunk;
    if (chunk->charged)
        reader->events.read(reader->owner, chunk->partition, chunk->charged);
    reader_end_chunk(reader);
}

int reader_open_batch(struct fetch_reader *reader, cafka_error *err)
{
    struct chunk *chunk = reader->chunk;
    struct consumer_partition *p = chunk->partition;
    struct batch_slice slice;
    for (;;) {
        struct bytes before = chunk->batches;
        int rc = batch_walk_next(&chunk->batches, &slice, NULL);
        if (rc == CAFKA_END) {
            end_read_chunk(reader);
            return CAFKA_END;
        }
        if (rc || batch_header_read(slice.bytes, &reader->batch, NULL) ||
            is_corrupt(&reader->batch)) {
            chunk->batches = before;
            return reader_fail(reader, CAFKA_ERR_CORRUPT,
                               "the batch there is corrupt (CRC or length)", err);
        }
        if (is_wanted(&reader->batch, p->app.position)) {
            /* Kept at this batch until it is read, so that a pause in its middle can come back to it. */
            chunk->batches = before;
            return open_batch(reader, slice.bytes, err);
        }
        pass_over(reader, p, &reader->batch);
    }
}

void reader_finish_batch(struct fetch_reader *reader)
{
    assert(reader->chunk);
    struct consumer_partition *p = reader->chunk->partition;
    struct batch_slice slice;
    end_batch(reader);
    (void)batch_walk_next(&reader->chunk->batches, &slice, NULL);
    pass_over(reader, p, &reader->batch); /* compaction may have taken its last records */
}

/* Has the batch under the cursor been handed out, but for the word that it has? */
static bool is_used_up(const struct fetch_reader *reader)
{
    const struct record_iter *it = &reader->records;
    return it->count >= 0 ? it->index >= it->count : it->at >= it->end;
}

bool reader_ready(struct fetch_reader *reader)
{
    reader_take_news(reader); /* what is under the cursor may be void */
    for (;;) {
        if (reader->chunk && is_stale(reader->chunk))
            reader_end_chunk(reader);
        if (reader->in_batch && is_used_up(reader))
            reader_finish_batch(reader);
        if (!reader->chunk && !next_chunk(reader))
            return false;
        if (reader->in_batch || reader->chunk->kind == CHUNK_ERROR)
            return true;
        struct chunk *chunk = reader->chunk;
        struct bytes rest = chunk->batches;
        struct batch_slice slice;
        struct batch_header h;
        int64_t position = chunk->partition->app.position;
        /* Only to see whether there is anything: opening is left to who asks for the record. */
        if (!batch_walk_next(&rest, &slice, NULL) && !batch_header_read(slice.bytes, &h, NULL) &&
            !is_corrupt(&h) && !is_wanted(&h, position)) {
            pass_over(reader, chunk->partition, &h);
            chunk->batches = rest;
        } else if (!chunk->batches.size) {
            end_read_chunk(reader);
        } else {
            return true;
        }
    }
}

/* --- how much there is --- */

/* Records of a batch from the position on; more than there are where compaction took some before it. */
static size_t records_of(const struct batch_header *h, int64_t position)
{
    if (!is_wanted(h, position))
        return 0;
    int64_t from = position > h->base_offset ? position : h->base_offset;
    int64_t offsets = batch_last_offset(h) - from + 1;
    bool counted = h->magic == BATCH_MAGIC && h->record_count >= 0;
    return (size_t)(counted && h->record_count < offsets ? h->record_count : offsets);
}

static size_t records_of_chunk(const struct chunk *chunk, size_t enough)
{
    struct bytes rest = chunk->batches;
    struct batch_slice slice;
    struct batch_header h;
    size_t count = 0;
    if (chunk->kind != CHUNK_DATA || is_stale(chunk) || chunk->partition->app.paused)
        return 0;
    while (count < enough && !batch_walk_next(&rest, &slice, NULL) &&
           !batch_header_read(slice.bytes, &h, NULL) && !is_corrupt(&h))
        count += records_of(&h, chunk->partition->app.position);
    return count;
}

size_t reader_count(struct fetch_reader *reader, size_t enough)
{
    reader_take_news(reader);
    size_t count = reader->chunk ? records_of_chunk(reader->chunk, enough) : 0;
    for (const struct chunk *chunk = reader->queue.first; chunk && count < enough;
         chunk = chunk->next)
        count += records_of_chunk(chunk, enough - count);
    return count < enough ? count : enough;
}
