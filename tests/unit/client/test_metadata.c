/*
 * test_metadata.c - what the client knows of the cluster: asked for when needed, never going back.
 */
#include "client_fixture.h"

#include <stdio.h>

static void the_brokers_of_the_cluster_take_the_place_of_the_bootstrap_servers(void **state)
{
    struct client_fixture *f = *state;
    fixture_start(f);
    for (int id = 1; id <= BROKERS; id++) {
        struct broker *broker = client_broker(&f->client, id);
        assert_non_null(broker);
        assert_true(broker->present);
        assert_int_equal(broker->port, f->cluster.brokers[id - 1].port);
    }
    assert_true(client_least_loaded(&f->client, LANE_CONTROL) == NULL ||
                client_least_loaded(&f->client, LANE_CONTROL)->id > 0);
    assert_int_equal(metadata_controller(f->client.metadata), 1);
    assert_string_equal(metadata_cluster_id(f->client.metadata), "script");
}

static void a_topic_is_asked_for_alone_and_becomes_known(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "orders", 6);
    script_topic_add(&f->cluster, "other", 1);
    fixture_start(f);
    fixture_known_topic(f, "other");
    f->what = 0;
    struct metadata_topic *topic = fixture_known_topic(f, "orders");
    assert_int_equal(f->what, METADATA_KNOWN | METADATA_LEADERS);
    assert_int_equal(f->cluster.metadata_topics, 1);
    assert_int_equal(topic->partition_count, 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(metadata_partition(topic, i)->leader, i % BROKERS + 1);
    assert_null(metadata_partition(topic, 6));
    assert_null(metadata_partition(topic, -1));
    assert_ptr_equal(metadata_topic_find_id(f->client.metadata, f->cluster.topics[0].id), topic);
}

static void topics_that_were_named_before_the_start_cost_one_request(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "a", 1);
    script_topic_add(&f->cluster, "b", 1);
    fixture_make_client(f);
    struct metadata_topic *a = fixture_topic(f, "a"), *b = fixture_topic(f, "b");
    client_start(&f->client);
    assert_true(test_run_until(f->loop, topic_is_known, b, 5000));
    assert_true(a->known);
    assert_int_equal(script_count(&f->cluster, API_METADATA), 1);
}

static void everything_is_refreshed_when_it_is_old(void **state)
{
    struct client_fixture *f = *state;
    fixture_set(f, "metadata.max.age.ms", "100");
    script_topic_add(&f->cluster, "a", 1);
    script_topic_add(&f->cluster, "b", 1);
    fixture_start(f);
    fixture_known_topic(f, "a");
    struct metadata_topic *b = fixture_known_topic(f, "b");
    f->cluster.topics[1].leader[0] = 2;
    f->cluster.topics[1].epoch[0] = 1;
    f->what = 0;
    test_run_ms(f->loop, 250);
    assert_int_equal(f->what, METADATA_LEADERS);
    assert_int_equal(b->partitions[0].leader, 2);
    assert_int_equal(f->cluster.metadata_topics, 2);
}

