/*
 * peer_rdkafka.c - what `cafka bench` does, done with librdkafka, for comparison in one run.
 *
 *     peer_rdkafka produce|consume -b HOST:PORT -t TOPIC -n RECORDS [-s BYTES] [--rate RECORDS_PER_SECOND]
 *                  [--latency] [-X property=value]…
 *
 * The cheapest way that librdkafka offers: rd_kafka_produce() to a topic object with a delivery
 * callback, and rd_kafka_consume_batch_queue(). Its own defaults but for linger.ms=5, acks=all,
 * enable.idempotence=true and check.crcs=true. Built by compare.sh, not by make.
 */
#include <errno.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { POLL_EVERY = 100, BATCH = 1000, TIMEOUT_MS = 30000, ERROR_SIZE = 512 };

struct job {
    rd_kafka_conf_t *conf;
    const char *mode, *topic;
    int64_t records, value_bytes, rate;
    bool latency;
    atomic_llong delivered, failed;
    uint32_t *latencies_us;
    int64_t began_ns, began_cpu_ns;
    uint64_t bytes;
    rd_kafka_t *kafka;
    atomic_bool done;
};

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "peer_rdkafka: %s: %s\n", what, why);
    exit(1);
}

static void set(struct job *job, const char *name, const char *value)
{
    char why[ERROR_SIZE];
    if (rd_kafka_conf_set(job->conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        fail(name, why);
}

/* --- options --- */

static void set_property(struct job *job, const char *text)
{
    char name[128];
    const char *equals = strchr(text, '=');
    if (!equals || (size_t)(equals - text) >= sizeof name)
        fail(text, "is not property=value");
    memcpy(name, text, (size_t)(equals - text));
    name[equals - text] = 0;
    set(job, name, equals + 1);
}

static void parse(struct job *job, int argc, char **argv)
{
    job->mode = argc > 1 ? argv[1] : "";
    for (int i = 2; i < argc; i++) {
        const char *option = argv[i];
        if (!strcmp(option, "--latency")) {
            job->latency = true;
            continue;
        }
        if (++i >= argc)
            fail(option, "needs a value");
        if (!strcmp(option, "-b"))
            set(job, "bootstrap.servers", argv[i]);
        else if (!strcmp(option, "-t"))
            job->topic = argv[i];
        else if (!strcmp(option, "-n"))
            job->records = strtoll(argv[i], NULL, 10);
        else if (!strcmp(option, "-s"))
            job->value_bytes = strtoll(argv[i], NULL, 10);
        else if (!strcmp(option, "--rate"))
            job->rate = strtoll(argv[i], NULL, 10);
        else if (!strcmp(option, "-X"))
            set_property(job, argv[i]);
        else
            fail(option, "is no option");
    }
    if (!job->topic || job->records < 1)
        fail("usage", "peer_rdkafka produce|consume -b HOST:PORT -t TOPIC -n RECORDS …");
}

/* --- the result, as cafka bench prints it --- */

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void begin(struct job *job)
{
    job->began_ns = read_clock(CLOCK_MONOTONIC);
    job->began_cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static void print_result(struct job *job, int64_t records)
{
    double wall_s = (double)(read_clock(CLOCK_MONOTONIC) - job->began_ns) / 1e9;
    double cpu_s = (double)(read_clock(CLOCK_PROCESS_CPUTIME_ID) - job->began_cpu_ns) / 1e9;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("bench mode=%s records=%" PRId64 " bytes=%" PRIu64 " wall_s=%.3f cpu_s=%.3f "
           "ns_cpu_per_record=%.1f records_per_s=%.0f MBps=%.1f maxrss_kb=%ld",
           job->mode, records, job->bytes, wall_s, cpu_s, cpu_s * 1e9 / (double)records,
           (double)records / wall_s, (double)job->bytes / wall_s / 1e6, usage.ru_maxrss);
    if (job->latencies_us) {
        qsort(job->latencies_us, (size_t)records, sizeof *job->latencies_us, by_value);
        printf(" p50_us=%u p99_us=%u", job->latencies_us[records / 2],
               job->latencies_us[records - 1 - records / 100]);
    }
    printf("\n");
}

/* --- produce --- */

static int64_t since_begin_us(const struct job *job)
{
    return (read_clock(CLOCK_MONOTONIC) - job->began_ns) / 1000;
}

static void delivered(rd_kafka_t *kafka, const rd_kafka_message_t *message, void *opaque)
{
    (void)kafka;
    struct job *job = opaque;
    if (message->err) {
        if (!atomic_fetch_add(&job->failed, 1))
            fprintf(stderr, "peer_rdkafka: %s\n", rd_kafka_err2str(message->err));
        return;
    }
    long long at = atomic_fetch_add(&job->delivered, 1);
    if (job->latencies_us)
        job->latencies_us[at] =
            (uint32_t)(since_begin_us(job) - (int64_t)(uintptr_t)message->_private);
}

/* As cafka bench does: what the waiting itself costs is not counted. */
static void keep_pace(struct job *job, int64_t i)
{
    int64_t due = job->began_ns + (int64_t)((double)i * 1e9 / (double)job->rate);
    struct timespec when = {due / 1000000000, due % 1000000000};
    if (read_clock(CLOCK_MONOTONIC) >= due)
        return;
    int64_t before_ns = read_clock(CLOCK_THREAD_CPUTIME_ID);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
    job->began_cpu_ns += read_clock(CLOCK_THREAD_CPUTIME_ID) - before_ns;
}

/* At a given rate reports are served at once, by a thread that waits for them. */
static void *serve_reports(void *arg)
{
    struct job *job = arg;
    while (!atomic_load(&job->done))
        rd_kafka_poll(job->kafka, 100);
    return NULL;
}

static void send_all(struct job *job, rd_kafka_topic_t *topic)
{
    char *value = malloc((size_t)job->value_bytes + 1);
    for (int64_t i = 0; i < job->value_bytes; i++)
        value[i] = (char)('a' + i % 26);
    for (int64_t i = 0; i < job->records; i++) {
        void *opaque = NULL;
        if (job->rate)
            keep_pace(job, i);
        else if (i % POLL_EVERY == 0)
            rd_kafka_poll(job->kafka, 0);
        if (job->latency)
            opaque = (void *)(uintptr_t)since_begin_us(job);
        while (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, value,
                                (size_t)job->value_bytes, NULL, 0, opaque)) {
            if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
                fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
            rd_kafka_poll(job->kafka, 10);
        }
    }
    free(value);
}

static void produce(struct job *job)
{
    char why[ERROR_SIZE];
    const struct rd_kafka_metadata *metadata;
    pthread_t server;
    rd_kafka_conf_set_dr_msg_cb(job->conf, delivered);
    rd_kafka_conf_set_opaque(job->conf, job);
    if (!(job->kafka = rd_kafka_new(RD_KAFKA_PRODUCER, job->conf, why, sizeof why)))
        fail("a producer", why);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(job->kafka, job->topic, NULL);
    if (!topic || rd_kafka_metadata(job->kafka, 0, topic, &metadata, TIMEOUT_MS))
        fail(job->topic, "no metadata");
    rd_kafka_metadata_destroy(metadata);
    begin(job);
    if (job->rate && pthread_create(&server, NULL, serve_reports, job))
        fail("a thread", strerror(errno));
    send_all(job, topic);
    if (rd_kafka_flush(job->kafka, -1))
        fail("flush", "not all was delivered");
    int64_t done = atomic_load(&job->delivered);
    job->bytes = (uint64_t)(done * job->value_bytes);
    print_result(job, done);
    atomic_store(&job->done, true);
    if (job->rate)
        pthread_join(server, NULL);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(job->kafka);
}

/* --- consume --- */

static int32_t partition_count(struct job *job, rd_kafka_topic_t *topic)
{
    const struct rd_kafka_metadata *metadata;
    if (rd_kafka_metadata(job->kafka, 0, topic, &metadata, TIMEOUT_MS))
        fail(job->topic, "no metadata");
    int32_t count = metadata->topics[0].partition_cnt;
    rd_kafka_metadata_destroy(metadata);
    return count;
}

static int64_t receive_all(struct job *job, rd_kafka_queue_t *queue)
{
    static rd_kafka_message_t *messages[BATCH];
    int64_t received = 0;
    while (received < job->records) {
        int64_t left = job->records - received;
        ssize_t count = rd_kafka_consume_batch_queue(queue, 1000, messages,
                                                     left < BATCH ? (size_t)left : BATCH);
        for (ssize_t i = 0; i < count; i++) {
            if (messages[i]->err)
                fail("consume", rd_kafka_message_errstr(messages[i]));
            job->bytes += messages[i]->len;
            received++;
            rd_kafka_message_destroy(messages[i]);
        }
    }
    return received;
}

static void consume(struct job *job)
{
    char why[ERROR_SIZE];
    if (!(job->kafka = rd_kafka_new(RD_KAFKA_CONSUMER, job->conf, why, sizeof why)))
        fail("a consumer", why);
    begin(job);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(job->kafka, job->topic, NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(job->kafka);
    int32_t partitions = partition_count(job, topic);
    for (int32_t p = 0; p < partitions; p++)
        if (rd_kafka_consume_start_queue(topic, p, RD_KAFKA_OFFSET_BEGINNING, queue))
            fail("consume", rd_kafka_err2str(rd_kafka_last_error()));
    print_result(job, receive_all(job, queue));
    for (int32_t p = 0; p < partitions; p++)
        rd_kafka_consume_stop(topic, p);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(job->kafka);
}

int main(int argc, char **argv)
{
    struct job job = {.conf = rd_kafka_conf_new(), .value_bytes = 100};
    bool producing = argc > 1 && !strcmp(argv[1], "produce");
    if (producing) {
        set(&job, "linger.ms", "5");
        set(&job, "acks", "all");
        set(&job, "enable.idempotence", "true");
    } else {
        set(&job, "check.crcs", "true");
    }
    parse(&job, argc, argv);
    if (job.latency && producing)
        job.latencies_us = calloc((size_t)job.records, sizeof *job.latencies_us);
    if (producing)
        produce(&job);
    else
        consume(&job);
    free(job.latencies_us);
    return atomic_load(&job.failed) ? 1 : 0;
}
