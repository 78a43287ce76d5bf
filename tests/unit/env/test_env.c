/*
 * test_env.c - the real world does what env.h says: addresses, files, names, events, sockets.
 */
#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "env/env.h"
#include "util/alloc.h"

static const cafka_env *env;

static int make_directory(void **state)
{
    char template[] = "/tmp/cafka-env-XXXXXX";
    *state = mem_strdup(mkdtemp(template));
    return *state ? 0 : -1;
}

static int remove_directory(void **state)
{
    int rc = env_remove_tree(env, *state, NULL);
    mem_free(*state);
    return rc;
}

static const char *in(void **state, const char *name)
{
    static char paths[4][300];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", (char *)*state, name);
    return path;
}

/* --- clock and chance --- */

static void clocks_agree_with_the_system(void **state)
{
    (void)state;
    int64_t first = env->now(env), second = env->now(env);
    assert_true(second >= first);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t wall = t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
    assert_in_range(env->wall_ms(env) - wall + 1000, 900, 1100);
}

static void chance_does_not_repeat_in_a_forked_child(void **state)
{
    (void)state;
    uint64_t seen[100];
    for (int i = 0; i < 100; i++) {
        seen[i] = env->random(env);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(seen[i], seen[k]);
    }
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    if (!child) {
        uint64_t drawn = env->random(env);
        _exit(write(fds[1], &drawn, sizeof drawn) != sizeof drawn);
    }
    uint64_t theirs, ours = env->random(env);
    assert_int_equal(read(fds[0], &theirs, sizeof theirs), sizeof theirs);
    assert_int_not_equal(theirs, ours);
    waitpid(child, NULL, 0);
    close(fds[0]);
    close(fds[1]);
}

/* --- addresses --- */

static void addresses_are_told_from_names(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
    } good[] = {
        {"127.0.0.1", "127.0.0.1:9092"},
        {"10.255.0.1", "10.255.0.1:9092"},
        {"::1", "[::1]:9092"},
        {"[::1]", "[::1]:9092"},
        {"2001:DB8::5", "[2001:db8::5]:9092"},
        {"fe80::1%7", "[fe80::1%7]:9092"},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cafka_address address;
        char text[ADDRESS_TEXT_SIZE];
        assert_true(address_parse(good[i].text, 9092, &address));
        address_text(&address, text);
        assert_string_equal(text, good[i].canonical);
    }
    static const char *const bad[] = {"",          "localhost",
                                      "127.0.0",   "1.2.3.4.5",
                                      "256.1.1.1", "[::1",
                                      "[]",        "::g",
                                      "fe80::1%",  "fe80::1%no-such-interface",
                                      "127.0.0.1 "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cafka_address address = {.port = 1};
        assert_false(address_parse(bad[i], 9092, &address));
        assert_int_equal(address.port, 1);
    }
    char text[ADDRESS_TEXT_SIZE];
    address_text(&(cafka_address){.family = 0}, text);
    assert_string_equal(text, "(unknown)");
}

struct answer {
    int event, error;
    size_t count;
    cafka_address first;
};

static void keep_answer(void *user, int error, const cafka_address *addresses, size_t count)
{
    struct answer *answer = user;
    answer->error = error;
    answer->count = count;
    if (count)
        answer->first = addresses[0];
    env->event_signal(env, answer->event);
}

/* By its name: a sanitizer has threads of its own. Where there is no /proc, there is none to be seen. */
static int is_resolver(void *user, const char *task)
{
    char path[100], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
    FILE *file = fopen(path, "r");
    if (file) {
        if (!fgets(name, sizeof name, file))
            name[0] = '\0';
        fclose(file);
    }
    bool found = !strcmp(name, "cafka-resolver\n");
    *(bool *)user |= found;
    return found;
}

static bool resolver_lives(void)
{
    bool found = false;
    (void)env->path_list(env, "/proc/self/task", is_resolver, &found);
    return found;
}

