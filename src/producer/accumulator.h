/*
 * accumulator.h - records that wait to be sent, in batches, one queue a partition.
 *
 * A record is encoded straight into the open batch of its partition by partition_append(). The
 * open batch may leave from batch.size bytes on or when linger.ms is over, but goes on growing in
 * chained blocks until the loop takes it, up to a limit; then the appending thread closes it and
 * opens the next. A partition that has something tells the loop once, by a hand-over list; after
 * that only when a batch has become worth sending earlier.
 *
 * `at` and `end` are the only things that the fast path looks at: whatever needs care (no batch
 * open, block full, batch.size reached, closing) makes end - at too small for any record.
 *
 * Owner:   partitions belong to their topic.
 * Thread:  the first part of struct partition under its lock, which is a leaf but for the memory
 *          pool's; the second part is the loop's.
 * Reading: partition_append(), then partition_take().
 */
#ifndef CAFKA_PRODUCER_ACCUMULATOR_H
#define CAFKA_PRODUCER_ACCUMULATOR_H

#include <cafka/record.h>

#include "producer/batch_limits.h"
#include "producer/idempotence.h"
#include "producer/producer_batch.h"
#include "util/mpsc.h"

struct cafka_topic;
struct sender_broker;

/* There may be ten thousand of them that do nothing, so fields of a size stand together. */
struct partition {
    pthread_mutex_t mu; /* guards what follows, up to `closed` */
    uint8_t *at, *end;  /* where the next record goes; both NULL: no batch is open */
    uint8_t *limit;     /* end of the block's room, where slots begin */
    uint8_t *hard_end; /* how far records may go without slots; `end` may be lower, at batch.size */
    struct producer_batch *open;
    int64_t base_timestamp, max_timestamp;
    int32_t count;          /* records in the open batch */
    bool closing;           /* takes no records any more */
    bool announces;         /* the next record takes the slow path, to be announced */
    uint32_t earlier_bytes; /* of the open batch, in blocks before the last */
    uint32_t leaves_at;     /* bytes from which the open batch may leave: batch.size, compressed */
    uint32_t told_bytes;    /* of the open batch, that the loop was told may leave */
    int open_blocks;        /* of the open batch */
    int64_t sticky_bytes;   /* appended since the sticky partitioner came here */
    uint64_t next_number;
    struct list closed; /* batches closed by appenders, not yet taken by the loop */

    /* both sides */
    struct mpsc_item handed;                /* in the accumulator's list while `handed_over` */
    _Atomic(struct sender_broker *) broker; /* of the leader; NULL: none known. Written by the loop */
    atomic_int queued_blocks;               /* blocks that wait, for the partitioner's statistics */
    atomic_bool handed_over;

    /* the loop's */
    bool ready : 1; /* something may leave now */
    bool due : 1;   /* linger.ms is over, or it does not matter: do not hold back */
    bool used : 1;  /* had a batch, ever */

    /* fixed */
    struct cafka_topic *topic;
    struct batch_limits *limits; /* of the topic; NULL: none */

    /* the loop's: sender.c */
    struct list queue;     /* closed batches, in order; a retry is at its front */
    struct list in_flight; /* batches on the wire, and expired ones whose answer is not there yet */
    struct sequences sequences;
    struct list sender_link;           /* in a broker's `ready` */
    struct list active_link;           /* while it has any batch */
    struct sender_broker *wire_broker; /* where the batches on the wire went */
    int64_t retry_at_ms;               /* 0: not backing off */
    struct timer timer;                /* linger or backoff */
    struct timer expiry;               /* delivery.timeout.ms of the oldest batch */
    int32_t index;                     /* fixed */
    uint32_t request_mark;             /* the request that was offered this partition last */
    int wire_count;                    /* batches in requests */
    int32_t sent_epoch;                /* leader epoch that was known when the last one was sent */
    int32_t confirmed_broker;          /* leader that has acknowledged a batch … */
    int32_t confirmed_epoch;           /* … and its epoch */
    unsigned failures;                 /* attempts in a row that failed */
    int told_error;                    /* event function: once per cause */
};

