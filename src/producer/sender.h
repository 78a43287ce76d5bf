/*
 * sender.h - the loop's side of a producer: which batches leave when, and what comes back.
 *
 * A partition that has something that may leave is in the ready list of the broker that leads it;
 * its batches are its own and move with it when the leader moves. A broker's ready partitions take
 * turns: a request takes one batch of each until max.request.size. While requests are in flight a
 * broker's partitions may be held back, never past linger.ms, so that under load requests become
 * large by themselves; and an open batch goes on growing until it is taken.
 *
 * What each partition does next is decided by sender_refresh() alone, which is called after
 * anything has changed for it: handed over, timer, answer, new leader.
 *
 * Owner:   struct cafka_producer.
 * Thread:  the loop's, but for sender_tell() and sender_wake().
 * Reading: sender_refresh() in sender.c, pump() in sender_pump.c, sender_send_one() in
 *          sender_request.c, sender_answered() in sender_answer.c, sender_apply() in
 *          sender_outcome.c; the producer id in sender_id.c; flush and close in sender_close.c.
 */
#ifndef CAFKA_PRODUCER_SENDER_H
#define CAFKA_PRODUCER_SENDER_H

#include <cafka/producer.h>

#include "producer/accumulator.h"
#include "producer/spacing.h"
#include "protocol/messages/InitProducerId.h"
#include "protocol/messages/Produce.h"

/* What the producer keeps of a broker; in broker->user. */
struct sender_broker {
    struct broker *broker;
    struct sender *sender;
    struct list link;
    struct list ready;        /* partitions, by sender_link */
    int in_flight;            /* our requests */
    int64_t ready_since_ms;   /* the broker could not be sent to since; 0: it can */
    atomic_size_t unseen;     /* bytes that appenders told of since the loop looked */
    atomic_size_t wake_bytes; /* from so many unseen bytes on the loop wants to be woken */
    bool dirty;               /* pump it at the end of this turn */
    struct spacing spacing;   /* without linger.ms */
    struct loop_alarm alarm;  /* what is held back for it may leave */
};

struct produce_call {
    struct request request; /* first */
    struct sender_broker *to;
    struct list link; /* in idle_calls, or in calls */
    struct producer_batch **batches;
    int count, capacity;
    struct iovec *iov;
    size_t iov_capacity;
};

/* Waits for the batches that there were when it began. */
struct flush {
    struct list link;
    uint64_t epoch;
    size_t left;
    void (*done)(struct flush *flush);
};

struct sender {
    cafka_producer *producer;
    struct loop_task task; /* takes what was handed over */
    atomic_bool posted;
    struct list brokers;
    struct list active; /* partitions that have any batch */
    struct list idle_calls, calls;
    atomic_int requests_in_flight; /* any thread reads it */
    uint64_t request_count;
    struct arena arena; /* of the answer being handled */
    struct decompressor *decompressor;

    int64_t slice_end_ns; /* of this turn's work, if it is much */

    /* building a request */
    struct produce_request_topic_produce_data *topics;
    struct cafka_topic **topic_of;
    struct produce_request_partition_produce_data *partitions;
    int build_capacity;

    /* sender_id.c */
    struct producer_identity identity;
    struct call id_call;
    struct init_producer_id_request id_body;
    bool id_asked;
    unsigned id_attempts;
    struct timer id_timer;
    int told_id_error;

    /* sender_close.c */
    struct list flushes; /* struct flush */
    uint64_t flush_count;
    struct flush close_flush;
    struct loop_task close_task;
    struct timer close_timer;
    int close_event;
    bool close_event_made;
    bool refusing; /* partitions take no records */
    bool closing;  /* the close task has run */
    bool purging;  /* close's time is over, or a fatal error: what is left fails */
    cafka_error purge_error;
    bool stopped;  /* nothing is left, and nothing is sent */
    size_t purged; /* records that failed because of it; read after close_over */
    atomic_bool close_posted, close_over;
    _Atomic(int64_t) close_deadline;
    struct loop_task pressure_task;
    atomic_bool pressure_posted;
};

int sender_init(struct sender *sender, cafka_producer *producer, cafka_error *err);
void sender_fini(struct sender *sender); /* after the loop has ended; takes a zeroed one */

/* --- any thread --- */

/* An append changed this: see that the loop looks in time. */
void sender_tell(cafka_producer *producer, struct partition *p,
                 const struct append_outcome *outcome);
