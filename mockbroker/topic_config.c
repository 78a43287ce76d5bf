/*
 * topic_config.c - see topic_config.h.
 */
#include "mockbroker/topic_config.h"

#include <inttypes.h>
#include <stdio.h>

#include "mockbroker/broker_config.h"
#include "protocol/error_codes.h"
#include "record/compress.h"

#define THROTTLED "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
#define MS_PER_MINUTE 60000
#define MS_PER_HOUR 3600000

/* In order of name. */
const struct config_def topic_config_defs[] = {
    {"cleanup.policy", CONFIG_LIST, "delete", "[compact, delete]",
     .synonyms = {{"log.cleanup.policy", 0}},
     .doc = "What happens to old records: delete drops whole segments, compact keeps the newest "
            "record of each key, compact,delete does both."},
    {"compression.gzip.level", CONFIG_INT, "-1", "[1,...,9] or -1",
     .synonyms = {{"compression.gzip.level", 1}},
     .doc = "Level of gzip when the broker compresses; -1 is the codec's default."},
    {"compression.lz4.level", CONFIG_INT, "9", "[1,...,17]",
     .synonyms = {{"compression.lz4.level", 1}}, .doc = "Level of lz4 when the broker compresses."},
    {"compression.type", CONFIG_STRING, "producer",
     "[uncompressed, zstd, lz4, snappy, gzip, producer]", .synonyms = {{"compression.type", 0}},
     .doc = "Codec of the stored batches; producer keeps what the producer chose."},
    {"compression.zstd.level", CONFIG_INT, "3", "[-131072,...,22]",
     .synonyms = {{"compression.zstd.level", 1}}, .doc = "Level of zstd when the broker compresses."},
    {"delete.retention.ms", CONFIG_LONG, "86400000", "[0,...]",
     .synonyms = {{"log.cleaner.delete.retention.ms", 1}},
     .doc = "How long a tombstone of a compacted topic is kept after it was first cleaned."},
    {"file.delete.delay.ms", CONFIG_LONG, "60000", "[0,...]",
     .synonyms = {{"log.segment.delete.delay.ms", 1}},
     .doc = "How long the files of a deleted segment stay on the disk."},
    {"flush.messages", CONFIG_LONG, "9223372036854775807", "[1,...]",
     .synonyms = {{"log.flush.interval.messages", 1}},
     .doc = "Sync the log after this many records."},
    {"flush.ms", CONFIG_LONG, "9223372036854775807", "[0,...]",
     .synonyms = {{"log.flush.interval.ms", 1}, {"log.flush.scheduler.interval.ms", 1}},
     .doc = "Sync the log when a record has waited that long."},
    {"follower.replication.throttled.replicas", CONFIG_LIST, "", THROTTLED,
     .doc = "Replicas whose following is throttled: partition:broker pairs, or *."},
    {"index.interval.bytes", CONFIG_INT, "4096", "[0,...]",
     .synonyms = {{"log.index.interval.bytes", 1}},
     .doc = "Bytes of records between two entries of the offset index."},
    {"internal.segment.bytes", CONFIG_INT, NULL, .range = NULL, .internal = true,
     .doc = "Segment size without segment.bytes' lower limit, for tests."},
    {"leader.replication.throttled.replicas", CONFIG_LIST, "", THROTTLED,
     .doc = "Replicas whose leading is throttled: partition:broker pairs, or *."},
    {"local.retention.bytes", CONFIG_LONG, "-2", "[-2,...]",
     .synonyms = {{"log.local.retention.bytes", 1}},
     .doc = "Size of what stays local of a tiered partition; -2 is retention.bytes."},
    {"local.retention.ms", CONFIG_LONG, "-2", "[-2,...]", .synonyms = {{"log.local.retention.ms", 1}},
     .doc = "Age of what stays local of a tiered partition; -2 is retention.ms."},
    {"max.compaction.lag.ms", CONFIG_LONG, "9223372036854775807", "[1,...]",
     .synonyms = {{"log.cleaner.max.compaction.lag.ms", 1}},
     .doc = "A record is compacted at the latest after this time."},
    {"max.message.bytes", CONFIG_INT, "1048588", "[0,...]", .synonyms = {{"message.max.bytes", 1}},
     .doc = "The largest batch that is taken, with its 12 bytes of offset and length."},
    {"message.timestamp.after.max.ms", CONFIG_LONG, "3600000", "[0,...]",
     .synonyms = {{"log.message.timestamp.after.max.ms", 1}},
     .doc = "How far a record's timestamp may lie ahead of the broker's clock."},
    {"message.timestamp.before.max.ms", CONFIG_LONG, "9223372036854775807", "[0,...]",
     .synonyms = {{"log.message.timestamp.before.max.ms", 1}},
     .doc = "How far a record's timestamp may lie behind the broker's clock."},
    {"message.timestamp.type", CONFIG_STRING, "CreateTime", "[CreateTime, LogAppendTime]",
     .synonyms = {{"log.message.timestamp.type", 0}},
     .doc = "Whose time a record carries: the producer's or the broker's."},
    {"min.cleanable.dirty.ratio", CONFIG_DOUBLE, "0.5", "[0,...,1]",
     .synonyms = {{"log.cleaner.min.cleanable.ratio", 0}},
     .doc = "Compact when so much of the log was not compacted yet."},
    {"min.compaction.lag.ms", CONFIG_LONG, "0", "[0,...]",
     .synonyms = {{"log.cleaner.min.compaction.lag.ms", 1}},
     .doc = "A record is not compacted before this time."},
    {"min.insync.replicas", CONFIG_INT, "1", "[1,...]", .synonyms = {{"min.insync.replicas", 1}},
     .doc = "Replicas that must be in sync for acks=all to be taken."},
    {"preallocate", CONFIG_BOOLEAN, "false", .synonyms = {{"log.preallocate", 0}},
     .doc = "Reserve the disk space of a segment when it is made."},
    {"remote.log.copy.disable", CONFIG_BOOLEAN, "false", .range = NULL,
     .doc = "Tier no further segments."},
    {"remote.log.delete.on.disable", CONFIG_BOOLEAN, "false", .range = NULL,
     .doc = "Delete tiered segments when tiering is switched off."},
    {"remote.storage.enable", CONFIG_BOOLEAN, "false", .range = NULL,
     .doc = "Tiered storage for this topic."},
    {"retention.bytes", CONFIG_LONG, "-1", .synonyms = {{"log.retention.bytes", 1}},
     .doc = "Old segments go when the partition is larger than this; -1 is no limit."},
    {"retention.ms", CONFIG_LONG, "604800000", "[-1,...]",
     .synonyms = {{"log.retention.ms", 1},
                  {"log.retention.minutes", MS_PER_MINUTE},
                  {"log.retention.hours", MS_PER_HOUR}},
     .doc = "Segments go when their newest record is older than this; -1 is no limit."},
    {"segment.bytes", CONFIG_INT, "1073741824", "[1048576,...]",
     .synonyms = {{"log.segment.bytes", 1}}, .doc = "Size of a segment file."},
    {"segment.index.bytes", CONFIG_INT, "10485760", "[4,...]",
     .synonyms = {{"log.index.size.max.bytes", 1}}, .doc = "Size of a segment's indexes at most."},
    {"segment.jitter.ms", CONFIG_LONG, "0", "[0,...]",
     .synonyms = {{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", MS_PER_HOUR}},
     .doc = "Up to so much is taken off segment.ms at random."},
    {"segment.ms", CONFIG_LONG, "604800000", "[1,...]",
     .synonyms = {{"log.roll.ms", 1}, {"log.roll.hours", MS_PER_HOUR}},
     .doc = "A segment is closed after this time even if it is not full."},
    {"unclean.leader.election.enable", CONFIG_BOOLEAN, "false",
     .synonyms = {{"unclean.leader.election.enable", 0}},
     .doc = "May a replica that is not in sync become leader, at the price of lost records?"},
};
const size_t topic_config_def_count = sizeof topic_config_defs / sizeof *topic_config_defs;

const struct config_def *topic_config_find(struct str name)
{
    for (size_t i = 0; i < topic_config_def_count; i++)
        if (str_is(name, topic_config_defs[i].name))
            return &topic_config_defs[i];
    return NULL;
}

/* --- what they come to --- */

struct resolving {
    const struct broker_config *broker;
    const struct config_image *overrides;
};

static const char *text_of(const struct resolving *r, const char *name, int64_t *factor)
{
    enum config_source source;
    *factor = 1;
    const char *own = config_image_get(r->overrides, name);
    return own ? own : config_fallback(topic_config_find(str_of(name)), r->broker, &source, factor);
}

static int64_t number(const struct resolving *r, const char *name)
{
    int64_t factor, product;
    int64_t n = config_value_long(text_of(r, name, &factor));
    if (factor > 1 && n < 0)
        return -1; /* -1 hours is -1 ms: no limit */
    return __builtin_mul_overflow(n, factor ? factor : 1, &product) ? INT64_MAX : product;
}

static int32_t number32(const struct resolving *r, const char *name)
{
    return (int32_t)number(r, name);
}

static bool flag(const struct resolving *r, const char *name)
{
    int64_t factor;
    return config_value_bool(text_of(r, name, &factor));
}

static int codec_of(const char *text)
{
    static const struct {
        const char *name;
        int codec;
    } codecs[] = {{"uncompressed", CODEC_NONE},
                  {"gzip", CODEC_GZIP},
                  {"snappy", CODEC_SNAPPY},
                  {"lz4", CODEC_LZ4},
                  {"zstd", CODEC_ZSTD}};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++)
        if (config_value_has(text, codecs[i].name))
            return codecs[i].codec;
    return LOG_COMPRESSION_PRODUCER;
}

void topic_config_resolve(struct log_config *out, const struct broker_config *broker,
                          const struct config_image *overrides)
{
    struct resolving r = {broker, overrides};
    int64_t factor;
    log_config_init(out);
    const char *policy = text_of(&r, "cleanup.policy", &factor);
    out->cleanup_compact = config_value_has(policy, "compact");
    out->cleanup_delete = config_value_has(policy, "delete");
    out->log_append_time =
        config_value_has(text_of(&r, "message.timestamp.type", &factor), "LogAppendTime");
    out->preallocate = flag(&r, "preallocate");
    out->unclean_leader_election_enable = flag(&r, "unclean.leader.election.enable");
    out->remote_storage_enable = flag(&r, "remote.storage.enable");
    out->remote_log_copy_disable = flag(&r, "remote.log.copy.disable");
    out->remote_log_delete_on_disable = flag(&r, "remote.log.delete.on.disable");
    out->compression_type = codec_of(text_of(&r, "compression.type", &factor));
    out->compression_gzip_level = number32(&r, "compression.gzip.level");
    out->compression_lz4_level = number32(&r, "compression.lz4.level");
    out->compression_zstd_level = number32(&r, "compression.zstd.level");
    out->index_interval_bytes = number32(&r, "index.interval.bytes");
    out->max_message_bytes = number32(&r, "max.message.bytes");
    out->min_insync_replicas = number32(&r, "min.insync.replicas");
    out->segment_bytes = number32(&r, "segment.bytes");
    if (config_image_get(overrides, "internal.segment.bytes"))
        out->segment_bytes = number32(&r, "internal.segment.bytes");
    out->segment_index_bytes = number32(&r, "segment.index.bytes");
    out->min_cleanable_dirty_ratio =
        config_value_double(text_of(&r, "min.cleanable.dirty.ratio", &factor));
    out->delete_retention_ms = number(&r, "delete.retention.ms");
    out->file_delete_delay_ms = number(&r, "file.delete.delay.ms");
    out->flush_messages = number(&r, "flush.messages");
    out->flush_ms = number(&r, "flush.ms");
    out->local_retention_bytes = number(&r, "local.retention.bytes");
    out->local_retention_ms = number(&r, "local.retention.ms");
    out->min_compaction_lag_ms = number(&r, "min.compaction.lag.ms");
    out->max_compaction_lag_ms = number(&r, "max.compaction.lag.ms");
    out->message_timestamp_before_max_ms = number(&r, "message.timestamp.before.max.ms");
    out->message_timestamp_after_max_ms = number(&r, "message.timestamp.after.max.ms");
    out->retention_bytes = number(&r, "retention.bytes");
    out->retention_ms = number(&r, "retention.ms");
    out->segment_jitter_ms = number(&r, "segment.jitter.ms");
    out->segment_ms = number(&r, "segment.ms");
}

/* --- checks --- */

static const char *entry_value(const struct config_entry *entries, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(entries[i].name, name))
            return entries[i].value;
    return NULL;
}

