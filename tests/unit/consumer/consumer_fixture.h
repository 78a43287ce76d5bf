/*
 * consumer_fixture.h - a consumer and brokers in a simulated world; a model of the log of orders-0.
 *
 * The brokers answer Fetch (with sessions), ListOffsets and OffsetForLeaderEpoch from the model, and
 * misbehave as a test tells them. Everything blocking steps the world.
 */
#ifndef CAFKA_TESTS_CONSUMER_FIXTURE_H
#define CAFKA_TESTS_CONSUMER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "consumer/consumer.h"
#include "lib/script_broker.h"
#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/messages/Fetch.h"
#include "protocol/messages/ListOffsets.h"
#include "protocol/messages/OffsetForLeaderEpoch.h"
#include "record/builder.h"
#include "sim/sim.h"
#include "util/alloc.h"

enum { BROKERS = 3, BATCHES = 64, EVENTS = 64 };

struct model_batch {
    struct buffer bytes;
    int64_t base, last;
};

struct consumer_fixture {
    struct sim *sim;
    struct loop *loop;
    struct script_cluster cluster;
    cafka_config *config;
    cafka_consumer *consumer;

    /* the log */
    struct model_batch batches[BATCHES];
    int batch_count;
    int64_t start, end;

    /* what a broker remembers of its session */
    struct {
        bool member;
        int64_t offset, told_end;
        int32_t epoch, last_epoch;
    } sessions[BROKERS + 1];

    /* how answers are bent */
    int16_t fetch_error;
    int fetch_errors;     /* so many times; -1: always */
    int32_t error_broker; /* only this one; 0: all */
    bool empty, cut;
    int32_t preferred; /* the leader names it; 0: none */
    bool hint;         /* with NOT_LEADER_OR_FOLLOWER: who leads */
    int64_t diverging; /* end offset, told once; -1: none */
    int16_t list_error;
    bool list_leaves_out; /* broker 1 answers ListOffsets without the partition */
    int64_t epoch_end;    /* OffsetForLeaderEpoch: -2: the end of the log */
    int32_t end_epoch;

    /* what was seen */
    int fetches[BROKERS + 1], full_fetches;
    int64_t last_offset[BROKERS + 1];
    char rack[32];
    int events, codes[EVENTS];
    cafka_error event;
};

static inline struct script_topic *orders(struct consumer_fixture *f)
{
    return &f->cluster.topics[0];
}

/* --- the log --- */

/* A batch of `count` records whose values are their offsets. */
static inline void append(struct consumer_fixture *f, int count, int32_t leader_epoch)
{
    struct record_data records[64] = {{0}};
    char values[64][16];
    struct batch_header h;
    assert_true(f->batch_count < BATCHES && count <= 64);
    struct model_batch *batch = &f->batches[f->batch_count++];
    batch_header_init(&h);
    h.base_offset = batch->base = f->end;
    h.base_timestamp = INT64_MIN;
    h.leader_epoch = leader_epoch;
    h.producer_id = -1;
    h.producer_epoch = -1;
    h.base_sequence = -1;
    for (int i = 0; i < count; i++) {
        int size = snprintf(values[i], sizeof values[i], "%lld", (long long)f->end + i);
        records[i].timestamp = 1000 + i;
        records[i].value = bytes_of(values[i], (size_t)size);
    }
    assert_int_equal(batch_build(&h, records, (size_t)count, NULL, &batch->bytes, NULL), 0);
    f->end += count;
    batch->last = f->end - 1;
}

static inline void cut_log(struct consumer_fixture *f, int64_t end)
{
    while (f->batch_count && f->batches[f->batch_count - 1].last >= end)
        buffer_fini(&f->batches[--f->batch_count].bytes);
    f->end = end;
}

/* --- brokers --- */

static const struct model_batch *batch_at(const struct consumer_fixture *f, int64_t offset)
{
    for (int i = 0; i < f->batch_count; i++)
        if (f->batches[i].last >= offset)
            return &f->batches[i];
    return NULL;
}

