/*
 * log_read.c - finding things in a log: bytes from an offset on, times, epochs, aborted transactions.
 */
#include <inttypes.h>

#include "mockbroker/log/commit_log_private.h"
#include "protocol/errors.h"
#include "record/open.h"
#include "util/alloc.h"

/* Trouble of a read as an answer says it; the log stays open for writing. */
static int answer(int rc, const cafka_error *reason, cafka_error *err)
{
    int code = rc == CAFKA_ERR_IO        ? ERR_KAFKA_STORAGE_ERROR
               : rc == CAFKA_ERR_CORRUPT ? ERR_CORRUPT_MESSAGE
                                         : ERR_UNKNOWN_SERVER_ERROR;
    if (rc >= -1)
        code = rc;
    return error_set(err, code, "%s", reason->message);
}

/* The first batch that ends at or behind `offset`, in whatever segment. CAFKA_END: none. */
static int find_batch(struct commit_log *log, int64_t offset, size_t *segment,
                      struct batch_place *place, cafka_error *err)
{
    int rc = CAFKA_END;
    size_t i = commit_log_segment_of(log, offset);
    for (; rc == CAFKA_END && i < log->segment_count; i++) {
        *segment = i;
        rc = segment_find(log->segments[i], log->env, offset, place, err);
    }
    return rc;
}

/* Where in segment `i` the bytes below end_offset end. */
static int end_position(struct commit_log *log, size_t i, int64_t end_offset, int64_t *out,
                        cafka_error *err)
{
    struct segment *segment = log->segments[i];
    *out = segment->size;
    bool whole = i + 1 < log->segment_count ? end_offset >= log->segments[i + 1]->base_offset
                                            : end_offset >= log->end_offset;
    if (whole)
        return CAFKA_OK;
    struct batch_place place;
    int rc = segment_find(segment, log->env, end_offset, &place, err);
    if (!rc)
        *out = place.position;
    return rc == CAFKA_END ? CAFKA_OK : rc;
}

int commit_log_read(struct commit_log *log, int64_t offset, int64_t end_offset, size_t max_bytes,
                    bool whole_batch, struct log_slice *out, cafka_error *err)
{
    *out = (struct log_slice){0};
    if (offset < log->start_offset || offset > log->end_offset)
        return error_set(err, ERR_OFFSET_OUT_OF_RANGE,
                         "offset %" PRId64 " of %s-%d is outside [%" PRId64 ", %" PRId64 "]",
                         offset, log->topic, log->partition, log->start_offset, log->end_offset);
    if (offset >= end_offset)
        return CAFKA_OK;
    cafka_error reason = {0};
    struct batch_place place;
    size_t i;
    int64_t end;
    int rc = find_batch(log, offset, &i, &place, &reason);
    if (rc == CAFKA_END)
        return CAFKA_OK;
    if (!rc)
        rc = end_position(log, i, end_offset, &end, &reason);
    if (!rc)
        rc = segment_file(log->segments[i], log->env, &reason);
    if (rc)
        return answer(rc, &reason, err);
    if (end <= place.position)
        return CAFKA_OK;

    size_t size = max_bytes, first = batch_size(&place.header);
    if (size < first)
        size = whole_batch ? first : 0;
    if (size > (size_t)(end - place.position))
        size = (size_t)(end - place.position);
    if (!size)
        return CAFKA_OK;
    *out = (struct log_slice){log_file_ref(log->segments[i]->file), place.position, size};
    return CAFKA_OK;
}

int64_t commit_log_bytes_between(struct commit_log *log, int64_t offset, int64_t end_offset)
{
    if (offset >= end_offset)
        return 0;
    struct batch_place place;
    size_t i;
    int64_t end;
    if (commit_log_segment_of(log, offset) != commit_log_segment_of(log, end_offset))
        return INT64_MAX;
    int rc = find_batch(log, offset, &i, &place, NULL);
    if (rc == CAFKA_END)
        return 0;
    if (rc || end_position(log, i, end_offset, &end, NULL))
        return INT64_MAX; /* the read tells the error */
    return end > place.position ? end - place.position : 0;
}

/* --- aborted transactions --- */

struct aborted_list {
    struct aborted_transaction *items;
    size_t count, capacity;
};

static int add_aborted(struct aborted_list *list, const struct txn_index_entry *entry,
                       cafka_error *err)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 8;
        struct aborted_transaction *items = mem_recalloc(list->items, capacity, sizeof *items);
        if (!items)
            return error_set(err, ERR_UNKNOWN_SERVER_ERROR, "no memory for aborted transactions");
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] =
        (struct aborted_transaction){entry->producer_id, entry->first_offset};
    return CAFKA_OK;
}

/* An offset that no record of the slice reaches: by the index, else the segment's end. */
static int64_t upper_bound(struct commit_log *log, size_t i, const struct log_slice *slice)
{
    struct segment *segment = log->segments[i];
    const struct log_index *offsets = &segment->offsets;
    int64_t end = slice->position + (int64_t)slice->size;
    size_t low = 0, high = offsets->count; /* the first entry whose position is not below `end` */
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (offset_index_get(offsets->map, middle, segment->base_offset).position >= end)
            high = middle;
        else
            low = middle + 1;
    }
    if (low < offsets->count)
        return offset_index_get(offsets->map, low, segment->base_offset).offset;
    return i + 1 < log->segment_count ? log->segments[i + 1]->base_offset : log->end_offset;
}

