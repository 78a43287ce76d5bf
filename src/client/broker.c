/*
 * broker.c - the brokers that a client knows, their connections, and which one to ask.
 */
#include "client/room.h"

#include <stdio.h>
#include <string.h>

#include "conn/lookup.h"
#include "util/alloc.h"

enum {
    HEDGE_MS = 1000,   /* a dial that takes longer gets company: another broker may be nearer */
    NO_MEMORY_MS = 100 /* until a connection is tried again that there was no memory for */
};

/* --- what connections tell --- */

static void tell_writable(struct broker_lane *lane)
{
    struct client *client = lane->broker->client;
    calls_pump_lane(lane->broker, lane->lane);
    if (!list_empty(&client->orphans))
        calls_pump_soon(client); /* calls to any broker may go here */
    if (!client->stopped && client->hooks.broker_writable)
        client->hooks.broker_writable(client->room, lane->broker, lane->lane);
}

static void on_ready(void *owner)
{
    struct broker_lane *lane = owner;
    lane->was_ready = true;
    lane->broker->told_error = 0;
    if (lane->lane == LANE_CONTROL)
        metadata_broker_ready(lane->broker->client->metadata);
    tell_writable(lane);
}

static void on_writable(void *owner)
{
    struct broker_lane *lane = owner;
    if (lane->lane == LANE_CONTROL)
        metadata_broker_ready(lane->broker->client->metadata);
    tell_writable(lane);
}

static bool is_unreachable(int code)
{
    return code == CAFKA_ERR_TRANSPORT || code == CAFKA_ERR_TIMEOUT || code == CAFKA_ERR_RESOLVE;
}

/*
 * A broker that closes a connection it has served is daily life; one that cannot be reached is news,
 * whether it refuses one time and keeps silent the next.
 */
static void report_down(struct broker_lane *lane, const cafka_error *why)
{
    struct broker *broker = lane->broker;
    struct client *client = broker->client;
    bool served = lane->was_ready && why->code == CAFKA_ERR_TRANSPORT;
    if (!why->code)
        return;
    if (served)
        log_info(client->log, "%s", why->message);
    else if (is_unreachable(why->code) && is_unreachable(broker->told_error))
        log_debug(client->log, "%s", why->message); /* again; it may go on for hours */
    else
        client_report(client, &broker->told_error, why, NULL, -1, broker->id < 0 ? -1 : broker->id);
}

/* Whose word it was that it lives there: what to mend is usually that. */
static void explain_place(const struct broker_lane *lane, cafka_error *error)
{
    const struct broker *broker = lane->broker;
    if (lane->was_ready || !is_unreachable(error->code))
        return;
    if (broker->id >= 0)
        error_suffix(error, " (where broker %d lives by its advertised.listeners)", broker->id);
    else if (error->code == CAFKA_ERR_RESOLVE)
        error_suffix(error, " (named in bootstrap.servers)");
}

static void on_down(void *owner, const cafka_error *why)
{
    struct broker_lane *lane = owner;
    struct broker *broker = lane->broker;
    struct client *client = broker->client;
    cafka_error error = *why;
    explain_place(lane, &error);
    report_down(lane, &error);
    lane->was_ready = false;
    if (client->stopped)
        return;
    calls_unassign(broker, lane->lane, &error);
    if (lane->lane == LANE_CONTROL)
        metadata_broker_down(client->metadata, &error);
    if (!client->stopped && client->hooks.broker_down)
        client->hooks.broker_down(client->room, broker, lane->lane, &error);
}

static const struct conn_events conn_events = {on_ready, on_writable, on_down};

