/*
 * metrics.c - see metrics.h and <cafka/metrics.h>.
 */
#include "client/metrics.h"

#include <string.h>

#include "client/client.h"
#include "protocol/json.h"
#include "util/alloc.h"
#include "util/arena.h"

void metrics_add(struct metrics *metrics, struct metric_set *set)
{
    struct metric_set *first = atomic_load_explicit(&metrics->first, memory_order_relaxed);
    do
        set->next = first;
    while (!atomic_compare_exchange_weak_explicit(&metrics->first, &first, set,
                                                  memory_order_release, memory_order_relaxed));
}

/* --- a snapshot --- */

struct entry {
    const char *name, *group; /* static texts of the rooms */
    const cafka_metric_tag *tags;
    size_t tag_count;
    double value;
};

struct cafka_metrics {
    struct entry *entries;
    size_t count, capacity;
    struct arena arena; /* tags */
    struct buffer json;
};

static bool add_entry(cafka_metrics *m, const struct entry *entry)
{
    if (m->count == m->capacity) {
        size_t capacity = m->capacity ? 2 * m->capacity : 64;
        struct entry *entries = mem_recalloc(m->entries, capacity, sizeof *entries);
        if (!entries)
            return false;
        m->entries = entries;
        m->capacity = capacity;
    }
    m->entries[m->count++] = *entry;
    return true;
}

static double value_of(const struct metric_row *row, const struct meter_reading *r)
{
    switch (row->kind) {
    case METRIC_SUM: return (double)r->sum;
    case METRIC_SUM_RATE: return r->sum_per_s;
    case METRIC_EVENTS: return (double)r->events;
    case METRIC_EVENTS_RATE: return r->events_per_s;
    case METRIC_AVERAGE: return r->average;
    case METRIC_MAX: return r->max;
    case METRIC_VALUE: break;
    }
    return 0;
}

/* Rows of one meter follow each other, so that it is read once for all of them. */
static bool add_rows(cafka_metrics *m, const struct metric_set *set, struct entry *entry,
                     const struct meter_windows *windows, int64_t now_ms)
{
    struct meter_reading reading = {0};
    size_t read = SIZE_MAX;
    for (size_t i = 0; i < set->row_count; i++) {
        const struct metric_row *row = &set->rows[i];
        if (row->kind != METRIC_VALUE && row->offset != read) {
            meter_read((struct meter *)((char *)set->base + row->offset), windows, now_ms, &reading);
            read = row->offset;
        }
        if ((row->kind == METRIC_AVERAGE || row->kind == METRIC_MAX) && !reading.any)
            continue;
        entry->name = row->name;
        entry->value =
            row->kind == METRIC_VALUE ? row->value(set->base, now_ms) : value_of(row, &reading);
        if (row->scale != 0)
            entry->value *= row->scale;
        if (!add_entry(m, entry))
            return false;
    }
    return true;
}

/* Owned by the snapshot, which may outlive the client. */
static const cafka_metric_tag *copy_tags(cafka_metrics *m, const char *client_id,
                                         const struct metric_set *set)
{
    cafka_metric_tag *tags = arena_calloc(&m->arena, 2, sizeof *tags);
    if (!tags)
        return NULL;
    tags[0].name = "client-id";
    tags[0].value = arena_strndup(&m->arena, client_id, strlen(client_id));
    tags[1].name = set->tag_name;
    if (set->tag_name)
        tags[1].value = arena_strndup(&m->arena, set->tag_value, strlen(set->tag_value));
    return tags[0].value && (!set->tag_name || tags[1].value) ? tags : NULL;
}

static bool take(cafka_metrics *m, struct client *client)
{
    const struct metrics *from = &client->metrics;
    int64_t now_ms = env_now_ms(client->env);
    const struct metric_set *set = atomic_load_explicit(&from->first, memory_order_acquire);
    for (; set; set = set->next) {
        struct entry entry = {.group = set->group,
                              .tags = copy_tags(m, client->settings->client_id, set),
                              .tag_count = set->tag_name ? 2 : 1};
        if (!entry.tags || !add_rows(m, set, &entry, &from->windows, now_ms))
            return false;
    }
    return true;
}

int cafka_client_metrics(cafka_client *public_client, cafka_metrics **out, cafka_error *err)
{
    struct client *client = (struct client *)public_client;
    error_clear(err);
    if (!client || !out)
        return error_set(err, CAFKA_ERR_ARGUMENT, "metrics need a client and a place to go to");
    int rc = client_not_forked(client, err);
    if (rc)
        return rc;
    cafka_metrics *m = mem_zalloc(sizeof *m);
    if (!m || !take(m, client)) {
        cafka_metrics_free(m);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a snapshot of metrics");
    }
    *out = m;
    return CAFKA_OK;
}

int cafka_metrics_get(const cafka_metrics *metrics, size_t index, cafka_metric *out)
{
    if (!metrics || !out || out->size < sizeof out->size)
        return CAFKA_ERR_ARGUMENT;
    if (index >= metrics->count)
        return CAFKA_END;
    const struct entry *entry = &metrics->entries[index];
    cafka_metric full = {.size = out->size,
                         .name = entry->name,
                         .group = entry->group,
                         .tags = entry->tags,
                         .tag_count = entry->tag_count,
                         .value = entry->value};
    memcpy(out, &full, out->size < sizeof full ? out->size : sizeof full);
    return CAFKA_OK;
}

/* --- as JSON --- */

static void put_text(struct buffer *out, const char *text)
{
    buffer_put(out, text, strlen(text));
}

static void put_value(struct buffer *out, double value)
{
    if (value > -9e15 && value < 9e15 && value == (double)(int64_t)value)
        json_put_int(out, (int64_t)value);
    else
        json_put_double(out, value);
}

static void put_entry(struct buffer *out, const struct entry *entry)
{
    put_text(out, "{\"name\":");
    json_put_string(out, str_of(entry->name));
    put_text(out, ",\"group\":");
    json_put_string(out, str_of(entry->group));
    put_text(out, ",\"tags\":{");
    for (size_t i = 0; i < entry->tag_count; i++) {
        if (i)
            put_text(out, ",");
        json_put_string(out, str_of(entry->tags[i].name));
        put_text(out, ":");
        json_put_string(out, str_of(entry->tags[i].value));
    }
    put_text(out, "},\"value\":");
    put_value(out, entry->value);
    put_text(out, "}");
}

const char *cafka_metrics_json(cafka_metrics *metrics)
{
    if (!metrics)
        return NULL;
    struct buffer *out = &metrics->json;
    if (!out->size) {
        for (size_t i = 0; i < metrics->count; i++) {
            put_text(out, i ? ",\n" : "[");
            put_entry(out, &metrics->entries[i]);
        }
        put_text(out, metrics->count ? "]" : "[]");
        buffer_put(out, "", 1);
    }
    return out->failed ? NULL : (const char *)out->data;
}

void cafka_metrics_free(cafka_metrics *metrics)
{
    if (!metrics)
        return;
    buffer_fini(&metrics->json);
    arena_fini(&metrics->arena);
    mem_free(metrics->entries);
    mem_free(metrics);
}
