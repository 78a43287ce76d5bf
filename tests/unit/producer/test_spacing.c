/*
 * test_spacing.c - without linger.ms: records that come one by one share requests, if that pays, and
 * nobody waits for it longer than a part of a millisecond.
 */
#include "producer_fixture.h"

#include "producer/room.h"

#define NS_PER_US INT64_C(1000)

enum { US = 1000 };

/* --- the decision alone --- */

/* A request leaves at now_ns; then records come, `apart_ns` apart. The time of the last one. */
static int64_t request_and_records(struct spacing *s, int64_t now_ns, int records, int64_t apart_ns)
{
    (void)spacing_sent(s, now_ns);
    for (int i = 0; i < records; i++) {
        now_ns += apart_ns;
        if (spacing_until_ns(s))
            (void)spacing_noticed(s, now_ns);
    }
    return now_ns;
}

/* Requests that were followed by a hold, of so many. */
static int count_holds(struct spacing *s, int requests, int records, int64_t apart_ns)
{
    int holds = 0;
    int64_t now_ns = 1000000000;
    for (int i = 0; i < requests; i++) {
        now_ns = request_and_records(s, now_ns, records, apart_ns);
        holds += spacing_until_ns(s) != 0;
    }
    return holds;
}

static void holding_goes_on_while_records_come_one_by_one(void **state)
{
    (void)state;
    struct spacing s;
    spacing_init(&s);
    int holds = count_holds(&s, 1000, 3, 90 * NS_PER_US);
    assert_in_range(holds, 970, 1000); /* all but the first few */
}

static void holding_ends_when_records_come_all_at_once(void **state)
{
    (void)state;
    struct spacing s;
    spacing_init(&s);
    assert_in_range(count_holds(&s, 10000, 5, 1 * NS_PER_US), 1, 30); /* it is tried now and then */
}

static void holding_ends_when_one_record_comes_at_a_time(void **state)
{
    (void)state;
    struct spacing s;
    spacing_init(&s);
    assert_in_range(count_holds(&s, 10000, 1, 300 * NS_PER_US), 1, 30);
}

static void holding_begins_again_when_records_change_their_ways(void **state)
{
    (void)state;
    struct spacing s;
    spacing_init(&s);
    (void)count_holds(&s, 10000, 1, 300 * NS_PER_US);
    assert_in_range(count_holds(&s, 3000, 3, 90 * NS_PER_US), 1900, 3000);
}

static void who_appends_after_the_time_wakes_the_loop(void **state)
{
    (void)state;
    struct spacing s;
    spacing_init(&s);
    (void)count_holds(&s, 100, 3, 90 * NS_PER_US);
    int64_t now_ns = INT64_C(5000000000);
    assert_true(spacing_sent(&s, now_ns));
    assert_int_equal(spacing_until_ns(&s), now_ns + SPACING_NS);
    int64_t look_ns = spacing_noticed(&s, now_ns + 90 * NS_PER_US);
    assert_in_range(look_ns, now_ns + SPACING_SHORTEST_NS, now_ns + SPACING_LONGEST_NS);
    assert_int_equal(spacing_noticed(&s, now_ns + SPACING_NS), 0);
}

static void an_alarm_that_finds_records_ends_the_spacing_for_a_while(void **state)
{
    (void)state;
    struct spacing s;
    spacing_init(&s);
    (void)count_holds(&s, 1000, 3, 90 * NS_PER_US);
    int64_t now_ns = INT64_C(5000000000);
    assert_true(spacing_sent(&s, now_ns));
    (void)spacing_noticed(&s, now_ns + 90 * NS_PER_US);
    spacing_alarm(&s);
    assert_int_equal(count_holds(&s, 200, 3, 90 * NS_PER_US), 0);
    assert_in_range(count_holds(&s, 200, 3, 90 * NS_PER_US), 100, 200);
}

static void the_alarm_is_moved_on_rarely_and_never_too_far(void **state)
{
    (void)state;
    struct spacing s;
    spacing_init(&s);
    (void)count_holds(&s, 100, 3, 90 * NS_PER_US);
    int moves = 0;
    int64_t alarm_ns = 0, now_ns = INT64_C(5000000000);
    for (int i = 0; i < 100; i++, now_ns += 270 * NS_PER_US) {
        request_and_records(&s, now_ns, 3, 90 * NS_PER_US);
        moves += atomic_load(&s.alarm_ns) != alarm_ns;
        alarm_ns = atomic_load(&s.alarm_ns);
        assert_in_range(alarm_ns - now_ns, SPACING_SHORTEST_NS, SPACING_LONGEST_NS);
    }
    assert_in_range(moves, 20, 40);
}

/* --- a producer, under virtual time --- */

static int64_t sent_ns[LOG_MAX], longest_ns;
static int told;

static int setup(void **state)
{
    struct producer_fixture *f = *state = open_world(1, 1);
    struct sim_link near;
    sim_link_default(&near);
    near.latency_min_us = 20; /* an answer is there before the next record */
    near.latency_max_us = 30;
    near.split_one_in = 0;
    assert_int_equal(sim_link_set(f->sim, NULL, NULL, &near, NULL), 0);
    set(f, "linger.ms", "0");
    longest_ns = 0;
    told = 0;
    return 0;
}

static int teardown(void **state)
{
    close_world(*state);
    return 0;
}

static int64_t now_ns(const struct producer_fixture *f)
{
    return f->cluster.env->now(f->cluster.env);
}

