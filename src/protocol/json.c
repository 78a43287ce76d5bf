/*
 * json.c - see json.h.
 */
#include "protocol/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- UTF-8 --- */

/* Length of the valid UTF-8 sequence at p, or 0. */
static size_t utf8_length(const uint8_t *p, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = p[0] < 0x80       ? 1
                    : p[0] >> 5 == 6  ? 2
                    : p[0] >> 4 == 14 ? 3
                    : p[0] >> 3 == 30 ? 4
                                      : 0;
    if (length <= 1)
        return length;
    if (length > left)
        return 0;
    uint32_t code = p[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[length] || code > 0x10ffff || surrogate ? 0 : length;
}

static size_t utf8_put(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)((0xf00u >> length & 0xff) | code);
    return length;
}

/* --- writing --- */

static void put_escape(struct buffer *out, uint8_t c)
{
    static const char names[] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    if (c == '"' || c == '\\') {
        buffer_put_u8(out, '\\');
        buffer_put_u8(out, c);
    } else if (c < sizeof names && names[c]) {
        buffer_put_u8(out, '\\');
        buffer_put_u8(out, (uint8_t)names[c]);
    } else {
        buffer_printf(out, "\\u%04x", c);
    }
}

void json_put_string(struct buffer *out, struct str text)
{
    const uint8_t *p = (const uint8_t *)text.data;
    buffer_put_u8(out, '"');
    for (size_t i = 0, plain = 0; i <= text.size;) {
        size_t length = i < text.size ? utf8_length(p + i, text.size - i) : 0;
        bool special = i < text.size && (p[i] < 0x20 || p[i] == '"' || p[i] == '\\');
        if (length && !special) {
            i += length;
            continue;
        }
        if (i > plain)
            buffer_put(out, p + plain, i - plain);
        if (i < text.size) {
            if (special)
                put_escape(out, p[i]);
            else
                buffer_put(out, "\xef\xbf\xbd", 3);
        }
        plain = ++i;
    }
    buffer_put_u8(out, '"');
}

