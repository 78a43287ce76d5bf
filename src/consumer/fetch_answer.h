/*
 * fetch_answer.h - what a Fetch answer means for each partition: data, a new leader, an error.
 */
#ifndef CAFKA_CONSUMER_FETCH_ANSWER_H
#define CAFKA_CONSUMER_FETCH_ANSWER_H

#include "consumer/fetcher.h"

/* A partition whose data is damaged is fetched again so much later. */
enum { FETCH_CORRUPT_AGAIN_MS = 1000 };

/* An answer, not a failure, of a broker came. Loop. */
void fetch_answer_handle(struct fetch_broker *fb, const struct reply *reply);

/*
 * Go through the batches of `records`: check them, and mark in each one's CRC field whether it is
 * to be delivered (enum batch_mark). *used is the length of what may be handed on, whole batches
 * only, and *next_offset the offset behind it. Pure but for the marks; `filter` is NULL unless
 * read_committed.
 * Errors: CAFKA_ERR_CORRUPT  a batch is damaged: it is marked so, ends the walk, and counts in *used
 *         CAFKA_ERR_MEMORY
 */
int fetch_mark_batches(struct bytes records, int64_t fetch_offset, bool check_crcs,
                       struct aborted_filter *filter, size_t *used, int64_t *next_offset, cafka_error *err);

#endif
