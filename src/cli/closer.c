/*
 * closer.c - see closer.h.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

#include "cli/closer.h"
#include "cli/options.h"

static struct {
    sem_t asked; /* by a signal, or by closer_end() */
    pthread_t thread;
    cafka_producer *producer;
} closer;

/* On a signal. */
static void ask(void)
{
    int before = errno;
    sem_post(&closer.asked);
    errno = before;
}

static void *closer_thread(void *unused)
{
    while (sem_wait(&closer.asked) && errno == EINTR)
        ;
    if (stop_asked)
        cafka_producer_close(closer.producer, CLOSE_AFTER_STOP_MS, NULL);
    return unused;
}

/* Signals are for the other threads: one that reads is to be interrupted. */
static int create_without_signals(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&closer.thread, NULL, closer_thread, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

bool closer_begin(cafka_producer *producer)
{
    closer.producer = producer;
    int rc = sem_init(&closer.asked, 0, 0) ? errno : create_without_signals();
    if (rc) {
        complain("a thread for Ctrl-C: %s", strerror(rc));
        return false;
    }
    catch_stop_signals(ask);
    return true;
}

void closer_end(void)
{
    catch_stop_signals(NULL);
    sem_post(&closer.asked);
    pthread_join(closer.thread, NULL);
    sem_destroy(&closer.asked);
}
