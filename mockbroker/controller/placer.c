/*
 * placer.c - see placer.h.
 */
#include "mockbroker/controller/placer.h"

#include <assert.h>
#include <stdlib.h>

#include "protocol/error_codes.h"
#include "util/alloc.h"

/* Brokers that are handed out in turn; each round begins one further. */
struct ring {
    int32_t *ids;
    int count;
    int taken; /* in this round */
    int start;
    int round;
};

struct rack {
    const char *name; /* NULL: brokers without a rack */
    struct ring live, fenced;
};

struct placer {
    struct rng *rng;
    struct rack *racks;
    int rack_count;
    int total, live;
    int round;      /* partitions placed since the last shuffle */
    int first_rack; /* where the next partition begins */
};

static int compare_ids(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int compare_racks(const void *a, const void *b)
{
    const char *x = ((const struct rack *)a)->name, *y = ((const struct rack *)b)->name;
    if (!x || !y)
        return (x != NULL) - (y != NULL);
    return strcmp(x, y);
}

static void ring_init(struct ring *ring, struct rng *rng)
{
    if (!ring->count)
        return;
    qsort(ring->ids, (size_t)ring->count, sizeof *ring->ids, compare_ids);
    ring->start = (int)rng_below(rng, (uint64_t)ring->count);
}

/* The next broker of this round, or -1 when all were handed out. */
static int32_t ring_next(struct ring *ring, int round)
{
    if (!ring->count)
        return -1;
    if (ring->round != round) {
        ring->round = round;
        ring->taken = 0;
        ring->start = (ring->start + 1) % ring->count;
    }
    if (ring->taken == ring->count)
        return -1;
    return ring->ids[(ring->start + ring->taken++) % ring->count];
}

static void shuffle_ids(int32_t *ids, int count, struct rng *rng)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)rng_below(rng, (uint64_t)i + 1);
        int32_t id = ids[i];
        ids[i] = ids[j];
        ids[j] = id;
    }
}

static void shuffle(struct placer *p)
{
    for (int i = p->rack_count - 1; i > 0; i--) {
        int j = (int)rng_below(p->rng, (uint64_t)i + 1);
        struct rack rack = p->racks[i];
        p->racks[i] = p->racks[j];
        p->racks[j] = rack;
    }
    for (int i = 0; i < p->rack_count; i++) {
        shuffle_ids(p->racks[i].live.ids, p->racks[i].live.count, p->rng);
        shuffle_ids(p->racks[i].fenced.ids, p->racks[i].fenced.count, p->rng);
    }
}

static struct rack *find_rack(struct placer *p, const char *name)
{
    for (int i = 0; i < p->rack_count; i++) {
        const char *other = p->racks[i].name;
        if (other == name || (other && name && !strcmp(other, name)))
            return &p->racks[i];
    }
    struct rack *rack = &p->racks[p->rack_count++];
    *rack = (struct rack){.name = name};
    return rack;
}

static bool add_broker(struct placer *p, const struct broker_image *broker, size_t most)
{
    struct rack *rack = find_rack(p, broker->rack);
    struct ring *ring = broker->fenced ? &rack->fenced : &rack->live;
    if (!ring->ids)
        ring->ids = mem_calloc(most, sizeof *ring->ids);
    if (!ring->ids)
        return false;
    ring->ids[ring->count++] = broker->id;
    p->total++;
    p->live += !broker->fenced;
    return true;
}

int placer_new(struct placer **out, const struct image *image, struct rng *rng, cafka_error *err)
{
    size_t count = image->brokers.count;
    struct placer *p = mem_zalloc(sizeof *p);
    bool ok = p && (p->racks = mem_calloc(count ? count : 1, sizeof *p->racks));
    struct map_entry *e;
    for (size_t i = 0; ok && (e = map_next(&image->brokers, &i));)
        ok = add_broker(p, e->value, count);
    if (!ok) {
        placer_free(p);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to place replicas");
    }
    p->rng = rng;
    qsort(p->racks, (size_t)p->rack_count, sizeof *p->racks, compare_racks);
    for (int i = 0; i < p->rack_count; i++) {
        ring_init(&p->racks[i].live, rng);
        ring_init(&p->racks[i].fenced, rng);
    }
    if (p->rack_count)
        p->first_rack = (int)rng_below(rng, (uint64_t)p->rack_count);
    *out = p;
    return CAFKA_OK;
}

void placer_free(struct placer *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->rack_count; i++) {
        /* racks that are counted are there. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
        mem_free(p->racks[i].live.ids);
        mem_free(p->racks[i].fenced.ids);
    }
    mem_free(p->racks);
    mem_free(p);
}

int placer_check(const struct placer *p, int replicas, cafka_error *err)
{
    static const int code = ERR_INVALID_REPLICATION_FACTOR;
    if (replicas <= 0)
        return error_set(err, code,
                         "Invalid replication factor %d: the replication factor must be positive.",
                         replicas);
    if (!p->live)
        return error_set(err, code, "All brokers are currently fenced.");
    if (replicas > p->total)
        return error_set(err, code,
                         "The target replication factor of %d cannot be reached because only %d "
                         "broker(s) are registered.",
                         replicas, p->total);
    return CAFKA_OK;
}

/* The leader: from the first rack, from first_rack on, that has a live one left. *at gets the rack. */
static int32_t place_leader(struct placer *p, int *at)
{
    for (*at = p->first_rack;; *at = (*at + 1) % p->rack_count) {
        int32_t id = ring_next(&p->racks[*at].live, p->round);
        if (id >= 0)
            return id;
    }
}

void placer_place(struct placer *p, int replicas, int32_t *out)
{
    assert(replicas > 0 && replicas <= p->total && p->live);
    /* With a single live broker the round must not end, or its ring would never be used up. */
    if (p->round >= p->live && p->live > 1) {
        shuffle(p);
        p->round = 0;
    }
    if (p->first_rack == p->rack_count)
        p->first_rack = 0;
    int leader_rack;
    out[0] = place_leader(p, &leader_rack);
    int at = p->first_rack;
    int dry = 0; /* racks in a row that had nothing to give */
    for (int n = 1; n < replicas;) {
        if (++dry > p->rack_count + 1)
            p->round += p->live; /* what was taken in an older round of this number is free again */
        if (at == leader_rack) {
            leader_rack = -1; /* once round: its rack has given the leader already */
        } else {
            struct rack *rack = &p->racks[at];
            int32_t id = ring_next(&rack->live, p->round);
            if (id < 0)
                id = ring_next(&rack->fenced, p->round);
            if (id >= 0 && !ids_contain(out, n, id)) {
                out[n++] = id;
                dry = 0;
            }
        }
        /* without racks nothing is left to place. NOLINTNEXTLINE(clang-analyzer-core.DivideZero) */
        at = (at + 1) % p->rack_count;
    }
    p->round++;
    p->first_rack++;
}
