/*
 * client.h - what a producer, a consumer and an admin are made on: loop, brokers, metadata, waiting.
 *
 * A room above embeds a struct client, fills struct client_hooks, and calls client_open(). From
 * then on the loop is its home: hooks and `done` functions run there, and only there brokers,
 * connections and metadata may be touched. Application threads cross over with client_post() or
 * client_run(), and wait with client_wait(), which knows when it must not.
 *
 * Owner:   the room that embeds it; client_close(), then client_fini().
 * Thread:  said at each part.
 * Reading: struct client, client_call(), client_wait(); brokers in broker.c, calls in call.c.
 */
#ifndef CAFKA_CLIENT_CLIENT_H
#define CAFKA_CLIENT_CLIENT_H

#include <stdatomic.h>

#include <cafka/client.h>

#include "client/metadata.h"
#include "client/metrics.h"
#include "client/settings.h"
#include "conn/backoff.h"
#include "conn/conn.h"
#include "util/map.h"

/* A connection to a broker, for one kind of traffic, so that bulk data does not hold up the rest. */
enum lane { LANE_DATA, LANE_CONTROL, LANE_COUNT };

struct broker {
    struct client *client;
    int32_t id; /* below 0: from bootstrap.servers, known by address only */
    char *host;
    uint16_t port;
    char *rack;   /* NULL: none */
    bool present; /* in the newest metadata (or bootstrap list); others take no new work */
    struct list link;
    void *user; /* of the room above */
    struct broker_lane {
        struct broker *broker;
        enum lane lane;
        struct conn *conn; /* NULL until it is wanted */
        struct list calls; /* struct call, waiting for the connection */
        bool was_ready;
        bool wanted; /* there was no memory for the connection: the pump makes it */
    } lanes[LANE_COUNT];
    struct conn_meters meters;
    struct metric_set metric_set;
    char node_name[20]; /* as Java names it: "node-1" */
    int64_t tried_ms; /* when a connection was asked for last; for the choice of the least loaded */
    int told_error;   /* event callback: once per cause */
};

/* What the room above hears, on the loop. Each may be NULL. */
struct client_hooks {
    void (*topic_changed)(void *room, struct metadata_topic *topic, unsigned what /* METADATA_… */);
    /* The connection became usable, a slot is free again, or its throttle is over: send what waits. */
    void (*broker_writable)(void *room, struct broker *broker, enum lane lane);
    /* It broke; requests in flight were done with errors before. */
    void (*broker_down)(void *room, struct broker *broker, enum lane lane, const cafka_error *why);
    /* A callback waits for client_dispatch(). Any thread. */
    void (*callback_queued)(void *room);
};

struct client {
    const cafka_env *env;
    struct loop *loop;
    const struct client_settings *settings;
    struct log log;
    struct metadata *metadata;
    struct frame_pool *frames;
    struct list brokers; /* all that were ever known; a struct broker lives as long as the client */
    struct map by_id;
    int broker_count;
    struct conn_options conn_options;
    struct client_hooks hooks;
    void *room;
    int max_in_flight[LANE_COUNT];
    bool stopped; /* loop: connections are gone, no new ones */
    atomic_bool closing;

    struct metrics metrics;
    struct conn_meters meters; /* of all its connections */
    struct metric_set metric_set;

    /* client.c's own */
    cafka_loop *shared_loop; /* NULL: the loop is private */
    unsigned fork_generation;
    bool queue_callbacks; /* for cafka_dispatch(), instead of running them on the loop */
    int dispatch_event;   /* signalled while `callbacks` is not empty, and while there is fd_news */
    bool has_news;        /* the room calls client_news() */
    atomic_bool fd_asked, fd_news;
    struct mpsc callbacks;
    struct loop_task start_task, stop_task, finish_task;
    bool started;
    atomic_bool finished; /* somebody has seen finish_event: the loop knows the client no more */
    int finish_event;
    struct loop_task barrier_task; /* client_barrier() */
    int barrier_event;
    bool barrier_posted;

    /* call.c and broker.c */
    struct list orphans; /* calls whose broker is not known yet */
    struct timer pump_timer;
    int32_t next_bootstrap_id;
    struct list bootstraps; /* names of bootstrap.servers that are being resolved */
};

/* What <cafka/client.h> calls a cafka_client is a struct client. */
static inline cafka_client *client_public(struct client *client)
{
    return (cafka_client *)client;
}

struct client_options {
    const struct client_settings *settings; /* must outlive the client */
    struct client_hooks hooks;
    void *room;
    bool has_news;                 /* it has more for cafka_client_fd() than callbacks */
    int max_in_flight[LANE_COUNT]; /* 0: 5 for data, 20 for control */
};

/* Any thread. Starts a private background loop unless settings name one. Nothing is dialed yet. */
int client_open(struct client *client, const struct client_options *options, cafka_error *err);
/* Any thread: connect to the bootstrap servers and keep metadata from now on (hooks begin). */
void client_start(struct client *client);
/*
 * Close connections, fail all that is in flight or waiting with CAFKA_ERR_CLOSED, stop hooks.
 * Within the deadline (ns of env->now, CAFKA_NEVER) or CAFKA_ERR_TIMEOUT: then the loop is held
 * by a callback of the application, and goes on with it when that returns. Idempotent.
 */
int client_close(struct client *client, int64_t deadline, cafka_error *err);
/* After client_close(); waits for the loop's thread. Takes a zeroed client. */
void client_fini(struct client *client);

/* --- crossing to the loop: any thread --- */

