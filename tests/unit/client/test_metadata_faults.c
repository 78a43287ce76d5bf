/*
 * test_metadata_faults.c - Metadata answers that are wrong, hostile, old or missing, and starting
 * again from bootstrap.servers (KIP-899, KIP-1102).
 */
#include "test_call.h"

#include "client/room.h"

#include <stdio.h>

#include "protocol/messages/Metadata.h"

/* --- answers that say too much --- */

static void number_wildly(struct script_cluster *c, struct arena *arena, struct metadata_response *r)
{
    (void)c;
    (void)arena;
    for (int i = 0; i < r->topics_count; i++)
        if (r->topics[i].partitions_count == 4) {
            r->topics[i].partitions[2].partition_index = 900000;
            r->topics[i].partitions[3].partition_index = -5;
        }
}

static void a_partition_number_out_of_range_costs_no_memory(void **state)
{
    struct client_fixture *f = *state;
    f->cluster.bend_metadata = number_wildly;
    script_topic_add(&f->cluster, "orders", 4);
    fixture_start(f);
    struct metadata_topic *orders = fixture_known_topic(f, "orders");
    assert_int_equal(orders->partition_count, 2);
    f->cluster.bend_metadata = NULL;
    fixture_refresh(f);
    assert_int_equal(orders->partition_count, 4);
}

enum { CROWD = 3000 };
static int crowds;

static void name_a_crowd(struct script_cluster *c, struct arena *arena, struct metadata_response *r)
{
    struct metadata_response_broker *all = arena_calloc(arena, CROWD + SCRIPT_BROKERS, sizeof *all);
    (void)c;
    assert_non_null(all);
    memcpy(all, r->brokers, (size_t)r->brokers_count * sizeof *all);
    for (int i = 0; i < CROWD; i++) {
        struct metadata_response_broker *b = &all[r->brokers_count++];
        metadata_response_broker_init(b);
        b->node_id = 1000 + crowds * CROWD + i;
        b->host = str_of("10.1.2.3");
        b->port = 9092;
    }
    r->brokers = all;
    crowds++;
}

/* A struct broker lives as long as the client, so other brokers in each answer must have an end. */
static void brokers_without_end_are_not_believed(void **state)
{
    struct client_fixture *f = *state;
    crowds = 0;
    fixture_start(f);
    f->cluster.bend_metadata = name_a_crowd;
    for (int i = 0; i < 6; i++)
        fixture_refresh(f);
    assert_true(f->client.broker_count <= BROKERS_MAX);
    assert_int_not_equal(metadata_last_error(f->client.metadata)->code, 0);
    f->cluster.bend_metadata = NULL;
    test_run_ms(f->loop, 500);
    assert_int_equal(metadata_last_error(f->client.metadata)->code, 0);
    assert_true(client_broker(&f->client, 1)->present);
    assert_false(client_broker(&f->client, 1000)->present);
}

/* --- leaders --- */

static bool is_led(void *arg)
{
    const struct metadata_topic *topic = arg;
    return topic->partitions[0].leader >= 0;
}

/* Broker and leader may become known in any order; whoever routes hears of it when both are. */
static void a_leader_that_is_no_broker_is_none_until_it_appears(void **state)
{
    struct client_fixture *f = *state;
    struct script_topic *t = script_topic_add(&f->cluster, "orders", 1);
    t->leader[0] = 2;
    f->cluster.brokers[1].hidden = true;
    fixture_start(f);
    struct metadata_topic *orders = fixture_known_topic(f, "orders");
    assert_int_equal(orders->partitions[0].leader, -1);
    assert_int_equal(orders->partitions[0].error, ERR_LEADER_NOT_AVAILABLE);
    f->what = 0;
    f->cluster.brokers[1].hidden = false;
    assert_true(test_run_until(f->loop, is_led, orders, 1000)); /* nobody had to ask */
    assert_int_equal(orders->partitions[0].leader, 2);
    assert_true(f->what & METADATA_LEADERS);
}

