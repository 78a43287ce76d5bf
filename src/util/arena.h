/*
 * arena.h - memory that is freed all at once, with a limit.
 *
 * Decoded messages live in one. Zeroed is valid and has no limit. arena_reset() keeps the
 * newest block, which is the largest, so that a loop that decodes message after message soon
 * allocates nothing.
 */
#ifndef CAFKA_UTIL_ARENA_H
#define CAFKA_UTIL_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* the newest first */
    size_t limit;               /* 0: none; otherwise total bytes handed out */
    size_t used;
};

void *arena_alloc(struct arena *a,
                  size_t size); /* zeroed, 16-aligned; NULL past the limit or without memory */
void *arena_calloc(struct arena *a, size_t count, size_t size); /* overflow checked */
char *arena_strndup(struct arena *a, const char *text, size_t length);
void arena_reset(struct arena *a);
void arena_fini(struct arena *a);

#endif
