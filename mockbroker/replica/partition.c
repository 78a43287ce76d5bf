/*
 * partition.c - see partition.h.
 */
#include "mockbroker/replica/partition.h"

#include "protocol/errors.h"
#include "util/alloc.h"

int partition_new(struct partition **out, const char *topic, int32_t index, struct uuid topic_id,
                  struct commit_log *log, cafka_error *err)
{
    struct partition *partition = mem_zalloc(sizeof *partition);
    if (partition)
        partition->topic = mem_strdup(topic);
    if (!partition || !partition->topic) {
        mem_free(partition);
        return error_set(err, CAFKA_ERR_MEMORY, "no memory for partition %s-%d", topic, index);
    }
    partition->index = index;
    partition->topic_id = topic_id;
    partition->leader_id = -1;
    partition->leader_epoch = -1;
    partition->isr_size = partition->replica_count = 1;
    partition->log = log;
    list_init(&partition->watches);
    *out = partition;
    return CAFKA_OK;
}

void partition_free(struct partition *partition)
{
    if (!partition)
        return;
    partition->is_leader = false;
    partition->leader_id = -1;
    partition_changed(partition);
    struct list *link, *after;
    list_each(link, after, &partition->watches) list_remove(link);
    mem_free(partition->topic);
    mem_free(partition);
}

/* --- watches --- */

void partition_watch(struct partition *partition, struct partition_watch *watch)
{
    list_remove(&watch->link);
    list_push_back(&partition->watches, &watch->link);
}

void partition_unwatch(struct partition_watch *watch)
{
    list_remove(&watch->link);
}

/* Every watch goes back into the list before it is told, so that it may leave, and others with it. */
void partition_changed(struct partition *partition)
{
    struct list told;
    list_init(&told);
    list_splice_back(&told, &partition->watches);
    struct list *link;
    while ((link = list_pop_front(&told))) {
        list_push_back(&partition->watches, link);
        struct partition_watch *watch = list_item(link, struct partition_watch, link);
        watch->changed(watch);
    }
}

/* --- roles --- */

int partition_become_leader(struct partition *partition, int32_t broker_id, int32_t epoch,
                            cafka_error *err)
{
    if (partition->is_leader && partition->leader_epoch == epoch)
        return CAFKA_OK;
    int rc = commit_log_start_epoch(partition->log, epoch, err);
    if (rc)
        return rc;
    partition->is_leader = true;
    partition->leader_id = broker_id;
    partition->leader_epoch = epoch;
    partition->epoch_start_offset = commit_log_end_offset(partition->log);
    if (partition->replica_count <= 1) /* nobody else has to have it */
        commit_log_set_high_watermark(partition->log, partition->epoch_start_offset);
    partition_changed(partition);
    return CAFKA_OK;
}

void partition_become_follower(struct partition *partition, int32_t leader_id, int32_t epoch)
{
    partition->is_leader = false;
    partition->leader_id = leader_id;
    partition->leader_epoch = epoch;
    partition_changed(partition);
}

int partition_check_epoch(const struct partition *partition, int32_t current_leader_epoch,
                          bool must_lead, cafka_error *err)
{
    if (current_leader_epoch != -1 && current_leader_epoch < partition->leader_epoch)
        return error_set(err, ERR_FENCED_LEADER_EPOCH, "leader epoch %d of %s-%d is over; it is %d",
                         current_leader_epoch, partition->topic, partition->index,
                         partition->leader_epoch);
    if (current_leader_epoch > partition->leader_epoch)
        return error_set(err, ERR_UNKNOWN_LEADER_EPOCH,
                         "leader epoch %d of %s-%d is not known here yet; it is %d",
                         current_leader_epoch, partition->topic, partition->index,
                         partition->leader_epoch);
    if (must_lead && !partition->is_leader)
        return error_set(err, ERR_NOT_LEADER_OR_FOLLOWER, "this broker does not lead %s-%d",
                         partition->topic, partition->index);
    return CAFKA_OK;
}

/* --- append --- */

static int32_t least_isr(const struct partition *partition)
{
    int32_t wanted = commit_log_config(partition->log)->min_insync_replicas;
    return wanted < partition->replica_count ? wanted : partition->replica_count;
}

static void no_result(struct append_result *result)
{
    *result = (struct append_result){.base_offset = -1,
                                     .last_offset = -1,
                                     .log_append_time_ms = -1,
                                     .log_start_offset = -1};
}

