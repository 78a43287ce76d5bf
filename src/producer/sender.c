/*
 * sender.c - see sender.h: where a partition belongs, what it does next, and the sender's turns.
 */
#include "producer/sender.h"

#include "producer/room.h"
#include "util/alloc.h"

int64_t sender_now_ms(const struct sender *sender)
{
    return loop_now_ms(sender->producer->client.loop);
}

bool sender_is_urgent(const struct sender *sender)
{
    return atomic_load_explicit(&sender->producer->urgent, memory_order_relaxed);
}

struct producer_batch *sender_front(const struct partition *p)
{
    struct list *link = list_first(&p->queue);
    return link ? list_item(link, struct producer_batch, link) : NULL;
}

int sender_wire_broker(const struct partition *p)
{
    return p->wire_broker ? (int)p->wire_broker->broker->id : -1;
}

/* --- from other threads --- */

void sender_wake(struct sender *sender, int64_t by_ns)
{
    struct loop *loop = sender->producer->client.loop;
    if (!atomic_exchange_explicit(&sender->posted, true, memory_order_acq_rel))
        loop_post_by(loop, &sender->task, by_ns);
    else if (loop_sleeping_until(loop) > by_ns)
        loop_wake(loop);
}

void sender_tell(cafka_producer *producer, struct partition *p, const struct append_outcome *outcome)
{
    struct accumulator *a = &producer->accumulator;
    struct sender_broker *to = atomic_load_explicit(&p->broker, memory_order_acquire);
    int64_t held_until_ns = to ? spacing_until_ns(&to->spacing) : 0;
    bool news = outcome->opened || outcome->grown || outcome->to_seal;
    if (news)
        accumulator_hand_over(a, p);
    else if (!held_until_ns)
        return; /* merely announced: the loop knows of the batch */
    int64_t by_ns = (outcome->created_ms + a->linger_ms) * NS_PER_MS;
    if (held_until_ns)
        by_ns = spacing_noticed(&to->spacing, a->env->now(a->env));
    if (outcome->grown) {
        if (to && atomic_fetch_add_explicit(&to->unseen, outcome->grown, memory_order_relaxed) +
                          outcome->grown >=
                      atomic_load_explicit(&to->wake_bytes, memory_order_relaxed))
            by_ns = 0;
    }
    if (atomic_load_explicit(&producer->urgent, memory_order_relaxed))
        by_ns = 0;
    sender_wake(&producer->sender, by_ns);
}

/* --- where a partition belongs --- */

static struct sender_broker *broker_of(struct sender *sender, int32_t id)
{
    struct broker *broker = id < 0 ? NULL : client_broker(&sender->producer->client, id);
    if (!broker || broker->user)
        return broker ? broker->user : NULL;
    struct sender_broker *b = mem_zalloc(sizeof *b);
    if (!b)
        return NULL; /* as if the leader were not known: asked for again */
    b->broker = broker;
    b->sender = sender;
    b->alarm.ring = sender_alarm_rang;
    list_init(&b->ready);
    spacing_init(&b->spacing);
    list_push_back(&sender->brokers, &b->link);
    broker->user = b;
    return b;
}

void sender_leave_lists(struct partition *p)
{
    list_remove(&p->sender_link);
    p->ready = false;
}

static bool has_batches(const struct partition *p)
{
    return list_linked(&p->active_link);
}

void sender_route(struct sender *sender, struct partition *p)
{
    const struct metadata_topic *meta = p->topic->meta;
    const struct metadata_partition *known = meta ? metadata_partition(meta, p->index) : NULL;
    struct sender_broker *to = broker_of(sender, known ? known->leader : -1);
    struct sender_broker *from = atomic_load_explicit(&p->broker, memory_order_relaxed);
    if (to != from) {
        sender_leave_lists(p);
        atomic_store_explicit(&p->broker, to, memory_order_release);
        p->retry_at_ms = 0; /* a new leader need not wait for what went wrong with the old one */
    }
    if (to && known->leader_epoch > p->sent_epoch && p->sent_epoch >= 0)
        p->retry_at_ms = 0; /* nor has this one failed yet since it leads (KIP-951) */
    if (has_batches(p))
        sender_refresh(sender, p);
}

/*
 * Something to send and nobody to send it to: have metadata look for the leader, and again with
 * its next answer, as long as nobody leads.
 */
static void look_for_leader(struct sender *sender, struct partition *p)
{
    sender_leave_lists(p);
    metadata_refresh(sender->producer->client.metadata);
}

static void join_ready(struct sender_broker *to, struct partition *p)
{
    if (p->ready)
        return;
    sender_leave_lists(p);
    p->ready = true;
    list_push_back(&to->ready, &p->sender_link);
}

/* --- what a partition does next --- */

static void set_timer(struct sender *sender, struct timer *timer, int64_t at_ms)
{
    if (!timer_is_set(timer) || timer->deadline_ms != at_ms)
        loop_timer_set(sender->producer->client.loop, timer, at_ms);
}

