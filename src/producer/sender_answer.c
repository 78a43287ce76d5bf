/*
 * sender_answer.c - what comes back for a batch: success, another attempt, a split, or the end.
 *
 * An answer is taken apart into one `struct outcome` a batch; decide() says what it means, and
 * apply() does it. Both know nothing of the wire.
 */
#include "producer/sender.h"

#include "producer/room.h"
#include "protocol/errors.h"
#include "util/alloc.h"

/* Attempts that fail in a row before the application is told that a partition makes no progress. */
enum { TELL_AFTER_FAILURES = 3 };

struct outcome {
    cafka_error error; /* code 0: written */
    bool written;      /* it is in the log */
    bool unknown;      /* it may be in the log */
    int64_t base_offset, append_time_ms;
    const struct produce_response_partition_produce_response *answer; /* NULL: none came */
    bool new_leader; /* the answer told of one (KIP-951) */
};

enum verdict { VERDICT_DONE, VERDICT_RETRY, VERDICT_RENUMBER, VERDICT_SPLIT, VERDICT_FAIL };

static int64_t now_ms(const struct sender *sender)
{
    return loop_now_ms(sender->producer->client.loop);
}

static int broker_id(const struct partition *p)
{
    return p->wire_broker ? (int)p->wire_broker->broker->id : -1;
}

static struct numbered numbered(const struct producer_batch *batch)
{
    return (struct numbered){batch->producer_id, batch->producer_epoch, batch->base_sequence,
                             batch->count};
}

/* --- the end of a batch --- */

static void pass_on_result(struct producer_batch *batch, const cafka_error *error)
{
    if (error)
        batch->error = *error;
}

void sender_finish(struct sender *sender, struct producer_batch *batch, const cafka_error *error)
{
    struct partition *p = batch->partition;
    if (error && batch->base_sequence >= 0) {
        struct numbered n = numbered(batch);
        sequences_given_up(&p->sequences, &n, batch->maybe_written || batch->on_wire);
    }
    if (batch->queued_blocks) {
        atomic_fetch_sub_explicit(&p->queued_blocks, batch->queued_blocks, memory_order_relaxed);
        batch->queued_blocks = 0;
    }
    pass_on_result(batch, error);
    uint64_t flush_mark = batch->flush_mark;
    delivery_finish(sender->producer, batch);
    sender_batch_done(sender, flush_mark); /* who waits for a flush has all reports when it returns */
}

static bool is_before(const struct producer_batch *a, const struct producer_batch *b)
{
    return a->number != b->number ? a->number < b->number : a->root_index < b->root_index;
}

void sender_requeue(struct partition *p, struct producer_batch *batch)
{
    struct list *place = &p->queue;
    while (place->next != &p->queue &&
           is_before(list_item(place->next, struct producer_batch, link), batch))
        place = place->next;
    list_insert_after(place, &batch->link);
}

/* --- decide --- */

/* Errors after which the batch may be in the log all the same. */
static bool leaves_unknown(int code)
{
    return code == ERR_REQUEST_TIMED_OUT || code == ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND ||
           code == ERR_NETWORK_EXCEPTION || code == ERR_UNKNOWN_SERVER_ERROR ||
           code == ERR_KAFKA_STORAGE_ERROR;
}

static bool is_about_sequence(int code)
{
    return code == ERR_OUT_OF_ORDER_SEQUENCE_NUMBER || code == ERR_UNKNOWN_PRODUCER_ID;
}

/* Local errors are of the connection: the next one may do better. */
static bool is_retriable(int code)
{
    if (code > 0 || code == ERR_UNKNOWN_SERVER_ERROR)
        return protocol_error_retriable(code);
    return code != CAFKA_ERR_CLOSED && code != CAFKA_ERR_UNSUPPORTED;
}

/* Errors that every later batch would meet too. */
static bool is_fatal(int code)
{
    return code == ERR_CLUSTER_AUTHORIZATION_FAILED ||
           code == ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED || code == ERR_PRODUCER_FENCED ||
           code == ERR_UNSUPPORTED_VERSION;
}

