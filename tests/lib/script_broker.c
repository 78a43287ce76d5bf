/*
 * script_broker.c - see script_broker.h.
 */
#include "lib/script_broker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/frame.h"
#include "net/stream.h"
#include "protocol/api_keys.h"
#include "protocol/error_codes.h"
#include "protocol/messages/ApiVersions.h"
#include "protocol/messages/Metadata.h"
#include "util/alloc.h"

struct session {
    struct list link;
    struct script_broker *broker;
    struct stream *stream;
    struct frame_reader reader;
    struct list late; /* answers that are sent later */
    int number;
};

struct late {
    struct list link;
    struct session *session;
    struct timer timer;
    struct encoded encoded;
};

/* --- sessions --- */

static void late_free(struct late *late)
{
    loop_timer_cancel(late->session->broker->cluster->loop, &late->timer);
    list_remove(&late->link);
    encoded_fini(&late->encoded);
    mem_free(late);
}

static void session_free(struct session *s)
{
    struct list *link, *after;
    list_each(link, after, &s->late) late_free(list_item(link, struct late, link));
    list_remove(&s->link);
    frame_reader_fini(&s->reader);
    stream_free(s->stream);
    mem_free(s);
}

static void send_bytes(struct session *s, const void *data, size_t size)
{
    cafka_error err = {0};
    (void)stream_write_copy(s->stream, data, size, &err);
    stream_flush(s->stream);
}

static void send_late(struct timer *timer)
{
    struct late *late = container_of(timer, struct late, timer);
    send_bytes(late->session, late->encoded.bytes.data, late->encoded.bytes.size);
    late_free(late);
}

/* --- answers --- */

static void fill_versions(struct script_broker *broker, int *version, struct arena *arena,
                          struct api_versions_response *r)
{
    bool refused = broker->versions_from >= 0 && *version > broker->versions_from;
    r->api_keys = arena_calloc(arena, API_KEY_COUNT, sizeof *r->api_keys);
    for (int key = 0; key < API_KEY_COUNT; key++) {
        if (broker->max_version[key] < 0 ||
            (refused && (key != API_API_VERSIONS || broker->versions_empty)))
            continue;
        struct api_versions_response_api_version *v = &r->api_keys[r->api_keys_count++];
        api_versions_response_api_version_init(v);
        v->api_key = (int16_t)key;
        v->max_version = broker->max_version[key];
    }
    if (refused) {
        r->error_code = ERR_UNSUPPORTED_VERSION;
        *version = 0;
    }
}

static void fill_topic(const struct script_topic *t, struct arena *arena,
                       struct metadata_response_topic *out)
{
    metadata_response_topic_init(out);
    out->name = str_of(t->name);
    out->topic_id = t->id;
    out->error_code = t->error;
    if (t->error)
        return;
    out->partitions = arena_calloc(arena, (size_t)t->partitions, sizeof *out->partitions);
    out->partitions_count = t->partitions;
    for (int i = 0; i < t->partitions; i++) {
        struct metadata_response_partition *p = &out->partitions[i];
        metadata_response_partition_init(p);
        p->partition_index = i;
        p->leader_id = t->leader[i];
        p->leader_epoch = t->epoch[i];
        p->error_code = t->leader[i] < 0 ? ERR_LEADER_NOT_AVAILABLE : 0;
    }
}

