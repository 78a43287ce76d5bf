/*
 * legacy.c - see legacy.h.
 */
#include "record/legacy.h"

#include <zlib.h>

enum { CRC_AT = 12, MAGIC_AT = 16, ATTRIBUTES_AT = 17 };

/* A length of 4 bytes and as many bytes; -1 is null. False if they are not there. */
static bool take_bytes(struct reader *r, bool any_negative, struct bytes *out)
{
    int32_t length = (int32_t)reader_be32(r);
    *out = (struct bytes){NULL, 0};
    if (reader_failed(r) || length < -1)
        return !reader_failed(r) && any_negative;
    if (length >= 0)
        *out = reader_take(r, (size_t)length);
    return !reader_failed(r);
}

int legacy_read(struct bytes entry, struct legacy_message *out, cafka_error *err)
{
    if (entry.size < BATCH_LOG_OVERHEAD + LEGACY_OVERHEAD_V0)
        return error_set(err, CAFKA_ERR_CORRUPT, "a message of %zu bytes is too short", entry.size);
    struct reader r = reader_of(entry.data, entry.size);
    struct legacy_message m = {
        .offset = (int64_t)reader_be64(&r),
        .size = (int32_t)reader_be32(&r),
        .crc = reader_be32(&r),
        .magic = (int8_t)reader_u8(&r),
        .attributes = (int8_t)reader_u8(&r),
        .timestamp = -1,
    };
    if (m.magic != 0 && m.magic != 1)
        return error_set(err, CAFKA_ERR_PROTOCOL, "a message in an old set has the magic %d",
                         m.magic);
    if (m.magic == 1)
        m.timestamp = (int64_t)reader_be64(&r);
    /* Kafka reads any negative value length as null, but cannot read such a key length. */
    if (!take_bytes(&r, false, &m.key) || !take_bytes(&r, true, &m.value))
        return error_set(err, CAFKA_ERR_PROTOCOL,
                         "the message at offset %lld has a key or value longer than itself",
                         (long long)m.offset);
    *out = m;
    return CAFKA_OK;
}

static void put_bytes(struct buffer *out, struct bytes b)
{
    buffer_put_be32(out, b.data ? (uint32_t)b.size : UINT32_MAX);
    if (b.data)
        buffer_put(out, b.data, b.size);
}

void legacy_put(struct buffer *out, const struct legacy_message *message)
{
    size_t start = out->size;
    buffer_put_be64(out, (uint64_t)message->offset);
    buffer_put_be32(out, 0);
    buffer_put_be32(out, 0);
    buffer_put_u8(out, (uint8_t)message->magic);
    buffer_put_u8(out, (uint8_t)message->attributes);
    if (message->magic == 1)
        buffer_put_be64(out, (uint64_t)message->timestamp);
    put_bytes(out, message->key);
    put_bytes(out, message->value);
    if (out->failed)
        return;
    uint8_t *entry = out->data + start;
    size_t size = out->size - start;
    store_be32(entry + BATCH_LENGTH_AT, (uint32_t)(size - BATCH_LOG_OVERHEAD));
    store_be32(entry + CRC_AT, (uint32_t)crc32(0, entry + MAGIC_AT, (uInt)(size - MAGIC_AT)));
}

/*
 * The next message of a set. A cut one at the end is dropped, as brokers of old cut their answers
 * anywhere.
 */
static int next_entry(const uint8_t *at, const uint8_t *end, struct bytes *out, cafka_error *err)
{
    if (end - at < BATCH_LOG_OVERHEAD)
        return CAFKA_END;
    int32_t size = (int32_t)load_be32(at + BATCH_LENGTH_AT);
    if (size < LEGACY_OVERHEAD_V0)
        return error_set(err, CAFKA_ERR_CORRUPT, "a message in an old set has the size %d", size);
    if (size > end - at - BATCH_LOG_OVERHEAD)
        return CAFKA_END;
    *out = bytes_of(at, (size_t)size + BATCH_LOG_OVERHEAD);
    return CAFKA_OK;
}

/*
 * Look over the inner set: what is the offset of its last message? Of compressed inner messages only
 * one in front is found here; the records before another one are read first.
 */
