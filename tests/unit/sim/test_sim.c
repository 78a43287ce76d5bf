/*
 * test_sim.c - the simulated world: time that jumps, links that delay, split and break, a disk that
 * forgets what was not synced, and seeds that replay.
 */
#include "net_fixture.h"

#include <stdio.h>

#include "sim/sim.h"
#include "util/bytes.h"

struct world {
    struct sim *sim;
    const cafka_env *env;
    struct net net;
    bool net_is_open;
};

static void open_world(struct world *w, uint64_t seed)
{
    cafka_error err = {0};
    memset(w, 0, sizeof *w);
    assert_int_equal(sim_new(&w->sim, seed, &err), CAFKA_OK);
    w->env = sim_env(w->sim);
}

static void close_world(struct world *w)
{
    if (w->net_is_open)
        net_close(&w->net);
    sim_free(w->sim);
}

static int setup(void **state)
{
    struct world *w = mem_zalloc(sizeof *w);
    open_world(w, 1);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    close_world(*state);
    mem_free(*state);
    return 0;
}

static struct net *with_net(struct world *w)
{
    net_open(&w->net, w->env);
    w->net_is_open = true;
    return &w->net;
}

/* --- time --- */

struct alarm {
    struct timer timer;
    struct loop *loop;
    int64_t fired_at_ms;
    int event;
};

static void ring(struct timer *timer)
{
    struct alarm *alarm = container_of(timer, struct alarm, timer);
    alarm->fired_at_ms = loop_now_ms(alarm->loop);
    loop_env(alarm->loop)->event_signal(loop_env(alarm->loop), alarm->event);
}

struct set_alarm {
    struct loop_task task;
    struct alarm *alarm;
    int64_t delay_ms;
};

static void do_set_alarm(struct loop_task *task)
{
    struct set_alarm *s = container_of(task, struct set_alarm, task);
    assert_true(loop_is_current(s->alarm->loop));
    loop_timer_set(s->alarm->loop, &s->alarm->timer, loop_now_ms(s->alarm->loop) + s->delay_ms);
}

static void waiting_for_an_hour_takes_no_time(void **state)
{
    struct world *w = *state;
    cafka_error err = {0};
    struct alarm alarm = {.timer.fire = ring, .event = w->env->event_open(w->env)};
    assert_int_equal(loop_new(&alarm.loop, w->env, LOOP_BACKGROUND, &err), CAFKA_OK);
    struct set_alarm set = {.task.run = do_set_alarm, .alarm = &alarm, .delay_ms = 3600 * 1000};
    int64_t began = sim_now_ms(w->sim), wall = w->env->wall_ms(w->env);
    loop_post(alarm.loop, &set.task);

    assert_int_equal(w->env->event_wait(w->env, alarm.event,
                                        w->env->now(w->env) + 60 * 1000 * NS_PER_MS),
                     0);
    assert_in_range(sim_now_ms(w->sim) - began, 60 * 1000, 60 * 1000 + 1);
    assert_int_equal(w->env->event_wait(w->env, alarm.event, CAFKA_NEVER), 1);
    assert_in_range(alarm.fired_at_ms - began, 3600 * 1000, 3600 * 1000 + 1);
    assert_in_range(w->env->wall_ms(w->env) - wall, 3600 * 1000, 3600 * 1000 + 2);
    assert_true(sim_steps(w->sim) < 100);
    loop_unref(alarm.loop);
    w->env->event_close(w->env, alarm.event);
}

static void wall_clock_may_be_skewed_on_one_host(void **state)
{
    struct world *w = *state;
    const cafka_env *other = sim_env_for(w->sim, "broker-1");
    sim_wall_skew(w->sim, "broker-1", -5000);
    assert_int_equal(w->env->wall_ms(w->env) - other->wall_ms(other), 5000);
    assert_int_equal(w->env->now(w->env), other->now(other));
    assert_ptr_equal(sim_env_for(w->sim, "broker-1"), other);
}

static void note_deadlock(void *user, const char *message)
{
    snprintf(user, 300, "%s", message);
}

static void waiting_for_what_can_not_come_is_reported(void **state)
{
    struct world *w = *state;
    char message[300] = "";
    sim_on_deadlock(w->sim, note_deadlock, message);
    int event = w->env->event_open(w->env);
    assert_int_equal(w->env->event_wait(w->env, event, CAFKA_NEVER), 0);
    assert_non_null(strstr(message, "stands still"));
    w->env->event_signal(w->env, event);
    assert_int_equal(w->env->event_clear(w->env, event), 1);
    assert_int_equal(w->env->event_clear(w->env, event), 0);
    w->env->event_close(w->env, event);
}

