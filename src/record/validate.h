/*
 * validate.h - what a broker must know of the records of a batch before it appends it.
 *
 * One pass over the records that touches no value: structure, count, deltas, timestamps.
 */
#ifndef CAFKA_RECORD_VALIDATE_H
#define CAFKA_RECORD_VALIDATE_H

#include "record/open.h"

enum batch_problem {
    BATCH_FINE,
    BATCH_BAD_COUNT,  /* last_offset_delta + 1 <= 0, record_count <= 0, or they differ */
    BATCH_BAD_CODEC,  /* codec 5..7, or data that does not inflate */
    BATCH_BAD_RECORD, /* a record breaks the format, or fewer or more records than the count */
    BATCH_UNREADABLE, /* a record's length takes more than 5 bytes: Kafka has no check for it */
    BATCH_BAD_INNER_OFFSET /* of a compressed batch: deltas are not 0, 1, 2 …; all else is right */
};

struct batch_validation {
    enum batch_problem problem;
    int32_t record_index;        /* where the problem is; -1: the batch as a whole */
    int64_t max_timestamp;       /* the largest, and … */
    int32_t max_timestamp_index; /* … the first record that has it; -1 if there are none */
    int64_t min_timestamp;       /* the smallest but for -1 (none); INT64_MAX if all are -1 */
    int32_t first_null_key;      /* -1: every record has a key */
};

/*
 * Kafka answers BATCH_BAD_COUNT and BATCH_BAD_RECORD with INVALID_RECORD, the others with
 * UNKNOWN_SERVER_ERROR; before the latter for BATCH_BAD_INNER_OFFSET come its errors about keys and
 * timestamps. Like Kafka's, the check does not compare the length of a record inside a compressed
 * batch with what the record holds.
 *
 * Look at every record of a v2 batch that passed batch_check(). The first problem ends it. A
 * compressed one is inflated into `inflated` (cleared first). What a topic's rules say of keys and
 * timestamps is the caller's business: the validation tells whether it must look closer (iterate
 * with batch_open()).
 *
 * Returns CAFKA_OK with problem BATCH_FINE, else the error's code with `problem` set; CAFKA_ERR_MEMORY
 * leaves problem BATCH_FINE.
 */
int batch_validate_records(struct bytes batch, const struct batch_header *h, struct decompressor *d,
                           size_t limit, struct buffer *inflated, struct batch_validation *out,
                           cafka_error *err);

#endif
