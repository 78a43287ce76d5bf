/*
 * fetch_session.c - see fetch_session.h.
 */
#include "consumer/fetch_session.h"

#include "protocol/errors.h"

void fetch_session_init(struct fetch_session *s)
{
    *s = (struct fetch_session){.epoch = FETCH_EPOCH_INITIAL};
    list_init(&s->members);
}

static void start_anew(struct fetch_session *s, int32_t id)
{
    s->id = id;
    s->epoch = FETCH_EPOCH_INITIAL;
    s->restart = false;
}

void fetch_session_restart(struct fetch_session *s)
{
    s->restart = true;
}

void fetch_session_begin(struct fetch_session *s)
{
    if (s->restart)
        start_anew(s, s->id);
    s->request++;
    s->full = s->epoch == FETCH_EPOCH_INITIAL || s->epoch == FETCH_EPOCH_FINAL;
}

bool fetch_session_want(struct fetch_session *s, struct fetch_session_entry *entry,
                        struct uuid topic_id, int64_t offset, int32_t leader_epoch,
                        int32_t max_bytes)
{
    if (entry->session && entry->session != s)
        fetch_session_leave(entry); /* its leader moved */
    bool known = entry->session == s;
    bool changed = !known || entry->offset != offset || entry->leader_epoch != leader_epoch ||
                   entry->max_bytes != max_bytes || !uuid_equal(entry->topic_id, topic_id);
    entry->wanted_in = s->request; /* NOLINT(clang-analyzer-core.NullDereference): s is never NULL */
    if (!changed && !s->full)
        return false;
    entry->topic_id = topic_id;
    entry->offset = offset;
    entry->leader_epoch = leader_epoch;
    entry->max_bytes = max_bytes;
    if (known)
        list_remove(&entry->link);
    else
        s->count++;
    entry->session = s;
    list_push_back(&s->members, &entry->link);
    return true;
}

void fetch_session_drop(struct fetch_session_entry *entry)
{
    if (!entry->session)
        return;
    entry->session->count--;
    entry->session = NULL;
    list_remove(&entry->link);
}

void fetch_session_leave(struct fetch_session_entry *entry)
{
    if (entry->session)
        fetch_session_restart(entry->session);
    fetch_session_drop(entry);
}

struct fetch_session_entry *fetch_session_next_forgotten(struct fetch_session *s)
{
    struct list *link, *after;
    list_each(link, after, &s->members)
    {
        struct fetch_session_entry *entry = list_item(link, struct fetch_session_entry, link);
        if (entry->wanted_in != s->request) {
            fetch_session_drop(entry);
            return entry;
        }
    }
    return NULL;
}

enum fetch_session_verdict fetch_session_answered(struct fetch_session *s, int error_code,
                                                  int32_t id, size_t listed, size_t unknown,
                                                  bool throttled)
{
    if (error_code != ERR_NONE) {
        start_anew(s, error_code == ERR_FETCH_SESSION_ID_NOT_FOUND ? 0 : s->id);
        return FETCH_SESSION_DROP;
    }
    if (s->full && !listed && s->count &&
        throttled) { /* over its quota a broker leaves the data out */
        start_anew(s, 0);
        return FETCH_SESSION_DROP;
    }
    if (!s->restart && (unknown || (s->full && listed != s->count))) {
        start_anew(s, s->full ? 0 : s->id);
        return FETCH_SESSION_DROP;
    }
    if (id == 0)
        start_anew(s, 0);
    else if (s->full) {
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
