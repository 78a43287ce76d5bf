/*
 * faults.c - what tests do to the simulated disk: power loss, killed processes, failures, a full disk.
 */
#include "sim/disk.h"

#include <errno.h>
#include <string.h>

#include "util/alloc.h"

int sim_asked_failure(struct sim *sim, const char *path, unsigned kind)
{
    struct disk *disk = sim->disk;
    for (size_t i = 0; i < disk->failure_count; i++) {
        const struct failure *f = &disk->failures[i];
        if (f->kinds & kind && sim_is_under(path, f->directory) &&
            rng_below(&disk->rng, f->one_in) == 0)
            return -f->error;
    }
    return 0;
}

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
    inode->generation++; /* it may have had no name any more, but users */
    inode->locked_by = NULL;
    sim_write_back(sim, inode);
    uint64_t count = 0;
    for (struct list *link = inode->ops.next; link != &inode->ops; link = link->next)
        count++;
    uint64_t kept = rng_below(rng, count + 1);
    for (uint64_t i = 0; i < kept; i++)
        if (sim_apply_op(inode, list_item(inode->ops.next, struct op, link)))
            break;
    struct list *torn = list_first(&inode->ops);
    if (torn && rng_below(rng, 2)) {
        struct op *op = list_item(torn, struct op, link);
        if (op->kind == OP_WRITE)
            (void)sim_content_write(&inode->durable, op->offset, op->bytes,
                                    (size_t)rng_below(rng, op->size));
    }
    if (inode->mapped)
        (void)sim_write_back_mapped(inode, rng_between(rng, 0, inode->now.size / PAGE + 1));
    for (struct list *link; (link = list_first(&inode->ops));)
        sim_op_free(inode, list_item(link, struct op, link));

    /* Mappings of the dead keep the old block. */
    sim_block_unref(inode->now.block);
    inode->now = (struct content){.size = inode->durable.size};
    struct block *image = inode->durable.block;
    if (image)
        (void)sim_content_write(&inode->now, 0, image->bytes,
                                image->capacity < (size_t)inode->durable.size
                                    ? image->capacity
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
    sim_write_back(sim, directory);
    uint64_t count = 0;
    for (struct list *link = directory->name_ops.next; link != &directory->name_ops;
         link = link->next)
        count++;
    uint64_t kept = rng_below(&disk->rng, count + 1);
    for (uint64_t i = 0; i < kept; i++)
        if (!sim_apply_name_op(disk, directory,
                               list_item(directory->name_ops.next, struct name_op, link)))
            break;
    sim_drop_name_ops(disk, directory);

    sim_clear_names(disk, &directory->names);
    struct map_entry *e;
    for (size_t i = 0; (e = map_next(&directory->durable_names, &i));) {
        struct inode *inode = e->value;
        (void)sim_set_name(disk, &directory->names, e->key, inode);
        if (inode->is_directory)
            crash_directory(sim, inode);
        else
            crash_file(sim, inode);
    }
}

void sim_disk_crash(struct sim *sim, const char *path)
{
    struct inode *directory;
    if (sim_find(sim, path, &directory) || !directory->is_directory)
        return;
    sim_trace(sim, sim->steps);
    kill_users(directory);
    crash_directory(sim, directory);
}

void sim_disk_kill(struct sim *sim, const char *path)
{
    struct inode *directory;
    if (!sim_find(sim, path, &directory))
        kill_users(directory);
}

int sim_disk_fail(struct sim *sim, const char *directory, unsigned kinds, int error,
                  unsigned one_in, cafka_error *err)
{
    struct disk *disk = sim->disk;
    if (!one_in) {
        size_t kept = 0;
        for (size_t i = 0; i < disk->failure_count; i++) {
            struct failure *f = &disk->failures[i];
            if (sim_is_under(f->directory, directory) && f->kinds & kinds)
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
