/*
 * segment.c - see segment.h.
 */
#include "mockbroker/log/segment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "util/alloc.h"

static const char *const suffixes[] = {".log", ".index", ".timeindex", ".txnindex"};
enum { SUFFIX_COUNT = sizeof suffixes / sizeof *suffixes };

/* --- life --- */

int segment_open(struct segment **out, const cafka_env *env, const char *directory,
                 int64_t base_offset, cafka_error *err)
{
    struct segment *segment = mem_zalloc(sizeof *segment);
    if (!segment)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a log segment");
    segment->directory = directory;
    segment->base_offset = base_offset;
    segment->created_ms = env_wall_ms(env);
    index_init(&segment->offsets, INDEX_OFFSET, base_offset);
    index_init(&segment->times, INDEX_TIME, base_offset);
    int rc = segment_file(segment, env, err);
    if (!rc) {
        segment->size = env->file_size(env, segment->file->handle);
        if (segment->size < 0)
            rc = log_io_error(err, (int)segment->size, "looking at a segment of", directory);
    }
    if (rc) {
        segment_free(segment, env);
        return rc;
    }
    *out = segment;
    return CAFKA_OK;
}

void segment_free(struct segment *segment, const cafka_env *env)
{
    if (!segment)
        return;
    index_fini(&segment->offsets, env);
    index_fini(&segment->times, env);
    txn_index_fini(&segment->txns);
    log_file_unref(segment->file);
    mem_free(segment);
}

void segment_rest(struct segment *segment, const cafka_env *env)
{
    index_fini(&segment->offsets, env);
    index_fini(&segment->times, env);
    txn_index_fini(&segment->txns);
    log_file_unref(segment->file);
    segment->file = NULL;
}

int segment_file(struct segment *segment, const cafka_env *env, cafka_error *err)
{
    if (segment->file)
        return CAFKA_OK;
    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset, ".log", path);
    return log_file_open(&segment->file, env, path,
                         CAFKA_FILE_READ | CAFKA_FILE_WRITE | CAFKA_FILE_CREATE, err);
}

static int with_index(struct segment *segment, const cafka_env *env, struct log_index *index,
                      int (*does)(struct log_index *, const cafka_env *, const char *, cafka_error *),
                      cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset,
             index->kind == INDEX_OFFSET ? ".index" : ".timeindex", path);
    return does(index, env, path, err);
}

int segment_load_indexes(struct segment *segment, const cafka_env *env, cafka_error *err)
{
    int rc = with_index(segment, env, &segment->offsets, index_load, err);
    return rc ? rc : with_index(segment, env, &segment->times, index_load, err);
}

int segment_activate(struct segment *segment, const cafka_env *env, const struct log_config *config,
                     cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset, ".index", path);
    int rc = index_activate(&segment->offsets, env, path, config->segment_index_bytes, err);
    if (rc)
        return rc;
    log_path(segment->directory, segment->base_offset, ".timeindex", path);
    rc = index_activate(&segment->times, env, path, config->segment_index_bytes, err);
    if (!rc && config->preallocate) {
        rc = segment_file(segment, env, err);
        if (!rc) /* a hint: file systems that can't do it are no failure */
            (void)env->file_allocate(env, segment->file->handle, config->segment_bytes);
    }
    return rc;
}

/* --- append --- */

/* Put the entries that are due in front of the append of a batch at the current end. */
static int add_entries(struct segment *segment, const cafka_env *env, int64_t last_offset,
                       int64_t position, cafka_error *err)
{
    int rc = with_index(segment, env, &segment->offsets, index_prepare, err);
    if (!rc)
        rc = with_index(segment, env, &segment->times, index_prepare, err);
    if (rc)
        return rc;
    index_add_offset(&segment->offsets, last_offset, position);
    index_add_time(&segment->times, segment->largest.timestamp, segment->largest.offset);
    segment->bytes_since_entry = 0;
    return CAFKA_OK;
}

static void take_timestamp(struct segment *segment, int64_t timestamp, int64_t offset)
{
    if (timestamp > segment->largest.timestamp)
        segment->largest = (struct time_index_entry){timestamp, offset};
}

