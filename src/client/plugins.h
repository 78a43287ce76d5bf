/*
 * plugins.h - the application's functions on the way of a record, as a configuration holds them.
 *
 * Clients read them from the copy of the configuration in their settings: client_plugins(). Beside
 * them lives what all plugins are given: scratch memory for the time of one record.
 *
 * Owner:   struct cafka_config. A struct cafka_scratch belongs to who handles the record: the stack
 *          of a send, or a consumer.
 * Thread:  plugins never change once a client has its copy; a scratch is one thread's at a time.
 * Reading: struct plugins, then <cafka/plugin.h>.
 */
#ifndef CAFKA_CLIENT_PLUGINS_H
#define CAFKA_CLIENT_PLUGINS_H

#include <stdbool.h>

#include <cafka/plugin.h>

#include "util/arena.h"

/* size 0 in one of the single structs: it was not set. */
struct plugins {
    cafka_producer_interceptor *producer_interceptors;
    size_t producer_interceptor_count;
    cafka_consumer_interceptor *consumer_interceptors;
    size_t consumer_interceptor_count;
    cafka_serializer key_serializer, value_serializer;
    cafka_deserializer key_deserializer, value_deserializer;
    cafka_partitioner partitioner;
};

/* What *from has, for a *to that was not valid before and holds nothing after a failure. */
int plugins_copy(struct plugins *to, const struct plugins *from, cafka_error *err);
void plugins_fini(struct plugins *plugins); /* takes a zeroed one */

/* Once per client, at the end of its life: on_close of what a producer, or a consumer, uses. */
void plugins_close_producer(const struct plugins *plugins);
void plugins_close_consumer(const struct plugins *plugins);

/*
 * Memory for the time of one record: a first piece that costs nothing to have, and an arena behind
 * it. Not cleared by scratch_init(), so that it is cheap on a stack.
 */
struct cafka_scratch {
    struct arena arena;
    size_t used; /* of `first` */
    union {
        max_align_t align;
        unsigned char bytes[512];
    } first;
};

static inline void scratch_init(struct cafka_scratch *scratch)
{
    scratch->arena = (struct arena){0};
    scratch->used = 0;
}
/* All that was handed out is gone; the arena keeps a block for the next record. */
static inline void scratch_reset(struct cafka_scratch *scratch)
{
    if (scratch->arena.blocks)
        arena_reset(&scratch->arena);
    scratch->used = 0;
}
static inline void scratch_fini(struct cafka_scratch *scratch)
{
    if (scratch->arena.blocks)
        arena_fini(&scratch->arena);
    scratch->used = 0;
}

#endif
