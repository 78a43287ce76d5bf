/*
 * metrics.h - where the rooms say what they count, so that <cafka/metrics.h> can show it.
 *
 * A room keeps meters and counters in its own structs and describes them by a table of rows; a set
 * is one such struct under a group and perhaps a tag. Sets are only ever added, and live as long as
 * the client, so a reader walks them without a lock.
 *
 * Owner:  a set lies in the struct that it describes.
 * Thread: metrics_add() any; the snapshot any.
 */
#ifndef CAFKA_CLIENT_METRICS_H
#define CAFKA_CLIENT_METRICS_H

#include <stddef.h>

#include <cafka/metrics.h>

#include "util/meter.h"

enum metric_kind {
    METRIC_SUM,         /* of a meter: -total */
    METRIC_SUM_RATE,    /* -rate */
    METRIC_EVENTS,      /* how often: -total */
    METRIC_EVENTS_RATE, /* -rate */
    METRIC_AVERAGE,
    METRIC_MAX,
    METRIC_VALUE /* `value` of the set's struct, called on the reader's thread */
};

struct metric_row {
    const char *name;
    enum metric_kind kind;
    size_t offset; /* of the meter in the struct */
    double (*value)(const void *base, int64_t now_ms);
    double scale; /* 0: 1 */
};

struct metric_set {
    struct metric_set *next;
    const char *group;
    const char *tag_name, *tag_value; /* NULL: only client-id */
    const struct metric_row *rows;
    size_t row_count;
    void *base;
};

struct metrics {
    _Atomic(struct metric_set *) first; /* the newest */
    struct meter_windows windows;
};

void metrics_add(struct metrics *metrics, struct metric_set *set);

/* The rows that most meters have. */
#define METRIC_RATE_AND_TOTAL(what, struct_name, member) \
    {.name = what "-total", .kind = METRIC_SUM, .offset = offsetof(struct_name, member)}, \
    { \
        .name = what "-rate", .kind = METRIC_SUM_RATE, .offset = offsetof(struct_name, member) \
    }
#define METRIC_COUNT_RATE_AND_TOTAL(what, struct_name, member) \
    {.name = what "-total", .kind = METRIC_EVENTS, .offset = offsetof(struct_name, member)}, \
    { \
        .name = what "-rate", .kind = METRIC_EVENTS_RATE, .offset = offsetof(struct_name, member) \
    }
#define METRIC_AVERAGE_AND_MAX(what, struct_name, member) \
    {.name = what "-avg", .kind = METRIC_AVERAGE, .offset = offsetof(struct_name, member)}, \
    { \
        .name = what "-max", .kind = METRIC_MAX, .offset = offsetof(struct_name, member) \
    }

#endif
