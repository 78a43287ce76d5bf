/*
 * control.h - control records: the ends of transactions, changes of leader, marks of snapshots.
 *
 * They lie in batches of their own (BATCH_CONTROL) and are never shown to applications.
 */
#ifndef CAFKA_RECORD_CONTROL_H
#define CAFKA_RECORD_CONTROL_H

#include "record/batch.h"

enum control_type {
    CONTROL_ABORT = 0,
    CONTROL_COMMIT = 1,
    CONTROL_LEADER_CHANGE = 2,
    CONTROL_SNAPSHOT_HEADER = 3,
    CONTROL_SNAPSHOT_FOOTER = 4,
    CONTROL_KRAFT_VERSION = 5,
    CONTROL_KRAFT_VOTERS = 6
};

/* "ABORT", "COMMIT", …; "UNKNOWN" for types that this version does not know (to be skipped). */
const char *control_type_name(int type);

/* The type in a control record's key. CAFKA_ERR_PROTOCOL: key too short, negative version. */
int control_type_read(struct bytes key, int16_t *type, cafka_error *err);

/* The value of an ABORT or COMMIT. */
struct end_txn_marker {
    int16_t version;
    int32_t coordinator_epoch;
};
int end_txn_marker_read(struct bytes value, struct end_txn_marker *out, cafka_error *err);

enum { END_TXN_BATCH_SIZE = 78 };

/* A whole marker batch, sealed; base offset 0 and leader epoch -1 are for the log to set. */
void end_txn_batch_write(uint8_t out[END_TXN_BATCH_SIZE], bool commit, int64_t producer_id,
                         int16_t producer_epoch, int32_t coordinator_epoch, int64_t timestamp_ms);

/* The value of a LEADER_CHANGE: voters are read one by one. */
struct leader_change {
    int16_t version; /* of the value */
    int32_t leader_id;
    struct bytes voters, granting_voters; /* raw elements */
    int32_t voter_count, granting_voter_count;
};
struct leader_change_voter {
    int32_t id;
    uint8_t directory_id[16]; /* zero in version 0 */
};
int leader_change_read(struct bytes value, struct leader_change *out, cafka_error *err);
/* The i-th element of `voters` or `granting_voters`; false past the end. Elements were checked. */
bool leader_change_voter_next(const struct leader_change *change, struct bytes *rest,
                              struct leader_change_voter *out);
/* A whole LEADER_CHANGE batch of a new leader, appended to `out`; value version 0. */
int leader_change_batch_write(struct buffer *out, int32_t leader_id, const int32_t *voters,
                              size_t voter_count, const int32_t *granting, size_t granting_count,
                              int32_t leader_epoch, int64_t timestamp_ms, cafka_error *err);

#endif
