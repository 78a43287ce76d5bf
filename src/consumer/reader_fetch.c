/*
 * reader_fetch.c - what the application holds of a poll: a cafka_fetch, which moves the reader's
 * cursor by so many records and keeps the memory alive that they lie in.
 *
 * Thread:  the polling one; cafka_fetch_ref() and _free() on any.
 * Reading: cafka_fetch_next(), then enter_batch().
 */
#include "consumer/reader.h"

#include "record/quick_record.h"
#include "util/alloc.h"

/* Memory that a fetch keeps alive. The first few need no allocation. */
enum { PINS_INSIDE = 8 };

struct cafka_fetch {
    struct mpsc_item link; /* first */
    atomic_uint refs;
    struct fetch_reader *reader; /* a reference */
    uint64_t poll;
    int32_t most, left; /* records that it may hand out, and still may */
    struct fetch_memory **pins, *inside[PINS_INSIDE];
    size_t pin_count, pin_capacity;
    struct late_error *late; /* met behind records that were handed out in the same call */
};

struct late_error {
    cafka_record_view where;
    cafka_error error;
};

/* --- life --- */

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
    fetch->most = fetch->left = max_records;
    *out = fetch;
    return CAFKA_OK;
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
    atomic_fetch_add_explicit(&reader->handed_out, fetch->most - fetch->left, memory_order_relaxed);
    for (size_t i = 0; i < fetch->pin_count; i++)
        fetch_memory_unref(fetch->pins[i]);
    fetch->pin_count = 0;
    mem_free(fetch->late);
    fetch->late = NULL;
    mpsc_push(&reader->free_fetches, &fetch->link);
    reader_unref(reader);
}

static void free_list(struct mpsc_item *item)
{
    while (item) {
        cafka_fetch *fetch = container_of(item, cafka_fetch, link);
        item = item->next;
        if (fetch->pins != fetch->inside)
            mem_free(fetch->pins);
        mem_free(fetch);
    }
}

void reader_free_fetches(struct fetch_reader *reader)
{
    free_list(mpsc_take_all(&reader->free_fetches));
    free_list(reader->spare_fetches);
    reader->spare_fetches = NULL;
}

/* --- entering a batch --- */

static struct fetch_memory *memory_under_cursor(const struct fetch_reader *reader)
{
    return reader->inflated ? reader->inflated : reader->chunk->memory;
}

/* Keep the memory of the batch under the cursor alive with this fetch. */
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

static int take_error(struct fetch_reader *reader, cafka_error *err)
{
    cafka_error error = *reader->chunk->error;
    reader_end_chunk(reader);
    if (err)
        *err = error;
    return error.code;
}

static void name_place(const struct consumer_partition *p, cafka_record_view *out)
{
    *out = (cafka_record_view){.topic = p->topic,
                               .partition = p->partition,
                               .offset = p->app.position,
                               .timestamp_ms = -1,
                               .leader_epoch = -1};
}

static uint8_t timestamp_type(const struct batch_header *h)
{
    if (h->magic == 0)
        return CAFKA_TIMESTAMP_NONE;
    return h->attributes & BATCH_LOG_APPEND_TIME ? CAFKA_TIMESTAMP_LOG_APPEND_TIME
                                                 : CAFKA_TIMESTAMP_CREATE_TIME;
}

/* What is the same for all records of a batch. */
static void prepare_view(struct fetch_reader *reader, struct fetch_memory *memory)
{
    const struct consumer_partition *p = reader->chunk->partition;
    reader->common = (cafka_record_view){.topic = p->topic,
                                         .memory = memory,
                                         .partition = p->partition,
                                         .leader_epoch = reader->batch.leader_epoch,
                                         .timestamp_type = timestamp_type(&reader->batch)};
}

/*
 * The way that is not taken for every record: a new batch, a new chunk, an error, the end. With
 * `only` it ends as well where the records of that partition do.
 */
