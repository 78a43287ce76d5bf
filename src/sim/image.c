/*
 * image.c - the content of files of the simulated disk, and how it becomes durable.
 */
#include "sim/disk.h"

#include <errno.h>
#include <string.h>

#include "util/alloc.h"

#define WRITE_BACK_NS (30000 * NS_PER_MS)      /* dirty pages, as the kernel's dirty_expire */
#define NAMES_WRITE_BACK_NS (5000 * NS_PER_MS) /* a journal's commit interval */

enum { PENDING_MAX = 4 * 1024 * 1024 }; /* bytes of a file that wait; the oldest are written back */

/* --- content --- */

void sim_block_unref(struct block *block)
{
    if (block && !--block->refs)
        mem_free(block);
}

/* Make the block reach to `capacity`. One that is mapped can't move. */
int sim_content_reach(struct content *c, size_t capacity, bool exactly)
{
    struct block *old = c->block;
    if (old && old->capacity >= capacity)
        return 0;
    if (old && old->refs > 1)
        return -EFBIG;
    if (!exactly && old && capacity < old->capacity + old->capacity / 2)
        capacity = old->capacity + old->capacity / 2;
    struct block *fresh = mem_zalloc(sizeof *fresh + capacity);
    if (!fresh)
        return -ENOMEM;
    fresh->refs = 1;
    fresh->capacity = capacity;
    if (old)
        memcpy(fresh->bytes, old->bytes,
               old->capacity < (size_t)c->size ? old->capacity : (size_t)c->size);
    sim_block_unref(old);
    c->block = fresh;
    return 0;
}

int sim_content_write(struct content *c, int64_t offset, const uint8_t *bytes, size_t size)
{
    int rc = size ? sim_content_reach(c, (size_t)offset + size, false) : 0;
    if (rc)
        return rc;
    if (size)
        memcpy(c->block->bytes + offset, bytes, size);
    if (offset + (int64_t)size > c->size)
        c->size = offset + (int64_t)size;
    return 0;
}

/* Keep the first `size` bytes in a smaller block, if there is memory; clearing a large one would touch it all. */
static bool shrink(struct content *c, size_t size)
{
    struct block *fresh = size ? mem_zalloc(sizeof *fresh + size) : NULL;
    if (size && !fresh)
        return false;
    if (fresh) {
        fresh->refs = 1;
        fresh->capacity = size;
        memcpy(fresh->bytes, c->block->bytes, size);
    }
    sim_block_unref(c->block);
    c->block = fresh;
    return true;
}

void sim_content_truncate(struct content *c, int64_t size)
{
    enum { MUCH = 64 * 1024 };
    struct block *block = c->block;
    if (block && size < c->size && (size_t)size < block->capacity) {
        size_t end = (size_t)c->size < block->capacity ? (size_t)c->size : block->capacity;
        bool much = block->refs == 1 && block->capacity - (size_t)size > MUCH;
        if (!much || !shrink(c, (size_t)size))
            memset(block->bytes + size, 0, end - (size_t)size);
    }
    c->size = size;
}

void sim_content_read(const struct content *c, int64_t offset, uint8_t *into, size_t size)
{
    size_t capacity = c->block ? c->block->capacity : 0;
    size_t there = (size_t)offset < capacity ? capacity - (size_t)offset : 0;
    if (there > size)
        there = size;
    if (there)
        memcpy(into, c->block->bytes + offset, there);
    memset(into + there, 0, size - there);
}

/* --- inodes --- */

struct inode *sim_inode_new(bool is_directory)
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

struct inode *sim_inode_ref(struct inode *inode)
{
    inode->refs++;
    return inode;
}

void sim_op_free(struct inode *inode, struct op *op)
{
    list_remove(&op->link);
    inode->pending -= op->size;
    mem_free(op);
}

void sim_name_op_free(struct disk *disk, struct name_op *op)
{
    list_remove(&op->link);
    if (op->inode)
        sim_inode_unref(disk, op->inode);
    if (op->from_directory)
        sim_inode_unref(disk, op->from_directory);
    mem_free(op->from);
    mem_free(op->to);
    mem_free(op);
}

void sim_clear_names(struct disk *disk, struct map *names)
{
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(names, &i));)
        sim_inode_unref(disk, e->value);
    map_fini(names);
}

void sim_inode_unref(struct disk *disk, struct inode *inode)
{
    if (!inode || --inode->refs)
        return;
    disk->used -= inode->charged;
    sim_clear_names(disk, &inode->names);
    sim_clear_names(disk, &inode->durable_names);
    struct list *link, *after;
    list_each(link, after, &inode->ops) sim_op_free(inode, list_item(link, struct op, link));
    sim_drop_name_ops(disk, inode);
    sim_block_unref(inode->now.block);
    sim_block_unref(inode->durable.block);
    mem_free(inode);
}

