/*
 * links.c - the simulated network: listeners, connections, and the links between hosts.
 *
 * A connection has two ends, and each end one direction: the bytes under way to the other end.
 * What is sent travels as segments that arrive in order, each at a time drawn from the link's
 * latency; a direction is planned as one happening for its first arrival. The handshake goes the
 * same way: the dialer's direction begins with a hello, and the answer comes back on the other.
 * While a direction is held (a partition, a silent port) it keeps what it carries.
 *
 * As with TCP: what arrived before a reset is still read; whoever closes with bytes unread, or is
 * sent bytes after closing, answers with a reset.
 */
#include "sim/world.h"

#include <errno.h>
#include <string.h>

#include "util/alloc.h"

enum { EPHEMERAL_PORT = 32768, DIALER_PORT = 49152 };

enum ending { GOES_ON, ENDS, RESETS, REFUSES };

struct segment {
    struct segment *next;
    int64_t at;
    size_t size, taken;
    uint8_t bytes[];
};

struct segments {
    struct segment *first, **end;
    size_t bytes;
};

struct conn;

/* One end, and the direction that begins at it. */
struct end {
    struct conn *conn;
    int handle;      /* -1: not open (not accepted yet, or closed) */
    bool opened;     /* it has ever had a handle, or is not going to have one */
    bool connected;  /* may send */
    struct segments arrived;
    bool at_end;     /* the other end will send no more */
    int error;       /* the connection broke */

    struct happening arrival; /* at the other end, of what comes first */
    bool hello;
    int64_t hello_at;
    struct segments under_way;
    enum ending ending;
    int64_t ending_at;
    int64_t last_at; /* nothing sent later arrives sooner */
    int64_t free_at; /* bandwidth: when the wire is free */
};

struct conn {
    struct list link; /* of net_world.conns, in order of dialing */
    struct conn *next_accept;
    bool waiting; /* for accept, in a listener's queue */
    uint64_t id;
    struct host *host[2]; /* dialer, listener (NULL: not known yet) */
    cafka_address address[2];
    struct end end[2];
};

struct listener {
    struct list link;
    struct host *host;
    int handle;
    cafka_address address;
    int backlog, waiting_count;
    struct conn *waiting, **waiting_end; /* to be accepted */
};

/* A rule for the link between two hosts; NULL: any host. */
struct rule {
    char *a, *b;
    struct sim_link link;
};

struct port_rule {
    uint16_t port;
    enum sim_port mode;
};

struct resolved {
    struct happening answer;
    struct list link;
    cafka_resolved_fn *done;
    void *user;
    uint16_t port;
    char host[];
};

struct name {
    struct name *next; /* further addresses of the same name */
    cafka_address address;
};

struct net_world {
    struct rng rng;
    struct list conns, listeners, questions;
    size_t conn_count, question_count;
    uint64_t next_conn;
    uint32_t next_port;
    struct sim_link standard;
    struct rule *links;
    size_t link_count;
    struct rule *partitions; /* `link` is not used */
    size_t partition_count;
    struct port_rule *ports;
    size_t port_count;
    struct map names; /* struct name */
};

static void on_arrival(struct sim *sim, struct happening *h);

/* --- segments --- */

static void segments_init(struct segments *s)
{
    *s = (struct segments){.end = &s->first};
}

static void segments_add(struct segments *s, struct segment *segment)
{
    segment->next = NULL;
    *s->end = segment;
    s->end = &segment->next;
    s->bytes += segment->size - segment->taken;
}

static struct segment *segments_pop(struct segments *s)
{
    struct segment *segment = s->first;
    s->first = segment->next;
    if (!s->first)
        s->end = &s->first;
    s->bytes -= segment->size - segment->taken;
    return segment;
}

static void segments_clear(struct segments *s)
{
    while (s->first)
        mem_free(segments_pop(s));
}

/* --- rules --- */

static bool fits(const char *rule, const struct host *host)
{
    return !rule || (host && !strcmp(rule, host->name));
}

