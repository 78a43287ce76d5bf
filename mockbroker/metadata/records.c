/*
 * records.c - see records.h.
 */
#include "mockbroker/metadata/records.h"

#include "mockbroker/metadata/image.h"
#include "protocol/messages/BrokerRegistrationChangeRecord.h"
#include "protocol/messages/ConfigRecord.h"
#include "protocol/messages/FeatureLevelRecord.h"
#include "protocol/messages/FenceBrokerRecord.h"
#include "protocol/messages/NoOpRecord.h"
#include "protocol/messages/PartitionChangeRecord.h"
#include "protocol/messages/PartitionRecord.h"
#include "protocol/messages/ProducerIdsRecord.h"
#include "protocol/messages/RegisterBrokerRecord.h"
#include "protocol/messages/RemoveTopicRecord.h"
#include "protocol/messages/TopicRecord.h"
#include "protocol/messages/UnfenceBrokerRecord.h"
#include "protocol/messages/UnregisterBrokerRecord.h"
#include "util/alloc.h"

enum { FRAME_VERSION = 1 };

const struct message *metadata_record_message(int type)
{
    switch (type) {
    case METADATA_REGISTER_BROKER: return &register_broker_record_message;
    case METADATA_UNREGISTER_BROKER: return &unregister_broker_record_message;
    case METADATA_TOPIC: return &topic_record_message;
    case METADATA_PARTITION: return &partition_record_message;
    case METADATA_CONFIG: return &config_record_message;
    case METADATA_PARTITION_CHANGE: return &partition_change_record_message;
    case METADATA_FENCE_BROKER: return &fence_broker_record_message;
    case METADATA_UNFENCE_BROKER: return &unfence_broker_record_message;
    case METADATA_REMOVE_TOPIC: return &remove_topic_record_message;
    case METADATA_FEATURE_LEVEL: return &feature_level_record_message;
    case METADATA_PRODUCER_IDS: return &producer_ids_record_message;
    case METADATA_BROKER_REGISTRATION_CHANGE: return &broker_registration_change_record_message;
    case METADATA_NO_OP: return &no_op_record_message;
    default: return NULL;
    }
}

void record_list_fini(struct record_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        mem_free((void *)list->items[i].data);
    mem_free(list->items);
    *list = (struct record_list){0};
}

/* Takes the allocation over, on failure too. */
static int push(struct record_list *list, struct bytes value, cafka_error *err)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 8;
        struct bytes *items = mem_recalloc(list->items, capacity, sizeof *items);
        if (!items) {
            mem_free((void *)value.data);
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for metadata records");
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = value;
    return CAFKA_OK;
}

int record_list_add(struct record_list *list, enum metadata_record_type type, int version,
                    const void *in, cafka_error *err)
{
    struct encoded e = {0};
    buffer_put_uvarint(&e.bytes, FRAME_VERSION);
    buffer_put_uvarint(&e.bytes, (uint64_t)type);
    buffer_put_uvarint(&e.bytes, (uint64_t)version);
    int rc = message_encode(metadata_record_message(type), version, in, &e, err);
    if (!rc && e.bytes.failed)
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for a metadata record");
    if (rc) {
        encoded_fini(&e);
        return rc;
    }
    struct bytes value = bytes_of(e.bytes.data, e.bytes.size);
    e.bytes = (struct buffer){0};
    encoded_fini(&e);
    return push(list, value, err);
}

int record_list_add_bytes(struct record_list *list, struct bytes value, cafka_error *err)
{
    void *copy = mem_memdup(value.data, value.size);
    if (!copy)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a metadata record");
    return push(list, bytes_of(copy, value.size), err);
}

int metadata_record_open(struct bytes value, int *type, int *version, struct bytes *body,
                         cafka_error *err)
{
    struct reader r = reader_of(value.data, value.size);
    uint64_t frame = reader_uvarint(&r, 5);
    uint64_t kind = reader_uvarint(&r, 5);
    uint64_t v = reader_uvarint(&r, 5);
    if (reader_failed(&r) || frame != FRAME_VERSION || kind > INT16_MAX || v > INT16_MAX)
        return error_set(err, CAFKA_ERR_PROTOCOL, "metadata record without the frame of one");
    *type = (int)kind;
    *version = (int)v;
    *body = bytes_of(r.at, reader_left(&r));
    return CAFKA_OK;
}

static void describe_config(const struct config_record *r, struct metadata_change *out)
{
    out->resource = r->resource_name;
    if (r->resource_type == CONFIG_RESOURCE_TOPIC)
        out->kind = CHANGE_TOPIC_CONFIG;
    else if (r->resource_type == CONFIG_RESOURCE_BROKER)
        out->kind = CHANGE_BROKER_CONFIG;
}

static void describe(int type, const void *record, struct metadata_change *out)
{
    out->kind = CHANGE_TOPIC;
    switch (type) {
    case METADATA_TOPIC: out->topic_id = ((const struct topic_record *)record)->topic_id; return;
    case METADATA_PARTITION:
        out->topic_id = ((const struct partition_record *)record)->topic_id;
        return;
    case METADATA_PARTITION_CHANGE:
        out->topic_id = ((const struct partition_change_record *)record)->topic_id;
        return;
    case METADATA_REMOVE_TOPIC:
        out->kind = CHANGE_TOPIC_REMOVED;
        out->topic_id = ((const struct remove_topic_record *)record)->topic_id;
        return;
    default: out->kind = CHANGE_OTHER;
    }
    if (type == METADATA_CONFIG)
        describe_config(record, out);
}

int metadata_record_change(struct bytes value, struct arena *arena, struct metadata_change *out,
                           cafka_error *err)
{
    int type, version;
    struct bytes body;
    int rc = metadata_record_open(value, &type, &version, &body, err);
    const struct message *message = rc ? NULL : metadata_record_message(type);
    *out = (struct metadata_change){.kind = CHANGE_OTHER};
    if (rc || !message)
        return rc;
    void *record = arena_alloc(arena, message_struct_size(message));
    if (!record)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a metadata record");
    rc = message_decode(message, version, body, arena, record, NULL, err);
    if (!rc)
        describe(type, record, out);
    return rc;
}
