/*
 * log_internal.h - what the files of this room share: paths, the tools of one broker, I/O helpers.
 *
 * Owner:   struct log_shared: the log manager of a broker.
 * Thread:  the broker's loop.
 */
#ifndef MOCKBROKER_LOG_LOG_INTERNAL_H
#define MOCKBROKER_LOG_LOG_INTERNAL_H

#include "env/env.h"
#include "mockbroker/log/commit_log.h"
#include "record/compress.h"
#include "record/log_files.h"
#include "util/log.h"

/* A directory of a log is at most this long, so that a path fits LOG_PATH_SIZE. */
enum { LOG_DIRECTORY_MAX = 960, LOG_PATH_SIZE = 1024 };

/* A batch that inflates to more is refused: a broker that checks it must hold it. */
#define LOG_INFLATE_LIMIT ((size_t)256 << 20)

/* Tools that all logs of one broker use in turn. */
struct log_shared {
    const cafka_env *env;
    struct log words; /* the logger */
    struct decompressor *decompressor;
    struct compressor *compressors[CODEC_COUNT];
    int compressor_levels[CODEC_COUNT];
    struct buffer inflated; /* records of a compressed batch */
    struct buffer plain;    /* records written anew */
    struct buffer packed;   /* … and compressed; or a batch read from a file */
    int64_t producer_id_expiration_ms;
    int64_t producer_id_expiration_check_interval_ms;
};

int log_shared_new(struct log_shared **out, const cafka_env *env, struct log words,
                   cafka_error *err);
void log_shared_free(struct log_shared *shared); /* takes NULL */
/* Large batches are rare: give back what one of them left. */
void log_shared_relax(struct log_shared *shared);

void log_path(const char *directory, int64_t base_offset, const char *suffix,
              char out[LOG_PATH_SIZE]);
void log_join(const char *directory, const char *name, char out[LOG_PATH_SIZE]);

/* An I/O error with words; the code is ERR_KAFKA_STORAGE_ERROR if a request runs into it. */
int log_io_error(cafka_error *err, int negative_errno, const char *what, const char *path);

/* Whole reads and writes: retried until done. Reads stop at the end of the file: *got. */
int log_read_at(const cafka_env *env, cafka_env_file *file, void *into, size_t size, int64_t offset,
                size_t *got, cafka_error *err);
int log_write_at(const cafka_env *env, cafka_env_file *file, const struct iovec *pieces, int count,
                 int64_t offset, cafka_error *err);
/* With parents, unless it is there; its name is made durable. */
int log_make_directory(const cafka_env *env, const char *path, cafka_error *err);
/* A file that need not be there. */
int log_remove(const cafka_env *env, const char *path, cafka_error *err);

int log_file_open(struct log_file **out, const cafka_env *env, const char *path, unsigned flags,
                  cafka_error *err);

#endif
