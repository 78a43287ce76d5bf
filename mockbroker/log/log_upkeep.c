/*
 * log_upkeep.c - what makes a log shorter or safer: truncation, retention, snapshots, flushing, the
 * end.
 */
#include <inttypes.h>

#include "mockbroker/log/commit_log_private.h"
#include "protocol/errors.h"
#include "util/alloc.h"

/* --- producer snapshots --- */

int commit_log_note_snapshot(struct commit_log *log, int64_t offset, cafka_error *err)
{
    size_t at = log->snapshot_count;
    while (at && log->snapshots[at - 1] > offset)
        at--;
    if (at && log->snapshots[at - 1] == offset)
        return CAFKA_OK;
    if (log->snapshot_count == log->snapshot_capacity) {
        size_t capacity = log->snapshot_capacity ? 2 * log->snapshot_capacity : 4;
        int64_t *snapshots = mem_recalloc(log->snapshots, capacity, sizeof *snapshots);
        if (!snapshots)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu snapshots", capacity);
        log->snapshots = snapshots;
        log->snapshot_capacity = capacity;
    }
    memmove(log->snapshots + at + 1, log->snapshots + at,
            (log->snapshot_count - at) * sizeof *log->snapshots);
    log->snapshots[at] = offset;
    log->snapshot_count++;
    return CAFKA_OK;
}

int commit_log_take_snapshot(struct commit_log *log, bool sync, cafka_error *err)
{
    int64_t newest =
        log->snapshot_count ? log->snapshots[log->snapshot_count - 1] : log->start_offset;
    int64_t offset = log->producers.end_offset;
    if (offset <= newest)
        return CAFKA_OK;
    char path[LOG_PATH_SIZE];
    log_path(log->directory, offset, ".snapshot", path);
    int rc = commit_log_note_snapshot(log, offset, err);
    if (!rc)
        rc = producer_state_save(&log->producers, log->env, path, sync, err);
    return rc;
}

void commit_log_drop_snapshots(struct commit_log *log, int64_t from, int64_t below)
{
    size_t kept = 0;
    for (size_t i = 0; i < log->snapshot_count; i++) {
        int64_t offset = log->snapshots[i];
        if (offset < from || offset >= below) {
            log->snapshots[kept++] = offset;
            continue;
        }
        char path[LOG_PATH_SIZE];
        log_path(log->directory, offset, ".snapshot", path);
        (void)log_remove(log->env, path, NULL); /* one that stays is dropped at the next start */
    }
    log->snapshot_count = kept;
}

/* --- truncation --- */

static int remove_segment(struct commit_log *log, size_t i, cafka_error *err)
{
    struct segment *segment = log->segments[i];
    int64_t base = segment->base_offset;
    segment_free(segment, log->env);
    log->segment_count--;
    memmove(log->segments + i, log->segments + i + 1,
            (log->segment_count - i) * sizeof *log->segments);
    return segment_remove_files(log->env, log->directory, base, "", err);
}

int commit_log_truncate_fully(struct commit_log *log, int64_t offset, cafka_error *err)
{
    commit_log_drop_snapshots(log, 0, INT64_MAX);
    int rc = CAFKA_OK;
    while (!rc && log->segment_count)
        rc = remove_segment(log, log->segment_count - 1, err);
    if (!rc)
        rc = commit_log_add_segment(log, offset, err);
    if (!rc)
        rc = commit_log_activate(log, err);
    if (rc) {
        log->failed = true; /* there may be no active segment */
        return commit_log_answer(log, rc, err);
    }
    producer_state_clear(&log->producers, offset);
    leader_epochs_clear(&log->epochs);
    log->start_offset = log->end_offset = log->high_watermark = log->recovery_point = offset;
    return commit_log_answer(log, commit_log_save_epochs(log, err), err);
}

int commit_log_truncate(struct commit_log *log, int64_t offset, cafka_error *err)
{
    if (offset >= log->end_offset)
        return CAFKA_OK;
    if (offset < log->segments[0]->base_offset)
        return commit_log_truncate_fully(log, offset, err);
    commit_log_drop_snapshots(log, offset + 1, INT64_MAX);
    int rc = CAFKA_OK;
    while (!rc && log->segment_count > 1 && active_segment(log)->base_offset > offset)
        rc = remove_segment(log, log->segment_count - 1, err);
    if (!rc)
        rc = segment_truncate(active_segment(log), log->env, &log->config, offset, err);
    if (!rc) {
        log->end_offset = offset;
        if (log->high_watermark > offset)
            log->high_watermark = offset;
        if (log->recovery_point > offset)
            log->recovery_point = offset;
        if (log->start_offset > offset)
            log->start_offset = offset;
        leader_epochs_truncate_end(&log->epochs, offset);
        rc = commit_log_save_epochs(log, err);
    }
    if (!rc)
        rc = commit_log_rebuild_producers(log, offset, err);
    if (rc)
        log->failed = true; /* memory and files may differ: a restart makes them agree */
    return commit_log_answer(log, rc, err);
}

