/*
 * sender_fail.c - giving up: a batch whose time is over, a purge, an error that ends the producer.
 */
#include "producer/sender.h"

#include "producer/room.h"

static void give_up(struct sender *sender, struct producer_batch *batch, const cafka_error *why)
{
    cafka_error error = *why;
    error.flags &= ~(unsigned)CAFKA_UNKNOWN_OUTCOME;
    if (batch->on_wire || batch->maybe_written)
        error.flags |= CAFKA_UNKNOWN_OUTCOME;
    if (!batch->on_wire)
        list_remove(&batch->link); /* else it stays in flight, until its request ends */
    sender_finish(sender, batch, &error);
}

/* delivery.timeout.ms is over for the oldest batches of a partition. */
void sender_expire(struct sender *sender, struct partition *p)
{
    int64_t timeout_ms = sender->producer->settings.delivery_timeout_ms, now = sender_now_ms(sender);
    struct partition_state state;
    partition_collect(p, &state);
    if (state.open_bytes && state.open_created_ms + timeout_ms <= now)
        (void)partition_take_open(&sender->producer->accumulator, p);

    int64_t next_ms = state.open_bytes ? state.open_created_ms + timeout_ms : INT64_MAX;
    struct list *lists[] = {&p->in_flight, &p->queue};
    for (int i = 0; i < 2; i++) {
        struct list *link, *after;
        list_each(link, after, lists[i])
        {
            struct producer_batch *batch = list_item(link, struct producer_batch, link);
            if (batch->finished)
                continue;
            bool sealed = producer_batch_is_sealed(batch);
            int64_t end_ms = batch->created_ms + timeout_ms;
            if (end_ms > now || !sealed) {
                end_ms = sealed ? end_ms : now + 1; /* whoever seals it is about to be done */
                next_ms = end_ms < next_ms ? end_ms : next_ms;
                continue;
            }
            cafka_error why = {0};
            const cafka_error *last = &sender->producer->trouble;
            struct sender_broker *to = atomic_load_explicit(&p->broker, memory_order_relaxed);
            const char *because = batch->attempts ? "no broker acknowledged them"
                                  : to            ? "the leader could not be reached"
                                                  : "the partition has no leader";
            pthread_mutex_lock(&sender->producer->mu);
            error_set(&why, CAFKA_ERR_TIMEOUT,
                      "%d records to %s-%d were not delivered within delivery.timeout.ms (%lld): "
                      "%s%s%.100s",
                      (int)batch->count, p->topic->name, (int)p->index, (long long)timeout_ms,
                      because, last->code ? ", last: " : "", last->message);
            pthread_mutex_unlock(&sender->producer->mu);
            if (producer_may_warn(sender->producer))
                log_warn(sender->producer->log, "%s", why.message);
            give_up(sender, batch, &why);
        }
    }
    if (next_ms != INT64_MAX && list_linked(&p->active_link))
        loop_timer_set(sender->producer->client.loop, &p->expiry, next_ms > now ? next_ms : now + 1);
    sender_refresh(sender, p);
}

/* what: CAFKA_PURGE_*, of the records there are. */
static void fail_partition(struct sender *sender, struct partition *p, unsigned what,
                           const cafka_error *why)
{
    if (what & CAFKA_PURGE_QUEUED)
        (void)partition_take_open(&sender->producer->accumulator, p);
    struct list *lists[] = {what & CAFKA_PURGE_IN_FLIGHT ? &p->in_flight : NULL,
                            what & CAFKA_PURGE_QUEUED ? &p->queue : NULL};
    for (int i = 0; i < 2; i++) {
        struct list *link, *after;
        if (!lists[i])
            continue;
        list_each(link, after, lists[i])
        {
            struct producer_batch *batch = list_item(link, struct producer_batch, link);
            bool sealed = producer_batch_is_sealed(batch);
            if (batch->finished || !sealed)
                continue; /* who seals it hands it over, and then it fails */
            if (sender->purging && why->code == CAFKA_ERR_PURGED)
                sender->purged += (size_t)batch->count;
            give_up(sender, batch, why);
        }
    }
    sender_refresh(sender, p);
}

static void fail_partitions(struct sender *sender, unsigned what, const cafka_error *why)
{
    struct list *link, *after;
    list_each(link, after, &sender->active)
        fail_partition(sender, list_item(link, struct partition, active_link), what, why);
}

void sender_purge(struct sender *sender, struct partition *p)
{
    fail_partition(sender, p, CAFKA_PURGE_QUEUED | CAFKA_PURGE_IN_FLIGHT, &sender->purge_error);
}

void sender_purge_now(struct sender *sender, unsigned what, const cafka_error *why)
{
    sender_look(sender);
    fail_partitions(sender, what, why);
    sender_pump_dirty(sender);
}

void sender_fail_all(struct sender *sender, const cafka_error *why)
{
    sender->purging = true;
    compressors_hurry(&sender->producer->compressors);
    sender->purge_error = *why;
    fail_partitions(sender, CAFKA_PURGE_QUEUED | CAFKA_PURGE_IN_FLIGHT, why);
}

void sender_fatal(struct sender *sender, const cafka_error *why)
{
    cafka_producer *producer = sender->producer;
    if (atomic_load(&producer->failed))
        return;
    pthread_mutex_lock(&producer->mu);
    producer->fatal = *why;
    producer->fatal.flags |= CAFKA_FATAL;
    cafka_error fatal = producer->fatal;
    pthread_mutex_unlock(&producer->mu);
    atomic_store(&producer->failed, true);
    int told = 0;
    client_report(&producer->client, &told, &fatal, NULL, -1, -1);
    sender_refuse_all(sender);
    sender_fail_all(sender, &fatal);
}
