/*
 * idempotence.c - see idempotence.h.
 */
#include "producer/idempotence.h"

#include "record/batch.h"

bool identity_bump(struct producer_identity *identity)
{
    if (identity->epoch == INT16_MAX) {
        identity->id = -1;
        identity->epoch = -1;
        return false;
    }
    identity->epoch++;
    return true;
}

void sequences_init(struct sequences *s)
{
    *s = (struct sequences){.id = -1, .epoch = -1, .last_acked = -1};
}

void sequences_restart(struct sequences *s, const struct producer_identity *identity)
{
    sequences_init(s);
    s->id = identity->id;
    s->epoch = identity->epoch;
}

static int32_t expected(const struct sequences *s)
{
    return s->last_acked < 0 ? 0 : sequence_add(s->last_acked, 1);
}

enum sequence_gate sequences_gate(struct sequences *s, const struct producer_identity *identity,
                                  const struct gate_question *question)
{
    if (s->restart)
        return question->on_wire ? GATE_WAIT : GATE_RESTART;
    if (question->has_sequence)
        return question->on_wire ? GATE_WAIT : GATE_OPEN;
    if (question->retrying)
        return GATE_WAIT;

    if (s->unresolved) {
        if (question->on_wire)
            return GATE_WAIT;
        s->unresolved = false;
        if (s->next != expected(s)) {
            s->restart = true;
            return GATE_RESTART;
        }
    }
    if (identity->id < 0)
        return GATE_NEED_ID;
    if (s->id != identity->id || s->epoch != identity->epoch) {
        if (question->on_wire)
            return GATE_WAIT;
        sequences_restart(s, identity);
    }
    return question->on_wire && !question->confirmed ? GATE_WAIT : GATE_OPEN;
}

int32_t sequences_assign(struct sequences *s, int32_t count)
{
    int32_t sequence = s->next;
    s->next = sequence_add(sequence, count);
    return sequence;
}

static bool is_current(const struct sequences *s, const struct numbered *batch)
{
    return s->id == batch->id && s->epoch == batch->epoch;
}

/* a is before b, in numbers that wrap at 2^31. */
static bool is_before(int32_t a, int32_t b)
{
    return a != b && (((uint32_t)b - (uint32_t)a) & INT32_MAX) < (1u << 30);
}

void sequences_acknowledged(struct sequences *s, const struct numbered *batch)
{
    if (!is_current(s, batch))
        return;
    int32_t last = sequence_add(batch->sequence, batch->count - 1);
    if (s->last_acked < 0 || is_before(s->last_acked, last))
        s->last_acked = last;
}

bool sequences_refused(struct sequences *s, const struct numbered *batch)
{
    if (!is_current(s, batch))
        return true; /* the partition has begun anew since; the queue was renumbered */
    /* One that does not follow what is acknowledged waits for its turn; if it does, the broker has
     * lost what it knew of us, or misses a batch that was given up. */
    if (batch->sequence == expected(s) || s->unresolved)
        s->restart = true;
    return s->restart;
}

void sequences_given_up(struct sequences *s, const struct numbered *batch, bool maybe_written)
{
    if (!is_current(s, batch))
        return;
    if (maybe_written)
        s->unresolved = true;
    else if (sequence_add(batch->sequence, batch->count) == s->next)
        s->next = batch->sequence; /* nothing was numbered after it: as if it had never been */
    else
        s->restart = true;
}
