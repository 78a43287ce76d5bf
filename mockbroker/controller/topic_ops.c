/*
 * topic_ops.c - making and growing topics; topic_delete.c deletes them.
 *
 * Checks come in Kafka's order, so that a request with several faults gets Kafka's answer.
 */
#include <inttypes.h>
#include <stdio.h>

#include "mockbroker/config_answer.h"
#include "mockbroker/controller/controller.h"
#include "mockbroker/controller/placer.h"
#include "mockbroker/repeats.h"
#include "mockbroker/topic_config.h"
#include "protocol/error_codes.h"
#include "protocol/messages/ConfigRecord.h"
#include "protocol/messages/PartitionRecord.h"
#include "protocol/messages/TopicRecord.h"
#include "util/alloc.h"

enum { PARTITIONS_PER_REQUEST_MAX = 10000 };

#define CLUSTER_METADATA "__cluster_metadata"

static int no_memory(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_MEMORY, "no memory for a change of topics");
}

struct str controller_keep(struct arena *arena, const char *text)
{
    char *copy = arena_strndup(arena, text, strlen(text));
    return copy ? (struct str){copy, strlen(copy)} : str_of("");
}

/* --- the replicas of new partitions --- */

/* Who holds the partitions of a topic that is being made. */
struct placement {
    int32_t partitions, replicas;
    int32_t *ids; /* partition after partition */
};

/* One list of brokers that the client chose. `expected` < 0: any length. */
static int check_assignment(const struct controller *c, const int32_t *ids, int32_t count,
                            int32_t expected, cafka_error *err)
{
    static const int code = ERR_INVALID_REPLICA_ASSIGNMENT;
    if (count <= 0)
        return error_set(err, code,
                         "The manual partition assignment includes an empty replica list.");
    for (int32_t i = 0; i < count; i++) {
        if (!image_broker(&c->image, ids[i]))
            return error_set(err, code,
                             "The manual partition assignment includes broker %d, but no such "
                             "broker is registered.",
                             (int)ids[i]);
        for (int32_t j = 0; j < i; j++)
            if (ids[j] == ids[i])
                return error_set(err, code,
                                 "The manual partition assignment includes the broker %d more than "
                                 "once.",
                                 (int)ids[i]);
    }
    if (expected >= 0 && count != expected)
        return error_set(err, code,
                         "The manual partition assignment includes a partition with %d replica(s), "
                         "but this is not consistent with previous partitions, which have %d "
                         "replica(s).",
                         (int)count, (int)expected);
    return CAFKA_OK;
}

static int check_some_live(const struct controller *c, const int32_t *ids, int32_t count,
                           int32_t partition, cafka_error *err)
{
    for (int32_t i = 0; i < count; i++)
        if (image_live_broker(&c->image, ids[i]))
            return CAFKA_OK;
    return error_set(err, ERR_INVALID_REPLICA_ASSIGNMENT,
                     "All brokers specified in the manual partition assignment for partition %d are "
                     "fenced or in controlled shutdown.",
                     (int)partition);
}

typedef struct create_topics_request_creatable_topic new_topic;

static int place_as_told(struct controller *c, const new_topic *topic, struct arena *arena,
                         struct placement *out, cafka_error *err)
{
    int32_t count = topic->assignments_count;
    if (topic->replication_factor != -1)
        return error_set(err, ERR_INVALID_REQUEST,
                         "A manual partition assignment was specified, but replication factor was "
                         "not set to -1.");
    if (topic->num_partitions != -1)
        return error_set(err, ERR_INVALID_REQUEST,
                         "A manual partition assignment was specified, but numPartitions was not "
                         "set to -1.");
    int32_t replicas = topic->assignments[0].broker_ids_count;
    const int32_t **by_index = arena_calloc(arena, (size_t)count, sizeof *by_index);
    if (!by_index)
        return no_memory(err);
    bool gap = false;
    for (int32_t i = 0; i < count; i++) {
        const struct create_topics_request_creatable_replica_assignment *a = &topic->assignments[i];
        bool inside = a->partition_index >= 0 && a->partition_index < count;
        if (inside && by_index[a->partition_index])
            return error_set(err, ERR_INVALID_REPLICA_ASSIGNMENT,
                             "Found multiple manual partition assignments for partition %d",
                             (int)a->partition_index);
        int rc = check_assignment(c, a->broker_ids, a->broker_ids_count, i ? replicas : -1, err);
        if (!rc)
            rc = check_some_live(c, a->broker_ids, a->broker_ids_count, a->partition_index, err);
        if (rc)
            return rc;
        gap |= !inside;
        if (inside)
            by_index[a->partition_index] = a->broker_ids;
    }
    if (gap)
        return error_set(err, ERR_INVALID_REPLICA_ASSIGNMENT,
                         "partitions should be a consecutive 0-based integer sequence");
    int32_t *ids = arena_calloc(arena, (size_t)count * (size_t)replicas, sizeof *ids);
    if (!ids)
        return no_memory(err);
    for (int32_t i = 0; i < count; i++)
        memcpy(ids + (size_t)i * (size_t)replicas, by_index[i], (size_t)replicas * sizeof *ids);
    *out = (struct placement){count, replicas, ids};
    return CAFKA_OK;
}

