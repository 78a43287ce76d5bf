/*
 * cafka/config.h - what a client is told before it starts: properties, callbacks, loop and world.
 *
 * A configuration is a set of named values, with the names and the text values of Kafka's Java
 * client ("linger.ms" = "5"), and a few typed settings that text cannot hold. Names that
 * librdkafka uses are taken as aliases. cafka_producer_new() and its siblings copy what they are
 * given, so a configuration may be changed, used again and freed afterwards.
 *
 *     cafka_config *config;
 *     cafka_error err;
 *     if (cafka_config_new(&config, &err) ||
 *         cafka_config_set(config, "bootstrap.servers", "localhost:9092", &err))
 *         return die(&err);
 *
 * Thread: one configuration is used by one thread at a time.
 */
#ifndef CAFKA_CONFIG_H
#define CAFKA_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include <cafka/env.h>
#include <cafka/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cafka_config cafka_config;
typedef struct cafka_loop cafka_loop;     /* <cafka/loop.h> */
typedef struct cafka_client cafka_client; /* what a producer, a consumer and an admin have in common */
typedef struct cafka_producer cafka_producer; /* <cafka/producer.h> */
typedef struct cafka_consumer cafka_consumer; /* <cafka/consumer.h> */
typedef struct cafka_delivery cafka_delivery; /* <cafka/producer.h> */

/* <cafka/plugin.h> */
typedef struct cafka_producer_interceptor cafka_producer_interceptor;
typedef struct cafka_consumer_interceptor cafka_consumer_interceptor;
typedef struct cafka_serializer cafka_serializer;
typedef struct cafka_deserializer cafka_deserializer;
typedef struct cafka_partitioner cafka_partitioner;
typedef struct cafka_scratch cafka_scratch;

/* An empty configuration: every property has its default. Errors: CAFKA_ERR_MEMORY. */
CAFKA_API int cafka_config_new(cafka_config **out, cafka_error *err);

/* Take NULL too. Clients made with it are not affected. */
CAFKA_API void cafka_config_free(cafka_config *config);

/* A second configuration with the same values and typed settings. Errors: CAFKA_ERR_MEMORY. */
CAFKA_API int cafka_config_copy(cafka_config **out, const cafka_config *config, cafka_error *err);

/*
 * Set one property. The name may be Kafka's or an alias; the value is text in either case and is
 * copied. A value of NULL takes the property back to its default. What is set last counts.
 *
 * Errors:  CAFKA_ERR_CONFIG   no property has this name (the message suggests the nearest), or the
 *                             value is outside what it takes (the message says the range)
 *          CAFKA_ERR_MEMORY   the value could not be copied; the old one stays
 */
CAFKA_API int cafka_config_set(cafka_config *config, const char *name, const char *value,
                               cafka_error *err);

/* The clients that a property is for. */
enum { CAFKA_FOR_PRODUCER = 1u << 0, CAFKA_FOR_CONSUMER = 1u << 1, CAFKA_FOR_ADMIN = 1u << 2 };

/* Where a value comes from. */
enum {
    CAFKA_CONFIG_DEFAULT = 0, /* nobody has set it */
    CAFKA_CONFIG_SET = 1,     /* by cafka_config_set(), under Kafka's name */
    CAFKA_CONFIG_ALIAS = 2,   /* by cafka_config_set(), under an alias; the value is converted */
    CAFKA_CONFIG_LOADED = 3   /* by cafka_config_load() or _load_file() */
};

/*
 * The value that a client would take: what was set, or the default. Some defaults differ between
 * clients, so `client` says for which (CAFKA_FOR_PRODUCER, …); 0 is the first that has the property.
 *
 * *value is NULL where the property has neither value nor default; it is valid until the
 * configuration is changed or freed. source may be NULL. Passwords come back as they were set.
 * Errors:  CAFKA_ERR_CONFIG   no property has this name
 */
CAFKA_API int cafka_config_get(const cafka_config *config, const char *name, unsigned client,
                               const char **value, int *source, cafka_error *err);

/*
 * Set properties from text, one "name=value" a line: what Java calls a .properties file. '#' and
 * '!' begin a comment, '=', ':' or white space end the name, a backslash at the end of a line
 * continues it, and \t \n \r \f \\ \uXXXX stand for what they do in Java.
 *
 * Either all of the text is taken or, on an error, none. The message says the line.
 * Errors:  as cafka_config_set(); CAFKA_ERR_CONFIG also for text that cannot be read
 */
CAFKA_API int cafka_config_load(cafka_config *config, const char *text, cafka_error *err);

/* The same from a file of at most 1 MiB, read through the configuration's world. + CAFKA_ERR_IO */
CAFKA_API int cafka_config_load_file(cafka_config *config, const char *path, cafka_error *err);

/* ---- every property there is ---- */

typedef enum cafka_config_type {
    CAFKA_TYPE_BOOL,
    CAFKA_TYPE_INT,  /* 32 bits */
    CAFKA_TYPE_LONG, /* 64 bits */
    CAFKA_TYPE_DOUBLE,
    CAFKA_TYPE_STRING,
    CAFKA_TYPE_LIST,     /* texts with a comma between them */
    CAFKA_TYPE_PASSWORD, /* text that is never logged or listed */
    CAFKA_TYPE_CLASS,    /* the name of a Java class, or a name of ours that stands for one */
    CAFKA_TYPE_ENUM      /* one of the names in `range` */
} cafka_config_type;

