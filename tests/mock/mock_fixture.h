/*
 * mock_fixture.h - a simulated cluster with clients in its world, for tests of both together.
 *
 * Nothing here is real: clock, network and disk are the simulation's, everything blocking steps
 * it, and a seed replays.
 */
#ifndef CAFKA_TESTS_MOCK_FIXTURE_H
#define CAFKA_TESTS_MOCK_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cafka/client.h>
#include <cafka/consumer.h>
#include <cafka/mock.h>
#include <cafka/producer.h>

/* A cluster of three brokers with these topics ("orders:12"). */
static inline cafka_mock *start_cluster(uint64_t seed, const char *const *topics, size_t count,
                                        const char *properties)
{
    cafka_mock *mock;
    cafka_error err = {0};
    cafka_mock_options options = {.size = sizeof options,
                                  .brokers = 3,
                                  .simulated = 1,
                                  .seed = seed,
                                  .topics = topics,
                                  .topic_count = count,
                                  .properties = properties};
    if (cafka_mock_new(&mock, &options, &err))
        fail_msg("no cluster: %s", err.message);
    return mock;
}

/* A configuration of a client in the cluster's world. */
static inline cafka_config *client_config(cafka_mock *mock, const char *properties)
{
    cafka_config *config;
    cafka_error err = {0};
    assert_int_equal(cafka_config_new(&config, NULL), CAFKA_OK);
    if (cafka_config_set(config, "bootstrap.servers", cafka_mock_bootstrap(mock), &err) ||
        cafka_config_load(config, properties, &err))
        fail_msg("configuration: %s", err.message);
    cafka_config_set_env(config, cafka_mock_env(mock));
    cafka_config_set_log(config, NULL, NULL, CAFKA_LOG_OFF);
    return config;
}

static inline cafka_consumer *open_consumer(cafka_mock *mock, const char *properties)
{
    cafka_config *config = client_config(mock, properties);
    cafka_consumer *consumer;
    cafka_error err = {0};
    if (cafka_consumer_new(&consumer, config, &err))
        fail_msg("no consumer: %s", err.message);
    cafka_config_free(config);
    return consumer;
}

static inline void assign_from(cafka_consumer *consumer, const char *topic, int32_t partitions,
                               int64_t offset)
{
    cafka_error err = {0};
    for (int32_t p = 0; p < partitions; p++) {
        cafka_position at = {.topic = topic,
                             .partition = p,
                             .flags = CAFKA_POSITION_OFFSET,
                             .offset = offset};
        if (cafka_consumer_assign_add(consumer, &at, 1, &err))
            fail_msg("assign: %s", err.message);
    }
}

static inline void close_consumer(cafka_consumer *consumer)
{
    cafka_error err = {0};
    if (cafka_consumer_close(consumer, 10000, &err))
        fail_msg("closing a consumer: %s", err.message);
    cafka_consumer_free(consumer);
}

/* Send texts to one partition and wait for all of them. */
static inline void produce_texts(cafka_mock *mock, const char *topic, int32_t partition,
                                 const char *const *texts, size_t count, const char *properties)
{
    cafka_config *config = client_config(mock, properties);
    cafka_producer *producer;
    cafka_error err = {0};
    if (cafka_producer_new(&producer, config, &err))
        fail_msg("no producer: %s", err.message);
    for (size_t i = 0; i < count; i++) {
        cafka_record record = {.topic = topic,
                               .value = texts[i],
                               .value_size = strlen(texts[i]),
                               .partition = partition,
                               .flags = CAFKA_RECORD_PARTITION};
        if (cafka_producer_send(producer, &record, &err))
            fail_msg("send: %s", err.message);
    }
    if (cafka_producer_close(producer, 60000, &err))
        fail_msg("closing a producer: %s", err.message);
    cafka_producer_free(producer);
    cafka_config_free(config);
}

#endif
