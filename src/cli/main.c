/*
 * main.c - the `cafka` program: finds the command and lets it run.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "protocol/errors.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"bench", cli_bench, "measure producing and consuming: bench produce|consume"},
    {"config", cli_config, "the properties of a client: list, explain, check a file"},
    {"consume", cli_consume, "print the records of topics"},
    {"log", cli_log, "what the files of a log hold: log dump FILE…"},
    {"produce", cli_produce, "send the lines of a file as records"},
    {"topics", cli_topics, "list, describe, create, delete and grow topics, and their configs"},
    {"wire", cli_wire, "messages of the protocol between hex and JSON"},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *out)
{
    fprintf(out, "usage: cafka COMMAND …\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].help);
}

/*
 * A descriptor that the caller closed would be given to the next socket, and what is printed would go
 * to a broker. Opened the wrong way round, so that using it is an error as if it were closed.
 */
static void keep_standard_descriptors(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY); /* takes the lowest number: fd */
}

int main(int argc, char **argv)
{
    keep_standard_descriptors();
    protocol_errors_register();
    if (argc >= 2 && (!strcmp(argv[1], "help") || !strcmp(argv[1], "--help"))) {
        print_help(stdout);
        return 0;
    }
    for (size_t i = 0; argc >= 2 && i < COMMANDS; i++)
        if (!strcmp(argv[1], commands[i].name))
            return commands[i].run(argc - 1, argv + 1);
    if (argc >= 2)
        fprintf(stderr, "cafka: no command is called \"%s\"\n\n", argv[1]);
    print_help(stderr);
    return 2;
}
