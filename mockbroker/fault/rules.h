/*
 * rules.h - scripted faults: what a broker does with the next requests that match.
 *
 * A rule names what it matches (API, broker, topic, each optional), how often it strikes, and what
 * it does: answer with an error code instead of handling, close the connection before or after
 * handling, or hold the answer back. Rules are looked at in the order of their making; the first
 * that matches strikes.
 *
 * Owner:  the cluster. Thread: the cluster's loop.
 */
#ifndef CAFKA_MOCKBROKER_RULES_H
#define CAFKA_MOCKBROKER_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "util/error.h"

struct request_context;
struct fault_rules;

enum fault_action {
    FAULT_ERROR,       /* answer `code`; the request is not handled */
    FAULT_CLOSE,       /* close the connection; the request is not handled */
    FAULT_CLOSE_AFTER, /* handle it, and close instead of answering */
    FAULT_DELAY        /* handle it, and answer `delay_ms` later */
};

struct fault_rule {
    int32_t broker;    /* 0: any */
    int api;           /* -1: any */
    const char *topic; /* a request that names it; NULL: any. Copied. */
    int64_t count;     /* strikes so often; 0: for ever */
    int64_t skip;      /* lets so many pass first */
    enum fault_action action;
    int code;
    int64_t delay_ms;
};

int fault_rules_new(struct fault_rules **out, cafka_error *err);
void fault_rules_free(struct fault_rules *rules); /* takes NULL */
/* The id of the new rule, from 1 on, through *id (may be NULL). */
int fault_rule_add(struct fault_rules *rules, const struct fault_rule *rule, int64_t *id,
                   cafka_error *err);
void fault_rules_clear(struct fault_rules *rules);
/* How often it has struck; -1: there was none of that id. */
int64_t fault_rule_hits(const struct fault_rules *rules, int64_t id);

/* Let the rules see a decoded request. True: it was ended; it must not be handled. */
bool fault_apply(struct request_context *ctx);
/* Answer with the code in every place that a request of this API has one. False: not known how. */
bool fault_answer(struct request_context *ctx, int code);

#endif
