/*
 * schedule.c - what runs next in the simulated world: handles, pollers, events, runners, and time.
 *
 * A step: deliver what has its time, draw one of the runners that have something to do, run it, and
 * let a few microseconds pass. When no runner has anything to do, the clock jumps.
 */
#include "sim/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"

enum { FIRST_HANDLE = 3 }; /* 0 to 2 are taken everywhere else, too */

struct poller {
    bool woken;
    bool maybe_ready; /* something may have changed since the last look that found nothing */
    const struct sim_runner *runner; /* whose it is; NULL: of an external loop */
    int *watched;
    size_t watched_count, watched_capacity;
};

struct event {
    bool set;
};

/* --- happenings: a heap by time, then by order of planning --- */

static bool before(const struct happening *a, const struct happening *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void put_at(struct sim *sim, size_t i, struct happening *h)
{
    sim->heap[i] = h;
    h->place = i + 1;
}

static void sift(struct sim *sim, size_t i, struct happening *h)
{
    while (i && before(h, sim->heap[(i - 1) / 2])) {
        put_at(sim, i, sim->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (size_t child; (child = 2 * i + 1) < sim->heap_count; i = child) {
        if (child + 1 < sim->heap_count && before(sim->heap[child + 1], sim->heap[child]))
            child++;
        if (!before(sim->heap[child], h))
            break;
        put_at(sim, i, sim->heap[child]);
    }
    put_at(sim, i, h);
}

bool sim_reserve(struct sim *sim, size_t happenings)
{
    if (happenings <= sim->heap_capacity)
        return true;
    size_t capacity = sim->heap_capacity ? sim->heap_capacity : 64;
    while (capacity < happenings)
        capacity *= 2;
    struct happening **heap = mem_recalloc(sim->heap, capacity, sizeof(struct happening *));
    if (!heap)
        return false;
    sim->heap = heap;
    sim->heap_capacity = capacity;
    return true;
}

void sim_unplan(struct sim *sim, struct happening *h)
{
    if (!h->place)
        return;
    size_t hole = h->place - 1;
    h->place = 0;
    struct happening *last = sim->heap[--sim->heap_count];
    if (last != h)
        sift(sim, hole, last);
}

void sim_plan(struct sim *sim, struct happening *h, int64_t at)
{
    sim_unplan(sim, h);
    h->at = at;
    h->order = sim->next_order++;
    sim->heap_count++;
    sift(sim, sim->heap_count - 1, h);
}

static void let_happen(struct sim *sim)
{
    while (sim->heap_count && sim->heap[0]->at <= sim->now) {
        struct happening *h = sim->heap[0];
        sim_trace(sim, h->order);
        sim_unplan(sim, h);
        h->happen(sim, h);
    }
}

/* --- handles --- */

int sim_handle_new(struct sim *sim, enum handle_kind kind, void *object)
{
    size_t i = 0;
    while (i < sim->handle_count && sim->handles[i].kind != HANDLE_FREE)
        i++;
    if (i == sim->handle_count) {
        size_t count = sim->handle_count ? sim->handle_count * 2 : 32;
        struct handle *handles = mem_recalloc(sim->handles, count, sizeof *handles);
        if (!handles)
            return -ENOMEM;
        memset(handles + sim->handle_count, 0, (count - sim->handle_count) * sizeof *handles);
        sim->handles = handles;
        sim->handle_count = count;
    }
    sim->handles[i] = (struct handle){.kind = kind, .object = object, .poller = -1};
    return (int)i + FIRST_HANDLE;
}

struct handle *sim_handle(struct sim *sim, int handle, enum handle_kind kind)
{
    if (handle < FIRST_HANDLE || (size_t)(handle - FIRST_HANDLE) >= sim->handle_count)
        return NULL;
    struct handle *h = &sim->handles[handle - FIRST_HANDLE];
    return h->kind == kind ? h : NULL;
}

static struct poller *poller_of(struct sim *sim, int handle)
{
    struct handle *h = sim_handle(sim, handle, HANDLE_POLLER);
    return h ? h->object : NULL;
}

static void unwatch(struct sim *sim, int handle, struct handle *h)
{
    struct poller *p = poller_of(sim, h->poller);
    for (size_t i = 0; p && i < p->watched_count; i++)
        if (p->watched[i] == handle) {
            p->watched[i] = p->watched[--p->watched_count];
            break;
        }
    h->poller = -1;
    h->wanted = 0;
}

void sim_handle_free(struct sim *sim, int handle)
{
    struct handle *h = &sim->handles[handle - FIRST_HANDLE];
    unwatch(sim, handle, h);
    *h = (struct handle){.kind = HANDLE_FREE, .poller = -1};
}

void sim_touch(struct sim *sim, int handle)
{
    if (handle < FIRST_HANDLE)
        return;
    struct poller *p = poller_of(sim, sim->handles[handle - FIRST_HANDLE].poller);
    if (p)
        p->maybe_ready = true;
}

/* --- pollers --- */

static int sim_poller_open(const cafka_env *env)
{
    struct poller *p = mem_zalloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    int handle = sim_handle_new(sim_of(env), HANDLE_POLLER, p);
    if (handle < 0)
        mem_free(p);
    return handle;
}

static void free_poller(struct poller *p)
{
    mem_free(p->watched);
    mem_free(p);
}

static void sim_poller_close(const cafka_env *env, int poller)
{
    struct sim *sim = sim_of(env);
    struct poller *p = poller_of(sim, poller);
    if (!p)
        return;
    for (size_t i = 0; i < p->watched_count; i++) {
        struct handle *h = &sim->handles[p->watched[i] - FIRST_HANDLE];
        h->poller = -1;
        h->wanted = 0;
    }
    free_poller(p);
    sim_handle_free(sim, poller);
}

static int sim_poller_set(const cafka_env *env, int poller, int handle, unsigned events, void *user)
{
    struct sim *sim = sim_of(env);
    struct poller *p = poller_of(sim, poller);
    struct handle *h = sim_handle(sim, handle, HANDLE_SOCKET);
    if (!h)
        h = sim_handle(sim, handle, HANDLE_LISTENER);
    if (!p || !h)
        return -EBADF;
    if (!events) {
        if (h->poller == poller)
            unwatch(sim, handle, h);
        return 0;
    }
    if (h->poller != poller) {
        if (h->poller >= 0)
            return -EEXIST; /* one poller a handle is all that a loop needs */
        if (p->watched_count == p->watched_capacity) {
            size_t capacity = p->watched_capacity ? p->watched_capacity * 2 : 16;
            int *watched = mem_recalloc(p->watched, capacity, sizeof *watched);
            if (!watched)
                return -ENOMEM;
            p->watched = watched;
            p->watched_capacity = capacity;
        }
        p->watched[p->watched_count++] = handle;
    }
    h->poller = poller;
    h->wanted = events;
    h->user = user;
    p->maybe_ready = true;
    return 0;
}

static unsigned ready_events(struct sim *sim, int handle)
{
    unsigned wanted = sim->handles[handle - FIRST_HANDLE].wanted;
    return sim_socket_readiness(sim, handle) & (wanted | CAFKA_HANGUP);
}

static bool has_ready(struct sim *sim, struct poller *p)
{
    if (p->woken)
        return true;
    for (size_t i = 0; p->maybe_ready && i < p->watched_count; i++)
        if (ready_events(sim, p->watched[i]))
            return true;
    p->maybe_ready = false;
    return false;
}

/* Begin anywhere: which of several ready handles comes first is chance. */
static int collect(struct sim *sim, struct poller *p, cafka_poll_event *out, int max)
{
    int count = 0;
    p->woken = false;
    if (!p->maybe_ready || !p->watched_count)
        return 0;
    size_t start = (size_t)rng_below(&sim->scheduler, p->watched_count);
    for (size_t k = 0; k < p->watched_count && count < max; k++) {
        int handle = p->watched[(start + k) % p->watched_count];
        unsigned events = ready_events(sim, handle);
        if (events)
            out[count++] = (cafka_poll_event){sim->handles[handle - FIRST_HANDLE].user, events};
    }
    p->maybe_ready = count > 0;
    return count;
}

static void sim_poller_wake(const cafka_env *env, int poller)
{
    struct poller *p = poller_of(sim_of(env), poller);
    if (p)
        p->woken = true;
}

static int sim_poller_fd(const cafka_env *env, int poller)
{
    (void)env;
    (void)poller;
    return -1;
}

/* --- runners --- */

static int sim_runner_start(const cafka_env *env, cafka_runner *runner)
{
    struct sim *sim = sim_of(env);
    struct poller *p = poller_of(sim, runner->poller);
    if (!p)
        return -EBADF;
    if (sim->runner_count == sim->runner_capacity) {
        size_t capacity = sim->runner_capacity ? sim->runner_capacity * 2 : 8;
        struct sim_runner **runners =
            mem_recalloc(sim->runners, capacity, sizeof(struct sim_runner *));
        if (!runners)
            return -ENOMEM;
        sim->runners = runners;
        sim->runner_capacity = capacity;
    }
    struct sim_runner *r = mem_zalloc(sizeof *r);
    if (!r)
        return -ENOMEM;
    r->runner = runner;
    r->id = ++sim->next_id;
    sim->runners[sim->runner_count++] = r;
    runner->state = r;
    p->runner = r;
    return 0;
}

static void sim_runner_stop(const cafka_env *env, cafka_runner *runner)
{
    struct sim *sim = sim_of(env);
    struct sim_runner *r = runner->state;
    if (!r)
        return;
    size_t i = 0;
    while (i < sim->runner_count && sim->runners[i] != r)
        i++;
    if (i < sim->runner_count) { /* the order of the others stays */
        memmove(&sim->runners[i], &sim->runners[i + 1],
                (sim->runner_count - i - 1) * sizeof *sim->runners);
        sim->runner_count--;
    }
    struct poller *p = poller_of(sim, runner->poller);
    if (p)
        p->runner = NULL;
    runner->state = NULL;
    r->runner = NULL;
    if (!r->inside)
        mem_free(r);
}

static bool can_run(struct sim *sim, const struct sim_runner *r)
{
    if (r->inside)
        return false;
    struct poller *p = poller_of(sim, r->runner->poller);
    return (p && has_ready(sim, p)) || r->runner->deadline(r->runner->arg) <= sim->now;
}

/* --- time --- */

static void pass_microseconds(struct sim *sim, uint64_t most)
{
    sim->now += 1000 * (1 + (int64_t)rng_below(&sim->scheduler, most));
}

/* One runner has its turn; false: none has anything to do. */
static bool step(struct sim *sim)
{
    let_happen(sim);
    struct sim_runner *chosen = NULL;
    uint64_t candidates = 0;
    for (size_t i = 0; i < sim->runner_count; i++)
        if (can_run(sim, sim->runners[i]) && rng_below(&sim->scheduler, ++candidates) == 0)
            chosen = sim->runners[i]; /* each with the same chance */
    if (!chosen)
        return false;
    sim->steps++;
    sim_trace(sim, chosen->id);
    sim_trace(sim, (uint64_t)sim->now);
    chosen->inside = true;
    chosen->runner->step(chosen->runner->arg);
    chosen->inside = false;
    if (!chosen->runner)
        mem_free(chosen); /* it was stopped inside its own step */
    pass_microseconds(sim, 10);
    return true;
}

/* When something will happen by itself; CAFKA_NEVER: nothing will. */
static int64_t next_time(struct sim *sim)
{
    int64_t next = sim->heap_count ? sim->heap[0]->at : CAFKA_NEVER;
    for (size_t i = 0; i < sim->runner_count; i++) {
        struct sim_runner *r = sim->runners[i];
        int64_t deadline = r->inside ? CAFKA_NEVER : r->runner->deadline(r->runner->arg);
        if (deadline < next)
            next = deadline;
    }
    return next;
}

static void report_deadlock(struct sim *sim)
{
    char message[200];
    snprintf(message, sizeof message,
             "the simulated world stands still at %lld ms after %llu steps: %zu loops and a thread "
             "wait for "
             "ever, and nothing is under way",
             (long long)(sim->now / NS_PER_MS), (unsigned long long)sim->steps, sim->runner_count);
    if (!sim->report) {
        fprintf(stderr, "%s\n", message);
        abort(); /* going on would hang the test, without a word */
    }
    if (!sim->deadlock_reported)
        sim->report(sim->report_user, message);
    sim->deadlock_reported = true;
}

/* Run the world until done(arg) or the deadline. Whoever asks, even without waiting, lets it move a little. */
static bool run_until(struct sim *sim, bool (*done)(void *arg), void *arg, int64_t deadline)
{
    if (done(arg))
        return true;
    do {
        if (step(sim))
            continue;
        int64_t next = next_time(sim);
        if (next == CAFKA_NEVER && deadline == CAFKA_NEVER) {
            report_deadlock(sim);
            return false;
        }
        if (deadline <= sim->now)
            pass_microseconds(sim, 50);
        else
            sim->now = next < deadline ? next : deadline;
        let_happen(sim);
    } while (!done(arg) && sim->now < deadline);
    return done(arg);
}

bool sim_run_until(struct sim *sim, bool (*condition)(void *arg), void *arg, int64_t timeout_ms)
{
    return run_until(sim, condition, arg, sim->now + timeout_ms * NS_PER_MS);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

void sim_advance_ms(struct sim *sim, int64_t ms)
{
    enum { STEPS_MAX = 1000 };
    (void)run_until(sim, never, NULL, sim->now + ms * NS_PER_MS);
    for (int i = 0; i < STEPS_MAX && step(sim); i++)
        ; /* what is due at the very end */
}

/* --- waiting --- */

struct poll_wait {
    struct sim *sim;
    struct poller *poller;
};

static bool poller_is_ready(void *arg)
{
    struct poll_wait *wait = arg;
    return has_ready(wait->sim, wait->poller);
}

static int sim_poller_wait(const cafka_env *env, int poller, cafka_poll_event *out, int max,
                           int64_t deadline)
{
    struct sim *sim = sim_of(env);
    struct poller *p = poller_of(sim, poller);
    if (!p)
        return -EBADF;
    if (!p->runner) { /* an external loop, run by the application's thread */
        struct poll_wait wait = {sim, p};
        (void)run_until(sim, poller_is_ready, &wait, deadline);
    }
    return collect(sim, p, out, max);
}

static struct event *event_of(const cafka_env *env, int handle)
{
    struct handle *h = sim_handle(sim_of(env), handle, HANDLE_EVENT);
    return h ? h->object : NULL;
}

static int sim_event_open(const cafka_env *env)
{
    struct event *e = mem_zalloc(sizeof *e);
    if (!e)
        return -ENOMEM;
    int handle = sim_handle_new(sim_of(env), HANDLE_EVENT, e);
    if (handle < 0)
        mem_free(e);
    return handle;
}

static void sim_event_close(const cafka_env *env, int event)
{
    struct event *e = event_of(env, event);
    if (!e)
        return;
    mem_free(e);
    sim_handle_free(sim_of(env), event);
}

static void sim_event_signal(const cafka_env *env, int event)
{
    struct event *e = event_of(env, event);
    if (e)
        e->set = true;
}

static int sim_event_clear(const cafka_env *env, int event)
{
    struct event *e = event_of(env, event);
    int was_set = e && e->set;
    if (e)
        e->set = false;
    return was_set;
}

static bool event_is_set(void *arg)
{
    return ((struct event *)arg)->set;
}

static int sim_event_wait(const cafka_env *env, int event, int64_t deadline)
{
    struct event *e = event_of(env, event);
    if (!e)
        return 0;
    (void)run_until(sim_of(env), event_is_set, e, deadline);
    return sim_event_clear(env, event);
}

void sim_schedule_env(cafka_env *env)
{
    env->poller_open = sim_poller_open;
    env->poller_close = sim_poller_close;
    env->poller_set = sim_poller_set;
    env->poller_wait = sim_poller_wait;
    env->poller_wake = sim_poller_wake;
    env->poller_fd = sim_poller_fd;
    env->event_open = sim_event_open;
    env->event_close = sim_event_close;
    env->event_signal = sim_event_signal;
    env->event_wait = sim_event_wait;
    env->event_clear = sim_event_clear;
    env->runner_start = sim_runner_start;
    env->runner_stop = sim_runner_stop;
}

void sim_schedule_fini(struct sim *sim)
{
    for (size_t i = 0; i < sim->handle_count; i++) {
        if (sim->handles[i].kind == HANDLE_POLLER)
            free_poller(sim->handles[i].object);
        else if (sim->handles[i].kind == HANDLE_EVENT)
            mem_free(sim->handles[i].object);
    }
    for (size_t i = 0; i < sim->runner_count; i++)
        mem_free(sim->runners[i]);
    mem_free(sim->runners);
    mem_free(sim->handles);
    mem_free(sim->heap);
}
