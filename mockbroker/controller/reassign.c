/*
 * reassign.c - moving partitions to other brokers: AlterPartitionReassignments as the controller sees it.
 *
 * A reassignment widens the replicas to those of before and after, and notes which are added and
 * which removed. When all that shall stay are in sync, it is completed: the rest goes, and if the
 * leader was among it another is elected. Cancelled, the added ones go instead.
 *
 * Thread: the cluster's loop.
 * Source: org.apache.kafka.controller.ReplicationControlManager, PartitionReassignmentReplicas; KIP-455.
 */
#include <limits.h>

#include "mockbroker/controller/controller.h"
#include "protocol/error_codes.h"
#include "protocol/messages/PartitionChangeRecord.h"
#include "util/alloc.h"

/* A short list of broker ids; replicas of one partition. */
struct ids {
    int32_t *items;
    int32_t count;
};

static bool is_under_way(const struct partition_image *p)
{
    return p->adding_count > 0 || p->removing_count > 0;
}

/* Those of `from` that are (or are not) among `others`, at the end of `out`, which has room. */
static void add_some(struct ids *out, const int32_t *from, int32_t count, const int32_t *others,
                     int32_t other_count, bool among)
{
    for (int32_t i = 0; i < count; i++)
        if (ids_contain(others, other_count, from[i]) == among)
            out->items[out->count++] = from[i];
}

/* --- checks --- */

static int check_replicas(const struct controller *c, const int32_t *replicas, int32_t count,
                          cafka_error *err)
{
    if (!count)
        return error_set(err, ERR_INVALID_REPLICA_ASSIGNMENT,
                         "The manual partition assignment includes an empty replica list.");
    if (count > SHRT_MAX)
        return error_set(err, ERR_INVALID_REPLICA_ASSIGNMENT,
                         "The manual partition assignment includes too many replicas.");
    for (int32_t i = 0; i < count; i++) {
        if (!image_broker(&c->image, replicas[i]))
            return error_set(err, ERR_INVALID_REPLICA_ASSIGNMENT,
                             "The manual partition assignment includes broker %d, but no such broker is "
                             "registered.",
                             (int)replicas[i]);
        if (ids_contain(replicas, i, replicas[i])) /* at most as many as there are brokers get here */
            return error_set(err, ERR_INVALID_REPLICA_ASSIGNMENT,
                             "The manual partition assignment includes the broker %d more than once.",
                             (int)replicas[i]);
    }
    return CAFKA_OK;
}

/* --- records --- */

/* Who leads if only `stay` remain; -2: the same as now. */
static int32_t leader_among(const struct controller *c, const struct partition_image *p,
                            const struct ids *stay, const struct ids *isr)
{
    if (ids_contain(stay->items, stay->count, p->leader))
        return -2;
    for (int32_t i = 0; i < stay->count; i++)
        if (ids_contain(isr->items, isr->count, stay->items[i]) &&
            image_live_broker(&c->image, stay->items[i]))
            return stay->items[i];
    return NO_LEADER;
}

/* Only `stay` remain, in this order, and nothing is under way any more. */
static int keep_only(struct controller *c, const struct topic_image *topic, int32_t index,
                     const struct ids *stay, cafka_error *err)
{
    const struct partition_image *p = &topic->partitions[index];
    static int32_t nobody;
    struct ids isr = {mem_calloc((size_t)p->isr_count + 1, sizeof *isr.items), 0};
    struct record_list records = {0};
    struct partition_change_record r;
    if (!isr.items)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a reassignment");
    add_some(&isr, p->isr, p->isr_count, stay->items, stay->count, true);
    partition_change_record_init(&r);
    r.topic_id = topic->id;
    r.partition_id = index;
    r.leader = leader_among(c, p, stay, &isr);
    r.isr = isr.items;
    r.isr_count = isr.count;
    r.replicas = stay->items;
    r.replicas_count = stay->count;
    r.adding_replicas = r.removing_replicas = &nobody;
    r.adding_replicas_count = r.removing_replicas_count = 0;
    int rc = record_list_add(&records, METADATA_PARTITION_CHANGE, 2, &r, err);
    if (!rc)
        rc = controller_commit(c, &records, err);
    record_list_fini(&records);
    mem_free(isr.items);
    return rc;
}