int segment_append(struct segment *segment, const cafka_env *env, const struct log_config *config,
                   const struct iovec *pieces, int count, const struct segment_append *append,
                   cafka_error *err)
{
    struct time_index_entry before;
    int rc = segment_file(segment, env, err);
    if (!rc)
        rc = segment_largest(segment, env, &before, err);
    if (rc)
        return rc;
    rc = log_write_at(env, segment->file->handle, pieces, count, segment->size, err);
    if (!rc) {
        take_timestamp(segment, append->max_timestamp, append->max_timestamp_offset);
        if (segment->bytes_since_entry > config->index_interval_bytes)
            rc = add_entries(segment, env, append->last_offset, segment->size, err);
    }
    if (rc) {
        segment->largest = before;
        (void)env->file_truncate(env, segment->file->handle, segment->size); /* best effort */
        return rc;
    }
    if (!segment->size) {
        segment->first_timestamp = append->max_timestamp;
        segment->first_known = true;
    }
    segment->bytes_since_entry += (int64_t)append->size;
    segment->size += (int64_t)append->size;
    segment->dirty = true;
    return CAFKA_OK;
}

static int load_first_timestamp(struct segment *segment, const cafka_env *env)
{
    if (segment->first_known || !segment->size)
        return CAFKA_OK;
    struct batch_place place;
    int rc = segment_header_at(segment, env, 0, &place, NULL);
    if (rc)
        return rc;
    segment->first_timestamp = place.header.max_timestamp;
    segment->first_known = true;
    return CAFKA_OK;
}

/* How old the segment is in the eyes of segment.ms: by its records' time if they have one. */
static int64_t waited_ms(struct segment *segment, const cafka_env *env, int64_t max_timestamp,
                         int64_t now_ms)
{
    (void)load_first_timestamp(segment, env); /* unreadable: its age is what the clock says */
    if (segment->first_known && segment->first_timestamp >= 0)
        return max_timestamp - segment->first_timestamp;
    return now_ms - segment->created_ms;
}

bool segment_should_roll(struct segment *segment, const cafka_env *env,
                         const struct log_config *config, size_t size, int64_t max_timestamp,
                         int64_t last_offset, int64_t now_ms)
{
    return segment->size > (int64_t)config->segment_bytes - (int64_t)size ||
           (segment->size > 0 && waited_ms(segment, env, max_timestamp, now_ms) >
                                     config->segment_ms - segment->jitter_ms) ||
           index_is_full(&segment->offsets) || index_is_full(&segment->times) ||
           last_offset - segment->base_offset > INT32_MAX;
}

int segment_finish(struct segment *segment, const cafka_env *env, bool sync, cafka_error *err)
{
    int rc = CAFKA_OK;
    if (segment->times.active) { /* else nothing came since it was cut to its size */
        struct time_index_entry largest;
        rc = segment_largest(segment, env, &largest, err);
        if (!rc && largest.timestamp > index_last_time(&segment->times).timestamp) {
            rc = with_index(segment, env, &segment->times, index_prepare, err);
            if (!rc)
                index_add_time(&segment->times, largest.timestamp, largest.offset);
        }
    }
    struct log_index *indexes[] = {&segment->offsets, &segment->times};
    for (int i = 0; !rc && i < 2; i++) {
        if (!indexes[i]->active)
            continue;
        char path[LOG_PATH_SIZE];
        log_path(segment->directory, segment->base_offset, suffixes[1 + i], path);
        rc = index_trim(indexes[i], env, path, sync, err);
    }
    return rc;
}

int segment_sync(struct segment *segment, const cafka_env *env, cafka_error *err)
{
    if (!segment->dirty)
        return CAFKA_OK;
    int rc = segment_file(segment, env, err);
    if (rc)
        return rc;
    rc = env->file_sync(env, segment->file->handle);
    if (rc < 0)
        return log_io_error(err, rc, "syncing a segment of", segment->directory);
    rc = with_index(segment, env, &segment->offsets, index_sync, err);
    if (!rc)
        rc = with_index(segment, env, &segment->times, index_sync, err);
    if (rc)
        return rc;
    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset, ".txnindex", path);
    rc = txn_index_sync(&segment->txns, env, path, err);
    if (!rc)
        segment->dirty = false;
    return rc;
}

/* --- finding --- */

enum { LENGTH_MIN = 14 }; /* of a message of the first format; Kafka's readers ask for no more */

/* Headers are read a page at a time, since small batches lie side by side. */
struct header_window {
    uint8_t bytes[4096];
    int64_t position;
    size_t size;
    bool torn; /* the batch that was looked at last reaches beyond the segment's end */
};

static void window_init(struct header_window *window)
{
    window->position = 0;
    window->size = 0;
    window->torn = false;
}