/* The loop should look at what was handed over by then (ns). */
void sender_wake(struct sender *sender, int64_t by_ns);
/* Threads wait for memory: what there is should leave. */
void sender_relieve(struct sender *sender);

/* --- the loop's: sender.c --- */

int64_t sender_now_ms(const struct sender *sender);
bool sender_is_urgent(const struct sender *sender); /* linger.ms does not count now */
/* Take what was handed over. */
void sender_look(struct sender *sender);
/* The batch that leaves next, of those that are closed; NULL: none. */
struct producer_batch *sender_front(const struct partition *p);
/* Nothing of it may leave now. */
void sender_leave_lists(struct partition *p);
int sender_wire_broker(const struct partition *p); /* the broker that has its requests; -1: none */
/* Decide what the partition does next, from what it has, its leader, and the time. */
void sender_refresh(struct sender *sender, struct partition *p);
void sender_refresh_all(struct sender *sender); /* the active ones */
/* Leader or topic changed. */
void sender_route(struct sender *sender, struct partition *p);

/* --- sender_pump.c --- */

void sender_pump_dirty(struct sender *sender); /* send what became ready */
/* This turn's share of compressing is used up. */
bool sender_slice_is_over(const struct sender *sender);
void sender_alarm_rang(struct loop_alarm *alarm); /* of a sender_broker */
void sender_hook_writable(void *room, struct broker *broker, enum lane lane);
void sender_hook_down(void *room, struct broker *broker, enum lane lane, const cafka_error *why);

/* --- sender_request.c, sender_gate.c --- */

/* Build one request and send it. False: nothing was there that may leave, or it failed. */
bool sender_send_one(struct sender *sender, struct sender_broker *to, struct conn *conn);
void sender_requests_free(struct sender *sender); /* those that are idle, and those nobody answers */
enum sequence_gate sender_gate(struct sender *sender, struct sender_broker *to, struct partition *p);

/* --- sender_answer.c, sender_outcome.c --- */

void sender_answered(struct request *request, const struct reply *reply);
/* The batch is done with: success if error is NULL. It must be in no list. */
void sender_finish(struct sender *sender, struct producer_batch *batch, const cafka_error *error);
/* Put it back into the queue, where its number says. */
void sender_requeue(struct partition *p, struct producer_batch *batch);

/* --- sender_fail.c --- */

void sender_expire(struct sender *sender, struct partition *p);
/* Fail every batch there is, and what is still being sealed as soon as it is. */
void sender_fail_all(struct sender *sender, const cafka_error *why);
void sender_purge(struct sender *sender, struct partition *p);
/* Fail what there is now, in flight, queued, or both (CAFKA_PURGE_*); batches that are being sealed escape. */
void sender_purge_now(struct sender *sender, unsigned what, const cafka_error *why);
/* The producer can't go on: fail everything, now and later. */
void sender_fatal(struct sender *sender, const cafka_error *why);

/* --- sender_id.c --- */

/* Ask for a producer id, unless that is under way. sender_refresh_all() when it is there. */
void sender_need_id(struct sender *sender);
void sender_id_stop(struct sender *sender);

/* --- sender_close.c --- */

struct flush_call;
/* Everything that was appended before leaves at once. Let go of it by flush_drop(). */
int flush_start(cafka_producer *producer, struct flush_call **out, cafka_error *err);
int flush_wait(struct flush_call *call, int64_t deadline, cafka_error *err); /* CAFKA_ERR_TIMEOUT */
void flush_drop(struct flush_call *call);                                    /* takes NULL */
/* The loop: a batch with this flush_mark is finished and was reported, or one became several. */
void sender_batch_done(struct sender *sender, uint64_t flush_mark);
void sender_batch_split(struct sender *sender, const struct producer_batch *batch, size_t children);
/* The loop: if nobody is in a hurry any more, linger.ms counts again. */
void sender_calm(struct sender *sender);

/* No partition takes records any more. */
void sender_refuse_all(struct sender *sender);
int closing_init(cafka_producer *producer, cafka_error *err);
/* Any thread. Stop taking records, deliver, and at the deadline (ns) fail the rest. A shorter one counts. */
void closing_start(cafka_producer *producer, int64_t deadline);
/* Until all is reported. CAFKA_ERR_TIMEOUT: a callback of the application holds the loop. */
int closing_wait(cafka_producer *producer, int64_t deadline, cafka_error *err);
void closing_fini(cafka_producer *producer); /* after the loop has ended; takes a zeroed one */

#endif
