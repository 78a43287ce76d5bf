/*
 * mock_room.h - what the files behind <cafka/mock.h> share: mock.c (life, topics, brokers) and
 * mock_faults.c (rules, links, elections).
 *
 * Owner:   whoever called cafka_mock_new().
 * Thread:  the caller's; what a struct call runs is on the cluster's loop.
 * Reading: mock_call().
 */
#ifndef CAFKA_MOCKBROKER_MOCK_ROOM_H
#define CAFKA_MOCKBROKER_MOCK_ROOM_H

#include <cafka/mock.h>

#include "mockbroker/cluster.h"
#include "net/loop.h"

struct sim;

struct cafka_mock {
    struct sim *sim; /* NULL: the real world */
    const cafka_env *env;
    struct loop *loop;
    struct cluster *cluster;
    int event;
    char *bootstrap;
    void (*log)(void *user, int level, const char *area, const char *message);
    void *log_user;
};

/* A call on its way to the loop and back. */
struct call {
    struct loop_task task; /* first */
    cafka_mock *mock;
    int (*run)(struct call *call, cafka_error *err);
    cafka_error err;
    int rc;
    /* what the functions take and give */
    const char *text, *more;
    int32_t a, b;
    int64_t number;
    const void *in;
    void *out;
};

/* Have `run` done on the cluster's loop, and wait for it. err may be NULL. */
int mock_call(cafka_mock *mock, struct call *call, int (*run)(struct call *, cafka_error *),
              cafka_error *err);

#endif
