/*
 * stream.c - see stream.h.
 *
 * The write queue is a list of pieces. Bytes that are copied lie in chunks; a piece of copied bytes
 * that follows another one in the same chunk is joined to it. Pieces and a chunk are kept for
 * reuse, so that a stream in use allocates nothing.
 */
#include "net/stream.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "util/alloc.h"

enum {
    CHUNK_SIZE = 4000,       /* of bytes that are copied into the stream */
    SPARE_PIECES_MAX = 1024, /* kept for reuse */
    IOV_COUNT = 256,         /* pieces in one send; IOV_MAX is 1024 where it is known */
    SENDS_PER_FLUSH = 16,    /* then the others on the loop have their turn */
    SEND_BYTES = 4 * 1024 * 1024
};

struct chunk {
    size_t used, capacity;
    unsigned refs; /* pieces that point into it */
    uint8_t bytes[];
};

struct piece {
    struct piece *next;
    size_t size; /* still to be written */
    const uint8_t *data;
    cafka_env_file *file; /* not NULL: from there, at `offset` */
    int64_t offset;
    struct chunk *chunk; /* not NULL: data lies in it */
    stream_release_fn *release;
    void *user;
};

struct stream {
    struct loop *loop;
    const cafka_env *env;
    const struct stream_events *events;
    void *owner;
    struct loop_watch watch;
    struct loop_slice tell_closed; /* linked: `closed` is to be called */
    cafka_address peer;
    cafka_error error; /* why it is closed */
    bool dialed;       /* rather than adopted */
    bool connecting;
    bool reading;
    bool blocked; /* the socket takes no more; waiting until it does */
    bool flushing;
    bool deaf;     /* the peer takes no more; closed once what it sent before is read */
    bool freed;    /* freed inside a callback: the memory goes when that returns */
    unsigned busy; /* callbacks on the stack */

    struct piece *first, *last;
    size_t unwritten;
    struct chunk *filling; /* where the next copied bytes go */
    struct chunk *spare_chunk;
    struct piece *spare;
    unsigned spare_count;
};

/* --- pieces --- */

static struct piece *take_piece(struct stream *s)
{
    struct piece *piece = s->spare;
    if (!piece)
        return mem_zalloc_for(MEM_SOCKETS, sizeof *piece);
    s->spare = piece->next;
    s->spare_count--;
    memset(piece, 0, sizeof *piece);
    return piece;
}

static void append_piece(struct stream *s, struct piece *piece)
{
    if (s->last)
        s->last->next = piece;
    else
        s->first = piece;
    s->last = piece;
    s->unwritten += piece->size;
}

static void drop_chunk(struct stream *s, struct chunk *chunk)
{
    if (--chunk->refs)
        return;
    chunk->used = 0;
    if (chunk == s->filling)
        return;
    if (chunk->capacity == CHUNK_SIZE && !s->spare_chunk)
        s->spare_chunk = chunk;
    else
        mem_free(chunk);
}

/* Take the first piece out, written or not, and tell its owner. */
static void drop_first(struct stream *s)
{
    struct piece *piece = s->first;
    s->first = piece->next;
    if (!s->first)
        s->last = NULL;
    s->unwritten -= piece->size;
    if (piece->chunk)
        drop_chunk(s, piece->chunk);
    stream_release_fn *release = piece->release;
    void *user = piece->user;
    if (s->spare_count < SPARE_PIECES_MAX) {
        piece->next = s->spare;
        s->spare = piece;
        s->spare_count++;
    } else {
        mem_free(piece);
    }
    if (release)
        release(user);
}

/* --- life --- */

static void on_ready(struct loop_watch *watch, unsigned events);
static void on_tell_closed(struct loop_slice *slice);

/* NULL: no memory, and err says so. */
static struct stream *new_stream(struct loop *loop, const struct stream_events *events, void *owner,
                                 cafka_error *err)
{
    struct stream *s = mem_zalloc_for(MEM_SOCKETS, sizeof *s);
    if (!s) {
        (void)error_set(err, CAFKA_ERR_MEMORY, "no memory for a connection");
        return NULL;
    }
    s->loop = loop;
    s->env = loop_env(loop);
    s->events = events;
    s->owner = owner;
    s->watch.handle = -1;
    s->tell_closed.run = on_tell_closed;
    s->reading = true;
    return s;
}

static const char *reason_of(int error)
{
    switch (error) {
    case ECONNREFUSED: return "refused";
    case ECONNRESET: return "reset by the peer";
    case EPIPE: return "closed by the peer";
    case ETIMEDOUT: return "timed out";
    case EHOSTUNREACH: return "failed: no route to the host";
    case ENETUNREACH: return "failed: the network is unreachable";
    case ECONNABORTED: return "aborted";
    }
    return NULL;
}

