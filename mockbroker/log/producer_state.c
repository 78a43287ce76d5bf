/*
 * producer_state.c - see producer_state.h.
 */
#include "mockbroker/log/producer_state.h"

#include <inttypes.h>

#include "protocol/errors.h"
#include "record/control.h"
#include "record/open.h"
#include "util/alloc.h"

/* --- spans: small sorted arrays; transactions open at the log's end, so mostly at the array's --- */

static int spans_reserve(struct txn_spans *spans, cafka_error *err)
{
    if (spans->count < spans->capacity)
        return CAFKA_OK;
    size_t capacity = spans->capacity ? 2 * spans->capacity : 4;
    struct txn_span *items = mem_recalloc(spans->items, capacity, sizeof *items);
    if (!items)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu transactions", capacity);
    spans->items = items;
    spans->capacity = capacity;
    return CAFKA_OK;
}

static void spans_put(struct txn_spans *spans, struct txn_span span)
{
    size_t at = spans->count++;
    for (; at && spans->items[at - 1].first_offset > span.first_offset; at--)
        spans->items[at] = spans->items[at - 1];
    spans->items[at] = span;
}

static void spans_remove(struct txn_spans *spans, size_t at)
{
    spans->count--;
    memmove(spans->items + at, spans->items + at + 1, (spans->count - at) * sizeof *spans->items);
}

static void spans_fini(struct txn_spans *spans)
{
    mem_free(spans->items);
    *spans = (struct txn_spans){0};
}

/* --- life --- */

static void free_entries(struct producer_state *state)
{
    const struct map_entry *e;
    for (size_t i = 0; (e = map_next(&state->entries, &i));)
        mem_free(e->value);
    map_clear(&state->entries);
}

void producer_state_fini(struct producer_state *state)
{
    free_entries(state);
    map_fini(&state->entries);
    spans_fini(&state->open);
    spans_fini(&state->replicating);
}

void producer_state_clear(struct producer_state *state, int64_t end_offset)
{
    free_entries(state);
    state->open.count = state->replicating.count = 0;
    state->end_offset = end_offset;
}

/* --- reading a batch --- */

static int read_marker(struct producer_update *out, struct bytes batch,
                       const struct batch_header *h, cafka_error *err)
{
    struct record_iter it;
    struct bytes records = {batch.data + RECORD_BATCH_OVERHEAD, batch.size - RECORD_BATCH_OVERHEAD};
    record_iter_init(&it, records, h->base_offset, h->base_timestamp, h->record_count);
    struct record_view view;
    int rc = record_iter_next(&it, &view, err);
    if (rc == CAFKA_END) { /* an emptied batch of the cleaner */
        out->producer_id = -1;
        return CAFKA_OK;
    }
    int16_t type = -1;
    if (!rc)
        rc = control_type_read(view.key, &type, err);
    if (rc)
        return rc;
    if (type != CONTROL_ABORT && type != CONTROL_COMMIT) {
        out->producer_id = -1;
        return CAFKA_OK;
    }
    struct end_txn_marker marker;
    rc = end_txn_marker_read(view.value, &marker, err);
    if (rc)
        return rc;
    out->marker = true;
    out->aborted = type == CONTROL_ABORT;
    out->coordinator_epoch = marker.coordinator_epoch;
    out->timestamp = view.timestamp;
    return CAFKA_OK;
}

int producer_update_of(struct producer_update *out, struct bytes batch,
                       const struct batch_header *h, cafka_error *err)
{
    *out = (struct producer_update){
        .producer_id = h->producer_id,
        .epoch = h->producer_epoch,
        .base_sequence = h->base_sequence,
        .last_sequence = batch_last_sequence(h),
        .first_offset = h->base_offset,
        .last_offset = batch_last_offset(h),
        .timestamp = h->max_timestamp,
        .transactional = batch_is_transactional(h),
    };
    if (h->magic != BATCH_MAGIC)
        out->producer_id = -1;
    if (out->producer_id >= 0 && batch_is_control(h) && h->record_count)
        return read_marker(out, batch, h, err);
    if (batch_is_control(h))
        out->producer_id = -1;
    return CAFKA_OK;
}

/* --- questions --- */