static void an_unknown_topic_is_asked_for_until_it_appears(void **state)
{
    struct client_fixture *f = *state;
    fixture_start(f);
    struct metadata_topic *topic = fixture_topic(f, "late");
    assert_true(test_run_until(f->loop, topic_has_error, topic, 5000));
    assert_int_equal(topic->error.code, ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_non_null(strstr(topic->error.message, "late"));
    int before = script_count(&f->cluster, API_METADATA);
    test_run_ms(f->loop, 400);
    int more = script_count(&f->cluster, API_METADATA) - before;
    assert_in_range(more, 3, 12); /* backoff grows to 80 ms */
    script_topic_add(&f->cluster, "late", 1);
    assert_true(test_run_until(f->loop, topic_is_known, topic, 1000));
    assert_int_equal(topic->error.code, 0);
    before = script_count(&f->cluster, API_METADATA);
    test_run_ms(f->loop, 200);
    assert_int_equal(script_count(&f->cluster, API_METADATA), before); /* idle means idle */
}

static void a_topic_that_may_not_be_seen_is_told_and_asked_again_on_use(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "secret", 1)->error = ERR_TOPIC_AUTHORIZATION_FAILED;
    fixture_start(f);
    struct metadata_topic *topic = fixture_topic(f, "secret");
    assert_true(test_run_until(f->loop, topic_has_error, topic, 5000));
    assert_int_equal(topic->error.code, ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_true(topic->error.flags & CAFKA_FLAG_AUTH);
    int before = script_count(&f->cluster, API_METADATA);
    test_run_ms(f->loop, 200);
    assert_int_equal(script_count(&f->cluster, API_METADATA), before);
    f->cluster.topics[0].error = 0;
    metadata_topic_touch(f->client.metadata, topic);
    assert_true(test_run_until(f->loop, topic_is_known, topic, 1000));
    assert_int_equal(topic->error.code, 0);
}

static void a_partition_without_leader_is_asked_for_again(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "t", 2)->leader[1] = -1;
    fixture_start(f);
    struct metadata_topic *topic = fixture_known_topic(f, "t");
    assert_int_equal(topic->partitions[1].leader, -1);
    assert_int_equal(topic->partitions[1].error, ERR_LEADER_NOT_AVAILABLE);
    f->cluster.topics[0].leader[1] = 3;
    f->cluster.topics[0].epoch[1] = 1;
    test_run_ms(f->loop, 200);
    assert_int_equal(topic->partitions[1].leader, 3);
}

static void a_leader_epoch_never_goes_back(void **state)
{
    struct client_fixture *f = *state;
    struct script_topic *t = script_topic_add(&f->cluster, "t", 1);
    t->epoch[0] = 5;
    fixture_start(f);
    struct metadata_topic *topic = fixture_known_topic(f, "t");
    t->epoch[0] = 4; /* a broker that is behind */
    t->leader[0] = 3;
    f->what = 0;
    fixture_refresh(f);
    assert_int_equal(topic->partitions[0].leader, 1);
    assert_int_equal(topic->partitions[0].leader_epoch, 5);
    assert_int_equal(f->what, 0);
    t->epoch[0] = 6;
    fixture_refresh(f);
    assert_int_equal(topic->partitions[0].leader, 3);
    assert_int_equal(f->what, METADATA_LEADERS);
}

static void a_topic_made_again_under_its_name_starts_anew(void **state)
{
    struct client_fixture *f = *state;
    struct script_topic *t = script_topic_add(&f->cluster, "t", 4);
    t->epoch[0] = 5;
    fixture_start(f);
    struct metadata_topic *topic = fixture_known_topic(f, "t");
    t->id.bytes[0] = 77;
    t->epoch[0] = 0;
    t->leader[0] = 2;
    t->partitions = 2;
    f->what = 0;
    fixture_refresh(f);
    assert_true(f->what & METADATA_RECREATED);
    assert_int_equal(topic->partition_count, 2);
    assert_int_equal(topic->partitions[0].leader, 2);
    assert_int_equal(topic->partitions[0].leader_epoch, 0);
    assert_int_equal(topic->id.bytes[0], 77);
}

static void a_deleted_topic_keeps_what_was_known_and_has_an_error(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "t", 2);
    fixture_start(f);
    struct metadata_topic *topic = fixture_known_topic(f, "t");
    f->cluster.topic_count = 0;
    f->what = 0;
    fixture_refresh(f);
    assert_int_equal(f->what, METADATA_ERROR);
    assert_int_equal(topic->error.code, ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_true(topic->known);
}

