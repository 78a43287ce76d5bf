/*
 * cafka/producer.h - sending records to topics.
 *
 * A producer takes records on any thread, gathers them in batches, one queue a partition, and
 * sends the batches to the brokers that lead the partitions. Retries, new leaders and broken
 * connections are its own business; order within a partition and, with enable.idempotence (the
 * default), each record exactly once in the log are kept through all of it.
 *
 *     cafka_producer *producer;
 *     cafka_error err;
 *     if (cafka_producer_open(&producer, "bootstrap.servers=localhost:9092", &err))
 *         return die(&err);
 *     cafka_record record = {.topic = "greetings", .value = "hello", .value_size = 5};
 *     int rc = cafka_producer_send(producer, &record, &err);
 *     if (!rc)
 *         rc = cafka_producer_close(producer, 10000, &err); // delivers, and says what failed
 *     cafka_producer_free(producer);
 *     if (rc)
 *         return die(&err);
 *
 * What "acknowledged" means is acks:
 *
 *     all  the in-sync replicas have it, min.insync.replicas of them at least: it is lost only if all
 *          of those are, or a replica that was behind is made leader (unclean election)
 *     1    the leader has it: it is lost if the leader dies before a follower has fetched it
 *     0    it was written to the socket: nothing is known of what became of it, no offset and no
 *          error, and it is lost with the connection
 *
 * Without enable.idempotence (which needs acks=all) a record is written twice if an answer is lost,
 * and order within a partition is kept only with max.in.flight.requests.per.connection=1: what
 * failed and is sent again comes behind what left after it.
 *
 * Memory is bounded by buffer.memory, time by delivery.timeout.ms: a record that was taken is
 * acknowledged or failed by then, and with a delivery function (cafka_config_on_delivery())
 * reported exactly once.
 *
 * Thread: every function may be called on any thread, unless it says otherwise; calls on one
 * producer may overlap, but for cafka_producer_free().
 */
#ifndef CAFKA_PRODUCER_H
#define CAFKA_PRODUCER_H

#include <stddef.h>
#include <stdint.h>

#include <cafka/config.h>
#include <cafka/error.h>
#include <cafka/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Make a producer from properties as text, one "name=value" a line, or from a configuration, which
 * is copied. Returns at once: brokers are found in the background, and what is wrong with them is
 * told by the first send() that runs out of time, by the event function and by the log.
 *
 * The caller owns *out and gives it back with cafka_producer_free().
 * Errors:  CAFKA_ERR_CONFIG   a property is unknown or its value is; the message names all of them
 *          CAFKA_ERR_MEMORY, CAFKA_ERR_SYSTEM
 * Blocks:  no.
 */
CAFKA_API int cafka_producer_open(cafka_producer **out, const char *properties, cafka_error *err);
CAFKA_API int cafka_producer_new(cafka_producer **out, const cafka_config *config, cafka_error *err);

/*
 * Queue one record for delivery and return without waiting for the broker.
 *
 * Key, value and headers are copied; the caller keeps its own. If the result is CAFKA_OK,
 * record->opaque comes back exactly once in a delivery report; otherwise it never does.
 *
 * Errors:  CAFKA_ERR_TIMEOUT      buffer.memory stayed used up, or the topic or partition unknown,
 *                                 for max.block.ms; the record was not taken, the same call may work
 *          CAFKA_ERR_TOO_LARGE    the record exceeds max.request.size or buffer.memory, or what the
 *                                 topic was found to take; a retry cannot help
 *          CAFKA_ERR_WOULD_BLOCK  it would have to wait, and this is the loop's thread, a callback,
 *                                 or cafka_producer_try_send()
 *          CAFKA_ERR_ARGUMENT     no topic, a negative partition or timestamp, a size without pointer,
 *                                 or the application's partitioner chose what there is not
 *          CAFKA_ERR_SERIALIZATION  a serializer of the application failed (<cafka/plugin.h>)
 *          CAFKA_ERR_CLOSED       the producer is closing
 *          CAFKA_ERR_MEMORY
 *          a protocol error       the topic cannot be written to: INVALID_TOPIC_EXCEPTION,
 *                                 TOPIC_AUTHORIZATION_FAILED; or the producer has failed for good
 * Blocks:  up to max.block.ms, first come first served.
 */