/* Let the placer choose; `count` partitions of `replicas` each. */
static int place_striped(struct controller *c, int32_t count, int32_t replicas, struct arena *arena,
                         struct placement *out, cafka_error *err)
{
    struct placer *placer = NULL;
    cafka_error why = {0};
    int rc = placer_new(&placer, &c->image, &c->rng, err);
    if (rc)
        return rc;
    int32_t *ids = NULL;
    rc = placer_check(placer, replicas, &why);
    if (rc)
        error_set(err, rc, "Unable to replicate the partition %d time(s): %s", (int)replicas,
                  why.message);
    else if (!(ids = arena_calloc(arena, (size_t)count * (size_t)replicas, sizeof *ids)))
        rc = no_memory(err);
    for (int32_t i = 0; !rc && i < count; i++)
        placer_place(placer, replicas, ids + (size_t)i * (size_t)replicas);
    placer_free(placer);
    *out = (struct placement){count, replicas, ids};
    return rc;
}

static int place_by_counts(struct controller *c, const new_topic *topic, struct arena *arena,
                           struct placement *out, cafka_error *err)
{
    if (topic->replication_factor < -1 || !topic->replication_factor)
        return error_set(err, ERR_INVALID_REPLICATION_FACTOR,
                         "Replication factor must be larger than 0, or -1 to use the default value.");
    if (topic->num_partitions < -1 || !topic->num_partitions)
        return error_set(err, ERR_INVALID_PARTITIONS,
                         "Number of partitions was set to an invalid non-positive value.");
    int32_t partitions = topic->num_partitions != -1
                             ? topic->num_partitions
                             : (int32_t)broker_config_long(&c->config, "num.partitions");
    int32_t replicas = topic->replication_factor != -1
                           ? topic->replication_factor
                           : (int32_t)broker_config_long(&c->config, "default.replication.factor");
    return place_striped(c, partitions, replicas, arena, out, err);
}

/* --- records --- */

static int add_partition(struct controller *c, struct record_list *records, struct uuid topic_id,
                         int32_t index, int32_t *replicas, int32_t count, struct arena *arena,
                         cafka_error *err)
{
    struct partition_record r;
    partition_record_init(&r);
    int32_t *isr = arena_calloc(arena, (size_t)count, sizeof *isr);
    struct uuid *directories = arena_calloc(arena, (size_t)count, sizeof *directories);
    if (!isr || !directories)
        return no_memory(err);
    for (int32_t i = 0; i < count; i++)
        if (image_live_broker(&c->image, replicas[i]))
            isr[r.isr_count++] = replicas[i];
    r.topic_id = topic_id;
    r.partition_id = index;
    r.replicas = replicas;
    r.replicas_count = count;
    r.isr = isr;
    r.directories = directories; /* zero: the broker chooses */
    r.directories_count = count;
    r.leader = isr[0]; /* the first replica that lives: there is one */
    r.leader_epoch = 0;
    r.partition_epoch = 0;
    return record_list_add(records, METADATA_PARTITION, 2, &r, err);
}

static int add_topic(struct controller *c, struct record_list *records, struct str name,
                     struct uuid id, const struct placement *place, struct arena *arena,
                     cafka_error *err)
{
    struct topic_record r;
    topic_record_init(&r);
    r.name = name;
    r.topic_id = id;
    int rc = record_list_add(records, METADATA_TOPIC, 0, &r, err);
    for (int32_t i = 0; !rc && i < place->partitions; i++)
        rc = add_partition(c, records, id, i, place->ids + (size_t)i * (size_t)place->replicas,
                           place->replicas, arena, err);
    return rc;
}

