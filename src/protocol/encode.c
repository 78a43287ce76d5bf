/*
 * encode.c - structs to bytes, by table. See codec.h.
 *
 * A field that the version lacks must hold its default, unless the schema calls it ignorable: the
 * meaning of a request must not get lost in silence. A tagged field that holds its default is not
 * written. Unknown tags take their place between the known ones.
 *
 * Reading: message_encode(), encode_item(), encode_member().
 */
#include <inttypes.h>
#include <string.h>

#include "protocol/tables.h"
#include "util/alloc.h"

struct encoder {
    struct encoded *out;
    cafka_error *err;
    int version;
    bool flexible;
    bool in_tag; /* the member being encoded is the payload of a tag */
    int rc;
};

static bool encode_item(struct encoder *e, const struct table *t, const uint8_t *item);

__attribute__((cold, noinline)) static bool fail(struct encoder *e, int code, const char *what)
{
    e->rc = error_set(e->err, code, ": %s", what);
    return false;
}

__attribute__((cold, noinline)) static bool fail_in(struct encoder *e, const char *name)
{
    error_prefix(e->err, "%s", name);
    return false;
}

__attribute__((cold, noinline)) static bool fail_at(struct encoder *e, const struct field *f,
                                                    int32_t index)
{
    error_prefix(e->err, "[%" PRId32 "]%s", index, f->type == FIELD_STRUCT ? "." : "");
    return false;
}

/* --- primitives; memory that fails is asked for once, at the end --- */

static inline uint8_t *extend(struct encoder *e, size_t size)
{
    struct buffer *b = &e->out->bytes;
    if (b->capacity - b->size < size || b->failed)
        return buffer_extend(b, size);
    uint8_t *place = b->data + b->size;
    b->size += size;
    return place;
}

static void put_uvarint(struct encoder *e, uint32_t value)
{
    uint8_t *place = extend(e, uvarint_size(value));
    if (place)
        uvarint_put(place, value);
}

enum { LENGTH_16 = 2, LENGTH_32 = 4 };

/* A length or count in either encoding; -1 is null. */
static void put_length(struct encoder *e, const struct field *f, int old_width, int32_t length)
{
    if (e->flexible && !(f->flags & FIELD_OLD_ENCODING)) {
        put_uvarint(e, (uint32_t)length + 1);
        return;
    }
    uint8_t *place = extend(e, (size_t)old_width);
    if (!place)
        return;
    if (old_width == LENGTH_16)
        store_be16(place, (uint16_t)length);
    else
        store_be32(place, (uint32_t)length);
}

static bool put_view(struct encoder *e, const struct field *f, int old_width, const void *data,
                     size_t size)
{
    if (!data && field_nullable(f, e->version) && !(f->flags & FIELD_ARRAY)) {
        put_length(e, f, old_width, -1);
        return true;
    }
    if (size > (f->type == FIELD_STRING ? INT16_MAX : INT32_MAX))
        return fail(e, CAFKA_ERR_TOO_LARGE, "longer than the protocol can say");
    if (!data)
        size = 0;
    put_length(e, f, old_width, (int32_t)size);
    uint8_t *place = extend(e, size);
    if (place && size)
        memcpy(place, data, size);
    return true;
}

static bool note_splice(struct encoder *e, const struct records *records)
{
    struct encoded *out = e->out;
    if (out->splice_count == out->splice_capacity) {
        size_t capacity = out->splice_capacity ? 2 * out->splice_capacity : 16;
        struct splice *splices = mem_recalloc(out->splices, capacity, sizeof *splices);
        if (!splices)
            return fail(e, CAFKA_ERR_MEMORY, "no memory for a splice");
        out->splices = splices;
        out->splice_capacity = capacity;
    }
    out->splices[out->splice_count++] =
        (struct splice){out->bytes.size, records->size, records->external};
    out->spliced += records->size;
    return true;
}

static bool put_records(struct encoder *e, const struct field *f, const uint8_t *member)
{
    struct records records;
    memcpy(&records, member, sizeof records);
    if (!records.external)
        return put_view(e, f, LENGTH_32, records.data, records.size);
    if (records.size > INT32_MAX)
        return fail(e, CAFKA_ERR_TOO_LARGE, "longer than the protocol can say");
    put_length(e, f, LENGTH_32, (int32_t)records.size);
    return note_splice(e, &records);
}

