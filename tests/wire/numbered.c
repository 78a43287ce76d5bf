/*
 * numbered.c - a producer of numbered records that kills its broker; for tests/wire/kill.sh and others.
 *
 *     numbered BOOTSTRAP TOPIC PARTITIONS ACKED [property=value]…
 *
 * A line `COUNT` on stdin sends so many more records; `COUNT AFTER PID [SIGNAL]` does too, and as
 * soon as AFTER of them are acknowledged sends SIGKILL, or the signal of that number, to PID and
 * writes `killed PID`. Record i has the value "i padding" and goes to partition i mod PARTITIONS,
 * so each partition holds rising numbers. Every acknowledged record becomes a line "partition
 * offset i" of the file ACKED. At the end of stdin it waits for the rest and writes `sent S acked A
 * failed F`; exit status 0 if all were acknowledged.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cafka/producer.h>

enum { VALUE_MAX = 400, CLOSE_MS = 120000 };

struct run {
    FILE *acked_file;
    atomic_llong acked, failed;
    atomic_llong kill_at; /* acknowledged records; INT64_MAX: never */
    atomic_int victim, signal;
};

static void strike(struct run *run)
{
    if (atomic_load(&run->acked) < atomic_load(&run->kill_at))
        return;
    atomic_store(&run->kill_at, INT64_MAX);
    int victim = atomic_load(&run->victim);
    kill(victim, atomic_load(&run->signal));
    printf("killed %d\n", victim);
    fflush(stdout);
}

static void delivered(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct run *run = user;
    cafka_delivery_report report;
    (void)producer;
    while (!cafka_delivery_next(delivery, &report)) {
        if (report.code) {
            if (!atomic_fetch_add(&run->failed, 1))
                fprintf(stderr, "numbered: %s\n", report.error->message);
            continue;
        }
        fprintf(run->acked_file, "%d %" PRId64 " %" PRIuPTR "\n", report.partition, report.offset,
                (uintptr_t)report.opaque);
        atomic_fetch_add(&run->acked, 1);
    }
    strike(run);
}

static int send_number(cafka_producer *producer, const char *topic, int64_t number,
                       int32_t partitions, cafka_error *err)
{
    char value[VALUE_MAX];
    int size = snprintf(value, sizeof value, "%" PRId64 " ", number);
    int whole = size + (int)(number * 7919 % (VALUE_MAX - 20 - size));
    memset(value + size, 'a' + (int)(number % 26), (size_t)(whole - size));
    return cafka_producer_send(producer,
                               &(cafka_record){.topic = topic,
                                               .value = value,
                                               .value_size = (size_t)whole,
                                               .opaque = (void *)(uintptr_t)number,
                                               .partition = (int32_t)(number % partitions),
                                               .flags = CAFKA_RECORD_PARTITION},
                               err);
}

/* How many were sent; less than 0: one was refused. */
static int64_t obey(struct run *run, cafka_producer *producer, const char *topic,
                    int32_t partitions, cafka_error *err)
{
    char line[128];
    int64_t sent = 0;
    while (fgets(line, sizeof line, stdin)) {
        long long count, after;
        int victim, number = SIGKILL;
        int words = sscanf(line, "%lld %lld %d %d", &count, &after, &victim, &number);
        if (words >= 3) {
            atomic_store(&run->victim, victim);
            atomic_store(&run->signal, number);
            atomic_store(&run->kill_at, sent + after);
        }
        for (int64_t end = sent + count; sent < end; sent++)
            if (send_number(producer, topic, sent, partitions, err))
                return -1;
    }
    return sent;
}

static int configure(cafka_config *config, const char *bootstrap, char **settings, cafka_error *err)
{
    int rc = cafka_config_set(config, "bootstrap.servers", bootstrap, err);
    for (; !rc && *settings; settings++) {
        char *equals = strchr(*settings, '=');
        if (equals)
            *equals++ = '\0';
        rc = cafka_config_set(config, *settings, equals ? equals : "", err);
    }
    return rc;
}

static int complain(const cafka_error *err)
{
    fprintf(stderr, "numbered: %s (%s)\n", err->message, cafka_error_name(err->code));
    return 1;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: numbered BOOTSTRAP TOPIC PARTITIONS ACKED [property=value]...\n");
        return 2;
    }
    struct run run = {.acked_file = fopen(argv[4], "w"), .kill_at = INT64_MAX};
    cafka_error err = {0};
    cafka_config *config = NULL;
    cafka_producer *producer = NULL;
    if (!run.acked_file) {
        perror(argv[4]);
        return 1;
    }
    if (cafka_config_new(&config, &err) || configure(config, argv[1], argv + 5, &err))
        return complain(&err);
    cafka_config_on_delivery(config, delivered, &run);
    if (cafka_producer_new(&producer, config, &err))
        return complain(&err);
    cafka_config_free(config);

    int64_t sent = obey(&run, producer, argv[2], atoi(argv[3]), &err);
    int rc = cafka_producer_close(producer, CLOSE_MS, sent < 0 ? NULL : &err);
    if (rc || sent < 0)
        complain(&err);
    cafka_producer_free(producer);
    int64_t acked = atomic_load(&run.acked), failed = atomic_load(&run.failed);
    printf("sent %" PRId64 " acked %" PRId64 " failed %" PRId64 "\n", sent, acked, failed);
    return fclose(run.acked_file) || rc || sent < 0 || acked != sent;
}
