/*
 * test_copies.c - how often the bytes of a payload are copied: once into the batch that leaves, and not
 * at all on the way from the socket to the application.
 *
 * An allocator that gives nothing back knows all memory of the library, so that a value can be looked
 * for in all of it; and a world between the client and the simulation sees which memory sockets are
 * given to read and to write.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <cmocka.h>

#include <cafka.h>
#include <cafka/env.h>
#include <cafka/memory.h>
#include <cafka/mock.h>

enum { BLOCKS_MAX = 200000, READS_MAX = 2000 };

/* --- all memory that was ever asked for --- */

static struct block {
    char *data;
    size_t size;
} blocks[BLOCKS_MAX];
static size_t block_count;

static void *take(size_t size, void *user)
{
    (void)user;
    if (block_count == BLOCKS_MAX)
        return NULL;
    char *data = calloc(1, size);
    if (data)
        blocks[block_count++] = (struct block){data, size};
    return data;
}

static void *take_more(void *memory, size_t size, void *user)
{
    char *more = take(size, user);
    for (size_t i = 0; memory && more && i < block_count; i++)
        if (blocks[i].data == memory)
            memcpy(more, memory, size < blocks[i].size ? size : blocks[i].size);
    return more;
}

static void keep(void *memory, void *user)
{
    (void)memory;
    (void)user;
}

static size_t occurrences(const void *data, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < block_count; i++) {
        const char *at = blocks[i].data, *end = at + blocks[i].size;
        while ((at = memmem(at, (size_t)(end - at), data, size))) {
            count++;
            at++;
        }
    }
    return count;
}

/* --- what sockets are given --- */

static const cafka_env *world;
static const char *looked_for; /* of VALUE_SIZE bytes */
static size_t sends_with_it, copies_when_sent;
static struct iovec reads[READS_MAX];
static size_t read_count;

enum { VALUE_SIZE = 300 };

static ssize_t watch_send(const cafka_env *env, int handle, const struct iovec *pieces, int count)
{
    (void)env;
    for (int i = 0; looked_for && i < count; i++)
        if (memmem(pieces[i].iov_base, pieces[i].iov_len, looked_for, VALUE_SIZE)) {
            if (!sends_with_it++)
                copies_when_sent = occurrences(looked_for, VALUE_SIZE);
        }
    return world->send(world, handle, pieces, count);
}

static ssize_t watch_recv(const cafka_env *env, int handle, void *into, size_t size)
{
    (void)env;
    ssize_t got = world->recv(world, handle, into, size);
    struct iovec *last = read_count ? &reads[read_count - 1] : NULL;
    if (got > 0 && last && (char *)last->iov_base + last->iov_len == into)
        last->iov_len += (size_t)got; /* of one answer */
    else if (got > 0 && read_count < READS_MAX)
        reads[read_count++] = (struct iovec){into, (size_t)got};
    return got;
}

static bool came_from_a_socket(const void *data, size_t size)
{
    for (size_t i = 0; i < read_count; i++) {
        const char *from = reads[i].iov_base;
        if ((const char *)data >= from && (const char *)data + size <= from + reads[i].iov_len)
            return true;
    }
    return false;
}

/* --- the scene: a cluster, a client's configuration in the watched world --- */

struct scene {
    cafka_mock *mock;
    cafka_env env;
    cafka_config *config;
    char value[VALUE_SIZE]; /* on the test's stack: the library has not seen it yet */
};

static void begin(struct scene *s)
{
    static const char *const topics[] = {"records:1"};
    cafka_error err = {0};
    cafka_mock_options options = {.size = sizeof options,
                                  .brokers = 1,
                                  .simulated = 1,
                                  .seed = 5,
                                  .topics = topics,
                                  .topic_count = 1};
    if (cafka_mock_new(&s->mock, &options, &err) || cafka_config_new(&s->config, &err) ||
        cafka_config_set(s->config, "bootstrap.servers", cafka_mock_bootstrap(s->mock), &err))
        fail_msg("%s", err.message);
    world = cafka_mock_env(s->mock);
    s->env = *world;
    s->env.send = watch_send;
    s->env.recv = watch_recv;
    cafka_config_set_env(s->config, &s->env);
    for (int i = 0; i < VALUE_SIZE; i++)
        s->value[i] = (char)(i * i * 7 + i / 9);
    sends_with_it = copies_when_sent = read_count = 0;
    looked_for = NULL;
}

