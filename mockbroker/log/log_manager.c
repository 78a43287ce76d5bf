/*
 * log_manager.c - see log_manager.h.
 */
#include "mockbroker/log/log_manager.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mockbroker/log/log_internal.h"
#include "protocol/errors.h"
#include "util/alloc.h"
#include "util/list.h"
#include "util/map.h"
#include "util/rng.h"

static const char CLEAN_MARK[] = ".kafka_cleanshutdown";
static const char METADATA_TOPIC[] = "__cluster_metadata";

enum { CHECKPOINT_LIMIT = 64 << 20 };

/* What the checkpoints said of a partition at start. */
struct remembered {
    int64_t recovery_point, start_offset, high_watermark;
};

enum checkpoint { RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CHECKPOINTS };

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

struct open_log {
    struct commit_log *log;
    char *topic;
    int32_t partition;
};

/* A directory that waits for its removal. */
struct doomed_directory {
    struct list link;
    char *path;
    int64_t due_ms;
};

struct log_manager {
    const cafka_env *env;
    struct log words;
    struct log_shared *shared;
    char *directory;
    char cluster_id[64];
    struct uuid directory_id;
    int32_t broker_id;
    int64_t broker_epoch;
    struct log_file *lock;
    bool was_clean;

    struct found_partition *found;
    size_t found_count, found_capacity;
    struct map remembered; /* "topic partition" to struct remembered */
    struct map logs;       /* "topic partition" to struct open_log */
    struct list doomed;
    struct buffer written[CHECKPOINTS]; /* what the files hold since this start */

    struct loop *loop;
    struct timer timer;
    int64_t retention_interval_ms, checkpoint_interval_ms, high_watermark_interval_ms;
    int64_t next_retention_ms, next_checkpoint_ms, next_high_watermark_ms;
    struct rng rng;
};

enum { KEY_SIZE = 300 };

static size_t key_of(const char *topic, size_t topic_size, int32_t partition, char out[KEY_SIZE])
{
    int size = snprintf(out, KEY_SIZE, "%.*s %d", (int)topic_size, topic, partition);
    return size < KEY_SIZE ? (size_t)size : KEY_SIZE - 1;
}

/* --- names of directories --- */

/* "topic-3": the topic's length and 3; -1 if the name is not of this kind. */
static int32_t parse_directory_name(const char *name, size_t *topic_size)
{
    const char *dash = strrchr(name, '-');
    if (!dash || dash == name || !dash[1])
        return -1;
    int64_t partition = 0;
    for (const char *p = dash + 1; *p; p++) {
        if (*p < '0' || *p > '9' || partition > INT32_MAX / 10)
            return -1;
        partition = 10 * partition + (*p - '0');
    }
    *topic_size = (size_t)(dash - name);
    return (int32_t)partition;
}

static bool has_suffix(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);
    return length > tail && !strcmp(name + length - tail, suffix);
}

/* "topic-3.<32 hex digits>-delete", at most 255 bytes, for which a long topic is cut. */
static void set_aside_name(struct log_manager *manager, const char *topic, int32_t partition,
                           const char *suffix, char out[256])
{
    enum { NAME_MAX_BYTES = 255 };
    struct uuid id = uuid_random(&manager->rng);
    char hex[33], tail[64];
    to_hex(id.bytes, sizeof id.bytes, hex);
    int tail_size = snprintf(tail, sizeof tail, "-%d.%s-%s", partition, hex, suffix);
    int room = NAME_MAX_BYTES - tail_size;
    int topic_size = (int)strlen(topic) < room ? (int)strlen(topic) : room;
    snprintf(out, 256, "%.*s%s", topic_size, topic, tail);
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

/* --- meta.properties --- */

/* The value of `name` in lines "name=value"; false if it is not there. */
static bool find_property(const char *text, const char *name, char *out, size_t size)
{
    size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += !!line) {
        if (strncmp(line, name, length) || line[length] != '=')
            continue;
        const char *value = line + length + 1;
        size_t n = strcspn(value, "\r\n");
        if (n >= size)
            return false;
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) /* java.util.Properties escapes = and : */
            if (value[i] != '\\')
                out[kept++] = value[i];
        out[kept] = 0;
        return true;
    }
    return false;
}

