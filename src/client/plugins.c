/*
 * plugins.c - see plugins.h, and the setters of <cafka/config.h> that take plugins.
 */
#include "client/plugins.h"

#include <string.h>

#include "client/config.h"
#include "util/alloc.h"
#include "util/error.h"

/* --- scratch memory --- */

void *cafka_scratch_alloc(cafka_scratch *scratch, size_t size)
{
    const size_t align = sizeof(max_align_t);
    if (!scratch || size > SIZE_MAX - align)
        return NULL;
    size_t room = (size + align - 1) / align * align;
    if (room > sizeof scratch->first.bytes - scratch->used)
        return arena_alloc(&scratch->arena, size);
    void *memory = scratch->first.bytes + scratch->used;
    scratch->used += room;
    return memory;
}

/* --- keeping --- */

static int copy_array(void **to, const void *from, size_t count, size_t size, cafka_error *err)
{
    *to = count ? mem_memdup(from, count * size) : NULL;
    if (count && !*to)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a copy of the interceptors");
    return CAFKA_OK;
}

int plugins_copy(struct plugins *to, const struct plugins *from, cafka_error *err)
{
    void *of_producer = NULL, *of_consumer = NULL;
    int rc = copy_array(&of_producer, from->producer_interceptors, from->producer_interceptor_count,
                        sizeof *from->producer_interceptors, err);
    if (!rc)
        rc = copy_array(&of_consumer, from->consumer_interceptors, from->consumer_interceptor_count,
                        sizeof *from->consumer_interceptors, err);
    if (rc) {
        mem_free(of_producer);
        *to = (struct plugins){0};
        return rc;
    }
    *to = *from;
    to->producer_interceptors = of_producer;
    to->consumer_interceptors = of_consumer;
    return CAFKA_OK;
}

void plugins_fini(struct plugins *plugins)
{
    mem_free(plugins->producer_interceptors);
    mem_free(plugins->consumer_interceptors);
    *plugins = (struct plugins){0};
}

static void close_one(void (*on_close)(void *), void *user)
{
    if (on_close)
        on_close(user);
}

void plugins_close_producer(const struct plugins *plugins)
{
    for (size_t i = 0; i < plugins->producer_interceptor_count; i++)
        close_one(plugins->producer_interceptors[i].on_close,
                  plugins->producer_interceptors[i].user);
    close_one(plugins->key_serializer.on_close, plugins->key_serializer.user);
    close_one(plugins->value_serializer.on_close, plugins->value_serializer.user);
    close_one(plugins->partitioner.on_close, plugins->partitioner.user);
}

void plugins_close_consumer(const struct plugins *plugins)
{
    for (size_t i = 0; i < plugins->consumer_interceptor_count; i++)
        close_one(plugins->consumer_interceptors[i].on_close,
                  plugins->consumer_interceptors[i].user);
    close_one(plugins->key_deserializer.on_close, plugins->key_deserializer.user);
    close_one(plugins->value_deserializer.on_close, plugins->value_deserializer.user);
}

/* --- setting --- */

/* A struct of a caller, which begins with its size; so far there is one size of each. */
static int check(const char *what, const cafka_config *config, const void *given, size_t size,
                 cafka_error *err)
{
    size_t said;
    error_clear(err);
    if (!config || !given)
        return error_set(err, CAFKA_ERR_ARGUMENT, "%s: there is no configuration or nothing to set",
                         what);
    memcpy(&said, given, sizeof said);
    if (said != size)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "%s: size says %zu bytes, and this library knows %zu; set it to sizeof",
                         what, said, size);
    return CAFKA_OK;
}

static int lacks_function(const char *what, const char *function, cafka_error *err)
{
    return error_set(err, CAFKA_ERR_ARGUMENT, "%s: it has no function %s", what, function);
}

