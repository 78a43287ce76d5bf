/*
 * log_file.c - counted files, pieces of them, and the small I/O helpers of the room.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mockbroker/log/log_internal.h"
#include "util/alloc.h"

int log_file_open(struct log_file **out, const cafka_env *env, const char *path, unsigned flags,
                  cafka_error *err)
{
    struct log_file *file = mem_zalloc(sizeof *file);
    if (!file)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the file %s", path);
    file->env = env;
    file->references = 1;
    int rc = env->file_open(env, path, flags, &file->handle);
    if (rc < 0) {
        mem_free(file);
        return log_io_error(err, rc, "opening", path);
    }
    *out = file;
    return CAFKA_OK;
}

struct log_file *log_file_ref(struct log_file *file)
{
    file->references++;
    return file;
}

void log_file_unref(struct log_file *file)
{
    if (!file || --file->references > 0)
        return;
    file->env->file_close(file->env, file->handle);
    mem_free(file);
}

void log_file_release(void *file)
{
    log_file_unref(file);
}

void log_slice_fini(struct log_slice *slice)
{
    log_file_unref(slice->file);
    *slice = (struct log_slice){0};
}

int log_slice_read(const struct log_slice *slice, uint8_t *out, cafka_error *err)
{
    if (!slice->size)
        return CAFKA_OK;
    size_t got;
    int rc = log_read_at(slice->file->env, slice->file->handle, out, slice->size, slice->position,
                         &got, err);
    if (!rc && got != slice->size)
        rc = error_set(err, CAFKA_ERR_IO, "the log file ends %zu bytes early", slice->size - got);
    return rc;
}

void log_join(const char *directory, const char *name, char out[LOG_PATH_SIZE])
{
    snprintf(out, LOG_PATH_SIZE, "%s/%s", directory, name);
}

void log_path(const char *directory, int64_t base_offset, const char *suffix,
              char out[LOG_PATH_SIZE])
{
    snprintf(out, LOG_PATH_SIZE, "%s/%020" PRId64 "%s", directory, base_offset, suffix);
}

int log_io_error(cafka_error *err, int negative_errno, const char *what, const char *path)
{
    int code = negative_errno == -ENOMEM ? CAFKA_ERR_MEMORY : CAFKA_ERR_IO;
    return error_errno(err, code, -negative_errno, "%s %s", what, path);
}

int log_read_at(const cafka_env *env, cafka_env_file *file, void *into, size_t size, int64_t offset,
                size_t *got, cafka_error *err)
{
    *got = 0;
    while (*got < size) {
        ssize_t n =
            env->file_read(env, file, (uint8_t *)into + *got, size - *got, offset + (int64_t)*got);
        if (n == -EINTR)
            continue;
        if (n < 0)
            return error_errno(err, CAFKA_ERR_IO, (int)-n, "reading a log file at %" PRId64, offset);
        if (!n)
            break;
        *got += (size_t)n;
    }
    return CAFKA_OK;
}

int log_write_at(const cafka_env *env, cafka_env_file *file, const struct iovec *pieces, int count,
                 int64_t offset, cafka_error *err)
{
    enum { PIECES_MAX = 4 };
    struct iovec left[PIECES_MAX];
    memcpy(left, pieces, (size_t)count * sizeof *pieces);
    struct iovec *first = left;
    while (count) {
        ssize_t n = env->file_write(env, file, first, count, offset);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return error_errno(err, CAFKA_ERR_IO, n ? (int)-n : ENOSPC,
                               "writing to a log file at %" PRId64, offset);
        offset += n;
        for (; count && (size_t)n >= first->iov_len; first++, count--)
            n -= (ssize_t)first->iov_len;
        if (count) {
            first->iov_base = (uint8_t *)first->iov_base + n;
            first->iov_len -= (size_t)n;
        }
    }
    return CAFKA_OK;
}

/* The directory that `path` is in, cut off in place; false at the root. */
static bool cut_name(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return false;
    *slash = 0;
    return true;
}

int log_make_directory(const cafka_env *env, const char *path, cafka_error *err)
{
    cafka_file_info info;
    char parent[LOG_PATH_SIZE];
    snprintf(parent, sizeof parent, "%s", path);
    int made = 0; /* how many names of the path are new */
    while (env->path_info(env, parent, &info) < 0 && cut_name(parent))
        made++;
    int rc = env_mkdirs(env, path, err);
    snprintf(parent, sizeof parent, "%s", path);
    for (; !rc && made && cut_name(parent); made--) {
        int synced = env->path_sync(env, parent);
        if (synced < 0)
            rc = log_io_error(err, synced, "syncing", parent);
    }
    return rc;
}

int log_remove(const cafka_env *env, const char *path, cafka_error *err)
{
    int rc = env->path_remove(env, path);
    return rc < 0 && rc != -ENOENT ? log_io_error(err, rc, "removing", path) : CAFKA_OK;
}

/* --- what the logs of one broker share --- */

int log_shared_new(struct log_shared **out, const cafka_env *env, struct log words, cafka_error *err)
{
    struct log_shared *shared = mem_zalloc(sizeof *shared);
    if (!shared)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the log tools of a broker");
    shared->env = env;
    shared->words = words;
    shared->producer_id_expiration_ms = 86400000;
    shared->producer_id_expiration_check_interval_ms = 600000;
    int rc = decompressor_new(&shared->decompressor, err);
    if (rc) {
        log_shared_free(shared);
        return rc;
    }
    *out = shared;
    return CAFKA_OK;
}

void log_shared_free(struct log_shared *shared)
{
    if (!shared)
        return;
    decompressor_free(shared->decompressor);
    for (int codec = 0; codec < CODEC_COUNT; codec++)
        compressor_free(shared->compressors[codec]);
    buffer_fini(&shared->inflated);
    buffer_fini(&shared->plain);
    buffer_fini(&shared->packed);
    mem_free(shared);
}

static void relax(struct buffer *buffer)
{
    enum { KEPT = 4 << 20 };
    if (buffer->capacity > KEPT)
        buffer_fini(buffer);
    buffer_clear(buffer);
}

void log_shared_relax(struct log_shared *shared)
{
    relax(&shared->inflated);
    relax(&shared->plain);
    relax(&shared->packed);
}
