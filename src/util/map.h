/*
 * map.h - a hash map from bytes (or a number) to a pointer; it walks in order of insertion.
 *
 * Keys are copied into the map. Values are the caller's; the map frees none. The walk's order is
 * the same in every run, whatever the hash, so that seeded simulations replay. Removing leaves a
 * hole that the next growth closes. Zeroed is empty.
 */
#ifndef CAFKA_UTIL_MAP_H
#define CAFKA_UTIL_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct map_entry {
    void *value;
    char *key; /* NULL: a hole; otherwise terminated by a 0 that key_size does not count */
    size_t key_size;
    uint32_t hash;
};

struct map {
    struct map_entry *entries;
    uint32_t *slots; /* index into entries + 1; 0 is free */
    size_t count;    /* values in the map */
    size_t used;     /* entries used, holes too */
    size_t capacity; /* of entries */
    size_t slot_count;
};

void map_fini(struct map *m); /* frees keys and tables, not values */

void *map_get(const struct map *m, const void *key, size_t key_size); /* NULL: not there */
/* Insert or replace. Returns false when there is no memory; the map is as before. */
bool map_put(struct map *m, const void *key, size_t key_size, void *value);
void *map_remove(struct map *m, const void *key, size_t key_size); /* the value, or NULL */
void map_clear(struct map *m);

static inline void *map_get_str(const struct map *m, const char *key)
{
    return map_get(m, key, strlen(key));
}

static inline bool map_put_str(struct map *m, const char *key, void *value)
{
    return map_put(m, key, strlen(key), value);
}

static inline void *map_remove_str(struct map *m, const char *key)
{
    return map_remove(m, key, strlen(key));
}

static inline void *map_get_int(const struct map *m, int64_t key)
{
    return map_get(m, &key, sizeof key);
}

static inline bool map_put_int(struct map *m, int64_t key, void *value)
{
    return map_put(m, &key, sizeof key, value);
}

static inline void *map_remove_int(struct map *m, int64_t key)
{
    return map_remove(m, &key, sizeof key);
}

/*
 * Walk: `for (size_t i = 0; (e = map_next(m, &i));)`. The current entry may be removed during
 * the walk; nothing may be added.
 */
static inline struct map_entry *map_next(const struct map *m, size_t *position)
{
    while (*position < m->used) {
        struct map_entry *e = &m->entries[(*position)++];
        if (e->key)
            return e;
    }
    return NULL;
}

#endif
