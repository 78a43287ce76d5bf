/*
 * topics.c - create, delete and grow topics. All three go to the controller, and repeat only what
 * was not decided.
 */
#include "admin/admin.h"

#include <string.h>

#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/errors.h"
#include "protocol/messages/CreatePartitions.h"
#include "protocol/messages/CreateTopics.h"
#include "protocol/messages/DeleteTopics.h"
#include "util/alloc.h"

/* What all three have in common: named topics, and what came of each. */
struct work {
    size_t count;
    const char *const *names;
    const char **own_names; /* of create */
    bool *decided;
    cafka_error *errors;
    unsigned flags;
    const cafka_new_topic *topics; /* create */
    const int32_t *counts;         /* create partitions */
    cafka_error *caller_errors;
};

static int work_init(struct work *w, size_t count, cafka_error *caller_errors, cafka_error *err)
{
    w->count = count;
    w->caller_errors = caller_errors;
    w->decided = mem_calloc(count, sizeof *w->decided);
    w->errors = mem_calloc(count, sizeof *w->errors);
    if (!w->decided || !w->errors)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu topics", count);
    return CAFKA_OK;
}

static void work_fini(struct work *w)
{
    mem_free(w->decided);
    mem_free(w->errors);
    mem_free(w->own_names);
}

static size_t count_left(const struct work *w)
{
    size_t left = 0;
    for (size_t i = 0; i < w->count; i++)
        left += !w->decided[i];
    return left;
}

/*
 * One topic of an answer; whoever named it twice is told twice. Returns the code if the topic is to
 * be tried again.
 */
static int note(struct work *w, struct str name, int code, struct str message)
{
    bool again = code == ERR_NOT_CONTROLLER || code == ERR_THROTTLING_QUOTA_EXCEEDED;
    for (size_t i = 0; i < w->count; i++) {
        if (w->decided[i] || !str_is(name, w->names[i]))
            continue;
        admin_item_error(&w->errors[i], code, message, "topic", w->names[i]);
        w->decided[i] = !again;
    }
    return again ? code : CAFKA_OK;
}

/* After all of an answer was noted: is something left? `again`: the code of one that is. */
static int conclude(struct operation *op, int again, int32_t throttle_ms, cafka_error *err)
{
    struct work *w = op->user;
    if (again == ERR_THROTTLING_QUOTA_EXCEEDED)
        op->throttle_ms = throttle_ms;
    if (again)
        return error_set(err, again, "%zu of %zu topics are left to do: %s", count_left(w),
                         w->count, cafka_error_name(again));
    if (count_left(w))
        return error_set(err, CAFKA_ERR_PROTOCOL,
                         "the controller said nothing about %zu of %zu topics", count_left(w),
                         w->count);
    return CAFKA_OK;
}

/* The end of a call: the errors of those that were not decided are the operation's. */
static int finish(struct work *w, int rc, cafka_error *failure, cafka_error *err)
{
    for (size_t i = 0; i < w->count; i++)
        if (rc && !w->decided[i] && !w->errors[i].code)
            w->errors[i] = *failure;
    if (w->caller_errors)
        memcpy(w->caller_errors, w->errors, w->count * sizeof *w->errors);
    rc = admin_sum_up(w->errors, w->count, sizeof *w->errors, err);
    work_fini(w);
    return rc;
}

static int run(struct cafka_admin *admin, struct work *w, struct operation *op, int64_t deadline,
               cafka_error *err)
{
    cafka_error failure = {0};
    op->target = CALL_CONTROLLER;
    op->user = w;
    int rc = admin_run(admin, op, deadline, &failure);
    return finish(w, rc, &failure, err);
}

/* --- create --- */

static int build_assignment(struct operation *op, const cafka_new_topic *topic,
                            struct create_topics_request_creatable_topic *out, cafka_error *err)
{
    size_t partitions = (size_t)topic->partitions;
    out->num_partitions = -1;
    out->replication_factor = -1;
    out->assignments = admin_memory(op, partitions, sizeof *out->assignments, err);
    if (!out->assignments)
        return CAFKA_ERR_MEMORY;
    out->assignments_count = topic->partitions;
    for (size_t p = 0; p < partitions; p++) {
        out->assignments[p].partition_index = (int32_t)p;
        out->assignments[p].broker_ids =
            (int32_t *)(uintptr_t)(topic->assignment + p * topic->replica_count);
        out->assignments[p].broker_ids_count = (int32_t)topic->replica_count;
    }
    return CAFKA_OK;
}

