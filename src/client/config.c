/*
 * config.c - see config.h and <cafka/config.h>.
 */
#include "client/config.h"

#include <stdio.h>
#include <string.h>

#include "client/config_value.h"
#include "client/properties.h"
#include "env/env.h"
#include "util/alloc.h"
#include "util/error.h"

#define FILE_SIZE_MAX (1 << 20)

int cafka_config_new(cafka_config **out, cafka_error *err)
{
    error_clear(err);
    if (!out)
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_config_new: out is NULL");
    cafka_config *config = mem_zalloc(sizeof *config);
    if (config) {
        config->values = mem_calloc(property_count, sizeof *config->values);
        config->sources = mem_calloc(property_count, sizeof *config->sources);
    }
    if (!config || !config->values || !config->sources) {
        cafka_config_free(config);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a configuration");
    }
    *out = config;
    return CAFKA_OK;
}

void cafka_config_free(cafka_config *config)
{
    if (!config)
        return;
    for (size_t i = 0; config->values && i < property_count; i++)
        mem_free(config->values[i]);
    mem_free(config->values);
    mem_free(config->sources);
    plugins_fini(&config->plugins);
    mem_free(config);
}

int cafka_config_copy(cafka_config **out, const cafka_config *config, cafka_error *err)
{
    error_clear(err);
    if (!out || !config)
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_config_copy: out or config is NULL");
    cafka_config *copy;
    int rc = cafka_config_new(&copy, err);
    if (rc)
        return rc;
    char **values = copy->values;
    unsigned char *sources = copy->sources;
    *copy = *config;
    copy->values = values;
    copy->sources = sources;
    rc = plugins_copy(&copy->plugins, &config->plugins, err);
    if (rc) {
        cafka_config_free(copy);
        return rc;
    }
    memcpy(sources, config->sources, property_count * sizeof *sources);
    for (size_t i = 0; i < property_count; i++) {
        values[i] = mem_strdup(config->values[i]);
        if (config->values[i] && !values[i]) {
            cafka_config_free(copy);
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for a copy of the configuration");
        }
    }
    *out = copy;
    return CAFKA_OK;
}

static int unknown_name(const char *name, cafka_error *err)
{
    const char *nearest = property_suggest(name);
    if (nearest)
        return error_set(err, CAFKA_ERR_CONFIG, "no property is called %.80s; did you mean %s?",
                         name, nearest);
    return error_set(err, CAFKA_ERR_CONFIG,
                     "no property is called %.80s (cafka config lists them all)", name);
}

/* The value of an alias in the units of the property it stands for; text is room for it. */
static int convert(const struct property_alias *alias, const char *value, char text[32],
                   const char **out, cafka_error *err)
{
    int64_t n = 0;
    double fraction;
    *out = text;
    if (alias->conversion == AS_IT_IS) {
        *out = value;
        return CAFKA_OK;
    }
    if (alias->conversion == FRACTION_TO_MS) {
        if (!parse_decimal(value, &fraction) || fraction < 0 || fraction > 1e15)
            return error_set(err, CAFKA_ERR_CONFIG, "%s=%.40s: not a number of milliseconds",
                             alias->name, value);
        n = (int64_t)fraction;
        snprintf(text, 32, "%lld", (long long)(n + (fraction > (double)n)));
        return CAFKA_OK;
    }
    if (!parse_int64(value, &n))
        return error_set(err, CAFKA_ERR_CONFIG, "%s=%.40s: not a whole number", alias->name, value);
    if (alias->conversion == KIB_TO_BYTES) {
        if (n < 1 || n > INT32_MAX)
            return error_set(err, CAFKA_ERR_CONFIG,
                             "%s=%.40s: out of range; it takes 1 .. 2147483647 (KiB)", alias->name,
                             value);
        n *= 1024;
    } else if (alias->conversion == ZERO_IS_SYSTEM && n == 0) {
        n = -1;
    } else if (alias->conversion == ZERO_IS_FOR_EVER && n == 0) {
        n = INT32_MAX;
    } else if (alias->conversion == MINUS_ONE_IS_NEVER && n == -1) {
        n = INT64_MAX;
    }
    snprintf(text, 32, "%lld", (long long)n);
    return CAFKA_OK;
}

int config_set_text(cafka_config *config, const char *name, const char *value, int source,
                    cafka_error *err)
{
    const struct property_alias *alias;
    const struct property *property = property_find(name, &alias);
    if (!property)
        return unknown_name(name, err);
    size_t row = (size_t)(property - properties);
    char *kept = NULL;
    if (value) {
        char number[32], said[160];
        int rc = CAFKA_OK;
        snprintf(said, sizeof said, alias ? "%s (%s)" : "%s", name, property->name);
        if (alias)
            rc = convert(alias, value, number, &value, err);
        if (!rc)
            rc = value_check(property, said, value, &kept, err);
        if (rc)
            return rc;
    }
    mem_free(config->values[row]);
    config->values[row] = kept;
    config->sources[row] = (unsigned char)(!kept ? CAFKA_CONFIG_DEFAULT
                                           : alias && source == CAFKA_CONFIG_SET ? CAFKA_CONFIG_ALIAS
                                                                                 : source);
    return CAFKA_OK;
}

