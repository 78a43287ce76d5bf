/*
 * config_ops.c - changing the configs of topics, brokers, groups and metrics subscriptions.
 *
 * The broker that got the request has looked at its form already (api/configs.c); here the
 * values are decided on.
 */
#include <stdio.h>
#include <stdlib.h>

#include "mockbroker/config_answer.h"
#include "mockbroker/controller/controller.h"
#include "mockbroker/topic_config.h"
#include "protocol/error_codes.h"
#include "protocol/messages/ConfigRecord.h"
#include "util/alloc.h"

/* Names of one request: more than there are of any kind of resource. */
enum { CHANGES_MAX = 1000 };

/* The configs of a resource as they will be. */
struct draft {
    struct config_entry *entries; /* value NULL: deleted */
    size_t count;
};

static int no_memory(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_MEMORY, "no memory for a change of configs");
}

static void draft_fini(struct draft *d)
{
    for (size_t i = 0; i < d->count; i++) {
        mem_free(d->entries[i].name);
        mem_free(d->entries[i].value);
    }
    mem_free(d->entries);
}

static int draft_set(struct draft *d, struct str name, struct str value, cafka_error *err)
{
    char *text = value.data ? mem_strndup(value.data, value.size) : NULL;
    if (value.data && !text)
        return no_memory(err);
    for (size_t i = 0; i < d->count; i++)
        if (str_is(name, d->entries[i].name)) {
            mem_free(d->entries[i].value);
            d->entries[i].value = text;
            return CAFKA_OK;
        }
    char *key = mem_strndup(name.data, name.size);
    struct config_entry *more = key ? mem_recalloc(d->entries, d->count + 1, sizeof *more) : NULL;
    if (!more) {
        mem_free(key);
        mem_free(text);
        return no_memory(err);
    }
    d->entries = more;
    d->entries[d->count++] = (struct config_entry){key, text};
    return CAFKA_OK;
}

static const char *draft_get(const struct draft *d, struct str name)
{
    for (size_t i = 0; i < d->count; i++)
        if (str_is(name, d->entries[i].name))
            return d->entries[i].value;
    return NULL;
}

static int draft_from(struct draft *d, const struct config_image *current, bool deleted,
                      cafka_error *err)
{
    int rc = CAFKA_OK;
    for (int32_t i = 0; !rc && current && i < current->entry_count; i++)
        rc = draft_set(d, str_of(current->entries[i].name),
                       deleted ? (struct str){0} : str_of(current->entries[i].value), err);
    return rc;
}

static struct str trim(struct str s)
{
    while (s.size && (unsigned char)s.data[0] <= ' ')
        s.data++, s.size--;
    while (s.size && (unsigned char)s.data[s.size - 1] <= ' ')
        s.size--;
    return s;
}

static bool next_item(struct str *rest, struct str *item)
{
    if (!rest->data)
        return false;
    const char *comma = rest->size ? memchr(rest->data, ',', rest->size) : NULL;
    size_t size = comma ? (size_t)(comma - rest->data) : rest->size;
    *item = trim((struct str){rest->data, size});
    *rest = comma ? (struct str){comma + 1, rest->size - size - 1} : (struct str){0};
    return true;
}

/* Items as they are, spaces and all: so Kafka compares them here. */
static bool next_raw_item(struct str *rest, struct str *item)
{
    if (!rest->data)
        return false;
    const char *comma = rest->size ? memchr(rest->data, ',', rest->size) : NULL;
    size_t size = comma ? (size_t)(comma - rest->data) : rest->size;
    *item = (struct str){rest->data, size};
    *rest = comma ? (struct str){comma + 1, rest->size - size - 1} : (struct str){0};
    return true;
}

static bool has_item(struct str list, struct str item)
{
    struct str other;
    while (next_raw_item(&list, &other))
        if (str_equal(other, item))
            return true;
    return false;
}

/* Java's split() drops empty items from the end; of an empty text it makes one empty item. */
static struct str without_empty_end(struct str list)
{
    bool had = list.size > 0;
    while (list.size && list.data[list.size - 1] == ',')
        list.size--;
    return had && !list.size ? (struct str){0} : list;
}