int partition_append(struct partition *partition, struct append_request *request, int acks,
                     struct append_result *result, cafka_error *err)
{
    no_result(result);
    int rc = partition_check_epoch(partition, -1, true, err);
    if (!rc && acks == -1 && partition->isr_size < least_isr(partition))
        rc = error_set(err, ERR_NOT_ENOUGH_REPLICAS,
                       "%s-%d has %d in-sync replicas; min.insync.replicas asks for %d",
                       partition->topic, partition->index, partition->isr_size,
                       least_isr(partition));
    if (rc)
        return rc;
    request->leader_epoch = partition->leader_epoch;
    rc = commit_log_append(partition->log, request, result, err);
    if (rc || result->duplicate)
        return rc;
    if (partition->isr_size <= 1)
        commit_log_set_high_watermark(partition->log, commit_log_end_offset(partition->log));
    partition_changed(partition);
    return CAFKA_OK;
}

bool partition_is_acknowledged(const struct partition *partition, int64_t last_offset, int *error)
{
    *error = ERR_NONE;
    if (!partition->is_leader) {
        *error = ERR_NOT_LEADER_OR_FOLLOWER;
        return true;
    }
    if (commit_log_high_watermark(partition->log) <= last_offset)
        return false;
    if (partition->isr_size < least_isr(partition))
        *error = ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND;
    return true;
}

/* --- read --- */

int64_t partition_readable_end(const struct partition *partition, enum read_end end)
{
    switch (end) {
    case READ_TO_STABLE_OFFSET: return commit_log_stable_offset(partition->log);
    case READ_TO_LOG_END: return commit_log_end_offset(partition->log);
    default: return commit_log_high_watermark(partition->log);
    }
}

/* Did the reader's log and this one part before its offset? (KIP-595, KIP-320) */
static int check_divergence(struct partition *partition, const struct read_request *request,
                            struct read_result *result, cafka_error *err)
{
    if (request->last_fetched_epoch < 0)
        return CAFKA_OK;
    struct epoch_end end = commit_log_epoch_end(partition->log, request->last_fetched_epoch);
    if (end.end_offset < 0 || end.epoch < 0)
        return error_set(err, ERR_OFFSET_OUT_OF_RANGE,
                         "epoch %d, in which the reader of %s-%d last read, is not known",
                         request->last_fetched_epoch, partition->topic, partition->index);
    if (request->offset < commit_log_start_offset(partition->log))
        return error_set(err, ERR_OFFSET_OUT_OF_RANGE, "the offset is below the log start of %s-%d",
                         partition->topic, partition->index);
    if (end.epoch < request->last_fetched_epoch || end.end_offset < request->offset) {
        result->diverging = true;
        result->diverging_epoch = end;
    }
    return CAFKA_OK;
}

static int read_slice(struct partition *partition, const struct read_request *request,
                      struct read_result *result, cafka_error *err)
{
    int rc = commit_log_read(partition->log, request->offset,
                             partition_readable_end(partition, request->end),
                             (size_t)request->max_bytes, request->whole_batch, &result->slice, err);
    if (!rc && request->end == READ_TO_STABLE_OFFSET)
        rc = commit_log_aborted(partition->log, request->offset, &result->slice, &result->aborted,
                                &result->aborted_count, err);
    return rc;
}

int partition_read(struct partition *partition, const struct read_request *request,
                   struct read_result *result, cafka_error *err)
{
    *result =
        (struct read_result){.high_watermark = -1, .stable_offset = -1, .log_start_offset = -1};
    int rc =
        partition_check_epoch(partition, request->current_leader_epoch, request->must_lead, err);
    if (!rc && request->max_bytes < 0)
        rc = error_set(err, ERR_UNKNOWN_SERVER_ERROR, "a limit of %d bytes can't be",
                       request->max_bytes);
    if (!rc)
        rc = check_divergence(partition, request, result, err);
    if (!rc && !result->diverging)
        rc = read_slice(partition, request, result, err);
    if (rc) {
        read_result_fini(result);
        return rc;
    }
    result->high_watermark = commit_log_high_watermark(partition->log);
    result->stable_offset = commit_log_stable_offset(partition->log);
    result->log_start_offset = commit_log_start_offset(partition->log);
    return CAFKA_OK;
}

void read_result_fini(struct read_result *result)
{
    log_slice_fini(&result->slice);
    mem_free(result->aborted);
    result->aborted = NULL;
    result->aborted_count = 0;
}

int64_t partition_waiting_bytes(struct partition *partition, const struct read_request *request)
{
    struct read_result unused = {0};
    if (partition_check_epoch(partition, request->current_leader_epoch, request->must_lead, NULL) ||
        check_divergence(partition, request, &unused, NULL) || unused.diverging ||
        request->offset < commit_log_start_offset(partition->log) ||
        request->offset > commit_log_end_offset(partition->log) || request->max_bytes < 0)
        return -1;
    int64_t bytes = commit_log_bytes_between(partition->log, request->offset,
                                             partition_readable_end(partition, request->end));
    if (bytes == INT64_MAX)
        return -1;
    return bytes < request->max_bytes ? bytes : request->max_bytes;
}

