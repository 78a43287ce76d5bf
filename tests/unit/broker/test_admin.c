/*
 * test_admin.c - what administrators ask of brokers: moved partitions, elections, levels of features
 * and of loggers, who has written to a partition, and the addresses that configs show.
 */
#include "mockbroker/addresses.h"
#include "mockbroker/controller/controller.h"
#include "mockbroker/loggers.h"
#include "mockbroker/replica/partition.h"
#include "mockbroker/versions.h"
#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/messages/DescribeProducers.h"
#include "record/builder.h"
#include "tests/unit/broker/broker_fixture.h"
#include "util/alloc.h"

static int open_cluster(void **state)
{
    fixture_open(state);
    struct cluster_fixture *f = *state;
    struct topic_option topic = {.name = (char *)"t", .partitions = 1, .replicas = 2};
    f->brokers = 3;
    fixture_start(f, NULL);
    assert_int_equal(cluster_create_topic(f->cluster, &topic, NULL), 0);
    return 0;
}

static const struct partition_image *image_of(const struct cluster_fixture *f)
{
    return &image_topic(&f->cluster->controller->image, str_of("t"))->partitions[0];
}

static struct partition *replica(const struct cluster_fixture *f, int32_t broker)
{
    return broker_partition(cluster_broker(f->cluster, broker), str_of("t"), 0);
}

static void append_one(struct cluster_fixture *f, int64_t producer_id, int32_t sequence)
{
    struct buffer batch = {0};
    struct batch_header header;
    struct record_data record = {.value = bytes_of("v", 1), .timestamp = 77};
    struct append_result result;
    batch_header_init(&header);
    header.producer_id = producer_id;
    header.producer_epoch = 3;
    header.base_sequence = sequence;
    assert_int_equal(batch_build(&header, &record, 1, NULL, &batch, NULL), 0);
    struct append_request request = {.records = bytes_of(batch.data, batch.size),
                                     .origin = APPEND_CLIENT};
    assert_int_equal(partition_append(replica(f, image_of(f)->leader), &request, -1, &result, NULL),
                     0);
    append_result_fini(&result);
    buffer_fini(&batch);
    deferred_run(&f->cluster->deferred);
}

static int reassign(struct cluster_fixture *f, const int32_t *replicas, int32_t count)
{
    int rc =
        controller_reassign(f->cluster->controller, str_of("t"), 0, replicas, count, true, NULL);
    deferred_run(&f->cluster->deferred);
    return rc;
}

static void a_moved_partition_takes_its_records_along(void **state)
{
    struct cluster_fixture *f = *state;
    int32_t old = image_of(f)->leader, other = 0;
    append_one(f, 5, 0);
    for (int32_t id = 1; id <= 3; id++)
        if (!replica(f, id))
            other = id;
    assert_int_equal(reassign(f, &other, 1), 0);
    assert_int_equal(image_of(f)->replica_count, 1);
    assert_int_equal(image_of(f)->leader, other);
    assert_int_equal(image_of(f)->adding_count + image_of(f)->removing_count, 0);
    assert_int_equal(partition_high_watermark(replica(f, other)), 1);
    assert_null(replica(f, old));
    append_one(f, 5, 1);
    assert_int_equal(partition_high_watermark(replica(f, other)), 2);
}

static void a_move_that_waits_can_be_cancelled(void **state)
{
    struct cluster_fixture *f = *state;
    int32_t had[] = {image_of(f)->replicas[0], image_of(f)->replicas[1]}, dead = 6 - had[0] - had[1];
    assert_int_equal(reassign(f, NULL, -1), ERR_NO_REASSIGNMENT_IN_PROGRESS);
    broker_stop(cluster_broker(f->cluster, dead), false);
    deferred_run(&f->cluster->deferred);
    assert_int_equal(reassign(f, &dead, 1), 0);
    assert_int_equal(image_of(f)->replica_count, 3);
    assert_int_equal(image_of(f)->adding_count, 1);
    assert_int_equal(image_of(f)->removing_count, 2);
    assert_int_equal(reassign(f, NULL, -1), 0);
    assert_int_equal(image_of(f)->replica_count, 2);
    assert_memory_equal(image_of(f)->replicas, had, sizeof had);
    assert_int_equal(image_of(f)->adding_count + image_of(f)->removing_count, 0);
}

