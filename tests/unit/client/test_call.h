/*
 * test_call.h - a call of the tests, that remembers how it ended.
 */
#ifndef CAFKA_TESTS_TEST_CALL_H
#define CAFKA_TESTS_TEST_CALL_H

#include "client_fixture.h"
#include "protocol/messages/DescribeCluster.h"

struct test_call {
    struct call call; /* first */
    struct describe_cluster_request body;
    int done;
    int prepared; /* version */
    cafka_error error;
    int32_t broker; /* that answered */
};

static inline void on_done(struct call *call, const struct reply *reply)
{
    struct test_call *c = (struct test_call *)call;
    c->done++;
    if (reply->error)
        c->error = *reply->error;
    if (call->broker)
        c->broker = call->broker->id;
}

static inline int on_prepare(struct call *call, int version, cafka_error *err)
{
    (void)err;
    ((struct test_call *)call)->prepared = version;
    return CAFKA_OK;
}

static inline void start_call(struct client_fixture *f, struct test_call *c, int32_t target,
                              int64_t timeout_ms)
{
    memset(c, 0, sizeof *c);
    describe_cluster_request_init(&c->body);
    c->call.request.api_key = API_DESCRIBE_CLUSTER;
    c->call.done = on_done;
    c->call.prepare = on_prepare;
    c->call.body = &c->body;
    if (timeout_ms)
        c->call.deadline_ms = loop_now_ms(f->loop) + timeout_ms;
    client_call(&f->client, &c->call, target, LANE_CONTROL);
    assert_int_equal(c->done, 0); /* never inside client_call() */
}

static inline bool call_is_done(void *arg)
{
    return ((struct test_call *)arg)->done > 0;
}

static inline void wait_call(struct client_fixture *f, struct test_call *c)
{
    assert_true(test_run_until(f->loop, call_is_done, c, 10000));
    assert_int_equal(c->done, 1);
}

#endif
