/*
 * test_client.c - calls, waiting, callbacks, closing: what all clients have in common.
 */
#include "test_call.h"

#include "config.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cafka/client.h>

#include "protocol/messages/Heartbeat.h"

/* --- waiting --- */

static void waiting_ends_with_the_event_or_the_deadline(void **state)
{
    struct client_fixture *f = *state;
    const cafka_env *env = f->world.env;
    cafka_error err = {0};
    fixture_start(f);
    int event = env->event_open(env);
    int64_t before = env_now_ms(env);
    assert_int_equal(client_wait(&f->client, event, client_deadline(&f->client, 50), &err),
                     CAFKA_ERR_TIMEOUT);
    assert_in_range(env_now_ms(env) - before, 50, 100);
    client_signal(&f->client, event);
    assert_int_equal(client_wait(&f->client, event, CAFKA_NEVER, NULL), CAFKA_OK);
    assert_int_equal(client_wait(&f->client, event, 0, NULL), CAFKA_ERR_TIMEOUT);
    env->event_close(env, event);
    assert_int_equal(client_deadline(&f->client, -1), CAFKA_NEVER);
    assert_int_equal(client_deadline(&f->client, INT64_MAX), CAFKA_NEVER);
}

struct seen {
    struct client_fixture *f;
    int may_wait, run, calls;
};

static void count_call(void *arg)
{
    struct seen *seen = arg;
    seen->calls++;
}

static void look_on_the_loop(void *arg)
{
    struct seen *seen = arg;
    seen->may_wait = client_may_wait(&seen->f->client, NULL);
    seen->run = client_run(&seen->f->client, count_call, seen, NULL);
}

static void the_loops_thread_never_waits(void **state)
{
    struct client_fixture *f = *state;
    struct seen seen = {.f = f};
    fixture_start(f);
    assert_int_equal(client_may_wait(&f->client, NULL), CAFKA_OK);
    assert_int_equal(client_run(&f->client, look_on_the_loop, &seen, NULL), CAFKA_OK);
    assert_int_equal(seen.may_wait, CAFKA_ERR_WOULD_BLOCK);
    assert_int_equal(seen.run, CAFKA_OK);
    assert_int_equal(seen.calls, 1);
}

static int inside[3];
static struct client_fixture *inside_fixture;

static void look_inside_callback(const cafka_event *event, void *user)
{
    struct client_fixture *f = inside_fixture;
    (void)event;
    (void)user;
    inside[0] = client_may_wait(&f->client, NULL);
    inside[1] = client_close(&f->client, CAFKA_NEVER, NULL);
    inside[2] = cafka_loop_run(f->shared, 0, NULL);
}

static void a_callback_never_waits_but_may_begin_to_close(void **state)
{
    struct client_fixture *f = *state;
    int told = 0;
    cafka_error error = {0};
    cafka_config_on_event(f->config, look_inside_callback, f);
    inside_fixture = f;
    fixture_start(f);
    error_set(&error, CAFKA_ERR_STATE, "something");
    client_report(&f->client, &told, &error, NULL, -1, -1);
    assert_int_equal(inside[0], CAFKA_ERR_IN_CALLBACK);
    assert_int_equal(inside[1], CAFKA_ERR_IN_CALLBACK);
    assert_int_equal(inside[2], CAFKA_ERR_IN_CALLBACK);
    test_run_ms(f->loop, 20);
    assert_int_equal(client_usable(&f->client, NULL), CAFKA_ERR_CLOSED);
    assert_true(f->client.stopped);
}

/* --- callbacks --- */

static void an_error_is_reported_once_for_each_cause(void **state)
{
    struct client_fixture *f = *state;
    int told = 0;
    cafka_error error = {0};
    fixture_start(f);
    error_set(&error, CAFKA_ERR_STATE, "something");
    client_report(&f->client, &told, &error, "topic", 3, 2);
    client_report(&f->client, &told, &error, "topic", 3, 2);
    assert_int_equal(f->events, 1);
    assert_int_equal(f->event.partition, 3);
    assert_int_equal(f->event.broker, 2);
    assert_string_equal(f->event.error.message, "something");
    told = 0; /* things were well meanwhile */
    client_report(&f->client, &told, &error, NULL, -1, -1);
    assert_int_equal(f->events, 2);
    assert_null(f->event.topic);
}

static bool is_readable(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return fd >= 0 && poll(&one, 1, 0) == 1;
}

