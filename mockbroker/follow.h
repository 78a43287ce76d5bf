/*
 * follow.h - followers get what their leader appended.
 *
 * Until brokers fetch from each other over the protocol, which is what they are to do (DESIGN 9),
 * a leader hands its batches to the followers' logs itself: after the request that appended them
 * and before the next one. A follower's log is cut by leader epoch first, as a fetching follower
 * would cut it; one that has caught up joins the ISR; the high watermark is what all of the ISR
 * has. So replicas are equal whenever a request is handled, and a leader that dies has lost
 * nothing that the others do not have.
 *
 * Thread: the cluster's loop, which all brokers share.
 */
#ifndef CAFKA_MOCKBROKER_FOLLOW_H
#define CAFKA_MOCKBROKER_FOLLOW_H

#include "mockbroker/broker.h"
#include "mockbroker/replica/partition.h"

/* Bring the followers of a partition that this broker leads up to date, and its high watermark. */
void follow_partition(struct broker *leader, struct partition *partition);

/* How far a follower is, as its leader knows; false: it does not follow in this epoch. */
bool follow_progress(const struct broker *leader, const struct partition *partition,
                     int32_t follower, int64_t *start_offset, int64_t *end_offset);

#endif
