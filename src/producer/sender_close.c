/*
 * sender_close.c - flush and close: waiting for the batches that there are.
 *
 * A flush counts the batches that exist when it reaches the loop and is over when so many are
 * done; each batch knows the first flush that counted it, and all later ones did too. Closing is a
 * flush behind which no new batch can come, with a time after which what is left fails.
 */
#include "producer/sender.h"

#include "producer/room.h"
#include "util/alloc.h"

static struct sender *sender_of(cafka_producer *producer)
{
    return &producer->sender;
}

/* --- counting batches --- */

static size_t mark_list(struct list *list, uint64_t epoch)
{
    size_t count = 0;
    struct list *link, *after;
    list_each(link, after, list)
    {
        struct producer_batch *batch = list_item(link, struct producer_batch, link);
        if (batch->finished)
            continue;
        if (!batch->flush_mark)
            batch->flush_mark = epoch;
        count++;
    }
    return count;
}

static size_t mark_partition(struct partition *p, uint64_t epoch)
{
    struct partition_state state;
    partition_collect(p, &state);
    size_t count = mark_list(&p->in_flight, epoch) + mark_list(&p->queue, epoch);
    pthread_mutex_lock(&p->mu);
    if (p->open) {
        if (!p->open->flush_mark)
            p->open->flush_mark = epoch;
        count++;
    }
    count += mark_list(&p->closed, epoch); /* closed since we looked, a moment ago */
    pthread_mutex_unlock(&p->mu);
    return count;
}

static void begin(struct sender *sender, struct flush *flush)
{
    sender_look(sender);
    flush->epoch = ++sender->flush_count;
    list_push_back(&sender->flushes, &flush->link);
    struct list *link, *after;
    list_each(link, after, &sender->active) flush->left +=
        mark_partition(list_item(link, struct partition, active_link), flush->epoch);
    if (!flush->left) {
        list_remove(&flush->link);
        flush->done(flush);
        return;
    }
    atomic_store(&sender->producer->urgent, true);
    sender_refresh_all(sender);
    sender_pump_dirty(sender);
}

static void count(struct sender *sender, uint64_t flush_mark, ptrdiff_t change)
{
    if (!flush_mark)
        return;
    struct list *link, *after;
    list_each(link, after, &sender->flushes)
    {
        struct flush *flush = list_item(link, struct flush, link);
        if (flush->epoch < flush_mark)
            continue;
        flush->left += (size_t)change;
        if (!flush->left) {
            list_remove(link);
            flush->done(flush);
        }
    }
}

void sender_batch_done(struct sender *sender, uint64_t flush_mark)
{
    count(sender, flush_mark, -1);
}

void sender_batch_split(struct sender *sender, const struct producer_batch *batch, size_t children)
{
    count(sender, batch->flush_mark, (ptrdiff_t)children - 1);
}

void sender_calm(struct sender *sender)
{
    cafka_producer *producer = sender->producer;
    if (atomic_load_explicit(&producer->urgent, memory_order_relaxed) &&
        list_empty(&sender->flushes) && !sender->closing &&
        !atomic_load(&producer->accumulator.pool.waiting))
        atomic_store(&producer->urgent, false);
}

/* --- flush --- */

/* Shared by the caller and the loop; who lets go last frees it. */
struct flush_call {
    struct flush flush;
    struct loop_task task;
    cafka_producer *producer;
    int event;
    atomic_int refs;
};

void flush_drop(struct flush_call *call)
{
    if (!call || atomic_fetch_sub(&call->refs, 1) > 1)
        return;
    const cafka_env *env = call->producer->client.env;
    if (call->event >= 0)
        env->event_close(env, call->event);
    mem_free(call);
}

static void flush_done(struct flush *flush)
{
    struct flush_call *call = container_of(flush, struct flush_call, flush);
    client_signal(&call->producer->client, call->event);
    flush_drop(call);
}

static void begin_flush(struct loop_task *task)
{
    struct flush_call *call = container_of(task, struct flush_call, task);
    begin(sender_of(call->producer), &call->flush);
}

int flush_start(cafka_producer *producer, struct flush_call **out, cafka_error *err)
{
    struct flush_call *call = mem_zalloc(sizeof *call);
    if (!call)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to flush");
    const cafka_env *env = producer->client.env;
    call->producer = producer;
    call->flush.done = flush_done;
    call->task.run = begin_flush;
    atomic_init(&call->refs, 1);
    call->event = env->event_open(env);
    if (call->event < 0) {
        int rc =
            error_errno(err, CAFKA_ERR_SYSTEM, -call->event, "making an event to wait for a flush");
        flush_drop(call);
        return rc;
    }
    atomic_store(&call->refs, 2);
    loop_post(producer->client.loop, &call->task);
    *out = call;
    return CAFKA_OK;
}

