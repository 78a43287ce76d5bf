/*
 * test_api.c - API keys, headers and frames, and the error table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "protocol/api_keys.h"
#include "protocol/codec.h"
#include "protocol/errors.h"
#include "protocol/messages/ApiVersions.h"
#include "protocol/messages/Metadata.h"
#include "protocol/messages/Produce.h"
#include "protocol/messages/RequestHeader.h"
#include "protocol/messages/ResponseHeader.h"
#include "protocol/messages/SaslHandshake.h"
#include "protocol/tables.h"

/* --- the table --- */

static void api_is_found_by_key_and_by_name(void **state)
{
    (void)state;
    for (int key = 0; key < API_KEY_COUNT; key++) {
        const struct api *api = api_find(key);
        assert_non_null(api);
        assert_int_equal(api->key, key);
        assert_ptr_equal(api_find_name(str_of(api->name)), api);
    }
    assert_null(api_find(-1));
    assert_null(api_find(API_KEY_COUNT));
    assert_null(api_find_name(str_of("Metadat")));
    assert_null(api_find_name(str_of(NULL)));
    assert_string_equal(api_find(API_METADATA)->name, "Metadata");
    assert_ptr_equal(api_find(API_METADATA)->response, &metadata_response_message);
}

static void message_is_found_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < message_table_count; i++)
        assert_ptr_equal(message_find(str_of(message_name(message_table[i]))), message_table[i]);
    assert_ptr_equal(message_find(str_of("MetadataResponse")), &metadata_response_message);
    assert_null(message_find(str_of("MetadataRespons")));
    assert_null(message_find(str_of("MetadataResponses")));
    assert_null(message_find(str_of("")));
    assert_null(message_find(str_of(NULL)));
}

static void served_versions_are_those_of_a_4_3_broker(void **state)
{
    (void)state;
    const struct api *produce = api_find(API_PRODUCE), *init = api_find(API_INIT_PRODUCER_ID);
    assert_int_equal(produce->min_version, 3);
    assert_int_equal(produce->max_version, 13);
    assert_int_equal(api_advertised_min(produce),
                     0);                    /* old clients look for it, though it is refused */
    assert_int_equal(init->max_version, 5); /* 6 is not released */
    assert_int_equal(message_max_version(init->request), 6);
    assert_int_equal(api_find(API_SHARE_FETCH)->min_version, 1); /* 0 was early access */
    assert_int_equal(api_find(API_CREATE_DELEGATION_TOKEN)->min_version, 1);
    const struct api *leader_and_isr = api_find(API_LEADER_AND_ISR);
    assert_true(leader_and_isr->max_version < leader_and_isr->min_version);
    assert_int_equal(leader_and_isr->listeners, API_ON_ZK_BROKER);
}

static void route_listeners_and_throttle_come_from_the_schema(void **state)
{
    (void)state;
    assert_int_equal(api_find(API_JOIN_GROUP)->route, API_ROUTE_GROUP);
    assert_int_equal(api_find(API_END_TXN)->route, API_ROUTE_TXN);
    assert_int_equal(api_find(API_CREATE_TOPICS)->route, API_ROUTE_CONTROLLER);
    assert_int_equal(api_find(API_WRITE_SHARE_GROUP_STATE)->route, API_ROUTE_SHARE);
    assert_int_equal(api_find(API_METADATA)->route, API_ROUTE_ANY);
    assert_int_equal(api_find(API_FETCH)->listeners, API_ON_BROKER | API_ON_CONTROLLER);
    assert_int_equal(api_find(API_FETCH)->client_throttle_from, 8);
    assert_int_equal(api_find(API_VOTE)->client_throttle_from, -1);
}

/* --- headers --- */

