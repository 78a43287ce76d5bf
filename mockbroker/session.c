/*
 * session.c - see session.h.
 */
#include "mockbroker/session.h"

#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "util/alloc.h"

/* --- life --- */

static void free_session(struct session *s)
{
    struct broker *broker = s->broker;
    list_remove(&s->link);
    broker->session_count--;
    loop_timer_cancel(broker->loop, &s->mute_timer);
    loop_timer_cancel(broker->loop, &s->idle_timer);
    stream_free(s->stream);
    request_fini(&s->request);
    frame_unref(s->next);
    frame_reader_fini(&s->reader);
    mem_free(s->software_name);
    mem_free(s->software_version);
    mem_free(s);
}

void session_close(struct session *s)
{
    if (s->closed)
        return;
    s->closed = true;
    request_abandon(&s->request);
    if (!s->pumping)
        free_session(s);
}

static bool may_read(const struct session *s)
{
    return !s->closed && !s->request.active && !s->writing && !s->muted;
}

/* Ask for bytes only if there is a place for them. */
static void watch(struct session *s)
{
    bool wanted = may_read(s) || (!s->next && !s->muted);
    if (wanted != s->reading) {
        s->reading = wanted;
        stream_read_enable(s->stream, wanted);
    }
}

/* --- reading --- */

static struct frame *next_frame(struct session *s)
{
    struct frame *frame = s->next;
    cafka_error why = {0};
    s->next = NULL;
    if (!frame && frame_reader_next(&s->reader, s->stream, &frame, &why)) {
        log_debug(s->broker->log, "session %llu is closed: %s", (unsigned long long)s->id,
                  why.message);
        session_close(s);
        return NULL;
    }
    return frame;
}

void session_pump(struct session *s)
{
    struct deferred_queue *deferred = s->broker->deferred;
    if (s->pumping)
        return;
    s->pumping = true;
    while (may_read(s)) {
        struct frame *frame = next_frame(s);
        if (!frame)
            break;
        s->last_used_ms = loop_now_ms(s->broker->loop);
        request_begin(&s->request, frame);
        deferred_run(deferred);
    }
    s->pumping = false;
    if (s->closed)
        free_session(s);
    else
        watch(s);
}

/* While a request is at work one frame is read ahead, which also shows a lost connection. */
static void read_ahead(struct session *s)
{
    s->pumping = true;
    if (!s->next)
        s->next = next_frame(s);
    s->pumping = false;
    if (s->closed)
        free_session(s);
    else
        watch(s);
}

static void on_readable(void *owner)
{
    struct session *s = owner;
    if (may_read(s))
        session_pump(s);
    else
        read_ahead(s);
}

static void on_closed(void *owner, const cafka_error *err)
{
    struct session *s = owner;
    log_debug(s->broker->log, "session %llu: %s", (unsigned long long)s->id, err->message);
    session_close(s);
}

/* --- writing --- */

void session_next(struct session *s)
{
    s->writing = false;
    request_reset(&s->request);
    session_pump(s);
}

static void on_drained(void *owner)
{
    struct session *s = owner;
    if (s->writing)
        session_next(s);
}

static int queue_slices(struct session *s, const struct response_slice *slice, cafka_error *err)
{
    int rc = CAFKA_OK;
    for (; !rc && slice; slice = slice->next) {
        if (!slice->size)
            continue;
        rc = slice->file ? stream_write_file(s->stream, slice->file, slice->offset, slice->size,
                                             NULL, NULL, err)
                         : stream_write_ref(s->stream, slice->memory, slice->size, NULL, NULL, err);
    }
    return rc;
}

static int queue_answer(struct session *s, const struct encoded *out, cafka_error *err)
{
    size_t at = 0;
    int rc = CAFKA_OK;
    for (size_t i = 0; !rc && i < out->splice_count; i++) {
        const struct splice *splice = &out->splices[i];
        if (splice->at > at)
            rc = stream_write_ref(s->stream, out->bytes.data + at, splice->at - at, NULL, NULL, err);
        at = splice->at;
        if (!rc)
            rc = queue_slices(s, splice->external, err);
    }
    if (!rc && out->bytes.size > at)
        rc = stream_write_ref(s->stream, out->bytes.data + at, out->bytes.size - at, NULL, NULL,
                              err);
    return rc;
}

void session_send(struct session *s)
{
    cafka_error why = {0};
    s->writing = true;
    if (queue_answer(s, &s->request.out, &why)) {
        log_debug(s->broker->log, "session %llu is closed: %s", (unsigned long long)s->id,
                  why.message);
        session_close(s);
        return;
    }
    stream_flush(s->stream);
    if (!stream_unwritten(s->stream))
        session_next(s);
}

/* --- throttling, idling --- */

static void unmute(struct timer *timer)
{
    struct session *s = container_of(timer, struct session, mute_timer);
    s->muted = false;
    session_pump(s);
}

void session_mute(struct session *s, int64_t ms)
{
    if (ms <= 0)
        return;
    s->muted = true;
    s->mute_timer.fire = unmute;
    loop_timer_set(s->broker->loop, &s->mute_timer, loop_now_ms(s->broker->loop) + ms);
}

static void set_idle_timer(struct session *s)
{
    int64_t idle_ms = s->broker->connections_max_idle_ms;
    if (idle_ms > 0)
        loop_timer_set(s->broker->loop, &s->idle_timer, s->last_used_ms + idle_ms);
}

static void check_idle(struct timer *timer)
{
    struct session *s = container_of(timer, struct session, idle_timer);
    int64_t now = loop_now_ms(s->broker->loop);
    if (s->request.active || s->muted)
        s->last_used_ms = now;
    if (now - s->last_used_ms >= s->broker->connections_max_idle_ms) {
        log_debug(s->broker->log, "session %llu is closed: idle", (unsigned long long)s->id);
        session_close(s);
        return;
    }
    set_idle_timer(s);
}

/* --- opening --- */

static const struct stream_events session_events = {.readable = on_readable,
                                                    .drained = on_drained,
                                                    .closed = on_closed};

int session_open(struct listener *listener, int handle, const cafka_address *from, cafka_error *err)
{
    struct broker *broker = listener->broker;
    struct session *s = mem_zalloc(sizeof *s);
    if (!s) {
        broker->env->close(broker->env, handle);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for a session");
    }
    int rc = stream_adopt(&s->stream, broker->loop, handle, &session_events, s, err);
    if (rc) {
        mem_free(s);
        return rc;
    }
    s->broker = broker;
    s->listener = listener;
    s->id = ++broker->cluster->sessions_made;
    s->peer = *from;
    s->reading = true;
    s->last_used_ms = loop_now_ms(broker->loop);
    s->idle_timer.fire = check_idle;
    s->request.session = s;
    s->request.broker = broker;
    frame_reader_init(&s->reader, broker->frames, (uint32_t)broker->request_max_bytes);
    list_push_back(&broker->sessions, &s->link);
    broker->session_count++;
    set_idle_timer(s);
    return CAFKA_OK;
}
