/*
 * image.c - see image.h.
 */
#include "mockbroker/metadata/image.h"

#include "mockbroker/metadata/records.h"
#include "mockbroker/topic_config.h"
#include "protocol/messages/BrokerRegistrationChangeRecord.h"
#include "protocol/messages/ConfigRecord.h"
#include "protocol/messages/FeatureLevelRecord.h"
#include "protocol/messages/FenceBrokerRecord.h"
#include "protocol/messages/PartitionChangeRecord.h"
#include "protocol/messages/PartitionRecord.h"
#include "protocol/messages/ProducerIdsRecord.h"
#include "protocol/messages/RegisterBrokerRecord.h"
#include "protocol/messages/RemoveTopicRecord.h"
#include "protocol/messages/TopicRecord.h"
#include "protocol/messages/UnfenceBrokerRecord.h"
#include "protocol/messages/UnregisterBrokerRecord.h"
#include "util/alloc.h"

enum { RESOURCE_KEY_MAX = 512 };

static int no_memory(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_MEMORY, "no memory for cluster metadata");
}

/* --- look-up --- */

struct topic_image *image_topic(const struct image *image, struct str name)
{
    return name.data ? map_get(&image->topics, name.data, name.size) : NULL;
}

struct topic_image *image_topic_by_id(const struct image *image, struct uuid id)
{
    return map_get(&image->topics_by_id, &id, sizeof id);
}

struct partition_image *topic_partition(const struct topic_image *topic, int32_t index)
{
    return topic && index >= 0 && index < topic->partition_count ? &topic->partitions[index] : NULL;
}

bool ids_contain(const int32_t *ids, int32_t count, int32_t id)
{
    for (int32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

struct broker_image *image_broker(const struct image *image, int32_t id)
{
    return map_get_int(&image->brokers, id);
}

struct broker_image *image_live_broker(const struct image *image, int32_t id)
{
    struct broker_image *broker = image_broker(image, id);
    return broker && !broker->fenced ? broker : NULL;
}

struct endpoint *broker_endpoint(const struct broker_image *broker, const char *listener)
{
    for (int i = 0; i < broker->endpoint_count; i++)
        if (!strcmp(broker->endpoints[i].name, listener))
            return &broker->endpoints[i];
    return NULL;
}

/* The key of a resource in the map: its type and its name. 0: the name is too long to be one. */
static size_t resource_key(int type, struct str name, char out[RESOURCE_KEY_MAX])
{
    if (name.size >= RESOURCE_KEY_MAX)
        return 0;
    out[0] = (char)type;
    if (name.size)
        memcpy(out + 1, name.data, name.size);
    return name.size + 1;
}

const struct config_image *image_config(const struct image *image, int type, struct str name)
{
    char key[RESOURCE_KEY_MAX];
    size_t size = resource_key(type, name, key);
    return size ? map_get(&image->configs, key, size) : NULL;
}

const char *config_image_get(const struct config_image *config, const char *name)
{
    for (int32_t i = 0; config && i < config->entry_count; i++)
        if (!strcmp(config->entries[i].name, name))
            return config->entries[i].value;
    return NULL;
}

/* --- life --- */

void image_init(struct image *image)
{
    *image = (struct image){.offset = -1};
}

static void free_partition(struct partition_image *p)
{
    mem_free(p->replicas);
    mem_free(p->isr);
    mem_free(p->adding);
    mem_free(p->removing);
    mem_free(p->elr);
    mem_free(p->last_known_elr);
}

static void free_topic(struct topic_image *topic)
{
    for (int32_t i = 0; i < topic->partition_count; i++)
        free_partition(&topic->partitions[i]);
    mem_free(topic->partitions);
    mem_free(topic->name);
    mem_free(topic);
}

static void free_broker(struct broker_image *broker)
{
    if (!broker)
        return;
    for (int i = 0; i < broker->endpoint_count; i++) {
        mem_free(broker->endpoints[i].name);
        mem_free(broker->endpoints[i].host);
    }
    mem_free(broker->endpoints);
    mem_free(broker->rack);
    mem_free(broker);
}

static void free_config(struct config_image *config)
{
    if (!config)
        return;
    for (int32_t i = 0; i < config->entry_count; i++) {
        mem_free(config->entries[i].name);
        mem_free(config->entries[i].value);
    }
    mem_free(config->entries);
    mem_free(config->name);
    mem_free(config);
}

void image_fini(struct image *image)
{
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&image->topics, &i));)
        free_topic(e->value);
    for (size_t i = 0; (e = map_next(&image->brokers, &i));)
        free_broker(e->value);
    for (size_t i = 0; (e = map_next(&image->configs, &i));)
        free_config(e->value);
    map_fini(&image->topics);
    map_fini(&image->topics_by_id);
    map_fini(&image->brokers);
    map_fini(&image->configs);
    map_fini(&image->features);
    image_init(image);
}

