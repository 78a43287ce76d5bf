/*
 * topics.c - `cafka topics`: list, describe, create, delete and grow topics, and their configs.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cafka/admin.h>

#include "cli/cli.h"
#include "cli/options.h"

enum { NAMES_MAX = 256, SETTINGS_MAX = 64, TIMEOUT_MS = 30000 };

struct topics_job {
    cafka_config *config;
    cafka_admin *admin;
    const char *verb;
    const char *names[NAMES_MAX];
    size_t name_count;
    cafka_setting settings[SETTINGS_MAX]; /* of --config; names are copies */
    size_t setting_count;
    int64_t partitions, replicas; /* 0: the brokers' default */
    bool validate_only;
};

static const char usage[] =
    "usage: cafka topics list|describe|create|delete|grow|configs|alter -b HOST:PORT[,…] [TOPIC]…\n"
    "\n"
    "  list                      names and numbers of partitions\n"
    "  describe [TOPIC]…         partitions with leader, replicas and in-sync replicas\n"
    "  create TOPIC…             [--partitions N] [--replicas N] [--config NAME=VALUE]… [--validate-only]\n"
    "  delete TOPIC…\n"
    "  grow TOPIC… --partitions N\n"
    "  configs TOPIC…            every config with its value and where that comes from\n"
    "  alter TOPIC… --config NAME=VALUE…   (NAME= takes it back to the default)\n"
    "\n"
    "  -t TOPIC is taken as well; -X property=value sets a client property.\n";

/* --- options --- */

static bool add_name(void *user, const char *name)
{
    struct topics_job *job = user;
    if (job->name_count == NAMES_MAX) {
        complain("no more than %d topics", NAMES_MAX);
        return false;
    }
    job->names[job->name_count++] = name;
    return true;
}

static bool add_setting(void *user, const char *text)
{
    struct topics_job *job = user;
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || job->setting_count == SETTINGS_MAX) {
        complain("--config wants NAME=VALUE (at most %d), not \"%s\"", SETTINGS_MAX, text);
        return false;
    }
    char *name = strndup(text, (size_t)(equals - text));
    if (!name) {
        complain("no memory");
        return false;
    }
    job->settings[job->setting_count++] = (cafka_setting){name, equals + 1};
    return true; /* NOLINT(clang-analyzer-unix.Malloc): the job keeps the name */
}

/* GO_ON when there is something to do, else the exit status. */
static int parse(struct topics_job *job, int argc, char **argv)
{
    struct option options[] = {
        {"-b", .property = "bootstrap.servers"},
        {"-t", .each = add_name},
        {"--config", .each = add_setting},
        {"--partitions", .number = &job->partitions, .least = 1, .most = INT32_MAX},
        {"--replicas", .number = &job->replicas, .least = 1, .most = INT16_MAX},
        {"--validate-only", .flag = &job->validate_only},
        {"-X", .properties = true},
        {0},
    };
    struct command_line line = {"topics", usage, options, job, job->config};
    int words = options_parse(&line, argc, argv);
    if (words < 0)
        return options_status(words);
    job->verb = words ? argv[1] : NULL;
    for (int i = 2; i <= words; i++)
        if (!add_name(job, argv[i]))
            return EXIT_USAGE;
    if (!job->verb)
        return options_wrong(
            &line, "topics wants a verb: list, describe, create, delete, grow, configs or alter");
    return GO_ON;
}

/* --- verbs: each returns whether all went well --- */

/* Tell the error of each topic that has one, and what was done to the others. */
static bool tell_each(const struct topics_job *job, const cafka_error *errors, const char *done)
{
    bool good = true;
    for (size_t i = 0; i < job->name_count; i++) {
        if (errors[i].code)
            complain_error(job->names[i], &errors[i]);
        else
            printf("%s %s\n", done, job->names[i]);
        good = good && !errors[i].code;
    }
    return good;
}

/* After a call with an error for each topic: a failure as a whole is told once. */
static bool tell(const struct topics_job *job, int rc, const cafka_error *errors,
                 const cafka_error *err, const char *done)
{
    bool any = false;
    for (size_t i = 0; i < job->name_count; i++)
        any = any || errors[i].code;
    if (!rc || any)
        return tell_each(job, errors, done);
    complain_error("topics", err);
    return false;
}

static void print_ids(const char *label, const int32_t *ids, size_t count)
{
    printf(" %s=", label);
    for (size_t i = 0; i < count; i++)
        printf("%s%d", i ? "," : "", ids[i]);
}

static bool print_topic(const cafka_topic_info *topic, bool whole)
{
    if (topic->error.code) {
        complain_error(topic->name, &topic->error);
        return false;
    }
    if (!whole) {
        printf("%s %zu\n", topic->name, topic->partition_count);
        return true;
    }
    printf("%s id=%s partitions=%zu%s\n", topic->name, topic->id, topic->partition_count,
           topic->internal ? " internal" : "");
    for (size_t i = 0; i < topic->partition_count; i++) {
        const cafka_partition_info *p = &topic->partitions[i];
        printf("  %d leader=%d", p->partition, p->leader);
        print_ids("replicas", p->replicas, p->replica_count);
        print_ids("isr", p->in_sync, p->in_sync_count);
        printf("\n");
    }
    return true;
}

static bool show(struct topics_job *job, bool whole)
{
    cafka_topic_list *list;
    cafka_error err = {0};
    bool good = true;
    if (cafka_admin_describe_topics(job->admin, job->name_count ? job->names : NULL,
                                    job->name_count, TIMEOUT_MS, &list, &err)) {
        complain_error("topics", &err);
        return false;
    }
    for (size_t i = 0; i < list->count; i++)
        good = print_topic(&list->topics[i], whole) && good;
    cafka_topic_list_free(list);
    return good;
}

