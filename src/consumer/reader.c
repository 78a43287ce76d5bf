/*
 * reader.c - see reader.h.
 */
#include "consumer/reader.h"

#include <assert.h>

#include "consumer/batch_marks.h"
#include "util/alloc.h"

/* Memory that a fetch keeps alive. The first few need no allocation. */
enum { PINS_INSIDE = 8 };

struct cafka_fetch {
    struct mpsc_item link; /* first */
    atomic_uint refs;
    struct fetch_reader *reader; /* a reference */
    uint64_t poll;
    int32_t left; /* records that it may still hand out */
    struct fetch_memory **pins, *inside[PINS_INSIDE];
    size_t pin_count, pin_capacity;
};

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

static void end_chunk(struct fetch_reader *reader)
{
    end_batch(reader);
    if (!reader->chunk)
        return;
    struct chunk *chunk = reader->chunk;
    reader->chunk = NULL;
    drop_chunk(reader, chunk);
}

void reader_detach(struct fetch_reader *reader)
{
    end_batch(reader);
    if (reader->chunk)
        fetch_queue_recycle(&reader->queue, reader->chunk);
    reader->chunk = NULL;
    reader->poll++;
    reader->owner = NULL;
    fetch_queue_fini(&reader->queue);
}

static void free_fetch_memory(struct mpsc_item *item)
{
    while (item) {
        cafka_fetch *fetch = container_of(item, cafka_fetch, link);
        item = item->next;
        if (fetch->pins != fetch->inside)
            mem_free(fetch->pins);
        mem_free(fetch);
    }
}

void reader_unref(struct fetch_reader *reader)
{
    if (!reader || atomic_fetch_sub_explicit(&reader->refs, 1, memory_order_acq_rel) > 1)
        return;
    free_fetch_memory(mpsc_take_all(&reader->free_fetches));
    free_fetch_memory(reader->spare_fetches);
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
        end_chunk(reader);
        return;
    }
    /* Paused in the middle: the batch is opened again later; what was read of it is below the position. */
    end_batch(reader);
    chunk->next = p->app.aside;
    p->app.aside = chunk;
    if (!p->app.aside_last)
        p->app.aside_last = chunk;
    reader->chunk = NULL;
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

/* Why the partition can't be read on; it is fetched again after a while. */
static int fail_partition(struct fetch_reader *reader, int code, const char *what, cafka_error *err)
{
    struct consumer_partition *p = reader->chunk->partition;
    error_set(err, code, "reading %s-%d at offset %lld: %s; seek past it to go on", p->topic,
              p->partition, (long long)p->app.position, what);
    reader->events.failed(reader->owner, p); /* raises the generation */
    end_chunk(reader);
    return code;
}

static bool inflate_batch(struct fetch_reader *reader, struct bytes batch, int *rc, cafka_error *err)
{
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
        return fail_partition(reader, rc, why.message, err);
    }
    reader->in_batch = true;
    return CAFKA_OK;
}

/* Is the batch under the cursor to be handed out? Reads the mark that the loop left (batch_marks.h). */
static bool is_wanted(const struct batch_slice *slice, const struct batch_header *h,
                      int64_t position)
{
    if (slice->magic == BATCH_MAGIC && h->crc == BATCH_SKIP)
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

/*
 * Go to the next batch to hand out. CAFKA_OK: records can be read. CAFKA_END: the chunk is used
 * up, and let go. Else the partition's error.
 */
static int open_next_batch(struct fetch_reader *reader, cafka_error *err)
{
    struct chunk *chunk = reader->chunk;
    struct consumer_partition *p = chunk->partition;
    struct batch_slice slice;
    for (;;) {
        struct bytes before = chunk->batches;
        int rc = batch_walk_next(&chunk->batches, &slice, NULL);
        if (rc == CAFKA_END) {
            end_chunk(reader);
            return CAFKA_END;
        }
        if (rc || batch_header_read(slice.bytes, &reader->batch, NULL) ||
            (slice.magic == BATCH_MAGIC && reader->batch.crc == BATCH_CORRUPT)) {
            chunk->batches = before;
            return fail_partition(reader, CAFKA_ERR_CORRUPT,
                                  "the batch there is corrupt (CRC or length)", err);
        }
        if (is_wanted(&slice, &reader->batch, p->app.position)) {
            /* Kept at this batch until it is read, so that a pause in its middle can come back to it. */
            chunk->batches = before;
            return open_batch(reader, slice.bytes, err);
        }
        pass_over(reader, p, &reader->batch);
    }
}

/* All records of the batch are handed out: go behind it. */
static void finish_batch(struct fetch_reader *reader)
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
            end_chunk(reader);
        if (reader->in_batch && is_used_up(reader))
            finish_batch(reader);
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
            !is_wanted(&slice, &h, position)) {
            pass_over(reader, chunk->partition, &h);
            chunk->batches = rest;
        } else if (!chunk->batches.size) {
            end_chunk(reader);
        } else {
            return true;
        }
    }
}

