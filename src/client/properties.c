/*
 * properties.c - see properties.h.
 *
 * A logical line is a line with its continuations; blank lines and comments are not continued. It
 * is unescaped into one buffer: the name, a 0, the value, a 0.
 */
#include "client/properties.h"

#include "util/bytes.h"
#include "util/error.h"

struct scanner {
    const char *at;
    unsigned line;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f';
}

static bool is_end(char c)
{
    return c == '\n' || c == '\r' || c == '\0';
}

static void skip_blanks(struct scanner *s)
{
    while (is_blank(*s->at))
        s->at++;
}

static void skip_newline(struct scanner *s)
{
    if (s->at[0] == '\r' && s->at[1] == '\n')
        s->at++;
    if (*s->at) {
        s->at++;
        s->line++;
    }
}

static void put_utf8(struct buffer *out, uint32_t c)
{
    if (c < 0x80) {
        buffer_put_u8(out, (uint8_t)c);
    } else if (c < 0x800) {
        buffer_put_u8(out, (uint8_t)(0xc0 | c >> 6));
        buffer_put_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
    } else if (c < 0x10000) {
        buffer_put_u8(out, (uint8_t)(0xe0 | c >> 12));
        buffer_put_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
        buffer_put_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
    } else {
        buffer_put_u8(out, (uint8_t)(0xf0 | c >> 18));
        buffer_put_u8(out, (uint8_t)(0x80 | (c >> 12 & 0x3f)));
        buffer_put_u8(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
        buffer_put_u8(out, (uint8_t)(0x80 | (c & 0x3f)));
    }
}

/* The four digits behind \u; false if they are not four. */
static bool take_unit(struct scanner *s, uint32_t *out)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        char c = s->at[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return false;
        unit = unit << 4 | digit;
    }
    s->at += 4;
    *out = unit;
    return true;
}

static int take_unicode(struct scanner *s, struct buffer *out, cafka_error *err)
{
    uint32_t unit, low;
    if (!take_unit(s, &unit))
        return error_set(err, CAFKA_ERR_CONFIG,
                         "line %u: \\u must be followed by four hexadecimal digits", s->line);
    if (unit >= 0xd800 && unit < 0xdc00 && s->at[0] == '\\' && s->at[1] == 'u') {
        struct scanner ahead = {s->at + 2, s->line};
        if (take_unit(&ahead, &low) && low >= 0xdc00 && low < 0xe000) {
            s->at = ahead.at;
            unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
        }
    }
    if (unit == 0 || (unit >= 0xd800 && unit < 0xe000))
        return error_set(err, CAFKA_ERR_CONFIG, "line %u: \\u%04x is no character of its own",
                         s->line, (unsigned)unit);
    put_utf8(out, unit);
    return CAFKA_OK;
}

/* What stands behind a backslash; a line that goes on is swallowed with the next one's indentation. */
static int take_escape(struct scanner *s, struct buffer *out, cafka_error *err)
{
    if (is_end(*s->at)) {
        skip_newline(s);
        skip_blanks(s);
        return CAFKA_OK;
    }
    char c = *s->at++;
    switch (c) {
    case 't': buffer_put_u8(out, '\t'); return CAFKA_OK;
    case 'n': buffer_put_u8(out, '\n'); return CAFKA_OK;
    case 'r': buffer_put_u8(out, '\r'); return CAFKA_OK;
    case 'f': buffer_put_u8(out, '\f'); return CAFKA_OK;
    case 'u': return take_unicode(s, out, err);
    default: buffer_put_u8(out, (uint8_t)c); return CAFKA_OK;
    }
}

static int take_name(struct scanner *s, struct buffer *out, cafka_error *err)
{
    while (!is_end(*s->at) && !is_blank(*s->at) && *s->at != '=' && *s->at != ':') {
        if (*s->at != '\\') {
            buffer_put_u8(out, (uint8_t)*s->at++);
            continue;
        }
        s->at++;
        int rc = take_escape(s, out, err);
        if (rc)
            return rc;
    }
    buffer_put_u8(out, 0);
    skip_blanks(s);
    if (*s->at == '=' || *s->at == ':') {
        s->at++;
        skip_blanks(s);
    }
    return CAFKA_OK;
}

static int take_value(struct scanner *s, struct buffer *out, cafka_error *err)
{
    while (!is_end(*s->at)) {
        if (*s->at != '\\') {
            buffer_put_u8(out, (uint8_t)*s->at++);
            continue;
        }
        s->at++;
        int rc = take_escape(s, out, err);
        if (rc)
            return rc;
    }
    buffer_put_u8(out, 0);
    return CAFKA_OK;
}

int properties_read(const char *text,
                    int (*each)(void *user, const char *name, const char *value, unsigned line,
                                cafka_error *err),
                    void *user, cafka_error *err)
{
    struct scanner s = {text, 1};
    struct buffer entry = {0};
    int rc = CAFKA_OK;
    while (!rc && *s.at) {
        skip_blanks(&s);
        if (*s.at == '#' || *s.at == '!')
            while (!is_end(*s.at))
                s.at++;
        if (is_end(*s.at)) {
            skip_newline(&s);
            continue;
        }
        unsigned line = s.line;
        buffer_clear(&entry);
        rc = take_name(&s, &entry, err);
        size_t value_at = entry.size;
        if (!rc)
            rc = take_value(&s, &entry, err);
        if (!rc && entry.failed)
            rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for line %u", line);
        if (!rc)
            rc = each(user, (const char *)entry.data, (const char *)entry.data + value_at, line,
                      err);
    }
    buffer_fini(&entry);
    return rc;
}
