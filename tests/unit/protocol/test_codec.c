/*
 * test_codec.c - the codec against itself and against hostile bytes: every message, every version.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "protocol/codec.h"
#include "protocol/messages/AddPartitionsToTxn.h"
#include "protocol/messages/ConsumerGroupMemberMetadataValue.h"
#include "protocol/messages/DeleteTopics.h"
#include "protocol/messages/DescribeTopicPartitions.h"
#include "protocol/messages/Fetch.h"
#include "protocol/messages/Metadata.h"
#include "protocol/messages/OffsetFetch.h"
#include "protocol/messages/Produce.h"
#include "protocol/tables.h"
#include "util/alloc.h"
#include "util/rng.h"

static struct arena arena;

static void *new_body(const struct message *m)
{
    void *body = arena_alloc(&arena, message_struct_size(m));
    assert_non_null(body);
    return body;
}

static struct bytes all_bytes(const struct encoded *e)
{
    return bytes_of(e->bytes.data, e->bytes.size);
}

static struct bytes unhex(const char *hex)
{
    size_t length = strlen(hex);
    uint8_t *data = arena_alloc(&arena, length / 2 + 1);
    assert_true(from_hex(hex, length, data) == (ptrdiff_t)(length / 2));
    return bytes_of(data, length / 2);
}

static unsigned rounds(unsigned usual)
{
    return getenv("CAFKA_UNDER_VALGRIND") ? 1 : usual;
}

typedef void check_fn(const struct message *m, int version, struct rng *rng);

static void each_message_and_version(check_fn *check, unsigned times)
{
    struct rng rng;
    rng_seed(&rng, 2026);
    for (size_t i = 0; i < message_table_count; i++) {
        const struct message *m = message_table[i];
        for (int version = message_min_version(m); version <= message_max_version(m); version++)
            for (unsigned n = 0; n < times; n++) {
                check(m, version, &rng);
                arena_reset(&arena);
            }
    }
}

static void *make_random(const struct message *m, int version, struct rng *rng, struct encoded *out)
{
    cafka_error err = {0};
    void *body = new_body(m);
    if (message_random(m, version, rng, &arena, body, &err) ||
        message_encode(m, version, body, out, &err))
        fail_msg("%s", err.message);
    return body;
}

/* --- round trips --- */

static void check_bytes_round_trip(const struct message *m, int version, struct rng *rng)
{
    cafka_error err = {0};
    struct encoded first = {0}, second = {0};
    void *body = make_random(m, version, rng, &first), *read = new_body(m);
    if (message_decode(m, version, all_bytes(&first), &arena, read, NULL, &err) ||
        message_encode(m, version, read, &second, &err))
        fail_msg("%s", err.message);
    if (!message_equal(m, version, body, read))
        fail_msg("%s version %d is not what was written", message_name(m), version);
    assert_true(bytes_equal(all_bytes(&first), all_bytes(&second)));
    encoded_fini(&first);
    encoded_fini(&second);
}

static void every_message_of_every_version_survives_its_bytes(void **state)
{
    (void)state;
    each_message_and_version(check_bytes_round_trip, rounds(30));
}

static void check_json_round_trip(const struct message *m, int version, struct rng *rng)
{
    cafka_error err = {0};
    struct encoded bytes = {0};
    struct buffer json = {0}, tags = {0}, again = {0};
    void *body = make_random(m, version, rng, &bytes), *read = new_body(m);
    if (message_to_json(m, version, body, &json, &err) ||
        message_unknown_tags_to_json(m, version, body, &tags, &err) ||
        message_from_json(m, version, (struct str){(char *)json.data, json.size}, &arena, read,
                          &err) ||
        (tags.size &&
         message_unknown_tags_from_json(m, version, (struct str){(char *)tags.data, tags.size},
                                        &arena, read, &err)) ||
        message_to_json(m, version, read, &again, &err))
        fail_msg("%s\n%.*s", err.message, (int)json.size, (char *)json.data);
    if (!message_equal(m, version, body, read))
        fail_msg("%s version %d is not its JSON %.*s", message_name(m), version, (int)json.size,
                 (char *)json.data);
    assert_true(bytes_equal(bytes_of(json.data, json.size), bytes_of(again.data, again.size)));
    encoded_fini(&bytes);
    buffer_fini(&json);
    buffer_fini(&tags);
    buffer_fini(&again);
}

static void every_message_of_every_version_survives_its_json(void **state)
{
    (void)state;
    each_message_and_version(check_json_round_trip, rounds(12));
}

