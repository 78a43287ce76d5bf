/*
 * metadata_answer.c - what a Metadata response says, compared with what was known.
 *
 * Decode; brokers first, since partitions point to them; then each topic: a pure comparison that
 * fills in what is newer and says what has changed, which the room above is told.
 */
#include "client/metadata_room.h"

#include <string.h>

#include "protocol/error_codes.h"
#include "protocol/errors.h"
#include "util/alloc.h"

enum {
    EPOCHS_SINCE = 9 /* older answers may hold epochs that are behind */
};

/* --- brokers --- */

static bool port_is_good(int32_t port)
{
    return port > 0 && port <= UINT16_MAX;
}

static bool is_usable(const struct metadata_response_broker *b)
{
    return b->node_id >= 0 && port_is_good(b->port) && b->host.size;
}

/* All of them are made before any is forgotten: without memory the old ones go on serving. */
static int make_brokers(struct metadata *m, const struct metadata_response *response,
                        cafka_error *err)
{
    char name[BROKER_NAME_SIZE];
    int usable = 0;
    for (int32_t i = 0; i < response->brokers_count; i++) {
        const struct metadata_response_broker *b = &response->brokers[i];
        if (!is_usable(b)) {
            log_warn(m->log, "broker %d has no usable address (%.*s:%d)", b->node_id,
                     STR_ARG(b->host), b->port);
            continue;
        }
        usable++;
        if (!broker_update(m->client, b->node_id, b->host, (uint16_t)b->port, b->rack))
            return error_set(err, CAFKA_ERR_MEMORY,
                             "no memory for broker %d (%d brokers are known, at most %d)",
                             b->node_id, m->client->broker_count, BROKERS_MAX);
    }
    if (!usable)
        return error_set_flags(err, CAFKA_ERR_PROTOCOL, CAFKA_RETRIABLE,
                               "%s names no brokers at all; it may be starting",
                               broker_name(m->client, m->asked_broker, name, sizeof name));
    return CAFKA_OK;
}

static int take_brokers(struct metadata *m, const struct metadata_response *response,
                        cafka_error *err)
{
    struct client *client = m->client;
    struct list *link, *after;
    int rc = make_brokers(m, response, err);
    if (rc)
        return rc;
    list_each(link, after, &client->brokers) list_item(link, struct broker, link)->present = false;
    for (int32_t i = 0; i < response->brokers_count; i++)
        if (is_usable(&response->brokers[i]))
            client_broker(client, response->brokers[i].node_id)->present = true;
    return CAFKA_OK;
}

void metadata_hint_broker(struct metadata *m, int32_t id, struct str host, int32_t port,
                          struct str rack)
{
    if (id < 0 || !host.size || !port_is_good(port))
        return;
    struct broker *broker = broker_update(m->client, id, host, (uint16_t)port, rack);
    if (broker)
        broker->present = true;
}

static void take_cluster(struct metadata *m, const struct metadata_response *response)
{
    m->controller = response->controller_id;
    if (!response->cluster_id.data || (m->cluster_id && str_is(response->cluster_id, m->cluster_id)))
        return;
    char *id = mem_strndup(response->cluster_id.data, response->cluster_id.size);
    if (!id)
        return; /* it serves messages only */
    if (m->cluster_id)
        log_warn(m->log, "the cluster id changed from %s to %s: are these addresses of one cluster?",
                 m->cluster_id, id);
    mem_free(m->cluster_id);
    m->cluster_id = id;
}

/* --- partitions --- */

/*
 * How many there are. Answers list all of a topic, so their numbers are 0 … count-1; a larger one is a
 * mistake, and must cost no memory.
 */
static int32_t count_partitions(const struct metadata_response_topic *said)
{
    int32_t count = 0;
    for (int32_t i = 0; i < said->partitions_count; i++) {
        int32_t index = said->partitions[i].partition_index;
        if (index >= count && index < said->partitions_count)
            count = index + 1;
    }
    return count;
}

static bool resize(struct metadata_topic *topic, int32_t count)
{
    if (count <= topic->partition_count) {
        topic->partition_count = count;
        return true;
    }
    struct metadata_partition *grown =
        mem_recalloc(topic->partitions, (size_t)count, sizeof *topic->partitions);
    if (!grown)
        return false;
    topic->partitions = grown;
    for (int32_t i = topic->partition_count; i < count; i++)
        grown[i] = (struct metadata_partition){-1, -1, ERR_LEADER_NOT_AVAILABLE};
    topic->partition_count = count;
    return true;
}

/*
 * True if the leader or its epoch is another one now. A leader that is not among the brokers is none:
 * when it appears there, that is news.
 */
static bool take_partition(const struct client *client, struct metadata_partition *p,
                           const struct metadata_response_partition *said, int version)
{
    struct metadata_partition new = {
        .leader = said->leader_id,
        .leader_epoch = version >= EPOCHS_SINCE ? said->leader_epoch : -1,
        .error = said->error_code,
    };
    const struct broker *leader = new.leader < 0 ? NULL : client_broker(client, new.leader);
    if (!leader || !leader->present) {
        new.leader = -1;
        new.error = new.error ? new.error : ERR_LEADER_NOT_AVAILABLE;
    }
    /* From a broker that is behind: what we know is newer. */
    if (new.leader_epoch >= 0 && new.leader_epoch < p->leader_epoch)
        return false;
    bool changed = new.leader != p->leader || new.leader_epoch != p->leader_epoch;
    *p = new;
    return changed;
}

