/*
 * fetch.c - Fetch: records from the logs, by sendfile, at once or when there are enough.
 *
 * A request becomes a list of wants: of the request itself, or of its session in the session's
 * order. If they would give fewer than min_bytes, the request waits in the purgatory until they
 * do, something in it can only be answered by an error, or max_wait_ms is over; then the logs are
 * read, in order and within the limits. What the session remembers is brought up to date when the
 * answer is made. What metadata does not know when the request comes is refused then and answered
 * last; what goes away while the request waits ends the wait.
 *
 * Source: kafka.server.KafkaApis.handleFetchRequest, ReplicaManager.fetchMessages, KIP-227.
 */
#include "protocol/messages/Fetch.h"

#include "mockbroker/api/api.h"
#include "mockbroker/api/data.h"
#include "mockbroker/api/fetch_sessions.h"
#include "mockbroker/api/read_replica.h"
#include "protocol/error_codes.h"
#include "util/alloc.h"

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
    int refused; /* with this code, before any log was asked; ERR_NONE: it is to be read */
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
    int64_t max_bytes, min_bytes;
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

static bool set_entry(struct fetch_session *session, struct str topic, struct uuid id,
                      const partition_part *part)
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
    struct fetch_session *session =
        sessions ? fetch_sessions_find(sessions, request->session_id) : NULL;
    if (!session)
        return ERR_FETCH_SESSION_ID_NOT_FOUND;
    if (session->epoch != request->session_epoch)
        return ERR_INVALID_FETCH_SESSION_EPOCH;
    if (session->by_id != by_id)
        return ERR_FETCH_SESSION_TOPIC_ID_ERROR;
    state->session = session;
    session->refs++;
    if (!update_entries(session, request))
        return CAFKA_ERR_MEMORY;
    forget_entries(session, request); /* what is listed and forgotten at once is forgotten */
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

/* A broker that asks must hold a replica of the partition, and no partition has a second one yet. */
static bool asks_as_follower(const struct fetch_request *request)
{
    return request->replica_id >= 0 || request->replica_state.replica_id >= 0;
}

/*
 * Why metadata alone refuses it. A session knows a topic by the name it had when it was added, so
 * that of a topic which was deleted and made again the log is asked, and finds another id.
 */
