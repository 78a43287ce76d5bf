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

/* What an owner hears. Any of them may call stream_close() and even stream_free(). */
struct stream_events {
    void (*connected)(void *owner);
    void (*readable)(void *owner);                     /* read until 0 (would block) */
    void (*drained)(void *owner);                      /* the write queue has become empty */
    void (*closed)(void *owner, const cafka_error *err); /* by the peer or by failure; once */
};

int stream_dial(struct stream **out, struct loop *loop, const cafka_address *to,
                const struct stream_events *events, void *owner, cafka_error *err);
int stream_adopt(struct stream **out, struct loop *loop, int handle,
                 const struct stream_events *events, void *owner, cafka_error *err);
void stream_free(struct stream *stream); /* closes; releases every queued piece; takes NULL */
void stream_reset(struct stream *stream); /* the same, with RST; the stream is freed */

/* Bytes read; 0: nothing there now; -1: closed (events->closed has been or will be called). */
ssize_t stream_read(struct stream *stream, void *into, size_t size);
/* Stop or go on reading (back pressure, muting). */
void stream_read_enable(struct stream *stream, bool on);

typedef void stream_release_fn(void *user);
/* Pieces leave in order. `release`, if not NULL, is called once the piece was written or dropped. */
int stream_write_copy(struct stream *stream, const void *data, size_t size, cafka_error *err);
int stream_write_ref(struct stream *stream, const void *data, size_t size,
                     stream_release_fn *release, void *user, cafka_error *err);
int stream_write_file(struct stream *stream, cafka_env_file *file, int64_t offset, size_t size,
                      stream_release_fn *release, void *user, cafka_error *err);
void stream_flush(struct stream *stream);
size_t stream_unwritten(const struct stream *stream); /* bytes queued */
void stream_peer(const struct stream *stream, cafka_address *out);

#endif
