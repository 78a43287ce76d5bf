/*
 * list_offsets.c - ListOffsets: offsets by timestamp and of special places.
 *
 * Source: kafka.server.ReplicaManager.fetchOffset. A partition that is named twice is refused once.
 */
#include "protocol/messages/ListOffsets.h"

#include "mockbroker/api/api.h"
#include "mockbroker/api/data.h"
#include "mockbroker/repeats.h"
#include "protocol/error_codes.h"

typedef struct list_offsets_request_list_offsets_partition partition_part;
typedef struct list_offsets_response_list_offsets_partition_response partition_answer;

enum { VERSION_WITH_EPOCHS = 4 };

static enum read_end readable_end(const struct list_offsets_request *request)
{
    if (request->replica_id >= 0 || request->replica_id == -2)
        return READ_TO_LOG_END;
    return request->isolation_level == 1 ? READ_TO_STABLE_OFFSET : READ_TO_HIGH_WATERMARK;
}

static void look_up(struct request_context *ctx, const partition_part *part, struct str topic,
                    partition_answer *answer)
{
    struct data_target target =
        data_find(ctx->broker, topic, (struct uuid){{0}}, false, part->partition_index);
    struct list_offset_request request = {.timestamp = part->timestamp,
                                          .current_leader_epoch = part->current_leader_epoch,
                                          .end = readable_end(ctx->body),
                                          .version = ctx->version};
    struct timestamp_offset found;
    const struct list_offsets_request *in = ctx->body;
    if (in->isolation_level != 0 && in->isolation_level != 1) {
        answer->error_code = ERR_UNKNOWN_SERVER_ERROR; /* there is no such level */
        return;
    }
    int code = target.error ? target.error
                            : partition_list_offset(target.partition, &request, &found, NULL);
    answer->error_code = (int16_t)(code <= CAFKA_ERR_MEMORY ? ERR_UNKNOWN_SERVER_ERROR : code);
    if (code)
        return;
    answer->timestamp = found.timestamp;
    answer->offset = found.offset;
    if (ctx->version >= VERSION_WITH_EPOCHS)
        answer->leader_epoch = found.leader_epoch;
}

static bool find_repeats(const struct list_offsets_request *request, struct repeats *repeats)
{
    int32_t ordinal = 0;
    for (int32_t t = 0; t < request->topics_count; t++)
        for (int32_t i = 0; i < request->topics[t].partitions_count; i++) {
            struct partition_key key =
                partition_key(request->topics[t].name, (struct uuid){{0}},
                              request->topics[t].partitions[i].partition_index);
            repeats_add(repeats, key.bytes, key.size, ordinal++);
        }
    return !repeats->failed;
}

static bool answer_topic(struct request_context *ctx, int32_t t, const struct repeats *repeats,
                         int32_t *ordinal, struct list_offsets_response *out)
{
    const struct list_offsets_request *in = ctx->body;
    struct str name = in->topics[t].name;
    struct list_offsets_response_list_offsets_topic_response *topic =
        &out->topics[out->topics_count];
    topic->name = name;
    topic->partitions =
        request_calloc(ctx, (size_t)in->topics[t].partitions_count, sizeof *topic->partitions);
    if (!topic->partitions && in->topics[t].partitions_count)
        return false;
    for (int32_t i = 0; i < in->topics[t].partitions_count; i++, ++*ordinal) {
        const partition_part *part = &in->topics[t].partitions[i];
        struct partition_key key = partition_key(name, (struct uuid){{0}}, part->partition_index);
        if (!repeats_is_first(repeats, key.bytes, key.size, *ordinal))
            continue; /* refused already */
        partition_answer *answer = &topic->partitions[topic->partitions_count++];
        list_offsets_response_list_offsets_partition_response_init(answer);
        answer->partition_index = part->partition_index;
        answer->timestamp = answer->offset = -1;
        if (repeats_are_many(repeats, key.bytes, key.size))
            answer->error_code = ERR_INVALID_REQUEST;
        else
            look_up(ctx, part, name, answer);
    }
    out->topics_count += topic->partitions_count > 0;
    return true;
}

void api_list_offsets(struct request_context *ctx)
{
    const struct list_offsets_request *in = ctx->body;
    struct list_offsets_response out;
    struct repeats repeats = {0};
    int32_t ordinal = 0;
    list_offsets_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count, sizeof *out.topics);
    bool good = (out.topics || !in->topics_count) && find_repeats(in, &repeats);
    for (int32_t t = 0; good && t < in->topics_count; t++)
        good = answer_topic(ctx, t, &repeats, &ordinal, &out);
    repeats_fini(&repeats);
    if (good)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}
