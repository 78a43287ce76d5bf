/*
 * broker_fixture.h - what the tests of the mock cluster share: cmocka, and a cluster in a world.
 */
#ifndef CAFKA_TESTS_BROKER_FIXTURE_H
#define CAFKA_TESTS_BROKER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "mockbroker/cluster.h"
#include "tests/lib/test_world.h"

/* A cluster on an external loop, run by the test. */
struct cluster_fixture {
    struct test_world world;
    struct loop *loop;
    struct cluster *cluster;
    char *data_dir; /* kept over a restart; NULL: temporary */
    int brokers;
};

/* Start one (again). properties: "name=value\n…" or NULL. */
void fixture_start(struct cluster_fixture *f, const char *properties);
void fixture_stop(struct cluster_fixture *f, bool clean);

int fixture_open(void **state); /* one broker, a temporary directory */
int fixture_close(void **state);

/* A client by hand: a socket of the world to a broker. */
struct client {
    struct cluster_fixture *f;
    int handle;
    uint8_t bytes[1 << 16]; /* what has arrived */
    size_t size;
    bool closed;
};
void client_open(struct client *c, struct cluster_fixture *f, int32_t broker);
void client_close(struct client *c);
void client_send(struct client *c, const void *data, size_t size);    /* as it is */
void client_send_hex(struct client *c, const char *hex, bool framed); /* spaces are skipped */
/* Encode a request of an API and send it; the correlation id is 1. */
void client_request(struct client *c, int api, int version, const void *body);
/* Run the cluster until a whole answer is there; false: closed, or nothing within 5 s. */
bool client_answer(struct client *c);
/* The answer decoded into `out` (a response struct); the answer is taken out. */
void client_decode(struct client *c, int api, int version, struct arena *arena, void *out);
/* Run the cluster until the connection is closed by the broker; false: it is not within 2 s. */
bool client_is_closed(struct client *c);

#endif