static void check_same_seed(const struct message *m, int version, struct rng *rng)
{
    struct rng copy = *rng;
    struct encoded first = {0}, second = {0};
    (void)make_random(m, version, rng, &first);
    (void)make_random(m, version, &copy, &second);
    assert_true(bytes_equal(all_bytes(&first), all_bytes(&second)));
    encoded_fini(&first);
    encoded_fini(&second);
}

static void random_messages_follow_the_seed(void **state)
{
    (void)state;
    each_message_and_version(check_same_seed, 1);
}

/* --- hostile bytes --- */

/* Decode from memory of exactly this size, so that a sanitizer sees one byte too far. */
static int decode_exact(const struct message *m, int version, struct bytes bytes,
                        struct arena *into, void *body, cafka_error *err)
{
    uint8_t *copy = malloc(bytes.size ? bytes.size : 1);
    assert_non_null(copy);
    if (bytes.size)
        memcpy(copy, bytes.data, bytes.size);
    int rc = message_decode(m, version, bytes_of(copy, bytes.size), into, body, NULL, err);
    assert_true(into->used <= 16 * bytes.size + (1 << 20));
    assert_int_equal(rc, err->code);
    free(copy);
    return rc;
}

static void check_cuts(const struct message *m, int version, struct rng *rng)
{
    struct encoded out = {0};
    struct arena scratch = {0};
    (void)make_random(m, version, rng, &out);
    void *body = new_body(m);
    for (size_t size = 0; size < out.bytes.size && size < 600; size++) {
        cafka_error err = {0};
        arena_reset(&scratch);
        int rc = decode_exact(m, version, bytes_of(out.bytes.data, size), &scratch, body, &err);
        if (rc != CAFKA_ERR_PROTOCOL)
            fail_msg("%s version %d cut to %zu of %zu bytes: %d %s", message_name(m), version, size,
                     out.bytes.size, rc, err.message);
    }
    arena_fini(&scratch);
    encoded_fini(&out);
}

static void message_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    each_message_and_version(check_cuts, rounds(3));
}

/* Whatever was read is written and read back the same. */
static void check_what_was_read(const struct message *m, int version, void *body)
{
    cafka_error err = {0};
    struct encoded out = {0};
    void *again = new_body(m);
    if (message_encode(m, version, body, &out, &err) ||
        message_decode(m, version, all_bytes(&out), &arena, again, NULL, &err))
        fail_msg("%s", err.message);
    assert_true(message_equal(m, version, body, again));
    encoded_fini(&out);
}

static void check_damage(const struct message *m, int version, struct rng *rng)
{
    static const uint8_t patterns[][5] = {
        {0x7f, 0xff, 0xff, 0xff, 0x7f}, {0xff, 0xff, 0xff, 0xff, 0xff},
        {0x80, 0x00, 0x00, 0x00, 0x80}, {0xff, 0xff, 0xff, 0xff, 0x0f},
        {0xff, 0xff, 0xff, 0xff, 0x07}, {0x7f, 0xfe, 0x01, 0x00, 0x10},
    };
    struct encoded out = {0};
    struct arena scratch = {0};
    (void)make_random(m, version, rng, &out);
    void *body = new_body(m);
    uint8_t *damaged = arena_alloc(&arena, out.bytes.size + 1);
    for (size_t at = 0; at < out.bytes.size && at < 200; at++) {
        const uint8_t *pattern = patterns[rng_below(rng, sizeof patterns / sizeof *patterns)];
        size_t length = 1 + (size_t)rng_below(rng, 5);
        memcpy(damaged, out.bytes.data, out.bytes.size);
        for (size_t i = 0; i < length && at + i < out.bytes.size; i++)
            damaged[at + i] = rng_below(rng, 4) ? pattern[i] : (uint8_t)rng_next(rng);
        cafka_error err = {0};
        arena_reset(&scratch);
        int rc = decode_exact(m, version, bytes_of(damaged, out.bytes.size), &scratch, body, &err);
        if (!rc)
            rc = message_decode(m, version, bytes_of(damaged, out.bytes.size), &scratch, body, NULL,
                                &err);
        if (!rc)
            check_what_was_read(m, version, body);
        else
            assert_int_equal(rc, CAFKA_ERR_PROTOCOL);
    }
    arena_fini(&scratch);
    encoded_fini(&out);
}

static void damaged_message_is_refused_or_read_as_something_else(void **state)
{
    (void)state;
    each_message_and_version(check_damage, rounds(6));
}

