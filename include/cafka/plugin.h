/*
 * cafka/plugin.h - functions of yours on the way of a record: interceptors, serializers, a
 * partitioner. None is needed, and one that is not set costs nothing.
 *
 *     cafka_producer_send                        cafka_fetch_next
 *       on_send of each interceptor, in order      key and value deserializer
 *       key and value serializer                   on_consume of each interceptor, in order
 *       partitioner
 *       … batch, broker, answer …
 *       on_acknowledgement of each interceptor
 *       delivery function
 *
 * Each kind is a struct of functions that is filled and given to a configuration by one of the
 * setters below; config and clients copy the struct, but not what `user` and `name` point to, which
 * must outlive the clients. Functions that are NULL are left out.
 *
 *     static int add_origin(cafka_record *record, cafka_scratch *scratch, void *user)
 *     {
 *         size_t count = record->header_count;
 *         cafka_header *headers = cafka_scratch_alloc(scratch, (count + 1) * sizeof *headers);
 *         if (!headers)
 *             return CAFKA_ERR_MEMORY;
 *         if (count)
 *             memcpy(headers, record->headers, count * sizeof *headers);
 *         headers[count] = (cafka_header){.name = "origin", .value = user, .value_size = 4};
 *         record->headers = headers;
 *         record->header_count = count + 1;
 *         return CAFKA_OK;
 *     }
 *     cafka_producer_interceptor interceptor = {
 *         .size = sizeof interceptor, .user = "shop", .on_send = add_origin};
 *     if (cafka_config_add_producer_interceptor(config, &interceptor, &err))
 *         return die(&err);
 *
 * Memory: what a function hands back (a changed key, bytes of an object) is its own memory, or
 * from cafka_scratch_alloc(), which is freed by the library at the moment that the function's
 * comment says. So nothing needs to be kept or freed by who writes a plugin.
 *
 * Thread: a producer's functions run on the thread that sends, several at once if several threads
 * send; on_acknowledgement runs where delivery functions run. A consumer's run inside its calls, on
 * the polling thread. No lock of the library is held, and none of them should wait for anything. A
 * record that is sent by one of them is a record like any other, and comes by the interceptors too.
 *
 * Source: ProducerInterceptor, ConsumerInterceptor, Serializer, Deserializer, Partitioner of the
 * Java client (KIP-42, KIP-512).
 */
#ifndef CAFKA_PLUGIN_H
#define CAFKA_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include <cafka/config.h>
#include <cafka/consumer.h>
#include <cafka/error.h>
#include <cafka/producer.h>
#include <cafka/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Memory for the time of one record, aligned for any object and not cleared; NULL if there is none.
 * Never freed by the caller.
 */
CAFKA_API void *cafka_scratch_alloc(cafka_scratch *scratch, size_t size);

/* A view of bytes, or of an object. data NULL is null. */
typedef struct cafka_bytes {
    const void *data;
    size_t size;
} cafka_bytes;

/* ---- interceptors ---- */

/* Around the records of a producer. Several form a chain, in the order in which they were added. */
struct cafka_producer_interceptor {
    size_t size;      /* sizeof(cafka_producer_interceptor) */
    const char *name; /* for the log; NULL: its number */
    void *user;
    /*
     * A record is about to be sent: *record is a copy that may be changed, and what the last
     * interceptor leaves of it is sent. record->topic is always set and record->topic_handle never
     * is; key and value are what the application gave, before serializers. opaque may be changed
     * too, and then comes back changed. Whatever the record points to must stay as it is until the
     * send function returns, which is when scratch memory goes.
     *
     * Returns CAFKA_OK. Anything else is logged as a warning and the record is as if this interceptor
     * did not exist; no interceptor can keep a record from being sent.
     */
    int (*on_send)(cafka_record *record, cafka_scratch *scratch, void *user);
    /*
     * A record was acknowledged or has failed, once for each record that on_send saw. Runs before
     * the delivery function, where that runs. A record that a send function refuses is told here
     * too, by the thread that sends and before that function returns: report->code is then what
     * it returns, the offset -1, and the partition -1 if none was chosen yet. A record of
     * cafka_producer_send_wait() is told on its thread, before that returns.
     * The report and its texts are valid during the call.
     */
    void (*on_acknowledgement)(const cafka_delivery_report *report, void *user);
    /* Once for each producer, in cafka_producer_free(), after everything else. */
    void (*on_close)(void *user);
};

