/*
 * sender_answer.c - an answer to a Produce request is taken apart, into one outcome a batch.
 */
#include "producer/sender_outcome.h"

#include "producer/room.h"
#include "protocol/errors.h"

/* Errors after which the batch may be in the log all the same. */
static bool leaves_unknown(int code)
{
    return code == ERR_REQUEST_TIMED_OUT || code == ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND ||
           code == ERR_NETWORK_EXCEPTION || code == ERR_UNKNOWN_SERVER_ERROR ||
           code == ERR_KAFKA_STORAGE_ERROR;
}
static bool is_topic(const struct produce_response_topic_produce_response *answer, int version,
                     const struct producer_batch *batch)
{
    const cafka_topic *topic = batch->partition->topic;
    if (version >= 13)
        return uuid_equal(answer->topic_id, batch->topic_id);
    return answer->name.size == topic->name_size && answer->name.data &&
           !memcmp(answer->name.data, topic->name, topic->name_size);
}

/* Where the search for the next batch begins: answers come in the order of the request. */
struct cursor {
    int32_t topic, partition;
};

static const struct produce_response_partition_produce_response *find_answer(
    const struct produce_response *response, int version, const struct producer_batch *batch,
    struct cursor *cursor)
{
    for (int32_t i = 0; i < response->responses_count; i++) {
        int32_t t = (cursor->topic + i) % response->responses_count;
        const struct produce_response_topic_produce_response *topic = &response->responses[t];
        if (!is_topic(topic, version, batch))
            continue;
        int32_t start = t == cursor->topic ? cursor->partition : 0;
        for (int32_t j = 0; j < topic->partition_responses_count; j++) {
            int32_t at = (start + j) % topic->partition_responses_count;
            if (topic->partition_responses[at].index != batch->partition->index)
                continue;
            *cursor = (struct cursor){t, at + 1 < topic->partition_responses_count ? at + 1 : 0};
            return &topic->partition_responses[at];
        }
    }
    return NULL;
}

static void outcome_of_answer(struct sender *sender, const struct producer_batch *batch,
                              const struct produce_response_partition_produce_response *answer,
                              struct outcome *out)
{
    const struct partition *p = batch->partition;
    *out = (struct outcome){.base_offset = -1, .append_time_ms = -1, .answer = answer};
    if (!answer) {
        out->unknown = true;
        error_set(&out->error, CAFKA_ERR_PROTOCOL,
                  "broker %d did not say in its answer what became of them", sender_wire_broker(p));
        return;
    }
    int code = answer->error_code;
    if (code == ERR_NONE) {
        out->written = true;
        /* Offsets of its records that no number can be would be a lie, and are not told. */
        if (answer->base_offset >= 0 && answer->base_offset <= INT64_MAX - batch->count)
            out->base_offset = answer->base_offset;
        out->append_time_ms = answer->log_append_time_ms;
        return;
    }
    if (code == ERR_DUPLICATE_SEQUENCE_NUMBER) {
        out->written = true; /* by an earlier attempt; where, the broker does not remember */
        return;
    }
    out->unknown = leaves_unknown(code);
    const char *name = protocol_error_name(code);
    error_set(&out->error, code, "broker %d answered %s%s%.*s", sender_wire_broker(p),
              name ? name : "an unknown error", answer->error_message.data ? ": " : "",
              answer->error_message.size > 120 ? 120 : STR_ARG(answer->error_message));
    struct metadata *metadata = sender->producer->client.metadata;
    if (answer->current_leader.leader_id >= 0)
        out->new_leader = metadata_hint_leader(metadata, p->topic->meta, p->index,
                                               answer->current_leader.leader_id,
                                               answer->current_leader.leader_epoch);
    if (protocol_error_refresh_metadata(code) && !out->new_leader)
        metadata_refresh(metadata);
}

static void name_endpoints(struct sender *sender, const struct produce_response *response)
{
    for (int32_t i = 0; i < response->node_endpoints_count; i++) {
        const struct produce_response_node_endpoint *node = &response->node_endpoints[i];
        metadata_hint_broker(sender->producer->client.metadata, node->node_id, node->host,
                             node->port, node->rack);
    }
}

/* One outcome for all: the connection broke, or no answer is wanted. */
static void outcome_of_reply(const struct reply *reply, const cafka_error *broken,
                             struct outcome *out)
{
    *out = (struct outcome){.base_offset = -1, .append_time_ms = -1};
    const cafka_error *error = broken->code ? broken : reply->error;
    if (!error) {
        out->written = true; /* acks=0: written is delivered */
        return;
    }
    out->error = *error;
    out->unknown = broken->code || (error->flags & CAFKA_UNKNOWN_OUTCOME);
}

void sender_answered(struct request *request, const struct reply *reply)
{
    struct produce_call *call = (struct produce_call *)request;
    struct sender_broker *to = call->to;
    struct sender *sender = to->sender;
    struct produce_response response;
    bool has_answer = false;
    cafka_error broken = {0};
    if (!reply->error && !request->no_response) {
        has_answer = !reply_decode(reply, &sender->arena, &response, &broken);
        if (has_answer) {
            name_endpoints(sender, &response);
            producer_count_throttle(sender->producer, response.throttle_time_ms);
            if (reply->version >= 6 && response.throttle_time_ms > 0)
                conn_throttle(broker_conn(to->broker, LANE_DATA), response.throttle_time_ms);
        }
    }
    to->in_flight--;
    atomic_fetch_sub_explicit(&sender->requests_in_flight, 1, memory_order_relaxed);
    to->dirty = true;
    list_remove(&call->link);
    struct cursor cursor = {0};
    for (int i = 0; i < call->count; i++) {
        struct producer_batch *batch = call->batches[i];
        struct partition *p = batch->partition;
        struct outcome outcome;
        if (has_answer)
            outcome_of_answer(sender, batch, find_answer(&response, reply->version, batch, &cursor),
                              &outcome);
        else
            outcome_of_reply(reply, &broken, &outcome);
        sender_apply(sender, batch, &outcome);
        if (outcome.new_leader)
            sender_route(sender, p);
        else
            sender_refresh(sender, p);
    }
    arena_reset(&sender->arena);
    list_push_front(&sender->idle_calls, &call->link);
    sender_calm(sender);
    sender_pump_dirty(sender);
}
