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
 * Thread: any, one call at a time. Every call waits until the cluster has done what was asked.
 *
 * Simulated: one thread makes all calls, of this header and of the clients in its world, and nothing
 * moves between them. Virtual time and everything that happens in it advance only inside calls that
 * wait: cafka_producer_flush(), _send_wait() and _close(), a send that waits for memory or metadata,
 * cafka_consumer_poll() with a timeout, cafka_dispatch(), admin calls, and the calls of this header,
 * of which cafka_mock_advance_ms() does nothing else. Such a call runs brokers and clients in turn, in
 * an order drawn from the seed, until what it waits for is there or its timeout of virtual time is
 * over; that takes no real time to speak of. A poll with a timeout of 0 lets the world take one small
 * step. A send that finds room moves nothing, so flush, poll or advance now and then.
 *
 * What would run on the loop's thread, such as delivery functions and event functions, runs on this
 * one thread then, inside whichever of those calls is moving the world: a delivery function may be
 * called from within cafka_mock_broker_kill(), or from the poll of another client. The rules for
 * callbacks are the same as outside. Consumers' own functions run inside their polls, as ever.
 *
 * Ownership: options, texts and structs are copied; cafka_mock_bootstrap() and cafka_mock_env() belong
 * to the cluster. Close and free the clients of a simulated world before its cluster.
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
/*
 * Set configs of a topic ("max.message.bytes=1000\nretention.ms=5"); the others stay as they are.
 * Errors: the code that IncrementalAlterConfigs would answer.
 */
CAFKA_API int cafka_mock_topic_config(cafka_mock *mock, const char *name, const char *configs,
                                      cafka_error *err);

/* As kill -9: connections break, nothing is flushed; what was written stays. */
CAFKA_API int cafka_mock_broker_kill(cafka_mock *mock, int32_t broker, cafka_error *err);
/* A clean stop. */
CAFKA_API int cafka_mock_broker_stop(cafka_mock *mock, int32_t broker, cafka_error *err);
/* Start it again, on the port that it had. */
CAFKA_API int cafka_mock_broker_start(cafka_mock *mock, int32_t broker, cafka_error *err);
/* Make another in-sync replica the leader. */
CAFKA_API int cafka_mock_leader_move(cafka_mock *mock, const char *topic, int32_t partition,
                                     int32_t broker, cafka_error *err);
/*
 * An unclean election: the partition is without a leader, then `broker` (-1: the one that led it)
 * leads it in a new epoch with a log that ends at end_offset. What lies behind that is gone from all
 * replicas, acknowledged or not. At or behind the end nothing is lost, and only the epoch moves on.
 * The broker must run and hold a replica; it need not be in sync.
 */
CAFKA_API int cafka_mock_leader_elect_unclean(cafka_mock *mock, const char *topic, int32_t partition,
                                              int32_t broker, int64_t end_offset, cafka_error *err);
/* The broker that leads it; -1: none, or no such partition. */
CAFKA_API int32_t cafka_mock_leader(cafka_mock *mock, const char *topic, int32_t partition);

/* How a link is from now on; zero is right for what is not said, and is what it was at first. */
typedef struct cafka_mock_link {
    size_t size;          /* sizeof(cafka_mock_link) */
    int32_t broker;       /* one end */
    int32_t peer;         /* the other: 0 everybody, CAFKA_MOCK_CLIENTS, or another broker */
    int64_t latency_ms;   /* of each delivery, one way; 0: 0.1 to 1 ms */
    int64_t bytes_per_ms; /* 0: no limit */
    int down; /* 1: nothing passes; connections and dials hang, what was sent comes later */
} cafka_mock_link;
enum { CAFKA_MOCK_CLIENTS = -1 };

/*
 * Simulated: slow a broker's link down, take it down, and put it up again. What was said last of a
 * link counts. CAFKA_ERR_STATE: it is not simulated; CAFKA_ERR_ARGUMENT: no such broker or value.
 */
CAFKA_API int cafka_mock_link_set(cafka_mock *mock, const cafka_mock_link *link, cafka_error *err);
/* Break every connection to a broker now (simulated: with all that is under way). It goes on. */
CAFKA_API int cafka_mock_link_cut(cafka_mock *mock, int32_t broker, cafka_error *err);

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
