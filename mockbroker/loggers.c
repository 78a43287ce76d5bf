/*
 * loggers.c - see loggers.h.
 */
#include "mockbroker/loggers.h"

#include <string.h>

#include "protocol/error_codes.h"

static const char *const names[LOGGER_COUNT] = {
    "kafka.cluster.Partition",
    "kafka.log.LogManager",
    "kafka.network.SocketServer",
    "kafka.server.BrokerServer",
    "kafka.server.KafkaApis",
    "org.apache.kafka.controller.QuorumController",
    "org.apache.kafka.storage.internals.log.UnifiedLog",
    "root",
};
enum { ROOT = LOGGER_COUNT - 1 };

/* Kafka's levels, and how much of our log each lets through. */
static const struct {
    const char *name;
    enum log_level level;
} levels[] = {
    {"DEBUG", LOG_DEBUG}, {"ERROR", LOG_ERROR}, {"FATAL", LOG_ERROR},
    {"INFO", LOG_INFO},   {"TRACE", LOG_TRACE}, {"WARN", LOG_WARN},
};

const char *loggers_name(size_t i)
{
    return names[i];
}

const char *loggers_level(const struct loggers *loggers, size_t i, const struct log_sink *sink)
{
    if (loggers->levels[i])
        return loggers->levels[i];
    if (i != ROOT)
        return loggers_level(loggers, ROOT, sink);
    switch (sink->level) {
    case LOG_TRACE: return "TRACE";
    case LOG_DEBUG: return "DEBUG";
    case LOG_WARN: return "WARN";
    case LOG_ERROR: return "ERROR";
    default: return "INFO";
    }
}

static int find_logger(struct str name, size_t *out, cafka_error *err)
{
    for (*out = 0; *out < LOGGER_COUNT; ++*out)
        if (str_is(name, names[*out]))
            return CAFKA_OK;
    return error_set(err, ERR_INVALID_CONFIG, "Logger %.*s does not exist!", STR_ARG(name));
}

static int find_level(struct str name, struct str text, size_t *out, cafka_error *err)
{
    for (*out = 0; *out < sizeof levels / sizeof *levels; ++*out)
        if (str_is(text, levels[*out].name))
            return CAFKA_OK;
    return error_set(err, ERR_INVALID_CONFIG,
                     "Cannot set the log level of %.*s to %.*s as it is not a supported log level. Valid "
                     "log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
                     STR_ARG(name), STR_ARG(text));
}

int loggers_set(struct loggers *loggers, struct str name, struct str level, bool apply,
                struct log_sink *sink, cafka_error *err)
{
    size_t logger, to = 0;
    int rc = level.data ? find_level(name, level, &to, err) : CAFKA_OK;
    if (!rc)
        rc = find_logger(name, &logger, err);
    if (!rc && !level.data && logger == ROOT)
        rc = error_set(err, ERR_INVALID_REQUEST,
                       "Removing the log level of the root logger is not allowed");
    if (rc || !apply)
        return rc;
    loggers->levels[logger] = level.data ? levels[to].name : NULL;
    if (logger == ROOT)
        sink->level = levels[to].level;
    return CAFKA_OK;
}
