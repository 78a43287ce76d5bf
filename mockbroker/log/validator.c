/*
 * validator.c - see validator.h.
 */
#include "mockbroker/log/validator.h"

#include <inttypes.h>
#include <stdio.h>

#include "protocol/errors.h"
#include "record/crc32c.h"
#include "record/open.h"
#include "record/validate.h"
#include "util/alloc.h"

/* Message sets of old clients: size of the smallest one, and where the magic byte is read. */
enum { LEAST_RECORD_SIZE = 14, HEADER_UP_TO_MAGIC = 17 };

void append_result_fini(struct append_result *result)
{
    for (size_t i = 0; i < result->record_error_count; i++)
        mem_free(result->record_errors[i].message);
    mem_free(result->record_errors);
    mem_free(result->error_message);
    result->record_errors = NULL;
    result->record_error_count = 0;
    result->error_message = NULL;
}

/* --- before a log sees it --- */

/*
 * The next whole batch, as Kafka's iterator over bytes in memory finds it. CAFKA_END: no whole one.
 * A length at the edge of int32 overflows there, which the client is told as an unknown error.
 */
static int next_batch(struct bytes *rest, struct bytes *out, cafka_error *err)
{
    if (rest->size < BATCH_LOG_OVERHEAD)
        return CAFKA_END;
    int32_t length = (int32_t)load_be32(rest->data + BATCH_LENGTH_AT);
    if (length < LEAST_RECORD_SIZE)
        return error_set(err, ERR_CORRUPT_MESSAGE,
                         "Record size %d is less than the minimum record overhead (%d)", length,
                         LEAST_RECORD_SIZE);
    if (rest->size < HEADER_UP_TO_MAGIC)
        return CAFKA_END;
    int8_t magic = (int8_t)rest->data[BATCH_MAGIC_AT];
    if (magic < 0 || magic > BATCH_MAGIC)
        return error_set(err, ERR_CORRUPT_MESSAGE, "Invalid magic found in record: %d", magic);
    if (length > INT32_MAX - BATCH_LOG_OVERHEAD)
        return error_set(err, ERR_UNKNOWN_SERVER_ERROR, "A batch of %d bytes can't be", length);
    size_t size = (size_t)length + BATCH_LOG_OVERHEAD;
    if (rest->size < size)
        return CAFKA_END;
    *out = bytes_of(rest->data, size);
    *rest = bytes_of(rest->data + size, rest->size - size);
    return CAFKA_OK;
}

/* The only batch of the request. */
static int only_batch(struct bytes records, struct bytes *out, cafka_error *err)
{
    struct bytes second;
    int rc = next_batch(&records, out, err);
    if (rc == CAFKA_END)
        return error_set(err, ERR_INVALID_RECORD, "There is no whole record batch");
    if (rc)
        return rc;
    if (out->data[BATCH_MAGIC_AT] != BATCH_MAGIC)
        return error_set(err, ERR_INVALID_RECORD, "Only record batches of magic 2 are taken");
    rc = next_batch(&records, &second, err);
    if (!rc)
        return error_set(err, ERR_INVALID_RECORD, "There is more than one record batch");
    return rc == CAFKA_END ? CAFKA_OK : rc;
}

int append_check_request(struct bytes records, int produce_version, cafka_error *err)
{
    enum { ZSTD_SINCE = 7 };
    struct bytes batch;
    struct bytes rest = records;
    if (produce_version < ZSTD_SINCE && !next_batch(&rest, &batch, NULL) &&
        batch.data[BATCH_MAGIC_AT] == BATCH_MAGIC && batch.size >= RECORD_BATCH_OVERHEAD &&
        (load_be16(batch.data + BATCH_ATTRIBUTES_AT) & BATCH_CODEC_MASK) == CODEC_ZSTD)
        return error_set(err, ERR_UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version %d",
                         ZSTD_SINCE);
    return only_batch(records, &batch, err);
}

/* --- header --- */