/* What all partitions of a producer share. */
struct accumulator {
    const cafka_env *env;
    struct memory_pool pool;
    size_t batch_size; /* bytes from which a batch may leave, once it is compressed */
    size_t record_max; /* key, value and headers of a record together */
    size_t batch_max;  /* bytes to which an open batch may grow (raw, header included) */
    bool slots;        /* keep opaques */
    int codec, level;
    int64_t linger_ms;
    _Atomic(int64_t) closed_records; /* in batches that are closed and not reported */
    struct mpsc handed;              /* partitions that have news for the loop */
    /* Takes batches to be sealed by other threads; NULL: accumulator_seal() does it itself. */
    void (*seal_elsewhere)(struct accumulator *a, struct producer_batch *batch);
    pthread_mutex_t sealers_mu;
    struct sealer *sealers; /* idle ones; under sealers_mu */
};

int accumulator_init(struct accumulator *a, const cafka_env *env,
                     const struct producer_settings *settings, cafka_error *err);
void accumulator_fini(struct accumulator *a); /* takes a zeroed one */

int partition_init(struct partition *p, struct cafka_topic *topic, int32_t index, cafka_error *err);
void partition_fini(struct partition *p, struct accumulator *a); /* drops batches that are left */

/* A record, taken apart and checked, as the fast path wants it. */
struct append {
    struct bytes key, value;
    const cafka_header *headers;
    size_t header_count, headers_size; /* encoded size of the headers */
    void *opaque;
    int64_t timestamp_ms;
};

/* What an append did, beside taking the record. */
struct append_outcome {
    struct producer_batch *to_seal; /* closed by it: accumulator_seal() it, without the lock */
    bool opened;                    /* the partition had nothing: the loop must know by linger.ms */
    size_t grown;                   /* not 0: so many bytes more may leave now */
    int64_t created_ms;             /* of the open batch, with `opened` or `grown` */
    bool announced;                 /* without linger.ms: it is one of the first of its batch */
    size_t size;                    /* bytes the record takes */
    struct producer_batch *batch;   /* that took the record; valid while the lock is held */
    int32_t index;                  /* of the record in it */
};

/*
 * Append to the open batch, p->mu held. `spare` is a block that the caller has waited for, or NULL;
 * it is set to NULL if used. limit: bytes to which the open batch may grow.
 *
 * Returns CAFKA_OK; CAFKA_ERR_WOULD_BLOCK if a block of *needed capacity must be waited for (*needed is
 * set then); CAFKA_ERR_CLOSED; CAFKA_ERR_MEMORY. The outcome's to_seal may be set in any case.
 */
int partition_append_locked(struct accumulator *a, struct partition *p, const struct append *append,
                            size_t limit, struct block **spare, struct append_outcome *outcome,
                            size_t *needed);

static inline __attribute__((always_inline)) uint8_t *append_put_headers(uint8_t *at,
                                                                         const struct append *append)
{
    for (size_t i = 0; __builtin_expect(i < append->header_count, 0); i++) {
        const cafka_header *h = &append->headers[i];
        at = record_put_header(at, h->name, h->name_size ? h->name_size : strlen(h->name),
                               bytes_of(h->value, h->value_size));
    }
    return at;
}

/* A record was written that ends at `at`. */
static inline __attribute__((always_inline)) void append_note_locked(struct partition *p,
                                                                     const struct append *append,
                                                                     uint8_t *at, bool slots)
{
    p->at = at;
    p->count++;
    if (append->timestamp_ms > p->max_timestamp)
        p->max_timestamp = append->timestamp_ms;
    if (slots) {
        p->limit -= sizeof(struct slot);
        struct slot *slot = (struct slot *)(void *)p->limit;
        slot->opaque = append->opaque;
        slot->timestamp_ms = append->timestamp_ms;
        /* The next record needs a slot too: end keeps that far away from the slots. */
        if (p->end + sizeof(struct slot) > p->limit)
            p->end = p->limit - sizeof(struct slot) > at ? p->limit - sizeof(struct slot) : at;
    }
}

