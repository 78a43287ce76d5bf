/*
 * open.h - from the bytes of a batch to its records, whatever its magic and codec.
 *
 * A consumer's path for each batch it walks over:
 *
 *     batch_walk_next(&rest, &slice, err); batch_check(slice.bytes, err);
 *     batch_header_read(slice.bytes, &header, err);
 *     batch_open(slice.bytes, &header, d, limit, &inflated, &it, err);
 *     while (!(rc = record_iter_next(&it, &view, err))) …
 *
 * Plain batches are read where they lie; compressed ones are inflated into a buffer of the caller
 * first, to which the views then point.
 */
#ifndef CAFKA_RECORD_OPEN_H
#define CAFKA_RECORD_OPEN_H

#include "record/batch.h"
#include "record/compress.h"

/*
 * Make `it` ready to give the records of `batch`, whose header is `h`. `d` and `inflated` are used
 * only if the batch is compressed; `inflated` is cleared first and keeps its memory. The records
 * live as long as `batch` and `inflated` are not changed.
 *
 * Errors: those of decompressor_run(); CAFKA_ERR_PROTOCOL and CAFKA_ERR_CORRUPT for a wrapper of
 * an old message set that is not one, and for a negative number of records. If only the codec
 * failed (CAFKA_ERR_COMPRESSION), `it` is set all the same to what came out before; iterating it
 * ends in an error or early.
 */
int batch_open(struct bytes batch, const struct batch_header *h, struct decompressor *d,
               size_t limit, struct buffer *inflated, struct record_iter *it, cafka_error *err);

/* True if batch_open() needs `d` and `inflated`. */
static inline bool batch_is_compressed(const struct batch_header *h)
{
    return batch_codec(h) != CODEC_NONE;
}

#endif
