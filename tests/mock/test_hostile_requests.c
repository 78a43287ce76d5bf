/*
 * test_hostile_requests.c - random requests of every API in every version, whole, damaged and cut,
 * pipelined by peers that read little or nothing: the cluster answers a polite peer after each.
 *
 * The simulated cluster is the default. CAFKA_SEED and CAFKA_SEEDS choose other and more rounds;
 * CAFKA_REAL=1 runs them over real sockets, where the clock and the kernel's buffers are real.
 */
#include "mock/mock_fixture.h"

#include <errno.h>
#include <poll.h>

#include "env/env.h"
#include "protocol/api_keys.h"
#include "protocol/codec.h"
#include "protocol/messages/CreatePartitions.h"
#include "protocol/messages/CreateTopics.h"
#include "protocol/messages/DeleteRecords.h"
#include "protocol/messages/DescribeConfigs.h"
#include "protocol/messages/Fetch.h"
#include "protocol/messages/IncrementalAlterConfigs.h"
#include "protocol/messages/ListOffsets.h"
#include "protocol/messages/Metadata.h"
#include "protocol/messages/OffsetForLeaderEpoch.h"
#include "protocol/messages/Produce.h"
#include "record/crc32c.h"
#include "util/alloc.h"
#include "util/rng.h"

enum { BROKERS = 3, ROUNDS = 1000, PATIENCE_MS = 20000, REQUESTS = 12 };

struct attack {
    cafka_mock *mock;
    const cafka_env *env;
    bool real;
    uint64_t seed;
    struct rng rng;
    struct arena arena;
    struct encoded out;
    uint16_t ports[BROKERS];
    struct uuid topic_id;
};

static void let_run(struct attack *a)
{
    if (a->real)
        poll(NULL, 0, 1);
    else
        assert_int_equal(cafka_mock_advance_ms(a->mock, 1, NULL), CAFKA_OK);
}

static unsigned below(struct attack *a, unsigned bound)
{
    return (unsigned)rng_below(&a->rng, bound);
}

/* --- peers --- */

static int dial(struct attack *a, uint16_t port)
{
    cafka_address to;
    assert_true(address_parse("127.0.0.1", port, &to));
    int handle = a->env->dial(a->env, &to);
    assert_true(handle >= 0);
    for (int ms = 0; a->env->dial_result(a->env, handle) == -EINPROGRESS; ms++) {
        assert_true(ms < PATIENCE_MS);
        let_run(a);
    }
    return handle;
}

/* Send what the broker takes within `patience_ms`; false: not all. */
static bool send_all(struct attack *a, int handle, const uint8_t *data, size_t size, int patience_ms)
{
    for (int ms = 0; size;) {
        struct iovec piece = {(void *)(uintptr_t)data, size};
        ssize_t n = a->env->send(a->env, handle, &piece, 1);
        if (n < 0 && n != -EAGAIN)
            return false;
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        } else {
            if (ms++ >= patience_ms)
                return false;
            let_run(a);
        }
    }
    return true;
}

/* Read exactly this much; false: the connection is lost. */
static bool receive(struct attack *a, int handle, uint8_t *into, size_t size)
{
    for (int ms = 0; size;) {
        ssize_t n = a->env->recv(a->env, handle, into, size);
        if (n == 0 || (n < 0 && n != -EAGAIN))
            return false;
        if (n > 0) {
            into += n;
            size -= (size_t)n;
        } else {
            if (ms++ >= PATIENCE_MS)
                fail_msg("seed %llu: no answer", (unsigned long long)a->seed);
            let_run(a);
        }
    }
    return true;
}

/* A Metadata request of a peer that knows how to behave. */
static void polite_peer_is_answered(struct attack *a, uint16_t port)
{
    enum { VERSION = 12, ID = 4711 };
    struct metadata_request request;
    struct metadata_response response;
    struct metadata_request_topic topic = {.name = str_of("orders")};
    uint8_t head[4];
    metadata_request_init(&request);
    request.topics = &topic;
    request.topics_count = 1;
    const struct api *api = api_find(API_METADATA);
    assert_int_equal(request_encode(api, VERSION, ID, str_of("polite"), &request, &a->out, NULL),
                     CAFKA_OK);
    int handle = dial(a, port);
    assert_true(send_all(a, handle, a->out.bytes.data, a->out.bytes.size, PATIENCE_MS));
    if (!receive(a, handle, head, 4))
        fail_msg("seed %llu: the connection of a polite peer is lost", (unsigned long long)a->seed);
    uint32_t size = load_be32(head);
    assert_true(size < 1 << 24);
    uint8_t *frame = mem_alloc(size);
    assert_true(receive(a, handle, frame, size));
    int32_t id;
    size_t used;
    assert_int_equal(response_head_decode(api, VERSION, bytes_of(frame, size), &id, &used, NULL),
                     CAFKA_OK);
    assert_int_equal(id, ID);
    arena_reset(&a->arena);
    assert_int_equal(message_decode(api->response, VERSION, bytes_of(frame + used, size - used),
                                    &a->arena, &response, NULL, NULL),
                     CAFKA_OK);
    assert_int_equal(response.topics_count, 1);
    if (!response.topics[0].error_code)
        a->topic_id = response.topics[0].topic_id;
    mem_free(frame);
    a->env->close(a->env, handle);
}

