/*
 * fetch_stall.h - a partition that makes no progress is noticed, told and mended: one state machine.
 *
 * Whoever sees a partition fail or get nothing says so with fetch_stall_suspect(); whoever sees it
 * get on, with fetch_stall_progress(). If a suspicion lasts for STALL_AFTER_MS the event function and
 * the log are told, once a cause, and what can mend it is done, again each time the same span is over.
 *
 *               suspect                     still so after STALL_AFTER_MS
 *     NONE ------------------> suspected ------------------------------+
 *       ^                        |    ^                                 | tell once, mend
 *       +------------------------+    +---------------------------------+
 *               progress
 *
 * Owner:  a partition, in its loop part. Thread: the loop's.
 * Reading: fetch_stall_look(), and the table of causes in fetch_stall.c.
 */
#ifndef CAFKA_CONSUMER_FETCH_STALL_H
#define CAFKA_CONSUMER_FETCH_STALL_H

#include <stdbool.h>
#include <stdint.h>

struct consumer_partition;

enum stall_cause {
    STALL_NONE,
    STALL_NO_LEADER, /* no broker leads it, or no broker knows it */
    STALL_NO_START,  /* its offset can't be looked up, or its position not validated */
    STALL_ERRORS,    /* each fetch of it fails */
    STALL_EMPTY,     /* answers without data though there is some beyond its position */
    STALL_CUT,       /* answers with bytes, but not one whole batch */
    STALL_CAUSES
};

enum {
    STALL_AFTER_MS = 10000,
    STALL_LOOK_MS = 1000,   /* a partition without a leader is looked at so often */
    STALL_MISSING_MS = 3000 /* so long a topic may be on its way into being */
};

/* Zeroed: all is well. */
struct fetch_stall {
    unsigned char cause; /* enum stall_cause */
    int error;           /* the last one of an answer; 0: none */
    int told;            /* the event function knows this code */
    int64_t since_ms;
    int64_t look_at_ms; /* while there is a cause */
};

/* It failed, by `error` of an answer if that is not 0; nothing may come of it. */
void fetch_stall_suspect(struct consumer_partition *p, enum stall_cause cause, int error);
/* It got on, as far as this cause goes; STALL_CAUSES: altogether. */
void fetch_stall_progress(struct consumer_partition *p, enum stall_cause cause);
/* Its time has come: tell and mend what is still so. */
void fetch_stall_look(struct consumer_partition *p, int64_t now_ms);

#endif