static int add_configs(struct record_list *records, struct str topic,
                       const struct config_entry *entries, size_t count, cafka_error *err)
{
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && i < count; i++) {
        struct config_record r;
        config_record_init(&r);
        r.resource_type = CONFIG_RESOURCE_TOPIC;
        r.resource_name = topic;
        r.name = str_of(entries[i].name);
        r.value = str_of(entries[i].value);
        rc = record_list_add(records, METADATA_CONFIG, 0, &r, err);
    }
    return rc;
}

/* --- CreateTopics --- */

typedef struct create_topics_response_creatable_topic_result create_result;

/*
 * Of two values of one name the last counts, in the place of the first. More names than there are
 * configs hold an unknown one already: the rest is not looked at.
 */
static int read_configs(const new_topic *topic, struct arena *arena, struct config_entry **out,
                        size_t *out_count, cafka_error *err)
{
    size_t count = 0;
    struct config_entry *entries =
        arena_calloc(arena, (size_t)(topic->configs_count > 0 ? topic->configs_count : 0) + 1,
                     sizeof *entries);
    if (!entries)
        return no_memory(err);
    for (int32_t i = 0; i < topic->configs_count && count <= topic_config_def_count; i++) {
        struct str name = topic->configs[i].name, value = topic->configs[i].value;
        size_t at = 0;
        while (at < count && !str_is(name, entries[at].name))
            at++;
        char *value_copy = value.data ? arena_strndup(arena, value.data, value.size) : NULL;
        if (at == count) {
            entries[at].name = arena_strndup(arena, name.data ? name.data : "", name.size);
            count++;
        }
        if (!entries[at].name || (value.data && !value_copy))
            return no_memory(err);
        entries[at].value = value_copy;
    }
    *out = entries;
    *out_count = count;
    return CAFKA_OK;
}

static int check_name(const struct controller *c, struct str name, cafka_error *err)
{
    if (image_topic(&c->image, name))
        return error_set(err, ERR_TOPIC_ALREADY_EXISTS, "Topic '%.*s' already exists.",
                         STR_ARG(name));
    int rc = topic_name_check(name, err);
    if (rc || (!memchr(name.data, '.', name.size) && !memchr(name.data, '_', name.size)))
        return rc;
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&c->image.topics, &i));)
        if (topic_names_collide(name, (struct str){e->key, e->key_size}))
            return error_set(err, ERR_INVALID_TOPIC_EXCEPTION,
                             "Topic '%.*s' collides with existing topic: %s", STR_ARG(name), e->key);
    return CAFKA_OK;
}

static int describe_configs(const struct controller *c, const struct config_entry *entries,
                            size_t count, struct arena *arena, create_result *out, cafka_error *err)
{
    struct config_image overrides = {.entries = (struct config_entry *)entries,
                                     .entry_count = (int32_t)count};
    out->configs = arena_calloc(arena, topic_config_def_count, sizeof *out->configs);
    if (!out->configs)
        return no_memory(err);
    out->configs_count = 0;
    for (size_t i = 0; i < topic_config_def_count; i++) {
        const struct config_def *def = &topic_config_defs[i];
        if (def->internal && !config_image_get(&overrides, def->name))
            continue; /* only who set it sees it */
        enum config_source source;
        struct str value = topic_config_text(def, &c->config, &overrides, false, &source, arena);
        out->configs[out->configs_count++] =
            (struct create_topics_response_creatable_topic_configs){.name = str_of(def->name),
                                                                    .value = value,
                                                                    .config_source = (int8_t)source};
    }
    return CAFKA_OK;
}

