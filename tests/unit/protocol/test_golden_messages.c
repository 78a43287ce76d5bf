/*
 * test_golden_messages.c - the codec against bytes that Apache Kafka's own classes wrote.
 *
 * A small share is in tests/golden/messages; the whole set is read where it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/files.h"
#include "lib/json_same.h"
#include "protocol/api_keys.h"
#include "protocol/codec.h"
#include "protocol/json.h"
#include "protocol/tables.h"

struct sample {
    const struct message *message;
    int version;
    struct bytes body;
    struct str json, unknown_tags; /* unknown_tags.data NULL: none */
};

static struct arena arena;
static size_t lines;

static struct bytes unhex(const char *hex)
{
    size_t length = strlen(hex);
    uint8_t *data = arena_alloc(&arena, length / 2 + 1);
    assert_true(from_hex(hex, length, data) == (ptrdiff_t)(length / 2));
    return bytes_of(data, length / 2);
}

static bool same_bytes(const struct encoded *e, struct bytes expected)
{
    return e->bytes.size == expected.size &&
           (!expected.size || !memcmp(e->bytes.data, expected.data, expected.size));
}

static struct sample read_sample(struct str line)
{
    struct sample s = {0};
    char *name = json_get_text(line, "name"), *hex = json_get_text(line, "hex");
    s.message = message_find(str_of(name));
    assert_non_null(s.message);
    s.version = (int)json_get_int(line, "version");
    s.body = unhex(hex);
    assert_true(json_get(line, "json", &s.json));
    (void)json_get(line, "unknownTags", &s.unknown_tags);
    free(name);
    free(hex);
    return s;
}

static void bytes_give_the_values(const struct sample *s)
{
    cafka_error err = {0};
    struct buffer json = {0}, tags = {0};
    void *body = arena_alloc(&arena, message_struct_size(s->message));
    if (message_decode(s->message, s->version, s->body, &arena, body, NULL, &err) ||
        message_to_json(s->message, s->version, body, &json, &err) ||
        message_unknown_tags_to_json(s->message, s->version, body, &tags, &err))
        fail_msg("%s", err.message);
    if (!json_same((struct str){(char *)json.data, json.size}, s->json))
        fail_msg("%s version %d: %.*s\n is not\n%.*s", message_name(s->message), s->version,
                 (int)json.size, (char *)json.data, STR_ARG(s->json));
    assert_int_equal(tags.size != 0, s->unknown_tags.data != NULL);
    if (tags.size && !json_same((struct str){(char *)tags.data, tags.size}, s->unknown_tags))
        fail_msg("%s version %d: tags %.*s\n are not\n%.*s", message_name(s->message), s->version,
                 (int)tags.size, (char *)tags.data, STR_ARG(s->unknown_tags));
    buffer_fini(&json);
    buffer_fini(&tags);
}

static void values_give_the_bytes(const struct sample *s)
{
    cafka_error err = {0};
    struct encoded out = {0};
    void *body = arena_alloc(&arena, message_struct_size(s->message));
    int rc = message_from_json(s->message, s->version, s->json, &arena, body, &err);
    if (!rc && s->unknown_tags.data)
        rc = message_unknown_tags_from_json(s->message, s->version, s->unknown_tags, &arena, body,
                                            &err);
    if (!rc)
        rc = message_encode(s->message, s->version, body, &out, &err);
    if (rc)
        fail_msg("%s", err.message);
    if (!same_bytes(&out, s->body))
        fail_msg("%s version %d of %.200s has other bytes", message_name(s->message), s->version,
                 s->json.data);
    encoded_fini(&out);
}

/* A decoded message is written again with the same bytes, unknown tags and all. */
static void bytes_survive(const struct sample *s)
{
    cafka_error err = {0};
    struct encoded out = {0};
    void *body = arena_alloc(&arena, message_struct_size(s->message));
    if (message_decode(s->message, s->version, s->body, &arena, body, NULL, &err) ||
        message_encode(s->message, s->version, body, &out, &err))
        fail_msg("%s", err.message);
    assert_true(same_bytes(&out, s->body));
    encoded_fini(&out);
}

