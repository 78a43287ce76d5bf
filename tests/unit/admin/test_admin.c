/*
 * test_admin.c - the admin client against scripted brokers: routing, repeating, errors of each item.
 */
#define _POSIX_C_SOURCE 200809L /* fork, pipe */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <cafka/admin.h>

#include "client/shared_loop.h"
#include "lib/script_broker.h"
#include "lib/test_world.h"
#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/messages/CreatePartitions.h"
#include "protocol/messages/CreateTopics.h"
#include "protocol/messages/DeleteTopics.h"
#include "protocol/messages/DescribeCluster.h"
#include "protocol/messages/DescribeConfigs.h"
#include "protocol/messages/IncrementalAlterConfigs.h"
#include "protocol/messages/ListOffsets.h"
#include "util/alloc.h"

enum { BROKERS = 3, ITEMS = 8 };

struct fixture {
    struct test_world world;
    cafka_loop *shared;
    struct script_cluster cluster;
    cafka_config *config;
    cafka_admin *admin;
    cafka_error err;

    /* what the brokers do */
    const char *refused; /* a topic whose items get this error, `times` times */
    int16_t refusal;
    int times;
    int32_t throttle_ms;
    int controller_is_old;   /* answers of broker 1 are NOT_CONTROLLER */
    int items[16], requests; /* how many items each request had */
    int32_t asked[16];       /* which broker it went to */
    bool silent;             /* answers with no items */
    bool validate_only;
    char seen[512];
};

static int16_t code_for(struct fixture *f, struct script_broker *broker, struct str name)
{
    if (f->controller_is_old && broker->id == 1)
        return ERR_NOT_CONTROLLER;
    if (f->refused && str_is(name, f->refused) && f->times > 0) {
        f->times--;
        return f->refusal;
    }
    return 0;
}

static struct str reason(int16_t code)
{
    return code ? str_of("because the test says so") : (struct str){NULL, 0};
}

static void note_request(struct fixture *f, struct script_broker *broker, int items)
{
    assert_true(f->requests < 16);
    f->asked[f->requests] = broker->id;
    f->items[f->requests++] = items;
}

static void decode(const struct message *m, int version, struct bytes body, struct arena *arena,
                   void *out)
{
    cafka_error err = {0};
    if (message_decode(m, version, body, arena, out, NULL, &err))
        fail_msg("%s", err.message);
}

static void answer_create(struct fixture *f, struct script_broker *broker, int version,
                          struct bytes body, struct arena *arena, struct create_topics_response *r)
{
    struct create_topics_request q;
    decode(&create_topics_request_message, version, body, arena, &q);
    note_request(f, broker, q.topics_count);
    f->validate_only = q.validate_only;
    r->throttle_time_ms = 0;
    r->topics = arena_calloc(arena, ITEMS, sizeof *r->topics);
    for (int i = 0; i < q.topics_count && !f->silent; i++) {
        struct create_topics_response_creatable_topic_result *t = &r->topics[r->topics_count++];
        create_topics_response_creatable_topic_result_init(t);
        t->name = q.topics[i].name;
        t->error_code = code_for(f, broker, t->name);
        t->error_message = reason(t->error_code);
        if (t->error_code == ERR_THROTTLING_QUOTA_EXCEEDED)
            r->throttle_time_ms = f->throttle_ms;
        snprintf(f->seen, sizeof f->seen, "%.*s %d %d %d:%d:%d", STR_ARG(t->name),
                 q.topics[i].num_partitions, q.topics[i].replication_factor,
                 q.topics[i].assignments_count, q.topics[i].configs_count,
                 q.topics[i].assignments_count > 1 ? q.topics[i].assignments[1].broker_ids[0] : -1);
    }
}

static void answer_delete(struct fixture *f, struct script_broker *broker, int version,
                          struct bytes body, struct arena *arena, struct delete_topics_response *r)
{
    struct delete_topics_request q;
    decode(&delete_topics_request_message, version, body, arena, &q);
    int count = version >= 6 ? q.topics_count : q.topic_names_count;
    note_request(f, broker, count);
    r->responses = arena_calloc(arena, ITEMS, sizeof *r->responses);
    for (int i = 0; i < count; i++) {
        struct delete_topics_response_deletable_topic_result *t =
            &r->responses[r->responses_count++];
        delete_topics_response_deletable_topic_result_init(t);
        t->name = version >= 6 ? q.topics[i].name : q.topic_names[i];
        t->error_code = code_for(f, broker, t->name);
    }
}

static void answer_partitions(struct fixture *f, struct script_broker *broker, int version,
                              struct bytes body, struct arena *arena,
                              struct create_partitions_response *r)
{
    struct create_partitions_request q;
    decode(&create_partitions_request_message, version, body, arena, &q);
    note_request(f, broker, q.topics_count);
    f->validate_only = q.validate_only;
    r->results = arena_calloc(arena, ITEMS, sizeof *r->results);
    for (int i = 0; i < q.topics_count; i++) {
        struct create_partitions_response_create_partitions_topic_result *t =
            &r->results[r->results_count++];
        create_partitions_response_create_partitions_topic_result_init(t);
        t->name = q.topics[i].name;
        t->error_code = code_for(f, broker, t->name);
        t->error_message = reason(t->error_code);
        snprintf(f->seen, sizeof f->seen, "%.*s %d", STR_ARG(t->name), q.topics[i].count);
    }
}

