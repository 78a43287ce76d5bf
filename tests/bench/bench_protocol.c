/*
 * bench_protocol.c - nanoseconds of the codec a partition: the messages that large clusters are slow with.
 *
 *     bench_protocol [ROUNDS]
 *
 * One line a measure; the best of five runs, since the machine has other things to do.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "protocol/messages/Fetch.h"
#include "protocol/messages/Metadata.h"
#include "protocol/messages/Produce.h"

enum { TOPICS = 10, PARTITIONS = 100, RUNS = 5 };

static int rounds = 200;
static struct arena made, arena;
static struct encoded out;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void must(int rc, const cafka_error *err)
{
    if (rc) {
        fprintf(stderr, "%s\n", err->message);
        exit(1);
    }
}

static void measure(const struct message *m, int version, const void *body)
{
    cafka_error err = {0};
    void *read = arena_alloc(&made, message_struct_size(m));
    double best[2] = {1e18, 1e18};
    for (int run = 0; run < RUNS; run++) {
        double start = now_ns();
        for (int i = 0; i < rounds; i++) {
            encoded_clear(&out);
            must(message_encode(m, version, body, &out, &err), &err);
        }
        double middle = now_ns();
        for (int i = 0; i < rounds; i++) {
            arena_reset(&arena);
            must(message_decode(m, version, bytes_of(out.bytes.data, out.bytes.size), &arena, read,
                                NULL, &err),
                 &err);
        }
        double end = now_ns(), units = (double)rounds * TOPICS * PARTITIONS;
        best[0] = (middle - start) / units < best[0] ? (middle - start) / units : best[0];
        best[1] = (end - middle) / units < best[1] ? (end - middle) / units : best[1];
    }
    printf("%-20s v%-3d encode %7.1f  decode %7.1f ns/partition  (%zu bytes)\n", message_name(m),
           version, best[0], best[1], out.bytes.size);
}

static void *make(size_t count, size_t size)
{
    void *items = arena_calloc(&made, count, size);
    if (!items)
        abort();
    return items;
}

static void fetch_response(int version)
{
    struct fetch_response r;
    fetch_response_init(&r);
    r.responses = make(TOPICS, sizeof *r.responses);
    r.responses_count = TOPICS;
    for (int t = 0; t < TOPICS; t++) {
        struct fetch_response_fetchable_topic_response *topic = &r.responses[t];
        fetch_response_fetchable_topic_response_init(topic);
        topic->topic = str_of("a-topic-of-usual-length");
        topic->partitions = make(PARTITIONS, sizeof *topic->partitions);
        topic->partitions_count = PARTITIONS;
        for (int p = 0; p < PARTITIONS; p++) {
            fetch_response_partition_data_init(&topic->partitions[p]);
            topic->partitions[p].partition_index = p;
            topic->partitions[p].high_watermark = 123456789 + p;
            topic->partitions[p].records = (struct records){(const uint8_t *)"", 0, NULL};
        }
    }
    measure(&fetch_response_message, version, &r);
}

static void produce_request(int version)
{
    struct produce_request r;
    produce_request_init(&r);
    r.topic_data = make(TOPICS, sizeof *r.topic_data);
    r.topic_data_count = TOPICS;
    for (int t = 0; t < TOPICS; t++) {
        struct produce_request_topic_produce_data *topic = &r.topic_data[t];
        produce_request_topic_produce_data_init(topic);
        topic->name = str_of("a-topic-of-usual-length");
        topic->partition_data = make(PARTITIONS, sizeof *topic->partition_data);
        topic->partition_data_count = PARTITIONS;
        for (int p = 0; p < PARTITIONS; p++) {
            topic->partition_data[p].index = p;
            topic->partition_data[p].records = (struct records){NULL, 1000, &out};
        }
    }
    cafka_error err = {0};
    double best = 1e18;
    for (int run = 0; run < RUNS; run++) {
        double start = now_ns();
        for (int i = 0; i < rounds; i++) {
            encoded_clear(&out);
            must(message_encode(&produce_request_message, version, &r, &out, &err), &err);
        }
        double each = (now_ns() - start) / ((double)rounds * TOPICS * PARTITIONS);
        best = each < best ? each : best;
    }
    printf("%-20s v%-3d encode %7.1f ns/partition with a splice each\n", "ProduceRequest", version,
           best);
}

static void metadata_response(int version)
{
    static int32_t replicas[] = {1, 2, 3};
    struct metadata_response r;
    metadata_response_init(&r);
    r.topics = make(TOPICS, sizeof *r.topics);
    r.topics_count = TOPICS;
    for (int t = 0; t < TOPICS; t++) {
        struct metadata_response_topic *topic = &r.topics[t];
        metadata_response_topic_init(topic);
        topic->name = str_of("a-topic-of-usual-length");
        topic->partitions = make(PARTITIONS, sizeof *topic->partitions);
        topic->partitions_count = PARTITIONS;
        for (int p = 0; p < PARTITIONS; p++) {
            metadata_response_partition_init(&topic->partitions[p]);
            topic->partitions[p].partition_index = p;
            topic->partitions[p].replica_nodes = topic->partitions[p].isr_nodes = replicas;
            topic->partitions[p].replica_nodes_count = topic->partitions[p].isr_nodes_count = 3;
        }
    }
    measure(&metadata_response_message, version, &r);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]) > 0 ? atoi(argv[1]) : rounds;
    fetch_response(11);
    fetch_response(17);
    produce_request(8);
    produce_request(12);
    metadata_response(8);
    metadata_response(12);
    arena_fini(&made);
    arena_fini(&arena);
    encoded_fini(&out);
    return 0;
}
