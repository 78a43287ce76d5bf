/*
 * real_wait.c - waiting in the real world: pollers and events.
 *
 * With epoll a poller is an epoll descriptor, an eventfd for its wake-ups, and a timerfd for
 * deadlines that are less than milliseconds away, if there ever is one; without, a table for
 * poll() and a pipe. An event is an eventfd or a pipe. What is more than one descriptor has a
 * number in a table whose reading side takes no lock, so that it works in signal handlers.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#ifdef HAVE_EPOLL
#include <sys/epoll.h>
#include <sys/eventfd.h>
#ifdef HAVE_SYS_TIMERFD_H
#include <sys/timerfd.h>
#endif
#endif

#include "env/real.h"
#include "util/alloc.h"

/* --- numbers for objects --- */

enum { PAGE_SIZE_LOG2 = 8, PAGE_ITEMS = 1 << PAGE_SIZE_LOG2, PAGES = 1024 };

struct page {
    _Atomic(void *) items[PAGE_ITEMS];
};

static struct page first_page;                              /* most programs need no other */
static _Atomic(struct page *) pages[PAGES] = {&first_page}; /* never freed; one is 2 KiB */
static pthread_mutex_t numbers_lock =
    PTHREAD_MUTEX_INITIALIZER; /* guards giving out numbers; a leaf */

/* A thread of the parent, which the child does not have, may have held it. */
static void unlock_in_child(void)
{
    pthread_mutex_init(&numbers_lock, NULL);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, unlock_in_child);
}

static _Atomic(void *) *item_of(int number)
{
    if (number < 0 || number >= PAGES * PAGE_ITEMS)
        return NULL;
    struct page *page = atomic_load_explicit(&pages[number >> PAGE_SIZE_LOG2], memory_order_acquire);
    return page ? &page->items[number & (PAGE_ITEMS - 1)] : NULL;
}

static void *object_of(int number)
{
    _Atomic(void *) *item = item_of(number);
    return item ? atomic_load_explicit(item, memory_order_acquire) : NULL;
}

/* The lowest free number, as the kernel does with descriptors. */
static int number_for(void *object)
{
    static pthread_once_t watch_forks_once = PTHREAD_ONCE_INIT;
    int result = -EMFILE;
    pthread_once(&watch_forks_once, watch_forks);
    pthread_mutex_lock(&numbers_lock);
    for (int p = 0; p < PAGES && result < 0; p++) {
        struct page *page = atomic_load_explicit(&pages[p], memory_order_relaxed);
        if (!page) {
            page = mem_zalloc(sizeof *page);
            if (!page) {
                result = -ENOMEM;
                break;
            }
            atomic_store_explicit(&pages[p], page, memory_order_release);
        }
        for (int i = 0; i < PAGE_ITEMS; i++)
            if (!atomic_load_explicit(&page->items[i], memory_order_relaxed)) {
                atomic_store_explicit(&page->items[i], object, memory_order_release);
                result = p << PAGE_SIZE_LOG2 | i;
                break;
            }
    }
    pthread_mutex_unlock(&numbers_lock);
    return result;
}

static void forget_number(int number)
{
    _Atomic(void *) *item = item_of(number);
    if (item)
        atomic_store_explicit(item, NULL, memory_order_release);
}

/* --- time --- */

/* Milliseconds for poll(), rounded up so that it never ends early; -1: no limit. */
static int timeout_until(const cafka_env *env, int64_t deadline)
{
    if (deadline <= 0)
        return 0;
    if (deadline == CAFKA_NEVER)
        return -1;
    int64_t left = deadline - env->now(env);
    if (left <= 0)
        return 0;
    left = (left - 1) / 1000000 + 1;
    return left > INT_MAX ? INT_MAX : (int)left;
}

/* --- a descriptor that becomes readable when it is signalled --- */

struct signal_fd {
    int read, write;
};

static int signal_fd_open(struct signal_fd *s)
{
#ifdef HAVE_EPOLL
    s->read = s->write = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return s->read < 0 ? -errno : 0;
#else
    int fds[2];
    if (pipe(fds) < 0)
        return -errno;
    for (int i = 0; i < 2; i++) {
        (void)fcntl(fds[i], F_SETFD, FD_CLOEXEC);
        (void)fcntl(fds[i], F_SETFL, O_NONBLOCK);
    }
    *s = (struct signal_fd){fds[0], fds[1]};
    return 0;
#endif
}