/* --- a conversation, by which worlds are compared --- */

struct talker {
    struct end end; /* first */
    struct loop *loop;
    const cafka_env *env;
    cafka_address address;
    struct loop_task start;
    unsigned id, sent, received, limit;
    unsigned *order; /* whose answers came when */
    unsigned *order_count;
    int done;
};

static void send_number(struct talker *t)
{
    uint8_t message[8];
    store_be32(message, 4);
    store_be32(message + 4, t->sent++);
    cafka_error err = {0};
    assert_int_equal(stream_write_copy(t->end.stream, message, sizeof message, &err), CAFKA_OK);
    stream_flush(t->end.stream);
}

static void hear_number(struct end *end)
{
    struct talker *t = (struct talker *)end;
    cafka_error err = {0};
    struct frame *frame;
    while (frame_reader_next(&end->reader, end->stream, &frame, &err) == CAFKA_OK && frame) {
        assert_int_equal(frame->size, 4);
        assert_int_equal(load_be32(frame->data), t->received);
        frame_unref(frame);
        t->order[(*t->order_count)++] = t->id;
        if (++t->received == t->limit)
            t->env->event_signal(t->env, t->done);
        else
            send_number(t);
    }
}

static void start_talking(struct loop_task *task)
{
    struct talker *t = container_of(task, struct talker, start);
    cafka_error err = {0};
    assert_int_equal(stream_dial(&t->end.stream, t->loop, &t->address, &end_events, &t->end, &err),
                     CAFKA_OK);
    send_number(t);
}

static void stop_talking(struct loop_task *task)
{
    struct talker *t = container_of(task, struct talker, start);
    stream_free(t->end.stream);
    t->env->event_signal(t->env, t->done);
}

struct echo_server {
    const cafka_env *env;
    struct loop *loop;
    struct frame_pool *pool;
    int listener;
    cafka_address address;
    struct loop_watch watch;
    struct loop_task task;
    struct end ends[16];
    unsigned count;
    int done;
};

static void echo(struct end *end)
{
    cafka_error err = {0};
    struct frame *frame;
    while (frame_reader_next(&end->reader, end->stream, &frame, &err) == CAFKA_OK && frame) {
        uint8_t prefix[4];
        store_be32(prefix, frame->size);
        (void)stream_write_copy(end->stream, prefix, 4, &err);
        (void)stream_write_copy(end->stream, frame->data, frame->size, &err);
        frame_unref(frame);
    }
    stream_flush(end->stream);
}

static void serve(struct loop_watch *watch, unsigned events)
{
    struct echo_server *s = container_of(watch, struct echo_server, watch);
    (void)events;
    int handle = s->env->accept(s->env, s->listener, NULL);
    if (handle < 0)
        return;
    struct end *end = &s->ends[s->count++];
    cafka_error err = {0};
    end->on_readable = echo;
    frame_reader_init(&end->reader, s->pool, 1000);
    assert_int_equal(stream_adopt(&end->stream, s->loop, handle, &end_events, end, &err), CAFKA_OK);
}

static void start_serving(struct loop_task *task)
{
    struct echo_server *s = container_of(task, struct echo_server, task);
    assert_int_equal(loop_watch_start(s->loop, &s->watch, s->listener, CAFKA_READABLE, serve, NULL),
                     CAFKA_OK);
}

static void stop_serving(struct loop_task *task)
{
    struct echo_server *s = container_of(task, struct echo_server, task);
    loop_watch_stop(&s->watch);
    for (unsigned i = 0; i < s->count; i++) {
        stream_free(s->ends[i].stream);
        frame_reader_fini(&s->ends[i].reader);
    }
    s->env->event_signal(s->env, s->done);
}

enum { TALKERS = 4, ROUNDS = 25 };

struct talk {
    uint64_t hash;
    unsigned order[TALKERS * ROUNDS];
    unsigned order_count;
};