static int enter_batch(cafka_fetch *fetch, const struct consumer_partition *only,
                       cafka_record_view *out, cafka_error *err)
{
    struct fetch_reader *reader = fetch->reader;
    for (;;) {
        if (fetch->poll != reader->poll || !fetch->left || !reader_ready(reader))
            return CAFKA_END;
        struct consumer_partition *p = reader->chunk->partition;
        if (only && (p != only || reader->chunk->kind == CHUNK_ERROR))
            return CAFKA_END;
        if (!reader->in_batch) {
            name_place(p, out);
            if (reader->chunk->kind == CHUNK_ERROR)
                return take_error(reader, err);
            int rc = reader_open_batch(reader, err);
            if (rc == CAFKA_END)
                continue;
            if (rc)
                return rc;
        }
        struct fetch_memory *memory = memory_under_cursor(reader);
        int rc = pin(fetch, memory, err);
        if (rc) {
            name_place(p, out);
            return rc;
        }
        prepare_view(reader, memory);
        reader->current = fetch;
        reader->plain = reader->hooks.plugins ? NULL : fetch;
        return CAFKA_OK;
    }
}

/* --- records --- */

/* Field by field, so that each is stored once. */
static inline void fill_view(const struct fetch_reader *reader, const struct record_view *record,
                             cafka_record_view *out)
{
    const cafka_record_view *common = &reader->common;
    out->key = record->key.data;
    out->value = record->value.data;
    out->headers = record->headers.data;
    out->topic = common->topic;
    out->memory = common->memory;
    out->offset = record->offset;
    out->timestamp_ms = record->timestamp;
    out->key_size = (uint32_t)record->key.size;
    out->value_size = (uint32_t)record->value.size;
    out->headers_size = (uint32_t)record->headers.size;
    out->partition = common->partition;
    out->leader_epoch = common->leader_epoch;
    out->timestamp_type = common->timestamp_type;
    memset(out->reserved, 0, sizeof out->reserved);
}

static inline void hand_out(cafka_fetch *fetch, struct consumer_partition *p,
                            const struct record_view *record, cafka_record_view *out)
{
    fill_view(fetch->reader, record, out);
    p->app.position = record->offset + 1;
    if (!--fetch->left)
        fetch->reader->plain = NULL;
}

/* Hand it out, unless it is below the position; of INT64_MAX no position behind can be said. */
static inline bool hand_out_plain(cafka_fetch *fetch, const struct record_view *record,
                                  cafka_record_view *out)
{
    struct consumer_partition *p = fetch->reader->chunk->partition;
    if (__builtin_expect(record->offset < p->app.position || record->offset == INT64_MAX, 0))
        return false;
    hand_out(fetch, p, record, out);
    return true;
}

static __attribute__((noinline)) bool next_not_quick(cafka_fetch *fetch, cafka_record_view *out)
{
    struct record_view record;
    return !record_iter_next(&fetch->reader->records, &record, NULL) &&
           hand_out_plain(fetch, &record, out);
}

/*
 * Nearly every record: one more of a batch that is open, and nobody wants to see it before. False:
 * take the other way. A record that is there but below the position is passed over by this.
 */
static inline __attribute__((always_inline)) bool next_plain(cafka_fetch *fetch,
                                                             cafka_record_view *out)
{
    struct fetch_reader *reader = fetch->reader;
    struct record_view record; /* never in memory: all of it is inline */
    if (__builtin_expect(reader->plain != fetch, 0))
        return false;
    if (__builtin_expect(!record_iter_next_quick(&reader->records, &record), 0))
        return next_not_quick(fetch, out);
    return hand_out_plain(fetch, &record, out);
}

/* The batch can't be read on, or has no more records (CAFKA_OK: look for the next one). */
static int leave_batch(struct fetch_reader *reader, int rc, cafka_record_view *out, cafka_error *err)
{
    if (rc == CAFKA_END) {
        reader_finish_batch(reader);
        return CAFKA_OK;
    }
    struct record_view record;
    cafka_error why = {0};
    (void)record_iter_next(&reader->records, &record, &why); /* the same again, with its reason */
    name_place(reader->chunk->partition, out);
    return reader_fail(reader, rc, why.message, err);
}

/*
 * The application's own functions. They may have moved the cursor; if not, and they failed, the
 * position is in front of the record again. CAFKA_DROP: this one is left out.
 */
static int run_hooks(cafka_fetch *fetch, cafka_record_view *view, cafka_error *err)
{
    struct fetch_reader *reader = fetch->reader;
    uint64_t moves = reader->moves;
    cafka_error why = {0};
    int rc = reader_hooks_run(&reader->hooks, view, &why);
    if (rc == CAFKA_DROP)
        fetch->left++;
    if (rc == CAFKA_OK || rc == CAFKA_DROP)
        return rc;
    fetch->left++;
    if (moves != reader->moves)
        return error_set(err, rc, "reading %s-%d at offset %lld: %s", view->topic, view->partition,
                         (long long)view->offset, why.message);
    reader->chunk->partition->app.position = view->offset;
    return reader_fail(reader, rc, why.message, err);
}

