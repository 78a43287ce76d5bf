/*
 * accumulator.c - see accumulator.h.
 */
#include "producer/accumulator.h"

#include <assert.h>

#include "util/alloc.h"

enum {
    BLOCK_MAX =
        16384, /* bytes of batch in a usual block: a small file's worth, whatever batch.size is */
    BLOCK_MIN = 1024,
    ANNOUNCED = 8,   /* records of a batch, without linger.ms */
    CODEC_GROWTH = 8 /* with a codec a batch grows to so many times batch.size, raw */
};

static uint32_t block_capacity(const struct producer_settings *settings)
{
    size_t bytes = (size_t)settings->batch_size_bytes;
    bytes = bytes < BLOCK_MIN ? BLOCK_MIN : bytes > BLOCK_MAX ? BLOCK_MAX : bytes;
    size_t slots = settings->reports ? bytes / 8 : 0; /* about right for records of 100 bytes */
    return (uint32_t)(PRODUCER_BATCH_HEAD + bytes + slots);
}

static size_t growth_limit(const struct producer_settings *settings)
{
    int64_t most = settings->batch_max_size_bytes;
    if (settings->compression != CODEC_NONE &&
        most > CODEC_GROWTH * (int64_t)settings->batch_size_bytes)
        most = CODEC_GROWTH * (int64_t)settings->batch_size_bytes;
    if (most > settings->max_request_size_bytes)
        most = settings->max_request_size_bytes;
    return (size_t)most;
}

/* What key, value and headers of one record may take: an upper bound of its batch is compared. */
static size_t record_limit(const struct producer_settings *settings)
{
    size_t overhead = RECORD_BATCH_OVERHEAD + RECORD_OVERHEAD_MAX;
    size_t request = (size_t)settings->max_request_size_bytes;
    size_t memory = (size_t)settings->buffer_memory_bytes;
    size_t block = block_charge(PRODUCER_BATCH_HEAD + RECORD_OVERHEAD_MAX + 2 * sizeof(struct slot));
    request = request > overhead ? request - overhead : 0;
    memory = memory > block ? memory - block : 0;
    return request < memory ? request : memory;
}

int accumulator_init(struct accumulator *a, const cafka_env *env,
                     const struct producer_settings *settings, cafka_error *err)
{
    *a = (struct accumulator){.env = env,
                              .batch_size = (size_t)settings->batch_size_bytes,
                              .record_max = record_limit(settings),
                              .batch_max = growth_limit(settings),
                              .slots = settings->reports,
                              .codec = settings->compression,
                              .level = settings->compression_level,
                              .linger_ms = settings->linger_ms};
    if (pthread_mutex_init(&a->sealers_mu, NULL))
        return error_set(err, CAFKA_ERR_SYSTEM, "no lock for the accumulator");
    int rc = memory_pool_init(&a->pool, env, (size_t)settings->buffer_memory_bytes,
                              block_capacity(settings), err);
    if (!rc && a->codec != CODEC_NONE) { /* a codec that is not built in or a bad level shows here */
        struct sealer *sealer;
        rc = sealer_new(&sealer, a->codec, a->level, err);
        if (!rc)
            accumulator_sealer_put(a, sealer);
    }
    if (rc)
        accumulator_fini(a);
    return rc;
}

void accumulator_fini(struct accumulator *a)
{
    if (!a->env)
        return;
    while (a->sealers) {
        struct sealer *sealer = a->sealers;
        a->sealers = sealer->next;
        sealer_free(sealer);
    }
    memory_pool_fini(&a->pool);
    pthread_mutex_destroy(&a->sealers_mu);
    a->env = NULL;
}

int partition_init(struct partition *p, struct cafka_topic *topic, int32_t index, cafka_error *err)
{
    *p = (struct partition){.topic = topic,
                            .index = index,
                            .sent_epoch = -1,
                            .confirmed_broker = -1,
                            .confirmed_epoch = -1};
    list_init(&p->closed);
    list_init(&p->queue);
    list_init(&p->in_flight);
    sequences_init(&p->sequences);
    if (pthread_mutex_init(&p->mu, NULL))
        return error_set(err, CAFKA_ERR_SYSTEM, "no lock for a partition");
    return CAFKA_OK;
}

