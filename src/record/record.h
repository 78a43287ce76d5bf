/*
 * record.h - one record of a v2 batch: written into a batch, and read from one.
 *
 * Writing is inline, since it is the producer's path per record: the exact size first (to find
 * room), then the bytes. A record without headers takes one call:
 *
 *     size_t body = record_body_size(ts, delta, key, value, 0, 0);
 *     room for record_size(body) …
 *     p = record_put(p, body, ts, delta, key, value, 0);
 *
 * and each header then record_put_header(). Reading is a struct record_iter over the (inflated)
 * record bytes of one batch that fills a struct record_view with pointers into them; a record is
 * checked whole before it is given out, its headers too, so that header_iter cannot fail.
 *
 * Owner:  views and iterators own nothing.
 * Thread: any; pure functions.
 */
#ifndef CAFKA_RECORD_RECORD_H
#define CAFKA_RECORD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bytes.h"
#include "util/error.h"

/* Name and value of a header. The name is UTF-8 and never null; value.data NULL is null. */
struct record_header {
    struct str name;
    struct bytes value;
};

/* --- writing --- */

/* No record takes more than this beyond its key, value and headers. */
#define RECORD_OVERHEAD_MAX 36

/* Nor a header beyond its name and value. */
#define RECORD_HEADER_OVERHEAD_MAX 10

/* Bytes of a length (-1 for null) in front of key, value or header value. */
static inline size_t record_length_size(struct bytes b)
{
    return b.data ? uvarint_size((uint64_t)b.size << 1) : 1;
}

static inline size_t record_header_size(size_t name_size, struct bytes value)
{
    return uvarint_size((uint64_t)name_size << 1) + name_size + record_length_size(value) +
           (value.data ? value.size : 0);
}

/*
 * The exact size of a record's body: what its length field says. headers_size is the sum of
 * record_header_size() of its headers. Key, value and headers together are below 2 GiB, which the
 * caller has checked (max.request.size is int32).
 */
static inline size_t record_body_size(int64_t timestamp_delta, int32_t offset_delta,
                                      struct bytes key, struct bytes value, size_t header_count,
                                      size_t headers_size)
{
    return 1 + uvarint_size(zigzag64(timestamp_delta)) + uvarint_size(zigzag32(offset_delta)) +
           record_length_size(key) + (key.data ? key.size : 0) + record_length_size(value) +
           (value.data ? value.size : 0) + uvarint_size((uint64_t)header_count << 1) + headers_size;
}

/* The exact size of a whole record with this body. */
static inline size_t record_size(size_t body_size)
{
    return uvarint_size((uint64_t)body_size << 1) + body_size;
}

/* A size that no record with such contents exceeds, whatever its deltas. */
static inline size_t record_upper_bound(size_t key_size, size_t value_size, size_t header_count,
                                        size_t names_and_values_size)
{
    return RECORD_OVERHEAD_MAX + key_size + value_size + names_and_values_size +
           header_count * RECORD_HEADER_OVERHEAD_MAX;
}

static inline uint8_t *record_put_number(uint8_t *p, uint64_t n) /* zigzag done; one byte mostly */
{
    if (__builtin_expect(n < 0x80, 1)) {
        *p = (uint8_t)n;
        return p + 1;
    }
    if (n < 0x4000) {
        p[0] = (uint8_t)(n | 0x80);
        p[1] = (uint8_t)(n >> 7);
        return p + 2;
    }
    return uvarint_put(p, n);
}

static inline uint8_t *record_put_bytes(uint8_t *p, struct bytes b)
{
    if (!b.data) {
        *p = 1; /* -1 */
        return p + 1;
    }
    p = record_put_number(p, (uint64_t)b.size << 1);
    memcpy(p, b.data, b.size);
    return p + b.size;
}