static int64_t number_of(const struct broker_config *broker, const struct config_entry *entries,
                         size_t count, const char *name)
{
    const char *own = entry_value(entries, count, name);
    struct resolving r = {broker, NULL};
    return own ? config_value_long(own) : number(&r, name);
}

static int check_lags(const struct broker_config *broker, const struct config_entry *entries,
                      size_t count, cafka_error *err)
{
    int64_t low = number_of(broker, entries, count, "min.compaction.lag.ms");
    int64_t high = number_of(broker, entries, count, "max.compaction.lag.ms");
    if (low <= high)
        return CAFKA_OK;
    return error_set(err, ERR_INVALID_CONFIG,
                     "conflict topic config setting min.compaction.lag.ms (%" PRId64
                     ") > max.compaction.lag.ms (%" PRId64 ")",
                     low, high);
}

static int check_remote(const struct config_entry *entries, size_t count, cafka_error *err)
{
    if (!config_value_bool(entry_value(entries, count, "remote.storage.enable")))
        return CAFKA_OK;
    return error_set(err, ERR_INVALID_CONFIG,
                     "Tiered Storage functionality is disabled in the broker. Topic cannot be "
                     "configured with remote log storage.");
}

int topic_config_check(const struct broker_config *broker, const struct config_entry *entries,
                       size_t count, cafka_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (!entries[i].value)
            return error_set(err, ERR_INVALID_CONFIG,
                             "Null value not supported for topic configs: %s", entries[i].name);
    for (size_t i = 0; i < count; i++)
        if (!topic_config_find(str_of(entries[i].name)))
            return error_set(err, ERR_INVALID_CONFIG, "Unknown topic config name: %s",
                             entries[i].name);
    for (size_t i = 0; i < count; i++) {
        int rc =
            config_value_check(topic_config_find(str_of(entries[i].name)), entries[i].value, err);
        if (rc)
            return rc;
    }
    int rc = check_lags(broker, entries, count, err);
    return rc ? rc : check_remote(entries, count, err);
}

