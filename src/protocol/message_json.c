/*
 * message_json.c - messages to JSON and back, in the form of Kafka's JsonConverter classes.
 *
 * Keys are the names of the schema with a small first letter. Numbers are exact, bytes and records
 * base64, ids Kafka's 22 characters. A field that the version lacks is absent, and so is a tagged
 * one that holds its default. Records that are only referred to (`external`) show their size, as
 * "recordsSizeInBytes" does in Kafka's own request log.
 *
 * Reading: message_to_json(), message_from_json(). Unknown tags are beside them: unknown_tags.c.
 */
#include <inttypes.h>
#include <string.h>

#include "protocol/json.h"
#include "protocol/tables.h"

/* --- to JSON --- */

struct writer {
    struct buffer *out;
    int version;
};

static void put_item(struct writer *w, const struct table *t, const char *item);

static void put_number(struct buffer *out, const struct field *f, const char *value)
{
    switch (f->type) {
    case FIELD_BOOL:
        if (*(const bool *)value)
            buffer_put(out, "true", 4);
        else
            buffer_put(out, "false", 5);
        break;
    case FIELD_INT8: json_put_int(out, *(const int8_t *)value); break;
    case FIELD_INT16: json_put_int(out, *(const int16_t *)(const void *)value); break;
    case FIELD_UINT16: json_put_int(out, *(const uint16_t *)(const void *)value); break;
    case FIELD_INT32: json_put_int(out, *(const int32_t *)(const void *)value); break;
    case FIELD_UINT32: json_put_int(out, *(const uint32_t *)(const void *)value); break;
    case FIELD_INT64: json_put_int(out, *(const int64_t *)(const void *)value); break;
    default: json_put_double(out, *(const double *)(const void *)value); break;
    }
}

static void put_uuid(struct buffer *out, const char *value)
{
    struct uuid id;
    char text[UUID_TEXT_SIZE];
    memcpy(&id, value, sizeof id);
    uuid_text(id, text);
    buffer_printf(out, "\"%s\"", text);
}

static void put_view(struct writer *w, const struct field *f, const char *value)
{
    struct bytes view; /* struct str has the same shape, struct records begins like it */
    memcpy(&view, value, sizeof view);
    if (!view.data && field_nullable(f, w->version) && !(f->flags & FIELD_ARRAY))
        buffer_put(w->out, "null", 4);
    else if (f->type == FIELD_STRING)
        json_put_string(w->out, (struct str){(const char *)view.data, view.size});
    else
        json_put_base64(w->out, view);
}

static void put_value(struct writer *w, const struct field *f, const char *value)
{
    switch (f->type) {
    case FIELD_STRUCT: put_item(w, f->table, value); break;
    case FIELD_STRING:
    case FIELD_BYTES:
    case FIELD_RECORDS: put_view(w, f, value); break;
    case FIELD_UUID: put_uuid(w->out, value); break;
    default: put_number(w->out, f, value); break;
    }
}

static void put_array(struct writer *w, const struct field *f, const char *member)
{
    int32_t count = array_count(member);
    if (count < 0) {
        buffer_put(w->out, "null", 4);
        return;
    }
    const char *items = member_pointer(member);
    size_t size = field_value_size(f);
    buffer_put_u8(w->out, '[');
    for (int32_t i = 0; i < count; i++, items += size) {
        if (i)
            buffer_put_u8(w->out, ',');
        put_value(w, f, items);
    }
    buffer_put_u8(w->out, ']');
}

static void put_member(struct writer *w, const struct field *f, const char *member)
{
    if (f->flags & FIELD_ARRAY) {
        put_array(w, f, member);
    } else if (f->flags & FIELD_POINTER) {
        const char *item = member_pointer(member);
        if (item)
            put_item(w, f->table, item);
        else
            buffer_put(w->out, "null", 4);
    } else {
        put_value(w, f, member);
    }
}

