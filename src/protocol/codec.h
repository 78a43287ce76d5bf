/*
 * codec.h - Kafka's messages as C structs: decode, encode, JSON, random ones; driven by tables.
 *
 * src/protocol/schema/ holds one text per API. The generator writes from each a header
 * "protocol/messages/NAME.h" with the structs (struct fetch_request, struct fetch_response and
 * their parts) and a table per struct; one codec walks the tables. What is generated:
 *
 *   struct metadata_request { … };                      the fields of every version
 *   extern const struct message metadata_request_message;
 *   static inline void metadata_request_init(struct metadata_request *m);   defaults of the schema
 *
 * In C a field is called as in the schema, in snake_case. string: struct str; bytes: struct bytes;
 * records: struct records; uuid: struct uuid; []T: a pointer `xs` and `int32_t xs_count` (-1: null;
 * 0, as in a zeroed struct: empty). A nullable struct is a pointer (NULL: null), any other nested
 * struct is embedded. A part S of message M is `struct m_s`, or `struct s` if its name begins with
 * M's already (struct metadata_response_topic). Every struct has `X_init(struct X *)`.
 *
 * Decoded strings and bytes point into the decoded frame, arrays into the arena: both must outlive
 * the struct. An absent field has its default. Unknown tags are kept: a struct of a message that has
 * flexible versions ends with `const struct unknown_tags *unknown_tags` (NULL: none).
 *
 * A string or bytes member that is NULL where null is not legal is written as empty, so a zeroed
 * part is right where its defaults are zero; where they are not, X_init() it.
 *
 * Thread: any; tables are constant.
 */
#ifndef CAFKA_PROTOCOL_CODEC_H
#define CAFKA_PROTOCOL_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "util/arena.h"
#include "util/bytes.h"
#include "util/error.h"
#include "util/uuid.h"

struct rng;
struct message; /* a table; opaque outside the room */

/*
 * Record bytes, by reference. Decoding sets data and size. Encoding copies data, unless `external`
 * is set: then only the length is written and a splice is noted where `size` bytes belong, which
 * the caller sends itself (batches of a producer, a part of a log file).
 */
struct records {
    const uint8_t *data; /* NULL and no external: null */
    size_t size;
    void *external;
};

struct splice {
    size_t at; /* offset in encoded.bytes before which the external bytes go */
    size_t size;
    void *external;
};

/* Tags that no version of the schema defines, in ascending order; every flexible struct may hold some. */
struct unknown_tag {
    uint32_t tag;
    struct bytes payload;
};
struct unknown_tags {
    int32_t count;
    struct unknown_tag tags[];
};

/* What encoding gives. Zeroed is empty; encoded_clear() keeps the memory for the next. */
struct encoded {
    struct buffer bytes;
    struct splice *splices;
    size_t splice_count, splice_capacity;
    size_t spliced; /* sum of the splices' sizes */
};
void encoded_clear(struct encoded *e);
void encoded_fini(struct encoded *e);
/* All bytes that will be on the wire. */
static inline size_t encoded_size(const struct encoded *e)
{
    return e->bytes.size + e->spliced;
}

const char *message_name(const struct message *m); /* "MetadataRequest" */
int message_min_version(const struct message *m);
int message_max_version(const struct message *m);
bool message_is_flexible(const struct message *m, int version);
size_t message_struct_size(const struct message *m);
void message_init(const struct message *m, void *out); /* defaults */

/*
 * Decode `bytes` (a body without header). Takes at most 16 × bytes.size + 1 MiB of arena memory.
 * *used, if not NULL, gets the bytes read; if it is NULL bytes left over are an error. After a
 * failure *out holds what was read before it, which is of no use.
 * Errors: CAFKA_ERR_PROTOCOL (names the field), CAFKA_ERR_MEMORY, CAFKA_ERR_UNSUPPORTED version.
 */
int message_decode(const struct message *m, int version, struct bytes bytes, struct arena *arena,
                   void *out, size_t *used, cafka_error *err);
