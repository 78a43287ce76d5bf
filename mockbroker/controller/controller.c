/*
 * controller.c - see controller.h.
 */
#include "mockbroker/controller/controller.h"

#include <stdio.h>

#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/controller/metadata_log.h"
#include "mockbroker/metadata/snapshot.h"
#include "mockbroker/versions.h"
#include "protocol/error_codes.h"
#include "protocol/messages/BrokerRegistrationChangeRecord.h"
#include "protocol/messages/ConfigRecord.h"
#include "protocol/messages/FeatureLevelRecord.h"
#include "protocol/messages/FenceBrokerRecord.h"
#include "protocol/messages/PartitionChangeRecord.h"
#include "protocol/messages/ProducerIdsRecord.h"
#include "protocol/messages/RegisterBrokerRecord.h"
#include "protocol/messages/UnregisterBrokerRecord.h"
#include "util/alloc.h"

/* --- committing --- */

static void deliver(struct deferred *deferred)
{
    struct controller *c = container_of(deferred, struct controller, deliver);
    struct record_list records = c->pending;
    int64_t offset = c->pending_offset;
    c->pending = (struct record_list){0};
    for (int i = 0; i < c->cluster->broker_count; i++) {
        struct broker *broker = c->cluster->brokers[i];
        if (broker && broker->running)
            broker_apply(broker, offset, records.items, records.count);
    }
    record_list_fini(&records);
}

static int apply_all(struct controller *c, int64_t offset, const struct record_list *records,
                     cafka_error *err)
{
    for (size_t i = 0; i < records->count; i++) {
        int rc = image_apply(&c->image, offset + (int64_t)i, records->items[i], err);
        if (rc)
            return rc;
    }
    return CAFKA_OK;
}

/* Keep copies until the brokers get them; on failure none of these records is pending. */
static int remember(struct controller *c, const struct record_list *records, cafka_error *err)
{
    size_t before = c->pending.count;
    for (size_t i = 0; i < records->count; i++) {
        int rc = record_list_add_bytes(&c->pending, records->items[i], err);
        if (rc) {
            while (c->pending.count > before)
                mem_free((void *)c->pending.items[--c->pending.count].data);
            return rc;
        }
    }
    return CAFKA_OK;
}

int controller_commit(struct controller *c, const struct record_list *records, cafka_error *err)
{
    if (!records->count)
        return CAFKA_OK;
    size_t before = c->pending.count;
    int rc = remember(c, records, err);
    if (rc)
        return rc;
    int64_t offset;
    rc = metadata_log_append(c->records, records, &offset, err);
    if (rc) {
        while (c->pending.count > before)
            mem_free((void *)c->pending.items[--c->pending.count].data);
        return rc;
    }
    if (!before)
        c->pending_offset = offset;
    deferred_add(&c->cluster->deferred, &c->deliver);
    return apply_all(c, offset, records, err);
}

static int commit_and_free(struct controller *c, struct record_list *records, int rc,
                           cafka_error *err)
{
    if (!rc)
        rc = controller_commit(c, records, err);
    record_list_fini(records);
    return rc;
}

/* --- start --- */

static int replay(void *user, int64_t offset, struct bytes value, cafka_error *err)
{
    struct controller *c = user;
    return image_apply(&c->image, offset, value, err);
}

/* What formatting the storage of a new cluster writes. */
static int bootstrap(struct controller *c, cafka_error *err)
{
    struct record_list records = {0};
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && i < feature_count; i++) {
        if (!features[i].level)
            continue;
        struct feature_level_record r;
        feature_level_record_init(&r);
        r.name = str_of(features[i].name);
        r.feature_level = features[i].level;
        rc = record_list_add(&records, METADATA_FEATURE_LEVEL, 0, &r, err);
    }
    /* With eligible leader replicas the minimum ISR is kept as a config of the whole cluster. */
    struct config_record r;
    config_record_init(&r);
    r.resource_type = CONFIG_RESOURCE_BROKER;
    r.resource_name = str_of("");
    r.name = str_of("min.insync.replicas");
    r.value = str_of(broker_config_get(&c->config, "min.insync.replicas"));
    if (!rc)
        rc = record_list_add(&records, METADATA_CONFIG, 0, &r, err);
    return commit_and_free(c, &records, rc, err);
}

/* After a crash the log says that brokers live which do not. */
static int fence_all(struct controller *c, cafka_error *err)
{
    struct record_list records = {0};
    struct map_entry *e;
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && (e = map_next(&c->image.brokers, &i));) {
        const struct broker_image *broker = e->value;
        if (broker->fenced)
            continue;
        struct fence_broker_record r;
        fence_broker_record_init(&r);
        r.id = broker->id;
        r.epoch = broker->epoch;
        rc = record_list_add(&records, METADATA_FENCE_BROKER, 0, &r, err);
    }
    return commit_and_free(c, &records, rc, err);
}