/* --- topics --- */

static int apply_topic(struct image *image, const struct topic_record *r, cafka_error *err)
{
    if (image_topic(image, r->name) || image_topic_by_id(image, r->topic_id))
        return error_set(err, CAFKA_ERR_PROTOCOL, "topic %.*s is made twice", STR_ARG(r->name));
    struct topic_image *topic = mem_zalloc(sizeof *topic);
    if (!topic)
        return no_memory(err);
    topic->id = r->topic_id;
    topic->internal = topic_is_internal(r->name);
    topic->name = mem_strndup(r->name.data, r->name.size);
    if (!topic->name || !map_put(&image->topics, r->name.data, r->name.size, topic)) {
        free_topic(topic);
        return no_memory(err);
    }
    if (!map_put(&image->topics_by_id, &topic->id, sizeof topic->id, topic)) {
        map_remove(&image->topics, r->name.data, r->name.size);
        free_topic(topic);
        return no_memory(err);
    }
    return CAFKA_OK;
}

static int apply_remove_topic(struct image *image, const struct remove_topic_record *r,
                              cafka_error *err)
{
    struct topic_image *topic = map_remove(&image->topics_by_id, &r->topic_id, sizeof r->topic_id);
    if (!topic)
        return error_set(err, CAFKA_ERR_PROTOCOL, "a topic is removed that is not there");
    map_remove_str(&image->topics, topic->name);
    char key[RESOURCE_KEY_MAX];
    size_t size = resource_key(CONFIG_RESOURCE_TOPIC, str_of(topic->name), key);
    if (size)
        free_config(map_remove(&image->configs, key, size));
    free_topic(topic);
    return CAFKA_OK;
}

/* Replace a list of broker ids; `from` NULL with count 0 gives an empty one. */
static int set_ids(int32_t **to, int32_t *count, const int32_t *from, int32_t n, cafka_error *err)
{
    int32_t *copy = NULL;
    if (n > 0) {
        copy = mem_memdup(from, (size_t)n * sizeof *from);
        if (!copy)
            return no_memory(err);
    }
    mem_free(*to);
    *to = copy;
    *count = n > 0 ? n : 0;
    return CAFKA_OK;
}

static struct partition_image *grow_to(struct topic_image *topic, int32_t index, cafka_error *err)
{
    if (index >= 0 && index < topic->partition_count)
        return &topic->partitions[index];
    if (index != topic->partition_count) {
        error_set(err, CAFKA_ERR_PROTOCOL, "topic %s has no partition before %d", topic->name,
                  index);
        return NULL;
    }
    /* Powers of two, so that many partitions are not copied each time. */
    if (!(index & (index - 1))) {
        size_t capacity = index ? 2 * (size_t)index : 1;
        struct partition_image *more = mem_recalloc(topic->partitions, capacity, sizeof *more);
        if (!more) {
            no_memory(err);
            return NULL;
        }
        topic->partitions = more;
    }
    topic->partitions[index] = (struct partition_image){.leader = -1};
    topic->partition_count++;
    return &topic->partitions[index];
}

