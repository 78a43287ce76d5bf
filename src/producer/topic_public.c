/*
 * topic_public.c - what an application may ask of a topic: its handle, its partitions, who leads
 * them, and where a record would go.
 */
#include <cafka/plugin.h>

#include "producer/send.h"

int cafka_producer_topic(cafka_producer *producer, const char *name, cafka_topic **out,
                         cafka_error *err)
{
    error_clear(err);
    if (!producer || !name || !out)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "a topic needs a producer, a name, and a place to go to");
    int rc = producer_usable(producer, err);
    return rc ? rc : topics_get(producer, name, out, err);
}

const char *cafka_topic_name(const cafka_topic *topic)
{
    return topic ? topic->name : NULL;
}

int cafka_producer_partitions(cafka_producer *producer, const char *name, int64_t timeout_ms,
                              int32_t *count, cafka_error *err)
{
    error_clear(err);
    if (!producer || !name || !count || timeout_ms < -1)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "counting partitions needs a producer, a topic and a place to go to");
    cafka_topic *topic;
    int rc = producer_usable(producer, err);
    if (!rc)
        rc = topics_get(producer, name, &topic, err);
    if (!rc) {
        if (timeout_ms < 0)
            timeout_ms = producer->settings.max_block_ms;
        rc = topic_await(topic, -1, timeout_ms ? client_deadline(&producer->client, timeout_ms) : 0,
                         err);
    }
    if (!rc)
        *count = atomic_load_explicit(&topic->set, memory_order_acquire)->count;
    return rc;
}

int cafka_topic_has_leader(const cafka_topic *topic, int32_t partition)
{
    struct partition_set *set =
        topic ? atomic_load_explicit(&topic->set, memory_order_acquire) : NULL;
    return set && partition >= 0 && partition < set->count &&
           atomic_load_explicit(&set->partitions[partition]->broker, memory_order_relaxed);
}

int cafka_producer_partition_for(cafka_producer *producer, const cafka_record *record,
                                 int32_t *partition, cafka_error *err)
{
    error_clear(err);
    if (!producer || !record || !partition)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "choosing a partition needs a producer, a record and a place to go to");
    struct patience patience = {0};
    struct plugged plugged;
    struct append append;
    cafka_topic *topic;
    int rc = producer_usable(producer, err);
    if (rc)
        return rc;
    rc = plugged_begin_quietly(&plugged, producer, record, &patience, err);
    const cafka_record *r = &plugged.record;
    if (!rc)
        rc = send_find_topic(producer, r, &topic, err);
    if (!rc)
        rc = send_prepare(producer, r, &append, err);
    int32_t wanted = r->flags & CAFKA_RECORD_PARTITION ? r->partition : -1;
    if (!rc)
        rc = topic_await(topic, wanted, patience_deadline(producer, &patience), err);
    if (!rc)
        *partition = wanted >= 0 ? wanted : topic_would_choose(topic, append.key);
    plugged_end(&plugged, producer, NULL);
    return rc;
}
