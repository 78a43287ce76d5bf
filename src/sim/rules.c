/*
 * rules.c - what tests do to the simulated network: latency, partitions, cuts, ports.
 */
#include "sim/links.h"

#include <errno.h>
#include <string.h>

#include "util/alloc.h"

static bool fits(const char *rule, const struct host *host)
{
    return !rule || (host && !strcmp(rule, host->name));
}

bool sim_rule_fits(const struct rule *rule, const struct conn *c)
{
    return (fits(rule->a, c->host[0]) && fits(rule->b, c->host[1])) ||
           (fits(rule->b, c->host[0]) && fits(rule->a, c->host[1]));
}

const struct sim_link *sim_link_of(const struct net_world *net, const struct conn *c)
{
    for (size_t i = net->link_count; i--;)
        if (sim_rule_fits(&net->links[i], c))
            return &net->links[i].link;
    return &net->standard;
}

enum sim_port sim_port_mode(const struct net_world *net, uint16_t port)
{
    for (size_t i = 0; i < net->port_count; i++)
        if (net->ports[i].port == port)
            return net->ports[i].mode;
    return SIM_PORT_OPEN;
}

bool sim_is_held(const struct net_world *net, const struct conn *c)
{
    if (sim_port_mode(net, c->address[1].port) == SIM_PORT_SILENT)
        return true;
    for (size_t i = 0; i < net->partition_count; i++)
        if (sim_rule_fits(&net->partitions[i], c))
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

/* --- what tests do to the network --- */

void sim_link_default(struct sim_link *out)
{
    *out = (struct sim_link){.latency_min_us = 100,
                             .latency_max_us = 1000,
                             .window = 256 * 1024,
                             .split_one_in = 4};
}

int sim_link_set(struct sim *sim, const char *a, const char *b, const struct sim_link *link,
                 cafka_error *err)
{
    return add_rule(&sim->net->links, &sim->net->link_count, a, b, link, err);
}

/* Something that held connections has begun or ended. */
static void replan_all(struct sim *sim)
{
    for (struct list *l = sim->net->conns.next; l != &sim->net->conns; l = l->next) {
        struct conn *c = list_item(l, struct conn, link);
        sim_plan_arrival(sim, &c->end[0]);
        sim_plan_arrival(sim, &c->end[1]);
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
        sim_segments_clear(&e->under_way);
        e->hello = false;
        e->ending = GOES_ON;
        sim_unplan(sim, &e->arrival);
        if (how == SIM_CUT_END && e->connected)
            e->at_end = true;
        else
            sim_break_end(sim, e, ECONNRESET);
        sim_touch(sim, e->handle);
    }
    if (!c->waiting)
        c->end[1].opened = true; /* it will not be accepted any more */
    sim_conn_free_if_done(sim, c);
}

static unsigned cut_where(struct sim *sim, const struct rule *rule, uint16_t port, enum sim_cut how)
{
    unsigned count = 0;
    struct list *link, *after;
    list_each(link, after, &sim->net->conns)
    {
        struct conn *c = list_item(link, struct conn, link);
        if (rule ? !sim_rule_fits(rule, c) : c->address[1].port != port)
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

void sim_rules_fini(struct net_world *net)
{
    while (net->link_count)
        free_rule(&net->links[--net->link_count]);
    while (net->partition_count)
        free_rule(&net->partitions[--net->partition_count]);
    mem_free(net->links);
    mem_free(net->partitions);
    mem_free(net->ports);
}