/* While a cluster is upgraded, its old brokers tell no ids, and may be behind. */
static void a_broker_without_topic_ids_does_not_make_a_topic_anew(void **state)
{
    struct client_fixture *f = *state;
    struct script_topic *t = script_topic_add(&f->cluster, "orders", 3);
    t->epoch[0] = 5;
    fixture_start(f);
    struct metadata_topic *orders = fixture_known_topic(f, "orders");
    struct uuid id = t->id;
    f->what = 0;
    t->id = (struct uuid){{0}};
    t->partitions = 2;
    t->epoch[0] = 4;
    fixture_refresh(f);
    assert_false(f->what & METADATA_RECREATED);
    assert_int_equal(orders->partition_count, 3);
    assert_int_equal(orders->partitions[0].leader_epoch, 5);
    assert_true(uuid_equal(orders->id, id));
}

/* --- all topics --- */

static void a_topic_that_is_gone_is_told_and_forgotten_where_all_are_wanted(void **state)
{
    struct client_fixture *f = *state;
    cafka_error err = {0};
    script_topic_add(&f->cluster, "orders", 1);
    script_topic_add(&f->cluster, "payments", 1);
    fixture_start(f);
    assert_int_equal(metadata_want_all(f->client.metadata, true, &err), 0);
    test_run_ms(f->loop, 200);
    assert_non_null(metadata_topic_find(f->client.metadata, str_of("payments")));
    f->what = 0;
    f->changes = 0;
    f->cluster.topic_count = 1;
    fixture_refresh(f);
    assert_null(metadata_topic_find(f->client.metadata, str_of("payments")));
    assert_non_null(metadata_topic_find(f->client.metadata, str_of("orders")));
    assert_int_equal(f->what, METADATA_ERROR);
    assert_int_equal(f->changes, 1);
}

/* --- how often --- */

/* Somebody finds each answer to be wrong: the same answer again comes later and later (KIP-580). */
static void answers_that_say_nothing_new_are_asked_for_with_backoff(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "orders", 1);
    fixture_start(f);
    (void)fixture_known_topic(f, "orders");
    test_run_ms(f->loop, 500);
    int before = f->cluster.request_count, first = script_count(&f->cluster, API_METADATA);
    for (int64_t end_ms = loop_now_ms(f->loop) + 2000; loop_now_ms(f->loop) < end_ms;) {
        metadata_refresh(f->client.metadata);
        test_run_ms(f->loop, 1);
    }
    int count = script_count(&f->cluster, API_METADATA) - first;
    assert_in_range(count, f->world.sim ? 2000 / 110 : 2,
                    2000 / 64 + 3); /* 20, 40, 80, 80, … ms, each +- 20 % */
    int64_t previous_ms = 0, longest_ms = 0;
    for (int i = before; i < f->cluster.request_count; i++) {
        int64_t gap_ms = previous_ms ? f->cluster.requests[i].at_ms - previous_ms : 0;
        longest_ms = gap_ms > longest_ms ? gap_ms : longest_ms;
        previous_ms = f->cluster.requests[i].at_ms;
    }
    assert_in_range(longest_ms, 64, f->world.sim ? 100 : 1000);
}

/* Cut, with bytes behind the end, and of another request: each is one failure, and the next is good. */
static void an_answer_that_is_no_metadata_is_asked_for_again(void **state)
{
    struct client_fixture *f = *state;
    static const enum script_action actions[] = {SCRIPT_CUT, SCRIPT_TRAILING, SCRIPT_WRONG_ID,
                                                 SCRIPT_CLOSE};
    fixture_start(f);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        script_rule_add(&f->cluster, API_METADATA, actions[i], 0);
        fixture_refresh(f);
        test_run_ms(f->loop, 300);
        assert_int_equal(metadata_last_error(f->client.metadata)->code, 0);
        assert_true(f->cluster.rules[i].used);
    }
}

/* --- from the beginning --- */

