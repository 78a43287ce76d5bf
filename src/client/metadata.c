/*
 * metadata.c - see metadata.h. What is known and when to ask; answers are read in metadata_answer.c.
 */
#include "client/metadata_room.h"

#include <string.h>

#include "protocol/api_keys.h"
#include "util/alloc.h"

enum { LOOK_AGAIN_MS = 1000 }; /* for another broker while the one being dialed keeps silent */

/* --- topics --- */

struct metadata_topic *metadata_topic_find(struct metadata *m, struct str name)
{
    return map_get(&m->by_name, name.data, name.size);
}

struct metadata_topic *metadata_topic_find_id(struct metadata *m, struct uuid id)
{
    struct metadata_topic *topic = NULL;
    if (uuid_is_zero(id))
        return NULL;
    topic = map_get(&m->by_id, id.bytes, sizeof id.bytes);
    if (topic || !m->some_not_by_id)
        return topic;
    while ((topic = metadata_next(m, topic)))
        if (uuid_equal(topic->id, id))
            return topic;
    return NULL;
}

struct metadata_topic *metadata_next(struct metadata *m, struct metadata_topic *topic)
{
    struct list *link = topic ? topic->link.next : m->topics.next;
    return link == &m->topics ? NULL : list_item(link, struct metadata_topic, link);
}

void topic_set_id(struct metadata *m, struct metadata_topic *topic, struct uuid id)
{
    if (uuid_equal(topic->id, id))
        return;
    if (map_get(&m->by_id, topic->id.bytes, sizeof topic->id.bytes) == topic)
        (void)map_remove(&m->by_id, topic->id.bytes, sizeof topic->id.bytes);
    topic->id = id;
    if (!uuid_is_zero(id) && !map_put(&m->by_id, id.bytes, sizeof id.bytes, topic))
        m->some_not_by_id = true;
}

void topic_forget(struct metadata *m, struct metadata_topic *topic)
{
    topic_set_id(m, topic, (struct uuid){{0}});
    (void)map_remove(&m->by_name, topic->name, strlen(topic->name));
    list_remove(&topic->link);
    list_remove(&topic->wanting);
    mem_free(topic->name);
    mem_free(topic->partitions);
    mem_free(topic);
}

/* Nobody holds it, no request names it, and it is not kept as one of all. */
void topic_release(struct metadata *m, struct metadata_topic *topic)
{
    if (!topic->refs && !topic->asked && !m->want_all)
        topic_forget(m, topic);
}

struct metadata_topic *topic_new(struct metadata *m, struct str name)
{
    struct metadata_topic *topic = mem_zalloc(sizeof *topic);
    if (!topic)
        return NULL;
    topic->name = mem_strndup(name.data, name.size);
    if (!topic->name || !map_put(&m->by_name, name.data, name.size, topic)) {
        mem_free(topic->name);
        mem_free(topic);
        return NULL;
    }
    topic->touched_ms = loop_now_ms(m->client->loop);
    list_push_back(&m->topics, &topic->link);
    return topic;
}

void topic_want(struct metadata *m, struct metadata_topic *topic, int64_t at_ms)
{
    topic->ask_at_ms = at_ms;
    if (!list_linked(&topic->wanting))
        list_push_back(&m->wanting, &topic->wanting);
    metadata_schedule(m);
}

int metadata_topic_ref(struct metadata *m, struct str name, struct metadata_topic **out,
                       cafka_error *err)
{
    struct metadata_topic *topic = metadata_topic_find(m, name);
    if (!topic)
        topic = topic_new(m, name);
    if (!topic)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the topic %.*s", STR_ARG(name));
    topic->refs++;
    metadata_topic_touch(m, topic);
    *out = topic;
    return CAFKA_OK;
}

void metadata_topic_unref(struct metadata *m, struct metadata_topic *topic)
{
    if (!topic || --topic->refs)
        return;
    list_remove(&topic->wanting);
    topic_release(m, topic);
}

void metadata_topic_touch(struct metadata *m, struct metadata_topic *topic)
{
    topic->touched_ms = loop_now_ms(m->client->loop);
    if ((!topic->known || topic->error.code) && !list_linked(&topic->wanting) && !topic->asked)
        topic_want(m, topic, topic->ask_at_ms);
}

void metadata_set_topic_idle(struct metadata *m, int64_t idle_ms)
{
    m->topic_idle_ms = idle_ms;
}

static bool is_idle(const struct metadata *m, const struct metadata_topic *topic)
{
    return m->topic_idle_ms >= 0 &&
           loop_now_ms(m->client->loop) - topic->touched_ms > m->topic_idle_ms;
}

/* --- when to ask --- */

static int64_t max_age_ms(const struct metadata *m)
{
    const struct client_settings *settings = m->client->settings;
    return settings->metadata_max_age_ms > settings->retry_backoff_ms ? settings->metadata_max_age_ms
                                                                      : settings->retry_backoff_ms;
}

