/*
 * versions.h - what a broker of a release offers: versions of APIs, and features.
 *
 * Thread: any; tables never change.
 */
#ifndef CAFKA_MOCKBROKER_VERSIONS_H
#define CAFKA_MOCKBROKER_VERSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RELEASE_COUNT = 14 };

struct version_range {
    int8_t min, max; /* max < min: not offered */
};

struct api_versions_row {
    int16_t key;
    struct version_range ranges[RELEASE_COUNT];
};

extern const char *const release_names[RELEASE_COUNT]; /* "3.0" … "4.3" */
extern const struct api_versions_row api_versions_rows[];
extern const size_t api_versions_row_count;

/* A release by its name, with or without a third number ("3.9", "3.9.1"); NULL: the newest. -1: unknown. */
int release_find(const char *name);
bool release_is_before_4(int release);
/* What the release offers of an API; not in the table: {0, -1}. */
struct version_range release_range(int release, int key);
/*
 * Does a broker of the release take the request? Some versions are taken without being offered
 * (telemetry), one is offered without being taken (Produce 0-2 since 4.0).
 */
bool release_takes(int release, int key, int version);

struct feature {
    const char *name;
    int16_t min, max; /* supported */
    int16_t level;    /* finalized in a new cluster; 0: not */
};
extern const struct feature features[]; /* of the newest release */
extern const size_t feature_count;
/*
 * The same feature in an older release; false: that release does not offer it. Releases before 3.3
 * offer none: levels of features came with KRaft.
 */
bool release_feature(int release, size_t i, struct feature *out);

#endif
