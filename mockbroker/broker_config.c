/*
 * broker_config.c - see broker_config.h.
 */
#include "mockbroker/broker_config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/alloc.h"

/* --- properties --- */

void properties_fini(struct properties *p)
{
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&p->values, &i));)
        mem_free(e->value);
    map_fini(&p->values);
}

static int set_value(struct properties *p, struct str name, struct str value, cafka_error *err)
{
    char *copy = mem_strndup(value.data, value.size);
    if (!copy)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a property");
    char *old = map_get(&p->values, name.data, name.size);
    if (!map_put(&p->values, name.data, name.size, copy)) {
        mem_free(copy);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a property");
    }
    mem_free(old);
    return CAFKA_OK;
}

int properties_set(struct properties *p, const char *name, const char *value, cafka_error *err)
{
    if (!*name)
        return error_set(err, CAFKA_ERR_CONFIG, "a property has no name");
    return set_value(p, str_of(name), str_of(value), err);
}

const char *properties_get(const struct properties *p, const char *name)
{
    return map_get_str(&p->values, name);
}

/* One logical line: continuation lines joined, escapes resolved, split at the first separator. */
struct line {
    struct buffer name, value;
    bool in_value, seen_separator;
};

static void put_utf8(struct buffer *b, unsigned code)
{
    if (code < 0x80) {
        buffer_put_u8(b, (uint8_t)code);
    } else if (code < 0x800) {
        buffer_put_u8(b, (uint8_t)(0xc0 | code >> 6));
        buffer_put_u8(b, (uint8_t)(0x80 | (code & 0x3f)));
    } else {
        buffer_put_u8(b, (uint8_t)(0xe0 | code >> 12));
        buffer_put_u8(b, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
        buffer_put_u8(b, (uint8_t)(0x80 | (code & 0x3f)));
    }
}

static bool read_unicode(const char **at, const char *end, unsigned *code)
{
    if (end - *at < 4)
        return false;
    char hex[5] = {0};
    memcpy(hex, *at, 4);
    char *stop;
    *code = (unsigned)strtoul(hex, &stop, 16);
    *at += 4;
    return stop == hex + 4;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f';
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && is_blank(*at))
        at++;
    return at;
}

/* After a backslash at the end of a line: where the text goes on. */
static const char *next_line(const char *at, const char *end)
{
    if (at < end && *at == '\r')
        at++;
    if (at < end && *at == '\n')
        at++;
    return skip_blanks(at, end);
}

static int take_escape(struct buffer *to, const char **at, const char *end, cafka_error *err)
{
    unsigned code;
    char c = *(*at)++;
    switch (c) {
    case 't': buffer_put_u8(to, '\t'); return CAFKA_OK;
    case 'n': buffer_put_u8(to, '\n'); return CAFKA_OK;
    case 'r': buffer_put_u8(to, '\r'); return CAFKA_OK;
    case 'f': buffer_put_u8(to, '\f'); return CAFKA_OK;
    case 'u':
        if (!read_unicode(at, end, &code))
            return error_set(err, CAFKA_ERR_CONFIG, "malformed \\uxxxx in the properties");
        put_utf8(to, code);
        return CAFKA_OK;
    default: buffer_put_u8(to, (uint8_t)c); return CAFKA_OK;
    }
}

/* Reads up to the end of the logical line. */
static int read_line(struct line *line, const char **at, const char *end, cafka_error *err)
{
    while (*at < end && **at != '\n' && **at != '\r') {
        char c = *(*at)++;
        struct buffer *to = line->in_value ? &line->value : &line->name;
        if (c == '\\') {
            if (*at == end)
                break;
            if (**at == '\n' || **at == '\r') {
                *at = next_line(*at, end);
                continue;
            }
            int rc = take_escape(to, at, end, err);
            if (rc)
                return rc;
        } else if (!line->in_value && (c == '=' || c == ':' || is_blank(c))) {
            const char *next = skip_blanks(*at, end);
            if (is_blank(c) && next < end && (*next == '=' || *next == ':'))
                next = skip_blanks(next + 1, end);
            *at = next;
            line->in_value = true;
        } else {
            buffer_put_u8(to, (uint8_t)c);
        }
    }
    return CAFKA_OK;
}

int properties_parse(struct properties *p, struct str text, cafka_error *err)
{
    const char *at = text.data, *end = text.data + text.size;
    struct line line = {0};
    int rc = CAFKA_OK;
    while (!rc && at < end) {
        at = skip_blanks(at, end);
        if (at == end)
            break;
        if (*at == '\n' || *at == '\r') {
            at++;
            continue;
        }
        if (*at == '#' || *at == '!') {
            while (at < end && *at != '\n')
                at++;
            continue;
        }
        buffer_clear(&line.name);
        buffer_clear(&line.value);
        line.in_value = false;
        rc = read_line(&line, &at, end, err);
        char *name = rc ? NULL : buffer_string(&line.name);
        char *value = rc ? NULL : buffer_string(&line.value);
        if (!rc)
            rc = name && value ? properties_set(p, name, value, err)
                               : error_set(err, CAFKA_ERR_MEMORY, "no memory for properties");
    }
    buffer_fini(&line.name);
    buffer_fini(&line.value);
    return rc;
}

