/*
 * request.h - one request of a client on its way through a broker.
 *
 * A session reads a frame, takes its header apart, finds the API and decodes the body; then the
 * API's handler gets the request context. It answers at once with request_respond(), or keeps the
 * context (in the purgatory, say) and answers later; or request_close(), or request_no_answer().
 * Exactly one of the three ends a request. There is one context a session, since a broker reads
 * the next frame of a connection only after the answer to the last has been written; its arena,
 * its frame and its encoder are used again, so that a request allocates nothing in steady state.
 *
 * Until then `body` and all it points to stay valid: strings and record bytes lie in `frame`,
 * arrays in `arena`. What a handler builds for its response may come from `arena` too.
 *
 * A handler that keeps the context sets `abandon`: it is called instead when the connection is
 * lost or the broker stops. It must let go of the context at once and not answer.
 *
 * Thread: the broker's loop.
 * Reading: request_begin() in request.c, then api_table.c: which handler serves which API.
 */
#ifndef CAFKA_MOCKBROKER_REQUEST_H
#define CAFKA_MOCKBROKER_REQUEST_H

#include "env/env.h"
#include "net/frame.h"
#include "protocol/codec.h"
#include "util/arena.h"

struct broker;
struct session;

/*
 * A part of a file (or, file NULL, of memory) inside a response. Made by request_slice(); put the
 * first of a chain into `records.external` of the response and the sum of the sizes into
 * `records.size`; the bytes leave by sendfile. `release` runs once, when the bytes have left or
 * the response was dropped, in every case: also when the request was never answered.
 */
struct response_slice {
    struct response_slice *next; /* of the same record set; set by the handler */
    cafka_env_file *file;
    int64_t offset;
    const void *memory;
    size_t size;
    void (*release)(struct response_slice *slice); /* may be NULL */
    void *user;
    struct response_slice *all; /* of the request */
};

struct request_context {
    struct session *session;
    struct broker *broker;
    const struct api *api;
    int version;
    struct request_head head;
    void *body; /* the decoded request struct of `api` */
    struct arena arena;
    struct frame *frame;
    int64_t received_ms; /* loop time */

    void *state; /* the handler's, while it keeps the request; usually in `arena` */
    void (*abandon)(struct request_context *ctx);

    /* request.c's own */
    bool active;      /* handled and not ended yet */
    int64_t delay_ms; /* a fault rule: hold the answer back */
    bool drop_answer; /* a fault rule: close instead of answering */
    struct timer delay_timer;
    struct encoded out;
    struct response_slice *slices;
};

/*
 * Encode and send; the request ends, and with it what is in its arena and frame. A response that
 * cannot be encoded closes the connection.
 */
void request_respond(struct request_context *ctx, const void *response);
/* End without an answer, and go on with the next request (Produce with acks=0). */
void request_no_answer(struct request_context *ctx);
/* End by closing the connection. */
void request_close(struct request_context *ctx);

/* A slice for the response; NULL without memory (nothing was taken over then). */
struct response_slice *request_slice(struct request_context *ctx, cafka_env_file *file,
                                     int64_t offset, size_t size,
                                     void (*release)(struct response_slice *), void *user);

/* Answer with the error in every place where the API's response has one, or close if it has none. */
void request_fail(struct request_context *ctx, int code);

/* Memory of the request, zeroed; NULL without memory. */
static inline void *request_alloc(struct request_context *ctx, size_t size)
{
    return arena_alloc(&ctx->arena, size);
}
static inline void *request_calloc(struct request_context *ctx, size_t count, size_t size)
{
    return arena_calloc(&ctx->arena, count, size);
}

/*
 * What serves one API. An API that is offered but has no handler yet is refused with
 * UNSUPPORTED_VERSION where its response has a place for a code, else by closing the connection.
 */
typedef void api_handler_fn(struct request_context *ctx);
api_handler_fn *api_handler_find(int key); /* NULL: none yet */

/* --- for session.c --- */

/*
 * Take the frame apart and hand it to its API; the context owns the frame. It is answered, closed,
 * or kept when this returns.
 */
void request_begin(struct request_context *ctx, struct frame *frame);
/* Everything back to the beginning: slices released, frame and arena given up. */
void request_reset(struct request_context *ctx);
void request_fini(struct request_context *ctx);
/* The connection is lost: tell the handler, if it kept the request. */
void request_abandon(struct request_context *ctx);

#endif
