/*
 * test_fetch_replicas.c - which replica a consumer reads from: racks (KIP-392), epochs (KIP-320),
 * and what brokers say of a leader that is somewhere else (KIP-951).
 */
#include "mockbroker/api/read_replica.h"
#include "mockbroker/controller/controller.h"
#include "mockbroker/fault/unclean.h"
#include "mockbroker/replica/partition.h"
#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/messages/Fetch.h"
#include "record/builder.h"
#include "tests/unit/broker/broker_fixture.h"
#include "util/alloc.h"

#define SELECTOR "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"

static const struct partition_image *image_of(const struct cluster_fixture *f)
{
    return &image_topic(&f->cluster->controller->image, str_of("t"))->partitions[0];
}

/* Three records in the log of partition 0 of "t", on all three brokers. */
static void append_records(struct cluster_fixture *f)
{
    struct partition *leading =
        broker_partition(cluster_broker(f->cluster, image_of(f)->leader), str_of("t"), 0);
    for (int i = 0; i < 3; i++) {
        struct buffer batch = {0};
        struct batch_header header;
        struct record_data record = {.value = bytes_of("v", 1), .timestamp = 1};
        struct append_result result;
        batch_header_init(&header);
        assert_int_equal(batch_build(&header, &record, 1, NULL, &batch, NULL), 0);
        struct append_request request = {.records = bytes_of(batch.data, batch.size),
                                         .origin = APPEND_COORDINATOR};
        assert_int_equal(partition_append(leading, &request, -1, &result, NULL), 0);
        append_result_fini(&result);
        buffer_fini(&batch);
    }
    deferred_run(&f->cluster->deferred);
}

static int open_with(void **state, const char *properties)
{
    fixture_open(state);
    struct cluster_fixture *f = *state;
    struct topic_option topic = {.name = (char *)"t", .partitions = 1, .replicas = 3};
    f->brokers = 3;
    fixture_start(f, properties);
    assert_int_equal(cluster_create_topic(f->cluster, &topic, NULL), 0);
    append_records(f);
    return 0;
}

static int open_rack_aware(void **state)
{
    return open_with(state, SELECTOR);
}

static int open_plain(void **state)
{
    return open_with(state, NULL);
}

struct question {
    int32_t broker;
    int version;
    const char *rack;
    int64_t offset;
    int32_t epoch; /* current leader epoch; -1: not said */
    int32_t last_fetched_epoch;
};

struct reply {
    struct arena arena;
    struct fetch_response response;
    const struct fetch_response_partition_data *part;
};

static void ask(struct cluster_fixture *f, struct question q, struct reply *reply)
{
    struct fetch_request request;
    struct fetch_request_fetch_topic topic;
    struct fetch_request_fetch_partition part;
    struct client c;
    fetch_request_init(&request);
    fetch_request_fetch_topic_init(&topic);
    fetch_request_fetch_partition_init(&part);
    request.replica_id = -1;
    request.min_bytes = 1;
    request.max_bytes = 1 << 20;
    request.session_epoch = -1;
    request.rack_id = str_of(q.rack ? q.rack : "");
    request.topics = &topic;
    request.topics_count = 1;
    topic.topic = str_of("t");
    topic.topic_id = image_topic(&f->cluster->controller->image, str_of("t"))->id;
    topic.partitions = &part;
    topic.partitions_count = 1;
    part.fetch_offset = q.offset;
    part.current_leader_epoch = q.epoch;
    part.last_fetched_epoch = q.last_fetched_epoch;
    part.partition_max_bytes = 1 << 20;
    reply->arena = (struct arena){0};
    client_open(&c, f, q.broker);
    client_request(&c, API_FETCH, q.version, &request);
    client_decode(&c, API_FETCH, q.version, &reply->arena, &reply->response);
    client_close(&c);
    assert_int_equal(reply->response.responses_count, 1);
    reply->part = &reply->response.responses[0].partitions[0];
}

static struct question of_leader(const struct cluster_fixture *f, int version, const char *rack)
{
    return (struct question){.broker = image_of(f)->leader,
                             .version = version,
                             .rack = rack,
                             .epoch = -1,
                             .last_fetched_epoch = -1};
}

static const char *rack_of(int32_t broker)
{
    static const char *const racks[] = {"RACK1", "RACK2", "RACK3"};
    return racks[broker - 1];
}

static void assert_sent_elsewhere(struct cluster_fixture *f, struct question q, int32_t replica)
{
    struct reply r;
    ask(f, q, &r);
    assert_int_equal(r.part->error_code, ERR_NONE);
    assert_int_equal(r.part->preferred_read_replica, replica);
    assert_int_equal(r.part->records.size > 0, replica == THIS_REPLICA);
    assert_int_equal(r.part->high_watermark, 3);
    arena_fini(&r.arena);
}

static void a_leader_names_the_follower_in_the_consumers_rack(void **state)
{
    struct cluster_fixture *f = *state;
    int32_t leader = image_of(f)->leader, other = leader % 3 + 1;
    assert_sent_elsewhere(f, of_leader(f, 11, rack_of(other)), other);
    assert_sent_elsewhere(f, of_leader(f, 17, rack_of(other)), other);
    assert_sent_elsewhere(f, of_leader(f, 12, rack_of(leader)), THIS_REPLICA);
    assert_sent_elsewhere(f, of_leader(f, 12, "RACK9"), THIS_REPLICA);
    assert_sent_elsewhere(f, of_leader(f, 12, NULL), THIS_REPLICA);
    assert_sent_elsewhere(f, of_leader(f, 10, NULL), THIS_REPLICA); /* has no field for racks */
}

