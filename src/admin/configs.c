/*
 * configs.c - read and change configs. Those of one broker are asked of that broker, all others of
 * any; so a question is split by target, and its parts are asked at the same time.
 */
#include "admin/admin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/errors.h"
#include "protocol/messages/DescribeConfigs.h"
#include "protocol/messages/IncrementalAlterConfigs.h"
#include "util/alloc.h"

const char *cafka_source_name(int source)
{
    static const char *const names[] = {
        "UNKNOWN",
        "DYNAMIC_TOPIC_CONFIG",
        "DYNAMIC_BROKER_CONFIG",
        "DYNAMIC_DEFAULT_BROKER_CONFIG",
        "STATIC_BROKER_CONFIG",
        "DEFAULT_CONFIG",
        "DYNAMIC_BROKER_LOGGER_CONFIG",
        "CLIENT_METRICS_CONFIG",
        "GROUP_CONFIG",
    };
    return source > 0 && source < (int)(sizeof names / sizeof *names) ? names[source] : names[0];
}

/* Whom to ask: the broker that the resource is, or anybody. */
static int target_of(const cafka_resource *resource, int32_t *target, cafka_error *err)
{
    *target = CALL_ANY;
    if (!resource->name || resource->type < 0 || resource->type > INT8_MAX)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a resource needs a type and a name");
    if ((resource->type != CAFKA_RESOURCE_BROKER && resource->type != CAFKA_RESOURCE_BROKER_LOGGER) ||
        !*resource->name)
        return CAFKA_OK;
    char *end;
    errno = 0;
    long id = strtol(resource->name, &end, 10);
    if (errno || *end || id < 0 || id > INT32_MAX)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a broker is named by its number, not by '%s'",
                         resource->name);
    *target = (int32_t)id;
    return CAFKA_OK;
}

static const char *kind_of(int type)
{
    switch (type) {
    case CAFKA_RESOURCE_TOPIC: return "topic";
    case CAFKA_RESOURCE_BROKER: return "broker";
    case CAFKA_RESOURCE_BROKER_LOGGER: return "loggers of broker";
    case CAFKA_RESOURCE_CLIENT_METRICS: return "client metrics";
    case CAFKA_RESOURCE_GROUP: return "group";
    default: return "resource";
    }
}

struct question {
    size_t count;
    int32_t *targets; /* of each item */
    bool *decided;
    unsigned flags;
    void *user;
    /* How an item ended that no answer has decided. */
    void (*fail)(void *user, size_t i, const cafka_error *error);
};

/* The items with one target that are not decided. */
struct part {
    struct question *question;
    int32_t target;
};

static bool in_part(const struct part *part, size_t i)
{
    return !part->question->decided[i] && part->question->targets[i] == part->target;
}

static size_t part_size(const struct part *part)
{
    size_t size = 0;
    for (size_t i = 0; i < part->question->count; i++)
        size += in_part(part, i);
    return size;
}

/* One part for each target; returns how many. */
static size_t split(struct question *q, struct part *parts, struct operation *ops,
                    const struct operation *pattern)
{
    size_t parts_count = 0;
    for (size_t i = 0; i < q->count; i++) {
        size_t n = 0;
        while (n < parts_count && parts[n].target != q->targets[i])
            n++;
        if (n < parts_count)
            continue;
        parts[n] = (struct part){q, q->targets[i]};
        ops[n] = *pattern;
        ops[n].target = q->targets[i];
        ops[n].user = &parts[n];
        parts_count++;
    }
    return parts_count;
}

/* Run the operation once for each target; what it leaves undecided fails for the reason it gives. */
static int run_parts(struct cafka_admin *admin, struct question *q, const struct operation *pattern,
                     int64_t deadline, cafka_error *err)
{
    struct part *parts = mem_calloc(q->count + 1, sizeof *parts);
    struct operation *ops = mem_calloc(q->count + 1, sizeof *ops);
    int rc = parts && ops
                 ? CAFKA_OK
                 : error_set(err, CAFKA_ERR_MEMORY, "no memory to ask for %zu configs", q->count);
    size_t count = rc ? 0 : split(q, parts, ops, pattern);
    if (!rc)
        rc = admin_run_all(admin, ops, count, deadline, err);
    for (size_t n = 0; !rc && n < count; n++) {
        if (!ops[n].error.code)
            error_set(&ops[n].error, CAFKA_ERR_PROTOCOL, "the broker said nothing about it");
        for (size_t i = 0; i < q->count; i++)
            if (in_part(&parts[n], i))
                q->fail(q->user, i, &ops[n].error);
    }
    mem_free(parts);
    mem_free(ops);
    return rc;
}

