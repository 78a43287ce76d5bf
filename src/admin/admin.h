/*
 * admin.h - the admin client from inside: one operation is a request that is repeated until it is
 * answered for good.
 *
 * An operation names its API and target and brings two functions: `build` makes the body from what
 * is still to be done, `take` notes the answer and says whether something is left. Both run on the
 * loop while the thread that asked sleeps, so they may use its memory. Questions to several brokers
 * are operations that run at the same time, so that a slow broker costs the others nothing.
 *
 * Owner:  an operation lives with the thread that waits for it.
 * Thread: admin_run() on the application's; the rest on the loop's.
 */
#ifndef CAFKA_ADMIN_ADMIN_H
#define CAFKA_ADMIN_ADMIN_H

#include <cafka/admin.h>

#include "client/client.h"
#include "util/arena.h"

struct cafka_admin {
    struct client client;
    struct admin_settings settings;
    /* the loop's */
    struct list operations;
    bool stopped;
    struct loop_task stop_task;
    atomic_bool stop_posted;
};

/* What a thread waits for: the end of all of its operations. */
struct operation_wait {
    int event;
    size_t left; /* the loop's, from the first post on */
};

struct operation {
    /* set by whoever makes it */
    int api_key;
    int32_t target; /* broker id, or CALL_… */
    bool once; /* no second attempt, nor waiting for a broker that cannot be reached: the caller
                       looks for another target first */
    void *user;
    /* Allocate the body in op->arena and set op->call.body. */
    int (*build)(struct operation *op, int version, cafka_error *err);
    /* OK: nothing is left. A retriable code: repeat what is left. Another: give up. */
    int (*take)(struct operation *op, const void *response, cafka_error *err);

    /* for build and take */
    struct arena arena;
    int version;
    int64_t throttle_ms; /* set by take: wait at least that long before the next attempt */
    int64_t deadline_ms; /* loop_now_ms() clock */

    /* the engine's */
    struct cafka_admin *admin;
    struct call call;
    struct loop_task task;
    struct list link;
    struct timer timer;
    struct backoff backoff;
    int attempts;
    struct operation_wait *wait;
    cafka_error error; /* how it ended */
};

/*
 * Run them at the same time and wait for the end of all; each one's `error` says how. Deadline as of
 * admin_begin(). Error: CAFKA_ERR_SYSTEM, and none was begun.
 */
int admin_run_all(struct cafka_admin *admin, struct operation *ops, size_t count, int64_t deadline,
                  cafka_error *err);
/* One, whose error it returns. */
int admin_run(struct cafka_admin *admin, struct operation *op, int64_t deadline, cafka_error *err);
/* Check the handle and the timeout, clear err; ns of env->now. */
int admin_begin(struct cafka_admin *admin, int64_t timeout_ms, int64_t *deadline, cafka_error *err);
/* Sleep before another round; CAFKA_ERR_TIMEOUT when the deadline comes first. */
int admin_pause(struct cafka_admin *admin, struct backoff *backoff, int64_t deadline,
                cafka_error *err);

/* What a broker says about one thing: "topic orders: INVALID_PARTITIONS: …". */
void admin_item_error(cafka_error *error, int code, struct str message, const char *kind,
                      const char *name);
/* The first failure of `count` items that lie `stride` bytes apart, told with how many there are. */
int admin_sum_up(const cafka_error *errors, size_t count, size_t stride, cafka_error *err);
/* How long a broker may take for a change: what is left, but no longer than request.timeout.ms. */
int32_t admin_broker_timeout_ms(const struct operation *op);

void *admin_memory(struct operation *op, size_t count, size_t size,
                   cafka_error *err); /* NULL: err is set */

#endif
