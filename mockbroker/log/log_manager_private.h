/*
 * log_manager_private.h - the inside of a log manager, for the files that make one:
 *
 *     log_manager.c      open, logs, time, close
 *     log_directory.c    which partitions lie in the directory, and what is set aside or removed
 *     log_checkpoints.c  offsets that are remembered over a restart
 *
 * Owner:   struct log_manager, the broker's.
 * Thread:  the broker's loop.
 * Reading: struct log_manager.
 */
#ifndef MOCKBROKER_LOG_LOG_MANAGER_PRIVATE_H
#define MOCKBROKER_LOG_LOG_MANAGER_PRIVATE_H

#include "mockbroker/log/log_internal.h"
#include "mockbroker/log/log_manager.h"
#include "mockbroker/log/meta_properties.h"
#include "util/list.h"
#include "util/map.h"
#include "util/rng.h"

/* What the checkpoints said of a partition at start. */
struct remembered {
    int64_t recovery_point, start_offset, high_watermark;
};

enum checkpoint { RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CHECKPOINTS };

struct open_log {
    struct commit_log *log;
    char *topic;
    int32_t partition;
};

/* A directory that waits for its removal. */
struct doomed_directory {
    struct list link;
    char *path;
    int64_t due_ms;
};

struct log_manager {
    const cafka_env *env;
    struct log words;
    struct log_shared *shared;
    char *directory;
    struct meta_properties meta;
    int64_t broker_epoch;
    struct log_file *lock;
    bool was_clean;

    struct found_partition *found;
    size_t found_count, found_capacity;
    struct map remembered; /* "topic partition" to struct remembered */
    struct map logs;       /* "topic partition" to struct open_log */
    struct list doomed;
    struct buffer written[CHECKPOINTS]; /* what the files hold since this start */

    struct loop *loop;
    struct timer timer;
    int64_t retention_interval_ms, checkpoint_interval_ms, high_watermark_interval_ms;
    int64_t next_retention_ms, next_checkpoint_ms, next_high_watermark_ms;
    struct rng rng;
};

/* The key of a partition in the maps: "topic partition". */
enum { PARTITION_KEY_SIZE = 300 };
size_t log_manager_key(const char *topic, size_t topic_size, int32_t partition,
                       char out[PARTITION_KEY_SIZE]);

/* --- log_checkpoints.c --- */
int log_checkpoints_read(struct log_manager *manager, cafka_error *err);
int log_checkpoints_write(struct log_manager *manager, cafka_error *err); /* all three */
int log_checkpoints_write_high_watermarks(struct log_manager *manager, cafka_error *err);
/* Lines of the checkpoints whose directory is gone mean nothing. */
void log_checkpoints_forget_the_gone(struct log_manager *manager);

/* --- log_directory.c --- */
int log_directory_find_partitions(struct log_manager *manager, cafka_error *err);
bool log_directory_holds(const struct log_manager *manager, const char *topic, int topic_size,
                         int32_t partition);
/* Give it a name that says so, and remove it after due_ms. */
int log_directory_doom(struct log_manager *manager, const char *topic, int32_t partition,
                       int64_t due_ms, cafka_error *err);
int64_t log_directory_remove_doomed(struct log_manager *manager,
                                    int64_t now_ms); /* when to come again; INT64_MAX: never */

#endif
