/*
 * topics.c - see topics.h.
 */
#include "producer/topics.h"

#include <cafka/plugin.h>

#include "producer/room.h"
#include "protocol/errors.h"
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
    for (int32_t i = 0; i < topic->all_count; i++) {
        partition_fini(topic->all[i], &topic->producer->accumulator);
        mem_free(topic->all[i]);
    }
    mem_free(topic->all);
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

static void fire_growth(struct timer *timer);
static void look_for_growth(struct loop_task *task);

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

/* On the loop: metadata takes an interest in it. */
static void adopt(cafka_topic *topic)
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

static void register_topic(struct loop_task *task)
{
    cafka_topic *topic = container_of(task, cafka_topic, register_task);
    list_push_back(&topic->producer->topics.all, &topic->link);
    if (!topic->producer->sender.stopped)
        adopt(topic);
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
    topic->growth_task.run = look_for_growth;
    topic->growth_timer.fire = fire_growth;
    list_init(&topic->waiters);
    atomic_init(&topic->batch_limit, SIZE_MAX);
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

int cafka_topic_has_leader(const cafka_topic *topic, int32_t partition)
{
    struct partition_set *set =
        topic ? atomic_load_explicit(&topic->set, memory_order_acquire) : NULL;
    return set && partition >= 0 && partition < set->count &&
           atomic_load_explicit(&set->partitions[partition]->broker, memory_order_relaxed);
}

/* --- waiting for metadata --- */

struct topic_waiter {
    struct list link;
    int event;
    int32_t partition;
};

static bool has_partition(cafka_topic *topic, int32_t partition)
{
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_acquire);
    return set && set->count > (partition < 0 ? 0 : partition);
}

/* Nothing that waiting could mend? */
static bool is_hopeless(const cafka_error *error)
{
    return error->code && !(error->flags & CAFKA_RETRIABLE);
}

static int not_known(cafka_topic *topic, int32_t partition, int64_t waited_ms, cafka_error *err)
{
    cafka_producer *producer = topic->producer;
    pthread_mutex_lock(&topic->mu);
    cafka_error why = topic->error;
    pthread_mutex_unlock(&topic->mu);
    if (!why.code) {
        pthread_mutex_lock(&producer->mu);
        why = producer->trouble;
        pthread_mutex_unlock(&producer->mu);
    }
    const char *between = why.code ? ": " : "";
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_acquire);
    if (set && partition >= set->count)
        return error_set(err, CAFKA_ERR_TIMEOUT,
                         "sending to %s-%d: the topic has only %d partitions, and no more after %lld ms "
                         "(max.block.ms)",
                         topic->name, (int)partition, (int)set->count, (long long)waited_ms);
    return error_set(err, CAFKA_ERR_TIMEOUT,
                     "sending to %s: the topic is not known after %lld ms%s%s", topic->name,
                     (long long)waited_ms, between, why.message);
}

static void look_for_growth(struct loop_task *task)
{
    cafka_topic *topic = container_of(task, cafka_topic, growth_task);
    atomic_store(&topic->growth_posted, false);
    topic->growth_attempts = 0;
    if (!timer_is_set(&topic->growth_timer))
        fire_growth(&topic->growth_timer);
}

/* May this thread wait for the topic, and is there anything to wait for? */
static int may_await(cafka_topic *topic, int64_t deadline, cafka_error *err)
{
    cafka_producer *producer = topic->producer;
    pthread_mutex_lock(&topic->mu);
    cafka_error why = topic->error;
    pthread_mutex_unlock(&topic->mu);
    if (is_hopeless(&why))
        return error_set_flags(err, why.code, why.flags, "sending to %s: %.180s", topic->name,
                               why.message);
    int rc = producer_usable(producer, err);
    if (!rc && (!deadline || client_may_wait(&producer->client, NULL)))
        rc = error_set(err, CAFKA_ERR_WOULD_BLOCK,
                       "sending to %s would have to wait for metadata, and must not here",
                       topic->name);
    return rc;
}

