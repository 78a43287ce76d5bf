/*
 * real.h - the parts of the real world, put together into one cafka_env by real.c.
 *
 * Each function has the contract of the member of struct cafka_env with the same name.
 * Thread: any.
 */
#ifndef CAFKA_ENV_REAL_H
#define CAFKA_ENV_REAL_H

#include <cafka/env.h>

/* real_thread.c */
int real_runner_start(const cafka_env *env, cafka_runner *runner);
void real_runner_stop(const cafka_env *env, cafka_runner *runner);
void real_resolve(const cafka_env *env, const char *host, uint16_t port, cafka_resolved_fn *done,
                  void *user);
int real_thread_is_ours(void); /* started here: all signals are blocked */

/* real_wait.c */
int real_poller_open(const cafka_env *env);
void real_poller_close(const cafka_env *env, int poller);
int real_poller_set(const cafka_env *env, int poller, int handle, unsigned events, void *user);
int real_poller_wait(const cafka_env *env, int poller, cafka_poll_event *out, int max,
                     int64_t deadline);
void real_poller_wake(const cafka_env *env, int poller);
int real_poller_fd(const cafka_env *env, int poller);
int real_event_open(const cafka_env *env);
void real_event_close(const cafka_env *env, int event);
void real_event_signal(const cafka_env *env, int event);
int real_event_wait(const cafka_env *env, int event, int64_t deadline);
int real_event_clear(const cafka_env *env, int event);
int real_event_fd(const cafka_env *env, int event);
int real_event_wait_either(const cafka_env *env, int event, int other, int64_t deadline);

/* real_fork.c */
void real_socket_watched(int fd, int poller); /* it is that poller's from now on */
void real_socket_closed(int fd);              /* before close() */
void real_poller_abandon(const cafka_env *env, int poller);

/* real_socket.c */
int real_dial(const cafka_env *env, const cafka_address *to);
int real_dial_with(const cafka_env *env, const cafka_address *to, const cafka_dial_options *options);
int real_dial_result(const cafka_env *env, int handle);
int real_listen(const cafka_env *env, const cafka_address *on, int backlog, cafka_address *bound);
int real_accept(const cafka_env *env, int listener, cafka_address *from);
ssize_t real_recv(const cafka_env *env, int handle, void *into, size_t size);
ssize_t real_send(const cafka_env *env, int handle, const struct iovec *pieces, int count);
ssize_t real_send_file(const cafka_env *env, int handle, cafka_env_file *file, int64_t offset,
                       size_t size);
int real_peer(const cafka_env *env, int handle, cafka_address *out);
void real_reset(const cafka_env *env, int handle);
void real_close(const cafka_env *env, int handle);

/* real_file.c */
struct cafka_env_file {
    int fd;
};
int real_file_open(const cafka_env *env, const char *path, unsigned flags, cafka_env_file **out);
void real_file_close(const cafka_env *env, cafka_env_file *file);
ssize_t real_file_read(const cafka_env *env, cafka_env_file *file, void *into, size_t size,
                       int64_t offset);
ssize_t real_file_write(const cafka_env *env, cafka_env_file *file, const struct iovec *pieces,
                        int count, int64_t offset);
int64_t real_file_size(const cafka_env *env, cafka_env_file *file);
int real_file_truncate(const cafka_env *env, cafka_env_file *file, int64_t size);
int real_file_allocate(const cafka_env *env, cafka_env_file *file, int64_t size);
int real_file_sync(const cafka_env *env, cafka_env_file *file);
void *real_file_map(const cafka_env *env, cafka_env_file *file, size_t size);
void real_file_unmap(const cafka_env *env, cafka_env_file *file, void *memory, size_t size);
int real_file_lock(const cafka_env *env, cafka_env_file *file);
int real_file_set_mtime(const cafka_env *env, cafka_env_file *file, int64_t mtime_ms);
int real_path_info(const cafka_env *env, const char *path, cafka_file_info *out);
int real_path_rename(const cafka_env *env, const char *from, const char *to);
int real_path_remove(const cafka_env *env, const char *path);
int real_path_mkdir(const cafka_env *env, const char *path);
int real_path_sync(const cafka_env *env, const char *directory);
int real_path_list(const cafka_env *env, const char *directory,
                   int (*each)(void *user, const char *name), void *user);

#endif