static bool strikes(struct consumer_fixture *f, int32_t broker)
{
    if (!f->fetch_errors || (f->error_broker && f->error_broker != broker))
        return false;
    f->fetch_errors -= f->fetch_errors > 0;
    return true;
}

static void fill_partition_answer(struct consumer_fixture *f, int32_t broker,
                                  struct fetch_response_partition_data *p)
{
    int64_t offset = f->sessions[broker].offset;
    bool leads = orders(f)->leader[0] == broker;
    fetch_response_partition_data_init(p);
    p->high_watermark = -1;
    if (strikes(f, broker))
        p->error_code = f->fetch_error;
    else if (!leads && f->preferred != broker)
        p->error_code = ERR_NOT_LEADER_OR_FOLLOWER;
    else if (offset < f->start || offset > f->end)
        p->error_code = ERR_OFFSET_OUT_OF_RANGE;
    if (p->error_code) {
        if (p->error_code == ERR_NOT_LEADER_OR_FOLLOWER && f->hint) {
            p->current_leader.leader_id = orders(f)->leader[0];
            p->current_leader.leader_epoch = orders(f)->epoch[0];
        }
        return;
    }
    p->high_watermark = p->last_stable_offset = f->end;
    p->log_start_offset = f->start;
    if (f->diverging >= 0) {
        p->diverging_epoch.end_offset = f->diverging;
        p->diverging_epoch.epoch = 0;
        f->diverging = -1;
        return;
    }
    if (leads && f->preferred && f->preferred != broker) {
        p->preferred_read_replica = f->preferred;
        return;
    }
    const struct model_batch *batch = f->empty ? NULL : batch_at(f, offset);
    if (!batch)
        return;
    p->records.data = batch->bytes.data;
    p->records.size = f->cut ? batch->bytes.size / 2 : batch->bytes.size;
}

/* What the request says about orders-0, the only one that is read. */
static void take_request(struct consumer_fixture *f, int32_t broker,
                         const struct fetch_request *request)
{
    f->fetches[broker]++;
    f->full_fetches += request->session_epoch == 0;
    snprintf(f->rack, sizeof f->rack, "%.*s", STR_ARG(request->rack_id));
    if (request->session_epoch <= 0)
        f->sessions[broker].member = false;
    if (request->forgotten_topics_data_count)
        f->sessions[broker].member = false;
    if (!request->topics_count)
        return;
    const struct fetch_request_fetch_partition *part = &request->topics[0].partitions[0];
    f->sessions[broker].member = true;
    f->sessions[broker].told_end = -1;
    f->sessions[broker].offset = f->last_offset[broker] = part->fetch_offset;
    f->sessions[broker].epoch = part->current_leader_epoch;
    f->sessions[broker].last_epoch = part->last_fetched_epoch;
}

static bool serve_fetch(struct consumer_fixture *f, struct script_broker *broker, int version,
                        struct bytes body, struct arena *arena, struct fetch_response *r)
{
    struct fetch_request request;
    assert_int_equal(message_decode(&fetch_request_message, version, body, arena, &request, NULL,
                                    NULL),
                     0);
    take_request(f, broker->id, &request);
    r->session_id = request.session_epoch < 0 ? 0 : 100 + broker->id;
    if (!f->sessions[broker->id].member) {
        f->cluster.late_ms = request.max_wait_ms;
        return true;
    }
    struct fetch_response_partition_data *p = arena_calloc(arena, 1, sizeof *p);
    fill_partition_answer(f, broker->id, p);
    bool news = p->error_code || p->records.size || p->diverging_epoch.end_offset >= 0 ||
                p->preferred_read_replica >= 0 || f->sessions[broker->id].told_end != f->end;
    f->sessions[broker->id].told_end = p->error_code ? -1 : f->end;
    if (!p->records.size && !p->error_code && p->preferred_read_replica < 0)
        f->cluster.late_ms = request.max_wait_ms;
    if (request.session_epoch > 0 && !news)
        return true;
    r->responses = arena_calloc(arena, 1, sizeof *r->responses);
    r->responses_count = 1;
    fetch_response_fetchable_topic_response_init(r->responses);
    r->responses->topic = str_of(orders(f)->name);
    r->responses->topic_id = orders(f)->id;
    r->responses->partitions = p;
    r->responses->partitions_count = 1;
    return true;
}

