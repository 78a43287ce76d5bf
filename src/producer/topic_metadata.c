/*
 * topic_metadata.c - what metadata says of a topic, copied out for the threads that send.
 */
#include "producer/topics.h"

#include "producer/room.h"
#include "util/alloc.h"

static void fire_growth(struct timer *timer);

static void try_again_later(cafka_topic *topic)
{
    struct client *client = &topic->producer->client;
    int64_t wait_ms =
        backoff_after(client->env, client->settings->retry_backoff_ms,
                      client->settings->retry_backoff_max_ms, topic->growth_attempts++);
    loop_timer_set(client->loop, &topic->growth_timer,
                   loop_now_ms(client->loop) + (wait_ms > 0 ? wait_ms : 1));
}

static void note_error(cafka_topic *topic, const cafka_error *error)
{
    pthread_mutex_lock(&topic->mu);
    topic->error = *error;
    pthread_mutex_unlock(&topic->mu);
}

void topic_adopt(cafka_topic *topic)
{
    cafka_producer *producer = topic->producer;
    struct metadata_topic *meta;
    cafka_error err = {0};
    struct str name = {topic->name, topic->name_size};
    if (metadata_topic_ref(producer->client.metadata, name, &meta, &err)) {
        err.flags |= CAFKA_RETRIABLE;
        note_error(topic, &err);
        try_again_later(topic);
        return;
    }
    topic->meta = meta;
    meta->user = topic;
    topic_changed(topic, meta->known ? METADATA_KNOWN : 0);
}

static void look_for_growth(struct loop_task *task)
{
    cafka_topic *topic = container_of(task, cafka_topic, growth_task);
    atomic_store(&topic->growth_posted, false);
    topic->growth_attempts = 0;
    if (!timer_is_set(&topic->growth_timer))
        fire_growth(&topic->growth_timer);
}

/* --- what is known --- */

static bool is_up_to_date(cafka_topic *topic)
{
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_relaxed);
    return !topic->meta->known || (set && set->count == topic->meta->partition_count);
}

/*
 * Something about the topic is missing: memory for what metadata knows, or a partition that
 * somebody waits for. Look again, ever more slowly.
 */
static void fire_growth(struct timer *timer)
{
    cafka_topic *topic = container_of(timer, cafka_topic, growth_timer);
    if (topic->producer->sender.stopped)
        return;
    if (!topic->meta) {
        topic_adopt(topic);
        return;
    }
    if (!is_up_to_date(topic))
        topic_changed(topic, 0);
    pthread_mutex_lock(&topic->mu);
    bool waited_for = !list_empty(&topic->waiters);
    pthread_mutex_unlock(&topic->mu);
    if (!waited_for)
        return;
    metadata_refresh(topic->producer->client.metadata);
    try_again_later(topic);
}

/* Up to this number, in one piece: each in one of its own would take more for malloc's heads. */
static bool make_more(cafka_topic *topic, int32_t count)
{
    size_t n = (size_t)(count - topic->all_count);
    struct partition_slab *slab = mem_alloc(sizeof *slab + n * sizeof slab->partitions[0]);
    if (!slab)
        return false;
    slab->older = topic->slabs;
    topic->slabs = slab;
    for (size_t i = 0; i < n; i++) {
        struct partition *p = &slab->partitions[i];
        if (partition_init(p, topic, topic->all_count, NULL))
            return false; /* what was made is used, and the rest made in a piece of its own */
        p->limits = &topic->limits;
        p->closing = topic->producer->sender.refusing;
        topic->all[topic->all_count++] = p;
    }
    return true;
}

/* Partitions up to this number exist; false: no memory. */
static bool make_partitions(cafka_topic *topic, int32_t count)
{
    if (count <= topic->all_count)
        return true;
    size_t n = (size_t)count;
    struct partition **all = mem_recalloc(topic->all, n, sizeof *all);
    if (all)
        topic->all = all;
    int32_t *queued = mem_recalloc(topic->queued, n, sizeof *queued);
    if (queued)
        topic->queued = queued;
    int32_t *ids = mem_recalloc(topic->ids, n, sizeof *ids);
    if (ids)
        topic->ids = ids;
    if (!all || !queued || !ids)
        return false;
    return topic->all_count == count || make_more(topic, count);
}

static bool publish_set(cafka_topic *topic, int32_t count)
{
    struct partition_set *old = atomic_load_explicit(&topic->set, memory_order_relaxed);
    if (old && old->count == count)
        return true;
    if (!make_partitions(topic, count))
        return false;
    struct partition_set *set = mem_alloc(sizeof *set + (size_t)count * sizeof set->partitions[0]);
    if (!set)
        return false;
    set->older = old;
    set->count = count;
    for (int32_t i = 0; i < count; i++)
        set->partitions[i] = topic->all[i];
    atomic_store_explicit(&topic->set, set, memory_order_release);
    return true;
}

/* Which partitions have a leader: where records without a key may go. */
static void note_available(cafka_topic *topic)
{
    int32_t count = topic->meta->partition_count;
    pthread_mutex_lock(&topic->mu);
    if (count > topic->available_capacity) {
        int32_t *available = mem_recalloc(topic->available, (size_t)count, sizeof *available);
        if (available) {
            topic->available = available;
            topic->available_capacity = count;
        }
    }
    topic->available_count = 0;
    for (int32_t i = 0; i < count && i < topic->available_capacity; i++)
        if (topic->meta->partitions[i].leader >= 0)
            topic->available[topic->available_count++] = i;
    topic->load.length = 0;
    pthread_mutex_unlock(&topic->mu);
}

void topic_changed(cafka_topic *topic, unsigned what)
{
    struct metadata_topic *meta = topic->meta;
    struct sender *sender = &topic->producer->sender;
    cafka_error error = meta->error;
    if (meta->known && meta->partition_count > 0) {
        if (!publish_set(topic, meta->partition_count)) {
            error_clear(&error);
            error_set_flags(&error, CAFKA_ERR_MEMORY, CAFKA_RETRIABLE,
                            "no memory for the partitions of %s", topic->name);
            try_again_later(topic);
        }
        note_available(topic);
        struct partition *sticky = atomic_load_explicit(&topic->sticky, memory_order_relaxed);
        if (sticky && sticky->index >= meta->partition_count)
            topic_move_on(topic, sticky);
    }
    note_error(topic, &error);
    topic_wake(topic);

    if (what & METADATA_RECREATED)
        batch_limits_init(&topic->limits);
    for (int32_t i = 0; i < topic->all_count; i++) {
        struct partition *p = topic->all[i];
        if (what & METADATA_RECREATED)
            p->confirmed_broker = -1; /* another log: it knows nothing of us */
        sender_route(sender, p);
    }
    sender_pump_dirty(sender);
}

void topic_watch_init(cafka_topic *topic)
{
    topic->growth_task.run = look_for_growth;
    topic->growth_timer.fire = fire_growth;
}