static int check_meta(struct log_manager *manager, const char *text, const char *cluster_id,
                      cafka_error *err)
{
    char value[64];
    if ((find_property(text, "node.id", value, sizeof value) ||
         find_property(text, "broker.id", value, sizeof value)) &&
        strtol(value, NULL, 10) != manager->broker_id)
        return error_set(err, CAFKA_ERR_CONFIG, "%s belongs to broker %s, not to broker %d",
                         manager->directory, value, manager->broker_id);
    if (find_property(text, "cluster.id", value, sizeof value)) {
        if (cluster_id && strcmp(value, cluster_id))
            return error_set(err, CAFKA_ERR_CONFIG, "%s belongs to cluster %s, not to %s",
                             manager->directory, value, cluster_id);
        memcpy(manager->cluster_id, value, sizeof value);
    }
    if (find_property(text, "directory.id", value, sizeof value))
        (void)uuid_parse(value, strlen(value), &manager->directory_id); /* bad: a new one */
    return CAFKA_OK;
}

static int write_meta(struct log_manager *manager, const char *path, cafka_error *err)
{
    char id[UUID_TEXT_SIZE];
    uuid_text(manager->directory_id, id);
    struct buffer text = {0};
    buffer_printf(&text, "#\ncluster.id=%s\ndirectory.id=%s\nnode.id=%d\nversion=1\n",
                  manager->cluster_id, id, manager->broker_id);
    int rc = text.failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory for %s", path)
                         : env_replace_file(manager->env, path, text.data, text.size, err);
    buffer_fini(&text);
    return rc;
}

static int settle_meta(struct log_manager *manager, const char *cluster_id, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_join(manager->directory, "meta.properties", path);
    cafka_file_info info;
    bool there = manager->env->path_info(manager->env, path, &info) == 0;
    if (there) {
        enum { LIMIT = 1 << 16 };
        char *text;
        size_t size;
        int rc = env_read_file(manager->env, path, LIMIT, &text, &size, err);
        if (rc)
            return rc;
        rc = check_meta(manager, text, cluster_id, err);
        mem_free(text);
        if (rc)
            return rc;
    }
    bool complete = there && manager->cluster_id[0] && !uuid_is_zero(manager->directory_id);
    if (complete)
        return CAFKA_OK;
    if (!manager->cluster_id[0] && cluster_id)
        snprintf(manager->cluster_id, sizeof manager->cluster_id, "%s", cluster_id);
    if (!manager->cluster_id[0])
        uuid_text(uuid_random(&manager->rng), manager->cluster_id);
    if (uuid_is_zero(manager->directory_id))
        manager->directory_id = uuid_random(&manager->rng);
    return write_meta(manager, path, err);
}

/* --- checkpoints --- */

