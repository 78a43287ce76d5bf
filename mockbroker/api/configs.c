/*
 * configs.c - DescribeConfigs, IncrementalAlterConfigs, AlterConfigs, ListConfigResources.
 *
 * A broker looks at the form of a change, and at changes of its own configs, before it hands them
 * to the controller.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/config_answer.h"
#include "mockbroker/controller/controller.h"
#include "mockbroker/repeats.h"
#include "protocol/error_codes.h"
#include "protocol/messages/AlterConfigs.h"
#include "protocol/messages/IncrementalAlterConfigs.h"
#include "protocol/messages/ListConfigResources.h"

void api_describe_configs(struct request_context *ctx)
{
    const struct describe_configs_request *in = ctx->body;
    struct describe_configs_response out;
    cafka_error why = {0};
    int32_t count = in->resources_count > 0 ? in->resources_count : 0;
    describe_configs_response_init(&out);
    out.results = request_calloc(ctx, (size_t)count + 1, sizeof *out.results);
    bool ok = out.results;
    for (int32_t i = 0; ok && i < count; i++)
        ok = !config_describe(ctx->broker, &in->resources[i], in, ctx->version, &ctx->arena,
                              &out.results[out.results_count++], &why);
    if (ok)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}

/* --- a change of a broker's own configs --- */

/* Sizes of thread pools may at most double or halve at a time. */
static bool is_pool_size(struct str name)
{
    static const char *const pools[] = {"num.io.threads",
                                        "num.replica.fetchers",
                                        "num.recovery.threads.per.data.dir",
                                        "background.threads",
                                        "num.network.threads",
                                        "log.cleaner.threads"};
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        if (str_is(name, pools[i]))
            return true;
    return false;
}

static int check_pool_size(const struct broker *broker, const struct config_change *change,
                           const char *value, cafka_error *err)
{
    static const char form[] =
        "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update "
        "validation failed for %.*s=%s, value should %s current value %lld for configuration Invalid "
        "dynamic configuration";
    char name[64];
    snprintf(name, sizeof name, "%.*s", STR_ARG(change->name));
    long long now = broker_config_long(&broker->config, name), wanted = config_value_long(value);
    if (wanted < now / 2)
        return error_set(err, ERR_INVALID_REQUEST, form, STR_ARG(change->name), value,
                         "be at least half the", now);
    if (wanted > now * 2)
        return error_set(err, ERR_INVALID_REQUEST, form, STR_ARG(change->name), value,
                         "not be greater than double the", now);
    return CAFKA_OK;
}

static int check_cleaner_memory(const struct broker *broker, const struct config_change *change,
                                const char *value, cafka_error *err)
{
    static const char threads[] = "log.cleaner.threads", bytes[] = "log.cleaner.dedupe.buffer.size";
    enum { BYTES_EACH = 1024 * 1024 };
    bool of_threads = str_is(change->name, threads), of_bytes = str_is(change->name, bytes);
    if (!of_threads && !of_bytes)
        return CAFKA_OK;
    int64_t count =
        of_threads ? config_value_long(value) : broker_config_long(&broker->config, threads);
    int64_t size = of_bytes ? config_value_long(value) : broker_config_long(&broker->config, bytes);
    if (count <= 0 || size / count > BYTES_EACH)
        return CAFKA_OK;
    return error_set(err, ERR_INVALID_REQUEST,
                     "requirement failed: %s must be at least 1MB per cleaner thread.", bytes);
}

