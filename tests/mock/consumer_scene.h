/*
 * consumer_scene.h - a simulated cluster with the topics orders (3 partitions) and small (1), and one
 * consumer; records are numbers.
 */
#ifndef CAFKA_TESTS_CONSUMER_SCENE_H
#define CAFKA_TESTS_CONSUMER_SCENE_H

#include "mock/mock_fixture.h"

enum { EARLIEST_MS = 10000 };

struct scene {
    cafka_mock *mock;
    cafka_consumer *consumer;
};

static inline int set_up(void **state)
{
    static const char *const topics[] = {"orders:3", "small:1:1:segment.bytes=1048576"};
    struct scene *s = calloc(1, sizeof *s);
    s->mock = start_cluster(7, topics, 2, NULL);
    *state = s;
    return 0;
}

static inline int tear_down(void **state)
{
    struct scene *s = *state;
    if (s->consumer)
        close_consumer(s->consumer);
    cafka_mock_free(s->mock);
    free(s);
    return 0;
}

static inline void produce_numbers(struct scene *s, const char *topic, int32_t partition, int first,
                                   int count)
{
    char text[200][16];
    const char *texts[200];
    assert_true(count <= 200);
    for (int i = 0; i < count; i++) {
        snprintf(text[i], sizeof text[i], "%d", first + i);
        texts[i] = text[i];
    }
    produce_texts(s->mock, topic, partition, texts, (size_t)count, "linger.ms=0");
}

static inline int64_t now_ms(const struct scene *s)
{
    const cafka_env *env = cafka_mock_env(s->mock);
    return env->now(env) / 1000000;
}

/*
 * The next record, whichever fetch it takes; its number, or -1 when there is an error, or nothing
 * came in ten seconds. A poll that returns because the end was reached is not taken for that.
 */
static inline int next_number(struct scene *s, cafka_error *err)
{
    int number = -1;
    cafka_fetch *fetch = NULL;
    cafka_record_view record;
    int64_t until = now_ms(s) + EARLIEST_MS;
    int rc;
    do
        rc = cafka_consumer_poll(s->consumer, EARLIEST_MS, &fetch, err);
    while (!rc && !fetch && now_ms(s) < until);
    if (!rc && fetch && !cafka_fetch_next(fetch, &record, err)) {
        char text[16] = "";
        memcpy(text, record.value, record.value_size);
        number = atoi(text);
    }
    cafka_fetch_free(fetch);
    return number;
}

static inline void expect_numbers(struct scene *s, int first, int count)
{
    cafka_error err = {0};
    for (int i = first; i < first + count; i++) {
        int number = next_number(s, &err);
        if (number != i)
            fail_msg("%d instead of %d: %s", number, i, err.message);
    }
}

static inline void assign_one(struct scene *s, const char *topic, int32_t partition, unsigned flags,
                              int64_t offset)
{
    cafka_position at = {.topic = topic, .partition = partition, .flags = flags, .offset = offset};
    assert_int_equal(cafka_consumer_assign(s->consumer, &at, 1, NULL), CAFKA_OK);
}

#endif
