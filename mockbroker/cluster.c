/*
 * cluster.c - see cluster.h.
 */
#include "mockbroker/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "mockbroker/addresses.h"
#include "mockbroker/control/control.h"
#include "mockbroker/controller/controller.h"
#include "mockbroker/fault/rules.h"
#include "mockbroker/versions.h"
#include "protocol/error_codes.h"
#include "util/alloc.h"

enum { META_PROPERTIES_MAX = 64 * 1024, INTERNAL_REPLICAS = 3, INTERNAL_MIN_ISR = 2 };

/* --- options --- */

void cluster_options_fini(struct cluster_options *o)
{
    for (size_t i = 0; i < o->topic_count; i++) {
        struct topic_option *topic = &o->topics[i];
        for (size_t j = 0; j < topic->config_count; j++) {
            mem_free(topic->configs[j].name);
            mem_free(topic->configs[j].value);
        }
        mem_free(topic->configs);
        mem_free(topic->name);
    }
    mem_free(o->topics);
    mem_free(o->host);
    mem_free(o->advertised_host);
    mem_free(o->data_dir);
    mem_free(o->release);
    properties_fini(&o->properties);
    *o = (struct cluster_options){0};
}

static int set_default(struct properties *p, const char *name, int value, cafka_error *err)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    return properties_get(p, name) ? CAFKA_OK : properties_set(p, name, text, err);
}

/* Defaults that releases before 4.0 had, where they decide what is taken (KIP-1030). */
static int set_old_defaults(struct cluster *cluster, cafka_error *err)
{
    static const char name[] = "log.message.timestamp.after.max.ms";
    struct properties *p = &cluster->options.properties;
    if (!release_is_before_4(cluster->release) || properties_get(p, name))
        return CAFKA_OK;
    return properties_set(p, name, "9223372036854775807", err);
}

/* Where the mock departs from Kafka's defaults: a small cluster must be able to work. */
static int set_defaults(struct cluster_options *o, cafka_error *err)
{
    struct properties *p = &o->properties;
    int replicas = o->brokers < INTERNAL_REPLICAS ? o->brokers : INTERNAL_REPLICAS;
    int min_isr = o->brokers < INTERNAL_REPLICAS ? 1 : INTERNAL_MIN_ISR;
    int rc = set_default(p, "offsets.topic.replication.factor", replicas, err);
    if (!rc)
        rc = set_default(p, "transaction.state.log.replication.factor", replicas, err);
    if (!rc)
        rc = set_default(p, "transaction.state.log.min.isr", min_isr, err);
    if (!rc)
        rc = set_default(p, "share.coordinator.state.topic.replication.factor", replicas, err);
    if (!rc)
        rc = set_default(p, "share.coordinator.state.topic.min.isr", min_isr, err);
    if (!rc)
        rc = set_default(p, "group.initial.rebalance.delay.ms", 0, err);
    return rc;
}

/* --- directories --- */

static char *path_of(const char *directory, const char *name)
{
    size_t size = strlen(directory) + strlen(name) + 2;
    char *path = mem_alloc(size);
    if (path)
        snprintf(path, size, "%s/%s", directory, name);
    return path;
}

/* The cluster id of a meta.properties; *found: the file is there. */
static int read_cluster_id(struct cluster *cluster, const char *name, bool *found, cafka_error *err)
{
    char *path = path_of(cluster->directory, name), *text = NULL;
    size_t size;
    cafka_file_info info;
    struct properties meta = {0};
    if (!path)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a path");
    *found = !cluster->env->path_info(cluster->env, path, &info);
    int rc = CAFKA_OK;
    if (*found)
        rc = env_read_file(cluster->env, path, META_PROPERTIES_MAX, &text, &size, err);
    if (!rc && *found)
        rc = properties_parse(&meta, (struct str){text, size}, err);
    const char *id = properties_get(&meta, "cluster.id");
    if (!rc && id)
        snprintf(cluster->cluster_id, sizeof cluster->cluster_id, "%s", id);
    properties_fini(&meta);
    mem_free(text);
    mem_free(path);
    return rc;
}

static int skip_file_sync(const cafka_env *env, cafka_env_file *file)
{
    (void)env;
    (void)file;
    return 0;
}

static int skip_path_sync(const cafka_env *env, const char *directory)
{
    (void)env;
    (void)directory;
    return 0;
}

/*
 * What is removed at the end, and by the next power loss, need not be synced: a cluster without a
 * directory of its own starts in milliseconds. The simulated disk is left alone, since it counts.
 */
