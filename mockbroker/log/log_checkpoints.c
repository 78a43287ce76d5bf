/*
 * log_checkpoints.c - offsets of a log directory that are remembered over a restart: how far a log was
 * synced, where it begins, how far it was replicated.
 */
#include "mockbroker/log/log_manager_private.h"

#include <stdlib.h>

#include "util/alloc.h"

enum { CHECKPOINT_LIMIT = 64 << 20 };

static const struct {
    const char *name;
    size_t field;
} checkpoints[CHECKPOINTS] = {
    [RECOVERY_POINTS] = {"recovery-point-offset-checkpoint",
                         offsetof(struct remembered, recovery_point)},
    [START_OFFSETS] = {"log-start-offset-checkpoint", offsetof(struct remembered, start_offset)},
    [HIGH_WATERMARKS] = {"replication-offset-checkpoint",
                         offsetof(struct remembered, high_watermark)},
};

static struct remembered *remember(struct log_manager *manager, struct str topic, int32_t partition)
{
    char key[PARTITION_KEY_SIZE];
    size_t size = log_manager_key(topic.data, topic.size, partition, key);
    struct remembered *item = map_get(&manager->remembered, key, size);
    if (item)
        return item;
    item = mem_zalloc(sizeof *item);
    if (item && !map_put(&manager->remembered, key, size, item)) {
        mem_free(item);
        item = NULL;
    }
    return item;
}

static int read_checkpoint(struct log_manager *manager, enum checkpoint which, cafka_error *err)
{
    size_t field = checkpoints[which].field;
    char path[LOG_PATH_SIZE];
    log_join(manager->directory, checkpoints[which].name, path);
    cafka_file_info info;
    if (manager->env->path_info(manager->env, path, &info) < 0)
        return CAFKA_OK;
    char *text;
    size_t size, count = 0;
    struct offset_checkpoint_entry *entries = NULL;
    int rc = env_read_file(manager->env, path, CHECKPOINT_LIMIT, &text, &size, err);
    if (rc)
        return rc;
    cafka_error damage = {0};
    rc = offset_checkpoint_parse(bytes_of(text, size), &entries, &count, &damage);
    if (rc && rc != CAFKA_ERR_MEMORY) { /* as if nothing had been remembered */
        log_warn(manager->words, "%s: %s", path, damage.message);
        rc = CAFKA_OK;
        count = 0;
    }
    for (size_t i = 0; !rc && i < count; i++) {
        struct remembered *item = remember(manager, entries[i].topic, entries[i].partition);
        if (item)
            *(int64_t *)(void *)((char *)item + field) = entries[i].offset;
        else
            rc = CAFKA_ERR_MEMORY;
    }
    mem_free(entries);
    mem_free(text);
    return rc ? error_set(err, rc, "no memory for %s", path) : CAFKA_OK;
}

int log_checkpoints_read(struct log_manager *manager, cafka_error *err)
{
    int rc = CAFKA_OK;
    for (int which = 0; !rc && which < CHECKPOINTS; which++)
        rc = read_checkpoint(manager, which, err);
    return rc;
}

/* A broker at rest writes (and syncs) nothing. Takes the text over when it was written. */
static int replace_if_new(struct log_manager *manager, enum checkpoint which, struct buffer *text,
                          cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_join(manager->directory, checkpoints[which].name, path);
    if (text->failed)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %s", path);
    struct buffer *written = &manager->written[which];
    if (written->size == text->size && !memcmp(written->data, text->data, text->size))
        return CAFKA_OK;
    int rc = env_replace_file(manager->env, path, text->data, text->size, err);
    if (rc)
        return rc;
    buffer_fini(written);
    *written = *text;
    *text = (struct buffer){0};
    return CAFKA_OK;
}

/* All open logs, and those that were remembered but not opened (yet): they keep their line. */
static int write_checkpoint(struct log_manager *manager, enum checkpoint which,
                            int64_t (*value)(const struct commit_log *), cafka_error *err)
{
    const char *name = checkpoints[which].name;
    size_t field = checkpoints[which].field;
    size_t most = manager->logs.count + manager->remembered.count, count = 0;
    struct offset_checkpoint_entry *entries = most ? mem_calloc(most, sizeof *entries) : NULL;
    if (most && !entries)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for %s", name);
    const struct map_entry *e;
    for (size_t i = 0; (e = map_next(&manager->logs, &i));) {
        const struct open_log *open = e->value;
        int64_t offset = value(open->log);
        if (which != START_OFFSETS || offset > 0)
            /* room for all. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
            entries[count++] =
                (struct offset_checkpoint_entry){str_of(open->topic), open->partition, offset};
    }
    for (size_t i = 0; (e = map_next(&manager->remembered, &i));) {
        const char *space = strrchr(e->key, ' ');
        int64_t offset;
        memcpy(&offset, (const char *)e->value + field, sizeof offset);
        if (which != START_OFFSETS || offset > 0)
            /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
            entries[count++] = (struct offset_checkpoint_entry){{e->key, (size_t)(space - e->key)},
                                                                (int32_t)strtol(space + 1, NULL, 10),
                                                                offset};
    }
    struct buffer text = {0};
    offset_checkpoint_write(&text, entries, count);
    mem_free(entries);
    int rc = replace_if_new(manager, which, &text, err);
    buffer_fini(&text);
    return rc;
}

int log_checkpoints_write_high_watermarks(struct log_manager *manager, cafka_error *err)
{
    return write_checkpoint(manager, HIGH_WATERMARKS, commit_log_high_watermark, err);
}

int log_checkpoints_write(struct log_manager *manager, cafka_error *err)
{
    int rc = write_checkpoint(manager, RECOVERY_POINTS, commit_log_recovery_point, err);
    if (!rc)
        rc = write_checkpoint(manager, START_OFFSETS, commit_log_start_offset, err);
    return rc ? rc : log_checkpoints_write_high_watermarks(manager, err);
}

void log_checkpoints_forget_the_gone(struct log_manager *manager)
{
    const struct map_entry *e;
    for (size_t i = 0; (e = map_next(&manager->remembered, &i));) {
        const char *space = strrchr(e->key, ' ');
        if (!log_directory_holds(manager, e->key, (int)(space - e->key),
                                 (int32_t)strtol(space + 1, NULL, 10)))
            mem_free(map_remove(&manager->remembered, e->key, e->key_size));
    }
}