struct conn *broker_conn(struct broker *broker, enum lane which)
{
    struct client *client = broker->client;
    struct broker_lane *lane = &broker->lanes[which];
    if (client->stopped)
        return NULL;
    if (!lane->conn) {
        cafka_error err = {0};
        if (conn_new(&lane->conn, &client->conn_options, broker->host, broker->port,
                     client->max_in_flight[which], &conn_events, lane, &err)) {
            log_error(client->log, "%s", err.message);
            lane->wanted = true;
            calls_pump_at(client, loop_now_ms(client->loop) + NO_MEMORY_MS);
            return NULL;
        }
        conn_set_meters(lane->conn, &broker->meters);
        lane->wanted = false;
    }
    if (conn_state(lane->conn) == CONN_IDLE) {
        broker->tried_ms = loop_now_ms(client->loop);
        conn_open(lane->conn);
    }
    return lane->conn;
}

/* --- the set of brokers --- */

static void broker_free(struct broker *broker)
{
    if (!broker)
        return;
    for (int i = 0; i < LANE_COUNT; i++)
        conn_free(broker->lanes[i].conn);
    list_remove(&broker->link);
    mem_free(broker->host);
    mem_free(broker->rack);
    mem_free(broker);
}

static struct broker *broker_new(struct client *client, int32_t id, struct str host, uint16_t port)
{
    struct broker *broker = client->broker_count < BROKERS_MAX ? mem_zalloc(sizeof *broker) : NULL;
    if (!broker)
        return NULL;
    broker->client = client;
    broker->id = id;
    broker->port = port;
    for (int i = 0; i < LANE_COUNT; i++) {
        broker->lanes[i].broker = broker;
        broker->lanes[i].lane = (enum lane)i;
        list_init(&broker->lanes[i].calls);
    }
    broker->host = mem_strndup(host.data, host.size);
    if (!broker->host || !map_put_int(&client->by_id, id, broker)) {
        broker_free(broker);
        return NULL;
    }
    list_push_back(&client->brokers, &broker->link);
    client->broker_count++;
    broker_meters_init(broker);
    return broker;
}

/* Same broker, other address: old connections end once they have answered what is in flight. */
static bool move_to(struct broker *broker, struct str host, uint16_t port)
{
    if (broker->port == port && str_is(host, broker->host))
        return true;
    char *copy = mem_strndup(host.data, host.size);
    if (!copy)
        return false;
    log_info(broker->client->log, "broker %d moved from %s:%u to %s:%u", broker->id, broker->host,
             broker->port, copy, port);
    mem_free(broker->host);
    broker->host = copy;
    broker->port = port;
    bool ok = true;
    for (int i = 0; i < LANE_COUNT; i++)
        if (broker->lanes[i].conn && conn_move_to(broker->lanes[i].conn, copy, port, NULL))
            ok = false;
    return ok;
}

static bool set_rack(struct broker *broker, struct str rack)
{
    if (rack.data ? broker->rack && str_is(rack, broker->rack) : !broker->rack)
        return true;
    char *copy = rack.data ? mem_strndup(rack.data, rack.size) : NULL;
    if (rack.data && !copy)
        return false;
    mem_free(broker->rack);
    broker->rack = copy;
    return true;
}

struct broker *broker_update(struct client *client, int32_t id, struct str host, uint16_t port,
                             struct str rack)
{
    struct broker *broker = map_get_int(&client->by_id, id);
    if (!broker)
        broker = broker_new(client, id, host, port);
    if (!broker || !move_to(broker, host, port) || !set_rack(broker, rack))
        return NULL;
    return broker;
}

const char *broker_name(const struct client *client, int32_t id, char *out, size_t size)
{
    const struct broker *broker = client_broker(client, id);
    if (!broker)
        snprintf(out, size, "broker %d", id);
    else if (id >= 0)
        snprintf(out, size, "broker %d (%s:%u)", id, broker->host, broker->port);
    else
        snprintf(out, size, "bootstrap server %s:%u", broker->host, broker->port);
    return out;
}

struct broker *client_broker(const struct client *client, int32_t id)
{
    return map_get_int(&client->by_id, id);
}

/* --- bootstrap.servers --- */

/* client.dns.lookup=resolve_canonical_bootstrap_servers_only: each address of a name is a server. */
struct bootstrap {
    struct list link;
    struct client *client;
    const struct server_name *server;
    struct lookup *lookup;
};