static void check_line(struct str line, void *user)
{
    (void)user;
    struct sample s = read_sample(line);
    bytes_give_the_values(&s);
    values_give_the_bytes(&s);
    bytes_survive(&s);
    arena_reset(&arena);
    lines++;
}

static void check_file(const char *path, void *user)
{
    assert_true(file_lines(path, check_line, user));
}

static void every_line_of_the_share_is_read_and_written_as_kafka_does(void **state)
{
    lines = 0;
    check_file(source_path("tests/golden/messages/share.jsonl"), *state);
    assert_true(lines > 500);
}

static void every_line_of_the_whole_set_is_read_and_written_as_kafka_does(void **state)
{
    lines = 0;
    const char *directory = golden_path("messages");
    if (!directory)
        return;
    assert_true(directory_files(directory, ".jsonl", check_file, *state));
    assert_true(lines >= 3640);
}

/* --- defaults --- */

/* The default of a field as defaults.json has it. */
static void put_default(struct buffer *out, const struct table *t, const struct field *f)
{
    const char *member = (const char *)t->defaults + f->offset;
    struct bytes view;
    buffer_clear(out);
    if (f->flags & FIELD_ARRAY) {
        buffer_printf(out, "%s", array_count(member) < 0 ? "null" : "[]");
    } else if (f->type == FIELD_STRUCT) {
        buffer_printf(out, "%s",
                      f->flags & FIELD_POINTER && !member_pointer(member) ? "null" : "{}");
    } else if (f->type == FIELD_UUID) {
        struct uuid id;
        char text[UUID_TEXT_SIZE];
        memcpy(&id, member, sizeof id);
        uuid_text(id, text);
        buffer_printf(out, "\"%s\"", text);
    } else if (f->type == FIELD_STRING || f->type == FIELD_BYTES || f->type == FIELD_RECORDS) {
        memcpy(&view, member, sizeof view);
        buffer_printf(out, "%s", view.data ? "\"\"" : "null");
    } else if (f->type == FIELD_FLOAT64) {
        json_put_double(out, *(const double *)(const void *)member);
    } else if (f->type == FIELD_BOOL) {
        buffer_printf(out, "%s", *member ? "true" : "false");
    } else {
        int64_t number = f->type == FIELD_INT8    ? *(const int8_t *)member
                         : f->type == FIELD_INT16 ? *(const int16_t *)(const void *)member
                         : f->type == FIELD_INT32 ? *(const int32_t *)(const void *)member
                         : f->type == FIELD_INT64 ? *(const int64_t *)(const void *)member
                                                  : 0;
        json_put_int(out, number);
    }
}

static size_t check_defaults(const struct table *t, struct str expected, const char *prefix)
{
    size_t known = 0;
    struct buffer value = {0};
    for (size_t i = 0; i < t->field_count; i++) {
        const struct field *f = &t->fields[i];
        char path[512];
        struct str text;
        snprintf(path, sizeof path, "%s%s%s%s", prefix, *prefix ? "." : "", f->name,
                 f->flags & FIELD_ARRAY ? "[]" : "");
        if (!json_get(expected, path, &text))
            continue; /* of a version that Kafka 4 dropped */
        known++;
        put_default(&value, t, f);
        if (!json_same((struct str){(char *)value.data, value.size}, text))
            fail_msg("%s: %.*s, Kafka has %.*s", path, (int)value.size, (char *)value.data,
                     STR_ARG(text));
        if (f->type == FIELD_STRUCT)
            known += check_defaults(f->table, expected, path);
    }
    buffer_fini(&value);
    return known;
}

