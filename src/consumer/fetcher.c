/*
 * fetcher.c - see fetcher.h. Requests are put together in fetch_request.c, answers taken apart in
 * fetch_answer.c.
 */
#include "consumer/fetcher.h"

#include <assert.h>

#include <cafka/consumer.h>

#include "consumer/fetch_answer.h"
#include "consumer/fetch_request.h"
#include "protocol/api_keys.h"
#include "protocol/errors.h"
#include "util/alloc.h"

enum {
    TELL_AGAIN_MS = 1000,   /* an error that stays is told once a second */
    MISSING_AFTER_MS = 3000 /* so long a topic may be on its way into being */
};

static void run_kick(struct loop_task *task);
static void timer_fired(struct timer *timer);
static void pump(struct fetch_broker *fb);
static void answered(struct request *request, const struct reply *reply);

/* --- life --- */

void fetcher_init(struct fetcher *fetcher, struct client *client,
                  const struct consumer_settings *settings, struct fetch_queue *queue,
                  struct fetch_budget *budget, struct offset_lookup *lookup)
{
    *fetcher = (struct fetcher){.client = client,
                                .settings = settings,
                                .queue = queue,
                                .budget = budget,
                                .lookup = lookup};
    list_init(&fetcher->brokers);
    list_init(&fetcher->homeless);
    fetcher->timer.fire = timer_fired;
    fetcher->kick.run = run_kick;
}

static void drop_session_members(struct fetch_broker *fb)
{
    struct list *link;
    while ((link = list_first(&fb->session.members)))
        fetch_session_drop(list_item(link, struct fetch_session_entry, link));
}

static void set_state(struct consumer_partition *p, enum partition_state next)
{
    static const unsigned may_follow[PARTITION_STATES] = {
        [PARTITION_NEW] = 1u << PARTITION_STARTING | 1u << PARTITION_FETCHING | 1u << PARTITION_GONE,
        [PARTITION_STARTING] =
            1u << PARTITION_STARTING | 1u << PARTITION_FETCHING | 1u << PARTITION_GONE,
        [PARTITION_FETCHING] =
            1u << PARTITION_STARTING | 1u << PARTITION_FETCHING | 1u << PARTITION_GONE,
        [PARTITION_GONE] = 1u << PARTITION_STARTING | 1u << PARTITION_FETCHING,
    };
    assert(may_follow[p->loop.state] & 1u << next);
    (void)may_follow;
    p->loop.state = next;
}

static void remove_partition(struct fetcher *fetcher, struct consumer_partition *p)
{
    struct consumer_topic *topic = p->loop.topic;
    offset_lookup_cancel(&p->loop.query);
    fetch_session_leave(&p->loop.session);
    list_remove(&p->loop.at_broker);
    list_remove(&p->loop.link);
    set_state(p, PARTITION_GONE);
    p->loop.broker = NULL;
    p->loop.topic = NULL;
    map_remove_int(&topic->by_number, p->partition);
    if (list_empty(&topic->partitions)) {
        topic->metadata->user = NULL;
        metadata_topic_unref(fetcher->client->metadata, topic->metadata);
        map_fini(&topic->by_number);
        mem_free(topic);
    }
    consumer_partition_unref(p);
}

static void remove_all(struct fetcher *fetcher, struct list *partitions)
{
    struct list *link;
    while ((link = list_first(partitions)))
        remove_partition(fetcher, list_item(link, struct consumer_partition, loop.at_broker));
}

void fetcher_fini(struct fetcher *fetcher)
{
    if (!fetcher->client)
        return;
    struct list *link;
    while ((link = list_pop_front(&fetcher->brokers))) {
        struct fetch_broker *fb = list_item(link, struct fetch_broker, link);
        remove_all(fetcher, &fb->partitions);
        if (fb->in_flight)
            conn_cancel(&fb->request);
        fb->broker->user = NULL;
        mem_free(fb);
    }
    remove_all(fetcher, &fetcher->homeless);
    loop_timer_cancel(fetcher->client->loop, &fetcher->timer);
    arena_fini(&fetcher->build);
    arena_fini(&fetcher->answer);
    aborted_fini(&fetcher->aborted);
}

