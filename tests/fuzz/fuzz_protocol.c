/*
 * fuzz_protocol.c - hostile bytes and hostile JSON for the codec.
 *
 * Input: two bytes choose the message, one the version, one what follows (0: a body, 1: JSON,
 * 2: the header of a frame). What can be read must be written, read again, and be equal.
 * How it is built: tests/fuzz/README.
 */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "protocol/codec.h"
#include "protocol/tables.h"

#define MUST(condition) \
    do { \
        if (!(condition)) \
            abort(); \
    } while (0)

enum { HEAD = 4 };

static void write_and_read_again(const struct message *m, int version, const void *body,
                                 struct arena *arena)
{
    struct encoded out = {0};
    cafka_error err = {0};
    void *again = arena_alloc(arena, message_struct_size(m));
    MUST(again);
    MUST(!message_encode(m, version, body, &out, &err));
    int rc = message_decode(m, version, bytes_of(out.bytes.data, out.bytes.size), arena, again,
                            NULL, &err);
    MUST(!rc && message_equal(m, version, body, again));
    encoded_fini(&out);
}

static void try_body(const struct message *m, int version, struct bytes input, struct arena *arena)
{
    cafka_error err = {0};
    struct buffer json = {0};
    void *body = arena_alloc(arena, message_struct_size(m));
    MUST(body);
    if (!message_decode(m, version, input, arena, body, NULL, &err)) {
        write_and_read_again(m, version, body, arena);
        MUST(!message_to_json(m, version, body, &json, &err));
        MUST(!message_unknown_tags_to_json(m, version, body, &json, &err));
    }
    MUST(arena->used <= 64 * input.size + (4 << 20));
    buffer_fini(&json);
}

static void try_json(const struct message *m, int version, struct bytes input, struct arena *arena)
{
    cafka_error err = {0};
    struct encoded out = {0};
    struct str text = {(const char *)input.data, input.size};
    void *body = arena_alloc(arena, message_struct_size(m));
    MUST(body);
    /* What JSON says may be too much for the version, so only what is written must be readable. */
    if (!message_from_json(m, version, text, arena, body, &err) &&
        !message_encode(m, version, body, &out, &err))
        MUST(!message_decode(m, version, bytes_of(out.bytes.data, out.bytes.size), arena, body,
                             NULL, &err));
    error_clear(&err);
    message_init(m, body);
    (void)message_unknown_tags_from_json(m, version, text, arena, body, &err);
    encoded_fini(&out);
}

static void try_heads(struct bytes input, int version)
{
    struct request_head head;
    int32_t correlation_id;
    size_t size;
    cafka_error err = {0};
    if (!request_head_decode(input, &head, &err))
        MUST(head.size <= input.size);
    for (int key = 0; key < API_KEY_COUNT; key++)
        if (!response_head_decode(api_find(key), version, input, &correlation_id, &size, &err))
            MUST(size <= input.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD)
        return 0;
    const struct message *m = message_table[load_be16(data) % message_table_count];
    int versions = message_max_version(m) - message_min_version(m) + 1;
    int version = message_min_version(m) + data[2] % versions;
    struct bytes input = bytes_of(data + HEAD, size - HEAD);
    struct arena arena = {0};
    if (data[3] % 3 == 0)
        try_body(m, version, input, &arena);
    else if (data[3] % 3 == 1)
        try_json(m, version, input, &arena);
    else
        try_heads(input, version);
    arena_fini(&arena);
    return 0;
}
