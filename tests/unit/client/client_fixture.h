/*
 * client_fixture.h - a client on a loop that the test runs, and a scripted cluster on the same.
 */
#ifndef CAFKA_TESTS_CLIENT_FIXTURE_H
#define CAFKA_TESTS_CLIENT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cafka/loop.h>

#include "client/client.h"
#include "client/shared_loop.h"
#include "lib/script_broker.h"
#include "lib/test_world.h"
#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "util/alloc.h"

enum { BROKERS = 3 };

struct client_fixture {
    struct test_world world;
    cafka_loop *shared;
    struct loop *loop;
    struct script_cluster cluster;
    cafka_config *config;
    struct admin_settings settings;
    struct client client;
    bool open;

    /* what the hooks heard */
    unsigned what; /* of all topics, since it was cleared */
    int changes, writable, down;
    /* and the event function */
    int events;
    cafka_event event;
};

static void heard_topic(void *room, struct metadata_topic *topic, unsigned what)
{
    struct client_fixture *f = room;
    (void)topic;
    f->what |= what;
    f->changes++;
}

static void heard_writable(void *room, struct broker *broker, enum lane lane)
{
    (void)broker;
    (void)lane;
    ((struct client_fixture *)room)->writable++;
}

static void heard_down(void *room, struct broker *broker, enum lane lane, const cafka_error *why)
{
    (void)broker;
    (void)lane;
    (void)why;
    ((struct client_fixture *)room)->down++;
}

static void test_log(void *user, int level, const char *area, const char *message)
{
    (void)user;
    print_message("%d %s: %s\n", level, area, message);
}

static void heard_event(const cafka_event *event, void *user)
{
    struct client_fixture *f = user;
    f->events++;
    f->event = *event;
}

static inline void fixture_set(struct client_fixture *f, const char *name, const char *value)
{
    cafka_error err = {0};
    if (cafka_config_set(f->config, name, value, &err))
        fail_msg("%s", err.message);
}

/* Without a client yet: properties may be changed before fixture_start(). */
static inline int fixture_open(void **state)
{
    struct client_fixture *f = calloc(1, sizeof *f);
    cafka_error err = {0};
    char bootstrap[256];
    test_world_open(&f->world);
    assert_int_equal(cafka_loop_new_in(&f->shared, f->world.env, CAFKA_LOOP_EXTERNAL, &err), 0);
    f->loop = shared_loop_net(f->shared);
    script_open(&f->cluster, f->loop, BROKERS);
    script_bootstrap(&f->cluster, BROKERS, bootstrap, sizeof bootstrap);
    assert_int_equal(cafka_config_new(&f->config, &err), 0);
    cafka_config_set_loop(f->config, f->shared);
    cafka_config_set_env(f->config, f->world.env);
    cafka_config_on_event(f->config, heard_event, f);
    if (getenv("CAFKA_TEST_LOG"))
        cafka_config_set_log(f->config, test_log, NULL, CAFKA_LOG_TRACE);
    else
        cafka_config_set_log(f->config, NULL, NULL, CAFKA_LOG_OFF);
    fixture_set(f, "bootstrap.servers", bootstrap);
    fixture_set(f, "callback.dispatch", "loop");
    fixture_set(f, "retry.backoff.ms", "20");
    fixture_set(f, "retry.backoff.max.ms", "80");
    fixture_set(f, "reconnect.backoff.ms", "20");
    fixture_set(f, "reconnect.backoff.max.ms", "80");
    fixture_set(f, "request.timeout.ms", "400");
    fixture_set(f, "default.api.timeout.ms", "400");
    fixture_set(f, "socket.connection.setup.timeout.ms", "300");
    fixture_set(f, "socket.connection.setup.timeout.max.ms", "300");
    *state = f;
    return 0;
}

static inline void fixture_make_client(struct client_fixture *f)
{
    cafka_error err = {0};
    if (settings_for_admin(f->config, &f->settings, &err))
        fail_msg("%s", err.message);
    struct client_options options = {
        .settings = &f->settings.client,
        .hooks = {.topic_changed = heard_topic,
                  .broker_writable = heard_writable,
                  .broker_down = heard_down},
        .room = f,
    };
    if (client_open(&f->client, &options, &err))
        fail_msg("%s", err.message);
    f->open = true;
}

static inline bool metadata_is_ready(void *arg)
{
    return metadata_ready(((struct client_fixture *)arg)->client.metadata);
}

static inline void fixture_start(struct client_fixture *f)
{
    fixture_make_client(f);
    client_start(&f->client);
    assert_true(test_run_until(f->loop, metadata_is_ready, f, 5000));
}

static inline void fixture_stop(struct client_fixture *f)
{
    cafka_error err = {0};
    if (!f->open)
        return;
    if (client_close(&f->client, client_deadline(&f->client, 1000), &err))
        fail_msg("%s", err.message);
    client_fini(&f->client);
    admin_settings_fini(&f->settings);
    f->open = false;
}

static inline int fixture_close(void **state)
{
    struct client_fixture *f = *state;
    fixture_stop(f);
    script_close(&f->cluster);
    cafka_config_free(f->config);
    cafka_loop_free(f->shared);
    test_world_close(&f->world);
    free(f);
    return 0;
}

static inline struct metadata_topic *fixture_topic(struct client_fixture *f, const char *name)
{
    struct metadata_topic *topic;
    cafka_error err = {0};
    assert_int_equal(metadata_topic_ref(f->client.metadata, str_of(name), &topic, &err), 0);
    return topic;
}

static inline bool topic_is_known(void *arg)
{
    return ((struct metadata_topic *)arg)->known;
}

static inline bool topic_has_error(void *arg)
{
    return ((struct metadata_topic *)arg)->error.code;
}

static inline struct metadata_topic *fixture_known_topic(struct client_fixture *f, const char *name)
{
    struct metadata_topic *topic = fixture_topic(f, name);
    assert_true(test_run_until(f->loop, topic_is_known, topic, 5000));
    return topic;
}

/* A full refresh from asking to answer. */
static inline void fixture_refresh(struct client_fixture *f)
{
    int before = script_count(&f->cluster, API_METADATA);
    metadata_refresh(f->client.metadata);
    for (int i = 0; i < 1000 && script_count(&f->cluster, API_METADATA) == before; i++)
        test_run_ms(f->loop, 5);
    test_run_ms(f->loop, 20);
    assert_true(script_count(&f->cluster, API_METADATA) > before);
}

#define CLIENT_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

#endif