/* Around the records of a consumer. Several form a chain, in the order in which they were added. */
struct cafka_consumer_interceptor {
    size_t size;      /* sizeof(cafka_consumer_interceptor) */
    const char *name; /* for the log; NULL: its number */
    void *user;
    /*
     * cafka_fetch_next() is about to hand out a record: *view may be changed (key, value and their
     * sizes, timestamp), after the deserializers. What it points to must live as long as the
     * application may look at it; scratch memory lives until the next cafka_fetch_next() or until the
     * fetch is freed, whichever comes first.
     *
     * Returns CAFKA_OK; CAFKA_DROP: the record is not handed out but counts as read; anything else
     * is logged as a warning and the record is as if this interceptor did not exist.
     */
    int (*on_consume)(cafka_record_view *view, cafka_scratch *scratch, void *user);
    /* Offsets were committed to the group, whichever way. The positions are valid during the call. */
    void (*on_commit)(const cafka_position *positions, size_t count, void *user);
    /* Once for each consumer, in cafka_consumer_free(), after everything else. */
    void (*on_close)(void *user);
};

/* on_consume: leave this record out. */
#define CAFKA_DROP 1

/* ---- serializers ---- */

/*
 * Objects to bytes. With one set, key (or value) of a cafka_record points to an object of the
 * application and key_size is whatever it likes: both are handed over as they are, on the thread
 * that sends and before the send function returns, so that the object may live on the stack. A NULL
 * pointer stays null and is not handed over.
 */
struct cafka_serializer {
    size_t size;      /* sizeof(cafka_serializer) */
    const char *name; /* for messages; NULL: none */
    void *user;
    /*
     * Put the bytes of `object` into *out. They are copied into the batch before the send function
     * returns, and must stay as they are until then; scratch memory goes then. out->data NULL makes
     * it null. `record` is the record as the interceptors left it, with its topic; headers may be
     * added to it (a schema's number, say), nothing else changed.
     *
     * Returns CAFKA_OK; anything else fails the send with CAFKA_ERR_SERIALIZATION, the number and
     * err->message, if it wrote a text there. err is never NULL.
     */
    int (*serialize)(cafka_record *record, cafka_bytes object, cafka_bytes *out,
                     cafka_scratch *scratch, void *user, cafka_error *err);
    /* Once for each producer, in cafka_producer_free(). */
    void (*on_close)(void *user);
};

/*
 * Bytes to objects. With one set, key (or value) of a cafka_record_view points to an object, and
 * key_size is what the deserializer says. Null stays null and is not handed over.
 */
struct cafka_deserializer {
    size_t size;      /* sizeof(cafka_deserializer) */
    const char *name; /* for messages; NULL: none */
    void *user;
    /*
     * Make an object of `bytes` and put it into *out (a size of at most UINT32_MAX). `view` is the
     * record with its topic and headers, and with key and value as they were received. The object may
     * point into the bytes. Scratch memory lives until the next cafka_fetch_next() or until the fetch
     * is freed, whichever comes first; an object that shall live longer is the application's own.
     *
     * Returns CAFKA_OK; anything else is an error of cafka_fetch_next(), CAFKA_ERR_SERIALIZATION,
     * that names topic, partition and offset, with the number and err->message, if it wrote a text
     * there; the position stays in front of the record. err is never NULL.
     */
    int (*deserialize)(const cafka_record_view *view, cafka_bytes bytes, cafka_bytes *out,
                       cafka_scratch *scratch, void *user, cafka_error *err);
    /* Once for each consumer, in cafka_consumer_free(). */
    void (*on_close)(void *user);
};

/* ---- partitioner ---- */

/* What a partitioner decides by. Valid during the call. */
typedef struct cafka_partition_question {
    size_t size; /* sizeof(cafka_partition_question) of the library */
    const char *topic;
    cafka_topic *topic_handle;
    cafka_bytes key, value;  /* as they will be sent */
    int32_t partition_count; /* 1 or more */
} cafka_partition_question;

/* The answer of a partitioner that has no opinion on a record: partitioner.class decides. */
#define CAFKA_PARTITION_DEFAULT INT32_MAX

struct cafka_partitioner {
    size_t size;      /* sizeof(cafka_partitioner) */
    const char *name; /* for messages; NULL: none */
    void *user;
    /*
     * The partition, from 0 on, for a record that names none. A negative one, or one that the topic
     * does not have, fails the send with CAFKA_ERR_ARGUMENT. It may be asked again for the same
     * record, if that had to wait.
     */
    int32_t (*partition)(const cafka_partition_question *question, void *user);
    /* Once for each producer, in cafka_producer_free(). */
    void (*on_close)(void *user);
};

/* 1: the partition exists and is known to have a leader. Any thread; never waits. */
CAFKA_API int cafka_topic_has_leader(const cafka_topic *topic, int32_t partition);

/*
 * The partition that every Kafka client chooses for a key: its murmur2 hash, modulo the count (1 or
 * more; else -1). A pure function.
 */
CAFKA_API int32_t cafka_partition_for_key(const void *key, size_t key_size, int32_t count);

#ifdef __cplusplus
}
#endif

#endif
