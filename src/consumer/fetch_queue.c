/*
 * fetch_queue.c - see fetch_queue.h.
 */
#include "consumer/fetch_queue.h"

#include <errno.h>

#include "consumer/fetch_ahead.h"
#include "util/alloc.h"

enum { CHUNKS_KEPT = 256 }; /* for further use; a burst of positions, say, is not kept for ever */

int fetch_queue_init(struct fetch_queue *queue, const cafka_env *env, cafka_error *err)
{
    *queue = (struct fetch_queue){.env = env};
    queue->event = env->event_open(env);
    if (queue->event < 0)
        return error_errno(err, queue->event == -ENOMEM ? CAFKA_ERR_MEMORY : CAFKA_ERR_SYSTEM,
                           -queue->event, "no event for a consumer");
    return CAFKA_OK;
}

static void free_all(struct mpsc_item *item)
{
    while (item) {
        struct chunk *chunk = container_of(item, struct chunk, link);
        item = item->next;
        mem_free(chunk);
    }
}

void fetch_queue_fini(struct fetch_queue *queue)
{
    if (!queue->env)
        return;
    fetch_queue_take(queue);
    struct chunk *chunk;
    while ((chunk = fetch_queue_pop(queue)))
        fetch_queue_recycle(queue, chunk);
    free_all(mpsc_take_all(&queue->returned));
    free_all(queue->spare);
    if (queue->event >= 0)
        queue->env->event_close(queue->env, queue->event);
    *queue = (struct fetch_queue){0};
}

struct chunk *fetch_queue_new_chunk(struct fetch_queue *queue, enum chunk_kind kind,
                                    struct consumer_partition *partition)
{
    if (!queue->spare) {
        queue->spare = mpsc_take_all(&queue->returned);
        atomic_store_explicit(&queue->returned_count, 0, memory_order_relaxed);
    }
    struct chunk *chunk;
    if (queue->spare) {
        chunk = container_of(queue->spare, struct chunk, link);
        queue->spare = chunk->link.next;
    } else {
        chunk = mem_alloc(sizeof *chunk);
        if (!chunk)
            return NULL;
    }
    chunk->kind = kind;
    chunk->partition = consumer_partition_ref(partition);
    chunk->generation = partition->loop.generation;
    chunk->memory = NULL;
    chunk->ahead = NULL;
    chunk->batches = (struct bytes){NULL, 0};
    chunk->charged = 0;
    chunk->next = NULL;
    chunk->error = NULL;
    return chunk;
}

struct chunk *fetch_queue_new_error(struct fetch_queue *queue, struct consumer_partition *partition,
                                    const cafka_error *error)
{
    cafka_error *copy = mem_alloc(sizeof *copy);
    struct chunk *chunk = copy ? fetch_queue_new_chunk(queue, CHUNK_ERROR, partition) : NULL;
    if (!chunk) {
        mem_free(copy);
        return NULL;
    }
    *copy = *error;
    chunk->error = copy;
    return chunk;
}

void fetch_queue_push(struct fetch_queue *queue, struct chunk *chunk)
{
    if (chunk->charged)
        atomic_fetch_add(&chunk->partition->buffered_bytes, (long long)chunk->charged);
    mpsc_push(&queue->incoming, &chunk->link);
    fetch_queue_wake(queue);
}

void fetch_queue_wake(struct fetch_queue *queue)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (queue->news)
        queue->news(queue->signal_user);
    if (!atomic_load(&queue->waiting) || !atomic_exchange(&queue->waiting, false))
        return;
    if (queue->signal)
        queue->signal(queue->signal_user);
    else
        queue->env->event_signal(queue->env, queue->event);
}

bool fetch_queue_came_in(const struct fetch_queue *queue)
{
    atomic_thread_fence(memory_order_seq_cst); /* with the one in fetch_queue_wake() */
    return !mpsc_empty(&queue->incoming);
}

bool fetch_queue_take(struct fetch_queue *queue)
{
    if (mpsc_empty(&queue->incoming))
        return false;
    struct mpsc_item *item = mpsc_take_all(&queue->incoming);
    while (item) {
        struct chunk *chunk = container_of(item, struct chunk, link);
        item = item->next;
        chunk->next = NULL;
        if (queue->last)
            queue->last->next = chunk;
        else
            queue->first = chunk;
        queue->last = chunk;
    }
    return true;
}

struct chunk *fetch_queue_pop(struct fetch_queue *queue)
{
    struct chunk *chunk = queue->first;
    if (!chunk)
        return NULL;
    queue->first = chunk->next;
    if (!queue->first)
        queue->last = NULL;
    chunk->next = NULL;
    return chunk;
}

void fetch_queue_push_front(struct fetch_queue *queue, struct chunk *first, struct chunk *last)
{
    if (!first)
        return;
    last->next = queue->first;
    queue->first = first;
    if (!queue->last)
        queue->last = last;
}

void fetch_queue_recycle(struct fetch_queue *queue, struct chunk *chunk)
{
    if (chunk->charged)
        atomic_fetch_sub(&chunk->partition->buffered_bytes, (long long)chunk->charged);
    fetch_memory_unref(chunk->memory);
    fetch_ahead_unref(chunk->ahead);
    consumer_partition_unref(chunk->partition);
    mem_free(chunk->error);
    if (atomic_fetch_add_explicit(&queue->returned_count, 1, memory_order_relaxed) < CHUNKS_KEPT)
        mpsc_push(&queue->returned, &chunk->link);
    else
        mem_free(chunk);
}

bool fetch_queue_start_waiting(struct fetch_queue *queue)
{
    atomic_store(&queue->waiting, true);
    if (!fetch_queue_came_in(queue))
        return true;
    fetch_queue_stop_waiting(queue);
    return false;
}

void fetch_queue_stop_waiting(struct fetch_queue *queue)
{
    atomic_store(&queue->waiting, false);
}