CAFKA_API int cafka_producer_send(cafka_producer *producer, const cafka_record *record,
                                  cafka_error *err);

/* The same, but never waits: CAFKA_ERR_WOULD_BLOCK where cafka_producer_send() would. */
CAFKA_API int cafka_producer_try_send(cafka_producer *producer, const cafka_record *record,
                                      cafka_error *err);

/*
 * Queue many records, in order. Cheaper than one by one, since neighbours of one partition share
 * the work. Stops at the first record that is not taken: *accepted (may be NULL) says how many were
 * taken before it, and the error is its. The records are the caller's, as with cafka_producer_send().
 * Errors:  as cafka_producer_send().  Blocks: up to max.block.ms in all.
 */
CAFKA_API int cafka_producer_send_many(cafka_producer *producer, const cafka_record *records,
                                       size_t count, size_t *accepted, cafka_error *err);

/*
 * A record whose value is written by the application where it will be sent from, so that a large
 * one is never copied:
 *
 *     cafka_reservation *reservation;
 *     void *value;
 *     cafka_record record = {.topic = "images", .value_size = most_bytes};
 *     if (cafka_producer_reserve(producer, &record, &reservation, &value, &err))
 *         return die(&err);
 *     size_t bytes = encode(image, value, most_bytes);
 *     if (cafka_producer_commit(producer, reservation, bytes, &err))
 *         return die(&err);
 *
 * reserve takes room for record->value_size bytes (record->value is ignored) out of buffer.memory
 * and puts the place, aligned to 16 bytes and not cleared, into *value. The record is copied as a struct; its
 * topic, key and headers must stay as they are until the reservation is over. It is over with
 * cafka_producer_commit(), whatever that returns, or with cafka_producer_abandon(), which takes
 * NULL; after that the place must not be touched, and before cafka_producer_free() each must be over.
 *
 * The record is taken at commit, with a value of the first value_size bytes, at most as many as were
 * reserved: then its partition is chosen, its time is the present one, and it stands behind all
 * that was sent before. Until then it is in no batch, so nobody waits for it: other records go on
 * to the same partition, whether from this thread, another one or a callback; batches become full and
 * leave; a flush is over without it; and a close, too, after which commit returns CAFKA_ERR_CLOSED. It
 * holds its share of buffer.memory all the while, at least a block (batch.size, 16 KiB at most).
 *
 * A value below a quarter of a block is moved, once and at commit, into the batch that is open, since
 * a block for each would waste memory. With a codec values are read where they were written. With plugins
 * (<cafka/plugin.h>), interceptors and the partitioner see the record at commit, and the value is
 * taken as bytes, without its serializer; an interceptor that changes it has it copied.
 *
 * Errors:  of reserve  as cafka_producer_send(), but nothing was taken
 *          of commit   CAFKA_ERR_ARGUMENT  more than was reserved, or another producer's
 *                      CAFKA_ERR_CLOSED, and what has made the producer fail for good
 *                      all of cafka_producer_send(), where an interceptor changed the record
 * Thread:  any; a reservation may be handed from one to another.
 * Blocks:  reserve as cafka_producer_send(); commit and abandon do not, but for changed records.
 */
typedef struct cafka_reservation cafka_reservation;
CAFKA_API int cafka_producer_reserve(cafka_producer *producer, const cafka_record *record,
                                     cafka_reservation **out, void **value, cafka_error *err);
CAFKA_API int cafka_producer_commit(cafka_producer *producer, cafka_reservation *reservation,
                                    size_t value_size, cafka_error *err);
CAFKA_API void cafka_producer_abandon(cafka_producer *producer, cafka_reservation *reservation);

