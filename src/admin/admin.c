/*
 * admin.c - see admin.h: opening and closing, and the engine of operations.
 */
#include "admin/admin.h"

#include <stdio.h>
#include <string.h>

#include "protocol/error_codes.h"
#include "protocol/errors.h"
#include "util/alloc.h"

/* --- operations: on the loop --- */

static void finish(struct operation *op, const cafka_error *error)
{
    struct client *client = &op->admin->client;
    list_remove(&op->link);
    loop_timer_cancel(client->loop, &op->timer);
    if (error)
        op->error = *error;
    if (!--op->wait->left)
        client_signal(client, op->wait->event); /* the last touch: its thread goes on */
}

static void fail(struct operation *op, int code, const char *text)
{
    cafka_error error = {0};
    error_set(&error, code, "%s", text);
    finish(op, &error);
}

/* What failed may work later: after the backoff, or what a quota asks for, if there is time. */
static void try_again(struct operation *op, const cafka_error *error)
{
    struct client *client = &op->admin->client;
    int64_t now_ms = loop_now_ms(client->loop);
    int64_t wait_ms = backoff_next(&op->backoff, client->env);
    if (op->throttle_ms > wait_ms)
        wait_ms = op->throttle_ms;
    bool moved = protocol_error_refresh_metadata(error->code) || error->code == ERR_NOT_CONTROLLER ||
                 error->code == CAFKA_ERR_TRANSPORT || error->code == CAFKA_ERR_TIMEOUT;
    if (moved)
        metadata_refresh(client->metadata);
    if (op->once || op->attempts > op->admin->settings.retries ||
        now_ms + wait_ms >= op->deadline_ms) {
        finish(op, error);
        return;
    }
    loop_timer_set(client->loop, &op->timer, now_ms + wait_ms);
}

static int take_answer(struct operation *op, const struct reply *reply, cafka_error *err)
{
    void *response = arena_alloc(&op->arena, message_struct_size(reply->api->response));
    if (!response)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a %s response", reply->api->name);
    op->version = reply->version;
    op->throttle_ms = 0;
    int rc = reply_decode(reply, &op->arena, response, err);
    return rc ? rc : op->take(op, response, err);
}

static void on_done(struct call *call, const struct reply *reply)
{
    struct operation *op = container_of(call, struct operation, call);
    cafka_error err = {0};
    if (reply->error)
        err = *reply->error;
    else
        err.code = take_answer(op, reply, &err);
    if (!err.code)
        finish(op, NULL);
    else if (err.code != CAFKA_ERR_CLOSED && err.code != CAFKA_ERR_MEMORY &&
             err.flags & CAFKA_RETRIABLE)
        try_again(op, &err);
    else
        finish(op, &err);
}

static int on_prepare(struct call *call, int version, cafka_error *err)
{
    struct operation *op = container_of(call, struct operation, call);
    arena_reset(&op->arena);
    op->version = version;
    return op->build(op, version, err);
}

static void attempt(struct operation *op)
{
    if (op->admin->stopped || op->admin->client.stopped) {
        fail(op, CAFKA_ERR_CLOSED, "the admin client is closed");
        return;
    }
    op->attempts++;
    op->call = (struct call){
        .request.api_key = (int16_t)op->api_key,
        .done = on_done,
        .prepare = on_prepare,
        .body = op, /* until on_prepare() */
        .impatient = op->once,
        .deadline_ms = op->deadline_ms,
    };
    client_call(&op->admin->client, &op->call, op->target, LANE_CONTROL);
}

static void on_timer(struct timer *timer)
{
    attempt(container_of(timer, struct operation, timer));
}

static void on_posted(struct loop_task *task)
{
    struct operation *op = container_of(task, struct operation, task);
    list_push_back(&op->admin->operations, &op->link);
    attempt(op);
}

static void stop_on_loop(struct loop_task *task)
{
    struct cafka_admin *admin = container_of(task, struct cafka_admin, stop_task);
    struct list *link;
    admin->stopped = true;
    while ((link = list_first(&admin->operations))) {
        struct operation *op = list_item(link, struct operation, link);
        client_call_cancel(&op->call);
        fail(op, CAFKA_ERR_CLOSED, "the admin client was closed while this call ran");
    }
}

/* --- operations: on the application's thread --- */

int admin_begin(struct cafka_admin *admin, int64_t timeout_ms, int64_t *deadline, cafka_error *err)
{
    error_clear(err);
    if (!admin || timeout_ms < -1)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "an admin client is needed, and a timeout that is -1 or more");
    int rc = client_usable(&admin->client, err);
    if (!rc)
        rc = client_may_wait(&admin->client, err);
    *deadline = client_deadline(&admin->client, timeout_ms < 0
                                                    ? admin->settings.client.default_api_timeout_ms
                                                    : timeout_ms);
    return rc;
}

static void start(struct cafka_admin *admin, struct operation *op, int64_t deadline,
                  struct operation_wait *wait)
{
    const struct client_settings *settings = &admin->settings.client;
    op->admin = admin;
    op->wait = wait;
    op->deadline_ms = deadline == CAFKA_NEVER ? INT64_MAX / 2 : deadline / NS_PER_MS;
    op->backoff = (struct backoff){settings->retry_backoff_ms, settings->retry_backoff_max_ms, 0};
    op->task.run = on_posted;
    op->timer.fire = on_timer;
    client_post(&admin->client, &op->task);
}