static void header_versions_follow_flexibility_but_for_two(void **state)
{
    (void)state;
    const struct api *metadata = api_find(API_METADATA);
    assert_int_equal(api_request_header_version(metadata, 8), 1);
    assert_int_equal(api_request_header_version(metadata, 9), 2);
    assert_int_equal(api_response_header_version(metadata, 8), 0);
    assert_int_equal(api_response_header_version(metadata, 9), 1);
    assert_int_equal(api_request_header_version(api_find(API_API_VERSIONS), 3), 2);
    assert_int_equal(api_response_header_version(api_find(API_API_VERSIONS), 3), 0);
    assert_int_equal(api_request_header_version(api_find(API_CONTROLLED_SHUTDOWN), 0), 0);
    assert_int_equal(api_request_header_version(api_find(API_CONTROLLED_SHUTDOWN), 1), 1);
    assert_int_equal(api_request_header_version(api_find(API_SASL_HANDSHAKE), 1), 1);
}

static void frame_is_size_header_and_body(void **state)
{
    (void)state;
    struct encoded e = {0};
    struct metadata_request body;
    struct request_head head;
    cafka_error err = {0};
    metadata_request_init(&body);
    for (int version = 0; version <= 13; version++) {
        body.allow_auto_topic_creation = true;
        assert_int_equal(request_encode(api_find(API_METADATA), version, 77, str_of("me"), &body,
                                        &e, &err),
                         CAFKA_OK);
        assert_int_equal(load_be32(e.bytes.data), e.bytes.size - 4);
        struct bytes frame = bytes_of(e.bytes.data + 4, e.bytes.size - 4);
        assert_int_equal(request_head_decode(frame, &head, &err), CAFKA_OK);
        assert_int_equal(head.api_key, API_METADATA);
        assert_int_equal(head.api_version, version);
        assert_int_equal(head.correlation_id, 77);
        assert_true(str_is(head.client_id, "me"));
        assert_int_equal(head.size, version >= 9 ? 13 : 12);
    }
    encoded_fini(&e);
}

static void size_of_a_frame_counts_the_splices(void **state)
{
    (void)state;
    struct encoded e = {0};
    struct produce_request body;
    struct produce_request_partition_produce_data partition = {.records = {NULL, 1000, &e}};
    struct produce_request_topic_produce_data topic = {.name = {"t", 1},
                                                       .partition_data = &partition,
                                                       .partition_data_count = 1};
    cafka_error err = {0};
    produce_request_init(&body);
    body.topic_data = &topic;
    body.topic_data_count = 1;
    assert_int_equal(request_encode(api_find(API_PRODUCE), 9, 1, str_of(NULL), &body, &e, &err),
                     CAFKA_OK);
    assert_int_equal(e.splice_count, 1);
    assert_int_equal(load_be32(e.bytes.data), e.bytes.size - 4 + 1000);
    encoded_fini(&e);
}

static void response_frame_is_read_with_its_header(void **state)
{
    (void)state;
    struct encoded e = {0};
    struct metadata_response body;
    struct api_versions_response versions;
    cafka_error err = {0};
    int32_t id;
    size_t size;
    metadata_response_init(&body);
    api_versions_response_init(&versions);
    for (int version = 8; version <= 9; version++) {
        const struct api *api = api_find(API_METADATA);
        assert_int_equal(response_encode(api, version, -5, &body, &e, &err), CAFKA_OK);
        struct bytes frame = bytes_of(e.bytes.data + 4, e.bytes.size - 4);
        assert_int_equal(response_head_decode(api, version, frame, &id, &size, &err), CAFKA_OK);
        assert_int_equal(id, -5);
        assert_int_equal(size, version == 8 ? 4 : 5);
    }
    assert_int_equal(response_encode(api_find(API_API_VERSIONS), 4, 9, &versions, &e, &err),
                     CAFKA_OK);
    assert_int_equal(response_head_decode(api_find(API_API_VERSIONS), 4,
                                          bytes_of(e.bytes.data + 4, e.bytes.size - 4), &id, &size,
                                          &err),
                     CAFKA_OK);
    assert_int_equal(size, 4);
    encoded_fini(&e);
}

static int read_head(const char *hex, struct request_head *head, cafka_error *err)
{
    static uint8_t data[64];
    ptrdiff_t size = from_hex(hex, strlen(hex), data);
    return request_head_decode(bytes_of(data, (size_t)size), head, err);
}

