/*
 * decode.c - bytes to structs, by table. See codec.h.
 *
 * Nothing is trusted: each length is compared with the bytes that are left before anything is
 * allocated or touched, an array's count with the fewest bytes that its elements take, and the
 * arena is limited to a multiple of the input, so that a small frame can't become a large message.
 * Depth is that of the schema. The success path formats nothing; a failure is described at the leaf
 * and its path is put in front on the way out ("topics[0].partitions[2].records: …").
 *
 * Where Java is lenient so are we: any negative old-style length of a nullable field reads as
 * null, any non-zero byte as true. Where it would misread we refuse: a tagged field that is not
 * as long as it says, and tags that do not ascend.
 *
 * Reading: message_decode(), decode_item(), decode_member().
 */
#include <inttypes.h>
#include <string.h>

#include "protocol/tables.h"

enum { MEMORY_FACTOR = 16, MEMORY_SLACK = 1 << 20 };

struct decoder {
    const uint8_t *at, *end;
    struct arena *arena;
    cafka_error *err;
    int version;
    bool flexible;
    bool in_tag; /* the member being decoded is the payload of a tag */
    int rc;      /* the failure, once there is one */
};

static bool decode_item(struct decoder *d, const struct table *t, uint8_t *item);

static size_t left(const struct decoder *d)
{
    return (size_t)(d->end - d->at);
}

/* --- failures --- */

__attribute__((cold, noinline)) static bool fail_short(struct decoder *d, uint64_t need)
{
    d->rc = error_set(d->err, CAFKA_ERR_PROTOCOL, ": %" PRIu64 " bytes are needed, %zu are left",
                      need, left(d));
    return false;
}

__attribute__((cold, noinline)) static bool fail(struct decoder *d, const char *what)
{
    d->rc = error_set(d->err, CAFKA_ERR_PROTOCOL, ": %s", what);
    return false;
}

__attribute__((cold, noinline)) static bool fail_memory(struct decoder *d, size_t size)
{
    const struct arena *a = d->arena;
    if (a->limit && (size > a->limit || a->used > a->limit - size))
        d->rc = error_set(d->err, CAFKA_ERR_PROTOCOL,
                          ": decoded it would take more than %d times its bytes", MEMORY_FACTOR);
    else
        d->rc = error_set(d->err, CAFKA_ERR_MEMORY, ": no memory");
    return false;
}

__attribute__((cold, noinline)) static bool fail_in(struct decoder *d, const char *name)
{
    error_prefix(d->err, "%s", name);
    return false;
}

__attribute__((cold, noinline)) static bool fail_at(struct decoder *d, const struct field *f,
                                                    int32_t index)
{
    error_prefix(d->err, "[%" PRId32 "]%s", index, f->type == FIELD_STRUCT ? "." : "");
    return false;
}

/* --- lengths --- */

static bool take_uvarint(struct decoder *d, uint32_t *out)
{
    if (d->at < d->end && *d->at < 0x80) {
        *out = *d->at++;
        return true;
    }
    uint64_t value;
    const uint8_t *after = uvarint_get(d->at, d->end, 5, &value);
    if (!after)
        return fail(d, "a varint ends early or is too long");
    d->at = after;
    *out = (uint32_t)value;
    return true;
}

enum { LENGTH_16 = 2, LENGTH_32 = 4 };

/* A length or count in either encoding; negative is null. */
static bool take_length(struct decoder *d, const struct field *f, int old_width, int32_t *out)
{
    if (d->flexible && !(f->flags & FIELD_OLD_ENCODING)) {
        uint32_t value;
        if (!take_uvarint(d, &value))
            return false;
        *out = (int32_t)(value - 1);
        return true;
    }
    if (left(d) < (size_t)old_width)
        return fail_short(d, (uint64_t)old_width);
    *out = old_width == LENGTH_16 ? (int16_t)load_be16(d->at) : (int32_t)load_be32(d->at);
    d->at += old_width;
    return true;
}