static enum verdict decide(struct sender *sender, struct producer_batch *batch,
                           const struct outcome *outcome)
{
    const struct producer_settings *settings = &sender->producer->settings;
    int code = outcome->error.code;
    bool numbered_batch = batch->base_sequence >= 0;
    if (outcome->written)
        return VERDICT_DONE;
    if (code == ERR_MESSAGE_TOO_LARGE && batch->count > 1)
        return VERDICT_SPLIT;
    if (now_ms(sender) - batch->created_ms >= settings->delivery_timeout_ms)
        return VERDICT_FAIL;
    if (numbered_batch && is_about_sequence(code)) {
        struct numbered n = numbered(batch);
        return sequences_refused(&batch->partition->sequences, &n) ? VERDICT_RENUMBER
                                                                   : VERDICT_RETRY;
    }
    if (!is_retriable(code) || batch->attempts > settings->retries)
        return VERDICT_FAIL;
    return VERDICT_RETRY;
}

/* --- apply --- */

static void apply_success(struct sender *sender, struct producer_batch *batch,
                          const struct outcome *outcome)
{
    struct partition *p = batch->partition;
    if (batch->base_sequence >= 0) {
        struct numbered n = numbered(batch);
        sequences_acknowledged(&p->sequences, &n);
    }
    const struct metadata_partition *known =
        p->topic->meta ? metadata_partition(p->topic->meta, p->index) : NULL;
    p->confirmed_broker = p->wire_broker->broker->id;
    p->confirmed_epoch = known ? known->leader_epoch : -1;
    p->failures = 0;
    p->told_error = 0;
    if (batch->finished)
        return; /* it came too late: the batch was given up before, but now we know */
    batch->base_offset = outcome->base_offset;
    batch->append_time_ms = outcome->append_time_ms;
    sender_finish(sender, batch, NULL);
}

static void describe(struct cafka_error *out, const struct producer_batch *batch,
                     const struct outcome *outcome, const char *advice)
{
    const struct partition *p = batch->partition;
    unsigned flags = outcome->error.flags & ~(unsigned)CAFKA_UNKNOWN_OUTCOME;
    if (batch->maybe_written)
        flags |= CAFKA_UNKNOWN_OUTCOME;
    error_clear(out);
    error_set(out, outcome->error.code,
              "%d records to %s-%d were not delivered after %d attempts: %.140s%s",
              (int)batch->count, p->topic->name, (int)p->index, (int)batch->attempts,
              outcome->error.message, advice);
    out->flags = flags;
}

static void keep_failures(struct producer_batch *batch, const struct outcome *outcome)
{
    const struct produce_response_partition_produce_response *answer = outcome->answer;
    if (!answer || answer->record_errors_count <= 0)
        return;
    size_t count = (size_t)answer->record_errors_count;
    batch->failures = mem_calloc(count, sizeof *batch->failures);
    if (!batch->failures)
        return; /* then all of them get the batch's error */
    for (size_t i = 0; i < count; i++) {
        struct str message = answer->record_errors[i].batch_index_error_message;
        batch->failures[i].index = answer->record_errors[i].batch_index;
        batch->failures[i].message = message.data ? mem_strndup(message.data, message.size) : NULL;
    }
    batch->failure_count = count;
}

static const char *advice_for(int code)
{
    switch (code) {
    case ERR_MESSAGE_TOO_LARGE:
    case ERR_RECORD_LIST_TOO_LARGE:
        return "; raise max.message.bytes of the topic, or send smaller records";
    case ERR_TOPIC_AUTHORIZATION_FAILED:
    case ERR_CLUSTER_AUTHORIZATION_FAILED: return "; grant the principal the right to write";
    case ERR_INVALID_TIMESTAMP:
        return "; see message.timestamp.before.max.ms and .after.max.ms of the topic";
    case ERR_UNSUPPORTED_COMPRESSION_TYPE: return "; choose another compression.type";
    default: return "";
    }
}

