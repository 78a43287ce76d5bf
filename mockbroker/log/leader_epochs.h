/*
 * leader_epochs.h - which leader epoch began at which offset of a log, kept in leader-epoch-checkpoint.
 *
 * Entries grow in both fields. The file is replaced whole whenever they change.
 *
 * Owner: a log. Thread: the broker's loop.
 */
#ifndef MOCKBROKER_LOG_LEADER_EPOCHS_H
#define MOCKBROKER_LOG_LEADER_EPOCHS_H

#include "mockbroker/log/log_internal.h"

struct leader_epochs {
    struct epoch_entry *entries;
    size_t count, capacity;
    bool changed; /* since the file was written */
};

void leader_epochs_fini(struct leader_epochs *epochs);
/* A missing or damaged file is an empty one: the batches know their epochs. */
int leader_epochs_load(struct leader_epochs *epochs, const cafka_env *env, const char *path,
                       struct log words, cafka_error *err);
/* Write the file if anything changed. */
int leader_epochs_save(struct leader_epochs *epochs, const cafka_env *env, const char *path,
                       cafka_error *err);

/* Epoch `epoch` begins at `offset`, unless that is known already. Later entries give way. */
int leader_epochs_assign(struct leader_epochs *epochs, int32_t epoch, int64_t offset,
                         cafka_error *err);
void leader_epochs_truncate_end(struct leader_epochs *epochs, int64_t offset);
void leader_epochs_truncate_start(struct leader_epochs *epochs, int64_t offset);
void leader_epochs_clear(struct leader_epochs *epochs);

int32_t leader_epochs_latest(const struct leader_epochs *epochs); /* -1: none */
int32_t leader_epochs_of(const struct leader_epochs *epochs, int64_t offset);
/* OffsetForLeaderEpoch. */
struct epoch_end leader_epochs_end(const struct leader_epochs *epochs, int32_t epoch,
                                   int64_t log_end_offset);

#endif
