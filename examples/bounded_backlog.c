/*
 * bounded_backlog.c - a consumer in front of something slow: it pauses when enough waits, and goes on.
 *
 *     bounded_backlog [BOOTSTRAP [TOPIC [LIMIT]]]
 *
 * At most LIMIT records wait for the writer, and those of one more poll (max.poll.records). While it is
 * paused the program goes on polling, so that a client in a group would stay in it; what was fetched
 * ahead stays, within fetch.buffer.memory, and the lag says how much is waiting in the cluster.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cafka.h>

enum { LIMIT = 200, ONE_POLL = 100, PARTITIONS_MAX = 256, WAIT_MS = 10000 };

/* Records of our own, oldest first. */
static struct backlog {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    cafka_record_view **records; /* a ring */
    size_t size, head, count, most;
    int ended;
    long written;
} backlog = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *write_slowly(void *unused)
{
    struct backlog *b = &backlog;
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->count && !b->ended)
            pthread_cond_wait(&b->changed, &b->lock);
        if (!b->count)
            break;
        cafka_record_view *record = b->records[b->head];
        pthread_mutex_unlock(&b->lock);
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); /* the slow thing */
        cafka_record_copy_free(record);
        pthread_mutex_lock(&b->lock);
        b->head = (b->head + 1) % b->size;
        b->count--;
        b->written++;
    }
    pthread_mutex_unlock(&b->lock);
    return unused;
}

/* There is room: see read_to_the_end(). */
static int put(const cafka_record_view *record, cafka_error *err)
{
    struct backlog *b = &backlog;
    cafka_record_view *copy;
    int rc = cafka_record_copy(&copy, record, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&b->lock);
    b->records[(b->head + b->count++) % b->size] = copy;
    b->most = b->count > b->most ? b->count : b->most;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return CAFKA_OK;
}

static size_t waiting(void)
{
    pthread_mutex_lock(&backlog.lock);
    size_t count = backlog.count;
    pthread_mutex_unlock(&backlog.lock);
    return count;
}

/* Pause at the limit, resume at half of it. */
static int steer(cafka_consumer *consumer, const cafka_position *all, size_t count, int *paused,
                 cafka_error *err)
{
    size_t limit = backlog.size - ONE_POLL, now = waiting();
    int64_t lag = 0;
    if (*paused ? now > limit / 2 : now < limit)
        return CAFKA_OK;
    int rc = cafka_consumer_lag(consumer, NULL, 0, &lag, err);
    if (!rc)
        rc = *paused ? cafka_consumer_resume(consumer, all, count, err)
                     : cafka_consumer_pause(consumer, all, count, err);
    *paused = !*paused;
    fprintf(stderr, "%s: %zu wait here, at most %lld in a partition\n",
            *paused ? "paused" : "resumed", now, (long long)lag);
    return rc;
}

static int read_to_the_end(cafka_consumer *consumer, const cafka_position *all, size_t count,
                           cafka_error *err)
{
    int paused = 0, rc = CAFKA_OK;
    while (!rc && !cafka_consumer_at_end(consumer)) {
        cafka_fetch *fetch;
        cafka_record_view record;
        rc = cafka_consumer_poll(consumer, paused ? 10 : 1000, &fetch, err);
        while (!rc && !(rc = cafka_fetch_next(fetch, &record, err)))
            rc = put(&record, err);
        if (rc == CAFKA_END)
            rc = steer(consumer, all, count, &paused, err);
        cafka_fetch_free(fetch);
    }
    return rc;
}

static int run(cafka_consumer *consumer, const char *topic, cafka_error *err)
{
    cafka_position all[PARTITIONS_MAX];
    int32_t count;
    int rc = cafka_consumer_partitions(consumer, topic, WAIT_MS, &count, err);
    for (int32_t p = 0; !rc && p < count && p < PARTITIONS_MAX; p++)
        all[p] = (cafka_position){.topic = topic, .partition = p};
    size_t used = !rc && count < PARTITIONS_MAX ? (size_t)count : PARTITIONS_MAX;
    if (!rc)
        rc = cafka_consumer_assign(consumer, all, used, err);
    return rc ? rc : read_to_the_end(consumer, all, used, err);
}

int main(int argc, char **argv)
{
    char properties[300];
    cafka_consumer *consumer;
    cafka_error err;
    pthread_t writer;

    backlog.size = (size_t)(argc > 3 && atoi(argv[3]) > 0 ? atoi(argv[3]) : LIMIT) + ONE_POLL;
    backlog.records = calloc(backlog.size, sizeof *backlog.records);
    snprintf(properties, sizeof properties,
             "bootstrap.servers=%.200s\nauto.offset.reset=earliest\nmax.poll.records=%d",
             argc > 1 ? argv[1] : "localhost:9092", (int)ONE_POLL);
    int rc = cafka_consumer_open(&consumer, properties, &err);
    if (rc || !backlog.records || pthread_create(&writer, NULL, write_slowly, NULL)) {
        fprintf(stderr, "bounded_backlog: %s\n", rc ? err.message : "no memory or no thread");
        return 1;
    }
    rc = run(consumer, argc > 2 ? argv[2] : "greetings", &err);
    if (rc)
        fprintf(stderr, "bounded_backlog: %s\n", err.message);
    pthread_mutex_lock(&backlog.lock);
    backlog.ended = 1;
    pthread_cond_signal(&backlog.changed);
    pthread_mutex_unlock(&backlog.lock);
    pthread_join(writer, NULL);
    printf("%ld records, %zu waited at most\n", backlog.written, backlog.most);
    cafka_consumer_close(consumer, WAIT_MS, NULL);
    cafka_consumer_free(consumer);
    free(backlog.records);
    return rc != 0;
}
