/*
 * fetch_answer.c - see fetch_answer.h.
 *
 * Reading: fetch_answer_handle(), then handle_partition().
 */
#include "consumer/fetch_answer.h"

#include "consumer/consumer_meters.h"
#include <cafka/consumer.h>

#include "consumer/fetch_position.h"
#include "consumer/fetch_pump.h"
#include "protocol/errors.h"
#include "protocol/messages/Fetch.h"

enum {
    VERSION_WITH_IDS = 13,
    KEEP_BYTES = 256 << 10 /* an answer about thousands of partitions is rare: its memory goes */
};

typedef struct fetch_response_partition_data partition_answer;
typedef struct fetch_response_fetchable_topic_response topic_answer;

/* --- records --- */

static int fill_filter(struct aborted_filter *filter, const partition_answer *answer,
                       cafka_error *err)
{
    aborted_reset(filter);
    for (int32_t i = 0; i < answer->aborted_transactions_count; i++)
        if (aborted_add(filter, answer->aborted_transactions[i].producer_id,
                        answer->aborted_transactions[i].first_offset, err))
            return CAFKA_ERR_MEMORY;
    aborted_sort(filter);
    return CAFKA_OK;
}

/* Brokers since 0.10.1 send the first batch whole, however large; older ones cut it at the limit. */
static void explain_part_of_batch(const struct consumer_partition *p, size_t came, size_t limit,
                                  cafka_error *err)
{
    if (came >= limit)
        error_set(err, CAFKA_ERR_TOO_LARGE,
                  "reading %s-%d at offset %lld: the batch there is larger than the broker sends with "
                  "max.partition.fetch.bytes=%zu; raise it",
                  p->topic, p->partition, (long long)p->loop.fetch_offset, limit);
    else
        error_set(err, CAFKA_ERR_CORRUPT,
                  "reading %s-%d at offset %lld: the batch there is cut off, only %zu bytes came",
                  p->topic, p->partition, (long long)p->loop.fetch_offset, came);
}

/* Check the batches and mark them. */
static void mark_records(struct consumer_partition *p, const partition_answer *answer,
                         struct fetch_marked *marked, cafka_error *err)
{
    struct fetcher *fetcher = fetcher_of(p);
    const struct consumer_settings *settings = fetcher->settings;
    struct bytes records = bytes_of(answer->records.data, answer->records.size);
    struct aborted_filter *filter = settings->read_committed ? &fetcher->aborted : NULL;
    *marked = (struct fetch_marked){0};
    int rc = filter ? fill_filter(filter, answer, err) : CAFKA_OK;
    if (!rc)
        rc = fetch_mark_batches(records, p->loop.fetch_offset, settings->check_crcs, filter, marked,
                                err);
    if (rc == CAFKA_ERR_CORRUPT) /* the reader tells when it gets there; not fetched again meanwhile */
        fetcher_delay(p, FETCH_CORRUPT_AGAIN_MS);
    if (rc || marked->used)
        return;
    explain_part_of_batch(p, records.size, (size_t)settings->max_partition_fetch_bytes, err);
    fetch_stall_suspect(p, STALL_CUT, err->code);
    fetcher_tell(p, err);
}

