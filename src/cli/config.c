/*
 * config.c - `cafka config`: every property there is, as a list or as docs/CONFIGURATION.md.
 */
#include <stdio.h>
#include <string.h>

#include <cafka/config.h>

#include "cli/cli.h"

static const struct {
    unsigned client;
    const char *name;
} clients[] = {{CAFKA_FOR_PRODUCER, "producer"},
               {CAFKA_FOR_CONSUMER, "consumer"},
               {CAFKA_FOR_ADMIN, "admin"}};

enum { CLIENTS = sizeof clients / sizeof *clients };

static const char *type_name(cafka_config_type type)
{
    static const char *const names[] = {"bool", "int",      "long",  "double", "string",
                                        "list", "password", "class", "enum"};
    return names[type];
}

static void print_clients(const cafka_property *p)
{
    const char *comma = "";
    for (size_t i = 0; i < CLIENTS; i++) {
        if (!(p->clients & clients[i].client))
            continue;
        printf("%s%s", comma, clients[i].name);
        comma = ", ";
    }
}

/* "5", or "32768; consumer 65536; admin 65536" where clients differ. */
static void print_default(const cafka_property *p, const cafka_config *defaults)
{
    const char *first = NULL, *value;
    for (size_t i = 0; i < CLIENTS; i++) {
        if (!(p->clients & clients[i].client) ||
            cafka_config_get(defaults, p->name, clients[i].client, &value, NULL, NULL))
            continue;
        value = value ? value : "";
        if (!first)
            fputs(first = value, stdout);
        else if (strcmp(first, value))
            printf("; %s %s", clients[i].name, value);
    }
}

/* The ends of Java's number types say nothing that the type does not. */
static const char *range_of(const cafka_property *p)
{
    if (!strcmp(p->range, "-2147483648 .. 2147483647") ||
        !strcmp(p->range, "-9223372036854775808 .. 9223372036854775807"))
        return "";
    return p->range;
}

static void print_state(const cafka_property *p, const char *before, const char *after)
{
    if (p->flags & CAFKA_PROPERTY_LATER)
        printf("%sNot in effect yet: lands with %s.%s", before, p->since, after);
    else if (p->flags & CAFKA_PROPERTY_IGNORED)
        printf("%sJava only: taken and ignored, with a warning.%s", before, after);
}

/* ---- for a terminal ---- */

static void print_whole(const cafka_property *p, const cafka_config *defaults)
{
    printf("%s\n", p->name);
    if (p->alias_of) {
        printf("    librdkafka's name for %s\n", p->alias_of);
        return;
    }
    printf("    for:     ");
    print_clients(p);
    printf("\n    type:    %s\n    default: ", type_name(p->type));
    print_default(p, defaults);
    if (*range_of(p))
        printf("\n    allowed: %s", range_of(p));
    printf("\n    %s\n", p->doc);
    print_state(p, "    ", "\n");
}

static void print_line(const cafka_property *p, const cafka_config *defaults)
{
    printf("%-52s ", p->name);
    if (p->alias_of)
        printf("= %s", p->alias_of);
    else
        print_default(p, defaults);
    printf("\n");
}

static int print_named(const cafka_config *defaults, const char *name)
{
    cafka_property p = {.size = sizeof p};
    for (size_t i = 0; !cafka_config_property(i, &p); i++)
        if (!strcmp(p.name, name)) {
            print_whole(&p, defaults);
            return 0;
        }
    const char *value;
    cafka_error err;
    (void)cafka_config_get(defaults, name, 0, &value, NULL, &err); /* for its suggestion */
    fprintf(stderr, "cafka config: %s\n", err.message);
    return 1;
}

/* ---- for docs/CONFIGURATION.md ---- */

static void print_row(const cafka_property *p, const cafka_config *defaults)
{
    printf("| `%s` | %s%s%s | %s | ", p->name, p->clients & CAFKA_FOR_PRODUCER ? "P" : "",
           p->clients & CAFKA_FOR_CONSUMER ? "C" : "", p->clients & CAFKA_FOR_ADMIN ? "A" : "",
           type_name(p->type));
    print_default(p, defaults);
    printf(" | %s | %s | %s", range_of(p), p->importance, p->doc);
    if (p->flags & CAFKA_PROPERTY_OURS)
        printf(" *cafka's own.*");
    print_state(p, " **", "**");
    printf(" |\n");
}

static void print_markdown(const cafka_config *defaults)
{
    cafka_property p = {.size = sizeof p};
    size_t i;
    printf("<!-- Written by `cafka config --markdown` (make docs); an edit here is lost. -->\n"
           "# Configuration\n\n"
           "Names, types, defaults and ranges are those of Kafka's Java client 4.3; what is "
           "cafka's own says so. "
           "P, C and A say which clients have a property: producer, consumer, admin. Where a "
           "default differs "
           "between them, it says for which. `cafka config NAME` prints one property.\n\n"
           "An unknown name and a bad value are errors that say what would have been right; what "
           "clashes is "
           "reported when a client is made. A property that is marked *not in effect yet* is "
           "checked and kept, and "
           "a client warns in its log when it is set.\n\n"
           "| property | for | type | default | allowed | importance | what it does |\n"
           "|---|---|---|---|---|---|---|\n");
    for (i = 0; !cafka_config_property(i, &p) && !p.alias_of; i++)
        print_row(&p, defaults);
    printf("\n## librdkafka's names\n\n"
           "Taken as aliases; values in other units are converted.\n\n"
           "| name | stands for |\n|---|---|\n");
    for (; !cafka_config_property(i, &p); i++)
        printf("| `%s` | `%s` |\n", p.name, p.alias_of);
}

static int usage(FILE *out, int rc)
{
    fprintf(out, "usage: cafka config                 every property and its default, a line each\n"
                 "       cafka config NAME…           what these properties do\n"
                 "       cafka config --check FILE    is this .properties file right?\n"
                 "       cafka config --markdown      docs/CONFIGURATION.md\n");
    return rc;
}

static int check_file(cafka_config *config, const char *path)
{
    cafka_error err;
    if (cafka_config_load_file(config, path, &err)) {
        fprintf(stderr, "cafka config: %s\n", err.message);
        return 1;
    }
    printf("%s is right\n", path);
    return 0;
}

int cli_config(int argc, char **argv)
{
    cafka_config *config;
    cafka_error err;
    int rc = 0;
    if (cafka_config_new(&config, &err)) {
        fprintf(stderr, "cafka config: %s\n", err.message);
        return 1;
    }
    if (argc == 2 && !strcmp(argv[1], "--markdown")) {
        print_markdown(config);
    } else if (argc == 3 && !strcmp(argv[1], "--check")) {
        rc = check_file(config, argv[2]);
    } else if (argc == 2 && !strcmp(argv[1], "--help")) {
        rc = usage(stdout, 0);
    } else if (argc > 1 && argv[1][0] == '-') {
        rc = usage(stderr, 2);
    } else if (argc == 1) {
        cafka_property p = {.size = sizeof p};
        for (size_t i = 0; !cafka_config_property(i, &p); i++)
            print_line(&p, config);
    }
    for (int i = 1; i < argc && argv[1][0] != '-'; i++)
        rc |= print_named(config, argv[i]);
    cafka_config_free(config);
    return rc;
}
