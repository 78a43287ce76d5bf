/*
 * sim.h - a world of its own: virtual time, seeded chance, links and disks in memory, one thread.
 *
 * Whatever is given sim_env() runs in it as it would outside: loops are stepped instead of having
 * threads, and an ordinary blocking test works unchanged, since event_wait() of the application's
 * thread steps everything else until its event is set. What runs next is drawn from the seed. When
 * nothing can run, the clock jumps to the next deadline or delivery. So a seed replays: the same
 * program with the same seed has the same sim_trace_hash().
 *
 *     struct sim *sim;
 *     sim_new(&sim, seed, &err);
 *     loop_new(&loop, sim_env(sim), LOOP_BACKGROUND, &err);      and so on, then
 *     sim_run_until(sim, all_delivered, &test, 10000);
 *     sim_free(sim);                                             after all that lives in it
 *
 * Hosts: sim_env() is the host "". sim_env_for() gives the same world seen from another host, by
 * whose name links are cut, delayed and partitioned. All hosts share one clock, one address space
 * and one disk (a broker has its own directory in it).
 *
 * Owner:  the test, or a simulated mock cluster.
 * Thread: one.
 */
#ifndef CAFKA_SIM_SIM_H
#define CAFKA_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "env/env.h"
#include "util/rng.h"

struct sim;

/* CAFKA_ERR_MEMORY. */
int sim_new(struct sim **out, uint64_t seed, cafka_error *err);
void sim_free(struct sim *sim); /* takes NULL */

const cafka_env *sim_env(struct sim *sim);
/* The world seen from `host`, made when first asked for; lives as long as the sim. NULL: no memory. */
const cafka_env *sim_env_for(struct sim *sim, const char *host);
/* The same for who has an env of it only; NULL also if that is of no simulated world. */
const cafka_env *sim_env_beside(const cafka_env *env, const char *host);
/* A stream of chance of one's own, so that new draws do not shift those of others. */
void sim_rng(struct sim *sim, struct rng *out);

/* --- time and scheduling --- */

/* Run the world until condition(arg) is true; false: timeout_ms of virtual time passed first. */
bool sim_run_until(struct sim *sim, bool (*condition)(void *arg), void *arg, int64_t timeout_ms);
void sim_advance_ms(struct sim *sim, int64_t ms); /* run the world for that long */
int64_t sim_now_ms(struct sim *sim);
/* Of all that was decided and delivered so far. */
uint64_t sim_trace_hash(struct sim *sim);
uint64_t sim_steps(struct sim *sim);
/* Let a host's wall clock be ahead of (or behind) the others'. */
void sim_wall_skew(struct sim *sim, const char *host, int64_t skew_ms);
/* What blocking for ever with nothing left to happen does: a report, once, in `message`; NULL: stderr and abort(). */
void sim_on_deadlock(struct sim *sim, void (*report)(void *user, const char *message), void *user);

/* --- links; a host of NULL is any --- */

struct sim_link {
    int64_t latency_min_us,
        latency_max_us;    /* of each delivery; the order within a connection holds */
    uint32_t bytes_per_ms; /* 0: no limit */
    uint32_t window;       /* bytes under way and unread, in one direction */
    unsigned split_one_in; /* each so many-th read or write is a partial one; 0: none */
};

/* The link between two hosts, both ways, for what is sent from now on. The last rule that fits counts. */
int sim_link_set(struct sim *sim, const char *a, const char *b, const struct sim_link *link,
                 cafka_error *err);
void sim_link_default(struct sim_link *out); /* 0.1 to 1 ms, no limit, 256 KiB, one in 4 */

/* While on, nothing passes between the two: connections hang, dials too. Afterwards it arrives, late. */
int sim_partition(struct sim *sim, const char *a, const char *b, bool on, cafka_error *err);
void sim_heal(struct sim *sim); /* ends all partitions, opens all ports */

enum sim_cut { SIM_CUT_RESET, SIM_CUT_END };
/* Break the connections between the two: both ends see a reset, or the end of the stream. Returns how many. */
unsigned sim_cut(struct sim *sim, const char *a, const char *b, enum sim_cut how);
unsigned sim_cut_port(struct sim *sim, uint16_t port,
                      enum sim_cut how); /* those to a listener's port */

/* What happens to those who dial a port: as it is, refused though somebody listens, or no answer. */
enum sim_port { SIM_PORT_OPEN, SIM_PORT_REFUSED, SIM_PORT_SILENT };
int sim_port_set(struct sim *sim, uint16_t port, enum sim_port mode, cafka_error *err);

/* A name for the resolver; again: another address of it. "localhost" is 127.0.0.1 and known. */
int sim_name_add(struct sim *sim, const char *name, const char *ip, cafka_error *err);
void sim_name_remove(struct sim *sim, const char *name);

/* --- disk ---
 * What was written is seen at once by all. A power loss keeps what was synced; what came later only
 * in part: of each file's writes and each directory's names a random prefix, the last write perhaps
 * torn. Writes older than 30 s and names older than 5 s are kept (the kernel has written them back).
 * A file's content is synced by file_sync(), its name by path_sync() of its directory.
 */

/* Power loss of what lies under `directory`. Its open files fail with -EIO from then on. */
void sim_disk_crash(struct sim *sim, const char *directory);
/* The process is gone, the kernel is not: open files under `directory` fail with -EIO, all bytes stay. */
void sim_disk_kill(struct sim *sim, const char *directory);

enum { SIM_DISK_READ = 1, SIM_DISK_WRITE = 2, SIM_DISK_SYNC = 4 };
/* One in so many operations of these kinds under `directory` fails with -error; one_in 0 ends that. */
int sim_disk_fail(struct sim *sim, const char *directory, unsigned kinds, int error,
                  unsigned one_in, cafka_error *err);
void sim_disk_capacity(struct sim *sim,
                       int64_t bytes); /* of all files; 0: no limit. Beyond: -ENOSPC */
int64_t sim_disk_used(struct sim *sim);

#endif
