/*
 * record_fixture.h - what the tests of the record room share: golden texts, their lines, bytes.
 */
#ifndef TESTS_RECORD_FIXTURE_H
#define TESTS_RECORD_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/files.h"
#include "util/alloc.h"
#include "util/bytes.h"

/* The text of a golden file; the test is skipped where there is none. Freed with free(). */
static inline char *golden_text(const char *name)
{
    const char *path = golden_path(name);
    size_t size;
    if (!path)
        skip();
    char *text = file_read(path, &size);
    assert_non_null(text);
    return text;
}

/* Lines of a text that is cut up in place. */
static inline char *next_text_line(char **rest)
{
    char *line = *rest, *end = line ? strchr(line, '\n') : NULL;
    if (!line || !*line)
        return NULL;
    if (end)
        *end = 0;
    *rest = end ? end + 1 : NULL;
    return line;
}

static inline struct bytes bytes_of_hex(const char *hex)
{
    size_t length = strlen(hex);
    uint8_t *data = malloc(length / 2 + 1);
    assert_non_null(data);
    assert_true(from_hex(hex, length, data) >= 0);
    return bytes_of(data, length / 2);
}

#endif
