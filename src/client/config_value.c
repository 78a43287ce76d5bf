/*
 * config_value.c - see config_value.h.
 */
#include "client/config_value.h"

#include <string.h>

#include "env/env.h"
#include "util/alloc.h"
#include "util/bytes.h"
#include "util/error.h"

#define DEFAULT_PORT 9092

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static struct str trim(const char *text, size_t size)
{
    while (size && is_blank(*text)) {
        text++;
        size--;
    }
    while (size && is_blank(text[size - 1]))
        size--;
    return (struct str){text, size};
}

static bool same_word(struct str a, struct str b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++)
        if (lower(a.data[i]) != lower(b.data[i]))
            return false;
    return true;
}

static bool number_of(struct str s, int64_t *out)
{
    bool negative = s.size && s.data[0] == '-';
    size_t i = s.size && (s.data[0] == '-' || s.data[0] == '+');
    if (i == s.size)
        return false;
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX, n = 0;
    for (; i < s.size; i++) {
        if (!is_digit(s.data[i]))
            return false;
        unsigned digit = (unsigned)(s.data[i] - '0');
        if (n > (limit - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *out = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

bool parse_int64(const char *text, int64_t *out)
{
    return number_of(trim(text, strlen(text)), out);
}

static bool decimal_of(struct str s, double *out)
{
    bool negative = s.size && s.data[0] == '-';
    size_t i = s.size && (s.data[0] == '-' || s.data[0] == '+'), digits = 0;
    double n = 0, scale = 1;
    for (; i < s.size && is_digit(s.data[i]); i++, digits++)
        n = n * 10 + (s.data[i] - '0');
    if (i < s.size && s.data[i] == '.')
        for (i++; i < s.size && is_digit(s.data[i]); i++, digits++)
            n += (s.data[i] - '0') * (scale /= 10);
    if (!digits || i != s.size || s.size > 40)
        return false;
    *out = negative ? -n : n;
    return true;
}

bool parse_decimal(const char *text, double *out)
{
    return decimal_of(trim(text, strlen(text)), out);
}

bool parse_bool(const char *text, bool *out)
{
    struct str s = trim(text, strlen(text));
    *out = same_word(s, str_of("true"));
    return *out || same_word(s, str_of("false"));
}

/* ---- durations and servers ---- */

static bool take_sign(const char **at)
{
    bool negative = **at == '-';
    if (negative || **at == '+')
        ++*at;
    return negative;
}

/* One part of a duration, "5M", "-5M" or "0.5S": what it comes to (only seconds have a fraction, after a dot
 * or a comma), and its letter. */
static bool duration_part(const char **at, int64_t *whole, int64_t *nanos, char *unit)
{
    const char *p = *at;
    bool negative = take_sign(&p);
    *whole = *nanos = 0;
    if (!is_digit(*p))
        return false;
    for (; is_digit(*p); p++)
        if (__builtin_mul_overflow(*whole, 10, whole) ||
            __builtin_sub_overflow(*whole, *p - '0', whole))
            return false; /* counted downwards, since there is one more negative number */
    bool fraction = *p == '.' || *p == ',';
    if (fraction) {
        int64_t scale = 100000000;
        for (p++; is_digit(*p); p++, scale /= 10) {
            if (!scale)
                return false; /* ten digits: finer than a nanosecond */
            *nanos += (*p - '0') * scale;
        }
    }
    *unit = lower(*p);
    *at = p + 1;
    if (negative)
        *nanos = -*nanos;
    else if (__builtin_sub_overflow(0, *whole, whole))
        return false;
    return *unit && (!fraction || *unit == 's');
}

/* Seconds and nanoseconds with a sign, as they come up while the parts are added, in ms. */
static bool total_ms(int64_t seconds, int64_t nanos, bool negate, int64_t *out)
{
    if (negate) {
        if (__builtin_sub_overflow(0, seconds, &seconds))
            return false;
        nanos = -nanos;
    }
    if (nanos < 0) {
        if (__builtin_sub_overflow(seconds, 1, &seconds))
            return false;
        nanos += 1000000000;
    }
    if (seconds < 0)
        return false;
    int64_t ms = nanos / 1000000;
    if (__builtin_mul_overflow(seconds, 1000, &seconds) ||
        __builtin_add_overflow(seconds, ms, &seconds))
        seconds = INT64_MAX;
    *out = seconds;
    return true;
}

bool parse_duration_ms(const char *text, int64_t *out)
{
    static const struct {
        char unit;
        bool time;
        int64_t seconds;
    } units[] = {{'d', false, 86400}, {'h', true, 3600}, {'m', true, 60}, {'s', true, 1}};
    bool negate = take_sign(&text), time = false;
    if (lower(*text) != 'p')
        return false;
    text++;
    int64_t seconds = 0, nanos = 0;
    size_t next = 0, parts = 0;
    while (*text) {
        if (!time && lower(*text) == 't') {
            time = true;
            text++;
        }
        int64_t whole;
        char unit;
        if (!duration_part(&text, &whole, &nanos, &unit))
            return false;
        while (next < 4 && (units[next].unit != unit || units[next].time != time))
            next++;
        if (next == 4 || __builtin_mul_overflow(whole, units[next++].seconds, &whole) ||
            __builtin_add_overflow(seconds, whole, &seconds))
            return false;
        parts++;
    }
    return parts > 0 && total_ms(seconds, nanos, negate, out);
}

/* An address as in "fe80::1%eth0"; whether that interface is there shows when it is used. */
static bool is_ipv6(const char *text, size_t size)
{
    char copy[64];
    cafka_address address;
    const char *scope = memchr(text, '%', size);
    if (scope)
        size = (size_t)(scope - text);
    if (size >= sizeof copy)
        return false;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return address_parse(copy, 0, &address) && address.family == 6;
}

bool parse_server(const char *text, size_t size, const char **host, size_t *host_size,
                  uint16_t *port)
{
    for (size_t i = 0; i + 2 < size; i++)
        if (!memcmp(text + i, "://", 3)) { /* a listener's name in front, as Java allows */
            text += i + 3;
            size -= i + 3;
            break;
        }
    const char *colon = NULL;
    if (size && *text == '[') {
        const char *close = memchr(text, ']', size);
        if (!close)
            return false;
        *host = text + 1;
        *host_size = (size_t)(close - text) - 1;
        if (close + 1 != text + size)
            colon = close + 1;
    } else {
        colon = memchr(text, ':', size);
        const char *last = NULL;
        for (const char *p = colon; p && p < text + size; p++)
            if (*p == ':')
                last = p;
        if (last != colon)
            colon = NULL; /* a bare IPv6 address, and no port */
        *host = text;
        *host_size = colon ? (size_t)(colon - text) : size;
    }
    int64_t number = DEFAULT_PORT;
    if (colon && (*colon != ':' || !is_digit(colon[1 - (colon + 1 == text + size)]) ||
                  !number_of((struct str){colon + 1, (size_t)(text + size - colon) - 1}, &number)))
        return false;
    if (!*host_size || *host_size > 255 || number < 1 || number > 65535)
        return false;
    if (memchr(*host, ':', *host_size) && !is_ipv6(*host, *host_size))
        return false;
    for (size_t i = 0; i < *host_size; i++) {
        unsigned char c = (unsigned char)(*host)[i];
        if (c <= ' ' || c == '/' || c == '[' || c == ']' || c == '@' || c == 0x7f)
            return false;
    }
    *port = (uint16_t)number;
    return true;
}

/* ---- lists and ranges ---- */

bool list_next(const char **at, const char **item, size_t *size)
{
    if (!*at)
        return false;
    const char *comma = strchr(*at, ',');
    struct str s = trim(*at, comma ? (size_t)(comma - *at) : strlen(*at));
    *item = s.data;
    *size = s.size;
    *at = comma ? comma + 1 : NULL;
    return true;
}

/* "5", or "0 .. 900": are the bounds readable, and is n between them? */
static bool within(struct str part, cafka_config_type type, double n, int64_t whole)
{
    struct str low = part, high = part;
    for (size_t i = 0; i + 4 <= part.size; i++)
        if (!memcmp(part.data + i, " .. ", 4)) {
            low.size = i;
            high = (struct str){part.data + i + 4, part.size - i - 4};
        }
    if (type == CAFKA_TYPE_DOUBLE) {
        double from, to;
        return decimal_of(low, &from) && decimal_of(high, &to) && n >= from && n <= to;
    }
    int64_t from, to;
    return number_of(low, &from) && number_of(high, &to) && whole >= from && whole <= to;
}

static bool in_range(const char *range, cafka_config_type type, double n, int64_t whole)
{
    const char *at = range, *item;
    size_t size;
    while (list_next(&at, &item, &size))
        if (!size || within((struct str){item, size}, type, n, whole))
            return true;
    return false;
}

bool value_allowed(const struct property *property, const char *value)
{
    int64_t whole;
    return parse_int64(value, &whole) && in_range(property->range, property->type, 0, whole);
}

/* The table's own spelling of a word, or null. */
static struct str known_word(const char *range, struct str word)
{
    const char *at = range, *item;
    size_t size;
    while (list_next(&at, &item, &size))
        if (same_word((struct str){item, size}, word))
            return (struct str){item, size};
    return (struct str){0};
}

static struct str respell(const struct property *property, struct str word)
{
    for (size_t i = 0; i < value_spelling_count; i++)
        if (!strcmp(value_spellings[i].property, property->name) &&
            same_word(str_of(value_spellings[i].spelling), word))
            return str_of(value_spellings[i].means);
    return word;
}

/* ---- one value ---- */

/* A value as an error may show it: cut, printable, and nothing of a password. */
static const char *shown(const struct property *property, const char *value, char out[48])
{
    if (property->type == CAFKA_TYPE_PASSWORD)
        return "(hidden)";
    size_t i = 0;
    for (; i < 40 && value[i]; i++)
        out[i] = (unsigned char)value[i] < ' ' || value[i] == 0x7f ? '?' : value[i];
    memcpy(out + i, value[i] ? "..." : "", value[i] ? 4 : 1);
    return out;
}

static int refuse(const struct property *property, const char *said, const char *value,
                  const char *why, const char *allowed, cafka_error *err)
{
    char text[48];
    return error_set(err, CAFKA_ERR_CONFIG, "%s=%s: %s%s", said, shown(property, value, text), why,
                     allowed);
}

static int check_number(const struct property *property, const char *said, const char *value,
                        char **out, cafka_error *err)
{
    int64_t whole = 0;
    double n = 0;
    if (property->type == CAFKA_TYPE_DOUBLE) {
        if (!parse_decimal(value, &n))
            return refuse(property, said, value, "not a number such as 0.8", "", err);
    } else if (!parse_int64(value, &whole)) {
        return refuse(property, said, value, "not a whole number; it takes ", property->range, err);
    }
    if (!in_range(property->range, property->type, n, whole))
        return refuse(property, said, value, "out of range; it takes ", property->range, err);
    struct str kept = trim(value, strlen(value));
    *out = mem_strndup(kept.data, kept.size);
    return CAFKA_OK;
}

static int check_word(const struct property *property, const char *said, const char *value,
                      char **out, cafka_error *err)
{
    struct str word = respell(property, trim(value, strlen(value)));
    struct str known = known_word(property->range, word);
    if (known.data) {
        *out = mem_strndup(known.data, known.size);
        return CAFKA_OK;
    }
    static const char duration[] = "by_duration:";
    int64_t ms;
    if (strstr(property->range, duration) && word.size > sizeof duration - 1 &&
        same_word((struct str){word.data, sizeof duration - 1}, str_of(duration))) {
        char *kept = mem_strndup(word.data, word.size);
        if (kept && !parse_duration_ms(kept + sizeof duration - 1, &ms)) {
            mem_free(kept);
            return refuse(property, said, value,
                          "not an ISO-8601 duration such as by_duration:PT1H", "", err);
        }
        *out = kept;
        return CAFKA_OK;
    }
    return refuse(property, said, value, "not one of ", property->range, err);
}

static int check_list(const struct property *property, const char *said, const char *value,
                      char **out, cafka_error *err)
{
    bool servers = !strcmp(property->range, "host:port"), words = *property->range && !servers;
    struct buffer kept = {0};
    const char *at = trim(value, strlen(value)).size ? value : NULL, *item, *host;
    size_t size, host_size;
    uint16_t port;
    int rc = CAFKA_OK;
    while (!rc && list_next(&at, &item, &size)) {
        struct str word = {item, size};
        if (!size && (servers || words))
            continue; /* "a,,b" and a comma at the end do no harm */
        if (words) {
            word = known_word(property->range, respell(property, word));
            if (!word.data)
                rc = refuse(property, said, value, "takes only ", property->range, err);
        } else if (servers && !parse_server(item, size, &host, &host_size, &port)) {
            rc = refuse(property, said, value, "takes host:port, with commas between several", "",
                        err);
        }
        if (kept.size)
            buffer_put_u8(&kept, ',');
        buffer_put(&kept, word.data, word.size);
    }
    if (!rc)
        *out = buffer_string(&kept) ? mem_strdup((const char *)kept.data) : NULL;
    buffer_fini(&kept);
    return rc;
}

int value_check(const struct property *property, const char *said, const char *value, char **out,
                cafka_error *err)
{
    char *kept = NULL;
    bool truth;
    int rc = CAFKA_OK;
    switch (property->type) {
    case CAFKA_TYPE_BOOL:
        if (!parse_bool(value, &truth))
            return refuse(property, said, value, "not one of ", "true, false", err);
        kept = mem_strdup(truth ? "true" : "false");
        break;
    case CAFKA_TYPE_INT:
    case CAFKA_TYPE_LONG:
    case CAFKA_TYPE_DOUBLE: rc = check_number(property, said, value, &kept, err); break;
    case CAFKA_TYPE_ENUM: rc = check_word(property, said, value, &kept, err); break;
    case CAFKA_TYPE_LIST: rc = check_list(property, said, value, &kept, err); break;
    case CAFKA_TYPE_STRING:
    case CAFKA_TYPE_PASSWORD:
    case CAFKA_TYPE_CLASS:
        if (!*value && !strcmp(property->range, "non-empty"))
            return refuse(property, said, value, "must not be empty", "", err);
        /* Names go to brokers, with an int16 for their length. */
        if (property->type == CAFKA_TYPE_STRING && strlen(value) > INT16_MAX)
            return error_set(err, CAFKA_ERR_CONFIG, "%s: %zu bytes, and 32767 is the most", said,
                             strlen(value));
        kept = mem_strdup(value);
        break;
    }
    if (rc)
        return rc;
    if (!kept)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the value of %s", said);
    *out = kept;
    return CAFKA_OK;
}
