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
/* External mode: does this thread run it (it did last, or nobody did yet)? */
bool shared_loop_is_mine(const cafka_loop *shared);
/* cafka_loop_run() without its checks of the caller. */
int shared_loop_turn(cafka_loop *shared, int64_t max_ms, cafka_error *err);

/* Grows by one in every child process. */
unsigned fork_generation(void);
/* Callbacks of the application on this thread's stack. */
unsigned *callback_depth(void);

#endif
