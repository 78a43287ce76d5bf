/*
 * log_recover.c - opening a log: what its directory holds, put in order.
 *
 *     names     leftovers of broken off work are finished or removed (.deleted .cleaned .swap .tmp)
 *     segments  one for each .log; an index that cannot be right is made anew from the batches
 *     recovery  after an unclean end: all segments from the recovery point on are read, the log is
 *               cut at the first batch that is not intact, later segments go
 *     state     leader epochs and producers are brought to the end that was found
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "mockbroker/log/commit_log_private.h"
#include "protocol/errors.h"
#include "util/alloc.h"

/* --- names in the directory --- */

struct names {
    char **items;
    size_t count, capacity;
    bool failed;
};

static int add_name(void *user, const char *name)
{
    struct names *names = user;
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? 2 * names->capacity : 16;
        char **items = mem_recalloc(names->items, capacity, sizeof *items);
        if (!items) {
            names->failed = true;
            return 1;
        }
        names->items = items;
        names->capacity = capacity;
    }
    char *copy = mem_strdup(name);
    names->failed = !copy;
    if (copy)
        names->items[names->count++] = copy;
    return names->failed;
}

static void names_fini(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        mem_free(names->items[i]);
    mem_free(names->items);
    *names = (struct names){0};
}

static int list_names(const struct commit_log *log, struct names *names, cafka_error *err)
{
    int rc = log->env->path_list(log->env, log->directory, add_name, names);
    if (names->failed)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the names in %s", log->directory);
    return rc < 0 ? log_io_error(err, rc, "listing", log->directory) : CAFKA_OK;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && !strcmp(name + length - tail, suffix);
}

/* "00000000000000000042.log" and ".log": 42. -1 if the name is not of this kind. */
static int64_t base_of(const char *name, const char *suffix)
{
    enum { DIGITS = 20 };
    if (strlen(name) <= DIGITS || strcmp(name + DIGITS, suffix))
        return -1;
    return log_file_base_offset(str_of(name));
}

static int remove_name(const struct commit_log *log, const char *name, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_join(log->directory, name, path);
    return log_remove(log->env, path, err);
}

/* --- leftovers --- */

/* A compaction that was broken off in its last step: the .swap files are whole, and take over. */
static int finish_swap(struct commit_log *log, const struct names *names, int64_t base,
                       cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_path(log->directory, base, ".log.swap", path);
    struct segment swapped = {.directory = log->directory, .base_offset = base};
    index_init(&swapped.offsets, INDEX_OFFSET, base);
    swapped.offsets.loaded = true; /* without entries: the walk begins at the front */
    int rc = log_file_open(&swapped.file, log->env, path, CAFKA_FILE_READ, err);
    int64_t next = base;
    if (!rc) {
        swapped.size = log->env->file_size(log->env, swapped.file->handle);
        rc = segment_next_offset(&swapped, log->env, &next, err);
        log_file_unref(swapped.file);
    }
    for (size_t i = 0; !rc && i < names->count; i++) {
        int64_t old = base_of(names->items[i], ".log");
        if (old >= base && old < next)
            rc = segment_remove_files(log->env, log->directory, old, "", err);
    }
    static const char *const kinds[] = {".index", ".timeindex", ".txnindex", ".log"};
    for (size_t i = 0; !rc && i < sizeof kinds / sizeof *kinds; i++) {
        char from[LOG_PATH_SIZE], suffix[32];
        snprintf(suffix, sizeof suffix, "%s.swap", kinds[i]);
        log_path(log->directory, base, suffix, from);
        log_path(log->directory, base, kinds[i], path);
        int moved = log->env->path_rename(log->env, from, path);
        if (moved < 0 && moved != -ENOENT)
            rc = log_io_error(err, moved, "renaming", from);
    }
    return rc;
}

static int clear_leftovers(struct commit_log *log, cafka_error *err)
{
    struct names names = {0};
    int rc = list_names(log, &names, err);
    int64_t first_cleaned = INT64_MAX;
    for (size_t i = 0; i < names.count; i++) {
        int64_t base = log_file_base_offset(str_of(names.items[i]));
        if (ends_with(names.items[i], ".cleaned") && base >= 0 && base < first_cleaned)
            first_cleaned = base;
    }
    bool changed = false;
    for (size_t i = 0; !rc && i < names.count; i++) {
        const char *name = names.items[i];
        int64_t base = log_file_base_offset(str_of(name));
        bool stale = ends_with(name, ".deleted") || ends_with(name, ".cleaned") ||
                     ends_with(name, ".tmp") || (ends_with(name, ".swap") && base >= first_cleaned);
        if (stale)
            rc = remove_name(log, name, err);
        else if (base_of(name, ".log.swap") >= 0)
            rc = finish_swap(log, &names, base, err);
        changed |= stale || ends_with(name, ".swap");
    }
    for (size_t i = 0; !rc && changed && i < names.count;
         i++) /* indexes of a .swap without its log */
        if (ends_with(names.items[i], ".swap"))
            rc = remove_name(log, names.items[i], err);
    names_fini(&names);
    return rc;
}

