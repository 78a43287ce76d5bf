/*
 * loop.c - see loop.h.
 *
 * How a post from another thread is never lost, without a lock: `sleeping_until` is changed only
 * by read-modify-write. The loop says when it sleeps until, and then looks at the posted tasks; a
 * poster pushes its task, and then reads sleeping_until with a read-modify-write. Whichever comes
 * first in the order of changes of that one word, the other sees what was written before it: the
 * loop the task, or the poster the sleep, which it then ends. Who sets the word to 0 wakes.
 */
#include "net/loop.h"

#include "util/alloc.h"

enum {
    EVENTS_MAX = 64, /* readiness events taken in one turn */
    TASKS_MAX = 1024 /* posted tasks run in one turn */
};

struct loop {
    const cafka_env *env;
    enum loop_mode mode;
    atomic_uint refs;
    atomic_bool stopping;
    atomic_bool woken; /* loop_wake() asks for a turn */
    bool running;      /* the runner was started */
    int poller;
    cafka_runner runner;

    char padding_before[64]; /* other threads write what is between; keep it off the loop's lines */
    struct mpsc posted;
    _Atomic(int64_t) sleeping_until; /* ns; 0: awake */
    char padding_behind[64];

    int64_t now_ns;          /* as of this turn */
    struct mpsc_item *tasks; /* taken from posted, the oldest first */
    struct list slices;
    struct list alarms;
    cafka_poll_event events[EVENTS_MAX];
    int event_at, event_count; /* being dispatched */
    struct wheel wheel;
};

/* The loop whose turn this thread is in. Turns nest only in the simulated world, each its own loop. */
static _Thread_local const struct loop *current;

static int64_t ms_to_ns(int64_t ms)
{
    return ms > CAFKA_NEVER / NS_PER_MS ? CAFKA_NEVER : ms * NS_PER_MS;
}

/* --- a turn --- */

static bool has_work(const struct loop *loop)
{
    return loop->tasks || !mpsc_empty(&loop->posted) || !list_empty(&loop->slices) ||
           atomic_load_explicit(&loop->woken, memory_order_acquire);
}

/* When something of the loop's own is due (ns): 0 now, CAFKA_NEVER nothing is. */
static int64_t next_due(const struct loop *loop)
{
    if (has_work(loop))
        return 0;
    int64_t due = ms_to_ns(wheel_next_ms(&loop->wheel));
    for (const struct list *link = loop->alarms.next; link != &loop->alarms; link = link->next) {
        const struct loop_alarm *alarm = list_item(link, struct loop_alarm, link);
        due = alarm->at_ns < due ? alarm->at_ns : due;
    }
    return due;
}

static void fall_asleep(struct loop *loop, int64_t until)
{
    atomic_exchange_explicit(&loop->sleeping_until, until, memory_order_acq_rel);
}

static void wake_up(struct loop *loop)
{
    atomic_exchange_explicit(&loop->sleeping_until, 0, memory_order_acq_rel);
}

static int wait_for_events(struct loop *loop, int64_t deadline)
{
    int64_t due = next_due(loop);
    int64_t until = due < deadline ? due : deadline;
    if (until > loop->now_ns) {
        fall_asleep(loop, until);
        if (has_work(loop) || atomic_load_explicit(&loop->stopping, memory_order_acquire))
            until = 0;
    }
    int count = loop->env->poller_wait(loop->env, loop->poller, loop->events, EVENTS_MAX, until);
    wake_up(loop);
    return count;
}

static void dispatch(struct loop *loop, int count)
{
    loop->event_count = count;
    for (loop->event_at = 0; loop->event_at < loop->event_count; loop->event_at++) {
        cafka_poll_event *event = &loop->events[loop->event_at];
        struct loop_watch *watch = event->user;
        if (watch && event->events) /* NULL: it was stopped by one that came before it */
            watch->ready(watch, event->events);
    }
    loop->event_count = 0;
}

static void run_tasks(struct loop *loop, int limit)
{
    if (!loop->tasks && !mpsc_empty(&loop->posted))
        loop->tasks = mpsc_take_all(&loop->posted);
    while (loop->tasks && limit-- > 0) {
        struct loop_task *task = container_of(loop->tasks, struct loop_task, link);
        loop->tasks = loop->tasks->next; /* before run(), which may post or free the task */
        task->run(task);
    }
}

static void run_slices(struct loop *loop)
{
    struct list todo; /* what is started meanwhile has its first run in the next turn */
    list_init(&todo);
    list_splice_back(&todo, &loop->slices);
    for (struct list *link; (link = list_pop_front(&todo));) {
        list_push_back(&loop->slices, link);
        struct loop_slice *slice = list_item(link, struct loop_slice, link);
        slice->run(slice); /* NOLINT: the analyzer loses track of what `todo` was spliced from */
    }
}

