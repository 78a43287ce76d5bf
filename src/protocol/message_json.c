/*
 * message_json.c - messages to JSON and back, in the form of Kafka's JsonConverter classes.
 *
 * Keys are the names of the schema with a small first letter. Numbers are exact, bytes and records
 * base64, ids Kafka's 22 characters. A field that the version lacks is absent, and so is a tagged
 * one that holds its default. Records that are only referred to (`external`) show their size, as
 * "recordsSizeInBytes" does in Kafka's own request log.
 *
 * Reading: message_to_json(), message_from_json(); the unknown tags beside them at the end.
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

static const struct field *find_field(const struct table *t, struct str key)
{
    for (size_t i = 0; i < t->field_count; i++)
        if (str_is(key, t->fields[i].name))
            return &t->fields[i];
    return NULL;
}

static bool parse_item(struct parser *p, const struct table *t, char *item)
{
    struct str key;
    bool first = true;
    if (!json_take(&p->json, '{'))
        return false;
    while (json_member(&p->json, p->arena, &first, &key)) {
        const struct field *f = find_field(t, key);
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

/* --- unknown tags to JSON --- */

struct tag_writer {
    struct buffer *out;
    struct buffer path;
    int version;
    bool any;
};

static void put_tags_of(struct tag_writer *w, const struct table *t, const char *item);

static void put_own_tags(struct tag_writer *w, const struct unknown_tags *tags)
{
    for (int32_t i = 0; tags && i < tags->count; i++) {
        buffer_put_u8(w->out, w->any ? ',' : '[');
        buffer_printf(w->out, "{\"path\":\"%.*s\",\"tag\":%" PRIu32 ",\"hex\":", (int)w->path.size,
                      w->path.data ? (const char *)w->path.data : "", tags->tags[i].tag);
        json_put_hex(w->out, tags->tags[i].payload);
        buffer_put_u8(w->out, '}');
        w->any = true;
    }
}

static void put_tags_of_array(struct tag_writer *w, const struct field *f, const char *member)
{
    size_t length = w->path.size;
    const char *items = member_pointer(member);
    for (int32_t i = 0; i < array_count(member); i++, items += f->table->size) {
        buffer_printf(&w->path, "[%" PRId32 "]", i);
        put_tags_of(w, f->table, items);
        w->path.size = length;
    }
}

static void put_tags_of_member(struct tag_writer *w, const struct field *f, const char *member)
{
    size_t length = w->path.size;
    buffer_printf(&w->path, "%s%s", length ? "." : "", f->name);
    if (f->flags & FIELD_ARRAY)
        put_tags_of_array(w, f, member);
    else if (!(f->flags & FIELD_POINTER))
        put_tags_of(w, f->table, member);
    else if (member_pointer(member))
        put_tags_of(w, f->table, member_pointer(member));
    w->path.size = length;
}

/* The struct's own, those of its fields, those of its tagged fields. */
static void put_tags_of(struct tag_writer *w, const struct table *t, const char *item)
{
    put_own_tags(w, unknown_tags_of(t, item));
    for (int tagged = 0; tagged <= 1; tagged++)
        for (size_t i = 0; i < t->field_count; i++) {
            const struct field *f = &t->fields[i];
            if (f->type == FIELD_STRUCT && field_in(f, w->version) && (f->tag >= 0) == tagged)
                put_tags_of_member(w, f, item + f->offset);
        }
}

int message_unknown_tags_to_json(const struct message *m, int version, const void *in,
                                 struct buffer *out, cafka_error *err)
{
    int rc = message_check_version(m, version, err);
    if (rc)
        return rc;
    struct tag_writer w = {out, {0}, version, false};
    put_tags_of(&w, m->table, in);
    if (w.any)
        buffer_put_u8(out, ']');
    bool failed = out->failed || w.path.failed;
    buffer_fini(&w.path);
    return failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory for the tags of %s", m->name)
                  : CAFKA_OK;
}

/* --- unknown tags from JSON --- */