/* --- requests that reach further than chance does --- */

static struct str some_name(struct attack *a, struct str random)
{
    static const char *const names[] = {"orders", "compacted",          "new",   "..", "",
                                        "a/b",    "__consumer_offsets", "x\001y"};
    unsigned at = below(a, 14);
    if (at >= 11)
        return random;
    return str_of(at < sizeof names / sizeof *names ? names[at] : "orders");
}

static int32_t some_partition(struct attack *a)
{
    static const int32_t odd[] = {-1, INT32_MAX, INT32_MIN, 100000, 4};
    return below(a, 4) ? (int32_t)below(a, 4) : odd[below(a, 5)];
}

static int64_t some_offset(struct attack *a)
{
    static const int64_t odd[] = {-1, -2, -3, -4, -5, -6, INT64_MAX, INT64_MIN, INT64_MAX - 1};
    return below(a, 2) ? (int64_t)below(a, 30) : odd[below(a, 9)];
}

/* A batch of version 2 that says it holds one empty record, with a few bits turned. */
static struct records some_batch(struct attack *a)
{
    static const uint8_t one[] = {0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
                                  0,    56,   0,    0,    0,    0,    2,    0,    0,    0,
                                  0,    0,    0,    0,    0,    0,    0,    0,    0,    1,
                                  0x77, 0,    0,    0,    0,    0,    0,    1,    0x77, 0,
                                  0,    0,    0,    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                  0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0,    0,    0,
                                  1,    12,   0,    0,    0,    1,    1,    0};
    uint8_t *batch = arena_alloc(&a->arena, sizeof one);
    assert_non_null(batch);
    memcpy(batch, one, sizeof one);
    for (unsigned turned = below(a, 4); turned; turned--)
        batch[below(a, sizeof one)] ^= (uint8_t)(1u << below(a, 8));
    if (below(a, 4))
        store_be32(batch + 17, crc32c(0, batch + 21, sizeof one - 21));
    return (struct records){.data = batch,
                            .size = sizeof one - (below(a, 8) ? 0 : below(a, sizeof one))};
}

static void aim_produce(struct attack *a, struct produce_request *r)
{
    r->acks = (int16_t)(below(a, 8) ? (int)below(a, 3) - 1 : (int)below(a, 65536) - 32768);
    if (below(a, 4))
        r->transactional_id = (struct str){NULL, 0};
    for (int32_t t = 0; t < r->topic_data_count; t++) {
        struct produce_request_topic_produce_data *topic = &r->topic_data[t];
        topic->name = some_name(a, topic->name);
        if (below(a, 4))
            topic->topic_id = a->topic_id;
        for (int32_t p = 0; p < topic->partition_data_count; p++) {
            topic->partition_data[p].index = some_partition(a);
            if (below(a, 8))
                topic->partition_data[p].records = some_batch(a);
        }
    }
}

static void aim_fetch(struct attack *a, struct fetch_request *r)
{
    if (below(a, 2))
        r->max_wait_ms = (int32_t)below(a, 50);
    if (below(a, 2))
        r->min_bytes = (int32_t)below(a, 2);
    if (below(a, 2))
        r->session_id = 0, r->session_epoch = (int32_t)below(a, 2) - 1;
    if (below(a, 4))
        r->replica_id = r->replica_state.replica_id = (int32_t)below(a, 6) - 2;
    for (int32_t t = 0; t < r->topics_count; t++) {
        r->topics[t].topic = some_name(a, r->topics[t].topic);
        if (below(a, 4))
            r->topics[t].topic_id = a->topic_id;
        for (int32_t p = 0; p < r->topics[t].partitions_count; p++) {
            struct fetch_request_fetch_partition *part = &r->topics[t].partitions[p];
            part->partition = some_partition(a);
            part->fetch_offset = some_offset(a);
            if (below(a, 2))
                part->current_leader_epoch = (int32_t)below(a, 4) - 2;
            if (below(a, 2))
                part->last_fetched_epoch = (int32_t)below(a, 4) - 2;
        }
    }
}

static void aim_list_offsets(struct attack *a, struct list_offsets_request *r)
{
    for (int32_t t = 0; t < r->topics_count; t++) {
        r->topics[t].name = some_name(a, r->topics[t].name);
        for (int32_t p = 0; p < r->topics[t].partitions_count; p++) {
            r->topics[t].partitions[p].partition_index = some_partition(a);
            r->topics[t].partitions[p].timestamp = some_offset(a);
            if (below(a, 2))
                r->topics[t].partitions[p].current_leader_epoch = -1;
        }
    }
}