static void answer_synonyms(struct arena *arena,
                            struct describe_configs_response_describe_configs_resource_result *c)
{
    c->synonyms = arena_calloc(arena, 2, sizeof *c->synonyms);
    c->synonyms_count = 2;
    c->synonyms[0].name = str_of("retention.ms");
    c->synonyms[0].value = str_of("1000");
    c->synonyms[0].source = CAFKA_SOURCE_TOPIC;
    c->synonyms[1].name = str_of("log.retention.ms");
    c->synonyms[1].value = (struct str){NULL, 0};
    c->synonyms[1].source = CAFKA_SOURCE_DEFAULT;
}

static void answer_configs(struct fixture *f, struct script_broker *broker, int version,
                           struct bytes body, struct arena *arena,
                           struct describe_configs_response *r)
{
    struct describe_configs_request q;
    decode(&describe_configs_request_message, version, body, arena, &q);
    note_request(f, broker, q.resources_count);
    r->results = arena_calloc(arena, ITEMS, sizeof *r->results);
    for (int i = 0; i < q.resources_count; i++) {
        struct describe_configs_response_describe_configs_result *t =
            &r->results[r->results_count++];
        describe_configs_response_describe_configs_result_init(t);
        t->resource_type = q.resources[i].resource_type;
        t->resource_name = q.resources[i].resource_name;
        t->error_code = code_for(f, broker, t->resource_name);
        if (t->error_code)
            continue;
        t->configs = arena_calloc(arena, 2, sizeof *t->configs);
        t->configs_count = 2;
        for (int k = 0; k < 2; k++)
            describe_configs_response_describe_configs_resource_result_init(&t->configs[k]);
        t->configs[0].name = str_of("retention.ms");
        t->configs[0].value = str_of("1000");
        t->configs[0].config_source = version >= 1 ? CAFKA_SOURCE_TOPIC : -1;
        t->configs[0].config_type = CAFKA_CONFIG_TYPE_LONG;
        if (q.include_synonyms)
            answer_synonyms(arena, &t->configs[0]);
        t->configs[1].name = str_of("a.secret");
        t->configs[1].value = (struct str){NULL, 0};
        t->configs[1].is_sensitive = true;
        t->configs[1].is_default = version == 0;
        t->configs[1].config_source = version >= 1 ? CAFKA_SOURCE_DEFAULT : -1;
    }
}

static void answer_alter(struct fixture *f, struct script_broker *broker, int version,
                         struct bytes body, struct arena *arena,
                         struct incremental_alter_configs_response *r)
{
    struct incremental_alter_configs_request q;
    decode(&incremental_alter_configs_request_message, version, body, arena, &q);
    note_request(f, broker, q.resources_count);
    f->validate_only = q.validate_only;
    r->responses = arena_calloc(arena, ITEMS, sizeof *r->responses);
    for (int i = 0; i < q.resources_count; i++) {
        struct incremental_alter_configs_response_alter_configs_resource_response *t =
            &r->responses[r->responses_count++];
        incremental_alter_configs_response_alter_configs_resource_response_init(t);
        t->resource_type = q.resources[i].resource_type;
        t->resource_name = q.resources[i].resource_name;
        t->error_code = code_for(f, broker, t->resource_name);
        t->error_message = reason(t->error_code);
        for (int k = 0; k < q.resources[i].configs_count; k++) {
            size_t used = strlen(f->seen);
            snprintf(f->seen + used, sizeof f->seen - used, "%.*s %d %.*s=%.*s;",
                     STR_ARG(t->resource_name), q.resources[i].configs[k].config_operation,
                     STR_ARG(q.resources[i].configs[k].name),
                     STR_ARG(q.resources[i].configs[k].value));
        }
    }
}

static void answer_cluster(struct fixture *f, struct arena *arena,
                           struct describe_cluster_response *r)
{
    r->cluster_id = str_of("script");
    r->controller_id = 1;
    r->brokers = arena_calloc(arena, BROKERS, sizeof *r->brokers);
    for (int i = BROKERS; i > 0; i--) { /* in an order that is not theirs */
        struct describe_cluster_response_describe_cluster_broker *b =
            &r->brokers[r->brokers_count++];
        describe_cluster_response_describe_cluster_broker_init(b);
        b->broker_id = i;
        b->host = str_of("127.0.0.1");
        b->port = f->cluster.brokers[i - 1].port;
        b->rack = i == 1 ? str_of("r1") : (struct str){NULL, 0};
    }
}

