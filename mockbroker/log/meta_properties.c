/*
 * meta_properties.c - see meta_properties.h.
 */
#include "mockbroker/log/meta_properties.h"

#include <stdio.h>
#include <stdlib.h>

#include "mockbroker/log/log_internal.h"
#include "util/alloc.h"
#include "util/rng.h"

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

/* 1 is what Kafka writes since KRaft; 0, or none, is of the time of ZooKeeper. */
static int check_version(const char *path, const char *text, int *version, cafka_error *err)
{
    char value[16];
    *version = 0;
    if (!find_property(text, "version", value, sizeof value) || !strcmp(value, "0"))
        return CAFKA_OK;
    if (strcmp(value, "1"))
        return error_set(err, CAFKA_ERR_CONFIG, "%s is of the unknown version %s", path, value);
    *version = 1;
    return CAFKA_OK;
}

static int check_node(const struct meta_properties *meta, const char *path, const char *text,
                      int version, cafka_error *err)
{
    char value[64], *end;
    const char *name = version ? "node.id" : "broker.id";
    if (!find_property(text, name, value, sizeof value))
        return error_set(err, CAFKA_ERR_CONFIG,
                         "no %s was found in %s: this is no log directory of Kafka, or the file is "
                         "damaged",
                         name, path);
    long id = strtol(value, &end, 10);
    if (end == value || *end)
        return error_set(err, CAFKA_ERR_CONFIG, "%s %s in %s is no number", name, value, path);
    if (id != meta->node_id)
        return error_set(err, CAFKA_ERR_CONFIG,
                         "stored node id %s doesn't match the node id %d in %s: the directory is "
                         "another broker's",
                         value, (int)meta->node_id, path);
    return CAFKA_OK;
}

static int check_cluster(struct meta_properties *meta, const char *path, const char *text,
                         const char *cluster_id, cafka_error *err)
{
    char value[64];
    if (!find_property(text, "cluster.id", value, sizeof value) || !*value)
        return error_set(err, CAFKA_ERR_CONFIG, "no cluster.id was found in %s", path);
    if (cluster_id && strcmp(value, cluster_id))
        return error_set(err, CAFKA_ERR_CONFIG, "invalid cluster.id in %s: expected %s, but read %s",
                         path, cluster_id, value);
    memcpy(meta->cluster_id, value, sizeof value);
    return CAFKA_OK;
}

static int check(struct meta_properties *meta, const char *path, const char *text,
                 const char *cluster_id, cafka_error *err)
{
    char value[64];
    int version;
    int rc = check_version(path, text, &version, err);
    if (!rc)
        rc = check_node(meta, path, text, version, err);
    if (!rc)
        rc = check_cluster(meta, path, text, cluster_id, err);
    if (!rc && find_property(text, "directory.id", value, sizeof value) &&
        !uuid_parse(value, strlen(value), &meta->directory_id))
        rc = error_set(err, CAFKA_ERR_CONFIG, "directory.id %s in %s is no uuid", value, path);
    return rc;
}

static int read_file(struct meta_properties *meta, const cafka_env *env, const char *path,
                     const char *cluster_id, cafka_error *err)
{
    enum { LIMIT = 1 << 16 };
    char *text;
    size_t size;
    int rc = env_read_file(env, path, LIMIT, &text, &size, err);
    if (rc)
        return rc;
    rc = check(meta, path, text, cluster_id, err);
    mem_free(text);
    return rc;
}

static int write_file(const struct meta_properties *meta, const cafka_env *env, const char *path,
                      cafka_error *err)
{
    char id[UUID_TEXT_SIZE];
    uuid_text(meta->directory_id, id);
    struct buffer text = {0};
    buffer_printf(&text, "#\ncluster.id=%s\ndirectory.id=%s\nnode.id=%d\nversion=1\n",
                  meta->cluster_id, id, (int)meta->node_id);
    int rc = text.failed ? error_set(err, CAFKA_ERR_MEMORY, "no memory for %s", path)
                         : env_replace_file(env, path, text.data, text.size, err);
    buffer_fini(&text);
    return rc;
}

int meta_properties_settle(struct meta_properties *meta, const cafka_env *env,
                           const char *directory, const char *cluster_id, cafka_error *err)
{
    char path[LOG_PATH_SIZE];
    log_join(directory, "meta.properties", path);
    cafka_file_info info;
    struct rng rng;
    meta->cluster_id[0] = 0;
    meta->directory_id = (struct uuid){{0}};
    if (env->path_info(env, path, &info) == 0) {
        int rc = read_file(meta, env, path, cluster_id, err);
        if (rc || !uuid_is_zero(meta->directory_id))
            return rc;
    }
    rng_seed(&rng, env->random(env));
    meta->directory_id = uuid_random(&rng);
    if (!meta->cluster_id[0] && cluster_id)
        snprintf(meta->cluster_id, sizeof meta->cluster_id, "%s", cluster_id);
    if (!meta->cluster_id[0])
        uuid_text(uuid_random(&rng), meta->cluster_id);
    return write_file(meta, env, path, err);
}
