/*
 * links.c - see links.h: what is under way, how it arrives, and the life of a connection.
 */
#include "sim/links.h"

#include <errno.h>
#include <string.h>

#include "util/alloc.h"

static void on_arrival(struct sim *sim, struct happening *h);

/* --- segments --- */

static void segments_init(struct segments *s)
{
    *s = (struct segments){.end = &s->first};
}

void sim_segments_add(struct segments *s, struct segment *segment)
{
    segment->next = NULL;
    *s->end = segment;
    s->end = &segment->next;
    s->bytes += segment->size - segment->taken;
}

struct segment *sim_segments_pop(struct segments *s)
{
    struct segment *segment = s->first;
    s->first = segment->next;
    if (!s->first)
        s->end = &s->first;
    s->bytes -= segment->size - segment->taken;
    return segment;
}

void sim_segments_clear(struct segments *s)
{
    while (s->first)
        mem_free(sim_segments_pop(s));
}

/* --- directions --- */

struct end *sim_other_end(struct end *e)
{
    return e == &e->conn->end[0] ? &e->conn->end[1] : &e->conn->end[0];
}

static bool has_something_under_way(const struct end *e)
{
    return e->hello || e->under_way.first || e->ending != GOES_ON;
}

/* Plan the arrival of what comes first, unless it is held. */
void sim_plan_arrival(struct sim *sim, struct end *e)
{
    if (!has_something_under_way(e) || sim_is_held(sim->net, e->conn)) {
        sim_unplan(sim, &e->arrival);
        return;
    }
    int64_t at = e->hello             ? e->hello_at
                 : e->under_way.first ? e->under_way.first->at
                                      : e->ending_at;
    if (!e->arrival.place || e->arrival.at != at)
        sim_plan(sim, &e->arrival, at);
}

/* When something that is sent now, of this size, arrives. */
int64_t sim_arrival_time(struct sim *sim, struct end *e, size_t size)
{
    const struct sim_link *link = sim_link_of(sim->net, e->conn);
    int64_t at = sim->now;
    if (link->bytes_per_ms) {
        if (e->free_at < at)
            e->free_at = at;
        e->free_at += (int64_t)((uint64_t)size * 1000000 / link->bytes_per_ms);
        at = e->free_at;
    }
    at += 1000 * rng_between(&sim->net->rng, link->latency_min_us, link->latency_max_us);
    if (at < e->last_at)
        at = e->last_at;
    return e->last_at = at;
}

void sim_say_hello(struct sim *sim, struct end *e)
{
    e->hello = true;
    e->hello_at = sim_arrival_time(sim, e, 0);
    sim_plan_arrival(sim, e);
}

/* A reset overtakes nothing, but what was to end more gently is overruled. */
void sim_end_direction(struct sim *sim, struct end *e, enum ending how)
{
    if (e->ending == how || (e->ending != GOES_ON && how == ENDS))
        return;
    e->ending = how;
    e->ending_at = sim_arrival_time(sim, e, 0);
    sim_plan_arrival(sim, e);
}

/* --- the life of a connection --- */

static void init_end(struct conn *c, int i)
{
    struct end *e = &c->end[i];
    e->conn = c;
    e->handle = -1;
    e->arrival.happen = on_arrival;
    segments_init(&e->arrived);
    segments_init(&e->under_way);
}

struct conn *sim_conn_new(struct sim *sim, struct host *dialer, const cafka_address *to)
{
    struct net_world *net = sim->net;
    size_t happenings = 2 * (net->conn_count + 1) + net->question_count;
    struct conn *c = sim_reserve(sim, happenings) ? mem_zalloc(sizeof *c) : NULL;
    if (!c)
        return NULL;
    c->id = ++net->next_conn;
    c->host[0] = dialer;
    c->address[1] = *to;
    c->address[0] = (cafka_address){.family = 4,
                                    .ip = {127, 0, 0, 1},
                                    .port = (uint16_t)(DIALER_PORT + c->id % (65536 - DIALER_PORT))};
    init_end(c, 0);
    init_end(c, 1);
    list_push_back(&net->conns, &c->link);
    net->conn_count++;
    return c;
}

void sim_conn_free(struct sim *sim, struct conn *c)
{
    for (int i = 0; i < 2; i++) {
        sim_unplan(sim, &c->end[i].arrival);
        sim_segments_clear(&c->end[i].arrived);
        sim_segments_clear(&c->end[i].under_way);
    }
    list_remove(&c->link);
    sim->net->conn_count--;
    mem_free(c);
}

void sim_conn_free_if_done(struct sim *sim, struct conn *c)
{
    if (c->waiting)
        return;
    for (int i = 0; i < 2; i++)
        if (!c->end[i].opened || c->end[i].handle >= 0 || has_something_under_way(&c->end[i]))
            return;
    sim_conn_free(sim, c);
}