static bool serve_list(struct consumer_fixture *f, int32_t broker, int version, struct bytes body,
                       struct arena *arena, struct list_offsets_response *r)
{
    if (f->list_leaves_out && broker == 1)
        return true;
    struct list_offsets_request request;
    assert_int_equal(message_decode(&list_offsets_request_message, version, body, arena, &request,
                                    NULL, NULL),
                     0);
    r->topics = arena_calloc(arena, 1, sizeof *r->topics);
    r->topics_count = 1;
    list_offsets_response_list_offsets_topic_response_init(r->topics);
    r->topics->name = str_of(orders(f)->name);
    r->topics->partitions = arena_calloc(arena, 1, sizeof *r->topics->partitions);
    r->topics->partitions_count = 1;
    list_offsets_response_list_offsets_partition_response_init(r->topics->partitions);
    r->topics->partitions->error_code = f->list_error;
    int64_t timestamp = request.topics[0].partitions[0].timestamp;
    r->topics->partitions->offset = timestamp == -1 ? f->end : timestamp == -2 ? f->start : -1;
    return true;
}

static bool serve_epoch(struct consumer_fixture *f, struct arena *arena,
                        struct offset_for_leader_epoch_response *r)
{
    r->topics = arena_calloc(arena, 1, sizeof *r->topics);
    r->topics_count = 1;
    offset_for_leader_epoch_response_offset_for_leader_topic_result_init(r->topics);
    r->topics->topic = str_of(orders(f)->name);
    r->topics->partitions = arena_calloc(arena, 1, sizeof *r->topics->partitions);
    r->topics->partitions_count = 1;
    offset_for_leader_epoch_response_epoch_end_offset_init(r->topics->partitions);
    r->topics->partitions->end_offset = f->epoch_end == -2 ? f->end : f->epoch_end;
    r->topics->partitions->leader_epoch = f->end_epoch;
    return true;
}

static bool serve(struct script_broker *broker, const struct request_head *head, struct bytes body,
                  struct arena *arena, void *response, void *user)
{
    struct consumer_fixture *f = user;
    if (head->api_key == API_FETCH)
        return serve_fetch(f, broker, head->api_version, body, arena, response);
    if (head->api_key == API_LIST_OFFSETS)
        return serve_list(f, broker->id, head->api_version, body, arena, response);
    if (head->api_key == API_OFFSET_FOR_LEADER_EPOCH)
        return serve_epoch(f, arena, response);
    return true;
}

/* --- the world --- */

static void hear_event(const cafka_event *event, void *user)
{
    struct consumer_fixture *f = user;
    if (f->events < EVENTS)
        f->codes[f->events] = event->error.code;
    f->events++;
    f->event = event->error;
}

static inline int heard(const struct consumer_fixture *f, int code)
{
    int times = 0;
    for (int i = 0; i < f->events && i < EVENTS; i++)
        times += f->codes[i] == code;
    return times;
}

static void print_log(void *user, int level, const char *area, const char *message)
{
    struct consumer_fixture *f = user;
    printf("%8lld ms  %d %s: %s\n", (long long)env_now_ms(f->cluster.env), level, area, message);
}

static inline void set(struct consumer_fixture *f, const char *name, const char *value)
{
    cafka_error err;
    if (cafka_config_set(f->config, name, value, &err))
        fail_msg("%s", err.message);
}

