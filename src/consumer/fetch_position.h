/*
 * fetch_position.h - where a partition is read: found, checked against the log, lost and found again.
 *
 * A start that is no offset is looked up (ListOffsets). A position whose leader epoch is known is
 * checked when the leader has a newer one, since what was read may have been truncated: the end
 * offset of its epoch is asked for (OffsetForLeaderEpoch), and every Fetch names the epoch of the
 * record before it, so that the broker finds out, too (DivergingEpoch; KIP-320).
 *
 * Where the loop finds that a position does not hold, it does not move it. It tells the event
 * function and hands the application a CHUNK_RESET: for an offset out of range in its turn, so
 * that what is queued is read first; at once for a truncation or a topic that was made anew,
 * where what is queued is not in the log any more. The application's side seeks, and so begins anew.
 *
 * Owner:  the position is the partition's (struct consumer_partition); nothing is kept here.
 * Thread: the loop's.
 * Source: KIP-320, KIP-1106; org.apache.kafka.clients.consumer.internals.OffsetFetcherUtils,
 *         SubscriptionState.
 */
#ifndef CAFKA_CONSUMER_FETCH_POSITION_H
#define CAFKA_CONSUMER_FETCH_POSITION_H

#include "consumer/fetcher.h"

/* Begin at an offset, at CAFKA_OFFSET_BEGINNING or _END, or where the policy says (START_BY_POLICY). */
void fetch_position_start(struct consumer_partition *p, int64_t start, int32_t epoch);
/* Something that stands still is begun anew, now that its time has come. */
void fetch_position_again(struct consumer_partition *p);
/* Nothing is looked up any more. */
void fetch_position_cancel(struct consumer_partition *p);

/* Its leader, or that one's epoch, is another one: check the position if it can be checked. */
void fetch_position_validate(struct consumer_partition *p);

/* The log ends at `offset` for the epoch of what was read; -1: it is not known where. */
void fetch_position_truncated(struct consumer_partition *p, int64_t offset, int32_t epoch);
void fetch_position_out_of_range(struct consumer_partition *p);
/* Its topic was deleted and made again. */
void fetch_position_recreated(struct consumer_partition *p);

#endif
