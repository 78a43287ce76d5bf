/*
 * cafka/admin.h - look at a cluster and change it: topics, partitions, configs, offsets.
 *
 *     cafka_admin *admin;
 *     cafka_error err;
 *     if (cafka_admin_open(&admin, "bootstrap.servers=localhost:9092", &err))
 *         return die(&err);
 *     cafka_new_topic topic = {.size = sizeof topic, .name = "orders", .partitions = 12};
 *     if (cafka_admin_create_topics(admin, &topic, 1, 0, -1, NULL, &err))
 *         return die(&err);
 *     cafka_admin_free(admin);
 *
 * Every call waits for the answer, at most timeout_ms (-1: default.api.timeout.ms), and goes to the
 * broker it must go to: the controller, a partition's leader, the broker that is described. What may
 * be tried again is tried again with backoff until then; a quota that is used up is waited for.
 *
 * Calls that treat several things take `errors`, one for each thing in order, or NULL. They return
 * CAFKA_OK if all went well, else the code of the first that did not, which *err describes.
 *
 * Ownership: what is passed in stays the caller's and is not used after the call. A list or info that is
 * given out is one block, read-only, the caller's until its _free(); all its pointers lie inside it. It
 * may outlive the admin client. On failure nothing is given out.
 *
 * Errors of all calls: CAFKA_ERR_ARGUMENT, CAFKA_ERR_TIMEOUT, CAFKA_ERR_TRANSPORT, CAFKA_ERR_MEMORY,
 *         CAFKA_ERR_UNSUPPORTED the broker is too old, CAFKA_ERR_CLOSED, CAFKA_ERR_IN_CALLBACK,
 *         CAFKA_ERR_WOULD_BLOCK, CAFKA_ERR_FORKED, and what the brokers answer. With CAFKA_UNKNOWN_OUTCOME
 *         the change may have been made. A repeated attempt may find what the first one did: a topic that
 *         "already exists", or is "unknown" when deleting.
 * Thread: any; several calls may run at the same time. Blocks: up to timeout_ms.
 * Source: org.apache.kafka.clients.admin.Admin (KIP-117 and later).
 */
#ifndef CAFKA_ADMIN_H
#define CAFKA_ADMIN_H

#include <cafka/client.h>
#include <cafka/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cafka_admin cafka_admin;

/* properties: "name=value" lines, as in a .properties file. Errors: CAFKA_ERR_CONFIG, _MEMORY, _SYSTEM. */
CAFKA_API int cafka_admin_open(cafka_admin **out, const char *properties, cafka_error *err);
CAFKA_API int cafka_admin_new(cafka_admin **out, const cafka_config *config, cafka_error *err);
/* Calls that run return CAFKA_ERR_CLOSED. CAFKA_ERR_TIMEOUT: a callback of the application still runs. */
CAFKA_API int cafka_admin_close(cafka_admin *admin, int64_t timeout_ms, cafka_error *err);
/* Closes too. Takes NULL. */
CAFKA_API void cafka_admin_free(cafka_admin *admin);
CAFKA_API cafka_client *cafka_admin_client(cafka_admin *admin);

/* For `flags`: say what would happen, change nothing. */
enum { CAFKA_VALIDATE_ONLY = 1u << 0 };

/* ---- topics ---- */

typedef struct cafka_setting {
    const char *name;
    const char *value;
} cafka_setting;

typedef struct cafka_new_topic {
    size_t size; /* sizeof(cafka_new_topic) */
    const char *name;
    int32_t partitions;         /* 0: the brokers' default */
    int16_t replication_factor; /* 0: the brokers' default */
    const cafka_setting *settings;
    size_t setting_count;
    /* Or: the replicas of each partition, the preferred leader first; replica_count of them for each. */
    const int32_t *assignment; /* partitions × replica_count broker ids; NULL: the brokers choose */
    size_t replica_count;
} cafka_new_topic;

/*
 * Items of `topics` are topics[0].size bytes apart. With CAFKA_VALIDATE_ONLY brokers check and create
 * nothing. The topics are there when the controller has them; the brokers hear of it a little later.
 * Errors of a topic: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
 *         INVALID_REPLICATION_FACTOR, INVALID_CONFIG, POLICY_VIOLATION, TOPIC_AUTHORIZATION_FAILED, …
 */
CAFKA_API int cafka_admin_create_topics(cafka_admin *admin, const cafka_new_topic *topics,
                                        size_t count, unsigned flags, int64_t timeout_ms,
                                        cafka_error *errors, cafka_error *err);

