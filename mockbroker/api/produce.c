/*
 * produce.c - Produce: append to the logs this broker leads, and answer when the acks are there.
 *
 * Each partition is taken for itself; one that is refused does not stop the others. What a request
 * names more than once is answered once, as in Kafka, whose server keeps maps: of the record sets that
 * pass the first look the last one is appended, and if any did not pass, its refusal is the answer.
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

/* A partition of the request, however often it is named. */
struct item {
    const struct produce_request_topic_produce_data *topic;
    const partition_part *part; /* to be appended; NULL: none passed the first look */
    partition_answer *answer;
    bool refused;
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
    struct item *items;
    size_t item_count;
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

/* The first look: is the partition known, and are these the bytes of a batch? */
static int look(const struct produce_state *state, const struct data_target *target,
                struct bytes records, cafka_error *reason)
{
    if (target->error && target->error != ERR_NOT_LEADER_OR_FOLLOWER)
        return target->error;
    return append_check_request(records, state->ctx->version, reason);
}

/* Why a record set is refused before its log is asked; ERR_NONE: it is not. */
static int check(const struct produce_state *state, const struct data_target *target,
                 struct bytes records)
{
    const struct request_context *ctx = state->ctx;
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

static struct data_target target_of(const struct produce_state *state,
                                    const struct produce_request_topic_produce_data *topic,
                                    int32_t index)
{
    return data_find(state->ctx->broker, topic->name, topic->topic_id,
                     state->ctx->version >= VERSION_WITH_IDS, index);
}

static struct bytes records_of(const partition_part *part)
{
    return bytes_of(part->records.data, part->records.size);
}

static void look_at(struct produce_state *state, struct item *item,
                    const struct produce_request_topic_produce_data *topic,
                    const partition_part *part)
{
    struct data_target target = target_of(state, topic, part->index);
    cafka_error reason = {0};
    int code = look(state, &target, records_of(part), &reason);
    if (!code) {
        item->topic = topic;
        item->part = part;
        return;
    }
    item->refused = true;
    fail(state, item->answer, code);
    if (code == ERR_CORRUPT_MESSAGE) /* of the other errors the real broker sends no words either */
        item->answer->error_message = api_keep(state->ctx, reason.message);
}

/* False: no memory. */
static bool append_item(struct produce_state *state, struct item *item)
{
    partition_answer *answer = item->answer;
    if (!item->part)
        return true;
    if (item->refused) { /* nobody will see how this one went */
        answer = request_alloc(state->ctx, sizeof *answer);
        if (!answer)
            return false;
        produce_response_partition_produce_response_init(answer);
    }
    struct data_target target = target_of(state, item->topic, item->part->index);
    int code = check(state, &target, records_of(item->part));
    if (!code) {
        append(state, answer, &target, records_of(item->part));
        return true;
    }
    fail(state, answer, code);
    if (code == ERR_NOT_LEADER_OR_FOLLOWER)
        name_leader(state, answer, &target);
    return true;
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

enum { WHOLE_TOPIC = -1 }; /* an index that names the topic itself */

/* Give each topic its place in the answer, with room for its partitions; map[t] gets the place. */
static bool place_topics(struct produce_state *state, size_t *map)
{
    const struct produce_request *request = state->request;
    struct produce_response *response = &state->response;
    struct data_names names = {0};
    bool good = true;
    for (int32_t t = 0; good && t < request->topic_data_count; t++) {
        const struct produce_request_topic_produce_data *topic = &request->topic_data[t];
        if (!topic->partition_data_count)
            continue;
        map[t] = request->topic_data_count < 2
                     ? SIZE_MAX
                     : data_names_get(&names, topic->name, topic->topic_id, WHOLE_TOPIC);
        if (map[t] == SIZE_MAX) {
            map[t] = (size_t)response->responses_count++;
            response->responses[map[t]].name = topic->name;
            response->responses[map[t]].topic_id = topic->topic_id;
            good = request->topic_data_count < 2 ||
                   data_names_put(&names, topic->name, topic->topic_id, WHOLE_TOPIC, map[t]);
        }
        response->responses[map[t]].partition_responses_count += topic->partition_data_count;
    }
    map_fini(&names.ordinals);
    for (int32_t t = 0; good && t < response->responses_count; t++) {
        struct produce_response_topic_produce_response *out = &response->responses[t];
        out->partition_responses = request_calloc(state->ctx, (size_t)out->partition_responses_count,
                                                  sizeof *out->partition_responses);
        good = out->partition_responses;
        out->partition_responses_count = 0;
    }
    return good;
}

static struct item *new_item(struct produce_state *state, size_t place, int32_t index)
{
    struct produce_response_topic_produce_response *out = &state->response.responses[place];
    struct item *item = &state->items[state->item_count++];
    item->answer = &out->partition_responses[out->partition_responses_count++];
    produce_response_partition_produce_response_init(item->answer);
    item->answer->index = index;
    return item;
}

/* One item a partition, looked at. A request for one partition, the common kind, needs no names. */
static bool list_items(struct produce_state *state, const size_t *places)
{
    const struct produce_request *request = state->request;
    bool several = count_partitions(request) > 1, good = true;
    struct data_names names = {0};
    for (int32_t t = 0; good && t < request->topic_data_count; t++)
        for (int32_t i = 0; good && i < request->topic_data[t].partition_data_count; i++) {
            const struct produce_request_topic_produce_data *topic = &request->topic_data[t];
            const partition_part *part = &topic->partition_data[i];
            size_t known = several
                               ? data_names_get(&names, topic->name, topic->topic_id, part->index)
                               : SIZE_MAX;
            if (known == SIZE_MAX) {
                known = state->item_count;
                (void)new_item(state, places[t], part->index);
                good = !several ||
                       data_names_put(&names, topic->name, topic->topic_id, part->index, known);
            }
            if (good)
                look_at(state, &state->items[known], topic, part);
        }
    map_fini(&names.ordinals);
    return good;
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
    for (size_t i = 0; i < state->item_count; i++) {
        fail(state, state->items[i].answer, code);
        state->items[i].answer->error_message = (struct str){0};
    }
}

static bool prepare(struct produce_state *state)
{
    struct request_context *ctx = state->ctx;
    const struct produce_request *request = state->request;
    produce_response_init(&state->response);
    state->response.responses =
        request_calloc(ctx, (size_t)request->topic_data_count, sizeof *state->response.responses);
    state->waiting = request_calloc(ctx, count_partitions(request), sizeof *state->waiting);
    state->items = request_calloc(ctx, count_partitions(request), sizeof *state->items);
    return !data_endpoints_init(&state->endpoints, ctx) &&
           (state->response.responses || !request->topic_data_count) &&
           ((state->waiting && state->items) || !count_partitions(request));
}

static bool handle_all(struct produce_state *state)
{
    size_t *places =
        request_calloc(state->ctx, (size_t)state->request->topic_data_count + 1, sizeof *places);
    if (!places || !place_topics(state, places) || !list_items(state, places))
        return false;
    if (lacks_transactional_id(state->request)) {
        refuse_all(state, ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
        return true;
    }
    for (size_t i = 0; i < state->item_count; i++)
        if (!append_item(state, &state->items[i]))
            return false;
    return true;
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
