/*
 * batch.c - see batch.h.
 */
#include "record/batch.h"

#include <zlib.h>

#include "record/crc32c.h"
#include "record/legacy.h"

enum {
    LEGACY_MAGIC_AT = 16,
    LEGACY_CRC_AT = 12,
    LEGACY_ATTRIBUTES_AT = 17,
    LEGACY_TIMESTAMP_AT = 18
};

void batch_header_init(struct batch_header *h)
{
    *h = (struct batch_header){
        .leader_epoch = -1,
        .magic = BATCH_MAGIC,
        .last_offset_delta = -1,
        .producer_id = -1,
        .producer_epoch = -1,
        .base_sequence = -1,
    };
}

void batch_header_write(const struct batch_header *h, uint8_t out[RECORD_BATCH_OVERHEAD])
{
    store_be64(out + BATCH_OFFSET_AT, (uint64_t)h->base_offset);
    store_be32(out + BATCH_LENGTH_AT, (uint32_t)h->length);
    store_be32(out + BATCH_LEADER_EPOCH_AT, (uint32_t)h->leader_epoch);
    out[BATCH_MAGIC_AT] = (uint8_t)h->magic;
    store_be32(out + BATCH_CRC_AT, h->crc);
    store_be16(out + BATCH_ATTRIBUTES_AT, (uint16_t)h->attributes);
    store_be32(out + BATCH_LAST_OFFSET_DELTA_AT, (uint32_t)h->last_offset_delta);
    store_be64(out + BATCH_BASE_TIMESTAMP_AT, (uint64_t)h->base_timestamp);
    store_be64(out + BATCH_MAX_TIMESTAMP_AT, (uint64_t)h->max_timestamp);
    store_be64(out + BATCH_PRODUCER_ID_AT, (uint64_t)h->producer_id);
    store_be16(out + BATCH_PRODUCER_EPOCH_AT, (uint16_t)h->producer_epoch);
    store_be32(out + BATCH_BASE_SEQUENCE_AT, (uint32_t)h->base_sequence);
    store_be32(out + BATCH_RECORD_COUNT_AT, (uint32_t)h->record_count);
}

/* The CRC of a batch whose header bytes are in place, from the CRC of its records. */
static uint32_t header_crc(const uint8_t *header, size_t records_size, uint32_t records_crc)
{
    uint32_t crc =
        crc32c(0, header + BATCH_ATTRIBUTES_AT, RECORD_BATCH_OVERHEAD - BATCH_ATTRIBUTES_AT);
    return crc32c_combine(crc, records_crc, records_size);
}

void batch_seal(struct batch_header *h, size_t records_size, uint32_t records_crc,
                uint8_t out[RECORD_BATCH_OVERHEAD])
{
    h->magic = BATCH_MAGIC;
    h->length = (int32_t)(records_size + RECORD_BATCH_OVERHEAD - BATCH_LOG_OVERHEAD);
    batch_header_write(h, out);
    h->crc = header_crc(out, records_size, records_crc);
    store_be32(out + BATCH_CRC_AT, h->crc);
}

void batch_set_producer(uint8_t header[RECORD_BATCH_OVERHEAD], int64_t producer_id, int16_t epoch,
                        int32_t base_sequence, size_t records_size, uint32_t records_crc)
{
    store_be64(header + BATCH_PRODUCER_ID_AT, (uint64_t)producer_id);
    store_be16(header + BATCH_PRODUCER_EPOCH_AT, (uint16_t)epoch);
    store_be32(header + BATCH_BASE_SEQUENCE_AT, (uint32_t)base_sequence);
    store_be32(header + BATCH_CRC_AT, header_crc(header, records_size, records_crc));
}

void batch_set_offset_and_epoch(uint8_t *batch, int64_t base_offset, int32_t leader_epoch)
{
    store_be64(batch + BATCH_OFFSET_AT, (uint64_t)base_offset);
    store_be32(batch + BATCH_LEADER_EPOCH_AT, (uint32_t)leader_epoch);
}

uint32_t batch_records_crc(const uint8_t *batch, size_t size)
{
    /* crc(header, records) = crc(header) shifted + crc(records), and + is its own inverse */
    return header_crc(batch, size - RECORD_BATCH_OVERHEAD, load_be32(batch + BATCH_CRC_AT));
}

void batch_set_timestamp(uint8_t *batch, size_t size, bool log_append_time, int64_t max_timestamp)
{
    uint32_t records_crc = batch_records_crc(batch, size);
    uint16_t attributes = load_be16(batch + BATCH_ATTRIBUTES_AT);
    attributes = (uint16_t)(log_append_time ? attributes | BATCH_LOG_APPEND_TIME
                                            : attributes & ~BATCH_LOG_APPEND_TIME);
    store_be16(batch + BATCH_ATTRIBUTES_AT, attributes);
    store_be64(batch + BATCH_MAX_TIMESTAMP_AT, (uint64_t)max_timestamp);
    store_be32(batch + BATCH_CRC_AT, header_crc(batch, size - RECORD_BATCH_OVERHEAD, records_crc));
}

size_t batch_peek_size(struct bytes data)
{
    if (data.size <= BATCH_MAGIC_AT)
        return 0;
    return (size_t)load_be32(data.data + BATCH_LENGTH_AT) + BATCH_LOG_OVERHEAD;
}

/* The least that the length field may say: an old message's overhead, or a header's rest. */
static int32_t least_length(int8_t magic)
{
    return magic == BATCH_MAGIC ? RECORD_BATCH_OVERHEAD - BATCH_LOG_OVERHEAD : LEGACY_OVERHEAD_V0;
}

