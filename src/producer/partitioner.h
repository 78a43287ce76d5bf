/*
 * partitioner.h - which partition a record goes to, when the application does not say.
 *
 * A key decides by its murmur2 hash, as in every Kafka client. Without one, records stick to a
 * partition until batch.size bytes went there and then move on (KIP-794), so that batches fill
 * whatever the number of partitions; the next one is drawn at random, with weights by how little
 * is queued there when statistics are kept. Pure functions and a plain struct; who uses them
 * brings lock and chance.
 *
 * Thread: any; struct partition_load under the lock of its owner.
 */
#ifndef CAFKA_PRODUCER_PARTITIONER_H
#define CAFKA_PRODUCER_PARTITIONER_H

#include <stdbool.h>
#include <stdint.h>

#include "client/settings.h"
#include "util/bytes.h"

/* The partition of a key; key.data is not NULL, count above 0. */
int32_t partition_for_key(struct bytes key, int32_t count);

/*
 * The partition by hash of the key, for the kinds that hash; key.data NULL: no key. -1: this kind
 * leaves such a key to chance. count above 0.
 */
int32_t partition_by_hash(enum partitioner_kind kind, struct bytes key, int32_t count);

/*
 * Has the partition in use had enough? `bytes` went there since it was chosen; rest says that its
 * batch is full, or that it has none, so that leaving it leaves no half-filled batch behind.
 */
static inline bool sticky_is_over(int64_t bytes, int32_t batch_size, bool rest)
{
    return bytes >= 2 * (int64_t)batch_size || (rest && bytes >= batch_size);
}

/* How much waits where: weights for the draw. Zeroed is "not known". */
struct partition_load {
    int32_t length; /* 0: draw evenly */
    int32_t capacity;
    int32_t *partitions;
    int32_t *table; /* cumulative weights */
};

void partition_load_fini(struct partition_load *load);
/* Room for so many partitions. False: no memory; the load is as before. */
bool partition_load_reserve(struct partition_load *load, int32_t count);
/*
 * Set from the first `length` entries of `queued` (any unit); `total` is how many partitions the
 * topic has, those that are left out included. Room for `length` was reserved. Nothing is known
 * afterwards if all are alike and none is left out.
 */
void partition_load_set(struct partition_load *load, const int32_t *queued,
                        const int32_t *partitions, int32_t length, int32_t total);

/* The next partition for a random number: by weight; *out is not set and false returned without weights. */
bool partition_load_pick(const struct partition_load *load, uint32_t random, int32_t *out);

/* Evenly among the n partitions that have a leader, or among all `count` if none has one. */
static inline int32_t partition_pick_evenly(const int32_t *available, int32_t n, int32_t count,
                                            uint32_t random)
{
    random &= INT32_MAX;
    return n ? available[random % (uint32_t)n] : (int32_t)(random % (uint32_t)count);
}

#endif