/* Four clients with loops of their own talk to one server; blocking code, no threads. */
static void run_talk(uint64_t seed, struct talk *out)
{
    struct world w;
    open_world(&w, seed);
    memset(out, 0, sizeof *out);
    cafka_error err = {0};
    struct echo_server server = {.env = sim_env_for(w.sim, "server")};
    assert_int_equal(loop_new(&server.loop, server.env, LOOP_BACKGROUND, &err), CAFKA_OK);
    assert_int_equal(frame_pool_new(&server.pool, 1 << 20, &err), CAFKA_OK);
    assert_true(address_parse("127.0.0.1", 9092, &server.address));
    server.listener = server.env->listen(server.env, &server.address, 10, NULL);
    server.done = server.env->event_open(server.env);
    server.task.run = start_serving;
    loop_post(server.loop, &server.task);

    static struct talker talkers[TALKERS];
    memset(talkers, 0, sizeof talkers);
    for (unsigned i = 0; i < TALKERS; i++) {
        struct talker *t = &talkers[i];
        char name[20];
        snprintf(name, sizeof name, "client-%u", i);
        t->env = sim_env_for(w.sim, name);
        t->address = server.address;
        t->id = i;
        t->limit = ROUNDS;
        t->order = out->order;
        t->order_count = &out->order_count;
        t->end.on_readable = hear_number;
        t->start.run = start_talking;
        t->done = t->env->event_open(t->env);
        frame_reader_init(&t->end.reader, server.pool, 1000);
        assert_int_equal(loop_new(&t->loop, t->env, LOOP_BACKGROUND, &err), CAFKA_OK);
        loop_post(t->loop, &t->start);
    }
    for (unsigned i = 0; i < TALKERS; i++)
        assert_int_equal(talkers[i].env->event_wait(talkers[i].env, talkers[i].done, CAFKA_NEVER),
                         1);
    out->hash = sim_trace_hash(w.sim);
    for (unsigned i = 0; i < TALKERS; i++) {
        struct talker *t = &talkers[i];
        t->start.run = stop_talking;
        loop_post(t->loop, &t->start);
        assert_int_equal(t->env->event_wait(t->env, t->done, CAFKA_NEVER), 1);
        frame_reader_fini(&t->end.reader);
        loop_unref(t->loop);
        t->env->event_close(t->env, t->done);
    }
    server.task.run = stop_serving;
    loop_post(server.loop, &server.task);
    assert_int_equal(server.env->event_wait(server.env, server.done, CAFKA_NEVER), 1);
    loop_unref(server.loop);
    server.env->close(server.env, server.listener);
    server.env->event_close(server.env, server.done);
    frame_pool_unref(server.pool);
    close_world(&w);
}

static void seed_replays_to_the_same_hash(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        static struct talk first, second;
        run_talk(seed, &first);
        run_talk(seed, &second);
        assert_int_equal(first.hash, second.hash);
        assert_int_equal(first.order_count, TALKERS * ROUNDS);
        assert_memory_equal(first.order, second.order, sizeof first.order);
    }
}

static void seeds_interleave_differently(void **state)
{
    (void)state;
    static struct talk talks[10];
    for (unsigned i = 0; i < 10; i++) {
        run_talk(100 + i, &talks[i]);
        for (unsigned k = 0; k < i; k++) {
            assert_int_not_equal(talks[i].hash, talks[k].hash);
            assert_memory_not_equal(talks[i].order, talks[k].order, sizeof talks[i].order);
        }
    }
}

static void every_failing_allocation_of_a_world_is_an_error(void **state)
{
    (void)state;
    for (unsigned long k = 1;; k++) {
        struct sim *sim = NULL;
        cafka_error err = {0};
        mem_fail_after(k, 0);
        int rc = sim_new(&sim, 1, &err);
        bool done = mem_count() < k;
        mem_fail_after(0, 0);
        assert_int_equal(rc, done ? CAFKA_OK : CAFKA_ERR_MEMORY);
        sim_free(sim);
        if (done)
            break;
        assert_true(k < 100);
    }
}

/* --- links --- */

