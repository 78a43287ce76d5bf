/*
 * call.c - one request to one broker, from the wish to the answer.
 *
 * A call waits in the lane of its broker, or among the orphans while its broker is not known. The
 * pump sends what can be sent; it runs from its own timer, so that `done` never runs inside
 * client_call(), and whenever a connection or metadata changed.
 */
#include "client/room.h"

#include <assert.h>
#include <stdio.h>

#include "protocol/api_keys.h"

enum {
    LOOK_AGAIN_MS = 1000
}; /* for a broker that can take a call, if nothing else makes us look */

static void finish(struct call *call, const struct reply *reply)
{
    list_remove(&call->link);
    loop_timer_cancel(call->client->loop, &call->timer);
    call->waiting = false;
    call->client = NULL;
    call->done(call, reply);
}

static void fail(struct call *call, const cafka_error *error)
{
    struct reply reply = {.error = error, .api = api_find(call->request.api_key), .version = -1};
    finish(call, &reply);
}

static void on_reply(struct request *request, const struct reply *reply)
{
    finish((struct call *)request, reply);
}

/* How far it has come, for the message. */
static void explain_timeout(const struct call *call, cafka_error *err)
{
    const char *name = api_find(call->request.api_key)->name;
    const struct broker *broker = call->broker;
    const cafka_error *cause = metadata_last_error(call->client->metadata);
    if (!call->waiting) {
        error_set_flags(err, CAFKA_ERR_TIMEOUT, CAFKA_UNKNOWN_OUTCOME,
                        "broker %d (%s:%u) did not answer %s in time", broker->id, broker->host,
                        broker->port, name);
        return;
    }
    if (broker && broker->lanes[call->lane].conn)
        cause = conn_last_error(broker->lanes[call->lane].conn);
    if (broker)
        error_set(err, CAFKA_ERR_TIMEOUT,
                  "%s could not be sent to broker %d (%s:%u) in time%s%.120s", name, broker->id,
                  broker->host, broker->port, cause->code ? ": " : "", cause->message);
    else
        error_set(err, CAFKA_ERR_TIMEOUT, "%s could not be sent to %s in time%s%.150s", name,
                  call->target == CALL_CONTROLLER ? "the controller"
                  : call->target == CALL_ANY      ? "any broker"
                                                  : "a broker that is not known",
                  cause->code ? ": " : "", cause->message);
}

static void on_timer(struct timer *timer)
{
    struct call *call = container_of(timer, struct call, timer);
    cafka_error err = {0};
    explain_timeout(call, &err);
    if (!call->waiting)
        conn_cancel(&call->request);
    fail(call, &err);
}

/* Send it, or end it with the reason why it never can be. */
static void send_call(struct call *call, struct conn *conn)
{
    cafka_error err = {0};
    int rc = CAFKA_OK;
    int version =
        conn_version(conn, call->request.api_key, call->max_version ? call->max_version : -1);
    if (version < 0)
        rc = conn_unsupported(conn, call->request.api_key, &err);
    if (!rc && call->prepare)
        rc = call->prepare(call, version, &err);
    if (!rc)
        rc = conn_send(conn, &call->request, version, call->body, &err);
    if (rc) {
        fail(call, &err);
        return;
    }
    list_remove(&call->link);
    call->waiting = false;
}

void calls_pump_lane(struct broker *broker, enum lane which)
{
    struct broker_lane *lane = &broker->lanes[which];
    struct list *link;
    while (lane->conn && conn_can_send(lane->conn) && (link = list_first(&lane->calls)))
        send_call(list_item(link, struct call, link), lane->conn);
}

static struct broker *find_broker(struct call *call)
{
    struct client *client = call->client;
    switch (call->target) {
    case CALL_ANY: return client_least_loaded(client, call->lane);
    case CALL_CONTROLLER: return client_broker(client, metadata_controller(client->metadata));
    default: return client_broker(client, call->target);
    }
}

static void pump(struct client *client)
{
    struct list *link, *after;
    struct list orphans; /* calls that are made while this runs wait for the next turn */
    list_init(&orphans);
    list_splice_back(&orphans, &client->orphans);
    while ((link = list_pop_front(&orphans))) {
        struct call *call = list_item(link, struct call, link);
        struct broker *broker = find_broker(call);
        if (!broker || !broker_conn(broker, call->lane)) {
            list_push_back(&client->orphans, link);
            continue;
        }
        call->broker = broker;
        list_push_back(&broker->lanes[call->lane].calls, link);
    }
    list_each(link, after, &client->brokers) for (int i = 0; i < LANE_COUNT; i++)
    {
        struct broker *broker = list_item(link, struct broker, link);
        if (broker->lanes[i].wanted)
            (void)broker_conn(broker, (enum lane)i);
        calls_pump_lane(broker, (enum lane)i);
    }
    if (!list_empty(&client->orphans))
        calls_pump_at(client, loop_now_ms(client->loop) + LOOK_AGAIN_MS);
}

void calls_on_pump_timer(struct timer *timer)
{
    struct client *client = container_of(timer, struct client, pump_timer);
    if (client->stopped)
        calls_fail_all(client, CAFKA_ERR_CLOSED, "the client is closed");
    else
        pump(client);
}

void calls_pump_soon(struct client *client)
{
    calls_pump_at(client, loop_now_ms(client->loop));
}

void calls_pump_at(struct client *client, int64_t at_ms)
{
    if (!timer_is_set(&client->pump_timer) || at_ms < client->pump_timer.deadline_ms)
        loop_timer_set(client->loop, &client->pump_timer, at_ms);
}

void client_call(struct client *client, struct call *call, int32_t target, enum lane lane)
{
    assert(!call->client && call->done && call->body && api_find(call->request.api_key));
    call->client = client;
    call->target = target;
    call->lane = lane;
    call->broker = NULL;
    call->waiting = true;
    call->request.done = on_reply;
    call->timer.fire = on_timer;
    list_push_back(&client->orphans, &call->link);
    int64_t deadline_ms = call->deadline_ms;
    if (!deadline_ms)
        deadline_ms = loop_now_ms(client->loop) + client->settings->request_timeout_ms +
                      call->request.timeout_ms;
    loop_timer_set(client->loop, &call->timer, deadline_ms);
    calls_pump_soon(client);
}

void client_call_cancel(struct call *call)
{
    if (!call->client)
        return;
    conn_cancel(&call->request);
    list_remove(&call->link);
    loop_timer_cancel(call->client->loop, &call->timer);
    call->waiting = false;
    call->client = NULL;
}

static void fail_list(struct list *calls, const cafka_error *error)
{
    struct list *link;
    while ((link = list_first(calls)))
        fail(list_item(link, struct call, link), error);
}

void calls_fail_all(struct client *client, int code, const char *text)
{
    cafka_error error = {0};
    error_set(&error, code, "%s", text);
    fail_list(&client->orphans, &error);
    struct list *link, *after;
    list_each(link, after, &client->brokers) for (int i = 0; i < LANE_COUNT; i++)
        fail_list(&list_item(link, struct broker, link)->lanes[i].calls, &error);
}