/* --- offsets by time --- */

static int latest(const struct partition *partition, const struct list_offset_request *request,
                  struct timestamp_offset *out, cafka_error *err)
{
    int64_t end = partition_readable_end(partition, request->end);
    /* a new leader does not know yet how far the old one had got */
    if (request->end != READ_TO_LOG_END &&
        commit_log_high_watermark(partition->log) < partition->epoch_start_offset)
        return error_set(err,
                         request->version >= 5 ? ERR_OFFSET_NOT_AVAILABLE : ERR_LEADER_NOT_AVAILABLE,
                         "the high watermark of %s-%d is not known to its new leader yet",
                         partition->topic, partition->index);
    *out = (struct timestamp_offset){-1, end, partition->leader_epoch};
    return CAFKA_OK;
}

static int by_time(struct partition *partition, const struct list_offset_request *request,
                   struct timestamp_offset *out, cafka_error *err)
{
    int rc = request->timestamp == TIMESTAMP_MAX
                 ? commit_log_find_max_timestamp(partition->log, out, err)
                 : commit_log_find_timestamp(partition->log, request->timestamp, out, err);
    if (rc || out->offset < partition_readable_end(partition, request->end))
        return rc;
    struct timestamp_offset end;
    rc = latest(partition, request, &end, err);
    *out = (struct timestamp_offset){-1, -1, -1};
    return rc;
}

static int unsupported(const struct list_offset_request *request, cafka_error *err)
{
    return error_set(err, ERR_UNSUPPORTED_VERSION, "timestamp %lld in version %d of ListOffsets",
                     (long long)request->timestamp, request->version);
}

int partition_list_offset(struct partition *partition, const struct list_offset_request *request,
                          struct timestamp_offset *out, cafka_error *err)
{
    static const int since[] = {[1] = 0, [2] = 0, [3] = 7, [4] = 8, [5] = 9, [6] = 11};
    enum { SPECIALS = sizeof since / sizeof *since };
    *out = (struct timestamp_offset){-1, -1, -1};
    int rc = partition_check_epoch(partition, request->current_leader_epoch, true, err);
    if (rc)
        return rc;
    if (request->timestamp < 0 &&
        (request->timestamp <= -SPECIALS || request->version < since[-request->timestamp]))
        return unsupported(request, err);
    int64_t start = commit_log_start_offset(partition->log);
    switch (request->timestamp) {
    case TIMESTAMP_LATEST: return latest(partition, request, out, err);
    case TIMESTAMP_EARLIEST:
    case TIMESTAMP_EARLIEST_LOCAL:
        *out = (struct timestamp_offset){-1, start, commit_log_epoch_of(partition->log, start)};
        return CAFKA_OK;
    case TIMESTAMP_LATEST_TIERED: /* there is no tiered storage */
    case TIMESTAMP_EARLIEST_PENDING_UPLOAD: return CAFKA_OK;
    default: return by_time(partition, request, out, err);
    }
}

int partition_epoch_end(struct partition *partition, int32_t current_leader_epoch, int32_t epoch,
                        struct epoch_end *out, cafka_error *err)
{
    *out = (struct epoch_end){-1, -1};
    int rc = partition_check_epoch(partition, current_leader_epoch, true, err);
    if (!rc)
        *out = commit_log_epoch_end(partition->log, epoch);
    return rc;
}

int partition_delete_records(struct partition *partition, int64_t offset, int64_t *low_watermark,
                             cafka_error *err)
{
    *low_watermark = -1;
    int rc = partition_check_epoch(partition, -1, true, err);
    if (rc)
        return rc;
    const struct log_config *config = commit_log_config(partition->log);
    if (config->cleanup_compact && !config->cleanup_delete)
        return error_set(err, ERR_POLICY_VIOLATION,
                         "records of %s-%d can't be deleted: it is compacted", partition->topic,
                         partition->index);
    if (offset < -1)
        return error_set(err, ERR_OFFSET_OUT_OF_RANGE, "offset %lld can't be deleted up to",
                         (long long)offset);
    if (offset == -1)
        offset = commit_log_high_watermark(partition->log);
    rc = commit_log_advance_start(partition->log, offset, err);
    if (rc)
        return rc;
    *low_watermark = commit_log_start_offset(partition->log);
    partition_changed(partition);
    return CAFKA_OK;
}
