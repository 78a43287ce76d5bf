/*
 * read_to_end.c - count the records of a topic, all partitions, from the beginning to the end; then stop.
 *
 *     read_to_end [BOOTSTRAP [TOPIC]]
 *
 * The end here is where each partition ended when the program started, which stands still while
 * producers write on. For "until there is nothing more" at_end() below is not needed:
 * cafka_consumer_at_end(consumer) says that, without asking anybody.
 */
#include <stdio.h>
#include <stdlib.h>

#include <cafka.h>

enum { WAIT_MS = 10000 };

static int die(const cafka_error *err)
{
    fprintf(stderr, "read_to_end: %s\n", err->message);
    return 1;
}

/* All partitions, from the beginning. NULL: *err says why not. */
static cafka_position *list_partitions(cafka_consumer *consumer, const char *topic, int32_t *count,
                                       cafka_error *err)
{
    if (cafka_consumer_partitions(consumer, topic, WAIT_MS, count, err))
        return NULL;
    cafka_position *all = calloc((size_t)*count, sizeof *all);
    for (int32_t p = 0; all && p < *count; p++)
        all[p] = (cafka_position){.topic = topic,
                                  .partition = p,
                                  .flags = CAFKA_POSITION_OFFSET,
                                  .offset = CAFKA_OFFSET_BEGINNING};
    if (!all)
        snprintf(err->message, sizeof err->message, "no memory");
    return all;
}

/* Where they end now. All must be known, or the count would be a lie. */
static int find_ends(cafka_consumer *consumer, cafka_position *all, int32_t count, cafka_error *err)
{
    int rc = cafka_consumer_end_offsets(consumer, all, (size_t)count, WAIT_MS, err);
    for (int32_t p = 0; !rc && p < count; p++)
        if ((rc = all[p].error))
            snprintf(err->message, sizeof err->message, "the end of %s-%d is not known: %s",
                     all[p].topic, (int)p, cafka_error_name(rc));
    return rc;
}

/* 1: every partition is read up to ends[].offset. 0: not yet. -1: *err says why that is not known. */
static int at_end(cafka_consumer *consumer, const cafka_position *ends, int32_t count,
                  cafka_error *err)
{
    for (int32_t p = 0; p < count; p++) {
        int64_t position;
        if (cafka_consumer_position(consumer, ends[p].topic, ends[p].partition, WAIT_MS, &position,
                                    err))
            return -1;
        if (position < ends[p].offset)
            return 0;
    }
    return 1;
}

/* Records read, or -1: *err says why not all. */
static long read_all(cafka_consumer *consumer, const cafka_position *ends, int32_t count,
                     cafka_error *err)
{
    long records = 0;
    int end;
    while (!(end = at_end(consumer, ends, count, err))) {
        cafka_fetch *fetch;
        cafka_record_view record;
        int rc = cafka_consumer_poll(consumer, 1000, &fetch, err);
        if (rc)
            return -1;
        while (!(rc = cafka_fetch_next(fetch, &record, err)))
            records++;
        cafka_fetch_free(fetch);
        if (rc != CAFKA_END)
            return -1;
    }
    return end > 0 ? records : -1;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 2 ? argv[2] : "greetings";
    char properties[300];
    cafka_consumer *consumer;
    cafka_error err;
    int32_t count;
    long records = -1;

    snprintf(properties, sizeof properties, "bootstrap.servers=%.200s",
             argc > 1 ? argv[1] : "localhost:9092");
    if (cafka_consumer_open(&consumer, properties, &err))
        return die(&err);
    cafka_position *all = list_partitions(consumer, topic, &count, &err);
    if (all && !cafka_consumer_assign(consumer, all, (size_t)count, &err) &&
        !find_ends(consumer, all, count, &err))
        records = read_all(consumer, all, count, &err);
    if (records < 0)
        die(&err);
    else
        printf("%ld records in %d partitions\n", records, (int)count);
    free(all);
    if (cafka_consumer_close(consumer, WAIT_MS, &err))
        die(&err);
    cafka_consumer_free(consumer);
    return records < 0;
}
