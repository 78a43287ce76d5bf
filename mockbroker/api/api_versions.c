/*
 * api_versions.c - ApiVersions: what this broker offers, as the release does that it stands for.
 *
 * Thread: the broker's loop.
 * Source: KIP-35, KIP-511, KIP-584; kafka.server.ApiVersionManager.
 */
#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/session.h"
#include "mockbroker/versions.h"
#include "protocol/error_codes.h"
#include "protocol/messages/ApiVersions.h"
#include "util/alloc.h"

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Letters, digits, '-' and '.'; the first and the last a letter or digit. */
static bool is_software_text(struct str s)
{
    if (!s.size || !is_letter_or_digit(s.data[0]) || !is_letter_or_digit(s.data[s.size - 1]))
        return false;
    for (size_t i = 0; i < s.size; i++)
        if (!is_letter_or_digit(s.data[i]) && s.data[i] != '-' && s.data[i] != '.')
            return false;
    return true;
}

static void remember_software(struct session *session, const struct api_versions_request *in)
{
    mem_free(session->software_name);
    mem_free(session->software_version);
    session->software_name =
        mem_strndup(in->client_software_name.data, in->client_software_name.size);
    session->software_version =
        mem_strndup(in->client_software_version.data, in->client_software_version.size);
}

static bool add_apis(struct request_context *ctx, struct api_versions_response *out)
{
    int release = ctx->broker->cluster->release;
    out->api_keys = request_calloc(ctx, api_versions_row_count, sizeof *out->api_keys);
    if (!out->api_keys)
        return false;
    for (size_t i = 0; i < api_versions_row_count; i++) {
        struct version_range range = api_versions_rows[i].ranges[release];
        if (range.max >= range.min)
            out->api_keys[out->api_keys_count++] =
                (struct api_versions_response_api_version){.api_key = api_versions_rows[i].key,
                                                           .min_version = range.min,
                                                           .max_version = range.max};
    }
    return true;
}

static bool add_features(struct request_context *ctx, struct api_versions_response *out)
{
    const struct image *image = &ctx->broker->image;
    int release = ctx->broker->cluster->release;
    out->supported_features = request_calloc(ctx, feature_count, sizeof *out->supported_features);
    out->finalized_features = request_calloc(ctx, feature_count, sizeof *out->finalized_features);
    if (!out->supported_features || !out->finalized_features)
        return false;
    for (size_t i = 0; i < feature_count; i++) {
        struct feature f;
        if (!release_feature(release, i, &f))
            continue;
        /* Clients of version 3 take a minimum of 0 for an error. */
        if (f.min || ctx->version >= 4)
            out->supported_features[out->supported_features_count++] =
                (struct api_versions_response_supported_feature_key){.name = str_of(f.name),
                                                                     .min_version = f.min,
                                                                     .max_version = f.max};
        int16_t level = release == RELEASE_COUNT - 1
                            ? (int16_t)(intptr_t)map_get_str(&image->features, f.name)
                            : f.level;
        if (level)
            out->finalized_features[out->finalized_features_count++] =
                (struct api_versions_response_finalized_feature_key){.name = str_of(f.name),
                                                                     .max_version_level = level,
                                                                     .min_version_level = level};
    }
    if (out->supported_features_count)
        out->finalized_features_epoch = image->offset;
    return true;
}

void api_api_versions(struct request_context *ctx)
{
    const struct api_versions_request *in = ctx->body;
    struct api_versions_response out;
    api_versions_response_init(&out);
    if (ctx->version >= 3 && (!is_software_text(in->client_software_name) ||
                              !is_software_text(in->client_software_version))) {
        out.error_code = ERR_INVALID_REQUEST;
        request_respond(ctx, &out);
        return;
    }
    if (ctx->version >= 3)
        remember_software(ctx->session, in);
    if (!add_apis(ctx, &out) || (ctx->version >= 3 && !add_features(ctx, &out)))
        request_close(ctx);
    else
        request_respond(ctx, &out);
}
