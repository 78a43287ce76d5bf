/*
 * offsets.c - see offsets.h.
 *
 * One request holds the queries of one leader, sorted by topic. An answer names topics and
 * partitions in any order a broker likes, but brokers keep ours, so the search for an answer's
 * query begins behind the last one found.
 */
#include "consumer/offsets.h"

#include <stdlib.h>

#include "protocol/api_keys.h"
#include "protocol/errors.h"
#include "protocol/messages/ListOffsets.h"
#include "util/alloc.h"

typedef struct list_offsets_request_list_offsets_topic topic_part;
typedef struct list_offsets_request_list_offsets_partition partition_part;
typedef struct list_offsets_response_list_offsets_partition_response partition_answer;

enum { FIRST_VERSION = 1 }; /* version 0 lists segments, not offsets; brokers from 0.10.1 know 1 */

struct offset_request {
    struct call call; /* first */
    struct list link;
    struct offset_lookup *lookup;
    struct list_offsets_request body;
    struct offset_query **queries; /* NULL: cancelled or answered */
    size_t count, next;
    topic_part *topics;
    partition_part *partitions;
};

static void look(struct loop_task *task);
static void timer_fired(struct timer *timer);

void offset_lookup_init(struct offset_lookup *lookup, struct client *client, bool read_committed)
{
    *lookup = (struct offset_lookup){.client = client, .read_committed = read_committed};
    list_init(&lookup->waiting);
    list_init(&lookup->requests);
    lookup->task.run = look;
    lookup->timer.fire = timer_fired;
}

static void request_free(struct offset_request *request)
{
    if (!request)
        return;
    list_remove(&request->link);
    mem_free(request->queries);
    mem_free(request->topics);
    mem_free(request->partitions);
    mem_free(request);
}

void offset_lookup_fini(struct offset_lookup *lookup)
{
    if (!lookup->client)
        return;
    struct list *link;
    while ((link = list_first(&lookup->requests))) {
        struct offset_request *request = list_item(link, struct offset_request, link);
        client_call_cancel(&request->call);
        request_free(request);
    }
    while ((link = list_first(&lookup->waiting)))
        list_remove(link);
    loop_timer_cancel(lookup->client->loop, &lookup->timer);
}

void offset_lookup_kick(struct offset_lookup *lookup)
{
    if (lookup->posted || list_empty(&lookup->waiting))
        return;
    lookup->posted = true;
    loop_post(lookup->client->loop, &lookup->task);
}

void offset_lookup_add(struct offset_lookup *lookup, struct offset_query *query)
{
    query->request = NULL;
    query->attempts = 0;
    query->not_before_ms = 0;
    list_push_back(&lookup->waiting, &query->link);
    offset_lookup_kick(lookup);
}

void offset_lookup_cancel(struct offset_query *query)
{
    struct offset_request *request = query->request;
    for (size_t i = 0; request && i < request->count; i++)
        if (request->queries[i] == query)
            request->queries[i] = NULL;
    query->request = NULL;
    list_remove(&query->link);
}

static void finish(struct offset_query *query, int64_t offset, int64_t timestamp_ms,
                   int32_t leader_epoch, const cafka_error *error)
{
    query->request = NULL;
    list_remove(&query->link);
    query->done(query, offset, timestamp_ms, leader_epoch, error);
}

/* Wait for the backoff and look again. */
static void try_again(struct offset_lookup *lookup, struct offset_query *query)
{
    const struct client_settings *settings = lookup->client->settings;
    int64_t wait_ms = backoff_after(lookup->client->env, settings->retry_backoff_ms,
                                    settings->retry_backoff_max_ms, query->attempts++);
    query->request = NULL;
    query->not_before_ms = loop_now_ms(lookup->client->loop) + wait_ms;
    list_remove(&query->link);
    list_push_back(&lookup->waiting, &query->link);
    if (!timer_is_set(&lookup->timer) || lookup->timer.deadline_ms > query->not_before_ms)
        loop_timer_set(lookup->client->loop, &lookup->timer, query->not_before_ms);
}

static bool is_final(int code)
{
    return code == ERR_TOPIC_AUTHORIZATION_FAILED || code == ERR_INVALID_TOPIC_EXCEPTION ||
           code == ERR_UNSUPPORTED_VERSION || code == ERR_INVALID_REQUEST ||
           code == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT;
}