static void aim_delete_records(struct attack *a, struct delete_records_request *r)
{
    for (int32_t t = 0; t < r->topics_count; t++) {
        r->topics[t].name = some_name(a, r->topics[t].name);
        for (int32_t p = 0; p < r->topics[t].partitions_count; p++) {
            r->topics[t].partitions[p].partition_index = some_partition(a);
            r->topics[t].partitions[p].offset = some_offset(a);
        }
    }
}

static void aim_epochs(struct attack *a, struct offset_for_leader_epoch_request *r)
{
    for (int32_t t = 0; t < r->topics_count; t++) {
        r->topics[t].topic = some_name(a, r->topics[t].topic);
        for (int32_t p = 0; p < r->topics[t].partitions_count; p++) {
            r->topics[t].partitions[p].partition = some_partition(a);
            if (below(a, 2))
                r->topics[t].partitions[p].current_leader_epoch = (int32_t)below(a, 3) - 1;
            if (below(a, 2))
                r->topics[t].partitions[p].leader_epoch = (int32_t)below(a, 3) - 1;
        }
    }
}

static void aim_create_topics(struct attack *a, struct create_topics_request *r)
{
    for (int32_t t = 0; t < r->topics_count; t++) {
        struct create_topics_request_creatable_topic *topic = &r->topics[t];
        topic->name = some_name(a, topic->name);
        topic->num_partitions = below(a, 3) ? (int32_t)below(a, 5) - 1 : some_partition(a);
        topic->replication_factor = (int16_t)((int)below(a, 6) - 1);
        if (below(a, 2))
            topic->assignments_count = 0;
        if (below(a, 2))
            topic->configs_count = 0;
        for (int32_t i = 0; i < topic->configs_count; i++) {
            static const char *const names[] = {"segment.bytes", "cleanup.policy", "retention.ms",
                                                "max.message.bytes"};
            static const char *const values[] =
                {"-1", "0", "compact,delete", "99999999999999999999", "", "1048576"};
            topic->configs[i].name = str_of(names[below(a, 4)]);
            topic->configs[i].value = str_of(values[below(a, 6)]);
        }
    }
}

static void aim_create_partitions(struct attack *a, struct create_partitions_request *r)
{
    for (int32_t t = 0; t < r->topics_count; t++) {
        r->topics[t].name = some_name(a, r->topics[t].name);
        r->topics[t].count = below(a, 2) ? (int32_t)below(a, 9) : some_partition(a);
        if (below(a, 2))
            r->topics[t].assignments_count = -1;
    }
}

static void aim_alter_configs(struct attack *a, struct incremental_alter_configs_request *r)
{
    for (int32_t i = 0; i < r->resources_count; i++) {
        r->resources[i].resource_type = (int8_t)(1 << below(a, 5));
        r->resources[i].resource_name = some_name(a, r->resources[i].resource_name);
        for (int32_t c = 0; c < r->resources[i].configs_count; c++) {
            static const char *const names[] = {"segment.bytes", "cleanup.policy", "retention.ms",
                                                "log.dirs", "listeners"};
            static const char *const values[] = {"-1", "0",  "compact", "18446744073709551616",
                                                 "",   ",,", "14"};
            r->resources[i].configs[c].name = str_of(names[below(a, 5)]);
            r->resources[i].configs[c].config_operation = (int8_t)((int)below(a, 6) - 1);
            r->resources[i].configs[c].value = str_of(values[below(a, 7)]);
        }
    }
}

static void aim(struct attack *a, int key, void *body)
{
    switch (key) {
    case API_PRODUCE: aim_produce(a, body); break;
    case API_FETCH: aim_fetch(a, body); break;
    case API_LIST_OFFSETS: aim_list_offsets(a, body); break;
    case API_DELETE_RECORDS: aim_delete_records(a, body); break;
    case API_OFFSET_FOR_LEADER_EPOCH: aim_epochs(a, body); break;
    case API_CREATE_TOPICS: aim_create_topics(a, body); break;
    case API_CREATE_PARTITIONS: aim_create_partitions(a, body); break;
    case API_INCREMENTAL_ALTER_CONFIGS: aim_alter_configs(a, body); break;
    default: break;
    }
}

/* --- the attack --- */

