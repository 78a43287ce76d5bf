/*
 * fuzz_record.c - whatever bytes: walk, check, open, iterate, validate, dump; and the small files.
 *
 * The first byte chooses what the rest is taken for. See README beside it.
 */
#include <assert.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "record/builder.h"
#include "record/control.h"
#include "record/dump.h"
#include "record/legacy.h"
#include "record/log_files.h"
#include "record/open.h"
#include "record/validate.h"
#include "util/alloc.h"

enum { LIMIT = 1 << 20 };

static struct decompressor *decompressor;
static struct buffer inflated;

/* CRCs stand in the way of a fuzzer: here they are only looked at. */
static void try_batches(struct bytes rest)
{
    struct batch_slice slice;
    struct batch_header h;
    struct record_iter it;
    struct record_view view;
    struct batch_validation v;
    while (!batch_walk_next(&rest, &slice, NULL)) {
        (void)batch_check(slice.bytes, NULL);
        if (batch_header_read(slice.bytes, &h, NULL))
            continue;
        if (!batch_open(slice.bytes, &h, decompressor, LIMIT, &inflated, &it, NULL))
            while (!record_iter_next(&it, &view, NULL)) {
                struct header_iter headers = record_headers(&view);
                struct record_header header;
                int32_t seen = 0;
                while (header_iter_next(&headers, &header))
                    seen++;
                assert(seen == view.header_count);
            }
        assert(inflated.size <= LIMIT);
        if (h.magic == BATCH_MAGIC)
            (void)batch_validate_records(slice.bytes, &h, decompressor, LIMIT, &inflated, &v, NULL);
        struct dump dump = {.limit = LIMIT};
        struct buffer text = {0};
        (void)dump_batch(&dump, slice.bytes, true, &text, NULL);
        buffer_fini(&text);
        dump_fini(&dump);
    }
}

/* Whatever bytes as the records of a batch that is right otherwise. */
static void try_records(struct bytes in)
{
    struct batch_header h;
    struct buffer batch = {0};
    if (in.size < 2)
        return;
    batch_header_init(&h);
    h.attributes = in.data[0] & (BATCH_CODEC_MASK | BATCH_CONTROL | BATCH_LOG_APPEND_TIME);
    h.record_count = in.data[1];
    h.last_offset_delta = h.record_count - 1;
    if (!batch_wrap(&h, bytes_of(in.data + 2, in.size - 2), &batch, NULL)) {
        assert(!batch_check(bytes_of(batch.data, batch.size), NULL));
        try_batches(bytes_of(batch.data, batch.size));
    }
    buffer_fini(&batch);
}

static void try_codec(int codec, int magic, struct bytes in)
{
    buffer_clear(&inflated);
    (void)decompressor_run(decompressor, codec, magic, in, LIMIT, &inflated, NULL);
    assert(inflated.size <= LIMIT);
}

static void try_control(struct bytes in)
{
    int16_t type;
    struct end_txn_marker marker;
    struct leader_change change;
    struct leader_change_voter voter;
    (void)control_type_read(in, &type, NULL);
    (void)end_txn_marker_read(in, &marker, NULL);
    if (!leader_change_read(in, &change, NULL)) {
        struct bytes rest = change.voters;
        int32_t seen = 0;
        while (leader_change_voter_next(&change, &rest, &voter))
            seen++;
        assert(seen == change.voter_count);
    }
}

static void try_small_files(struct bytes in)
{
    size_t count;
    struct epoch_entry *epochs;
    struct offset_checkpoint_entry *offsets;
    struct uuid id;
    (void)offset_index_check(in, 0, &count, NULL);
    (void)time_index_check(in, 0, &count, NULL);
    (void)txn_index_check(in, &count, NULL);
    if (!snapshot_check(in, &count, NULL))
        for (size_t i = 0; i < count; i++)
            (void)snapshot_get(in.data, i);
    if (!epoch_checkpoint_parse(in, &epochs, &count, NULL))
        mem_free(epochs);
    if (!offset_checkpoint_parse(in, &offsets, &count, NULL))
        mem_free(offsets);
    (void)partition_metadata_parse(in, &id, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!decompressor && decompressor_new(&decompressor, NULL))
        abort();
    if (!size)
        return 0;
    struct bytes in = bytes_of(data + 1, size - 1);
    switch (data[0] & 7) {
    case 1:
    case 2:
    case 3:
    case 4: try_codec(data[0] & 7, data[0] >> 3 & 1 ? 0 : 2, in); break;
    case 5: try_control(in); break;
    case 6: try_small_files(in); break;
    case 7: try_records(in); break;
    default: try_batches(in);
    }
    return 0;
}
