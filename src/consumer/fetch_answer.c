/*
 * fetch_answer.c - see fetch_answer.h.
 *
 * Reading: fetch_answer_handle(), then handle_partition().
 */
#include "consumer/fetch_answer.h"

#include <cafka/consumer.h>

#include "protocol/errors.h"
#include "protocol/messages/Fetch.h"

typedef struct fetch_response_partition_data partition_answer;
typedef struct fetch_response_fetchable_topic_response topic_answer;

/* --- partitions --- */

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

static void handle_records(struct fetcher *fetcher, struct consumer_partition *p,
                           const partition_answer *answer, struct fetch_memory *memory)
{
    const struct consumer_settings *settings = fetcher->settings;
    struct bytes records = bytes_of(answer->records.data, answer->records.size);
    struct aborted_filter *filter = settings->read_committed ? &fetcher->aborted : NULL;
    cafka_error err = {0};
    size_t used = 0;
    int64_t next_offset = 0;
    int rc = filter ? fill_filter(filter, answer, &err) : CAFKA_OK;
    if (!rc)
        rc = fetch_mark_batches(records, p->loop.fetch_offset, settings->check_crcs, filter, &used,
                                &next_offset, &err);
    if (rc ==
        CAFKA_ERR_CORRUPT) { /* the reader tells when it gets there; not fetched again meanwhile */
        rc = CAFKA_OK;
        p->loop.not_before_ms = loop_now_ms(fetcher->client->loop) + FETCH_CORRUPT_AGAIN_MS;
    }
    struct chunk *chunk = rc || !used ? NULL : fetch_queue_new_chunk(fetcher->queue, CHUNK_DATA, p);
    if (!rc && !used) {
        explain_part_of_batch(p, records.size, (size_t)settings->max_partition_fetch_bytes, &err);
        fetcher_tell(fetcher, p, &err);
    } else if (!chunk) {
        fetcher_back_off(fetcher, p); /* no memory; asked for again later */
    } else {
        chunk->memory = fetch_memory_ref(memory);
        chunk->batches = bytes_of(records.data, used);
        chunk->charged = used;
        p->loop.fetch_offset = next_offset;
        fetch_queue_push(fetcher->queue, chunk);
    }
}

static void tell_broker_error(struct fetcher *fetcher, struct consumer_partition *p, int code)
{
    cafka_error err = {0};
    error_set(&err, code, "reading %s-%d at offset %lld: the broker answered %s", p->topic,
              p->partition, (long long)p->loop.fetch_offset, cafka_error_name(code));
    fetcher_tell(fetcher, p, &err);
}

static void handle_out_of_range(struct fetcher *fetcher, struct consumer_partition *p)
{
    log_warn(fetcher->client->log, "%s-%d: offset %lld is out of range", p->topic, p->partition,
             (long long)p->loop.fetch_offset);
    if (fetcher->settings->offset_reset == RESET_NONE)
        tell_broker_error(fetcher, p, ERR_OFFSET_OUT_OF_RANGE);
    else
        fetcher_start_partition(fetcher, p, START_BY_POLICY);
}

/* A new leader may be named in the answer (KIP-951). */
static void take_hint(struct fetcher *fetcher, struct consumer_partition *p,
                      const partition_answer *answer)
{
    const struct fetch_response_leader_id_and_epoch *leader = &answer->current_leader;
    if (leader->leader_id >= 0 && leader->leader_epoch >= 0 &&
        metadata_hint_leader(fetcher->client->metadata, p->loop.topic->metadata, p->partition,
                             leader->leader_id, leader->leader_epoch))
        fetcher_topic_changed(fetcher, p->loop.topic->metadata, METADATA_LEADERS);
}

