/*
 * keyed_workers.c - work on the records of a topic with several threads, and keep the order of each key.
 *
 *     keyed_workers [BOOTSTRAP [TOPIC [WORKERS]]]
 *
 * One thread polls and gives each record to the worker that its key chooses, so records of one key are
 * worked on one after the other, in the order of the log. Nothing is copied: a worker holds the memory of
 * its records by cafka_record_ref(). A partition is done up to its oldest record that is still with
 * a worker: that, and not where the consumer is, is the position to keep for the next start.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <cafka.h>

enum { WORKERS_MAX = 16, QUEUE_MAX = 64, PARTITIONS_MAX = 256, WAIT_MS = 10000 };

struct job {
    cafka_record_view record;
    cafka_record_memory *memory;
};

static struct worker {
    pthread_t thread;
    struct job queue[QUEUE_MAX]; /* a ring; the one at head is being worked on */
    size_t head, count;
} workers[WORKERS_MAX];

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards the queues, stopping, handed_out */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static size_t worker_count = 4;
static int stopping;
static int64_t handed_out[PARTITIONS_MAX]; /* the offset behind the last record given to a worker */

static void work_on(const cafka_record_view *r)
{
    printf("%.*s %.*s\n", (int)r->key_size, r->key ? (const char *)r->key : "", (int)r->value_size,
           r->value ? (const char *)r->value : "");
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!w->count && !stopping)
            pthread_cond_wait(&changed, &lock);
        if (!w->count)
            break;
        struct job *job = &w->queue[w->head];
        pthread_mutex_unlock(&lock);
        work_on(&job->record);
        cafka_record_unref(job->memory);
        pthread_mutex_lock(&lock);
        w->head = (w->head + 1) % QUEUE_MAX;
        w->count--;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static struct worker *worker_of(const cafka_record_view *r)
{
    uint32_t hash = 2166136261u; /* FNV-1a; any hash will do, if it stays the same */
    for (uint32_t i = 0; i < r->key_size; i++)
        hash = (hash ^ ((const unsigned char *)r->key)[i]) * 16777619u;
    return &workers[hash % worker_count];
}

/* Waits for a worker that has enough to do; a program that must go on polling pauses instead. */
static void give(const cafka_record_view *record)
{
    struct worker *w = worker_of(record);
    pthread_mutex_lock(&lock);
    while (w->count == QUEUE_MAX)
        pthread_cond_wait(&changed, &lock);
    w->queue[(w->head + w->count++) % QUEUE_MAX] = (struct job){*record, cafka_record_ref(record)};
    handed_out[record->partition] = record->offset + 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Every record of the partition below this offset is done. */
static int64_t done_up_to(int32_t partition)
{
    pthread_mutex_lock(&lock);
    int64_t done = handed_out[partition];
    for (size_t i = 0; i < worker_count; i++)
        for (size_t n = 0; n < workers[i].count; n++) {
            const struct job *job = &workers[i].queue[(workers[i].head + n) % QUEUE_MAX];
            if (job->record.partition == partition && job->record.offset < done)
                done = job->record.offset;
        }
    pthread_mutex_unlock(&lock);
    return done;
}

static int read_to_the_end(cafka_consumer *consumer, cafka_error *err)
{
    while (!cafka_consumer_at_end(consumer)) {
        cafka_fetch *fetch;
        cafka_record_view record;
        int rc = cafka_consumer_poll(consumer, 1000, &fetch, err);
        if (rc)
            return rc;
        while (!(rc = cafka_fetch_next(fetch, &record, err)))
            give(&record);
        cafka_fetch_free(fetch); /* the workers' records stay */
        if (rc != CAFKA_END)
            return rc;
    }
    return CAFKA_OK;
}

static int assign_all(cafka_consumer *consumer, const char *topic, int32_t *count, cafka_error *err)
{
    int rc = cafka_consumer_partitions(consumer, topic, WAIT_MS, count, err);
    if (*count > PARTITIONS_MAX)
        *count = PARTITIONS_MAX;
    for (int32_t p = 0; !rc && p < *count; p++) {
        cafka_position at = {.topic = topic, .partition = p};
        rc = cafka_consumer_assign_add(consumer, &at, 1, err);
    }
    return rc;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 2 ? argv[2] : "greetings";
    char properties[300];
    cafka_consumer *consumer;
    cafka_error err;
    int32_t partitions = 0;
    size_t started = 0;

    if (argc > 3 && atoi(argv[3]) > 0 && atoi(argv[3]) <= WORKERS_MAX)
        worker_count = (size_t)atoi(argv[3]);
    snprintf(properties, sizeof properties, "bootstrap.servers=%.200s\nauto.offset.reset=earliest",
             argc > 1 ? argv[1] : "localhost:9092");
    int rc = cafka_consumer_open(&consumer, properties, &err);
    if (rc) {
        fprintf(stderr, "keyed_workers: %s\n", err.message);
        return 1;
    }
    while (started < worker_count &&
           !pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]))
        started++;
    worker_count = started;
    rc = started ? assign_all(consumer, topic, &partitions, &err) : -1;
    if (!rc)
        rc = read_to_the_end(consumer, &err);
    if (rc)
        fprintf(stderr, "keyed_workers: %s\n", started ? err.message : "no thread");

    pthread_mutex_lock(&lock);
    stopping = 1; /* when nothing is left to do */
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    for (int32_t p = 0; p < partitions; p++)
        fprintf(stderr, "%s-%d: done up to %lld\n", topic, (int)p, (long long)done_up_to(p));
    cafka_consumer_close(consumer, WAIT_MS, NULL);
    cafka_consumer_free(consumer);
    return rc != 0;
}
