/*
 * validate.c - see validate.h.
 */
#include "record/validate.h"

static int found(struct batch_validation *v, enum batch_problem problem, int32_t index)
{
    v->problem = problem;
    v->record_index = index;
    return CAFKA_ERR_PROTOCOL;
}

static void take_note(struct batch_validation *v, int32_t index, int64_t timestamp, bool has_key)
{
    if (timestamp > v->max_timestamp) {
        v->max_timestamp = timestamp;
        v->max_timestamp_index = index;
    }
    if (timestamp < v->min_timestamp && timestamp != -1)
        v->min_timestamp = timestamp;
    if (!has_key && v->first_null_key < 0)
        v->first_null_key = index;
}

/* Are there six bytes or more of a number that may have five? */
static bool number_too_long(const uint8_t *p, const uint8_t *end)
{
    for (int i = 0; i < 5; i++)
        if (p + i >= end || !(p[i] & 0x80))
            return false;
    return true;
}

static int validate_plain(struct record_iter *it, struct batch_validation *v, cafka_error *err)
{
    struct record_view view;
    int rc;
    while (!(rc = record_iter_next(it, &view, err)))
        take_note(v, view.index, view.timestamp, view.key.data);
    if (rc == CAFKA_END)
        return CAFKA_OK;
    (void)found(v, number_too_long(it->at, it->end) ? BATCH_UNREADABLE : BATCH_BAD_RECORD,
                it->index);
    return rc;
}

/* Skip a length and as many bytes; a negative one is null. */
static int32_t skip_bytes(struct reader *r)
{
    int32_t length = reader_varint(r);
    if (length > 0)
        reader_take(r, (size_t)length);
    return length;
}

/* A record without regard to its length. False if it breaks the format. */
static bool skip_record(struct reader *r, int64_t *timestamp_delta, int32_t *offset_delta,
                        bool *has_key)
{
    reader_varint(r); /* length */
    reader_u8(r);     /* attributes */
    *timestamp_delta = reader_varlong(r);
    *offset_delta = reader_varint(r);
    *has_key = skip_bytes(r) >= 0;
    skip_bytes(r);
    int32_t headers = reader_varint(r);
    bool good = headers >= 0;
    for (; headers > 0 && good && !reader_failed(r); headers--) {
        good = skip_bytes(r) >= 0;
        skip_bytes(r);
    }
    return good && !reader_failed(r);
}

static int validate_inflated(struct record_iter *it, struct batch_validation *v, cafka_error *err)
{
    struct reader r = reader_of(it->at, (size_t)(it->end - it->at));
    int32_t first_bad_offset = -1;
    for (int32_t i = 0; i < it->count; i++) {
        int64_t timestamp_delta;
        int32_t offset_delta;
        bool has_key;
        if (!skip_record(&r, &timestamp_delta, &offset_delta, &has_key) ||
            (i + 1 == it->count && reader_left(&r)))
            return error_set(err, found(v, BATCH_BAD_RECORD, i),
                             "record %d of %d in a compressed batch breaks the format", i,
                             it->count);
        if (offset_delta != i && first_bad_offset < 0)
            first_bad_offset = i;
        take_note(v, i,
                  it->appended ? it->append_time
                               : (int64_t)((uint64_t)it->base_timestamp + (uint64_t)timestamp_delta),
                  has_key);
    }
    if (first_bad_offset >= 0)
        return error_set(err, found(v, BATCH_BAD_INNER_OFFSET, first_bad_offset),
                         "record %d in a compressed batch has another offset", first_bad_offset);
    return CAFKA_OK;
}

int batch_validate_records(struct bytes batch, const struct batch_header *h, struct decompressor *d,
                           size_t limit, struct buffer *inflated, struct batch_validation *out,
                           cafka_error *err)
{
    *out = (struct batch_validation){
        .record_index = -1,
        .max_timestamp = -1,
        .max_timestamp_index = -1,
        .min_timestamp = INT64_MAX,
        .first_null_key = -1,
    };
    if (h->record_count <= 0 || (int64_t)h->last_offset_delta + 1 != h->record_count)
        return error_set(err, found(out, BATCH_BAD_COUNT, -1),
                         "the batch says it has %d records and a last offset delta of %d",
                         h->record_count, h->last_offset_delta);
    struct record_iter it;
    int rc = batch_open(batch, h, d, limit, inflated, &it, err);
    if (rc == CAFKA_ERR_MEMORY)
        return rc;
    if (rc) {
        (void)found(out, BATCH_BAD_CODEC, -1);
        return rc;
    }
    return batch_is_compressed(h) ? validate_inflated(&it, out, err) : validate_plain(&it, out, err);
}
