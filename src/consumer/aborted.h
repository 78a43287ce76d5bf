/*
 * aborted.h - which batches of a read_committed fetch belong to aborted transactions.
 *
 * A broker answers with the records up to the last stable offset and with a list of (producer id,
 * first offset) of aborted transactions that overlap them. The filter goes through the batches in
 * order: a transaction is active from its first offset to its abort marker, and what its producer
 * wrote in between is dropped (KIP-98). Control batches are dropped for everybody.
 *
 * Owner:  a fetcher, reset for each partition of an answer. Thread: the loop's.
 */
#ifndef CAFKA_CONSUMER_ABORTED_H
#define CAFKA_CONSUMER_ABORTED_H

#include "record/batch.h"

struct aborted_transaction {
    int64_t producer_id, first_offset;
};

/* Zeroed is empty; keeps its memory over aborted_reset(). */
struct aborted_filter {
    struct aborted_transaction *pending; /* in order of first_offset */
    size_t pending_count, pending_at, pending_capacity;
    int64_t *active; /* producer ids */
    size_t active_count, active_capacity;
};

void aborted_fini(struct aborted_filter *filter);
void aborted_reset(struct aborted_filter *filter);
/* Before the first batch; in any order. CAFKA_ERR_MEMORY. */
int aborted_add(struct aborted_filter *filter, int64_t producer_id, int64_t first_offset,
                cafka_error *err);
/* After the last aborted_add(). */
void aborted_sort(struct aborted_filter *filter);

/*
 * Are this batch's records to be dropped? `abort_marker`: it is a control batch that holds an
 * ABORT. To be asked once for every batch, in order.
 */
int aborted_drops(struct aborted_filter *filter, const struct batch_header *h, bool abort_marker,
                  bool *drop, cafka_error *err);

#endif
