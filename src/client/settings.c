/*
 * settings.c - see settings.h.
 *
 * A filling runs in one pass: every field is parsed (the values were checked when they were set, so
 * parsing cannot fail), then the checks between properties add what is wrong to a list of problems,
 * and at the end the list decides.
 */
#include "client/settings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/config.h"
#include "client/config_value.h"
#include "record/compress.h"
#include "util/alloc.h"
#include "util/bytes.h"
#include "util/error.h"
#include "util/meter.h"

/* What is wrong, all of it, in one message. */
struct filling {
    const cafka_config *config;
    unsigned kind; /* CAFKA_FOR_* */
    int code;      /* of the first problem */
    unsigned problems, unsaid;
    char text[200];
};

static void problem(struct filling *f, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void problem(struct filling *f, int code, const char *format, ...)
{
    char one[200];
    va_list args;
    va_start(args, format);
    vsnprintf(one, sizeof one, format, args);
    va_end(args);
    size_t used = strlen(f->text), size = strlen(one) + (used ? 2 : 0);
    if (!f->problems++)
        f->code = code;
    if (used + size >= sizeof f->text) {
        f->unsaid++;
        return;
    }
    memcpy(f->text + used, "; ", used ? 2 : 0);
    memcpy(f->text + used + (used ? 2 : 0), one, strlen(one) + 1);
}

static const char *kind_name(unsigned kind)
{
    return kind == CAFKA_FOR_PRODUCER   ? "producer"
           : kind == CAFKA_FOR_CONSUMER ? "consumer"
                                        : "admin client";
}

static int verdict(const struct filling *f, cafka_error *err)
{
    if (!f->problems)
        return CAFKA_OK;
    if (f->code == CAFKA_ERR_MEMORY)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the settings of a %s",
                         kind_name(f->kind));
    if (f->unsaid)
        return error_set(err, f->code, "%s: %s; and %u more", kind_name(f->kind), f->text,
                         f->unsaid);
    return error_set(err, f->code, "%s: %s", kind_name(f->kind), f->text);
}

/* ---- the values ---- */

static const char *text_of(struct filling *f, const char *name)
{
    return config_text(f->config, name, f->kind);
}

static int64_t number_of(struct filling *f, const char *name)
{
    int64_t n = 0;
    const char *text = text_of(f, name);
    if (text)
        (void)parse_int64(text, &n); /* checked when it was set */
    return n;
}

static int32_t int_of(struct filling *f, const char *name)
{
    return (int32_t)number_of(f, name);
}

enum { DAY_MS = 24 * 60 * 60 * 1000 };

static void fill_metrics(struct filling *f, struct client_settings *s)
{
    int samples = int_of(f, "metrics.num.samples");
    int64_t window_ms = number_of(f, "metrics.sample.window.ms");
    s->metrics_samples = samples < METER_SAMPLES_MAX ? samples : METER_SAMPLES_MAX;
    s->metrics_window_ms = window_ms < 1 ? 1 : window_ms > DAY_MS ? DAY_MS : window_ms;
}

/* Java's defaults are not taken: a size of our own would turn off what the kernel does by itself. */
static int32_t socket_buffer(struct filling *f, const char *name)
{
    int32_t bytes = config_is_set(f->config, name) ? int_of(f, name) : 0;
    return bytes > 0 ? bytes : 0;
}

static bool truth_of(struct filling *f, const char *name)
{
    bool truth = false;
    const char *text = text_of(f, name);
    if (text)
        (void)parse_bool(text, &truth); /* checked when it was set */
    return truth;
}

static bool is(struct filling *f, const char *name, const char *value)
{
    const char *text = text_of(f, name);
    return text && !strcmp(text, value);
}

static char *copy_of(struct filling *f, const char *name)
{
    const char *text = text_of(f, name);
    char *copy = mem_strdup(text);
    if (text && !copy)
        problem(f, CAFKA_ERR_MEMORY, "no memory");
    return copy;
}

/* Which of `words` the value is; they are in the order of an enum of settings.h. */
static int choice_of(struct filling *f, const char *name, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (is(f, name, words[i]))
            return i;
    return 0;
}

/* ---- common ---- */

static void log_bridge(void *user, enum log_level level, const char *area, const char *message)
{
    const struct client_settings *s = user;
    s->log_fn(s->log_user, (int)level, area, message);
}