static int last_inner_offset(struct bytes set, int64_t *out, cafka_error *err)
{
    if (!set.size)
        return error_set(err, CAFKA_ERR_PROTOCOL, "a compressed message set is empty");
    const uint8_t *at = set.data, *end = set.data + set.size;
    struct bytes entry = {NULL, 0};
    bool any = false;
    int rc;
    while (!(rc = next_entry(at, end, &entry, err))) {
        int8_t magic = (int8_t)entry.data[MAGIC_AT];
        if (magic != 0 && magic != 1)
            return error_set(err, CAFKA_ERR_PROTOCOL, "an inner message has the magic %d", magic);
        if (!any && entry.data[ATTRIBUTES_AT] & BATCH_CODEC_MASK)
            return error_set(err, CAFKA_ERR_PROTOCOL, "an inner message is compressed once more");
        *out = (int64_t)load_be64(entry.data);
        any = true;
        at += entry.size;
    }
    if (rc != CAFKA_END)
        return rc;
    return any ? CAFKA_OK : error_set(err, CAFKA_ERR_PROTOCOL, "a compressed message set is empty");
}

/*
 * Inner offsets: absolute with magic 0, relative with magic 1, where the wrapper has the offset of
 * the last. A wrapper offset of 0 means that its producer never set it.
 */
static int find_base(const struct legacy_message *wrapper, int64_t last_inner, int64_t *base,
                     cafka_error *err)
{
    *base = 0;
    if (wrapper->magic == 0 || wrapper->offset == 0)
        return CAFKA_OK;
    if (wrapper->offset < last_inner)
        return error_set(err, CAFKA_ERR_PROTOCOL,
                         "a compressed message set at offset %lld ends with the inner offset %lld",
                         (long long)wrapper->offset, (long long)last_inner);
    *base = (int64_t)((uint64_t)wrapper->offset - (uint64_t)last_inner);
    return CAFKA_OK;
}

int legacy_open(struct bytes entry, struct decompressor *d, size_t limit, struct buffer *inflated,
                struct record_iter *it, cafka_error *err)
{
    struct batch_header h;
    struct legacy_message m;
    int rc = batch_header_read(entry, &h, err);
    if (rc)
        return rc;
    struct record_iter made = {.at = entry.data,
                               .end = entry.data + entry.size,
                               .count = -1,
                               .magic = h.magic};
    int codec = batch_codec(&h);
    if (codec == CODEC_NONE) {
        *it = made;
        return CAFKA_OK;
    }
    if (codec == CODEC_ZSTD || codec >= CODEC_COUNT)
        return error_set(err, CAFKA_ERR_PROTOCOL, "an old message set has the codec %d", codec);
    rc = legacy_read(entry, &m, err);
    if (rc)
        return rc;
    if (!m.value.data)
        return error_set(err, CAFKA_ERR_PROTOCOL, "a compressed message set is null");
    buffer_clear(inflated);
    rc = decompressor_run(d, codec, m.magic, m.value, limit, inflated, err);
    if (rc)
        return rc;
    int64_t last = 0;
    rc = last_inner_offset(bytes_of(inflated->data, inflated->size), &last, err);
    if (!rc)
        rc = find_base(&m, last, &made.base_offset, err);
    if (rc)
        return rc;
    made.at = inflated->data;
    made.end = inflated->data + inflated->size;
    made.appended = m.magic == 1 && (m.attributes & LEGACY_LOG_APPEND_TIME);
    made.append_time = m.timestamp;
    *it = made;
    return CAFKA_OK;
}

int legacy_iter_next(struct record_iter *it, struct record_view *out, cafka_error *err)
{
    struct bytes entry = {NULL, 0};
    struct legacy_message m;
    int rc = next_entry(it->at, it->end, &entry, err);
    if (!rc && entry.data[ATTRIBUTES_AT] & BATCH_CODEC_MASK)
        return error_set(err, CAFKA_ERR_PROTOCOL, "an inner message is compressed once more");
    if (!rc)
        rc = batch_check(entry, err);
    if (!rc)
        rc = legacy_read(entry, &m, err);
    if (rc)
        return rc;
    *out = (struct record_view){
        .offset = (int64_t)((uint64_t)it->base_offset + (uint64_t)m.offset),
        .timestamp = it->appended && m.magic == 1 ? it->append_time : m.timestamp,
        .key = m.key,
        .value = m.value,
        .headers = bytes_of(entry.data, 0),
        .index = it->index++,
    };
    it->at += entry.size;
    return CAFKA_OK;
}
