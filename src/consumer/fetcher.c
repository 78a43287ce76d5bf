/*
 * fetcher.c - see fetcher.h. What the application wants, and where each partition is read.
 */
#include "consumer/fetcher.h"

#include <assert.h>

#include "consumer/fetch_position.h"
#include "consumer/fetch_pump.h"
#include "util/alloc.h"

enum { TELL_AGAIN_MS = 1000 }; /* an error that stays is told once a second */

static void run_kick(struct loop_task *task);
static void timer_fired(struct timer *timer);
static void partition_due(struct timer *timer);

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
    list_init(&fetcher->topics);
    list_init(&fetcher->brokers);
    fetcher->timer.fire = timer_fired;
    fetcher->kick.run = run_kick;
    fetch_inflater_init(&fetcher->inflater, client->loop, queue, budget,
                        (size_t)settings->fetch_max_inflated_batch_bytes,
                        client->shared_loop != NULL);
}

void fetcher_set_state(struct consumer_partition *p, enum partition_state next)
{
    enum {
        NEW = 1u << PARTITION_NEW,
        STARTING = 1u << PARTITION_STARTING,
        FETCHING = 1u << PARTITION_FETCHING,
        VALIDATING = 1u << PARTITION_VALIDATING,
        WAITING = 1u << PARTITION_WAITING,
        GONE = 1u << PARTITION_GONE
    };
    static const unsigned may_follow[PARTITION_STATES] = {
        [PARTITION_NEW] = STARTING | FETCHING | GONE,
        [PARTITION_STARTING] = STARTING | FETCHING | GONE,
        [PARTITION_FETCHING] = STARTING | FETCHING | VALIDATING | WAITING | GONE,
        [PARTITION_VALIDATING] = STARTING | FETCHING | VALIDATING | WAITING | GONE,
        [PARTITION_WAITING] = STARTING | FETCHING | WAITING | GONE,
        [PARTITION_GONE] = STARTING | FETCHING,
    };
    assert(may_follow[p->loop.state] & 1u << next);
    (void)may_follow;
    p->loop.state = (unsigned char)next;
    p->loop.reset_told = false;
}

static void topic_free(struct fetcher *fetcher, struct consumer_topic *topic)
{
    list_remove(&topic->link);
    topic->metadata->user = NULL;
    metadata_topic_unref(fetcher->client->metadata, topic->metadata);
    mem_free(topic);
}

static void leave_broker(struct consumer_partition *p)
{
    struct fetch_broker *fb = p->loop.broker;
    if (!fb)
        return;
    fetch_withdraw(p);
    fb->fetcher->busy -= --fb->placed == 0;
    p->loop.broker = NULL;
}

static void remove_partition(struct fetcher *fetcher, struct consumer_partition *p)
{
    struct consumer_topic *topic = p->loop.topic;
    fetch_position_cancel(p);
    leave_broker(p);
    loop_timer_cancel(fetcher->client->loop, &p->loop.timer);
    p->loop.stall = (struct fetch_stall){0};
    p->loop.delayed = false;
    fetcher_set_state(p, PARTITION_GONE);
    partition_table_remove(&fetcher->partitions, p);
    list_remove(&p->loop.link);
    p->loop.topic = NULL;
    if (list_empty(&topic->partitions))
        topic_free(fetcher, topic);
    consumer_partition_unref(p);
}

void fetcher_fini(struct fetcher *fetcher)
{
    if (!fetcher->client)
        return;
    struct list *link;
    while ((link = list_first(&fetcher->topics))) {
        struct consumer_topic *topic = list_item(link, struct consumer_topic, link);
        remove_partition(fetcher, list_item(list_first(&topic->partitions),
                                            struct consumer_partition, loop.link));
    }
    while ((link = list_first(&fetcher->brokers)))
        fetch_broker_free(list_item(link, struct fetch_broker, link));
    loop_timer_cancel(fetcher->client->loop, &fetcher->timer);
    loop_timer_cancel(fetcher->client->loop, &fetcher->memory_timer);
    fetch_inflater_fini(&fetcher->inflater);
    partition_table_fini(&fetcher->partitions);
    arena_fini(&fetcher->build);
    arena_fini(&fetcher->answer);
    aborted_fini(&fetcher->aborted);
}

/* --- times --- */

void fetcher_wake_at(struct fetcher *fetcher, int64_t when_ms)
{
    if (!timer_is_set(&fetcher->timer) || fetcher->timer.deadline_ms > when_ms)
        loop_timer_set(fetcher->client->loop, &fetcher->timer, when_ms);
}

