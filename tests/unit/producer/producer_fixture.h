/*
 * producer_fixture.h - a producer and three brokers in a simulated world; a model of their logs.
 *
 * The brokers keep what is produced to them, refuse what a real one would refuse (wrong leader,
 * gaps and duplicates in sequences, batches that are too large), and fail as a test tells them.
 * Everything blocking steps the world, so tests read as ordinary programs and take no time.
 */
#ifndef CAFKA_TESTS_PRODUCER_FIXTURE_H
#define CAFKA_TESTS_PRODUCER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cafka/client.h>
#include <cafka/producer.h>

#include "lib/script_broker.h"
#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/messages/InitProducerId.h"
#include "protocol/messages/Produce.h"
#include "record/open.h"
#include "sim/sim.h"
#include "util/alloc.h"
#include "util/hash.h"

enum { BROKERS = 3, PARTITIONS = SCRIPT_PARTITIONS, LOG_MAX = 20000, WINDOW = 5, FAULTS = 64 };

/* What a broker does with the next Produce requests, in order, beside the rules of the script. */
enum fault_kind {
    FAULT_NONE,         /* all is well */
    FAULT_REFUSE,       /* do not write; answer `code` */
    FAULT_WRITE_REFUSE, /* write, and answer `code` all the same */
    FAULT_IGNORE        /* do not write, do not answer */
};

struct model_log {
    int32_t values[LOG_MAX]; /* the numbers that the records are */
    int32_t sizes[LOG_MAX];
    int64_t timestamps[LOG_MAX];
    int count;
    int batches;
    /* of the one producer that there is */
    bool knows;
    int64_t producer_id;
    int16_t epoch;
    int32_t last_sequence;
    struct {
        int32_t first, last;
        int offset;
    } window[WINDOW];
    int window_count;
};

struct producer_fixture {
    struct sim *sim;
    struct loop *loop;
    struct script_cluster cluster;
    cafka_config *config;
    cafka_producer *producer;
    struct model_log logs[PARTITIONS]; /* of the first topic */
    struct {
        enum fault_kind kind;
        int16_t code;
    } faults[FAULTS];
    int fault_count, fault_next;
    int16_t refuse_all;       /* 0, or with what every Produce request is refused */
    size_t max_message_bytes; /* 0: any */
    int16_t id_error;         /* InitProducerId answers this … */
    int id_errors;            /* … so many times */
    int ids;                  /* handed out */
    int produced;             /* Produce requests seen */
    int64_t produced_at_ms[1000];
    size_t largest_request;
    int acks;            /* of the last request */
    int codec;           /* of the last batch */
    bool hint_leaders;   /* say in the answer who leads */
    int bad_records;     /* FAULT_REFUSE names so many records from the second on */
    int64_t told_offset; /* base offset of every answer; 0: the true one */
    int32_t slow_broker; /* this one asks to be left alone for a second after each request */

    /* reports */
    int32_t reported[LOG_MAX]; /* how often */
    int64_t offsets[LOG_MAX];
    cafka_error errors[16]; /* of the first records */
    int delivered, failed, batches_reported;
    cafka_error last_error;
    void (*in_callback)(struct producer_fixture *f);
    int next; /* number of the next record to send */
};

static inline struct script_topic *first_topic(struct producer_fixture *f)
{
    return &f->cluster.topics[0];
}

/* --- the model of a broker --- */

static int16_t check_sequence(const struct model_log *log, const struct batch_header *h,
                              int *known_offset)
{
    *known_offset = -1;
    if (h->producer_id < 0 || !log->knows || log->producer_id != h->producer_id)
        return ERR_NONE;
    if (h->producer_epoch < log->epoch)
        return ERR_INVALID_PRODUCER_EPOCH;
    if (h->producer_epoch > log->epoch)
        return h->base_sequence ? ERR_OUT_OF_ORDER_SEQUENCE_NUMBER : ERR_NONE;
    for (int i = 0; i < log->window_count; i++)
        if (log->window[i].first == h->base_sequence &&
            log->window[i].last == batch_last_sequence(h)) {
            *known_offset = log->window[i].offset;
            return ERR_NONE;
        }
    return h->base_sequence == sequence_add(log->last_sequence, 1)
               ? ERR_NONE
               : ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
}