static int build_topic(struct operation *op, const cafka_new_topic *topic, int version,
                       struct create_topics_request_creatable_topic *out, cafka_error *err)
{
    create_topics_request_creatable_topic_init(out);
    out->name = str_of(topic->name);
    out->num_partitions = topic->partitions ? topic->partitions : -1;
    out->replication_factor = topic->replication_factor ? topic->replication_factor : (int16_t)-1;
    if (version < 4 && !topic->assignment && (out->num_partitions < 0 || out->replication_factor < 0))
        return error_set(
            err, CAFKA_ERR_UNSUPPORTED,
            "these brokers have no defaults for new topics: name partitions and replication factor");
    out->configs = admin_memory(op, topic->setting_count, sizeof *out->configs, err);
    if (!out->configs)
        return CAFKA_ERR_MEMORY;
    out->configs_count = (int32_t)topic->setting_count;
    for (size_t i = 0; i < topic->setting_count; i++) {
        create_topics_request_creatable_topic_config_init(&out->configs[i]);
        out->configs[i].name = str_of(topic->settings[i].name);
        out->configs[i].value = str_of(topic->settings[i].value);
    }
    return topic->assignment ? build_assignment(op, topic, out, err) : CAFKA_OK;
}

static int build_create(struct operation *op, int version, cafka_error *err)
{
    struct work *w = op->user;
    struct create_topics_request *body = admin_memory(op, 1, sizeof *body, err);
    if (!body)
        return CAFKA_ERR_MEMORY;
    create_topics_request_init(body);
    body->timeout_ms = admin_broker_timeout_ms(op);
    body->validate_only = w->flags & CAFKA_VALIDATE_ONLY;
    body->topics = admin_memory(op, count_left(w), sizeof *body->topics, err);
    if (!body->topics)
        return CAFKA_ERR_MEMORY;
    for (size_t i = 0; i < w->count; i++) {
        if (w->decided[i])
            continue;
        int rc = build_topic(op, &w->topics[i], version, &body->topics[body->topics_count++], err);
        if (rc)
            return rc;
    }
    op->call.body = body;
    return CAFKA_OK;
}

static int take_create(struct operation *op, const void *answer, cafka_error *err)
{
    const struct create_topics_response *response = answer;
    int again = 0;
    for (int32_t i = 0; i < response->topics_count; i++) {
        const struct create_topics_response_creatable_topic_result *r = &response->topics[i];
        int code = note(op->user, r->name, r->error_code, r->error_message);
        again = code ? code : again;
    }
    return conclude(op, again, response->throttle_time_ms, err);
}

/* The caller's structs may be those of an older or newer header: take what both have. */
static int copy_topics(const cafka_new_topic *topics, size_t count, cafka_new_topic *out,
                       cafka_error *err)
{
    size_t stride = topics[0].size;
    if (stride < offsetof(cafka_new_topic, partitions))
        return error_set(err, CAFKA_ERR_ARGUMENT, "cafka_new_topic.size is not set");
    for (size_t i = 0; i < count; i++) {
        memcpy(&out[i], (const char *)topics + i * stride,
               stride < sizeof *out ? stride : sizeof *out);
        const cafka_new_topic *t = &out[i];
        if (!t->name || t->partitions < 0 || t->replication_factor < 0 ||
            (t->setting_count && !t->settings) ||
            (t->assignment && (!t->partitions || !t->replica_count)))
            return error_set(err, CAFKA_ERR_ARGUMENT, "new topic number %zu is not complete", i);
    }
    return CAFKA_OK;
}

int cafka_admin_create_topics(cafka_admin *admin, const cafka_new_topic *topics, size_t count,
                              unsigned flags, int64_t timeout_ms, cafka_error *errors,
                              cafka_error *err)
{
    int64_t deadline;
    int rc = admin_begin(admin, timeout_ms, &deadline, err);
    if (rc || !count)
        return rc;
    if (!topics)
        return error_set(err, CAFKA_ERR_ARGUMENT, "topics are needed");
    struct work w = {.flags = flags};
    cafka_new_topic *copies = mem_calloc(count, sizeof *copies);
    w.own_names = mem_calloc(count, sizeof *w.own_names);
    rc = copies && w.own_names ? work_init(&w, count, errors, err)
                               : error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu topics", count);
    if (!rc)
        rc = copy_topics(topics, count, copies, err);
    if (rc) {
        work_fini(&w);
    } else {
        for (size_t i = 0; i < count; i++)
            w.own_names[i] = copies[i].name;
        w.names = w.own_names;
        w.topics = copies;
        struct operation op = {.api_key = API_CREATE_TOPICS,
                               .build = build_create,
                               .take = take_create};
        rc = run(admin, &w, &op, deadline, err);
    }
    mem_free(copies);
    return rc;
}

/* --- delete --- */