static void drop_batches(struct list *list, struct accumulator *a)
{
    for (struct list *link; (link = list_pop_front(list));)
        producer_batch_release(list_item(link, struct producer_batch, link), &a->pool);
}

void partition_fini(struct partition *p, struct accumulator *a)
{
    if (p->open)
        producer_batch_release(p->open, &a->pool);
    drop_batches(&p->closed, a);
    drop_batches(&p->queue, a);
    drop_batches(&p->in_flight, a);
    pthread_mutex_destroy(&p->mu);
}

/* --- appending --- */

static size_t last_block_bytes(const struct partition *p)
{
    const struct block *last = p->open->last;
    return (size_t)(p->at - (last->data + last->begin));
}

size_t partition_open_bytes_locked(const struct partition *p)
{
    return p->open ? p->earlier_bytes + last_block_bytes(p) : 0;
}

/* Where records may reach; with slots, the next one's slot is kept free. */
static uint8_t *hard_end(const struct accumulator *a, const struct partition *p)
{
    uint8_t *end = p->limit - (a->slots ? sizeof(struct slot) : 0);
    if (end > p->hard_end)
        end = p->hard_end;
    return end > p->at ? end : p->at;
}

/* Where the batch may leave, if that is in this block. */
static uint8_t *soft_end(const struct accumulator *a, const struct partition *p)
{
    uint8_t *end = hard_end(a, p);
    size_t bytes = partition_open_bytes_locked(p);
    size_t rest = p->leaves_at > bytes ? p->leaves_at - bytes : 0;
    return rest && rest < (size_t)(end - p->at) ? p->at + rest : end;
}

/* Records that are expected to become batch.size bytes. */
static size_t leaves_at(const struct accumulator *a, const struct partition *p)
{
    if (a->codec == CODEC_NONE || !p->limits)
        return a->batch_size;
    size_t raw = batch_limits_raw(p->limits, a->batch_size), most = CODEC_GROWTH * a->batch_size;
    return raw < most ? raw : most;
}

/* Records go into this block now, `rest` bytes of them at most. */
static void enter_block(struct accumulator *a, struct partition *p, struct block *block, size_t rest)
{
    p->at = block->data + block->begin + block->used;
    p->limit = block->data + block->capacity;
    p->hard_end = rest < (size_t)(p->limit - p->at) ? p->at + rest : p->limit;
    p->end = soft_end(a, p);
    p->open_blocks++;
    atomic_fetch_add_explicit(&p->queued_blocks, 1, memory_order_relaxed);
}

/* first: where its first record begins; NULL: as early as it can. */
static void open_batch(struct accumulator *a, struct partition *p, struct block *block,
                       const uint8_t *first, int64_t timestamp, size_t rest)
{
    struct producer_batch *batch = producer_batch_init(block, p);
    if (first)
        block->begin = (uint32_t)(first - block->data) - RECORD_BATCH_OVERHEAD;
    batch->slots = a->slots;
    batch->number = ++p->next_number;
    batch->created_ms = env_now_ms(a->env);
    p->open = batch;
    p->base_timestamp = p->max_timestamp = timestamp;
    p->count = 0;
    p->earlier_bytes = p->told_bytes = 0;
    p->leaves_at = (uint32_t)leaves_at(a, p);
    p->open_blocks = 0;
    enter_block(a, p, block, rest);
}

static void chain_block(struct accumulator *a, struct partition *p, struct block *block, size_t rest)
{
    p->earlier_bytes += (uint32_t)last_block_bytes(p);
    p->open->last->used = (uint32_t)last_block_bytes(p);
    struct block *last = p->open->last;
    if (a->slots)
        last->slots =
            (uint32_t)((size_t)(last->data + last->capacity - p->limit) / sizeof(struct slot));
    if (a->codec == CODEC_NONE)
        producer_batch_sum_block(p->open, last);
    last->next = block;
    p->open->last = block;
    enter_block(a, p, block, rest);
}

