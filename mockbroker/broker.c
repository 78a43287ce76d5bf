/*
 * broker.c - see broker.h.
 */
#include "mockbroker/broker.h"

#include <errno.h>
#include <stdio.h>

#include "mockbroker/addresses.h"
#include "mockbroker/adopt.h"
#include "mockbroker/api/data.h"
#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "mockbroker/follow.h"
#include "mockbroker/log/log_manager.h"
#include "mockbroker/replica/partition.h"
#include "mockbroker/session.h"
#include "sim/sim.h"
#include "util/alloc.h"

enum { FRAME_POOL_BYTES = 4 * 1024 * 1024, SECURITY_PLAINTEXT = 0 };

/* --- partitions --- */

/* What the broker keeps of a partition beside the replica itself: it tells the purgatory. */
struct hosted {
    struct broker *broker;
    struct partition *partition;
    struct partition_watch watch;
    struct purgatory_key keys[3];
    struct deferred follow; /* hand what was appended to the followers */
};

static void run_follow(struct deferred *deferred)
{
    struct hosted *h = container_of(deferred, struct hosted, follow);
    follow_partition(h->broker, h->partition);
}

/* Others hold this partition too, and this broker leads it. */
static void follow_soon(struct partition *partition)
{
    struct hosted *h = partition->user;
    if (partition->is_leader && partition->replica_count > 1)
        broker_defer(h->broker, &h->follow);
}

static void on_changed(struct partition_watch *watch)
{
    struct hosted *h = container_of(watch, struct hosted, watch);
    for (size_t i = 0; i < sizeof h->keys / sizeof *h->keys; i++)
        purgatory_check(h->broker->purgatory, &h->keys[i]);
    follow_soon(h->partition);
}

void broker_topic_config(const struct broker *broker, const struct topic_image *topic,
                         struct log_config *out)
{
    topic_config_resolve(out, &broker->config,
                         image_config(&broker->image, CONFIG_RESOURCE_TOPIC, str_of(topic->name)));
}

static int host(struct broker *broker, const struct topic_image *topic, int32_t index,
                struct partition **out, cafka_error *err)
{
    struct log_config config;
    struct commit_log *log;
    struct partition *partition;
    broker_topic_config(broker, topic, &config);
    int rc = CAFKA_OK;
    log = log_manager_find(broker->logs, topic->name, index);
    if (log)
        commit_log_set_config(log, &config);
    else
        rc = log_manager_open_log(broker->logs, topic->name, index, topic->id, &config, &log, err);
    if (rc)
        return rc;
    rc = partition_new(&partition, topic->name, index, topic->id, log, err);
    if (rc)
        return rc;
    struct hosted *h = mem_zalloc(sizeof *h);
    if (!h) {
        partition_free(partition);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a partition");
    }
    h->broker = broker;
    h->partition = partition;
    h->follow.run = run_follow;
    h->watch.changed = on_changed;
    h->keys[0] = purgatory_partition_key(PURGATORY_PRODUCE, topic->id, index);
    h->keys[1] = purgatory_partition_key(PURGATORY_FETCH, topic->id, index);
    h->keys[2] = purgatory_partition_key(PURGATORY_DELETE_RECORDS, topic->id, index);
    partition->user = h;
    partition_watch(partition, &h->watch);
    *out = partition;
    return CAFKA_OK;
}

static void unhost(struct partition *partition)
{
    struct hosted *h = partition->user;
    partition_free(partition); /* tells the watch a last time */
    list_remove(&h->follow.link);
    mem_free(h);
}

static bool holds(const struct broker *broker, const struct partition_image *p)
{
    for (int32_t i = 0; i < p->replica_count; i++)
        if (p->replicas[i] == broker->id)
            return true;
    return false;
}

static int take_role(struct broker *broker, const struct partition_image *p, cafka_error *err)
{
    struct partition *partition = p->hosted;
    partition->isr_size = p->isr_count;
    partition->replica_count = p->replica_count;
    if (p->leader == broker->id)
        return partition_become_leader(partition, broker->id, p->leader_epoch, err);
    partition_become_follower(partition, p->leader, p->leader_epoch);
    return CAFKA_OK;
}

