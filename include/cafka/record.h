/*
 * cafka/record.h - a record as an application hands it over, and what producers and consumers
 * have in common: headers.
 *
 * Everything is by pointer and length: a NULL pointer is null, a pointer with length 0 is empty.
 * Key, value and header values are bytes of any kind; names are UTF-8.
 */
#ifndef CAFKA_RECORD_H
#define CAFKA_RECORD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A header of a record. Names are UTF-8 and may repeat. A NULL value is null. Views, not owned. */
typedef struct cafka_header {
    const char *name;
    size_t name_size; /* as input: 0 with a name means strlen(name) */
    const void *value;
    size_t value_size;
} cafka_header;

/* A topic that was looked up once: cafka_producer_topic(). It belongs to the producer. */
typedef struct cafka_topic cafka_topic;

/* What cafka_record.flags announces. */
enum {
    CAFKA_RECORD_TIMESTAMP = 1u << 0, /* timestamp_ms is to be used */
    CAFKA_RECORD_PARTITION = 1u << 1  /* partition is to be used */
};

/* A record to send. Zeroed, it is a record without key and value to no topic. Frozen. */
typedef struct cafka_record {
    const char *topic;         /* or … */
    cafka_topic *topic_handle; /* … this one, which saves a look-up by name per record */
    const void *key;
    size_t key_size;
    const void *value;
    size_t value_size;
    const cafka_header *headers;
    size_t header_count;
    void *opaque;          /* comes back in the delivery report */
    int64_t timestamp_ms;  /* Unix time, with CAFKA_RECORD_TIMESTAMP; else the time of the call */
    int32_t partition;     /* with CAFKA_RECORD_PARTITION; else the partitioner chooses */
    unsigned flags;        /* CAFKA_RECORD_* */
    uintptr_t reserved[2]; /* zero */
} cafka_record;

#ifdef __cplusplus
}
#endif

#endif