/* All up to the value's length: the caller then writes value_size bytes and the number of headers. */
static inline uint8_t *record_put_prefix(uint8_t *p, size_t body_size, int64_t timestamp_delta,
                                         int32_t offset_delta, struct bytes key, size_t value_size)
{
    p = record_put_number(p, (uint64_t)body_size << 1);
    *p++ = 0; /* attributes: none are defined */
    p = record_put_number(p, zigzag64(timestamp_delta));
    p = record_put_number(p, zigzag32(offset_delta));
    p = record_put_bytes(p, key);
    return record_put_number(p, (uint64_t)value_size << 1);
}

/* A record but for its headers; returns the byte behind it. body_size is record_body_size()'s. */
static inline uint8_t *record_put(uint8_t *p, size_t body_size, int64_t timestamp_delta,
                                  int32_t offset_delta, struct bytes key, struct bytes value,
                                  size_t header_count)
{
    p = record_put_number(p, (uint64_t)body_size << 1);
    *p++ = 0;
    p = record_put_number(p, zigzag64(timestamp_delta));
    p = record_put_number(p, zigzag32(offset_delta));
    p = record_put_bytes(p, key);
    p = record_put_bytes(p, value);
    return record_put_number(p, (uint64_t)header_count << 1);
}

/* A header of the record just put. */
static inline uint8_t *record_put_header(uint8_t *p, const void *name, size_t name_size,
                                         struct bytes value)
{
    p = record_put_number(p, (uint64_t)name_size << 1);
    if (name_size)
        memcpy(p, name, name_size);
    return record_put_bytes(p + name_size, value);
}

/* --- reading --- */

/* A record as it lies in its batch: pointers into the record bytes. NULL data is null. */
struct record_view {
    int64_t offset;
    int64_t timestamp;
    struct bytes key, value;
    struct bytes headers; /* the raw headers, after their number; for header_iter */
    int32_t header_count;
    int32_t index; /* of the record in its batch, from 0 */
};

/*
 * A place in the records of one batch. Made by batch_open() (open.h), or record_iter_init() when
 * the record bytes are plain. Old message sets are iterated by the same calls.
 */
struct record_iter {
    const uint8_t *at, *end;
    int64_t base_offset;
    int64_t base_timestamp;
    int64_t append_time; /* LogAppendTime: what every record has; used if `appended` */
    int32_t index;       /* of the next record */
    int32_t count;       /* records that the header promises; -1: until the bytes end */
    int8_t magic;
    bool appended;
    int32_t quick_count;      /* records of an index below this, and that begin … */
    const uint8_t *quick_end; /* … no further than here, may be tried in quick_record.h; NULL: none */
};

/* Over the plain record bytes of a v2 batch with these header fields. */
void record_iter_init(struct record_iter *it, struct bytes records, int64_t base_offset,
                      int64_t base_timestamp, int32_t count);

/*
 * The next record: CAFKA_OK, CAFKA_END after the last, or what is wrong with it; then *out is not
 * touched and the iterator stays where it is. Nothing is allocated.
 *
 * Errors: CAFKA_ERR_PROTOCOL  the content breaks the format (the CRC fits: it was written so)
 *         CAFKA_ERR_CORRUPT   an inner message's CRC or size is wrong
 */
int record_iter_next(struct record_iter *it, struct record_view *out, cafka_error *err);

/* Where the record is in its partition; the next one begins at `end`. */
static inline void record_iter_place(struct record_iter *it, struct record_view *out,
                                     int64_t timestamp_delta, int32_t offset_delta,
                                     const uint8_t *end)
{
    out->offset = (int64_t)((uint64_t)it->base_offset + (uint64_t)(int64_t)offset_delta);
    out->timestamp = it->appended
                         ? it->append_time
                         : (int64_t)((uint64_t)it->base_timestamp + (uint64_t)timestamp_delta);
    out->index = it->index++;
    it->at = end;
}

/* The headers of one record, in order. */
struct header_iter {
    const uint8_t *at, *end;
    int32_t left;
};

static inline struct header_iter record_headers(const struct record_view *view)
{
    return (struct header_iter){view->headers.data, view->headers.data + view->headers.size,
                                view->header_count};
}

/* The next header; false after the last. */
bool header_iter_next(struct header_iter *it, struct record_header *out);

#endif
