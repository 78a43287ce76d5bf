/*
 * aborted.c - see aborted.h. Few transactions overlap one answer, so the active ones are a plain array.
 */
#include "consumer/aborted.h"

#include <stdlib.h>

#include "util/alloc.h"

void aborted_fini(struct aborted_filter *filter)
{
    mem_free(filter->pending);
    mem_free(filter->active);
    *filter = (struct aborted_filter){0};
}

void aborted_reset(struct aborted_filter *filter)
{
    filter->pending_count = filter->pending_at = filter->active_count = 0;
}

static int out_of_memory(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_MEMORY, "no memory for the list of aborted transactions");
}

int aborted_add(struct aborted_filter *filter, int64_t producer_id, int64_t first_offset,
                cafka_error *err)
{
    if (filter->pending_count == filter->pending_capacity) {
        size_t capacity = filter->pending_capacity ? filter->pending_capacity * 2 : 16;
        void *grown = mem_recalloc(filter->pending, capacity, sizeof *filter->pending);
        if (!grown)
            return out_of_memory(err);
        filter->pending = grown;
        filter->pending_capacity = capacity;
    }
    filter->pending[filter->pending_count++] =
        (struct aborted_transaction){producer_id, first_offset};
    return CAFKA_OK;
}

static int by_first_offset(const void *a, const void *b)
{
    const struct aborted_transaction *x = a, *y = b;
    return (x->first_offset > y->first_offset) - (x->first_offset < y->first_offset);
}

void aborted_sort(struct aborted_filter *filter)
{
    if (filter->pending_count > 1)
        qsort(filter->pending, filter->pending_count, sizeof *filter->pending, by_first_offset);
}

static size_t find_active(const struct aborted_filter *filter, int64_t producer_id)
{
    size_t i = 0;
    while (i < filter->active_count && filter->active[i] != producer_id)
        i++;
    return i;
}

static int activate(struct aborted_filter *filter, int64_t producer_id, cafka_error *err)
{
    if (find_active(filter, producer_id) < filter->active_count)
        return CAFKA_OK;
    if (filter->active_count == filter->active_capacity) {
        size_t capacity = filter->active_capacity ? filter->active_capacity * 2 : 16;
        void *grown = mem_recalloc(filter->active, capacity, sizeof *filter->active);
        if (!grown)
            return out_of_memory(err);
        filter->active = grown;
        filter->active_capacity = capacity;
    }
    filter->active[filter->active_count++] = producer_id;
    return CAFKA_OK;
}

int aborted_drops(struct aborted_filter *filter, const struct batch_header *h, bool abort_marker,
                  bool *drop, cafka_error *err)
{
    int64_t last_offset = batch_last_offset(h);
    for (; filter->pending_at < filter->pending_count &&
           filter->pending[filter->pending_at].first_offset <= last_offset;
         filter->pending_at++)
        if (activate(filter, filter->pending[filter->pending_at].producer_id, err))
            return CAFKA_ERR_MEMORY;
    size_t at = find_active(filter, h->producer_id);
    bool active = at < filter->active_count;
    if (abort_marker && active)
        filter->active[at] = filter->active[--filter->active_count];
    *drop = batch_is_control(h) || (batch_is_transactional(h) && active);
    return CAFKA_OK;
}
