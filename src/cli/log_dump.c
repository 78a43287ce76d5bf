/*
 * log_dump.c - `cafka log dump [--records] FILE…`: what the files of a log hold, as JSON.
 *
 * One object a batch or entry; which kind of file it is says its name (00…42.log, also with
 * .deleted, .cleaned or .swap behind it). Damage is told on standard error with its place, the
 * sound part is shown all the same, and the exit status is 1.
 *
 * Reading: dump_file() chooses, dump_log() walks a log in windows, the rest are read whole.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "env/env.h"
#include "record/batch.h"
#include "record/dump.h"
#include "record/log_files.h"
#include "util/alloc.h"

enum { WINDOW = 1 << 20, SMALL_FILE_LIMIT = 1 << 30 };

struct job {
    const cafka_env *env;
    const char *path;
    int64_t base; /* offset in the file's name */
    bool records;
    bool damaged;
    struct buffer out;
    struct dump dump;
};

static void complain(struct job *j, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void complain(struct job *j, const char *format, ...)
{
    va_list args;
    fflush(stdout);
    fprintf(stderr, "cafka log dump: %s: ", j->path);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    j->damaged = true;
}

/* Write what was made, as a line. */
static int flush_line(struct job *j, cafka_error *err)
{
    buffer_put_u8(&j->out, '\n');
    if (j->out.failed)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the text");
    size_t written = fwrite(j->out.data, 1, j->out.size, stdout);
    if (written != j->out.size)
        return error_set(err, CAFKA_ERR_IO, "writing to standard output failed");
    buffer_clear(&j->out);
    return CAFKA_OK;
}

/* --- .log --- */

/* A part of the file that moves forward over it. */
struct window {
    cafka_env_file *file;
    int64_t file_size;
    int64_t position; /* of data[0] in the file */
    struct buffer bytes;
};

/* Read on until `size` bytes or all of the file from the position on are there. */
static int window_fill(struct job *j, struct window *w, size_t size, cafka_error *err)
{
    int64_t left = w->file_size - w->position;
    if ((int64_t)size > left)
        size = (size_t)left;
    while (w->bytes.size < size) {
        uint8_t *place = buffer_reserve(&w->bytes, size - w->bytes.size);
        if (!place)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory to read %zu bytes", size);
        ssize_t got = j->env->file_read(j->env, w->file, place, size - w->bytes.size,
                                        w->position + (int64_t)w->bytes.size);
        if (got < 0)
            return error_errno(err, CAFKA_ERR_IO, (int)-got, "reading failed");
        if (!got)
            return error_set(err, CAFKA_ERR_IO, "the file became shorter while it was read");
        w->bytes.size += (size_t)got;
    }
    return CAFKA_OK;
}

static void window_drop(struct window *w, size_t size)
{
    memmove(w->bytes.data, w->bytes.data + size, w->bytes.size - size);
    w->bytes.size -= size;
    w->position += (int64_t)size;
}

static int show_batch(struct job *j, struct bytes batch, int64_t position, cafka_error *err)
{
    cafka_error why = {0};
    int rc = dump_batch(&j->dump, batch, j->records, &j->out, &why);
    if (rc == CAFKA_ERR_MEMORY)
        return error_set(err, rc, "%s", why.message);
    if (rc)
        complain(j, "damaged at byte %lld: %s", (long long)position, why.message);
    return flush_line(j, err);
}

/* All whole batches of the window; *used gets their bytes, *done whether there is no going on. */
static int show_window(struct job *j, struct window *w, size_t *used, bool *done, cafka_error *err)
{
    struct bytes rest = bytes_of(w->bytes.data, w->bytes.size);
    struct batch_slice slice;
    cafka_error why = {0};
    int rc;
    while (!(rc = batch_walk_next(&rest, &slice, &why))) {
        int64_t position = w->position + (slice.bytes.data - w->bytes.data);
        rc = show_batch(j, slice.bytes, position, err);
        if (rc)
            return rc;
    }
    *used = w->bytes.size - rest.size;
    if (rc != CAFKA_END) {
        complain(j, "damaged at byte %lld: %s", (long long)w->position + (long long)*used,
                 why.message);
        *done = true;
    }
    return CAFKA_OK;
}

/* What is left at the window's start is a part of a batch: is the rest of it in the file? */
static bool rest_is_there(struct job *j, const struct window *w, size_t *batch_bytes)
{
    int64_t left = w->file_size - w->position;
    *batch_bytes = batch_peek_size(bytes_of(w->bytes.data, w->bytes.size));
    bool all_read = (int64_t)w->bytes.size == left;
    if (!left || (!all_read && (int64_t)*batch_bytes <= left))
        return true;
    complain(j, "damaged at byte %lld: the last batch is cut, only %lld bytes of it are there",
             (long long)w->position, (long long)left);
    return false;
}

static int dump_open_log(struct job *j, struct window *w, cafka_error *err)
{
    size_t want = WINDOW;
    bool done = false;
    while (!done && w->position < w->file_size) {
        size_t used = 0, next = 0;
        int rc = window_fill(j, w, want, err);
        if (!rc)
            rc = show_window(j, w, &used, &done, err);
        if (rc)
            return rc;
        window_drop(w, used);
        done = done || !rest_is_there(j, w, &next);
        want = next > WINDOW ? next : WINDOW;
    }
    return CAFKA_OK;
}

static int dump_log(struct job *j, cafka_error *err)
{
    struct window w = {0};
    int rc = j->env->file_open(j->env, j->path, CAFKA_FILE_READ, &w.file);
    if (rc)
        return error_errno(err, CAFKA_ERR_IO, -rc, "cannot be opened");
    w.file_size = j->env->file_size(j->env, w.file);
    rc = w.file_size < 0 ? error_errno(err, CAFKA_ERR_IO, (int)-w.file_size, "has no size")
                         : dump_open_log(j, &w, err);
    buffer_fini(&w.bytes);
    j->env->file_close(j->env, w.file);
    return rc;
}

/* --- the others: checked whole, shown up to the first damage --- */

static void show_offset_entry(struct job *j, const uint8_t *data, size_t i)
{
    dump_offset_index_entry(&j->out, offset_index_get(data, i, j->base));
}

static int check_offset_index(struct job *j, struct bytes file, size_t *count, cafka_error *err)
{
    return offset_index_check(file, j->base, count, err);
}

static void show_time_entry(struct job *j, const uint8_t *data, size_t i)
{
    dump_time_index_entry(&j->out, time_index_get(data, i, j->base));
}

static int check_time_index(struct job *j, struct bytes file, size_t *count, cafka_error *err)
{
    return time_index_check(file, j->base, count, err);
}

static void show_txn_entry(struct job *j, const uint8_t *data, size_t i)
{
    struct txn_index_entry entry = txn_index_get(data, i);
    dump_txn_index_entry(&j->out, &entry);
}

static int check_txn_index(struct job *j, struct bytes file, size_t *count, cafka_error *err)
{
    (void)j;
    return txn_index_check(file, count, err);
}

static void show_snapshot_entry(struct job *j, const uint8_t *data, size_t i)
{
    struct snapshot_entry entry = snapshot_get(data, i);
    dump_snapshot_entry(&j->out, &entry);
}

static int check_snapshot(struct job *j, struct bytes file, size_t *count, cafka_error *err)
{
    (void)j;
    return snapshot_check(file, count, err);
}

static const struct kind {
    const char *suffix;
    int (*check)(struct job *j, struct bytes file, size_t *count, cafka_error *err); /* NULL: a log */
    void (*show)(struct job *j, const uint8_t *data, size_t i);
} kinds[] = {
    {".log", NULL, NULL},
    {".index", check_offset_index, show_offset_entry},
    {".timeindex", check_time_index, show_time_entry},
    {".txnindex", check_txn_index, show_txn_entry},
    {".snapshot", check_snapshot, show_snapshot_entry},
};

static int dump_small(struct job *j, const struct kind *kind, cafka_error *err)
{
    char *data;
    size_t size, count;
    int rc = env_read_file(j->env, j->path, SMALL_FILE_LIMIT, &data, &size, err);
    if (rc)
        return rc;
    cafka_error why = {0};
    int checked = kind->check(j, bytes_of(data, size), &count, &why);
    for (size_t i = 0; i < count && !rc; i++) {
        kind->show(j, (const uint8_t *)data, i);
        rc = flush_line(j, err);
    }
    if (checked && !rc)
        complain(j, "%s", why.message);
    mem_free(data);
    return rc;
}

/* The kind of file that a name speaks of: its suffix, perhaps with another one behind it. */
static const struct kind *find_kind(const char *name)
{
    static const char *const behind[] = {"", ".deleted", ".cleaned", ".swap"};
    size_t length = strlen(name);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t b = 0; b < sizeof behind / sizeof *behind; b++) {
            size_t own = strlen(kinds[k].suffix), more = strlen(behind[b]);
            if (length >= own + more && !strcmp(name + length - more, behind[b]) &&
                !strncmp(name + length - more - own, kinds[k].suffix, own))
                return &kinds[k];
        }
    return NULL;
}

