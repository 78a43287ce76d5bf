/*
 * unclean.c - see unclean.h.
 */
#include "mockbroker/fault/unclean.h"

#include "mockbroker/controller/controller.h"
#include "mockbroker/replica/partition.h"
#include "protocol/error_codes.h"

/* In the interval without a leader, so that nobody is told in the old epoch that records are gone. */
static int cut_log(struct broker *broker, struct str topic, int32_t index, int64_t end_offset,
                   cafka_error *err)
{
    struct partition *partition = broker_partition(broker, topic, index);
    if (!partition)
        return error_set(err, ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE, "broker %d has no %.*s-%d",
                         (int)broker->id, STR_ARG(topic), (int)index);
    if (end_offset >= partition_end_offset(partition))
        return CAFKA_OK;
    int rc = commit_log_truncate(partition->log, end_offset, err);
    partition_changed(partition);
    return rc;
}

static int check(struct cluster *cluster, struct str topic, int32_t index, int32_t leader,
                 int64_t end_offset, cafka_error *err)
{
    struct broker *broker = cluster_broker(cluster, leader);
    const struct partition *partition =
        broker && broker->running ? broker_partition(broker, topic, index) : NULL;
    if (!partition)
        return error_set(err, ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE,
                         "no running broker %d has a replica of %.*s-%d", (int)leader,
                         STR_ARG(topic), (int)index);
    if (end_offset < partition_start_offset(partition))
        return error_set(err, ERR_OFFSET_OUT_OF_RANGE,
                         "the log of %.*s-%d begins behind offset %lld", STR_ARG(topic), (int)index,
                         (long long)end_offset);
    return CAFKA_OK;
}

int unclean_election(struct cluster *cluster, struct str name, int32_t index, int32_t leader,
                     int64_t end_offset, cafka_error *err)
{
    struct controller *controller = cluster->controller;
    const struct topic_image *topic = image_topic(&controller->image, name);
    const struct partition_image *p = topic_partition(topic, index);
    if (!p)
        return error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "there is no partition %.*s-%d",
                         STR_ARG(name), (int)index);
    if (leader < 0)
        leader = p->leader;
    int rc = check(cluster, name, index, leader, end_offset, err);
    if (!rc)
        rc = controller_appoint_leader(controller, name, index, NO_LEADER, err);
    if (rc)
        return rc;
    deferred_run(&cluster->deferred);
    rc = cut_log(cluster_broker(cluster, leader), name, index, end_offset, err);
    int elected = controller_appoint_leader(controller, name, index, leader, err);
    deferred_run(&cluster->deferred);
    return rc ? rc : elected;
}