static void apply_failure(struct sender *sender, struct producer_batch *batch,
                          const struct outcome *outcome)
{
    cafka_error error;
    keep_failures(batch, outcome);
    describe(&error, batch, outcome, advice_for(outcome->error.code));
    if (now_ms(sender) - batch->created_ms >= sender->producer->settings.delivery_timeout_ms) {
        error_prefix(&error, "delivery.timeout.ms is over: ");
        error.flags |= CAFKA_FLAG_TIMEOUT;
    }
    log_warn(sender->producer->log, "%s", error.message);
    int code = outcome->error.code;
    struct partition *p = batch->partition;
    sender_finish(sender, batch, &error);
    if (code == ERR_INVALID_PRODUCER_EPOCH)
        p->sequences.restart = true;
    if (is_fatal(code)) {
        error.flags |= CAFKA_FATAL;
        sender_fatal(sender, &error);
    }
}

static void tell_of_trouble(struct sender *sender, struct producer_batch *batch,
                            const struct outcome *outcome)
{
    struct partition *p = batch->partition;
    cafka_error error = {0};
    error_set(&error, outcome->error.code,
              "%s-%d makes no progress: attempt %d at broker %d failed, and is repeated: %.120s",
              p->topic->name, (int)p->index, (int)batch->attempts, broker_id(p),
              outcome->error.message);
    client_report(&sender->producer->client, &p->told_error, &error, p->topic->name, p->index,
                  broker_id(p));
}

static void apply_retry(struct sender *sender, struct producer_batch *batch,
                        const struct outcome *outcome)
{
    struct partition *p = batch->partition;
    const struct client_settings *settings = &sender->producer->settings.client;
    log_debug(sender->producer->log, "%s-%d: attempt %d failed and is repeated: %s", p->topic->name,
              (int)p->index, (int)batch->attempts, outcome->error.message);
    sender_requeue(p, batch);
    if (!outcome->new_leader)
        p->retry_at_ms =
            now_ms(sender) + backoff_after(sender->producer->client.env, settings->retry_backoff_ms,
                                           settings->retry_backoff_max_ms, p->failures);
    if (++p->failures >= TELL_AFTER_FAILURES)
        tell_of_trouble(sender, batch, outcome);
}

/* The children take the parent's sequences one after another, so that none is left out. */
static void number_children(struct producer_batch *batch, struct list *children)
{
    int32_t sequence = batch->base_sequence;
    struct list *link, *after;
    list_each(link, after, children)
    {
        struct producer_batch *child = list_item(link, struct producer_batch, link);
        child->producer_id = batch->producer_id;
        child->producer_epoch = batch->producer_epoch;
        child->base_sequence = sequence;
        child->maybe_written = batch->maybe_written;
        if (sequence >= 0)
            sequence = sequence_add(sequence, child->count);
    }
}

/* Who waits for a record waits for it in the child that has it now. */
static void move_waiters(struct producer_batch *batch, struct list *children)
{
    struct list *link, *after, *child_link, *child_after;
    list_each(link, after, &batch->waiters)
    {
        struct send_waiter *waiter = list_item(link, struct send_waiter, link);
        list_each(child_link, child_after, children)
        {
            struct producer_batch *child = list_item(child_link, struct producer_batch, link);
            int32_t first = child->root_index - batch->root_index;
            if (waiter->index < first || waiter->index >= first + child->count)
                continue;
            list_remove(link);
            waiter->index -= first;
            list_push_back(&child->waiters, link);
            child->waited++;
            break;
        }
    }
}

/*
 * The topic takes less than we thought. The limit that is learned is for all its batches; it is
 * halved until the topic is content, since a broker does not say what it takes.
 */
static size_t learn_limit(struct sender *sender, struct producer_batch *batch)
{
    atomic_size_t *limit = &batch->partition->topic->batch_limit;
    size_t half = batch->size / 2, batch_size = sender->producer->accumulator.batch_size;
    size_t learned = batch->size > 2 * batch_size ? (half > batch_size ? half : batch_size) : half;
    if (learned < atomic_load(limit))
        atomic_store(limit, learned);
    return learned;
}