/* What became of one record. */
typedef struct cafka_delivery_report {
    void *opaque;      /* the record's */
    const char *topic; /* valid as long as the producer */
    int32_t partition;
    int code;             /* CAFKA_OK, or why it was not delivered */
    int64_t offset;       /* -1: not known (acks=0, a duplicate, or not delivered) */
    int64_t timestamp_ms; /* that the log has: the record's, or the broker's if the topic says so */
    const cafka_error *error; /* with a code: the text, valid in the callback; NULL from send_wait() */
    uintptr_t reserved[2];
} cafka_delivery_report;

/*
 * Send one record and wait until it was delivered or has failed. `out` may be NULL. The record is
 * not reported to the delivery function.
 *
 * Returns  the record's own result; else as cafka_producer_send(), and
 *          CAFKA_ERR_IN_CALLBACK  not allowed on the loop's thread or in a callback
 * Blocks:  up to max.block.ms + delivery.timeout.ms.
 */
CAFKA_API int cafka_producer_send_wait(cafka_producer *producer, const cafka_record *record,
                                       cafka_delivery_report *out, cafka_error *err);

/*
 * Send now whatever waits, without regard to linger.ms, and wait until every record that was
 * taken before this call is delivered or has failed. timeout_ms -1 waits for that as long as it
 * takes, 0 only starts it.
 *
 * How single records ended is what delivery reports tell, and flush fails only if it could not
 * wait. Without a delivery function it also returns the first failure since the last flush.
 * Errors:  CAFKA_ERR_TIMEOUT      some are still on their way, and go on being sent
 *          CAFKA_ERR_IN_CALLBACK  not allowed on the loop's thread or in a callback, unless 0
 *          CAFKA_ERR_MEMORY, CAFKA_ERR_SYSTEM
 * Blocks:  up to timeout_ms.
 */
CAFKA_API int cafka_producer_flush(cafka_producer *producer, int64_t timeout_ms, cafka_error *err);

/* What cafka_producer_purge() drops. */
enum {
    CAFKA_PURGE_QUEUED = 1u << 0,   /* records that wait to be sent, for the first time or again */
    CAFKA_PURGE_IN_FLIGHT = 1u << 1 /* records that were sent and are not answered yet */
};

/*
 * Drop records that were taken and are not delivered yet; the producer goes on. Each is reported once, as
 * always, with CAFKA_ERR_PURGED, and CAFKA_UNKNOWN_OUTCOME among the flags if it was sent: then
 * it may be in the log all the same. When this returns they have failed, and their reports have run
 * or, with callback.dispatch=queue, are there for cafka_dispatch(). Inside a callback it returns at
 * once, and they fail after the callback. Records that other threads send meanwhile may escape.
 *
 * What is in flight goes on holding buffer.memory until its request ends.
 * Errors:  CAFKA_ERR_ARGUMENT, CAFKA_ERR_MEMORY
 * Blocks:  until the loop has done it, which waits for no broker.
 */
CAFKA_API int cafka_producer_purge(cafka_producer *producer, unsigned what, cafka_error *err);

/*
 * Stop taking records, deliver what was taken, and stop. What is not delivered when the time is
 * over fails with CAFKA_ERR_PURGED, or CAFKA_UNKNOWN_OUTCOME among the flags if it was sent
 * already; -1 waits as long as delivery takes. Every record is reported before this returns, unless
 * it returns CAFKA_ERR_TIMEOUT because the loop had no time left for all of them: then the rest is
 * reported right after it, and before cafka_producer_free() returns.
 * A second close joins the first, and one with a shorter time shortens it.
 *
 * Returns within timeout_ms whatever brokers and callbacks do (the last tenth of it, at most 100 ms,
 * is for failing and reporting what is left; with 0 that alone takes up to 100 ms).
 * Errors:  CAFKA_ERR_TIMEOUT      records were failed because the time was over (the message says
 *                                 how many), or a callback of the application still runs: then the
 *                                 loop finishes when it returns
 *          any                    without a delivery function: the first failure since the last flush
 *          CAFKA_ERR_IN_CALLBACK  inside a callback only a timeout of 0 is allowed, which closes
 *                                 without waiting: the rest is reported after the callback returns
 */
CAFKA_API int cafka_producer_close(cafka_producer *producer, int64_t timeout_ms, cafka_error *err);

