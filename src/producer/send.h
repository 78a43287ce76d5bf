/*
 * send.h - the steps of a record from the application's call into a batch.
 *
 *     send.c          one record, on the path that must be short
 *     send_slow.c     … when something stands in its way: metadata, memory, a new batch
 *     send_check.c    what a record may be, and the words for what it may not
 *     send_many.c     many records under one lock
 *     send_wait.c     one record and its result
 *     send_plugins.c  interceptors, serializers and partitioner of the application around it
 *     reserve.c       a record whose value the application writes in place
 *
 * Owner:   a call has all its state on its stack; what stays belongs to the partition's batches.
 * Thread:  any; the partition's lock is taken inside.
 * Reading: send_record() in send.c, then send_slowly().
 */
#ifndef CAFKA_PRODUCER_SEND_H
#define CAFKA_PRODUCER_SEND_H

#include <string.h>

#include "producer/room.h"

/* How a call may wait: the deadline is found out when it is needed first. */
struct patience {
    bool never;       /* try_send */
    int64_t deadline; /* 0: not known yet */
};

int64_t patience_deadline(cafka_producer *producer,
                          struct patience *patience); /* ns; 0: never wait */

/* --- send_check.c --- */

/* Says what is wrong with the record; something is. */
int send_bad_record(const cafka_record *r, cafka_error *err);
int send_no_argument(cafka_error *err);
/* Encoded size of the headers; false: there are none, one has no name, or a size without data. */
bool send_measure_headers(const cafka_record *r, size_t *size);
int send_too_large(cafka_producer *producer, const cafka_record *r, size_t headers_size,
                   cafka_error *err);

/* A negative partition or timestamp, of those that are to be used. */
static inline bool send_has_bad_numbers(const cafka_record *r)
{
    return ((r->flags & CAFKA_RECORD_PARTITION) && r->partition < 0) ||
           ((r->flags & CAFKA_RECORD_TIMESTAMP) && r->timestamp_ms < 0);
}

/* Take the record apart and check it. */
static inline __attribute__((always_inline)) int send_prepare(cafka_producer *producer,
                                                              const cafka_record *r,
                                                              struct append *out, cafka_error *err)
{
    *out = (struct append){
        .key = {r->key, r->key_size},
        .value = {r->value, r->value_size},
        .headers = r->headers,
        .header_count = r->header_count,
        .opaque = r->opaque,
    };
    if (__builtin_expect((!r->key && r->key_size) || (!r->value && r->value_size), 0))
        return send_bad_record(r, err);
    if (__builtin_expect(r->flags != 0, 0) && send_has_bad_numbers(r))
        return send_bad_record(r, err);
    if (__builtin_expect(r->header_count != 0, 0) && !send_measure_headers(r, &out->headers_size))
        return send_bad_record(r, err);
    /* One after the other, since the sum of hostile sizes may overflow. */
    size_t most = producer->accumulator.record_max;
    if (__builtin_expect(out->headers_size > most || r->key_size > most - out->headers_size ||
                             r->value_size > most - out->headers_size - r->key_size,
                         0))
        return send_too_large(producer, r, out->headers_size, err);
    return CAFKA_OK;
}

static inline int send_find_topic(cafka_producer *producer, const cafka_record *r,
                                  cafka_topic **out, cafka_error *err)
{
    if (r->topic_handle) {
        if (r->topic_handle->producer != producer)
            return error_set(err, CAFKA_ERR_ARGUMENT, "topic %s belongs to another producer",
                             r->topic_handle->name);
        *out = r->topic_handle;
        return CAFKA_OK;
    }
    if (!r->topic) {
        (void)send_bad_record(r, err); /* never CAFKA_OK, which the analyzer can't know */
        return CAFKA_ERR_ARGUMENT;
    }
    *out = topics_find(&producer->topics, r->topic);
    return *out ? CAFKA_OK : topics_get(producer, r->topic, out, err);
}

static inline int64_t send_timestamp(cafka_producer *producer, const cafka_record *r)
{
    return r->flags & CAFKA_RECORD_TIMESTAMP ? r->timestamp_ms : env_wall_ms(producer->client.env);
}

/*
 * The partition for the record, or NULL if it must wait for metadata. *sticky: the choice holds
 * only as long as it is the topic's sticky partition. No lock may be held.
 */
