/*
 * test_loop.c - timers, tasks from other threads, slices and watches, in a thread and embedded.
 */
#include "net_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static const cafka_env *env;

static int64_t now_ms(void)
{
    return env->now(env) / NS_PER_MS;
}

static struct loop *new_loop(enum loop_mode mode)
{
    struct loop *loop;
    cafka_error err = {0};
    assert_int_equal(loop_new(&loop, env, mode, &err), CAFKA_OK);
    return loop;
}

/* --- hand-over --- */

struct job {
    struct loop_task task;
    struct loop *loop;
    atomic_uint *count;
    unsigned target;
    int done; /* event, signalled when *count reaches target */
    bool on_the_loop;
};

static void count_job(struct loop_task *task)
{
    struct job *job = container_of(task, struct job, task);
    job->on_the_loop = loop_is_current(job->loop);
    if (atomic_fetch_add(job->count, 1) + 1 == job->target)
        env->event_signal(env, job->done);
}

static void posted_task_runs_on_the_loops_thread(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_BACKGROUND);
    atomic_uint count = 0;
    struct job job = {.task.run = count_job,
                      .loop = loop,
                      .count = &count,
                      .target = 1,
                      .done = env->event_open(env)};
    loop_post(loop, &job.task);
    assert_int_equal(env->event_wait(env, job.done, CAFKA_NEVER), 1);
    assert_true(job.on_the_loop);
    assert_false(loop_is_current(loop));
    loop_unref(loop);
    env->event_close(env, job.done);
}

enum { POSTERS = 4, JOBS = 20000 };

struct poster {
    pthread_t thread;
    struct loop *loop;
    struct job *jobs;
    int pace; /* event; signalled by the loop, so that it sleeps often */
};

static void *post_jobs(void *arg)
{
    struct poster *p = arg;
    for (unsigned i = 0; i < JOBS; i++) {
        loop_post(p->loop, &p->jobs[i].task);
        if (i % 64 == 0) /* let it fall asleep: the window of a lost wake-up */
            (void)env->event_wait(env, p->pace, env->now(env) + 50000);
    }
    return NULL;
}

static void no_post_is_lost_whoever_hammers(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_BACKGROUND);
    atomic_uint count = 0;
    int done = env->event_open(env);
    static struct poster posters[POSTERS];
    for (unsigned i = 0; i < POSTERS; i++) {
        struct poster *p = &posters[i];
        p->loop = loop;
        p->jobs = mem_calloc(JOBS, sizeof *p->jobs);
        p->pace = env->event_open(env);
        for (unsigned k = 0; k < JOBS; k++)
            p->jobs[k] = (struct job){.task.run = count_job,
                                      .loop = loop,
                                      .count = &count,
                                      .target = POSTERS * JOBS,
                                      .done = done};
        assert_int_equal(pthread_create(&p->thread, NULL, post_jobs, p), 0);
    }
    assert_int_equal(env->event_wait(env, done, env->now(env) + 60000 * NS_PER_MS), 1);
    for (unsigned i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        env->event_close(env, posters[i].pace);
        mem_free(posters[i].jobs);
    }
    assert_int_equal(atomic_load(&count), POSTERS * JOBS);
    loop_unref(loop);
    env->event_close(env, done);
}

/* One after the other, each waited for: the loop sleeps before every single post. */
static void each_post_wakes_a_sleeping_loop(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_BACKGROUND);
    int done = env->event_open(env);
    for (unsigned i = 0; i < 3000; i++) {
        atomic_uint count = 0;
        struct job job = {.task.run = count_job,
                          .loop = loop,
                          .count = &count,
                          .target = 1,
                          .done = done};
        loop_post(loop, &job.task);
        assert_int_equal(env->event_wait(env, done, env->now(env) + 10000 * NS_PER_MS), 1);
    }
    loop_unref(loop);
    env->event_close(env, done);
}

static void tasks_posted_before_the_end_still_run(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct loop *loop = new_loop(i % 2 ? LOOP_BACKGROUND : LOOP_EXTERNAL);
        atomic_uint count = 0;
        struct job job = {.task.run = count_job, .loop = loop, .count = &count};
        loop_post(loop, &job.task);
        loop_unref(loop_ref(loop)); /* not the last */
        loop_unref(loop);
        assert_int_equal(atomic_load(&count), 1);
        assert_true(job.on_the_loop);
    }
}

static void note_time(struct loop_task *task)
{
    struct job *job = container_of(task, struct job, task);
    atomic_fetch_add(job->count, 1);
}

