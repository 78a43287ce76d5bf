/*
 * files.c - open files of the simulated disk.
 */
#include "sim/disk.h"

#include <errno.h>
#include <string.h>

#include "util/alloc.h"

/* Why an operation on an open file fails before it begins; 0: it does not. */
static int refusal(struct sim *sim, const cafka_env_file *file, unsigned kind)
{
    if (file->generation != file->inode->generation)
        return -EIO;
    if (kind == SIM_DISK_READ && !(file->flags & CAFKA_FILE_READ))
        return -EBADF;
    if (kind == SIM_DISK_WRITE && !(file->flags & CAFKA_FILE_WRITE))
        return -EBADF;
    return sim_asked_failure(sim, file->path, kind);
}

static void truncate_inode(struct sim *sim, struct inode *inode, int64_t size)
{
    sim_content_truncate(&inode->now, size);
    if (inode->charged > size) {
        sim->disk->used -= inode->charged - size;
        inode->charged = size;
    }
}

static int open_inode(const cafka_env *env, const char *path, unsigned flags, struct inode **out)
{
    struct inode *directory, *inode;
    char name[256];
    int rc = sim_find_parent(sim_of(env), path, &directory, name);
    if (rc)
        return rc;
    inode = name[0] ? map_get_str(&directory->names, name) : directory;
    if (inode && flags & CAFKA_FILE_EXCLUSIVE)
        return -EEXIST;
    if (!inode && !(flags & (CAFKA_FILE_CREATE | CAFKA_FILE_EXCLUSIVE)))
        return -ENOENT;
    if (inode && inode->is_directory)
        return -EISDIR;
    if (!inode)
        rc = sim_create(env, directory, name, false, &inode);
    *out = inode;
    return rc;
}

static int sim_file_open(const cafka_env *env, const char *path, unsigned flags,
                         cafka_env_file **out)
{
    struct sim *sim = sim_of(env);
    cafka_env_file *file = mem_zalloc(sizeof *file);
    char *copy = mem_strdup(path);
    struct inode *inode = NULL;
    int rc = file && copy ? open_inode(env, path, flags, &inode) : -ENOMEM;
    if (!rc && flags & CAFKA_FILE_TRUNCATE && inode->now.size) {
        rc = sim_add_op(sim, inode, OP_TRUNCATE, 0, NULL, 0);
        if (!rc)
            truncate_inode(sim, inode, 0);
    }
    if (rc) {
        mem_free(copy);
        mem_free(file);
        return rc;
    }
    *file = (cafka_env_file){.inode = sim_inode_ref(inode),
                             .generation = inode->generation,
                             .flags = flags,
                             .path = copy};
    *out = file;
    return 0;
}

static void sim_file_close(const cafka_env *env, cafka_env_file *file)
{
    if (!file)
        return;
    if (file->inode->locked_by == file)
        file->inode->locked_by = NULL;
    sim_inode_unref(sim_of(env)->disk, file->inode);
    mem_free(file->path);
    mem_free(file);
}

static ssize_t sim_file_read(const cafka_env *env, cafka_env_file *file, void *into, size_t size,
                             int64_t offset)
{
    int rc = refusal(sim_of(env), file, SIM_DISK_READ);
    if (rc)
        return rc;
    const struct content *now = &file->inode->now;
    if (offset < 0)
        return -EINVAL;
    if (offset >= now->size)
        return 0;
    if ((uint64_t)size > (uint64_t)(now->size - offset))
        size = (size_t)(now->size - offset);
    sim_content_read(now, offset, into, size);
    return (ssize_t)size;
}

/* How much of a write that ends at `end` the disk has room for; charges it. */
static int64_t charge(struct disk *disk, struct inode *inode, int64_t end)
{
    int64_t more = end > inode->charged ? end - inode->charged : 0;
    if (disk->capacity && more > disk->capacity - disk->used) {
        more = disk->capacity > disk->used ? disk->capacity - disk->used : 0;
        end = inode->charged + more;
    }
    inode->charged += more;
    disk->used += more;
    return end;
}

