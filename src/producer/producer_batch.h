/*
 * producer_batch.h - records of one partition that travel together, in a chain of pool blocks.
 *
 *     first block: [struct producer_batch][batch header][records …      … slots]
 *     next blocks: [records …                                           … slots]
 *
 * Records are written where they will be sent from, and are sent again from there on a retry.
 * With a delivery function there is a slot for each record, which grows down from the end of the
 * block that the record is in. The struct itself lives in the first block, so that a batch is
 * nothing but its blocks and is charged to buffer.memory whole.
 *
 *     OPEN -> SEALING -> SEALED
 *
 * OPEN: records are added, under the partition's lock. SEALING: the thread that closed it
 * compresses it and sums it up; nobody else touches it. SEALED: it belongs to the loop.
 *
 * Owner:   its partition, until it is finished; then whoever reports it.
 * Thread:  see the states.
 * Reading: producer_batch_seal(), then producer_batch_stamp().
 */
#ifndef CAFKA_PRODUCER_PRODUCER_BATCH_H
#define CAFKA_PRODUCER_PRODUCER_BATCH_H

#include <stdatomic.h>

#include "client/client.h"
#include "producer/memory_pool.h"
#include "record/batch.h"
#include "record/compress.h"

struct partition;

/* What is kept of a record for its report. */
struct slot {
    void *opaque;
    int64_t timestamp_ms;
};

enum producer_batch_state { PRODUCER_BATCH_OPEN, PRODUCER_BATCH_SEALING, PRODUCER_BATCH_SEALED };

/* A record that the broker named as the cause (KIP-467). */
struct record_failure {
    int32_t index;
    char *message; /* NULL: none */
};

struct producer_batch {
    struct list link; /* partition->closed (under its lock), ->queue or ->in_flight (loop) */
    struct partition *partition;
    struct block *first, *last;
    atomic_int state; /* enum producer_batch_state */
    bool slots;       /* there is one for each record */
    int8_t codec;     /* after sealing: what was used in fact */
    int32_t count;
    int64_t base_timestamp, max_timestamp;
    int64_t created_ms; /* clock of loop_now_ms() */
    size_t size;        /* after sealing: on the wire, header and all */
    size_t raw_size;    /* after sealing: of the records before compression */
    int piece_count;    /* after sealing: blocks that have bytes to send */
    uint32_t records_crc;
    struct loop_task seal_task; /* SEALING by a worker (compressors.h) */
    int queued_blocks;          /* of partition->queued_blocks that are its own */
    uint64_t number;    /* order of creation within the partition; children of a split share it */
    int32_t root_index; /* of the first record in the batch that was split */

    /* loop: sending */
    struct conn_pieces pieces;
    struct uuid topic_id; /* of the topic when it was sent; it may be made anew meanwhile */
    int64_t producer_id;  /* -1: none yet */
    int16_t producer_epoch;
    int32_t base_sequence; /* -1: none yet */
    int32_t attempts;
    bool on_wire;        /* a request refers to it */
    bool maybe_written;  /* an attempt ended without an answer that tells */
    bool finished;       /* its result is known and told; only the memory is waited for */
    atomic_bool settled; /* one of two that hold it is done: who finds it set releases */
    uint64_t flush_mark; /* the first flush that waits for it; 0: none */

    /* result; error.code 0 is success */
    int64_t base_offset, append_time_ms;
    struct record_failure *failures;
    size_t failure_count;
    struct list waiters; /* struct send_waiter (delivery.h); as the records, then the loop's */
    int32_t waited;      /* how many records have one */
    struct client_callback callback;
    cafka_error error;
};

enum {
    PRODUCER_BATCH_HEAD = (sizeof(struct producer_batch) + RECORD_BATCH_OVERHEAD + 15) / 16 * 16
};

/* Begin a batch in this block, which holds PRODUCER_BATCH_HEAD and the first record. */
struct producer_batch *producer_batch_init(struct block *block, struct partition *partition);
/* Give back all that it has; the batch is gone. */
void producer_batch_release(struct producer_batch *batch, struct memory_pool *pool);

static inline uint8_t *producer_batch_header(const struct producer_batch *batch)
{
    return batch->first->data + batch->first->begin;
}

/* The loop may have it: who closed it is done with compressing. */
static inline bool producer_batch_is_sealed(const struct producer_batch *batch)
{
    return atomic_load_explicit(&batch->state, memory_order_acquire) == PRODUCER_BATCH_SEALED;
}

/* What a thread needs to compress; kept and used again. */
struct sealer {
    struct sealer *next;
    int codec;
    struct compressor *compressor; /* NULL: plain */
    struct buffer scratch;
    struct iovec *iov;
    size_t iov_capacity;
};
/* Errors: those of compressor_new(). */
int sealer_new(struct sealer **out, int codec, int level, cafka_error *err);
void sealer_free(struct sealer *sealer); /* takes NULL */

/*
 * Compress the records in place, if that makes them smaller, and sum them up. Cannot fail: without
 * memory for compressing the records stay plain. sealer NULL: plain. The state becomes SEALED.
 * Blocks that are empty afterwards go back to the pool. Returns what the records took before, and
 * what they take; the batch itself is the loop's then.
 */
size_t producer_batch_seal(struct producer_batch *batch, struct sealer *sealer,
                           struct memory_pool *pool, size_t *compressed);

/*
 * Sum up a block that is full while it is still in the cache of who filled it; sealing then need
 * not read it again.
 */
void producer_batch_sum_block(const struct producer_batch *batch, struct block *block);

/* Write the header for the producer id, epoch and sequence that the batch has now. */
void producer_batch_stamp(struct producer_batch *batch);

/* The pieces that it is sent in, batch->piece_count of them. */
void producer_batch_pieces(const struct producer_batch *batch, struct iovec *iov);

/*
 * Cut the records of a sealed batch into batches of at most `limit` bytes each (one record at
 * least), sealed and in order in `out`, with slots of their own. The original is not changed and
 * the caller's to release. The new blocks are charged even if that overdraws buffer.memory, since a
 * refusal by a broker cannot wait for memory.
 *
 * Errors: CAFKA_ERR_MEMORY; what the records cannot be read for. `out` is empty then.
 */
int producer_batch_split(struct producer_batch *batch, size_t limit,
                         struct decompressor *decompressor, struct sealer *sealer,
                         struct memory_pool *pool, struct list *out, cafka_error *err);

/* Walk the slots in the order of the records. */
struct slot_iter {
    const struct block *block;
    uint32_t at;
};
static inline struct slot_iter producer_batch_slots(const struct producer_batch *batch)
{
    return (struct slot_iter){batch->first, 0};
}
static inline const struct slot *slot_iter_next(struct slot_iter *it)
{
    while (it->block && it->at == it->block->slots) {
        it->block = it->block->next;
        it->at = 0;
    }
    if (!it->block)
        return NULL;
    return (const struct slot *)(const void *)(it->block->data + it->block->capacity) - ++it->at;
}

#endif