static void a_move_that_can_not_be_is_refused(void **state)
{
    static const int32_t unknown[] = {9}, twice[] = {1, 1};
    struct cluster_fixture *f = *state;
    assert_int_equal(reassign(f, unknown, 1), ERR_INVALID_REPLICA_ASSIGNMENT);
    assert_int_equal(reassign(f, twice, 2), ERR_INVALID_REPLICA_ASSIGNMENT);
    assert_int_equal(reassign(f, twice, 0), ERR_INVALID_REPLICA_ASSIGNMENT);
    assert_int_equal(controller_reassign(f->cluster->controller, str_of("t"), 0, twice, 1, false,
                                         NULL),
                     ERR_INVALID_REPLICATION_FACTOR);
    assert_int_equal(controller_reassign(f->cluster->controller, str_of("u"), 0, twice, 1, true,
                                         NULL),
                     ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(controller_reassign(f->cluster->controller, str_of("t"), 1, twice, 1, true,
                                         NULL),
                     ERR_UNKNOWN_TOPIC_OR_PARTITION);
}

static void the_preferred_leader_leads_again_when_asked_for(void **state)
{
    struct cluster_fixture *f = *state;
    struct controller *c = f->cluster->controller;
    int32_t first = image_of(f)->replicas[0], second = image_of(f)->replicas[1];
    struct str t = str_of("t");
    assert_int_equal(controller_elect_leader(c, t, 0, false, NULL), ERR_ELECTION_NOT_NEEDED);
    assert_int_equal(controller_move_leader(c, t, 0, second, NULL), 0);
    assert_int_equal(controller_elect_leader(c, t, 0, true, NULL), ERR_ELECTION_NOT_NEEDED);
    assert_int_equal(controller_elect_leader(c, t, 0, false, NULL), 0);
    assert_int_equal(image_of(f)->leader, first);
    assert_int_equal(controller_elect_leader(c, t, 3, false, NULL), ERR_UNKNOWN_TOPIC_OR_PARTITION);
    broker_stop(cluster_broker(f->cluster, first), false);
    deferred_run(&f->cluster->deferred);
    assert_int_equal(controller_elect_leader(c, t, 0, false, NULL),
                     ERR_PREFERRED_LEADER_NOT_AVAILABLE);
}

static void who_has_written_is_told(void **state)
{
    struct cluster_fixture *f = *state;
    struct arena arena = {0};
    int32_t index = 0;
    struct describe_producers_request_topic_request topic = {.name = str_of("t"),
                                                             .partition_indexes = &index,
                                                             .partition_indexes_count = 1};
    struct describe_producers_request request = {.topics = &topic, .topics_count = 1};
    struct describe_producers_response response;
    struct client c;
    append_one(f, 5, 0);
    append_one(f, 5, 1);
    client_open(&c, f, image_of(f)->leader);
    client_request(&c, API_DESCRIBE_PRODUCERS, 0, &request);
    client_decode(&c, API_DESCRIBE_PRODUCERS, 0, &arena, &response);
    client_close(&c);
    const struct describe_producers_response_partition_response *part =
        &response.topics[0].partitions[0];
    assert_int_equal(part->error_code, 0);
    assert_int_equal(part->active_producers_count, 1);
    assert_int_equal(part->active_producers[0].producer_id, 5);
    assert_int_equal(part->active_producers[0].producer_epoch, 3);
    assert_int_equal(part->active_producers[0].last_sequence, 1);
    assert_int_equal(part->active_producers[0].last_timestamp, 77);
    arena_fini(&arena);
}

static int update(struct cluster_fixture *f, const char *name, int level, int type, bool only_look)
{
    return controller_update_feature(f->cluster->controller, str_of(name), level, type, only_look,
                                     NULL);
}

static void features_go_up_and_with_leave_down(void **state)
{
    struct cluster_fixture *f = *state;
    struct map *levels = &f->cluster->controller->image.features;
    assert_int_equal(update(f, "no.such", 1, 1, false), ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(update(f, "group.version", 2, 1, false), ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(update(f, "group.version", 0, 1, false), ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(update(f, "group.version", 0, 9, false), ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(update(f, "metadata.version", 29, 2, false), ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(update(f, "group.version", 0, 2, true), 0);
    assert_int_equal((intptr_t)map_get_str(levels, "group.version"), 1);
    assert_int_equal(update(f, "group.version", 0, 2, false), 0);
    assert_int_equal((intptr_t)map_get_str(levels, "group.version"), 0);
    assert_int_equal(update(f, "group.version", 1, 1, false), 0);
    assert_int_equal((intptr_t)map_get_str(levels, "group.version"), 1);
}

static void older_releases_tell_their_own_features(void **state)
{
    struct feature feature;
    int told = 0;
    (void)state;
    for (size_t i = 0; i < feature_count; i++)
        told += release_feature(release_find("3.2"), i, &feature);
    assert_int_equal(told, 0);
    for (size_t i = 0; i < feature_count; i++)
        if (release_feature(release_find("3.9"), i, &feature) &&
            !strcmp(feature.name, "metadata.version")) {
            told++;
            assert_int_equal(feature.min, 1);
            assert_int_equal(feature.max, 21);
        }
    assert_int_equal(told, 1);
}

static int set_level(struct loggers *loggers, struct log_sink *sink, const char *name,
                     const char *level)
{
    return loggers_set(loggers, str_of(name), level ? str_of(level) : (struct str){0}, true, sink,
                       NULL);
}

static void loggers_have_roots_level_until_they_have_their_own(void **state)
{
    struct loggers loggers = {0};
    struct log_sink sink = {.level = LOG_INFO};
    const char *first = loggers_name(0);
    (void)state;
    assert_string_equal(loggers_level(&loggers, 0, &sink), "INFO");
    assert_int_equal(set_level(&loggers, &sink, first, "DEBUG"), 0);
    assert_int_equal(set_level(&loggers, &sink, "root", "ERROR"), 0);
    assert_int_equal(sink.level, LOG_ERROR);
    assert_string_equal(loggers_level(&loggers, 0, &sink), "DEBUG");
    assert_int_equal(set_level(&loggers, &sink, first, NULL), 0);
    assert_string_equal(loggers_level(&loggers, 0, &sink), "ERROR");
    assert_int_equal(set_level(&loggers, &sink, "root", NULL), ERR_INVALID_REQUEST);
    assert_int_equal(set_level(&loggers, &sink, "nobody", "INFO"), ERR_INVALID_CONFIG);
    assert_int_equal(set_level(&loggers, &sink, "root", "info"), ERR_INVALID_CONFIG);
}

static void all_addresses_are_nothing_to_tell_clients(void **state)
{
    (void)state;
    struct cluster_options o = {.host = mem_strdup("0.0.0.0")};
    assert_int_equal(addresses_read(&o, (struct log){0}, NULL), 0);
    assert_string_equal(addresses_listening(&o), "0.0.0.0");
    assert_string_equal(addresses_advertised(&o), "127.0.0.1");
    cluster_options_fini(&o);
    o = (struct cluster_options){.advertised_host = mem_strdup("0.0.0.0")};
    assert_int_equal(addresses_read(&o, (struct log){0}, NULL), CAFKA_ERR_CONFIG);
    cluster_options_fini(&o);
}

static void configs_show_the_addresses_in_use(void **state)
{
    struct cluster_fixture *f = *state;
    struct broker *broker = cluster_broker(f->cluster, 2);
    char expected[64];
    snprintf(expected, sizeof expected, "PLAINTEXT://127.0.0.1:%d", (int)broker->last_port);
    assert_string_equal(broker_config_get(&broker->config, "listeners"), expected);
    assert_string_equal(broker_config_get(&broker->config, "advertised.listeners"), expected);
    snprintf(expected, sizeof expected, "1@127.0.0.1:%d",
             (int)cluster_broker(f->cluster, 1)->last_port);
    assert_string_equal(broker_config_get(&broker->config, "controller.quorum.voters"), expected);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_cluster, fixture_close)
    const struct CMUnitTest tests[] = {
        TEST(a_moved_partition_takes_its_records_along),
        TEST(a_move_that_waits_can_be_cancelled),
        TEST(a_move_that_can_not_be_is_refused),
        TEST(the_preferred_leader_leads_again_when_asked_for),
        TEST(who_has_written_is_told),
        TEST(features_go_up_and_with_leave_down),
        cmocka_unit_test(older_releases_tell_their_own_features),
        cmocka_unit_test(loggers_have_roots_level_until_they_have_their_own),
        cmocka_unit_test(all_addresses_are_nothing_to_tell_clients),
        TEST(configs_show_the_addresses_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
