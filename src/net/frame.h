/*
 * frame.h - size-prefixed messages out of a stream of bytes, in memory that is reference counted.
 *
 * A frame is one allocation: a small head and the bytes behind the int32 size. The size is
 * compared with the limit before anything is allocated, and a large frame's memory grows with
 * what has arrived, so that a hostile size costs nothing. Frames come from a pool of the reader.
 *
 * Thread: frame_ref/frame_unref on any thread; the reader on its loop's.
 */
#ifndef CAFKA_NET_FRAME_H
#define CAFKA_NET_FRAME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/stream.h"

struct frame {
    atomic_uint refs;
    uint32_t size; /* of data */
    uint32_t capacity;
    struct frame_pool *pool; /* NULL: plain memory */
    struct frame *next;      /* of whoever holds it */
    _Alignas(16) uint8_t data[];
};

struct frame *frame_ref(struct frame *frame);
void frame_unref(struct frame *frame); /* takes NULL */

/* Frames kept for reuse, by size class; bounded. Shared by the connections of a client. */
struct frame_pool;
int frame_pool_new(struct frame_pool **out, size_t keep_bytes, cafka_error *err);
struct frame_pool *frame_pool_ref(struct frame_pool *pool);
void frame_pool_unref(struct frame_pool *pool); /* takes NULL; frames in use keep it alive */

/* A frame to be filled by the caller, one reference. pool NULL: plain memory. Error: CAFKA_ERR_MEMORY. */
int frame_new(struct frame **out, struct frame_pool *pool, uint32_t size, cafka_error *err);

/*
 * Small frames pass through a scratch of 64 KiB that the reader borrows from the pool while it
 * reads; the rest of a large one is received into the frame itself.
 */
struct frame_reader {
    struct frame_pool *pool;
    uint32_t limit;        /* largest size taken */
    struct frame *partial; /* being filled */
    uint32_t filled;       /* bytes of it */
    uint8_t prefix[4];
    uint8_t prefix_filled;
    bool dry;         /* the last read was short: nothing there now */
    bool large;       /* the last frame was, so the next one may be */
    uint32_t burst;   /* bytes read since the others on the loop had their turn */
    uint8_t *scratch; /* NULL: not borrowed */
    uint32_t scratch_at, scratch_end;
};

void frame_reader_init(struct frame_reader *r, struct frame_pool *pool, uint32_t limit);
void frame_reader_fini(struct frame_reader *r);
/*
 * The next whole frame, which the caller then owns a reference to; *out NULL: not there yet, or
 * enough for one turn of the loop; wait for `readable`. Call it until then, or again later: what was
 * read ahead is kept.
 * Errors: CAFKA_ERR_PROTOCOL size negative or above the limit (the message names both, and says so
 * when the bytes look like HTTP or TLS), CAFKA_ERR_MEMORY, CAFKA_ERR_TRANSPORT closed. After one, only fini.
 */
int frame_reader_next(struct frame_reader *r, struct stream *stream, struct frame **out,
                      cafka_error *err);

#endif
