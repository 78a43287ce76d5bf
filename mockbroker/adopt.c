/*
 * adopt.c - see adopt.h.
 */
#include "mockbroker/adopt.h"

#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "mockbroker/log/log_manager.h"
#include "protocol/messages/ConfigRecord.h"
#include "protocol/messages/PartitionRecord.h"
#include "protocol/messages/TopicRecord.h"
#include "util/alloc.h"

#define CLUSTER_METADATA "__cluster_metadata"
enum { PARTITION_MAX = 100000 }; /* of a directory's name: more is no partition */

static bool is_known(const struct broker *broker, const struct found_partition *found)
{
    const struct image *image = &broker->cluster->controller->image;
    const struct topic_image *topic = image_topic(image, str_of(found->topic));
    return topic && uuid_equal(topic->id, found->topic_id);
}

static bool is_foreign(const struct broker *broker, const struct found_partition *found)
{
    const struct image *image = &broker->cluster->controller->image;
    return uuid_is_zero(found->topic_id) || found->partition < 0 ||
           found->partition >= PARTITION_MAX || topic_name_check(str_of(found->topic), NULL) ||
           image_topic(image, str_of(found->topic)) || image_topic_by_id(image, found->topic_id);
}

/* Partitions of the topic that `first` belongs to: the largest number and one. */
static int32_t count_partitions(const struct log_manager *logs, const struct found_partition *first)
{
    int32_t count = 0;
    for (size_t i = 0; i < log_manager_found_count(logs); i++) {
        const struct found_partition *f = log_manager_found(logs, i);
        if (!strcmp(f->topic, first->topic) && f->partition >= count && f->partition < PARTITION_MAX)
            count = f->partition + 1;
    }
    return count;
}

/* The leader epoch that the log on the disk has come to. */
static int find_epoch(struct broker *broker, const struct found_partition *topic, int32_t index,
                      int32_t *epoch, cafka_error *err)
{
    struct log_config config;
    struct commit_log *log;
    topic_config_resolve(&config, &broker->config, NULL);
    int rc = log_manager_open_log(broker->logs, topic->topic, index, topic->topic_id, &config, &log,
                                  err);
    if (!rc)
        *epoch = commit_log_latest_epoch(log) >= 0 ? commit_log_latest_epoch(log) : 0;
    return rc;
}

static int add_partition(struct broker *broker, const struct found_partition *topic, int32_t index,
                         struct record_list *records, cafka_error *err)
{
    struct partition_record r;
    struct uuid directory = {{0}};
    int32_t epoch;
    int rc = find_epoch(broker, topic, index, &epoch, err);
    if (rc)
        return rc;
    partition_record_init(&r);
    r.topic_id = topic->topic_id;
    r.partition_id = index;
    r.replicas = r.isr = &broker->id;
    r.replicas_count = r.isr_count = 1;
    r.directories = &directory;
    r.directories_count = 1;
    r.leader = -1; /* until the broker registers */
    r.leader_epoch = epoch;
    r.partition_epoch = 0;
    return record_list_add(records, METADATA_PARTITION, 2, &r, err);
}

static int add_config(const struct found_partition *topic, const char *name, const char *value,
                      struct record_list *records, cafka_error *err)
{
    struct config_record r;
    config_record_init(&r);
    r.resource_type = CONFIG_RESOURCE_TOPIC;
    r.resource_name = str_of(topic->topic);
    r.name = str_of(name);
    r.value = str_of(value);
    return record_list_add(records, METADATA_CONFIG, 0, &r, err);
}

/*
 * The directory does not say which configs its topics had. The state of coordinators is compacted,
 * and nothing is thrown away for its age, which a default of seven days would do at once.
 */
static int add_configs(const struct found_partition *topic, struct record_list *records,
                       cafka_error *err)
{
    struct str name = str_of(topic->topic);
    if (topic_is_internal(name) && !str_is(name, "__share_group_state"))
        return add_config(topic, "cleanup.policy", "compact", records, err);
    return add_config(topic, "retention.ms", "-1", records, err);
}

static int adopt_topic(struct broker *broker, const struct found_partition *topic, cafka_error *err)
{
    struct record_list records = {0};
    struct topic_record r;
    int32_t count = count_partitions(broker->logs, topic);
    topic_record_init(&r);
    r.name = str_of(topic->topic);
    r.topic_id = topic->topic_id;
    int rc = record_list_add(&records, METADATA_TOPIC, 0, &r, err);
    for (int32_t i = 0; !rc && i < count; i++)
        rc = add_partition(broker, topic, i, &records, err);
    if (!rc)
        rc = add_configs(topic, &records, err);
    if (!rc)
        rc = controller_commit(broker->cluster->controller, &records, err);
    record_list_fini(&records);
    if (!rc)
        log_info(broker->log, "topic %s was found in %s", topic->topic, broker->directory);
    return rc;
}

int adopt_logs(struct broker *broker, cafka_error *err)
{
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && i < log_manager_found_count(broker->logs); i++) {
        const struct found_partition *found = log_manager_found(broker->logs, i);
        if (is_known(broker, found) || !strcmp(found->topic, CLUSTER_METADATA))
            continue;
        if (is_foreign(broker, found))
            rc = log_manager_set_aside(broker->logs, found, err);
        else
            rc = adopt_topic(broker, found, err);
    }
    return rc;
}