static int window_header(struct segment *segment, const cafka_env *env, struct header_window *window,
                         int64_t position, struct batch_place *out, cafka_error *err)
{
    if (position >= segment->size)
        return CAFKA_END;
    int64_t within = position - window->position;
    if (within < 0 || within + RECORD_BATCH_OVERHEAD > (int64_t)window->size) {
        int rc = segment_file(segment, env, err);
        if (!rc)
            rc = log_read_at(env, segment->file->handle, window->bytes, sizeof window->bytes,
                             position, &window->size, err);
        if (rc)
            return rc;
        window->position = position;
        within = 0;
    }
    struct bytes left = bytes_of(window->bytes + within, window->size - (size_t)within);
    int rc = batch_header_read(left, &out->header, err);
    if (rc)
        return rc;
    out->position = position;
    bool possible = out->header.length >= LENGTH_MIN;
    window->torn = possible && batch_place_next(out) > segment->size;
    if (!possible || window->torn)
        return error_set(err, CAFKA_ERR_CORRUPT,
                         "the batch at %" PRId64 " of segment %" PRId64 " in %s is %s", position,
                         segment->base_offset, segment->directory,
                         possible ? "torn" : "shorter than any can be");
    return CAFKA_OK;
}

int segment_header_at(struct segment *segment, const cafka_env *env, int64_t position,
                      struct batch_place *out, cafka_error *err)
{
    struct header_window window;
    window_init(&window);
    return window_header(segment, env, &window, position, out, err);
}

int segment_find(struct segment *segment, const cafka_env *env, int64_t offset,
                 struct batch_place *out, cafka_error *err)
{
    int rc = with_index(segment, env, &segment->offsets, index_load, err);
    if (rc)
        return rc;
    int64_t position = 0;
    ptrdiff_t at = -1;
    if (segment->offsets.count)
        at = offset_index_find(segment->offsets.map, segment->offsets.count, segment->base_offset,
                               offset);
    if (at >= 0)
        position = offset_index_get(segment->offsets.map, (size_t)at, segment->base_offset).position;

    struct header_window window;
    window_init(&window);
    struct batch_place place;
    cafka_error reason = {0};
    while (!(rc = window_header(segment, env, &window, position, &place, &reason))) {
        if (batch_last_offset(&place.header) >= offset) {
            *out = place;
            return CAFKA_OK;
        }
        position = batch_place_next(&place);
    }
    if (rc == CAFKA_END || window.torn) /* Kafka's readers take a torn batch for the end */
        return CAFKA_END;
    return error_set(err, rc, "%s", reason.message);
}

int segment_read_batch(struct segment *segment, const cafka_env *env,
                       const struct batch_place *place, struct buffer *out, cafka_error *err)
{
    size_t size = batch_size(&place->header), got;
    buffer_clear(out);
    if (!buffer_extend(out, size))
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a batch of %zu bytes", size);
    int rc = segment_file(segment, env, err);
    if (!rc)
        rc = log_read_at(env, segment->file->handle, out->data, size, place->position, &got, err);
    if (!rc && got < size)
        rc = error_set(err, CAFKA_ERR_CORRUPT, "a segment of %s ends within a batch",
                       segment->directory);
    return rc;
}

int segment_walk_headers(struct segment *segment, const cafka_env *env, int64_t position,
                         segment_header_fn *each, void *user, cafka_error *err)
{
    struct header_window window;
    window_init(&window);
    struct batch_place place;
    int rc;
    while (!(rc = window_header(segment, env, &window, position, &place, err))) {
        each(user, &place.header);
        position = batch_place_next(&place);
    }
    return rc == CAFKA_END ? CAFKA_OK : rc;
}

static void take_next_offset(void *user, const struct batch_header *header)
{
    int64_t *next = user;
    *next = batch_last_offset(header) + 1;
}

int segment_next_offset(struct segment *segment, const cafka_env *env, int64_t *out,
                        cafka_error *err)
{
    int rc = with_index(segment, env, &segment->offsets, index_load, err);
    if (rc)
        return rc;
    int64_t next = segment->base_offset;
    rc = segment_walk_headers(segment, env, index_last_offset(&segment->offsets).position,
                              take_next_offset, &next, err);
    if (rc)
        return rc;
    *out = next;
    return CAFKA_OK;
}

/* --- timestamps --- */

int segment_largest(struct segment *segment, const cafka_env *env, struct time_index_entry *out,
                    cafka_error *err)
{
    if (!segment->largest_known) {
        int rc = with_index(segment, env, &segment->times, index_load, err);
        if (rc)
            return rc;
        segment->largest = index_last_time(&segment->times);
        segment->largest_known = true;
    }
    *out = segment->largest;
    return CAFKA_OK;
}