static int decode_hex(const struct message *m, int version, const char *hex, void *body,
                      cafka_error *err)
{
    return decode_exact(m, version, unhex(hex), &arena, body, err);
}

static void huge_count_is_refused_before_memory_is_taken(void **state)
{
    (void)state;
    struct metadata_request request;
    cafka_error err = {0};
    unsigned long before = (mem_fail_after(0, 0), mem_count());
    assert_int_equal(decode_hex(&metadata_request_message, 1, "7fffffff0000", &request, &err),
                     CAFKA_ERR_PROTOCOL);
    assert_string_equal(err.message,
                        "MetadataRequest version 1: topics: 4294967294 bytes are needed, 2 are left");
    assert_true(mem_count() - before <= 1); /* the arena's own first block */
    error_clear(&err);
    assert_int_equal(decode_hex(&metadata_request_message, 9, "ffffffff0f0000", &request, &err),
                     CAFKA_ERR_PROTOCOL);
    arena_reset(&arena);
}

/* A topic without name and partitions takes 3 bytes in OffsetFetchRequest 9, and 56 in memory. */
static void small_frame_does_not_become_a_large_message(void **state)
{
    (void)state;
    enum { TOPICS = 300000 };
    struct encoded out = {0};
    struct arena scratch = {0};
    struct offset_fetch_request request;
    struct offset_fetch_request_group group;
    cafka_error err = {0};
    offset_fetch_request_init(&request);
    offset_fetch_request_group_init(&group);
    group.topics = arena_calloc(&arena, TOPICS, sizeof *group.topics);
    group.topics_count = TOPICS;
    request.groups = &group;
    request.groups_count = 1;
    assert_int_equal(message_encode(&offset_fetch_request_message, 9, &request, &out, &err),
                     CAFKA_OK);
    int rc = message_decode(&offset_fetch_request_message, 9, all_bytes(&out), &scratch, &request,
                            NULL, &err);
    assert_int_equal(rc, CAFKA_ERR_PROTOCOL);
    assert_non_null(strstr(err.message, "more than 16 times"));
    arena_fini(&scratch);
    encoded_fini(&out);
    arena_reset(&arena);
}

static void limit_of_the_arena_is_kept_and_restored(void **state)
{
    (void)state;
    struct arena small = {.limit = 64};
    struct metadata_request request;
    cafka_error err = {0};
    struct bytes bytes = unhex("00000003000161000162000163");
    assert_int_equal(message_decode(&metadata_request_message, 1, bytes, &small, &request, NULL,
                                    &err),
                     CAFKA_ERR_PROTOCOL);
    assert_int_equal(small.limit, 64);
    small.limit = 0;
    error_clear(&err);
    assert_int_equal(message_decode(&metadata_request_message, 1, bytes, &small, &request, NULL,
                                    &err),
                     CAFKA_OK);
    assert_int_equal(small.limit, 0);
    assert_int_equal(request.topics_count, 3);
    arena_fini(&small);
    arena_reset(&arena);
}

static void tags_that_lie_are_refused(void **state)
{
    (void)state;
    /* MetadataRequest 9: no topics, three flags, then the tags. */
    static const struct {
        const char *hex, *what;
    } lies[] = {
        {"0100000001", "2 bytes are needed"},       /* one tag, and the end */
        {"01000000020100", "4 bytes are needed"},   /* two tags, room for one */
        {"0100000001050461", "4 bytes are needed"}, /* a payload longer than what is left */
        {"01000000020200010161", "do not ascend"},  /* 2, then 1 */
        {"010000000202000200", "do not ascend"},    /* the same twice */
        {"0100000001ffffffffff0f00", "varint"},     /* a tag of six bytes */
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct metadata_request request;
        cafka_error err = {0};
        assert_int_equal(decode_hex(&metadata_request_message, 9, lies[i].hex, &request, &err),
                         CAFKA_ERR_PROTOCOL);
        if (!strstr(err.message, lies[i].what))
            fail_msg("%s: %s", lies[i].hex, err.message);
    }
    arena_reset(&arena);
}