static void names_are_resolved_beside_and_addresses_at_once(void **state)
{
    (void)state;
    struct answer answer = {.event = env->event_open(env)};
    env->resolve(env, "10.0.0.7", 99, keep_answer, &answer);
    assert_int_equal(env->event_clear(env, answer.event), 1);
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.first.port, 99);

    env->resolve(env, "localhost", 42, keep_answer, &answer);
    assert_int_equal(env->event_wait(env, answer.event, CAFKA_NEVER), 1);
    assert_int_equal(answer.error, 0);
    assert_true(answer.count >= 1);
    assert_int_equal(answer.first.port, 42);

    env->resolve(env, "no such name", 42, keep_answer, &answer);
    assert_int_equal(env->event_wait(env, answer.event, CAFKA_NEVER), 1);
    assert_true(answer.error < 0);
    assert_int_equal(answer.count, 0);

    int64_t patience = env->now(env) + 10000 * NS_PER_MS;
    while (resolver_lives() && env->now(env) < patience)
        (void)env->event_wait(env, answer.event, env->now(env) + NS_PER_MS);
    assert_false(resolver_lives()); /* no thread stays behind */
    env->event_close(env, answer.event);
}

/* --- events --- */

static void check_two_events(const cafka_env *world)
{
    int one = world->event_open(world), two = world->event_open(world);
    world->event_signal(world, two);
    assert_int_equal(env_wait_either(world, one, two, CAFKA_NEVER), 2);
    world->event_signal(world, one);
    assert_int_equal(env_wait_either(world, one, two, CAFKA_NEVER), 1);
    int64_t deadline = world->now(world) + NS_PER_MS;
    assert_int_equal(env_wait_either(world, one, two, deadline), 0);
    assert_true(world->now(world) >= deadline);
    world->event_close(world, one);
    world->event_close(world, two);
}

static void a_wait_for_two_events_says_which_came(void **state)
{
    (void)state;
    cafka_env older = *env; /* of a program that was built before there was such a function */
    older.size = offsetof(cafka_env, dial_with);
    check_two_events(env);
    check_two_events(&older);
}

static void event_is_taken_once_and_waits_no_longer_than_asked(void **state)
{
    (void)state;
    int event = env->event_open(env);
    assert_int_equal(env->event_clear(env, event), 0);
    env->event_signal(env, event);
    env->event_signal(env, event);
    assert_int_equal(env->event_wait(env, event, 0), 1);
    int64_t deadline = env->now(env) + 3 * NS_PER_MS;
    assert_int_equal(env->event_wait(env, event, deadline), 0);
    assert_true(env->now(env) >= deadline);
    for (int i = 0; i < 100000; i++) /* more than a pipe holds */
        env->event_signal(env, event);
    assert_int_equal(env->event_clear(env, event), 1);
    assert_int_equal(env->event_clear(env, event), 0);
    env->event_close(env, event);
}

static int interrupted_event;
static volatile sig_atomic_t interruptions;

static void interrupt(int signal)
{
    (void)signal;
    if (++interruptions == 3)
        env->event_signal(env, interrupted_event);
}

static void interrupted_wait_goes_on_and_a_handler_may_signal(void **state)
{
    (void)state;
    interrupted_event = env->event_open(env);
    struct sigaction action = {.sa_handler = interrupt}, before;
    sigaction(SIGALRM, &action, &before);
    timer_t timer;
    struct sigevent how = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    assert_int_equal(timer_create(CLOCK_MONOTONIC, &how, &timer), 0);
    struct itimerspec every = {.it_value.tv_nsec = 2000000, .it_interval.tv_nsec = 2000000};
    timer_settime(timer, 0, &every, NULL);
    assert_int_equal(env->event_wait(env, interrupted_event, CAFKA_NEVER), 1);
    assert_true(interruptions >= 3);
    timer_delete(timer);
    sigaction(SIGALRM, &before, NULL);
    env->event_close(env, interrupted_event);
}

/* --- files --- */