/* "connection to 127.0.0.1:9092 refused"; error 0 is the end of the stream. */
static int transport_error(const struct stream *s, int error, cafka_error *err)
{
    char address[ADDRESS_TEXT_SIZE];
    address_text(&s->peer, address);
    const char *way = s->dialed ? "to" : "from";
    const char *reason = error ? reason_of(error) : "closed by the peer";
    if (reason)
        return error_set(err, CAFKA_ERR_TRANSPORT, "connection %s %s %s", way, address, reason);
    return error_errno(err, CAFKA_ERR_TRANSPORT, error, "connection %s %s failed", way, address);
}

int stream_dial(struct stream **out, struct loop *loop, const cafka_address *to,
                const struct stream_events *events, void *owner, cafka_error *err)
{
    cafka_dial_options options = {.size = sizeof options};
    return stream_dial_with(out, loop, to, &options, events, owner, err);
}

int stream_dial_with(struct stream **out, struct loop *loop, const cafka_address *to,
                     const cafka_dial_options *options, const struct stream_events *events,
                     void *owner, cafka_error *err)
{
    struct stream *s = new_stream(loop, events, owner, err);
    if (!s)
        return CAFKA_ERR_MEMORY;
    s->dialed = s->connecting = true;
    s->peer = *to;
    int rc, handle = env_dial(s->env, to, options);
    if (handle == -EMFILE || handle == -ENFILE || handle == -ENOMEM || handle == -ENOBUFS)
        rc = error_errno(err, CAFKA_ERR_SYSTEM, -handle, "opening a socket");
    else if (handle < 0)
        rc = transport_error(s, -handle, err);
    else
        rc = loop_watch_start(loop, &s->watch, handle, CAFKA_WRITABLE, on_ready, err);
    if (rc) {
        s->watch.handle = handle;
        stream_free(s);
        return rc;
    }
    *out = s;
    return CAFKA_OK;
}

int stream_adopt(struct stream **out, struct loop *loop, int handle,
                 const struct stream_events *events, void *owner, cafka_error *err)
{
    struct stream *s = new_stream(loop, events, owner, err);
    if (!s) {
        loop_env(loop)->close(loop_env(loop), handle);
        return CAFKA_ERR_MEMORY;
    }
    if (s->env->peer(s->env, handle, &s->peer) < 0)
        s->peer = (cafka_address){.family = 0};
    int rc = loop_watch_start(loop, &s->watch, handle, CAFKA_READABLE, on_ready, err);
    if (rc) {
        s->watch.handle = handle;
        stream_free(s);
        return rc;
    }
    *out = s;
    return CAFKA_OK;
}

static void free_memory(struct stream *s)
{
    mem_free(s->filling);
    mem_free(s->spare_chunk);
    while (s->spare) {
        struct piece *next = s->spare->next;
        mem_free(s->spare);
        s->spare = next;
    }
    mem_free(s);
}

/* Around every call of the owner's functions: true if the owner freed the stream meanwhile. */
static void enter(struct stream *s)
{
    s->busy++;
}

static bool leave_freed(struct stream *s)
{
    s->busy--;
    if (!s->freed)
        return false;
    if (!s->busy)
        free_memory(s);
    return true;
}

static void free_stream(struct stream *s, bool reset)
{
    assert(!s->freed);
    s->freed = true;
    if (!s->error.code)
        (void)error_set(&s->error, CAFKA_ERR_CLOSED, "the connection was closed on this side");
    loop_watch_stop(&s->watch);
    loop_slice_stop(s->loop, &s->tell_closed);
    if (s->watch.handle >= 0 && reset)
        s->env->reset(s->env, s->watch.handle);
    else if (s->watch.handle >= 0)
        s->env->close(s->env, s->watch.handle);
    enter(s);
    while (s->first)
        drop_first(s);
    (void)leave_freed(s);
}

void stream_free(struct stream *stream)
{
    if (stream)
        free_stream(stream, false);
}

void stream_reset(struct stream *stream)
{
    if (stream)
        free_stream(stream, true);
}

/* --- closing --- */

/* The first failure closes; `closed` is called from the loop. */
static void fail(struct stream *s, int error)
{
    if (s->error.code)
        return;
    (void)transport_error(s, error, &s->error);
    s->connecting = s->blocked = false;
    loop_watch_stop(&s->watch);
    loop_slice_start(s->loop, &s->tell_closed);
}

