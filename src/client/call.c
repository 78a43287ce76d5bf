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

/* It found no connection to wait for. */
static void explain_unassigned(const struct call *call, cafka_error *err)
{
    const char *name = api_find(call->request.api_key)->name;
    const cafka_error *cause = metadata_last_error(call->client->metadata);
    const char *between = cause->code ? ": " : "";
    if (call->target == CALL_ANY)
        error_set(err, CAFKA_ERR_TIMEOUT, "%s could not be sent to any broker in time%s%.150s",
                  name, between, cause->message);
    else if (!metadata_ready(call->client->metadata))
        error_set(err, CAFKA_ERR_TIMEOUT,
                  "%s could not be sent: no broker told in time who is in the cluster%s%.130s",
                  name, between, cause->message);
    else if (call->target == CALL_CONTROLLER)
        error_set(err, CAFKA_ERR_TIMEOUT,
                  "%s could not be sent: the cluster had no controller in time%s%.130s", name,
                  between, cause->message);
    else
        error_set(err, CAFKA_ERR_TIMEOUT,
                  "%s could not be sent: the cluster named no broker %d in time%s%.130s", name,
                  call->target, between, cause->message);
}

/* How far it has come, for the message. */
static void explain_timeout(const struct call *call, cafka_error *err)
{
    const char *name = api_find(call->request.api_key)->name;
    const struct broker *broker = call->broker;
    char who[BROKER_NAME_SIZE];
    if (!call->waiting) {
        error_set_flags(err, CAFKA_ERR_TIMEOUT, CAFKA_UNKNOWN_OUTCOME,
                        "%s did not answer %s in time; whether it was done is not known",
                        broker_name(call->client, broker->id, who, sizeof who), name);
        return;
    }
    const struct conn *conn = broker ? broker->lanes[call->lane].conn : NULL;
    if (!conn) {
        explain_unassigned(call, err);
        return;
    }
    const cafka_error *cause = conn_last_error(conn);
    error_set(err, CAFKA_ERR_TIMEOUT, "%s could not be sent to %s in time%s%.120s", name,
              broker_name(call->client, broker->id, who, sizeof who), cause->code ? ": " : "",
              cause->message);
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

static int32_t target_id(const struct call *call)
{
    return call->target == CALL_CONTROLLER ? metadata_controller(call->client->metadata)
                                           : call->target;
}

/* NULL: not known, or none can be asked now. One that is missing may have joined: metadata knows. */
static struct broker *find_broker(struct call *call)
{
    struct client *client = call->client;
    if (call->target == CALL_ANY)
        return client_least_loaded(client, call->lane);
    struct broker *broker = client_broker(client, target_id(call));
    if (broker && broker->present)
        return broker;
    if (metadata_ready(client->metadata))
        metadata_look_again(client->metadata);
    return NULL;
}

/* An impatient call whose broker the cluster does not name; false: it may wait. */
static bool fail_unknown(struct call *call)
{
    cafka_error err = {0};
    if (!call->impatient || call->target == CALL_ANY || !metadata_ready(call->client->metadata))
        return false;
    error_set_flags(&err, CAFKA_ERR_TRANSPORT, CAFKA_RETRIABLE,
                    "%s could not be sent: the cluster names no broker %d now",
                    api_find(call->request.api_key)->name, target_id(call));
    fail(call, &err);
    return true;
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
        if (!broker && fail_unknown(call))
            continue;
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

void calls_unassign(struct broker *broker, enum lane which, const cafka_error *why)
{
    struct client *client = broker->client;
    struct list waiting, *link;
    list_init(&waiting);
    list_splice_back(&waiting, &broker->lanes[which].calls);
    while ((link = list_pop_front(&waiting))) {
        struct call *call = list_item(link, struct call, link);
        cafka_error error = *why;
        error.flags |= CAFKA_RETRIABLE;
        if (why->code && call->impatient)
            fail(call, &error);
        else
            list_push_back(&client->orphans, link);
    }
    if (!list_empty(&client->orphans))
        calls_pump_soon(client);
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
