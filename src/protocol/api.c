/*
 * api.c - the API keys: look-up, header versions, the two header forms and frames. See codec.h.
 *
 * Headers are small and read on every frame, so they are spelled out here and not walked by table;
 * the tables of RequestHeader and ResponseHeader serve JSON and tests.
 */
#include <string.h>

#include "protocol/api_keys.h"
#include "protocol/tables.h"

const struct api *api_find(int key)
{
    return key >= 0 && key < API_KEY_COUNT ? &api_table[key] : NULL;
}

const struct api *api_find_name(struct str name)
{
    for (size_t i = 0; i < API_KEY_COUNT; i++)
        if (str_is(name, api_table[i].name))
            return &api_table[i];
    return NULL;
}

int api_advertised_min(const struct api *api)
{
    return api_advertised_min_table[api->key];
}

static int compare_name(struct str name, const char *other)
{
    size_t length = strlen(other);
    int order = memcmp(name.data, other, name.size < length ? name.size : length);
    return order ? order : (name.size > length) - (name.size < length);
}

const struct message *message_find(struct str name)
{
    size_t low = 0, high = message_table_count;
    while (name.data && low < high) {
        size_t middle = low + (high - low) / 2;
        int order = compare_name(name, message_table[middle]->name);
        if (!order)
            return message_table[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

int api_request_header_version(const struct api *api, int version)
{
    if (api->key == API_CONTROLLED_SHUTDOWN && version == 0)
        return 0; /* the only request that has no client id */
    return message_is_flexible(api->request, version) ? 2 : 1;
}

int api_response_header_version(const struct api *api, int version)
{
    if (api->key == API_API_VERSIONS)
        return 0; /* a client of any age must be able to read it */
    return message_is_flexible(api->response, version) ? 1 : 0;
}

/* --- frames --- */

/* Puts the size in front once everything is there. */
static int finish_frame(struct encoded *e, int rc, const char *name, cafka_error *err)
{
    if (rc)
        return rc;
    if (e->bytes.failed)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory to encode %s", name);
    size_t size = encoded_size(e) - 4;
    if (size > INT32_MAX)
        return error_set(err, CAFKA_ERR_TOO_LARGE, "%s takes %zu bytes, more than a frame holds",
                         name, size);
    store_be32(e->bytes.data, (uint32_t)size);
    return CAFKA_OK;
}

int request_encode(const struct api *api, int version, int32_t correlation_id, struct str client_id,
                   const void *body, struct encoded *e, cafka_error *err)
{
    encoded_clear(e);
    if (client_id.size > INT16_MAX)
        return error_set(err, CAFKA_ERR_ARGUMENT,
                         "client.id has %zu bytes, at most 32767 are possible", client_id.size);
    int header = api_request_header_version(api, version);
    struct buffer *b = &e->bytes;
    buffer_put_be32(b, 0);
    buffer_put_be16(b, (uint16_t)api->key);
    buffer_put_be16(b, (uint16_t)version);
    buffer_put_be32(b, (uint32_t)correlation_id);
    if (header >= 1) {
        buffer_put_be16(b, client_id.data ? (uint16_t)client_id.size : UINT16_MAX);
        buffer_put(b, client_id.data, client_id.size);
    }
    if (header >= 2)
        buffer_put_u8(b, 0); /* no tags */
    int rc = message_encode(api->request, version, body, e, err);
    return finish_frame(e, rc, api->request->name, err);
}

int response_encode(const struct api *api, int version, int32_t correlation_id, const void *body,
                    struct encoded *e, cafka_error *err)
{
    encoded_clear(e);
    buffer_put_be32(&e->bytes, 0);
    buffer_put_be32(&e->bytes, (uint32_t)correlation_id);
    if (api_response_header_version(api, version) >= 1)
        buffer_put_u8(&e->bytes, 0);
    int rc = message_encode(api->response, version, body, e, err);
    return finish_frame(e, rc, api->response->name, err);
}

static void skip_tags(struct reader *r)
{
    uint64_t count = reader_uvarint(r, 5);
    for (uint64_t i = 0; i < count && !reader_failed(r); i++) {
        (void)reader_uvarint(r, 5);
        (void)reader_take(r, reader_uvarint(r, 5));
    }
}

static void read_client_id(struct reader *r, struct request_head *head)
{
    int16_t size = (int16_t)reader_be16(r);
    struct bytes text = size < 0 ? (struct bytes){NULL, 0} : reader_take(r, (size_t)size);
    head->client_id = (struct str){(const char *)text.data, text.size};
}

int request_head_decode(struct bytes frame, struct request_head *out, cafka_error *err)
{
    struct reader r = reader_of(frame.data, frame.size);
    struct request_head head = {0};
    head.api_key = (int16_t)reader_be16(&r);
    head.api_version = (int16_t)reader_be16(&r);
    head.correlation_id = (int32_t)reader_be32(&r);
    if (reader_failed(&r))
        return error_set(err, CAFKA_ERR_PROTOCOL, "a request of %zu bytes ends inside its header",
                         frame.size);
    const struct api *api = api_find(head.api_key);
    bool known = api && head.api_version >= api->request->min_version &&
                 head.api_version <= api->request->max_version;
    int header = known ? api_request_header_version(api, head.api_version) : 1;
    if (header >= 1)
        read_client_id(&r, &head);
    if (header >= 2)
        skip_tags(&r);
    if (known && reader_failed(&r))
        return error_set(err, CAFKA_ERR_PROTOCOL, "%s version %d ends inside its header",
                         api->request->name, head.api_version);
    head.size = frame.size - reader_left(&r);
    *out = head;
    if (!known)
        return error_set(err, CAFKA_ERR_UNSUPPORTED, "no API has key %d and version %d",
                         head.api_key, head.api_version);
    return CAFKA_OK;
}

int response_head_decode(const struct api *api, int version, struct bytes frame,
                         int32_t *correlation_id, size_t *size, cafka_error *err)
{
    struct reader r = reader_of(frame.data, frame.size);
    int32_t id = (int32_t)reader_be32(&r);
    if (api_response_header_version(api, version) >= 1)
        skip_tags(&r);
    if (reader_failed(&r))
        return error_set(err, CAFKA_ERR_PROTOCOL,
                         "%s version %d of %zu bytes ends inside its header", api->response->name,
                         version, frame.size);
    *correlation_id = id;
    *size = frame.size - reader_left(&r);
    return CAFKA_OK;
}
