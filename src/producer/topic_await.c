/*
 * topic_await.c - threads that wait for a topic to be known, or to have a partition.
 */
#include "producer/topics.h"

#include "producer/room.h"

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

void topic_wake(cafka_topic *topic)
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
        topic_wake(topic);
    }
}
