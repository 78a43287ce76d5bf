/*
 * disk.c - the simulated disk: a tree of files, and what of it would survive a power loss.
 *
 * An inode has its content as everybody sees it, and a durable image with a list of the operations
 * that are not in it yet. A directory has its names twice in the same way. A sync, or time, moves
 * operations into the image; a power loss moves a random prefix of them and drops the rest. Bytes
 * written through a mapping are no operations: a sync compares pages, a loss keeps a prefix of them.
 */
#include "sim/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"

#define WRITE_BACK_NS (30000 * NS_PER_MS)     /* dirty pages, as the kernel's dirty_expire */
#define NAMES_WRITE_BACK_NS (5000 * NS_PER_MS) /* a journal's commit interval */

enum {
    PENDING_MAX = 4 * 1024 * 1024, /* bytes of a file that wait; the oldest are written back */
    PAGE = 4096
};
#define FILE_SIZE_MAX (INT64_C(1) << 40)

struct buffer {
    unsigned refs; /* its inode, and each mapping */
    size_t capacity;
    _Alignas(16) uint8_t bytes[]; /* zero behind what was written */
};

/* The bytes behind the buffer's capacity are zero. */
struct content {
    struct buffer *buffer;
    int64_t size;
};

enum op_kind { OP_WRITE, OP_TRUNCATE };

struct op {
    struct list link;
    int64_t at;
    enum op_kind kind;
    int64_t offset; /* or the new size */
    size_t size;
    uint8_t bytes[];
};

struct inode {
    unsigned refs;
    bool is_directory;
    int64_t mtime_ms;
    unsigned generation; /* files opened in an earlier one are dead */

    struct content now, durable;
    struct list ops; /* struct op, not in `durable` yet */
    size_t pending;
    int64_t charged; /* to the disk's capacity */
    unsigned mappings;
    bool mapped; /* since the last sync */
    const cafka_env_file *locked_by;

    struct map names, durable_names; /* of a directory: struct inode, a reference each */
    struct list name_ops;
};

struct name_op {
    struct list link;
    int64_t at;
    struct inode *inode; /* NULL: `to` was removed */
    struct inode *from_directory;
    char *from, *to; /* from NULL: `to` is new */
};

struct cafka_env_file {
    struct inode *inode;
    unsigned generation, flags;
    char *path;
};

struct failure {
    char *directory;
    unsigned kinds;
    int error;
    unsigned one_in;
};

struct disk {
    struct rng rng;
    struct inode *root;
    int64_t capacity, used;
    struct failure *failures;
    size_t failure_count;
};

/* --- content --- */

static void unref_buffer(struct buffer *buffer)
{
    if (buffer && !--buffer->refs)
        mem_free(buffer);
}

/* Make the buffer reach to `capacity`. One that is mapped can't move. */
static int reach(struct content *c, size_t capacity, bool exactly)
{
    struct buffer *old = c->buffer;
    if (old && old->capacity >= capacity)
        return 0;
    if (old && old->refs > 1)
        return -EFBIG;
    if (!exactly && old && capacity < old->capacity + old->capacity / 2)
        capacity = old->capacity + old->capacity / 2;
    struct buffer *fresh = mem_zalloc(sizeof *fresh + capacity);
    if (!fresh)
        return -ENOMEM;
    fresh->refs = 1;
    fresh->capacity = capacity;
    if (old)
        memcpy(fresh->bytes, old->bytes, old->capacity < (size_t)c->size ? old->capacity : (size_t)c->size);
    unref_buffer(old);
    c->buffer = fresh;
    return 0;
}

static int content_write(struct content *c, int64_t offset, const uint8_t *bytes, size_t size)
{
    int rc = size ? reach(c, (size_t)offset + size, false) : 0;
    if (rc)
        return rc;
    if (size)
        memcpy(c->buffer->bytes + offset, bytes, size);
    if (offset + (int64_t)size > c->size)
        c->size = offset + (int64_t)size;
    return 0;
}

