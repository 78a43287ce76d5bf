/*
 * log.c - see log.h.
 */
#include "util/log.h"

#include <stdio.h>

void log_at(struct log log, enum log_level level, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    log.sink->write(log.sink->user, level, log.area ? log.area : "", message);
}