/* Half of them are requests that do something. */
static const struct api *some_api(struct attack *a)
{
    static const int keys[] = {API_PRODUCE,
                               API_FETCH,
                               API_LIST_OFFSETS,
                               API_METADATA,
                               API_CREATE_TOPICS,
                               API_DELETE_TOPICS,
                               API_DELETE_RECORDS,
                               API_CREATE_PARTITIONS,
                               API_DESCRIBE_CONFIGS,
                               API_INCREMENTAL_ALTER_CONFIGS,
                               API_ALTER_CONFIGS,
                               API_OFFSET_FOR_LEADER_EPOCH,
                               API_DESCRIBE_TOPIC_PARTITIONS};
    if (below(a, 2))
        return api_find(keys[below(a, sizeof keys / sizeof *keys)]);
    return api_find((int)below(a, API_KEY_COUNT));
}

/* Encode one request; false: chance made something that this version cannot say. */
static bool make_request(struct attack *a)
{
    const struct api *api = some_api(a);
    if (!api || !api->request)
        return false;
    int low = api->min_version, high = api->max_version;
    if (high < low || !below(a, 16)) { /* not served, which closes the connection */
        low = message_min_version(api->request);
        high = message_max_version(api->request);
    }
    if (high < low)
        return false;
    int version = (int)rng_between(&a->rng, low, high);
    arena_reset(&a->arena);
    void *body = arena_alloc(&a->arena, message_struct_size(api->request));
    assert_non_null(body);
    if (message_random(api->request, version, &a->rng, &a->arena, body, NULL))
        return false;
    if (below(a, 5))
        aim(a, api->key, body);
    struct str client = below(a, 8) ? str_of("hostile") : (struct str){NULL, 0};
    return !request_encode(api, version, (int32_t)rng_next(&a->rng), client, body, &a->out, NULL);
}

static void damage(struct attack *a)
{
    uint8_t *data = a->out.bytes.data;
    size_t size = a->out.bytes.size;
    switch (below(a, 12)) {
    case 0: /* anywhere, the size included */
        data[below(a, (unsigned)size)] = (uint8_t)rng_next(&a->rng);
        break;
    case 1: /* in the body, where counts are */
        for (int i = 0; i < 4; i++)
            data[4 + below(a, (unsigned)size - 4)] =
                (uint8_t)(below(a, 2) ? 0xff : rng_next(&a->rng));
        break;
    case 2: /* cut, and the size says so */
        if (size > 12) {
            a->out.bytes.size = 12 + below(a, (unsigned)size - 12);
            store_be32(data, (uint32_t)a->out.bytes.size - 4);
        }
        break;
    default: break;
    }
}

static void read_some(struct attack *a, int handle)
{
    uint8_t bytes[4096];
    for (unsigned ms = below(a, 20); ms; ms--) {
        (void)a->env->recv(a->env, handle, bytes, sizeof bytes);
        let_run(a);
    }
}

static void play_round(struct attack *a, uint64_t seed)
{
    a->seed = seed;
    rng_seed(&a->rng, seed);
    int handle = dial(a, a->ports[below(a, BROKERS)]);
    unsigned style = below(a, 4);
    for (unsigned i = below(a, REQUESTS) + 1; i; i--) {
        if (!make_request(a))
            continue;
        damage(a);
        if (!send_all(a, handle, a->out.bytes.data, a->out.bytes.size, 50))
            break;
        if (style == 1)
            read_some(a, handle);
    }
    if (style != 2)
        read_some(a, handle);
    if (style == 3)
        a->env->reset(a->env, handle);
    else
        a->env->close(a->env, handle);
    for (int i = 0; i < BROKERS; i++)
        polite_peer_is_answered(a, a->ports[i]);
}

static void random_requests_leave_the_cluster_well(void **state)
{
    (void)state;
    static const char *const topics[] = {"orders:4", "compacted:2:3:cleanup.policy=compact"};
    struct attack a = {.real = getenv("CAFKA_REAL") != NULL};
    cafka_error err = {0};
    cafka_mock_options options = {.size = sizeof options,
                                  .brokers = BROKERS,
                                  .simulated = !a.real,
                                  .seed = 1,
                                  .topics = topics,
                                  .topic_count = 2};
    if (cafka_mock_new(&a.mock, &options, &err))
        fail_msg("no cluster: %s", err.message);
    a.env = cafka_mock_env(a.mock);
    const char *at = cafka_mock_bootstrap(a.mock);
    for (int i = 0; i < BROKERS; i++) {
        at = strchr(at, ':') + 1;
        a.ports[i] = (uint16_t)strtol(at, NULL, 10);
    }
    const char *first = getenv("CAFKA_SEED"), *many = getenv("CAFKA_SEEDS");
    uint64_t seed = first ? strtoull(first, NULL, 10) : 1;
    uint64_t count = many ? strtoull(many, NULL, 10) * 20 : ROUNDS;
    for (uint64_t i = 0; i < count; i++)
        play_round(&a, seed + i);
    encoded_fini(&a.out);
    arena_fini(&a.arena);
    cafka_mock_free(a.mock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_requests_leave_the_cluster_well)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
