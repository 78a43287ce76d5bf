/*
 * cafka/consumer.h - read records from partitions, in order, at a position that follows you.
 *
 *     if (cafka_consumer_open(&c, "bootstrap.servers=localhost:9092\nauto.offset.reset=earliest", &err) ||
 *         cafka_consumer_assign(c, &(cafka_position){.topic = "greetings", .partition = 0}, 1, &err))
 *         return die(&err);
 *     while (!stopped) {
 *         if (cafka_consumer_poll(c, 1000, &fetch, &err)) // *fetch is NULL if nothing came in time
 *             return die(&err);
 *         while (!(rc = cafka_fetch_next(fetch, &record, &err)))
 *             use(record.value, record.value_size);
 *         if (rc != CAFKA_END)
 *             fprintf(stderr, "%s\n", err.message); // of one partition; the others go on
 *         cafka_fetch_free(fetch);
 *     }
 *     if (cafka_consumer_close(c, 10000, &err))
 *         fprintf(stderr, "%s\n", err.message);
 *     cafka_consumer_free(c);
 *
 * The client's loop fetches ahead while the application works, within fetch.buffer.memory: bytes
 * received, inflated and still held by the application all count. Records are decoded where they
 * lie when the application asks for them; nothing is copied or allocated per record.
 *
 * The position follows the iterator: a record counts as read when cafka_fetch_next() has handed it
 * out. What a fetch that is freed early had not handed out comes again at the next poll.
 *
 * Thread: one thread at a time uses a consumer; a second one that comes in meanwhile gets
 * CAFKA_ERR_CONCURRENT and changes nothing. Exceptions are named: wakeup, and reading views. Going
 * through a fetch belongs to the polling thread, too, but is not checked, record by record. Event
 * functions, deserializers and interceptors run inside these calls, on the thread that makes them;
 * inside of one a call that would wait gets CAFKA_ERR_IN_CALLBACK, and all others work.
 * Blocks: only what has a timeout, in milliseconds: -1 waits for ever, 0 not at all.
 * Errors: every call may return CAFKA_ERR_ARGUMENT (NULL where nothing may be NULL),
 * CAFKA_ERR_CONCURRENT, CAFKA_ERR_CLOSED, CAFKA_ERR_FORKED (the consumer is the parent process's) and
 * CAFKA_ERR_MEMORY; a call that waits also CAFKA_ERR_WAKEUP, CAFKA_ERR_IN_CALLBACK and
 * CAFKA_ERR_WOULD_BLOCK (this is the loop's thread). The others are named at each. What a call writes
 * through its pointers it writes on success only, unless it says otherwise; err may be NULL.
 * Source: KafkaConsumer of the Java client, whose rules hold where nothing else is said.
 */
#ifndef CAFKA_CONSUMER_H
#define CAFKA_CONSUMER_H

#include <stddef.h>
#include <stdint.h>

#include <cafka/config.h>
#include <cafka/error.h>
#include <cafka/record.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cafka_fetch cafka_fetch;

/* Offsets that stand for a place in the log, and ListOffsets timestamps with the same meaning. */
#define CAFKA_OFFSET_END \
    INT64_C(-1) /* behind the last record (the last stable one with read_committed) */
#define CAFKA_OFFSET_BEGINNING INT64_C(-2) /* the first record that is there */
#define CAFKA_OFFSET_MAX_TIMESTAMP \
    INT64_C(-3) /* the record with the largest timestamp (brokers from 3.0) */
/* A look-up's answer "there is none". No place: whoever is given it to start at refuses it. */
#define CAFKA_OFFSET_NONE INT64_C(-1001)

/* What of a cafka_position is meant to be used. */
enum {
    CAFKA_POSITION_OFFSET = 1u << 0, /* offset: a number, or CAFKA_OFFSET_BEGINNING, _END */
    /* leader_epoch: of the record before the offset, so that a truncation is noticed (KIP-320) */
    CAFKA_POSITION_LEADER_EPOCH = 1u << 1,
    /* timestamp_ms, unless there is an offset: the first record as new as that, or else the end */
    CAFKA_POSITION_TIMESTAMP = 1u << 2
};

/* A partition and, perhaps, a place in it. As input a zeroed one with a topic means its partition 0. */
typedef struct cafka_position {
    const char *topic;
    int32_t partition;
    unsigned flags;
    int64_t offset;       /* with CAFKA_POSITION_OFFSET */
    int64_t timestamp_ms; /* with CAFKA_POSITION_TIMESTAMP; always of cafka_consumer_list_offsets() */
    int32_t leader_epoch; /* -1 as output: not known */
    int error;            /* output: CAFKA_OK, or why this one has no answer */
} cafka_position;