/* One value that is no struct. */
static bool put_scalar(struct encoder *e, const struct field *f, const uint8_t *value)
{
    struct bytes view;
    uint8_t *place;
    switch (f->type) {
    case FIELD_STRING:
    case FIELD_BYTES:
        memcpy(&view, value, sizeof view); /* struct str has the same shape */
        return put_view(e, f, f->type == FIELD_STRING ? LENGTH_16 : LENGTH_32, view.data, view.size);
    case FIELD_RECORDS: return put_records(e, f, value);
    case FIELD_BOOL:
    case FIELD_INT8:
        if ((place = extend(e, 1)))
            *place = *value;
        return true;
    case FIELD_INT16:
    case FIELD_UINT16: {
        uint16_t number;
        memcpy(&number, value, 2);
        if ((place = extend(e, 2)))
            store_be16(place, number);
        return true;
    }
    case FIELD_INT32:
    case FIELD_UINT32: {
        uint32_t number;
        memcpy(&number, value, 4);
        if ((place = extend(e, 4)))
            store_be32(place, number);
        return true;
    }
    case FIELD_INT64:
    case FIELD_FLOAT64: {
        uint64_t number;
        memcpy(&number, value, 8);
        if ((place = extend(e, 8)))
            store_be64(place, number);
        return true;
    }
    default:
        if ((place = extend(e, 16)))
            memcpy(place, value, 16);
        return true;
    }
}

/* --- arrays and structs --- */

static bool encode_array(struct encoder *e, const struct field *f, const uint8_t *member)
{
    int32_t count = array_count(member);
    if (count < 0) {
        if (!field_nullable(f, e->version))
            return fail(e, CAFKA_ERR_ARGUMENT, "null, where an array must be");
        put_length(e, f, LENGTH_32, -1);
        return true;
    }
    put_length(e, f, LENGTH_32, count);
    const uint8_t *items = member_pointer(member);
    size_t size = field_value_size(f);
    for (int32_t i = 0; i < count; i++, items += size)
        if (!(f->type == FIELD_STRUCT ? encode_item(e, f->table, items) : put_scalar(e, f, items)))
            return fail_at(e, f, i);
    return true;
}

static bool encode_pointer(struct encoder *e, const struct field *f, const uint8_t *member)
{
    const uint8_t *item = member_pointer(member);
    bool in_tag = e->in_tag;
    e->in_tag = false;
    if (field_nullable(f, e->version)) {
        uint8_t *place = extend(e, 1);
        if (place)
            *place = item ? 1 : in_tag ? 0 : UINT8_MAX;
    } else if (!item) {
        return fail(e, CAFKA_ERR_ARGUMENT, "null, where a struct must be");
    }
    return !item || encode_item(e, f->table, item) || fail_in(e, ".");
}

static bool encode_member(struct encoder *e, const struct field *f, const uint8_t *member)
{
    if (f->flags & FIELD_ARRAY)
        return encode_array(e, f, member);
    if (f->flags & FIELD_POINTER)
        return encode_pointer(e, f, member);
    if (f->type == FIELD_STRUCT)
        return encode_item(e, f->table, member) || fail_in(e, ".");
    return put_scalar(e, f, member);
}

/* --- tags --- */

/* The size stands before the payload, and is known behind it: most fit the one byte kept free. */
static void put_size_before(struct encoder *e, size_t payload)
{
    struct buffer *b = &e->out->bytes;
    if (b->failed)
        return;
    size_t size = b->size - payload, width = uvarint_size(size);
    if (width > 1) {
        if (!buffer_extend(b, width - 1))
            return;
        memmove(b->data + payload + width - 1, b->data + payload, size);
    }
    uvarint_put(b->data + payload - 1, size);
}

static bool put_tagged(struct encoder *e, const struct field *f, const uint8_t *member)
{
    put_uvarint(e, (uint32_t)f->tag);
    (void)extend(e, 1);
    size_t payload = e->out->bytes.size;
    e->in_tag = true;
    bool ok = encode_member(e, f, member);
    e->in_tag = false;
    if (!ok)
        return fail_in(e, f->name);
    put_size_before(e, payload);
    return true;
}

static void put_unknown(struct encoder *e, const struct unknown_tag *unknown)
{
    put_uvarint(e, unknown->tag);
    put_uvarint(e, (uint32_t)unknown->payload.size);
    uint8_t *place = extend(e, unknown->payload.size);
    if (place && unknown->payload.size)
        memcpy(place, unknown->payload.data, unknown->payload.size);
}

