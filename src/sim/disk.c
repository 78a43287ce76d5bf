/*
 * disk.c - see disk.h: paths, directories, and the life of the disk.
 */
#include "sim/disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"

/* --- paths --- */

/* The next component of a path into `name`; 0 at the end, -ENAMETOOLONG. Empty ones and "." are skipped. */
static int next_component(const char **path, char name[256])
{
    for (;;) {
        const char *p = *path;
        while (*p == '/')
            p++;
        size_t size = strcspn(p, "/");
        *path = p + size;
        if (!size)
            return 0;
        if (size >= 256)
            return -ENAMETOOLONG;
        if (size == 1 && *p == '.')
            continue;
        memcpy(name, p, size);
        name[size] = '\0';
        return 1;
    }
}

static bool is_last_component(const char *path)
{
    char name[256];
    return next_component(&path, name) == 0;
}

/* The directory that holds the path's last component, which goes to `name` ("" for the root). */
int sim_find_parent(struct sim *sim, const char *path, struct inode **out, char name[256])
{
    struct inode *directory = sim->disk->root;
    name[0] = '\0';
    int more;
    while ((more = next_component(&path, name)) > 0 && !is_last_component(path)) {
        directory = map_get_str(&directory->names, name);
        if (!directory)
            return -ENOENT;
        if (!directory->is_directory)
            return -ENOTDIR;
    }
    if (more < 0)
        return more;
    *out = directory;
    return 0;
}

int sim_find(struct sim *sim, const char *path, struct inode **out)
{
    struct inode *directory;
    char name[256];
    int rc = sim_find_parent(sim, path, &directory, name);
    if (rc)
        return rc;
    *out = name[0] ? map_get_str(&directory->names, name) : directory;
    return *out ? 0 : -ENOENT;
}

/* A new inode under a name, with what makes the name durable later. */
int sim_create(const cafka_env *env, struct inode *directory, const char *name, bool is_directory,
               struct inode **out)
{
    struct sim *sim = sim_of(env);
    struct inode *inode = sim_inode_new(is_directory);
    if (!inode)
        return -ENOMEM;
    inode->mtime_ms = env_wall_ms(env);
    int rc = sim_set_name(sim->disk, &directory->names, name, inode) ? 0 : -ENOMEM;
    if (!rc)
        rc = sim_add_name_op(sim, directory, inode, NULL, NULL, name);
    if (rc)
        sim_remove_name(sim->disk, &directory->names, name);
    directory->mtime_ms = inode->mtime_ms;
    *out = inode;
    sim_inode_unref(sim->disk, inode); /* the directory holds it now, if anybody does */
    return rc;
}

bool sim_is_under(const char *path, const char *directory)
{
    char a[256], b[256];
    while (next_component(&directory, b) > 0)
        if (next_component(&path, a) <= 0 || strcmp(a, b) != 0)
            return false;
    return true;
}

/* --- names --- */

static int sim_path_info(const cafka_env *env, const char *path, cafka_file_info *out)
{
    struct inode *inode;
    int rc = sim_find(sim_of(env), path, &inode);
    if (rc)
        return rc;
    *out = (cafka_file_info){.size = inode->now.size,
                             .mtime_ms = inode->mtime_ms,
                             .is_directory = inode->is_directory};
    return 0;
}

/* A name that was never durable and is moved away must not come back by itself. */
static void forget_pending_name(struct disk *disk, struct inode *directory, const char *name,
                                const struct inode *inode)
{
    struct list *link, *after;
    list_each(link, after, &directory->name_ops)
    {
        struct name_op *op = list_item(link, struct name_op, link);
        if (op->inode == inode && !strcmp(op->to, name))
            sim_name_op_free(disk, op);
    }
}

static int may_replace(const struct inode *inode, const struct inode *target)
{
    if (!target || target == inode)
        return 0;
    if (target->is_directory != inode->is_directory)
        return target->is_directory ? -EISDIR : -ENOTDIR;
    return target->is_directory && target->names.count ? -ENOTEMPTY : 0;
}

static int sim_path_rename(const cafka_env *env, const char *from, const char *to)
{
    struct sim *sim = sim_of(env);
    struct inode *from_directory, *to_directory;
    char from_name[256], to_name[256];
    int rc = sim_find_parent(sim, from, &from_directory, from_name);
    if (!rc)
        rc = sim_find_parent(sim, to, &to_directory, to_name);
    if (rc)
        return rc;
    struct inode *inode = from_name[0] ? map_get_str(&from_directory->names, from_name) : NULL;
    if (!inode)
        return -ENOENT;
    if (!to_name[0] || (inode->is_directory && sim_is_under(to, from)))
        return to_name[0] && sim_is_under(from, to) ? 0 : -EINVAL;
    struct inode *target = map_get_str(&to_directory->names, to_name);
    if (target == inode)
        return 0;
    rc = may_replace(inode, target);
    if (!rc)
        rc = sim_asked_failure(sim, from, SIM_DISK_WRITE);
    if (rc)
        return rc;
    if (target)
        sim_drop_name_ops(sim->disk, target);
    if (!sim_set_name(sim->disk, &to_directory->names, to_name, inode))
        return -ENOMEM;
    sim_remove_name(sim->disk, &from_directory->names, from_name);
    bool across = from_directory != to_directory;
    rc = sim_add_name_op(sim, to_directory, inode, across ? from_directory : NULL, from_name,
                         to_name);
    if (!rc && across)
        forget_pending_name(sim->disk, from_directory, from_name, inode);
    return rc;
}

