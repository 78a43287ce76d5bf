/*
 * net_fixture.h - a loop in external mode and two ends of a connection, over an env of one's choice.
 *
 * Everything runs on the test's thread: run_until() turns the loop until a condition holds, and a
 * test that waits in vain fails after ten seconds instead of hanging.
 */
#ifndef TESTS_NET_FIXTURE_H
#define TESTS_NET_FIXTURE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/frame.h"
#include "net/loop.h"
#include "net/stream.h"
#include "util/alloc.h"
#include "util/rng.h"

struct end {
    struct stream *stream;
    struct frame_reader reader;
    bool connected, closed, drained;
    bool free_in_callback, free_when_closed;
    cafka_error error;
    unsigned readable_count;
    void (*on_readable)(struct end *end);
    void *user;
};

struct net {
    const cafka_env *env;
    struct loop *loop;
    struct frame_pool *pool;
    int listener;
    cafka_address address;
    struct loop_watch accepting;
    int accepted; /* handle; -1: none yet */
    struct end client, server;
};

static inline void end_maybe_free(struct end *end)
{
    if (end->free_in_callback && end->stream) {
        stream_free(end->stream);
        end->stream = NULL;
    }
}

static void end_connected(void *owner)
{
    struct end *end = owner;
    end->connected = true;
    end_maybe_free(end);
}

static void end_readable(void *owner)
{
    struct end *end = owner;
    end->readable_count++;
    if (end->on_readable)
        end->on_readable(end);
    end_maybe_free(end);
}

static void end_drained(void *owner)
{
    struct end *end = owner;
    end->drained = true;
    end_maybe_free(end);
}

static void end_closed(void *owner, const cafka_error *err)
{
    struct end *end = owner;
    assert_false(end->closed); /* once */
    end->closed = true;
    end->error = *err;
    end->free_in_callback |= end->free_when_closed;
    end_maybe_free(end);
}

static const struct stream_events end_events = {end_connected, end_readable, end_drained,
                                                end_closed};

static inline void net_turn(struct net *net)
{
    cafka_error err = {0};
    assert_int_equal(loop_run(net->loop, 100, &err), CAFKA_OK);
}

#define run_until(net, condition) \
    do { \
        int64_t give_up_ = (net)->env->now((net)->env) + 10000 * NS_PER_MS; \
        while (!(condition)) { \
            if ((net)->env->now((net)->env) > give_up_) \
                fail_msg("waited in vain for %s", #condition); \
            net_turn(net); \
        } \
    } while (0)

static void accept_one(struct loop_watch *watch, unsigned events)
{
    struct net *net = container_of(watch, struct net, accepting);
    (void)events;
    int handle = net->env->accept(net->env, net->listener, NULL);
    if (handle >= 0)
        net->accepted = handle;
}

static inline void net_open(struct net *net, const cafka_env *env)
{
    memset(net, 0, sizeof *net);
    net->env = env;
    net->accepted = -1;
    cafka_error err = {0};
    assert_int_equal(loop_new(&net->loop, env, LOOP_EXTERNAL, &err), CAFKA_OK);
    assert_int_equal(frame_pool_new(&net->pool, 8 << 20, &err), CAFKA_OK);
    cafka_address any;
    assert_true(address_parse("127.0.0.1", 0, &any));
    net->listener = env->listen(env, &any, 16, &net->address);
    assert_true(net->listener >= 0);
    assert_int_equal(loop_watch_start(net->loop, &net->accepting, net->listener, CAFKA_READABLE,
                                      accept_one, &err),
                     CAFKA_OK);
}

/* Dial the listener; afterwards net->client is connected and net->accepted a bare handle. */
static inline void net_dial(struct net *net)
{
    cafka_error err = {0};
    assert_int_equal(stream_dial(&net->client.stream, net->loop, &net->address, &end_events,
                                 &net->client, &err),
                     CAFKA_OK);
    run_until(net, net->client.connected && net->accepted >= 0);
}

/* Both ends as streams, with readers of frames of up to `limit` bytes. */
static inline void net_connect(struct net *net, uint32_t limit)
{
    cafka_error err = {0};
    net_dial(net);
    assert_int_equal(stream_adopt(&net->server.stream, net->loop, net->accepted, &end_events,
                                  &net->server, &err),
                     CAFKA_OK);
    net->accepted = -1;
    frame_reader_init(&net->client.reader, net->pool, limit);
    frame_reader_init(&net->server.reader, net->pool, limit);
}

static inline void net_close(struct net *net)
{
    stream_free(net->client.stream);
    stream_free(net->server.stream);
    frame_reader_fini(&net->client.reader);
    frame_reader_fini(&net->server.reader);
    if (net->accepted >= 0)
        net->env->close(net->env, net->accepted);
    loop_watch_stop(&net->accepting);
    net->env->close(net->env, net->listener);
    frame_pool_unref(net->pool);
    loop_unref(net->loop);
}

#endif
