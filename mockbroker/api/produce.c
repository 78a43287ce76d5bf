/*
 * produce.c - Produce: append to the logs this broker leads, and answer when the acks are there.
 *
 * Each partition is taken for itself; one that is refused does not stop the others. If a request
 * names a partition twice, only the last one counts, as in Kafka (its server keeps a map).
 *
 * Source: kafka.server.KafkaApis.handleProduceRequest, ReplicaManager.appendRecords.
 */
#include "protocol/messages/Produce.h"

#include "mockbroker/api/api.h"
#include "mockbroker/api/data.h"
#include "protocol/error_codes.h"
#include "record/batch.h"

typedef struct produce_request_partition_produce_data partition_part;
typedef struct produce_response_partition_produce_response partition_answer;

enum { VERSION_WITH_IDS = 13, VERSION_WITH_LEADERS = 10 };

/* A partition whose answer waits for replicas. Named, not pointed to: it may go away meanwhile. */
struct waiting_partition {
    struct uuid topic_id;
    int32_t index;
    int64_t last_offset;
    partition_answer *answer;
};

struct produce_state {
    struct delayed op; /* first */
    struct request_context *ctx;
    const struct produce_request *request;
    struct produce_response response;
    struct data_endpoints endpoints;
    struct waiting_partition *waiting;
    size_t waiting_count;
    bool any_error;
    struct data_names names; /* only while the request is taken apart */
    size_t ordinal;
};

/* --- one partition --- */

static void fail(struct produce_state *state, partition_answer *answer, int code)
{
    answer->error_code = (int16_t)code;
    answer->base_offset = -1;
    state->any_error = true;
}

/* A client that wrote to the wrong broker is told the right one. */
static void name_leader(struct produce_state *state, partition_answer *answer,
                        const struct data_target *target)
{
    if (state->ctx->version < VERSION_WITH_LEADERS || !target->image)
        return;
    answer->current_leader.leader_id = target->image->leader;
    answer->current_leader.leader_epoch = target->image->leader_epoch;
    data_endpoints_add(&state->endpoints, state->ctx, target->image->leader);
}

static bool is_transactional(struct bytes records)
{
    struct batch_header h;
    return records.size >= RECORD_BATCH_OVERHEAD && !batch_header_read(records, &h, NULL) &&
           batch_is_transactional(&h);
}

/* Why the partition is refused before its log is asked; ERR_NONE: it is not. */
static int check(struct produce_state *state, const struct data_target *target,
                 struct bytes records, cafka_error *reason)
{
    const struct request_context *ctx = state->ctx;
    if (target->error && target->error != ERR_NOT_LEADER_OR_FOLLOWER)
        return target->error;
    int code = append_check_request(records, ctx->version, reason);
    if (code)
        return code;
    if (state->request->acks < -1 || state->request->acks > 1)
        return ERR_INVALID_REQUIRED_ACKS;
    if (target->topic->internal && !str_is(ctx->head.client_id, "__admin_client"))
        return ERR_INVALID_TOPIC_EXCEPTION;
    /* No transaction coordinator is there, so no transactional id has a producer id. */
    if (is_transactional(records))
        return ERR_INVALID_PRODUCER_ID_MAPPING;
    return target->error;
}

static void keep_record_errors(struct produce_state *state, partition_answer *answer,
                               const struct append_result *result)
{
    if (!result->record_error_count)
        return;
    answer->record_errors =
        request_calloc(state->ctx, result->record_error_count, sizeof *answer->record_errors);
    if (!answer->record_errors)
        return; /* the code alone is told */
    answer->record_errors_count = (int32_t)result->record_error_count;
    for (size_t i = 0; i < result->record_error_count; i++) {
        answer->record_errors[i].batch_index = result->record_errors[i].index;
        answer->record_errors[i].batch_index_error_message =
            result->record_errors[i].message ? api_keep(state->ctx, result->record_errors[i].message)
                                             : (struct str){0};
    }
}

static void append(struct produce_state *state, partition_answer *answer,
                   const struct data_target *target, struct bytes records)
{
    struct append_request request = {.records = records,
                                     .origin = APPEND_CLIENT,
                                     .leader_epoch = target->partition->leader_epoch};
    struct append_result result;
    int code = partition_append(target->partition, &request, state->request->acks, &result, NULL);
    answer->log_start_offset = result.log_start_offset;
    if (code) {
        fail(state, answer, code <= CAFKA_ERR_MEMORY ? ERR_UNKNOWN_SERVER_ERROR : code);
        if (result.error_message)
            answer->error_message = api_keep(state->ctx, result.error_message);
        keep_record_errors(state, answer, &result);
        if (code == ERR_NOT_LEADER_OR_FOLLOWER)
            name_leader(state, answer, target);
    } else {
        answer->base_offset = result.base_offset;
        answer->log_append_time_ms = result.log_append_time_ms;
        if (state->request->acks < 0)
            state->waiting[state->waiting_count++] =
                (struct waiting_partition){target->topic->id, target->partition->index,
                                           result.last_offset, answer};
    }
    append_result_fini(&result);
}

