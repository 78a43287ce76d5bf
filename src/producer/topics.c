/*
 * topics.c - the topics of a producer: found by name without a lock, made once, freed at the end.
 * What metadata says of one is in topic_metadata.c, waiting for it in topic_await.c, choosing a
 * partition in topic_choice.c.
 */
#include "producer/topics.h"

#include "producer/room.h"
#include "util/alloc.h"
#include "util/hash.h"

enum { TABLE_FIRST = 16, NAME_MAX_SIZE = 249 };

/* --- the table --- */

int topics_init(struct topics *topics, cafka_error *err)
{
    list_init(&topics->all);
    if (pthread_mutex_init(&topics->mu, NULL))
        return error_set(err, CAFKA_ERR_SYSTEM, "no lock for topics");
    topics->mu_made = true;
    return CAFKA_OK;
}

static cafka_topic *look_up(const struct topic_table *table, const char *name, size_t size)
{
    if (!table)
        return NULL;
    for (size_t i = hash_bytes(name, size);; i++) {
        cafka_topic *topic =
            atomic_load_explicit(&table->slots[i & table->mask], memory_order_acquire);
        if (!topic || (topic->name_size == size && !memcmp(topic->name, name, size)))
            return topic;
    }
}

cafka_topic *topics_find(struct topics *topics, const char *name)
{
    cafka_topic *latest = atomic_load_explicit(&topics->latest, memory_order_acquire);
    if (latest && !strcmp(latest->name, name))
        return latest;
    struct topic_table *table = atomic_load_explicit(&topics->table, memory_order_acquire);
    cafka_topic *topic = look_up(table, name, strlen(name));
    if (topic)
        atomic_store_explicit(&topics->latest, topic, memory_order_release);
    return topic;
}

static void insert(struct topic_table *table, cafka_topic *topic)
{
    size_t i = hash_bytes(topic->name, topic->name_size);
    while (atomic_load_explicit(&table->slots[i & table->mask], memory_order_relaxed))
        i++;
    atomic_store_explicit(&table->slots[i & table->mask], topic, memory_order_release);
}

/* Room for one more; readers go on with the old table until they see the new one. */
static int reserve_locked(struct topics *topics, cafka_error *err)
{
    struct topic_table *old = atomic_load_explicit(&topics->table, memory_order_relaxed);
    size_t size = old ? old->mask + 1 : 0;
    if (2 * (topics->count + 1) <= size)
        return CAFKA_OK;
    size = size ? 2 * size : TABLE_FIRST;
    struct topic_table *table = mem_zalloc(sizeof *table + size * sizeof table->slots[0]);
    if (!table)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for another topic");
    table->older = old;
    table->mask = size - 1;
    for (size_t i = 0; old && i <= old->mask; i++) {
        cafka_topic *topic = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
        if (topic)
            insert(table, topic);
    }
    atomic_store_explicit(&topics->table, table, memory_order_release);
    return CAFKA_OK;
}

/* --- a topic --- */

static void topic_free(cafka_topic *topic)
{
    if (!topic)
        return;
    for (int32_t i = 0; i < topic->all_count; i++)
        partition_fini(topic->all[i], &topic->producer->accumulator);
    mem_free(topic->all);
    for (struct partition_slab *slab; (slab = topic->slabs);) {
        topic->slabs = slab->older;
        mem_free(slab);
    }
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_relaxed);
    while (set) {
        struct partition_set *older = set->older;
        mem_free(set);
        set = older;
    }
    partition_load_fini(&topic->load);
    mem_free(topic->available);
    mem_free(topic->queued);
    mem_free(topic->ids);
    if (topic->mu_made)
        pthread_mutex_destroy(&topic->mu);
    mem_free(topic->name);
    mem_free(topic);
}

void topics_fini(struct topics *topics)
{
    struct topic_table *table = atomic_load_explicit(&topics->table, memory_order_relaxed);
    for (size_t i = 0; table && i <= table->mask; i++)
        topic_free(atomic_load_explicit(&table->slots[i], memory_order_relaxed));
    while (table) {
        struct topic_table *older = table->older;
        mem_free(table);
        table = older;
    }
    if (topics->mu_made)
        pthread_mutex_destroy(&topics->mu);
    memset(topics, 0, sizeof *topics);
}

static bool is_legal(const char *name)
{
    size_t size = strlen(name);
    if (!size || size > NAME_MAX_SIZE || !strcmp(name, ".") || !strcmp(name, ".."))
        return false;
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return strspn(name, legal) == size;
}

static void register_topic(struct loop_task *task)
{
    cafka_topic *topic = container_of(task, cafka_topic, register_task);
    list_push_back(&topic->producer->topics.all, &topic->link);
    topic_meters_init(topic);
    if (!topic->producer->sender.stopped)
        topic_adopt(topic);
}

static int topic_new(cafka_topic **out, cafka_producer *producer, const char *name, cafka_error *err)
{
    cafka_topic *topic = mem_zalloc(sizeof *topic);
    if (topic)
        topic->name = mem_strdup(name);
    if (!topic || !topic->name || pthread_mutex_init(&topic->mu, NULL)) {
        topic_free(topic);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for topic %s", name);
    }
    topic->mu_made = true;
    topic->producer = producer;
    topic->name_size = strlen(name);
    topic->register_task.run = register_topic;
    topic_watch_init(topic);
    list_init(&topic->waiters);
    batch_limits_init(&topic->limits);
    rng_seed(&topic->rng, producer->client.env->random(producer->client.env));
    *out = topic;
    return CAFKA_OK;
}

int topics_get(cafka_producer *producer, const char *name, cafka_topic **out, cafka_error *err)
{
    struct topics *topics = &producer->topics;
    *out = topics_find(topics, name);
    if (*out)
        return CAFKA_OK;
    if (!is_legal(name))
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "'%.64s%s' is no topic name: 1 to 249 of a-z A-Z 0-9 . _ - are allowed",
                         name, strlen(name) > 64 ? "…" : "");
    pthread_mutex_lock(&topics->mu);
    cafka_topic *topic = topics_find(topics, name);
    int rc = topic ? CAFKA_OK : reserve_locked(topics, err);
    if (!rc && !topic) {
        rc = topic_new(&topic, producer, name, err);
        if (!rc) {
            insert(atomic_load_explicit(&topics->table, memory_order_relaxed), topic);
            topics->count++;
            loop_post(producer->client.loop, &topic->register_task);
        }
    }
    pthread_mutex_unlock(&topics->mu);
    if (!rc)
        *out = topic;
    return rc;
}
