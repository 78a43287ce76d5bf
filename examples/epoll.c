/*
 * epoll.c - a producer and a consumer in an application's own epoll loop, on one thread: the library
 * makes none. Sends COUNT numbers to a topic's first partition and reads them back.
 *
 *     epoll [BOOTSTRAP [TOPIC [COUNT]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cafka.h>

struct app {
    cafka_loop *loop;
    cafka_producer *producer;
    cafka_consumer *consumer;
    const char *topic;
    long count, sent, delivered, received;
};

static int die(const cafka_error *err)
{
    fprintf(stderr, "epoll: %s\n", err->message);
    return 1;
}

static void on_delivery(cafka_producer *producer, cafka_delivery *delivery, void *user)
{
    struct app *app = user;
    (void)producer;
    if (cafka_delivery_error(delivery))
        exit(die(cafka_delivery_error(delivery)));
    app->delivered += (long)cafka_delivery_count(delivery);
}

static int open_clients(struct app *app, const char *bootstrap, cafka_error *err)
{
    cafka_config *config;
    cafka_position start = {.topic = app->topic,
                            .flags = CAFKA_POSITION_OFFSET,
                            .offset = CAFKA_OFFSET_BEGINNING};
    int rc = cafka_loop_new(&app->loop, CAFKA_LOOP_EXTERNAL, err);
    if (rc || (rc = cafka_config_new(&config, err)))
        return rc;
    cafka_config_set_loop(config, app->loop);
    cafka_config_on_delivery(config, on_delivery, app);
    rc = cafka_config_set(config, "bootstrap.servers", bootstrap, err);
    if (!rc)
        rc = cafka_producer_new(&app->producer, config, err);
    if (!rc)
        rc = cafka_consumer_new(&app->consumer, config, err);
    if (!rc)
        rc = cafka_consumer_assign(app->consumer, &start, 1, err);
    cafka_config_free(config);
    return rc;
}

/* As many as there is room for; what would wait is tried again after the next turn. */
static int send_more(struct app *app, cafka_error *err)
{
    for (; app->sent < app->count; app->sent++) {
        char text[24];
        cafka_record record = {.topic = app->topic, .value = text, .flags = CAFKA_RECORD_PARTITION};
        record.value_size = (size_t)snprintf(text, sizeof text, "%ld", app->sent);
        int rc = cafka_producer_try_send(app->producer, &record, err);
        if (rc)
            return rc == CAFKA_ERR_WOULD_BLOCK ? CAFKA_OK : rc;
    }
    return CAFKA_OK;
}

/* What has come; never waits. */
static int receive_more(struct app *app, cafka_error *err)
{
    cafka_fetch *fetch;
    cafka_record_view record;
    int rc = cafka_consumer_poll(app->consumer, 0, &fetch, err);
    while (!rc && !(rc = cafka_fetch_next(fetch, &record, err)))
        app->received++;
    if (rc == CAFKA_END)
        rc = CAFKA_OK;
    cafka_fetch_free(fetch);
    return rc;
}

static int run(struct app *app, cafka_error *err)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC), rc = CAFKA_OK;
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, cafka_loop_fd(app->loop), &event))
        return perror("epoll"), CAFKA_ERR_SYSTEM;
    while (!rc && (app->received < app->count || app->delivered < app->count)) {
        rc = send_more(app, err);
        if (epoll_wait(epoll, &event, 1, (int)cafka_loop_timeout_ms(app->loop)) < 0)
            break; /* a signal */
        if (!rc)
            rc = cafka_loop_run(app->loop, 0, err); /* sockets and timers */
        if (!rc && cafka_dispatch(cafka_producer_client(app->producer), 0) >= 0) /* deliveries */
            rc = receive_more(app, err);
    }
    close(epoll);
    return rc;
}

int main(int argc, char **argv)
{
    struct app app = {.topic = argc > 2 ? argv[2] : "numbers",
                      .count = argc > 3 ? atol(argv[3]) : 10};
    cafka_error err = {0};
    int rc = open_clients(&app, argc > 1 ? argv[1] : "localhost:9092", &err);
    if (!rc)
        rc = run(&app, &err);
    if (!rc) /* a call that waits runs the loop itself */
        rc = cafka_producer_close(app.producer, 10000, &err);
    printf("%ld sent, %ld delivered, %ld received\n", app.sent, app.delivered, app.received);
    cafka_consumer_free(app.consumer);
    cafka_producer_free(app.producer);
    cafka_loop_free(app.loop);
    return rc ? die(&err) : 0;
}