static int apply_partition(struct image *image, const struct partition_record *r, cafka_error *err)
{
    struct topic_image *topic = image_topic_by_id(image, r->topic_id);
    if (!topic)
        return error_set(err, CAFKA_ERR_PROTOCOL, "a partition of a topic that is not there");
    struct partition_image *p = grow_to(topic, r->partition_id, err);
    if (!p)
        return err ? err->code : CAFKA_ERR_PROTOCOL;
    p->leader = r->leader;
    p->leader_epoch = r->leader_epoch;
    p->partition_epoch = r->partition_epoch;
    p->leader_recovery_state = r->leader_recovery_state;
    int rc = set_ids(&p->replicas, &p->replica_count, r->replicas, r->replicas_count, err);
    if (!rc)
        rc = set_ids(&p->isr, &p->isr_count, r->isr, r->isr_count, err);
    if (!rc)
        rc = set_ids(&p->adding, &p->adding_count, r->adding_replicas, r->adding_replicas_count,
                     err);
    if (!rc)
        rc = set_ids(&p->removing, &p->removing_count, r->removing_replicas,
                     r->removing_replicas_count, err);
    if (!rc)
        rc = set_ids(&p->elr, &p->elr_count, r->eligible_leader_replicas,
                     r->eligible_leader_replicas_count, err);
    if (!rc)
        rc = set_ids(&p->last_known_elr, &p->last_known_elr_count, r->last_known_elr,
                     r->last_known_elr_count, err);
    return rc;
}

enum { LEADER_NOT_CHANGED = -2 };

static int apply_partition_change(struct image *image, const struct partition_change_record *r,
                                  cafka_error *err)
{
    struct topic_image *topic = image_topic_by_id(image, r->topic_id);
    struct partition_image *p = topic_partition(topic, r->partition_id);
    if (!p)
        return error_set(err, CAFKA_ERR_PROTOCOL, "a change of a partition that is not there");
    int rc = CAFKA_OK;
    if (r->isr_count >= 0 && r->isr)
        rc = set_ids(&p->isr, &p->isr_count, r->isr, r->isr_count, err);
    if (!rc && r->replicas_count >= 0 && r->replicas)
        rc = set_ids(&p->replicas, &p->replica_count, r->replicas, r->replicas_count, err);
    if (!rc && r->adding_replicas_count >= 0)
        rc = set_ids(&p->adding, &p->adding_count, r->adding_replicas, r->adding_replicas_count,
                     err);
    if (!rc && r->removing_replicas_count >= 0)
        rc = set_ids(&p->removing, &p->removing_count, r->removing_replicas,
                     r->removing_replicas_count, err);
    if (!rc && r->eligible_leader_replicas_count >= 0)
        rc = set_ids(&p->elr, &p->elr_count, r->eligible_leader_replicas,
                     r->eligible_leader_replicas_count, err);
    if (!rc && r->last_known_elr_count >= 0)
        rc = set_ids(&p->last_known_elr, &p->last_known_elr_count, r->last_known_elr,
                     r->last_known_elr_count, err);
    if (rc)
        return rc;
    if (r->leader != LEADER_NOT_CHANGED) {
        p->leader = r->leader;
        p->leader_epoch++;
    }
    if (r->leader_recovery_state >= 0)
        p->leader_recovery_state = r->leader_recovery_state;
    p->partition_epoch++;
    return CAFKA_OK;
}

/* --- brokers --- */

