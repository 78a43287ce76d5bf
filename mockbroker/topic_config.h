/*
 * topic_config.h - the configs of topics: names, types, defaults, checks, and what they come to.
 *
 * A value is looked for in Kafka's order: the topic's own, the broker's dynamic ones, the dynamic
 * default of all brokers, the broker's properties, the default; on brokers under the synonyms of
 * the name (log.retention.ms, log.retention.minutes, log.retention.hours for retention.ms).
 *
 * Thread: the tables never change; the rest on the owner's loop.
 */
#ifndef CAFKA_MOCKBROKER_TOPIC_CONFIG_H
#define CAFKA_MOCKBROKER_TOPIC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "mockbroker/config_def.h"
#include "mockbroker/log/log_config.h"
#include "mockbroker/metadata/image.h"

struct broker_config;

extern const struct config_def topic_config_defs[];
extern const size_t topic_config_def_count;
const struct config_def *topic_config_find(struct str name); /* NULL: unknown */

/* What the configs of a topic come to on this broker, typed. `overrides` may be NULL. */
void topic_config_resolve(struct log_config *out, const struct broker_config *broker,
                          const struct config_image *overrides);

/*
 * Check a topic's overrides as a whole: every value, and how they go together. The message is
 * Kafka's; the code ERR_INVALID_CONFIG or ERR_INVALID_REQUEST (a null value).
 */
int topic_config_check(const struct broker_config *broker, const struct config_entry *entries,
                       size_t count, cafka_error *err);

/* Kafka's rules for names. Error: ERR_INVALID_TOPIC_EXCEPTION with Kafka's sentence. */
int topic_name_check(struct str name, cafka_error *err);
/* Would they make the same metric name: foo.bar and foo_bar? */
bool topic_names_collide(struct str a, struct str b);
bool topic_is_internal(struct str name);

#endif
