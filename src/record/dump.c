/*
 * dump.c - see dump.h.
 */
#include "record/dump.h"

#include "record/control.h"
#include "record/crc32c.h"
#include "record/legacy.h"
#include "record/open.h"

enum { LONG_BYTES = 300 }; /* more than this is shown as length and CRC */
#define DEFAULT_LIMIT ((size_t)1 << 30)

void dump_fini(struct dump *d)
{
    decompressor_free(d->decompressor);
    buffer_fini(&d->inflated);
    *d = (struct dump){0};
}

/* --- JSON --- */

static void put_int64(struct buffer *out, const char *name, int64_t value)
{
    buffer_printf(out, ",\"%s\":\"%lld\"", name, (long long)value);
}

static void put_hex(struct buffer *out, struct bytes b)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t *p = buffer_extend(out, 2 * b.size);
    for (size_t i = 0; p && i < b.size; i++) {
        *p++ = (uint8_t)digits[b.data[i] >> 4];
        *p++ = (uint8_t)digits[b.data[i] & 15];
    }
}

static void put_hex_or_null(struct buffer *out, struct bytes b)
{
    if (!b.data) {
        buffer_printf(out, "null");
        return;
    }
    buffer_put_u8(out, '"');
    put_hex(out, b);
    buffer_put_u8(out, '"');
}

static void put_contents(struct buffer *out, const char *name, struct bytes b)
{
    if (b.size > LONG_BYTES) {
        buffer_printf(out, ",\"%sLength\":%zu,\"%sCrc32c\":\"%08x\"", name, b.size, name,
                      crc32c(0, b.data, b.size));
        return;
    }
    buffer_printf(out, ",\"%sHex\":", name);
    put_hex_or_null(out, b);
}

