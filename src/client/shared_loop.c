/*
 * shared_loop.c - see shared_loop.h and <cafka/loop.h>.
 */
#include "client/shared_loop.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "util/alloc.h"
#include "util/list.h"

struct cafka_loop {
    struct loop *loop;
    unsigned fork_generation;

    /* external mode */
    pthread_mutex_t mu;          /* guards running, and looking at the loop while it does not run */
    bool running;                /* a thread is in a turn */
    _Atomic(const void *) owner; /* the mark of the thread it belongs to; NULL: of none */
    atomic_int waiting;          /* threads that would run it, if they were let */
    int idle_event;              /* nobody runs it or owns it: one of them may; -1: none made */
    struct list link;            /* in `external_loops` */
};

/* --- fork, and this thread --- */

atomic_uint client_fork_generation;
static pthread_once_t atfork_once = PTHREAD_ONCE_INIT;

static void count_child(void)
{
    atomic_fetch_add(&client_fork_generation, 1);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_child); /* without memory for it forks go unnoticed */
}

unsigned fork_generation(void)
{
    pthread_once(&atfork_once, watch_forks);
    return atomic_load_explicit(&client_fork_generation, memory_order_relaxed);
}

static _Thread_local unsigned depth; /* its address is also the thread's mark */

unsigned *callback_depth(void)
{
    return &depth;
}

/* --- whose an external loop is, and the end of that thread --- */

static pthread_mutex_t external_mu = PTHREAD_MUTEX_INITIALIZER; /* guards external_loops; a leaf */
static struct list external_loops = {&external_loops, &external_loops};
static pthread_once_t thread_ends_once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_ends;
static bool thread_ends_made;
static _Thread_local unsigned owns_as_of_fork;

/* Those who wait may run the loop now: one is woken, and it wakes the next when it goes. */
static void offer(cafka_loop *shared)
{
    if (atomic_load(&shared->waiting) && !atomic_load(&shared->owner)) {
        const cafka_env *env = loop_env(shared->loop);
        env->event_signal(env, shared->idle_event);
    }
}

static void give_up_loops(void *mark)
{
    struct list *link, *after;
    if (owns_as_of_fork != fork_generation())
        return; /* a child: its loops are the parent's, and the lock may be held for ever */
    pthread_mutex_lock(&external_mu);
    list_each(link, after, &external_loops)
    {
        cafka_loop *shared = list_item(link, cafka_loop, link);
        const void *owner = mark;
        if (atomic_compare_exchange_strong(&shared->owner, &owner, NULL))
            offer(shared);
    }
    pthread_mutex_unlock(&external_mu);
}

static void make_thread_ends(void)
{
    thread_ends_made = !pthread_key_create(&thread_ends, give_up_loops);
}

/* The library may be unloaded before the threads that it knows end. */
__attribute__((destructor)) static void forget_thread_ends(void)
{
    if (thread_ends_made)
        (void)pthread_key_delete(thread_ends);
}

static void own(cafka_loop *shared)
{
    if (atomic_load(&shared->owner) == &depth)
        return;
    owns_as_of_fork = fork_generation();
    pthread_once(&thread_ends_once, make_thread_ends);
    if (thread_ends_made && !pthread_setspecific(thread_ends, &depth))
        atomic_store(&shared->owner, &depth); /* else its end would not be noticed */
}

static bool may_run(const cafka_loop *shared)
{
    const void *owner = atomic_load(&shared->owner);
    return !owner || owner == &depth;
}

/* --- the loop --- */

struct loop *shared_loop_net(const cafka_loop *shared)
{
    return shared->loop;
}

static int turn(cafka_loop *shared, int64_t max_ms, cafka_error *err)
{
    pthread_mutex_lock(&shared->mu);
    bool taken = shared->running;
    shared->running = true;
    pthread_mutex_unlock(&shared->mu);
    if (taken)
        return error_set(err, CAFKA_ERR_CONCURRENT, "another thread runs this loop now");
    int rc = loop_run(shared->loop, max_ms, err);
    pthread_mutex_lock(&shared->mu);
    shared->running = false;
    pthread_mutex_unlock(&shared->mu);
    return rc;
}

/* Milliseconds to run the loop for, at most; rounded up, so that it does not spin at the end. */
static int64_t turn_ms(int64_t now, int64_t deadline)
{
    return deadline == CAFKA_NEVER ? -1 : (deadline - now + NS_PER_MS - 1) / NS_PER_MS;
}

/* By turns, until the event is there. CAFKA_ERR_CONCURRENT: the loop is another thread's now. */
static int run_until(cafka_loop *shared, int event, int64_t deadline, cafka_error *err)
{
    const cafka_env *env = loop_env(shared->loop);
    while (may_run(shared)) {
        if (env->event_clear(env, event))
            return CAFKA_OK;
        int64_t now = env->now(env);
        if (now >= deadline)
            return error_set(err, CAFKA_ERR_TIMEOUT, "the time for this call is over");
        int rc = turn(shared, turn_ms(now, deadline), err);
        if (rc)
            return rc;
    }
    return CAFKA_ERR_CONCURRENT;
}

