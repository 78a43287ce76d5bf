/*
 * offsets.c - see offsets.h.
 *
 * One request holds the queries of one leader, sorted by topic. An answer names topics and
 * partitions in any order a broker likes, but brokers keep ours, so the search for an answer's
 * query begins behind the last one found.
 */
#include "consumer/offsets.h"

#include <stdlib.h>

#include "consumer/offsets_message.h"
#include "protocol/errors.h"
#include "util/alloc.h"

struct offset_request {
    struct call call; /* first */
    struct list link;
    struct offset_lookup *lookup;
    struct offset_body body;
    bool by_epoch;
    struct offset_query **queries; /* NULL: cancelled or answered */
    size_t count, next;
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
    offset_body_fini(&request->body);
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

static void handle_result(struct offset_lookup *lookup, struct offset_query *query,
                          const struct offset_result *result)
{
    int code = result->error;
    if (code == ERR_NONE || code == ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT) {
        bool found = code == ERR_NONE;
        finish(query, found ? result->offset : -1, found ? result->timestamp_ms : -1,
               found ? result->leader_epoch : -1, NULL);
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

static void take_result(void *user, const struct offset_result *result)
{
    struct offset_request *request = user;
    struct offset_query *query = take_query(request, result->topic, result->partition);
    if (query)
        handle_result(request->lookup, query, result);
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
    cafka_error err = {0};
    list_remove(&request->link); /* from here on cancelling the lookup must not free it */
    if (!reply->error)
        (void)offset_answer_each(reply, request->by_epoch, take_result, request, &err);
    handle_rest(request, reply->error ? reply->error : err.code ? &err : NULL);
    request_free(request);
}

static int check_version(struct call *call, int version, cafka_error *err)
{
    return offset_check_version(container_of(call, struct offset_request, call)->by_epoch, version,
                                err);
}

static int by_topic(const void *a, const void *b)
{
    const struct offset_query *x = *(struct offset_query *const *)a,
                              *y = *(struct offset_query *const *)b;
    if (x->topic != y->topic)
        return strcmp(x->topic->name, y->topic->name);
    return (x->partition > y->partition) - (x->partition < y->partition);
}

static struct offset_request *request_new(struct offset_lookup *lookup, size_t count, bool by_epoch)
{
    struct offset_request *request = mem_zalloc(sizeof *request);
    if (!request)
        return NULL;
    request->lookup = lookup;
    request->by_epoch = by_epoch;
    request->queries = mem_calloc(count, sizeof(struct offset_query *));
    if (!request->queries) {
        request_free(request);
        return NULL;
    }
    request->call.request.api_key = (int16_t)offset_api_key(by_epoch);
    request->call.prepare = check_version;
    request->call.done = answered;
    request->call.body = &request->body.as;
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

/* Queries that leave together: of one leader, and about the same thing. */
struct destination {
    int32_t leader; /* -1: none */
    bool by_epoch;
};

static bool goes_to(const struct offset_query *query, struct destination to, int64_t now_ms)
{
    return query->not_before_ms <= now_ms && (query->epoch >= 0) == to.by_epoch &&
           leader_of(query) == to.leader;
}

static size_t count_going(const struct offset_lookup *lookup, struct destination to, int64_t now_ms)
{
    size_t count = 0;
    struct list *link, *after;
    list_each(link, after, &lookup->waiting) count +=
        goes_to(list_item(link, struct offset_query, link), to, now_ms);
    return count;
}

/* Give the queries of a request that can't be sent back. */
static void put_back(struct offset_request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        request->queries[i]->request = NULL;
        list_push_back(&request->lookup->waiting, &request->queries[i]->link);
    }
    request_free(request);
}

/* All ready queries of one destination in one request. False: no memory, try later. */
static bool send_to(struct offset_lookup *lookup, struct destination to, int64_t now_ms)
{
    struct list *link, *after;
    struct offset_request *request =
        request_new(lookup, count_going(lookup, to, now_ms), to.by_epoch);
    if (!request)
        return false;
    list_each(link, after, &lookup->waiting)
    {
        struct offset_query *query = list_item(link, struct offset_query, link);
        if (!goes_to(query, to, now_ms))
            continue;
        request->queries[request->count++] = query;
        query->request = request;
        list_remove(link);
    }
    qsort(request->queries, request->count, sizeof *request->queries, by_topic);
    leave_doubles(request);
    if (offset_body_fill(&request->body, lookup, request->queries, request->count, NULL)) {
        put_back(request);
        return false;
    }
    list_push_back(&lookup->requests, &request->link);
    client_call(lookup->client, &request->call, to.leader, LANE_CONTROL);
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

/* Where some ready query goes. *next_ms: when the earliest of the others is ready. */
static struct destination next_destination(struct offset_lookup *lookup, int64_t now_ms,
                                           int64_t *next_ms)
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
            return (struct destination){leader, query->epoch >= 0};
    }
    return (struct destination){-1, false};
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
    struct destination to;
    while ((to = next_destination(lookup, now_ms, &next_ms)).leader >= 0)
        if (!send_to(lookup, to, now_ms)) {
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