static int copy_endpoints(struct broker_image *broker, const struct register_broker_record *r)
{
    if (r->end_points_count <= 0)
        return 1;
    broker->endpoints = mem_calloc((size_t)r->end_points_count, sizeof *broker->endpoints);
    if (!broker->endpoints)
        return 0;
    broker->endpoint_count = r->end_points_count;
    for (int i = 0; i < r->end_points_count; i++) {
        const struct register_broker_record_broker_endpoint *from = &r->end_points[i];
        struct endpoint *to = &broker->endpoints[i];
        to->name = mem_strndup(from->name.data, from->name.size);
        to->host = mem_strndup(from->host.data, from->host.size);
        to->port = from->port;
        to->security_protocol = from->security_protocol;
        if (!to->name || !to->host)
            return 0;
    }
    return 1;
}

static int apply_register(struct image *image, const struct register_broker_record *r,
                          cafka_error *err)
{
    struct broker_image *broker = mem_zalloc(sizeof *broker);
    if (!broker)
        return no_memory(err);
    broker->id = r->broker_id;
    broker->epoch = r->broker_epoch;
    broker->fenced = r->fenced;
    broker->in_controlled_shutdown = r->in_controlled_shutdown;
    if (r->rack.data)
        broker->rack = mem_strndup(r->rack.data, r->rack.size);
    if ((r->rack.data && !broker->rack) || !copy_endpoints(broker, r)) {
        free_broker(broker);
        return no_memory(err);
    }
    struct broker_image *old = image_broker(image, r->broker_id);
    if (!map_put_int(&image->brokers, r->broker_id, broker)) {
        free_broker(broker);
        return no_memory(err);
    }
    free_broker(old);
    return CAFKA_OK;
}

static int apply_fencing(struct image *image, int32_t id, bool fenced, cafka_error *err)
{
    struct broker_image *broker = image_broker(image, id);
    if (!broker)
        return error_set(err, CAFKA_ERR_PROTOCOL, "broker %d is fenced but not registered", id);
    broker->fenced = fenced;
    return CAFKA_OK;
}

static int apply_registration_change(struct image *image,
                                     const struct broker_registration_change_record *r,
                                     cafka_error *err)
{
    struct broker_image *broker = image_broker(image, r->broker_id);
    if (!broker)
        return error_set(err, CAFKA_ERR_PROTOCOL, "broker %d changes but is not registered",
                         r->broker_id);
    if (r->fenced)
        broker->fenced = r->fenced > 0;
    if (r->in_controlled_shutdown)
        broker->in_controlled_shutdown = true;
    return CAFKA_OK;
}

/* --- configs --- */

static struct config_image *make_config(struct image *image, int type, struct str name)
{
    char key[RESOURCE_KEY_MAX];
    size_t size = resource_key(type, name, key);
    struct config_image *config = size ? map_get(&image->configs, key, size) : NULL;
    if (config || !size)
        return config;
    config = mem_zalloc(sizeof *config);
    if (!config)
        return NULL;
    config->type = (int8_t)type;
    config->name = mem_strndup(name.data ? name.data : "", name.size);
    if (!config->name || !map_put(&image->configs, key, size, config)) {
        free_config(config);
        return NULL;
    }
    return config;
}

static int32_t find_entry(const struct config_image *config, struct str name)
{
    for (int32_t i = 0; config && i < config->entry_count; i++)
        if (str_is(name, config->entries[i].name))
            return i;
    return -1;
}

static void remove_entry(struct image *image, int type, struct str resource, struct str name)
{
    char key[RESOURCE_KEY_MAX];
    size_t size = resource_key(type, resource, key);
    struct config_image *config = size ? map_get(&image->configs, key, size) : NULL;
    int32_t i = find_entry(config, name);
    if (i < 0)
        return;
    mem_free(config->entries[i].name);
    mem_free(config->entries[i].value);
    memmove(&config->entries[i], &config->entries[i + 1],
            (size_t)(config->entry_count - i - 1) * sizeof *config->entries);
    config->entry_count--;
    if (!config->entry_count) {
        map_remove(&image->configs, key, size);
        free_config(config);
    }
}

