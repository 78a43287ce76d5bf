/*
 * loggers.h - the loggers of a broker by name, as BROKER_LOGGER configs show and change them (KIP-412).
 *
 * "root" is what this process writes: its level is that of the cluster's log. The others carry the
 * names that Kafka's loggers of the same work have; their levels are kept and shown, and are root's
 * until somebody sets them.
 *
 * Owner:   struct broker, by value; gone when it stops, as in Kafka.
 * Thread:  the broker's loop.
 */
#ifndef CAFKA_MOCKBROKER_LOGGERS_H
#define CAFKA_MOCKBROKER_LOGGERS_H

#include "util/bytes.h"
#include "util/error.h"
#include "util/log.h"

enum { LOGGER_COUNT = 8 };

/* Zeroed: nobody has set anything. */
struct loggers {
    const char *levels[LOGGER_COUNT]; /* NULL: as root */
};

const char *loggers_name(size_t i); /* in order of name */
const char *loggers_level(const struct loggers *loggers, size_t i, const struct log_sink *sink);

/*
 * Set one, or (level.data NULL) give up what was set. `apply` false: only look whether that can be.
 * ERR_INVALID_CONFIG no such logger or level; ERR_INVALID_REQUEST root can't be without a level.
 */
int loggers_set(struct loggers *loggers, struct str name, struct str level, bool apply,
                struct log_sink *sink, cafka_error *err);

#endif