static void tagged_field_must_be_as_long_as_it_says(void **state)
{
    (void)state;
    struct fetch_request request;
    cafka_error err = {0};
    struct encoded out = {0};
    fetch_request_init(&request);
    request.cluster_id = str_of("abc");
    assert_int_equal(message_encode(&fetch_request_message, 12, &request, &out, &err), CAFKA_OK);
    /* The end is: one tag, number 0, 4 bytes, length 3+1, "abc". */
    uint8_t *end = out.bytes.data + out.bytes.size;
    assert_memory_equal(end - 7,
                        "\x01\x00\x04\x04"
                        "abc",
                        7);
    end[-4] = 3; /* the text is "ab" now, but the tag still says 4 bytes */
    assert_int_equal(message_decode(&fetch_request_message, 12, all_bytes(&out), &arena, &request,
                                    NULL, &err),
                     CAFKA_ERR_PROTOCOL);
    assert_string_equal(err.message,
                        "FetchRequest version 12: clusterId: the tagged field is longer than its content");
    encoded_fini(&out);
    arena_reset(&arena);
}

static void path_of_what_is_wrong_is_named(void **state)
{
    (void)state;
    struct metadata_response response;
    cafka_error err = {0};
    /* no brokers; two topics, the second with a partition whose replicas are cut */
    assert_int_equal(decode_hex(&metadata_response_message, 0,
                                "00000000"
                                "00000002"
                                "0000000161"
                                "00000000"
                                "0000000162"
                                "00000001"
                                "0000"
                                "00000000"
                                "00000001"
                                "00000002"
                                "00000001",
                                &response, &err),
                     CAFKA_ERR_PROTOCOL);
    assert_string_equal(err.message,
                        "MetadataResponse version 0: topics[1].partitions[0].replicaNodes: "
                        "8 bytes are needed, 4 are left");
    arena_reset(&arena);
}

static void bytes_left_over_are_an_error_unless_the_caller_counts(void **state)
{
    (void)state;
    struct metadata_request request;
    cafka_error err = {0};
    size_t used = 0;
    struct bytes bytes = unhex("0000000099");
    assert_int_equal(message_decode(&metadata_request_message, 1, bytes, &arena, &request, NULL,
                                    &err),
                     CAFKA_ERR_PROTOCOL);
    error_clear(&err);
    assert_int_equal(message_decode(&metadata_request_message, 1, bytes, &arena, &request, &used,
                                    &err),
                     CAFKA_OK);
    assert_int_equal(used, 4);
    assert_int_equal(message_decode(&metadata_request_message, 99, bytes, &arena, &request, &used,
                                    &err),
                     CAFKA_ERR_UNSUPPORTED);
    arena_reset(&arena);
}

/* --- null --- */

static void any_negative_old_length_is_null_where_null_is_legal(void **state)
{
    (void)state;
    struct metadata_request request;
    cafka_error err = {0};
    assert_int_equal(decode_hex(&metadata_request_message, 1, "ffffffff", &request, &err), CAFKA_OK);
    assert_int_equal(request.topics_count, -1);
    assert_int_equal(decode_hex(&metadata_request_message, 1, "80000000", &request, &err), CAFKA_OK);
    assert_int_equal(request.topics_count, -1);
    /* Version 0 has no null. */
    assert_int_equal(decode_hex(&metadata_request_message, 0, "ffffffff", &request, &err),
                     CAFKA_ERR_PROTOCOL);
    arena_reset(&arena);
}

static void missing_string_is_written_empty_where_null_is_not_legal(void **state)
{
    (void)state;
    struct encoded out = {0};
    struct delete_topics_request request;
    struct str names[] = {{NULL, 0}};
    cafka_error err = {0};
    delete_topics_request_init(&request);
    request.topic_names = names;
    request.topic_names_count = 1;
    assert_int_equal(message_encode(&delete_topics_request_message, 1, &request, &out, &err),
                     CAFKA_OK);
    assert_true(bytes_equal(all_bytes(&out), unhex("00000001"
                                                   "0000"
                                                   "00000000")));
    encoded_fini(&out);
    arena_reset(&arena);
}

static void null_array_or_struct_is_refused_where_it_is_not_legal(void **state)
{
    (void)state;
    struct encoded out = {0};
    struct metadata_request request;
    cafka_error err = {0};
    metadata_request_init(&request);
    request.topics_count = -1;
    assert_int_equal(message_encode(&metadata_request_message, 0, &request, &out, &err),
                     CAFKA_ERR_ARGUMENT);
    assert_int_equal(out.bytes.size, 0); /* nothing half-written is left */
    error_clear(&err);
    assert_int_equal(message_encode(&metadata_request_message, 1, &request, &out, &err), CAFKA_OK);
    encoded_fini(&out);
}