/* --- telling --- */

void fetcher_tell(struct fetcher *fetcher, struct consumer_partition *p, const cafka_error *error)
{
    int64_t now_ms = loop_now_ms(fetcher->client->loop);
    p->loop.not_before_ms = now_ms + TELL_AGAIN_MS;
    fetcher_wake_at(fetcher, p->loop.not_before_ms);
    if (atomic_load(&p->error_queued))
        return; /* the application has not taken the last one yet */
    struct chunk *chunk = fetch_queue_new_chunk(fetcher->queue, CHUNK_ERROR, p);
    if (!chunk)
        return; /* told when it is tried again */
    chunk->error = *error;
    atomic_store(&p->error_queued, true);
    fetch_queue_push(fetcher->queue, chunk);
}

void fetcher_wake_at(struct fetcher *fetcher, int64_t when_ms)
{
    if (!timer_is_set(&fetcher->timer) || fetcher->timer.deadline_ms > when_ms)
        loop_timer_set(fetcher->client->loop, &fetcher->timer, when_ms);
}

void fetcher_back_off(struct fetcher *fetcher, struct consumer_partition *p)
{
    const struct client_settings *common = &fetcher->settings->client;
    int64_t wait_ms = backoff_after(fetcher->client->env, common->retry_backoff_ms,
                                    common->retry_backoff_max_ms, p->loop.attempts++);
    p->loop.not_before_ms = loop_now_ms(fetcher->client->loop) + wait_ms;
    fetcher_wake_at(fetcher, p->loop.not_before_ms);
}

/* --- where a partition starts --- */

static void tell_no_policy(struct fetcher *fetcher, struct consumer_partition *p)
{
    cafka_error err = {0};
    error_set(&err, CAFKA_ERR_NO_OFFSET,
              "reading %s-%d: there is no offset to start from, or it is out of range, and "
              "auto.offset.reset is none; seek to one",
              p->topic, p->partition);
    fetcher_tell(fetcher, p, &err);
}

static void start_found(struct offset_query *query, int64_t offset, int64_t timestamp_ms,
                        int32_t leader_epoch, const cafka_error *error);

/* The timestamp to look up; false if there is no policy. */
static bool lookup_timestamp(struct fetcher *fetcher, const struct consumer_partition *p,
                             int64_t *timestamp)
{
    const struct consumer_settings *settings = fetcher->settings;
    if (p->loop.start != START_BY_POLICY) {
        *timestamp = p->loop.start;
        return true;
    }
    switch (settings->offset_reset) {
    case RESET_EARLIEST: *timestamp = CAFKA_OFFSET_BEGINNING; return true;
    case RESET_LATEST: *timestamp = CAFKA_OFFSET_END; return true;
    case RESET_BY_DURATION: {
        int64_t now_ms = env_wall_ms(fetcher->client->env);
        int64_t duration_ms = settings->offset_reset_duration_ms;
        *timestamp = duration_ms >= now_ms ? 0 : now_ms - duration_ms;
        return true;
    }
    default: return false;
    }
}

void fetcher_start_partition(struct fetcher *fetcher, struct consumer_partition *p, int64_t start)
{
    offset_lookup_cancel(&p->loop.query);
    p->loop.start = start;
    if (start >= 0) {
        set_state(p, PARTITION_FETCHING);
        p->loop.fetch_offset = start;
        return;
    }
    set_state(p, PARTITION_STARTING);
    struct offset_query *query = &p->loop.query;
    if (!lookup_timestamp(fetcher, p, &query->timestamp_ms)) {
        tell_no_policy(fetcher, p);
        return;
    }
    query->topic = p->loop.topic->metadata;
    query->partition = p->partition;
    query->done = start_found;
    offset_lookup_add(fetcher->lookup, query);
}

