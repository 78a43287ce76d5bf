/*
 * sender_request.c - one Produce request: which batches are in it, how they are numbered and laid
 * out, and what happens if it can't be sent after all.
 */
#include "producer/sender.h"

#include "producer/room.h"
#include "protocol/api_keys.h"
#include "util/alloc.h"

enum { SHORT_OF_MEMORY_MS = 100 };

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
/* The batch that goes next; an open one is closed now, with all that has come until now. */
static struct producer_batch *next_batch(struct sender *sender, struct partition *p)
{
    if (list_empty(&p->queue))
        (void)partition_take_open(&sender->producer->accumulator, p);
    struct producer_batch *front = sender_front(p);
    return front && producer_batch_is_sealed(front) ? front : NULL;
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
    const struct metadata_partition *known = metadata_partition(p->topic->meta, p->index);
    p->sent_epoch = known ? known->leader_epoch : -1;
    call->batches[call->count++] = batch;
}

/* As many batches as fit, one of each partition, in turn. */
static void fill_call(struct sender *sender, struct sender_broker *to, struct produce_call *call)
{
    size_t size = 0, most = (size_t)sender->producer->settings.max_request_size_bytes;
    uint32_t mark = (uint32_t)++sender->request_count;
    struct list *link;
    while ((link = list_first(&to->ready))) {
        struct partition *p = list_item(link, struct partition, sender_link);
        if (p->request_mark == mark)
            return; /* all had their turn */
        enum sequence_gate gate = sender_gate(sender, to, p);
        if (gate != GATE_OPEN) {
            sender_leave_lists(p); /* the answer that it waits for brings it back */
            if (gate == GATE_NEED_ID)
                sender_need_id(sender);
            continue;
        }
        struct producer_batch *batch = next_batch(sender, p);
        if (!batch) {
            sender_leave_lists(p);
            continue;
        }
        if (call->count && size + batch->size > most)
            return; /* it goes first next time */
        if (!reserve(sender, call)) {
            if (!call->count) {
                p->retry_at_ms = sender_now_ms(sender) + SHORT_OF_MEMORY_MS;
                sender_refresh(sender, p);
                continue;
            }
            return;
        }
        size += batch->size;
        p->request_mark = mark;
        sender_leave_lists(p);
        take_batch(sender, to, call, batch);
        topic_batch_leaves(p->topic);
        sender_refresh(sender, p);
        if (sender_slice_is_over(sender))
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
            p->retry_at_ms = sender_now_ms(sender) + SHORT_OF_MEMORY_MS;
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

bool sender_send_one(struct sender *sender, struct sender_broker *to, struct conn *conn)
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
        if (producer_may_warn(sender->producer))
            log_warn(sender->producer->log, "a request to broker %d was not sent: %s",
                     (int)to->broker->id, err.message);
        take_back(sender, call, &err);
        return false;
    }
    producer_count_request(sender->producer, call);
    call->to = to;
    to->in_flight++;
    atomic_fetch_add_explicit(&sender->requests_in_flight, 1, memory_order_relaxed);
    list_push_back(&sender->calls, &call->link);
    return true;
}

void sender_requests_free(struct sender *sender)
{
    struct list *link;
    while ((link = list_pop_front(&sender->idle_calls)))
        free_call(list_item(link, struct produce_call, link));
    while ((link = list_pop_front(&sender->calls)))
        free_call(list_item(link, struct produce_call, link));
    mem_free(sender->topics);
    mem_free(sender->topic_of);
    mem_free(sender->partitions);
}
