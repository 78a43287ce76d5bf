/*
 * test_follow.c - replicas: followers have what is acknowledged; a leader dies, comes back, follows.
 */
#include "mockbroker/controller/controller.h"
#include "mockbroker/replica/partition.h"
#include "protocol/api_keys.h"
#include "protocol/messages/Produce.h"
#include "record/builder.h"
#include "tests/unit/broker/broker_fixture.h"
#include "util/alloc.h"

static int open_cluster(void **state)
{
    fixture_open(state);
    struct cluster_fixture *f = *state;
    struct topic_option topic = {.name = (char *)"t", .partitions = 1, .replicas = 3};
    f->brokers = 3;
    fixture_start(f, "min.insync.replicas=1");
    assert_int_equal(cluster_create_topic(f->cluster, &topic, NULL), 0);
    return 0;
}

static const struct partition_image *image_of(const struct cluster_fixture *f)
{
    return &image_topic(&f->cluster->controller->image, str_of("t"))->partitions[0];
}

static struct partition *replica(const struct cluster_fixture *f, int32_t broker)
{
    struct broker *b = cluster_broker(f->cluster, broker);
    return b->running ? broker_partition(b, str_of("t"), 0) : NULL;
}

/* The error of producing one record to the leader with acks=all; *offset gets where it went. */
static int produce(struct cluster_fixture *f, const char *value, int64_t *offset)
{
    struct arena arena = {0};
    struct buffer batch = {0};
    struct batch_header header;
    struct record_data record = {.timestamp = env_wall_ms(f->world.env),
                                 .value = bytes_of(value, strlen(value))};
    struct produce_request request;
    struct produce_request_topic_produce_data topic;
    struct produce_request_partition_produce_data partition;
    struct produce_response response;
    struct client c;
    batch_header_init(&header);
    header.base_timestamp = INT64_MIN;
    assert_int_equal(batch_build(&header, &record, 1, NULL, &batch, NULL), 0);
    produce_request_init(&request);
    produce_request_topic_produce_data_init(&topic);
    produce_request_partition_produce_data_init(&partition);
    partition.records = (struct records){.data = batch.data, .size = batch.size};
    topic.name = str_of("t");
    topic.partition_data = &partition;
    topic.partition_data_count = 1;
    request.acks = -1;
    request.timeout_ms = 3000;
    request.topic_data = &topic;
    request.topic_data_count = 1;
    client_open(&c, f, image_of(f)->leader);
    client_request(&c, API_PRODUCE, 9, &request);
    client_decode(&c, API_PRODUCE, 9, &arena, &response);
    int code = response.responses[0].partition_responses[0].error_code;
    *offset = response.responses[0].partition_responses[0].base_offset;
    client_close(&c);
    buffer_fini(&batch);
    arena_fini(&arena);
    return code;
}

static void assert_all_have(struct cluster_fixture *f, int64_t end)
{
    for (int32_t id = 1; id <= 3; id++) {
        struct partition *p = replica(f, id);
        if (!p)
            continue;
        assert_int_equal(partition_end_offset(p), end);
        assert_int_equal(partition_high_watermark(p), end);
    }
}

static void what_is_acknowledged_is_on_all_replicas(void **state)
{
    struct cluster_fixture *f = *state;
    int64_t offset;
    assert_int_equal(image_of(f)->isr_count, 3);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(produce(f, "value", &offset), 0);
        assert_int_equal(offset, i);
        assert_all_have(f, i + 1);
    }
}

static void a_dead_leader_has_lost_nothing(void **state)
{
    struct cluster_fixture *f = *state;
    int64_t offset;
    for (int i = 0; i < 3; i++)
        assert_int_equal(produce(f, "before", &offset), 0);
    int32_t dead = image_of(f)->leader;
    broker_stop(cluster_broker(f->cluster, dead), false);
    deferred_run(&f->cluster->deferred);
    assert_int_equal(image_of(f)->isr_count, 2);
    assert_int_equal(produce(f, "meanwhile", &offset), 0);
    assert_int_equal(offset, 3);

    assert_int_equal(broker_start(cluster_broker(f->cluster, dead), NULL), 0);
    deferred_run(&f->cluster->deferred);
    assert_int_equal(image_of(f)->isr_count, 3);
    assert_int_not_equal(image_of(f)->leader, dead);
    assert_all_have(f, 4);
    assert_int_equal(controller_move_leader(f->cluster->controller, str_of("t"), 0, dead, NULL), 0);
    deferred_run(&f->cluster->deferred);
    assert_int_equal(produce(f, "after", &offset), 0);
    assert_int_equal(offset, 4);
    assert_all_have(f, 5);
}

static void the_last_of_the_isr_goes_on_alone(void **state)
{
    struct cluster_fixture *f = *state;
    int64_t offset;
    assert_int_equal(produce(f, "three", &offset), 0);
    for (int i = 0; i < 2; i++) {
        broker_stop(cluster_broker(f->cluster, image_of(f)->leader), false);
        deferred_run(&f->cluster->deferred);
    }
    assert_int_equal(image_of(f)->isr_count, 1);
    assert_int_equal(produce(f, "one", &offset), 0);
    assert_int_equal(offset, 1);
    for (int32_t id = 1; id <= 3; id++)
        if (!cluster_broker(f->cluster, id)->running)
            assert_int_equal(broker_start(cluster_broker(f->cluster, id), NULL), 0);
    deferred_run(&f->cluster->deferred);
    assert_int_equal(image_of(f)->isr_count, 3);
    assert_all_have(f, 2);
}

/* What one broker alone has at the end of its log, written in an epoch that nobody else saw, goes. */
static void a_log_that_went_its_own_way_is_cut(void **state)
{
    struct cluster_fixture *f = *state;
    int64_t offset;
    assert_int_equal(produce(f, "common", &offset), 0);
    int32_t first = image_of(f)->leader;
    struct partition *lonely = replica(f, first);
    struct buffer batch = {0};
    struct batch_header header;
    struct record_data record = {.value = bytes_of("lost", 4), .timestamp = 1};
    batch_header_init(&header);
    header.base_offset = 1;
    header.leader_epoch = lonely->leader_epoch;
    header.base_timestamp = INT64_MIN;
    assert_int_equal(batch_build(&header, &record, 1, NULL, &batch, NULL), 0);
    assert_int_equal(commit_log_append_as_follower(lonely->log, bytes_of(batch.data, batch.size),
                                                   &offset, NULL),
                     0);
    buffer_fini(&batch);
    assert_int_equal(partition_end_offset(lonely), 2);

    broker_stop(cluster_broker(f->cluster, first), false);
    deferred_run(&f->cluster->deferred);
    assert_int_equal(produce(f, "kept", &offset), 0);
    assert_int_equal(offset, 1);
    assert_int_equal(produce(f, "kept too", &offset), 0);
    assert_int_equal(broker_start(cluster_broker(f->cluster, first), NULL), 0);
    deferred_run(&f->cluster->deferred);
    assert_all_have(f, 3);
    assert_int_equal(commit_log_epoch_of(replica(f, first)->log, 1), image_of(f)->leader_epoch);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_cluster, fixture_close)
    const struct CMUnitTest tests[] = {
        TEST(what_is_acknowledged_is_on_all_replicas),
        TEST(a_dead_leader_has_lost_nothing),
        TEST(the_last_of_the_isr_goes_on_alone),
        TEST(a_log_that_went_its_own_way_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