static bool take_index(struct str *path, size_t *index)
{
    size_t i = 1;
    *index = 0;
    if (path->size < 3 || path->data[0] != '[')
        return false;
    for (; i < path->size && path->data[i] >= '0' && path->data[i] <= '9' && i < 11; i++)
        *index = 10 * *index + (size_t)(path->data[i] - '0');
    if (i == 1 || i >= path->size || path->data[i] != ']')
        return false;
    *path = (struct str){path->data + i + 1, path->size - i - 1};
    return true;
}

static struct str take_name(struct str *path)
{
    size_t length = 0;
    while (length < path->size && path->data[length] != '.' && path->data[length] != '[')
        length++;
    struct str name = {path->data, length};
    *path = (struct str){path->data + length, path->size - length};
    return name;
}

/* One step down: the struct that the first name of the path stands for, or NULL. */
static char *step_down(const struct table **t, char *item, struct str *path)
{
    const struct field *f = find_field(*t, take_name(path));
    size_t index;
    if (!f || f->type != FIELD_STRUCT)
        return NULL;
    char *member = item + f->offset;
    if (f->flags & FIELD_ARRAY) {
        if (!take_index(path, &index) || (int64_t)index >= array_count(member))
            return NULL;
        member = (char *)member_pointer(member) + index * f->table->size;
    } else if (f->flags & FIELD_POINTER) {
        member = member_pointer(member);
    }
    *t = f->table;
    return member;
}

static char *find_struct(const struct table **t, char *item, struct str path)
{
    while (item && path.size) {
        item = step_down(t, item, &path);
        if (item && path.size) {
            if (path.data[0] != '.' || path.size == 1)
                return NULL;
            path = (struct str){path.data + 1, path.size - 1};
        }
    }
    return item && (*t)->unknown_tags != NO_UNKNOWN_TAGS ? item : NULL;
}

static bool add_tag(struct parser *p, const struct table *t, char *item, struct unknown_tag tag)
{
    const struct unknown_tags *old = unknown_tags_of(t, item);
    int32_t count = old ? old->count : 0;
    struct unknown_tags *tags =
        allocate(p, 1, sizeof *tags + (size_t)(count + 1) * sizeof *tags->tags);
    if (!tags)
        return false;
    if (count)
        memcpy(tags->tags, old->tags, (size_t)count * sizeof *tags->tags);
    tags->tags[count] = tag;
    tags->count = count + 1;
    member_set_pointer(item + t->unknown_tags, tags);
    return true;
}

static bool parse_tag(struct parser *p, const struct message *m, void *message)
{
    struct str key, path = str_of("");
    int64_t number = -1;
    struct unknown_tag tag = {0, {NULL, 0}};
    bool first = true;
    if (!json_take(&p->json, '{'))
        return false;
    while (json_member(&p->json, p->arena, &first, &key)) {
        bool ok = str_is(key, "path")  ? json_take_string(&p->json, p->arena, &path)
                  : str_is(key, "tag") ? json_take_int(&p->json, 0, UINT32_MAX, &number)
                  : str_is(key, "hex") ? json_take_hex(&p->json, p->arena, &tag.payload)
                                       : json_fail(&p->json, "only path, tag and hex are expected");
        if (!ok)
            return false;
    }
    if (p->json.problem)
        return false;
    if (number < 0 || !tag.payload.data)
        return json_fail(&p->json, "a tag needs tag and hex");
    tag.tag = (uint32_t)number;
    const struct table *t = m->table;
    char *item = find_struct(&t, message, path);
    return item ? add_tag(p, t, item, tag)
                : json_fail(&p->json, "a path that leads to no struct with tags");
}

int message_unknown_tags_from_json(const struct message *m, int version, struct str json,
                                   struct arena *arena, void *inout, cafka_error *err)
{
    struct parser p = {json_of(json), arena, version, "unknownTags"};
    bool first = true;
    if (json_take(&p.json, '['))
        while (json_element(&p.json, &first))
            if (!parse_tag(&p, m, inout))
                break;
    if (!json_end(&p.json))
        return parse_error(m, version, &p, err);
    return CAFKA_OK;
}
