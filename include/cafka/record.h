/*
 * cafka/record.h - what producers write and consumers read have in common: headers.
 */
#ifndef CAFKA_RECORD_H
#define CAFKA_RECORD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A header of a record. Names are UTF-8 and may repeat. A NULL value is null. Views, not owned. */
typedef struct cafka_header {
    const char *name;
    size_t name_size; /* as input: 0 with a name means strlen(name) */
    const void *value;
    size_t value_size;
} cafka_header;

#ifdef __cplusplus
}
#endif

#endif