/* A record where it lies. Valid while its fetch, or a reference to its memory, is alive. Frozen. */
typedef struct cafka_record_view {
    const void *key;     /* NULL: null */
    const void *value;   /* NULL: null (a tombstone on a compacted topic) */
    const void *headers; /* encoded; read with cafka_record_view_header() */
    const char *topic;
    const void *memory; /* for cafka_record_ref() */
    int64_t offset;
    int64_t timestamp_ms; /* Unix time; -1: none */
    uint32_t key_size, value_size, headers_size;
    int32_t partition;
    int32_t leader_epoch; /* of the leader that appended it; -1: not known (message format before 2) */
    uint8_t timestamp_type; /* CAFKA_TIMESTAMP_… */
    uint8_t reserved[3];
} cafka_record_view;

enum {
    CAFKA_TIMESTAMP_NONE = 0, /* message format 0 */
    CAFKA_TIMESTAMP_CREATE_TIME = 1,
    CAFKA_TIMESTAMP_LOG_APPEND_TIME = 2
};

/*
 * Open a consumer from "name=value" lines, or from a configuration (which is copied). Does not
 * wait for a broker: what is wrong with the cluster is told by the first call that needs it, and to
 * the event function. The caller owns it until cafka_consumer_free(). Any thread.
 *
 * Errors:  CAFKA_ERR_CONFIG   a property is unknown, has a bad value or clashes with another
 *          CAFKA_ERR_SYSTEM   no thread or descriptor was to be had
 */
CAFKA_API int cafka_consumer_open(cafka_consumer **out, const char *properties, cafka_error *err);
CAFKA_API int cafka_consumer_new(cafka_consumer **out, const cafka_config *config, cafka_error *err);

/*
 * Take exactly these partitions, and drop all others. With CAFKA_POSITION_OFFSET or _TIMESTAMP one
 * starts there; without, one that was assigned before keeps its position, its pause and what was
 * fetched ahead, and a new one starts where auto.offset.reset says.
 * Topics need not exist yet. count 0 drops everything. Does not block.
 *
 * Errors:  CAFKA_ERR_ARGUMENT   a topic is missing or its name is not one, a number is negative, or
 *                               an offset is CAFKA_OFFSET_NONE (with the flag or without): what a
 *                               look-up did not find is no place, and whether that means the end,
 *                               auto.offset.reset (offset 0, no flag) or something else is yours
 *                               to say. Nothing is changed.
 */
CAFKA_API int cafka_consumer_assign(cafka_consumer *consumer, const cafka_position *positions,
                                    size_t count, cafka_error *err);
/*
 * The same for some partitions, and the others stay as they are: add takes or moves these, remove
 * drops them, whether they are assigned or not. Each costs what it changes, not what is assigned.
 * Does not block. Errors: CAFKA_ERR_ARGUMENT, and nothing is changed.
 */
CAFKA_API int cafka_consumer_assign_add(cafka_consumer *consumer, const cafka_position *positions,
                                        size_t count, cafka_error *err);
CAFKA_API int cafka_consumer_assign_remove(cafka_consumer *consumer, const cafka_position *positions,
                                           size_t count, cafka_error *err);

/*
 * Records that are there, at most max.poll.records of them, or wait for some up to timeout_ms.
 * Returns at once when data is there. *out is NULL when nothing came in time; otherwise the caller
 * owns it and frees it with cafka_fetch_free(), before or after the next poll. Beginning a poll
 * ends the iteration of an earlier fetch; what that had not handed out comes with this one.
 * It also returns early, with *out NULL, when cafka_consumer_at_end() becomes true meanwhile without
 * a record: empty partitions, or nothing but the marks of transactions up to the end.
 *
 * Errors:  CAFKA_ERR_WAKEUP       cafka_consumer_wakeup() was called
 *          CAFKA_ERR_STATE        nothing is assigned
 *          CAFKA_ERR_CLOSED       it is closed; also when an event function closed it meanwhile
 * After any of them no record is lost, and *out is NULL. Errors of a single partition come from
 * cafka_fetch_next(); those of the cluster (no broker can be reached) go to the event function, and
 * poll goes on waiting.
 * Thread:  one at a time.  Blocks: up to timeout_ms.
 * Source:  KafkaConsumer.poll.
 */
CAFKA_API int cafka_consumer_poll(cafka_consumer *consumer, int64_t timeout_ms, cafka_fetch **out,
                                  cafka_error *err);