int controller_new(struct controller **out, struct cluster *cluster, cafka_error *err)
{
    struct controller *c = mem_zalloc(sizeof *c);
    if (!c)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a controller");
    c->cluster = cluster;
    c->log = (struct log){&cluster->sink, "controller"};
    rng_fork(&c->rng, &cluster->rng);
    image_init(&c->image);
    c->config = (struct broker_config){.properties = &cluster->options.properties,
                                       .image = &c->image,
                                       .broker_id = -1};
    c->deliver.run = deliver;
    *out = c;
    return CAFKA_OK;
}

void controller_free(struct controller *c)
{
    if (!c)
        return;
    list_remove(&c->deliver.link);
    record_list_fini(&c->pending);
    metadata_log_close(c->records);
    image_fini(&c->image);
    mem_free(c);
}

int controller_start(struct controller *c, cafka_error *err)
{
    size_t size = strlen(c->cluster->directory) + sizeof "/controller";
    char *directory = mem_alloc(size);
    if (!directory)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the controller's directory");
    snprintf(directory, size, "%s/controller", c->cluster->directory);
    int rc = metadata_log_open(&c->records, c->cluster->env, directory, !c->cluster->temporary,
                               c->log, replay, c, err);
    mem_free(directory);
    if (!rc && !metadata_log_next_offset(c->records))
        rc = bootstrap(c, err);
    return rc ? rc : fence_all(c, err);
}

int controller_catch_up(struct controller *c, int32_t id, cafka_error *err)
{
    struct broker *broker = cluster_broker(c->cluster, id);
    struct record_list records = {0};
    int rc = image_write(&c->image, &records, err);
    /* A snapshot ends where the image stands, however many records it takes. */
    if (!rc)
        broker->image.offset = c->image.offset - (int64_t)records.count;
    if (!rc)
        broker_apply(broker, c->image.offset - (int64_t)records.count + 1, records.items,
                     records.count);
    record_list_fini(&records);
    return rc;
}

/* --- brokers and leaders --- */

/* The first replica that is in sync and lives, not counting `except`; NO_LEADER when none is. */
static int32_t choose_leader(const struct controller *c, const struct partition_image *p,
                             int32_t except, int32_t reborn)
{
    for (int32_t i = 0; i < p->replica_count; i++) {
        int32_t id = p->replicas[i];
        if (id != except && ids_contain(p->isr, p->isr_count, id) &&
            (id == reborn || image_live_broker(&c->image, id)))
            return id;
    }
    return NO_LEADER;
}

static int add_change(struct record_list *records, const struct topic_image *topic, int32_t index,
                      int32_t leader, const int32_t *isr, int32_t isr_count, cafka_error *err)
{
    struct partition_change_record r;
    partition_change_record_init(&r);
    r.topic_id = topic->id;
    r.partition_id = index;
    r.leader = leader;
    if (isr) {
        r.isr = (int32_t *)isr;
        r.isr_count = isr_count;
    }
    return record_list_add(records, METADATA_PARTITION_CHANGE, 2, &r, err);
}

/* Lead again what it led, and what has no leader. */
static int elect_for(struct controller *c, int32_t broker, struct record_list *records,
                     cafka_error *err)
{
    struct map_entry *e;
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && (e = map_next(&c->image.topics, &i));) {
        const struct topic_image *topic = e->value;
        for (int32_t n = 0; !rc && n < topic->partition_count; n++) {
            const struct partition_image *p = &topic->partitions[n];
            if (p->leader != broker && p->leader != NO_LEADER)
                continue;
            int32_t leader = p->leader == broker ? broker : choose_leader(c, p, -1, broker);
            if (leader != NO_LEADER)
                rc = add_change(records, topic, n, leader, NULL, 0, err);
        }
    }
    return rc;
}

static int add_registration(struct controller *c, struct record_list *records,
                            const struct broker_image *broker, struct uuid incarnation,
                            int64_t epoch, cafka_error *err)
{
    struct register_broker_record r;
    register_broker_record_init(&r);
    r.broker_id = broker->id;
    r.incarnation_id = incarnation;
    r.broker_epoch = epoch;
    r.rack = str_of(broker->rack);
    r.fenced = true;
    r.end_points = mem_calloc((size_t)broker->endpoint_count, sizeof *r.end_points);
    r.features = mem_calloc(feature_count, sizeof *r.features);
    int rc = r.end_points && r.features
                 ? CAFKA_OK
                 : error_set(err, CAFKA_ERR_MEMORY, "no memory for a registration");
    for (int i = 0; !rc && i < broker->endpoint_count; i++) {
        const struct endpoint *from = &broker->endpoints[i];
        r.end_points[r.end_points_count++] =
            (struct register_broker_record_broker_endpoint){.name = str_of(from->name),
                                                            .host = str_of(from->host),
                                                            .port = from->port,
                                                            .security_protocol =
                                                                from->security_protocol};
    }
    for (size_t i = 0; !rc && i < feature_count; i++)
        r.features[r.features_count++] =
            (struct register_broker_record_broker_feature){.name = str_of(features[i].name),
                                                           .min_supported_version = features[i].min,
                                                           .max_supported_version = features[i].max};
    if (!rc)
        rc = record_list_add(records, METADATA_REGISTER_BROKER, 3, &r, err);
    mem_free(r.end_points);
    mem_free(r.features);
    (void)c;
    return rc;
}

