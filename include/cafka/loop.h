/*
 * cafka/loop.h - one loop for several clients, or a loop that the application runs itself.
 *
 * A client that is not told otherwise makes a private loop with a thread of its own. With
 * cafka_config_set_loop() clients share one: CAFKA_LOOP_BACKGROUND has one thread, whatever the
 * number of clients; CAFKA_LOOP_EXTERNAL has none, the application runs it:
 *
 *     poll({.fd = cafka_loop_fd(loop), .events = POLLIN}, 1, (int)cafka_loop_timeout_ms(loop));
 *     cafka_loop_run(loop, 0, &err);
 *
 * The thread that called cafka_loop_run() last owns an external loop until that thread ends. A
 * waiting call (flush, poll, close …) made on it runs the loop; made on another thread, it waits for
 * the owner to run it. A loop that nobody owns is run by whoever waits.
 *
 * What a turn of the loop has fetched for a consumer makes no descriptor of the loop readable: after
 * each cafka_loop_run(), poll its consumers with timeout 0 until they give no fetch.
 *
 * Callbacks of a client on such a loop, of either kind, wait for cafka_dispatch() unless its configuration
 * says callback.dispatch=loop: one application's function must not hold up the others. A flush does not
 * run them; a close does.
 */
#ifndef CAFKA_LOOP_H
#define CAFKA_LOOP_H

#include <cafka/config.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CAFKA_LOOP_BACKGROUND = 0, CAFKA_LOOP_EXTERNAL = 1 };

/* In the real world. Errors: CAFKA_ERR_MEMORY, CAFKA_ERR_SYSTEM, CAFKA_ERR_ARGUMENT. */
CAFKA_API int cafka_loop_new(cafka_loop **out, unsigned mode, cafka_error *err);
/* The same in the world of `env`, which must outlive the loop. */
CAFKA_API int cafka_loop_new_in(cafka_loop **out, const cafka_env *env, unsigned mode,
                                cafka_error *err);
/* Once the clients on it are freed. Takes NULL. Not on the loop's own thread. */
CAFKA_API void cafka_loop_free(cafka_loop *loop);

/* External mode: readable when cafka_loop_run() has something to do; -1 where the world has no descriptors. */
CAFKA_API int cafka_loop_fd(cafka_loop *loop);
/*
 * External mode: ms until cafka_loop_run() should be called even if nothing is readable; -1: for ever.
 * Any thread; a few ms while another one runs the loop. Does not block.
 */
CAFKA_API int64_t cafka_loop_timeout_ms(cafka_loop *loop);
/*
 * External mode: run what is due; waits at most max_ms for something to happen (0: not, -1: as
 * long as it takes). One thread at a time; usually always the same.
 *
 * Errors:  CAFKA_ERR_STATE        not an external loop
 *          CAFKA_ERR_CONCURRENT   another thread runs it now; it makes way soon if it only waits
 *          CAFKA_ERR_IN_CALLBACK  called from a callback
 *          CAFKA_ERR_FORKED
 */
CAFKA_API int cafka_loop_run(cafka_loop *loop, int64_t max_ms, cafka_error *err);

#ifdef __cplusplus
}
#endif

#endif