/* Keep the first `size` bytes in a smaller buffer, if there is memory; clearing a large one would touch it all. */
static bool shrink(struct content *c, size_t size)
{
    struct buffer *fresh = size ? mem_zalloc(sizeof *fresh + size) : NULL;
    if (size && !fresh)
        return false;
    if (fresh) {
        fresh->refs = 1;
        fresh->capacity = size;
        memcpy(fresh->bytes, c->buffer->bytes, size);
    }
    unref_buffer(c->buffer);
    c->buffer = fresh;
    return true;
}

static void content_truncate(struct content *c, int64_t size)
{
    enum { MUCH = 64 * 1024 };
    struct buffer *buffer = c->buffer;
    if (buffer && size < c->size && (size_t)size < buffer->capacity) {
        size_t end = (size_t)c->size < buffer->capacity ? (size_t)c->size : buffer->capacity;
        bool much = buffer->refs == 1 && buffer->capacity - (size_t)size > MUCH;
        if (!much || !shrink(c, (size_t)size))
            memset(buffer->bytes + size, 0, end - (size_t)size);
    }
    c->size = size;
}

static void content_read(const struct content *c, int64_t offset, uint8_t *into, size_t size)
{
    size_t capacity = c->buffer ? c->buffer->capacity : 0;
    size_t there = (size_t)offset < capacity ? capacity - (size_t)offset : 0;
    if (there > size)
        there = size;
    if (there)
        memcpy(into, c->buffer->bytes + offset, there);
    memset(into + there, 0, size - there);
}

/* --- inodes --- */

static struct inode *new_inode(bool is_directory)
{
    struct inode *inode = mem_zalloc(sizeof *inode);
    if (!inode)
        return NULL;
    inode->refs = 1;
    inode->is_directory = is_directory;
    list_init(&inode->ops);
    list_init(&inode->name_ops);
    return inode;
}

static struct inode *ref_inode(struct inode *inode)
{
    inode->refs++;
    return inode;
}

static void unref_inode(struct disk *disk, struct inode *inode);
static void drop_name_ops(struct disk *disk, struct inode *directory);

static void free_op(struct inode *inode, struct op *op)
{
    list_remove(&op->link);
    inode->pending -= op->size;
    mem_free(op);
}

static void free_name_op(struct disk *disk, struct name_op *op)
{
    list_remove(&op->link);
    if (op->inode)
        unref_inode(disk, op->inode);
    if (op->from_directory)
        unref_inode(disk, op->from_directory);
    mem_free(op->from);
    mem_free(op->to);
    mem_free(op);
}

static void clear_names(struct disk *disk, struct map *names)
{
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(names, &i));)
        unref_inode(disk, e->value);
    map_fini(names);
}

static void unref_inode(struct disk *disk, struct inode *inode)
{
    if (!inode || --inode->refs)
        return;
    disk->used -= inode->charged;
    clear_names(disk, &inode->names);
    clear_names(disk, &inode->durable_names);
    struct list *link, *after;
    list_each(link, after, &inode->ops)
        free_op(inode, list_item(link, struct op, link));
    drop_name_ops(disk, inode);
    unref_buffer(inode->now.buffer);
    unref_buffer(inode->durable.buffer);
    mem_free(inode);
}

static void drop_name_ops(struct disk *disk, struct inode *directory)
{
    struct list *link, *after;
    list_each(link, after, &directory->name_ops)
        free_name_op(disk, list_item(link, struct name_op, link));
}

static bool set_name(struct disk *disk, struct map *names, const char *name, struct inode *inode)
{
    struct inode *old = map_get_str(names, name);
    if (!map_put_str(names, name, ref_inode(inode))) {
        inode->refs--;
        return false;
    }
    unref_inode(disk, old);
    return true;
}

static void remove_name(struct disk *disk, struct map *names, const char *name)
{
    unref_inode(disk, map_remove_str(names, name));
}