/* Connections must stay possible, listeners are what they are, and keys belong to a listener. */
static int check_reach(const struct config_change *change, const char *value, cafka_error *err)
{
    static const char *const counts[] = {"max.connections", "max.connection.creation.rate",
                                         "max.connections.per.ip", "log.cleaner.threads"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (str_is(change->name, counts[i]) && config_value_long(value) <= 0)
            return error_set(err, ERR_INVALID_REQUEST,
                             "Invalid value org.apache.kafka.common.config.ConfigException: Invalid %s %s "
                             "for configuration Invalid dynamic configuration",
                             counts[i], value);
    if (str_is(change->name, "listeners") || str_is(change->name, "listener.security.protocol.map"))
        return error_set(err, ERR_INVALID_REQUEST, "The listeners of this broker can't be changed.");
    if (change->name.size > 4 && !memcmp(change->name.data, "ssl.", 4))
        return error_set(err, ERR_INVALID_REQUEST,
                         "These security configs can be dynamically updated only per-listener using the "
                         "listener prefix: [%.*s]",
                         STR_ARG(change->name));
    return CAFKA_OK;
}

/* Rates that only exist as dynamic configs. */
static const struct config_def *dynamic_def(struct str name)
{
    static const struct config_def defs[] = {{"leader.replication.throttled.rate", CONFIG_LONG,
                                              NULL, "[0,...]", .doc = ""},
                                             {"follower.replication.throttled.rate", CONFIG_LONG,
                                              NULL, "[0,...]", .doc = ""},
                                             {"replica.alter.log.dirs.io.max.bytes.per.second",
                                              CONFIG_LONG, NULL, "[0,...]", .doc = ""}};
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        if (str_is(name, defs[i].name))
            return &defs[i];
    return NULL;
}

static int check_broker_change(struct request_context *ctx, bool all_brokers,
                               const struct config_change *change, cafka_error *err)
{
    const struct config_def *def = config_def_of(CONFIG_RESOURCE_BROKER, change->name);
    cafka_error why = {0};
    if (def && def->scope == CONFIG_READ_ONLY)
        return error_set(err, ERR_INVALID_REQUEST, "Cannot update these configs dynamically: [%s]",
                         def->name);
    if (def && def->scope == CONFIG_PER_BROKER && all_brokers)
        return error_set(err, ERR_INVALID_REQUEST,
                         "Cannot update these configs at default cluster level: [%s]", def->name);
    bool known = def;
    if (!def)
        def = dynamic_def(change->name);
    if (!def || change->op != CONFIG_OP_SET)
        return CAFKA_OK; /* names of plugins are taken as they are */
    const char *value = api_keep(ctx, "").data;
    struct str copy = {arena_strndup(&ctx->arena, change->value.data, change->value.size),
                       change->value.size};
    value = copy.data ? copy.data : value;
    if (config_value_check(def, value, &why))
        return error_set(err, ERR_INVALID_REQUEST, "%s", why.message);
    int rc = known ? check_reach(change, value, err) : CAFKA_OK;
    if (rc)
        return rc;
    if (is_pool_size(change->name))
        rc = check_pool_size(ctx->broker, change, value, err);
    return rc ? rc : check_cleaner_memory(ctx->broker, change, value, err);
}

static int check_node(const struct broker *broker, struct str name, cafka_error *err)
{
    char text[16], *end;
    if (!name.size)
        return CAFKA_OK; /* the default of all brokers */
    snprintf(text, sizeof text, "%.*s", STR_ARG(name));
    long id = strtol(text, &end, 10);
    if (*end || name.size >= sizeof text)
        return error_set(err, ERR_INVALID_REQUEST, "Node id must be an integer, but it is: %.*s",
                         STR_ARG(name));
    if (id != broker->id)
        return error_set(err, ERR_INVALID_REQUEST,
                         "Unexpected broker id, expected %d, but received %s", (int)broker->id,
                         text);
    return CAFKA_OK;
}

/* Of loggers there is no default for all brokers. */
static int check_logger_node(const struct broker *broker, struct str name, cafka_error *err)
{
    char text[16], *end;
    snprintf(text, sizeof text, "%.*s", STR_ARG(name));
    long id = strtol(text, &end, 10);
    if (!name.size || *end || name.size >= sizeof text)
        return error_set(err, ERR_INVALID_REQUEST, "Node id must be an integer, but it is: %.*s",
                         STR_ARG(name));
    if (id != broker->id)
        return error_set(err, ERR_INVALID_REQUEST,
                         "Unexpected node id. Expected %d, but received %s", (int)broker->id, text);
    return CAFKA_OK;
}

/* --- a change of any resource --- */

struct change {
    int type;
    struct str name;
    struct config_change *configs;
    size_t count;
    int code; /* how it ended */
    struct str message;
};

static int check_form(const struct change *change, cafka_error *err)
{
    struct repeats names = {0};
    bool repeated = false;
    for (size_t i = 0; i < change->count; i++)
        repeats_add(&names, change->configs[i].name.data, change->configs[i].name.size, (int32_t)i);
    for (size_t i = 0; i < change->count; i++)
        repeated |=
            repeats_are_many(&names, change->configs[i].name.data, change->configs[i].name.size);
    repeats_fini(&names);
    if (names.failed)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a change of configs");
    if (repeated)
        return error_set(err, ERR_INVALID_REQUEST, "Error due to duplicate config keys");
    for (size_t i = 0; i < change->count; i++)
        if (change->configs[i].op != CONFIG_OP_DELETE && !change->configs[i].value.data)
            return error_set(err, ERR_INVALID_REQUEST, "Null value not supported for : %.*s",
                             STR_ARG(change->configs[i].name));
    return CAFKA_OK;
}

static int check_target(struct request_context *ctx, const struct change *change, cafka_error *err)
{
    int rc = CAFKA_OK;
    switch (change->type) {
    case CONFIG_RESOURCE_TOPIC:
    case CONFIG_RESOURCE_CLIENT_METRICS:
    case CONFIG_RESOURCE_GROUP: return CAFKA_OK;
    case CONFIG_RESOURCE_BROKER:
        rc = check_node(ctx->broker, change->name, err);
        for (size_t i = 0; !rc && i < change->count; i++)
            rc = check_broker_change(ctx, !change->name.size, &change->configs[i], err);
        return rc;
    case CONFIG_RESOURCE_BROKER_LOGGER: return check_logger_node(ctx->broker, change->name, err);
    default: return error_set(err, ERR_INVALID_REQUEST, "Unknown resource type %d", change->type);
    }
}

/* Each is set by itself, the others stay; first all are looked at. */
static int change_loggers(struct broker *broker, const struct change *change, bool apply,
                          cafka_error *err)
{
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && i < change->count; i++) {
        const struct config_change *c = &change->configs[i];
        if (c->op != CONFIG_OP_SET && c->op != CONFIG_OP_DELETE)
            return error_set(err, ERR_INVALID_REQUEST,
                             "%s operation is not allowed for the BROKER_LOGGER resource",
                             c->op == CONFIG_OP_APPEND ? "APPEND" : "SUBTRACT");
        rc = loggers_set(&broker->loggers, c->name,
                         c->op == CONFIG_OP_SET ? c->value : (struct str){0}, apply,
                         &broker->cluster->sink, err);
    }
    return rc;
}