/* Something that stands still is begun anew once its time has come. */
static void restart_idle(struct fetcher *fetcher, struct consumer_partition *p, int64_t now_ms)
{
    if (p->loop.state == PARTITION_STARTING && !offset_query_is_running(&p->loop.query) &&
        p->loop.not_before_ms <= now_ms)
        fetcher_start_partition(fetcher, p, p->loop.start);
}

static void start_found(struct offset_query *query, int64_t offset, int64_t timestamp_ms,
                        int32_t leader_epoch, const cafka_error *error)
{
    (void)timestamp_ms;
    (void)leader_epoch;
    struct consumer_partition *p = container_of(query, struct consumer_partition, loop.query);
    struct fetcher *fetcher = p->loop.fetcher;
    if (error) {
        cafka_error err = *error;
        fetcher_tell(fetcher, p, &err);
        return;
    }
    if (offset < 0 && query->timestamp_ms >= 0) { /* by_duration, and no record is that young */
        query->timestamp_ms = CAFKA_OFFSET_END;
        offset_lookup_add(fetcher->lookup, query);
        return;
    }
    struct chunk *chunk =
        offset < 0 ? NULL : fetch_queue_new_chunk(fetcher->queue, CHUNK_POSITION, p);
    if (!chunk) {
        fetcher_back_off(fetcher, p);
        return;
    }
    chunk->position = offset;
    if (query->timestamp_ms == CAFKA_OFFSET_END)
        atomic_store_explicit(&p->readable_end, offset, memory_order_relaxed);
    fetch_queue_push(fetcher->queue, chunk);
    set_state(p, PARTITION_FETCHING);
    p->loop.fetch_offset = offset;
    p->loop.attempts = 0;
    fetcher_poke(fetcher); /* after the other answers that came with this one: one fetch for all */
}

/* --- what the application wants --- */

static struct fetch_broker *fetch_broker_of(struct fetcher *fetcher, int32_t id)
{
    struct broker *broker = id < 0 ? NULL : client_broker(fetcher->client, id);
    if (!broker || broker->user)
        return broker ? broker->user : NULL;
    struct fetch_broker *fb = mem_zalloc(sizeof *fb);
    if (!fb)
        return NULL;
    fb->request.api_key = API_FETCH;
    fb->request.done = answered;
    fb->fetcher = fetcher;
    fb->broker = broker;
    list_init(&fb->partitions);
    fetch_session_init(&fb->session);
    list_push_back(&fetcher->brokers, &fb->link);
    broker->user = fb;
    return fb;
}

/* Put it to its leader, or among the homeless. */
static void place(struct fetcher *fetcher, struct consumer_partition *p)
{
    const struct metadata_partition *known =
        metadata_partition(p->loop.topic->metadata, p->partition);
    struct fetch_broker *fb = known ? fetch_broker_of(fetcher, known->leader) : NULL;
    if (fb && fb == p->loop.broker)
        return;
    fetch_session_leave(&p->loop.session);
    list_remove(&p->loop.at_broker);
    p->loop.broker = fb;
    if (fb) {
        p->loop.homeless_since_ms = INT64_MAX;
        list_push_back(&fb->partitions, &p->loop.at_broker);
        return;
    }
    list_push_back(&fetcher->homeless, &p->loop.at_broker);
    int64_t now_ms = loop_now_ms(fetcher->client->loop);
    if (p->loop.homeless_since_ms == INT64_MAX)
        p->loop.homeless_since_ms = now_ms;
    fetcher_wake_at(fetcher, now_ms + TELL_AGAIN_MS);
}

static struct consumer_topic *topic_of(struct fetcher *fetcher, const char *name, cafka_error *err)
{
    struct metadata_topic *metadata;
    if (metadata_topic_ref(fetcher->client->metadata, str_of(name), &metadata, err))
        return NULL;
    struct consumer_topic *topic = metadata->user;
    if (topic) {
        metadata_topic_unref(fetcher->client->metadata, metadata);
        return topic;
    }
    topic = mem_zalloc(sizeof *topic);
    if (!topic) {
        metadata_topic_unref(fetcher->client->metadata, metadata);
        return NULL;
    }
    topic->metadata = metadata;
    list_init(&topic->partitions);
    metadata->user = topic;
    return topic;
}