/* --- what is durable --- */

static int apply_op(struct inode *inode, struct op *op)
{
    int rc = 0;
    if (op->kind == OP_WRITE)
        rc = content_write(&inode->durable, op->offset, op->bytes, op->size);
    else
        content_truncate(&inode->durable, op->offset);
    if (!rc)
        free_op(inode, op);
    return rc;
}

static bool apply_name_op(struct disk *disk, struct inode *directory, struct name_op *op)
{
    struct inode *from = op->from_directory ? op->from_directory : directory;
    if (op->from && map_get_str(&from->durable_names, op->from) == op->inode)
        remove_name(disk, &from->durable_names, op->from);
    if (!op->inode)
        remove_name(disk, &directory->durable_names, op->to);
    else if (!set_name(disk, &directory->durable_names, op->to, op->inode))
        return false;
    free_name_op(disk, op);
    return true;
}

/* What the kernel has written back by itself. */
static void write_back(struct sim *sim, struct inode *inode)
{
    for (struct list *link; (link = list_first(&inode->ops));) {
        struct op *op = list_item(link, struct op, link);
        if (op->at + WRITE_BACK_NS > sim->now && inode->pending <= PENDING_MAX)
            break;
        if (apply_op(inode, op))
            break;
    }
    for (struct list *link; (link = list_first(&inode->name_ops));) {
        struct name_op *op = list_item(link, struct name_op, link);
        if (op->at + NAMES_WRITE_BACK_NS > sim->now || !apply_name_op(sim->disk, inode, op))
            break;
    }
}

static bool page_differs(const struct content *a, const struct content *b, int64_t offset, size_t size)
{
    uint8_t left[PAGE], right[PAGE];
    content_read(a, offset, left, size);
    content_read(b, offset, right, size);
    return memcmp(left, right, size) != 0;
}

/* Pages written through a mapping, the first `pages` of the file. */
static int write_back_mapped(struct inode *inode, int64_t pages)
{
    for (int64_t page = 0; page < pages && page * PAGE < inode->now.size; page++) {
        int64_t offset = page * PAGE;
        size_t size = inode->now.size - offset < PAGE ? (size_t)(inode->now.size - offset) : PAGE;
        uint8_t bytes[PAGE];
        if (!page_differs(&inode->now, &inode->durable, offset, size))
            continue;
        content_read(&inode->now, offset, bytes, size);
        int rc = content_write(&inode->durable, offset, bytes, size);
        if (rc)
            return rc;
    }
    return 0;
}

static int sync_inode(struct inode *inode)
{
    for (struct list *link; (link = list_first(&inode->ops));) {
        int rc = apply_op(inode, list_item(link, struct op, link));
        if (rc)
            return rc;
    }
    int rc = inode->mapped ? write_back_mapped(inode, INT64_MAX / PAGE) : 0;
    if (!rc)
        inode->mapped = inode->mappings > 0;
    return rc;
}

static int add_op(struct sim *sim, struct inode *inode, enum op_kind kind, int64_t offset,
                  const struct iovec *pieces, size_t size)
{
    struct op *op = mem_alloc(sizeof *op + size);
    if (!op)
        return -ENOMEM;
    *op = (struct op){.at = sim->now, .kind = kind, .offset = offset, .size = size};
    for (size_t done = 0; done < size; pieces++) {
        size_t part = pieces->iov_len < size - done ? pieces->iov_len : size - done;
        if (part)
            memcpy(op->bytes + done, pieces->iov_base, part);
        done += part;
    }
    list_push_back(&inode->ops, &op->link);
    inode->pending += size;
    return 0;
}

