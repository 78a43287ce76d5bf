/*
 * fetch_session.c - see fetch_session.h.
 */
#include "consumer/fetch_session.h"

#include "protocol/errors.h"
#include "util/alloc.h"

void fetch_session_init(struct fetch_session *s)
{
    *s = (struct fetch_session){.epoch = FETCH_EPOCH_INITIAL};
    list_init(&s->changed);
    list_init(&s->steady);
}

void fetch_session_fini(struct fetch_session *s)
{
    mem_free(s->forgotten);
    s->forgotten = NULL;
    s->forgotten_count = s->forgotten_capacity = 0;
}

static void start_anew(struct fetch_session *s, int32_t id)
{
    s->id = id;
    s->epoch = FETCH_EPOCH_INITIAL;
    s->restart = false;
}

void fetch_session_restart(struct fetch_session *s)
{
    s->restart = s->loose = true;
}

void fetch_session_join(struct fetch_session *s, struct fetch_session_entry *entry, bool nameless)
{
    entry->session = s;
    entry->told = false;
    entry->nameless = nameless;
    s->nameless += nameless;
    s->count++;
    list_push_back(&s->changed, &entry->link);
}

void fetch_session_touch(struct fetch_session_entry *entry)
{
    if (!entry->session)
        return;
    list_remove(&entry->link);
    list_push_back(&entry->session->changed, &entry->link);
}

static bool has_room(struct fetch_session *s)
{
    if (s->forgotten_count < s->forgotten_capacity)
        return true;
    size_t capacity = s->forgotten_capacity ? s->forgotten_capacity * 2 : 8;
    void *grown = mem_recalloc(s->forgotten, capacity, sizeof *s->forgotten);
    if (!grown)
        return false;
    s->forgotten = grown;
    s->forgotten_capacity = capacity;
    return true;
}

void fetch_session_leave(struct fetch_session_entry *entry, const char *topic, struct uuid topic_id,
                         int32_t partition)
{
    struct fetch_session *s = entry->session;
    if (!s)
        return;
    list_remove(&entry->link);
    entry->session = NULL;
    s->count--;
    s->nameless -= entry->nameless;
    s->loose = true;
    if (!entry->told)
        return;
    entry->told = false;
    if (has_room(s))
        s->forgotten[s->forgotten_count++] = (struct fetch_forgotten){topic, topic_id, partition};
    else
        fetch_session_restart(s); /* a full request needs no list */
}

void fetch_session_begin(struct fetch_session *s)
{
    if (s->restart)
        start_anew(s, s->id);
    s->full = s->epoch == FETCH_EPOCH_INITIAL || s->epoch == FETCH_EPOCH_FINAL;
    s->asked = 0;
    s->loose = false;
    if (s->full) { /* those that were fetched last come last */
        list_splice_back(&s->steady, &s->changed);
        list_splice_back(&s->changed, &s->steady);
        s->forgotten_count = 0;
    }
}

struct fetch_session_entry *fetch_session_next(struct fetch_session *s)
{
    struct list *link = list_pop_front(&s->changed);
    if (!link)
        return NULL;
    struct fetch_session_entry *entry = list_item(link, struct fetch_session_entry, link);
    list_push_back(&s->steady, link);
    entry->told = true;
    s->asked++;
    return entry;
}

void fetch_session_sent(struct fetch_session *s)
{
    s->forgotten_count = 0;
}

enum fetch_session_verdict fetch_session_answered(struct fetch_session *s, int error_code,
                                                  int32_t id, size_t listed, size_t unknown,
                                                  bool throttled)
{
    if (error_code != ERR_NONE) {
        start_anew(s, error_code == ERR_FETCH_SESSION_ID_NOT_FOUND ? 0 : s->id);
        return FETCH_SESSION_DROP;
    }
    if (s->full && !listed && s->asked &&
        throttled) { /* over its quota a broker leaves the data out */
        start_anew(s, 0);
        return FETCH_SESSION_DROP;
    }
    if ((unknown && !s->loose) || (s->full && listed != s->asked)) {
        start_anew(s, s->full ? 0 : s->id);
        return FETCH_SESSION_DROP;
    }
    if (id == 0) {
        start_anew(s, 0);
    } else if (s->full) {
        s->id = id;
        s->epoch = 1;
    } else {
        s->epoch = s->epoch == INT32_MAX ? 1 : s->epoch + 1;
    }
    return FETCH_SESSION_USE;
}

void fetch_session_failed(struct fetch_session *s)
{
    start_anew(s, s->id);
}
