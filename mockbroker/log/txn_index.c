/*
 * txn_index.c - see txn_index.h.
 */
#include "mockbroker/log/txn_index.h"

#include <errno.h>

#include "util/alloc.h"

void txn_index_fini(struct txn_index *index)
{
    mem_free(index->entries);
    *index = (struct txn_index){0};
}

/* A whole file into the entries. */
static int take_entries(struct txn_index *index, struct bytes file, cafka_error *err)
{
    size_t count;
    int rc = txn_index_check(file, &count, err);
    if (rc)
        return rc;
    if (count) {
        index->entries = mem_calloc(count, sizeof *index->entries);
        if (!index->entries)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu aborted transactions", count);
    }
    for (size_t i = 0; i < count; i++)
        index->entries[i] = txn_index_get(file.data, i);
    index->count = index->capacity = count;
    index->loaded = true;
    return CAFKA_OK;
}

int txn_index_load(struct txn_index *index, const cafka_env *env, const char *path, cafka_error *err)
{
    if (index->loaded)
        return CAFKA_OK;
    cafka_file_info info;
    int rc = env->path_info(env, path, &info);
    if (rc == -ENOENT || (rc == 0 && !info.size)) {
        index->loaded = true;
        return CAFKA_OK;
    }
    if (rc < 0)
        return log_io_error(err, rc, "looking at", path);
    enum { SIZE_MAX_BYTES = 1 << 30 };
    char *data;
    size_t size;
    rc = env_read_file(env, path, SIZE_MAX_BYTES, &data, &size, err);
    if (rc)
        return rc;
    rc = take_entries(index, bytes_of(data, size), err);
    mem_free(data);
    return rc;
}

int txn_index_prepare(struct txn_index *index, const cafka_env *env, const char *path,
                      cafka_error *err)
{
    int rc = txn_index_load(index, env, path, err);
    if (rc || index->count < index->capacity)
        return rc;
    size_t capacity = index->capacity ? 2 * index->capacity : 4;
    struct txn_index_entry *entries = mem_recalloc(index->entries, capacity, sizeof *index->entries);
    if (!entries)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu aborted transactions", capacity);
    index->entries = entries;
    index->capacity = capacity;
    return CAFKA_OK;
}

int txn_index_add(struct txn_index *index, const cafka_env *env, const char *path,
                  const struct txn_index_entry *entry, cafka_error *err)
{
    cafka_env_file *file;
    int rc =
        env->file_open(env, path, CAFKA_FILE_READ | CAFKA_FILE_WRITE | CAFKA_FILE_CREATE, &file);
    if (rc < 0)
        return log_io_error(err, rc, "opening", path);
    uint8_t bytes[TXN_INDEX_ENTRY_SIZE];
    txn_index_put(bytes, 0, entry);
    struct iovec piece = {bytes, sizeof bytes};
    rc = log_write_at(env, file, &piece, 1, (int64_t)(index->count * sizeof bytes), err);
    env->file_close(env, file);
    if (rc)
        return rc;
    index->entries[index->count++] = *entry;
    return CAFKA_OK;
}

int txn_index_truncate(struct txn_index *index, const cafka_env *env, const char *path,
                       int64_t offset, cafka_error *err)
{
    int rc = txn_index_load(index, env, path, err);
    if (rc == CAFKA_ERR_CORRUPT) {
        error_clear(err);
        index->count = 0; /* it is made anew by whoever truncates to the segment's beginning */
        index->loaded = true;
        return log_remove(env, path, err);
    }
    if (rc)
        return rc;
    size_t kept = index->count;
    while (kept && index->entries[kept - 1].last_offset >= offset)
        kept--;
    if (kept == index->count)
        return CAFKA_OK;
    index->count = kept;
    if (!kept)
        return log_remove(env, path, err);
    cafka_env_file *file;
    rc = env->file_open(env, path, CAFKA_FILE_READ | CAFKA_FILE_WRITE, &file);
    if (rc < 0)
        return log_io_error(err, rc, "opening", path);
    rc = env->file_truncate(env, file, (int64_t)(kept * TXN_INDEX_ENTRY_SIZE));
    env->file_close(env, file);
    return rc < 0 ? log_io_error(err, rc, "truncating", path) : CAFKA_OK;
}

int txn_index_sync(struct txn_index *index, const cafka_env *env, const char *path, cafka_error *err)
{
    if (!index->loaded || !index->count)
        return CAFKA_OK;
    cafka_env_file *file;
    int rc = env->file_open(env, path, CAFKA_FILE_READ | CAFKA_FILE_WRITE, &file);
    if (rc < 0)
        return log_io_error(err, rc, "opening", path);
    rc = env->file_sync(env, file);
    env->file_close(env, file);
    return rc < 0 ? log_io_error(err, rc, "syncing", path) : CAFKA_OK;
}