static bool put_external(struct writer *w, const struct field *f, const char *member)
{
    struct records records;
    if (f->type != FIELD_RECORDS)
        return false;
    memcpy(&records, member, sizeof records);
    if (!records.external)
        return false;
    buffer_printf(w->out, "\"%sSizeInBytes\":%zu", f->name, records.size);
    return true;
}

static void put_item(struct writer *w, const struct table *t, const char *item)
{
    const char *between = "{";
    for (size_t i = 0; i < t->field_count; i++) {
        const struct field *f = &t->fields[i];
        const char *member = item + f->offset;
        if (!field_in(f, w->version) || (f->tag >= 0 && field_is_default(t, f, member)))
            continue;
        buffer_put(w->out, between, 1);
        between = ",";
        if (put_external(w, f, member))
            continue;
        buffer_put_u8(w->out, '"');
        buffer_put(w->out, f->name, strlen(f->name));
        buffer_put(w->out, "\":", 2);
        put_member(w, f, member);
    }
    buffer_put(w->out, "{}", *between == '{' ? 2 : 0);
    if (*between == ',')
        buffer_put_u8(w->out, '}');
}

int message_to_json(const struct message *m, int version, const void *in, struct buffer *out,
                    cafka_error *err)
{
    int rc = message_check_version(m, version, err);
    if (rc)
        return rc;
    struct writer w = {out, version};
    put_item(&w, m->table, in);
    return out->failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory for the JSON of %s", m->name)
                       : CAFKA_OK;
}

/* --- from JSON --- */

struct parser {
    struct json json;
    struct arena *arena;
    int version;
    const char *field; /* the last one that was begun: it names a problem */
};

static bool parse_item(struct parser *p, const struct table *t, char *item);

static void *allocate(struct parser *p, size_t count, size_t size)
{
    void *memory = arena_calloc(p->arena, count, size);
    if (!memory)
        (void)json_fail_memory(&p->json);
    return memory;
}

static bool parse_int(struct parser *p, int64_t low, int64_t high, char *value, size_t size)
{
    int64_t number;
    if (!json_take_int(&p->json, low, high, &number))
        return false;
    uint32_t four = (uint32_t)number;
    uint16_t two = (uint16_t)number;
    uint8_t one = (uint8_t)number;
    const void *from = size == 8   ? (void *)&number
                       : size == 4 ? (void *)&four
                       : size == 2 ? (void *)&two
                                   : &one;
    memcpy(value, from, size);
    return true;
}

static bool parse_string(struct parser *p, char *value)
{
    struct str text;
    if (!json_take_string(&p->json, p->arena, &text))
        return false;
    struct str copy = {arena_strndup(p->arena, text.data, text.size), text.size};
    if (!copy.data)
        return json_fail_memory(&p->json);
    memcpy(value, &copy, sizeof copy);
    return true;
}

static bool parse_bytes(struct parser *p, const struct field *f, char *value)
{
    struct bytes view;
    if (!json_take_base64(&p->json, p->arena, &view))
        return false;
    struct records records = {view.data, view.size, NULL};
    if (f->type == FIELD_RECORDS)
        memcpy(value, &records, sizeof records);
    else
        memcpy(value, &view, sizeof view);
    return true;
}

static bool parse_uuid(struct parser *p, char *value)
{
    struct str text;
    struct uuid id;
    if (!json_take_string(&p->json, p->arena, &text))
        return false;
    if (!uuid_parse(text.data, text.size, &id))
        return json_fail(&p->json, "22 characters of URL-safe base64 were expected");
    memcpy(value, &id, sizeof id);
    return true;
}

