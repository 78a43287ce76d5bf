/*
 * cafka.h - all of the client library: producer, consumer, and what they stand on.
 *
 * Each header can be included alone. <cafka/mock.h>, a Kafka cluster for tests, is a library of
 * its own and not included here.
 */
#ifndef CAFKA_H
#define CAFKA_H

#include <cafka/admin.h>
#include <cafka/client.h>
#include <cafka/config.h>
#include <cafka/consumer.h>
#include <cafka/env.h>
#include <cafka/error.h>
#include <cafka/loop.h>
#include <cafka/memory.h>
#include <cafka/metrics.h>
#include <cafka/plugin.h>
#include <cafka/producer.h>
#include <cafka/record.h>

#endif
