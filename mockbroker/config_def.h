/*
 * config_def.h - one row of a table of configs, and values against it.
 *
 * Thread: any; no state.
 */
#ifndef CAFKA_MOCKBROKER_CONFIG_DEF_H
#define CAFKA_MOCKBROKER_CONFIG_DEF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/bytes.h"
#include "util/error.h"

/* Kafka's numbers of config types (DescribeConfigs v3+). */
enum config_type {
    CONFIG_BOOLEAN = 1,
    CONFIG_STRING = 2,
    CONFIG_INT = 3,
    CONFIG_SHORT = 4,
    CONFIG_LONG = 5,
    CONFIG_DOUBLE = 6,
    CONFIG_LIST = 7,
    CONFIG_CLASS = 8,
    CONFIG_PASSWORD = 9
};

/* How a broker's value may change while it runs. */
enum config_scope { CONFIG_READ_ONLY, CONFIG_PER_BROKER, CONFIG_CLUSTER_WIDE };

/* Another name of the value in a broker's properties, with its unit. */
struct config_synonym {
    const char *name;
    int64_t factor; /* value of the config = factor × value of the synonym; 0: no number */
};
enum { CONFIG_SYNONYMS = 4 };

struct config_def {
    const char *name;
    enum config_type type;
    const char *fallback; /* default, as text; NULL: null */
    const char *range;    /* "[0,...]", "[a, b]": what check tells; NULL: anything */
    struct config_synonym synonyms[CONFIG_SYNONYMS]; /* broker properties that stand in, first wins */
    const char *doc;
    enum config_scope scope; /* broker configs */
    bool used;               /* broker configs: it means something here */
    bool internal;           /* taken, but not described */
};

/* Is it a value of this config? Error ERR_INVALID_CONFIG with Kafka's sentence. */
int config_value_check(const struct config_def *def, const char *value, cafka_error *err);
/* A value that was checked (surrounding spaces are allowed, as in Kafka). */
int64_t config_value_long(const char *value);
double config_value_double(const char *value);
bool config_value_bool(const char *value);
/* Is `item` one of the comma-separated items? */
bool config_value_has(const char *value, const char *item);

#endif
