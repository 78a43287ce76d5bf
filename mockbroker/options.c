/*
 * options.c - see options.h.
 */
#include "mockbroker/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "mockbroker/versions.h"
#include "util/alloc.h"

enum { BROKERS_MAX = 1000, REPLICAS_MAX = 1000, PARTITIONS_MAX = 100000, FILE_MAX = 1024 * 1024 };

const char options_usage[] =
    "usage: cafka-mockbroker [option]...\n"
    "\n"
    "Runs a Kafka cluster for tests in one process. Prints its addresses when it is ready, and runs\n"
    "until SIGTERM or Ctrl-C.\n"
    "\n"
    "  --brokers N             number of brokers (1); their ids are 1 to N, their racks RACK1 to RACKN\n"
    "  --port P                port of broker 1, the next ones follow; 0 takes free ports (0)\n"
    "  --host ADDRESS          address to listen on (127.0.0.1)\n"
    "  --advertised-host NAME  what clients are told to connect to (the address)\n"
    "  --data-dir DIR          keep the data in DIR (a temporary directory that is removed)\n"
    "  --control-port P        questions over HTTP; 0 takes a free port\n"
    "  --set KEY=VALUE         a broker property of Kafka; may be repeated\n"
    "  --config FILE           broker properties from a server.properties\n"
    "  --topic NAME[:PARTITIONS[:REPLICAS[:KEY=VALUE,...]]]\n"
    "                          make a topic, if it is not there; may be repeated\n"
    "  --api-versions RELEASE  offer what that release of Kafka offers, such as 3.9 (4.3)\n"
    "  --verbose               tell more on stderr\n"
    "  --help, --version\n";

static int parse_number(const char *name, const char *text, long low, long high, long *out,
                        cafka_error *err)
{
    char *end;
    errno = 0;
    bool digit = isdigit((unsigned char)*text);
    long n = digit ? strtol(text, &end, 10) : -1;
    if (!digit || *end || errno || n < low || n > high)
        return error_set(err, CAFKA_ERR_CONFIG, "%s takes a number from %ld to %ld, not '%s'", name,
                         low, high, text);
    *out = n;
    return CAFKA_OK;
}

static int replace_text(char **to, const char *text, cafka_error *err)
{
    mem_free(*to);
    *to = mem_strdup(text);
    return *to ? CAFKA_OK : error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
}

/* --- topics --- */

static int add_config(struct topic_option *topic, const char *text, size_t size, cafka_error *err)
{
    const char *equals = memchr(text, '=', size);
    if (!equals || equals == text)
        return error_set(err, CAFKA_ERR_CONFIG, "topic %s: '%.*s' is not KEY=VALUE", topic->name,
                         (int)size, text);
    struct config_entry *more = mem_recalloc(topic->configs, topic->config_count + 1, sizeof *more);
    if (!more)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
    topic->configs = more;
    struct config_entry *entry = &more[topic->config_count];
    entry->name = mem_strndup(text, (size_t)(equals - text));
    entry->value = mem_strndup(equals + 1, size - (size_t)(equals - text) - 1);
    topic->config_count++;
    return entry->name && entry->value
               ? CAFKA_OK
               : error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
}

/* A comma also stands inside values (compact,delete): what has no '=' belongs to the value before. */
static size_t config_length(const char *text)
{
    size_t size = strcspn(text, ",");
    while (text[size]) {
        size_t next = strcspn(text + size + 1, ",");
        if (memchr(text + size + 1, '=', next))
            break;
        size += 1 + next;
    }
    return size;
}

static int parse_count(const char *what, const char **at, long most, int32_t *out, cafka_error *err)
{
    char text[16];
    size_t size = strcspn(*at, ":");
    long n;
    if (!size) { /* left open */
        *at += **at == ':';
        return CAFKA_OK;
    }
    if (size >= sizeof text)
        return error_set(err, CAFKA_ERR_CONFIG, "%s: '%.*s' is too large", what, (int)size, *at);
    memcpy(text, *at, size);
    text[size] = '\0';
    int rc = parse_number(what, text, 1, most, &n, err);
    if (!rc)
        *out = (int32_t)n;
    *at += size;
    *at += **at == ':';
    return rc;
}

int topic_option_parse(struct topic_option *out, const char *text, cafka_error *err)
{
    const char *at = text + strcspn(text, ":");
    *out = (struct topic_option){.name = mem_strndup(text, (size_t)(at - text)),
                                 .partitions = -1,
                                 .replicas = -1};
    if (!out->name)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
    cafka_error why = {0};
    if (topic_name_check(str_of(out->name), &why))
        return error_set(err, CAFKA_ERR_CONFIG, "--topic %s: %s", text, why.message);
    at += *at == ':';
    int rc = parse_count("--topic: the number of partitions", &at, PARTITIONS_MAX, &out->partitions,
                         err);
    if (!rc)
        rc = parse_count("--topic: the number of replicas", &at, REPLICAS_MAX, &out->replicas, err);
    while (!rc && *at) {
        size_t size = config_length(at);
        rc = add_config(out, at, size, err);
        at += size;
        at += *at == ',';
    }
    return rc;
}

static int add_topic(struct cluster_options *o, const char *text, cafka_error *err)
{
    struct topic_option *more = mem_recalloc(o->topics, o->topic_count + 1, sizeof *more);
    if (!more)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
    o->topics = more;
    o->topic_count++;
    return topic_option_parse(&more[o->topic_count - 1], text, err);
}

/* --- properties --- */

