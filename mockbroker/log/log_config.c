/*
 * log_config.c - see log_config.h.
 */
#include "mockbroker/log/log_config.h"

#include <limits.h>

static const int64_t DAY_MS = INT64_C(24) * 3600 * 1000;

void log_config_init(struct log_config *config)
{
    *config = (struct log_config){
        .cleanup_delete = true,
        .compression_type = LOG_COMPRESSION_PRODUCER,
        .compression_gzip_level = -1,
        .compression_lz4_level = 9,
        .compression_zstd_level = 3,
        .index_interval_bytes = 4096,
        .max_message_bytes = 1048588,
        .min_insync_replicas = 1,
        .segment_bytes = 1 << 30,
        .segment_index_bytes = 10 << 20,
        .min_cleanable_dirty_ratio = 0.5,
        .delete_retention_ms = DAY_MS,
        .file_delete_delay_ms = 60000,
        .flush_messages = INT64_MAX,
        .flush_ms = INT64_MAX,
        .local_retention_bytes = -2,
        .local_retention_ms = -2,
        .max_compaction_lag_ms = INT64_MAX,
        .message_timestamp_before_max_ms = INT64_MAX,
        .message_timestamp_after_max_ms = 3600000,
        .retention_bytes = -1,
        .retention_ms = 7 * DAY_MS,
        .segment_ms = 7 * DAY_MS,
    };
}
