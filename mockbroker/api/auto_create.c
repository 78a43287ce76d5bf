/*
 * auto_create.c - see auto_create.h.
 */
#include "mockbroker/api/auto_create.h"

#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"

typedef struct create_topics_request_creatable_topic new_topic;
typedef struct create_topics_request_creatable_topic_config new_config;

static const struct internal_topic {
    const char *name, *partitions, *replicas, *segment_bytes, *min_isr;
} internal_topics[] = {
    {"__consumer_offsets", "offsets.topic.num.partitions", "offsets.topic.replication.factor",
     "offsets.topic.segment.bytes", NULL},
    {"__transaction_state", "transaction.state.log.num.partitions",
     "transaction.state.log.replication.factor", "transaction.state.log.segment.bytes",
     "transaction.state.log.min.isr"},
    {"__share_group_state", "share.coordinator.state.topic.num.partitions",
     "share.coordinator.state.topic.replication.factor",
     "share.coordinator.state.topic.segment.bytes", "share.coordinator.state.topic.min.isr"},
};

static const struct internal_topic *find_internal(struct str name)
{
    for (size_t i = 0; i < sizeof internal_topics / sizeof *internal_topics; i++)
        if (str_is(name, internal_topics[i].name))
            return &internal_topics[i];
    return NULL;
}

static void add_config(new_topic *topic, const char *name, const char *value)
{
    topic->configs[topic->configs_count++] =
        (new_config){.name = str_of(name), .value = str_of(value)};
}

/* State of coordinators: compacted, but for share groups, whose state is pruned by offset. */
static bool fill_internal(const struct broker *broker, const struct internal_topic *kind,
                          new_topic *topic, struct arena *arena)
{
    enum { CONFIGS_MAX = 5 };
    const struct broker_config *c = &broker->config;
    bool share = kind == &internal_topics[2], offsets = kind == &internal_topics[0];
    topic->num_partitions = (int32_t)broker_config_long(c, kind->partitions);
    topic->replication_factor = (int16_t)broker_config_long(c, kind->replicas);
    topic->configs = arena_calloc(arena, CONFIGS_MAX, sizeof *topic->configs);
    if (!topic->configs)
        return false;
    add_config(topic, "cleanup.policy", share ? "delete" : "compact");
    add_config(topic, "compression.type", offsets ? "producer" : "uncompressed");
    add_config(topic, "segment.bytes", broker_config_get(c, kind->segment_bytes));
    if (kind->min_isr)
        add_config(topic, "min.insync.replicas", broker_config_get(c, kind->min_isr));
    if (share)
        add_config(topic, "retention.ms", "-1");
    return true;
}

void auto_create(struct broker *broker, const struct str *names, size_t count, struct arena *arena)
{
    struct create_topics_request request;
    struct create_topics_response response;
    cafka_error why = {0};
    create_topics_request_init(&request);
    request.topics = arena_calloc(arena, count + 1, sizeof *request.topics);
    if (!request.topics)
        return;
    for (size_t i = 0; i < count; i++) {
        new_topic *topic = &request.topics[request.topics_count++];
        const struct internal_topic *kind = find_internal(names[i]);
        create_topics_request_creatable_topic_init(topic);
        topic->name = names[i];
        topic->num_partitions = -1;
        topic->replication_factor = -1;
        if (kind && !fill_internal(broker, kind, topic, arena))
            return;
    }
    if (controller_create_topics(broker->cluster->controller, &request, arena, &response, &why)) {
        log_error(broker->log, "creating topics that were asked for: %s", why.message);
        return;
    }
    for (int32_t i = 0; i < response.topics_count; i++)
        if (response.topics[i].error_code)
            log_warn(broker->log, "topic %.*s was asked for and can't be made: %.*s",
                     STR_ARG(response.topics[i].name), STR_ARG(response.topics[i].error_message));
}