/* This broker holds it no more: its log goes. */
static void drop_replica(struct broker *broker, struct topic_image *topic, int32_t index)
{
    struct partition *partition = topic->partitions[index].hosted;
    cafka_error why = {0};
    if (!partition)
        return;
    struct commit_log *log = partition->log;
    topic->partitions[index].hosted = NULL;
    unhost(partition);
    if (log_manager_delete_log(broker->logs, log, &why))
        log_error(broker->log, "deleting %s-%d: %s", topic->name, (int)index, why.message);
}

static void update_partition(struct broker *broker, struct topic_image *topic, int32_t index)
{
    struct partition_image *p = &topic->partitions[index];
    struct partition *partition = p->hosted;
    cafka_error why = {0};
    int rc = CAFKA_OK;
    if (!holds(broker, p)) {
        drop_replica(broker, topic, index);
        return;
    }
    if (!partition) {
        rc = host(broker, topic, index, &partition, &why);
        p->hosted = partition;
    }
    if (!rc)
        rc = take_role(broker, p, &why);
    if (!rc)
        partition_changed(partition); /* its ISR, if nothing else */
    if (rc)
        log_error(broker->log, "partition %s-%d: %s", topic->name, (int)index, why.message);
}

static void delete_topic(struct broker *broker, struct topic_image *topic)
{
    for (int32_t i = 0; i < topic->partition_count; i++)
        drop_replica(broker, topic, i);
}

static void unhost_all(struct broker *broker)
{
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&broker->image.topics, &i));) {
        struct topic_image *topic = e->value;
        for (int32_t n = 0; n < topic->partition_count; n++) {
            struct partition *partition = topic->partitions[n].hosted;
            topic->partitions[n].hosted = NULL;
            if (partition)
                unhost(partition);
        }
    }
}

struct partition *broker_partition(struct broker *broker, struct str topic, int32_t index)
{
    struct partition_image *p = topic_partition(image_topic(&broker->image, topic), index);
    return p ? p->hosted : NULL;
}

/* A broker that has started follows again: its leaders must know. */
static void wake_leaders(struct broker *broker)
{
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&broker->image.topics, &i));) {
        const struct topic_image *topic = e->value;
        for (int32_t n = 0; n < topic->partition_count; n++) {
            const struct partition_image *p = &topic->partitions[n];
            struct broker *leader = p->hosted ? cluster_broker(broker->cluster, p->leader) : NULL;
            struct partition *leading =
                leader && leader->running ? broker_partition(leader, str_of(topic->name), n) : NULL;
            if (leading)
                follow_soon(leading);
        }
    }
}

/* --- configs --- */

static void update_topic_config(struct broker *broker, const struct topic_image *topic)
{
    struct log_config config;
    broker_topic_config(broker, topic, &config);
    for (int32_t i = 0; i < topic->partition_count; i++) {
        struct partition *partition = topic->partitions[i].hosted;
        if (partition)
            commit_log_set_config(partition->log, &config);
    }
}

static void update_configs(struct broker *broker)
{
    struct map_entry *e;
    broker->request_max_bytes = broker_config_long(&broker->config, "socket.request.max.bytes");
    broker->connections_max_idle_ms = broker_config_long(&broker->config, "connections.max.idle.ms");
    for (size_t i = 0; (e = map_next(&broker->image.topics, &i));)
        update_topic_config(broker, e->value);
}

/* --- metadata --- */

/* What a batch of records has touched. */
struct touched {
    struct map topics;  /* ids of topics whose partitions or existence changed */
    struct map configs; /* ids of topics whose configs changed */
    bool broker_config;
};

static void touch(struct broker *broker, struct map *map, struct uuid id)
{
    if (!map_put(map, &id, sizeof id, broker))
        log_error(broker->log, "no memory to follow the metadata");
}

