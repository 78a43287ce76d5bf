/*
 * cafka/error.h - why a call failed: a code to act on, flags to decide by, a sentence to read.
 *
 * Every function that can fail returns CAFKA_OK or a code and takes `cafka_error *err` as its
 * last parameter, where NULL is allowed. On entry a public function clears *err; on failure it
 * holds the same code that was returned.
 */
#ifndef CAFKA_ERROR_H
#define CAFKA_ERROR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CAFKA_API __attribute__((visibility("default")))
#else
#define CAFKA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Codes of the library itself. An error that a broker answered keeps the number that the Kafka
 * protocol gives it (class org.apache.kafka.common.protocol.Errors; -1 and 1 and above).
 */
enum {
    CAFKA_OK = 0,
    CAFKA_ERR_MEMORY = -1000,   /* the allocator gave nothing */
    CAFKA_ERR_ARGUMENT = -1001, /* an argument is outside what the function takes */
    CAFKA_ERR_CONFIG = -1002,  /* a property is unknown, has a bad value, or clashes with another */
    CAFKA_ERR_TIMEOUT = -1003, /* the time that the call or a property allows is over */
    CAFKA_ERR_WOULD_BLOCK = -1004,   /* it would have to wait, and must not */
    CAFKA_ERR_CLOSED = -1005,        /* the handle is closing or closed */
    CAFKA_ERR_TOO_LARGE = -1006,     /* a record or message is larger than a limit allows */
    CAFKA_ERR_IN_CALLBACK = -1007,   /* a waiting call inside a callback */
    CAFKA_ERR_CONCURRENT = -1008,    /* another thread is inside this consumer */
    CAFKA_ERR_WAKEUP = -1009,        /* a wakeup ended the wait */
    CAFKA_ERR_TRANSPORT = -1010,     /* a connection could not be made, or broke */
    CAFKA_ERR_RESOLVE = -1011,       /* a host name has no address */
    CAFKA_ERR_PROTOCOL = -1012,      /* the peer sent what the protocol does not allow */
    CAFKA_ERR_CORRUPT = -1013,       /* bytes are not what was written: CRC, length, structure */
    CAFKA_ERR_COMPRESSION = -1014,   /* data can't be inflated, or the codec is not built in */
    CAFKA_ERR_UNSUPPORTED = -1015,   /* the broker, or this build, can't do it */
    CAFKA_ERR_IO = -1016,            /* a file could not be read or written */
    CAFKA_ERR_STATE = -1017,         /* the call does not fit the state of the handle */
    CAFKA_ERR_NO_OFFSET = -1018,     /* no offset to start from, and auto.offset.reset is none */
    CAFKA_ERR_FORKED = -1019,        /* the handle belongs to the parent process */
    CAFKA_ERR_PURGED = -1020,        /* the record was dropped by purge or by close */
    CAFKA_ERR_AUTH = -1021,          /* login refused */
    CAFKA_ERR_SYSTEM = -1022,        /* the operating system refused a resource */
    CAFKA_ERR_TRUNCATED = -1023,     /* the log was truncated below the position (KIP-320) */
    CAFKA_ERR_SERIALIZATION = -1024, /* a serializer or deserializer of the application failed */
    CAFKA_ERR_STALLED = -1025, /* (events) a partition makes no progress, though no error says why */
    CAFKA_END = -1099          /* no more items; not a failure */
};

enum {
    CAFKA_RETRIABLE = 1u << 0,       /* the same call, unchanged, may succeed later */
    CAFKA_ABORTABLE = 1u << 1,       /* abort the transaction, then go on */
    CAFKA_FATAL = 1u << 2,           /* close this client and open a new one */
    CAFKA_FENCED = 1u << 3,          /* a newer instance took over */
    CAFKA_UNKNOWN_OUTCOME = 1u << 4, /* it may have taken effect */
    CAFKA_FLAG_CONFIG = 1u << 5,     /* change the configuration */
    CAFKA_FLAG_AUTH = 1u << 6,       /* credentials or rights are missing */
    CAFKA_FLAG_TIMEOUT = 1u << 7     /* a time limit passed */
};

/* Why a call failed. A plain value: no allocation, nothing to free, safe to copy. Frozen. */
typedef struct cafka_error {
    int code;          /* CAFKA_OK, a Kafka protocol error, or a CAFKA_ERR_* value */
    unsigned flags;    /* CAFKA_RETRIABLE, … */
    char message[240]; /* one sentence: what was tried, on what, why it failed, what to do */
} cafka_error;

/* The name of a code, "UNKNOWN_TOPIC_OR_PARTITION" or "CAFKA_ERR_TIMEOUT"; never NULL. Any thread. */
CAFKA_API const char *cafka_error_name(int code);

/* The flags that a code has when nothing more is known about it. Any thread. */
CAFKA_API unsigned cafka_error_flags(int code);

#ifdef __cplusplus
}
#endif

#endif
