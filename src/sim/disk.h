/*
 * disk.h - the simulated disk from inside: a tree of files, and what of it would survive a power loss.
 *
 * An inode has its content as everybody sees it, and a durable image with a list of the operations
 * that are not in it yet. A directory has its names twice in the same way. A sync, or time, moves
 * operations into the image; a power loss moves a random prefix of them and drops the rest. Bytes
 * written through a mapping are no operations: a sync compares pages, a loss keeps a prefix of them.
 *
 * Owner:   the world, one disk for all hosts.
 * Thread:  one.
 * Reading: image.c is content and durability, disk.c the tree, files.c open files, faults.c the losses.
 */
#ifndef CAFKA_SIM_DISK_H
#define CAFKA_SIM_DISK_H

#include "sim/world.h"

enum { PAGE = 4096 };
#define FILE_SIZE_MAX (INT64_C(1) << 40)

struct block {
    unsigned refs; /* its inode, and each mapping */
    size_t capacity;
    _Alignas(16) uint8_t bytes[]; /* zero behind what was written */
};

/* The bytes behind the block's capacity are zero. */
struct content {
    struct block *block;
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

/* --- image.c; functions that return int give 0 or minus errno --- */
void sim_block_unref(struct block *block); /* takes NULL */
/* Make the content's block reach to `capacity`. One that is mapped can't move: -EFBIG. */
int sim_content_reach(struct content *c, size_t capacity, bool exactly);
int sim_content_write(struct content *c, int64_t offset, const uint8_t *bytes, size_t size);
void sim_content_truncate(struct content *c, int64_t size);
void sim_content_read(const struct content *c, int64_t offset, uint8_t *into, size_t size);

struct inode *sim_inode_new(bool is_directory); /* NULL: no memory */
struct inode *sim_inode_ref(struct inode *inode);
void sim_inode_unref(struct disk *disk, struct inode *inode); /* takes NULL */
bool sim_set_name(struct disk *disk, struct map *names, const char *name, struct inode *inode);
void sim_remove_name(struct disk *disk, struct map *names, const char *name);
void sim_clear_names(struct disk *disk, struct map *names);

int sim_add_op(struct sim *sim, struct inode *inode, enum op_kind kind, int64_t offset,
               const struct iovec *pieces, size_t size);
int sim_apply_op(struct inode *inode, struct op *op);
void sim_op_free(struct inode *inode, struct op *op);
int sim_add_name_op(struct sim *sim, struct inode *directory, struct inode *inode,
                    struct inode *from_directory, const char *from, const char *to);
bool sim_apply_name_op(struct disk *disk, struct inode *directory, struct name_op *op);
void sim_name_op_free(struct disk *disk, struct name_op *op);
void sim_drop_name_ops(struct disk *disk, struct inode *directory);
void sim_write_back(struct sim *sim, struct inode *inode); /* what the kernel has written by itself */
int sim_write_back_mapped(struct inode *inode, int64_t pages);
int sim_sync_inode(struct inode *inode);

/* --- disk.c --- */
int sim_find(struct sim *sim, const char *path, struct inode **out);
/* The directory that holds the path's last component, which goes to `name` ("" for the root). */
int sim_find_parent(struct sim *sim, const char *path, struct inode **out, char name[256]);
int sim_create(const cafka_env *env, struct inode *directory, const char *name, bool is_directory,
               struct inode **out);
bool sim_is_under(const char *path, const char *directory);

/* --- files.c --- */
void sim_files_env(cafka_env *env);

/* --- faults.c --- */
int sim_asked_failure(struct sim *sim, const char *path,
                      unsigned kind); /* 0: none; else minus errno */

#endif
