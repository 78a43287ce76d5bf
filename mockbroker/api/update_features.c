/*
 * update_features.c - UpdateFeatures: levels of features, all or none (KIP-584, KIP-778).
 *
 * Thread: the broker's loop.
 * Source: org.apache.kafka.controller.FeatureControlManager.
 */
#include "protocol/messages/UpdateFeatures.h"

#include <stdio.h>

#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "protocol/error_codes.h"

typedef struct update_features_request_feature_update_key update;

enum { UPGRADE = 1, SAFE_DOWNGRADE = 2, VERSION_WITH_TYPES = 1, VERSION_WITHOUT_RESULTS = 2 };

static int type_of(const struct request_context *ctx, const update *u)
{
    if (ctx->version < VERSION_WITH_TYPES)
        return u->allow_downgrade ? SAFE_DOWNGRADE : UPGRADE;
    return u->upgrade_type;
}

/* Every one is looked at before any is made. Its index gets the one that can't be. */
static int make_all(struct request_context *ctx, bool validate_only, cafka_error *err)
{
    const struct update_features_request *in = ctx->body;
    struct controller *controller = ctx->broker->cluster->controller;
    int rc = CAFKA_OK;
    for (int pass = 0; !rc && pass < (validate_only ? 1 : 2); pass++)
        for (int32_t i = 0; !rc && i < in->feature_updates_count; i++) {
            const update *u = &in->feature_updates[i];
            rc = controller_update_feature(controller, u->feature, u->max_version_level,
                                           type_of(ctx, u), pass == 0, err);
        }
    return rc;
}

void api_update_features(struct request_context *ctx)
{
    const struct update_features_request *in = ctx->body;
    struct update_features_response out;
    cafka_error why = {0};
    char text[sizeof why.message + 96];
    update_features_response_init(&out);
    out.error_message = (struct str){0};
    int code = make_all(ctx, in->validate_only, &why);
    if (code) {
        snprintf(text, sizeof text,
                 "The update failed for all features since the following feature had an error: %s",
                 why.message);
        out.error_code = (int16_t)(is_local_error(code) ? ERR_UNKNOWN_SERVER_ERROR : code);
        out.error_message = api_keep(ctx, text);
    } else if (ctx->version < VERSION_WITHOUT_RESULTS) {
        out.results =
            request_calloc(ctx, (size_t)in->feature_updates_count + 1, sizeof *out.results);
        for (int32_t i = 0; out.results && i < in->feature_updates_count; i++)
            out.results[out.results_count++] =
                (struct update_features_response_updatable_feature_result){.feature =
                                                                               in->feature_updates[i]
                                                                                   .feature,
                                                                           .error_message =
                                                                               str_of("NONE")};
    }
    request_respond(ctx, &out);
}
