/*
 * send_slow.c - a record with something in its way: metadata, memory, a new block or batch, the end.
 */
#include "producer/send.h"

size_t send_growth_limit(cafka_producer *producer, cafka_topic *topic)
{
    const struct accumulator *a = &producer->accumulator;
    size_t limit = batch_limits_wire(&topic->limits);
    if (limit != SIZE_MAX && a->codec != CODEC_NONE)
        limit = batch_limits_raw(&topic->limits, limit);
    return limit < a->batch_max ? limit : a->batch_max;
}

static int no_memory(cafka_producer *producer, cafka_topic *topic, int rc, cafka_error *err)
{
    long long limit = (long long)producer->settings.buffer_memory_bytes;
    if (rc == CAFKA_ERR_WOULD_BLOCK)
        return error_set(err, rc,
                         "sending to %s would have to wait: buffer.memory (%lld) is used up",
                         topic->name, limit);
    if (rc == CAFKA_ERR_TIMEOUT)
        return error_set(err, rc,
                         "sending to %s: buffer.memory (%lld) stayed used up for max.block.ms (%lld)",
                         topic->name, limit, (long long)producer->settings.max_block_ms);
    return error_set(err, CAFKA_ERR_MEMORY, "no memory for a record to %s", topic->name);
}

/* Stand in line for a block. */
int send_await_block(cafka_producer *producer, cafka_topic *topic, size_t needed,
                     struct patience *patience, struct block **out, cafka_error *err)
{
    struct memory_pool *pool = &producer->accumulator.pool;
    sender_relieve(&producer->sender);
    if (patience->never || client_may_wait(&producer->client, NULL))
        return no_memory(producer, topic, CAFKA_ERR_WOULD_BLOCK, err);
    struct pool_waiter waiter;
    int rc = memory_pool_join(pool, &waiter, needed, err);
    if (rc)
        return rc;
    sender_relieve(&producer->sender); /* again: now it is seen that somebody waits */
    int waited =
        client_wait(&producer->client, waiter.event, patience_deadline(producer, patience), NULL);
    rc = memory_pool_leave(pool, &waiter, out);
    if (rc == CAFKA_ERR_MEMORY)
        return no_memory(producer, topic, rc, err);
    if (!rc)
        return CAFKA_OK;
    int unusable = producer_usable(producer, err);
    return unusable
               ? unusable
               : no_memory(producer, topic, waited ? CAFKA_ERR_TIMEOUT : CAFKA_ERR_WOULD_BLOCK, err);
}

static int await_partition(struct slow_send *s, cafka_error *err)
{
    int32_t wanted = s->record->flags & CAFKA_RECORD_PARTITION ? s->record->partition : -1;
    int rc = topic_await(s->topic, wanted, patience_deadline(s->producer, s->patience), err);
    if (!rc && !(s->record->flags & CAFKA_RECORD_TIMESTAMP))
        s->append->timestamp_ms = env_wall_ms(s->producer->client.env);
    return rc;
}

void send_follow_up(cafka_producer *producer, struct partition *p,
                    const struct append_outcome *outcome)
{
    if (outcome->to_seal)
        accumulator_seal(&producer->accumulator, outcome->to_seal);
    if (outcome->opened || outcome->announced || outcome->grown || outcome->to_seal)
        sender_tell(producer, p, outcome);
}

/*
 * Append with all that this may bring: a new block, a new batch, a closed one. CAFKA_ERR_CONCURRENT:
 * the sticky partitioner has moved on, so choose again.
 */
static int append_once(struct slow_send *s, struct partition *p, bool sticky)
{
    cafka_producer *producer = s->producer;
    struct append_outcome outcome = {0};
    bool over = false;
    pthread_mutex_lock(&p->mu);
    if (sticky && atomic_load_explicit(&s->topic->sticky, memory_order_acquire) != p) {
        pthread_mutex_unlock(&p->mu);
        return CAFKA_ERR_CONCURRENT;
    }
    int rc = partition_append_locked(&producer->accumulator, p, s->append,
                                     send_growth_limit(producer, s->topic), &s->spare, &outcome,
                                     &s->needed);
    if (!rc && s->waiter) {
        s->waiter->index = outcome.index;
        s->waiter->report.timestamp_ms = s->append->timestamp_ms;
        outcome.batch->waited++;
        list_push_back(&outcome.batch->waiters, &s->waiter->link);
    }
    if (!rc && sticky)
        over = send_count_sticky(producer, p, outcome.size);
    pthread_mutex_unlock(&p->mu);

    send_follow_up(producer, p, &outcome);
    if (over)
        topic_move_on(s->topic, p);
    return rc;
}

int send_closed(cafka_producer *producer, cafka_error *err)
{
    int rc = producer_usable(producer, err); /* says why */
    return rc ? rc
              : error_set(err, CAFKA_ERR_CLOSED,
                          "the producer is closing and takes no more records");
}

/* What stands in the way of an append: wait for it, or say why not. CAFKA_OK: try again. */
static int overcome(struct slow_send *s, int obstacle, cafka_error *err)
{
    if (obstacle == CAFKA_ERR_CONCURRENT)
        return CAFKA_OK;
    if (obstacle == CAFKA_ERR_MEMORY)
        return no_memory(s->producer, s->topic, obstacle, err);
    if (obstacle == CAFKA_ERR_CLOSED)
        return send_closed(s->producer, err);
    if (s->spare) { /* too small, as the record turned out to need a batch of its own */
        memory_pool_release(&s->producer->accumulator.pool, s->spare);
        s->spare = NULL;
    }
    return send_await_block(s->producer, s->topic, s->needed, s->patience, &s->spare, err);
}

/* One try. *done: the record is in. */
static int try_once(struct slow_send *s, bool *done, cafka_error *err)
{
    bool sticky = false;
    struct partition *p = s->chosen;
    if (!p)
        p = send_choose(s->producer, s->topic, s->record, &sticky);
    if (!p)
        return await_partition(s, err);
    if (!sticky)
        s->chosen = p; /* a turn that was taken is not taken again */
    int rc = append_once(s, p, sticky);
    *done = !rc;
    return rc ? overcome(s, rc, err) : CAFKA_OK;
}

int send_slowly(struct slow_send *s, cafka_error *err)
{
    bool done = false;
    int rc = CAFKA_OK;
    while (!done && !rc) {
        rc = producer_usable(s->producer, err);
        if (!rc)
            rc = try_once(s, &done, err);
    }
    if (s->spare)
        memory_pool_release(&s->producer->accumulator.pool, s->spare);
    return rc;
}
