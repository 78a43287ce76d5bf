/*
 * real_thread.c - threads of the real world: runners, and one resolver a process.
 *
 * All signals are blocked in a thread that we start, so that none of the application's handlers
 * ever runs there.
 */
#include "config.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "env/env.h"
#include "env/real.h"
#include "util/alloc.h"

static _Thread_local int ours;

int real_thread_is_ours(void)
{
    return ours;
}

static void name_this_thread(const char *name)
{
    ours = 1;
#ifdef HAVE_PTHREAD_SETNAME_NP
    (void)pthread_setname_np(pthread_self(), name);
#else
    (void)name;
#endif
}

static int start_thread(pthread_t *out, void *(*main)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(out, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}

/* --- runners --- */

static void *run(void *arg)
{
    cafka_runner *runner = arg;
    name_this_thread(runner->name);
    runner->main(runner->arg);
    return NULL;
}

int real_runner_start(const cafka_env *env, cafka_runner *runner)
{
    (void)env;
    pthread_t *thread = mem_alloc(sizeof *thread);
    if (!thread)
        return -ENOMEM;
    int rc = start_thread(thread, run, runner);
    if (rc < 0)
        mem_free(thread);
    else
        runner->state = thread;
    return rc;
}

void real_runner_stop(const cafka_env *env, cafka_runner *runner)
{
    (void)env;
    pthread_t *thread = runner->state;
    if (!thread)
        return;
    (void)pthread_join(*thread, NULL);
    mem_free(thread);
    runner->state = NULL;
}

/* --- the resolver: a thread that is there while names that are no addresses wait --- */

struct question {
    struct question *next;
    cafka_resolved_fn *done;
    void *user;
    uint16_t port;
    char host[];
};

static struct {
    pthread_mutex_t lock; /* guards what follows; a leaf */
    struct question *first, **end;
    int running;
} resolver = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = &resolver.first};

/* A forked child has no resolver thread; its questions are the parent's. */
static void begin_anew_in_child(void)
{
    pthread_mutex_init(&resolver.lock, NULL);
    resolver.first = NULL;
    resolver.end = &resolver.first;
    resolver.running = 0;
}

static int errno_of(int eai)
{
    switch (eai) {
    case EAI_NONAME: return -ENOENT;
    case EAI_AGAIN: return -EAGAIN;
    case EAI_MEMORY: return -ENOMEM;
    case EAI_SYSTEM: return errno ? -errno : -EIO;
#ifdef EAI_NODATA
    case EAI_NODATA: return -ENOENT;
#endif
    default: return -EIO;
    }
}

static size_t to_addresses(const struct addrinfo *from, uint16_t port, cafka_address *to, size_t max)
{
    size_t count = 0;
    for (; from && count < max; from = from->ai_next) {
        cafka_address address = {.port = port};
        if (from->ai_family == AF_INET) {
            const struct sockaddr_in *v4 = (const void *)from->ai_addr;
            address.family = 4;
            memcpy(address.ip, &v4->sin_addr, 4);
        } else if (from->ai_family == AF_INET6) {
            const struct sockaddr_in6 *v6 = (const void *)from->ai_addr;
            address.family = 6;
            address.scope = v6->sin6_scope_id;
            memcpy(address.ip, &v6->sin6_addr, 16);
        } else {
            continue;
        }
        to[count++] = address;
    }
    return count;
}

static void answer(const struct question *q)
{
    enum { ADDRESSES_MAX = 64 };
    cafka_address addresses[ADDRESSES_MAX];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int rc = getaddrinfo(q->host, NULL, &hints, &found);
    if (rc) {
        q->done(q->user, errno_of(rc), NULL, 0);
        return;
    }
    size_t count = to_addresses(found, q->port, addresses, ADDRESSES_MAX);
    freeaddrinfo(found);
    q->done(q->user, count ? 0 : -ENOENT, addresses, count);
}

/* The next question, or NULL: then this thread ends, and the next question starts another. */
static struct question *take_question(void)
{
    pthread_mutex_lock(&resolver.lock);
    struct question *q = resolver.first;
    if (q)
        resolver.first = q->next;
    else
        resolver.running = 0;
    if (!resolver.first)
        resolver.end = &resolver.first;
    pthread_mutex_unlock(&resolver.lock);
    return q;
}

static void *answer_questions(void *arg)
{
    (void)arg;
    name_this_thread("cafka-resolver");
    for (struct question *q; (q = take_question());) {
        answer(q);
        mem_free(q);
    }
    return NULL;
}

static int ensure_running_locked(void)
{
    static int forks_watched;
    if (resolver.running)
        return 0;
    if (!forks_watched)
        forks_watched = !pthread_atfork(NULL, NULL, begin_anew_in_child);
    pthread_t thread;
    int rc = start_thread(&thread, answer_questions, NULL);
    if (rc < 0)
        return rc;
    (void)pthread_detach(thread);
    resolver.running = 1;
    return 0;
}

void real_resolve(const cafka_env *env, const char *host, uint16_t port, cafka_resolved_fn *done,
                  void *user)
{
    (void)env;
    cafka_address address;
    if (address_parse(host, port, &address)) {
        done(user, 0, &address, 1);
        return;
    }
    size_t size = strlen(host) + 1;
    struct question *q = mem_alloc(sizeof *q + size);
    if (!q) {
        done(user, -ENOMEM, NULL, 0);
        return;
    }
    *q = (struct question){.done = done, .user = user, .port = port};
    memcpy(q->host, host, size);

    pthread_mutex_lock(&resolver.lock);
    int rc = ensure_running_locked();
    if (!rc) {
        *resolver.end = q;
        resolver.end = &q->next;
    }
    pthread_mutex_unlock(&resolver.lock);
    if (rc < 0) {
        mem_free(q);
        done(user, rc, NULL, 0);
    }
}