int flush_wait(struct flush_call *call, int64_t deadline, cafka_error *err)
{
    int rc = client_wait(&call->producer->client, call->event, deadline, NULL);
    if (rc == CAFKA_ERR_TIMEOUT)
        return error_set(err, rc,
                         "flush: there are records whose delivery is not finished; they go on being sent");
    return rc ? client_may_wait(&call->producer->client, err) : CAFKA_OK;
}

/* --- close --- */

static void refuse(struct partition *p)
{
    pthread_mutex_lock(&p->mu);
    p->closing = true;
    p->end = p->at; /* the fast path finds no room, and the slow one the reason */
    pthread_mutex_unlock(&p->mu);
}

void sender_refuse_all(struct sender *sender)
{
    cafka_producer *producer = sender->producer;
    sender->refusing = true;
    struct list *link, *after;
    list_each(link, after, &producer->topics.all)
    {
        cafka_topic *topic = list_item(link, cafka_topic, link);
        for (int32_t i = 0; i < topic->all_count; i++)
            refuse(topic->all[i]);
    }
    memory_pool_close(&producer->accumulator.pool);
    topics_wake_all(&producer->topics);
}

/* Nothing is sent any more, and no timer of ours is left in the loop. */
static void stop(struct sender *sender)
{
    struct loop *loop = sender->producer->client.loop;
    sender->stopped = true;
    sender_id_stop(sender);
    loop_timer_cancel(loop, &sender->close_timer);
    struct list *link, *after;
    list_each(link, after, &sender->brokers)
        loop_alarm_cancel(loop, &list_item(link, struct sender_broker, link)->alarm);
    list_each(link, after, &sender->active)
    {
        struct partition *p = list_item(link, struct partition, active_link);
        loop_timer_cancel(loop, &p->timer);
        loop_timer_cancel(loop, &p->expiry);
    }
}

static void close_done(struct flush *flush)
{
    struct sender *sender = container_of(flush, struct sender, close_flush);
    stop(sender);
    atomic_store(&sender->close_over, true);
    client_signal(&sender->producer->client, sender->close_event);
}

static void purge(struct timer *timer)
{
    struct sender *sender = container_of(timer, struct sender, close_timer);
    cafka_error why = {0};
    error_set(&why, CAFKA_ERR_PURGED, "the producer was closed before the record was delivered");
    sender_fail_all(sender, &why);
}

static void begin_close(struct loop_task *task)
{
    struct sender *sender = container_of(task, struct sender, close_task);
    atomic_store(&sender->close_posted, false);
    if (sender->stopped)
        return;
    if (!sender->closing) {
        sender->closing = true;
        sender_refuse_all(sender);
        sender->close_flush.done = close_done;
        begin(sender, &sender->close_flush);
    }
    int64_t deadline = atomic_load(&sender->close_deadline);
    if (sender->stopped || deadline == CAFKA_NEVER)
        return;
    sender->close_timer.fire = purge;
    int64_t now = loop_now_ns(sender->producer->client.loop);
    if (deadline <= now)
        purge(&sender->close_timer);
    else
        loop_timer_set(sender->producer->client.loop, &sender->close_timer, deadline / NS_PER_MS);
}

void closing_start(cafka_producer *producer, int64_t deadline)
{
    struct sender *sender = sender_of(producer);
    atomic_store(&producer->closing, true);
    int64_t known = atomic_load(&sender->close_deadline);
    while (deadline < known &&
           !atomic_compare_exchange_weak(&sender->close_deadline, &known, deadline))
        ;
    if (!atomic_exchange(&sender->close_posted, true))
        loop_post(producer->client.loop, &sender->close_task);
}

int closing_wait(cafka_producer *producer, int64_t deadline, cafka_error *err)
{
    struct sender *sender = sender_of(producer);
    int rc = atomic_load(&sender->close_over)
                 ? CAFKA_OK
                 : client_wait(&producer->client, sender->close_event, deadline, err);
    if (!rc)
        client_signal(&producer->client, sender->close_event); /* for others that wait */
    return rc;
}

int closing_init(cafka_producer *producer, cafka_error *err)
{
    struct sender *sender = sender_of(producer);
    const cafka_env *env = producer->client.env;
    sender->close_task.run = begin_close;
    atomic_init(&sender->close_deadline, CAFKA_NEVER);
    sender->close_event = env->event_open(env);
    if (sender->close_event < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -sender->close_event,
                           "making an event to wait for close");
    sender->close_event_made = true;
    return CAFKA_OK;
}

void closing_fini(cafka_producer *producer)
{
    struct sender *sender = sender_of(producer);
    if (sender->close_event_made)
        producer->settings.client.env->event_close(producer->settings.client.env,
                                                   sender->close_event);
    sender->close_event_made = false;
}
