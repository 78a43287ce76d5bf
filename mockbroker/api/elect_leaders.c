/*
 * elect_leaders.c - ElectLeaders: back to the preferred leader, or to any that lives (KIP-183, KIP-460).
 *
 * Thread: the broker's loop.
 * Source: org.apache.kafka.controller.ReplicationControlManager.electLeaders.
 */
#include "protocol/messages/ElectLeaders.h"

#include <stdio.h>

#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "protocol/error_codes.h"

typedef struct elect_leaders_response_replica_election_result topic_answer;

enum { PREFERRED = 0, UNCLEAN = 1 };

static void elect(struct request_context *ctx, int type, struct str topic, int32_t index,
                  topic_answer *out, bool tell_needless)
{
    cafka_error why = {0};
    struct controller *controller = ctx->broker->cluster->controller;
    int code = controller_elect_leader(controller, topic, index, type == UNCLEAN, &why);
    if (code == ERR_ELECTION_NOT_NEEDED && !tell_needless)
        return;
    out->partition_result[out->partition_result_count++] =
        (struct elect_leaders_response_partition_result){.partition_id = index,
                                                         .error_code =
                                                             (int16_t)(is_local_error(code)
                                                                           ? ERR_UNKNOWN_SERVER_ERROR
                                                                           : code),
                                                         .error_message =
                                                             code ? api_keep(ctx, why.message)
                                                                  : (struct str){0}};
}

static bool begin_topic(struct request_context *ctx, struct elect_leaders_response *out,
                        struct str name, int32_t partitions, topic_answer **topic)
{
    *topic = &out->replica_election_results[out->replica_election_results_count++];
    (*topic)->topic = name;
    (*topic)->partition_result =
        request_calloc(ctx, (size_t)partitions + 1, sizeof *(*topic)->partition_result);
    return (*topic)->partition_result;
}

/* Of every partition there is; those that need no election are not told. */
static bool elect_all(struct request_context *ctx, int type, struct elect_leaders_response *out)
{
    const struct image *image = &ctx->broker->cluster->controller->image;
    struct map_entry *e;
    topic_answer *answer;
    out->replica_election_results =
        request_calloc(ctx, image->topics.count + 1, sizeof *out->replica_election_results);
    if (!out->replica_election_results)
        return false;
    for (size_t i = 0; (e = map_next(&image->topics, &i));) {
        const struct topic_image *topic = e->value;
        struct str name = api_keep(ctx, topic->name);
        if (!begin_topic(ctx, out, name, topic->partition_count, &answer))
            return false;
        for (int32_t n = 0; n < topic->partition_count; n++)
            elect(ctx, type, name, n, answer, false);
    }
    return true;
}

static bool elect_named(struct request_context *ctx, int type, struct elect_leaders_response *out)
{
    const struct elect_leaders_request *in = ctx->body;
    topic_answer *answer;
    out->replica_election_results = request_calloc(ctx, (size_t)in->topic_partitions_count + 1,
                                                   sizeof *out->replica_election_results);
    if (!out->replica_election_results)
        return false;
    for (int32_t t = 0; t < in->topic_partitions_count; t++) {
        struct str name = in->topic_partitions[t].topic;
        int32_t count = in->topic_partitions[t].partitions_count;
        if (!begin_topic(ctx, out, name, count, &answer))
            return false;
        for (int32_t i = 0; i < count; i++)
            elect(ctx, type, name, in->topic_partitions[t].partitions[i], answer, true);
    }
    return true;
}

/* A type that does not exist: the whole is refused, and each partition that was named. */
static bool refuse_all(struct request_context *ctx, struct elect_leaders_response *out)
{
    const struct elect_leaders_request *in = ctx->body;
    char text[48];
    topic_answer *answer;
    snprintf(text, sizeof text, "Unknown election type %d", in->election_type);
    struct str message = api_keep(ctx, text);
    int32_t topics = in->topic_partitions_count > 0 ? in->topic_partitions_count : 0;
    out->error_code = ERR_INVALID_REQUEST;
    out->replica_election_results =
        request_calloc(ctx, (size_t)topics + 1, sizeof *out->replica_election_results);
    if (!out->replica_election_results)
        return false;
    for (int32_t t = 0; t < topics; t++) {
        int32_t count = in->topic_partitions[t].partitions_count;
        if (!begin_topic(ctx, out, in->topic_partitions[t].topic, count, &answer))
            return false;
        for (int32_t i = 0; i < count; i++)
            answer->partition_result[answer->partition_result_count++] =
                (struct elect_leaders_response_partition_result){.partition_id =
                                                                     in->topic_partitions[t]
                                                                         .partitions[i],
                                                                 .error_code = ERR_INVALID_REQUEST,
                                                                 .error_message = message};
    }
    return true;
}

void api_elect_leaders(struct request_context *ctx)
{
    const struct elect_leaders_request *in = ctx->body;
    struct elect_leaders_response out;
    int type = ctx->version ? in->election_type : PREFERRED;
    bool good;
    elect_leaders_response_init(&out);
    if (type != PREFERRED && type != UNCLEAN)
        good = refuse_all(ctx, &out);
    else if (in->topic_partitions_count < 0)
        good = elect_all(ctx, type, &out);
    else
        good = elect_named(ctx, type, &out);
    if (good)
        request_respond(ctx, &out);
    else
        request_close(ctx);
}