/* KIP-1102: whoever sends us back does so because these brokers are to be left. */
static void starting_again_leaves_the_brokers_that_were_known(void **state)
{
    struct client_fixture *f = *state;
    struct test_call c;
    fixture_start(f);
    start_call(f, &c, 1, 3000);
    wait_call(f, &c); /* so that broker 1 is there to be asked for metadata */
    script_rule_add(&f->cluster, API_DESCRIBE_CLUSTER, SCRIPT_SILENT, 0);
    start_call(f, &c, 3, 3000);
    test_run_ms(f->loop, 50);
    int sessions = f->cluster.brokers[2].accepted;
    script_rule_add(&f->cluster, API_METADATA, SCRIPT_ERROR, ERR_REBOOTSTRAP_REQUIRED);
    fixture_refresh(f);
    assert_int_equal(c.done, 1);
    assert_int_equal(c.error.code, CAFKA_ERR_TRANSPORT);
    assert_true(c.error.flags & CAFKA_RETRIABLE);
    test_run_ms(f->loop, 200);
    start_call(f, &c, 3, 3000);
    wait_call(f, &c);
    assert_int_equal(c.error.code, 0);
    assert_true(f->cluster.brokers[2].accepted > sessions);
}

static bool asked_for_metadata(void *arg)
{
    return script_count(arg, API_METADATA) > 0;
}

/* The brokers that are known answer, but know of no cluster: only time can tell (KIP-1102). */
static void brokers_that_tell_nothing_are_left_after_the_trigger(void **state)
{
    struct client_fixture *f = *state;
    struct script_cluster *old = calloc(1, sizeof *old);
    script_open(old, f->loop, 1);
    f->cluster.brokers[1].hidden = f->cluster.brokers[2].hidden = true;
    f->cluster.brokers[0].told_port = old->brokers[0].port;
    fixture_set(f, "metadata.recovery.rebootstrap.trigger.ms", "1000");
    fixture_start(f);
    metadata_refresh(f->client.metadata);
    assert_true(test_run_until(f->loop, asked_for_metadata, old, 3000));
    old->brokers[0].hidden = true;
    f->cluster.brokers[0].told_port = 0;
    f->cluster.request_count = 0;
    int64_t before_ms = loop_now_ms(f->loop);
    metadata_refresh(f->client.metadata);
    assert_true(test_run_until(f->loop, asked_for_metadata, &f->cluster, 10000));
    assert_in_range(loop_now_ms(f->loop) - before_ms, 900, 2500);
    test_run_ms(f->loop, 50);
    assert_int_equal(client_broker(&f->client, 1)->port, f->cluster.brokers[0].port);
    fixture_stop(f);
    script_close(old);
    free(old);
}

/* A bootstrap server that takes the connection and never speaks does not keep the others waiting. */
static void a_silent_bootstrap_server_is_passed_over(void **state)
{
    struct client_fixture *f = *state;
    f->cluster.brokers[0].mute = f->cluster.brokers[1].mute = true;
    int64_t before_ms = loop_now_ms(f->loop);
    fixture_start(f);
    assert_in_range(loop_now_ms(f->loop) - before_ms, 0, 2500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLIENT_TEST(a_partition_number_out_of_range_costs_no_memory),
        CLIENT_TEST(brokers_without_end_are_not_believed),
        CLIENT_TEST(a_leader_that_is_no_broker_is_none_until_it_appears),
        CLIENT_TEST(a_broker_without_topic_ids_does_not_make_a_topic_anew),
        CLIENT_TEST(a_topic_that_is_gone_is_told_and_forgotten_where_all_are_wanted),
        CLIENT_TEST(answers_that_say_nothing_new_are_asked_for_with_backoff),
        CLIENT_TEST(an_answer_that_is_no_metadata_is_asked_for_again),
        CLIENT_TEST(starting_again_leaves_the_brokers_that_were_known),
        CLIENT_TEST(brokers_that_tell_nothing_are_left_after_the_trigger),
        CLIENT_TEST(a_silent_bootstrap_server_is_passed_over),
    };
    return cmocka_run_group_tests_name("metadata_faults", tests, NULL, NULL);
}
