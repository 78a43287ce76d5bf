/*
 * format.c - see format.h.
 */
#include "config.h"

#include "cli/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/options.h"

bool format_check(const char *format)
{
    for (const char *c = format; *c; c++) {
        if (*c != '%' && *c != '\\')
            continue;
        const char *known = *c == '%' ? "tpoksTh%" : "nt\\";
        if (!c[1]) {
            complain("-f: nothing follows the last %c", *c);
            return false;
        }
        if (!strchr(known, c[1])) {
            complain("-f: %c%c stands for nothing", c[0], c[1]);
            return false;
        }
        c++;
    }
    return true;
}

static void put(const void *data, size_t size)
{
    if (size)
        fwrite_unlocked(data, 1, size, stdout);
}

static void put_headers(const cafka_record_view *r)
{
    cafka_header h;
    for (size_t i = 0; !cafka_record_view_header(r, NULL, i, &h); i++) {
        if (i)
            putchar_unlocked(',');
        put(h.name, h.name_size);
        if (h.value)
            putchar_unlocked('=');
        put(h.value, h.value_size);
    }
}

static void put_field(char letter, const cafka_record_view *r)
{
    switch (letter) {
    case 't': fputs(r->topic, stdout); break;
    case 'p': printf("%d", r->partition); break;
    case 'o': printf("%" PRId64, r->offset); break;
    case 'k': put(r->key, r->key_size); break;
    case 's': put(r->value, r->value_size); break;
    case 'T': printf("%" PRId64, r->timestamp_ms); break;
    case 'h': put_headers(r); break;
    default: putchar_unlocked(letter); /* %% */
    }
}

void format_print(const char *format, const cafka_record_view *r)
{
    for (const char *c = format; *c; c++) {
        if (*c == '%')
            put_field(*++c, r);
        else if (*c != '\\')
            putchar_unlocked(*c);
        else
            putchar_unlocked(*++c == 'n' ? '\n' : *c == 't' ? '\t' : *c);
    }
}
