/*
 * json.h - JSON as text: write values, read them token by token. Exact 64-bit numbers, no tree.
 *
 * A tree of doubles (cJSON) can't hold int64, so messages go between text and structs directly.
 * The reader is strict about structure and never recurses, so depth costs nothing.
 *
 * Thread: any; a reader belongs to its caller.
 */
#ifndef CAFKA_PROTOCOL_JSON_H
#define CAFKA_PROTOCOL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/arena.h"
#include "util/bytes.h"

/* --- writing, to a buffer whose failure sticks --- */

void json_put_string(struct buffer *out,
                     struct str text); /* quoted; bytes that are no UTF-8 become U+FFFD */
void json_put_int(struct buffer *out, int64_t value);
void json_put_double(struct buffer *out, double value); /* the shortest text that reads back equal */
void json_put_base64(struct buffer *out,
                     struct bytes data); /* quoted; the standard alphabet with '=' */
void json_put_hex(struct buffer *out, struct bytes data); /* quoted */

/* --- reading --- */

struct json {
    const char *at, *end;
    const char *problem; /* the first one; NULL: none yet */
    bool no_memory;      /* the problem is not the text's */
};

static inline struct json json_of(struct str text)
{
    return (struct json){text.data, text.data + text.size, NULL, false};
}

/* All return false after a problem, or when the token is not there, which then is the problem. */
bool json_fail(struct json *j, const char *problem); /* always false */
bool json_fail_memory(struct json *j);               /* always false */
char json_peek(struct json *j); /* first byte of the next token; 0 at the end */
bool json_take(struct json *j, char punctuation);
bool json_end(struct json *j); /* nothing but space is left */

/* A string as it stands between its quotes; `escaped` says whether it holds a backslash. */
bool json_take_raw_string(struct json *j, struct str *raw, bool *escaped);
/* A string by value: a view of the text, or in the arena if it had escapes. */
bool json_take_string(struct json *j, struct arena *arena, struct str *out);
bool json_take_int(struct json *j, int64_t low, int64_t high, int64_t *out);
bool json_take_double(struct json *j, double *out); /* also "NaN", "Infinity", "-Infinity" */
bool json_take_bool(struct json *j, bool *out);
bool json_take_null(struct json *j); /* true only if null was there; no problem otherwise */
bool json_take_base64(struct json *j, struct arena *arena, struct bytes *out);
bool json_take_hex(struct json *j, struct arena *arena, struct bytes *out);
/* Any value, well nested; *raw gets its text. */
bool json_take_any(struct json *j, struct str *raw);

/*
 * Members and elements: json_take('{'), then `while (json_member(&j, arena, &first, &key))` with a
 * value read in the body, which consumes the closing brace. json_element() the same with '['.
 */
bool json_member(struct json *j, struct arena *arena, bool *first, struct str *key);
bool json_element(struct json *j, bool *first);
/* How many elements the array has that begins here, without moving. */
bool json_count_elements(const struct json *j, size_t *count);

#endif
