/*
 * sender_outcome.c - see sender_outcome.h: decide() says what an attempt's outcome means, and
 * sender_apply() does it. Both know nothing of the wire.
 */
#include "producer/sender_outcome.h"

#include "producer/room.h"
#include "protocol/errors.h"
#include "util/alloc.h"

/* Attempts that fail in a row before the application is told that a partition makes no progress. */
enum { TELL_AFTER_FAILURES = 3 };

enum verdict { VERDICT_DONE, VERDICT_RETRY, VERDICT_RENUMBER, VERDICT_SPLIT, VERDICT_FAIL };
static struct numbered numbered(const struct producer_batch *batch)
{
    return (struct numbered){batch->producer_id, batch->producer_epoch, batch->base_sequence,
                             batch->count};
}
/* --- the end of a batch --- */

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
    if (error) {
        batch->error = *error;
        producer_count_failure(sender->producer, batch);
    }
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
    if (sender_now_ms(sender) - batch->created_ms >= settings->delivery_timeout_ms)
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
    batch_limits_taken(&p->topic->limits, batch->size, sender->producer->accumulator.batch_max,
                       sender_now_ms(sender));
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

void sender_apply_failure(struct sender *sender, struct producer_batch *batch,
                          const struct outcome *outcome)
{
    cafka_error error;
    keep_failures(batch, outcome);
    describe(&error, batch, outcome, advice_for(outcome->error.code));
    if (sender_now_ms(sender) - batch->created_ms >= sender->producer->settings.delivery_timeout_ms) {
        error_prefix(&error, "delivery.timeout.ms is over: ");
        error.flags |= CAFKA_FLAG_TIMEOUT;
    }
    if (producer_may_warn(sender->producer))
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
              p->topic->name, (int)p->index, (int)batch->attempts, sender_wire_broker(p),
              outcome->error.message);
    client_report(&sender->producer->client, &p->told_error, &error, p->topic->name, p->index,
                  sender_wire_broker(p));
}

/* Metadata told of a newer leader epoch after the attempt had left. */
static bool leads_anew(const struct partition *p)
{
    const struct metadata_partition *known =
        p->topic->meta ? metadata_partition(p->topic->meta, p->index) : NULL;
    return known && known->leader >= 0 && p->sent_epoch >= 0 && known->leader_epoch > p->sent_epoch;
}

static void apply_retry(struct sender *sender, struct producer_batch *batch,
                        const struct outcome *outcome)
{
    struct partition *p = batch->partition;
    const struct client_settings *settings = &sender->producer->settings.client;
    log_debug(sender->producer->log, "%s-%d: attempt %d failed and is repeated: %s", p->topic->name,
              (int)p->index, (int)batch->attempts, outcome->error.message);
    sender_requeue(p, batch);
    producer_count_retry(sender->producer, batch);
    if (!outcome->new_leader && !leads_anew(p))
        p->retry_at_ms = sender_now_ms(sender) +
                         backoff_after(sender->producer->client.env, settings->retry_backoff_ms,
                                       settings->retry_backoff_max_ms, p->failures);
    if (++p->failures >= TELL_AFTER_FAILURES)
        tell_of_trouble(sender, batch, outcome);
}
void sender_apply(struct sender *sender, struct producer_batch *batch, const struct outcome *outcome)
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
    case VERDICT_SPLIT: sender_apply_split(sender, batch, outcome); break;
    case VERDICT_FAIL: sender_apply_failure(sender, batch, outcome); break;
    }
}