static bool dump_file(struct job *j)
{
    cafka_error err = {0};
    const char *slash = strrchr(j->path, '/'), *name = slash ? slash + 1 : j->path;
    const struct kind *kind = find_kind(name);
    if (!kind) {
        complain(j, "not called .log, .index, .timeindex, .txnindex or .snapshot");
        return false;
    }
    j->base = log_file_base_offset(str_of(name));
    if (j->base < 0)
        j->base = 0;
    int rc = kind->check ? dump_small(j, kind, &err) : dump_log(j, &err);
    if (rc)
        complain(j, "%s", err.message);
    return !j->damaged;
}

static int usage(FILE *out, int status)
{
    fprintf(out,
            "usage: cafka log dump [--records] FILE…\n"
            "shows what .log, .index, .timeindex, .txnindex and .snapshot files hold, as JSON\n");
    return status;
}

int cli_log_dump(int argc, char **argv)
{
    struct job job = {.env = cafka_env_real()};
    bool good = true, options = true;
    int files = 0;
    for (int i = 1; i < argc; i++) {
        char *word = argv[i];
        if (!options || word[0] != '-')
            argv[1 + files++] = word;
        else if (!strcmp(word, "--records"))
            job.records = true;
        else if (!strcmp(word, "--help"))
            return usage(stdout, 0);
        else if (!strcmp(word, "--"))
            options = false;
        else
            return usage(stderr, 2);
    }
    if (!files)
        return usage(stderr, 2);
    for (int i = 1; i <= files; i++) {
        job.path = argv[i];
        job.damaged = false;
        good &= dump_file(&job);
    }
    if (fflush(stdout) != 0)
        good = false;
    buffer_fini(&job.out);
    dump_fini(&job.dump);
    return good ? 0 : 1;
}

int cli_log(int argc, char **argv)
{
    if (argc >= 2 && !strcmp(argv[1], "dump"))
        return cli_log_dump(argc - 1, argv + 1);
    if (argc == 2 && !strcmp(argv[1], "--help"))
        return usage(stdout, 0);
    return usage(stderr, 2);
}
