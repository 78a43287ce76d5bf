/*
 * open.c - see open.h.
 */
#include "record/open.h"

#include "record/legacy.h"

int batch_open(struct bytes batch, const struct batch_header *h, struct decompressor *d,
               size_t limit, struct buffer *inflated, struct record_iter *it, cafka_error *err)
{
    if (h->magic != BATCH_MAGIC)
        return legacy_open(batch, d, limit, inflated, it, err);
    if (h->record_count < 0)
        return error_set(err, CAFKA_ERR_PROTOCOL, "the batch at offset %lld says it has %d records",
                         (long long)h->base_offset, h->record_count);

    struct bytes records =
        bytes_of(batch.data + RECORD_BATCH_OVERHEAD, batch.size - RECORD_BATCH_OVERHEAD);
    int rc = CAFKA_OK;
    if (batch_is_compressed(h)) {
        buffer_clear(inflated);
        rc = decompressor_run(d, batch_codec(h), h->magic, records, limit, inflated, err);
        if (rc && rc != CAFKA_ERR_COMPRESSION)
            return rc;
        records =
            inflated->size ? bytes_of(inflated->data, inflated->size) : bytes_of(batch.data, 0);
    }
    record_iter_init(it, records, h->base_offset, h->base_timestamp, h->record_count);
    it->appended = h->attributes & BATCH_LOG_APPEND_TIME;
    it->append_time = h->max_timestamp;
    return rc;
}
