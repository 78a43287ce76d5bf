/*
 * offsets_message.h - the two questions of an offset look-up as messages: ListOffsets (by time or
 * place) and OffsetForLeaderEpoch (where does this epoch end?), asked and answered alike.
 *
 * Owner:  a request of offsets.c. Thread: the loop's.
 */
#ifndef CAFKA_CONSUMER_OFFSETS_MESSAGE_H
#define CAFKA_CONSUMER_OFFSETS_MESSAGE_H

#include "consumer/offsets.h"
#include "protocol/messages/ListOffsets.h"
#include "protocol/messages/OffsetForLeaderEpoch.h"

/* A request body; zeroed is empty. */
struct offset_body {
    union {
        struct list_offsets_request list;
        struct offset_for_leader_epoch_request epochs;
    } as;
    void *topics, *partitions; /* what it points to */
};

/* queries are sorted by topic; all of them are about epochs, or none. CAFKA_ERR_MEMORY. */
int offset_body_fill(struct offset_body *body, const struct offset_lookup *lookup,
                     struct offset_query *const *queries, size_t count, cafka_error *err);
void offset_body_fini(struct offset_body *body);

int offset_api_key(bool by_epoch);
/* Is the version new enough to mean what we ask? Else CAFKA_ERR_UNSUPPORTED. */
int offset_check_version(bool by_epoch, int version, cafka_error *err);

/* What an answer says about one partition. */
struct offset_result {
    struct str topic;
    int32_t partition;
    int error;
    int64_t offset, timestamp_ms;
    int32_t leader_epoch;
};
typedef void offset_result_fn(void *user, const struct offset_result *result);
int offset_answer_each(const struct reply *reply, bool by_epoch, offset_result_fn *fn, void *user,
                       cafka_error *err);

#endif
