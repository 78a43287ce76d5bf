/*
 * alloc.h - where all memory of the library comes from.
 *
 * One process-wide allocator, so that a test can fail the k-th allocation for every k and an
 * application can bring its own. Sizes are the caller's duty to bound before it asks.
 *
 * Thread: any. mem_set_allocator() only before the first allocation.
 */
#ifndef CAFKA_UTIL_ALLOC_H
#define CAFKA_UTIL_ALLOC_H

#include <stddef.h>

struct allocator {
    void *(*alloc)(size_t size, void *user); /* as malloc */
    void *(*realloc)(void *old, size_t size, void *user);
    void (*free)(void *memory, void *user);
    void *user;
};

void mem_set_allocator(const struct allocator *allocator);

void *mem_alloc(size_t size);                /* not cleared; NULL when there is none */
void *mem_zalloc(size_t size);               /* all bytes zero */
void *mem_calloc(size_t count, size_t size); /* zeroed; NULL if the product overflows */
void *mem_realloc(void *old, size_t size);   /* old stays valid on failure */
void *mem_recalloc(void *old, size_t count,
                   size_t size);                    /* realloc of count items, overflow checked */
char *mem_strdup(const char *text);                 /* NULL gives NULL */
char *mem_strndup(const char *text, size_t length); /* always terminated */
void *mem_memdup(const void *data, size_t size);
void mem_free(void *memory);

/* Testing: the k-th allocation from now on fails (1 is the next one) and, if `forever`, all after it. 0: none. */
void mem_fail_after(unsigned long k, int forever);
/* Allocations since the last mem_fail_after(), whether they failed or not. */
unsigned long mem_count(void);

#endif