static void remember(struct model_log *log, const struct batch_header *h, int offset)
{
    if (h->producer_id < 0)
        return;
    if (log->knows && (log->producer_id != h->producer_id || log->epoch != h->producer_epoch))
        log->window_count = 0;
    if (log->window_count == WINDOW)
        memmove(log->window, log->window + 1, sizeof log->window[0] * (size_t)--log->window_count);
    log->window[log->window_count].first = h->base_sequence;
    log->window[log->window_count].last = batch_last_sequence(h);
    log->window[log->window_count++].offset = offset;
    log->knows = true;
    log->producer_id = h->producer_id;
    log->epoch = h->producer_epoch;
    log->last_sequence = batch_last_sequence(h);
}

static int write_records(struct model_log *log, struct bytes batch, const struct batch_header *h)
{
    struct decompressor *d;
    struct buffer inflated = {0};
    struct record_iter it;
    struct record_view view;
    int offset = log->count;
    assert_int_equal(decompressor_new(&d, NULL), 0);
    assert_int_equal(batch_open(batch, h, d, 64 << 20, &inflated, &it, NULL), 0);
    while (!record_iter_next(&it, &view, NULL)) {
        assert_true(log->count < LOG_MAX);
        log->values[log->count] = view.value.size >= 4 ? (int32_t)load_be32(view.value.data) : -1;
        log->sizes[log->count] = (int32_t)view.value.size;
        log->timestamps[log->count++] = view.timestamp;
    }
    assert_int_equal(log->count - offset, h->record_count);
    log->batches++;
    decompressor_free(d);
    buffer_fini(&inflated);
    return offset;
}

static int16_t append_batch(struct producer_fixture *f, struct model_log *log, struct bytes batch,
                            int *offset)
{
    struct batch_header h;
    cafka_error err = {0};
    assert_int_equal(batch_check(batch, &err), 0);
    assert_int_equal(batch_header_read(batch, &h, &err), 0);
    assert_int_equal(batch_size(&h), batch.size); /* one batch a partition */
    f->codec = batch_codec(&h);
    if (f->max_message_bytes && batch.size > f->max_message_bytes)
        return ERR_MESSAGE_TOO_LARGE;
    int16_t code = check_sequence(log, &h, offset);
    if (code || *offset >= 0)
        return code;
    *offset = write_records(log, batch, &h);
    remember(log, &h, *offset);
    return ERR_NONE;
}

static const struct script_topic *find_topic_of(
    struct producer_fixture *f, const struct produce_request_topic_produce_data *data, int version)
{
    for (int i = 0; i < f->cluster.topic_count; i++) {
        const struct script_topic *t = &f->cluster.topics[i];
        if (version >= 13 ? uuid_equal(t->id, data->topic_id) : str_is(data->name, t->name))
            return t;
    }
    return NULL;
}

static void name_bad_records(struct producer_fixture *f, struct arena *arena,
                             struct produce_response_partition_produce_response *p)
{
    if (!f->bad_records)
        return;
    p->record_errors = arena_calloc(arena, (size_t)f->bad_records, sizeof *p->record_errors);
    p->record_errors_count = f->bad_records;
    for (int i = 0; i < f->bad_records; i++) {
        produce_response_batch_index_and_error_message_init(&p->record_errors[i]);
        p->record_errors[i].batch_index = 1 + i;
        p->record_errors[i].batch_index_error_message = str_of("has no key");
    }
}

static bool serve_produce(struct producer_fixture *f, struct script_broker *broker,
                          const struct request_head *head, struct bytes body, struct arena *arena,
                          struct produce_response *r)
{
    struct produce_request request;
    cafka_error err = {0};
    assert_int_equal(message_decode(&produce_request_message, head->api_version, body, arena,
                                    &request, NULL, &err),
                     0);
    enum fault_kind kind = FAULT_NONE;
    int16_t fault_code = 0;
    if (f->fault_next < f->fault_count) {
        kind = f->faults[f->fault_next].kind;
        fault_code = f->faults[f->fault_next++].code;
    }
    if (f->refuse_all) {
        kind = FAULT_REFUSE;
        fault_code = f->refuse_all;
    }
    if (f->produced < 1000)
        f->produced_at_ms[f->produced] = env_now_ms(f->cluster.env);
    f->produced++;
    f->acks = request.acks;
    if (body.size > f->largest_request)
        f->largest_request = body.size;
    if (kind == FAULT_IGNORE)
        return false;
    if (f->slow_broker == broker->id)
        r->throttle_time_ms = 1000;

