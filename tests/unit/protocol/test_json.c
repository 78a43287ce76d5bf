/*
 * test_json.c - JSON texts: exact numbers, strings of any kind, and text that is no JSON.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/json_same.h"
#include "protocol/json.h"
#include "util/alloc.h"

static struct arena arena;

static void whole_numbers_are_exact_to_their_ends(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0, -1, INT64_MAX, INT64_MIN, 9007199254740993};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct buffer out = {0};
        int64_t read;
        json_put_int(&out, numbers[i]);
        struct json j = json_of((struct str){(char *)out.data, out.size});
        assert_true(json_take_int(&j, INT64_MIN, INT64_MAX, &read) && json_end(&j));
        assert_true(read == numbers[i]);
        buffer_fini(&out);
    }
    static const char *const wrong[] = {"9223372036854775808",
                                        "-9223372036854775809",
                                        "01",
                                        "1.0",
                                        "1e2",
                                        "-",
                                        "",
                                        "+1",
                                        "0x1",
                                        "99999999999999999999",
                                        "1a"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct json j = json_of(str_of(wrong[i]));
        int64_t read;
        assert_false(json_take_int(&j, INT64_MIN, INT64_MAX, &read));
        assert_non_null(j.problem);
    }
}

static void doubles_read_back_equal(void **state)
{
    (void)state;
    static const double numbers[] =
        {0.0, -0.0, 0.1, 1.0, -1e300, 4.9e-324, 1.7976931348623157e308, 1.0 / 3};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct buffer out = {0};
        double read;
        json_put_double(&out, numbers[i]);
        struct json j = json_of((struct str){(char *)out.data, out.size});
        assert_true(json_take_double(&j, &read) && json_end(&j));
        assert_memory_equal(&read, &numbers[i], sizeof read);
        buffer_fini(&out);
    }
    static const char *const wrong[] = {"1.", ".5", "1e", "--1", "\"x\"", "nan", "1.2.3"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct json j = json_of(str_of(wrong[i]));
        double read;
        assert_false(json_take_double(&j, &read));
    }
}

static void strings_survive_whatever_they_hold(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "plain", "\"\\/\b\f\n\r\t\x01\x1f", "é→😀", "\x7f"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct buffer out = {0};
        struct str read;
        json_put_string(&out, str_of(texts[i]));
        struct json j = json_of((struct str){(char *)out.data, out.size});
        assert_true(json_take_string(&j, &arena, &read) && json_end(&j));
        assert_true(str_is(read, texts[i]));
        buffer_fini(&out);
    }
    arena_reset(&arena);
}

static void bytes_that_are_no_utf8_become_the_replacement_character(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *json;
    } cases[] = {
        {"a\xff"
         "b",
         "\"a\xef\xbf\xbd"
         "b\""},
        {"\xc0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* a zero in two bytes */
        {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""}, /* half a surrogate pair */
        {"\xe2\x82", "\"\xef\xbf\xbd\xef\xbf\xbd\""},                 /* cut */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer out = {0};
        json_put_string(&out, str_of(cases[i].bytes));
        assert_string_equal(buffer_string(&out), cases[i].json);
        buffer_fini(&out);
    }
}

static void escapes_are_read_as_json_has_them(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text; /* text NULL: refused */
    } cases[] = {
        {"\"\\u0041\\n\\/\"", "A\n/"},
        {"\"\\ud83d\\ude00\"", "😀"},
        {"\"\\ud83d\"", "\xef\xbf\xbd"},
        {"\"\\ude00x\"", "\xef\xbf\xbdx"},
        {"\"\\ud83d\\u0041\"", "\xef\xbf\xbd"
                               "A"},
        {"\"\\u00e9\"", "é"},
        {"\"\\u12\"", NULL},
        {"\"\\x\"", NULL},
        {"\"\\", NULL},
        {"\"abc", NULL},
        {"\"a\nb\"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json j = json_of(str_of(cases[i].json));
        struct str read;
        bool ok = json_take_string(&j, &arena, &read);
        assert_int_equal(ok, cases[i].text != NULL);
        if (ok)
            assert_true(str_is(read, cases[i].text));
    }
    arena_reset(&arena);
}

static void base64_of_every_length_is_read_back(void **state)
{
    (void)state;
    uint8_t data[70];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 37 + 251);
    for (size_t size = 0; size <= sizeof data; size++) {
        struct buffer out = {0};
        struct bytes read;
        json_put_base64(&out, bytes_of(data, size));
        struct json j = json_of((struct str){(char *)out.data, out.size});
        assert_true(json_take_base64(&j, &arena, &read) && json_end(&j));
        assert_true(bytes_equal(read, bytes_of(data, size)));
        buffer_fini(&out);
    }
    struct json j = json_of(str_of("\"AAA*\""));
    struct bytes read;
    assert_false(json_take_base64(&j, &arena, &read));
    j = json_of(str_of("\"A\""));
    assert_false(json_take_base64(&j, &arena, &read));
    arena_reset(&arena);
}

