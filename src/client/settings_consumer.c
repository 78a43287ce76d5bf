/*
 * settings_consumer.c - see settings.h: a consumer's own.
 */
#include "client/fill.h"

#include <string.h>

#include "client/config.h"
#include "client/config_value.h"
#include "util/alloc.h"

static void fill_group(struct filling *f, struct consumer_settings *s)
{
    s->group_id = fill_copy(f, "group.id");
    s->group_instance_id = fill_copy(f, "group.instance.id");
    s->session_timeout_ms = fill_int(f, "session.timeout.ms");
    s->heartbeat_interval_ms = fill_int(f, "heartbeat.interval.ms");
    s->max_poll_interval_ms = fill_ms(f, "max.poll.interval.ms");
    s->auto_commit_interval_ms = fill_ms(f, "auto.commit.interval.ms");
    s->enable_auto_mark = fill_truth(f, "enable.auto.mark");
    s->enable_auto_commit = fill_truth(f, "enable.auto.commit");
    if (s->group_id && !*s->group_id)
        fill_problem(f, CAFKA_ERR_CONFIG, "group.id is empty");
    if (!s->group_id && s->enable_auto_commit) {
        if (config_is_set(f->config, "enable.auto.commit"))
            fill_problem(f, CAFKA_ERR_CONFIG, "enable.auto.commit=true needs a group.id");
        s->enable_auto_commit = false;
    }
    if (!s->group_id)
        return;
    if (fill_is(f, "group.protocol", "classic")) {
        if (s->heartbeat_interval_ms < 1 || s->heartbeat_interval_ms >= s->session_timeout_ms)
            fill_problem(f, CAFKA_ERR_CONFIG,
                         "heartbeat.interval.ms=%d must be between 0 and session.timeout.ms=%d",
                         (int)s->heartbeat_interval_ms, (int)s->session_timeout_ms);
        if (config_is_set(f->config, "group.remote.assignor"))
            fill_problem(f, CAFKA_ERR_CONFIG, "group.remote.assignor needs group.protocol=consumer");
        return;
    }
    static const char *const of_classic[] = {"heartbeat.interval.ms", "session.timeout.ms",
                                             "partition.assignment.strategy"};
    for (size_t i = 0; i < sizeof of_classic / sizeof *of_classic; i++)
        if (config_is_set(f->config, of_classic[i]))
            fill_problem(f, CAFKA_ERR_CONFIG, "%s cannot be set with group.protocol=consumer",
                         of_classic[i]);
}

static void fill_offset_reset(struct filling *f, struct consumer_settings *s)
{
    static const char *const policies[] = {"latest", "earliest", "none"};
    const char *text = fill_text(f, "auto.offset.reset"), *colon = strchr(text, ':');
    s->offset_reset = (enum offset_reset)fill_choice(f, "auto.offset.reset", policies, 3);
    if (colon) {
        s->offset_reset = RESET_BY_DURATION;
        (void)parse_duration_ms(colon + 1,
                                &s->offset_reset_duration_ms); /* checked when it was set */
    }
}

/* The frame of an answer is a little longer than the records in it. */
#define FETCH_FRAME_EXTRA 512

static void fill_fetch(struct filling *f, struct consumer_settings *s)
{
    s->fetch_min_bytes = fill_int(f, "fetch.min.bytes");
    s->fetch_max_bytes = fill_int(f, "fetch.max.bytes");
    s->fetch_max_wait_ms = fill_int(f, "fetch.max.wait.ms");
    s->max_partition_fetch_bytes = fill_int(f, "max.partition.fetch.bytes");
    s->fetch_buffer_memory_bytes = fill_number(f, "fetch.buffer.memory");
    s->fetch_max_inflated_batch_bytes = fill_int(f, "fetch.max.inflated.batch.bytes");
    s->max_poll_records = fill_int(f, "max.poll.records");
    int64_t frame = (int64_t)s->fetch_max_bytes + FETCH_FRAME_EXTRA;
    if (s->client.receive_message_max_bytes >= frame)
        return;
    if (config_is_set(f->config, "receive.message.max.bytes"))
        fill_problem(f, CAFKA_ERR_CONFIG,
                     "receive.message.max.bytes=%d is below fetch.max.bytes + %d = %lld",
                     (int)s->client.receive_message_max_bytes, FETCH_FRAME_EXTRA, (long long)frame);
    s->client.receive_message_max_bytes = frame > INT32_MAX ? INT32_MAX : (int32_t)frame;
}

int settings_for_consumer(const cafka_config *config, struct consumer_settings *out,
                          cafka_error *err)
{
    struct filling f = {.config = config, .kind = CAFKA_FOR_CONSUMER};
    struct consumer_settings *s = out;
    memset(s, 0, sizeof *s);
    fill_client(&f, &s->client, "bootstrap.servers");
    s->client_rack = fill_copy(&f, "client.rack");
    s->read_committed = fill_is(&f, "isolation.level", "read_committed");
    s->check_crcs = fill_truth(&f, "check.crcs");
    s->allow_auto_create_topics = fill_truth(&f, "allow.auto.create.topics");
    s->exclude_internal_topics = fill_truth(&f, "exclude.internal.topics");
    fill_offset_reset(&f, s);
    fill_fetch(&f, s);
    fill_group(&f, s);
    int rc = fill_verdict(&f, err);
    if (rc)
        consumer_settings_fini(s);
    return rc;
}

void consumer_settings_fini(struct consumer_settings *s)
{
    fill_client_fini(&s->client);
    mem_free(s->group_id);
    mem_free(s->group_instance_id);
    mem_free(s->client_rack);
    memset(s, 0, sizeof *s);
}