static void queued_callbacks_run_in_dispatch(void **state)
{
    struct client_fixture *f = *state;
    int told = 0;
    cafka_error error = {0};
    fixture_set(f, "callback.dispatch", "queue");
    fixture_start(f);
    cafka_client *client = client_public(&f->client);
    int fd = cafka_client_fd(client);
    assert_true(f->world.sim ? fd == -1 : fd > STDERR_FILENO);
    assert_false(is_readable(fd));
    assert_int_equal(cafka_dispatch(client, 0), 0);
    assert_int_equal(cafka_dispatch(client, 20), 0);
    error_set(&error, CAFKA_ERR_STATE, "something");
    client_report(&f->client, &told, &error, NULL, -1, -1);
    told = 0;
    client_report(&f->client, &told, &error, NULL, -1, -1);
    assert_int_equal(f->events, 0);
    assert_true(f->world.sim || is_readable(fd));
    assert_int_equal(cafka_dispatch(client, -1), 2);
    assert_false(is_readable(fd));
    assert_int_equal(f->events, 2);
    assert_int_equal(cafka_dispatch(client, 0), 0);
    assert_int_equal(cafka_dispatch(NULL, 0), CAFKA_ERR_ARGUMENT);
}

static void what_is_queued_at_the_end_is_still_told(void **state)
{
    struct client_fixture *f = *state;
    int told = 0;
    cafka_error error = {0};
    fixture_set(f, "callback.dispatch", "queue");
    fixture_start(f);
    error_set(&error, CAFKA_ERR_STATE, "something");
    client_report(&f->client, &told, &error, NULL, -1, -1);
    fixture_stop(f);
    assert_int_equal(f->events, 1);
}

/* --- the end --- */

static void closing_fails_calls_and_requests_in_every_state(void **state)
{
    struct client_fixture *f = *state;
    for (int turns = 0; turns < 30; turns++) {
        struct test_call any, second, unknown;
        fixture_make_client(f);
        client_start(&f->client);
        start_call(f, &any, CALL_ANY, 0);
        start_call(f, &second, 2, 0);
        start_call(f, &unknown, 42, 0);
        (void)fixture_topic(f, "t");
        for (int i = 0; i < turns; i++)
            test_run_ms(f->loop, 0);
        fixture_stop(f);
        assert_int_equal(any.done, 1);
        assert_int_equal(second.done, 1);
        assert_int_equal(unknown.done, 1);
        assert_int_equal(unknown.error.code, CAFKA_ERR_CLOSED);
    }
}

static void closing_twice_and_a_client_that_never_started_is_fine(void **state)
{
    struct client_fixture *f = *state;
    fixture_make_client(f);
    assert_int_equal(client_close(&f->client, CAFKA_NEVER, NULL), CAFKA_OK);
    assert_int_equal(client_close(&f->client, 0, NULL), CAFKA_OK);
    struct client zeroed = {0};
    client_fini(&zeroed);
    assert_int_equal(client_run(&f->client, count_call, NULL, NULL), CAFKA_ERR_CLOSED);
}

static void call_again(struct call *call, const struct reply *reply)
{
    struct test_call *c = (struct test_call *)call;
    (void)reply;
    if (c->done++ < 3)
        client_call(inside_fixture->open ? &inside_fixture->client : NULL, call, CALL_ANY,
                    LANE_CONTROL);
}

static void calls_made_while_closing_are_failed_too(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    inside_fixture = f;
    fixture_start(f);
    start_call(f, &c, 42, 5000);
    c.call.done = call_again;
    fixture_stop(f);
    assert_true(c.done >= 2);
}

static void without_memory_a_client_does_not_open_and_leaks_nothing(void **state)
{
    struct client_fixture *f = *state;
    cafka_error err = {0};
    assert_int_equal(settings_for_admin(f->config, &f->settings, &err), 0);
    struct client_options options = {.settings = &f->settings.client, .room = f};
    int k = 0, rc;
    do {
        mem_fail_after((unsigned long)++k, 0);
        rc = client_open(&f->client, &options, &err);
        mem_fail_after(0, 0);
        assert_true(rc == 0 || rc == CAFKA_ERR_MEMORY || rc == CAFKA_ERR_SYSTEM);
        error_clear(&err);
    } while (rc && k < 100);
    assert_int_equal(rc, 0);
    assert_true(k > 2);
    f->open = true;
}

static void without_memory_metadata_comes_later(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "t", 3);
    fixture_start(f);
    for (unsigned long k = 1; k < 40; k++) {
        char name[16];
        snprintf(name, sizeof name, "t%lu", k);
        f->cluster.topics[0].name = name;
        struct metadata_topic *topic = NULL;
        mem_fail_after(k, 0);
        int rc = metadata_topic_ref(f->client.metadata, str_of(name), &topic, NULL);
        mem_fail_after(0, 0);
        if (rc)
            continue;
        assert_true(test_run_until(f->loop, topic_is_known, topic, 2000));
        metadata_topic_unref(f->client.metadata, topic);
    }
}

