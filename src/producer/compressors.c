/*
 * compressors.c - see compressors.h.
 */
#include "producer/compressors.h"

#include "producer/room.h"
#include "util/alloc.h"

/* The loop may finish the batch as soon as it is sealed; from there on it is not touched. */
static void compress(struct loop_task *task)
{
    struct producer_batch *batch = container_of(task, struct producer_batch, seal_task);
    struct partition *p = batch->partition;
    cafka_producer *producer = p->topic->producer;
    struct accumulator *a = &producer->accumulator;
    accumulator_seal_now(a, batch, !atomic_load(&producer->compressors.hurry));
    accumulator_hand_over(a, p);
    sender_wake(&producer->sender, 0);
}

static void give_to_worker(struct accumulator *a, struct producer_batch *batch)
{
    struct compressors *c = &container_of(a, cafka_producer, accumulator)->compressors;
    unsigned turn = atomic_fetch_add_explicit(&c->turn, 1, memory_order_relaxed);
    batch->seal_task.run = compress;
    loop_post(c->workers[turn % c->count], &batch->seal_task);
}

int compressors_init(struct compressors *c, struct accumulator *a, int threads, cafka_error *err)
{
    if (a->codec == CODEC_NONE || !threads)
        return CAFKA_OK;
    c->workers = mem_calloc((size_t)threads, sizeof *c->workers);
    if (!c->workers)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for compression.threads");
    int rc = CAFKA_OK;
    while (!rc && c->count < (unsigned)threads) {
        rc = loop_new(&c->workers[c->count], a->env, LOOP_BACKGROUND, err);
        c->count += !rc;
    }
    if (rc)
        compressors_fini(c);
    else
        a->seal_elsewhere = give_to_worker;
    return rc;
}

void compressors_hurry(struct compressors *c)
{
    atomic_store(&c->hurry, true);
}

void compressors_fini(struct compressors *c)
{
    while (c->count)
        loop_unref(c->workers[--c->count]); /* runs what it has, then ends */
    mem_free(c->workers);
    c->workers = NULL;
}
