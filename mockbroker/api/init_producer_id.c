/*
 * init_producer_id.c - InitProducerId: a new id for an idempotent producer.
 *
 * Ids come from blocks that the controller gives out. A transactional id needs the transaction
 * coordinator, which is not there yet: the client is told so and may ask again.
 *
 * Source: kafka.coordinator.transaction.TransactionCoordinator.handleInitProducerId.
 */
#include "protocol/messages/InitProducerId.h"

#include "mockbroker/api/api.h"
#include "mockbroker/broker.h"
#include "mockbroker/cluster.h"
#include "mockbroker/controller/controller.h"
#include "protocol/error_codes.h"
#include "util/alloc.h"

/* What is left of the broker's block. Gone with the broker, as in Kafka: ids may be skipped. */
struct producer_ids {
    int64_t next, end;
};

static int next_id(struct broker *broker, int64_t *id)
{
    struct producer_ids *ids = broker->producer_ids;
    if (!ids)
        ids = broker->producer_ids = mem_zalloc(sizeof *ids);
    if (!ids)
        return CAFKA_ERR_MEMORY;
    if (ids->next == ids->end) {
        int64_t first;
        int rc =
            controller_allocate_producer_ids(broker->cluster->controller, broker->id, &first, NULL);
        if (rc)
            return rc;
        ids->next = first;
        ids->end = first + PRODUCER_ID_BLOCK;
    }
    *id = ids->next++;
    return CAFKA_OK;
}

void api_init_producer_id(struct request_context *ctx)
{
    const struct init_producer_id_request *in = ctx->body;
    struct init_producer_id_response out;
    int64_t id = -1;
    init_producer_id_response_init(&out);
    out.producer_epoch = -1;
    if (in->transactional_id.data && !in->transactional_id.size)
        out.error_code = ERR_INVALID_REQUEST;
    else if (in->transactional_id.data)
        out.error_code = ERR_COORDINATOR_NOT_AVAILABLE;
    else if (next_id(ctx->broker, &id))
        out.error_code = ERR_COORDINATOR_LOAD_IN_PROGRESS; /* no block of ids could be had */
    else
        out.producer_epoch = 0;
    out.producer_id = id;
    request_respond(ctx, &out);
}