static void count_bytes_in_order(struct end *end)
{
    uint8_t bytes[3000];
    ssize_t n;
    unsigned *next = end->user;
    while ((n = stream_read(end->stream, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++)
            assert_int_equal(bytes[i], (uint8_t)(*next)++);
}

static void bytes_arrive_in_order_however_they_are_split_and_delayed(void **state)
{
    struct world *w = *state;
    struct sim_link link = {.latency_min_us = 10,
                            .latency_max_us = 50000,
                            .window = 5000,
                            .split_one_in = 1};
    assert_int_equal(sim_link_set(w->sim, NULL, NULL, &link, NULL), CAFKA_OK);
    struct net *net = with_net(w);
    net_connect(net, 1000);
    enum { SIZE = 100000 };
    static uint8_t bytes[SIZE];
    for (unsigned i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)i;
    unsigned received = 0;
    net->server.on_readable = count_bytes_in_order;
    net->server.user = &received;
    cafka_error err = {0};
    assert_int_equal(stream_write_ref(net->client.stream, bytes, SIZE, NULL, NULL, &err), CAFKA_OK);
    stream_flush(net->client.stream);
    assert_in_range(SIZE - stream_unwritten(net->client.stream), 1, 5000);
    int64_t give_up = sim_now_ms(w->sim) + 1000 * 1000;
    while (received < SIZE && sim_now_ms(w->sim) < give_up)
        net_turn(net);
    assert_int_equal(received, SIZE);
    assert_true(net->server.readable_count > 40);
}

static void latency_and_bandwidth_take_their_time(void **state)
{
    struct world *w = *state;
    struct sim_link link = {.latency_min_us = 20000,
                            .latency_max_us = 20000,
                            .bytes_per_ms = 100,
                            .window = 1 << 20};
    assert_int_equal(sim_link_set(w->sim, "", "", &link, NULL), CAFKA_OK);
    struct net *net = with_net(w);
    int64_t began = sim_now_ms(w->sim);
    net_connect(net, 1000);
    assert_in_range(sim_now_ms(w->sim) - began, 40, 43); /* there and back */
    unsigned received = 0;
    net->server.on_readable = count_bytes_in_order;
    net->server.user = &received;
    static uint8_t bytes[10000];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    began = sim_now_ms(w->sim);
    assert_int_equal(stream_write_ref(net->client.stream, bytes, sizeof bytes, NULL, NULL, NULL),
                     CAFKA_OK);
    stream_flush(net->client.stream);
    run_until(net, received == sizeof bytes);
    assert_in_range(sim_now_ms(w->sim) - began, 120, 125); /* 100 ms on the wire */
}

static void read_all_there_is(struct end *end)
{
    uint8_t bytes[1000];
    ssize_t n;
    while ((n = stream_read(end->stream, bytes, sizeof bytes)) > 0)
        if (end->user)
            *(unsigned *)end->user += (unsigned)n;
}

static void cut_connection_is_reset_at_both_ends(void **state)
{
    struct world *w = *state;
    struct net *net = with_net(w);
    net_connect(net, 1000);
    net->client.on_readable = net->server.on_readable = read_all_there_is;
    assert_int_equal(sim_cut(w->sim, "", "", SIM_CUT_RESET), 1);
    run_until(net, net->client.closed && net->server.closed);
    assert_non_null(strstr(net->client.error.message, "reset by the peer"));
    assert_non_null(strstr(net->server.error.message, "reset by the peer"));
}

static void connection_may_end_at_both_ends(void **state)
{
    struct world *w = *state;
    struct net *net = with_net(w);
    net_connect(net, 1000);
    net->client.on_readable = net->server.on_readable = read_all_there_is;
    assert_int_equal(sim_cut_port(w->sim, net->address.port, SIM_CUT_END), 1);
    run_until(net, net->client.closed && net->server.closed);
    assert_non_null(strstr(net->client.error.message, "closed by the peer"));
    assert_non_null(strstr(net->server.error.message, "closed by the peer"));
}

static void what_was_sent_before_a_close_arrives(void **state)
{
    struct world *w = *state;
    struct net *net = with_net(w);
    net_connect(net, 1000);
    unsigned received = 0;
    net->server.on_readable = read_all_there_is;
    net->server.user = &received;
    static uint8_t bytes[5000];
    assert_int_equal(stream_write_ref(net->client.stream, bytes, sizeof bytes, NULL, NULL, NULL),
                     CAFKA_OK);
    do {
        stream_flush(net->client.stream);
        net_turn(net);
    } while (stream_unwritten(net->client.stream));
    stream_free(net->client.stream);
    net->client.stream = NULL;
    run_until(net, net->server.closed);
    assert_int_equal(received, sizeof bytes);
}

static void port_without_listener_refuses(void **state)
{
    struct world *w = *state;
    struct net *net = with_net(w);
    cafka_address nobody;
    cafka_error err = {0};
    assert_true(address_parse("127.0.0.1", 1, &nobody));
    assert_int_equal(stream_dial(&net->client.stream, net->loop, &nobody, &end_events, &net->client,
                                 &err),
                     CAFKA_OK);
    run_until(net, net->client.closed);
    assert_string_equal(net->client.error.message, "connection to 127.0.0.1:1 refused");
    stream_free(net->client.stream);

    memset(&net->client, 0, sizeof net->client); /* a port that is closed though somebody listens */
    assert_int_equal(sim_port_set(w->sim, net->address.port, SIM_PORT_REFUSED, &err), CAFKA_OK);
    assert_int_equal(stream_dial(&net->client.stream, net->loop, &net->address, &end_events,
                                 &net->client, &err),
                     CAFKA_OK);
    run_until(net, net->client.closed);
    assert_non_null(strstr(net->client.error.message, "refused"));
}

static bool is_connected(void *arg)
{
    struct net *net = arg;
    assert_int_equal(loop_run(net->loop, 0, NULL), CAFKA_OK);
    return net->client.connected;
}

static void silent_port_answers_once_it_is_opened(void **state)
{
    struct world *w = *state;
    struct net *net = with_net(w);
    cafka_error err = {0};
    assert_int_equal(sim_port_set(w->sim, net->address.port, SIM_PORT_SILENT, &err), CAFKA_OK);
    assert_int_equal(stream_dial(&net->client.stream, net->loop, &net->address, &end_events,
                                 &net->client, &err),
                     CAFKA_OK);
    assert_false(sim_run_until(w->sim, is_connected, net, 60000));
    sim_heal(w->sim);
    assert_true(sim_run_until(w->sim, is_connected, net, 100));
}

static bool has_received(void *arg)
{
    struct net *net = arg;
    assert_int_equal(loop_run(net->loop, 0, NULL), CAFKA_OK);
    return *(unsigned *)net->server.user > 0;
}

static void partition_holds_bytes_until_it_is_healed(void **state)
{
    struct world *w = *state;
    struct net *net = with_net(w);
    net_connect(net, 1000);
    unsigned received = 0;
    net->server.on_readable = read_all_there_is;
    net->server.user = &received;
    assert_int_equal(sim_partition(w->sim, "", NULL, true, NULL), CAFKA_OK);
    assert_int_equal(stream_write_copy(net->client.stream, "abc", 3, NULL), CAFKA_OK);
    stream_flush(net->client.stream);
    assert_false(sim_run_until(w->sim, has_received, net, 60000));
    assert_int_equal(sim_partition(w->sim, NULL, "", false, NULL), CAFKA_OK);
    assert_true(sim_run_until(w->sim, has_received, net, 10));
}

static void keep_result(void *user, int error, const cafka_address *addresses, size_t count)
{
    cafka_address *result = user;
    *result = count ? addresses[count - 1] : (cafka_address){.scope = (uint32_t)-error};
}

static bool has_result(void *arg)
{
    const cafka_address *result = arg;
    return result->family || result->scope;
}

static void names_resolve_to_what_was_said(void **state)
{
    struct world *w = *state;
    cafka_address result = {.family = 0};
    w->env->resolve(w->env, "10.1.2.3", 7, keep_result, &result);
    assert_int_equal(result.ip[3], 3); /* at once */

    assert_int_equal(sim_name_add(w->sim, "kafka.test", "10.0.0.1", NULL), CAFKA_OK);
    assert_int_equal(sim_name_add(w->sim, "kafka.test", "10.0.0.2", NULL), CAFKA_OK);
    result = (cafka_address){.family = 0};
    w->env->resolve(w->env, "kafka.test", 9092, keep_result, &result);
    assert_int_equal(result.family, 0);
    assert_true(sim_run_until(w->sim, has_result, &result, 100));
    assert_int_equal(result.ip[3], 2);
    assert_int_equal(result.port, 9092);

    result = (cafka_address){.family = 0};
    w->env->resolve(w->env, "nowhere.test", 1, keep_result, &result);
    assert_true(sim_run_until(w->sim, has_result, &result, 100));
    assert_int_equal(result.scope, ENOENT);
}

/* --- disk --- */

static cafka_env_file *open_file(struct world *w, const char *path)
{
    cafka_env_file *file;
    assert_int_equal(w->env->file_open(w->env, path,
                                       CAFKA_FILE_READ | CAFKA_FILE_WRITE | CAFKA_FILE_CREATE, &file),
                     0);
    return file;
}

static void put(struct world *w, cafka_env_file *file, const char *text, int64_t offset)
{
    struct iovec piece = {(char *)(uintptr_t)text, strlen(text)};
    assert_int_equal(w->env->file_write(w->env, file, &piece, 1, offset), strlen(text));
}

static void assert_file_holds(struct world *w, const char *path, const char *text)
{
    char *data;
    size_t size;
    cafka_error err = {0};
    if (env_read_file(w->env, path, 1 << 20, &data, &size, &err))
        fail_msg("%s", err.message);
    assert_string_equal(data, text);
    mem_free(data);
}

static void synced_bytes_survive_a_power_loss_and_a_prefix_of_the_rest(void **state)
{
    (void)state;
    unsigned lengths[4] = {0}, torn = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct world w;
        open_world(&w, seed);
        assert_int_equal(w.env->path_mkdir(w.env, "/data"), 0);
        assert_int_equal(w.env->path_sync(w.env, "/"), 0);
        cafka_env_file *file = open_file(&w, "/data/log");
        put(&w, file, "synced", 0);
        assert_int_equal(w.env->file_sync(w.env, file), 0);
        assert_int_equal(w.env->path_sync(w.env, "/data"), 0);
        put(&w, file, "1111", 6);
        put(&w, file, "2222", 10);
        assert_file_holds(&w, "/data/log", "synced11112222");

        sim_disk_crash(w.sim, "/data");
        assert_int_equal(w.env->file_read(w.env, file, &(char){0}, 1, 0),
                         -EIO); /* its process is gone */
        w.env->file_close(w.env, file);

        char *data;
        size_t size;
        assert_int_equal(env_read_file(w.env, "/data/log", 100, &data, &size, NULL), CAFKA_OK);
        assert_in_range(size, 6, 14);
        assert_memory_equal(data, "synced11112222", size);
        if ((size - 6) % 4)
            torn++;
        else
            lengths[(size - 6) / 4]++;
        mem_free(data);
        close_world(&w);
    }
    assert_true(lengths[0] > 10 && lengths[1] > 10 && lengths[2] > 10 && torn > 10);
}

static void name_that_was_not_synced_may_be_gone_or_old(void **state)
{
    (void)state;
    unsigned kept_old = 0, has_new = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct world w;
        open_world(&w, seed);
        cafka_error err = {0};
        assert_int_equal(env_mkdirs(w.env, "/data/1", &err), CAFKA_OK);
        assert_int_equal(w.env->path_sync(w.env, "/"), 0);
        assert_int_equal(w.env->path_sync(w.env, "/data"), 0);
        assert_int_equal(env_replace_file(w.env, "/data/1/checkpoint", "old", 3, &err), CAFKA_OK);
        cafka_env_file *file = open_file(&w, "/data/1/checkpoint.tmp");
        put(&w, file, "new", 0);
        assert_int_equal(w.env->file_sync(w.env, file), 0);
        w.env->file_close(w.env, file);
        assert_int_equal(w.env->path_rename(w.env, "/data/1/checkpoint.tmp", "/data/1/checkpoint"),
                         0);
        assert_file_holds(&w, "/data/1/checkpoint", "new");

        sim_disk_crash(w.sim, "/data");
        char *data;
        assert_int_equal(env_read_file(w.env, "/data/1/checkpoint", 100, &data, NULL, &err),
                         CAFKA_OK);
        kept_old += !strcmp(data, "old");
        has_new += !strcmp(data, "new");
        mem_free(data);
        close_world(&w);
    }
    assert_int_equal(kept_old + has_new, 60); /* never none, never half */
    assert_true(kept_old > 5 && has_new > 5);
}