static void stop_syncing(struct cluster *cluster)
{
    if (cluster->env->simulated)
        return;
    cluster->hasty_env = *cluster->env;
    cluster->hasty_env.file_sync = skip_file_sync;
    cluster->hasty_env.path_sync = skip_path_sync;
    cluster->env = &cluster->hasty_env;
}

static int make_temporary(struct cluster *cluster, cafka_error *err)
{
    const char *parent = cluster->env->simulated ? "/tmp" : getenv("TMPDIR");
    char name[48];
    snprintf(name, sizeof name, "cafka-mockbroker-%016llx",
             (unsigned long long)rng_next(&cluster->rng));
    cluster->directory = path_of(parent && *parent ? parent : "/tmp", name);
    cluster->temporary = true;
    stop_syncing(cluster);
    return cluster->directory ? CAFKA_OK : error_set(err, CAFKA_ERR_MEMORY, "no memory for a path");
}

static int open_directory(struct cluster *cluster, cafka_error *err)
{
    int rc = CAFKA_OK;
    if (!cluster->options.data_dir)
        rc = make_temporary(cluster, err);
    else if (!(cluster->directory = mem_strdup(cluster->options.data_dir)))
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for a path");
    if (!rc)
        rc = env_mkdirs(cluster->env, cluster->directory, err);
    if (!rc)
        rc = read_cluster_id(cluster, "meta.properties", &cluster->flat, err);
    bool there;
    if (!rc && !cluster->flat)
        rc = read_cluster_id(cluster, "1/meta.properties", &there, err);
    if (!rc && !*cluster->cluster_id)
        uuid_text(uuid_random(&cluster->rng), cluster->cluster_id);
    return rc;
}

/* --- life --- */

int cluster_new(struct cluster **out, const cafka_env *env, struct loop *loop,
                struct cluster_options *options, struct log_sink sink, cafka_error *err)
{
    struct cluster *cluster = mem_zalloc(sizeof *cluster);
    if (!cluster) {
        cluster_options_fini(options);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a cluster");
    }
    cluster->options = *options;
    *options = (struct cluster_options){0};
    if (!cluster->options.brokers)
        cluster->options.brokers = 1;
    cluster->env = env;
    cluster->loop = loop_ref(loop);
    cluster->sink = sink;
    cluster->log = (struct log){&cluster->sink, "cluster"};
    deferred_init(&cluster->deferred, loop);
    rng_seed(&cluster->rng, env->random(env));
    cluster->release = release_find(cluster->options.release);
    int rc = CAFKA_OK;
    if (cluster->release < 0)
        rc = error_set(err, CAFKA_ERR_CONFIG, "%s is no release of Kafka that is known here",
                       cluster->options.release);
    if (!rc)
        rc = addresses_read(&cluster->options, cluster->log, err);
    if (!rc)
        rc = set_defaults(&cluster->options, err);
    if (!rc)
        rc = set_old_defaults(cluster, err);
    if (!rc)
        rc = fault_rules_new(&cluster->faults, err);
    cluster->brokers = mem_calloc((size_t)cluster->options.brokers, sizeof *cluster->brokers);
    if (!rc && !cluster->brokers)
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for %d brokers", cluster->options.brokers);
    if (rc) {
        cluster_free(cluster);
        return rc;
    }
    *out = cluster;
    return CAFKA_OK;
}

static int start_brokers(struct cluster *cluster, cafka_error *err)
{
    int rc = CAFKA_OK;
    for (int i = 0; !rc && i < cluster->options.brokers; i++) {
        rc = broker_new(&cluster->brokers[i], cluster, i + 1, err);
        cluster->broker_count += !rc;
    }
    for (int i = 0; !rc && i < cluster->broker_count; i++)
        rc = broker_start(cluster->brokers[i], err);
    return rc;
}

int cluster_create_topic(struct cluster *cluster, const struct topic_option *option,
                         cafka_error *err)
{
    struct arena arena = {0};
    struct create_topics_request request;
    struct create_topics_response response;
    struct create_topics_request_creatable_topic topic;
    create_topics_request_init(&request);
    create_topics_request_creatable_topic_init(&topic);
    request.topics = &topic;
    request.topics_count = 1;
    topic.name = str_of(option->name);
    topic.num_partitions = option->partitions;
    topic.replication_factor = (int16_t)option->replicas;
    topic.configs = arena_calloc(&arena, option->config_count + 1, sizeof *topic.configs);
    for (size_t i = 0; topic.configs && i < option->config_count; i++)
        topic.configs[topic.configs_count++] =
            (struct create_topics_request_creatable_topic_config){.name = str_of(
                                                                      option->configs[i].name),
                                                                  .value = str_of(
                                                                      option->configs[i].value)};
    int rc = topic.configs
                 ? controller_create_topics(cluster->controller, &request, &arena, &response, err)
                 : error_set(err, CAFKA_ERR_MEMORY, "no memory for a topic");
    if (!rc && response.topics[0].error_code)
        rc = error_set(err, response.topics[0].error_code, "topic %s can't be made: %.*s",
                       option->name, STR_ARG(response.topics[0].error_message));
    arena_fini(&arena);
    deferred_run(&cluster->deferred);
    return rc;
}