/* Look at one record before it is applied. */
static void foresee(struct broker *broker, struct bytes value, struct touched *t)
{
    struct arena arena = {0};
    struct metadata_change change;
    if (!metadata_record_change(value, &arena, &change, NULL)) {
        struct topic_image *topic = NULL;
        switch (change.kind) {
        case CHANGE_TOPIC: touch(broker, &t->topics, change.topic_id); break;
        case CHANGE_TOPIC_REMOVED:
            topic = image_topic_by_id(&broker->image, change.topic_id);
            if (topic)
                delete_topic(broker, topic);
            break;
        case CHANGE_TOPIC_CONFIG:
            topic = image_topic(&broker->image, change.resource);
            if (topic)
                touch(broker, &t->configs, topic->id);
            break;
        case CHANGE_BROKER_CONFIG: t->broker_config = true; break;
        case CHANGE_OTHER: break;
        }
    }
    arena_fini(&arena);
}

static void act(struct broker *broker, const struct touched *t)
{
    struct map_entry *e;
    struct uuid id;
    for (size_t i = 0; (e = map_next(&t->topics, &i));) {
        memcpy(&id, e->key, sizeof id);
        struct topic_image *topic = image_topic_by_id(&broker->image, id);
        for (int32_t n = 0; topic && n < topic->partition_count; n++)
            update_partition(broker, topic, n);
        struct purgatory_key key = {PURGATORY_TOPIC, 0, id};
        purgatory_check(broker->purgatory, &key);
    }
    for (size_t i = 0; !t->broker_config && (e = map_next(&t->configs, &i));) {
        memcpy(&id, e->key, sizeof id);
        struct topic_image *topic = image_topic_by_id(&broker->image, id);
        if (topic)
            update_topic_config(broker, topic);
    }
    if (t->broker_config)
        update_configs(broker);
}

void broker_apply(struct broker *broker, int64_t first_offset, const struct bytes *records,
                  size_t count)
{
    struct touched touched = {0};
    for (size_t i = 0; i < count; i++) {
        cafka_error why = {0};
        int64_t offset = first_offset + (int64_t)i;
        if (offset <= broker->image.offset)
            continue;
        foresee(broker, records[i], &touched);
        if (image_apply(&broker->image, offset, records[i], &why))
            log_error(broker->log, "metadata record %lld: %s", (long long)offset, why.message);
    }
    act(broker, &touched);
    map_fini(&touched.topics);
    map_fini(&touched.configs);
}

/* --- listeners --- */

enum { ACCEPTS_PER_TURN = 64 };

static void on_acceptable(struct loop_watch *watch, unsigned events)
{
    struct listener *listener = container_of(watch, struct listener, watch);
    struct broker *broker = listener->broker;
    int64_t most = broker_config_long(&broker->config, "max.connections");
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        cafka_address from;
        cafka_error why = {0};
        int handle = broker->env->accept(broker->env, listener->handle, &from);
        if (handle < 0) {
            if (handle != -EAGAIN && handle != -ECONNABORTED && handle != -EINTR)
                log_warn(broker->log, "accepting a connection: error %d", -handle);
            return;
        }
        if ((int64_t)broker->session_count >= most)
            broker->env->close(broker->env, handle);
        else if (session_open(listener, handle, &from, &why))
            log_warn(broker->log, "a connection is refused: %s", why.message);
    }
}

static void close_listener(struct listener *listener)
{
    struct broker *broker = listener->broker;
    if (listener->handle >= 0) {
        loop_watch_stop(&listener->watch);
        broker->env->close(broker->env, listener->handle);
    }
    list_remove(&listener->link);
    mem_free(listener);
}

static int open_listener(struct broker *broker, const char *name, uint16_t port, cafka_error *err)
{
    const char *host = addresses_listening(&broker->cluster->options);
    cafka_address address;
    if (!address_parse(host, port, &address))
        return error_set(err, CAFKA_ERR_CONFIG, "%s is no address to listen on", host);
    struct listener *listener = mem_zalloc(sizeof *listener);
    if (!listener)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a listener");
    *listener = (struct listener){.broker = broker, .name = name, .handle = -1};
    list_push_back(&broker->listeners, &listener->link);
    int backlog = (int)broker_config_long(&broker->config, "socket.listen.backlog.size");
    int handle = broker->env->listen(broker->env, &address, backlog, &listener->bound);
    if (handle < 0) {
        char text[ADDRESS_TEXT_SIZE];
        address_text(&address, text);
        close_listener(listener);
        return error_errno(err, CAFKA_ERR_SYSTEM, -handle, "broker %d can't listen on %s",
                           (int)broker->id, text);
    }
    listener->handle = handle;
    return CAFKA_OK;
}