/* --- describe --- */

struct config_list {
    cafka_config_list list; /* first */
    struct arena arena;
    cafka_config_info *configs;
};

void cafka_config_list_free(cafka_config_list *list)
{
    struct config_list *result = (struct config_list *)list;
    if (!result)
        return;
    arena_fini(&result->arena);
    mem_free(result);
}

static int build_describe(struct operation *op, int version, cafka_error *err)
{
    struct part *part = op->user;
    const struct config_list *result = part->question->user;
    struct describe_configs_request *body = admin_memory(op, 1, sizeof *body, err);
    if (!body)
        return CAFKA_ERR_MEMORY;
    describe_configs_request_init(body);
    body->resources = admin_memory(op, part_size(part), sizeof *body->resources, err);
    if (!body->resources)
        return CAFKA_ERR_MEMORY;
    body->include_synonyms = version >= 1;
    for (size_t i = 0; i < part->question->count; i++) {
        if (!in_part(part, i))
            continue;
        struct describe_configs_request_describe_configs_resource *r =
            &body->resources[body->resources_count++];
        describe_configs_request_describe_configs_resource_init(r);
        r->resource_type = (int8_t)result->configs[i].type;
        r->resource_name = str_of(result->configs[i].name);
        r->configuration_keys_count = -1; /* all */
    }
    op->call.body = body;
    return CAFKA_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const cafka_config_entry *)a)->name, ((const cafka_config_entry *)b)->name);
}

/* Version 0 says only whether a value is the default. */
static int source_of(const struct describe_configs_response_describe_configs_resource_result *said,
                     int version, int type)
{
    if (version >= 1)
        return said->config_source;
    if (said->is_default)
        return CAFKA_SOURCE_DEFAULT;
    return type == CAFKA_RESOURCE_TOPIC ? CAFKA_SOURCE_TOPIC : CAFKA_SOURCE_STATIC_BROKER;
}

static struct str str_or_empty(struct str text)
{
    return text.data ? text : str_of("");
}

/* False: no memory. */
static bool copy_text(struct arena *arena, struct str text, const char **out)
{
    *out = text.data ? arena_strndup(arena, text.data, text.size) : NULL;
    return *out || !text.data;
}

static bool copy_synonyms(struct arena *arena,
                          const struct describe_configs_response_describe_configs_resource_result *said,
                          cafka_config_entry *out)
{
    size_t count = said->synonyms_count > 0 ? (size_t)said->synonyms_count : 0;
    cafka_config_synonym *synonyms = arena_calloc(arena, count + 1, sizeof *synonyms);
    if (!synonyms)
        return false;
    for (size_t i = 0; i < count; i++) {
        synonyms[i].source = said->synonyms[i].source;
        if (!copy_text(arena, str_or_empty(said->synonyms[i].name), &synonyms[i].name) ||
            !copy_text(arena, said->synonyms[i].value, &synonyms[i].value))
            return false;
    }
    out->synonyms = synonyms;
    out->synonym_count = count;
    return true;
}

static bool copy_entries(struct arena *arena,
                         const struct describe_configs_response_describe_configs_result *said,
                         int version, cafka_config_info *out)
{
    size_t count = said->configs_count > 0 ? (size_t)said->configs_count : 0;
    cafka_config_entry *entries = arena_calloc(arena, count + 1, sizeof *entries);
    if (!entries)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct describe_configs_response_describe_configs_resource_result *c =
            &said->configs[i];
        cafka_config_entry *entry = &entries[i];
        entry->source = source_of(c, version, out->type);
        entry->read_only = c->read_only;
        entry->sensitive = c->is_sensitive;
        entry->type = version >= 3 ? c->config_type : CAFKA_CONFIG_TYPE_UNKNOWN;
        if (!copy_text(arena, str_or_empty(c->name), &entry->name) ||
            !copy_text(arena, c->value, &entry->value) || !copy_synonyms(arena, c, entry))
            return false;
    }
    qsort(entries, count, sizeof *entries, by_name);
    out->entries = entries;
    out->entry_count = count;
    return true;
}

