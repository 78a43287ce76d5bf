/*
 * record_fixture.h - what the tests of the record room share: golden lines, their files, bytes.
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

#include "util/alloc.h"
#include "util/bytes.h"

/* A whole file; NULL if it is not there. Freed with free(). */
static inline char *read_whole(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t capacity = 1 << 16, used = 0, got;
    char *text = malloc(capacity + 1);
    while (text && (got = fread(text + used, 1, capacity - used, f)) > 0)
        if ((used += got) == capacity)
            text = realloc(text, (capacity *= 2) + 1);
    fclose(f);
    if (text)
        text[used] = 0;
    *size = used;
    return text;
}

/* A path below the golden data: $CAFKA_SHARED/golden, or ../shared/golden beside the sources. */
static inline const char *golden_path(const char *name)
{
    static char path[4096];
    const char *shared = getenv("CAFKA_SHARED");
    if (shared)
        snprintf(path, sizeof path, "%s/golden/%s", shared, name);
    else
        snprintf(path, sizeof path, "%s/../shared/golden/%s", TOP_SRCDIR, name);
    return path;
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
