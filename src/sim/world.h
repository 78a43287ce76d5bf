/*
 * world.h - what the files of sim know of each other: the world, its hosts, and its handles.
 *
 * Thread: one.
 */
#ifndef CAFKA_SIM_WORLD_H
#define CAFKA_SIM_WORLD_H

#include "sim/sim.h"
#include "util/list.h"
#include "util/map.h"
#include "util/rng.h"

/* Something that happens at a time; those of one time in the order in which they were planned. */
struct happening {
    int64_t at;
    uint64_t order;
    size_t place; /* in the heap + 1; 0: not planned */
    void (*happen)(struct sim *sim, struct happening *h);
};

struct host {
    struct sim *sim;
    char *name;
    cafka_env env;
    struct rng random; /* env->random */
    int64_t wall_skew_ms;
};

enum handle_kind { HANDLE_FREE, HANDLE_POLLER, HANDLE_EVENT, HANDLE_LISTENER, HANDLE_SOCKET };

struct handle {
    enum handle_kind kind;
    void *object;
    /* sockets and listeners: who watches */
    int poller; /* handle; -1: nobody */
    unsigned wanted;
    void *user;
};

struct sim_runner {
    cafka_runner *runner;
    uint64_t id;
    bool inside; /* its step is on the stack */
};

struct disk;
struct net_world;

struct sim {
    int64_t now; /* ns, monotonic */
    uint64_t hash, steps, next_id;
    struct rng rng;       /* parent of all the others */
    struct rng scheduler; /* what runs next, and how long it takes */

    struct map hosts; /* by name */
    struct handle *handles;
    size_t handle_count;

    struct sim_runner **runners;
    size_t runner_count, runner_capacity;
    struct happening **heap;
    size_t heap_count, heap_capacity;
    uint64_t next_order;

    void (*report)(void *user, const char *message);
    void *report_user;
    bool deadlock_reported;

    struct net_world *net;
    struct disk *disk;
};

static inline struct host *host_of(const cafka_env *env)
{
    return env->state;
}

static inline struct sim *sim_of(const cafka_env *env)
{
    return host_of(env)->sim;
}

void sim_trace(struct sim *sim, uint64_t word); /* into the hash */

/* --- schedule.c --- */
/* Make room for one more happening, so that sim_plan() can't fail. False: no memory. */
bool sim_reserve(struct sim *sim, size_t happenings);
void sim_plan(struct sim *sim, struct happening *h, int64_t at);
void sim_unplan(struct sim *sim, struct happening *h);
int sim_handle_new(struct sim *sim, enum handle_kind kind, void *object); /* -ENOMEM */
struct handle *sim_handle(struct sim *sim, int handle,
                          enum handle_kind kind);  /* NULL: none of this kind */
void sim_handle_free(struct sim *sim, int handle); /* unwatches */
/* Something about this handle may have become ready. */
void sim_touch(struct sim *sim, int handle);
void sim_schedule_env(cafka_env *env); /* fills in the functions of this file */
void sim_schedule_fini(struct sim *sim);

/* --- links.c --- */
int sim_links_new(struct sim *sim);
void sim_links_free(struct sim *sim);
void sim_links_env(cafka_env *env);
unsigned sim_socket_readiness(struct sim *sim,
                              int handle); /* of a listener or socket: CAFKA_READABLE … */

/* --- disk.c --- */
int sim_disk_new(struct sim *sim);
void sim_disk_free(struct sim *sim);
void sim_disk_env(cafka_env *env);

#endif