/* CAFKA_DROP does not come out of here. */
static int next_record(cafka_fetch *fetch, const struct consumer_partition *only,
                       cafka_record_view *out, cafka_error *err)
{
    struct fetch_reader *reader = fetch->reader;
    struct record_view record;
    for (;;) {
        int rc;
        if (reader->current != fetch || !fetch->left) {
            rc = enter_batch(fetch, only, out, err);
            if (rc)
                return rc;
        }
        rc = record_iter_next(&reader->records, &record, NULL);
        if (rc) {
            rc = leave_batch(reader, rc, out, err);
            if (rc)
                return rc;
            continue;
        }
        struct consumer_partition *p = reader->chunk->partition;
        if (record.offset < p->app.position || record.offset == INT64_MAX)
            continue; /* of the last one no position behind it can be said; no log has it */
        hand_out(fetch, p, &record, out);
        if (!reader->hooks.plugins)
            return CAFKA_OK;
        rc = run_hooks(fetch, out, err);
        if (rc != CAFKA_DROP)
            return rc;
    }
}

/* An error that the last call met behind the records that it gave. */
static int take_late_error(cafka_fetch *fetch, cafka_record_view *out, cafka_error *err)
{
    struct late_error *late = fetch->late;
    int code = late->error.code;
    fetch->late = NULL;
    *out = late->where;
    if (err)
        *err = late->error;
    mem_free(late);
    return code;
}

/* Without memory to keep it, it is told when the partition is read again, a second later. */
static void keep_late_error(cafka_fetch *fetch, const cafka_record_view *where,
                            const cafka_error *error)
{
    fetch->late = mem_alloc(sizeof *fetch->late);
    if (fetch->late)
        *fetch->late = (struct late_error){*where, *error};
}

static __attribute__((noinline)) int next_after_all(cafka_fetch *fetch, cafka_record_view *out,
                                                    cafka_error *err)
{
    if (!fetch)
        return CAFKA_END;
    if (!out)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a record needs a place to go to");
    if (fetch->late)
        return take_late_error(fetch, out, err);
    if (fetch->reader->hooks.plugins)
        reader_hooks_begin(&fetch->reader->hooks);
    return next_record(fetch, NULL, out, err);
}

int cafka_fetch_next(cafka_fetch *fetch, cafka_record_view *out, cafka_error *err)
{
    error_clear(err);
    if (__builtin_expect(fetch && out && next_plain(fetch, out), 1))
        return CAFKA_OK;
    return next_after_all(fetch, out, err);
}

int cafka_fetch_next_batch(cafka_fetch *fetch, cafka_record_view *out, size_t room, size_t *count,
                           cafka_error *err)
{
    if (!count || !out || !room) {
        error_clear(err);
        return error_set(err, CAFKA_ERR_ARGUMENT, "records need a place to go to");
    }
    *count = 0;
    int rc = cafka_fetch_next(fetch, out, err);
    if (rc)
        return rc;
    const struct consumer_partition *p =
        fetch->reader->chunk ? fetch->reader->chunk->partition : NULL;
    cafka_error why = {0};
    size_t n = 1;
    cafka_record_view next; /* so that an error leaves out[n] alone */
    for (; n < room && p; n++) {
        if (next_plain(fetch, &out[n]))
            continue;
        if ((rc = next_record(fetch, p, &next, &why)))
            break;
        out[n] = next;
    }
    if (rc && rc != CAFKA_END)
        keep_late_error(fetch, &next, &why);
    *count = n;
    return CAFKA_OK;
}

size_t cafka_fetch_count(const cafka_fetch *fetch)
{
    if (!fetch || fetch->poll != fetch->reader->poll || !fetch->left)
        return 0;
    return reader_count(fetch->reader, (size_t)fetch->left);
}

size_t cafka_fetch_bytes(const cafka_fetch *fetch)
{
    size_t bytes = 0;
    for (size_t i = 0; fetch && i < fetch->pin_count; i++)
        bytes += fetch->pins[i]->charged;
    return bytes;
}
