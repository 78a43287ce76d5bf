/*
 * properties.h - the text format of Java's .properties files, read entry by entry.
 */
#ifndef CAFKA_CLIENT_PROPERTIES_H
#define CAFKA_CLIENT_PROPERTIES_H

#include <cafka/error.h>

/*
 * Call each(user, name, value, line, err) for every entry, in order; line is where it begins, from 1.
 * Stops at the first failure, of `each` too. Escapes become UTF-8.
 */
int properties_read(const char *text,
                    int (*each)(void *user, const char *name, const char *value, unsigned line,
                                cafka_error *err),
                    void *user, cafka_error *err);

#endif
