/*
 * error.h - filling a cafka_error. The struct and the local codes are in <cafka/error.h>.
 *
 * Flags of protocol errors come from a table that knows Kafka, and util does not: the protocol
 * room sets error_flags_hook at load time (see protocol/errors.c); until then only local codes
 * have flags.
 */
#ifndef CAFKA_UTIL_ERROR_H
#define CAFKA_UTIL_ERROR_H

#include <stdarg.h>

#include <cafka/error.h>

/* Keep the first cause, since later ones are echoes; returns code so that callers can too. */
int error_set(cafka_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same with further flags, such as CAFKA_FATAL or CAFKA_UNKNOWN_OUTCOME. */
int error_set_flags(cafka_error *err, int code, unsigned flags, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Put words in front of a message: "reading the config: " + what was there. */
void error_prefix(cafka_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Or behind it, if there is room for all of them. */
void error_suffix(cafka_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An error that came from the operating system: appends the text of errno_value. */
int error_errno(cafka_error *err, int code, int errno_value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline void error_clear(cafka_error *err) /* takes NULL */
{
    if (!err)
        return;
    err->code = CAFKA_OK;
    err->flags = 0;
    err->message[0] = '\0';
}

/* Default flags of a code. */
unsigned error_flags(int code);

#ifdef __clang_analyzer__ /* let it see what they return: the code */
#define error_set(err, code, ...) (error_set((err), (code), __VA_ARGS__), (code))
#define error_set_flags(err, code, ...) (error_set_flags((err), (code), __VA_ARGS__), (code))
#define error_errno(err, code, ...) (error_errno((err), (code), __VA_ARGS__), (code))
#endif

extern unsigned (*error_flags_hook)(int code);
extern const char *(*error_name_hook)(int code);

#endif