/* What is not whole ends the walk without an error, whatever its length says, as Kafka's reader has it. */
int batch_walk_next(struct bytes *rest, struct batch_slice *out, cafka_error *err)
{
    if (rest->size < BATCH_LOG_OVERHEAD)
        return CAFKA_END;
    int32_t length = (int32_t)load_be32(rest->data + BATCH_LENGTH_AT);
    if (length < LEGACY_OVERHEAD_V0)
        return error_set(err, CAFKA_ERR_CORRUPT, "a batch cannot have the length %d", length);
    if (rest->size <= BATCH_MAGIC_AT)
        return CAFKA_END;
    int8_t magic = (int8_t)rest->data[BATCH_MAGIC_AT];
    if (magic < 0 || magic > BATCH_MAGIC)
        return error_set(err, CAFKA_ERR_CORRUPT, "a batch has the unknown magic %d", magic);
    if (length > INT32_MAX - BATCH_LOG_OVERHEAD)
        return error_set(err, CAFKA_ERR_CORRUPT, "a batch cannot have the length %d", length);
    size_t size = (size_t)length + BATCH_LOG_OVERHEAD;
    if (size > rest->size)
        return CAFKA_END;
    if (length < least_length(magic))
        return error_set(err, CAFKA_ERR_CORRUPT, "a batch of magic %d cannot have the length %d",
                         magic, length);
    *out = (struct batch_slice){bytes_of(rest->data, size), magic};
    rest->data += size;
    rest->size -= size;
    return CAFKA_OK;
}

static void legacy_header_read(const uint8_t *p, struct batch_header *out)
{
    batch_header_init(out);
    out->base_offset = (int64_t)load_be64(p);
    out->length = (int32_t)load_be32(p + BATCH_LENGTH_AT);
    out->magic = (int8_t)p[LEGACY_MAGIC_AT];
    out->crc = load_be32(p + LEGACY_CRC_AT);
    out->attributes = (int8_t)p[LEGACY_ATTRIBUTES_AT];
    out->last_offset_delta = 0;
    out->base_timestamp = out->magic ? (int64_t)load_be64(p + LEGACY_TIMESTAMP_AT) : -1;
    out->max_timestamp = out->base_timestamp;
    out->record_count = out->attributes & BATCH_CODEC_MASK ? -1 : 1;
}

int batch_header_read(struct bytes batch, struct batch_header *out, cafka_error *err)
{
    const uint8_t *p = batch.data;
    int8_t magic = batch.size > BATCH_MAGIC_AT ? (int8_t)p[BATCH_MAGIC_AT] : -1;
    if (magic < 0 || magic > BATCH_MAGIC)
        return error_set(err, CAFKA_ERR_CORRUPT, "%zu bytes hold no batch header of a known magic",
                         batch.size);
    if (batch.size < (size_t)least_length(magic) + BATCH_LOG_OVERHEAD)
        return error_set(err, CAFKA_ERR_CORRUPT, "%zu bytes hold no header of magic %d", batch.size,
                         magic);
    if (magic < BATCH_MAGIC) {
        legacy_header_read(p, out);
        return CAFKA_OK;
    }
    out->base_offset = (int64_t)load_be64(p + BATCH_OFFSET_AT);
    out->length = (int32_t)load_be32(p + BATCH_LENGTH_AT);
    out->leader_epoch = (int32_t)load_be32(p + BATCH_LEADER_EPOCH_AT);
    out->magic = magic;
    out->crc = load_be32(p + BATCH_CRC_AT);
    out->attributes = (int16_t)load_be16(p + BATCH_ATTRIBUTES_AT);
    out->last_offset_delta = (int32_t)load_be32(p + BATCH_LAST_OFFSET_DELTA_AT);
    out->base_timestamp = (int64_t)load_be64(p + BATCH_BASE_TIMESTAMP_AT);
    out->max_timestamp = (int64_t)load_be64(p + BATCH_MAX_TIMESTAMP_AT);
    out->producer_id = (int64_t)load_be64(p + BATCH_PRODUCER_ID_AT);
    out->producer_epoch = (int16_t)load_be16(p + BATCH_PRODUCER_EPOCH_AT);
    out->base_sequence = (int32_t)load_be32(p + BATCH_BASE_SEQUENCE_AT);
    out->record_count = (int32_t)load_be32(p + BATCH_RECORD_COUNT_AT);
    return CAFKA_OK;
}

int batch_check(struct bytes batch, cafka_error *err)
{
    struct batch_header h;
    int rc = batch_header_read(batch, &h, err);
    if (rc)
        return rc;
    if (h.length < 0 || batch_size(&h) != batch.size)
        return error_set(err, CAFKA_ERR_CORRUPT,
                         "the batch at offset %lld says %d bytes but has %zu",
                         (long long)h.base_offset, h.length, batch.size);
    if (h.magic == 1 && h.length < LEGACY_OVERHEAD_V1)
        return error_set(err, CAFKA_ERR_CORRUPT, "the message at offset %lld is only %d bytes long",
                         (long long)h.base_offset, h.length);
    uint32_t crc =
        h.magic == BATCH_MAGIC
            ? crc32c(0, batch.data + BATCH_ATTRIBUTES_AT, batch.size - BATCH_ATTRIBUTES_AT)
            : (uint32_t)crc32(0, batch.data + LEGACY_MAGIC_AT, (uInt)(batch.size - LEGACY_MAGIC_AT));
    if (crc != h.crc)
        return error_set(err, CAFKA_ERR_CORRUPT,
                         "the batch at offset %lld has the CRC %08x, its bytes have %08x",
                         (long long)h.base_offset, h.crc, crc);
    return CAFKA_OK;
}