/* --- segments --- */

/* Names come in order, and zero-padded numbers sort as numbers do. */
static int open_segments(struct commit_log *log, cafka_error *err)
{
    struct names names = {0};
    int rc = list_names(log, &names, err);
    for (size_t i = 0; !rc && i < names.count; i++) {
        int64_t base = base_of(names.items[i], ".log");
        int64_t snapshot = base_of(names.items[i], ".snapshot");
        if (base >= 0)
            rc = commit_log_add_segment(log, base, err);
        else if (snapshot >= 0)
            rc = commit_log_note_snapshot(log, snapshot, err);
    }
    static const char *const kinds[] = {".index", ".timeindex", ".txnindex"};
    for (size_t i = 0; !rc && i < names.count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            int64_t base = base_of(names.items[i], kinds[k]);
            if (base < 0)
                continue;
            size_t at = log->segment_count ? commit_log_segment_of(log, base) : 0;
            if (!log->segment_count || log->segments[at]->base_offset != base)
                rc = remove_name(log, names.items[i], err);
        }
    names_fini(&names);
    if (log->segment_count && log->start_offset < log->segments[0]->base_offset)
        log->start_offset = log->segments[0]->base_offset;
    return rc;
}

static int indexes_are_sane(struct commit_log *log, struct segment *segment, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_path(log->directory, segment->base_offset, ".index", path);
    int rc = index_sanity(&segment->offsets, log->env, path, err);
    log_path(log->directory, segment->base_offset, ".timeindex", path);
    if (!rc)
        rc = index_sanity(&segment->times, log->env, path, err);
    log_path(log->directory, segment->base_offset, ".txnindex", path);
    if (!rc) {
        struct txn_index probe = {0};
        rc = txn_index_load(&probe, log->env, path, err);
        txn_index_fini(&probe);
    }
    return rc;
}

/* --- recovery of a segment --- */

struct replay {
    struct commit_log *log;
    struct segment *segment; /* gets the aborted transactions; NULL: the index has them */
    int64_t below;           /* batches from here on are not looked at */
};

static int replay_batch(void *user, struct bytes batch, const struct batch_header *header,
                        cafka_error *err)
{
    struct replay *replay = user;
    struct commit_log *log = replay->log;
    struct producer_update update;
    if (header->base_offset >= replay->below ||
        batch_last_offset(header) < log->producers.end_offset)
        return CAFKA_OK;
    int rc = producer_update_of(&update, batch, header, err);
    if (!rc)
        rc = producer_state_prepare(&log->producers, &update, err);
    if (rc)
        return rc;
    struct txn_span ended;
    int64_t stable;
    bool end = producer_state_update(&log->producers, &update, &ended, &stable);
    if (end && update.aborted && replay->segment)
        rc = segment_note_aborted(replay->segment, log->env, &ended, stable, err);
    return rc;
}

static int recover_batch(void *user, struct bytes batch, const struct batch_header *header,
                         cafka_error *err)
{
    struct replay *replay = user;
    int rc = replay_batch(user, batch, header, err);
    if (!rc && header->magic == BATCH_MAGIC &&
        header->leader_epoch > leader_epochs_latest(&replay->log->epochs))
        rc = leader_epochs_assign(&replay->log->epochs, header->leader_epoch, header->base_offset,
                                  err);
    return rc;
}

static int recover_segment(struct commit_log *log, size_t i, int64_t *cut, int64_t *next_offset,
                           cafka_error *err)
{
    struct segment *segment = log->segments[i];
    int rc = CAFKA_OK;
    if (log->producers.end_offset != segment->base_offset) {
        rc = commit_log_rebuild_producers(log, segment->base_offset, err);
        if (!rc)
            log->producers.end_offset = segment->base_offset;
    }
    if (!rc && segment->base_offset > log->start_offset)
        rc = commit_log_take_snapshot(log, false, err);
    if (rc)
        return rc;
    struct replay replay = {log, segment, INT64_MAX};
    rc = segment_recover(segment, log->env, &log->config, &log->shared->packed, recover_batch,
                         &replay, cut, next_offset, err);
    if (rc)
        return rc;
    if (*cut)
        log_warn(log->shared->words,
                 "%s: segment %" PRId64 " was cut by %" PRId64 " bytes; the log goes on at %" PRId64,
                 log->directory, segment->base_offset, *cut, *next_offset);
    return CAFKA_OK;
}

