/*
 * metadata_room.h - struct metadata, for metadata.c (when to ask) and metadata_answer.c (what was said).
 */
#ifndef CAFKA_CLIENT_METADATA_ROOM_H
#define CAFKA_CLIENT_METADATA_ROOM_H

#include "client/metadata.h"
#include "client/room.h"
#include "protocol/messages/Metadata.h"
#include "util/arena.h"

struct metadata {
    struct client *client;
    struct log log;
    struct map by_name;
    struct map by_id;    /* topics whose id is known; a fetch answer names them so */
    bool some_not_by_id; /* there was no memory to put one in: look at all */
    struct list topics;
    struct list wanting; /* topics to be asked for when their ask_at_ms has come */
    int32_t controller;
    char *cluster_id;
    bool ready, started, auto_create, want_all;
    int64_t topic_idle_ms;

    /* when */
    struct timer timer;
    bool need_full;
    int64_t full_not_before_ms; /* an answer that did not help is not asked for again at once */
    unsigned full_unhelpful;
    int64_t last_full_ms;
    int64_t blocked_until_ms; /* after a failure */
    struct backoff failures;
    int64_t attempt_since_ms; /* since when we want an answer and have none; 0: nothing is wanted */
    cafka_error last_error;

    /* the request on its way, or the memory for the next */
    struct request request;
    struct metadata_request body;
    struct metadata_request_topic *asked;
    int32_t asked_capacity, asked_broker;
    bool full;
    bool all; /* it asks for all topics there are */
    struct arena arena;
};

/* metadata.c */
void metadata_schedule(struct metadata *m);
void metadata_unask(struct metadata *m);
void metadata_failed(struct metadata *m, const cafka_error *why);
void metadata_rebootstrap(struct metadata *m, const char *why);
/* Its id is this now; zero: none. */
void topic_set_id(struct metadata *m, struct metadata_topic *topic, struct uuid id);
struct metadata_topic *topic_new(struct metadata *m, struct str name); /* NULL: no memory */
void topic_release(struct metadata *m, struct metadata_topic *topic);
void topic_forget(struct metadata *m, struct metadata_topic *topic); /* nobody holds it */
void topic_want(struct metadata *m, struct metadata_topic *topic, int64_t at_ms);

/* metadata_answer.c: a failure means that nothing useful was said */
int metadata_take_answer(struct metadata *m, const struct reply *reply, cafka_error *err);

#endif
