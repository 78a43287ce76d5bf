/*
 * log_config.h - the topic configs as a log reads them: a plain struct with Kafka's defaults.
 *
 * Names, texts and checks of the values are in the broker's table of topic configs, which fills
 * this struct. A change reaches a log as a whole, by commit_log_set_config().
 *
 * Owner:  by value, a log; nothing to free.
 * Thread: the broker's loop.
 */
#ifndef MOCKBROKER_LOG_LOG_CONFIG_H
#define MOCKBROKER_LOG_LOG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

/* compression.type: `producer` keeps what came; otherwise an enum codec of record/compress.h
 * (`uncompressed` is CODEC_NONE). */
enum { LOG_COMPRESSION_PRODUCER = -1 };

struct log_config {
    bool cleanup_compact, cleanup_delete; /* cleanup.policy */
    bool log_append_time;                 /* message.timestamp.type=LogAppendTime */
    bool preallocate;
    bool unclean_leader_election_enable;
    bool remote_storage_enable, remote_log_copy_disable, remote_log_delete_on_disable;
    int compression_type;
    int compression_gzip_level, compression_lz4_level, compression_zstd_level;
    int32_t index_interval_bytes;
    int32_t max_message_bytes;
    int32_t min_insync_replicas;
    int32_t segment_bytes;
    int32_t segment_index_bytes;
    double min_cleanable_dirty_ratio;
    int64_t delete_retention_ms;
    int64_t file_delete_delay_ms;
    int64_t flush_messages;
    int64_t flush_ms;
    int64_t local_retention_bytes, local_retention_ms;
    int64_t min_compaction_lag_ms, max_compaction_lag_ms;
    int64_t message_timestamp_before_max_ms, message_timestamp_after_max_ms;
    int64_t retention_bytes, retention_ms; /* -1: no limit */
    int64_t segment_jitter_ms, segment_ms;
};

/* The defaults of 4.3.1. */
void log_config_init(struct log_config *config);

#endif