static void any_value_is_skipped_whole(void **state)
{
    (void)state;
    static const char *const values[] =
        {"1",          "-0.5e-7",          "true",
         "null",       "\"a\\\"]\"",       "[]",
         "{}",         "[1,[2,{}],\"]\"]", "{\"a\":{\"b\":[1,2]},\"c\":\"}\"}",
         " [ 1 , 2 ] "};
    static const char *const wrong[] = {"",           "[",       "{",        "[1",    "[1,]",
                                        "[,1]",       "{\"a\"}", "{\"a\":}", "{a:1}", "[1 2]",
                                        "tru",        "}",       "]",        "[}",    "{]",
                                        "{\"a\":1,}", "nul",     "01"};
    struct str raw;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct json j = json_of(str_of(values[i]));
        if (!json_take_any(&j, &raw) || !json_end(&j))
            fail_msg("%s: %s", values[i], j.problem);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct json j = json_of(str_of(wrong[i]));
        if (json_take_any(&j, &raw) && json_end(&j))
            fail_msg("%s was taken", wrong[i]);
    }
}

static void depth_costs_no_stack_and_has_an_end(void **state)
{
    (void)state;
    static char deep[200001];
    struct str raw;
    memset(deep, '[', sizeof deep - 1);
    struct json j = json_of(str_of(deep));
    assert_false(json_take_any(&j, &raw));
    assert_string_equal(j.problem, "nested too deep");
    memset(deep, '[', 1000);
    memset(deep + 1000, ']', 1000);
    j = json_of((struct str){deep, 2000});
    assert_true(json_take_any(&j, &raw) && json_end(&j));
}

static void text_cut_anywhere_is_refused(void **state)
{
    (void)state;
    const char *text = "{\"a\":[1,true,null,\"x\\u00e9\",{\"b\":-1.5e3}],\"c\":{}}";
    for (size_t size = 0; size < strlen(text); size++) {
        char *copy = malloc(size ? size : 1);
        struct str raw;
        assert_non_null(copy);
        memcpy(copy, text, size);
        struct json j = json_of((struct str){copy, size});
        assert_false(json_take_any(&j, &raw) && json_end(&j));
        free(copy);
    }
}

static void values_are_the_same_whatever_their_order_and_spelling(void **state)
{
    (void)state;
    assert_true(json_same(str_of("{\"a\":1,\"b\":[1.0,\"x\"]}"),
                          str_of("{ \"b\":[1.00,\"\\u0078\"], \"a\":1 }")));
    assert_false(json_same(str_of("9007199254740993"), str_of("9007199254740992")));
    assert_false(json_same(str_of("[1,2]"), str_of("[2,1]")));
    assert_false(json_same(str_of("[1]"), str_of("[1,2]")));
    assert_false(json_same(str_of("{\"a\":1}"), str_of("{\"a\":1,\"b\":2}")));
    assert_false(json_same(str_of("0.0"), str_of("-0.0")));
    assert_false(json_same(str_of("null"), str_of("\"null\"")));
}

static void memory_that_fails_is_told_apart_from_bad_text(void **state)
{
    (void)state;
    struct arena empty = {0};
    struct str read;
    struct json j = json_of(str_of("\"\\n\""));
    mem_fail_after(1, 0);
    assert_false(json_take_string(&j, &empty, &read));
    mem_fail_after(0, 0);
    assert_true(j.no_memory);
    arena_fini(&empty);
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
        cmocka_unit_test(whole_numbers_are_exact_to_their_ends),
        cmocka_unit_test(doubles_read_back_equal),
        cmocka_unit_test(strings_survive_whatever_they_hold),
        cmocka_unit_test(bytes_that_are_no_utf8_become_the_replacement_character),
        cmocka_unit_test(escapes_are_read_as_json_has_them),
        cmocka_unit_test(base64_of_every_length_is_read_back),
        cmocka_unit_test(any_value_is_skipped_whole),
        cmocka_unit_test(depth_costs_no_stack_and_has_an_end),
        cmocka_unit_test(text_cut_anywhere_is_refused),
        cmocka_unit_test(values_are_the_same_whatever_their_order_and_spelling),
        cmocka_unit_test(memory_that_fails_is_told_apart_from_bad_text),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
