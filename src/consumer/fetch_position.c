/*
 * fetch_position.c - see fetch_position.h.
 */
#include "consumer/fetch_position.h"

#include <cafka/consumer.h>

#include "consumer/fetch_pump.h"
#include "protocol/errors.h"
#include "util/alloc.h"

/* Something that is being looked up for a partition. */
struct position_query {
    struct offset_query query; /* first */
    struct consumer_partition *partition;
};

void fetch_position_cancel(struct consumer_partition *p)
{
    if (!p->loop.query)
        return;
    offset_lookup_cancel(&p->loop.query->query);
    mem_free(p->loop.query);
    p->loop.query = NULL;
}

/* A query of this partition, not yet added; NULL: no memory, and it is tried again later. */
static struct offset_query *new_query(struct consumer_partition *p, offset_answer_fn *done)
{
    fetch_position_cancel(p);
    p->loop.query = mem_zalloc(sizeof *p->loop.query);
    if (!p->loop.query) {
        fetcher_back_off(p);
        return NULL;
    }
    p->loop.query->partition = p;
    struct offset_query *query = &p->loop.query->query;
    query->topic = p->loop.topic->metadata;
    query->partition = p->partition;
    query->epoch = -1;
    query->done = done;
    return query;
}

static struct consumer_partition *partition_of(struct offset_query *query)
{
    return container_of(query, struct position_query, query)->partition;
}

static void begin_fetching(struct consumer_partition *p)
{
    fetcher_set_state(p, PARTITION_FETCHING);
    fetch_stall_progress(p, STALL_NO_START);
    p->loop.attempts = 0;
    fetch_review(p);
    fetch_session_touch(&p->loop.session);
    fetcher_poke(fetcher_of(p)); /* one fetch for all that are found in this turn */
}

/* --- where it starts --- */

static void tell_no_policy(struct consumer_partition *p)
{
    cafka_error err = {0};
    error_set(&err, CAFKA_ERR_NO_OFFSET,
              "reading %s-%d: there is no offset to start from, or it is out of range, and "
              "auto.offset.reset is none; seek to one",
              p->topic, p->partition);
    fetcher_tell(p, &err);
}

/* The timestamp to look up; false if there is no policy. */
static bool lookup_timestamp(const struct consumer_partition *p, int64_t *timestamp)
{
    const struct fetcher *fetcher = fetcher_of(p);
    const struct consumer_settings *settings = fetcher->settings;
    if (p->loop.start != START_BY_POLICY) {
        *timestamp = start_is_time(p->loop.start) ? START_AT_TIME(p->loop.start) : p->loop.start;
        return true;
    }
    switch (settings->offset_reset) {
    case RESET_EARLIEST: *timestamp = CAFKA_OFFSET_BEGINNING; return true;
    case RESET_LATEST: *timestamp = CAFKA_OFFSET_END; return true;
    case RESET_BY_DURATION: { /* counted back from the time of the look-up (KIP-1106) */
        int64_t now_ms = env_wall_ms(fetcher->client->env);
        int64_t duration_ms = settings->offset_reset_duration_ms;
        *timestamp = duration_ms >= now_ms ? 0 : now_ms - duration_ms;
        return true;
    }
    default: return false;
    }
}

