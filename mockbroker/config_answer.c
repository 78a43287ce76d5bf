/*
 * config_answer.c - see config_answer.h.
 */
#include "mockbroker/config_answer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/topic_config.h"
#include "protocol/error_codes.h"

typedef struct describe_configs_response_describe_configs_result result;
typedef struct describe_configs_response_describe_configs_resource_result answer;
typedef struct describe_configs_response_describe_configs_synonym synonym;

#define GROUP(name, type, fallback, range, text) \
    { \
        name, type, fallback, range, .synonyms = {{"group." name, 1}}, .doc = text \
    }

const struct config_def group_config_defs[] = {
    GROUP("consumer.assignment.interval.ms", CONFIG_INT, "1000", "[0,...]",
          "Time between two computations of a consumer group's target assignment."),
    GROUP("consumer.heartbeat.interval.ms", CONFIG_INT, "5000", "[1,...]",
          "How often members of a consumer group send heartbeats."),
    GROUP("consumer.session.timeout.ms", CONFIG_INT, "45000", "[1,...]",
          "A member of a consumer group that is silent for so long is removed."),
    GROUP("share.assignment.interval.ms", CONFIG_INT, "1000", "[0,...]",
          "Time between two computations of a share group's target assignment."),
    {"share.auto.offset.reset", CONFIG_STRING, "latest", .range = NULL,
     .doc = "Where a share group begins: earliest, latest or by_duration:PnDTnHnMnS."},
    GROUP("share.delivery.count.limit", CONFIG_INT, "5", "[2,...]",
          "How often a record is tried to be delivered to a share group."),
    GROUP("share.heartbeat.interval.ms", CONFIG_INT, "5000", "[1,...]",
          "How often members of a share group send heartbeats."),
    {"share.isolation.level", CONFIG_STRING, "read_uncommitted", "[read_committed, read_uncommitted]",
     .doc = "Does a share group see records of aborted transactions?"},
    GROUP("share.partition.max.record.locks", CONFIG_INT, "2000", "[100,...]",
          "Records of one partition that a share group may hold at a time."),
    GROUP("share.record.lock.duration.ms", CONFIG_INT, "30000", "[1000,...]",
          "How long a record is held for a member of a share group."),
    {"share.renew.acknowledge.enable", CONFIG_BOOLEAN, "true", .range = NULL,
     .doc = "May members of a share group prolong their hold on a record?"},
    GROUP("share.session.timeout.ms", CONFIG_INT, "45000", "[1,...]",
          "A member of a share group that is silent for so long is removed."),
    GROUP("streams.assignment.interval.ms", CONFIG_INT, "1000", "[0,...]",
          "Time between two computations of a streams group's target assignment."),
    GROUP("streams.heartbeat.interval.ms", CONFIG_INT, "5000", "[1,...]",
          "How often members of a streams group send heartbeats."),
    GROUP("streams.initial.rebalance.delay.ms", CONFIG_INT, "3000", "[0,...]",
          "How long the first assignment of a streams group waits for members."),
    GROUP("streams.num.standby.replicas", CONFIG_INT, "0", "[0,...]",
          "Standby tasks of each stateful task of a streams group."),
    GROUP("streams.session.timeout.ms", CONFIG_INT, "45000", "[1,...]",
          "A member of a streams group that is silent for so long is removed."),
};
const size_t group_config_def_count = sizeof group_config_defs / sizeof *group_config_defs;

const struct config_def metrics_config_defs[] = {
    {"interval.ms", CONFIG_INT, "300000", .range = NULL,
     .doc = "How often matching clients push their metrics."},
    {"match", CONFIG_LIST, "", .range = NULL, .doc = "Which clients match: name=pattern pairs."},
    {"metrics", CONFIG_LIST, "", .range = NULL, .doc = "Prefixes of the metrics to be pushed."},
};
const size_t metrics_config_def_count = sizeof metrics_config_defs / sizeof *metrics_config_defs;