static void replaced_file_survives_a_power_loss(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 30; seed++) {
        struct world w;
        open_world(&w, seed);
        cafka_error err = {0};
        assert_int_equal(env_replace_file(w.env, "/a", "one", 3, &err), CAFKA_OK);
        assert_int_equal(env_replace_file(w.env, "/a", "two", 3, &err), CAFKA_OK);
        sim_disk_crash(w.sim, "/");
        assert_file_holds(&w, "/a", "two");
        close_world(&w);
    }
}

static void old_writes_are_written_back_by_themselves(void **state)
{
    struct world *w = *state;
    cafka_env_file *file = open_file(w, "/log");
    put(w, file, "abc", 0);
    sim_advance_ms(w->sim, 31000);
    sim_disk_crash(w->sim, "/");
    w->env->file_close(w->env, file);
    assert_file_holds(w, "/log", "abc");
}

static void killed_process_leaves_all_that_it_wrote(void **state)
{
    struct world *w = *state;
    cafka_env_file *file = open_file(w, "/log");
    put(w, file, "abc", 0);
    assert_int_equal(w->env->file_lock(w->env, file), 0);
    sim_disk_kill(w->sim, "/");
    struct iovec piece = {(char[]){"x"}, 1};
    assert_int_equal(w->env->file_write(w->env, file, &piece, 1, 3), -EIO);
    cafka_env_file *again = open_file(w, "/log");
    assert_int_equal(w->env->file_lock(w->env, again), 0); /* the lock died with it */
    w->env->file_close(w->env, file);
    assert_int_equal(w->env->file_lock(w->env, again), 0);
    w->env->file_close(w->env, again);
    assert_file_holds(w, "/log", "abc");
}