/* The time of the next request, by what is wanted; backoff after a failure puts it off. */
static int64_t next_request_ms(const struct metadata *m)
{
    int64_t at_ms = INT64_MAX;
    if (m->need_full)
        at_ms = m->full_not_before_ms;
    else
        at_ms = m->last_full_ms + max_age_ms(m);
    for (const struct list *link = m->wanting.next; link != &m->wanting; link = link->next) {
        const struct metadata_topic *topic = list_item(link, struct metadata_topic, wanting);
        if (topic->ask_at_ms < at_ms)
            at_ms = topic->ask_at_ms;
    }
    return at_ms > m->blocked_until_ms ? at_ms : m->blocked_until_ms;
}

void metadata_schedule(struct metadata *m)
{
    if (!m->started || m->client->stopped || m->request.conn)
        return;
    loop_timer_set(m->client->loop, &m->timer, next_request_ms(m));
}

void metadata_refresh(struct metadata *m)
{
    m->need_full = true;
    metadata_schedule(m);
}

void metadata_look_again(struct metadata *m)
{
    if (!m->request.conn || !m->full)
        metadata_refresh(m);
}

void metadata_set_auto_create(struct metadata *m, bool allow)
{
    m->auto_create = allow;
}

int metadata_want_all(struct metadata *m, bool all, cafka_error *err)
{
    (void)err;
    m->want_all = all;
    if (all) {
        metadata_refresh(m);
        return CAFKA_OK;
    }
    struct list *link, *after;
    list_each(link, after, &m->topics)
        topic_release(m, list_item(link, struct metadata_topic, link));
    return CAFKA_OK;
}

/* --- asking --- */

/* Everything, when its time has come; otherwise the topics that wait. False: no memory. */
static bool fill_request(struct metadata *m, int version)
{
    struct client *client = m->client;
    int64_t now_ms = loop_now_ms(client->loop);
    m->full = (m->need_full && m->full_not_before_ms <= now_ms) ||
              now_ms - m->last_full_ms >= max_age_ms(m);
    if (m->full)
        m->need_full = false; /* a wish that comes from now on is for the request after this one */

    int32_t count = 0;
    metadata_request_init(&m->body);
    struct list *link, *after;
    list_each(link, after, &m->topics)
    {
        struct metadata_topic *topic = list_item(link, struct metadata_topic, link);
        bool due = list_linked(&topic->wanting) && topic->ask_at_ms <= now_ms;
        topic->answered = false;
        if (!topic->refs || (!due && !m->full))
            continue;
        if (!due && is_idle(m, topic)) {
            topic->known = false; /* the next touch asks again */
            continue;
        }
        if (count == m->asked_capacity) {
            int32_t capacity = count ? 2 * count : 16;
            void *grown = mem_recalloc(m->asked, (size_t)capacity, sizeof *m->asked);
            if (!grown)
                return false;
            m->asked = grown;
            m->asked_capacity = capacity;
        }
        metadata_request_topic_init(&m->asked[count]);
        m->asked[count++].name = str_of(topic->name);
        topic->asked = true;
        list_remove(&topic->wanting);
    }
    m->body.topics = m->asked;
    m->body.topics_count = count;
    m->all = m->want_all && m->full;
    if (m->all)
        m->body.topics_count = version >= 1 ? -1 : 0; /* version 0 says "all" with an empty list */
    m->body.allow_auto_topic_creation = m->auto_create || version < 4;
    return true;
}

/* A request that did not leave, or failed: what it asked for is wanted again. */
void metadata_unask(struct metadata *m)
{
    if (m->full)
        m->need_full = true;
    m->full = false;
    struct list *link, *after;
    list_each(link, after, &m->topics)
    {
        struct metadata_topic *topic = list_item(link, struct metadata_topic, link);
        if (!topic->asked)
            continue;
        topic->asked = false;
        if (topic->refs && !list_linked(&topic->wanting))
            list_push_back(&m->wanting, &topic->wanting);
        else
            topic_release(m, topic);
    }
}

void metadata_failed(struct metadata *m, const cafka_error *why)
{
    struct client *client = m->client;
    m->last_error = *why;
    m->blocked_until_ms = loop_now_ms(client->loop) + backoff_next(&m->failures, client->env);
    log_debug(m->log, "metadata: %s", why->message);
    metadata_schedule(m);
}

/* Too long without an answer, or nobody left to ask: what we know of the cluster may be history. */
static bool should_rebootstrap(const struct metadata *m)
{
    const struct client *client = m->client;
    if (!client->settings->metadata_rebootstrap || brokers_are_bootstrap(client))
        return false;
    int64_t waited_ms = loop_now_ms(client->loop) - m->attempt_since_ms;
    return brokers_all_down(client) ||
           (m->attempt_since_ms && waited_ms >= client->settings->metadata_rebootstrap_trigger_ms);
}