/* The bytes of a string, bytes or records field; null is {NULL, 0}. */
static bool take_view(struct decoder *d, const struct field *f, int old_width, struct bytes *out)
{
    int32_t size = 0;
    if (!take_length(d, f, old_width, &size))
        return false;
    if (size < 0) {
        if (!field_nullable(f, d->version) || (f->flags & FIELD_ARRAY))
            return fail(d, "null, where a value must be");
        *out = (struct bytes){NULL, 0};
        return true;
    }
    if (left(d) < (size_t)size)
        return fail_short(d, (uint64_t)size);
    *out = bytes_of(d->at, (size_t)size);
    d->at += size;
    return true;
}

/* --- values --- */

static bool take_string(struct decoder *d, const struct field *f, uint8_t *out)
{
    struct bytes view;
    if (!take_view(d, f, LENGTH_16, &view))
        return false;
    if (view.size > INT16_MAX)
        return fail(d, "a string of more than 32767 bytes");
    struct str text = {(const char *)view.data, view.size};
    memcpy(out, &text, sizeof text);
    return true;
}

static bool take_records(struct decoder *d, const struct field *f, uint8_t *out)
{
    struct bytes view;
    if (!take_view(d, f, LENGTH_32, &view))
        return false;
    struct records records = {view.data, view.size, NULL};
    memcpy(out, &records, sizeof records);
    return true;
}

static bool take_bytes(struct decoder *d, const struct field *f, uint8_t *out)
{
    struct bytes view;
    if (!take_view(d, f, LENGTH_32, &view))
        return false;
    memcpy(out, &view, sizeof view);
    return true;
}

/* One value that is no struct. */
static bool take_scalar(struct decoder *d, const struct field *f, uint8_t *out)
{
    switch (f->type) {
    case FIELD_BOOL:
    case FIELD_INT8:
        if (left(d) < 1)
            return fail_short(d, 1);
        *out = f->type == FIELD_BOOL ? *d->at != 0 : *d->at;
        d->at += 1;
        return true;
    case FIELD_INT16:
    case FIELD_UINT16: {
        if (left(d) < 2)
            return fail_short(d, 2);
        uint16_t value = load_be16(d->at);
        memcpy(out, &value, 2);
        d->at += 2;
        return true;
    }
    case FIELD_INT32:
    case FIELD_UINT32: {
        if (left(d) < 4)
            return fail_short(d, 4);
        uint32_t value = load_be32(d->at);
        memcpy(out, &value, 4);
        d->at += 4;
        return true;
    }
    case FIELD_INT64:
    case FIELD_FLOAT64: {
        if (left(d) < 8)
            return fail_short(d, 8);
        uint64_t value = load_be64(d->at);
        memcpy(out, &value, 8);
        d->at += 8;
        return true;
    }
    case FIELD_UUID:
        if (left(d) < 16)
            return fail_short(d, 16);
        memcpy(out, d->at, 16);
        d->at += 16;
        return true;
    case FIELD_STRING: return take_string(d, f, out);
    case FIELD_BYTES: return take_bytes(d, f, out);
    default: return take_records(d, f, out);
    }
}

static void *allocate(struct decoder *d, size_t count, size_t size)
{
    void *memory = arena_calloc(d->arena, count, size);
    if (!memory)
        (void)fail_memory(d, size ? count * size : 0);
    return memory;
}

/* --- arrays and structs --- */

/* The fewest bytes that one element takes on the wire. */
static size_t element_min_size(const struct decoder *d, const struct field *f)
{
    static const uint8_t fixed[FIELD_TYPES] = {
        [FIELD_BOOL] = 1,   [FIELD_INT8] = 1,    [FIELD_INT16] = 2,
        [FIELD_UINT16] = 2, [FIELD_INT32] = 4,   [FIELD_UINT32] = 4,
        [FIELD_INT64] = 8,  [FIELD_FLOAT64] = 8, [FIELD_UUID] = 16,
    };
    const struct table *t = f->table;
    if (f->type == FIELD_STRUCT)
        return t->min_sizes ? t->min_sizes[d->version - t->first_version] : t->min_size;
    if (fixed[f->type])
        return fixed[f->type];
    return d->flexible ? 1 : f->type == FIELD_STRING ? LENGTH_16 : LENGTH_32;
}