/* --- a loop of its own, in the real world: threads --- */

struct real {
    cafka_config *config;
    struct admin_settings settings;
    struct client client;
    cafka_loop *loop;     /* NULL: a private one */
    const cafka_env *env; /* NULL: the real one, which it is in any case but for its pollers */
    const char *send_buffer, *receive_buffer; /* NULL: not set */
    int entered, release;                     /* events */
    atomic_int runs;
};

enum { PATIENCE_MS = 30000 };

static void open_real(struct real *r, const char *bootstrap, cafka_event_fn *fn)
{
    cafka_error err = {0};
    assert_int_equal(cafka_config_new(&r->config, &err), 0);
    assert_int_equal(cafka_config_set(r->config, "bootstrap.servers", bootstrap, &err), 0);
    cafka_config_set_log(r->config, NULL, NULL, CAFKA_LOG_OFF);
    cafka_config_on_event(r->config, fn, r);
    assert_int_equal(cafka_config_set(r->config, "send.buffer.bytes", r->send_buffer, &err), 0);
    assert_int_equal(cafka_config_set(r->config, "receive.buffer.bytes", r->receive_buffer, &err),
                     0);
    if (r->loop)
        cafka_config_set_loop(r->config, r->loop);
    if (r->env)
        cafka_config_set_env(r->config, r->env);
    assert_int_equal(settings_for_admin(r->config, &r->settings, &err), 0);
    struct client_options options = {.settings = &r->settings.client, .room = r};
    assert_int_equal(client_open(&r->client, &options, &err), 0);
}

static void close_real(struct real *r)
{
    client_fini(&r->client);
    admin_settings_fini(&r->settings);
    cafka_config_free(r->config);
}

static void count_run(void *arg)
{
    atomic_fetch_add(&((struct real *)arg)->runs, 1);
}

static void *run_many(void *arg)
{
    struct real *r = arg;
    for (int i = 0; i < 500; i++)
        assert_int_equal(client_run(&r->client, count_run, r, NULL), CAFKA_OK);
    return NULL;
}

static void many_threads_cross_to_one_loop(void **state)
{
    (void)state;
    struct real r = {0};
    pthread_t threads[4];
    open_real(&r, "127.0.0.1:1", NULL);
    client_start(&r.client);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &r), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(r.runs, 2000);
    close_real(&r);
}

static void hang(const cafka_event *event, void *user)
{
    struct real *r = user;
    const cafka_env *env = r->client.env;
    (void)event;
    env->event_signal(env, r->entered);
    assert_int_equal(env->event_wait(env, r->release, CAFKA_NEVER), 1);
}

static void closing_keeps_its_deadline_while_a_callback_hangs(void **state)
{
    (void)state;
    const cafka_env *env = cafka_env_real();
    struct real r = {.entered = env->event_open(env), .release = env->event_open(env)};
    cafka_error err = {0};
    open_real(&r, "127.0.0.1:1", hang);
    client_start(&r.client); /* nobody is there: the event function is called, and hangs */
    assert_int_equal(env->event_wait(env, r.entered, client_deadline(&r.client, PATIENCE_MS)), 1);
    assert_int_equal(client_close(&r.client, client_deadline(&r.client, 30), &err),
                     CAFKA_ERR_TIMEOUT);
    env->event_signal(env, r.release);
    assert_int_equal(client_close(&r.client, CAFKA_NEVER, NULL), CAFKA_OK);
    close_real(&r);
    env->event_close(env, r.entered);
    env->event_close(env, r.release);
}

/* --- whose an external loop is --- */

struct owner {
    struct real *r;
    cafka_loop *loop;
    int ready, go; /* events */
};

/* Owns the loop, and then does other things until it is told to end. */
static void *own_for_a_while(void *arg)
{
    struct owner *o = arg;
    const cafka_env *env = cafka_env_real();
    assert_int_equal(cafka_loop_run(o->loop, 0, NULL), CAFKA_OK);
    env->event_signal(env, o->ready);
    assert_int_equal(env->event_wait(env, o->go, CAFKA_NEVER), 1);
    return NULL;
}

static void *cross_once(void *arg)
{
    struct owner *o = arg;
    assert_int_equal(client_run(&o->r->client, count_run, o->r, NULL), CAFKA_OK);
    return NULL;
}

