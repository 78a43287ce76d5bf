/*
 * links.h - the simulated network from inside: connections, their two directions, and rules.
 *
 * A connection has two ends, and each end one direction: the bytes under way to the other end.
 * What is sent travels as segments that arrive in order, each at a time drawn from the link's
 * latency; a direction is planned as one happening for its first arrival. The handshake goes the
 * same way: the dialer's direction begins with a hello, and the answer comes back on the other.
 * While a direction is held (a partition, a silent port) it keeps what it carries.
 *
 * As with TCP: what arrived before a reset is still read; whoever closes with bytes unread, or is
 * sent bytes after closing, answers with a reset.
 *
 * Owner:   the world.
 * Thread:  one.
 * Reading: sockets.c puts bytes under way, links.c lets them arrive, rules.c says when and whether.
 */
#ifndef CAFKA_SIM_LINKS_H
#define CAFKA_SIM_LINKS_H

#include "sim/world.h"

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
    int handle;     /* -1: not open (not accepted yet, or closed) */
    bool opened;    /* it has ever had a handle, or is not going to have one */
    bool connected; /* may send */
    struct segments arrived;
    bool at_end; /* the other end will send no more */
    int error;   /* the connection broke */

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

/* --- links.c --- */
void sim_segments_add(struct segments *s, struct segment *segment);
struct segment *sim_segments_pop(struct segments *s);
void sim_segments_clear(struct segments *s);
struct end *sim_other_end(struct end *e);
void sim_plan_arrival(struct sim *sim, struct end *e); /* of what comes first, unless it is held */
int64_t sim_arrival_time(struct sim *sim, struct end *e, size_t size); /* of what is sent now */
void sim_say_hello(struct sim *sim, struct end *e);
void sim_end_direction(struct sim *sim, struct end *e, enum ending how);
void sim_break_end(struct sim *sim, struct end *e, int error);
struct conn *sim_conn_new(struct sim *sim, struct host *dialer,
                          const cafka_address *to); /* NULL: no memory */
void sim_conn_free(struct sim *sim, struct conn *c);
void sim_conn_free_if_done(struct sim *sim, struct conn *c);
struct listener *sim_find_listener(const struct net_world *net, const cafka_address *to);

/* --- sockets.c --- */
void sim_sockets_env(cafka_env *env);

/* --- rules.c --- */
bool sim_rule_fits(const struct rule *rule, const struct conn *c);
const struct sim_link *sim_link_of(const struct net_world *net, const struct conn *c);
enum sim_port sim_port_mode(const struct net_world *net, uint16_t port);
bool sim_is_held(const struct net_world *net, const struct conn *c);
void sim_rules_fini(struct net_world *net);

/* --- names.c --- */
void sim_names_env(cafka_env *env);
void sim_names_fini(struct sim *sim);

#endif
