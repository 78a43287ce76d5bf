/*
 * partition.c - see partition.h. What happens to a partition is in reader.c and fetcher.c.
 */
#include "consumer/partition.h"

#include "util/alloc.h"

struct consumer_partition *consumer_partition_new(const char *interned_topic, int32_t partition)
{
    struct consumer_partition *p = mem_zalloc(sizeof *p);
    if (!p)
        return NULL;
    atomic_init(&p->refs, 1);
    p->topic = interned_topic;
    p->partition = partition;
    p->app.position = -1;
    p->app.position_epoch = -1;
    p->wanted.epoch = -1;
    atomic_init(&p->high_watermark, -1);
    atomic_init(&p->log_start, -1);
    atomic_init(&p->readable_end, -1);
    return p;
}

struct consumer_partition *consumer_partition_ref(struct consumer_partition *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void consumer_partition_unref(struct consumer_partition *p)
{
    if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1)
        mem_free(p);
}