static void bootstrap_free(struct bootstrap *bootstrap)
{
    lookup_cancel(bootstrap->lookup);
    list_remove(&bootstrap->link);
    mem_free(bootstrap);
}

static void add_bootstrap(struct client *client, struct str host, uint16_t port)
{
    struct list *link, *after;
    list_each(link, after, &client->brokers)
    {
        struct broker *known = list_item(link, struct broker, link);
        if (known->id < 0 && known->port == port && str_is(host, known->host)) {
            known->present = true;
            return;
        }
    }
    struct broker *broker = broker_new(client, client->next_bootstrap_id, host, port);
    if (!broker) {
        log_error(client->log, "no memory for the bootstrap server %.*s:%u", STR_ARG(host), port);
        return;
    }
    client->next_bootstrap_id--;
    broker->present = true;
}

/* "10.0.0.1:9092" or "[::1]:9092" without its port and brackets. */
static struct str host_of(const char *text)
{
    const char *end = strrchr(text, ':');
    if (*text == '[')
        return (struct str){text + 1, (size_t)(end - text) - 2};
    return (struct str){text, (size_t)(end - text)};
}

static void on_resolved(void *owner, const cafka_error *error, const cafka_address *addresses,
                        size_t count)
{
    struct bootstrap *bootstrap = owner;
    struct client *client = bootstrap->client;
    uint16_t port = bootstrap->server->port;
    bootstrap->lookup = NULL;
    if (error) {
        client_report(client, &(int){0}, error, NULL, -1, -1);
        /* Keep the name: its connection asks again, with backoff. */
        add_bootstrap(client, str_of(bootstrap->server->host), port);
    }
    for (size_t i = 0; i < count; i++) {
        char text[ADDRESS_TEXT_SIZE];
        address_text(&addresses[i], text);
        add_bootstrap(client, host_of(text), port);
    }
    bootstrap_free(bootstrap);
    metadata_broker_ready(client->metadata); /* there is somebody to dial */
}

static void resolve_bootstrap(struct client *client, const struct server_name *server)
{
    cafka_error err = {0};
    struct bootstrap *bootstrap = mem_zalloc(sizeof *bootstrap);
    if (bootstrap) {
        bootstrap->client = client;
        bootstrap->server = server;
        list_push_back(&client->bootstraps, &bootstrap->link);
        if (!lookup_start(&bootstrap->lookup, client->loop, server->host, server->port, on_resolved,
                          bootstrap, &err))
            return;
        bootstrap_free(bootstrap);
    }
    add_bootstrap(client, str_of(server->host), server->port);
}

void brokers_bootstrap(struct client *client)
{
    const struct client_settings *settings = client->settings;
    struct list *link, *after;
    list_each(link, after, &client->brokers) list_item(link, struct broker, link)->present = false;
    list_each(link, after, &client->bootstraps)
        bootstrap_free(list_item(link, struct bootstrap, link));
    for (size_t i = 0; i < settings->bootstrap_count; i++) {
        const struct server_name *server = &settings->bootstrap[i];
        if (settings->dns_lookup == DNS_CANONICAL_BOOTSTRAP_ONLY)
            resolve_bootstrap(client, server);
        else
            add_bootstrap(client, str_of(server->host), server->port);
    }
}

bool brokers_are_bootstrap(const struct client *client)
{
    for (struct list *link = client->brokers.next; link != &client->brokers; link = link->next) {
        const struct broker *broker = list_item(link, struct broker, link);
        if (broker->present && broker->id >= 0)
            return false;
    }
    return true;
}

void brokers_hang_up(struct client *client, const cafka_error *why)
{
    struct list *link, *after;
    list_each(link, after, &client->brokers)
    {
        struct broker *broker = list_item(link, struct broker, link);
        for (int i = 0; broker->id >= 0 && i < LANE_COUNT; i++)
            if (broker->lanes[i].conn)
                conn_hang_up(broker->lanes[i].conn, why);
    }
}