static int add_name_op(struct sim *sim, struct inode *directory, struct inode *inode,
                       struct inode *from_directory, const char *from, const char *to)
{
    struct name_op *op = mem_zalloc(sizeof *op);
    if (!op)
        return -ENOMEM;
    op->at = sim->now;
    op->from = mem_strdup(from);
    op->to = mem_strdup(to);
    if ((from && !op->from) || !op->to) {
        free_name_op(sim->disk, op);
        return -ENOMEM;
    }
    op->inode = inode ? ref_inode(inode) : NULL;
    op->from_directory = from_directory ? ref_inode(from_directory) : NULL;
    list_push_back(&directory->name_ops, &op->link);
    write_back(sim, directory);
    return 0;
}

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
static int find_parent(struct sim *sim, const char *path, struct inode **out, char name[256])
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

static int find(struct sim *sim, const char *path, struct inode **out)
{
    struct inode *directory;
    char name[256];
    int rc = find_parent(sim, path, &directory, name);
    if (rc)
        return rc;
    *out = name[0] ? map_get_str(&directory->names, name) : directory;
    return *out ? 0 : -ENOENT;
}

static int64_t wall_ms(const cafka_env *env)
{
    return env->wall_ms(env);
}

/* A new inode under a name, with what makes the name durable later. */
static int create(const cafka_env *env, struct inode *directory, const char *name, bool is_directory,
                  struct inode **out)
{
    struct sim *sim = sim_of(env);
    struct inode *inode = new_inode(is_directory);
    if (!inode)
        return -ENOMEM;
    inode->mtime_ms = wall_ms(env);
    int rc = set_name(sim->disk, &directory->names, name, inode) ? 0 : -ENOMEM;
    if (!rc)
        rc = add_name_op(sim, directory, inode, NULL, NULL, name);
    if (rc)
        remove_name(sim->disk, &directory->names, name);
    directory->mtime_ms = inode->mtime_ms;
    *out = inode;
    unref_inode(sim->disk, inode); /* the directory holds it now, if anybody does */
    return rc;
}

/* --- failures asked for --- */

static bool is_under(const char *path, const char *directory)
{
    char a[256], b[256];
    while (next_component(&directory, b) > 0)
        if (next_component(&path, a) <= 0 || strcmp(a, b) != 0)
            return false;
    return true;
}

static int asked_failure(struct sim *sim, const char *path, unsigned kind)
{
    struct disk *disk = sim->disk;
    for (size_t i = 0; i < disk->failure_count; i++) {
        const struct failure *f = &disk->failures[i];
        if (f->kinds & kind && is_under(path, f->directory) && rng_below(&disk->rng, f->one_in) == 0)
            return -f->error;
    }
    return 0;
}

/* Why an operation on an open file fails before it begins; 0: it does not. */
static int refusal(struct sim *sim, const cafka_env_file *file, unsigned kind)
{
    if (file->generation != file->inode->generation)
        return -EIO;
    if (kind == SIM_DISK_READ && !(file->flags & CAFKA_FILE_READ))
        return -EBADF;
    if (kind == SIM_DISK_WRITE && !(file->flags & CAFKA_FILE_WRITE))
        return -EBADF;
    return asked_failure(sim, file->path, kind);
}

/* --- files --- */

static void truncate_inode(struct sim *sim, struct inode *inode, int64_t size)
{
    content_truncate(&inode->now, size);
    if (inode->charged > size) {
        sim->disk->used -= inode->charged - size;
        inode->charged = size;
    }
}

static int open_inode(const cafka_env *env, const char *path, unsigned flags, struct inode **out)
{
    struct inode *directory, *inode;
    char name[256];
    int rc = find_parent(sim_of(env), path, &directory, name);
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
        rc = create(env, directory, name, false, &inode);
    *out = inode;
    return rc;
}