static inline void client_post(struct client *client, struct loop_task *task)
{
    loop_post(client->loop, task);
}
/*
 * Run fn(arg) on the loop and wait until it has returned; on the loop's own thread, at once. On an
 * error fn was not and will not be called.
 * Errors: CAFKA_ERR_CLOSED, CAFKA_ERR_FORKED, CAFKA_ERR_MEMORY, CAFKA_ERR_SYSTEM.
 */
int client_run(struct client *client, void (*fn)(void *arg), void *arg, cafka_error *err);
/*
 * Wait until all that this thread has posted to the loop has run; allowed on a closed client, by one
 * thread. After an error nothing that was posted may be freed.
 */
int client_barrier(struct client *client, cafka_error *err);

/*
 * May this thread wait? CAFKA_OK, CAFKA_ERR_IN_CALLBACK (a callback of ours is on this thread's
 * stack), CAFKA_ERR_WOULD_BLOCK (the loop's thread), CAFKA_ERR_FORKED.
 */
int client_may_wait(const struct client *client, cafka_error *err);
/*
 * Sleep until the env event is signalled (which takes it) or the deadline (ns) passed. In external
 * mode it runs the loop, unless that is another thread's (shared_loop_wait()).
 * Errors: CAFKA_ERR_TIMEOUT, CAFKA_ERR_SYSTEM, and those of client_may_wait().
 */
int client_wait(struct client *client, int event, int64_t deadline, cafka_error *err);
/*
 * The same for an event that certainly comes, when the memory that it is about is the caller's: does
 * not return before. client_may_wait() was asked.
 */
void client_await(struct client *client, int event);
/* Wake a thread that sleeps in client_wait(). Any thread, signal handlers too. */
void client_signal(struct client *client, int event);
/* Deadline in ns for a timeout in ms: -1 is CAFKA_NEVER. */
int64_t client_deadline(const struct client *client, int64_t timeout_ms);
/* CAFKA_ERR_FORKED in a process that did not make the client, CAFKA_ERR_CLOSED once closing. */
int client_usable(const struct client *client, cafka_error *err);
int client_not_forked(const struct client *client, cafka_error *err);
/* The same for a path per record. */
extern atomic_uint client_fork_generation;
static inline bool client_is_forked(const struct client *client)
{
    return atomic_load_explicit(&client_fork_generation, memory_order_relaxed) !=
           client->fork_generation;
}

/* --- callbacks of the application --- */

/* Lives in the caller's struct; `run` calls the application and is called once. */
struct client_callback {
    struct mpsc_item link; /* first */
    void (*run)(struct client_callback *callback);
};
/*
 * From the loop. callback.dispatch=loop: runs it here and now (a run of more than 100 ms is
 * logged); =queue: keeps it for cafka_dispatch().
 */
void client_callback(struct client *client, struct client_callback *callback);
/* Mark that the application's code runs on this thread; nests. */
void client_callback_enter(void);
void client_callback_leave(void);
/*
 * For a room with more for the application than callbacks: cafka_client_fd() is readable from
 * client_news() on (any thread) until client_no_news() says that the application has found
 * nothing (then look once more, and call client_news() if there is something now). False: nobody
 * has asked for the descriptor.
 */
void client_news(struct client *client);
bool client_no_news(struct client *client);

/* Is there one for client_dispatch()? */
static inline bool client_has_callbacks(const struct client *client)
{
    return !mpsc_empty(&client->callbacks);
}
/* Run queued callbacks on this thread; how many. Consumers call it from their own calls. */
int client_dispatch(struct client *client);

/*
 * Tell the event function and the log about an error that belongs to no call. *told, zero at
 * first, remembers the cause, so that it is told once; set it back to 0 when things are well.
 */
void client_report(struct client *client, int *told, const cafka_error *error, const char *topic,
                   int32_t partition, int32_t broker);

/* --- brokers: the loop's thread --- */

struct broker *client_broker(const struct client *client, int32_t id); /* NULL: not known */
/*
 * The connection of a lane; makes it and starts dialing as needed. NULL: no memory (it is made later,
 * and broker_writable follows), or stopped.
 * Send when conn_can_send(); broker_writable tells when that may have changed.
 */
struct conn *broker_conn(struct broker *broker, enum lane lane);
/* A broker whose lane can send now, fewest in flight first; else one is being dialed now. NULL: wait. */
struct broker *client_least_loaded(struct client *client, enum lane lane);

/* --- requests that wait for their connection: the loop's thread --- */

enum { CALL_ANY = -1, CALL_CONTROLLER = -2 }; /* targets beside broker ids */

/*
 * One request to one broker, sent when the connection is there. Zero it, set the first part.
 * `done` is called exactly once, never inside client_call(). It is not retried.
 */
struct call {
    struct request request; /* first; its `done` is the call's own */
    void (*done)(struct call *call, const struct reply *reply);
    /* Adapt the body to the version that will be used; optional. */
    int (*prepare)(struct call *call, int version, cafka_error *err);
    const void *body; /* struct of the API; must stay until `done` */
    int max_version;  /* 0: no bound */
    /* Done with the error as soon as its broker cannot be reached, or is not known: it may have to go
     * to another. Otherwise it waits for that broker until the deadline. */
    bool impatient;
    int64_t deadline_ms; /* loop_now_ms() clock; 0: request.timeout.ms from now, waiting included */

    /* its own */
    struct client *client;
    struct broker *broker;
    enum lane lane;
    bool waiting;
    struct list link;
    struct timer timer;
    int32_t target;
};
/*
 * request.api_key, done and body are set. A broker that metadata has not named yet (a coordinator,
 * say) is made known with metadata_hint_broker() before. A call that stands for something long-lived
 * may be used again.
 */
void client_call(struct client *client, struct call *call, int32_t target, enum lane lane);
void client_call_cancel(struct call *call); /* no `done`; takes one that is not running */

#endif
