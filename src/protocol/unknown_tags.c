/*
 * unknown_tags.c - the tags that no schema names, as a list beside a message's JSON. See codec.h.
 *
 * JSON of a message has no place for them, so they are listed with the path of the struct that
 * holds them: [{"path":"topics[0].partitions[2]","tag":5,"hex":"00ff"}].
 *
 * Reading: message_unknown_tags_to_json(), message_unknown_tags_from_json().
 */
#include <inttypes.h>
#include <string.h>

#include "protocol/json.h"
#include "protocol/tables.h"

/* --- to JSON --- */

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

/* --- from JSON --- */

/* "[12]" at the front of the path, which loses it. */
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
    const struct field *f = table_find_field(*t, take_name(path));
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

static bool add_tag(struct json *j, struct arena *arena, const struct table *t, char *item,
                    struct unknown_tag tag)
{
    const struct unknown_tags *old = unknown_tags_of(t, item);
    int32_t count = old ? old->count : 0;
    struct unknown_tags *tags =
        arena_alloc(arena, sizeof *tags + ((size_t)count + 1) * sizeof *tags->tags);
    if (!tags)
        return json_fail_memory(j);
    if (count)
        memcpy(tags->tags, old->tags, (size_t)count * sizeof *tags->tags);
    tags->tags[count] = tag;
    tags->count = count + 1;
    member_set_pointer(item + t->unknown_tags, tags);
    return true;
}

static bool parse_tag(struct json *j, struct arena *arena, const struct message *m, void *message)
{
    struct str key, path = str_of("");
    int64_t number = -1;
    struct unknown_tag tag = {0, {NULL, 0}};
    bool first = true;
    if (!json_take(j, '{'))
        return false;
    while (json_member(j, arena, &first, &key)) {
        bool ok = str_is(key, "path")  ? json_take_string(j, arena, &path)
                  : str_is(key, "tag") ? json_take_int(j, 0, UINT32_MAX, &number)
                  : str_is(key, "hex") ? json_take_hex(j, arena, &tag.payload)
                                       : json_fail(j, "only path, tag and hex are expected");
        if (!ok)
            return false;
    }
    if (j->problem)
        return false;
    if (number < 0 || !tag.payload.data)
        return json_fail(j, "a tag needs tag and hex");
    tag.tag = (uint32_t)number;
    const struct table *t = m->table;
    char *item = find_struct(&t, message, path);
    if (!item)
        return json_fail(j, "a path that leads to no struct with tags");
    return add_tag(j, arena, t, item, tag);
}

int message_unknown_tags_from_json(const struct message *m, int version, struct str json,
                                   struct arena *arena, void *inout, cafka_error *err)
{
    struct json j = json_of(json);
    bool first = true;
    if (json_take(&j, '['))
        while (json_element(&j, &first))
            if (!parse_tag(&j, arena, m, inout))
                break;
    if (json_end(&j))
        return CAFKA_OK;
    if (j.no_memory)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the unknown tags of %s", m->name);
    return error_set(err, CAFKA_ERR_ARGUMENT, "unknown tags of %s version %d: %s", m->name, version,
                     j.problem);
}
