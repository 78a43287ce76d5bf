/*
 * producer_batch.c - see producer_batch.h.
 */
#include "producer/producer_batch.h"

#include <assert.h>

#include "record/crc32c.h"
#include "record/open.h"
#include "util/alloc.h"

struct producer_batch *producer_batch_init(struct block *block, struct partition *partition)
{
    struct producer_batch *batch = (struct producer_batch *)(void *)block->data;
    *batch = (struct producer_batch){
        .partition = partition,
        .first = block,
        .last = block,
        .producer_id = -1,
        .producer_epoch = -1,
        .base_sequence = -1,
        .base_offset = -1,
        .append_time_ms = -1,
    };
    atomic_init(&batch->state, PRODUCER_BATCH_OPEN);
    list_init(&batch->waiters);
    block->begin = PRODUCER_BATCH_HEAD - RECORD_BATCH_OVERHEAD;
    block->used = RECORD_BATCH_OVERHEAD;
    return batch;
}

void producer_batch_release(struct producer_batch *batch, struct memory_pool *pool)
{
    for (size_t i = 0; i < batch->failure_count; i++)
        mem_free(batch->failures[i].message);
    mem_free(batch->failures);
    memory_pool_release(pool, batch->first);
}

/* Record bytes of a block: without the header in the first. */
static struct bytes records_in(const struct producer_batch *batch, const struct block *block)
{
    uint32_t skip = block == batch->first ? RECORD_BATCH_OVERHEAD : 0;
    return bytes_of(block->data + block->begin + skip, block->used - skip);
}

/* --- sealing --- */

int sealer_new(struct sealer **out, int codec, int level, cafka_error *err)
{
    struct sealer *sealer = mem_zalloc(sizeof *sealer);
    if (!sealer)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a compressor");
    sealer->codec = codec;
    if (codec != CODEC_NONE) {
        int rc = compressor_new(&sealer->compressor, codec, level, err);
        if (rc) {
            sealer_free(sealer);
            return rc;
        }
    }
    *out = sealer;
    return CAFKA_OK;
}

void sealer_free(struct sealer *sealer)
{
    if (!sealer)
        return;
    compressor_free(sealer->compressor);
    buffer_fini(&sealer->scratch);
    mem_free(sealer->iov);
    mem_free(sealer);
}

static bool gather_pieces(struct sealer *sealer, const struct producer_batch *batch, size_t *count)
{
    *count = 0;
    for (const struct block *block = batch->first; block; block = block->next) {
        if (*count == sealer->iov_capacity) {
            size_t capacity = sealer->iov_capacity ? 2 * sealer->iov_capacity : 16;
            struct iovec *iov = mem_recalloc(sealer->iov, capacity, sizeof *iov);
            if (!iov)
                return false;
            sealer->iov = iov;
            sealer->iov_capacity = capacity;
        }
        struct bytes records = records_in(batch, block);
        sealer->iov[(*count)++] = (struct iovec){(void *)(uintptr_t)records.data, records.size};
    }
    return true;
}

/*
 * Write compressed bytes and slots over what the blocks held: bytes first, slots where room is
 * left. It fits, since the bytes are less by more than one slot than what was there before.
 */
static void put_back(struct producer_batch *batch, const uint8_t *data, size_t size,
                     const struct slot *slots, size_t slot_count)
{
    for (struct block *block = batch->first; block; block = block->next) {
        uint32_t skip = block == batch->first ? RECORD_BATCH_OVERHEAD : 0;
        size_t room = block->capacity - block->begin - skip;
        size_t bytes = size < room ? size : room;
        memcpy(block->data + block->begin + skip, data, bytes);
        block->summed = false;
        block->used = (uint32_t)(skip + bytes);
        data += bytes;
        size -= bytes;

        size_t places = (room - bytes) / sizeof *slots;
        block->slots = (uint32_t)(slot_count < places ? slot_count : places);
        struct slot *end = (struct slot *)(void *)(block->data + block->capacity);
        for (uint32_t i = 0; i < block->slots; i++)
            *--end = *slots++;
        slot_count -= block->slots;
    }
}

static void drop_empty_blocks(struct producer_batch *batch, struct memory_pool *pool)
{
    struct block *last = batch->first;
    while (last->next && (last->next->used || last->next->slots))
        last = last->next;
    batch->last = last;
    struct block *rest = last->next;
    last->next = NULL;
    if (rest)
        memory_pool_release(pool, rest);
}

