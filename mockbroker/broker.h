/*
 * broker.h - one broker of the mock cluster: its listeners, sessions, log directory and metadata.
 *
 * Brokers share no state. A broker learns what is so from metadata records that the controller
 * has committed (broker_apply), and keeps them in its own image; it acts on what changed: makes,
 * opens and deletes partitions, becomes leader or follower.
 *
 * Owner:   the cluster.
 * Thread:  its loop (that of the cluster).
 * Reading: broker_start(), broker_apply().
 */
#ifndef CAFKA_MOCKBROKER_BROKER_H
#define CAFKA_MOCKBROKER_BROKER_H

#include "mockbroker/broker_config.h"
#include "mockbroker/loggers.h"
#include "mockbroker/metadata/image.h"
#include "mockbroker/purgatory/purgatory.h"
#include "mockbroker/topic_config.h"
#include "net/frame.h"
#include "net/loop.h"
#include "util/list.h"
#include "util/log.h"
#include "util/rng.h"

struct cluster;
struct controller;
struct log_manager;
struct partition;

struct listener {
    struct list link;
    struct broker *broker;
    const char *name; /* "PLAINTEXT" */
    int handle;       /* -1: closed */
    cafka_address bound;
    struct loop_watch watch;
};

struct broker {
    struct cluster *cluster;
    int32_t id;
    char *rack;
    char *directory; /* log directory; "DIR/1" */
    struct log log;
    const cafka_env *env;
    struct loop *loop;
    struct rng rng;

    bool running;
    uint16_t last_port; /* kept over a restart within the process */
    int64_t epoch;      /* of its registration */
    struct list listeners;
    struct list sessions;
    size_t session_count;
    struct frame_pool *frames;
    int64_t request_max_bytes, connections_max_idle_ms; /* of its config */

    struct image image; /* what it has applied */
    struct broker_config config;
    struct loggers loggers;
    struct log_manager *logs;
    struct purgatory *purgatory;
    struct deferred_queue *deferred; /* the cluster's */

    /* data APIs keep here what is theirs: fetch sessions, a block of producer ids */
    struct fetch_sessions *fetch_sessions;
    struct producer_ids *producer_ids;
};

int broker_new(struct broker **out, struct cluster *cluster, int32_t id, cafka_error *err);
void broker_free(struct broker *broker); /* stops it, uncleanly, if it runs */

/* Open the log directory, listen, register. */
int broker_start(struct broker *broker, cafka_error *err);
/* Clean: checkpoints, clean-shutdown mark. Unclean: as kill -9; what was written stays. */
void broker_stop(struct broker *broker, bool clean);

/* Records that the controller has committed, first_offset and on. */
void broker_apply(struct broker *broker, int64_t first_offset, const struct bytes *records,
                  size_t count);

/* Run after what is being handled now. */
static inline void broker_defer(struct broker *broker, struct deferred *d)
{
    deferred_add(broker->deferred, d);
}

/* The replica that this broker has of a partition; NULL: it has none (or does not know it yet). */
struct partition *broker_partition(struct broker *broker, struct str topic, int32_t index);
/* The configs of a topic as they are on this broker now. */
void broker_topic_config(const struct broker *broker, const struct topic_image *topic,
                         struct log_config *out);

#endif
