/*
 * send_plugins.c - the application's own functions around a record that is sent: interceptors,
 * serializers, partitioner, in this order. See <cafka/plugin.h>.
 */
#include "producer/send.h"

/* --- interceptors --- */

static const char *name_of(const char *name)
{
    return name ? name : "without a name";
}

/* A failing interceptor may do so for every record; the log hears of it once a second. */
static void warn_of(cafka_producer *producer, size_t number, int code)
{
    if (!producer_may_warn(producer))
        return;
    log_warn(producer->log,
             "interceptor %zu (%s) failed with %d on a record; the record is sent without it",
             number + 1, name_of(producer->plugins->producer_interceptors[number].name), code);
}

static void intercept(struct plugged *plugged, cafka_producer *producer)
{
    const struct plugins *plugins = producer->plugins;
    for (size_t i = 0; i < plugins->producer_interceptor_count; i++) {
        const cafka_producer_interceptor *interceptor = &plugins->producer_interceptors[i];
        if (!interceptor->on_send)
            continue;
        cafka_record changed = plugged->record;
        int rc = interceptor->on_send(&changed, &plugged->scratch, interceptor->user);
        changed.topic_handle = NULL;
        if (rc || !changed.topic)
            warn_of(producer, i, rc ? rc : CAFKA_ERR_ARGUMENT);
        else
            plugged->record = changed;
    }
}

void plugins_acknowledge(cafka_producer *producer, const cafka_delivery_report *report)
{
    const struct plugins *plugins = producer->plugins;
    for (size_t i = 0; i < plugins->producer_interceptor_count; i++) {
        const cafka_producer_interceptor *interceptor = &plugins->producer_interceptors[i];
        if (interceptor->on_acknowledgement)
            interceptor->on_acknowledgement(report, interceptor->user);
    }
}

/* --- serializers --- */

static int serialize(struct plugged *plugged, const cafka_serializer *serializer, const char *what,
                     const void **data, size_t *size, cafka_error *err)
{
    if (!serializer->serialize || !*data)
        return CAFKA_OK;
    cafka_error why = {0};
    cafka_bytes object = {*data, *size}, bytes = {0};
    cafka_record changed = plugged->record;
    int rc =
        serializer->serialize(&changed, object, &bytes, &plugged->scratch, serializer->user, &why);
    if (rc)
        return error_set(err, CAFKA_ERR_SERIALIZATION,
                         "sending to %s: the %s serializer (%s) failed with %d%s%.120s",
                         plugged->record.topic, what, name_of(serializer->name), rc,
                         why.message[0] ? ": " : "", why.message);
    plugged->record.headers = changed.headers;
    plugged->record.header_count = changed.header_count;
    *data = bytes.data;
    *size = bytes.data ? bytes.size : 0;
    return CAFKA_OK;
}

static int serialize_both(struct plugged *plugged, cafka_producer *producer, bool value_is_bytes,
                          cafka_error *err)
{
    cafka_record *r = &plugged->record;
    const struct plugins *plugins = producer->plugins;
    int rc = serialize(plugged, &plugins->key_serializer, "key", &r->key, &r->key_size, err);
    if (!rc && !value_is_bytes)
        rc = serialize(plugged, &plugins->value_serializer, "value", &r->value, &r->value_size, err);
    return rc;
}

/* --- partitioner --- */

static int ask_partitioner(struct plugged *plugged, cafka_producer *producer,
                           struct patience *patience, cafka_error *err)
{
    cafka_record *r = &plugged->record;
    const cafka_partitioner *partitioner = &producer->plugins->partitioner;
    if (!partitioner->partition || (r->flags & CAFKA_RECORD_PARTITION))
        return CAFKA_OK;
    cafka_topic *topic;
    int rc = send_find_topic(producer, r, &topic, err);
    if (!rc && !atomic_load_explicit(&topic->set, memory_order_acquire))
        rc = topic_await(topic, -1, patience_deadline(producer, patience), err);
    if (rc)
        return rc;
    int32_t count = atomic_load_explicit(&topic->set, memory_order_acquire)->count;
    cafka_partition_question question = {.size = sizeof question,
                                         .topic = topic->name,
                                         .topic_handle = topic,
                                         .key = {r->key, r->key_size},
                                         .value = {r->value, r->value_size},
                                         .partition_count = count};
    int32_t partition = partitioner->partition(&question, partitioner->user);
    if (partition == CAFKA_PARTITION_DEFAULT)
        return CAFKA_OK;
    if (partition < 0 || partition >= count)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "sending to %s: the partitioner (%s) chose partition %d, and there are 0 to %d",
                         topic->name, name_of(partitioner->name), (int)partition, (int)count - 1);
    r->partition = partition;
    r->flags |= CAFKA_RECORD_PARTITION;
    return CAFKA_OK;
}

/* --- all of it --- */

static int begin(struct plugged *plugged, cafka_producer *producer, const cafka_record *r,
                 bool interceptors, bool value_is_bytes, struct patience *patience, cafka_error *err)
{
    cafka_topic *handle = r->topic_handle;
    plugged->record = *r;
    scratch_init(&plugged->scratch);
    if (!handle && !r->topic)
        return send_bad_record(r, err);
    if (handle) { /* by its name, so that there is one way to change it */
        plugged->record.topic = handle->name;
        plugged->record.topic_handle = NULL;
    }
    if (interceptors)
        intercept(plugged, producer);
    int rc = serialize_both(plugged, producer, value_is_bytes, err);
    if (handle && plugged->record.topic == handle->name)
        plugged->record.topic_handle = handle;
    return rc ? rc : ask_partitioner(plugged, producer, patience, err);
}

int plugged_begin(struct plugged *plugged, cafka_producer *producer, const cafka_record *r,
                  bool value_is_bytes, struct patience *patience, cafka_error *err)
{
    return begin(plugged, producer, r, true, value_is_bytes, patience, err);
}

int plugged_begin_quietly(struct plugged *plugged, cafka_producer *producer, const cafka_record *r,
                          struct patience *patience, cafka_error *err)
{
    return begin(plugged, producer, r, false, false, patience, err);
}

/* The interceptors hear of a record that never got in. */
static void tell_refused(struct plugged *plugged, cafka_producer *producer, const cafka_error *why)
{
    const cafka_record *r = &plugged->record;
    plugins_acknowledge(producer,
                        &(cafka_delivery_report){
                            .opaque = r->opaque,
                            .topic = r->topic,
                            .partition = r->flags & CAFKA_RECORD_PARTITION ? r->partition : -1,
                            .code = why->code,
                            .offset = -1,
                            .timestamp_ms = r->flags & CAFKA_RECORD_TIMESTAMP ? r->timestamp_ms : -1,
                            .error = why,
                        });
}

void plugged_end(struct plugged *plugged, cafka_producer *producer, const cafka_error *why)
{
    if (why && plugged->record.topic)
        tell_refused(plugged, producer, why);
    scratch_fini(&plugged->scratch);
}
