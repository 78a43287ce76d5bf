/*
 * unclean.h - an unclean election: a leader whose log ends before that of the last one.
 *
 * Owner:   nobody; a function.
 * Thread:  the cluster's loop.
 */
#ifndef CAFKA_MOCKBROKER_FAULT_UNCLEAN_H
#define CAFKA_MOCKBROKER_FAULT_UNCLEAN_H

#include "mockbroker/cluster.h"

/*
 * The partition loses its leader, then `leader` (-1: the one that it had) leads it in a new epoch,
 * with a log that ends at end_offset; the other replicas are cut to it and follow. What lies
 * behind is lost, acknowledged or not.
 *
 * Errors: ERR_UNKNOWN_TOPIC_OR_PARTITION; ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE the broker has no
 *         replica or does not run; ERR_OFFSET_OUT_OF_RANGE below the start of its log
 */
int unclean_election(struct cluster *cluster, struct str topic, int32_t partition, int32_t leader,
                     int64_t end_offset, cafka_error *err);

#endif
