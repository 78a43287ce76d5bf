/*
 * commit_log_private.h - the inside of a log, for the files that make one:
 *
 *     commit_log.c   where it stands, append, roll
 *     log_read.c     read, search, aborted transactions
 *     log_recover.c  open: what a directory holds, repaired if need be
 *     log_upkeep.c   truncation, retention, flushing, work that waits
 *
 *     invariants: 1. segments[] is sorted, never empty; the last one is active
 *                 2. start_offset <= high_watermark <= end_offset
 *                 3. producers.end_offset == end_offset between calls
 *                 4. after `failed` nothing is written any more
 *
 * Owner:   struct commit_log: whoever opened it, which is a log manager.
 * Thread:  the broker's loop.
 */
#ifndef MOCKBROKER_LOG_COMMIT_LOG_PRIVATE_H
#define MOCKBROKER_LOG_COMMIT_LOG_PRIVATE_H

#include "mockbroker/log/leader_epochs.h"
#include "mockbroker/log/producer_state.h"
#include "mockbroker/log/segment.h"
#include "util/list.h"

/* Files of a deleted segment that wait for file.delete.delay.ms. */
struct doomed_segment {
    struct list link;
    int64_t base_offset;
    int64_t due_ms;
};

struct commit_log {
    struct log_shared *shared;
    const cafka_env *env;
    struct log_config config;
    char *directory;
    char *topic;
    int32_t partition;
    struct uuid topic_id;

    struct segment **segments;
    size_t segment_count, segment_capacity;
    int64_t start_offset, end_offset, high_watermark;
    int64_t recovery_point;
    struct leader_epochs epochs;
    struct producer_state producers;
    int64_t *snapshots; /* offsets of the producer snapshots, ascending */
    size_t snapshot_count, snapshot_capacity;

    struct list doomed;
    int64_t last_flush_ms;  /* loop time */
    int64_t next_expiry_ms; /* of producers */
    bool rolled;            /* a segment behind the active one was not synced */
    bool names_changed;     /* nor the name of a new file */
    bool failed;
};

static inline struct segment *active_segment(const struct commit_log *log)
{
    return log->segments[log->segment_count - 1];
}

/* Index of the segment that holds `offset` or the place where it would be. */
size_t commit_log_segment_of(const struct commit_log *log, int64_t offset);
int commit_log_add_segment(struct commit_log *log, int64_t base_offset, cafka_error *err);
int commit_log_reserve_segment(struct commit_log *log, cafka_error *err);
/* The active segment begins to take appends. */
int commit_log_activate(struct commit_log *log, cafka_error *err);
int commit_log_roll_at(struct commit_log *log, int64_t base_offset, cafka_error *err);
int commit_log_save_epochs(struct commit_log *log, cafka_error *err);

/* Snapshots: write one of the present state, unless there is one; forget and remove. */
int commit_log_take_snapshot(struct commit_log *log, bool sync, cafka_error *err);
int commit_log_note_snapshot(struct commit_log *log, int64_t offset, cafka_error *err);
void commit_log_drop_snapshots(struct commit_log *log, int64_t from,
                               int64_t below); /* from <= offset < below */
/* Bring the producer state to `offset`: the newest snapshot that serves, then the batches behind it. */
int commit_log_rebuild_producers(struct commit_log *log, int64_t offset, cafka_error *err);

/* Local trouble (disk, memory) as an answer says it; a failed disk closes the log for writing. */
int commit_log_answer(struct commit_log *log, int rc, cafka_error *err);

#endif