struct producer_batch *partition_close_locked(struct accumulator *a, struct partition *p)
{
    struct producer_batch *batch = p->open;
    if (!batch)
        return NULL;
    struct block *last = batch->last;
    last->used = (uint32_t)last_block_bytes(p);
    if (a->slots)
        last->slots =
            (uint32_t)((size_t)(last->data + last->capacity - p->limit) / sizeof(struct slot));
    batch->count = p->count;
    atomic_fetch_add_explicit(&a->closed_records, p->count, memory_order_relaxed);
    batch->base_timestamp = p->base_timestamp;
    batch->max_timestamp = p->max_timestamp;
    batch->queued_blocks = p->open_blocks;
    atomic_store_explicit(&batch->state, PRODUCER_BATCH_SEALING, memory_order_relaxed);
    p->open = NULL;
    p->announces = false;
    p->at = p->end = p->limit = p->hard_end = NULL;
    p->count = 0;
    return batch;
}

/* The block for a record that found no room, from what the caller brought or from the pool. */
static int get_block(struct accumulator *a, size_t capacity, struct block **spare,
                     struct block **out)
{
    if (*spare && (*spare)->capacity >= capacity) {
        *out = *spare;
        *spare = NULL;
        return CAFKA_OK;
    }
    return memory_pool_try(&a->pool, capacity, out);
}

/* A size that the record does not exceed. */
static size_t bound_of(const struct append *append)
{
    return RECORD_OVERHEAD_MAX + (append->key.data ? append->key.size : 0) +
           (append->value.data ? append->value.size : 0) + append->headers_size;
}

/* Close the open batch if it cannot take so many bytes more. */
static void close_full(struct accumulator *a, struct partition *p, size_t need, size_t limit,
                       struct append_outcome *outcome)
{
    if (!p->open || partition_open_bytes_locked(p) + need <= limit)
        return;
    outcome->grown += partition_open_bytes_locked(p) - p->told_bytes;
    outcome->to_seal = partition_close_locked(a, p);
    list_push_back(&p->closed, &outcome->to_seal->link);
}

/* Bytes of records that a new batch may have, this one at least. */
static size_t room_of_batch(size_t limit, size_t need)
{
    size_t most = limit > RECORD_BATCH_OVERHEAD ? limit - RECORD_BATCH_OVERHEAD : 0;
    return most > need ? most : need;
}

static int make_room(struct accumulator *a, struct partition *p, const struct append *append,
                     size_t limit, struct block **spare, struct append_outcome *outcome,
                     size_t *needed)
{
    size_t need = bound_of(append);
    close_full(a, p, need, limit, outcome);
    size_t capacity =
        need + (a->slots ? sizeof(struct slot) : 0) + (p->open ? 0 : PRODUCER_BATCH_HEAD);
    struct block *block;
    int rc = get_block(a, capacity, spare, &block);
    if (rc) {
        *needed = capacity;
        return rc;
    }
    if (p->open) {
        chain_block(a, p, block, limit - partition_open_bytes_locked(p));
    } else {
        open_batch(a, p, block, NULL, append->timestamp_ms, room_of_batch(limit, need));
        outcome->opened = true;
    }
    return CAFKA_OK;
}

/* The batch has become worth sending, or more so: the loop should hear of it. */
static void note_growth(struct partition *p, struct append_outcome *outcome)
{
    size_t bytes = partition_open_bytes_locked(p);
    if (bytes < p->leaves_at)
        return;
    outcome->grown += bytes - p->told_bytes;
    p->told_bytes = (uint32_t)bytes;
}

