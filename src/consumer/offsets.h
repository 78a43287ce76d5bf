/*
 * offsets.h - looking up offsets by time or place (ListOffsets), or where a leader epoch ends
 * (OffsetForLeaderEpoch), many at once, until they are known.
 *
 * A query names a partition and a timestamp, real or special, or an epoch. Queries that are added in one turn
 * of the loop and lead to the same broker leave in one request; what fails in a way that passes is
 * tried again after the retry backoff, until it is answered, refused for good, or cancelled.
 *
 * Owner:   the queries lie in their owners' structs (a partition that starts, a waiting call).
 * Thread:  the loop's.
 * Reading: offset_lookup_add(), then send_ready() and answered() in offsets.c.
 */
#ifndef CAFKA_CONSUMER_OFFSETS_H
#define CAFKA_CONSUMER_OFFSETS_H

#include "client/client.h"

struct offset_query;

/*
 * error NULL: `offset` is -1 if no record fits; otherwise the timestamp and leader epoch belong to it.
 * By epoch: the end of the largest epoch that is not above the one asked for, and that epoch; -1: none.
 */
typedef void offset_answer_fn(struct offset_query *query, int64_t offset, int64_t timestamp_ms,
                              int32_t leader_epoch, const cafka_error *error);

struct offset_query {
    /* set by the owner */
    struct metadata_topic *topic; /* the owner holds a reference */
    int32_t partition;
    int64_t timestamp_ms;
    int32_t epoch; /* -1: by timestamp */
    offset_answer_fn *done;

    /* its own */
    struct list link;               /* in `waiting`, unless it is in flight */
    struct offset_request *request; /* in flight in this one */
    int64_t not_before_ms;
    unsigned attempts;
};

struct offset_lookup {
    struct client *client;
    bool read_committed;
    struct list waiting; /* for a leader, a connection or a time */
    struct list requests;
    struct loop_task task;
    bool posted;
    struct timer timer;
};

void offset_lookup_init(struct offset_lookup *lookup, struct client *client, bool read_committed);
void offset_lookup_fini(struct offset_lookup *lookup); /* all queries are forgotten, without `done` */

void offset_lookup_add(struct offset_lookup *lookup, struct offset_query *query);
void offset_lookup_cancel(struct offset_query *query); /* no `done`; takes one that is not running */
static inline bool offset_query_is_running(const struct offset_query *query)
{
    return query->request || list_linked(&query->link);
}
/* Leaders or connections changed: look again. */
void offset_lookup_kick(struct offset_lookup *lookup);

#endif