static void mapping_and_file_are_the_same_bytes(void **state)
{
    struct world *w = *state;
    cafka_env_file *file = open_file(w, "/index");
    assert_int_equal(w->env->file_truncate(w->env, file, 10 << 20), 0);
    char *memory = w->env->file_map(w->env, file, 10 << 20);
    assert_non_null(memory);
    memcpy(memory + 100, "entry", 5);
    char bytes[5];
    assert_int_equal(w->env->file_read(w->env, file, bytes, 5, 100), 5);
    assert_memory_equal(bytes, "entry", 5);
    put(w, file, "ENTRY", 100);
    assert_memory_equal(memory + 100, "ENTRY", 5);
    assert_int_equal(w->env->file_sync(w->env, file), 0);
    memcpy(memory + 200, "lost?", 5);
    w->env->file_unmap(w->env, file, memory, 10 << 20);
    assert_int_equal(w->env->file_truncate(w->env, file, 105), 0);
    assert_int_equal(w->env->file_truncate(w->env, file, 300), 0);
    assert_int_equal(w->env->file_read(w->env, file, bytes, 5, 200), 5);
    assert_memory_equal(bytes, "\0\0\0\0\0", 5);
    assert_int_equal(w->env->file_read(w->env, file, bytes, 5, 100), 5);
    assert_memory_equal(bytes, "ENTRY", 5);
    assert_int_equal(w->env->path_sync(w->env, "/"), 0);
    char *again = w->env->file_map(w->env, file, 300);
    sim_disk_crash(w->sim, "/");
    assert_memory_equal(again + 100, "ENTRY", 5); /* the dead may still look */
    w->env->file_unmap(w->env, file, again, 300);
    w->env->file_close(w->env, file);
    file = open_file(w, "/index");
    assert_int_equal(w->env->file_read(w->env, file, bytes, 5, 100), 5);
    assert_memory_equal(bytes, "ENTRY", 5);
    w->env->file_close(w->env, file);
}