static int make_change(struct request_context *ctx, const struct change *change, bool repeated,
                       bool replace, bool validate_only, cafka_error *err)
{
    if (repeated)
        return error_set(err, ERR_INVALID_REQUEST, "Each resource must appear at most once.");
    int rc = check_form(change, err);
    if (!rc)
        rc = check_target(ctx, change, err);
    if (!rc && change->type == CONFIG_RESOURCE_BROKER_LOGGER) {
        if (replace)
            return error_set(err, ERR_INVALID_REQUEST, "Unknown resource type %d", change->type);
        rc = change_loggers(ctx->broker, change, false, err);
        return rc || validate_only ? rc : change_loggers(ctx->broker, change, true, err);
    }
    if (!rc)
        rc = controller_alter_configs(ctx->broker->cluster->controller, change->type, change->name,
                                      change->configs, change->count, replace, validate_only, err);
    return is_local_error(rc) ? ERR_UNKNOWN_SERVER_ERROR : rc;
}

/* Type and name of a resource as one key. */
static struct str resource_key(struct request_context *ctx, int type, struct str name)
{
    char *key = request_alloc(ctx, name.size + 1);
    if (!key)
        return str_of("");
    key[0] = (char)type;
    if (name.size)
        memcpy(key + 1, name.data, name.size);
    return (struct str){key, name.size + 1};
}