void sim_drop_name_ops(struct disk *disk, struct inode *directory)
{
    struct list *link, *after;
    list_each(link, after, &directory->name_ops)
        sim_name_op_free(disk, list_item(link, struct name_op, link));
}

bool sim_set_name(struct disk *disk, struct map *names, const char *name, struct inode *inode)
{
    struct inode *old = map_get_str(names, name);
    if (!map_put_str(names, name, sim_inode_ref(inode))) {
        inode->refs--;
        return false;
    }
    sim_inode_unref(disk, old);
    return true;
}

void sim_remove_name(struct disk *disk, struct map *names, const char *name)
{
    sim_inode_unref(disk, map_remove_str(names, name));
}

/* --- what is durable --- */

int sim_apply_op(struct inode *inode, struct op *op)
{
    int rc = 0;
    if (op->kind == OP_WRITE)
        rc = sim_content_write(&inode->durable, op->offset, op->bytes, op->size);
    else
        sim_content_truncate(&inode->durable, op->offset);
    if (!rc)
        sim_op_free(inode, op);
    return rc;
}

bool sim_apply_name_op(struct disk *disk, struct inode *directory, struct name_op *op)
{
    struct inode *from = op->from_directory ? op->from_directory : directory;
    if (op->from && map_get_str(&from->durable_names, op->from) == op->inode)
        sim_remove_name(disk, &from->durable_names, op->from);
    if (!op->inode)
        sim_remove_name(disk, &directory->durable_names, op->to);
    else if (!sim_set_name(disk, &directory->durable_names, op->to, op->inode))
        return false;
    sim_name_op_free(disk, op);
    return true;
}

/* What the kernel has written back by itself. */
void sim_write_back(struct sim *sim, struct inode *inode)
{
    for (struct list *link; (link = list_first(&inode->ops));) {
        struct op *op = list_item(link, struct op, link);
        if (op->at + WRITE_BACK_NS > sim->now && inode->pending <= PENDING_MAX)
            break;
        if (sim_apply_op(inode, op))
            break;
    }
    for (struct list *link; (link = list_first(&inode->name_ops));) {
        struct name_op *op = list_item(link, struct name_op, link);
        if (op->at + NAMES_WRITE_BACK_NS > sim->now || !sim_apply_name_op(sim->disk, inode, op))
            break;
    }
}

static bool page_differs(const struct content *a, const struct content *b, int64_t offset,
                         size_t size)
{
    uint8_t left[PAGE], right[PAGE];
    sim_content_read(a, offset, left, size);
    sim_content_read(b, offset, right, size);
    return memcmp(left, right, size) != 0;
}

/* Pages written through a mapping, the first `pages` of the file. */
int sim_write_back_mapped(struct inode *inode, int64_t pages)
{
    for (int64_t page = 0; page < pages && page * PAGE < inode->now.size; page++) {
        int64_t offset = page * PAGE;
        size_t size = inode->now.size - offset < PAGE ? (size_t)(inode->now.size - offset) : PAGE;
        uint8_t bytes[PAGE];
        if (!page_differs(&inode->now, &inode->durable, offset, size))
            continue;
        sim_content_read(&inode->now, offset, bytes, size);
        int rc = sim_content_write(&inode->durable, offset, bytes, size);
        if (rc)
            return rc;
    }
    return 0;
}

int sim_sync_inode(struct inode *inode)
{
    for (struct list *link; (link = list_first(&inode->ops));) {
        int rc = sim_apply_op(inode, list_item(link, struct op, link));
        if (rc)
            return rc;
    }
    int rc = inode->mapped ? sim_write_back_mapped(inode, INT64_MAX / PAGE) : 0;
    if (!rc)
        inode->mapped = inode->mappings > 0;
    return rc;
}

int sim_add_op(struct sim *sim, struct inode *inode, enum op_kind kind, int64_t offset,
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

int sim_add_name_op(struct sim *sim, struct inode *directory, struct inode *inode,
                    struct inode *from_directory, const char *from, const char *to)
{
    struct name_op *op = mem_zalloc(sizeof *op);
    if (!op)
        return -ENOMEM;
    op->at = sim->now;
    op->from = mem_strdup(from);
    op->to = mem_strdup(to);
    if ((from && !op->from) || !op->to) {
        sim_name_op_free(sim->disk, op);
        return -ENOMEM;
    }
    op->inode = inode ? sim_inode_ref(inode) : NULL;
    op->from_directory = from_directory ? sim_inode_ref(from_directory) : NULL;
    list_push_back(&directory->name_ops, &op->link);
    sim_write_back(sim, directory);
    return 0;
}
