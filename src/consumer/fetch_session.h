/*
 * fetch_session.h - what a broker remembers of our last fetch, so that the next says only what changed.
 *
 * KIP-227: the first fetch lists every partition; if the broker answers with a session id, the next
 * ones list partitions that are new or changed, and those to be forgotten. So building a request
 * costs as much as has changed, however many partitions are idle:
 *
 *     fetch_session_join, _touch, _leave     as things change, at any time
 *     fetch_session_begin(s);
 *     while ((entry = fetch_session_next(s))) …      list it
 *     s->forgotten[0 … forgotten_count - 1]         list as forgotten those that are no members again
 *     fetch_session_sent(s);
 *     … send with s->id, s->epoch …
 *     fetch_session_answered() or fetch_session_failed()
 *
 * A member is in `changed` if the next request must list it, else in `steady`. What a request both
 * lists and forgets a broker forgets, hence the "no members again".
 *
 * Owner:  one per broker, in its fetcher. An entry lies in its partition. Thread: the loop's.
 * Source: KIP-227; org.apache.kafka.clients.FetchSessionHandler.
 */
#ifndef CAFKA_CONSUMER_FETCH_SESSION_H
#define CAFKA_CONSUMER_FETCH_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/list.h"
#include "util/uuid.h"

enum { FETCH_EPOCH_INITIAL = 0, FETCH_EPOCH_FINAL = -1 };

struct fetch_session;

/* Zeroed: in no session. */
struct fetch_session_entry {
    struct list link; /* in changed or steady */
    struct fetch_session *session;
    bool told;     /* the broker knows it, or will by the request in flight */
    bool nameless; /* its topic has no id */
};

struct fetch_forgotten {
    const char *topic; /* interned */
    struct uuid topic_id;
    int32_t partition;
};

struct fetch_session {
    int32_t id, epoch;
    struct list changed, steady;
    size_t count;    /* members */
    size_t nameless; /* of them without a topic id */
    size_t asked;    /* partitions that the request in flight lists */
    bool full;       /* it lists everything */
    bool loose;      /* a member left since it was built: its answer may name strangers */
    bool restart;    /* the next request is full */
    struct fetch_forgotten *forgotten;
    size_t forgotten_count, forgotten_capacity;
};

void fetch_session_init(struct fetch_session *s);
void fetch_session_fini(struct fetch_session *s);

/* From now on it is to be fetched. It is in no session. */
void fetch_session_join(struct fetch_session *s, struct fetch_session_entry *entry, bool nameless);
/* Its offset, say, is another one. Takes one that is in no session. */
void fetch_session_touch(struct fetch_session_entry *entry);
/* It is not to be fetched any more. Takes one that is in no session. */
void fetch_session_leave(struct fetch_session_entry *entry, const char *topic, struct uuid topic_id,
                         int32_t partition);

void fetch_session_begin(struct fetch_session *s);
/* The next one that the request has to list; NULL: that was all. */
struct fetch_session_entry *fetch_session_next(struct fetch_session *s);
/* The request is put together: what is to be forgotten has been listed, too. */
void fetch_session_sent(struct fetch_session *s);

enum fetch_session_verdict {
    FETCH_SESSION_USE,  /* the answer's data is good */
    FETCH_SESSION_DROP, /* do not look at it; the next fetch is full */
};
/*
 * `listed`: partitions in the answer; `unknown`: how many of them are not in the session;
 * `throttled`: the answer has a throttle time.
 */
enum fetch_session_verdict fetch_session_answered(struct fetch_session *s, int error_code,
                                                  int32_t id, size_t listed, size_t unknown,
                                                  bool throttled);
/* The next request is to list everything again, and the broker to forget what it knows. */
void fetch_session_restart(struct fetch_session *s);
/* No answer came. */
void fetch_session_failed(struct fetch_session *s);

#endif
