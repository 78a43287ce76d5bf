/*
 * frame.c - see frame.h.
 *
 * Memory is in classes of powers of two, head included. A frame larger than FIRST_BYTES starts
 * small and doubles as its bytes arrive (by realloc, which moves pages, not bytes, at these
 * sizes), unless the pool has a block of its class, which costs nothing.
 */
#include "net/frame.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "util/alloc.h"
#include "util/bytes.h"

enum {
    CLASS_MIN = 9,  /* 512 bytes */
    CLASS_MAX = 26, /* 64 MiB; what is larger is not kept */
    CLASSES = CLASS_MAX - CLASS_MIN + 1,
    SCRATCH_SIZE = 64 * 1024,
    LARGE = SCRATCH_SIZE, /* a frame of this size is read into itself, not through the scratch */
    HEAD_SIZE = 128,      /* read into the scratch when a large frame is expected */
    SCRATCHES_KEPT = 4,
    KEEP_FROM = 3, /* a large class is kept from so many frames on that were asked for */
    BURST_BYTES = 2 * 1024 * 1024 /* read in one turn of the loop: less than a millisecond */
};

/* What a large frame starts with: a block of 1 MiB. */
#define FIRST_BYTES ((UINT32_C(1) << 20) - (uint32_t)sizeof(struct frame))

/* Also the head of a scratch while it is kept. */
struct spare {
    struct spare *next;
};

struct frame_pool {
    atomic_uint refs; /* readers and others who hold it, and frames in use */
    size_t keep_bytes;

    pthread_mutex_t lock; /* guards what follows; a leaf */
    struct frame *kept[CLASSES];
    uint8_t asked[CLASSES]; /* frames that were asked for, up to KEEP_FROM */
    size_t kept_bytes;
    struct spare *scratches;
    unsigned scratch_count;
};

/* --- the pool --- */

int frame_pool_new(struct frame_pool **out, size_t keep_bytes, cafka_error *err)
{
    struct frame_pool *pool = mem_zalloc(sizeof *pool);
    if (!pool)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a pool of frames");
    atomic_init(&pool->refs, 1);
    pool->keep_bytes = keep_bytes;
    pthread_mutex_init(&pool->lock, NULL);
    *out = pool;
    return CAFKA_OK;
}

struct frame_pool *frame_pool_ref(struct frame_pool *pool)
{
    atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
    return pool;
}