static void fill_servers(struct filling *f, struct client_settings *s, const char *name)
{
    const char *text = text_of(f, name), *at = text, *item, *host;
    size_t size, host_size, count = 0;
    if (!text || !*text) {
        problem(f, CAFKA_ERR_CONFIG, "%s is missing", name);
        return;
    }
    while (list_next(&at, &item, &size))
        count++;
    s->bootstrap = mem_calloc(count, sizeof *s->bootstrap);
    for (at = text; s->bootstrap && list_next(&at, &item, &size);) {
        struct server_name *server = &s->bootstrap[s->bootstrap_count];
        if (!parse_server(item, size, &host, &host_size, &server->port))
            continue; /* checked when it was set */
        server->host = mem_strndup(host, host_size);
        if (!server->host)
            break;
        s->bootstrap_count++;
    }
    if (s->bootstrap_count < count)
        problem(f, CAFKA_ERR_MEMORY, "no memory");
}

static void fill_world(struct filling *f, struct client_settings *s)
{
    static const char *const dispatches[] = {"loop", "queue"};
    const cafka_config *config = f->config;
    s->env = config->env ? config->env : cafka_env_real();
    s->loop = config->loop;
    s->on_event = config->on_event;
    s->on_event_user = config->on_event_user;
    if (is(f, "callback.dispatch", "auto"))
        s->callback_dispatch = s->loop ? DISPATCH_QUEUE : DISPATCH_LOOP;
    else
        s->callback_dispatch =
            (enum callback_dispatch)choice_of(f, "callback.dispatch", dispatches, 2);
    s->log_fn = config->log_fn;
    s->log_user = config->log_user;
    if (s->log_fn)
        s->log_sink = (struct log_sink){log_bridge, s, (enum log_level)config->log_level};
    if (cafka_config_copy(&s->config, config, NULL))
        problem(f, CAFKA_ERR_MEMORY, "no memory");
}

static void fill_client(struct filling *f, struct client_settings *s)
{
    static const char *const protocols[] = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"};
    s->kind = f->kind;
    s->client_id = copy_of(f, "client.id");
    s->dns_lookup = is(f, "client.dns.lookup", "use_all_dns_ips") ? DNS_USE_ALL_IPS
                                                                  : DNS_CANONICAL_BOOTSTRAP_ONLY;
    s->metadata_max_age_ms = number_of(f, "metadata.max.age.ms");
    s->metadata_rebootstrap = is(f, "metadata.recovery.strategy", "rebootstrap");
    s->metadata_rebootstrap_trigger_ms = number_of(f, "metadata.recovery.rebootstrap.trigger.ms");
    s->reconnect_backoff_ms = number_of(f, "reconnect.backoff.ms");
    s->reconnect_backoff_max_ms = number_of(f, "reconnect.backoff.max.ms");
    s->retry_backoff_ms = number_of(f, "retry.backoff.ms");
    s->retry_backoff_max_ms = number_of(f, "retry.backoff.max.ms");
    s->connection_setup_timeout_ms = number_of(f, "socket.connection.setup.timeout.ms");
    s->connection_setup_timeout_max_ms = number_of(f, "socket.connection.setup.timeout.max.ms");
    s->request_timeout_ms = number_of(f, "request.timeout.ms");
    s->default_api_timeout_ms =
        number_of(f, f->kind == CAFKA_FOR_PRODUCER ? "max.block.ms" : "default.api.timeout.ms");
    s->connections_max_idle_ms = number_of(f, "connections.max.idle.ms");
    if (s->connections_max_idle_ms < 0)
        s->connections_max_idle_ms = -1;
    fill_metrics(f, s);
    s->send_buffer_bytes = socket_buffer(f, "send.buffer.bytes");
    s->receive_buffer_bytes = socket_buffer(f, "receive.buffer.bytes");
    s->receive_message_max_bytes = int_of(f, "receive.message.max.bytes");
    s->security_protocol = (enum security_protocol)choice_of(f, "security.protocol", protocols, 4);
    if (s->connection_setup_timeout_ms < 0)
        problem(f, CAFKA_ERR_CONFIG, "socket.connection.setup.timeout.ms is negative");
    if (s->security_protocol != SECURITY_PLAINTEXT)
        problem(f, CAFKA_ERR_UNSUPPORTED, "security.protocol=%s is not there yet, only PLAINTEXT is",
                protocols[s->security_protocol]);
    fill_world(f, s);
}

