/*
 * record.c - reading records; see record.h. Writing is inline there, and what most records are in
 * quick_record.h.
 */
#include "record/record.h"

#include "record/batch.h"
#include "record/legacy.h"
#include "record/quick_record.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* A zigzag number of at most 5 bytes. NULL when the bytes end or the number is too long. */
static inline const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, int32_t *out)
{
    uint64_t n;
    if (LIKELY(p < end && *p < 0x80))
        n = *p++;
    else if (!(p = uvarint_get(p, end, 5, &n)))
        return NULL;
    *out = unzigzag32((uint32_t)n);
    return p;
}

static inline const uint8_t *get_varlong(const uint8_t *p, const uint8_t *end, int64_t *out)
{
    uint64_t n;
    if (!(p = uvarint_get(p, end, 10, &n)))
        return NULL;
    *out = unzigzag64(n);
    return p;
}

/* A length and as many bytes; any negative length is null. */
static inline const uint8_t *get_bytes(const uint8_t *p, const uint8_t *end, struct bytes *out)
{
    int32_t length;
    if (UNLIKELY(!(p = get_varint(p, end, &length))))
        return NULL;
    if (length < 0) {
        *out = (struct bytes){NULL, 0};
        return p;
    }
    if (UNLIKELY(length > end - p))
        return NULL;
    *out = (struct bytes){p, (size_t)length};
    return p + length;
}

/* Walk over headers to find where they end; NULL if one breaks the format. */
static const uint8_t *skip_headers(const uint8_t *p, const uint8_t *end, int32_t count)
{
    for (; count > 0; count--) {
        struct bytes part;
        if (!(p = get_bytes(p, end, &part)) || !part.data)
            return NULL; /* a header has a name */
        if (!(p = get_bytes(p, end, &part)))
            return NULL;
    }
    return p;
}

bool header_iter_next(struct header_iter *it, struct record_header *out)
{
    struct bytes name;
    if (it->left <= 0)
        return false;
    const uint8_t *p = get_bytes(it->at, it->end, &name);
    if (!p || !name.data || !(p = get_bytes(p, it->end, &out->value)))
        return false; /* not of a record that record_iter_next() gave */
    out->name = (struct str){(const char *)name.data, name.size};
    it->at = p;
    it->left--;
    return true;
}

void record_iter_init(struct record_iter *it, struct bytes records, int64_t base_offset,
                      int64_t base_timestamp, int32_t count)
{
    *it = (struct record_iter){
        .at = records.data,
        .end = records.data + records.size,
        .base_offset = base_offset,
        .base_timestamp = base_timestamp,
        .count = count,
        .magic = BATCH_MAGIC,
    };
    record_iter_allow_quick(it);
}

static int bad_record(const struct record_iter *it, cafka_error *err, const char *what)
{
    return error_set(err, CAFKA_ERR_PROTOCOL,
                     "record %d of %d of the batch at offset %lld breaks the format: %s", it->index,
                     it->count, (long long)it->base_offset, what);
}

static __attribute__((noinline)) int next_any(struct record_iter *it, struct record_view *out,
                                              cafka_error *err)
{
    int32_t length;
    const uint8_t *p = get_varint(it->at, it->end, &length);
    if (UNLIKELY(!p))
        return bad_record(it, err, it->at == it->end ? "the bytes end before it" : "its length");
    if (UNLIKELY(length < 1 || length > it->end - p))
        return bad_record(it, err, "its length is beyond the batch, or below 1");
    const uint8_t *end = p + length;

    int64_t timestamp_delta;
    int32_t offset_delta, header_count;
    struct bytes key, value;
    p++; /* attributes: none are defined */
    if (UNLIKELY(!(p = get_varlong(p, end, &timestamp_delta))))
        return bad_record(it, err, "its timestamp");
    if (UNLIKELY(!(p = get_varint(p, end, &offset_delta))))
        return bad_record(it, err, "its offset");
    if (UNLIKELY(!(p = get_bytes(p, end, &key))))
        return bad_record(it, err, "its key is longer than the record");
    if (UNLIKELY(!(p = get_bytes(p, end, &value))))
        return bad_record(it, err, "its value is longer than the record");
    if (UNLIKELY(!(p = get_varint(p, end, &header_count)) || header_count < 0 ||
                 header_count > end - p))
        return bad_record(it, err, "its number of headers");
    const uint8_t *headers = p;
    if (header_count && !(p = skip_headers(p, end, header_count)))
        return bad_record(it, err, "a header without name or longer than the record");
    if (UNLIKELY(p != end))
        return bad_record(it, err, "bytes are left at its end");
    if (UNLIKELY(it->index + 1 == it->count && end != it->end))
        return bad_record(it, err, "it is the last one, but bytes follow");

    out->key = key;
    out->value = value;
    out->headers = (struct bytes){headers, (size_t)(end - headers)};
    out->header_count = header_count;
    record_iter_place(it, out, timestamp_delta, offset_delta, end);
    return CAFKA_OK;
}

int record_iter_next(struct record_iter *it, struct record_view *out, cafka_error *err)
{
    if (UNLIKELY(it->magic != BATCH_MAGIC))
        return legacy_iter_next(it, out, err);
    if (it->index >= it->count)
        return CAFKA_END;
    return LIKELY(record_iter_next_quick(it, out)) ? CAFKA_OK : next_any(it, out, err);
}
