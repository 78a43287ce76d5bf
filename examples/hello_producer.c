/*
 * hello_producer.c - send one record and wait until the cluster has it.
 *
 *     hello_producer [BOOTSTRAP [TOPIC]]
 */
#include <stdio.h>

#include <cafka.h>

static int die(const cafka_error *err)
{
    fprintf(stderr, "hello_producer: %s\n", err->message);
    return 1;
}

int main(int argc, char **argv)
{
    const char *bootstrap = argc > 1 ? argv[1] : "localhost:9092";
    const char *topic = argc > 2 ? argv[2] : "greetings";
    cafka_config *config;
    cafka_producer *producer = NULL;
    cafka_error err;

    if (cafka_config_new(&config, &err))
        return die(&err);
    int rc = cafka_config_set(config, "bootstrap.servers", bootstrap, &err);
    if (!rc)
        rc = cafka_producer_new(&producer, config, &err);
    cafka_config_free(config); /* the producer has a copy */
    if (rc)
        return die(&err);

    /* The record is copied; send returns before it is delivered. */
    cafka_record record = {.topic = topic, .value = "hello", .value_size = 5};
    rc = cafka_producer_send(producer, &record, &err);

    /* Close delivers what was sent, and without a delivery function it says what failed. */
    if (!rc)
        rc = cafka_producer_close(producer, 10000, &err);
    cafka_producer_free(producer);
    return rc ? die(&err) : 0;
}