static inline struct partition *send_choose(cafka_producer *producer, cafka_topic *topic,
                                            const cafka_record *r, bool *sticky)
{
    struct partition_set *set = atomic_load_explicit(&topic->set, memory_order_acquire);
    *sticky = false;
    if (__builtin_expect(!set, 0))
        return NULL;
    if (r->flags & CAFKA_RECORD_PARTITION)
        return r->partition < set->count ? set->partitions[r->partition] : NULL;
    const struct producer_settings *settings = &producer->settings;
    if (__builtin_expect(settings->partitioner != PARTITIONER_DEFAULT, 0)) {
        struct partition *p =
            topic_choose_otherwise(topic, set, bytes_of(r->key, r->key ? r->key_size : 0));
        if (p)
            return p;
    } else if (r->key && !settings->partitioner_ignore_keys) {
        return set->partitions[partition_for_key(bytes_of(r->key, r->key_size), set->count)];
    }
    if (set->count == 1)
        return set->partitions[0];
    *sticky = true;
    struct partition *p = atomic_load_explicit(&topic->sticky, memory_order_acquire);
    if (__builtin_expect(!p, 0)) {
        topic_move_on(topic, NULL);
        p = atomic_load_explicit(&topic->sticky, memory_order_acquire);
    }
    return p;
}

/* p->mu held. Is it time for the sticky partitioner to move on? */
static inline bool send_count_sticky(cafka_producer *producer, struct partition *p, size_t size)
{
    int32_t batch_size = producer->settings.batch_size_bytes;
    p->sticky_bytes += (int64_t)size;
    if (__builtin_expect(p->sticky_bytes < batch_size, 1))
        return false;
    size_t open = partition_open_bytes_locked(p);
    return sticky_is_over(p->sticky_bytes, batch_size, !open || open >= (size_t)batch_size);
}

/* --- send.c --- */

/* Into a batch, without the application's plugins. */
int send_record(cafka_producer *producer, const cafka_record *r, struct patience *patience,
                cafka_error *err);
/* With them, if there are any. */
int send_any(cafka_producer *producer, const cafka_record *r, struct patience *patience,
             cafka_error *err);

/* --- send_slow.c --- */

/* A record with something in its way. What is not named by who fills it is the way's own. */
struct slow_send {
    cafka_producer *producer;
    cafka_topic *topic;
    const cafka_record *record;
    struct append *append; /* its timestamp moves on with the time waited */
    struct patience *patience;
    struct send_waiter *waiter; /* NULL: nobody waits for the record */
    struct partition *chosen; /* for good; NULL: to be chosen, or sticky and so to be asked again */
    struct block *spare;      /* that was waited for */
    size_t needed;            /* capacity of the block to wait for */
};
/* Whatever is not a plain append: metadata, a new block or batch, a full pool, waiters, the end. */
int send_slowly(struct slow_send *s, cafka_error *err);
/* Bytes to which the open batch of this topic's partitions may grow. */
size_t send_growth_limit(cafka_producer *producer, cafka_topic *topic);
/* Stand in line for a block of this capacity. */
int send_await_block(cafka_producer *producer, cafka_topic *topic, size_t needed,
                     struct patience *patience, struct block **out, cafka_error *err);
/* What an append did, once the lock is released: seal, and tell the loop. */
void send_follow_up(cafka_producer *producer, struct partition *p,
                    const struct append_outcome *outcome);
/* Why a partition that is closing takes no record. */
int send_closed(cafka_producer *producer, cafka_error *err);

/* --- send_plugins.c --- */

/* A record on its way through the plugins. */
struct plugged {
    cafka_record record; /* as it is sent */
    cafka_scratch scratch;
};

/*
 * Interceptors, serializers and partitioner, in this order; *plugged is to be ended whatever comes.
 * value_is_bytes: no value serializer. On an error nothing is to be sent.
 */
int plugged_begin(struct plugged *plugged, cafka_producer *producer, const cafka_record *r,
                  bool value_is_bytes, struct patience *patience, cafka_error *err);
/* why: the record was refused, which the interceptors are told; NULL: it was not. */
void plugged_end(struct plugged *plugged, cafka_producer *producer, const cafka_error *why);
/* The same without interceptors, for who only wants to know where the record would go. */
int plugged_begin_quietly(struct plugged *plugged, cafka_producer *producer, const cafka_record *r,
                          struct patience *patience, cafka_error *err);
/* on_acknowledgement of all interceptors. */
void plugins_acknowledge(cafka_producer *producer, const cafka_delivery_report *report);

#endif
