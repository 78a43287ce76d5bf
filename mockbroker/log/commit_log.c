/*
 * commit_log.c - where a log stands, and how it grows. See commit_log.h and commit_log_private.h.
 */
#include "mockbroker/log/commit_log.h"

#include <errno.h>
#include <inttypes.h>

#include "mockbroker/log/commit_log_private.h"
#include "mockbroker/log/validator.h"
#include "protocol/errors.h"
#include "util/alloc.h"

/* --- where it stands --- */

int64_t commit_log_start_offset(const struct commit_log *log)
{
    return log->start_offset;
}

int64_t commit_log_end_offset(const struct commit_log *log)
{
    return log->end_offset;
}

int64_t commit_log_high_watermark(const struct commit_log *log)
{
    return log->high_watermark;
}

int64_t commit_log_stable_offset(const struct commit_log *log)
{
    int64_t unstable = producer_state_first_unstable(&log->producers);
    if (unstable >= log->high_watermark)
        return log->high_watermark;
    return unstable < log->start_offset ? log->start_offset : unstable;
}

int64_t commit_log_recovery_point(const struct commit_log *log)
{
    return log->recovery_point;
}

int64_t commit_log_size(const struct commit_log *log)
{
    int64_t size = 0;
    for (size_t i = 0; i < log->segment_count; i++)
        size += log->segments[i]->size;
    return size;
}

int32_t commit_log_latest_epoch(const struct commit_log *log)
{
    return leader_epochs_latest(&log->epochs);
}

const char *commit_log_directory(const struct commit_log *log)
{
    return log->directory;
}

struct uuid commit_log_topic_id(const struct commit_log *log)
{
    return log->topic_id;
}

bool commit_log_set_high_watermark(struct commit_log *log, int64_t offset)
{
    if (offset > log->end_offset)
        offset = log->end_offset;
    if (offset <= log->high_watermark)
        return false;
    log->high_watermark = offset;
    producer_state_replicated(&log->producers, offset);
    return true;
}

void commit_log_set_config(struct commit_log *log, const struct log_config *config)
{
    log->config = *config;
}

const struct log_config *commit_log_config(const struct commit_log *log)
{
    return &log->config;
}

bool commit_log_producer_next(const struct commit_log *log, size_t *position,
                              struct producer_info *out)
{
    const struct map_entry *e = map_next(&log->producers.entries, position);
    if (!e)
        return false;
    const struct producer_entry *entry = e->value;
    *out = (struct producer_info){
        .producer_id = entry->id,
        .epoch = entry->epoch,
        .last_sequence =
            entry->batch_count ? entry->batches[entry->batch_count - 1].last_sequence : -1,
        .last_timestamp = entry->last_timestamp,
        .coordinator_epoch = entry->coordinator_epoch,
        .txn_start_offset = entry->txn_first_offset,
    };
    return true;
}

/* Keep the words, say it with another code. */
static int change_code(cafka_error *err, int code)
{
    if (err) {
        err->code = code;
        err->flags = error_flags(code);
    }
    return code;
}

int commit_log_answer(struct commit_log *log, int rc, cafka_error *err)
{
    if (rc == CAFKA_OK || rc >= -1) /* the protocol's own */
        return rc;
    if (rc == CAFKA_ERR_IO && !log->failed) {
        log->failed = true;
        log_error(log->shared->words, "%s is closed for writing: %s", log->directory,
                  err ? err->message : "a file could not be read or written");
    }
    return change_code(err, rc == CAFKA_ERR_IO ? ERR_KAFKA_STORAGE_ERROR : ERR_UNKNOWN_SERVER_ERROR);
}

/* --- segments --- */

