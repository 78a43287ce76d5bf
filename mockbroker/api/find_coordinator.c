/*
 * find_coordinator.c - FindCoordinator: which broker leads the partition that a key belongs to.
 *
 * The internal topic is made when somebody asks for the first time.
 *
 * Thread:  the broker's loop.
 * Reading: api_find_coordinator(), then find().
 * Source:  kafka.server.KafkaApis.handleFindCoordinatorRequest; KIP-699.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "mockbroker/api/api.h"
#include "mockbroker/api/auto_create.h"
#include "mockbroker/broker.h"
#include "mockbroker/session.h"
#include "protocol/error_codes.h"
#include "protocol/messages/FindCoordinator.h"
#include "util/hash.h"

enum { KEY_GROUP, KEY_TRANSACTION, KEY_SHARE };
enum { BATCHED_FROM = 4, SHARE_FROM = 6 };

struct found {
    int code;
    int32_t node;
    const struct endpoint *endpoint;
};

/* The last colon of the text, or NULL. */
static const char *last_colon(const char *text, size_t size)
{
    while (size && text[size - 1] != ':')
        size--;
    return size ? text + size - 1 : NULL;
}

/* "group:topic-id:partition" */
static bool is_share_key(struct str key)
{
    const char *end = key.data + key.size;
    const char *last = last_colon(key.data, key.size);
    const char *middle = last ? last_colon(key.data, (size_t)(last - key.data)) : NULL;
    struct uuid id;
    if (!middle || middle == key.data || last + 1 == end)
        return false;
    for (const char *p = last + 1; p < end; p++)
        if (*p < '0' || *p > '9')
            return false;
    return uuid_parse(middle + 1, (size_t)(last - middle - 1), &id);
}

static const char *state_topic(int type)
{
    return type == KEY_GROUP         ? "__consumer_offsets"
           : type == KEY_TRANSACTION ? "__transaction_state"
                                     : "__share_group_state";
}

static struct found find(struct request_context *ctx, int type, struct str key)
{
    struct broker *broker = ctx->broker;
    struct found none = {.code = ERR_COORDINATOR_NOT_AVAILABLE};
    if (type < KEY_GROUP || type > KEY_SHARE ||
        (type == KEY_SHARE && (ctx->version < SHARE_FROM || !is_share_key(key))))
        return (struct found){.code = ERR_INVALID_REQUEST};
    struct str name = str_of(state_topic(type));
    const struct topic_image *topic = image_topic(&broker->image, name);
    if (!topic) {
        auto_create(broker, &name, 1, &ctx->arena);
        return none;
    }
    /* Java's Utils.abs: the smallest int has no positive and becomes 0. */
    int32_t hash = hash_java_string(key.data, key.size);
    int32_t positive = hash == INT32_MIN ? 0 : abs(hash);
    const struct partition_image *p = &topic->partitions[positive % topic->partition_count];
    const struct broker_image *leader = image_live_broker(&broker->image, p->leader);
    const struct endpoint *endpoint =
        leader ? broker_endpoint(leader, ctx->session->listener->name) : NULL;
    return endpoint ? (struct found){0, leader->id, endpoint} : none;
}

static const char *message_of(int code)
{
    return code == ERR_INVALID_REQUEST
               ? "This most likely occurs because of a request being malformed by the client."
               : "The coordinator is not available.";
}

/* Of a share key that is none the real broker says no more than the code. */
static bool tells_why(int type, int code)
{
    return code && !(type == KEY_SHARE && code == ERR_INVALID_REQUEST);
}

static void answer_one(struct request_context *ctx)
{
    const struct find_coordinator_request *in = ctx->body;
    struct found found = find(ctx, in->key_type, in->key);
    struct find_coordinator_response out;
    find_coordinator_response_init(&out);
    out.error_code = (int16_t)found.code;
    out.error_message = str_of(found.code ? message_of(found.code) : "NONE");
    out.node_id = found.endpoint ? found.node : -1;
    out.host = str_of(found.endpoint ? found.endpoint->host : "");
    out.port = found.endpoint ? found.endpoint->port : -1;
    request_respond(ctx, &out);
}

void api_find_coordinator(struct request_context *ctx)
{
    const struct find_coordinator_request *in = ctx->body;
    struct find_coordinator_response out;
    if (ctx->version < BATCHED_FROM) {
        answer_one(ctx);
        return;
    }
    int32_t count = in->coordinator_keys_count > 0 ? in->coordinator_keys_count : 0;
    find_coordinator_response_init(&out);
    out.coordinators = request_calloc(ctx, (size_t)count + 1, sizeof *out.coordinators);
    if (!out.coordinators) {
        request_close(ctx);
        return;
    }
    bool created = false;
    for (int32_t i = 0; i < count; i++) {
        struct str key = in->coordinator_keys[i];
        struct found found = {.code = ERR_COORDINATOR_NOT_AVAILABLE};
        if (!created)
            found = find(ctx, in->key_type, key);
        created |= found.code == ERR_COORDINATOR_NOT_AVAILABLE; /* the same for all of the keys */
        out.coordinators[out.coordinators_count++] = (struct find_coordinator_response_coordinator){
            .key = key,
            .node_id = found.endpoint ? found.node : -1,
            .host = str_of(found.endpoint ? found.endpoint->host : ""),
            .port = found.endpoint ? found.endpoint->port : -1,
            .error_code = (int16_t)found.code,
            .error_message =
                str_of(tells_why(in->key_type, found.code) ? message_of(found.code) : "")};
    }
    request_respond(ctx, &out);
}