static int sim_file_open(const cafka_env *env, const char *path, unsigned flags, cafka_env_file **out)
{
    struct sim *sim = sim_of(env);
    cafka_env_file *file = mem_zalloc(sizeof *file);
    char *copy = mem_strdup(path);
    struct inode *inode = NULL;
    int rc = file && copy ? open_inode(env, path, flags, &inode) : -ENOMEM;
    if (!rc && flags & CAFKA_FILE_TRUNCATE && inode->now.size) {
        rc = add_op(sim, inode, OP_TRUNCATE, 0, NULL, 0);
        if (!rc)
            truncate_inode(sim, inode, 0);
    }
    if (rc) {
        mem_free(copy);
        mem_free(file);
        return rc;
    }
    *file = (cafka_env_file){.inode = ref_inode(inode), .generation = inode->generation, .flags = flags,
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
    unref_inode(sim_of(env)->disk, file->inode);
    mem_free(file->path);
    mem_free(file);
}

static ssize_t sim_file_read(const cafka_env *env, cafka_env_file *file, void *into, size_t size, int64_t offset)
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
    content_read(now, offset, into, size);
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

static ssize_t sim_file_write(const cafka_env *env, cafka_env_file *file, const struct iovec *pieces, int count,
                              int64_t offset)
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
    rc = add_op(sim, inode, OP_WRITE, offset, pieces, size);
    if (rc)
        return rc;
    struct op *op = list_item(list_last(&inode->ops), struct op, link);
    rc = content_write(&inode->now, offset, op->bytes, size);
    if (rc) {
        free_op(inode, op);
        return rc;
    }
    inode->mtime_ms = wall_ms(env);
    write_back(sim, inode);
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
        rc = add_op(sim, file->inode, OP_TRUNCATE, size, NULL, 0);
    if (rc)
        return rc;
    truncate_inode(sim, file->inode, size);
    file->inode->mtime_ms = wall_ms(env);
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
    return sync_inode(file->inode) ? -EIO : 0;
}

static void *sim_file_map(const cafka_env *env, cafka_env_file *file, size_t size)
{
    struct inode *inode = file->inode;
    if (!size || refusal(sim_of(env), file, 0) || reach(&inode->now, size, true))
        return NULL;
    inode->now.buffer->refs++;
    inode->mappings++;
    inode->mapped = true;
    return inode->now.buffer->bytes;
}

