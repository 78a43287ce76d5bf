/*
 * bench_append.c - the cost of cafka_producer_send() alone: no broker, no loop, memory for all.
 *
 *     bench_append [RECORDS [BYTES [CASE]]]              nanoseconds a record, page faults of fresh
 *                                                        memory included
 *     valgrind --tool=callgrind --toggle-collect="send_them*" bench_append 100000 100 plain
 *                                                        instructions: divide by the records
 *
 * The brokers are simulated and stand still while records are sent; the clock is the simulated one,
 * so what a timestamp costs in the real world (about 6 ns) comes on top.
 */
#include "unit/producer/producer_fixture.h"

#include <time.h>

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

__attribute__((noinline)) static void send_them(cafka_producer *producer, cafka_topic *topic,
                                                const void *key, size_t key_size, const void *value,
                                                size_t size, long count)
{
    cafka_error err;
    for (long i = 0; i < count; i++) {
        cafka_record record = {.topic_handle = topic,
                               .key = key,
                               .key_size = key_size,
                               .value = value,
                               .value_size = size,
                               .opaque = (void *)(intptr_t)i};
        if (cafka_producer_send(producer, &record, &err)) {
            fprintf(stderr, "%s\n", err.message);
            exit(1);
        }
    }
}

static void count_only(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    (void)producer, (void)delivery, (void)user;
}

static void measure(const char *name, int partitions, bool reports, const char *key, long count,
                    size_t size)
{
    static char value[1 << 16];
    struct producer_fixture *f = open_world(1, partitions);
    cafka_error err;
    cafka_topic *topic;
    int32_t known;
    cafka_config_on_delivery(f->config, reports ? count_only : NULL, NULL);
    set(f, "buffer.memory", "1000000000");
    set(f, "linger.ms", "5");
    start(f);
    if (cafka_producer_topic(f->producer, "orders", &topic, &err) ||
        cafka_producer_partitions(f->producer, "orders", 10000, &known, &err)) {
        fprintf(stderr, "%s\n", err.message);
        exit(1);
    }
    double began = cpu_ns();
    send_them(f->producer, topic, key, key ? strlen(key) : 0, value, size, count);
    printf("bench=append case=%s records=%ld bytes=%zu ns_cpu_per_record=%.1f\n", name, count, size,
           (cpu_ns() - began) / (double)count);
    cafka_producer_free(f->producer);
    f->producer = NULL;
    close_world(f);
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 100000;
    size_t size = argc > 2 ? (size_t)atol(argv[2]) : 100;
    static const struct {
        const char *name;
        int partitions;
        bool reports;
        const char *key;
    } cases[] = {{"plain", 1, false, NULL},
                 {"reports", 1, true, NULL},
                 {"key16", 12, true, "a key of 16 byte"},
                 {"sticky12", 12, true, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (argc < 4 || !strcmp(argv[3], cases[i].name))
            measure(cases[i].name, cases[i].partitions, cases[i].reports, cases[i].key, count, size);
    return 0;
}
