/*
 * sockets.c - dial, listen, accept, send and recv of the simulated world.
 */
#include "sim/links.h"

#include <errno.h>
#include <string.h>

#include "util/alloc.h"

static struct end *end_of(const cafka_env *env, int handle)
{
    struct handle *h = sim_handle(sim_of(env), handle, HANDLE_SOCKET);
    return h ? h->object : NULL;
}

static struct listener *listener_of(struct sim *sim, int handle)
{
    struct handle *h = sim_handle(sim, handle, HANDLE_LISTENER);
    return h ? h->object : NULL;
}

static size_t window_left(const struct net_world *net, struct end *e)
{
    size_t used = e->under_way.bytes + sim_other_end(e)->arrived.bytes;
    uint32_t window = sim_link_of(net, e->conn)->window;
    return used < window ? window - used : 0;
}

unsigned sim_socket_readiness(struct sim *sim, int handle)
{
    struct listener *listener = listener_of(sim, handle);
    if (listener)
        return listener->waiting ? CAFKA_READABLE : 0;
    struct handle *h = sim_handle(sim, handle, HANDLE_SOCKET);
    if (!h)
        return 0;
    struct end *e = h->object;
    if (e->error)
        return CAFKA_READABLE | CAFKA_WRITABLE | CAFKA_HANGUP;
    unsigned events = 0;
    if (e->arrived.first || e->at_end)
        events |= CAFKA_READABLE;
    if (e->connected && window_left(sim->net, e))
        events |= CAFKA_WRITABLE;
    return events;
}

static int open_end(struct sim *sim, struct end *e)
{
    int handle = sim_handle_new(sim, HANDLE_SOCKET, e);
    if (handle >= 0) {
        e->handle = handle;
        e->opened = true;
    }
    return handle;
}

static int sim_dial(const cafka_env *env, const cafka_address *to)
{
    struct sim *sim = sim_of(env);
    struct conn *c = sim_conn_new(sim, host_of(env), to);
    if (!c)
        return -ENOMEM;
    /* Who listens there, so that a partition holds the dial too. */
    struct listener *listener = sim_find_listener(sim->net, to);
    if (listener)
        c->host[1] = listener->host;
    int handle = open_end(sim, &c->end[0]);
    if (handle < 0)
        sim_conn_free(sim, c);
    else
        sim_say_hello(sim, &c->end[0]);
    return handle;
}

static int sim_dial_result(const cafka_env *env, int handle)
{
    struct end *e = end_of(env, handle);
    if (!e)
        return -EBADF;
    if (e->error)
        return -e->error;
    return e->connected ? 0 : -EINPROGRESS;
}

static int sim_listen(const cafka_env *env, const cafka_address *on, int backlog,
                      cafka_address *bound)
{
    struct sim *sim = sim_of(env);
    struct net_world *net = sim->net;
    cafka_address address = *on;
    for (int tries = DIALER_PORT - EPHEMERAL_PORT; !on->port && tries; tries--) {
        address.port =
            (uint16_t)(EPHEMERAL_PORT + net->next_port++ % (DIALER_PORT - EPHEMERAL_PORT));
        if (!sim_find_listener(net, &address))
            break;
    }
    if (sim_find_listener(net, &address))
        return -EADDRINUSE;
    struct listener *listener = mem_zalloc(sizeof *listener);
    if (!listener)
        return -ENOMEM;
    int handle = sim_handle_new(sim, HANDLE_LISTENER, listener);
    if (handle < 0) {
        mem_free(listener);
        return handle;
    }
    listener->host = host_of(env);
    listener->handle = handle;
    listener->address = address;
    listener->backlog = backlog > 0 ? backlog : 1;
    listener->waiting_end = &listener->waiting;
    list_push_back(&net->listeners, &listener->link);
    if (bound)
        *bound = address;
    return handle;
}

static struct conn *take_waiting(struct listener *listener)
{
    struct conn *c = listener->waiting;
    listener->waiting = c->next_accept;
    if (!listener->waiting)
        listener->waiting_end = &listener->waiting;
    listener->waiting_count--;
    c->waiting = false;
    return c;
}

static int sim_accept(const cafka_env *env, int handle, cafka_address *from)
{
    struct sim *sim = sim_of(env);
    struct listener *listener = listener_of(sim, handle);
    if (!listener)
        return -EBADF;
    if (!listener->waiting)
        return -EAGAIN;
    int accepted = open_end(sim, &listener->waiting->end[1]);
    if (accepted < 0)
        return accepted;
    struct conn *c = take_waiting(listener);
    if (from)
        *from = c->address[0];
    return accepted;
}

/* Of a read or write that could be `size` bytes: often all, sometimes fewer. */
static size_t perhaps_fewer(struct sim *sim, struct end *e, size_t size)
{
    unsigned one_in = sim_link_of(sim->net, e->conn)->split_one_in;
    if (size < 2 || !one_in || rng_below(&sim->net->rng, one_in))
        return size;
    return 1 + (size_t)rng_below(&sim->net->rng, size - 1);
}