void json_put_int(struct buffer *out, int64_t value)
{
    char text[24];
    buffer_put(out, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

/* What printf and strtod have between units and tenths: the application's locale may say a comma. */
static char decimal_point(void)
{
    char text[16];
    snprintf(text, sizeof text, "%.1f", 0.5);
    return text[1];
}

void json_put_double(struct buffer *out, double value)
{
    if (isnan(value) || isinf(value)) {
        buffer_printf(out, "\"%s\"", isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    char *point = strchr(text, decimal_point());
    if (point)
        *point = '.';
    buffer_put(out, text, strlen(text));
    if (!strpbrk(text, ".e"))
        buffer_put(out, ".0", 2);
}

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void json_put_base64(struct buffer *out, struct bytes data)
{
    size_t length = (data.size + 2) / 3 * 4;
    uint8_t *p = buffer_extend(out, length + 2);
    if (!p)
        return;
    *p++ = '"';
    for (size_t i = 0; i < data.size; i += 3) {
        size_t left = data.size - i;
        uint32_t group = (uint32_t)data.data[i] << 16 |
                         (left > 1 ? (uint32_t)data.data[i + 1] << 8 : 0) |
                         (left > 2 ? data.data[i + 2] : 0);
        *p++ = (uint8_t)base64_digits[group >> 18];
        *p++ = (uint8_t)base64_digits[group >> 12 & 63];
        *p++ = left > 1 ? (uint8_t)base64_digits[group >> 6 & 63] : '=';
        *p++ = left > 2 ? (uint8_t)base64_digits[group & 63] : '=';
    }
    *p = '"';
}

void json_put_hex(struct buffer *out, struct bytes data)
{
    char *p = (char *)buffer_reserve(out, 2 * data.size + 3);
    if (!p)
        return;
    p[0] = '"';
    to_hex(data.data, data.size, p + 1);
    p[2 * data.size + 1] = '"';
    out->size += 2 * data.size + 2;
}

/* --- reading: tokens --- */

bool json_fail(struct json *j, const char *problem)
{
    if (!j->problem)
        j->problem = problem;
    return false;
}

bool json_fail_memory(struct json *j)
{
    j->no_memory = !j->problem;
    return json_fail(j, "no memory");
}

char json_peek(struct json *j)
{
    if (j->problem)
        return 0;
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
        j->at++;
    return j->at < j->end ? *j->at : 0;
}

bool json_take(struct json *j, char punctuation)
{
    if (j->problem)
        return false;
    if (json_peek(j) != punctuation) {
        switch (punctuation) {
        case '{': return json_fail(j, "an object was expected");
        case '[': return json_fail(j, "an array was expected");
        case ':': return json_fail(j, "a colon was expected");
        default: return json_fail(j, "a comma or a closing bracket was expected");
        }
    }
    j->at++;
    return true;
}

bool json_end(struct json *j)
{
    if (json_peek(j))
        return json_fail(j, "text behind the value");
    return !j->problem;
}

bool json_take_raw_string(struct json *j, struct str *raw, bool *escaped)
{
    if (json_peek(j) != '"')
        return json_fail(j, "a string was expected");
    const char *start = j->at + 1, *p = start;
    *escaped = false;
    for (; p < j->end && *p != '"'; p++) {
        if ((uint8_t)*p < 0x20)
            return json_fail(j, "a control character in a string");
        if (*p == '\\') {
            *escaped = true;
            p++;
        }
    }
    if (p >= j->end)
        return json_fail(j, "a string without an end");
    *raw = (struct str){start, (size_t)(p - start)};
    j->at = p + 1;
    return true;
}

static bool take_four_hex(const char **p, const char *end, uint32_t *out)
{
    uint8_t two[2];
    if (end - *p < 4 || from_hex(*p, 4, two) != 2)
        return false;
    *out = load_be16(two);
    *p += 4;
    return true;
}

/* Behind "\u"; a lone surrogate becomes U+FFFD. */
static bool take_code_point(const char **p, const char *end, uint32_t *out)
{
    uint32_t code, low;
    if (!take_four_hex(p, end, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00 && end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u') {
        const char *after = *p + 2;
        if (take_four_hex(&after, end, &low) && low >= 0xdc00 && low < 0xe000) {
            *p = after;
            *out = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            return true;
        }
    }
    *out = code >= 0xd800 && code < 0xe000 ? 0xfffd : code;
    return true;
}

/* `out` has room for raw.size bytes: no escape is shorter than what it stands for. */
static bool unescape(struct str raw, char *out, size_t *size)
{
    static const char escapes[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *p = raw.data, *end = raw.data + raw.size;
    char *o = out;
    while (p < end) {
        if (*p != '\\') {
            *o++ = *p++;
            continue;
        }
        char c = *++p;
        p++;
        const char *found = c ? strchr(escapes, c) : NULL;
        uint32_t code;
        if (found)
            *o++ = values[found - escapes];
        else if (c == 'u' && take_code_point(&p, end, &code))
            o += utf8_put(o, code);
        else
            return false;
    }
    *size = (size_t)(o - out);
    return true;
}

bool json_take_string(struct json *j, struct arena *arena, struct str *out)
{
    bool escaped;
    if (!json_take_raw_string(j, out, &escaped))
        return false;
    if (!escaped)
        return true;
    char *text = arena_alloc(arena, out->size);
    if (!text)
        return json_fail_memory(j);
    size_t size = 0;
    if (!unescape(*out, text, &size))
        return json_fail(j, "a bad escape in a string");
    *out = (struct str){text, size};
    return true;
}

/* The text of a number or word. */
static struct str take_word(struct json *j)
{
    (void)json_peek(j);
    const char *start = j->at;
    while (j->at < j->end && (strchr("+-.", *j->at) || (*j->at >= '0' && *j->at <= '9') ||
                              ((*j->at | 0x20) >= 'a' && (*j->at | 0x20) <= 'z')))
        j->at++;
    return (struct str){start, (size_t)(j->at - start)};
}

static bool is_number(struct str word, bool fraction)
{
    const char *p = word.data, *end = p + word.size;
    if (p < end && *p == '-')
        p++;
    const char *digits = p;
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    if (p == digits || (*digits == '0' && p - digits > 1))
        return false;
    if (!fraction)
        return p == end;
    if (p < end && *p == '.') {
        digits = ++p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == digits)
            return false;
    }
    if (p < end && (*p | 0x20) == 'e') {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        digits = p;
        while (p < end && *p >= '0' && *p <= '9')
            p++;
        if (p == digits)
            return false;
    }
    return p == end;
}

bool json_take_int(struct json *j, int64_t low, int64_t high, int64_t *out)
{
    if (j->problem)
        return false;
    struct str word = take_word(j);
    if (!is_number(word, false))
        return json_fail(j, "a whole number was expected");
    bool negative = *word.data == '-';
    uint64_t value = 0, most = (uint64_t)INT64_MAX + negative;
    for (size_t i = negative; i < word.size; i++) {
        uint64_t digit = (uint64_t)(word.data[i] - '0');
        if (value > (most - digit) / 10)
            return json_fail(j, "a number is too large");
        value = 10 * value + digit;
    }
    int64_t number = negative ? (int64_t)(0 - value) : (int64_t)value;
    if (number < low || number > high)
        return json_fail(j, "a number is outside the range of its field");
    *out = number;
    return true;
}

static bool take_named_double(struct json *j, double *out)
{
    struct str name;
    bool escaped;
    if (!json_take_raw_string(j, &name, &escaped))
        return false;
    if (str_is(name, "NaN"))
        *out = NAN;
    else if (str_is(name, "Infinity"))
        *out = INFINITY;
    else if (str_is(name, "-Infinity"))
        *out = -INFINITY;
    else
        return json_fail(j, "a number was expected");
    return true;
}

bool json_take_double(struct json *j, double *out)
{
    if (json_peek(j) == '"')
        return take_named_double(j, out);
    if (j->problem)
        return false;
    struct str word = take_word(j);
    char text[400];
    if (word.size >= sizeof text || !is_number(word, true))
        return json_fail(j, "a number was expected");
    memcpy(text, word.data, word.size);
    text[word.size] = '\0';
    char *point = strchr(text, '.');
    if (point)
        *point = decimal_point();
    *out = strtod(text, NULL);
    return true;
}

bool json_take_bool(struct json *j, bool *out)
{
    if (j->problem)
        return false;
    struct str word = take_word(j);
    bool yes = str_is(word, "true");
    if (!yes && !str_is(word, "false"))
        return json_fail(j, "true or false was expected");
    *out = yes;
    return true;
}

bool json_take_null(struct json *j)
{
    if (json_peek(j) != 'n' || j->end - j->at < 4 || memcmp(j->at, "null", 4) != 0)
        return false;
    j->at += 4;
    return true;
}

static int base64_value(char c)
{
    const char *found = c ? strchr(base64_digits, c) : NULL;
    if (found)
        return (int)(found - base64_digits);
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool json_take_base64(struct json *j, struct arena *arena, struct bytes *out)
{
    struct str raw;
    if (!json_take_string(j, arena, &raw))
        return false;
    while (raw.size && raw.data[raw.size - 1] == '=')
        raw.size--;
    if (raw.size % 4 == 1)
        return json_fail(j, "base64 of an impossible length");
    uint8_t *data = arena_alloc(arena, raw.size + 1);
    if (!data)
        return json_fail_memory(j);
    size_t size = 0;
    uint32_t group = 0;
    for (size_t i = 0; i < raw.size; i++) {
        int value = base64_value(raw.data[i]);
        if (value < 0)
            return json_fail(j, "a character that base64 does not have");
        group = group << 6 | (uint32_t)value;
        if (i % 4)
            data[size++] = (uint8_t)(group >> (6 - 2 * (i % 4)));
    }
    *out = bytes_of(data, size);
    return true;
}

bool json_take_hex(struct json *j, struct arena *arena, struct bytes *out)
{
    struct str raw;
    if (!json_take_string(j, arena, &raw))
        return false;
    uint8_t *data = arena_alloc(arena, raw.size / 2 + 1);
    if (!data)
        return json_fail_memory(j);
    ptrdiff_t size = from_hex(raw.data, raw.size, data);
    if (size < 0)
        return json_fail(j, "hex digits in pairs were expected");
    *out = bytes_of(data, (size_t)size);
    return true;
}

/* --- reading: structure --- */

static bool skip_scalar(struct json *j)
{
    struct str word;
    bool escaped;
    if (json_peek(j) == '"')
        return json_take_raw_string(j, &word, &escaped);
    word = take_word(j);
    if (is_number(word, true) || str_is(word, "true") || str_is(word, "false") ||
        str_is(word, "null"))
        return true;
    return json_fail(j, "a value was expected");
}

/* Brackets are kept as bits, so depth is bounded; 1024 is far more than any message has. */
enum { MAX_DEPTH = 1024 };

bool json_take_any(struct json *j, struct str *raw)
{
    uint8_t objects[MAX_DEPTH / 8] = {0};
    size_t depth = 0;
    (void)json_peek(j);
    const char *start = j->at;
    for (;;) {
        char c = json_peek(j);
        bool opened = c == '{' || c == '[';
        if (opened) {
            if (depth == MAX_DEPTH)
                return json_fail(j, "nested too deep");
            uint8_t bit = (uint8_t)(1u << depth % 8);
            objects[depth / 8] = (uint8_t)((objects[depth / 8] & ~bit) | (c == '{' ? bit : 0));
            depth++;
            j->at++;
        } else if (!skip_scalar(j)) {
            return false;
        }
        /* Close what ends here; after that either everything is done or another item follows. */
        while (depth) {
            bool object = objects[(depth - 1) / 8] >> (depth - 1) % 8 & 1;
            c = json_peek(j);
            if (c == (object ? '}' : ']')) {
                j->at++;
                depth--;
                opened = false;
                continue;
            }
            if (!opened && !json_take(j, ','))
                return false;
            struct str key;
            bool escaped;
            if (object && (!json_take_raw_string(j, &key, &escaped) || !json_take(j, ':')))
                return false;
            break;
        }
        if (!depth)
            break;
    }
    *raw = (struct str){start, (size_t)(j->at - start)};
    return true;
}

bool json_element(struct json *j, bool *first)
{
    if (json_peek(j) == ']') {
        j->at++;
        return false;
    }
    if (!*first && !json_take(j, ','))
        return false;
    *first = false;
    return !j->problem;
}

bool json_member(struct json *j, struct arena *arena, bool *first, struct str *key)
{
    if (json_peek(j) == '}') {
        j->at++;
        return false;
    }
    if (!*first && !json_take(j, ','))
        return false;
    *first = false;
    return json_take_string(j, arena, key) && json_take(j, ':');
}

bool json_count_elements(const struct json *j, size_t *count)
{
    struct json scan = *j;
    struct str value;
    bool first = true;
    *count = 0;
    if (!json_take(&scan, '['))
        return false;
    while (json_element(&scan, &first)) {
        if (!json_take_any(&scan, &value))
            return false;
        ++*count;
    }
    return !scan.problem;
}
