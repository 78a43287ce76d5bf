/*
 * both.c - a client and a cluster in one program, from the two installed libraries; its own short
 * names are those that the libraries have inside.
 */
#include <stdio.h>
#include <string.h>

#include <cafka.h>
#include <cafka/mock.h>

/* Linking fails if a library lets out one of these. */
void loop_new(void);
void loop_new(void)
{
}
int error_set(void);
int error_set(void)
{
    return 7;
}

static int fail(const char *what, const cafka_error *err)
{
    fprintf(stderr, "both: %s: %s\n", what, err->message);
    return 1;
}

static int send_one(const char *servers, cafka_error *err)
{
    char properties[300];
    cafka_producer *producer;
    snprintf(properties, sizeof properties, "bootstrap.servers=%.200s", servers);
    int rc = cafka_producer_open(&producer, properties, err);
    if (rc)
        return rc;
    cafka_delivery_report report;
    cafka_record record = {.topic = "greetings", .value = "hello", .value_size = 5};
    rc = cafka_producer_send_wait(producer, &record, &report, err);
    if (!rc && report.offset != 0)
        rc = 1;
    cafka_producer_free(producer);
    return rc;
}

int main(void)
{
    const char *topics[] = {"greetings:1"};
    cafka_mock_options options = {.size = sizeof options,
                                  .brokers = 3,
                                  .topics = topics,
                                  .topic_count = 1};
    cafka_mock *mock;
    cafka_error err;
    memset(&err, 0, sizeof err);
    if (cafka_mock_new(&mock, &options, &err))
        return fail("the cluster", &err);
    int rc = send_one(cafka_mock_bootstrap(mock), &err);
    cafka_mock_free(mock);
    if (rc)
        return fail("sending", &err);
    loop_new();
    return error_set() != 7;
}
