/*
 * test_compressors.c - where batches are compressed: by who closes them, or by compression.threads.
 *
 * The loop and the workers only get on while the world is stepped, which send() does not do as long
 * as there is room. So what a send leaves behind shows what the sending thread has done itself.
 */
#include "producer_fixture.h"

#include "producer/room.h"

static int setup(void **state)
{
    struct producer_fixture *f = *state = open_world(1, 1);
    set(f, "compression.type", "gzip");
    set(f, "batch.size", "2000");
    set(f, "batch.max.size", "2000");
    set(f, "linger.ms", "1000");
    return 0;
}

static int teardown(void **state)
{
    close_world(*state);
    return 0;
}

static struct partition *partition_of(struct producer_fixture *f)
{
    cafka_topic *topic = topics_find(&f->producer->topics, "orders");
    assert_non_null(topic);
    return atomic_load(&topic->set)->partitions[0];
}

/* The loop knows the topic, and nothing is under way. */
static void warm_up(struct producer_fixture *f)
{
    start(f);
    send_records(f, 1);
    flush(f);
}

/* The batch that the appending thread closed last; NULL: none. */
static struct producer_batch *closed_batch(struct producer_fixture *f)
{
    struct list *link = list_first(&partition_of(f)->closed);
    return link ? list_item(link, struct producer_batch, link) : NULL;
}

static void send_until_one_is_closed(struct producer_fixture *f)
{
    for (int i = 0; i < 100 && !closed_batch(f); i++)
        send_records(f, 1);
    assert_non_null(closed_batch(f));
}

static void batch_that_is_full_is_compressed_by_who_fills_it(void **state)
{
    struct producer_fixture *f = *state;
    warm_up(f);
    send_until_one_is_closed(f);
    assert_true(producer_batch_is_sealed(closed_batch(f)));
    assert_int_equal(closed_batch(f)->codec, CODEC_GZIP);
    assert_true(closed_batch(f)->size < closed_batch(f)->raw_size);
    flush(f);
}

static void batch_that_lingers_is_compressed_by_the_loop(void **state)
{
    struct producer_fixture *f = *state;
    warm_up(f);
    f->codec = -1;
    send_records(f, 5);
    assert_null(closed_batch(f));
    assert_non_null(partition_of(f)->open);
    sim_advance_ms(f->sim, 1500);
    assert_int_equal(f->delivered, 6);
    assert_int_equal(f->codec, CODEC_GZIP);
}

static void with_workers_who_fills_a_batch_does_not_compress_it(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "compression.threads", "2");
    warm_up(f);
    unsigned before = atomic_load(&f->producer->compressors.turn);
    f->codec = -1;
    send_until_one_is_closed(f);
    assert_false(producer_batch_is_sealed(closed_batch(f)));
    assert_true(atomic_load(&f->producer->compressors.turn) > before); /* a worker was given it */
    flush(f);
    assert_int_equal(f->codec, CODEC_GZIP);
    assert_int_equal(f->delivered, f->next);
}

static void without_compression_workers_are_given_nothing(void **state)
{
    struct producer_fixture *f = *state;
    set(f, "compression.type", "none");
    set(f, "compression.threads", "2");
    warm_up(f);
    send_until_one_is_closed(f);
    assert_true(producer_batch_is_sealed(closed_batch(f)));
    flush(f);
    assert_int_equal(atomic_load(&f->producer->compressors.turn), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(batch_that_is_full_is_compressed_by_who_fills_it),
        TEST(batch_that_lingers_is_compressed_by_the_loop),
        TEST(with_workers_who_fills_a_batch_does_not_compress_it),
        TEST(without_compression_workers_are_given_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
