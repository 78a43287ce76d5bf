/*
 * client.c - see client.h: opening and closing, crossing to the loop, waiting, callbacks.
 */
#include "client/room.h"

#include <stdio.h>
#include <string.h>

#include "client/shared_loop.h"
#include "protocol/errors.h"
#include "util/alloc.h"

enum {
    FRAMES_KEPT_BYTES = 4 << 20,
    DATA_IN_FLIGHT = 5,
    CONTROL_IN_FLIGHT = 20,
    SLOW_CALLBACK_MS = 100
};

/* --- opening --- */

static void start_on_loop(struct loop_task *task)
{
    struct client *client = container_of(task, struct client, start_task);
    if (client->stopped)
        return;
    brokers_bootstrap(client);
    metadata_start(client->metadata);
}

static void stop_on_loop(struct loop_task *task);
static void finish_on_loop(struct loop_task *task);
static void pass_barrier(struct loop_task *task);

static void set_up(struct client *client, const struct client_options *options)
{
    const struct client_settings *settings = options->settings;
    *client = (struct client){
        .env = settings->env,
        .settings = settings,
        .log = {&settings->log_sink, "client"},
        .hooks = options->hooks,
        .room = options->room,
        .has_news = options->has_news,
        .fork_generation = fork_generation(),
        .shared_loop = settings->loop,
        .queue_callbacks =
            settings->callback_dispatch == DISPATCH_QUEUE || settings->kind == CAFKA_FOR_CONSUMER,
        .dispatch_event = -1,
        .finish_event = -1,
        .barrier_event = -1,
        .next_bootstrap_id = -2, /* -1 is "no leader" elsewhere */
        .max_in_flight = {options->max_in_flight[LANE_DATA] ? options->max_in_flight[LANE_DATA]
                                                            : DATA_IN_FLIGHT,
                          options->max_in_flight[LANE_CONTROL] ? options->max_in_flight[LANE_CONTROL]
                                                               : CONTROL_IN_FLIGHT},
        .conn_options =
            {
                .log = {&settings->log_sink, "conn"},
                .client_id = settings->client_id,
                .request_timeout_ms = settings->request_timeout_ms,
                .reconnect_backoff_ms = settings->reconnect_backoff_ms,
                .reconnect_backoff_max_ms = settings->reconnect_backoff_max_ms,
                .setup_timeout_ms = settings->connection_setup_timeout_ms,
                .setup_timeout_max_ms = settings->connection_setup_timeout_max_ms,
                .max_idle_ms = settings->connections_max_idle_ms,
                .receive_max_bytes = (uint32_t)settings->receive_message_max_bytes,
                .dial = {.size = sizeof(cafka_dial_options),
                         .send_buffer_bytes = settings->send_buffer_bytes,
                         .receive_buffer_bytes = settings->receive_buffer_bytes},
            },
        .start_task.run = start_on_loop,
        .stop_task.run = stop_on_loop,
        .finish_task.run = finish_on_loop,
        .barrier_task.run = pass_barrier,
        .pump_timer.fire = calls_on_pump_timer,
    };
    client_meters_init(client);
    list_init(&client->brokers);
    list_init(&client->orphans);
    list_init(&client->bootstraps);
}

static int open_loop(struct client *client, cafka_error *err)
{
    if (client->shared_loop) {
        client->loop = loop_ref(shared_loop_net(client->shared_loop));
        return CAFKA_OK;
    }
    return loop_new(&client->loop, client->env, LOOP_BACKGROUND, err);
}

static int open_event(struct client *client, int *event, cafka_error *err)
{
    int handle = client->env->event_open(client->env);
    if (handle < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -handle, "making an event to wait for");
    *event = handle;
    return CAFKA_OK;
}

static void close_events(struct client *client)
{
    int *events[] = {&client->barrier_event, &client->finish_event, &client->dispatch_event};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        if (*events[i] >= 0)
            client->env->event_close(client->env, *events[i]);
        *events[i] = -1;
    }
}

static void free_parts(struct client *client)
{
    metadata_free(client->metadata);
    brokers_fini(client);
    frame_pool_unref(client->frames);
    close_events(client);
    if (client->loop)
        loop_unref(client->loop);
    memset(client, 0, sizeof *client);
}

int client_open(struct client *client, const struct client_options *options, cafka_error *err)
{
    protocol_errors_register();
    set_up(client, options);
    int rc = open_event(client, &client->dispatch_event, err);
    if (!rc)
        rc = open_event(client, &client->finish_event, err);
    if (!rc)
        rc = open_event(client, &client->barrier_event, err);
    if (!rc)
        rc = frame_pool_new(&client->frames, FRAMES_KEPT_BYTES, err);
    if (!rc)
        rc = metadata_new(&client->metadata, client, err);
    if (!rc)
        rc = open_loop(client, err);
    if (rc) {
        free_parts(client);
        return rc;
    }
    client->conn_options.loop = client->loop;
    client->conn_options.frames = client->frames;
    return CAFKA_OK;
}