int cluster_delete_topic(struct cluster *cluster, const char *name, cafka_error *err)
{
    struct arena arena = {0};
    struct str names = str_of(name);
    struct delete_topics_request request;
    struct delete_topics_response response;
    delete_topics_request_init(&request);
    request.topic_names = &names;
    request.topic_names_count = 1;
    int rc = controller_delete_topics(cluster->controller, &request, 5, &arena, &response, err);
    if (!rc && response.responses[0].error_code)
        rc = error_set(err, response.responses[0].error_code, "topic %s can't be deleted: %.*s",
                       name, STR_ARG(response.responses[0].error_message));
    arena_fini(&arena);
    deferred_run(&cluster->deferred);
    return rc;
}

/* Of --topic: one that is there already stays as it is; a bad one is a bad option. */
static int create_wanted(struct cluster *cluster, const struct topic_option *option,
                         cafka_error *err)
{
    cafka_error why = {0};
    int rc = cluster_create_topic(cluster, option, &why);
    if (!rc || rc == ERR_TOPIC_ALREADY_EXISTS)
        return CAFKA_OK;
    return error_set(err, is_local_error(rc) ? rc : CAFKA_ERR_CONFIG, "%s", why.message);
}

int cluster_start(struct cluster *cluster, cafka_error *err)
{
    int rc = open_directory(cluster, err);
    if (!rc)
        rc = controller_new(&cluster->controller, cluster, err);
    if (!rc)
        rc = controller_start(cluster->controller, err);
    if (!rc)
        rc = start_brokers(cluster, err);
    for (size_t i = 0; !rc && i < cluster->options.topic_count; i++)
        rc = create_wanted(cluster, &cluster->options.topics[i], err);
    if (!rc && cluster->options.control_port >= 0)
        rc = control_start(&cluster->control, cluster, (uint16_t)cluster->options.control_port, err);
    return rc;
}

static void stop_brokers(struct cluster *cluster, bool clean)
{
    for (int i = 0; i < cluster->broker_count; i++)
        broker_stop(cluster->brokers[i], clean);
    deferred_run(&cluster->deferred);
}

void cluster_stop(struct cluster *cluster)
{
    control_stop(cluster->control);
    cluster->control = NULL;
    stop_brokers(cluster, true);
}

void cluster_free(struct cluster *cluster)
{
    if (!cluster)
        return;
    cafka_error why = {0};
    control_stop(cluster->control);
    for (int i = 0; i < cluster->broker_count; i++)
        broker_free(cluster->brokers[i]);
    mem_free(cluster->brokers);
    controller_free(cluster->controller);
    fault_rules_free(cluster->faults);
    if (cluster->temporary && env_remove_tree(cluster->env, cluster->directory, &why))
        log_warn(cluster->log, "%s", why.message);
    mem_free(cluster->directory);
    deferred_fini(&cluster->deferred);
    loop_unref(cluster->loop);
    cluster_options_fini(&cluster->options);
    mem_free(cluster);
}

/* --- questions --- */

void cluster_host_name(char name[CLUSTER_HOST_SIZE], int32_t broker)
{
    snprintf(name, CLUSTER_HOST_SIZE, "broker-%d", (int)broker);
}

struct broker *cluster_broker(const struct cluster *cluster, int32_t id)
{
    return id >= 1 && id <= cluster->broker_count ? cluster->brokers[id - 1] : NULL;
}

char *cluster_bootstrap(const struct cluster *cluster, const char *listener)
{
    struct buffer text = {0};
    const char *host = addresses_advertised(&cluster->options);
    for (int i = 0; i < cluster->broker_count; i++) {
        const struct broker *broker = cluster->brokers[i];
        for (const struct list *l = broker->listeners.next; l != &broker->listeners; l = l->next) {
            const struct listener *at = list_item(l, struct listener, link);
            if (!strcmp(at->name, listener)) {
                if (text.size)
                    buffer_put_u8(&text, ',');
                address_print(&text, host, at->bound.port);
            }
        }
    }
    return buffer_string(&text);
}