size_t commit_log_segment_of(const struct commit_log *log, int64_t offset)
{
    size_t low = 0, high = log->segment_count; /* the last base that is not above: in [low, high) */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (log->segments[middle]->base_offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int commit_log_reserve_segment(struct commit_log *log, cafka_error *err)
{
    if (log->segment_count < log->segment_capacity)
        return CAFKA_OK;
    size_t capacity = log->segment_capacity ? 2 * log->segment_capacity : 2;
    struct segment **segments = mem_recalloc(log->segments, capacity, sizeof *segments);
    if (!segments)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu segments", capacity);
    log->segments = segments;
    log->segment_capacity = capacity;
    return CAFKA_OK;
}

int commit_log_add_segment(struct commit_log *log, int64_t base_offset, cafka_error *err)
{
    int rc = commit_log_reserve_segment(log, err);
    struct segment *segment;
    if (!rc)
        rc = segment_open(&segment, log->env, log->directory, base_offset, err);
    if (rc)
        return rc;
    log->segments[log->segment_count++] = segment;
    log->names_changed = true;
    return CAFKA_OK;
}

static int64_t draw_jitter(const struct commit_log *log)
{
    int64_t most = log->config.segment_jitter_ms;
    if (most > log->config.segment_ms)
        most = log->config.segment_ms;
    return most > 0 ? (int64_t)(log->env->random(log->env) % (uint64_t)most) : 0;
}

int commit_log_activate(struct commit_log *log, cafka_error *err)
{
    struct segment *segment = active_segment(log);
    segment->jitter_ms = draw_jitter(log);
    segment->bytes_since_entry = 0;
    return segment_activate(segment, log->env, &log->config, err);
}

int commit_log_roll_at(struct commit_log *log, int64_t base_offset, cafka_error *err)
{
    struct segment *old = active_segment(log);
    int rc = commit_log_add_segment(log, base_offset, err);
    if (rc)
        return rc;
    rc = commit_log_activate(log, err);
    if (!rc)
        rc = segment_finish(old, log->env, false, err);
    if (rc) {
        segment_free(log->segments[--log->segment_count], log->env);
        cafka_error later = {0}; /* the old one stays active, with its indexes as they were */
        if (segment_activate(old, log->env, &log->config, &later))
            log->failed = true;
        return rc;
    }
    log->rolled = true;
    return commit_log_take_snapshot(log, false, err);
}

int commit_log_roll(struct commit_log *log, cafka_error *err)
{
    if (!active_segment(log)->size)
        return CAFKA_OK;
    return commit_log_answer(log, commit_log_roll_at(log, log->end_offset, err), err);
}

/* --- append --- */

int commit_log_save_epochs(struct commit_log *log, cafka_error *err)
{
    if (!log->epochs.changed)
        return CAFKA_OK;
    char path[LOG_PATH_SIZE];
    log_join(log->directory, "leader-epoch-checkpoint", path);
    return leader_epochs_save(&log->epochs, log->env, path, err);
}

int commit_log_start_epoch(struct commit_log *log, int32_t epoch, cafka_error *err)
{
    int rc = leader_epochs_assign(&log->epochs, epoch, log->end_offset, err);
    if (!rc)
        rc = commit_log_save_epochs(log, err);
    return commit_log_answer(log, rc, err);
}

static int refuse_when_failed(const struct commit_log *log, cafka_error *err)
{
    if (!log->failed)
        return CAFKA_OK;
    return error_set(err, ERR_KAFKA_STORAGE_ERROR, "%s was closed for writing after an error",
                     log->directory);
}

/* Everything that may fail for want of memory or room in the segment, in front of the write. */
static int make_ready(struct commit_log *log, const struct segment_append *append,
                      int64_t first_offset, cafka_error *err)
{
    if (append->size > (size_t)log->config.segment_bytes)
        return error_set(err, ERR_RECORD_LIST_TOO_LARGE,
                         "%zu bytes do not fit a segment; segment.bytes is %d", append->size,
                         log->config.segment_bytes);
    if (!segment_should_roll(active_segment(log), log->env, &log->config, append->size,
                             append->max_timestamp, append->last_offset, env_wall_ms(log->env)))
        return CAFKA_OK;
    return commit_log_roll_at(log, first_offset, err);
}

static int write_out(struct commit_log *log, const struct iovec *pieces, int count,
                     const struct segment_append *append, cafka_error *err)
{
    int rc = commit_log_save_epochs(log, err);
    if (!rc)
        rc = segment_append(active_segment(log), log->env, &log->config, pieces, count, append, err);
    if (!rc)
        log->end_offset = append->last_offset + 1;
    return rc;
}

/* After the write: a marker may end a transaction. */
static int take_update(struct commit_log *log, const struct producer_update *update,
                       cafka_error *err)
{
    struct txn_span ended;
    int64_t stable_offset;
    if (!producer_state_update(&log->producers, update, &ended, &stable_offset) || !update->aborted)
        return CAFKA_OK;
    return segment_note_aborted(active_segment(log), log->env, &ended, stable_offset, err);
}

static int flush_when_due(struct commit_log *log, cafka_error *err)
{
    if (log->end_offset - log->recovery_point < log->config.flush_messages)
        return CAFKA_OK;
    return commit_log_flush(log, err);
}

/* A batch that passed every check but the producer's. */
static int append_plan(struct commit_log *log, const struct append_plan *plan,
                       const struct append_request *request, struct append_result *result,
                       cafka_error *err)
{
    const struct batch_header *h = &plan->header;
    struct producer_update update;
    struct bytes whole = {request->records.data, batch_size(h)}; /* markers are never rebuilt */
    int rc = producer_update_of(&update, whole, h, err);
    if (rc)
        return error_set(err, ERR_INVALID_RECORD, "the control record cannot be read");
    if (update.producer_id >= 0) {
        const struct producer_batch *known = NULL;
        if (request->origin == APPEND_CLIENT)
            known = producer_state_duplicate(&log->producers, &update);
        if (known) {
            result->duplicate = true;
            result->base_offset = known->last_offset - known->offset_delta;
            result->last_offset = known->last_offset;
            result->log_append_time_ms = known->timestamp;
            return CAFKA_OK;
        }
        rc = producer_state_check(&log->producers, &update, request->origin == APPEND_CLIENT,
                                  request->verified, err);
        if (!rc)
            rc = producer_state_prepare(&log->producers, &update, err);
        if (rc)
            return rc;
    }

    struct segment_append append = {
        .last_offset = batch_last_offset(h),
        .max_timestamp = h->max_timestamp,
        .max_timestamp_offset = batch_last_offset(h),
        .size = batch_size(h),
    };
    rc = make_ready(log, &append, h->base_offset, err);
    if (!rc && update.marker && update.aborted)
        rc = segment_prepare_aborted(active_segment(log), log->env, err);
    if (!rc)
        rc = leader_epochs_assign(&log->epochs, h->leader_epoch, h->base_offset, err);
    struct iovec pieces[] = {
        {(void *)(uintptr_t)plan->head, sizeof plan->head},
        {(void *)(uintptr_t)plan->records.data, plan->records.size},
    };
    if (!rc)
        rc = write_out(log, pieces, plan->records.size ? 2 : 1, &append, err);
    if (!rc)
        rc = take_update(log, &update, err);
    if (!rc)
        rc = flush_when_due(log, err);
    if (rc)
        return rc;
    result->base_offset = h->base_offset;
    result->last_offset = append.last_offset;
    result->log_append_time_ms = plan->log_append_time ? h->max_timestamp : -1;
    return CAFKA_OK;
}

/* Errors that Kafka reports without the log's start. */
static bool hides_start_offset(int code)
{
    return code == ERR_RECORD_LIST_TOO_LARGE || code == ERR_KAFKA_STORAGE_ERROR;
}

int commit_log_append(struct commit_log *log, const struct append_request *request,
                      struct append_result *result, cafka_error *err)
{
    cafka_error local = {0}; /* codes are translated, so there must be words */
    *result = (struct append_result){
        .base_offset = -1,
        .last_offset = -1,
        .log_append_time_ms = -1,
        .log_start_offset = log->start_offset,
    };
    struct validation v = {
        .shared = log->shared,
        .config = &log->config,
        .topic = log->topic,
        .partition = log->partition,
        .next_offset = log->end_offset,
        .now_ms = env_wall_ms(log->env),
    };
    struct append_plan plan;
    int rc = refuse_when_failed(log, &local);
    if (!rc)
        rc = validate_append(&v, request, &plan, result, &local);
    if (!rc)
        rc = append_plan(log, &plan, request, result, &local);
    log_shared_relax(log->shared);
    if (!rc)
        return CAFKA_OK;
    rc = commit_log_answer(log, rc, &local);
    result->base_offset = result->last_offset = result->log_append_time_ms = -1;
    if (hides_start_offset(rc))
        result->log_start_offset = -1;
    return error_set(err, rc, "%s", local.message);
}

/* --- append as follower: batches of one set are written with one call --- */

struct follower_set {
    struct segment_append append;
    int64_t first_offset;
    int64_t last_offset; /* of the batch before */
};

/* Look at the batches of the set and learn what the write needs. */
static int look_at_set(struct commit_log *log, struct bytes records, struct follower_set *set,
                       cafka_error *err)
{
    struct batch_slice slice;
    struct batch_header h;
    int rc;
    *set = (struct follower_set){.first_offset = -1, .last_offset = log->end_offset - 1};
    set->append.max_timestamp = -1;
    set->append.max_timestamp_offset = -1;
    while (!(rc = batch_walk_next(&records, &slice, err))) {
        rc = batch_check(slice.bytes, err);
        if (!rc)
            rc = batch_header_read(slice.bytes, &h, err);
        if (rc)
            break;
        if (h.base_offset <= set->last_offset)
            return error_set(err, ERR_UNKNOWN_SERVER_ERROR,
                             "a batch from the leader begins at %" PRId64 ", the log is at %" PRId64,
                             h.base_offset, set->last_offset + 1);
        if (set->first_offset < 0)
            set->first_offset = h.base_offset;
        set->last_offset = set->append.last_offset = batch_last_offset(&h);
        set->append.size += slice.bytes.size;
        if (h.max_timestamp > set->append.max_timestamp) {
            set->append.max_timestamp = h.max_timestamp;
            set->append.max_timestamp_offset = set->last_offset;
        }
        rc = leader_epochs_assign(&log->epochs, h.leader_epoch, h.base_offset, err);
        if (rc)
            return rc;
    }
    if (rc == CAFKA_ERR_CORRUPT)
        return change_code(err, ERR_CORRUPT_MESSAGE);
    return rc == CAFKA_END ? CAFKA_OK : rc;
}

static int take_set(struct commit_log *log, struct bytes records, bool write, cafka_error *err)
{
    struct batch_slice slice;
    struct batch_header h;
    struct producer_update update;
    while (!batch_walk_next(&records, &slice, NULL)) {
        int rc = batch_header_read(slice.bytes, &h, err);
        if (!rc)
            rc = producer_update_of(&update, slice.bytes, &h, err);
        if (!rc)
            rc = producer_state_prepare(&log->producers, &update, err);
        if (!rc && write)
            rc = take_update(log, &update, err);
        if (rc)
            return rc;
    }
    return CAFKA_OK;
}

int commit_log_append_as_follower(struct commit_log *log, struct bytes records,
                                  int64_t *last_offset, cafka_error *err)
{
    cafka_error local = {0};
    struct follower_set set;
    int rc = refuse_when_failed(log, &local);
    if (!rc)
        rc = look_at_set(log, records, &set, &local);
    if (!rc && set.append.size) {
        rc = make_ready(log, &set.append, set.first_offset, &local);
        if (!rc)
            rc = take_set(log, records, false, &local);
        struct iovec piece = {(void *)(uintptr_t)records.data, set.append.size};
        if (!rc)
            rc = write_out(log, &piece, 1, &set.append, &local);
        if (!rc)
            rc = take_set(log, records, true, &local);
        if (!rc)
            rc = flush_when_due(log, &local);
    }
    if (rc)
        return error_set(err, commit_log_answer(log, rc, &local), "%s", local.message);
    *last_offset = log->end_offset - 1;
    return CAFKA_OK;
}