/* Inside a tag the marker of a nullable struct is an unsigned varint, and a default is not sent. */
static void nullable_struct_in_a_tag_is_absent_by_default_and_marked_when_null(void **state)
{
    (void)state;
    struct encoded out = {0};
    struct consumer_group_member_metadata_value value;
    const struct message *m = &consumer_group_member_metadata_value_message;
    cafka_error err = {0};
    consumer_group_member_metadata_value_init(&value);
    assert_int_equal(message_encode(m, 0, &value, &out, &err), CAFKA_OK);
    size_t size = out.bytes.size;
    assert_int_equal(out.bytes.data[size - 1], 0);
    value.classic_member_metadata = NULL;
    encoded_clear(&out);
    assert_int_equal(message_encode(m, 0, &value, &out, &err), CAFKA_OK);
    assert_int_equal(out.bytes.size, size + 3);
    assert_memory_equal(out.bytes.data + size - 1, "\x01\x00\x01\x00",
                        4); /* one tag, number 0, one byte: null */
    assert_int_equal(message_decode(m, 0, all_bytes(&out), &arena, &value, NULL, &err), CAFKA_OK);
    assert_null(value.classic_member_metadata);
    encoded_fini(&out);
    arena_reset(&arena);
}

/* --- versions --- */

static void value_that_the_version_cannot_say_is_refused_unless_ignorable(void **state)
{
    (void)state;
    struct encoded out = {0};
    struct fetch_request request;
    cafka_error err = {0};
    fetch_request_init(&request);
    request.isolation_level = 1; /* 4+, ignorable */
    assert_int_equal(message_encode(&fetch_request_message, 3, &request, &out, &err), CAFKA_OK);
    struct fetch_request_forgotten_topic forgotten = {.topic = {"t", 1}};
    request.forgotten_topics_data = &forgotten; /* 7+, not ignorable */
    request.forgotten_topics_data_count = 1;
    encoded_clear(&out);
    assert_int_equal(message_encode(&fetch_request_message, 6, &request, &out, &err),
                     CAFKA_ERR_UNSUPPORTED);
    assert_string_equal(err.message,
                        "FetchRequest version 6: forgottenTopicsData: the version has no such "
                        "field, and its value matters");
    error_clear(&err);
    assert_int_equal(message_encode(&fetch_request_message, 7, &request, &out, &err), CAFKA_OK);
    encoded_fini(&out);
}

static void unknown_tags_need_a_flexible_version_and_an_order(void **state)
{
    (void)state;
    struct encoded out = {0};
    struct metadata_request request;
    cafka_error err = {0};
    struct unknown_tags *tags = arena_alloc(&arena, sizeof *tags + 2 * sizeof *tags->tags);
    tags->count = 2;
    tags->tags[0] = (struct unknown_tag){9, bytes_of("x", 1)};
    tags->tags[1] = (struct unknown_tag){7, bytes_of("y", 1)};
    metadata_request_init(&request);
    request.unknown_tags = tags;
    assert_int_equal(message_encode(&metadata_request_message, 9, &request, &out, &err),
                     CAFKA_ERR_ARGUMENT);
    error_clear(&err);
    tags->tags[1].tag = 10;
    assert_int_equal(message_encode(&metadata_request_message, 9, &request, &out, &err), CAFKA_OK);
    assert_int_equal(message_encode(&metadata_request_message, 8, &request, &out, &err),
                     CAFKA_ERR_UNSUPPORTED);
    encoded_fini(&out);
    arena_reset(&arena);
}

static void tag_that_only_a_later_version_knows_is_kept_as_unknown(void **state)
{
    (void)state;
    struct encoded out = {0};
    struct fetch_response response;
    cafka_error err = {0};
    struct unknown_tags *tags = arena_alloc(&arena, sizeof *tags + sizeof *tags->tags);
    tags->count = 1;
    tags->tags[0] = (struct unknown_tag){0, bytes_of("xy", 2)};
    /* nodeEndpoints is tag 0 from version 16 on; in version 12 a tag 0 is unknown. */
    fetch_response_init(&response);
    response.unknown_tags = tags;
    assert_int_equal(message_encode(&fetch_response_message, 16, &response, &out, &err),
                     CAFKA_ERR_ARGUMENT);
    error_clear(&err);
    assert_int_equal(message_encode(&fetch_response_message, 12, &response, &out, &err), CAFKA_OK);
    assert_int_equal(message_decode(&fetch_response_message, 12, all_bytes(&out), &arena, &response,
                                    NULL, &err),
                     CAFKA_OK);
    assert_non_null(response.unknown_tags);
    assert_int_equal(response.unknown_tags->count, 1);
    assert_int_equal(response.unknown_tags->tags[0].payload.size, 2);
    encoded_fini(&out);
    arena_reset(&arena);
}

