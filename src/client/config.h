/*
 * config.h - the table of properties, and a configuration as the library sees it.
 *
 * One row a property: name, type, range, default, clients, a line of text. From it come the
 * checks of cafka_config_set(), `cafka config`, and docs/CONFIGURATION.md. A configuration is the
 * texts that were set, one slot a row.
 *
 * Owner:   the application owns a cafka_config; clients keep a copy (client/settings.h).
 * Thread:  the table never changes; a configuration belongs to one thread at a time.
 * Reading: struct property, then config_set_text(); the parser of .properties text is
 *          client/properties.h, the checks of one value are client/config_value.h.
 */
#ifndef CAFKA_CLIENT_CONFIG_H
#define CAFKA_CLIENT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include <cafka/config.h>

#include "client/plugins.h"

struct property {
    const char *name;
    cafka_config_type type;
    unsigned clients; /* CAFKA_FOR_* */
    unsigned flags;   /* CAFKA_PROPERTY_* */
    const char *since;
    const char *importance;
    const char *default_value; /* NULL: none */
    /*
     * What is allowed, as text that is checked and printed. Numbers: "0 .. 900", "-1, 1 .. 9".
     * Enums, and lists that take only known items: "none, gzip"; an item "by_duration:DURATION"
     * takes an ISO-8601 duration behind the colon. Texts: "non-empty". Lists: "host:port". Empty: any.
     */
    const char *range;
    const char *doc;
    const char *consumer_default, *admin_default; /* where they differ; NULL: they don't */
};

/* Sorted by name. */
extern const struct property properties[];
extern const size_t property_count;

/* How the value of an alias becomes a value of the property it stands for. */
enum conversion {
    AS_IT_IS,
    KIB_TO_BYTES,
    FRACTION_TO_MS,     /* 0.5 is 1: librdkafka's linger takes fractions */
    ZERO_IS_SYSTEM,     /* 0 becomes -1 */
    ZERO_IS_FOR_EVER,   /* 0 becomes the largest int */
    MINUS_ONE_IS_NEVER, /* -1 becomes the largest long */
};

struct property_alias {
    const char *name, *of;
    enum conversion conversion;
};
extern const struct property_alias property_aliases[];
extern const size_t property_alias_count;

/* Other spellings of values, taken wherever the property is set: Java's class names, librdkafka's words. */
struct value_spelling {
    const char *property, *spelling, *means;
};
extern const struct value_spelling value_spellings[];
extern const size_t value_spelling_count;

/* By Kafka's name or by an alias, which is then put into *alias (else NULL). NULL: no such name. */
const struct property *property_find(const char *name, const struct property_alias **alias);
/* The name nearest to a misspelt one, or NULL if none is near. */
const char *property_suggest(const char *name);
const char *property_default(const struct property *property, unsigned client);

struct cafka_config {
    char **values;          /* one a row of properties[]; NULL: not set */
    unsigned char *sources; /* CAFKA_CONFIG_* */
    cafka_delivery_fn *on_delivery;
    void *on_delivery_user;
    cafka_event_fn *on_event;
    void *on_event_user;
    cafka_log_fn *log_fn;
    void *log_user;
    int log_level;
    cafka_loop *loop;
    const cafka_env *env; /* NULL: the real one */
    struct plugins plugins;
};

int config_set_text(cafka_config *config, const char *name, const char *value, int source,
                    cafka_error *err);
/* The text in effect for one client; NULL: none. The name must exist and be no alias. */
const char *config_text(const cafka_config *config, const char *name, unsigned client);
bool config_is_set(const cafka_config *config, const char *name);

#endif
