/*
 * log_dirs.c - DescribeLogDirs, AlterReplicaLogDirs: one log directory a broker.
 *
 * A request names a set of partitions: one that is named twice is told once, and what is said of one
 * topic in several places comes together.
 *
 * Thread: the broker's loop.
 * Source: kafka.server.ReplicaManager.describeLogDirs, alterReplicaLogDirs.
 */
#include "mockbroker/api/api.h"
#include "mockbroker/api/data.h"
#include "protocol/error_codes.h"
#include "protocol/messages/AlterReplicaLogDirs.h"
#include "protocol/messages/DescribeLogDirs.h"

enum { WHOLE_TOPIC = -1 };

/* Places in an answer, by the names of a request. */
struct places {
    struct data_names topics, partitions;
};

static void places_fini(struct places *places)
{
    map_fini(&places->topics.ordinals);
    map_fini(&places->partitions.ordinals);
}

/* The topic's place, `next` if it is new; SIZE_MAX without memory. */
static size_t place_topic(struct places *places, struct str topic, size_t next)
{
    struct uuid none = {{0}};
    size_t place = data_names_get(&places->topics, topic, none, WHOLE_TOPIC);
    if (place != SIZE_MAX)
        return place;
    return data_names_put(&places->topics, topic, none, WHOLE_TOPIC, next) ? next : SIZE_MAX;
}

static size_t place_partition(struct places *places, struct str topic, int32_t index, size_t next)
{
    struct uuid none = {{0}};
    size_t place = data_names_get(&places->partitions, topic, none, index);
    if (place != SIZE_MAX)
        return place;
    return data_names_put(&places->partitions, topic, none, index, next) ? next : SIZE_MAX;
}

/* --- DescribeLogDirs --- */

typedef struct describe_log_dirs_response_describe_log_dirs_topic dir_topic;
typedef struct describe_log_dirs_response_describe_log_dirs_result dir_result;

static void add_log(const struct topic_image *topic, int32_t index, dir_topic *out)
{
    const struct partition_image *p = topic_partition(topic, index);
    const struct partition *hosted = p ? p->hosted : NULL;
    struct describe_log_dirs_response_describe_log_dirs_partition *to;
    if (!hosted)
        return;
    to = &out->partitions[out->partitions_count++];
    describe_log_dirs_response_describe_log_dirs_partition_init(to);
    to->partition_index = index;
    to->partition_size = commit_log_size(hosted->log);
}

static bool begin_topic(struct request_context *ctx, const struct topic_image *topic,
                        dir_result *result)
{
    dir_topic *to = &result->topics[result->topics_count++];
    *to = (dir_topic){.name = str_of(topic->name),
                      .partitions = request_calloc(ctx, (size_t)topic->partition_count + 1,
                                                   sizeof *to->partitions)};
    return to->partitions;
}

static bool add_named(struct request_context *ctx, const struct topic_image *topic,
                      const int32_t *indexes, int32_t count, struct places *places,
                      dir_result *result)
{
    struct str name = str_of(topic->name);
    size_t next = (size_t)result->topics_count, place = place_topic(places, name, next);
    if (place == SIZE_MAX || (place == next && !begin_topic(ctx, topic, result)))
        return false;
    for (int32_t i = 0; i < count; i++) {
        size_t fresh = (size_t)result->topics[place].partitions_count;
        size_t known = topic_partition(topic, indexes[i])
                           ? place_partition(places, name, indexes[i], fresh)
                           : SIZE_MAX - 1;
        if (known == SIZE_MAX)
            return false;
        if (known == fresh)
            add_log(topic, indexes[i], &result->topics[place]);
    }
    return true;
}

static bool add_all(struct request_context *ctx, dir_result *result)
{
    const struct image *image = &ctx->broker->image;
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&image->topics, &i));) {
        const struct topic_image *topic = e->value;
        if (!begin_topic(ctx, topic, result))
            return false;
        for (int32_t n = 0; n < topic->partition_count; n++)
            add_log(topic, n, &result->topics[result->topics_count - 1]);
    }
    return true;
}

static bool add_wanted(struct request_context *ctx, struct places *places, dir_result *result)
{
    const struct describe_log_dirs_request *in = ctx->body;
    bool good = true;
    for (int32_t i = 0; good && i < in->topics_count; i++) {
        const struct topic_image *topic = image_topic(&ctx->broker->image, in->topics[i].topic);
        if (topic)
            good = add_named(ctx, topic, in->topics[i].partitions, in->topics[i].partitions_count,
                             places, result);
    }
    return good;
}

/* Topics of which nothing is here are not told. */
static void drop_empty(dir_result *result)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < result->topics_count; i++)
        if (result->topics[i].partitions_count)
            result->topics[kept++] = result->topics[i];
    result->topics_count = kept;
}