const struct producer_entry *producer_state_find(const struct producer_state *state, int64_t id)
{
    return map_get_int(&state->entries, id);
}

static int32_t first_sequence(const struct producer_batch *batch)
{
    if (batch->last_sequence < 0)
        return -1;
    if (batch->last_sequence >= batch->offset_delta)
        return batch->last_sequence - batch->offset_delta;
    return INT32_MAX - (batch->offset_delta - batch->last_sequence) + 1; /* they wrapped inside */
}

const struct producer_batch *producer_state_duplicate(const struct producer_state *state,
                                                      const struct producer_update *update)
{
    const struct producer_entry *entry = producer_state_find(state, update->producer_id);
    if (!entry || update->marker || entry->epoch != update->epoch)
        return NULL;
    for (int i = 0; i < entry->batch_count; i++)
        if (first_sequence(&entry->batches[i]) == update->base_sequence &&
            entry->batches[i].last_sequence == update->last_sequence)
            return &entry->batches[i];
    return NULL;
}

static int check_sequence(const struct producer_entry *entry, const struct producer_update *update,
                          cafka_error *err)
{
    if (update->epoch != entry->epoch) {
        if (!update->base_sequence || entry->epoch < 0)
            return CAFKA_OK;
        return error_set(err, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                         "producer %" PRId64 " begins epoch %d with sequence %d instead of 0",
                         entry->id, update->epoch, update->base_sequence);
    }
    if (entry->epoch < 0) /* epoch -1 on both sides: nothing is known */
        return CAFKA_OK;
    int32_t last = entry->batch_count ? entry->batches[entry->batch_count - 1].last_sequence : -1;
    if ((int64_t)update->base_sequence == (int64_t)last + 1 ||
        (!update->base_sequence && last == INT32_MAX))
        return CAFKA_OK;
    return error_set(err, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
                     "sequence %d of producer %" PRId64 " does not follow %d",
                     update->base_sequence, entry->id, last);
}

int producer_state_check(const struct producer_state *state, const struct producer_update *update,
                         bool client, bool verified, cafka_error *err)
{
    static const struct producer_entry nobody = {.epoch = -1,
                                                 .coordinator_epoch = -1,
                                                 .txn_first_offset = -1};
    const struct producer_entry *entry = producer_state_find(state, update->producer_id);
    if (!entry)
        entry = &nobody;

    if (entry->epoch >= 0 && update->epoch < entry->epoch)
        return error_set(err, ERR_INVALID_PRODUCER_EPOCH,
                         "epoch %d of producer %" PRId64 " is older than %d", update->epoch,
                         update->producer_id, entry->epoch);
    if (client && update->transactional && entry->txn_first_offset < 0 && !verified)
        return error_set(err, ERR_INVALID_TXN_STATE,
                         "producer %" PRId64 " has no transaction here, and none was verified",
                         update->producer_id);
    if (update->marker) {
        if (update->coordinator_epoch >= entry->coordinator_epoch)
            return CAFKA_OK;
        return error_set(err, ERR_TRANSACTION_COORDINATOR_FENCED,
                         "coordinator epoch %d of producer %" PRId64 " is older than %d",
                         update->coordinator_epoch, update->producer_id, entry->coordinator_epoch);
    }
    int rc = client ? check_sequence(entry, update, err) : CAFKA_OK;
    if (!rc && entry->txn_first_offset >= 0 && !update->transactional)
        rc = error_set(err, ERR_INVALID_TXN_STATE,
                       "producer %" PRId64 " has a transaction open and writes outside of it",
                       update->producer_id);
    return rc;
}

/* --- changes --- */

static struct producer_entry *add_entry(struct producer_state *state, int64_t id, cafka_error *err)
{
    struct producer_entry *entry = mem_zalloc(sizeof *entry);
    if (!entry || !map_put_int(&state->entries, id, entry)) {
        mem_free(entry);
        error_set(err, CAFKA_ERR_MEMORY, "no memory for the state of producer %" PRId64, id);
        return NULL;
    }
    entry->id = id;
    entry->epoch = -1;
    entry->coordinator_epoch = -1;
    entry->last_timestamp = -1;
    entry->txn_first_offset = -1;
    return entry;
}

