/*
 * log_fixture.c - see log_fixture.h.
 */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "log_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/control.h"
#include "util/alloc.h"

static void say(void *user, enum log_level level, const char *area, const char *message)
{
    (void)user, (void)level;
    if (getenv("CAFKA_TEST_LOG"))
        fprintf(stderr, "%s: %s\n", area, message);
}

static const struct log_sink sink = {say, NULL, LOG_DEBUG};

void fixture_init(struct log_fixture *f, const cafka_env *env, const char *root)
{
    memset(f, 0, sizeof *f);
    f->env = env;
    snprintf(f->root, sizeof f->root, "%s", root);
    snprintf(f->directory, sizeof f->directory, "%s/1", root);
    log_config_init(&f->config);
    f->config.message_timestamp_after_max_ms = INT64_MAX;
    memcpy(f->topic_id.bytes, "a topic's own id", 16);
}

int fixture_setup(void **state)
{
    struct log_fixture *f = calloc(1, sizeof *f);
    char root[] = "/tmp/cafka-log-XXXXXX";
    if (!f || !mkdtemp(root))
        return -1;
    fixture_init(f, cafka_env_real(), root);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct log_fixture *f = *state;
    log_manager_abandon(f->manager);
    buffer_fini(&f->batch);
    (void)env_remove_tree(f->env, f->root, NULL);
    free(f);
    return 0;
}

int try_open(struct log_fixture *f, cafka_error *err)
{
    struct log_manager_options options = {
        .env = f->env,
        .log = {&sink, "log"},
        .directory = f->directory,
        .broker_id = 1,
        .broker_epoch = 7,
    };
    int rc = log_manager_open(&f->manager, &options, err);
    if (!rc)
        rc = log_manager_open_log(f->manager, "topic", 0, f->topic_id, &f->config, &f->log, err);
    if (rc)
        kill_broker(f);
    return rc;
}

void open_directory(struct log_fixture *f)
{
    cafka_error err = {0};
    if (try_open(f, &err))
        fail_msg("%s", err.message);
}

void close_cleanly(struct log_fixture *f)
{
    cafka_error err = {0};
    int rc = log_manager_close(f->manager, &err);
    f->manager = NULL;
    f->log = NULL;
    if (rc)
        fail_msg("%s", err.message);
}

void kill_broker(struct log_fixture *f)
{
    log_manager_abandon(f->manager);
    f->manager = NULL;
    f->log = NULL;
}

struct bytes make_batch(struct log_fixture *f, const struct batch_spec *spec)
{
    enum { MOST = 1000 };
    static char text[1 << 16];
    static struct record_data records[MOST];
    if (!text[0])
        memset(text, 'v', sizeof text);
    int count = spec->count ? spec->count : 1;
    for (int i = 0; i < count; i++)
        records[i] = (struct record_data){
            .timestamp = spec->timestamp + i,
            .key = bytes_of("key", 3),
            .value = bytes_of(text, spec->value_size),
        };
    struct batch_header h;
    batch_header_init(&h);
    h.base_timestamp = INT64_MIN;
    h.attributes = (int16_t)(spec->codec | (spec->transactional ? BATCH_TRANSACTIONAL : 0));
    h.producer_id = spec->producer_id ? spec->producer_id : -1;
    h.producer_epoch = spec->producer_id ? spec->epoch : -1;
    h.base_sequence = spec->producer_id ? spec->sequence : -1;
    struct compressor *compressor = NULL;
    if (spec->codec)
        assert_int_equal(compressor_new(&compressor, spec->codec, CODEC_LEVEL_DEFAULT, NULL), 0);
    buffer_clear(&f->batch);
    assert_int_equal(batch_build(&h, records, (size_t)count, compressor, &f->batch, NULL), 0);
    compressor_free(compressor);
    return bytes_of(f->batch.data, f->batch.size);
}

static int append_bytes(struct log_fixture *f, struct append_request *request, int64_t *offset)
{
    struct append_result result;
    cafka_error err = {0};
    int rc = commit_log_append(f->log, request, &result, &err);
    if (offset)
        *offset = result.base_offset;
    append_result_fini(&result);
    return rc;
}

int append(struct log_fixture *f, const struct batch_spec *spec, int64_t *offset)
{
    struct append_request request = {.records = make_batch(f, spec), .verified = true};
    return append_bytes(f, &request, offset);
}

int64_t append_ok(struct log_fixture *f, int64_t timestamp, size_t value_size)
{
    int64_t offset = -1;
    struct batch_spec spec = {.timestamp = timestamp, .value_size = value_size};
    assert_int_equal(append(f, &spec, &offset), 0);
    return offset;
}

int append_marker(struct log_fixture *f, int64_t producer_id, int16_t epoch, bool commit)
{
    uint8_t bytes[END_TXN_BATCH_SIZE];
    end_txn_batch_write(bytes, commit, producer_id, epoch, 0, 1000);
    struct append_request request = {.records = bytes_of(bytes, sizeof bytes),
                                     .origin = APPEND_COORDINATOR};
    return append_bytes(f, &request, NULL);
}

void path_in(const struct log_fixture *f, char out[512], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = snprintf(out, 512, "%s/", f->directory);
    vsnprintf(out + n, 512 - (size_t)n, format, args);
    va_end(args);
}

char *slurp(const char *path, size_t *size)
{
    char *data;
    if (access(path, R_OK) || env_read_file(cafka_env_real(), path, 1 << 30, &data, size, NULL))
        return NULL;
    return data;
}

int64_t file_size_of(const struct log_fixture *f, const char *name)
{
    char path[512];
    path_in(f, path, "topic-0/%s", name);
    cafka_file_info info;
    return f->env->path_info(f->env, path, &info) == 0 ? info.size : -1;
}

const char *shared_dir(void)
{
    static char path[512];
    const char *named = getenv("CAFKA_SHARED");
    const char *top = getenv("top_srcdir");
    if (named)
        snprintf(path, sizeof path, "%s", named);
    else
        snprintf(path, sizeof path, "%s/../shared", top ? top : ".");
    char golden[600];
    snprintf(golden, sizeof golden, "%s/golden/logdir", path);
    if (!access(golden, R_OK))
        return path;
    printf("skipped: golden data not found\n");
    return NULL;
}