static bool decode_structs(struct decoder *d, const struct field *f, uint8_t *items, int32_t count)
{
    const struct table *t = f->table;
    for (int32_t i = 0; i < count; i++, items += t->size) {
        if (t->has_defaults)
            memcpy(items, t->defaults, t->size);
        if (!decode_item(d, t, items))
            return fail_at(d, f, i);
    }
    return true;
}

static bool decode_scalars(struct decoder *d, const struct field *f, uint8_t *items, int32_t count)
{
    size_t size = field_value_size(f);
    for (int32_t i = 0; i < count; i++, items += size)
        if (!take_scalar(d, f, items))
            return fail_at(d, f, i);
    return true;
}

static bool decode_array(struct decoder *d, const struct field *f, uint8_t *member)
{
    int32_t count = 0;
    if (!take_length(d, f, LENGTH_32, &count))
        return false;
    if (count <= 0) {
        if (count < 0 && !field_nullable(f, d->version))
            return fail(d, "null, where an array must be");
        array_set(member, NULL, count < 0 ? -1 : 0);
        return true;
    }
    size_t min_size = element_min_size(d, f);
    if ((uint64_t)count * min_size > left(d))
        return fail_short(d, (uint64_t)count * min_size);
    uint8_t *items = allocate(d, (size_t)count, field_value_size(f));
    if (!items)
        return false;
    array_set(member, items, count);
    return f->type == FIELD_STRUCT ? decode_structs(d, f, items, count)
                                   : decode_scalars(d, f, items, count);
}

/* What stands before a nullable struct: a signed byte, or in a tag an unsigned varint. */
static bool take_presence(struct decoder *d, bool in_tag, bool *present)
{
    if (in_tag) {
        uint32_t marker;
        if (!take_uvarint(d, &marker))
            return false;
        *present = marker != 0;
        return true;
    }
    if (left(d) < 1)
        return fail_short(d, 1);
    *present = (int8_t)*d->at++ >= 0;
    return true;
}

static bool decode_pointer(struct decoder *d, const struct field *f, uint8_t *member)
{
    const struct table *t = f->table;
    bool present = true, in_tag = d->in_tag;
    d->in_tag = false;
    if (field_nullable(f, d->version) && !take_presence(d, in_tag, &present))
        return false;
    uint8_t *item = NULL;
    if (present && !(item = allocate(d, 1, t->size)))
        return false;
    member_set_pointer(member, item);
    if (!item)
        return true;
    memcpy(item, t->defaults, t->size);
    return decode_item(d, t, item) || fail_in(d, ".");
}

static bool decode_member(struct decoder *d, const struct field *f, uint8_t *member)
{
    if (f->flags & FIELD_ARRAY)
        return decode_array(d, f, member);
    if (f->flags & FIELD_POINTER)
        return decode_pointer(d, f, member);
    if (f->type == FIELD_STRUCT)
        return decode_item(d, f->table, member) || fail_in(d, ".");
    return take_scalar(d, f, member);
}

/* --- tags --- */

static const struct field *find_tagged(const struct table *t, int version, uint32_t tag)
{
    for (size_t i = 0; i < t->tagged_count; i++) {
        const struct field *f = &t->fields[t->tagged[i]];
        if ((uint32_t)f->tag == tag)
            return field_in(f, version) ? f : NULL;
    }
    return NULL;
}

static bool decode_tagged(struct decoder *d, const struct field *f, uint8_t *member, uint32_t size)
{
    const uint8_t *end = d->end;
    d->end = d->at + size;
    d->in_tag = true;
    bool ok = decode_member(d, f, member);
    d->in_tag = false;
    if (ok && d->at != d->end)
        ok = fail(d, "the tagged field is longer than its content");
    d->end = end;
    return ok || fail_in(d, f->name);
}