/* With their records, for ever. Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, TOPIC_DELETION_DISABLED, … */
CAFKA_API int cafka_admin_delete_topics(cafka_admin *admin, const char *const *names, size_t count,
                                        int64_t timeout_ms, cafka_error *errors, cafka_error *err);

/*
 * Grow topic names[i] to counts[i] partitions; the brokers place them. Keys move: what is hashed with
 * another count lands elsewhere. Errors of a topic: INVALID_PARTITIONS it has that many, …
 */
CAFKA_API int cafka_admin_create_partitions(cafka_admin *admin, const char *const *names,
                                            const int32_t *counts, size_t count, unsigned flags,
                                            int64_t timeout_ms, cafka_error *errors,
                                            cafka_error *err);

typedef struct cafka_partition_info {
    int32_t partition;
    int32_t leader;       /* -1: none */
    int32_t leader_epoch; /* -1: not told */
    int error;            /* 0, or the protocol's code */
    const int32_t *replicas;
    size_t replica_count;
    const int32_t *in_sync;
    size_t in_sync_count;
    const int32_t *offline;
    size_t offline_count;
} cafka_partition_info;

typedef struct cafka_topic_info {
    const char *name;
    char id[24];                            /* Kafka's text of the topic id; empty: not told */
    int internal;                           /* __consumer_offsets and the like */
    cafka_error error;                      /* code 0, or why nothing else is known */
    const cafka_partition_info *partitions; /* in order of number */
    size_t partition_count;
} cafka_topic_info;

/* Read-only; valid until freed. */
typedef struct cafka_topic_list {
    const cafka_topic_info *topics; /* in order of name, or of the question */
    size_t count;
} cafka_topic_list;

/*
 * All topics (names NULL, count 0), or these; one that does not exist has an error, and is not created.
 * The call succeeds if a broker answered; look at the error of each topic.
 */
CAFKA_API int cafka_admin_describe_topics(cafka_admin *admin, const char *const *names,
                                          size_t count, int64_t timeout_ms, cafka_topic_list **out,
                                          cafka_error *err);
CAFKA_API void cafka_topic_list_free(cafka_topic_list *list); /* takes NULL */

/* ---- the cluster ---- */

typedef struct cafka_broker_info {
    int32_t id;
    const char *host;
    int32_t port;
    const char *rack; /* NULL: none */
    int fenced;
} cafka_broker_info;

typedef struct cafka_cluster_info {
    const char *cluster_id;           /* NULL: not told */
    int32_t controller;               /* -1: not known */
    const cafka_broker_info *brokers; /* in order of id */
    size_t broker_count;
} cafka_cluster_info;

/* Needs brokers of 2.8 or later (KIP-700). */
CAFKA_API int cafka_admin_describe_cluster(cafka_admin *admin, int64_t timeout_ms,
                                           cafka_cluster_info **out, cafka_error *err);
CAFKA_API void cafka_cluster_info_free(cafka_cluster_info *info); /* takes NULL */

/* ---- configs ---- */

/* Kinds of resources that have configs (the protocol's numbers). */
enum {
    CAFKA_RESOURCE_TOPIC = 2,
    CAFKA_RESOURCE_BROKER = 4, /* name: the id; empty: the default of all brokers */
    CAFKA_RESOURCE_BROKER_LOGGER = 8,
    CAFKA_RESOURCE_CLIENT_METRICS = 16,
    CAFKA_RESOURCE_GROUP = 32
};

typedef struct cafka_resource {
    int type;
    const char *name;
} cafka_resource;

/* Where a value comes from (the protocol's numbers). */
enum {
    CAFKA_SOURCE_UNKNOWN = 0,
    CAFKA_SOURCE_TOPIC = 1,
    CAFKA_SOURCE_DYNAMIC_BROKER = 2,
    CAFKA_SOURCE_DYNAMIC_DEFAULT_BROKER = 3,
    CAFKA_SOURCE_STATIC_BROKER = 4,
    CAFKA_SOURCE_DEFAULT = 5,
    CAFKA_SOURCE_DYNAMIC_BROKER_LOGGER = 6,
    CAFKA_SOURCE_CLIENT_METRICS = 7,
    CAFKA_SOURCE_GROUP = 8
};
/* "DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG", …: Kafka's words; never NULL. */
CAFKA_API const char *cafka_source_name(int source);