static void signal_fd_close(struct signal_fd *s)
{
    close(s->read);
    if (s->write != s->read)
        close(s->write);
}

static void signal_fd_set(struct signal_fd *s)
{
    int saved = errno; /* it may be called in a signal handler */
    uint64_t one = 1;
    ssize_t n;
    do
        n = write(s->write, &one, sizeof one);
    while (n < 0 && errno == EINTR); /* full: it is set already */
    errno = saved;
}

static int signal_fd_take(struct signal_fd *s)
{
    char bytes[512];
    int was_set = 0;
    for (;;) {
        ssize_t n = read(s->read, bytes, sizeof bytes);
        if (n > 0)
            was_set = 1;
        if (n < (ssize_t)sizeof bytes && !(n < 0 && errno == EINTR))
            return was_set;
    }
}

/* --- pollers --- */

#ifdef HAVE_EPOLL

struct poller {
    int epoll;
    struct signal_fd wake; /* in it edge triggered, so that it needs no reading */
    int timer;             /* likewise; -1: not needed yet */
    int64_t timer_at;      /* when it goes off; 0: it does not */
};

enum { FINE_NS = 2000000 }; /* a deadline so near is not rounded up to milliseconds */

static void free_poller(struct poller *p)
{
    if (p->wake.read >= 0)
        signal_fd_close(&p->wake);
    if (p->timer >= 0)
        close(p->timer);
    if (p->epoll >= 0)
        close(p->epoll);
    mem_free(p);
}

int real_poller_open(const cafka_env *env)
{
    (void)env;
    struct poller *p = mem_alloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    *p = (struct poller){.epoll = epoll_create1(EPOLL_CLOEXEC), .wake = {-1, -1}, .timer = -1};
    int rc = p->epoll < 0 ? -errno : signal_fd_open(&p->wake);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = p};
    if (!rc && epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->wake.read, &event) < 0)
        rc = -errno;
    if (!rc)
        rc = number_for(p);
    if (rc < 0)
        free_poller(p);
    return rc;
}

int real_poller_set(const cafka_env *env, int poller, int handle, unsigned events, void *user)
{
    (void)env;
    struct poller *p = object_of(poller);
    if (!p)
        return -EBADF;
    struct epoll_event event = {.data.ptr = user};
    if (!events)
        return epoll_ctl(p->epoll, EPOLL_CTL_DEL, handle, &event) < 0 && errno != ENOENT ? -errno
                                                                                         : 0;
    if (events & CAFKA_READABLE)
        event.events |= EPOLLIN;
    if (events & CAFKA_WRITABLE)
        event.events |= EPOLLOUT;
    real_socket_watched(handle, poller);
    if (epoll_ctl(p->epoll, EPOLL_CTL_MOD, handle, &event) == 0)
        return 0;
    if (errno == ENOENT && epoll_ctl(p->epoll, EPOLL_CTL_ADD, handle, &event) == 0)
        return 0;
    return -errno;
}

#ifdef HAVE_SYS_TIMERFD_H

/*
 * Have the timer end a wait at the deadline; false: it cannot. A timer that is set once for several
 * waits is cheaper than a timeout for each: setting one and taking it back costs as much as a wake-up.
 */
static bool set_timer(struct poller *p, int64_t deadline)
{
    if (p->timer_at == deadline)
        return true;
    if (p->timer < 0) {
        p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &p->timer};
        if (p->timer >= 0 && epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->timer, &event) < 0) {
            close(p->timer);
            p->timer = -1;
        }
        if (p->timer < 0)
            return false;
    }
    struct itimerspec at = {.it_value = {deadline / 1000000000, deadline % 1000000000}};
    if (timerfd_settime(p->timer, TFD_TIMER_ABSTIME, &at, NULL) < 0)
        return false;
    p->timer_at = deadline;
    return true;
}

#else

