/*
 * fetch_pump.c - see fetch_pump.h. Requests are put together in fetch_request.c, answers taken apart
 * in fetch_answer.c.
 */
#include "consumer/fetch_pump.h"

#include "consumer/fetch_answer.h"
#include "consumer/fetch_request.h"
#include "protocol/api_keys.h"
#include "util/alloc.h"

enum { WARN_AGAIN_AFTER_MS = 10000 }; /* in which it did not happen */

static void answered(struct request *request, const struct reply *reply);

/* --- brokers --- */

struct fetch_broker *fetch_broker_of(struct fetcher *fetcher, int32_t id)
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
    list_init(&fb->full);
    fetch_session_init(&fb->session);
    list_push_back(&fetcher->brokers, &fb->link);
    broker->user = fb;
    return fb;
}

void fetch_broker_free(struct fetch_broker *fb)
{
    if (fb->in_flight)
        conn_cancel(&fb->request);
    fb->broker->user = NULL;
    list_remove(&fb->link);
    fetch_session_fini(&fb->session);
    mem_free(fb);
}

/* --- what a partition wants --- */

static enum fetch_level level_of(const struct consumer_partition *p, bool *overfull)
{
    *overfull = false;
    if (p->loop.state != PARTITION_FETCHING || p->loop.paused || p->loop.delayed || !p->loop.broker)
        return FETCH_NOT;
    long long buffered = atomic_load(&p->buffered_bytes);
    long long enough = fetcher_of(p)->settings->max_partition_fetch_bytes;
    *overfull = buffered > 2 * enough;
    return *overfull ? FETCH_NOT : buffered > enough ? FETCH_FULL : FETCH_HUNGRY;
}

static void set_level(struct consumer_partition *p, enum fetch_level level, bool overfull)
{
    struct fetch_broker *fb = p->loop.broker;
    const struct metadata_topic *topic = p->loop.topic->metadata;
    enum fetch_level before = p->loop.level;
    if (level == before && overfull == p->loop.overfull)
        return; /* always so without a broker */
    p->loop.level = (unsigned char)level;
    p->loop.overfull = overfull;
    fb->hungry += level == FETCH_HUNGRY;
    fb->hungry -= before == FETCH_HUNGRY;
    list_remove(&p->loop.at_full);
    if (level == FETCH_FULL || overfull)
        list_push_back(&fb->full, &p->loop.at_full);
    if (level == FETCH_NOT)
        fetch_session_leave(&p->loop.session, p->topic, topic->id, p->partition);
    else if (before == FETCH_NOT)
        fetch_session_join(&fb->session, &p->loop.session, uuid_is_zero(topic->id));
}

void fetch_review(struct consumer_partition *p)
{
    bool overfull;
    enum fetch_level level = level_of(p, &overfull);
    fetcher_of(p)->counts.reviewed++;
    set_level(p, level, overfull);
}

void fetch_withdraw(struct consumer_partition *p)
{
    set_level(p, FETCH_NOT, false);
}

/* The application takes data without a word; those that had enough may be hungry again. */
static void review_full(struct fetch_broker *fb)
{
    struct list *link, *after;
    list_each(link, after, &fb->full)
        fetch_review(list_item(link, struct consumer_partition, loop.at_full));
}

/* --- how much --- */

/* How much to ask for; 0: the budget has no room now. */
static int64_t bytes_to_ask(const struct fetcher *fetcher)
{
    int64_t share =
        fetcher->budget->limit_bytes / (int64_t)(2 * (fetcher->busy ? fetcher->busy : 1));
    int64_t ask =
        share < fetcher->settings->fetch_max_bytes ? share : fetcher->settings->fetch_max_bytes;
    int64_t taken = fetch_budget_held(fetcher->budget) + fetcher->asked_bytes;
    if (ask < 1)
        ask = 1;
    return taken && taken + ask > fetcher->budget->limit_bytes ? 0 : ask;
}

/* --- held memory that stops fetching --- */

static void memory_timer_fired(struct timer *timer)
{
    struct fetcher *fetcher = container_of(timer, struct fetcher, memory_timer);
    log_warn(fetcher->client->log,
             "nothing has been fetched for %lld s, since %lld bytes are received, inflated or held by "
             "the application, of fetch.buffer.memory=%lld; poll, and free fetches and records",
             (long long)(loop_now_ms(fetcher->client->loop) - fetcher->short_since_ms) / 1000,
             (long long)fetch_budget_held(fetcher->budget), (long long)fetcher->budget->limit_bytes);
    fetcher->short_told = true;
}

