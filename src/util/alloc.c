/*
 * alloc.c - see alloc.h and <cafka/memory.h>. The failure countdown is one relaxed atomic that is 0
 * in production.
 */
#include "util/alloc.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cafka/memory.h>

#include "util/error.h"

/* Before each block; as large as the strictest alignment, so that the block has it too. */
struct head {
    _Alignas(max_align_t) size_t size;
    enum mem_use use;
};

static struct allocator current; /* zero: malloc and friends */
static atomic_bool in_use;       /* memory was taken, or an allocator set */

static struct {
    _Atomic(int64_t) bytes, blocks;
    char padding[48]; /* threads that take memory for different things do not meet */
} held[MEM_USES];

static atomic_ulong allocations;
static atomic_ulong fail_from, fail_count; /* from: 0 none */

int mem_set_allocator(const struct allocator *allocator)
{
    if (atomic_exchange(&in_use, true))
        return 0;
    current = *allocator;
    return 1;
}

/* --- testing --- */

void mem_fail_after(unsigned long k, int forever)
{
    mem_fail_some(k, forever ? ULONG_MAX : 1);
}

void mem_fail_some(unsigned long k, unsigned long count)
{
    atomic_store(&fail_from, 0);
    atomic_store(&allocations, 0);
    atomic_store(&fail_count, count);
    atomic_store(&fail_from, k);
}

unsigned long mem_count(void)
{
    return atomic_load(&allocations);
}

static int must_fail(void)
{
    unsigned long count = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    unsigned long from = atomic_load_explicit(&fail_from, memory_order_relaxed);
    return from && count >= from && count - from < atomic_load(&fail_count);
}

/* --- counting --- */

static void count(enum mem_use use, int64_t bytes, int64_t blocks)
{
    atomic_fetch_add_explicit(&held[use].bytes, bytes, memory_order_relaxed);
    if (blocks)
        atomic_fetch_add_explicit(&held[use].blocks, blocks, memory_order_relaxed);
}

int64_t mem_bytes(enum mem_use use)
{
    return atomic_load_explicit(&held[use].bytes, memory_order_relaxed);
}

int64_t mem_blocks(enum mem_use use)
{
    return atomic_load_explicit(&held[use].blocks, memory_order_relaxed);
}

/* --- taking and giving back --- */

static void *new_block(enum mem_use use, size_t size, int zeroed)
{
    if (must_fail() || size > PTRDIFF_MAX - sizeof(struct head))
        return NULL;
    if (!atomic_load_explicit(&in_use, memory_order_relaxed))
        atomic_store(&in_use, true);
    struct head *head;
    size_t whole = sizeof *head + (size ? size : 1);
    if (!current.alloc)
        head = zeroed ? calloc(1, whole) : malloc(whole);
    else if ((head = current.alloc(whole, current.user)) && zeroed)
        memset(head, 0, whole);
    if (!head)
        return NULL;
    head->size = size;
    head->use = use;
    count(use, (int64_t)size, 1);
    return head + 1;
}

void *mem_alloc_for(enum mem_use use, size_t size)
{
    return new_block(use, size, 0);
}

void *mem_zalloc_for(enum mem_use use, size_t size)
{
    return new_block(use, size, 1);
}

void *mem_realloc_for(enum mem_use use, void *old, size_t size)
{
    if (!old)
        return new_block(use, size, 0);
    if (must_fail() || size > PTRDIFF_MAX - sizeof(struct head))
        return NULL;
    struct head *head = (struct head *)old - 1;
    size_t before = head->size, whole = sizeof *head + (size ? size : 1);
    head = current.realloc ? current.realloc(head, whole, current.user) : realloc(head, whole);
    if (!head)
        return NULL;
    head->size = size;
    count(head->use, (int64_t)size - (int64_t)before, 0);
    return head + 1;
}

void mem_free(void *memory)
{
    if (!memory)
        return;
    struct head *head = (struct head *)memory - 1;
    count(head->use, -(int64_t)head->size, -1);
    if (current.free)
        current.free(head, current.user);
    else
        free(head);
}

/* --- made of these --- */

void *mem_alloc(size_t size)
{
    return mem_alloc_for(MEM_OTHER, size);
}

void *mem_zalloc(size_t size)
{
    return mem_zalloc_for(MEM_OTHER, size);
}

void *mem_calloc(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    return mem_zalloc(count * size);
}

void *mem_realloc(void *old, size_t size)
{
    return mem_realloc_for(MEM_OTHER, old, size);
}

void *mem_recalloc(void *old, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        return NULL;
    return mem_realloc(old, count * size);
}

char *mem_strdup(const char *text)
{
    return text ? mem_strndup(text, strlen(text)) : NULL;
}

char *mem_strndup(const char *text, size_t length)
{
    char *copy = mem_alloc(length + 1);
    if (!copy)
        return NULL;
    if (length)
        memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

void *mem_memdup(const void *data, size_t size)
{
    void *copy = mem_alloc(size);
    if (copy && size)
        memcpy(copy, data, size);
    return copy;
}

/* --- <cafka/memory.h> --- */

int cafka_set_allocator(const cafka_allocator *allocator, cafka_error *err)
{
    error_clear(err);
    if (!allocator || allocator->size < sizeof *allocator || !allocator->alloc ||
        !allocator->realloc || !allocator->free)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "an allocator needs its size, and alloc, realloc and free");
    struct allocator chosen = {allocator->alloc, allocator->realloc, allocator->free,
                               allocator->user};
    if (!mem_set_allocator(&chosen))
        return error_set(err, CAFKA_ERR_STATE,
                         "the allocator must be set once, before anything else of the library is used");
    return CAFKA_OK;
}

static const struct {
    const char *name, *doc;
} uses[MEM_USES] = {
    [MEM_OTHER] = {"other", "clients, their topics, partitions, brokers, configurations"},
    [MEM_RECORDS] = {"records", "blocks that producers encode records into; of buffer.memory"},
    [MEM_FRAMES] = {"frames", "what came from sockets; with a consumer's records in it, of "
                              "fetch.buffer.memory"},
    [MEM_BUFFERS] = {"buffers", "records that were inflated or compressed, encoded requests"},
    [MEM_MESSAGES] = {"messages", "decoded messages"},
    [MEM_CODECS] = {"codecs", "contexts of gzip, snappy and lz4 (libzstd has memory of its own)"},
    [MEM_SOCKETS] = {"sockets", "streams, and what is queued in them"},
};

int cafka_memory_stats(size_t index, cafka_memory_use *out)
{
    if (!out || out->size < sizeof out->size)
        return CAFKA_ERR_ARGUMENT;
    if (index >= MEM_USES)
        return CAFKA_END;
    enum mem_use use = (enum mem_use)index;
    cafka_memory_use full = {.size = out->size,
                             .name = uses[use].name,
                             .bytes = mem_bytes(use),
                             .blocks = mem_blocks(use),
                             .doc = uses[use].doc};
    memcpy(out, &full, out->size < sizeof full ? out->size : sizeof full);
    return CAFKA_OK;
}
