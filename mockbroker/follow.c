/*
 * follow.c - see follow.h.
 */
#include "mockbroker/follow.h"

#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "util/alloc.h"

enum { PIECE_BYTES = 1024 * 1024 };

/* Cut what the leader's log does not have: by the last epoch of the follower's own (KIP-101). */
static int cut(const struct partition *leader, struct partition *follower, cafka_error *err)
{
    int64_t end = partition_end_offset(follower);
    int32_t epoch = commit_log_latest_epoch(follower->log);
    if (end < partition_start_offset(leader))
        return commit_log_truncate_fully(follower->log, partition_start_offset(leader), err);
    if (epoch < 0)
        return end > partition_end_offset(leader)
                   ? commit_log_truncate(follower->log, partition_end_offset(leader), err)
                   : CAFKA_OK;
    struct epoch_end theirs = commit_log_epoch_end(leader->log, epoch);
    if (theirs.epoch < 0)
        return commit_log_truncate_fully(follower->log, partition_start_offset(leader), err);
    int64_t to = theirs.end_offset;
    if (theirs.epoch < epoch) {
        struct epoch_end own = commit_log_epoch_end(follower->log, theirs.epoch);
        to = own.epoch >= 0 && own.end_offset < to ? own.end_offset : to;
    }
    return to < end ? commit_log_truncate(follower->log, to, err) : CAFKA_OK;
}

/* One piece of whole batches; *moved: is there more to come? */
static int copy_piece(const struct partition *leader, struct partition *follower, bool *moved,
                      cafka_error *err)
{
    struct log_slice slice = {0};
    int64_t from = partition_end_offset(follower), last = -1;
    int rc = commit_log_read(leader->log, from, partition_end_offset(leader), PIECE_BYTES, true,
                             &slice, err);
    if (rc)
        return rc;
    uint8_t *bytes = slice.size ? mem_alloc(slice.size) : NULL;
    if (slice.size && !bytes)
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory to copy batches");
    if (!rc && slice.size)
        rc = log_slice_read(&slice, bytes, err);
    if (!rc && slice.size)
        rc = commit_log_append_as_follower(follower->log, bytes_of(bytes, slice.size), &last, err);
    *moved = !rc && partition_end_offset(follower) > from;
    mem_free(bytes);
    log_slice_fini(&slice);
    return rc;
}

static int catch_up(const struct partition *leader, struct partition *follower, cafka_error *err)
{
    bool moved = true;
    int rc = cut(leader, follower, err);
    while (!rc && moved && partition_end_offset(follower) < partition_end_offset(leader))
        rc = copy_piece(leader, follower, &moved, err);
    return rc;
}

/* The replica of another broker, if it follows this leader in this epoch. */
static struct partition *find_follower(const struct broker *leader,
                                       const struct partition *partition, int32_t id)
{
    struct broker *broker = cluster_broker(leader->cluster, id);
    if (!broker || !broker->running || broker == leader)
        return NULL;
    struct partition *follower =
        broker_partition(broker, str_of(partition->topic), partition->index);
    bool follows = follower && uuid_equal(follower->topic_id, partition->topic_id) &&
                   !follower->is_leader && follower->leader_epoch == partition->leader_epoch;
    return follows ? follower : NULL;
}

/* What the follower learns with the data: how far it may serve, and where the log begins. */
static void tell_offsets(const struct partition *leader, struct partition *follower)
{
    bool moved = commit_log_set_high_watermark(follower->log, partition_high_watermark(leader));
    if (partition_start_offset(follower) < partition_start_offset(leader) &&
        partition_start_offset(leader) <= partition_high_watermark(follower))
        moved |= !commit_log_advance_start(follower->log, partition_start_offset(leader), NULL);
    if (moved)
        partition_changed(follower);
}

void follow_partition(struct broker *leader, struct partition *partition)
{
    const struct topic_image *topic = image_topic(&leader->image, str_of(partition->topic));
    const struct partition_image *p = topic_partition(topic, partition->index);
    struct controller *controller = leader->cluster->controller;
    if (!p || p->hosted != partition || !partition->is_leader)
        return;
    int64_t common = partition_end_offset(partition);
    for (int32_t i = 0; i < p->replica_count; i++) {
        int32_t id = p->replicas[i];
        bool in_sync = ids_contain(p->isr, p->isr_count, id);
        cafka_error why = {0};
        if (id == leader->id)
            continue;
        struct partition *follower = find_follower(leader, partition, id);
        bool caught_up = follower && !catch_up(partition, follower, &why);
        if (why.code)
            log_error(leader->log, "%s-%d on broker %d: %s", partition->topic,
                      (int)partition->index, (int)id, why.message);
        if (caught_up && !in_sync)
            (void)controller_set_in_sync(controller, topic->id, partition->index, id, true, &why);
        else if (!caught_up && in_sync && why.code)
            (void)controller_set_in_sync(controller, topic->id, partition->index, id, false, &why);
        else if (!caught_up && in_sync)
            common = partition_high_watermark(partition); /* it has not heard of this epoch yet */
    }
    if (commit_log_set_high_watermark(partition->log, common))
        partition_changed(partition);
    for (int32_t i = 0; i < p->replica_count; i++) {
        struct partition *follower = find_follower(leader, partition, p->replicas[i]);
        if (follower)
            tell_offsets(partition, follower);
    }
}

bool follow_progress(const struct broker *leader, const struct partition *partition, int32_t id,
                     int64_t *start_offset, int64_t *end_offset)
{
    const struct partition *follower = find_follower(leader, partition, id);
    if (!follower)
        return false;
    *start_offset = partition_start_offset(follower);
    *end_offset = partition_end_offset(follower);
    return true;
}
