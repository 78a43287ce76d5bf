/*
 * controller.h - the controller: decides, writes metadata records, and tells the brokers.
 *
 * Its state is an image made of the records in DIR/controller (metadata_log.h), which is replayed
 * at start. A request is decided against the image; what it changes is a list of records, which is
 * appended to the log, applied to the image and handed to every broker: after the request that is
 * being handled now and before the next one (struct deferred), so a broker's answer to the next
 * request knows it.
 *
 * Owner:   the cluster.
 * Thread:  the cluster's loop.
 * Reading: controller_commit(); the operations are in topic_ops.c, topic_delete.c
 *          and config_ops.c.
 */
#ifndef CAFKA_MOCKBROKER_CONTROLLER_H
#define CAFKA_MOCKBROKER_CONTROLLER_H

#include "mockbroker/broker_config.h"
#include "mockbroker/metadata/image.h"
#include "mockbroker/metadata/records.h"
#include "mockbroker/purgatory/purgatory.h"
#include "protocol/messages/CreatePartitions.h"
#include "protocol/messages/CreateTopics.h"
#include "protocol/messages/DeleteTopics.h"
#include "util/arena.h"
#include "util/log.h"
#include "util/rng.h"

struct cluster;
struct metadata_log;

enum { NO_LEADER = -1 };

struct controller {
    struct cluster *cluster;
    struct log log;
    struct rng rng;
    struct image image;
    struct metadata_log *records;
    struct broker_config config; /* the cluster's properties, and the dynamic default */
    struct record_list pending;  /* committed, not yet handed to the brokers */
    int64_t pending_offset;
    struct deferred deliver;
};

int controller_new(struct controller **out, struct cluster *cluster, cafka_error *err);
void controller_free(struct controller *controller);
/* Open and replay the log; a new one gets the records of a freshly formatted cluster. */
int controller_start(struct controller *controller, cafka_error *err);

/* Append, apply, hand out. On an error nothing has changed. */
int controller_commit(struct controller *controller, const struct record_list *records,
                      cafka_error *err);
/* Give a broker all that it has not applied yet (it starts). */
int controller_catch_up(struct controller *controller, int32_t broker, cafka_error *err);

/* Brokers: a registration gives the broker's epoch, and elects leaders for what had none. */
int controller_register(struct controller *controller, const struct broker_image *broker,
                        struct uuid incarnation, int64_t *epoch, cafka_error *err);
/* The broker is gone: fence it, and elect other leaders from the ISR. */
int controller_fence(struct controller *controller, int32_t broker, cafka_error *err);
/* A replica has caught up with the leader, or has fallen out. No change: nothing is written. */
int controller_set_in_sync(struct controller *controller, struct uuid topic_id, int32_t partition,
                           int32_t broker, bool in_sync, cafka_error *err);
/* Forget a broker. ERR_BROKER_ID_NOT_REGISTERED. */
int controller_unregister(struct controller *controller, int32_t broker, cafka_error *err);
/* Make another replica the leader of a partition. */
int controller_move_leader(struct controller *controller, struct str topic, int32_t partition,
                           int32_t leader, cafka_error *err);
/* The same without asking whether it is in sync: it is the whole ISR then. NO_LEADER: the ISR stays. */
int controller_appoint_leader(struct controller *controller, struct str topic, int32_t partition,
                              int32_t leader, cafka_error *err);
/*
 * An election that somebody asks for: of the first replica, or (unclean) of any that lives if the
 * partition has no leader. ERR_ELECTION_NOT_NEEDED, ERR_PREFERRED_LEADER_NOT_AVAILABLE,
 * ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE, ERR_UNKNOWN_TOPIC_OR_PARTITION, with Kafka's sentence.
 */
int controller_elect_leader(struct controller *controller, struct str topic, int32_t partition,
                            bool unclean, cafka_error *err);
/*
 * Move a partition to other brokers; count -1: cancel what is under way. `other_count`: there may be
 * more or fewer of them than now. Refusals with Kafka's code and sentence.
 */
int controller_reassign(struct controller *controller, struct str topic, int32_t partition,
                        const int32_t *replicas, int32_t count, bool other_count, cafka_error *err);
/* All that shall stay are in sync? Then the others go. For controller.c, when an ISR has grown. */
int controller_complete_reassignment(struct controller *controller, const struct topic_image *topic,
                                     int32_t partition, cafka_error *err);

/* type: 1 upgrade, 2 safe and 3 unsafe downgrade, as in UpdateFeatures. ERR_INVALID_UPDATE_VERSION. */
int controller_update_feature(struct controller *controller, struct str name, int level, int type,
                              bool validate_only, cafka_error *err);

/*
 * Operations of the APIs: fill the response, whose memory comes from the arena. A result is an
 * error only when there is no memory or the log can't be written; refusals are in the response.
 */
int controller_create_topics(struct controller *controller, const struct create_topics_request *in,
                             struct arena *arena, struct create_topics_response *out,
                             cafka_error *err);
int controller_delete_topics(struct controller *controller, const struct delete_topics_request *in,
                             int version, struct arena *arena, struct delete_topics_response *out,
                             cafka_error *err);
int controller_create_partitions(struct controller *controller,
                                 const struct create_partitions_request *in, struct arena *arena,
                                 struct create_partitions_response *out, cafka_error *err);

/* Text of a refusal that outlives the error struct; empty without memory. */
struct str controller_keep(struct arena *arena, const char *text);

/* An error of ours, not a refusal that the client is told as a code. */
static inline bool is_local_error(int code)
{
    return code <= CAFKA_ERR_MEMORY;
}

/* One change of a config. */
enum config_op {
    CONFIG_OP_SET = 0,
    CONFIG_OP_DELETE = 1,
    CONFIG_OP_APPEND = 2,
    CONFIG_OP_SUBTRACT = 3
};
struct config_change {
    struct str name;
    int op;
    struct str value; /* data NULL: null */
};
/*
 * Change the configs of a resource. `replace`: what is not named goes (AlterConfigs). Refused: the
 * protocol's code and Kafka's sentence in `err`.
 */
int controller_alter_configs(struct controller *controller, int type, struct str name,
                             const struct config_change *changes, size_t count, bool replace,
                             bool validate_only, cafka_error *err);

enum { PRODUCER_ID_BLOCK = 1000 };
/* A block of PRODUCER_ID_BLOCK ids for a broker; kept over restarts. */
int controller_allocate_producer_ids(struct controller *controller, int32_t broker, int64_t *first,
                                     cafka_error *err);

#endif