/* --- which broker to ask --- */

static bool lane_failed(const struct broker_lane *lane)
{
    return lane->conn && conn_state(lane->conn) == CONN_IDLE && conn_last_error(lane->conn)->code &&
           conn_blocked_until_ms(lane->conn);
}

bool brokers_all_down(const struct client *client)
{
    bool any = false;
    for (struct list *link = client->brokers.next; link != &client->brokers; link = link->next) {
        const struct broker *broker = list_item(link, struct broker, link);
        if (!broker->present)
            continue;
        any = true;
        bool failed = false;
        for (int i = 0; i < LANE_COUNT; i++) {
            const struct broker_lane *lane = &broker->lanes[i];
            if (lane->conn && conn_state(lane->conn) == CONN_READY)
                return false;
            failed = failed || lane_failed(lane);
        }
        if (!failed)
            return false;
    }
    return any || list_empty(&client->bootstraps);
}

struct choice {
    struct broker *ready, *idle;
    int fewest;
    int64_t soonest_ms;
    bool dialing; /* and not for long */
};

static void consider(struct choice *choice, struct broker *broker, enum lane which, int64_t now_ms)
{
    struct conn *conn = broker->lanes[which].conn;
    enum conn_state state = conn ? conn_state(conn) : CONN_IDLE;
    if (state == CONN_READY) {
        if (conn_can_send(conn) && (!choice->ready || conn_in_flight(conn) < choice->fewest)) {
            choice->ready = broker;
            choice->fewest = conn_in_flight(conn);
        }
    } else if (state != CONN_IDLE) {
        choice->dialing = choice->dialing || now_ms - broker->tried_ms < HEDGE_MS;
    } else {
        /* The one that may be dialed first; among those that may now, the one tried least recently. */
        int64_t blocked_ms = conn ? conn_blocked_until_ms(conn) : 0;
        int64_t when_ms = blocked_ms ? blocked_ms : broker->tried_ms - INT64_MAX / 2;
        if (!choice->idle || when_ms < choice->soonest_ms) {
            choice->idle = broker;
            choice->soonest_ms = when_ms;
        }
    }
}

struct broker *client_least_loaded(struct client *client, enum lane which)
{
    int count = 0, position = 0;
    struct list *link, *after;
    list_each(link, after, &client->brokers) count += list_item(link, struct broker, link)->present;
    if (!count || client->stopped)
        return NULL;
    /* A random start spreads the clients of a cluster; two rounds see all from there. */
    int start = (int)(client->env->random(client->env) % (unsigned)count);
    struct choice choice = {.fewest = INT32_MAX};
    int64_t now_ms = loop_now_ms(client->loop);
    for (int round = 0; round < 2; round++) {
        position = 0;
        list_each(link, after, &client->brokers)
        {
            struct broker *broker = list_item(link, struct broker, link);
            if (!broker->present)
                continue;
            if (round ? position < start : position >= start)
                consider(&choice, broker, which, now_ms);
            position++;
        }
    }
    if (!choice.ready && !choice.dialing && choice.idle)
        (void)broker_conn(choice.idle, which);
    return choice.ready;
}

void brokers_stop(struct client *client)
{
    struct list *link, *after;
    list_each(link, after, &client->bootstraps)
        bootstrap_free(list_item(link, struct bootstrap, link));
    list_each(link, after, &client->brokers)
    {
        struct broker *broker = list_item(link, struct broker, link);
        for (int i = 0; i < LANE_COUNT; i++) {
            struct conn *conn = broker->lanes[i].conn;
            broker->lanes[i].conn = NULL;
            conn_free(conn);
        }
    }
}

void brokers_fini(struct client *client)
{
    struct list *link, *after;
    if (client->brokers.next)
        list_each(link, after, &client->brokers) broker_free(list_item(link, struct broker, link));
    map_fini(&client->by_id);
}
