/*
 * config_answer.h - the configs of a resource as DescribeConfigs and CreateTopics tell them.
 *
 * Thread: the broker's loop.
 */
#ifndef CAFKA_MOCKBROKER_CONFIG_ANSWER_H
#define CAFKA_MOCKBROKER_CONFIG_ANSWER_H

#include "mockbroker/broker_config.h"
#include "protocol/messages/DescribeConfigs.h"
#include "util/arena.h"

struct broker;

/* What groups and client metrics subscriptions can be given. */
extern const struct config_def group_config_defs[];
extern const size_t group_config_def_count;
extern const struct config_def metrics_config_defs[];
extern const size_t metrics_config_def_count;

/* The table of a kind of resource; NULL with *count 0: there is none. */
const struct config_def *config_defs_of(int resource_type, size_t *count);
const struct config_def *config_def_of(int resource_type, struct str name);

/*
 * The text of a topic's (or group's) config. `normal`: as Kafka writes a value that it has parsed
 * (" 100 " is "100"); otherwise as it was given. Data NULL: null.
 */
struct str topic_config_text(const struct config_def *def, const struct broker_config *c,
                             const struct config_image *overrides, bool normal,
                             enum config_source *source, struct arena *arena);

/* Describe one resource of a request on this broker. */
int config_describe(struct broker *broker,
                    const struct describe_configs_request_describe_configs_resource *resource,
                    const struct describe_configs_request *request, int version, struct arena *arena,
                    struct describe_configs_response_describe_configs_result *out, cafka_error *err);

#endif