static bool set_timer(struct poller *p, int64_t deadline)
{
    (void)p;
    (void)deadline;
    return false;
}

#endif

static int epoll_timeout(const cafka_env *env, struct poller *p, int64_t deadline)
{
    if (deadline > 0 && deadline != CAFKA_NEVER) {
        int64_t left = deadline - env->now(env);
        if (left > 0 && left < FINE_NS && set_timer(p, deadline))
            return -1;
    }
    return timeout_until(env, deadline);
}

int real_poller_wait(const cafka_env *env, int poller, cafka_poll_event *out, int max,
                     int64_t deadline)
{
    enum { MAX = 128 };
    struct epoll_event seen[MAX];
    struct poller *p = object_of(poller);
    if (!p)
        return -EBADF;
    int n = epoll_wait(p->epoll, seen, max < MAX ? max : MAX, epoll_timeout(env, p, deadline));
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (seen[i].data.ptr == p)
            continue; /* a wake-up; its end is all that it says */
        if (seen[i].data.ptr == &p->timer) {
            p->timer_at = 0;
            continue;
        }
        unsigned events = 0;
        if (seen[i].events & EPOLLIN)
            events |= CAFKA_READABLE;
        if (seen[i].events & EPOLLOUT)
            events |= CAFKA_WRITABLE;
        if (seen[i].events & (EPOLLERR | EPOLLHUP))
            events |= CAFKA_HANGUP;
        out[count++] = (cafka_poll_event){seen[i].data.ptr, events};
    }
    return count;
}

int real_poller_fd(const cafka_env *env, int poller)
{
    (void)env;
    struct poller *p = object_of(poller);
    return p ? p->epoll : -1;
}

#else

struct poller {
    struct signal_fd wake;
    struct pollfd *fds; /* fds[0] is the wake-up's */
    void **users;
    int count, capacity;
    int *index; /* of each handle in fds; 0: not in it */
    int index_size;
    int start; /* where the next scan begins, so that a busy handle does not starve the rest */
};

static void free_poller(struct poller *p)
{
    if (p->wake.read >= 0)
        signal_fd_close(&p->wake);
    mem_free(p->fds);
    mem_free(p->users);
    mem_free(p->index);
    mem_free(p);
}

static int make_room(struct poller *p, int handle)
{
    if (handle >= p->index_size) {
        int size = handle < 32 ? 64 : handle * 2;
        int *index = mem_recalloc(p->index, (size_t)size, sizeof *index);
        if (!index)
            return -ENOMEM;
        memset(index + p->index_size, 0, (size_t)(size - p->index_size) * sizeof *index);
        p->index = index;
        p->index_size = size;
    }
    if (p->count == p->capacity) {
        int capacity = p->capacity ? p->capacity * 2 : 16;
        struct pollfd *fds = mem_recalloc(p->fds, (size_t)capacity, sizeof *fds);
        if (!fds)
            return -ENOMEM;
        p->fds = fds;
        void **users = mem_recalloc(p->users, (size_t)capacity, sizeof *users);
        if (!users)
            return -ENOMEM;
        p->users = users;
        p->capacity = capacity;
    }
    return 0;
}

int real_poller_open(const cafka_env *env)
{
    (void)env;
    struct poller *p = mem_zalloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    p->wake = (struct signal_fd){-1, -1};
    int rc = signal_fd_open(&p->wake);
    if (!rc)
        rc = make_room(p, p->wake.read);
    if (!rc) {
        p->fds[p->count++] = (struct pollfd){.fd = p->wake.read, .events = POLLIN};
        rc = number_for(p);
    }
    if (rc < 0)
        free_poller(p);
    return rc;
}

