/*
 * api_table.c - which handler serves which API.
 */
#include "mockbroker/api/api.h"
#include "protocol/api_keys.h"

static api_handler_fn *const handlers[API_KEY_COUNT] = {
    [API_PRODUCE] = api_produce,
    [API_FETCH] = api_fetch,
    [API_LIST_OFFSETS] = api_list_offsets,
    [API_OFFSET_FOR_LEADER_EPOCH] = api_offset_for_leader_epoch,
    [API_DELETE_RECORDS] = api_delete_records,
    [API_INIT_PRODUCER_ID] = api_init_producer_id,
    [API_API_VERSIONS] = api_api_versions,
    [API_METADATA] = api_metadata,
    [API_DESCRIBE_TOPIC_PARTITIONS] = api_describe_topic_partitions,
    [API_DESCRIBE_CLUSTER] = api_describe_cluster,
    [API_CREATE_TOPICS] = api_create_topics,
    [API_DELETE_TOPICS] = api_delete_topics,
    [API_CREATE_PARTITIONS] = api_create_partitions,
    [API_DESCRIBE_CONFIGS] = api_describe_configs,
    [API_INCREMENTAL_ALTER_CONFIGS] = api_incremental_alter_configs,
    [API_ALTER_CONFIGS] = api_alter_configs,
    [API_LIST_CONFIG_RESOURCES] = api_list_config_resources,
    [API_DESCRIBE_LOG_DIRS] = api_describe_log_dirs,
    [API_FIND_COORDINATOR] = api_find_coordinator,
    [API_GET_TELEMETRY_SUBSCRIPTIONS] = api_get_telemetry_subscriptions,
    [API_PUSH_TELEMETRY] = api_push_telemetry,
    [API_UNREGISTER_BROKER] = api_unregister_broker,
    [API_DESCRIBE_QUORUM] = api_describe_quorum,
    [API_SASL_HANDSHAKE] = api_sasl,
    [API_SASL_AUTHENTICATE] = api_sasl_authenticate,
    [API_ALTER_REPLICA_LOG_DIRS] = api_alter_replica_log_dirs,
    [API_DESCRIBE_PRODUCERS] = api_describe_producers,
    [API_ELECT_LEADERS] = api_elect_leaders,
    [API_ALTER_PARTITION_REASSIGNMENTS] = api_alter_partition_reassignments,
    [API_LIST_PARTITION_REASSIGNMENTS] = api_list_partition_reassignments,
    [API_UPDATE_FEATURES] = api_update_features,
};

api_handler_fn *api_handler_find(int key)
{
    return key >= 0 && key < API_KEY_COUNT ? handlers[key] : NULL;
}

struct str api_keep(struct request_context *ctx, const char *text)
{
    size_t size = strlen(text);
    char *copy = arena_strndup(&ctx->arena, text, size);
    return copy ? (struct str){copy, size} : str_of("");
}