/* What a value is (the protocol's numbers). */
enum {
    CAFKA_CONFIG_TYPE_UNKNOWN = 0, /* brokers before 2.6 do not tell */
    CAFKA_CONFIG_TYPE_BOOLEAN = 1,
    CAFKA_CONFIG_TYPE_STRING = 2,
    CAFKA_CONFIG_TYPE_INT = 3,
    CAFKA_CONFIG_TYPE_SHORT = 4,
    CAFKA_CONFIG_TYPE_LONG = 5,
    CAFKA_CONFIG_TYPE_DOUBLE = 6,
    CAFKA_CONFIG_TYPE_LIST = 7,
    CAFKA_CONFIG_TYPE_CLASS = 8,
    CAFKA_CONFIG_TYPE_PASSWORD = 9
};

/* A place that a value may come from; retention.ms of a topic, say, from log.retention.ms of a broker. */
typedef struct cafka_config_synonym {
    const char *name;
    const char *value; /* NULL: none, or secret */
    int source;        /* CAFKA_SOURCE_… */
} cafka_config_synonym;

typedef struct cafka_config_entry {
    const char *name;
    const char *value; /* NULL: none, or secret */
    int source;        /* CAFKA_SOURCE_… */
    int read_only;
    int sensitive;
    int type; /* CAFKA_CONFIG_TYPE_… */
    /* All places where the value is set, the one that counts first. */
    const cafka_config_synonym *synonyms;
    size_t synonym_count;
} cafka_config_entry;

typedef struct cafka_config_info {
    int type;
    const char *name;
    cafka_error error;                 /* code 0, or why there are no entries */
    const cafka_config_entry *entries; /* in order of name */
    size_t entry_count;
} cafka_config_info;

typedef struct cafka_config_list {
    const cafka_config_info *configs; /* in the order of the question */
    size_t count;
} cafka_config_list;

/*
 * All configs of these resources, with where each value comes from. Those of a broker are asked of it, the
 * others of any broker, all at the same time. The call succeeds also if a resource failed: look at the
 * error of each.
 */
CAFKA_API int cafka_admin_describe_configs(cafka_admin *admin, const cafka_resource *resources,
                                           size_t count, int64_t timeout_ms,
                                           cafka_config_list **out, cafka_error *err);
CAFKA_API void cafka_config_list_free(cafka_config_list *list); /* takes NULL */

/* What to do with a config (the protocol's numbers). */
enum {
    CAFKA_CONFIG_SET_VALUE = 0,
    CAFKA_CONFIG_DELETE = 1,
    CAFKA_CONFIG_APPEND = 2,
    CAFKA_CONFIG_SUBTRACT = 3
};

typedef struct cafka_config_change {
    cafka_resource resource;
    int operation;
    const char *name;
    const char *value; /* not for DELETE */
} cafka_config_change;

/*
 * Changes of one resource are made together, or none of them; they must stand side by side. errors:
 * one for each change. Brokers of 2.3 or later (KIP-339).
 * Errors of a resource: INVALID_CONFIG, POLICY_VIOLATION, UNKNOWN_TOPIC_OR_PARTITION, …
 */
CAFKA_API int cafka_admin_alter_configs(cafka_admin *admin, const cafka_config_change *changes,
                                        size_t count, unsigned flags, int64_t timeout_ms,
                                        cafka_error *errors, cafka_error *err);

/* ---- offsets ---- */

/* Instead of a time. */
enum {
    CAFKA_TIME_LATEST = -1,
    CAFKA_TIME_EARLIEST = -2,
    CAFKA_TIME_MAX = -3,            /* the record with the largest timestamp */
    CAFKA_TIME_EARLIEST_LOCAL = -4, /* not yet moved to tiered storage only */
    CAFKA_TIME_LATEST_TIERED = -5
};

typedef struct cafka_offset_query {
    const char *topic;
    int32_t partition;
    int64_t time_ms; /* the first record at or after it; or CAFKA_TIME_… */
    /* the answer */
    int64_t offset;       /* -1: there is no such record */
    int64_t timestamp_ms; /* of that record; -1: not told */
    int32_t leader_epoch; /* -1: not told */
    cafka_error error;
} cafka_offset_query;

enum { CAFKA_READ_COMMITTED = 1u << 1 }; /* for flags: LATEST is the last stable offset */

/*
 * Fills the answers in place; queries[i].topic must stay until then. Each partition's leader is asked, all
 * at the same time, and again when it moves. Returns CAFKA_OK, or the first query's error.
 * Errors of a query: UNKNOWN_TOPIC_OR_PARTITION it did not appear in time, CAFKA_ERR_UNSUPPORTED the leader
 *         is too old for that CAFKA_TIME_…, CAFKA_ERR_TIMEOUT, …
 */
CAFKA_API int cafka_admin_list_offsets(cafka_admin *admin, cafka_offset_query *queries, size_t count,
                                       unsigned flags, int64_t timeout_ms, cafka_error *err);

#ifdef __cplusplus
}
#endif

#endif