/* --- log start and retention --- */

static int move_start(struct commit_log *log, int64_t offset, cafka_error *err)
{
    if (offset <= log->start_offset)
        return CAFKA_OK;
    log->start_offset = offset;
    leader_epochs_truncate_start(&log->epochs, offset);
    producer_state_replicated(&log->producers, offset);
    if (log->high_watermark < offset)
        log->high_watermark = offset;
    return commit_log_save_epochs(log, err);
}

int commit_log_advance_start(struct commit_log *log, int64_t offset, cafka_error *err)
{
    if (offset > log->high_watermark)
        return error_set(err, ERR_OFFSET_OUT_OF_RANGE,
                         "offset %" PRId64 " is above the high watermark %" PRId64 " of %s-%d",
                         offset, log->high_watermark, log->topic, log->partition);
    return commit_log_answer(log, move_start(log, offset, err), err);
}

/* One reason to delete a segment; `next` is the base of the one behind it, or -1. */
typedef bool retention_fn(struct commit_log *log, struct segment *segment, int64_t next,
                          int64_t *excess);

static bool is_below_start(struct commit_log *log, struct segment *segment, int64_t next,
                           int64_t *excess)
{
    (void)segment, (void)excess;
    return next >= 0 && next <= log->start_offset;
}

static bool is_beyond_size(struct commit_log *log, struct segment *segment, int64_t next,
                           int64_t *excess)
{
    (void)next;
    if (!log->config.cleanup_delete || log->config.retention_bytes < 0 ||
        *excess - segment->size < 0)
        return false;
    *excess -= segment->size;
    return true;
}

static bool is_too_old(struct commit_log *log, struct segment *segment, int64_t next,
                       int64_t *excess)
{
    (void)next, (void)excess;
    int64_t largest;
    return log->config.cleanup_delete && log->config.retention_ms >= 0 &&
           !segment_largest_or_mtime(segment, log->env, &largest, NULL) &&
           env_wall_ms(log->env) - largest > log->config.retention_ms;
}

static size_t count_deletable(struct commit_log *log, retention_fn *wants)
{
    int64_t excess = commit_log_size(log) - log->config.retention_bytes;
    size_t count = 0;
    for (; count < log->segment_count; count++) {
        bool last = count + 1 == log->segment_count;
        int64_t next = last ? -1 : log->segments[count + 1]->base_offset;
        if (log->high_watermark < (last ? log->end_offset : next) ||
            (last && !log->segments[count]->size) ||
            !wants(log, log->segments[count], next, &excess))
            break;
    }
    return count;
}

/* Its files get .deleted behind their names and wait, since somebody may be reading them. */
static int delete_first_segment(struct commit_log *log, cafka_error *err)
{
    struct segment *segment = log->segments[0];
    struct doomed_segment *doomed = mem_zalloc(sizeof *doomed);
    if (!doomed)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to delete a segment");
    doomed->base_offset = segment->base_offset;
    doomed->due_ms = env_now_ms(log->env) + log->config.file_delete_delay_ms;
    int rc = segment_rename_away(segment, log->env, ".deleted", err);
    if (rc) {
        mem_free(doomed);
        return rc;
    }
    list_push_back(&log->doomed, &doomed->link);
    segment_free(segment, log->env);
    log->segment_count--;
    memmove(log->segments, log->segments + 1, log->segment_count * sizeof *log->segments);
    return CAFKA_OK;
}

static int delete_old(struct commit_log *log, retention_fn *wants, size_t *deleted, cafka_error *err)
{
    size_t count = count_deletable(log, wants);
    int rc = CAFKA_OK;
    if (count && count == log->segment_count)
        rc = commit_log_roll_at(log, log->end_offset, err);
    for (size_t i = 0; !rc && i < count; i++) {
        rc = move_start(log, log->segments[1]->base_offset, err);
        if (!rc)
            rc = delete_first_segment(log, err);
        if (!rc)
            ++*deleted;
    }
    if (count)
        commit_log_drop_snapshots(log, 0, log->segments[0]->base_offset);
    return rc;
}

int commit_log_apply_retention(struct commit_log *log, size_t *deleted, cafka_error *err)
{
    *deleted = 0;
    if (log->failed)
        return CAFKA_OK;
    int rc = delete_old(log, is_below_start, deleted, err);
    if (!rc)
        rc = delete_old(log, is_beyond_size, deleted, err);
    if (!rc)
        rc = delete_old(log, is_too_old, deleted, err);
    return commit_log_answer(log, rc, err);
}