static int refusal(const struct fetch_state *state, const struct want *want)
{
    const struct image *image = &state->ctx->broker->image;
    if (state->session->by_id && !want->topic.size)
        return ERR_UNKNOWN_TOPIC_ID;
    const struct topic_image *topic = image_topic(image, want->topic);
    return topic && topic_partition(topic, want->index) ? ERR_NONE : ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

/* The topic's name: sent, known to the session, or found by the id now. False: no memory. */
static bool name_want(struct fetch_state *state, struct fetch_entry *entry, struct want *want)
{
    if (state->session->by_id && !entry->known_as) {
        const struct topic_image *topic =
            image_topic_by_id(&state->ctx->broker->image, entry->topic_id);
        entry->known_as = topic ? mem_strdup(topic->name) : NULL;
        if (topic && !entry->known_as)
            return false;
    }
    struct str name = state->session->by_id ? str_of(entry->known_as)
                                            : (struct str){entry->topic, entry->topic_size};
    char *copy = arena_strndup(&state->ctx->arena, name.data ? name.data : "", name.size);
    /* there are wants where there are entries. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    want->topic = (struct str){copy, name.size};
    return copy;
}

static bool list_wants(struct fetch_state *state)
{
    const struct request_context *ctx = state->ctx;
    struct list *link, *after;
    state->wants = request_calloc(state->ctx, state->session->count, sizeof *state->wants);
    if (!state->wants && state->session->count)
        return false;
    list_each(link, after, &state->session->entries)
    {
        struct fetch_entry *entry = list_item(link, struct fetch_entry, link);
        struct want *want = &state->wants[state->want_count++];
        if (!name_want(state, entry, want))
            return false;
        /* no wants only if there are no entries. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        want->topic_id = entry->topic_id;
        want->index = entry->index;
        want->refused = refusal(state, want);
        want->read = (struct read_request){.offset = entry->offset,
                                           .current_leader_epoch =
                                               entry->leader_epoch < 0 ? -1 : entry->leader_epoch,
                                           .last_fetched_epoch = entry->last_fetched_epoch,
                                           .end = state->request->isolation_level == 1
                                                      ? READ_TO_STABLE_OFFSET
                                                      : READ_TO_HIGH_WATERMARK,
                                           .must_lead = ctx->version < VERSION_WITH_FOLLOWERS,
                                           .max_bytes = entry->max_bytes};
    }
    return true;
}

static struct data_target find(const struct fetch_state *state, const struct want *want)
{
    struct data_target target =
        data_find(state->ctx->broker, want->topic, (struct uuid){{0}}, false, want->index);
    if (target.topic && state->session->by_id && !uuid_equal(target.topic->id, want->topic_id))
        target.error = ERR_INCONSISTENT_TOPIC_ID;
    else if (!target.error && asks_as_follower(state->request))
        target.error = ERR_NOT_LEADER_OR_FOLLOWER;
    return target;
}

/* The replica that this consumer should ask instead (KIP-392); older versions can't be told. */
static int32_t better_replica(const struct fetch_state *state, const struct want *want,
                              const struct data_target *target)
{
    if (target->error || state->ctx->version < VERSION_WITH_FOLLOWERS ||
        asks_as_follower(state->request))
        return THIS_REPLICA;
    return read_replica_for(state->ctx->broker, target, state->request->rack_id, want->read.offset);
}

/* Who should read elsewhere is told so at once. */
static bool any_reads_elsewhere(const struct fetch_state *state)
{
    if (!state->request->rack_id.size)
        return false;
    for (size_t i = 0; i < state->want_count; i++) {
        const struct want *want = &state->wants[i];
        if (want->refused)
            continue;
        struct data_target target = find(state, want);
        if (better_replica(state, want, &target) != THIS_REPLICA)
            return true;
    }
    return false;
}

/* Is there enough, or something that can't wait? */
static bool is_ready(struct delayed *op)
{
    struct fetch_state *state = container_of(op, struct fetch_state, op);
    int64_t bytes = 0;
    size_t readable = 0;
    for (size_t i = 0; i < state->want_count; i++) {
        if (state->wants[i].refused)
            continue;
        struct data_target target = find(state, &state->wants[i]);
        int64_t more =
            target.error ? -1 : partition_waiting_bytes(target.partition, &state->wants[i].read);
        if (more < 0)
            return true;
        bytes = more > INT64_MAX - bytes ? INT64_MAX : bytes + more;
        readable++;
    }
    return !readable || bytes >= state->min_bytes;
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
    struct response_slice *out = request_slice(state->ctx, slice->file->handle, slice->position,
                                               slice->size, release_file, slice->file);
    if (!out)
        return false;
    slice->file = NULL; /* the reference is the response's now */
    answer->records = (struct records){.size = slice->size, .external = out};
    return true;
}

static bool set_aborted(struct fetch_state *state, partition_answer *answer,
                        const struct read_result *result)
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

static void set_refused(partition_answer *answer, int code)
{
    answer->error_code = (int16_t)code;
    answer->high_watermark = answer->last_stable_offset = answer->log_start_offset = -1;
    answer->aborted_transactions_count = 0;
    set_no_records(answer);
}

static void set_error(struct fetch_state *state, partition_answer *answer, int code,
                      const struct data_target *target)
{
    set_refused(answer, code);
    answer->aborted_transactions_count = -1;
    bool leader_helps = code == ERR_NOT_LEADER_OR_FOLLOWER || code == ERR_FENCED_LEADER_EPOCH;
    if (leader_helps && target->image && state->ctx->version >= VERSION_WITH_LEADERS) {
        answer->current_leader.leader_id = target->image->leader;
        answer->current_leader.leader_epoch = target->image->leader_epoch;
        if (!asks_as_follower(state->request)) /* brokers know where brokers are */
            data_endpoints_add(&state->endpoints, state->ctx, target->image->leader);
    }
}

/* No records, only where to get them. */
static void set_elsewhere(struct fetch_state *state, const struct want *want,
                          const struct data_target *target, int32_t replica,
                          partition_answer *answer)
{
    const struct partition *partition = target->partition;
    int code = partition_check_epoch(partition, want->read.current_leader_epoch, false, NULL);
    if (code) {
        set_error(state, answer, code, target);
        return;
    }
    answer->preferred_read_replica = replica;
    answer->high_watermark = partition_high_watermark(partition);
    answer->last_stable_offset = partition_stable_offset(partition);
    answer->log_start_offset = partition_start_offset(partition);
    answer->aborted_transactions_count = -1;
    set_no_records(answer);
}

/* Read one partition within what is left of the request's limit. False: no memory. */
static bool read_partition(struct fetch_state *state, const struct want *want, int64_t *left,
                           bool *need_one, partition_answer *answer)
{
    struct data_target target = {0};
    struct read_request read = want->read;
    struct read_result result;
    bool good = true;
    answer->partition_index = want->index;
    if (want->refused) {
        set_refused(answer, want->refused);
        return true;
    }
    target = find(state, want);
    if (target.error) {
        set_error(state, answer, target.error, &target);
        return true;
    }
    int32_t elsewhere = better_replica(state, want, &target);
    if (elsewhere != THIS_REPLICA) {
        set_elsewhere(state, want, &target, elsewhere, answer);
        return true;
    }
    if (read.max_bytes > *left)
        read.max_bytes = (int32_t)*left;
    read.whole_batch = *need_one;
    int code = partition_read(target.partition, &read, &result, NULL);
    if (code) {
        set_error(state, answer, code <= CAFKA_ERR_MEMORY ? ERR_UNKNOWN_SERVER_ERROR : code,
                  &target);
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
                answer->diverging_epoch.epoch >= 0 ||
                answer->high_watermark != entry->high_watermark ||
                answer->log_start_offset != entry->log_start;
    entry->had_error = answer->error_code != 0;
    entry->high_watermark = answer->error_code ? -1 : answer->high_watermark;
    entry->log_start = answer->error_code ? -1 : answer->log_start_offset;
    return news;
}

static bool keep_answer(struct fetch_state *state, const struct want *want,
                        const partition_answer *answer)
{
    struct fetch_entry *entry =
        fetch_session_find(state->session, state->session->by_id ? (struct str){0} : want->topic,
                           want->topic_id, want->index);
    if (!entry)
        return !state->incremental;
    bool news = is_news(entry, answer);
    if (answer->records.size)
        fetch_session_to_end(state->session, entry);
    return news || !state->incremental;
}

static bool same_topic(const struct fetch_state *state,
                       const struct fetch_response_fetchable_topic_response *topic,
                       const struct want *want)
{
    return state->session->by_id ? uuid_equal(topic->topic_id, want->topic_id)
                                 : str_equal(topic->topic, want->topic);
}

/* What is refused comes behind what was read, as in Kafka. */
static bool next_want(const struct fetch_state *state, size_t *i, bool *refused)
{
    while (*i < state->want_count && (state->wants[*i].refused != ERR_NONE) != *refused)
        ++*i;
    if (*i < state->want_count || *refused)
        return *i < state->want_count;
    *refused = true;
    *i = 0;
    return next_want(state, i, refused);
}

static bool read_all(struct fetch_state *state)
{
    struct fetch_response *response = &state->response;
    int64_t left = state->max_bytes;
    bool refused = false;
    bool need_one = true; /* some batch always comes, so that a consumer never stands still */
    response->responses = request_calloc(state->ctx, state->want_count, sizeof *response->responses);
    partition_answer *answers = request_calloc(state->ctx, state->want_count, sizeof *answers);
    struct fetch_response_fetchable_topic_response *topic = NULL;
    if (state->want_count && (!response->responses || !answers))
        return false;
    for (size_t i = 0; next_want(state, &i, &refused); i++) {
        const struct want *want = &state->wants[i];
        fetch_response_partition_data_init(answers);
        if (!read_partition(state, want, &left, &need_one, answers))
            return false;
        if (!keep_answer(state, want, answers))
            continue;
        if (!topic || !same_topic(state, topic, want)) {
            topic = &response->responses[response->responses_count++];
            topic->topic = state->session->by_id ? (struct str){0} : want->topic;
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
    response->node_endpoints =
        request_calloc(state->ctx, (size_t)count, sizeof *response->node_endpoints);
    if (!response->node_endpoints)
        return false;
    response->node_endpoints_count = count;
    for (int32_t i = 0; i < count; i++) {
        const struct data_endpoint *node = &state->endpoints.nodes[i];
        response->node_endpoints[i] = (struct fetch_response_node_endpoint){.node_id = node->id,
                                                                            .host = node->host,
                                                                            .port = node->port,
                                                                            .rack = node->rack};
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
        if (target.topic && !state->wants[i].refused)
            keys[count++] =
                purgatory_partition_key(PURGATORY_FETCH, target.topic->id, state->wants[i].index);
    }
    state->op.try = is_ready;
    state->op.complete = complete;
    ctx->state = state;
    ctx->abandon = abandon;
    if (!keys || purgatory_add(ctx->broker->purgatory, &state->op, state->request->max_wait_ms,
                               keys, count, NULL)) {
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

/* An isolation level that does not exist: everything that was listed is refused, where names say what. */
static void refuse_all(struct fetch_state *state, int code)
{
    const struct fetch_request *in = state->request;
    struct fetch_response *out = &state->response;
    bool good = true;
    fetch_response_init(out);
    out->error_code = (int16_t)code;
    int32_t count = state->ctx->version < VERSION_WITH_IDS ? in->topics_count : 0;
    out->responses = request_calloc(state->ctx, (size_t)count, sizeof *out->responses);
    for (int32_t t = 0; count && good && t < count; t++) {
        size_t parts = (size_t)in->topics[t].partitions_count;
        partition_answer *answers =
            out->responses ? request_calloc(state->ctx, parts + 1, sizeof *answers) : NULL;
        good = answers;
        if (!good)
            break;
        struct fetch_response_fetchable_topic_response *topic =
            &out->responses[out->responses_count++];
        topic->topic = in->topics[t].topic;
        topic->partitions = answers;
        topic->partitions_count = (int32_t)parts;
        for (size_t i = 0; i < parts; i++) {
            fetch_response_partition_data_init(&answers[i]);
            answers[i].partition_index = in->topics[t].partitions[i].partition;
            set_refused(&answers[i], code);
        }
    }
    if (good)
        request_respond(state->ctx, out);
    else
        request_close(state->ctx);
}

static void set_limits(struct fetch_state *state)
{
    const struct fetch_request *request = state->request;
    int64_t most = broker_config_long(&state->ctx->broker->config, "fetch.max.bytes");
    state->max_bytes = request->max_bytes < most ? request->max_bytes : most;
    state->min_bytes = request->min_bytes < state->max_bytes ? request->min_bytes : state->max_bytes;
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
    set_limits(state);
    if (state->request->isolation_level != 0 && state->request->isolation_level != 1) {
        refuse_all(state, ERR_UNKNOWN_SERVER_ERROR);
        return;
    }
    int code = data_endpoints_init(&state->endpoints, ctx);
    if (!code)
        code = open_session(state);
    if (!code && !list_wants(state))
        code = CAFKA_ERR_MEMORY;
    if (code)
        refuse(state, code);
    else if (state->request->max_wait_ms <= 0 || !state->want_count || is_ready(&state->op) ||
             any_reads_elsewhere(state))
        answer(state);
    else
        wait_for_data(state);
}