/* Decide about one topic; its records are appended to `records`. A refusal is a protocol code. */
static int create_topic(struct controller *c, const new_topic *topic, struct record_list *records,
                        struct arena *arena, create_result *out, cafka_error *err)
{
    struct config_entry *configs = NULL;
    size_t config_count = 0;
    struct placement place = {0};
    int rc = check_name(c, topic->name, err);
    if (!rc)
        rc = read_configs(topic, arena, &configs, &config_count, err);
    if (!rc)
        rc = topic_config_check(&c->config, configs, config_count, err);
    if (!rc)
        rc = topic->assignments_count > 0 ? place_as_told(c, topic, arena, &place, err)
                                          : place_by_counts(c, topic, arena, &place, err);
    if (rc)
        return rc;
    struct uuid id = uuid_random(&c->rng);
    rc = add_topic(c, records, topic->name, id, &place, arena, err);
    if (!rc)
        rc = add_configs(records, topic->name, configs, config_count, err);
    if (!rc)
        rc = describe_configs(c, configs, config_count, arena, out, err);
    out->topic_id = id;
    out->num_partitions = place.partitions;
    out->replication_factor = (int16_t)place.replicas;
    return rc;
}

static int64_t partitions_asked(const struct controller *c, const struct create_topics_request *in)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < in->topics_count; i++) {
        const new_topic *t = &in->topics[i];
        if (t->assignments_count > 0)
            sum += t->assignments_count;
        else if (t->num_partitions > 0)
            sum += t->num_partitions;
        else
            sum += broker_config_long(&c->config, "num.partitions");
    }
    return sum;
}

static int refuse_or_create(struct controller *c, const new_topic *topic, bool repeated,
                            bool too_many, struct record_list *records, struct arena *arena,
                            create_result *out, cafka_error *err)
{
    if (repeated)
        return error_set(err, ERR_INVALID_REQUEST, "Duplicate topic name.");
    if (str_is(topic->name, CLUSTER_METADATA))
        return error_set(err, ERR_INVALID_REQUEST,
                         "Creation of internal topic " CLUSTER_METADATA " is prohibited.");
    if (too_many)
        return error_set(err, ERR_POLICY_VIOLATION,
                         "Excessively large number of partitions per request.");
    return create_topic(c, topic, records, arena, out, err);
}

int controller_create_topics(struct controller *c, const struct create_topics_request *in,
                             struct arena *arena, struct create_topics_response *out,
                             cafka_error *err)
{
    struct record_list records = {0};
    int32_t count = in->topics_count > 0 ? in->topics_count : 0;
    bool too_many = partitions_asked(c, in) > PARTITIONS_PER_REQUEST_MAX;
    create_topics_response_init(out);
    out->topics = arena_calloc(arena, (size_t)count + 1, sizeof *out->topics);
    if (!out->topics)
        return no_memory(err);
    struct repeats names = {0};
    for (int32_t i = 0; i < count; i++)
        repeats_add(&names, in->topics[i].name.data, in->topics[i].name.size, i);
    int rc = names.failed ? no_memory(err) : CAFKA_OK;
    for (int32_t i = 0; !rc && i < count; i++) {
        struct str name = in->topics[i].name;
        if (!repeats_is_first(&names, name.data, name.size, i))
            continue;
        create_result *result = &out->topics[out->topics_count++];
        create_topics_response_creatable_topic_result_init(result);
        result->name = name;
        result->error_message = (struct str){0};
        size_t before = records.count;
        cafka_error why = {0};
        int code =
            refuse_or_create(c, &in->topics[i], repeats_are_many(&names, name.data, name.size),
                             too_many, &records, arena, result, &why);
        if (!code)
            continue;
        if (is_local_error(code))
            rc = error_set(err, code, "%s", why.message);
        while (records.count > before)
            mem_free((void *)records.items[--records.count].data);
        result->error_code = (int16_t)code;
        result->error_message = controller_keep(arena, why.message);
    }
    if (!rc && !in->validate_only)
        rc = controller_commit(c, &records, err);
    record_list_fini(&records);
    repeats_fini(&names);
    return rc;
}

/* --- CreatePartitions --- */

typedef struct create_partitions_request_create_partitions_topic growing;

static int check_growth(const struct topic_image *topic, const growing *g, cafka_error *err)
{
    static const int code = ERR_INVALID_PARTITIONS;
    if (g->count == topic->partition_count)
        return error_set(err, code, "Topic already has %d partition(s).", (int)g->count);
    if (g->count < topic->partition_count)
        return error_set(err, code,
                         "The topic %s currently has %d partition(s); %d would not be an increase.",
                         topic->name, (int)topic->partition_count, (int)g->count);
    int32_t added = g->count - topic->partition_count;
    if (g->assignments_count >= 0 && g->assignments_count != added)
        return error_set(err, ERR_INVALID_REPLICA_ASSIGNMENT,
                         "Attempted to add %d additional partition(s), but only %d assignment(s) "
                         "were specified.",
                         (int)added, (int)g->assignments_count);
    if (added > PARTITIONS_PER_REQUEST_MAX) /* more records than the controller writes at once */
        return error_set(err, ERR_UNKNOWN_SERVER_ERROR,
                         "The attempt to create %d partition(s) for topic %s is too much.",
                         (int)added, topic->name);
    return CAFKA_OK;
}

