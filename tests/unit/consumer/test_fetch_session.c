/*
 * test_fetch_session.c - what a fetch has to list, by KIP-227.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "consumer/fetch_session.h"
#include "protocol/errors.h"
#include "util/alloc.h"

struct scene {
    struct fetch_session session;
    struct fetch_session_entry a, b, c;
};

/* Builds a request; how many partitions it lists. */
static int listed(struct scene *s)
{
    int count = 0;
    fetch_session_begin(&s->session);
    while (fetch_session_next(&s->session))
        count++;
    return count;
}

static void leave(struct fetch_session_entry *entry, int32_t number)
{
    fetch_session_leave(entry, "orders", (struct uuid){{1}}, number);
}

static enum fetch_session_verdict answer(struct scene *s, int error_code, int32_t id, size_t count)
{
    return fetch_session_answered(&s->session, error_code, id, count, 0, false);
}

static int set_up(void **state)
{
    struct scene *s = mem_zalloc(sizeof *s);
    fetch_session_init(&s->session);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    fetch_session_fini(&s->session);
    mem_free(s);
    return 0;
}

/* A session 77 with a and b in it. */
static struct scene *session_of_a_and_b(void **state)
{
    struct scene *s = *state;
    fetch_session_join(&s->session, &s->a, false);
    fetch_session_join(&s->session, &s->b, false);
    assert_int_equal(listed(s), 2);
    assert_int_equal(s->session.epoch, FETCH_EPOCH_INITIAL);
    fetch_session_sent(&s->session);
    assert_int_equal(answer(s, ERR_NONE, 77, 2), FETCH_SESSION_USE);
    return s;
}

static void first_fetch_lists_all_and_opens_a_session(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    assert_int_equal(s->session.id, 77);
    assert_int_equal(s->session.epoch, 1);
}

static void next_fetch_lists_only_what_changed(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    fetch_session_touch(&s->b);
    fetch_session_join(&s->session, &s->c, false);
    assert_int_equal(listed(s), 2);
    fetch_session_sent(&s->session);
    assert_int_equal(s->session.count, 3);
    assert_int_equal(answer(s, ERR_NONE, 77, 1), FETCH_SESSION_USE);
    assert_int_equal(s->session.epoch, 2);
    assert_int_equal(listed(s), 0);
}

static void partition_that_leaves_is_forgotten_once(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    leave(&s->b, 4);
    assert_null(s->b.session);
    assert_int_equal(listed(s), 0);
    assert_int_equal(s->session.forgotten_count, 1);
    assert_string_equal(s->session.forgotten[0].topic, "orders");
    assert_int_equal(s->session.forgotten[0].partition, 4);
    fetch_session_sent(&s->session);
    assert_int_equal(s->session.forgotten_count, 0);
    assert_int_equal(s->session.count, 1);
}

static void partition_that_the_broker_never_heard_of_is_not_forgotten(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    fetch_session_join(&s->session, &s->c, false);
    leave(&s->c, 5);
    assert_int_equal(listed(s), 0);
    assert_int_equal(s->session.forgotten_count, 0);
}

static void without_memory_to_forget_the_next_fetch_lists_all(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    mem_fail_after(1, 0);
    leave(&s->b, 4);
    mem_fail_after(0, 0);
    assert_int_equal(listed(s), 1);
    assert_true(s->session.full);
    assert_int_equal(s->session.id, 77); /* which closes the old one */
}

static void session_that_the_broker_lost_is_opened_anew(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    listed(s);
    fetch_session_sent(&s->session);
    assert_int_equal(answer(s, ERR_FETCH_SESSION_ID_NOT_FOUND, 0, 0), FETCH_SESSION_DROP);
    assert_int_equal(s->session.id, 0);
    assert_int_equal(listed(s), 2);
}