int producer_state_prepare(struct producer_state *state, const struct producer_update *update,
                           cafka_error *err)
{
    if (update->producer_id < 0)
        return CAFKA_OK;
    int rc = update->transactional ? spans_reserve(&state->open, err) : CAFKA_OK;
    if (!rc && update->marker)
        rc = spans_reserve(&state->replicating, err);
    if (!rc && !producer_state_find(state, update->producer_id) &&
        !add_entry(state, update->producer_id, err))
        rc = CAFKA_ERR_MEMORY;
    return rc;
}

static void add_batch(struct producer_entry *entry, struct producer_batch batch)
{
    if (entry->batch_count == PRODUCER_BATCHES_KEPT) {
        memmove(entry->batches, entry->batches + 1,
                (PRODUCER_BATCHES_KEPT - 1) * sizeof *entry->batches);
        entry->batch_count--;
    }
    entry->batches[entry->batch_count++] = batch;
}

/* The open transaction ends with this marker. */
static bool end_transaction(struct producer_state *state, struct producer_entry *entry,
                            const struct producer_update *update, struct txn_span *ended,
                            int64_t *stable_offset)
{
    int64_t first_offset = entry->txn_first_offset;
    entry->txn_first_offset = -1;
    if (first_offset < 0)
        return false;
    *ended = (struct txn_span){entry->id, first_offset, update->last_offset};
    *stable_offset = update->last_offset + 1;
    for (size_t i = 0; i < state->open.count; i++)
        if (state->open.items[i].first_offset == first_offset) {
            spans_remove(&state->open, i);
            break;
        }
    if (state->open.count)
        *stable_offset = state->open.items[0].first_offset;
    spans_put(&state->replicating, *ended);
    return true;
}

bool producer_state_update(struct producer_state *state, const struct producer_update *update,
                           struct txn_span *ended, int64_t *stable_offset)
{
    state->end_offset = update->last_offset + 1;
    if (update->producer_id < 0)
        return false;
    struct producer_entry *entry = map_get_int(&state->entries, update->producer_id);
    if (update->epoch != entry->epoch) {
        entry->epoch = update->epoch;
        entry->batch_count = 0;
    }
    entry->last_timestamp = update->timestamp;
    if (update->marker) {
        entry->coordinator_epoch = update->coordinator_epoch;
        return end_transaction(state, entry, update, ended, stable_offset);
    }
    add_batch(entry, (struct producer_batch){
                         .last_sequence = update->last_sequence,
                         .offset_delta = (int32_t)(update->last_offset - update->first_offset),
                         .last_offset = update->last_offset,
                         .timestamp = update->timestamp,
                     });
    if (update->transactional && entry->txn_first_offset < 0) {
        entry->txn_first_offset = update->first_offset;
        spans_put(&state->open, (struct txn_span){entry->id, update->first_offset, -1});
    }
    return false;
}

int64_t producer_state_first_unstable(const struct producer_state *state)
{
    int64_t first = INT64_MAX;
    if (state->open.count)
        first = state->open.items[0].first_offset;
    if (state->replicating.count && state->replicating.items[0].first_offset < first)
        first = state->replicating.items[0].first_offset;
    return first;
}

void producer_state_replicated(struct producer_state *state, int64_t offset)
{
    for (size_t i = 0; i < state->replicating.count;)
        if (state->replicating.items[i].last_offset < offset)
            spans_remove(&state->replicating, i);
        else
            i++;
}

void producer_state_expire(struct producer_state *state, int64_t now_ms, int64_t expiration_ms)
{
    const struct map_entry *e;
    for (size_t i = 0; (e = map_next(&state->entries, &i));) {
        struct producer_entry *entry = e->value;
        if (entry->txn_first_offset >= 0 || now_ms - entry->last_timestamp < expiration_ms)
            continue;
        map_remove_int(&state->entries, entry->id);
        mem_free(entry);
    }
}

/* --- snapshots --- */

static struct snapshot_entry to_snapshot(const struct producer_entry *entry)
{
    struct snapshot_entry out = {
        .producer_id = entry->id,
        .epoch = entry->epoch,
        .last_sequence = -1,
        .last_offset = -1,
        .timestamp = entry->last_timestamp,
        .coordinator_epoch = entry->coordinator_epoch,
        .current_txn_first_offset = entry->txn_first_offset,
    };
    if (entry->batch_count) {
        const struct producer_batch *last = &entry->batches[entry->batch_count - 1];
        out.last_sequence = last->last_sequence;
        out.last_offset = last->last_offset;
        out.offset_delta = last->offset_delta;
    }
    return out;
}

