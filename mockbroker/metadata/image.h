/*
 * image.h - what the metadata records say: brokers, topics, partitions, configs, producer ids.
 *
 * The controller's state and what each broker knows are the same struct, filled by the same
 * function, record by record; a broker's image may be behind the controller's.
 *
 * Owner:  the controller has one, and each broker has one of its own.
 * Thread: its owner's loop. A pointer into it is valid until the next image_apply().
 */
#ifndef CAFKA_MOCKBROKER_IMAGE_H
#define CAFKA_MOCKBROKER_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/bytes.h"
#include "util/error.h"
#include "util/map.h"
#include "util/uuid.h"

/* Kafka's numbers of config resources. */
enum {
    CONFIG_RESOURCE_TOPIC = 2,
    CONFIG_RESOURCE_BROKER = 4,
    CONFIG_RESOURCE_BROKER_LOGGER = 8,
    CONFIG_RESOURCE_CLIENT_METRICS = 16,
    CONFIG_RESOURCE_GROUP = 32
};

struct endpoint {
    char *name; /* of the listener: "PLAINTEXT" */
    char *host;
    uint16_t port;
    int16_t security_protocol;
};

struct broker_image {
    int32_t id;
    int64_t epoch;
    char *rack; /* NULL: none */
    struct endpoint *endpoints;
    int endpoint_count;
    bool fenced, in_controlled_shutdown;
};

struct partition_image {
    int32_t leader; /* -1: none */
    int32_t leader_epoch, partition_epoch;
    int32_t *replicas, *isr, *adding, *removing, *elr, *last_known_elr;
    int32_t replica_count, isr_count, adding_count, removing_count, elr_count, last_known_elr_count;
    int8_t leader_recovery_state;
    void *hosted; /* the broker's replica of it (struct partition of mockbroker/replica), or NULL */
};

struct topic_image {
    char *name;
    struct uuid id;
    struct partition_image *partitions;
    int32_t partition_count;
    bool internal;
};

struct config_entry {
    char *name, *value;
};

/* The dynamic configs of one resource. */
struct config_image {
    int8_t type;
    char *name; /* "": the default of all brokers */
    struct config_entry *entries;
    int32_t entry_count, entry_capacity;
};

struct image {
    int64_t offset;          /* of the last record applied; -1: none */
    struct map topics;       /* name -> struct topic_image */
    struct map topics_by_id; /* uuid -> the same */
    struct map brokers;      /* int64 id -> struct broker_image */
    struct map configs;      /* type byte and name -> struct config_image */
    struct map features;     /* name -> level as intptr_t */
    int64_t next_producer_id;
};

void image_init(struct image *image);
void image_fini(struct image *image);

/*
 * Apply one metadata record: `value` as in the log (frame version, type, version, body). A record
 * of a kind that is not kept here is skipped. Errors: CAFKA_ERR_PROTOCOL, CAFKA_ERR_MEMORY.
 */
int image_apply(struct image *image, int64_t offset, struct bytes value, cafka_error *err);

struct topic_image *image_topic(const struct image *image, struct str name);
struct topic_image *image_topic_by_id(const struct image *image, struct uuid id);
struct partition_image *topic_partition(const struct topic_image *topic, int32_t index); /* or NULL */
/* Of replicas, isr, … of a partition. */
bool ids_contain(const int32_t *ids, int32_t count, int32_t id);
struct broker_image *image_broker(const struct image *image, int32_t id);
/* The broker, if it is registered and not fenced. */
struct broker_image *image_live_broker(const struct image *image, int32_t id);
/* Its endpoint of that listener; NULL: none. */
struct endpoint *broker_endpoint(const struct broker_image *broker, const char *listener);
const struct config_image *image_config(const struct image *image, int type, struct str name);
const char *config_image_get(const struct config_image *config, const char *name); /* takes NULL */

#endif