static void work_that_can_wait_wakes_nobody_who_looks_early_enough(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_EXTERNAL);
    atomic_uint count = 0;
    struct job job = {.task.run = note_time, .loop = loop, .count = &count};
    struct timer timer = {.fire = NULL};
    loop_timer_set(loop, &timer, now_ms() + 50000);
    assert_int_equal(loop_run(loop, 0, NULL), CAFKA_OK);
    assert_int_equal(loop_sleeping_until(loop) / NS_PER_MS, timer.deadline_ms);

    loop_post_by(loop, &job.task, (timer.deadline_ms + 1) * NS_PER_MS);
    assert_true(loop_sleeping_until(loop) != 0); /* nobody ended its sleep … */
    assert_int_equal(loop_run(loop, 0, NULL), CAFKA_OK);
    assert_int_equal(atomic_load(&count), 1); /* … and it is done whenever the loop looks */

    loop_post_by(loop, &job.task, (timer.deadline_ms - 1) * NS_PER_MS);
    assert_int_equal(loop_sleeping_until(loop), 0);
    assert_int_equal(loop_run(loop, 0, NULL), CAFKA_OK);
    loop_timer_cancel(loop, &timer);
    loop_unref(loop);
}

/* --- timers --- */

struct tick {
    struct timer timer;
    struct loop *loop;
    int64_t fired_ms;
    unsigned count;
};

static void note_tick(struct timer *timer)
{
    struct tick *tick = container_of(timer, struct tick, timer);
    tick->fired_ms = now_ms();
    tick->count++;
}

static void timer_is_never_early(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_EXTERNAL);
    for (int delay = 0; delay < 12; delay++) {
        struct tick tick = {.timer.fire = note_tick, .loop = loop};
        int64_t deadline = loop_now_ms(loop) + delay;
        loop_timer_set(loop, &tick.timer, deadline);
        while (!tick.count)
            assert_int_equal(loop_run(loop, -1, NULL), CAFKA_OK);
        assert_true(tick.fired_ms >= deadline);
    }
    assert_int_equal(loop_timeout_ms(loop), -1);
    loop_unref(loop);
}

static void timeout_tells_when_something_is_due(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_EXTERNAL);
    struct tick tick = {.timer.fire = note_tick, .loop = loop};
    assert_int_equal(loop_timeout_ms(loop), -1);
    loop_timer_set(loop, &tick.timer, loop_now_ms(loop) + 100000);
    assert_in_range(loop_timeout_ms(loop), 90000, 100001);
    loop_timer_set(loop, &tick.timer, loop_now_ms(loop) - 5);
    assert_int_equal(loop_timeout_ms(loop), 0);
    loop_timer_cancel(loop, &tick.timer);
    loop_timer_set(loop, &tick.timer, INT64_MAX);
    assert_int_equal(loop_timeout_ms(loop), -1);
    loop_timer_cancel(loop, &tick.timer);
    loop_wake(loop);
    assert_int_equal(loop_timeout_ms(loop), 0);
    assert_int_equal(loop_run(loop, -1, NULL), CAFKA_OK); /* returns: it was woken */
    assert_int_equal(loop_timeout_ms(loop), -1);
    loop_unref(loop);
}

/* --- slices --- */

struct work {
    struct loop_slice slice;
    struct loop *loop;
    unsigned runs, limit;
    struct work *stops;
};

static void do_work(struct loop_slice *slice)
{
    struct work *work = container_of(slice, struct work, slice);
    if (++work->runs == work->limit)
        loop_slice_stop(work->loop, slice);
    if (work->stops)
        loop_slice_stop(work->loop, &work->stops->slice);
}

static void slice_runs_once_a_turn_until_it_stops(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_EXTERNAL);
    struct work a = {.slice.run = do_work, .loop = loop, .limit = 3};
    struct work b = {.slice.run = do_work, .loop = loop, .limit = 100};
    loop_slice_start(loop, &a.slice);
    loop_slice_start(loop, &a.slice);
    loop_slice_start(loop, &b.slice);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(loop_timeout_ms(loop), 0);
        assert_int_equal(loop_run(loop, -1, NULL), CAFKA_OK); /* does not sleep */
        assert_int_equal(a.runs, i);
    }
    assert_int_equal(loop_run(loop, -1, NULL), CAFKA_OK);
    assert_int_equal(a.runs, 3);
    assert_int_equal(b.runs, 4);
    a.limit = 0;
    a.stops = &b; /* stopped by another one, in the same turn */
    loop_slice_stop(loop, &b.slice);
    loop_slice_start(loop, &a.slice);
    loop_slice_start(loop, &b.slice);
    assert_int_equal(loop_run(loop, -1, NULL), CAFKA_OK);
    assert_int_equal(b.runs, 4);
    loop_slice_stop(loop, &a.slice);
    assert_int_equal(loop_timeout_ms(loop), -1);
    loop_unref(loop);
}

/* --- watches --- */

struct stopping_watch {
    struct loop_watch watch;
    struct loop_watch *other;
    unsigned seen;
};