static void end(struct scene *s)
{
    cafka_config_free(s->config);
    cafka_mock_free(s->mock);
}

static void produce_values(struct scene *s, int count)
{
    cafka_producer *producer;
    cafka_error err = {0};
    cafka_record record = {.topic = "records",
                           .key = "key",
                           .key_size = 3,
                           .value = s->value,
                           .value_size = VALUE_SIZE};
    int rc = cafka_producer_new(&producer, s->config, &err);
    for (int i = 0; !rc && i < count; i++)
        rc = cafka_producer_send(producer, &record, &err);
    if (rc || cafka_producer_flush(producer, 60000, &err))
        fail_msg("%s", err.message);
    cafka_producer_free(producer);
}

/* What the socket is given to write is the batch that send() encoded into, and the only copy there is. */
static void a_produced_value_is_copied_once(void **state)
{
    (void)state;
    struct scene s;
    begin(&s);
    looked_for = s.value;
    produce_values(&s, 1);
    assert_int_equal(sends_with_it, 1);
    assert_int_equal(copies_when_sent, 1);
    end(&s);
}

/* Read `count` records; how many of them do not lie where a socket was read into. */
static int read_and_count_copied(cafka_consumer *consumer, const char *value, int count)
{
    int copied = 0;
    cafka_error err = {0};
    for (int seen = 0, polls = 0; seen < count && polls < 1000; polls++) {
        cafka_fetch *fetch = NULL;
        cafka_record_view record;
        if (cafka_consumer_poll(consumer, 1000, &fetch, &err))
            fail_msg("%s", err.message);
        while (!cafka_fetch_next(fetch, &record, &err)) {
            assert_int_equal(record.value_size, VALUE_SIZE);
            assert_memory_equal(record.value, value, VALUE_SIZE);
            copied += !came_from_a_socket(record.value, record.value_size) ||
                      !came_from_a_socket(record.key, record.key_size);
            seen++;
        }
        cafka_fetch_free(fetch);
    }
    return copied;
}

/*
 * What the application looks at is the memory that the socket was read into, once the client is warm.
 * Answers below 64 KiB are an exception, and so is the beginning of a large one that follows a small
 * one: many small ones are read with one call. After a seek there is one such beginning.
 */
static void fetched_values_are_not_copied(void **state)
{
    (void)state;
    enum { RECORDS = 20000, AT_HEAD = 64 * 1024 / VALUE_SIZE };
    struct scene s;
    cafka_consumer *consumer;
    cafka_error err = {0};
    cafka_position start = {.topic = "records",
                            .flags = CAFKA_POSITION_OFFSET,
                            .offset = CAFKA_OFFSET_BEGINNING};
    begin(&s);
    produce_values(&s, RECORDS);
    read_count = 0;
    if (cafka_consumer_new(&consumer, s.config, &err) ||
        cafka_consumer_assign(consumer, &start, 1, &err))
        fail_msg("%s", err.message);
    for (int i = 0; i < 3; i++) { /* frames grow to what is needed, and are kept from the third on */
        (void)read_and_count_copied(consumer, s.value, RECORDS);
        if (cafka_consumer_seek(consumer, "records", 0, 0, &err))
            fail_msg("%s", err.message);
    }
    read_count = 0;
    int copied = read_and_count_copied(consumer, s.value, RECORDS);
    print_message("%d of %d records were copied\n", copied, RECORDS);
    assert_in_range(copied, 0, AT_HEAD);
    cafka_consumer_free(consumer);
    end(&s);
}

int main(void)
{
    const cafka_allocator allocator = {sizeof allocator, take, take_more, keep, NULL};
    cafka_error err;
    if (cafka_set_allocator(&allocator, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_produced_value_is_copied_once),
        cmocka_unit_test(fetched_values_are_not_copied),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < block_count; i++)
        free(blocks[i].data);
    return failed;
}
