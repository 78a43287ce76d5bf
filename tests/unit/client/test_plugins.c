/*
 * test_plugins.c - the application's functions on the way of a record: kept, copied, closed, and
 * the memory they are given.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/config.h"
#include "client/plugins.h"
#include "client/settings.h"
#include "util/alloc.h"

static int on_send(cafka_record *record, cafka_scratch *scratch, void *user)
{
    (void)record, (void)scratch, (void)user;
    return CAFKA_OK;
}

static int serialize(cafka_record *record, cafka_bytes object, cafka_bytes *out,
                     cafka_scratch *scratch, void *user, cafka_error *err)
{
    (void)record, (void)scratch, (void)user, (void)err;
    *out = object;
    return CAFKA_OK;
}

static int deserialize(const cafka_record_view *view, cafka_bytes bytes, cafka_bytes *out,
                       cafka_scratch *scratch, void *user, cafka_error *err)
{
    (void)view, (void)scratch, (void)user, (void)err;
    *out = bytes;
    return CAFKA_OK;
}

static int32_t first_partition(const cafka_partition_question *question, void *user)
{
    (void)question, (void)user;
    return 0;
}

static void count_close(void *user)
{
    ++*(int *)user;
}

static cafka_config *new_config(void)
{
    cafka_config *config;
    assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
    return config;
}

static int set_all(cafka_config *config, int *closed, cafka_error *err)
{
    const cafka_producer_interceptor sending = {.size = sizeof sending,
                                                .user = closed,
                                                .on_send = on_send,
                                                .on_close = count_close};
    const cafka_consumer_interceptor consuming = {.size = sizeof consuming,
                                                  .user = closed,
                                                  .on_close = count_close};
    const cafka_serializer serializer = {.size = sizeof serializer,
                                         .user = closed,
                                         .serialize = serialize,
                                         .on_close = count_close};
    const cafka_deserializer deserializer = {.size = sizeof deserializer,
                                             .user = closed,
                                             .deserialize = deserialize,
                                             .on_close = count_close};
    const cafka_partitioner partitioner = {.size = sizeof partitioner,
                                           .user = closed,
                                           .partition = first_partition,
                                           .on_close = count_close};
    int rc = cafka_config_add_producer_interceptor(config, &sending, err);
    if (!rc)
        rc = cafka_config_add_producer_interceptor(config, &sending, err);
    if (!rc)
        rc = cafka_config_add_consumer_interceptor(config, &consuming, err);
    if (!rc)
        rc = cafka_config_set_key_serializer(config, &serializer, err);
    if (!rc)
        rc = cafka_config_set_value_serializer(config, &serializer, err);
    if (!rc)
        rc = cafka_config_set_key_deserializer(config, &deserializer, err);
    if (!rc)
        rc = cafka_config_set_value_deserializer(config, &deserializer, err);
    if (!rc)
        rc = cafka_config_set_partitioner(config, &partitioner, err);
    return rc;
}

static void copies_have_plugins_of_their_own(void **state)
{
    (void)state;
    int closed = 0;
    cafka_config *config = new_config(), *copy;
    assert_int_equal(set_all(config, &closed, NULL), CAFKA_OK);
    assert_int_equal(cafka_config_copy(&copy, config, NULL), CAFKA_OK);
    cafka_config_free(config);

    assert_int_equal(copy->plugins.producer_interceptor_count, 2);
    assert_ptr_equal(copy->plugins.producer_interceptors[1].on_send, on_send);
    assert_int_equal(copy->plugins.consumer_interceptor_count, 1);
    assert_ptr_equal(copy->plugins.value_serializer.serialize, serialize);
    plugins_close_producer(&copy->plugins);
    assert_int_equal(closed, 5); /* two interceptors, two serializers, the partitioner */
    plugins_close_consumer(&copy->plugins);
    assert_int_equal(closed, 8);
    cafka_config_free(copy);
}

static void text_that_is_loaded_keeps_plugins(void **state)
{
    (void)state;
    int closed = 0;
    cafka_config *config = new_config();
    assert_int_equal(set_all(config, &closed, NULL), CAFKA_OK);
    assert_int_equal(cafka_config_load(config, "linger.ms=7", NULL), CAFKA_OK);
    assert_int_equal(config->plugins.producer_interceptor_count, 2);
    cafka_config_free(config);
}

static void clients_read_plugins_from_their_settings(void **state)
{
    (void)state;
    int closed = 0;
    struct producer_settings settings;
    cafka_config *config = new_config();
    assert_int_equal(set_all(config, &closed, NULL), CAFKA_OK);
    assert_int_equal(cafka_config_set(config, "bootstrap.servers", "a:1", NULL), CAFKA_OK);
    assert_int_equal(settings_for_producer(config, &settings, NULL), CAFKA_OK);
    cafka_config_free(config);
    assert_ptr_equal(client_plugins(&settings.client)->partitioner.partition, first_partition);
    producer_settings_fini(&settings);
}

