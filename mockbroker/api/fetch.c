/*
 * fetch.c - Fetch: records from the logs, by sendfile, at once or when there are enough.
 *
 * A request becomes a list of wants: of the request itself, or of its session in the session's
 * order. If they would give fewer than min_bytes, the request waits in the purgatory until they
 * do, something in it can only be answered by an error, or max_wait_ms is over; then the logs are
 * read, in order and within the limits. What the session remembers is brought up to date when the
 * answer is made.
 *
 * Source: kafka.server.KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, KIP-227.
 */
#include "protocol/messages/Fetch.h"

#include "mockbroker/api/api.h"
#include "mockbroker/api/data.h"
#include "mockbroker/api/fetch_sessions.h"
#include "protocol/error_codes.h"

typedef struct fetch_request_fetch_partition partition_part;
typedef struct fetch_response_partition_data partition_answer;

enum {
    VERSION_WITH_FOLLOWERS = 11, /* a consumer may read from one */
    VERSION_WITH_IDS = 13,
    VERSION_WITH_LEADERS = 16,
};

/* A partition to read, apart from the session it may come from, which can change meanwhile. */
struct want {
    struct str topic;
    struct uuid topic_id;
    int32_t index;
    struct read_request read;
};

struct fetch_state {
    struct delayed op; /* first */
    struct request_context *ctx;
    const struct fetch_request *request;
    struct fetch_session *session; /* a reference; of the cache, or alone */
    bool incremental;
    int32_t response_id; /* session id of the answer */
    struct want *wants;
    size_t want_count;
    struct fetch_response response;
    struct data_endpoints endpoints;
};

/* --- the session --- */

static struct fetch_sessions *sessions_of(struct broker *broker)
{
    if (!broker->fetch_sessions)
        (void)fetch_sessions_new(&broker->fetch_sessions, broker, NULL); /* NULL: no sessions, then */
    return broker->fetch_sessions;
}

static bool set_entry(struct fetch_session *session, struct str topic, struct uuid id, const partition_part *part)
{
    struct fetch_entry *entry = fetch_session_add(session, topic, id, part->partition);
    if (!entry)
        return false;
    entry->offset = part->fetch_offset;
    entry->max_bytes = part->partition_max_bytes;
    entry->leader_epoch = part->current_leader_epoch;
    entry->last_fetched_epoch = part->last_fetched_epoch;
    return true;
}

/* Take over what the request lists; of a partition that is listed twice the last one counts. */
static bool update_entries(struct fetch_session *session, const struct fetch_request *request)
{
    for (int32_t t = 0; t < request->topics_count; t++)
        for (int32_t i = 0; i < request->topics[t].partitions_count; i++)
            if (!set_entry(session, request->topics[t].topic, request->topics[t].topic_id,
                           &request->topics[t].partitions[i]))
                return false;
    return true;
}

static void forget_entries(struct fetch_session *session, const struct fetch_request *request)
{
    for (int32_t t = 0; t < request->forgotten_topics_data_count; t++) {
        const struct fetch_request_forgotten_topic *topic = &request->forgotten_topics_data[t];
        for (int32_t i = 0; i < topic->partitions_count; i++) {
            struct fetch_entry *entry =
                fetch_session_find(session, topic->topic, topic->topic_id, topic->partitions[i]);
            if (entry)
                fetch_session_forget(session, entry);
        }
    }
}

/* A request that lists everything: perhaps it opens a session. */
static int open_full(struct fetch_state *state, bool by_id)
{
    const struct fetch_request *request = state->request;
    struct fetch_sessions *sessions = sessions_of(state->ctx->broker);
    struct fetch_session *old =
        sessions && request->session_id ? fetch_sessions_find(sessions, request->session_id) : NULL;
    if (old)
        fetch_sessions_remove(sessions, old);
    size_t count = 0;
    for (int32_t t = 0; t < request->topics_count; t++)
        count += (size_t)request->topics[t].partitions_count;
    if (request->session_epoch == 0 && sessions)
        state->session = fetch_sessions_make(sessions, count, by_id);
    if (state->session) {
        state->session->refs++;
        state->response_id = state->session->id;
    } else {
        state->session = fetch_session_alone(by_id);
    }
    return state->session && update_entries(state->session, request) ? ERR_NONE : CAFKA_ERR_MEMORY;
}