static void stop_the_other(struct loop_watch *watch, unsigned events)
{
    struct stopping_watch *w = container_of(watch, struct stopping_watch, watch);
    (void)events;
    w->seen++;
    loop_watch_stop(w->other);
}

static void stopped_watch_hears_nothing_of_the_same_turn(void **state)
{
    (void)state;
    struct net net;
    net_open(&net, env);
    net_dial(&net);
    int handles[2];
    struct stopping_watch watches[2] = {{.seen = 0}, {.seen = 0}};
    for (int i = 0; i < 2; i++) {
        handles[i] = env->dial(env, &net.address);
        assert_true(handles[i] >= 0);
        watches[i].other = &watches[1 - i].watch;
        assert_int_equal(loop_watch_start(net.loop, &watches[i].watch, handles[i], CAFKA_WRITABLE,
                                          stop_the_other, NULL),
                         CAFKA_OK);
    }
    struct pollfd both[2] = {{handles[0], POLLOUT, 0}, {handles[1], POLLOUT, 0}};
    while (poll(both, 2, 1000) < 2)
        ; /* both are ready, and seen in one turn */
    net_turn(&net);
    assert_int_equal(watches[0].seen + watches[1].seen, 1);
    for (int i = 0; i < 2; i++) {
        loop_watch_stop(&watches[i].watch);
        env->close(env, handles[i]);
    }
    net_close(&net);
}

/* --- embedded in somebody's own poll() --- */

static void *post_later(void *arg)
{
    struct job *job = arg;
    (void)env->event_wait(env, job->done, env->now(env) + 20 * NS_PER_MS);
    loop_post(job->loop, &job->task);
    return NULL;
}

/* As an application would: poll the loop's descriptor beside its own, with the loop's timeout. */
static void poll_and_run(struct loop *loop, int64_t max_ms)
{
    int64_t timeout = loop_timeout_ms(loop);
    if (timeout < 0 || timeout > max_ms)
        timeout = max_ms;
    struct pollfd fd = {.fd = loop_fd(loop), .events = POLLIN};
    if (fd.fd < 0 && timeout > 10)
        timeout = 10; /* the poll() backend has no descriptor: look often */
    assert_true(poll(&fd, 1, (int)timeout) >= 0);
    assert_int_equal(loop_run(loop, 0, NULL), CAFKA_OK);
}

static void external_loop_lives_in_somebodys_poll(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_EXTERNAL);
    struct tick tick = {.timer.fire = note_tick, .loop = loop};
    int64_t deadline = loop_now_ms(loop) + 30;
    loop_timer_set(loop, &tick.timer, deadline);
    atomic_uint count = 0;
    struct job job = {.task.run = note_time,
                      .loop = loop,
                      .count = &count,
                      .done = env->event_open(env)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, post_later, &job), 0);
    int64_t give_up = now_ms() + 10000;
    while ((!tick.count || !atomic_load(&count)) && now_ms() < give_up)
        poll_and_run(loop, 10000);
    assert_int_equal(tick.count, 1);
    assert_true(tick.fired_ms >= deadline);
    assert_int_equal(atomic_load(&count), 1);
    pthread_join(thread, NULL);
    loop_unref(loop);
    env->event_close(env, job.done);
}

static void post_between_two_runs_makes_the_descriptor_readable(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_EXTERNAL);
    if (loop_fd(loop) < 0) {
        loop_unref(loop);
        return; /* poll() backend */
    }
    atomic_uint count = 0;
    struct job job = {.task.run = note_time, .loop = loop, .count = &count};
    struct pollfd fd = {.fd = loop_fd(loop), .events = POLLIN};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(poll(&fd, 1, 0), 0);
        loop_post(loop, &job.task);
        assert_int_equal(poll(&fd, 1, 0), 1);
        assert_int_equal(loop_run(loop, 0, NULL), CAFKA_OK);
        assert_int_equal(atomic_load(&count), i + 1);
    }
    loop_unref(loop);
}

static void run_inside(struct loop_task *task)
{
    struct job *job = container_of(task, struct job, task);
    cafka_error err = {0};
    assert_int_equal(loop_run(job->loop, 0, &err), CAFKA_ERR_STATE);
    atomic_fetch_add(job->count, 1);
}

static void loop_can_not_be_run_inside_itself_or_beside_its_thread(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_EXTERNAL);
    atomic_uint count = 0;
    struct job job = {.task.run = run_inside, .loop = loop, .count = &count};
    loop_post(loop, &job.task);
    assert_int_equal(loop_run(loop, 0, NULL), CAFKA_OK);
    assert_int_equal(atomic_load(&count), 1);
    loop_unref(loop);

    loop = new_loop(LOOP_BACKGROUND);
    cafka_error err = {0};
    assert_int_equal(loop_run(loop, 0, &err), CAFKA_ERR_STATE);
    loop_unref(loop);
}

