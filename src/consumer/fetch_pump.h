/*
 * fetch_pump.h - when a Fetch leaves for a broker, and how much it asks for.
 *
 * Owner:   struct fetch_broker, of the fetcher, one for each broker that is fetched from.
 * Thread:  the loop's.
 * Reading: fetch_pump(); fetch_request.c puts the request together, fetch_answer.c takes the answer apart.
 */
#ifndef CAFKA_CONSUMER_FETCH_PUMP_H
#define CAFKA_CONSUMER_FETCH_PUMP_H

#include "consumer/fetcher.h"

/*
 * What a partition wants may be another thing now: take it into its broker's session and counts, or
 * out of them. To be called after every change of its state, place, pause, delay or queued bytes.
 */
void fetch_review(struct consumer_partition *p);

/* It is not to be read there any more: out of its broker's session and counts. */
void fetch_withdraw(struct consumer_partition *p);

/* For broker->user; NULL: no memory, or no such broker. */
struct fetch_broker *fetch_broker_of(struct fetcher *fetcher, int32_t id);
void fetch_broker_free(struct fetch_broker *fb);

/* Send the next fetch to a broker if it is time for one. Takes NULL. */
void fetch_pump(struct fetch_broker *fb);
void fetch_pump_all(struct fetcher *fetcher);
void fetch_close_session(struct fetch_broker *fb);

#endif