static void full_disk_takes_what_fits(void **state)
{
    struct world *w = *state;
    sim_disk_capacity(w->sim, 10);
    cafka_env_file *file = open_file(w, "/log");
    put(w, file, "12345678", 0);
    struct iovec piece = {(char[]){"abcd"}, 4};
    assert_int_equal(w->env->file_write(w->env, file, &piece, 1, 8), 2);
    assert_int_equal(w->env->file_write(w->env, file, &piece, 1, 10), -ENOSPC);
    assert_int_equal(w->env->file_write(w->env, file, &piece, 1, 4), 4); /* over what is there */
    assert_int_equal(w->env->file_truncate(w->env, file, 5), 0);
    assert_int_equal(sim_disk_used(w->sim), 5);
    put(w, file, "vwxyz", 5);
    w->env->file_close(w->env, file);
    assert_int_equal(w->env->path_remove(w->env, "/log"), 0);
    assert_int_equal(w->env->path_sync(w->env, "/"), 0);
    assert_int_equal(sim_disk_used(w->sim), 0);
}

static void asked_for_failures_come_where_they_were_asked_for(void **state)
{
    struct world *w = *state;
    cafka_error err = {0};
    assert_int_equal(env_mkdirs(w->env, "/a/b", &err), CAFKA_OK);
    assert_int_equal(env_mkdirs(w->env, "/ab", &err), CAFKA_OK);
    cafka_env_file *inside = open_file(w, "/a/b/log"), *outside = open_file(w, "/ab/log");
    assert_int_equal(sim_disk_fail(w->sim, "/a", SIM_DISK_SYNC, EDQUOT, 1, &err), CAFKA_OK);
    put(w, inside, "x", 0);
    assert_int_equal(w->env->file_sync(w->env, inside), -EDQUOT);
    assert_int_equal(w->env->file_sync(w->env, outside), 0);
    assert_int_equal(sim_disk_fail(w->sim, "/a", SIM_DISK_SYNC, 0, 0, &err), CAFKA_OK);
    assert_int_equal(w->env->file_sync(w->env, inside), 0);
    w->env->file_close(w->env, inside);
    w->env->file_close(w->env, outside);
}

