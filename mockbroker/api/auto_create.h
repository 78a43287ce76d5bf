/*
 * auto_create.h - topics that are made because somebody asks for them.
 *
 * Thread: the broker's loop.
 */
#ifndef CAFKA_MOCKBROKER_AUTO_CREATE_H
#define CAFKA_MOCKBROKER_AUTO_CREATE_H

#include "mockbroker/broker.h"
#include "util/arena.h"

/*
 * Have the controller make topics, with the broker's defaults; the internal ones with what their
 * coordinators want. They are known after the current request.
 */
void auto_create(struct broker *broker, const struct str *names, size_t count, struct arena *arena);

#endif