/* --- flushing --- */

/* Sync the segments up to (not with) `below`, and the names of new ones. */
static int sync_segments(struct commit_log *log, size_t below, cafka_error *err)
{
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && i < below; i++)
        rc = segment_sync(log->segments[i], log->env, err);
    if (!rc && log->names_changed) {
        int synced = log->env->path_sync(log->env, log->directory);
        if (synced < 0)
            return log_io_error(err, synced, "syncing", log->directory);
        log->names_changed = false;
    }
    if (!rc)
        log->rolled = false;
    return rc;
}

int commit_log_flush(struct commit_log *log, cafka_error *err)
{
    int rc = sync_segments(log, log->segment_count, err);
    if (rc)
        return commit_log_answer(log, rc, err);
    log->recovery_point = log->end_offset;
    log->last_flush_ms = env_now_ms(log->env);
    return CAFKA_OK;
}

int commit_log_seal(struct commit_log *log, cafka_error *err)
{
    if (log->failed)
        return error_set(err, ERR_KAFKA_STORAGE_ERROR, "%s was closed after an error",
                         log->directory);
    int rc = segment_finish(active_segment(log), log->env, true, err);
    if (!rc)
        rc = sync_segments(log, log->segment_count, err);
    if (!rc)
        rc = commit_log_take_snapshot(log, true, err);
    if (!rc)
        rc = commit_log_save_epochs(log, err);
    if (!rc)
        rc = commit_log_activate(log, err);
    if (!rc)
        log->recovery_point = log->end_offset;
    return commit_log_answer(log, rc, err);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t remove_doomed(struct commit_log *log, int64_t now_ms)
{
    struct list *link, *after;
    list_each(link, after, &log->doomed)
    {
        struct doomed_segment *doomed = list_item(link, struct doomed_segment, link);
        if (doomed->due_ms > now_ms)
            return doomed->due_ms;
        (void)segment_remove_files(log->env, log->directory, doomed->base_offset, ".deleted", NULL);
        list_remove(link); /* what could not be removed goes at the next start */
        mem_free(doomed);
    }
    return INT64_MAX;
}

static int64_t expire_producers(struct commit_log *log, int64_t now_ms)
{
    if (!log->producers.entries.count)
        return INT64_MAX;
    int64_t interval = log->shared->producer_id_expiration_check_interval_ms;
    if (now_ms >= log->next_expiry_ms) {
        producer_state_expire(&log->producers, env_wall_ms(log->env),
                              log->shared->producer_id_expiration_ms);
        log->next_expiry_ms = now_ms + interval;
    }
    return log->next_expiry_ms;
}

static int64_t flush_by_time(struct commit_log *log, int64_t now_ms)
{
    if (log->config.flush_ms == INT64_MAX)
        return INT64_MAX;
    int64_t due = log->last_flush_ms + log->config.flush_ms;
    if (now_ms < due)
        return due;
    if (log->recovery_point < log->end_offset)
        (void)commit_log_flush(log, NULL); /* a failure closes the log, which is logged */
    log->last_flush_ms = now_ms;
    return now_ms + log->config.flush_ms;
}

/* Segments that were rolled since the last time: sync them, and close their files until they are read. */
static void settle_rolled(struct commit_log *log)
{
    int rc = sync_segments(log, log->segment_count - 1, NULL);
    if (commit_log_answer(log, rc, NULL))
        return;
    if (log->recovery_point < active_segment(log)->base_offset)
        log->recovery_point = active_segment(log)->base_offset;
    for (size_t i = 0; i + 1 < log->segment_count; i++)
        segment_rest(log->segments[i], log->env);
}

int64_t commit_log_tick(struct commit_log *log, int64_t now_ms)
{
    if (log->rolled && !log->failed)
        settle_rolled(log);
    int64_t next = log->failed ? INT64_MAX : flush_by_time(log, now_ms);
    next = earlier(next, remove_doomed(log, now_ms));
    return earlier(next, expire_producers(log, now_ms));
}

/* --- the end --- */

void commit_log_free(struct commit_log *log)
{
    if (!log)
        return;
    struct list *link;
    while ((link = list_pop_front(&log->doomed)))
        mem_free(list_item(link, struct doomed_segment, link));
    for (size_t i = 0; i < log->segment_count; i++)
        segment_free(log->segments[i], log->env);
    mem_free(log->segments);
    mem_free(log->snapshots);
    leader_epochs_fini(&log->epochs);
    producer_state_fini(&log->producers);
    mem_free(log->topic);
    mem_free(log->directory);
    mem_free(log);
}