void fetcher_set_timer(struct consumer_partition *p)
{
    struct loop *loop = fetcher_of(p)->client->loop;
    int64_t at_ms = INT64_MAX;
    if (p->loop.delayed)
        at_ms = p->loop.not_before_ms;
    if (p->loop.preferred >= 0 && p->loop.preferred_until_ms < at_ms)
        at_ms = p->loop.preferred_until_ms;
    if (p->loop.stall.cause && p->loop.stall.look_at_ms < at_ms)
        at_ms = p->loop.stall.look_at_ms;
    if (at_ms == INT64_MAX) {
        loop_timer_cancel(loop, &p->loop.timer);
    } else if (!timer_is_set(&p->loop.timer) || p->loop.timer.deadline_ms != at_ms) {
        p->loop.timer.fire = partition_due;
        loop_timer_set(loop, &p->loop.timer, at_ms);
    }
}

void fetcher_delay(struct consumer_partition *p, int64_t ms)
{
    p->loop.not_before_ms = loop_now_ms(fetcher_of(p)->client->loop) + ms;
    p->loop.delayed = true;
    fetch_review(p);
    fetcher_set_timer(p);
}

void fetcher_back_off(struct consumer_partition *p)
{
    const struct client_settings *common = &fetcher_of(p)->settings->client;
    fetcher_delay(p, backoff_after(common->env, common->retry_backoff_ms,
                                   common->retry_backoff_max_ms, p->loop.attempts++));
}

static void end_delay(struct consumer_partition *p)
{
    p->loop.delayed = false;
    fetch_position_again(p);
    fetch_review(p);
    fetch_pump(p->loop.broker);
}

static void partition_due(struct timer *timer)
{
    struct consumer_partition *p = container_of(timer, struct consumer_partition, loop.timer);
    struct fetcher *fetcher = fetcher_of(p);
    int64_t now_ms = loop_now_ms(fetcher->client->loop);
    if (fetcher->stopping)
        return;
    if (p->loop.delayed && p->loop.not_before_ms <= now_ms)
        end_delay(p);
    if (p->loop.preferred >= 0 && p->loop.preferred_until_ms <= now_ms)
        fetcher_prefer(p, -1);
    fetch_stall_look(p, now_ms);
    fetcher_set_timer(p);
}

/* --- telling --- */

void fetcher_tell(struct consumer_partition *p, const cafka_error *error)
{
    struct fetch_queue *queue = fetcher_of(p)->queue;
    fetcher_delay(p, TELL_AGAIN_MS);
    if (atomic_load(&p->error_queued))
        return; /* the application has not taken the last one yet */
    struct chunk *chunk = fetch_queue_new_error(queue, p, error);
    if (!chunk)
        return; /* told when it is tried again */
    atomic_store(&p->error_queued, true);
    fetch_queue_push(queue, chunk);
}

/* --- where it is read --- */

static const struct metadata_partition *known_of(const struct consumer_partition *p)
{
    return metadata_partition(p->loop.topic->metadata, p->partition);
}

/* The broker to read from now; NULL: there is none. */
static struct fetch_broker *choose(struct consumer_partition *p)
{
    struct fetcher *fetcher = fetcher_of(p);
    const struct metadata_partition *known = known_of(p);
    if (p->loop.preferred >= 0) {
        struct broker *preferred = client_broker(fetcher->client, p->loop.preferred);
        struct fetch_broker *fb =
            preferred && preferred->present ? fetch_broker_of(fetcher, preferred->id) : NULL;
        if (fb)
            return fb;
        p->loop.preferred = -1;
    }
    return known ? fetch_broker_of(fetcher, known->leader) : NULL;
}

void fetcher_place(struct consumer_partition *p)
{
    struct fetch_broker *fb = choose(p);
    if (!fb || fb != p->loop.broker) {
        leave_broker(p);
        p->loop.broker = fb;
    } else {
        return;
    }
    if (!fb) {
        fetch_stall_suspect(p, STALL_NO_LEADER, p->loop.topic->metadata->error.code);
        return;
    }
    fb->fetcher->busy += fb->placed++ == 0;
    fetch_stall_progress(p, STALL_NO_LEADER);
    if (p->loop.query)
        fetch_stall_suspect(p, STALL_NO_START, 0);
    fetch_review(p);
}

void fetcher_prefer(struct consumer_partition *p, int32_t broker)
{
    struct fetcher *fetcher = fetcher_of(p);
    if (p->loop.preferred == broker)
        return;
    p->loop.preferred = broker;
    p->loop.preferred_until_ms =
        loop_now_ms(fetcher->client->loop) + fetcher->settings->client.metadata_max_age_ms;
    fetcher_place(p);
    fetcher_set_timer(p);
    fetcher_poke(fetcher);
}

void fetcher_leader_changed(struct consumer_partition *p)
{
    const struct metadata_partition *known = known_of(p);
    int32_t epoch = known ? known->leader_epoch : -1;
    bool newer = epoch >= 0 && epoch != p->loop.leader_epoch;
    if (newer || !known || known->leader < 0)
        p->loop.preferred = -1; /* the new leader may prefer another one */
    fetcher_place(p);
    fetcher_set_timer(p);
    if (!newer)
        return;
    p->loop.leader_epoch = epoch;
    fetch_session_touch(&p->loop.session); /* the epoch is part of what is asked for */
    if (p->loop.attempts && p->loop.delayed && p->loop.state == PARTITION_FETCHING) {
        p->loop.delayed = false; /* worth trying at once */
        fetch_review(p);
    }
    fetch_position_validate(p);
}