static void head_of_an_unknown_version_still_says_whom_to_answer(void **state)
{
    (void)state;
    struct request_head head;
    cafka_error err = {0};
    assert_int_equal(read_head("0012"
                               "007f"
                               "0000002a"
                               "0002"
                               "6d65"
                               "00",
                               &head, &err),
                     CAFKA_ERR_UNSUPPORTED);
    assert_int_equal(head.api_key, API_API_VERSIONS);
    assert_int_equal(head.api_version, 127);
    assert_int_equal(head.correlation_id, 42);
    assert_true(str_is(head.client_id, "me"));
    error_clear(&err);
    assert_int_equal(read_head("0300"
                               "0000"
                               "00000001"
                               "ffff",
                               &head, &err),
                     CAFKA_ERR_UNSUPPORTED);
    assert_int_equal(head.api_key, 0x300);
    assert_null(head.client_id.data);
}

static void head_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    /* Metadata 9, client "me", two tags in the header */
    static const uint8_t bytes[] = {0, 3, 0, 9, 0, 0, 0, 1, 0, 2, 'm', 'e', 2, 5, 1, 0xff, 6, 0};
    struct request_head head;
    for (size_t size = 0; size < sizeof bytes; size++) {
        cafka_error err = {0};
        assert_int_equal(request_head_decode(bytes_of(bytes, size), &head, &err),
                         CAFKA_ERR_PROTOCOL);
    }
    cafka_error err = {0};
    assert_int_equal(request_head_decode(bytes_of(bytes, sizeof bytes), &head, &err), CAFKA_OK);
    assert_int_equal(head.size, sizeof bytes);
    int32_t id;
    size_t used;
    for (size_t size = 0; size < 5; size++) {
        error_clear(&err);
        assert_int_equal(response_head_decode(api_find(API_METADATA), 9,
                                              bytes_of("\0\0\0\1", size < 4 ? size : 4), &id, &used,
                                              &err),
                         CAFKA_ERR_PROTOCOL);
    }
}

static void client_id_longer_than_a_header_holds_is_refused(void **state)
{
    (void)state;
    static char text[40000];
    struct encoded e = {0};
    struct metadata_request body;
    cafka_error err = {0};
    metadata_request_init(&body);
    assert_int_equal(request_encode(api_find(API_METADATA), 9, 1, (struct str){text, sizeof text},
                                    &body, &e, &err),
                     CAFKA_ERR_ARGUMENT);
    encoded_fini(&e);
}

/* The tables of the headers and the functions that read them are two spellings of one thing. */
static void written_out_header_equals_the_one_of_the_schema(void **state)
{
    (void)state;
    struct encoded frame = {0}, header = {0};
    struct sasl_handshake_request body;
    struct request_header fields;
    cafka_error err = {0};
    sasl_handshake_request_init(&body);
    request_header_init(&fields);
    fields.request_api_key = API_SASL_HANDSHAKE;
    fields.request_api_version = 1;
    fields.correlation_id = 12345;
    fields.client_id = str_of("client");
    assert_int_equal(request_encode(api_find(API_SASL_HANDSHAKE), 1, 12345, str_of("client"), &body,
                                    &frame, &err),
                     CAFKA_OK);
    assert_int_equal(message_encode(&request_header_message, 1, &fields, &header, &err), CAFKA_OK);
    assert_memory_equal(frame.bytes.data + 4, header.bytes.data, header.bytes.size);
    encoded_fini(&frame);
    encoded_fini(&header);
}

/* --- errors --- */

static void error_table_has_no_holes(void **state)
{
    (void)state;
    assert_int_equal(protocol_error_table_count, 135);
    for (int code = -1; code <= 133; code++) {
        assert_int_equal(protocol_error_table[code + 1].code, code);
        assert_non_null(protocol_error_name(code));
    }
    assert_null(protocol_error_name(-2));
    assert_null(protocol_error_name(134));
    assert_int_equal(protocol_error_flags(9999), 0);
    assert_false(protocol_error_retriable(-1000));
    assert_string_equal(protocol_error_name(ERR_UNKNOWN_SERVER_ERROR), "UNKNOWN_SERVER_ERROR");
    assert_string_equal(protocol_error_name(ERR_SHARE_SESSION_LIMIT_REACHED),
                        "SHARE_SESSION_LIMIT_REACHED");
}

