/*
 * repeats.h - which items of a list carry the same key, in linear time: lists come from clients.
 *
 * Thread: its owner's.
 */
#ifndef CAFKA_MOCKBROKER_REPEATS_H
#define CAFKA_MOCKBROKER_REPEATS_H

#include "util/bytes.h"
#include "util/map.h"

/* Zeroed is empty. */
struct repeats {
    struct map first; /* key -> index of the first item + 1; negative: there are more of it */
    bool failed;      /* no memory: ask at the end */
};

static inline void repeats_add(struct repeats *r, const void *key, size_t size, int32_t index)
{
    const void *k = size ? key : "";
    intptr_t at = (intptr_t)map_get(&r->first, k, size);
    if (at >= 0)
        r->failed |= !map_put(&r->first, k, size, (void *)(at ? -at : (intptr_t)index + 1));
}

static inline bool repeats_is_first(const struct repeats *r, const void *key, size_t size,
                                    int32_t index)
{
    intptr_t at = (intptr_t)map_get(&r->first, size ? key : "", size);
    return (at < 0 ? -at : at) == (intptr_t)index + 1;
}

static inline bool repeats_are_many(const struct repeats *r, const void *key, size_t size)
{
    return (intptr_t)map_get(&r->first, size ? key : "", size) < 0;
}

static inline void repeats_fini(struct repeats *r)
{
    map_fini(&r->first);
}

#endif