static void new_partitions_are_found_and_none_are_lost_to_a_broker_behind(void **state)
{
    struct client_fixture *f = *state;
    struct script_topic *t = script_topic_add(&f->cluster, "t", 2);
    fixture_start(f);
    struct metadata_topic *topic = fixture_known_topic(f, "t");
    t->partitions = 3;
    t->leader[2] = 1;
    f->what = 0;
    fixture_refresh(f);
    assert_true(f->what & METADATA_PARTITIONS);
    assert_int_equal(topic->partition_count, 3);
    t->partitions = 2;
    fixture_refresh(f);
    assert_int_equal(topic->partition_count, 3);
}

static void a_hint_is_taken_if_it_is_newer(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "t", 1)->epoch[0] = 5;
    fixture_start(f);
    struct metadata *m = f->client.metadata;
    struct metadata_topic *topic = fixture_known_topic(f, "t");
    assert_false(metadata_hint_leader(m, topic, 0, 2, 5));
    assert_false(metadata_hint_leader(m, topic, 0, 99, 6)); /* a broker that nobody knows */
    assert_false(metadata_hint_leader(m, topic, 1, 2, 6));
    assert_true(metadata_hint_leader(m, topic, 0, 2, 6));
    assert_int_equal(topic->partitions[0].leader, 2);
    metadata_hint_broker(m, 99, str_of("127.0.0.1"), 9, (struct str){NULL, 0});
    assert_true(metadata_hint_leader(m, topic, 0, 99, 7));
    metadata_hint_broker(m, -5, str_of("127.0.0.1"), 9, (struct str){NULL, 0});
    metadata_hint_broker(m, 98, str_of("127.0.0.1"), 99999, (struct str){NULL, 0});
    assert_null(client_broker(&f->client, -5));
    assert_null(client_broker(&f->client, 98));
}

static void old_brokers_tell_no_epochs_that_can_be_relied_on(void **state)
{
    struct client_fixture *f = *state;
    for (int i = 0; i < BROKERS; i++)
        f->cluster.brokers[i].max_version[API_METADATA] = 8;
    struct script_topic *t = script_topic_add(&f->cluster, "t", 1);
    t->epoch[0] = 5;
    fixture_start(f);
    struct metadata_topic *topic = fixture_known_topic(f, "t");
    assert_int_equal(topic->partitions[0].leader_epoch, -1);
    t->epoch[0] = 4;
    t->leader[0] = 3;
    fixture_refresh(f);
    assert_int_equal(topic->partitions[0].leader, 3);
}

static void the_oldest_metadata_still_works(void **state)
{
    struct client_fixture *f = *state;
    for (int i = 0; i < BROKERS; i++)
        f->cluster.brokers[i].max_version[API_METADATA] = 0;
    script_topic_add(&f->cluster, "t", 3);
    fixture_start(f);
    struct metadata_topic *topic = fixture_known_topic(f, "t");
    assert_int_equal(topic->partition_count, 3);
}

static void only_who_may_creates_topics_by_asking(void **state)
{
    struct client_fixture *f = *state;
    fixture_start(f);
    fixture_refresh(f);
    assert_false(f->cluster.auto_create_seen);
    metadata_set_auto_create(f->client.metadata, true);
    fixture_topic(f, "new");
    test_run_ms(f->loop, 50);
    assert_true(f->cluster.auto_create_seen);
}

static void an_idle_topic_is_left_out_until_it_is_used_again(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "t", 1);
    fixture_start(f);
    metadata_set_topic_idle(f->client.metadata, 50);
    struct metadata_topic *topic = fixture_known_topic(f, "t");
    test_run_ms(f->loop, 100);
    fixture_refresh(f);
    assert_int_equal(f->cluster.metadata_topics, 0);
    assert_false(topic->known);
    metadata_topic_touch(f->client.metadata, topic);
    assert_true(test_run_until(f->loop, topic_is_known, topic, 1000));
}

