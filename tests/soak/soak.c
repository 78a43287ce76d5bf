/*
 * soak.c - very many numbered records, written and read back, each one checked; for soak.sh.
 *
 *     soak write|read BOOTSTRAP TOPIC records=N [partitions=P] [rate=PER_SECOND] [property=value]…
 *
 * Record i is 100 bytes that begin with its number and goes to partition i mod P, so each partition
 * holds rising numbers at offsets from 0 on, without gap. The writer says `half` when half of the
 * records are acknowledged. The reader looks at every number, offset and byte: what is lost, doubled,
 * out of order or changed is a mistake. Both say once a second `sample SECONDS RECORDS ANON_KB BYTES`:
 * anonymous memory of the process, and what the library itself counts as its own (cafka/memory.h).
 * The last line is `wrote N acknowledged N failed N` or `read N mistakes N`; exit status 0 if all is well.
 */
#include "config.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cafka.h>

enum {
    VALUE_SIZE = 100,
    NUMBER_SIZE = 14,
    CLOSE_MS = 600000,
    LOOKUP_MS = 60000,
    MISTAKES_TOLD = 20
};

struct soak {
    cafka_config *config;
    const char *topic;
    int64_t records, partitions, rate;
    int64_t began_ns, next_sample_ns;
    atomic_llong acknowledged, failed; /* the delivery function counts on the loop's thread */
    int64_t done, mistakes;            /* of the reader */
};

static int complain(const cafka_error *err)
{
    fprintf(stderr, "soak: %s (%s)\n", err->message, cafka_error_name(err->code));
    return 1;
}

/* --- samples --- */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static long anonymous_kb(void)
{
    char line[200];
    long kb = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "RssAnon:", 8))
            kb = strtol(line + 8, NULL, 10);
    if (status)
        fclose(status);
    return kb;
}

/* What glibc holds for malloc() and friends: taken by the program, free in between, and mapped alone. */
static void print_heap(void)
{
#ifdef __GLIBC__
    struct mallinfo2 heap = mallinfo2();
    printf(" heap-used=%zu heap-free=%zu heap-mapped=%zu", heap.uordblks, heap.fordblks,
           heap.hblkhd);
#endif
}

static void sample(struct soak *soak, int64_t records)
{
    int64_t now = now_ns(), bytes = 0;
    if (now < soak->next_sample_ns)
        return;
    soak->next_sample_ns = now + 1000000000;
    cafka_memory_use use = {.size = sizeof use};
    for (size_t i = 0; !cafka_memory_stats(i, &use); i++)
        bytes += use.bytes;
    printf("sample %.1f %" PRId64 " %ld %" PRId64, (double)(now - soak->began_ns) / 1e9, records,
           anonymous_kb(), bytes);
    for (size_t i = 0; !cafka_memory_stats(i, &use); i++)
        if (use.bytes)
            printf(" %s=%" PRId64 "/%" PRId64, use.name, use.bytes, use.blocks);
    print_heap();
    printf("\n");
    fflush(stdout);
}

/* --- one record --- */

/* 13 digits, a blank, and letters that follow from the number. */
static void make_value(char value[VALUE_SIZE], int64_t number)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
                                  "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    int64_t rest = number;
    for (int i = NUMBER_SIZE - 2; i >= 0; i--, rest /= 10)
        value[i] = (char)('0' + rest % 10);
    value[NUMBER_SIZE - 1] = ' ';
    memcpy(value + NUMBER_SIZE, letters + number * 31 % 17, VALUE_SIZE - NUMBER_SIZE);
}

/* --- writing --- */

static void delivered(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct soak *soak = user;
    const cafka_error *error = cafka_delivery_error(delivery);
    long long count = (long long)cafka_delivery_count(delivery);
    (void)producer;
    if (error) {
        if (!atomic_fetch_add(&soak->failed, count))
            complain(error);
        return;
    }
    long long before = atomic_fetch_add(&soak->acknowledged, count);
    if (before < soak->records / 2 && before + count >= soak->records / 2) {
        printf("half\n");
        fflush(stdout);
    }
}