/* One segment's share; *done when no later segment can have more. */
static int collect_aborted(struct commit_log *log, struct segment *segment, int64_t from,
                           int64_t below, struct aborted_list *list, bool *done, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset, ".txnindex", path);
    cafka_error reason = {0};
    int rc = txn_index_load(&segment->txns, log->env, path, &reason);
    if (rc)
        return answer(rc, &reason, err);
    for (size_t k = 0; k < segment->txns.count && !*done; k++) {
        const struct txn_index_entry *entry = &segment->txns.entries[k];
        if (entry->last_offset >= from && entry->first_offset < below &&
            (rc = add_aborted(list, entry, err)))
            return rc;
        *done = entry->last_stable_offset >= below;
    }
    return CAFKA_OK;
}

int commit_log_aborted(struct commit_log *log, int64_t fetch_offset, const struct log_slice *slice,
                       struct aborted_transaction **out, size_t *count, cafka_error *err)
{
    *out = NULL;
    *count = 0;
    if (!slice->size)
        return CAFKA_OK;
    size_t i = commit_log_segment_of(log, fetch_offset);
    while (i < log->segment_count && log->segments[i]->file != slice->file)
        i++;
    if (i == log->segment_count)
        return CAFKA_OK;
    int64_t below = upper_bound(log, i, slice);
    struct aborted_list list = {0};
    bool done = false;
    int rc = CAFKA_OK;
    for (; !rc && !done && i < log->segment_count; i++)
        rc = collect_aborted(log, log->segments[i], fetch_offset, below, &list, &done, err);
    if (rc) {
        mem_free(list.items);
        return rc;
    }
    *out = list.items;
    *count = list.count;
    return CAFKA_OK;
}

/* --- times --- */

/* The first record of a batch that is not older than `target` and not below `from`. */
static int find_in_batch(struct commit_log *log, struct segment *segment,
                         const struct batch_place *place, int64_t target, int64_t from,
                         struct timestamp_offset *out, cafka_error *err)
{
    struct log_shared *shared = log->shared;
    struct record_iter it;
    struct record_view view;
    int rc = segment_read_batch(segment, log->env, place, &shared->packed, err);
    if (!rc)
        rc = batch_open(bytes_of(shared->packed.data, shared->packed.size), &place->header,
                        shared->decompressor, LOG_INFLATE_LIMIT, &shared->inflated, &it, err);
    while (!rc && !(rc = record_iter_next(&it, &view, err))) {
        if (view.timestamp < target || view.offset < from)
            continue;
        *out = (struct timestamp_offset){view.timestamp, view.offset, place->header.leader_epoch};
        return CAFKA_OK;
    }
    return rc;
}

static int find_in_segment(struct commit_log *log, struct segment *segment, int64_t target,
                           struct timestamp_offset *out, cafka_error *err)
{
    int rc = segment_load_indexes(segment, log->env, err);
    if (rc)
        return rc;
    int64_t from = log->start_offset, at = segment->base_offset;
    ptrdiff_t entry = -1;
    if (segment->times.count)
        entry = time_index_find(segment->times.map, segment->times.count, target);
    if (entry >= 0)
        at = time_index_get(segment->times.map, (size_t)entry, segment->base_offset).offset;
    /* the batch of the entry has its last offset there; records of it may be what is looked for */
    struct batch_place place;
    rc = segment_find(segment, log->env, at > from ? at : from, &place, err);
    while (!rc) {
        if (place.header.max_timestamp >= target) {
            rc = find_in_batch(log, segment, &place, target, from, out, err);
            if (rc != CAFKA_END)
                return rc;
        }
        rc = segment_header_at(segment, log->env, batch_place_next(&place), &place, err);
    }
    return rc;
}

int commit_log_find_timestamp(struct commit_log *log, int64_t target, struct timestamp_offset *out,
                              cafka_error *err)
{
    cafka_error reason = {0};
    int rc = CAFKA_END;
    *out = (struct timestamp_offset){-1, -1, -1};
    for (size_t i = 0; rc == CAFKA_END && i < log->segment_count; i++) {
        int64_t largest;
        rc = segment_largest_or_mtime(log->segments[i], log->env, &largest, &reason);
        if (rc)
            break;
        rc = largest < target ? CAFKA_END
                              : find_in_segment(log, log->segments[i], target, out, &reason);
    }
    log_shared_relax(log->shared);
    return !rc || rc == CAFKA_END ? CAFKA_OK : answer(rc, &reason, err);
}

int commit_log_find_max_timestamp(struct commit_log *log, struct timestamp_offset *out,
                                  cafka_error *err)
{
    cafka_error reason = {0};
    struct time_index_entry best = {INT64_MIN, -1}, largest;
    struct segment *where = NULL;
    int rc = CAFKA_OK;
    *out = (struct timestamp_offset){-1, -1, -1};
    for (size_t i = 0; !rc && i < log->segment_count; i++) {
        rc = segment_largest(log->segments[i], log->env, &largest, &reason);
        bool empty = !rc && !log->segments[i]->size; /* records without a timestamp count as -1 */
        if (!rc && !empty && largest.timestamp > best.timestamp) {
            best = largest;
            where = log->segments[i];
        }
    }
    if (!rc && !where)
        return CAFKA_OK;
    struct batch_place place;
    if (!rc)
        rc = segment_find(where, log->env,
                          best.offset < where->base_offset ? where->base_offset : best.offset,
                          &place, &reason);
    if (!rc)
        rc = find_in_batch(log, where, &place, place.header.max_timestamp, 0, out, &reason);
    log_shared_relax(log->shared);
    return !rc || rc == CAFKA_END ? CAFKA_OK : answer(rc, &reason, err);
}

/* --- epochs --- */

struct epoch_end commit_log_epoch_end(const struct commit_log *log, int32_t epoch)
{
    return leader_epochs_end(&log->epochs, epoch, log->end_offset);
}

int32_t commit_log_epoch_of(const struct commit_log *log, int64_t offset)
{
    return leader_epochs_of(&log->epochs, offset);
}
