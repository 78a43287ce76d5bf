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

enum { FIRST_4 = 10, PRODUCE_MIN_4 = 3 }; /* the column of 4.0; what it really takes of Produce */

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
    if (key == API_PRODUCE && release >= FIRST_4 && version < PRODUCE_MIN_4)
        return false;
    struct version_range range = release_range(release, key);
    return version >= range.min && version <= range.max;
}
