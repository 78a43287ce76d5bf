/*
 * log_manager.c - see log_manager.h.
 */
#include "mockbroker/log/log_manager_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "protocol/errors.h"
#include "util/alloc.h"

static const char CLEAN_MARK[] = ".kafka_cleanshutdown";

size_t log_manager_key(const char *topic, size_t topic_size, int32_t partition,
                       char out[PARTITION_KEY_SIZE])
{
    int size = snprintf(out, PARTITION_KEY_SIZE, "%.*s %d", (int)topic_size, topic, partition);
    return size < PARTITION_KEY_SIZE ? (size_t)size : PARTITION_KEY_SIZE - 1;
}

/* --- life --- */

static void free_logs(struct log_manager *manager)
{
    const struct map_entry *e;
    for (size_t i = 0; (e = map_next(&manager->logs, &i));) {
        struct open_log *open = e->value;
        commit_log_free(open->log);
        mem_free(open->topic);
        mem_free(open);
    }
    map_fini(&manager->logs);
    for (size_t i = 0; (e = map_next(&manager->remembered, &i));)
        mem_free(e->value);
    map_fini(&manager->remembered);
}

void log_manager_abandon(struct log_manager *manager)
{
    if (!manager)
        return;
    if (manager->loop)
        loop_timer_cancel(manager->loop, &manager->timer);
    free_logs(manager);
    struct list *link;
    while (manager->doomed.next && (link = list_pop_front(&manager->doomed))) {
        struct doomed_directory *doomed = list_item(link, struct doomed_directory, link);
        mem_free(doomed->path);
        mem_free(doomed);
    }
    for (size_t i = 0; i < manager->found_count; i++)
        mem_free((void *)(uintptr_t)manager->found[i].topic);
    mem_free(manager->found);
    for (int which = 0; which < CHECKPOINTS; which++)
        buffer_fini(&manager->written[which]);
    log_file_unref(manager->lock);
    log_shared_free(manager->shared);
    mem_free(manager->directory);
    mem_free(manager);
}

static int take_lock(struct log_manager *manager, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_join(manager->directory, ".lock", path);
    int rc = log_file_open(&manager->lock, manager->env, path,
                           CAFKA_FILE_READ | CAFKA_FILE_WRITE | CAFKA_FILE_CREATE, err);
    if (rc)
        return rc;
    rc = manager->env->file_lock(manager->env, manager->lock->handle);
    if (rc < 0)
        return error_errno(err, CAFKA_ERR_IO, -rc, "locking %s: does another broker use it?", path);
    return CAFKA_OK;
}

/* --- open --- */

/* Was every log opened, and so repaired, that was found at start and is still there? */
static bool all_were_opened(const struct log_manager *manager)
{
    for (size_t i = 0; i < manager->found_count; i++) {
        const struct found_partition *found = &manager->found[i];
        if (!log_manager_find(manager, found->topic, found->partition) &&
            log_directory_holds(manager, found->topic, (int)strlen(found->topic), found->partition))
            return false;
    }
    return true;
}

/* The mark says that the last stop was clean, once. */
static int take_clean_mark(struct log_manager *manager, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_join(manager->directory, CLEAN_MARK, path);
    cafka_file_info info;
    int rc = manager->env->path_info(manager->env, path, &info);
    if (rc == -ENOENT)
        return CAFKA_OK;
    if (rc < 0)
        return log_io_error(err, rc, "looking at", path);
    manager->was_clean = true;
    return CAFKA_OK;
}

/* Gone before the first change to a log, and durably so. */
static int drop_clean_mark(struct log_manager *manager, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_join(manager->directory, CLEAN_MARK, path);
    int rc = log_remove(manager->env, path, err);
    if (!rc && (rc = manager->env->path_sync(manager->env, manager->directory)) < 0)
        rc = log_io_error(err, rc, "syncing", manager->directory);
    return rc;
}

static int64_t or_default(int64_t value, int64_t standard)
{
    return value > 0 ? value : standard;
}

static int load(struct log_manager *manager, const struct log_manager_options *options,
                cafka_error *err)
{
    manager->directory = mem_strdup(options->directory);
    if (!manager->directory)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a log manager");
    enum { NAME_ROOM = 300 };
    if (strlen(manager->directory) > LOG_DIRECTORY_MAX - NAME_ROOM)
        return error_set(err, CAFKA_ERR_IO, "the path %s is too long", manager->directory);
    int rc = log_make_directory(manager->env, manager->directory, err);
    if (!rc)
        rc = take_lock(manager, err);
    if (!rc)
        rc = meta_properties_settle(&manager->meta, manager->env, manager->directory,
                                    options->cluster_id, err);
    if (!rc)
        rc = log_shared_new(&manager->shared, manager->env, manager->words, err);
    if (!rc)
        rc = take_clean_mark(manager, err);
    if (!rc)
        rc = log_checkpoints_read(manager, err);
    if (!rc)
        rc = log_directory_find_partitions(manager, err);
    if (!rc)
        log_checkpoints_forget_the_gone(manager);
    if (!rc && manager->was_clean)
        rc = drop_clean_mark(manager, err);
    return rc;
}