static void a_topic_nobody_holds_is_forgotten_even_while_it_is_asked_for(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "t", 1);
    fixture_start(f);
    script_rule_add(&f->cluster, API_METADATA, SCRIPT_DELAY, 30);
    struct metadata_topic *topic = fixture_topic(f, "t");
    for (int i = 0; i < 100 && !topic->asked; i++)
        test_run_ms(f->loop, 1);
    assert_true(topic->asked);
    metadata_topic_unref(f->client.metadata, topic);
    test_run_ms(f->loop, 100);
    assert_null(metadata_topic_find(f->client.metadata, str_of("t")));
}

static void all_topics_can_be_wanted(void **state)
{
    struct client_fixture *f = *state;
    cafka_error err = {0};
    script_topic_add(&f->cluster, "a", 1);
    script_topic_add(&f->cluster, "b", 2);
    fixture_start(f);
    assert_int_equal(metadata_want_all(f->client.metadata, true, &err), 0);
    test_run_ms(f->loop, 100);
    assert_int_equal(f->cluster.metadata_topics, -1);
    int count = 0;
    for (struct metadata_topic *t = NULL; (t = metadata_next(f->client.metadata, t));)
        count++;
    assert_int_equal(count, 2);
    assert_int_equal(metadata_want_all(f->client.metadata, false, &err), 0);
    assert_null(metadata_next(f->client.metadata, NULL));
}

static void an_answer_that_names_no_broker_is_not_believed(void **state)
{
    struct client_fixture *f = *state;
    fixture_start(f);
    for (int i = 0; i < BROKERS; i++)
        f->cluster.brokers[i].hidden = true;
    fixture_refresh(f);
    assert_true(client_broker(&f->client, 1)->present);
    assert_int_equal(metadata_last_error(f->client.metadata)->code, CAFKA_ERR_PROTOCOL);
    for (int i = 0; i < BROKERS; i++)
        f->cluster.brokers[i].hidden = false;
    test_run_ms(f->loop, 200);
    assert_int_equal(metadata_last_error(f->client.metadata)->code, 0);
}

static void a_lost_answer_is_asked_for_again(void **state)
{
    struct client_fixture *f = *state;
    script_topic_add(&f->cluster, "t", 1);
    fixture_start(f);
    script_rule_add(&f->cluster, API_METADATA, SCRIPT_CLOSE, 0);
    script_rule_add(&f->cluster, API_METADATA, SCRIPT_CUT, 0);
    script_rule_add(&f->cluster, API_METADATA, SCRIPT_TRAILING, 0);
    fixture_known_topic(f, "t");
}

/* --- brokers that come and go --- */

static bool sees_broker_1_at_its_new_port(void *arg)
{
    struct client_fixture *f = arg;
    struct broker *broker = client_broker(&f->client, 1);
    return broker && broker->port == f->cluster.brokers[1].port;
}

static void a_broker_that_moved_is_found_at_its_new_address(void **state)
{
    struct client_fixture *f = *state;
    fixture_start(f);
    struct conn *conn = broker_conn(client_broker(&f->client, 1), LANE_DATA);
    test_run_ms(f->loop, 50);
    assert_int_equal(conn_state(conn), CONN_READY);
    f->cluster.brokers[0].told_port = f->cluster.brokers[1].port;
    int accepted = f->cluster.brokers[1].accepted;
    metadata_refresh(f->client.metadata);
    assert_true(test_run_until(f->loop, sees_broker_1_at_its_new_port, f, 2000));
    test_run_ms(f->loop, 30);
    assert_int_equal(conn_state(conn), CONN_IDLE);
    broker_conn(client_broker(&f->client, 1), LANE_DATA);
    test_run_ms(f->loop, 50);
    assert_int_equal(conn_state(conn), CONN_READY);
    assert_true(f->cluster.brokers[1].accepted > accepted);
}

static void dead_bootstrap_servers_are_passed_over(void **state)
{
    struct client_fixture *f = *state;
    char bootstrap[256];
    script_bootstrap(&f->cluster, BROKERS, bootstrap, sizeof bootstrap);
    script_broker_down(&f->cluster.brokers[0]);
    script_broker_down(&f->cluster.brokers[1]);
    f->cluster.brokers[0].hidden = f->cluster.brokers[1].hidden = true;
    fixture_start(f);
    assert_null(client_broker(&f->client, 1));
    assert_non_null(client_broker(&f->client, 3));
}