const struct config_def *config_defs_of(int type, size_t *count)
{
    switch (type) {
    case CONFIG_RESOURCE_TOPIC: *count = topic_config_def_count; return topic_config_defs;
    case CONFIG_RESOURCE_BROKER: *count = broker_config_def_count; return broker_config_defs;
    case CONFIG_RESOURCE_CLIENT_METRICS:
        *count = metrics_config_def_count;
        return metrics_config_defs;
    case CONFIG_RESOURCE_GROUP: *count = group_config_def_count; return group_config_defs;
    default: *count = 0; return NULL;
    }
}

const struct config_def *config_def_of(int type, struct str name)
{
    size_t count;
    const struct config_def *defs = config_defs_of(type, &count);
    for (size_t i = 0; i < count; i++)
        if (str_is(name, defs[i].name))
            return &defs[i];
    return NULL;
}

/* --- texts of values --- */

static struct str keep(struct arena *arena, const char *text, size_t size)
{
    char *copy = arena_strndup(arena, text, size);
    return copy ? (struct str){copy, size} : str_of("");
}

static struct str trim(struct str s)
{
    while (s.size && (unsigned char)s.data[0] <= ' ')
        s.data++, s.size--;
    while (s.size && (unsigned char)s.data[s.size - 1] <= ' ')
        s.size--;
    return s;
}

static struct str number_text(struct arena *arena, int64_t n)
{
    char text[24];
    int size = snprintf(text, sizeof text, "%" PRId64, n);
    return keep(arena, text, (size_t)size);
}

static bool has_item(const char *list, size_t size, struct str item)
{
    for (size_t at = 0; at + item.size <= size; at++) {
        const char *comma = memchr(list + at, ',', size - at);
        size_t end = comma ? (size_t)(comma - list) : size;
        if (end - at == item.size && !memcmp(list + at, item.data, item.size))
            return true;
        at = end;
    }
    return false;
}

/* A list as Kafka writes it: items trimmed, joined by commas; of words that may be chosen each once. */
static struct str list_text(struct arena *arena, const struct config_def *def, const char *value)
{
    bool words = def->range && def->range[0] == '[' && !strstr(def->range, "]:[");
    char *out = arena_alloc(arena, strlen(value) + 1);
    size_t size = 0;
    if (!out)
        return str_of("");
    for (const char *at = value; at;) {
        const char *comma = strchr(at, ',');
        struct str item = trim((struct str){at, comma ? (size_t)(comma - at) : strlen(at)});
        at = comma ? comma + 1 : NULL;
        if (words && size && has_item(out, size, item))
            continue;
        if (size)
            out[size++] = ',';
        memcpy(out + size, item.data, item.size);
        size += item.size;
    }
    return (struct str){out, size};
}

/* A double as Java prints it: the fewest digits that tell it apart, a dot always. */
static struct str double_text(struct arena *arena, const char *value)
{
    double n = config_value_double(value);
    char digits[40], text[64];
    int precision = 0;
    if (!isfinite(n))
        return str_of(isnan(n) ? "NaN" : n < 0 ? "-Infinity" : "Infinity");
    do
        snprintf(digits, sizeof digits, "%.*e", precision, n);
    while (strtod(digits, NULL) != n && ++precision < 17);
    const char *e = strchr(digits, 'e');
    int exponent = (int)strtol(e + 1, NULL, 10);
    if (n == 0 || (exponent >= -3 && exponent < 7))
        snprintf(text, sizeof text, "%.*f", precision - exponent > 1 ? precision - exponent : 1, n);
    else
        snprintf(text, sizeof text, "%.*s%sE%d", (int)(e - digits), digits, precision ? "" : ".0",
                 exponent);
    return keep(arena, text, strlen(text));
}

static struct str normal_text(const struct config_def *def, const char *value, struct arena *arena)
{
    switch (def->type) {
    case CONFIG_BOOLEAN: return str_of(config_value_bool(value) ? "true" : "false");
    case CONFIG_INT:
    case CONFIG_SHORT:
    case CONFIG_LONG: return number_text(arena, config_value_long(value));
    case CONFIG_LIST: return list_text(arena, def, value);
    case CONFIG_DOUBLE: return double_text(arena, value);
    default: {
        struct str s = trim(str_of(value));
        return keep(arena, s.data, s.size);
    }
    }
}