/*
 * The next record. CAFKA_END when the fetch has no more (also of NULL). Any other code is the
 * error of one partition, whose topic, partition and offset the message and *out name: a corrupt
 * batch, a record that can't be decoded, an offset out of range with auto.offset.reset=none, a
 * missing right. Its position stays, the other partitions flow, and calling again goes on; such an
 * error is told again about once a second until cafka_consumer_seek() or an assignment moves on.
 *
 * With deserializers and interceptors (<cafka/plugin.h>) it is this call that runs them, on the one
 * record that it hands out. CAFKA_ERR_SERIALIZATION: a deserializer failed; *out is then the record as
 * it was received, for a dead letter, and out->offset + 1 is where to seek to.
 *
 * Thread: the polling one.  Blocks: never.
 */
CAFKA_API int cafka_fetch_next(cafka_fetch *fetch, cafka_record_view *out, cafka_error *err);

/*
 * As many of the next records as there is room for, in one call: consecutive ones of one partition,
 * so that going through a fetch by this goes through it partition by partition (which may come
 * again, with later records). Fewer than there is room for does not mean the end.
 *
 *     cafka_record_view views[100];
 *     while (!(rc = cafka_fetch_next_batch(fetch, views, 100, &count, &err)))
 *         work_on(views[0].topic, views[0].partition, views, count);
 *
 * CAFKA_OK: *count is 1 or more. CAFKA_END, or the error of one partition, as cafka_fetch_next():
 * *count is 0, and views[0] names the place of the error. Objects that deserializers make of all
 * these records live until the next call.
 *
 * Thread: the polling one.
 */
CAFKA_API int cafka_fetch_next_batch(cafka_fetch *fetch, cafka_record_view *views, size_t room,
                                     size_t *count, cafka_error *err);

/*
 * How many records the fetch can still hand out: max.poll.records at most, and 0 once another poll
 * has begun. Told by the headers of batches, so no record is decoded for it: fewer may come
 * where the log is compacted, an interceptor drops some, or an error is met; more may come, as they
 * arrive. Thread: the polling one.
 */
CAFKA_API size_t cafka_fetch_count(const cafka_fetch *fetch);

/*
 * Bytes of memory that the fetch holds, so that its views stay valid: whole answers and inflated
 * batches, which count in fetch.buffer.memory until the last that holds them lets go. It grows as
 * records are handed out. Thread: the polling one.
 */
CAFKA_API size_t cafka_fetch_bytes(const cafka_fetch *fetch);

/*
 * Give the records back: what was handed out is done with, what was not comes again. Views become
 * invalid unless a reference holds their memory. Before or after the consumer is closed or freed.
 * Takes NULL. Any thread.
 */
CAFKA_API void cafka_fetch_free(cafka_fetch *fetch);

/* One more owner of a fetch, for another thread that reads its views; each frees it once. Any thread. */
CAFKA_API cafka_fetch *cafka_fetch_ref(cafka_fetch *fetch);

/*
 * Hold the memory of one record (the batch it was inflated with, or the answer it arrived in, and
 * nothing else of its fetch), beyond the fetch and even beyond the consumer. All of it counts in
 * fetch.buffer.memory until cafka_record_unref(), on any thread, so what is to be kept for long is
 * better copied. NULL of a copy, or of a view that names the place of an error: nothing is to hold.
 */
typedef struct cafka_record_memory cafka_record_memory;
CAFKA_API cafka_record_memory *cafka_record_ref(const cafka_record_view *view);
CAFKA_API void cafka_record_unref(cafka_record_memory *memory); /* takes NULL */

/*
 * A record of the caller's own: key, value, headers and topic are copied, in one allocation, and
 * what was null is null. It depends on nothing, counts in no budget, and is read like any view. Of
 * an object that a deserializer made only the key_size or value_size bytes that the view points to are
 * copied. Errors: CAFKA_ERR_MEMORY, CAFKA_ERR_ARGUMENT. Any thread.
 */
CAFKA_API int cafka_record_copy(cafka_record_view **out, const cafka_record_view *view,
                                cafka_error *err);
CAFKA_API void cafka_record_copy_free(cafka_record_view *copy); /* takes NULL; not for other views */

/*
 * Header number `index`, from 0 on, of all (name NULL) or of those with this name, in the order in which
 * they were sent. Name and value of *out are views like the record's. CAFKA_END: there is none.
 * Any thread.
 */
CAFKA_API int cafka_record_view_header(const cafka_record_view *view, const char *name,
                                       size_t index, cafka_header *out);

