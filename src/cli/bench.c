/*
 * bench.c - `cafka bench`: how fast, and at what cost, records go to a topic and come back.
 *
 * The last line of the output is one measure of the whole run (docs/TESTING.md). CPU time is that
 * of the whole process, client threads included; with --rate, but for waiting for the next record.
 */
#include "config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cafka/consumer.h>
#include <cafka/producer.h>

#include "cli/cli.h"
#include "cli/closer.h"
#include "cli/options.h"

enum { LOOKUP_MS = 30000, CLOSE_MS = 10000 };

struct bench_job {
    cafka_config *config;
    const char *mode, *topic;
    int64_t records, value_bytes, rate;
    bool latency;
    atomic_llong delivered, failed;
    uint32_t *latencies_us; /* of each delivered record, with --latency */
    int64_t began_ns, began_cpu_ns;
    uint64_t bytes;
};

static const char usage[] =
    "usage: cafka bench produce|consume -b HOST:PORT[,…] -t TOPIC -n RECORDS [-s BYTES] [--latency]\n"
    "                   [--rate RECORDS_PER_SECOND] [-X property=value]…\n";

/* GO_ON when the job is complete, else the exit status. */
static int parse(struct bench_job *job, int argc, char **argv)
{
    struct option options[] = {
        {"-b", .property = "bootstrap.servers"},
        {"-t", .text = &job->topic},
        {"-n", .number = &job->records, .least = 1, .most = INT64_C(1) << 40},
        {"-s", .number = &job->value_bytes, .least = 0, .most = 1 << 30},
        {"--latency", .flag = &job->latency},
        {"--rate", .number = &job->rate, .least = 1, .most = 1000000000},
        {"-X", .properties = true},
        {0},
    };
    struct command_line line = {"bench", usage, options, job, job->config};
    int words = options_parse(&line, argc, argv);
    if (words < 0)
        return options_status(words);
    if (words > 1)
        return options_wrong(&line, "bench has one mode, not \"%s\" as well", argv[2]);
    job->mode = words ? argv[1] : "";
    if ((strcmp(job->mode, "produce") != 0 && strcmp(job->mode, "consume") != 0) || !job->topic ||
        !job->records)
        return options_wrong(&line, "bench needs a mode (produce or consume), a topic (-t) and a "
                                    "number of records (-n)");
    return GO_ON;
}

/* --- the result --- */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_result(struct bench_job *job, int64_t records)
{
    double wall_s = (double)(clock_ns() - job->began_ns) / 1e9;
    double cpu_s = (double)(cpu_time_ns() - job->began_cpu_ns) / 1e9;
    printf("bench mode=%s records=%" PRId64 " bytes=%" PRIu64 " wall_s=%.3f cpu_s=%.3f "
           "ns_cpu_per_record=%.1f records_per_s=%.0f MBps=%.1f maxrss_kb=%ld",
           job->mode, records, job->bytes, wall_s, cpu_s,
           records ? cpu_s * 1e9 / (double)records : 0, (double)records / wall_s,
           (double)job->bytes / wall_s / 1e6, max_rss_kb());
    if (job->latencies_us && records) {
        qsort(job->latencies_us, (size_t)records, sizeof *job->latencies_us, by_value);
        printf(" p50_us=%u p99_us=%u", job->latencies_us[records / 2],
               job->latencies_us[records - 1 - records / 100]);
    }
    printf("\n");
}

static void begin(struct bench_job *job)
{
    job->began_ns = clock_ns();
    job->began_cpu_ns = cpu_time_ns();
}

/* --- produce --- */

static void note_latencies(struct bench_job *job, cafka_delivery *delivery, int64_t at)
{
    cafka_delivery_report report;
    int64_t now_us = (clock_ns() - job->began_ns) / 1000;
    while (!cafka_delivery_next(delivery, &report))
        if (!report.code && at < job->records)
            job->latencies_us[at++] = (uint32_t)(now_us - (int64_t)(uintptr_t)report.opaque);
}

static void delivered(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    (void)producer;
    struct bench_job *job = user;
    const cafka_error *error = cafka_delivery_error(delivery);
    long long count = (long long)cafka_delivery_count(delivery);
    if (error) {
        if (!atomic_fetch_add(&job->failed, count))
            complain_error("bench", error);
        return;
    }
    if (job->latencies_us)
        note_latencies(job, delivery, atomic_load(&job->delivered));
    atomic_fetch_add(&job->delivered, count);
}

/* With --rate: until it is time for record i. What the waiting itself costs is not the client's. */
static void keep_pace(struct bench_job *job, int64_t i)
{
    int64_t due = job->began_ns + (int64_t)((double)i * 1e9 / (double)job->rate);
    struct timespec when = {due / 1000000000, due % 1000000000};
    if (clock_ns() >= due)
        return;
    int64_t before_ns = thread_cpu_time_ns();
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
    job->began_cpu_ns += thread_cpu_time_ns() - before_ns;
}

