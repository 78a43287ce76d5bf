/*
 * dump.h - what batches and the files of a log hold, as JSON: `cafka log dump` without its files.
 *
 * 64-bit numbers are decimal strings, smaller ones numbers, bytes lower case hex, a CRC 8 hex
 * digits; the fields are called as in Kafka's documents.
 */
#ifndef CAFKA_RECORD_DUMP_H
#define CAFKA_RECORD_DUMP_H

#include "record/batch.h"
#include "record/compress.h"
#include "record/log_files.h"

/* Kept over many batches; zeroed is empty. */
struct dump {
    struct decompressor *decompressor;
    struct buffer inflated;
    size_t limit; /* bytes that one batch may inflate to; 0: 1 GiB */
};
void dump_fini(struct dump *d);

/*
 * Append one batch (whole, as batch_walk_next() gives it) as an object, without a newline, with
 * its records if asked for. Damage is told in the object (`error`, `recordsError`) and as the
 * result with the reason: the batch was appended all the same, unless the code is
 * CAFKA_ERR_MEMORY.
 */
int dump_batch(struct dump *d, struct bytes batch, bool with_records, struct buffer *out,
               cafka_error *err);

void dump_offset_index_entry(struct buffer *out, struct offset_index_entry entry);
void dump_time_index_entry(struct buffer *out, struct time_index_entry entry);
void dump_txn_index_entry(struct buffer *out, const struct txn_index_entry *entry);
void dump_snapshot_entry(struct buffer *out, const struct snapshot_entry *entry);

#endif
