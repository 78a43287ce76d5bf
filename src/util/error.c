/*
 * error.c - see error.h.
 */
#include "util/error.h"

#include <stdio.h>
#include <string.h>

/* what they are for the analyzer */
#undef error_set
#undef error_set_flags
#undef error_errno

unsigned (*error_flags_hook)(int code);
const char *(*error_name_hook)(int code);

static const struct {
    int code;
    unsigned flags;
    const char *name;
} local_codes[] = {
    {CAFKA_OK, 0, "NONE"},
    {CAFKA_ERR_MEMORY, CAFKA_RETRIABLE, "CAFKA_ERR_MEMORY"},
    {CAFKA_ERR_ARGUMENT, 0, "CAFKA_ERR_ARGUMENT"},
    {CAFKA_ERR_CONFIG, CAFKA_FLAG_CONFIG, "CAFKA_ERR_CONFIG"},
    {CAFKA_ERR_TIMEOUT, CAFKA_RETRIABLE | CAFKA_FLAG_TIMEOUT, "CAFKA_ERR_TIMEOUT"},
    {CAFKA_ERR_WOULD_BLOCK, CAFKA_RETRIABLE, "CAFKA_ERR_WOULD_BLOCK"},
    {CAFKA_ERR_CLOSED, CAFKA_FATAL, "CAFKA_ERR_CLOSED"},
    {CAFKA_ERR_TOO_LARGE, 0, "CAFKA_ERR_TOO_LARGE"},
    {CAFKA_ERR_IN_CALLBACK, 0, "CAFKA_ERR_IN_CALLBACK"},
    {CAFKA_ERR_CONCURRENT, CAFKA_RETRIABLE, "CAFKA_ERR_CONCURRENT"},
    {CAFKA_ERR_WAKEUP, CAFKA_RETRIABLE, "CAFKA_ERR_WAKEUP"},
    {CAFKA_ERR_TRANSPORT, CAFKA_RETRIABLE, "CAFKA_ERR_TRANSPORT"},
    {CAFKA_ERR_RESOLVE, CAFKA_RETRIABLE, "CAFKA_ERR_RESOLVE"},
    {CAFKA_ERR_PROTOCOL, 0, "CAFKA_ERR_PROTOCOL"},
    {CAFKA_ERR_CORRUPT, 0, "CAFKA_ERR_CORRUPT"},
    {CAFKA_ERR_COMPRESSION, 0, "CAFKA_ERR_COMPRESSION"},
    {CAFKA_ERR_UNSUPPORTED, 0, "CAFKA_ERR_UNSUPPORTED"},
    {CAFKA_ERR_IO, 0, "CAFKA_ERR_IO"},
    {CAFKA_ERR_STATE, 0, "CAFKA_ERR_STATE"},
    {CAFKA_ERR_NO_OFFSET, 0, "CAFKA_ERR_NO_OFFSET"},
    {CAFKA_ERR_FORKED, CAFKA_FATAL, "CAFKA_ERR_FORKED"},
    {CAFKA_ERR_PURGED, 0, "CAFKA_ERR_PURGED"},
    {CAFKA_ERR_AUTH, CAFKA_FLAG_AUTH, "CAFKA_ERR_AUTH"},
    {CAFKA_ERR_SYSTEM, CAFKA_RETRIABLE, "CAFKA_ERR_SYSTEM"},
    {CAFKA_ERR_TRUNCATED, 0, "CAFKA_ERR_TRUNCATED"},
    {CAFKA_ERR_SERIALIZATION, 0, "CAFKA_ERR_SERIALIZATION"},
    {CAFKA_ERR_STALLED, CAFKA_RETRIABLE, "CAFKA_ERR_STALLED"},
    {CAFKA_END, 0, "CAFKA_END"},
};

unsigned error_flags(int code)
{
    for (size_t i = 0; i < sizeof local_codes / sizeof *local_codes; i++)
        if (local_codes[i].code == code)
            return local_codes[i].flags;
    return error_flags_hook ? error_flags_hook(code) : 0;
}

unsigned cafka_error_flags(int code)
{
    return error_flags(code);
}

const char *cafka_error_name(int code)
{
    for (size_t i = 0; i < sizeof local_codes / sizeof *local_codes; i++)
        if (local_codes[i].code == code)
            return local_codes[i].name;
    const char *name = error_name_hook ? error_name_hook(code) : NULL;
    return name ? name : "UNKNOWN_ERROR_CODE";
}

static void fill(cafka_error *err, int code, unsigned flags, const char *format, va_list args)
{
    if (!err || err->code != CAFKA_OK)
        return;
    vsnprintf(err->message, sizeof err->message, format, args);
    err->code = code;
    err->flags = error_flags(code) | flags;
}

int error_set(cafka_error *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, 0, format, args);
    va_end(args);
    return code;
}

int error_set_flags(cafka_error *err, int code, unsigned flags, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fill(err, code, flags, format, args);
    va_end(args);
    return code;
}

int error_errno(cafka_error *err, int code, int errno_value, const char *format, ...)
{
    if (!err || err->code != CAFKA_OK)
        return code;
    va_list args;
    va_start(args, format);
    fill(err, code, 0, format, args);
    va_end(args);
    size_t used = strlen(err->message);
    char reason[80] = "";
    /* The GNU and the POSIX strerror_r differ in what they return; strerror's table is enough. */
    snprintf(reason, sizeof reason, ": %s", strerror(errno_value));
    snprintf(err->message + used, sizeof err->message - used, "%s", reason);
    return code;
}

void error_prefix(cafka_error *err, const char *format, ...)
{
    if (!err || err->code == CAFKA_OK)
        return;
    char old[sizeof err->message];
    memcpy(old, err->message, sizeof old);
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, "%s", old);
}

void error_suffix(cafka_error *err, const char *format, ...)
{
    if (!err || err->code == CAFKA_OK)
        return;
    size_t used = strlen(err->message), room = sizeof err->message - used;
    va_list args;
    va_start(args, format);
    int size = vsnprintf(err->message + used, room, format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= room)
        err->message[used] = '\0';
}
