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

/* What an answer says about one topic. */
struct outcome {
    struct str name;
    int code;
    struct str message;
    int32_t throttle_ms; /* of the whole answer */
};

/* What all three have in common: named topics, and what came of each. */
struct work {
    size_t count;
    const char *const *names;
    unsigned flags;
    const cafka_new_topic *topics; /* create */
    const int32_t *counts;         /* create partitions */
    /* Number i of an answer; false: it has no more. */
    bool (*outcome)(const void *answer, int32_t i, struct outcome *out);
    bool *decided;
    cafka_error *errors;
};

static size_t count_left(const struct work *w)
{
    size_t left = 0;
    for (size_t i = 0; i < w->count; i++)
        left += !w->decided[i];
    return left;
}

/* for (size_t i = 0; next_left(w, &i); i++): what is still to be done. */
static bool next_left(const struct work *w, size_t *i)
{
    while (*i < w->count && w->decided[*i])
        ++*i;
    return *i < w->count;
}

/* Whoever named a topic twice is told twice. True if it is to be tried again. */
static bool note(struct work *w, const struct outcome *o)
{
    bool again = o->code == ERR_NOT_CONTROLLER || o->code == ERR_THROTTLING_QUOTA_EXCEEDED;
    for (size_t i = 0; next_left(w, &i); i++) {
        if (!str_is(o->name, w->names[i]))
            continue;
        admin_item_error(&w->errors[i], o->code, o->message, "topic", w->names[i]);
        w->decided[i] = !again;
    }
    return again;
}

static int take(struct operation *op, const void *answer, cafka_error *err)
{
    struct work *w = op->user;
    struct outcome o;
    int again = 0;
    for (int32_t i = 0; w->outcome(answer, i, &o); i++) {
        if (!note(w, &o))
            continue;
        again = o.code;
        if (o.code == ERR_THROTTLING_QUOTA_EXCEEDED)
            op->throttle_ms = o.throttle_ms;
    }
    if (again)
        return error_set(err, again, "%zu of %zu topics are left to do: %s", count_left(w),
                         w->count, cafka_error_name(again));
    if (count_left(w))
        return error_set(err, CAFKA_ERR_PROTOCOL,
                         "the controller said nothing about %zu of %zu topics", count_left(w),
                         w->count);
    return CAFKA_OK;
}

/* Do it; those that were not decided have the operation's error. */
static int run(struct cafka_admin *admin, struct work *w, int api_key,
               int (*build)(struct operation *, int, cafka_error *), int64_t deadline,
               cafka_error *errors, cafka_error *err)
{
    w->decided = mem_calloc(w->count, sizeof *w->decided);
    w->errors = mem_calloc(w->count, sizeof *w->errors);
    int rc = CAFKA_OK;
    if (!w->decided || !w->errors) {
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu topics", w->count);
    } else {
        cafka_error failure = {0};
        struct operation op = {.api_key = api_key,
                               .target = CALL_CONTROLLER,
                               .user = w,
                               .build = build,
                               .take = take};
        rc = admin_run(admin, &op, deadline, &failure);
        for (size_t i = 0; rc && next_left(w, &i); i++)
            if (!w->errors[i].code)
                w->errors[i] = failure;
        if (errors)
            memcpy(errors, w->errors, w->count * sizeof *errors);
        rc = admin_sum_up(w->errors, w->count, sizeof *w->errors, err);
    }
    mem_free(w->decided);
    mem_free(w->errors);
    return rc;
}

static int check_names(const char *const *names, size_t count, cafka_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!names || !names[i])
            return error_set(err, CAFKA_ERR_ARGUMENT, "topic number %zu has no name", i);
    return CAFKA_OK;
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
    for (size_t i = 0; next_left(w, &i); i++) {
        int rc = build_topic(op, &w->topics[i], version, &body->topics[body->topics_count++], err);
        if (rc)
            return rc;
    }
    op->call.body = body;
    return CAFKA_OK;
}

static bool created(const void *answer, int32_t i, struct outcome *out)
{
    const struct create_topics_response *r = answer;
    if (i >= r->topics_count)
        return false;
    *out = (struct outcome){r->topics[i].name, r->topics[i].error_code, r->topics[i].error_message,
                            r->throttle_time_ms};
    return true;
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
    cafka_new_topic *copies = mem_calloc(count, sizeof *copies);
    const char **names = mem_calloc(count, sizeof *names);
    rc = copies && names ? copy_topics(topics, count, copies, err)
                         : error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu topics", count);
    if (!rc) {
        for (size_t i = 0; i < count; i++)
            names[i] = copies[i].name;
        struct work w = {.count = count,
                         .names = names,
                         .flags = flags,
                         .topics = copies,
                         .outcome = created};
        rc = run(admin, &w, API_CREATE_TOPICS, build_create, deadline, errors, err);
    }
    mem_free(names);
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
    for (size_t i = 0; next_left(w, &i); i++) {
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

static bool deleted(const void *answer, int32_t i, struct outcome *out)
{
    const struct delete_topics_response *r = answer;
    if (i >= r->responses_count)
        return false;
    *out = (struct outcome){r->responses[i].name, r->responses[i].error_code,
                            r->responses[i].error_message, r->throttle_time_ms};
    return true;
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
    struct work w = {.count = count, .names = names, .outcome = deleted};
    return run(admin, &w, API_DELETE_TOPICS, build_delete, deadline, errors, err);
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
    for (size_t i = 0; next_left(w, &i); i++) {
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

static bool grown(const void *answer, int32_t i, struct outcome *out)
{
    const struct create_partitions_response *r = answer;
    if (i >= r->results_count)
        return false;
    *out = (struct outcome){r->results[i].name, r->results[i].error_code,
                            r->results[i].error_message, r->throttle_time_ms};
    return true;
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
    struct work w = {.count = count,
                     .names = names,
                     .flags = flags,
                     .counts = counts,
                     .outcome = grown};
    return run(admin, &w, API_CREATE_PARTITIONS, build_partitions, deadline, errors, err);
}
