/*
 * reader.h - the application's side of a consumer: from queued chunks to records, one by one.
 *
 * The reader has one cursor: a chunk, in it a batch, in that a record. A cafka_fetch is a right to
 * move this cursor by at most max.poll.records, and a list of the memory that the records handed
 * out by it lie in. So what a fetch does not hand out simply stays under the cursor for the next.
 *
 * Owner:   the consumer, and every fetch, by reference count: a fetch may outlive the consumer.
 * Thread:  the application's, one at a time; freeing a fetch on any.
 * Reading: reader_ready(), then cafka_fetch_next() in reader_fetch.c and reader_open_batch().
 */
#ifndef CAFKA_CONSUMER_READER_H
#define CAFKA_CONSUMER_READER_H

#include <cafka/consumer.h>

#include "consumer/fetch_queue.h"
#include "consumer/reader_hooks.h"
#include "record/open.h"

struct reader_events {
    /* The partition's data can't be read at its position: fetch it again after a while. */
    void (*failed)(void *owner, struct consumer_partition *p);
    /* Where it is read does not hold any more: go on there (an offset, CAFKA_OFFSET_… or START_BY_POLICY). */
    void (*reset)(void *owner, struct consumer_partition *p, int64_t start, int32_t epoch);
    /* All records of an answer for the partition were handed out, of so many bytes. */
    void (*read)(void *owner, struct consumer_partition *p, size_t bytes);
    /* Room was made among the queued data. */
    void (*made_room)(void *owner);
};

struct fetch_reader {
    atomic_uint refs;
    struct fetch_queue queue;
    struct fetch_budget *budget;
    struct decompressor *decompressor;     /* made when it is first needed */
    uint64_t taken_ahead, inflated_itself; /* compressed batches, by who inflated them */
    size_t inflate_limit;
    struct reader_events events;
    void *owner;             /* NULL: the consumer is gone */
    atomic_llong handed_out; /* records of fetches that were freed */
    uint64_t poll;           /* number of the newest poll: older fetches have ended */
    bool moved; /* a position has moved without a record: set here, cleared by who wants to know */

    struct reader_hooks hooks;

    /* the cursor */
    uint64_t moves;       /* counts how often it came to another chunk, or none */
    cafka_fetch *current; /* the fetch that holds the memory of the batch being read; NULL: none yet */
    cafka_fetch *plain; /* the same, if nothing is to be done about a record but to hand it out */
    struct chunk *chunk;
    bool in_batch;
    struct batch_header batch;
    struct record_iter records;
    struct fetch_memory *inflated; /* the batch's records, if it was compressed; a reference */
    cafka_record_view common;      /* what its records have in common, once `current` is set */

    struct mpsc free_fetches; /* any thread gives, the application takes */
    struct mpsc_item *spare_fetches;
};

int reader_new(struct fetch_reader **out, const cafka_env *env, struct fetch_budget *budget,
               size_t inflate_limit, const struct reader_events *events, void *owner,
               cafka_error *err);
/* The consumer is going: drop what is queued, end the fetches. Then reader_unref(). */
void reader_detach(struct fetch_reader *reader);
void reader_unref(struct fetch_reader *reader); /* takes NULL */

/* Move the cursor to the next batch or error that is worth handing out. False: there is none now. */
bool reader_ready(struct fetch_reader *reader);
/* Take in positions and the like that the loop found. */
void reader_take_news(struct fetch_reader *reader);
/* A new poll: earlier fetches hand out nothing more. */
void reader_begin_poll(struct fetch_reader *reader);
/* A fetch for at most max_records. */
int reader_begin_fetch(struct fetch_reader *reader, int32_t max_records, cafka_fetch **out,
                       cafka_error *err);

/* The partition was sought, dropped or paused: let the cursor go if it is there. */
void reader_leave(struct fetch_reader *reader, struct consumer_partition *p);
/* It goes on after a pause: what was put aside comes first. */
void reader_resume(struct fetch_reader *reader, struct consumer_partition *p);
/* Forget what was put aside. */
void reader_drop_aside(struct fetch_reader *reader, struct consumer_partition *p);

/* --- for reader_fetch.c --- */

/*
 * Go to the next batch to hand out, in the chunk under the cursor. CAFKA_OK: records can be read.
 * CAFKA_END: the chunk is used up, and let go. Else the partition's error.
 */
int reader_open_batch(struct fetch_reader *reader, cafka_error *err);
/* All records of the batch are handed out: go behind it. */
void reader_finish_batch(struct fetch_reader *reader);
/* Let go of the chunk under the cursor. */
void reader_end_chunk(struct fetch_reader *reader);
/* The partition under the cursor can't be read on: it is fetched again after a while. Returns code. */
int reader_fail(struct fetch_reader *reader, int code, const char *what, cafka_error *err);
/* How many records wait, counted up to `enough`; an upper bound (see cafka_fetch_count()). */
size_t reader_count(struct fetch_reader *reader, size_t enough);
/* Fetches that are kept for reuse. */
void reader_free_fetches(struct fetch_reader *reader);

#endif