struct joined {
    struct buffer text;
    size_t count;
};

static void put_item(struct joined *out, struct str item)
{
    if (out->count++)
        buffer_put_u8(&out->text, ',');
    buffer_put(&out->text, item.data, item.size);
}

/* The list with the items of `value` added, or without them. */
static int change_list(struct draft *d, int type, const struct config_change *change,
                       cafka_error *err)
{
    const struct config_def *def = config_def_of(type, change->name);
    if (!def || def->type != CONFIG_LIST || type == CONFIG_RESOURCE_CLIENT_METRICS)
        return error_set(err, ERR_INVALID_CONFIG,
                         "Can't %s to key %.*s because its type is not LIST.",
                         change->op == CONFIG_OP_APPEND ? "APPEND" : "SUBTRACT",
                         STR_ARG(change->name));
    const char *current = draft_get(d, change->name);
    struct str old = str_of(current ? current : def->fallback), item;
    struct str value = without_empty_end(change->value);
    struct joined out = {0};
    for (struct str rest = old; next_raw_item(&rest, &item);)
        if (item.size && (change->op == CONFIG_OP_APPEND || !has_item(value, item)))
            put_item(&out, item);
    for (struct str rest = value; next_raw_item(&rest, &item);)
        if (change->op == CONFIG_OP_APPEND && (!item.size || !has_item(old, item)))
            put_item(&out, item);
    struct str text = {buffer_string(&out.text), 0};
    text.size = text.data ? strlen(text.data) : 0;
    int rc = text.data ? draft_set(d, change->name, text, err) : no_memory(err);
    buffer_fini(&out.text);
    return rc;
}

static int apply_change(struct draft *d, int type, const struct config_change *change,
                        cafka_error *err)
{
    switch (change->op) {
    case CONFIG_OP_SET: return draft_set(d, change->name, change->value, err);
    case CONFIG_OP_DELETE: return draft_set(d, change->name, (struct str){0}, err);
    case CONFIG_OP_APPEND:
    case CONFIG_OP_SUBTRACT: return change_list(d, type, change, err);
    default:
        return error_set(err, ERR_INVALID_REQUEST, "Unknown operation %d on configuration %.*s",
                         change->op, STR_ARG(change->name));
    }
}

/* --- checks --- */

static int check_plain(int type, const char *kind, const struct config_entry *entries, size_t count,
                       cafka_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct config_def *def = config_def_of(type, str_of(entries[i].name));
        if (!def)
            return error_set(err, ERR_INVALID_CONFIG, "Unknown %s config name: %s", kind,
                             entries[i].name);
        int rc = config_value_check(def, entries[i].value, err);
        if (rc)
            return rc;
    }
    return CAFKA_OK;
}

/* Bounds that the brokers' properties set: `group.KIND.min.REST` and `…max…` for `KIND.REST`. */
static int check_group_bounds(const struct controller *c, const struct config_entry *entry,
                              cafka_error *err)
{
    const char *rest = strchr(entry->name, '.');
    char low[96], high[96];
    if (!rest)
        return CAFKA_OK;
    int kind = (int)(rest++ - entry->name);
    const char *count = !strncmp(rest, "num.", 4) ? rest + 4 : rest;
    snprintf(low, sizeof low, "group.%.*s.min.%s", kind, entry->name, count);
    snprintf(high, sizeof high, "group.%.*s.max.%s", kind, entry->name, count);
    int64_t value = config_value_long(entry->value);
    if (config_def_of(CONFIG_RESOURCE_BROKER, str_of(low)) &&
        value < broker_config_long(&c->config, low))
        return error_set(err, ERR_INVALID_CONFIG, "%s must be greater than or equal to %s",
                         entry->name, low);
    if (config_def_of(CONFIG_RESOURCE_BROKER, str_of(high)) &&
        value > broker_config_long(&c->config, high))
        return error_set(err, ERR_INVALID_CONFIG, "%s must be less than or equal to %s",
                         entry->name, high);
    return CAFKA_OK;
}