static int set_property(struct program_options *o, const char *text, cafka_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return error_set(err, CAFKA_ERR_CONFIG, "--set takes KEY=VALUE, not '%s'", text);
    char *name = mem_strndup(text, (size_t)(equals - text));
    if (!name)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the options");
    int rc = properties_set(&o->given, name, equals + 1, err);
    mem_free(name);
    return rc;
}

static int load_properties(struct program_options *o, const char *path, const cafka_env *env,
                           cafka_error *err)
{
    char *text = NULL;
    size_t size;
    int rc = env_read_file(env, path, FILE_MAX, &text, &size, err);
    if (!rc)
        rc = properties_parse(&o->cluster.properties, (struct str){text, size}, err);
    if (rc)
        error_prefix(err, "--config %s: ", path);
    mem_free(text);
    return rc;
}

/* What --set says holds, wherever it stands. */
static int merge_properties(struct program_options *o, struct log log, cafka_error *err)
{
    int rc = properties_check(&o->given, true, log, err);
    if (!rc)
        rc = properties_check(&o->cluster.properties, false, log, err);
    struct map_entry *e;
    for (size_t i = 0; !rc && (e = map_next(&o->given.values, &i));)
        rc = properties_set(&o->cluster.properties, e->key, e->value, err);
    return rc;
}

/* --- the command line --- */

static int take_option(struct program_options *o, const char *name, const char *value,
                       const cafka_env *env, cafka_error *err)
{
    struct cluster_options *c = &o->cluster;
    long n = 0;
    int rc;
    if (!strcmp(name, "--brokers")) {
        rc = parse_number(name, value, 1, BROKERS_MAX, &n, err);
        c->brokers = (int)n;
    } else if (!strcmp(name, "--port")) {
        rc = parse_number(name, value, 0, UINT16_MAX, &n, err);
        c->port = (uint16_t)n;
    } else if (!strcmp(name, "--control-port")) {
        rc = parse_number(name, value, 0, UINT16_MAX, &n, err);
        c->control_port = (int)n;
    } else if (!strcmp(name, "--host")) {
        rc = replace_text(&c->host, value, err);
    } else if (!strcmp(name, "--advertised-host")) {
        rc = replace_text(&c->advertised_host, value, err);
    } else if (!strcmp(name, "--data-dir")) {
        rc = *value ? replace_text(&c->data_dir, value, err)
                    : error_set(err, CAFKA_ERR_CONFIG, "--data-dir wants the name of a directory");
    } else if (!strcmp(name, "--api-versions")) {
        rc = release_find(value) >= 0
                 ? replace_text(&c->release, value, err)
                 : error_set(err, CAFKA_ERR_CONFIG,
                             "--api-versions knows the releases %s to %s, not '%s'",
                             release_names[0], release_names[RELEASE_COUNT - 1], value);
    } else if (!strcmp(name, "--set")) {
        rc = set_property(o, value, err);
    } else if (!strcmp(name, "--config")) {
        rc = load_properties(o, value, env, err);
    } else if (!strcmp(name, "--topic")) {
        rc = add_topic(c, value, err);
    } else {
        rc = error_set(err, CAFKA_ERR_CONFIG, "unknown option %s", name);
    }
    return rc;
}

static bool take_flag(struct program_options *o, const char *name)
{
    bool *flag = !strcmp(name, "--help")      ? &o->help
                 : !strcmp(name, "--version") ? &o->version
                 : !strcmp(name, "--verbose") ? &o->verbose
                                              : NULL;
    if (flag)
        *flag = true;
    return flag;
}

static bool takes_value(const char *name)
{
    static const char *const names[] = {"--brokers",         "--port",
                                        "--control-port",    "--host",
                                        "--advertised-host", "--data-dir",
                                        "--api-versions",    "--set",
                                        "--config",          "--topic"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* "--name=value" is taken as well as "--name value". */
static int take_argument(struct program_options *o, int *i, int argc, char *const *argv,
                         const cafka_env *env, cafka_error *err)
{
    char name[32];
    const char *argument = argv[*i], *equals = strchr(argument, '=');
    if (strncmp(argument, "--", 2))
        return error_set(err, CAFKA_ERR_CONFIG, "'%s' is no option", argument);
    if (take_flag(o, argument))
        return CAFKA_OK;
    size_t size = equals ? (size_t)(equals - argument) : strlen(argument);
    if (size >= sizeof name)
        return error_set(err, CAFKA_ERR_CONFIG, "unknown option %s", argument);
    memcpy(name, argument, size);
    name[size] = '\0';
    if (equals)
        return take_option(o, name, equals + 1, env, err);
    if (*i + 1 >= argc)
        return error_set(err, CAFKA_ERR_CONFIG,
                         takes_value(name) ? "%s wants a value" : "unknown option %s", name);
    return take_option(o, name, argv[++*i], env, err);
}

int options_parse(struct program_options *o, int argc, char *const *argv, const cafka_env *env,
                  struct log log, cafka_error *err)
{
    *o = (struct program_options){.cluster = {.brokers = 1, .control_port = -1}};
    int rc = CAFKA_OK;
    for (int i = 1; !rc && i < argc; i++)
        rc = take_argument(o, &i, argc, argv, env, err);
    if (!rc && o->cluster.port && o->cluster.port + o->cluster.brokers - 1 > UINT16_MAX)
        rc = error_set(err, CAFKA_ERR_CONFIG, "there are no %d ports from %d on",
                       o->cluster.brokers, (int)o->cluster.port);
    return rc ? rc : merge_properties(o, log, err);
}

void options_fini(struct program_options *o)
{
    cluster_options_fini(&o->cluster);
    properties_fini(&o->given);
}
