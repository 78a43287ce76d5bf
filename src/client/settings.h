/*
 * settings.h - a configuration after it was checked: plain fields that rooms read.
 *
 * A client is made from a cafka_config by one call, which parses every value, checks how
 * properties fit together, and reports all that is wrong in one message. After that nobody looks
 * up a name or parses text again. Units are in the names; a time of -1 is "never" where it can be.
 *
 * Owner:   the client that was made with it. Everything in it is a copy but env, loop and the
 *          callbacks' users. producer_settings_fini() and its siblings take a zeroed one too.
 * Thread:  never changes after settings_for_*(), so any thread may read.
 * Reading: struct client_settings first; the others begin with it.
 */
#ifndef CAFKA_CLIENT_SETTINGS_H
#define CAFKA_CLIENT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cafka/config.h>

#include "util/log.h"

struct plugins; /* client/plugins.h */

struct server_name {
    char *host; /* a name, or an address without brackets */
    uint16_t port;
};

enum dns_lookup { DNS_USE_ALL_IPS, DNS_CANONICAL_BOOTSTRAP_ONLY };
enum security_protocol {
    SECURITY_PLAINTEXT,
    SECURITY_SSL,
    SECURITY_SASL_PLAINTEXT,
    SECURITY_SASL_SSL
};
enum callback_dispatch { DISPATCH_LOOP, DISPATCH_QUEUE };

/* What every client has. */
struct client_settings {
    unsigned kind; /* CAFKA_FOR_PRODUCER, _CONSUMER or _ADMIN */
    struct server_name *bootstrap;
    size_t bootstrap_count;
    char *client_id; /* never NULL; may be empty */
    enum dns_lookup dns_lookup;

    int64_t metadata_max_age_ms;
    bool metadata_rebootstrap; /* metadata.recovery.strategy */
    int64_t metadata_rebootstrap_trigger_ms;

    int64_t reconnect_backoff_ms, reconnect_backoff_max_ms;
    int64_t retry_backoff_ms, retry_backoff_max_ms;
    int64_t request_timeout_ms;
    int64_t default_api_timeout_ms; /* a producer has none: its max.block.ms stands here */
    int64_t connection_setup_timeout_ms, connection_setup_timeout_max_ms;
    int64_t connections_max_idle_ms;   /* -1: never closed for idleness */
    int64_t metrics_window_ms;         /* metrics.sample.window.ms */
    int metrics_samples;               /* metrics.num.samples */
    int32_t send_buffer_bytes;         /* SO_SNDBUF; 0: the system's */
    int32_t receive_buffer_bytes;      /* SO_RCVBUF; 0: the system's */
    int32_t receive_message_max_bytes; /* a longer frame is refused before anything is allocated */
    enum security_protocol security_protocol;

    const cafka_env *env; /* never NULL */
    cafka_loop *loop;     /* NULL: make a private background loop */
    enum callback_dispatch callback_dispatch;
    cafka_event_fn *on_event; /* NULL: none */
    void *on_event_user;

    /* Pass &settings->log_sink to rooms; it lives as long as the settings and must not be moved. */
    struct log_sink log_sink;
    cafka_log_fn *log_fn;
    void *log_user;

    cafka_config *config; /* a copy, for what has no field: client_settings_text() */
};

/* partitioner.class; all but the first, the second and the last two by librdkafka's rules. */
enum partitioner_kind {
    PARTITIONER_DEFAULT,           /* murmur2 of the key, sticky without one (KIP-794) */
    PARTITIONER_MURMUR2,           /* murmur2 of the key, null hashed as empty */
    PARTITIONER_CONSISTENT,        /* CRC-32 of the key, null hashed as empty */
    PARTITIONER_CONSISTENT_RANDOM, /* the same, sticky without a key or with an empty one */
    PARTITIONER_FNV1A,             /* FNV-1a of the key, null hashed as empty */
    PARTITIONER_FNV1A_RANDOM,      /* the same, sticky without a key */
    PARTITIONER_ROUND_ROBIN,       /* RoundRobinPartitioner: one after the other */
    PARTITIONER_RANDOM             /* each record anew */
};

