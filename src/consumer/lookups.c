/*
 * lookups.c - the consumer's calls that ask brokers and wait: offsets by time or place, and how
 * many partitions a topic has.
 *
 * The call's data lies on the caller's stack. The loop works on it between two client_run() calls,
 * the first of which starts and the last of which ends that; nothing of it outlives the call.
 */
#include "consumer/consumer.h"

#include "protocol/errors.h"
#include "util/alloc.h"

/* --- offsets --- */

struct offsets_call {
    cafka_consumer *consumer;
    cafka_position *positions;
    size_t count;
    struct one_offset {
        struct offset_query query; /* first */
        struct offsets_call *call;
        cafka_position *position;
        bool answered;
    } * items;
    atomic_size_t waiting;
};

static void offset_answered(struct offset_query *query, int64_t offset, int64_t timestamp_ms,
                            int32_t leader_epoch, const cafka_error *error)
{
    struct one_offset *item = container_of(query, struct one_offset, query);
    item->answered = true;
    item->position->offset = error || offset < 0 ? CAFKA_OFFSET_NONE : offset;
    item->position->timestamp_ms = error ? -1 : timestamp_ms;
    item->position->leader_epoch = error ? -1 : leader_epoch;
    item->position->error = error ? error->code : CAFKA_OK;
    if (!error && offset >= 0)
        item->position->flags |= CAFKA_POSITION_OFFSET;
    atomic_fetch_sub(&item->call->waiting, 1);
    fetch_queue_wake(&item->call->consumer->reader->queue);
}

static void start_lookup(void *arg)
{
    struct offsets_call *call = arg;
    for (size_t i = 0; i < call->count; i++) {
        struct one_offset *item = &call->items[i];
        item->call = call;
        item->position = &call->positions[i];
        item->query.partition = item->position->partition;
        item->query.timestamp_ms = item->position->timestamp_ms;
        item->query.epoch = -1;
        item->query.done = offset_answered;
        if (metadata_topic_ref(call->consumer->client.metadata, str_of(item->position->topic),
                               &item->query.topic, NULL)) {
            item->answered = true;
            item->position->error = CAFKA_ERR_MEMORY;
            atomic_fetch_sub(&call->waiting, 1);
        } else {
            offset_lookup_add(&call->consumer->lookup, &item->query);
        }
    }
}

/* Why there was no answer in time. */
static int missing_reason(const struct offset_query *query)
{
    if (query->topic->error.code)
        return query->topic->error.code;
    if (query->topic->known && query->partition >= query->topic->partition_count)
        return ERR_UNKNOWN_TOPIC_OR_PARTITION;
    return CAFKA_ERR_TIMEOUT;
}

static void end_lookup(void *arg)
{
    struct offsets_call *call = arg;
    for (size_t i = 0; i < call->count; i++) {
        struct one_offset *item = &call->items[i];
        if (!item->query.topic)
            continue;
        offset_lookup_cancel(&item->query);
        if (!item->answered) {
            item->position->offset = CAFKA_OFFSET_NONE;
            item->position->timestamp_ms = -1;
            item->position->leader_epoch = -1;
            item->position->error = missing_reason(&item->query);
        }
        metadata_topic_unref(call->consumer->client.metadata, item->query.topic);
    }
}

static int look_up(struct offsets_call *call, int64_t timeout_ms, cafka_error *err)
{
    cafka_consumer *consumer = call->consumer;
    int64_t deadline = client_deadline(&consumer->client, timeout_ms);
    atomic_store(&call->waiting, call->count);
    int rc = client_run(&consumer->client, start_lookup, call, err);
    if (rc)
        return rc;
    while (!rc && atomic_load(&call->waiting)) {
        reader_take_news(consumer->reader);
        rc = consumer_wait(consumer, deadline, err);
    }
    (void)client_run(&consumer->client, end_lookup, call, NULL);
    if (rc != CAFKA_ERR_TIMEOUT)
        return rc;
    error_clear(err);
    for (size_t i = 0; i < call->count; i++)
        if (call->items[i].answered)
            return CAFKA_OK; /* the others' errors are in their entries */
    cafka_position *first = &call->positions[0];
    return error_set(err, first->error, "no offset of %s-%d within %lld ms: %s", first->topic,
                     first->partition, (long long)timeout_ms, cafka_error_name(first->error));
}

int cafka_consumer_list_offsets(cafka_consumer *consumer, cafka_position *positions, size_t count,
                                int64_t timeout_ms, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc || !count) {
        if (!rc)
            consumer_leave(consumer);
        return rc;
    }
    struct offsets_call call = {.consumer = consumer, .positions = positions, .count = count};
    if (!positions)
        rc = error_set(err, CAFKA_ERR_ARGUMENT, "%zu positions at NULL", count);
    for (size_t i = 0; !rc && i < count; i++) {
        positions[i].flags &= ~(unsigned)CAFKA_POSITION_OFFSET;
        if (!positions[i].topic || positions[i].partition < 0)
            rc = error_set(err, CAFKA_ERR_ARGUMENT,
                           "entry %zu names no topic, or a negative partition", i);
    }
    call.items = rc ? NULL : mem_calloc(count, sizeof *call.items);
    if (!rc && !call.items)
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory to look up %zu offsets", count);
    if (!rc)
        rc = look_up(&call, timeout_ms, err);
    mem_free(call.items);
    consumer_leave(consumer);
    return rc;
}