static int append_name(void *user, const char *name)
{
    strcat(strcat(user, name), " ");
    return 0;
}

static void tree_of_files_behaves_like_one(void **state)
{
    struct world *w = *state;
    const cafka_env *env = w->env;
    cafka_error err = {0};
    cafka_file_info info;
    char names[100] = "";
    assert_int_equal(env_mkdirs(env, "/d/t-0", &err), CAFKA_OK);
    assert_int_equal(env_mkdirs(env, "/d/t-0", &err), CAFKA_OK);
    env->file_close(env, open_file(w, "/d/t-0/b"));
    env->file_close(env, open_file(w, "/d/t-0/a"));
    env->file_close(env, open_file(w, "/d/t-0/c"));
    assert_int_equal(env->path_list(env, "/d/t-0/", append_name, names), 0);
    assert_string_equal(names, "a b c ");

    assert_int_equal(env->path_mkdir(env, "/d"), -EEXIST);
    assert_int_equal(env->path_mkdir(env, "/x/y"), -ENOENT);
    assert_int_equal(env->path_remove(env, "/d/t-0"), -ENOTEMPTY);
    assert_int_equal(env->path_info(env, "/d/none", &info), -ENOENT);
    assert_int_equal(env->path_info(env, "/d/t-0/a/z", &info), -ENOTDIR);
    cafka_env_file *file;
    assert_int_equal(env->file_open(env, "/d/t-0/a", CAFKA_FILE_WRITE | CAFKA_FILE_EXCLUSIVE, &file),
                     -EEXIST);
    assert_int_equal(env->file_open(env, "/d/none", CAFKA_FILE_READ, &file), -ENOENT);
    assert_int_equal(env->file_open(env, "/d", CAFKA_FILE_READ, &file), -EISDIR);

    assert_int_equal(env->path_rename(env, "/d/t-0", "/d/t-0.deleted"), 0);
    assert_int_equal(env->path_rename(env, "/d", "/d/t-0.deleted/d"), -EINVAL);
    assert_int_equal(env->path_info(env, "/d/t-0/a", &info), -ENOENT);
    assert_int_equal(env->path_info(env, "/d/t-0.deleted/a", &info), 0);
    assert_int_equal(env->path_rename(env, "/d/t-0.deleted/a", "/moved"),
                     0); /* to the parent's parent */
    assert_int_equal(env->path_rename(env, "/moved", "/d/t-0.deleted/a"), 0);
    assert_int_equal(env_remove_tree(env, "/d", &err), CAFKA_OK);
    assert_int_equal(env->path_info(env, "/d", &info), -ENOENT);
}

int main(void)
{
#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_WORLD(waiting_for_an_hour_takes_no_time),
        WITH_WORLD(wall_clock_may_be_skewed_on_one_host),
        WITH_WORLD(waiting_for_what_can_not_come_is_reported),
        cmocka_unit_test(seed_replays_to_the_same_hash),
        cmocka_unit_test(seeds_interleave_differently),
        cmocka_unit_test(every_failing_allocation_of_a_world_is_an_error),
        WITH_WORLD(bytes_arrive_in_order_however_they_are_split_and_delayed),
        WITH_WORLD(latency_and_bandwidth_take_their_time),
        WITH_WORLD(cut_connection_is_reset_at_both_ends),
        WITH_WORLD(connection_may_end_at_both_ends),
        WITH_WORLD(what_was_sent_before_a_close_arrives),
        WITH_WORLD(port_without_listener_refuses),
        WITH_WORLD(silent_port_answers_once_it_is_opened),
        WITH_WORLD(partition_holds_bytes_until_it_is_healed),
        WITH_WORLD(names_resolve_to_what_was_said),
        cmocka_unit_test(synced_bytes_survive_a_power_loss_and_a_prefix_of_the_rest),
        cmocka_unit_test(name_that_was_not_synced_may_be_gone_or_old),
        cmocka_unit_test(replaced_file_survives_a_power_loss),
        WITH_WORLD(old_writes_are_written_back_by_themselves),
        WITH_WORLD(killed_process_leaves_all_that_it_wrote),
        WITH_WORLD(mapping_and_file_are_the_same_bytes),
        WITH_WORLD(full_disk_takes_what_fits),
        WITH_WORLD(asked_for_failures_come_where_they_were_asked_for),
        WITH_WORLD(tree_of_files_behaves_like_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
