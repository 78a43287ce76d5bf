/*
 * cafka/memory.h - where the library's memory comes from, and what it is used for.
 *
 * All memory that the library asks for comes from malloc() and its siblings, or from the functions
 * that a program gives before it uses anything else of the library. What does not pass through
 * here: the stacks of threads, and what libraries below keep for themselves (libzstd's contexts).
 *
 * The counters are kept for the whole process and cost two additions for each block that is taken or
 * given back; a client that runs steadily takes none, however many records it moves.
 *
 *     cafka_memory_use use = {.size = sizeof use};
 *     for (size_t i = 0; !cafka_memory_stats(i, &use); i++)
 *         printf("%s: %lld bytes\n", use.name, (long long)use.bytes);
 */
#ifndef CAFKA_MEMORY_H
#define CAFKA_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <cafka/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * An allocator. The functions are malloc, realloc and free with one more parameter: memory is
 * aligned for any type (16 bytes where max_align_t is), NULL means that there is none, which every
 * call of the library survives. All are needed. `free` and `realloc` get what came from `alloc` and
 * `realloc`, never NULL; the size is never 0.
 *
 * Thread: called on any thread, also at the same time; sometimes with a lock of the library held, so
 * they must not call into the library.
 */
typedef struct cafka_allocator {
    size_t size; /* sizeof(cafka_allocator) */
    void *(*alloc)(size_t size, void *user);
    void *(*realloc)(void *memory, size_t size, void *user);
    void (*free)(void *memory, void *user);
    void *user;
} cafka_allocator;

/*
 * Take all memory from this allocator from now on, for the whole process; it must work until the
 * process ends. Call it before anything else of the library, on one thread: memory that came from
 * malloc() could not be given back to it.
 *
 * Errors:  CAFKA_ERR_ARGUMENT   a function is missing, or `size` is not set
 *          CAFKA_ERR_STATE      the library has taken memory already, or has an allocator
 */
CAFKA_API int cafka_set_allocator(const cafka_allocator *allocator, cafka_error *err);

/* What one subsystem holds now. */
typedef struct cafka_memory_use {
    size_t size;      /* sizeof(cafka_memory_use), set by the caller */
    const char *name; /* "records", "frames", …; static */
    int64_t bytes;   /* asked for and not yet given back, without what the allocator itself needs */
    int64_t blocks;  /* in which they lie */
    const char *doc; /* a sentence; static */
} cafka_memory_use;

/*
 * Subsystem number `index`, from 0 on. Returns CAFKA_OK, or CAFKA_END behind the last one. The sum
 * over all of them is what the library holds. Numbers are read one by one while other threads go on,
 * so those of two subsystems may be a moment apart.
 * Thread: any.
 */
CAFKA_API int cafka_memory_stats(size_t index, cafka_memory_use *out);

#ifdef __cplusplus
}
#endif

#endif