static void handle_partition(struct produce_state *state, const struct data_target *target,
                             const partition_part *part, partition_answer *answer)
{
    struct bytes records = {part->records.data, part->records.size};
    answer->index = part->index;
    cafka_error reason = {0};
    int code = check(state, target, records, &reason);
    if (!code) {
        append(state, answer, target, records);
        return;
    }
    fail(state, answer, code);
    if (code == ERR_CORRUPT_MESSAGE) /* of the other errors the real broker sends no words either */
        answer->error_message = api_keep(state->ctx, reason.message);
    if (code == ERR_NOT_LEADER_OR_FOLLOWER)
        name_leader(state, answer, target);
}

/* --- acks --- */

/* Done with this one? Sets the answer's error if that is how it ended. */
static bool is_settled(struct produce_state *state, const struct waiting_partition *w, int *error)
{
    struct data_target target =
        data_find(state->ctx->broker, (struct str){0}, w->topic_id, true, w->index);
    *error = target.error ? target.error : ERR_NONE;
    if (target.error == ERR_UNKNOWN_TOPIC_ID)
        *error = ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (*error)
        return true;
    if (!target.partition->is_leader) {
        *error = ERR_NOT_LEADER_OR_FOLLOWER;
        return true;
    }
    return partition_is_acknowledged(target.partition, w->last_offset, error);
}

static bool all_settled(struct delayed *op)
{
    struct produce_state *state = container_of(op, struct produce_state, op);
    int error;
    for (size_t i = 0; i < state->waiting_count; i++)
        if (!is_settled(state, &state->waiting[i], &error))
            return false;
    return true;
}

static void respond(struct produce_state *state)
{
    struct produce_response *response = &state->response;
    int32_t count = state->endpoints.count;
    if (count) {
        response->node_endpoints =
            request_calloc(state->ctx, (size_t)count, sizeof *response->node_endpoints);
        response->node_endpoints_count = response->node_endpoints ? count : 0;
    }
    for (int32_t i = 0; i < response->node_endpoints_count; i++) {
        const struct data_endpoint *node = &state->endpoints.nodes[i];
        response->node_endpoints[i] = (struct produce_response_node_endpoint){.node_id = node->id,
                                                                              .host = node->host,
                                                                              .port = node->port,
                                                                              .rack = node->rack};
    }
    request_respond(state->ctx, response);
}

static void settle(struct delayed *op, bool expired)
{
    struct produce_state *state = container_of(op, struct produce_state, op);
    (void)expired;
    for (size_t i = 0; i < state->waiting_count; i++) {
        struct waiting_partition *w = &state->waiting[i];
        int error;
        if (!is_settled(state, w, &error))
            error = ERR_REQUEST_TIMED_OUT;
        if (error) {
            fail(state, w->answer, error);
            w->answer->log_append_time_ms = -1;
        }
    }
    respond(state);
}

static void abandon(struct request_context *ctx)
{
    struct produce_state *state = ctx->state;
    purgatory_cancel(&state->op);
}

static void wait_for_acks(struct produce_state *state)
{
    struct request_context *ctx = state->ctx;
    struct purgatory_key *keys = request_calloc(ctx, state->waiting_count, sizeof *keys);
    if (!keys) {
        request_close(ctx);
        return;
    }
    for (size_t i = 0; i < state->waiting_count; i++)
        keys[i] = purgatory_partition_key(PURGATORY_PRODUCE, state->waiting[i].topic_id,
                                          state->waiting[i].index);
    state->op.try = all_settled;
    state->op.complete = settle;
    ctx->state = state;
    ctx->abandon = abandon;
    if (purgatory_add(ctx->broker->purgatory, &state->op, state->request->timeout_ms, keys,
                      state->waiting_count, NULL))
        request_close(ctx);
}

/* --- the request --- */

static size_t count_partitions(const struct produce_request *request)
{
    size_t count = 0;
    for (int32_t t = 0; t < request->topic_data_count; t++)
        count += (size_t)request->topic_data[t].partition_data_count;
    return count;
}

/* Note which partition is named where last. A request for one partition, the common kind, needs none of it. */
static bool name_all(struct produce_state *state)
{
    const struct produce_request *request = state->request;
    size_t ordinal = 0;
    if (count_partitions(request) < 2)
        return true;
    for (int32_t t = 0; t < request->topic_data_count; t++)
        for (int32_t i = 0; i < request->topic_data[t].partition_data_count; i++)
            if (!data_names_put(&state->names, request->topic_data[t].name,
                                request->topic_data[t].topic_id,
                                request->topic_data[t].partition_data[i].index, ordinal++))
                return false;
    return true;
}