static int add_unfence(struct record_list *records, int32_t id, int64_t epoch, cafka_error *err)
{
    struct broker_registration_change_record r;
    broker_registration_change_record_init(&r);
    r.broker_id = id;
    r.broker_epoch = epoch;
    r.fenced = -1;
    return record_list_add(records, METADATA_BROKER_REGISTRATION_CHANGE, 1, &r, err);
}

int controller_register(struct controller *c, const struct broker_image *broker,
                        struct uuid incarnation, int64_t *epoch, cafka_error *err)
{
    struct record_list records = {0};
    *epoch = metadata_log_next_offset(c->records);
    int rc = add_registration(c, &records, broker, incarnation, *epoch, err);
    if (!rc)
        rc = add_unfence(&records, broker->id, *epoch, err);
    if (!rc)
        rc = elect_for(c, broker->id, &records, err);
    return commit_and_free(c, &records, rc, err);
}

/* The ISR without one; the last of an ISR stays in it, or its records would be lost. */
static int add_departure(struct controller *c, struct record_list *records,
                         const struct topic_image *topic, int32_t index, int32_t gone,
                         cafka_error *err)
{
    const struct partition_image *p = &topic->partitions[index];
    if (p->leader != gone && !ids_contain(p->isr, p->isr_count, gone))
        return CAFKA_OK;
    int32_t leader = p->leader == gone ? choose_leader(c, p, gone, -1) : p->leader;
    if (p->isr_count <= 1)
        return p->leader == gone ? add_change(records, topic, index, leader, NULL, 0, err)
                                 : CAFKA_OK;
    int32_t *isr = mem_calloc((size_t)p->isr_count, sizeof *isr);
    if (!isr)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for an ISR");
    int32_t count = 0;
    for (int32_t i = 0; i < p->isr_count; i++)
        if (p->isr[i] != gone)
            isr[count++] = p->isr[i];
    int rc = add_change(records, topic, index, p->leader == gone ? leader : -2, isr, count, err);
    mem_free(isr);
    return rc;
}

int controller_fence(struct controller *c, int32_t id, cafka_error *err)
{
    struct broker_image *broker = image_live_broker(&c->image, id);
    if (!broker)
        return CAFKA_OK;
    struct record_list records = {0};
    struct fence_broker_record r;
    fence_broker_record_init(&r);
    r.id = id;
    r.epoch = broker->epoch;
    int rc = record_list_add(&records, METADATA_FENCE_BROKER, 0, &r, err);
    struct map_entry *e;
    for (size_t i = 0; !rc && (e = map_next(&c->image.topics, &i));) {
        const struct topic_image *topic = e->value;
        for (int32_t n = 0; !rc && n < topic->partition_count; n++)
            rc = add_departure(c, &records, topic, n, id, err);
    }
    return commit_and_free(c, &records, rc, err);
}

int controller_set_in_sync(struct controller *c, struct uuid topic_id, int32_t index,
                           int32_t broker, bool in_sync, cafka_error *err)
{
    const struct topic_image *topic = image_topic_by_id(&c->image, topic_id);
    const struct partition_image *p = topic_partition(topic, index);
    if (!p || ids_contain(p->isr, p->isr_count, broker) == in_sync)
        return CAFKA_OK;
    if (in_sync && !image_live_broker(&c->image, broker))
        return error_set(err, ERR_INELIGIBLE_REPLICA, "broker %d is fenced", (int)broker);
    int32_t *isr = mem_calloc((size_t)p->isr_count + 1, sizeof *isr);
    if (!isr)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for an ISR");
    int32_t count = 0;
    for (int32_t i = 0; i < p->replica_count; i++) { /* in the order of the replicas */
        int32_t id = p->replicas[i];
        if (id == broker ? in_sync : ids_contain(p->isr, p->isr_count, id))
            isr[count++] = id;
    }
    struct record_list records = {0};
    int rc = add_change(&records, topic, index, -2, isr, count, err);
    mem_free(isr);
    rc = commit_and_free(c, &records, rc, err);
    return rc || !in_sync ? rc : controller_complete_reassignment(c, topic, index, err);
}