static void handle_records(struct consumer_partition *p, const partition_answer *answer,
                           struct fetch_memory *memory)
{
    struct fetch_queue *queue = fetcher_of(p)->queue;
    struct fetch_marked marked;
    cafka_error err = {0};
    mark_records(p, answer, &marked, &err);
    if (err.code == CAFKA_ERR_MEMORY) {
        fetcher_back_off(p);
        return;
    }
    if (!marked.used)
        return;
    struct chunk *chunk = fetch_queue_new_chunk(queue, CHUNK_DATA, p);
    if (!chunk) {
        fetcher_back_off(p); /* asked for again later */
        return;
    }
    chunk->memory = fetch_memory_ref(memory);
    chunk->batches = bytes_of(answer->records.data, marked.used);
    chunk->charged = marked.used;
    if (marked.compressed)
        chunk->ahead = fetch_ahead_new(chunk->batches, marked.compressed, memory);
    p->loop.fetch_offset = marked.next_offset;
    if (marked.any)
        p->loop.fetch_epoch = marked.leader_epoch;
    if (chunk->ahead) /* before the application has it */
        fetch_ahead_start(&fetcher_of(p)->inflater, chunk->ahead);
    fetch_queue_push(queue, chunk);
    if (marked.any)
        fetch_stall_progress(p, STALL_CAUSES);
    else
        fetch_stall_suspect(p, STALL_CUT, CAFKA_ERR_CORRUPT);
    fetch_session_touch(&p->loop.session);
    fetch_review(p);
}

/* --- errors --- */

static void tell_broker_error(struct consumer_partition *p, int code)
{
    cafka_error err = {0};
    error_set(&err, code, "reading %s-%d at offset %lld: the broker answered %s", p->topic,
              p->partition, (long long)p->loop.fetch_offset, cafka_error_name(code));
    fetcher_tell(p, &err);
}

static bool is_read_from_follower(const struct consumer_partition *p)
{
    return p->loop.preferred >= 0 && p->loop.broker->broker->id == p->loop.preferred;
}

/* A new leader may be named in the answer (KIP-951). */
static void take_hint(struct consumer_partition *p, const partition_answer *answer)
{
    const struct fetch_response_leader_id_and_epoch *leader = &answer->current_leader;
    struct metadata *metadata = fetcher_of(p)->client->metadata;
    if (leader->leader_id < 0 || leader->leader_epoch < 0 ||
        !metadata_hint_leader(metadata, p->loop.topic->metadata, p->partition, leader->leader_id,
                              leader->leader_epoch))
        return;
    fetcher_leader_changed(p);
    fetcher_poke(fetcher_of(p));
}

static void handle_error(struct consumer_partition *p, const partition_answer *answer)
{
    struct fetcher *fetcher = fetcher_of(p);
    int code = answer->error_code;
    if (is_read_from_follower(p)) { /* the leader knows better */
        log_debug(fetcher->client->log, "%s-%d: %s from follower %d", p->topic, p->partition,
                  cafka_error_name(code), p->loop.preferred);
        fetcher_prefer(p, -1);
        if (code == ERR_OFFSET_OUT_OF_RANGE)
            return;
    }
    fetch_stall_suspect(p, STALL_ERRORS, code);
    switch (code) {
    case ERR_OFFSET_OUT_OF_RANGE: fetch_position_out_of_range(p); break;
    case ERR_NOT_LEADER_OR_FOLLOWER:
    case ERR_FENCED_LEADER_EPOCH:
    case ERR_LEADER_NOT_AVAILABLE:
    case ERR_REPLICA_NOT_AVAILABLE:
    case ERR_KAFKA_STORAGE_ERROR:
    case ERR_OFFSET_NOT_AVAILABLE:
    case ERR_UNKNOWN_TOPIC_OR_PARTITION:
    case ERR_UNKNOWN_TOPIC_ID:
    case ERR_INCONSISTENT_TOPIC_ID:
    case ERR_UNKNOWN_LEADER_EPOCH:
        metadata_refresh(fetcher->client->metadata);
        fetcher_back_off(p);
        take_hint(p, answer);
        break;
    case ERR_UNKNOWN_SERVER_ERROR:
        log_debug(fetcher->client->log, "%s-%d: the broker failed by UNKNOWN_SERVER_ERROR",
                  p->topic, p->partition); /* if it stays, it is told as a stall */
        fetcher_back_off(p);
        break;
    default: tell_broker_error(p, code);
    }
}

/* --- partitions --- */

