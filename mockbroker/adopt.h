/*
 * adopt.h - topics that are found in a log directory and that the controller does not know.
 *
 * A directory that a real broker left (or whose DIR/controller was lost) says by its
 * partition.metadata files which topics it holds. They are made known to the controller with the
 * ids and epochs that they have on the disk, all with this broker as their only replica.
 *
 * Thread: the broker's loop.
 */
#ifndef CAFKA_MOCKBROKER_ADOPT_H
#define CAFKA_MOCKBROKER_ADOPT_H

#include "mockbroker/broker.h"

/* After the log directory was opened, before the broker registers. */
int adopt_logs(struct broker *broker, cafka_error *err);

#endif