static bool add_partition(struct fetcher *fetcher, struct consumer_partition *p)
{
    struct consumer_topic *topic = topic_of(fetcher, p->topic, NULL);
    if (!topic)
        return false;
    bool added = map_put_int(&topic->by_number, p->partition, p);
    if (!added && list_empty(&topic->partitions)) {
        topic->metadata->user = NULL;
        metadata_topic_unref(fetcher->client->metadata, topic->metadata);
        map_fini(&topic->by_number); /* it may have its tables, though not the entry */
        mem_free(topic);
    }
    if (!added)
        return false;
    list_push_back(&topic->partitions, &p->loop.link);
    p->loop.topic = topic;
    p->loop.fetcher = fetcher;
    p->loop.homeless_since_ms = INT64_MAX;
    consumer_partition_ref(p);
    place(fetcher, p);
    return true;
}

bool fetcher_change(struct fetcher *fetcher, struct consumer_partition *p,
                    const struct partition_wish *wish)
{
    if (!wish->assigned) {
        if (p->loop.topic)
            remove_partition(fetcher, p);
        return true;
    }
    if (fetcher->stopping)
        return true;
    if (!p->loop.topic && !add_partition(fetcher, p))
        return false;
    p->loop.paused = wish->paused;
    if (wish->generation != p->loop.generation || p->loop.state == PARTITION_NEW ||
        p->loop.state == PARTITION_GONE) {
        p->loop.generation = wish->generation;
        p->loop.attempts = 0;
        p->loop.not_before_ms = loop_now_ms(fetcher->client->loop) + wish->delay_ms;
        fetcher_start_partition(fetcher, p, wish->start);
        if (wish->delay_ms)
            fetcher_wake_at(fetcher, p->loop.not_before_ms);
    }
    fetcher_poke(fetcher);
    return true;
}

/* --- news of the cluster --- */

void fetcher_topic_changed(struct fetcher *fetcher, struct metadata_topic *metadata, unsigned what)
{
    struct consumer_topic *topic = metadata->user;
    struct list *link, *after;
    offset_lookup_kick(fetcher->lookup); /* of topics that are not assigned, too */
    if (!topic)
        return;
    list_each(link, after, &topic->partitions)
    {
        struct consumer_partition *p = list_item(link, struct consumer_partition, loop.link);
        if (what & METADATA_RECREATED && p->loop.session.session)
            fetch_session_restart(p->loop.session.session);
        if (what & METADATA_LEADERS) /* worth trying at once */
            p->loop.not_before_ms = p->loop.attempts ? 0 : p->loop.not_before_ms;
        place(fetcher, p);
    }
    fetcher_poke(fetcher);
}

void fetcher_broker_writable(struct fetcher *fetcher, struct broker *broker)
{
    (void)fetcher;
    if (broker->user)
        pump(broker->user);
}

static void tell_missing(struct fetcher *fetcher, struct consumer_partition *p)
{
    const struct metadata_topic *topic = p->loop.topic->metadata;
    cafka_error err = {0};
    if (topic->error.code)
        err = topic->error;
    else if (topic->known && p->partition >= topic->partition_count)
        error_set(&err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "reading %s-%d: the topic has %d partitions",
                  p->topic, p->partition, topic->partition_count);
    else
        return; /* no leader for now, or nothing known yet: the client tells why */
    fetcher_tell(fetcher, p, &err);
}

