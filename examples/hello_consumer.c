/*
 * hello_consumer.c - print the records of one partition from its beginning; ends after COUNT.
 *
 *     hello_consumer [BOOTSTRAP [TOPIC [COUNT]]]
 */
#include <stdio.h>
#include <stdlib.h>

#include <cafka.h>

static int die(const cafka_error *err)
{
    fprintf(stderr, "hello_consumer: %s\n", err->message);
    return 1;
}

/* Print what one poll brought; *left counts down. */
static int print_records(cafka_fetch *fetch, long *left, cafka_error *err)
{
    cafka_record_view record;
    int rc = CAFKA_OK;
    while (*left > 0 && !(rc = cafka_fetch_next(fetch, &record, err))) {
        printf("%s-%d@%lld: %.*s\n", record.topic, (int)record.partition, (long long)record.offset,
               (int)record.value_size, record.value ? (const char *)record.value : "");
        (*left)--;
    }
    return rc == CAFKA_END ? CAFKA_OK : rc;
}

int main(int argc, char **argv)
{
    const char *topic = argc > 2 ? argv[2] : "greetings";
    long left = argc > 3 ? strtol(argv[3], NULL, 10) : 1;
    char properties[300];
    cafka_consumer *consumer;
    cafka_error err;

    snprintf(properties, sizeof properties, "bootstrap.servers=%.200s\nauto.offset.reset=earliest",
             argc > 1 ? argv[1] : "localhost:9092");
    if (cafka_consumer_open(&consumer, properties, &err))
        return die(&err);

    cafka_position position = {.topic = topic}; /* partition 0, from where auto.offset.reset says */
    int rc = cafka_consumer_assign(consumer, &position, 1, &err);
    while (!rc && left > 0) {
        cafka_fetch *fetch;
        rc = cafka_consumer_poll(consumer, 1000, &fetch, &err); /* fetch is NULL if nothing came */
        if (rc)
            break;
        rc = print_records(fetch, &left, &err);
        cafka_fetch_free(fetch);
    }
    if (rc)
        die(&err);
    cafka_consumer_close(consumer, 10000, NULL);
    cafka_consumer_free(consumer);
    return rc ? 1 : 0;
}
