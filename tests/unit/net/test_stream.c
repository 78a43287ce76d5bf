/*
 * test_stream.c - streams and frames over real sockets on loopback: what is written arrives, what
 * fails is told once, and everything may be freed at any time.
 */
#include "config.h"

#include "net_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/bytes.h"

static int open_net(void **state)
{
    struct net *net = mem_zalloc(sizeof *net);
    net_open(net, cafka_env_real());
    *state = net;
    return 0;
}

static int close_net(void **state)
{
    net_close(*state);
    mem_free(*state);
    return 0;
}

/* --- frames there and back --- */

static void echo_frames(struct end *end)
{
    cafka_error err = {0};
    struct frame *frame;
    int rc;
    while ((rc = frame_reader_next(&end->reader, end->stream, &frame, &err)) == CAFKA_OK && frame) {
        uint8_t prefix[4];
        store_be32(prefix, frame->size);
        assert_int_equal(stream_write_copy(end->stream, prefix, 4, &err), CAFKA_OK);
        assert_int_equal(stream_write_ref(end->stream, frame->data, frame->size,
                                          (stream_release_fn *)(void (*)(void))frame_unref, frame,
                                          &err),
                         CAFKA_OK);
    }
    if (!rc)
        stream_flush(end->stream);
}

struct expectation {
    struct rng sizes;
    unsigned received;
    uint64_t sum;
};

static uint32_t random_size(struct rng *rng)
{
    return (uint32_t)(rng_next(rng) >> (43 + rng_below(rng, 21))); /* 0 to 2 MiB, small ones often */
}

static void check_frames(struct end *end)
{
    struct expectation *e = end->user;
    cafka_error err = {0};
    struct frame *frame;
    int rc;
    while ((rc = frame_reader_next(&end->reader, end->stream, &frame, &err)) == CAFKA_OK && frame) {
        uint32_t size = random_size(&e->sizes);
        assert_int_equal(frame->size, size);
        for (uint32_t i = 0; i < size; i += 1 + size / 64)
            assert_int_equal(frame->data[i], (uint8_t)(i * 31 + e->received));
        e->received++;
        frame_unref(frame);
    }
    assert_int_equal(rc, CAFKA_OK);
}

static void frames_of_random_sizes_come_back_as_they_were_sent(void **state)
{
    struct net *net = *state;
    enum { COUNT = 400 };
    net_connect(net, 4 << 20);
    struct expectation e = {.received = 0};
    struct rng sizes;
    rng_seed(&sizes, 5);
    e.sizes = sizes;
    net->server.on_readable = echo_frames;
    net->client.on_readable = check_frames;
    net->client.user = &e;

    cafka_error err = {0};
    for (unsigned i = 0; i < COUNT; i++) {
        struct frame *frame;
        uint32_t size = random_size(&sizes);
        assert_int_equal(frame_new(&frame, net->pool, size, &err), CAFKA_OK);
        for (uint32_t k = 0; k < size; k++)
            frame->data[k] = (uint8_t)(k * 31 + i);
        uint8_t prefix[4];
        store_be32(prefix, size);
        assert_int_equal(stream_write_copy(net->client.stream, prefix, 4, &err), CAFKA_OK);
        if (i % 3)
            assert_int_equal(stream_write_ref(net->client.stream, frame->data, size,
                                              (stream_release_fn *)(void (*)(void))frame_unref,
                                              frame, &err),
                             CAFKA_OK);
        else {
            assert_int_equal(stream_write_copy(net->client.stream, frame->data, size, &err),
                             CAFKA_OK);
            frame_unref(frame);
        }
        if (i % 7 == 0)
            stream_flush(net->client.stream);
    }
    stream_flush(net->client.stream);
    run_until(net, e.received == COUNT);
    assert_true(net->client.drained);
    assert_int_equal(stream_unwritten(net->client.stream), 0);
    assert_int_equal(stream_unwritten(net->server.stream), 0);
}

/* One frame at a time, so that the reader keeps what it has read ahead. */
static void read_one_frame(struct end *end)
{
    cafka_error err = {0};
    struct frame *frame;
    assert_int_equal(frame_reader_next(&end->reader, end->stream, &frame, &err), CAFKA_OK);
    if (frame) {
        ++*(unsigned *)end->user;
        frame_unref(frame);
        stream_read_enable(end->stream, false);
    }
}

