/*
 * sender.c - see sender.h: readiness, brokers, and building requests.
 */
#include "producer/sender.h"

#include "producer/room.h"
#include "protocol/api_keys.h"
#include "util/alloc.h"

enum {
    HOLD_BYTES = 256 << 10, /* so much is worth a request even while others are in flight */
    SHORT_OF_MEMORY_MS = 100,
    SLICE_NS = 1000000 /* of compressing in one turn; the rest waits for the next */
};

static int64_t now_ms(const struct sender *sender)
{
    return loop_now_ms(sender->producer->client.loop);
}

static bool is_urgent(const struct sender *sender)
{
    return atomic_load_explicit(&sender->producer->urgent, memory_order_relaxed);
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
    accumulator_hand_over(a, p);
    int64_t by_ns = (outcome->created_ms + a->linger_ms) * NS_PER_MS;
    if (outcome->grown) {
        struct sender_broker *to = atomic_load_explicit(&p->broker, memory_order_acquire);
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
    list_init(&b->ready);
    list_push_back(&sender->brokers, &b->link);
    broker->user = b;
    return b;
}

static void leave_lists(struct partition *p)
{
    list_remove(&p->sender_link);
    p->ready = false;
    p->leaderless = false;
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
        leave_lists(p);
        atomic_store_explicit(&p->broker, to, memory_order_release);
        p->retry_at_ms = 0; /* a new leader need not wait for what went wrong with the old one */
    }
    if (to && known->leader_epoch > p->confirmed_epoch && p->confirmed_epoch >= 0)
        p->retry_at_ms = 0;
    if (has_batches(p))
        sender_refresh(sender, p);
}

/* Something to send and nobody to send it to: have metadata look for the leader. */
static void look_for_leader(struct sender *sender, struct partition *p)
{
    if (p->leaderless)
        return;
    leave_lists(p);
    p->leaderless = true;
    list_push_back(&sender->leaderless, &p->sender_link);
    metadata_refresh(sender->producer->client.metadata);
}