static bool is_named_again(const struct produce_state *state,
                           const struct produce_request_topic_produce_data *topic, int32_t index,
                           size_t ordinal)
{
    return state->names.ordinals.count &&
           data_names_get(&state->names, topic->name, topic->topic_id, index) != ordinal;
}

static bool handle_topic(struct produce_state *state, int32_t index)
{
    struct request_context *ctx = state->ctx;
    const struct produce_request_topic_produce_data *topic = &state->request->topic_data[index];
    struct produce_response_topic_produce_response *out =
        &state->response.responses[state->response.responses_count];
    out->name = topic->name;
    out->topic_id = topic->topic_id;
    out->partition_responses =
        request_calloc(ctx, (size_t)topic->partition_data_count, sizeof *out->partition_responses);
    if (topic->partition_data_count && !out->partition_responses)
        return false;
    for (int32_t i = 0; i < topic->partition_data_count; i++) {
        if (is_named_again(state, topic, topic->partition_data[i].index, state->ordinal++))
            continue;
        partition_answer *answer = &out->partition_responses[out->partition_responses_count++];
        produce_response_partition_produce_response_init(answer);
        struct data_target target =
            data_find(ctx->broker, topic->name, topic->topic_id, ctx->version >= VERSION_WITH_IDS,
                      topic->partition_data[i].index);
        handle_partition(state, &target, &topic->partition_data[i], answer);
    }
    if (out->partition_responses_count)
        state->response.responses_count++;
    return true;
}

/* A request that writes in a transaction must name it (there is nobody who could be authorised otherwise). */
static bool lacks_transactional_id(const struct produce_request *request)
{
    for (int32_t t = 0; !request->transactional_id.data && t < request->topic_data_count; t++)
        for (int32_t i = 0; i < request->topic_data[t].partition_data_count; i++) {
            const struct records *records = &request->topic_data[t].partition_data[i].records;
            if (is_transactional(bytes_of(records->data, records->size)))
                return true;
        }
    return false;
}

static void refuse_all(struct produce_state *state, int code)
{
    for (int32_t t = 0; t < state->response.responses_count; t++)
        for (int32_t i = 0; i < state->response.responses[t].partition_responses_count; i++)
            fail(state, &state->response.responses[t].partition_responses[i], code);
}

/* The answer's shape with every partition in it, for a refusal of the whole. */
static bool list_all(struct produce_state *state)
{
    const struct produce_request *request = state->request;
    for (int32_t t = 0; t < request->topic_data_count; t++) {
        const struct produce_request_topic_produce_data *topic = &request->topic_data[t];
        struct produce_response_topic_produce_response *out =
            &state->response.responses[state->response.responses_count++];
        out->name = topic->name;
        out->topic_id = topic->topic_id;
        out->partition_responses = request_calloc(state->ctx, (size_t)topic->partition_data_count,
                                                  sizeof *out->partition_responses);
        if (topic->partition_data_count && !out->partition_responses)
            return false;
        for (int32_t i = 0; i < topic->partition_data_count; i++) {
            partition_answer *answer = &out->partition_responses[out->partition_responses_count++];
            produce_response_partition_produce_response_init(answer);
            answer->index = topic->partition_data[i].index;
        }
    }
    return true;
}

static bool prepare(struct produce_state *state)
{
    struct request_context *ctx = state->ctx;
    const struct produce_request *request = state->request;
    produce_response_init(&state->response);
    state->response.responses =
        request_calloc(ctx, (size_t)request->topic_data_count, sizeof *state->response.responses);
    state->waiting = request_calloc(ctx, count_partitions(request), sizeof *state->waiting);
    return !data_endpoints_init(&state->endpoints, ctx) &&
           (state->response.responses || !request->topic_data_count) &&
           (state->waiting || !count_partitions(request));
}

static bool handle_all(struct produce_state *state)
{
    if (lacks_transactional_id(state->request)) {
        bool listed = list_all(state);
        refuse_all(state, ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        return listed;
    }
    bool good = name_all(state);
    for (int32_t t = 0; good && t < state->request->topic_data_count; t++)
        good = handle_topic(state, t);
    map_fini(&state->names.ordinals);
    return good;
}

void api_produce(struct request_context *ctx)
{
    struct produce_state *state = request_alloc(ctx, sizeof *state);
    if (!state) {
        request_close(ctx);
        return;
    }
    state->ctx = ctx;
    state->request = ctx->body;
    if (!prepare(state) || !handle_all(state))
        request_close(ctx);
    else if (state->request->acks == 0 && state->any_error)
        request_close(ctx); /* the only way to tell a client that expects no answer */
    else if (state->request->acks == 0)
        request_no_answer(ctx);
    else if (state->waiting_count && !all_settled(&state->op))
        wait_for_acks(state);
    else if (state->waiting_count)
        settle(&state->op, false);
    else
        respond(state);
}