/* Make all changes of a request. False: no memory for it. */
static bool make_changes(struct request_context *ctx, struct change *changes, int32_t count,
                         bool replace, bool validate_only)
{
    struct repeats resources = {0};
    struct str *keys = request_calloc(ctx, (size_t)count + 1, sizeof *keys);
    for (int32_t i = 0; keys && i < count; i++) {
        keys[i] = resource_key(ctx, changes[i].type, changes[i].name);
        repeats_add(&resources, keys[i].data, keys[i].size, i);
    }
    bool ok = keys && !resources.failed;
    for (int32_t i = 0; ok && i < count; i++) {
        cafka_error why = {0};
        bool repeated = repeats_are_many(&resources, keys[i].data, keys[i].size);
        changes[i].code = make_change(ctx, &changes[i], repeated, replace, validate_only, &why);
        changes[i].message = changes[i].code ? api_keep(ctx, why.message) : (struct str){0};
    }
    repeats_fini(&resources);
    return ok;
}

typedef struct incremental_alter_configs_request_alter_configs_resource incremental_resource;
typedef struct alter_configs_request_alter_configs_resource legacy_resource;

static bool read_incremental(struct request_context *ctx, const incremental_resource *r,
                             struct change *out)
{
    size_t count = r->configs_count > 0 ? (size_t)r->configs_count : 0;
    *out = (struct change){.type = r->resource_type,
                           .name = r->resource_name,
                           .configs = request_calloc(ctx, count + 1, sizeof *out->configs),
                           .count = count};
    for (size_t i = 0; out->configs && i < count; i++)
        out->configs[i] = (struct config_change){r->configs[i].name, r->configs[i].config_operation,
                                                 r->configs[i].value};
    return out->configs;
}

static bool read_legacy(struct request_context *ctx, const legacy_resource *r, struct change *out)
{
    size_t count = r->configs_count > 0 ? (size_t)r->configs_count : 0;
    *out = (struct change){.type = r->resource_type,
                           .name = r->resource_name,
                           .configs = request_calloc(ctx, count + 1, sizeof *out->configs),
                           .count = count};
    for (size_t i = 0; out->configs && i < count; i++)
        out->configs[i] =
            (struct config_change){r->configs[i].name, CONFIG_OP_SET, r->configs[i].value};
    return out->configs;
}

void api_incremental_alter_configs(struct request_context *ctx)
{
    const struct incremental_alter_configs_request *in = ctx->body;
    struct incremental_alter_configs_response out;
    int32_t count = in->resources_count > 0 ? in->resources_count : 0;
    incremental_alter_configs_response_init(&out);
    out.responses = request_calloc(ctx, (size_t)count + 1, sizeof *out.responses);
    struct change *changes = request_calloc(ctx, (size_t)count + 1, sizeof *changes);
    bool ok = out.responses && changes;
    for (int32_t i = 0; ok && i < count; i++)
        ok = read_incremental(ctx, &in->resources[i], &changes[i]);
    if (!ok || !make_changes(ctx, changes, count, false, in->validate_only)) {
        request_close(ctx);
        return;
    }
    for (int32_t i = 0; i < count; i++)
        out.responses[out.responses_count++] =
            (struct incremental_alter_configs_response_alter_configs_resource_response){
                .error_code = (int16_t)changes[i].code,
                .error_message = changes[i].message,
                .resource_type = in->resources[i].resource_type,
                .resource_name = in->resources[i].resource_name};
    request_respond(ctx, &out);
}

