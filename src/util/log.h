/*
 * log.h - where a room's words go: one callback, a level, and a prefix that says who speaks.
 *
 * A struct log is a small value that a room keeps; it may be zero (silent). The level is compared
 * before anything is formatted. Nothing on a per-record path logs. Never call it with a lock held.
 */
#ifndef CAFKA_UTIL_LOG_H
#define CAFKA_UTIL_LOG_H

#include <stdarg.h>

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };

typedef void log_write_fn(void *user, enum log_level level, const char *area, const char *message);

struct log_sink {
    log_write_fn *write; /* NULL: silent */
    void *user;
    enum log_level level; /* what is above it is not written */
};

struct log {
    const struct log_sink *sink;
    const char *area; /* "conn", "metadata", "producer", … ; a literal */
};

static inline int log_wants(struct log log, enum log_level level)
{
    return log.sink && log.sink->write && level <= log.sink->level;
}

void log_at(struct log log, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(log, ...) \
    do { \
        if (log_wants((log), LOG_ERROR)) \
            log_at((log), LOG_ERROR, __VA_ARGS__); \
    } while (0)
#define log_warn(log, ...) \
    do { \
        if (log_wants((log), LOG_WARN)) \
            log_at((log), LOG_WARN, __VA_ARGS__); \
    } while (0)
#define log_info(log, ...) \
    do { \
        if (log_wants((log), LOG_INFO)) \
            log_at((log), LOG_INFO, __VA_ARGS__); \
    } while (0)
#define log_debug(log, ...) \
    do { \
        if (log_wants((log), LOG_DEBUG)) \
            log_at((log), LOG_DEBUG, __VA_ARGS__); \
    } while (0)

#endif
