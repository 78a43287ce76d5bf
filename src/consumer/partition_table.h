/*
 * partition_table.h - finds a partition by topic and number: a hash table of pointers.
 *
 * A topic is named by its interned name (fetch_memory.h), so names are compared as pointers, and an
 * entry costs its slots only: 10 000 assigned partitions must fit into a few megabytes.
 *
 * Owner:  consumer (the application's view) and fetcher (the loop's). It holds no references.
 * Thread: its owner's. Zeroed is empty.
 */
#ifndef CAFKA_CONSUMER_PARTITION_TABLE_H
#define CAFKA_CONSUMER_PARTITION_TABLE_H

#include "consumer/partition.h"

struct partition_table {
    struct consumer_partition **slots; /* open addressing; NULL: free */
    size_t slot_count, count;
};

void partition_table_fini(struct partition_table *t);
/* topic NULL: a name that nobody interned, so NULL. */
struct consumer_partition *partition_table_get(const struct partition_table *t, const char *topic,
                                               int32_t number);
bool partition_table_put(struct partition_table *t,
                         struct consumer_partition *p); /* false: no memory */
void partition_table_remove(struct partition_table *t, const struct consumer_partition *p);

#endif