static void handle_partition(struct offset_lookup *lookup, struct offset_query *query,
                             const partition_answer *answer)
{
    int code = answer->error_code;
    if (code == ERR_NONE || code == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT) {
        bool found = code == ERR_NONE;
        finish(query, found ? answer->offset : -1, found ? answer->timestamp : -1,
               found ? answer->leader_epoch : -1, NULL);
    } else if (is_final(code)) {
        cafka_error err = {0};
        error_set(&err, code, "looking up an offset of %s-%d: the broker answered %s",
                  query->topic->name, query->partition, cafka_error_name(code));
        finish(query, -1, -1, -1, &err);
    } else {
        metadata_refresh(lookup->client->metadata);
        try_again(lookup, query);
    }
}

static struct offset_query *take_query(struct offset_request *request, struct str topic,
                                       int32_t partition)
{
    for (size_t n = 0; n < request->count; n++) {
        size_t i = (request->next + n) % request->count;
        struct offset_query *query = request->queries[i];
        if (query && query->partition == partition && str_is(topic, query->topic->name)) {
            request->queries[i] = NULL;
            request->next = i + 1;
            return query;
        }
    }
    return NULL;
}

static void handle_answer(struct offset_request *request, const struct list_offsets_response *answer)
{
    for (int32_t t = 0; t < answer->topics_count; t++)
        for (int32_t p = 0; p < answer->topics[t].partitions_count; p++) {
            const partition_answer *part = &answer->topics[t].partitions[p];
            struct offset_query *query =
                take_query(request, answer->topics[t].name, part->partition_index);
            if (query)
                handle_partition(request->lookup, query, part);
        }
}

/* Queries that the answer left out, or all of them if there was none. */
static void handle_rest(struct offset_request *request, const cafka_error *error)
{
    struct offset_lookup *lookup = request->lookup;
    for (size_t i = 0; i < request->count; i++) {
        struct offset_query *query = request->queries[i];
        request->queries[i] = NULL;
        if (!query)
            continue;
        if (error && (error->code == CAFKA_ERR_UNSUPPORTED || error->code == CAFKA_ERR_CLOSED)) {
            finish(query, -1, -1, -1, error);
        } else {
            metadata_refresh(lookup->client->metadata);
            try_again(lookup, query);
        }
    }
}

static void answered(struct call *call, const struct reply *reply)
{
    struct offset_request *request = container_of(call, struct offset_request, call);
    struct arena arena = {0};
    struct list_offsets_response answer;
    cafka_error err = {0};
    list_remove(&request->link); /* from here on cancelling the lookup must not free it */
    if (!reply->error && !reply_decode(reply, &arena, &answer, &err))
        handle_answer(request, &answer);
    handle_rest(request, reply->error ? reply->error : err.code ? &err : NULL);
    arena_fini(&arena);
    request_free(request);
}

static int check_version(struct call *call, int version, cafka_error *err)
{
    (void)call;
    if (version < FIRST_VERSION)
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "the broker is too old to look up offsets (before 0.10.1)");
    return CAFKA_OK;
}

static int by_topic(const void *a, const void *b)
{
    const struct offset_query *x = *(struct offset_query *const *)a,
                              *y = *(struct offset_query *const *)b;
    if (x->topic != y->topic)
        return strcmp(x->topic->name, y->topic->name);
    return (x->partition > y->partition) - (x->partition < y->partition);
}

static void fill_body(struct offset_request *request, struct offset_lookup *lookup)
{
    list_offsets_request_init(&request->body);
    request->body.replica_id = -1;
    request->body.isolation_level = lookup->read_committed;
    request->body.topics = request->topics;
    request->body.timeout_ms = (int32_t)lookup->client->settings->request_timeout_ms;
    topic_part *topic = NULL;
    const struct metadata_topic *last = NULL;
    for (size_t i = 0; i < request->count; i++) {
        const struct offset_query *query = request->queries[i];
        const struct metadata_partition *known = metadata_partition(query->topic, query->partition);
        if (query->topic != last) {
            last = query->topic;
            topic = &request->topics[request->body.topics_count++];
            list_offsets_request_list_offsets_topic_init(topic);
            topic->name = str_of(query->topic->name);
            topic->partitions = &request->partitions[i];
        }
        partition_part *part = &request->partitions[i];
        list_offsets_request_list_offsets_partition_init(part);
        part->partition_index = query->partition;
        part->current_leader_epoch = known ? known->leader_epoch : -1;
        part->timestamp = query->timestamp_ms;
        topic->partitions_count++;
    }
}