static void whole_files_are_read_and_replaced(void **state)
{
    cafka_error err = {0};
    char *data;
    size_t size;
    const char *path = in(state, "meta.properties");
    assert_int_equal(env_read_file(env, path, 100, &data, &size, &err), CAFKA_ERR_IO);
    assert_non_null(strstr(err.message, "meta.properties"));
    assert_int_equal(env_replace_file(env, path, "version=1\n", 10, NULL), CAFKA_OK);
    assert_int_equal(env_replace_file(env, path, "v=2", 3, NULL), CAFKA_OK);
    assert_int_equal(env_read_file(env, path, 100, &data, &size, NULL), CAFKA_OK);
    assert_int_equal(size, 3);
    assert_string_equal(data, "v=2");
    mem_free(data);
    error_clear(&err);
    assert_int_equal(env_read_file(env, path, 2, &data, &size, &err), CAFKA_ERR_TOO_LARGE);
    cafka_file_info info;
    assert_int_equal(env->path_info(env, in(state, "meta.properties.tmp"), &info), -ENOENT);
    error_clear(&err);
    assert_int_equal(env_replace_file(env, in(state, "no/such/directory"), "x", 1, &err),
                     CAFKA_ERR_IO);
}

static int append_name(void *user, const char *name)
{
    strcat(strcat(user, name), " ");
    return strchr(name, '!') != NULL;
}