static int build_delete(struct operation *op, int version, cafka_error *err)
{
    struct work *w = op->user;
    size_t left = count_left(w);
    struct delete_topics_request *body = admin_memory(op, 1, sizeof *body, err);
    if (!body)
        return CAFKA_ERR_MEMORY;
    delete_topics_request_init(body);
    body->timeout_ms = admin_broker_timeout_ms(op);
    body->topics = admin_memory(op, left, sizeof *body->topics, err);
    body->topic_names = admin_memory(op, left, sizeof *body->topic_names, err);
    if (!body->topics || !body->topic_names)
        return CAFKA_ERR_MEMORY;
    for (size_t i = 0; i < w->count; i++) {
        if (w->decided[i])
            continue;
        if (version >= 6) {
            delete_topics_request_delete_topic_state_init(&body->topics[body->topics_count]);
            body->topics[body->topics_count++].name = str_of(w->names[i]);
        } else {
            body->topic_names[body->topic_names_count++] = str_of(w->names[i]);
        }
    }
    op->call.body = body;
    return CAFKA_OK;
}

static int take_delete(struct operation *op, const void *answer, cafka_error *err)
{
    const struct delete_topics_response *response = answer;
    int again = 0;
    for (int32_t i = 0; i < response->responses_count; i++) {
        const struct delete_topics_response_deletable_topic_result *r = &response->responses[i];
        int code = note(op->user, r->name, r->error_code, r->error_message);
        again = code ? code : again;
    }
    return conclude(op, again, response->throttle_time_ms, err);
}

static int check_names(const char *const *names, size_t count, cafka_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!names || !names[i])
            return error_set(err, CAFKA_ERR_ARGUMENT, "topic number %zu has no name", i);
    return CAFKA_OK;
}

int cafka_admin_delete_topics(cafka_admin *admin, const char *const *names, size_t count,
                              int64_t timeout_ms, cafka_error *errors, cafka_error *err)
{
    int64_t deadline;
    int rc = admin_begin(admin, timeout_ms, &deadline, err);
    if (!rc)
        rc = check_names(names, count, err);
    if (rc || !count)
        return rc;
    struct work w = {.names = names};
    rc = work_init(&w, count, errors, err);
    if (rc) {
        work_fini(&w);
        return rc;
    }
    struct operation op = {.api_key = API_DELETE_TOPICS, .build = build_delete, .take = take_delete};
    return run(admin, &w, &op, deadline, err);
}

/* --- more partitions --- */

static int build_partitions(struct operation *op, int version, cafka_error *err)
{
    struct work *w = op->user;
    (void)version;
    struct create_partitions_request *body = admin_memory(op, 1, sizeof *body, err);
    if (!body)
        return CAFKA_ERR_MEMORY;
    create_partitions_request_init(body);
    body->timeout_ms = admin_broker_timeout_ms(op);
    body->validate_only = w->flags & CAFKA_VALIDATE_ONLY;
    body->topics = admin_memory(op, count_left(w), sizeof *body->topics, err);
    if (!body->topics)
        return CAFKA_ERR_MEMORY;
    for (size_t i = 0; i < w->count; i++) {
        if (w->decided[i])
            continue;
        struct create_partitions_request_create_partitions_topic *t =
            &body->topics[body->topics_count++];
        create_partitions_request_create_partitions_topic_init(t);
        t->name = str_of(w->names[i]);
        t->count = w->counts[i];
        t->assignments_count = -1; /* the brokers choose */
    }
    op->call.body = body;
    return CAFKA_OK;
}

static int take_partitions(struct operation *op, const void *answer, cafka_error *err)
{
    const struct create_partitions_response *response = answer;
    int again = 0;
    for (int32_t i = 0; i < response->results_count; i++) {
        const struct create_partitions_response_create_partitions_topic_result *r =
            &response->results[i];
        int code = note(op->user, r->name, r->error_code, r->error_message);
        again = code ? code : again;
    }
    return conclude(op, again, response->throttle_time_ms, err);
}

int cafka_admin_create_partitions(cafka_admin *admin, const char *const *names,
                                  const int32_t *counts, size_t count, unsigned flags,
                                  int64_t timeout_ms, cafka_error *errors, cafka_error *err)
{
    int64_t deadline;
    int rc = admin_begin(admin, timeout_ms, &deadline, err);
    if (!rc)
        rc = check_names(names, count, err);
    if (rc || !count)
        return rc;
    if (!counts)
        return error_set(err, CAFKA_ERR_ARGUMENT, "the new numbers of partitions are needed");
    struct work w = {.names = names, .counts = counts, .flags = flags};
    rc = work_init(&w, count, errors, err);
    if (rc) {
        work_fini(&w);
        return rc;
    }
    struct operation op = {.api_key = API_CREATE_PARTITIONS,
                           .build = build_partitions,
                           .take = take_partitions};
    return run(admin, &w, &op, deadline, err);
}
