/*
 * libuv.c - a consumer in a libuv program, on its one thread: prints the first COUNT records of a
 * topic's first partition.
 *
 * pkg-config: libuv
 *
 *     libuv [BOOTSTRAP [TOPIC [COUNT]]]
 */
#include <stdio.h>
#include <stdlib.h>

#include <uv.h>

#include <cafka.h>

struct app {
    cafka_loop *loop;
    cafka_consumer *consumer;
    uv_poll_t readable;  /* cafka has something to do … */
    uv_timer_t due;      /* … or its next timer is due … */
    uv_prepare_t before; /* … which is asked for before libuv sleeps */
    long left;
    cafka_error err;
};

static int die(const cafka_error *err)
{
    fprintf(stderr, "libuv: %s\n", err->message);
    return 1;
}

static void stop(struct app *app)
{
    uv_close((uv_handle_t *)&app->readable, NULL);
    uv_close((uv_handle_t *)&app->due, NULL);
    uv_close((uv_handle_t *)&app->before, NULL);
}

static int print_records(struct app *app)
{
    cafka_fetch *fetch;
    cafka_record_view record;
    int rc = cafka_consumer_poll(app->consumer, 0, &fetch, &app->err); /* never waits */
    while (!rc && app->left && !(rc = cafka_fetch_next(fetch, &record, &app->err))) {
        printf("%.*s\n", (int)record.value_size, (const char *)record.value);
        app->left--;
    }
    cafka_fetch_free(fetch);
    return rc == CAFKA_END ? CAFKA_OK : rc;
}

static void run_cafka(struct app *app)
{
    int rc = cafka_loop_run(app->loop, 0, &app->err);
    if (!rc)
        rc = print_records(app);
    if ((rc || !app->left) && !uv_is_closing((uv_handle_t *)&app->due))
        stop(app);
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)status, (void)events;
    run_cafka(handle->data);
}

static void on_due(uv_timer_t *handle)
{
    run_cafka(handle->data);
}

static void before_sleep(uv_prepare_t *handle)
{
    struct app *app = handle->data;
    int64_t timeout_ms = cafka_loop_timeout_ms(app->loop);
    if (timeout_ms < 0)
        uv_timer_stop(&app->due);
    else
        uv_timer_start(&app->due, on_due, (uint64_t)timeout_ms, 0);
}

static int open_consumer(struct app *app, const char *bootstrap, const char *topic)
{
    cafka_config *config;
    cafka_position start = {.topic = topic,
                            .flags = CAFKA_POSITION_OFFSET,
                            .offset = CAFKA_OFFSET_BEGINNING};
    int rc = cafka_loop_new(&app->loop, CAFKA_LOOP_EXTERNAL, &app->err);
    if (rc || (rc = cafka_config_new(&config, &app->err)))
        return rc;
    cafka_config_set_loop(config, app->loop);
    rc = cafka_config_set(config, "bootstrap.servers", bootstrap, &app->err);
    if (!rc)
        rc = cafka_consumer_new(&app->consumer, config, &app->err);
    if (!rc)
        rc = cafka_consumer_assign(app->consumer, &start, 1, &app->err);
    cafka_config_free(config);
    return rc;
}

int main(int argc, char **argv)
{
    static struct app app;
    uv_loop_t *uv = uv_default_loop();
    app.left = argc > 3 ? atol(argv[3]) : 10;
    int rc =
        open_consumer(&app, argc > 1 ? argv[1] : "localhost:9092", argc > 2 ? argv[2] : "numbers");
    if (!rc && uv_poll_init(uv, &app.readable, cafka_loop_fd(app.loop)) == 0) {
        uv_timer_init(uv, &app.due);
        uv_prepare_init(uv, &app.before);
        app.readable.data = app.due.data = app.before.data = &app;
        uv_poll_start(&app.readable, UV_READABLE, on_readable);
        uv_prepare_start(&app.before, before_sleep);
        uv_run(uv, UV_RUN_DEFAULT); /* until stop() */
    }
    cafka_consumer_free(app.consumer);
    cafka_loop_free(app.loop);
    uv_loop_close(uv);
    return app.err.code ? die(&app.err) : 0;
}
