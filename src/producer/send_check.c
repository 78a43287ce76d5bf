/*
 * send_check.c - what a record may be, and the words for what it may not.
 */
#include "producer/send.h"

int send_no_argument(cafka_error *err)
{
    return error_set(err, CAFKA_ERR_ARGUMENT, "there is no producer, or no record");
}

int send_bad_record(const cafka_record *r, cafka_error *err)
{
    if (!r->topic && !r->topic_handle)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a record needs a topic");
    if ((r->flags & CAFKA_RECORD_PARTITION) && r->partition < 0)
        return error_set(err, CAFKA_ERR_ARGUMENT, "a record's partition is %d; 0 is the first",
                         (int)r->partition);
    if ((r->flags & CAFKA_RECORD_TIMESTAMP) && r->timestamp_ms < 0)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "a record's timestamp is %lld; it must not be negative",
                         (long long)r->timestamp_ms);
    return error_set(err, CAFKA_ERR_ARGUMENT,
                     "a record has a size but no data: key, value, or a header");
}

bool send_measure_headers(const cafka_record *r, size_t *size)
{
    *size = 0;
    if (!r->headers)
        return false;
    for (size_t i = 0; i < r->header_count; i++) {
        const cafka_header *h = &r->headers[i];
        if (!h->name || (!h->value && h->value_size))
            return false;
        if (h->name_size > INT32_MAX || h->value_size > INT32_MAX)
            *size = INT32_MAX; /* too large, which is said later */
        else
            *size += record_header_size(h->name_size ? h->name_size : strlen(h->name),
                                        bytes_of(h->value, h->value_size));
        if (*size > INT32_MAX)
            *size = INT32_MAX;
    }
    return true;
}

/* The sum of hostile sizes may overflow. */
static size_t add_sizes(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

int send_too_large(cafka_producer *producer, const cafka_record *r, size_t headers_size,
                   cafka_error *err)
{
    const char *topic = r->topic_handle ? r->topic_handle->name
                        : r->topic      ? r->topic
                                        : "(no topic)";
    size_t size = add_sizes(add_sizes(r->key_size, r->value_size),
                            headers_size + RECORD_OVERHEAD_MAX + RECORD_BATCH_OVERHEAD);
    return error_set(err, CAFKA_ERR_TOO_LARGE,
                     "a record of %zu bytes to %s exceeds max.request.size (%d) or buffer.memory (%lld)",
                     size, topic, (int)producer->settings.max_request_size_bytes,
                     (long long)producer->settings.buffer_memory_bytes);
}