static void answer_offsets(struct fixture *f, struct script_broker *broker, int version,
                           struct bytes body, struct arena *arena, struct list_offsets_response *r)
{
    struct list_offsets_request q;
    decode(&list_offsets_request_message, version, body, arena, &q);
    note_request(f, broker, q.topics_count);
    r->topics = arena_calloc(arena, ITEMS, sizeof *r->topics);
    for (int i = 0; i < q.topics_count; i++) {
        struct list_offsets_response_list_offsets_topic_response *t = &r->topics[r->topics_count++];
        list_offsets_response_list_offsets_topic_response_init(t);
        t->name = q.topics[i].name;
        t->partitions = arena_calloc(arena, SCRIPT_PARTITIONS, sizeof *t->partitions);
        for (int k = 0; k < q.topics[i].partitions_count; k++) {
            struct list_offsets_response_list_offsets_partition_response *p =
                &t->partitions[t->partitions_count++];
            list_offsets_response_list_offsets_partition_response_init(p);
            p->partition_index = q.topics[i].partitions[k].partition_index;
            bool leads = false;
            for (int n = 0; n < f->cluster.topic_count; n++)
                if (str_is(t->name, f->cluster.topics[n].name))
                    leads = f->cluster.topics[n].leader[p->partition_index] == broker->id;
            p->error_code =
                leads ? code_for(f, broker, t->name) : (int16_t)ERR_NOT_LEADER_OR_FOLLOWER;
            if (p->error_code)
                continue;
            int64_t time_ms = q.topics[i].partitions[k].timestamp;
            p->offset = time_ms == CAFKA_TIME_EARLIEST
                            ? 0
                            : 100 + p->partition_index + 1000 * q.isolation_level;
            if (version == 0) {
                p->old_style_offsets = arena_calloc(arena, 1, sizeof *p->old_style_offsets);
                p->old_style_offsets[0] = p->offset;
                p->old_style_offsets_count = 1;
                p->offset = -1;
            }
        }
    }
}

static bool on_request(struct script_broker *broker, const struct request_head *head,
                       struct bytes body, struct arena *arena, void *response, void *user)
{
    struct fixture *f = user;
    switch (head->api_key) {
    case API_CREATE_TOPICS:
        answer_create(f, broker, head->api_version, body, arena, response);
        break;
    case API_DELETE_TOPICS:
        answer_delete(f, broker, head->api_version, body, arena, response);
        break;
    case API_CREATE_PARTITIONS:
        answer_partitions(f, broker, head->api_version, body, arena, response);
        break;
    case API_DESCRIBE_CONFIGS:
        answer_configs(f, broker, head->api_version, body, arena, response);
        break;
    case API_INCREMENTAL_ALTER_CONFIGS:
        answer_alter(f, broker, head->api_version, body, arena, response);
        break;
    case API_DESCRIBE_CLUSTER: answer_cluster(f, arena, response); break;
    case API_LIST_OFFSETS:
        answer_offsets(f, broker, head->api_version, body, arena, response);
        break;
    default: break;
    }
    return true;
}

