/*
 * broker_fixture.c - see broker_fixture.h.
 */
#include "tests/unit/broker/broker_fixture.h"

#include <errno.h>

#include "protocol/errors.h"
#include "util/alloc.h"

static void write_log(void *user, enum log_level level, const char *area, const char *message)
{
    (void)user;
    (void)level;
    (void)area;
    print_message("%s: %s\n", area, message);
}

void fixture_start(struct cluster_fixture *f, const char *properties)
{
    struct cluster_options options = {.brokers = f->brokers, .control_port = -1};
    struct log_sink sink = {.write = write_log, .level = LOG_ERROR};
    cafka_error err = {0};
    if (f->data_dir)
        options.data_dir = mem_strdup(f->data_dir);
    if (properties)
        assert_int_equal(properties_parse(&options.properties, str_of(properties), NULL), 0);
    assert_int_equal(cluster_new(&f->cluster, f->world.env, f->loop, &options, sink, &err), 0);
    if (cluster_start(f->cluster, &err))
        fail_msg("the cluster does not start: %s", err.message);
}

void fixture_stop(struct cluster_fixture *f, bool clean)
{
    if (f->cluster && clean)
        cluster_stop(f->cluster);
    cluster_free(f->cluster);
    f->cluster = NULL;
}

int fixture_open(void **state)
{
    struct cluster_fixture *f = mem_zalloc(sizeof *f);
    protocol_errors_register();
    test_world_open(&f->world);
    assert_int_equal(loop_new(&f->loop, f->world.env, LOOP_EXTERNAL, NULL), 0);
    f->brokers = 1;
    *state = f;
    return 0;
}

int fixture_close(void **state)
{
    struct cluster_fixture *f = *state;
    fixture_stop(f, true);
    if (f->data_dir)
        (void)env_remove_tree(f->world.env, f->data_dir, NULL);
    loop_unref(f->loop);
    test_world_close(&f->world);
    mem_free(f->data_dir);
    mem_free(f);
    return 0;
}

/* --- a client --- */

static bool connected(void *arg)
{
    struct client *c = arg;
    return c->f->world.env->dial_result(c->f->world.env, c->handle) != -EINPROGRESS;
}

void client_open(struct client *c, struct cluster_fixture *f, int32_t broker)
{
    cafka_address to;
    *c = (struct client){.f = f};
    address_parse("127.0.0.1", cluster_broker(f->cluster, broker)->last_port, &to);
    c->handle = f->world.env->dial(f->world.env, &to);
    assert_true(c->handle >= 0);
    while (!connected(c))
        test_run_ms(f->loop, 1);
    assert_int_equal(f->world.env->dial_result(f->world.env, c->handle), 0);
}

void client_close(struct client *c)
{
    c->f->world.env->close(c->f->world.env, c->handle);
    test_run_ms(c->f->loop, 20);
}

void client_send(struct client *c, const void *data, size_t size)
{
    const cafka_env *env = c->f->world.env;
    const uint8_t *at = data;
    for (int i = 0; size && i < 10000; i++) {
        struct iovec piece = {(void *)at, size};
        ssize_t n = env->send(env, c->handle, &piece, 1);
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        } else if (n != -EAGAIN) {
            return; /* the broker has closed it */
        }
        test_run_ms(c->f->loop, 1);
    }
}

void client_send_hex(struct client *c, const char *hex, bool framed)
{
    char digits[4096];
    uint8_t bytes[4 + 2048];
    size_t n = 0;
    for (; *hex; hex++)
        if (*hex != ' ')
            digits[n++] = *hex;
    ptrdiff_t size = from_hex(digits, n, bytes + 4);
    assert_true(size >= 0);
    store_be32(bytes, (uint32_t)size);
    client_send(c, bytes + (framed ? 0 : 4), (size_t)size + (framed ? 4 : 0));
}

void client_request(struct client *c, int api, int version, const void *body)
{
    struct encoded e = {0};
    assert_int_equal(request_encode(api_find(api), version, 1, str_of("test"), body, &e, NULL), 0);
    client_send(c, e.bytes.data, e.bytes.size);
    encoded_fini(&e);
}

static void receive(struct client *c)
{
    const cafka_env *env = c->f->world.env;
    while (!c->closed && c->size < sizeof c->bytes) {
        ssize_t n = env->recv(env, c->handle, c->bytes + c->size, sizeof c->bytes - c->size);
        if (n == -EAGAIN)
            return;
        if (n <= 0)
            c->closed = true;
        else
            c->size += (size_t)n;
    }
}

static bool answered(void *arg)
{
    struct client *c = arg;
    receive(c);
    return c->closed || (c->size >= 4 && c->size >= 4 + (size_t)load_be32(c->bytes));
}

bool client_answer(struct client *c)
{
    for (int i = 0; i < 5000 && !answered(c); i++)
        test_run_ms(c->f->loop, 1);
    return c->size >= 4 && c->size >= 4 + (size_t)load_be32(c->bytes);
}

void client_decode(struct client *c, int key, int version, struct arena *arena, void *out)
{
    const struct api *api = api_find(key);
    int32_t correlation;
    size_t head;
    cafka_error err = {0};
    if (!client_answer(c))
        fail_msg("no answer to %s version %d", api->name, version);
    size_t size = load_be32(c->bytes);
    uint8_t *copy = arena_alloc(arena, size); /* the struct points into it */
    memcpy(copy, c->bytes + 4, size);
    memmove(c->bytes, c->bytes + 4 + size, c->size - 4 - size);
    c->size -= 4 + size;
    assert_int_equal(response_head_decode(api, version, bytes_of(copy, size), &correlation, &head,
                                          &err),
                     0);
    assert_int_equal(correlation, 1);
    if (message_decode(api->response, version, bytes_of(copy + head, size - head), arena, out, NULL,
                       &err))
        fail_msg("%s", err.message);
}

bool client_is_closed(struct client *c)
{
    for (int i = 0; i < 2000 && !c->closed; i++) {
        c->size = 0;
        receive(c);
        test_run_ms(c->f->loop, 1);
    }
    return c->closed;
}
