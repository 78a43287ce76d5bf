/*
 * index.c - see index.h.
 */
#include "mockbroker/log/index.h"

#include <errno.h>

#include "record/log_files.h"

static size_t entry_size(const struct log_index *index)
{
    return index->kind == INDEX_OFFSET ? OFFSET_INDEX_ENTRY_SIZE : TIME_INDEX_ENTRY_SIZE;
}

void index_init(struct log_index *index, enum index_kind kind, int64_t base_offset)
{
    *index = (struct log_index){.kind = kind, .base_offset = base_offset};
}

static void close_file(struct log_index *index, const cafka_env *env)
{
    if (index->map)
        env->file_unmap(env, index->handle, index->map, index->map_size);
    if (index->handle)
        env->file_close(env, index->handle);
    index->map = NULL;
    index->map_size = 0;
    index->handle = NULL;
}

void index_fini(struct log_index *index, const cafka_env *env)
{
    close_file(index, env);
    index->loaded = index->active = false;
    index->count = index->capacity = 0;
}

static int open_file(struct log_index *index, const cafka_env *env, const char *path,
                     unsigned flags, cafka_error *err)
{
    if (index->handle)
        return CAFKA_OK;
    int rc = env->file_open(env, path, CAFKA_FILE_READ | CAFKA_FILE_WRITE | flags, &index->handle);
    if (rc < 0) {
        index->handle = NULL;
        return log_io_error(err, rc, "opening", path);
    }
    return CAFKA_OK;
}

/* What a last entry must be to be believed without a look at the others. */
static bool last_is_sane(const struct log_index *index, const uint8_t *entry)
{
    if (index->kind == INDEX_OFFSET)
        return offset_index_get(entry, 0, 0).offset > 0; /* relative: above the base */
    struct time_index_entry last = time_index_get(entry, 0, 0);
    return last.offset >= 0 && last.timestamp >= 0;
}

int index_sanity(const struct log_index *index, const cafka_env *env, const char *path,
                 cafka_error *err)
{
    cafka_file_info info;
    int rc = env->path_info(env, path, &info);
    if (rc == -ENOENT)
        return error_set(err, CAFKA_ERR_CORRUPT, "%s is missing", path);
    if (rc < 0)
        return log_io_error(err, rc, "looking at", path);
    size_t size = entry_size(index);
    if (info.size % (int64_t)size)
        return error_set(err, CAFKA_ERR_CORRUPT, "the size of %s fits no whole number of entries",
                         path);
    if (!info.size)
        return CAFKA_OK;

    cafka_env_file *file;
    rc = env->file_open(env, path, CAFKA_FILE_READ, &file);
    if (rc < 0)
        return log_io_error(err, rc, "opening", path);
    uint8_t entry[TIME_INDEX_ENTRY_SIZE];
    size_t got;
    rc = log_read_at(env, file, entry, size, info.size - (int64_t)size, &got, err);
    env->file_close(env, file);
    if (!rc && (got != size || !last_is_sane(index, entry)))
        rc = error_set(err, CAFKA_ERR_CORRUPT, "the last entry of %s cannot be", path);
    return rc;
}

static int map_file(struct log_index *index, const cafka_env *env, const char *path, size_t size,
                    cafka_error *err)
{
    index->map = env->file_map(env, index->handle, size);
    if (!index->map)
        return error_set(err, CAFKA_ERR_IO, "mapping %zu bytes of %s failed", size, path);
    index->map_size = size;
    return CAFKA_OK;
}

int index_load(struct log_index *index, const cafka_env *env, const char *path, cafka_error *err)
{
    if (index->loaded)
        return CAFKA_OK;
    int rc = open_file(index, env, path, CAFKA_FILE_CREATE, err);
    if (rc)
        return rc;
    int64_t size = env->file_size(env, index->handle);
    if (size < 0)
        rc = log_io_error(err, (int)size, "looking at", path);
    else if (size > 0)
        rc = map_file(index, env, path, (size_t)size, err);
    if (!rc && index->map) {
        struct bytes file = bytes_of(index->map, (size_t)size);
        rc = index->kind == INDEX_OFFSET
                 ? offset_index_check(file, index->base_offset, &index->count, err)
                 : time_index_check(file, index->base_offset, &index->count, err);
    }
    if (rc) {
        index_fini(index, env);
        return rc;
    }
    index->loaded = true;
    return CAFKA_OK;
}

