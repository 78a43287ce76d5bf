/*
 * snapshot.h - an image as records that make it again, for a broker that starts.
 *
 * Thread: the image's owner.
 */
#ifndef CAFKA_MOCKBROKER_SNAPSHOT_H
#define CAFKA_MOCKBROKER_SNAPSHOT_H

#include "mockbroker/metadata/image.h"
#include "mockbroker/metadata/records.h"

int image_write(const struct image *image, struct record_list *out, cafka_error *err);

#endif
