/*
 * metadata.h - which topics there are, where their partitions lead, and keeping that fresh.
 *
 * Rooms above take a reference to each topic they care about; metadata asks the least loaded
 * broker for it, one request at a time, first for the new topics only and for all of them when
 * metadata.max.age.ms is over or somebody found an answer to be wrong. A failed attempt, and an
 * answer that did not help, is followed by the retry backoff.
 *
 * A partition's leader epoch never goes back unless the topic id changed. A topic that was deleted
 * and made again has a new id: METADATA_RECREATED, and all epochs start anew.
 *
 * Owner:   struct client.
 * Thread:  the loop's. Application threads never look here; rooms copy what those need.
 * Reading: metadata_update() and send_next() in metadata.c; then the parts of an answer.
 */
#ifndef CAFKA_CLIENT_METADATA_H
#define CAFKA_CLIENT_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include "util/bytes.h"
#include "util/error.h"
#include "util/list.h"
#include "util/uuid.h"

struct client;
struct metadata;
struct broker;

struct metadata_partition {
    int32_t leader;       /* broker id; -1: none known */
    int32_t leader_epoch; /* -1: not told */
    int16_t error;        /* 0, or LEADER_NOT_AVAILABLE, … */
};

struct metadata_topic {
    char *name;
    struct uuid id;    /* zero: not told */
    cafka_error error; /* why there is nothing to know; code 0: fine, or not asked yet */
    bool known;        /* partitions is filled; it stays (stale) when a later answer has an error */
    bool internal;
    int32_t partition_count;
    struct metadata_partition *partitions;
    void *user; /* of the room above */

    /* metadata's own */
    struct list link;    /* all topics */
    struct list wanting; /* linked: to be asked for at ask_at_ms */
    unsigned refs;
    unsigned unhelpful; /* answers in a row that had an error or a partition without a leader */
    bool asked;         /* in the request on its way */
    bool answered;      /* … and in its response */
    int64_t touched_ms, ask_at_ms;
};

/* What is new about a topic. */
enum {
    METADATA_KNOWN = 1u << 0,      /* partitions are there for the first time */
    METADATA_LEADERS = 1u << 1,    /* a leader or its epoch changed */
    METADATA_PARTITIONS = 1u << 2, /* the number of partitions grew */
    METADATA_RECREATED = 1u << 3,  /* another topic id under the same name */
    METADATA_ERROR = 1u << 4       /* topic->error changed (to or from none) */
};

/*
 * Found or made, with a reference. A topic that is not known is asked for as soon as possible,
 * and again until an answer has it: unknown topics may appear, and rooms decide how long they wait.
 */
int metadata_topic_ref(struct metadata *metadata, struct str name, struct metadata_topic **out,
                       cafka_error *err);
void metadata_topic_unref(struct metadata *metadata, struct metadata_topic *topic); /* NULL too */
struct metadata_topic *metadata_topic_find(struct metadata *metadata, struct str name);
struct metadata_topic *metadata_topic_find_id(struct metadata *metadata, struct uuid id);

/*
 * In use just now. With metadata_set_topic_idle() a topic that was not touched for that long is
 * left out of refreshes; it is `known` no more, and the next touch asks for it again.
 */
void metadata_topic_touch(struct metadata *metadata, struct metadata_topic *topic);
void metadata_set_topic_idle(struct metadata *metadata, int64_t idle_ms); /* -1: never; the default */

/* An answer of a broker showed that what is known is wrong, or a caller wants news: ask again soon. */
void metadata_refresh(struct metadata *metadata);
/* The same, but the answer to a full request on its way will do. */
void metadata_look_again(struct metadata *metadata);

/* May brokers create a topic because we ask for it? Default: no. */
void metadata_set_auto_create(struct metadata *metadata, bool allow);

/* Ask for all topics there are (subscription by pattern); they are all in the walk. */
int metadata_want_all(struct metadata *metadata, bool all, cafka_error *err);
/* for (t = NULL; (t = metadata_next(m, t));) */
struct metadata_topic *metadata_next(struct metadata *metadata, struct metadata_topic *topic);

/*
 * What a Produce or Fetch answer tells about a new leader (KIP-951): taken if the epoch is newer
 * than ours. Name the broker before with metadata_hint_broker(). True if it changed something;
 * no hook is called for it, and the refresh that should follow is the caller's.
 */
bool metadata_hint_leader(struct metadata *metadata, struct metadata_topic *topic,
                          int32_t partition, int32_t leader, int32_t leader_epoch);
void metadata_hint_broker(struct metadata *metadata, int32_t id, struct str host, int32_t port,
                          struct str rack);

int32_t metadata_controller(const struct metadata *metadata);     /* -1: not known */
const char *metadata_cluster_id(const struct metadata *metadata); /* NULL: not known */
/* Why the last attempt failed, all tried brokers included; code 0: it did not. */
const cafka_error *metadata_last_error(const struct metadata *metadata);
/* Has any answer come yet? */
bool metadata_ready(const struct metadata *metadata);

static inline const struct metadata_partition *metadata_partition(const struct metadata_topic *topic,
                                                                  int32_t partition)
{
    return topic->known && partition >= 0 && partition < topic->partition_count
               ? &topic->partitions[partition]
               : NULL;
}

/* --- for client.c --- */
int metadata_new(struct metadata **out, struct client *client, cafka_error *err);
void metadata_free(struct metadata *metadata);  /* takes NULL */
void metadata_start(struct metadata *metadata); /* the first request, for the list of brokers */
void metadata_stop(struct metadata *metadata);
void metadata_broker_ready(struct metadata *metadata); /* a control lane can be used: perhaps ask now */
void metadata_broker_down(struct metadata *metadata, const cafka_error *why);

#endif
