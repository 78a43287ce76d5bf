/*
 * sender_outcome.h - what became of one attempt to send a batch, whatever told us.
 *
 * sender_answer.c makes one from an answer, or from its absence; sender_outcome.c decides what it
 * means and does it, with sender_split.c for a batch that is too large.
 *
 * Owner:  struct outcome, of whoever learned of it, on its stack.
 * Thread: the loop's.
 */
#ifndef CAFKA_PRODUCER_SENDER_OUTCOME_H
#define CAFKA_PRODUCER_SENDER_OUTCOME_H

#include "producer/sender.h"

struct outcome {
    cafka_error error; /* code 0: written */
    bool written;      /* it is in the log */
    bool unknown;      /* it may be in the log */
    int64_t base_offset, append_time_ms;
    const struct produce_response_partition_produce_response *answer; /* NULL: none came */
    bool new_leader; /* the answer told of one (KIP-951) */
};
/* The attempt is over: deliver, repeat, split or fail, and take the batch off the wire. */
void sender_apply(struct sender *sender, struct producer_batch *batch,
                  const struct outcome *outcome);
/* The batch ends here, with what the outcome says. */
void sender_apply_failure(struct sender *sender, struct producer_batch *batch,
                          const struct outcome *outcome);
/* MESSAGE_TOO_LARGE: go on with smaller batches in its place. It must be in no list. */
void sender_apply_split(struct sender *sender, struct producer_batch *batch,
                        const struct outcome *outcome);

#endif
