/*
 * map.c - see map.h. Entries lie in an array in order of insertion; slots are an open-addressed
 * index over it. A removed entry keeps its slot until the tables are rebuilt.
 */
#include "util/map.h"

#include "util/alloc.h"
#include "util/hash.h"

void map_fini(struct map *m)
{
    map_clear(m);
    mem_free(m->entries);
    mem_free(m->slots);
    *m = (struct map){0};
}

void map_clear(struct map *m)
{
    for (size_t i = 0; i < m->used; i++)
        mem_free(m->entries[i].key);
    m->count = m->used = 0;
    if (m->slots)
        memset(m->slots, 0, m->slot_count * sizeof *m->slots);
}

static struct map_entry *find(const struct map *m, const void *key, size_t key_size, uint32_t hash)
{
    if (!m->slot_count)
        return NULL;
    for (size_t i = hash & (m->slot_count - 1);; i = (i + 1) & (m->slot_count - 1)) {
        if (!m->slots[i])
            return NULL;
        struct map_entry *e = &m->entries[m->slots[i] - 1];
        if (e->key && e->hash == hash && e->key_size == key_size && !memcmp(e->key, key, key_size))
            return e;
    }
}

static void index_entry(struct map *m, size_t position)
{
    size_t i = m->entries[position].hash & (m->slot_count - 1);
    while (m->slots[i])
        i = (i + 1) & (m->slot_count - 1);
    m->slots[i] = (uint32_t)position + 1;
}

/* Room for one more entry: closes holes, and doubles the tables when more than half is used. */
static bool make_room(struct map *m)
{
    if (m->used < m->capacity)
        return true;
    size_t capacity = m->count * 2 < 8 ? 8 : m->count * 2;
    if (capacity > UINT32_MAX / 4)
        return false;
    size_t slot_count = 16;
    while (slot_count < capacity * 2)
        slot_count *= 2;
    struct map_entry *entries = mem_calloc(capacity, sizeof *entries);
    uint32_t *slots = entries ? mem_calloc(slot_count, sizeof *slots) : NULL;
    if (!slots) {
        mem_free(entries);
        return false;
    }
    size_t used = 0;
    for (size_t i = 0; i < m->used; i++)
        if (m->entries[i].key)
            entries[used++] = m->entries[i];
    mem_free(m->entries);
    mem_free(m->slots);
    m->entries = entries;
    m->slots = slots;
    m->used = used;
    m->capacity = capacity;
    m->slot_count = slot_count;
    for (size_t i = 0; i < used; i++)
        index_entry(m, i);
    return true;
}

void *map_get(const struct map *m, const void *key, size_t key_size)
{
    struct map_entry *e = find(m, key, key_size, hash_bytes(key, key_size));
    return e ? e->value : NULL;
}

bool map_put(struct map *m, const void *key, size_t key_size, void *value)
{
    uint32_t hash = hash_bytes(key, key_size);
    struct map_entry *e = find(m, key, key_size, hash);
    if (e) {
        e->value = value;
        return true;
    }
    if (!make_room(m))
        return false;
    char *copy = mem_strndup(key, key_size);
    if (!copy)
        return false;
    m->entries[m->used] = (struct map_entry){value, copy, key_size, hash};
    index_entry(m, m->used);
    m->used++;
    m->count++;
    return true;
}

void *map_remove(struct map *m, const void *key, size_t key_size)
{
    struct map_entry *e = find(m, key, key_size, hash_bytes(key, key_size));
    if (!e)
        return NULL;
    mem_free(e->key);
    e->key = NULL;
    m->count--;
    return e->value;
}
