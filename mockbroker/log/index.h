/*
 * index.h - offset index and time index of one segment: sorted entries in a mapped file.
 *
 * While its segment is active an index has its full size (segment.index.bytes, sparse on disk) and
 * is mapped, so that an entry is a store to memory. When the segment is rolled, or the log sealed,
 * the file is cut to its entries. The index of an older segment is mapped when it is first looked
 * into. An active index makes its file with its first entry, so that an idle partition costs
 * neither file nor address space.
 *
 * Owner:   its segment. Thread: the broker's loop.
 */
#ifndef MOCKBROKER_LOG_INDEX_H
#define MOCKBROKER_LOG_INDEX_H

#include "mockbroker/log/log_internal.h"

enum index_kind { INDEX_OFFSET, INDEX_TIME };

struct log_index {
    enum index_kind kind;
    bool loaded; /* count is known */
    bool active; /* takes entries */
    int64_t base_offset;
    size_t count;
    size_t capacity; /* entries that an active one may hold */
    cafka_env_file *handle;
    uint8_t *map; /* NULL: nothing mapped; the file is empty or not made yet */
    size_t map_size;
};

void index_init(struct log_index *index, enum index_kind kind, int64_t base_offset);
/* Close without changing the file; takes a zeroed one. */
void index_fini(struct log_index *index, const cafka_env *env);

/* Is the file there with a size and a last entry that can be? Nothing is mapped. CAFKA_ERR_CORRUPT if not. */
int index_sanity(const struct log_index *index, const cafka_env *env, const char *path,
                 cafka_error *err);
/* Map what is there, to look into it. */
int index_load(struct log_index *index, const cafka_env *env, const char *path, cafka_error *err);
/* Take entries from now on, behind those that are there, up to max_bytes in all. */
int index_activate(struct log_index *index, const cafka_env *env, const char *path,
                   int32_t max_bytes, cafka_error *err);
/* Forget every entry. */
int index_reset(struct log_index *index, const cafka_env *env, const char *path, cafka_error *err);
/* Keep the first `count` entries; zeros take the place of the others. */
void index_cut(struct log_index *index, size_t count);
/* Cut the file to the entries (made if need be), synced if asked; the index can still be looked into. */
int index_trim(struct log_index *index, const cafka_env *env, const char *path, bool sync,
               cafka_error *err);
int index_sync(struct log_index *index, const cafka_env *env, const char *path, cafka_error *err);

/* Offset indexes are full at the last entry, time indexes one before: the final entry needs it. */
bool index_is_full(const struct log_index *index);

/* Make the place for one more entry, so that the next index_add_…() cannot fail. */
int index_prepare(struct log_index *index, const cafka_env *env, const char *path, cafka_error *err);
void index_add_offset(struct log_index *index, int64_t offset, int64_t position);
/* Only if larger than the last entry's timestamp. */
void index_add_time(struct log_index *index, int64_t timestamp, int64_t offset);

/* The last entry; {-1, base} if there is none. */
struct time_index_entry index_last_time(const struct log_index *index);
struct offset_index_entry index_last_offset(const struct log_index *index);

#endif
