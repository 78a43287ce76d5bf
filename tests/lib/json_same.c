/*
 * json_same.c - see json_same.h.
 */
#include "lib/json_same.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/json.h"

bool json_get(struct str object, const char *key, struct str *value)
{
    struct json j = json_of(object);
    struct arena arena = {0};
    struct str name, text;
    bool first = true, found = false;
    if (json_take(&j, '{'))
        while (!found && json_member(&j, &arena, &first, &name) && json_take_any(&j, &text))
            if (str_is(name, key)) {
                *value = text;
                found = true;
            }
    arena_fini(&arena);
    return found;
}

static bool same_strings(struct json *a, struct json *b)
{
    struct arena arena = {0};
    struct str x, y;
    bool same =
        json_take_string(a, &arena, &x) && json_take_string(b, &arena, &y) && str_equal(x, y);
    arena_fini(&arena);
    return same;
}

static size_t count_members(struct str object)
{
    struct json j = json_of(object);
    struct arena arena = {0};
    struct str name, text;
    bool first = true;
    size_t count = 0;
    if (json_take(&j, '{'))
        while (json_member(&j, &arena, &first, &name) && json_take_any(&j, &text))
            count++;
    arena_fini(&arena);
    return count;
}

static bool same_objects(struct str a, struct str b)
{
    if (count_members(a) != count_members(b))
        return false;
    struct json j = json_of(a);
    struct arena arena = {0};
    struct str name, x, y;
    bool first = true, same = json_take(&j, '{');
    while (same && json_member(&j, &arena, &first, &name)) {
        char key[256];
        snprintf(key, sizeof key, "%.*s", STR_ARG(name));
        same = json_take_any(&j, &x) && json_get(b, key, &y) && json_same(x, y);
    }
    arena_fini(&arena);
    return same && !j.problem;
}

static bool same_arrays(struct json *a, struct json *b)
{
    bool first_a = true, first_b = true;
    struct str x, y;
    (void)json_take(a, '[');
    (void)json_take(b, '[');
    for (;;) {
        bool more = json_element(a, &first_a);
        if (json_element(b, &first_b) != more)
            return false;
        if (!more)
            return !a->problem && !b->problem;
        if (!json_take_any(a, &x) || !json_take_any(b, &y) || !json_same(x, y))
            return false;
    }
}

static bool same_words(struct str a, struct str b)
{
    struct json x = json_of(a), y = json_of(b);
    int64_t i, k;
    if (json_take_int(&x, INT64_MIN, INT64_MAX, &i) &&
        json_take_int(&y, INT64_MIN, INT64_MAX, &k) && json_end(&x) && json_end(&y))
        return i == k;
    double d, e;
    x = json_of(a);
    y = json_of(b);
    if (json_take_double(&x, &d) && json_take_double(&y, &e))
        return !memcmp(&d, &e, sizeof d); /* the sign of zero counts */
    return str_equal(a, b);
}

bool json_same(struct str a, struct str b)
{
    struct json x = json_of(a), y = json_of(b);
    char kind = json_peek(&x);
    if (json_peek(&y) != kind && (kind == '{' || kind == '[' || kind == '"'))
        return false;
    if (kind == '{')
        return same_objects(a, b);
    if (kind == '[')
        return same_arrays(&x, &y);
    if (kind == '"')
        return same_strings(&x, &y);
    struct str u, v;
    return json_take_any(&x, &u) && json_take_any(&y, &v) && same_words(u, v);
}

static void give_up(struct str object, const char *key)
{
    fprintf(stderr, "no \"%s\" of the expected kind in %.200s\n", key, object.data);
    abort();
}

char *json_get_text(struct str object, const char *key)
{
    struct str raw, text;
    struct arena arena = {0};
    if (!json_get(object, key, &raw))
        give_up(object, key);
    struct json j = json_of(raw);
    if (!json_take_string(&j, &arena, &text))
        give_up(object, key);
    char *copy = malloc(text.size + 1);
    if (!copy)
        abort();
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    arena_fini(&arena);
    return copy;
}

int64_t json_get_int(struct str object, const char *key)
{
    struct str raw;
    int64_t value = 0;
    if (!json_get(object, key, &raw))
        give_up(object, key);
    struct json j = json_of(raw);
    if (!json_take_int(&j, INT64_MIN, INT64_MAX, &value))
        give_up(object, key);
    return value;
}
