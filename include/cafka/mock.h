/*
 * cafka/mock.h - a Kafka cluster inside your test program (libcafka-mock).
 *
 * N brokers that run the full server logic: topics, logs on disk, metadata, the protocol of Apache
 * Kafka 4.3. Any Kafka client can connect to cafka_mock_bootstrap(). Faults are scripted with
 * rules. In simulated mode the cluster has no thread, no socket and no file: it lives in a world
 * with a virtual clock that replays from its seed, and a cafka client joins it by
 * cafka_config_set_env(config, cafka_mock_env(mock)).
 *
 *     cafka_mock_options options = {.size = sizeof options, .brokers = 3};
 *     cafka_mock *mock;
 *     if (cafka_mock_new(&mock, &options, &err)) …
 *     cafka_mock_topic_create(mock, "orders", 12, 3, NULL, &err);
 *     … run clients against cafka_mock_bootstrap(mock) …
 *     cafka_mock_free(mock);
 *
 * Thread: any, one call at a time; in simulated mode the thread that made it. Every call waits
 * until the cluster has done what was asked.
 */
#ifndef CAFKA_MOCK_H
#define CAFKA_MOCK_H

#include <stddef.h>
#include <stdint.h>

#include <cafka/env.h>
#include <cafka/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cafka_mock cafka_mock;

/* Zero is right for everything but `size`. Texts are copied. */
typedef struct cafka_mock_options {
    size_t size;               /* sizeof(cafka_mock_options) */
    int brokers;               /* 0: one; their ids are 1 to N, their racks RACK1 to RACKN */
    int simulated;             /* 1: virtual time, nothing of the real world */
    uint64_t seed;             /* simulated: what replays */
    uint16_t port;             /* of broker 1, the next ones follow; 0: free ports */
    const char *data_dir;      /* NULL: a temporary directory, removed by cafka_mock_free() */
    const char *properties;    /* broker properties of Kafka, "name=value\nname=value" */
    const char *const *topics; /* "NAME[:PARTITIONS[:REPLICAS[:KEY=VALUE,…]]]", to be made at once */
    size_t topic_count;
    const char *api_versions; /* offer what this release of Kafka does, "3.9"; NULL: 4.3 */
    void (*log)(void *user, int level, const char *area,
                const char *message); /* 1 error, 2 warning, 3 info */
    void *log_user;
} cafka_mock_options;

/*
 * Start a cluster; it is ready when this returns.
 * Errors: CAFKA_ERR_CONFIG a bad option or property; CAFKA_ERR_IO, CAFKA_ERR_SYSTEM, CAFKA_ERR_MEMORY
 */
CAFKA_API int cafka_mock_new(cafka_mock **out, const cafka_mock_options *options, cafka_error *err);
/* Stop it cleanly and free it; takes NULL. */
CAFKA_API void cafka_mock_free(cafka_mock *mock);

/* "127.0.0.1:41591,…": the brokers that run. Valid until the next call of this function. */
CAFKA_API const char *cafka_mock_bootstrap(cafka_mock *mock);
/* The world it lives in. Never NULL; valid until cafka_mock_free(). */
CAFKA_API const cafka_env *cafka_mock_env(const cafka_mock *mock);

/*
 * Make a topic; every broker knows it when this returns. partitions or replicas -1: the default.
 * configs: "name=value\nname=value", or NULL. Errors: the code that CreateTopics would answer.
 */
CAFKA_API int cafka_mock_topic_create(cafka_mock *mock, const char *name, int32_t partitions,
                                      int32_t replicas, const char *configs, cafka_error *err);
CAFKA_API int cafka_mock_topic_delete(cafka_mock *mock, const char *name, cafka_error *err);

/* As kill -9: connections break, nothing is flushed; what was written stays. */
CAFKA_API int cafka_mock_broker_kill(cafka_mock *mock, int32_t broker, cafka_error *err);
/* A clean stop. */
CAFKA_API int cafka_mock_broker_stop(cafka_mock *mock, int32_t broker, cafka_error *err);
/* Start it again, on the port that it had. */
CAFKA_API int cafka_mock_broker_start(cafka_mock *mock, int32_t broker, cafka_error *err);
/* Make another in-sync replica the leader. */
CAFKA_API int cafka_mock_leader_move(cafka_mock *mock, const char *topic, int32_t partition,
                                     int32_t broker, cafka_error *err);
/* The broker that leads it; -1: none, or no such partition. */
CAFKA_API int32_t cafka_mock_leader(cafka_mock *mock, const char *topic, int32_t partition);

/* What a rule does to a request. */
enum {
    CAFKA_MOCK_ERROR,       /* it is answered with `error` and not handled */
    CAFKA_MOCK_CLOSE,       /* the connection is closed; it is not handled */
    CAFKA_MOCK_CLOSE_AFTER, /* it is handled, and the connection closed instead of the answer */
    CAFKA_MOCK_DELAY        /* it is handled, and answered delay_ms later */
};

/* Zero is right for what is not said. */
typedef struct cafka_mock_rule {
    size_t size;       /* sizeof(cafka_mock_rule) */
    const char *api;   /* "Produce"; NULL: any */
    int32_t broker;    /* 0: any */
    const char *topic; /* requests that name it; NULL: any */
    int64_t skip;      /* lets so many pass first */
    int64_t count;     /* strikes so often; 0: for ever */
    int action;        /* CAFKA_MOCK_ERROR … */
    int error;         /* a code of the protocol, such as 6 for NOT_LEADER_OR_FOLLOWER */
    int64_t delay_ms;
} cafka_mock_rule;

/* The first rule that matches a request strikes. *id may be NULL. CAFKA_ERR_ARGUMENT: no such API. */
CAFKA_API int cafka_mock_rule_add(cafka_mock *mock, const cafka_mock_rule *rule, int64_t *id,
                                  cafka_error *err);
CAFKA_API void cafka_mock_rules_clear(cafka_mock *mock);
/* How often a rule has struck; -1: there is none of that id. */
CAFKA_API int64_t cafka_mock_rule_hits(cafka_mock *mock, int64_t id);

/* Requests of an API ("Produce"; NULL: all) that the brokers have seen so far. */
CAFKA_API int64_t cafka_mock_requests(cafka_mock *mock, const char *api);

/* Simulated: let so much virtual time pass. CAFKA_ERR_STATE: it is not simulated. */
CAFKA_API int cafka_mock_advance_ms(cafka_mock *mock, int64_t ms, cafka_error *err);

#ifdef __cplusplus
}
#endif

#endif
