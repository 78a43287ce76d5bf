/*
 * wire.c - `cafka wire decode|encode`: messages between hex and Kafka's JSON, one a line.
 *
 * decode: {"name":"FetchRequest","version":12,"hex":"…"} gives {"name","version","json"}, and
 * "unknownTags" if the bytes hold some. encode: the same back. Names are those of requests,
 * responses, headers and embedded schemas; the bytes are a body alone. A line that can't be
 * understood gives {"error":"…"}, and the next is read. Other keys of the input are dropped.
 */
#define _POSIX_C_SOURCE 200809L /* getline */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "protocol/codec.h"
#include "protocol/json.h"
#include "util/alloc.h"

struct line {
    struct str name, json, unknown_tags;
    struct bytes hex;
    int64_t version;
    bool has_version;
};

static bool read_member(struct json *j, struct arena *arena, struct str key, struct line *line)
{
    struct str skipped;
    if (str_is(key, "name"))
        return json_take_string(j, arena, &line->name);
    if (str_is(key, "version")) {
        line->has_version = true;
        return json_take_int(j, INT16_MIN, INT16_MAX, &line->version);
    }
    if (str_is(key, "hex"))
        return json_take_hex(j, arena, &line->hex);
    if (str_is(key, "json"))
        return json_take_any(j, &line->json);
    if (str_is(key, "unknownTags"))
        return json_take_any(j, &line->unknown_tags);
    return json_take_any(j, &skipped);
}

static int read_line(struct str text, struct arena *arena, struct line *line, cafka_error *err)
{
    struct json j = json_of(text);
    struct str key;
    bool first = true;
    if (json_take(&j, '{'))
        while (json_member(&j, arena, &first, &key))
            if (!read_member(&j, arena, key, line))
                break;
    if (!json_end(&j))
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "the line is no JSON object of the expected form: %s", j.problem);
    if (!line->name.data || !line->has_version)
        return error_set(err, CAFKA_ERR_ARGUMENT, "the line needs \"name\" and \"version\"");
    return CAFKA_OK;
}

static int find_message(const struct line *line, struct arena *arena,
                        const struct message **message, void **body, cafka_error *err)
{
    *message = message_find(line->name);
    if (!*message)
        return error_set(err, CAFKA_ERR_ARGUMENT, "no message is called \"%.*s\"",
                         (int)line->name.size, line->name.data);
    *body = arena_alloc(arena, message_struct_size(*message));
    return *body ? CAFKA_OK : error_set(err, CAFKA_ERR_MEMORY, "no memory for a message");
}

static void put_head(struct buffer *out, const struct line *line)
{
    buffer_printf(out, "{\"name\":");
    json_put_string(out, line->name);
    buffer_printf(out, ",\"version\":%" PRId64, line->version);
}

static int decode(const struct line *line, struct arena *arena, struct buffer *out, cafka_error *err)
{
    const struct message *message = NULL;
    void *body = NULL;
    struct buffer tags = {0};
    if (!line->hex.data)
        return error_set(err, CAFKA_ERR_ARGUMENT, "the line needs \"hex\"");
    int rc = find_message(line, arena, &message, &body, err);
    if (!rc)
        rc = message_decode(message, (int)line->version, line->hex, arena, body, NULL, err);
    if (rc)
        return rc;
    put_head(out, line);
    buffer_printf(out, ",\"json\":");
    rc = message_to_json(message, (int)line->version, body, out, err);
    if (!rc)
        rc = message_unknown_tags_to_json(message, (int)line->version, body, &tags, err);
    if (!rc && tags.size) {
        buffer_printf(out, ",\"unknownTags\":");
        buffer_put(out, tags.data, tags.size);
    }
    buffer_fini(&tags);
    buffer_put_u8(out, '}');
    return rc;
}

static int encode(const struct line *line, struct arena *arena, struct buffer *out, cafka_error *err)
{
    const struct message *message = NULL;
    void *body = NULL;
    struct encoded bytes = {0};
    int version = (int)line->version;
    if (!line->json.data)
        return error_set(err, CAFKA_ERR_ARGUMENT, "the line needs \"json\"");
    int rc = find_message(line, arena, &message, &body, err);
    if (!rc)
        rc = message_from_json(message, version, line->json, arena, body, err);
    if (!rc && line->unknown_tags.data && !str_is(line->unknown_tags, "null"))
        rc = message_unknown_tags_from_json(message, version, line->unknown_tags, arena, body, err);
    if (!rc)
        rc = message_encode(message, version, body, &bytes, err);
    if (!rc) {
        put_head(out, line);
        buffer_printf(out, ",\"hex\":");
        json_put_hex(out, bytes_of(bytes.bytes.data, bytes.bytes.size));
        buffer_put_u8(out, '}');
    }
    encoded_fini(&bytes);
    return rc;
}

typedef int convert(const struct line *line, struct arena *arena, struct buffer *out,
                    cafka_error *err);

static void put_error(struct buffer *out, const cafka_error *err)
{
    buffer_clear(out);
    buffer_printf(out, "{\"error\":");
    json_put_string(out, str_of(err->message));
    buffer_put_u8(out, '}');
}

/* Writes the answer to one line; false when standard output is broken. */
static bool answer(convert *what, struct str text, struct arena *arena, struct buffer *out)
{
    struct line line = {0};
    cafka_error err = {0};
    buffer_clear(out);
    int rc = read_line(text, arena, &line, &err);
    if (!rc)
        rc = what(&line, arena, out, &err);
    if (!rc && out->failed)
        rc = error_set(&err, CAFKA_ERR_MEMORY, "no memory for the answer");
    if (rc)
        put_error(out, &err);
    buffer_put_u8(out, '\n');
    arena_reset(arena);
    return !out->failed && fwrite(out->data, 1, out->size, stdout) == out->size;
}

static bool is_blank(struct str text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!strchr(" \t\r\n", text.data[i]))
            return false;
    return true;
}

static int convert_all(convert *what)
{
    char *text = NULL;
    size_t capacity = 0;
    ssize_t length;
    struct arena arena = {0};
    struct buffer out = {0};
    bool ok = true;
    while (ok && (length = getline(&text, &capacity, stdin)) >= 0) {
        struct str line = {text, (size_t)length};
        if (!is_blank(line))
            ok = answer(what, line, &arena, &out);
    }
    ok = ok && !ferror(stdin) && fflush(stdout) == 0;
    free(text); /* getline's own */
    buffer_fini(&out);
    arena_fini(&arena);
    if (!ok)
        fprintf(stderr, "cafka wire: reading or writing failed\n");
    return ok ? 0 : 1;
}

static int usage(FILE *out, int status)
{
    fprintf(out, "usage: cafka wire decode|encode\n"
                 "reads one JSON object a line: {\"name\",\"version\",\"hex\"} or "
                 "{\"name\",\"version\",\"json\"}\n");
    return status;
}

int cli_wire(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "decode"))
        return convert_all(decode);
    if (argc == 2 && !strcmp(argv[1], "encode"))
        return convert_all(encode);
    if (argc == 2 && !strcmp(argv[1], "--help"))
        return usage(stdout, 0);
    return usage(stderr, 2);
}