static bool rule_fits(const struct rule *rule, const struct conn *c)
{
    return (fits(rule->a, c->host[0]) && fits(rule->b, c->host[1])) ||
           (fits(rule->b, c->host[0]) && fits(rule->a, c->host[1]));
}

static const struct sim_link *link_of(const struct net_world *net, const struct conn *c)
{
    for (size_t i = net->link_count; i--;)
        if (rule_fits(&net->links[i], c))
            return &net->links[i].link;
    return &net->standard;
}

static enum sim_port port_mode(const struct net_world *net, uint16_t port)
{
    for (size_t i = 0; i < net->port_count; i++)
        if (net->ports[i].port == port)
            return net->ports[i].mode;
    return SIM_PORT_OPEN;
}

static bool is_held(const struct net_world *net, const struct conn *c)
{
    if (port_mode(net, c->address[1].port) == SIM_PORT_SILENT)
        return true;
    for (size_t i = 0; i < net->partition_count; i++)
        if (rule_fits(&net->partitions[i], c))
            return true;
    return false;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static void free_rule(struct rule *rule)
{
    mem_free(rule->a);
    mem_free(rule->b);
}

static int add_rule(struct rule **rules, size_t *count, const char *a, const char *b,
                    const struct sim_link *link, cafka_error *err)
{
    struct rule rule = {.a = mem_strdup(a), .b = mem_strdup(b)};
    struct rule *larger = mem_recalloc(*rules, *count + 1, sizeof rule);
    if (larger)
        *rules = larger;
    if (!larger || (a && !rule.a) || (b && !rule.b)) {
        free_rule(&rule);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a rule of the simulated network");
    }
    if (link)
        rule.link = *link;
    (*rules)[(*count)++] = rule;
    return CAFKA_OK;
}

static void remove_rules(struct rule *rules, size_t *count, const char *a, const char *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++) {
        bool same = (same_text(rules[i].a, a) && same_text(rules[i].b, b)) ||
                    (same_text(rules[i].a, b) && same_text(rules[i].b, a));
        if (same)
            free_rule(&rules[i]);
        else
            rules[kept++] = rules[i];
    }
    *count = kept;
}

/* --- directions --- */

static struct end *other_end(struct end *e)
{
    return e == &e->conn->end[0] ? &e->conn->end[1] : &e->conn->end[0];
}

static bool has_something_under_way(const struct end *e)
{
    return e->hello || e->under_way.first || e->ending != GOES_ON;
}

/* Plan the arrival of what comes first, unless it is held. */
static void plan_arrival(struct sim *sim, struct end *e)
{
    if (!has_something_under_way(e) || is_held(sim->net, e->conn)) {
        sim_unplan(sim, &e->arrival);
        return;
    }
    int64_t at = e->hello ? e->hello_at : e->under_way.first ? e->under_way.first->at : e->ending_at;
    if (!e->arrival.place || e->arrival.at != at)
        sim_plan(sim, &e->arrival, at);
}