void frame_pool_unref(struct frame_pool *pool)
{
    if (!pool || atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (int c = 0; c < CLASSES; c++)
        for (struct frame *frame; (frame = pool->kept[c]);) {
            pool->kept[c] = frame->next;
            mem_free(frame);
        }
    for (struct spare *scratch; (scratch = pool->scratches);) {
        pool->scratches = scratch->next;
        mem_free(scratch);
    }
    pthread_mutex_destroy(&pool->lock);
    mem_free(pool);
}

/* The class of a block of this many bytes, rounded up; CLASSES and above: not kept. */
static int class_of(size_t bytes)
{
    int bits = bytes > 1 ? 64 - __builtin_clzll((unsigned long long)bytes - 1) : 0;
    return bits < CLASS_MIN ? 0 : bits - CLASS_MIN;
}

static size_t class_bytes(int class)
{
    return (size_t)1 << (class + CLASS_MIN);
}

static struct frame *take_kept(struct frame_pool *pool, int class)
{
    if (class >= CLASSES)
        return NULL;
    pthread_mutex_lock(&pool->lock);
    struct frame *frame = pool->kept[class];
    pool->asked[class] += pool->asked[class] < KEEP_FROM;
    if (frame) {
        pool->kept[class] = frame->next;
        pool->kept_bytes -= class_bytes(class);
    }
    pthread_mutex_unlock(&pool->lock);
    return frame;
}

/* Drop kept blocks of other classes, large ones first, so that a change of sizes wears off. */
static struct frame *evict_others_locked(struct frame_pool *pool, int class, struct frame *unwanted)
{
    for (int c = CLASSES - 1; c >= 0; c--) {
        struct frame *frame;
        while (c != class && (frame = pool->kept[c]) &&
               pool->kept_bytes + class_bytes(class) > pool->keep_bytes) {
            pool->kept[c] = frame->next;
            pool->kept_bytes -= class_bytes(c);
            frame->next = unwanted;
            unwanted = frame;
        }
    }
    return unwanted;
}

/* A large frame that hardly ever comes, such as the metadata of many topics, is not worth its memory. */
static bool is_wanted_again_locked(const struct frame_pool *pool, int class)
{
    return class_bytes(class) <= LARGE || pool->asked[class] == KEEP_FROM;
}

static void keep_or_free(struct frame_pool *pool, struct frame *frame)
{
    size_t bytes = sizeof *frame + frame->capacity;
    int class = class_of(bytes);
    struct frame *unwanted = NULL;
    frame->next = NULL;
    if (class >= CLASSES || class_bytes(class) != bytes || bytes > pool->keep_bytes) {
        unwanted = frame;
    } else {
        pthread_mutex_lock(&pool->lock);
        bool wanted = is_wanted_again_locked(pool, class);
        if (wanted && pool->kept_bytes + bytes > pool->keep_bytes)
            unwanted = evict_others_locked(pool, class, NULL);
        if (!wanted || pool->kept_bytes + bytes > pool->keep_bytes) {
            frame->next = unwanted;
            unwanted = frame;
        } else {
            frame->next = pool->kept[class];
            pool->kept[class] = frame;
            pool->kept_bytes += bytes;
        }
        pthread_mutex_unlock(&pool->lock);
    }
    while (unwanted) {
        struct frame *next = unwanted->next;
        mem_free(unwanted);
        unwanted = next;
    }
    frame_pool_unref(pool);
}

/* --- frames --- */

struct frame *frame_ref(struct frame *frame)
{
    atomic_fetch_add_explicit(&frame->refs, 1, memory_order_relaxed);
    return frame;
}

void frame_unref(struct frame *frame)
{
    if (!frame || atomic_fetch_sub_explicit(&frame->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (frame->pool)
        keep_or_free(frame->pool, frame);
    else
        mem_free(frame);
}

/* Bytes to allocate so that `size` bytes of data fit. */
static size_t block_bytes(size_t size)
{
    size_t bytes = sizeof(struct frame) + size;
    int class = class_of(bytes);
    return class < CLASSES ? class_bytes(class) : bytes;
}

/* A frame for `size` bytes, that has room for a part of them at least. */
static struct frame *new_frame(struct frame_pool *pool, uint32_t size)
{
    struct frame *frame = pool ? take_kept(pool, class_of(sizeof *frame + (size_t)size)) : NULL;
    if (!frame) {
        size_t bytes = block_bytes(size < FIRST_BYTES ? size : FIRST_BYTES);
        frame = mem_alloc_for(MEM_FRAMES, bytes);
        if (!frame)
            return NULL;
        frame->capacity = (uint32_t)(bytes - sizeof *frame);
    }
    atomic_init(&frame->refs, 1);
    frame->size = size;
    frame->next = NULL;
    frame->pool = pool;
    if (pool)
        frame_pool_ref(pool);
    return frame;
}

int frame_new(struct frame **out, struct frame_pool *pool, uint32_t size, cafka_error *err)
{
    struct frame *frame = new_frame(pool, size);
    if (frame && frame->capacity < size) {
        struct frame *larger = mem_realloc(frame, block_bytes(size));
        if (!larger)
            frame_unref(frame);
        else
            larger->capacity = (uint32_t)(block_bytes(size) - sizeof *larger);
        frame = larger;
    }
    if (!frame)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a message of %u bytes", size);
    *out = frame;
    return CAFKA_OK;
}

/* --- the reader --- */

void frame_reader_init(struct frame_reader *r, struct frame_pool *pool, uint32_t limit)
{
    *r = (struct frame_reader){.pool = pool, .limit = limit};
    if (pool)
        frame_pool_ref(pool);
}

static uint8_t *borrow_scratch(struct frame_pool *pool)
{
    struct spare *scratch = NULL;
    if (pool) {
        pthread_mutex_lock(&pool->lock);
        scratch = pool->scratches;
        if (scratch) {
            pool->scratches = scratch->next;
            pool->scratch_count--;
        }
        pthread_mutex_unlock(&pool->lock);
    }
    return scratch ? (uint8_t *)scratch : mem_alloc_for(MEM_FRAMES, SCRATCH_SIZE);
}

static void return_scratch(struct frame_reader *r)
{
    struct spare *scratch = (struct spare *)(void *)r->scratch;
    r->scratch = NULL;
    r->scratch_at = r->scratch_end = 0;
    if (!scratch)
        return;
    if (r->pool) {
        pthread_mutex_lock(&r->pool->lock);
        if (r->pool->scratch_count < SCRATCHES_KEPT) {
            scratch->next = r->pool->scratches;
            r->pool->scratches = scratch;
            r->pool->scratch_count++;
            scratch = NULL;
        }
        pthread_mutex_unlock(&r->pool->lock);
    }
    mem_free(scratch);
}

void frame_reader_fini(struct frame_reader *r)
{
    frame_unref(r->partial);
    r->partial = NULL;
    return_scratch(r);
    frame_pool_unref(r->pool);
    r->pool = NULL;
}

/* What the four bytes say if they are no size. */
static const char *other_protocol(const uint8_t prefix[4])
{
    static const char *const words[] = {"HTTP", "GET ", "HEAD", "POST", "PUT ", "DELE",
                                        "OPTI", "PATC", "CONN", "TRAC", "PRI "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!memcmp(prefix, words[i], 4))
            return "; it looks like HTTP";
    if ((prefix[0] == 0x15 || prefix[0] == 0x16) && prefix[1] == 0x03)
        return "; it looks like TLS: one side uses it and the other does not";
    return "";
}

/* The size is known: check it and make the frame. */
static int begin_frame(struct frame_reader *r, cafka_error *err)
{
    int32_t size = (int32_t)load_be32(r->prefix);
    r->prefix_filled = 0;
    if (size < 0 || (uint32_t)size > r->limit)
        return error_set(err, CAFKA_ERR_PROTOCOL,
                         "a message of %d bytes was announced, and %u is the limit%s", size,
                         r->limit, other_protocol(r->prefix));
    r->partial = new_frame(r->pool, (uint32_t)size);
    if (!r->partial)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a message of %d bytes", size);
    r->filled = 0;
    return CAFKA_OK;
}

/* Room for what comes next, at least one byte: what is there doubles when it is full. */
static int make_room(struct frame_reader *r, cafka_error *err)
{
    struct frame *frame = r->partial;
    if (r->filled < frame->capacity || frame->capacity >= frame->size)
        return CAFKA_OK;
    size_t wanted = 2 * (size_t)frame->capacity;
    size_t bytes = block_bytes(wanted < frame->size ? wanted : frame->size);
    frame = mem_realloc(frame, bytes);
    if (!frame)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a message of %u bytes",
                         r->partial->size);
    frame->capacity = (uint32_t)(bytes - sizeof *frame);
    r->partial = frame;
    return CAFKA_OK;
}

static uint32_t room_in_frame(const struct frame_reader *r)
{
    const struct frame *frame = r->partial;
    uint32_t end = frame->size < frame->capacity ? frame->size : frame->capacity;
    return end - r->filled;
}

/* Move bytes from the scratch into the prefix and the frame, until one of both ends. */
static int take_from_scratch(struct frame_reader *r, cafka_error *err)
{
    int rc = CAFKA_OK;
    while (!rc && !r->partial && r->scratch_at < r->scratch_end) {
        r->prefix[r->prefix_filled++] = r->scratch[r->scratch_at++];
        if (r->prefix_filled == sizeof r->prefix)
            rc = begin_frame(r, err);
    }
    while (!rc && r->partial && r->filled < r->partial->size && r->scratch_at < r->scratch_end) {
        rc = make_room(r, err);
        if (rc)
            break;
        uint32_t size = r->scratch_end - r->scratch_at;
        if (size > room_in_frame(r))
            size = room_in_frame(r);
        memcpy(r->partial->data + r->filled, r->scratch + r->scratch_at, size);
        r->filled += size;
        r->scratch_at += size;
    }
    if (r->scratch_at == r->scratch_end)
        r->scratch_at = r->scratch_end = 0;
    return rc;
}

/*
 * Read once: large frames into themselves, small ones into the scratch, many with one call. *got: as of
 * stream_read(). Behind a large frame only a little is read ahead, so that the next one is not copied.
 */
static int read_more(struct frame_reader *r, struct stream *stream, ssize_t *got, cafka_error *err)
{
    uint32_t asked;
    if (r->partial && r->partial->size >= LARGE) {
        int rc = make_room(r, err);
        if (rc)
            return rc;
        asked = room_in_frame(r) < BURST_BYTES ? room_in_frame(r) : BURST_BYTES;
        *got = stream_read(stream, r->partial->data + r->filled, asked);
        if (*got > 0)
            r->filled += (uint32_t)*got;
    } else {
        if (!r->scratch)
            r->scratch = borrow_scratch(r->pool);
        if (!r->scratch)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory to read into");
        asked = r->large && !r->partial ? HEAD_SIZE : SCRATCH_SIZE;
        *got = stream_read(stream, r->scratch, asked);
        if (*got > 0)
            r->scratch_end = (uint32_t)*got;
    }
    r->dry = *got >= 0 && (size_t)*got < asked;
    return CAFKA_OK;
}

int frame_reader_next(struct frame_reader *r, struct stream *stream, struct frame **out,
                      cafka_error *err)
{
    *out = NULL;
    for (;;) {
        int rc = take_from_scratch(r, err);
        if (rc)
            return rc;
        if (r->partial && r->filled == r->partial->size) {
            *out = r->partial;
            r->large = r->partial->size >= LARGE;
            r->partial = NULL;
            return CAFKA_OK;
        }
        /* All that was read is taken. After a short read the socket is empty: wait to be told. */
        ssize_t got = 0;
        if (!r->dry && r->burst < BURST_BYTES)
            rc = read_more(r, stream, &got, err);
        if (rc)
            return rc;
        if (got < 0) {
            return_scratch(r);
            return error_set(err, CAFKA_ERR_TRANSPORT, "%s", stream_error(stream)->message);
        }
        if (!got) {
            return_scratch(r);
            r->dry = false;
            r->burst = 0;
            return CAFKA_OK;
        }
        r->burst += (uint32_t)got;
    }
}
