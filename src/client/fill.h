/*
 * fill.h - from a configuration's texts to plain fields, and all that is wrong in one message.
 *
 * A filling runs in one pass: every field is parsed (the values were checked when they were set, so
 * parsing cannot fail), then the checks between properties add what is wrong to a list of problems,
 * and at the end the list decides.
 *
 * Owner:   the settings_for_*() that runs, on its stack.
 * Thread:  the one that makes the client.
 * Reading: settings.c, where clients begin; then settings_producer.c and settings_consumer.c.
 */
#ifndef CAFKA_CLIENT_FILL_H
#define CAFKA_CLIENT_FILL_H

#include "client/settings.h"

/* More than a century: longer times count as that, so that adding them to a clock never overflows. */
#define FILL_FOR_EVER_MS (INT64_C(1) << 42)

/* What is wrong, all of it, in one message. */
struct filling {
    const cafka_config *config;
    unsigned kind; /* CAFKA_FOR_* */
    int code;      /* of the first problem */
    unsigned problems, unsaid;
    char text[200];
};

void fill_problem(struct filling *f, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* CAFKA_OK, or the first problem's code and a message that names all, as far as its length allows. */
int fill_verdict(const struct filling *f, cafka_error *err);
const char *fill_kind_name(unsigned kind); /* "producer", … */

/* The value of a property, its default included. */
const char *fill_text(struct filling *f, const char *name); /* NULL: none */
int64_t fill_number(struct filling *f, const char *name);
int64_t fill_ms(struct filling *f, const char *name); /* at most FILL_FOR_EVER_MS */
int32_t fill_int(struct filling *f, const char *name);
bool fill_truth(struct filling *f, const char *name);
bool fill_is(struct filling *f, const char *name, const char *value);
char *fill_copy(struct filling *f, const char *name); /* NULL: none, or no memory: a problem */
/* Which of `words` the value is; they are in the order of an enum of settings.h. */
int fill_choice(struct filling *f, const char *name, const char *const *words, int count);

/* What all clients have; `servers` is the property that says where to begin. */
void fill_client(struct filling *f, struct client_settings *settings, const char *servers);
void fill_client_fini(struct client_settings *settings);

#endif
