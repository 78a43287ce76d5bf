/*
 * fetch_sessions.h - what a broker remembers of its consumers' fetches (KIP-227).
 *
 * A session lists partitions in the order in which answers are filled, with what was last asked
 * and last answered for each. Sessions are found by id, whichever connection asks; there are at
 * most max.incremental.fetch.session.cache.slots of them. One that was unused for two minutes
 * makes room for any other; a busy one only for a session with more partitions.
 *
 * Owner:   the broker. Thread: its loop.
 * Source:  KIP-227, org.apache.kafka.server.FetchSession.
 */
#ifndef CAFKA_MOCKBROKER_API_FETCH_SESSIONS_H
#define CAFKA_MOCKBROKER_API_FETCH_SESSIONS_H

#include "mockbroker/broker.h"
#include "util/bytes.h"

/* A partition that is fetched, in a session or in one request only. */
struct fetch_entry {
    struct list link;
    char *topic; /* with ids, empty */
    size_t topic_size;
    struct uuid topic_id;
    char *known_as; /* with ids: the name the topic had when it was first found; NULL: it never was */
    int32_t index;
    int32_t max_bytes;
    int64_t offset;
    int32_t leader_epoch, last_fetched_epoch;
    /* what was answered last */
    int64_t high_watermark, log_start;
    bool had_error;
};

struct fetch_session {
    struct list link;  /* by last use, the oldest first */
    int32_t id, epoch; /* epoch: the one that the next request must carry */
    bool by_id;
    int refs; /* the cache, and each request that works on it */
    struct list entries;
    struct map index; /* key of the partition -> entry */
    size_t count;
    int64_t made_ms, used_ms;
};

struct fetch_sessions {
    struct map by_id;
    struct list by_use;
    size_t limit;
    struct rng rng;
    struct loop *loop;
};

int fetch_sessions_new(struct fetch_sessions **out, struct broker *broker, cafka_error *err);
void fetch_sessions_free(struct fetch_sessions *sessions); /* takes NULL */

struct fetch_session *fetch_sessions_find(struct fetch_sessions *sessions, int32_t id);
void fetch_sessions_remove(struct fetch_sessions *sessions, struct fetch_session *session);
/* One that is in no cache, for a request without a session; id 0. NULL: no memory. */
struct fetch_session *fetch_session_alone(bool by_id);
void fetch_session_unref(struct fetch_session *session); /* takes NULL */
/* A new one for `count` partitions, or NULL: the cache has no place, or there is no memory. */
struct fetch_session *fetch_sessions_make(struct fetch_sessions *sessions, size_t count, bool by_id);
void fetch_session_used(struct fetch_sessions *sessions, struct fetch_session *session);

struct fetch_entry *fetch_session_find(struct fetch_session *session, struct str topic,
                                       struct uuid id, int32_t index);
/* Found or added at the end. NULL: no memory. */
struct fetch_entry *fetch_session_add(struct fetch_session *session, struct str topic,
                                      struct uuid id, int32_t index);
void fetch_session_forget(struct fetch_session *session, struct fetch_entry *entry);
/* It returned data: others come first next time. */
void fetch_session_to_end(struct fetch_session *session, struct fetch_entry *entry);

static inline int32_t fetch_session_next_epoch(int32_t epoch)
{
    return epoch == INT32_MAX ? 1 : epoch + 1;
}

#endif