static int place_growth(struct controller *c, const struct topic_image *topic, const growing *g,
                        struct arena *arena, struct placement *out, cafka_error *err)
{
    int32_t added = g->count - topic->partition_count;
    int32_t replicas = topic->partitions[0].replica_count;
    if (g->assignments_count < 0)
        return place_striped(c, added, replicas, arena, out, err);
    int32_t *ids = arena_calloc(arena, (size_t)added * (size_t)replicas, sizeof *ids);
    if (!ids)
        return no_memory(err);
    for (int32_t i = 0; i < added; i++) {
        const struct create_partitions_request_create_partitions_assignment *a = &g->assignments[i];
        int rc = check_assignment(c, a->broker_ids, a->broker_ids_count, replicas, err);
        if (!rc)
            rc = check_some_live(c, a->broker_ids, a->broker_ids_count, topic->partition_count + i,
                                 err);
        if (rc)
            return rc;
        memcpy(ids + (size_t)i * (size_t)replicas, a->broker_ids, (size_t)replicas * sizeof *ids);
    }
    *out = (struct placement){added, replicas, ids};
    return CAFKA_OK;
}

static int grow(struct controller *c, const growing *g, bool repeated, struct record_list *records,
                struct arena *arena, cafka_error *err)
{
    if (repeated)
        return error_set(err, ERR_INVALID_REQUEST, "Duplicate topic name.");
    const struct topic_image *topic = image_topic(&c->image, g->name);
    if (!topic)
        return error_set(err, ERR_UNKNOWN_TOPIC_OR_PARTITION,
                         "This server does not host this topic-partition.");
    struct placement place = {0};
    int rc = check_growth(topic, g, err);
    if (!rc)
        rc = place_growth(c, topic, g, arena, &place, err);
    for (int32_t i = 0; !rc && i < place.partitions; i++)
        rc = add_partition(c, records, topic->id, topic->partition_count + i,
                           place.ids + (size_t)i * (size_t)place.replicas, place.replicas, arena,
                           err);
    return rc;
}

int controller_create_partitions(struct controller *c, const struct create_partitions_request *in,
                                 struct arena *arena, struct create_partitions_response *out,
                                 cafka_error *err)
{
    struct record_list records = {0};
    int32_t count = in->topics_count > 0 ? in->topics_count : 0;
    create_partitions_response_init(out);
    out->results = arena_calloc(arena, (size_t)count + 1, sizeof *out->results);
    if (!out->results)
        return no_memory(err);
    struct repeats names = {0};
    for (int32_t i = 0; i < count; i++)
        repeats_add(&names, in->topics[i].name.data, in->topics[i].name.size, i);
    int rc = names.failed ? no_memory(err) : CAFKA_OK;
    for (int32_t i = 0; !rc && i < count; i++) {
        struct str name = in->topics[i].name;
        if (!repeats_is_first(&names, name.data, name.size, i))
            continue;
        size_t before = records.count;
        cafka_error why = {0};
        int code = grow(c, &in->topics[i], repeats_are_many(&names, name.data, name.size), &records,
                        arena, &why);
        struct create_partitions_response_create_partitions_topic_result *result =
            &out->results[out->results_count++];
        create_partitions_response_create_partitions_topic_result_init(result);
        result->name = in->topics[i].name;
        if (!code)
            continue;
        if (is_local_error(code))
            rc = error_set(err, code, "%s", why.message);
        while (records.count > before)
            mem_free((void *)records.items[--records.count].data);
        result->error_code = (int16_t)code;
        if (code != ERR_UNKNOWN_TOPIC_OR_PARTITION && code != ERR_UNKNOWN_SERVER_ERROR)
            result->error_message =
                controller_keep(arena, why.message); /* of those two Kafka sends no words */
    }
    if (!rc && !in->validate_only)
        rc = controller_commit(c, &records, err);
    record_list_fini(&records);
    repeats_fini(&names);
    return rc;
}
