/*
 * reader_hooks.c - see reader_hooks.h.
 */
#include "consumer/reader_hooks.h"

#include "client/client.h"
#include "util/alloc.h"

int reader_hooks_init(struct reader_hooks *hooks, const struct plugins *plugins, struct log log,
                      cafka_error *err)
{
    size_t count = plugins->consumer_interceptor_count;
    if (!count && !plugins->key_deserializer.deserialize && !plugins->value_deserializer.deserialize)
        return CAFKA_OK;
    hooks->scratch = mem_alloc(sizeof *hooks->scratch);
    hooks->told = mem_calloc(count ? count : 1, sizeof *hooks->told);
    if (!hooks->scratch || !hooks->told) {
        mem_free(hooks->scratch);
        mem_free(hooks->told);
        *hooks = (struct reader_hooks){0};
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a consumer's interceptors");
    }
    scratch_init(hooks->scratch);
    hooks->plugins = plugins;
    hooks->log = log;
    return CAFKA_OK;
}

void reader_hooks_fini(struct reader_hooks *hooks)
{
    if (hooks->scratch)
        scratch_fini(hooks->scratch);
    mem_free(hooks->scratch);
    mem_free(hooks->told);
    *hooks = (struct reader_hooks){0};
}

void reader_hooks_begin(struct reader_hooks *hooks)
{
    scratch_reset(hooks->scratch);
}

static const char *name_of(const char *name)
{
    return name ? name : "without a name";
}

/* What the application's function said, in a sentence that names it. */
static int explain(const cafka_deserializer *with, const char *what, int code,
                   const cafka_error *said, cafka_error *why)
{
    return error_set(why, CAFKA_ERR_SERIALIZATION, "the %s deserializer (%s) failed with %d%s%s",
                     what, name_of(with->name), code, said->message[0] ? ": " : "", said->message);
}

static int deserialize(struct reader_hooks *hooks, const cafka_deserializer *with, const char *what,
                       const cafka_record_view *view, cafka_bytes *bytes, cafka_error *why)
{
    cafka_error said = {0};
    cafka_bytes object = {NULL, 0};
    if (!with->deserialize || !bytes->data)
        return CAFKA_OK;
    int code = with->deserialize(view, *bytes, &object, hooks->scratch, with->user, &said);
    if (code)
        return explain(with, what, code, &said, why);
    if (object.size > UINT32_MAX)
        return error_set(why, CAFKA_ERR_SERIALIZATION,
                         "the %s deserializer (%s) made an object of %zu bytes, more than a view tells",
                         what, name_of(with->name), object.size);
    *bytes = object;
    return CAFKA_OK;
}

/* Both see the record as it was received; the view changes when both have done their work. */
static int deserialize_both(struct reader_hooks *hooks, cafka_record_view *view, cafka_error *why)
{
    const struct plugins *plugins = hooks->plugins;
    cafka_bytes key = {view->key, view->key_size}, value = {view->value, view->value_size};
    int rc = deserialize(hooks, &plugins->key_deserializer, "key", view, &key, why);
    if (!rc)
        rc = deserialize(hooks, &plugins->value_deserializer, "value", view, &value, why);
    if (rc)
        return rc;
    view->key = key.data;
    view->key_size = (uint32_t)key.size;
    view->value = value.data;
    view->value_size = (uint32_t)value.size;
    return CAFKA_OK;
}

/* A word in the log when an interceptor begins to fail, not for each record. */
static void tell_failure(struct reader_hooks *hooks, size_t i, int code,
                         const cafka_record_view *view)
{
    if (hooks->told[i] != code)
        log_warn(hooks->log,
                 "consumer interceptor %zu (%s) failed with %d on %s-%d at offset %lld: left out",
                 i + 1, name_of(hooks->plugins->consumer_interceptors[i].name), code, view->topic,
                 view->partition, (long long)view->offset);
    hooks->told[i] = code;
}

/* What may be changed is changed; where the record is from stays as it is. */
static void take_changes(cafka_record_view *view, const cafka_record_view *changed)
{
    view->key = changed->key;
    view->key_size = changed->key_size;
    view->value = changed->value;
    view->value_size = changed->value_size;
    view->timestamp_ms = changed->timestamp_ms;
}

static int intercept(struct reader_hooks *hooks, cafka_record_view *view)
{
    const struct plugins *plugins = hooks->plugins;
    for (size_t i = 0; i < plugins->consumer_interceptor_count; i++) {
        const cafka_consumer_interceptor *one = &plugins->consumer_interceptors[i];
        if (!one->on_consume)
            continue;
        cafka_record_view changed = *view;
        int code = one->on_consume(&changed, hooks->scratch, one->user);
        if (code && code != CAFKA_DROP) {
            tell_failure(hooks, i, code, view);
            continue;
        }
        hooks->told[i] = CAFKA_OK;
        if (code)
            return CAFKA_DROP;
        take_changes(view, &changed);
    }
    return CAFKA_OK;
}

int reader_hooks_run(struct reader_hooks *hooks, cafka_record_view *view, cafka_error *why)
{
    client_callback_enter();
    int rc = deserialize_both(hooks, view, why);
    if (!rc)
        rc = intercept(hooks, view);
    client_callback_leave();
    return rc;
}
