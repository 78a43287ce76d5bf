/*
 * versions.c - see versions.h.
 */
#include "mockbroker/versions.h"

#include <string.h>

#include "protocol/api_keys.h"
#include "protocol/codec.h"

const struct feature features[] = {
    {"eligible.leader.replicas.version", 0, 1, 1},
    {"group.version", 0, 1, 1},
    {"kraft.version", 0, 1, 0},
    {"metadata.version", 7, 30, 30},
    {"share.version", 0, 1, 1},
    {"streams.version", 0, 1, 1},
    {"transaction.version", 0, 2, 2},
};
const size_t feature_count = sizeof features / sizeof *features;

enum { R3_3 = 3, R3_9 = 9, R4_0, R4_1, R4_2 }; /* columns of the releases */

/* metadata.version of each release: what it supports, and what a new cluster of it has. */
static const struct version_range metadata_versions[RELEASE_COUNT] = {
    [R3_3] = {1, 7},  {1, 8},           {1, 11}, {1, 14}, {1, 19}, {1, 20},
    [R3_9] = {1, 21}, [R4_0] = {7, 25}, {7, 27}, {7, 29}, {7, 30},
};

/* The other features: since which release they are offered, and since which a new cluster has them. */
static const struct {
    const char *name;
    int offered, finalized;
} feature_history[] = {
    {"eligible.leader.replicas.version", R4_0, R4_1},
    {"group.version", R4_0, R4_0},
    {"kraft.version", R3_9, RELEASE_COUNT},
    {"share.version", R4_1, R4_2},
    {"streams.version", R4_1, R4_2},
    {"transaction.version", R4_0, R4_0},
};

bool release_feature(int release, size_t i, struct feature *out)
{
    *out = features[i];
    if (!strcmp(out->name, "metadata.version")) {
        out->min = metadata_versions[release].min;
        out->max = out->level = metadata_versions[release].max;
        return out->max > 0;
    }
    for (size_t k = 0; k < sizeof feature_history / sizeof *feature_history; k++)
        if (!strcmp(out->name, feature_history[k].name)) {
            if (release < feature_history[k].finalized)
                out->level = 0;
            return release >= feature_history[k].offered;
        }
    return false;
}

enum { PRODUCE_MIN_4 = 3 }; /* what 4.0 and later really take of Produce */

int release_find(const char *name)
{
    if (!name)
        return RELEASE_COUNT - 1;
    for (int i = 0; i < RELEASE_COUNT; i++) {
        size_t size = strlen(release_names[i]);
        if (!strncmp(name, release_names[i], size) && (!name[size] || name[size] == '.'))
            return i;
    }
    return -1;
}

bool release_is_before_4(int release)
{
    return release < R4_0;
}

struct version_range release_range(int release, int key)
{
    for (size_t i = 0; i < api_versions_row_count; i++)
        if (api_versions_rows[i].key == key)
            return api_versions_rows[i].ranges[release];
    return (struct version_range){0, -1};
}

bool release_takes(int release, int key, int version)
{
    if (key == API_GET_TELEMETRY_SUBSCRIPTIONS || key == API_PUSH_TELEMETRY)
        return version == 0;
    if (key == API_PRODUCE && release >= R4_0 && version < PRODUCE_MIN_4)
        return false;
    struct version_range range = release_range(release, key);
    return version >= range.min && version <= range.max;
}
