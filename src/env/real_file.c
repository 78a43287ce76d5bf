/*
 * real_file.c - files of the real world.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "env/real.h"
#include "util/alloc.h"

int real_file_open(const cafka_env *env, const char *path, unsigned flags, cafka_env_file **out)
{
    (void)env;
    int how = O_CLOEXEC;
    if ((flags & CAFKA_FILE_READ) && (flags & CAFKA_FILE_WRITE))
        how |= O_RDWR;
    else
        how |= flags & CAFKA_FILE_WRITE ? O_WRONLY : O_RDONLY;
    if (flags & CAFKA_FILE_CREATE)
        how |= O_CREAT;
    if (flags & CAFKA_FILE_TRUNCATE)
        how |= O_TRUNC;
    if (flags & CAFKA_FILE_EXCLUSIVE)
        how |= O_CREAT | O_EXCL;
    cafka_env_file *file = mem_alloc(sizeof *file);
    if (!file)
        return -ENOMEM;
    do
        file->fd = open(path, how, 0644);
    while (file->fd < 0 && errno == EINTR);
    if (file->fd < 0) {
        int rc = -errno;
        mem_free(file);
        return rc;
    }
    *out = file;
    return 0;
}

void real_file_close(const cafka_env *env, cafka_env_file *file)
{
    (void)env;
    if (!file)
        return;
    close(file->fd);
    mem_free(file);
}

ssize_t real_file_read(const cafka_env *env, cafka_env_file *file, void *into, size_t size,
                       int64_t offset)
{
    (void)env;
    ssize_t n;
    do
        n = pread(file->fd, into, size, (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t real_file_write(const cafka_env *env, cafka_env_file *file, const struct iovec *pieces,
                        int count, int64_t offset)
{
    (void)env;
    ssize_t n;
    do
        n = pwritev(file->fd, pieces, count < IOV_MAX ? count : IOV_MAX, (off_t)offset);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

int64_t real_file_size(const cafka_env *env, cafka_env_file *file)
{
    (void)env;
    struct stat s;
    return fstat(file->fd, &s) < 0 ? -errno : (int64_t)s.st_size;
}

int real_file_truncate(const cafka_env *env, cafka_env_file *file, int64_t size)
{
    (void)env;
    int rc;
    do
        rc = ftruncate(file->fd, (off_t)size);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

/* A file system that can't reserve is no failure: the writes will tell. */
int real_file_allocate(const cafka_env *env, cafka_env_file *file, int64_t size)
{
    (void)env;
#if defined(HAVE_FALLOCATE) && defined(FALLOC_FL_KEEP_SIZE)
    int rc;
    do
        rc = fallocate(file->fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)size);
    while (rc < 0 && errno == EINTR);
    return rc < 0 && errno != EOPNOTSUPP && errno != ENOSYS ? -errno : 0;
#else
    (void)file;
    (void)size;
    return 0;
#endif
}

int real_file_sync(const cafka_env *env, cafka_env_file *file)
{
    (void)env;
    int rc;
    do
        rc = fsync(file->fd);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? -errno : 0;
}

void *real_file_map(const cafka_env *env, cafka_env_file *file, size_t size)
{
    (void)env;
    if (!size)
        return NULL;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void real_file_unmap(const cafka_env *env, cafka_env_file *file, void *memory, size_t size)
{
    (void)env;
    (void)file;
    if (memory)
        (void)munmap(memory, size);
}

/*
 * A lock that a Java broker on the same directory respects too: its FileChannel.lock() is an
 * fcntl() lock. Ours belongs to the open file, not to the process.
 */
int real_file_lock(const cafka_env *env, cafka_env_file *file)
{
    (void)env;
#ifdef F_OFD_SETLK
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file->fd, F_OFD_SETLK, &whole) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno == EACCES ? -EWOULDBLOCK : -errno;
#endif
    return flock(file->fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

int real_file_set_mtime(const cafka_env *env, cafka_env_file *file, int64_t mtime_ms)
{
    (void)env;
    struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = (time_t)(mtime_ms / 1000), .tv_nsec = (long)(mtime_ms % 1000) * 1000000},
    };
    return futimens(file->fd, times) < 0 ? -errno : 0;
}

int real_path_info(const cafka_env *env, const char *path, cafka_file_info *out)
{
    (void)env;
    struct stat s;
    if (stat(path, &s) < 0)
        return -errno;
    *out = (cafka_file_info){
        .size = (int64_t)s.st_size,
        .mtime_ms = (int64_t)s.st_mtim.tv_sec * 1000 + s.st_mtim.tv_nsec / 1000000,
        .is_directory = S_ISDIR(s.st_mode),
    };
    return 0;
}

int real_path_rename(const cafka_env *env, const char *from, const char *to)
{
    (void)env;
    return rename(from, to) < 0 ? -errno : 0;
}

int real_path_remove(const cafka_env *env, const char *path)
{
    (void)env;
    if (unlink(path) == 0)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    return rmdir(path) < 0 ? -errno : 0;
}

int real_path_mkdir(const cafka_env *env, const char *path)
{
    (void)env;
    return mkdir(path, 0755) < 0 ? -errno : 0;
}

int real_path_sync(const cafka_env *env, const char *directory)
{
    (void)env;
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = fsync(fd) < 0 && errno != EINVAL ? -errno : 0; /* EINVAL: has no such thing */
    close(fd);
    return rc;
}

struct names {
    char **items;
    size_t count, capacity;
};

static int add_name(struct names *names, const char *name)
{
    if (names->count == names->capacity) {
        size_t capacity = names->capacity ? names->capacity * 2 : 32;
        char **items = mem_recalloc(names->items, capacity, sizeof *items);
        if (!items)
            return -ENOMEM;
        names->items = items;
        names->capacity = capacity;
    }
    char *copy = mem_strdup(name);
    if (!copy)
        return -ENOMEM;
    names->items[names->count++] = copy;
    return 0;
}

static int collect_names(struct names *names, const char *directory)
{
    DIR *dir = opendir(directory);
    if (!dir)
        return -errno;
    int rc = 0;
    while (!rc) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry) {
            rc = -errno;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            rc = add_name(names, entry->d_name);
    }
    closedir(dir);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int real_path_list(const cafka_env *env, const char *directory,
                   int (*each)(void *user, const char *name), void *user)
{
    (void)env;
    struct names names = {0};
    int rc = collect_names(&names, directory);
    if (names.count)
        qsort(names.items, names.count, sizeof *names.items, by_name);
    for (size_t i = 0; i < names.count && !rc; i++)
        if (each(user, names.items[i]))
            break;
    for (size_t i = 0; i < names.count; i++)
        mem_free(names.items[i]);
    mem_free(names.items);
    return rc;
}