static int open_incremental(struct fetch_state *state, bool by_id)
{
    const struct fetch_request *request = state->request;
    struct fetch_sessions *sessions = sessions_of(state->ctx->broker);
    struct fetch_session *session = sessions ? fetch_sessions_find(sessions, request->session_id) : NULL;
    if (!session)
        return ERR_FETCH_SESSION_ID_NOT_FOUND;
    if (session->epoch != request->session_epoch)
        return ERR_INVALID_FETCH_SESSION_EPOCH;
    if (session->by_id != by_id)
        return ERR_FETCH_SESSION_TOPIC_ID_ERROR;
    state->session = session;
    session->refs++;
    forget_entries(session, request);
    if (!update_entries(session, request))
        return CAFKA_ERR_MEMORY;
    if (!session->count) {
        fetch_sessions_remove(sessions, session);
        return ERR_NONE; /* nothing is left to fetch: answered as if there was no session */
    }
    session->epoch = fetch_session_next_epoch(session->epoch);
    fetch_session_used(sessions, session);
    state->incremental = true;
    state->response_id = session->id;
    return ERR_NONE;
}

static int open_session(struct fetch_state *state)
{
    bool by_id = state->ctx->version >= VERSION_WITH_IDS;
    if (state->request->session_epoch == 0 || state->request->session_epoch == -1)
        return open_full(state, by_id);
    return open_incremental(state, by_id);
}

/* --- wants --- */