static void set(struct fixture *f, const char *name, const char *value)
{
    if (cafka_config_set(f->config, name, value, &f->err))
        fail_msg("%s", f->err.message);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char bootstrap[256];
    test_world_open(&f->world);
    assert_int_equal(cafka_loop_new_in(&f->shared, f->world.env, CAFKA_LOOP_EXTERNAL, &f->err), 0);
    script_open(&f->cluster, shared_loop_net(f->shared), BROKERS);
    f->cluster.handler = on_request;
    f->cluster.user = f;
    script_bootstrap(&f->cluster, BROKERS, bootstrap, sizeof bootstrap);
    assert_int_equal(cafka_config_new(&f->config, &f->err), 0);
    cafka_config_set_loop(f->config, f->shared);
    cafka_config_set_env(f->config, f->world.env);
    cafka_config_set_log(f->config, NULL, NULL, CAFKA_LOG_OFF);
    set(f, "bootstrap.servers", bootstrap);
    set(f, "retry.backoff.ms", "20");
    set(f, "retry.backoff.max.ms", "80");
    set(f, "reconnect.backoff.ms", "20");
    set(f, "reconnect.backoff.max.ms", "80");
    set(f, "request.timeout.ms", "500");
    set(f, "default.api.timeout.ms", "2000");
    assert_int_equal(cafka_admin_new(&f->admin, f->config, &f->err), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    cafka_admin_free(f->admin);
    script_close(&f->cluster);
    cafka_config_free(f->config);
    cafka_loop_free(f->shared);
    test_world_close(&f->world);
    free(f);
    return 0;
}

static cafka_new_topic new_topic(const char *name, int partitions, int replication_factor)
{
    return (cafka_new_topic){.size = sizeof(cafka_new_topic),
                             .name = name,
                             .partitions = partitions,
                             .replication_factor = (int16_t)replication_factor};
}

/* --- topics --- */

static void topics_are_created_by_the_controller(void **state)
{
    struct fixture *f = *state;
    f->cluster.controller = 2;
    cafka_setting settings[] = {{"retention.ms", "1000"}, {"cleanup.policy", "compact"}};
    cafka_new_topic topic = new_topic("orders", 12, 3);
    topic.settings = settings;
    topic.setting_count = 2;
    assert_int_equal(cafka_admin_create_topics(f->admin, &topic, 1, 0, -1, NULL, &f->err), 0);
    assert_int_equal(f->asked[0], 2);
    assert_string_equal(f->seen, "orders 12 3 0:2:-1");
    assert_false(f->validate_only);
}

static void what_is_not_said_about_a_topic_the_brokers_decide(void **state)
{
    struct fixture *f = *state;
    cafka_new_topic topic = new_topic("t", 0, 0);
    assert_int_equal(cafka_admin_create_topics(f->admin, &topic, 1, CAFKA_VALIDATE_ONLY, -1, NULL,
                                               &f->err),
                     0);
    assert_string_equal(f->seen, "t -1 -1 0:0:-1");
    assert_true(f->validate_only);
}

static void replicas_can_be_placed_by_hand(void **state)
{
    struct fixture *f = *state;
    const int32_t assignment[] = {1, 2, 2, 3, 3, 1};
    cafka_new_topic topic = new_topic("t", 3, 0);
    topic.assignment = assignment;
    topic.replica_count = 2;
    assert_int_equal(cafka_admin_create_topics(f->admin, &topic, 1, 0, -1, NULL, &f->err), 0);
    assert_string_equal(f->seen, "t -1 -1 3:0:2");
}

static void each_topic_has_its_own_error(void **state)
{
    struct fixture *f = *state;
    cafka_new_topic topics[] = {new_topic("a", 1, 1), new_topic("b", 1, 1), new_topic("c", 1, 1)};
    cafka_error errors[3];
    f->refused = "b";
    f->refusal = ERR_TOPIC_ALREADY_EXISTS;
    f->times = 1;
    int rc = cafka_admin_create_topics(f->admin, topics, 3, 0, -1, errors, &f->err);
    assert_int_equal(rc, ERR_TOPIC_ALREADY_EXISTS);
    assert_int_equal(f->err.code, rc);
    assert_int_equal(errors[0].code, 0);
    assert_int_equal(errors[1].code, rc);
    assert_int_equal(errors[2].code, 0);
    assert_string_equal(errors[1].message,
                        "topic b: TOPIC_ALREADY_EXISTS: because the test says so");
    assert_int_equal(f->requests, 1);
}

static void a_used_up_quota_is_waited_for_and_only_the_rest_repeated(void **state)
{
    struct fixture *f = *state;
    cafka_new_topic topics[] = {new_topic("a", 1, 1), new_topic("b", 1, 1)};
    f->refused = "b";
    f->refusal = ERR_THROTTLING_QUOTA_EXCEEDED;
    f->times = 1;
    f->throttle_ms = 300;
    int64_t before = env_now_ms(f->world.env);
    assert_int_equal(cafka_admin_create_topics(f->admin, topics, 2, 0, -1, NULL, &f->err), 0);
    assert_int_equal(f->requests, 2);
    assert_int_equal(f->items[0], 2);
    assert_int_equal(f->items[1], 1);
    assert_in_range(env_now_ms(f->world.env) - before, 300, 500);
}

static void a_controller_that_moved_is_followed(void **state)
{
    struct fixture *f = *state;
    const char *name = "t";
    cafka_cluster_info *info;
    assert_int_equal(cafka_admin_describe_cluster(f->admin, -1, &info, &f->err),
                     0); /* broker 1 is known */
    cafka_cluster_info_free(info);
    f->controller_is_old = 1;
    f->cluster.controller = 3;
    assert_int_equal(cafka_admin_delete_topics(f->admin, &name, 1, -1, NULL, &f->err), 0);
    assert_int_equal(f->asked[0], 1);
    assert_int_equal(f->asked[f->requests - 1], 3);
}

static void a_lost_answer_is_asked_for_again(void **state)
{
    struct fixture *f = *state;
    const char *name = "t";
    script_rule_add(&f->cluster, API_DELETE_TOPICS, SCRIPT_CLOSE, 0);
    script_rule_add(&f->cluster, API_DELETE_TOPICS, SCRIPT_SILENT, 0);
    assert_int_equal(cafka_admin_delete_topics(f->admin, &name, 1, -1, NULL, &f->err), 0);
    assert_true(script_count(&f->cluster, API_DELETE_TOPICS) >= 2);
}

static void deleting_works_with_names_of_old_versions_too(void **state)
{
    struct fixture *f = *state;
    const char *names[] = {"a", "b"};
    cafka_error errors[2];
    for (int i = 0; i < BROKERS; i++)
        f->cluster.brokers[i].max_version[API_DELETE_TOPICS] = 3;
    f->refused = "a";
    f->refusal = ERR_UNKNOWN_TOPIC_OR_PARTITION;
    f->times = 9;
    assert_int_equal(cafka_admin_delete_topics(f->admin, names, 2, -1, errors, &f->err),
                     ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(errors[1].code, 0);
    assert_int_equal(f->requests, 1);
}

static void a_topic_grows(void **state)
{
    struct fixture *f = *state;
    const char *name = "t";
    int32_t count = 24;
    assert_int_equal(cafka_admin_create_partitions(f->admin, &name, &count, 1, CAFKA_VALIDATE_ONLY,
                                                   -1, NULL, &f->err),
                     0);
    assert_string_equal(f->seen, "t 24");
    assert_true(f->validate_only);
}

static void a_controller_that_leaves_a_topic_out_is_not_believed(void **state)
{
    struct fixture *f = *state;
    cafka_new_topic topic = new_topic("t", 1, 1);
    f->silent = true;
    assert_int_equal(cafka_admin_create_topics(f->admin, &topic, 1, 0, -1, NULL, &f->err),
                     CAFKA_ERR_PROTOCOL);
}

static void with_nobody_there_the_call_ends_in_time_and_says_why(void **state)
{
    struct fixture *f = *state;
    cafka_new_topic topic = new_topic("t", 1, 1);
    cafka_error errors[1];
    for (int i = 0; i < BROKERS; i++)
        script_broker_down(&f->cluster.brokers[i]);
    int64_t before = env_now_ms(f->world.env);
    assert_int_equal(cafka_admin_create_topics(f->admin, &topic, 1, 0, 300, errors, &f->err),
                     CAFKA_ERR_TIMEOUT);
    assert_in_range(env_now_ms(f->world.env) - before, 290, 400);
    assert_non_null(strstr(f->err.message, "refused"));
    assert_int_equal(errors[0].code, CAFKA_ERR_TIMEOUT);
}

static void wrong_arguments_are_refused(void **state)
{
    struct fixture *f = *state;
    cafka_new_topic no_name = new_topic(NULL, 1, 1), no_size = new_topic("t", 1, 1);
    no_size.size = 0;
    const char *null_name = NULL;
    cafka_resource broker = {CAFKA_RESOURCE_BROKER, "seven"};
    cafka_config_list *list;
    assert_int_equal(cafka_admin_create_topics(f->admin, &no_name, 1, 0, -1, NULL, &f->err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_admin_create_topics(f->admin, &no_size, 1, 0, -1, NULL, &f->err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_admin_create_topics(f->admin, NULL, 0, 0, -1, NULL, &f->err), CAFKA_OK);
    assert_int_equal(cafka_admin_create_topics(NULL, &no_name, 1, 0, -1, NULL, &f->err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_admin_delete_topics(f->admin, &null_name, 1, -1, NULL, &f->err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_admin_delete_topics(f->admin, &null_name, 1, -2, NULL, &f->err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_admin_describe_configs(f->admin, &broker, 1, -1, &list, &f->err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(cafka_admin_open(NULL, "", &f->err), CAFKA_ERR_ARGUMENT);
    cafka_admin *admin;
    assert_int_equal(cafka_admin_open(&admin, "no.such=1", &f->err), CAFKA_ERR_CONFIG);
    assert_int_equal(f->requests, 0);
}

/* --- looking --- */

static void topics_are_described(void **state)
{
    struct fixture *f = *state;
    cafka_topic_list *list;
    script_topic_add(&f->cluster, "zeta", 1);
    script_topic_add(&f->cluster, "alpha", 4)->epoch[1] = 7;
    assert_int_equal(cafka_admin_describe_topics(f->admin, NULL, 0, -1, &list, &f->err), 0);
    assert_int_equal(list->count, 2);
    assert_string_equal(list->topics[0].name, "alpha");
    assert_int_equal(strlen(list->topics[0].id), 22);
    assert_int_equal(list->topics[0].partition_count, 4);
    assert_int_equal(list->topics[0].partitions[1].leader, 2);
    assert_int_equal(list->topics[0].partitions[1].leader_epoch, 7);
    cafka_topic_list_free(list);

    const char *names[] = {"zeta", "nobody", "alpha"};
    assert_int_equal(cafka_admin_describe_topics(f->admin, names, 3, -1, &list, &f->err), 0);
    assert_int_equal(list->count, 3);
    assert_string_equal(list->topics[0].name, "zeta");
    assert_int_equal(list->topics[1].error.code, ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(list->topics[2].partition_count, 4);
    assert_false(f->cluster.auto_create_seen);
    cafka_topic_list_free(list);
    cafka_topic_list_free(NULL);
}

static void the_cluster_is_described(void **state)
{
    struct fixture *f = *state;
    cafka_cluster_info *info;
    assert_int_equal(cafka_admin_describe_cluster(f->admin, -1, &info, &f->err), 0);
    assert_string_equal(info->cluster_id, "script");
    assert_int_equal(info->controller, 1);
    assert_int_equal(info->broker_count, BROKERS);
    assert_int_equal(info->brokers[0].id, 1);
    assert_string_equal(info->brokers[0].rack, "r1");
    assert_null(info->brokers[1].rack);
    assert_int_equal(info->brokers[2].port, f->cluster.brokers[2].port);
    cafka_cluster_info_free(info);
}

/* --- configs --- */

/* Did one request with so many items go to the broker? 0: any. */
static bool was_asked(const struct fixture *f, int32_t broker, int items)
{
    for (int i = 0; i < f->requests; i++)
        if ((!broker || f->asked[i] == broker) && f->items[i] == items)
            return true;
    return false;
}

static void configs_of_a_broker_are_asked_of_that_broker(void **state)
{
    struct fixture *f = *state;
    cafka_resource resources[] = {{CAFKA_RESOURCE_BROKER, "3"},
                                  {CAFKA_RESOURCE_TOPIC, "t"},
                                  {CAFKA_RESOURCE_BROKER, "2"},
                                  {CAFKA_RESOURCE_TOPIC, "u"}};
    cafka_config_list *list;
    f->refused = "u";
    f->refusal = ERR_UNKNOWN_TOPIC_OR_PARTITION;
    f->times = 9;
    assert_int_equal(cafka_admin_describe_configs(f->admin, resources, 4, -1, &list, &f->err), 0);
    assert_int_equal(f->requests, 3);
    assert_true(was_asked(f, 3, 1) && was_asked(f, 2, 1));
    assert_true(was_asked(f, 0, 2)); /* both topics in one */
    assert_int_equal(list->count, 4);
    const cafka_config_info *t = &list->configs[1];
    assert_string_equal(t->name, "t");
    assert_int_equal(t->entry_count, 2);
    assert_string_equal(t->entries[0].name, "a.secret");
    assert_null(t->entries[0].value);
    assert_true(t->entries[0].sensitive);
    assert_string_equal(t->entries[1].value, "1000");
    assert_string_equal(cafka_source_name(t->entries[1].source), "DYNAMIC_TOPIC_CONFIG");
    assert_int_equal(t->entries[1].type, CAFKA_CONFIG_TYPE_LONG);
    assert_int_equal(t->entries[1].synonym_count, 2);
    assert_string_equal(t->entries[1].synonyms[0].value, "1000");
    assert_string_equal(t->entries[1].synonyms[1].name, "log.retention.ms");
    assert_null(t->entries[1].synonyms[1].value);
    assert_int_equal(t->entries[0].synonym_count, 0);
    assert_int_equal(list->configs[3].error.code, ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_string_equal(cafka_source_name(99), "UNKNOWN");
    cafka_config_list_free(list);
}

static void old_brokers_say_less_about_where_a_config_comes_from(void **state)
{
    struct fixture *f = *state;
    cafka_resource resource = {CAFKA_RESOURCE_TOPIC, "t"};
    cafka_config_list *list;
    for (int i = 0; i < BROKERS; i++)
        f->cluster.brokers[i].max_version[API_DESCRIBE_CONFIGS] = 0;
    assert_int_equal(cafka_admin_describe_configs(f->admin, &resource, 1, -1, &list, &f->err), 0);
    assert_int_equal(list->configs[0].entries[0].source, CAFKA_SOURCE_DEFAULT);
    assert_int_equal(list->configs[0].entries[1].source, CAFKA_SOURCE_TOPIC);
    assert_int_equal(list->configs[0].entries[1].type, CAFKA_CONFIG_TYPE_UNKNOWN);
    assert_int_equal(list->configs[0].entries[1].synonym_count, 0);
    cafka_config_list_free(list);
}

static void configs_are_changed_a_resource_at_a_time(void **state)
{
    struct fixture *f = *state;
    cafka_config_change changes[] = {
        {{CAFKA_RESOURCE_TOPIC, "t"}, CAFKA_CONFIG_SET_VALUE, "retention.ms", "5"},
        {{CAFKA_RESOURCE_TOPIC, "t"}, CAFKA_CONFIG_DELETE, "segment.ms", NULL},
        {{CAFKA_RESOURCE_TOPIC, "u"}, CAFKA_CONFIG_APPEND, "cleanup.policy", "compact"},
        {{CAFKA_RESOURCE_BROKER, "2"}, CAFKA_CONFIG_SET_VALUE, "x", "y"},
    };
    cafka_error errors[4];
    f->refused = "u";
    f->refusal = ERR_INVALID_CONFIG;
    f->times = 9;
    assert_int_equal(cafka_admin_alter_configs(f->admin, changes, 4, 0, -1, errors, &f->err),
                     ERR_INVALID_CONFIG);
    assert_non_null(
        strstr(f->seen, "t 0 retention.ms=5;t 1 segment.ms=;u 2 cleanup.policy=compact;"));
    assert_non_null(strstr(f->seen, "2 0 x=y;"));
    assert_int_equal(f->requests, 2);
    assert_true(was_asked(f, 0, 2) && was_asked(f, 2, 1));
    assert_int_equal(errors[0].code, 0);
    assert_int_equal(errors[1].code, 0);
    assert_int_equal(errors[2].code, ERR_INVALID_CONFIG);
    assert_int_equal(errors[3].code, 0);
}

static void a_broker_that_is_not_there_fails_its_changes_only(void **state)
{
    struct fixture *f = *state;
    cafka_config_change changes[] = {
        {{CAFKA_RESOURCE_BROKER, "77"}, CAFKA_CONFIG_SET_VALUE, "x", "y"},
        {{CAFKA_RESOURCE_TOPIC, "t"}, CAFKA_CONFIG_SET_VALUE, "retention.ms", "5"},
    };
    cafka_error errors[2];
    assert_int_equal(cafka_admin_alter_configs(f->admin, changes, 2, 0, 400, errors, &f->err),
                     CAFKA_ERR_TIMEOUT);
    assert_int_equal(errors[0].code, CAFKA_ERR_TIMEOUT);
    assert_non_null(strstr(errors[0].message, "no broker 77"));
    assert_int_equal(errors[1].code, 0);
}

/* --- offsets --- */

static void offsets_are_asked_of_the_leaders(void **state)
{
    struct fixture *f = *state;
    script_topic_add(&f->cluster, "t", 4);
    cafka_offset_query queries[] = {
        {.topic = "t", .partition = 0, .time_ms = CAFKA_TIME_LATEST},
        {.topic = "t", .partition = 1, .time_ms = CAFKA_TIME_LATEST},
        {.topic = "t", .partition = 3, .time_ms = CAFKA_TIME_EARLIEST},
    };
    assert_int_equal(cafka_admin_list_offsets(f->admin, queries, 3, 0, -1, &f->err), 0);
    assert_int_equal(queries[0].offset, 100);
    assert_int_equal(queries[1].offset, 101);
    assert_int_equal(queries[2].offset, 0);
    assert_int_equal(f->requests, 2); /* partitions 0 and 3 have the same leader */
    assert_int_equal(cafka_admin_list_offsets(f->admin, queries, 1, CAFKA_READ_COMMITTED, -1,
                                              &f->err),
                     0);
    assert_int_equal(queries[0].offset, 1100);
}

static void a_new_leader_is_found(void **state)
{
    struct fixture *f = *state;
    script_topic_add(&f->cluster, "t", 1);
    cafka_offset_query query = {.topic = "t", .time_ms = CAFKA_TIME_LATEST};
    f->refused = "t";
    f->refusal = ERR_NOT_LEADER_OR_FOLLOWER;
    f->times = 2;
    assert_int_equal(cafka_admin_list_offsets(f->admin, &query, 1, 0, -1, &f->err), 0);
    assert_int_equal(query.offset, 100);
    assert_int_equal(f->requests, 3);
}

static void lead_elsewhere_later(struct script_cluster *c, struct arena *arena,
                                 struct metadata_response *response)
{
    (void)arena;
    (void)response;
    c->topics[0].leader[0] = 2; /* in the next answer */
}

/* The leader that metadata names is gone; waiting for it would be waiting for the deadline. */
static void a_leader_that_died_is_not_waited_for(void **state)
{
    struct fixture *f = *state;
    cafka_cluster_info *info;
    script_topic_add(&f->cluster, "t", 1);
    assert_int_equal(cafka_admin_describe_cluster(f->admin, -1, &info, &f->err), 0);
    cafka_cluster_info_free(info);
    test_run_ms(f->cluster.loop, 50);
    script_broker_down(&f->cluster.brokers[0]);
    f->cluster.bend_metadata = lead_elsewhere_later;
    cafka_offset_query query = {.topic = "t", .time_ms = CAFKA_TIME_LATEST};
    int64_t before_ms = loop_now_ms(f->cluster.loop);
    assert_int_equal(cafka_admin_list_offsets(f->admin, &query, 1, 0, 5000, &f->err), 0);
    assert_int_equal(query.offset, 100);
    assert_in_range(loop_now_ms(f->cluster.loop) - before_ms, 0, 600);
}

/* A leader that keeps silent has its own partitions fail, and no others. */
static void a_silent_leader_costs_the_others_nothing(void **state)
{
    struct fixture *f = *state;
    script_topic_add(&f->cluster, "t", 3);
    f->cluster.brokers[0].mute = true;
    cafka_offset_query queries[] = {
        {.topic = "t", .partition = 0, .time_ms = CAFKA_TIME_LATEST},
        {.topic = "t", .partition = 1, .time_ms = CAFKA_TIME_LATEST},
        {.topic = "t", .partition = 2, .time_ms = CAFKA_TIME_LATEST},
    };
    assert_int_equal(cafka_admin_list_offsets(f->admin, queries, 3, 0, 1500, &f->err),
                     CAFKA_ERR_TIMEOUT);
    assert_int_equal(queries[0].error.code, CAFKA_ERR_TIMEOUT);
    assert_int_equal(queries[1].error.code, 0);
    assert_int_equal(queries[1].offset, 101);
    assert_int_equal(queries[2].error.code, 0);
    assert_int_equal(queries[2].offset, 102);
}

static void a_partition_that_is_not_there_has_its_own_error(void **state)
{
    struct fixture *f = *state;
    script_topic_add(&f->cluster, "t", 1);
    cafka_offset_query queries[] = {
        {.topic = "t", .partition = 5, .time_ms = CAFKA_TIME_LATEST},
        {.topic = "t", .partition = 0, .time_ms = CAFKA_TIME_LATEST},
    };
    int rc = cafka_admin_list_offsets(f->admin, queries, 2, 0, 300, &f->err);
    assert_int_equal(rc, ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(queries[0].error.code, ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(queries[1].error.code, 0);
    assert_int_equal(queries[1].offset, 100);
}

static void old_brokers_answer_in_the_old_style_and_cannot_all(void **state)
{
    struct fixture *f = *state;
    script_topic_add(&f->cluster, "t", 1);
    for (int i = 0; i < BROKERS; i++)
        f->cluster.brokers[i].max_version[API_LIST_OFFSETS] = 0;
    cafka_offset_query query = {.topic = "t", .time_ms = CAFKA_TIME_LATEST};
    assert_int_equal(cafka_admin_list_offsets(f->admin, &query, 1, 0, -1, &f->err), 0);
    assert_int_equal(query.offset, 100);
    query.time_ms = CAFKA_TIME_MAX;
    assert_int_equal(cafka_admin_list_offsets(f->admin, &query, 1, 0, -1, &f->err),
                     CAFKA_ERR_UNSUPPORTED);
}

/* --- the end --- */

static void a_closed_client_takes_no_calls(void **state)
{
    struct fixture *f = *state;
    const char *name = "t";
    assert_int_equal(cafka_admin_close(f->admin, -1, &f->err), 0);
    assert_int_equal(cafka_admin_close(f->admin, 0, &f->err), 0);
    assert_int_equal(cafka_admin_delete_topics(f->admin, &name, 1, -1, NULL, &f->err),
                     CAFKA_ERR_CLOSED);
    cafka_admin_free(NULL);
}

/* The scripted brokers in a process of their own, so that only the client runs out of memory. */
static pid_t start_brokers(int *stop_pipe, char *bootstrap, size_t size)
{
    int ready[2], stop[2];
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(stop), 0);
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        struct fixture *f = calloc(1, sizeof *f);
        struct loop *loop;
        close(stop[1]);
        fcntl(stop[0], F_SETFL, O_NONBLOCK);
        if (loop_new(&loop, cafka_env_real(), LOOP_EXTERNAL, NULL))
            _exit(1);
        script_open(&f->cluster, loop, BROKERS);
        f->cluster.handler = on_request;
        f->cluster.user = f;
        script_topic_add(&f->cluster, "t", 3);
        script_bootstrap(&f->cluster, BROKERS, bootstrap, size);
        if (write(ready[1], bootstrap, size) != (ssize_t)size)
            _exit(1);
        while (read(stop[0], bootstrap, 1) < 0) { /* 0: the parent has closed it, or is gone */
            (void)loop_run(loop, 20, NULL);
            f->cluster.request_count = f->requests = 0;
        }
        execlp("true", "end", (char *)NULL); /* another program: what is still there is no leak */
        _exit(1);
    }
    close(stop[0]);
    close(ready[1]);
    assert_int_equal(read(ready[0], bootstrap, size), size);
    close(ready[0]);
    *stop_pipe = stop[1];
    return child;
}

/* One client's life with the k-th allocation failing, or all from then on. Returns how many it made. */
static unsigned long live_with_failure(const char *properties, unsigned long k, bool forever)
{
    int64_t timeout_ms = forever ? 20 : 3000;
    cafka_admin *admin = NULL;
    cafka_topic_list *topics = NULL;
    cafka_offset_query query = {.topic = "t", .partition = 1, .time_ms = CAFKA_TIME_LATEST};
    cafka_error err;
    mem_fail_after(k, forever);
    cafka_config *config = NULL;
    int rc = cafka_config_new(&config, &err);
    if (!rc)
        rc = cafka_config_load(config, properties, &err);
    if (!rc) {
        cafka_config_set_log(config, NULL, NULL, CAFKA_LOG_OFF);
        rc = cafka_admin_new(&admin, config, &err);
    }
    cafka_config_free(config);
    if (!rc) {
        rc = cafka_admin_describe_topics(admin, NULL, 0, timeout_ms, &topics, &err);
        if (!rc)
            rc = cafka_admin_list_offsets(admin, &query, 1, 0, timeout_ms, &err);
        cafka_topic_list_free(topics);
        cafka_admin_free(admin);
    }
    unsigned long count = mem_count();
    mem_fail_after(0, 0);
    if (rc != CAFKA_OK && rc != CAFKA_ERR_MEMORY && rc != CAFKA_ERR_SYSTEM &&
        !(forever && rc == CAFKA_ERR_TIMEOUT))
        fail_msg("allocation %lu: %s", k, err.message);
    if (!rc)
        assert_int_equal(query.offset, 101);
    return count;
}

static void any_allocation_may_fail(void **state)
{
    char bootstrap[256] = "", properties[512];
    int stop;
    (void)state;
    pid_t child = start_brokers(&stop, bootstrap, sizeof bootstrap);
    snprintf(properties, sizeof properties,
             "bootstrap.servers=%s\nretry.backoff.ms=5\nreconnect.backoff.ms=5\nreconnect.backoff.max.ms=20\n"
             "retry.backoff.max.ms=20\n",
             bootstrap);
    unsigned long k = 0, count;
    do
        count = live_with_failure(properties, ++k, false);
    while (k <= count);
    assert_true(k > 50);
    for (unsigned long first = 1; first < k; first += 4)
        (void)live_with_failure(properties, first, true);
    close(stop);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(topics_are_created_by_the_controller),
        TEST(what_is_not_said_about_a_topic_the_brokers_decide),
        TEST(replicas_can_be_placed_by_hand),
        TEST(each_topic_has_its_own_error),
        TEST(a_used_up_quota_is_waited_for_and_only_the_rest_repeated),
        TEST(a_controller_that_moved_is_followed),
        TEST(a_lost_answer_is_asked_for_again),
        TEST(deleting_works_with_names_of_old_versions_too),
        TEST(a_topic_grows),
        TEST(a_controller_that_leaves_a_topic_out_is_not_believed),
        TEST(with_nobody_there_the_call_ends_in_time_and_says_why),
        TEST(wrong_arguments_are_refused),
        TEST(topics_are_described),
        TEST(the_cluster_is_described),
        TEST(configs_of_a_broker_are_asked_of_that_broker),
        TEST(old_brokers_say_less_about_where_a_config_comes_from),
        TEST(configs_are_changed_a_resource_at_a_time),
        TEST(a_broker_that_is_not_there_fails_its_changes_only),
        TEST(offsets_are_asked_of_the_leaders),
        TEST(a_new_leader_is_found),
        TEST(a_leader_that_died_is_not_waited_for),
        TEST(a_silent_leader_costs_the_others_nothing),
        TEST(a_partition_that_is_not_there_has_its_own_error),
        TEST(old_brokers_answer_in_the_old_style_and_cannot_all),
        TEST(a_closed_client_takes_no_calls),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("admin", tests, NULL, NULL);
}
