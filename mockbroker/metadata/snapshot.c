/*
 * snapshot.c - see snapshot.h.
 */
#include "mockbroker/metadata/snapshot.h"

#include "protocol/messages/ConfigRecord.h"
#include "protocol/messages/FeatureLevelRecord.h"
#include "protocol/messages/PartitionRecord.h"
#include "protocol/messages/ProducerIdsRecord.h"
#include "protocol/messages/RegisterBrokerRecord.h"
#include "protocol/messages/TopicRecord.h"
#include "util/alloc.h"

static int write_feature(const struct map_entry *e, struct record_list *out, cafka_error *err)
{
    struct feature_level_record r;
    feature_level_record_init(&r);
    r.name = (struct str){e->key, e->key_size};
    r.feature_level = (int16_t)(intptr_t)e->value;
    return record_list_add(out, METADATA_FEATURE_LEVEL, 0, &r, err);
}

static int write_broker(const struct broker_image *broker, struct record_list *out, cafka_error *err)
{
    struct register_broker_record r;
    register_broker_record_init(&r);
    r.broker_id = broker->id;
    r.broker_epoch = broker->epoch;
    r.rack = str_of(broker->rack);
    r.fenced = broker->fenced;
    r.in_controlled_shutdown = broker->in_controlled_shutdown;
    r.end_points = mem_calloc((size_t)broker->endpoint_count, sizeof *r.end_points);
    if (!r.end_points && broker->endpoint_count)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a metadata snapshot");
    for (int i = 0; i < broker->endpoint_count; i++) {
        const struct endpoint *from = &broker->endpoints[i];
        r.end_points[r.end_points_count++] =
            (struct register_broker_record_broker_endpoint){.name = str_of(from->name),
                                                            .host = str_of(from->host),
                                                            .port = from->port,
                                                            .security_protocol =
                                                                from->security_protocol};
    }
    int rc = record_list_add(out, METADATA_REGISTER_BROKER, 3, &r, err);
    mem_free(r.end_points);
    return rc;
}

static int write_partition(const struct topic_image *topic, int32_t index, struct record_list *out,
                           cafka_error *err)
{
    const struct partition_image *p = &topic->partitions[index];
    struct partition_record r;
    partition_record_init(&r);
    r.topic_id = topic->id;
    r.partition_id = index;
    r.leader = p->leader;
    r.leader_epoch = p->leader_epoch;
    r.partition_epoch = p->partition_epoch;
    r.leader_recovery_state = p->leader_recovery_state;
    r.replicas = p->replicas;
    r.replicas_count = p->replica_count;
    r.isr = p->isr;
    r.isr_count = p->isr_count;
    r.adding_replicas = p->adding;
    r.adding_replicas_count = p->adding_count;
    r.removing_replicas = p->removing;
    r.removing_replicas_count = p->removing_count;
    if (p->elr_count) {
        r.eligible_leader_replicas = p->elr;
        r.eligible_leader_replicas_count = p->elr_count;
    }
    if (p->last_known_elr_count) {
        r.last_known_elr = p->last_known_elr;
        r.last_known_elr_count = p->last_known_elr_count;
    }
    struct uuid *directories = mem_calloc((size_t)p->replica_count, sizeof *directories);
    if (!directories && p->replica_count)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a metadata snapshot");
    r.directories = directories;
    r.directories_count = p->replica_count;
    int rc = record_list_add(out, METADATA_PARTITION, 2, &r, err);
    mem_free(directories);
    return rc;
}

static int write_topic(const struct topic_image *topic, struct record_list *out, cafka_error *err)
{
    struct topic_record r;
    topic_record_init(&r);
    r.name = str_of(topic->name);
    r.topic_id = topic->id;
    int rc = record_list_add(out, METADATA_TOPIC, 0, &r, err);
    for (int32_t i = 0; !rc && i < topic->partition_count; i++)
        rc = write_partition(topic, i, out, err);
    return rc;
}

static int write_config(const struct config_image *config, struct record_list *out, cafka_error *err)
{
    int rc = CAFKA_OK;
    for (int32_t i = 0; !rc && i < config->entry_count; i++) {
        struct config_record r;
        config_record_init(&r);
        r.resource_type = config->type;
        r.resource_name = str_of(config->name);
        r.name = str_of(config->entries[i].name);
        r.value = str_of(config->entries[i].value);
        rc = record_list_add(out, METADATA_CONFIG, 0, &r, err);
    }
    return rc;
}

int image_write(const struct image *image, struct record_list *out, cafka_error *err)
{
    struct map_entry *e;
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && (e = map_next(&image->features, &i));)
        rc = write_feature(e, out, err);
    for (size_t i = 0; !rc && (e = map_next(&image->brokers, &i));)
        rc = write_broker(e->value, out, err);
    for (size_t i = 0; !rc && (e = map_next(&image->configs, &i));)
        rc = write_config(e->value, out, err);
    for (size_t i = 0; !rc && (e = map_next(&image->topics, &i));)
        rc = write_topic(e->value, out, err);
    if (!rc && image->next_producer_id) {
        struct producer_ids_record r;
        producer_ids_record_init(&r);
        r.next_producer_id = image->next_producer_id;
        rc = record_list_add(out, METADATA_PRODUCER_IDS, 0, &r, err);
    }
    return rc;
}
