/*
 * lookup.c - see lookup.h. The answer and the cancellation may meet on two threads: whoever comes
 * second finds what the first has left, under the lookup's lock.
 */
#include "conn/lookup.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "util/alloc.h"

struct lookup {
    struct loop_task task; /* first: posted with the answer */
    pthread_mutex_t mu;    /* guards: cancelled */
    bool cancelled;
    struct loop *loop;
    lookup_done_fn *done;
    void *owner;
    int failure; /* minus errno */
    size_t count;
    cafka_address addresses[LOOKUP_MAX];
    char host[];
};

static void lookup_free(struct lookup *lookup)
{
    pthread_mutex_destroy(&lookup->mu);
    mem_free(lookup);
}

static bool is_cancelled(struct lookup *lookup)
{
    pthread_mutex_lock(&lookup->mu);
    bool cancelled = lookup->cancelled;
    pthread_mutex_unlock(&lookup->mu);
    return cancelled;
}

/* What an env's resolver says in numbers of errno, in words of its own. */
static void explain(const struct lookup *lookup, cafka_error *err)
{
    if (lookup->failure == -ENOENT)
        error_set(err, CAFKA_ERR_RESOLVE, "no host is called %s: its name cannot be resolved here",
                  lookup->host);
    else if (lookup->failure == -EAGAIN)
        error_set(err, CAFKA_ERR_RESOLVE,
                  "resolving the host name %s: the name server does not answer", lookup->host);
    else if (lookup->failure)
        error_errno(err, CAFKA_ERR_RESOLVE, -lookup->failure, "resolving the host name %s",
                    lookup->host);
    else if (!lookup->count)
        error_set(err, CAFKA_ERR_RESOLVE, "the host name %s has no address", lookup->host);
}

static void report(struct loop_task *task)
{
    struct lookup *lookup = (struct lookup *)task;
    if (!is_cancelled(lookup)) {
        cafka_error err = {0};
        explain(lookup, &err);
        lookup->done(lookup->owner, err.code ? &err : NULL, lookup->addresses, lookup->count);
    }
    lookup_free(lookup);
}

/* On a thread of the env's choice, perhaps the loop's own inside lookup_start(). */
static void resolved(void *user, int error, const cafka_address *addresses, size_t count)
{
    struct lookup *lookup = user;
    lookup->failure = error;
    lookup->count = error ? 0 : count < LOOKUP_MAX ? count : LOOKUP_MAX;
    if (lookup->count)
        memcpy(lookup->addresses, addresses, lookup->count * sizeof *addresses);

    /* The loop lives as long as the lookup is not cancelled, so the post is made under the lock. */
    pthread_mutex_lock(&lookup->mu);
    bool cancelled = lookup->cancelled;
    if (!cancelled)
        loop_post(lookup->loop, &lookup->task);
    pthread_mutex_unlock(&lookup->mu);
    if (cancelled)
        lookup_free(lookup);
}

int lookup_start(struct lookup **out, struct loop *loop, const char *host, uint16_t port,
                 lookup_done_fn *done, void *owner, cafka_error *err)
{
    size_t length = strlen(host);
    struct lookup *lookup = mem_zalloc(sizeof *lookup + length + 1);
    if (!lookup)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to resolve %s", host);
    if (pthread_mutex_init(&lookup->mu, NULL)) {
        mem_free(lookup);
        return error_set(err, CAFKA_ERR_SYSTEM, "no lock to resolve %s", host);
    }
    memcpy(lookup->host, host, length + 1);
    lookup->task.run = report;
    lookup->loop = loop;
    lookup->done = done;
    lookup->owner = owner;
    *out = lookup;
    const cafka_env *env = loop_env(loop);
    env->resolve(env, lookup->host, port, resolved, lookup);
    return CAFKA_OK;
}

void lookup_cancel(struct lookup *lookup)
{
    if (!lookup)
        return;
    pthread_mutex_lock(&lookup->mu);
    lookup->cancelled = true;
    pthread_mutex_unlock(&lookup->mu);
}
