/*
 * sim.c - see sim.h: the world as a whole, its hosts, clock and chance.
 */
#include "sim/world.h"

#include <errno.h>
#include <string.h>

#include "util/alloc.h"

/* 2025-01-01 00:00 UTC, and a clock that has been running for a while. */
#define WALL_START_MS INT64_C(1735689600000)
#define CLOCK_START_NS (INT64_C(1000) * 1000000000)

static int64_t sim_clock(const cafka_env *env)
{
    return sim_of(env)->now;
}

static int64_t sim_wall_ms(const cafka_env *env)
{
    const struct host *host = host_of(env);
    return WALL_START_MS + (host->sim->now - CLOCK_START_NS) / NS_PER_MS + host->wall_skew_ms;
}

static uint64_t sim_random(const cafka_env *env)
{
    return rng_next(&host_of(env)->random);
}

void sim_trace(struct sim *sim, uint64_t word)
{
    for (int i = 0; i < 8; i++) {
        sim->hash = (sim->hash ^ (word & 0xff)) * UINT64_C(0x100000001b3);
        word >>= 8;
    }
}

static void free_host(struct host *host)
{
    if (!host)
        return;
    mem_free(host->name);
    mem_free(host);
}

/* Its chance depends on the seed and its name, not on when it was first asked for. */
static void seed_host(struct host *host)
{
    struct rng mixed = host->sim->rng;
    uint64_t seed = rng_next(&mixed);
    for (const char *p = host->name; *p; p++)
        seed = (seed ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    rng_seed(&host->random, seed);
}

const cafka_env *sim_env_for(struct sim *sim, const char *name)
{
    struct host *host = map_get_str(&sim->hosts, name);
    if (host)
        return &host->env;
    host = mem_zalloc(sizeof *host);
    if (!host)
        return NULL;
    host->sim = sim;
    host->name = mem_strdup(name);
    if (!host->name || !map_put_str(&sim->hosts, name, host)) {
        free_host(host);
        return NULL;
    }
    seed_host(host);
    host->env = (cafka_env){
        .size = sizeof(cafka_env),
        .simulated = 1,
        .state = host,
        .now = sim_clock,
        .wall_ms = sim_wall_ms,
        .random = sim_random,
    };
    sim_schedule_env(&host->env);
    sim_links_env(&host->env);
    sim_disk_env(&host->env);
    return &host->env;
}

const cafka_env *sim_env_beside(const cafka_env *env, const char *name)
{
    return env->now == sim_clock ? sim_env_for(sim_of(env), name) : NULL;
}

int sim_new(struct sim **out, uint64_t seed, cafka_error *err)
{
    struct sim *sim = mem_zalloc(sizeof *sim);
    if (!sim)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a simulated world");
    sim->now = CLOCK_START_NS;
    sim->hash = UINT64_C(0xcbf29ce484222325);
    rng_seed(&sim->rng, seed);
    rng_fork(&sim->scheduler, &sim->rng);
    if (sim_links_new(sim) < 0 || sim_disk_new(sim) < 0 || !sim_env_for(sim, "")) {
        sim_free(sim);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a simulated world");
    }
    *out = sim;
    return CAFKA_OK;
}

void sim_free(struct sim *sim)
{
    if (!sim)
        return;
    sim_links_free(sim);
    sim_disk_free(sim);
    sim_schedule_fini(sim);
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&sim->hosts, &i));)
        free_host(e->value);
    map_fini(&sim->hosts);
    mem_free(sim);
}

const cafka_env *sim_env(struct sim *sim)
{
    return sim_env_for(sim, "");
}

void sim_rng(struct sim *sim, struct rng *out)
{
    rng_fork(out, &sim->rng);
}

int64_t sim_now_ms(struct sim *sim)
{
    return sim->now / NS_PER_MS;
}

uint64_t sim_trace_hash(struct sim *sim)
{
    return sim->hash;
}

uint64_t sim_steps(struct sim *sim)
{
    return sim->steps;
}

void sim_wall_skew(struct sim *sim, const char *name, int64_t skew_ms)
{
    const cafka_env *env = sim_env_for(sim, name);
    if (env)
        host_of(env)->wall_skew_ms = skew_ms;
}

void sim_on_deadlock(struct sim *sim, void (*report)(void *user, const char *message), void *user)
{
    sim->report = report;
    sim->report_user = user;
    sim->deadlock_reported = false;
}
