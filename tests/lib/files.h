/*
 * files.h - where tests find data: committed golden files, and the shared golden data if it is here.
 */
#ifndef CAFKA_TESTS_LIB_FILES_H
#define CAFKA_TESTS_LIB_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "util/bytes.h"

/* Path of a file of the source tree, "tests/golden/…"; valid until the next call but one. */
const char *source_path(const char *relative);

/*
 * Path inside the shared golden data ($CAFKA_SHARED/golden, by default ../shared beside the source
 * tree), or NULL when that is not here; then "skipped: golden data not found" has been printed.
 */
const char *golden_path(const char *relative);

/* The whole file, terminated by a 0 that size does not count; free() it. NULL if it can't be read. */
char *file_read(const char *path, size_t *size);

/* Calls `each` with every line (without its end) of a file; false if it can't be read. */
bool file_lines(const char *path, void (*each)(struct str line, void *user), void *user);

/* Calls `each` with the path of every file in a directory whose name ends so, in order of names. */
bool directory_files(const char *path, const char *ending,
                     void (*each)(const char *path, void *user), void *user);

#endif