static bool partitions_are_fine(const struct metadata_topic *topic)
{
    for (int32_t i = 0; i < topic->partition_count; i++)
        if (topic->partitions[i].leader < 0)
            return false;
    return true;
}

/* --- topics --- */

static bool same_error(const struct metadata_topic *topic, int code)
{
    return topic->error.code == code;
}

static const char *meaning(int code)
{
    switch (code) {
    case ERR_UNKNOWN_TOPIC_OR_PARTITION: return " (it does not exist, or they do not know it yet)";
    case ERR_TOPIC_AUTHORIZATION_FAILED: return " (this client may not describe it)";
    case ERR_INVALID_TOPIC_EXCEPTION: return " (no topic can have this name)";
    case ERR_LEADER_NOT_AVAILABLE: return " (it is being made, or no replica can lead it)";
    default: return "";
    }
}

static unsigned take_error(struct metadata_topic *topic, int code)
{
    if (same_error(topic, code))
        return 0;
    error_clear(&topic->error);
    if (code)
        error_set(&topic->error, code, "the brokers say about topic %s: %s%s", topic->name,
                  cafka_error_name(code), meaning(code));
    return METADATA_ERROR;
}

/* Another topic under the old name: nothing that was known holds. */
static bool is_recreated(const struct metadata_topic *topic, struct uuid id, int32_t count)
{
    if (!topic->known)
        return false;
    if (!uuid_is_zero(id) && !uuid_is_zero(topic->id))
        return !uuid_equal(id, topic->id);
    if (!uuid_is_zero(topic->id))
        return false; /* an older broker while the cluster is upgraded: it cannot tell */
    return uuid_is_zero(id) && count < topic->partition_count; /* no ids; but topics never shrink */
}

static int take_topic(struct metadata *m, struct metadata_topic *topic,
                      const struct metadata_response_topic *said, int version, unsigned *what,
                      cafka_error *err)
{
    *what = take_error(topic, said->error_code);
    if (said->error_code)
        return CAFKA_OK; /* what is known stays: the answer may come from a broker that is behind */

    int32_t count = count_partitions(said);
    bool recreated = is_recreated(topic, said->topic_id, count);
    int32_t before = recreated ? 0 : topic->partition_count;
    if (recreated)
        topic->partition_count = 0;
    if (count < before)
        count = before; /* a broker that has not heard of the newest partitions */
    if (!resize(topic, count))
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %d partitions of %s", count,
                         topic->name);
    for (int32_t i = 0; i < said->partitions_count; i++) {
        const struct metadata_response_partition *p = &said->partitions[i];
        if (p->partition_index >= 0 && p->partition_index < count &&
            take_partition(m->client, &topic->partitions[p->partition_index], p, version))
            *what |= METADATA_LEADERS;
    }
    if (recreated)
        *what |= METADATA_RECREATED | METADATA_LEADERS;
    else if (!topic->known)
        *what |= METADATA_KNOWN;
    else if (count > before)
        *what |= METADATA_PARTITIONS;
    if (!uuid_is_zero(said->topic_id))
        topic_set_id(m, topic, said->topic_id);
    topic->internal = said->is_internal;
    topic->known = true;
    return CAFKA_OK;
}

/* Ask again while something is missing that may come; a refusal is asked again when somebody needs it. */
static void want_rest(struct metadata *m, struct metadata_topic *topic)
{
    struct client *client = m->client;
    const struct client_settings *settings = client->settings;
    bool fine = !topic->error.code && partitions_are_fine(topic);
    if (fine) {
        topic->unhelpful = 0;
        topic->ask_at_ms = 0;
        return;
    }
    topic->ask_at_ms =
        loop_now_ms(client->loop) + backoff_after(client->env, settings->retry_backoff_ms,
                                                  settings->retry_backoff_max_ms, topic->unhelpful);
    if (topic->unhelpful < 62)
        topic->unhelpful++;
    if (topic->refs && (!topic->error.code || protocol_error_retriable(topic->error.code)))
        topic_want(m, topic, topic->ask_at_ms);
}

/* One topic of the answer. The hook comes last: the topic may be gone after it. */
static int hear_topic(struct metadata *m, const struct metadata_response_topic *said, int version,
                      unsigned *changes, cafka_error *err)
{
    struct client *client = m->client;
    if (!said->name.data)
        return CAFKA_OK; /* we ask by name */
    struct metadata_topic *topic = metadata_topic_find(m, said->name);
    if (!topic && m->want_all) {
        topic = topic_new(m, said->name);
        if (!topic)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for the topic %.*s",
                             STR_ARG(said->name));
    }
    if (!topic)
        return CAFKA_OK;
    topic->answered = true;
    unsigned what = 0;
    int rc = take_topic(m, topic, said, version, &what, err);
    if (rc)
        return rc;
    want_rest(m, topic);
    *changes |= what;
    if (what && client->hooks.topic_changed)
        client->hooks.topic_changed(client->room, topic, what);
    return CAFKA_OK;
}

