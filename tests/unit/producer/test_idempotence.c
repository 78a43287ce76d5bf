/*
 * test_idempotence.c - when a batch may leave and with which number, so that none is lost or doubled.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "producer/idempotence.h"

static const struct producer_identity id7 = {7, 0};

static enum sequence_gate fresh(struct sequences *s, const struct producer_identity *id,
                                int on_wire, bool confirmed)
{
    return sequences_gate(s, id,
                          &(struct gate_question){.on_wire = on_wire, .confirmed = confirmed});
}

static enum sequence_gate again(struct sequences *s, int on_wire)
{
    return sequences_gate(s, &id7,
                          &(struct gate_question){.has_sequence = true, .on_wire = on_wire});
}

static struct numbered number(struct sequences *s, int32_t count)
{
    return (struct numbered){s->id, s->epoch, sequences_assign(s, count), count};
}

static void the_first_batch_waits_for_an_id(void **state)
{
    (void)state;
    struct sequences s;
    sequences_init(&s);
    assert_int_equal(fresh(&s, &(struct producer_identity){-1, -1}, 0, false), GATE_NEED_ID);
    assert_int_equal(fresh(&s, &id7, 0, false), GATE_OPEN);
    assert_int_equal(sequences_assign(&s, 10), 0);
    assert_int_equal(sequences_assign(&s, 5), 10);
}

/* A leader that does not know the producer takes any first sequence, so only one may be under way. */
static void a_new_leader_gets_one_batch_until_it_has_acknowledged_it(void **state)
{
    (void)state;
    struct sequences s;
    sequences_init(&s);
    assert_int_equal(fresh(&s, &id7, 0, false), GATE_OPEN);
    assert_int_equal(fresh(&s, &id7, 1, false), GATE_WAIT);
    assert_int_equal(fresh(&s, &id7, 4, true), GATE_OPEN);
}

static void sequences_wrap_to_zero(void **state)
{
    (void)state;
    struct sequences s;
    sequences_init(&s);
    fresh(&s, &id7, 0, false);
    s.next = INT32_MAX - 1;
    s.last_acked = INT32_MAX - 2;
    struct numbered a = number(&s, 3);
    assert_int_equal(a.sequence, INT32_MAX - 1);
    assert_int_equal(s.next, 1);
    sequences_acknowledged(&s, &a);
    assert_int_equal(s.last_acked, 0);
    struct numbered b = number(&s, 1);
    assert_true(sequences_refused(&s, &b)); /* it does follow: the broker has forgotten us */
}

static void a_retried_batch_is_alone_on_the_wire(void **state)
{
    (void)state;
    struct sequences s;
    sequences_init(&s);
    fresh(&s, &id7, 0, false);
    number(&s, 1);
    assert_int_equal(again(&s, 1), GATE_WAIT);
    assert_int_equal(again(&s, 0), GATE_OPEN);
    struct gate_question behind = {.on_wire = 1, .retrying = true, .confirmed = true};
    assert_int_equal(sequences_gate(&s, &id7, &behind), GATE_WAIT);
}

/* First fails, second is refused for the gap: it keeps its number and goes after the first. */
static void a_batch_refused_because_an_earlier_one_failed_keeps_its_number(void **state)
{
    (void)state;
    struct sequences s;
    sequences_init(&s);
    fresh(&s, &id7, 0, false);
    struct numbered first = number(&s, 10), second = number(&s, 10);
    assert_false(sequences_refused(&s, &second));
    sequences_acknowledged(&s, &first);
    sequences_acknowledged(&s, &second);
    assert_int_equal(fresh(&s, &id7, 0, true), GATE_OPEN);
    assert_int_equal(s.next, 20);
}

static void a_broker_that_lost_its_state_makes_the_partition_begin_anew(void **state)
{
    (void)state;
    struct sequences s;
    struct producer_identity id = id7;
    sequences_init(&s);
    fresh(&s, &id, 0, false);
    struct numbered a = number(&s, 10), b = number(&s, 10);
    sequences_acknowledged(&s, &a);
    assert_true(sequences_refused(&s, &b));
    assert_int_equal(again(&s, 1), GATE_WAIT); /* not while answers are on their way */
    assert_int_equal(again(&s, 0), GATE_RESTART);
    assert_true(identity_bump(&id));
    sequences_restart(&s, &id);
    assert_int_equal(fresh(&s, &id, 0, false), GATE_OPEN);
    assert_int_equal(sequences_assign(&s, 10), 0);
    assert_int_equal(s.epoch, 1);
}