static void fill_metadata(struct script_cluster *c, int version, struct bytes body,
                          struct arena *arena, struct metadata_response *r)
{
    struct metadata_request request;
    cafka_error err = {0};
    assert_int_equal(message_decode(&metadata_request_message, version, body, arena, &request, NULL,
                                    &err),
                     0);
    c->auto_create_seen = request.allow_auto_topic_creation;
    bool all = request.topics_count < 0 || (version == 0 && !request.topics_count);
    c->metadata_topics = all ? -1 : request.topics_count;
    r->brokers = arena_calloc(arena, SCRIPT_BROKERS, sizeof *r->brokers);
    for (int i = 0; i < c->count; i++) {
        struct metadata_response_broker *b = &r->brokers[r->brokers_count];
        if (c->brokers[i].hidden)
            continue;
        metadata_response_broker_init(b);
        b->node_id = c->brokers[i].id;
        b->host = str_of("127.0.0.1");
        b->port = c->brokers[i].told_port ? c->brokers[i].told_port : c->brokers[i].port;
        r->brokers_count++;
    }
    r->controller_id = c->controller;
    r->cluster_id = str_of(c->cluster_id);
    int asked = all ? c->topic_count : request.topics_count;
    r->topics = arena_calloc(arena, (size_t)asked + 1, sizeof *r->topics);
    r->topics_count = asked;
    for (int i = 0; i < asked; i++) {
        struct script_topic unknown = {.name = "", .error = ERR_UNKNOWN_TOPIC_OR_PARTITION};
        const struct script_topic *found = all ? &c->topics[i] : &unknown;
        for (int k = 0; !all && k < c->topic_count; k++)
            if (str_is(request.topics[i].name, c->topics[k].name))
                found = &c->topics[k];
        fill_topic(found, arena, &r->topics[i]);
        if (found == &unknown)
            r->topics[i].name = request.topics[i].name;
    }
}

static struct script_rule *next_rule(struct script_cluster *c, int api_key)
{
    for (int i = 0; i < c->rule_count; i++) {
        struct script_rule *rule = &c->rules[i];
        if (!rule->used && (rule->api_key < 0 || rule->api_key == api_key)) {
            rule->used = true;
            return rule;
        }
    }
    return NULL;
}

/* False if the session is gone. */
static bool send_answer(struct session *s, struct encoded *e, const struct script_rule *rule)
{
    struct script_cluster *c = s->broker->cluster;
    if (!rule || rule->action == SCRIPT_THROTTLE || rule->action == SCRIPT_ERROR) {
        send_bytes(s, e->bytes.data, e->bytes.size);
        return true;
    }
    switch (rule->action) {
    case SCRIPT_DELAY: {
        struct late *late = mem_zalloc(sizeof *late);
        assert_non_null(late);
        late->session = s;
        late->encoded = *e;
        *e = (struct encoded){0};
        late->timer.fire = send_late;
        list_push_back(&s->late, &late->link);
        loop_timer_set(c->loop, &late->timer, loop_now_ms(c->loop) + rule->number);
        return true;
    }
    case SCRIPT_RAW: send_bytes(s, rule->bytes, rule->size); return true;
    case SCRIPT_WRONG_ID:
        store_be32(e->bytes.data + 4, load_be32(e->bytes.data + 4) + 1000);
        send_bytes(s, e->bytes.data, e->bytes.size);
        return true;
    case SCRIPT_TRAILING:
        store_be32(e->bytes.data, (uint32_t)e->bytes.size - 4 + 3);
        send_bytes(s, e->bytes.data, e->bytes.size);
        send_bytes(s, "abc", 3);
        return true;
    case SCRIPT_CUT:
        send_bytes(s, e->bytes.data, e->bytes.size / 2);
        session_free(s);
        return false;
    case SCRIPT_CLOSE: session_free(s); return false;
    default: return true;
    }
}

static void throttle(int api_key, void *response, int32_t ms)
{
    if (api_key == API_API_VERSIONS)
        ((struct api_versions_response *)response)->throttle_time_ms = ms;
    else
        *(int32_t *)response = ms; /* the first field of all that tests throttle */
}

