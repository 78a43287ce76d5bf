/*
 * read_replica.h - which replica a consumer should rather read from (KIP-392).
 *
 * Owner:   nobody: it looks, and keeps nothing.
 * Thread:  the broker's loop.
 * Source:  kafka.server.ReplicaManager.findPreferredReadReplica, RackAwareReplicaSelector.
 */
#ifndef CAFKA_MOCKBROKER_API_READ_REPLICA_H
#define CAFKA_MOCKBROKER_API_READ_REPLICA_H

#include "mockbroker/api/data.h"

enum { THIS_REPLICA = -1 };

/*
 * With replica.selector.class=…RackAwareReplicaSelector: the in-sync follower in the consumer's
 * rack that holds `offset`, unless the leader is in that rack itself. THIS_REPLICA when this broker
 * does not lead the partition, when nobody fits and when no rack is given.
 */
int32_t read_replica_for(struct broker *broker, const struct data_target *target, struct str rack,
                         int64_t offset);

#endif