struct producer_settings {
    struct client_settings client; /* first */
    int acks;                      /* 0, 1 or -1 for all */
    bool enable_idempotence;
    int32_t retries;
    int64_t delivery_timeout_ms;
    int32_t max_in_flight; /* per connection */
    int64_t linger_ms;
    int32_t batch_size_bytes;     /* when a batch may leave; at least 1 */
    int32_t batch_max_size_bytes; /* how far a waiting batch may grow; >= batch_size_bytes */
    int64_t buffer_memory_bytes;
    int64_t max_block_ms;
    int32_t max_request_size_bytes;
    int64_t metadata_max_idle_ms;
    int compression;         /* enum codec of record/compress.h */
    int compression_level;   /* as compressor_new() takes it */
    int compression_threads; /* 0: the thread that closes the batch, or the loop */
    enum partitioner_kind partitioner;
    bool partitioner_adaptive, partitioner_ignore_keys;
    int64_t partitioner_availability_timeout_ms; /* 0: off */
    char *transactional_id;                      /* NULL: none */
    int32_t transaction_timeout_ms;
    cafka_delivery_fn *on_delivery;
    void *on_delivery_user;
    bool acknowledges; /* an interceptor is told of each record */
    bool reports;      /* either of the two: what reports need is kept of each record */
};

enum offset_reset { RESET_LATEST, RESET_EARLIEST, RESET_NONE, RESET_BY_DURATION };

struct consumer_settings {
    struct client_settings client; /* first */
    char *group_id;                /* NULL: none */
    char *group_instance_id;       /* NULL: none */
    char *client_rack;             /* never NULL; may be empty */
    enum offset_reset offset_reset;
    int64_t offset_reset_duration_ms; /* with RESET_BY_DURATION: that long before now */
    bool read_committed;
    bool check_crcs;
    bool allow_auto_create_topics;
    bool exclude_internal_topics;
    int32_t fetch_min_bytes, fetch_max_bytes, fetch_max_wait_ms;
    int32_t max_partition_fetch_bytes;
    int64_t fetch_buffer_memory_bytes;
    int32_t fetch_max_inflated_batch_bytes;
    int32_t max_poll_records;
    int64_t max_poll_interval_ms;
    int32_t session_timeout_ms, heartbeat_interval_ms;
    bool enable_auto_commit, enable_auto_mark;
    int64_t auto_commit_interval_ms;
};

struct admin_settings {
    struct client_settings client; /* first */
    bool bootstrap_controllers;    /* client.bootstrap names controllers (bootstrap.controllers) */
    int32_t retries;
};

/*
 * Fill *out from the configuration. On failure *out is left zeroed and the message names all that
 * is wrong, as far as its length allows. *out must stay where it is: its log sink points into it.
 */
int settings_for_producer(const cafka_config *config, struct producer_settings *out,
                          cafka_error *err);
int settings_for_consumer(const cafka_config *config, struct consumer_settings *out,
                          cafka_error *err);
int settings_for_admin(const cafka_config *config, struct admin_settings *out, cafka_error *err);

void producer_settings_fini(struct producer_settings *settings);
void consumer_settings_fini(struct consumer_settings *settings);
void admin_settings_fini(struct admin_settings *settings);

/* The effective text of any property, for rooms that need more than the fields; NULL: none. */
const char *client_settings_text(const struct client_settings *settings, const char *name);

/* The application's functions on the way of a record; never NULL once the settings are made. */
const struct plugins *client_plugins(const struct client_settings *settings);

/*
 * Warn in the log about properties that were set and have no effect: Java's own, and those of
 * features that are not there yet. Call once when the client starts.
 */
void client_settings_warn_unused(const struct client_settings *settings);

#endif
