/*
 * versions.c - the first question on every connection: which APIs do you have, in which versions?
 */
#include "config.h"

#include "conn/internal.h"

#include <stdio.h>
#include <string.h>

#include "protocol/api_keys.h"
#include "protocol/errors.h"
#include "protocol/messages/ApiVersions.h"
#include "util/alloc.h"

void conn_forget_versions(struct conn *conn)
{
    for (int key = 0; key < API_KEY_COUNT; key++) {
        conn->min_version[key] = 0;
        conn->max_version[key] = -1;
    }
    mem_free(conn->features);
    conn->features = NULL;
    conn->feature_count = 0;
}

static int keep_features(struct conn *conn, const struct api_versions_response *response,
                         cafka_error *err)
{
    int count = response->finalized_features_count;
    if (count <= 0)
        return CAFKA_OK;
    conn->features = mem_calloc((size_t)count, sizeof *conn->features);
    if (!conn->features)
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for the features of %s", conn->name);
    conn->feature_count = count;
    for (int i = 0; i < count; i++) {
        struct str name = response->finalized_features[i].name;
        snprintf(conn->features[i].name, sizeof conn->features[i].name, "%.*s", STR_ARG(name));
        conn->features[i].level = response->finalized_features[i].max_version_level;
    }
    return CAFKA_OK;
}

static int keep_versions(struct conn *conn, const struct api_versions_response *response,
                         cafka_error *err)
{
    conn_forget_versions(conn);
    for (int32_t i = 0; i < response->api_keys_count; i++) {
        int key = response->api_keys[i].api_key;
        if (key < 0 || key >= API_KEY_COUNT)
            continue; /* newer than we are */
        conn->min_version[key] = response->api_keys[i].min_version;
        conn->max_version[key] = response->api_keys[i].max_version;
    }
    return keep_features(conn, response, err);
}

/* Error 35 lists what the broker has of ApiVersions itself; nothing listed means 0. */
static int version_to_retry(const struct api_versions_response *response)
{
    for (int32_t i = 0; i < response->api_keys_count; i++)
        if (response->api_keys[i].api_key == API_API_VERSIONS)
            return response->api_keys[i].max_version;
    return 0;
}

static int take_versions(struct conn *conn, const struct reply *reply, cafka_error *err)
{
    struct arena arena = {0};
    struct api_versions_response response;
    /* An unknown version is answered in the form of version 0. */
    bool refused = reply->body.size >= 2 && load_be16(reply->body.data) == ERR_UNSUPPORTED_VERSION;
    int version = refused ? 0 : reply->version;
    int rc =
        message_decode(reply->api->response, version, reply->body, &arena, &response, NULL, err);
    if (rc) {
        error_prefix(err, "the ApiVersions response of %s: ", conn->name);
    } else if (refused && !conn->versions_retried) {
        int retry = version_to_retry(&response);
        int newest = message_max_version(reply->api->request);
        conn->versions_retried = true;
        conn_ask_versions(conn, retry < 0 ? 0 : retry < newest ? retry : newest);
    } else if (response.error_code) {
        rc = error_set(err, response.error_code, "%s refuses to tell its versions: %s", conn->name,
                       cafka_error_name(response.error_code));
    } else {
        rc = keep_versions(conn, &response, err);
        if (!rc) {
            if (version >= reply->api->client_throttle_from && reply->api->client_throttle_from >= 0)
                conn_throttle(conn, response.throttle_time_ms);
            conn_become_ready(conn);
        }
    }
    arena_fini(&arena);
    return rc;
}

static void on_versions(struct request *request, const struct reply *reply)
{
    struct conn *conn = container_of(request, struct conn, versions_request);
    cafka_error err = {0};
    if (!reply->error && take_versions(conn, reply, &err))
        conn_break(conn, &err);
}

void conn_ask_versions(struct conn *conn, int version)
{
    struct api_versions_request body;
    api_versions_request_init(&body);
    body.client_software_name = str_of("cafka");
    body.client_software_version = str_of(PACKAGE_VERSION);
    conn->versions_request.done = on_versions;
    conn->versions_request.api_key = API_API_VERSIONS;
    cafka_error err = {0};
    if (conn_send_now(conn, &conn->versions_request, version, &body, &err))
        conn_break(conn, &err);
}

int conn_version(const struct conn *conn, int api_key, int max_version)
{
    const struct api *api = api_find(api_key);
    if (!api || (conn->state != CONN_READY && conn->state != CONN_AUTH))
        return -1;
    int low = message_min_version(api->request);
    int high = message_max_version(api->request);
    if (max_version >= 0 && max_version < high)
        high = max_version;
    if (conn->min_version[api_key] > low)
        low = conn->min_version[api_key];
    if (conn->max_version[api_key] < high)
        high = conn->max_version[api_key];
    return high >= low ? high : -1;
}

int conn_unsupported(const struct conn *conn, int api_key, cafka_error *err)
{
    const struct api *api = api_find(api_key);
    if (conn->max_version[api_key] < 0)
        return error_set(err, CAFKA_ERR_UNSUPPORTED,
                         "%s serves no %s requests: it is too old, or not set up for them",
                         conn->name, api->name);
    return error_set(err, CAFKA_ERR_UNSUPPORTED,
                     "%s serves %s requests of version %d to %d, and this client knows %d to %d",
                     conn->name, api->name, conn->min_version[api_key], conn->max_version[api_key],
                     message_min_version(api->request), message_max_version(api->request));
}

int conn_feature(const struct conn *conn, const char *name)
{
    for (int i = 0; i < conn->feature_count; i++)
        if (!strcmp(conn->features[i].name, name))
            return conn->features[i].level;
    return -1;
}
