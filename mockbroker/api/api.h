/*
 * api.h - the handlers, one file an API key (or a family of them).
 *
 * Thread: the broker's loop. A handler ends its request, or keeps it (request.h).
 */
#ifndef CAFKA_MOCKBROKER_API_H
#define CAFKA_MOCKBROKER_API_H

#include "mockbroker/request.h"

api_handler_fn api_api_versions;
api_handler_fn api_metadata;
api_handler_fn api_describe_topic_partitions;
api_handler_fn api_describe_cluster;
api_handler_fn api_create_topics;
api_handler_fn api_delete_topics;
api_handler_fn api_create_partitions;
api_handler_fn api_describe_configs;
api_handler_fn api_incremental_alter_configs;
api_handler_fn api_alter_configs;
api_handler_fn api_list_config_resources;
api_handler_fn api_describe_log_dirs;
api_handler_fn api_find_coordinator;
api_handler_fn api_get_telemetry_subscriptions;
api_handler_fn api_push_telemetry;
api_handler_fn api_unregister_broker;
api_handler_fn api_describe_quorum;
api_handler_fn api_sasl;
api_handler_fn api_sasl_authenticate;
api_handler_fn api_alter_replica_log_dirs;
api_handler_fn api_describe_producers;
api_handler_fn api_elect_leaders;
api_handler_fn api_alter_partition_reassignments;
api_handler_fn api_list_partition_reassignments;
api_handler_fn api_update_features;
api_handler_fn api_produce;
api_handler_fn api_fetch;
api_handler_fn api_list_offsets;
api_handler_fn api_offset_for_leader_epoch;
api_handler_fn api_delete_records;
api_handler_fn api_init_producer_id;

/* Kafka's bits of operations (authorized operations) when nothing forbids any. */
enum { TOPIC_OPERATIONS = 3576, CLUSTER_OPERATIONS = 8096 };
#define OPERATIONS_NOT_ASKED INT32_MIN

/* A copy in the request's arena; "" without memory. */
struct str api_keep(struct request_context *ctx, const char *text);

#endif