static struct str multiplied(const char *value, int64_t factor, struct arena *arena)
{
    int64_t n = config_value_long(value), product;
    if (n < 0)
        product = -1;
    else if (__builtin_mul_overflow(n, factor, &product))
        product = INT64_MAX;
    return number_text(arena, product);
}

struct str topic_config_text(const struct config_def *def, const struct broker_config *c,
                             const struct config_image *overrides, bool normal,
                             enum config_source *source, struct arena *arena)
{
    const char *own = config_image_get(overrides, def->name);
    int64_t factor = 1;
    *source = CONFIG_SOURCE_TOPIC;
    const char *value = own ? own : config_fallback(def, c, source, &factor);
    if (!value)
        return (struct str){0};
    if (factor > 1)
        return multiplied(value, factor, arena);
    return normal ? normal_text(def, value, arena) : keep(arena, value, strlen(value));
}

/* --- synonyms --- */

/* Of a broker property: itself and what stands in for it. */
static const struct config_def *synonyms_of_broker(const char *name)
{
    for (size_t i = 0; i < topic_config_def_count; i++)
        if (topic_config_defs[i].synonyms[1].name &&
            !strcmp(topic_config_defs[i].synonyms[0].name, name))
            return &topic_config_defs[i];
    return NULL;
}

struct listing {
    const struct broker_config *config;
    struct arena *arena;
    int version;
    bool default_only; /* the default of all brokers is described */
};

enum { SYNONYMS_MAX = 1 + CONFIG_SYNONYMS * 4 };

static void add_synonym(synonym *list, int *count, const char *name, struct str value, int source)
{
    list[(*count)++] = (synonym){.name = str_of(name), .value = value, .source = (int8_t)source};
}

static bool is_secret(const struct config_def *def)
{
    return def && def->type == CONFIG_PASSWORD;
}

/*
 * All places where a broker property, or what stands in for it, has a value; the first that
 * carries the very name begins the list.
 */
static int broker_synonyms(const struct listing *l, const char *name, synonym *list, int count)
{
    const struct config_def *family = synonyms_of_broker(name);
    int kept = count;
    bool begun = false;
    for (enum config_source s = CONFIG_SOURCE_DYNAMIC_BROKER; s <= CONFIG_SOURCE_DEFAULT; s++) {
        for (int i = 0; i < CONFIG_SYNONYMS; i++) {
            const char *other = family ? family->synonyms[i].name : i ? NULL : name;
            if (!other)
                break;
            const char *value = broker_config_from(l->config, s, other);
            if (!value || (l->default_only && s != CONFIG_SOURCE_DYNAMIC_DEFAULT))
                continue;
            begun |= !strcmp(other, name);
            if (!begun)
                continue;
            struct str text = is_secret(broker_config_find(str_of(other)))
                                  ? (struct str){0}
                                  : keep(l->arena, value, strlen(value));
            add_synonym(list, &kept, other, text, s);
        }
    }
    return kept;
}

/* --- one config --- */

static int set_synonyms(answer *out, const synonym *list, int count, const struct listing *l,
                        bool wanted, cafka_error *err)
{
    out->config_source = (int8_t)(count ? list[0].source : CONFIG_SOURCE_DEFAULT);
    out->is_default = !l->version && out->config_source == CONFIG_SOURCE_DEFAULT;
    if (!wanted || !count)
        return CAFKA_OK;
    out->synonyms = arena_calloc(l->arena, (size_t)count, sizeof *out->synonyms);
    if (!out->synonyms)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to describe configs");
    memcpy(out->synonyms, list, (size_t)count * sizeof *list);
    out->synonyms_count = count;
    return CAFKA_OK;
}

static void begin_answer(answer *out, const struct config_def *def, bool documented)
{
    describe_configs_response_describe_configs_resource_result_init(out);
    out->name = str_of(def->name);
    out->config_type = (int8_t)def->type;
    out->documentation = documented ? str_of(def->doc) : (struct str){0};
}