/* Segments from `first` on are no part of the log any more. */
static int drop_segments(struct commit_log *log, size_t first, cafka_error *err)
{
    while (log->segment_count > first) {
        struct segment *segment = active_segment(log);
        int64_t base = segment->base_offset;
        segment_free(segment, log->env);
        log->segment_count--;
        int rc = segment_remove_files(log->env, log->directory, base, "", err);
        if (rc)
            return rc;
    }
    return CAFKA_OK;
}

/*
 * A power loss may have taken the end of a segment and left the next one. Only compaction leaves
 * a gap there by right.
 */
static bool ends_early(const struct commit_log *log, size_t i, int64_t next_offset)
{
    return i + 1 < log->segment_count && !log->config.cleanup_compact &&
           next_offset < log->segments[i + 1]->base_offset;
}

static int recover_segments(struct commit_log *log, bool clean, int64_t recovery_point,
                            cafka_error *err)
{
    if (!log->segment_count)
        return CAFKA_OK;
    size_t suspect = log->segment_count;
    if (!clean)
        suspect = commit_log_segment_of(log, recovery_point);
    for (size_t i = 0; i < log->segment_count; i++) {
        cafka_error reason = {0};
        int rc = i < suspect ? indexes_are_sane(log, log->segments[i], &reason) : CAFKA_ERR_CORRUPT;
        if (!rc)
            continue;
        if (rc != CAFKA_ERR_CORRUPT)
            return error_set(err, rc, "%s", reason.message);
        if (i < suspect)
            log_warn(log->shared->words, "%s; it is made anew", reason.message);
        int64_t cut, next_offset;
        rc = recover_segment(log, i, &cut, &next_offset, err);
        if (!rc && (cut || (i >= suspect && ends_early(log, i, next_offset))))
            rc = drop_segments(log, i + 1, err);
        if (rc)
            return rc;
    }
    return CAFKA_OK;
}

/* --- producers --- */

static int add_snapshot_state(struct commit_log *log, int64_t offset, cafka_error *err)
{
    while (log->snapshot_count) {
        size_t i = log->snapshot_count;
        while (i && log->snapshots[i - 1] > offset)
            i--;
        if (!i || log->snapshots[i - 1] <= log->start_offset)
            return CAFKA_OK;
        int64_t snapshot = log->snapshots[i - 1];
        char path[LOG_PATH_SIZE];
        log_path(log->directory, snapshot, ".snapshot", path);
        cafka_error reason = {0};
        int rc =
            producer_state_load(&log->producers, log->env, path, snapshot, env_wall_ms(log->env),
                                log->shared->producer_id_expiration_ms, &reason);
        if (!rc)
            return CAFKA_OK;
        if (rc == CAFKA_ERR_MEMORY)
            return error_set(err, rc, "%s", reason.message);
        log_warn(log->shared->words, "%s: %s", path, reason.message);
        commit_log_drop_snapshots(log, snapshot, snapshot + 1);
        producer_state_clear(&log->producers, log->start_offset);
    }
    return CAFKA_OK;
}

int commit_log_rebuild_producers(struct commit_log *log, int64_t offset, cafka_error *err)
{
    producer_state_clear(&log->producers, log->start_offset);
    int rc = add_snapshot_state(log, offset, err);
    struct replay replay = {log, NULL, offset};
    for (size_t i = commit_log_segment_of(log, log->producers.end_offset);
         !rc && i < log->segment_count && log->segments[i]->base_offset < offset &&
         log->producers.end_offset < offset;
         i++) {
        int64_t valid, from = 0;
        struct batch_place place;
        if (log->producers.end_offset > log->segments[i]->base_offset) {
            rc = segment_find(log->segments[i], log->env, log->producers.end_offset, &place, NULL);
            from =
                rc ? 0 : place.position; /* no index yet: from the front, known ones are skipped */
        }
        rc = segment_scan(log->segments[i], log->env, from, &log->shared->packed, replay_batch,
                          &replay, &valid, err);
    }
    if (!rc)
        log->producers.end_offset = offset;
    return rc;
}