static ssize_t sim_file_write(const cafka_env *env, cafka_env_file *file,
                              const struct iovec *pieces, int count, int64_t offset)
{
    struct sim *sim = sim_of(env);
    struct inode *inode = file->inode;
    int rc = refusal(sim, file, SIM_DISK_WRITE);
    size_t size = 0;
    for (int i = 0; i < count; i++)
        size += pieces[i].iov_len;
    if (!rc && (offset < 0 || (uint64_t)size > (uint64_t)FILE_SIZE_MAX || offset > FILE_SIZE_MAX))
        rc = -EFBIG;
    if (rc || !size)
        return rc;
    int64_t end = charge(sim->disk, inode, offset + (int64_t)size);
    if (end <= offset)
        return -ENOSPC;
    size = (size_t)(end - offset);
    rc = sim_add_op(sim, inode, OP_WRITE, offset, pieces, size);
    if (rc)
        return rc;
    struct op *op = list_item(list_last(&inode->ops), struct op, link);
    rc = sim_content_write(&inode->now, offset, op->bytes, size);
    if (rc) {
        sim_op_free(inode, op);
        return rc;
    }
    inode->mtime_ms = env_wall_ms(env);
    sim_write_back(sim, inode);
    return (ssize_t)size;
}

static int64_t sim_file_size(const cafka_env *env, cafka_env_file *file)
{
    (void)env;
    return file->inode->now.size;
}

static int sim_file_truncate(const cafka_env *env, cafka_env_file *file, int64_t size)
{
    struct sim *sim = sim_of(env);
    int rc = refusal(sim, file, SIM_DISK_WRITE);
    if (!rc && (size < 0 || size > FILE_SIZE_MAX))
        rc = -EINVAL;
    if (!rc)
        rc = sim_add_op(sim, file->inode, OP_TRUNCATE, size, NULL, 0);
    if (rc)
        return rc;
    truncate_inode(sim, file->inode, size);
    file->inode->mtime_ms = env_wall_ms(env);
    return 0;
}

static int sim_file_allocate(const cafka_env *env, cafka_env_file *file, int64_t size)
{
    struct sim *sim = sim_of(env);
    int rc = refusal(sim, file, SIM_DISK_WRITE);
    if (rc)
        return rc;
    return charge(sim->disk, file->inode, size) < size ? -ENOSPC : 0;
}

/* Takes its time, as disks do. */
static int sim_file_sync(const cafka_env *env, cafka_env_file *file)
{
    struct sim *sim = sim_of(env);
    int rc = refusal(sim, file, SIM_DISK_SYNC);
    if (rc)
        return rc;
    sim->now += 1000 * rng_between(&sim->disk->rng, 20, 300);
    return sim_sync_inode(file->inode) ? -EIO : 0;
}

static void *sim_file_map(const cafka_env *env, cafka_env_file *file, size_t size)
{
    struct inode *inode = file->inode;
    if (!size || refusal(sim_of(env), file, 0) || sim_content_reach(&inode->now, size, true))
        return NULL;
    inode->now.block->refs++;
    inode->mappings++;
    inode->mapped = true;
    return inode->now.block->bytes;
}

static void sim_file_unmap(const cafka_env *env, cafka_env_file *file, void *memory, size_t size)
{
    (void)env;
    (void)size;
    if (!memory)
        return;
    struct block *block = container_of(memory, struct block, bytes);
    if (block == file->inode->now.block)
        file->inode->mappings--;
    sim_block_unref(block);
}

static int sim_file_lock(const cafka_env *env, cafka_env_file *file)
{
    int rc = refusal(sim_of(env), file, 0);
    if (rc)
        return rc;
    if (file->inode->locked_by && file->inode->locked_by != file)
        return -EWOULDBLOCK;
    file->inode->locked_by = file;
    return 0;
}

static int sim_file_set_mtime(const cafka_env *env, cafka_env_file *file, int64_t mtime_ms)
{
    int rc = refusal(sim_of(env), file, 0);
    if (!rc)
        file->inode->mtime_ms = mtime_ms;
    return rc;
}

void sim_files_env(cafka_env *env)
{
    env->file_open = sim_file_open;
    env->file_close = sim_file_close;
    env->file_read = sim_file_read;
    env->file_write = sim_file_write;
    env->file_size = sim_file_size;
    env->file_truncate = sim_file_truncate;
    env->file_allocate = sim_file_allocate;
    env->file_sync = sim_file_sync;
    env->file_map = sim_file_map;
    env->file_unmap = sim_file_unmap;
    env->file_lock = sim_file_lock;
    env->file_set_mtime = sim_file_set_mtime;
}
