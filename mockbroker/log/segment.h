/*
 * segment.h - one piece of a log: a .log file of batches and the indexes that find things in it.
 *
 * A segment holds offsets from its base on, at most 2^31 - 1 beyond it. Files are opened when
 * they are needed. Rules of the indexes (golden/logdir, every entry of a real broker's follows):
 * when more than index.interval.bytes were appended since the last entry, the next batch gets one
 * (its last offset and its position), and at that moment the time index gets the largest timestamp
 * so far and the last offset of the first batch that has it, if larger than its last entry's. A
 * last time entry follows when the segment is rolled, sealed or recovered.
 *
 * Owner:   a commit_log. Thread: the broker's loop.
 * Reading: segment_append(), segment_find(), segment_recover().
 */
#ifndef MOCKBROKER_LOG_SEGMENT_H
#define MOCKBROKER_LOG_SEGMENT_H

#include "mockbroker/log/index.h"
#include "mockbroker/log/log_internal.h"
#include "mockbroker/log/producer_state.h"
#include "mockbroker/log/txn_index.h"
#include "record/batch.h"

struct segment {
    const char *directory; /* the log's */
    int64_t base_offset;
    int64_t size;
    struct log_file *file; /* NULL: not open */
    struct log_index offsets, times;
    struct txn_index txns;
    struct time_index_entry largest; /* timestamp so far and its offset; valid if largest_known */
    bool largest_known;
    bool first_known;        /* first_timestamp is; false while empty, too */
    int64_t first_timestamp; /* of the first batch: its maximum */
    int64_t created_ms;
    int64_t jitter_ms;
    int64_t bytes_since_entry; /* appended since the last index entry */
    bool dirty;                /* has bytes that were not synced */
};

/* The file is made if it is not there; nothing else is read. */
int segment_open(struct segment **out, const cafka_env *env, const char *directory,
                 int64_t base_offset, cafka_error *err);
void segment_free(struct segment *segment, const cafka_env *env); /* takes NULL; writes nothing */

/* Close what is open; it is opened again when it is needed. For segments that take no appends. */
void segment_rest(struct segment *segment, const cafka_env *env);

int segment_file(struct segment *segment, const cafka_env *env, cafka_error *err);
/* Take appends: indexes of full size. */
int segment_activate(struct segment *segment, const cafka_env *env, const struct log_config *config,
                     cafka_error *err);

/* What an append puts into a segment. */
struct segment_append {
    int64_t last_offset;
    int64_t max_timestamp;
    int64_t max_timestamp_offset; /* last offset of the first batch that has it */
    size_t size;
};
/*
 * Write at the end and note it in the indexes. On failure the file is cut back to what it was; if
 * not even that works, recovery finds a torn tail.
 */
int segment_append(struct segment *segment, const cafka_env *env, const struct log_config *config,
                   const struct iovec *pieces, int count, const struct segment_append *append,
                   cafka_error *err);
bool segment_should_roll(struct segment *segment, const cafka_env *env,
                         const struct log_config *config, size_t size, int64_t max_timestamp,
                         int64_t last_offset, int64_t now_ms);
/* No more appends: the last time entry, files cut to their size. */
int segment_finish(struct segment *segment, const cafka_env *env, bool sync, cafka_error *err);
int segment_sync(struct segment *segment, const cafka_env *env, cafka_error *err);

/* A batch in a segment. */
struct batch_place {
    int64_t position;
    struct batch_header header;
};
/*
 * The first batch whose last offset is not below `offset`; CAFKA_END if there is none.
 * CAFKA_ERR_CORRUPT when the file is not what it was.
 */
int segment_find(struct segment *segment, const cafka_env *env, int64_t offset,
                 struct batch_place *out, cafka_error *err);
/* The batch at a position, or CAFKA_END at the end; and where the next one begins. */
int segment_header_at(struct segment *segment, const cafka_env *env, int64_t position,
                      struct batch_place *out, cafka_error *err);
static inline int64_t batch_place_next(const struct batch_place *place)
{
    return place->position + (int64_t)batch_size(&place->header);
}
/* A whole batch into a buffer (cleared first). */
int segment_read_batch(struct segment *segment, const cafka_env *env,
                       const struct batch_place *place, struct buffer *out, cafka_error *err);
/* The offset behind the last batch (the base, if empty), from the index's last entry on. */
int segment_next_offset(struct segment *segment, const cafka_env *env, int64_t *out,
                        cafka_error *err);

/* Largest timestamp so far ({-1, base}: none). */
int segment_largest(struct segment *segment, const cafka_env *env, struct time_index_entry *out,
                    cafka_error *err);
/* The same for retention and time search: the file's mtime when no record has a timestamp. */
int segment_largest_or_mtime(struct segment *segment, const cafka_env *env, int64_t *out,
                             cafka_error *err);
int segment_load_indexes(struct segment *segment, const cafka_env *env, cafka_error *err);

/* Cut at `offset`. The segment becomes active. */
int segment_truncate(struct segment *segment, const cafka_env *env, const struct log_config *config,
                     int64_t offset, cafka_error *err);

/* Call `each` for every header from `position` (the beginning of a batch) to the end. */
typedef void segment_header_fn(void *user, const struct batch_header *header);
int segment_walk_headers(struct segment *segment, const cafka_env *env, int64_t position,
                         segment_header_fn *each, void *user, cafka_error *err);

/* Called for each batch of a segment that is scanned. */
typedef int segment_batch_fn(void *user, struct bytes batch, const struct batch_header *header,
                             cafka_error *err);
/*
 * Walk all batches from `position` on, whole ones given to `each`, and stop at the first that is
 * not intact or goes back in offset: *valid gets where. CAFKA_OK also then.
 */
int segment_scan(struct segment *segment, const cafka_env *env, int64_t position,
                 struct buffer *scratch, segment_batch_fn *each, void *user, int64_t *valid,
                 cafka_error *err);
/*
 * Build the indexes anew from the batches and cut the file behind the last good one; `each` sees
 * every batch. *cut gets how many bytes went. *next_offset gets where the segment ends.
 */
int segment_recover(struct segment *segment, const cafka_env *env, const struct log_config *config,
                    struct buffer *scratch, segment_batch_fn *each, void *user, int64_t *cut,
                    int64_t *next_offset, cafka_error *err);

/* Note that a transaction ended in abort. The first makes sure that the second fails by the disk only. */
int segment_prepare_aborted(struct segment *segment, const cafka_env *env, cafka_error *err);
int segment_note_aborted(struct segment *segment, const cafka_env *env, const struct txn_span *span,
                         int64_t stable_offset, cafka_error *err);

/* The four files get `suffix` (".deleted") behind their names; then, without it, they are removed. */
int segment_rename_away(struct segment *segment, const cafka_env *env, const char *suffix,
                        cafka_error *err);
int segment_remove_files(const cafka_env *env, const char *directory, int64_t base_offset,
                         const char *suffix, cafka_error *err);

#endif
