/*
 * log_directory.c - what lies in a log directory: partitions by the names of their directories, and
 * what is set aside or on its way out.
 */
#include "mockbroker/log/log_manager_private.h"

#include <stdio.h>

#include "util/alloc.h"

static const char METADATA_TOPIC[] = "__cluster_metadata";

/* --- names --- */

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

/* --- finding --- */

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

int log_directory_find_partitions(struct log_manager *manager, cafka_error *err)
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

bool log_directory_holds(const struct log_manager *manager, const char *topic, int topic_size,
                         int32_t partition)
{
    char path[LOG_PATH_SIZE];
    cafka_file_info info;
    snprintf(path, sizeof path, "%s/%.*s-%d", manager->directory, topic_size, topic, partition);
    return manager->env->path_info(manager->env, path, &info) == 0;
}

/* --- leaving --- */

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

int log_directory_doom(struct log_manager *manager, const char *topic, int32_t partition,
                       int64_t due_ms, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    int rc = rename_away(manager, topic, partition, "delete", path, err);
    return rc ? rc : doom(manager, path, due_ms, err);
}

int log_manager_set_aside(struct log_manager *manager, const struct found_partition *found,
                          cafka_error *err)
{
    char path[LOG_PATH_SIZE], key[PARTITION_KEY_SIZE];
    int rc = rename_away(manager, found->topic, found->partition, "stray", path, err);
    size_t key_size = log_manager_key(found->topic, strlen(found->topic), found->partition, key);
    if (!rc)
        mem_free(map_remove(&manager->remembered, key, key_size));
    return rc;
}

int64_t log_directory_remove_doomed(struct log_manager *manager, int64_t now_ms)
{
    int64_t next = INT64_MAX;
    struct list *link, *after;
    list_each(link, after, &manager->doomed)
    {
        struct doomed_directory *doomed = list_item(link, struct doomed_directory, link);
        if (doomed->due_ms > now_ms) {
            next = doomed->due_ms < next ? doomed->due_ms : next;
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