/* The open batch has more than before: what that means. */
static void finish_append(struct accumulator *a, struct partition *p, size_t limit, bool crossed,
                          struct append_outcome *outcome)
{
    if (crossed && !a->linger_ms && p->count <= ANNOUNCED) {
        outcome->announced = true;
        p->announces = true; /* the next one comes here too */
        p->end = p->at;
    }
    if (crossed) {
        if (partition_open_bytes_locked(p) >= limit)
            p->end = p->hard_end = p->at; /* a first record that is as large as a batch may be */
        note_growth(p, outcome);
    }
    outcome->batch = p->open;
    outcome->index = p->count - 1;
    outcome->created_ms = p->open->created_ms; /* NOLINT: what was appended lies in an open batch */
}

/* Put into the open batch, past batch.size if need be. 0: no room. */
static size_t put_with_care(struct accumulator *a, struct partition *p, const struct append *append,
                            bool *crossed)
{
    size_t size = partition_put_locked(p, append, a->slots);
    if (!size && p->announces) {
        *crossed = true;
        p->announces = false;
        p->end = soft_end(a, p);
        size = partition_put_locked(p, append, a->slots);
    }
    if (!size && p->open && p->end < hard_end(a, p)) {
        *crossed = true;
        p->end = hard_end(a, p); /* it may leave now, and may grow until it does */
        size = partition_put_locked(p, append, a->slots);
    }
    return size;
}

int partition_append_locked(struct accumulator *a, struct partition *p, const struct append *append,
                            size_t limit, struct block **spare, struct append_outcome *outcome,
                            size_t *needed)
{
    bool crossed = false;
    for (;;) {
        if (p->closing)
            return CAFKA_ERR_CLOSED;
        outcome->size = put_with_care(a, p, append, &crossed);
        if (outcome->size)
            break;
        crossed = true;
        int rc = make_room(a, p, append, limit, spare, outcome, needed);
        if (rc)
            return rc;
    }
    finish_append(a, p, limit, crossed, outcome);
    return CAFKA_OK;
}

/* --- values that were written where they stay --- */

size_t placed_capacity(const struct accumulator *a, const struct append *append)
{
    return PLACED_VALUE_AT + append->key.size + bound_of(append) +
           (a->slots ? 2 : 1) * sizeof(struct slot);
}

bool placed_fits(const struct accumulator *a, const struct block *block, const uint8_t *value,
                 const struct append *append)
{
    const uint8_t *end = block->data + block->capacity - (a->slots ? 2 * sizeof(struct slot) : 0);
    return (size_t)(value - block->data) >=
               PRODUCER_BATCH_HEAD + RECORD_OVERHEAD_MAX + append->key.size &&
           (size_t)(end - value) >= append->value.size + RECORD_OVERHEAD_MAX + append->headers_size;
}

/* What stands around the value: all before it, and the headers behind it. */
static void write_around(struct partition *p, const struct append *append, size_t body, bool slots)
{
    uint8_t *at = record_put_prefix(p->at, body, append->timestamp_ms - p->base_timestamp, p->count,
                                    append->key, append->value.size);
    assert(at == append->value.data);
    at = record_put_number(at + append->value.size, (uint64_t)append->header_count << 1);
    at = append_put_headers(at, append);
    append_note_locked(p, append, at, slots);
}

/* Make the block part of the open batch, or of a new one, so that the value is where it belongs. */
static void enter_placed(struct accumulator *a, struct partition *p, struct block *block,
                         const struct append *append, size_t limit, struct append_outcome *outcome)
{
    int64_t since = p->open ? append->timestamp_ms - p->base_timestamp : 0;
    size_t body = record_body_size(since, p->open ? p->count : 0, append->key, append->value,
                                   append->header_count, append->headers_size);
    size_t behind = append->value.size + uvarint_size((uint64_t)append->header_count << 1) +
                    append->headers_size;
    const uint8_t *first = append->value.data - (record_size(body) - behind);
    outcome->size = record_size(body);
    if (p->open) {
        block->begin = (uint32_t)(first - block->data);
        block->used = 0;
        chain_block(a, p, block, limit - partition_open_bytes_locked(p));
    } else {
        open_batch(a, p, block, first, append->timestamp_ms, room_of_batch(limit, outcome->size));
        outcome->opened = true;
    }
    write_around(p, append, body, a->slots);
    p->announces = false;
    p->end = soft_end(a, p);
}

