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

/* --- telling --- */

static void complain_args(const char *format, va_list args)
{
    fputs("cafka: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain_args(format, args);
    va_end(args);
}

void complain_error(const char *what, const cafka_error *err)
{
    complain("%s: %s (%s)", what, err->message, cafka_error_name(err->code));
}

/* --- options --- */

static struct option *find_option(const struct command_line *line, const char *name, size_t size)
{
    for (struct option *option = line->options; option->name; option++)
        if (strlen(option->name) == size && !memcmp(option->name, name, size))
            return option;
    return NULL;
}

static bool take_value(const struct command_line *line, const struct option *option,
                       const char *value)
{
    if (option->text)
        *option->text = value;
    if (option->number)
        return option_number(option->name, value, option->least, option->most, option->number);
    if (option->property)
        return option_set(line->config, option->property, value);
    if (option->properties)
        return option_property(line->config, value);
    if (option->take)
        return option->take(line->job, value);
    return option->each ? option->each(line->job, value) : true;
}

/* The option that argv[*at] is, with its value if it has one. */
static bool take_option(struct command_line *line, int argc, char **argv, int *at)
{
    const char *word = argv[*at], *equals = word[1] == '-' ? strchr(word, '=') : NULL;
    size_t size = equals ? (size_t)(equals - word) : word[1] == '-' ? strlen(word) : 2;
    struct option *option = find_option(line, word, size);
    const char *glued = equals ? equals + 1 : word[size] ? word + size : NULL;
    if (!option || (option->flag && glued)) {
        complain(option ? "%s: option %.*s has no value" : "%s has no option %.*s", line->name,
                 option ? (int)size : (int)strlen(word), word);
        return false;
    }
    if (option->seen && !option->each && !option->properties) {
        complain("option %s stands twice", option->name);
        return false;
    }
    option->seen = true;
    if (option->flag)
        return *option->flag = true;
    if (!glued && *at + 1 >= argc) {
        complain("option %s needs a value", option->name);
        return false;
    }
    return take_value(line, option, glued ? glued : argv[++*at]);
}

static void tell_of_help(const struct command_line *line)
{
    fprintf(stderr, "(cafka %s --help tells more)\n", line->name);
}

int options_parse(struct command_line *line, int argc, char **argv)
{
    bool only_words = false;
    int words = 0;
    for (int at = 1; at < argc; at++) {
        char *word = argv[at];
        if (only_words || word[0] != '-' || !word[1]) {
            argv[++words] = word;
        } else if (!strcmp(word, "--")) {
            only_words = true;
        } else if (!strcmp(word, "--help")) {
            fputs(line->usage, stdout);
            return OPTIONS_HELP;
        } else if (!take_option(line, argc, argv, &at)) {
            tell_of_help(line);
            return OPTIONS_WRONG;
        }
    }
    return words;
}

int options_status(int parsed)
{
    return parsed == OPTIONS_HELP ? 0 : EXIT_USAGE;
}

int options_wrong(const struct command_line *line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain_args(format, args);
    va_end(args);
    tell_of_help(line);
    return EXIT_USAGE;
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
