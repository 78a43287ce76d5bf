/*
 * json_same.h - are two JSON texts the same value? Objects without order, whole numbers exactly,
 * others as doubles, strings by what they mean. Not for speed.
 */
#ifndef CAFKA_TESTS_LIB_JSON_SAME_H
#define CAFKA_TESTS_LIB_JSON_SAME_H

#include <stdbool.h>

#include "util/bytes.h"

bool json_same(struct str a, struct str b);

/* The text of the value at `key` of an object; false if there is none. */
bool json_get(struct str object, const char *key, struct str *value);
/* The same, unpacked; the test ends if it is missing or of another kind. The result is malloc'ed. */
char *json_get_text(struct str object, const char *key);
int64_t json_get_int(struct str object, const char *key);

#endif