static void count_memory_stops(struct fetcher *fetcher, size_t before)
{
    struct loop *loop = fetcher->client->loop;
    if (!before && fetcher->wants_memory) {
        fetcher->counts.memory_stops++;
        fetcher->short_since_ms = loop_now_ms(loop);
        fetcher->memory_timer.fire = memory_timer_fired;
        loop_timer_set(loop, &fetcher->memory_timer, fetcher->short_since_ms + STALL_AFTER_MS);
    } else if (before && !fetcher->wants_memory) {
        loop_timer_cancel(loop, &fetcher->memory_timer);
        if (fetcher->short_told)
            log_info(fetcher->client->log, "memory came back: fetching goes on");
        fetcher->short_told = false;
    }
}

/* Keep the counts of brokers that could send, but for queued data or for memory. */
static void set_held_back(struct fetch_broker *fb, bool held_back, bool wants_memory)
{
    struct fetcher *fetcher = fb->fetcher;
    size_t before = fetcher->wants_memory;
    fetcher->held_back += held_back;
    fetcher->held_back -= fb->held_back;
    fetcher->wants_memory += wants_memory;
    fetcher->wants_memory -= fb->wants_memory;
    fb->held_back = held_back;
    fb->wants_memory = wants_memory;
    count_memory_stops(fetcher, before);
}

/* --- sending --- */

/* All of its partitions have the same trouble. */
static void tell_all(struct fetch_broker *fb, const cafka_error *err)
{
    struct list *t, *p, *next_topic, *next;
    list_each(t, next_topic, &fb->fetcher->topics)
    {
        struct consumer_topic *topic = list_item(t, struct consumer_topic, link);
        list_each(p, next, &topic->partitions)
        {
            struct consumer_partition *partition =
                list_item(p, struct consumer_partition, loop.link);
            if (partition->loop.broker == fb)
                fetcher_tell(partition, err);
        }
    }
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
    int rc = fetch_request_build(fb, ask, version, &body, &err);
    fb->request.timeout_ms = fetcher->settings->client.request_timeout_ms + body.max_wait_ms;
    if (!rc)
        rc = conn_send(conn, &fb->request, version, &body, &err);
    fetch_request_sent(fetcher);
    if (rc) {
        if (loop_now_ms(fetcher->client->loop) >= fetcher->warn_not_before_ms)
            log_warn(fetcher->client->log, "fetch from %s: %s", conn_name(conn), err.message);
        fetcher->warn_not_before_ms = loop_now_ms(fetcher->client->loop) + WARN_AGAIN_AFTER_MS;
        fetch_session_failed(&fb->session);
        fetcher_wake_at(fetcher, loop_now_ms(fetcher->client->loop) +
                                     fetcher->settings->client.retry_backoff_ms);
        return;
    }
    fb->in_flight = true;
    fb->asked_bytes = ask;
    fb->sent_ms = loop_now_ms(fetcher->client->loop);
    fetcher->asked_bytes += ask;
    fetcher->counts.requests++;
}

void fetch_pump(struct fetch_broker *fb)
{
    if (!fb || fb->in_flight || fb->fetcher->stopping ||
        (!fb->session.count && list_empty(&fb->full)))
        return;
    struct fetcher *fetcher = fb->fetcher;
    struct conn *conn = broker_conn(fb->broker, LANE_DATA);
    if (!conn || !conn_can_send(conn))
        return; /* broker_writable comes */

    /* Flags first, then the look at what is buffered and held: see fetch_memory.c. */
    atomic_store(&fetcher->poke_wanted, true);
    atomic_store(&fetcher->budget->short_of_memory, true);
    review_full(fb);
    int64_t ask = fb->hungry ? bytes_to_ask(fetcher) : 0;
    set_held_back(fb, !ask, fb->hungry && !ask);
    if (ask)
        send_fetch(fb, conn, ask);
    if (!fetcher->held_back) {
        atomic_store(&fetcher->poke_wanted, false);
        atomic_store(&fetcher->budget->short_of_memory, false);
    }
}

void fetch_pump_all(struct fetcher *fetcher)
{
    struct list *link, *after;
    list_each(link, after, &fetcher->brokers) fetch_pump(list_item(link, struct fetch_broker, link));
}

/* --- answers --- */

/* A broker that is there and does not answer is told about, too. */
static void failed(struct fetch_broker *fb, const cafka_error *error)
{
    struct fetcher *fetcher = fb->fetcher;
    int64_t now_ms = loop_now_ms(fetcher->client->loop);
    fetch_session_failed(&fb->session);
    metadata_refresh(fetcher->client->metadata); /* its leaders may be elsewhere by now */
    fetcher_broker_down(fetcher, fb->broker);
    if (!fb->failing_since_ms)
        fb->failing_since_ms = now_ms;
    if (now_ms - fb->failing_since_ms >= STALL_AFTER_MS)
        client_report(fetcher->client, &fb->told, error, NULL, -1, fb->broker->id);
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
        failed(fb, reply->error);
    } else {
        fb->failing_since_ms = fb->told = 0;
        fetcher->counts.answers++;
        fetch_answer_handle(fb, reply);
    }
    fetch_pump(fb);
}

/* --- the end --- */

void fetch_close_session(struct fetch_broker *fb)
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
