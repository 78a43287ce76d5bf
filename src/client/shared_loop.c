/*
 * shared_loop.c - see shared_loop.h and <cafka/loop.h>.
 */
#include "client/shared_loop.h"

#include <pthread.h>
#include <stdatomic.h>

#include "util/alloc.h"

struct cafka_loop {
    struct loop *loop;
    unsigned fork_generation;
    atomic_flag running;        /* external mode: a thread is inside shared_loop_turn() */
    _Atomic(const void *) mine; /* external mode: the mark of the thread that ran it last */
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

/* --- the loop --- */

struct loop *shared_loop_net(const cafka_loop *shared)
{
    return shared->loop;
}

bool shared_loop_is_mine(const cafka_loop *shared)
{
    const void *mine = atomic_load(&shared->mine);
    return loop_mode(shared->loop) == LOOP_EXTERNAL && (!mine || mine == &depth);
}

int shared_loop_turn(cafka_loop *shared, int64_t max_ms, cafka_error *err)
{
    if (atomic_flag_test_and_set(&shared->running))
        return error_set(err, CAFKA_ERR_CONCURRENT, "another thread runs this loop now");
    atomic_store(&shared->mine, &depth);
    int rc = loop_run(shared->loop, max_ms, err);
    atomic_flag_clear(&shared->running);
    return rc;
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
    atomic_flag_clear(&shared->running);
    int rc = loop_new(&shared->loop, env,
                      mode == CAFKA_LOOP_EXTERNAL ? LOOP_EXTERNAL : LOOP_BACKGROUND, err);
    if (rc) {
        mem_free(shared);
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
    if (loop->fork_generation == fork_generation()) /* the thread and its poller are the parent's */
        loop_unref(loop->loop);
    mem_free(loop);
}

int cafka_loop_fd(cafka_loop *loop)
{
    return loop ? loop_fd(loop->loop) : -1;
}

int64_t cafka_loop_timeout_ms(cafka_loop *loop)
{
    return loop ? loop_timeout_ms(loop->loop) : -1;
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
    return shared_loop_turn(loop, max_ms, err);
}