/* Where what this consumer may read ends now. Brokers before 0.11 know no last stable offset. */
static int64_t readable_end(const struct fetcher *fetcher, const partition_answer *answer)
{
    bool stable = fetcher->settings->read_committed && answer->last_stable_offset >= 0;
    return stable ? answer->last_stable_offset : answer->high_watermark;
}

static bool take_end(struct consumer_partition *p, int64_t end)
{
    if (end < 0 || atomic_exchange_explicit(&p->readable_end, end, memory_order_relaxed) == end)
        return false;
    atomic_fetch_add_explicit(&fetcher_of(p)->queue->ends_moved, 1, memory_order_release);
    return true;
}

/*
 * The log's marks hold whatever has become of the question meanwhile. A broker does not tell them
 * again within a session, so they are taken even where the data comes too late to be used. True if
 * the end has moved.
 */
static bool take_marks(struct consumer_partition *p, const partition_answer *answer)
{
    if (answer->error_code || answer->diverging_epoch.end_offset >= 0)
        return false;
    if (answer->high_watermark >= 0)
        atomic_store_explicit(&p->high_watermark, answer->high_watermark, memory_order_relaxed);
    if (answer->log_start_offset >= 0)
        atomic_store_explicit(&p->log_start, answer->log_start_offset, memory_order_relaxed);
    return take_end(p, readable_end(fetcher_of(p), answer));
}

/* Nothing came, and that is right if there is nothing. */
static void handle_empty(struct consumer_partition *p, const partition_answer *answer)
{
    struct fetcher *fetcher = fetcher_of(p);
    int64_t end = readable_end(fetcher, answer);
    if (end > p->loop.fetch_offset)
        fetch_stall_suspect(p, STALL_EMPTY, 0);
    else
        fetch_stall_progress(p, STALL_CAUSES);
}

static void handle_partition(struct consumer_partition *p, const partition_answer *answer,
                             struct fetch_memory *memory)
{
    if (p->loop.asked_generation != p->loop.generation || p->loop.state != PARTITION_FETCHING)
        return; /* asked before a seek */
    if (answer->error_code) {
        handle_error(p, answer);
        return;
    }
    if (answer->diverging_epoch.end_offset >= 0) {
        fetch_position_truncated(p, answer->diverging_epoch.end_offset,
                                 answer->diverging_epoch.epoch);
        return;
    }
    if (answer->preferred_read_replica >= 0 &&
        answer->preferred_read_replica != p->loop.broker->broker->id) {
        fetcher_prefer(p, answer->preferred_read_replica);
        return;
    }
    p->loop.attempts = 0;
    if (answer->records.size)
        handle_records(p, answer, memory);
    else
        handle_empty(p, answer);
}

/* --- the whole answer --- */

static const char *name_of_topic(struct fetcher *fetcher, const topic_answer *answer, int version)
{
    struct metadata *metadata = fetcher->client->metadata;
    struct metadata_topic *topic = version >= VERSION_WITH_IDS
                                       ? metadata_topic_find_id(metadata, answer->topic_id)
                                       : metadata_topic_find(metadata, answer->topic);
    const struct consumer_topic *known = topic ? topic->user : NULL;
    return known ? known->name : NULL;
}

/* The partition an answer is about, if it is read from this broker; else NULL. */
static struct consumer_partition *find_partition(struct fetch_broker *fb, const char *topic,
                                                 int32_t number)
{
    struct consumer_partition *p = partition_table_get(&fb->fetcher->partitions, topic, number);
    return p && p->loop.topic && p->loop.broker == fb ? p : NULL;
}

/* Has it been a member of the session since the question was asked? */
static bool was_asked_for(const struct fetch_broker *fb, const struct consumer_partition *p)
{
    return p && p->loop.session.session == &fb->session && p->loop.session.told;
}

static void handle_one(struct fetch_broker *fb, struct consumer_partition *p,
                       const partition_answer *answer, struct fetch_memory *memory)
{
    bool end_moved = take_marks(p, answer);
    if (was_asked_for(fb, p))
        handle_partition(p, answer, memory);
    if (end_moved && !answer->records.size)
        fetch_queue_wake(fb->fetcher->queue); /* who waits for the end may have come to it */
}

