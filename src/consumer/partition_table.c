/*
 * partition_table.c - see partition_table.h. Linear probing; what is removed leaves no mark, since
 * those behind it move up.
 */
#include "consumer/partition_table.h"

#include "util/alloc.h"

void partition_table_fini(struct partition_table *t)
{
    mem_free(t->slots);
    *t = (struct partition_table){0};
}

static size_t home_of(const struct partition_table *t, const char *topic, int32_t number)
{
    uint64_t h = (uint64_t)(uintptr_t)topic * UINT64_C(0x9E3779B97F4A7C15) + (uint32_t)number;
    h *= UINT64_C(0xD6E8FEB86659FD93);
    return (size_t)(h >> 32) & (t->slot_count - 1);
}

/* The slot that holds it, or the free one where it would go. The table has slots. */
static size_t find_slot(const struct partition_table *t, const char *topic, int32_t number)
{
    size_t i = home_of(t, topic, number);
    while (t->slots[i] && (t->slots[i]->topic != topic || t->slots[i]->partition != number))
        i = (i + 1) & (t->slot_count - 1);
    return i;
}

struct consumer_partition *partition_table_get(const struct partition_table *t, const char *topic,
                                               int32_t number)
{
    return t->slot_count && topic ? t->slots[find_slot(t, topic, number)] : NULL;
}

static bool grow(struct partition_table *t)
{
    struct partition_table larger = {.slot_count = t->slot_count ? t->slot_count * 2 : 16};
    larger.slots = mem_calloc(larger.slot_count, sizeof(struct consumer_partition *));
    if (!larger.slots)
        return false;
    for (size_t i = 0; i < t->slot_count; i++)
        if (t->slots[i])
            larger.slots[find_slot(&larger, t->slots[i]->topic, t->slots[i]->partition)] =
                t->slots[i];
    larger.count = t->count;
    mem_free(t->slots);
    *t = larger;
    return true;
}

bool partition_table_put(struct partition_table *t, struct consumer_partition *p)
{
    if (t->count * 4 >= t->slot_count * 3 && !grow(t))
        return false;
    size_t i = find_slot(t, p->topic, p->partition);
    t->count += !t->slots[i];
    t->slots[i] = p;
    return true;
}

void partition_table_remove(struct partition_table *t, const struct consumer_partition *p)
{
    if (!t->slot_count)
        return;
    size_t mask = t->slot_count - 1, hole = find_slot(t, p->topic, p->partition);
    if (!t->slots[hole])
        return;
    t->count--;
    for (size_t i = (hole + 1) & mask; t->slots[i]; i = (i + 1) & mask) {
        size_t home = home_of(t, t->slots[i]->topic, t->slots[i]->partition);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            t->slots[hole] = t->slots[i]; /* its home is at or before the hole */
            hole = i;
        }
    }
    t->slots[hole] = NULL;
}
