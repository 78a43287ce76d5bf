/*
 * random.c - a random valid message, for round trips and load. See codec.h.
 *
 * Every kind of value occurs: null where it is legal, empty, long, the ends of each number's
 * range, tagged fields set or not, unknown tags. What the version lacks keeps its default.
 */
#include <string.h>

#include "protocol/tables.h"
#include "util/rng.h"

struct maker {
    struct rng *rng;
    struct arena *arena;
    int version;
    bool flexible;
    bool failed; /* no memory */
};

static void make_item(struct maker *m, const struct table *t, char *item);

static bool chance(struct maker *m, unsigned one_in)
{
    return rng_below(m->rng, one_in) == 0;
}

static void *allocate(struct maker *m, size_t count, size_t size)
{
    void *memory = arena_calloc(m->arena, count, size);
    if (!memory)
        m->failed = true;
    return memory;
}

static int64_t pick_number(struct maker *m, int64_t low, int64_t high)
{
    switch (rng_below(m->rng, 8)) {
    case 0: return low;
    case 1: return high;
    case 2: return 0;
    case 3: return low < 0 ? -1 : 1;
    default: return rng_between(m->rng, low, high);
    }
}

static void make_number(struct maker *m, const struct field *f, char *value)
{
    int64_t number;
    switch (f->type) {
    case FIELD_BOOL: *(bool *)value = chance(m, 2); break;
    case FIELD_INT8: *(int8_t *)value = (int8_t)pick_number(m, INT8_MIN, INT8_MAX); break;
    case FIELD_INT16:
        *(int16_t *)(void *)value = (int16_t)pick_number(m, INT16_MIN, INT16_MAX);
        break;
    case FIELD_UINT16: *(uint16_t *)(void *)value = (uint16_t)pick_number(m, 0, UINT16_MAX); break;
    case FIELD_INT32:
        *(int32_t *)(void *)value = (int32_t)pick_number(m, INT32_MIN, INT32_MAX);
        break;
    case FIELD_UINT32: *(uint32_t *)(void *)value = (uint32_t)pick_number(m, 0, UINT32_MAX); break;
    case FIELD_INT64:
        number = pick_number(m, INT64_MIN, INT64_MAX);
        memcpy(value, &number, sizeof number);
        break;
    default:
        *(double *)(void *)value = chance(m, 4) ? -0.5 : (rng_unit(m->rng) - 0.5) * 1e18;
        break;
    }
}

static size_t pick_size(struct maker *m)
{
    if (chance(m, 6))
        return 0;
    return (size_t)rng_below(m->rng, chance(m, 16) ? 300 : 12);
}

/* Letters, and now and then a character of two, three or four bytes or one that JSON escapes. */
static void make_string(struct maker *m, char *value)
{
    static const char *const rare[] = {"é", "→", "😀", "\"", "\\", "\n", "\x01", "/"};
    size_t count = pick_size(m), size = 0;
    char *text = allocate(m, 1, 4 * count + 1);
    if (!text)
        return;
    for (size_t i = 0; i < count; i++) {
        if (chance(m, 8)) {
            const char *character = rare[rng_below(m->rng, sizeof rare / sizeof *rare)];
            size_t length = strlen(character);
            memcpy(text + size, character, length + 1);
            size += length;
        } else {
            text[size++] = (char)('a' + rng_below(m->rng, 26));
        }
    }
    struct str made = {text, size};
    memcpy(value, &made, sizeof made);
}

static struct bytes make_bytes(struct maker *m)
{
    size_t size = pick_size(m);
    uint8_t *data = allocate(m, 1, size + 1);
    if (!data)
        return (struct bytes){NULL, 0};
    rng_fill(m->rng, data, size);
    return bytes_of(data, size);
}

static void make_value(struct maker *m, const struct field *f, char *value)
{
    struct bytes view;
    struct records records = {0};
    switch (f->type) {
    case FIELD_STRUCT:
        memcpy(value, f->table->defaults, f->table->size);
        make_item(m, f->table, value);
        break;
    case FIELD_STRING: make_string(m, value); break;
    case FIELD_BYTES:
        view = make_bytes(m);
        memcpy(value, &view, sizeof view);
        break;
    case FIELD_RECORDS:
        view = make_bytes(m);
        records.data = view.data;
        records.size = view.size;
        memcpy(value, &records, sizeof records);
        break;
    case FIELD_UUID: rng_fill(m->rng, value, sizeof(struct uuid)); break;
    default: make_number(m, f, value); break;
    }
}

static void make_array(struct maker *m, const struct field *f, char *member)
{
    size_t most = f->type == FIELD_STRUCT ? 3 : chance(m, 16) ? 200 : 4;
    size_t count = (size_t)rng_below(m->rng, most);
    size_t size = field_value_size(f);
    char *items = allocate(m, count, size);
    if (!items)
        return;
    array_set(member, items, (int32_t)count);
    for (size_t i = 0; i < count; i++)
        make_value(m, f, items + i * size);
}

static void make_member(struct maker *m, const struct field *f, char *member)
{
    if (field_nullable(f, m->version) && chance(m, 4)) {
        if (f->flags & FIELD_ARRAY)
            array_set(member, NULL, -1);
        else
            memset(member, 0, f->flags & FIELD_POINTER ? sizeof(void *) : field_value_size(f));
    } else if (f->flags & FIELD_ARRAY) {
        make_array(m, f, member);
    } else if (f->flags & FIELD_POINTER) {
        char *item = allocate(m, 1, f->table->size);
        if (!item)
            return;
        member_set_pointer(member, item);
        memcpy(item, f->table->defaults, f->table->size);
        make_item(m, f->table, item);
    } else {
        make_value(m, f, member);
    }
}

/* Above every number that a schema uses. */
enum { FIRST_UNKNOWN_TAG = 1000 };

static void make_unknown_tags(struct maker *m, const struct table *t, char *item)
{
    int32_t count = 1 + (int32_t)rng_below(m->rng, 3);
    struct unknown_tags *tags = allocate(m, 1, sizeof *tags + (size_t)count * sizeof *tags->tags);
    if (!tags)
        return;
    uint32_t tag = FIRST_UNKNOWN_TAG;
    for (int32_t i = 0; i < count; i++) {
        tag += 1 + (uint32_t)rng_below(m->rng, 100000);
        tags->tags[i] = (struct unknown_tag){tag, make_bytes(m)};
    }
    tags->count = count;
    member_set_pointer(item + t->unknown_tags, tags);
}

static void make_item(struct maker *m, const struct table *t, char *item)
{
    for (size_t i = 0; i < t->field_count && !m->failed; i++) {
        const struct field *f = &t->fields[i];
        if (field_in(f, m->version) && (f->tag < 0 || chance(m, 2)))
            make_member(m, f, item + f->offset);
    }
    if (m->flexible && chance(m, 16))
        make_unknown_tags(m, t, item);
}

int message_random(const struct message *m, int version, struct rng *rng, struct arena *arena,
                   void *out, cafka_error *err)
{
    int rc = message_check_version(m, version, err);
    if (rc)
        return rc;
    struct maker maker = {rng, arena, version, message_is_flexible(m, version), false};
    message_init(m, out);
    make_item(&maker, m->table, out);
    return maker.failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory for a random %s", m->name)
                        : CAFKA_OK;
}
