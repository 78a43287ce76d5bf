/*
 * loop.h - one thread's worth of waiting: sockets, timers, and work handed over from other threads.
 *
 * A loop is a poller of the env, a timing wheel and a hand-over queue. In background mode a runner
 * of the env drives it; in external mode whoever calls loop_run(). All that belongs to a loop is
 * touched on its thread only, so it needs no lock.
 *
 * Owner:   whoever calls loop_new(); clients and brokers hold a reference.
 * Thread:  loop_post(), loop_post_by(), loop_wake(), loop_sleeping_until(), loop_is_current() and
 *          ref/unref on any thread; the rest on the loop's.
 * Reading: turn() in loop.c: wait, dispatch watches, run posted tasks, fire timers, run slices.
 */
#ifndef CAFKA_NET_LOOP_H
#define CAFKA_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "env/env.h"
#include "net/wheel.h"
#include "util/list.h"
#include "util/mpsc.h"

struct loop;

enum loop_mode { LOOP_BACKGROUND, LOOP_EXTERNAL };

int loop_new(struct loop **out, const cafka_env *env, enum loop_mode mode, cafka_error *err);
struct loop *loop_ref(struct loop *loop);
/*
 * The last reference stops the runner, runs the tasks that are still posted, and frees; in background
 * mode it must not be dropped on the loop's thread. Timers, watches and slices are gone by then.
 */
void loop_unref(struct loop *loop); /* takes NULL */

/* In a forked child: close what descriptors of it there are; nothing else of it may be used. */
void loop_abandon(struct loop *loop);

const cafka_env *loop_env(const struct loop *loop);
enum loop_mode loop_mode(const struct loop *loop);
bool loop_is_current(const struct loop *loop); /* is this the thread that runs the loop now? */

/*
 * Time as of the start of this turn: cheap, and the same for all that happens in one turn. Outside
 * of a turn (external mode, tests, another thread) the clock itself.
 */
int64_t loop_now_ms(const struct loop *loop);
int64_t loop_now_ns(const struct loop *loop);

/*
 * External mode. Waits at most max_ms for something to happen (-1: without limit), then does what is
 * due: one turn. Errors: CAFKA_ERR_STATE in background mode or inside a turn, CAFKA_ERR_SYSTEM.
 */
int loop_run(struct loop *loop, int64_t max_ms, cafka_error *err);
int64_t loop_timeout_ms(const struct loop *loop); /* until something is due: 0 now, -1 nothing is */
/* Readable when loop_run() has something to do before loop_timeout_ms() is over; -1: poll() backend, has none. */
int loop_fd(const struct loop *loop);

/*
 * Hand-over: `run` is called once on the loop's thread. The task lives in the caller's struct and
 * must not be posted again before it has run (or: guard it with a flag of your own). loop_post()
 * wakes the loop only if it sleeps.
 */
struct loop_task {
    struct mpsc_item link; /* first */
    void (*run)(struct loop_task *task);
};
void loop_post(struct loop *loop, struct loop_task *task);
/* The same for work that can wait until deadline_ns: no wake-up if the loop looks by itself until then. */
void loop_post_by(struct loop *loop, struct loop_task *task, int64_t deadline_ns);
void loop_wake(struct loop *loop); /* one turn soon, even with nothing due; in signal handlers too */

/* When the loop will next look by itself (ns; 0: it is awake). A hint: it may change at any moment. */
int64_t loop_sleeping_until(const struct loop *loop);

/*
 * Work that goes on after this turn, in slices of at most 1 ms: `run` is called once a turn while it
 * is linked, and the loop does not sleep. `run` may stop any slice, its own too.
 */
struct loop_slice {
    struct list link;
    void (*run)(struct loop_slice *slice);
};
void loop_slice_start(struct loop *loop, struct loop_slice *slice); /* again while linked: nothing */
void loop_slice_stop(struct loop *loop, struct loop_slice *slice);

/* A timer fires once. Zeroed `link` is "not set"; setting it again moves it. Deadlines in ms of loop_now_ms(). */
void loop_timer_set(struct loop *loop, struct timer *timer, int64_t deadline_ms);
void loop_timer_cancel(struct loop *loop, struct timer *timer);

/*
 * An alarm rings once at a time in ns of loop_now_ns(), for waits that are shorter than a timer's
 * millisecond. Every turn looks at all that are set, so there should be few. A wait costs the more
 * the more often its end changes, so set one rarely rather than exactly.
 */
struct loop_alarm {
    struct list link;
    int64_t at_ns;
    void (*ring)(struct loop_alarm *alarm);
};
void loop_alarm_set(struct loop *loop, struct loop_alarm *alarm, int64_t at_ns); /* again: moves it */
void loop_alarm_cancel(struct loop *loop, struct loop_alarm *alarm); /* one not set, too */

/* Readiness of a handle. The struct is the caller's; `ready` may change or stop any watch, its own too. */
struct loop_watch {
    int handle;
    unsigned events; /* what is asked for now */
    void (*ready)(struct loop_watch *watch, unsigned events);
    struct loop *loop; /* NULL: not watched */
};
int loop_watch_start(struct loop *loop, struct loop_watch *watch, int handle, unsigned events,
                     void (*ready)(struct loop_watch *, unsigned), cafka_error *err);
/* 0, or minus errno: putting back one whose events were 0 can fail for lack of memory. */
int loop_watch_change(struct loop_watch *watch, unsigned events);
void loop_watch_stop(struct loop_watch *watch); /* before the handle is closed; takes one not watched */

#endif