static bool answer(struct session *s, struct bytes frame)
{
    struct script_broker *broker = s->broker;
    struct script_cluster *c = broker->cluster;
    struct request_head head;
    cafka_error err = {0};
    int rc = request_head_decode(frame, &head, &err);
    assert_true(rc == 0 || rc == CAFKA_ERR_UNSUPPORTED);
    assert_true(c->request_count < SCRIPT_REQUESTS);
    c->requests[c->request_count++] =
        (struct script_request){head.api_key, head.api_version, broker->id, loop_now_ms(c->loop),
                                s->number};
    if (head.api_key == API_API_VERSIONS && broker->versions_closes && head.api_version > 0) {
        session_free(s);
        return false;
    }
    struct script_rule *rule = next_rule(c, head.api_key);
    if (rule && rule->action == SCRIPT_SILENT)
        return true;

    const struct api *api = api_find(head.api_key);
    struct arena arena = {0};
    struct encoded e = {0};
    void *response = arena_alloc(&arena, message_struct_size(api->response));
    assert_non_null(response);
    message_init(api->response, response);
    int version = head.api_version;
    struct bytes body = bytes_of(frame.data + head.size, frame.size - head.size);
    bool wanted = true;
    if (head.api_key == API_API_VERSIONS)
        fill_versions(broker, &version, &arena, response);
    else if (head.api_key == API_METADATA)
        fill_metadata(c, version, body, &arena, response);
    else if (c->handler)
        wanted = c->handler(broker, &head, body, &arena, response, c->user);
    if (head.api_key == API_METADATA && c->bend_metadata)
        c->bend_metadata(c, &arena, response);
    if (rule && rule->action == SCRIPT_ERROR && head.api_key == API_METADATA)
        ((struct metadata_response *)response)->error_code = (int16_t)rule->number;
    if (rule && rule->action == SCRIPT_ERROR && head.api_key == API_API_VERSIONS)
        ((struct api_versions_response *)response)->error_code = (int16_t)rule->number;
    if (rule && rule->action == SCRIPT_THROTTLE)
        throttle(head.api_key, response, (int32_t)rule->number);
    struct script_rule late = {.action = SCRIPT_DELAY, .number = c->late_ms};
    if (c->late_ms && !rule)
        rule = &late;
    c->late_ms = 0;
    bool alive = true;
    if (wanted) {
        rc = response_encode(api, version, head.correlation_id, response, &e, &err);
        if (rc)
            fail_msg("%s", err.message);
        alive = send_answer(s, &e, rule);
    }
    encoded_fini(&e);
    arena_fini(&arena);
    return alive;
}

/* --- sockets --- */

static void on_readable(void *owner)
{
    struct session *s = owner;
    if (s->broker->mute || s->broker->greeting) {
        uint8_t sink[4096];
        while (stream_read(s->stream, sink, sizeof sink) > 0)
            ;
        return;
    }
    for (;;) {
        cafka_error err = {0};
        struct frame *frame = NULL;
        if (frame_reader_next(&s->reader, s->stream, &frame, &err) || !frame)
            return;
        bool alive = answer(s, bytes_of(frame->data, frame->size));
        frame_unref(frame);
        if (!alive)
            return;
    }
}

static void on_closed(void *owner, const cafka_error *err)
{
    (void)err;
    session_free(owner);
}

static const struct stream_events session_events = {.readable = on_readable, .closed = on_closed};

static void on_accept(struct loop_watch *watch, unsigned events)
{
    (void)events;
    struct script_broker *broker = container_of(watch, struct script_broker, watch);
    struct script_cluster *c = broker->cluster;
    int handle;
    while ((handle = c->env->accept(c->env, broker->listener, NULL)) >= 0) {
        struct session *s = mem_zalloc(sizeof *s);
        cafka_error err = {0};
        assert_non_null(s);
        s->broker = broker;
        s->number = c->next_session++;
        list_init(&s->late);
        frame_reader_init(&s->reader, NULL, 100 << 20);
        assert_int_equal(stream_adopt(&s->stream, c->loop, handle, &session_events, s, &err), 0);
        list_push_back(&broker->sessions, &s->link);
        broker->accepted++;
        if (broker->greeting)
            send_bytes(s, broker->greeting, broker->greeting_size);
    }
}

