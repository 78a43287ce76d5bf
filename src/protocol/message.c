/*
 * message.c - what needs no bytes: names, versions, defaults, comparison. See codec.h.
 */
#include <stdlib.h>
#include <string.h>

#include "protocol/tables.h"
#include "util/alloc.h"

const char *message_name(const struct message *m)
{
    return m->name;
}

int message_min_version(const struct message *m)
{
    return m->min_version;
}

int message_max_version(const struct message *m)
{
    return m->max_version;
}

bool message_is_flexible(const struct message *m, int version)
{
    return version >= m->flexible_from;
}

int message_check_version(const struct message *m, int version, cafka_error *err)
{
    if (version >= m->min_version && version <= m->max_version)
        return CAFKA_OK;
    return error_set(err, CAFKA_ERR_UNSUPPORTED, "%s has no version %d, only %d to %d", m->name,
                     version, m->min_version, m->max_version);
}

size_t message_struct_size(const struct message *m)
{
    return m->table->size;
}

void message_init(const struct message *m, void *out)
{
    memcpy(out, m->table->defaults, m->table->size);
}

void encoded_clear(struct encoded *e)
{
    buffer_clear(&e->bytes);
    e->splice_count = 0;
    e->spliced = 0;
}

void encoded_fini(struct encoded *e)
{
    buffer_fini(&e->bytes);
    mem_free(e->splices);
    *e = (struct encoded){0};
}

const struct field *table_find_field(const struct table *t, struct str name)
{
    for (size_t i = 0; i < t->field_count; i++)
        if (str_is(name, t->fields[i].name))
            return &t->fields[i];
    return NULL;
}

size_t field_value_size(const struct field *f)
{
    static const uint8_t sizes[FIELD_TYPES] = {
        [FIELD_BOOL] = sizeof(bool),
        [FIELD_INT8] = 1,
        [FIELD_INT16] = 2,
        [FIELD_UINT16] = 2,
        [FIELD_INT32] = 4,
        [FIELD_UINT32] = 4,
        [FIELD_INT64] = 8,
        [FIELD_FLOAT64] = sizeof(double),
        [FIELD_UUID] = sizeof(struct uuid),
        [FIELD_STRING] = sizeof(struct str),
        [FIELD_BYTES] = sizeof(struct bytes),
        [FIELD_RECORDS] = sizeof(struct records),
    };
    return f->type == FIELD_STRUCT ? f->table->size : sizes[f->type];
}

/*
 * How two values are compared: in one version only its fields count and a NULL string equals an
 * empty one where null is not legal; against a default (ALL_VERSIONS) everything counts.
 */
enum { ALL_VERSIONS = -1 };

static bool item_equal(const struct table *t, int version, const char *a, const char *b);

static bool view_equal(const void *a, const void *b, bool nullable)
{
    struct bytes x, y; /* struct str has the same shape */
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    if (!nullable && !x.size && !y.size)
        return true;
    return bytes_equal(x, y);
}

static bool records_equal(const void *a, const void *b, bool nullable)
{
    struct records x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    if (x.external || y.external)
        return x.external == y.external && x.size == y.size;
    return (!nullable && !x.size && !y.size) ||
           bytes_equal(bytes_of(x.data, x.size), bytes_of(y.data, y.size));
}

static bool value_equal(const struct field *f, int version, const char *a, const char *b)
{
    bool nullable = version == ALL_VERSIONS ? field_ever_nullable(f) : field_nullable(f, version);
    switch (f->type) {
    case FIELD_STRING:
    case FIELD_BYTES: return view_equal(a, b, nullable && !(f->flags & FIELD_ARRAY));
    case FIELD_RECORDS: return records_equal(a, b, nullable);
    case FIELD_STRUCT: return item_equal(f->table, version, a, b);
    default: return !memcmp(a, b, field_value_size(f));
    }
}

static bool array_equal(const struct field *f, int version, const char *a, const char *b)
{
    int32_t count = array_count(a);
    if (count != array_count(b))
        return false;
    const char *x = member_pointer(a), *y = member_pointer(b);
    size_t size = field_value_size(f);
    for (int32_t i = 0; i < count; i++, x += size, y += size)
        if (!value_equal(f, version, x, y))
            return false;
    return true;
}

static bool member_equal(const struct field *f, int version, const char *a, const char *b)
{
    if (f->flags & FIELD_ARRAY)
        return array_equal(f, version, a, b);
    if (!(f->flags & FIELD_POINTER))
        return value_equal(f, version, a, b);
    const char *x = member_pointer(a), *y = member_pointer(b);
    if (!x || !y)
        return x == y;
    return item_equal(f->table, version, x, y);
}

static bool unknown_tags_equal(const struct unknown_tags *a, const struct unknown_tags *b)
{
    int32_t count = a ? a->count : 0;
    if (count != (b ? b->count : 0))
        return false;
    for (int32_t i = 0; i < count; i++)
        if (a->tags[i].tag != b->tags[i].tag || a->tags[i].payload.size != b->tags[i].payload.size ||
            (a->tags[i].payload.size && memcmp(a->tags[i].payload.data, b->tags[i].payload.data,
                                               a->tags[i].payload.size) != 0))
            return false;
    return true;
}

static bool item_equal(const struct table *t, int version, const char *a, const char *b)
{
    for (size_t i = 0; i < t->field_count; i++) {
        const struct field *f = &t->fields[i];
        if (version != ALL_VERSIONS && !field_in(f, version))
            continue;
        if (!member_equal(f, version, a + f->offset, b + f->offset))
            return false;
    }
    return unknown_tags_equal(unknown_tags_of(t, a), unknown_tags_of(t, b));
}

bool message_equal(const struct message *m, int version, const void *a, const void *b)
{
    return item_equal(m->table, version, a, b);
}

bool field_is_default(const struct table *t, const struct field *f, const void *member)
{
    const char *normal = (const char *)t->defaults + f->offset;
    /* Mostly it is, to the last bit, whatever is inside. Equal bits are equal values. */
    if (f->type == FIELD_STRUCT && !(f->flags & (FIELD_ARRAY | FIELD_POINTER)) &&
        memcmp(member, normal, f->table->size) == 0)
        return true;
    return member_equal(f, ALL_VERSIONS, member, normal);
}