static void start_found(struct offset_query *query, int64_t offset, int64_t timestamp_ms,
                        int32_t leader_epoch, const cafka_error *error)
{
    (void)timestamp_ms;
    (void)leader_epoch; /* a position that was looked up has no epoch, since nothing was read */
    struct consumer_partition *p = partition_of(query);
    struct fetcher *fetcher = fetcher_of(p);
    if (error) {
        cafka_error err = *error;
        fetch_position_cancel(p);
        fetch_stall_suspect(p, STALL_NO_START, err.code);
        fetcher_tell(p, &err);
        return;
    }
    if (offset < 0 && query->timestamp_ms != CAFKA_OFFSET_END) { /* no record is that new */
        query->timestamp_ms = CAFKA_OFFSET_END;
        offset_lookup_add(fetcher->lookup, query);
        return;
    }
    bool at_end = query->timestamp_ms == CAFKA_OFFSET_END;
    fetch_position_cancel(p);
    struct chunk *chunk =
        offset < 0 ? NULL : fetch_queue_new_chunk(fetcher->queue, CHUNK_POSITION, p);
    if (!chunk) {
        fetcher_back_off(p);
        return;
    }
    chunk->position = offset;
    if (at_end)
        atomic_store_explicit(&p->readable_end, offset, memory_order_relaxed);
    if (at_end)
        atomic_fetch_add_explicit(&fetcher->queue->ends_moved, 1, memory_order_release);
    fetch_queue_push(fetcher->queue, chunk);
    p->loop.fetch_offset = offset;
    p->loop.fetch_epoch = -1;
    begin_fetching(p);
}

void fetch_position_start(struct consumer_partition *p, int64_t start, int32_t epoch)
{
    fetch_position_cancel(p);
    p->loop.start = start;
    if (start >= 0) {
        fetcher_set_state(p, PARTITION_FETCHING);
        p->loop.fetch_offset = start;
        p->loop.fetch_epoch = epoch;
        fetch_session_touch(&p->loop.session);
        fetch_review(p);
        fetch_position_validate(p);
        return;
    }
    fetcher_set_state(p, PARTITION_STARTING);
    fetch_review(p);
    int64_t timestamp_ms;
    if (!lookup_timestamp(p, &timestamp_ms)) {
        tell_no_policy(p);
        return;
    }
    struct offset_query *query = new_query(p, start_found);
    if (!query)
        return;
    query->timestamp_ms = timestamp_ms;
    fetch_stall_suspect(p, STALL_NO_START, 0);
    offset_lookup_add(fetcher_of(p)->lookup, query);
}

/* --- handing the decision over --- */

/* Tell the event function and the log: each time, for each time the position moves. */
static void report(struct consumer_partition *p, const cafka_error *error)
{
    int told = 0;
    client_report(fetcher_of(p)->client, &told, error, p->topic, p->partition,
                  p->loop.broker ? p->loop.broker->broker->id : -1);
}

/* The application is to go on at `start`; at once, or when it has read what is queued. */
static void hand_over(struct consumer_partition *p, int64_t start, int32_t epoch, bool at_once)
{
    struct fetch_queue *queue = fetcher_of(p)->queue;
    fetch_position_cancel(p);
    fetcher_set_state(p, PARTITION_WAITING);
    p->loop.start = start;
    p->loop.fetch_epoch = epoch;
    p->loop.reset_at_once = at_once;
    fetch_review(p);
    struct chunk *chunk = fetch_queue_new_chunk(queue, CHUNK_RESET, p);
    if (!chunk) {
        fetcher_back_off(p); /* fetch_position_again() */
        return;
    }
    chunk->position = start;
    chunk->epoch = epoch;
    chunk->at_once = at_once;
    p->loop.reset_told = true;
    fetch_queue_push(queue, chunk);
}

static bool has_policy(const struct consumer_partition *p)
{
    return fetcher_of(p)->settings->offset_reset != RESET_NONE;
}

void fetch_position_out_of_range(struct consumer_partition *p)
{
    cafka_error err = {0};
    error_set(&err, ERR_OFFSET_OUT_OF_RANGE,
              "reading %s-%d at offset %lld: the log has no such offset (any more); %s", p->topic,
              p->partition, (long long)p->loop.fetch_offset,
              has_policy(p) ? "auto.offset.reset says where to go on" : "seek to another one");
    if (!has_policy(p)) {
        fetcher_tell(p, &err);
        return;
    }
    report(p, &err);
    hand_over(p, START_BY_POLICY, -1, false);
}