/*
 * Free the producer; takes NULL. Closes it with a timeout of 0 if it is not closed. Not inside a
 * callback of the same producer, and no other call may run or follow; topics and reservations of it
 * are gone. Blocks: until a callback that is running has returned.
 */
CAFKA_API void cafka_producer_free(cafka_producer *producer);

/*
 * A topic by name, for cafka_record.topic_handle. Belongs to the producer and is valid until that
 * is freed. Does not wait; the topic need not exist yet.
 * Errors:  CAFKA_ERR_ARGUMENT  not a legal topic name;  CAFKA_ERR_MEMORY, CAFKA_ERR_CLOSED
 */
CAFKA_API int cafka_producer_topic(cafka_producer *producer, const char *name, cafka_topic **out,
                                   cafka_error *err);
/* Its name, valid as long as the topic; NULL for NULL. Any thread. */
CAFKA_API const char *cafka_topic_name(const cafka_topic *topic);

/*
 * How many partitions a topic has. Waits for metadata up to timeout_ms (-1: max.block.ms).
 * Errors:  as the metadata part of cafka_producer_send()
 */
CAFKA_API int cafka_producer_partitions(cafka_producer *producer, const char *topic,
                                        int64_t timeout_ms, int32_t *count, cafka_error *err);

/*
 * Where a record would go if it were sent now: the partition it names, or what key, serializers and
 * the partitioner in use say; interceptors are not asked. -1: that is up to chance, or to what is
 * sent before it. Nothing is sent, and of the round robin no turn is taken.
 * Errors:  as cafka_producer_send();  Blocks: up to max.block.ms, for metadata
 */
CAFKA_API int cafka_producer_partition_for(cafka_producer *producer, const cafka_record *record,
                                           int32_t *partition, cafka_error *err);

/* What a producer holds at this moment. */
typedef struct cafka_producer_use {
    size_t size;                    /* sizeof(cafka_producer_use), set by the caller */
    int64_t buffer_total_bytes;     /* buffer.memory */
    int64_t buffer_available_bytes; /* of it; below 0 for a moment after a batch had to be split */
    int64_t records;                /* taken, and not reported yet */
    int32_t requests_in_flight;     /* sent, and not answered yet */
    int32_t waiting_threads;        /* that wait for buffer.memory */
} cafka_producer_use;

/*
 * Fills *out. Numbers are read one after the other while other threads go on, so two of them may be a
 * moment apart. Costs a look at each partition that was sent to, and nothing per record.
 * Errors: CAFKA_ERR_ARGUMENT.  Thread: any, callbacks too.  Blocks: no.
 */
CAFKA_API int cafka_producer_stats(cafka_producer *producer, cafka_producer_use *out);

/* The producer as a client, for what all clients have: cafka_client_fd(), cafka_dispatch(). */
CAFKA_API cafka_client *cafka_producer_client(cafka_producer *producer);

/* ---- inside a delivery function: a finished batch; all of it valid until the function returns ---- */

/*
 * The next record of the batch, in the order of sending: CAFKA_OK, or CAFKA_END after the last.
 * Reading them is a matter of taste; a batch that is not iterated is reported all the same.
 */
CAFKA_API int cafka_delivery_next(cafka_delivery *delivery, cafka_delivery_report *out);

CAFKA_API const char *cafka_delivery_topic(const cafka_delivery *delivery);
CAFKA_API int32_t cafka_delivery_partition(const cafka_delivery *delivery);
CAFKA_API size_t cafka_delivery_count(const cafka_delivery *delivery); /* records */
/* The offset of the first record; record i has this + i. -1: not known. */
CAFKA_API int64_t cafka_delivery_base_offset(const cafka_delivery *delivery);
/* The broker's time, if the topic stamps records itself; else -1. */
CAFKA_API int64_t cafka_delivery_append_time_ms(const cafka_delivery *delivery);
/*
 * Why the batch failed; NULL: it was delivered. Where the broker refused single records, their
 * reports have errors of their own and this is the batch's.
 */
CAFKA_API const cafka_error *cafka_delivery_error(const cafka_delivery *delivery);

#ifdef __cplusplus
}
#endif

#endif