static int check_header(const struct validation *v, const struct append_request *request,
                        struct batch_header *h, struct append_result *result, cafka_error *err)
{
    struct bytes batch;
    int rc = only_batch(request->records, &batch, err);
    if (!rc && batch.size < RECORD_BATCH_OVERHEAD)
        rc = error_set(err, ERR_CORRUPT_MESSAGE, "a batch of %zu bytes is none", batch.size);
    if (!rc)
        rc = batch_header_read(batch, h, err);
    if (rc) {
        result->log_start_offset = -1;
        return rc;
    }
    bool client = request->origin == APPEND_CLIENT;
    if (client && h->base_offset)
        return error_set(err, ERR_INVALID_RECORD,
                         "the base offset of a batch from a client is 0, not %" PRId64,
                         h->base_offset);
    if (batch.size > (size_t)v->config->max_message_bytes) {
        result->log_start_offset = -1;
        return error_set(err, ERR_MESSAGE_TOO_LARGE, "a batch of %zu bytes; max.message.bytes is %d",
                         batch.size, v->config->max_message_bytes);
    }
    cafka_error damage = {0};
    if (batch_check(batch, &damage)) {
        result->log_start_offset = -1;
        return error_set(err, ERR_CORRUPT_MESSAGE, "%s", damage.message);
    }
    if (batch_codec(h) >= CODEC_COUNT)
        return error_set(err, ERR_UNKNOWN_SERVER_ERROR, "there is no codec %d", batch_codec(h));
    if (!client)
        return CAFKA_OK;
    if (h->last_offset_delta < 0 || h->record_count <= 0 ||
        (int64_t)h->last_offset_delta + 1 != h->record_count)
        return error_set(err, ERR_INVALID_RECORD, "%d records do not fit a last offset delta of %d",
                         h->record_count, h->last_offset_delta);
    if (batch_is_control(h))
        return error_set(err, ERR_INVALID_RECORD, "clients may not write control records");
    if (h->producer_id >= 0 && h->base_sequence < 0)
        return error_set(err, ERR_INVALID_RECORD, "producer %" PRId64 " with sequence %d",
                         h->producer_id, h->base_sequence);
    return CAFKA_OK;
}

/* --- records that break the topic's rules --- */

struct refusals {
    struct append_result *result;
    size_t capacity;
    bool bad_timestamp;
    bool partial; /* Kafka's name for a record whose key and value were skipped */
};

static int refuse(struct refusals *r, int32_t index, const struct buffer *words, cafka_error *err)
{
    struct append_result *result = r->result;
    if (result->record_error_count == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 4;
        struct record_error *errors = mem_recalloc(result->record_errors, capacity, sizeof *errors);
        if (!errors)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory for the errors of records");
        result->record_errors = errors;
        r->capacity = capacity;
    }
    char *message = words->failed ? NULL : mem_strndup((const char *)words->data, words->size);
    if (!message)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the error of a record");
    result->record_errors[result->record_error_count++] = (struct record_error){index, message};
    return CAFKA_OK;
}

static int64_t minus(int64_t a, int64_t b) /* as Java: it wraps */
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static bool timestamp_is_out(const struct validation *v, int64_t timestamp)
{
    int64_t age = minus(v->now_ms, timestamp);
    return age > v->config->message_timestamp_before_max_ms ||
           minus(0, age) > v->config->message_timestamp_after_max_ms;
}