int controller_unregister(struct controller *c, int32_t id, cafka_error *err)
{
    const struct broker_image *broker = image_broker(&c->image, id);
    if (!broker)
        return error_set(err, ERR_BROKER_ID_NOT_REGISTERED,
                         "Broker ID %d is not currently registered", (int)id);
    struct record_list records = {0};
    struct unregister_broker_record r;
    unregister_broker_record_init(&r);
    r.broker_id = id;
    r.broker_epoch = broker->epoch;
    int rc = controller_fence(c, id, err);
    if (!rc)
        rc = record_list_add(&records, METADATA_UNREGISTER_BROKER, 0, &r, err);
    return commit_and_free(c, &records, rc, err);
}

int controller_move_leader(struct controller *c, struct str name, int32_t index, int32_t leader,
                           cafka_error *err)
{
    const struct topic_image *topic = image_topic(&c->image, name);
    const struct partition_image *p = topic_partition(topic, index);
    if (!p)
        return error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "there is no partition %.*s-%d",
                         STR_ARG(name), (int)index);
    if (!ids_contain(p->isr, p->isr_count, leader) || !image_live_broker(&c->image, leader))
        return error_set(err, ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE,
                         "broker %d has no replica of %.*s-%d that is in sync and lives",
                         (int)leader, STR_ARG(name), (int)index);
    struct record_list records = {0};
    int rc = add_change(&records, topic, index, leader, NULL, 0, err);
    return commit_and_free(c, &records, rc, err);
}

int controller_appoint_leader(struct controller *c, struct str name, int32_t index, int32_t leader,
                              cafka_error *err)
{
    const struct topic_image *topic = image_topic(&c->image, name);
    if (!topic_partition(topic, index))
        return error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "there is no partition %.*s-%d",
                         STR_ARG(name), (int)index);
    struct record_list records = {0};
    int rc =
        add_change(&records, topic, index, leader, leader == NO_LEADER ? NULL : &leader, 1, err);
    return commit_and_free(c, &records, rc, err);
}

static int elect_preferred(struct controller *c, struct str name, int32_t index,
                           const struct partition_image *p, cafka_error *err)
{
    int32_t preferred = p->replicas[0];
    if (p->leader == preferred)
        return error_set(err, ERR_ELECTION_NOT_NEEDED,
                         "Leader election not needed for topic partition.");
    if (!ids_contain(p->isr, p->isr_count, preferred) || !image_live_broker(&c->image, preferred))
        return error_set(err, ERR_PREFERRED_LEADER_NOT_AVAILABLE,
                         "The preferred leader was not available.");
    return controller_move_leader(c, name, index, preferred, err);
}

static int elect_any(struct controller *c, struct str name, int32_t index,
                     const struct partition_image *p, cafka_error *err)
{
    if (p->leader != NO_LEADER)
        return error_set(err, ERR_ELECTION_NOT_NEEDED,
                         "Leader election not needed for topic partition.");
    int32_t leader = choose_leader(c, p, NO_LEADER, NO_LEADER);
    if (leader != NO_LEADER)
        return controller_move_leader(c, name, index, leader, err);
    for (int32_t i = 0; i < p->replica_count; i++)
        if (image_live_broker(&c->image, p->replicas[i]))
            return controller_appoint_leader(c, name, index, p->replicas[i], err);
    return error_set(err, ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE,
                     "Eligible topic partition leaders are not available.");
}

int controller_elect_leader(struct controller *c, struct str name, int32_t index, bool unclean,
                            cafka_error *err)
{
    const struct topic_image *topic = image_topic(&c->image, name);
    const struct partition_image *p = topic_partition(topic, index);
    if (!topic)
        return error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "No such topic as %.*s",
                         STR_ARG(name));
    if (!p)
        return error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "No such partition as %.*s-%d",
                         STR_ARG(name), (int)index);
    return unclean ? elect_any(c, name, index, p, err) : elect_preferred(c, name, index, p, err);
}

/* --- producer ids --- */

int controller_allocate_producer_ids(struct controller *c, int32_t broker, int64_t *first,
                                     cafka_error *err)
{
    int64_t next = c->image.next_producer_id;
    const struct broker_image *b = image_broker(&c->image, broker);
    if (next > INT64_MAX - PRODUCER_ID_BLOCK)
        return error_set(err, ERR_UNKNOWN_SERVER_ERROR, "there are no producer ids left");
    struct record_list records = {0};
    struct producer_ids_record r;
    producer_ids_record_init(&r);
    r.broker_id = broker;
    r.broker_epoch = b ? b->epoch : -1;
    r.next_producer_id = next + PRODUCER_ID_BLOCK;
    int rc = record_list_add(&records, METADATA_PRODUCER_IDS, 0, &r, err);
    rc = commit_and_free(c, &records, rc, err);
    if (!rc)
        *first = next;
    return rc;
}