/* --- fetches --- */

static cafka_fetch *fetch_new(struct fetch_reader *reader)
{
    if (!reader->spare_fetches)
        reader->spare_fetches = mpsc_take_all(&reader->free_fetches);
    cafka_fetch *fetch;
    if (reader->spare_fetches) {
        fetch = container_of(reader->spare_fetches, cafka_fetch, link);
        reader->spare_fetches = fetch->link.next;
        return fetch;
    }
    fetch = mem_zalloc(sizeof *fetch);
    if (!fetch)
        return NULL;
    fetch->pins = fetch->inside;
    fetch->pin_capacity = PINS_INSIDE;
    return fetch;
}

int reader_begin_fetch(struct fetch_reader *reader, int32_t max_records, cafka_fetch **out,
                       cafka_error *err)
{
    cafka_fetch *fetch = fetch_new(reader);
    if (!fetch)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a fetch");
    atomic_init(&fetch->refs, 1);
    fetch->reader = reader;
    atomic_fetch_add_explicit(&reader->refs, 1, memory_order_relaxed);
    fetch->poll = reader->poll;
    fetch->left = max_records;
    *out = fetch;
    return CAFKA_OK;
}

/* Keep the memory of the record under the cursor alive with this fetch. */
static int pin(cafka_fetch *fetch, struct fetch_memory *memory, cafka_error *err)
{
    if (fetch->pin_count && fetch->pins[fetch->pin_count - 1] == memory)
        return CAFKA_OK;
    if (fetch->pin_count == fetch->pin_capacity) {
        size_t capacity = fetch->pin_capacity * 2;
        struct fetch_memory **old = fetch->pins == fetch->inside ? NULL : fetch->pins;
        struct fetch_memory **grown = mem_recalloc(old, capacity, sizeof(struct fetch_memory *));
        if (!grown)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for a fetch");
        if (!old)
            memcpy(grown, fetch->inside, sizeof fetch->inside);
        fetch->pins = grown;
        fetch->pin_capacity = capacity;
    }
    fetch->pins[fetch->pin_count++] = fetch_memory_ref(memory);
    return CAFKA_OK;
}

static struct fetch_memory *memory_under_cursor(const struct fetch_reader *reader)
{
    return reader->inflated ? reader->inflated : reader->chunk->memory;
}

static int take_error(struct fetch_reader *reader, cafka_error *err)
{
    int code = reader->chunk->error->code;
    if (err)
        *err = *reader->chunk->error;
    end_chunk(reader);
    return code;
}

static void name_place(const struct consumer_partition *p, cafka_record_view *out)
{
    *out = (cafka_record_view){.topic = p->topic,
                               .partition = p->partition,
                               .offset = p->app.position,
                               .timestamp_ms = -1,
                               .leader_epoch = -1};
}

static inline uint8_t timestamp_type(const struct batch_header *h)
{
    if (h->magic == 0)
        return CAFKA_TIMESTAMP_NONE;
    return h->attributes & BATCH_LOG_APPEND_TIME ? CAFKA_TIMESTAMP_LOG_APPEND_TIME
                                                 : CAFKA_TIMESTAMP_CREATE_TIME;
}

static inline void fill_view(const struct fetch_reader *reader, const struct record_view *record,
                             cafka_record_view *out)
{
    const struct consumer_partition *p = reader->chunk->partition;
    out->key = record->key.data;
    out->value = record->value.data;
    out->headers = record->headers.data;
    out->topic = p->topic;
    out->memory = memory_under_cursor(reader);
    out->offset = record->offset;
    out->timestamp_ms = record->timestamp;
    out->key_size = (uint32_t)record->key.size;
    out->value_size = (uint32_t)record->value.size;
    out->headers_size = (uint32_t)record->headers.size;
    out->partition = p->partition;
    out->leader_epoch = reader->batch.leader_epoch;
    out->timestamp_type = timestamp_type(&reader->batch);
}