/* Stand in line, and have the loop look for a partition that may have come. */
static void stand_in_line(cafka_topic *topic, struct topic_waiter *waiter)
{
    pthread_mutex_lock(&topic->mu);
    if (!list_linked(&waiter->link))
        list_push_back(&topic->waiters, &waiter->link);
    pthread_mutex_unlock(&topic->mu);
    if (atomic_load_explicit(&topic->set, memory_order_acquire) &&
        !atomic_exchange(&topic->growth_posted, true))
        loop_post(topic->producer->client.loop, &topic->growth_task);
}

int topic_await(cafka_topic *topic, int32_t partition, int64_t deadline, cafka_error *err)
{
    struct client *client = &topic->producer->client;
    const cafka_env *env = client->env;
    if (has_partition(topic, partition))
        return CAFKA_OK;
    int rc = may_await(topic, deadline, err);
    if (rc)
        return rc;

    int64_t began_ms = env_now_ms(env);
    struct topic_waiter waiter = {.event = env->event_open(env), .partition = partition};
    if (waiter.event < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -waiter.event, "waiting for topic %s",
                           topic->name);
    for (;;) {
        stand_in_line(topic, &waiter); /* first, and then look again */
        if (has_partition(topic, partition) || (rc = may_await(topic, deadline, err)))
            break;
        if (client_wait(client, waiter.event, deadline, NULL) && !has_partition(topic, partition)) {
            rc = not_known(topic, partition, env_now_ms(env) - began_ms, err);
            break;
        }
    }
    pthread_mutex_lock(&topic->mu);
    list_remove(&waiter.link);
    pthread_mutex_unlock(&topic->mu);
    env->event_close(env, waiter.event);
    return rc;
}

static void wake_waiters(cafka_topic *topic)
{
    pthread_mutex_lock(&topic->mu);
    struct list *link;
    while ((link = list_pop_front(&topic->waiters)))
        client_signal(&topic->producer->client, list_item(link, struct topic_waiter, link)->event);
    pthread_mutex_unlock(&topic->mu);
}

void topics_wake_all(struct topics *topics)
{
    struct list *link, *after;
    list_each(link, after, &topics->all)
    {
        cafka_topic *topic = list_item(link, cafka_topic, link);
        loop_timer_cancel(topic->producer->client.loop, &topic->growth_timer);
        wake_waiters(topic);
    }
}

/* --- what metadata says: the loop --- */

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
        adopt(topic);
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
    while (topic->all_count < count) {
        struct partition *p = mem_alloc(sizeof *p);
        if (!p || partition_init(p, topic, topic->all_count, NULL)) {
            mem_free(p);
            return false;
        }
        p->closing = topic->producer->sender.refusing;
        topic->all[topic->all_count++] = p;
    }
    return true;
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
    wake_waiters(topic);

    for (int32_t i = 0; i < topic->all_count; i++) {
        struct partition *p = topic->all[i];
        if (what & METADATA_RECREATED)
            p->confirmed_broker = -1; /* another log: it knows nothing of us */
        sender_route(sender, p);
    }
    sender_pump_dirty(sender);
}

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

struct partition *topic_next_in_turn(cafka_topic *topic, const struct partition_set *set)
{
    uint32_t turn = atomic_fetch_add_explicit(&topic->turn, 1, memory_order_relaxed);
    pthread_mutex_lock(&topic->mu);
    int32_t index =
        partition_pick_evenly(topic->available, topic->available_count, set->count, turn);
    pthread_mutex_unlock(&topic->mu);
    return set->partitions[index < set->count ? index : index % set->count];
}

static bool is_stuck(const struct partition *p, int64_t now_ms, int64_t timeout_ms)
{
    struct sender_broker *broker = atomic_load_explicit(&p->broker, memory_order_relaxed);
    return timeout_ms > 0 && broker && broker->ready_since_ms &&
           now_ms - broker->ready_since_ms > timeout_ms;
}

void topic_update_load(cafka_topic *topic)
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