static void every_field_has_the_default_that_kafka_gives_it(void **state)
{
    (void)state;
    size_t size, messages = 0;
    const char *path = golden_path("messages/defaults.json");
    if (!path)
        return;
    char *text = file_read(path, &size);
    assert_non_null(text);
    struct str all = {text, size}, expected, name;
    struct json j = json_of(all);
    bool first = true;
    assert_true(json_take(&j, '{'));
    while (json_member(&j, &arena, &first, &name)) {
        assert_true(json_take_any(&j, &expected));
        const struct message *m = message_find(name);
        assert_non_null(m);
        (void)check_defaults(m->table, expected, "");
        messages++;
    }
    assert_int_equal(messages, 272);
    arena_reset(&arena);
    free(text);
}

/* --- API versions --- */

static int advertised(const struct api *api)
{
    bool telemetry = api->key == API_GET_TELEMETRY_SUBSCRIPTIONS || api->key == API_PUSH_TELEMETRY;
    /* Telemetry is offered only with a metrics reporter; what no broker listener takes never is. */
    return api->listeners & API_ON_BROKER && api->max_version >= api->min_version && !telemetry;
}

static void the_api_table_gives_the_answer_of_a_real_broker(void **state)
{
    (void)state;
    size_t size, seen = 0, expected = 0;
    char *text = file_read(source_path("tests/golden/messages/api-versions.json"), &size);
    assert_non_null(text);
    struct json j = json_of((struct str){text, size});
    struct str entry;
    bool first = true;
    assert_true(json_take(&j, '['));
    while (json_element(&j, &first)) {
        assert_true(json_take_any(&j, &entry));
        const struct api *api = api_find((int)json_get_int(entry, "apiKey"));
        assert_non_null(api);
        if (!advertised(api))
            fail_msg("%s is not offered", api->name);
        if (api_advertised_min(api) != json_get_int(entry, "minVersion") ||
            api->max_version != json_get_int(entry, "maxVersion"))
            fail_msg("%s is offered from %d to %d", api->name, api_advertised_min(api),
                     api->max_version);
        seen++;
    }
    for (int key = 0; key < API_KEY_COUNT; key++)
        expected += (size_t)advertised(api_find(key));
    assert_int_equal(seen, expected);
    free(text);
}

/* --- unsigned varints; the record room holds the signed ones to their vectors --- */

static void check_vector(struct str line, void *user)
{
    char *kind = json_get_text(line, "kind"), *hex, *value;
    bool is_int = !strcmp(kind, "uvarint"), is_long = !strcmp(kind, "uvarlong");
    struct str unused;
    free(kind);
    if (!is_int && !is_long)
        return;
    ++*(size_t *)user;
    hex = json_get_text(line, "hex");
    struct bytes bytes = unhex(hex);
    free(hex);
    uint64_t read = 0;
    const uint8_t *after = uvarint_get(bytes.data, bytes.data + bytes.size, is_int ? 5 : 10, &read);
    if (json_get(line, "error", &unused)) {
        assert_null(after);
        return;
    }
    value = json_get_text(line, "value");
    size_t taken = json_get(line, "read", &unused) ? (size_t)json_get_int(line, "read") : bytes.size;
    assert_true(after == bytes.data + taken);
    assert_true(read == strtoull(value, NULL, 10));
    free(value);
    uint8_t written[10];
    size_t size = (size_t)(uvarint_put(written, read) - written);
    assert_int_equal(size, uvarint_size(read));
    if (json_get(line, "written", &unused))
        assert_true(bytes_equal(bytes_of(written, size), bytes));
}

static void unsigned_varints_are_read_and_written_as_kafka_does(void **state)
{
    (void)state;
    size_t seen = 0;
    const char *path = golden_path("vectors.jsonl");
    if (!path)
        return;
    assert_true(file_lines(path, check_vector, &seen));
    assert_int_equal(seen, 84 + 151);
    arena_reset(&arena);
}

static int free_arena(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_line_of_the_share_is_read_and_written_as_kafka_does),
        cmocka_unit_test(every_line_of_the_whole_set_is_read_and_written_as_kafka_does),
        cmocka_unit_test(every_field_has_the_default_that_kafka_gives_it),
        cmocka_unit_test(unsigned_varints_are_read_and_written_as_kafka_does),
        cmocka_unit_test(the_api_table_gives_the_answer_of_a_real_broker),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