static void sim_file_unmap(const cafka_env *env, cafka_env_file *file, void *memory, size_t size)
{
    (void)env;
    (void)size;
    if (!memory)
        return;
    struct buffer *buffer = container_of(memory, struct buffer, bytes);
    if (buffer == file->inode->now.buffer)
        file->inode->mappings--;
    unref_buffer(buffer);
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

/* --- names --- */

static int sim_path_info(const cafka_env *env, const char *path, cafka_file_info *out)
{
    struct inode *inode;
    int rc = find(sim_of(env), path, &inode);
    if (rc)
        return rc;
    *out = (cafka_file_info){.size = inode->now.size, .mtime_ms = inode->mtime_ms,
                             .is_directory = inode->is_directory};
    return 0;
}

/* A name that was never durable and is moved away must not come back by itself. */
static void forget_pending_name(struct disk *disk, struct inode *directory, const char *name,
                                const struct inode *inode)
{
    struct list *link, *after;
    list_each(link, after, &directory->name_ops) {
        struct name_op *op = list_item(link, struct name_op, link);
        if (op->inode == inode && !strcmp(op->to, name))
            free_name_op(disk, op);
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
    int rc = find_parent(sim, from, &from_directory, from_name);
    if (!rc)
        rc = find_parent(sim, to, &to_directory, to_name);
    if (rc)
        return rc;
    struct inode *inode = from_name[0] ? map_get_str(&from_directory->names, from_name) : NULL;
    if (!inode)
        return -ENOENT;
    if (!to_name[0] || (inode->is_directory && is_under(to, from)))
        return to_name[0] && is_under(from, to) ? 0 : -EINVAL;
    struct inode *target = map_get_str(&to_directory->names, to_name);
    if (target == inode)
        return 0;
    rc = may_replace(inode, target);
    if (!rc)
        rc = asked_failure(sim, from, SIM_DISK_WRITE);
    if (rc)
        return rc;
    if (target)
        drop_name_ops(sim->disk, target);
    if (!set_name(sim->disk, &to_directory->names, to_name, inode))
        return -ENOMEM;
    remove_name(sim->disk, &from_directory->names, from_name);
    bool across = from_directory != to_directory;
    rc = add_name_op(sim, to_directory, inode, across ? from_directory : NULL, from_name, to_name);
    if (!rc && across)
        forget_pending_name(sim->disk, from_directory, from_name, inode);
    return rc;
}

static int sim_path_remove(const cafka_env *env, const char *path)
{
    struct sim *sim = sim_of(env);
    struct inode *directory;
    char name[256];
    int rc = find_parent(sim, path, &directory, name);
    if (rc)
        return rc;
    struct inode *inode = name[0] ? map_get_str(&directory->names, name) : NULL;
    if (!inode)
        return name[0] ? -ENOENT : -EBUSY;
    if (inode->is_directory && inode->names.count)
        return -ENOTEMPTY;
    rc = add_name_op(sim, directory, NULL, NULL, NULL, name);
    if (rc)
        return rc;
    drop_name_ops(sim->disk, inode); /* of a directory: none of them has happened, should it come back */
    remove_name(sim->disk, &directory->names, name);
    return 0;
}

static int sim_path_mkdir(const cafka_env *env, const char *path)
{
    struct inode *directory, *inode;
    char name[256];
    int rc = find_parent(sim_of(env), path, &directory, name);
    if (rc)
        return rc;
    if (!name[0] || map_get_str(&directory->names, name))
        return -EEXIST;
    return create(env, directory, name, true, &inode);
}

static int sim_path_sync(const cafka_env *env, const char *path)
{
    struct sim *sim = sim_of(env);
    struct inode *directory;
    int rc = find(sim, path, &directory);
    if (!rc && !directory->is_directory)
        rc = -ENOTDIR;
    if (!rc)
        rc = asked_failure(sim, path, SIM_DISK_SYNC);
    if (rc)
        return rc;
    sim->now += 1000 * rng_between(&sim->disk->rng, 20, 300);
    for (struct list *link; (link = list_first(&directory->name_ops));)
        if (!apply_name_op(sim->disk, directory, list_item(link, struct name_op, link)))
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
    int rc = find(sim_of(env), path, &directory);
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

/* --- what tests do to the disk --- */

/* Whoever has a file open here is gone. */
static void kill_users(struct inode *inode)
{
    inode->generation++;
    inode->locked_by = NULL;
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&inode->names, &i));)
        kill_users(e->value);
}

static void crash_file(struct sim *sim, struct inode *inode)
{
    struct rng *rng = &sim->disk->rng;
    write_back(sim, inode);
    uint64_t count = 0;
    for (struct list *link = inode->ops.next; link != &inode->ops; link = link->next)
        count++;
    uint64_t kept = rng_below(rng, count + 1);
    for (uint64_t i = 0; i < kept; i++)
        if (apply_op(inode, list_item(inode->ops.next, struct op, link)))
            break;
    struct list *torn = list_first(&inode->ops);
    if (torn && rng_below(rng, 2)) {
        struct op *op = list_item(torn, struct op, link);
        if (op->kind == OP_WRITE)
            (void)content_write(&inode->durable, op->offset, op->bytes, (size_t)rng_below(rng, op->size));
    }
    if (inode->mapped)
        (void)write_back_mapped(inode, rng_between(rng, 0, inode->now.size / PAGE + 1));
    struct list *link, *after;
    list_each(link, after, &inode->ops)
        free_op(inode, list_item(link, struct op, link));

    /* Mappings of the dead keep the old buffer. */
    unref_buffer(inode->now.buffer);
    inode->now = (struct content){.size = inode->durable.size};
    struct buffer *image = inode->durable.buffer;
    if (image)
        (void)content_write(&inode->now, 0, image->bytes,
                            image->capacity < (size_t)inode->durable.size ? image->capacity
                                                                          : (size_t)inode->durable.size);
    inode->now.size = inode->durable.size;
    inode->mappings = 0;
    inode->mapped = false;
    if (inode->charged > inode->now.size) {
        sim->disk->used -= inode->charged - inode->now.size;
        inode->charged = inode->now.size;
    }
}