/*
 * Go on reading at an offset (or CAFKA_OFFSET_BEGINNING, _END). Data fetched ahead for the
 * partition is dropped. Whether the offset exists shows when the partition is read: if not,
 * auto.offset.reset decides. A pause stays. Does not block.
 *
 * Errors:  CAFKA_ERR_STATE      the partition is not assigned
 *          CAFKA_ERR_ARGUMENT   there is no such offset (CAFKA_OFFSET_NONE, say)
 */
CAFKA_API int cafka_consumer_seek(cafka_consumer *consumer, const char *topic, int32_t partition,
                                  int64_t offset, cafka_error *err);

/*
 * The same for many partitions, each with CAFKA_POSITION_OFFSET, or with CAFKA_POSITION_TIMESTAMP: a
 * time, which is looked up before the partition is read on (cafka_consumer_position() waits for
 * it). Where no record is that new it goes on at the end. Does not block.
 *
 * Errors:  CAFKA_ERR_STATE      one of them is not assigned
 *          CAFKA_ERR_ARGUMENT   one has neither flag, or an offset or time that cannot be
 *          In either case none has moved.
 * Source:  KafkaConsumer.seek, seekToBeginning, seekToEnd.
 */
CAFKA_API int cafka_consumer_seek_many(cafka_consumer *consumer, const cafka_position *positions,
                                       size_t count, cafka_error *err);

/*
 * Stop and go on handing out records of partitions. What was fetched ahead is kept, and counts in
 * fetch.buffer.memory meanwhile; nothing more is fetched of a paused one. Pausing twice is pausing
 * once, and a pause ends when the partition is no longer assigned. Does not block.
 *
 * Errors:  CAFKA_ERR_STATE   one of them is not assigned; none has changed
 */
CAFKA_API int cafka_consumer_pause(cafka_consumer *consumer, const cafka_position *positions,
                                   size_t count, cafka_error *err);
CAFKA_API int cafka_consumer_resume(cafka_consumer *consumer, const cafka_position *positions,
                                    size_t count, cafka_error *err);

/*
 * The offset of the next record that will be handed out. If it has to be found first (by
 * auto.offset.reset, or after a seek to the beginning, the end or a time) it waits for that, up to
 * timeout_ms.
 *
 * Errors:  CAFKA_ERR_TIMEOUT     it was not found in time; the same call may work later
 *          CAFKA_ERR_STATE       the partition is not assigned
 *          CAFKA_ERR_NO_OFFSET   there is none, and auto.offset.reset is none
 *          or what the broker answered for the partition
 */
CAFKA_API int cafka_consumer_position(cafka_consumer *consumer, const char *topic, int32_t partition,
                                      int64_t timeout_ms, int64_t *offset, cafka_error *err);

/*
 * What is assigned, with positions as far as known: then with CAFKA_POSITION_OFFSET, else with
 * offset 0. *count: in, room; out, how many there are. Given back to cafka_consumer_assign() it
 * changes nothing but that data fetched ahead is fetched again. Does not block.
 */
CAFKA_API int cafka_consumer_assignment(cafka_consumer *consumer, cafka_position *out,
                                        size_t *count, cafka_error *err);

/*
 * For each entry the first offset whose record has a timestamp of at least timestamp_ms, or of the
 * place that CAFKA_OFFSET_BEGINNING, _END or _MAX_TIMESTAMP in timestamp_ms names. Fills error,
 * and offset, timestamp_ms of that record (-1: none) and leader_epoch (-1: not known). An entry
 * has the flag CAFKA_POSITION_OFFSET afterwards only if an offset was found; else its offset is
 * CAFKA_OFFSET_NONE: with error CAFKA_OK there is no record that new (or none at all, for
 * _MAX_TIMESTAMP), otherwise error says why it has no answer.
 *
 * The partitions need not be assigned. Blocks up to the timeout.
 *
 * Errors:  CAFKA_ERR_TIMEOUT or the first entry's error   no entry could be answered in time
 *          CAFKA_ERR_WAKEUP, CAFKA_ERR_ARGUMENT
 * Source:  KafkaConsumer.offsetsForTimes, beginningOffsets, endOffsets.
 */
CAFKA_API int cafka_consumer_list_offsets(cafka_consumer *consumer, cafka_position *positions,
                                          size_t count, int64_t timeout_ms, cafka_error *err);
CAFKA_API int cafka_consumer_begin_offsets(cafka_consumer *consumer, cafka_position *positions,
                                           size_t count, int64_t timeout_ms, cafka_error *err);
CAFKA_API int cafka_consumer_end_offsets(cafka_consumer *consumer, cafka_position *positions,
                                         size_t count, int64_t timeout_ms, cafka_error *err);