static void wrong_structs_are_refused(void **state)
{
    (void)state;
    cafka_config *config = new_config();
    cafka_error err;
    cafka_producer_interceptor interceptor = {.on_send = on_send}; /* no size */
    assert_int_equal(cafka_config_add_producer_interceptor(config, &interceptor, &err),
                     CAFKA_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "sizeof"));
    interceptor.size = sizeof interceptor + 8;
    assert_int_equal(cafka_config_add_producer_interceptor(config, &interceptor, &err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_config_add_producer_interceptor(config, NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_config_add_consumer_interceptor(NULL, NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(config->plugins.producer_interceptor_count, 0);

    cafka_serializer serializer = {.size = sizeof serializer}; /* no function */
    assert_int_equal(cafka_config_set_key_serializer(config, &serializer, &err), CAFKA_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "serialize"));
    cafka_deserializer deserializer = {.size = sizeof deserializer};
    assert_int_equal(cafka_config_set_value_deserializer(config, &deserializer, &err),
                     CAFKA_ERR_ARGUMENT);
    cafka_partitioner partitioner = {.size = sizeof partitioner};
    assert_int_equal(cafka_config_set_partitioner(config, &partitioner, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_config_set_partitioner(NULL, NULL, &err), CAFKA_ERR_ARGUMENT);
    cafka_config_free(config);
}

static void null_takes_a_serializer_away(void **state)
{
    (void)state;
    int closed = 0;
    cafka_config *config = new_config();
    assert_int_equal(set_all(config, &closed, NULL), CAFKA_OK);
    assert_int_equal(cafka_config_set_key_serializer(config, NULL, NULL), CAFKA_OK);
    assert_int_equal(cafka_config_set_value_deserializer(config, NULL, NULL), CAFKA_OK);
    assert_int_equal(cafka_config_set_partitioner(config, NULL, NULL), CAFKA_OK);
    assert_null(config->plugins.key_serializer.serialize);
    assert_non_null(config->plugins.value_serializer.serialize);
    assert_null(config->plugins.value_deserializer.deserialize);
    assert_null(config->plugins.partitioner.partition);
    cafka_config_free(config);
}

static void scratch_memory_grows_as_needed_and_is_aligned(void **state)
{
    (void)state;
    struct cafka_scratch scratch;
    scratch_init(&scratch);
    static const size_t sizes[] = {1, 500, 16, 4000, 0, 3, 100000};
    for (int round = 0; round < 3; round++) {
        unsigned char *pieces[7];
        for (size_t i = 0; i < 7; i++) {
            pieces[i] = cafka_scratch_alloc(&scratch, sizes[i]);
            assert_non_null(pieces[i]);
            assert_int_equal((uintptr_t)pieces[i] % 16, 0);
            memset(pieces[i], (int)i + 1, sizes[i]);
        }
        for (size_t i = 0; i < 7; i++)
            for (size_t k = 0; k < sizes[i]; k++)
                assert_int_equal(pieces[i][k], i + 1);
        scratch_reset(&scratch);
    }
    assert_null(cafka_scratch_alloc(&scratch, SIZE_MAX));
    assert_null(cafka_scratch_alloc(NULL, 1));
    scratch_fini(&scratch);
}

static void every_failing_allocation_leaves_the_old_chain(void **state)
{
    (void)state;
    int closed = 0;
    for (unsigned long k = 1;; k++) {
        cafka_config *config = new_config(), *copy = NULL;
        mem_fail_after(k, 0);
        int rc = set_all(config, &closed, NULL);
        if (!rc)
            rc = cafka_config_copy(&copy, config, NULL);
        mem_fail_after(0, 0);
        cafka_config_free(copy);
        cafka_config_free(config);
        if (!rc)
            break;
        assert_int_equal(rc, CAFKA_ERR_MEMORY);
    }
    assert_int_equal(closed, 0); /* only clients close plugins */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_have_plugins_of_their_own),
        cmocka_unit_test(text_that_is_loaded_keeps_plugins),
        cmocka_unit_test(clients_read_plugins_from_their_settings),
        cmocka_unit_test(wrong_structs_are_refused),
        cmocka_unit_test(null_takes_a_serializer_away),
        cmocka_unit_test(scratch_memory_grows_as_needed_and_is_aligned),
        cmocka_unit_test(every_failing_allocation_leaves_the_old_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
