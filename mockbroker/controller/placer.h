/*
 * placer.h - which brokers hold the replicas of a new topic.
 *
 * Kafka's striped placement: partitions go round the racks and, within a rack, round its brokers,
 * each beginning at a random place; the first replica, which will lead, is on a broker that lives;
 * replicas of one partition are on as many racks as there are. When as many partitions were placed
 * as brokers live, the order is shuffled, so that the same replica sets do not come again.
 *
 * Thread: any; no state but what the caller holds.
 */
#ifndef CAFKA_MOCKBROKER_PLACER_H
#define CAFKA_MOCKBROKER_PLACER_H

#include "mockbroker/metadata/image.h"
#include "util/rng.h"

struct placer;

/* Over the registered brokers, seen now. */
int placer_new(struct placer **out, const struct image *image, struct rng *rng, cafka_error *err);
void placer_free(struct placer *placer);
/* Can so many replicas be placed? ERR_INVALID_REPLICATION_FACTOR with Kafka's sentence. */
int placer_check(const struct placer *placer, int replicas, cafka_error *err);
/* The replicas of the next partition, `replicas` ids; placer_check() said yes. */
void placer_place(struct placer *placer, int replicas, int32_t *out);

#endif
