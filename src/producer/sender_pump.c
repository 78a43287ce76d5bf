/*
 * sender_pump.c - when a broker is sent a request: as soon as something is ready for it, or, while
 * others are in flight, when it is worth one.
 */
#include "producer/sender.h"

#include "producer/room.h"

enum {
    HOLD_BYTES = 256 << 10, /* so much is worth a request even while others are in flight */
    SLICE_NS = 1000000      /* of compressing in one turn; the rest waits for the next */
};

bool sender_slice_is_over(const struct sender *sender)
{
    const cafka_env *env = sender->producer->client.env;
    return sender->producer->accumulator.codec != CODEC_NONE &&
           env->now(env) >= sender->slice_end_ns;
}
/*
 * While others are in flight, wait for more, as long as nobody's linger.ms is over; without
 * linger.ms until the spacing of requests is.
 */
static bool is_held_back(const struct sender *sender, const struct sender_broker *to)
{
    bool spaced = loop_now_ns(sender->producer->client.loop) < spacing_until_ns(&to->spacing) &&
                  !spacing_has_enough(&to->spacing);
    bool lingers = to->in_flight && sender->producer->settings.linger_ms;
    if ((!spaced && !lingers) || sender_is_urgent(sender))
        return false;
    size_t bytes = 0;
    for (const struct list *link = to->ready.next; link != &to->ready; link = link->next) {
        const struct partition *p = list_item(link, struct partition, sender_link);
        bytes += (size_t)atomic_load_explicit(&p->queued_blocks, memory_order_relaxed) *
                 sender->producer->accumulator.pool.capacity;
        bool in_hurry = spaced ? !list_empty(&p->queue) : p->due; /* closed: full, or a retry */
        if (in_hurry || bytes >= HOLD_BYTES)
            return false;
    }
    return true;
}

/* When appenders shall wake the loop: at once if the broker is idle, never if it can take nothing. */
static void say_when_to_wake(const struct sender *sender, struct sender_broker *to, bool can_send)
{
    bool holds =
        spacing_until_ns(&to->spacing) || (to->in_flight && sender->producer->settings.linger_ms);
    size_t bytes = !can_send ? SIZE_MAX : holds ? HOLD_BYTES : 0;
    atomic_store_explicit(&to->wake_bytes, bytes, memory_order_relaxed);
}

/* An external loop may be run late, and waits in whole milliseconds. */
static bool may_space(const struct sender *sender)
{
    return !sender->producer->settings.linger_ms &&
           loop_mode(sender->producer->client.loop) == LOOP_BACKGROUND;
}

/* A request has left: the next one may have to wait. */
static void space(struct sender *sender, struct sender_broker *to)
{
    struct loop *loop = sender->producer->client.loop;
    if (spacing_sent(&to->spacing, loop_now_ns(loop)))
        loop_alarm_set(loop, &to->alarm,
                       atomic_load_explicit(&to->spacing.alarm_ns, memory_order_relaxed));
    else
        loop_alarm_cancel(loop, &to->alarm);
}

static void pump(struct sender *sender, struct sender_broker *to)
{
    to->dirty = false;
    atomic_store_explicit(&to->unseen, 0, memory_order_relaxed);
    if (list_empty(&to->ready) || sender->stopped) {
        say_when_to_wake(sender, to, true);
        return;
    }
    struct conn *conn = broker_conn(to->broker, LANE_DATA);
    sender->slice_end_ns =
        sender->producer->client.env->now(sender->producer->client.env) + SLICE_NS;
    while (conn && conn_can_send(conn) && !list_empty(&to->ready) && !is_held_back(sender, to)) {
        if (!sender_send_one(sender, to, conn))
            break;
        if (may_space(sender))
            space(sender, to);
        if (sender_slice_is_over(sender)) {
            to->dirty = true;
            sender_wake(sender, 0); /* go on in the next turn */
            break;
        }
    }
    bool can_send = conn && conn_can_send(conn);
    if (spacing_until_ns(&to->spacing) && !list_empty(&to->ready))
        to->dirty = true; /* look again in every turn: one of them is when the time is over */
    if (can_send || list_empty(&to->ready))
        to->ready_since_ms = 0;
    else if (!to->ready_since_ms)
        to->ready_since_ms = sender_now_ms(sender);
    say_when_to_wake(sender, to, can_send);
}

void sender_pump_dirty(struct sender *sender)
{
    struct list *link, *after;
    list_each(link, after, &sender->brokers)
    {
        struct sender_broker *to = list_item(link, struct sender_broker, link);
        if (to->dirty)
            pump(sender, to);
    }
}

void sender_alarm_rang(struct loop_alarm *alarm)
{
    struct sender_broker *to = container_of(alarm, struct sender_broker, alarm);
    spacing_alarm(&to->spacing); /* who appends from here on wakes the loop */
    to->dirty = true;
    sender_pump_dirty(to->sender);
}

void sender_hook_writable(void *room, struct broker *broker, enum lane lane)
{
    cafka_producer *producer = room;
    if (lane != LANE_DATA || !broker->user)
        return;
    struct sender_broker *to = broker->user;
    pump(&producer->sender, to);
    sender_pump_dirty(&producer->sender);
}

void sender_hook_down(void *room, struct broker *broker, enum lane lane, const cafka_error *why)
{
    cafka_producer *producer = room;
    struct sender_broker *to = broker->user;
    if (why && why->code) {
        pthread_mutex_lock(&producer->mu);
        producer->trouble = *why;
        pthread_mutex_unlock(&producer->mu);
    }
    if (lane != LANE_DATA || !to || producer->sender.stopped || list_empty(&to->ready))
        return;
    metadata_refresh(producer->client.metadata); /* perhaps somebody else leads by now */
    to->dirty = true;                            /* and dial again, after the backoff */
    sender_pump_dirty(&producer->sender);
}
