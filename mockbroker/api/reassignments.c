/*
 * reassignments.c - AlterPartitionReassignments, ListPartitionReassignments (KIP-455).
 *
 * Thread: the broker's loop.
 */
#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "protocol/error_codes.h"
#include "protocol/messages/AlterPartitionReassignments.h"
#include "protocol/messages/ListPartitionReassignments.h"

typedef struct alter_partition_reassignments_request_reassignable_partition wanted_partition;
typedef struct alter_partition_reassignments_response_reassignable_partition_response altered;

static void reassign(struct request_context *ctx, struct str topic, const wanted_partition *wanted,
                     altered *out)
{
    const struct alter_partition_reassignments_request *in = ctx->body;
    cafka_error why = {0};
    bool null = wanted->replicas_count < 0;
    int code = controller_reassign(ctx->broker->cluster->controller, topic, wanted->partition_index,
                                   wanted->replicas, null ? -1 : wanted->replicas_count,
                                   in->allow_replication_factor_change, &why);
    out->partition_index = wanted->partition_index;
    out->error_code = (int16_t)(is_local_error(code) ? ERR_UNKNOWN_SERVER_ERROR : code);
    if (code && *why.message)
        out->error_message = api_keep(ctx, why.message);
}

void api_alter_partition_reassignments(struct request_context *ctx)
{
    const struct alter_partition_reassignments_request *in = ctx->body;
    struct alter_partition_reassignments_response out;
    alter_partition_reassignments_response_init(&out);
    out.error_message = (struct str){0};
    out.allow_replication_factor_change = in->allow_replication_factor_change;
    out.responses = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.responses);
    bool good = out.responses;
    for (int32_t t = 0; good && t < in->topics_count; t++) {
        struct alter_partition_reassignments_response_reassignable_topic_response *topic =
            &out.responses[out.responses_count++];
        int32_t count = in->topics[t].partitions_count;
        topic->name = in->topics[t].name;
        topic->partitions = request_calloc(ctx, (size_t)count + 1, sizeof *topic->partitions);
        good = topic->partitions;
        for (int32_t i = 0; good && i < count; i++)
            reassign(ctx, topic->name, &in->topics[t].partitions[i],
                     &topic->partitions[topic->partitions_count++]);
    }
    if (good)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}

/* --- which are under way --- */

typedef struct list_partition_reassignments_response_ongoing_topic_reassignment ongoing_topic;

static void add_ongoing(const struct topic_image *topic, int32_t index, ongoing_topic *out)
{
    const struct partition_image *p = topic_partition(topic, index);
    if (!p || (!p->adding_count && !p->removing_count))
        return;
    out->partitions[out->partitions_count++] =
        (struct list_partition_reassignments_response_ongoing_partition_reassignment){
            .partition_index = index,
            .replicas = p->replicas,
            .replicas_count = p->replica_count,
            .adding_replicas = p->adding,
            .adding_replicas_count = p->adding_count,
            .removing_replicas = p->removing,
            .removing_replicas_count = p->removing_count};
}

/* indexes NULL: all of the topic. False: no memory. */
static bool list_topic(struct request_context *ctx, const struct topic_image *topic,
                       const int32_t *indexes, int32_t count,
                       struct list_partition_reassignments_response *out)
{
    ongoing_topic *to = &out->topics[out->topics_count];
    int32_t n = indexes ? count : topic->partition_count;
    *to = (ongoing_topic){.name = str_of(topic->name),
                          .partitions = request_calloc(ctx, (size_t)n + 1, sizeof *to->partitions)};
    if (!to->partitions)
        return false;
    for (int32_t i = 0; i < n; i++)
        add_ongoing(topic, indexes ? indexes[i] : i, to);
    out->topics_count += to->partitions_count > 0;
    return true;
}

void api_list_partition_reassignments(struct request_context *ctx)
{
    const struct list_partition_reassignments_request *in = ctx->body;
    const struct image *image = &ctx->broker->cluster->controller->image;
    struct list_partition_reassignments_response out;
    struct map_entry *e;
    bool all = in->topics_count < 0;
    list_partition_reassignments_response_init(&out);
    out.error_message = (struct str){0};
    out.topics = request_calloc(ctx, (all ? image->topics.count : (size_t)in->topics_count) + 1,
                                sizeof *out.topics);
    bool good = out.topics;
    for (size_t i = 0; good && all && (e = map_next(&image->topics, &i));)
        good = list_topic(ctx, e->value, NULL, 0, &out);
    for (int32_t t = 0; good && !all && t < in->topics_count; t++) {
        const struct topic_image *topic = image_topic(image, in->topics[t].name);
        static const int32_t none;
        if (topic)
            good =
                list_topic(ctx, topic,
                           in->topics[t].partition_indexes ? in->topics[t].partition_indexes : &none,
                           in->topics[t].partition_indexes_count, &out);
    }
    if (good)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}
