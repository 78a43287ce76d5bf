/*
 * batch.h - the record batch of Kafka 0.11 and later (magic 2): header, seal, walk, check.
 *
 * A batch is a header of 61 bytes and records behind it, compressed as one block or plain. The
 * CRC covers everything from the attributes on, so offset, length, leader epoch and magic can be
 * rewritten in place. What a producer sends is made in three steps: records are put one by one
 * (record.h), batch_seal() writes the header when the batch is closed, and batch_set_producer()
 * stamps id, epoch and sequence when it is sent, which does not read the records again.
 *
 * Reading: batch_walk_next() finds the batches in a fetch response or a log file, batch_check()
 * tells whether one is intact, batch_header_read() takes its header apart, batch_open() (open.h)
 * gives its records.
 *
 * Thread: any; pure functions. Nothing here allocates.
 */
#ifndef CAFKA_RECORD_BATCH_H
#define CAFKA_RECORD_BATCH_H

#include "record/record.h"
#include "util/bytes.h"
#include "util/error.h"

enum {
    BATCH_OFFSET_AT = 0,
    BATCH_LENGTH_AT = 8,
    BATCH_LEADER_EPOCH_AT = 12,
    BATCH_MAGIC_AT = 16,
    BATCH_CRC_AT = 17,
    BATCH_ATTRIBUTES_AT = 21, /* the CRC covers from here to the end */
    BATCH_LAST_OFFSET_DELTA_AT = 23,
    BATCH_BASE_TIMESTAMP_AT = 27,
    BATCH_MAX_TIMESTAMP_AT = 35,
    BATCH_PRODUCER_ID_AT = 43,
    BATCH_PRODUCER_EPOCH_AT = 51,
    BATCH_BASE_SEQUENCE_AT = 53,
    BATCH_RECORD_COUNT_AT = 57,
    RECORD_BATCH_OVERHEAD = 61,

    BATCH_LOG_OVERHEAD = 12, /* offset and length, which the length does not count */
    BATCH_MAGIC = 2
};

/* Bits of the attributes. */
enum {
    BATCH_CODEC_MASK = 0x07, /* enum codec of compress.h */
    BATCH_LOG_APPEND_TIME = 0x08,
    BATCH_TRANSACTIONAL = 0x10,
    BATCH_CONTROL = 0x20,
    BATCH_DELETE_HORIZON = 0x40 /* base_timestamp is the horizon, set by the log cleaner */
};

/*
 * A header taken apart. Of an old message (magic 0 or 1) base_offset is its offset (of a wrapper:
 * of its last record), both timestamps are its timestamp (-1 with magic 0), leader epoch, producer
 * and sequence -1, last_offset_delta 0, and record_count 1 or, of a wrapper, -1 (not known).
 */
struct batch_header {
    int64_t base_offset;
    int32_t length; /* bytes after the length field */
    int32_t leader_epoch;
    int8_t magic;
    uint32_t crc;
    int16_t attributes;
    int32_t last_offset_delta;
    int64_t base_timestamp, max_timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t record_count;
};

static inline size_t batch_size(const struct batch_header *h) /* on the wire, whole */
{
    return (size_t)(uint32_t)h->length + BATCH_LOG_OVERHEAD;
}

static inline int64_t batch_last_offset(const struct batch_header *h)
{
    return (int64_t)((uint64_t)h->base_offset + (uint64_t)(int64_t)h->last_offset_delta);
}

/* Sequences are 31 bits wide: 0 follows 2147483647. delta >= 0. */
static inline int32_t sequence_add(int32_t sequence, int32_t delta)
{
    return sequence > INT32_MAX - delta ? delta - (INT32_MAX - sequence) - 1 : sequence + delta;
}

static inline int32_t batch_last_sequence(const struct batch_header *h)
{
    if (h->base_sequence == -1 || h->last_offset_delta < 0)
        return h->base_sequence;
    return sequence_add(h->base_sequence, h->last_offset_delta);
}

static inline int batch_codec(const struct batch_header *h)
{
    return h->attributes & BATCH_CODEC_MASK;
}

static inline bool batch_is_control(const struct batch_header *h)
{
    return h->magic == BATCH_MAGIC && (h->attributes & BATCH_CONTROL);
}

static inline bool batch_is_transactional(const struct batch_header *h)
{
    return h->magic == BATCH_MAGIC && (h->attributes & BATCH_TRANSACTIONAL);
}

/* Nothing but defaults: magic 2, leader epoch, producer and sequence -1. */
void batch_header_init(struct batch_header *h);

/* --- writing --- */

/*
 * Write the 61 bytes in front of `records_size` bytes of records, whose CRC-32C is records_crc
 * (crc32c() over their pieces in turn). Sets h->length and h->crc.
 */
void batch_seal(struct batch_header *h, size_t records_size, uint32_t records_crc,
                uint8_t out[RECORD_BATCH_OVERHEAD]);

/* Write the fields as they are, length and CRC included. */
void batch_header_write(const struct batch_header *h, uint8_t out[RECORD_BATCH_OVERHEAD]);

/* Change id, epoch and sequence of a sealed batch and mend its CRC; the records are not read. */
void batch_set_producer(uint8_t header[RECORD_BATCH_OVERHEAD], int64_t producer_id, int16_t epoch,
                        int32_t base_sequence, size_t records_size, uint32_t records_crc);

/* In place, outside the CRC: what a leader does to a batch that it appends. */
void batch_set_offset_and_epoch(uint8_t *batch, int64_t base_offset, int32_t leader_epoch);

/*
 * The CRC of the records of a whole batch found from the CRC in its header, which must be right:
 * for batch_set_producer() when the records were not summed up before.
 */
uint32_t batch_records_crc(const uint8_t *batch, size_t size);

/*
 * A broker's word on time: set max_timestamp, and the LogAppendTime bit to `log_append_time`; mends
 * the CRC by combination. `batch` is whole and intact.
 */
void batch_set_timestamp(uint8_t *batch, size_t size, bool log_append_time, int64_t max_timestamp);

/* --- reading --- */

/* A batch, or an old message with offset and size, as it lies in a buffer. */
struct batch_slice {
    struct bytes bytes; /* whole */
    int8_t magic;       /* 0, 1 or 2 */
};

/*
 * The next batch of *rest, which then begins behind it. CAFKA_END when nothing or only a part of a
 * batch is left (fetch responses end so); *rest keeps that part. Only the length and the magic
 * are looked at. CAFKA_ERR_CORRUPT: a length that cannot be, an unknown magic.
 */
int batch_walk_next(struct bytes *rest, struct batch_slice *out, cafka_error *err);

/* Bytes that the batch at `data` takes in all, if at least 17 are there, else 0; not checked. */
size_t batch_peek_size(struct bytes data);

/* Take the header apart. CAFKA_ERR_CORRUPT if the bytes are too few for one, or the magic unknown. */
int batch_header_read(struct bytes batch, struct batch_header *out, cafka_error *err);

/* Is it intact: length and CRC? Any magic. CAFKA_ERR_CORRUPT says what is not. */
int batch_check(struct bytes batch, cafka_error *err);

#endif
