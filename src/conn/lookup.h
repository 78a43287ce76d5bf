/*
 * lookup.h - from a host name to its addresses, without holding up the loop.
 *
 * env->resolve() answers on a thread of its choice and cannot be cancelled; a lookup carries the
 * answer to the loop, and outlives an owner that has lost interest.
 *
 * Owner:  whoever started it, until `done` was called or lookup_cancel().
 * Thread: its loop's.
 */
#ifndef CAFKA_CONN_LOOKUP_H
#define CAFKA_CONN_LOOKUP_H

#include "net/loop.h"

struct lookup;

enum { LOOKUP_MAX = 32 }; /* addresses kept of one name */

/* error is NULL if there is at least one address; both are valid during the call only. */
typedef void lookup_done_fn(void *owner, const cafka_error *error, const cafka_address *addresses,
                            size_t count);

/* `done` is called once, later and on the loop, unless the lookup is cancelled before. */
int lookup_start(struct lookup **out, struct loop *loop, const char *host, uint16_t port,
                 lookup_done_fn *done, void *owner, cafka_error *err);
/*
 * Takes NULL. A task may still be on its way through the loop's queue, so the loop must run what
 * was posted before it is freed.
 */
void lookup_cancel(struct lookup *lookup);

#endif
