/*
 * test_frame_pool.c - frames are taken again when the next ones come, and what is rare is let go.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/frame.h"
#include "util/alloc.h"

enum { KEEP = 8 << 20, SMALL = 1000, LARGE = 300000 };

static int setup(void **state)
{
    struct frame_pool *pool;
    int rc = frame_pool_new(&pool, KEEP, NULL);
    *state = pool;
    return rc;
}

static int teardown(void **state)
{
    frame_pool_unref(*state);
    return mem_bytes(MEM_FRAMES) != 0;
}

static void use(struct frame_pool *pool, uint32_t size)
{
    struct frame *frame;
    assert_int_equal(frame_new(&frame, pool, size, NULL), CAFKA_OK);
    frame_unref(frame);
}

static void small_frame_is_kept_at_once(void **state)
{
    use(*state, SMALL);
    mem_fail_after(0, 0);
    for (int i = 0; i < 10; i++)
        use(*state, SMALL);
    assert_int_equal(mem_count(), 0);
}

static void large_frame_that_comes_rarely_is_let_go(void **state)
{
    for (uint32_t times = 1; times <= 10; times += 9) {
        use(*state, times * LARGE);
        use(*state, times * LARGE);
        assert_int_equal(mem_bytes(MEM_FRAMES), 0);
    }
}

static void large_frames_that_go_on_coming_are_kept(void **state)
{
    for (int i = 0; i < 3; i++)
        use(*state, LARGE);
    mem_fail_after(0, 0);
    for (int i = 0; i < 10; i++)
        use(*state, LARGE);
    assert_int_equal(mem_count(), 0);
}

static void no_more_is_kept_than_was_said(void **state)
{
    struct frame *frames[64];
    for (int i = 0; i < 64; i++)
        assert_int_equal(frame_new(&frames[i], *state, LARGE, NULL), CAFKA_OK);
    for (int i = 0; i < 64; i++)
        frame_unref(frames[i]);
    assert_in_range(mem_bytes(MEM_FRAMES), KEEP / 2, KEEP);
    for (int i = 0; i < 64; i++)
        use(*state, SMALL);
    assert_in_range(mem_bytes(MEM_FRAMES), KEEP / 2, KEEP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(small_frame_is_kept_at_once),
        TEST(large_frame_that_comes_rarely_is_let_go),
        TEST(large_frames_that_go_on_coming_are_kept),
        TEST(no_more_is_kept_than_was_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