/* With a rate: until it is time for record i. */
static void keep_pace(const struct soak *soak, int64_t i)
{
    int64_t due = soak->began_ns + (int64_t)((double)i * 1e9 / (double)soak->rate);
    struct timespec when = {due / 1000000000, due % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

static int write_all(struct soak *soak, cafka_producer *producer, cafka_error *err)
{
    char value[VALUE_SIZE];
    int rc = CAFKA_OK;
    for (int64_t i = 0; !rc && i < soak->records; i++) {
        if (soak->rate && i % 64 == 0)
            keep_pace(soak, i);
        make_value(value, i);
        cafka_record record = {.topic = soak->topic,
                               .value = value,
                               .value_size = VALUE_SIZE,
                               .partition = (int32_t)(i % soak->partitions),
                               .flags = CAFKA_RECORD_PARTITION};
        do /* the broker may be away for longer than one call waits */
            rc = cafka_producer_send(producer, &record, err);
        while (rc == CAFKA_ERR_TIMEOUT);
        if (i % 1024 == 0)
            sample(soak, i);
    }
    return rc;
}

static int do_write(struct soak *soak, cafka_error *err)
{
    cafka_producer *producer;
    cafka_config_on_delivery(soak->config, delivered, soak);
    if (cafka_producer_new(&producer, soak->config, err))
        return complain(err);
    int rc = write_all(soak, producer, err);
    if (rc)
        complain(err);
    if (cafka_producer_close(producer, CLOSE_MS, err))
        rc = complain(err);
    cafka_producer_free(producer);
    long long acknowledged = atomic_load(&soak->acknowledged);
    printf("wrote %" PRId64 " acknowledged %lld failed %lld\n", soak->records, acknowledged,
           (long long)atomic_load(&soak->failed));
    return rc || acknowledged != soak->records;
}

/* --- reading --- */

static void mistake(struct soak *soak, const cafka_record_view *r, const char *what)
{
    if (soak->mistakes++ < MISTAKES_TOLD)
        fprintf(stderr, "soak: partition %d offset %" PRId64 ": %s: %.*s\n", (int)r->partition,
                r->offset, what, (int)(r->value ? r->value_size : 0),
                r->value ? (const char *)r->value : "");
}

/* next[p]: the offset that partition p has to go on with. */
static void check(struct soak *soak, const cafka_record_view *r, int64_t *next)
{
    char expected[VALUE_SIZE];
    if (r->partition < 0 || r->partition >= soak->partitions) {
        mistake(soak, r, "no such partition");
        return;
    }
    int64_t *offset = &next[r->partition];
    if (r->offset != *offset)
        mistake(soak, r, r->offset < *offset ? "an offset that was there" : "offsets are missing");
    make_value(expected, r->offset * soak->partitions + r->partition);
    if (!r->value || r->value_size != VALUE_SIZE || memcmp(expected, r->value, VALUE_SIZE) != 0)
        mistake(soak, r, "not the record that belongs there");
    *offset = r->offset + 1;
}

static int assign_all(const struct soak *soak, cafka_consumer *consumer, cafka_error *err)
{
    int rc = CAFKA_OK;
    for (int32_t p = 0; !rc && p < soak->partitions; p++) {
        cafka_position at = {.topic = soak->topic,
                             .partition = p,
                             .flags = CAFKA_POSITION_OFFSET,
                             .offset = CAFKA_OFFSET_BEGINNING};
        rc = cafka_consumer_assign_add(consumer, &at, 1, err);
    }
    return rc;
}

static int read_all(struct soak *soak, cafka_consumer *consumer, int64_t *next, cafka_error *err)
{
    int rc = assign_all(soak, consumer, err);
    while (!rc && soak->done < soak->records) {
        cafka_fetch *fetch = NULL;
        cafka_record_view record;
        rc = cafka_consumer_poll(consumer, 1000, &fetch, err);
        while (!rc && !(rc = cafka_fetch_next(fetch, &record, err))) {
            check(soak, &record, next);
            soak->done++;
        }
        rc = rc == CAFKA_END ? CAFKA_OK : rc;
        cafka_fetch_free(fetch);
        sample(soak, soak->done);
    }
    return rc;
}

static int do_read(struct soak *soak, cafka_error *err)
{
    cafka_consumer *consumer;
    int64_t *next = calloc((size_t)soak->partitions, sizeof *next);
    if (!next || cafka_consumer_new(&consumer, soak->config, err)) {
        free(next);
        return complain(err);
    }
    int rc = read_all(soak, consumer, next, err);
    if (rc)
        complain(err);
    cafka_consumer_close(consumer, 10000, NULL);
    cafka_consumer_free(consumer);
    free(next);
    printf("read %" PRId64 " mistakes %" PRId64 "\n", soak->done, soak->mistakes);
    return rc || soak->mistakes || soak->done != soak->records;
}

/* --- */

/* name=value: a number of ours, or a property of the client. */
static int take(struct soak *soak, char *word, cafka_error *err)
{
    struct {
        const char *name;
        int64_t *number;
    } ours[] = {{"records", &soak->records},
                {"partitions", &soak->partitions},
                {"rate", &soak->rate}};
    char *equals = strchr(word, '=');
    if (!equals)
        return cafka_config_set(soak->config, word, "", err);
    *equals++ = '\0';
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strcmp(word, ours[i].name)) {
            *ours[i].number = strtoll(equals, NULL, 10);
            return CAFKA_OK;
        }
    return cafka_config_set(soak->config, word, equals, err);
}

int main(int argc, char **argv)
{
    struct soak soak = {.partitions = 1};
    cafka_error err = {0};
    bool writes = argc > 1 && !strcmp(argv[1], "write");
    if (argc < 5 || (!writes && strcmp(argv[1], "read") != 0)) {
        fprintf(stderr, "usage: soak write|read BOOTSTRAP TOPIC records=N [partitions=P] [rate=R] "
                        "[property=value]...\n");
        return 2;
    }
    soak.topic = argv[3];
    if (cafka_config_new(&soak.config, &err) ||
        cafka_config_set(soak.config, "bootstrap.servers", argv[2], &err))
        return complain(&err);
    for (int i = 4; i < argc; i++)
        if (take(&soak, argv[i], &err))
            return complain(&err);
    soak.began_ns = now_ns();
    int status = writes ? do_write(&soak, &err) : do_read(&soak, &err);
    cafka_config_free(soak.config);
    return status;
}
