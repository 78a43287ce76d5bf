/*
 * commit_log.h - the log of one partition: segments on disk, append, read, search, recovery.
 *
 * (`struct log` is the logger of util, so this one carries the other name that Kafka's papers use.)
 *
 * A log is a row of segments in a directory `topic-partition`; the last one is active and takes
 * appends. A segment is a .log file of whole batches as they went over the wire, with an offset
 * index, a time index and a transaction index beside it. With the log lives what was learned from
 * its batches: the state of idempotent producers, open transactions, leader epochs. All of it can
 * be computed again from the .log files, and is, when the last run did not end cleanly.
 *
 * A leader's append looks at the batch in the order of Kafka's checks, assigns offsets in a copy of
 * the header and writes header and records with one call; the records are not copied, nor changed
 * unless the topic's compression.type asks for it. A read finds a position and gives a piece of the
 * segment's file, which goes to the socket by sendfile.
 *
 * Owner:   a partition (replica/partition.h); files live on while a log_slice refers to them.
 * Thread:  the broker's loop.
 * Reading: commit_log_open(), commit_log_append(), commit_log_read(); then recovery.c.
 */
#ifndef MOCKBROKER_LOG_COMMIT_LOG_H
#define MOCKBROKER_LOG_COMMIT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "env/env.h"
#include "mockbroker/log/log_config.h"
#include "util/bytes.h"
#include "util/error.h"
#include "util/uuid.h"

struct commit_log;
struct log_shared; /* what the logs of one broker share; made by the log manager */

/* --- files that are being read --- */

/* A segment's .log file. It stays open, also after the segment was deleted, until the last user is gone. */
struct log_file {
    cafka_env_file *handle;
    const cafka_env *env;
    int references;
};

struct log_file *log_file_ref(struct log_file *file);
void log_file_unref(struct log_file *file); /* takes NULL */
void log_file_release(void *file); /* the same, as stream_release_fn for stream_write_file() */

/* Bytes of one segment: whole batches from the front, the last perhaps cut. */
struct log_slice {
    struct log_file *file; /* a reference; NULL when size is 0 */
    int64_t position;
    size_t size;
};

void log_slice_fini(struct log_slice *slice); /* drops the reference */

/* --- life --- */

struct commit_log_options {
    struct log_shared *shared;
    const char *directory; /* made if it is not there */
    const char *topic;
    int32_t partition;
    struct uuid topic_id; /* zero: as partition.metadata says */
    const struct log_config *config;
    bool clean;               /* the last run ended cleanly: trust the files */
    int64_t recovery_point;   /* not clean: what is below it was synced */
    int64_t log_start_offset; /* from the checkpoint */
    int64_t high_watermark;   /* from the checkpoint */
};

/*
 * Open or make. What a crash left is repaired: leftovers removed, indexes rebuilt, the log cut at
 * the first batch that is not intact, producer state and leader epochs brought to its end.
 *
 * Errors:  CAFKA_ERR_IO, CAFKA_ERR_MEMORY
 *          ERR_INCONSISTENT_TOPIC_ID  the directory belongs to another topic id
 */
int commit_log_open(struct commit_log **out, const struct commit_log_options *options,
                    cafka_error *err);

/* Flush, take a producer snapshot, trim the indexes: after it the clean mark is justified. The log stays open. */
int commit_log_seal(struct commit_log *log, cafka_error *err);
/* Let go of memory and files, write nothing (what a kill leaves); takes NULL. */
void commit_log_free(struct commit_log *log);

void commit_log_set_config(struct commit_log *log, const struct log_config *config);
const struct log_config *commit_log_config(const struct commit_log *log);

/* --- where it stands --- */

int64_t commit_log_start_offset(const struct commit_log *log);
int64_t commit_log_end_offset(const struct commit_log *log); /* LEO: the next offset */
int64_t commit_log_high_watermark(const struct commit_log *log);
/* The last stable offset: all before it is decided. Never above the high watermark. */
int64_t commit_log_stable_offset(const struct commit_log *log);
int64_t commit_log_recovery_point(const struct commit_log *log); /* synced up to here */
int64_t commit_log_size(const struct commit_log *log);           /* bytes of all .log files */
int32_t commit_log_latest_epoch(const struct commit_log *log);   /* of the epoch file; -1: none */
const char *commit_log_directory(const struct commit_log *log);
struct uuid commit_log_topic_id(const struct commit_log *log);

/* Between log start and end; goes back only by truncation. Returns whether it moved. */
bool commit_log_set_high_watermark(struct commit_log *log, int64_t offset);

/* --- append --- */

enum append_origin {
    APPEND_CLIENT,     /* Produce: every check */
    APPEND_COORDINATOR /* the broker's own: coordinators' records, transaction markers */
};

struct append_request {
    struct bytes records;
    enum append_origin origin;
    int32_t leader_epoch;
    bool verified; /* transactional: the coordinator knows that the partition is in the transaction */
};

/* A record that was refused. */
struct record_error {
    int32_t index;
    char *message;
};

struct append_result {
    int64_t base_offset, last_offset; /* -1 after an error */
    int64_t log_append_time_ms;       /* -1: CreateTime; of a duplicate the stored batch's time */
    int64_t log_start_offset;         /* as the answer must say it, which after some errors is -1 */
    bool duplicate;                   /* nothing was written */
    /* After an error: what ErrorMessage says (NULL: null), and the records to name. Allocated. */
    char *error_message;
    struct record_error *record_errors;
    size_t record_error_count;
};