static ssize_t sim_recv(const cafka_env *env, int handle, void *into, size_t size)
{
    struct sim *sim = sim_of(env);
    struct end *e = end_of(env, handle);
    if (!e)
        return -EBADF;
    if (!e->arrived.first) {
        if (e->error)
            return -e->error;
        return e->at_end ? 0 : -EAGAIN;
    }
    size = perhaps_fewer(sim, e, size < e->arrived.bytes ? size : e->arrived.bytes);
    for (size_t done = 0; done < size;) {
        struct segment *segment = e->arrived.first;
        size_t part = segment->size - segment->taken;
        if (part > size - done)
            part = size - done;
        memcpy((uint8_t *)into + done, segment->bytes + segment->taken, part);
        segment->taken += part;
        e->arrived.bytes -= part;
        done += part;
        if (segment->taken == segment->size)
            mem_free(sim_segments_pop(&e->arrived));
    }
    sim_touch(sim, sim_other_end(e)->handle); /* its window has opened */
    return (ssize_t)size;
}

static size_t size_of_pieces(const struct iovec *pieces, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += pieces[i].iov_len;
    return size;
}

static void gather(uint8_t *into, size_t size, const struct iovec *pieces, int count)
{
    for (int i = 0; i < count && size; i++) {
        size_t part = pieces[i].iov_len < size ? pieces[i].iov_len : size;
        if (part)
            memcpy(into, pieces[i].iov_base, part);
        into += part;
        size -= part;
    }
}

static ssize_t sim_send(const cafka_env *env, int handle, const struct iovec *pieces, int count)
{
    struct sim *sim = sim_of(env);
    struct end *e = end_of(env, handle);
    if (!e)
        return -EBADF;
    if (e->error)
        return -EPIPE;
    size_t size = size_of_pieces(pieces, count), left = window_left(sim->net, e);
    if (!e->connected || !left)
        return -EAGAIN;
    size = perhaps_fewer(sim, e, size < left ? size : left);
    if (!size)
        return 0;
    struct segment *segment = mem_alloc(sizeof *segment + size);
    if (!segment)
        return -ENOBUFS;
    gather(segment->bytes, size, pieces, count);
    segment->size = size;
    segment->taken = 0;
    segment->at = sim_arrival_time(sim, e, size);
    sim_segments_add(&e->under_way, segment);
    sim_plan_arrival(sim, e);
    return (ssize_t)size;
}

static ssize_t sim_send_file(const cafka_env *env, int handle, cafka_env_file *file, int64_t offset,
                             size_t size)
{
    uint8_t bytes[16 * 1024];
    ssize_t got =
        env->file_read(env, file, bytes, size < sizeof bytes ? size : sizeof bytes, offset);
    if (got <= 0)
        return got;
    return sim_send(env, handle, &(struct iovec){bytes, (size_t)got}, 1);
}

static int sim_peer(const cafka_env *env, int handle, cafka_address *out)
{
    struct end *e = end_of(env, handle);
    if (!e)
        return -EBADF;
    *out = e->conn->address[e == &e->conn->end[0]];
    return 0;
}

static void close_end(struct sim *sim, struct end *e, bool reset)
{
    if (e->handle >= 0)
        sim_handle_free(sim, e->handle);
    e->handle = -1;
    e->opened = true;
    if (!e->error)
        sim_end_direction(sim, e, reset || e->arrived.first ? RESETS : ENDS);
    if (reset)
        sim_segments_clear(&e->under_way);
    sim_plan_arrival(sim, e);
    sim_segments_clear(&e->arrived);
    e->connected = false;
    sim_conn_free_if_done(sim, e->conn);
}

static void close_listener(struct sim *sim, struct listener *listener)
{
    while (listener->waiting)
        close_end(sim, &take_waiting(listener)->end[1], true);
    sim_handle_free(sim, listener->handle);
    list_remove(&listener->link);
    mem_free(listener);
}

static void sim_reset(const cafka_env *env, int handle)
{
    struct end *e = end_of(env, handle);
    if (e)
        close_end(sim_of(env), e, true);
}

static void sim_close(const cafka_env *env, int handle)
{
    struct sim *sim = sim_of(env);
    struct listener *listener = listener_of(sim, handle);
    struct end *e = end_of(env, handle);
    if (listener)
        close_listener(sim, listener);
    else if (e)
        close_end(sim, e, false);
}

void sim_sockets_env(cafka_env *env)
{
    env->dial = sim_dial;
    env->dial_result = sim_dial_result;
    env->listen = sim_listen;
    env->accept = sim_accept;
    env->recv = sim_recv;
    env->send = sim_send;
    env->send_file = sim_send_file;
    env->peer = sim_peer;
    env->reset = sim_reset;
    env->close = sim_close;
}