static int write_file(const cafka_env *env, const char *path, struct bytes data, bool sync,
                      cafka_error *err)
{
    cafka_env_file *file;
    int rc = env->file_open(env, path, CAFKA_FILE_WRITE | CAFKA_FILE_CREATE | CAFKA_FILE_TRUNCATE,
                            &file);
    if (rc < 0)
        return log_io_error(err, rc, "making", path);
    struct iovec piece = {(void *)(uintptr_t)data.data, data.size};
    rc = log_write_at(env, file, &piece, 1, 0, err);
    if (!rc && sync && (rc = env->file_sync(env, file)) < 0)
        rc = log_io_error(err, rc, "syncing", path);
    env->file_close(env, file);
    return rc;
}

int producer_state_save(const struct producer_state *state, const cafka_env *env, const char *path,
                        bool sync, cafka_error *err)
{
    struct buffer file = {0};
    struct snapshot_entry *entries = NULL;
    size_t count = 0;
    if (state->entries.count) {
        entries = mem_calloc(state->entries.count, sizeof *entries);
        if (!entries)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for a producer snapshot");
        const struct map_entry *e;
        for (size_t i = 0; (e = map_next(&state->entries, &i));)
            entries[count++] = to_snapshot(e->value);
    }
    snapshot_write(&file, entries, count);
    int rc = file.failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory for a producer snapshot")
                         : write_file(env, path, bytes_of(file.data, file.size), sync, err);
    buffer_fini(&file);
    mem_free(entries);
    return rc;
}

static int take_entry(struct producer_state *state, const struct snapshot_entry *from,
                      cafka_error *err)
{
    int rc = spans_reserve(&state->open, err);
    struct producer_entry *entry = rc ? NULL : map_get_int(&state->entries, from->producer_id);
    if (!rc && !entry)
        entry = add_entry(state, from->producer_id, err);
    if (!entry)
        return CAFKA_ERR_MEMORY;
    entry->epoch = from->epoch;
    entry->coordinator_epoch = from->coordinator_epoch;
    entry->last_timestamp = from->timestamp;
    entry->txn_first_offset = from->current_txn_first_offset;
    if (from->last_offset >= 0)
        add_batch(entry, (struct producer_batch){from->last_sequence, from->offset_delta,
                                                 from->last_offset, from->timestamp});
    if (entry->txn_first_offset >= 0)
        spans_put(&state->open, (struct txn_span){entry->id, entry->txn_first_offset, -1});
    return CAFKA_OK;
}

int producer_state_load(struct producer_state *state, const cafka_env *env, const char *path,
                        int64_t offset, int64_t now_ms, int64_t expiration_ms, cafka_error *err)
{
    enum { LIMIT = 1 << 30 };
    char *data;
    size_t size, count = 0;
    int rc = env_read_file(env, path, LIMIT, &data, &size, err);
    if (rc)
        return rc;
    rc = snapshot_check(bytes_of(data, size), &count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        struct snapshot_entry entry = snapshot_get((const uint8_t *)data, i);
        if (entry.current_txn_first_offset < 0 && now_ms - entry.timestamp >= expiration_ms)
            continue;
        rc = take_entry(state, &entry, err);
    }
    mem_free(data);
    if (rc)
        producer_state_clear(state, 0);
    else
        state->end_offset = offset;
    return rc;
}

void producer_state_add_history(struct producer_state *state, const struct producer_state *replayed)
{
    const struct map_entry *e;
    for (size_t i = 0; (e = map_next(&state->entries, &i));) {
        struct producer_entry *entry = e->value;
        const struct producer_entry *recent = producer_state_find(replayed, entry->id);
        if (!recent || recent->epoch != entry->epoch || entry->batch_count != 1 ||
            !recent->batch_count ||
            recent->batches[recent->batch_count - 1].last_offset != entry->batches[0].last_offset)
            continue;
        entry->batch_count = recent->batch_count;
        memcpy(entry->batches, recent->batches, sizeof entry->batches);
    }
}
