/*
 * test_bad_batches.c - what a real broker answered to each odd or damaged batch of golden/records.
 */
#include "log_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/compress.h"
#include "util/alloc.h"

/* The text of "field": "…" in a line of JSON without escapes; NULL if it is not there. */
static char *field_of(const char *line, const char *name)
{
    char key[64];
    int size = snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(line, key);
    if (!at)
        return NULL;
    at += size;
    while (*at == ' ')
        at++;
    if (*at != '"')
        return NULL;
    const char *end = strchr(at + 1, '"');
    return end ? mem_strndup(at + 1, (size_t)(end - at - 1)) : NULL;
}

static const char *answer_to(struct log_fixture *f, struct bytes records)
{
    enum { PRODUCE_VERSION = 12 };
    struct append_request request = {.records = records, .verified = true};
    struct append_result result;
    int rc = append_check_request(records, PRODUCE_VERSION, NULL);
    if (!rc) {
        rc = commit_log_append(f->log, &request, &result, NULL);
        append_result_fini(&result);
    }
    return rc ? protocol_error_name(rc) : "NONE";
}

static void odd_batches_are_answered_as_a_real_broker_answers_them(void **state)
{
    struct log_fixture *f = *state;
    const char *shared = shared_dir();
    if (!shared)
        return;
    f->config.message_timestamp_after_max_ms = INT64_MAX;
    f->config.max_message_bytes = INT32_MAX;
    open_directory(f);
    char path[600];
    size_t size;
    snprintf(path, sizeof path, "%s/golden/records/bad.jsonl", shared);
    char *text = slurp(path, &size);
    assert_non_null(text);
    int count = 0, wrong = 0;
    for (char *line = text, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end)
            *end++ = 0;
        char *name = field_of(line, "name"), *hex = field_of(line, "hex");
        char *expected = field_of(line, "broker");
        bool readable = codec_available(CODEC_SNAPPY) || strncmp(name, "snappy ", 7);
        if (expected && readable) {
            size_t n = strlen(hex) / 2;
            uint8_t *bytes = mem_alloc(n + 1);
            assert_int_equal(from_hex(hex, strlen(hex), bytes), (ptrdiff_t)n);
            uint8_t *exact = mem_memdup(bytes, n ? n : 1); /* so that reading past it is seen */
            const char *got = answer_to(f, bytes_of(exact, n));
            if (strcmp(got, expected)) {
                printf("%s: %s instead of %s\n", name, got, expected);
                wrong++;
            }
            count++;
            mem_free(bytes);
            mem_free(exact);
        }
        mem_free(name);
        mem_free(hex);
        mem_free(expected);
    }
    mem_free(text);
    assert_true(count > 300);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(odd_batches_are_answered_as_a_real_broker_answers_them,
                                        fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