/* Which of the tagged fields are written, a bit each (the generator allows at most 32). */
static uint32_t find_sent(const struct encoder *e, const struct table *t, const uint8_t *item)
{
    uint32_t sent = 0;
    for (size_t i = 0; i < t->tagged_count; i++) {
        const struct field *f = &t->fields[t->tagged[i]];
        if (field_in(f, e->version) && !field_is_default(t, f, item + f->offset))
            sent |= 1u << i;
    }
    return sent;
}

/* Unknown tags must ascend and must not be those of a known field. */
static bool check_unknown(struct encoder *e, const struct table *t,
                          const struct unknown_tags *unknown)
{
    for (int32_t i = 0; i < unknown->count; i++) {
        if (i && unknown->tags[i].tag <= unknown->tags[i - 1].tag)
            return fail(e, CAFKA_ERR_ARGUMENT, "unknown tags that do not ascend");
        if (unknown->tags[i].payload.size > INT32_MAX)
            return fail(e, CAFKA_ERR_TOO_LARGE,
                        "an unknown tag is longer than the protocol can say");
        for (size_t k = 0; k < t->tagged_count; k++) {
            const struct field *f = &t->fields[t->tagged[k]];
            if ((uint32_t)f->tag == unknown->tags[i].tag && field_in(f, e->version))
                return fail(e, CAFKA_ERR_ARGUMENT, "an unknown tag has the number of a known one");
        }
    }
    return true;
}

static bool encode_tags(struct encoder *e, const struct table *t, const uint8_t *item)
{
    const struct unknown_tags *unknown = unknown_tags_of(t, item);
    if (unknown && !check_unknown(e, t, unknown))
        return false;
    uint32_t sent = find_sent(e, t, item);
    int32_t next = 0, unknown_count = unknown ? unknown->count : 0;
    put_uvarint(e, (uint32_t)__builtin_popcount(sent) + (uint32_t)unknown_count);
    for (; sent; sent &= sent - 1) {
        const struct field *f = &t->fields[t->tagged[__builtin_ctz(sent)]];
        while (next < unknown_count && unknown->tags[next].tag < (uint32_t)f->tag)
            put_unknown(e, &unknown->tags[next++]);
        if (!put_tagged(e, f, item + f->offset))
            return false;
    }
    while (next < unknown_count)
        put_unknown(e, &unknown->tags[next++]);
    return true;
}

/* --- the whole --- */

static bool encode_item(struct encoder *e, const struct table *t, const uint8_t *item)
{
    const struct field *f = t->fields;
    for (const struct field *end = f + t->field_count; f < end; f++) {
        const uint8_t *member = item + f->offset;
        if (!field_in(f, e->version)) {
            if (!(f->flags & FIELD_IGNORABLE) && !field_is_default(t, f, member)) {
                (void)fail(e, CAFKA_ERR_UNSUPPORTED,
                           "the version has no such field, and its value matters");
                return fail_in(e, f->name);
            }
        } else if (f->tag < 0 && !encode_member(e, f, member)) {
            return fail_in(e, f->name);
        }
    }
    if (e->flexible)
        return encode_tags(e, t, item);
    if (unknown_tags_of(t, item))
        return fail(e, CAFKA_ERR_UNSUPPORTED, "the version has no tags, but some are set");
    return true;
}

int message_encode(const struct message *m, int version, const void *in, struct encoded *out,
                   cafka_error *err)
{
    int rc = message_check_version(m, version, err);
    if (rc)
        return rc;
    cafka_error failure = {0}; /* the path is put in front of it, which the caller's may not bear */
    struct encoder e = {
        .out = out,
        .err = &failure,
        .version = version,
        .flexible = message_is_flexible(m, version),
    };
    size_t size = out->bytes.size, splices = out->splice_count, spliced = out->spliced;
    if (encode_item(&e, m->table, in) && out->bytes.failed)
        (void)fail(&e, CAFKA_ERR_MEMORY, "no memory");
    if (!e.rc)
        return CAFKA_OK;
    out->bytes.size = size;
    out->splice_count = splices;
    out->spliced = spliced;
    const char *text = failure.message;
    return error_set(err, e.rc, "%s version %d: %s", m->name, version,
                     text[0] == ':' ? text + 2 : text);
}