void api_describe_log_dirs(struct request_context *ctx)
{
    const struct describe_log_dirs_request *in = ctx->body;
    const struct image *image = &ctx->broker->image;
    struct describe_log_dirs_response out;
    dir_result result;
    struct places places = {{{0}}, {{0}}};
    bool all = in->topics_count < 0;
    describe_log_dirs_response_init(&out);
    describe_log_dirs_response_describe_log_dirs_result_init(&result);
    result.log_dir = str_of(ctx->broker->directory);
    result.topics = request_calloc(ctx, (all ? image->topics.count : (size_t)in->topics_count) + 1,
                                   sizeof *result.topics);
    bool good = result.topics && (all ? add_all(ctx, &result) : add_wanted(ctx, &places, &result));
    places_fini(&places);
    if (good)
        drop_empty(&result);
    /* The env does not tell how large its disk is: as large as the answer can say. */
    result.total_bytes = INT64_MAX;
    result.usable_bytes = INT64_MAX;
    for (int32_t i = 0; good && i < result.topics_count; i++)
        for (int32_t j = 0; j < result.topics[i].partitions_count; j++)
            result.usable_bytes -= result.topics[i].partitions[j].partition_size;
    out.results = &result;
    out.results_count = 1;
    if (good)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}

/* --- AlterReplicaLogDirs --- */

typedef struct alter_replica_log_dirs_response_alter_replica_log_dir_topic_result moved_topic;

/* There is one directory, so a replica is where it shall be, or the place does not exist. */
static int move(struct request_context *ctx, struct str path, struct str topic, int32_t index)
{
    enum { NAME_MAX_BYTES = 255, SUFFIX_BYTES = 40 };
    if (topic.size + SUFFIX_BYTES > NAME_MAX_BYTES)
        return ERR_INVALID_TOPIC_EXCEPTION;
    if (!str_is(path, ctx->broker->directory))
        return ERR_LOG_DIR_NOT_FOUND;
    struct data_target target = data_find(ctx->broker, topic, (struct uuid){{0}}, false, index);
    if (target.error == ERR_NOT_LEADER_OR_FOLLOWER)
        return ERR_REPLICA_NOT_AVAILABLE;
    return target.error;
}

/*
 * Room for `more` partitions. It doubles, since a request may name one topic a hundred thousand times
 * and the arena gives nothing back before its end.
 */
static bool grow(struct request_context *ctx, moved_topic *to, int32_t *room, int32_t more)
{
    size_t had = (size_t)to->partitions_count, want = had + (size_t)more;
    if (want <= (size_t)*room)
        return true;
    size_t capacity = want < 2 * had ? 2 * had : want;
    void *parts =
        capacity > INT32_MAX ? NULL : request_calloc(ctx, capacity, sizeof *to->partitions);
    if (!parts)
        return false;
    if (had)
        memcpy(parts, to->partitions, had * sizeof *to->partitions);
    to->partitions = parts;
    *room = (int32_t)capacity;
    return true;
}

/* `rooms`: for each topic of the answer, how many partitions it has room for. */
static bool move_topic(struct request_context *ctx, struct str path, struct str topic,
                       const int32_t *indexes, int32_t count, struct places *places, int32_t *rooms,
                       struct alter_replica_log_dirs_response *out)
{
    size_t next = (size_t)out->results_count, place = place_topic(places, topic, next);
    if (place == SIZE_MAX)
        return false;
    moved_topic *to = &out->results[place];
    if (place == next) {
        out->results_count++;
        to->topic_name = topic;
    }
    if (count > 0 && !grow(ctx, to, &rooms[place], count))
        return false;
    for (int32_t i = 0; i < count; i++) {
        size_t fresh = (size_t)to->partitions_count;
        size_t known = place_partition(places, topic, indexes[i], fresh);
        if (known == SIZE_MAX)
            return false;
        to->partitions_count += known == fresh;
        to->partitions[known].partition_index = indexes[i];
        to->partitions[known].error_code = (int16_t)move(ctx, path, topic, indexes[i]);
    }
    return true;
}

void api_alter_replica_log_dirs(struct request_context *ctx)
{
    const struct alter_replica_log_dirs_request *in = ctx->body;
    struct alter_replica_log_dirs_response out;
    struct places places = {{{0}}, {{0}}};
    size_t topics = 0;
    alter_replica_log_dirs_response_init(&out);
    for (int32_t d = 0; d < in->dirs_count; d++)
        topics += (size_t)in->dirs[d].topics_count;
    out.results = request_calloc(ctx, topics + 1, sizeof *out.results);
    int32_t *rooms = request_calloc(ctx, topics + 1, sizeof *rooms);
    bool good = out.results && rooms;
    for (int32_t d = 0; good && d < in->dirs_count; d++)
        for (int32_t t = 0; good && t < in->dirs[d].topics_count; t++)
            good = move_topic(ctx, in->dirs[d].path, in->dirs[d].topics[t].name,
                              in->dirs[d].topics[t].partitions,
                              in->dirs[d].topics[t].partitions_count, &places, rooms, &out);
    places_fini(&places);
    if (good)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}
