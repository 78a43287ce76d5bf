/*
 * control.h - questions about the cluster over HTTP: GET /cluster.
 *
 * Owner: the cluster. Thread: its loop.
 */
#ifndef CAFKA_MOCKBROKER_CONTROL_H
#define CAFKA_MOCKBROKER_CONTROL_H

#include "mockbroker/cluster.h"

struct control_server;

int control_start(struct control_server **out, struct cluster *cluster, uint16_t port,
                  cafka_error *err);
void control_stop(struct control_server *server); /* takes NULL */
void control_address(const struct control_server *server, cafka_address *out);

#endif
