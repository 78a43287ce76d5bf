/*
 * errors.h - the error codes of the protocol, with their class (table generated from
 * schema/errors.txt). ERR_… constants are generated into "protocol/error_codes.h".
 */
#ifndef CAFKA_PROTOCOL_ERRORS_H
#define CAFKA_PROTOCOL_ERRORS_H

#include <stdbool.h>

#include "protocol/error_codes.h" /* generated: ERR_NONE = 0, ERR_OFFSET_OUT_OF_RANGE = 1, … */
#include "util/error.h"

const char *protocol_error_name(int code);      /* NULL: unknown */
bool protocol_error_retriable(int code);        /* the Java client tries again */
bool protocol_error_refresh_metadata(int code); /* ask for metadata */
unsigned protocol_error_flags(int code);        /* CAFKA_RETRIABLE, … */

/* Make cafka_error_name() and error flags know the protocol's codes. Idempotent; called by whoever opens a client or cluster. */
void protocol_errors_register(void);

#endif
