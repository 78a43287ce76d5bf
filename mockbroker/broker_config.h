/*
 * broker_config.h - a broker's properties: the file and --set, and the dynamic ones on top.
 *
 * Every property of Kafka 4.3.1's broker is known by name, type and default. One that has no
 * meaning here is kept and described all the same, and named in a warning once.
 *
 * Owner:  static properties: the cluster; struct broker_config: a broker.
 * Thread: the broker's loop.
 */
#ifndef CAFKA_MOCKBROKER_BROKER_CONFIG_H
#define CAFKA_MOCKBROKER_BROKER_CONFIG_H

#include "mockbroker/config_def.h"
#include "mockbroker/metadata/image.h"
#include "util/log.h"
#include "util/map.h"

extern const struct config_def broker_config_defs[];
extern const size_t broker_config_def_count;
const struct config_def *broker_config_find(struct str name); /* NULL: unknown */

/* Properties as given by the user: name -> char *, in order. Zeroed is empty. */
struct properties {
    struct map values;
};
void properties_fini(struct properties *p);
int properties_set(struct properties *p, const char *name, const char *value, cafka_error *err);
const char *properties_get(const struct properties *p, const char *name); /* NULL: not set */
/* Java's format of a .properties file. */
int properties_parse(struct properties *p, struct str text, cafka_error *err);
/*
 * Check names and values; error CAFKA_ERR_CONFIG. What means nothing here is logged as a warning,
 * once each; so is an unknown name, unless `strict` makes it an error.
 */
int properties_check(const struct properties *p, bool strict, struct log log, cafka_error *err);

struct broker_config {
    const struct properties *properties; /* the cluster's */
    struct properties own;               /* node.id, listeners …: this broker's */
    const struct image *image;           /* dynamic values; NULL: none */
    int32_t broker_id;
};

/* Where a value comes from: Kafka's numbers (DescribeConfigs). */
enum config_source {
    CONFIG_SOURCE_TOPIC = 1,
    CONFIG_SOURCE_DYNAMIC_BROKER = 2,
    CONFIG_SOURCE_DYNAMIC_DEFAULT = 3,
    CONFIG_SOURCE_STATIC = 4,
    CONFIG_SOURCE_DEFAULT = 5,
    CONFIG_SOURCE_LOGGER = 6,
    CONFIG_SOURCE_CLIENT_METRICS = 7,
    CONFIG_SOURCE_GROUP = 8
};

/* The text that one source has for a name; NULL: none. */
const char *broker_config_from(const struct broker_config *c, enum config_source source,
                               const char *name);
/* The value that holds: dynamic, properties, default. NULL: null. *source may be NULL. */
const char *broker_config_lookup(const struct broker_config *c, const char *name,
                                 enum config_source *source);
const char *broker_config_get(const struct broker_config *c, const char *name);
int64_t broker_config_long(const struct broker_config *c, const char *name);
bool broker_config_bool(const struct broker_config *c, const char *name);
double broker_config_double(const struct broker_config *c, const char *name);

/*
 * The value of a config that lives on another resource (a topic, a group) and falls back to broker
 * properties under its synonyms. *factor: the value is that many times the text (0: no number).
 */
const char *config_fallback(const struct config_def *def, const struct broker_config *c,
                            enum config_source *source, int64_t *factor);

#endif