/* What is wrong with this record, into words; nothing: empty. */
static void judge(const struct validation *v, const struct batch_header *h,
                  const struct record_view *view, struct refusals *r, struct buffer *words)
{
    const struct log_config *config = v->config;
    buffer_clear(words);
    if (config->cleanup_compact && !view->key.data) {
        buffer_printf(words,
                      "Compacted topic cannot accept message without key in topic partition %s-%d",
                      v->topic, v->partition);
        return;
    }
    if (!config->log_append_time && view->timestamp != -1) {
        if (!timestamp_is_out(v, view->timestamp))
            return;
        buffer_printf(words,
                      "Timestamp %" PRId64 " of message with offset %" PRId64
                      " is out of range. The timestamp should be within [%" PRId64 ", %" PRId64 "]",
                      view->timestamp, view->offset,
                      minus(v->now_ms, config->message_timestamp_before_max_ms),
                      minus(v->now_ms, minus(0, config->message_timestamp_after_max_ms)));
    } else if (h->attributes & BATCH_LOG_APPEND_TIME) {
        buffer_printf(words,
                      "Invalid timestamp type in message %sRecord(offset=%" PRId64
                      ", timestamp=%" PRId64 ", key=%zu bytes, value=%zu bytes). "
                      "Producer should not set timestamp type to LogAppendTime.",
                      r->partial ? "PartialDefault" : "Default", view->offset, view->timestamp,
                      view->key.size, view->value.size);
    } else {
        return;
    }
    r->bad_timestamp = true;
}

/* The sentence of the whole: it quotes the first three. */
static int conclude(const struct refusals *r, cafka_error *err)
{
    enum { SHOWN = 3 };
    struct append_result *result = r->result;
    struct buffer text = {0};
    if (r->bad_timestamp) {
        buffer_printf(&text, "One or more records have been rejected due to invalid timestamp");
    } else {
        buffer_printf(&text,
                      "One or more records have been rejected due to %zu record errors in total, "
                      "and only showing the first three errors at most: [",
                      result->record_error_count);
        for (size_t i = 0; i < result->record_error_count && i < SHOWN; i++)
            buffer_printf(&text, "%sRecordError(batchIndex=%d, message='%s')", i ? ", " : "",
                          result->record_errors[i].index, result->record_errors[i].message);
        buffer_printf(&text, "]");
    }
    result->error_message = buffer_string(&text);
    if (!result->error_message)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for an error message");
    return error_set(err, r->bad_timestamp ? ERR_INVALID_TIMESTAMP : ERR_INVALID_RECORD, "%s",
                     result->error_message);
}

/* Go through all records and list those that the topic does not take. */
static int list_refusals(const struct validation *v, struct bytes batch,
                         const struct batch_header *h, bool partial, struct append_result *result,
                         cafka_error *err)
{
    struct log_shared *shared = v->shared;
    struct refusals r = {.result = result, .partial = partial};
    struct buffer words = {0};
    struct record_iter it;
    struct record_view view;
    int rc =
        batch_open(batch, h, shared->decompressor, LOG_INFLATE_LIMIT, &shared->inflated, &it, err);
    while (!rc && !record_iter_next(&it, &view, NULL)) {
        judge(v, h, &view, &r, &words);
        if (words.size || words.failed)
            rc = refuse(&r, view.index, &words, err);
    }
    buffer_fini(&words);
    if (!rc && result->record_error_count)
        rc = conclude(&r, err);
    return rc;
}

/* Far enough from the ends of int64 that differences do not wrap. */
static bool is_plain_time(int64_t timestamp)
{
    return timestamp > -(INT64_C(1) << 61) && timestamp < INT64_C(1) << 61;
}

/* Can a record be among them that the topic does not take? */
static bool needs_a_closer_look(const struct validation *v, const struct batch_header *h,
                                const struct batch_validation *seen)
{
    if (seen->problem)
        return true;
    if (v->config->cleanup_compact && seen->first_null_key >= 0)
        return true;
    if (v->config->log_append_time)
        return h->attributes & BATCH_LOG_APPEND_TIME;
    if (seen->min_timestamp == INT64_MAX && seen->max_timestamp == -1) /* all of them -1 */
        return h->attributes & BATCH_LOG_APPEND_TIME;
    if (!is_plain_time(seen->min_timestamp) || !is_plain_time(seen->max_timestamp))
        return true;
    return timestamp_is_out(v, seen->min_timestamp) ||
           (seen->max_timestamp != -1 && timestamp_is_out(v, seen->max_timestamp)) ||
           (h->attributes & BATCH_LOG_APPEND_TIME);
}

