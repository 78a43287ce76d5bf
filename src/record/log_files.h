/*
 * log_files.h - the small files beside a partition's log: bytes to entries and back.
 *
 * Offset, time and transaction index, producer snapshot, the checkpoint files and
 * partition.metadata. No I/O here: who reads a file gives its bytes, and gets told at which byte
 * or line the first damage is (the message), by CAFKA_ERR_CORRUPT.
 *
 * Active offset and time indexes are allocated ahead: zeros follow their last entry.
 * index_count() finds it.
 *
 * Owner:  whoever asked for entries frees them.
 * Thread: any; no state.
 */
#ifndef CAFKA_RECORD_LOG_FILES_H
#define CAFKA_RECORD_LOG_FILES_H

#include "util/bytes.h"
#include "util/error.h"
#include "util/uuid.h"

enum {
    OFFSET_INDEX_ENTRY_SIZE = 8,
    TIME_INDEX_ENTRY_SIZE = 12,
    TXN_INDEX_ENTRY_SIZE = 34,
    SNAPSHOT_ENTRY_SIZE = 46,
    SNAPSHOT_HEAD_SIZE = 10 /* version, CRC, number of entries */
};

struct offset_index_entry {
    int64_t offset; /* absolute */
    int32_t position;
};
struct time_index_entry {
    int64_t timestamp;
    int64_t offset;
};
struct txn_index_entry {
    int16_t version; /* 0 */
    int64_t producer_id, first_offset, last_offset, last_stable_offset;
};
struct snapshot_entry {
    int64_t producer_id;
    int16_t epoch;
    int32_t last_sequence;
    int64_t last_offset;
    int32_t offset_delta;
    int64_t timestamp;
    int32_t coordinator_epoch;
    int64_t current_txn_first_offset; /* -1: no open transaction */
};
struct epoch_entry {
    int32_t epoch;
    int64_t start_offset;
};
struct offset_checkpoint_entry {
    struct str topic; /* points into the parsed bytes */
    int32_t partition;
    int64_t offset;
};

/* Entry `i` of index bytes, and back; base is the segment's. No checks. */
struct offset_index_entry offset_index_get(const uint8_t *data, size_t i, int64_t base);
void offset_index_put(uint8_t *data, size_t i, int64_t base, struct offset_index_entry entry);
struct time_index_entry time_index_get(const uint8_t *data, size_t i, int64_t base);
void time_index_put(uint8_t *data, size_t i, int64_t base, struct time_index_entry entry);
struct txn_index_entry txn_index_get(const uint8_t *data, size_t i);
void txn_index_put(uint8_t *data, size_t i, const struct txn_index_entry *entry);

/*
 * Check a whole index: size, order, nothing below base. *count gets the entries that are in use
 * (zeros at the end do not count); on failure those before the damage.
 */
int offset_index_check(struct bytes file, int64_t base, size_t *count, cafka_error *err);
int time_index_check(struct bytes file, int64_t base, size_t *count, cafka_error *err);
int txn_index_check(struct bytes file, size_t *count, cafka_error *err);

/* The last entry whose offset (timestamp) is not above the key; -1 if there is none. */
ptrdiff_t offset_index_find(const uint8_t *data, size_t count, int64_t base, int64_t offset);
ptrdiff_t time_index_find(const uint8_t *data, size_t count, int64_t timestamp);

/* Producer snapshot. Check tells the number of entries; then entry by entry. */
int snapshot_check(struct bytes file, size_t *count, cafka_error *err);
struct snapshot_entry snapshot_get(const uint8_t *data, size_t i);
/* Append a whole file. Memory failure sticks in `out`. */
void snapshot_write(struct buffer *out, const struct snapshot_entry *entries, size_t count);

/*
 * Text checkpoints: *out is allocated (mem_free), NULL if empty. CAFKA_ERR_CORRUPT names the line.
 */
int epoch_checkpoint_parse(struct bytes file, struct epoch_entry **out, size_t *count,
                           cafka_error *err);
void epoch_checkpoint_write(struct buffer *out, const struct epoch_entry *entries, size_t count);
int offset_checkpoint_parse(struct bytes file, struct offset_checkpoint_entry **out, size_t *count,
                            cafka_error *err);
void offset_checkpoint_write(struct buffer *out, const struct offset_checkpoint_entry *entries,
                             size_t count);
int partition_metadata_parse(struct bytes file, struct uuid *topic_id, cafka_error *err);
void partition_metadata_write(struct buffer *out, struct uuid topic_id);

/* "00000000000000000042" + suffix; and the base offset of such a file name, -1 if it is none. */
#define LOG_FILE_NAME_SIZE 48
void log_file_name(int64_t base_offset, const char *suffix, char out[LOG_FILE_NAME_SIZE]);
int64_t log_file_base_offset(struct str name);

#endif