static void muted_stream_delivers_nothing_and_loses_nothing(void **state)
{
    struct net *net = *state;
    unsigned received = 0;
    net_connect(net, 1000);
    net->server.on_readable = read_one_frame;
    net->server.user = &received;
    cafka_error err = {0};
    static const uint8_t three[] = {0, 0, 0, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 2, 'b', 'c'};
    assert_int_equal(stream_write_copy(net->client.stream, three, sizeof three, &err), CAFKA_OK);
    stream_flush(net->client.stream);
    run_until(net, received == 1);
    (void)loop_run(net->loop, 20, &err);
    assert_int_equal(received, 1);

    struct frame *frame; /* the rest lies in the reader: no event will tell */
    assert_int_equal(frame_reader_next(&net->server.reader, net->server.stream, &frame, &err),
                     CAFKA_OK);
    assert_non_null(frame);
    assert_int_equal(frame->size, 0);
    frame_unref(frame);
    assert_int_equal(frame_reader_next(&net->server.reader, net->server.stream, &frame, &err),
                     CAFKA_OK);
    assert_non_null(frame);
    assert_memory_equal(frame->data, "bc", 2);
    frame_unref(frame);

    assert_int_equal(stream_write_copy(net->client.stream, three, 5, &err), CAFKA_OK);
    stream_flush(net->client.stream);
    stream_read_enable(net->server.stream, true);
    run_until(net, received == 2);
}

static void read_whole_frames(struct end *end)
{
    cafka_error err = {0};
    struct frame *frame;
    while (frame_reader_next(&end->reader, end->stream, &frame, &err) == CAFKA_OK && frame) {
        ++*(unsigned *)end->user;
        frame_unref(frame);
    }
}

static void fast_sender_leaves_the_loop_to_the_others_now_and_then(void **state)
{
    struct net *net = *state;
    enum { SIZE = 24 << 20 };
    net_connect(net, SIZE);
    uint8_t *bytes = mem_zalloc(4 + SIZE);
    store_be32(bytes, SIZE);
    unsigned received = 0;
    net->server.on_readable = read_whole_frames;
    net->server.user = &received;
    cafka_error err = {0};
    assert_int_equal(stream_write_ref(net->client.stream, bytes, 4 + SIZE, NULL, NULL, &err),
                     CAFKA_OK);
    stream_flush(net->client.stream);
    run_until(net, received == 1);
    assert_true(net->server.readable_count >= SIZE >> 22); /* a turn takes less than 4 MiB */
    mem_free(bytes);
}

/* --- sizes that are none --- */

static int announce(struct net *net, const void *prefix, size_t size, cafka_error *err)
{
    net_connect(net, 100 << 20);
    cafka_error ignored = {0};
    assert_int_equal(stream_write_copy(net->client.stream, prefix, size, &ignored), CAFKA_OK);
    stream_flush(net->client.stream);
    run_until(net, net->server.readable_count > 0);
    struct frame *frame;
    return frame_reader_next(&net->server.reader, net->server.stream, &frame, err);
}

static void size_of_two_gigabytes_is_refused(void **state)
{
    cafka_error err = {0};
    assert_int_equal(announce(*state, "\x7f\xff\xff\xff", 4, &err), CAFKA_ERR_PROTOCOL);
    assert_non_null(strstr(err.message, "2147483647"));
    assert_non_null(strstr(err.message, "104857600"));
}

static void negative_size_is_refused(void **state)
{
    cafka_error err = {0};
    assert_int_equal(announce(*state, "\xff\xff\xff\xff", 4, &err), CAFKA_ERR_PROTOCOL);
    assert_non_null(strstr(err.message, "-1"));
}

static void http_is_recognised(void **state)
{
    cafka_error err = {0};
    assert_int_equal(announce(*state, "HTTP/1.1 400 Bad Request\r\n", 26, &err), CAFKA_ERR_PROTOCOL);
    assert_non_null(strstr(err.message, "looks like HTTP"));
}

static void tls_is_recognised(void **state)
{
    cafka_error err = {0};
    assert_int_equal(announce(*state, "\x16\x03\x01\x02\x00\x01", 6, &err), CAFKA_ERR_PROTOCOL);
    assert_non_null(strstr(err.message, "looks like TLS"));
}

static void announced_size_takes_no_memory_before_its_bytes_come(void **state)
{
    struct net *net = *state;
    cafka_error err = {0};
    assert_int_equal(announce(net, "\x06\x00\x00\x00xyz", 7, &err), CAFKA_OK); /* 96 MiB */
    assert_non_null(net->server.reader.partial);
    assert_true(net->server.reader.partial->capacity <= 1 << 20);
}

