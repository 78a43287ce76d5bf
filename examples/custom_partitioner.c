/*
 * custom_partitioner.c - large customers have a partition of their own.
 *
 *     custom_partitioner [BOOTSTRAP [TOPIC]]
 *
 * Partition 0 of the topic is for keys that begin with "large-"; all others go where their hash says, to
 * one of the partitions behind it. With a single partition there is no choice.
 */
#include <stdio.h>
#include <string.h>

#include <cafka.h>

static int die(const cafka_error *err)
{
    fprintf(stderr, "custom_partitioner: %s\n", err->message);
    return 1;
}

/* On the thread that sends, and on several at once if several send: so it keeps no state. */
static int32_t choose(const cafka_partition_question *question, void *user)
{
    const char *large = user;
    if (!question->key.data)
        return CAFKA_PARTITION_DEFAULT; /* no key: what partitioner.class does */
    if (question->partition_count == 1 ||
        (question->key.size >= strlen(large) && !memcmp(question->key.data, large, strlen(large))))
        return 0;
    return 1 + cafka_partition_for_key(question->key.data, question->key.size,
                                       question->partition_count - 1);
}

static int send_order(cafka_producer *producer, const char *topic, const char *customer,
                      cafka_error *err)
{
    cafka_record record = {.topic = topic,
                           .key = customer,
                           .key_size = strlen(customer),
                           .value = "order",
                           .value_size = 5};
    int32_t partition;
    int rc = cafka_producer_partition_for(producer, &record, &partition, err);
    if (!rc)
        rc = cafka_producer_send(producer, &record, err);
    if (!rc)
        printf("%s: partition %d\n", customer, (int)partition);
    return rc;
}

int main(int argc, char **argv)
{
    const char *bootstrap = argc > 1 ? argv[1] : "localhost:9092";
    const char *topic = argc > 2 ? argv[2] : "orders";
    static const char *const customers[] = {"large-1", "small-1", "small-2", "large-2", "small-3"};
    cafka_partitioner partitioner = {.size = sizeof partitioner,
                                     .name = "large first",
                                     .user = "large-",
                                     .partition = choose};
    cafka_config *config;
    cafka_producer *producer = NULL;
    cafka_error err;

    if (cafka_config_new(&config, &err))
        return die(&err);
    int rc = cafka_config_set(config, "bootstrap.servers", bootstrap, &err);
    if (!rc)
        rc = cafka_config_set_partitioner(config, &partitioner, &err);
    if (!rc)
        rc = cafka_producer_new(&producer, config, &err);
    cafka_config_free(config); /* the producer has a copy */
    if (rc)
        return die(&err);

    for (size_t i = 0; i < sizeof customers / sizeof *customers && !rc; i++)
        rc = send_order(producer, topic, customers[i], &err);
    if (!rc)
        rc = cafka_producer_close(producer, 10000, &err); /* delivers, and says what failed */
    cafka_producer_free(producer);
    return rc ? die(&err) : 0;
}