/* Partitions that have no leader for long: say why, if that is known. */
static void check_homeless(struct fetcher *fetcher, int64_t now_ms)
{
    struct list *link, *after;
    list_each(link, after, &fetcher->homeless)
    {
        struct consumer_partition *p = list_item(link, struct consumer_partition, loop.at_broker);
        int code = p->loop.topic->metadata->error.code;
        bool hopeless = code && !protocol_error_retriable(code);
        if (p->loop.not_before_ms > now_ms)
            continue;
        if (hopeless || now_ms - p->loop.homeless_since_ms >= MISSING_AFTER_MS)
            tell_missing(fetcher, p);
    }
    if (!list_empty(&fetcher->homeless))
        fetcher_wake_at(fetcher, now_ms + TELL_AGAIN_MS);
}

static void pump_all(struct fetcher *fetcher)
{
    struct list *link, *after;
    list_each(link, after, &fetcher->brokers) pump(list_item(link, struct fetch_broker, link));
}

static void timer_fired(struct timer *timer)
{
    struct fetcher *fetcher = container_of(timer, struct fetcher, timer);
    int64_t now_ms = loop_now_ms(fetcher->client->loop);
    if (fetcher->stopping)
        return;
    check_homeless(fetcher, now_ms);
    pump_all(fetcher);
}

static void run_kick(struct loop_task *task)
{
    struct fetcher *fetcher = container_of(task, struct fetcher, kick);
    atomic_store(&fetcher->kicked, false);
    pump_all(fetcher);
}

void fetcher_poke(struct fetcher *fetcher)
{
    if (!atomic_exchange(&fetcher->kicked, true))
        loop_post(fetcher->client->loop, &fetcher->kick);
}

/* --- requests --- */

static size_t busy_brokers(const struct fetcher *fetcher)
{
    size_t count = 0;
    struct list *link, *after;
    list_each(link, after, &fetcher->brokers) count +=
        !list_empty(&list_item(link, struct fetch_broker, link)->partitions);
    return count ? count : 1;
}

/* How much to ask for; 0: the budget has no room now. */
static int64_t bytes_to_ask(const struct fetcher *fetcher)
{
    int64_t share = fetcher->budget->limit_bytes / (int64_t)(2 * busy_brokers(fetcher));
    int64_t ask =
        share < fetcher->settings->fetch_max_bytes ? share : fetcher->settings->fetch_max_bytes;
    int64_t taken = fetch_budget_held(fetcher->budget) + fetcher->asked_bytes;
    if (ask < 1)
        ask = 1;
    return taken && taken + ask > fetcher->budget->limit_bytes ? 0 : ask;
}

/* Is any of its partitions short of data? Those that wait for a time set the timer. */
static bool is_hungry(struct fetcher *fetcher, struct fetch_broker *fb, bool *idle)
{
    int64_t now_ms = loop_now_ms(fetcher->client->loop);
    struct list *link, *after;
    bool hungry = false;
    *idle = true;
    list_each(link, after, &fb->partitions)
    {
        struct consumer_partition *p = list_item(link, struct consumer_partition, loop.at_broker);
        restart_idle(fetcher, p, now_ms);
        if (p->loop.not_before_ms > now_ms)
            fetcher_wake_at(fetcher, p->loop.not_before_ms);
        if (p->loop.state != PARTITION_FETCHING || p->loop.paused || p->loop.not_before_ms > now_ms)
            continue;
        *idle = false;
        hungry = hungry ||
                 atomic_load(&p->buffered_bytes) <= fetcher->settings->max_partition_fetch_bytes;
    }
    return hungry;
}

static void tell_all(struct fetch_broker *fb, const cafka_error *err)
{
    struct list *link, *after;
    list_each(link, after, &fb->partitions)
        fetcher_tell(fb->fetcher, list_item(link, struct consumer_partition, loop.at_broker), err);
}