/* An alarm that a ring sets rings in the next turn at the earliest. */
static void ring_alarms(struct loop *loop)
{
    struct list todo;
    list_init(&todo);
    list_splice_back(&todo, &loop->alarms);
    for (struct list *link; (link = list_pop_front(&todo));) {
        struct loop_alarm *alarm = list_item(link, struct loop_alarm, link);
        if (alarm->at_ns <= loop->now_ns) /* NOLINT: as in run_slices() */
            alarm->ring(alarm);
        else
            list_push_back(&loop->alarms, link);
    }
}

static int turn(struct loop *loop, int64_t deadline)
{
    const struct loop *outer = current;
    current = loop;
    int count = wait_for_events(loop, deadline);
    loop->now_ns = loop->env->now(loop->env);
    atomic_store_explicit(&loop->woken, false, memory_order_relaxed);
    dispatch(loop, count);
    run_tasks(loop, TASKS_MAX);
    wheel_advance(&loop->wheel, loop->now_ns / NS_PER_MS);
    if (!list_empty(&loop->alarms))
        ring_alarms(loop);
    if (!list_empty(&loop->slices))
        run_slices(loop);
    current = outer;
    return count;
}

/* --- background mode --- */

static void run_until_stopped(void *arg)
{
    struct loop *loop = arg;
    while (!atomic_load_explicit(&loop->stopping, memory_order_acquire))
        (void)turn(loop, CAFKA_NEVER); /* a poller that fails is a bug, and there is nobody to tell */
}

static void step(void *arg)
{
    (void)turn(arg, 0);
}

static int64_t deadline_of(void *arg)
{
    return next_due(arg);
}

/* --- life --- */

static void free_loop(struct loop *loop)
{
    if (loop->running) {
        atomic_store_explicit(&loop->stopping, true, memory_order_release);
        loop_wake(loop);
        loop->env->runner_stop(loop->env, &loop->runner);
    }
    const struct loop *outer = current;
    current = loop;
    while (loop->tasks || !mpsc_empty(&loop->posted))
        run_tasks(loop, TASKS_MAX);
    current = outer;
    if (loop->poller >= 0)
        loop->env->poller_close(loop->env, loop->poller);
    mem_free(loop);
}

int loop_new(struct loop **out, const cafka_env *env, enum loop_mode mode, cafka_error *err)
{
    struct loop *loop = mem_zalloc(sizeof *loop);
    if (!loop)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a loop");
    loop->env = env;
    loop->mode = mode;
    atomic_init(&loop->refs, 1);
    list_init(&loop->slices);
    list_init(&loop->alarms);
    loop->now_ns = env->now(env);
    wheel_init(&loop->wheel, loop->now_ns / NS_PER_MS);

    int rc = loop->poller = env->poller_open(env);
    if (rc >= 0 && mode == LOOP_BACKGROUND) {
        loop->runner = (cafka_runner){.main = run_until_stopped,
                                      .step = step,
                                      .deadline = deadline_of,
                                      .arg = loop,
                                      .poller = loop->poller,
                                      .name = "cafka-loop"};
        rc = env->runner_start(env, &loop->runner);
        loop->running = rc >= 0;
    }
    if (rc < 0) {
        free_loop(loop);
        return error_errno(err, CAFKA_ERR_SYSTEM, -rc, "starting a loop");
    }
    if (mode == LOOP_EXTERNAL)
        fall_asleep(loop, CAFKA_NEVER);
    *out = loop;
    return CAFKA_OK;
}

struct loop *loop_ref(struct loop *loop)
{
    atomic_fetch_add_explicit(&loop->refs, 1, memory_order_relaxed);
    return loop;
}

void loop_unref(struct loop *loop)
{
    if (loop && atomic_fetch_sub_explicit(&loop->refs, 1, memory_order_acq_rel) == 1)
        free_loop(loop);
}

void loop_abandon(struct loop *loop)
{
    if (ENV_HAS(loop->env, poller_abandon))
        loop->env->poller_abandon(loop->env, loop->poller);
}

const cafka_env *loop_env(const struct loop *loop)
{
    return loop->env;
}

enum loop_mode loop_mode(const struct loop *loop)
{
    return loop->mode;
}

bool loop_is_current(const struct loop *loop)
{
    return current == loop;
}

int64_t loop_now_ns(const struct loop *loop)
{
    return current == loop ? loop->now_ns : loop->env->now(loop->env);
}

int64_t loop_now_ms(const struct loop *loop)
{
    return loop_now_ns(loop) / NS_PER_MS;
}

/* --- external mode --- */

/* Until the next loop_run() the loop counts as asleep, so that a post makes loop_fd() readable. */
static void sleep_outside(struct loop *loop)
{
    int64_t due = next_due(loop);
    fall_asleep(loop, due);
    if (due && has_work(loop))
        loop_wake(loop);
}