/* What the group will have: its own, or the brokers' default. */
static int64_t group_value(const struct controller *c, const struct config_entry *entries,
                           size_t count, const char *name)
{
    char fallback[96];
    for (size_t i = 0; i < count; i++)
        if (!strcmp(entries[i].name, name))
            return config_value_long(entries[i].value);
    snprintf(fallback, sizeof fallback, "group.%s", name);
    return broker_config_long(&c->config, fallback);
}

/* Whether a share group's start is earliest, latest or by_duration:PnDTnHnMn.nS. */
static int check_offset_reset(const char *value, cafka_error *err)
{
    static const char duration[] = "by_duration:P";
    const char *rest = value + sizeof duration - 1;
    if (!strcmp(value, "earliest") || !strcmp(value, "latest"))
        return CAFKA_OK;
    if (!strncmp(value, duration, sizeof duration - 1) && *rest &&
        strspn(rest, "0123456789DTHMS.") == strlen(rest) && strpbrk(rest, "DHMS"))
        return CAFKA_OK;
    return error_set(err, ERR_INVALID_CONFIG,
                     "Invalid value %s for configuration share.auto.offset.reset: Invalid value `%s` "
                     "for configuration share.auto.offset.reset. The value must be either 'earliest', "
                     "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
                     value, value);
}

static int check_group(const struct controller *c, const struct config_entry *entries, size_t count,
                       cafka_error *err)
{
    static const char *const kinds[] = {"consumer", "share", "streams"};
    int rc = check_plain(CONFIG_RESOURCE_GROUP, "group", entries, count, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = strcmp(entries[i].name, "share.auto.offset.reset")
                 ? check_group_bounds(c, &entries[i], err)
                 : check_offset_reset(entries[i].value, err);
    for (size_t i = 0; !rc && i < sizeof kinds / sizeof *kinds; i++) {
        char session[64], heartbeat[64];
        snprintf(session, sizeof session, "%s.session.timeout.ms", kinds[i]);
        snprintf(heartbeat, sizeof heartbeat, "%s.heartbeat.interval.ms", kinds[i]);
        if (group_value(c, entries, count, session) <= group_value(c, entries, count, heartbeat))
            rc = error_set(err, ERR_INVALID_CONFIG, "%s must be greater than %s", session,
                           heartbeat);
    }
    return rc;
}

/* Could it be a regular expression? What opens must close, and what repeats needs something to repeat. */
static bool is_pattern(struct str text)
{
    int depth = 0;
    bool in_class = false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '\\' && ++i == text.size)
            return false;
        if (c == '\\')
            continue;
        if (in_class) {
            in_class = c != ']';
            continue;
        }
        in_class = c == '[';
        depth += (c == '(') - (c == ')');
        if (depth < 0 || (strchr("*+?", c) && c && (!i || text.data[i - 1] == '|')))
            return false;
    }
    return !depth && !in_class;
}

/* "name=pattern,…" of what a client tells about itself. */
static bool is_client_match(struct str value)
{
    static const char *const names[] = {"client_instance_id",    "client_id",
                                        "client_software_name",  "client_software_version",
                                        "client_source_address", "client_source_port"};
    struct str item;
    while (value.size && next_item(&value, &item)) {
        const char *equals = item.size ? memchr(item.data, '=', item.size) : NULL;
        bool known = false;
        for (size_t i = 0; equals && i < sizeof names / sizeof *names; i++)
            known |= str_is(trim((struct str){item.data, (size_t)(equals - item.data)}), names[i]);
        if (!known)
            return false;
        size_t name = (size_t)(equals - item.data) + 1;
        if (!is_pattern((struct str){item.data + name, item.size - name}))
            return false;
    }
    return true;
}

static int check_metrics(const struct config_entry *entries, size_t count, cafka_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!config_def_of(CONFIG_RESOURCE_CLIENT_METRICS, str_of(entries[i].name)))
            return error_set(err, ERR_INVALID_REQUEST, "Unknown client metrics configuration: %s",
                             entries[i].name);
    int rc = check_plain(CONFIG_RESOURCE_CLIENT_METRICS, "client metrics", entries, count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        int64_t n = config_value_long(entries[i].value);
        if (!strcmp(entries[i].name, "interval.ms") && (n < 100 || n > 3600000))
            rc = error_set(err, ERR_INVALID_REQUEST,
                           "Invalid value %s for interval.ms, interval must be between 100 and 3600000 "
                           "(1 hour)",
                           entries[i].value);
        else if (!strcmp(entries[i].name, "match") && !is_client_match(str_of(entries[i].value)))
            rc = error_set(err, ERR_INVALID_CONFIG, "Illegal client matching pattern: %s",
                           entries[i].value);
    }
    return rc;
}

