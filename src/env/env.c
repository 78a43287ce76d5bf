/*
 * env.c - see env.h.
 */
#include "config.h"

#include "env/env.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"

/* --- what not every world has --- */

int env_dial(const cafka_env *env, const cafka_address *to, const cafka_dial_options *options)
{
    if (ENV_HAS(env, dial_with))
        return env->dial_with(env, to, options);
    return env->dial(env, to);
}

int env_event_fd(const cafka_env *env, int event)
{
    return ENV_HAS(env, event_fd) ? env->event_fd(env, event) : -1;
}

int env_wait_either(const cafka_env *env, int event, int other, int64_t deadline)
{
    enum { LOOK_MS = 100 };
    if (ENV_HAS(env, event_wait_either))
        return env->event_wait_either(env, event, other, deadline);
    for (;;) {
        int64_t now = env->now(env), soon = now + LOOK_MS * NS_PER_MS;
        if (env->event_wait(env, event, soon < deadline ? soon : deadline))
            return 1;
        if (env->event_clear(env, other))
            return 2;
        if (now >= deadline)
            return 0;
    }
}

/* --- addresses --- */

void address_text(const cafka_address *address, char out[ADDRESS_TEXT_SIZE])
{
    char ip[INET6_ADDRSTRLEN] = "?";
    if (address->family == 4) {
        inet_ntop(AF_INET, address->ip, ip, sizeof ip);
        snprintf(out, ADDRESS_TEXT_SIZE, "%s:%u", ip, address->port);
    } else if (address->family == 6) {
        inet_ntop(AF_INET6, address->ip, ip, sizeof ip);
        if (address->scope)
            snprintf(out, ADDRESS_TEXT_SIZE, "[%s%%%u]:%u", ip, address->scope, address->port);
        else
            snprintf(out, ADDRESS_TEXT_SIZE, "[%s]:%u", ip, address->port);
    } else {
        snprintf(out, ADDRESS_TEXT_SIZE, "(unknown)");
    }
}

/* "fe80::1%2" or "fe80::1%eth0": the part behind the percent sign. */
static int parse_scope(const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno && number <= UINT32_MAX)
        *out = (uint32_t)number;
    else
        *out = if_nametoindex(text);
    return *out != 0;
}

static int parse_v6(const char *text, size_t size, cafka_address *out)
{
    char copy[INET6_ADDRSTRLEN + 32];
    if (size >= sizeof copy)
        return 0;
    memcpy(copy, text, size);
    copy[size] = '\0';
    char *scope = strchr(copy, '%');
    if (scope)
        *scope++ = '\0';
    if (inet_pton(AF_INET6, copy, out->ip) != 1 || (scope && !parse_scope(scope, &out->scope)))
        return 0;
    out->family = 6;
    return 1;
}

int address_parse(const char *host, uint16_t port, cafka_address *out)
{
    cafka_address address = {.port = port};
    size_t size = strlen(host);
    if (inet_pton(AF_INET, host, address.ip) == 1)
        address.family = 4;
    else if (size > 2 && host[0] == '[' && host[size - 1] == ']')
        (void)parse_v6(host + 1, size - 2, &address);
    else
        (void)parse_v6(host, size, &address);
    if (!address.family)
        return 0;
    *out = address;
    return 1;
}

/* --- whole files --- */

static int read_all(const cafka_env *env, cafka_env_file *file, const char *path, char *into,
                    size_t size, cafka_error *err)
{
    for (size_t at = 0; at < size;) {
        ssize_t got = env->file_read(env, file, into + at, size - at, (int64_t)at);
        if (got < 0)
            return error_errno(err, CAFKA_ERR_IO, (int)-got, "reading %s", path);
        if (got == 0)
            return error_set(err, CAFKA_ERR_IO, "reading %s: it became shorter meanwhile", path);
        at += (size_t)got;
    }
    return CAFKA_OK;
}

int env_read_file(const cafka_env *env, const char *path, size_t limit, char **out, size_t *size,
                  cafka_error *err)
{
    cafka_env_file *file;
    int rc = env->file_open(env, path, CAFKA_FILE_READ, &file);
    if (rc < 0)
        return error_errno(err, CAFKA_ERR_IO, -rc, "opening %s", path);
    char *data = NULL;
    int64_t length = env->file_size(env, file);
    if (length < 0)
        rc = error_errno(err, CAFKA_ERR_IO, (int)-length, "reading the size of %s", path);
    else if ((uint64_t)length > limit)
        rc = error_set(err, CAFKA_ERR_TOO_LARGE, "%s has %lld bytes; at most %zu are read", path,
                       (long long)length, limit);
    else if (!(data = mem_alloc((size_t)length + 1)))
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for the %lld bytes of %s",
                       (long long)length, path);
    else
        rc = read_all(env, file, path, data, (size_t)length, err);
    env->file_close(env, file);
    if (rc) {
        mem_free(data);
        return rc;
    }
    data[length] = '\0';
    *out = data;
    if (size)
        *size = (size_t)length;
    return CAFKA_OK;
}

