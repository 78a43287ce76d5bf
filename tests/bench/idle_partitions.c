/*
 * idle_partitions.c - what assigned partitions without traffic cost a consumer: heap bytes, and CPU
 * time of an idle minute (or SECONDS).
 *
 *     idle_partitions BOOTSTRAP TOPIC PARTITIONS [SECONDS]
 *
 * The topic must exist and be empty. mallinfo2() tells what is in use; the first figure is taken
 * with a consumer that reads one partition, so connections and their buffers are not counted.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cafka.h>

static int die(const char *what, const cafka_error *err)
{
    fprintf(stderr, "idle_partitions: %s: %s\n", what, err->message);
    return 1;
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* With one arena (main()) this is what all threads have in use. */
static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static int idle(cafka_consumer *consumer, int64_t seconds, cafka_error *err)
{
    cafka_fetch *fetch;
    for (int64_t i = 0; i < seconds; i++) {
        int rc = cafka_consumer_poll(consumer, 1000, &fetch, err);
        if (rc)
            return rc;
        cafka_fetch_free(fetch);
    }
    return CAFKA_OK;
}

int main(int argc, char **argv)
{
    cafka_consumer *consumer;
    cafka_error err = {0};
    char properties[512];
    if (argc < 4) {
        fprintf(stderr, "usage: idle_partitions BOOTSTRAP TOPIC PARTITIONS [SECONDS]\n");
        return 2;
    }
    mallopt(M_ARENA_MAX, 1);
    int partitions = atoi(argv[3]);
    int64_t seconds = argc > 4 ? atoll(argv[4]) : 60;
    snprintf(properties, sizeof properties, "bootstrap.servers=%s\nauto.offset.reset=earliest",
             argv[1]);
    if (cafka_consumer_open(&consumer, properties, &err))
        return die("open", &err);
    cafka_position *at = calloc((size_t)partitions, sizeof *at);
    if (!at)
        return 1;
    for (int p = 0; p < partitions; p++)
        at[p] = (cafka_position){.topic = argv[2], .partition = p};
    if (cafka_consumer_assign(consumer, at, 1, &err) || idle(consumer, 3, &err))
        return die("one partition", &err);
    size_t before = heap_bytes();
    if (cafka_consumer_assign(consumer, at, (size_t)partitions, &err) || idle(consumer, 5, &err))
        return die("all partitions", &err);
    size_t after = heap_bytes();
    double cpu = cpu_seconds();
    if (idle(consumer, seconds, &err))
        return die("idle", &err);
    printf("idle partitions=%d heap_kb=%zu bytes_per_partition=%.0f cpu_ms_per_s=%.3f\n",
           partitions, (after - before) / 1024, (double)(after - before) / partitions,
           (cpu_seconds() - cpu) * 1000 / (double)seconds);
    free(at);
    if (cafka_consumer_close(consumer, 10000, &err))
        return die("close", &err);
    cafka_consumer_free(consumer);
    return 0;
}
