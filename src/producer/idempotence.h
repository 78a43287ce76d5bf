/*
 * idempotence.h - producer id, epoch and sequences: what keeps a retried batch from being written twice.
 *
 * A broker keeps, for each producer id and partition, the sequence of the last record, and takes a
 * batch only if it follows without a gap; a batch that it has already is acknowledged again. Here
 * is the producer's side, as pure bookkeeping: when a partition's next batch may leave, which
 * sequence it gets, and what an answer means for those behind it.
 *
 * What may be numbered anew is only what is known not to be in the log. The broker's refusal of a
 * gap is such knowledge: if it misses sequence n, it has nothing after n either. So after a batch
 * whose outcome stays unknown, the ones behind it are first offered with their old numbers; only
 * when one of them is refused does the partition start again with a new epoch.
 *
 *  1. A batch keeps id, epoch and sequence over all its attempts, until a restart.
 *  2. A restart happens only with nothing of the partition on the wire.
 *  3. A batch that is sent again is alone on the wire: nothing new goes behind it, since a broker
 *     knows the last five batches only and must still know this one.
 *  4. Until the leader has acknowledged one batch, one is on the wire: a leader that knows nothing
 *     of the producer takes any first sequence.
 *
 * Thread:  the loop's. No I/O, no clock.
 * Reading: sequences_gate(), then sequences_answered().
 */
#ifndef CAFKA_PRODUCER_IDEMPOTENCE_H
#define CAFKA_PRODUCER_IDEMPOTENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Of the whole producer. */
struct producer_identity {
    int64_t id; /* -1: none yet */
    int16_t epoch;
};

/* A local epoch bump; false, and no id any more, when epochs are used up: ask for a new id. */
bool identity_bump(struct producer_identity *identity);

/* Of one partition. */
struct sequences {
    int64_t id; /* what the sequences belong to; -1: none yet */
    int16_t epoch;
    int32_t next;       /* of the next batch that has none yet */
    int32_t last_acked; /* last record acknowledged; -1: none */
    bool unresolved;    /* a batch is given up that may have been written: nothing new leaves */
    bool restart;       /* numbers must begin anew, with a newer epoch */
};

void sequences_init(struct sequences *s);

/* What the sender knows when it asks. */
struct gate_question {
    bool has_sequence; /* the batch at the front was numbered before */
    int on_wire;       /* batches of the partition in requests */
    bool retrying;     /* one of them is sent again */
    bool confirmed;    /* this leader has acknowledged a batch of ours */
};

enum sequence_gate {
    GATE_OPEN,    /* send it; if it has no sequence, sequences_assign() */
    GATE_WAIT,    /* for answers that are on their way */
    GATE_NEED_ID, /* InitProducerId first */
    GATE_RESTART /* renumber the queue: take all numbers from it, bump the producer's epoch if it is
                     still this partition's, then sequences_restart(), and ask again */
};
enum sequence_gate sequences_gate(struct sequences *s, const struct producer_identity *identity,
                                  const struct gate_question *question);

/* Begin at 0 with this id and epoch. */
void sequences_restart(struct sequences *s, const struct producer_identity *identity);

/* The sequence for a batch of so many records. */
int32_t sequences_assign(struct sequences *s, int32_t count);

/* A numbered batch, as it was sent. */
struct numbered {
    int64_t id;
    int16_t epoch;
    int32_t sequence, count;
};

/* It is in the log. */
void sequences_acknowledged(struct sequences *s, const struct numbered *batch);

/*
 * The broker refused it for its number (OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID). It is to
 * be sent again in any case; true if with a new number, which sequences_gate() will ask for.
 */
bool sequences_refused(struct sequences *s, const struct numbered *batch);

/*
 * It is given up. maybe_written: an attempt has an unknown outcome, so the ones behind it are first
 * offered with their old numbers.
 */
void sequences_given_up(struct sequences *s, const struct numbered *batch, bool maybe_written);

#endif