int admin_run_all(struct cafka_admin *admin, struct operation *ops, size_t count, int64_t deadline,
                  cafka_error *err)
{
    struct client *client = &admin->client;
    struct operation_wait wait = {client->env->event_open(client->env), count};
    if (wait.event < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -wait.event, "making an event to wait for");
    for (size_t i = 0; i < count; i++)
        start(admin, &ops[i], deadline, &wait);
    /* Operations keep their own deadline, and are ours: wait for their end, whenever that is. */
    while (count && client_wait(client, wait.event, CAFKA_NEVER, NULL))
        ;
    client->env->event_close(client->env, wait.event);
    for (size_t i = 0; i < count; i++)
        arena_fini(&ops[i].arena);
    return CAFKA_OK;
}

int admin_run(struct cafka_admin *admin, struct operation *op, int64_t deadline, cafka_error *err)
{
    int rc = admin_run_all(admin, op, 1, deadline, err);
    if (!rc && op->error.code && err && !err->code)
        *err = op->error;
    return rc ? rc : op->error.code;
}

int admin_pause(struct cafka_admin *admin, struct backoff *backoff, int64_t deadline,
                cafka_error *err)
{
    struct client *client = &admin->client;
    const cafka_env *env = client->env;
    int event = env->event_open(env);
    if (event < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -event, "making an event to wait for");
    int64_t until = env->now(env) + backoff_next(backoff, env) * NS_PER_MS;
    int rc = client_wait(client, event, until < deadline ? until : deadline, NULL);
    env->event_close(env, event);
    if (rc != CAFKA_ERR_TIMEOUT)
        return rc;
    return until < deadline ? CAFKA_OK
                            : error_set(err, CAFKA_ERR_TIMEOUT, "the time for this call is over");
}

/* --- small things that operations share --- */

void admin_item_error(cafka_error *error, int code, struct str message, const char *kind,
                      const char *name)
{
    error_clear(error);
    if (!code)
        return;
    if (message.size)
        error_set(error, code, "%s %s: %s: %.*s", kind, name, cafka_error_name(code),
                  STR_ARG(message));
    else
        error_set(error, code, "%s %s: %s", kind, name, cafka_error_name(code));
}

int admin_sum_up(const cafka_error *errors, size_t count, size_t stride, cafka_error *err)
{
    const cafka_error *first = NULL;
    size_t failed = 0;
    for (size_t i = 0; i < count; i++) {
        const cafka_error *error = (const void *)((const char *)errors + i * stride);
        if (!error->code)
            continue;
        failed++;
        first = first ? first : error;
    }
    if (!first)
        return CAFKA_OK;
    if (err && !err->code) {
        *err = *first;
        if (failed > 1)
            error_prefix(err, "%zu of %zu failed; the first: ", failed, count);
    }
    return first->code;
}

int32_t admin_broker_timeout_ms(const struct operation *op)
{
    int64_t left_ms = op->deadline_ms - loop_now_ms(op->admin->client.loop);
    int64_t limit_ms = op->admin->settings.client.request_timeout_ms;
    if (left_ms > limit_ms)
        left_ms = limit_ms;
    return left_ms > 1 ? (int32_t)left_ms : 1;
}

void *admin_memory(struct operation *op, size_t count, size_t size, cafka_error *err)
{
    void *memory = arena_calloc(&op->arena, count ? count : 1, size);
    if (!memory)
        error_set(err, CAFKA_ERR_MEMORY, "no memory for a request of %zu items", count);
    return memory;
}

/* --- opening and closing --- */

int cafka_admin_new(cafka_admin **out, const cafka_config *config, cafka_error *err)
{
    error_clear(err);
    if (!out || !config)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "an admin client needs a place and a configuration");
    struct cafka_admin *admin = mem_zalloc(sizeof *admin);
    if (!admin)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for an admin client");
    list_init(&admin->operations);
    admin->stop_task.run = stop_on_loop;
    int rc = settings_for_admin(config, &admin->settings, err);
    if (!rc) {
        struct client_options options = {.settings = &admin->settings.client, .room = admin};
        rc = client_open(&admin->client, &options, err);
    }
    if (rc) {
        admin_settings_fini(&admin->settings);
        mem_free(admin);
        return rc;
    }
    client_start(&admin->client);
    *out = admin;
    return CAFKA_OK;
}

int cafka_admin_open(cafka_admin **out, const char *properties, cafka_error *err)
{
    cafka_config *config = NULL;
    error_clear(err);
    if (!out || !properties)
        return error_set(err, CAFKA_ERR_ARGUMENT, "an admin client needs a place and properties");
    int rc = cafka_config_new(&config, err);
    if (!rc)
        rc = cafka_config_load(config, properties, err);
    if (!rc)
        rc = cafka_admin_new(out, config, err);
    cafka_config_free(config);
    return rc;
}

int cafka_admin_close(cafka_admin *admin, int64_t timeout_ms, cafka_error *err)
{
    error_clear(err);
    if (!admin || timeout_ms < -1)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "an admin client is needed, and a timeout that is -1 or more");
    int rc = client_not_forked(&admin->client, err);
    if (rc)
        return rc;
    if (!atomic_exchange(&admin->stop_posted, true))
        client_post(&admin->client, &admin->stop_task); /* runs before what client_close() posts */
    return client_close(&admin->client, client_deadline(&admin->client, timeout_ms), err);
}

void cafka_admin_free(cafka_admin *admin)
{
    if (!admin)
        return;
    int rc = cafka_admin_close(admin, -1, NULL);
    if (rc == CAFKA_ERR_IN_CALLBACK || rc == CAFKA_ERR_WOULD_BLOCK)
        return; /* the loop still uses it; client_fini() would say the same */
    client_fini(&admin->client);
    if (rc == CAFKA_ERR_FORKED)
        return; /* what the loop of the parent has linked here is not ours to free */
    admin_settings_fini(&admin->settings);
    mem_free(admin);
}

cafka_client *cafka_admin_client(cafka_admin *admin)
{
    return admin ? client_public(&admin->client) : NULL;
}