static void a_dead_follower_is_not_named(void **state)
{
    struct cluster_fixture *f = *state;
    int32_t other = image_of(f)->leader % 3 + 1;
    broker_stop(cluster_broker(f->cluster, other), false);
    deferred_run(&f->cluster->deferred);
    assert_sent_elsewhere(f, of_leader(f, 12, rack_of(other)), THIS_REPLICA);
}

static void an_offset_that_no_follower_has_is_the_leaders_to_refuse(void **state)
{
    struct cluster_fixture *f = *state;
    int32_t other = image_of(f)->leader % 3 + 1;
    struct question q = of_leader(f, 12, rack_of(other));
    struct reply r;
    q.offset = 4;
    ask(f, q, &r);
    assert_int_equal(r.part->error_code, ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(r.part->preferred_read_replica, THIS_REPLICA);
    arena_fini(&r.arena);
}

static void a_follower_serves_consumers_of_v11_and_sends_others_to_the_leader(void **state)
{
    struct cluster_fixture *f = *state;
    int32_t leader = image_of(f)->leader, other = leader % 3 + 1;
    struct question q = of_leader(f, 11, rack_of(other));
    struct reply r;
    q.broker = other;
    assert_sent_elsewhere(f, q, THIS_REPLICA);
    q.version = 10;
    ask(f, q, &r);
    assert_int_equal(r.part->error_code, ERR_NOT_LEADER_OR_FOLLOWER);
    arena_fini(&r.arena);
}

static void without_the_selector_racks_mean_nothing(void **state)
{
    struct cluster_fixture *f = *state;
    assert_sent_elsewhere(f, of_leader(f, 12, rack_of(image_of(f)->leader % 3 + 1)), THIS_REPLICA);
}

static void an_old_epoch_is_fenced_and_the_leader_named(void **state)
{
    struct cluster_fixture *f = *state;
    struct question q = of_leader(f, 17, NULL);
    struct reply r;
    assert_int_equal(unclean_election(f->cluster, str_of("t"), 0, -1, 3, NULL), 0);
    int32_t epoch = image_of(f)->leader_epoch;
    assert_int_equal(epoch, 2);

    q.epoch = 0;
    ask(f, q, &r);
    assert_int_equal(r.part->error_code, ERR_FENCED_LEADER_EPOCH);
    assert_int_equal(r.part->current_leader.leader_id, q.broker);
    assert_int_equal(r.part->current_leader.leader_epoch, epoch);
    assert_int_equal(r.response.node_endpoints_count, 1);
    assert_int_equal(r.response.node_endpoints[0].node_id, q.broker);
    arena_fini(&r.arena);

    q.epoch = 9;
    ask(f, q, &r);
    assert_int_equal(r.part->error_code, ERR_UNKNOWN_LEADER_EPOCH);
    assert_int_equal(r.part->current_leader.leader_id, -1);
    assert_int_equal(r.response.node_endpoints_count, 0);
    arena_fini(&r.arena);

    q.epoch = epoch;
    ask(f, q, &r);
    assert_int_equal(r.part->error_code, ERR_NONE);
    arena_fini(&r.arena);
}

/* A consumer that has read what was lost is told where the logs part, and gets no records. */
static void a_consumer_ahead_of_a_cut_log_is_told_where_they_part(void **state)
{
    struct cluster_fixture *f = *state;
    struct question q = of_leader(f, 12, NULL);
    struct reply r;
    assert_int_equal(unclean_election(f->cluster, str_of("t"), 0, -1, 1, NULL), 0);
    append_records(f);
    q.offset = 3;
    q.epoch = image_of(f)->leader_epoch;
    q.last_fetched_epoch = 0;
    ask(f, q, &r);
    assert_int_equal(r.part->error_code, ERR_NONE);
    assert_int_equal(r.part->diverging_epoch.epoch, 0);
    assert_int_equal(r.part->diverging_epoch.end_offset, 1);
    assert_int_equal(r.part->records.size, 0);
    arena_fini(&r.arena);
}

int main(void)
{
#define RACKS(test) cmocka_unit_test_setup_teardown(test, open_rack_aware, fixture_close)
#define PLAIN(test) cmocka_unit_test_setup_teardown(test, open_plain, fixture_close)
    const struct CMUnitTest tests[] = {
        RACKS(a_leader_names_the_follower_in_the_consumers_rack),
        RACKS(a_dead_follower_is_not_named),
        RACKS(an_offset_that_no_follower_has_is_the_leaders_to_refuse),
        RACKS(a_follower_serves_consumers_of_v11_and_sends_others_to_the_leader),
        PLAIN(without_the_selector_racks_mean_nothing),
        PLAIN(an_old_epoch_is_fenced_and_the_leader_named),
        PLAIN(a_consumer_ahead_of_a_cut_log_is_told_where_they_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
