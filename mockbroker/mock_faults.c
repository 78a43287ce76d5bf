/*
 * mock_faults.c - <cafka/mock.h>: what goes wrong on purpose: rules, links, unclean elections.
 */
#include "mockbroker/mock_room.h"

#include <stdio.h>

#include "mockbroker/fault/rules.h"
#include "mockbroker/fault/unclean.h"
#include "mockbroker/session.h"
#include "sim/sim.h"

/* --- rules and requests --- */

static int find_api(const char *name, int *key, cafka_error *err)
{
    const struct api *api = name ? api_find_name(str_of(name)) : NULL;
    if (name && !api)
        return error_set(err, CAFKA_ERR_ARGUMENT, "there is no API %s", name);
    *key = api ? api->key : -1;
    return CAFKA_OK;
}

static int add_rule(struct call *call, cafka_error *err)
{
    return fault_rule_add(call->mock->cluster->faults, call->in, &call->number, err);
}

int cafka_mock_rule_add(cafka_mock *mock, const cafka_mock_rule *rule, int64_t *id, cafka_error *err)
{
    cafka_mock_rule full = {0};
    struct fault_rule what = {0};
    struct call call = {.in = &what};
    error_clear(err);
    if (!rule || rule->size < sizeof rule->size)
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_mock_rule_add wants a rule with its size");
    memcpy(&full, rule, rule->size < sizeof full ? rule->size : sizeof full);
    if (full.action < CAFKA_MOCK_ERROR || full.action > CAFKA_MOCK_DELAY || full.delay_ms < 0 ||
        full.error < INT16_MIN || full.error > INT16_MAX)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a rule has no such action, error or delay");
    int rc = find_api(full.api, &what.api, err);
    if (rc)
        return rc;
    what.broker = full.broker;
    what.topic = full.topic;
    what.count = full.count;
    what.skip = full.skip;
    what.action = (enum fault_action)full.action;
    what.code = full.error;
    what.delay_ms = full.delay_ms;
    rc = mock_call(mock, &call, add_rule, err);
    if (!rc && id)
        *id = call.number;
    return rc;
}

static int clear_rules(struct call *call, cafka_error *err)
{
    (void)err;
    fault_rules_clear(call->mock->cluster->faults);
    return CAFKA_OK;
}

void cafka_mock_rules_clear(cafka_mock *mock)
{
    struct call call = {0};
    (void)mock_call(mock, &call, clear_rules, NULL);
}

static int count_hits(struct call *call, cafka_error *err)
{
    (void)err;
    call->number = fault_rule_hits(call->mock->cluster->faults, call->number);
    return CAFKA_OK;
}

int64_t cafka_mock_rule_hits(cafka_mock *mock, int64_t id)
{
    struct call call = {.number = id};
    (void)mock_call(mock, &call, count_hits, NULL);
    return call.number;
}

static int count_requests(struct call *call, cafka_error *err)
{
    const struct cluster *cluster = call->mock->cluster;
    (void)err;
    call->number = (int64_t)(call->a < 0 ? cluster->requests_seen : cluster->requests_of[call->a]);
    return CAFKA_OK;
}

int64_t cafka_mock_requests(cafka_mock *mock, const char *api)
{
    int key;
    struct call call = {0};
    if (find_api(api, &key, NULL))
        return 0;
    call.a = key;
    (void)mock_call(mock, &call, count_requests, NULL);
    return call.number;
}

/* --- links --- */

/* Hosts of the simulated world. */
struct link_ends {
    char broker[CLUSTER_HOST_SIZE], peer[CLUSTER_HOST_SIZE];
    const char *a, *b; /* NULL: any host */
};

static int find_ends(const cafka_mock *mock, int32_t broker, int32_t peer, struct link_ends *ends,
                     cafka_error *err)
{
    *ends = (struct link_ends){.a = ends->broker, .b = ends->peer};
    if (!cluster_broker(mock->cluster, broker))
        return error_set(err, CAFKA_ERR_ARGUMENT, "there is no broker %d", (int)broker);
    if (peer > 0 && !cluster_broker(mock->cluster, peer))
        return error_set(err, CAFKA_ERR_ARGUMENT, "there is no broker %d", (int)peer);
    cluster_host_name(ends->broker, broker);
    if (peer > 0)
        cluster_host_name(ends->peer, peer);
    else if (peer == 0)
        ends->b = NULL;
    return CAFKA_OK;
}

static struct sim_link link_of(const cafka_mock_link *link)
{
    struct sim_link out;
    sim_link_default(&out);
    if (link->latency_ms > 0)
        out.latency_min_us = out.latency_max_us = link->latency_ms * 1000;
    out.bytes_per_ms = (uint32_t)link->bytes_per_ms;
    return out;
}

int cafka_mock_link_set(cafka_mock *mock, const cafka_mock_link *link, cafka_error *err)
{
    cafka_mock_link full = {0};
    struct link_ends ends;
    error_clear(err);
    if (!link || link->size < sizeof link->size)
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_mock_link_set wants a link with its size");
    if (!mock->sim)
        return error_set(err, CAFKA_ERR_STATE, "only a simulated cluster has links to be changed");
    memcpy(&full, link, link->size < sizeof full ? link->size : sizeof full);
    if (full.latency_ms < 0 || full.latency_ms > CLUSTER_LINK_MS_MAX || full.bytes_per_ms < 0 ||
        full.bytes_per_ms > UINT32_MAX)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a link has no such latency or speed");
    int rc = find_ends(mock, full.broker, full.peer, &ends, err);
    struct sim_link rule = link_of(&full);
    if (!rc)
        rc = sim_link_set(mock->sim, ends.a, ends.b, &rule, err);
    return rc ? rc : sim_partition(mock->sim, ends.a, ends.b, full.down != 0, err);
}

static int close_sessions(struct call *call, cafka_error *err)
{
    struct broker *broker = cluster_broker(call->mock->cluster, call->a);
    struct list *link, *after;
    if (!broker)
        return error_set(err, CAFKA_ERR_ARGUMENT, "there is no broker %d", (int)call->a);
    list_each(link, after, &broker->sessions)
    {
        session_close(list_item(link, struct session, link));
    }
    return CAFKA_OK;
}

int cafka_mock_link_cut(cafka_mock *mock, int32_t broker, cafka_error *err)
{
    struct call call = {.a = broker};
    struct link_ends ends;
    error_clear(err);
    if (!mock->sim)
        return mock_call(mock, &call, close_sessions, err);
    int rc = find_ends(mock, broker, 0, &ends, err);
    if (!rc)
        (void)sim_cut(mock->sim, ends.a, NULL, SIM_CUT_RESET);
    return rc;
}

/* --- elections --- */

static int elect_unclean(struct call *call, cafka_error *err)
{
    return unclean_election(call->mock->cluster, str_of(call->text), call->a, call->b, call->number,
                            err);
}

int cafka_mock_leader_elect_unclean(cafka_mock *mock, const char *topic, int32_t partition,
                                    int32_t broker, int64_t end_offset, cafka_error *err)
{
    struct call call = {.text = topic, .a = partition, .b = broker, .number = end_offset};
    error_clear(err);
    return mock_call(mock, &call, elect_unclean, err);
}
