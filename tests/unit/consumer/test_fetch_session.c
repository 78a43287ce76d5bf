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

struct scene {
    struct fetch_session session;
    struct fetch_session_entry a, b, c;
};

static bool want(struct scene *s, struct fetch_session_entry *entry, int64_t offset)
{
    return fetch_session_want(&s->session, entry, (struct uuid){{1}}, offset, 0, 100);
}

static int forgotten(struct scene *s)
{
    int count = 0;
    while (fetch_session_next_forgotten(&s->session))
        count++;
    return count;
}

/* A session 77 with a and b in it. Static, since the links must stay where they are. */
static struct scene *session_of_a_and_b(void)
{
    static struct scene s;
    s = (struct scene){0};
    fetch_session_init(&s.session);
    fetch_session_begin(&s.session);
    assert_true(want(&s, &s.a, 0));
    assert_true(want(&s, &s.b, 0));
    assert_int_equal(forgotten(&s), 0);
    assert_int_equal(s.session.epoch, FETCH_EPOCH_INITIAL);
    assert_int_equal(fetch_session_answered(&s.session, ERR_NONE, 77, 2, 0, false),
                     FETCH_SESSION_USE);
    return &s;
}

static void first_fetch_lists_all_and_opens_a_session(void **state)
{
    (void)state;
    struct scene *s = session_of_a_and_b();
    assert_int_equal(s->session.id, 77);
    assert_int_equal(s->session.epoch, 1);
}

static void next_fetch_lists_only_what_changed(void **state)
{
    (void)state;
    struct scene *s = session_of_a_and_b();
    fetch_session_begin(&s->session);
    assert_false(want(s, &s->a, 0));
    assert_true(want(s, &s->b, 5));
    assert_true(want(s, &s->c, 0));
    assert_int_equal(forgotten(s), 0);
    assert_int_equal(s->session.count, 3);
    assert_int_equal(fetch_session_answered(&s->session, ERR_NONE, 77, 1, 0, false),
                     FETCH_SESSION_USE);
    assert_int_equal(s->session.epoch, 2);
}

static void partition_that_is_not_wanted_is_forgotten_once(void **state)
{
    (void)state;
    struct scene *s = session_of_a_and_b();
    fetch_session_begin(&s->session);
    assert_false(want(s, &s->a, 0));
    assert_ptr_equal(fetch_session_next_forgotten(&s->session), &s->b);
    assert_null(fetch_session_next_forgotten(&s->session));
    assert_null(s->b.session);
    assert_int_equal(s->session.count, 1);
}

static void session_that_the_broker_lost_is_opened_anew(void **state)
{
    (void)state;
    struct scene *s = session_of_a_and_b();
    fetch_session_begin(&s->session);
    assert_int_equal(fetch_session_answered(&s->session, ERR_FETCH_SESSION_ID_NOT_FOUND, 0, 0, 0,
                                            false),
                     FETCH_SESSION_DROP);
    assert_int_equal(s->session.id, 0);
    fetch_session_begin(&s->session);
    assert_true(want(s, &s->a, 0));
    assert_true(want(s, &s->b, 0));
}

static void failure_closes_the_session_with_the_next_full_fetch(void **state)
{
    (void)state;
    struct scene *s = session_of_a_and_b();
    fetch_session_begin(&s->session);
    fetch_session_failed(&s->session);
    assert_int_equal(s->session.id, 77);
    assert_int_equal(s->session.epoch, FETCH_EPOCH_INITIAL);
    fetch_session_begin(&s->session);
    assert_true(want(s, &s->a, 0));
    assert_int_equal(forgotten(s), 1);
}

static void answer_about_a_stranger_is_not_believed(void **state)
{
    (void)state;
    struct scene *s = session_of_a_and_b();
    fetch_session_begin(&s->session);
    want(s, &s->a, 1);
    want(s, &s->b, 1);
    assert_int_equal(fetch_session_answered(&s->session, ERR_NONE, 77, 2, 1, false),
                     FETCH_SESSION_DROP);
    assert_int_equal(s->session.epoch, FETCH_EPOCH_INITIAL);
}

static void partition_that_left_meanwhile_spoils_no_answer(void **state)
{
    (void)state;
    struct scene *s = session_of_a_and_b();
    fetch_session_begin(&s->session);
    want(s, &s->a, 1);
    want(s, &s->b, 1);
    fetch_session_leave(&s->b);
    assert_int_equal(fetch_session_answered(&s->session, ERR_NONE, 77, 2, 1, false),
                     FETCH_SESSION_USE);
    fetch_session_begin(&s->session);
    assert_true(s->session.full);
    assert_int_equal(s->session.id, 77);
}

static void full_answer_must_hold_every_partition(void **state)
{
    (void)state;
    static struct scene s;
    s = (struct scene){0};
    fetch_session_init(&s.session);
    fetch_session_begin(&s.session);
    want(&s, &s.a, 0);
    want(&s, &s.b, 0);
    assert_int_equal(fetch_session_answered(&s.session, ERR_NONE, 9, 1, 0, false),
                     FETCH_SESSION_DROP);
    fetch_session_begin(&s.session);
    want(&s, &s.a, 0);
    want(&s, &s.b, 0);
    assert_int_equal(fetch_session_answered(&s.session, ERR_NONE, 0, 0, 0, true),
                     FETCH_SESSION_DROP);
    assert_int_equal(s.session.id, 0);
}

static void epoch_wraps_to_one(void **state)
{
    (void)state;
    struct scene *s = session_of_a_and_b();
    s->session.epoch = INT32_MAX;
    fetch_session_begin(&s->session);
    fetch_session_answered(&s->session, ERR_NONE, 77, 0, 0, false);
    assert_int_equal(s->session.epoch, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_fetch_lists_all_and_opens_a_session),
        cmocka_unit_test(next_fetch_lists_only_what_changed),
        cmocka_unit_test(partition_that_is_not_wanted_is_forgotten_once),
        cmocka_unit_test(session_that_the_broker_lost_is_opened_anew),
        cmocka_unit_test(failure_closes_the_session_with_the_next_full_fetch),
        cmocka_unit_test(answer_about_a_stranger_is_not_believed),
        cmocka_unit_test(partition_that_left_meanwhile_spoils_no_answer),
        cmocka_unit_test(full_answer_must_hold_every_partition),
        cmocka_unit_test(epoch_wraps_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
