/*
 * names.c - the resolver of the simulated world: answers come a little later, as outside.
 */
#include "sim/links.h"

#include <errno.h>
#include <string.h>

#include "util/alloc.h"

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

static void sim_resolve(const cafka_env *env, const char *host, uint16_t port,
                        cafka_resolved_fn *done, void *user)
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

void sim_names_env(cafka_env *env)
{
    env->resolve = sim_resolve;
}

void sim_names_fini(struct sim *sim)
{
    struct net_world *net = sim->net;
    for (struct list *l; (l = list_pop_front(&net->questions));) {
        struct resolved *q = list_item(l, struct resolved, link);
        sim_unplan(sim, &q->answer);
        mem_free(q);
    }
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&net->names, &i));)
        free_names(e->value);
    map_fini(&net->names);
}