static void open_owned(struct owner *o, struct real *r)
{
    const cafka_env *env = cafka_env_real();
    *o = (struct owner){.r = r, .ready = env->event_open(env), .go = env->event_open(env)};
    assert_int_equal(cafka_loop_new(&o->loop, CAFKA_LOOP_EXTERNAL, NULL), CAFKA_OK);
    r->loop = o->loop;
    open_real(r, "127.0.0.1:1", NULL);
}

static void close_owned(struct owner *o)
{
    const cafka_env *env = cafka_env_real();
    close_real(o->r);
    cafka_loop_free(o->loop);
    env->event_close(env, o->ready);
    env->event_close(env, o->go);
}

static void start_owner(struct owner *o, pthread_t *thread)
{
    const cafka_env *env = cafka_env_real();
    assert_int_equal(pthread_create(thread, NULL, own_for_a_while, o), 0);
    assert_int_equal(env->event_wait(env, o->ready, CAFKA_NEVER), 1);
}

/* Two threads wait, without a deadline, for a loop whose owner goes: each is served. */
static void who_waits_runs_a_loop_whose_owner_has_ended(void **state)
{
    (void)state;
    const cafka_env *env = cafka_env_real();
    struct real r = {0};
    struct owner o;
    pthread_t owner, waiters[2];
    open_owned(&o, &r);
    start_owner(&o, &owner);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&waiters[i], NULL, cross_once, &o), 0);
    env->event_signal(env, o.go);
    pthread_join(owner, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(waiters[i], NULL);
    assert_int_equal(atomic_load(&r.runs), 2);
    assert_int_equal(client_run(&r.client, count_run, &r, NULL), CAFKA_OK); /* and any other thread */
    close_owned(&o);
}

static void only_the_owner_runs_a_loop_while_it_lives(void **state)
{
    (void)state;
    const cafka_env *env = cafka_env_real();
    struct real r = {0};
    struct owner o;
    pthread_t owner;
    cafka_error err = {0};
    int never = env->event_open(env);
    open_owned(&o, &r);
    start_owner(&o, &owner);
    client_start(&r.client); /* something for the loop to do */
    assert_int_equal(client_wait(&r.client, never, client_deadline(&r.client, 20), &err),
                     CAFKA_ERR_TIMEOUT);
    assert_int_equal(cafka_loop_timeout_ms(o.loop), 0); /* it is still to be done */
    env->event_signal(env, o.go);
    pthread_join(owner, NULL);
    env->event_close(env, never);
    close_owned(&o);
}

/* A world that remembers what was asked of a socket. */
static cafka_dial_options dialed_with;

static int remember_dial(const cafka_env *env, const cafka_address *to,
                         const cafka_dial_options *options)
{
    dialed_with = *options;
    return env->dial(env, to);
}

static void dial_with_properties(const char *send_buffer, const char *receive_buffer)
{
    cafka_env env = *cafka_env_real();
    struct real r = {.env = &env,
                     .entered = -1,
                     .send_buffer = send_buffer,
                     .receive_buffer = receive_buffer};
    env.dial_with = remember_dial;
    dialed_with.size = 0;
    assert_int_equal(cafka_loop_new_in(&r.loop, &env, CAFKA_LOOP_EXTERNAL, NULL), CAFKA_OK);
    open_real(&r, "127.0.0.1:1", NULL);
    client_start(&r.client);
    while (!dialed_with.size)
        assert_int_equal(cafka_loop_run(r.loop, PATIENCE_MS, NULL), CAFKA_OK);
    close_real(&r);
    cafka_loop_free(r.loop);
}

static void sockets_get_the_buffers_that_properties_name(void **state)
{
    (void)state;
    dial_with_properties("70000", "-1");
    assert_int_equal(dialed_with.send_buffer_bytes, 70000);
    assert_int_equal(dialed_with.receive_buffer_bytes, 0);
    dial_with_properties(NULL, "80000");
    assert_int_equal(dialed_with.send_buffer_bytes, 0); /* the kernel tunes it */
    assert_int_equal(dialed_with.receive_buffer_bytes, 80000);
}

/* A world whose poller has broken. */
static int broken_wait(const cafka_env *env, int poller, cafka_poll_event *out, int max,
                       int64_t deadline)
{
    (void)env;
    (void)poller;
    (void)out;
    (void)max;
    (void)deadline;
    return -EBADF;
}

