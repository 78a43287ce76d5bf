/*
 * log_manager.h - the log directory of one broker: its logs, checkpoints, lock and marks.
 *
 * DIR/topic-partition/ are logs; DIR/meta.properties says whose directory it is; the checkpoints
 * hold recovery points, log start offsets and high watermarks of all logs; .kafka_cleanshutdown is
 * there only after a clean stop. A directory that a real broker wrote opens as well: its
 * partitions are found with their topic ids, and whoever knows the topics' configs opens them.
 *
 * Owner:   a broker. Thread: its loop.
 * Reading: log_manager_open(), log_manager_found(), log_manager_open_log(), log_manager_close().
 */
#ifndef MOCKBROKER_LOG_LOG_MANAGER_H
#define MOCKBROKER_LOG_LOG_MANAGER_H

#include "mockbroker/log/commit_log.h"
#include "net/loop.h"
#include "util/log.h"

struct log_manager;

struct log_manager_options {
    const cafka_env *env;
    struct log log;        /* where words go */
    const char *directory; /* made if it is not there */
    int32_t broker_id;
    const char *cluster_id; /* 22 characters; NULL: as meta.properties says, else a random one */
    int64_t broker_epoch;   /* for the clean mark; -1 */
    /* Broker configs; 0 means the default. */
    int64_t retention_check_interval_ms;         /* log.retention.check.interval.ms 300000 */
    int64_t initial_task_delay_ms;               /* log.initial.task.delay.ms 30000 */
    int64_t flush_offset_checkpoint_interval_ms; /* log.flush.offset.checkpoint.interval.ms 60000 */
    int64_t high_watermark_checkpoint_interval_ms; /* replica.high.watermark.checkpoint.interval.ms 5000 */
    int64_t producer_id_expiration_ms;             /* producer.id.expiration.ms 86400000 */
    int64_t producer_id_expiration_check_interval_ms; /* 600000 */
};

/*
 * Lock and read a directory. No log is opened yet.
 *
 * Errors:  CAFKA_ERR_IO      also: another process holds the lock
 *          CAFKA_ERR_CONFIG  meta.properties names another broker or cluster
 *          CAFKA_ERR_MEMORY
 */
int log_manager_open(struct log_manager **out, const struct log_manager_options *options,
                     cafka_error *err);

/* What meta.properties says. */
const char *log_manager_cluster_id(const struct log_manager *manager);
const char *log_manager_directory(const struct log_manager *manager);
struct uuid log_manager_directory_id(const struct log_manager *manager); /* directory.id */
bool log_manager_was_clean(const struct log_manager *manager);

/* Partitions that were there at open, in order of name; for finding topics again. */
struct found_partition {
    const char *topic;
    int32_t partition;
    struct uuid topic_id; /* zero: partition.metadata is missing */
};
size_t log_manager_found_count(const struct log_manager *manager);
const struct found_partition *log_manager_found(const struct log_manager *manager, size_t i);

/* Open or make the log of a partition. The manager keeps it. Errors: those of commit_log_open(). */
int log_manager_open_log(struct log_manager *manager, const char *topic, int32_t partition,
                         struct uuid topic_id, const struct log_config *config,
                         struct commit_log **out, cafka_error *err);
/* NULL: not open. */
struct commit_log *log_manager_find(const struct log_manager *manager, const char *topic,
                                    int32_t partition);
/* Walk the open logs. */
struct commit_log *log_manager_next(const struct log_manager *manager, size_t *position);
/* Close and remove: renamed to `….<uuid>-delete` at once, gone from the disk after file.delete.delay.ms. */
int log_manager_delete_log(struct log_manager *manager, struct commit_log *log, cafka_error *err);
/* A found partition that no topic claims: renamed to `….<uuid>-stray`, as real brokers do, and left. */
int log_manager_set_aside(struct log_manager *manager, const struct found_partition *found,
                          cafka_error *err);

/* Retention, flushing, checkpoints, removal of files: by timers of this loop from now on. */
void log_manager_start(struct log_manager *manager, struct loop *loop);
/* What the timers call; returns when it wants to be called again (loop time, ms). */
int64_t log_manager_tick(struct log_manager *manager, int64_t now_ms);
int log_manager_checkpoint(struct log_manager *manager, cafka_error *err);

/* Clean stop: seal all logs, write checkpoints and the clean mark, free. */
int log_manager_close(struct log_manager *manager, cafka_error *err);
/* As kill -9 leaves it; takes NULL. */
void log_manager_abandon(struct log_manager *manager);

#endif
