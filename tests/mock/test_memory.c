/*
 * test_memory.c - an allocator of the application's: it serves all that clients need, gets all of it
 * back, and the counters say what memory is for.
 *
 * A program of its own, since an allocator must be there before anything else.
 */
#include "mock/mock_fixture.h"

#include <cafka/memory.h>

/* An allocator that keeps the size before each block. Everything here is one thread. */
struct counted {
    size_t taken, given_back, bytes, refused_above;
};

static struct counted counted;

struct block {
    _Alignas(max_align_t) size_t size;
};

static void *take(size_t size, void *user)
{
    struct counted *c = user;
    struct block *block =
        c->refused_above && size > c->refused_above ? NULL : malloc(sizeof *block + size);
    assert_true(size > 0);
    if (!block)
        return NULL;
    memset(block, 0xa5, sizeof *block + size); /* not zeroed: who wants zeros must say so */
    block->size = size;
    c->taken++;
    c->bytes += size;
    return block + 1;
}

static void give_back(void *memory, void *user)
{
    struct counted *c = user;
    struct block *block = (struct block *)memory - 1;
    assert_non_null(memory);
    c->given_back++;
    c->bytes -= block->size;
    free(block);
}

static void *take_more(void *memory, size_t size, void *user)
{
    struct block *block = (struct block *)memory - 1;
    void *larger = take(size, user);
    if (!larger)
        return NULL;
    memcpy(larger, memory, block->size < size ? block->size : size);
    give_back(memory, user);
    return larger;
}

static const cafka_allocator allocator = {sizeof(cafka_allocator), take, take_more, give_back,
                                          &counted};

static int64_t bytes_for(const char *name)
{
    cafka_memory_use use = {.size = sizeof use};
    for (size_t i = 0; !cafka_memory_stats(i, &use); i++)
        if (!strcmp(use.name, name))
            return use.bytes;
    fail_msg("no memory is for %s", name);
    return -1;
}

static int64_t all_bytes(void)
{
    int64_t sum = 0;
    cafka_memory_use use = {.size = sizeof use};
    for (size_t i = 0; !cafka_memory_stats(i, &use); i++) {
        assert_true(use.bytes >= 0 && use.blocks >= 0 && *use.doc);
        sum += use.bytes;
    }
    return sum;
}

static void an_allocator_must_be_whole(void **state)
{
    (void)state;
    cafka_error err = {0};
    cafka_allocator half = allocator;
    half.realloc = NULL;
    assert_int_equal(cafka_set_allocator(NULL, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_set_allocator(&half, &err), CAFKA_ERR_ARGUMENT);
    half = allocator;
    half.size = 0;
    assert_int_equal(cafka_set_allocator(&half, &err), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_memory_stats(0, NULL), CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_memory_stats(1000, &(cafka_memory_use){.size = sizeof(cafka_memory_use)}),
                     CAFKA_END);
}

static void an_allocator_comes_before_everything_else_and_once(void **state)
{
    (void)state;
    cafka_error err = {0};
    assert_int_equal(cafka_set_allocator(&allocator, &err), CAFKA_OK);
    assert_int_equal(cafka_set_allocator(&allocator, &err), CAFKA_ERR_STATE);
    assert_non_null(strstr(err.message, "before anything else"));
}

static void read_one(cafka_consumer *consumer)
{
    cafka_fetch *fetch = NULL;
    cafka_record_view record;
    cafka_error err = {0};
    while (!fetch)
        assert_int_equal(cafka_consumer_poll(consumer, 10000, &fetch, &err), CAFKA_OK);
    assert_int_equal(cafka_fetch_next(fetch, &record, &err), CAFKA_OK);
    assert_true(bytes_for("frames") > 0); /* the record lies in one */
    cafka_fetch_free(fetch);
}

static void all_memory_comes_from_it_and_goes_back(void **state)
{
    (void)state;
    static const char *const topics[] = {"orders:3"}, *const texts[] = {"one", "two"};
    cafka_mock *mock = start_cluster(7, topics, 1, NULL);
    int64_t before = all_bytes();
    produce_texts(mock, "orders", 1, texts, 2, "compression.type=gzip");
    cafka_config *config = client_config(mock, "");
    cafka_producer *producer;
    assert_int_equal(cafka_producer_new(&producer, config, NULL), CAFKA_OK);
    cafka_config_free(config);
    assert_int_equal(bytes_for("records"), 0);
    cafka_record record = {.topic = "orders", .value = "three", .value_size = 5};
    assert_int_equal(cafka_producer_send(producer, &record, NULL), CAFKA_OK);
    assert_true(bytes_for("records") >= 16384); /* a block of its buffer */
    cafka_producer_free(producer);
    assert_int_equal(bytes_for("records"), 0);

    cafka_consumer *consumer = open_consumer(mock, "");
    assign_from(consumer, "orders", 3, CAFKA_OFFSET_BEGINNING);
    read_one(consumer);
    assert_true(all_bytes() > before);
    close_consumer(consumer);
    cafka_mock_free(mock);
    assert_int_equal(all_bytes(), 0);
    assert_true(counted.taken > 1000);
    assert_int_equal(counted.given_back, counted.taken);
    assert_int_equal(counted.bytes, 0);
}

static void an_allocator_that_refuses_is_an_error(void **state)
{
    (void)state;
    cafka_config *config;
    cafka_error err = {0};
    counted.refused_above = 1;
    assert_int_equal(cafka_config_new(&config, &err), CAFKA_ERR_MEMORY);
    counted.refused_above = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allocator_must_be_whole),
        cmocka_unit_test(an_allocator_comes_before_everything_else_and_once),
        cmocka_unit_test(all_memory_comes_from_it_and_goes_back),
        cmocka_unit_test(an_allocator_that_refuses_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