static int problem_code(enum batch_problem problem, int rc)
{
    if (rc == CAFKA_ERR_MEMORY)
        return rc;
    switch (problem) {
    case BATCH_BAD_CODEC:
    case BATCH_UNREADABLE:
    case BATCH_BAD_INNER_OFFSET: return ERR_UNKNOWN_SERVER_ERROR;
    default: return ERR_INVALID_RECORD;
    }
}

static int check_records(const struct validation *v, struct bytes batch,
                         const struct batch_header *h, bool keeps_codec,
                         struct batch_validation *seen, struct append_result *result,
                         cafka_error *err)
{
    cafka_error reason = {0};
    int rc = batch_validate_records(batch, h, v->shared->decompressor, LOG_INFLATE_LIMIT,
                                    &v->shared->inflated, seen, &reason);
    bool renumbered = seen->problem == BATCH_BAD_INNER_OFFSET && !keeps_codec;
    if (rc && !renumbered)
        return error_set(err, problem_code(seen->problem, rc), "%s", reason.message);
    if (!needs_a_closer_look(v, h, seen))
        return CAFKA_OK;
    return list_refusals(v, batch, h, keeps_codec && batch_is_compressed(h), result, err);
}

/* --- writing records anew --- */

static int level_of(const struct log_config *config, int codec)
{
    switch (codec) {
    case CODEC_GZIP: return config->compression_gzip_level;
    case CODEC_LZ4: return config->compression_lz4_level;
    case CODEC_ZSTD: return config->compression_zstd_level;
    default: return CODEC_LEVEL_DEFAULT;
    }
}

static int compressor_for(const struct validation *v, int codec, struct compressor **out,
                          cafka_error *err)
{
    struct log_shared *shared = v->shared;
    int level = level_of(v->config, codec);
    if (shared->compressors[codec] && shared->compressor_levels[codec] != level) {
        compressor_free(shared->compressors[codec]);
        shared->compressors[codec] = NULL;
    }
    if (!shared->compressors[codec]) {
        int rc = compressor_new(&shared->compressors[codec], codec, level, err);
        if (rc)
            return rc;
        shared->compressor_levels[codec] = level;
    }
    *out = shared->compressors[codec];
    return CAFKA_OK;
}

/* All records, plain, offsets 0, 1, 2 …, times relative to the first one's, into shared->plain. */
static int rewrite_records(const struct validation *v, struct bytes batch, struct batch_header *h,
                           int64_t *max_timestamp, cafka_error *err)
{
    struct log_shared *shared = v->shared;
    struct buffer *plain = &shared->plain;
    struct record_iter it;
    struct record_view view;
    cafka_error reason = {0};
    buffer_clear(plain);
    int32_t count = 0;
    *max_timestamp = -1;
    int rc =
        batch_open(batch, h, shared->decompressor, LOG_INFLATE_LIMIT, &shared->inflated, &it, err);
    int64_t base = 0;
    while (!rc && !(rc = record_iter_next(&it, &view, &reason))) {
        if (!count)
            base = view.timestamp;
        int64_t delta = minus(view.timestamp, base);
        size_t body = record_body_size(delta, count, view.key, view.value,
                                       (size_t)view.header_count, view.headers.size);
        uint8_t *p = buffer_extend(plain, record_size(body));
        if (!p)
            return error_set(err, CAFKA_ERR_MEMORY, "no memory to write a batch anew");
        p = record_put(p, body, delta, count, view.key, view.value, (size_t)view.header_count);
        if (view.headers.size)
            memcpy(p, view.headers.data, view.headers.size);
        if (view.timestamp > *max_timestamp)
            *max_timestamp = view.timestamp;
        count++;
    }
    if (rc != CAFKA_END)
        return error_set(err, ERR_INVALID_RECORD, "%s", reason.message);
    h->base_timestamp = base;
    h->record_count = count;
    h->last_offset_delta = count - 1;
    return CAFKA_OK;
}

