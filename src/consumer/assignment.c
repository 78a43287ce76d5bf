/*
 * assignment.c - which partitions a consumer reads, and where in them: assign, seek, pause, position.
 *
 * Thread: the application's, one at a time (consumer_enter()).
 */
#include "consumer/consumer.h"

#include "util/alloc.h"

enum { TOPIC_NAME_MAX = 249 };

/* --- assignment --- */

static struct consumer_partition *find(const cafka_consumer *consumer, const char *topic,
                                       int32_t partition)
{
    const char *name = topic ? fetch_budget_name(consumer->budget, topic) : NULL;
    return partition_table_get(&consumer->partitions, name, partition);
}

struct consumer_partition *consumer_find(cafka_consumer *consumer, const char *topic,
                                         int32_t partition, cafka_error *err)
{
    struct consumer_partition *p = find(consumer, topic, partition);
    if (!p)
        error_set(err, CAFKA_ERR_STATE, "%s-%d is not assigned to this consumer",
                  topic ? topic : "(no topic)", partition);
    return p;
}

static bool is_topic_name(const char *topic)
{
    size_t length = topic ? strlen(topic) : 0;
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return length && length <= TOPIC_NAME_MAX && strspn(topic, allowed) == length &&
           strcmp(topic, ".") && strcmp(topic, "..");
}

/* A time, or a place that has the form of one. */
static bool is_time(int64_t timestamp_ms)
{
    return timestamp_ms >= CAFKA_OFFSET_MAX_TIMESTAMP && timestamp_ms <= START_TIME_MAX;
}

static int check_place(const cafka_position *at, cafka_error *err)
{
    if (at->offset == CAFKA_OFFSET_NONE)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "a look-up found no offset for %s-%d (CAFKA_OFFSET_NONE); say where to "
                         "start, CAFKA_OFFSET_END perhaps",
                         at->topic, at->partition);
    if (at->flags & CAFKA_POSITION_OFFSET && at->offset < CAFKA_OFFSET_BEGINNING)
        return error_set(err, CAFKA_ERR_ARGUMENT, "%s-%d has no offset %lld", at->topic,
                         at->partition, (long long)at->offset);
    if (!(at->flags & CAFKA_POSITION_OFFSET) && at->flags & CAFKA_POSITION_TIMESTAMP &&
        !is_time(at->timestamp_ms))
        return error_set(err, CAFKA_ERR_ARGUMENT, "%s-%d: %lld is no time to start at", at->topic,
                         at->partition, (long long)at->timestamp_ms);
    return CAFKA_OK;
}

static int check_positions(const cafka_position *positions, size_t count, cafka_error *err)
{
    if (!positions && count)
        return error_set(err, CAFKA_ERR_ARGUMENT, "%zu positions at NULL", count);
    for (size_t i = 0; i < count; i++) {
        const cafka_position *at = &positions[i];
        if (!is_topic_name(at->topic))
            return error_set(err, CAFKA_ERR_ARGUMENT, "'%.60s' is not the name of a topic",
                             at->topic ? at->topic : "(null)");
        if (at->partition < 0)
            return error_set(err, CAFKA_ERR_ARGUMENT, "%s has no partition %d", at->topic,
                             at->partition);
        if (check_place(at, err))
            return CAFKA_ERR_ARGUMENT;
    }
    return CAFKA_OK;
}

void consumer_start_at(cafka_consumer *consumer, struct consumer_partition *p, int64_t start,
                       int32_t epoch)
{
    p->app.generation++;
    p->app.position = start >= 0 ? start : -1;
    p->app.position_epoch = epoch;
    reader_leave(consumer->reader, p);
    reader_drop_aside(consumer->reader, p);
    consumer_wish(consumer, p, start, epoch, 0);
}

static bool says_where(const cafka_position *at)
{
    return at->flags & (CAFKA_POSITION_OFFSET | CAFKA_POSITION_TIMESTAMP);
}

static void start_where_it_says(cafka_consumer *consumer, struct consumer_partition *p,
                                const cafka_position *at)
{
    int64_t start = START_BY_POLICY;
    bool with_epoch = at->flags & CAFKA_POSITION_LEADER_EPOCH && at->leader_epoch >= 0;
    if (at->flags & CAFKA_POSITION_OFFSET)
        start = at->offset;
    else if (at->flags & CAFKA_POSITION_TIMESTAMP)
        start = at->timestamp_ms < 0 ? at->timestamp_ms : START_AT_TIME(at->timestamp_ms);
    consumer_start_at(consumer, p, start, start >= 0 && with_epoch ? at->leader_epoch : -1);
}

static void drop_partition(cafka_consumer *consumer, struct consumer_partition *p)
{
    p->app.assigned = false;
    p->app.paused = false;
    consumer_start_at(consumer, p, START_BY_POLICY, -1);
    partition_table_remove(&consumer->partitions, p);
    list_remove(&p->app.link);
    consumer_partition_unref(p);
}

