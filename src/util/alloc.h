/*
 * alloc.h - where all memory of the library comes from.
 *
 * One process-wide allocator, so that a test can fail the k-th allocation for every k and an
 * application can bring its own (<cafka/memory.h>). Sizes are the caller's duty to bound before it
 * asks. Each block remembers in 16 bytes before it how large it is and what it is for, so that the
 * bytes of each purpose are known at any time.
 *
 * Thread: any. mem_set_allocator() only before the first allocation.
 */
#ifndef CAFKA_UTIL_ALLOC_H
#define CAFKA_UTIL_ALLOC_H

#include <stddef.h>
#include <stdint.h>

struct allocator {
    void *(*alloc)(size_t size, void *user); /* as malloc */
    void *(*realloc)(void *old, size_t size, void *user);
    void (*free)(void *memory, void *user);
    void *user;
};

/* False: memory was taken already, or there is an allocator. */
int mem_set_allocator(const struct allocator *allocator);

/* What memory is for. The large users say it; all else is MEM_OTHER. */
enum mem_use {
    MEM_OTHER,
    MEM_RECORDS,  /* blocks that a producer encodes records into */
    MEM_FRAMES,   /* answers and requests as they came from sockets */
    MEM_BUFFERS,  /* struct buffer: inflated records, encoded messages */
    MEM_MESSAGES, /* arenas: decoded messages */
    MEM_CODECS,   /* contexts of compression */
    MEM_SOCKETS,  /* streams, and what is queued in them */
    MEM_USES
};

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

/* The same with a purpose. A block that is made larger keeps the purpose that it had. */
void *mem_alloc_for(enum mem_use use, size_t size);
void *mem_zalloc_for(enum mem_use use, size_t size);
void *mem_realloc_for(enum mem_use use, void *old, size_t size);

/* What is held now. */
int64_t mem_bytes(enum mem_use use);
int64_t mem_blocks(enum mem_use use);

/* Testing: the k-th allocation from now on fails (1 is the next one) and, if `forever`, all after it. 0: none. */
void mem_fail_after(unsigned long k, int forever);
/* `count` allocations in a row fail, of which the k-th from now on is the first. */
void mem_fail_some(unsigned long k, unsigned long count);
/* Allocations since the last mem_fail_after(), whether they failed or not. */
unsigned long mem_count(void);

#endif