static bool send_all(struct bench_job *job, cafka_producer *producer, cafka_error *err)
{
    cafka_topic *topic;
    char *value = malloc((size_t)job->value_bytes + 1);
    if (!value || cafka_producer_topic(producer, job->topic, &topic, err)) {
        free(value);
        return false;
    }
    for (int64_t i = 0; i < job->value_bytes; i++)
        value[i] = (char)('a' + i % 26);
    cafka_record record = {.topic_handle = topic,
                           .value = value,
                           .value_size = (size_t)job->value_bytes};
    int rc = 0;
    for (int64_t i = 0; !rc && i < job->records && !stop_asked; i++) {
        if (job->rate)
            keep_pace(job, i);
        if (job->latency)
            record.opaque = (void *)(uintptr_t)((clock_ns() - job->began_ns) / 1000);
        rc = cafka_producer_send(producer, &record, err);
    }
    free(value);
    return !rc || (stop_asked && rc == CAFKA_ERR_CLOSED); /* what there is by then is told */
}

static bool bench_produce(struct bench_job *job, cafka_error *err)
{
    cafka_producer *producer;
    int32_t partitions;
    cafka_config_on_delivery(job->config, delivered, job);
    if (cafka_producer_new(&producer, job->config, err))
        return false;
    if (!closer_begin(producer)) {
        cafka_producer_free(producer);
        return false;
    }
    bool good = !cafka_producer_partitions(producer, job->topic, LOOKUP_MS, &partitions, err);
    begin(job);
    good = good && send_all(job, producer, err);
    if (cafka_producer_flush(producer, -1, good ? err : NULL))
        good = false;
    int64_t done = atomic_load(&job->delivered);
    job->bytes = (uint64_t)(done * job->value_bytes);
    if (good)
        print_result(job, done);
    cafka_producer_close(producer, CLOSE_MS, NULL);
    closer_end();
    cafka_producer_free(producer);
    return good && !atomic_load(&job->failed) && !stop_asked;
}

/* --- consume --- */

static bool assign_all(struct bench_job *job, cafka_consumer *consumer, cafka_error *err)
{
    int32_t count;
    if (cafka_consumer_partitions(consumer, job->topic, LOOKUP_MS, &count, err))
        return false;
    for (int32_t p = 0; p < count; p++) {
        cafka_position at = {.topic = job->topic,
                             .partition = p,
                             .flags = CAFKA_POSITION_OFFSET,
                             .offset = CAFKA_OFFSET_BEGINNING};
        if (cafka_consumer_assign_add(consumer, &at, 1, err))
            return false;
    }
    return true;
}

static bool receive_all(struct bench_job *job, cafka_consumer *consumer, int64_t *received,
                        cafka_error *err)
{
    while (*received < job->records && !stop_asked) {
        cafka_fetch *fetch;
        cafka_record_view record;
        int rc = cafka_consumer_poll(consumer, 1000, &fetch, err);
        if (rc == CAFKA_ERR_WAKEUP && stop_asked)
            break;
        if (rc)
            return false;
        rc = CAFKA_END;
        while (*received < job->records && !(rc = cafka_fetch_next(fetch, &record, err))) {
            job->bytes += record.value_size;
            ++*received;
        }
        cafka_fetch_free(fetch);
        if (rc && rc != CAFKA_END)
            return false;
    }
    return true;
}

static cafka_consumer *consumer_to_wake;

static void wake_consumer(void)
{
    cafka_consumer_wakeup(consumer_to_wake);
}

static bool bench_consume(struct bench_job *job, cafka_error *err)
{
    cafka_consumer *consumer;
    int64_t received = 0;
    if (cafka_consumer_new(&consumer, job->config, err))
        return false;
    consumer_to_wake = consumer;
    catch_stop_signals(wake_consumer);
    begin(job);
    bool good = assign_all(job, consumer, err) && receive_all(job, consumer, &received, err);
    if (good)
        print_result(job, received);
    cafka_consumer_close(consumer, CLOSE_MS, NULL);
    catch_stop_signals(NULL);
    cafka_consumer_free(consumer);
    return good && received == job->records;
}

/* --- */

static int run(struct bench_job *job)
{
    cafka_error err = {0};
    bool produce = !strcmp(job->mode, "produce");
    if (job->latency && produce &&
        !(job->latencies_us = calloc((size_t)job->records, sizeof(uint32_t)))) {
        complain("no memory for %" PRId64 " latencies", job->records);
        return 1;
    }
    bool good = produce ? bench_produce(job, &err) : bench_consume(job, &err);
    if (stop_asked)
        complain("interrupted");
    else if (!good && err.code)
        complain_error("bench", &err);
    free(job->latencies_us);
    return good ? 0 : err.code == CAFKA_ERR_CONFIG ? EXIT_USAGE : 1;
}

int cli_bench(int argc, char **argv)
{
    struct bench_job job = {.value_bytes = 100};
    cafka_error err = {0};
    if (cafka_config_new(&job.config, &err)) {
        complain_error("bench", &err);
        return 1;
    }
    int status = parse(&job, argc, argv);
    if (status == GO_ON)
        status = run(&job);
    cafka_config_free(job.config);
    return status;
}