/* The world goes on for some microseconds. */
static void pass_us(struct producer_fixture *f, int64_t us)
{
    const cafka_env *env = f->cluster.env;
    int event = env->event_open(env);
    assert_int_equal(env->event_wait(env, event, env->now(env) + us * US), 0);
    env->event_close(env, event);
}

static void note_times(struct producer_fixture *f)
{
    for (; told < f->delivered; told++) {
        int64_t took_ns = now_ns(f) - sent_ns[told];
        longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
    }
}

static void send_one(struct producer_fixture *f)
{
    sent_ns[f->next] = now_ns(f);
    send_records(f, 1);
}

static void send_apart(struct producer_fixture *f, int count, int64_t apart_us)
{
    for (int i = 0; i < count; i++) {
        send_one(f);
        pass_us(f, apart_us);
    }
}

/* What a record takes there and back when nothing is held. */
static int64_t round_trip_ns(struct producer_fixture *f)
{
    send_one(f);
    flush(f);
    sim_advance_ms(f->sim, 10);
    send_one(f);
    flush(f);
    return now_ns(f) - sent_ns[f->next - 1];
}

static void records_a_little_apart_share_requests(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    int64_t trip_ns = round_trip_ns(f);
    told = f->delivered;
    f->in_callback = note_times;
    int before = f->produced;
    send_apart(f, 3000, 100);
    sim_advance_ms(f->sim, 10 + trip_ns / 1000000);
    assert_int_equal(f->delivered, f->next); /* nobody flushed, nothing stayed */
    assert_in_range(f->produced - before, 900, 1600);
    assert_in_range(longest_ns, 0, 2 * trip_ns + SPACING_LONGEST_NS);
    assert_log_is(f, 0, f->next);
    assert_each_reported_once(f);
}

/* They wait for the alarm, since nobody comes after them. */
static void the_last_records_wait_for_less_than_a_millisecond(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    int64_t trip_ns = round_trip_ns(f);
    send_apart(f, 1000, 100);
    sim_advance_ms(f->sim, 100);
    told = f->delivered;
    f->in_callback = note_times;
    for (int i = 0; i < 20; i++) {
        send_apart(f, 7, 100);
        sim_advance_ms(f->sim, 100);
    }
    assert_int_equal(told, f->next);
    assert_in_range(longest_ns, 0, 2 * trip_ns + SPACING_LONGEST_NS);
}

static void send_next(struct producer_fixture *f)
{
    if (f->next < 2000)
        send_records(f, 1);
}

/* Who sends when it hears of the last delivery would only be slowed down by holding. */
static void a_sender_that_waits_for_answers_is_not_slowed_down(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    int64_t trip_ns = round_trip_ns(f);
    int64_t began_ns = now_ns(f);
    int first = f->next;
    f->in_callback = send_next;
    send_records(f, 1);
    while (f->delivered < 2000)
        sim_advance_ms(f->sim, 1);
    int64_t took_ns = now_ns(f) - began_ns;
    assert_in_range(took_ns, 0, (2000 - first) * trip_ns * 12 / 10);
}

static void a_flush_is_not_held_back(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    int64_t trip_ns = round_trip_ns(f);
    send_apart(f, 1000, 100);
    for (int i = 0; i < 20; i++) {
        send_apart(f, 3, 20);
        int64_t began_ns = now_ns(f);
        flush(f);
        assert_in_range(now_ns(f) - began_ns, 0, 2 * trip_ns + 50 * US);
    }
}

/* Full batches have nothing to wait for. */
static void much_at_once_is_not_held_back(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    int64_t trip_ns = round_trip_ns(f);
    send_apart(f, 1000, 100);
    int64_t began_ns = now_ns(f);
    send_sized(f, 400, 10000);
    while (f->delivered < f->next)
        pass_us(f, 50);
    assert_in_range(now_ns(f) - began_ns, 0, 10 * trip_ns + 1000000);
    assert_log_is(f, 0, f->next);
}

static void an_idle_producer_rings_no_alarm(void **state)
{
    struct producer_fixture *f = *state;
    start(f);
    (void)round_trip_ns(f);
    send_apart(f, 1000, 100);
    sim_advance_ms(f->sim, 50);
    int64_t due_ms = loop_timeout_ms(f->producer->client.loop);
    assert_true(due_ms < 0 || due_ms > 1000);
}

int main(void)
{
#define IN_A_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holding_goes_on_while_records_come_one_by_one),
        cmocka_unit_test(holding_ends_when_records_come_all_at_once),
        cmocka_unit_test(holding_ends_when_one_record_comes_at_a_time),
        cmocka_unit_test(holding_begins_again_when_records_change_their_ways),
        cmocka_unit_test(who_appends_after_the_time_wakes_the_loop),
        cmocka_unit_test(an_alarm_that_finds_records_ends_the_spacing_for_a_while),
        cmocka_unit_test(the_alarm_is_moved_on_rarely_and_never_too_far),
        IN_A_WORLD(records_a_little_apart_share_requests),
        IN_A_WORLD(the_last_records_wait_for_less_than_a_millisecond),
        IN_A_WORLD(a_sender_that_waits_for_answers_is_not_slowed_down),
        IN_A_WORLD(a_flush_is_not_held_back),
        IN_A_WORLD(much_at_once_is_not_held_back),
        IN_A_WORLD(an_idle_producer_rings_no_alarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