/* --- names --- */

enum { TOPIC_NAME_MAX = 249 };

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
}

int topic_name_check(struct str name, cafka_error *err)
{
    static const int code = ERR_INVALID_TOPIC_EXCEPTION;
    if (!name.size)
        return error_set(err, code, "Topic name is invalid: the empty string is not allowed");
    if (str_is(name, ".") || str_is(name, ".."))
        return error_set(err, code, "Topic name is invalid: '%.*s' is not allowed", STR_ARG(name));
    if (name.size > TOPIC_NAME_MAX)
        return error_set(err, code,
                         "Topic name is invalid: the length of '%.*s' is longer than the max "
                         "allowed length %d",
                         STR_ARG(name), TOPIC_NAME_MAX);
    for (size_t i = 0; i < name.size; i++)
        if (!is_name_char(name.data[i]))
            return error_set(err, code,
                             "Topic name is invalid: '%.*s' contains one or more characters other "
                             "than ASCII alphanumerics, '.', '_' and '-'",
                             STR_ARG(name));
    return CAFKA_OK;
}

bool topic_names_collide(struct str a, struct str b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++) {
        char x = a.data[i] == '.' ? '_' : a.data[i];
        char y = b.data[i] == '.' ? '_' : b.data[i];
        if (x != y)
            return false;
    }
    return true;
}

bool topic_is_internal(struct str name)
{
    return str_is(name, "__consumer_offsets") || str_is(name, "__transaction_state") ||
           str_is(name, "__share_group_state");
}