static int check_resource(const struct controller *c, int type, struct str name, cafka_error *err)
{
    switch (type) {
    case CONFIG_RESOURCE_TOPIC:
        if (!name.size)
            return error_set(err, ERR_INVALID_REQUEST, "Default topic resources are not allowed.");
        if (topic_name_check(name, err))
            return ERR_INVALID_TOPIC_EXCEPTION;
        if (!image_topic(&c->image, name))
            return error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION,
                             "The topic '%.*s' does not exist.", STR_ARG(name));
        return CAFKA_OK;
    case CONFIG_RESOURCE_GROUP:
        return name.size
                   ? CAFKA_OK
                   : error_set(err, ERR_INVALID_REQUEST, "Default group resources are not allowed.");
    case CONFIG_RESOURCE_CLIENT_METRICS:
        return name.size ? CAFKA_OK
                         : error_set(err, ERR_INVALID_REQUEST, "Subscription name can't be empty");
    default: return CAFKA_OK;
    }
}

static int check_values(const struct controller *c, int type, const struct config_entry *entries,
                        size_t count, cafka_error *err)
{
    switch (type) {
    case CONFIG_RESOURCE_TOPIC: return topic_config_check(&c->config, entries, count, err);
    case CONFIG_RESOURCE_GROUP: return check_group(c, entries, count, err);
    case CONFIG_RESOURCE_CLIENT_METRICS: return check_metrics(entries, count, err);
    default: return CAFKA_OK; /* the broker has looked at its own */
    }
}

/* --- records --- */

static int add_records(const struct draft *d, int type, struct str resource,
                       const struct config_image *current, struct record_list *records,
                       cafka_error *err)
{
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && i < d->count; i++) {
        const char *old = config_image_get(current, d->entries[i].name);
        const char *value = d->entries[i].value;
        if (old == value || (old && value && !strcmp(old, value)))
            continue;
        struct config_record r;
        config_record_init(&r);
        r.resource_type = (int8_t)type;
        r.resource_name = resource;
        r.name = str_of(d->entries[i].name);
        r.value = str_of(value);
        rc = record_list_add(records, METADATA_CONFIG, 0, &r, err);
    }
    return rc;
}

/* Only what will have a value: what the checks look at. */
static int check_draft(const struct controller *c, const struct draft *d, int type, cafka_error *err)
{
    struct config_entry *live = mem_calloc(d->count + 1, sizeof *live);
    size_t count = 0;
    if (!live)
        return no_memory(err);
    for (size_t i = 0; i < d->count; i++)
        if (d->entries[i].value)
            live[count++] = d->entries[i];
    int rc = check_values(c, type, live, count, err);
    mem_free(live);
    return rc;
}

int controller_alter_configs(struct controller *c, int type, struct str name,
                             const struct config_change *changes, size_t count, bool replace,
                             bool validate_only, cafka_error *err)
{
    const struct config_image *current = image_config(&c->image, type, name);
    struct draft draft = {0};
    struct record_list records = {0};
    int rc = check_resource(c, type, name, err);
    if (!rc && count > CHANGES_MAX)
        rc = error_set(err, ERR_INVALID_REQUEST, "%zu configs of one resource are too many", count);
    if (!rc)
        rc = draft_from(&draft, current, replace, err);
    for (size_t i = 0; !rc && i < count; i++)
        rc = apply_change(&draft, type, &changes[i], err);
    if (!rc)
        rc = check_draft(c, &draft, type, err);
    if (!rc && !validate_only)
        rc = add_records(&draft, type, name, current, &records, err);
    if (!rc)
        rc = controller_commit(c, &records, err);
    record_list_fini(&records);
    draft_fini(&draft);
    return rc;
}
