/*
 * memory_pool.c - see memory_pool.h.
 */
#include "producer/memory_pool.h"

#include "util/alloc.h"

#define LOOK_EVERY_NS INT64_C(10000000000)

size_t block_charge(size_t capacity)
{
    return sizeof(struct block) + capacity;
}

/* Room for a block's bytes is a multiple of 16, so that slots at its end are aligned. */
static size_t round_up(size_t capacity)
{
    return (capacity + 15) & ~(size_t)15;
}

int memory_pool_init(struct memory_pool *pool, const cafka_env *env, size_t total,
                     uint32_t capacity, cafka_error *err)
{
    *pool = (struct memory_pool){.env = env,
                                 .total = total,
                                 .capacity = (uint32_t)round_up(capacity),
                                 .available = (int64_t)total};
    list_init(&pool->waiters);
    if (pthread_mutex_init(&pool->mu, NULL))
        return error_set(err, CAFKA_ERR_SYSTEM, "no lock for the memory pool");
    return CAFKA_OK;
}

static int64_t charge_of(size_t capacity)
{
    return (int64_t)block_charge(capacity);
}

static struct block *take_kept(struct memory_pool *pool)
{
    struct block *block = pool->kept;
    pool->kept = block->next;
    pool->kept_bytes -= charge_of(block->capacity);
    if (pool->kept_bytes < pool->least_bytes)
        pool->least_bytes = pool->kept_bytes;
    return block;
}

static void free_kept(struct memory_pool *pool)
{
    mem_free(take_kept(pool));
}

/* Half of the blocks that nobody needed since the last look; to be freed by the caller. */
static struct block *take_idle_locked(struct memory_pool *pool, int64_t now_ns)
{
    struct block *idle = NULL;
    if (now_ns < pool->look_at_ns)
        return NULL;
    for (int64_t bytes = pool->least_bytes / 2; pool->kept && bytes > 0;) {
        struct block *block = take_kept(pool);
        bytes -= charge_of(block->capacity);
        block->next = idle;
        idle = block;
    }
    pool->least_bytes = pool->kept_bytes;
    pool->look_at_ns = now_ns + LOOK_EVERY_NS;
    return idle;
}

static void free_chain(struct block *chain)
{
    while (chain) {
        struct block *block = chain;
        chain = block->next;
        mem_free(block);
    }
}

void memory_pool_fini(struct memory_pool *pool)
{
    if (!pool->env)
        return;
    while (pool->kept)
        free_kept(pool);
    while (pool->event_count)
        pool->env->event_close(pool->env, pool->events[--pool->event_count]);
    pthread_mutex_destroy(&pool->mu);
    pool->env = NULL;
}

/* --- taking --- */

/* `charge` was taken from available already. NULL: no memory. */
static struct block *get_block_locked(struct memory_pool *pool, size_t capacity)
{
    struct block *block;
    if (capacity == pool->capacity && pool->kept) {
        block = take_kept(pool);
    } else {
        /* What is kept is part of the budget too: let go of as much as the new block needs. */
        while (pool->kept && pool->kept_bytes > pool->available)
            free_kept(pool);
        block = mem_alloc_for(MEM_RECORDS, block_charge(capacity));
        if (!block)
            return NULL;
        block->capacity = (uint32_t)capacity;
    }
    block->next = NULL;
    block->begin = block->used = block->slots = 0;
    block->summed = false;
    return block;
}

/* Pass what is available on to those in line, the oldest first. */
static void grant_locked(struct memory_pool *pool)
{
    struct list *link;
    while (pool->available > 0 && (link = list_first(&pool->waiters))) {
        struct pool_waiter *waiter = list_item(link, struct pool_waiter, link);
        int64_t missing = waiter->wanted - waiter->granted;
        int64_t given = missing < pool->available ? missing : pool->available;
        waiter->granted += given;
        pool->available -= given;
        if (waiter->granted < waiter->wanted)
            return;
        list_remove(link);
        pool->env->event_signal(pool->env, waiter->event);
    }
}

static size_t usable_capacity(const struct memory_pool *pool, size_t capacity)
{
    return capacity <= pool->capacity ? pool->capacity : round_up(capacity);
}

int memory_pool_try(struct memory_pool *pool, size_t capacity, struct block **out)
{
    capacity = usable_capacity(pool, capacity);
    int64_t charge = charge_of(capacity);
    int rc = CAFKA_ERR_WOULD_BLOCK;
    pthread_mutex_lock(&pool->mu);
    if (list_empty(&pool->waiters) && pool->available >= charge) {
        pool->available -= charge;
        *out = get_block_locked(pool, capacity);
        rc = CAFKA_OK;
        if (!*out) {
            pool->available += charge;
            rc = CAFKA_ERR_MEMORY;
        }
    }
    pthread_mutex_unlock(&pool->mu);
    return rc;
}

