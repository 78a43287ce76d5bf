/*
 * fetch_request.h - a Fetch request for what a broker's partitions want now, as far as the session
 * does not know it already.
 *
 * Thread: the loop's.
 */
#ifndef CAFKA_CONSUMER_FETCH_REQUEST_H
#define CAFKA_CONSUMER_FETCH_REQUEST_H

#include "consumer/fetcher.h"
#include "protocol/messages/Fetch.h"

enum {
    FETCH_MAX_VERSION = 17, /* 18 adds a field that only replicas send */
    FETCH_FIRST_VERSION = 4 /* magic 2 */
};

/* The newest version that both sides know and that has what we can tell; -1: none. */
int fetch_request_version(const struct fetch_broker *fb, const struct conn *conn);

/*
 * Fill `body` for this version, which asks for at most `ask` bytes; its arrays lie in fetcher->build until the next
 * call. The session takes it as sent: a request that is not sent must be told to
 * fetch_session_failed(). CAFKA_ERR_MEMORY.
 */
int fetch_request_build(struct fetch_broker *fb, int64_t ask, int version,
                        struct fetch_request *body, cafka_error *err);
/* The body was encoded: what it lies in is not needed any more. */
void fetch_request_sent(struct fetcher *fetcher);

#endif
