/*
 * config_def.c - see config_def.h.
 */
#include "mockbroker/config_def.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "protocol/error_codes.h"

static struct str trimmed(const char *text)
{
    struct str s = str_of(text);
    while (s.size && (unsigned char)s.data[0] <= ' ')
        s.data++, s.size--;
    while (s.size && (unsigned char)s.data[s.size - 1] <= ' ')
        s.size--;
    return s;
}

/* Copy into a small buffer so that the C library's parsers see an end; false if it does not fit. */
static bool terminated(struct str s, char *out, size_t size)
{
    if (!s.size || s.size >= size)
        return false;
    memcpy(out, s.data, s.size);
    out[s.size] = '\0';
    return true;
}

static bool parse_long(struct str s, int64_t *out)
{
    char text[32];
    if (!terminated(s, text, sizeof text))
        return false;
    const char *digits = text + (*text == '+' || *text == '-');
    if (*digits < '0' || *digits > '9')
        return false;
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || *end)
        return false;
    *out = n;
    return true;
}

/* What Java's Double.parseDouble takes: NaN (which no range keeps out), a suffix, hexadecimal with p. */
static bool parse_double(struct str s, double *out)
{
    char text[64], *end;
    if (!terminated(s, text, sizeof text))
        return false;
    const char *digits = text + (*text == '+' || *text == '-');
    bool word = !strcmp(digits, "NaN") || !strcmp(digits, "Infinity");
    if (!word && *digits != '.' && (*digits < '0' || *digits > '9'))
        return false; /* other spellings of the two that C knows */
    *out = strtod(text, &end);
    if (!word && strpbrk(text, "xX") && !strpbrk(text, "pP"))
        return false;
    if (!word && *end && strchr("dDfF", *end))
        end++;
    return !*end && end > digits;
}

int64_t config_value_long(const char *value)
{
    int64_t n = 0;
    return value && parse_long(trimmed(value), &n) ? n : 0;
}

double config_value_double(const char *value)
{
    double n = 0;
    return value && parse_double(trimmed(value), &n) ? n : 0;
}

static bool is_word(struct str s, const char *word)
{
    return s.size == strlen(word) && !strncasecmp(s.data, word, s.size);
}

bool config_value_bool(const char *value)
{
    return value && is_word(trimmed(value), "true");
}

/* The next item of a comma-separated list, trimmed; false at the end. */
static bool next_item(const char **at, struct str *out)
{
    if (!*at)
        return false;
    const char *comma = strchr(*at, ',');
    struct str s = {*at, comma ? (size_t)(comma - *at) : strlen(*at)};
    while (s.size && (unsigned char)s.data[0] <= ' ')
        s.data++, s.size--;
    while (s.size && (unsigned char)s.data[s.size - 1] <= ' ')
        s.size--;
    *at = comma ? comma + 1 : NULL;
    *out = s;
    return true;
}

bool config_value_has(const char *value, const char *item)
{
    struct str s;
    for (const char *at = value; next_item(&at, &s);)
        if (str_is(s, item))
            return true;
    return false;
}

static const char *type_name(enum config_type type)
{
    switch (type) {
    case CONFIG_INT: return "INT";
    case CONFIG_SHORT: return "SHORT";
    case CONFIG_LONG: return "LONG";
    case CONFIG_DOUBLE: return "DOUBLE";
    case CONFIG_BOOLEAN: return "BOOLEAN";
    case CONFIG_LIST: return "LIST";
    case CONFIG_CLASS: return "CLASS";
    case CONFIG_PASSWORD: return "PASSWORD";
    default: return "STRING";
    }
}

static int refuse(const struct config_def *def, const char *value, cafka_error *err, const char *why)
{
    return error_set(err, ERR_INVALID_CONFIG, "Invalid value %s for configuration %s: %s", value,
                     def->name, why);
}

/* Bounds of "[low,...,high]" or "[low,...]"; false when the range is a list of words. */
static bool range_bounds(const char *range, double *low, double *high)
{
    const char *dots = range ? strstr(range, ",...") : NULL;
    if (!dots || *range != '[')
        return false;
    *low = strtod(range + 1, NULL);
    *high = dots[4] == ',' ? strtod(dots + 5, NULL) : HUGE_VAL;
    return true;
}

