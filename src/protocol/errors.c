/*
 * errors.c - what the protocol's error codes mean to a caller. See errors.h.
 *
 * Names and the two yes-or-no columns come from the generated table. The flags follow from the
 * Java exception class, with a few codes that the class alone doesn't describe.
 */
#include "protocol/errors.h"

#include "protocol/tables.h"

static const struct protocol_error *find(int code)
{
    /* The table starts at -1 and has no holes; a test holds it to that. */
    int index = code + 1;
    return index >= 0 && (size_t)index < protocol_error_table_count ? &protocol_error_table[index]
                                                                    : NULL;
}

const char *protocol_error_name(int code)
{
    const struct protocol_error *e = find(code);
    return e ? e->name : NULL;
}

bool protocol_error_retriable(int code)
{
    const struct protocol_error *e = find(code);
    return e && e->retriable;
}

bool protocol_error_refresh_metadata(int code)
{
    const struct protocol_error *e = find(code);
    return e && e->refresh_metadata;
}

static unsigned class_flags(uint8_t error_class)
{
    switch (error_class) {
    case CLASS_ABORTABLE: return CAFKA_ABORTABLE;
    case CLASS_AUTHORIZATION:
    case CLASS_AUTHENTICATION: return CAFKA_FLAG_AUTH;
    case CLASS_INVALID_CONFIGURATION: return CAFKA_FLAG_CONFIG;
    default: return 0; /* retriable ones are told by their column */
    }
}

static unsigned code_flags(int code)
{
    switch (code) {
    case ERR_PRODUCER_FENCED: /* a newer instance has the name; nothing can win it back */
    case ERR_FENCED_INSTANCE_ID: return CAFKA_FENCED | CAFKA_FATAL;
    case ERR_INVALID_PRODUCER_EPOCH: /* another epoch is current; what follows depends on who asked */
    case ERR_FENCED_MEMBER_EPOCH: return CAFKA_FENCED;
    case ERR_REQUEST_TIMED_OUT: /* the leader wrote, replicas were slow */
        return CAFKA_FLAG_TIMEOUT | CAFKA_UNKNOWN_OUTCOME;
    case ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND:
    case ERR_NETWORK_EXCEPTION:
    case ERR_UNKNOWN_SERVER_ERROR: return CAFKA_UNKNOWN_OUTCOME;
    case ERR_INVALID_SESSION_TIMEOUT: /* the class is "other", but a property is to blame */
    case ERR_INVALID_TRANSACTION_TIMEOUT:
    case ERR_INCONSISTENT_GROUP_PROTOCOL:
    case ERR_UNSUPPORTED_ASSIGNOR:
    case ERR_INVALID_GROUP_ID: return CAFKA_FLAG_CONFIG;
    default: return 0;
    }
}

unsigned protocol_error_flags(int code)
{
    const struct protocol_error *e = find(code);
    if (!e)
        return 0;
    return (e->retriable ? (unsigned)CAFKA_RETRIABLE : 0) | class_flags(e->error_class) |
           code_flags(code);
}

/* At load, before there are threads; a call only makes sure that this file is linked. */
__attribute__((constructor)) void protocol_errors_register(void)
{
    if (error_flags_hook == protocol_error_flags)
        return;
    error_flags_hook = protocol_error_flags;
    error_name_hook = protocol_error_name;
}