int controller_complete_reassignment(struct controller *c, const struct topic_image *topic,
                                     int32_t index, cafka_error *err)
{
    const struct partition_image *p = &topic->partitions[index];
    if (!is_under_way(p))
        return CAFKA_OK;
    struct ids stay = {mem_calloc((size_t)p->replica_count + 1, sizeof *stay.items), 0};
    if (!stay.items)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a reassignment");
    add_some(&stay, p->replicas, p->replica_count, p->removing, p->removing_count, false);
    int rc = CAFKA_OK;
    bool ready = stay.count > 0;
    for (int32_t i = 0; i < stay.count; i++)
        ready &= ids_contain(p->isr, p->isr_count, stay.items[i]);
    if (ready)
        rc = keep_only(c, topic, index, &stay, err);
    mem_free(stay.items);
    return rc;
}

static int begin(struct controller *c, const struct topic_image *topic, int32_t index,
                 const int32_t *target, int32_t count, cafka_error *err)
{
    const struct partition_image *p = &topic->partitions[index];
    int32_t room = p->replica_count + count + 1;
    int32_t *memory = mem_calloc((size_t)room * 4, sizeof *memory);
    if (!memory)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a reassignment");
    struct ids had = {memory, 0}, all = {memory + room, 0}, adding = {memory + 2 * (size_t)room, 0},
               removing = {memory + 3 * (size_t)room, 0};
    struct record_list records = {0};
    struct partition_change_record r;
    /* a reassignment that replaces another one starts from what was there before that */
    add_some(&had, p->replicas, p->replica_count, p->adding, p->adding_count, false);
    add_some(&all, target, count, target, count, true);
    add_some(&all, p->replicas, p->replica_count, target, count, false);
    add_some(&adding, target, count, had.items, had.count, false);
    add_some(&removing, p->replicas, p->replica_count, target, count, false);
    partition_change_record_init(&r);
    r.topic_id = topic->id;
    r.partition_id = index;
    r.replicas = all.items;
    r.replicas_count = all.count;
    r.adding_replicas = adding.items;
    r.adding_replicas_count = adding.count;
    r.removing_replicas = removing.items;
    r.removing_replicas_count = removing.count;
    int rc = record_list_add(&records, METADATA_PARTITION_CHANGE, 2, &r, err);
    if (!rc)
        rc = controller_commit(c, &records, err);
    record_list_fini(&records);
    mem_free(memory);
    return rc ? rc : controller_complete_reassignment(c, topic, index, err);
}

static int cancel(struct controller *c, const struct topic_image *topic, int32_t index,
                  cafka_error *err)
{
    const struct partition_image *p = &topic->partitions[index];
    if (!is_under_way(p)) /* without words, as in Kafka */
        return error_set(err, ERR_NO_REASSIGNMENT_IN_PROGRESS, "%s", "");
    struct ids stay = {mem_calloc((size_t)p->replica_count + 1, sizeof *stay.items), 0};
    if (!stay.items)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a reassignment");
    add_some(&stay, p->replicas, p->replica_count, p->adding, p->adding_count, false);
    int rc = keep_only(c, topic, index, &stay, err);
    mem_free(stay.items);
    return rc;
}

int controller_reassign(struct controller *c, struct str name, int32_t index,
                        const int32_t *replicas, int32_t count, bool other_count, cafka_error *err)
{
    const struct topic_image *topic = image_topic(&c->image, name);
    const struct partition_image *p = topic_partition(topic, index);
    if (!topic)
        return error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named %.*s.",
                         STR_ARG(name));
    if (!p)
        return error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition %.*s:%d.",
                         STR_ARG(name), (int)index);
    if (count < 0)
        return cancel(c, topic, index, err);
    int32_t had = p->replica_count - p->adding_count;
    int rc = check_replicas(c, replicas, count, err);
    if (!rc && !other_count && count != had)
        rc = error_set(err, ERR_INVALID_REPLICATION_FACTOR,
                       "The replication factor is changed from %d to %d", (int)had, (int)count);
    return rc ? rc : begin(c, topic, index, replicas, count, err);
}
