/*
 * fetch_answer.h - what a Fetch answer means for each partition: data, a new leader, an error.
 */
#ifndef CAFKA_CONSUMER_FETCH_ANSWER_H
#define CAFKA_CONSUMER_FETCH_ANSWER_H

#include "consumer/batch_marks.h"
#include "consumer/fetcher.h"

/* A partition whose data is damaged is fetched again so much later. */
enum { FETCH_CORRUPT_AGAIN_MS = 1000 };

/* An answer, not a failure, of a broker came. Loop. */
void fetch_answer_handle(struct fetch_broker *fb, const struct reply *reply);

#endif
