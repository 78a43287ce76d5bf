/*
 * fetch_ahead.c - see fetch_ahead.h.
 */
#include "consumer/fetch_ahead.h"

#include "consumer/batch_marks.h"
#include "consumer/fetch_queue.h"
#include "util/alloc.h"

enum { RAW, BUSY, READY, TAKEN };

enum {
    SLICE_BYTES = 64 << 10, /* of a compressed batch: what any codec inflates within a millisecond */
    AHEAD_BYTES = 512 << 10,
    EXPECTED_RATIO = 4,
    SLICE_NS = 300000 /* then one more batch may begin no more */
};

static void run_slice(struct loop_slice *slice);

/* --- slots --- */

struct fetch_ahead *fetch_ahead_new(struct bytes batches, size_t count, struct fetch_memory *source)
{
    struct fetch_ahead *ahead = mem_zalloc(sizeof *ahead + count * sizeof ahead->slots[0]);
    struct batch_slice slice;
    struct batch_header h;
    if (!ahead)
        return NULL;
    atomic_init(&ahead->refs, 1);
    ahead->source = fetch_memory_ref(source);
    while (ahead->count < count && !batch_walk_next(&batches, &slice, NULL))
        if (slice.magic == BATCH_MAGIC && !batch_header_read(slice.bytes, &h, NULL) &&
            h.crc == BATCH_DELIVER && batch_is_compressed(&h))
            ahead->slots[ahead->count++].batch = slice.bytes;
    ahead->loop_left = ahead->count;
    return ahead;
}

static void forget_ahead(struct fetch_memory *inflated)
{
    if (inflated)
        atomic_fetch_sub(&inflated->budget->ahead_bytes, (long long)inflated->charged);
}

