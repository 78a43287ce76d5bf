/*
 * test_wire.c - `cafka wire`, called as its users call it: lines in, lines out.
 */
#define _POSIX_C_SOURCE 200809L /* popen, mkstemp */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/files.h"
#include "lib/json_same.h"
#include "util/bytes.h"

/* The lines that `./cafka wire WHAT` writes for these lines; free() them. */
static char *wire(const char *what, const char *input_path)
{
    char command[4400];
    struct buffer out = {0};
    char piece[4096];
    size_t got;
    snprintf(command, sizeof command, "./cafka wire %s < '%s'", what, input_path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while ((got = fread(piece, 1, sizeof piece, pipe)) > 0)
        buffer_put(&out, piece, got);
    assert_int_equal(pclose(pipe), 0);
    char *text = strdup(buffer_string(&out));
    buffer_fini(&out);
    assert_non_null(text);
    return text;
}

static char *wire_of_text(const char *what, const char *input)
{
    const char *directory = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/cafka-wire-XXXXXX", directory ? directory : "/tmp");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_true(write(fd, input, strlen(input)) == (ssize_t)strlen(input));
    close(fd);
    char *output = wire(what, path);
    unlink(path);
    return output;
}

struct comparison {
    char *at; /* the next line of the output */
    size_t lines;
};

static struct str next_line(struct comparison *c)
{
    char *end = strchr(c->at, '\n');
    assert_non_null(end);
    struct str line = {c->at, (size_t)(end - c->at)};
    c->at = end + 1;
    c->lines++;
    return line;
}

static void same_key(struct str a, struct str b, const char *key)
{
    struct str x, y;
    bool in_a = json_get(a, key, &x);
    assert_int_equal(in_a, json_get(b, key, &y));
    if (in_a && !json_same(x, y))
        fail_msg("%s differs:\n%.*s\n%.*s", key, STR_ARG(a), STR_ARG(b));
}

static void compare_decoded(struct str golden, void *user)
{
    struct str line = next_line(user);
    same_key(golden, line, "name");
    same_key(golden, line, "version");
    same_key(golden, line, "json");
    same_key(golden, line, "unknownTags");
}

static void compare_encoded(struct str golden, void *user)
{
    struct str line = next_line(user);
    same_key(golden, line, "name");
    same_key(golden, line, "hex");
}

static void golden_lines_go_through_both_ways(void **state)
{
    (void)state;
    const char *path = source_path("tests/golden/messages/share.jsonl");
    struct comparison c = {0};
    char *output = c.at = wire("decode", path);
    assert_true(file_lines(path, compare_decoded, &c));
    assert_int_equal(*c.at, 0);
    assert_true(c.lines > 500);
    free(output);
    output = c.at = wire("encode", path);
    assert_true(file_lines(path, compare_encoded, &c));
    free(output);
}

static void what_is_wrong_gives_an_error_and_the_next_line_is_read(void **state)
{
    (void)state;
    char *output =
        wire_of_text("decode",
                     "no json\n"
                     "{\"name\":\"Nothing\",\"version\":0,\"hex\":\"\"}\n"
                     "{\"name\":\"HeartbeatResponse\",\"version\":0,\"hex\":\"00\"}\n"
                     "{\"name\":\"HeartbeatResponse\",\"version\":99,\"hex\":\"0000\"}\n"
                     "{\"name\":\"HeartbeatResponse\",\"hex\":\"0000\"}\n"
                     "{\"name\":\"HeartbeatResponse\",\"version\":0}\n"
                     "\n"
                     "{\"extra\":[1],\"name\":\"HeartbeatResponse\",\"version\":0,\"hex\":\"001B\"}");
    struct comparison c = {output, 0};
    static const char *const what[] =
        {"object", "no message is called", "errorCode: 2 bytes", "no version 99", "needs", "needs"};
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        char *error = json_get_text(next_line(&c), "error");
        if (!strstr(error, what[i]))
            fail_msg("line %zu: %s", i, error);
        free(error);
    }
    assert_true(
        json_same(next_line(&c),
                  str_of(
                      "{\"name\":\"HeartbeatResponse\",\"version\":0,\"json\":{\"errorCode\":27}}")));
    assert_int_equal(*c.at, 0);
    free(output);
}

static void what_the_version_cannot_say_gives_an_error(void **state)
{
    (void)state;
    char *output =
        wire_of_text("encode",
                     "{\"name\":\"FetchRequest\",\"version\":6,\"json\":{\"forgottenTopicsData\":[{\"topic\":"
                     "\"a\"}]}}\n"
                     "{\"name\":\"HeartbeatResponse\",\"version\":0,\"json\":{\"errorCode\":70000}}\n");
    struct comparison c = {output, 0};
    for (int i = 0; i < 2; i++) {
        char *error = json_get_text(next_line(&c), "error");
        assert_non_null(strstr(error, i ? "range" : "forgottenTopicsData"));
        free(error);
    }
    free(output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_lines_go_through_both_ways),
        cmocka_unit_test(what_is_wrong_gives_an_error_and_the_next_line_is_read),
        cmocka_unit_test(what_the_version_cannot_say_gives_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
