/*
 * fetch_memory.c - see fetch_memory.h.
 *
 * The short_of_memory flag and the count of held bytes are a Dekker pair: the loop sets the flag
 * and then looks at the count once more, who lets go lowers the count and then looks at the flag.
 * Both are sequentially consistent, so one of the two sees the other.
 */
#include "consumer/fetch_memory.h"

#include "util/alloc.h"
#include "util/list.h"

/*
 * What is kept for the next batches: no buffer larger than the first, since one large batch must not stay for
 * ever, and no more than the second in one pool, since neither must the busiest moment.
 */
enum { KEEP_BUFFER_BYTES = 1 << 20, KEEP_POOL_BYTES = 2 << 20 };

int fetch_budget_new(struct fetch_budget **out, int64_t limit_bytes, fetch_budget_freed_fn *freed,
                     void *user, cafka_error *err)
{
    struct fetch_budget *budget = mem_zalloc(sizeof *budget);
    if (!budget)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a fetch budget");
    atomic_init(&budget->refs, 1);
    budget->limit_bytes = limit_bytes;
    budget->freed = freed;
    budget->user = user;
    pthread_mutex_init(&budget->mu, NULL);
    *out = budget;
    return CAFKA_OK;
}

void fetch_budget_detach(struct fetch_budget *budget)
{
    pthread_mutex_lock(&budget->mu);
    budget->freed = NULL;
    pthread_mutex_unlock(&budget->mu);
}

static void free_list(struct mpsc_item *item)
{
    while (item) {
        struct fetch_memory *memory = container_of(item, struct fetch_memory, link);
        item = item->next;
        buffer_fini(&memory->inflated);
        mem_free(memory);
    }
}

static void pool_fini(struct fetch_pool *pool)
{
    free_list(mpsc_take_all(&pool->free));
    free_list(pool->spare);
}

void fetch_budget_unref(struct fetch_budget *budget)
{
    if (!budget || atomic_fetch_sub_explicit(&budget->refs, 1, memory_order_acq_rel) > 1)
        return;
    pool_fini(&budget->frames);
    pool_fini(&budget->inflated);
    pool_fini(&budget->ahead);
    map_fini(&budget->names);
    pthread_mutex_destroy(&budget->mu);
    mem_free(budget);
}

int64_t fetch_budget_held(const struct fetch_budget *budget)
{
    return atomic_load(&budget->held_bytes);
}

const char *fetch_budget_name(const struct fetch_budget *budget, const char *topic)
{
    return map_get_str(&budget->names, topic);
}

const char *fetch_budget_intern(struct fetch_budget *budget, const char *topic)
{
    const char *name = map_get_str(&budget->names, topic);
    if (name)
        return name;
    if (!map_put_str(&budget->names, topic, budget))
        return NULL;
    /* The map's own copy of the key is the name; entries may move, keys do not. */
    struct map_entry *entry = &budget->names.entries[budget->names.used - 1];
    entry->value = entry->key;
    return entry->key;
}

/* A piece from the spare list, refilled from the free list when it is empty, or a new one. */
static struct fetch_memory *take(struct fetch_budget *budget, struct fetch_pool *pool)
{
    if (!pool->spare)
        pool->spare = mpsc_take_all(&pool->free);
    struct fetch_memory *memory;
    if (pool->spare) {
        memory = container_of(pool->spare, struct fetch_memory, link);
        pool->spare = memory->link.next;
        atomic_fetch_sub_explicit(&pool->idle_bytes, (long long)memory->inflated.capacity,
                                  memory_order_relaxed);
    } else {
        memory = mem_zalloc(sizeof *memory);
        if (!memory)
            return NULL;
    }
    memory->pool = pool;
    atomic_init(&memory->refs, 1);
    memory->budget = budget;
    memory->charged = 0;
    atomic_fetch_add_explicit(&budget->refs, 1, memory_order_relaxed);
    return memory;
}

struct fetch_memory *fetch_memory_of_frame(struct fetch_budget *budget, struct frame *frame)
{
    struct fetch_memory *memory = take(budget, &budget->frames);
    if (!memory)
        return NULL;
    memory->frame = frame_ref(frame);
    fetch_memory_charge(memory, frame->capacity);
    return memory;
}

struct fetch_memory *fetch_memory_for_inflating(struct fetch_budget *budget)
{
    struct fetch_memory *memory = take(budget, &budget->inflated);
    if (memory)
        buffer_clear(&memory->inflated);
    return memory;
}

struct fetch_memory *fetch_memory_for_inflating_ahead(struct fetch_budget *budget)
{
    struct fetch_memory *memory = take(budget, &budget->ahead);
    if (memory)
        buffer_clear(&memory->inflated);
    return memory;
}

void fetch_memory_charge(struct fetch_memory *memory, size_t bytes)
{
    memory->charged += bytes;
    atomic_fetch_add(&memory->budget->held_bytes, (long long)bytes);
}

struct fetch_memory *fetch_memory_ref(struct fetch_memory *memory)
{
    atomic_fetch_add_explicit(&memory->refs, 1, memory_order_relaxed);
    return memory;
}

static void tell_freed(struct fetch_budget *budget)
{
    if (!atomic_load(&budget->short_of_memory) || !atomic_exchange(&budget->short_of_memory, false))
        return;
    pthread_mutex_lock(&budget->mu);
    if (budget->freed)
        budget->freed(budget->user);
    pthread_mutex_unlock(&budget->mu);
}

/* The bytes are counted before they are there, so that many who give back at once do not keep too much. */
static void give_back(struct fetch_memory *memory)
{
    struct fetch_pool *pool = memory->pool;
    long long bytes = (long long)memory->inflated.capacity;
    if (bytes > KEEP_BUFFER_BYTES ||
        atomic_fetch_add_explicit(&pool->idle_bytes, bytes, memory_order_relaxed) + bytes >
            KEEP_POOL_BYTES) {
        if (bytes <= KEEP_BUFFER_BYTES)
            atomic_fetch_sub_explicit(&pool->idle_bytes, bytes, memory_order_relaxed);
        buffer_fini(&memory->inflated);
    }
    mpsc_push(&pool->free, &memory->link);
}

void fetch_memory_unref(struct fetch_memory *memory)
{
    if (!memory || atomic_fetch_sub_explicit(&memory->refs, 1, memory_order_acq_rel) > 1)
        return;
    struct fetch_budget *budget = memory->budget;
    atomic_fetch_sub(&budget->held_bytes, (long long)memory->charged);
    frame_unref(memory->frame);
    memory->frame = NULL;
    give_back(memory);
    tell_freed(budget);
    fetch_budget_unref(budget);
}
