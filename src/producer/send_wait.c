/*
 * send_wait.c - one record, and what became of it.
 */
#include "producer/send.h"

/* Append the record with a waiter in its batch, and wait. *out is set once the record was taken. */
static int send_and_wait(cafka_producer *producer, const cafka_record *record,
                         struct patience *patience, cafka_delivery_report *out, bool *taken,
                         cafka_error *err)
{
    const cafka_env *env = producer->client.env;
    cafka_topic *topic;
    struct append append;
    int rc = send_find_topic(producer, record, &topic, err);
    if (!rc)
        rc = send_prepare(producer, record, &append, err);
    if (rc)
        return rc;

    append.timestamp_ms = send_timestamp(producer, record);
    append.opaque = &send_waiter_mark;
    /* It may be acknowledged before send_slowly() is back, so nothing of it is set behind that. */
    struct send_waiter waiter = {.event = env->event_open(env), .report.opaque = record->opaque};
    if (waiter.event < 0)
        return error_errno(err, CAFKA_ERR_SYSTEM, -waiter.event,
                           "making an event to wait for a record");
    struct slow_send way = {.producer = producer,
                            .topic = topic,
                            .record = record,
                            .append = &append,
                            .patience = patience,
                            .waiter = &waiter};
    rc = send_slowly(&way, err);
    if (!rc) {
        /* The record ends within delivery.timeout.ms, whatever happens, and `waiter` is in use until then. */
        while (client_wait(&producer->client, waiter.event, CAFKA_NEVER, NULL))
            ;
        *taken = true;
        rc = waiter.report.code;
        if (rc && err)
            *err = waiter.error;
        *out = waiter.report;
    }
    env->event_close(env, waiter.event);
    return rc;
}

/* The same with the application's plugins around it; they hear of the result here. */
static int send_plugged_and_wait(cafka_producer *producer, const cafka_record *record,
                                 struct patience *patience, cafka_delivery_report *out, bool *taken,
                                 cafka_error *err)
{
    struct plugged plugged;
    int rc = plugged_begin(&plugged, producer, record, false, patience, err);
    if (!rc)
        rc = send_and_wait(producer, &plugged.record, patience, out, taken, err);
    if (*taken) {
        out->error = rc ? err : NULL;
        plugins_acknowledge(producer, out);
        out->error = NULL;
    }
    plugged_end(&plugged, producer, rc && !*taken ? err : NULL);
    return rc;
}

int cafka_producer_send_wait(cafka_producer *producer, const cafka_record *record,
                             cafka_delivery_report *out, cafka_error *err)
{
    cafka_error own = {0};
    cafka_delivery_report report;
    bool taken = false;
    error_clear(err);
    if (!producer || !record)
        return send_no_argument(err);
    int rc = client_may_wait(&producer->client, NULL);
    if (rc == CAFKA_ERR_IN_CALLBACK || rc == CAFKA_ERR_WOULD_BLOCK)
        return error_set(err, CAFKA_ERR_IN_CALLBACK,
                         "send_wait would have to wait, and must not inside a callback");
    rc = producer_usable(producer, err);
    if (rc)
        return rc;
    struct patience patience = {0};
    rc = (producer->plugged ? send_plugged_and_wait : send_and_wait)(producer, record, &patience,
                                                                     &report, &taken,
                                                                     err ? err : &own);
    if (taken && out)
        *out = report;
    return rc;
}