/* orders-0 is led by broker 1 in epoch 0; the log is empty. */
static inline int open_world(void **state)
{
    struct consumer_fixture *f = calloc(1, sizeof *f);
    cafka_error err;
    char bootstrap[256];
    f->diverging = -1;
    f->epoch_end = -2;
    assert_int_equal(sim_new(&f->sim, 1, &err), 0);
    assert_int_equal(loop_new(&f->loop, sim_env_for(f->sim, "brokers"), LOOP_BACKGROUND, &err), 0);
    script_open(&f->cluster, f->loop, BROKERS);
    script_bootstrap(&f->cluster, BROKERS, bootstrap, sizeof bootstrap);
    script_topic_add(&f->cluster, "orders", 1);
    f->cluster.handler = serve;
    f->cluster.user = f;
    assert_int_equal(cafka_config_new(&f->config, &err), 0);
    cafka_config_set_env(f->config, sim_env(f->sim));
    cafka_config_on_event(f->config, hear_event, f);
    if (getenv("CAFKA_TEST_LOG"))
        cafka_config_set_log(f->config, print_log, f, CAFKA_LOG_TRACE);
    else
        cafka_config_set_log(f->config, NULL, NULL, CAFKA_LOG_OFF);
    set(f, "bootstrap.servers", bootstrap);
    set(f, "auto.offset.reset", "earliest");
    set(f, "metadata.max.age.ms", "600000");
    *state = f;
    return 0;
}

static inline int close_world(void **state)
{
    struct consumer_fixture *f = *state;
    if (f->consumer)
        cafka_consumer_close(f->consumer, 1000, NULL);
    cafka_consumer_free(f->consumer);
    script_close(&f->cluster);
    loop_unref(f->loop);
    sim_free(f->sim);
    cafka_config_free(f->config);
    for (int i = 0; i < f->batch_count; i++)
        buffer_fini(&f->batches[i].bytes);
    free(f);
    return 0;
}

/* A consumer that reads orders-0 from `offset` on. */
static inline void start(struct consumer_fixture *f, int64_t offset)
{
    cafka_error err;
    cafka_position at = {.topic = "orders", .flags = CAFKA_POSITION_OFFSET, .offset = offset};
    if (cafka_consumer_new(&f->consumer, f->config, &err) ||
        cafka_consumer_assign(f->consumer, &at, 1, &err))
        fail_msg("%s", err.message);
}

/* The next record's value, or -1: an error (in *err), or nothing within `timeout_ms`. */
static inline int next_value(struct consumer_fixture *f, int64_t timeout_ms, cafka_error *err)
{
    cafka_fetch *fetch = NULL;
    cafka_record_view record;
    int value = -1;
    int64_t until = env_now_ms(f->cluster.env) + timeout_ms, now;
    error_clear(err);
    while (!fetch && (now = env_now_ms(f->cluster.env)) < until)
        if (cafka_consumer_poll(f->consumer, until - now, &fetch, err))
            return -1;
    if (fetch && !cafka_fetch_next(fetch, &record, err)) {
        char text[16] = "";
        memcpy(text, record.value, record.value_size);
        value = atoi(text);
    }
    cafka_fetch_free(fetch);
    return value;
}

static inline void expect(struct consumer_fixture *f, int first, int count)
{
    cafka_error err = {0};
    for (int i = first; i < first + count; i++) {
        int value = next_value(f, 10000, &err);
        if (value != i)
            fail_msg("%d instead of %d: %s", value, i, err.message);
    }
}

/* Poll for so long; whatever errors come are dropped, records must not. */
static inline void poll_for(struct consumer_fixture *f, int64_t ms)
{
    cafka_error err;
    int64_t until = env_now_ms(f->cluster.env) + ms, now;
    while ((now = env_now_ms(f->cluster.env)) < until)
        assert_int_equal(next_value(f, until - now, &err), -1);
}

#define CONSUMER_TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

#endif