void fetch_ahead_unref(struct fetch_ahead *ahead)
{
    if (!ahead || atomic_fetch_sub_explicit(&ahead->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < ahead->count; i++) {
        forget_ahead(ahead->slots[i].inflated);
        fetch_memory_unref(ahead->slots[i].inflated);
    }
    fetch_memory_unref(ahead->source);
    mem_free(ahead);
}

bool fetch_ahead_take(struct fetch_ahead *ahead, const uint8_t *batch,
                      struct fetch_memory **inflated, struct record_iter *records)
{
    while (ahead->app_at < ahead->count && ahead->slots[ahead->app_at].batch.data < batch)
        ahead->app_at++; /* passed over; should the loop have done it, it goes with the chunk */
    if (ahead->app_at == ahead->count || ahead->slots[ahead->app_at].batch.data != batch)
        return false;
    struct ahead_slot *slot = &ahead->slots[ahead->app_at];
    if (atomic_exchange_explicit(&slot->state, TAKEN, memory_order_acq_rel) != READY)
        return false; /* or it comes again after a pause, and was given away before */
    forget_ahead(slot->inflated);
    *inflated = slot->inflated;
    *records = slot->records;
    slot->inflated = NULL;
    return true;
}

/* --- the loop's side --- */

void fetch_inflater_init(struct fetch_inflater *inflater, struct loop *loop,
                         struct fetch_queue *queue, struct fetch_budget *budget,
                         size_t inflate_limit, bool shared_loop)
{
    *inflater = (struct fetch_inflater){.loop = loop,
                                        .queue = queue,
                                        .budget = budget,
                                        .inflate_limit = inflate_limit,
                                        .largest = shared_loop ? SLICE_BYTES : SIZE_MAX,
                                        .slice.run = run_slice};
    list_init(&inflater->waiting);
}

static void drop_first(struct fetch_inflater *inflater)
{
    struct list *link = list_pop_front(&inflater->waiting);
    if (link)
        fetch_ahead_unref(list_item(link, struct fetch_ahead, link));
}

void fetch_inflater_fini(struct fetch_inflater *inflater)
{
    if (!inflater->loop)
        return;
    loop_slice_stop(inflater->loop, &inflater->slice);
    while (!list_empty(&inflater->waiting))
        drop_first(inflater);
    decompressor_free(inflater->decompressor);
    inflater->loop = NULL;
}

void fetch_ahead_go_on(struct fetch_inflater *inflater)
{
    if (!list_empty(&inflater->waiting))
        loop_slice_start(inflater->loop, &inflater->slice);
}

void fetch_ahead_start(struct fetch_inflater *inflater, struct fetch_ahead *ahead)
{
    atomic_fetch_add_explicit(&ahead->refs, 1, memory_order_relaxed);
    list_push_back(&inflater->waiting, &ahead->link);
    loop_slice_start(inflater->loop, &inflater->slice);
}

/* NULL: it can't be; the application will see why. */
static struct fetch_memory *inflate(struct fetch_inflater *inflater, struct ahead_slot *slot,
                                    struct record_iter *records)
{
    struct batch_header h;
    if (batch_header_read(slot->batch, &h, NULL) ||
        (!inflater->decompressor && decompressor_new(&inflater->decompressor, NULL)))
        return NULL;
    struct fetch_memory *memory = fetch_memory_for_inflating_ahead(inflater->budget);
    if (!memory)
        return NULL;
    if (batch_open(slot->batch, &h, inflater->decompressor, inflater->inflate_limit,
                   &memory->inflated, records, NULL)) {
        fetch_memory_unref(memory);
        return NULL;
    }
    fetch_memory_charge(memory, memory->inflated.capacity);
    return memory;
}

static void work_on(struct fetch_inflater *inflater, struct ahead_slot *slot)
{
    struct record_iter records;
    unsigned char raw = RAW, busy = BUSY;
    if (!atomic_compare_exchange_strong(&slot->state, &raw, BUSY))
        return; /* the application was faster */
    struct fetch_memory *memory = inflate(inflater, slot, &records);
    if (!memory) {
        atomic_compare_exchange_strong(&slot->state, &busy, RAW);
        return;
    }
    slot->inflated = memory;
    slot->records = records;
    inflater->inflated++;
    atomic_fetch_add(&inflater->budget->ahead_bytes, (long long)memory->charged);
    if (!atomic_compare_exchange_strong(&slot->state, &busy, READY)) {
        slot->inflated = NULL; /* it came meanwhile, and does it itself */
        forget_ahead(memory);
        fetch_memory_unref(memory);
    }
}

/* Half of the budget stays for what is to be received. */
static bool has_room(const struct fetch_inflater *inflater, const struct ahead_slot *slot)
{
    if (atomic_load(&inflater->budget->ahead_bytes) >= AHEAD_BYTES)
        return false;
    int64_t expected = (int64_t)slot->batch.size * EXPECTED_RATIO;
    return fetch_budget_held(inflater->budget) + expected <= inflater->budget->limit_bytes / 2;
}

/* The next batch worth the loop's while; NULL: none now. */
static struct ahead_slot *next_slot(struct fetch_inflater *inflater)
{
    struct list *link;
    while ((link = list_first(&inflater->waiting))) {
        struct fetch_ahead *ahead = list_item(link, struct fetch_ahead, link);
        bool abandoned = atomic_load(&ahead->refs) == 1; /* its chunk is done with */
        struct ahead_slot *slot = ahead->loop_left ? &ahead->slots[ahead->loop_left - 1] : NULL;
        if (abandoned || !slot || atomic_load(&slot->state) == TAKEN) { /* we met */
            drop_first(inflater);
            continue;
        }
        /* The application is not behind, or is to let go of memory first: when the next data comes. */
        if (atomic_load(&inflater->queue->waiting) || !has_room(inflater, slot))
            return NULL;
        ahead->loop_left--;
        if (slot->batch.size <= inflater->largest)
            return slot;
    }
    return NULL;
}

/* A fraction of a millisecond, so that what there is to read comes soon. */
static void run_slice(struct loop_slice *slice)
{
    struct fetch_inflater *inflater = container_of(slice, struct fetch_inflater, slice);
    const cafka_env *env = loop_env(inflater->loop);
    int64_t until = env->now(env) + SLICE_NS;
    struct ahead_slot *slot;
    while ((slot = next_slot(inflater))) {
        work_on(inflater, slot);
        if (env->now(env) >= until)
            return;
    }
    loop_slice_stop(inflater->loop, slice);
}