void metadata_rebootstrap(struct metadata *m, const char *why)
{
    cafka_error error = {0};
    log_warn(m->log, "starting again from bootstrap.servers, since %s", why);
    error_set_flags(&error, CAFKA_ERR_TRANSPORT, CAFKA_RETRIABLE,
                    "the connection was left, to start again from bootstrap.servers, since %s", why);
    brokers_hang_up(m->client, &error); /* it may be another cluster by now (KIP-1102) */
    m->attempt_since_ms = loop_now_ms(m->client->loop);
    m->need_full = true;
    m->full_not_before_ms = 0;
    brokers_bootstrap(m->client);
}

static void on_response(struct request *request, const struct reply *reply)
{
    struct metadata *m = container_of(request, struct metadata, request);
    cafka_error err = {0};
    int rc = reply->error ? reply->error->code : metadata_take_answer(m, reply, &err);
    if (m->client->stopped)
        return;
    if (!rc)
        return;
    metadata_unask(m);
    metadata_failed(m, reply->error ? reply->error : &err);
}

static void send_next(struct metadata *m)
{
    struct client *client = m->client;
    if (client->stopped || m->request.conn)
        return;
    int64_t now_ms = loop_now_ms(client->loop);
    if (!m->attempt_since_ms)
        m->attempt_since_ms = now_ms;
    if (should_rebootstrap(m))
        metadata_rebootstrap(m, brokers_all_down(client)
                                    ? "no known broker can be reached"
                                    : "none has told the state of the cluster for long");
    struct broker *broker = client_least_loaded(client, LANE_CONTROL);
    if (!broker) { /* metadata_broker_ready() goes on */
        loop_timer_set(client->loop, &m->timer, now_ms + LOOK_AGAIN_MS);
        return;
    }
    struct conn *conn = broker->lanes[LANE_CONTROL].conn;
    cafka_error err = {0};
    int rc = CAFKA_OK;
    int version = conn_version(conn, API_METADATA, -1);
    if (version < 0)
        rc = conn_unsupported(conn, API_METADATA, &err);
    else if (!fill_request(m, version))
        rc = error_set(&err, CAFKA_ERR_MEMORY, "no memory for a metadata request");
    if (!rc)
        rc = conn_send(conn, &m->request, version, &m->body, &err);
    if (rc) {
        metadata_unask(m);
        metadata_failed(m, &err);
        return;
    }
    m->asked_broker = broker->id;
    loop_timer_cancel(client->loop, &m->timer);
}

static void on_timer(struct timer *timer)
{
    struct metadata *m = container_of(timer, struct metadata, timer);
    send_next(m);
}

/* --- life --- */

int metadata_new(struct metadata **out, struct client *client, cafka_error *err)
{
    struct metadata *m = mem_zalloc(sizeof *m);
    if (!m)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for metadata");
    const struct client_settings *settings = client->settings;
    m->client = client;
    m->log = (struct log){&settings->log_sink, "metadata"};
    m->controller = -1;
    m->topic_idle_ms = -1;
    m->failures = (struct backoff){settings->retry_backoff_ms, settings->retry_backoff_max_ms, 0};
    m->request.api_key = API_METADATA;
    m->request.done = on_response;
    m->timer.fire = on_timer;
    list_init(&m->topics);
    list_init(&m->wanting);
    *out = m;
    return CAFKA_OK;
}

void metadata_free(struct metadata *m)
{
    if (!m)
        return;
    struct list *link, *after;
    list_each(link, after, &m->topics) topic_forget(m, list_item(link, struct metadata_topic, link));
    map_fini(&m->by_id);
    map_fini(&m->by_name);
    arena_fini(&m->arena);
    mem_free(m->asked);
    mem_free(m->cluster_id);
    mem_free(m);
}

void metadata_start(struct metadata *m)
{
    m->started = true;
    metadata_refresh(m);
}

void metadata_stop(struct metadata *m)
{
    loop_timer_cancel(m->client->loop, &m->timer);
}

static bool is_due(const struct metadata *m)
{
    return m->started && !m->request.conn && next_request_ms(m) <= loop_now_ms(m->client->loop);
}

void metadata_broker_ready(struct metadata *m)
{
    if (is_due(m))
        send_next(m);
}

void metadata_broker_down(struct metadata *m, const cafka_error *why)
{
    if (why->code && !m->request.conn)
        m->last_error = *why;
    if (is_due(m))
        send_next(m);
}

int32_t metadata_controller(const struct metadata *m)
{
    return m->controller;
}

const char *metadata_cluster_id(const struct metadata *m)
{
    return m->cluster_id;
}

const cafka_error *metadata_last_error(const struct metadata *m)
{
    return &m->last_error;
}

bool metadata_ready(const struct metadata *m)
{
    return m->ready;
}
