/*
 * metadata_log.h - the controller's log: DIR/controller/00000000000000000000.log.
 *
 * Batches of metadata records in Kafka's format, one batch a commit, so that a commit is there
 * whole or not at all. What a crash left half-written is cut off when the log is opened.
 *
 * Owner:  the controller. Thread: the cluster's loop.
 */
#ifndef CAFKA_MOCKBROKER_METADATA_LOG_H
#define CAFKA_MOCKBROKER_METADATA_LOG_H

#include <stdbool.h>

#include "env/env.h"
#include "mockbroker/metadata/records.h"
#include "util/log.h"

struct metadata_log;

/* Called for every record of the log in turn, while it is opened. A result that is not 0 ends it. */
typedef int metadata_replay_fn(void *user, int64_t offset, struct bytes value, cafka_error *err);

/* sync: every commit is on the disk before it counts (a power loss does not take it back). */
int metadata_log_open(struct metadata_log **out, const cafka_env *env, const char *directory,
                      bool sync, struct log log, metadata_replay_fn *replay, void *user,
                      cafka_error *err);
/* Append the records as one batch. *first_offset gets the offset of the first. */
int metadata_log_append(struct metadata_log *log, const struct record_list *records,
                        int64_t *first_offset, cafka_error *err);
int64_t metadata_log_next_offset(const struct metadata_log *log);
void metadata_log_close(struct metadata_log *log); /* takes NULL */

#endif
