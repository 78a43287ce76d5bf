/*
 * cli.h - the commands of the `cafka` program, one function each.
 *
 * argv[0] is the command's own name. The result is the exit status: 0, 1 for a failure, 2 for
 * wrong usage. A command prints its own errors to standard error.
 */
#ifndef CAFKA_CLI_CLI_H
#define CAFKA_CLI_CLI_H

int cli_bench(int argc, char **argv);
int cli_config(int argc, char **argv);
int cli_consume(int argc, char **argv);
int cli_log(int argc, char **argv); /* log dump */
int cli_log_dump(int argc, char **argv);
int cli_produce(int argc, char **argv);
int cli_topics(int argc, char **argv);
int cli_wire(int argc, char **argv);

#endif