enum {
    CAFKA_PROPERTY_OURS = 1u << 0,  /* cafka's own; Kafka's Java client does not have it */
    CAFKA_PROPERTY_LATER = 1u << 1, /* checked and kept, but without effect yet: see `since` */
    CAFKA_PROPERTY_IGNORED =
        1u << 2, /* means something only in Java; taken, with a warning in the log */
    CAFKA_PROPERTY_ALIAS = 1u << 3 /* another name, mostly librdkafka's, for `alias_of` */
};

typedef struct cafka_property {
    size_t size; /* sizeof(cafka_property), set by the caller */
    const char *name;
    cafka_config_type type;
    const char *default_value; /* for the first of `clients`; NULL: none */
    const char *range;         /* "0 .. 2147483647", "none, gzip, lz4"; empty: any */
    unsigned clients;          /* CAFKA_FOR_* */
    unsigned flags;            /* CAFKA_PROPERTY_* */
    const char *importance;    /* "high", "medium", "low" */
    const char *since;    /* what brings it into effect, with CAFKA_PROPERTY_LATER; else NULL */
    const char *alias_of; /* with CAFKA_PROPERTY_ALIAS; else NULL */
    const char *doc;      /* a sentence or two */
} cafka_property;

/*
 * Property number `index`, from 0 on: first Kafka's and ours in order of name, then the aliases.
 * Returns CAFKA_OK, or CAFKA_END behind the last one. All texts are static.
 */
CAFKA_API int cafka_config_property(size_t index, cafka_property *out);

/* ---- what text cannot hold ---- */

/*
 * Called once for every batch that is finished, whether it was acknowledged or failed; see
 * cafka_delivery_next() in <cafka/producer.h>. Runs on the loop's thread, or in cafka_dispatch()
 * with callback.dispatch=queue.
 */
typedef void cafka_delivery_fn(cafka_producer *producer, cafka_delivery *delivery, void *user);
CAFKA_API void cafka_config_on_delivery(cafka_config *config, cafka_delivery_fn *fn, void *user);

/* Something happened that belongs to no call: told once per cause. */
typedef struct cafka_event {
    size_t size;           /* sizeof(cafka_event) of the library */
    cafka_error error;     /* what happened */
    const char *client_id; /* valid during the call, as are the other texts */
    const char *topic;     /* NULL if it is about none */
    int32_t partition;     /* -1 if it is about none */
    int32_t broker;        /* -1 if it is about none */
} cafka_event;

/*
 * A producer's and an admin's function runs where delivery functions run, a consumer's inside its
 * own calls.
 */
typedef void cafka_event_fn(const cafka_event *event, void *user);
CAFKA_API void cafka_config_on_event(cafka_config *config, cafka_event_fn *fn, void *user);

enum {
    CAFKA_LOG_OFF = 0,
    CAFKA_LOG_ERROR = 1,
    CAFKA_LOG_WARN = 2,
    CAFKA_LOG_INFO = 3,
    CAFKA_LOG_DEBUG = 4,
    CAFKA_LOG_TRACE = 5
};

/*
 * Where log lines go: `fn` gets a level, the area that speaks ("conn", "metadata", …) and one line
 * without its end. Any thread, never with a lock of ours held; it must not call into the library.
 * None set, or NULL: silence.
 */
typedef void cafka_log_fn(void *user, int level, const char *area, const char *message);
CAFKA_API void cafka_config_set_log(cafka_config *config, cafka_log_fn *fn, void *user, int level);

/*
 * Functions of the application around each record: see <cafka/plugin.h>. The structs are copied; `user`
 * and `name` in them must outlive the clients. Interceptors are added to those that are there and
 * form a chain; of the others the last one counts, and NULL takes it away.
 *
 * Errors:  CAFKA_ERR_ARGUMENT  no configuration; no struct, or one whose size is none of a cafka that
 *                              ever was; or the function that it is for is missing
 *          CAFKA_ERR_MEMORY
 */
CAFKA_API int cafka_config_add_producer_interceptor(cafka_config *config,
                                                    const cafka_producer_interceptor *interceptor,
                                                    cafka_error *err);
CAFKA_API int cafka_config_add_consumer_interceptor(cafka_config *config,
                                                    const cafka_consumer_interceptor *interceptor,
                                                    cafka_error *err);
CAFKA_API int cafka_config_set_key_serializer(cafka_config *config,
                                              const cafka_serializer *serializer, cafka_error *err);
CAFKA_API int cafka_config_set_value_serializer(cafka_config *config,
                                                const cafka_serializer *serializer,
                                                cafka_error *err);
CAFKA_API int cafka_config_set_key_deserializer(cafka_config *config,
                                                const cafka_deserializer *deserializer,
                                                cafka_error *err);
CAFKA_API int cafka_config_set_value_deserializer(cafka_config *config,
                                                  const cafka_deserializer *deserializer,
                                                  cafka_error *err);
/* Beside partitioner.class, and before it. */
CAFKA_API int cafka_config_set_partitioner(cafka_config *config,
                                           const cafka_partitioner *partitioner, cafka_error *err);

/* The loop to share; it must outlive the client. None set: a private background loop. */
CAFKA_API void cafka_config_set_loop(cafka_config *config, cafka_loop *loop);

/* The world to live in; it must outlive the client. None set: the real one. */
CAFKA_API void cafka_config_set_env(cafka_config *config, const cafka_env *env);

#ifdef __cplusplus
}
#endif

#endif
