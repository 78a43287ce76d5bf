/*
 * data.h - what the APIs about records have in common: finding the partition a request means.
 *
 * Thread: the broker's loop.
 */
#ifndef CAFKA_MOCKBROKER_API_DATA_H
#define CAFKA_MOCKBROKER_API_DATA_H

#include "mockbroker/broker.h"
#include "mockbroker/replica/partition.h"
#include "mockbroker/request.h"

/* A partition as a request names it, and what this broker knows of it. */
struct data_target {
    struct topic_image *topic;     /* NULL: unknown */
    struct partition_image *image; /* NULL: unknown */
    struct partition *partition;   /* NULL: this broker has no replica of it */
    int error;                     /* ERR_NONE, or why it can't be served */
};

/* By name, or by id if `by_id`. */
struct data_target data_find(struct broker *broker, struct str topic, struct uuid id, bool by_id,
                             int32_t index);

/*
 * Brokers that lead partitions which this one refused (KIP-951): each once, for NodeEndpoints.
 * `nodes` has room for all brokers; returns how many there are.
 */
struct data_endpoint {
    int32_t id;
    struct str host;
    int32_t port;
    struct str rack;
};
struct data_endpoints {
    struct data_endpoint *nodes;
    int32_t count;
};
int data_endpoints_init(struct data_endpoints *endpoints,
                        struct request_context *ctx); /* CAFKA_ERR_MEMORY */
void data_endpoints_add(struct data_endpoints *endpoints, struct request_context *ctx,
                        int32_t broker_id);

/*
 * A partition as a key of a map: by name or id. Names are at most 249 bytes where they are valid; a
 * longer one is told apart by its size and its beginning.
 */
struct partition_key {
    char bytes[16 + 4 + 4 + 256];
    size_t size;
};
struct partition_key partition_key(struct str topic, struct uuid id, int32_t index);

/*
 * Partitions by the names a request gives them, to find those that it names more than once: each
 * has the ordinal that was put last. In memory of its own; map_fini() of `ordinals` frees it.
 */
struct data_names {
    struct map ordinals; /* name -> ordinal + 1 */
};
bool data_names_put(struct data_names *names, struct str topic, struct uuid id, int32_t index,
                    size_t ordinal);
size_t data_names_get(const struct data_names *names, struct str topic, struct uuid id,
                      int32_t index); /* SIZE_MAX: none */

/* What was made for a broker by these APIs; NULLs allowed. */
void data_free(struct broker *broker);

#endif
