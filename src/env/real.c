/*
 * real.c - the real world: clock, chance, and the table that names everything else (real.h).
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "env/real.h"

static int64_t real_now(const cafka_env *env)
{
    (void)env;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The coarse clock is a few ms behind at most and costs a fifth. */
#ifdef CLOCK_REALTIME_COARSE
#define WALL_CLOCK CLOCK_REALTIME_COARSE
#else
#define WALL_CLOCK CLOCK_REALTIME
#endif

static int64_t real_wall_ms(const cafka_env *env)
{
    (void)env;
    struct timespec t;
    clock_gettime(WALL_CLOCK, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

/* --- chance: the kernel's, taken in batches by each thread; a forked child takes its own --- */

static atomic_uint forks;
static pthread_once_t watch_forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

/* For a kernel without getrandom(): the clock, mixed (the finalizer of splitmix64). */
static void fill_from_clock(const cafka_env *env, uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t z =
            (uint64_t)real_now(env) + (uint64_t)(uintptr_t)words + i * UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
        words[i] = z ^ z >> 31;
    }
}

static uint64_t real_random(const cafka_env *env)
{
    enum { BATCH = 32 }; /* up to 256 bytes getrandom() gives whole, whatever signals come */
    static _Thread_local uint64_t words[BATCH];
    static _Thread_local unsigned left, as_of_fork;

    pthread_once(&watch_forks_once, watch_forks);
    unsigned fork = atomic_load_explicit(&forks, memory_order_relaxed);
    if (!left || fork != as_of_fork) {
        ssize_t got;
        do
            got = getrandom(words, sizeof words, 0);
        while (got < 0 && errno == EINTR);
        if (got != (ssize_t)sizeof words)
            fill_from_clock(env, words, BATCH);
        left = BATCH;
        as_of_fork = fork;
    }
    uint64_t word = words[--left];
    words[left] = 0; /* what was given out is not kept */
    return word;
}

static const cafka_env real_env = {
    .size = sizeof(cafka_env),
    .now = real_now,
    .wall_ms = real_wall_ms,
    .random = real_random,
    .dial = real_dial,
    .dial_result = real_dial_result,
    .listen = real_listen,
    .accept = real_accept,
    .recv = real_recv,
    .send = real_send,
    .send_file = real_send_file,
    .peer = real_peer,
    .reset = real_reset,
    .close = real_close,
    .poller_open = real_poller_open,
    .poller_close = real_poller_close,
    .poller_set = real_poller_set,
    .poller_wait = real_poller_wait,
    .poller_wake = real_poller_wake,
    .poller_fd = real_poller_fd,
    .event_open = real_event_open,
    .event_close = real_event_close,
    .event_signal = real_event_signal,
    .event_wait = real_event_wait,
    .event_clear = real_event_clear,
    .runner_start = real_runner_start,
    .runner_stop = real_runner_stop,
    .resolve = real_resolve,
    .file_open = real_file_open,
    .file_close = real_file_close,
    .file_read = real_file_read,
    .file_write = real_file_write,
    .file_size = real_file_size,
    .file_truncate = real_file_truncate,
    .file_allocate = real_file_allocate,
    .file_sync = real_file_sync,
    .file_map = real_file_map,
    .file_unmap = real_file_unmap,
    .file_lock = real_file_lock,
    .file_set_mtime = real_file_set_mtime,
    .path_info = real_path_info,
    .path_rename = real_path_rename,
    .path_remove = real_path_remove,
    .path_mkdir = real_path_mkdir,
    .path_sync = real_path_sync,
    .path_list = real_path_list,
    .dial_with = real_dial_with,
    .event_wait_either = real_event_wait_either,
    .poller_abandon = real_poller_abandon,
    .event_fd = real_event_fd,
};

const cafka_env *cafka_env_real(void)
{
    return &real_env;
}