static int take_describe(struct operation *op, const void *answer, cafka_error *err)
{
    const struct describe_configs_response *response = answer;
    struct part *part = op->user;
    struct config_list *result = part->question->user;
    int again = 0;
    for (int32_t n = 0; n < response->results_count; n++) {
        const struct describe_configs_response_describe_configs_result *said = &response->results[n];
        for (size_t i = 0; i < part->question->count; i++) {
            cafka_config_info *config = &result->configs[i];
            if (!in_part(part, i) || config->type != said->resource_type ||
                !str_is(said->resource_name, config->name))
                continue;
            admin_item_error(&config->error, said->error_code, said->error_message,
                             kind_of(config->type), config->name);
            if (protocol_error_retriable(said->error_code) &&
                said->error_code != ERR_UNKNOWN_TOPIC_OR_PARTITION) {
                again = said->error_code;
                continue;
            }
            if (!said->error_code && !copy_entries(&result->arena, said, op->version, config))
                return error_set(err, CAFKA_ERR_MEMORY, "no memory for the configs of %s",
                                 config->name);
            part->question->decided[i] = true;
        }
    }
    return again ? error_set(err, again, "reading configs: %s", cafka_error_name(again)) : CAFKA_OK;
}

static void fail_describe(void *user, size_t i, const cafka_error *error)
{
    ((struct config_list *)user)->configs[i].error = *error;
}

static int describe(struct cafka_admin *admin, const cafka_resource *resources, size_t count,
                    int64_t deadline, struct config_list *result, cafka_error *err)
{
    int32_t *targets = arena_calloc(&result->arena, count + 1, sizeof *targets);
    bool *decided = arena_calloc(&result->arena, count + 1, sizeof *decided);
    result->configs = arena_calloc(&result->arena, count + 1, sizeof *result->configs);
    if (!targets || !decided || !result->configs)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a list of configs");
    for (size_t i = 0; i < count; i++) {
        int rc = target_of(&resources[i], &targets[i], err);
        if (rc)
            return rc;
        result->configs[i].type = resources[i].type;
        result->configs[i].name =
            arena_strndup(&result->arena, resources[i].name, strlen(resources[i].name));
        if (!result->configs[i].name)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for a list of configs");
    }
    struct question question = {.count = count,
                                .targets = targets,
                                .decided = decided,
                                .user = result,
                                .fail = fail_describe};
    const struct operation pattern = {.api_key = API_DESCRIBE_CONFIGS,
                                      .build = build_describe,
                                      .take = take_describe};
    int rc = run_parts(admin, &question, &pattern, deadline, err);
    result->list = (cafka_config_list){result->configs, count};
    return rc;
}

int cafka_admin_describe_configs(cafka_admin *admin, const cafka_resource *resources, size_t count,
                                 int64_t timeout_ms, cafka_config_list **out, cafka_error *err)
{
    int64_t deadline;
    int rc = admin_begin(admin, timeout_ms, &deadline, err);
    if (rc)
        return rc;
    if (!out || (count && !resources))
        return error_set(err, CAFKA_ERR_ARGUMENT, "resources and a place for the list are needed");
    struct config_list *result = mem_zalloc(sizeof *result);
    if (!result)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a list of configs");
    rc = describe(admin, resources, count, deadline, result, err);
    if (rc) {
        cafka_config_list_free(&result->list);
        return rc;
    }
    *out = &result->list;
    return CAFKA_OK; /* a resource that failed does not take the others with it: each has its own error */
}

/* --- alter --- */

struct changes {
    const cafka_config_change *changes;
    cafka_error *errors;
};

static bool same_resource(const cafka_resource *a, const cafka_resource *b)
{
    return a->type == b->type && !strcmp(a->name, b->name);
}

static int build_alter(struct operation *op, int version, cafka_error *err)
{
    struct part *part = op->user;
    const struct changes *w = part->question->user;
    const cafka_config_change *before = NULL;
    struct incremental_alter_configs_request_alter_configs_resource *r = NULL;
    (void)version;
    size_t size = part_size(part);
    struct incremental_alter_configs_request *body = admin_memory(op, 1, sizeof *body, err);
    if (!body)
        return CAFKA_ERR_MEMORY;
    incremental_alter_configs_request_init(body);
    body->validate_only = part->question->flags & CAFKA_VALIDATE_ONLY;
    body->resources = admin_memory(op, size, sizeof *body->resources, err);
    struct incremental_alter_configs_request_alterable_config *configs =
        admin_memory(op, size, sizeof *configs, err);
    if (!body->resources || !configs)
        return CAFKA_ERR_MEMORY;
    for (size_t i = 0; i < part->question->count; i++) {
        const cafka_config_change *change = &w->changes[i];
        if (!in_part(part, i))
            continue;
        if (!before || !same_resource(&before->resource, &change->resource)) {
            r = &body->resources[body->resources_count++];
            incremental_alter_configs_request_alter_configs_resource_init(r);
            r->resource_type = (int8_t)change->resource.type;
            r->resource_name = str_of(change->resource.name);
            r->configs = configs;
        }
        incremental_alter_configs_request_alterable_config_init(configs);
        configs->name = str_of(change->name);
        configs->config_operation = (int8_t)change->operation;
        configs->value = str_of(change->operation == CAFKA_CONFIG_DELETE ? NULL : change->value);
        configs++;
        r->configs_count++;
        before = change;
    }
    op->call.body = body;
    return CAFKA_OK;
}