void script_broker_up(struct script_broker *broker)
{
    struct script_cluster *c = broker->cluster;
    cafka_address on = {.ip = {127, 0, 0, 1}, .family = 4, .port = broker->port};
    cafka_address bound;
    cafka_error err = {0};
    broker->listener = c->env->listen(c->env, &on, 16, &bound);
    assert_true(broker->listener >= 0);
    broker->port = bound.port;
    broker->up = true;
    assert_int_equal(loop_watch_start(c->loop, &broker->watch, broker->listener, CAFKA_READABLE,
                                      on_accept, &err),
                     0);
}

void script_cut(struct script_broker *broker)
{
    struct list *link, *after;
    list_each(link, after, &broker->sessions) session_free(list_item(link, struct session, link));
}

void script_say(struct script_broker *broker, const void *bytes, size_t size)
{
    struct list *link, *after;
    list_each(link, after, &broker->sessions)
        send_bytes(list_item(link, struct session, link), bytes, size);
}

void script_deafen(struct script_broker *broker)
{
    struct list *link, *after;
    list_each(link, after, &broker->sessions)
        stream_read_enable(list_item(link, struct session, link)->stream, false);
}

void script_broker_down(struct script_broker *broker)
{
    if (!broker->up)
        return;
    script_cut(broker);
    loop_watch_stop(&broker->watch);
    broker->cluster->env->close(broker->cluster->env, broker->listener);
    broker->up = false;
}

/* --- the cluster --- */

void script_open(struct script_cluster *c, struct loop *loop, int count)
{
    memset(c, 0, sizeof *c);
    c->loop = loop;
    c->env = loop_env(loop);
    c->count = count;
    c->controller = 1;
    c->cluster_id = "script";
    for (int i = 0; i < count; i++) {
        struct script_broker *broker = &c->brokers[i];
        broker->cluster = c;
        broker->id = i + 1;
        broker->versions_from = -1;
        list_init(&broker->sessions);
        for (int key = 0; key < API_KEY_COUNT; key++)
            broker->max_version[key] =
                (int16_t)(api_find(key) ? message_max_version(api_find(key)->request) : -1);
        script_broker_up(broker);
    }
}

void script_close(struct script_cluster *c)
{
    for (int i = 0; i < c->count; i++)
        script_broker_down(&c->brokers[i]);
}

void script_bootstrap(const struct script_cluster *c, int count, char *out, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, size - used, "%s127.0.0.1:%u", i ? "," : "",
                                 c->brokers[i].port);
}

struct script_topic *script_topic_add(struct script_cluster *c, const char *name, int partitions)
{
    assert_true(c->topic_count < SCRIPT_TOPICS && partitions <= SCRIPT_PARTITIONS);
    struct script_topic *t = &c->topics[c->topic_count++];
    *t = (struct script_topic){.name = name, .partitions = partitions};
    t->id.bytes[15] = (uint8_t)c->topic_count;
    for (int i = 0; i < partitions; i++)
        t->leader[i] = c->brokers[i % c->count].id;
    return t;
}

void script_rule_add(struct script_cluster *c, int api_key, enum script_action action,
                     int64_t number)
{
    assert_true(c->rule_count < (int)(sizeof c->rules / sizeof *c->rules));
    c->rules[c->rule_count++] =
        (struct script_rule){.api_key = api_key, .action = action, .number = number};
}

void script_rule_raw(struct script_cluster *c, int api_key, const void *bytes, size_t size)
{
    script_rule_add(c, api_key, SCRIPT_RAW, 0);
    c->rules[c->rule_count - 1].bytes = bytes;
    c->rules[c->rule_count - 1].size = size;
}

int script_count(const struct script_cluster *c, int api_key)
{
    int count = 0;
    for (int i = 0; i < c->request_count; i++)
        count += c->requests[i].api_key == api_key;
    return count;
}
