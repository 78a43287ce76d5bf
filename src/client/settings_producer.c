/*
 * settings_producer.c - see settings.h: a producer's own.
 */
#include "client/fill.h"

#include <string.h>

#include "client/config.h"
#include "client/config_value.h"
#include "record/compress.h"
#include "util/alloc.h"
#include "util/bytes.h"

static void fill_compression(struct filling *f, struct producer_settings *s)
{
    static const char *const levels[CODEC_COUNT] = {[CODEC_GZIP] = "compression.gzip.level",
                                                    [CODEC_LZ4] = "compression.lz4.level",
                                                    [CODEC_ZSTD] = "compression.zstd.level"};
    s->compression = codec_find(str_of(fill_text(f, "compression.type")));
    s->compression_level = CODEC_LEVEL_DEFAULT;
    s->compression_threads = fill_int(f, "compression.threads");
    if (!codec_available(s->compression))
        fill_problem(f, CAFKA_ERR_UNSUPPORTED, "compression.type=%s: this build does not have it",
                     codec_name(s->compression));
    const char *name = levels[s->compression], *general = fill_text(f, "compression.level");
    if (!name)
        return;
    s->compression_level = fill_int(f, general ? "compression.level" : name);
    const struct property *row = property_find(name, NULL);
    if (general && !value_allowed(row, general))
        fill_problem(f, CAFKA_ERR_CONFIG, "compression.level=%s: %s takes %s", general,
                     codec_name(s->compression), row->range);
}

/*
 * Idempotence needs what it needs. Asked for by name it is an error to contradict it; being on only
 * by default it gives way, as in Java.
 */
static void fill_idempotence(struct filling *f, struct producer_settings *s)
{
    bool asked = config_is_set(f->config, "enable.idempotence");
    s->enable_idempotence = fill_truth(f, "enable.idempotence");
    if (!s->enable_idempotence && s->transactional_id)
        fill_problem(f, CAFKA_ERR_CONFIG, "transactional.id needs enable.idempotence=true");
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
            fill_problem(f, CAFKA_ERR_CONFIG, "%s needs %s",
                         asked ? "enable.idempotence=true" : "transactional.id", needs[i].need);
    }
}

static void fill_delivery_timeout(struct filling *f, struct producer_settings *s)
{
    int64_t least = s->client.request_timeout_ms + s->linger_ms;
    s->delivery_timeout_ms = fill_ms(f, "delivery.timeout.ms");
    if (s->delivery_timeout_ms >= least)
        return;
    if (config_is_set(f->config, "delivery.timeout.ms"))
        fill_problem(f, CAFKA_ERR_CONFIG,
                     "delivery.timeout.ms=%lld is below linger.ms + request.timeout.ms = %lld",
                     (long long)s->delivery_timeout_ms, (long long)least);
    s->delivery_timeout_ms = least;
}

static void fill_batches(struct filling *f, struct producer_settings *s)
{
    s->batch_size_bytes = fill_int(f, "batch.size");
    s->batch_max_size_bytes = fill_int(f, "batch.max.size");
    if (s->batch_size_bytes < 1)
        s->batch_size_bytes = 1; /* 0 asks for batches of one record */
    if (s->batch_max_size_bytes >= s->batch_size_bytes)
        return;
    if (config_is_set(f->config, "batch.max.size") && config_is_set(f->config, "batch.size"))
        fill_problem(f, CAFKA_ERR_CONFIG, "batch.max.size=%d is below batch.size=%d",
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
    fill_client(&f, &s->client, "bootstrap.servers");
    s->acks = fill_is(&f, "acks", "all") ? -1 : fill_is(&f, "acks", "1") ? 1 : 0;
    s->retries = fill_int(&f, "retries");
    s->max_in_flight = fill_int(&f, "max.in.flight.requests.per.connection");
    s->linger_ms = fill_ms(&f, "linger.ms");
    s->buffer_memory_bytes = fill_number(&f, "buffer.memory");
    s->max_block_ms = fill_ms(&f, "max.block.ms");
    s->max_request_size_bytes = fill_int(&f, "max.request.size");
    s->metadata_max_idle_ms = fill_ms(&f, "metadata.max.idle.ms");
    s->partitioner = (enum partitioner_kind)fill_choice(&f, "partitioner.class", partitioners, 8);
    s->partitioner_adaptive = fill_truth(&f, "partitioner.adaptive.partitioning.enable");
    s->partitioner_ignore_keys = fill_truth(&f, "partitioner.ignore.keys");
    s->partitioner_availability_timeout_ms = fill_ms(&f, "partitioner.availability.timeout.ms");
    s->transactional_id = fill_copy(&f, "transactional.id");
    s->transaction_timeout_ms = fill_int(&f, "transaction.timeout.ms");
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
        fill_problem(&f, CAFKA_ERR_UNSUPPORTED,
                     "transactional.id is set, but transactions are not there yet");
    int rc = fill_verdict(&f, err);
    if (rc)
        producer_settings_fini(s);
    return rc;
}

void producer_settings_fini(struct producer_settings *s)
{
    fill_client_fini(&s->client);
    mem_free(s->transactional_id);
    memset(s, 0, sizeof *s);
}
