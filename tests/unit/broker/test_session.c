/*
 * test_session.c - connections: order of answers, hostile bytes, slow readers, faults.
 */
#include "mockbroker/fault/rules.h"
#include "mockbroker/session.h"
#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/messages/ApiVersions.h"
#include "protocol/messages/FindCoordinator.h"
#include "protocol/messages/JoinGroup.h"
#include "protocol/messages/Metadata.h"
#include "protocol/messages/OffsetCommit.h"
#include "tests/unit/broker/broker_fixture.h"
#include "util/alloc.h"

#define API_VERSIONS_0 "0012 0000 00000001 ffff"
#define API_VERSIONS_0_NUMBER_2 "0012 0000 00000002 ffff"

static int open_cluster(void **state)
{
    fixture_open(state);
    fixture_start(*state, "num.partitions=2\nsocket.request.max.bytes=1000000");
    return 0;
}

static int32_t correlation(struct client *c)
{
    assert_true(client_answer(c));
    int32_t id = (int32_t)load_be32(c->bytes + 4);
    size_t size = 4 + load_be32(c->bytes);
    memmove(c->bytes, c->bytes + size, c->size - size);
    c->size -= size;
    return id;
}

static void assert_alive(struct cluster_fixture *f)
{
    struct client c;
    client_open(&c, f, 1);
    client_send_hex(&c, API_VERSIONS_0, true);
    assert_int_equal(correlation(&c), 1);
    client_close(&c);
}

static void answers_come_in_order_to_requests_sent_at_once(void **state)
{
    struct client c;
    client_open(&c, *state, 1);
    for (int i = 0; i < 50; i++) {
        client_send_hex(&c, API_VERSIONS_0, true);
        client_send_hex(&c, API_VERSIONS_0_NUMBER_2, true);
    }
    for (int i = 0; i < 50; i++) {
        assert_int_equal(correlation(&c), 1);
        assert_int_equal(correlation(&c), 2);
    }
    client_close(&c);
}

static void a_frame_may_come_byte_by_byte(void **state)
{
    static const uint8_t frame[] = {0, 0, 0, 10, 0, 0x12, 0, 0, 0, 0, 0, 1, 0xff, 0xff};
    struct cluster_fixture *f = *state;
    struct client c;
    client_open(&c, f, 1);
    for (size_t i = 0; i < sizeof frame; i++) {
        client_send(&c, &frame[i], 1);
        test_run_ms(f->loop, 5);
    }
    assert_int_equal(correlation(&c), 1);
    client_close(&c);
}

static void bytes_that_are_no_request_close_the_connection(void **state)
{
    static const char *const frames[] = {
        "",                                            /* nothing */
        "00",                                          /* half a key */
        "00120000",                                    /* no correlation id */
        "0003000c00000001",                            /* no client id */
        "0003 0001 00000001 ffff 7fffffff",            /* more topics than bytes */
        "0003 000c 00000001 ffff 00 ffffffff0f 00 00", /* the same, compact */
        "0003 000c 00000001 ffff 00 808080808080 00",  /* a varint without end */
        "0003 0001 00000001 7fff 61",                  /* a client id longer than the frame */
        "0003 0063 00000001 ffff",                     /* a version that is not there */
        "03e7 0000 00000001 ffff",                     /* an API that is not there */
        "ffff 0000 00000001 ffff",
        "0004 0000 00000001 ffff", /* LeaderAndIsr: not on this listener */
    };
    struct cluster_fixture *f = *state;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        struct client c;
        client_open(&c, f, 1);
        client_send_hex(&c, frames[i], true);
        if (!client_is_closed(&c))
            fail_msg("frame %zu does not close the connection", i);
        client_close(&c);
    }
    assert_alive(f);
}

static void a_size_that_cannot_be_closes_the_connection(void **state)
{
    static const char *const sizes[] = {"ffffffff",
                                        "80000000",
                                        "7fffffff",
                                        "000f4241",
                                        "47455420" /* "GET " */,
                                        "16030100" /* TLS */};
    struct cluster_fixture *f = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct client c;
        client_open(&c, f, 1);
        client_send_hex(&c, sizes[i], false);
        if (!client_is_closed(&c))
            fail_msg("size %s does not close the connection", sizes[i]);
        client_close(&c);
    }
    assert_alive(f);
}

