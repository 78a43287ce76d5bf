/*
 * partition.h - a partition that this broker holds a replica of: who leads it, how far it is.
 *
 * The log knows bytes and offsets; the partition knows epochs, roles and who waits. A leader
 * appends, moves the high watermark and tells the watches; whoever waits for data or for
 * acknowledgement (the purgatory) is one of them. With one replica the high watermark follows the
 * end of the log at once; with followers it will follow the slowest in-sync one.
 *
 * Owner:   the broker's table of partitions. Thread: the broker's loop.
 * Reading: partition_append(), partition_read(); everything else serves these two.
 */
#ifndef MOCKBROKER_REPLICA_PARTITION_H
#define MOCKBROKER_REPLICA_PARTITION_H

#include "mockbroker/log/commit_log.h"
#include "util/list.h"

/*
 * Somebody waits for this partition. `changed` is called after the log's end, the high watermark,
 * the last stable offset, the log start, or the role changed; it may remove this and any other
 * watch and add new ones, and must not append.
 */
struct partition_watch {
    struct list link; /* zeroed: not watching */
    void (*changed)(struct partition_watch *watch);
};

struct partition {
    char *topic;
    struct uuid topic_id;
    int32_t index;
    int32_t leader_id; /* -1: none */
    int32_t leader_epoch;
    int64_t epoch_start_offset; /* end of the log when this broker began to lead */
    bool is_leader;
    int32_t isr_size, replica_count;
    struct commit_log *log; /* the log manager's */
    struct list watches;
    void *user; /* the broker's */
};

/* `log` must outlive the partition. */
int partition_new(struct partition **out, const char *topic, int32_t index, struct uuid topic_id,
                  struct commit_log *log, cafka_error *err);
void partition_free(struct partition *partition); /* watches are told first; takes NULL */

/* This broker leads since `epoch`; starts the epoch in the log. Idempotent for a known epoch. */
int partition_become_leader(struct partition *partition, int32_t broker_id, int32_t epoch,
                            cafka_error *err);
/* It does not (any more). */
void partition_become_follower(struct partition *partition, int32_t leader_id, int32_t epoch);

/* Offsets. */
static inline int64_t partition_start_offset(const struct partition *p)
{
    return commit_log_start_offset(p->log);
}
static inline int64_t partition_end_offset(const struct partition *p)
{
    return commit_log_end_offset(p->log);
}
static inline int64_t partition_high_watermark(const struct partition *p)
{
    return commit_log_high_watermark(p->log);
}
static inline int64_t partition_stable_offset(const struct partition *p)
{
    return commit_log_stable_offset(p->log);
}

/* Watch and stop. */
void partition_watch(struct partition *partition, struct partition_watch *watch);
void partition_unwatch(struct partition_watch *watch); /* takes one that does not watch */
void partition_changed(struct partition *partition);   /* tell all */

/*
 * The epoch that a request says it knows: -1 is not checked. ERR_FENCED_LEADER_EPOCH when older,
 * ERR_UNKNOWN_LEADER_EPOCH when newer; ERR_NOT_LEADER_OR_FOLLOWER if must_lead and it does not.
 */
int partition_check_epoch(const struct partition *partition, int32_t current_leader_epoch,
                          bool must_lead, cafka_error *err);

/*
 * Append as leader. acks -1 with an ISR below min.insync.replicas: ERR_NOT_ENOUGH_REPLICAS. On
 * success the answer may go out when the high watermark is above result->last_offset (for acks -1;
 * partition_is_acknowledged()). The leader epoch of the request is the partition's. Watches have
 * been told when it returns.
 */
int partition_append(struct partition *partition, struct append_request *request, int acks,
                     struct append_result *result, cafka_error *err);

/* Acks -1: is everything up to last_offset replicated as asked? *error gets NOT_ENOUGH_REPLICAS_AFTER_APPEND or 0. */
bool partition_is_acknowledged(const struct partition *partition, int64_t last_offset, int *error);

enum read_end {
    READ_TO_HIGH_WATERMARK, /* consumers, read_uncommitted */
    READ_TO_STABLE_OFFSET,  /* consumers, read_committed */
    READ_TO_LOG_END         /* followers, debug consumers */
};
int64_t partition_readable_end(const struct partition *partition, enum read_end end);

struct read_request {
    int64_t offset;
    int32_t current_leader_epoch; /* -1: not checked */
    int32_t last_fetched_epoch;   /* -1: not checked */
    enum read_end end;
    bool must_lead;    /* consumers below v11, and followers */
    bool whole_batch;  /* the first non-empty partition of a fetch */
    int32_t max_bytes; /* negative: ERR_UNKNOWN_SERVER_ERROR, as 4.3.1 */
};

struct read_result {
    int64_t high_watermark, stable_offset, log_start_offset; /* -1 after an error */
    bool diverging;
    struct epoch_end diverging_epoch;
    struct log_slice slice;              /* to be given to log_slice_fini() or handed on */
    struct aborted_transaction *aborted; /* READ_TO_STABLE_OFFSET only; allocated */
    size_t aborted_count;
};

/* Read for a Fetch; result is filled in all cases and must be given to read_result_fini(). */
int partition_read(struct partition *partition, const struct read_request *request,
                   struct read_result *result, cafka_error *err);
void read_result_fini(struct read_result *result);

/*
 * For a fetch that waits: bytes that it would get now (capped by max_bytes), or -1 when it must be
 * answered at once (an error, another segment, another role or epoch).
 */
int64_t partition_waiting_bytes(struct partition *partition, const struct read_request *request);

/* ListOffsets, also the special timestamps; version for those that came later. */
enum {
    TIMESTAMP_LATEST = -1,
    TIMESTAMP_EARLIEST = -2,
    TIMESTAMP_MAX = -3,
    TIMESTAMP_EARLIEST_LOCAL = -4,
    TIMESTAMP_LATEST_TIERED = -5,
    TIMESTAMP_EARLIEST_PENDING_UPLOAD = -6
};
struct list_offset_request {
    int64_t timestamp;
    int32_t current_leader_epoch;
    enum read_end end;
    int version; /* of the request */
};
int partition_list_offset(struct partition *partition, const struct list_offset_request *request,
                          struct timestamp_offset *out, cafka_error *err);

int partition_epoch_end(struct partition *partition, int32_t current_leader_epoch, int32_t epoch,
                        struct epoch_end *out, cafka_error *err);

/* DeleteRecords; -1 is the high watermark. *low_watermark gets the new log start. */
int partition_delete_records(struct partition *partition, int64_t offset, int64_t *low_watermark,
                             cafka_error *err);

#endif