int log_manager_open(struct log_manager **out, const struct log_manager_options *options,
                     cafka_error *err)
{
    struct log_manager *manager = mem_zalloc(sizeof *manager);
    if (!manager)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a log manager");
    manager->env = options->env;
    manager->words = options->log;
    manager->meta.node_id = options->broker_id;
    manager->broker_epoch = options->broker_epoch;
    list_init(&manager->doomed);
    rng_seed(&manager->rng, options->env->random(options->env));
    int rc = load(manager, options, err);
    if (rc) {
        log_manager_abandon(manager);
        return rc;
    }
    manager->shared->producer_id_expiration_ms =
        or_default(options->producer_id_expiration_ms, 86400000);
    manager->shared->producer_id_expiration_check_interval_ms =
        or_default(options->producer_id_expiration_check_interval_ms, 600000);
    manager->retention_interval_ms = or_default(options->retention_check_interval_ms, 300000);
    manager->checkpoint_interval_ms =
        or_default(options->flush_offset_checkpoint_interval_ms, 60000);
    manager->high_watermark_interval_ms =
        or_default(options->high_watermark_checkpoint_interval_ms, 5000);
    int64_t now_ms = env_now_ms(manager->env);
    manager->next_retention_ms = now_ms + or_default(options->initial_task_delay_ms, 30000);
    manager->next_checkpoint_ms = now_ms + manager->checkpoint_interval_ms;
    manager->next_high_watermark_ms = now_ms + manager->high_watermark_interval_ms;
    *out = manager;
    return CAFKA_OK;
}

const char *log_manager_cluster_id(const struct log_manager *manager)
{
    return manager->meta.cluster_id;
}

const char *log_manager_directory(const struct log_manager *manager)
{
    return manager->directory;
}

struct uuid log_manager_directory_id(const struct log_manager *manager)
{
    return manager->meta.directory_id;
}

bool log_manager_was_clean(const struct log_manager *manager)
{
    return manager->was_clean;
}

size_t log_manager_found_count(const struct log_manager *manager)
{
    return manager->found_count;
}

const struct found_partition *log_manager_found(const struct log_manager *manager, size_t i)
{
    return &manager->found[i];
}

/* --- logs --- */

static int open_log(struct log_manager *manager, const char *key, size_t key_size,
                    struct open_log *open, struct uuid topic_id, const struct log_config *config,
                    cafka_error *err)
{
    static const struct remembered nothing;
    const struct remembered *before = map_get(&manager->remembered, key, key_size);
    if (!before)
        before = &nothing;
    char directory[LOG_PATH_SIZE];
    snprintf(directory, sizeof directory, "%s/%s-%d", manager->directory, open->topic,
             open->partition);
    struct commit_log_options options = {
        .shared = manager->shared,
        .directory = directory,
        .topic = open->topic,
        .partition = open->partition,
        .topic_id = topic_id,
        .config = config,
        .clean = manager->was_clean,
        .recovery_point = before->recovery_point,
        .log_start_offset = before->start_offset,
        .high_watermark = before->high_watermark,
    };
    int rc = commit_log_open(&open->log, &options, err);
    if (!rc && !map_put(&manager->logs, key, key_size, open))
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for the log of %s", directory);
    return rc;
}

int log_manager_open_log(struct log_manager *manager, const char *topic, int32_t partition,
                         struct uuid topic_id, const struct log_config *config,
                         struct commit_log **out, cafka_error *err)
{
    char key[PARTITION_KEY_SIZE];
    size_t key_size = log_manager_key(topic, strlen(topic), partition, key);
    struct open_log *open = map_get(&manager->logs, key, key_size);
    if (open) {
        if (!uuid_equal(topic_id, commit_log_topic_id(open->log)))
            return error_set(err, ERR_INCONSISTENT_TOPIC_ID, "%s-%d is open with another topic id",
                             topic, partition);
        *out = open->log;
        return CAFKA_OK;
    }
    open = mem_zalloc(sizeof *open);
    if (open)
        open->topic = mem_strdup(topic);
    if (!open || !open->topic) {
        mem_free(open);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the log of %s-%d", topic, partition);
    }
    open->partition = partition;
    int rc = open_log(manager, key, key_size, open, topic_id, config, err);
    if (rc) {
        commit_log_free(open->log);
        mem_free(open->topic);
        mem_free(open);
        return rc;
    }
    mem_free(map_remove(&manager->remembered, key, key_size));
    *out = open->log;
    return CAFKA_OK;
}

struct commit_log *log_manager_find(const struct log_manager *manager, const char *topic,
                                    int32_t partition)
{
    char key[PARTITION_KEY_SIZE];
    size_t key_size = log_manager_key(topic, strlen(topic), partition, key);
    const struct open_log *open = map_get(&manager->logs, key, key_size);
    return open ? open->log : NULL;
}