static void join_ready(struct sender_broker *to, struct partition *p)
{
    if (p->ready)
        return;
    leave_lists(p);
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

static struct producer_batch *front_of(const struct partition *p)
{
    struct list *link = list_first(&p->queue);
    return link ? list_item(link, struct producer_batch, link) : NULL;
}

static bool is_sealed(const struct producer_batch *batch)
{
    return atomic_load_explicit(&batch->state, memory_order_acquire) == PRODUCER_BATCH_SEALED;
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
    leave_lists(p);
}

void sender_refresh(struct sender *sender, struct partition *p)
{
    struct partition_state state;
    partition_collect(p, &state);
    struct producer_batch *front = front_of(p);
    if (!front && !state.open_bytes) {
        leave_lists(p);
        cancel_timer(sender, &p->timer);
        if (list_empty(&p->in_flight) && has_batches(p))
            deactivate(sender, p);
        return;
    }
    int64_t created_ms = front ? front->created_ms : state.open_created_ms, now = now_ms(sender);
    activate(sender, p, created_ms);
    if (p->retry_at_ms > now) {
        leave_lists(p);
        set_timer(sender, &p->timer, p->retry_at_ms);
        return;
    }
    p->retry_at_ms = 0;
    if (front && !is_sealed(front)) {
        leave_lists(p); /* the thread that seals it will hand the partition over again */
        return;
    }

    int64_t linger_over_ms = created_ms + sender->producer->settings.linger_ms;
    p->due = linger_over_ms <= now || is_urgent(sender) || (front && front->attempts);
    if (p->due)
        cancel_timer(sender, &p->timer);
    else
        set_timer(sender, &p->timer, linger_over_ms);
    if (!p->due && !front && state.open_bytes < sender->producer->accumulator.batch_size) {
        leave_lists(p);
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

/* --- building a request --- */

static void free_call(struct produce_call *call)
{
    if (!call)
        return;
    mem_free(call->batches);
    mem_free(call->iov);
    mem_free(call);
}

static struct produce_call *get_call(struct sender *sender)
{
    struct list *link = list_pop_front(&sender->idle_calls);
    struct produce_call *call =
        link ? list_item(link, struct produce_call, link) : mem_zalloc(sizeof *call);
    if (call)
        call->count = 0;
    return call;
}

/* Room for one more batch, here and in what is shared between requests. */
static bool reserve(struct sender *sender, struct produce_call *call)
{
    if (call->count == call->capacity) {
        int capacity = call->capacity ? 2 * call->capacity : 16;
        struct producer_batch **batches =
            mem_recalloc(call->batches, (size_t)capacity, sizeof *batches);
        if (!batches)
            return false;
        call->batches = batches;
        call->capacity = capacity;
    }
    if (call->capacity > sender->build_capacity) {
        size_t n = (size_t)call->capacity;
        void *topics = mem_recalloc(sender->topics, n, sizeof *sender->topics);
        if (topics)
            sender->topics = topics;
        void *topic_of = mem_recalloc(sender->topic_of, n, sizeof *sender->topic_of);
        if (topic_of)
            sender->topic_of = topic_of;
        void *partitions = mem_recalloc(sender->partitions, n, sizeof *sender->partitions);
        if (partitions)
            sender->partitions = partitions;
        if (!topics || !topic_of || !partitions)
            return false;
        sender->build_capacity = call->capacity;
    }
    return true;
}

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

static enum sequence_gate ask_gate(struct sender *sender, struct sender_broker *to,
                                   struct partition *p)
{
    if (p->wire_count && p->wire_broker != to)
        return GATE_WAIT; /* the old leader answers first */
    if (!sender->producer->settings.enable_idempotence)
        return GATE_OPEN;
    for (;;) {
        struct producer_batch *front = front_of(p);
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

static bool slice_is_over(const struct sender *sender)
{
    const cafka_env *env = sender->producer->client.env;
    return sender->producer->accumulator.codec != CODEC_NONE &&
           env->now(env) >= sender->slice_end_ns;
}

/* The batch that goes next; an open one is closed now, with all that has come until now. */
static struct producer_batch *next_batch(struct sender *sender, struct partition *p)
{
    if (list_empty(&p->queue))
        (void)partition_take_open(&sender->producer->accumulator, p);
    struct producer_batch *front = front_of(p);
    return front && is_sealed(front) ? front : NULL;
}

static void take_batch(struct sender *sender, struct sender_broker *to, struct produce_call *call,
                       struct producer_batch *batch)
{
    struct partition *p = batch->partition;
    list_remove(&batch->link);
    list_push_back(&p->in_flight, &batch->link);
    if (sender->producer->settings.enable_idempotence && batch->base_sequence < 0) {
        batch->producer_id = sender->identity.id;
        batch->producer_epoch = sender->identity.epoch;
        batch->base_sequence = sequences_assign(&p->sequences, batch->count);
    }
    producer_batch_stamp(batch);
    atomic_fetch_sub_explicit(&p->queued_blocks, batch->queued_blocks, memory_order_relaxed);
    batch->queued_blocks = 0;
    batch->on_wire = true;
    batch->attempts++;
    p->wire_count++;
    p->wire_broker = to;
    call->batches[call->count++] = batch;
}

/* As many batches as fit, one of each partition, in turn. */
static void fill_call(struct sender *sender, struct sender_broker *to, struct produce_call *call)
{
    size_t size = 0, most = (size_t)sender->producer->settings.max_request_size_bytes;
    uint64_t mark = ++sender->request_count;
    struct list *link;
    while ((link = list_first(&to->ready))) {
        struct partition *p = list_item(link, struct partition, sender_link);
        if (p->request_mark == mark)
            return; /* all had their turn */
        enum sequence_gate gate = ask_gate(sender, to, p);
        if (gate != GATE_OPEN) {
            leave_lists(p); /* the answer that it waits for brings it back */
            if (gate == GATE_NEED_ID)
                sender_need_id(sender);
            continue;
        }
        struct producer_batch *batch = next_batch(sender, p);
        if (!batch) {
            leave_lists(p);
            continue;
        }
        if (call->count && size + batch->size > most)
            return; /* it goes first next time */
        if (!reserve(sender, call)) {
            if (!call->count) {
                p->retry_at_ms = now_ms(sender) + SHORT_OF_MEMORY_MS;
                sender_refresh(sender, p);
                continue;
            }
            return;
        }
        size += batch->size;
        p->request_mark = mark;
        leave_lists(p);
        take_batch(sender, to, call, batch);
        topic_update_load(p->topic);
        sender_refresh(sender, p);
        if (slice_is_over(sender))
            return;
    }
}

/* All pieces of all batches; false: no memory. */
static bool point_to_pieces(struct produce_call *call)
{
    size_t count = 0;
    for (int i = 0; i < call->count; i++)
        count += (size_t)call->batches[i]->piece_count;
    if (count > call->iov_capacity) {
        struct iovec *iov = mem_recalloc(call->iov, 2 * count, sizeof *iov);
        if (!iov)
            return false;
        call->iov = iov;
        call->iov_capacity = 2 * count;
    }
    struct iovec *iov = call->iov;
    for (int i = 0; i < call->count; i++) {
        struct producer_batch *batch = call->batches[i];
        batch->pieces = (struct conn_pieces){iov, batch->piece_count};
        producer_batch_pieces(batch, iov);
        iov += batch->pieces.count;
    }
    return true;
}

/* The batches by topic, as the request wants them; *ids: all topics have one. */
static int group_by_topic(struct sender *sender, const struct produce_call *call, bool *ids)
{
    int topics = 0;
    *ids = true;
    for (int i = 0; i < call->count; i++) {
        cafka_topic *topic = call->batches[i]->partition->topic;
        if (topic->request_mark != sender->request_count) {
            topic->request_mark = sender->request_count;
            topic->request_index = topics;
            sender->topic_of[topics] = topic;
            sender->topics[topics++] =
                (struct produce_request_topic_produce_data){.name = {topic->name, topic->name_size},
                                                            .topic_id = topic->meta->id};
            *ids = *ids && !uuid_is_zero(topic->meta->id);
        }
        call->batches[i]->topic_id = topic->meta->id;
        sender->topics[topic->request_index].partition_data_count++;
    }
    struct produce_request_partition_produce_data *next = sender->partitions;
    for (int i = 0; i < topics; i++) {
        sender->topics[i].partition_data = next;
        next += sender->topics[i].partition_data_count;
        sender->topics[i].partition_data_count = 0;
    }
    for (int i = 0; i < call->count; i++) {
        struct producer_batch *batch = call->batches[i];
        struct produce_request_topic_produce_data *topic =
            &sender->topics[batch->partition->topic->request_index];
        topic->partition_data[topic->partition_data_count++] =
            (struct produce_request_partition_produce_data){.index = batch->partition->index,
                                                            .records = {.size = batch->size,
                                                                        .external = &batch->pieces}};
    }
    return topics;
}

/* The request did not leave: as if it had never been built. */
static void take_back(struct sender *sender, struct produce_call *call, const cafka_error *why)
{
    bool hopeless = why->code == CAFKA_ERR_UNSUPPORTED;
    while (call->count) {
        struct producer_batch *batch = call->batches[--call->count];
        struct partition *p = batch->partition;
        batch->on_wire = false;
        batch->attempts--;
        p->wire_count--;
        list_remove(&batch->link);
        if (hopeless) {
            sender_finish(sender, batch, why);
        } else {
            sender_requeue(p, batch);
            p->retry_at_ms = now_ms(sender) + SHORT_OF_MEMORY_MS;
        }
        sender_refresh(sender, p);
    }
    list_push_front(&sender->idle_calls, &call->link);
}

static int choose_version(struct sender *sender, struct conn *conn, bool ids, int *out,
                          cafka_error *err)
{
    int version = conn_version(conn, API_PRODUCE, ids ? -1 : 12);
    if (version < 0)
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "sending to broker %s: it and this client have no version of Produce in common",
                         conn_name(conn));
    if (version < 3)
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "sending to broker %s: it is older than Kafka 0.11 and takes no record batches",
                         conn_name(conn));
    if (version < 7 && sender->producer->accumulator.codec == CODEC_ZSTD)
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "sending to broker %s: it is older than Kafka 2.1 and does not know zstd; choose "
                         "another compression.type",
                         conn_name(conn));
    *out = version;
    return CAFKA_OK;
}

/* Build one request and send it. False: nothing was there that may leave, or it failed. */
static bool send_one(struct sender *sender, struct sender_broker *to, struct conn *conn)
{
    const struct producer_settings *settings = &sender->producer->settings;
    struct produce_call *call = get_call(sender);
    cafka_error err = {0};
    if (!call)
        return false;
    fill_call(sender, to, call);
    if (!call->count) {
        list_push_front(&sender->idle_calls, &call->link);
        return false;
    }
    bool ids;
    int topics = group_by_topic(sender, call, &ids), version = 0;
    struct produce_request body;
    produce_request_init(&body);
    body.acks = (int16_t)settings->acks;
    body.timeout_ms = (int32_t)settings->client.request_timeout_ms;
    body.topic_data = sender->topics;
    body.topic_data_count = topics;

    int rc = choose_version(sender, conn, ids, &version, &err);
    if (!rc && !point_to_pieces(call))
        rc = error_set(&err, CAFKA_ERR_MEMORY, "no memory for a request");
    if (!rc) {
        call->request = (struct request){.done = sender_answered,
                                         .api_key = API_PRODUCE,
                                         .no_response = settings->acks == 0};
        rc = conn_send(conn, &call->request, version, &body, &err);
    }
    if (rc) {
        log_warn(sender->producer->log, "a request to broker %d was not sent: %s",
                 (int)to->broker->id, err.message);
        take_back(sender, call, &err);
        return false;
    }
    call->to = to;
    to->in_flight++;
    list_push_back(&sender->calls, &call->link);
    return true;
}

/* --- brokers --- */

/* While others are in flight, wait for more, as long as nobody's linger.ms is over. */
static bool is_held_back(const struct sender *sender, const struct sender_broker *to)
{
    if (!to->in_flight || !sender->producer->settings.linger_ms || is_urgent(sender))
        return false;
    size_t bytes = 0;
    for (const struct list *link = to->ready.next; link != &to->ready; link = link->next) {
        const struct partition *p = list_item(link, struct partition, sender_link);
        bytes += (size_t)atomic_load_explicit(&p->queued_blocks, memory_order_relaxed) *
                 sender->producer->accumulator.pool.capacity;
        if (p->due || bytes >= HOLD_BYTES)
            return false;
    }
    return true;
}

/* When appenders shall wake the loop: at once if the broker is idle, never if it can take nothing. */
static void say_when_to_wake(const struct sender *sender, struct sender_broker *to, bool can_send)
{
    size_t bytes = !can_send                                               ? SIZE_MAX
                   : to->in_flight && sender->producer->settings.linger_ms ? HOLD_BYTES
                                                                           : 0;
    atomic_store_explicit(&to->wake_bytes, bytes, memory_order_relaxed);
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
        if (!send_one(sender, to, conn))
            break;
        if (slice_is_over(sender)) {
            to->dirty = true;
            sender_wake(sender, 0); /* go on in the next turn */
            break;
        }
    }
    bool can_send = conn && conn_can_send(conn);
    if (can_send || list_empty(&to->ready))
        to->ready_since_ms = 0;
    else if (!to->ready_since_ms)
        to->ready_since_ms = now_ms(sender);
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
    list_init(&sender->leaderless);
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
    struct list *link;
    while ((link = list_pop_front(&sender->idle_calls)))
        free_call(list_item(link, struct produce_call, link));
    while ((link = list_pop_front(&sender->calls)))
        free_call(list_item(link, struct produce_call, link));
    while ((link = list_pop_front(&sender->brokers)))
        mem_free(list_item(link, struct sender_broker, link));
    decompressor_free(sender->decompressor);
    arena_fini(&sender->arena);
    mem_free(sender->topics);
    mem_free(sender->topic_of);
    mem_free(sender->partitions);
    sender->producer = NULL;
}