static int compress_records(const struct validation *v, int codec, struct bytes *out,
                            cafka_error *err)
{
    struct log_shared *shared = v->shared;
    *out = bytes_of(shared->plain.data, shared->plain.size);
    if (codec == CODEC_NONE)
        return CAFKA_OK;
    struct compressor *compressor;
    int rc = compressor_for(v, codec, &compressor, err);
    if (rc)
        return rc;
    size_t bound = compressor_bound(compressor, shared->plain.size);
    buffer_clear(&shared->packed);
    if (!buffer_reserve(&shared->packed, bound))
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to compress %zu bytes", bound);
    struct iovec piece = {shared->plain.data, shared->plain.size};
    size_t size;
    rc = compressor_run(compressor, &piece, 1, shared->packed.data, bound, &size, err);
    *out = bytes_of(shared->packed.data, size);
    return rc;
}

/* The batch in the topic's codec. */
static int rebuild(const struct validation *v, struct bytes batch, int codec,
                   struct append_plan *plan, struct append_result *result, cafka_error *err)
{
    struct batch_header *h = &plan->header;
    int64_t max_timestamp;
    int rc = rewrite_records(v, batch, h, &max_timestamp, err);
    if (!rc)
        rc = compress_records(v, codec, &plan->records, err);
    if (rc)
        return rc;
    bool appended = v->config->log_append_time;
    h->attributes = (int16_t)(codec | (appended ? BATCH_LOG_APPEND_TIME : 0) |
                              (h->attributes & BATCH_TRANSACTIONAL));
    h->max_timestamp = appended ? v->now_ms : max_timestamp;
    batch_seal(h, plan->records.size, crc32c(0, plan->records.data, plan->records.size), plan->head);
    if (batch_size(h) > (size_t)v->config->max_message_bytes) {
        result->log_start_offset = -1;
        return error_set(err, ERR_MESSAGE_TOO_LARGE,
                         "a batch of %zu bytes after compression; max.message.bytes is %d",
                         batch_size(h), v->config->max_message_bytes);
    }
    return CAFKA_OK;
}

/* The batch as it came, but for its header. */
static void keep(const struct validation *v, struct bytes batch,
                 const struct batch_validation *seen, struct append_plan *plan)
{
    struct batch_header *h = &plan->header;
    plan->records = bytes_of(batch.data + RECORD_BATCH_OVERHEAD, batch.size - RECORD_BATCH_OVERHEAD);
    bool appended = v->config->log_append_time;
    int64_t max_timestamp = appended ? v->now_ms : seen->max_timestamp;
    if (max_timestamp == h->max_timestamp && !(h->attributes & BATCH_LOG_APPEND_TIME) == !appended) {
        batch_header_write(h, plan->head); /* the CRC does not cover what changed */
        return;
    }
    enum { KEPT = BATCH_CODEC_MASK | BATCH_TRANSACTIONAL | BATCH_CONTROL | BATCH_DELETE_HORIZON };
    h->attributes = (int16_t)((h->attributes & KEPT) | (appended ? BATCH_LOG_APPEND_TIME : 0));
    h->max_timestamp = max_timestamp;
    batch_seal(h, plan->records.size, batch_records_crc(batch.data, batch.size), plan->head);
}

int validate_append(const struct validation *v, const struct append_request *request,
                    struct append_plan *plan, struct append_result *result, cafka_error *err)
{
    struct batch_header *h = &plan->header;
    struct bytes batch = request->records;
    int rc = check_header(v, request, h, result, err);
    if (rc)
        return rc;
    batch.size = batch_size(h); /* a part of another one behind it is dropped */

    int codec = batch_codec(h);
    int wanted = v->config->compression_type == LOG_COMPRESSION_PRODUCER
                     ? codec
                     : v->config->compression_type;
    if (batch_is_control(h)) /* markers are never compressed */
        wanted = codec;
    struct batch_validation seen;
    rc = check_records(v, batch, h, wanted == codec, &seen, result, err);
    if (rc)
        return rc;
    h->base_offset = v->next_offset;
    h->leader_epoch = request->leader_epoch;
    plan->log_append_time = v->config->log_append_time;
    if (wanted != codec)
        return rebuild(v, batch, wanted, plan, result, err);
    keep(v, batch, &seen, plan);
    return CAFKA_OK;
}