struct commit_log *log_manager_next(const struct log_manager *manager, size_t *position)
{
    const struct map_entry *e = map_next(&manager->logs, position);
    return e ? ((const struct open_log *)e->value)->log : NULL;
}

int log_manager_delete_log(struct log_manager *manager, struct commit_log *log, cafka_error *err)
{
    const struct map_entry *e;
    struct open_log *open = NULL;
    for (size_t i = 0; (e = map_next(&manager->logs, &i));)
        if (((struct open_log *)e->value)->log == log) {
            open = map_remove(&manager->logs, e->key, e->key_size);
            break;
        }
    if (!open)
        return error_set(err, CAFKA_ERR_STATE, "the log is not this manager's");
    int64_t due_ms = env_now_ms(manager->env) + commit_log_config(log)->file_delete_delay_ms;
    commit_log_free(log);
    int rc = log_directory_doom(manager, open->topic, open->partition, due_ms, err);
    mem_free(open->topic);
    mem_free(open);
    if (!rc && manager->loop && due_ms < manager->timer.deadline_ms)
        loop_timer_set(manager->loop, &manager->timer, due_ms);
    return rc;
}

/* --- time --- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void apply_retention(struct log_manager *manager)
{
    struct commit_log *log;
    for (size_t i = 0; (log = log_manager_next(manager, &i));) {
        size_t deleted;
        cafka_error err = {0};
        if (commit_log_apply_retention(log, &deleted, &err))
            log_error(manager->words, "retention of %s: %s", commit_log_directory(log), err.message);
        else if (deleted)
            log_info(manager->words, "%s: %zu segments deleted; it begins at %" PRId64,
                     commit_log_directory(log), deleted, commit_log_start_offset(log));
    }
}

static void checkpoint_when_due(struct log_manager *manager, int64_t now_ms)
{
    cafka_error err = {0};
    int rc = CAFKA_OK;
    if (now_ms >= manager->next_checkpoint_ms) {
        rc = log_checkpoints_write(manager, &err);
        manager->next_checkpoint_ms = now_ms + manager->checkpoint_interval_ms;
        manager->next_high_watermark_ms = now_ms + manager->high_watermark_interval_ms;
    } else if (now_ms >= manager->next_high_watermark_ms) {
        rc = log_checkpoints_write_high_watermarks(manager, &err);
        manager->next_high_watermark_ms = now_ms + manager->high_watermark_interval_ms;
    }
    if (rc)
        log_error(manager->words, "writing the checkpoints of %s: %s", manager->directory,
                  err.message);
}

int64_t log_manager_tick(struct log_manager *manager, int64_t now_ms)
{
    if (now_ms >= manager->next_retention_ms) {
        apply_retention(manager);
        manager->next_retention_ms = now_ms + manager->retention_interval_ms;
    }
    int64_t next = INT64_MAX;
    struct commit_log *log;
    for (size_t i = 0; (log = log_manager_next(manager, &i));)
        next = earlier(next, commit_log_tick(log, now_ms));
    next = earlier(next, log_directory_remove_doomed(manager, now_ms));
    checkpoint_when_due(manager, now_ms);
    next = earlier(next, manager->next_retention_ms);
    next = earlier(next, manager->next_checkpoint_ms);
    return earlier(next, manager->next_high_watermark_ms);
}

static void on_timer(struct timer *timer)
{
    struct log_manager *manager = container_of(timer, struct log_manager, timer);
    int64_t next = log_manager_tick(manager, loop_now_ms(manager->loop));
    loop_timer_set(manager->loop, timer, next);
}

void log_manager_start(struct log_manager *manager, struct loop *loop)
{
    manager->loop = loop;
    manager->timer.fire = on_timer;
    loop_timer_set(loop, &manager->timer, log_manager_tick(manager, loop_now_ms(loop)));
}

int log_manager_checkpoint(struct log_manager *manager, cafka_error *err)
{
    return log_checkpoints_write(manager, err);
}

/* --- clean stop --- */

static int write_clean_mark(struct log_manager *manager, cafka_error *err)
{
    char path[LOG_PATH_SIZE], text[64];
    log_join(manager->directory, CLEAN_MARK, path);
    int size = snprintf(text, sizeof text, "{\"version\":0,\"brokerEpoch\":%" PRId64 "}",
                        manager->broker_epoch);
    return env_replace_file(manager->env, path, text, (size_t)size, err);
}

int log_manager_close(struct log_manager *manager, cafka_error *err)
{
    int rc = CAFKA_OK;
    struct commit_log *log;
    for (size_t i = 0; (log = log_manager_next(manager, &i));) {
        int sealed = commit_log_seal(log, rc ? NULL : err);
        if (!rc)
            rc = sealed;
    }
    /* the next start must still know that a log which nobody opened was not repaired */
    bool trustworthy = manager->was_clean || all_were_opened(manager);
    int saved = log_checkpoints_write(manager, rc ? NULL : err);
    if (!rc)
        rc = saved;
    if (!rc && trustworthy)
        rc = write_clean_mark(manager, err);
    log_manager_abandon(manager);
    return rc;
}
