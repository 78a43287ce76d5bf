/*
 * builder.c - see builder.h.
 */
#include "record/builder.h"

#include "record/crc32c.h"
#include "util/alloc.h"

static void put_record(struct buffer *out, const struct batch_header *h,
                       const struct record_data *r, int32_t index)
{
    size_t headers_size = 0;
    for (size_t i = 0; i < r->header_count; i++)
        headers_size += record_header_size(r->headers[i].name.size, r->headers[i].value);
    int64_t timestamp_delta = (int64_t)((uint64_t)r->timestamp - (uint64_t)h->base_timestamp);
    int32_t offset_delta = r->offset_delta_set ? r->offset_delta : index;
    size_t body = record_body_size(timestamp_delta, offset_delta, r->key, r->value, r->header_count,
                                   headers_size);
    uint8_t *p = buffer_extend(out, record_size(body));
    if (!p)
        return;
    p = record_put(p, body, timestamp_delta, offset_delta, r->key, r->value, r->header_count);
    for (size_t i = 0; i < r->header_count; i++)
        p = record_put_header(p, r->headers[i].name.data, r->headers[i].name.size,
                              r->headers[i].value);
}

/* Replace the records behind `start` in `out` by their compressed form. */
static int compress_records(struct compressor *c, struct buffer *out, size_t start, cafka_error *err)
{
    struct iovec piece = {out->data + start, out->size - start};
    size_t bound = compressor_bound(c, piece.iov_len), size = 0;
    uint8_t *packed = mem_alloc(bound);
    if (!packed)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a batch");
    int rc = compressor_run(c, &piece, 1, packed, bound, &size, err);
    if (!rc) {
        out->size = start;
        buffer_put(out, packed, size);
    }
    mem_free(packed);
    return rc;
}

/* Seal what lies behind the 61 bytes at `start`; undo everything on failure. */
static int seal(struct batch_header *h, struct buffer *out, size_t start, int rc, cafka_error *err)
{
    if (!rc && out->failed)
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for a batch");
    size_t records_at = start + RECORD_BATCH_OVERHEAD;
    if (!rc && out->size - records_at > INT32_MAX - RECORD_BATCH_OVERHEAD)
        rc = error_set(err, CAFKA_ERR_TOO_LARGE, "a batch is limited to 2 GiB");
    if (rc) {
        out->size = out->size < start ? out->size : start;
        return rc;
    }
    size_t size = out->size - records_at;
    batch_seal(h, size, crc32c(0, out->data + records_at, size), out->data + start);
    return CAFKA_OK;
}

int batch_build(struct batch_header *h, const struct record_data *records, size_t count,
                struct compressor *c, struct buffer *out, cafka_error *err)
{
    size_t start = out->size;
    buffer_extend(out, RECORD_BATCH_OVERHEAD);
    if (h->base_timestamp == INT64_MIN)
        h->base_timestamp = count ? records[0].timestamp : -1;
    if (!(h->attributes & BATCH_LOG_APPEND_TIME)) {
        h->max_timestamp = -1;
        for (size_t i = 0; i < count; i++)
            if (records[i].timestamp > h->max_timestamp)
                h->max_timestamp = records[i].timestamp;
    }
    h->record_count = (int32_t)count;
    h->last_offset_delta = (int32_t)count - 1;
    for (size_t i = 0; i < count; i++) {
        put_record(out, h, &records[i], (int32_t)i);
        if (records[i].offset_delta_set && records[i].offset_delta > h->last_offset_delta)
            h->last_offset_delta = records[i].offset_delta;
    }
    int rc = CAFKA_OK;
    if (!out->failed && batch_codec(h) != CODEC_NONE)
        rc = compress_records(c, out, start + RECORD_BATCH_OVERHEAD, err);
    return seal(h, out, start, rc, err);
}

int batch_wrap(struct batch_header *h, struct bytes records, struct buffer *out, cafka_error *err)
{
    size_t start = out->size;
    buffer_extend(out, RECORD_BATCH_OVERHEAD);
    buffer_put(out, records.data, records.size);
    return seal(h, out, start, CAFKA_OK, err);
}
