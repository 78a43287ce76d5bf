/*
 * cafka/client.h - what producers, consumers and admins have in common.
 *
 * cafka_producer_client() and its siblings give the cafka_client of a handle; it lives as long as
 * the handle does.
 */
#ifndef CAFKA_CLIENT_H
#define CAFKA_CLIENT_H

#include <cafka/config.h>
#include <cafka/loop.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A descriptor for the application's own poll loop, of any kind (poll, epoll by level, libuv). It is
 * readable
 *   - while callbacks wait for cafka_dispatch(),
 *   - of a consumer, also from the moment that cafka_consumer_poll() has something to say (records,
 *     an error, a wakeup) until it has given NULL with CAFKA_OK,
 * and now and then for nothing. So when it is readable: cafka_dispatch(client, 0), and of a consumer
 * cafka_consumer_poll() with timeout 0 until that gives no fetch (it runs the callbacks as well, so
 * a consumer needs no cafka_dispatch()). A cafka_dispatch() that waits has the descriptor to itself
 * meanwhile. Never read from it or close it; it goes with the handle.
 *
 * Asking costs a consumer a system call each time that records come after it had found none.
 * -1 where the world has no descriptors. Thread: any; does not block.
 */
CAFKA_API int cafka_client_fd(const cafka_client *client);

/*
 * Run the callbacks that wait (callback.dispatch=queue) on this thread; if there are none, wait
 * for one up to timeout_ms (-1: for ever, 0: not at all). Returns how many ran, or a negative
 * CAFKA_ERR_* code: _FORKED, _IN_CALLBACK, _WOULD_BLOCK (it would have to wait on the loop's thread).
 * Thread: any.
 */
CAFKA_API int cafka_dispatch(cafka_client *client, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
