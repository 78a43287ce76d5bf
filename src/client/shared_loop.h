/*
 * shared_loop.h - what <cafka/loop.h> calls a cafka_loop, and which thread runs it.
 *
 * Thread: any.
 */
#ifndef CAFKA_CLIENT_SHARED_LOOP_H
#define CAFKA_CLIENT_SHARED_LOOP_H

#include <cafka/loop.h>

#include "net/loop.h"

struct loop *shared_loop_net(const cafka_loop *shared);

/*
 * External mode. Whoever called cafka_loop_run() last owns the loop, until its thread ends; only
 * that thread runs it then, be it in that call or in one that waits. A loop that nobody owns is run
 * by whoever waits, one at a time. shared_loop_wait() is that waiting: until the env event is
 * signalled (which takes it) or the deadline (ns) has passed.
 * Errors: CAFKA_ERR_TIMEOUT, CAFKA_ERR_SYSTEM.
 */
int shared_loop_wait(cafka_loop *shared, int event, int64_t deadline, cafka_error *err);

/* Grows by one in every child process. */
unsigned fork_generation(void);
/* Callbacks of the application on this thread's stack. */
unsigned *callback_depth(void);

#endif