/* Brokers answer for every topic that was asked for; one that does not, does not know it. */
static void hear_silence(struct metadata *m, unsigned *changes)
{
    struct list *link, *after;
    struct client *client = m->client;
    list_each(link, after, &m->topics)
    {
        struct metadata_topic *topic = list_item(link, struct metadata_topic, link);
        if (!topic->asked || topic->answered)
            continue;
        unsigned what = take_error(topic, ERR_UNKNOWN_TOPIC_OR_PARTITION);
        want_rest(m, topic);
        *changes |= what;
        if (what && client->hooks.topic_changed) {
            client->hooks.topic_changed(client->room, topic, what);
            after = link->next; /* asked topics are not freed, their neighbours may be */
        }
    }
}

/* All were asked for; what nobody holds and no broker names is gone. */
static void hear_absence(struct metadata *m, unsigned *changes)
{
    struct list *link, *after;
    struct client *client = m->client;
    list_each(link, after, &m->topics)
    {
        struct metadata_topic *topic = list_item(link, struct metadata_topic, link);
        if (topic->asked || topic->answered || topic->refs)
            continue;
        unsigned what = take_error(topic, ERR_UNKNOWN_TOPIC_OR_PARTITION);
        *changes |= what;
        topic->refs++; /* it stays while the hook runs */
        if (what && client->hooks.topic_changed)
            client->hooks.topic_changed(client->room, topic, what);
        after = link->next;
        if (!--topic->refs)
            topic_forget(m, topic);
    }
}

static void forget_asked(struct metadata *m)
{
    struct list *link, *after;
    list_each(link, after, &m->topics)
    {
        struct metadata_topic *topic = list_item(link, struct metadata_topic, link);
        if (topic->asked) {
            topic->asked = false;
            topic_release(m, topic);
        }
    }
}

/* The next full refresh, if somebody wants one because of the same old trouble, comes later each time. */
static void note_full(struct metadata *m, unsigned changes)
{
    struct client *client = m->client;
    const struct client_settings *settings = client->settings;
    int64_t now_ms = loop_now_ms(client->loop);
    m->full_unhelpful = changes ? 0 : m->full_unhelpful < 62 ? m->full_unhelpful + 1 : 62;
    m->full_not_before_ms =
        now_ms + backoff_after(client->env, settings->retry_backoff_ms,
                               settings->retry_backoff_max_ms, m->full_unhelpful);
    m->last_full_ms = now_ms;
}

static int take_response(struct metadata *m, const struct metadata_response *response, int version,
                         cafka_error *err)
{
    char name[BROKER_NAME_SIZE];
    if (response->error_code) {
        if (response->error_code == ERR_REBOOTSTRAP_REQUIRED &&
            m->client->settings->metadata_rebootstrap)
            metadata_rebootstrap(m, "a broker asked for it");
        return error_set(err, response->error_code,
                         "%s refuses to tell the state of the cluster: %s",
                         broker_name(m->client, m->asked_broker, name, sizeof name),
                         cafka_error_name(response->error_code));
    }
    int rc = take_brokers(m, response, err);
    if (rc)
        return rc;
    take_cluster(m, response);
    m->ready = true;
    unsigned changes = 0;
    for (int32_t i = 0; !rc && i < response->topics_count; i++)
        rc = hear_topic(m, &response->topics[i], version, &changes, err);
    if (rc)
        return rc;
    hear_silence(m, &changes);
    if (m->all && m->want_all)
        hear_absence(m, &changes);
    forget_asked(m);
    if (m->full)
        note_full(m, changes);
    return CAFKA_OK;
}

int metadata_take_answer(struct metadata *m, const struct reply *reply, cafka_error *err)
{
    struct metadata_response response;
    int rc = reply_decode(reply, &m->arena, &response, err);
    if (!rc)
        rc = take_response(m, &response, reply->version, err);
    arena_fini(&m->arena); /* a large one would lie idle until the next refresh */
    if (rc)
        return rc;
    backoff_reset(&m->failures);
    error_clear(&m->last_error);
    m->blocked_until_ms = 0;
    m->attempt_since_ms = 0;
    metadata_schedule(m);
    calls_pump_soon(m->client); /* the controller, or a broker, may be known now */
    return CAFKA_OK;
}

bool metadata_hint_leader(struct metadata *m, struct metadata_topic *topic, int32_t partition,
                          int32_t leader, int32_t leader_epoch)
{
    if (!topic->known || partition < 0 || partition >= topic->partition_count || leader < 0 ||
        !client_broker(m->client, leader))
        return false;
    struct metadata_partition *p = &topic->partitions[partition];
    if (leader_epoch <= p->leader_epoch)
        return false;
    *p = (struct metadata_partition){leader, leader_epoch, 0};
    return true;
}
