/*
 * fetch_request.c - see fetch_request.h.
 */
#include "consumer/fetch_request.h"

#include "protocol/api_keys.h"

typedef struct fetch_request_fetch_topic topic_part;
typedef struct fetch_request_fetch_partition partition_part;
typedef struct fetch_request_forgotten_topic forgotten_part;

enum { FIRST_VERSION_WITH_IDS = 13 };

static bool may_fetch(const struct fetcher *fetcher, const struct consumer_partition *p,
                      int64_t now_ms)
{
    return p->loop.state == PARTITION_FETCHING && !p->loop.paused &&
           p->loop.not_before_ms <= now_ms &&
           atomic_load(&p->buffered_bytes) <=
               2 * (long long)fetcher->settings->max_partition_fetch_bytes;
}

static bool ids_known(const struct fetcher *fetcher, const struct fetch_broker *fb, int64_t now_ms)
{
    struct list *link, *after;
    list_each(link, after, &fb->partitions)
    {
        const struct consumer_partition *p =
            list_item(link, struct consumer_partition, loop.at_broker);
        if (may_fetch(fetcher, p, now_ms) && uuid_is_zero(p->loop.topic->metadata->id))
            return false;
    }
    return true;
}

static bool same_topic(const topic_part *part, const struct consumer_topic *topic)
{
    return uuid_equal(part->topic_id, topic->metadata->id) &&
           str_is(part->topic, topic->metadata->name);
}

/* List the partitions that the session does not know, or knows otherwise. */
static bool list_wanted(struct fetch_broker *fb, struct fetch_request *body, size_t count,
                        int64_t now_ms)
{
    struct fetcher *fetcher = fb->fetcher;
    body->topics = arena_calloc(&fetcher->build, count, sizeof *body->topics);
    partition_part *parts = arena_calloc(&fetcher->build, count, sizeof *parts);
    if (count && (!body->topics || !parts))
        return false;
    topic_part *topic = NULL;
    struct list *link, *after;
    list_each(link, after, &fb->partitions)
    {
        struct consumer_partition *p = list_item(link, struct consumer_partition, loop.at_broker);
        if (!may_fetch(fetcher, p, now_ms))
            continue;
        const struct metadata_topic *metadata = p->loop.topic->metadata;
        const struct metadata_partition *known = metadata_partition(metadata, p->partition);
        int32_t epoch = known ? known->leader_epoch : -1;
        p->loop.asked_generation = p->loop.generation;
        if (!fetch_session_want(&fb->session, &p->loop.session, metadata->id, p->loop.fetch_offset,
                                epoch, fetcher->settings->max_partition_fetch_bytes))
            continue;
        if (!topic || !same_topic(topic, p->loop.topic)) {
            topic = &body->topics[body->topics_count++];
            fetch_request_fetch_topic_init(topic);
            topic->topic = str_of(metadata->name);
            topic->topic_id = metadata->id;
            topic->partitions = parts;
        }
        partition_part *part = parts++;
        fetch_request_fetch_partition_init(part);
        part->partition = p->partition;
        part->current_leader_epoch = epoch;
        part->fetch_offset = p->loop.fetch_offset;
        part->partition_max_bytes = fetcher->settings->max_partition_fetch_bytes;
        topic->partitions_count++;
    }
    return true;
}

/* Members that are not wanted now leave the session. A name and one number each: few at a time. */
static bool list_forgotten(struct fetch_broker *fb, struct fetch_request *body)
{
    struct fetcher *fetcher = fb->fetcher;
    size_t room = fb->session.count;
    body->forgotten_topics_data =
        arena_calloc(&fetcher->build, room, sizeof *body->forgotten_topics_data);
    int32_t *numbers = arena_calloc(&fetcher->build, room, sizeof *numbers);
    if (room && (!body->forgotten_topics_data || !numbers))
        return false;
    struct fetch_session_entry *entry;
    while ((entry = fetch_session_next_forgotten(&fb->session))) {
        const struct consumer_partition *p =
            container_of(entry, struct consumer_partition, loop.session);
        if (fb->session.full)
            continue;
        forgotten_part *part = &body->forgotten_topics_data[body->forgotten_topics_data_count++];
        fetch_request_forgotten_topic_init(part);
        part->topic = str_of(p->topic);
        part->topic_id = entry->topic_id;
        part->partitions = numbers++;
        part->partitions[0] = p->partition;
        part->partitions_count = 1;
    }
    return true;
}

static size_t count_partitions(const struct fetch_broker *fb)
{
    size_t count = 0;
    struct list *link, *after;
    list_each(link, after, &fb->partitions) count++;
    return count;
}

int fetch_request_build(struct fetch_broker *fb, int64_t ask, struct fetch_request *body,
                        cafka_error *err)
{
    struct fetcher *fetcher = fb->fetcher;
    const struct consumer_settings *settings = fetcher->settings;
    arena_reset(&fetcher->build);
    fetch_request_init(body);
    body->replica_id = -1;
    body->max_wait_ms = settings->fetch_max_wait_ms;
    body->min_bytes = settings->fetch_min_bytes;
    body->max_bytes = (int32_t)ask;
    body->isolation_level = settings->read_committed;
    fetch_session_begin(&fb->session);
    if (!list_wanted(fb, body, count_partitions(fb), loop_now_ms(fetcher->client->loop)) ||
        !list_forgotten(fb, body)) {
        fetch_session_failed(&fb->session);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a Fetch request");
    }
    body->session_id = fb->session.id;
    body->session_epoch = fb->session.epoch;
    return CAFKA_OK;
}

int fetch_request_version(const struct fetch_broker *fb, const struct conn *conn)
{
    bool ids = ids_known(fb->fetcher, fb, loop_now_ms(fb->fetcher->client->loop));
    int version =
        conn_version(conn, API_FETCH, ids ? FETCH_MAX_VERSION : FIRST_VERSION_WITH_IDS - 1);
    return version >= FETCH_FIRST_VERSION ? version : -1;
}