static void client_settings_fini(struct client_settings *s)
{
    for (size_t i = 0; i < s->bootstrap_count; i++)
        mem_free(s->bootstrap[i].host);
    mem_free(s->bootstrap);
    mem_free(s->client_id);
    cafka_config_free(s->config);
}

const char *client_settings_text(const struct client_settings *settings, const char *name)
{
    return config_text(settings->config, name, settings->kind);
}

const struct plugins *client_plugins(const struct client_settings *settings)
{
    return &settings->config->plugins;
}

void client_settings_warn_unused(const struct client_settings *settings)
{
    struct log log = {&settings->log_sink, "config"};
    for (size_t i = 0; i < property_count; i++) {
        const struct property *p = &properties[i];
        if (!settings->config->values[i])
            continue;
        if (!(p->clients & settings->kind))
            log_warn(log, "%s is set, but a %s has no such property", p->name,
                     kind_name(settings->kind));
        else if (p->flags & CAFKA_PROPERTY_IGNORED)
            log_warn(log, "%s is set, but means something in Java only", p->name);
        else if (p->flags & CAFKA_PROPERTY_LATER)
            log_warn(log, "%s is set, but has no effect yet", p->name);
    }
}

/* ---- producer ---- */

static void fill_compression(struct filling *f, struct producer_settings *s)
{
    static const char *const levels[CODEC_COUNT] = {[CODEC_GZIP] = "compression.gzip.level",
                                                    [CODEC_LZ4] = "compression.lz4.level",
                                                    [CODEC_ZSTD] = "compression.zstd.level"};
    s->compression = codec_find(str_of(text_of(f, "compression.type")));
    s->compression_level = CODEC_LEVEL_DEFAULT;
    s->compression_threads = int_of(f, "compression.threads");
    if (!codec_available(s->compression))
        problem(f, CAFKA_ERR_UNSUPPORTED, "compression.type=%s: this build does not have it",
                codec_name(s->compression));
    const char *name = levels[s->compression], *general = text_of(f, "compression.level");
    if (!name)
        return;
    s->compression_level = int_of(f, general ? "compression.level" : name);
    const struct property *row = property_find(name, NULL);
    if (general && !value_allowed(row, general))
        problem(f, CAFKA_ERR_CONFIG, "compression.level=%s: %s takes %s", general,
                codec_name(s->compression), row->range);
}

/*
 * Idempotence needs what it needs. Asked for by name it is an error to contradict it; being on only
 * by default it gives way, as in Java.
 */
static void fill_idempotence(struct filling *f, struct producer_settings *s)
{
    bool asked = config_is_set(f->config, "enable.idempotence");
    s->enable_idempotence = truth_of(f, "enable.idempotence");
    if (!s->enable_idempotence && s->transactional_id)
        problem(f, CAFKA_ERR_CONFIG, "transactional.id needs enable.idempotence=true");
    if (!s->enable_idempotence)
        return;
    const struct {
        bool broken;
        const char *need;
    } needs[] = {{s->acks != -1, "acks=all"},
                 {s->retries == 0, "retries above 0"},
                 {s->max_in_flight > 5, "max.in.flight.requests.per.connection of 5 or less"}};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        if (!needs[i].broken)
            continue;
        s->enable_idempotence = false;
        if (asked || s->transactional_id)
            problem(f, CAFKA_ERR_CONFIG, "%s needs %s",
                    asked ? "enable.idempotence=true" : "transactional.id", needs[i].need);
    }
}

static void fill_delivery_timeout(struct filling *f, struct producer_settings *s)
{
    int64_t least = s->client.request_timeout_ms;
    least = s->linger_ms > INT64_MAX - least ? INT64_MAX : s->linger_ms + least;
    s->delivery_timeout_ms = number_of(f, "delivery.timeout.ms");
    if (s->delivery_timeout_ms >= least)
        return;
    if (config_is_set(f->config, "delivery.timeout.ms"))
        problem(f, CAFKA_ERR_CONFIG,
                "delivery.timeout.ms=%lld is below linger.ms + request.timeout.ms = %lld",
                (long long)s->delivery_timeout_ms, (long long)least);
    s->delivery_timeout_ms = least;
}