static void take_header(void *user, const struct batch_header *header)
{
    struct producer_state *recent = user;
    struct producer_update update = {
        .producer_id = header->producer_id,
        .epoch = header->producer_epoch,
        .base_sequence = header->base_sequence,
        .last_sequence = batch_last_sequence(header),
        .first_offset = header->base_offset,
        .last_offset = batch_last_offset(header),
        .timestamp = header->max_timestamp,
        .marker = batch_is_control(header),
    };
    struct txn_span ended;
    int64_t stable;
    if (!producer_state_prepare(recent, &update, NULL))
        (void)producer_state_update(recent, &update, &ended, &stable);
}

/* Behind damage nobody's last batches are known; that is no reason to refuse the log. */
static int take_headers(struct commit_log *log, struct segment *segment, int64_t from,
                        struct producer_state *recent, cafka_error *err)
{
    cafka_error reason = {0};
    int rc = segment_walk_headers(segment, log->env, from, take_header, recent, &reason);
    if (rc != CAFKA_ERR_CORRUPT)
        return rc ? error_set(err, rc, "%s", reason.message) : CAFKA_OK;
    log_warn(log->shared->words, "%s", reason.message);
    return CAFKA_OK;
}

/*
 * A snapshot keeps one batch a producer, but a producer may repeat any of its last five: those of
 * the log's end are looked at once more. As far back as a producer that was active can have them.
 */
static int add_history(struct commit_log *log, cafka_error *err)
{
    enum { LOOK_BACK = 1 << 20 };
    if (!log->producers.entries.count)
        return CAFKA_OK;
    struct producer_state recent = {0};
    int64_t budget = LOOK_BACK;
    size_t first = log->segment_count - 1;
    for (; first && log->segments[first]->size < budget; first--)
        budget -= log->segments[first]->size;
    int rc = CAFKA_OK;
    for (size_t i = first; !rc && i < log->segment_count; i++) {
        struct segment *segment = log->segments[i];
        int64_t from = 0;
        rc = segment_load_indexes(segment, log->env, err);
        for (size_t k = 0; !rc && i == first && k < segment->offsets.count; k++) {
            int64_t position =
                offset_index_get(segment->offsets.map, k, segment->base_offset).position;
            if (position <= segment->size - budget)
                from = position;
        }
        if (!rc)
            rc = take_headers(log, segment, from, &recent, err);
    }
    if (!rc)
        producer_state_add_history(&log->producers, &recent);
    producer_state_fini(&recent);
    return rc;
}

/* Snapshots that belong to no segment, but for the newest, and those outside the log. */
static void drop_stray_snapshots(struct commit_log *log)
{
    commit_log_drop_snapshots(log, log->end_offset + 1, INT64_MAX);
    commit_log_drop_snapshots(log, 0, log->start_offset + 1);
    for (size_t i = 0; i + 1 < log->snapshot_count;) {
        int64_t offset = log->snapshots[i];
        bool aligned = log->segments[commit_log_segment_of(log, offset)]->base_offset == offset;
        if (aligned)
            i++;
        else
            commit_log_drop_snapshots(log, offset, offset + 1);
    }
}

/* --- open --- */

/* The directory says which topic it is of; a new one is told. */
static int settle_topic_id(struct commit_log *log, cafka_error *err)
{
    enum { LIMIT = 4096 };
    char path[LOG_PATH_SIZE];
    log_join(log->directory, "partition.metadata", path);
    cafka_file_info info;
    struct uuid found = {{0}};
    if (log->env->path_info(log->env, path, &info) == 0) {
        char *text;
        size_t size;
        int rc = env_read_file(log->env, path, LIMIT, &text, &size, err);
        if (rc)
            return rc;
        cafka_error damage = {0};
        rc = partition_metadata_parse(bytes_of(text, size), &found, &damage);
        mem_free(text);
        if (rc) /* a crash while it was first written; whoever opens knows better */
            log_warn(log->shared->words, "%s: %s", path, damage.message);
    }
    if (uuid_is_zero(log->topic_id))
        log->topic_id = found;
    if (uuid_is_zero(found) && !uuid_is_zero(log->topic_id)) {
        struct buffer text = {0};
        partition_metadata_write(&text, log->topic_id);
        int rc = text.failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory for %s", path)
                             : env_replace_file(log->env, path, text.data, text.size, err);
        buffer_fini(&text);
        return rc;
    }
    if (!uuid_equal(found, log->topic_id))
        return error_set(err, ERR_INCONSISTENT_TOPIC_ID, "%s is of another topic of the same name",
                         log->directory);
    return CAFKA_OK;
}

/*
 * Where the last segment ends. After a clean end it is trusted; if its last batches can't be read
 * all the same, it is recovered as after a crash, or what is appended behind them never could be.
 */
