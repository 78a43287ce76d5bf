/*
 * options.h - what the commands that talk to a cluster have in common: options, signals, progress.
 *
 * The programs stand on the public headers only, as an application would.
 */
#ifndef CAFKA_CLI_OPTIONS_H
#define CAFKA_CLI_OPTIONS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <cafka/config.h>

enum { EXIT_USAGE = 2 };

/* One option and its value; `argument` is NULL for an option without one. */
struct option_use {
    const char *name; /* as written: "-b", "--latency" */
    const char *argument;
};

/*
 * Walks argv by hand: options may stand anywhere, "--" ends them, "-bVALUE" and "--name=VALUE"
 * are taken too. `with_value` is a list, ended by NULL, of the options that have one.
 */
struct option_walk {
    int argc, at;
    char **argv;
    const char *const *with_value;
    bool only_words;
};
/* 1: an option. 0: a word, in use->argument. -1: the end. -2: an option whose value is missing (told). */
int option_next(struct option_walk *walk, struct option_use *use);

/* "name=value" of -X into the configuration. False after telling why not. */
bool option_property(cafka_config *config, const char *assignment);
bool option_set(cafka_config *config, const char *name, const char *value);
/* A number from `least` to `most`; tells and gives false for anything else. */
bool option_number(const char *option, const char *text, int64_t least, int64_t most, int64_t *out);

/* "cafka WHAT: …" to standard error. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain_error(const char *what, const cafka_error *err);

/* Ctrl-C and SIGTERM set it; a second one ends the program at once. */
extern volatile sig_atomic_t stop_asked;
void catch_stop_signals(void (*on_stop)(void) /* async-signal-safe; NULL */);

/* A line on standard error that is written over, if that is a terminal, a few times a second. */
struct progress {
    bool shown;
    int64_t next_ns, began_ns;
};
void progress_begin(struct progress *p);
bool progress_due(struct progress *p); /* cheap: a clock reading */
void progress_show(struct progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void progress_end(struct progress *p); /* removes the line */

int64_t clock_ns(void);           /* monotonic */
int64_t cpu_time_ns(void);        /* of this process, all threads */
int64_t thread_cpu_time_ns(void); /* of the calling thread */
long max_rss_kb(void);

#endif