static void take_endpoints(struct fetcher *fetcher, const struct fetch_response *answer)
{
    for (int32_t i = 0; i < answer->node_endpoints_count; i++)
        metadata_hint_broker(fetcher->client->metadata, answer->node_endpoints[i].node_id,
                             answer->node_endpoints[i].host, answer->node_endpoints[i].port,
                             answer->node_endpoints[i].rack);
}

static void handle_partitions(struct fetch_broker *fb, const struct fetch_response *answer,
                              const struct reply *reply)
{
    struct fetch_memory *memory = fetch_memory_of_frame(fb->fetcher->budget, reply->frame);
    if (!memory) {
        fetch_session_failed(&fb->session);
        return;
    }
    for (int32_t t = 0; t < answer->responses_count; t++) {
        const topic_answer *topic = &answer->responses[t];
        const char *name = name_of_topic(fb->fetcher, topic, reply->version);
        for (int32_t i = 0; i < topic->partitions_count; i++) {
            struct consumer_partition *p =
                find_partition(fb, name, topic->partitions[i].partition_index);
            if (p)
                handle_one(fb, p, &topic->partitions[i], memory);
        }
    }
    fetch_memory_unref(memory);
}

static void count_partitions(struct fetch_broker *fb, const struct fetch_response *answer,
                             int version, size_t *listed, size_t *unknown)
{
    *listed = *unknown = 0;
    for (int32_t t = 0; t < answer->responses_count; t++) {
        const topic_answer *topic = &answer->responses[t];
        const char *name = name_of_topic(fb->fetcher, topic, version);
        *listed += (size_t)topic->partitions_count;
        for (int32_t i = 0; i < topic->partitions_count; i++)
            *unknown +=
                !was_asked_for(fb, find_partition(fb, name, topic->partitions[i].partition_index));
    }
}

static void count_answer(const struct fetch_broker *fb, const struct fetch_response *answer)
{
    struct fetcher *fetcher = fb->fetcher;
    int64_t now_ms = loop_now_ms(fetcher->client->loop);
    size_t bytes = 0;
    for (int32_t t = 0; t < answer->responses_count; t++)
        for (int32_t i = 0; i < answer->responses[t].partitions_count; i++)
            bytes += answer->responses[t].partitions[i].records.size;
    if (fetcher->meters)
        consumer_count_fetch(fetcher->meters, now_ms, now_ms - fb->sent_ms, (int64_t)bytes,
                             answer->throttle_time_ms);
}

static void handle_answer(struct fetch_broker *fb, const struct reply *reply)
{
    struct fetcher *fetcher = fb->fetcher;
    struct fetch_response answer;
    size_t listed, unknown;
    cafka_error err = {0};
    arena_reset(&fetcher->answer);
    if (reply_decode(reply, &fetcher->answer, &answer, &err)) {
        fetch_session_failed(&fb->session);
        return;
    }
    count_answer(fb, &answer);
    if (fetcher->stopping)
        return;
    count_partitions(fb, &answer, reply->version, &listed, &unknown);
    if (fetch_session_answered(&fb->session, answer.error_code, answer.session_id, listed, unknown,
                               answer.throttle_time_ms > 0) == FETCH_SESSION_DROP) {
        log_debug(fetcher->client->log, "fetch session with broker %d begins anew", fb->broker->id);
        return;
    }
    take_endpoints(fetcher, &answer);
    handle_partitions(fb, &answer, reply);
}

void fetch_answer_handle(struct fetch_broker *fb, const struct reply *reply)
{
    struct fetcher *fetcher = fb->fetcher;
    handle_answer(fb, reply);
    if (fetcher->answer.used > KEEP_BYTES)
        arena_fini(&fetcher->answer);
    else
        arena_reset(&fetcher->answer);
}
