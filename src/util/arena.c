/*
 * arena.c - see arena.h.
 */
#include "util/arena.h"

#include <stdint.h>
#include <string.h>

#include "util/alloc.h"

enum { FIRST_BLOCK = 4096 - 64, ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t size, used; /* of data */
    _Alignas(16) unsigned char data[];
};

void *arena_alloc(struct arena *a, size_t size)
{
    if (size > SIZE_MAX / 4)
        return NULL;
    size = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (a->limit && (size > a->limit || a->used > a->limit - size))
        return NULL;
    struct arena_block *block = a->blocks;
    if (!block || block->size - block->used < size) {
        size_t room = block ? block->size * 2 : FIRST_BLOCK;
        if (room > 1 << 20)
            room = 1 << 20;
        if (room < size)
            room = size;
        block = mem_alloc_for(MEM_MESSAGES, sizeof *block + room);
        if (!block)
            return NULL;
        block->next = a->blocks;
        block->size = room;
        block->used = 0;
        a->blocks = block;
    }
    void *place = block->data + block->used;
    block->used += size;
    a->used += size;
    return memset(place, 0, size);
}

void *arena_calloc(struct arena *a, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / 4 / size)
        return NULL;
    return arena_alloc(a, count * size);
}

char *arena_strndup(struct arena *a, const char *text, size_t length)
{
    char *copy = arena_alloc(a, length + 1);
    if (copy && length)
        memcpy(copy, text, length);
    return copy;
}

void arena_reset(struct arena *a)
{
    struct arena_block *kept = a->blocks;
    if (!kept)
        return;
    a->blocks = kept->next;
    arena_fini(a);
    kept->next = NULL;
    kept->used = 0;
    a->blocks = kept;
}

void arena_fini(struct arena *a)
{
    while (a->blocks) {
        struct arena_block *block = a->blocks;
        a->blocks = block->next;
        mem_free(block);
    }
    a->used = 0;
}
