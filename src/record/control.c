/*
 * control.c - see control.h.
 */
#include "record/control.h"

#include "record/builder.h"
#include "record/crc32c.h"

const char *control_type_name(int type)
{
    static const char *const names[] = {
        "ABORT",           "COMMIT",        "LEADER_CHANGE", "SNAPSHOT_HEADER",
        "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS",
    };
    return type >= 0 && type < (int)(sizeof names / sizeof *names) ? names[type] : "UNKNOWN";
}

int control_type_read(struct bytes key, int16_t *type, cafka_error *err)
{
    struct reader r = reader_of(key.data, key.size);
    int16_t version = (int16_t)reader_be16(&r);
    int16_t read = (int16_t)reader_be16(&r);
    if (reader_failed(&r))
        return error_set(err, CAFKA_ERR_PROTOCOL, "a control record's key has only %zu bytes",
                         key.size);
    if (version < 0)
        return error_set(err, CAFKA_ERR_PROTOCOL, "a control record's key has the version %d",
                         version);
    *type = read;
    return CAFKA_OK;
}

int end_txn_marker_read(struct bytes value, struct end_txn_marker *out, cafka_error *err)
{
    struct reader r = reader_of(value.data, value.size);
    int16_t version = (int16_t)reader_be16(&r);
    int32_t epoch = (int32_t)reader_be32(&r);
    if (reader_failed(&r))
        return error_set(err, CAFKA_ERR_PROTOCOL, "a transaction marker has only %zu bytes",
                         value.size);
    if (version < 0)
        return error_set(err, CAFKA_ERR_PROTOCOL, "a transaction marker has the version %d",
                         version);
    *out = (struct end_txn_marker){version, epoch};
    return CAFKA_OK;
}

void end_txn_batch_write(uint8_t out[END_TXN_BATCH_SIZE], bool commit, int64_t producer_id,
                         int16_t producer_epoch, int32_t coordinator_epoch, int64_t timestamp_ms)
{
    uint8_t key[4], value[6];
    store_be16(key, 0);
    store_be16(key + 2, commit ? CONTROL_COMMIT : CONTROL_ABORT);
    store_be16(value, 0);
    store_be32(value + 2, (uint32_t)coordinator_epoch);
    struct bytes k = bytes_of(key, sizeof key), v = bytes_of(value, sizeof value);
    uint8_t *records = out + RECORD_BATCH_OVERHEAD;
    uint8_t *end = record_put(records, record_body_size(0, 0, k, v, 0, 0), 0, 0, k, v, 0);

    struct batch_header h;
    batch_header_init(&h);
    h.attributes = BATCH_TRANSACTIONAL | BATCH_CONTROL;
    h.last_offset_delta = 0;
    h.base_timestamp = h.max_timestamp = timestamp_ms;
    h.producer_id = producer_id;
    h.producer_epoch = producer_epoch;
    h.record_count = 1;
    size_t size = (size_t)(end - records);
    batch_seal(&h, size, crc32c(0, records, size), out);
}

/* --- leader change --- */

enum { NO_TAGS = 0, UUID_SIZE = 16 };

static void skip_tags(struct reader *r)
{
    uint64_t count = reader_uvarint(r, 5);
    for (; count && !reader_failed(r); count--) {
        reader_uvarint(r, 5);
        reader_take(r, (size_t)reader_uvarint(r, 5));
    }
}

static struct leader_change_voter read_voter(struct reader *r, int version)
{
    struct leader_change_voter voter = {.id = (int32_t)reader_be32(r)};
    if (version >= 1) {
        struct bytes id = reader_take(r, UUID_SIZE);
        if (id.data)
            memcpy(voter.directory_id, id.data, UUID_SIZE);
    }
    skip_tags(r);
    return voter;
}

static void read_voters(struct reader *r, int version, struct bytes *raw, int32_t *count)
{
    uint64_t announced = reader_uvarint(r, 5); /* one more than there are; 0: null */
    const uint8_t *start = r->at;
    *count = 0;
    for (; announced > 1 && !reader_failed(r); announced--, (*count)++)
        read_voter(r, version);
    *raw = bytes_of(start, (size_t)(r->at - start));
}

int leader_change_read(struct bytes value, struct leader_change *out, cafka_error *err)
{
    struct reader r = reader_of(value.data, value.size);
    struct leader_change read = {.version = (int16_t)reader_be16(&r)};
    if (!reader_failed(&r) && read.version < 0)
        return error_set(err, CAFKA_ERR_PROTOCOL, "a leader change has the version %d",
                         read.version);
    read.leader_id = (int32_t)reader_be32(&r);
    read_voters(&r, read.version, &read.voters, &read.voter_count);
    read_voters(&r, read.version, &read.granting_voters, &read.granting_voter_count);
    skip_tags(&r);
    if (reader_failed(&r))
        return error_set(err, CAFKA_ERR_PROTOCOL, "a leader change of %zu bytes is cut", value.size);
    *out = read;
    return CAFKA_OK;
}

bool leader_change_voter_next(const struct leader_change *change, struct bytes *rest,
                              struct leader_change_voter *out)
{
    if (!rest->size)
        return false;
    struct reader r = reader_of(rest->data, rest->size);
    *out = read_voter(&r, change->version);
    *rest = bytes_of(r.at, reader_left(&r));
    return !reader_failed(&r);
}

static void put_voters(struct buffer *out, const int32_t *ids, size_t count)
{
    buffer_put_uvarint(out, count + 1);
    for (size_t i = 0; i < count; i++) {
        buffer_put_be32(out, (uint32_t)ids[i]);
        buffer_put_u8(out, NO_TAGS);
    }
}

int leader_change_batch_write(struct buffer *out, int32_t leader_id, const int32_t *voters,
                              size_t voter_count, const int32_t *granting, size_t granting_count,
                              int32_t leader_epoch, int64_t timestamp_ms, cafka_error *err)
{
    struct buffer value = {0};
    buffer_put_be16(&value, 0);
    buffer_put_be32(&value, (uint32_t)leader_id);
    put_voters(&value, voters, voter_count);
    put_voters(&value, granting, granting_count);
    buffer_put_u8(&value, NO_TAGS);
    static const uint8_t key[] = {0, 0, 0, CONTROL_LEADER_CHANGE};
    struct batch_header h;
    batch_header_init(&h);
    h.attributes = BATCH_CONTROL;
    h.leader_epoch = leader_epoch;
    h.base_timestamp = timestamp_ms;
    struct record_data record = {
        .timestamp = timestamp_ms,
        .key = bytes_of(key, sizeof key),
        .value = bytes_of(value.data, value.size),
    };
    int rc = value.failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory for a leader change")
                          : batch_build(&h, &record, 1, NULL, out, err);
    buffer_fini(&value);
    return rc;
}