/* Append to `out`. A field that the version lacks and that is not ignorable must hold its default. */
int message_encode(const struct message *m, int version, const void *in, struct encoded *out,
                   cafka_error *err);

/* JSON, Kafka's form (as the generated JsonConverter classes write it): exact 64-bit numbers. */
int message_to_json(const struct message *m, int version, const void *in, struct buffer *out,
                    cafka_error *err);
/*
 * Keys are those of message_to_json(); what is not there keeps its default, a key that the message
 * has in no version is an error. Strings and bytes are copied into the arena.
 */
int message_from_json(const struct message *m, int version, struct str json, struct arena *arena,
                      void *out, cafka_error *err);
/*
 * The unknown tags of a message, beside its JSON: [{"path":"topics[0]","tag":5,"hex":"00"}], a
 * struct before its parts; "" is the message itself. Nothing is written if there are none.
 */
int message_unknown_tags_to_json(const struct message *m, int version, const void *in,
                                 struct buffer *out, cafka_error *err);
/* Puts such a list into a message that message_from_json() made (its arrays must not be constant). */
int message_unknown_tags_from_json(const struct message *m, int version, struct str json,
                                   struct arena *arena, void *inout, cafka_error *err);
/* A random valid message for tests; the same for the same state of the rng. */
int message_random(const struct message *m, int version, struct rng *rng, struct arena *arena,
                   void *out, cafka_error *err);
bool message_equal(const struct message *m, int version, const void *a, const void *b);

/* --- the API keys --- */

enum { API_KEY_COUNT = 93 };

struct api {
    int16_t key;
    const char *name; /* "Metadata" */
    const struct message *request, *response;
    int16_t min_version, max_version; /* what a 4.3.1 broker serves; max < min: not served */
    int16_t client_throttle_from; /* responses from this version on: the client honours ThrottleTimeMs; -1 none */
    uint8_t listeners; /* API_ON_… */
    uint8_t route;     /* API_ROUTE_… */
};
enum { API_ON_BROKER = 1, API_ON_CONTROLLER = 2, API_ON_ZK_BROKER = 4 };
enum { API_ROUTE_ANY, API_ROUTE_GROUP, API_ROUTE_TXN, API_ROUTE_SHARE, API_ROUTE_CONTROLLER };

/* api_keys.h (generated) names them: API_PRODUCE = 0, API_FETCH = 1, … */
const struct api *api_find(int key); /* NULL if there is none */
const struct api *api_find_name(struct str name);
/* What ApiVersions answers as minimum: min_version, but 0 for Produce though 0-2 are refused. */
int api_advertised_min(const struct api *api);
const struct message *message_find(struct str name); /* "FetchRequest", "ProducerSnapshot", …; NULL */
int api_request_header_version(const struct api *api, int version);
int api_response_header_version(const struct api *api, int version); /* ApiVersions: always 0 */

/* --- frames --- */

/*
 * Encode int32 size, request header and body (the size counts the splices). `e` is cleared first.
 */
int request_encode(const struct api *api, int version, int32_t correlation_id, struct str client_id,
                   const void *body, struct encoded *e, cafka_error *err);
int response_encode(const struct api *api, int version, int32_t correlation_id, const void *body,
                    struct encoded *e, cafka_error *err);

struct request_head {
    int16_t api_key, api_version;
    int32_t correlation_id;
    struct str client_id; /* NULL: null */
    size_t size;          /* bytes of the header; the body follows */
};
/*
 * Header of a request frame (without the int32 size). An unknown key or version gives what could
 * be read and CAFKA_ERR_UNSUPPORTED.
 */
int request_head_decode(struct bytes frame, struct request_head *out, cafka_error *err);
/* Header of a response: *correlation_id, and the bytes it takes. */
int response_head_decode(const struct api *api, int version, struct bytes frame,
                         int32_t *correlation_id, size_t *size, cafka_error *err);

#endif