static int add_partition(cafka_consumer *consumer, const cafka_position *at, cafka_error *err)
{
    const char *topic = fetch_budget_intern(consumer->budget, at->topic);
    struct consumer_partition *p = topic ? consumer_partition_new(topic, at->partition) : NULL;
    if (!p || !partition_table_put(&consumer->partitions, p)) {
        consumer_partition_unref(p);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to assign %s-%d", at->topic,
                         at->partition);
    }
    p->app.assigned = true;
    list_push_back(&consumer->assignment, &p->app.link);
    start_where_it_says(consumer, p, at);
    return CAFKA_OK;
}

static int add_partitions(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                          cafka_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct consumer_partition *p = find(consumer, positions[i].topic, positions[i].partition);
        if (p && says_where(&positions[i]))
            start_where_it_says(consumer, p, &positions[i]);
        else if (!p && add_partition(consumer, &positions[i], err))
            return CAFKA_ERR_MEMORY;
    }
    return CAFKA_OK;
}

/* Drop what the new assignment does not name. */
static void drop_others(cafka_consumer *consumer, const cafka_position *positions, size_t count)
{
    struct list *link, *after;
    list_each(link, after, &consumer->assignment)
        list_item(link, struct consumer_partition, app.link)
            ->app.kept = false;
    for (size_t i = 0; i < count; i++) {
        struct consumer_partition *p = find(consumer, positions[i].topic, positions[i].partition);
        if (p)
            p->app.kept = true;
    }
    list_each(link, after, &consumer->assignment)
    {
        struct consumer_partition *p = list_item(link, struct consumer_partition, app.link);
        if (!p->app.kept)
            drop_partition(consumer, p);
    }
}

