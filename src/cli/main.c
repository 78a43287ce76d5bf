/*
 * main.c - the `cafka` program: finds the command and lets it run.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options.h"
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
    fprintf(out, "\n\"cafka help COMMAND\" tells more of one, \"cafka --version\" the release.\n");
}

/* NULL after telling that there is none of that name. */
static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(name, commands[i].name))
            return &commands[i];
    if (*name)
        complain("no command is called \"%s\" (cafka help lists them)", name);
    return NULL;
}

static int help_of(const char *name)
{
    const struct command *command = find_command(name);
    char help[] = "--help", *arguments[] = {(char *)name, help, NULL};
    return command ? command->run(2, arguments) : EXIT_USAGE;
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
    const char *name = argc >= 2 ? argv[1] : "";
    if (!strcmp(name, "help") && argc >= 3)
        return help_of(argv[2]);
    if (!strcmp(name, "help") || !strcmp(name, "--help")) {
        print_help(stdout);
        return 0;
    }
    if (!strcmp(name, "--version")) {
        printf("cafka %s\n", PACKAGE_VERSION);
        return 0;
    }
    const struct command *command = find_command(name);
    if (command)
        return command->run(argc - 1, argv + 1);
    if (argc < 2)
        print_help(stderr);
    return EXIT_USAGE;
}