/* The way that is not taken for every record: a new batch, a new chunk, an error, the end. */
static int enter_next_batch(cafka_fetch *fetch, cafka_record_view *out, cafka_error *err)
{
    struct fetch_reader *reader = fetch->reader;
    for (;;) {
        if (!reader_ready(reader))
            return CAFKA_END;
        if (!reader->in_batch) {
            name_place(reader->chunk->partition, out);
            if (reader->chunk->kind == CHUNK_ERROR)
                return take_error(reader, err);
            int rc = open_next_batch(reader, err);
            if (rc == CAFKA_END)
                continue;
            if (rc)
                return rc;
        }
        int rc = pin(fetch, memory_under_cursor(reader), err);
        if (rc)
            return rc;
        return CAFKA_OK;
    }
}

int cafka_fetch_next(cafka_fetch *fetch, cafka_record_view *out, cafka_error *err)
{
    if (!fetch)
        return CAFKA_END;
    struct fetch_reader *reader = fetch->reader;
    struct record_view record;
    error_clear(err);
    if (!out)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a record needs a place to go to");
    if (fetch->poll != reader->poll || !fetch->left)
        return CAFKA_END;
    for (;;) {
        if (!reader->in_batch || !fetch->pin_count ||
            fetch->pins[fetch->pin_count - 1] != memory_under_cursor(reader)) {
            int rc = enter_next_batch(fetch, out, err);
            if (rc)
                return rc;
        }
        struct consumer_partition *p = reader->chunk->partition;
        int rc = record_iter_next(&reader->records, &record, NULL);
        if (rc == CAFKA_OK) {
            if (record.offset < p->app.position || record.offset == INT64_MAX)
                continue; /* of the last one no position behind it can be said; no log has it */
            fill_view(reader, &record, out);
            p->app.position = record.offset + 1;
            fetch->left--;
            return CAFKA_OK;
        }
        if (rc != CAFKA_END) {
            cafka_error why = {0};
            (void)record_iter_next(&reader->records, &record,
                                   &why); /* the same again, with its reason */
            name_place(p, out);
            return fail_partition(reader, rc, why.message, err);
        }
        finish_batch(reader);
    }
}

cafka_fetch *cafka_fetch_ref(cafka_fetch *fetch)
{
    if (fetch)
        atomic_fetch_add_explicit(&fetch->refs, 1, memory_order_relaxed);
    return fetch;
}

void cafka_fetch_free(cafka_fetch *fetch)
{
    if (!fetch || atomic_fetch_sub_explicit(&fetch->refs, 1, memory_order_acq_rel) > 1)
        return;
    struct fetch_reader *reader = fetch->reader;
    for (size_t i = 0; i < fetch->pin_count; i++)
        fetch_memory_unref(fetch->pins[i]);
    fetch->pin_count = 0;
    mpsc_push(&reader->free_fetches, &fetch->link);
    reader_unref(reader);
}

cafka_record_memory *cafka_record_ref(const cafka_record_view *view)
{
    return (cafka_record_memory *)fetch_memory_ref((struct fetch_memory *)view->memory);
}

void cafka_record_unref(cafka_record_memory *memory)
{
    fetch_memory_unref((struct fetch_memory *)memory);
}

int cafka_record_view_header(const cafka_record_view *view, const char *name, size_t index,
                             cafka_header *out)
{
    size_t name_size = name ? strlen(name) : 0;
    struct header_iter it = {view->headers, (const uint8_t *)view->headers + view->headers_size,
                             INT32_MAX};
    struct record_header header;
    while (it.at < it.end && header_iter_next(&it, &header)) {
        if (name && (header.name.size != name_size || memcmp(header.name.data, name, name_size)))
            continue;
        if (index--)
            continue;
        *out = (cafka_header){header.name.data, header.name.size, header.value.data,
                              header.value.size};
        return CAFKA_OK;
    }
    return CAFKA_END;
}