    r->responses = arena_calloc(arena, (size_t)request.topic_data_count, sizeof *r->responses);
    r->responses_count = request.topic_data_count;
    for (int i = 0; i < request.topic_data_count; i++) {
        const struct produce_request_topic_produce_data *data = &request.topic_data[i];
        struct produce_response_topic_produce_response *out = &r->responses[i];
        const struct script_topic *topic = find_topic_of(f, data, head->api_version);
        produce_response_topic_produce_response_init(out);
        out->name = data->name;
        out->topic_id = data->topic_id;
        out->partition_responses = arena_calloc(arena, (size_t)data->partition_data_count,
                                                sizeof *out->partition_responses);
        out->partition_responses_count = data->partition_data_count;
        for (int j = 0; j < data->partition_data_count; j++) {
            struct produce_response_partition_produce_response *p = &out->partition_responses[j];
            produce_response_partition_produce_response_init(p);
            int32_t index = p->index = data->partition_data[j].index;
            p->base_offset = -1;
            int offset = -1;
            if (!topic || index >= topic->partitions)
                p->error_code = ERR_UNKNOWN_TOPIC_OR_PARTITION;
            else if (topic->leader[index] != broker->id)
                p->error_code = ERR_NOT_LEADER_OR_FOLLOWER;
            else if (kind == FAULT_REFUSE) {
                p->error_code = fault_code;
                name_bad_records(f, arena, p);
            } else
                p->error_code = append_batch(f, &f->logs[index],
                                             bytes_of(data->partition_data[j].records.data,
                                                      data->partition_data[j].records.size),
                                             &offset);
            if (p->error_code == ERR_NOT_LEADER_OR_FOLLOWER && f->hint_leaders) {
                p->current_leader.leader_id = topic->leader[index];
                p->current_leader.leader_epoch = topic->epoch[index];
            }
            if (!p->error_code && kind == FAULT_WRITE_REFUSE)
                p->error_code = fault_code;
            if (!p->error_code)
                p->base_offset = f->told_offset ? f->told_offset : offset;
        }
    }
    return request.acks != 0;
}

static bool serve(struct script_broker *broker, const struct request_head *head, struct bytes body,
                  struct arena *arena, void *response, void *user)
{
    struct producer_fixture *f = user;
    if (head->api_key == API_PRODUCE)
        return serve_produce(f, broker, head, body, arena, response);
    if (head->api_key == API_INIT_PRODUCER_ID) {
        struct init_producer_id_response *r = response;
        if (f->id_errors) {
            f->id_errors--;
            r->error_code = f->id_error;
            return true;
        }
        r->producer_id = 1000 + f->ids++;
        r->producer_epoch = 0;
    }
    return true;
}

static inline void fault(struct producer_fixture *f, enum fault_kind kind, int16_t code)
{
    assert_true(f->fault_count < FAULTS);
    f->faults[f->fault_count].kind = kind;
    f->faults[f->fault_count++].code = code;
}

/* --- the world --- */

static void hear_delivery(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct producer_fixture *f = user;
    cafka_delivery_report r;
    assert_ptr_equal(producer, f->producer);
    assert_string_equal(cafka_delivery_topic(delivery),
                        f->cluster.topic_count ? first_topic(f)->name : "gone");
    f->batches_reported++;
    while (!cafka_delivery_next(delivery, &r)) {
        intptr_t number = (intptr_t)r.opaque;
        assert_in_range(number, 0, LOG_MAX - 1);
        f->reported[number]++;
        f->offsets[number] = r.offset;
        if (r.code) {
            assert_non_null(r.error);
            assert_true(r.error->message[0]);
            f->last_error = *r.error;
            if (number < 16)
                f->errors[number] = *r.error;
            f->failed++;
        } else {
            f->delivered++;
        }
    }
    if (f->in_callback)
        f->in_callback(f);
}

