/*
 * fetch_session.h - what a broker remembers of our last fetch, so that the next says only what changed.
 *
 * KIP-227: the first fetch lists every partition; if the broker answers with a session id, the next
 * ones list partitions that are new or changed, and those to be forgotten. One request at a time:
 *
 *     fetch_session_begin(s);
 *     for each partition to fetch: fetch_session_want(s, entry, …);      true: list it
 *     while ((entry = fetch_session_next_forgotten(s))) …                list it as forgotten
 *     … send with s->id, s->epoch …
 *     fetch_session_answered() or fetch_session_failed()
 *
 * Owner:  one per broker, in its fetcher. An entry lies in its partition. Thread: the loop's.
 * Source: KIP-227; org.apache.kafka.clients.FetchSessionHandler.
 */
#ifndef CAFKA_CONSUMER_FETCH_SESSION_H
#define CAFKA_CONSUMER_FETCH_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "util/list.h"
#include "util/uuid.h"

enum { FETCH_EPOCH_INITIAL = 0, FETCH_EPOCH_FINAL = -1 };

/* What was last sent of a partition. Zeroed: in no session. */
struct fetch_session_entry {
    struct list link; /* in members */
    struct fetch_session *session;
    uint32_t wanted_in; /* number of the request that last wanted it */
    struct uuid topic_id;
    int64_t offset;
    int32_t leader_epoch, max_bytes;
};

struct fetch_session {
    int32_t id, epoch;
    struct list members; /* in the order in which the broker fills its answers */
    size_t count;
    uint32_t request;
    bool full;    /* the request being built, or in flight, lists everything */
    bool restart; /* whatever the answer in flight says, the next request is full */
};

void fetch_session_init(struct fetch_session *s);

void fetch_session_begin(struct fetch_session *s);
/* True if the request must list it: in a full fetch always, else when it is new or changed. */
bool fetch_session_want(struct fetch_session *s, struct fetch_session_entry *entry,
                        struct uuid topic_id, int64_t offset, int32_t leader_epoch,
                        int32_t max_bytes);
/* The next member that was not wanted, taken out; NULL when there is none. In a full fetch it is not to be listed. */
struct fetch_session_entry *fetch_session_next_forgotten(struct fetch_session *s);
/* Take a partition out without telling the broker; fetch_session_leave() also makes the next request a full one. */
void fetch_session_drop(struct fetch_session_entry *entry);

void fetch_session_leave(struct fetch_session_entry *entry); /* takes one that is in no session */

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
/* A topic has a new id, say: the next request is to list everything again. */
void fetch_session_restart(struct fetch_session *s);
/* No answer came. */
void fetch_session_failed(struct fetch_session *s);

#endif
