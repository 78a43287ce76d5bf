/*
 * answer.c - a whole answer that carries one error code, for the APIs whose code is not at the top.
 */
#include "mockbroker/fault/rules.h"
#include "mockbroker/request.h"
#include "protocol/api_keys.h"
#include "protocol/messages/CreateTopics.h"
#include "protocol/messages/Fetch.h"
#include "protocol/messages/FindCoordinator.h"
#include "protocol/messages/ListOffsets.h"
#include "protocol/messages/Metadata.h"
#include "protocol/messages/OffsetFetch.h"
#include "protocol/messages/OffsetForLeaderEpoch.h"
#include "protocol/messages/Produce.h"

static bool answer_produce(struct request_context *ctx, int code)
{
    const struct produce_request *in = ctx->body;
    struct produce_response out;
    if (!in->acks) {
        request_close(ctx); /* all that acks=0 can be told */
        return true;
    }
    produce_response_init(&out);
    out.responses = request_calloc(ctx, (size_t)in->topic_data_count + 1, sizeof *out.responses);
    if (!out.responses)
        return false;
    for (int32_t i = 0; i < in->topic_data_count; i++) {
        const struct produce_request_topic_produce_data *from = &in->topic_data[i];
        struct produce_response_topic_produce_response *to = &out.responses[out.responses_count++];
        produce_response_topic_produce_response_init(to);
        to->name = from->name;
        to->topic_id = from->topic_id;
        to->partition_responses = request_calloc(ctx, (size_t)from->partition_data_count + 1,
                                                 sizeof *to->partition_responses);
        if (!to->partition_responses)
            return false;
        for (int32_t j = 0; j < from->partition_data_count; j++) {
            struct produce_response_partition_produce_response *p =
                &to->partition_responses[to->partition_responses_count++];
            produce_response_partition_produce_response_init(p);
            p->index = from->partition_data[j].index;
            p->error_code = (int16_t)code;
            p->base_offset = -1;
            p->log_append_time_ms = -1;
            p->log_start_offset = -1;
        }
    }
    request_respond(ctx, &out);
    return true;
}

static bool answer_fetch(struct request_context *ctx, int code)
{
    const struct fetch_request *in = ctx->body;
    struct fetch_response out;
    fetch_response_init(&out);
    if (ctx->version >= 7 && (in->session_id || !in->topics_count)) {
        out.error_code = (int16_t)code; /* partitions of the session are not named */
        request_respond(ctx, &out);
        return true;
    }
    out.responses = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.responses);
    if (!out.responses)
        return false;
    for (int32_t i = 0; i < in->topics_count; i++) {
        const struct fetch_request_fetch_topic *from = &in->topics[i];
        struct fetch_response_fetchable_topic_response *to = &out.responses[out.responses_count++];
        fetch_response_fetchable_topic_response_init(to);
        to->topic = from->topic;
        to->topic_id = from->topic_id;
        to->partitions =
            request_calloc(ctx, (size_t)from->partitions_count + 1, sizeof *to->partitions);
        if (!to->partitions)
            return false;
        for (int32_t j = 0; j < from->partitions_count; j++) {
            struct fetch_response_partition_data *p = &to->partitions[to->partitions_count++];
            fetch_response_partition_data_init(p);
            p->partition_index = from->partitions[j].partition;
            p->error_code = (int16_t)code;
            p->high_watermark = p->last_stable_offset = p->log_start_offset = -1;
        }
    }
    request_respond(ctx, &out);
    return true;
}

static bool answer_list_offsets(struct request_context *ctx, int code)
{
    const struct list_offsets_request *in = ctx->body;
    struct list_offsets_response out;
    list_offsets_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.topics);
    if (!out.topics)
        return false;
    for (int32_t i = 0; i < in->topics_count; i++) {
        const struct list_offsets_request_list_offsets_topic *from = &in->topics[i];
        struct list_offsets_response_list_offsets_topic_response *to =
            &out.topics[out.topics_count++];
        list_offsets_response_list_offsets_topic_response_init(to);
        to->name = from->name;
        to->partitions =
            request_calloc(ctx, (size_t)from->partitions_count + 1, sizeof *to->partitions);
        if (!to->partitions)
            return false;
        for (int32_t j = 0; j < from->partitions_count; j++) {
            struct list_offsets_response_list_offsets_partition_response *p =
                &to->partitions[to->partitions_count++];
            list_offsets_response_list_offsets_partition_response_init(p);
            p->partition_index = from->partitions[j].partition_index;
            p->error_code = (int16_t)code;
        }
    }
    request_respond(ctx, &out);
    return true;
}

