/*
 * log_fixture.h - a log directory for a test: made in /tmp (or in a simulated world), opened, closed,
 * killed and opened again; and batches to append.
 */
#ifndef TESTS_LOG_FIXTURE_H
#define TESTS_LOG_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "mockbroker/log/log_manager.h"
#include "protocol/errors.h"
#include "record/builder.h"
#include "util/alloc.h"

struct log_fixture {
    const cafka_env *env;
    char root[256]; /* removed at the end */
    char directory[300];
    struct log_manager *manager;
    struct log_config config;
    struct uuid topic_id;
    struct commit_log *log; /* of "topic" 0 */
    struct buffer batch;
};

int fixture_setup(void **state);
int fixture_teardown(void **state);
void fixture_init(struct log_fixture *f, const cafka_env *env, const char *root);

/* Open the manager and the log of topic-0. */
void open_directory(struct log_fixture *f);
int try_open(struct log_fixture *f, cafka_error *err);
void close_cleanly(struct log_fixture *f);
void kill_broker(struct log_fixture *f);

/* What a producer sends. */
struct batch_spec {
    int64_t producer_id; /* 0: none, since tests count from 1 */
    int16_t epoch;
    int32_t sequence;
    int64_t timestamp; /* of the first record; the others follow by 1 ms */
    int count;         /* 0 is 1 */
    size_t value_size;
    int codec;
    bool transactional;
};
/* Into f->batch. */
struct bytes make_batch(struct log_fixture *f, const struct batch_spec *spec);
/* Append as leader with epoch 0; the code, and the result's base offset in *offset (may be NULL). */
int append(struct log_fixture *f, const struct batch_spec *spec, int64_t *offset);
/* One record with the timestamp; it must succeed. Returns its offset. */
int64_t append_ok(struct log_fixture *f, int64_t timestamp, size_t value_size);
int append_marker(struct log_fixture *f, int64_t producer_id, int16_t epoch, bool commit);

/* Files. */
void path_in(const struct log_fixture *f, char out[512], const char *format, ...)
    __attribute__((format(printf, 3, 4)));
char *slurp(const char *path, size_t *size);                         /* NULL: not there; mem_free */
int64_t file_size_of(const struct log_fixture *f, const char *name); /* in topic-0; -1: not there */
const char *shared_dir(void); /* of the golden data; NULL: not there, and it was said */

#endif
