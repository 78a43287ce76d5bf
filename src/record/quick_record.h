/*
 * quick_record.h - the record that nearly all are, read without a look at the end for each byte.
 *
 * Such a record has no headers and no number of more than three bytes, is not the last of its batch,
 * and begins so far in front of the end that the numbers up to its key can be read unseen:
 *
 *     length  attributes  timestamp  offset  key's size  key  value's size  value  0
 *
 * Sizes are compared once they are all known: the value must end exactly one byte, the number of
 * headers, in front of the end. Everything else is left to record_iter_next() in record.c, which
 * also says what is wrong with a record.
 *
 * Inline, since this is the consumer's path per record.
 *
 * Owner:  as record.h.
 * Thread: any; pure functions.
 */
#ifndef CAFKA_RECORD_QUICK_RECORD_H
#define CAFKA_RECORD_QUICK_RECORD_H

#include "record/record.h"

#define QUICK_INLINE static inline __attribute__((always_inline))

/* A number of at most three bytes; false if it has more. */
QUICK_INLINE bool quick_number(const uint8_t **at, uint32_t *out)
{
    const uint8_t *p = *at;
    uint32_t n = *p++;
    if (n & 0x80) {
        n += ((uint32_t)*p++ << 7) - 0x80;
        if (n & 0x4000) {
            n += ((uint32_t)*p++ << 14) - 0x4000;
            if (n & 0x200000)
                return false;
        }
    }
    *at = p;
    *out = n;
    return true;
}

/* A number, and the bytes behind it that it promises, unchecked; of the negative only -1 is null here. */
QUICK_INLINE bool quick_bytes(const uint8_t **at, struct bytes *out)
{
    uint32_t n;
    if (!quick_number(at, &n))
        return false;
    *out = n & 1 ? (struct bytes){NULL, 0} : (struct bytes){*at, n >> 1};
    return !(n & 1) || n == 1;
}

/* What the iterator has to know: set once the bytes and the number of records are. */
static inline void record_iter_allow_quick(struct record_iter *it)
{
    enum { AS_FAR_AS_KEY = 13 }; /* four numbers of three bytes, and the attributes */
    if (it->end - it->at < AS_FAR_AS_KEY)
        return;
    it->quick_end = it->end - AS_FAR_AS_KEY;
    it->quick_count = it->count - 1;
}

/*
 * The next record if it is such a one, as record_iter_next() would give it. False if it is not, or
 * not a right one; then nothing has been written and record_iter_next() is to be asked.
 */
QUICK_INLINE bool record_iter_next_quick(struct record_iter *it, struct record_view *out)
{
    const uint8_t *p = it->at;
    uint32_t length, timestamp, offset;
    struct bytes key, value;
    if (p > it->quick_end || it->index >= it->quick_count)
        return false;
    if (!quick_number(&p, &length) || (length & 1) || (ptrdiff_t)(length >> 1) > it->end - p)
        return false;
    const uint8_t *end = p + (length >> 1);
    p++; /* attributes: none are defined */
    if (!quick_number(&p, &timestamp) || !quick_number(&p, &offset) || !quick_bytes(&p, &key) ||
        (ptrdiff_t)key.size > end - p)
        return false;
    p += key.size;
    if (it->end - p < 3 || !quick_bytes(&p, &value) || (ptrdiff_t)value.size + 1 != end - p ||
        end[-1])
        return false;
    out->key = key;
    out->value = value;
    out->headers = (struct bytes){end, 0};
    out->header_count = 0;
    record_iter_place(it, out, unzigzag32(timestamp), unzigzag32(offset), end);
    return true;
}

#undef QUICK_INLINE

#endif