static void a_name_that_does_not_resolve_is_passed_over(void **state)
{
    struct client_fixture *f = *state;
    char bootstrap[256];
    int used = snprintf(bootstrap, sizeof bootstrap, "no-such-host.invalid:9092,");
    script_bootstrap(&f->cluster, 1, bootstrap + used, sizeof bootstrap - (size_t)used);
    fixture_set(f, "bootstrap.servers", bootstrap);
    fixture_start(f);
}

static void each_address_of_a_name_can_be_a_server_of_its_own(void **state)
{
    struct client_fixture *f = *state;
    fixture_set(f, "client.dns.lookup", "resolve_canonical_bootstrap_servers_only");
    fixture_start(f);
    assert_non_null(client_broker(&f->client, 1));
}

static void with_all_brokers_down_the_reason_is_told_once(void **state)
{
    struct client_fixture *f = *state;
    for (int i = 0; i < BROKERS; i++)
        script_broker_down(&f->cluster.brokers[i]);
    fixture_make_client(f);
    client_start(&f->client);
    test_run_ms(f->loop, 500);
    assert_int_equal(f->events, BROKERS); /* one of each */
    assert_int_equal(f->event.error.code, CAFKA_ERR_TRANSPORT);
    assert_non_null(strstr(f->event.error.message, "refused"));
    assert_int_equal(metadata_last_error(f->client.metadata)->code, CAFKA_ERR_TRANSPORT);
    for (int i = 0; i < BROKERS; i++)
        script_broker_up(&f->cluster.brokers[i]);
    assert_true(test_run_until(f->loop, metadata_is_ready, f, 2000));
}

static void a_broker_that_refuses_and_then_hangs_is_told_once(void **state)
{
    struct client_fixture *f = *state;
    char bootstrap[64];
    script_bootstrap(&f->cluster, 1, bootstrap, sizeof bootstrap);
    fixture_set(f, "bootstrap.servers", bootstrap);
    script_broker_down(&f->cluster.brokers[0]);
    fixture_make_client(f);
    client_start(&f->client);
    test_run_ms(f->loop, 300);
    f->cluster.brokers[0].mute = true;
    script_broker_up(&f->cluster.brokers[0]);
    test_run_ms(f->loop, 1000);
    script_broker_down(&f->cluster.brokers[0]);
    test_run_ms(f->loop, 300);
    assert_int_equal(f->events, 1);
}

static bool asked_a_cluster(void *arg)
{
    return script_count(arg, API_METADATA) > 0;
}

/* All that metadata named is gone, but bootstrap.servers leads to those who took over (KIP-899). */
static void with_no_known_broker_left_it_starts_again_from_bootstrap(void **state)
{
    struct client_fixture *f = *state;
    struct script_cluster *old = calloc(1, sizeof *old);
    script_open(old, f->loop, 1);
    /* The bootstrap server names another broker only. */
    f->cluster.brokers[1].hidden = f->cluster.brokers[2].hidden = true;
    f->cluster.brokers[0].told_port = old->brokers[0].port;
    fixture_start(f);
    metadata_refresh(f->client.metadata);
    assert_true(test_run_until(f->loop, asked_a_cluster, old, 3000));
    int before = script_count(old, API_METADATA);
    f->cluster.request_count = 0;
    script_broker_down(&old->brokers[0]);
    f->cluster.brokers[0].told_port = 0;
    metadata_refresh(f->client.metadata);
    assert_true(test_run_until(f->loop, asked_a_cluster, &f->cluster, 3000));
    assert_int_equal(script_count(old, API_METADATA), before);
    test_run_ms(f->loop, 50);
    assert_int_equal(client_broker(&f->client, 1)->port, f->cluster.brokers[0].port);
    fixture_stop(f);
    free(old);
}