static void on_tell_closed(struct loop_slice *slice)
{
    struct stream *s = list_item(slice, struct stream, tell_closed);
    loop_slice_stop(s->loop, slice);
    if (!s->events->closed)
        return;
    enter(s);
    cafka_error error = s->error; /* the owner may free the stream and go on reading this */
    s->events->closed(s->owner, &error);
    (void)leave_freed(s);
}

const cafka_error *stream_error(const struct stream *stream)
{
    return &stream->error;
}

/* Ask the loop for what the stream waits for. */
static void watch_what_matters(struct stream *s)
{
    if (s->error.code || s->freed)
        return;
    unsigned events = 0;
    if (s->reading && !s->connecting)
        events |= CAFKA_READABLE;
    if (s->blocked || s->connecting)
        events |= CAFKA_WRITABLE;
    int rc = loop_watch_change(&s->watch, events);
    if (rc < 0)
        fail(s, -rc);
}

/* --- reading --- */

ssize_t stream_read(struct stream *s, void *into, size_t size)
{
    if (s->error.code || s->freed)
        return -1;
    if (s->connecting || !size)
        return 0;
    ssize_t got = s->env->recv(s->env, s->watch.handle, into, size);
    if (got > 0)
        return got;
    if (got == -EAGAIN)
        return 0;
    fail(s, (int)-got);
    return -1;
}

void stream_read_enable(struct stream *s, bool on)
{
    s->reading = on;
    watch_what_matters(s);
}

/* --- writing --- */

static int refuse_closed(const struct stream *s, cafka_error *err)
{
    return error_set(err, s->error.code, "%s", s->error.message);
}

/* Room for `size` copied bytes in one chunk; NULL: no memory. */
static struct chunk *chunk_for(struct stream *s, size_t size)
{
    struct chunk *chunk = s->filling;
    if (chunk && chunk->capacity - chunk->used >= size)
        return chunk;
    size_t capacity = size > CHUNK_SIZE ? size : CHUNK_SIZE;
    struct chunk *fresh = capacity == CHUNK_SIZE ? s->spare_chunk : NULL;
    if (fresh)
        s->spare_chunk = NULL;
    else if (size <= SIZE_MAX - sizeof *fresh)
        fresh = mem_alloc_for(MEM_SOCKETS, sizeof *fresh + capacity);
    if (!fresh)
        return NULL;
    *fresh = (struct chunk){.capacity = capacity};
    if (capacity > CHUNK_SIZE)
        return fresh; /* goes when it is written */
    if (chunk && !chunk->refs)
        mem_free(chunk);
    s->filling = fresh;
    return fresh;
}

int stream_write_copy(struct stream *s, const void *data, size_t size, cafka_error *err)
{
    if (s->error.code)
        return refuse_closed(s, err);
    if (!size)
        return CAFKA_OK;
    struct chunk *filling = s->filling;
    struct piece *last = s->last;
    if (last && last->chunk && last->chunk == filling && filling->capacity - filling->used >= size &&
        last->data + last->size == filling->bytes + filling->used) {
        memcpy(filling->bytes + filling->used, data, size);
        filling->used += size;
        last->size += size;
        s->unwritten += size;
        return CAFKA_OK;
    }
    struct piece *piece = take_piece(s);
    struct chunk *chunk = piece ? chunk_for(s, size) : NULL;
    if (!chunk) {
        mem_free(piece);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu bytes to be sent", size);
    }
    memcpy(chunk->bytes + chunk->used, data, size);
    piece->data = chunk->bytes + chunk->used;
    piece->size = size;
    piece->chunk = chunk;
    chunk->used += size;
    chunk->refs++;
    append_piece(s, piece);
    return CAFKA_OK;
}

static int write_piece(struct stream *s, const struct piece *what, cafka_error *err)
{
    if (s->error.code)
        return refuse_closed(s, err);
    struct piece *piece = take_piece(s);
    if (!piece)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu bytes to be sent", what->size);
    *piece = *what;
    append_piece(s, piece);
    return CAFKA_OK;
}

int stream_write_ref(struct stream *s, const void *data, size_t size, stream_release_fn *release,
                     void *user, cafka_error *err)
{
    return write_piece(s,
                       &(struct piece){.data = data, .size = size, .release = release, .user = user},
                       err);
}

int stream_write_file(struct stream *s, cafka_env_file *file, int64_t offset, size_t size,
                      stream_release_fn *release, void *user, cafka_error *err)
{
    return write_piece(s,
                       &(struct piece){.file = file,
                                       .offset = offset,
                                       .size = size,
                                       .release = release,
                                       .user = user},
                       err);
}

