/*
 * idle.c - what a client costs that has very many partitions and nothing to do.
 *
 *     idle produce|consume BOOTSTRAP TOPIC PARTITIONS SECONDS
 *
 * A producer sends one record to each partition, a few at a time; a consumer takes all partitions at
 * their end. Once nothing moves any more, memory and CPU time are looked at for SECONDS. Compiled with
 * -DPEER it is librdkafka that does the same. The last line is
 *     bench mode=idle-… partitions=N heap_kb=K anon_kb=K own_kb=K cpu_us_per_s=U
 * with the heap in use (mallinfo2) and the anonymous memory that the process has more than before the
 * client was made, and what the library counts itself (0 for the peer). The second also holds what the
 * client needed for a moment while it learnt of all the partitions, and gave back to malloc.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIMEOUT_MS = 60000, SETTLE_S = 3, AT_ONCE = 20 };

struct job {
    const char *bootstrap, *topic;
    int partitions, seconds;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "idle: %s: %s\n", what, why);
    exit(1);
}

/* --- measuring --- */

static int64_t read_clock(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static long anonymous_kb(void)
{
    char line[200];
    long kb = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "RssAnon:", 8))
            kb = strtol(line + 8, NULL, 10);
    if (status)
        fclose(status);
    return kb;
}

static long heap_kb(void)
{
    struct mallinfo2 info = mallinfo2();
    return (long)((info.uordblks + info.hblkhd) / 1024);
}

static long before_kb, heap_before_kb;
static int64_t began_ns, began_cpu_ns;