static int check_number(const struct config_def *def, const char *value, double n, cafka_error *err)
{
    double low, high;
    char why[64];
    if (!range_bounds(def->range, &low, &high))
        return CAFKA_OK;
    if (n == -1 && strstr(def->range, " or -1"))
        return CAFKA_OK;
    if (n < low) {
        snprintf(why, sizeof why, "Value must be at least %.15g", low);
        return refuse(def, value, err, why);
    }
    if (n > high) {
        snprintf(why, sizeof why, "Value must be no more than %.15g", high);
        return refuse(def, value, err, why);
    }
    return CAFKA_OK;
}

/* Is the word one of "[a, b, c]"? */
static bool range_has(const char *range, struct str word)
{
    size_t length = strlen(range);
    const char *at = range + 1, *end = range + length - 1;
    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - at) == word.size && !memcmp(at, word.data, word.size))
            return true;
        at = stop + 1;
        while (at < end && *at == ' ')
            at++;
    }
    return false;
}

static int check_words(const struct config_def *def, struct str word, cafka_error *err)
{
    char shown[80], why[160];
    if (!def->range || def->range[0] != '[' || strstr(def->range, "]:[") ||
        range_has(def->range, word))
        return CAFKA_OK;
    snprintf(shown, sizeof shown, "%.*s", STR_ARG(word));
    snprintf(why, sizeof why, "String must be one of: %.*s", (int)strlen(def->range) - 2,
             def->range + 1);
    return refuse(def, shown, err, why);
}

static size_t count_digits(struct str s)
{
    size_t n = 0;
    while (n < s.size && s.data[n] >= '0' && s.data[n] <= '9')
        n++;
    return n;
}

/* "[partition]:[broker],…" with empty items too, or "*" alone: what throttled.replicas takes. */
static bool throttled_replicas(const char *value)
{
    struct str s;
    if (str_is(trimmed(value), "*"))
        return true;
    for (const char *at = value; next_item(&at, &s);) {
        size_t partition = count_digits(s), colon = partition + 1;
        if (!s.size)
            continue;
        if (!partition || colon >= s.size || s.data[partition] != ':' ||
            count_digits((struct str){s.data + colon, s.size - colon}) != s.size - colon)
            return false;
    }
    return true;
}

static int check_list(const struct config_def *def, const char *value, cafka_error *err)
{
    if (def->range && strstr(def->range, "]:["))
        return throttled_replicas(value)
                   ? CAFKA_OK
                   : refuse(def, value, err,
                            "must be the literal '*' or a list of the form partition:broker");
    struct str s;
    if (!trimmed(value).size)
        return CAFKA_OK; /* an empty list */
    for (const char *at = value; next_item(&at, &s);) {
        int rc = check_words(def, s, err);
        if (rc)
            return rc;
    }
    return CAFKA_OK;
}

int config_value_check(const struct config_def *def, const char *value, cafka_error *err)
{
    struct str s = trimmed(value);
    int64_t n;
    double d;
    char why[64];
    switch (def->type) {
    case CONFIG_BOOLEAN:
        if (is_word(s, "true") || is_word(s, "false"))
            return CAFKA_OK;
        return refuse(def, value, err, "Expected value to be either true or false");
    case CONFIG_INT:
    case CONFIG_SHORT:
    case CONFIG_LONG: {
        int64_t most = def->type == CONFIG_INT     ? INT32_MAX
                       : def->type == CONFIG_SHORT ? INT16_MAX
                                                   : INT64_MAX;
        if (!parse_long(s, &n) || n > most || n < -most - 1) {
            snprintf(why, sizeof why, "Not a number of type %s", type_name(def->type));
            return refuse(def, value, err, why);
        }
        return check_number(def, value, (double)n, err);
    }
    case CONFIG_DOUBLE:
        if (!parse_double(s, &d))
            return refuse(def, value, err, "Not a number of type DOUBLE");
        return check_number(def, value, d, err);
    case CONFIG_LIST: return check_list(def, value, err);
    case CONFIG_STRING: return check_words(def, s, err);
    default: return CAFKA_OK;
    }
}