static void send_fetch(struct fetch_broker *fb, struct conn *conn, int64_t ask)
{
    struct fetcher *fetcher = fb->fetcher;
    struct fetch_request body;
    cafka_error err = {0};
    int version = fetch_request_version(fb, conn);
    if (version < 0) {
        error_set(&err, CAFKA_ERR_UNSUPPORTED,
                  "broker %s has no version of Fetch that this client knows", conn_name(conn));
        tell_all(fb, &err);
        return;
    }
    int rc = fetch_request_build(fb, ask, &body, &err);
    fb->request.timeout_ms = fetcher->settings->client.request_timeout_ms + body.max_wait_ms;
    if (!rc)
        rc = conn_send(conn, &fb->request, version, &body, &err);
    if (rc) {
        log_warn(fetcher->client->log, "fetch from %s: %s", conn_name(conn), err.message);
        fetch_session_failed(&fb->session);
        fetcher_wake_at(fetcher, loop_now_ms(fetcher->client->loop) +
                                     fetcher->settings->client.retry_backoff_ms);
        return;
    }
    fb->in_flight = true;
    fb->asked_bytes = ask;
    fetcher->asked_bytes += ask;
}

static void set_held_back(struct fetch_broker *fb, bool held_back)
{
    fb->fetcher->held_back += held_back;
    fb->fetcher->held_back -= fb->held_back;
    fb->held_back = held_back;
}

/* Send the next fetch to a broker if it is time for one. */
static void pump(struct fetch_broker *fb)
{
    struct fetcher *fetcher = fb->fetcher;
    bool idle;
    if (fb->in_flight || fetcher->stopping || list_empty(&fb->partitions))
        return;
    struct conn *conn = broker_conn(fb->broker, LANE_DATA);
    if (!conn || !conn_can_send(conn))
        return; /* broker_writable comes */

    /* Flags first, then the look at what is buffered and held: see fetch_memory.c. */
    atomic_store(&fetcher->poke_wanted, true);
    atomic_store(&fetcher->budget->short_of_memory, true);
    bool hungry = is_hungry(fetcher, fb, &idle);
    int64_t ask = hungry ? bytes_to_ask(fetcher) : 0;
    set_held_back(fb, !idle && !ask);
    if (ask)
        send_fetch(fb, conn, ask);
    if (!fetcher->held_back) {
        atomic_store(&fetcher->poke_wanted, false);
        atomic_store(&fetcher->budget->short_of_memory, false);
    }
}

static void answered(struct request *request, const struct reply *reply)
{
    struct fetch_broker *fb = container_of(request, struct fetch_broker, request);
    struct fetcher *fetcher = fb->fetcher;
    fb->in_flight = false;
    fetcher->asked_bytes -= fb->asked_bytes;
    if (fetcher->stopping) {
        fetcher->closing -= fb->closing;
        fb->closing = false;
        fetch_queue_wake(fetcher->queue);
        return;
    }
    if (reply->error) {
        fetch_session_failed(&fb->session);
        metadata_refresh(fetcher->client->metadata); /* its leaders may be elsewhere by now */
    } else {
        fetch_answer_handle(fb, reply);
    }
    pump(fb);
}

/* --- the end --- */

static void close_session(struct fetch_broker *fb)
{
    struct conn *conn = broker_conn(fb->broker, LANE_DATA);
    if (fb->in_flight || !fb->session.id || !conn || !conn_can_send(conn))
        return;
    struct fetch_request body;
    int version = conn_version(conn, API_FETCH, FETCH_MAX_VERSION);
    fetch_request_init(&body);
    body.replica_id = -1;
    body.session_id = fb->session.id;
    body.session_epoch = FETCH_EPOCH_FINAL;
    if (version >= FETCH_FIRST_VERSION && !conn_send(conn, &fb->request, version, &body, NULL))
        fb->in_flight = fb->closing = true;
    fb->asked_bytes = 0;
    fb->fetcher->closing += fb->closing;
}

void fetcher_stop(struct fetcher *fetcher)
{
    struct list *link, *after;
    fetcher->stopping = true;
    loop_timer_cancel(fetcher->client->loop, &fetcher->timer);
    list_each(link, after, &fetcher->brokers)
    {
        struct fetch_broker *fb = list_item(link, struct fetch_broker, link);
        drop_session_members(fb);
        close_session(fb);
    }
}
