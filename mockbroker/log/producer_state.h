/*
 * producer_state.h - what one partition knows of its producers: the last five batches of each, for
 * duplicates and gaps, and the transactions that are open or not yet below the high watermark.
 *
 * A leader asks producer_state_check() before it writes a batch, which changes nothing, and calls
 * producer_state_update() after it was written; between them producer_state_prepare() takes all
 * memory that the update needs. Recovery and followers update without asking.
 *
 *     invariants: 1. batches of an entry have its epoch, oldest first, at most five
 *                 2. open[] and replicating[] are sorted by first offset
 *                 3. an entry has txn_first_offset >= 0 exactly while it has a line in open[]
 *
 * Owner: a log. Thread: the broker's loop.
 */
#ifndef MOCKBROKER_LOG_PRODUCER_STATE_H
#define MOCKBROKER_LOG_PRODUCER_STATE_H

#include "mockbroker/log/log_internal.h"
#include "record/batch.h"
#include "util/map.h"

enum { PRODUCER_BATCHES_KEPT = 5 };

struct producer_batch {
    int32_t last_sequence;
    int32_t offset_delta; /* last offset - first offset, and so of the sequences */
    int64_t last_offset;
    int64_t timestamp;
};

struct producer_entry {
    int64_t id;
    int16_t epoch; /* -1: none seen */
    int8_t batch_count;
    int32_t coordinator_epoch; /* -1 */
    int64_t last_timestamp;
    int64_t txn_first_offset; /* -1: none open */
    struct producer_batch batches[PRODUCER_BATCHES_KEPT];
};

struct txn_span {
    int64_t producer_id, first_offset, last_offset; /* last: of the marker; -1 while open */
};

struct txn_spans {
    struct txn_span *items;
    size_t count, capacity;
};

struct producer_state {
    struct map entries; /* by id */
    struct txn_spans open, replicating;
    int64_t end_offset; /* the state is that of the log up to here */
};

/* What a batch or a marker says to the state. */
struct producer_update {
    int64_t producer_id;
    int16_t epoch;
    int32_t base_sequence, last_sequence;
    int64_t first_offset, last_offset;
    int64_t timestamp;
    bool transactional;
    bool marker; /* the end of a transaction, with: */
    bool aborted;
    int32_t coordinator_epoch;
};

void producer_state_fini(struct producer_state *state);
void producer_state_clear(struct producer_state *state, int64_t end_offset);

/* From a batch; a control batch is opened for its marker. Unknown control records: producer_id -1. */
int producer_update_of(struct producer_update *out, struct bytes batch,
                       const struct batch_header *h, cafka_error *err);

const struct producer_entry *producer_state_find(const struct producer_state *state, int64_t id);

/* The stored batch that this one repeats; NULL if none. */
const struct producer_batch *producer_state_duplicate(const struct producer_state *state,
                                                      const struct producer_update *update);
/*
 * May a leader append it?
 * Errors: ERR_INVALID_PRODUCER_EPOCH, ERR_INVALID_TXN_STATE, ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
 *         ERR_TRANSACTION_COORDINATOR_FENCED
 */
int producer_state_check(const struct producer_state *state, const struct producer_update *update,
                         bool client, bool verified, cafka_error *err);
int producer_state_prepare(struct producer_state *state, const struct producer_update *update,
                           cafka_error *err);
/*
 * Take it over. True: the update was a marker that ended an open transaction; *ended gets it, and
 * *stable_offset the last stable offset with that one gone (for the transaction index).
 */
bool producer_state_update(struct producer_state *state, const struct producer_update *update,
                           struct txn_span *ended, int64_t *stable_offset);

/* First offset of what is undecided, or decided but not below the high watermark; INT64_MAX: nothing. */
int64_t producer_state_first_unstable(const struct producer_state *state);
/* Ended transactions whose marker is below `offset` hold nobody back any more. */
void producer_state_replicated(struct producer_state *state, int64_t offset);
/* Drop who has been silent. */
void producer_state_expire(struct producer_state *state, int64_t now_ms, int64_t expiration_ms);

int producer_state_save(const struct producer_state *state, const cafka_env *env, const char *path,
                        bool sync, cafka_error *err);
/* Into a cleared state. CAFKA_ERR_CORRUPT: the file is damaged, the state cleared. */
int producer_state_load(struct producer_state *state, const cafka_env *env, const char *path,
                        int64_t offset, int64_t now_ms, int64_t expiration_ms, cafka_error *err);
/*
 * A snapshot holds one batch a producer. `replayed`, made from the log's last batches alone, gives
 * the older ones of those whose last batch is the same.
 */
void producer_state_add_history(struct producer_state *state, const struct producer_state *replayed);

#endif