static int write_all(const cafka_env *env, cafka_env_file *file, const char *path, const void *data,
                     size_t size, cafka_error *err)
{
    for (size_t at = 0; at < size;) {
        struct iovec piece = {(char *)(uintptr_t)data + at, size - at};
        ssize_t put = env->file_write(env, file, &piece, 1, (int64_t)at);
        if (put <= 0)
            return error_errno(err, CAFKA_ERR_IO, put ? (int)-put : ENOSPC, "writing %s", path);
        at += (size_t)put;
    }
    int rc = env->file_sync(env, file);
    return rc < 0 ? error_errno(err, CAFKA_ERR_IO, -rc, "syncing %s", path) : CAFKA_OK;
}

/* The directory that holds `path`: allocated; NULL: no memory. */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return mem_strdup(".");
    return slash == path ? mem_strdup("/") : mem_strndup(path, (size_t)(slash - path));
}

static int write_and_rename(const cafka_env *env, const char *temporary, const char *path,
                            const char *directory, const void *data, size_t size, cafka_error *err)
{
    cafka_env_file *file;
    int rc = env->file_open(env, temporary,
                            CAFKA_FILE_WRITE | CAFKA_FILE_CREATE | CAFKA_FILE_TRUNCATE, &file);
    if (rc < 0)
        return error_errno(err, CAFKA_ERR_IO, -rc, "opening %s", temporary);
    rc = write_all(env, file, temporary, data, size, err);
    env->file_close(env, file);
    int io = rc ? 0 : env->path_rename(env, temporary, path);
    if (io < 0)
        rc = error_errno(err, CAFKA_ERR_IO, -io, "renaming %s to %s", temporary, path);
    if (rc) {
        (void)env->path_remove(env, temporary); /* the failure is told; this is tidying */
        return rc;
    }
    io = env->path_sync(env, directory);
    return io < 0 ? error_errno(err, CAFKA_ERR_IO, -io, "syncing %s", directory) : CAFKA_OK;
}

int env_replace_file(const cafka_env *env, const char *path, const void *data, size_t size,
                     cafka_error *err)
{
    size_t length = strlen(path);
    char *directory = directory_of(path);
    char *temporary = mem_alloc(length + sizeof ".tmp");
    int rc;
    if (directory && temporary) {
        memcpy(temporary, path, length);
        memcpy(temporary + length, ".tmp", sizeof ".tmp");
        rc = write_and_rename(env, temporary, path, directory, data, size, err);
    } else {
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for writing %s", path);
    }
    mem_free(temporary);
    mem_free(directory);
    return rc;
}

/* --- directories --- */

static int make_directory(const cafka_env *env, const char *path, cafka_error *err)
{
    int rc = env->path_mkdir(env, path);
    if (!rc)
        return CAFKA_OK;
    cafka_file_info info;
    if (rc == -EEXIST && !env->path_info(env, path, &info) && !info.is_directory)
        return error_errno(err, CAFKA_ERR_IO, ENOTDIR, "making the directory %s", path);
    return rc == -EEXIST ? CAFKA_OK
                         : error_errno(err, CAFKA_ERR_IO, -rc, "making the directory %s", path);
}

int env_mkdirs(const cafka_env *env, const char *path, cafka_error *err)
{
    char *part = mem_strdup(path);
    if (!part)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the path %s", path);
    int rc = CAFKA_OK;
    for (char *p = part + 1; *part && !rc; p++) {
        char c = *p;
        if (c && c != '/')
            continue;
        *p = '\0';
        if (p[-1] != '/' && p[-1] != '\0')
            rc = make_directory(env, part, err);
        *p = c;
        if (!c)
            break;
    }
    mem_free(part);
    return rc;
}

/* Names are collected first: what is listed is removed while walking. */
struct entry {
    struct entry *next;
    char path[];
};

struct listing {
    const char *directory;
    struct entry *first, **end;
    int failed;
};

static int collect_entry(void *user, const char *name)
{
    struct listing *listing = user;
    size_t size = strlen(listing->directory) + strlen(name) + 2;
    struct entry *entry = mem_alloc(sizeof *entry + size);
    if (!entry)
        return listing->failed = 1;
    entry->next = NULL;
    snprintf(entry->path, size, "%s/%s", listing->directory, name);
    *listing->end = entry;
    listing->end = &entry->next;
    return 0;
}

static int remove_entries(const cafka_env *env, const char *path, cafka_error *err)
{
    struct listing listing = {.directory = path, .end = &listing.first};
    int rc = env->path_list(env, path, collect_entry, &listing);
    if (rc < 0)
        rc = error_errno(err, CAFKA_ERR_IO, -rc, "listing %s", path);
    else if (listing.failed)
        rc = error_set(err, CAFKA_ERR_MEMORY, "no memory for listing %s", path);
    while (listing.first) {
        struct entry *entry = listing.first;
        if (!rc)
            rc = env_remove_tree(env, entry->path, err);
        listing.first = entry->next;
        mem_free(entry);
    }
    return rc;
}

int env_remove_tree(const cafka_env *env, const char *path, cafka_error *err)
{
    int io =
        env->path_remove(env, path); /* first: a link to a directory goes, not what it points to */
    if (io == 0 || io == -ENOENT)
        return CAFKA_OK;
    cafka_file_info info;
    if (!env->path_info(env, path, &info) && info.is_directory) {
        int rc = remove_entries(env, path, err);
        if (rc)
            return rc;
        io = env->path_remove(env, path);
    }
    return io < 0 ? error_errno(err, CAFKA_ERR_IO, -io, "removing %s", path) : CAFKA_OK;
}