static void apply_split(struct sender *sender, struct producer_batch *batch,
                        const struct outcome *outcome)
{
    struct partition *p = batch->partition;
    struct accumulator *a = &sender->producer->accumulator;
    size_t limit = learn_limit(sender, batch);
    struct sealer *sealer = accumulator_sealer_get(a);
    struct list children;
    cafka_error why = {0};
    int rc =
        producer_batch_split(batch, limit, sender->decompressor, sealer, &a->pool, &children, &why);
    accumulator_sealer_put(a, sealer);
    if (rc) {
        struct outcome failed = *outcome;
        failed.error = why;
        apply_failure(sender, batch, &failed);
        return;
    }
    log_info(sender->producer->log,
             "%s-%d: a batch of %zu bytes was too large for the topic; it is split into batches "
             "of %zu bytes",
             p->topic->name, (int)p->index, batch->size, limit);
    number_children(batch, &children);
    move_waiters(batch, &children);
    struct list *link;
    size_t count = 0;
    while ((link = list_pop_front(&children))) {
        sender_requeue(p, list_item(link, struct producer_batch, link));
        count++;
    }
    sender_batch_split(sender, batch, count);
    producer_batch_release(batch, &a->pool);
}

static void apply(struct sender *sender, struct producer_batch *batch, const struct outcome *outcome)
{
    struct partition *p = batch->partition;
    batch->on_wire = false;
    p->wire_count--;
    list_remove(&batch->link);
    if (outcome->unknown)
        batch->maybe_written = true;
    if (batch->finished) {
        if (outcome->written)
            apply_success(sender, batch, outcome);
        delivery_unpinned(sender->producer, batch);
        return;
    }
    switch (decide(sender, batch, outcome)) {
    case VERDICT_DONE: apply_success(sender, batch, outcome); break;
    case VERDICT_RENUMBER:
        batch->maybe_written = false; /* the broker's refusal says that it is not in the log */
        apply_retry(sender, batch, outcome);
        break;
    case VERDICT_RETRY: apply_retry(sender, batch, outcome); break;
    case VERDICT_SPLIT: apply_split(sender, batch, outcome); break;
    case VERDICT_FAIL: apply_failure(sender, batch, outcome); break;
    }
}

/* --- taking an answer apart --- */

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
                  "broker %d did not say in its answer what became of them", broker_id(p));
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
    error_set(&out->error, code, "broker %d answered %s%s%.*s", broker_id(p),
              name ? name : "an unknown error", answer->error_message.data ? ": " : "",
              answer->error_message.size > 120 ? 120 : STR_ARG(answer->error_message));
    struct metadata *metadata = sender->producer->client.metadata;
    if (answer->current_leader.leader_id >= 0)
        out->new_leader = metadata_hint_leader(metadata, p->topic->meta, p->index,
                                               answer->current_leader.leader_id,
                                               answer->current_leader.leader_epoch);
    if (protocol_error_refresh_metadata(code))
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
            if (reply->version >= 6 && response.throttle_time_ms > 0)
                conn_throttle(broker_conn(to->broker, LANE_DATA), response.throttle_time_ms);
        }
    }
    to->in_flight--;
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
        apply(sender, batch, &outcome);
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

/* --- giving up --- */

static void give_up(struct sender *sender, struct producer_batch *batch, const cafka_error *why)
{
    cafka_error error = *why;
    error.flags &= ~(unsigned)CAFKA_UNKNOWN_OUTCOME;
    if (batch->on_wire || batch->maybe_written)
        error.flags |= CAFKA_UNKNOWN_OUTCOME;
    if (!batch->on_wire)
        list_remove(&batch->link); /* else it stays in flight, until its request ends */
    sender_finish(sender, batch, &error);
}