static void crash_directory(struct sim *sim, struct inode *directory)
{
    struct disk *disk = sim->disk;
    write_back(sim, directory);
    uint64_t count = 0;
    for (struct list *link = directory->name_ops.next; link != &directory->name_ops; link = link->next)
        count++;
    uint64_t kept = rng_below(&disk->rng, count + 1);
    for (uint64_t i = 0; i < kept; i++)
        if (!apply_name_op(disk, directory, list_item(directory->name_ops.next, struct name_op, link)))
            break;
    drop_name_ops(disk, directory);

    clear_names(disk, &directory->names);
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&directory->durable_names, &i));) {
        struct inode *inode = e->value;
        (void)set_name(disk, &directory->names, e->key, inode);
        if (inode->is_directory)
            crash_directory(sim, inode);
        else
            crash_file(sim, inode);
    }
}

void sim_disk_crash(struct sim *sim, const char *path)
{
    struct inode *directory;
    if (find(sim, path, &directory) || !directory->is_directory)
        return;
    sim_trace(sim, sim->steps);
    kill_users(directory);
    crash_directory(sim, directory);
}

void sim_disk_kill(struct sim *sim, const char *path)
{
    struct inode *directory;
    if (!find(sim, path, &directory))
        kill_users(directory);
}

int sim_disk_fail(struct sim *sim, const char *directory, unsigned kinds, int error, unsigned one_in,
                  cafka_error *err)
{
    struct disk *disk = sim->disk;
    if (!one_in) {
        size_t kept = 0;
        for (size_t i = 0; i < disk->failure_count; i++) {
            struct failure *f = &disk->failures[i];
            if (is_under(f->directory, directory) && f->kinds & kinds)
                mem_free(f->directory);
            else
                disk->failures[kept++] = *f;
        }
        disk->failure_count = kept;
        return CAFKA_OK;
    }
    char *copy = mem_strdup(directory);
    struct failure *larger = mem_recalloc(disk->failures, disk->failure_count + 1, sizeof *larger);
    if (larger)
        disk->failures = larger;
    if (!copy || !larger) {
        mem_free(copy);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a rule of the simulated disk");
    }
    disk->failures[disk->failure_count++] = (struct failure){copy, kinds, error, one_in};
    return CAFKA_OK;
}

void sim_disk_capacity(struct sim *sim, int64_t bytes)
{
    sim->disk->capacity = bytes;
}

int64_t sim_disk_used(struct sim *sim)
{
    return sim->disk->used;
}

/* --- life --- */

int sim_disk_new(struct sim *sim)
{
    struct disk *disk = mem_zalloc(sizeof *disk);
    if (!disk)
        return -ENOMEM;
    sim->disk = disk;
    rng_fork(&disk->rng, &sim->rng);
    disk->root = new_inode(true);
    return disk->root ? 0 : -ENOMEM;
}

/* Names that wait refer to other directories; without them the tree has no cycles. */
static void drop_all_name_ops(struct disk *disk, struct inode *directory)
{
    drop_name_ops(disk, directory);
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
    unref_inode(disk, disk->root);
    for (size_t i = 0; i < disk->failure_count; i++)
        mem_free(disk->failures[i].directory);
    mem_free(disk->failures);
    mem_free(disk);
    sim->disk = NULL;
}

void sim_disk_env(cafka_env *env)
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
    env->path_info = sim_path_info;
    env->path_rename = sim_path_rename;
    env->path_remove = sim_path_remove;
    env->path_mkdir = sim_path_mkdir;
    env->path_sync = sim_path_sync;
    env->path_list = sim_path_list;
}