/* Nobody is heard before the broker knows the metadata. */
static int listen_now(struct broker *broker, cafka_error *err)
{
    int rc = CAFKA_OK;
    for (struct list *l = broker->listeners.next; !rc && l != &broker->listeners; l = l->next) {
        struct listener *listener = list_item(l, struct listener, link);
        rc = loop_watch_start(broker->loop, &listener->watch, listener->handle, CAFKA_READABLE,
                              on_acceptable, err);
    }
    return rc;
}

/* --- life --- */

static char *join(const char *directory, int32_t id)
{
    size_t size = strlen(directory) + 16;
    char *path = mem_alloc(size);
    if (path)
        snprintf(path, size, "%s/%d", directory, (int)id);
    return path;
}

static int set_own(struct broker *broker, cafka_error *err)
{
    char text[32];
    struct properties *own = &broker->config.own;
    snprintf(text, sizeof text, "%d", (int)broker->id);
    int rc = properties_set(own, "node.id", text, err);
    if (!rc)
        rc = properties_set(own, "broker.id", text, err);
    if (!rc)
        rc = properties_set(own, "broker.rack", broker->rack, err);
    if (!rc)
        rc = properties_set(own, "log.dirs", broker->directory, err);
    return rc;
}

/* The world as this broker sees it. */
static const cafka_env *env_of(const struct cluster *cluster, int32_t id)
{
    char host[CLUSTER_HOST_SIZE];
    cluster_host_name(host, id);
    const cafka_env *own = sim_env_beside(cluster->env, host);
    return own ? own : cluster->env;
}

int broker_new(struct broker **out, struct cluster *cluster, int32_t id, cafka_error *err)
{
    struct broker *broker = mem_zalloc(sizeof *broker);
    if (!broker)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a broker");
    broker->cluster = cluster;
    broker->id = id;
    broker->log = (struct log){&cluster->sink, "broker"};
    broker->env = env_of(cluster, id);
    broker->loop = cluster->loop;
    broker->deferred = &cluster->deferred;
    rng_fork(&broker->rng, &cluster->rng);
    list_init(&broker->listeners);
    list_init(&broker->sessions);
    image_init(&broker->image);
    broker->config = (struct broker_config){.properties = &cluster->options.properties,
                                            .image = &broker->image,
                                            .broker_id = id};
    char rack[16];
    snprintf(rack, sizeof rack, "RACK%d", (int)id);
    broker->rack = mem_strdup(rack);
    broker->directory =
        cluster->flat ? mem_strdup(cluster->directory) : join(cluster->directory, id);
    int rc = broker->rack && broker->directory
                 ? set_own(broker, err)
                 : error_set(err, CAFKA_ERR_MEMORY, "no memory for a broker");
    if (!rc)
        rc = frame_pool_new(&broker->frames, FRAME_POOL_BYTES, err);
    if (rc) {
        broker_free(broker);
        return rc;
    }
    *out = broker;
    return CAFKA_OK;
}

void broker_free(struct broker *broker)
{
    if (!broker)
        return;
    broker_stop(broker, false);
    image_fini(&broker->image);
    properties_fini(&broker->config.own);
    frame_pool_unref(broker->frames);
    mem_free(broker->rack);
    mem_free(broker->directory);
    mem_free(broker);
}

