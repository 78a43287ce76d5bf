/*
 * builder.h - a whole batch from an array of records: for brokers, tools and tests.
 *
 * The producer does not come here; it puts records one by one (record.h) and seals.
 */
#ifndef CAFKA_RECORD_BUILDER_H
#define CAFKA_RECORD_BUILDER_H

#include "record/batch.h"
#include "record/compress.h"

/* What goes into a batch. Offset delta is the index, unless `offset_delta_set`. */
struct record_data {
    int64_t timestamp; /* absolute */
    struct bytes key, value;
    const struct record_header *headers;
    size_t header_count;
    int32_t offset_delta;
    bool offset_delta_set;
};

/*
 * Append a batch of these records to `out`. Taken from `h`: base_offset, leader_epoch, attributes
 * (codec bits too), producer fields, and base_timestamp (the first record's if it is
 * INT64_MIN). Set in it: length, CRC, last_offset_delta, max_timestamp (largest record timestamp,
 * unless BATCH_LOG_APPEND_TIME is set), record_count. `c` may be NULL for CODEC_NONE.
 */
int batch_build(struct batch_header *h, const struct record_data *records, size_t count,
                struct compressor *c, struct buffer *out, cafka_error *err);

/* The same around record bytes that are made already (plain or compressed as h->attributes says). */
int batch_wrap(struct batch_header *h, struct bytes records, struct buffer *out, cafka_error *err);

#endif