/* `room` tags are still to come, so many could be unknown. */
static bool keep_unknown(struct decoder *d, struct unknown_tags **kept, uint32_t room,
                         struct unknown_tag unknown)
{
    if (!*kept && !(*kept = allocate(d, 1, sizeof **kept + room * sizeof *(*kept)->tags)))
        return false;
    (*kept)->tags[(*kept)->count++] = unknown;
    return true;
}

static bool decode_tags(struct decoder *d, const struct table *t, uint8_t *item)
{
    uint32_t count, tag, size, previous = 0;
    struct unknown_tags *unknown = NULL;
    if (!take_uvarint(d, &count))
        return false;
    if (count > left(d) / 2)
        return fail_short(d, 2 * (uint64_t)count);
    for (uint32_t i = 0; i < count; i++) {
        if (!take_uvarint(d, &tag) || !take_uvarint(d, &size))
            return false;
        if (size > left(d))
            return fail_short(d, size);
        if (i && tag <= previous)
            return fail(d, "tags that do not ascend");
        previous = tag;
        const struct field *f = find_tagged(t, d->version, tag);
        if (f) {
            if (!decode_tagged(d, f, item + f->offset, size))
                return false;
            continue;
        }
        struct unknown_tag skipped = {tag, bytes_of(d->at, size)};
        if (!keep_unknown(d, &unknown, count - i, skipped))
            return false;
        d->at += size;
    }
    member_set_pointer(item + t->unknown_tags, unknown);
    return true;
}

/* --- the whole --- */

static bool decode_item(struct decoder *d, const struct table *t, uint8_t *item)
{
    const struct field *f = t->fields;
    for (const struct field *end = f + t->field_count; f < end; f++) {
        if (!field_in(f, d->version) || f->tag >= 0)
            continue;
        if (!decode_member(d, f, item + f->offset))
            return fail_in(d, f->name);
    }
    if (!d->flexible)
        return true;
    if (d->at < d->end && *d->at == 0) { /* nearly always: no tags */
        d->at++;
        return true;
    }
    return decode_tags(d, t, item);
}

/* The arena's limit for this message; 0 if it need not change. */
static size_t memory_limit(const struct arena *arena, size_t frame_size)
{
    size_t most =
        frame_size > (SIZE_MAX >> 8) / MEMORY_FACTOR ? SIZE_MAX >> 8 : frame_size * MEMORY_FACTOR;
    size_t limit = arena->used + most + MEMORY_SLACK;
    return arena->limit && arena->limit < limit ? arena->limit : limit;
}

int message_decode(const struct message *m, int version, struct bytes bytes, struct arena *arena,
                   void *out, size_t *used, cafka_error *err)
{
    int rc = message_check_version(m, version, err);
    if (rc)
        return rc;
    cafka_error failure = {0}; /* the path is put in front of it, which the caller's may not bear */
    const uint8_t *start = bytes.size ? bytes.data : (const uint8_t *)""; /* empty may be NULL */
    struct decoder d = {
        .at = start,
        .end = start + bytes.size,
        .arena = arena,
        .err = &failure,
        .version = version,
        .flexible = message_is_flexible(m, version),
    };
    size_t limit = arena->limit;
    arena->limit = memory_limit(arena, bytes.size);
    message_init(m, out);
    bool ok = decode_item(&d, m->table, out);
    if (ok && !used && d.at != d.end)
        ok = fail(&d, "bytes are left over");
    arena->limit = limit;
    if (!ok) {
        const char *text = failure.message;
        return error_set(err, d.rc, "%s version %d: %s", m->name, version,
                         text[0] == ':' ? text + 2 : text);
    }
    if (used)
        *used = (size_t)(d.at - start);
    return CAFKA_OK;
}