static struct offset_request *request_new(struct offset_lookup *lookup, size_t count)
{
    struct offset_request *request = mem_zalloc(sizeof *request);
    if (!request)
        return NULL;
    request->lookup = lookup;
    request->queries = mem_calloc(count, sizeof(struct offset_query *));
    request->topics = mem_calloc(count, sizeof *request->topics);
    request->partitions = mem_calloc(count, sizeof *request->partitions);
    if (!request->queries || !request->topics || !request->partitions) {
        request_free(request);
        return NULL;
    }
    request->call.request.api_key = API_LIST_OFFSETS;
    request->call.prepare = check_version;
    request->call.done = answered;
    request->call.body = &request->body;
    return request;
}

static int32_t leader_of(const struct offset_query *query)
{
    const struct metadata_partition *known = metadata_partition(query->topic, query->partition);
    return known ? known->leader : -1;
}

/* A broker refuses a request that names a partition twice: a second query for it goes in the next. */
static void leave_doubles(struct offset_request *request)
{
    size_t kept = 1;
    for (size_t i = 1; i < request->count; i++) {
        struct offset_query *query = request->queries[i];
        if (by_topic(&request->queries[kept - 1], &query)) {
            request->queries[kept++] = query;
        } else {
            query->request = NULL;
            list_push_back(&request->lookup->waiting, &query->link);
        }
    }
    request->count = kept;
}

/* All ready queries of one leader in one request. False: no memory, try later. */
static bool send_to(struct offset_lookup *lookup, int32_t leader, int64_t now_ms)
{
    size_t count = 0;
    struct list *link, *after;
    list_each(link, after, &lookup->waiting)
    {
        struct offset_query *query = list_item(link, struct offset_query, link);
        count += query->not_before_ms <= now_ms && leader_of(query) == leader;
    }
    struct offset_request *request = request_new(lookup, count);
    if (!request)
        return false;
    list_each(link, after, &lookup->waiting)
    {
        struct offset_query *query = list_item(link, struct offset_query, link);
        if (query->not_before_ms > now_ms || leader_of(query) != leader)
            continue;
        request->queries[request->count++] = query;
        query->request = request;
        list_remove(link);
    }
    qsort(request->queries, request->count, sizeof *request->queries, by_topic);
    leave_doubles(request);
    fill_body(request, lookup);
    list_push_back(&lookup->requests, &request->link);
    client_call(lookup->client, &request->call, leader, LANE_CONTROL);
    return true;
}

/* An error of the whole topic that will not pass by itself. */
static bool refused(const struct offset_query *query)
{
    int code = query->topic->error.code;
    return code == ERR_TOPIC_AUTHORIZATION_FAILED || code == ERR_INVALID_TOPIC_EXCEPTION;
}

static struct offset_query *next_refused(struct offset_lookup *lookup)
{
    struct list *link, *after;
    list_each(link, after, &lookup->waiting)
    {
        struct offset_query *query = list_item(link, struct offset_query, link);
        if (refused(query))
            return query;
    }
    return NULL;
}

/* A leader that some ready query has; -1: none. *next_ms: when the earliest of the others is ready. */
static int32_t next_leader(struct offset_lookup *lookup, int64_t now_ms, int64_t *next_ms)
{
    struct list *link, *after;
    *next_ms = INT64_MAX;
    list_each(link, after, &lookup->waiting)
    {
        struct offset_query *query = list_item(link, struct offset_query, link);
        int32_t leader = leader_of(query);
        if (query->not_before_ms > now_ms)
            *next_ms = query->not_before_ms < *next_ms ? query->not_before_ms : *next_ms;
        else if (leader >= 0)
            return leader;
    }
    return -1;
}

static void send_ready(struct offset_lookup *lookup)
{
    struct client *client = lookup->client;
    int64_t now_ms = loop_now_ms(client->loop), next_ms;
    struct offset_query *query;
    while ((query = next_refused(lookup))) {
        cafka_error err = query->topic->error;
        finish(query, -1, -1, -1, &err);
    }
    int32_t leader;
    while ((leader = next_leader(lookup, now_ms, &next_ms)) >= 0)
        if (!send_to(lookup, leader, now_ms)) {
            next_ms = now_ms + client->settings->retry_backoff_max_ms;
            break;
        }
    if (next_ms != INT64_MAX)
        loop_timer_set(client->loop, &lookup->timer, next_ms);
}

static void look(struct loop_task *task)
{
    struct offset_lookup *lookup = container_of(task, struct offset_lookup, task);
    lookup->posted = false;
    send_ready(lookup);
}

static void timer_fired(struct timer *timer)
{
    send_ready(container_of(timer, struct offset_lookup, timer));
}
