/*
 * records.h - metadata records as the log holds them: frame version, type and version as uvarints,
 * then the body of the schema (FORMAT.md, "What stands before a schema's body").
 *
 * Thread: any; no state.
 */
#ifndef CAFKA_MOCKBROKER_RECORDS_H
#define CAFKA_MOCKBROKER_RECORDS_H

#include "protocol/codec.h"
#include "util/arena.h"
#include "util/bytes.h"
#include "util/error.h"

/* Kafka's numbers of metadata records; only those that are written or read here. */
enum metadata_record_type {
    METADATA_REGISTER_BROKER = 0,
    METADATA_UNREGISTER_BROKER = 1,
    METADATA_TOPIC = 2,
    METADATA_PARTITION = 3,
    METADATA_CONFIG = 4,
    METADATA_PARTITION_CHANGE = 5,
    METADATA_FENCE_BROKER = 7,
    METADATA_UNFENCE_BROKER = 8,
    METADATA_REMOVE_TOPIC = 9,
    METADATA_FEATURE_LEVEL = 12,
    METADATA_PRODUCER_IDS = 15,
    METADATA_BROKER_REGISTRATION_CHANGE = 17,
    METADATA_NO_OP = 20
};

/* Encoded records on their way to the log. Zeroed is empty. */
struct record_list {
    struct bytes *items; /* each an allocation of its own */
    size_t count, capacity;
};
void record_list_fini(struct record_list *list);
/* Encode `in`, a struct of that record's schema, and append it. */
int record_list_add(struct record_list *list, enum metadata_record_type type, int version,
                    const void *in, cafka_error *err);
int record_list_add_bytes(struct record_list *list, struct bytes value, cafka_error *err);

/* Take the frame apart. Error CAFKA_ERR_PROTOCOL. */
int metadata_record_open(struct bytes value, int *type, int *version, struct bytes *body,
                         cafka_error *err);
/* What a record changes, for those who act on it. */
struct metadata_change {
    enum {
        CHANGE_OTHER,
        CHANGE_TOPIC, /* it is made, or a partition of it is made or changed */
        CHANGE_TOPIC_REMOVED,
        CHANGE_TOPIC_CONFIG, /* of `resource` */
        CHANGE_BROKER_CONFIG
    } kind;
    struct uuid topic_id;
    struct str resource;
};
int metadata_record_change(struct bytes value, struct arena *arena, struct metadata_change *out,
                           cafka_error *err);

/* The table of a type; NULL: not known here. */
const struct message *metadata_record_message(int type);

#endif
