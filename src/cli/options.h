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

/*
 * One option of a command. What it does with its value is said by the one member that is set.
 */
struct option {
    const char *name; /* "-b", "--latency" */
    bool *flag;       /* takes no value: set */
    const char **text;
    int64_t *number; /* from `least` to `most` */
    int64_t least, most;
    const char *property; /* of the configuration, such as bootstrap.servers */
    bool properties;      /* name=value for the configuration; may stand several times */
    bool (*take)(void *job, const char *value); /* false after telling what is wrong */
    bool (*each)(void *job, const char *value); /* the same, and it may stand several times */
    bool seen;                                  /* by options_parse() */
};

/* What a command understands. `options` ends with an empty one. --help is understood by all. */
struct command_line {
    const char *name;  /* for complaints: "produce" */
    const char *usage; /* what --help prints */
    struct option *options;
    void *job;
    cafka_config *config;
};

/*
 * Options may stand anywhere, "--" ends them, "-bVALUE" and "--name=VALUE" are taken too; one that
 * stands twice and has no `each` is an error, since nobody can know which was meant. The words that
 * are no options are moved to the front: argv[1] … argv[words].
 *
 * The number of words; or OPTIONS_HELP after printing the usage to standard output, or OPTIONS_WRONG
 * after telling what is wrong.
 */
enum { OPTIONS_HELP = -1, OPTIONS_WRONG = -2 };
int options_parse(struct command_line *line, int argc, char **argv);
/* What a command's own parse() gives, unless it gives an exit status. */
enum { GO_ON = -1 };

/* The exit status for a negative result of options_parse(). */
int options_status(int parsed);
/* Tells what is wrong, and where help is; gives EXIT_USAGE. */
int options_wrong(const struct command_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

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