/* Every request cut at every byte: answered or closed, never more. */
static void requests_cut_anywhere_are_survived(void **state)
{
    struct cluster_fixture *f = *state;
    struct metadata_request_topic topics[2];
    struct metadata_request request;
    struct encoded e = {0};
    metadata_request_init(&request);
    metadata_request_topic_init(&topics[0]);
    metadata_request_topic_init(&topics[1]);
    topics[0].name = str_of("some-topic");
    topics[1].name = str_of("another");
    request.topics = topics;
    request.topics_count = 2;
    assert_int_equal(request_encode(api_find(API_METADATA), 12, 1, str_of("x"), &request, &e, NULL),
                     0);
    for (size_t size = 0; size < e.bytes.size - 4; size++) {
        struct client c;
        uint8_t frame[256];
        memcpy(frame, e.bytes.data, e.bytes.size);
        store_be32(frame, (uint32_t)size);
        client_open(&c, f, 1);
        client_send(&c, frame, size + 4);
        assert_true(client_is_closed(&c));
        client_close(&c);
    }
    encoded_fini(&e);
    assert_alive(f);
}

static void random_bytes_are_survived(void **state)
{
    struct cluster_fixture *f = *state;
    struct rng rng;
    rng_seed(&rng, 99);
    for (int round = 0; round < 60; round++) {
        struct client c;
        uint8_t frame[512];
        size_t size = 8 + rng_below(&rng, sizeof frame - 12);
        rng_fill(&rng, frame, sizeof frame);
        store_be32(frame, (uint32_t)size);
        store_be16(frame + 4,
                   (uint16_t)rng_below(&rng, 93)); /* a key and a version that exist, often */
        store_be16(frame + 6, (uint16_t)rng_below(&rng, 8));
        client_open(&c, f, 1);
        client_send(&c, frame, size + 4);
        test_run_ms(f->loop, 20);
        client_close(&c);
    }
    assert_alive(f);
    test_run_ms(f->loop, 60000); /* parked requests of lost connections end too */
    assert_int_equal(cluster_broker(f->cluster, 1)->session_count, 0);
}

static void a_lost_connection_leaves_nothing(void **state)
{
    struct cluster_fixture *f = *state;
    struct broker *broker = cluster_broker(f->cluster, 1);
    struct client c;
    client_open(&c, f, 1);
    client_send_hex(&c, "0000 00", false); /* a part of a frame */
    test_run_ms(f->loop, 20);
    assert_int_equal(broker->session_count, 1);
    client_close(&c);
    assert_int_equal(broker->session_count, 0);
}

/* A client that does not read is not read from: what is queued for it is one answer at most. */
static void a_slow_reader_is_bounded(void **state)
{
    struct cluster_fixture *f = *state;
    struct broker *broker = cluster_broker(f->cluster, 1);
    struct client c;
    enum { REQUESTS = 20000 }; /* more answers than the buffers of sockets hold */
    client_open(&c, f, 1);
    struct buffer all = {0};
    for (int i = 0; i < REQUESTS; i++)
        buffer_put(&all, "\0\0\0\n\0\x12\0\0\0\0\0\1\xff\xff", 14);
    client_send(&c, all.data, all.size);
    test_run_ms(f->loop, 200);
    struct session *session = list_item(list_first(&broker->sessions), struct session, link);
    assert_true(stream_unwritten(session->stream) < 1024);
    assert_true(f->cluster->requests_seen < REQUESTS); /* the rest waits in the socket */
    int answers = 0;
    while (answers < REQUESTS && client_answer(&c)) {
        (void)correlation(&c);
        answers++;
    }
    assert_int_equal(answers, REQUESTS);
    buffer_fini(&all);
    client_close(&c);
}

static void connections_above_the_limit_are_closed(void **state)
{
    struct cluster_fixture *f = *state;
    fixture_stop(f, true);
    fixture_start(f, "max.connections=2");
    struct client a, b, c;
    client_open(&a, f, 1);
    client_open(&b, f, 1);
    client_send_hex(&b, API_VERSIONS_0, true);
    assert_int_equal(correlation(&b), 1);
    client_open(&c, f, 1);
    assert_true(client_is_closed(&c));
    client_close(&a);
    client_close(&b);
    client_close(&c);
}

static void an_idle_connection_is_closed(void **state)
{
    struct cluster_fixture *f = *state;
    struct client c;
    if (!f->world.sim)
        skip();
    fixture_stop(f, true);
    fixture_start(f, "connections.max.idle.ms=30000");
    client_open(&c, f, 1);
    test_run_ms(f->loop, 20000);
    client_send_hex(&c, API_VERSIONS_0, true);
    assert_int_equal(correlation(&c), 1);
    test_run_ms(f->loop, 20000);
    client_send_hex(&c, API_VERSIONS_0, true);
    assert_int_equal(correlation(&c), 1); /* it was used meanwhile */
    test_run_ms(f->loop, 40000);
    assert_true(client_is_closed(&c));
    client_close(&c);
}

/* --- what is offered and not built --- */