static void fill_batches(struct filling *f, struct producer_settings *s)
{
    s->batch_size_bytes = int_of(f, "batch.size");
    s->batch_max_size_bytes = int_of(f, "batch.max.size");
    if (s->batch_size_bytes < 1)
        s->batch_size_bytes = 1; /* 0 asks for batches of one record */
    if (s->batch_max_size_bytes >= s->batch_size_bytes)
        return;
    if (config_is_set(f->config, "batch.max.size") && config_is_set(f->config, "batch.size"))
        problem(f, CAFKA_ERR_CONFIG, "batch.max.size=%d is below batch.size=%d",
                (int)s->batch_max_size_bytes, (int)s->batch_size_bytes);
    if (config_is_set(f->config, "batch.max.size"))
        s->batch_size_bytes = s->batch_max_size_bytes;
    else
        s->batch_max_size_bytes = s->batch_size_bytes;
}

int settings_for_producer(const cafka_config *config, struct producer_settings *out,
                          cafka_error *err)
{
    static const char *const partitioners[] = {"default",           "murmur2", "consistent",
                                               "consistent_random", "fnv1a",   "fnv1a_random",
                                               "round_robin",       "random"};
    struct filling f = {.config = config, .kind = CAFKA_FOR_PRODUCER};
    struct producer_settings *s = out;
    memset(s, 0, sizeof *s);
    fill_servers(&f, &s->client, "bootstrap.servers");
    fill_client(&f, &s->client);
    s->acks = is(&f, "acks", "all") ? -1 : is(&f, "acks", "1") ? 1 : 0;
    s->retries = int_of(&f, "retries");
    s->max_in_flight = int_of(&f, "max.in.flight.requests.per.connection");
    s->linger_ms = number_of(&f, "linger.ms");
    s->buffer_memory_bytes = number_of(&f, "buffer.memory");
    s->max_block_ms = number_of(&f, "max.block.ms");
    s->max_request_size_bytes = int_of(&f, "max.request.size");
    s->metadata_max_idle_ms = number_of(&f, "metadata.max.idle.ms");
    s->partitioner = (enum partitioner_kind)choice_of(&f, "partitioner.class", partitioners, 8);
    s->partitioner_adaptive = truth_of(&f, "partitioner.adaptive.partitioning.enable");
    s->partitioner_ignore_keys = truth_of(&f, "partitioner.ignore.keys");
    s->partitioner_availability_timeout_ms = number_of(&f, "partitioner.availability.timeout.ms");
    s->transactional_id = copy_of(&f, "transactional.id");
    s->transaction_timeout_ms = int_of(&f, "transaction.timeout.ms");
    s->on_delivery = config->on_delivery;
    s->on_delivery_user = config->on_delivery_user;
    for (size_t i = 0; i < config->plugins.producer_interceptor_count; i++)
        if (config->plugins.producer_interceptors[i].on_acknowledgement)
            s->acknowledges = true;
    s->reports = s->on_delivery || s->acknowledges;
    fill_batches(&f, s);
    fill_compression(&f, s);
    fill_idempotence(&f, s);
    fill_delivery_timeout(&f, s);
    if (s->transactional_id)
        problem(&f, CAFKA_ERR_UNSUPPORTED,
                "transactional.id is set, but transactions are not there yet");
    int rc = verdict(&f, err);
    if (rc)
        producer_settings_fini(s);
    return rc;
}

void producer_settings_fini(struct producer_settings *s)
{
    client_settings_fini(&s->client);
    mem_free(s->transactional_id);
    memset(s, 0, sizeof *s);
}

/* ---- consumer ---- */

static void fill_group(struct filling *f, struct consumer_settings *s)
{
    s->group_id = copy_of(f, "group.id");
    s->group_instance_id = copy_of(f, "group.instance.id");
    s->session_timeout_ms = int_of(f, "session.timeout.ms");
    s->heartbeat_interval_ms = int_of(f, "heartbeat.interval.ms");
    s->max_poll_interval_ms = number_of(f, "max.poll.interval.ms");
    s->auto_commit_interval_ms = number_of(f, "auto.commit.interval.ms");
    s->enable_auto_mark = truth_of(f, "enable.auto.mark");
    s->enable_auto_commit = truth_of(f, "enable.auto.commit");
    if (s->group_id && !*s->group_id)
        problem(f, CAFKA_ERR_CONFIG, "group.id is empty");
    if (!s->group_id && s->enable_auto_commit) {
        if (config_is_set(f->config, "enable.auto.commit"))
            problem(f, CAFKA_ERR_CONFIG, "enable.auto.commit=true needs a group.id");
        s->enable_auto_commit = false;
    }
    if (!s->group_id)
        return;
    if (is(f, "group.protocol", "classic")) {
        if (s->heartbeat_interval_ms < 1 || s->heartbeat_interval_ms >= s->session_timeout_ms)
            problem(f, CAFKA_ERR_CONFIG,
                    "heartbeat.interval.ms=%d must be between 0 and session.timeout.ms=%d",
                    (int)s->heartbeat_interval_ms, (int)s->session_timeout_ms);
        if (config_is_set(f->config, "group.remote.assignor"))
            problem(f, CAFKA_ERR_CONFIG, "group.remote.assignor needs group.protocol=consumer");
        return;
    }
    static const char *const of_classic[] = {"heartbeat.interval.ms", "session.timeout.ms",
                                             "partition.assignment.strategy"};
    for (size_t i = 0; i < sizeof of_classic / sizeof *of_classic; i++)
        if (config_is_set(f->config, of_classic[i]))
            problem(f, CAFKA_ERR_CONFIG, "%s cannot be set with group.protocol=consumer",
                    of_classic[i]);
}

