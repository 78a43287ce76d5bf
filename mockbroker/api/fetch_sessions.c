/*
 * fetch_sessions.c - see fetch_sessions.h.
 */
#include "mockbroker/api/fetch_sessions.h"

#include "mockbroker/api/data.h"
#include "util/alloc.h"

enum { UNUSED_FOR_MS = 120000 };

int fetch_sessions_new(struct fetch_sessions **out, struct broker *broker, cafka_error *err)
{
    struct fetch_sessions *sessions = mem_zalloc(sizeof *sessions);
    if (!sessions)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for fetch sessions");
    int64_t slots = broker_config_long(&broker->config, "max.incremental.fetch.session.cache.slots");
    list_init(&sessions->by_use);
    sessions->limit = slots < 0 ? 0 : (size_t)slots;
    sessions->loop = broker->loop;
    rng_fork(&sessions->rng, &broker->rng);
    *out = sessions;
    return CAFKA_OK;
}

void fetch_sessions_free(struct fetch_sessions *sessions)
{
    struct list *link;
    if (!sessions)
        return;
    while ((link = list_first(&sessions->by_use)))
        fetch_sessions_remove(sessions, list_item(link, struct fetch_session, link));
    map_fini(&sessions->by_id);
    mem_free(sessions);
}

struct fetch_session *fetch_sessions_find(struct fetch_sessions *sessions, int32_t id)
{
    return map_get_int(&sessions->by_id, id);
}

void fetch_sessions_remove(struct fetch_sessions *sessions, struct fetch_session *session)
{
    map_remove_int(&sessions->by_id, session->id);
    list_remove(&session->link);
    fetch_session_unref(session);
}

struct fetch_session *fetch_session_alone(bool by_id)
{
    struct fetch_session *session = mem_zalloc(sizeof *session);
    if (!session)
        return NULL;
    session->refs = 1;
    session->by_id = by_id;
    list_init(&session->entries);
    return session;
}

void fetch_session_unref(struct fetch_session *session)
{
    struct list *link;
    if (!session || --session->refs)
        return;
    while ((link = list_first(&session->entries)))
        fetch_session_forget(session, list_item(link, struct fetch_entry, link));
    map_fini(&session->index);
    mem_free(session);
}

/* A session that has to make room for one of `count` partitions; NULL: none. */
static struct fetch_session *find_victim(struct fetch_sessions *sessions, size_t count,
                                         int64_t now_ms)
{
    struct list *first = list_first(&sessions->by_use), *link, *after;
    struct fetch_session *oldest = first ? list_item(first, struct fetch_session, link) : NULL;
    struct fetch_session *smallest = NULL;
    if (!oldest || now_ms - oldest->used_ms > UNUSED_FOR_MS)
        return oldest;
    list_each(link, after, &sessions->by_use)
    {
        struct fetch_session *s = list_item(link, struct fetch_session, link);
        if (now_ms - s->made_ms > UNUSED_FOR_MS && s->count < count &&
            (!smallest || s->count < smallest->count))
            smallest = s;
    }
    return smallest;
}

struct fetch_session *fetch_sessions_make(struct fetch_sessions *sessions, size_t count, bool by_id)
{
    int64_t now_ms = loop_now_ms(sessions->loop);
    if (sessions->by_id.count >= sessions->limit) {
        struct fetch_session *victim = sessions->limit ? find_victim(sessions, count, now_ms) : NULL;
        if (!victim)
            return NULL;
        fetch_sessions_remove(sessions, victim);
    }
    struct fetch_session *session = fetch_session_alone(by_id);
    if (!session)
        return NULL;
    do
        session->id = (int32_t)rng_between(&sessions->rng, 1, INT32_MAX - 1);
    while (fetch_sessions_find(sessions, session->id));
    session->epoch = 1;
    session->made_ms = session->used_ms = now_ms;
    if (!map_put_int(&sessions->by_id, session->id, session)) {
        fetch_session_unref(session);
        return NULL;
    }
    list_push_back(&sessions->by_use, &session->link);
    return session;
}

void fetch_session_used(struct fetch_sessions *sessions, struct fetch_session *session)
{
    session->used_ms = loop_now_ms(sessions->loop);
    list_remove(&session->link);
    list_push_back(&sessions->by_use, &session->link);
}

struct fetch_entry *fetch_session_find(struct fetch_session *session, struct str topic,
                                       struct uuid id, int32_t index)
{
    struct partition_key key = partition_key(topic, id, index);
    return map_get(&session->index, key.bytes, key.size);
}

struct fetch_entry *fetch_session_add(struct fetch_session *session, struct str topic,
                                      struct uuid id, int32_t index)
{
    struct fetch_entry *entry = fetch_session_find(session, topic, id, index);
    if (entry)
        return entry;
    struct partition_key key = partition_key(topic, id, index);
    entry = mem_zalloc(sizeof *entry);
    if (!entry)
        return NULL;
    entry->topic = mem_strndup(topic.data ? topic.data : "", topic.size);
    if (!entry->topic || !map_put(&session->index, key.bytes, key.size, entry)) {
        mem_free(entry->topic);
        mem_free(entry);
        return NULL;
    }
    entry->topic_size = topic.size;
    entry->topic_id = id;
    entry->index = index;
    entry->high_watermark = entry->log_start = -1;
    list_push_back(&session->entries, &entry->link);
    session->count++;
    return entry;
}

void fetch_session_forget(struct fetch_session *session, struct fetch_entry *entry)
{
    struct partition_key key =
        partition_key((struct str){entry->topic, entry->topic_size}, entry->topic_id, entry->index);
    map_remove(&session->index, key.bytes, key.size);
    list_remove(&entry->link);
    session->count--;
    mem_free(entry->topic);
    mem_free(entry->known_as);
    mem_free(entry);
}

void fetch_session_to_end(struct fetch_session *session, struct fetch_entry *entry)
{
    list_remove(&entry->link);
    list_push_back(&session->entries, &entry->link);
}