static void cancel_timer(struct sender *sender, struct timer *timer)
{
    if (timer_is_set(timer))
        loop_timer_cancel(sender->producer->client.loop, timer);
}

static void fire_timer(struct timer *timer)
{
    struct partition *p = container_of(timer, struct partition, timer);
    struct sender *sender = &p->topic->producer->sender;
    sender_refresh(sender, p);
    sender_pump_dirty(sender);
}

static void fire_expiry(struct timer *timer)
{
    struct partition *p = container_of(timer, struct partition, expiry);
    struct sender *sender = &p->topic->producer->sender;
    sender_expire(sender, p);
    sender_pump_dirty(sender);
}

static void activate(struct sender *sender, struct partition *p, int64_t oldest_ms)
{
    if (has_batches(p))
        return;
    list_push_back(&sender->active, &p->active_link);
    p->used = true;
    p->timer.fire = fire_timer;
    p->expiry.fire = fire_expiry;
    set_timer(sender, &p->expiry, oldest_ms + sender->producer->settings.delivery_timeout_ms);
    if (p->topic->meta)
        metadata_topic_touch(sender->producer->client.metadata, p->topic->meta);
}

static void deactivate(struct sender *sender, struct partition *p)
{
    list_remove(&p->active_link);
    cancel_timer(sender, &p->timer);
    cancel_timer(sender, &p->expiry);
    sender_leave_lists(p);
}

void sender_refresh(struct sender *sender, struct partition *p)
{
    struct partition_state state;
    partition_collect(p, &state);
    struct producer_batch *front = sender_front(p);
    if (!front && !state.open_bytes) {
        sender_leave_lists(p);
        cancel_timer(sender, &p->timer);
        if (list_empty(&p->in_flight) && has_batches(p))
            deactivate(sender, p);
        return;
    }
    int64_t created_ms = front ? front->created_ms : state.open_created_ms,
            now = sender_now_ms(sender);
    activate(sender, p, created_ms);
    if (p->retry_at_ms > now) {
        sender_leave_lists(p);
        set_timer(sender, &p->timer, p->retry_at_ms);
        return;
    }
    p->retry_at_ms = 0;
    if (front && !producer_batch_is_sealed(front)) {
        sender_leave_lists(p); /* the thread that seals it will hand the partition over again */
        return;
    }

    int64_t linger_over_ms = created_ms + sender->producer->settings.linger_ms;
    p->due = linger_over_ms <= now || sender_is_urgent(sender) || (front && front->attempts);
    if (p->due)
        cancel_timer(sender, &p->timer);
    else
        set_timer(sender, &p->timer, linger_over_ms);
    if (!p->due && !front && !state.full) {
        sender_leave_lists(p);
        return;
    }
    struct sender_broker *to = atomic_load_explicit(&p->broker, memory_order_relaxed);
    if (to) {
        join_ready(to, p);
        to->dirty = true;
    } else {
        look_for_leader(sender, p);
    }
}

void sender_refresh_all(struct sender *sender)
{
    struct list *link, *after;
    list_each(link, after, &sender->active)
        sender_refresh(sender, list_item(link, struct partition, active_link));
}
/* --- turns --- */

void sender_look(struct sender *sender)
{
    struct mpsc_item *item = accumulator_take_handed(&sender->producer->accumulator);
    while (item) {
        struct partition *p = container_of(item, struct partition, handed);
        item = item->next;
        partition_received(p);
        sender_refresh(sender, p);
        if (sender->purging)
            sender_purge(sender, p); /* it was being sealed when the others failed */
    }
}

static void take_handed(struct loop_task *task)
{
    struct sender *sender = container_of(task, struct sender, task);
    atomic_exchange_explicit(&sender->posted, false, memory_order_acq_rel);
    sender_look(sender);
    sender_pump_dirty(sender);
}

static void relieve(struct loop_task *task)
{
    struct sender *sender = container_of(task, struct sender, pressure_task);
    atomic_store(&sender->pressure_posted, false);
    atomic_store(&sender->producer->urgent, true);
    sender_refresh_all(sender);
    sender_pump_dirty(sender);
}

void sender_relieve(struct sender *sender)
{
    if (!atomic_exchange(&sender->pressure_posted, true))
        loop_post(sender->producer->client.loop, &sender->pressure_task);
}

int sender_init(struct sender *sender, cafka_producer *producer, cafka_error *err)
{
    *sender = (struct sender){.producer = producer,
                              .task.run = take_handed,
                              .pressure_task.run = relieve,
                              .identity = {-1, -1}};
    list_init(&sender->brokers);
    list_init(&sender->active);
    list_init(&sender->idle_calls);
    list_init(&sender->calls);
    list_init(&sender->flushes);
    return decompressor_new(&sender->decompressor, err);
}

void sender_fini(struct sender *sender)
{
    if (!sender->producer)
        return;
    sender_requests_free(sender);
    struct list *link;
    while ((link = list_pop_front(&sender->brokers)))
        mem_free(list_item(link, struct sender_broker, link));
    decompressor_free(sender->decompressor);
    arena_fini(&sender->arena);
    sender->producer = NULL;
}