void client_start(struct client *client)
{
    if (client->started)
        return;
    client->started = true;
    client_settings_warn_unused(client->settings);
    loop_post(client->loop, &client->start_task);
}

/* --- closing: two tasks, so that whatever was posted between them has run when the second does --- */

static void stop_on_loop(struct loop_task *task)
{
    struct client *client = container_of(task, struct client, stop_task);
    client->stopped = true;
    metadata_stop(client->metadata);
    brokers_stop(client); /* what is in flight ends here … */
    calls_fail_all(client, CAFKA_ERR_CLOSED, "the client is closed"); /* … and here what waits */
    loop_timer_cancel(client->loop, &client->pump_timer);
    loop_post(client->loop, &client->finish_task);
}

static void finish_on_loop(struct loop_task *task)
{
    struct client *client = container_of(task, struct client, finish_task);
    /* A done function may have made another call. */
    calls_fail_all(client, CAFKA_ERR_CLOSED, "the client is closed");
    loop_timer_cancel(client->loop, &client->pump_timer);
    client_signal(client,
                  client->finish_event); /* the last touch: client_fini() may follow at once */
}

int client_close(struct client *client, int64_t deadline, cafka_error *err)
{
    int rc = client_not_forked(client, err);
    if (rc)
        return rc;
    if (!atomic_exchange(&client->closing, true))
        loop_post(client->loop, &client->stop_task);
    if (atomic_load(&client->finished))
        return CAFKA_OK;
    rc = client_wait(client, client->finish_event, deadline, err);
    if (!rc) {
        atomic_store(&client->finished, true);
        client->env->event_signal(client->env, client->finish_event); /* for others that wait */
    }
    return rc;
}

/*
 * In a forked child: descriptors are closed, so that brokers see the parent's connections end with
 * the parent, and nothing is sent. Memory that a thread of the parent was perhaps changing stays.
 */
static void abandon(struct client *client)
{
    close_events(client);
    if (!client->shared_loop) /* else they go with the loop */
        loop_abandon(client->loop);
    client->loop = NULL;
}

void client_fini(struct client *client)
{
    if (!client->loop)
        return;
    if (client->fork_generation != fork_generation()) {
        abandon(client);
        return;
    }
    if (client_close(client, CAFKA_NEVER, NULL)) {
        log_error(client->log,
                  "a client cannot be freed inside a callback or on its loop's thread: it leaks");
        return;
    }
    (void)client_dispatch(client); /* nothing that was queued for the application is dropped */
    free_parts(client);
}

/* --- waiting --- */

int client_not_forked(const struct client *client, cafka_error *err)
{
    if (client->fork_generation != fork_generation())
        return error_set(err, CAFKA_ERR_FORKED,
                         "this client was made in the parent process; make another one");
    return CAFKA_OK;
}

int client_usable(const struct client *client, cafka_error *err)
{
    int rc = client_not_forked(client, err);
    if (!rc && atomic_load_explicit(&client->closing, memory_order_relaxed))
        rc = error_set(err, CAFKA_ERR_CLOSED, "the client is closing or closed");
    return rc;
}

int client_may_wait(const struct client *client, cafka_error *err)
{
    int rc = client_not_forked(client, err);
    if (rc)
        return rc;
    if (*callback_depth())
        return error_set(err, CAFKA_ERR_IN_CALLBACK,
                         "this call would wait, and must not inside a callback");
    if (loop_is_current(client->loop))
        return error_set(err, CAFKA_ERR_WOULD_BLOCK,
                         "this call would wait, and must not on the loop's thread");
    return CAFKA_OK;
}

int64_t client_deadline(const struct client *client, int64_t timeout_ms)
{
    int64_t now = client->env->now(client->env);
    if (timeout_ms < 0 || timeout_ms > (CAFKA_NEVER - now) / NS_PER_MS)
        return CAFKA_NEVER;
    return now + timeout_ms * NS_PER_MS;
}

static int sleep_until(struct client *client, int event, int64_t deadline, cafka_error *err)
{
    if (client->env->event_wait(client->env, event, deadline))
        return CAFKA_OK;
    return error_set(err, CAFKA_ERR_TIMEOUT, "the time for this call is over");
}

int client_wait(struct client *client, int event, int64_t deadline, cafka_error *err)
{
    int rc = client_may_wait(client, err);
    if (rc && client->env->event_clear(client->env, event)) {
        error_clear(err); /* it is there: that is no wait */
        return CAFKA_OK;
    }
    if (rc)
        return rc;
    if (client->shared_loop && loop_mode(client->loop) == LOOP_EXTERNAL)
        return shared_loop_wait(client->shared_loop, event, deadline, err);
    return sleep_until(client, event, deadline, err);
}