static int set_entry(struct config_image *config, struct str name, struct str value,
                     cafka_error *err)
{
    char *text = mem_strndup(value.data, value.size);
    if (!text)
        return no_memory(err);
    int32_t i = find_entry(config, name);
    if (i >= 0) {
        mem_free(config->entries[i].value);
        config->entries[i].value = text;
        return CAFKA_OK;
    }
    if (config->entry_count == config->entry_capacity) {
        int32_t capacity = config->entry_capacity ? 2 * config->entry_capacity : 4;
        struct config_entry *more = mem_recalloc(config->entries, (size_t)capacity, sizeof *more);
        if (!more) {
            mem_free(text);
            return no_memory(err);
        }
        config->entries = more;
        config->entry_capacity = capacity;
    }
    char *key = mem_strndup(name.data, name.size);
    if (!key) {
        mem_free(text);
        return no_memory(err);
    }
    config->entries[config->entry_count++] = (struct config_entry){key, text};
    return CAFKA_OK;
}

static int apply_config(struct image *image, const struct config_record *r, cafka_error *err)
{
    if (!r->value.data) {
        remove_entry(image, r->resource_type, r->resource_name, r->name);
        return CAFKA_OK;
    }
    struct config_image *config = make_config(image, r->resource_type, r->resource_name);
    return config ? set_entry(config, r->name, r->value, err) : no_memory(err);
}

static int apply_feature(struct image *image, const struct feature_level_record *r, cafka_error *err)
{
    if (!r->feature_level) {
        map_remove(&image->features, r->name.data, r->name.size);
        return CAFKA_OK;
    }
    return map_put(&image->features, r->name.data, r->name.size, (void *)(intptr_t)r->feature_level)
               ? CAFKA_OK
               : no_memory(err);
}

/* --- apply --- */

static int apply_body(struct image *image, int type, const void *record, cafka_error *err)
{
    switch (type) {
    case METADATA_TOPIC: return apply_topic(image, record, err);
    case METADATA_REMOVE_TOPIC: return apply_remove_topic(image, record, err);
    case METADATA_PARTITION: return apply_partition(image, record, err);
    case METADATA_PARTITION_CHANGE: return apply_partition_change(image, record, err);
    case METADATA_REGISTER_BROKER: return apply_register(image, record, err);
    case METADATA_BROKER_REGISTRATION_CHANGE: return apply_registration_change(image, record, err);
    case METADATA_FENCE_BROKER:
        return apply_fencing(image, ((const struct fence_broker_record *)record)->id, true, err);
    case METADATA_UNFENCE_BROKER:
        return apply_fencing(image, ((const struct unfence_broker_record *)record)->id, false, err);
    case METADATA_UNREGISTER_BROKER:
        free_broker(map_remove_int(&image->brokers,
                                   ((const struct unregister_broker_record *)record)->broker_id));
        return CAFKA_OK;
    case METADATA_CONFIG: return apply_config(image, record, err);
    case METADATA_FEATURE_LEVEL: return apply_feature(image, record, err);
    case METADATA_PRODUCER_IDS:
        image->next_producer_id = ((const struct producer_ids_record *)record)->next_producer_id;
        return CAFKA_OK;
    default: return CAFKA_OK;
    }
}

int image_apply(struct image *image, int64_t offset, struct bytes value, cafka_error *err)
{
    int type, version;
    struct bytes body;
    int rc = metadata_record_open(value, &type, &version, &body, err);
    if (rc)
        return rc;
    const struct message *message = metadata_record_message(type);
    if (message) {
        struct arena arena = {0};
        void *record = arena_alloc(&arena, message_struct_size(message));
        rc = record ? message_decode(message, version, body, &arena, record, NULL, err)
                    : no_memory(err);
        if (!rc)
            rc = apply_body(image, type, record, err);
        arena_fini(&arena);
    }
    if (!rc)
        image->offset = offset;
    return rc;
}
