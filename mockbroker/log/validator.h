/*
 * validator.h - what a leader makes of a batch that somebody wants appended.
 *
 * The checks are those of 4.3.1 in its order (broker-behaviour.md 1.2), with its accidents: the
 * records of a batch that stays compressed are looked at more loosely than plain ones. A batch
 * that passes becomes a plan: the 61 bytes of the header as they will be written, and the records,
 * which are the caller's bytes unless the topic's compression.type made new ones.
 *
 * Thread: the broker's loop (the shared tools are used).
 */
#ifndef MOCKBROKER_LOG_VALIDATOR_H
#define MOCKBROKER_LOG_VALIDATOR_H

#include "mockbroker/log/log_internal.h"
#include "record/batch.h"

struct append_plan {
    struct batch_header header; /* as it will be written */
    uint8_t head[RECORD_BATCH_OVERHEAD];
    struct bytes records; /* the request's, or in the shared buffers until the next validation */
    bool log_append_time;
};

struct validation {
    struct log_shared *shared;
    const struct log_config *config;
    const char *topic; /* for words */
    int32_t partition;
    int64_t next_offset;
    int64_t now_ms;
};

/*
 * Errors are the answer's codes, in err; result gets error_message, record_errors, and whether
 * LogStartOffset is shown (log_start_offset -1 or what it was).
 */
int validate_append(const struct validation *v, const struct append_request *request,
                    struct append_plan *plan, struct append_result *result, cafka_error *err);

#endif