/* --- pieces of files --- */

static void read_to_the_end(struct end *end)
{
    char bytes[4096];
    ssize_t n;
    while ((n = stream_read(end->stream, bytes, sizeof bytes)) > 0)
        if (end->user)
            *(size_t *)end->user += (size_t)n;
}

static void count_release(void *user)
{
    ++*(unsigned *)user;
}

static void sum_bytes(struct end *end)
{
    static uint8_t bytes[100000];
    ssize_t n;
    while ((n = stream_read(end->stream, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            struct expectation *e = end->user;
            assert_int_equal(bytes[i], (uint8_t)(e->sum % 251));
            e->sum++;
        }
}

static void pieces_of_a_file_leave_between_pieces_of_memory(void **state)
{
    struct net *net = *state;
    const cafka_env *env = net->env;
    enum { SIZE = 3000000, HEAD = 1000 };
    char path[] = "/tmp/cafka-stream-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    uint8_t *bytes = mem_alloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i % 251);
    assert_int_equal(write(fd, bytes, SIZE), SIZE);
    close(fd);
    cafka_env_file *file;
    assert_int_equal(env->file_open(env, path, CAFKA_FILE_READ, &file), 0);

    net_connect(net, 1 << 20);
    struct expectation e = {.sum = 0};
    net->server.on_readable = sum_bytes;
    net->server.user = &e;
    unsigned released = 0;
    cafka_error err = {0};
    struct stream *s = net->client.stream;
    assert_int_equal(stream_write_ref(s, bytes, HEAD, count_release, &released, &err), CAFKA_OK);
    assert_int_equal(stream_write_file(s, file, HEAD, 2000000, count_release, &released, &err),
                     CAFKA_OK);
    assert_int_equal(stream_write_file(s, file, 7, 0, count_release, &released, &err), CAFKA_OK);
    assert_int_equal(stream_write_ref(s, bytes + HEAD + 2000000, SIZE - HEAD - 2000000,
                                      count_release, &released, &err),
                     CAFKA_OK);
    assert_int_equal(stream_unwritten(s), SIZE);
    stream_flush(s);
    run_until(net, e.sum == SIZE);
    assert_int_equal(released, 4);

    /* A file that is shorter than promised ends the stream, since what follows can't be right. */
    net->server.on_readable = read_to_the_end;
    net->server.user = NULL;
    assert_int_equal(stream_write_file(s, file, SIZE - 10, 20, count_release, &released, &err),
                     CAFKA_OK);
    stream_flush(s);
    run_until(net, net->client.closed);
    assert_int_equal(released, 4); /* the piece is dropped with the stream */
    stream_free(s);
    net->client.stream = NULL;
    assert_int_equal(released, 5);
    env->file_close(env, file);
    mem_free(bytes);
    unlink(path);
}

/* --- failure --- */

static void refused_dial_says_where(void **state)
{
    struct net *net = *state;
    const cafka_env *env = net->env;
    cafka_address closed_port;
    int handle = env->listen(env, &net->address, 1, NULL); /* taken: fails */
    assert_true(handle < 0);
    cafka_address any;
    assert_true(address_parse("127.0.0.1", 0, &any));
    handle = env->listen(env, &any, 1, &closed_port);
    env->close(env, handle);

    cafka_error err = {0};
    int rc =
        stream_dial(&net->client.stream, net->loop, &closed_port, &end_events, &net->client, &err);
    if (!rc) {
        run_until(net, net->client.closed);
        err = net->client.error;
    }
    char expected[120], address[ADDRESS_TEXT_SIZE];
    address_text(&closed_port, address);
    snprintf(expected, sizeof expected, "connection to %s refused", address);
    assert_string_equal(err.message, expected);
    assert_int_equal(err.code, CAFKA_ERR_TRANSPORT);
    assert_true(err.flags & CAFKA_RETRIABLE);
    assert_false(net->client.connected);
}

static void end_of_the_peer_is_told_once(void **state)
{
    struct net *net = *state;
    net_connect(net, 1000);
    net->client.on_readable = read_to_the_end;
    stream_free(net->server.stream);
    net->server.stream = NULL;
    run_until(net, net->client.closed);
    assert_non_null(strstr(net->client.error.message, "closed by the peer"));
    assert_int_equal(stream_read(net->client.stream, &(char){0}, 1), -1);
    cafka_error err = {0};
    assert_int_equal(stream_write_copy(net->client.stream, "x", 1, &err), CAFKA_ERR_TRANSPORT);
    stream_flush(net->client.stream);
    assert_int_equal(loop_run(net->loop, 10, NULL), CAFKA_OK); /* end_closed() asserts "once" */
}

static void hang_up_during_a_large_write_closes(void **state)
{
    struct net *net = *state;
    enum { SIZE = 32 << 20 };
    net_connect(net, 1000);
    uint8_t *bytes = mem_zalloc(SIZE);
    unsigned released = 0;
    cafka_error err = {0};
    net->client.on_readable = read_to_the_end;
    assert_int_equal(stream_write_ref(net->client.stream, bytes, SIZE, count_release, &released,
                                      &err),
                     CAFKA_OK);
    stream_flush(net->client.stream);
    assert_true(stream_unwritten(net->client.stream) > 0);
    stream_reset(net->server.stream);
    net->server.stream = NULL;
    run_until(net, net->client.closed);
    assert_non_null(strstr(net->client.error.message, "the peer"));
    assert_int_equal(released, 0);
    stream_free(net->client.stream);
    net->client.stream = NULL;
    assert_int_equal(released, 1);
    mem_free(bytes);
}

/* A broker answers and hangs up; a request that we write meanwhile must not hide the answer. */
static void answer_before_a_hang_up_is_read_although_writing_fails(void **state)
{
    struct net *net = *state;
    net_connect(net, 1000);
    size_t received = 0;
    net->client.on_readable = read_to_the_end;
    net->client.user = &received;
    cafka_error err = {0};
    assert_int_equal(stream_write_copy(net->server.stream, "answer", 6, &err), CAFKA_OK);
    stream_flush(net->server.stream);
    stream_free(net->server.stream);
    net->server.stream = NULL;
    for (int i = 0; i < 3; i++) { /* the second and third write find the connection reset */
        assert_int_equal(stream_write_copy(net->client.stream, "more", 4, &err), CAFKA_OK);
        stream_flush(net->client.stream);
    }
    run_until(net, net->client.closed);
    assert_int_equal(received, 6);
}

/* --- freeing --- */

static void stream_may_be_freed_in_each_of_its_callbacks(void **state)
{
    struct net *net = *state;
    cafka_error err = {0};
    net->client.free_in_callback = true; /* in connected */
    assert_int_equal(stream_dial(&net->client.stream, net->loop, &net->address, &end_events,
                                 &net->client, &err),
                     CAFKA_OK);
    assert_int_equal(stream_write_copy(net->client.stream, "early", 5, &err), CAFKA_OK);
    run_until(net, net->client.connected && net->accepted >= 0);
    assert_null(net->client.stream);

    net->server.free_in_callback = true; /* in readable, at the end of the stream */
    net->server.on_readable = read_to_the_end;
    assert_int_equal(stream_adopt(&net->server.stream, net->loop, net->accepted, &end_events,
                                  &net->server, &err),
                     CAFKA_OK);
    net->accepted = -1;
    run_until(net, net->server.readable_count > 0);
    assert_null(net->server.stream);
    assert_false(net->server.closed); /* it was freed before that could be told */
}

static void stream_may_be_freed_when_it_has_drained_or_closed(void **state)
{
    struct net *net = *state;
    enum { SIZE = 16 << 20 };
    net_connect(net, 1000);
    uint8_t *bytes = mem_zalloc(SIZE);
    cafka_error err = {0};
    size_t received = 0;
    net->server.on_readable = read_to_the_end;
    net->server.user = &received;
    net->client.free_in_callback = true;
    net->server.free_when_closed = true;
    assert_int_equal(stream_write_ref(net->client.stream, bytes, SIZE, NULL, NULL, &err), CAFKA_OK);
    stream_flush(net->client.stream);
    assert_non_null(net->client.stream);
    run_until(net, net->client.drained);
    assert_null(net->client.stream);
    run_until(net, received == SIZE);
    mem_free(bytes);
    run_until(net, net->server.closed);
    assert_null(net->server.stream);
}

struct release_frees {
    struct end *end;
    unsigned released;
};

static void release_and_free(void *user)
{
    struct release_frees *r = user;
    r->released++;
    stream_free(r->end->stream);
    r->end->stream = NULL;
}

static void stream_may_be_freed_by_a_release_function(void **state)
{
    struct net *net = *state;
    net_connect(net, 1000);
    struct release_frees r = {.end = &net->client};
    unsigned released = 0;
    cafka_error err = {0};
    assert_int_equal(stream_write_ref(net->client.stream, "abc", 3, release_and_free, &r, &err),
                     CAFKA_OK);
    assert_int_equal(stream_write_ref(net->client.stream, "def", 3, count_release, &released, &err),
                     CAFKA_OK);
    stream_flush(net->client.stream);
    assert_int_equal(r.released, 1);
    assert_int_equal(released, 1);
    assert_null(net->client.stream);
}

/* --- steady state, and no memory --- */

static void steady_traffic_allocates_nothing(void **state)
{
    struct net *net = *state;
    net_connect(net, 1 << 20);
    unsigned received = 0;
    net->server.on_readable = read_whole_frames;
    net->server.user = &received;
    static uint8_t body[20000];
    cafka_error err = {0};
    for (unsigned i = 1; i <= 300; i++) {
        if (i == 100)
            mem_fail_after(0, 0); /* counts from here */
        uint8_t prefix[4];
        uint32_t size = i * 7919 % sizeof body;
        store_be32(prefix, size + 3);
        assert_int_equal(stream_write_copy(net->client.stream, prefix, 4, &err), CAFKA_OK);
        assert_int_equal(stream_write_copy(net->client.stream, "abc", 3, &err), CAFKA_OK);
        assert_int_equal(stream_write_ref(net->client.stream, body, size, NULL, NULL, &err),
                         CAFKA_OK);
        stream_flush(net->client.stream);
        run_until(net, received == i);
    }
    assert_int_equal(mem_count(), 0);
}

static void every_failing_allocation_is_an_error_and_leaks_nothing(void **state)
{
    struct net *net = *state;
    bool done = false;
    for (unsigned long k = 1; !done; k++) {
        cafka_error err = {0};
        mem_fail_after(k, 0);
        struct loop *loop = NULL;
        struct stream *stream = NULL;
        struct end end = {0};
        int rc = loop_new(&loop, net->env, k % 2 ? LOOP_EXTERNAL : LOOP_BACKGROUND, &err);
        if (rc)
            assert_int_equal(rc, err.code);
        if (!rc && loop_mode(loop) == LOOP_EXTERNAL) {
            rc = stream_dial(&stream, loop, &net->address, &end_events, &end, &err);
            if (!rc)
                rc = stream_write_copy(stream, "abc", 3, &err);
            if (!rc)
                rc = stream_write_ref(stream, "def", 3, NULL, NULL, &err);
            struct frame *frame = NULL;
            if (!rc)
                rc = frame_new(&frame, net->pool, 10, &err);
            frame_unref(frame);
            done = !rc && mem_count() < k;
        }
        mem_fail_after(0, 0);
        assert_true(rc == CAFKA_OK || rc == CAFKA_ERR_MEMORY || rc == CAFKA_ERR_SYSTEM);
        stream_free(stream);
        loop_unref(loop);
        assert_true(k < 100);
    }
}

int main(void)
{
#define WITH_NET(test) cmocka_unit_test_setup_teardown(test, open_net, close_net)
    const struct CMUnitTest tests[] = {
        WITH_NET(frames_of_random_sizes_come_back_as_they_were_sent),
        WITH_NET(muted_stream_delivers_nothing_and_loses_nothing),
        WITH_NET(fast_sender_leaves_the_loop_to_the_others_now_and_then),
        WITH_NET(size_of_two_gigabytes_is_refused),
        WITH_NET(negative_size_is_refused),
        WITH_NET(http_is_recognised),
        WITH_NET(tls_is_recognised),
        WITH_NET(announced_size_takes_no_memory_before_its_bytes_come),
        WITH_NET(pieces_of_a_file_leave_between_pieces_of_memory),
        WITH_NET(refused_dial_says_where),
        WITH_NET(end_of_the_peer_is_told_once),
        WITH_NET(hang_up_during_a_large_write_closes),
        WITH_NET(answer_before_a_hang_up_is_read_although_writing_fails),
        WITH_NET(stream_may_be_freed_in_each_of_its_callbacks),
        WITH_NET(stream_may_be_freed_when_it_has_drained_or_closed),
        WITH_NET(stream_may_be_freed_by_a_release_function),
        WITH_NET(steady_traffic_allocates_nothing),
        WITH_NET(every_failing_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