/* Bytes of the UTF-8 sequence at `p`; 0 if there is no right one. */
static size_t utf8_length(const uint8_t *p, size_t left)
{
    if (p[0] < 0x80)
        return 1;
    size_t length = p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
    if (!length || p[0] >= 0xf5 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool too_long = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool not_a_character = (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf4 && p[1] >= 0x90);
    return too_long || not_a_character ? 0 : length;
}

/* A JSON string; what is not UTF-8 becomes U+FFFD. */
static void put_text(struct buffer *out, struct str text)
{
    const uint8_t *p = (const uint8_t *)text.data, *end = p + text.size;
    buffer_put_u8(out, '"');
    while (p < end) {
        size_t length = utf8_length(p, (size_t)(end - p));
        if (!length)
            buffer_printf(out, "\xef\xbf\xbd");
        else if (*p < 0x20)
            buffer_printf(out, "\\u%04x", *p);
        else if (*p == '"' || *p == '\\')
            buffer_printf(out, "\\%c", *p);
        else
            buffer_put(out, p, length);
        p += length ? length : 1;
    }
    buffer_put_u8(out, '"');
}

static const char *error_kind(int code)
{
    switch (code) {
    case CAFKA_ERR_CORRUPT: return "corrupt";
    case CAFKA_ERR_COMPRESSION:
    case CAFKA_ERR_UNSUPPORTED:
    case CAFKA_ERR_TOO_LARGE: return "codec";
    default: return "invalid";
    }
}

static void put_error(struct buffer *out, const char *name, const char *step, int code)
{
    buffer_printf(out, ",\"%s\":{\"step\":\"%s\",\"kind\":\"%s\"}", name, step, error_kind(code));
}

/* --- control records --- */

static void put_voters(struct buffer *out, const char *name, const struct leader_change *change,
                       struct bytes raw)
{
    struct leader_change_voter voter;
    const char *comma = "";
    buffer_printf(out, ",\"%s\":[", name);
    while (leader_change_voter_next(change, &raw, &voter)) {
        buffer_printf(out, "%s%d", comma, voter.id);
        comma = ",";
    }
    buffer_printf(out, "]");
}

static int put_control_value(struct buffer *out, int type, struct bytes value, cafka_error *err)
{
    int rc = CAFKA_OK;
    struct end_txn_marker marker;
    struct leader_change change;
    if (type == CONTROL_ABORT || type == CONTROL_COMMIT) {
        rc = end_txn_marker_read(value, &marker, err);
        if (!rc)
            buffer_printf(out, ",\"coordinatorEpoch\":%d", marker.coordinator_epoch);
    } else if (type == CONTROL_LEADER_CHANGE) {
        rc = leader_change_read(value, &change, err);
        if (!rc) {
            buffer_printf(out, ",\"leaderId\":%d", change.leader_id);
            put_voters(out, "voters", &change, change.voters);
            put_voters(out, "grantingVoters", &change, change.granting_voters);
        }
    }
    return rc;
}

static void put_control(struct buffer *out, const struct record_view *view)
{
    int16_t type = -1;
    int rc = control_type_read(view->key, &type, NULL);
    if (!rc) {
        buffer_printf(out, ",\"control\":\"%s\"", control_type_name(type));
        rc = put_control_value(out, type, view->value, NULL);
    }
    if (rc)
        put_error(out, "controlError", "control", rc);
}

/* --- records --- */

static void put_headers(struct buffer *out, const struct record_view *view)
{
    struct header_iter it = record_headers(view);
    struct record_header header;
    const char *comma = "";
    buffer_printf(out, ",\"headers\":[");
    while (header_iter_next(&it, &header)) {
        buffer_printf(out, "%s[", comma);
        put_text(out, header.name);
        buffer_put_u8(out, ',');
        put_hex_or_null(out, header.value);
        buffer_put_u8(out, ']');
        comma = ",";
    }
    buffer_put_u8(out, ']');
}

static void put_record(struct buffer *out, const struct batch_header *h,
                       const struct record_view *view)
{
    buffer_printf(out, "%s{\"offset\":\"%lld\"", view->index ? "," : "", (long long)view->offset);
    put_int64(out, "timestamp", view->timestamp);
    int64_t delta = (int64_t)((uint64_t)view->offset - (uint64_t)h->base_offset);
    if (h->base_sequence >= 0 && delta >= 0)
        buffer_printf(out, ",\"sequence\":%d", sequence_add(h->base_sequence, (int32_t)delta));
    put_contents(out, "key", view->key);
    put_contents(out, "value", view->value);
    put_headers(out, view);
    if (batch_is_control(h))
        put_control(out, view);
    buffer_put_u8(out, '}');
}

/*
 * Records up to the first error. `opened` is batch_open()'s result: when the codec failed half way,
 * the records that came out before are shown, and what ends them is the codec's error. The last
 * record counts only together with the end of the data.
 */
static int put_records(struct buffer *out, const struct batch_header *h, struct record_iter *it,
                       int opened, cafka_error *err)
{
    struct record_view view;
    int rc = opened;
    buffer_printf(out, ",\"records\":[");
    if (opened == CAFKA_OK || (opened == CAFKA_ERR_COMPRESSION && h->magic == BATCH_MAGIC)) {
        cafka_error *told = opened ? NULL : err;
        while (!(rc = record_iter_next(it, &view, told))) {
            if (opened && view.index + 1 == h->record_count)
                break;
            put_record(out, h, &view);
        }
        rc = opened ? opened : rc == CAFKA_END ? CAFKA_OK : rc;
    }
    buffer_put_u8(out, ']');
    return rc;
}

/* --- batches --- */

static const char *timestamp_type(const struct batch_header *h)
{
    if (batch_codec(h) >= CODEC_COUNT)
        return "?"; /* Kafka cannot say either */
    if (h->magic == 0)
        return "NoTimestampType";
    return h->attributes & BATCH_LOG_APPEND_TIME ? "LogAppendTime" : "CreateTime";
}

static void put_header(struct buffer *out, const struct batch_header *h)
{
    buffer_printf(out, "{\"magic\":%d,\"codec\":\"%s\",\"timestampType\":\"%s\"", h->magic,
                  codec_name(batch_codec(h)), timestamp_type(h));
    if (h->magic < BATCH_MAGIC) {
        put_int64(out, "offset", h->base_offset);
        buffer_printf(out, ",\"size\":%d,\"crc\":\"%08x\",\"attributes\":%d", h->length, h->crc,
                      h->attributes);
        if (h->magic == 1)
            put_int64(out, "timestamp", h->base_timestamp);
    } else {
        put_int64(out, "baseOffset", h->base_offset);
        buffer_printf(out, ",\"batchLength\":%d,\"partitionLeaderEpoch\":%d,\"crc\":\"%08x\"",
                      h->length, h->leader_epoch, h->crc);
        buffer_printf(out, ",\"attributes\":%d,\"lastOffsetDelta\":%d", h->attributes,
                      h->last_offset_delta);
        put_int64(out, "baseTimestamp", h->base_timestamp);
        put_int64(out, "maxTimestamp", h->max_timestamp);
        put_int64(out, "producerId", h->producer_id);
        buffer_printf(out, ",\"producerEpoch\":%d,\"baseSequence\":%d,\"recordsCount\":%d",
                      h->producer_epoch, h->base_sequence, h->record_count);
        buffer_printf(out, ",\"transactional\":%s,\"control\":%s",
                      batch_is_transactional(h) ? "true" : "false",
                      batch_is_control(h) ? "true" : "false");
        if (h->attributes & BATCH_DELETE_HORIZON)
            put_int64(out, "deleteHorizonMs", h->base_timestamp);
        put_int64(out, "lastOffset", batch_last_offset(h));
        buffer_printf(out, ",\"lastSequence\":%d", batch_last_sequence(h));
    }
    buffer_printf(out, ",\"sizeInBytes\":%zu", batch_size(h));
}

/* Offsets of an old entry; a wrapper must have been opened for its first one. */
static void put_legacy_offsets(struct buffer *out, const struct batch_header *h,
                               const struct record_iter *it)
{
    int64_t first = h->base_offset;
    if (batch_is_compressed(h))
        first = (int64_t)((uint64_t)it->base_offset + load_be64(it->at));
    put_int64(out, "firstOffset", first);
    put_int64(out, "lastOffset", h->base_offset);
}

int dump_batch(struct dump *d, struct bytes batch, bool with_records, struct buffer *out,
               cafka_error *err)
{
    struct batch_header h;
    int rc = batch_header_read(batch, &h, err);
    if (!rc && !d->decompressor)
        rc = decompressor_new(&d->decompressor, err);
    if (rc)
        return rc;
    put_header(out, &h);
    bool readable = batch_codec(&h) < CODEC_COUNT;
    int valid = CAFKA_OK;
    if (readable) {
        valid = batch_check(batch, err);
        buffer_printf(out, ",\"valid\":%s", valid ? "false" : "true");
        if (valid)
            put_error(out, "error", "valid", valid);
    } else {
        valid =
            error_set(err, CAFKA_ERR_PROTOCOL, "the batch at offset %lld has the unknown codec %d",
                      (long long)h.base_offset, batch_codec(&h));
        put_error(out, "error", "header", valid);
    }
    int records = CAFKA_OK;
    if (with_records || h.magic < BATCH_MAGIC) {
        struct record_iter it = {0};
        int opened = batch_open(batch, &h, d->decompressor, d->limit ? d->limit : DEFAULT_LIMIT,
                                &d->inflated, &it, err);
        if (opened == CAFKA_ERR_MEMORY)
            return opened;
        if (h.magic < BATCH_MAGIC && !opened)
            put_legacy_offsets(out, &h, &it);
        if (with_records)
            records = put_records(out, &h, &it, opened, err);
        if (records)
            put_error(out, valid ? "recordsError" : "error", "records", records);
    }
    buffer_put_u8(out, '}');
    if (out->failed)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the text of a batch");
    return valid ? valid : records;
}

/* --- small files --- */

void dump_offset_index_entry(struct buffer *out, struct offset_index_entry entry)
{
    buffer_printf(out, "{\"offset\":\"%lld\",\"position\":%d}", (long long)entry.offset,
                  entry.position);
}

void dump_time_index_entry(struct buffer *out, struct time_index_entry entry)
{
    buffer_printf(out, "{\"timestamp\":\"%lld\",\"offset\":\"%lld\"}", (long long)entry.timestamp,
                  (long long)entry.offset);
}

void dump_txn_index_entry(struct buffer *out, const struct txn_index_entry *entry)
{
    buffer_printf(out, "{\"version\":%d", entry->version);
    put_int64(out, "producerId", entry->producer_id);
    put_int64(out, "firstOffset", entry->first_offset);
    put_int64(out, "lastOffset", entry->last_offset);
    put_int64(out, "lastStableOffset", entry->last_stable_offset);
    buffer_put_u8(out, '}');
}

void dump_snapshot_entry(struct buffer *out, const struct snapshot_entry *entry)
{
    buffer_printf(out, "{\"producerId\":\"%lld\",\"epoch\":%d,\"lastSequence\":%d",
                  (long long)entry->producer_id, entry->epoch, entry->last_sequence);
    put_int64(out, "lastOffset", entry->last_offset);
    buffer_printf(out, ",\"offsetDelta\":%d", entry->offset_delta);
    put_int64(out, "timestamp", entry->timestamp);
    buffer_printf(out, ",\"coordinatorEpoch\":%d", entry->coordinator_epoch);
    put_int64(out, "currentTxnFirstOffset", entry->current_txn_first_offset);
    buffer_put_u8(out, '}');
}
