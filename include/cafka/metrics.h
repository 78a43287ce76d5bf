/*
 * cafka/metrics.h - what a client counts, as a snapshot at any time.
 *
 * Names, groups and tags are those of the Java client's metrics ("record-send-total" of the group
 * "producer-metrics") wherever the meaning is the same; what this client cannot tell truly is not
 * there. Groups are producer-metrics, consumer-metrics or admin-client-metrics (the client and its
 * connections), …-node-metrics (one broker, tag node-id), producer-topic-metrics (tag topic) and
 * consumer-fetch-manager-metrics; every metric has the tag client-id.
 *
 *     cafka_metrics *metrics;
 *     cafka_metric m = {.size = sizeof m};
 *     if (!cafka_client_metrics(cafka_producer_client(producer), &metrics, &err)) {
 *         for (size_t i = 0; !cafka_metrics_get(metrics, i, &m); i++)
 *             printf("%s %s %g\n", m.group, m.name, m.value);
 *         cafka_metrics_free(metrics);
 *     }
 *
 * …-total counts since the client was made. …-rate is per second, …-avg and …-max are, over the last
 * metrics.num.samples windows of metrics.sample.window.ms; an average or maximum of nothing is left
 * out. Sizes are bytes; times are milliseconds unless the name says ns.
 *
 * The client goes on while a snapshot is taken. What belongs together, the numbers of one sensor
 * such as the total, rate, average and maximum of a size, is of one moment; those of two sensors may
 * be a few microseconds apart.
 *
 * Owner:  a snapshot is the caller's, until cafka_metrics_free().
 * Thread: any; of one snapshot, one at a time (its JSON is made when it is asked for). Never blocks.
 */
#ifndef CAFKA_METRICS_H
#define CAFKA_METRICS_H

#include <cafka/config.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cafka_metrics cafka_metrics; /* a snapshot: plain memory, it changes no more */

typedef struct cafka_metric_tag {
    const char *name, *value;
} cafka_metric_tag;

typedef struct cafka_metric {
    size_t size; /* sizeof(cafka_metric), set by the caller */
    const char *name;
    const char *group;
    const cafka_metric_tag *tags;
    size_t tag_count;
    double value; /* a whole number for what is counted */
} cafka_metric;

/*
 * Take a snapshot of a producer's, consumer's or admin's numbers. It stays valid when the client is
 * freed. Does not wait for the client's loop.
 *
 * Errors:  CAFKA_ERR_MEMORY, CAFKA_ERR_ARGUMENT, CAFKA_ERR_FORKED
 * Thread:  any.
 */
CAFKA_API int cafka_client_metrics(cafka_client *client, cafka_metrics **out, cafka_error *err);

/* Number `index`, from 0 on. Returns CAFKA_OK, or CAFKA_END behind the last. Texts are the snapshot's. */
CAFKA_API int cafka_metrics_get(const cafka_metrics *metrics, size_t index, cafka_metric *out);

/*
 * The same as JSON, an array of {"name":…,"group":…,"tags":{…},"value":…}; terminated, and the
 * snapshot's. NULL: no memory.
 */
CAFKA_API const char *cafka_metrics_json(cafka_metrics *metrics);

CAFKA_API void cafka_metrics_free(cafka_metrics *metrics); /* takes NULL */

#ifdef __cplusplus
}
#endif

#endif