/* Encode into the open batch if there is room; p->mu held. This is the path per record. */
static inline __attribute__((always_inline)) size_t partition_put_locked(struct partition *p,
                                                                         const struct append *append,
                                                                         bool slots)
{
    int64_t since = append->timestamp_ms - p->base_timestamp;
    size_t body = record_body_size(since, p->count, append->key, append->value,
                                   append->header_count, append->headers_size);
    size_t need = record_size(body);
    if (__builtin_expect(need > (size_t)(p->end - p->at), 0))
        return 0;
    __builtin_prefetch(p->at + 1024, 1); /* blocks come back cold when the broker is the slower one */
    __builtin_prefetch(p->at + 1088, 1);
    uint8_t *at =
        record_put(p->at, body, since, p->count, append->key, append->value, append->header_count);
    append_note_locked(p, append, append_put_headers(at, append), slots);
    return need;
}

/*
 * A value that the application has written into a block of its own, at or behind PLACED_VALUE_AT +
 * the size of the key. The block becomes part of the open batch, with the rest of the record written
 * around the value; a value below a share of the block is copied instead, if the open batch has room, since
 * a block for each would waste memory.
 */
enum {
    PLACED_VALUE_AT = (PRODUCER_BATCH_HEAD + RECORD_OVERHEAD_MAX + 15) / 16 * 16,
    PLACED_SHARE = 4
};
/* Capacity of a block for this record, whose value.size is the most it may become. */
size_t placed_capacity(const struct accumulator *a, const struct append *append);
/* Is there room around the value for this key and these headers? */
bool placed_fits(const struct accumulator *a, const struct block *block, const uint8_t *value,
                 const struct append *append);
/*
 * p->mu held; append->value lies in *block, which fits. *block is NULL afterwards if it was taken.
 * Returns CAFKA_OK or CAFKA_ERR_CLOSED.
 */
int partition_place_locked(struct accumulator *a, struct partition *p, struct block **block,
                           const struct append *append, size_t limit,
                           struct append_outcome *outcome);

/* Bytes in the open batch, header included; p->mu held. 0: none is open. */
size_t partition_open_bytes_locked(const struct partition *p);

/* Close the open batch and return it, for accumulator_seal() without the lock; p->mu held. NULL: none. */
struct producer_batch *partition_close_locked(struct accumulator *a, struct partition *p);

/*
 * Compress and sum up a batch that this thread closed, or have that done (compressors.h). No lock
 * held. The batch stays where it is queued, and is not touched by the caller until it is sealed.
 */
void accumulator_seal(struct accumulator *a, struct producer_batch *batch);
void accumulator_seal_now(struct accumulator *a, struct producer_batch *batch, bool compress);
struct sealer *accumulator_sealer_get(struct accumulator *a); /* NULL: plain, or no memory */
void accumulator_sealer_put(struct accumulator *a, struct sealer *sealer); /* NULL too */

/* Put the partition into the hand-over list, unless it is there already. Any thread. */
void accumulator_hand_over(struct accumulator *a, struct partition *p);
/* Loop: the partitions handed over since; each leaves the list by partition_received(). */
struct mpsc_item *accumulator_take_handed(struct accumulator *a);
/* Loop: step to the next item, then call this, then look at the partition: news after it are handed over again. */
void partition_received(struct partition *p);

/*
 * Loop: what is there. Moves batches that appenders closed to the queue and tells of the open one.
 */
struct partition_state {
    size_t open_bytes; /* 0: no open batch */
    bool full;         /* it may leave */
    int64_t open_created_ms;
};
void partition_collect(struct partition *p, struct partition_state *out);
/* Loop: close and seal the open batch and put it at the end of the queue. False: none was open. */
bool partition_take_open(struct accumulator *a, struct partition *p);

#endif
