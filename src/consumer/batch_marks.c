/*
 * batch_marks.c - see batch_marks.h.
 */
#include "consumer/batch_marks.h"

#include "record/control.h"
#include "record/open.h"

static void mark(struct bytes batch, enum batch_mark mark)
{
    store_be32((uint8_t *)batch.data + BATCH_CRC_AT, mark); /* the frame is ours to write */
}

static bool is_abort_marker(struct bytes batch, const struct batch_header *h)
{
    struct record_iter it;
    struct record_view view;
    int16_t type;
    if (!batch_is_control(h) || batch_codec(h))
        return false;
    record_iter_init(&it,
                     bytes_of(batch.data + RECORD_BATCH_OVERHEAD, batch.size - RECORD_BATCH_OVERHEAD),
                     h->base_offset, h->base_timestamp, h->record_count);
    return !record_iter_next(&it, &view, NULL) && !control_type_read(view.key, &type, NULL) &&
           type == CONTROL_ABORT;
}

/* The last offset of an intact batch or message, or -1. */
static int64_t check_batch(const struct batch_slice *slice, struct batch_header *h, bool check_crcs)
{
    if (batch_header_read(slice->bytes, h, NULL))
        return -1;
    if (h->base_offset < 0 || h->last_offset_delta < 0 ||
        h->base_offset > INT64_MAX - h->last_offset_delta - 1)
        return -1;
    if (check_crcs && batch_check(slice->bytes, NULL))
        return -1;
    return batch_last_offset(h);
}

int fetch_mark_batches(struct bytes records, int64_t fetch_offset, bool check_crcs,
                       struct aborted_filter *filter, struct fetch_marked *out, cafka_error *err)
{
    struct bytes rest = records;
    struct batch_slice slice;
    struct batch_header h;
    *out = (struct fetch_marked){.next_offset = fetch_offset, .leader_epoch = -1};
    int rc;
    while (!(rc = batch_walk_next(&rest, &slice, NULL))) {
        int64_t last_offset = check_batch(&slice, &h, check_crcs);
        bool corrupt = last_offset < 0;
        if (slice.magic == BATCH_MAGIC) {
            bool drop = batch_is_control(&h);
            if (!corrupt && filter &&
                aborted_drops(filter, &h, is_abort_marker(slice.bytes, &h), &drop, err))
                return CAFKA_ERR_MEMORY;
            drop = drop || last_offset < fetch_offset;
            out->compressed += !corrupt && !drop && batch_is_compressed(&h);
            mark(slice.bytes, corrupt ? BATCH_CORRUPT : drop ? BATCH_SKIP : BATCH_DELIVER);
        }
        out->used = records.size - rest.size;
        if (corrupt)
            return CAFKA_ERR_CORRUPT;
        if (last_offset + 1 > out->next_offset)
            out->next_offset = last_offset + 1;
        out->leader_epoch = slice.magic == BATCH_MAGIC ? h.leader_epoch : -1;
        out->any = true;
    }
    if (rc != CAFKA_ERR_CORRUPT)
        return CAFKA_OK;
    out->used = records.size; /* a length that can't be: the rest goes along, the reader meets it */
    return CAFKA_ERR_CORRUPT;
}
