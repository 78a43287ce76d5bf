/*
 * sender_gate.c - may the next batch of a partition leave for this broker, and with which number?
 *
 * What idempotence.c decides from numbers is asked here with what the sender knows, and what it
 * says is done to the batches of the queue.
 */
#include "producer/sender.h"

#include "producer/room.h"

static bool is_confirmed(const struct sender_broker *to, const struct partition *p)
{
    const struct metadata_partition *known = metadata_partition(p->topic->meta, p->index);
    return p->confirmed_broker == to->broker->id && known &&
           known->leader_epoch == p->confirmed_epoch;
}

/* The queue begins anew: with nothing on the wire, no batch of it is in the log. */
static void restart_sequences(struct sender *sender, struct partition *p)
{
    if (p->sequences.id == sender->identity.id && p->sequences.epoch == sender->identity.epoch &&
        sender->identity.id >= 0)
        (void)identity_bump(&sender->identity); /* used up: no id, and the next batch asks for one */
    sequences_restart(&p->sequences, &sender->identity);
    struct list *link, *after;
    list_each(link, after, &p->queue)
    {
        struct producer_batch *batch = list_item(link, struct producer_batch, link);
        batch->producer_id = -1;
        batch->producer_epoch = -1;
        batch->base_sequence = -1;
        batch->maybe_written = false;
    }
    log_info(sender->producer->log,
             "%s-%d: sequences begin anew, with producer id %lld and epoch %d", p->topic->name,
             (int)p->index, (long long)sender->identity.id, sender->identity.epoch);
}

static bool is_retrying(const struct partition *p)
{
    struct list *link = list_last(&p->in_flight);
    return link && list_item(link, struct producer_batch, link)->attempts > 1;
}

enum sequence_gate sender_gate(struct sender *sender, struct sender_broker *to, struct partition *p)
{
    if (p->wire_count && p->wire_broker != to)
        return GATE_WAIT; /* the old leader answers first */
    if (!sender->producer->settings.enable_idempotence)
        return GATE_OPEN;
    for (;;) {
        struct producer_batch *front = sender_front(p);
        struct gate_question question = {.has_sequence = front && front->base_sequence >= 0,
                                         .on_wire = p->wire_count,
                                         .retrying = is_retrying(p),
                                         .confirmed = is_confirmed(to, p)};
        enum sequence_gate gate = sequences_gate(&p->sequences, &sender->identity, &question);
        if (gate != GATE_RESTART)
            return gate;
        restart_sequences(sender, p);
    }
}