int shared_loop_wait(cafka_loop *shared, int event, int64_t deadline, cafka_error *err)
{
    const cafka_env *env = loop_env(shared->loop);
    int rc;
    atomic_fetch_add(&shared->waiting, 1);
    while ((rc = run_until(shared, event, deadline, NULL)) == CAFKA_ERR_CONCURRENT) {
        int which = env_wait_either(env, event, shared->idle_event, deadline);
        if (which != 2) {
            rc = which ? CAFKA_OK : CAFKA_ERR_TIMEOUT;
            break;
        }
    }
    atomic_fetch_sub(&shared->waiting, 1);
    offer(shared); /* perhaps the offer came to us */
    if (rc == CAFKA_ERR_TIMEOUT)
        return error_set(err, rc, "the time for this call is over");
    if (rc)
        return error_set(err, rc, "the loop could not be run while this call waited for it");
    return CAFKA_OK;
}

static void keep_in_list(cafka_loop *shared)
{
    pthread_mutex_lock(&external_mu);
    list_push_back(&external_loops, &shared->link);
    pthread_mutex_unlock(&external_mu);
}

static int open_external(cafka_loop *shared, const cafka_env *env, cafka_error *err)
{
    shared->idle_event = env->event_open(env);
    if (shared->idle_event < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -shared->idle_event,
                           "making an event for threads that wait for a loop");
    keep_in_list(shared);
    return CAFKA_OK;
}

static void free_shared(cafka_loop *shared)
{
    pthread_mutex_lock(&external_mu);
    list_remove(&shared->link);
    pthread_mutex_unlock(&external_mu);
    if (shared->idle_event >= 0) {
        const cafka_env *env = loop_env(shared->loop);
        env->event_close(env, shared->idle_event);
    }
    loop_unref(shared->loop);
    pthread_mutex_destroy(&shared->mu);
    mem_free(shared);
}

int cafka_loop_new_in(cafka_loop **out, const cafka_env *env, unsigned mode, cafka_error *err)
{
    error_clear(err);
    if (!out || !env || (mode != CAFKA_LOOP_BACKGROUND && mode != CAFKA_LOOP_EXTERNAL))
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "a loop needs a place, a world, and a mode that exists");
    cafka_loop *shared = mem_zalloc(sizeof *shared);
    if (!shared)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a loop");
    shared->fork_generation = fork_generation();
    shared->idle_event = -1;
    pthread_mutex_init(&shared->mu, NULL); /* never fails with default attributes */
    int rc = loop_new(&shared->loop, env,
                      mode == CAFKA_LOOP_EXTERNAL ? LOOP_EXTERNAL : LOOP_BACKGROUND, err);
    if (!rc && mode == CAFKA_LOOP_EXTERNAL)
        rc = open_external(shared, env, err);
    if (rc) {
        free_shared(shared);
        return rc;
    }
    *out = shared;
    return CAFKA_OK;
}

int cafka_loop_new(cafka_loop **out, unsigned mode, cafka_error *err)
{
    return cafka_loop_new_in(out, cafka_env_real(), mode, err);
}

void cafka_loop_free(cafka_loop *loop)
{
    if (!loop)
        return;
    if (loop->fork_generation == fork_generation()) {
        free_shared(loop);
        return;
    }
    /* What the parent's threads were changing is not touched: the descriptors go, the memory stays. */
    const cafka_env *env = loop_env(loop->loop);
    if (loop->idle_event >= 0)
        env->event_close(env, loop->idle_event);
    loop_abandon(loop->loop);
}

int cafka_loop_fd(cafka_loop *loop)
{
    return loop ? loop_fd(loop->loop) : -1;
}

int64_t cafka_loop_timeout_ms(cafka_loop *loop)
{
    enum {
        LOOK_AGAIN_MS = 10
    }; /* another thread runs it now: what will be due when it has is not known */
    if (!loop)
        return -1;
    if (loop_mode(loop->loop) != LOOP_EXTERNAL || loop->fork_generation != fork_generation())
        return -1; /* its own thread, or the parent process, sees to it */
    pthread_mutex_lock(&loop->mu);
    int64_t ms = loop->running ? LOOK_AGAIN_MS : loop_timeout_ms(loop->loop);
    pthread_mutex_unlock(&loop->mu);
    return ms;
}

int cafka_loop_run(cafka_loop *loop, int64_t max_ms, cafka_error *err)
{
    error_clear(err);
    if (!loop || max_ms < -1)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a loop is needed, and a time that is -1 or more");
    if (loop_mode(loop->loop) != LOOP_EXTERNAL)
        return error_set(err, CAFKA_ERR_STATE, "this loop has a thread of its own that runs it");
    if (loop->fork_generation != fork_generation())
        return error_set(err, CAFKA_ERR_FORKED, "the loop belongs to the parent process");
    if (depth || loop_is_current(loop->loop))
        return error_set(err, CAFKA_ERR_IN_CALLBACK, "a loop cannot be run inside a callback");
    own(loop);
    int rc = turn(loop, max_ms, err);
    if (rc == CAFKA_ERR_CONCURRENT)
        loop_wake(loop->loop); /* a thread that ran it while it waited makes way */
    return rc;
}