static int sim_path_remove(const cafka_env *env, const char *path)
{
    struct sim *sim = sim_of(env);
    struct inode *directory;
    char name[256];
    int rc = sim_find_parent(sim, path, &directory, name);
    if (rc)
        return rc;
    struct inode *inode = name[0] ? map_get_str(&directory->names, name) : NULL;
    if (!inode)
        return name[0] ? -ENOENT : -EBUSY;
    if (inode->is_directory && inode->names.count)
        return -ENOTEMPTY;
    rc = sim_add_name_op(sim, directory, NULL, NULL, NULL, name);
    if (rc)
        return rc;
    sim_drop_name_ops(sim->disk,
                      inode); /* of a directory: none of them has happened, should it come back */
    sim_remove_name(sim->disk, &directory->names, name);
    return 0;
}

static int sim_path_mkdir(const cafka_env *env, const char *path)
{
    struct inode *directory, *inode;
    char name[256];
    int rc = sim_find_parent(sim_of(env), path, &directory, name);
    if (rc)
        return rc;
    if (!name[0] || map_get_str(&directory->names, name))
        return -EEXIST;
    return sim_create(env, directory, name, true, &inode);
}

static int sim_path_sync(const cafka_env *env, const char *path)
{
    struct sim *sim = sim_of(env);
    struct inode *directory;
    int rc = sim_find(sim, path, &directory);
    if (!rc && !directory->is_directory)
        rc = -ENOTDIR;
    if (!rc)
        rc = sim_asked_failure(sim, path, SIM_DISK_SYNC);
    if (rc)
        return rc;
    sim->now += 1000 * rng_between(&sim->disk->rng, 20, 300);
    for (struct list *link; (link = list_first(&directory->name_ops));)
        if (!sim_apply_name_op(sim->disk, directory, list_item(link, struct name_op, link)))
            return -EIO;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names are copied first: what is listed may be removed meanwhile. */
static int sim_path_list(const cafka_env *env, const char *path,
                         int (*each)(void *user, const char *name), void *user)
{
    struct inode *directory;
    int rc = sim_find(sim_of(env), path, &directory);
    if (!rc && !directory->is_directory)
        rc = -ENOTDIR;
    if (rc || !directory->names.count)
        return rc;
    size_t count = 0;
    char **names = mem_calloc(directory->names.count, sizeof *names);
    if (!names)
        return -ENOMEM;
    struct map_entry *e;
    for (size_t i = 0; !rc && (e = map_next(&directory->names, &i)); count++) {
        names[count] = mem_strdup(e->key);
        if (!names[count])
            rc = -ENOMEM;
    }
    if (!rc)
        qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count && !rc; i++)
        if (each(user, names[i]))
            break;
    for (size_t i = 0; i < count; i++)
        mem_free(names[i]);
    mem_free(names);
    return rc;
}

/* --- life --- */

int sim_disk_new(struct sim *sim)
{
    struct disk *disk = mem_zalloc(sizeof *disk);
    if (!disk)
        return -ENOMEM;
    sim->disk = disk;
    rng_fork(&disk->rng, &sim->rng);
    disk->root = sim_inode_new(true);
    return disk->root ? 0 : -ENOMEM;
}

/* Names that wait refer to other directories; without them the tree has no cycles. */
static void drop_all_name_ops(struct disk *disk, struct inode *directory)
{
    sim_drop_name_ops(disk, directory);
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&directory->names, &i));)
        drop_all_name_ops(disk, e->value);
    for (size_t i = 0; (e = map_next(&directory->durable_names, &i));)
        drop_all_name_ops(disk, e->value);
}

void sim_disk_free(struct sim *sim)
{
    struct disk *disk = sim->disk;
    if (!disk)
        return;
    if (disk->root)
        drop_all_name_ops(disk, disk->root);
    sim_inode_unref(disk, disk->root);
    for (size_t i = 0; i < disk->failure_count; i++)
        mem_free(disk->failures[i].directory);
    mem_free(disk->failures);
    mem_free(disk);
    sim->disk = NULL;
}

void sim_disk_env(cafka_env *env)
{
    sim_files_env(env);
    env->path_info = sim_path_info;
    env->path_rename = sim_path_rename;
    env->path_remove = sim_path_remove;
    env->path_mkdir = sim_path_mkdir;
    env->path_sync = sim_path_sync;
    env->path_list = sim_path_list;
}
