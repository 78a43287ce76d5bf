/*
 * options.c - see options.h.
 */
#include "config.h"

#include "cli/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* --- options --- */

static const char *find_with_value(const struct option_walk *walk, const char *word, size_t size)
{
    for (const char *const *name = walk->with_value; *name; name++)
        if (strlen(*name) == size && !memcmp(*name, word, size))
            return *name;
    return NULL;
}

static int value_of(struct option_walk *walk, struct option_use *use, const char *glued)
{
    if (!glued && walk->at >= walk->argc) {
        complain("option %s needs a value", use->name);
        return -2;
    }
    use->argument = glued ? glued : walk->argv[walk->at++];
    return 1;
}

int option_next(struct option_walk *walk, struct option_use *use)
{
    *use = (struct option_use){0};
    if (walk->at >= walk->argc)
        return -1;
    const char *word = walk->argv[walk->at++];
    if (!walk->only_words && !strcmp(word, "--")) {
        walk->only_words = true;
        return option_next(walk, use);
    }
    if (walk->only_words || word[0] != '-' || !word[1]) {
        use->argument = word;
        return 0;
    }
    bool is_long = word[1] == '-';
    const char *equals = is_long ? strchr(word, '=') : NULL;
    size_t size = equals ? (size_t)(equals - word) : is_long ? strlen(word) : 2;
    use->name = find_with_value(walk, word, size);
    if (use->name)
        return value_of(walk, use, equals ? equals + 1 : word[size] ? word + size : NULL);
    use->name = word;
    return 1;
}

bool option_set(cafka_config *config, const char *name, const char *value)
{
    cafka_error err = {0};
    if (!cafka_config_set(config, name, value, &err))
        return true;
    complain("%s", err.message);
    return false;
}

bool option_property(cafka_config *config, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    char name[256];
    if (!equals || equals == assignment || (size_t)(equals - assignment) >= sizeof name) {
        complain("-X wants name=value, not \"%s\"", assignment);
        return false;
    }
    memcpy(name, assignment, (size_t)(equals - assignment));
    name[equals - assignment] = '\0';
    return option_set(config, name, equals + 1);
}

bool option_number(const char *option, const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) {
        complain("%s wants a number from %" PRId64 " to %" PRId64 ", not \"%s\"", option, least,
                 most, text);
        return false;
    }
    *out = value;
    return true;
}

/* --- telling --- */

void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("cafka: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

void complain_error(const char *what, const cafka_error *err)
{
    complain("%s: %s (%s)", what, err->message, cafka_error_name(err->code));
}

/* --- signals --- */

volatile sig_atomic_t stop_asked;
static void (*stop_hook)(void);

static void stop_signal(int number)
{
    if (stop_asked)
        _exit(128 + number);
    stop_asked = 1;
    if (stop_hook)
        stop_hook();
}

void catch_stop_signals(void (*on_stop)(void))
{
    struct sigaction action = {.sa_handler = stop_signal}; /* no SA_RESTART: a read is to end */
    stop_hook = on_stop;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

/* --- clocks --- */

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t cpu_time_ns(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t thread_cpu_time_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

long max_rss_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* --- progress --- */

void progress_begin(struct progress *p)
{
    p->shown = isatty(STDERR_FILENO);
    p->began_ns = clock_ns();
    p->next_ns = p->shown ? p->began_ns + 200000000 : INT64_MAX;
}

bool progress_due(struct progress *p)
{
    if (!p->shown)
        return false;
    int64_t now = clock_ns();
    if (now < p->next_ns)
        return false;
    p->next_ns = now + 200000000;
    return true;
}

void progress_show(struct progress *p, const char *format, ...)
{
    va_list args;
    if (!p->shown)
        return;
    va_start(args, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

void progress_end(struct progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
}