static bool parse_value(struct parser *p, const struct field *f, char *value)
{
    switch (f->type) {
    case FIELD_BOOL: return json_take_bool(&p->json, (bool *)value);
    case FIELD_INT8: return parse_int(p, INT8_MIN, INT8_MAX, value, 1);
    case FIELD_INT16: return parse_int(p, INT16_MIN, INT16_MAX, value, 2);
    case FIELD_UINT16: return parse_int(p, 0, UINT16_MAX, value, 2);
    case FIELD_INT32: return parse_int(p, INT32_MIN, INT32_MAX, value, 4);
    case FIELD_UINT32: return parse_int(p, 0, UINT32_MAX, value, 4);
    case FIELD_INT64: return parse_int(p, INT64_MIN, INT64_MAX, value, 8);
    case FIELD_FLOAT64: return json_take_double(&p->json, (double *)(void *)value);
    case FIELD_UUID: return parse_uuid(p, value);
    case FIELD_STRING: return parse_string(p, value);
    case FIELD_STRUCT:
        if (f->table->has_defaults)
            memcpy(value, f->table->defaults, f->table->size);
        return parse_item(p, f->table, value);
    default: return parse_bytes(p, f, value);
    }
}

static bool parse_array(struct parser *p, const struct field *f, char *member)
{
    size_t count;
    if (!json_count_elements(&p->json, &count) || count > INT32_MAX)
        return json_fail(&p->json, "an array was expected");
    size_t size = field_value_size(f);
    char *items = allocate(p, count, size);
    if (!items)
        return false;
    bool first = true;
    (void)json_take(&p->json, '[');
    for (size_t i = 0; json_element(&p->json, &first); i++)
        if (!parse_value(p, f, items + i * size))
            return false;
    array_set(member, items, (int32_t)count);
    return !p->json.problem;
}

static bool parse_null(struct parser *p, const struct field *f, char *member)
{
    bool may = field_in(f, p->version) ? field_nullable(f, p->version) : field_ever_nullable(f);
    if (!may)
        return json_fail(&p->json, "null, where a value must be");
    if (f->flags & FIELD_ARRAY)
        array_set(member, NULL, -1);
    else
        memset(member, 0, f->flags & FIELD_POINTER ? sizeof(void *) : field_value_size(f));
    return true;
}

static bool parse_member(struct parser *p, const struct field *f, char *member)
{
    p->field = f->name;
    if (json_take_null(&p->json))
        return parse_null(p, f, member);
    if (f->flags & FIELD_ARRAY)
        return parse_array(p, f, member);
    if (!(f->flags & FIELD_POINTER))
        return parse_value(p, f, member);
    char *item = allocate(p, 1, f->table->size);
    if (!item)
        return false;
    member_set_pointer(member, item);
    memcpy(item, f->table->defaults, f->table->size);
    return parse_item(p, f->table, item);
}

static bool parse_item(struct parser *p, const struct table *t, char *item)
{
    struct str key;
    bool first = true;
    if (!json_take(&p->json, '{'))
        return false;
    while (json_member(&p->json, p->arena, &first, &key)) {
        const struct field *f = table_find_field(t, key);
        if (!f) {
            p->field = arena_strndup(p->arena, key.data, key.size);
            return json_fail(&p->json, "no version of the message has such a field");
        }
        if (!parse_member(p, f, item + f->offset))
            return false;
    }
    return !p->json.problem;
}

static int parse_error(const struct message *m, int version, const struct parser *p,
                       cafka_error *err)
{
    if (p->json.no_memory)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to read the JSON of %s", m->name);
    return error_set(err, CAFKA_ERR_ARGUMENT, "JSON of %s version %d, %s: %s", m->name, version,
                     p->field ? p->field : "at its start", p->json.problem);
}

int message_from_json(const struct message *m, int version, struct str json, struct arena *arena,
                      void *out, cafka_error *err)
{
    int rc = message_check_version(m, version, err);
    if (rc)
        return rc;
    struct parser p = {json_of(json), arena, version, NULL};
    message_init(m, out);
    if (!parse_item(&p, m->table, out) || !json_end(&p.json))
        return parse_error(m, version, &p, err);
    return CAFKA_OK;
}