int loop_run(struct loop *loop, int64_t max_ms, cafka_error *err)
{
    if (loop->mode != LOOP_EXTERNAL)
        return error_set(err, CAFKA_ERR_STATE, "this loop runs by itself, on a thread of its own");
    if (current == loop)
        return error_set(err, CAFKA_ERR_STATE,
                         "the loop is running already: loop_run() was called inside it");

    int64_t deadline = CAFKA_NEVER;
    loop->now_ns = loop->env->now(loop->env);
    if (max_ms >= 0 && max_ms < (CAFKA_NEVER - loop->now_ns) / NS_PER_MS)
        deadline = loop->now_ns + max_ms * NS_PER_MS;
    int rc = turn(loop, deadline);
    sleep_outside(loop);
    if (rc < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -rc, "waiting for sockets");
    return CAFKA_OK;
}

int64_t loop_timeout_ms(const struct loop *loop)
{
    int64_t due = next_due(loop);
    if (due == CAFKA_NEVER)
        return -1;
    int64_t now = loop->env->now(loop->env);
    return due <= now ? 0 : (due - now + NS_PER_MS - 1) / NS_PER_MS;
}

int loop_fd(const struct loop *loop)
{
    return loop->env->poller_fd(loop->env, loop->poller);
}

/* --- hand-over --- */

/* End the loop's sleep if it goes past deadline_ns. */
static void end_sleep(struct loop *loop, int64_t deadline_ns)
{
    int64_t until = atomic_fetch_or_explicit(&loop->sleeping_until, 0, memory_order_acq_rel);
    if (until <= deadline_ns)
        return; /* awake (0), or it looks early enough */
    if (atomic_compare_exchange_strong_explicit(&loop->sleeping_until, &until, 0,
                                                memory_order_acq_rel, memory_order_relaxed))
        loop->env->poller_wake(loop->env, loop->poller);
}

void loop_post_by(struct loop *loop, struct loop_task *task, int64_t deadline_ns)
{
    mpsc_push(&loop->posted, &task->link);
    if (current != loop)
        end_sleep(loop, deadline_ns);
}

void loop_post(struct loop *loop, struct loop_task *task)
{
    loop_post_by(loop, task, 0);
}

void loop_wake(struct loop *loop)
{
    atomic_store_explicit(&loop->woken, true, memory_order_release);
    if (current != loop)
        end_sleep(loop, 0);
}

int64_t loop_sleeping_until(const struct loop *loop)
{
    return atomic_load_explicit(&loop->sleeping_until, memory_order_acquire);
}

/* --- slices, timers, watches --- */

void loop_slice_start(struct loop *loop, struct loop_slice *slice)
{
    if (!list_linked(&slice->link))
        list_push_back(&loop->slices, &slice->link);
}

void loop_slice_stop(struct loop *loop, struct loop_slice *slice)
{
    (void)loop;
    list_remove(&slice->link);
}

void loop_timer_set(struct loop *loop, struct timer *timer, int64_t deadline_ms)
{
    wheel_set(&loop->wheel, timer, deadline_ms);
}

void loop_timer_cancel(struct loop *loop, struct timer *timer)
{
    wheel_cancel(&loop->wheel, timer);
}

void loop_alarm_set(struct loop *loop, struct loop_alarm *alarm, int64_t at_ns)
{
    list_remove(&alarm->link);
    alarm->at_ns = at_ns;
    list_push_back(&loop->alarms, &alarm->link);
}

void loop_alarm_cancel(struct loop *loop, struct loop_alarm *alarm)
{
    (void)loop;
    list_remove(&alarm->link);
}

int loop_watch_start(struct loop *loop, struct loop_watch *watch, int handle, unsigned events,
                     void (*ready)(struct loop_watch *, unsigned), cafka_error *err)
{
    int rc = events ? loop->env->poller_set(loop->env, loop->poller, handle, events, watch) : 0;
    if (rc < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -rc, "watching a socket");
    *watch = (struct loop_watch){.handle = handle, .events = events, .ready = ready, .loop = loop};
    return CAFKA_OK;
}

/* What was seen before a change must not reach a watch that no longer asks for it. */
static void drop_pending(struct loop_watch *watch, unsigned wanted)
{
    struct loop *loop = watch->loop;
    for (int i = loop->event_at + 1; i < loop->event_count; i++)
        if (loop->events[i].user == watch) {
            loop->events[i].events &= wanted | CAFKA_HANGUP;
            if (!wanted)
                loop->events[i].user = NULL;
        }
}

int loop_watch_change(struct loop_watch *watch, unsigned events)
{
    if (!watch->loop || watch->events == events)
        return 0;
    const cafka_env *env = watch->loop->env;
    int rc = env->poller_set(env, watch->loop->poller, watch->handle, events, watch);
    if (rc < 0)
        return rc;
    drop_pending(watch, events);
    watch->events = events;
    return 0;
}

void loop_watch_stop(struct loop_watch *watch)
{
    if (!watch->loop)
        return;
    (void)loop_watch_change(watch, 0); /* taking out does not fail */
    drop_pending(watch, 0);
    watch->loop = NULL;
}