void client_signal(struct client *client, int event)
{
    /* Looked at before: who waits for the signal may free the client as soon as it is there. */
    if (client_is_forked(client))
        return; /* the descriptor is shared with the parent, who would wake */
    const cafka_env *env = client->env;
    bool external = client->shared_loop && loop_mode(client->loop) == LOOP_EXTERNAL;
    struct loop *loop = client->loop;
    env->event_signal(env, event);
    if (external)
        loop_wake(loop); /* the thread that waits for it may be running the loop */
}

/* --- crossing to the loop --- */

/*
 * A function on its way to the loop. It is shared, since a caller that cannot wait (an external loop
 * whose poller fails) takes it back and goes.
 */
struct crossing {
    struct loop_task task; /* first */
    struct client *client;
    const cafka_env *env;
    void (*fn)(void *arg);
    void *arg;
    int event;
    atomic_bool taken; /* by the loop, which runs fn, or by the caller, who has given up */
    atomic_int refs;
};

static void drop_crossing(struct crossing *crossing)
{
    if (atomic_fetch_sub(&crossing->refs, 1) > 1)
        return;
    crossing->env->event_close(crossing->env, crossing->event);
    mem_free(crossing);
}

static void run_crossing(struct loop_task *task)
{
    struct crossing *crossing = (struct crossing *)task;
    if (!atomic_exchange(&crossing->taken, true)) {
        crossing->fn(crossing->arg);
        client_signal(crossing->client, crossing->event);
    }
    drop_crossing(crossing);
}

static int post_crossing(struct client *client, void (*fn)(void *arg), void *arg,
                         struct crossing **out, cafka_error *err)
{
    struct crossing *crossing = mem_zalloc(sizeof *crossing);
    if (!crossing)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a message to the loop");
    crossing->task.run = run_crossing;
    crossing->client = client;
    crossing->env = client->env;
    crossing->fn = fn;
    crossing->arg = arg;
    atomic_init(&crossing->refs, 2);
    int rc = open_event(client, &crossing->event, err);
    if (rc) {
        mem_free(crossing);
        return rc;
    }
    loop_post(client->loop, &crossing->task);
    *out = crossing;
    return CAFKA_OK;
}

/* Wait inside cafka_dispatch() too: the loop never waits for the application, so it is short. */
static int wait_for_loop(struct client *client, int event, cafka_error *err)
{
    unsigned *depth = callback_depth();
    unsigned kept = *depth;
    *depth = 0;
    int rc = client_wait(client, event, CAFKA_NEVER, err);
    *depth = kept;
    return rc;
}

int client_run(struct client *client, void (*fn)(void *arg), void *arg, cafka_error *err)
{
    struct crossing *crossing = NULL;
    int rc = client_usable(client, err);
    if (rc)
        return rc;
    if (loop_is_current(client->loop)) {
        fn(arg);
        return CAFKA_OK;
    }
    rc = post_crossing(client, fn, arg, &crossing, err);
    if (rc)
        return rc;
    cafka_error why = {0};
    rc = wait_for_loop(client, crossing->event, &why);
    if (rc && atomic_exchange(&crossing->taken, true)) {
        (void)client->env->event_wait(client->env, crossing->event, CAFKA_NEVER); /* it runs now */
        rc = CAFKA_OK;
    }
    drop_crossing(crossing);
    return rc ? error_set(err, rc, "%s", why.message) : CAFKA_OK;
}

static void pass_barrier(struct loop_task *task)
{
    struct client *client = container_of(task, struct client, barrier_task);
    client_signal(client, client->barrier_event);
}

int client_barrier(struct client *client, cafka_error *err)
{
    int rc = client_may_wait(client, err);
    if (rc)
        return rc;
    if (!client->barrier_posted) /* else it is still on its way, after a wait that failed */
        loop_post(client->loop, &client->barrier_task);
    client->barrier_posted = true;
    rc = client_wait(client, client->barrier_event, CAFKA_NEVER, err);
    client->barrier_posted = rc != CAFKA_OK;
    return rc;
}

void client_await(struct client *client, int event)
{
    cafka_error err = {0};
    if (!client_wait(client, event, CAFKA_NEVER, &err))
        return;
    log_error(client->log, "%s; it goes on when another thread runs the loop", err.message);
    (void)client->env->event_wait(client->env, event, CAFKA_NEVER);
}

/* --- callbacks of the application --- */

void client_callback_enter(void)
{
    ++*callback_depth();
}

void client_callback_leave(void)
{
    --*callback_depth();
}