static bool create(struct topics_job *job)
{
    cafka_new_topic topics[NAMES_MAX];
    cafka_error errors[NAMES_MAX] = {{0}}, err = {0};
    for (size_t i = 0; i < job->name_count; i++)
        topics[i] = (cafka_new_topic){.size = sizeof topics[i],
                                      .name = job->names[i],
                                      .partitions = (int32_t)job->partitions,
                                      .replication_factor = (int16_t)job->replicas,
                                      .settings = job->settings,
                                      .setting_count = job->setting_count};
    int rc = cafka_admin_create_topics(job->admin, topics, job->name_count,
                                       job->validate_only ? CAFKA_VALIDATE_ONLY : 0, TIMEOUT_MS,
                                       errors, &err);
    return tell(job, rc, errors, &err, job->validate_only ? "valid" : "created");
}

static bool delete (struct topics_job *job)
{
    cafka_error errors[NAMES_MAX] = {{0}}, err = {0};
    int rc = cafka_admin_delete_topics(job->admin, job->names, job->name_count, TIMEOUT_MS, errors,
                                       &err);
    return tell(job, rc, errors, &err, "deleted");
}

static bool grow(struct topics_job *job)
{
    int32_t counts[NAMES_MAX];
    cafka_error errors[NAMES_MAX] = {{0}}, err = {0};
    if (!job->partitions) {
        complain("grow wants --partitions N");
        return false;
    }
    for (size_t i = 0; i < job->name_count; i++)
        counts[i] = (int32_t)job->partitions;
    int rc = cafka_admin_create_partitions(job->admin, job->names, counts, job->name_count,
                                           job->validate_only ? CAFKA_VALIDATE_ONLY : 0, TIMEOUT_MS,
                                           errors, &err);
    return tell(job, rc, errors, &err, "grown");
}

static bool configs(struct topics_job *job)
{
    cafka_resource resources[NAMES_MAX];
    cafka_config_list *list;
    cafka_error err = {0};
    bool good = true;
    for (size_t i = 0; i < job->name_count; i++)
        resources[i] = (cafka_resource){CAFKA_RESOURCE_TOPIC, job->names[i]};
    if (cafka_admin_describe_configs(job->admin, resources, job->name_count, TIMEOUT_MS, &list,
                                     &err)) {
        complain_error("topics", &err);
        return false;
    }
    for (size_t i = 0; i < list->count; i++) {
        const cafka_config_info *info = &list->configs[i];
        if (info->error.code)
            complain_error(info->name, &info->error);
        good = good && !info->error.code;
        for (size_t n = 0; n < info->entry_count; n++)
            printf("%s %s=%s %s\n", info->name, info->entries[n].name,
                   info->entries[n].value ? info->entries[n].value : "",
                   cafka_source_name(info->entries[n].source));
    }
    cafka_config_list_free(list);
    return good;
}

static bool alter(struct topics_job *job)
{
    size_t count = job->name_count * job->setting_count;
    cafka_error err = {0};
    cafka_config_change *changes = calloc(count, sizeof *changes);
    if (!changes) {
        complain("no memory");
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const cafka_setting *setting = &job->settings[i % job->setting_count];
        changes[i].resource =
            (cafka_resource){CAFKA_RESOURCE_TOPIC, job->names[i / job->setting_count]};
        changes[i].operation = *setting->value ? CAFKA_CONFIG_SET_VALUE : CAFKA_CONFIG_DELETE;
        changes[i].name = setting->name;
        changes[i].value = *setting->value ? setting->value : NULL;
    }
    int rc = cafka_admin_alter_configs(job->admin, changes, count,
                                       job->validate_only ? CAFKA_VALIDATE_ONLY : 0, TIMEOUT_MS,
                                       NULL, &err);
    free(changes);
    if (rc)
        complain_error("topics", &err);
    return !rc;
}

/* --- */

static int run_verb(struct topics_job *job)
{
    static const struct {
        const char *name;
        bool (*run)(struct topics_job *job);
    } verbs[] = {{"create", create},
                 {"delete", delete},
                 {"grow", grow},
                 {"configs", configs},
                 {"alter", alter}};
    if (!strcmp(job->verb, "list"))
        return show(job, false) ? 0 : 1;
    if (!strcmp(job->verb, "describe"))
        return show(job, true) ? 0 : 1;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(job->verb, verbs[i].name))
            continue;
        if (!job->name_count) {
            complain("topics %s wants the name of a topic", job->verb);
            return EXIT_USAGE;
        }
        if (verbs[i].run == alter && !job->setting_count) {
            complain("topics alter wants --config NAME=VALUE");
            return EXIT_USAGE;
        }
        return verbs[i].run(job) ? 0 : 1;
    }
    complain("topics has no verb %s (cafka topics --help tells more)", job->verb);
    return EXIT_USAGE;
}

static int run(struct topics_job *job)
{
    cafka_error err = {0};
    if (cafka_admin_new(&job->admin, job->config, &err)) {
        complain_error("topics", &err);
        return err.code == CAFKA_ERR_CONFIG ? EXIT_USAGE : 1;
    }
    int status = run_verb(job);
    cafka_admin_free(job->admin);
    return status;
}

int cli_topics(int argc, char **argv)
{
    struct topics_job job = {0};
    cafka_error err = {0};
    if (cafka_config_new(&job.config, &err)) {
        complain_error("topics", &err);
        return 1;
    }
    int status = parse(&job, argc, argv);
    if (status == GO_ON)
        status = run(&job);
    for (size_t i = 0; i < job.setting_count; i++)
        free((char *)job.settings[i].name);
    cafka_config_free(job.config); /* NOLINT(clang-analyzer-unix.Malloc): names are freed above */
    return status;
}
