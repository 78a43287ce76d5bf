/*
 * addresses.h - where the brokers of a cluster listen, and what clients are told to dial.
 *
 * Owner:   nobody; functions on the cluster's options and on a broker's own properties.
 * Thread:  the cluster's loop.
 */
#ifndef CAFKA_MOCKBROKER_ADDRESSES_H
#define CAFKA_MOCKBROKER_ADDRESSES_H

#include "util/bytes.h"
#include "util/error.h"
#include "util/log.h"

struct broker;
struct cluster_options;

/*
 * What --port, --host and --advertised-host leave open is taken from the properties listeners and
 * advertised.listeners. Who listens on all addresses and advertises nothing advertises 127.0.0.1,
 * with a warning; to advertise "all addresses" is CAFKA_ERR_CONFIG, as in Kafka.
 */
int addresses_read(struct cluster_options *options, struct log log, cafka_error *err);

const char *addresses_listening(const struct cluster_options *options);  /* the host */
const char *addresses_advertised(const struct cluster_options *options); /* the host */
void address_print(struct buffer *out, const char *host, uint16_t port); /* [HOST]:PORT for IPv6 */

/* Tell the configs of a broker that listens what came of it, so that DescribeConfigs shows it. */
int addresses_describe(struct broker *broker, cafka_error *err);

#endif