int segment_largest_or_mtime(struct segment *segment, const cafka_env *env, int64_t *out,
                             cafka_error *err)
{
    struct time_index_entry largest;
    int rc = segment_largest(segment, env, &largest, err);
    if (rc)
        return rc;
    *out = largest.timestamp;
    if (largest.timestamp >= 0)
        return CAFKA_OK;
    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset, ".log", path);
    cafka_file_info info;
    rc = env->path_info(env, path, &info);
    if (rc < 0)
        return log_io_error(err, rc, "looking at", path);
    *out = info.mtime_ms;
    return CAFKA_OK;
}

/* --- walking and recovery --- */

int segment_scan(struct segment *segment, const cafka_env *env, int64_t position,
                 struct buffer *scratch, segment_batch_fn *each, void *user, int64_t *valid,
                 cafka_error *err)
{
    struct batch_place place;
    int64_t last_offset = segment->base_offset - 1;
    int rc;
    for (*valid = position;; *valid = batch_place_next(&place)) {
        cafka_error damage = {0};
        rc = segment_header_at(segment, env, *valid, &place, &damage);
        if (!rc)
            rc = segment_read_batch(segment, env, &place, scratch, &damage);
        if (!rc)
            rc = batch_check(bytes_of(scratch->data, scratch->size), &damage);
        if (rc == CAFKA_ERR_CORRUPT || rc == CAFKA_END)
            return CAFKA_OK;
        if (rc)
            return error_set(err, rc, "%s", damage.message);
        int64_t last = batch_last_offset(&place.header);
        if (last <= last_offset || last - segment->base_offset > INT32_MAX)
            return CAFKA_OK;
        last_offset = last;
        rc = each(user, bytes_of(scratch->data, scratch->size), &place.header, err);
        if (rc == CAFKA_ERR_CORRUPT || rc == CAFKA_ERR_PROTOCOL) { /* a marker that is none */
            error_clear(err);
            return CAFKA_OK;
        }
        if (rc)
            return rc;
    }
}

struct recovery {
    struct segment *segment;
    const cafka_env *env;
    const struct log_config *config;
    segment_batch_fn *each;
    void *user;
    int64_t position;
    int64_t next_offset;
};

static int recover_batch(void *user, struct bytes batch, const struct batch_header *header,
                         cafka_error *err)
{
    struct recovery *r = user;
    struct segment *segment = r->segment;
    int64_t last_offset = batch_last_offset(header);
    int rc = r->each(r->user, batch, header, err);
    if (rc)
        return rc;
    take_timestamp(segment, header->max_timestamp, last_offset);
    if (segment->bytes_since_entry > r->config->index_interval_bytes) {
        /* a segment that was written with larger indexes than are allowed now still fits */
        if (segment->offsets.count + 2 > segment->offsets.capacity)
            segment->offsets.capacity = 2 * segment->offsets.count + 2;
        if (segment->times.count + 3 > segment->times.capacity)
            segment->times.capacity = 2 * segment->times.count + 3;
        rc = add_entries(segment, r->env, last_offset, r->position, err);
    }
    segment->bytes_since_entry += (int64_t)batch.size;
    r->position += (int64_t)batch.size;
    r->next_offset = last_offset + 1;
    return rc;
}

static int reset_indexes(struct segment *segment, const cafka_env *env,
                         const struct log_config *config, cafka_error *err)
{
    int rc = with_index(segment, env, &segment->offsets, index_reset, err);
    if (!rc)
        rc = with_index(segment, env, &segment->times, index_reset, err);
    if (rc)
        return rc;
    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset, ".txnindex", path);
    txn_index_fini(&segment->txns);
    segment->txns.loaded = true;
    rc = log_remove(env, path, err);
    if (!rc)
        rc = segment_activate(segment, env, config, err);
    segment->largest = (struct time_index_entry){-1, segment->base_offset};
    segment->largest_known = true;
    segment->first_known = false;
    segment->bytes_since_entry = 0;
    return rc;
}

int segment_recover(struct segment *segment, const cafka_env *env, const struct log_config *config,
                    struct buffer *scratch, segment_batch_fn *each, void *user, int64_t *cut,
                    int64_t *next_offset, cafka_error *err)
{
    int rc = reset_indexes(segment, env, config, err);
    if (rc)
        return rc;
    struct recovery r = {segment, env, config, each, user, 0, segment->base_offset};
    int64_t valid;
    rc = segment_scan(segment, env, 0, scratch, recover_batch, &r, &valid, err);
    if (rc)
        return rc;
    *cut = segment->size - valid;
    *next_offset = r.next_offset;
    if (*cut) {
        rc = env->file_truncate(env, segment->file->handle, valid);
        if (rc < 0)
            return log_io_error(err, rc, "cutting a segment of", segment->directory);
        segment->size = valid;
    }
    segment->dirty = true;
    return segment_finish(segment, env, false, err);
}

