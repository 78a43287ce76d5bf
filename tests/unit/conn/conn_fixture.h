/*
 * conn_fixture.h - one connection, and one scripted broker on the same loop, for tests of the room.
 */
#ifndef CAFKA_TESTS_CONN_FIXTURE_H
#define CAFKA_TESTS_CONN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conn/backoff.h"
#include "conn/conn.h"
#include "lib/script_broker.h"
#include "lib/test_world.h"
#include "protocol/api_keys.h"
#include "protocol/errors.h"
#include "protocol/messages/ApiVersions.h"
#include "protocol/messages/FindCoordinator.h"
#include "protocol/messages/Heartbeat.h"
#include "protocol/messages/Produce.h"
#include "util/alloc.h"

enum {
    REQUEST_TIMEOUT_MS = 300,
    BACKOFF_MS = 50,
    BACKOFF_MAX_MS = 200,
    SETUP_MS = 200,
    SETUP_MAX_MS = 400,
    IDLE_MS = 500,
    IN_FLIGHT = 3
};

struct fixture {
    struct test_world world;
    struct loop *loop;
    struct script_cluster cluster;
    struct script_broker *broker;
    struct frame_pool *frames;
    struct conn_options options;
    struct conn *conn;
    int ready, writable, down;
    cafka_error why; /* of the last down */
    int64_t down_at_ms[32];
    bool reopen; /* in down */
};

static inline void on_ready(void *owner)
{
    ((struct fixture *)owner)->ready++;
}

static inline void on_writable(void *owner)
{
    ((struct fixture *)owner)->writable++;
}

static inline void on_down(void *owner, const cafka_error *why)
{
    struct fixture *f = owner;
    if (f->down < 32)
        f->down_at_ms[f->down] = loop_now_ms(f->loop);
    f->down++;
    f->why = *why;
    if (f->reopen)
        conn_open(f->conn);
}

static const struct conn_events events = {on_ready, on_writable, on_down};

static inline int open_conn(struct fixture *f, cafka_error *err)
{
    return conn_new(&f->conn, &f->options, "127.0.0.1", f->broker->port, IN_FLIGHT, &events, f, err);
}

static inline int set_up_in(void **state, bool real)
{
    struct fixture *f = calloc(1, sizeof *f);
    cafka_error err = {0};
    if (real)
        f->world.env = cafka_env_real();
    else
        test_world_open(&f->world);
    protocol_errors_register();
    assert_int_equal(loop_new(&f->loop, f->world.env, LOOP_EXTERNAL, &err), 0);
    script_open(&f->cluster, f->loop, 1);
    f->broker = &f->cluster.brokers[0];
    assert_int_equal(frame_pool_new(&f->frames, 1 << 20, &err), 0);
    f->options = (struct conn_options){
        .loop = f->loop,
        .frames = f->frames,
        .client_id = "tester",
        .request_timeout_ms = REQUEST_TIMEOUT_MS,
        .reconnect_backoff_ms = BACKOFF_MS,
        .reconnect_backoff_max_ms = BACKOFF_MAX_MS,
        .setup_timeout_ms = SETUP_MS,
        .setup_timeout_max_ms = SETUP_MAX_MS,
        .max_idle_ms = -1,
        .receive_max_bytes = 1 << 20,
    };
    assert_int_equal(open_conn(f, &err), 0);
    *state = f;
    return 0;
}

static inline int set_up(void **state)
{
    return set_up_in(state, false);
}

static inline int set_up_real(void **state)
{
    return set_up_in(state, true);
}

static inline int tear_down(void **state)
{
    struct fixture *f = *state;
    conn_free(f->conn);
    script_close(&f->cluster);
    frame_pool_unref(f->frames);
    loop_unref(f->loop);
    test_world_close(&f->world);
    free(f);
    return 0;
}

static inline bool is_ready(void *arg)
{
    return conn_state(((struct fixture *)arg)->conn) == CONN_READY;
}

static inline bool is_down(void *arg)
{
    return ((struct fixture *)arg)->down > 0;
}

static inline void make_ready(struct fixture *f)
{
    conn_open(f->conn);
    assert_true(test_run_until(f->loop, is_ready, f, 5000));
}

/* --- a request of the tests --- */

struct ask {
    struct request request;
    struct fixture *fixture;
    int done;
    cafka_error error;
    int order; /* 1: the first that was done */
    void (*then)(struct ask *ask);
};

static int done_count;

static inline void on_done(struct request *request, const struct reply *reply)
{
    struct ask *ask = (struct ask *)request;
    ask->done++;
    ask->order = ++done_count;
    if (reply->error)
        ask->error = *reply->error;
    if (ask->then)
        ask->then(ask);
}

static inline int send_heartbeat(struct fixture *f, struct ask *ask, cafka_error *err)
{
    struct heartbeat_request body;
    heartbeat_request_init(&body);
    body.group_id = body.member_id = str_of("x");
    ask->fixture = f;
    ask->request.api_key = API_HEARTBEAT;
    ask->request.done = on_done;
    return conn_send(f->conn, &ask->request, conn_version(f->conn, API_HEARTBEAT, -1), &body, err);
}

static inline void ask_heartbeat(struct fixture *f, struct ask *ask)
{
    cafka_error err = {0};
    if (send_heartbeat(f, ask, &err))
        fail_msg("%s", err.message);
    assert_int_equal(ask->done, 0); /* never inside conn_send() */
}

static inline bool is_done(void *arg)
{
    return ((struct ask *)arg)->done > 0;
}

static inline void wait_for(struct fixture *f, struct ask *ask)
{
    assert_true(test_run_until(f->loop, is_done, ask, 5000));
    assert_int_equal(ask->done, 1);
}

/* A produce request of one partition whose record bytes lie outside. */
static inline int send_produce(struct fixture *f, struct ask *ask, struct conn_pieces *pieces,
                               size_t size, int acks, cafka_error *err)
{
    struct produce_request body;
    struct produce_request_topic_produce_data topic;
    struct produce_request_partition_produce_data partition;
    produce_request_init(&body);
    produce_request_topic_produce_data_init(&topic);
    produce_request_partition_produce_data_init(&partition);
    partition.records = (struct records){.size = size, .external = pieces};
    topic.name = str_of("t");
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    body.acks = (int16_t)acks;
    body.topic_data = &topic;
    body.topic_data_count = 1;
    ask->request.api_key = API_PRODUCE;
    ask->request.no_response = acks == 0;
    ask->request.done = on_done;
    return conn_send(f->conn, &ask->request, conn_version(f->conn, API_PRODUCE, 12), &body, err);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
