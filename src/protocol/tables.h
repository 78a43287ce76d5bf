/*
 * tables.h - the shape of the generated tables; what codec.c and its siblings walk.
 *
 * A message has a table for its body, and each nested struct has one. A table lists the fields in
 * the order of the schema. A field stands on the wire of a version if the version is in its range;
 * a parent that is absent hides its children. message_tables.c (generated) holds them all.
 *
 * Only src/protocol includes this.
 */
#ifndef CAFKA_PROTOCOL_TABLES_H
#define CAFKA_PROTOCOL_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/codec.h"

enum field_type {
    FIELD_BOOL,
    FIELD_INT8,
    FIELD_INT16,
    FIELD_UINT16,
    FIELD_INT32,
    FIELD_UINT32,
    FIELD_INT64,
    FIELD_FLOAT64,
    FIELD_UUID,
    FIELD_STRING,
    FIELD_BYTES,
    FIELD_RECORDS,
    FIELD_STRUCT,
    FIELD_TYPES
};

enum {
    FIELD_ARRAY = 1,     /* a pointer to the elements, then int32_t: their number, or -1 for null */
    FIELD_POINTER = 2,   /* a struct that may be null; a pointer in C */
    FIELD_IGNORABLE = 4, /* encoding drops it silently in versions that lack it */
    FIELD_OLD_ENCODING = 8 /* never flexible (the client id of request header 2) */
};

struct table;

struct field {
    const char *name;          /* as in JSON */
    const struct table *table; /* of FIELD_STRUCT */
    uint16_t offset;           /* in the C struct */
    uint8_t type;
    uint8_t flags;
    int16_t from, to;           /* versions that have it */
    int16_t null_from, null_to; /* versions in which null is legal */
    int16_t tag;                /* -1: not tagged; else tagged in all of its versions */
};

struct table {
    const char *name;
    const struct field *fields;
    const void *defaults;      /* a struct that holds them */
    const uint16_t *min_sizes; /* by version - first_version; NULL: min_size in each */
    const uint8_t *tagged;     /* indices of the tagged fields, by ascending tag */
    uint16_t size;             /* of the C struct */
    uint16_t field_count;
    uint16_t min_size;     /* the fewest bytes on the wire, in any version */
    uint16_t unknown_tags; /* offset of that member, or NO_UNKNOWN_TAGS */
    int16_t first_version;
    uint8_t tagged_count;
    bool has_defaults; /* some default is not all zero bytes */
};

enum { NO_UNKNOWN_TAGS = UINT16_MAX }; /* the message has no flexible version */

struct message {
    const char *name;
    const struct table *table;
    int16_t min_version, max_version;
    int16_t flexible_from; /* above max_version: never */
};

struct protocol_error {
    int16_t code;
    const char *name;
    bool retriable, refresh_metadata;
    uint8_t error_class;
};

/* Where an error stands among the Java exception classes (schema/errors.txt). */
enum {
    CLASS_NONE,
    CLASS_OTHER,
    CLASS_RETRIABLE,
    CLASS_INVALID_METADATA,
    CLASS_REFRESH_RETRIABLE,
    CLASS_ABORTABLE,
    CLASS_APPLICATION_RECOVERABLE,
    CLASS_AUTHORIZATION,
    CLASS_AUTHENTICATION,
    CLASS_INVALID_CONFIGURATION
};

extern const struct api api_table[API_KEY_COUNT];
extern const int8_t api_advertised_min_table[API_KEY_COUNT];
extern const struct message *const message_table[];
extern const size_t message_table_count;
extern const struct protocol_error protocol_error_table[];
extern const size_t protocol_error_table_count;

/* CAFKA_ERR_UNSUPPORTED, with the versions that there are, if the message has no such version. */
int message_check_version(const struct message *m, int version, cafka_error *err);

const struct field *table_find_field(const struct table *t, struct str name); /* NULL: none */

/* --- one member of a C struct --- */

static inline bool field_in(const struct field *f, int version)
{
    return f->from <= version && version <= f->to;
}

static inline bool field_nullable(const struct field *f, int version)
{
    return f->null_from <= version && version <= f->null_to;
}

static inline bool field_ever_nullable(const struct field *f)
{
    return f->null_from <= f->null_to;
}

static inline int32_t array_count(const void *member)
{
    int32_t count;
    memcpy(&count, (const char *)member + sizeof(void *), sizeof count);
    return count;
}

static inline void array_set(void *member, const void *items, int32_t count)
{
    memcpy(member, &items, sizeof items);
    memcpy((char *)member + sizeof items, &count, sizeof count);
}

/* The pointer that a member holds: to elements, or to a nullable struct. */
static inline void *member_pointer(const void *member)
{
    void *pointer;
    memcpy(&pointer, member, sizeof pointer);
    return pointer;
}

static inline void member_set_pointer(void *member, const void *pointer)
{
    memcpy(member, &pointer, sizeof pointer);
}

/* sizeof one value, not of an array, of the C type. */
size_t field_value_size(const struct field *f);
/* Does the member hold what the schema says it holds when nothing is said? */
bool field_is_default(const struct table *t, const struct field *f, const void *member);

static inline const struct unknown_tags *unknown_tags_of(const struct table *t, const void *item)
{
    return t->unknown_tags == NO_UNKNOWN_TAGS ? NULL
                                              : member_pointer((const char *)item + t->unknown_tags);
}

#endif