/* Of a topic, a group or a metrics subscription: its own value first. */
static int describe_own(const struct listing *l, const struct config_def *def,
                        const struct config_image *overrides, int own_source,
                        const struct describe_configs_request *request, answer *out,
                        cafka_error *err)
{
    synonym list[SYNONYMS_MAX];
    int count = 0;
    enum config_source source;
    begin_answer(out, def, request->include_documentation);
    out->value = topic_config_text(def, l->config, overrides, true, &source, l->arena);
    if (config_image_get(overrides, def->name))
        add_synonym(list, &count, def->name, out->value, own_source);
    if (def->synonyms[0].name && broker_config_find(str_of(def->synonyms[0].name)))
        count = broker_synonyms(l, def->synonyms[0].name, list, count);
    else if (own_source == CONFIG_SOURCE_GROUP) /* the brokers have no property for it */
        add_synonym(list, &count, def->name, str_of(def->fallback), CONFIG_SOURCE_DEFAULT);
    return set_synonyms(out, list, count, l, request->include_synonyms, err);
}

static int describe_broker_config(const struct listing *l, const struct config_def *def,
                                  const struct describe_configs_request *request, answer *out,
                                  cafka_error *err)
{
    synonym list[SYNONYMS_MAX];
    begin_answer(out, def, request->include_documentation);
    const char *value =
        l->default_only ? broker_config_from(l->config, CONFIG_SOURCE_DYNAMIC_DEFAULT, def->name)
                        : broker_config_get(l->config, def->name);
    out->is_sensitive = is_secret(def);
    out->read_only = def->scope == CONFIG_READ_ONLY;
    out->value = value && !out->is_sensitive ? normal_text(def, value, l->arena) : (struct str){0};
    int count = broker_synonyms(l, def->name, list, 0);
    return set_synonyms(out, list, count, l, request->include_synonyms, err);
}

/* --- one resource --- */

typedef struct describe_configs_request_describe_configs_resource resource;

/* Has it another value than the default? */
static bool is_set(const struct listing *l, const resource *r, const struct config_def *def,
                   const struct config_image *overrides)
{
    if (r->resource_type != CONFIG_RESOURCE_BROKER)
        return config_image_get(overrides, def->name);
    for (enum config_source s = CONFIG_SOURCE_DYNAMIC_BROKER; s < CONFIG_SOURCE_DEFAULT; s++)
        if (broker_config_from(l->config, s, def->name))
            return true;
    return false;
}

/* Without names all are meant. */
static bool is_named(const resource *r, const char *name)
{
    if (!r->configuration_keys || r->configuration_keys_count <= 0)
        return true;
    for (int32_t i = 0; i < r->configuration_keys_count; i++)
        if (str_is(r->configuration_keys[i], name))
            return true;
    return false;
}

static bool is_wanted(const struct listing *l, const resource *r, const struct config_def *def,
                      const struct config_image *overrides)
{
    if (def->internal && !is_set(l, r, def, overrides))
        return false; /* only who set it sees it */
    return is_named(r, def->name);
}

static int describe_all(const struct listing *l, const resource *r,
                        const struct config_image *overrides, int own_source,
                        const struct describe_configs_request *request, result *out,
                        cafka_error *err)
{
    size_t count;
    const struct config_def *defs = config_defs_of(r->resource_type, &count);
    out->configs = arena_calloc(l->arena, count, sizeof *out->configs);
    if (!out->configs)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to describe configs");
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && i < count; i++) {
        if (!is_wanted(l, r, &defs[i], overrides))
            continue;
        if (l->default_only &&
            !broker_config_from(l->config, CONFIG_SOURCE_DYNAMIC_DEFAULT, defs[i].name))
            continue;
        answer *a = &out->configs[out->configs_count++];
        rc = r->resource_type == CONFIG_RESOURCE_BROKER
                 ? describe_broker_config(l, &defs[i], request, a, err)
                 : describe_own(l, &defs[i], overrides, own_source, request, a, err);
    }
    return rc;
}

static bool parse_id(struct str name, int32_t *out)
{
    char text[16], *end;
    if (!name.size || name.size >= sizeof text || (unsigned char)name.data[0] <= ' ')
        return false; /* strtol() would step over the space */
    memcpy(text, name.data, name.size);
    text[name.size] = '\0';
    long id = strtol(text, &end, 10);
    *out = (int32_t)id;
    return !*end && id >= INT32_MIN && id <= INT32_MAX;
}