static int list_place(cafka_consumer *consumer, cafka_position *positions, size_t count,
                      int64_t place, int64_t timeout_ms, cafka_error *err)
{
    for (size_t i = 0; positions && i < count; i++)
        positions[i].timestamp_ms = place;
    return cafka_consumer_list_offsets(consumer, positions, count, timeout_ms, err);
}

int cafka_consumer_begin_offsets(cafka_consumer *consumer, cafka_position *positions, size_t count,
                                 int64_t timeout_ms, cafka_error *err)
{
    return list_place(consumer, positions, count, CAFKA_OFFSET_BEGINNING, timeout_ms, err);
}

int cafka_consumer_end_offsets(cafka_consumer *consumer, cafka_position *positions, size_t count,
                               int64_t timeout_ms, cafka_error *err)
{
    return list_place(consumer, positions, count, CAFKA_OFFSET_END, timeout_ms, err);
}

/* --- partitions of a topic --- */

/* So many answers "unknown topic" in a row are believed: one that is being made needs a moment. */
enum { BELIEVE_UNKNOWN = 3, LOOK_AGAIN_MS = 100 };

struct partitions_call {
    cafka_consumer *consumer;
    const char *name;
    struct metadata_topic *topic;
    int32_t count; /* -1: not known yet */
    cafka_error last;
    bool final;
    int rc;
};

static void ask_topic(void *arg)
{
    struct partitions_call *call = arg;
    call->rc =
        metadata_topic_ref(call->consumer->client.metadata, str_of(call->name), &call->topic, NULL);
}

static void look_at_topic(void *arg)
{
    struct partitions_call *call = arg;
    const struct metadata_topic *topic = call->topic;
    call->last = topic->error;
    call->count = topic->known && !topic->error.code ? topic->partition_count : -1;
    int code = topic->error.code;
    call->final =
        code && (!protocol_error_retriable(code) ||
                 (code == ERR_UNKNOWN_TOPIC_OR_PARTITION && topic->unhelpful >= BELIEVE_UNKNOWN));
    if (!code && call->count < 0)
        call->last = *metadata_last_error(call->consumer->client.metadata);
}

static void let_topic_go(void *arg)
{
    struct partitions_call *call = arg;
    metadata_topic_unref(call->consumer->client.metadata, call->topic);
}

static int wait_for_topic(struct partitions_call *call, int64_t timeout_ms, cafka_error *err)
{
    cafka_consumer *consumer = call->consumer;
    int64_t deadline = client_deadline(&consumer->client, timeout_ms);
    int rc = client_run(&consumer->client, look_at_topic, call, err);
    while (!rc && call->count < 0 && !call->final) {
        error_clear(err);
        int64_t look_again =
            consumer->client.env->now(consumer->client.env) + LOOK_AGAIN_MS * NS_PER_MS;
        rc = consumer_wait(consumer, look_again < deadline ? look_again : deadline, err);
        if (rc == CAFKA_ERR_TIMEOUT && look_again < deadline)
            rc = CAFKA_OK; /* an answer that changes nothing wakes nobody, but is counted */
        int again = client_run(&consumer->client, look_at_topic, call, NULL);
        rc = rc ? rc : again;
        reader_take_news(consumer->reader);
    }
    if (rc == CAFKA_ERR_TIMEOUT && call->last.code) {
        error_clear(err);
        return error_set(err,
                         call->last.code == ERR_UNKNOWN_TOPIC_OR_PARTITION ? call->last.code : rc,
                         "partitions of topic %s: not known within %lld ms: %s", call->name,
                         (long long)timeout_ms, call->last.message);
    }
    if (!rc && call->count < 0) {
        if (err)
            *err = call->last;
        return call->last.code;
    }
    return rc;
}

int cafka_consumer_partitions(cafka_consumer *consumer, const char *topic, int64_t timeout_ms,
                              int32_t *count, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    struct partitions_call call = {.consumer = consumer, .name = topic, .count = -1};
    rc = topic && *topic ? client_run(&consumer->client, ask_topic, &call, err)
                         : error_set(err, CAFKA_ERR_ARGUMENT, "partitions of which topic?");
    if (!rc && call.rc)
        rc = error_set(err, call.rc, "no memory to ask for topic %s", topic);
    if (!rc) {
        rc = wait_for_topic(&call, timeout_ms, err);
        (void)client_run(&consumer->client, let_topic_go, &call, NULL);
    }
    if (!rc && count)
        *count = call.count;
    consumer_leave(consumer);
    return rc;
}