int cafka_config_add_producer_interceptor(cafka_config *config,
                                          const cafka_producer_interceptor *interceptor,
                                          cafka_error *err)
{
    int rc = check("a producer's interceptor", config, interceptor, sizeof *interceptor, err);
    if (rc)
        return rc;
    struct plugins *p = &config->plugins;
    void *grown = mem_recalloc(p->producer_interceptors, p->producer_interceptor_count + 1,
                               sizeof *interceptor);
    if (!grown)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for another interceptor");
    p->producer_interceptors = grown;
    p->producer_interceptors[p->producer_interceptor_count++] = *interceptor;
    return CAFKA_OK;
}

int cafka_config_add_consumer_interceptor(cafka_config *config,
                                          const cafka_consumer_interceptor *interceptor,
                                          cafka_error *err)
{
    int rc = check("a consumer's interceptor", config, interceptor, sizeof *interceptor, err);
    if (rc)
        return rc;
    struct plugins *p = &config->plugins;
    void *grown = mem_recalloc(p->consumer_interceptors, p->consumer_interceptor_count + 1,
                               sizeof *interceptor);
    if (!grown)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for another interceptor");
    p->consumer_interceptors = grown;
    p->consumer_interceptors[p->consumer_interceptor_count++] = *interceptor;
    return CAFKA_OK;
}

static int set_serializer(const char *what, cafka_config *config, cafka_serializer *place,
                          const cafka_serializer *serializer, cafka_error *err)
{
    static const cafka_serializer none = {.size = sizeof none};
    int rc = check(what, config, serializer ? serializer : &none, sizeof *serializer, err);
    if (rc)
        return rc;
    if (serializer && !serializer->serialize)
        return lacks_function(what, "serialize", err);
    *place = serializer ? *serializer : (cafka_serializer){0};
    return CAFKA_OK;
}

int cafka_config_set_key_serializer(cafka_config *config, const cafka_serializer *serializer,
                                    cafka_error *err)
{
    return set_serializer("a key serializer", config,
                          config ? &config->plugins.key_serializer : NULL, serializer, err);
}

int cafka_config_set_value_serializer(cafka_config *config, const cafka_serializer *serializer,
                                      cafka_error *err)
{
    return set_serializer("a value serializer", config,
                          config ? &config->plugins.value_serializer : NULL, serializer, err);
}

static int set_deserializer(const char *what, cafka_config *config, cafka_deserializer *place,
                            const cafka_deserializer *deserializer, cafka_error *err)
{
    static const cafka_deserializer none = {.size = sizeof none};
    int rc = check(what, config, deserializer ? deserializer : &none, sizeof *deserializer, err);
    if (rc)
        return rc;
    if (deserializer && !deserializer->deserialize)
        return lacks_function(what, "deserialize", err);
    *place = deserializer ? *deserializer : (cafka_deserializer){0};
    return CAFKA_OK;
}

int cafka_config_set_key_deserializer(cafka_config *config, const cafka_deserializer *deserializer,
                                      cafka_error *err)
{
    return set_deserializer("a key deserializer", config,
                            config ? &config->plugins.key_deserializer : NULL, deserializer, err);
}

int cafka_config_set_value_deserializer(cafka_config *config,
                                        const cafka_deserializer *deserializer, cafka_error *err)
{
    return set_deserializer("a value deserializer", config,
                            config ? &config->plugins.value_deserializer : NULL, deserializer, err);
}

int cafka_config_set_partitioner(cafka_config *config, const cafka_partitioner *partitioner,
                                 cafka_error *err)
{
    static const cafka_partitioner none = {.size = sizeof none};
    int rc =
        check("a partitioner", config, partitioner ? partitioner : &none, sizeof *partitioner, err);
    if (rc)
        return rc;
    if (partitioner && !partitioner->partition)
        return lacks_function("a partitioner", "partition", err);
    config->plugins.partitioner = partitioner ? *partitioner : (cafka_partitioner){0};
    return CAFKA_OK;
}
