/*
 * cluster.h - the mock cluster: N brokers and a controller on one loop.
 *
 * Owner:   main.c or cafka_mock_new().
 * Thread:  cluster_new() and cluster_free() anywhere; everything else on the cluster's loop.
 * Reading: cluster_start().
 */
#ifndef CAFKA_MOCKBROKER_CLUSTER_H
#define CAFKA_MOCKBROKER_CLUSTER_H

#include "mockbroker/broker.h"
#include "mockbroker/broker_config.h"
#include "protocol/codec.h"
#include "util/log.h"

struct fault_rules;
struct control_server;

/* A topic to be made at start: --topic NAME[:PARTITIONS[:REPLICAS[:KEY=VALUE,…]]] */
struct topic_option {
    char *name;
    int32_t partitions, replicas; /* -1: the default */
    struct config_entry *configs;
    size_t config_count;
};

struct cluster_options {
    int brokers;           /* 1 if 0 */
    uint16_t port;         /* of broker 1; 0: free ones */
    char *host;            /* to listen on; NULL: 127.0.0.1 */
    char *advertised_host; /* NULL: host */
    char *data_dir;        /* NULL: a temporary one, removed at the end */
    int control_port;      /* -1: none; 0: a free one */
    struct properties properties;
    struct topic_option *topics;
    size_t topic_count;
    char *release; /* --api-versions; NULL: 4.3.1 */
};
void cluster_options_fini(struct cluster_options *o);

struct cluster {
    struct cluster_options options;
    const cafka_env *env;
    cafka_env hasty_env; /* env without syncing, for a temporary directory */
    struct loop *loop;   /* a reference */
    struct log log;
    struct log_sink sink;
    struct rng rng;
    char *directory;
    bool temporary; /* the directory is removed at the end */
    bool flat;      /* the directory is broker 1's own, as a real broker left it */
    char cluster_id[UUID_TEXT_SIZE];
    int release; /* which versions are offered: versions.h */
    struct deferred_queue deferred;
    struct controller *controller;
    struct broker **brokers; /* index 0 is broker 1 */
    int broker_count;
    struct fault_rules *faults;
    struct control_server *control;
    uint64_t sessions_made, requests_seen;
    uint64_t requests_of[API_KEY_COUNT]; /* by API key */
};

/* Takes the options over (they are empty afterwards), on success and on failure. */
int cluster_new(struct cluster **out, const cafka_env *env, struct loop *loop,
                struct cluster_options *options, struct log_sink sink, cafka_error *err);
/* Open the directories, replay the metadata log, start the brokers, make the topics asked for. */
int cluster_start(struct cluster *cluster, cafka_error *err);
void cluster_stop(struct cluster *cluster); /* cleanly */
void cluster_free(struct cluster *cluster); /* takes NULL; uncleanly if it still runs */

/* Make or delete a topic as a client would: a refusal is the code of the answer, with its words. */
int cluster_create_topic(struct cluster *cluster, const struct topic_option *option,
                         cafka_error *err);
int cluster_delete_topic(struct cluster *cluster, const char *name, cafka_error *err);

/* In the simulated world every broker is a host of its own, with a name for rules about links. */
enum { CLUSTER_HOST_SIZE = 24, CLUSTER_LINK_MS_MAX = 24 * 3600 * 1000 };
void cluster_host_name(char name[CLUSTER_HOST_SIZE], int32_t broker); /* "broker-1" */

struct broker *cluster_broker(const struct cluster *cluster, int32_t id); /* NULL: none */
/* "HOST:PORT,…" of a listener; the caller frees it. NULL without memory. */
char *cluster_bootstrap(const struct cluster *cluster, const char *listener);

#endif