static bool answer_metadata(struct request_context *ctx, int code)
{
    const struct metadata_request *in = ctx->body;
    struct metadata_response out;
    int32_t count = in->topics_count > 0 ? in->topics_count : 0;
    metadata_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)count + 1, sizeof *out.topics);
    if (!out.topics)
        return false;
    for (int32_t i = 0; i < count; i++) {
        struct metadata_response_topic *to = &out.topics[out.topics_count++];
        metadata_response_topic_init(to);
        to->error_code = (int16_t)code;
        to->name = in->topics[i].name;
        to->topic_id = in->topics[i].topic_id;
        if (!to->name.data && ctx->version < 12)
            to->name = str_of("");
    }
    out.error_code = (int16_t)(ctx->version >= 13 ? code : 0);
    request_respond(ctx, &out);
    return true;
}

static bool answer_create_topics(struct request_context *ctx, int code)
{
    const struct create_topics_request *in = ctx->body;
    struct create_topics_response out;
    create_topics_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.topics);
    if (!out.topics)
        return false;
    for (int32_t i = 0; i < in->topics_count; i++) {
        struct create_topics_response_creatable_topic_result *to = &out.topics[out.topics_count++];
        create_topics_response_creatable_topic_result_init(to);
        to->name = in->topics[i].name;
        to->error_code = (int16_t)code;
        to->error_message = (struct str){0};
    }
    request_respond(ctx, &out);
    return true;
}

static bool answer_find_coordinator(struct request_context *ctx, int code)
{
    const struct find_coordinator_request *in = ctx->body;
    struct find_coordinator_response out;
    bool batched = ctx->version >= 4;
    int32_t count = batched ? in->coordinator_keys_count : 0;
    find_coordinator_response_init(&out);
    if (!batched) {
        out.error_code = (int16_t)code;
        out.node_id = -1;
        out.port = -1;
    }
    out.coordinators = request_calloc(ctx, (size_t)count + 1, sizeof *out.coordinators);
    if (!out.coordinators)
        return false;
    for (int32_t i = 0; i < count; i++) {
        struct find_coordinator_response_coordinator *to =
            &out.coordinators[out.coordinators_count++];
        find_coordinator_response_coordinator_init(to);
        to->key = in->coordinator_keys[i];
        to->node_id = -1;
        to->port = -1;
        to->error_code = (int16_t)code;
    }
    request_respond(ctx, &out);
    return true;
}

static bool answer_epochs(struct request_context *ctx, int code)
{
    const struct offset_for_leader_epoch_request *in = ctx->body;
    struct offset_for_leader_epoch_response out;
    offset_for_leader_epoch_response_init(&out);
    out.topics = request_calloc(ctx, (size_t)in->topics_count + 1, sizeof *out.topics);
    if (!out.topics)
        return false;
    for (int32_t i = 0; i < in->topics_count; i++) {
        const struct offset_for_leader_epoch_request_offset_for_leader_topic *from = &in->topics[i];
        struct offset_for_leader_epoch_response_offset_for_leader_topic_result *to =
            &out.topics[out.topics_count++];
        offset_for_leader_epoch_response_offset_for_leader_topic_result_init(to);
        to->topic = from->topic;
        to->partitions =
            request_calloc(ctx, (size_t)from->partitions_count + 1, sizeof *to->partitions);
        if (!to->partitions)
            return false;
        for (int32_t j = 0; j < from->partitions_count; j++) {
            struct offset_for_leader_epoch_response_epoch_end_offset *p =
                &to->partitions[to->partitions_count++];
            offset_for_leader_epoch_response_epoch_end_offset_init(p);
            p->partition = from->partitions[j].partition;
            p->error_code = (int16_t)code;
        }
    }
    request_respond(ctx, &out);
    return true;
}

/* From version 8 on the codes are the groups'; before, there is one at the top. */
static bool answer_offset_fetch(struct request_context *ctx, int code)
{
    const struct offset_fetch_request *in = ctx->body;
    struct offset_fetch_response out;
    if (ctx->version < 8)
        return false;
    offset_fetch_response_init(&out);
    out.groups = request_calloc(ctx, (size_t)in->groups_count + 1, sizeof *out.groups);
    if (!out.groups)
        return false;
    for (int32_t i = 0; i < in->groups_count; i++) {
        struct offset_fetch_response_group *to = &out.groups[out.groups_count++];
        offset_fetch_response_group_init(to);
        to->group_id = in->groups[i].group_id;
        to->error_code = (int16_t)code;
    }
    request_respond(ctx, &out);
    return true;
}

bool fault_answer(struct request_context *ctx, int code)
{
    switch (ctx->api->key) {
    case API_PRODUCE: return answer_produce(ctx, code);
    case API_FETCH: return answer_fetch(ctx, code);
    case API_LIST_OFFSETS: return answer_list_offsets(ctx, code);
    case API_METADATA: return answer_metadata(ctx, code);
    case API_CREATE_TOPICS: return answer_create_topics(ctx, code);
    case API_FIND_COORDINATOR: return answer_find_coordinator(ctx, code);
    case API_OFFSET_FOR_LEADER_EPOCH: return answer_epochs(ctx, code);
    case API_OFFSET_FETCH: return answer_offset_fetch(ctx, code);
    default: return false;
    }
}
