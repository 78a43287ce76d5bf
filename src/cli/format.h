/*
 * format.h - how `cafka consume -f` prints a record.
 *
 * %t topic, %p partition, %o offset, %k key, %s value, %T timestamp, %h headers, %% a percent sign,
 * \n, \t and \\; everything else stands for itself.
 *
 * Owner:  nobody: a format is the text of the command line, read anew for each record.
 * Thread: the program's one.
 */
#ifndef CAFKA_CLI_FORMAT_H
#define CAFKA_CLI_FORMAT_H

#include <stdbool.h>

#include <cafka/consumer.h>

/* False after telling what is not understood. */
bool format_check(const char *format);

/* To standard output. The format is one that format_check() found good. */
void format_print(const char *format, const cafka_record_view *record);

#endif