static void compress(struct producer_batch *batch, size_t records_size, struct sealer *sealer,
                     struct memory_pool *pool)
{
    size_t pieces;
    if (!gather_pieces(sealer, batch, &pieces))
        return;
    size_t slot_count = batch->slots ? (size_t)batch->count : 0;
    size_t bound = compressor_bound(sealer->compressor, records_size);
    bound = (bound + 15) & ~(size_t)15;
    buffer_clear(&sealer->scratch);
    uint8_t *scratch = buffer_reserve(&sealer->scratch, bound + slot_count * sizeof(struct slot));
    size_t size;
    if (!scratch ||
        compressor_run(sealer->compressor, sealer->iov, pieces, scratch, bound, &size, NULL) ||
        size + sizeof(struct slot) > records_size)
        return;

    struct slot *slots = (struct slot *)(void *)(scratch + bound);
    if (batch->slots) {
        struct slot_iter it = producer_batch_slots(batch);
        const struct slot *slot;
        for (size_t i = 0; i < slot_count && (slot = slot_iter_next(&it)); i++)
            slots[i] = *slot;
    }
    put_back(batch, scratch, size, slots, slot_count);
    drop_empty_blocks(batch, pool);
}

static size_t records_size_of(const struct producer_batch *batch)
{
    size_t size = 0;
    for (const struct block *block = batch->first; block; block = block->next)
        size += block->used;
    return size - RECORD_BATCH_OVERHEAD;
}

size_t producer_batch_seal(struct producer_batch *batch, struct sealer *sealer,
                           struct memory_pool *pool, size_t *compressed)
{
    size_t plain_size = records_size_of(batch), size = plain_size;
    batch->codec = CODEC_NONE;
    if (sealer && sealer->compressor) {
        compress(batch, plain_size, sealer, pool);
        size = records_size_of(batch);
        if (size < plain_size)
            batch->codec = (int8_t)sealer->codec;
    }
    uint32_t crc = 0;
    batch->piece_count = 0;
    for (struct block *block = batch->first; block; block = block->next) {
        struct bytes records = records_in(batch, block);
        if (!block->summed)
            crc = crc32c(crc, records.data, records.size);
        else
            crc = crc32c_combine(crc, block->crc, records.size);
        batch->piece_count += block->used > 0;
    }
    batch->records_crc = crc;
    batch->size = size + RECORD_BATCH_OVERHEAD;
    batch->raw_size = plain_size;
    *compressed = size;
    atomic_store_explicit(&batch->state, PRODUCER_BATCH_SEALED, memory_order_release);
    return plain_size;
}

void producer_batch_sum_block(const struct producer_batch *batch, struct block *block)
{
    struct bytes records = records_in(batch, block);
    block->crc = crc32c(0, records.data, records.size);
    block->summed = true;
}

void producer_batch_stamp(struct producer_batch *batch)
{
    struct batch_header header;
    batch_header_init(&header);
    header.attributes = batch->codec;
    header.last_offset_delta = batch->count - 1;
    header.base_timestamp = batch->base_timestamp;
    header.max_timestamp = batch->max_timestamp;
    header.producer_id = batch->producer_id;
    header.producer_epoch = batch->producer_epoch;
    header.base_sequence = batch->base_sequence;
    header.record_count = batch->count;
    batch_seal(&header, batch->size - RECORD_BATCH_OVERHEAD, batch->records_crc,
               producer_batch_header(batch));
}

void producer_batch_pieces(const struct producer_batch *batch, struct iovec *iov)
{
    for (struct block *block = batch->first; block; block = block->next)
        if (block->used)
            *iov++ = (struct iovec){block->data + block->begin, block->used};
}

/* --- splitting --- */

static int copy_whole(const struct producer_batch *batch, struct buffer *out, cafka_error *err)
{
    for (const struct block *block = batch->first; block; block = block->next)
        buffer_put(out, block->data + block->begin, block->used);
    return out->failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory to split a batch") : CAFKA_OK;
}

struct splitter {
    struct producer_batch *parent, *child;
    struct memory_pool *pool;
    size_t limit;
    struct slot_iter slots;
    uint8_t *at, *end; /* room in the child's last block */
    size_t size;       /* of the child */
    struct list *out;
};