void append_result_fini(struct append_result *result);

/*
 * What Produce v3+ asks of the bytes before a log sees them: exactly one batch of magic 2, no zstd
 * below v7 (broker-behaviour.md 1.1). The error of the answer, with LogStartOffset -1; *message
 * gets a static text or NULL. A part of a second batch is cut off by the append.
 */
int append_check_request(struct bytes records, int produce_version, cafka_error *err);

/*
 * Append as leader. Returns CAFKA_OK, or the code that the answer carries (also in err, with
 * words); result is filled in both cases and must be given to append_result_fini().
 *
 * A failure of the disk is ERR_KAFKA_STORAGE_ERROR, and the log takes nothing more.
 */
int commit_log_append(struct commit_log *log, const struct append_request *request,
                      struct append_result *result, cafka_error *err);

/*
 * Append as follower: batches keep their offsets and epochs. ERR_CORRUPT_MESSAGE; a first offset
 * below the end is ERR_UNKNOWN_SERVER_ERROR. *last_offset gets the last one written.
 */
int commit_log_append_as_follower(struct commit_log *log, struct bytes records,
                                  int64_t *last_offset, cafka_error *err);

/* A new leader epoch begins at the end of the log (or is known already). */
int commit_log_start_epoch(struct commit_log *log, int32_t epoch, cafka_error *err);

/* --- read --- */

/*
 * Find the batch that holds `offset`, or the next one behind a gap, and give the file's bytes from
 * its first byte: at most max_bytes, nothing of what lies at or above end_offset, nothing of the
 * next segment. A first batch that does not fit is left out, and the slice empty, unless
 * whole_batch is set: then it comes however large. Later batches may be cut.
 *
 * offset == end_offset gives an empty slice. ERR_OFFSET_OUT_OF_RANGE below the log start or above
 * the log's end; ERR_KAFKA_STORAGE_ERROR.
 */
int commit_log_read(struct commit_log *log, int64_t offset, int64_t end_offset, size_t max_bytes,
                    bool whole_batch, struct log_slice *out, cafka_error *err);

/* Copy what a slice refers to (tests, coordinators that load their partition). */
int log_slice_read(const struct log_slice *slice, uint8_t *out, cafka_error *err);

/*
 * Bytes from `offset` to end_offset, for a fetch that waits: INT64_MAX if they lie in different
 * segments (answer at once), 0 if there are none. At most one look at the index and a page of
 * batch headers.
 */
int64_t commit_log_bytes_between(struct commit_log *log, int64_t offset, int64_t end_offset);

/* Aborted transactions that reach into a slice that was read at fetch_offset: for read_committed. */
struct aborted_transaction {
    int64_t producer_id, first_offset;
};
int commit_log_aborted(struct commit_log *log, int64_t fetch_offset, const struct log_slice *slice,
                       struct aborted_transaction **out, size_t *count,
                       cafka_error *err); /* mem_free */

struct timestamp_offset {
    int64_t timestamp, offset; /* -1, -1: none */
    int32_t leader_epoch;      /* -1 unknown */
};

/* The first record with timestamp >= target and offset >= the log start. */
int commit_log_find_timestamp(struct commit_log *log, int64_t target, struct timestamp_offset *out,
                              cafka_error *err);
/* The record with the largest timestamp (ListOffsets -3). */
int commit_log_find_max_timestamp(struct commit_log *log, struct timestamp_offset *out,
                                  cafka_error *err);

/* OffsetForLeaderEpoch: (-1, -1) when undefined. */
struct epoch_end {
    int32_t epoch;
    int64_t end_offset;
};
struct epoch_end commit_log_epoch_end(const struct commit_log *log, int32_t epoch);
/* The epoch that `offset` was written in, by the epoch file; -1 unknown. */
int32_t commit_log_epoch_of(const struct commit_log *log, int64_t offset);

/* Producers that are known, in order of first append (DescribeProducers). */
struct producer_info {
    int64_t producer_id;
    int16_t epoch;
    int32_t last_sequence;
    int64_t last_timestamp;
    int32_t coordinator_epoch;
    int64_t txn_start_offset; /* -1: none open */
};
bool commit_log_producer_next(const struct commit_log *log, size_t *position,
                              struct producer_info *out);

/* --- change --- */

/* Everything at and above `offset` goes; the high watermark goes down with it. */
int commit_log_truncate(struct commit_log *log, int64_t offset, cafka_error *err);
/* All goes, the log is empty and begins at `offset`. */
int commit_log_truncate_fully(struct commit_log *log, int64_t offset, cafka_error *err);
/* DeleteRecords: nothing below `offset` is served any more. Not above the high watermark: ERR_OFFSET_OUT_OF_RANGE. */
int commit_log_advance_start(struct commit_log *log, int64_t offset, cafka_error *err);
/* Begin a new segment now (false and nothing done when the active one is empty). */
int commit_log_roll(struct commit_log *log, cafka_error *err);
/* Delete segments by time, size and log start. *deleted gets how many. */
int commit_log_apply_retention(struct commit_log *log, size_t *deleted, cafka_error *err);
/* Sync everything below the end. */
int commit_log_flush(struct commit_log *log, cafka_error *err);

/*
 * Work that waits: syncing rolled segments, flush.ms, removing files whose delay is over, expired
 * producers. Returns when to come again (loop time, ms), INT64_MAX for never.
 */
int64_t commit_log_tick(struct commit_log *log, int64_t now_ms);

#endif