static void an_api_without_a_handler_says_so(void **state)
{
    struct cluster_fixture *f = *state;
    struct arena arena = {0};
    struct join_group_request request;
    struct join_group_response response;
    struct client c;
    join_group_request_init(&request);
    request.group_id = str_of("g");
    client_open(&c, f, 1);
    client_request(&c, API_JOIN_GROUP, 9, &request);
    client_decode(&c, API_JOIN_GROUP, 9, &arena, &response);
    assert_int_equal(response.error_code, ERR_UNSUPPORTED_VERSION);
    arena_fini(&arena);
    client_close(&c);
}

/* --- faults --- */

static int ask_metadata(struct client *c)
{
    struct arena arena = {0};
    struct metadata_request request;
    struct metadata_request_topic topic;
    struct metadata_response response;
    metadata_request_init(&request);
    metadata_request_topic_init(&topic);
    topic.name = str_of("t");
    request.topics = &topic;
    request.topics_count = 1;
    request.allow_auto_topic_creation = false;
    client_request(c, API_METADATA, 12, &request);
    client_decode(c, API_METADATA, 12, &arena, &response);
    int code = response.topics[0].error_code;
    arena_fini(&arena);
    return code;
}

static void a_rule_fails_the_requests_that_match(void **state)
{
    struct cluster_fixture *f = *state;
    struct fault_rule rule = {.api = API_METADATA,
                              .topic = "t",
                              .skip = 1,
                              .count = 2,
                              .action = FAULT_ERROR,
                              .code = ERR_LEADER_NOT_AVAILABLE};
    struct fault_rule other = {.api = API_METADATA, .topic = "u", .action = FAULT_CLOSE};
    int64_t id;
    struct client c;
    assert_int_equal(fault_rule_add(f->cluster->faults, &rule, &id, NULL), 0);
    assert_int_equal(fault_rule_add(f->cluster->faults, &other, NULL, NULL), 0);
    client_open(&c, f, 1);
    assert_int_equal(ask_metadata(&c), ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(ask_metadata(&c), ERR_LEADER_NOT_AVAILABLE);
    assert_int_equal(ask_metadata(&c), ERR_LEADER_NOT_AVAILABLE);
    assert_int_equal(ask_metadata(&c), ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(fault_rule_hits(f->cluster->faults, id), 2);
    client_close(&c);
}

static void a_rule_closes_before_or_after(void **state)
{
    struct cluster_fixture *f = *state;
    struct fault_rule rule = {.api = API_API_VERSIONS, .count = 1, .action = FAULT_CLOSE};
    struct client c;
    assert_int_equal(fault_rule_add(f->cluster->faults, &rule, NULL, NULL), 0);
    rule.action = FAULT_CLOSE_AFTER;
    assert_int_equal(fault_rule_add(f->cluster->faults, &rule, NULL, NULL), 0);
    for (int i = 0; i < 2; i++) {
        client_open(&c, f, 1);
        client_send_hex(&c, API_VERSIONS_0, true);
        assert_true(client_is_closed(&c));
        client_close(&c);
    }
    assert_alive(f);
}

static void a_rule_holds_an_answer_back(void **state)
{
    struct cluster_fixture *f = *state;
    struct fault_rule rule = {.api = -1, .count = 1, .action = FAULT_DELAY, .delay_ms = 300};
    struct client c;
    assert_int_equal(fault_rule_add(f->cluster->faults, &rule, NULL, NULL), 0);
    client_open(&c, f, 1);
    int64_t begin = env_now_ms(f->world.env);
    client_send_hex(&c, API_VERSIONS_0, true);
    client_send_hex(&c, API_VERSIONS_0_NUMBER_2, true);
    assert_int_equal(correlation(&c), 1);
    assert_int_equal(correlation(&c), 2); /* and the order holds */
    assert_true(env_now_ms(f->world.env) - begin >= 300);
    client_close(&c);

    assert_int_equal(fault_rule_add(f->cluster->faults, &rule, NULL, NULL), 0);
    client_open(&c, f, 1);
    client_send_hex(&c, API_VERSIONS_0, true);
    test_run_ms(f->loop, 50);
    client_close(&c); /* while the answer is held back */
    test_run_ms(f->loop, 500);
    assert_alive(f);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, open_cluster, fixture_close)
    const struct CMUnitTest tests[] = {
        TEST(answers_come_in_order_to_requests_sent_at_once),
        TEST(a_frame_may_come_byte_by_byte),
        TEST(bytes_that_are_no_request_close_the_connection),
        TEST(a_size_that_cannot_be_closes_the_connection),
        TEST(requests_cut_anywhere_are_survived),
        TEST(random_bytes_are_survived),
        TEST(a_lost_connection_leaves_nothing),
        TEST(a_slow_reader_is_bounded),
        TEST(connections_above_the_limit_are_closed),
        TEST(an_idle_connection_is_closed),
        TEST(an_api_without_a_handler_says_so),
        TEST(a_rule_fails_the_requests_that_match),
        TEST(a_rule_closes_before_or_after),
        TEST(a_rule_holds_an_answer_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
