/*
 * metadata_log.c - see metadata_log.h.
 */
#include "mockbroker/controller/metadata_log.h"

#include <errno.h>
#include <stdio.h>

#include "record/builder.h"
#include "record/open.h"
#include "util/alloc.h"

#define LOG_FILE_NAME "00000000000000000000.log"

enum { LEADER_EPOCH = 1 };
static const size_t log_size_max = (size_t)1 << 30;

struct metadata_log {
    const cafka_env *env;
    struct log log;
    cafka_env_file *file;
    char *path;
    bool sync;
    int64_t size;
    int64_t next_offset;
    struct buffer batch; /* kept for the next commit */
};

static int replay_batch(struct metadata_log *log, struct bytes bytes, metadata_replay_fn *replay,
                        void *user, cafka_error *err)
{
    struct batch_header header;
    struct record_iter it;
    struct record_view view;
    int rc = batch_header_read(bytes, &header, err);
    if (rc)
        return rc;
    if (batch_is_compressed(&header))
        return error_set(err, CAFKA_ERR_PROTOCOL, "%s holds a compressed batch", log->path);
    if (!batch_is_control(&header)) {
        rc = batch_open(bytes, &header, NULL, 0, NULL, &it, err);
        while (!rc && !(rc = record_iter_next(&it, &view, err)))
            rc = replay(user, view.offset, view.value, err);
        if (rc != CAFKA_END)
            return rc;
    }
    log->next_offset = batch_last_offset(&header) + 1;
    return CAFKA_OK;
}

/* Replay what is intact; *good gets its size. */
static int replay_all(struct metadata_log *log, struct bytes content, int64_t *good,
                      metadata_replay_fn *replay, void *user, cafka_error *err)
{
    struct bytes rest = content;
    struct batch_slice slice;
    cafka_error damage = {0};
    *good = 0;
    while (!batch_walk_next(&rest, &slice, &damage)) {
        if (batch_check(slice.bytes, &damage))
            break;
        int rc = replay_batch(log, slice.bytes, replay, user, err);
        if (rc)
            return rc;
        *good = slice.bytes.data + slice.bytes.size - content.data;
    }
    return CAFKA_OK;
}

static int read_log(struct metadata_log *log, metadata_replay_fn *replay, void *user,
                    cafka_error *err)
{
    char *content = NULL;
    size_t size = 0;
    cafka_file_info info;
    if (log->env->path_info(log->env, log->path, &info) == -ENOENT)
        return CAFKA_OK;
    int rc = env_read_file(log->env, log->path, log_size_max, &content, &size, err);
    if (!rc)
        rc = replay_all(log, bytes_of(content, size), &log->size, replay, user, err);
    if (!rc && (size_t)log->size < size)
        log_warn(log->log, "%s: %zu bytes behind the last whole batch are cut off", log->path,
                 size - (size_t)log->size);
    mem_free(content);
    return rc;
}

static int open_file(struct metadata_log *log, cafka_error *err)
{
    int rc = log->env->file_open(log->env, log->path,
                                 CAFKA_FILE_READ | CAFKA_FILE_WRITE | CAFKA_FILE_CREATE, &log->file);
    if (!rc && log->env->file_size(log->env, log->file) != log->size)
        rc = log->env->file_truncate(log->env, log->file, log->size);
    return rc < 0 ? error_errno(err, CAFKA_ERR_IO, -rc, "opening %s", log->path) : CAFKA_OK;
}

int metadata_log_open(struct metadata_log **out, const cafka_env *env, const char *directory,
                      bool sync, struct log logger, metadata_replay_fn *replay, void *user,
                      cafka_error *err)
{
    int rc = env_mkdirs(env, directory, err);
    if (rc)
        return rc;
    size_t path_size = strlen(directory) + sizeof "/" LOG_FILE_NAME;
    struct metadata_log *log = mem_zalloc(sizeof *log);
    char *path = mem_alloc(path_size);
    if (!log || !path) {
        mem_free(log);
        mem_free(path);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the metadata log");
    }
    snprintf(path, path_size, "%s/%s", directory, LOG_FILE_NAME);
    *log = (struct metadata_log){.env = env, .log = logger, .path = path, .sync = sync};
    rc = read_log(log, replay, user, err);
    if (!rc)
        rc = open_file(log, err);
    if (rc) {
        metadata_log_close(log);
        return rc;
    }
    *out = log;
    return CAFKA_OK;
}

static int build_batch(struct metadata_log *log, const struct record_list *records, cafka_error *err)
{
    struct record_data *data = mem_calloc(records->count, sizeof *data);
    if (!data)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a metadata batch");
    int64_t now = env_wall_ms(log->env);
    for (size_t i = 0; i < records->count; i++)
        data[i] = (struct record_data){.timestamp = now, .value = records->items[i]};
    struct batch_header header;
    batch_header_init(&header);
    header.base_offset = log->next_offset;
    header.leader_epoch = LEADER_EPOCH;
    header.base_timestamp = now;
    buffer_clear(&log->batch);
    int rc = batch_build(&header, data, records->count, NULL, &log->batch, err);
    mem_free(data);
    return rc;
}

/* All of it, or -errno. */
static int write_whole(struct metadata_log *log)
{
    size_t done = 0;
    while (done < log->batch.size) {
        struct iovec piece = {log->batch.data + done, log->batch.size - done};
        ssize_t n = log->env->file_write(log->env, log->file, &piece, 1, log->size + (int64_t)done);
        if (n <= 0)
            return n ? (int)n : -EIO;
        done += (size_t)n;
    }
    return log->sync ? log->env->file_sync(log->env, log->file) : 0;
}

int metadata_log_append(struct metadata_log *log, const struct record_list *records,
                        int64_t *first_offset, cafka_error *err)
{
    int rc = build_batch(log, records, err);
    if (rc)
        return rc;
    rc = write_whole(log);
    if (rc) {
        (void)log->env->file_truncate(log->env, log->file, log->size); /* as if it had not been */
        return error_errno(err, CAFKA_ERR_IO, -rc, "writing %s", log->path);
    }
    log->size += (int64_t)log->batch.size;
    *first_offset = log->next_offset;
    log->next_offset += (int64_t)records->count;
    return CAFKA_OK;
}

int64_t metadata_log_next_offset(const struct metadata_log *log)
{
    return log->next_offset;
}

void metadata_log_close(struct metadata_log *log)
{
    if (!log)
        return;
    if (log->file)
        log->env->file_close(log->env, log->file);
    buffer_fini(&log->batch);
    mem_free(log->path);
    mem_free(log);
}