/* A block for a record of `need` bytes: the first of a new child, or one more for the child there is. */
static int add_block(struct splitter *s, bool first, size_t need, int64_t timestamp, int32_t index)
{
    if (s->child)
        s->child->last->used = (uint32_t)(s->at - (s->child->last->data + s->child->last->begin));

    struct block *block =
        memory_pool_overdraw(s->pool, need + (first ? PRODUCER_BATCH_HEAD : 0) +
                                          (s->parent->slots ? sizeof(struct slot) : 0));
    if (!block)
        return CAFKA_ERR_MEMORY;
    if (first) {
        struct producer_batch *parent = s->parent;
        struct producer_batch *child = producer_batch_init(block, parent->partition);
        child->slots = parent->slots;
        child->base_timestamp = child->max_timestamp = timestamp;
        child->created_ms = parent->created_ms;
        child->number = parent->number;
        child->root_index = parent->root_index + index;
        child->attempts = parent->attempts;
        child->flush_mark = parent->flush_mark;
        list_push_back(s->out, &child->link);
        s->child = child;
        s->size = RECORD_BATCH_OVERHEAD;
    } else {
        s->child->last->next = block;
        s->child->last = block;
    }
    s->at = block->data + block->begin + block->used;
    s->end = block->data + block->capacity;
    return CAFKA_OK;
}

static void put_record(struct splitter *s, const struct record_view *view, size_t body,
                       int64_t since)
{
    struct producer_batch *child = s->child;
    assert(child);
    s->at = record_put(s->at, body, since, child->count, view->key, view->value,
                       (size_t)view->header_count);
    if (view->headers.size)
        memcpy(s->at, view->headers.data, view->headers.size);
    s->at += view->headers.size;
    s->size += record_size(body);
    child->count++;
    if (view->timestamp > child->max_timestamp)
        child->max_timestamp = view->timestamp;
    if (child->slots) {
        const struct slot *slot = slot_iter_next(&s->slots);
        s->end -= sizeof *slot;
        memcpy(s->end, slot, sizeof *slot);
        child->last->slots++;
    }
}

static int move_record(struct splitter *s, const struct record_view *view, cafka_error *err)
{
    size_t spare = s->parent->slots ? sizeof(struct slot) : 0;
    bool opened = false; /* a child was begun for this record, which it takes whatever its size */
    for (;;) {
        int64_t since = s->child ? view->timestamp - s->child->base_timestamp : 0;
        int32_t delta = s->child ? s->child->count : 0;
        size_t body = record_body_size(since, delta, view->key, view->value,
                                       (size_t)view->header_count, view->headers.size);
        size_t need = record_size(body);
        bool first = !opened && (!s->child || s->size + need > s->limit);
        if (!first && need + spare <= (size_t)(s->end - s->at)) {
            put_record(s, view, body, since);
            return CAFKA_OK;
        }
        if (add_block(s, first, need, view->timestamp, view->index))
            return error_set(err, CAFKA_ERR_MEMORY, "no memory to split a batch");
        opened = opened || first;
    }
}

int producer_batch_split(struct producer_batch *batch, size_t limit,
                         struct decompressor *decompressor, struct sealer *sealer,
                         struct memory_pool *pool, struct list *out, cafka_error *err)
{
    struct buffer whole = {0}, inflated = {0};
    struct splitter s = {.parent = batch,
                         .pool = pool,
                         .limit = limit,
                         .slots = producer_batch_slots(batch),
                         .out = out};
    struct batch_header header;
    struct record_iter it;
    list_init(out);

    int rc = copy_whole(batch, &whole, err);
    if (!rc)
        rc = batch_header_read(bytes_of(whole.data, whole.size), &header, err);
    if (!rc)
        rc = batch_open(bytes_of(whole.data, whole.size), &header, decompressor, INT32_MAX,
                        &inflated, &it, err);
    struct record_view view;
    while (!rc && !(rc = record_iter_next(&it, &view, err)))
        rc = move_record(&s, &view, err);
    if (s.child)
        s.child->last->used = (uint32_t)(s.at - (s.child->last->data + s.child->last->begin));
    if (rc == CAFKA_END)
        rc = CAFKA_OK;

    struct list *link, *after;
    list_each(link, after, out)
    {
        struct producer_batch *child = list_item(link, struct producer_batch, link);
        if (rc) {
            list_remove(link);
            producer_batch_release(child, pool);
        } else {
            size_t compressed;
            (void)producer_batch_seal(child, sealer, pool, &compressed);
        }
    }
    buffer_fini(&whole);
    buffer_fini(&inflated);
    return rc;
}