static void a_broker_may_send_the_client_back_to_bootstrap(void **state)
{
    struct client_fixture *f = *state;
    fixture_start(f);
    script_rule_add(&f->cluster, API_METADATA, SCRIPT_ERROR, ERR_REBOOTSTRAP_REQUIRED);
    fixture_refresh(f);
    test_run_ms(f->loop, 200);
    assert_true(client_broker(&f->client, 1)->present);
    assert_int_equal(metadata_last_error(f->client.metadata)->code, 0);
}

static void without_recovery_it_keeps_to_the_brokers_it_knows(void **state)
{
    struct client_fixture *f = *state;
    fixture_set(f, "metadata.recovery.strategy", "none");
    fixture_start(f);
    for (int i = 0; i < BROKERS; i++)
        script_broker_down(&f->cluster.brokers[i]);
    metadata_refresh(f->client.metadata);
    test_run_ms(f->loop, 300);
    assert_true(client_broker(&f->client, 1)->present);
    for (int i = 0; i < BROKERS; i++)
        script_broker_up(&f->cluster.brokers[i]);
    fixture_refresh(f);
    assert_int_equal(metadata_last_error(f->client.metadata)->code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLIENT_TEST(the_brokers_of_the_cluster_take_the_place_of_the_bootstrap_servers),
        CLIENT_TEST(a_topic_is_asked_for_alone_and_becomes_known),
        CLIENT_TEST(topics_that_were_named_before_the_start_cost_one_request),
        CLIENT_TEST(everything_is_refreshed_when_it_is_old),
        CLIENT_TEST(an_unknown_topic_is_asked_for_until_it_appears),
        CLIENT_TEST(a_topic_that_may_not_be_seen_is_told_and_asked_again_on_use),
        CLIENT_TEST(a_partition_without_leader_is_asked_for_again),
        CLIENT_TEST(a_leader_epoch_never_goes_back),
        CLIENT_TEST(a_topic_made_again_under_its_name_starts_anew),
        CLIENT_TEST(a_deleted_topic_keeps_what_was_known_and_has_an_error),
        CLIENT_TEST(new_partitions_are_found_and_none_are_lost_to_a_broker_behind),
        CLIENT_TEST(a_hint_is_taken_if_it_is_newer),
        CLIENT_TEST(old_brokers_tell_no_epochs_that_can_be_relied_on),
        CLIENT_TEST(the_oldest_metadata_still_works),
        CLIENT_TEST(only_who_may_creates_topics_by_asking),
        CLIENT_TEST(an_idle_topic_is_left_out_until_it_is_used_again),
        CLIENT_TEST(a_topic_nobody_holds_is_forgotten_even_while_it_is_asked_for),
        CLIENT_TEST(all_topics_can_be_wanted),
        CLIENT_TEST(an_answer_that_names_no_broker_is_not_believed),
        CLIENT_TEST(a_lost_answer_is_asked_for_again),
        CLIENT_TEST(a_broker_that_moved_is_found_at_its_new_address),
        CLIENT_TEST(dead_bootstrap_servers_are_passed_over),
        CLIENT_TEST(a_name_that_does_not_resolve_is_passed_over),
        CLIENT_TEST(each_address_of_a_name_can_be_a_server_of_its_own),
        CLIENT_TEST(with_all_brokers_down_the_reason_is_told_once),
        CLIENT_TEST(a_broker_that_refuses_and_then_hangs_is_told_once),
        CLIENT_TEST(with_no_known_broker_left_it_starts_again_from_bootstrap),
        CLIENT_TEST(a_broker_may_send_the_client_back_to_bootstrap),
        CLIENT_TEST(without_recovery_it_keeps_to_the_brokers_it_knows),
    };
    return cmocka_run_group_tests_name("metadata", tests, NULL, NULL);
}