static int take_alter(struct operation *op, const void *answer, cafka_error *err)
{
    const struct incremental_alter_configs_response *response = answer;
    struct part *part = op->user;
    struct changes *w = part->question->user;
    int again = 0;
    for (int32_t n = 0; n < response->responses_count; n++) {
        const struct incremental_alter_configs_response_alter_configs_resource_response *said =
            &response->responses[n];
        for (size_t i = 0; i < part->question->count; i++) {
            const cafka_resource *resource = &w->changes[i].resource;
            if (!in_part(part, i) || resource->type != said->resource_type ||
                !str_is(said->resource_name, resource->name))
                continue;
            admin_item_error(&w->errors[i], said->error_code, said->error_message,
                             kind_of(resource->type), resource->name);
            bool retry = protocol_error_retriable(said->error_code) &&
                         said->error_code != ERR_UNKNOWN_TOPIC_OR_PARTITION;
            if (retry)
                again = said->error_code;
            else
                part->question->decided[i] = true;
        }
    }
    if (again == ERR_THROTTLING_QUOTA_EXCEEDED)
        op->throttle_ms = response->throttle_time_ms;
    return again ? error_set(err, again, "changing configs: %s", cafka_error_name(again)) : CAFKA_OK;
}

static void fail_alter(void *user, size_t i, const cafka_error *error)
{
    ((struct changes *)user)->errors[i] = *error;
}

static int check_changes(const cafka_config_change *changes, size_t count, int32_t *targets,
                         cafka_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const cafka_config_change *c = &changes[i];
        int rc = target_of(&c->resource, &targets[i], err);
        if (rc)
            return rc;
        if (!c->name || c->operation < CAFKA_CONFIG_SET_VALUE ||
            c->operation > CAFKA_CONFIG_SUBTRACT ||
            (c->operation != CAFKA_CONFIG_DELETE && !c->value))
            return error_set(err, CAFKA_ERR_ARGUMENT,
                             "change number %zu needs a name, an operation, and a value unless it deletes",
                             i);
    }
    return CAFKA_OK;
}

int cafka_admin_alter_configs(cafka_admin *admin, const cafka_config_change *changes, size_t count,
                              unsigned flags, int64_t timeout_ms, cafka_error *errors,
                              cafka_error *err)
{
    int64_t deadline;
    int rc = admin_begin(admin, timeout_ms, &deadline, err);
    if (rc || !count)
        return rc;
    if (!changes)
        return error_set(err, CAFKA_ERR_ARGUMENT, "changes are needed");
    struct arena arena = {0};
    int32_t *targets = arena_calloc(&arena, count, sizeof *targets);
    bool *decided = arena_calloc(&arena, count, sizeof *decided);
    struct changes w = {changes, arena_calloc(&arena, count, sizeof *w.errors)};
    if (!targets || !decided || !w.errors)
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu changes", count);
    if (!rc)
        rc = check_changes(changes, count, targets, err);
    if (!rc) {
        struct question question = {.count = count,
                                    .targets = targets,
                                    .decided = decided,
                                    .flags = flags,
                                    .user = &w,
                                    .fail = fail_alter};
        const struct operation pattern = {.api_key = API_INCREMENTAL_ALTER_CONFIGS,
                                          .build = build_alter,
                                          .take = take_alter};
        rc = run_parts(admin, &question, &pattern, deadline, err);
        if (!rc)
            rc = admin_sum_up(w.errors, count, sizeof *w.errors, err);
        if (errors)
            memcpy(errors, w.errors, count * sizeof *errors);
    }
    arena_fini(&arena);
    return rc;
}