int partition_place_locked(struct accumulator *a, struct partition *p, struct block **block,
                           const struct append *append, size_t limit, struct append_outcome *outcome)
{
    bool crossed = false;
    if (p->closing)
        return CAFKA_ERR_CLOSED;
    if (p->open && append->value.size <= (*block)->capacity / PLACED_SHARE)
        outcome->size = put_with_care(a, p, append, &crossed);
    if (!outcome->size) {
        crossed = true;
        close_full(a, p, bound_of(append), limit, outcome);
        enter_placed(a, p, *block, append, limit, outcome);
        *block = NULL;
    }
    finish_append(a, p, limit, crossed, outcome);
    return CAFKA_OK;
}

/* --- sealing --- */

struct sealer *accumulator_sealer_get(struct accumulator *a)
{
    if (a->codec == CODEC_NONE)
        return NULL;
    pthread_mutex_lock(&a->sealers_mu);
    struct sealer *sealer = a->sealers;
    if (sealer)
        a->sealers = sealer->next;
    pthread_mutex_unlock(&a->sealers_mu);
    if (!sealer && sealer_new(&sealer, a->codec, a->level, NULL))
        return NULL;
    return sealer;
}

void accumulator_sealer_put(struct accumulator *a, struct sealer *sealer)
{
    if (!sealer)
        return;
    pthread_mutex_lock(&a->sealers_mu);
    sealer->next = a->sealers;
    a->sealers = sealer;
    pthread_mutex_unlock(&a->sealers_mu);
}

void accumulator_seal(struct accumulator *a, struct producer_batch *batch)
{
    if (a->seal_elsewhere)
        a->seal_elsewhere(a, batch);
    else
        accumulator_seal_now(a, batch, true);
}

void accumulator_seal_now(struct accumulator *a, struct producer_batch *batch, bool compress)
{
    struct sealer *sealer = compress ? accumulator_sealer_get(a) : NULL;
    struct batch_limits *limits = batch->partition->limits;
    size_t compressed, raw = producer_batch_seal(batch, sealer, &a->pool, &compressed);
    if (sealer && limits)
        batch_limits_observed(limits, raw, compressed);
    accumulator_sealer_put(a, sealer);
}

/* --- to the loop --- */

void accumulator_hand_over(struct accumulator *a, struct partition *p)
{
    if (!atomic_exchange_explicit(&p->handed_over, true, memory_order_acq_rel))
        mpsc_push(&a->handed, &p->handed);
}

struct mpsc_item *accumulator_take_handed(struct accumulator *a)
{
    return mpsc_empty(&a->handed) ? NULL : mpsc_take_all(&a->handed);
}

void partition_received(struct partition *p)
{
    atomic_exchange_explicit(&p->handed_over, false, memory_order_acq_rel);
}

void partition_collect(struct partition *p, struct partition_state *out)
{
    pthread_mutex_lock(&p->mu);
    list_splice_back(&p->queue, &p->closed);
    out->open_bytes = partition_open_bytes_locked(p);
    out->full = p->open && out->open_bytes >= p->leaves_at;
    out->open_created_ms = p->open ? p->open->created_ms : 0;
    pthread_mutex_unlock(&p->mu);
}

bool partition_take_open(struct accumulator *a, struct partition *p)
{
    pthread_mutex_lock(&p->mu);
    list_splice_back(&p->queue, &p->closed);
    struct producer_batch *batch = partition_close_locked(a, p);
    pthread_mutex_unlock(&p->mu);
    if (!batch)
        return false;
    list_push_back(&p->queue, &batch->link);
    accumulator_seal(a, batch);
    return true;
}