static void fill_offset_reset(struct filling *f, struct consumer_settings *s)
{
    static const char *const policies[] = {"latest", "earliest", "none"};
    const char *text = text_of(f, "auto.offset.reset"), *colon = strchr(text, ':');
    s->offset_reset = (enum offset_reset)choice_of(f, "auto.offset.reset", policies, 3);
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
    s->fetch_min_bytes = int_of(f, "fetch.min.bytes");
    s->fetch_max_bytes = int_of(f, "fetch.max.bytes");
    s->fetch_max_wait_ms = int_of(f, "fetch.max.wait.ms");
    s->max_partition_fetch_bytes = int_of(f, "max.partition.fetch.bytes");
    s->fetch_buffer_memory_bytes = number_of(f, "fetch.buffer.memory");
    s->fetch_max_inflated_batch_bytes = int_of(f, "fetch.max.inflated.batch.bytes");
    s->max_poll_records = int_of(f, "max.poll.records");
    int64_t frame = (int64_t)s->fetch_max_bytes + FETCH_FRAME_EXTRA;
    if (s->client.receive_message_max_bytes >= frame)
        return;
    if (config_is_set(f->config, "receive.message.max.bytes"))
        problem(f, CAFKA_ERR_CONFIG,
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
    fill_servers(&f, &s->client, "bootstrap.servers");
    fill_client(&f, &s->client);
    s->client_rack = copy_of(&f, "client.rack");
    s->read_committed = is(&f, "isolation.level", "read_committed");
    s->check_crcs = truth_of(&f, "check.crcs");
    s->allow_auto_create_topics = truth_of(&f, "allow.auto.create.topics");
    s->exclude_internal_topics = truth_of(&f, "exclude.internal.topics");
    fill_offset_reset(&f, s);
    fill_fetch(&f, s);
    fill_group(&f, s);
    int rc = verdict(&f, err);
    if (rc)
        consumer_settings_fini(s);
    return rc;
}

void consumer_settings_fini(struct consumer_settings *s)
{
    client_settings_fini(&s->client);
    mem_free(s->group_id);
    mem_free(s->group_instance_id);
    mem_free(s->client_rack);
    memset(s, 0, sizeof *s);
}

/* ---- admin ---- */

int settings_for_admin(const cafka_config *config, struct admin_settings *out, cafka_error *err)
{
    struct filling f = {.config = config, .kind = CAFKA_FOR_ADMIN};
    struct admin_settings *s = out;
    memset(s, 0, sizeof *s);
    const char *controllers = text_of(&f, "bootstrap.controllers");
    s->bootstrap_controllers = controllers && *controllers;
    if (s->bootstrap_controllers && config_is_set(config, "bootstrap.servers"))
        problem(&f, CAFKA_ERR_CONFIG,
                "bootstrap.servers and bootstrap.controllers cannot both be set");
    if (s->bootstrap_controllers)
        problem(&f, CAFKA_ERR_UNSUPPORTED,
                "bootstrap.controllers is set, but asking controllers is not there yet");
    fill_servers(&f, &s->client,
                 s->bootstrap_controllers ? "bootstrap.controllers" : "bootstrap.servers");
    fill_client(&f, &s->client);
    s->retries = int_of(&f, "retries");
    int rc = verdict(&f, err);
    if (rc)
        admin_settings_fini(s);
    return rc;
}

void admin_settings_fini(struct admin_settings *s)
{
    client_settings_fini(&s->client);
    memset(s, 0, sizeof *s);
}