/* --- the table --- */

const struct config_def *broker_config_find(struct str name)
{
    size_t low = 0, high = broker_config_def_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const char *other = broker_config_defs[middle].name;
        int order = strncmp(other, name.data, name.size);
        if (!order && other[name.size])
            order = 1;
        if (!order)
            return &broker_config_defs[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Edit distance of two names, given up above `most`. */
static unsigned distance(const char *a, const char *b, unsigned most)
{
    enum { NAME_MAX_SIZE = 128 };
    size_t n = strlen(a), m = strlen(b);
    unsigned row[NAME_MAX_SIZE];
    if (m >= NAME_MAX_SIZE || n > m + most || m > n + most)
        return most + 1;
    for (size_t j = 0; j <= m; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned corner = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

static const char *nearest_name(const char *name)
{
    const char *nearest = NULL;
    unsigned best = 4; /* further away is no help */
    for (size_t i = 0; i < broker_config_def_count; i++) {
        unsigned d = distance(name, broker_config_defs[i].name, best);
        if (d < best) {
            best = d;
            nearest = broker_config_defs[i].name;
        }
    }
    return nearest;
}

/* Names that Kafka takes by their beginning: of a listener, of a plugin. */
static bool is_open_name(const char *name)
{
    static const char *const prefixes[] = {"listener.name.",  "rlmm.config.",
                                           "rsm.config.",     "config.providers.",
                                           "sasl.mechanism.", "zookeeper.",
                                           "super.users",     "allow.everyone.if.no.acl.found"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

static int check_unknown(const char *name, bool strict, struct log log, cafka_error *err)
{
    const char *nearest = nearest_name(name);
    if (strict && !is_open_name(name))
        return error_set(err, CAFKA_ERR_CONFIG, "unknown broker property %s%s%s%s", name,
                         nearest ? ", did you mean " : "", nearest ? nearest : "",
                         nearest ? "?" : "");
    log_warn(log, "property %s is not known and has no effect here", name);
    return CAFKA_OK;
}

int properties_check(const struct properties *p, bool strict, struct log log, cafka_error *err)
{
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&p->values, &i));) {
        const struct config_def *def = broker_config_find(str_of(e->key));
        cafka_error why = {0};
        if (!def) {
            int rc = check_unknown(e->key, strict, log, err);
            if (rc)
                return rc;
        } else if (config_value_check(def, e->value, &why)) {
            return error_set(err, CAFKA_ERR_CONFIG, "%s", why.message);
        } else if (!def->used) {
            log_warn(log, "property %s has no effect here", e->key);
        }
    }
    return CAFKA_OK;
}

/* --- values --- */

const char *broker_config_from(const struct broker_config *c, enum config_source source,
                               const char *name)
{
    char id[16];
    const char *value;
    const struct config_def *def;
    switch (source) {
    case CONFIG_SOURCE_DYNAMIC_BROKER:
        snprintf(id, sizeof id, "%d", (int)c->broker_id);
        return c->image && c->broker_id >= 0
                   ? config_image_get(image_config(c->image, CONFIG_RESOURCE_BROKER, str_of(id)),
                                      name)
                   : NULL;
    case CONFIG_SOURCE_DYNAMIC_DEFAULT:
        return c->image
                   ? config_image_get(image_config(c->image, CONFIG_RESOURCE_BROKER, str_of("")),
                                      name)
                   : NULL;
    case CONFIG_SOURCE_STATIC:
        value = properties_get(&c->own, name);
        return value || !c->properties ? value : properties_get(c->properties, name);
    case CONFIG_SOURCE_DEFAULT:
        def = broker_config_find(str_of(name));
        return def ? def->fallback : NULL;
    default: return NULL;
    }
}

const char *broker_config_lookup(const struct broker_config *c, const char *name,
                                 enum config_source *source)
{
    for (enum config_source s = CONFIG_SOURCE_DYNAMIC_BROKER; s <= CONFIG_SOURCE_DEFAULT; s++) {
        const char *value = broker_config_from(c, s, name);
        if (value) {
            if (source)
                *source = s;
            return value;
        }
    }
    if (source)
        *source = CONFIG_SOURCE_DEFAULT;
    return NULL;
}

const char *broker_config_get(const struct broker_config *c, const char *name)
{
    return broker_config_lookup(c, name, NULL);
}

int64_t broker_config_long(const struct broker_config *c, const char *name)
{
    return config_value_long(broker_config_get(c, name));
}

bool broker_config_bool(const struct broker_config *c, const char *name)
{
    return config_value_bool(broker_config_get(c, name));
}

double broker_config_double(const struct broker_config *c, const char *name)
{
    return config_value_double(broker_config_get(c, name));
}

const char *config_fallback(const struct config_def *def, const struct broker_config *c,
                            enum config_source *source, int64_t *factor)
{
    for (int i = 0; c && i < CONFIG_SYNONYMS && def->synonyms[i].name; i++) {
        const char *value = broker_config_lookup(c, def->synonyms[i].name, source);
        if (value) {
            *factor = def->synonyms[i].factor;
            return value;
        }
    }
    *source = CONFIG_SOURCE_DEFAULT;
    *factor = 1;
    return def->fallback;
}