int cafka_consumer_assign(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                          cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    rc = check_positions(positions, count, err);
    if (!rc) {
        drop_others(consumer, positions, count);
        rc = add_partitions(consumer, positions, count, err);
    }
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_assign_add(cafka_consumer *consumer, const cafka_position *positions,
                              size_t count, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    rc = check_positions(positions, count, err);
    if (!rc)
        rc = add_partitions(consumer, positions, count, err);
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_assign_remove(cafka_consumer *consumer, const cafka_position *positions,
                                 size_t count, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    rc = check_positions(positions, count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        struct consumer_partition *p = find(consumer, positions[i].topic, positions[i].partition);
        if (p)
            drop_partition(consumer, p);
    }
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_assignment(cafka_consumer *consumer, cafka_position *out, size_t *count,
                              cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    size_t n = 0, room = out && count ? *count : 0;
    struct list *link, *after;
    reader_take_news(consumer->reader);
    list_each(link, after, &consumer->assignment)
    {
        const struct consumer_partition *p = list_item(link, struct consumer_partition, app.link);
        if (n < room)
            out[n] = (cafka_position){.topic = p->topic,
                                      .partition = p->partition,
                                      .flags = p->app.position >= 0 ? CAFKA_POSITION_OFFSET : 0,
                                      .offset = p->app.position >= 0 ? p->app.position : 0,
                                      .timestamp_ms = -1,
                                      .leader_epoch = -1};
        n++;
    }
    if (count)
        *count = n;
    consumer_leave(consumer);
    return CAFKA_OK;
}

/* --- places --- */

int cafka_consumer_seek(cafka_consumer *consumer, const char *topic, int32_t partition,
                        int64_t offset, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    struct consumer_partition *p = consumer_find(consumer, topic, partition, err);
    if (!p)
        rc = CAFKA_ERR_STATE;
    else if (offset < CAFKA_OFFSET_BEGINNING)
        rc = error_set(err, CAFKA_ERR_ARGUMENT, "%s-%d has no offset %lld", topic, partition,
                       (long long)offset);
    else
        consumer_start_at(consumer, p, offset, -1);
    consumer_leave(consumer);
    return rc;
}

/* All or nothing: every entry says a place, of a partition that is assigned. */
static int check_seeks(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                       cafka_error *err)
{
    int rc = check_positions(positions, count, err);
    for (size_t i = 0; !rc && i < count; i++) {
        const cafka_position *at = &positions[i];
        if (!says_where(at))
            rc = error_set(err, CAFKA_ERR_ARGUMENT, "%s-%d: no offset or time to seek to (flags)",
                           at->topic, at->partition);
        else if (!consumer_find(consumer, at->topic, at->partition, err))
            rc = CAFKA_ERR_STATE;
    }
    return rc;
}

int cafka_consumer_seek_many(cafka_consumer *consumer, const cafka_position *positions,
                             size_t count, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    rc = check_seeks(consumer, positions, count, err);
    for (size_t i = 0; !rc && i < count; i++)
        start_where_it_says(consumer, find(consumer, positions[i].topic, positions[i].partition),
                            &positions[i]);
    consumer_leave(consumer);
    return rc;
}

static void set_paused(cafka_consumer *consumer, struct consumer_partition *p, bool paused)
{
    if (p->app.paused == paused)
        return;
    p->app.paused = paused;
    if (paused)
        reader_leave(consumer->reader, p);
    else
        reader_resume(consumer->reader, p);
    pthread_mutex_lock(&consumer->mu);
    int64_t start = p->wanted.start;
    int32_t epoch = p->wanted.epoch, delay_ms = p->wanted.delay_ms;
    pthread_mutex_unlock(&consumer->mu);
    consumer_wish(consumer, p, start, epoch,
                  delay_ms); /* the same generation: only the pause is news */
}

static int pause_or_resume(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                           bool paused, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    if (!positions && count)
        rc = error_set(err, CAFKA_ERR_ARGUMENT, "%zu positions at NULL", count);
    for (size_t i = 0; !rc && i < count; i++)
        rc = consumer_find(consumer, positions[i].topic, positions[i].partition, err)
                 ? CAFKA_OK
                 : CAFKA_ERR_STATE;
    for (size_t i = 0; !rc && i < count; i++)
        set_paused(consumer, find(consumer, positions[i].topic, positions[i].partition), paused);
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_pause(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                         cafka_error *err)
{
    return pause_or_resume(consumer, positions, count, true, err);
}

int cafka_consumer_resume(cafka_consumer *consumer, const cafka_position *positions, size_t count,
                          cafka_error *err)
{
    int rc = pause_or_resume(consumer, positions, count, false, err);
    if (!rc)
        client_news(&consumer->client); /* what was put aside is there at once */
    return rc;
}

/* An error of the partition that waits to be handed out, if there is one. */
static int queued_error(cafka_consumer *consumer, const struct consumer_partition *p,
                        cafka_error *err)
{
    for (const struct chunk *chunk = consumer->reader->queue.first; chunk; chunk = chunk->next)
        if (chunk->kind == CHUNK_ERROR && chunk->partition == p &&
            chunk->generation == p->app.generation) {
            if (err)
                *err = *chunk->error;
            return chunk->error->code;
        }
    return CAFKA_OK;
}

int cafka_consumer_position(cafka_consumer *consumer, const char *topic, int32_t partition,
                            int64_t timeout_ms, int64_t *offset, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    int64_t deadline = client_deadline(&consumer->client, timeout_ms);
    struct consumer_partition *p = consumer_find(consumer, topic, partition, err);
    if (!p)
        rc = CAFKA_ERR_STATE;
    while (!rc) {
        reader_take_news(consumer->reader);
        if (p->app.position >= 0)
            break;
        rc = queued_error(consumer, p, err);
        if (!rc)
            rc = consumer_wait(consumer, deadline, err);
    }
    if (rc == CAFKA_ERR_TIMEOUT) {
        error_clear(err);
        error_set(err, rc, "the position of %s-%d was not found within %lld ms", topic, partition,
                  (long long)timeout_ms);
    }
    if (!rc && offset)
        *offset = p->app.position;
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_watermarks(cafka_consumer *consumer, const char *topic, int32_t partition,
                              int64_t *low, int64_t *high, cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    struct consumer_partition *p = consumer_find(consumer, topic, partition, err);
    if (p && low)
        *low = atomic_load(&p->log_start);
    if (p && high)
        *high = atomic_load(&p->high_watermark);
    consumer_leave(consumer);
    return p ? CAFKA_OK : CAFKA_ERR_STATE;
}

/* --- lag --- */

static int64_t lag_of(const struct consumer_partition *p)
{
    int64_t end = atomic_load_explicit(&p->readable_end, memory_order_relaxed);
    if (end < 0 || p->app.position < 0)
        return -1;
    return end > p->app.position ? end - p->app.position : 0;
}

int64_t consumer_lag(const cafka_consumer *consumer)
{
    int64_t largest = list_empty(&consumer->assignment) ? -1 : 0;
    struct list *link, *after;
    list_each(link, after, &consumer->assignment)
    {
        int64_t lag = lag_of(list_item(link, struct consumer_partition, app.link));
        if (lag < 0)
            return -1;
        largest = lag > largest ? lag : largest;
    }
    return largest;
}

int cafka_consumer_lag(cafka_consumer *consumer, const char *topic, int32_t partition, int64_t *lag,
                       cafka_error *err)
{
    int rc = consumer_enter(consumer, err);
    if (rc)
        return rc;
    reader_take_news(consumer->reader);
    const struct consumer_partition *p =
        topic ? consumer_find(consumer, topic, partition, err) : NULL;
    if (topic && !p)
        rc = CAFKA_ERR_STATE;
    else if (list_empty(&consumer->assignment))
        rc = error_set(err, CAFKA_ERR_STATE, "no partition is assigned to this consumer");
    else if (lag)
        *lag = p ? lag_of(p) : consumer_lag(consumer);
    consumer_leave(consumer);
    return rc;
}

int cafka_consumer_at_end(cafka_consumer *consumer)
{
    int64_t lag = -1;
    return cafka_consumer_lag(consumer, NULL, 0, &lag, NULL) == CAFKA_OK && lag == 0;
}

/* --- the end --- */

void consumer_free_assignment(cafka_consumer *consumer)
{
    struct list *link;
    while ((link = list_pop_front(&consumer->assignment))) {
        struct consumer_partition *p = list_item(link, struct consumer_partition, app.link);
        reader_drop_aside(consumer->reader, p);
        consumer_partition_unref(p);
    }
    partition_table_fini(&consumer->partitions);
}
