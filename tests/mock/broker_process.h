/*
 * broker_process.h - a broker in a process of its own, as group setup and teardown of cmocka: what the
 * test's process does and holds is the client's alone. It has a topic "records" of one partition.
 */
#ifndef CAFKA_TESTS_BROKER_PROCESS_H
#define CAFKA_TESTS_BROKER_PROCESS_H

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cafka/mock.h>

static pid_t broker;
static int broker_life; /* it ends when this is closed */
static char bootstrap[256];

static inline void run_broker(int ready, int life)
{
    const char *topic = "records:1";
    cafka_mock_options options = {.size = sizeof options, .topics = &topic, .topic_count = 1};
    cafka_mock *mock;
    cafka_error err;
    char byte;
    if (cafka_mock_new(&mock, &options, &err)) {
        fprintf(stderr, "%s\n", err.message);
        _exit(1);
    }
    const char *servers = cafka_mock_bootstrap(mock);
    if (write(ready, servers, strlen(servers)) < 0)
        _exit(1);
    close(ready);
    while (read(life, &byte, 1) > 0)
        ;
    cafka_mock_free(mock);
    _exit(0);
}

static inline int start_broker(void **state)
{
    (void)state;
    int ready[2], life[2];
    if (pipe(ready) || pipe(life) || (broker = fork()) < 0)
        return -1;
    if (!broker) {
        close(ready[0]);
        close(life[1]);
        run_broker(ready[1], life[0]);
    }
    close(ready[1]);
    close(life[0]);
    broker_life = life[1];
    ssize_t size = read(ready[0], bootstrap, sizeof bootstrap - 1);
    close(ready[0]);
    return size > 0 ? 0 : -1;
}

static inline int stop_broker(void **state)
{
    (void)state;
    int status = -1;
    close(broker_life);
    waitpid(broker, &status, 0);
    return status;
}

#endif