/* --- signals --- */

static struct loop *signalled_loop;

static void wake_from_handler(int signal)
{
    (void)signal;
    loop_wake(signalled_loop);
}

static void signal_handler_may_wake_a_loop(void **state)
{
    (void)state;
    signalled_loop = new_loop(LOOP_EXTERNAL);
    struct sigaction action = {.sa_handler = wake_from_handler}, before;
    sigaction(SIGUSR1, &action, &before);
    raise(SIGUSR1);
    assert_int_equal(loop_run(signalled_loop, -1, NULL),
                     CAFKA_OK); /* would wait for ever otherwise */
    sigaction(SIGUSR1, &before, NULL);
    loop_unref(signalled_loop);
}

static void look_at_mask(struct loop_task *task)
{
    struct job *job = container_of(task, struct job, task);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    job->on_the_loop = sigismember(&mask, SIGINT) && sigismember(&mask, SIGPIPE);
    env->event_signal(env, job->done);
}

static void loops_thread_blocks_all_signals(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_BACKGROUND);
    struct job job = {.task.run = look_at_mask, .loop = loop, .done = env->event_open(env)};
    loop_post(loop, &job.task);
    assert_int_equal(env->event_wait(env, job.done, CAFKA_NEVER), 1);
    assert_true(job.on_the_loop);
    loop_unref(loop);
    env->event_close(env, job.done);
}

/* --- alarms --- */

struct bell {
    struct loop_alarm alarm;
    struct loop *loop;
    int64_t rang_ns;
    int rings, again; /* … set again in its own ring */
};

static void ring(struct loop_alarm *alarm)
{
    struct bell *bell = container_of(alarm, struct bell, alarm);
    bell->rang_ns = env->now(env);
    bell->rings++;
    if (bell->again-- > 0)
        loop_alarm_set(bell->loop, alarm, bell->rang_ns);
}

static void alarms_ring_once_each_never_early_and_not_when_cancelled(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_EXTERNAL);
    struct bell soon = {.alarm.ring = ring}, later = soon, never = soon;
    int64_t now = env->now(env);
    loop_alarm_set(loop, &later.alarm, now + 600000);
    loop_alarm_set(loop, &soon.alarm, now + 5000000);
    loop_alarm_set(loop, &soon.alarm, now + 200000); /* moved */
    loop_alarm_set(loop, &never.alarm, now + 100000);
    loop_alarm_cancel(loop, &never.alarm);
    loop_alarm_cancel(loop, &never.alarm);
    while (!later.rings)
        assert_int_equal(loop_run(loop, 100, NULL), CAFKA_OK);
    assert_int_equal(soon.rings, 1);
    assert_int_equal(later.rings, 1);
    assert_int_equal(never.rings, 0);
    assert_true(soon.rang_ns >= now + 200000);
    assert_true(later.rang_ns >= now + 600000);
    loop_unref(loop);
}

static void alarm_set_for_now_in_its_ring_rings_in_the_next_turn(void **state)
{
    (void)state;
    struct loop *loop = new_loop(LOOP_EXTERNAL);
    struct bell bell = {.alarm.ring = ring, .loop = loop, .again = 2};
    loop_alarm_set(loop, &bell.alarm, 1);
    for (int turns = 1; turns <= 3; turns++) {
        assert_int_equal(loop_run(loop, 100, NULL), CAFKA_OK);
        assert_int_equal(bell.rings, turns);
    }
    assert_int_equal(loop_timeout_ms(loop), -1);
    loop_unref(loop);
}

int main(void)
{
    env = cafka_env_real();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posted_task_runs_on_the_loops_thread),
        cmocka_unit_test(no_post_is_lost_whoever_hammers),
        cmocka_unit_test(each_post_wakes_a_sleeping_loop),
        cmocka_unit_test(tasks_posted_before_the_end_still_run),
        cmocka_unit_test(work_that_can_wait_wakes_nobody_who_looks_early_enough),
        cmocka_unit_test(timer_is_never_early),
        cmocka_unit_test(timeout_tells_when_something_is_due),
        cmocka_unit_test(slice_runs_once_a_turn_until_it_stops),
        cmocka_unit_test(stopped_watch_hears_nothing_of_the_same_turn),
        cmocka_unit_test(external_loop_lives_in_somebodys_poll),
        cmocka_unit_test(post_between_two_runs_makes_the_descriptor_readable),
        cmocka_unit_test(loop_can_not_be_run_inside_itself_or_beside_its_thread),
        cmocka_unit_test(signal_handler_may_wake_a_loop),
        cmocka_unit_test(loops_thread_blocks_all_signals),
        cmocka_unit_test(alarms_ring_once_each_never_early_and_not_when_cancelled),
        cmocka_unit_test(alarm_set_for_now_in_its_ring_rings_in_the_next_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