int segment_prepare_aborted(struct segment *segment, const cafka_env *env, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset, ".txnindex", path);
    return txn_index_prepare(&segment->txns, env, path, err);
}

int segment_note_aborted(struct segment *segment, const cafka_env *env, const struct txn_span *span,
                         int64_t stable_offset, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset, ".txnindex", path);
    struct txn_index_entry entry = {
        .producer_id = span->producer_id,
        .first_offset = span->first_offset,
        .last_offset = span->last_offset,
        .last_stable_offset = stable_offset,
    };
    int rc = txn_index_prepare(&segment->txns, env, path, err);
    return rc ? rc : txn_index_add(&segment->txns, env, path, &entry, err);
}

/* --- truncation and removal --- */

static void take_header_time(void *user, const struct batch_header *header)
{
    take_timestamp(user, header->max_timestamp, batch_last_offset(header));
}

/* The largest timestamp when the indexes were cut: theirs, or of a batch behind their last entry. */
static int find_largest(struct segment *segment, const cafka_env *env, cafka_error *err)
{
    segment->largest = index_last_time(&segment->times);
    segment->largest_known = true;
    int64_t position = 0;
    if (segment->offsets.count) {
        ptrdiff_t at = offset_index_find(segment->offsets.map, segment->offsets.count,
                                         segment->base_offset, segment->largest.offset);
        if (at >= 0)
            position =
                offset_index_get(segment->offsets.map, (size_t)at, segment->base_offset).position;
    }
    return segment_walk_headers(segment, env, position, take_header_time, segment, err);
}

int segment_truncate(struct segment *segment, const cafka_env *env, const struct log_config *config,
                     int64_t offset, cafka_error *err)
{
    struct batch_place place;
    int rc = segment_load_indexes(segment, env, err);
    if (!rc)
        rc = segment_find(segment, env, offset, &place, err);
    bool shorter = !rc;
    if (rc && rc != CAFKA_END)
        return rc;

    size_t kept = segment->offsets.count;
    while (kept &&
           offset_index_get(segment->offsets.map, kept - 1, segment->base_offset).offset >= offset)
        kept--;
    index_cut(&segment->offsets, kept);
    kept = segment->times.count;
    while (kept &&
           time_index_get(segment->times.map, kept - 1, segment->base_offset).offset >= offset)
        kept--;
    index_cut(&segment->times, kept);

    char path[LOG_PATH_SIZE];
    log_path(segment->directory, segment->base_offset, ".txnindex", path);
    rc = txn_index_truncate(&segment->txns, env, path, offset, err);
    if (!rc && shorter) {
        rc = env->file_truncate(env, segment->file->handle, place.position);
        if (rc < 0)
            return log_io_error(err, rc, "cutting a segment of", segment->directory);
        segment->size = place.position;
        segment->dirty = true;
    }
    if (rc)
        return rc;
    if (!segment->size) {
        segment->created_ms = env_wall_ms(env);
        segment->first_known = false;
    }
    segment->bytes_since_entry = 0;
    rc = find_largest(segment, env, err);
    return rc ? rc : segment_activate(segment, env, config, err);
}

int segment_rename_away(struct segment *segment, const cafka_env *env, const char *suffix,
                        cafka_error *err)
{
    for (int i = 0; i < SUFFIX_COUNT; i++) {
        char from[LOG_PATH_SIZE], to[LOG_PATH_SIZE], both[64];
        snprintf(both, sizeof both, "%s%s", suffixes[i], suffix);
        log_path(segment->directory, segment->base_offset, suffixes[i], from);
        log_path(segment->directory, segment->base_offset, both, to);
        int rc = env->path_rename(env, from, to);
        if (rc < 0 && rc != -ENOENT)
            return log_io_error(err, rc, "renaming", from);
    }
    return CAFKA_OK;
}

int segment_remove_files(const cafka_env *env, const char *directory, int64_t base_offset,
                         const char *suffix, cafka_error *err)
{
    for (int i = 0; i < SUFFIX_COUNT; i++) {
        char path[LOG_PATH_SIZE], both[64];
        snprintf(both, sizeof both, "%s%s", suffixes[i], suffix);
        log_path(directory, base_offset, both, path);
        int rc = log_remove(env, path, err);
        if (rc)
            return rc;
    }
    return CAFKA_OK;
}