static void handle_error(struct fetcher *fetcher, struct consumer_partition *p,
                         const partition_answer *answer)
{
    switch (answer->error_code) {
    case ERR_OFFSET_OUT_OF_RANGE: handle_out_of_range(fetcher, p); break;
    case ERR_NOT_LEADER_OR_FOLLOWER:
    case ERR_FENCED_LEADER_EPOCH: take_hint(fetcher, p, answer); /* fall through */
    case ERR_LEADER_NOT_AVAILABLE:
    case ERR_REPLICA_NOT_AVAILABLE:
    case ERR_KAFKA_STORAGE_ERROR:
    case ERR_OFFSET_NOT_AVAILABLE:
    case ERR_UNKNOWN_TOPIC_OR_PARTITION:
    case ERR_UNKNOWN_TOPIC_ID:
    case ERR_INCONSISTENT_TOPIC_ID:
    case ERR_UNKNOWN_LEADER_EPOCH:
        metadata_refresh(fetcher->client->metadata);
        fetcher_back_off(fetcher, p);
        break;
    case ERR_UNKNOWN_SERVER_ERROR:
        log_warn(fetcher->client->log, "%s-%d: the broker failed by UNKNOWN_SERVER_ERROR", p->topic,
                 p->partition);
        fetcher_back_off(fetcher, p);
        break;
    default: tell_broker_error(fetcher, p, answer->error_code);
    }
}

/* Where what this consumer may read ends now. Brokers before 0.11 know no last stable offset. */
static int64_t readable_end(const struct fetcher *fetcher, const partition_answer *answer)
{
    bool stable = fetcher->settings->read_committed && answer->last_stable_offset >= 0;
    return stable ? answer->last_stable_offset : answer->high_watermark;
}

static bool take_end(struct consumer_partition *p, int64_t end)
{
    return end >= 0 && atomic_exchange_explicit(&p->readable_end, end, memory_order_relaxed) != end;
}

static void handle_partition(struct fetcher *fetcher, struct consumer_partition *p,
                             const partition_answer *answer, struct fetch_memory *memory)
{
    if (p->loop.asked_generation != p->loop.generation || p->loop.state != PARTITION_FETCHING)
        return; /* asked before a seek */
    if (answer->error_code) {
        handle_error(fetcher, p, answer);
        return;
    }
    p->loop.attempts = 0;
    if (answer->high_watermark >= 0)
        atomic_store_explicit(&p->high_watermark, answer->high_watermark, memory_order_relaxed);
    if (answer->log_start_offset >= 0)
        atomic_store_explicit(&p->log_start, answer->log_start_offset, memory_order_relaxed);
    bool end_moved = take_end(p, readable_end(fetcher, answer));
    if (answer->records.size)
        handle_records(fetcher, p, answer, memory);
    else if (end_moved)
        fetch_queue_wake(fetcher->queue); /* who waits for the end may have come to it */
}

/* --- the whole answer --- */

static struct consumer_topic *find_topic(struct fetcher *fetcher, const topic_answer *answer,
                                         int version)
{
    struct metadata *metadata = fetcher->client->metadata;
    struct metadata_topic *topic = version >= 13 ? metadata_topic_find_id(metadata, answer->topic_id)
                                                 : metadata_topic_find(metadata, answer->topic);
    return topic ? topic->user : NULL;
}

/* The partition an answer is about, if it was asked for in this session; else NULL. */
static struct consumer_partition *find_partition(struct fetch_broker *fb, const topic_answer *topic,
                                                 int version, int32_t number)
{
    struct consumer_topic *known = find_topic(fb->fetcher, topic, version);
    struct consumer_partition *p = known ? map_get_int(&known->by_number, number) : NULL;
    return p && p->loop.session.session == &fb->session ? p : NULL;
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
    for (int32_t t = 0; t < answer->responses_count; t++)
        for (int32_t i = 0; i < answer->responses[t].partitions_count; i++) {
            const partition_answer *part = &answer->responses[t].partitions[i];
            struct consumer_partition *p =
                find_partition(fb, &answer->responses[t], reply->version, part->partition_index);
            if (p)
                handle_partition(fb->fetcher, p, part, memory);
        }
    fetch_memory_unref(memory);
}

static void count_partitions(struct fetch_broker *fb, const struct fetch_response *answer,
                             int version, size_t *listed, size_t *unknown)
{
    *listed = *unknown = 0;
    for (int32_t t = 0; t < answer->responses_count; t++)
        for (int32_t i = 0; i < answer->responses[t].partitions_count; i++, ++*listed)
            *unknown += !find_partition(fb, &answer->responses[t], version,
                                        answer->responses[t].partitions[i].partition_index);
}

void fetch_answer_handle(struct fetch_broker *fb, const struct reply *reply)
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
