/*
 * stream.h - a byte stream over a socket: dial or adopt, read, queue what is to be written.
 *
 * Writing is a queue of pieces, so that a request or an answer leaves from where its bytes lie:
 * memory of the caller (with a release function), bytes copied into the stream, or a part of a
 * file. stream_flush() writes as much as the socket takes, many pieces a call; the rest goes out
 * when it can. TLS takes the same place later.
 *
 * Owner:  a connection (client) or a session (broker). Thread: its loop's.
 */
#ifndef CAFKA_NET_STREAM_H
#define CAFKA_NET_STREAM_H

#include "net/loop.h"

struct stream;

/* What an owner hears, from the loop, never from inside a call of its own. Any may be NULL.
 * Inside any of them, and inside a release function, stream_free() and stream_reset() are allowed. */
struct stream_events {
    void (*connected)(void *owner);
    void (*readable)(void *owner); /* called again, turn after turn, while there is something to read */
    void (*drained)(void *owner); /* what stream_flush() had to leave behind has all been written */
    void (*closed)(void *owner,
                   const cafka_error *err); /* by the peer or by failure; once, then only free it */
};

/*
 * Errors: CAFKA_ERR_MEMORY, CAFKA_ERR_SYSTEM, CAFKA_ERR_TRANSPORT (a dial may fail at once).
 * stream_adopt() takes the handle in every case: if it fails, the handle is closed.
 */
int stream_dial(struct stream **out, struct loop *loop, const cafka_address *to,
                const struct stream_events *events, void *owner, cafka_error *err);
/* The same with wishes about the socket, where the world has such. */
int stream_dial_with(struct stream **out, struct loop *loop, const cafka_address *to,
                     const cafka_dial_options *options, const struct stream_events *events,
                     void *owner, cafka_error *err);
int stream_adopt(struct stream **out, struct loop *loop, int handle,
                 const struct stream_events *events, void *owner, cafka_error *err);
void stream_free(struct stream *stream);  /* closes; releases every queued piece; takes NULL */
void stream_reset(struct stream *stream); /* the same, with RST; the stream is freed */

/*
 * Bytes read; 0: nothing there now; -1: closed (events->closed has been or will be called).
 * Fewer bytes than asked for: there was no more just now, no need to ask again before `readable`.
 */
ssize_t stream_read(struct stream *stream, void *into, size_t size);
/* Stop or go on reading (back pressure, muting). While it is off, a hang-up is noticed by writing only. */
void stream_read_enable(struct stream *stream, bool on);
/* Why it is closed; code CAFKA_OK while it is not. */
const cafka_error *stream_error(const struct stream *stream);

typedef void stream_release_fn(void *user);
/*
 * Pieces leave in order. `release`, if not NULL, is called once the piece was written or dropped; not
 * if the call fails. Errors: CAFKA_ERR_MEMORY, CAFKA_ERR_TRANSPORT closed. Nothing is written before
 * stream_flush(). It may be called before the stream is connected, too.
 */
int stream_write_copy(struct stream *stream, const void *data, size_t size, cafka_error *err);
int stream_write_ref(struct stream *stream, const void *data, size_t size,
                     stream_release_fn *release, void *user, cafka_error *err);
int stream_write_file(struct stream *stream, cafka_env_file *file, int64_t offset, size_t size,
                      stream_release_fn *release, void *user, cafka_error *err);
/* Write as much as the socket takes now; the rest goes by itself. A failure is told by `closed`, later. */
void stream_flush(struct stream *stream);
size_t stream_unwritten(const struct stream *stream);              /* bytes queued */
void stream_peer(const struct stream *stream, cafka_address *out); /* family 0: not known */

#endif
