/*
 * delivery.h - telling the application what became of its records, once a batch.
 *
 * Owner:  a batch that is finished is the delivery's until its memory goes back to the pool.
 * Thread: delivery_finish() the loop's; the function of the application runs there or in
 *         cafka_dispatch().
 */
#ifndef CAFKA_PRODUCER_DELIVERY_H
#define CAFKA_PRODUCER_DELIVERY_H

#include <cafka/producer.h>

#include "producer/producer_batch.h"

/* A thread in cafka_producer_send_wait(); on its stack, and in the list of the batch. */
struct send_waiter {
    struct list link;
    int32_t index; /* of the record in its batch */
    int event;
    cafka_delivery_report report; /* opaque and timestamp are set before it is linked */
    cafka_error error;
};

/* The opaque, in its slot, of a record whose sender waits: it is not told to the function. */
extern char send_waiter_mark;

/*
 * The batch has its result: wake who waits for a record of it, tell the application, and give the
 * memory back as soon as nothing refers to it any more.
 */
void delivery_finish(cafka_producer *producer, struct producer_batch *batch);
/* A request no longer refers to the batch, which was finished before. */
void delivery_unpinned(cafka_producer *producer, struct producer_batch *batch);

#endif
