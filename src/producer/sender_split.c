/*
 * sender_split.c - a batch that is too large for its topic goes on as several smaller ones.
 */
#include "producer/sender_outcome.h"

#include "producer/room.h"

/* The children take the parent's sequences one after another, so that none is left out. */
static void number_children(struct producer_batch *batch, struct list *children)
{
    int32_t sequence = batch->base_sequence;
    struct list *link, *after;
    list_each(link, after, children)
    {
        struct producer_batch *child = list_item(link, struct producer_batch, link);
        child->producer_id = batch->producer_id;
        child->producer_epoch = batch->producer_epoch;
        child->base_sequence = sequence;
        child->maybe_written = batch->maybe_written;
        if (sequence >= 0)
            sequence = sequence_add(sequence, child->count);
    }
}

/* Who waits for a record waits for it in the child that has it now. */
static void move_waiters(struct producer_batch *batch, struct list *children)
{
    struct list *link, *after, *child_link, *child_after;
    list_each(link, after, &batch->waiters)
    {
        struct send_waiter *waiter = list_item(link, struct send_waiter, link);
        list_each(child_link, child_after, children)
        {
            struct producer_batch *child = list_item(child_link, struct producer_batch, link);
            int32_t first = child->root_index - batch->root_index;
            if (waiter->index < first || waiter->index >= first + child->count)
                continue;
            list_remove(link);
            waiter->index -= first;
            list_push_back(&child->waiters, link);
            child->waited++;
            break;
        }
    }
}

void sender_apply_split(struct sender *sender, struct producer_batch *batch,
                        const struct outcome *outcome)
{
    struct partition *p = batch->partition;
    struct accumulator *a = &sender->producer->accumulator;
    size_t limit = batch_limits_refused(&p->topic->limits, batch->size, batch->raw_size,
                                        a->batch_size, sender_now_ms(sender));
    struct sealer *sealer = accumulator_sealer_get(a);
    struct list children;
    cafka_error why = {0};
    int rc =
        producer_batch_split(batch, limit, sender->decompressor, sealer, &a->pool, &children, &why);
    accumulator_sealer_put(a, sealer);
    if (rc) {
        struct outcome failed = *outcome;
        failed.error = why;
        sender_apply_failure(sender, batch, &failed);
        return;
    }
    log_info(sender->producer->log,
             "%s-%d: a batch of %zu bytes was too large for the topic; it is split into batches "
             "of %zu bytes",
             p->topic->name, (int)p->index, batch->size, limit);
    producer_count_split(sender->producer);
    number_children(batch, &children);
    move_waiters(batch, &children);
    struct list *link;
    size_t count = 0;
    while ((link = list_pop_front(&children))) {
        sender_requeue(p, list_item(link, struct producer_batch, link));
        count++;
    }
    sender_batch_split(sender, batch, count);
    producer_batch_release(batch, &a->pool);
}
