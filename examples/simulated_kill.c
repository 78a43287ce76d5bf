/*
 * simulated_kill.c - a test of a program's own, without a broker: a cluster of three in virtual time
 * loses the leader while records are on their way, and every acknowledged one comes back.
 *
 *     simulated_kill [SEED]
 *
 * The same seed takes the same course. Links with -lcafka -lcafka-mock (pkg-config cafka-mock cafka).
 */
#include <stdio.h>
#include <stdlib.h>

#include <cafka.h>
#include <cafka/mock.h>

enum { RECORDS = 1000 };

static int die(const char *what, const cafka_error *err)
{
    fprintf(stderr, "simulated_kill: %s: %s\n", what, err->message);
    return 1;
}

/* Runs on this program's only thread, inside whichever call moves the simulated world. */
static void count_delivered(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    const cafka_error *err = cafka_delivery_error(delivery);
    (void)producer;
    if (!err || err->code == CAFKA_OK)
        *(size_t *)user += cafka_delivery_count(delivery);
}

/* A configuration of a client that lives in the cluster's world. */
static int config_in(cafka_mock *mock, const char *properties, cafka_config **out, cafka_error *err)
{
    int rc = cafka_config_new(out, err);
    if (rc)
        return rc;
    cafka_config_set_env(*out, cafka_mock_env(mock));
    cafka_config_set_log(*out, NULL, NULL, CAFKA_LOG_OFF); /* a leader that dies would be mentioned */
    rc = cafka_config_set(*out, "bootstrap.servers", cafka_mock_bootstrap(mock), err);
    return rc ? rc : cafka_config_load(*out, properties, err);
}

/* Send RECORDS numbers; the leader is killed half way. *delivered: how many were acknowledged. */
static int produce(cafka_mock *mock, size_t *delivered, cafka_error *err)
{
    cafka_config *config = NULL;
    cafka_producer *producer = NULL;
    int rc = config_in(mock, "linger.ms=1", &config, err);
    if (!rc)
        cafka_config_on_delivery(config, count_delivered, delivered);
    if (!rc)
        rc = cafka_producer_new(&producer, config, err);
    for (int i = 0; !rc && i < RECORDS; i++) {
        cafka_record record = {.topic = "orders", .value = &i, .value_size = sizeof i};
        rc = cafka_producer_send(producer, &record, err);
        if (!rc && i == RECORDS / 2)
            rc = cafka_mock_broker_kill(mock, cafka_mock_leader(mock, "orders", 0), err);
    }
    if (!rc)
        rc = cafka_producer_close(producer, 60000, err); /* a minute of virtual time */
    cafka_producer_free(producer);
    cafka_config_free(config);
    return rc;
}

/* Read them back: number i must be at offset i. */
static int consume(cafka_mock *mock, size_t expected, size_t *found, cafka_error *err)
{
    cafka_config *config = NULL;
    cafka_consumer *consumer = NULL;
    cafka_position start = {.topic = "orders"};
    int rc = config_in(mock, "auto.offset.reset=earliest", &config, err);
    if (!rc)
        rc = cafka_consumer_new(&consumer, config, err);
    if (!rc)
        rc = cafka_consumer_assign(consumer, &start, 1, err);
    for (int polls = 0; !rc && *found < expected && polls < 100; polls++) {
        cafka_fetch *fetch;
        cafka_record_view record;
        rc = cafka_consumer_poll(consumer, 1000, &fetch, err);
        while (!rc && !(rc = cafka_fetch_next(fetch, &record, err)))
            *found += *(const int *)record.value == (int)*found;
        if (rc == CAFKA_END)
            rc = CAFKA_OK;
        cafka_fetch_free(fetch);
    }
    cafka_consumer_free(consumer);
    cafka_config_free(config);
    return rc;
}

int main(int argc, char **argv)
{
    const char *const topics[] = {"orders:1:3"}; /* one partition, three replicas */
    cafka_mock_options options = {.size = sizeof options,
                                  .brokers = 3,
                                  .simulated = 1,
                                  .seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 7,
                                  .topics = topics,
                                  .topic_count = 1};
    cafka_mock *mock;
    cafka_error err;
    size_t delivered = 0, found = 0;

    if (cafka_mock_new(&mock, &options, &err))
        return die("cluster", &err);
    int rc = produce(mock, &delivered, &err);
    if (!rc)
        rc = consume(mock, delivered, &found, &err);
    cafka_mock_free(mock);
    if (rc)
        return die("client", &err);
    printf("%zu records acknowledged, %zu found in order\n", delivered, found);
    return delivered == RECORDS && found == delivered ? 0 : 1;
}
