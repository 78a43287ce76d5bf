/*
 * closer.h - a thread that closes a producer when Ctrl-C or SIGTERM comes.
 *
 * So a send, a flush or a close that waits for brokers ends soon: none of them can be woken from a
 * signal handler, and a close with a deadline shortens all of them.
 *
 * Owner:  the command, which begins and ends it around its sending; one at a time.
 * Thread: the command's own; closer_thread() is inside.
 */
#ifndef CAFKA_CLI_CLOSER_H
#define CAFKA_CLI_CLOSER_H

#include <stdbool.h>

#include <cafka/producer.h>

enum { CLOSE_AFTER_STOP_MS = 5000 };

/* From now on signals close the producer. False after telling why not. */
bool closer_begin(cafka_producer *producer);
/* Before the producer is freed. */
void closer_end(void);

#endif
