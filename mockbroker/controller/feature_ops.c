/*
 * feature_ops.c - levels of features: what may change to what.
 *
 * Thread: the cluster's loop.
 * Source: org.apache.kafka.controller.FeatureControlManager.updateFeature.
 */
#include <stdio.h>

#include "mockbroker/controller/controller.h"
#include "mockbroker/versions.h"
#include "protocol/error_codes.h"
#include "protocol/messages/FeatureLevelRecord.h"

enum { UPGRADE = 1, UNSAFE_DOWNGRADE = 3, CONTROLLER_ID = 1 };

static const struct feature *find_feature(struct str name)
{
    for (size_t i = 0; i < feature_count; i++)
        if (str_is(name, features[i].name))
            return &features[i];
    return NULL;
}

static int refuse(struct str name, int level, const char *why, cafka_error *err)
{
    return error_set(err, ERR_INVALID_UPDATE_VERSION,
                     "Invalid update version %d for feature %.*s. %s", level, STR_ARG(name), why);
}

static int check_range(const struct feature *feature, struct str name, int level, cafka_error *err)
{
    char why[96];
    if (level < 0)
        return refuse(name, level, "A feature version cannot be less than 0.", err);
    if (!feature) {
        snprintf(why, sizeof why, "Local controller %d does not support this feature.",
                 CONTROLLER_ID);
        return refuse(name, level, why, err);
    }
    if (level < feature->min || level > feature->max) {
        snprintf(why, sizeof why, "Local controller %d only supports versions %d-%d", CONTROLLER_ID,
                 feature->min, feature->max);
        return refuse(name, level, why, err);
    }
    return CAFKA_OK;
}

static int check(const struct controller *c, struct str name, int level, int type, cafka_error *err)
{
    const struct feature *feature = find_feature(name);
    if (type < UPGRADE || type > UNSAFE_DOWNGRADE)
        return refuse(name, level, "The controller does not support the given upgrade type.", err);
    int rc = check_range(feature, name, level, err);
    if (rc)
        return rc;
    int now = (int)(intptr_t)map_get_str(&c->image.features, feature->name);
    if (level < now && type == UPGRADE)
        return refuse(name, level,
                      "Can't downgrade the version of this feature without setting the upgrade type "
                      "to either safe or unsafe downgrade.",
                      err);
    if (level > now && type != UPGRADE)
        return refuse(name, level, "Can't downgrade to a newer version.", err);
    if (level < now && str_is(name, "metadata.version"))
        return refuse(name, level,
                      "Refusing to perform the requested downgrade because it might delete metadata "
                      "information.",
                      err);
    return CAFKA_OK;
}

int controller_update_feature(struct controller *c, struct str name, int level, int type,
                              bool validate_only, cafka_error *err)
{
    int rc = check(c, name, level, type, err);
    if (rc || validate_only)
        return rc;
    struct record_list records = {0};
    struct feature_level_record r;
    feature_level_record_init(&r);
    r.name = name;
    r.feature_level = (int16_t)level;
    rc = record_list_add(&records, METADATA_FEATURE_LEVEL, 0, &r, err);
    if (!rc)
        rc = controller_commit(c, &records, err);
    record_list_fini(&records);
    return rc;
}
