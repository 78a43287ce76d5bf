/*
 * fetch_stall.c - see fetch_stall.h.
 */
#include "consumer/fetch_stall.h"

#include "consumer/fetcher.h"
#include "protocol/errors.h"

static const struct {
    const char *what;
    int code; /* told if no answer had an error */
    bool restart_session;
} causes[STALL_CAUSES] = {
    [STALL_NO_LEADER] = {"no broker leads it", ERR_LEADER_NOT_AVAILABLE, false},
    [STALL_NO_START] = {"its position cannot be found", CAFKA_ERR_STALLED, false},
    [STALL_ERRORS] = {"each fetch fails", CAFKA_ERR_STALLED, true},
    [STALL_EMPTY] = {"the broker has data beyond its position and sends none", CAFKA_ERR_STALLED,
                     true},
    [STALL_CUT] = {"the broker sends no whole batch", CAFKA_ERR_STALLED, true},
};

void fetch_stall_suspect(struct consumer_partition *p, enum stall_cause cause, int error)
{
    struct fetch_stall *stall = &p->loop.stall;
    int64_t now_ms = loop_now_ms(fetcher_of(p)->client->loop);
    bool was_well = stall->cause == STALL_NONE;
    if (error)
        stall->error = error;
    else if (stall->cause != cause)
        stall->error = 0;
    if (stall->cause == cause)
        return;
    stall->cause = (unsigned char)cause;
    if (was_well)
        stall->since_ms = now_ms;
    int64_t look_at_ms = now_ms + (cause == STALL_NO_LEADER ? STALL_LOOK_MS : STALL_AFTER_MS);
    if (was_well || look_at_ms < stall->look_at_ms)
        stall->look_at_ms = look_at_ms;
    fetcher_set_timer(p);
}

void fetch_stall_progress(struct consumer_partition *p, enum stall_cause cause)
{
    struct fetch_stall *stall = &p->loop.stall;
    if (stall->cause == STALL_NONE || (cause != STALL_CAUSES && cause != stall->cause))
        return;
    if (stall->told)
        log_info(fetcher_of(p)->client->log, "%s-%d goes on", p->topic, p->partition);
    *stall = (struct fetch_stall){0};
    fetcher_set_timer(p);
}

/* --- without a leader --- */

/* What the application should hear meanwhile, if the reason is known. */
static void tell_missing(struct consumer_partition *p, int64_t now_ms)
{
    const struct metadata_topic *topic = p->loop.topic->metadata;
    cafka_error err = topic->error;
    bool hopeless = err.code && !protocol_error_retriable(err.code);
    if (p->loop.delayed || (!hopeless && now_ms - p->loop.stall.since_ms < STALL_MISSING_MS))
        return;
    if (!err.code && topic->known && p->partition >= topic->partition_count)
        error_set(&err, ERR_UNKNOWN_TOPIC_OR_PARTITION, "reading %s-%d: the topic has %d partitions",
                  p->topic, p->partition, topic->partition_count);
    if (err.code)
        fetcher_tell(p, &err);
}

/* --- telling and mending --- */

static void tell(struct consumer_partition *p, int64_t now_ms)
{
    struct fetcher *fetcher = fetcher_of(p);
    struct fetch_stall *stall = &p->loop.stall;
    int code = stall->error ? stall->error : causes[stall->cause].code;
    cafka_error err = {0};
    error_set(&err, code, "reading %s-%d at offset %lld: no progress for %lld s: %s%s%s", p->topic,
              p->partition, (long long)p->loop.fetch_offset,
              (long long)(now_ms - stall->since_ms) / 1000, causes[stall->cause].what,
              stall->error ? ": " : "", stall->error ? cafka_error_name(stall->error) : "");
    int before = stall->told;
    client_report(fetcher->client, &stall->told, &err, p->topic, p->partition,
                  p->loop.broker ? p->loop.broker->broker->id : -1);
    fetcher->counts.stalls += before != stall->told;
}

/* Ask everybody anew: metadata for its leader, the leader instead of a follower, without a session. */
static void mend(struct consumer_partition *p)
{
    struct fetcher *fetcher = fetcher_of(p);
    metadata_refresh(fetcher->client->metadata);
    if (causes[p->loop.stall.cause].restart_session && p->loop.broker)
        fetch_session_restart(&p->loop.broker->session);
    fetcher_prefer(p, -1);
}

/* Does it ask for nothing, by its own or the application's will? Then nothing can be expected. */
static bool rests(const struct consumer_partition *p)
{
    return p->loop.paused || p->loop.state == PARTITION_WAITING ||
           (p->loop.stall.cause == STALL_EMPTY &&
            (p->loop.level != FETCH_HUNGRY || p->loop.broker->held_back));
}

void fetch_stall_look(struct consumer_partition *p, int64_t now_ms)
{
    struct fetch_stall *stall = &p->loop.stall;
    if (stall->cause == STALL_NONE || stall->look_at_ms > now_ms)
        return;
    bool no_leader = stall->cause == STALL_NO_LEADER;
    stall->look_at_ms = now_ms + (no_leader ? STALL_LOOK_MS : STALL_AFTER_MS);
    if (rests(p)) {
        stall->since_ms = now_ms;
        return;
    }
    if (now_ms - stall->since_ms >= STALL_AFTER_MS) {
        tell(p, now_ms);
        if (!no_leader)
            mend(p); /* metadata asks for it again by itself */
    }
    if (no_leader)
        tell_missing(p, now_ms);
}