/* delivery.timeout.ms is over for the oldest batches of a partition. */
void sender_expire(struct sender *sender, struct partition *p)
{
    int64_t timeout_ms = sender->producer->settings.delivery_timeout_ms, now = now_ms(sender);
    struct partition_state state;
    partition_collect(p, &state);
    if (state.open_bytes && state.open_created_ms + timeout_ms <= now)
        (void)partition_take_open(&sender->producer->accumulator, p);

    int64_t next_ms = state.open_bytes ? state.open_created_ms + timeout_ms : INT64_MAX;
    struct list *lists[] = {&p->in_flight, &p->queue};
    for (int i = 0; i < 2; i++) {
        struct list *link, *after;
        list_each(link, after, lists[i])
        {
            struct producer_batch *batch = list_item(link, struct producer_batch, link);
            if (batch->finished)
                continue;
            bool sealed =
                atomic_load_explicit(&batch->state, memory_order_acquire) == PRODUCER_BATCH_SEALED;
            int64_t end_ms = batch->created_ms + timeout_ms;
            if (end_ms > now || !sealed) {
                end_ms = sealed ? end_ms : now + 1; /* whoever seals it is about to be done */
                next_ms = end_ms < next_ms ? end_ms : next_ms;
                continue;
            }
            cafka_error why = {0};
            const cafka_error *last = &sender->producer->trouble;
            struct sender_broker *to = atomic_load_explicit(&p->broker, memory_order_relaxed);
            const char *because = batch->attempts ? "no broker acknowledged them"
                                  : to            ? "the leader could not be reached"
                                                  : "the partition has no leader";
            pthread_mutex_lock(&sender->producer->mu);
            error_set(&why, CAFKA_ERR_TIMEOUT,
                      "%d records to %s-%d were not delivered within delivery.timeout.ms (%lld): "
                      "%s%s%.100s",
                      (int)batch->count, p->topic->name, (int)p->index, (long long)timeout_ms,
                      because, last->code ? ", last: " : "", last->message);
            pthread_mutex_unlock(&sender->producer->mu);
            log_warn(sender->producer->log, "%s", why.message);
            give_up(sender, batch, &why);
        }
    }
    if (next_ms != INT64_MAX && list_linked(&p->active_link))
        loop_timer_set(sender->producer->client.loop, &p->expiry, next_ms > now ? next_ms : now + 1);
    sender_refresh(sender, p);
}

static void fail_partition(struct sender *sender, struct partition *p, const cafka_error *why)
{
    (void)partition_take_open(&sender->producer->accumulator, p);
    struct list *lists[] = {&p->in_flight, &p->queue};
    for (int i = 0; i < 2; i++) {
        struct list *link, *after;
        list_each(link, after, lists[i])
        {
            struct producer_batch *batch = list_item(link, struct producer_batch, link);
            bool sealed =
                atomic_load_explicit(&batch->state, memory_order_acquire) == PRODUCER_BATCH_SEALED;
            if (batch->finished || !sealed)
                continue; /* who seals it hands it over, and then it fails */
            if (why->code == CAFKA_ERR_PURGED)
                sender->purged += (size_t)batch->count;
            give_up(sender, batch, why);
        }
    }
    sender_refresh(sender, p);
}

void sender_purge(struct sender *sender, struct partition *p)
{
    fail_partition(sender, p, &sender->purge_error);
}

void sender_fail_all(struct sender *sender, const cafka_error *why)
{
    struct list *link, *after;
    sender->purging = true;
    sender->purge_error = *why;
    list_each(link, after, &sender->active)
        fail_partition(sender, list_item(link, struct partition, active_link), why);
}

void sender_fatal(struct sender *sender, const cafka_error *why)
{
    cafka_producer *producer = sender->producer;
    if (atomic_load(&producer->failed))
        return;
    pthread_mutex_lock(&producer->mu);
    producer->fatal = *why;
    producer->fatal.flags |= CAFKA_FATAL;
    cafka_error fatal = producer->fatal;
    pthread_mutex_unlock(&producer->mu);
    atomic_store(&producer->failed, true);
    int told = 0;
    client_report(&producer->client, &told, &fatal, NULL, -1, -1);
    sender_refuse_all(sender);
    sender_fail_all(sender, &fatal);
}