/*
 * Low and high watermark of an assigned partition as of the last answer: the first offset that is
 * there, and the one behind the last that all in-sync replicas have. -1: not known yet. Does not
 * block, asks nobody. Either may be NULL. Errors: CAFKA_ERR_STATE (not assigned).
 */
CAFKA_API int cafka_consumer_watermarks(cafka_consumer *consumer, const char *topic,
                                        int32_t partition, int64_t *low, int64_t *high,
                                        cafka_error *err);

/*
 * How many records there were behind the position at the last answer: the last stable offset (with
 * isolation.level=read_committed) or the high watermark, less the position. topic NULL: the
 * largest of all assigned partitions. *lag is -1 while the position or the end is not known yet (of
 * any of them). A number that is there anyway: no request, no wait.
 *
 * Errors:  CAFKA_ERR_STATE    it is not assigned, or nothing is
 * Source:  KafkaConsumer.currentLag (KIP-695).
 */
CAFKA_API int cafka_consumer_lag(cafka_consumer *consumer, const char *topic, int32_t partition,
                                 int64_t *lag, cafka_error *err);

/*
 * 1: every record that the assigned partitions had at the last answer has been handed out, which is
 * a lag of 0. 0: not yet, not known yet, or nothing is assigned. No request, no wait, no error.
 * To read what there is and stop:
 *
 *     while (!cafka_consumer_at_end(c)) {
 *         if (cafka_consumer_poll(c, -1, &fetch, &err)) // returns at the end, too
 *             return die(&err);
 *         while (!(rc = cafka_fetch_next(fetch, &record, &err)))
 *             use(record.value, record.value_size);
 *         cafka_fetch_free(fetch);
 *         if (rc != CAFKA_END)
 *             return die(&err); // else a partition that can't be read is waited for
 *     }
 *
 * Producers that go on writing move the end. For an end that stands still ask
 * cafka_consumer_end_offsets() first, and stop when each cafka_consumer_position() has reached it.
 * examples/read_to_end.c does that. Paused partitions count like others.
 */
CAFKA_API int cafka_consumer_at_end(cafka_consumer *consumer);

/*
 * How many partitions a topic has. Waits up to timeout_ms for a broker to say so; it may make the
 * topic, with allow.auto.create.topics and a broker that does.
 *
 * Errors:  CAFKA_ERR_TIMEOUT               nobody said in time
 *          3 (UNKNOWN_TOPIC_OR_PARTITION)  there is no such topic
 *          17 (INVALID_TOPIC_EXCEPTION), 29 (TOPIC_AUTHORIZATION_FAILED)
 * Source:  KafkaConsumer.partitionsFor.
 */
CAFKA_API int cafka_consumer_partitions(cafka_consumer *consumer, const char *topic,
                                        int64_t timeout_ms, int32_t *count, cafka_error *err);

/*
 * End the wait of the call that blocks now; if none does, the next poll or call that would block
 * ends at once. It returns CAFKA_ERR_WAKEUP, and no record is lost. Several before one is noticed
 * are one; it comes before a position moves, never after. Any thread, and signal handlers, while the
 * consumer is not freed. Takes NULL. Source: KafkaConsumer.wakeup.
 */
CAFKA_API void cafka_consumer_wakeup(cafka_consumer *consumer);

/*
 * Stop: close the fetch sessions as far as that can be done until the deadline, then the
 * connections. Returns within timeout_ms in every state, with brokers that are dead or silent too. A
 * wakeup does not end it. Fetches that are not freed hand out nothing more; their views, references and
 * copies stay valid. Later calls get CAFKA_ERR_CLOSED; a second close is CAFKA_OK.
 *
 * Errors:  CAFKA_ERR_TIMEOUT       it is closed, but the loop is still busy with it; free waits for that
 *          CAFKA_ERR_IN_CALLBACK   inside a callback only close(0) is allowed
 */
CAFKA_API int cafka_consumer_close(cafka_consumer *consumer, int64_t timeout_ms, cafka_error *err);

/*
 * Free it; closes first, without waiting for brokers, if that was not done. Not inside a callback
 * (where it would be leaked, with a line in the log). Fetches, references and copies may be freed
 * before or after. No other thread may be inside, or call wakeup any more. Takes NULL.
 */
CAFKA_API void cafka_consumer_free(cafka_consumer *consumer);

/* What it has in common with producers and admins (<cafka/client.h>); NULL of NULL. Lives as long as it does. */
CAFKA_API cafka_client *cafka_consumer_client(cafka_consumer *consumer);

#ifdef __cplusplus
}
#endif

#endif