int index_activate(struct log_index *index, const cafka_env *env, const char *path,
                   int32_t max_bytes, cafka_error *err)
{
    size_t size = entry_size(index);
    if (!index->loaded) {
        cafka_file_info info;
        int rc = env->path_info(env, path, &info);
        if (rc < 0 && rc != -ENOENT)
            return log_io_error(err, rc, "looking at", path);
        if (rc == CAFKA_OK && info.size > 0)
            rc = index_load(index, env, path, err);
        else
            rc = CAFKA_OK;
        if (rc)
            return rc;
        index->loaded = true;
    }
    index->active = true;
    index->capacity = (size_t)max_bytes / size;
    if (index->capacity < index->count + 1)
        index->capacity = index->count + 1;
    return CAFKA_OK;
}

int index_prepare(struct log_index *index, const cafka_env *env, const char *path, cafka_error *err)
{
    size_t wanted = index->capacity * entry_size(index);
    if (index->map && index->map_size >= (index->count + 1) * entry_size(index) &&
        index->map_size >= wanted)
        return CAFKA_OK;
    int rc = open_file(index, env, path, CAFKA_FILE_CREATE, err);
    if (rc)
        return rc;
    if (index->map) {
        env->file_unmap(env, index->handle, index->map, index->map_size);
        index->map = NULL;
    }
    /* what a kill left behind the last entry must not be taken for entries later */
    size_t used = index->count * entry_size(index);
    rc = env->file_truncate(env, index->handle, (int64_t)used);
    if (rc >= 0)
        rc = env->file_truncate(env, index->handle, (int64_t)wanted);
    if (rc < 0)
        return log_io_error(err, rc, "enlarging", path);
    return map_file(index, env, path, wanted, err);
}

int index_reset(struct log_index *index, const cafka_env *env, const char *path, cafka_error *err)
{
    bool active = index->active;
    size_t capacity = index->capacity;
    index_fini(index, env);
    int rc =
        env->file_open(env, path,
                       CAFKA_FILE_READ | CAFKA_FILE_WRITE | CAFKA_FILE_CREATE | CAFKA_FILE_TRUNCATE,
                       &index->handle);
    if (rc < 0) {
        index->handle = NULL;
        return log_io_error(err, rc, "emptying", path);
    }
    index->loaded = true;
    index->active = active;
    index->capacity = capacity;
    return CAFKA_OK;
}

void index_cut(struct log_index *index, size_t count)
{
    if (count >= index->count)
        return;
    size_t size = entry_size(index);
    memset(index->map + count * size, 0, (index->count - count) * size);
    index->count = count;
}

int index_trim(struct log_index *index, const cafka_env *env, const char *path, bool sync,
               cafka_error *err)
{
    int rc = open_file(index, env, path, CAFKA_FILE_CREATE, err);
    if (rc)
        return rc;
    size_t used = index->count * entry_size(index);
    if (index->map) {
        env->file_unmap(env, index->handle, index->map, index->map_size);
        index->map = NULL;
        index->map_size = 0;
    }
    rc = env->file_truncate(env, index->handle, (int64_t)used);
    if (rc >= 0 && sync)
        rc = env->file_sync(env, index->handle);
    if (rc < 0)
        return log_io_error(err, rc, "trimming", path);
    index->active = false;
    index->capacity = 0;
    close_file(index, env);
    index->loaded = false; /* mapped again when somebody looks */
    index->count = 0;
    return CAFKA_OK;
}

int index_sync(struct log_index *index, const cafka_env *env, const char *path, cafka_error *err)
{
    if (index->active && !index->handle) /* no entry yet, no file */
        return CAFKA_OK;
    bool was_open = index->handle;
    int rc = open_file(index, env, path, 0, err);
    if (rc)
        return rc;
    rc = env->file_sync(env, index->handle);
    if (!was_open)
        close_file(index, env);
    return rc < 0 ? log_io_error(err, rc, "syncing", path) : CAFKA_OK;
}

bool index_is_full(const struct log_index *index)
{
    return index->count + (index->kind == INDEX_TIME) >= index->capacity;
}

void index_add_offset(struct log_index *index, int64_t offset, int64_t position)
{
    offset_index_put(index->map, index->count++, index->base_offset,
                     (struct offset_index_entry){offset, (int32_t)position});
}

void index_add_time(struct log_index *index, int64_t timestamp, int64_t offset)
{
    if (timestamp <= index_last_time(index).timestamp)
        return;
    time_index_put(index->map, index->count++, index->base_offset,
                   (struct time_index_entry){timestamp, offset});
}

struct time_index_entry index_last_time(const struct log_index *index)
{
    if (!index->count)
        return (struct time_index_entry){-1, index->base_offset};
    return time_index_get(index->map, index->count - 1, index->base_offset);
}

struct offset_index_entry index_last_offset(const struct log_index *index)
{
    if (!index->count)
        return (struct offset_index_entry){index->base_offset, 0};
    return offset_index_get(index->map, index->count - 1, index->base_offset);
}