static void failure_closes_the_session_with_the_next_full_fetch(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    listed(s);
    fetch_session_sent(&s->session);
    fetch_session_failed(&s->session);
    assert_int_equal(s->session.id, 77);
    assert_int_equal(s->session.epoch, FETCH_EPOCH_INITIAL);
    leave(&s->b, 4);
    assert_int_equal(listed(s), 1);
    assert_int_equal(s->session.forgotten_count, 0);
}

static void answer_about_a_stranger_is_not_believed(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    listed(s);
    fetch_session_sent(&s->session);
    assert_int_equal(fetch_session_answered(&s->session, ERR_NONE, 77, 2, 1, false),
                     FETCH_SESSION_DROP);
    assert_int_equal(s->session.epoch, FETCH_EPOCH_INITIAL);
}

static void partition_that_left_meanwhile_spoils_no_answer(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    listed(s);
    fetch_session_sent(&s->session);
    leave(&s->b, 4);
    assert_int_equal(fetch_session_answered(&s->session, ERR_NONE, 77, 2, 1, false),
                     FETCH_SESSION_USE);
    listed(s);
    assert_false(s->session.full);
    assert_int_equal(s->session.forgotten_count, 1);
}

static void full_answer_must_hold_every_partition(void **state)
{
    struct scene *s = *state;
    fetch_session_join(&s->session, &s->a, false);
    fetch_session_join(&s->session, &s->b, false);
    listed(s);
    fetch_session_sent(&s->session);
    assert_int_equal(answer(s, ERR_NONE, 9, 1), FETCH_SESSION_DROP);
    listed(s);
    fetch_session_sent(&s->session);
    fetch_session_join(&s->session, &s->c, false); /* came too late for this one */
    assert_int_equal(answer(s, ERR_NONE, 9, 2), FETCH_SESSION_USE);
}

static void throttled_answer_without_data_is_no_session(void **state)
{
    struct scene *s = *state;
    fetch_session_join(&s->session, &s->a, false);
    listed(s);
    fetch_session_sent(&s->session);
    assert_int_equal(fetch_session_answered(&s->session, ERR_NONE, 0, 0, 0, true),
                     FETCH_SESSION_DROP);
    assert_int_equal(s->session.id, 0);
}

/* A broker without sessions fills its answers in the order of the request. */
static void full_fetch_lists_last_what_gave_data_last(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    fetch_session_touch(&s->a);
    fetch_session_failed(&s->session);
    fetch_session_begin(&s->session);
    assert_ptr_equal(fetch_session_next(&s->session), &s->b);
    assert_ptr_equal(fetch_session_next(&s->session), &s->a);
    assert_null(fetch_session_next(&s->session));
}

static void epoch_wraps_to_one(void **state)
{
    struct scene *s = session_of_a_and_b(state);
    s->session.epoch = INT32_MAX;
    listed(s);
    fetch_session_sent(&s->session);
    answer(s, ERR_NONE, 77, 0);
    assert_int_equal(s->session.epoch, 1);
}

#define SESSION_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SESSION_TEST(first_fetch_lists_all_and_opens_a_session),
        SESSION_TEST(next_fetch_lists_only_what_changed),
        SESSION_TEST(partition_that_leaves_is_forgotten_once),
        SESSION_TEST(partition_that_the_broker_never_heard_of_is_not_forgotten),
        SESSION_TEST(without_memory_to_forget_the_next_fetch_lists_all),
        SESSION_TEST(session_that_the_broker_lost_is_opened_anew),
        SESSION_TEST(failure_closes_the_session_with_the_next_full_fetch),
        SESSION_TEST(answer_about_a_stranger_is_not_believed),
        SESSION_TEST(partition_that_left_meanwhile_spoils_no_answer),
        SESSION_TEST(full_answer_must_hold_every_partition),
        SESSION_TEST(throttled_answer_without_data_is_no_session),
        SESSION_TEST(full_fetch_lists_last_what_gave_data_last),
        SESSION_TEST(epoch_wraps_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