static void run_callback(struct client *client, struct client_callback *callback)
{
    const cafka_env *env = client->env;
    struct log log = client->log; /* the callback may be the client's last sign of life */
    int64_t before = env->now(env);
    client_callback_enter();
    callback->run(callback);
    client_callback_leave();
    int64_t took_ms = (env->now(env) - before) / NS_PER_MS;
    if (took_ms > SLOW_CALLBACK_MS)
        log_warn(log, "a callback of the application held up the client for %lld ms",
                 (long long)took_ms);
}

void client_callback(struct client *client, struct client_callback *callback)
{
    if (!client->queue_callbacks) {
        run_callback(client, callback);
    } else if (mpsc_push(&client->callbacks, &callback->link)) {
        client_signal(client, client->dispatch_event);
        if (client->hooks.callback_queued)
            client->hooks.callback_queued(client->room);
    }
}

int client_dispatch(struct client *client)
{
    int count = 0;
    struct mpsc_item *item = mpsc_take_all(&client->callbacks);
    while (item) {
        struct mpsc_item *next = item->next;
        run_callback(client, (struct client_callback *)item);
        item = next;
        count++;
    }
    return count;
}

/*
 * The descriptor is readable while callbacks wait, and while the room has news: from client_news() until
 * the application looked and found nothing. Whoever brings something puts it where it belongs, then
 * calls client_news(); whoever finds nothing calls client_no_news(), then looks once more. Both
 * go through fd_news with sequential consistency, so one of them sees the other. A signal that is
 * late makes the descriptor readable for nothing, never the other way round.
 */
void client_news(struct client *client)
{
    if (atomic_load(&client->fd_asked) && !atomic_exchange(&client->fd_news, true))
        client_signal(client, client->dispatch_event);
}

bool client_no_news(struct client *client)
{
    if (!atomic_load_explicit(&client->fd_asked, memory_order_relaxed))
        return false;
    (void)client->env->event_clear(client->env, client->dispatch_event);
    atomic_store(&client->fd_news, false);
    if (client_has_callbacks(client))
        client_signal(client, client->dispatch_event);
    return true;
}

int cafka_client_fd(const cafka_client *public_client)
{
    struct client *client = (struct client *)public_client;
    if (!client)
        return -1;
    if (client->has_news && !atomic_exchange(&client->fd_asked, true))
        client_news(client); /* whatever came before */
    return env_event_fd(client->env, client->dispatch_event);
}

/* What this call has cleared, though it is not for it to look at. */
static int dispatched(struct client *client, int result)
{
    if (atomic_load(&client->fd_news))
        client_signal(client, client->dispatch_event);
    return result;
}

int cafka_dispatch(cafka_client *public_client, int64_t timeout_ms)
{
    struct client *client = (struct client *)public_client;
    if (!client || timeout_ms < -1)
        return CAFKA_ERR_ARGUMENT;
    int rc = client_not_forked(client, NULL);
    if (rc)
        return rc;
    int64_t deadline = client_deadline(client, timeout_ms);
    for (;;) {
        (void)client->env->event_clear(client->env, client->dispatch_event);
        int count = client_dispatch(client);
        if (count || !timeout_ms)
            return dispatched(client, count);
        cafka_error err = {0};
        rc = client_wait(client, client->dispatch_event, deadline, &err);
        if (rc)
            return dispatched(client, rc == CAFKA_ERR_TIMEOUT ? 0 : rc);
    }
}

/* --- news that belongs to no call --- */

struct news {
    struct client_callback callback; /* first */
    const struct client_settings *settings;
    cafka_event event;
    char topic[];
};

static void tell_news(struct client_callback *callback)
{
    struct news *news = (struct news *)callback;
    news->settings->on_event(&news->event, news->settings->on_event_user);
    mem_free(news);
}

void client_report(struct client *client, int *told, const cafka_error *error, const char *topic,
                   int32_t partition, int32_t broker)
{
    const struct client_settings *settings = client->settings;
    if (*told == error->code)
        return;
    *told = error->code;
    log_warn(client->log, "%s", error->message);
    if (!settings->on_event)
        return;
    size_t length = topic ? strlen(topic) + 1 : 0;
    struct news *news = mem_zalloc(sizeof *news + length);
    if (!news) {
        log_error(client->log, "no memory to report: %s", error->message);
        return;
    }
    if (topic)
        memcpy(news->topic, topic, length);
    news->callback.run = tell_news;
    news->settings = settings;
    news->event = (cafka_event){
        .size = sizeof news->event,
        .error = *error,
        .client_id = settings->client_id,
        .topic = topic ? news->topic : NULL,
        .partition = partition,
        .broker = broker,
    };
    client_callback(client, &news->callback);
}