struct block *memory_pool_overdraw(struct memory_pool *pool, size_t capacity)
{
    capacity = usable_capacity(pool, capacity);
    pthread_mutex_lock(&pool->mu);
    pool->available -= charge_of(capacity);
    struct block *block = get_block_locked(pool, capacity);
    if (!block)
        pool->available += charge_of(capacity);
    pthread_mutex_unlock(&pool->mu);
    return block;
}

void memory_pool_release(struct memory_pool *pool, struct block *chain)
{
    struct block *spare = NULL;
    int64_t now_ns = pool->env->now(pool->env);
    pthread_mutex_lock(&pool->mu);
    struct block *idle = take_idle_locked(pool, now_ns);
    while (chain) {
        struct block *block = chain;
        chain = block->next;
        pool->available += charge_of(block->capacity);
        if (block->capacity == pool->capacity) {
            block->next = pool->kept;
            pool->kept = block;
            pool->kept_bytes += charge_of(block->capacity);
        } else {
            block->next = spare;
            spare = block;
        }
    }
    grant_locked(pool);
    pthread_mutex_unlock(&pool->mu);
    free_chain(spare);
    free_chain(idle);
}

/* --- waiting --- */

static int get_event(struct memory_pool *pool)
{
    int event = -1;
    pthread_mutex_lock(&pool->mu);
    if (pool->event_count)
        event = pool->events[--pool->event_count];
    pthread_mutex_unlock(&pool->mu);
    return event >= 0 ? event : pool->env->event_open(pool->env);
}

static void put_event(struct memory_pool *pool, int event)
{
    (void)pool->env->event_clear(pool->env,
                                 event); /* it may have been signalled too late to be seen */
    pthread_mutex_lock(&pool->mu);
    if (pool->event_count < POOL_EVENTS) {
        pool->events[pool->event_count++] = event;
        event = -1;
    }
    pthread_mutex_unlock(&pool->mu);
    if (event >= 0)
        pool->env->event_close(pool->env, event);
}

int memory_pool_join(struct memory_pool *pool, struct pool_waiter *waiter, size_t capacity,
                     cafka_error *err)
{
    capacity = usable_capacity(pool, capacity);
    *waiter = (struct pool_waiter){.capacity = capacity, .wanted = charge_of(capacity)};
    waiter->event = get_event(pool);
    if (waiter->event < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -waiter->event, "waiting for buffer.memory");
    atomic_fetch_add_explicit(&pool->waiting, 1, memory_order_seq_cst);
    pthread_mutex_lock(&pool->mu);
    if (pool->closed) {
        pool->env->event_signal(pool->env, waiter->event);
    } else {
        list_push_back(&pool->waiters, &waiter->link);
        grant_locked(pool); /* perhaps there is enough by now */
    }
    pthread_mutex_unlock(&pool->mu);
    return CAFKA_OK;
}

int memory_pool_leave(struct memory_pool *pool, struct pool_waiter *waiter, struct block **out)
{
    int rc = CAFKA_ERR_WOULD_BLOCK;
    pthread_mutex_lock(&pool->mu);
    list_remove(&waiter->link);
    if (waiter->granted == waiter->wanted) {
        *out = get_block_locked(pool, waiter->capacity);
        rc = *out ? CAFKA_OK : CAFKA_ERR_MEMORY;
    }
    if (rc) {
        pool->available += waiter->granted;
        grant_locked(pool);
    }
    pthread_mutex_unlock(&pool->mu);
    atomic_fetch_sub_explicit(&pool->waiting, 1, memory_order_relaxed);
    put_event(pool, waiter->event);
    return rc;
}

void memory_pool_close(struct memory_pool *pool)
{
    pthread_mutex_lock(&pool->mu);
    pool->closed = true;
    for (struct list *link; (link = list_pop_front(&pool->waiters));)
        pool->env->event_signal(pool->env, list_item(link, struct pool_waiter, link)->event);
    pthread_mutex_unlock(&pool->mu);
}

int64_t memory_pool_available(struct memory_pool *pool)
{
    pthread_mutex_lock(&pool->mu);
    int64_t available = pool->available;
    pthread_mutex_unlock(&pool->mu);
    return available;
}

size_t memory_pool_used(struct memory_pool *pool)
{
    pthread_mutex_lock(&pool->mu);
    size_t used = (size_t)((int64_t)pool->total - pool->available);
    pthread_mutex_unlock(&pool->mu);
    return used;
}