/* Given up after it was sent: it may be in the log or not, and the next must fit both. */
static void after_an_unknown_outcome_nothing_new_leaves_until_it_is_known(void **state)
{
    (void)state;
    struct sequences s;
    sequences_init(&s);
    fresh(&s, &id7, 0, false);
    struct numbered lost = number(&s, 10);
    sequences_given_up(&s, &lost, true);
    assert_int_equal(fresh(&s, &id7, 1, true), GATE_WAIT);
    sequences_acknowledged(&s, &lost); /* the answer came late: it was written */
    assert_int_equal(fresh(&s, &id7, 0, true), GATE_OPEN);
    assert_int_equal(s.next, 10);

    lost = number(&s, 10);
    sequences_given_up(&s, &lost, true); /* and this one's never comes */
    assert_int_equal(fresh(&s, &id7, 0, true), GATE_RESTART);
}

/* What was behind the lost batch is offered with its old number first: it may be in the log too. */
static void batches_behind_an_unknown_outcome_are_renumbered_only_once_refused(void **state)
{
    (void)state;
    struct sequences s;
    sequences_init(&s);
    fresh(&s, &id7, 0, false);
    struct numbered lost = number(&s, 10), behind = number(&s, 10);
    sequences_given_up(&s, &lost, true);
    assert_int_equal(again(&s, 0), GATE_OPEN);

    struct sequences written = s; /* both were written */
    sequences_acknowledged(&written, &behind);
    assert_int_equal(fresh(&written, &id7, 0, true), GATE_OPEN);

    assert_true(sequences_refused(&s, &behind)); /* neither was */
    assert_int_equal(again(&s, 0), GATE_RESTART);
}

static void a_batch_known_not_to_be_written_gives_its_number_back(void **state)
{
    (void)state;
    struct sequences s;
    sequences_init(&s);
    fresh(&s, &id7, 0, false);
    struct numbered refused = number(&s, 10);
    sequences_given_up(&s, &refused, false);
    assert_int_equal(fresh(&s, &id7, 0, true), GATE_OPEN);
    assert_int_equal(s.next, 0);

    struct numbered first = number(&s, 10);
    number(&s, 10); /* one behind it has its number already */
    sequences_given_up(&s, &first, false);
    assert_int_equal(again(&s, 0), GATE_RESTART);
}

static void another_partitions_bump_is_taken_over_once_the_wire_is_quiet(void **state)
{
    (void)state;
    struct sequences s;
    struct producer_identity id = id7;
    sequences_init(&s);
    fresh(&s, &id, 0, false);
    struct numbered a = number(&s, 10);
    assert_true(identity_bump(&id));
    assert_int_equal(fresh(&s, &id, 1, true), GATE_WAIT);
    sequences_acknowledged(&s, &a);
    assert_int_equal(fresh(&s, &id, 0, true), GATE_OPEN);
    assert_int_equal(s.next, 0);
    assert_int_equal(s.epoch, 1);
    sequences_given_up(&s, &a, false); /* of the old epoch: changes nothing */
    assert_int_equal(fresh(&s, &id, 0, true), GATE_OPEN);
}

static void when_epochs_are_used_up_a_new_id_is_needed(void **state)
{
    (void)state;
    struct producer_identity id = {7, INT16_MAX - 1};
    assert_true(identity_bump(&id));
    assert_int_equal(id.epoch, INT16_MAX);
    assert_false(identity_bump(&id));
    assert_int_equal(id.id, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_batch_waits_for_an_id),
        cmocka_unit_test(a_new_leader_gets_one_batch_until_it_has_acknowledged_it),
        cmocka_unit_test(sequences_wrap_to_zero),
        cmocka_unit_test(a_retried_batch_is_alone_on_the_wire),
        cmocka_unit_test(a_batch_refused_because_an_earlier_one_failed_keeps_its_number),
        cmocka_unit_test(a_broker_that_lost_its_state_makes_the_partition_begin_anew),
        cmocka_unit_test(after_an_unknown_outcome_nothing_new_leaves_until_it_is_known),
        cmocka_unit_test(batches_behind_an_unknown_outcome_are_renumbered_only_once_refused),
        cmocka_unit_test(a_batch_known_not_to_be_written_gives_its_number_back),
        cmocka_unit_test(another_partitions_bump_is_taken_over_once_the_wire_is_quiet),
        cmocka_unit_test(when_epochs_are_used_up_a_new_id_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
