/*
 * fetch_request.c - see fetch_request.h.
 */
#include "consumer/fetch_request.h"

#include "protocol/api_keys.h"

typedef struct fetch_request_fetch_topic topic_part;
typedef struct fetch_request_fetch_partition partition_part;
typedef struct fetch_request_forgotten_topic forgotten_part;

enum {
    VERSION_WITH_LAST_EPOCH = 12,
    VERSION_WITH_IDS = 13,
    KEEP_BYTES = 64 << 10 /* a request that lists thousands of partitions is rare: its memory goes */
};

static struct consumer_partition *partition_of(struct fetch_session_entry *entry)
{
    return container_of(entry, struct consumer_partition, loop.session);
}

/* How many times the topic changes along the list, at most. */
static size_t count_topics(const struct list *entries)
{
    const struct consumer_topic *last = NULL;
    size_t count = 0;
    struct list *link, *after;
    list_each(link, after, entries)
    {
        const struct consumer_partition *p =
            partition_of(list_item(link, struct fetch_session_entry, link));
        count += p->loop.topic != last;
        last = p->loop.topic;
    }
    return count;
}

static size_t count_links(const struct list *entries)
{
    size_t count = 0;
    struct list *link, *after;
    list_each(link, after, entries) count++;
    return count;
}

static void begin_topic(topic_part *topic, const struct consumer_topic *of, partition_part *parts)
{
    fetch_request_fetch_topic_init(topic);
    topic->topic = str_of(of->metadata->name);
    topic->topic_id = of->metadata->id;
    topic->partitions = parts;
}

static void fill_partition(partition_part *part, const struct consumer_partition *p, int version)
{
    const struct metadata_partition *known =
        metadata_partition(p->loop.topic->metadata, /* NOLINT: a member of a session has a topic */
                           p->partition);
    fetch_request_fetch_partition_init(part);
    part->partition = p->partition;
    part->current_leader_epoch = known ? known->leader_epoch : -1;
    part->fetch_offset = p->loop.fetch_offset;
    part->partition_max_bytes = fetcher_of(p)->settings->max_partition_fetch_bytes;
    if (version >= VERSION_WITH_LAST_EPOCH)
        part->last_fetched_epoch = p->loop.fetch_epoch;
}

/* List the partitions that the session does not know, or knows otherwise. */
static bool list_wanted(struct fetch_broker *fb, struct fetch_request *body, int version)
{
    struct fetcher *fetcher = fb->fetcher;
    size_t count = count_links(&fb->session.changed), topics = count_topics(&fb->session.changed);
    body->topics = arena_calloc(&fetcher->build, topics, sizeof *body->topics);
    partition_part *parts = arena_calloc(&fetcher->build, count, sizeof *parts);
    if (count && (!body->topics || !parts))
        return false;
    const struct consumer_topic *last = NULL;
    struct fetch_session_entry *entry;
    while ((entry = fetch_session_next(&fb->session))) {
        struct consumer_partition *p = partition_of(entry);
        p->loop.asked_generation = p->loop.generation;
        if (p->loop.topic != last)
            begin_topic(&body->topics[body->topics_count++], p->loop.topic, parts);
        last = p->loop.topic;
        fill_partition(parts++, p, version);
        body->topics[body->topics_count - 1].partitions_count++;
    }
    fetcher->counts.listed += count;
    return true;
}

static bool is_member_again(const struct fetch_broker *fb, const struct fetch_forgotten *f)
{
    const struct consumer_partition *p =
        partition_table_get(&fb->fetcher->partitions, f->topic, f->partition);
    return p && p->loop.session.session == &fb->session &&
           uuid_equal(p->loop.topic->metadata->id, f->topic_id);
}

/* Those that left the session. A name and one number each: few at a time. */
static bool list_forgotten(struct fetch_broker *fb, struct fetch_request *body)
{
    struct fetcher *fetcher = fb->fetcher;
    struct fetch_session *session = &fb->session;
    size_t room = session->forgotten_count;
    body->forgotten_topics_data =
        arena_calloc(&fetcher->build, room, sizeof *body->forgotten_topics_data);
    int32_t *numbers = arena_calloc(&fetcher->build, room, sizeof *numbers);
    if (room && (!body->forgotten_topics_data || !numbers))
        return false;
    for (size_t i = 0; i < room; i++) {
        const struct fetch_forgotten *f = &session->forgotten[i];
        if (is_member_again(fb, f))
            continue;
        forgotten_part *part = &body->forgotten_topics_data[body->forgotten_topics_data_count++];
        fetch_request_forgotten_topic_init(part);
        part->topic = str_of(f->topic);
        part->topic_id = f->topic_id;
        part->partitions = numbers++;
        part->partitions[0] = f->partition;
        part->partitions_count = 1;
    }
    fetcher->counts.forgotten += (uint64_t)body->forgotten_topics_data_count;
    return true;
}

int fetch_request_build(struct fetch_broker *fb, int64_t ask, int version,
                        struct fetch_request *body, cafka_error *err)
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
    body->rack_id = str_of(settings->client_rack);
    fetch_session_begin(&fb->session);
    bool listed = list_wanted(fb, body, version) && list_forgotten(fb, body);
    fetch_session_sent(&fb->session);
    if (!listed) {
        fetch_session_failed(&fb->session);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a Fetch request");
    }
    body->session_id = fb->session.id;
    body->session_epoch = fb->session.epoch;
    return CAFKA_OK;
}

void fetch_request_sent(struct fetcher *fetcher)
{
    if (fetcher->build.used > KEEP_BYTES)
        arena_fini(&fetcher->build);
}

int fetch_request_version(const struct fetch_broker *fb, const struct conn *conn)
{
    int version = conn_version(conn, API_FETCH,
                               fb->session.nameless ? VERSION_WITH_IDS - 1 : FETCH_MAX_VERSION);
    return version >= FETCH_FIRST_VERSION ? version : -1;
}
