/*
 * meta_properties.h - DIR/meta.properties: whose log directory it is.
 *
 * Owner:   the log manager, by value.
 * Thread:  the broker's loop.
 * Source:  org.apache.kafka.metadata.properties.MetaProperties, MetaPropertiesEnsemble.
 */
#ifndef MOCKBROKER_LOG_META_PROPERTIES_H
#define MOCKBROKER_LOG_META_PROPERTIES_H

#include "env/env.h"
#include "util/error.h"
#include "util/uuid.h"

struct meta_properties {
    int32_t node_id;
    char cluster_id[64];
    struct uuid directory_id;
};

/*
 * Read the file of a directory and compare it with `meta->node_id` and cluster_id (NULL: any), or
 * write a new one: of cluster_id, or of a random cluster. A directory without an id of its own is
 * given one, as Kafka does.
 *
 * Errors: CAFKA_ERR_CONFIG  the directory is another node's or cluster's, or the file does not say
 *                           whose; CAFKA_ERR_IO, CAFKA_ERR_MEMORY
 */
int meta_properties_settle(struct meta_properties *meta, const cafka_env *env,
                           const char *directory, const char *cluster_id, cafka_error *err);

#endif
