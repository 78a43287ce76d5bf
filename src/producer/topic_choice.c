/*
 * topic_choice.c - the partitions of a topic that records go to when nobody says: sticky by load,
 * in turn, or by chance.
 */
#include "producer/topics.h"

#include "producer/room.h"

/* --- the sticky partitioner --- */

static struct partition *draw_locked(cafka_topic *topic, const struct partition_set *set)
{
    uint32_t random = (uint32_t)rng_next(&topic->rng);
    int32_t index;
    if (!partition_load_pick(&topic->load, random, &index))
        index = partition_pick_evenly(topic->available, topic->available_count, set->count, random);
    return set->partitions[index < set->count ? index : index % set->count];
}

void topic_move_on(cafka_topic *topic, struct partition *from)
{
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_acquire);
    if (!set)
        return;
    pthread_mutex_lock(&topic->mu);
    struct partition *to = NULL;
    if (atomic_load_explicit(&topic->sticky, memory_order_relaxed) == from)
        to = draw_locked(topic, set);
    pthread_mutex_unlock(&topic->mu);
    if (!to)
        return;
    pthread_mutex_lock(&to->mu);
    to->sticky_bytes = 0;
    pthread_mutex_unlock(&to->mu);
    /* Somebody else may have been quicker; then it is as well. */
    atomic_compare_exchange_strong_explicit(&topic->sticky, &from, to, memory_order_acq_rel,
                                            memory_order_relaxed);
}

static bool is_stuck(const struct partition *p, int64_t now_ms, int64_t timeout_ms)
{
    struct sender_broker *broker = atomic_load_explicit(&p->broker, memory_order_relaxed);
    return timeout_ms > 0 && broker && broker->ready_since_ms &&
           now_ms - broker->ready_since_ms > timeout_ms;
}

static void update_load(cafka_topic *topic)
{
    cafka_producer *producer = topic->producer;
    const struct producer_settings *settings = &producer->settings;
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_relaxed);
    int64_t now_ms = loop_now_ms(producer->client.loop);
    if (!settings->partitioner_adaptive || !set || set->count < 2 || topic->stats_at_ms == now_ms)
        return;
    topic->stats_at_ms = now_ms;

    int32_t length = 0;
    bool all_used = true;
    for (int32_t i = 0; i < set->count; i++) {
        struct partition *p = set->partitions[i];
        all_used = all_used && p->used;
        if (!atomic_load_explicit(&p->broker, memory_order_relaxed) ||
            is_stuck(p, now_ms, settings->partitioner_availability_timeout_ms))
            continue;
        topic->queued[length] = atomic_load_explicit(&p->queued_blocks, memory_order_relaxed);
        topic->ids[length++] = i;
    }
    pthread_mutex_lock(&topic->mu);
    topic->load.length = 0;
    if (all_used && partition_load_reserve(&topic->load, set->count))
        partition_load_set(&topic->load, topic->queued, topic->ids, length, set->count);
    pthread_mutex_unlock(&topic->mu);
}

void topic_batch_leaves(cafka_topic *topic)
{
    metadata_topic_touch(topic->producer->client.metadata, topic->meta);
    update_load(topic);
}

/* --- other ways --- */

/* Evenly among the partitions that have a leader; `number` counts up, or is drawn. */
static struct partition *pick_evenly(cafka_topic *topic, const struct partition_set *set,
                                     uint32_t number)
{
    pthread_mutex_lock(&topic->mu);
    int32_t index =
        partition_pick_evenly(topic->available, topic->available_count, set->count, number);
    pthread_mutex_unlock(&topic->mu);
    return set->partitions[index < set->count ? index : index % set->count];
}

static uint32_t draw(cafka_topic *topic)
{
    pthread_mutex_lock(&topic->mu);
    uint32_t number = (uint32_t)rng_next(&topic->rng);
    pthread_mutex_unlock(&topic->mu);
    return number;
}

struct partition *topic_choose_otherwise(cafka_topic *topic, const struct partition_set *set,
                                         struct bytes key)
{
    const struct producer_settings *settings = &topic->producer->settings;
    if (settings->partitioner == PARTITIONER_ROUND_ROBIN)
        return pick_evenly(topic, set,
                           atomic_fetch_add_explicit(&topic->turn, 1, memory_order_relaxed));
    if (settings->partitioner == PARTITIONER_RANDOM)
        return pick_evenly(topic, set, draw(topic));
    if (settings->partitioner_ignore_keys)
        return NULL;
    int32_t index = partition_by_hash(settings->partitioner, key, set->count);
    return index < 0 ? NULL : set->partitions[index];
}

int32_t topic_would_choose(cafka_topic *topic, struct bytes key)
{
    const struct producer_settings *settings = &topic->producer->settings;
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_acquire);
    if (settings->partitioner == PARTITIONER_RANDOM)
        return -1;
    if (settings->partitioner == PARTITIONER_ROUND_ROBIN)
        return pick_evenly(topic, set, atomic_load_explicit(&topic->turn, memory_order_relaxed))->index;
    int32_t index = settings->partitioner_ignore_keys
                        ? -1
                        : partition_by_hash(settings->partitioner, key, set->count);
    if (index >= 0)
        return index;
    struct partition *sticky = atomic_load_explicit(&topic->sticky, memory_order_acquire);
    return set->count == 1 ? 0 : sticky ? sticky->index : -1;
}
