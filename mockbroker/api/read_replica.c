/*
 * read_replica.c - see read_replica.h.
 */
#include "mockbroker/api/read_replica.h"

#include "mockbroker/follow.h"

static bool is_in_rack(const struct broker *broker, int32_t id, struct str rack)
{
    const struct broker_image *image = image_live_broker(&broker->image, id);
    return image && image->rack && str_is(rack, image->rack);
}

static bool is_in_sync(const struct partition_image *p, int32_t id)
{
    for (int32_t i = 0; i < p->isr_count; i++)
        if (p->isr[i] == id)
            return true;
    return false;
}

int32_t read_replica_for(struct broker *broker, const struct data_target *target, struct str rack,
                         int64_t offset)
{
    const struct partition_image *p = target->image;
    int32_t best = THIS_REPLICA;
    int64_t best_end = -1;
    if (!rack.size || !target->partition || !target->partition->is_leader ||
        !broker_config_get(&broker->config, "replica.selector.class") ||
        is_in_rack(broker, broker->id, rack))
        return THIS_REPLICA;
    for (int32_t i = 0; i < p->replica_count; i++) {
        int32_t id = p->replicas[i];
        int64_t start, end;
        if (id == broker->id || !is_in_sync(p, id) || !is_in_rack(broker, id, rack) ||
            !follow_progress(broker, target->partition, id, &start, &end))
            continue;
        if (start > offset || end < offset)
            continue;
        if (end > best_end || (end == best_end && id > best)) {
            best = id;
            best_end = end;
        }
    }
    return best;
}