static int refuse_broker(const struct broker *broker, struct str name, cafka_error *err)
{
    int32_t id;
    if (!name.size)
        return CAFKA_OK;
    if (!parse_id(name, &id))
        return error_set(err, ERR_INVALID_REQUEST, "Broker id must be an integer, but it is: %.*s",
                         STR_ARG(name));
    if (id != broker->id)
        return error_set(err, ERR_INVALID_REQUEST,
                         "Unexpected broker id, expected %d or empty string, but received %.*s",
                         (int)broker->id, STR_ARG(name));
    return CAFKA_OK;
}

/* Is it there to be described? A refusal with the protocol's code. */
static int refuse(const struct broker *broker, const resource *r, cafka_error *err)
{
    int rc;
    switch (r->resource_type) {
    case CONFIG_RESOURCE_TOPIC:
        rc = topic_name_check(r->resource_name, err);
        if (!rc && !image_topic(&broker->image, r->resource_name))
            rc = error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "%s", "");
        return rc;
    case CONFIG_RESOURCE_BROKER: return refuse_broker(broker, r->resource_name, err);
    case CONFIG_RESOURCE_CLIENT_METRICS:
        return r->resource_name.size
                   ? CAFKA_OK
                   : error_set(err, ERR_INVALID_REQUEST,
                               "Client metrics subscription name must not be empty");
    case CONFIG_RESOURCE_GROUP:
        return r->resource_name.size
                   ? CAFKA_OK
                   : error_set(err, ERR_INVALID_REQUEST, "Group name must not be empty");
    case CONFIG_RESOURCE_BROKER_LOGGER: {
        int32_t id;
        if (!parse_id(r->resource_name, &id) || id != broker->id)
            return error_set(err, ERR_INVALID_REQUEST,
                             "Unexpected broker id, expected %d but received %.*s", (int)broker->id,
                             STR_ARG(r->resource_name));
        return CAFKA_OK;
    }
    default:
        return error_set(err, ERR_INVALID_REQUEST,
                         "Configs of resources of type %d can't be described", r->resource_type);
    }
}

static int describe_loggers(const struct broker *broker, const resource *r,
                            const struct describe_configs_request *request, struct arena *arena,
                            result *out, cafka_error *err)
{
    out->configs = arena_calloc(arena, LOGGER_COUNT, sizeof *out->configs);
    if (!out->configs)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to describe loggers");
    for (size_t i = 0; i < LOGGER_COUNT; i++) {
        if (!is_named(r, loggers_name(i)))
            continue;
        answer *a = &out->configs[out->configs_count++];
        describe_configs_response_describe_configs_resource_result_init(a);
        a->name = str_of(loggers_name(i));
        a->value = str_of(loggers_level(&broker->loggers, i, &broker->cluster->sink));
        a->config_source = CONFIG_SOURCE_LOGGER;
        a->config_type = 0;
        a->documentation = request->include_documentation ? str_of("") : (struct str){0};
    }
    return CAFKA_OK;
}

int config_describe(struct broker *broker, const resource *r,
                    const struct describe_configs_request *request, int version,
                    struct arena *arena, result *out, cafka_error *err)
{
    cafka_error why = {0};
    describe_configs_response_describe_configs_result_init(out);
    out->resource_type = r->resource_type;
    out->resource_name = r->resource_name;
    out->error_message = str_of("");
    int code = refuse(broker, r, &why);
    if (code) {
        out->error_code = (int16_t)code;
        out->error_message = keep(arena, why.message, strlen(why.message));
        return CAFKA_OK;
    }
    if (r->resource_type == CONFIG_RESOURCE_BROKER_LOGGER)
        return describe_loggers(broker, r, request, arena, out, err);
    struct listing l = {&broker->config, arena, version,
                        r->resource_type == CONFIG_RESOURCE_BROKER && !r->resource_name.size};
    int own = r->resource_type == CONFIG_RESOURCE_TOPIC   ? CONFIG_SOURCE_TOPIC
              : r->resource_type == CONFIG_RESOURCE_GROUP ? CONFIG_SOURCE_GROUP
                                                          : CONFIG_SOURCE_CLIENT_METRICS;
    const struct config_image *overrides =
        image_config(&broker->image, r->resource_type, r->resource_name);
    return describe_all(&l, r, overrides, own, request, out, err);
}