void api_alter_configs(struct request_context *ctx)
{
    const struct alter_configs_request *in = ctx->body;
    struct alter_configs_response out;
    int32_t count = in->resources_count > 0 ? in->resources_count : 0;
    alter_configs_response_init(&out);
    out.responses = request_calloc(ctx, (size_t)count + 1, sizeof *out.responses);
    struct change *changes = request_calloc(ctx, (size_t)count + 1, sizeof *changes);
    bool ok = out.responses && changes;
    for (int32_t i = 0; ok && i < count; i++)
        ok = read_legacy(ctx, &in->resources[i], &changes[i]);
    if (!ok || !make_changes(ctx, changes, count, true, in->validate_only)) {
        request_close(ctx);
        return;
    }
    for (int32_t i = 0; i < count; i++)
        out.responses[out.responses_count++] =
            (struct alter_configs_response_alter_configs_resource_response){
                .error_code = (int16_t)changes[i].code,
                .error_message = changes[i].message,
                .resource_type = in->resources[i].resource_type,
                .resource_name = in->resources[i].resource_name};
    request_respond(ctx, &out);
}

/* --- which resources have configs --- */

static bool is_listed(const struct request_context *ctx, int type)
{
    const struct list_config_resources_request *in = ctx->body;
    if (!ctx->version)
        return type == CONFIG_RESOURCE_CLIENT_METRICS;
    if (in->resource_types_count <= 0)
        return true;
    for (int32_t i = 0; i < in->resource_types_count; i++)
        if (in->resource_types[i] == type)
            return true;
    return false;
}

static int check_listed(const struct request_context *ctx)
{
    const struct list_config_resources_request *in = ctx->body;
    size_t unused;
    for (int32_t i = 0; ctx->version && i < in->resource_types_count; i++)
        if (in->resource_types[i] != CONFIG_RESOURCE_BROKER_LOGGER &&
            !config_defs_of(in->resource_types[i], &unused))
            return ERR_UNSUPPORTED_VERSION;
    return ERR_NONE;
}

void api_list_config_resources(struct request_context *ctx)
{
    const struct image *image = &ctx->broker->image;
    struct list_config_resources_response out;
    struct map_entry *e;
    list_config_resources_response_init(&out);
    out.error_code = (int16_t)check_listed(ctx);
    if (out.error_code) {
        request_respond(ctx, &out);
        return;
    }
    size_t most = image->topics.count + 2 * image->brokers.count + image->configs.count;
    out.config_resources = request_calloc(ctx, most + 1, sizeof *out.config_resources);
    if (!out.config_resources) {
        request_close(ctx);
        return;
    }
    for (size_t i = 0; is_listed(ctx, CONFIG_RESOURCE_TOPIC) && (e = map_next(&image->topics, &i));)
        out.config_resources[out.config_resources_count++] =
            (struct list_config_resources_response_config_resource){.resource_name = {e->key,
                                                                                      e->key_size},
                                                                    .resource_type =
                                                                        CONFIG_RESOURCE_TOPIC};
    for (size_t i = 0; (e = map_next(&image->brokers, &i));) {
        char id[16];
        snprintf(id, sizeof id, "%d", (int)((struct broker_image *)e->value)->id);
        struct str name = api_keep(ctx, id);
        if (is_listed(ctx, CONFIG_RESOURCE_BROKER))
            out.config_resources[out.config_resources_count++] =
                (struct list_config_resources_response_config_resource){.resource_name = name,
                                                                        .resource_type =
                                                                            CONFIG_RESOURCE_BROKER};
        if (is_listed(ctx, CONFIG_RESOURCE_BROKER_LOGGER))
            out.config_resources[out.config_resources_count++] =
                (struct list_config_resources_response_config_resource){
                    .resource_name = name, .resource_type = CONFIG_RESOURCE_BROKER_LOGGER};
    }
    for (size_t i = 0; (e = map_next(&image->configs, &i));) {
        const struct config_image *config = e->value;
        if ((config->type == CONFIG_RESOURCE_GROUP ||
             config->type == CONFIG_RESOURCE_CLIENT_METRICS) &&
            is_listed(ctx, config->type))
            out.config_resources[out.config_resources_count++] =
                (struct list_config_resources_response_config_resource){.resource_name =
                                                                            str_of(config->name),
                                                                        .resource_type =
                                                                            config->type};
    }
    request_respond(ctx, &out);
}
