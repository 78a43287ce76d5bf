/*
 * alloc.c - see alloc.h. The failure countdown is one relaxed atomic that is 0 in production.
 */
#include "util/alloc.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static struct allocator current; /* zero: malloc and friends */

static atomic_ulong allocations;
static atomic_ulong fail_at;
static atomic_int fail_forever;

void mem_set_allocator(const struct allocator *allocator)
{
    current = *allocator;
}

void mem_fail_after(unsigned long k, int forever)
{
    atomic_store(&allocations, 0);
    atomic_store(&fail_forever, forever);
    atomic_store(&fail_at, k);
}

unsigned long mem_count(void)
{
    return atomic_load(&allocations);
}

static int must_fail(void)
{
    unsigned long count = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    unsigned long at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (!at)
        return 0;
    return count == at || (count > at && atomic_load(&fail_forever));
}

void *mem_alloc(size_t size)
{
    if (must_fail())
        return NULL;
    if (!size)
        size = 1; /* so that NULL always means failure */
    return current.alloc ? current.alloc(size, current.user) : malloc(size);
}

void *mem_zalloc(size_t size)
{
    return mem_calloc(1, size);
}

void *mem_calloc(size_t count, size_t size)
{
    if (!current.alloc) {
        if (must_fail())
            return NULL;
        return calloc(count ? count : 1, size ? size : 1);
    }
    if (size && count > SIZE_MAX / size)
        return NULL;
    void *memory = mem_alloc(count * size);
    if (memory)
        memset(memory, 0, count * size);
    return memory;
}

void *mem_realloc(void *old, size_t size)
{
    if (must_fail())
        return NULL;
    if (!size)
        size = 1;
    return current.realloc ? current.realloc(old, size, current.user) : realloc(old, size);
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

void mem_free(void *memory)
{
    if (!memory)
        return;
    if (current.free)
        current.free(memory, current.user);
    else
        free(memory);
}