int cafka_config_set(cafka_config *config, const char *name, const char *value, cafka_error *err)
{
    error_clear(err);
    if (!config || !name)
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_config_set: config or name is NULL");
    return config_set_text(config, name, value, CAFKA_CONFIG_SET, err);
}

static const char *text_of_row(const cafka_config *config, const struct property *property,
                               unsigned client)
{
    const char *value = config->values[property - properties];
    return value ? value : property_default(property, client);
}

int cafka_config_get(const cafka_config *config, const char *name, unsigned client,
                     const char **value, int *source, cafka_error *err)
{
    error_clear(err);
    if (!config || !name || !value)
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_config_get: config, name or value is NULL");
    const struct property *property = property_find(name, NULL);
    if (!property)
        return unknown_name(name, err);
    if (!client) /* the first that has it */
        client = property->clients & (~property->clients + 1);
    *value = text_of_row(config, property, client);
    if (source)
        *source = config->sources[property - properties];
    return CAFKA_OK;
}

const char *config_text(const cafka_config *config, const char *name, unsigned client)
{
    const struct property *property = property_find(name, NULL);
    return property ? text_of_row(config, property, client) : NULL;
}

bool config_is_set(const cafka_config *config, const char *name)
{
    const struct property *property = property_find(name, NULL);
    return property && config->values[property - properties];
}

/* ---- text and files ---- */

static int set_entry(void *user, const char *name, const char *value, unsigned line,
                     cafka_error *err)
{
    int rc = config_set_text(user, name, value, CAFKA_CONFIG_LOADED, err);
    if (rc == CAFKA_ERR_CONFIG)
        error_prefix(err, "line %u: ", line);
    return rc;
}

int cafka_config_load(cafka_config *config, const char *text, cafka_error *err)
{
    error_clear(err);
    if (!config || !text)
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_config_load: config or text is NULL");
    cafka_config *changed; /* all of the text or nothing */
    int rc = cafka_config_copy(&changed, config, err);
    if (rc)
        return rc;
    rc = properties_read(text, set_entry, changed, err);
    if (!rc) {
        cafka_config old = *config;
        *config = *changed;
        *changed = old;
    }
    cafka_config_free(changed);
    return rc;
}

int cafka_config_load_file(cafka_config *config, const char *path, cafka_error *err)
{
    error_clear(err);
    if (!config || !path)
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_config_load_file: config or path is NULL");
    const cafka_env *env = config->env ? config->env : cafka_env_real();
    char *text;
    size_t size;
    int rc = env_read_file(env, path, FILE_SIZE_MAX, &text, &size, err);
    if (rc)
        return rc;
    if (strlen(text) != size)
        rc = error_set(err, CAFKA_ERR_CONFIG, "it holds a zero byte, so it is no text");
    else
        rc = cafka_config_load(config, text, err);
    if (rc == CAFKA_ERR_CONFIG)
        error_prefix(err, "%.100s: ", path);
    mem_free(text);
    return rc;
}

/* ---- the table from outside ---- */

int cafka_config_property(size_t index, cafka_property *out)
{
    if (!out || out->size < sizeof out->size)
        return CAFKA_ERR_ARGUMENT;
    if (index >= property_count + property_alias_count)
        return CAFKA_END;
    const struct property *row;
    cafka_property full = {0};
    if (index < property_count) {
        row = &properties[index];
        full.name = row->name;
        full.flags = row->flags;
        full.default_value = row->default_value;
        full.range = row->range;
    } else {
        const struct property_alias *alias = &property_aliases[index - property_count];
        row = property_find(alias->of, NULL);
        full.name = alias->name;
        full.flags = row->flags | CAFKA_PROPERTY_ALIAS;
        full.alias_of = alias->of;
        full.range = ""; /* in units of its own */
    }
    full.size = out->size;
    full.type = row->type;
    full.clients = row->clients;
    full.importance = row->importance;
    full.since = row->since;
    full.doc = row->doc;
    memcpy(out, &full, out->size < sizeof full ? out->size : sizeof full);
    return CAFKA_OK;
}

/* ---- typed settings ---- */

void cafka_config_on_delivery(cafka_config *config, cafka_delivery_fn *fn, void *user)
{
    if (!config)
        return;
    config->on_delivery = fn;
    config->on_delivery_user = user;
}

void cafka_config_on_event(cafka_config *config, cafka_event_fn *fn, void *user)
{
    if (!config)
        return;
    config->on_event = fn;
    config->on_event_user = user;
}

void cafka_config_set_log(cafka_config *config, cafka_log_fn *fn, void *user, int level)
{
    if (!config)
        return;
    config->log_fn = fn;
    config->log_user = user;
    config->log_level = level;
}

void cafka_config_set_loop(cafka_config *config, cafka_loop *loop)
{
    if (config)
        config->loop = loop;
}

void cafka_config_set_env(cafka_config *config, const cafka_env *env)
{
    if (config)
        config->env = env;
}