static void begin(void)
{
    began_ns = read_clock(CLOCK_MONOTONIC);
    began_cpu_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

static int has_passed(int seconds)
{
    return read_clock(CLOCK_MONOTONIC) - began_ns >= (int64_t)seconds * 1000000000;
}

static void result(const struct job *job, const char *mode, long own_kb)
{
    double cpu_us = (double)(read_clock(CLOCK_PROCESS_CPUTIME_ID) - began_cpu_ns) / 1e3;
    double wall_s = (double)(read_clock(CLOCK_MONOTONIC) - began_ns) / 1e9;
    printf("bench mode=idle-%s partitions=%d heap_kb=%ld anon_kb=%ld own_kb=%ld cpu_us_per_s=%.1f\n",
           mode, job->partitions, heap_kb() - heap_before_kb, anonymous_kb() - before_kb, own_kb,
           cpu_us / wall_s);
}

static void rest(int seconds)
{
    struct timespec time = {seconds, 0};
    nanosleep(&time, NULL);
}

#ifdef PEER

#include <librdkafka/rdkafka.h>

static rd_kafka_t *open_peer(const struct job *job, rd_kafka_type_t type)
{
    char why[512];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (rd_kafka_conf_set(conf, "bootstrap.servers", job->bootstrap, why, sizeof why) ||
        (type == RD_KAFKA_CONSUMER && rd_kafka_conf_set(conf, "group.id", "idle", why, sizeof why)))
        fail("configuration", why);
    rd_kafka_t *kafka = rd_kafka_new(type, conf, why, sizeof why);
    if (!kafka)
        fail("a client", why);
    return kafka;
}

static void produce(const struct job *job)
{
    rd_kafka_t *kafka = open_peer(job, RD_KAFKA_PRODUCER);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(kafka, job->topic, NULL);
    for (int p = 0; p < job->partitions; p++) {
        if (rd_kafka_produce(topic, p, RD_KAFKA_MSG_F_COPY, "idle", 4, NULL, 0, NULL))
            fail("produce", rd_kafka_err2str(rd_kafka_last_error()));
        if ((p % AT_ONCE == 0 || p == job->partitions - 1) && rd_kafka_flush(kafka, TIMEOUT_MS))
            fail("flush", "not all was delivered");
    }
    rest(SETTLE_S);
    begin();
    rest(job->seconds);
    result(job, "produce", 0);
    rd_kafka_topic_destroy(topic);
    rd_kafka_destroy(kafka);
}

static void consume(const struct job *job)
{
    rd_kafka_t *kafka = open_peer(job, RD_KAFKA_CONSUMER);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(job->partitions);
    for (int p = 0; p < job->partitions; p++)
        rd_kafka_topic_partition_list_add(all, job->topic, p)->offset = RD_KAFKA_OFFSET_END;
    rd_kafka_resp_err_t rc = rd_kafka_assign(kafka, all);
    if (rc)
        fail("assign", rd_kafka_err2str(rc));
    rd_kafka_topic_partition_list_destroy(all);
    begin();
    while (!has_passed(2 * SETTLE_S + SETTLE_S))
        rd_kafka_consumer_poll(kafka, 1000);
    begin();
    while (!has_passed(job->seconds))
        rd_kafka_consumer_poll(kafka, 1000);
    result(job, "consume", 0);
    rd_kafka_destroy(kafka);
}

#else

#include <cafka.h>

static void check(int rc, const char *what, const cafka_error *err)
{
    if (rc)
        fail(what, err->message);
}

static long own_kb(void)
{
    int64_t bytes = 0;
    cafka_memory_use use = {.size = sizeof use};
    for (size_t i = 0; !cafka_memory_stats(i, &use); i++)
        bytes += use.bytes;
    return (long)(bytes / 1024);
}

static cafka_config *configure(const struct job *job)
{
    cafka_config *config;
    cafka_error err;
    check(cafka_config_new(&config, &err), "configuration", &err);
    check(cafka_config_set(config, "bootstrap.servers", job->bootstrap, &err), "configuration",
          &err);
    return config;
}

static void produce(const struct job *job)
{
    cafka_config *config = configure(job);
    cafka_producer *producer;
    cafka_error err;
    check(cafka_producer_new(&producer, config, &err), "a producer", &err);
    for (int p = 0; p < job->partitions; p++) {
        cafka_record record = {.topic = job->topic,
                               .value = "idle",
                               .value_size = 4,
                               .partition = p,
                               .flags = CAFKA_RECORD_PARTITION};
        check(cafka_producer_send(producer, &record, &err), "send", &err);
        if (p % AT_ONCE == 0 || p == job->partitions - 1)
            check(cafka_producer_flush(producer, TIMEOUT_MS, &err), "flush", &err);
    }
    rest(SETTLE_S);
    begin();
    rest(job->seconds);
    result(job, "produce", own_kb());
    cafka_producer_free(producer);
    cafka_config_free(config);
}

static void poll_for(cafka_consumer *consumer, int seconds)
{
    begin();
    while (!has_passed(seconds)) {
        cafka_fetch *fetch;
        cafka_error err;
        check(cafka_consumer_poll(consumer, 1000, &fetch, &err), "poll", &err);
        cafka_fetch_free(fetch);
    }
}

static void consume(const struct job *job)
{
    cafka_config *config = configure(job);
    cafka_consumer *consumer;
    cafka_error err;
    cafka_position *all = calloc((size_t)job->partitions, sizeof *all);
    check(!all || cafka_consumer_new(&consumer, config, &err), "a consumer", &err);
    for (int p = 0; p < job->partitions; p++)
        all[p] = (cafka_position){.topic = job->topic,
                                  .partition = p,
                                  .flags = CAFKA_POSITION_OFFSET,
                                  .offset = CAFKA_OFFSET_END};
    check(cafka_consumer_assign(consumer, all, (size_t)job->partitions, &err), "assign", &err);
    free(all);
    poll_for(consumer, 3 * SETTLE_S);
    for (int p = 0; p < job->partitions; p++) {
        int64_t offset;
        check(cafka_consumer_position(consumer, job->topic, p, TIMEOUT_MS, &offset, &err),
              "position", &err);
    }
    poll_for(consumer, job->seconds);
    result(job, "consume", own_kb());
    cafka_consumer_free(consumer);
    cafka_config_free(config);
}

#endif

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: idle produce|consume BOOTSTRAP TOPIC PARTITIONS SECONDS\n");
        return 2;
    }
    struct job job = {argv[2], argv[3], atoi(argv[4]), atoi(argv[5])};
    mallopt(M_ARENA_MAX, 1); /* mallinfo2 tells of one arena */
    before_kb = anonymous_kb();
    heap_before_kb = heap_kb();
    if (!strcmp(argv[1], "produce"))
        produce(&job);
    else
        consume(&job);
    return 0;
}