/* --- what the application wants --- */

static struct consumer_topic *topic_of(struct fetcher *fetcher, const char *name)
{
    struct metadata_topic *metadata;
    if (metadata_topic_ref(fetcher->client->metadata, str_of(name), &metadata, NULL))
        return NULL;
    struct consumer_topic *topic = metadata->user;
    if (!topic)
        topic = mem_zalloc(sizeof *topic);
    if (!topic || topic->metadata) {
        metadata_topic_unref(fetcher->client->metadata, metadata); /* one reference a topic */
        return topic;
    }
    topic->fetcher = fetcher;
    topic->metadata = metadata;
    topic->name = name;
    list_init(&topic->partitions);
    list_push_back(&fetcher->topics, &topic->link);
    metadata->user = topic;
    return topic;
}

static bool add_partition(struct fetcher *fetcher, struct consumer_partition *p)
{
    struct consumer_topic *topic = topic_of(fetcher, p->topic);
    if (!topic)
        return false;
    if (!partition_table_put(&fetcher->partitions, p)) {
        if (list_empty(&topic->partitions))
            topic_free(fetcher, topic);
        return false;
    }
    list_push_back(&topic->partitions, &p->loop.link);
    p->loop.topic = topic;
    p->loop.preferred = -1;
    consumer_partition_ref(p);
    const struct metadata_partition *known = known_of(p);
    p->loop.leader_epoch = known ? known->leader_epoch : -1;
    fetcher_place(p);
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
        p->loop.delayed = false;
        if (wish->delay_ms)
            fetcher_delay(p, wish->delay_ms);
        fetch_position_start(p, wish->start, wish->epoch);
        fetcher_set_timer(p);
    }
    fetch_review(p);
    fetcher_poke(fetcher);
    return true;
}

/* --- news of the cluster --- */

void fetcher_topic_changed(struct fetcher *fetcher, struct metadata_topic *metadata, unsigned what)
{
    struct consumer_topic *topic = metadata->user;
    struct list *link, *after;
    offset_lookup_kick(fetcher->lookup); /* of topics that are not assigned, too */
    if (!topic || fetcher->stopping)
        return;
    list_each(link, after, &topic->partitions)
    {
        struct consumer_partition *p = list_item(link, struct consumer_partition, loop.link);
        if (what & METADATA_RECREATED) {
            if (p->loop.session.session)
                fetch_session_restart(p->loop.session.session);
            fetch_position_recreated(p);
        }
        fetcher_leader_changed(p);
    }
    fetcher_poke(fetcher);
}

void fetcher_broker_writable(struct fetcher *fetcher, struct broker *broker)
{
    (void)fetcher;
    fetch_pump(broker->user);
}

/* Nobody reads from a follower that does not answer. */
void fetcher_broker_down(struct fetcher *fetcher, struct broker *broker)
{
    struct fetch_broker *fb = broker->user;
    struct list *t, *next_topic, *link, *next;
    if (!fb || !fetcher->settings->client_rack[0] || fetcher->stopping)
        return;
    list_each(t, next_topic, &fetcher->topics)
    {
        struct consumer_topic *topic = list_item(t, struct consumer_topic, link);
        list_each(link, next, &topic->partitions)
        {
            struct consumer_partition *p = list_item(link, struct consumer_partition, loop.link);
            if (p->loop.broker == fb)
                fetcher_prefer(p, -1);
        }
    }
}

static void timer_fired(struct timer *timer)
{
    struct fetcher *fetcher = container_of(timer, struct fetcher, timer);
    if (!fetcher->stopping)
        fetch_pump_all(fetcher);
}

static void run_kick(struct loop_task *task)
{
    struct fetcher *fetcher = container_of(task, struct fetcher, kick);
    atomic_store(&fetcher->kicked, false);
    fetch_pump_all(fetcher);
    if (!fetcher->stopping)
        fetch_ahead_go_on(&fetcher->inflater);
}

void fetcher_poke(struct fetcher *fetcher)
{
    if (!atomic_exchange(&fetcher->kicked, true))
        loop_post(fetcher->client->loop, &fetcher->kick);
}

/* --- the end --- */

void fetcher_stop(struct fetcher *fetcher)
{
    struct list *link, *after;
    fetcher->stopping = true;
    loop_timer_cancel(fetcher->client->loop, &fetcher->timer);
    loop_timer_cancel(fetcher->client->loop, &fetcher->memory_timer);
    list_each(link, after, &fetcher->brokers)
        fetch_close_session(list_item(link, struct fetch_broker, link));
}