static void a_loop_that_cannot_be_run_is_an_error_of_who_waits_for_it(void **state)
{
    (void)state;
    cafka_env env = *cafka_env_real();
    struct real r = {.env = &env};
    cafka_error err = {0};
    assert_int_equal(cafka_loop_new_in(&r.loop, &env, CAFKA_LOOP_EXTERNAL, &err), CAFKA_OK);
    open_real(&r, "127.0.0.1:1", NULL);
    env.poller_wait = broken_wait;
    assert_int_equal(client_wait(&r.client, r.client.dispatch_event, CAFKA_NEVER, &err),
                     CAFKA_ERR_SYSTEM);
    assert_non_null(strstr(err.message, "loop could not be run"));
    env.poller_wait = cafka_env_real()->poller_wait;
    close_real(&r);
    cafka_loop_free(r.loop);
}

static void a_child_process_cannot_use_the_client_of_its_parent(void **state)
{
    (void)state;
    struct real r = {0};
    open_real(&r, "127.0.0.1:1", NULL);
    client_start(&r.client);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        int event = r.client.finish_event;
        bool good = client_run(&r.client, count_run, &r, NULL) == CAFKA_ERR_FORKED &&
                    client_close(&r.client, CAFKA_NEVER, NULL) == CAFKA_ERR_FORKED &&
                    client_wait(&r.client, event, CAFKA_NEVER, NULL) == CAFKA_ERR_FORKED &&
                    cafka_dispatch(client_public(&r.client), -1) == CAFKA_ERR_FORKED;
        client_fini(&r.client);
        /* Ends as another program: what a child keeps of its parent's client is no leak. */
        execlp(good ? "true" : "false", "end", (char *)NULL);
        _exit(2);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(client_run(&r.client, count_run, &r, NULL), CAFKA_OK); /* the parent's goes on */
    assert_int_equal(r.runs, 1);
    close_real(&r);
}

static void a_loop_says_what_it_does_not_take(void **state)
{
    (void)state;
    cafka_loop *loop = NULL;
    cafka_error err;
    assert_int_equal(cafka_loop_new(NULL, CAFKA_LOOP_EXTERNAL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_loop_new(&loop, 7, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_loop_new(&loop, CAFKA_LOOP_BACKGROUND, &err), CAFKA_OK);
    assert_int_equal(cafka_loop_run(loop, 0, &err), CAFKA_ERR_STATE);
    cafka_loop_free(loop);
    assert_int_equal(cafka_loop_new(&loop, CAFKA_LOOP_EXTERNAL, &err), CAFKA_OK);
#ifdef HAVE_EPOLL /* poll() has no descriptor to hand out */
    assert_true(cafka_loop_fd(loop) >= 0);
#else
    assert_int_equal(cafka_loop_fd(loop), -1);
#endif
    assert_int_equal(cafka_loop_timeout_ms(loop), -1);
    assert_int_equal(cafka_loop_run(loop, 0, &err), CAFKA_OK);
    assert_int_equal(cafka_loop_run(loop, -2, &err), CAFKA_ERR_ARGUMENT);
    cafka_loop_free(loop);
    cafka_loop_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLIENT_TEST(waiting_ends_with_the_event_or_the_deadline),
        CLIENT_TEST(the_loops_thread_never_waits),
        CLIENT_TEST(a_callback_never_waits_but_may_begin_to_close),
        CLIENT_TEST(an_error_is_reported_once_for_each_cause),
        CLIENT_TEST(queued_callbacks_run_in_dispatch),
        CLIENT_TEST(what_is_queued_at_the_end_is_still_told),
        CLIENT_TEST(closing_fails_calls_and_requests_in_every_state),
        CLIENT_TEST(closing_twice_and_a_client_that_never_started_is_fine),
        CLIENT_TEST(calls_made_while_closing_are_failed_too),
        CLIENT_TEST(without_memory_a_client_does_not_open_and_leaks_nothing),
        CLIENT_TEST(without_memory_metadata_comes_later),
        cmocka_unit_test(many_threads_cross_to_one_loop),
        cmocka_unit_test(closing_keeps_its_deadline_while_a_callback_hangs),
        cmocka_unit_test(who_waits_runs_a_loop_whose_owner_has_ended),
        cmocka_unit_test(only_the_owner_runs_a_loop_while_it_lives),
        cmocka_unit_test(sockets_get_the_buffers_that_properties_name),
        cmocka_unit_test(a_loop_that_cannot_be_run_is_an_error_of_who_waits_for_it),
        cmocka_unit_test(a_child_process_cannot_use_the_client_of_its_parent),
        cmocka_unit_test(a_loop_says_what_it_does_not_take),
    };
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