static int find_segment_end(struct commit_log *log, cafka_error *err)
{
    cafka_error reason = {0};
    int rc = segment_next_offset(active_segment(log), log->env, &log->end_offset, &reason);
    if (rc != CAFKA_ERR_CORRUPT)
        return rc ? error_set(err, rc, "%s", reason.message) : CAFKA_OK;
    log_warn(log->shared->words, "%s, though the last run ended cleanly; it is recovered",
             reason.message);
    rc = recover_segments(log, false, active_segment(log)->base_offset, err);
    return rc ? rc : segment_next_offset(active_segment(log), log->env, &log->end_offset, err);
}

static int find_end(struct commit_log *log, const struct commit_log_options *options,
                    cafka_error *err)
{
    int rc = CAFKA_OK;
    log->end_offset = log->start_offset;
    if (log->segment_count) {
        rc = find_segment_end(log, err);
        if (rc)
            return rc;
        if (log->end_offset < log->start_offset) {
            log_warn(log->shared->words,
                     "%s ends below its log start offset and begins anew at %" PRId64,
                     log->directory, log->start_offset);
            rc = drop_segments(log, 0, err);
        }
    }
    if (!rc && !log->segment_count) {
        rc = commit_log_add_segment(log, log->start_offset, err);
        log->end_offset = log->start_offset;
    }
    log->recovery_point = options->clean ? log->end_offset : options->recovery_point;
    if (log->recovery_point > log->end_offset)
        log->recovery_point = log->end_offset;
    return rc;
}

static int settle_state(struct commit_log *log, const struct commit_log_options *options,
                        cafka_error *err)
{
    leader_epochs_truncate_end(&log->epochs, log->end_offset);
    leader_epochs_truncate_start(&log->epochs, log->start_offset);
    int rc = commit_log_save_epochs(log, err);
    drop_stray_snapshots(log);
    if (!rc && log->producers.end_offset != log->end_offset)
        rc = commit_log_rebuild_producers(log, log->end_offset, err);
    if (!rc)
        rc = add_history(log, err);
    for (size_t i = 0; i + 1 < log->segment_count; i++)
        segment_rest(log->segments[i], log->env);
    if (!rc)
        rc = commit_log_activate(log, err);
    if (rc)
        return rc;
    log->high_watermark = log->start_offset;
    (void)commit_log_set_high_watermark(log, options->high_watermark);
    producer_state_replicated(&log->producers, log->high_watermark);
    return CAFKA_OK;
}

static int load(struct commit_log *log, const struct commit_log_options *options, cafka_error *err)
{
    int rc = log_make_directory(log->env, log->directory, err);
    if (!rc)
        rc = settle_topic_id(log, err);
    if (!rc)
        rc = clear_leftovers(log, err);
    if (!rc)
        rc = open_segments(log, err);
    char path[LOG_PATH_SIZE];
    log_join(log->directory, "leader-epoch-checkpoint", path);
    if (!rc)
        rc = leader_epochs_load(&log->epochs, log->env, path, log->shared->words, err);
    producer_state_clear(&log->producers, -1); /* as of nowhere */
    if (!rc)
        rc = recover_segments(log, options->clean, options->recovery_point, err);
    log->names_changed = false; /* those that were found, were there */
    if (!rc)
        rc = find_end(log, options, err);
    return rc ? rc : settle_state(log, options, err);
}

int commit_log_open(struct commit_log **out, const struct commit_log_options *options,
                    cafka_error *err)
{
    if (strlen(options->directory) > LOG_DIRECTORY_MAX)
        return error_set(err, CAFKA_ERR_IO, "the path %s is too long", options->directory);
    struct commit_log *log = mem_zalloc(sizeof *log);
    if (!log)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a log");
    list_init(&log->doomed);
    log->shared = options->shared;
    log->env = options->shared->env;
    log->config = *options->config;
    log->directory = mem_strdup(options->directory);
    log->topic = mem_strdup(options->topic);
    log->partition = options->partition;
    log->topic_id = options->topic_id;
    log->start_offset = options->log_start_offset > 0 ? options->log_start_offset : 0;
    log->next_expiry_ms = INT64_MIN;
    log->last_flush_ms = env_now_ms(log->env);
    int rc = log->directory && log->topic ? load(log, options, err)
                                          : error_set(err, CAFKA_ERR_MEMORY, "no memory for a log");
    log_shared_relax(log->shared);
    if (rc) {
        commit_log_free(log);
        return rc;
    }
    *out = log;
    return CAFKA_OK;
}
