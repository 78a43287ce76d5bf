/*
 * inflight.c - see inflight.h.
 */
#include "conn/inflight.h"

#include <assert.h>

#include "conn/internal.h"
#include "util/alloc.h"

enum { KEEP_BYTES = 64 << 10 }; /* of a slot's buffer, from one request to the next */

int inflight_init(struct inflight *f, struct conn *conn, int capacity, cafka_error *err)
{
    f->slots = mem_calloc((size_t)capacity, sizeof *f->slots);
    if (!f->slots)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %d requests in flight", capacity);
    f->capacity = capacity;
    for (int i = 0; i < capacity; i++)
        f->slots[i].conn = conn;
    return CAFKA_OK;
}

void inflight_fini(struct inflight *f)
{
    for (int i = 0; i < f->capacity; i++)
        encoded_fini(&f->slots[i].encoded);
    mem_free(f->slots);
    *f = (struct inflight){0};
}

static struct slot *slot_at(const struct inflight *f, int position)
{
    return &f->slots[(f->oldest + position) % f->capacity];
}

struct slot *inflight_free_slot(struct inflight *f)
{
    return f->count < f->capacity ? slot_at(f, f->count) : NULL;
}

void inflight_push(struct inflight *f, struct slot *slot)
{
    assert(slot == inflight_free_slot(f));
    slot->finished = false;
    slot->request->slot = (int32_t)(slot - f->slots);
    slot->request->conn = slot->conn;
    f->count++;
}

struct slot *inflight_oldest(struct inflight *f)
{
    for (int i = 0; i < f->count; i++)
        if (!slot_at(f, i)->finished)
            return slot_at(f, i);
    return NULL;
}

struct slot *inflight_awaited(struct inflight *f)
{
    for (int i = 0; i < f->count; i++)
        if (!slot_at(f, i)->finished && !slot_at(f, i)->no_response)
            return slot_at(f, i);
    return NULL;
}

struct slot *inflight_written(struct inflight *f)
{
    for (int i = 0; i < f->count; i++)
        if (!slot_at(f, i)->finished && slot_at(f, i)->no_response && slot_at(f, i)->written)
            return slot_at(f, i);
    return NULL;
}

/* Memory of a large request is not kept for the small ones that follow. */
static void recycle(struct slot *slot)
{
    if (slot->encoded.bytes.capacity > KEEP_BYTES)
        encoded_fini(&slot->encoded);
    else
        encoded_clear(&slot->encoded);
}

struct request *inflight_finish(struct inflight *f, struct slot *slot)
{
    assert(!slot->finished);
    struct request *request = slot->request;
    slot->finished = true;
    slot->request = NULL;
    conn_meters_done(slot->conn->meters);
    if (request)
        request->conn = NULL;
    while (f->count && slot_at(f, 0)->finished) {
        recycle(slot_at(f, 0));
        f->oldest = (f->oldest + 1) % f->capacity;
        f->count--;
    }
    return request;
}

int64_t inflight_next_deadline_ms(const struct inflight *f)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < f->count; i++)
        if (!slot_at(f, i)->finished && slot_at(f, i)->deadline_ms < next)
            next = slot_at(f, i)->deadline_ms;
    return next;
}

void inflight_put_off(struct inflight *f, int64_t ms)
{
    for (int i = 0; i < f->count; i++)
        slot_at(f, i)->deadline_ms += ms;
}