/* A payload of 128 bytes needs a size of two, and one of 16384 a size of three. */
static void tags_of_any_length_have_the_right_size(void **state)
{
    (void)state;
    static char text[20000];
    memset(text, 'a', sizeof text);
    for (size_t size = 120; size < sizeof text;
         size += size < 140 || (size > 16370 && size < 16390) ? 1 : 450) {
        struct encoded out = {0};
        struct fetch_request request, read;
        cafka_error err = {0};
        fetch_request_init(&request);
        request.cluster_id = (struct str){text, size};
        assert_int_equal(message_encode(&fetch_request_message, 12, &request, &out, &err), CAFKA_OK);
        assert_int_equal(message_decode(&fetch_request_message, 12, all_bytes(&out), &arena, &read,
                                        NULL, &err),
                         CAFKA_OK);
        assert_true(message_equal(&fetch_request_message, 12, &request, &read));
        encoded_fini(&out);
    }
    arena_reset(&arena);
}

static void text_longer_than_the_protocol_allows_is_refused(void **state)
{
    (void)state;
    static char text[32768];
    struct encoded out = {0};
    struct fetch_request request;
    cafka_error err = {0};
    fetch_request_init(&request);
    request.rack_id = (struct str){text, sizeof text};
    assert_int_equal(message_encode(&fetch_request_message, 12, &request, &out, &err),
                     CAFKA_ERR_TOO_LARGE);
    assert_int_equal(out.bytes.size, 0);
    encoded_fini(&out);
}

/* --- records by reference --- */

static void external_records_are_spliced_where_they_belong(void **state)
{
    (void)state;
    struct encoded out = {0}, whole = {0};
    struct produce_request_partition_produce_data partitions[2] = {{.index = 0}, {.index = 1}};
    struct produce_request_topic_produce_data topic = {.name = {"t", 1},
                                                       .partition_data = partitions,
                                                       .partition_data_count = 2};
    struct produce_request request;
    const char *batches[] = {"first batch", "second"};
    cafka_error err = {0};
    produce_request_init(&request);
    request.topic_data = &topic;
    request.topic_data_count = 1;
    for (int i = 0; i < 2; i++)
        partitions[i].records =
            (struct records){(const uint8_t *)batches[i], strlen(batches[i]), NULL};
    assert_int_equal(message_encode(&produce_request_message, 12, &request, &whole, &err), CAFKA_OK);
    for (int i = 0; i < 2; i++)
        partitions[i].records =
            (struct records){NULL, strlen(batches[i]), (void *)(uintptr_t)batches[i]};
    assert_int_equal(message_encode(&produce_request_message, 12, &request, &out, &err), CAFKA_OK);
    assert_int_equal(out.splice_count, 2);
    assert_int_equal(encoded_size(&out), whole.bytes.size);

    struct buffer joined = {0};
    size_t at = 0;
    for (size_t i = 0; i < out.splice_count; i++) {
        buffer_put(&joined, out.bytes.data + at, out.splices[i].at - at);
        buffer_put(&joined, out.splices[i].external, out.splices[i].size);
        at = out.splices[i].at;
    }
    buffer_put(&joined, out.bytes.data + at, out.bytes.size - at);
    assert_true(bytes_equal(bytes_of(joined.data, joined.size), all_bytes(&whole)));

    buffer_clear(&joined);
    assert_int_equal(message_to_json(&produce_request_message, 12, &request, &joined, &err),
                     CAFKA_OK);
    assert_non_null(strstr(buffer_string(&joined), "\"recordsSizeInBytes\":11"));
    buffer_fini(&joined);
    encoded_fini(&out);
    encoded_fini(&whole);
}

static void decoded_records_and_strings_point_into_the_frame(void **state)
{
    (void)state;
    struct encoded out = {0};
    struct produce_request_partition_produce_data partition = {
        .records = {(const uint8_t *)"abc", 3, NULL}};
    struct produce_request_topic_produce_data topic = {.name = {"t", 1},
                                                       .partition_data = &partition,
                                                       .partition_data_count = 1};
    struct produce_request request;
    cafka_error err = {0};
    produce_request_init(&request);
    request.topic_data = &topic;
    request.topic_data_count = 1;
    assert_int_equal(message_encode(&produce_request_message, 9, &request, &out, &err), CAFKA_OK);
    struct bytes frame = all_bytes(&out);
    assert_int_equal(message_decode(&produce_request_message, 9, frame, &arena, &request, NULL, &err),
                     CAFKA_OK);
    const uint8_t *records = request.topic_data[0].partition_data[0].records.data;
    assert_true(records > frame.data && records < frame.data + frame.size);
    assert_true((const uint8_t *)request.topic_data[0].name.data > frame.data);
    encoded_fini(&out);
    arena_reset(&arena);
}

