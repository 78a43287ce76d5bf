/*
 * fill.c - see fill.h.
 */
#include "client/fill.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/config.h"
#include "client/config_value.h"
#include "util/alloc.h"
#include "util/error.h"

void fill_problem(struct filling *f, int code, const char *format, ...)
{
    char one[200];
    va_list args;
    va_start(args, format);
    vsnprintf(one, sizeof one, format, args);
    va_end(args);
    size_t used = strlen(f->text), size = strlen(one) + (used ? 2 : 0);
    if (!f->problems++)
        f->code = code;
    if (used + size >= sizeof f->text) {
        f->unsaid++;
        return;
    }
    memcpy(f->text + used, "; ", used ? 2 : 0);
    memcpy(f->text + used + (used ? 2 : 0), one, strlen(one) + 1);
}

const char *fill_kind_name(unsigned kind)
{
    return kind == CAFKA_FOR_PRODUCER   ? "producer"
           : kind == CAFKA_FOR_CONSUMER ? "consumer"
                                        : "admin client";
}

int fill_verdict(const struct filling *f, cafka_error *err)
{
    if (!f->problems)
        return CAFKA_OK;
    if (f->code == CAFKA_ERR_MEMORY)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the settings of a %s",
                         fill_kind_name(f->kind));
    if (f->unsaid)
        return error_set(err, f->code, "%s: %s; and %u more", fill_kind_name(f->kind), f->text,
                         f->unsaid);
    return error_set(err, f->code, "%s: %s", fill_kind_name(f->kind), f->text);
}

/* ---- the values ---- */

const char *fill_text(struct filling *f, const char *name)
{
    return config_text(f->config, name, f->kind);
}

int64_t fill_number(struct filling *f, const char *name)
{
    int64_t n = 0;
    const char *text = fill_text(f, name);
    if (text)
        (void)parse_int64(text, &n); /* checked when it was set */
    return n;
}

int64_t fill_ms(struct filling *f, const char *name)
{
    int64_t ms = fill_number(f, name);
    return ms < FILL_FOR_EVER_MS ? ms : FILL_FOR_EVER_MS;
}

int32_t fill_int(struct filling *f, const char *name)
{
    return (int32_t)fill_number(f, name);
}

bool fill_truth(struct filling *f, const char *name)
{
    bool truth = false;
    const char *text = fill_text(f, name);
    if (text)
        (void)parse_bool(text, &truth); /* checked when it was set */
    return truth;
}

bool fill_is(struct filling *f, const char *name, const char *value)
{
    const char *text = fill_text(f, name);
    return text && !strcmp(text, value);
}

char *fill_copy(struct filling *f, const char *name)
{
    const char *text = fill_text(f, name);
    char *copy = mem_strdup(text);
    if (text && !copy)
        fill_problem(f, CAFKA_ERR_MEMORY, "no memory");
    return copy;
}

int fill_choice(struct filling *f, const char *name, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (fill_is(f, name, words[i]))
            return i;
    return 0;
}
