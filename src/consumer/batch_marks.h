/*
 * batch_marks.h - what the loop finds out about fetched batches, written where the application
 * will read it: into the CRC field of each batch of magic 2, which nobody needs once it is checked.
 *
 * So no list of batches is kept beside the bytes, and no CRC is computed twice. Batches of older
 * formats are left alone and checked by whoever opens them.
 *
 * Thread: the loop's, before the bytes are handed on.
 */
#ifndef CAFKA_CONSUMER_BATCH_MARKS_H
#define CAFKA_CONSUMER_BATCH_MARKS_H

#include "consumer/aborted.h"

enum batch_mark { BATCH_DELIVER, BATCH_SKIP, BATCH_CORRUPT };

/* What a walk found. */
struct fetch_marked {
    size_t used;          /* length of what may be handed on, whole batches only */
    int64_t next_offset;  /* the one behind it */
    int32_t leader_epoch; /* of the last intact batch; -1: it has none, or there is none */
    bool any;             /* is there an intact batch? */
    size_t compressed;    /* how many to be delivered are compressed, of magic 2 */
};

/*
 * Go through the batches of `records`: check them, and mark in each one's CRC field whether it is
 * to be delivered (enum batch_mark). Pure but for the marks; `filter` is NULL unless read_committed.
 * Errors: CAFKA_ERR_CORRUPT  a batch is damaged: it is marked so, ends the walk, and counts in `used`
 *         CAFKA_ERR_MEMORY
 */
int fetch_mark_batches(struct bytes records, int64_t fetch_offset, bool check_crcs,
                       struct aborted_filter *filter, struct fetch_marked *out, cafka_error *err);

#endif