/* --- JSON that is no message --- */

static void json_that_is_no_message_is_refused_with_its_reason(void **state)
{
    (void)state;
    static const struct {
        const char *json, *what;
    } cases[] = {
        {"", "object was expected"},
        {"{\"topics\":1}", "topics: an array was expected"},
        {"{\"topics\":[{\"name\":5}]}", "name: a string was expected"},
        {"{\"topics\":[{\"nam\":\"x\"}]}", "nam: no version"},
        {"{\"topics\":[]", "comma or a closing"},
        {"{\"topics\":[],}", "a string was expected"},
        {"{\"topics\":[]} x", "text behind"},
        {"{\"allowAutoTopicCreation\":1}", "true or false"},
        {"{\"allowAutoTopicCreation\":null}", "null, where"},
        {"{\"topics\":[{\"topicId\":\"short\"}]}", "URL-safe"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct metadata_request request;
        cafka_error err = {0};
        int rc = message_from_json(&metadata_request_message, 12, str_of(cases[i].json), &arena,
                                   &request, &err);
        assert_int_equal(rc, CAFKA_ERR_ARGUMENT);
        if (!strstr(err.message, cases[i].what))
            fail_msg("%s: %s", cases[i].json, err.message);
    }
    struct fetch_request fetch;
    cafka_error err = {0};
    assert_int_equal(message_from_json(&fetch_request_message, 12,
                                       str_of("{\"maxWaitMs\":2147483648}"), &arena, &fetch, &err),
                     CAFKA_ERR_ARGUMENT);
    arena_reset(&arena);
}

static void json_leaves_the_default_where_it_says_nothing(void **state)
{
    (void)state;
    struct fetch_request request;
    cafka_error err = {0};
    const char *json =
        "{\"maxWaitMs\":500,\"topics\":[{\"topic\":\"t\",\"partitions\":[{\"partition\":3}]}]}";
    assert_int_equal(message_from_json(&fetch_request_message, 11, str_of(json), &arena, &request,
                                       &err),
                     CAFKA_OK);
    assert_int_equal(request.max_wait_ms, 500);
    assert_int_equal(request.max_bytes, INT32_MAX);
    assert_int_equal(request.topics[0].partitions[0].partition, 3);
    assert_int_equal(request.topics[0].partitions[0].log_start_offset, -1);
    arena_reset(&arena);
}

static void unknown_tag_whose_path_leads_nowhere_is_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "[{\"path\":\"topics[1]\",\"tag\":1,\"hex\":\"\"}]",
        "[{\"path\":\"topics\",\"tag\":1,\"hex\":\"\"}]",
        "[{\"path\":\"topics[0].\",\"tag\":1,\"hex\":\"\"}]",
        "[{\"path\":\"nothing\",\"tag\":1,\"hex\":\"\"}]",
        "[{\"path\":\"topics[0]x\",\"tag\":1,\"hex\":\"\"}]",
        "[{\"path\":\"\",\"hex\":\"\"}]",
        "[{\"path\":\"\",\"tag\":-1,\"hex\":\"\"}]",
        "[{\"path\":\"\",\"tag\":1,\"hex\":\"0\"}]",
        "{}",
        "[{\"path\":\"topics[99999999999999]\",\"tag\":1,\"hex\":\"\"}]",
    };
    struct metadata_request request;
    cafka_error err = {0};
    assert_int_equal(message_from_json(&metadata_request_message, 12,
                                       str_of("{\"topics\":[{\"name\":\"a\"}]}"), &arena, &request,
                                       &err),
                     CAFKA_OK);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        error_clear(&err);
        if (message_unknown_tags_from_json(&metadata_request_message, 12, str_of(lists[i]), &arena,
                                           &request, &err) != CAFKA_ERR_ARGUMENT)
            fail_msg("%s was taken", lists[i]);
    }
    arena_reset(&arena);
}

/* --- memory that fails --- */

