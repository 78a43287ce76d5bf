/*
 * purge.c - dropping records that the application does not want sent any more.
 */
#include "producer/room.h"
#include "util/alloc.h"

struct purge_call {
    struct loop_task task; /* for who cannot wait */
    cafka_producer *producer;
    unsigned what;
};

static void purge(void *arg)
{
    const struct purge_call *call = arg;
    struct sender *sender = &call->producer->sender;
    cafka_error why = {0};
    error_set(&why, CAFKA_ERR_PURGED,
              "the application has purged the record before it was delivered");
    if (!sender->stopped)
        sender_purge_now(sender, call->what, &why);
}

static void purge_later(struct loop_task *task)
{
    struct purge_call *call = container_of(task, struct purge_call, task);
    purge(call);
    mem_free(call);
}

/* Inside a callback, on whatever thread: when that has returned. */
static int post(cafka_producer *producer, unsigned what, cafka_error *err)
{
    struct purge_call *call = mem_zalloc(sizeof *call);
    if (!call)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to purge records");
    *call = (struct purge_call){{.run = purge_later}, producer, what};
    loop_post(producer->client.loop, &call->task);
    return CAFKA_OK;
}

int cafka_producer_purge(cafka_producer *producer, unsigned what, cafka_error *err)
{
    const unsigned known = CAFKA_PURGE_QUEUED | CAFKA_PURGE_IN_FLIGHT;
    error_clear(err);
    if (!producer || !what || (what & ~known))
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "purging needs a producer, and CAFKA_PURGE_QUEUED, _IN_FLIGHT or both");
    int rc = client_not_forked(&producer->client, err);
    if (rc || atomic_load(&producer->sender.close_over))
        return rc; /* nothing is left */
    if (client_may_wait(&producer->client, NULL))
        return post(producer, what, err);
    struct purge_call call = {.producer = producer, .what = what};
    rc = client_run(&producer->client, purge, &call, err);
    if (rc != CAFKA_ERR_CLOSED)
        return rc;
    error_clear(err); /* closed meanwhile: nothing is left */
    return CAFKA_OK;
}