static void directories_are_made_listed_in_order_and_removed(void **state)
{
    cafka_error err = {0};
    assert_int_equal(env_mkdirs(env, in(state, "a/b//c/"), &err), CAFKA_OK);
    assert_int_equal(env_mkdirs(env, in(state, "a/b/c"), &err), CAFKA_OK);
    static const char *const names[] = {"a/zz", "a/10", "a/9", "a/b/c/file"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(env_replace_file(env, in(state, names[i]), "", 0, &err), CAFKA_OK);
    char listed[100] = "";
    assert_int_equal(env->path_list(env, in(state, "a"), append_name, listed), 0);
    assert_string_equal(listed, "10 9 b zz ");
    assert_int_equal(env_mkdirs(env, in(state, "a/9/x"), &err), CAFKA_ERR_IO);
    error_clear(&err);
    assert_int_equal(env->path_remove(env, in(state, "a")), -ENOTEMPTY);
    assert_int_equal(env_remove_tree(env, in(state, "a"), &err), CAFKA_OK);
    assert_int_equal(env_remove_tree(env, in(state, "a"), &err), CAFKA_OK); /* not there: done */
    cafka_file_info info;
    assert_int_equal(env->path_info(env, in(state, "a"), &info), -ENOENT);
    assert_int_equal(env->path_list(env, in(state, "a"), append_name, listed), -ENOENT);
}

static void link_to_a_directory_is_removed_and_not_what_it_points_to(void **state)
{
    cafka_error err = {0};
    assert_int_equal(env_mkdirs(env, in(state, "kept"), &err), CAFKA_OK);
    assert_int_equal(env_replace_file(env, in(state, "kept/file"), "x", 1, &err), CAFKA_OK);
    assert_int_equal(env_mkdirs(env, in(state, "tree"), &err), CAFKA_OK);
    assert_int_equal(symlink(in(state, "kept"), in(state, "tree/link")), 0);
    assert_int_equal(env_remove_tree(env, in(state, "tree"), &err), CAFKA_OK);
    cafka_file_info info;
    assert_int_equal(env->path_info(env, in(state, "kept/file"), &info), 0);
}

static void file_is_written_mapped_truncated_and_locked(void **state)
{
    const char *path = in(state, "file");
    cafka_env_file *file, *second;
    assert_int_equal(env->file_open(env, path, CAFKA_FILE_READ, &file), -ENOENT);
    unsigned flags = CAFKA_FILE_READ | CAFKA_FILE_WRITE;
    assert_int_equal(env->file_open(env, path, flags | CAFKA_FILE_CREATE, &file), 0);
    assert_int_equal(env->file_open(env, path, flags | CAFKA_FILE_EXCLUSIVE, &second), -EEXIST);
    struct iovec pieces[2] = {{(char[]){"abc"}, 3}, {(char[]){"defg"}, 4}};
    assert_int_equal(env->file_write(env, file, pieces, 2, 10), 7);
    assert_int_equal(env->file_size(env, file), 17);
    assert_int_equal(env->file_allocate(env, file, 1 << 16), 0);
    assert_int_equal(env->file_size(env, file), 17);
    char bytes[20];
    assert_int_equal(env->file_read(env, file, bytes, sizeof bytes, 9), 8);
    assert_memory_equal(bytes, "\0abcdefg", 8);
    assert_int_equal(env->file_read(env, file, bytes, sizeof bytes, 17), 0);

    assert_int_equal(env->file_truncate(env, file, 8192), 0);
    char *memory = env->file_map(env, file, 8192);
    assert_non_null(memory);
    memcpy(memory + 8000, "mapped", 6);
    assert_int_equal(env->file_read(env, file, bytes, 6, 8000), 6);
    assert_memory_equal(bytes, "mapped", 6);
    env->file_unmap(env, file, memory, 8192);
    assert_int_equal(env->file_sync(env, file), 0);
    assert_int_equal(env->path_sync(env, *state), 0);

    assert_int_equal(env->file_set_mtime(env, file, 1234567890123), 0);
    cafka_file_info info;
    assert_int_equal(env->path_info(env, path, &info), 0);
    assert_int_equal(info.mtime_ms, 1234567890123);
    assert_int_equal(info.size, 8192);
    assert_false(info.is_directory);

    assert_int_equal(env->file_open(env, path, flags, &second), 0);
    assert_int_equal(env->file_lock(env, file), 0);
    assert_int_equal(env->file_lock(env, second), -EWOULDBLOCK);
    env->file_close(env, file);
    assert_int_equal(env->file_lock(env, second), 0);
    env->file_close(env, second);
    assert_int_equal(env->file_open(env, path, flags | CAFKA_FILE_TRUNCATE, &file), 0);
    assert_int_equal(env->file_size(env, file), 0);
    env->file_close(env, file);
    assert_int_equal(env->path_rename(env, path, in(state, "other")), 0);
    assert_int_equal(env->path_info(env, path, &info), -ENOENT);
}

/* --- sockets --- */

static int connect_pair(int handles[2], cafka_address *from)
{
    cafka_address address;
    assert_true(address_parse("127.0.0.1", 0, &address));
    int listener = env->listen(env, &address, 5, &address);
    assert_true(listener >= 0);
    assert_int_equal(env->accept(env, listener, NULL), -EAGAIN);
    handles[0] = env->dial(env, &address);
    assert_true(handles[0] >= 0);
    while ((handles[1] = env->accept(env, listener, from)) == -EAGAIN)
        ;
    while (env->dial_result(env, handles[0]) == -EINPROGRESS)
        ;
    assert_int_equal(env->dial_result(env, handles[0]), 0);
    return listener;
}

static int buffer_of(int handle, int option)
{
    int value = 0;
    socklen_t size = sizeof value;
    assert_int_equal(getsockopt(handle, SOL_SOCKET, option, &value, &size), 0);
    return value;
}

static void a_socket_gets_the_buffers_that_are_asked_for(void **state)
{
    (void)state;
    cafka_address address = {.ip = {127, 0, 0, 1}, .family = 4};
    cafka_dial_options options = {.size = sizeof options,
                                  .send_buffer_bytes = 20000,
                                  .receive_buffer_bytes = 10000};
    int listener = env->listen(env, &address, 5, &address);
    int plain = env->dial(env, &address), sized = env->dial_with(env, &address, &options);
    assert_true(listener >= 0 && plain >= 0 && sized >= 0);
    /* Linux doubles what is asked for, to have room for its own needs. */
    assert_in_range(buffer_of(sized, SO_SNDBUF), 20000, 40000);
    assert_in_range(buffer_of(sized, SO_RCVBUF), 10000, 20000);
    assert_int_not_equal(buffer_of(plain, SO_SNDBUF), buffer_of(sized, SO_SNDBUF));
    env->close(env, plain);
    env->close(env, sized);
    env->close(env, listener);
}

static void sockets_do_not_block_and_tell_their_peers(void **state)
{
    (void)state;
    int pair[2];
    cafka_address from, peer;
    int listener = connect_pair(pair, &from);
    assert_int_equal(env->peer(env, pair[1], &peer), 0);
    assert_memory_equal(&peer, &from, sizeof peer);
    char bytes[10];
    assert_int_equal(env->recv(env, pair[0], bytes, sizeof bytes), -EAGAIN);
    struct iovec pieces[2] = {{(char[]){"ab"}, 2}, {(char[]){"c"}, 1}};
    assert_int_equal(env->send(env, pair[1], pieces, 2), 3);
    ssize_t got;
    while ((got = env->recv(env, pair[0], bytes, sizeof bytes)) == -EAGAIN)
        ;
    assert_int_equal(got, 3);
    env->reset(env, pair[1]);
    while ((got = env->recv(env, pair[0], bytes, sizeof bytes)) == -EAGAIN)
        ;
    assert_int_equal(got, -ECONNRESET);
    env->close(env, pair[0]);
    env->close(env, listener);
}

/* sendfile() has no MSG_NOSIGNAL; the application's SIGPIPE must not come from us. */
static void file_sent_to_nobody_raises_no_sigpipe(void **state)
{
    struct sigaction standard = {.sa_handler = SIG_DFL}, before;
    sigaction(SIGPIPE, &standard, &before);
    int pair[2];
    int listener = connect_pair(pair, NULL);
    cafka_error err = {0};
    const char *path = in(state, "file");
    assert_int_equal(env_replace_file(env, path, "0123456789", 10, &err), CAFKA_OK);
    cafka_env_file *file;
    assert_int_equal(env->file_open(env, path, CAFKA_FILE_READ, &file), 0);
    assert_int_equal(env->send_file(env, pair[0], file, 3, 4), 4);
    char bytes[10];
    ssize_t got;
    while ((got = env->recv(env, pair[1], bytes, sizeof bytes)) == -EAGAIN)
        ;
    assert_int_equal(got, 4);
    assert_memory_equal(bytes, "3456", 4);
    env->reset(env, pair[1]);
    ssize_t sent;
    while ((sent = env->send_file(env, pair[0], file, 0, 10)) >= 0)
        ;
    while ((sent = env->send_file(env, pair[0], file, 0, 10)) != -EPIPE)
        assert_true(sent < 0);
    sigset_t pending;
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
    sigaction(SIGPIPE, &before, NULL);
    env->file_close(env, file);
    env->close(env, pair[0]);
    env->close(env, listener);
}

static void descriptors_are_all_closed_in_the_end(void **state)
{
    (void)state;
    int before = dup(0);
    close(before);
    for (int i = 0; i < 10; i++) {
        int poller = env->poller_open(env), event = env->event_open(env), pair[2];
        int listener = connect_pair(pair, NULL);
        assert_int_equal(env->poller_set(env, poller, pair[0], CAFKA_WRITABLE, &pair[0]), 0);
        cafka_poll_event seen[4];
        assert_int_equal(env->poller_wait(env, poller, seen, 4, CAFKA_NEVER), 1);
        assert_ptr_equal(seen[0].user, &pair[0]);
        assert_int_equal(env->poller_set(env, poller, pair[0], 0, NULL), 0);
        env->poller_wake(env, poller);
        assert_int_equal(env->poller_wait(env, poller, seen, 4, CAFKA_NEVER), 0);
        assert_int_equal(env->poller_wait(env, poller, seen, 4, 0), 0);
        env->close(env, pair[0]);
        env->close(env, pair[1]);
        env->close(env, listener);
        env->poller_close(env, poller);
        env->event_close(env, event);
    }
    int after = dup(0);
    close(after);
    assert_int_equal(after, before);
}

int main(void)
{
    env = cafka_env_real();
#define IN_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, make_directory, remove_directory)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_agree_with_the_system),
        cmocka_unit_test(chance_does_not_repeat_in_a_forked_child),
        cmocka_unit_test(addresses_are_told_from_names),
        cmocka_unit_test(names_are_resolved_beside_and_addresses_at_once),
        cmocka_unit_test(event_is_taken_once_and_waits_no_longer_than_asked),
        cmocka_unit_test(interrupted_wait_goes_on_and_a_handler_may_signal),
        IN_DIRECTORY(whole_files_are_read_and_replaced),
        IN_DIRECTORY(directories_are_made_listed_in_order_and_removed),
        IN_DIRECTORY(link_to_a_directory_is_removed_and_not_what_it_points_to),
        IN_DIRECTORY(file_is_written_mapped_truncated_and_locked),
        cmocka_unit_test(a_socket_gets_the_buffers_that_are_asked_for),
        cmocka_unit_test(a_wait_for_two_events_says_which_came),
        cmocka_unit_test(sockets_do_not_block_and_tell_their_peers),
        IN_DIRECTORY(file_sent_to_nobody_raises_no_sigpipe),
        cmocka_unit_test(descriptors_are_all_closed_in_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