/* When something that is sent now, of this size, arrives. */
static int64_t arrival_time(struct sim *sim, struct end *e, size_t size)
{
    const struct sim_link *link = link_of(sim->net, e->conn);
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

static void say_hello(struct sim *sim, struct end *e)
{
    e->hello = true;
    e->hello_at = arrival_time(sim, e, 0);
    plan_arrival(sim, e);
}

/* A reset overtakes nothing, but what was to end more gently is overruled. */
static void end_direction(struct sim *sim, struct end *e, enum ending how)
{
    if (e->ending == how || (e->ending != GOES_ON && how == ENDS))
        return;
    e->ending = how;
    e->ending_at = arrival_time(sim, e, 0);
    plan_arrival(sim, e);
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

static struct conn *new_conn(struct sim *sim, struct host *dialer, const cafka_address *to)
{
    struct net_world *net = sim->net;
    size_t happenings = 2 * (net->conn_count + 1) + net->question_count;
    struct conn *c = sim_reserve(sim, happenings) ? mem_zalloc(sizeof *c) : NULL;
    if (!c)
        return NULL;
    c->id = ++net->next_conn;
    c->host[0] = dialer;
    c->address[1] = *to;
    c->address[0] = (cafka_address){.family = 4, .ip = {127, 0, 0, 1},
                                    .port = (uint16_t)(DIALER_PORT + c->id % (65536 - DIALER_PORT))};
    init_end(c, 0);
    init_end(c, 1);
    list_push_back(&net->conns, &c->link);
    net->conn_count++;
    return c;
}

static void free_conn(struct sim *sim, struct conn *c)
{
    for (int i = 0; i < 2; i++) {
        sim_unplan(sim, &c->end[i].arrival);
        segments_clear(&c->end[i].arrived);
        segments_clear(&c->end[i].under_way);
    }
    list_remove(&c->link);
    sim->net->conn_count--;
    mem_free(c);
}

static void free_conn_if_done(struct sim *sim, struct conn *c)
{
    if (c->waiting)
        return;
    for (int i = 0; i < 2; i++)
        if (!c->end[i].opened || c->end[i].handle >= 0 || has_something_under_way(&c->end[i]))
            return;
    free_conn(sim, c);
}

static struct listener *find_listener(const struct net_world *net, const cafka_address *to)
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
    struct listener *listener = find_listener(sim->net, &c->address[1]);
    if (!listener || listener->waiting_count >= listener->backlog ||
        port_mode(sim->net, c->address[1].port) == SIM_PORT_REFUSED) {
        server->opened = true;
        end_direction(sim, server, REFUSES);
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
    say_hello(sim, server);
}

static void break_end(struct sim *sim, struct end *e, int error)
{
    if (!e->error)
        e->error = error;
    e->connected = false;
    sim_touch(sim, e->handle);
}

static void arrive_segment(struct sim *sim, struct end *from, struct end *to)
{
    struct segment *segment = segments_pop(&from->under_way);
    sim_trace(sim, from->conn->id << 32 | segment->size);
    if (to->at_end || (to->opened && to->handle < 0)) { /* closed or cut meanwhile */
        mem_free(segment);
        end_direction(sim, to, RESETS);
        return;
    }
    if (to->error) {
        mem_free(segment);
        return;
    }
    segments_add(&to->arrived, segment);
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
    break_end(sim, to, ending == REFUSES ? ECONNREFUSED : ECONNRESET);
    segments_clear(&to->under_way); /* nobody is there to receive it */
    to->hello = false;
    to->ending = GOES_ON;
    plan_arrival(sim, to);
}

static void on_arrival(struct sim *sim, struct happening *h)
{
    struct end *from = container_of(h, struct end, arrival), *to = other_end(from);
    struct conn *c = from->conn;
    if (is_held(sim->net, c))
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
    if (!from->hello && !from->under_way.first && from->ending != GOES_ON && from->ending_at <= sim->now)
        arrive_ending(sim, from, to);
    plan_arrival(sim, from);
    free_conn_if_done(sim, c);
}

/* --- sockets --- */

static struct end *end_of(const cafka_env *env, int handle)
{
    struct handle *h = sim_handle(sim_of(env), handle, HANDLE_SOCKET);
    return h ? h->object : NULL;
}

static struct listener *listener_of(struct sim *sim, int handle)
{
    struct handle *h = sim_handle(sim, handle, HANDLE_LISTENER);
    return h ? h->object : NULL;
}

static size_t window_left(const struct net_world *net, struct end *e)
{
    size_t used = e->under_way.bytes + other_end(e)->arrived.bytes;
    uint32_t window = link_of(net, e->conn)->window;
    return used < window ? window - used : 0;
}

unsigned sim_socket_readiness(struct sim *sim, int handle)
{
    struct listener *listener = listener_of(sim, handle);
    if (listener)
        return listener->waiting ? CAFKA_READABLE : 0;
    struct handle *h = sim_handle(sim, handle, HANDLE_SOCKET);
    if (!h)
        return 0;
    struct end *e = h->object;
    if (e->error)
        return CAFKA_READABLE | CAFKA_WRITABLE | CAFKA_HANGUP;
    unsigned events = 0;
    if (e->arrived.first || e->at_end)
        events |= CAFKA_READABLE;
    if (e->connected && window_left(sim->net, e))
        events |= CAFKA_WRITABLE;
    return events;
}

static int open_end(struct sim *sim, struct end *e)
{
    int handle = sim_handle_new(sim, HANDLE_SOCKET, e);
    if (handle >= 0) {
        e->handle = handle;
        e->opened = true;
    }
    return handle;
}

static int sim_dial(const cafka_env *env, const cafka_address *to)
{
    struct sim *sim = sim_of(env);
    struct conn *c = new_conn(sim, host_of(env), to);
    if (!c)
        return -ENOMEM;
    /* Who listens there, so that a partition holds the dial too. */
    struct listener *listener = find_listener(sim->net, to);
    if (listener)
        c->host[1] = listener->host;
    int handle = open_end(sim, &c->end[0]);
    if (handle < 0)
        free_conn(sim, c);
    else
        say_hello(sim, &c->end[0]);
    return handle;
}

static int sim_dial_result(const cafka_env *env, int handle)
{
    struct end *e = end_of(env, handle);
    if (!e)
        return -EBADF;
    if (e->error)
        return -e->error;
    return e->connected ? 0 : -EINPROGRESS;
}

static int sim_listen(const cafka_env *env, const cafka_address *on, int backlog, cafka_address *bound)
{
    struct sim *sim = sim_of(env);
    struct net_world *net = sim->net;
    cafka_address address = *on;
    for (int tries = DIALER_PORT - EPHEMERAL_PORT; !on->port && tries; tries--) {
        address.port = (uint16_t)(EPHEMERAL_PORT + net->next_port++ % (DIALER_PORT - EPHEMERAL_PORT));
        if (!find_listener(net, &address))
            break;
    }
    if (find_listener(net, &address))
        return -EADDRINUSE;
    struct listener *listener = mem_zalloc(sizeof *listener);
    if (!listener)
        return -ENOMEM;
    int handle = sim_handle_new(sim, HANDLE_LISTENER, listener);
    if (handle < 0) {
        mem_free(listener);
        return handle;
    }
    listener->host = host_of(env);
    listener->handle = handle;
    listener->address = address;
    listener->backlog = backlog > 0 ? backlog : 1;
    listener->waiting_end = &listener->waiting;
    list_push_back(&net->listeners, &listener->link);
    if (bound)
        *bound = address;
    return handle;
}

static struct conn *take_waiting(struct listener *listener)
{
    struct conn *c = listener->waiting;
    listener->waiting = c->next_accept;
    if (!listener->waiting)
        listener->waiting_end = &listener->waiting;
    listener->waiting_count--;
    c->waiting = false;
    return c;
}

static int sim_accept(const cafka_env *env, int handle, cafka_address *from)
{
    struct sim *sim = sim_of(env);
    struct listener *listener = listener_of(sim, handle);
    if (!listener)
        return -EBADF;
    if (!listener->waiting)
        return -EAGAIN;
    int accepted = open_end(sim, &listener->waiting->end[1]);
    if (accepted < 0)
        return accepted;
    struct conn *c = take_waiting(listener);
    if (from)
        *from = c->address[0];
    return accepted;
}

/* Of a read or write that could be `size` bytes: often all, sometimes fewer. */
static size_t perhaps_fewer(struct sim *sim, struct end *e, size_t size)
{
    unsigned one_in = link_of(sim->net, e->conn)->split_one_in;
    if (size < 2 || !one_in || rng_below(&sim->net->rng, one_in))
        return size;
    return 1 + (size_t)rng_below(&sim->net->rng, size - 1);
}

static ssize_t sim_recv(const cafka_env *env, int handle, void *into, size_t size)
{
    struct sim *sim = sim_of(env);
    struct end *e = end_of(env, handle);
    if (!e)
        return -EBADF;
    if (!e->arrived.first) {
        if (e->error)
            return -e->error;
        return e->at_end ? 0 : -EAGAIN;
    }
    size = perhaps_fewer(sim, e, size < e->arrived.bytes ? size : e->arrived.bytes);
    for (size_t done = 0; done < size;) {
        struct segment *segment = e->arrived.first;
        size_t part = segment->size - segment->taken;
        if (part > size - done)
            part = size - done;
        memcpy((uint8_t *)into + done, segment->bytes + segment->taken, part);
        segment->taken += part;
        e->arrived.bytes -= part;
        done += part;
        if (segment->taken == segment->size)
            mem_free(segments_pop(&e->arrived));
    }
    sim_touch(sim, other_end(e)->handle); /* its window has opened */
    return (ssize_t)size;
}

static size_t size_of_pieces(const struct iovec *pieces, int count)
{
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += pieces[i].iov_len;
    return size;
}

static void gather(uint8_t *into, size_t size, const struct iovec *pieces)
{
    for (size_t done = 0; done < size; pieces++) {
        size_t part = pieces->iov_len < size - done ? pieces->iov_len : size - done;
        if (part)
            memcpy(into + done, pieces->iov_base, part);
        done += part;
    }
}

static ssize_t sim_send(const cafka_env *env, int handle, const struct iovec *pieces, int count)
{
    struct sim *sim = sim_of(env);
    struct end *e = end_of(env, handle);
    if (!e)
        return -EBADF;
    if (e->error)
        return -EPIPE;
    size_t size = size_of_pieces(pieces, count), left = window_left(sim->net, e);
    if (!e->connected || !left)
        return -EAGAIN;
    size = perhaps_fewer(sim, e, size < left ? size : left);
    if (!size)
        return 0;
    struct segment *segment = mem_alloc(sizeof *segment + size);
    if (!segment)
        return -ENOBUFS;
    gather(segment->bytes, size, pieces);
    segment->size = size;
    segment->taken = 0;
    segment->at = arrival_time(sim, e, size);
    segments_add(&e->under_way, segment);
    plan_arrival(sim, e);
    return (ssize_t)size;
}

static ssize_t sim_send_file(const cafka_env *env, int handle, cafka_env_file *file, int64_t offset, size_t size)
{
    uint8_t bytes[16 * 1024];
    ssize_t got = env->file_read(env, file, bytes, size < sizeof bytes ? size : sizeof bytes, offset);
    if (got <= 0)
        return got;
    return sim_send(env, handle, &(struct iovec){bytes, (size_t)got}, 1);
}

static int sim_peer(const cafka_env *env, int handle, cafka_address *out)
{
    struct end *e = end_of(env, handle);
    if (!e)
        return -EBADF;
    *out = e->conn->address[e == &e->conn->end[0]];
    return 0;
}

static void close_end(struct sim *sim, struct end *e, bool reset)
{
    if (e->handle >= 0)
        sim_handle_free(sim, e->handle);
    e->handle = -1;
    e->opened = true;
    if (!e->error)
        end_direction(sim, e, reset || e->arrived.first ? RESETS : ENDS);
    if (reset)
        segments_clear(&e->under_way);
    plan_arrival(sim, e);
    segments_clear(&e->arrived);
    e->connected = false;
    free_conn_if_done(sim, e->conn);
}

static void close_listener(struct sim *sim, struct listener *listener)
{
    while (listener->waiting)
        close_end(sim, &take_waiting(listener)->end[1], true);
    sim_handle_free(sim, listener->handle);
    list_remove(&listener->link);
    mem_free(listener);
}

static void sim_reset(const cafka_env *env, int handle)
{
    struct end *e = end_of(env, handle);
    if (e)
        close_end(sim_of(env), e, true);
}

static void sim_close(const cafka_env *env, int handle)
{
    struct sim *sim = sim_of(env);
    struct listener *listener = listener_of(sim, handle);
    struct end *e = end_of(env, handle);
    if (listener)
        close_listener(sim, listener);
    else if (e)
        close_end(sim, e, false);
}

/* --- names --- */

static void on_answer(struct sim *sim, struct happening *h)
{
    enum { ADDRESSES_MAX = 16 };
    struct resolved *q = container_of(h, struct resolved, answer);
    cafka_address addresses[ADDRESSES_MAX];
    size_t count = 0;
    if (!strcmp(q->host, "localhost"))
        addresses[count++] = (cafka_address){.family = 4, .ip = {127, 0, 0, 1}};
    for (struct name *name = map_get_str(&sim->net->names, q->host); name && count < ADDRESSES_MAX;
         name = name->next)
        addresses[count++] = name->address;
    for (size_t i = 0; i < count; i++)
        addresses[i].port = q->port;
    list_remove(&q->link);
    sim->net->question_count--;
    q->done(q->user, count ? 0 : -ENOENT, addresses, count);
    mem_free(q);
}

static void sim_resolve(const cafka_env *env, const char *host, uint16_t port, cafka_resolved_fn *done,
                        void *user)
{
    struct sim *sim = sim_of(env);
    struct net_world *net = sim->net;
    cafka_address address;
    if (address_parse(host, port, &address)) {
        done(user, 0, &address, 1);
        return;
    }
    size_t size = strlen(host) + 1;
    size_t happenings = 2 * net->conn_count + net->question_count + 1;
    struct resolved *q = sim_reserve(sim, happenings) ? mem_zalloc(sizeof *q + size) : NULL;
    if (!q) {
        done(user, -ENOMEM, NULL, 0);
        return;
    }
    q->answer.happen = on_answer;
    q->done = done;
    q->user = user;
    q->port = port;
    memcpy(q->host, host, size);
    list_push_back(&net->questions, &q->link);
    net->question_count++;
    sim_plan(sim, &q->answer, sim->now + 1000 * rng_between(&net->rng, 100, 5000));
}

int sim_name_add(struct sim *sim, const char *text, const char *ip, cafka_error *err)
{
    struct name *name = mem_zalloc(sizeof *name);
    if (!name)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a name");
    if (!address_parse(ip, 0, &name->address)) {
        mem_free(name);
        return error_set(err, CAFKA_ERR_ARGUMENT, "%s is no address", ip);
    }
    struct name *first = map_get_str(&sim->net->names, text);
    if (first) {
        while (first->next)
            first = first->next;
        first->next = name;
    } else if (!map_put_str(&sim->net->names, text, name)) {
        mem_free(name);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a name");
    }
    return CAFKA_OK;
}

static void free_names(struct name *name)
{
    while (name) {
        struct name *next = name->next;
        mem_free(name);
        name = next;
    }
}

void sim_name_remove(struct sim *sim, const char *name)
{
    free_names(map_remove_str(&sim->net->names, name));
}

/* --- what tests do to the network --- */

void sim_link_default(struct sim_link *out)
{
    *out = (struct sim_link){.latency_min_us = 100, .latency_max_us = 1000, .window = 256 * 1024,
                             .split_one_in = 4};
}

int sim_link_set(struct sim *sim, const char *a, const char *b, const struct sim_link *link, cafka_error *err)
{
    return add_rule(&sim->net->links, &sim->net->link_count, a, b, link, err);
}

/* Something that held connections has begun or ended. */
static void replan_all(struct sim *sim)
{
    for (struct list *l = sim->net->conns.next; l != &sim->net->conns; l = l->next) {
        struct conn *c = list_item(l, struct conn, link);
        plan_arrival(sim, &c->end[0]);
        plan_arrival(sim, &c->end[1]);
    }
}

int sim_partition(struct sim *sim, const char *a, const char *b, bool on, cafka_error *err)
{
    struct net_world *net = sim->net;
    remove_rules(net->partitions, &net->partition_count, a, b);
    int rc = on ? add_rule(&net->partitions, &net->partition_count, a, b, NULL, err) : CAFKA_OK;
    replan_all(sim);
    return rc;
}

void sim_heal(struct sim *sim)
{
    struct net_world *net = sim->net;
    while (net->partition_count)
        free_rule(&net->partitions[--net->partition_count]);
    net->port_count = 0;
    replan_all(sim);
}

int sim_port_set(struct sim *sim, uint16_t port, enum sim_port mode, cafka_error *err)
{
    struct net_world *net = sim->net;
    size_t i = 0;
    while (i < net->port_count && net->ports[i].port != port)
        i++;
    if (i == net->port_count) {
        struct port_rule *ports = mem_recalloc(net->ports, i + 1, sizeof *ports);
        if (!ports)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for a rule of the simulated network");
        net->ports = ports;
        net->port_count++;
    }
    net->ports[i] = (struct port_rule){port, mode};
    replan_all(sim);
    return CAFKA_OK;
}

/* At once, and with what is under way: the cable is cut. */
static void cut(struct sim *sim, struct conn *c, enum sim_cut how)
{
    for (int i = 0; i < 2; i++) {
        struct end *e = &c->end[i];
        segments_clear(&e->under_way);
        e->hello = false;
        e->ending = GOES_ON;
        sim_unplan(sim, &e->arrival);
        if (how == SIM_CUT_END && e->connected)
            e->at_end = true;
        else
            break_end(sim, e, ECONNRESET);
        sim_touch(sim, e->handle);
    }
    if (!c->waiting)
        c->end[1].opened = true; /* it will not be accepted any more */
    free_conn_if_done(sim, c);
}

static unsigned cut_where(struct sim *sim, const struct rule *rule, uint16_t port, enum sim_cut how)
{
    unsigned count = 0;
    struct list *link, *after;
    list_each(link, after, &sim->net->conns) {
        struct conn *c = list_item(link, struct conn, link);
        if (rule ? !rule_fits(rule, c) : c->address[1].port != port)
            continue;
        count++;
        sim_trace(sim, c->id);
        cut(sim, c, how);
    }
    return count;
}

unsigned sim_cut(struct sim *sim, const char *a, const char *b, enum sim_cut how)
{
    struct rule rule = {.a = (char *)(uintptr_t)a, .b = (char *)(uintptr_t)b};
    return cut_where(sim, &rule, 0, how);
}

unsigned sim_cut_port(struct sim *sim, uint16_t port, enum sim_cut how)
{
    return cut_where(sim, NULL, port, how);
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
        free_conn(sim, list_item(l, struct conn, link));
    for (struct list *l; (l = list_pop_front(&net->questions));) {
        struct resolved *q = list_item(l, struct resolved, link);
        sim_unplan(sim, &q->answer);
        mem_free(q);
    }
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&net->names, &i));)
        free_names(e->value);
    map_fini(&net->names);
    while (net->link_count)
        free_rule(&net->links[--net->link_count]);
    while (net->partition_count)
        free_rule(&net->partitions[--net->partition_count]);
    mem_free(net->links);
    mem_free(net->partitions);
    mem_free(net->ports);
    mem_free(net);
    sim->net = NULL;
}

void sim_links_env(cafka_env *env)
{
    env->dial = sim_dial;
    env->dial_result = sim_dial_result;
    env->listen = sim_listen;
    env->accept = sim_accept;
    env->recv = sim_recv;
    env->send = sim_send;
    env->send_file = sim_send_file;
    env->peer = sim_peer;
    env->reset = sim_reset;
    env->close = sim_close;
    env->resolve = sim_resolve;
}