int real_poller_set(const cafka_env *env, int poller, int handle, unsigned events, void *user)
{
    (void)env;
    struct poller *p = object_of(poller);
    if (!p || handle < 0)
        return -EBADF;
    int at = handle < p->index_size ? p->index[handle] : 0;
    if (!events) {
        if (!at)
            return 0;
        p->index[handle] = 0;
        if (at != --p->count) { /* the last one takes the place */
            p->fds[at] = p->fds[p->count];
            p->users[at] = p->users[p->count];
            p->index[p->fds[at].fd] = at;
        }
        return 0;
    }
    if (!at) {
        int rc = make_room(p, handle);
        if (rc)
            return rc;
        at = p->index[handle] = p->count++;
        real_socket_watched(handle, poller);
    }
    short wanted = 0;
    if (events & CAFKA_READABLE)
        wanted |= POLLIN;
    if (events & CAFKA_WRITABLE)
        wanted |= POLLOUT;
    p->fds[at] = (struct pollfd){.fd = handle, .events = wanted};
    p->users[at] = user;
    return 0;
}

int real_poller_wait(const cafka_env *env, int poller, cafka_poll_event *out, int max,
                     int64_t deadline)
{
    struct poller *p = object_of(poller);
    if (!p)
        return -EBADF;
    int n = poll(p->fds, (nfds_t)p->count, timeout_until(env, deadline));
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (n && p->fds[0].revents)
        (void)signal_fd_take(&p->wake);
    int count = 0, others = p->count - 1;
    for (int k = 0; n && k < others && count < max; k++) {
        int i = 1 + (p->start + k) % others;
        short seen = p->fds[i].revents;
        unsigned events = 0;
        if (seen & POLLIN)
            events |= CAFKA_READABLE;
        if (seen & POLLOUT)
            events |= CAFKA_WRITABLE;
        if (seen & (POLLERR | POLLHUP | POLLNVAL))
            events |= CAFKA_HANGUP;
        if (events)
            out[count++] = (cafka_poll_event){p->users[i], events};
        if (count == max)
            p->start = i;
    }
    return count;
}

/* A table for poll() can't be put into another poll; whoever embeds the loop goes by its timeout. */
int real_poller_fd(const cafka_env *env, int poller)
{
    (void)env;
    (void)poller;
    return -1;
}

#endif

void real_poller_close(const cafka_env *env, int poller)
{
    (void)env;
    struct poller *p = object_of(poller);
    if (!p)
        return;
    forget_number(poller);
    free_poller(p);
}

void real_poller_wake(const cafka_env *env, int poller)
{
    (void)env;
    struct poller *p = object_of(poller);
    if (p)
        signal_fd_set(&p->wake);
}

/* --- events --- */

int real_event_open(const cafka_env *env)
{
    (void)env;
    struct signal_fd *s = mem_alloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    int rc = signal_fd_open(s);
    if (rc < 0) {
        mem_free(s);
        return rc;
    }
    rc = number_for(s);
    if (rc < 0) {
        signal_fd_close(s);
        mem_free(s);
    }
    return rc;
}

void real_event_close(const cafka_env *env, int event)
{
    (void)env;
    struct signal_fd *s = object_of(event);
    if (!s)
        return;
    forget_number(event);
    signal_fd_close(s);
    mem_free(s);
}

void real_event_signal(const cafka_env *env, int event)
{
    (void)env;
    struct signal_fd *s = object_of(event);
    if (s)
        signal_fd_set(s);
}

int real_event_wait(const cafka_env *env, int event, int64_t deadline)
{
    return real_event_wait_either(env, event, -1, deadline);
}

int real_event_wait_either(const cafka_env *env, int event, int other, int64_t deadline)
{
    struct signal_fd *first = object_of(event), *second = object_of(other);
    if (!first)
        return 0;
    for (;;) {
        struct pollfd fds[] = {{.fd = first->read, .events = POLLIN},
                               {.fd = second ? second->read : -1, .events = POLLIN}};
        int timeout = timeout_until(env, deadline);
        if (poll(fds, second ? 2 : 1, timeout) > 0) {
            if (fds[0].revents && signal_fd_take(first))
                return 1;
            if (fds[1].revents && signal_fd_take(second))
                return 2; /* else another thread took it */
        }
        if (!timeout)
            return 0;
    }
}

int real_event_fd(const cafka_env *env, int event)
{
    (void)env;
    struct signal_fd *s = object_of(event);
    return s ? s->read : -1;
}

int real_event_clear(const cafka_env *env, int event)
{
    (void)env;
    struct signal_fd *s = object_of(event);
    return s ? signal_fd_take(s) : 0;
}
