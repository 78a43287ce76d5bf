/*
 * env.h - shorthand for rooms that use the world. The struct itself is public: <cafka/env.h>.
 */
#ifndef CAFKA_ENV_ENV_H
#define CAFKA_ENV_ENV_H

#include <cafka/env.h>

#include "util/error.h"

#define NS_PER_MS INT64_C(1000000)

static inline int64_t env_now_ms(const cafka_env *env)
{
    return env->now(env) / NS_PER_MS;
}

static inline int64_t env_wall_ms(const cafka_env *env)
{
    return env->wall_ms(env);
}

/* Is this member there? An env of an older program is shorter. */
#define ENV_HAS(env, member) \
    (offsetof(cafka_env, member) < (env)->size && \
     (env)->member) /* NOLINT(bugprone-macro-parentheses) */

/* env->dial_with(), or dial() in a world that has no buffers. */
int env_dial(const cafka_env *env, const cafka_address *to, const cafka_dial_options *options);
int env_event_fd(const cafka_env *env, int event); /* -1: this world has none */
/* env->event_wait_either(), or looking at `other` ten times a second. */
int env_wait_either(const cafka_env *env, int event, int other, int64_t deadline);

/* "127.0.0.1:9092" or "[::1]:9092". */
#define ADDRESS_TEXT_SIZE 72
void address_text(const cafka_address *address, char out[ADDRESS_TEXT_SIZE]);
/* Text that is an address, without a port; false if it is a name. */
int address_parse(const char *host, uint16_t port, cafka_address *out);

/* Whole small files. read: *out is allocated, terminated with a 0 beyond *size, at most `limit` bytes. */
int env_read_file(const cafka_env *env, const char *path, size_t limit, char **out, size_t *size,
                  cafka_error *err);
/* Write to "path.tmp", sync, rename over path, sync the directory: all of it or nothing. */
int env_replace_file(const cafka_env *env, const char *path, const void *data, size_t size,
                     cafka_error *err);
int env_mkdirs(const cafka_env *env, const char *path, cafka_error *err);      /* with parents */
int env_remove_tree(const cafka_env *env, const char *path, cafka_error *err); /* and all in it */

#endif