static int open_logs(struct broker *broker, cafka_error *err)
{
    const struct broker_config *c = &broker->config;
    struct log_manager_options options = {
        .env = broker->env,
        .log = {&broker->cluster->sink, "log"},
        .directory = broker->directory,
        .broker_id = broker->id,
        .cluster_id = broker->cluster->cluster_id,
        .broker_epoch = -1,
        .retention_check_interval_ms = broker_config_long(c, "log.retention.check.interval.ms"),
        .initial_task_delay_ms = broker_config_long(c, "log.initial.task.delay.ms"),
        .flush_offset_checkpoint_interval_ms =
            broker_config_long(c, "log.flush.offset.checkpoint.interval.ms"),
        .high_watermark_checkpoint_interval_ms =
            broker_config_long(c, "replica.high.watermark.checkpoint.interval.ms"),
        .producer_id_expiration_ms = broker_config_long(c, "producer.id.expiration.ms"),
        .producer_id_expiration_check_interval_ms =
            broker_config_long(c, "producer.id.expiration.check.interval.ms"),
    };
    return log_manager_open(&broker->logs, &options, err);
}

static int register_broker(struct broker *broker, cafka_error *err)
{
    struct endpoint endpoints[8];
    struct broker_image image = {.id = broker->id, .rack = broker->rack, .endpoints = endpoints};
    const char *host = addresses_advertised(&broker->cluster->options);
    for (struct list *l = broker->listeners.next; l != &broker->listeners; l = l->next) {
        const struct listener *listener = list_item(l, struct listener, link);
        if (image.endpoint_count < 8)
            endpoints[image.endpoint_count++] =
                (struct endpoint){.name = (char *)listener->name,
                                  .host = (char *)host,
                                  .port = listener->bound.port,
                                  .security_protocol = SECURITY_PLAINTEXT};
    }
    return controller_register(broker->cluster->controller, &image, uuid_random(&broker->rng),
                               &broker->epoch, err);
}

/* The port that it had before, or that it is given by the options. */
static uint16_t port_of(const struct broker *broker)
{
    uint16_t first = broker->cluster->options.port;
    if (broker->last_port)
        return broker->last_port;
    return first ? (uint16_t)(first + broker->id - 1) : 0;
}

int broker_start(struct broker *broker, cafka_error *err)
{
    int rc = purgatory_new(&broker->purgatory, broker->loop, broker->deferred, err);
    if (!rc)
        rc = open_logs(broker, err);
    if (!rc)
        rc = adopt_logs(broker, err);
    if (!rc)
        rc = open_listener(broker, "PLAINTEXT", port_of(broker), err);
    if (!rc)
        rc = addresses_describe(broker, err);
    if (!rc) {
        broker->running = true;
        rc = controller_catch_up(broker->cluster->controller, broker->id, err);
    }
    if (!rc)
        rc = register_broker(broker, err);
    if (!rc) {
        deferred_run(broker->deferred);
        update_configs(broker);
        wake_leaders(broker);
        deferred_run(broker->deferred);
        rc = listen_now(broker, err);
    }
    if (rc) {
        broker_stop(broker, false);
        return rc;
    }
    broker->last_port = list_item(list_first(&broker->listeners), struct listener, link)->bound.port;
    log_manager_start(broker->logs, broker->loop);
    log_info(broker->log, "broker %d listens on port %d", (int)broker->id, (int)broker->last_port);
    return CAFKA_OK;
}

void broker_stop(struct broker *broker, bool clean)
{
    cafka_error why = {0};
    bool was_running = broker->running;
    broker->running = false;
    for (struct list *l; (l = list_first(&broker->listeners));)
        close_listener(list_item(l, struct listener, link));
    struct list *link, *after;
    list_each(link, after, &broker->sessions)
    {
        session_close(list_item(link, struct session, link)); /* one inside a call goes later */
    }
    if (was_running && controller_fence(broker->cluster->controller, broker->id, &why))
        log_error(broker->log, "broker %d leaves: %s", (int)broker->id, why.message);
    unhost_all(broker);
    data_free(broker);
    purgatory_free(broker->purgatory);
    broker->purgatory = NULL;
    if (clean && broker->logs && log_manager_close(broker->logs, &why))
        log_error(broker->log, "closing the logs of broker %d: %s", (int)broker->id, why.message);
    else if (!clean)
        log_manager_abandon(broker->logs);
    broker->logs = NULL;
    image_fini(&broker->image);
}