struct listener *sim_find_listener(const struct net_world *net, const cafka_address *to)
{
    for (struct list *l = net->listeners.next; l != &net->listeners; l = l->next) {
        struct listener *listener = list_item(l, struct listener, link);
        const cafka_address *on = &listener->address;
        static const uint8_t any[16];
        if (on->port == to->port && on->family == to->family &&
            (!memcmp(on->ip, to->ip, sizeof on->ip) || !memcmp(on->ip, any, sizeof any)))
            return listener;
    }
    return NULL;
}

/* The dialer's hello is there: wait to be accepted and answer, or refuse. */
static void arrive_hello(struct sim *sim, struct conn *c)
{
    struct end *server = &c->end[1];
    struct listener *listener = sim_find_listener(sim->net, &c->address[1]);
    if (!listener || listener->waiting_count >= listener->backlog ||
        sim_port_mode(sim->net, c->address[1].port) == SIM_PORT_REFUSED) {
        server->opened = true;
        sim_end_direction(sim, server, REFUSES);
        return;
    }
    c->host[1] = listener->host;
    c->next_accept = NULL;
    *listener->waiting_end = c;
    listener->waiting_end = &c->next_accept;
    listener->waiting_count++;
    c->waiting = true;
    server->connected = true;
    sim_touch(sim, listener->handle);
    sim_say_hello(sim, server);
}

void sim_break_end(struct sim *sim, struct end *e, int error)
{
    if (!e->error)
        e->error = error;
    e->connected = false;
    sim_touch(sim, e->handle);
}

static void arrive_segment(struct sim *sim, struct end *from, struct end *to)
{
    struct segment *segment = sim_segments_pop(&from->under_way);
    sim_trace(sim, from->conn->id << 32 | segment->size);
    if (to->at_end || (to->opened && to->handle < 0)) { /* closed or cut meanwhile */
        mem_free(segment);
        sim_end_direction(sim, to, RESETS);
        return;
    }
    if (to->error) {
        mem_free(segment);
        return;
    }
    sim_segments_add(&to->arrived, segment);
    sim_touch(sim, to->handle);
}

static void arrive_ending(struct sim *sim, struct end *from, struct end *to)
{
    enum ending ending = from->ending;
    from->ending = GOES_ON;
    if (ending == ENDS) {
        to->at_end = true;
        sim_touch(sim, to->handle);
        return;
    }
    sim_break_end(sim, to, ending == REFUSES ? ECONNREFUSED : ECONNRESET);
    sim_segments_clear(&to->under_way); /* nobody is there to receive it */
    to->hello = false;
    to->ending = GOES_ON;
    sim_plan_arrival(sim, to);
}

static void on_arrival(struct sim *sim, struct happening *h)
{
    struct end *from = container_of(h, struct end, arrival), *to = sim_other_end(from);
    struct conn *c = from->conn;
    if (sim_is_held(sim->net, c))
        return; /* planned anew when that ends */
    if (from->hello && from->hello_at <= sim->now) {
        from->hello = false;
        if (from == &c->end[0]) {
            arrive_hello(sim, c);
        } else {
            to->connected = !to->error;
            sim_touch(sim, to->handle);
        }
    }
    while (!from->hello && from->under_way.first && from->under_way.first->at <= sim->now)
        arrive_segment(sim, from, to);
    if (!from->hello && !from->under_way.first && from->ending != GOES_ON &&
        from->ending_at <= sim->now)
        arrive_ending(sim, from, to);
    sim_plan_arrival(sim, from);
    sim_conn_free_if_done(sim, c);
}

/* --- life --- */

int sim_links_new(struct sim *sim)
{
    struct net_world *net = mem_zalloc(sizeof *net);
    if (!net)
        return -ENOMEM;
    sim->net = net;
    rng_fork(&net->rng, &sim->rng);
    list_init(&net->conns);
    list_init(&net->listeners);
    list_init(&net->questions);
    sim_link_default(&net->standard);
    return 0;
}

void sim_links_free(struct sim *sim)
{
    struct net_world *net = sim->net;
    if (!net)
        return;
    for (struct list *l; (l = list_first(&net->listeners));) {
        struct listener *listener = list_item(l, struct listener, link);
        list_remove(l);
        mem_free(listener);
    }
    for (struct list *l; (l = list_first(&net->conns));)
        sim_conn_free(sim, list_item(l, struct conn, link));
    sim_names_fini(sim);
    sim_rules_fini(net);
    mem_free(net);
    sim->net = NULL;
}

void sim_links_env(cafka_env *env)
{
    sim_sockets_env(env);
    sim_names_env(env);
}
