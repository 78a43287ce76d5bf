/*
 * room.h - between the files of the client room: client.c, broker.c, call.c, metadata.c.
 *
 * Thread: the loop's.
 */
#ifndef CAFKA_CLIENT_ROOM_H
#define CAFKA_CLIENT_ROOM_H

#include "client/client.h"

enum { BROKER_NAME_SIZE = 120 };
enum { BROKERS_MAX = 10000 }; /* that a client ever knows; more is no cluster but a mistake */

/* client_meters.c */
void client_meters_init(struct client *client);
void broker_meters_init(struct broker *broker);

/* broker.c */
/* Found or made, and moved if it lives elsewhere now. NULL: no memory, or BROKERS_MAX are known. */
struct broker *broker_update(struct client *client, int32_t id, struct str host, uint16_t port,
                             struct str rack);
/* "broker 3 (kafka3:9092)", for messages; out. */
const char *broker_name(const struct client *client, int32_t id, char *out, size_t size);
/* Only what bootstrap.servers names counts from now on, until metadata comes. */
void brokers_bootstrap(struct client *client);
bool brokers_are_bootstrap(const struct client *client);
/* Every connection but those to bootstrap servers ends soon, as if it had broken. */
void brokers_hang_up(struct client *client, const cafka_error *why);
/* Every broker that counts failed, and waits for its reconnect backoff. */
bool brokers_all_down(const struct client *client);
void brokers_stop(struct client *client); /* close all connections */
void brokers_fini(struct client *client);

/* call.c */
void calls_pump_soon(struct client *client);
void calls_pump_at(struct client *client, int64_t at_ms); /* or earlier, if that was asked for */
void calls_pump_lane(struct broker *broker, enum lane lane);
/* The connection that they wait for broke: their broker may be another now. */
void calls_unassign(struct broker *broker, enum lane lane, const cafka_error *why);
void calls_fail_all(struct client *client, int code, const char *text);
void calls_on_pump_timer(struct timer *timer);

#endif
