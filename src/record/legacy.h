/*
 * legacy.h - message sets of Kafka 0.8 to 0.10 (magic 0 and 1): read, and written for tests.
 *
 * A set is a bare sequence of entries: offset, size, message. Compression wraps a whole inner set
 * into the value of one message, one level deep. batch_walk_next(), batch_check(),
 * batch_header_read() and batch_open() take entries of this kind too; this header is for those
 * who need more.
 */
#ifndef CAFKA_RECORD_LEGACY_H
#define CAFKA_RECORD_LEGACY_H

#include "record/batch.h"
#include "record/compress.h"

enum {
    LEGACY_OVERHEAD_V0 = 14, /* of a message, without offset and size */
    LEGACY_OVERHEAD_V1 = 22,
    LEGACY_LOG_APPEND_TIME = 0x08 /* magic 1 */
};

/* One message taken apart; pointers into the entry. */
struct legacy_message {
    int64_t offset; /* as written: relative inside a wrapper of magic 1 */
    int32_t size;
    uint32_t crc;
    int8_t magic;
    int8_t attributes;
    int64_t timestamp; /* -1 with magic 0 */
    struct bytes key, value;
};

/* Take apart one whole entry (offset and size included). CAFKA_ERR_CORRUPT, CAFKA_ERR_PROTOCOL. */
int legacy_read(struct bytes entry, struct legacy_message *out, cafka_error *err);

/* Append one entry; size and CRC are made. Memory failure sticks in `out`. */
void legacy_put(struct buffer *out, const struct legacy_message *message);

/* What batch_open() does with such an entry, and record_iter_next() with its iterator. */
int legacy_open(struct bytes entry, struct decompressor *d, size_t limit, struct buffer *inflated,
                struct record_iter *it, cafka_error *err);
int legacy_iter_next(struct record_iter *it, struct record_view *out, cafka_error *err);

#endif
