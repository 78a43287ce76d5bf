/*
 * script_broker.h - brokers that say what a test wants: good answers, wrong ones, none, too early.
 *
 * A script_cluster is a few listeners on one loop. ApiVersions and Metadata are answered from the
 * cluster's description; every other API with an empty answer of the right version, or by the
 * handler of the test. Rules, each used once and in order, bend the next answer to an API.
 *
 * Owner: the test. Thread: its loop's.
 */
#ifndef CAFKA_TESTS_SCRIPT_BROKER_H
#define CAFKA_TESTS_SCRIPT_BROKER_H

#include "net/loop.h"
#include "protocol/codec.h"
#include "util/uuid.h"

enum { SCRIPT_BROKERS = 8, SCRIPT_TOPICS = 8, SCRIPT_PARTITIONS = 16, SCRIPT_REQUESTS = 4096 };

enum script_action {
    SCRIPT_DELAY,    /* answer `number` ms later */
    SCRIPT_SILENT,   /* never answer this one */
    SCRIPT_CLOSE,    /* close instead of answering */
    SCRIPT_RAW,      /* send `bytes` instead */
    SCRIPT_WRONG_ID, /* with a correlation id nobody gave */
    SCRIPT_CUT,      /* half of the answer, then close */
    SCRIPT_ERROR,    /* ApiVersions, Metadata: top-level error `number` */
    SCRIPT_THROTTLE, /* with ThrottleTimeMs = number */
    SCRIPT_TRAILING  /* with bytes behind the end */
};

struct script_rule {
    int api_key; /* -1: any */
    enum script_action action;
    int64_t number;
    const void *bytes;
    size_t size;
    bool used;
};

struct script_request {
    int16_t api_key, version;
    int32_t broker;
    int64_t at_ms;
    int session; /* a number for each connection */
};

struct script_topic {
    const char *name;
    struct uuid id;
    int16_t error;
    int partitions;
    int32_t leader[SCRIPT_PARTITIONS], epoch[SCRIPT_PARTITIONS];
};

struct script_cluster;

struct script_broker {
    struct script_cluster *cluster;
    int32_t id;
    uint16_t port; /* stays while it is down */
    int listener;
    bool up, hidden;      /* hidden: not named in Metadata */
    uint16_t told_port;   /* 0: port */
    const void *greeting; /* sent to whoever connects, instead of talking Kafka */
    size_t greeting_size;
    bool mute;            /* reads nothing, answers nothing */
    int versions_from;    /* ApiVersions: error 35 above this version; -1: knows all */
    bool versions_empty;  /* error 35 has an empty list */
    bool versions_closes; /* closes on ApiVersions above 0 */
    int16_t max_version[API_KEY_COUNT]; /* what it offers; -1: not there */
    struct loop_watch watch;
    struct list sessions;
    int accepted;
};

/* Fill `response` (struct of the API, with defaults). Return false to leave the request unanswered. */
typedef bool script_handler(struct script_broker *broker, const struct request_head *head,
                            struct bytes body, struct arena *arena, void *response, void *user);

struct metadata_response;
/* May change what a Metadata answer says; memory from the arena. */
typedef void script_bend(struct script_cluster *cluster, struct arena *arena,
                         struct metadata_response *response);

struct script_cluster {
    struct loop *loop;
    const cafka_env *env;
    int count;
    struct script_broker brokers[SCRIPT_BROKERS];
    int32_t controller;
    const char *cluster_id;
    int topic_count;
    struct script_topic topics[SCRIPT_TOPICS];
    bool auto_create_seen; /* the last Metadata request allowed it */
    int metadata_topics;   /* how many topics the last Metadata request named; -1: all */
    int next_session;
    struct script_rule rules[64];
    int rule_count;
    struct script_request requests[SCRIPT_REQUESTS];
    int request_count;
    script_bend *bend_metadata; /* NULL: true answers */
    script_handler *handler;
    int64_t late_ms; /* a handler may set it: the answer at hand leaves so much later */
    void *user;
};

/* Ids 1 … count on 127.0.0.1, every API at our newest version. */
void script_open(struct script_cluster *cluster, struct loop *loop, int count);
void script_close(struct script_cluster *cluster);
void script_broker_down(struct script_broker *broker); /* closes listener and connections */
void script_broker_up(struct script_broker *broker);   /* on the same port */
void script_cut(struct script_broker *broker);         /* the connections only */
void script_say(struct script_broker *broker, const void *bytes,
                size_t size);                     /* on each connection, now */
void script_deafen(struct script_broker *broker); /* reads no more from the connections it has */
/* What a bootstrap.servers property would say, brokers up to `count`. */
void script_bootstrap(const struct script_cluster *cluster, int count, char *out, size_t size);
/* Partitions led in turn, epoch 0. */
struct script_topic *script_topic_add(struct script_cluster *cluster, const char *name,
                                      int partitions);
void script_rule_add(struct script_cluster *cluster, int api_key, enum script_action action,
                     int64_t number);
void script_rule_raw(struct script_cluster *cluster, int api_key, const void *bytes, size_t size);
int script_count(const struct script_cluster *cluster, int api_key); /* requests seen */

#endif
