/*
 * real_socket.c - sockets of the real world: never blocking, closed on exec, no delay, no SIGPIPE.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_SENDFILE
#include <sys/sendfile.h>
#endif

#include "env/real.h"

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Returns its length; 0: no address. */
static socklen_t to_system(const cafka_address *from, union any_address *to)
{
    memset(to, 0, sizeof *to);
    if (from->family == 4) {
        to->v4.sin_family = AF_INET;
        to->v4.sin_port = htons(from->port);
        memcpy(&to->v4.sin_addr, from->ip, 4);
        return sizeof to->v4;
    }
    if (from->family == 6) {
        to->v6.sin6_family = AF_INET6;
        to->v6.sin6_port = htons(from->port);
        to->v6.sin6_scope_id = from->scope;
        memcpy(&to->v6.sin6_addr, from->ip, 16);
        return sizeof to->v6;
    }
    return 0;
}

static void from_system(const union any_address *from, cafka_address *to)
{
    memset(to, 0, sizeof *to);
    if (from->any.sa_family == AF_INET) {
        to->family = 4;
        to->port = ntohs(from->v4.sin_port);
        memcpy(to->ip, &from->v4.sin_addr, 4);
    } else if (from->any.sa_family == AF_INET6) {
        to->family = 6;
        to->port = ntohs(from->v6.sin6_port);
        to->scope = from->v6.sin6_scope_id;
        memcpy(to->ip, &from->v6.sin6_addr, 16);
    }
}

static int open_socket(const union any_address *address)
{
    int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

static void set_option(int fd, int level, int option)
{
    int on = 1;
    (void)setsockopt(fd, level, option, &on, sizeof on); /* it works without, only less well */
}

static int close_with(int fd, int result)
{
    close(fd);
    return result;
}

/* Before connect(), since the window that TCP can offer later is agreed on there. */
static void set_buffers(int fd, const cafka_dial_options *options)
{
    if (options->send_buffer_bytes > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &options->send_buffer_bytes,
                         sizeof options->send_buffer_bytes);
    if (options->receive_buffer_bytes > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &options->receive_buffer_bytes,
                         sizeof options->receive_buffer_bytes);
}

int real_dial(const cafka_env *env, const cafka_address *to)
{
    return real_dial_with(env, to, &(cafka_dial_options){.size = sizeof(cafka_dial_options)});
}

int real_dial_with(const cafka_env *env, const cafka_address *to, const cafka_dial_options *options)
{
    (void)env;
    union any_address address;
    socklen_t size = to_system(to, &address);
    if (!size)
        return -EAFNOSUPPORT;
    int fd = open_socket(&address);
    if (fd < 0)
        return fd;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE);
    set_buffers(fd, options);
    if (connect(fd, &address.any, size) < 0 && errno != EINPROGRESS && errno != EINTR)
        return close_with(fd, -errno);
    return fd;
}

int real_dial_result(const cafka_env *env, int handle)
{
    (void)env;
    struct pollfd p = {.fd = handle, .events = POLLOUT};
    if (poll(&p, 1, 0) <= 0)
        return -EINPROGRESS;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return -errno;
    return -error;
}

int real_listen(const cafka_env *env, const cafka_address *on, int backlog, cafka_address *bound)
{
    (void)env;
    union any_address address;
    socklen_t size = to_system(on, &address);
    if (!size)
        return -EAFNOSUPPORT;
    int fd = open_socket(&address);
    if (fd < 0)
        return fd;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR);
    if (on->family == 6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    if (bind(fd, &address.any, size) < 0 || listen(fd, backlog) < 0)
        return close_with(fd, -errno);
    if (bound) {
        size = sizeof address;
        if (getsockname(fd, &address.any, &size) < 0)
            return close_with(fd, -errno);
        from_system(&address, bound);
    }
    return fd;
}

int real_accept(const cafka_env *env, int listener, cafka_address *from)
{
    (void)env;
    union any_address address = {.any.sa_family = AF_UNSPEC};
    socklen_t size = sizeof address;
    int fd;
    do
        fd = accept4(listener, &address.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0)
        return -errno;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE);
    if (from)
        from_system(&address, from);
    return fd;
}

ssize_t real_recv(const cafka_env *env, int handle, void *into, size_t size)
{
    (void)env;
    ssize_t n;
    do
        n = recv(handle, into, size, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t real_send(const cafka_env *env, int handle, const struct iovec *pieces, int count)
{
    (void)env;
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)pieces,
                             .msg_iovlen = (size_t)count};
    ssize_t n;
    do
        n = sendmsg(handle, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static ssize_t read_and_send(const cafka_env *env, int handle, cafka_env_file *file, int64_t offset,
                             size_t size)
{
    char bytes[16 * 1024];
    ssize_t got =
        real_file_read(env, file, bytes, size < sizeof bytes ? size : sizeof bytes, offset);
    if (got <= 0)
        return got;
    return real_send(env, handle, &(struct iovec){bytes, (size_t)got}, 1);
}

#ifdef HAVE_SENDFILE
static ssize_t send_file_once(int handle, cafka_env_file *file, int64_t offset, size_t size)
{
    ssize_t n;
    do {
        off_t at = (off_t)offset;
        n = sendfile(handle, file->fd, &at, size);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

/* sendfile() knows no MSG_NOSIGNAL. On a thread of the application SIGPIPE is held back around it. */
static ssize_t send_file_quietly(int handle, cafka_env_file *file, int64_t offset, size_t size)
{
    sigset_t sigpipe, before, pending;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    int was_pending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe, &before);
    ssize_t n = send_file_once(handle, file, offset, size);
    if (n == -EPIPE && !was_pending)
        (void)sigtimedwait(&sigpipe, NULL, &(struct timespec){0, 0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n;
}
#endif

ssize_t real_send_file(const cafka_env *env, int handle, cafka_env_file *file, int64_t offset,
                       size_t size)
{
#ifdef HAVE_SENDFILE
    ssize_t n = real_thread_is_ours() ? send_file_once(handle, file, offset, size)
                                      : send_file_quietly(handle, file, offset, size);
    if (n != -EINVAL && n != -ENOSYS)
        return n;
#endif
    return read_and_send(env, handle, file, offset, size);
}

int real_peer(const cafka_env *env, int handle, cafka_address *out)
{
    (void)env;
    union any_address address = {.any.sa_family = AF_UNSPEC};
    socklen_t size = sizeof address;
    if (getpeername(handle, &address.any, &size) < 0)
        return -errno;
    from_system(&address, out);
    return 0;
}

void real_reset(const cafka_env *env, int handle)
{
    (void)env;
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(handle, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    real_socket_closed(handle);
    close(handle);
}

void real_close(const cafka_env *env, int handle)
{
    (void)env;
    real_socket_closed(handle);
    close(handle);
}