/* Send the pieces of memory at the head of the queue with one call. Sets *wanted to their size. */
static ssize_t send_memory(struct stream *s, size_t *wanted)
{
    struct iovec pieces[IOV_COUNT];
    int count = 0;
    *wanted = 0;
    for (struct piece *p = s->first; p && !p->file && count < IOV_COUNT && *wanted < SEND_BYTES;
         p = p->next) {
        if (!p->size)
            continue;
        pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)p->data, .iov_len = p->size};
        *wanted += p->size;
    }
    return count ? s->env->send(s->env, s->watch.handle, pieces, count) : 0;
}

static ssize_t send_first_file(struct stream *s, size_t *wanted)
{
    struct piece *p = s->first;
    *wanted = p->size < SEND_BYTES ? p->size : SEND_BYTES;
    if (!*wanted)
        return 0;
    ssize_t sent = s->env->send_file(s->env, s->watch.handle, p->file, p->offset, *wanted);
    return sent ? sent : -EIO; /* the file is shorter than was promised */
}

/* `sent` bytes are gone from the head of the queue; false if a release function freed the stream. */
static bool advance(struct stream *s, size_t sent)
{
    enter(s);
    while (s->first && s->first->size <= sent && !s->freed) {
        sent -= s->first->size;
        drop_first(s); /* takes its size off `unwritten` */
    }
    if (sent && s->first && !s->freed) {
        struct piece *p = s->first;
        p->size -= sent;
        s->unwritten -= sent;
        if (p->file)
            p->offset += (int64_t)sent;
        else
            p->data += sent;
    }
    return !leave_freed(s);
}

/*
 * A peer that hung up may have answered before: that is still to be read, and the end behind it is
 * what closes the stream.
 */
static void fail_writing(struct stream *s, int error)
{
    if (s->reading && (error == EPIPE || error == ECONNRESET))
        s->deaf = true;
    else
        fail(s, error);
}

/* False if the stream was freed. */
static bool flush(struct stream *s)
{
    if (s->flushing || s->connecting || s->error.code)
        return true;
    s->flushing = true;
    s->blocked = false;
    for (int sends = 0; s->first && !s->deaf && !s->error.code; sends++) {
        if (sends == SENDS_PER_FLUSH) {
            s->blocked = true;
            break;
        }
        size_t wanted;
        ssize_t sent = s->first->file ? send_first_file(s, &wanted) : send_memory(s, &wanted);
        if (sent == -EAGAIN) {
            s->blocked = true;
            break;
        }
        if (sent < 0) {
            fail_writing(s, (int)-sent);
            break;
        }
        if (!advance(s, (size_t)sent))
            return false;
        if ((size_t)sent < wanted) {
            s->blocked = true;
            break;
        }
    }
    s->flushing = false;
    watch_what_matters(s);
    return true;
}

void stream_flush(struct stream *s)
{
    if (!s->blocked)
        (void)flush(s);
}

size_t stream_unwritten(const struct stream *stream)
{
    return stream->unwritten;
}

void stream_peer(const struct stream *stream, cafka_address *out)
{
    *out = stream->peer;
}

/* --- events --- */

/* Call one of the owner's functions; false if it freed the stream. */
static bool tell(struct stream *s, void (*event)(void *owner))
{
    if (!event)
        return true;
    enter(s);
    event(s->owner);
    return !leave_freed(s);
}

static void go_on_writing(struct stream *s)
{
    if (flush(s) && !s->first && !s->error.code)
        (void)tell(s, s->events->drained);
}

static void finish_connecting(struct stream *s)
{
    int rc = s->env->dial_result(s->env, s->watch.handle);
    if (rc == -EINPROGRESS)
        return;
    if (rc < 0) {
        fail(s, -rc);
        return;
    }
    s->connecting = false;
    watch_what_matters(s);
    if (s->error.code || !tell(s, s->events->connected) || s->error.code)
        return;
    s->blocked = s->first != NULL; /* what was written before has waited until now */
    if (s->blocked)
        go_on_writing(s);
}

/* Reading comes first: what a peer said before it hung up is heard. */
static void on_ready(struct loop_watch *watch, unsigned events)
{
    struct stream *s = list_item(watch, struct stream, watch);
    if (s->connecting) {
        finish_connecting(s);
        return;
    }
    if (s->reading && events & (CAFKA_READABLE | CAFKA_HANGUP) && !tell(s, s->events->readable))
        return;
    if (s->blocked && !s->error.code && events & (CAFKA_WRITABLE | CAFKA_HANGUP))
        go_on_writing(s);
}
