/*
 * partitioner.c - see partitioner.h.
 */
#include "producer/partitioner.h"

#include <cafka/plugin.h>
#include <zlib.h>

#include "util/alloc.h"
#include "util/hash.h"

int32_t partition_for_key(struct bytes key, int32_t count)
{
    return (hash_murmur2(key.data, key.size) & INT32_MAX) % count;
}

int32_t cafka_partition_for_key(const void *key, size_t key_size, int32_t count)
{
    return count < 1 ? -1 : partition_for_key(bytes_of(key, key ? key_size : 0), count);
}

static uint32_t crc_of(struct bytes key)
{
    uLong crc = crc32(0, NULL, 0);
    for (size_t done = 0; done < key.size;) {
        size_t rest = key.size - done;
        uInt piece = rest < UINT32_MAX ? (uInt)rest : UINT32_MAX;
        crc = crc32(crc, key.data + done, piece);
        done += piece;
    }
    return (uint32_t)crc;
}

/* FNV-1a of 32 bits, read as a signed number and made positive, as Sarama and librdkafka do it. */
static uint32_t fnv1a_of(struct bytes key)
{
    uint32_t hash = 0x811C9DC5;
    for (size_t i = 0; i < key.size; i++)
        hash = (hash ^ key.data[i]) * 0x01000193;
    return hash > INT32_MAX ? 0 - hash : hash;
}

int32_t partition_by_hash(enum partitioner_kind kind, struct bytes key, int32_t count)
{
    size_t size = key.data ? key.size : 0;
    struct bytes bytes = bytes_of(size ? key.data : (const void *)"", size);
    uint32_t n = (uint32_t)count;
    switch (kind) {
    case PARTITIONER_DEFAULT: return key.data ? partition_for_key(bytes, count) : -1;
    case PARTITIONER_MURMUR2: return partition_for_key(bytes, count);
    case PARTITIONER_CONSISTENT: return (int32_t)(crc_of(bytes) % n);
    case PARTITIONER_CONSISTENT_RANDOM: return size ? (int32_t)(crc_of(bytes) % n) : -1;
    case PARTITIONER_FNV1A: return (int32_t)(fnv1a_of(bytes) % n);
    case PARTITIONER_FNV1A_RANDOM: return key.data ? (int32_t)(fnv1a_of(bytes) % n) : -1;
    case PARTITIONER_ROUND_ROBIN:
    case PARTITIONER_RANDOM: break;
    }
    return -1;
}

void partition_load_fini(struct partition_load *load)
{
    mem_free(load->partitions);
    mem_free(load->table);
    *load = (struct partition_load){0};
}

bool partition_load_reserve(struct partition_load *load, int32_t count)
{
    if (count <= load->capacity)
        return true;
    int32_t *partitions = mem_recalloc(load->partitions, (size_t)count, sizeof *partitions);
    if (!partitions)
        return false;
    load->partitions = partitions;
    int32_t *table = mem_recalloc(load->table, (size_t)count, sizeof *table);
    if (!table)
        return false;
    load->table = table;
    load->capacity = count;
    return true;
}

void partition_load_set(struct partition_load *load, const int32_t *queued,
                        const int32_t *partitions, int32_t length, int32_t total)
{
    load->length = 0;
    if (length < 1 || total < 2)
        return;

    int32_t longest = queued[0];
    bool equal = true;
    for (int32_t i = 1; i < length; i++) {
        equal = equal && queued[i] == queued[0];
        if (queued[i] > longest)
            longest = queued[i];
    }
    if (equal && length == total)
        return; /* nothing to prefer */

    int64_t sum = 0;
    for (int32_t i = 0; i < length; i++) {
        sum += (int64_t)longest + 1 - queued[i];
        if (sum > INT32_MAX)
            return; /* absurd queues: evenly, then */
        load->table[i] = (int32_t)sum;
        load->partitions[i] = partitions[i];
    }
    load->length = length;
}

bool partition_load_pick(const struct partition_load *load, uint32_t random, int32_t *out)
{
    if (!load->length)
        return false;
    int32_t wanted = (int32_t)((random & INT32_MAX) % (uint32_t)load->table[load->length - 1]);
    int32_t low = 0, high = load->length - 1; /* the first entry above `wanted` is in here */
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (load->table[middle] > wanted)
            high = middle;
        else
            low = middle + 1;
    }
    *out = load->partitions[low];
    return true;
}