static struct remembered *remember(struct log_manager *manager, struct str topic, int32_t partition)
{
    char key[KEY_SIZE];
    size_t size = key_of(topic.data, topic.size, partition, key);
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

static int read_checkpoints(struct log_manager *manager, cafka_error *err)
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

static int write_high_watermarks(struct log_manager *manager, cafka_error *err)
{
    return write_checkpoint(manager, HIGH_WATERMARKS, commit_log_high_watermark, err);
}

int log_manager_checkpoint(struct log_manager *manager, cafka_error *err)
{
    int rc = write_checkpoint(manager, RECOVERY_POINTS, commit_log_recovery_point, err);
    if (!rc)
        rc = write_checkpoint(manager, START_OFFSETS, commit_log_start_offset, err);
    return rc ? rc : write_high_watermarks(manager, err);
}

/* --- open --- */

static int doom(struct log_manager *manager, const char *path, int64_t due_ms, cafka_error *err)
{
    struct doomed_directory *doomed = mem_zalloc(sizeof *doomed);
    if (doomed)
        doomed->path = mem_strdup(path);
    if (!doomed || !doomed->path) {
        mem_free(doomed);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to remove %s", path);
    }
    doomed->due_ms = due_ms;
    list_push_back(&manager->doomed, &doomed->link);
    return CAFKA_OK;
}

struct finding {
    struct log_manager *manager;
    cafka_error *err;
    int rc;
};

static int add_found(struct log_manager *manager, const char *name, size_t topic_size,
                     int32_t partition, cafka_error *err)
{
    if (manager->found_count == manager->found_capacity) {
        size_t capacity = manager->found_capacity ? 2 * manager->found_capacity : 16;
        struct found_partition *found = mem_recalloc(manager->found, capacity, sizeof *found);
        if (!found)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for %zu partitions", capacity);
        manager->found = found;
        manager->found_capacity = capacity;
    }
    char *topic = mem_strndup(name, topic_size);
    if (!topic)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the name of a topic");
    manager->found[manager->found_count++] = (struct found_partition){topic, partition, {{0}}};
    return CAFKA_OK;
}

static int look_at_entry(void *user, const char *name)
{
    struct finding *finding = user;
    struct log_manager *manager = finding->manager;
    char path[LOG_PATH_SIZE];
    log_join(manager->directory, name, path);
    cafka_file_info info;
    if (manager->env->path_info(manager->env, path, &info) < 0 || !info.is_directory)
        return 0;
    size_t topic_size;
    int32_t partition = parse_directory_name(name, &topic_size);
    if (has_suffix(name, "-delete") && strchr(name, '.'))
        finding->rc = doom(manager, path, 0, finding->err);
    else if (partition >= 0 && strncmp(name, METADATA_TOPIC, topic_size))
        finding->rc = add_found(manager, name, topic_size, partition, finding->err);
    return finding->rc;
}

static int read_topic_id(struct log_manager *manager, struct found_partition *found,
                         cafka_error *err)
{
    enum { LIMIT = 4096 };
    char path[LOG_PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s-%d/partition.metadata", manager->directory, found->topic,
             found->partition);
    cafka_file_info info;
    if (manager->env->path_info(manager->env, path, &info) < 0)
        return CAFKA_OK;
    char *text;
    size_t size;
    int rc = env_read_file(manager->env, path, LIMIT, &text, &size, err);
    if (rc)
        return rc;
    cafka_error damage = {0};
    if (partition_metadata_parse(bytes_of(text, size), &found->topic_id, &damage)) {
        found->topic_id = (struct uuid){{0}};
        log_warn(manager->words, "%s: %s", path, damage.message);
    }
    mem_free(text);
    return CAFKA_OK;
}

static int find_partitions(struct log_manager *manager, cafka_error *err)
{
    struct finding finding = {manager, err, CAFKA_OK};
    int rc = manager->env->path_list(manager->env, manager->directory, look_at_entry, &finding);
    if (finding.rc)
        return finding.rc;
    if (rc < 0)
        return log_io_error(err, rc, "listing", manager->directory);
    for (size_t i = 0; i < manager->found_count; i++)
        if ((rc = read_topic_id(manager, &manager->found[i], err)))
            return rc;
    return CAFKA_OK;
}

static bool is_there(const struct log_manager *manager, const char *topic, int topic_size,
                     int32_t partition)
{
    char path[LOG_PATH_SIZE];
    cafka_file_info info;
    snprintf(path, sizeof path, "%s/%.*s-%d", manager->directory, topic_size, topic, partition);
    return manager->env->path_info(manager->env, path, &info) == 0;
}

/* Lines of the checkpoints whose directory is gone mean nothing. */
static void forget_the_gone(struct log_manager *manager)
{
    const struct map_entry *e;
    for (size_t i = 0; (e = map_next(&manager->remembered, &i));) {
        const char *space = strrchr(e->key, ' ');
        if (!is_there(manager, e->key, (int)(space - e->key), (int32_t)strtol(space + 1, NULL, 10)))
            mem_free(map_remove(&manager->remembered, e->key, e->key_size));
    }
}

/* Was every log opened, and so repaired, that was found at start and is still there? */
static bool all_were_opened(const struct log_manager *manager)
{
    for (size_t i = 0; i < manager->found_count; i++) {
        const struct found_partition *found = &manager->found[i];
        if (!log_manager_find(manager, found->topic, found->partition) &&
            is_there(manager, found->topic, (int)strlen(found->topic), found->partition))
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
        rc = settle_meta(manager, options->cluster_id, err);
    if (!rc)
        rc = log_shared_new(&manager->shared, manager->env, manager->words, err);
    if (!rc)
        rc = take_clean_mark(manager, err);
    if (!rc)
        rc = read_checkpoints(manager, err);
    if (!rc)
        rc = find_partitions(manager, err);
    if (!rc)
        forget_the_gone(manager);
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
    manager->broker_id = options->broker_id;
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
    return manager->cluster_id;
}

const char *log_manager_directory(const struct log_manager *manager)
{
    return manager->directory;
}

struct uuid log_manager_directory_id(const struct log_manager *manager)
{
    return manager->directory_id;
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
    char key[KEY_SIZE];
    size_t key_size = key_of(topic, strlen(topic), partition, key);
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
    char key[KEY_SIZE];
    size_t key_size = key_of(topic, strlen(topic), partition, key);
    const struct open_log *open = map_get(&manager->logs, key, key_size);
    return open ? open->log : NULL;
}

struct commit_log *log_manager_next(const struct log_manager *manager, size_t *position)
{
    const struct map_entry *e = map_next(&manager->logs, position);
    return e ? ((const struct open_log *)e->value)->log : NULL;
}

static int rename_away(struct log_manager *manager, const char *topic, int32_t partition,
                       const char *suffix, char to[LOG_PATH_SIZE], cafka_error *err)
{
    char from[LOG_PATH_SIZE], name[256];
    snprintf(from, sizeof from, "%s/%s-%d", manager->directory, topic, partition);
    set_aside_name(manager, topic, partition, suffix, name);
    log_join(manager->directory, name, to);
    int rc = manager->env->path_rename(manager->env, from, to);
    return rc < 0 ? log_io_error(err, rc, "renaming", from) : CAFKA_OK;
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
    char path[LOG_PATH_SIZE];
    commit_log_free(log);
    int rc = rename_away(manager, open->topic, open->partition, "delete", path, err);
    if (!rc)
        rc = doom(manager, path, due_ms, err);
    mem_free(open->topic);
    mem_free(open);
    if (!rc && manager->loop && due_ms < manager->timer.deadline_ms)
        loop_timer_set(manager->loop, &manager->timer, due_ms);
    return rc;
}

int log_manager_set_aside(struct log_manager *manager, const struct found_partition *found,
                          cafka_error *err)
{
    char path[LOG_PATH_SIZE], key[KEY_SIZE];
    int rc = rename_away(manager, found->topic, found->partition, "stray", path, err);
    size_t key_size = key_of(found->topic, strlen(found->topic), found->partition, key);
    if (!rc)
        mem_free(map_remove(&manager->remembered, key, key_size));
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

static int64_t remove_directories(struct log_manager *manager, int64_t now_ms)
{
    int64_t next = INT64_MAX;
    struct list *link, *after;
    list_each(link, after, &manager->doomed)
    {
        struct doomed_directory *doomed = list_item(link, struct doomed_directory, link);
        if (doomed->due_ms > now_ms) {
            next = earlier(next, doomed->due_ms);
            continue;
        }
        cafka_error err = {0};
        if (env_remove_tree(manager->env, doomed->path, &err))
            log_warn(manager->words, "%s: %s", doomed->path, err.message);
        list_remove(link); /* what could not be removed goes at the next start */
        mem_free(doomed->path);
        mem_free(doomed);
    }
    return next;
}

static void checkpoint_when_due(struct log_manager *manager, int64_t now_ms)
{
    cafka_error err = {0};
    int rc = CAFKA_OK;
    if (now_ms >= manager->next_checkpoint_ms) {
        rc = log_manager_checkpoint(manager, &err);
        manager->next_checkpoint_ms = now_ms + manager->checkpoint_interval_ms;
        manager->next_high_watermark_ms = now_ms + manager->high_watermark_interval_ms;
    } else if (now_ms >= manager->next_high_watermark_ms) {
        rc = write_high_watermarks(manager, &err);
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
    next = earlier(next, remove_directories(manager, now_ms));
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
    int saved = log_manager_checkpoint(manager, rc ? NULL : err);
    if (!rc)
        rc = saved;
    if (!rc && trustworthy)
        rc = write_clean_mark(manager, err);
    log_manager_abandon(manager);
    return rc;
}