static void error_says_what_a_caller_may_do(void **state)
{
    (void)state;
    static const struct {
        int code;
        unsigned flags;
        bool refresh;
    } cases[] = {
        {ERR_NONE, 0, false},
        {ERR_NOT_LEADER_OR_FOLLOWER, CAFKA_RETRIABLE, true},
        {ERR_COORDINATOR_LOAD_IN_PROGRESS, CAFKA_RETRIABLE, false},
        {ERR_REQUEST_TIMED_OUT, CAFKA_RETRIABLE | CAFKA_FLAG_TIMEOUT | CAFKA_UNKNOWN_OUTCOME, false},
        {ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, CAFKA_RETRIABLE | CAFKA_UNKNOWN_OUTCOME, false},
        {ERR_NOT_ENOUGH_REPLICAS, CAFKA_RETRIABLE, false},
        {ERR_TRANSACTION_ABORTABLE, CAFKA_ABORTABLE, false},
        {ERR_PRODUCER_FENCED, CAFKA_FENCED | CAFKA_FATAL, false},
        {ERR_TOPIC_AUTHORIZATION_FAILED, CAFKA_FLAG_AUTH, false},
        {ERR_SASL_AUTHENTICATION_FAILED, CAFKA_FLAG_AUTH, false},
        {ERR_INVALID_REQUIRED_ACKS, CAFKA_FLAG_CONFIG, false},
        {ERR_MESSAGE_TOO_LARGE, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(protocol_error_flags(cases[i].code), cases[i].flags);
        assert_int_equal(protocol_error_retriable(cases[i].code),
                         (cases[i].flags & CAFKA_RETRIABLE) != 0);
        assert_int_equal(protocol_error_refresh_metadata(cases[i].code), cases[i].refresh);
    }
}

static void registered_codes_are_known_to_the_public_functions(void **state)
{
    (void)state;
    cafka_error err = {0};
    protocol_errors_register();
    protocol_errors_register();
    assert_string_equal(cafka_error_name(ERR_UNKNOWN_TOPIC_OR_PARTITION),
                        "UNKNOWN_TOPIC_OR_PARTITION");
    assert_string_equal(cafka_error_name(-1), "UNKNOWN_SERVER_ERROR");
    assert_string_equal(cafka_error_name(-500), "UNKNOWN_ERROR_CODE");
    assert_int_equal(error_set(&err, ERR_LEADER_NOT_AVAILABLE, "x"), ERR_LEADER_NOT_AVAILABLE);
    assert_int_equal(err.flags, CAFKA_RETRIABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(api_is_found_by_key_and_by_name),
        cmocka_unit_test(message_is_found_by_name),
        cmocka_unit_test(served_versions_are_those_of_a_4_3_broker),
        cmocka_unit_test(route_listeners_and_throttle_come_from_the_schema),
        cmocka_unit_test(header_versions_follow_flexibility_but_for_two),
        cmocka_unit_test(frame_is_size_header_and_body),
        cmocka_unit_test(size_of_a_frame_counts_the_splices),
        cmocka_unit_test(response_frame_is_read_with_its_header),
        cmocka_unit_test(head_of_an_unknown_version_still_says_whom_to_answer),
        cmocka_unit_test(head_cut_at_any_byte_is_refused),
        cmocka_unit_test(client_id_longer_than_a_header_holds_is_refused),
        cmocka_unit_test(written_out_header_equals_the_one_of_the_schema),
        cmocka_unit_test(error_table_has_no_holes),
        cmocka_unit_test(error_says_what_a_caller_may_do),
        cmocka_unit_test(registered_codes_are_known_to_the_public_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