void fetch_position_truncated(struct consumer_partition *p, int64_t offset, int32_t epoch)
{
    cafka_error err = {0};
    bool known = offset >= 0 && epoch >= 0;
    if (known)
        error_set(&err, CAFKA_ERR_TRUNCATED,
                  "reading %s-%d: the log was truncated to offset %lld of leader epoch %d, and "
                  "%lld of epoch %d had been read; %s",
                  p->topic, p->partition, (long long)offset, epoch, (long long)p->loop.fetch_offset,
                  p->loop.fetch_epoch, has_policy(p) ? "it goes on there" : "seek to go on");
    else
        error_set(&err, CAFKA_ERR_TRUNCATED,
                  "reading %s-%d: the log was truncated, it is not known where; %lld of leader epoch "
                  "%d had been read; %s",
                  p->topic, p->partition, (long long)p->loop.fetch_offset, p->loop.fetch_epoch,
                  has_policy(p) ? "auto.offset.reset says where to go on" : "seek to go on");
    if (!has_policy(p)) {
        fetcher_tell(p, &err); /* it stays where it is, and is looked at again */
        return;
    }
    report(p, &err);
    hand_over(p, known ? offset : START_BY_POLICY, known ? epoch : -1, true);
}

void fetch_position_recreated(struct consumer_partition *p)
{
    bool was_read = p->loop.state == PARTITION_FETCHING || p->loop.state == PARTITION_VALIDATING;
    p->loop.fetch_epoch = p->loop.leader_epoch = -1;
    if (p->loop.state == PARTITION_STARTING) {
        fetch_position_start(p, p->loop.start, -1); /* what the old topic answered is nothing now */
        return;
    }
    if (!was_read)
        return;
    cafka_error err = {0};
    error_set(&err, ERR_UNKNOWN_TOPIC_ID, "reading %s-%d: the topic was deleted and made again; %s",
              p->topic, p->partition,
              has_policy(p) ? "auto.offset.reset says where to begin" : "seek to begin");
    report(p, &err);
    hand_over(p, START_BY_POLICY, -1, true);
}

/* --- is it still there? --- */

/* The end of the epoch of what was read was asked for. */
static void end_found(struct offset_query *query, int64_t offset, int64_t timestamp_ms,
                      int32_t leader_epoch, const cafka_error *error)
{
    (void)timestamp_ms;
    struct consumer_partition *p = partition_of(query);
    int code = error ? error->code : 0;
    fetch_position_cancel(p);
    if (code && code != CAFKA_ERR_UNSUPPORTED) {
        cafka_error err = *error;
        fetch_stall_suspect(p, STALL_NO_START, code);
        fetcher_tell(p, &err);
    } else if (!code && (offset < 0 || leader_epoch < 0 || offset < p->loop.fetch_offset)) {
        fetch_position_truncated(p, offset, leader_epoch);
    } else {
        begin_fetching(p); /* brokers before 2.3 can't tell: as it was before KIP-320 */
    }
}

void fetch_position_validate(struct consumer_partition *p)
{
    const struct metadata_partition *known =
        metadata_partition(p->loop.topic->metadata, p->partition);
    bool was_validating = p->loop.state == PARTITION_VALIDATING;
    if (p->loop.state != PARTITION_FETCHING && !was_validating)
        return;
    if (p->loop.fetch_epoch < 0 || !known || known->leader_epoch < 0 || known->leader < 0) {
        if (was_validating)
            begin_fetching(p);
        return;
    }
    fetcher_set_state(p, PARTITION_VALIDATING);
    fetch_review(p);
    struct offset_query *query = new_query(p, end_found);
    if (!query)
        return;
    query->epoch = p->loop.fetch_epoch;
    fetch_stall_suspect(p, STALL_NO_START, 0);
    offset_lookup_add(fetcher_of(p)->lookup, query);
}

void fetch_position_again(struct consumer_partition *p)
{
    if (p->loop.query)
        return;
    if (p->loop.state == PARTITION_STARTING)
        fetch_position_start(p, p->loop.start, -1);
    else if (p->loop.state == PARTITION_VALIDATING)
        fetch_position_validate(p);
    else if (p->loop.state == PARTITION_WAITING && !p->loop.reset_told)
        hand_over(p, p->loop.start, p->loop.fetch_epoch, p->loop.reset_at_once);
}
