/*
 * txn_index.h - the aborted transactions of one segment, in order of their markers.
 *
 * The file is made with its first entry. Entries are read into memory when somebody asks.
 *
 * Owner: its segment. Thread: the broker's loop.
 */
#ifndef MOCKBROKER_LOG_TXN_INDEX_H
#define MOCKBROKER_LOG_TXN_INDEX_H

#include "mockbroker/log/log_internal.h"

struct txn_index {
    bool loaded;
    struct txn_index_entry *entries;
    size_t count, capacity;
};

void txn_index_fini(struct txn_index *index);
int txn_index_load(struct txn_index *index, const cafka_env *env, const char *path,
                   cafka_error *err);
/* Make room in memory and load, so that txn_index_add() can fail by the disk only. */
int txn_index_prepare(struct txn_index *index, const cafka_env *env, const char *path,
                      cafka_error *err);
int txn_index_add(struct txn_index *index, const cafka_env *env, const char *path,
                  const struct txn_index_entry *entry, cafka_error *err);
/* Drop entries whose marker is at or above `offset`; an empty file is removed. */
int txn_index_truncate(struct txn_index *index, const cafka_env *env, const char *path,
                       int64_t offset, cafka_error *err);
int txn_index_sync(struct txn_index *index, const cafka_env *env, const char *path,
                   cafka_error *err);

#endif