static bool list_wants(struct fetch_state *state)
{
    const struct request_context *ctx = state->ctx;
    struct list *link, *after;
    state->wants = request_calloc(state->ctx, state->session->count, sizeof *state->wants);
    if (!state->wants && state->session->count)
        return false;
    list_each(link, after, &state->session->entries) {
        const struct fetch_entry *entry = list_item(link, struct fetch_entry, link);
        struct want *want = &state->wants[state->want_count++];
        char *topic = arena_strndup(&state->ctx->arena, entry->topic, entry->topic_size);
        if (!topic)
            return false;
        /* no wants only if there are no entries. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        want->topic = (struct str){topic, entry->topic_size};
        want->topic_id = entry->topic_id;
        want->index = entry->index;
        want->read = (struct read_request){
            .offset = entry->offset,
            .current_leader_epoch = entry->leader_epoch,
            .last_fetched_epoch = entry->last_fetched_epoch,
            .end = state->request->isolation_level == 1 ? READ_TO_STABLE_OFFSET : READ_TO_HIGH_WATERMARK,
            .must_lead = ctx->version < VERSION_WITH_FOLLOWERS,
            .max_bytes = entry->max_bytes};
    }
    return true;
}

/* A broker that asks must hold a replica of the partition, and no partition has a second one yet. */
static bool asks_as_follower(const struct fetch_request *request)
{
    return request->replica_id >= 0 || request->replica_state.replica_id >= 0;
}

static struct data_target find(const struct fetch_state *state, const struct want *want)
{
    struct data_target target =
        data_find(state->ctx->broker, want->topic, want->topic_id, state->session->by_id, want->index);
    if (!target.error && asks_as_follower(state->request))
        target.error = ERR_NOT_LEADER_OR_FOLLOWER;
    return target;
}

/* Is there enough, or something that can't wait? */
static bool is_ready(struct delayed *op)
{
    struct fetch_state *state = container_of(op, struct fetch_state, op);
    int64_t bytes = 0;
    for (size_t i = 0; i < state->want_count; i++) {
        struct data_target target = find(state, &state->wants[i]);
        int64_t more = target.error ? -1 : partition_waiting_bytes(target.partition, &state->wants[i].read);
        if (more < 0)
            return true;
        bytes = more > INT64_MAX - bytes ? INT64_MAX : bytes + more;
    }
    return bytes >= state->request->min_bytes;
}

/* --- the answer --- */

static void release_file(struct response_slice *slice)
{
    log_file_unref(slice->user);
}

static void set_no_records(partition_answer *answer)
{
    answer->records = (struct records){.data = (const uint8_t *)"", .size = 0};
}

/* Hand the file's bytes to the response. False: no memory. */
static bool set_records(struct fetch_state *state, partition_answer *answer, struct log_slice *slice)
{
    set_no_records(answer);
    if (!slice->size)
        return true;
    struct response_slice *out =
        request_slice(state->ctx, slice->file->handle, slice->position, slice->size, release_file, slice->file);
    if (!out)
        return false;
    slice->file = NULL; /* the reference is the response's now */
    answer->records = (struct records){.size = slice->size, .external = out};
    return true;
}

static bool set_aborted(struct fetch_state *state, partition_answer *answer, const struct read_result *result)
{
    answer->aborted_transactions_count = 0;
    if (!result->aborted_count)
        return true;
    answer->aborted_transactions =
        request_calloc(state->ctx, result->aborted_count, sizeof *answer->aborted_transactions);
    if (!answer->aborted_transactions)
        return false;
    answer->aborted_transactions_count = (int32_t)result->aborted_count;
    for (size_t i = 0; i < result->aborted_count; i++) {
        answer->aborted_transactions[i].producer_id = result->aborted[i].producer_id;
        answer->aborted_transactions[i].first_offset = result->aborted[i].first_offset;
    }
    return true;
}

static void set_error(struct fetch_state *state, partition_answer *answer, int code, const struct data_target *target)
{
    answer->error_code = (int16_t)code;
    answer->high_watermark = answer->last_stable_offset = answer->log_start_offset = -1;
    answer->aborted_transactions_count = code == ERR_UNKNOWN_TOPIC_ID || code == ERR_UNKNOWN_TOPIC_OR_PARTITION ? 0 : -1;
    set_no_records(answer);
    bool leader_helps = code == ERR_NOT_LEADER_OR_FOLLOWER || code == ERR_FENCED_LEADER_EPOCH;
    if (leader_helps && target->image && state->ctx->version >= VERSION_WITH_LEADERS) {
        answer->current_leader.leader_id = target->image->leader;
        answer->current_leader.leader_epoch = target->image->leader_epoch;
        data_endpoints_add(&state->endpoints, state->ctx, target->image->leader);
    }
}

/* Read one partition within what is left of the request's limit. False: no memory. */
static bool read_partition(struct fetch_state *state, const struct want *want, int64_t *left, bool *need_one,
                           partition_answer *answer)
{
    struct data_target target = find(state, want);
    struct read_request read = want->read;
    struct read_result result;
    bool good = true;
    answer->partition_index = want->index;
    if (target.error) {
        set_error(state, answer, target.error, &target);
        return true;
    }
    if (read.max_bytes > *left)
        read.max_bytes = (int32_t)*left;
    read.whole_batch = *need_one;
    int code = partition_read(target.partition, &read, &result, NULL);
    if (code) {
        set_error(state, answer, code <= CAFKA_ERR_MEMORY ? ERR_UNKNOWN_SERVER_ERROR : code, &target);
    } else {
        answer->high_watermark = result.high_watermark;
        answer->last_stable_offset = result.stable_offset;
        answer->log_start_offset = result.log_start_offset;
        answer->aborted_transactions_count = -1;
        if (result.diverging) {
            answer->diverging_epoch.epoch = result.diverging_epoch.epoch;
            answer->diverging_epoch.end_offset = result.diverging_epoch.end_offset;
        }
        size_t size = result.slice.size;
        if (size) {
            *need_one = false;
            *left = (int64_t)size < *left ? *left - (int64_t)size : 0;
        }
        good = (read.end != READ_TO_STABLE_OFFSET || set_aborted(state, answer, &result)) &&
               set_records(state, answer, &result.slice);
    }
    read_result_fini(&result);
    return good;
}

/* Does an incremental answer have to hold it? Remembers what the consumer now knows. */
static bool is_news(struct fetch_entry *entry, const partition_answer *answer)
{
    bool news = answer->records.size || answer->error_code || answer->preferred_read_replica >= 0 ||
                answer->diverging_epoch.epoch >= 0 || answer->high_watermark != entry->high_watermark ||
                answer->log_start_offset != entry->log_start;
    entry->had_error = answer->error_code != 0;
    entry->high_watermark = answer->error_code ? -1 : answer->high_watermark;
    entry->log_start = answer->error_code ? -1 : answer->log_start_offset;
    return news;
}

static bool keep_answer(struct fetch_state *state, const struct want *want, const partition_answer *answer)
{
    struct fetch_entry *entry = fetch_session_find(state->session, want->topic, want->topic_id, want->index);
    if (!entry)
        return !state->incremental;
    bool news = is_news(entry, answer);
    if (news && (answer->records.size || answer->error_code))
        fetch_session_to_end(state->session, entry);
    return news || !state->incremental;
}

static bool same_topic(const struct fetch_response_fetchable_topic_response *topic, const struct want *want)
{
    return str_equal(topic->topic, want->topic) && uuid_equal(topic->topic_id, want->topic_id);
}

static bool read_all(struct fetch_state *state)
{
    struct fetch_response *response = &state->response;
    int64_t broker_limit = broker_config_long(&state->ctx->broker->config, "fetch.max.bytes");
    int64_t left = state->request->max_bytes < broker_limit ? state->request->max_bytes : broker_limit;
    bool need_one = true; /* some batch always comes, so that a consumer never stands still */
    response->responses = request_calloc(state->ctx, state->want_count, sizeof *response->responses);
    partition_answer *answers = request_calloc(state->ctx, state->want_count, sizeof *answers);
    struct fetch_response_fetchable_topic_response *topic = NULL;
    if (state->want_count && (!response->responses || !answers))
        return false;
    for (size_t i = 0; i < state->want_count; i++) {
        const struct want *want = &state->wants[i];
        fetch_response_partition_data_init(answers);
        if (!read_partition(state, want, &left, &need_one, answers))
            return false;
        if (!keep_answer(state, want, answers))
            continue;
        if (!topic || !same_topic(topic, want)) {
            topic = &response->responses[response->responses_count++];
            topic->topic = want->topic;
            topic->topic_id = want->topic_id;
            topic->partitions = answers;
        }
        topic->partitions_count++;
        answers++;
    }
    return true;
}

static bool set_endpoints(struct fetch_state *state)
{
    struct fetch_response *response = &state->response;
    int32_t count = state->endpoints.count;
    if (!count)
        return true;
    response->node_endpoints = request_calloc(state->ctx, (size_t)count, sizeof *response->node_endpoints);
    if (!response->node_endpoints)
        return false;
    response->node_endpoints_count = count;
    for (int32_t i = 0; i < count; i++) {
        const struct data_endpoint *node = &state->endpoints.nodes[i];
        response->node_endpoints[i] = (struct fetch_response_node_endpoint){
            .node_id = node->id, .host = node->host, .port = node->port, .rack = node->rack};
    }
    return true;
}

static void let_session_go(struct fetch_state *state)
{
    fetch_session_unref(state->session);
    state->session = NULL;
}

static void answer(struct fetch_state *state)
{
    fetch_response_init(&state->response);
    state->response.session_id = state->response_id;
    bool good = read_all(state) && set_endpoints(state);
    let_session_go(state);
    if (good)
        request_respond(state->ctx, &state->response);
    else
        request_close(state->ctx);
}

/* --- the request --- */

static void complete(struct delayed *op, bool expired)
{
    (void)expired;
    answer(container_of(op, struct fetch_state, op));
}

static void abandon(struct request_context *ctx)
{
    struct fetch_state *state = ctx->state;
    purgatory_cancel(&state->op);
    let_session_go(state);
}

static void wait_for_data(struct fetch_state *state)
{
    struct request_context *ctx = state->ctx;
    struct purgatory_key *keys = request_calloc(ctx, state->want_count, sizeof *keys);
    size_t count = 0;
    for (size_t i = 0; keys && i < state->want_count; i++) {
        struct data_target target = find(state, &state->wants[i]);
        if (target.topic)
            keys[count++] = purgatory_partition_key(PURGATORY_FETCH, target.topic->id, state->wants[i].index);
    }
    state->op.try = is_ready;
    state->op.complete = complete;
    ctx->state = state;
    ctx->abandon = abandon;
    if (!keys || purgatory_add(ctx->broker->purgatory, &state->op, state->request->max_wait_ms, keys, count, NULL)) {
        ctx->abandon = NULL;
        let_session_go(state);
        request_close(ctx);
    }
}

static void refuse(struct fetch_state *state, int code)
{
    let_session_go(state);
    if (code <= CAFKA_ERR_MEMORY) {
        request_close(state->ctx);
        return;
    }
    fetch_response_init(&state->response);
    state->response.error_code = (int16_t)code;
    request_respond(state->ctx, &state->response);
}

void api_fetch(struct request_context *ctx)
{
    struct fetch_state *state = request_alloc(ctx, sizeof *state);
    if (!state) {
        request_close(ctx);
        return;
    }
    state->ctx = ctx;
    state->request = ctx->body;
    int code = data_endpoints_init(&state->endpoints, ctx);
    if (!code)
        code = open_session(state);
    if (!code && !list_wants(state))
        code = CAFKA_ERR_MEMORY;
    if (code)
        refuse(state, code);
    else if (state->request->max_wait_ms <= 0 || !state->want_count || is_ready(&state->op))
        answer(state);
    else
        wait_for_data(state);
}