static int whole_life(const struct message *m, int version, struct bytes bytes, cafka_error *err)
{
    struct arena own = {0};
    struct encoded out = {0};
    struct buffer json = {0}, tags = {0};
    void *body = arena_alloc(&own, message_struct_size(m)),
         *read = arena_alloc(&own, message_struct_size(m));
    int rc = body && read ? CAFKA_OK : error_set(err, CAFKA_ERR_MEMORY, "no memory");
    if (!rc)
        rc = message_decode(m, version, bytes, &own, body, NULL, err);
    if (!rc)
        rc = message_encode(m, version, body, &out, err);
    if (!rc)
        rc = message_to_json(m, version, body, &json, err);
    if (!rc)
        rc = message_unknown_tags_to_json(m, version, body, &tags, err);
    if (!rc)
        rc = message_from_json(m, version, (struct str){(char *)json.data, json.size}, &own, read,
                               err);
    if (!rc && tags.size)
        rc = message_unknown_tags_from_json(m, version, (struct str){(char *)tags.data, tags.size},
                                            &own, read, err);
    encoded_fini(&out);
    buffer_fini(&json);
    buffer_fini(&tags);
    arena_fini(&own);
    return rc;
}

static void check_failing_memory(const struct message *m, int version)
{
    struct rng rng;
    struct encoded out = {0};
    rng_seed(&rng, 7);
    bool rich = false; /* of some size, and with unknown tags where there can be some */
    while (!rich) {
        struct buffer tags = {0};
        encoded_clear(&out);
        const void *body = make_random(m, version, &rng, &out);
        assert_int_equal(message_unknown_tags_to_json(m, version, body, &tags, NULL), CAFKA_OK);
        rich = out.bytes.size >= 300 && (tags.size || !message_is_flexible(m, version));
        buffer_fini(&tags);
    }
    int rc = CAFKA_ERR_MEMORY;
    for (unsigned long k = 1; rc; k++) {
        cafka_error err = {0};
        mem_fail_after(k, 0);
        rc = whole_life(m, version, all_bytes(&out), &err);
        mem_fail_after(0, 0);
        if (rc && rc != CAFKA_ERR_MEMORY)
            fail_msg("allocation %lu: %s", k, err.message);
        assert_int_equal(rc, err.code);
        assert_true(k < 1000);
    }
    encoded_fini(&out);
    arena_reset(&arena);
}

static void memory_that_fails_anywhere_is_reported(void **state)
{
    (void)state;
    check_failing_memory(&fetch_response_message, 16);
    check_failing_memory(&metadata_response_message, 8);
    check_failing_memory(&add_partitions_to_txn_request_message, 4);
    check_failing_memory(&describe_topic_partitions_response_message, 0);
}

static int free_arena(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_of_every_version_survives_its_bytes),
        cmocka_unit_test(every_message_of_every_version_survives_its_json),
        cmocka_unit_test(random_messages_follow_the_seed),
        cmocka_unit_test(message_cut_at_any_byte_is_refused),
        cmocka_unit_test(damaged_message_is_refused_or_read_as_something_else),
        cmocka_unit_test(huge_count_is_refused_before_memory_is_taken),
        cmocka_unit_test(small_frame_does_not_become_a_large_message),
        cmocka_unit_test(limit_of_the_arena_is_kept_and_restored),
        cmocka_unit_test(tags_that_lie_are_refused),
        cmocka_unit_test(tagged_field_must_be_as_long_as_it_says),
        cmocka_unit_test(path_of_what_is_wrong_is_named),
        cmocka_unit_test(bytes_left_over_are_an_error_unless_the_caller_counts),
        cmocka_unit_test(any_negative_old_length_is_null_where_null_is_legal),
        cmocka_unit_test(missing_string_is_written_empty_where_null_is_not_legal),
        cmocka_unit_test(null_array_or_struct_is_refused_where_it_is_not_legal),
        cmocka_unit_test(nullable_struct_in_a_tag_is_absent_by_default_and_marked_when_null),
        cmocka_unit_test(value_that_the_version_cannot_say_is_refused_unless_ignorable),
        cmocka_unit_test(unknown_tags_need_a_flexible_version_and_an_order),
        cmocka_unit_test(tag_that_only_a_later_version_knows_is_kept_as_unknown),
        cmocka_unit_test(tags_of_any_length_have_the_right_size),
        cmocka_unit_test(text_longer_than_the_protocol_allows_is_refused),
        cmocka_unit_test(external_records_are_spliced_where_they_belong),
        cmocka_unit_test(decoded_records_and_strings_point_into_the_frame),
        cmocka_unit_test(json_that_is_no_message_is_refused_with_its_reason),
        cmocka_unit_test(json_leaves_the_default_where_it_says_nothing),
        cmocka_unit_test(unknown_tag_whose_path_leads_nowhere_is_refused),
        cmocka_unit_test(memory_that_fails_anywhere_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