static void print_log(void *user, int level, const char *area, const char *message)
{
    struct producer_fixture *f = user;
    printf("%8lld ms  %d %s: %s\n", (long long)env_now_ms(f->cluster.env), level, area, message);
}

static inline void set(struct producer_fixture *f, const char *name, const char *value)
{
    cafka_error err;
    if (cafka_config_set(f->config, name, value, &err))
        fail_msg("%s", err.message);
}

static inline struct producer_fixture *open_world(uint64_t seed, int partitions)
{
    struct producer_fixture *f = calloc(1, sizeof *f);
    cafka_error err;
    char bootstrap[256];
    assert_int_equal(sim_new(&f->sim, seed, &err), 0);
    assert_int_equal(loop_new(&f->loop, sim_env_for(f->sim, "brokers"), LOOP_BACKGROUND, &err), 0);
    script_open(&f->cluster, f->loop, BROKERS);
    script_bootstrap(&f->cluster, BROKERS, bootstrap, sizeof bootstrap);
    script_topic_add(&f->cluster, "orders", partitions);
    f->cluster.handler = serve;
    f->cluster.user = f;

    assert_int_equal(cafka_config_new(&f->config, &err), 0);
    cafka_config_set_env(f->config, sim_env(f->sim));
    cafka_config_on_delivery(f->config, hear_delivery, f);
    if (getenv("CAFKA_TEST_LOG"))
        cafka_config_set_log(f->config, print_log, f, CAFKA_LOG_TRACE);
    else
        cafka_config_set_log(f->config, NULL, NULL, CAFKA_LOG_OFF);
    set(f, "bootstrap.servers", bootstrap);
    return f;
}

static inline void start(struct producer_fixture *f)
{
    cafka_error err;
    if (cafka_producer_new(&f->producer, f->config, &err))
        fail_msg("%s", err.message);
}

static inline void close_world(struct producer_fixture *f)
{
    cafka_producer_free(f->producer);
    script_close(&f->cluster);
    loop_unref(f->loop);
    sim_free(f->sim);
    cafka_config_free(f->config);
    free(f);
}

/* --- sending and looking --- */

/* The next record: its number in 4 bytes, and filling. */
static inline int try_record(struct producer_fixture *f, int32_t partition, size_t size,
                             cafka_error *err)
{
    static uint8_t value[2 << 20];
    store_be32(value, (uint32_t)f->next);
    memset(value + 4, 'a' + f->next % 26, size > 4 ? size - 4 : 0);
    cafka_record record = {.topic = "orders",
                           .value = value,
                           .value_size = size,
                           .opaque = (void *)(intptr_t)f->next};
    if (partition >= 0) {
        record.partition = partition;
        record.flags = CAFKA_RECORD_PARTITION;
    }
    int rc = cafka_producer_send(f->producer, &record, err);
    if (!rc)
        f->next++;
    return rc;
}

static inline void send_sized(struct producer_fixture *f, int count, size_t size)
{
    cafka_error err;
    for (int i = 0; i < count; i++)
        if (try_record(f, 0, size, &err))
            fail_msg("%s", err.message);
}

static inline void send_records(struct producer_fixture *f, int count)
{
    send_sized(f, count, 100);
}

static inline void flush(struct producer_fixture *f)
{
    cafka_error err;
    if (cafka_producer_flush(f->producer, -1, &err))
        fail_msg("%s", err.message);
}

/* Partition 0 holds the numbers first … last-1, each once, in order, from `at` on. */
static inline void assert_log_is(struct producer_fixture *f, int first, int last)
{
    struct model_log *log = &f->logs[0];
    for (int i = 0; i < log->count && i < last - first; i++)
        if (log->values[i] != first + i)
            fail_msg("offset %d holds record %d instead of %d", i, log->values[i], first + i);
    assert_int_equal(log->count, last - first);
}

static inline void assert_each_reported_once(struct producer_fixture *f)
{
    for (int i = 0; i < f->next; i++)
        if (f->reported[i] != 1)
            fail_msg("record %d was reported %d times", i, f->reported[i]);
    assert_int_equal(f->delivered + f->failed, f->next);
}

#endif
